/* megatron_arguments.c - see megatron_arguments.h. */
#include "planner/launch/megatron_arguments.h"

#include <stdlib.h>
#include <string.h>

enum target {
    SET_NUMBER, /* int64_t */
    SET_DOUBLE,
    SET_TRUE,
    SET_FALSE,
    SET_CHOICE,  /* enum: index in `words` */
    SET_VARIANT, /* bool: the value is not the first of `words` */
    SET_BITS,    /* unsigned: bits of `words`, the last one for unknown words */
    SET_GIVEN,   /* bool: the option is there */
    COUNT_DATA,
    SPECIAL,
};

struct mapping {
    const char *name;
    enum target target;
    size_t offset;
    const char *words;
};

#define RULE(field) offsetof(struct tpp_megatron_settings, rules.field)
#define HERE(field) offsetof(struct tpp_megatron_settings, field)

static const struct mapping mappings[] = {
    {"--account-for-embedding-in-pipeline-split", SET_TRUE, RULE(account_for_embedding), NULL},
    {"--account-for-loss-in-pipeline-split", SET_TRUE, RULE(account_for_loss), NULL},
    {"--add-qkv-bias", SET_TRUE, HERE(qkv_bias), NULL},
    {"--attention-backend", SET_CHOICE, HERE(attention), "auto|flash|fused|unfused|local"},
    {"--attention-dropout", SET_DOUBLE, HERE(attention_dropout), NULL},
    {"--bf16", SET_TRUE, RULE(bf16), NULL},
    {"--ckpt-format", SET_CHOICE, RULE(checkpoint_format), "torch_dist|torch|torch_dcp|fsdp_dtensor|zarr"},
    {"--context-parallel-size", SET_NUMBER, RULE(context_parallel), NULL},
    {"--cp-comm-type", SPECIAL, 0, NULL},
    {"--cpu-offloading-num-layers", SET_NUMBER, RULE(cpu_offload_layers), NULL},
    {"--cross-entropy-fusion-impl", SPECIAL, 0, NULL},
    {"--cross-entropy-loss-fusion", SET_TRUE, HERE(cross_entropy_fusion), NULL},
    {"--cuda-graph-impl", SET_CHOICE, RULE(cuda_graph), "none|local|transformer_engine|full_iteration"},
    {"--data-parallel-sharding-strategy", SET_CHOICE, HERE(sharding), "no_shard|optim|optim_grads|optim_grads_params"},
    {"--data-path", COUNT_DATA, 0, NULL},
    {"--ddp-bucket-size", SET_NUMBER, RULE(ddp_bucket_size), NULL},
    {"--ddp-num-buckets", SET_NUMBER, RULE(ddp_num_buckets), NULL},
    {"--decoder-first-pipeline-num-layers", SET_NUMBER, RULE(first_stage_layers), NULL},
    {"--decoder-last-pipeline-num-layers", SET_NUMBER, RULE(last_stage_layers), NULL},
    {"--decrease-batch-size-if-needed", SET_TRUE, RULE(decrease_batch_size), NULL},
    {"--defer-embedding-wgrad-compute", SET_TRUE, RULE(defer_embedding_wgrad), NULL},
    {"--delay-wgrad-compute", SET_TRUE, RULE(delay_wgrad), NULL},
    {"--disable-bias-linear", SET_FALSE, RULE(linear_bias), NULL},
    {"--distribute-saved-activations", SET_TRUE, RULE(distribute_saved_activations), NULL},
    {"--eval-global-batch-size", SET_NUMBER, RULE(eval_global_batch_size), NULL},
    {"--eval-micro-batch-size", SET_NUMBER, RULE(eval_micro_batch_size), NULL},
    {"--exp-avg-dtype", SET_VARIANT, RULE(narrow_state), "fp32"},
    {"--exp-avg-sq-dtype", SET_VARIANT, RULE(narrow_state), "fp32"},
    {"--expert-model-parallel-size", SET_NUMBER, RULE(expert_parallel), NULL},
    {"--expert-tensor-parallel-num-weight-shards", SET_NUMBER, RULE(expert_weight_shards), NULL},
    {"--expert-tensor-parallel-size", SET_NUMBER, RULE(expert_tensor_parallel), NULL},
    {"--ffn-hidden-size", SET_NUMBER, RULE(ffn_hidden_size), NULL},
    {"--first-last-layers-bf16", SET_TRUE, RULE(first_last_layers_bf16), NULL},
    {"--fp16", SET_TRUE, RULE(fp16), NULL},
    {"--fp4-format", SET_GIVEN, RULE(fp4), NULL},
    {"--fp8-e4m3", SPECIAL, 0, NULL},
    {"--fp8-format", SET_CHOICE, RULE(fp8), "none|e4m3|hybrid"},
    {"--fp8-hybrid", SPECIAL, 0, NULL},
    {"--fp8-param-gather", SET_TRUE, RULE(fp8_param_gather), NULL},
    {"--fp8-recipe", SET_CHOICE, RULE(fp8_recipe), "delayed|tensorwise|mxfp8|blockwise|custom"},
    {"--global-batch-size", SET_NUMBER, RULE(global_batch_size), NULL},
    {"--grad-reduce-in-bf16", SET_TRUE, HERE(gradients_in_bf16), NULL},
    {"--group-query-attention", SET_TRUE, RULE(group_query_attention), NULL},
    {"--hidden-dropout", SET_DOUBLE, HERE(hidden_dropout), NULL},
    {"--hidden-size", SET_NUMBER, RULE(hidden_size), NULL},
    {"--hierarchical-context-parallel-sizes", SPECIAL, 0, NULL},
    {"--kv-channels", SET_NUMBER, RULE(kv_channels), NULL},
    {"--kv-lora-rank", SET_NUMBER, HERE(kv_lora_rank), NULL},
    {"--layernorm-epsilon", SET_DOUBLE, HERE(norm_epsilon), NULL},
    {"--log-throughput", SET_TRUE, HERE(log_throughput), NULL},
    {"--lr", SET_DOUBLE, RULE(lr), NULL},
    {"--lr-decay-iters", SET_GIVEN, RULE(has_lr_decay_iters), NULL},
    {"--lr-decay-samples", SET_GIVEN, RULE(has_lr_decay_samples), NULL},
    {"--lr-warmup-fraction", SET_GIVEN, RULE(has_lr_warmup_fraction), NULL},
    {"--lr-warmup-iters", SPECIAL, 0, NULL},
    {"--lr-warmup-samples", SPECIAL, 0, NULL},
    {"--main-grads-dtype", SET_VARIANT, RULE(narrow_state), "fp32"},
    {"--main-params-dtype", SET_VARIANT, RULE(narrow_state), "fp32"},
    {"--make-vocab-size-divisible-by", SET_NUMBER, HERE(vocabulary_multiple), NULL},
    {"--max-position-embeddings", SET_NUMBER, RULE(max_position_embeddings), NULL},
    {"--merge-file", SET_GIVEN, HERE(merge_file), NULL},
    {"--micro-batch-size", SET_NUMBER, RULE(micro_batch_size), NULL},
    {"--microbatch-group-size-per-virtual-pipeline-stage", SET_NUMBER, RULE(microbatch_group_size), NULL},
    {"--min-lr", SET_DOUBLE, RULE(min_lr), NULL},
    {"--mock-data", COUNT_DATA, 0, NULL},
    {"--moe-enable-deepep", SET_TRUE, RULE(enable_deepep), NULL},
    {"--moe-expert-capacity-factor", SET_GIVEN, RULE(has_capacity_factor), NULL},
    {"--moe-ffn-hidden-size", SET_NUMBER, RULE(moe_ffn_hidden_size), NULL},
    {"--moe-flex-dispatcher-backend", SET_CHOICE, RULE(flex_backend), "deepep|hybridep|ncclep"},
    {"--moe-grouped-gemm", SET_TRUE, RULE(grouped_gemm), NULL},
    {"--moe-layer-freq", SPECIAL, 0, NULL},
    {"--moe-pad-expert-input-to-capacity", SET_TRUE, RULE(pad_to_capacity), NULL},
    {"--moe-router-enable-expert-bias", SET_TRUE, RULE(router_expert_bias), NULL},
    {"--moe-router-group-topk", SET_NUMBER, RULE(router_group_topk), NULL},
    {"--moe-router-load-balancing-type", SET_CHOICE, RULE(load_balancing),
     "aux_loss|seq_aux_loss|global_aux_loss|none|sinkhorn|quantile_balancing"},
    {"--moe-router-num-groups", SET_NUMBER, RULE(router_num_groups), NULL},
    {"--moe-router-pre-softmax", SET_TRUE, RULE(router_pre_softmax), NULL},
    {"--moe-router-score-function", SET_CHOICE, RULE(score_function), "softmax|sigmoid|sqrtsoftplus"},
    {"--moe-router-topk", SET_NUMBER, RULE(experts_per_token), NULL},
    {"--moe-shared-expert-gate", SET_TRUE, HERE(shared_expert_gate), NULL},
    {"--moe-shared-expert-intermediate-size", SET_NUMBER, RULE(shared_expert_hidden_size), NULL},
    {"--moe-shared-expert-overlap", SET_TRUE, RULE(shared_expert_overlap), NULL},
    {"--moe-token-dispatcher-type", SET_CHOICE, RULE(dispatcher), "allgather|alltoall|alltoall_seq|flex"},
    {"--mtp-num-layers", SET_NUMBER, RULE(mtp_num_layers), NULL},
    {"--multi-latent-attention", SET_TRUE, RULE(multi_latent_attention), NULL},
    {"--no-async-tensor-model-parallel-allreduce", SET_FALSE, RULE(async_tensor_all_reduce), NULL},
    {"--no-bias-dropout-fusion", SET_FALSE, RULE(bias_dropout_fusion), NULL},
    {"--no-gradient-accumulation-fusion", SET_FALSE, RULE(gradient_accumulation_fusion), NULL},
    {"--no-masked-softmax-fusion", SET_TRUE, HERE(no_masked_softmax_fusion), NULL},
    {"--no-overlap-p2p-communication", SET_FALSE, RULE(overlap_p2p), NULL},
    {"--no-position-embedding", SET_TRUE, HERE(no_position_embedding), NULL},
    {"--no-rope-fusion", SET_FALSE, RULE(rope_fusion), NULL},
    {"--norm-epsilon", SET_DOUBLE, HERE(norm_epsilon), NULL},
    {"--normalization", SET_VARIANT, RULE(rms_norm), "LayerNorm"},
    {"--num-attention-heads", SET_NUMBER, RULE(num_attention_heads), NULL},
    {"--num-distributed-optimizer-instances", SET_NUMBER, RULE(optimizer_instances), NULL},
    {"--num-experts", SET_NUMBER, RULE(num_experts), NULL},
    {"--num-layers", SET_NUMBER, RULE(num_layers), NULL},
    {"--num-layers-per-virtual-pipeline-stage", SET_NUMBER, RULE(layers_per_virtual_stage), NULL},
    {"--num-query-groups", SET_NUMBER, RULE(num_query_groups), NULL},
    {"--num-virtual-stages-per-pipeline-rank", SET_NUMBER, RULE(virtual_stages_per_rank), NULL},
    {"--optimizer", SET_CHOICE, RULE(optimizer), "adam|sgd|muon|dist_muon|lion"},
    {"--optimizer-cpu-offload", SET_TRUE, RULE(optimizer_cpu_offload), NULL},
    {"--overlap-grad-reduce", SET_TRUE, RULE(overlap_grad_reduce), NULL},
    {"--overlap-moe-expert-parallel-comm", SET_TRUE, RULE(overlap_expert_comm), NULL},
    {"--overlap-p2p-communication-warmup-flush", SET_TRUE, RULE(overlap_p2p_warmup_flush), NULL},
    {"--overlap-param-gather", SET_TRUE, RULE(overlap_param_gather), NULL},
    {"--overlap-param-gather-with-optimizer-step", SET_TRUE, RULE(overlap_param_gather_with_step), NULL},
    {"--padded-vocab-size", SET_NUMBER, HERE(padded_vocab_size), NULL},
    {"--pipeline-model-parallel-layout", SPECIAL, 0, NULL},
    {"--pipeline-model-parallel-size", SET_NUMBER, RULE(pipeline_parallel), NULL},
    {"--position-embedding-type", SET_CHOICE, RULE(position), "learned_absolute|rope|none|relative|mrope|yarn"},
    {"--pretrained-checkpoint", SET_GIVEN, HERE(gives_checkpoint), NULL},
    {"--q-lora-rank", SET_NUMBER, HERE(q_lora_rank), NULL},
    {"--qk-head-dim", SET_NUMBER, HERE(qk_head_dim), NULL},
    {"--qk-layernorm", SET_TRUE, HERE(qk_norm), NULL},
    {"--qk-pos-emb-head-dim", SET_NUMBER, HERE(qk_rope_head_dim), NULL},
    {"--quick-geglu", SET_TRUE, RULE(quick_geglu), NULL},
    {"--rampup-batch-size", SPECIAL, 0, NULL},
    {"--recompute-activations", SPECIAL, 0, NULL},
    {"--recompute-granularity", SET_CHOICE, RULE(recompute), "none|selective|full"},
    {"--recompute-method", SET_CHOICE, RULE(recompute_method), "none|uniform|block"},
    {"--recompute-modules", SET_BITS, RULE(recompute_modules),
     "core_attn|moe_act|layernorm|mla_up_proj|mlp|moe|shared_experts|gdn_norm_out"},
    {"--recompute-num-layers", SET_NUMBER, RULE(recompute_num_layers), NULL},
    {"--rotary-base", SET_DOUBLE, HERE(rotary_base), NULL},
    {"--rotary-percent", SET_DOUBLE, HERE(rotary_fraction), NULL},
    {"--save", SET_GIVEN, RULE(has_save), NULL},
    {"--save-interval", SET_GIVEN, RULE(has_save_interval), NULL},
    {"--seq-length", SET_NUMBER, RULE(sequence_length), NULL},
    {"--sequence-parallel", SET_TRUE, RULE(sequence_parallel), NULL},
    {"--squared-relu", SET_TRUE, RULE(squared_relu), NULL},
    {"--step-batch-size-schedule", SET_GIVEN, RULE(step_batch_size_schedule), NULL},
    {"--swiglu", SET_TRUE, RULE(swiglu), NULL},
    {"--tensor-model-parallel-size", SET_NUMBER, RULE(tensor_parallel), NULL},
    {"--tensor-parallel-num-weight-shards", SET_NUMBER, RULE(tensor_weight_shards), NULL},
    {"--torch-fsdp2-no-reshard-after-forward", SET_TRUE, HERE(keeps_gathered), NULL},
    {"--tp-comm-overlap", SET_TRUE, RULE(tp_comm_overlap), NULL},
    {"--train-data-path", COUNT_DATA, 0, NULL},
    {"--train-iters", SET_GIVEN, RULE(has_train_iters), NULL},
    {"--train-samples", SET_GIVEN, RULE(has_train_samples), NULL},
    {"--transformer-impl", SET_VARIANT, RULE(local_transformer), "transformer_engine"},
    {"--untie-embeddings-and-output-weights", SET_TRUE, RULE(untied_embeddings), NULL},
    {"--use-flash-attn", SET_TRUE, HERE(flash_attention), NULL},
    {"--use-custom-fsdp", SET_TRUE, RULE(megatron_fsdp), NULL},
    {"--use-distributed-optimizer", SET_TRUE, RULE(distributed_optimizer), NULL},
    {"--use-mcore-models", SPECIAL, 0, NULL},
    {"--use-megatron-fsdp", SET_TRUE, RULE(megatron_fsdp), NULL},
    {"--use-precision-aware-optimizer", SET_TRUE, RULE(precision_aware_optimizer), NULL},
    {"--use-rotary-position-embeddings", SPECIAL, 0, NULL},
    {"--use-torch-fsdp2", SET_TRUE, RULE(torch_fsdp2), NULL},
    {"--use-tp-pp-dp-mapping", SET_TRUE, RULE(pipeline_before_data), NULL},
    {"--v-head-dim", SET_NUMBER, HERE(v_head_dim), NULL},
    {"--vocab-size", SET_NUMBER, HERE(vocab_size), NULL},
    {"--wgrad-deferral-limit", SET_NUMBER, RULE(wgrad_deferral_limit), NULL},
};

/* What no prediction can do without: an unknown value of these is an error. */
static const char *const needed[] = {
    "--tensor-model-parallel-size",
    "--pipeline-model-parallel-size",
    "--context-parallel-size",
    "--expert-model-parallel-size",
    "--expert-tensor-parallel-size",
    "--num-layers-per-virtual-pipeline-stage",
    "--num-virtual-stages-per-pipeline-rank",
    "--micro-batch-size",
    "--global-batch-size",
    "--num-layers",
    "--hidden-size",
    "--num-attention-heads",
    "--ffn-hidden-size",
    "--num-query-groups",
    "--seq-length",
    "--max-position-embeddings",
    "--num-experts",
    "--moe-router-topk",
    "--recompute-granularity",
    "--recompute-method",
    "--recompute-num-layers",
};

static bool is_needed(const char *name)
{
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (strcmp(needed[i], name) == 0)
            return true;
    }
    return false;
}

static unsigned count_words(const char *words)
{
    unsigned count = 1;
    for (; *words != '\0'; words++)
        count += *words == '|';
    return count;
}

/* Index of `word` in "a|b|c", or the number of words. */
static unsigned index_of(const char *words, const char *word)
{
    for (unsigned index = 0;; index++) {
        size_t length = strcspn(words, "|");
        if (strlen(word) == length && memcmp(words, word, length) == 0)
            return index;
        if (words[length] == '\0')
            return index + 1;
        words += length + 1;
    }
}

static int64_t integer_of(const char *text)
{
    int64_t value = 0;
    tpp_argument_integer(text, &value);
    return value;
}

/* ---- --moe-layer-freq ---- */

enum { MAX_PATTERN = 4096 };

struct pattern {
    const char *at;
    bool layers[MAX_PATTERN]; /* true: has experts */
    size_t count;
    unsigned depth;
    bool is_wrong;
};

static void repeat(struct pattern *p, size_t begin, int64_t times)
{
    size_t length = p->count - begin;
    if (times < 0 || (length > 0 && (uint64_t)times > MAX_PATTERN / length)) {
        p->is_wrong = true;
        return;
    }
    p->count = begin;
    for (int64_t i = 0; i < times && p->count + length <= MAX_PATTERN; i++) {
        memmove(p->layers + p->count, p->layers + begin, length * sizeof *p->layers);
        p->count += length;
    }
    p->is_wrong = p->is_wrong || (times > 0 && p->count != begin + length * (size_t)times);
}

static void skip_spaces(struct pattern *p)
{
    while (*p->at == ' ')
        p->at++;
}

static void read_list(struct pattern *p)
{
    for (p->at++; *p->at != ']' && *p->at != '\0'; p->at++) {
        if ((*p->at != '0' && *p->at != '1') || p->count == MAX_PATTERN) {
            p->is_wrong = p->is_wrong || (*p->at != ',' && *p->at != ' ');
            continue;
        }
        p->layers[p->count++] = *p->at == '1';
    }
    p->is_wrong = p->is_wrong || *p->at != ']';
    p->at += *p->at == ']';
}

/* [0,1]*3 + ([1]*2+[0])*4: lists, sums, products with a number, parentheses. */
static void read_sum(struct pattern *p)
{
    for (;;) {
        size_t begin = p->count;
        skip_spaces(p);
        if (*p->at == '[') {
            read_list(p);
        } else if (*p->at == '(' && ++p->depth < 32) {
            p->at++;
            read_sum(p);
            p->depth--;
            p->is_wrong = p->is_wrong || *p->at != ')';
            p->at += *p->at == ')';
        } else {
            p->is_wrong = true;
            return;
        }
        for (skip_spaces(p); *p->at == '*' && !p->is_wrong; skip_spaces(p)) {
            char *end;
            long times = strtol(p->at + 1, &end, 10);
            p->is_wrong = p->is_wrong || end == p->at + 1;
            p->at = end;
            repeat(p, begin, times);
        }
        if (*p->at != '+' || p->is_wrong)
            return;
        p->at++;
    }
}

static bool is_pattern_of(const struct pattern *p, size_t first_dense, size_t period)
{
    for (size_t i = 0; i < p->count; i++) {
        if (p->layers[i] != (i >= first_dense && (i + 1) % period == 0))
            return false;
    }
    return true;
}

/* The pattern as models have it (model.h): the first layers are dense, then layer i has experts when (i + 1) mod period
 * is 0. */
static void set_pattern(const struct pattern *p, struct tpp_megatron_settings *s)
{
    size_t first = 0, period = 1;
    while (first < p->count && !p->layers[first])
        first++;
    while (first + period < p->count && !p->layers[first + period])
        period++;
    bool is_whole = is_pattern_of(p, 0, period);
    s->first_dense_layers = is_whole ? 0 : (int64_t)first;
    s->moe_layer_period = (int64_t)period;
    s->is_pattern_read = !p->is_wrong && first < p->count && (is_whole || is_pattern_of(p, first, period));
}

static void read_pattern(const char *text, struct tpp_megatron_settings *s)
{
    int64_t number;
    s->has_pattern = true;
    if (tpp_argument_integer(text, &number)) { /* layer i from 0 has experts when i mod number is 0 */
        s->rules.has_dense_layers = number > 1;
        s->moe_layer_period = number;
        s->is_pattern_read = number == 1;
        return;
    }
    struct pattern *pattern = calloc(1, sizeof *pattern);
    if (pattern == NULL)
        return;
    pattern->at = text;
    read_sum(pattern);
    skip_spaces(pattern);
    pattern->is_wrong = pattern->is_wrong || *pattern->at != '\0';
    s->rules.layer_pattern_length = (int64_t)pattern->count;
    s->rules.has_dense_layers = false;
    for (size_t i = 0; i < pattern->count; i++)
        s->rules.has_dense_layers = s->rules.has_dense_layers || !pattern->layers[i];
    set_pattern(pattern, s);
    free(pattern);
}

/* ---- the rest ---- */

static void read_context_types(const struct tpp_argument *a, struct tpp_rule_settings *s)
{
    static const unsigned bits[] = {TPP_RULE_CONTEXT_P2P,        TPP_RULE_CONTEXT_A2A,     TPP_RULE_CONTEXT_ALL_GATHER,
                                    TPP_RULE_CONTEXT_ALL_GATHER, TPP_RULE_CONTEXT_A2A_P2P, TPP_RULE_CONTEXT_UNKNOWN};
    s->context_types = 0;
    s->num_context_types = (int64_t)a->num_values;
    for (size_t i = 0; i < a->num_values; i++)
        s->context_types |= bits[index_of("p2p|a2a|allgather|all_gather|a2a+p2p", a->values[i].text)];
}

static void read_sizes(const struct tpp_argument *a, struct tpp_rule_settings *s)
{
    s->hierarchical_product = 1;
    for (size_t i = 0; i < a->num_values; i++) {
        int64_t size = integer_of(a->values[i].text);
        if (size < 1 || size > TPP_RULE_MAX_SIZE || s->hierarchical_product > TPP_RULE_MAX_SIZE) {
            s->hierarchical_product = 0;
            return;
        }
        s->hierarchical_first = i == 0 ? size : s->hierarchical_first;
        s->hierarchical_product *= size;
    }
}

static void read_special(const struct tpp_argument *a, struct tpp_megatron_settings *s)
{
    const char *name = a->option->name, *value = a->num_values > 0 ? a->values[0].text : "";
    struct tpp_rule_settings *rules = &s->rules;
    if (strcmp(name, "--pipeline-model-parallel-layout") == 0) {
        rules->pipeline_layout = value;
    } else if (strcmp(name, "--cp-comm-type") == 0) {
        read_context_types(a, rules);
    } else if (strcmp(name, "--hierarchical-context-parallel-sizes") == 0) {
        read_sizes(a, rules);
    } else if (strcmp(name, "--rampup-batch-size") == 0 && a->num_values == 3) {
        rules->rampup_start = integer_of(a->values[0].text);
        rules->rampup_increment = integer_of(a->values[1].text);
    } else if (strcmp(name, "--recompute-activations") == 0) {
        rules->recompute = TPP_RULE_GRANULARITY_SELECTIVE;
    } else if (strcmp(name, "--moe-layer-freq") == 0) {
        read_pattern(value, s);
    } else if (strcmp(name, "--cross-entropy-fusion-impl") == 0) {
        rules->cross_entropy_fusion_te = strcmp(value, "te") == 0; /* counts with the fusion only: see the end */
    } else if (strcmp(name, "--fp8-e4m3") == 0) {
        rules->fp8 = TPP_RULE_FP8_E4M3;
    } else if (strcmp(name, "--fp8-hybrid") == 0) {
        rules->fp8 = TPP_RULE_FP8_HYBRID;
    } else if (strcmp(name, "--use-rotary-position-embeddings") == 0) {
        rules->position = TPP_RULE_POSITION_ROPE;
    } else if (strcmp(name, "--use-mcore-models") == 0) {
        rules->mcore_models = s->use_mcore_models = true;
    } else if (strcmp(name, "--lr-warmup-iters") == 0) {
        rules->has_lr_warmup_iters = integer_of(value) != 0; /* 0 is the default */
    } else if (strcmp(name, "--lr-warmup-samples") == 0) {
        rules->has_lr_warmup_samples = integer_of(value) != 0;
    }
}

static void set_field(const struct tpp_argument *a, const struct mapping *mapping, struct tpp_megatron_settings *s)
{
    void *field = (char *)s + mapping->offset;
    const char *value = a->num_values > 0 ? a->values[0].text : "";
    unsigned bits = 0;
    switch (mapping->target) {
    case SET_NUMBER:
        *(int64_t *)field = integer_of(value);
        break;
    case SET_DOUBLE:
        tpp_argument_number(value, field);
        break;
    case SET_TRUE:
    case SET_GIVEN:
        *(bool *)field = true;
        break;
    case SET_FALSE:
        *(bool *)field = false;
        break;
    case SET_CHOICE:
        if (index_of(mapping->words, value) < count_words(mapping->words))
            *(unsigned *)field = index_of(mapping->words, value); /* enums of this project are unsigned */
        break;
    case SET_VARIANT:
        *(bool *)field = index_of(mapping->words, value) > 0;
        break;
    case SET_BITS:
        for (size_t i = 0; i < a->num_values; i++)
            bits |= 1u << index_of(mapping->words, a->values[i].text);
        *(unsigned *)field = bits;
        break;
    case COUNT_DATA:
        s->rules.num_data_sources++;
        break;
    case SPECIAL:
        read_special(a, s);
        break;
    }
}

static const struct mapping *mapping_of(const char *name)
{
    for (size_t i = 0; i < sizeof mappings / sizeof *mappings; i++) {
        if (strcmp(mappings[i].name, name) == 0)
            return &mappings[i];
    }
    return NULL;
}

static struct tpp_megatron_settings defaults(enum tpp_release release)
{
    struct tpp_megatron_settings s = {.rules = tpp_rule_settings_defaults(TPP_FRAMEWORK_MEGATRON_LM),
                                      .norm_epsilon = 1e-5,
                                      .rotary_base = 10000,
                                      .rotary_fraction = 1,
                                      .vocab_size = TPP_RULE_UNSET,
                                      .padded_vocab_size = TPP_RULE_UNSET,
                                      .vocabulary_multiple = 128,
                                      .moe_layer_period = 1,
                                      .is_pattern_read = true,
                                      .q_lora_rank = 0,
                                      .kv_lora_rank = 32,
                                      .qk_head_dim = 128,
                                      .qk_rope_head_dim = 64,
                                      .v_head_dim = 128,
                                      .hidden_dropout = 0.1,
                                      .attention_dropout = 0.1,
                                      .sharding = TPP_MEGATRON_SHARD_DEFAULT};
    s.rules.local_transformer = release < TPP_RELEASE_0_6;
    return s;
}

static const char *nearest(const char *name)
{
    const char *names[1024];
    size_t count, used = 0;
    const struct tpp_launch_option *options = tpp_launch_options(&count);
    for (size_t i = 0; i < count && used + 1 < sizeof names / sizeof *names; i++)
        names[used++] = options[i].name;
    names[used] = NULL;
    return tpp_text_nearest(name, names);
}

static bool is_own_program(const char *entry)
{
    const char *slash = entry != NULL ? strrchr(entry, '/') : NULL;
    return entry == NULL || strcmp(slash != NULL ? slash + 1 : entry, "pretrain_gpt.py") == 0;
}

enum tpp_code tpp_megatron_read(struct tpp_shell_words words, const struct tpp_shell_script *script, const char *entry,
                                enum tpp_release release, struct tpp_arguments *arguments,
                                struct tpp_megatron_settings *out, struct tpp_problems *problems, struct tpp_error *err)
{
    const struct tpp_argument_dialect dialect = {.framework = "Megatron-LM",
                                                 .find = tpp_launch_option_find,
                                                 .nearest = nearest,
                                                 .release = release,
                                                 .has_releases = true,
                                                 .takes_foreign = !is_own_program(entry)};
    enum tpp_code code = tpp_arguments_read(words, script, &dialect, arguments, problems, err);
    *out = defaults(release);
    for (size_t i = 0; code == TPP_OK && i < arguments->count; i++) {
        const struct tpp_argument *argument = &arguments->items[i];
        const struct mapping *mapping = mapping_of(argument->option->name);
        for (size_t k = 0; k < argument->num_values; k++)
            tpp_argument_explain(script, &argument->values[k], argument->option->name,
                                 is_needed(argument->option->name), problems);
        out->is_incomplete = out->is_incomplete || (!argument->is_known && is_needed(argument->option->name));
        bool needs_value = mapping != NULL && mapping->target != SET_GIVEN && mapping->target != COUNT_DATA;
        bool is_last = tpp_argument_find(arguments, argument->option->name) == argument;
        if (mapping != NULL && is_last && (argument->is_known || !needs_value))
            set_field(argument, mapping, out);
    }
    out->rules.cross_entropy_fusion_te = out->rules.cross_entropy_fusion_te && out->cross_entropy_fusion;
    return code;
}
