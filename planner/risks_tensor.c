/* Tensor, sequence and expert parallelism, and the shapes of kernels (cost-model 10.2 items 1, 5, 7; 15.3; 5.5). */
#include "planner/risk_checks.h"

#include <math.h>

#define TILE 128                /* tensor-core tile: sizes that are no multiple of it waste a part of the last one */
#define NARROW_HIDDEN 1024      /* h/t below it leaves kernels too small */
#define LONG_SEQUENCE 8192      /* from here activations decide, and sequence parallelism is due */
#define HOST_BOUND_FRACTION 0.7 /* host launch time over GPU time worth a warning (5.5) */
#define UNEVEN_EXPERTS 1.3      /* tokens of the fullest expert-parallel rank over the average */

static void across_nodes(struct tpp_risk_context *c)
{
    const struct tpp_strategy *s = c->strategy;
    const uint32_t gpus = c->hardware->node.num_gpus;
    const uint32_t placed = s->placed_tensor_ranks_per_node;
    if (placed > 0 && placed < s->tensor_parallel) {
        tpp_risk_add(
            c, "tensor-parallel-across-nodes", TPP_SEVERITY_WARNING, "place the whole group inside a node",
            "tensor-parallel groups of %u are placed %u ranks to a node, so every layer communicates over the network",
            s->tensor_parallel, placed);
    } else if (placed == 0 && s->tensor_parallel > gpus) {
        tpp_risk_add(c, "tensor-parallel-across-nodes", TPP_SEVERITY_WARNING,
                     "lower the tensor-parallel size and use pipeline parallelism between nodes",
                     "tensor-parallel groups of %u span nodes of %u GPUs, so every layer communicates over the network",
                     s->tensor_parallel, gpus);
    }
}

static void over_pcie(struct tpp_risk_context *c)
{
    if (!c->hardware->node.has_nvlink && c->strategy->tensor_parallel > 2) {
        tpp_risk_add(c, "tensor-parallel-over-pcie", TPP_SEVERITY_WARNING,
                     "prefer sharded data parallelism or pipeline parallelism on these cards",
                     "tensor parallelism of %u runs over PCIe: the GPUs of a node have no NVLink",
                     c->strategy->tensor_parallel);
    }
}

static void copied_heads(struct tpp_risk_context *c)
{
    const uint32_t t = c->strategy->tensor_parallel, groups = c->model->num_query_groups;
    if (c->model->kv_lora_rank == 0 && groups > 0 && t > groups) {
        tpp_risk_add(c, "key-value-heads-replicated", TPP_SEVERITY_WARNING,
                     "keep the tensor-parallel size at or below the key/value heads",
                     "tp %u is above the %u key/value heads, so each is held and computed %u times", t, groups,
                     t / groups);
    }
}

static void unaligned_sizes(struct tpp_risk_context *c)
{
    const uint32_t t = c->strategy->tensor_parallel;
    const uint32_t hidden = c->model->hidden_size / t, ffn = c->model->ffn_hidden_size / t;
    if (hidden % TILE != 0 || ffn % TILE != 0) {
        tpp_risk_add(c, "unaligned-shard", TPP_SEVERITY_WARNING, "choose a size whose shards are multiples of 128",
                     "the shards h/tp = %u and ffn/tp = %u are not both multiples of %d, the tile of the tensor cores",
                     hidden, ffn, TILE);
    }
}

static void narrow_shards(struct tpp_risk_context *c)
{
    const uint32_t t = c->strategy->tensor_parallel, hidden = c->model->hidden_size / t;
    if (t > 1 && hidden < NARROW_HIDDEN) {
        tpp_risk_add(c, "narrow-shard", TPP_SEVERITY_WARNING, "use a smaller tensor-parallel size for this model",
                     "with tp %u a rank keeps %u heads and h/tp = %u (below %d): its kernels are small", t,
                     c->model->num_attention_heads / t, hidden, NARROW_HIDDEN);
    }
}

static double waves(const struct tpp_risk_context *c, double rows, double columns)
{
    const struct tpp_gpu *gpu = &c->hardware->gpu;
    return ceil(rows / gpu->gemm_tile_m) * ceil(columns / gpu->gemm_tile_n) / gpu->num_sms;
}

static void partial_waves(struct tpp_risk_context *c)
{
    const struct tpp_model *model = c->model;
    const double t = c->strategy->tensor_parallel;
    const double rows =
        (double)c->strategy->micro_batch_size * (double)c->job->sequence_length / c->strategy->context_parallel;
    double columns = model->hidden_size;
    if (model->kv_lora_rank == 0) {
        columns = fmin(columns, (model->num_attention_heads + 2.0 * model->num_query_groups) * model->head_dim / t);
    }
    if (model->ffn_hidden_size > 0) {
        columns = fmin(columns, model->ffn_hidden_size * (model->gated_mlp ? 2.0 : 1.0) / t);
    }
    if (waves(c, rows, columns) < 1) {
        tpp_risk_add(c, "partial-wave-gemm", TPP_SEVERITY_WARNING,
                     "raise the micro-batch, or lower the tensor- or context-parallel size",
                     "the smallest product (%.0f x %.0f) fills %.0f %% of the GPU's %u SMs", rows, columns,
                     100 * waves(c, rows, columns), c->hardware->gpu.num_sms);
    }
}

static void missing_sequence_parallel(struct tpp_risk_context *c)
{
    const struct tpp_strategy *s = c->strategy;
    if (c->job->sequence_length >= LONG_SEQUENCE && s->tensor_parallel > 1 && !s->sequence_parallel) {
        tpp_risk_add(
            c, "sequence-parallel-missing", TPP_SEVERITY_WARNING, "switch sequence parallelism on",
            "sequences of %llu tokens with tp %u and without sequence parallelism keep norms and residuals whole on "
            "every rank",
            (unsigned long long)c->job->sequence_length, s->tensor_parallel);
    }
}

static void unaligned_heads(struct tpp_risk_context *c)
{
    const bool is_unfused = (int)c->stack->attention >= TPP_FLASH_KERNEL_COUNT;
    if (c->model->kv_lora_rank == 0 && c->model->head_dim % 8 != 0) {
        tpp_risk_add(c, "head-dim-alignment", TPP_SEVERITY_WARNING, "choose a head dimension that is a multiple of 8",
                     "heads of %u elements are no multiple of 8: %s", c->model->head_dim,
                     is_unfused ? "the products of unfused attention leave the tensor cores, 20 to 30 % of a step"
                                : "attention kernels pad or refuse them");
    }
}

static void experts_across_nodes(struct tpp_risk_context *c)
{
    const struct tpp_strategy *s = c->strategy;
    const uint64_t span = (uint64_t)s->expert_parallel * s->expert_tensor_parallel;
    if (c->model->num_experts > 0 && span > c->hardware->node.num_gpus) {
        tpp_risk_add(
            c, "expert-parallel-across-nodes", TPP_SEVERITY_WARNING,
            "keep experts inside a node, or limit the nodes a token is routed to",
            "expert-parallel groups of %llu ranks span nodes of %u GPUs, so tokens cross the network in every layer",
            (unsigned long long)span, c->hardware->node.num_gpus);
    }
}

/* Cost-model 10.2 item 7. A capacity evens the ranks out. */
static void uneven_experts(struct tpp_risk_context *c)
{
    const double imbalance = tpp_job_expert_imbalance(c->job, c->strategy->expert_parallel);
    if (c->model->num_experts > 0 && !(c->job->expert_capacity_factor > 0) && imbalance > UNEVEN_EXPERTS) {
        tpp_risk_add(c, "expert-imbalance", TPP_SEVERITY_WARNING,
                     "raise the auxiliary loss, lower the expert-parallel size, or give experts a capacity",
                     "the fullest of %u expert-parallel ranks gets %.2f times the average: the others wait for it",
                     c->strategy->expert_parallel, imbalance);
    }
}

static void host_bound(struct tpp_risk_context *c)
{
    if (c->cost->host_bound_fraction > HOST_BOUND_FRACTION) {
        tpp_risk_add(c, "host-bound", TPP_SEVERITY_WARNING,
                     "raise the micro-batch, lower the tensor-parallel size, or use CUDA graphs",
                     "launching kernels takes %.0f %% of the GPU time of a layer: the host may not keep up",
                     100 * c->cost->host_bound_fraction);
    }
}

tpp_risk_check *const tpp_risk_tensor_checks[] = {
    across_nodes,
    over_pcie,
    copied_heads,
    unaligned_sizes,
    narrow_shards,
    partial_waves,
    missing_sequence_parallel,
    unaligned_heads,
    experts_across_nodes,
    uneven_experts,
    host_bound,
    NULL,
};
