/* The passes of all devices in the order of the schedule, and what they wait for from other stages (8.2). */
#include "costmodel/sequence_lengths.h"
#include "costmodel/simulator/build.h"

#include <math.h>
#include <string.h>

uint32_t tpp_pen_num_units(const struct tpp_pen *pen)
{
    const struct tpp_chunk *chunk = &pen->build->chunks[pen->chunk];
    return chunk->num_layers + (chunk->passes_ends ? chunk->has_embedding + chunk->has_head : 0);
}

bool tpp_unit_is_layer(enum tpp_unit_kind kind)
{
    return kind == TPP_UNIT_LAYER || kind == TPP_UNIT_MOE;
}

static enum tpp_unit_kind layer_kind(const struct tpp_model *model, uint32_t index)
{
    return model->num_experts > 0 && tpp_model_layer_is_moe(model, index) ? TPP_UNIT_MOE : TPP_UNIT_LAYER;
}

enum tpp_unit_kind tpp_pen_unit_at(const struct tpp_pen *pen, enum tpp_simulated_pass pass, uint32_t index)
{
    const struct tpp_chunk *chunk = &pen->build->chunks[pen->chunk];
    const uint32_t last = tpp_pen_num_units(pen) - 1;
    const uint32_t place = pass == TPP_PASS_FORWARD ? index : last - index;
    const bool begins = chunk->passes_ends && chunk->has_embedding, ends = chunk->passes_ends && chunk->has_head;
    if (begins && place == 0)
        return TPP_UNIT_EMBEDDING;
    if (ends && place == last)
        return TPP_UNIT_HEAD;
    return layer_kind(pen->build->evaluator->model, chunk->first_layer + place - begins);
}

void tpp_chunk_count_units(const struct tpp_chunk *chunk, double counts[TPP_UNIT_COUNT])
{
    counts[TPP_UNIT_EMBEDDING] = chunk->has_embedding;
    counts[TPP_UNIT_LAYER] = chunk->num_layers - chunk->num_moe_layers;
    counts[TPP_UNIT_MOE] = chunk->num_moe_layers;
    counts[TPP_UNIT_HEAD] = chunk->has_head;
}

static void read_chunk(struct tpp_build *build, struct tpp_chunk *chunk)
{
    const struct tpp_strategy *strategy = build->strategy;
    const struct tpp_model *model = build->evaluator->model;
    const double stage_layers = tpp_stage_layers(strategy, model, chunk->place.stage).total;
    double counts[TPP_UNIT_COUNT];
    for (uint32_t i = 0; i < chunk->num_layers; i++)
        chunk->num_moe_layers += layer_kind(model, chunk->first_layer + i) == TPP_UNIT_MOE;
    const bool shares_ends = strategy->vocabulary_parallel != TPP_VOCABULARY_PARALLEL_NONE;
    chunk->has_embedding = shares_ends || chunk->place.previous == TPP_ORDER_NO_CHUNK;
    chunk->has_head = shares_ends || chunk->place.next == TPP_ORDER_NO_CHUNK;
    chunk->passes_ends = !shares_ends;
    chunk->recomputed_fraction = stage_layers > 0 ? tpp_recomputed_layers(strategy, stage_layers) / stage_layers : 0;
    tpp_chunk_count_units(chunk, counts);
    for (int part = 0; part < TPP_PARAMETERS_COUNT; part++)
        for (int kind = 0; kind < TPP_UNIT_COUNT; kind++) {
            if (counts[kind] <= 0)
                continue;
            chunk->elements[part] += counts[kind] * build->units[kind].elements[part];
            chunk->gather_bytes[part] += counts[kind] * build->units[kind].gather_bytes[part];
        }
}

/* There is one stage then (tpp_strategy_check). */
static void read_offload(struct tpp_build *build)
{
    struct tpp_stage stage;
    const struct tpp_evaluator *evaluator = build->evaluator;
    if (build->strategy->offload_layers == 0)
        return;
    tpp_stage_time(evaluator, build->strategy, &build->assembly, 0,
                   tpp_stage_layers(build->strategy, evaluator->model, 0), &stage);
    build->offload_seconds[TPP_PASS_FORWARD] = stage.offload_seconds[0];
    build->offload_seconds[TPP_PASS_BACKWARD] = stage.offload_seconds[1];
}

/* Layers lie on the chunks in model order; those of a second copy as those of the first, on the stages from the last one on. */
static void read_chunks(struct tpp_build *build)
{
    const uint32_t p = build->num_stages;
    const bool has_copy = tpp_schedule_model_copies(build->strategy->schedule) == 2;
    uint32_t first = 0;
    for (uint32_t g = 0; g < build->num_chunks; g++) {
        struct tpp_chunk *chunk = &build->chunks[g];
        chunk->place = tpp_order_chunk(build->strategy, g);
        chunk->num_layers = tpp_strategy_chunk_layers(build->strategy, build->evaluator->model->num_layers,
                                                      has_copy ? chunk->place.position : chunk->place.stage,
                                                      chunk->place.position / p);
        if (chunk->place.position == 0)
            first = 0;
        chunk->first_layer = first;
        first += chunk->num_layers;
        read_chunk(build, chunk);
    }
}

/* The neighbour whose result the pass needs; TPP_ORDER_NO_CHUNK when that is none. */
static uint32_t source_of(const struct tpp_chunk *chunk, enum tpp_simulated_pass pass)
{
    return pass == TPP_PASS_FORWARD    ? chunk->place.previous
           : pass == TPP_PASS_BACKWARD ? chunk->place.next
                                       : TPP_ORDER_NO_CHUNK;
}

static uint32_t target_of(const struct tpp_chunk *chunk, enum tpp_simulated_pass pass)
{
    return pass == TPP_PASS_FORWARD    ? chunk->place.next
           : pass == TPP_PASS_BACKWARD ? chunk->place.previous
                                       : TPP_ORDER_NO_CHUNK;
}

/* What an exchange takes of the device besides the transfer that arrives: all of it when that runs beside compute; else the
 * transfer is in place of compute (connect_source), and what is left is the one in the other direction. */
static void receive(struct tpp_pen *pen, enum tpp_simulated_pass pass)
{
    const struct tpp_build *build = pen->build;
    const struct tpp_chunk *chunk = &build->chunks[pen->chunk];
    const uint32_t source = source_of(chunk, pass);
    if (source != TPP_ORDER_NO_CHUNK && build->chunks[source].place.stage != chunk->place.stage)
        tpp_pen_compute(pen, 0, (build->assembly.send_device_fraction - (build->assembly.edge_seconds > 0 ? 0 : 1)) *
                                    tpp_build_send_seconds(build, build->chunks[source].place.stage, chunk->place.stage));
}

/* The closed form of ZeRO-3 (9.2) instead of its transfers. */
static void comparable_extra(struct tpp_pen *pen, enum tpp_simulated_pass pass)
{
    const struct tpp_chunk *chunk = &pen->build->chunks[pen->chunk];
    const struct tpp_sharding_extra extra =
        tpp_sharding_extra(&pen->build->assembly, chunk->num_layers, chunk->has_embedding, chunk->has_head);
    if (pass != TPP_PASS_WEIGHT)
        tpp_pen_compute(pen, 0, pass == TPP_PASS_FORWARD ? extra.forward_seconds : extra.backward_seconds);
}

static void plain_pass(struct tpp_pen *pen, enum tpp_simulated_pass pass)
{
    for (uint32_t i = 0; i < tpp_pen_num_units(pen); i++)
        tpp_pen_unit(pen, tpp_pen_unit_at(pen, pass, i), pass);
}

static void write_pass(struct tpp_pen *pen, enum tpp_simulated_pass pass, bool is_first, bool is_last)
{
    const struct tpp_build *build = pen->build;
    const bool makes_gradients = pass == (build->splits_backward ? TPP_PASS_WEIGHT : TPP_PASS_BACKWARD);
    bool gathers = false, reduces = false;
    for (int part = 0; part < TPP_PARAMETERS_COUNT; part++) {
        const struct tpp_gradient_traffic *traffic = &build->traffic[part];
        if (build->chunks[pen->chunk].elements[part] <= 0)
            continue;
        gathers |= pass == TPP_PASS_FORWARD && is_first && traffic->gather_overlaps;
        reduces |= makes_gradients && traffic->reduce_overlaps && (is_last || traffic->reduces_each_micro_batch);
    }
    const bool is_reducing = build->last_reduce[pen->device] != TPP_NO_TASK;
    pen->in_detail = build->has_operations && (build->is_always_in_detail || gathers || reduces || is_reducing);
    if (build->options->mode == TPP_SIMULATION_COMPARABLE) {
        plain_pass(pen, pass);
        comparable_extra(pen, pass);
    } else if (build->is_sharded && pass == TPP_PASS_FORWARD) {
        tpp_build_sharded_forward(pen);
    } else if (build->is_sharded) {
        tpp_build_sharded_backward(pen, pass);
    } else if (gathers) {
        tpp_build_gathered_forward(pen);
    } else if (reduces && !tpp_build_holds_gradients(build, pen->device % build->num_stages)) {
        tpp_build_bucketed_pass(pen, pass);
    } else {
        plain_pass(pen, pass);
    }
    if (build->options->mode != TPP_SIMULATION_COMPARABLE) /* there at the end of the step */
        tpp_pen_compute(pen, 0, build->offload_seconds[pass]);
}

static void write_op(struct tpp_build *build, uint32_t device, const struct tpp_order_op *op, bool is_in_pair,
                     bool is_first, bool is_last)
{
    static const char *const names[TPP_PASS_COUNT] = {"forward", "backward", "weight gradients", "vocabulary",
                                                      "vocabulary weights"};
    const enum tpp_simulated_pass pass = (enum tpp_simulated_pass)op->pass;
    struct tpp_pen pen = tpp_pen_start(build, device, op->chunk, op->micro_batch, names[pass]);
    pen.is_in_pair = is_in_pair;
    receive(&pen, pass);
    if (build->is_sharded && build->options->mode == TPP_SIMULATION_EVENTS)
        tpp_pen_flush(&pen); /* gathers are asked for after it */
    if (pass >= TPP_PASS_VOCABULARY)
        tpp_build_vocabulary_pass(&pen, pass);
    else
        write_pass(&pen, pass, is_first, is_last);
    tpp_pen_flush(&pen);
    *tpp_build_op(build, device, op->chunk, op->micro_batch, pass) =
        (struct tpp_op_tasks){.first = pen.first, .last = pen.last, .send = TPP_NO_TASK};
}

static void send_result(struct tpp_build *build, uint32_t device, const struct tpp_order_op *op, struct tpp_op_tasks *tasks)
{
    const enum tpp_simulated_pass pass = (enum tpp_simulated_pass)op->pass;
    const struct tpp_chunk *chunk = &build->chunks[op->chunk];
    const uint32_t target = target_of(chunk, pass);
    if (target == TPP_ORDER_NO_CHUNK || build->chunks[target].place.stage == chunk->place.stage)
        return;
    const struct tpp_graph_task like = {.name = pass == TPP_PASS_FORWARD ? "send activations" : "send gradients",
                                        .micro_batch = op->micro_batch, .chunk = op->chunk, .layer = TPP_NO_TASK};
    tasks->send = tpp_build_send(build, device, build->chunks[target].place.stage,
                                 pass == TPP_PASS_FORWARD ? TPP_TRACK_SEND_FORWARD : TPP_TRACK_SEND_BACKWARD, &like);
    tpp_graph_depend(build->graph, tasks->send, tasks->block_last);
}

/* Passes of a list that run together: as many as a forward pass and both parts of a backward pass. */
struct block {
    struct tpp_order_op ops[4];
    uint32_t num_ops;
    bool is_pair; /* forward and backward */
};

static struct block read_block(const struct tpp_build *build, uint32_t stage, size_t index)
{
    struct block block = {.num_ops = 0};
    bool has[TPP_PASS_COUNT] = {false};
    do {
        const struct tpp_order_op op = tpp_order_op(build->order, stage, index + block.num_ops);
        block.ops[block.num_ops++] = op;
        has[op.pass] = true;
    } while (block.ops[block.num_ops - 1].is_paired && block.num_ops < sizeof block.ops / sizeof block.ops[0]);
    block.is_pair = has[TPP_PASS_FORWARD] && has[TPP_PASS_BACKWARD];
    return block;
}

/* Results leave when all of the block is done. */
static void close_block(struct tpp_build *build, uint32_t device, const struct block *block, uint32_t before)
{
    struct tpp_op_tasks *tasks[sizeof block->ops / sizeof block->ops[0]];
    for (uint32_t i = 0; i < block->num_ops; i++)
        tasks[i] = tpp_build_op(build, device, block->ops[i].chunk, block->ops[i].micro_batch,
                                (enum tpp_simulated_pass)block->ops[i].pass);
    for (uint32_t i = 0; i < block->num_ops; i++) {
        tasks[i]->block_first = tasks[0]->first;
        tasks[i]->block_last = tasks[block->num_ops - 1]->last;
        tasks[i]->before = before;
        send_result(build, device, &block->ops[i], tasks[i]);
    }
}

/* Writes a device's list. `seen` counts passes by chunk, so that the first forward and the last pass that makes gradients
 * are known whatever the order of the micro-batches. */
static void write_device(struct tpp_build *build, uint32_t device, uint32_t (*seen)[TPP_PASS_COUNT],
                         const uint32_t (*totals)[TPP_PASS_COUNT])
{
    const uint32_t stage = device % build->num_stages;
    for (size_t i = 0; i < tpp_order_count(build->order, stage);) {
        const struct block block = read_block(build, stage, i);
        const uint32_t before = build->last_compute[device];
        for (uint32_t k = 0; k < block.num_ops; k++) {
            const struct tpp_order_op *op = &block.ops[k];
            uint32_t *count = &seen[op->chunk][op->pass];
            const bool is_first = (*count)++ == 0;
            write_op(build, device, op, block.is_pair, is_first, *count == totals[op->chunk][op->pass]);
        }
        close_block(build, device, &block, before);
        for (uint32_t k = 0; k < block.num_ops; k++) {
            const struct tpp_order_op *op = &block.ops[k];
            if (op->pass == TPP_PASS_BACKWARD)
                tpp_build_hold_gradients(build, device, op->chunk,
                                         seen[op->chunk][op->pass] == totals[op->chunk][op->pass]);
        }
        i += block.num_ops;
    }
    tpp_build_release_gradients(build, device);
}

/* A pass waits for what arrives from a neighbour: its transfer, or its result when it is on the same stage. A transfer
 * without overlap starts when the receiver, too, has come to it. */
static void connect_source(struct tpp_build *build, uint32_t device, const struct tpp_chunk *chunk,
                           enum tpp_simulated_pass pass, uint32_t micro_batch, const struct tpp_op_tasks *to)
{
    const uint32_t source = source_of(chunk, pass);
    if (source == TPP_ORDER_NO_CHUNK)
        return;
    const uint32_t from = device - device % build->num_stages + build->chunks[source].place.stage;
    const struct tpp_op_tasks *tasks = tpp_build_op(build, from, source, micro_batch, pass);
    tpp_graph_depend(build->graph, to->block_first, tasks->send != TPP_NO_TASK ? tasks->send : tasks->block_last);
    if (tasks->send != TPP_NO_TASK && build->assembly.edge_seconds <= 0)
        tpp_graph_depend(build->graph, tasks->send, to->before);
}

static void connect(struct tpp_build *build)
{
    for (uint32_t replica = 0; replica < build->num_replicas; replica++)
        for (uint32_t g = 0; g < build->num_chunks; g++)
            for (uint32_t i = 0; i < build->num_micro_batches; i++) {
                const struct tpp_chunk *chunk = &build->chunks[g];
                const uint32_t device = replica * build->num_stages + chunk->place.stage;
                const struct tpp_op_tasks *forward = tpp_build_op(build, device, g, i, TPP_PASS_FORWARD);
                const struct tpp_op_tasks *backward = tpp_build_op(build, device, g, i, TPP_PASS_BACKWARD);
                if (forward->first == TPP_NO_TASK)
                    continue; /* a micro-batch of the other direction */
                connect_source(build, device, chunk, TPP_PASS_FORWARD, i, forward);
                connect_source(build, device, chunk, TPP_PASS_BACKWARD, i, backward);
                tpp_graph_depend(build->graph, backward->block_first, forward->block_last);
            }
}

static void count_ops(const struct tpp_build *build, uint32_t (*totals)[TPP_PASS_COUNT])
{
    for (uint32_t stage = 0; stage < build->num_stages; stage++)
        for (size_t i = 0; i < tpp_order_count(build->order, stage); i++) {
            const struct tpp_order_op op = tpp_order_op(build->order, stage, i);
            totals[op.chunk][op.pass]++;
        }
}

/* Padded micro-batches: each replica has its own order of lengths. */
static bool draw_lengths(struct tpp_build *build)
{
    const struct tpp_job *job = build->evaluator->job;
    if (!tpp_job_pads(job) || build->num_stages == 1)
        return true;
    double *lengths = tpp_arena_alloc_array(build->arena, (size_t)build->num_replicas * build->num_micro_batches, sizeof(*lengths));
    for (uint32_t replica = 0; lengths && replica < build->num_replicas; replica++)
        tpp_uneven_lengths(job, tpp_uneven_draws(build->strategy), build->num_micro_batches, replica,
                           lengths + (size_t)replica * build->num_micro_batches);
    build->lengths = lengths;
    return lengths != NULL;
}

enum tpp_code tpp_build_pipeline(struct tpp_build *build, struct tpp_error *err)
{
    const size_t num_ops = (size_t)build->num_replicas * build->num_chunks * build->num_micro_batches * TPP_PASS_COUNT;
    const size_t row = sizeof(uint32_t[TPP_PASS_COUNT]);
    uint32_t(*totals)[TPP_PASS_COUNT] = tpp_arena_alloc_array(build->arena, build->num_chunks, row);
    uint32_t(*seen)[TPP_PASS_COUNT] = tpp_arena_alloc_array(build->arena, build->num_chunks, row);
    build->chunks = tpp_arena_alloc_array(build->arena, build->num_chunks, sizeof(*build->chunks));
    build->ops = tpp_arena_alloc_array(build->arena, num_ops, sizeof(*build->ops));
    build->held.chunks = tpp_arena_alloc_array(build->arena, build->num_chunks, sizeof(*build->held.chunks));
    const size_t num_vocabulary = build->strategy->vocabulary_parallel != TPP_VOCABULARY_PARALLEL_NONE
                                      ? (size_t)build->num_devices * build->num_micro_batches
                                      : 1;
    build->vocabulary = tpp_arena_alloc_array(build->arena, num_vocabulary, sizeof(*build->vocabulary));
    if (!build->vocabulary || !totals || !seen || !build->chunks || !build->ops || !build->held.chunks)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the simulation");
    memset(build->ops, 0xff, num_ops * sizeof(*build->ops)); /* TPP_NO_TASK */
    memset(build->vocabulary, 0xff, num_vocabulary * sizeof(*build->vocabulary));
    read_chunks(build);
    read_offload(build);
    if (!draw_lengths(build))
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the simulation");
    const enum tpp_code code = tpp_order_new(build->evaluator, build->strategy, build->num_micro_batches, &build->order, err);
    if (code != TPP_OK)
        return code;
    count_ops(build, totals);
    for (uint32_t device = 0; device < build->num_devices; device++) {
        if (device % build->num_stages == 0) { /* a new replica */
            memset(seen, 0, build->num_chunks * row);
            build->next_shared = 0;
        }
        write_device(build, device, seen, (const uint32_t(*)[TPP_PASS_COUNT])totals);
    }
    connect(build);
    tpp_build_connect_vocabulary(build);
    return TPP_OK;
}
