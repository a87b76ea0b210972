/* bridge_arguments.c - see bridge_arguments.h. */
#include "planner/launch/bridge_arguments.h"

#include "planner/launch/argument_map.h"
#include "planner/launch/bridge_precision.h"
#include "planner/launch/graph_modules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOOL "true|false|True|False"
#define ROW(name, kind, num_values, defaults, choices)                                                                 \
    {name, TPP_LAUNCH_OPTION_##kind, num_values, TPP_RELEASE_V2_6, TPP_RELEASE_MAIN, defaults, choices},
static const struct tpp_launch_option rows[] = {
#include "planner/launch/bridge_options.inc"
};
#undef ROW
#define NUM_ROWS (sizeof rows / sizeof *rows)

static const struct {
    const char *alias, *name;
} aliases[] = {
    {"-tp", "--tensor_model_parallel_size"},
    {"-pp", "--pipeline_model_parallel_size"},
    {"-cp", "--context_parallel_size"},
    {"-vp", "--virtual_pipeline_model_parallel_size"},
    {"-ep", "--expert_model_parallel_size"},
    {"-etp", "--expert_tensor_parallel_size"},
    {"-gb", "--global_batch_size"},
    {"-mb", "--micro_batch_size"},
    {"-ms", "--max_steps"},
    {"-sl", "--seq_length"},
};

static int compare_name(const void *name, const void *row)
{
    return strcmp(name, ((const struct tpp_launch_option *)row)->name);
}

const struct tpp_launch_option *tpp_bridge_option_find(const char *name)
{
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        if (strcmp(name, aliases[i].alias) == 0)
            name = aliases[i].name;
    }
    return bsearch(name, rows, NUM_ROWS, sizeof *rows, compare_name);
}

#define RULE(field) offsetof(struct tpp_megatron_settings, rules.field)
#define HERE(field) offsetof(struct tpp_megatron_settings, field)

/* The options in front: an override of the same key wins, wherever it stands. */
static const struct tpp_argument_mapping option_mappings[] = {
    {"--context_parallel_size", TPP_SET_NUMBER, RULE(context_parallel), NULL},
    {"--deterministic", TPP_SET_TRUE, HERE(deterministic), NULL},
    {"--expert_model_parallel_size", TPP_SET_NUMBER, RULE(expert_parallel), NULL},
    {"--expert_tensor_parallel_size", TPP_SET_NUMBER, RULE(expert_tensor_parallel), NULL},
    {"--global_batch_size", TPP_SET_NUMBER, RULE(global_batch_size), NULL},
    {"--micro_batch_size", TPP_SET_NUMBER, RULE(micro_batch_size), NULL},
    {"--pipeline_model_parallel_size", TPP_SET_NUMBER, RULE(pipeline_parallel), NULL},
    {"--seq_length", TPP_SET_NUMBER, RULE(sequence_length), NULL},
    {"--tensor_model_parallel_size", TPP_SET_NUMBER, RULE(tensor_parallel), NULL},
    {"--virtual_pipeline_model_parallel_size", TPP_SET_NUMBER, RULE(virtual_stages_per_rank), NULL},
};

static const struct tpp_argument_mapping key_mappings[] = {
    {"checkpoint.ckpt_format", TPP_SET_CHOICE, RULE(checkpoint_format), "torch_dist|torch|torch_dcp|fsdp_dtensor|zarr"},
    {"ddp.bucket_size", TPP_SET_NUMBER, RULE(ddp_bucket_size), NULL},
    {"ddp.data_parallel_sharding_strategy", TPP_SET_CHOICE, HERE(sharding),
     "no_shard|optim|optim_grads|optim_grads_params"},
    {"ddp.num_distributed_optimizer_instances", TPP_SET_NUMBER, RULE(optimizer_instances), NULL},
    {"ddp.overlap_grad_reduce", TPP_SET_SWITCH, RULE(overlap_grad_reduce), NULL},
    {"ddp.overlap_param_gather", TPP_SET_SWITCH, RULE(overlap_param_gather), NULL},
    {"ddp.use_distributed_optimizer", TPP_SET_SWITCH, RULE(distributed_optimizer), NULL},
    {"ddp.use_megatron_fsdp", TPP_SET_SWITCH, RULE(megatron_fsdp), NULL},
    {"dataset.seq_length", TPP_SET_NUMBER, RULE(sequence_length), NULL},
    {"mixed_precision", TPP_SET_SPECIAL, 0, NULL},
    {"mixed_precision.fp8", TPP_SET_CHOICE, RULE(fp8), "none|e4m3|hybrid"},
    {"mixed_precision.fp8_param_gather", TPP_SET_SWITCH, RULE(fp8_param_gather), NULL},
    {"mixed_precision.fp8_recipe", TPP_SET_CHOICE, RULE(fp8_recipe), "delayed|tensorwise|mxfp8|blockwise|custom"},
    {"mixed_precision.grad_reduce_in_fp32", TPP_SET_SPECIAL, 0, NULL},
    {"model.account_for_embedding_in_pipeline_split", TPP_SET_SWITCH, RULE(account_for_embedding), NULL},
    {"model.account_for_loss_in_pipeline_split", TPP_SET_SWITCH, RULE(account_for_loss), NULL},
    {"model.attention_dropout", TPP_SET_DOUBLE, HERE(attention_dropout), NULL},
    {"model.context_parallel_size", TPP_SET_NUMBER, RULE(context_parallel), NULL},
    {"model.cp_comm_type", TPP_SET_SPECIAL, 0, NULL},
    {"model.cpu_offloading", TPP_SET_SWITCH, HERE(cpu_offloading), NULL},
    {"model.cpu_offloading_num_layers", TPP_SET_NUMBER, RULE(cpu_offload_layers), NULL},
    {"model.cuda_graph_impl", TPP_SET_CHOICE, RULE(cuda_graph), "none|local|transformer_engine|full_iteration"},
    {"model.cuda_graph_modules", TPP_SET_SPECIAL, 0, NULL},
    {"model.cuda_graph_scope", TPP_SET_SPECIAL, 0, NULL},
    {"model.deterministic_mode", TPP_SET_SWITCH, HERE(deterministic), NULL},
    {"model.cross_entropy_loss_fusion", TPP_SET_SWITCH, HERE(cross_entropy_fusion), NULL},
    {"model.expert_model_parallel_size", TPP_SET_NUMBER, RULE(expert_parallel), NULL},
    {"model.expert_tensor_parallel_size", TPP_SET_NUMBER, RULE(expert_tensor_parallel), NULL},
    {"model.hierarchical_context_parallel_sizes", TPP_SET_SPECIAL, 0, NULL},
    {"model.hidden_dropout", TPP_SET_DOUBLE, HERE(hidden_dropout), NULL},
    {"model.make_vocab_size_divisible_by", TPP_SET_NUMBER, HERE(vocabulary_multiple), NULL},
    {"model.microbatch_group_size_per_vp_stage", TPP_SET_NUMBER, RULE(microbatch_group_size), NULL},
    {"model.moe_flex_dispatcher_backend", TPP_SET_CHOICE, RULE(flex_backend), "deepep|hybridep"},
    {"model.moe_expert_capacity_factor", TPP_SET_GIVEN, RULE(has_capacity_factor), NULL},
    {"model.moe_pad_expert_input_to_capacity", TPP_SET_SWITCH, RULE(pad_to_capacity), NULL},
    {"model.moe_shared_expert_overlap", TPP_SET_SWITCH, RULE(shared_expert_overlap), NULL},
    {"model.moe_token_dispatcher_type", TPP_SET_CHOICE, RULE(dispatcher), "allgather|alltoall|alltoall_seq|flex"},
    {"model.mtp_num_layers", TPP_SET_NUMBER, RULE(mtp_num_layers), NULL},
    {"model.num_layers", TPP_SET_NUMBER, RULE(num_layers), NULL}, /* where the recipe's model is not known */
    {"model.num_layers_in_first_pipeline_stage", TPP_SET_NUMBER, RULE(first_stage_layers), NULL},
    {"model.num_layers_in_last_pipeline_stage", TPP_SET_NUMBER, RULE(last_stage_layers), NULL},
    {"model.overlap_moe_expert_parallel_comm", TPP_SET_SWITCH, RULE(overlap_expert_comm), NULL},
    {"model.overlap_p2p_comm", TPP_SET_SWITCH, RULE(overlap_p2p), NULL},
    {"model.pipeline_model_parallel_layout", TPP_SET_SPECIAL, 0, NULL},
    {"model.pipeline_model_parallel_size", TPP_SET_NUMBER, RULE(pipeline_parallel), NULL},
    {"model.recompute_granularity", TPP_SET_CHOICE, RULE(recompute), "none|selective|full"},
    {"model.recompute_method", TPP_SET_CHOICE, RULE(recompute_method), "none|uniform|block"},
    {"model.recompute_modules", TPP_SET_SPECIAL, 0, NULL},
    {"model.recompute_num_layers", TPP_SET_NUMBER, RULE(recompute_num_layers), NULL},
    {"model.sequence_parallel", TPP_SET_SWITCH, RULE(sequence_parallel), NULL},
    {"model.should_pad_vocab", TPP_SET_SPECIAL, 0, NULL},
    {"model.tensor_model_parallel_size", TPP_SET_NUMBER, RULE(tensor_parallel), NULL},
    {"model.tp_comm_overlap", TPP_SET_SWITCH, RULE(tp_comm_overlap), NULL},
    {"model.virtual_pipeline_model_parallel_size", TPP_SET_NUMBER, RULE(virtual_stages_per_rank), NULL},
    {"optimizer.exp_avg_dtype", TPP_SET_SPECIAL, 0, NULL},
    {"optimizer.exp_avg_sq_dtype", TPP_SET_SPECIAL, 0, NULL},
    {"optimizer.main_grads_dtype", TPP_SET_SPECIAL, 0, NULL},
    {"optimizer.main_params_dtype", TPP_SET_SPECIAL, 0, NULL},
    {"optimizer.optimizer_cpu_offload", TPP_SET_SWITCH, RULE(optimizer_cpu_offload), NULL},
    {"optimizer.optimizer_offload_fraction", TPP_SET_DOUBLE, RULE(optimizer_offload_fraction), NULL},
    {"optimizer.use_precision_aware_optimizer", TPP_SET_SWITCH, RULE(precision_aware_optimizer), NULL},
    {"peft.dim", TPP_SET_NUMBER, HERE(lora_rank), NULL},
    {"peft.target_modules", TPP_SET_SPECIAL, 0, NULL},
    {"train.global_batch_size", TPP_SET_NUMBER, RULE(global_batch_size), NULL},
    {"train.micro_batch_size", TPP_SET_NUMBER, RULE(micro_batch_size), NULL},
};

/* These win over their fellows of ddp and model: the recipe's overlap settings are applied last. */
static const struct tpp_argument_mapping overlap_mappings[] = {
    {"comm_overlap.bucket_size", TPP_SET_NUMBER, RULE(ddp_bucket_size), NULL},
    {"comm_overlap.overlap_grad_reduce", TPP_SET_SWITCH, RULE(overlap_grad_reduce), NULL},
    {"comm_overlap.overlap_moe_expert_parallel_comm", TPP_SET_SWITCH, RULE(overlap_expert_comm), NULL},
    {"comm_overlap.overlap_p2p_comm", TPP_SET_SWITCH, RULE(overlap_p2p), NULL},
    {"comm_overlap.overlap_param_gather", TPP_SET_SWITCH, RULE(overlap_param_gather), NULL},
    {"comm_overlap.tp_comm_overlap", TPP_SET_SWITCH, RULE(tp_comm_overlap), NULL},
    {"dist.align_grad_reduce", TPP_SET_SWITCH, RULE(align_grad_reduce), NULL},
    {"dist.use_megatron_fsdp", TPP_SET_SWITCH, RULE(megatron_fsdp), NULL},
};

static const char *const needed[] = {
    "--tensor_model_parallel_size",
    "--pipeline_model_parallel_size",
    "--context_parallel_size",
    "--expert_model_parallel_size",
    "--expert_tensor_parallel_size",
    "--virtual_pipeline_model_parallel_size",
    "--micro_batch_size",
    "--global_batch_size",
    "--seq_length",
    "model.tensor_model_parallel_size",
    "model.pipeline_model_parallel_size",
    "model.context_parallel_size",
    "model.expert_model_parallel_size",
    "model.expert_tensor_parallel_size",
    "model.virtual_pipeline_model_parallel_size",
    "model.recompute_granularity",
    "train.micro_batch_size",
    "train.global_batch_size",
    "dataset.seq_length",
    NULL,
};

/* Bits of the names in "[a,b]" or "a"; unknown ones are the bit behind the last. */
static unsigned bits_of_list(const char *list, const char *words)
{
    unsigned bits = 0;
    while (*list != '\0') {
        char word[64];
        list += strspn(list, "[] ,'\"");
        const size_t length = strcspn(list, "[] ,'\"");
        snprintf(word, sizeof word, "%.*s", (int)(length < 63 ? length : 63), list);
        if (length > 0)
            bits |= 1u << tpp_word_index(words, word);
        list += length;
    }
    return bits;
}

static void set_gradients(bool in_fp32, struct tpp_megatron_settings *s)
{
    s->gradients_in_fp32 = in_fp32;
    s->gradients_in_bf16 = !in_fp32;
}

static bool is_false(const char *value)
{
    return tpp_word_index("false|False|0|no", value) < 4;
}

static bool is_float32(const char *type)
{
    return strcmp(type, "torch.float32") == 0 || strcmp(type, "float32") == 0 || strcmp(type, "fp32") == 0;
}

/* "[2,4]": ranks of the all-to-all, and of the ring. */
static void read_hierarchy(const char *list, struct tpp_rule_settings *rules)
{
    if (*list == '\0')
        return;
    rules->hierarchical_product = 1;
    rules->hierarchical_first = TPP_RULE_UNSET;
    for (list += strcspn(list, "0123456789"); *list != '\0'; list += strcspn(list, "0123456789")) {
        char *end;
        const long long size = strtoll(list, &end, 10);
        if (size < 1 || size > TPP_RULE_MAX_SIZE || rules->hierarchical_product > TPP_RULE_MAX_SIZE) {
            rules->hierarchical_product = 0; /* out of range: refused by name */
            return;
        }
        if (rules->hierarchical_first == TPP_RULE_UNSET)
            rules->hierarchical_first = size;
        rules->hierarchical_product *= size;
        list = end;
    }
}

static void read_graph_modules(const char *list, struct tpp_megatron_settings *s)
{
    while (*list != '\0') {
        char name[32];
        list += strspn(list, "[] ,'\"");
        const size_t length = strcspn(list, "[] ,'\"");
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), list);
        tpp_graph_module_read(name, s);
        list += length;
    }
}

static void read_special(const struct tpp_argument *a, struct tpp_megatron_settings *s)
{
    const char *name = a->option->name, *value = a->num_values > 0 && !a->is_null ? a->values[0].text : "";
    if (strcmp(name, "mixed_precision") == 0) {
        tpp_bridge_read_precision(value, s);
    } else if (strcmp(name, "mixed_precision.grad_reduce_in_fp32") == 0) {
        set_gradients(!is_false(value), s);
    } else if (strncmp(name, "model.cuda_graph_", 17) == 0) {
        read_graph_modules(value, s);
    } else if (strcmp(name, "model.should_pad_vocab") == 0) {
        s->vocabulary_padding = is_false(value) ? TPP_MEGATRON_PADDING_OFF : TPP_MEGATRON_PADDING_ON;
    } else if (strncmp(name, "optimizer.", 10) == 0) { /* types of the precision-aware optimizer's states */
        s->rules.narrow_state = s->rules.narrow_state || !is_float32(value);
    } else if (strcmp(name, "model.pipeline_model_parallel_layout") == 0) {
        s->rules.pipeline_layout = *value != '\0' ? value : NULL;
    } else if (strcmp(name, "model.cp_comm_type") == 0) {
        s->rules.context_types = bits_of_list(*value != '\0' ? value : "p2p", "p2p|all_gather|a2a|a2a+p2p");
    } else if (strcmp(name, "model.hierarchical_context_parallel_sizes") == 0) {
        read_hierarchy(value, &s->rules);
    } else if (strcmp(name, "model.recompute_modules") == 0) {
        s->rules.recompute_modules =
            bits_of_list(value, "core_attn|moe_act|layernorm|mla_up_proj|mlp|moe|shared_experts|gdn_norm_out");
    } else {
        const unsigned bits = bits_of_list(value, "linear_qkv|linear_proj|linear_fc1|linear_fc2");
        s->lora_targets = bits == 1 ? TPP_LORA_QKV : bits == 3 ? TPP_LORA_ATTENTION : TPP_LORA_ALL_LINEAR;
    }
}

static const char *text_of(const struct tpp_arguments *arguments, const char *name)
{
    const struct tpp_argument *argument = tpp_argument_find(arguments, name);
    return argument != NULL && argument->is_known && !argument->is_null ? argument->values[0].text : "";
}

/* What recipes have in common (its recipes/common.py): pre-training, else fine-tuning; what a recipe's name says; and
 * what a known recipe sets. */
static struct tpp_megatron_settings defaults(const struct tpp_arguments *arguments, bool *is_known)
{
    struct tpp_megatron_settings s = tpp_megatron_defaults(TPP_FRAMEWORK_NEMO, TPP_RELEASE_NEWEST);
    const char *mode = text_of(arguments, "--mode"), *recipe = text_of(arguments, "--recipe");
    const bool is_adapter =
        *mode != '\0' ? strcmp(mode, "lora") == 0 || strcmp(mode, "dora") == 0 : strstr(recipe, "_peft") != NULL;
    const bool is_sft = is_adapter || (*mode != '\0' ? strcmp(mode, "sft") == 0 : strstr(recipe, "_sft") != NULL);
    s.rules.global_batch_size = is_sft ? 128 : 32;
    s.rules.micro_batch_size = is_sft ? 1 : 2;
    s.rules.sequence_length = is_sft ? 2048 : 4096;
    s.rules.distributed_optimizer = true;
    s.rules.overlap_grad_reduce = s.rules.overlap_param_gather = !is_sft;
    s.rules.dispatcher = TPP_RULE_ALLTOALL;
    s.rules.grouped_gemm = true;
    s.rules.num_data_sources = 1;
    s.rules.has_train_iters = true;
    s.cross_entropy_fusion = true;
    s.trains_adapters = is_adapter;
    s.gives_checkpoint = is_sft;
    s.lora_rank = 32;
    s.vocabulary_padding = TPP_MEGATRON_PADDING_OF_RECIPE;
    s.lora_targets = TPP_LORA_ALL_LINEAR;
    s.hidden_dropout = s.attention_dropout = 0;
    tpp_bridge_read_precision(strstr(recipe, "_fp8mx") != NULL  ? "bf16_with_mxfp8_mixed"
                              : strstr(recipe, "_fp8") != NULL ? "bf16_with_fp8_current_scaling_mixed"
                                                               : "bf16_mixed",
                              &s);
    *is_known = tpp_bridge_recipe_apply(recipe, &s.rules);
    if (strstr(recipe, "_deterministic") != NULL || tpp_argument_find(arguments, "--deterministic") != NULL) {
        s.deterministic = true; /* recipes/utils/determinism_utils.py */
        s.cross_entropy_fusion = false;
        s.rules.tp_comm_overlap = false;
    }
    return s;
}

/* The sizes of a recipe that is not known are not read. */
static void say_what_is_assumed(const struct tpp_arguments *arguments, struct tpp_problems *problems)
{
    static const struct {
        const char *key, *option;
    } sizes[] = {
        {"model.tensor_model_parallel_size", "--tensor_model_parallel_size"},
        {"model.pipeline_model_parallel_size", "--pipeline_model_parallel_size"},
        {"model.context_parallel_size", "--context_parallel_size"},
        {"train.global_batch_size", "--global_batch_size"},
        {"train.micro_batch_size", "--micro_batch_size"},
        {"dataset.seq_length", "--seq_length"},
    };
    char missing[300] = "";
    size_t length = 0;
    const struct tpp_argument *recipe = tpp_bridge_recipe(arguments);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (tpp_argument_find(arguments, sizes[i].key) == NULL && tpp_argument_find(arguments, sizes[i].option) == NULL)
            length += (size_t)snprintf(missing + length, sizeof missing - length, "%s%s", length > 0 ? ", " : "",
                                       sizes[i].key);
    }
    if (length > 0)
        tpp_problems_add(problems, "recipe-default", TPP_SEVERITY_WARNING, recipe != NULL ? recipe->word->line : 0,
                         "write them as overrides, key=value",
                         "the recipe sets %s: sizes of 1 and the batch and length of common recipes are assumed",
                         missing);
}

/* A key of the sections that plans are made of that is like a known one; Hydra stops at keys that it does not know. */
static void judge_keys(struct tpp_shell_words words, struct tpp_problems *problems)
{
    const char *names[NUM_ROWS + 1];
    size_t count = 0;
    for (size_t i = 0; i < NUM_ROWS; i++) {
        if (rows[i].name[0] != '-')
            names[count++] = rows[i].name;
    }
    names[count] = NULL;
    for (size_t i = 0; i < words.count && problems->count < 200; i++) {
        const char *text = words.items[i].text + strspn(words.items[i].text, "+");
        const size_t length = strcspn(text, "=");
        char key[96];
        const bool has_section =
            strncmp(text, "model.", 6) == 0 || strncmp(text, "ddp.", 4) == 0 || strncmp(text, "train.", 6) == 0;
        if (!has_section || text[length] != '=' || length >= sizeof key)
            continue;
        snprintf(key, sizeof key, "%.*s", (int)length, text);
        const char *near = tpp_bridge_option_find(key) == NULL ? tpp_text_nearest(key, names) : NULL;
        char hint[160];
        snprintf(hint, sizeof hint, "did you mean %s?", near != NULL ? near : "");
        if (near != NULL)
            tpp_problems_add(problems, "unknown-option", TPP_SEVERITY_WARNING, words.items[i].line, hint,
                             "%s is no key that is known here", key);
    }
}

/* The precision is applied over the type of gradients in `ddp`. */
static void judge_gradients(const struct tpp_arguments *arguments, const struct tpp_megatron_settings *s,
                            struct tpp_problems *problems)
{
    const struct tpp_argument *given = tpp_argument_find(arguments, "ddp.grad_reduce_in_fp32");
    const struct tpp_argument *precision = tpp_argument_find(arguments, "mixed_precision");
    const bool is_narrow = s->rules.fp16 ? !s->gradients_in_fp32 : s->gradients_in_bf16;
    if (given == NULL || !given->is_known || given->num_values == 0 || (precision != NULL && precision->is_null) ||
        is_narrow == is_false(given->values[0].text))
        return;
    tpp_problems_add(problems, "dead-setting", TPP_SEVERITY_WARNING, given->word->line,
                     "set grad_reduce_in_fp32 of mixed_precision",
                     "mixed_precision is applied over ddp.grad_reduce_in_fp32: gradients are reduced in %s",
                     !is_narrow      ? "fp32"
                     : s->rules.fp16 ? "fp16"
                                     : "bf16");
}

/* Fine-tuning recipes pack their data set; a word about packing may say that it is not. */
static bool packs_sequences(const struct tpp_megatron_settings *s, struct tpp_shell_words words)
{
    for (size_t i = 0; i < words.count; i++)
        if (strstr(words.items[i].text, "pack") != NULL)
            return false;
    return s->gives_checkpoint;
}

#define MAP(table, needed_names)                                                                                       \
    {                                                                                                                  \
        table, sizeof table / sizeof *table, needed_names, read_special                                                \
    }

enum tpp_code tpp_bridge_read(struct tpp_shell_words words, const struct tpp_shell_script *script,
                              struct tpp_arguments *arguments, struct tpp_megatron_settings *out,
                              struct tpp_problems *problems, struct tpp_error *err)
{
    const struct tpp_argument_dialect dialect = {.framework = "Megatron-Bridge",
                                                 .find = tpp_bridge_option_find,
                                                 .release = TPP_RELEASE_NEWEST,
                                                 .has_overrides = true,
                                                 .takes_foreign = true,
                                                 .is_partial = true};
    const struct tpp_argument_map maps[] = {MAP(option_mappings, needed), MAP(key_mappings, needed),
                                            MAP(overlap_mappings, needed)};
    bool is_known;
    enum tpp_code code = tpp_arguments_read(words, script, &dialect, arguments, problems, err);
    if (code != TPP_OK) {
        *out = tpp_megatron_defaults(TPP_FRAMEWORK_NEMO, TPP_RELEASE_NEWEST);
        return code;
    }
    *out = defaults(arguments, &is_known);
    out->rules.packs_sequences = packs_sequences(out, words);
    judge_keys(words, problems);
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        tpp_arguments_map(arguments, script, &maps[i], out, problems);
    tpp_graph_modules_complete(out);
    judge_gradients(arguments, out, problems);
    if (!out->cpu_offloading)
        out->rules.cpu_offload_layers = 0;
    if (!is_known)
        say_what_is_assumed(arguments, problems);
    const char *precision = tpp_argument_find(arguments, "mixed_precision") != NULL ? "mixed_precision" : "--recipe";
    if (strstr(text_of(arguments, precision), "nvfp4") != NULL)
        tpp_problems_add(problems, "not-modelled", TPP_SEVERITY_WARNING, tpp_argument_line(arguments, precision), "",
                         "NVFP4 is not modelled: the products are costed in bf16");
    if (out->rules.virtual_stages_per_rank == TPP_RULE_UNSET) /* one chunk: sent and received in one batch */
        out->rules.overlap_p2p = true;
    out->rules.max_position_embeddings = out->rules.sequence_length;
    return TPP_OK;
}
