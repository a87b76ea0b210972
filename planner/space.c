#include "planner/rules/rules.h"
#include "planner/rules/schedules.h"
#include "planner/space_parts.h"
#include "planner/split.h"

#include <assert.h>
#include <stdlib.h>

#define DEFAULT_MAX_MICRO_BATCH_SIZE 16
#define DEFAULT_MAX_VIRTUAL_PIPELINE_STAGES 8

static uint32_t limit_or(uint32_t limit, uint32_t fallback)
{
    return limit > 0 ? limit : fallback;
}

/* ---- cells ---- */

/* Trainers that only replicate or shard whole models; a pin is believed all the same, for releases that can more. */
static bool splits_models(const struct tpp_space *space)
{
    return space->stack->framework != TPP_FRAMEWORK_HF_TRAINER && space->stack->framework != TPP_FRAMEWORK_LLM_FOUNDRY;
}

static uint32_t max_tensor_parallel(const struct tpp_space *space)
{
    if (tpp_pin_is_free(space->limits.tensor_parallel) && !splits_models(space)) {
        return 1;
    }
    return tpp_pin_is_free(space->limits.tensor_parallel)
               ? limit_or(space->limits.max_tensor_parallel, space->gpus_per_node)
               : (uint32_t)space->limits.tensor_parallel;
}

/* DeepSpeed's plain engine has no stages: its pipeline is an engine of its own. */
static uint32_t max_pipeline_parallel(const struct tpp_space *space)
{
    if (tpp_pin_is_free(space->limits.pipeline_parallel) &&
        (!splits_models(space) || space->stack->engine == TPP_ENGINE_DEEPSPEED)) {
        return 1;
    }
    const uint32_t max = tpp_pin_is_free(space->limits.pipeline_parallel)
                             ? limit_or(space->limits.max_pipeline_parallel, space->model->num_layers)
                             : (uint32_t)space->limits.pipeline_parallel;
    return max < TPP_MAX_PIPELINE_PARALLEL ? max : TPP_MAX_PIPELINE_PARALLEL;
}

static uint32_t max_context_parallel(const struct tpp_space *space)
{
    if (tpp_pin_is_free(space->limits.context_parallel) && !splits_models(space)) {
        return 1;
    }
    return tpp_pin_is_free(space->limits.context_parallel) ? limit_or(space->limits.max_context_parallel, UINT32_MAX)
                                                           : (uint32_t)space->limits.context_parallel;
}

static bool splits_model(const struct tpp_model *model, uint32_t t)
{
    return model->num_attention_heads % t == 0 && model->ffn_hidden_size % t == 0 &&
           model->shared_expert_hidden_size % t == 0;
}

/* Stages that the pinned schedule can run on; with one stage there is only 1F1B. */
static bool takes_stages(const struct tpp_space *space, uint32_t p)
{
    if (tpp_pin_is_free(space->limits.schedule) || space->limits.schedule == TPP_SCHEDULE_1F1B) {
        return true;
    }
    return p > 1 && p % tpp_schedule_model_copies((enum tpp_schedule)space->limits.schedule) == 0;
}

/* Chunks a rank, 1 and more, of the schedules in question. */
static bool takes_chunks(const struct tpp_space *space, uint32_t v)
{
    const int64_t schedule = space->limits.schedule;
    if (tpp_pin_is_free(schedule)) {
        return true;
    }
    return tpp_schedule_is_v_shaped((enum tpp_schedule)schedule) ? v == 2
           : schedule == TPP_SCHEDULE_INTERLEAVED                ? v > 1
                                                                 : v == 1;
}

/* Calls itself twice: counts with cells == NULL, then fills. `ranks` is what is left for context and data parallelism.
 */
static void add_contexts(struct tpp_space *space, struct tpp_space_sizes sizes, uint32_t ranks)
{
    const uint32_t max = max_context_parallel(space);
    for (uint32_t c = 1; c <= ranks && c <= max; c++) {
        if (ranks % c != 0 || space->job->sequence_length % c != 0 || !tpp_pin_allows(space->limits.context_parallel, c) ||
            !tpp_pin_allows(space->limits.data_parallel, ranks / c) || space->job->global_batch_size % (ranks / c) != 0) {
            continue;
        }
        if (space->cells != NULL) {
            sizes.context = c;
            space->cells[space->num_cells] = sizes;
        }
        space->num_cells++;
    }
}

static void add_cells(struct tpp_space *space)
{
    const uint32_t num_gpus = space->job->num_gpus, max_t = max_tensor_parallel(space),
                   max_p = max_pipeline_parallel(space);
    space->num_cells = 0;
    for (uint32_t t = 1; t <= max_t && t <= num_gpus; t++) {
        if (num_gpus % t != 0 || !tpp_pin_allows(space->limits.tensor_parallel, t) || !splits_model(space->model, t)) {
            continue;
        }
        const uint32_t ranks = num_gpus / t;
        for (uint32_t p = 1; p <= max_p && p <= ranks; p++) {
            if (ranks % p == 0 && tpp_pin_allows(space->limits.pipeline_parallel, p) && takes_stages(space, p)) {
                add_contexts(space, (struct tpp_space_sizes){.tensor = t, .pipeline = p}, ranks / p);
            }
        }
    }
}

enum tpp_code tpp_space_new(const struct tpp_model *model, uint32_t gpus_per_node, const struct tpp_job *job,
                            const struct tpp_stack *stack, const struct tpp_space_limits *limits,
                            struct tpp_space **out, struct tpp_error *err)
{
    *out = NULL;
    enum tpp_code code = tpp_space_limits_check(limits, err);
    if (code == TPP_OK && !tpp_pin_is_free(limits->schedule)) {
        code = tpp_framework_check_schedule(stack->framework, (enum tpp_schedule)limits->schedule, err);
    }
    if (code != TPP_OK) {
        return code;
    }
    struct tpp_space *space = calloc(1, sizeof *space);
    if (space == NULL) {
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the search space");
    }
    space->model = model;
    space->job = job;
    space->stack = stack;
    space->release = tpp_rules_release(stack);
    space->limits = *limits;
    space->gpus_per_node = gpus_per_node;
    add_cells(space);
    space->cells = calloc(space->num_cells + 1, sizeof *space->cells);
    if (space->cells == NULL) {
        free(space);
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the search space");
    }
    add_cells(space);
    *out = space;
    return TPP_OK;
}

void tpp_space_free(struct tpp_space *space)
{
    if (space != NULL) {
        free(space->cells);
        free(space);
    }
}

size_t tpp_space_num_cells(const struct tpp_space *space)
{
    return space->num_cells;
}

/* ---- values inside a cell ---- */

/* Largest all-to-all inside a node beside the tensor-parallel ranks: the one hybrid worth trying. 0: there is none. */
static uint32_t hybrid_ulysses(const struct tpp_space *space, const struct tpp_space_cell *cell)
{
    for (uint32_t u = cell->context_parallel / 2; u > 1; u--) {
        if (cell->context_parallel % u == 0 && (uint64_t)u * cell->tensor_parallel <= space->gpus_per_node &&
            space->model->num_attention_heads % (u * cell->tensor_parallel) == 0) {
            return u;
        }
    }
    return 0;
}

static void add_context_kinds(const struct tpp_space *space, struct tpp_space_cell *cell)
{
    if (cell->context_parallel == 1) {
        cell->contexts[cell->num_contexts++] = (struct tpp_space_context){.kind = TPP_CONTEXT_RING};
        return;
    }
    for (int kind = TPP_CONTEXT_RING; kind <= TPP_CONTEXT_HYBRID; kind++) {
        const uint32_t u = kind == TPP_CONTEXT_HYBRID ? hybrid_ulysses(space, cell) : 0;
        if (!tpp_pin_allows(space->limits.context_kind, (uint64_t)kind) || (kind == TPP_CONTEXT_HYBRID && u == 0)) {
            continue;
        }
        cell->contexts[cell->num_contexts++] =
            (struct tpp_space_context){.kind = (enum tpp_context_kind)kind, .ulysses_parallel = u};
    }
}

/* Sequence parallelism saves memory and costs nothing where it is possible; switching it off is tried on request. */
static void add_sequence_parallel(const struct tpp_space *space, struct tpp_space_cell *cell)
{
    const bool is_possible =
        cell->tensor_parallel > 1 && space->job->sequence_length / cell->context_parallel % cell->tensor_parallel == 0;
    if (is_possible && tpp_pin_allows(space->limits.sequence_parallel, 1)) {
        cell->sequence_parallel[cell->num_sequence_parallel++] = true;
    }
    const bool is_asked = space->limits.full_space || space->limits.sequence_parallel == 0;
    if ((!is_possible || is_asked) && tpp_pin_allows(space->limits.sequence_parallel, 0)) {
        cell->sequence_parallel[cell->num_sequence_parallel++] = false;
    }
}

static void add_splits(const struct tpp_space *space, struct tpp_space_cell *cell)
{
    const uint32_t p = cell->pipeline_parallel, num_layers = space->model->num_layers;
    const bool is_balanced = tpp_space_has_deepspeed_pipeline(space, p);
    uint32_t max_v = tpp_pin_is_free(space->limits.virtual_pipeline_stages)
                         ? limit_or(space->limits.max_virtual_pipeline_stages, DEFAULT_MAX_VIRTUAL_PIPELINE_STAGES)
                         : (uint32_t)space->limits.virtual_pipeline_stages;
    max_v = p == 1 || is_balanced ? 1 : max_v;
    for (uint32_t v = 1; v <= max_v && (uint64_t)p * v <= TPP_MAX_CHUNKS && (uint64_t)p * v <= num_layers + 2; v++) {
        const bool is_v = !tpp_pin_is_free(space->limits.schedule) &&
                          tpp_schedule_is_v_shaped((enum tpp_schedule)space->limits.schedule);
        if (tpp_pin_allows(space->limits.virtual_pipeline_stages, v) && takes_chunks(space, v) &&
            (!is_v || num_layers % (p * v) == 0)) {
            cell->num_splits += tpp_split_list(num_layers, p, v, is_balanced, cell->splits + cell->num_splits,
                                               TPP_SPACE_MAX_VALUES - cell->num_splits);
        }
    }
}

static void add_micro_batch_sizes(const struct tpp_space *space, struct tpp_space_cell *cell)
{
    const uint64_t sequences = space->job->global_batch_size / cell->data_parallel;
    const int64_t pin = space->limits.micro_batch_size;
    if (!tpp_pin_is_free(pin)) {
        if (sequences % (uint64_t)pin == 0) {
            cell->micro_batch_sizes[cell->num_micro_batch_sizes++] = (uint32_t)pin;
        }
        return;
    }
    const uint32_t max = limit_or(space->limits.max_micro_batch_size, DEFAULT_MAX_MICRO_BATCH_SIZE);
    for (uint64_t b = 1; b <= max && b <= sequences && cell->num_micro_batch_sizes < TPP_SPACE_MAX_VALUES; b++) {
        if (sequences % b == 0) {
            cell->micro_batch_sizes[cell->num_micro_batch_sizes++] = (uint32_t)b;
        }
    }
}

static void add_sharding(const struct tpp_space *space, struct tpp_space_cell *cell, struct tpp_space_sharding sharding)
{
    if (tpp_pin_allows(space->limits.zero_stage, sharding.zero_stage)) {
        cell->shardings[cell->num_shardings++] = sharding;
    }
}

static void add_fsdp(const struct tpp_space *space, struct tpp_space_cell *cell)
{
    const uint64_t replicas = (uint64_t)cell->data_parallel * cell->context_parallel;
    const uint32_t node = space->gpus_per_node;
    add_sharding(space, cell, (struct tpp_space_sharding){3, 0, true});
    add_sharding(space, cell, (struct tpp_space_sharding){3, 0, false});
    if (space->limits.full_space && replicas > node && replicas % node == 0) {
        add_sharding(space, cell, (struct tpp_space_sharding){3, node, true});
        add_sharding(space, cell, (struct tpp_space_sharding){3, node, false});
    }
}

static uint32_t max_zero_stage(const struct tpp_space *space, uint32_t p)
{
    switch (space->stack->engine) {
    case TPP_ENGINE_DEEPSPEED:
        return p > 1 ? 1 : 3;
    case TPP_ENGINE_DDP:
        return 0;
    default: /* Megatron's distributed optimizer, DeepSpeed's pipeline engine */
        return 1;
    }
}

/* With one replica there is nothing to shard: every stage would be the same plan as stage 0, which is left out only
 * when another one is asked for. */
static void add_shardings(const struct tpp_space *space, struct tpp_space_cell *cell)
{
    if (tpp_engine_is_fsdp(space->stack->engine)) {
        add_fsdp(space, cell);
        return;
    }
    const bool is_single = (uint64_t)cell->data_parallel * cell->context_parallel == 1;
    const uint32_t max = max_zero_stage(space, cell->pipeline_parallel);
    for (uint32_t stage = 0; stage <= max; stage++) {
        if (!is_single || stage == 0 || !tpp_pin_is_free(space->limits.zero_stage) ||
            space->limits.offload == TPP_OFFLOAD_OPTIMIZER) {
            add_sharding(space, cell, (struct tpp_space_sharding){stage, 0, true});
        }
    }
}

static void add_switches(const struct tpp_space *space, struct tpp_space_cell *cell)
{
    cell->tp_overlaps[cell->num_tp_overlaps++] = false;
    if (space->limits.full_space && cell->tensor_parallel > 1) {
        cell->tp_overlaps[cell->num_tp_overlaps++] = true;
    }
    if (tpp_pin_allows(space->limits.offload, TPP_OFFLOAD_NONE)) {
        cell->offloads[cell->num_offloads++] = TPP_OFFLOAD_NONE;
    }
    const bool is_asked = space->limits.full_space || space->limits.offload == TPP_OFFLOAD_OPTIMIZER;
    if (is_asked && tpp_pin_allows(space->limits.offload, TPP_OFFLOAD_OPTIMIZER) && space->stack->engine != TPP_ENGINE_DDP) {
        cell->offloads[cell->num_offloads++] = TPP_OFFLOAD_OPTIMIZER;
    }
}

static void add_depth(const struct tpp_space *space, struct tpp_space_cell *cell, uint32_t layers)
{
    const bool is_new = cell->num_depths == 0 || layers > cell->depths[cell->num_depths - 1];
    if (is_new && tpp_pin_allows(space->limits.offload_layers, layers)) {
        cell->depths[cell->num_depths++] = layers;
    }
}

/* Activations are offloaded with one stage only, and not of the last layer. */
static void add_depths(const struct tpp_space *space, struct tpp_space_cell *cell)
{
    const uint32_t num_layers = space->model->num_layers, most = cell->pipeline_parallel == 1 ? num_layers - 1 : 0;
    if (!tpp_pin_is_free(space->limits.offload_layers)) {
        if (space->limits.offload_layers <= (int64_t)most)
            add_depth(space, cell, (uint32_t)space->limits.offload_layers);
        return;
    }
    add_depth(space, cell, 0);
    if (!space->limits.full_space && !space->limits.offload_depths)
        return;
    for (uint32_t quarters = 1; quarters <= 4; quarters++) {
        const uint32_t depth = (uint32_t)((uint64_t)num_layers * quarters / 4);
        add_depth(space, cell, depth < most ? depth : most);
    }
}

static uint64_t count_groups(const struct tpp_space_cell *cell)
{
    return (uint64_t)cell->num_contexts * cell->num_experts * cell->num_exchanges * cell->num_sequence_parallel *
           cell->num_splits * cell->num_micro_batch_sizes * cell->num_shardings * cell->num_recomputes * cell->num_tp_overlaps *
           cell->num_offloads * cell->num_depths;
}

void tpp_space_cell(const struct tpp_space *space, size_t index, struct tpp_space_cell *cell)
{
    assert(index < space->num_cells);
    const struct tpp_space_sizes sizes = space->cells[index];
    const uint64_t ranks = (uint64_t)sizes.tensor * sizes.pipeline * sizes.context;
    cell->tensor_parallel = sizes.tensor;
    cell->pipeline_parallel = sizes.pipeline;
    cell->context_parallel = sizes.context;
    cell->data_parallel = (uint32_t)(space->job->num_gpus / ranks);
    cell->num_contexts = cell->num_experts = cell->num_sequence_parallel = cell->num_splits = 0;
    cell->num_exchanges = cell->num_micro_batch_sizes = cell->num_shardings = cell->num_recomputes = 0;
    cell->num_tp_overlaps = cell->num_offloads = cell->num_depths = 0;
    add_context_kinds(space, cell);
    tpp_space_add_experts(space, cell);
    tpp_space_add_exchanges(space, cell);
    add_sequence_parallel(space, cell);
    add_splits(space, cell);
    add_micro_batch_sizes(space, cell);
    add_shardings(space, cell);
    tpp_space_add_recomputes(space, cell);
    add_switches(space, cell);
    add_depths(space, cell);
    cell->num_groups = count_groups(cell);
}

/* ---- groups ---- */

/* The last digit of a mixed-radix number: recomputation and switches change fastest, so that groups of one layer
 * program come together. */
static uint32_t take_digit(uint64_t *number, uint32_t radix)
{
    const uint32_t digit = (uint32_t)(*number % radix);
    *number /= radix;
    return digit;
}

static void set_split(const struct tpp_space *space, struct tpp_strategy *strategy, const struct tpp_space_split *split)
{
    strategy->virtual_pipeline_stages = split->virtual_pipeline_stages;
    strategy->first_stage_layers = split->first_stage_layers;
    strategy->last_stage_layers = split->last_stage_layers;
    strategy->account_for_embedding = split->account_for_embedding;
    strategy->account_for_loss = split->account_for_loss;
    strategy->balanced_split = split->balanced_split;
    strategy->schedule = !tpp_pin_is_free(space->limits.schedule) ? (enum tpp_schedule)space->limits.schedule
                         : split->virtual_pipeline_stages > 1     ? TPP_SCHEDULE_INTERLEAVED
                                                                  : TPP_SCHEDULE_1F1B;
}

bool tpp_space_group(const struct tpp_space *space, const struct tpp_space_cell *cell, uint64_t group,
                     struct tpp_strategy *strategy)
{
    assert(group < cell->num_groups);
    *strategy = tpp_strategy_defaults();
    strategy->tensor_parallel = cell->tensor_parallel;
    strategy->pipeline_parallel = cell->pipeline_parallel;
    strategy->context_parallel = cell->context_parallel;
    strategy->data_parallel = cell->data_parallel;
    strategy->offload_layers = cell->depths[take_digit(&group, cell->num_depths)];
    strategy->offload = cell->offloads[take_digit(&group, cell->num_offloads)];
    if (strategy->offload == TPP_OFFLOAD_OPTIMIZER)
        strategy->offload_percent = space->limits.offload_percent < 100 ? space->limits.offload_percent : 0;
    strategy->tp_comm_overlap = cell->tp_overlaps[take_digit(&group, cell->num_tp_overlaps)];
    const struct tpp_space_recompute recompute = cell->recomputes[take_digit(&group, cell->num_recomputes)];
    const struct tpp_space_sharding sharding = cell->shardings[take_digit(&group, cell->num_shardings)];
    const struct tpp_space_split *split = &cell->splits[take_digit(&group, cell->num_splits)];
    strategy->micro_batch_size = cell->micro_batch_sizes[take_digit(&group, cell->num_micro_batch_sizes)];
    strategy->sequence_parallel = cell->sequence_parallel[take_digit(&group, cell->num_sequence_parallel)];
    const uint32_t exchange = take_digit(&group, cell->num_exchanges);
    const struct tpp_space_experts experts = cell->experts[take_digit(&group, cell->num_experts)];
    const struct tpp_space_context context = cell->contexts[take_digit(&group, cell->num_contexts)];
    strategy->zero_stage = sharding.zero_stage;
    strategy->shard_group = sharding.shard_group;
    strategy->reshard_after_forward = sharding.reshard_after_forward;
    strategy->expert_parallel = experts.expert_parallel;
    strategy->expert_tensor_parallel = experts.expert_tensor_parallel;
    strategy->context_kind = context.kind;
    strategy->ulysses_parallel = context.ulysses_parallel;
    strategy->num_micro_batches =
        space->job->global_batch_size / ((uint64_t)cell->data_parallel * strategy->micro_batch_size);
    set_split(space, strategy, split);
    const bool has_exchange = tpp_space_set_exchange(cell, exchange, strategy);
    const bool is_new = tpp_space_set_recompute(strategy, recompute, split->max_stage_layers);
    tpp_space_set_variant(space, 0, strategy);
    return is_new && has_exchange;
}
