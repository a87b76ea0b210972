/* The searched zero-bubble orders on plain stages: a greedy heuristic in rounds under a memory limit, tried with all
 * settings of three switches; the shortest one stays (Qi et al. 2023, "Zero Bubble Pipeline Parallelism", section 3.1;
 * cost-model 8.2).
 *
 * Round 0 puts one forward on every stage and as many more as fit before the first backward comes back; round i puts at
 * most one more forward and then backward i on every stage. Weight gradients fill the waits and free memory. All
 * stages' clocks run along, so that the heuristic knows each wait. O(p m) for each setting. */
#include "costmodel/schedules/schedule_parts.h"

#include <math.h>
#include <string.h>

enum { NUM_SWITCHES = 3, NUM_SETTINGS = 1 << NUM_SWITCHES };

struct stage {
    double seconds[3];                  /* of F, B, W, transfers included */
    double forward_bytes, weight_bytes; /* M_B, M_W */
    double limit_bytes;
    uint32_t count[3]; /* ops put so far */
    double clock_seconds, first_start_seconds;
    double bytes, idle_seconds;
    uint32_t num_wanted; /* forwards of this round */
    struct tpp_op_list list;
};

struct search {
    uint32_t p, m;
    double edge_seconds;
    struct stage *stages;
    double *forward_end;           /* by stage * m + micro-batch */
    double *backward_end;          /* of the last backward of each stage */
    double most_idle_seconds;      /* of all stages */
    bool must_fit_before_backward; /* switch: extra forwards end before the first backward arrives */
    bool may_skip_forward;         /* switch: a stage two forwards ahead of the next may leave one out */
    bool fills_small_waits;        /* switch: also with a weight gradient that overruns */
};

/* When the input of the next op of `kind` arrives at a stage. */
static double arrival(const struct search *search, uint32_t stage, enum tpp_schedule_op_kind kind)
{
    if (kind == TPP_SCHEDULE_OP_FORWARD && stage > 0)
        return search->forward_end[(size_t)(stage - 1) * search->m +
                                   search->stages[stage].count[TPP_SCHEDULE_OP_FORWARD]] +
               search->edge_seconds;
    if (kind == TPP_SCHEDULE_OP_BACKWARD && stage + 1 < search->p)
        return search->backward_end[stage + 1] + search->edge_seconds;
    return 0;
}

static double change_bytes(const struct stage *stage, enum tpp_schedule_op_kind kind)
{
    if (kind == TPP_SCHEDULE_OP_FORWARD)
        return stage->forward_bytes;
    return kind == TPP_SCHEDULE_OP_BACKWARD ? stage->weight_bytes - stage->forward_bytes : -stage->weight_bytes;
}

static void put(struct search *search, uint32_t index, enum tpp_schedule_op_kind kind)
{
    struct stage *stage = &search->stages[index];
    const double start = fmax(stage->clock_seconds, arrival(search, index, kind));
    if (stage->count[TPP_SCHEDULE_OP_FORWARD] == 0)
        stage->first_start_seconds = start;
    else
        stage->idle_seconds += start - stage->clock_seconds;
    search->most_idle_seconds = fmax(search->most_idle_seconds, stage->idle_seconds);
    stage->clock_seconds = start + stage->seconds[kind];
    stage->bytes += change_bytes(stage, kind);
    if (kind == TPP_SCHEDULE_OP_FORWARD)
        search->forward_end[(size_t)index * search->m + stage->count[kind]] = stage->clock_seconds;
    if (kind == TPP_SCHEDULE_OP_BACKWARD)
        search->backward_end[index] = stage->clock_seconds;
    tpp_op_add(&stage->list, kind, index, stage->count[kind]);
    stage->count[kind]++;
}

static bool has_weight(const struct stage *stage)
{
    return stage->count[TPP_SCHEDULE_OP_WEIGHT] < stage->count[TPP_SCHEDULE_OP_BACKWARD];
}

/* Forwards beyond the first that a stage takes before its first backward arrives at `arrival_seconds`; moves *clock on.
 */
static uint32_t extra_forwards(const struct search *search, const struct stage *stage, double arrival_seconds,
                               double *clock)
{
    double bytes = stage->bytes + stage->forward_bytes;
    uint32_t extra = 0;
    while (stage->count[TPP_SCHEDULE_OP_FORWARD] + extra < search->m && bytes <= stage->limit_bytes) {
        const double end = *clock + stage->seconds[TPP_SCHEDULE_OP_FORWARD];
        if (search->must_fit_before_backward ? end > arrival_seconds : *clock >= arrival_seconds)
            break;
        *clock = end;
        bytes += stage->forward_bytes;
        extra++;
    }
    return extra;
}

/* Round 0. From the last stage up, because the first backward comes from there. */
static void first_round(struct search *search)
{
    const uint32_t p = search->p;
    for (uint32_t j = 0; j < p; j++)
        put(search, j, TPP_SCHEDULE_OP_FORWARD);
    double backward_end = search->stages[p - 1].clock_seconds + search->stages[p - 1].seconds[TPP_SCHEDULE_OP_BACKWARD];
    search->stages[p - 1].num_wanted = 0;
    for (uint32_t j = p - 1; j-- > 0;) {
        struct stage *stage = &search->stages[j];
        double clock = stage->clock_seconds;
        stage->num_wanted = extra_forwards(search, stage, backward_end + search->edge_seconds, &clock);
        backward_end = fmax(clock, backward_end + search->edge_seconds) + stage->seconds[TPP_SCHEDULE_OP_BACKWARD];
    }
    for (uint32_t j = 1; j < p; j++) {
        struct stage *stage = &search->stages[j];
        const uint32_t before = search->stages[j - 1].num_wanted;
        /* One fewer than the stage above, unless all micro-batches are under way. */
        if (stage->num_wanted > before)
            stage->num_wanted = before;
        if (stage->num_wanted == before && before > 0 && 1 + before < search->m)
            stage->num_wanted--;
    }
    for (uint32_t j = 0; j < p; j++)
        for (uint32_t i = 0; i < search->stages[j].num_wanted; i++)
            put(search, j, TPP_SCHEDULE_OP_FORWARD);
    for (uint32_t j = p; j-- > 0;)
        put(search, j, TPP_SCHEDULE_OP_BACKWARD);
}

/* Weight gradients that must run before one more forward fits: their seconds. */
static double seconds_to_make_room(const struct stage *stage)
{
    double bytes = stage->bytes + stage->forward_bytes;
    uint32_t waiting = stage->count[TPP_SCHEDULE_OP_BACKWARD] - stage->count[TPP_SCHEDULE_OP_WEIGHT];
    double seconds = 0;
    for (; bytes > stage->limit_bytes && waiting > 0; waiting--) {
        seconds += stage->seconds[TPP_SCHEDULE_OP_WEIGHT];
        bytes -= stage->weight_bytes;
    }
    return seconds;
}

/* A stage well ahead of the next one may leave its forward out when the next stage could run one and a backward first.
 */
static bool wants_forward(const struct search *search, uint32_t j)
{
    const struct stage *stage = &search->stages[j];
    if (stage->count[TPP_SCHEDULE_OP_FORWARD] >= search->m)
        return false;
    const bool is_needed =
        stage->count[TPP_SCHEDULE_OP_FORWARD] == stage->count[TPP_SCHEDULE_OP_BACKWARD]; /* by this round's backward */
    if (!search->may_skip_forward || j + 1 == search->p || is_needed)
        return true;
    const struct stage *next = stage + 1;
    if (stage->count[TPP_SCHEDULE_OP_FORWARD] < next->count[TPP_SCHEDULE_OP_FORWARD] + 2)
        return true;
    const double next_backward = next->clock_seconds + next->seconds[TPP_SCHEDULE_OP_FORWARD] +
                                 next->seconds[TPP_SCHEDULE_OP_BACKWARD] + search->edge_seconds;
    if (stage->clock_seconds >= next_backward)
        return false;
    if (stage->clock_seconds + stage->seconds[TPP_SCHEDULE_OP_FORWARD] + seconds_to_make_room(stage) <= next_backward)
        return true;
    return next_backward - stage->clock_seconds > search->most_idle_seconds - stage->idle_seconds;
}

/* Weight gradients that fit into the wait for the next op of `kind`, and one more that does not when this stage can
 * afford no further wait, or the switch says so. */
static void fill_wait(struct search *search, uint32_t j, enum tpp_schedule_op_kind kind)
{
    struct stage *stage = &search->stages[j];
    const double ready = arrival(search, j, kind);
    while (has_weight(stage) && stage->clock_seconds + stage->seconds[TPP_SCHEDULE_OP_WEIGHT] <= ready)
        put(search, j, TPP_SCHEDULE_OP_WEIGHT);
    if (!has_weight(stage) || stage->clock_seconds >= ready)
        return;
    const bool is_affordable = ready - stage->clock_seconds <= search->most_idle_seconds - stage->idle_seconds;
    if (!is_affordable || search->fills_small_waits)
        put(search, j, TPP_SCHEDULE_OP_WEIGHT);
}

/* False when memory for one more op of `kind` cannot be had. */
static bool make_room(struct search *search, uint32_t j, enum tpp_schedule_op_kind kind)
{
    struct stage *stage = &search->stages[j];
    while (stage->bytes + change_bytes(stage, kind) > stage->limit_bytes) {
        if (!has_weight(stage))
            return false;
        put(search, j, TPP_SCHEDULE_OP_WEIGHT);
    }
    return true;
}

static bool next_round(struct search *search)
{
    const uint32_t p = search->p;
    for (uint32_t j = 0; j < p; j++)
        search->stages[j].num_wanted = wants_forward(search, j);
    for (uint32_t j = p - 1; j-- > 0;)
        if (search->stages[j].num_wanted > search->stages[j + 1].num_wanted)
            search->stages[j].num_wanted = search->stages[j + 1].num_wanted;
    for (uint32_t j = 0; j < p; j++) {
        if (search->stages[j].num_wanted == 0)
            continue;
        if (!make_room(search, j, TPP_SCHEDULE_OP_FORWARD))
            return false;
        if (j > 0)
            fill_wait(search, j, TPP_SCHEDULE_OP_FORWARD);
        put(search, j, TPP_SCHEDULE_OP_FORWARD);
    }
    for (uint32_t j = p; j-- > 0;) {
        if (!make_room(search, j, TPP_SCHEDULE_OP_BACKWARD))
            return false;
        if (j + 1 < p)
            fill_wait(search, j, TPP_SCHEDULE_OP_BACKWARD);
        while (j == 0 && search->stages[0].count[TPP_SCHEDULE_OP_FORWARD] == search->m &&
               has_weight(&search->stages[0]))
            put(search, j, TPP_SCHEDULE_OP_WEIGHT);
        put(search, j, TPP_SCHEDULE_OP_BACKWARD);
    }
    return true;
}

/* Bytes of a stage; one micro-batch counts as 1 when the caller does not know its size. */
static void start_stage(const struct tpp_schedule_problem *problem, uint32_t index, struct stage *stage,
                        struct tpp_schedule_op *ops)
{
    const struct tpp_schedule_chunk *chunk = &problem->chunks[index];
    const bool has_bytes = chunk->activation_bytes > 0;
    const double transfer = problem->transfer_seconds, forward_bytes = has_bytes ? chunk->activation_bytes : 1;
    *stage = (struct stage){
        .seconds = {chunk->forward_seconds + (index > 0 ? transfer : 0),
                    chunk->backward_seconds + (index + 1 < problem->pipeline_parallel ? transfer : 0),
                    chunk->weight_seconds},
        .forward_bytes = forward_bytes,
        .weight_bytes = has_bytes ? chunk->weight_activation_bytes : 0,
        .limit_bytes = forward_bytes * tpp_problem_memory_limit(problem),
        .list = {.ops = ops},
    };
}

/* Fills the lists that start at `ops` with one setting of the switches; *span: the longest stage's. */
static bool try_setting(struct search *search, const struct tpp_schedule_problem *problem, unsigned setting,
                        struct tpp_schedule_op *ops, double *span)
{
    for (uint32_t j = 0; j < search->p; j++)
        start_stage(problem, j, &search->stages[j], ops + (size_t)j * search->m * 3);
    search->most_idle_seconds = 0;
    search->must_fit_before_backward = !(setting & 1);
    search->may_skip_forward = !(setting & 2);
    search->fills_small_waits = !(setting & 4);
    first_round(search);
    for (uint32_t i = 1; i < search->m; i++)
        if (!next_round(search))
            return false;
    *span = 0;
    for (uint32_t j = 0; j < search->p; j++) {
        while (has_weight(&search->stages[j]))
            put(search, j, TPP_SCHEDULE_OP_WEIGHT);
        *span = fmax(*span, search->stages[j].clock_seconds - search->stages[j].first_start_seconds);
    }
    return true;
}

static enum tpp_code prepare(struct tpp_schedule_run *run, const struct tpp_schedule_problem *problem,
                             struct search *search, struct tpp_error *err)
{
    const uint32_t p = problem->pipeline_parallel, m = problem->num_micro_batches;
    const size_t stages = p * sizeof(struct stage), cells = (size_t)p * m + p;
    enum tpp_code code = tpp_buffer_reserve(&run->search, 1, stages + cells * sizeof(double), err);
    if (code == TPP_OK)
        code = tpp_buffer_reserve(&run->candidate, p * run->ops_a_stage, sizeof(struct tpp_schedule_op), err);
    if (code != TPP_OK)
        return code;
    *search = (struct search){.p = p, .m = m, .edge_seconds = problem->edge_seconds, .stages = run->search.data};
    search->forward_end = (double *)(search->stages + p);
    search->backward_end = search->forward_end + (size_t)p * m;
    return TPP_OK;
}

enum tpp_code tpp_search_zero_bubble(struct tpp_schedule_run *run, const struct tpp_schedule_problem *problem,
                                     struct tpp_error *err)
{
    struct search search;
    const enum tpp_code code = prepare(run, problem, &search, err);
    if (code != TPP_OK)
        return code;
    double best = INFINITY;
    for (unsigned setting = 0; setting < NUM_SETTINGS; setting++) {
        double span;
        if (!try_setting(&search, problem, setting, run->candidate.data, &span) || span >= best)
            continue;
        best = span;
        memcpy(run->ops.data, run->candidate.data, search.p * run->ops_a_stage * sizeof(struct tpp_schedule_op));
    }
    if (isinf(best))
        return tpp_fail(err, TPP_E_STRATEGY, "schedule", "allow at least as many micro-batches as there are stages",
                        "a memory limit of %g micro-batches a stage is too small for %u stages",
                        tpp_problem_memory_limit(problem), search.p);
    return TPP_OK;
}
