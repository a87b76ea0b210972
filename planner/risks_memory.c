/* Memory near its end (cost-model 10.1, 10.2 item 9). */
#include "planner/risk_checks.h"

#include "costmodel/base/units.h"
#include "costmodel/memory_walk.h"

#define NEARLY_FULL_FRACTION 0.92
#define FULL_FRACTION 0.97
#define OUTSIDE_ALLOCATOR_BYTES (2.0 * 1024 * 1024 * 1024)
#define FRAGMENTED_RATIO 1.15

static void full(struct tpp_risk_context *c)
{
    const struct tpp_memory *memory = &c->cost->memory;
    const double use = memory->device_total_bytes / memory->capacity_bytes;
    char used[32], capacity[32];
    tpp_format_bytes(used, sizeof used, memory->device_total_bytes);
    tpp_format_bytes(capacity, sizeof capacity, memory->capacity_bytes);
    if ((memory->fit == TPP_FIT_DOES_NOT_FIT && !tpp_host_is_full(memory)) || use > 1) {
        tpp_risk_add(c, "does-not-fit", TPP_SEVERITY_ERROR,
                     "recompute more, shard more, or lower the micro-batch; the advice names what fits",
                     "stage %u needs %s of %s", memory->worst_stage, used, capacity);
    } else if (use > FULL_FRACTION) {
        tpp_risk_add(c, "memory-full", TPP_SEVERITY_WARNING, "treat as out of memory: leave 8 % of the card free",
                     "stage %u needs %s of %s, above %.0f %%", memory->worst_stage, used, capacity,
                     100 * FULL_FRACTION);
    } else if (use > NEARLY_FULL_FRACTION) {
        tpp_risk_add(c, "memory-nearly-full", TPP_SEVERITY_WARNING,
                     "expect allocator retries, 10 to 24 % slower steps in published runs; leave 8 % of the card free",
                     "stage %u needs %s of %s, above %.0f %%", memory->worst_stage, used, capacity,
                     100 * NEARLY_FULL_FRACTION);
    }
}

static void little_outside(struct tpp_risk_context *c)
{
    const struct tpp_memory *memory = &c->cost->memory;
    const double outside = memory->capacity_bytes - memory->peak_reserved_bytes;
    if (outside >= 0 && outside < OUTSIDE_ALLOCATOR_BYTES) {
        char text[32];
        tpp_risk_add(c, "little-memory-outside-allocator", TPP_SEVERITY_WARNING,
                     "keep 2 GiB for the CUDA context, NCCL and libraries", "the allocator leaves %s of the card",
                     tpp_format_bytes(text, sizeof text, outside));
    }
}

static void fragmented(struct tpp_risk_context *c)
{
    const struct tpp_memory *memory = &c->cost->memory;
    const double ratio = memory->peak_reserved_bytes / memory->peak_allocated_bytes;
    if (ratio > FRAGMENTED_RATIO) {
        tpp_risk_add(c, "fragmentation", TPP_SEVERITY_WARNING,
                     "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, pack sequences, or pad them to a few lengths",
                     "reserved memory is %.2f times the allocated peak: retries and stalls are likely", ratio);
    }
}

/* Dropless routing: every layer and step asks for other sizes, which neither the walk nor a replay of the plan draws. */
static void experts_vary(struct tpp_risk_context *c)
{
    if (c->model->num_experts > 0)
        tpp_risk_add(c, "expert-fragmentation", TPP_SEVERITY_INFO,
                     "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or give experts a capacity and pad to it",
                     "experts get other numbers of tokens at every step: fragmentation on top of the %.0f %% counted here",
                     100 * c->cost->memory.fragmentation_fraction);
}

static void host_memory(struct tpp_risk_context *c)
{
    const struct tpp_memory *memory = &c->cost->memory;
    if (tpp_host_is_full(memory)) {
        char used[32], total[32];
        tpp_risk_add(c, "host-memory-full", TPP_SEVERITY_ERROR, "offload less, or shard over more nodes",
                     "what is offloaded takes %s of a node's %s", tpp_format_bytes(used, sizeof used, memory->host_bytes),
                     tpp_format_bytes(total, sizeof total, memory->host_capacity_bytes));
    }
}

tpp_risk_check *const tpp_risk_memory_checks[] = {
    full, little_outside, fragmented, experts_vary, host_memory, NULL,
};
