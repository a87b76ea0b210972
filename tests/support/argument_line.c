/* argument_line.c - see argument_line.h. */
#include "argument_line.h"

#include "planner/launch/options.h"

#include <stdlib.h>
#include <string.h>

enum target {
    SET_NUMBER, /* int64_t */
    SET_DOUBLE,
    SET_TRUE,
    SET_FALSE,
    SET_CHOICE, /* enum: index in `words` */
    SET_BITS,   /* unsigned: bits of `words`, the last one for unknown words */
    SET_GIVEN,  /* bool: the option is there */
    IGNORE,
    SPECIAL,
};

struct mapping {
    const char *name;
    enum target target;
    size_t offset;
    const char *words;
};

#define AT(field) offsetof(struct tpp_rule_settings, field)

static const struct mapping mappings[] = {
    {"--tensor-model-parallel-size", SET_NUMBER, AT(tensor_parallel), NULL},
    {"--pipeline-model-parallel-size", SET_NUMBER, AT(pipeline_parallel), NULL},
    {"--context-parallel-size", SET_NUMBER, AT(context_parallel), NULL},
    {"--expert-model-parallel-size", SET_NUMBER, AT(expert_parallel), NULL},
    {"--expert-tensor-parallel-size", SET_NUMBER, AT(expert_tensor_parallel), NULL},
    {"--num-layers-per-virtual-pipeline-stage", SET_NUMBER, AT(layers_per_virtual_stage), NULL},
    {"--num-virtual-stages-per-pipeline-rank", SET_NUMBER, AT(virtual_stages_per_rank), NULL},
    {"--decoder-first-pipeline-num-layers", SET_NUMBER, AT(first_stage_layers), NULL},
    {"--decoder-last-pipeline-num-layers", SET_NUMBER, AT(last_stage_layers), NULL},
    {"--microbatch-group-size-per-virtual-pipeline-stage", SET_NUMBER, AT(microbatch_group_size), NULL},
    {"--account-for-embedding-in-pipeline-split", SET_TRUE, AT(account_for_embedding), NULL},
    {"--account-for-loss-in-pipeline-split", SET_TRUE, AT(account_for_loss), NULL},
    {"--no-overlap-p2p-communication", SET_FALSE, AT(overlap_p2p), NULL},
    {"--overlap-p2p-communication-warmup-flush", SET_TRUE, AT(overlap_p2p_warmup_flush), NULL},
    {"--defer-embedding-wgrad-compute", SET_TRUE, AT(defer_embedding_wgrad), NULL},
    {"--wgrad-deferral-limit", SET_NUMBER, AT(wgrad_deferral_limit), NULL},
    {"--sequence-parallel", SET_TRUE, AT(sequence_parallel), NULL},
    {"--use-tp-pp-dp-mapping", SET_TRUE, AT(pipeline_before_data), NULL},
    {"--tp-comm-overlap", SET_TRUE, AT(tp_comm_overlap), NULL},
    {"--micro-batch-size", SET_NUMBER, AT(micro_batch_size), NULL},
    {"--global-batch-size", SET_NUMBER, AT(global_batch_size), NULL},
    {"--decrease-batch-size-if-needed", SET_TRUE, AT(decrease_batch_size), NULL},
    {"--step-batch-size-schedule", SET_GIVEN, AT(step_batch_size_schedule), NULL},
    {"--train-iters", SET_GIVEN, AT(has_train_iters), NULL},
    {"--train-samples", SET_GIVEN, AT(has_train_samples), NULL},
    {"--lr-warmup-samples", SET_GIVEN, AT(has_lr_warmup_samples), NULL},
    {"--num-layers", SET_NUMBER, AT(num_layers), NULL},
    {"--hidden-size", SET_NUMBER, AT(hidden_size), NULL},
    {"--num-attention-heads", SET_NUMBER, AT(num_attention_heads), NULL},
    {"--ffn-hidden-size", SET_NUMBER, AT(ffn_hidden_size), NULL},
    {"--kv-channels", SET_NUMBER, AT(kv_channels), NULL},
    {"--group-query-attention", SET_TRUE, AT(group_query_attention), NULL},
    {"--num-query-groups", SET_NUMBER, AT(num_query_groups), NULL},
    {"--seq-length", SET_NUMBER, AT(sequence_length), NULL},
    {"--max-position-embeddings", SET_NUMBER, AT(max_position_embeddings), NULL},
    {"--swiglu", SET_TRUE, AT(swiglu), NULL},
    {"--squared-relu", SET_TRUE, AT(squared_relu), NULL},
    {"--quick-geglu", SET_TRUE, AT(quick_geglu), NULL},
    {"--disable-bias-linear", SET_FALSE, AT(linear_bias), NULL},
    {"--untie-embeddings-and-output-weights", SET_TRUE, AT(untied_embeddings), NULL},
    {"--position-embedding-type", SET_CHOICE, AT(position), "learned_absolute|rope|none|relative|mrope|yarn"},
    {"--normalization", SET_CHOICE, AT(rms_norm), "LayerNorm|RMSNorm"},
    {"--transformer-impl", SET_CHOICE, AT(local_transformer), "transformer_engine|local"},
    {"--multi-latent-attention", SET_TRUE, AT(multi_latent_attention), NULL},
    {"--no-rope-fusion", SET_FALSE, AT(rope_fusion), NULL},
    {"--mtp-num-layers", SET_NUMBER, AT(mtp_num_layers), NULL},
    {"--num-experts", SET_NUMBER, AT(num_experts), NULL},
    {"--moe-router-topk", SET_NUMBER, AT(experts_per_token), NULL},
    {"--moe-ffn-hidden-size", SET_NUMBER, AT(moe_ffn_hidden_size), NULL},
    {"--moe-shared-expert-intermediate-size", SET_NUMBER, AT(shared_expert_hidden_size), NULL},
    {"--moe-grouped-gemm", SET_TRUE, AT(grouped_gemm), NULL},
    {"--moe-shared-expert-overlap", SET_TRUE, AT(shared_expert_overlap), NULL},
    {"--moe-router-pre-softmax", SET_TRUE, AT(router_pre_softmax), NULL},
    {"--moe-router-enable-expert-bias", SET_TRUE, AT(router_expert_bias), NULL},
    {"--moe-pad-expert-input-to-capacity", SET_TRUE, AT(pad_to_capacity), NULL},
    {"--moe-enable-deepep", SET_TRUE, AT(enable_deepep), NULL},
    {"--moe-expert-capacity-factor", SET_GIVEN, AT(has_capacity_factor), NULL},
    {"--moe-token-dispatcher-type", SET_CHOICE, AT(dispatcher), "allgather|alltoall|alltoall_seq|flex"},
    {"--moe-flex-dispatcher-backend", SET_CHOICE, AT(flex_backend), "deepep|hybridep|ncclep"},
    {"--moe-router-score-function", SET_CHOICE, AT(score_function), "softmax|sigmoid|sqrtsoftplus"},
    {"--moe-router-load-balancing-type", SET_CHOICE, AT(load_balancing),
     "aux_loss|seq_aux_loss|global_aux_loss|none|sinkhorn|quantile_balancing"},
    {"--moe-router-num-groups", SET_NUMBER, AT(router_num_groups), NULL},
    {"--moe-router-group-topk", SET_NUMBER, AT(router_group_topk), NULL},
    {"--overlap-moe-expert-parallel-comm", SET_TRUE, AT(overlap_expert_comm), NULL},
    {"--delay-wgrad-compute", SET_TRUE, AT(delay_wgrad), NULL},
    {"--no-bias-dropout-fusion", SET_FALSE, AT(bias_dropout_fusion), NULL},
    {"--bf16", SET_TRUE, AT(bf16), NULL},
    {"--fp16", SET_TRUE, AT(fp16), NULL},
    {"--fp8-format", SET_CHOICE, AT(fp8), "none|e4m3|hybrid"},
    {"--fp8-recipe", SET_CHOICE, AT(fp8_recipe), "delayed|tensorwise|mxfp8|blockwise|custom"},
    {"--fp8-param-gather", SET_TRUE, AT(fp8_param_gather), NULL},
    {"--first-last-layers-bf16", SET_TRUE, AT(first_last_layers_bf16), NULL},
    {"--recompute-granularity", SET_CHOICE, AT(recompute), "none|selective|full"},
    {"--recompute-method", SET_CHOICE, AT(recompute_method), "none|uniform|block"},
    {"--recompute-num-layers", SET_NUMBER, AT(recompute_num_layers), NULL},
    {"--recompute-modules", SET_BITS, AT(recompute_modules),
     "core_attn|moe_act|layernorm|mla_up_proj|mlp|moe|shared_experts|gdn_norm_out"},
    {"--distribute-saved-activations", SET_TRUE, AT(distribute_saved_activations), NULL},
    {"--cpu-offloading-num-layers", SET_NUMBER, AT(cpu_offload_layers), NULL},
    {"--cuda-graph-impl", SET_CHOICE, AT(cuda_graph), "none|local|transformer_engine|full_iteration"},
    {"--use-distributed-optimizer", SET_TRUE, AT(distributed_optimizer), NULL},
    {"--overlap-grad-reduce", SET_TRUE, AT(overlap_grad_reduce), NULL},
    {"--overlap-param-gather", SET_TRUE, AT(overlap_param_gather), NULL},
    {"--overlap-param-gather-with-optimizer-step", SET_TRUE, AT(overlap_param_gather_with_step), NULL},
    {"--use-precision-aware-optimizer", SET_TRUE, AT(precision_aware_optimizer), NULL},
    {"--exp-avg-dtype", SET_CHOICE, AT(narrow_state), "fp32|bf16"},
    {"--optimizer-cpu-offload", SET_TRUE, AT(optimizer_cpu_offload), NULL},
    {"--use-torch-fsdp2", SET_TRUE, AT(torch_fsdp2), NULL},
    {"--use-megatron-fsdp", SET_TRUE, AT(megatron_fsdp), NULL},
    {"--no-gradient-accumulation-fusion", SET_FALSE, AT(gradient_accumulation_fusion), NULL},
    {"--no-async-tensor-model-parallel-allreduce", SET_FALSE, AT(async_tensor_all_reduce), NULL},
    {"--use-mcore-models", SET_TRUE, AT(mcore_models), NULL},
    {"--optimizer", SET_CHOICE, AT(optimizer), "adam|sgd|muon|dist_muon|lion"},
    {"--ckpt-format", SET_CHOICE, AT(checkpoint_format), "torch_dist|torch|torch_dcp|fsdp_dtensor|zarr"},
    {"--num-distributed-optimizer-instances", SET_NUMBER, AT(optimizer_instances), NULL},
    {"--ddp-bucket-size", SET_NUMBER, AT(ddp_bucket_size), NULL},
    {"--ddp-num-buckets", SET_NUMBER, AT(ddp_num_buckets), NULL},
    {"--pipeline-model-parallel-layout", SPECIAL, 0, NULL},
    {"--cp-comm-type", SPECIAL, 0, NULL},
    {"--hierarchical-context-parallel-sizes", SPECIAL, 0, NULL},
    {"--rampup-batch-size", SPECIAL, 0, NULL},
    {"--recompute-activations", SPECIAL, 0, NULL},
    {"--moe-layer-freq", SPECIAL, 0, NULL},
    {"--mock-data", SPECIAL, 0, NULL},
    {"--data-path", SPECIAL, 0, NULL},
    {"--cross-entropy-loss-fusion", SPECIAL, 0, NULL},
    {"--cross-entropy-fusion-impl", SPECIAL, 0, NULL},
    {"--norm-epsilon", IGNORE, 0, NULL},
    {"--rotary-base", IGNORE, 0, NULL},
    {"--rotary-percent", IGNORE, 0, NULL},
    {"--vocab-size", IGNORE, 0, NULL},
    {"--make-vocab-size-divisible-by", IGNORE, 0, NULL},
    {"--attention-dropout", IGNORE, 0, NULL},
    {"--hidden-dropout", IGNORE, 0, NULL},
    {"--qk-layernorm", IGNORE, 0, NULL},
    {"--add-qkv-bias", IGNORE, 0, NULL},
    {"--attention-backend", IGNORE, 0, NULL},
    {"--use-flash-attn", IGNORE, 0, NULL},
    {"--save", SET_GIVEN, AT(has_save), NULL},
    {"--load", IGNORE, 0, NULL},
    {"--save-interval", SET_GIVEN, AT(has_save_interval), NULL},
    {"--log-interval", IGNORE, 0, NULL},
    {"--log-throughput", IGNORE, 0, NULL},
    {"--tokenizer-type", IGNORE, 0, NULL},
    {"--tokenizer-model", IGNORE, 0, NULL},
    {"--pretrained-checkpoint", IGNORE, 0, NULL},
    {"--moe-shared-expert-gate", IGNORE, 0, NULL},
    {"--torch-fsdp2-no-reshard-after-forward", IGNORE, 0, NULL},
    {"--optimizer-offload-fraction", IGNORE, 0, NULL},
    {"--lr", SET_DOUBLE, AT(lr), NULL},
    {"--min-lr", SET_DOUBLE, AT(min_lr), NULL},
    {"--seed", IGNORE, 0, NULL},
    {"--q-lora-rank", IGNORE, 0, NULL},
    {"--kv-lora-rank", IGNORE, 0, NULL},
    {"--data-parallel-sharding-strategy", IGNORE, 0, NULL},
    {"--standalone-embedding-stage", IGNORE, 0, NULL},
    {"--no-position-embedding", IGNORE, 0, NULL},
    {"--grad-reduce-in-bf16", IGNORE, 0, NULL},
};

/* An integer as Python's int() takes it: digits with single underscores between them. */
static bool read_integer(const char *text, int64_t *out)
{
    char digits[32];
    size_t count = 0;
    for (const char *c = text; *c != '\0'; c++) {
        bool separates = *c == '_' && c > text && c[-1] != '_' && c[1] != '\0';
        if (separates)
            continue;
        if (count + 1 == sizeof digits || !((*c >= '0' && *c <= '9') || (c == text && *c == '-')))
            return false;
        digits[count++] = *c;
    }
    digits[count] = '\0';
    *out = strtoll(digits, NULL, 10);
    return count > 0 && strcmp(digits, "-") != 0;
}

static bool read_float(const char *text)
{
    char *end;
    strtod(text, &end);
    return end != text && *end == '\0';
}

/* Index of `word` in "a|b|c", or the number of words. */
static unsigned index_of(const char *words, const char *word)
{
    unsigned index = 0;
    for (;;) {
        size_t length = strcspn(words, "|");
        if (strlen(word) == length && memcmp(words, word, length) == 0)
            return index;
        index++;
        if (words[length] == '\0')
            return index;
        words += length + 1;
    }
}

struct reader {
    char *words[512];
    size_t count;
    struct tpp_rule_settings *settings;
    bool fusion, implementation_te;
};

/* "[0]*3+[1]*58" with parentheses; good enough for lists of literals. */
static void read_pattern(const char *text, struct tpp_rule_settings *settings)
{
    int64_t number;
    if (read_integer(text, &number)) {
        settings->has_dense_layers = number > 1;
        return;
    }
    settings->layer_pattern_length = 0;
    settings->has_dense_layers = false;
    while (*text != '\0') {
        if (*text != '[') {
            text++;
            continue;
        }
        int64_t items = 0, times = 1;
        for (text++; *text != ']' && *text != '\0'; text++) {
            items += *text == '0' || *text == '1';
            settings->has_dense_layers |= *text == '0';
        }
        text += *text == ']';
        if (*text == '*')
            times = strtoll(text + 1, NULL, 10);
        settings->layer_pattern_length += items * times;
    }
}

static void read_sizes(char *const *values, size_t count, struct tpp_rule_settings *settings)
{
    settings->hierarchical_product = 1;
    for (size_t i = 0; i < count; i++) {
        int64_t size = strtoll(values[i], NULL, 10);
        settings->hierarchical_first = i == 0 ? size : settings->hierarchical_first;
        settings->hierarchical_product *= size;
    }
}

static void read_context_types(char *const *values, size_t count, struct tpp_rule_settings *settings)
{
    static const unsigned bits[] = {TPP_RULE_CONTEXT_P2P,        TPP_RULE_CONTEXT_A2A,     TPP_RULE_CONTEXT_ALL_GATHER,
                                    TPP_RULE_CONTEXT_ALL_GATHER, TPP_RULE_CONTEXT_A2A_P2P, TPP_RULE_CONTEXT_UNKNOWN};
    settings->context_types = 0;
    settings->num_context_types = (int64_t)count;
    for (size_t i = 0; i < count; i++)
        settings->context_types |= bits[index_of("p2p|a2a|allgather|all_gather|a2a+p2p", values[i])];
}

static void set_special(struct reader *reader, const char *name, char *const *values, size_t count)
{
    struct tpp_rule_settings *settings = reader->settings;
    if (strcmp(name, "--pipeline-model-parallel-layout") == 0) {
        settings->pipeline_layout = values[0];
    } else if (strcmp(name, "--cp-comm-type") == 0) {
        read_context_types(values, count, settings);
    } else if (strcmp(name, "--hierarchical-context-parallel-sizes") == 0) {
        read_sizes(values, count, settings);
    } else if (strcmp(name, "--rampup-batch-size") == 0) {
        settings->rampup_start = strtoll(values[0], NULL, 10);
        settings->rampup_increment = strtoll(values[1], NULL, 10);
    } else if (strcmp(name, "--recompute-activations") == 0) {
        settings->recompute = TPP_RULE_GRANULARITY_SELECTIVE;
    } else if (strcmp(name, "--moe-layer-freq") == 0) {
        read_pattern(values[0], settings);
    } else if (strcmp(name, "--cross-entropy-loss-fusion") == 0) {
        reader->fusion = true;
    } else if (strcmp(name, "--cross-entropy-fusion-impl") == 0) {
        reader->implementation_te = strcmp(values[0], "te") == 0;
    } else {
        settings->num_data_sources++;
    }
}

static void set_field(struct reader *reader, const struct mapping *mapping, char *const *values, size_t count)
{
    void *field = (char *)reader->settings + mapping->offset;
    unsigned bits = 0;
    switch (mapping->target) {
    case SET_NUMBER:
        read_integer(values[0], field);
        break;
    case SET_DOUBLE:
        *(double *)field = strtod(values[0], NULL);
        break;
    case SET_TRUE:
    case SET_GIVEN:
        *(bool *)field = true;
        break;
    case SET_FALSE:
        *(bool *)field = false;
        break;
    case SET_CHOICE:
        if (mapping->offset == AT(rms_norm) || mapping->offset == AT(local_transformer) ||
            mapping->offset == AT(narrow_state))
            *(bool *)field = index_of(mapping->words, values[0]) > 0;
        else
            *(unsigned *)field = index_of(mapping->words, values[0]); /* enums of this project are unsigned */
        break;
    case SET_BITS:
        for (size_t i = 0; i < count; i++)
            bits |= 1u << index_of(mapping->words, values[i]);
        *(unsigned *)field = bits;
        break;
    case SPECIAL:
        set_special(reader, mapping->name, values, count);
        break;
    case IGNORE:
        break;
    }
}

static bool values_are_right(const struct tpp_launch_option *option, enum tpp_release release, char *const *values,
                             size_t count)
{
    int64_t number;
    for (size_t i = 0; i < count; i++) {
        if (option->kind == TPP_LAUNCH_OPTION_INT && !read_integer(values[i], &number))
            return false;
        if (option->kind == TPP_LAUNCH_OPTION_FLOAT && !read_float(values[i]))
            return false;
        if (!tpp_launch_option_allows(option, release, values[i]))
            return false;
    }
    return option->num_values == '+' ? count >= 1
                                     : option->num_values == '*' || count == (size_t)(option->num_values - '0');
}

static enum argument_verdict read_option(struct reader *reader, size_t *at, enum tpp_release release, const char **word)
{
    char *name = reader->words[*at], *joined = NULL;
    char *equals = strchr(name, '=');
    char **values = &reader->words[*at + 1];
    size_t count = 0;
    if (equals != NULL) {
        *equals = '\0';
        joined = equals + 1;
        values = &joined;
        count = 1;
    } else {
        while (*at + 1 + count < reader->count && strncmp(reader->words[*at + 1 + count], "--", 2) != 0)
            count++;
    }
    *word = name;
    *at += 1 + (joined == NULL ? count : 0);
    const struct tpp_launch_option *option = tpp_launch_option_find(name);
    const struct tpp_launch_rename *rename = tpp_launch_rename_find(name);
    if (option == NULL || !tpp_launch_option_in(option, release) ||
        (rename != NULL && rename->ends_program && release >= rename->since) ||
        !values_are_right(option, release, values, count))
        return ARGUMENTS_REFUSED;
    for (size_t i = 0; i < sizeof mappings / sizeof *mappings; i++) {
        if (strcmp(mappings[i].name, name) == 0) {
            set_field(reader, &mappings[i], values, count);
            return ARGUMENTS_READ;
        }
    }
    return ARGUMENTS_NOT_COVERED;
}

enum argument_verdict argument_line_read(char *text, enum tpp_release release, struct tpp_rule_settings *settings,
                                         const char **word)
{
    struct reader reader = {.settings = settings};
    for (char *w = strtok(text, " "); w != NULL && reader.count < 512; w = strtok(NULL, " "))
        reader.words[reader.count++] = w;
    for (size_t at = 0; at < reader.count;) {
        enum argument_verdict verdict = read_option(&reader, &at, release, word);
        if (verdict != ARGUMENTS_READ)
            return verdict;
    }
    settings->cross_entropy_fusion_te = reader.fusion && reader.implementation_te;
    return ARGUMENTS_READ;
}
