/* megatron_arguments.c - see megatron_arguments.h. */
#include "planner/launch/argument_map.h"
#include "planner/launch/graph_modules.h"

#include <stdlib.h>
#include <string.h>

#define RULE(field) offsetof(struct tpp_megatron_settings, rules.field)
#define HERE(field) offsetof(struct tpp_megatron_settings, field)

static const struct tpp_argument_mapping mappings[] = {
    {"--account-for-embedding-in-pipeline-split", TPP_SET_TRUE, RULE(account_for_embedding), NULL},
    {"--account-for-loss-in-pipeline-split", TPP_SET_TRUE, RULE(account_for_loss), NULL},
    {"--accumulate-allreduce-grads-in-fp32", TPP_SET_TRUE, HERE(gradients_in_fp32), NULL},
    {"--activations-checkpoint-method", TPP_SET_SPECIAL, 0, NULL},
    {"--activations-checkpoint-num-layers", TPP_SET_NUMBER, HERE(checkpoint_num_layers), NULL},
    {"--add-qkv-bias", TPP_SET_TRUE, HERE(qkv_bias), NULL},
    {"--attention-backend", TPP_SET_CHOICE, HERE(attention), "auto|flash|fused|unfused|local"},
    {"--attention-dropout", TPP_SET_DOUBLE, HERE(attention_dropout), NULL},
    {"--bf16", TPP_SET_TRUE, RULE(bf16), NULL},
    {"--checkpoint-activations", TPP_SET_TRUE, HERE(checkpoint_activations), NULL},
    {"--ckpt-format", TPP_SET_CHOICE, RULE(checkpoint_format), "torch_dist|torch|torch_dcp|fsdp_dtensor|zarr"},
    {"--context-parallel-size", TPP_SET_NUMBER, RULE(context_parallel), NULL},
    {"--cp-comm-type", TPP_SET_SPECIAL, 0, NULL},
    {"--cpu-offloading-num-layers", TPP_SET_NUMBER, RULE(cpu_offload_layers), NULL},
    {"--cross-entropy-fusion-impl", TPP_SET_SPECIAL, 0, NULL},
    {"--cross-entropy-loss-fusion", TPP_SET_TRUE, HERE(cross_entropy_fusion), NULL},
    {"--cuda-graph-impl", TPP_SET_CHOICE, RULE(cuda_graph), "none|local|transformer_engine|full_iteration"},
    {"--cuda-graph-modules", TPP_SET_SPECIAL, 0, NULL},
    {"--cuda-graph-scope", TPP_SET_SPECIAL, 0, NULL},
    {"--data-parallel-sharding-strategy", TPP_SET_CHOICE, HERE(sharding),
     "no_shard|optim|optim_grads|optim_grads_params"},
    {"--data-path", TPP_COUNT_DATA, 0, NULL},
    {"--ddp-bucket-size", TPP_SET_NUMBER, RULE(ddp_bucket_size), NULL},
    {"--ddp-num-buckets", TPP_SET_NUMBER, RULE(ddp_num_buckets), NULL},
    {"--decoder-first-pipeline-num-layers", TPP_SET_NUMBER, RULE(first_stage_layers), NULL},
    {"--decoder-last-pipeline-num-layers", TPP_SET_NUMBER, RULE(last_stage_layers), NULL},
    {"--decrease-batch-size-if-needed", TPP_SET_TRUE, RULE(decrease_batch_size), NULL},
    {"--defer-embedding-wgrad-compute", TPP_SET_TRUE, RULE(defer_embedding_wgrad), NULL},
    {"--delay-wgrad-compute", TPP_SET_TRUE, RULE(delay_wgrad), NULL},
    {"--deterministic-mode", TPP_SET_TRUE, HERE(deterministic), NULL},
    {"--disable-align-grad-reduce", TPP_SET_FALSE, RULE(align_grad_reduce), NULL},
    {"--disable-bias-linear", TPP_SET_FALSE, RULE(linear_bias), NULL},
    {"--distribute-checkpointed-activations", TPP_SET_TRUE, RULE(distribute_saved_activations), NULL},
    {"--distribute-saved-activations", TPP_SET_TRUE, RULE(distribute_saved_activations), NULL},
    {"--enable-cuda-graph", TPP_SET_SPECIAL, 0, NULL},
    {"--eval-global-batch-size", TPP_SET_NUMBER, RULE(eval_global_batch_size), NULL},
    {"--eval-micro-batch-size", TPP_SET_NUMBER, RULE(eval_micro_batch_size), NULL},
    {"--exp-avg-dtype", TPP_ADD_VARIANT, RULE(narrow_state), "fp32"},
    {"--exp-avg-sq-dtype", TPP_ADD_VARIANT, RULE(narrow_state), "fp32"},
    {"--expert-model-parallel-size", TPP_SET_NUMBER, RULE(expert_parallel), NULL},
    {"--expert-tensor-parallel-num-weight-shards", TPP_SET_NUMBER, RULE(expert_weight_shards), NULL},
    {"--expert-tensor-parallel-size", TPP_SET_NUMBER, RULE(expert_tensor_parallel), NULL},
    {"--external-cuda-graph", TPP_SET_SPECIAL, 0, NULL},
    {"--ffn-hidden-size", TPP_SET_NUMBER, RULE(ffn_hidden_size), NULL},
    {"--first-last-layers-bf16", TPP_SET_TRUE, RULE(first_last_layers_bf16), NULL},
    {"--fp16", TPP_SET_TRUE, RULE(fp16), NULL},
    {"--fp4-format", TPP_SET_GIVEN, RULE(fp4), NULL},
    {"--fp8-e4m3", TPP_SET_SPECIAL, 0, NULL},
    {"--fp8-format", TPP_SET_CHOICE, RULE(fp8), "none|e4m3|hybrid"},
    {"--fp8-hybrid", TPP_SET_SPECIAL, 0, NULL},
    {"--fp8-param-gather", TPP_SET_TRUE, RULE(fp8_param_gather), NULL},
    {"--fp8-recipe", TPP_SET_CHOICE, RULE(fp8_recipe), "delayed|tensorwise|mxfp8|blockwise|custom"},
    {"--global-batch-size", TPP_SET_NUMBER, RULE(global_batch_size), NULL},
    {"--grad-reduce-in-bf16", TPP_SET_TRUE, HERE(gradients_in_bf16), NULL},
    {"--group-query-attention", TPP_SET_TRUE, RULE(group_query_attention), NULL},
    {"--hidden-dropout", TPP_SET_DOUBLE, HERE(hidden_dropout), NULL},
    {"--hidden-size", TPP_SET_NUMBER, RULE(hidden_size), NULL},
    {"--hierarchical-context-parallel-sizes", TPP_SET_SPECIAL, 0, NULL},
    {"--kv-channels", TPP_SET_NUMBER, RULE(kv_channels), NULL},
    {"--kv-lora-rank", TPP_SET_NUMBER, HERE(kv_lora_rank), NULL},
    {"--layernorm-epsilon", TPP_SET_DOUBLE, HERE(norm_epsilon), NULL},
    {"--log-throughput", TPP_SET_TRUE, HERE(log_throughput), NULL},
    {"--lr", TPP_SET_DOUBLE, RULE(lr), NULL},
    {"--lr-decay-iters", TPP_SET_GIVEN, RULE(has_lr_decay_iters), NULL},
    {"--lr-decay-samples", TPP_SET_GIVEN, RULE(has_lr_decay_samples), NULL},
    {"--lr-warmup-fraction", TPP_SET_GIVEN, RULE(has_lr_warmup_fraction), NULL},
    {"--lr-warmup-iters", TPP_SET_SPECIAL, 0, NULL},
    {"--lr-warmup-samples", TPP_SET_SPECIAL, 0, NULL},
    {"--main-grads-dtype", TPP_SET_SPECIAL, 0, NULL},
    {"--main-params-dtype", TPP_ADD_VARIANT, RULE(narrow_state), "fp32"},
    {"--make-vocab-size-divisible-by", TPP_SET_NUMBER, HERE(vocabulary_multiple), NULL},
    {"--max-position-embeddings", TPP_SET_NUMBER, RULE(max_position_embeddings), NULL},
    {"--merge-file", TPP_SET_GIVEN, HERE(merge_file), NULL},
    {"--micro-batch-size", TPP_SET_NUMBER, RULE(micro_batch_size), NULL},
    {"--microbatch-group-size-per-virtual-pipeline-stage", TPP_SET_NUMBER, RULE(microbatch_group_size), NULL},
    {"--min-lr", TPP_SET_DOUBLE, RULE(min_lr), NULL},
    {"--mock-data", TPP_COUNT_DATA, 0, NULL},
    {"--moe-enable-deepep", TPP_SET_TRUE, RULE(enable_deepep), NULL},
    {"--moe-expert-capacity-factor", TPP_SET_GIVEN, RULE(has_capacity_factor), NULL},
    {"--moe-ffn-hidden-size", TPP_SET_NUMBER, RULE(moe_ffn_hidden_size), NULL},
    {"--moe-flex-dispatcher-backend", TPP_SET_CHOICE, RULE(flex_backend), "deepep|hybridep|ncclep"},
    {"--moe-grouped-gemm", TPP_SET_TRUE, RULE(grouped_gemm), NULL},
    {"--moe-layer-freq", TPP_SET_SPECIAL, 0, NULL},
    {"--moe-pad-expert-input-to-capacity", TPP_SET_TRUE, RULE(pad_to_capacity), NULL},
    {"--moe-router-enable-expert-bias", TPP_SET_TRUE, RULE(router_expert_bias), NULL},
    {"--moe-router-group-topk", TPP_SET_NUMBER, RULE(router_group_topk), NULL},
    {"--moe-router-load-balancing-type", TPP_SET_CHOICE, RULE(load_balancing),
     "aux_loss|seq_aux_loss|global_aux_loss|none|sinkhorn|quantile_balancing"},
    {"--moe-router-num-groups", TPP_SET_NUMBER, RULE(router_num_groups), NULL},
    {"--moe-router-pre-softmax", TPP_SET_TRUE, RULE(router_pre_softmax), NULL},
    {"--moe-router-score-function", TPP_SET_CHOICE, RULE(score_function), "softmax|sigmoid|sqrtsoftplus"},
    {"--moe-router-topk", TPP_SET_NUMBER, RULE(experts_per_token), NULL},
    {"--moe-shared-expert-gate", TPP_SET_TRUE, HERE(shared_expert_gate), NULL},
    {"--moe-shared-expert-intermediate-size", TPP_SET_NUMBER, RULE(shared_expert_hidden_size), NULL},
    {"--moe-shared-expert-overlap", TPP_SET_TRUE, RULE(shared_expert_overlap), NULL},
    {"--moe-token-dispatcher-type", TPP_SET_CHOICE, RULE(dispatcher), "allgather|alltoall|alltoall_seq|flex"},
    {"--mtp-num-layers", TPP_SET_NUMBER, RULE(mtp_num_layers), NULL},
    {"--multi-latent-attention", TPP_SET_TRUE, RULE(multi_latent_attention), NULL},
    {"--no-align-grad-reduce", TPP_SET_FALSE, RULE(align_grad_reduce), NULL},
    {"--no-async-tensor-model-parallel-allreduce", TPP_SET_FALSE, RULE(async_tensor_all_reduce), NULL},
    {"--no-bias-dropout-fusion", TPP_SET_FALSE, RULE(bias_dropout_fusion), NULL},
    {"--no-delay-grad-reduce", TPP_SET_FALSE, RULE(align_grad_reduce), NULL},
    {"--no-gradient-accumulation-fusion", TPP_SET_FALSE, RULE(gradient_accumulation_fusion), NULL},
    {"--no-masked-softmax-fusion", TPP_SET_TRUE, HERE(no_masked_softmax_fusion), NULL},
    {"--no-overlap-p2p-communication", TPP_SET_FALSE, RULE(overlap_p2p), NULL},
    {"--no-position-embedding", TPP_SET_TRUE, HERE(no_position_embedding), NULL},
    {"--no-rope-fusion", TPP_SET_FALSE, RULE(rope_fusion), NULL},
    {"--norm-epsilon", TPP_SET_DOUBLE, HERE(norm_epsilon), NULL},
    {"--normalization", TPP_SET_VARIANT, RULE(rms_norm), "LayerNorm"},
    {"--num-attention-heads", TPP_SET_NUMBER, RULE(num_attention_heads), NULL},
    {"--num-distributed-optimizer-instances", TPP_SET_NUMBER, RULE(optimizer_instances), NULL},
    {"--num-experts", TPP_SET_NUMBER, RULE(num_experts), NULL},
    {"--num-layers", TPP_SET_NUMBER, RULE(num_layers), NULL},
    {"--num-layers-per-virtual-pipeline-stage", TPP_SET_NUMBER, RULE(layers_per_virtual_stage), NULL},
    {"--num-query-groups", TPP_SET_NUMBER, RULE(num_query_groups), NULL},
    {"--num-virtual-stages-per-pipeline-rank", TPP_SET_NUMBER, RULE(virtual_stages_per_rank), NULL},
    {"--optimizer", TPP_SET_CHOICE, RULE(optimizer), "adam|sgd|muon|dist_muon|lion"},
    {"--optimizer-cpu-offload", TPP_SET_TRUE, RULE(optimizer_cpu_offload), NULL},
    {"--optimizer-offload-fraction", TPP_SET_DOUBLE, RULE(optimizer_offload_fraction), NULL},
    {"--overlap-grad-reduce", TPP_SET_TRUE, RULE(overlap_grad_reduce), NULL},
    {"--overlap-moe-expert-parallel-comm", TPP_SET_TRUE, RULE(overlap_expert_comm), NULL},
    {"--overlap-p2p-communication", TPP_SET_TRUE, RULE(overlap_p2p), NULL},
    {"--overlap-p2p-communication-warmup-flush", TPP_SET_TRUE, RULE(overlap_p2p_warmup_flush), NULL},
    {"--overlap-param-gather", TPP_SET_TRUE, RULE(overlap_param_gather), NULL},
    {"--overlap-param-gather-with-optimizer-step", TPP_SET_TRUE, RULE(overlap_param_gather_with_step), NULL},
    {"--padded-vocab-size", TPP_SET_NUMBER, HERE(padded_vocab_size), NULL},
    {"--pipeline-model-parallel-layout", TPP_SET_SPECIAL, 0, NULL},
    {"--pipeline-model-parallel-size", TPP_SET_NUMBER, RULE(pipeline_parallel), NULL},
    {"--position-embedding-type", TPP_SET_CHOICE, RULE(position), "learned_absolute|rope|none|relative|mrope|yarn"},
    {"--pretrained-checkpoint", TPP_SET_GIVEN, HERE(gives_checkpoint), NULL},
    {"--q-lora-rank", TPP_SET_NUMBER, HERE(q_lora_rank), NULL},
    {"--qk-head-dim", TPP_SET_NUMBER, HERE(qk_head_dim), NULL},
    {"--qk-layernorm", TPP_SET_TRUE, HERE(qk_norm), NULL},
    {"--qk-pos-emb-head-dim", TPP_SET_NUMBER, HERE(qk_rope_head_dim), NULL},
    {"--quick-geglu", TPP_SET_TRUE, RULE(quick_geglu), NULL},
    {"--rampup-batch-size", TPP_SET_SPECIAL, 0, NULL},
    {"--recompute-activations", TPP_SET_SPECIAL, 0, NULL},
    {"--recompute-granularity", TPP_SET_CHOICE, RULE(recompute), "none|selective|full"},
    {"--recompute-method", TPP_SET_CHOICE, RULE(recompute_method), "none|uniform|block"},
    {"--recompute-modules", TPP_SET_BITS, RULE(recompute_modules),
     "core_attn|moe_act|layernorm|mla_up_proj|mlp|moe|shared_experts|gdn_norm_out"},
    {"--recompute-num-layers", TPP_SET_NUMBER, RULE(recompute_num_layers), NULL},
    {"--rotary-base", TPP_SET_DOUBLE, HERE(rotary_base), NULL},
    {"--rotary-percent", TPP_SET_DOUBLE, HERE(rotary_fraction), NULL},
    {"--save", TPP_SET_GIVEN, RULE(has_save), NULL},
    {"--save-interval", TPP_SET_GIVEN, RULE(has_save_interval), NULL},
    {"--seq-length", TPP_SET_NUMBER, RULE(sequence_length), NULL},
    {"--sequence-parallel", TPP_SET_TRUE, RULE(sequence_parallel), NULL},
    {"--squared-relu", TPP_SET_TRUE, RULE(squared_relu), NULL},
    {"--step-batch-size-schedule", TPP_SET_GIVEN, RULE(step_batch_size_schedule), NULL},
    {"--swiglu", TPP_SET_TRUE, RULE(swiglu), NULL},
    {"--tensor-model-parallel-size", TPP_SET_NUMBER, RULE(tensor_parallel), NULL},
    {"--tensor-parallel-num-weight-shards", TPP_SET_NUMBER, RULE(tensor_weight_shards), NULL},
    {"--torch-fsdp2-no-reshard-after-forward", TPP_SET_TRUE, HERE(keeps_gathered), NULL},
    {"--tp-comm-overlap", TPP_SET_TRUE, RULE(tp_comm_overlap), NULL},
    {"--train-data-path", TPP_COUNT_DATA, 0, NULL},
    {"--train-iters", TPP_SET_GIVEN, RULE(has_train_iters), NULL},
    {"--train-samples", TPP_SET_GIVEN, RULE(has_train_samples), NULL},
    {"--transformer-impl", TPP_SET_VARIANT, RULE(local_transformer), "transformer_engine"},
    {"--untie-embeddings-and-output-weights", TPP_SET_TRUE, RULE(untied_embeddings), NULL},
    {"--use-flash-attn", TPP_SET_TRUE, HERE(flash_attention), NULL},
    {"--use-custom-fsdp", TPP_SET_TRUE, RULE(megatron_fsdp), NULL},
    {"--use-distributed-optimizer", TPP_SET_TRUE, RULE(distributed_optimizer), NULL},
    {"--use-mcore-models", TPP_SET_SPECIAL, 0, NULL},
    {"--use-megatron-fsdp", TPP_SET_TRUE, RULE(megatron_fsdp), NULL},
    {"--use-precision-aware-optimizer", TPP_SET_TRUE, RULE(precision_aware_optimizer), NULL},
    {"--use-rotary-position-embeddings", TPP_SET_SPECIAL, 0, NULL},
    {"--use-torch-fsdp2", TPP_SET_TRUE, RULE(torch_fsdp2), NULL},
    {"--use-tp-pp-dp-mapping", TPP_SET_TRUE, RULE(pipeline_before_data), NULL},
    {"--v-head-dim", TPP_SET_NUMBER, HERE(v_head_dim), NULL},
    {"--vocab-size", TPP_SET_NUMBER, HERE(vocab_size), NULL},
    {"--wgrad-deferral-limit", TPP_SET_NUMBER, RULE(wgrad_deferral_limit), NULL},
};

/* What no prediction can do without. */
static const char *const needed_options[] = {
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
    "--activations-checkpoint-method",
    "--activations-checkpoint-num-layers",
    "--recompute-granularity",
    "--recompute-method",
    "--recompute-num-layers",
    NULL,
};

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
        s->context_types |= bits[tpp_word_index("p2p|a2a|allgather|all_gather|a2a+p2p", a->values[i].text)];
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
    } else if (strcmp(name, "--activations-checkpoint-method") == 0) {
        s->checkpoint_activations = true;
        rules->recompute_method = strcmp(value, "block") == 0 ? TPP_RULE_METHOD_BLOCK : TPP_RULE_METHOD_UNIFORM;
    } else if (strcmp(name, "--recompute-activations") == 0) {
        rules->recompute = TPP_RULE_GRANULARITY_SELECTIVE;
    } else if (strcmp(name, "--cuda-graph-modules") == 0 || strcmp(name, "--cuda-graph-scope") == 0) {
        for (size_t i = 0; i < a->num_values; i++)
            tpp_graph_module_read(a->values[i].text, s);
    } else if (strcmp(name, "--enable-cuda-graph") == 0 || strcmp(name, "--external-cuda-graph") == 0) {
        rules->cuda_graph = name[2] == 'e' && name[3] == 'n' ? TPP_RULE_GRAPH_LOCAL : TPP_RULE_GRAPH_TE;
    } else if (strcmp(name, "--moe-layer-freq") == 0) {
        read_pattern(value, s);
    } else if (strcmp(name, "--cross-entropy-fusion-impl") == 0) {
        rules->cross_entropy_fusion_te = strcmp(value, "te") == 0; /* counts with the fusion only: see the end */
    } else if (strcmp(name, "--main-grads-dtype") == 0) {
        tpp_megatron_read_main_gradients(value, s);
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

void tpp_megatron_read_main_gradients(const char *type, struct tpp_megatron_settings *settings)
{
    settings->rules.narrow_state = settings->rules.narrow_state || strcmp(type, "fp32") != 0;
    settings->gradients_in_bf16 = settings->gradients_in_bf16 || strcmp(type, "bf16") == 0;
}

struct tpp_megatron_settings tpp_megatron_defaults(enum tpp_framework framework, enum tpp_release release)
{
    struct tpp_megatron_settings s = {.rules = tpp_rule_settings_defaults(framework),
                                      .norm_epsilon = 1e-5,
                                      .checkpoint_num_layers = 1,
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
                                      .sharding = TPP_MEGATRON_SHARD_DEFAULT,
                                      .config = {.train_batch_size = TPP_RULE_UNSET,
                                                 .micro_batch_size = TPP_RULE_UNSET,
                                                 .accumulation = TPP_RULE_UNSET,
                                                 .reduce_bucket_size = TPP_RULE_UNSET,
                                                 .allgather_bucket_size = TPP_RULE_UNSET}};
    if (framework == TPP_FRAMEWORK_MEGATRON_LM && release < TPP_RELEASE_0_4)
        s.rules.overlap_p2p = false;
    s.rules.local_transformer = release < TPP_RELEASE_0_6 && framework == TPP_FRAMEWORK_MEGATRON_LM;
    return s;
}

/* Until v2.6 a method alone asked for full recomputation, of one layer at a time; --checkpoint-activations is uniform.
 */
static void complete_checkpointing(struct tpp_megatron_settings *s)
{
    if (!s->checkpoint_activations)
        return;
    s->rules.recompute = TPP_RULE_GRANULARITY_FULL;
    if (s->rules.recompute_method == TPP_RULE_METHOD_NONE)
        s->rules.recompute_method = TPP_RULE_METHOD_UNIFORM;
    s->rules.recompute_num_layers = s->checkpoint_num_layers;
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
    const struct tpp_argument_map map = {mappings, sizeof mappings / sizeof *mappings, needed_options, read_special};
    enum tpp_code code = tpp_arguments_read(words, script, &dialect, arguments, problems, err);
    *out = tpp_megatron_defaults(TPP_FRAMEWORK_MEGATRON_LM, release);
    if (code == TPP_OK)
        tpp_arguments_map(arguments, script, &map, out, problems);
    complete_checkpointing(out);
    tpp_graph_modules_complete(out);
    out->rules.cross_entropy_fusion_te = out->rules.cross_entropy_fusion_te && out->cross_entropy_fusion;
    return code;
}
