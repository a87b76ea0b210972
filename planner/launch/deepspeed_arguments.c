/* deepspeed_arguments.c - see deepspeed_arguments.h; launch formats, section 2. */
#include "planner/launch/deepspeed_arguments.h"

#include "planner/launch/argument_map.h"
#include "planner/launch/deepspeed_config.h"

#include <stdlib.h>
#include <string.h>

enum fork { FORK_BOTH, FORK_FIRST, FORK_BLOOM };

struct row {
    struct tpp_launch_option option; /* releases mean nothing here */
    enum fork fork;
};

#define ROW(name, kind, num_values, fork, defaults, choices)                                                           \
    {{name, TPP_LAUNCH_OPTION_##kind, num_values, TPP_RELEASE_V2_6, TPP_RELEASE_MAIN, defaults, choices}, FORK_##fork},
static const struct row rows[] = {
#include "planner/launch/deepspeed_options.inc"
};
#undef ROW

static int compare_name(const void *name, const void *row)
{
    return strcmp(name, ((const struct row *)row)->option.name);
}

static const struct row *find_row(const char *name)
{
    return bsearch(name, rows, sizeof rows / sizeof *rows, sizeof *rows, compare_name);
}

const struct tpp_launch_option *tpp_deepspeed_option_find(const char *name)
{
    const struct row *row = find_row(name);
    return row != NULL ? &row->option : NULL;
}

static const struct tpp_launch_option *find_first(const char *name)
{
    const struct row *row = find_row(name);
    return row != NULL && row->fork != FORK_BLOOM ? &row->option : NULL;
}

static const struct tpp_launch_option *find_bloom(const char *name)
{
    const struct row *row = find_row(name);
    return row != NULL && row->fork != FORK_FIRST ? &row->option : NULL;
}

static const char *nearest(const char *name)
{
    const char *names[sizeof rows / sizeof *rows + 1];
    size_t count = sizeof rows / sizeof *rows;
    for (size_t i = 0; i < count; i++)
        names[i] = rows[i].option.name;
    names[count] = NULL;
    return tpp_text_nearest(name, names);
}

#define RULE(field) offsetof(struct tpp_megatron_settings, rules.field)
#define HERE(field) offsetof(struct tpp_megatron_settings, field)

static const struct tpp_argument_mapping mappings[] = {
    {"--attention-dropout", TPP_SET_DOUBLE, HERE(attention_dropout), NULL},
    {"--bf16", TPP_SET_TRUE, RULE(bf16), NULL},
    {"--checkpoint-activations", TPP_SET_TRUE, HERE(checkpoint_activations), NULL},
    {"--checkpoint-num-layers", TPP_SET_NUMBER, HERE(checkpoint_num_layers), NULL},
    {"--cpu-optimizer", TPP_SET_TRUE, RULE(optimizer_cpu_offload), NULL},
    {"--DDP-impl", TPP_SET_VARIANT, HERE(foreign_ddp), "local"},
    {"--data-path", TPP_COUNT_DATA, 0, NULL},
    {"--deepspeed", TPP_SET_TRUE, HERE(deepspeed), NULL},
    {"--deepspeed-activation-checkpointing", TPP_SET_TRUE, HERE(deepspeed_checkpointing), NULL},
    {"--disable-bias-linear", TPP_SET_FALSE, RULE(linear_bias), NULL},
    {"--ds-sequence-parallel-size", TPP_SET_NUMBER, RULE(context_parallel), NULL},
    {"--embed-layernorm", TPP_SET_TRUE, HERE(embedding_norm), NULL},
    {"--enable-expert-tensor-parallelism", TPP_SET_TRUE, HERE(cuts_experts), NULL},
    {"--enable-zbh1-pipeline", TPP_SET_TRUE, HERE(zero_bubble), NULL},
    {"--expert-interval", TPP_SET_NUMBER, HERE(moe_layer_period), NULL},
    {"--ffn-hidden-size", TPP_SET_NUMBER, RULE(ffn_hidden_size), NULL},
    {"--finetune", TPP_SET_TRUE, HERE(gives_checkpoint), NULL},
    {"--fp16", TPP_SET_TRUE, RULE(fp16), NULL},
    {"--global-batch-size", TPP_SET_NUMBER, RULE(global_batch_size), NULL},
    {"--hidden-dropout", TPP_SET_DOUBLE, HERE(hidden_dropout), NULL},
    {"--hidden-size", TPP_SET_NUMBER, RULE(hidden_size), NULL},
    {"--kv-channels", TPP_SET_NUMBER, RULE(kv_channels), NULL},
    {"--layernorm-epsilon", TPP_SET_DOUBLE, HERE(norm_epsilon), NULL},
    {"--make-vocab-size-divisible-by", TPP_SET_NUMBER, HERE(vocabulary_multiple), NULL},
    {"--max-position-embeddings", TPP_SET_NUMBER, RULE(max_position_embeddings), NULL},
    {"--merge-file", TPP_SET_GIVEN, HERE(merge_file), NULL},
    {"--micro-batch-size", TPP_SET_NUMBER, RULE(micro_batch_size), NULL},
    {"--moe-expert-parallel-size", TPP_SET_NUMBER, RULE(expert_parallel), NULL},
    {"--no-pipeline-parallel", TPP_SET_TRUE, HERE(no_pipeline_engine), NULL},
    {"--no-position-embedding", TPP_SET_TRUE, HERE(no_position_embedding), NULL},
    {"--normalization", TPP_SET_VARIANT, RULE(rms_norm), "layernorm"},
    {"--num-attention-heads", TPP_SET_NUMBER, RULE(num_attention_heads), NULL},
    {"--num-experts", TPP_SET_SPECIAL, 0, NULL},
    {"--num-key-value-heads", TPP_SET_SPECIAL, 0, NULL},
    {"--num-layers", TPP_SET_NUMBER, RULE(num_layers), NULL},
    {"--num-layers-per-virtual-pipeline-stage", TPP_SET_NUMBER, RULE(layers_per_virtual_stage), NULL},
    {"--pad-vocab-size-to", TPP_SET_NUMBER, HERE(padded_vocab_size), NULL},
    {"--pipeline-model-parallel-size", TPP_SET_NUMBER, RULE(pipeline_parallel), NULL},
    {"--position-embedding-type", TPP_SET_SPECIAL, 0, NULL},
    {"--rampup-batch-size", TPP_SET_SPECIAL, 0, NULL},
    {"--recompute-activations", TPP_SET_SPECIAL, 0, NULL},
    {"--recompute-granularity", TPP_SET_CHOICE, RULE(recompute), "none|selective|full"},
    {"--recompute-method", TPP_SET_CHOICE, RULE(recompute_method), "none|uniform|block"},
    {"--recompute-num-layers", TPP_SET_NUMBER, RULE(recompute_num_layers), NULL},
    {"--rotary-percent", TPP_SET_DOUBLE, HERE(rotary_fraction), NULL},
    {"--rotary-position-embeddings-theta", TPP_SET_DOUBLE, HERE(rotary_base), NULL},
    {"--seq-length", TPP_SET_NUMBER, RULE(sequence_length), NULL},
    {"--sequence-parallel", TPP_SET_TRUE, RULE(sequence_parallel), NULL},
    {"--squared-relu", TPP_SET_TRUE, RULE(squared_relu), NULL},
    {"--swiglu", TPP_SET_TRUE, RULE(swiglu), NULL},
    {"--tensor-model-parallel-size", TPP_SET_NUMBER, RULE(tensor_parallel), NULL},
    {"--topk", TPP_SET_NUMBER, RULE(experts_per_token), NULL},
    {"--train-iters", TPP_SET_GIVEN, RULE(has_train_iters), NULL},
    {"--train-samples", TPP_SET_GIVEN, RULE(has_train_samples), NULL},
    {"--untie-embeddings-and-output-weights", TPP_SET_TRUE, RULE(untied_embeddings), NULL},
    {"--use-flash-attn", TPP_SET_TRUE, HERE(flash_attention), NULL},
    {"--use-flash-attn-triton", TPP_SET_TRUE, HERE(flash_attention), NULL},
    {"--use-flash-attn-v1", TPP_SET_TRUE, HERE(flash_attention), NULL},
    {"--use-flash-attn-v2", TPP_SET_TRUE, HERE(flash_attention), NULL},
    {"--use-rotary-position-embeddings", TPP_SET_SPECIAL, 0, NULL},
    {"--vocab-size", TPP_SET_NUMBER, HERE(vocab_size), NULL},
    {"--zero-stage", TPP_SET_NUMBER, RULE(zero_stage), NULL},
};

static const char *const needed_options[] = {
    "--tensor-model-parallel-size",
    "--pipeline-model-parallel-size",
    "--ds-sequence-parallel-size",
    "--moe-expert-parallel-size",
    "--micro-batch-size",
    "--global-batch-size",
    "--num-layers",
    "--hidden-size",
    "--num-attention-heads",
    "--num-key-value-heads",
    "--ffn-hidden-size",
    "--seq-length",
    "--num-experts",
    "--zero-stage",
    NULL,
};

/* "8" or a number for each MoE layer: the largest stands for all. 1 is a dense model. */
static void read_experts(const struct tpp_argument *a, struct tpp_rule_settings *rules)
{
    int64_t most = 1, number;
    for (size_t i = 0; i < a->num_values; i++) {
        if (tpp_argument_integer(a->values[i].text, &number) && number > most)
            most = number;
    }
    rules->num_experts = most > 1 ? most : TPP_RULE_UNSET;
}

static void read_special(const struct tpp_argument *a, struct tpp_megatron_settings *s)
{
    const char *name = a->option->name, *value = a->num_values > 0 ? a->values[0].text : "";
    struct tpp_rule_settings *rules = &s->rules;
    if (strcmp(name, "--num-experts") == 0) {
        read_experts(a, rules);
    } else if (strcmp(name, "--num-key-value-heads") == 0) {
        rules->group_query_attention = true;
        tpp_argument_integer(value, &rules->num_query_groups);
    } else if (strcmp(name, "--rampup-batch-size") == 0 && a->num_values == 3) {
        tpp_argument_integer(a->values[0].text, &rules->rampup_start);
        tpp_argument_integer(a->values[1].text, &rules->rampup_increment);
    } else if (strcmp(name, "--recompute-activations") == 0) {
        rules->recompute = TPP_RULE_GRANULARITY_SELECTIVE;
    } else if (strcmp(name, "--use-rotary-position-embeddings") == 0) {
        rules->position = TPP_RULE_POSITION_ROPE;
    } else if (strcmp(name, "--position-embedding-type") == 0) {
        rules->position = strcmp(value, "rotary") == 0 ? TPP_RULE_POSITION_ROPE : TPP_RULE_POSITION_LEARNED;
        s->alibi = strcmp(value, "alibi") == 0;
    }
}

static bool is_bloom(struct tpp_shell_words words)
{
    for (size_t i = 0; i < words.count; i++) {
        const struct row *row = find_row(words.items[i].text);
        if (row != NULL && row->fork == FORK_BLOOM)
            return true;
    }
    return false;
}

/* What follows from several options: checkpointing of layers is full recomputation, without --deepspeed there is no
 * engine, and without --no-pipeline-parallel it is the pipeline's. */
static void complete(struct tpp_megatron_settings *s)
{
    struct tpp_rule_settings *rules = &s->rules;
    if (s->checkpoint_activations) {
        rules->recompute = TPP_RULE_GRANULARITY_FULL;
        rules->recompute_method = TPP_RULE_METHOD_UNIFORM;
        rules->recompute_num_layers = s->checkpoint_num_layers;
    }
    rules->pipeline_engine = s->deepspeed && !s->no_pipeline_engine;
    if (!s->deepspeed) {
        rules->zero_stage = 0;
        rules->pipeline_engine = rules->pipeline_parallel > 1; /* Megatron's own schedule: any number of stages */
    }
    if (rules->num_experts != TPP_RULE_UNSET && !s->cuts_experts)
        rules->expert_tensor_parallel = 1;
    if (rules->num_experts != TPP_RULE_UNSET)
        rules->has_dense_layers = s->moe_layer_period > 1;
    if (rules->context_parallel > 1)
        rules->context_types = TPP_RULE_CONTEXT_A2A; /* Ulysses */
    rules->moe_ffn_hidden_size = TPP_RULE_UNSET;
    s->has_pattern = true;
}

enum tpp_code tpp_deepspeed_read(struct tpp_shell_words words, const struct tpp_shell_script *script,
                                 struct tpp_arguments *arguments, struct tpp_megatron_settings *out,
                                 struct tpp_problems *problems, struct tpp_error *err)
{
    const struct tpp_argument_dialect dialect = {.framework = "Megatron-DeepSpeed",
                                                 .find = is_bloom(words) ? find_bloom : find_first,
                                                 .nearest = nearest,
                                                 .release = TPP_RELEASE_NEWEST};
    const struct tpp_argument_map map = {mappings, sizeof mappings / sizeof *mappings, needed_options, read_special};
    enum tpp_code code = tpp_arguments_read(words, script, &dialect, arguments, problems, err);
    *out = tpp_megatron_defaults(TPP_FRAMEWORK_MEGATRON_DEEPSPEED, TPP_RELEASE_NEWEST);
    out->rules.zero_stage = 1;
    out->rules.experts_per_token = 1;
    out->moe_layer_period = 2;
    if (code != TPP_OK)
        return code;
    tpp_arguments_map(arguments, script, &map, out, problems);
    complete(out);
    tpp_deepspeed_config_read(tpp_argument_find(arguments, "--deepspeed_config"), script, &out->config, problems);
    out->written_zero_stage = out->rules.zero_stage;
    if (out->config.is_known && out->deepspeed) /* MD-6: the engine asks the configuration */
        out->rules.zero_stage = out->config.zero_stage;
    out->rules.optimizer_cpu_offload = out->rules.optimizer_cpu_offload || out->config.offloads_optimizer;
    return TPP_OK;
}
