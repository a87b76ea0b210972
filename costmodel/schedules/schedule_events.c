/* The event loop: every stage works its list off in order, an operation starts when its stage is free and its input is
 * there (cost-model 8.2). A stage that waits is looked at again when an operation ends that it may wait for:
 * O(operations), with nothing allocated in the loop. */
#include "costmodel/schedules/schedule_parts.h"

#include <math.h>
#include <string.h>

static const double not_finished = -1; /* times are never negative */

/* What the operations of a chunk take, and whom they wait for and wake. */
struct route {
    double seconds[TPP_SCHEDULE_OP_KIND_COUNT]; /* by kind; W is in B when the backward is not split */
    double hidden[TPP_SCHEDULE_OP_KIND_COUNT];  /* of them, when F and B run together */
    uint32_t stage;
    uint32_t previous, next;         /* chunk whose F (B) comes before ours, or TPP_NO_CHUNK */
    double previous_edge, next_edge; /* seconds from their end to our start */
    uint32_t previous_stage, next_stage;
};

struct cursor {          /* of a stage */
    size_t head;         /* first op that has not run */
    double free_seconds; /* end of the last one that has */
    uint32_t queue_slot; /* the stage in this slot of the queue of stages to look at */
    bool is_queued;
    bool has_arrived;    /* at the pass at its head, which all stages begin at once */
};

/* Where all stages meet: S and T of a micro-batch, and the start of S when they begin it at once. */
enum meeting { VOCABULARY_DONE, VOCABULARY_WEIGHT_DONE, VOCABULARY_BEGINS, NUM_MEETINGS };
struct gathering {
    uint32_t count;        /* stages that are there */
    double latest_seconds; /* of those */
};

struct loop {
    const struct tpp_schedule_problem *problem;
    struct tpp_schedule_run *run;
    struct cursor *cursors; /* num_stages */
    struct route *routes;   /* num_chunks */
    double *finish[2];      /* end of F and of B by chunk * m + micro-batch */
    struct gathering *gatherings; /* by micro-batch * NUM_MEETINGS + meeting; NULL without vocabulary passes */
    uint32_t queue_first, queue_count;
};

static void wake(struct loop *loop, uint32_t stage)
{
    if (loop->cursors[stage].is_queued)
        return;
    loop->cursors[stage].is_queued = true;
    const uint32_t p = loop->run->num_stages;
    loop->cursors[(loop->queue_first + loop->queue_count++) % p].queue_slot = stage;
}

static size_t finish_index(const struct loop *loop, uint32_t chunk, uint32_t micro_batch)
{
    return (size_t)chunk * loop->problem->num_micro_batches + micro_batch;
}

static void wake_all(struct loop *loop)
{
    for (uint32_t stage = 0; stage < loop->run->num_stages; stage++)
        wake(loop, stage);
}

static struct gathering *gathering_of(const struct loop *loop, uint32_t micro_batch, enum meeting meeting)
{
    return &loop->gatherings[(size_t)micro_batch * NUM_MEETINGS + meeting];
}

/* A stage is there; the last one sends all others on. */
static void gather(struct loop *loop, uint32_t micro_batch, enum meeting meeting, double seconds)
{
    struct gathering *gathering = gathering_of(loop, micro_batch, meeting);
    gathering->latest_seconds = fmax(gathering->latest_seconds, seconds);
    if (++gathering->count == loop->run->num_stages)
        wake_all(loop);
}

static double gathered(const struct loop *loop, uint32_t micro_batch, enum meeting meeting)
{
    const struct gathering *gathering = gathering_of(loop, micro_batch, meeting);
    return gathering->count == loop->run->num_stages ? gathering->latest_seconds : not_finished;
}

/* When the passes of shared vocabulary layers let `op` run: its own, and B of the last stage. */
static double vocabulary_arrival(const struct loop *loop, const struct tpp_schedule_op *op)
{
    const enum tpp_vocabulary_parallel kind = loop->problem->vocabulary_parallel;
    const uint32_t last = loop->run->num_stages - 1;
    if (op->kind == TPP_SCHEDULE_OP_VOCABULARY)
        return kind == TPP_VOCABULARY_PARALLEL_INTERLACED
                   ? gathered(loop, op->micro_batch, VOCABULARY_BEGINS)
                   : loop->finish[TPP_SCHEDULE_OP_FORWARD][finish_index(loop, last, op->micro_batch)];
    const bool waits_for_weights =
        op->kind == TPP_SCHEDULE_OP_BACKWARD && kind == TPP_VOCABULARY_PARALLEL_TWO_BARRIERS;
    return gathered(loop, op->micro_batch, waits_for_weights ? VOCABULARY_WEIGHT_DONE : VOCABULARY_DONE);
}

/* When the input of `op` from another chunk has arrived; not_finished when it has not. Its stage ran what it needs of
 * its own chunk before it: the lists say so. */
static double arrival(const struct loop *loop, const struct tpp_schedule_op *op)
{
    const struct route *route = &loop->routes[op->chunk];
    const bool is_forward = op->kind == TPP_SCHEDULE_OP_FORWARD;
    const bool is_last_backward = op->kind == TPP_SCHEDULE_OP_BACKWARD && route->next == TPP_NO_CHUNK;
    if (op->kind == TPP_SCHEDULE_OP_WEIGHT)
        return 0;
    if (op->kind >= TPP_SCHEDULE_OP_VOCABULARY || (loop->gatherings && is_last_backward))
        return vocabulary_arrival(loop, op);
    const uint32_t source = is_forward ? route->previous : route->next;
    if (source == TPP_NO_CHUNK)
        return 0;
    const double end = loop->finish[op->kind][finish_index(loop, source, op->micro_batch)];
    return end == not_finished ? end : end + (is_forward ? route->previous_edge : route->next_edge);
}

/* The op at the cursor and those that run together with it: how many, how long, from when. */
struct block {
    size_t num_ops;
    double start_seconds, seconds;
    bool is_ready;
};

static struct block next_block(const struct loop *loop, const struct tpp_schedule_op *ops, const struct cursor *cursor)
{
    struct block block = {.start_seconds = cursor->free_seconds, .is_ready = true};
    bool has_kind[TPP_SCHEDULE_OP_KIND_COUNT] = {false};
    double hidden = 0;
    const struct tpp_schedule_op *op = ops + cursor->head;
    for (;; op++) {
        const double ready = arrival(loop, op);
        if (ready == not_finished) {
            block.is_ready = false;
            return block;
        }
        block.start_seconds = fmax(block.start_seconds, ready);
        const double length =
            loop->problem->micro_batch_lengths ? loop->problem->micro_batch_lengths[op->micro_batch] : 1;
        block.seconds += length * loop->routes[op->chunk].seconds[op->kind];
        hidden += length * loop->routes[op->chunk].hidden[op->kind];
        has_kind[op->kind] = true;
        block.num_ops++;
        if (!op->is_paired)
            break;
    }
    if (has_kind[TPP_SCHEDULE_OP_FORWARD] && has_kind[TPP_SCHEDULE_OP_BACKWARD])
        block.seconds = fmax(0, block.seconds - hidden);
    return block;
}

static void finish_block(struct loop *loop, uint32_t stage, const struct block *block)
{
    struct cursor *cursor = &loop->cursors[stage];
    const struct tpp_schedule_op *ops = tpp_run_list(loop->run, stage);
    struct tpp_schedule_time *times =
        (struct tpp_schedule_time *)loop->run->times.data + stage * loop->run->ops_a_stage;
    const double end = block->start_seconds + block->seconds;
    cursor->free_seconds = end;
    for (size_t i = 0; i < block->num_ops; i++, cursor->head++) {
        const struct tpp_schedule_op *op = &ops[cursor->head];
        times[cursor->head].start_seconds = block->start_seconds;
        times[cursor->head].end_seconds = end;
        if (op->kind == TPP_SCHEDULE_OP_WEIGHT)
            continue;
        if (op->kind >= TPP_SCHEDULE_OP_VOCABULARY) {
            gather(loop, op->micro_batch,
                   op->kind == TPP_SCHEDULE_OP_VOCABULARY ? VOCABULARY_DONE : VOCABULARY_WEIGHT_DONE, end);
            continue;
        }
        const struct route *route = &loop->routes[op->chunk];
        const bool is_forward = op->kind == TPP_SCHEDULE_OP_FORWARD;
        loop->finish[op->kind][finish_index(loop, op->chunk, op->micro_batch)] = end;
        if ((is_forward ? route->next : route->previous) != TPP_NO_CHUNK)
            wake(loop, is_forward ? route->next_stage : route->previous_stage);
        else if (is_forward && loop->gatherings)
            wake_all(loop);
    }
}

/* Runs a stage as far as it gets. */
static void advance(struct loop *loop, uint32_t stage)
{
    struct cursor *cursor = &loop->cursors[stage];
    const struct tpp_schedule_op *ops = tpp_run_list(loop->run, stage);
    struct tpp_schedule_stage *summary = (struct tpp_schedule_stage *)loop->run->stages.data + stage;
    const bool is_interlaced = loop->problem->vocabulary_parallel == TPP_VOCABULARY_PARALLEL_INTERLACED;
    while (cursor->head < loop->run->ops_a_stage) {
        const struct tpp_schedule_op *op = &ops[cursor->head];
        if (is_interlaced && op->kind == TPP_SCHEDULE_OP_VOCABULARY && !cursor->has_arrived) {
            cursor->has_arrived = true;
            gather(loop, op->micro_batch, VOCABULARY_BEGINS, cursor->free_seconds);
        }
        const struct block block = next_block(loop, ops, cursor);
        if (!block.is_ready)
            return;
        cursor->has_arrived = false;
        if (cursor->head == 0)
            summary->first_start_seconds = block.start_seconds;
        summary->busy_seconds += block.seconds;
        finish_block(loop, stage, &block);
        summary->last_end_seconds = cursor->free_seconds;
    }
}

static struct route make_route(const struct tpp_schedule_problem *problem, uint32_t chunk)
{
    const struct tpp_schedule_info *info = tpp_schedule_info(problem->schedule);
    const struct tpp_schedule_chunk *times = tpp_problem_chunk(problem, chunk);
    const uint32_t p = problem->pipeline_parallel, num_chunks = tpp_problem_num_chunks(problem);
    struct route route = {
        .seconds = {times->forward_seconds,
                    times->backward_seconds + (info->splits_backward ? 0 : times->weight_seconds),
                    times->weight_seconds, times->vocabulary_seconds, times->vocabulary_weight_seconds},
        .hidden = {times->hidden_forward_seconds, times->hidden_backward_seconds, 0},
        .stage = tpp_schedule_chunk_stage(info->placement, p, chunk),
        .previous = tpp_schedule_previous_chunk(info->placement, p, chunk),
        .next = tpp_schedule_next_chunk(info->placement, p, num_chunks, chunk),
    };
    if (route.previous != TPP_NO_CHUNK) {
        route.previous_stage = tpp_schedule_chunk_stage(info->placement, p, route.previous);
        const bool crosses = route.previous_stage != route.stage;
        route.previous_edge = crosses ? problem->edge_seconds : 0;
        route.seconds[TPP_SCHEDULE_OP_FORWARD] += crosses ? problem->transfer_seconds : 0;
    }
    if (route.next != TPP_NO_CHUNK) {
        route.next_stage = tpp_schedule_chunk_stage(info->placement, p, route.next);
        const bool crosses = route.next_stage != route.stage;
        route.next_edge = crosses ? problem->edge_seconds : 0;
        route.seconds[TPP_SCHEDULE_OP_BACKWARD] += crosses ? problem->transfer_seconds : 0;
    }
    return route;
}

static enum tpp_code prepare(struct loop *loop, struct tpp_error *err)
{
    struct tpp_schedule_run *run = loop->run;
    const uint32_t num_chunks = tpp_problem_num_chunks(loop->problem);
    const size_t cells = (size_t)num_chunks * loop->problem->num_micro_batches;
    const size_t cursor_bytes = run->num_stages * sizeof(struct cursor),
                 route_bytes = num_chunks * sizeof(struct route);
    const bool has_vocabulary = loop->problem->vocabulary_parallel != TPP_VOCABULARY_PARALLEL_NONE;
    const size_t gathering_bytes =
        has_vocabulary ? (size_t)loop->problem->num_micro_batches * NUM_MEETINGS * sizeof(struct gathering) : 0;
    enum tpp_code code = tpp_buffer_reserve(&run->finish, 1, 2 * cells * sizeof(double) + gathering_bytes, err);
    if (code == TPP_OK)
        code = tpp_buffer_reserve(&run->cursors, 1, cursor_bytes + route_bytes, err);
    if (code == TPP_OK)
        code = tpp_buffer_reserve(&run->stages, run->num_stages, sizeof(struct tpp_schedule_stage), err);
    if (code != TPP_OK)
        return code;
    loop->routes = run->cursors.data;
    loop->cursors = (struct cursor *)(loop->routes + num_chunks);
    loop->finish[TPP_SCHEDULE_OP_FORWARD] = run->finish.data;
    loop->finish[TPP_SCHEDULE_OP_BACKWARD] = loop->finish[TPP_SCHEDULE_OP_FORWARD] + cells;
    if (has_vocabulary) {
        loop->gatherings = (struct gathering *)(loop->finish[TPP_SCHEDULE_OP_BACKWARD] + cells);
        memset(loop->gatherings, 0, gathering_bytes);
    }
    for (size_t i = 0; i < 2 * cells; i++)
        loop->finish[TPP_SCHEDULE_OP_FORWARD][i] = not_finished;
    for (uint32_t chunk = 0; chunk < num_chunks; chunk++)
        loop->routes[chunk] = make_route(loop->problem, chunk);
    for (uint32_t stage = 0; stage < run->num_stages; stage++) {
        loop->cursors[stage] = (struct cursor){0};
        ((struct tpp_schedule_stage *)run->stages.data)[stage] = (struct tpp_schedule_stage){0};
    }
    return TPP_OK;
}

enum tpp_code tpp_schedule_play(struct tpp_schedule_run *run, const struct tpp_schedule_problem *problem,
                                struct tpp_error *err)
{
    struct loop loop = {.problem = problem, .run = run};
    const enum tpp_code code = prepare(&loop, err);
    if (code != TPP_OK)
        return code;
    for (uint32_t stage = 0; stage < run->num_stages; stage++)
        wake(&loop, stage);
    while (loop.queue_count > 0) {
        const uint32_t stage = loop.cursors[loop.queue_first].queue_slot;
        loop.queue_first = (loop.queue_first + 1) % run->num_stages;
        loop.queue_count--;
        loop.cursors[stage].is_queued = false;
        advance(&loop, stage);
    }
    for (uint32_t stage = 0; stage < run->num_stages; stage++)
        if (loop.cursors[stage].head < run->ops_a_stage)
            return tpp_fail(err, TPP_E_INTERNAL, "schedule", NULL, "the %s schedule stops on stage %u",
                            tpp_schedule_info(problem->schedule)->name, stage);
    return TPP_OK;
}
