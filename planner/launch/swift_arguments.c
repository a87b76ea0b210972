/* swift_arguments.c - see swift_arguments.h; launch formats, section 4. */
#include "planner/launch/swift_arguments.h"

#include "costmodel/model/presets.h"
#include "planner/launch/argument_map.h"
#include "planner/rules/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOOL "true|false|True|False|1|0|yes|no"
#define ROW(name, kind, num_values, defaults, choices)                                                                 \
    {name, TPP_LAUNCH_OPTION_##kind, num_values, TPP_RELEASE_V2_6, TPP_RELEASE_MAIN, defaults, choices},
static const struct tpp_launch_option rows[] = {
#include "planner/launch/swift_options.inc"
};
#undef ROW

/* Names of 3.x, which 4.x refuses. */
static const struct {
    const char *old_name, *new_name;
} renames[] = {
    {"--load", "--mcore_model"},
    {"--save", "--output_dir"},
    {"--load_safetensors", "--model, which loads its weights"},
    {"--train_type", "--tuner_type"},
    {"--adapter_load", "--mcore_adapter"},
    {"--ref_load", "--mcore_ref_model"},
    {"--ref_adapter_load", "--mcore_ref_adapter"},
    {"--max_epochs", "--num_train_epochs"},
    {"--save_interval", "--save_steps"},
    {"--eval_interval", "--eval_steps"},
    {"--log_interval", "--logging_steps"},
    {"--num_workers", "--dataloader_num_workers"},
    {"--no_data_sharding", "--data_sharding false"},
    {"--seq_length", "--max_length"},
    {"--num_layers_per_virtual_pipeline_stage", "--virtual_pipeline_model_parallel_size"},
    {"--num_virtual_stages_per_pipeline_rank", "--virtual_pipeline_model_parallel_size"},
    {"--microbatch_group_size_per_virtual_pipeline_stage", "--microbatch_group_size_per_vp_stage"},
    {"--no_masked_softmax_fusion", "--masked_softmax_fusion false"},
    {"--no_bias_dropout_fusion", "--bias_dropout_fusion false"},
    {"--no_bias_swiglu_fusion", "--bias_activation_fusion false"},
    {"--no_rope_fusion", "--apply_rope_fusion false"},
    {"--no_gradient_accumulation_fusion", "--gradient_accumulation_fusion false"},
    {"--no_initialization", "--perform_initialization"},
    {"--distributed_timeout_minutes", "--ddp_timeout"},
    {"--distributed_backend", "--ddp_backend"},
    {"--use_flash_attn", "--attention_backend flash"},
};

static int compare_name(const void *name, const void *row)
{
    return strcmp(name, ((const struct tpp_launch_option *)row)->name);
}

const struct tpp_launch_option *tpp_swift_option_find(const char *name)
{
    return bsearch(name, rows, sizeof rows / sizeof *rows, sizeof *rows, compare_name);
}

static const char *nearest(const char *name)
{
    const char *names[sizeof rows / sizeof *rows + 1];
    size_t count = sizeof rows / sizeof *rows;
    for (size_t i = 0; i < sizeof renames / sizeof *renames; i++) {
        if (strcmp(renames[i].old_name, name) == 0)
            return renames[i].new_name;
    }
    for (size_t i = 0; i < count; i++)
        names[i] = rows[i].name;
    names[count] = NULL;
    return tpp_text_nearest(name, names);
}

#define RULE(field) offsetof(struct tpp_megatron_settings, rules.field)
#define HERE(field) offsetof(struct tpp_megatron_settings, field)

static const struct tpp_argument_mapping mappings[] = {
    {"--account_for_embedding_in_pipeline_split", TPP_SET_SWITCH, RULE(account_for_embedding), NULL},
    {"--account_for_loss_in_pipeline_split", TPP_SET_SWITCH, RULE(account_for_loss), NULL},
    {"--align_grad_reduce", TPP_SET_SWITCH, RULE(align_grad_reduce), NULL},
    {"--accumulate_allreduce_grads_in_fp32", TPP_SET_SWITCH, HERE(gradients_in_fp32), NULL},
    {"--attention_backend", TPP_SET_SPECIAL, 0, NULL},
    {"--bf16", TPP_SET_SWITCH, RULE(bf16), NULL},
    {"--context_parallel_size", TPP_SET_NUMBER, RULE(context_parallel), NULL},
    {"--cp_comm_type", TPP_SET_BITS, RULE(context_types), "p2p|all_gather|a2a|a2a+p2p"},
    {"--cross_entropy_fusion_impl", TPP_SET_SPECIAL, 0, NULL},
    {"--cross_entropy_loss_fusion", TPP_SET_SWITCH, HERE(cross_entropy_fusion), NULL},
    {"--data_parallel_sharding_strategy", TPP_SET_CHOICE, HERE(sharding),
     "no_shard|optim|optim_grads|optim_grads_params"},
    {"--decoder_first_pipeline_num_layers", TPP_SET_NUMBER, RULE(first_stage_layers), NULL},
    {"--decoder_last_pipeline_num_layers", TPP_SET_NUMBER, RULE(last_stage_layers), NULL},
    {"--exp_avg_dtype", TPP_ADD_VARIANT, RULE(narrow_state), "fp32"},
    {"--exp_avg_sq_dtype", TPP_ADD_VARIANT, RULE(narrow_state), "fp32"},
    {"--expert_model_parallel_size", TPP_SET_NUMBER, RULE(expert_parallel), NULL},
    {"--expert_tensor_parallel_size", TPP_SET_NUMBER, RULE(expert_tensor_parallel), NULL},
    {"--fp16", TPP_SET_SWITCH, RULE(fp16), NULL},
    {"--fp8_format", TPP_SET_CHOICE, RULE(fp8), "none|e4m3|hybrid"},
    {"--fp8_param_gather", TPP_SET_SWITCH, RULE(fp8_param_gather), NULL},
    {"--fp8_recipe", TPP_SET_CHOICE, RULE(fp8_recipe), "delayed|tensorwise|mxfp8|blockwise|custom"},
    {"--global_batch_size", TPP_SET_NUMBER, RULE(global_batch_size), NULL},
    {"--gradient_accumulation_fusion", TPP_SET_SWITCH, RULE(gradient_accumulation_fusion), NULL},
    {"--lora_rank", TPP_SET_NUMBER, HERE(lora_rank), NULL},
    {"--main_grads_dtype", TPP_SET_SPECIAL, 0, NULL},
    {"--main_params_dtype", TPP_ADD_VARIANT, RULE(narrow_state), "fp32"},
    {"--max_length", TPP_SET_NUMBER, RULE(sequence_length), NULL},
    {"--micro_batch_size", TPP_SET_NUMBER, RULE(micro_batch_size), NULL},
    {"--microbatch_group_size_per_vp_stage", TPP_SET_NUMBER, RULE(microbatch_group_size), NULL},
    {"--moe_enable_deepep", TPP_SET_SWITCH, RULE(enable_deepep), NULL},
    {"--moe_expert_capacity_factor", TPP_SET_GIVEN, RULE(has_capacity_factor), NULL},
    {"--moe_pad_expert_input_to_capacity", TPP_SET_SWITCH, RULE(pad_to_capacity), NULL},
    {"--moe_shared_expert_overlap", TPP_SET_SWITCH, RULE(shared_expert_overlap), NULL},
    {"--moe_token_dispatcher_type", TPP_SET_CHOICE, RULE(dispatcher), "allgather|alltoall|alltoall_seq|flex"},
    {"--mtp_num_layers", TPP_SET_NUMBER, RULE(mtp_num_layers), NULL},
    {"--optimizer", TPP_SET_CHOICE, RULE(optimizer), "adam|sgd|muon|dist_muon"},
    {"--optimizer_cpu_offload", TPP_SET_SWITCH, RULE(optimizer_cpu_offload), NULL},
    {"--optimizer_offload_fraction", TPP_SET_DOUBLE, RULE(optimizer_offload_fraction), NULL},
    {"--overlap_grad_reduce", TPP_SET_SWITCH, RULE(overlap_grad_reduce), NULL},
    {"--overlap_param_gather", TPP_SET_SWITCH, RULE(overlap_param_gather), NULL},
    {"--packing_length", TPP_SET_NUMBER, HERE(packing_length), NULL},
    {"--pipeline_model_parallel_layout", TPP_SET_SPECIAL, 0, NULL},
    {"--pipeline_model_parallel_size", TPP_SET_NUMBER, RULE(pipeline_parallel), NULL},
    {"--recompute_granularity", TPP_SET_CHOICE, RULE(recompute), "none|selective|full"},
    {"--recompute_method", TPP_SET_CHOICE, RULE(recompute_method), "none|uniform|block"},
    {"--recompute_modules", TPP_SET_BITS, RULE(recompute_modules),
     "core_attn|moe_act|layernorm|mla_up_proj|mlp|moe|shared_experts|gdn_norm_out"},
    {"--recompute_num_layers", TPP_SET_NUMBER, RULE(recompute_num_layers), NULL},
    {"--sequence_parallel", TPP_SET_SWITCH, RULE(sequence_parallel), NULL},
    {"--target_modules", TPP_SET_SPECIAL, 0, NULL},
    {"--tensor_model_parallel_size", TPP_SET_NUMBER, RULE(tensor_parallel), NULL},
    {"--tp_comm_overlap", TPP_SET_SWITCH, RULE(tp_comm_overlap), NULL},
    {"--tuner_type", TPP_SET_VARIANT, HERE(trains_adapters), "full"},
    {"--use_distributed_optimizer", TPP_SET_SWITCH, RULE(distributed_optimizer), NULL},
    {"--use_megatron_fsdp", TPP_SET_SWITCH, RULE(megatron_fsdp), NULL},
    {"--use_precision_aware_optimizer", TPP_SET_SWITCH, RULE(precision_aware_optimizer), NULL},
    {"--virtual_pipeline_model_parallel_size", TPP_SET_NUMBER, RULE(virtual_stages_per_rank), NULL},
};

static const char *const needed_options[] = {
    "--tensor_model_parallel_size",
    "--pipeline_model_parallel_size",
    "--context_parallel_size",
    "--expert_model_parallel_size",
    "--expert_tensor_parallel_size",
    "--virtual_pipeline_model_parallel_size",
    "--micro_batch_size",
    "--global_batch_size",
    "--max_length",
    "--recompute_granularity",
    NULL,
};

/* By Megatron Core's names of the layers. */
static enum tpp_lora_targets targets_of(const struct tpp_argument *a)
{
    bool has_qkv = false, has_proj = false, has_mlp = false;
    for (size_t i = 0; i < a->num_values; i++) {
        const char *value = a->values[i].text;
        has_qkv = has_qkv || strcmp(value, "linear_qkv") == 0;
        has_proj = has_proj || strcmp(value, "linear_proj") == 0;
        has_mlp = has_mlp || strncmp(value, "linear_fc", 9) == 0 || strcmp(value, "all-linear") == 0;
    }
    return !has_qkv || has_mlp ? TPP_LORA_ALL_LINEAR : has_proj ? TPP_LORA_ATTENTION : TPP_LORA_QKV;
}

static void read_special(const struct tpp_argument *a, struct tpp_megatron_settings *s)
{
    const char *name = a->option->name, *value = a->num_values > 0 ? a->values[0].text : "";
    if (strcmp(name, "--pipeline_model_parallel_layout") == 0)
        s->rules.pipeline_layout = value;
    else if (strcmp(name, "--cross_entropy_fusion_impl") == 0)
        s->rules.cross_entropy_fusion_te = strcmp(value, "te") == 0;
    else if (strcmp(name, "--main_grads_dtype") == 0)
        tpp_megatron_read_main_gradients(value, s);
    else if (strcmp(name, "--target_modules") == 0)
        s->lora_targets = targets_of(a);
    else if (strncmp(value, "flash", 5) == 0) { /* flash_2, flash_3, flash_4 pin a version */
        s->attention = TPP_MEGATRON_ATTENTION_FLASH;
        s->flash_3 = strcmp(value, "flash_3") == 0;
    } else
        s->attention = strcmp(value, "unfused") == 0 ? TPP_MEGATRON_ATTENTION_UNFUSED
                       : strcmp(value, "local") == 0 ? TPP_MEGATRON_ATTENTION_LOCAL
                                                     : TPP_MEGATRON_ATTENTION_AUTO;
}

/* The defaults that differ from Megatron-LM's. */
static struct tpp_megatron_settings defaults(const char *entry)
{
    struct tpp_megatron_settings s = tpp_megatron_defaults(TPP_FRAMEWORK_MS_SWIFT, TPP_RELEASE_NEWEST);
    s.rules.global_batch_size = 16;
    s.rules.recompute = TPP_RULE_GRANULARITY_SELECTIVE;
    s.rules.distributed_optimizer = true;
    s.rules.bf16 = true;
    s.rules.dispatcher = TPP_RULE_ALLTOALL;
    s.rules.grouped_gemm = true;
    s.rules.rope_fusion = false;
    s.rules.num_data_sources = 1;
    s.rules.has_train_iters = true;
    s.cross_entropy_fusion = true;
    s.attention = TPP_MEGATRON_ATTENTION_FLASH;
    s.gives_checkpoint = strcmp(entry, "pt") != 0;
    s.lora_rank = 8;
    s.packing_length = TPP_RULE_UNSET;
    s.hidden_dropout = s.attention_dropout = 0;
    return s;
}

/* An unknown name that 3.x had stops 4.x; one that is in no table may be of a class that is not listed. */
static void judge_renames(struct tpp_problems *problems, size_t first)
{
    for (size_t i = first; i < problems->count; i++) {
        struct tpp_problem *problem = &problems->items[i];
        for (size_t k = 0; k < sizeof renames / sizeof *renames && strcmp(problem->code, "unknown-option") == 0; k++) {
            char name[96];
            snprintf(name, sizeof name, " %s in ", renames[k].old_name);
            if (strstr(problem->message, name) == NULL)
                continue;
            snprintf(problem->code, sizeof problem->code, "renamed-option");
            problem->severity = TPP_SEVERITY_ERROR;
            snprintf(problem->message, sizeof problem->message, "%s is a name of ms-swift 3: release 4 refuses it",
                     renames[k].old_name);
            snprintf(problem->hint, sizeof problem->hint, "write %s", renames[k].new_name);
        }
    }
}

enum tpp_code tpp_swift_read(struct tpp_shell_words words, const struct tpp_shell_script *script, const char *entry,
                             struct tpp_arguments *arguments, struct tpp_megatron_settings *out,
                             struct tpp_problems *problems, struct tpp_error *err)
{
    const struct tpp_argument_dialect dialect = {.framework = "ms-swift",
                                                 .find = tpp_swift_option_find,
                                                 .nearest = nearest,
                                                 .release = TPP_RELEASE_NEWEST,
                                                 .takes_foreign = true};
    const struct tpp_argument_map map = {mappings, sizeof mappings / sizeof *mappings, needed_options, read_special};
    const size_t first = problems->count;
    enum tpp_code code = tpp_arguments_read(words, script, &dialect, arguments, problems, err);
    *out = defaults(entry);
    if (code != TPP_OK)
        return code;
    judge_renames(problems, first);
    tpp_arguments_map(arguments, script, &map, out, problems);
    if (out->packing_length != TPP_RULE_UNSET)
        out->rules.sequence_length = out->packing_length;
    if (out->rules.fp16)
        out->rules.bf16 = false;
    if (out->rules.megatron_fsdp) { /* its checkpoints are DTensors then, by megatron_lm_utils.py */
        out->rules.checkpoint_format = TPP_RULE_FSDP_DTENSOR;
        out->rules.distributed_optimizer = true;
    }
    out->rules.max_position_embeddings = out->rules.sequence_length;
    out->rules.cross_entropy_fusion_te = out->rules.cross_entropy_fusion_te && out->cross_entropy_fusion;
    return TPP_OK;
}

/* Divides by everything, where nothing is known: four layers a chunk, 64 heads a rank. */
static void set_neutral_shape(struct tpp_rule_settings *rules)
{
    int64_t chunks = rules->virtual_stages_per_rank != TPP_RULE_UNSET ? rules->virtual_stages_per_rank : 1;
    int64_t first = rules->first_stage_layers != TPP_RULE_UNSET ? rules->first_stage_layers : 4 * chunks;
    int64_t last = rules->last_stage_layers != TPP_RULE_UNSET ? rules->last_stage_layers : 4 * chunks;
    if (rules->num_layers == 0)
        rules->num_layers =
            rules->pipeline_parallel > 1 ? first + last + 4 * chunks * (rules->pipeline_parallel - 2) : first;
    if (rules->pipeline_layout != NULL)
        rules->num_layers = tpp_layout_read(rules->pipeline_layout).num_layers;
    rules->num_attention_heads = rules->num_query_groups = 64 * rules->tensor_parallel * rules->context_parallel;
    rules->hidden_size = 64 * rules->num_attention_heads;
    rules->ffn_hidden_size = 4 * rules->hidden_size;
    rules->num_experts = rules->expert_parallel > 1 ? 8 * rules->expert_parallel : TPP_RULE_UNSET;
}

/* One that every size divides, where none is given. */
static void set_neutral_length(struct tpp_rule_settings *rules)
{
    if (rules->sequence_length == 0)
        rules->sequence_length = rules->max_position_embeddings =
            128 * rules->tensor_parallel * rules->context_parallel;
}

static bool is_size(int64_t value)
{
    return value == TPP_RULE_UNSET || (value >= 1 && value <= 4096);
}

void tpp_swift_set_shape(struct tpp_megatron_settings *settings, const struct tpp_model *model)
{
    struct tpp_rule_settings *rules = &settings->rules, of_model;
    struct tpp_job job = tpp_job_defaults();
    const struct tpp_stack stack = {.framework = TPP_FRAMEWORK_MS_SWIFT, .transformer_engine = true};
    rules->group_query_attention = true;
    rules->swiglu = true;
    rules->linear_bias = false;
    rules->position = TPP_RULE_POSITION_ROPE;
    rules->rms_norm = true;
    if (is_size(rules->tensor_parallel) && is_size(rules->context_parallel))
        set_neutral_length(rules);
    if (model == NULL) {
        if (is_size(rules->tensor_parallel) && is_size(rules->context_parallel) && is_size(rules->pipeline_parallel) &&
            is_size(rules->expert_parallel) && is_size(rules->virtual_stages_per_rank) &&
            is_size(rules->first_stage_layers) && is_size(rules->last_stage_layers))
            set_neutral_shape(rules);
        return;
    }
    tpp_rule_settings_for_job(model, &job, &stack, rules->compute_capability, &of_model);
    rules->num_layers = of_model.num_layers;
    rules->hidden_size = of_model.hidden_size;
    rules->num_attention_heads = of_model.num_attention_heads;
    rules->group_query_attention = of_model.group_query_attention;
    rules->num_query_groups = of_model.num_query_groups;
    rules->kv_channels = of_model.kv_channels;
    rules->ffn_hidden_size = of_model.ffn_hidden_size;
    rules->swiglu = of_model.swiglu;
    rules->multi_latent_attention = of_model.multi_latent_attention;
    rules->num_experts = of_model.num_experts;
    rules->experts_per_token = of_model.experts_per_token;
    rules->router_pre_softmax = of_model.router_pre_softmax; /* of the model, too */
    rules->moe_ffn_hidden_size = of_model.moe_ffn_hidden_size;
    rules->shared_expert_hidden_size = of_model.shared_expert_hidden_size;
    rules->layer_pattern_length = of_model.layer_pattern_length;
    rules->has_dense_layers = of_model.has_dense_layers;
}

const struct tpp_model *tpp_swift_model(const struct tpp_argument *argument)
{
    static const char *const endings[] = {"", "-instruct", "-base", "-chat"};
    char name[96];
    if (argument == NULL || argument->num_values == 0 || argument->values[0].note != 0)
        return NULL;
    const char *slash = strrchr(argument->values[0].text, '/');
    snprintf(name, sizeof name, "%s", slash != NULL ? slash + 1 : argument->values[0].text);
    for (char *c = name; *c != '\0'; c++)
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t length = strlen(name), ending = strlen(endings[i]);
        if (length <= ending || strcmp(name + length - ending, endings[i]) != 0)
            continue;
        name[length - ending] = '\0';
        if (tpp_model_preset(name) != NULL)
            return tpp_model_preset(name);
        name[length - ending] = endings[i][0];
    }
    return NULL;
}
