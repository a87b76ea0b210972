#include "planner/remedies.h"

#include "costmodel/base/units.h"
#include "planner/advise.h"
#include "planner/rank.h"

#include <stdio.h>

#define MAX_GPUS (UINT32_C(1) << 20)
#define MAX_DOUBLINGS 10
#define SHORTEST_SEQUENCE 1024 /* shorter ones change what is trained beyond use */
#define STEP_CANDIDATES (UINT64_C(1) << 20)

/* What one remedy changes. */
struct change {
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_space_limits limits;
};

struct finder {
    const struct tpp_model *model;
    const struct tpp_hardware *hardware;
    const struct change *original;
    struct tpp_remedy *out;
    size_t count, max;
    struct tpp_error *err;
    enum tpp_code code; /* of a search that broke */
};

static bool is_free(int64_t pin)
{
    return pin == TPP_PIN_ANY;
}

/* True and *plan filled when the changed job has a plan that fits. A change the checks refuse is no remedy, not an
 * error. */
static bool find_plan(struct finder *finder, const struct change *change, struct tpp_plan *plan)
{
    struct tpp_search *search;
    struct tpp_space_limits limits = change->limits;
    struct tpp_error err;
    bool done = false, found = false;
    size_t count = 0;
    limits.keep = 1;
    enum tpp_code code =
        tpp_search_new(finder->model, finder->hardware, &change->job, &change->stack, &limits, &search, &err);
    while (code == TPP_OK && !done) {
        code = tpp_search_step(search, STEP_CANDIDATES, &done, &err);
    }
    if (code == TPP_OK) {
        const struct tpp_plan *best = tpp_search_best(search, &count);
        found = count > 0 && tpp_rank_class(&best[0].cost.memory, limits.memory_headroom_fraction) == TPP_RANK_FITS;
        *plan = found ? best[0] : *plan;
    }
    tpp_search_free(search);
    if (code == TPP_E_MEMORY || code == TPP_E_INTERNAL) {
        finder->code = code;
        if (finder->err != NULL) {
            *finder->err = err;
        }
    }
    return found;
}

static void describe(const char *what, struct tpp_remedy *remedy)
{
    char layout[112], seconds[32], bytes[32];

    snprintf(remedy->sentence, sizeof remedy->sentence, "%s: %s fits in %s and takes %s a step", what,
             tpp_layout_words(layout, sizeof layout, &remedy->plan.strategy),
             tpp_format_bytes(bytes, sizeof bytes, remedy->plan.cost.memory.device_total_bytes),
             tpp_format_seconds(seconds, sizeof seconds, remedy->plan.cost.step_seconds));
}

/* Tries a change and writes it down when it helps. */
static bool try_change(struct finder *finder, enum tpp_remedy_kind kind, const struct change *change, const char *what)
{
    struct tpp_plan plan;
    if (finder->code != TPP_OK || !find_plan(finder, change, &plan)) {
        return false;
    }
    if (finder->count < finder->max) {
        struct tpp_remedy *remedy = &finder->out[finder->count++];
        *remedy = (struct tpp_remedy){.kind = kind, .job = change->job, .stack = change->stack, .plan = plan};
        describe(what, remedy);
    }
    return true;
}

/* ---- changes of the plan ---- */

static bool try_micro_batch(struct finder *finder)
{
    struct change change = *finder->original;
    if (is_free(change.limits.micro_batch_size)) {
        return false;
    }
    change.limits.micro_batch_size = TPP_PIN_ANY;
    return try_change(finder, TPP_REMEDY_MICRO_BATCH, &change, "another micro-batch");
}

static bool try_sharding(struct finder *finder)
{
    struct change change = *finder->original;
    if (is_free(change.limits.zero_stage)) {
        return false;
    }
    change.limits.zero_stage = TPP_PIN_ANY;
    return try_change(finder, TPP_REMEDY_SHARDING, &change, "another ZeRO stage");
}

static bool try_context(struct finder *finder)
{
    struct change change = *finder->original;
    if (is_free(change.limits.context_parallel) && is_free(change.limits.context_kind) &&
        change.limits.max_context_parallel == 0) {
        return false;
    }
    change.limits.context_parallel = change.limits.context_kind = change.limits.data_parallel = TPP_PIN_ANY;
    change.limits.max_context_parallel = 0;
    return try_change(finder, TPP_REMEDY_CONTEXT, &change, "context parallelism");
}

static void free_layout(struct tpp_space_limits *limits)
{
    limits->tensor_parallel = limits->pipeline_parallel = limits->virtual_pipeline_stages = TPP_PIN_ANY;
    limits->context_parallel = limits->context_kind = limits->expert_parallel = limits->data_parallel = TPP_PIN_ANY;
    limits->sequence_parallel = TPP_PIN_ANY;
    limits->max_pipeline_parallel = limits->max_context_parallel = limits->max_virtual_pipeline_stages = 0;
    limits->max_tensor_parallel = 0;
}

static bool is_layout_limited(const struct tpp_space_limits *limits)
{
    return !is_free(limits->tensor_parallel) || !is_free(limits->pipeline_parallel) ||
           !is_free(limits->virtual_pipeline_stages) || !is_free(limits->data_parallel) ||
           !is_free(limits->expert_parallel) || !is_free(limits->sequence_parallel) ||
           limits->max_tensor_parallel > 0 || limits->max_pipeline_parallel > 0 ||
           limits->max_virtual_pipeline_stages > 0;
}

static bool try_layout(struct finder *finder)
{
    struct change change = *finder->original;
    if (!is_layout_limited(&change.limits)) {
        return false;
    }
    free_layout(&change.limits);
    return try_change(finder, TPP_REMEDY_LAYOUT, &change, "other parallel sizes");
}

static bool try_recompute(struct finder *finder)
{
    struct change change = *finder->original;
    if (is_free(change.limits.recompute)) {
        return false;
    }
    change.limits.recompute = TPP_PIN_ANY;
    return try_change(finder, TPP_REMEDY_RECOMPUTE, &change, "other recomputation");
}

static bool try_offload(struct finder *finder)
{
    struct change change = *finder->original;
    if (change.limits.offload == TPP_OFFLOAD_OPTIMIZER ||
        (change.limits.full_space && is_free(change.limits.offload))) {
        return false; /* already tried */
    }
    change.limits.offload = TPP_OFFLOAD_OPTIMIZER;
    return try_change(finder, TPP_REMEDY_OFFLOAD, &change, "optimizer states on the host");
}

/* The engine of this framework that shards parameters; false when it has none, or has it already. */
static bool sharding_engine(const struct tpp_stack *stack, enum tpp_engine *engine)
{
    const bool shards = tpp_engine_is_fsdp(stack->engine) || stack->engine == TPP_ENGINE_DEEPSPEED;
    switch (stack->framework) {
    case TPP_FRAMEWORK_MEGATRON_LM:
    case TPP_FRAMEWORK_HF_TRAINER:
    case TPP_FRAMEWORK_OTHER:
        *engine = TPP_ENGINE_FSDP2;
        return !shards;
    case TPP_FRAMEWORK_MEGATRON_DEEPSPEED:
        *engine = TPP_ENGINE_DEEPSPEED;
        return !shards;
    default:
        return false;
    }
}

static bool try_engine(struct finder *finder)
{
    struct change change = *finder->original;
    if (!sharding_engine(&change.stack, &change.stack.engine)) {
        return false;
    }
    tpp_stack_set_dtypes(&change.stack, &change.job);
    change.limits.zero_stage = 3;
    char what[64];
    snprintf(what, sizeof what, "parameters sharded by the %s engine", tpp_engine_name(change.stack.engine));
    return try_change(finder, TPP_REMEDY_ENGINE, &change, what);
}

static bool try_without_pins(struct finder *finder)
{
    struct change change = *finder->original;
    const struct tpp_space_limits given = change.limits;
    change.limits = tpp_space_limits_defaults();
    change.limits.memory_headroom_fraction = given.memory_headroom_fraction;
    change.limits.num_threads = given.num_threads;
    change.limits.full_space = true;
    return try_change(finder, TPP_REMEDY_PINS, &change, "without any pin or limit");
}

/* ---- changes of the job ---- */

static bool try_more_nodes(struct finder *finder)
{
    struct change change = *finder->original;
    const uint32_t node = finder->hardware->node.num_gpus;
    change.limits.data_parallel = TPP_PIN_ANY;
    for (int i = 0; i < MAX_DOUBLINGS && change.job.num_gpus <= MAX_GPUS / 2; i++) {
        char what[64];
        change.job.num_gpus *= 2;
        const uint32_t num_nodes = (change.job.num_gpus + node - 1) / node;
        snprintf(what, sizeof what, "%u GPUs on %u node%s", change.job.num_gpus, num_nodes, num_nodes == 1 ? "" : "s");
        if (try_change(finder, TPP_REMEDY_MORE_NODES, &change, what)) {
            return true;
        }
    }
    return false;
}

static bool try_shorter_sequence(struct finder *finder)
{
    struct change change = *finder->original;
    while (change.job.sequence_length >= 2 * SHORTEST_SEQUENCE && change.job.sequence_length % 2 == 0) {
        char what[64];
        change.job.sequence_length /= 2;
        if (change.job.attention_block_length > change.job.sequence_length) {
            change.job.attention_block_length = change.job.sequence_length;
        }
        snprintf(what, sizeof what, "sequences of %llu tokens", (unsigned long long)change.job.sequence_length);
        if (try_change(finder, TPP_REMEDY_SHORTER_SEQUENCE, &change, what)) {
            return true;
        }
    }
    return false;
}

enum tpp_code tpp_remedies_find(const struct tpp_model *model, const struct tpp_hardware *hardware,
                                const struct tpp_job *job, const struct tpp_stack *stack,
                                const struct tpp_space_limits *limits, struct tpp_remedy *out, size_t max,
                                size_t *count, struct tpp_error *err)
{
    static bool (*const tries[])(struct finder *) = {try_micro_batch, try_sharding, try_context, try_layout,
                                                     try_recompute,   try_offload,  try_engine};
    const struct change original = {.job = *job, .stack = *stack, .limits = *limits};
    struct finder finder = {.model = model,
                            .hardware = hardware,
                            .original = &original,
                            .out = out,
                            .max = max,
                            .err = err,
                            .code = TPP_OK};
    bool found = false;
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        found = tries[i](&finder) || found;
    }
    if (!found) {
        try_without_pins(&finder);
    }
    try_more_nodes(&finder);
    try_shorter_sequence(&finder);
    *count = finder.count;
    return finder.code;
}

const char *tpp_remedy_name(enum tpp_remedy_kind kind)
{
    static const char *const names[TPP_REMEDY_COUNT] = {"micro-batch", "sharding",        "context-parallel", "layout",
                                                        "recompute",   "offload",         "engine",           "pins",
                                                        "more-nodes",  "shorter-sequence"};
    return (unsigned)kind < TPP_REMEDY_COUNT ? names[kind] : NULL;
}
