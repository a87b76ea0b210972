/* ZB-V: two chunks a stage in the shape of a V, no wait when F = B = W, with the memory of 1F1B (Qi et al. 2023, "Zero
 * Bubble Pipeline Parallelism", section 6; cost-model 8.2).
 *
 * The lists come from letting the stages run by themselves: whenever a stage is free it takes a forward if memory
 * allows, or a backward if one is there, or else a weight gradient. Three switches: which of the first two goes first,
 * whether a weight gradient follows its backward at once (it frees memory for the next forward), and whether a stage
 * rather waits for an input that is about to come. The setting with the shortest stages stays. O(operations * log p).
 */
#include "costmodel/schedules/schedule_parts.h"

#include <math.h>
#include <string.h>

enum { NUM_SWITCHES = 3, NUM_SETTINGS = 1 << NUM_SWITCHES };

/* A weight gradient is put off when the next input is known to come within this share of its time. */
static const double longest_wait = 0.5;

struct stage {
    uint32_t chunks[2];                 /* on the way there and on the way back */
    uint32_t forwards[2], backwards[2]; /* started so far */
    size_t next_weight;                 /* place in the list of the oldest backward whose W has not run */
    uint32_t num_weights;               /* waiting */
    double bytes, limit_bytes;
    double wake_seconds; /* when to look at the stage; INFINITY while nothing is known to come */
    size_t heap_place;
    double first_start_seconds, free_seconds;
    struct tpp_op_list list;
};

struct search {
    const struct tpp_schedule_problem *problem;
    uint32_t p, m;
    size_t ops_a_stage;
    struct stage *stages;
    double *ends[2]; /* of F and of B by chunk * m + micro-batch; INFINITY before its start */
    uint32_t *heap;  /* all stages, the first to wake on top */
    bool takes_forward_first, frees_at_once, waits_for_input; /* the switches */
};

static bool is_before(const struct search *search, uint32_t a, uint32_t b)
{
    const double x = search->stages[a].wake_seconds, y = search->stages[b].wake_seconds;
    return x < y || (x == y && a < b);
}

static void place_at(struct search *search, size_t place, uint32_t stage)
{
    search->heap[place] = stage;
    search->stages[stage].heap_place = place;
}

/* Moves a stage whose time has changed to its place in the heap. */
static void sift(struct search *search, uint32_t stage)
{
    size_t i = search->stages[stage].heap_place;
    for (; i > 0 && is_before(search, stage, search->heap[(i - 1) / 2]); i = (i - 1) / 2)
        place_at(search, i, search->heap[(i - 1) / 2]);
    for (size_t child; (child = 2 * i + 1) < search->p; i = child) {
        if (child + 1 < search->p && is_before(search, search->heap[child + 1], search->heap[child]))
            child++;
        if (!is_before(search, search->heap[child], stage))
            break;
        place_at(search, i, search->heap[child]);
    }
    place_at(search, i, stage);
}

static void set_wake(struct search *search, uint32_t stage, double seconds)
{
    search->stages[stage].wake_seconds = seconds;
    sift(search, stage);
}

/* Something arrives at a stage: it looks then, or when it is free. */
static void wake_at(struct search *search, uint32_t stage, double seconds)
{
    const double when = fmax(seconds, search->stages[stage].free_seconds);
    if (when < search->stages[stage].wake_seconds)
        set_wake(search, stage, when);
}

static uint32_t stage_of(const struct search *search, uint32_t chunk)
{
    return chunk < search->p ? chunk : 2 * search->p - 1 - chunk;
}

/* Neighbours in the model are on different stages but for chunks p-1 and p, where the V turns. */
static double edge_between(const struct search *search, uint32_t chunk, uint32_t neighbour)
{
    return (chunk > neighbour ? chunk : neighbour) == search->p ? 0 : search->problem->edge_seconds;
}

/* When the next forward or backward of one of the stage's chunks can start; INFINITY when that is not known yet. */
static double ready_seconds(const struct search *search, const struct stage *stage, enum tpp_schedule_op_kind kind,
                            int side)
{
    const uint32_t chunk = stage->chunks[side], last = 2 * search->p - 1;
    const uint32_t i = kind == TPP_SCHEDULE_OP_FORWARD ? stage->forwards[side] : stage->backwards[side];
    if (i == search->m || (kind == TPP_SCHEDULE_OP_BACKWARD && i == stage->forwards[side]))
        return INFINITY;
    if (kind == TPP_SCHEDULE_OP_FORWARD && chunk == 0)
        return 0;
    if (kind == TPP_SCHEDULE_OP_BACKWARD && chunk == last)
        return search->ends[TPP_SCHEDULE_OP_FORWARD][(size_t)chunk * search->m + i];
    const uint32_t source = kind == TPP_SCHEDULE_OP_FORWARD ? chunk - 1 : chunk + 1;
    return search->ends[kind][(size_t)source * search->m + i] + edge_between(search, chunk, source);
}

/* Bytes of a chunk's activations; one micro-batch of a chunk counts as 1 when the caller does not know its size. */
static double forward_bytes(const struct search *search, uint32_t chunk)
{
    const double bytes = search->problem->chunks[chunk].activation_bytes;
    return bytes > 0 ? bytes : 1;
}

static double weight_bytes(const struct search *search, uint32_t chunk)
{
    const struct tpp_schedule_chunk *c = &search->problem->chunks[chunk];
    return c->activation_bytes > 0 ? c->weight_activation_bytes : 0;
}

/* The way there may not run ahead of the way back by more than the V is long: what it would hold then could only be
 * freed by a backward that needs that memory. */
static bool may_forward(const struct search *search, const struct stage *stage, int side)
{
    if (stage->bytes + forward_bytes(search, stage->chunks[side]) > stage->limit_bytes)
        return false;
    const uint32_t depth = 2 * search->p - 1 - 2 * stage->chunks[0];
    return side == 1 || stage->forwards[0] - stage->forwards[1] < depth;
}

struct choice {
    bool is_found;
    enum tpp_schedule_op_kind kind;
    int side;
};

static struct choice choose_forward(const struct search *search, const struct stage *stage, double now)
{
    for (int side = 1; side >= 0; side--)
        if (ready_seconds(search, stage, TPP_SCHEDULE_OP_FORWARD, side) <= now && may_forward(search, stage, side))
            return (struct choice){true, TPP_SCHEDULE_OP_FORWARD, side};
    return (struct choice){0};
}

static struct choice choose_backward(const struct search *search, const struct stage *stage, double now)
{
    for (int side = 0; side < 2; side++)
        if (ready_seconds(search, stage, TPP_SCHEDULE_OP_BACKWARD, side) <= now)
            return (struct choice){true, TPP_SCHEDULE_OP_BACKWARD, side};
    return (struct choice){0};
}

/* Earliest input that is on its way; INFINITY when none is. */
static double next_arrival(const struct search *search, const struct stage *stage, double now)
{
    double next = INFINITY;
    for (int side = 0; side < 2; side++)
        for (int kind = TPP_SCHEDULE_OP_FORWARD; kind <= TPP_SCHEDULE_OP_BACKWARD; kind++) {
            const double ready = ready_seconds(search, stage, (enum tpp_schedule_op_kind)kind, side);
            if (ready > now && ready < next)
                next = ready;
        }
    return next;
}

/* Of the weight gradient that would run next. */
static double weight_seconds(const struct search *search, const struct stage *stage)
{
    return stage->num_weights > 0 ? search->problem->chunks[stage->list.ops[stage->next_weight].chunk].weight_seconds
                                  : 0;
}

static struct choice choose(const struct search *search, const struct stage *stage, double now)
{
    const bool has_forwards = stage->forwards[0] < search->m || stage->forwards[1] < search->m;
    if (search->frees_at_once && stage->num_weights > 0 && has_forwards)
        return (struct choice){true, TPP_SCHEDULE_OP_WEIGHT, 0};
    const struct choice forward = choose_forward(search, stage, now), backward = choose_backward(search, stage, now);
    const struct choice first = search->takes_forward_first ? forward : backward;
    const struct choice second = search->takes_forward_first ? backward : forward;
    if (first.is_found || second.is_found)
        return first.is_found ? first : second;
    const bool is_worth_a_wait = search->waits_for_input &&
                                 next_arrival(search, stage, now) - now < longest_wait * weight_seconds(search, stage);
    return (struct choice){stage->num_weights > 0 && !is_worth_a_wait, TPP_SCHEDULE_OP_WEIGHT, 0};
}

static void run_weight(struct search *search, struct stage *stage, double now)
{
    const struct tpp_schedule_op op = stage->list.ops[stage->next_weight];
    tpp_op_add(&stage->list, TPP_SCHEDULE_OP_WEIGHT, op.chunk, op.micro_batch);
    stage->bytes -= weight_bytes(search, op.chunk);
    stage->free_seconds = now + search->problem->chunks[op.chunk].weight_seconds;
    stage->num_weights--;
    do
        stage->next_weight++;
    while (stage->num_weights > 0 && stage->list.ops[stage->next_weight].kind != TPP_SCHEDULE_OP_BACKWARD);
}

static void run_forward(struct search *search, struct stage *stage, int side, double now)
{
    const uint32_t chunk = stage->chunks[side], i = stage->forwards[side]++;
    const double transfer = chunk > 0 && chunk != search->p ? search->problem->transfer_seconds : 0;
    stage->bytes += forward_bytes(search, chunk);
    stage->free_seconds = now + search->problem->chunks[chunk].forward_seconds + transfer;
    search->ends[TPP_SCHEDULE_OP_FORWARD][(size_t)chunk * search->m + i] = stage->free_seconds;
    tpp_op_add(&stage->list, TPP_SCHEDULE_OP_FORWARD, chunk, i);
    if (chunk + 1 < 2 * search->p)
        wake_at(search, stage_of(search, chunk + 1), stage->free_seconds + edge_between(search, chunk, chunk + 1));
}

static void run_backward(struct search *search, struct stage *stage, int side, double now)
{
    const uint32_t chunk = stage->chunks[side], i = stage->backwards[side]++, last = 2 * search->p - 1;
    const double transfer = chunk < last && chunk + 1 != search->p ? search->problem->transfer_seconds : 0;
    if (stage->num_weights++ == 0)
        stage->next_weight = stage->list.count;
    stage->bytes += weight_bytes(search, chunk) - forward_bytes(search, chunk);
    stage->free_seconds = now + search->problem->chunks[chunk].backward_seconds + transfer;
    search->ends[TPP_SCHEDULE_OP_BACKWARD][(size_t)chunk * search->m + i] = stage->free_seconds;
    tpp_op_add(&stage->list, TPP_SCHEDULE_OP_BACKWARD, chunk, i);
    if (chunk > 0)
        wake_at(search, stage_of(search, chunk - 1), stage->free_seconds + edge_between(search, chunk, chunk - 1));
}

static void visit_stage(struct search *search, uint32_t index, double now)
{
    struct stage *stage = &search->stages[index];
    const struct choice choice = choose(search, stage, now);
    if (!choice.is_found) {
        set_wake(search, index, next_arrival(search, stage, now));
        return;
    }
    if (stage->list.count == 0)
        stage->first_start_seconds = now;
    if (choice.kind == TPP_SCHEDULE_OP_WEIGHT)
        run_weight(search, stage, now);
    else if (choice.kind == TPP_SCHEDULE_OP_FORWARD)
        run_forward(search, stage, choice.side, now);
    else
        run_backward(search, stage, choice.side, now);
    set_wake(search, index, stage->free_seconds);
}

/* The limit in full stages, of both chunks together. */
static void start_stage(const struct search *search, uint32_t index, struct tpp_schedule_op *ops)
{
    const uint32_t there = index, back = 2 * search->p - 1 - index;
    search->stages[index] = (struct stage){
        .chunks = {there, back},
        .limit_bytes =
            (forward_bytes(search, there) + forward_bytes(search, back)) * tpp_problem_memory_limit(search->problem),
        .wake_seconds = INFINITY,
        .list = {.ops = ops + index * search->ops_a_stage},
    };
}

/* Lets the stages run; false when they get stuck for memory. *span: the longest stage's time. */
static bool try_setting(struct search *search, unsigned setting, struct tpp_schedule_op *ops, double *span)
{
    search->takes_forward_first = !(setting & 1);
    search->frees_at_once = setting & 2;
    search->waits_for_input = setting & 4;
    for (size_t i = 0; i < 4 * (size_t)search->p * search->m; i++)
        search->ends[0][i] = INFINITY;
    for (uint32_t index = 0; index < search->p; index++) {
        start_stage(search, index, ops);
        place_at(search, index, index);
    }
    for (set_wake(search, 0, 0); search->stages[search->heap[0]].wake_seconds < INFINITY;)
        visit_stage(search, search->heap[0], search->stages[search->heap[0]].wake_seconds);
    *span = 0;
    for (uint32_t index = 0; index < search->p; index++) {
        const struct stage *stage = &search->stages[index];
        if (stage->list.count < search->ops_a_stage)
            return false;
        *span = fmax(*span, stage->free_seconds - stage->first_start_seconds);
    }
    return true;
}

static enum tpp_code prepare(struct tpp_schedule_run *run, const struct tpp_schedule_problem *problem,
                             struct search *search, struct tpp_error *err)
{
    const uint32_t p = problem->pipeline_parallel, m = problem->num_micro_batches;
    const size_t cells = 4 * (size_t)p * m;
    enum tpp_code code = tpp_buffer_reserve(
        &run->search, 1, p * sizeof(struct stage) + cells * sizeof(double) + p * sizeof(uint32_t), err);
    if (code == TPP_OK)
        code = tpp_buffer_reserve(&run->candidate, p * run->ops_a_stage, sizeof(struct tpp_schedule_op), err);
    if (code != TPP_OK)
        return code;
    *search = (struct search){
        .problem = problem, .p = p, .m = m, .ops_a_stage = run->ops_a_stage, .stages = run->search.data};
    search->ends[TPP_SCHEDULE_OP_FORWARD] = (double *)(search->stages + p);
    search->ends[TPP_SCHEDULE_OP_BACKWARD] = search->ends[TPP_SCHEDULE_OP_FORWARD] + cells / 2;
    search->heap = (uint32_t *)(search->ends[TPP_SCHEDULE_OP_FORWARD] + cells);
    return TPP_OK;
}

static enum tpp_code search_order(struct tpp_schedule_run *run, const struct tpp_schedule_problem *problem,
                                  struct tpp_error *err)
{
    struct search search;
    const enum tpp_code code = prepare(run, problem, &search, err);
    if (code != TPP_OK)
        return code;
    double best = INFINITY;
    for (unsigned setting = 0; setting < NUM_SETTINGS; setting++) {
        double span;
        if (!try_setting(&search, setting, run->candidate.data, &span) || span >= best)
            continue;
        best = span;
        memcpy(run->ops.data, run->candidate.data, search.p * run->ops_a_stage * sizeof(struct tpp_schedule_op));
    }
    if (isinf(best))
        return tpp_fail(err, TPP_E_STRATEGY, "schedule", "allow as many micro-batches as there are stages",
                        "a memory limit of %g micro-batches a stage is too small for %u stages",
                        tpp_problem_memory_limit(problem), search.p);
    return TPP_OK;
}

const struct tpp_schedule_row tpp_schedule_zb_v = {
    .info = {.name = "zb-v", .placement = TPP_PLACEMENT_V, .splits_backward = true, .is_searched = true},
    .chunks_a_stage = 2,
    .memory_limit_in_stages = 1,
    .search = search_order,
};
