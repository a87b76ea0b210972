/* What the units of a model cost, read from their layers; and operation by operation, from their programs. */
#include "costmodel/simulator/build.h"

#include <math.h>

/* Cost-model 7 "TP": the first tenth of a compute operation hides nothing. */
static const double unhidden_fraction = 0.1;

static void read_section(const struct tpp_layer *layer, enum tpp_section section, enum tpp_simulated_pass pass,
                         struct tpp_unit *unit)
{
    unit->other_seconds[pass] = tpp_layer_transfer_seconds(layer, section);
    unit->compute_seconds[pass] = layer->section_seconds[section] - unit->other_seconds[pass];
}

/* Accumulation of gradients is part of the weight pass, cost-model 15.7. */
static double accumulation_seconds(const struct tpp_build *build, const struct tpp_layer *layer)
{
    return tpp_accumulation_seconds(&build->evaluator->hardware->gpu, build->evaluator->stack,
                                    layer->trainable_parameters, layer->num_parameter_tensors);
}

static void read_layer(const struct tpp_build *build, const struct tpp_layer *layer, struct tpp_unit *unit)
{
    read_section(layer, TPP_SECTION_FORWARD, TPP_PASS_FORWARD, unit);
    read_section(layer, TPP_SECTION_BACKWARD, TPP_PASS_BACKWARD, unit);
    read_section(layer, TPP_SECTION_WEIGHT, TPP_PASS_WEIGHT, unit);
    unit->compute_seconds[TPP_PASS_WEIGHT] += accumulation_seconds(build, layer);
    unit->repeated_seconds = layer->repeated_seconds;
    unit->skipped_seconds = layer->skipped_seconds;
    const double experts = tpp_job_is_adapter(build->evaluator->job) ? 0 : layer->expert_parameters;
    unit->elements[TPP_PARAMETERS_DENSE] = layer->trainable_parameters - experts;
    unit->elements[TPP_PARAMETERS_EXPERT] = experts;
    const double linear = layer->linear_parameters, linear_experts = fmin(linear, experts);
    const struct tpp_stack *stack = build->evaluator->stack;
    const bool trains_linears = !tpp_job_is_adapter(build->evaluator->job);
    unit->gather_bytes[TPP_PARAMETERS_DENSE] = tpp_stack_gathered_bytes(
        stack, unit->elements[TPP_PARAMETERS_DENSE], trains_linears ? linear - linear_experts : 0);
    unit->gather_bytes[TPP_PARAMETERS_EXPERT] = tpp_stack_gathered_bytes(stack, experts, linear_experts);
    unit->gathered_bytes = tpp_stack_layer_gathered_bytes(stack, build->evaluator->job, layer->parameters, linear);
}

/* Sections that one pass runs: backward of a schedule that does not split it takes the weight gradients with it. */
struct pass_sections {
    bool has[TPP_SECTION_COUNT];
};

static uint32_t num_hiding(const struct tpp_op *op)
{
    return op->num_hiding > 0 ? op->num_hiding : 1;
}

/* A transfer of the pass that is beside some of its own operations, as opposed to exposed. */
static bool is_hidden_in(const struct tpp_program *program, const struct tpp_op *op, const struct pass_sections *pass)
{
    if (op->kind != TPP_OP_COMMUNICATION || !pass->has[op->section] || op->hidden_behind == TPP_NO_OP)
        return false;
    for (uint32_t i = 0; i < num_hiding(op); i++)
        if (!pass->has[program->ops[(uint32_t)op->hidden_behind + i].section])
            return false;
    return true;
}

/* The transfer that hides behind operation `index`, or that and others; NULL when there is none. */
static const struct tpp_op *hidden_transfer(const struct tpp_program *program, uint32_t index,
                                            const struct pass_sections *pass)
{
    for (uint32_t i = 0; i < program->num_ops; i++) {
        const struct tpp_op *op = &program->ops[i];
        if (is_hidden_in(program, op, pass) && index - (uint32_t)op->hidden_behind < num_hiding(op))
            return op;
    }
    return NULL;
}

/* The closed form of what a transfer adds to the critical path (7, 9.3) comes out when nothing else is on its link. */
static struct tpp_segment make_segment(const struct tpp_program *program, const struct tpp_timing *timing,
                                       const struct tpp_op *op, bool is_hidden)
{
    const double transfer = op->count * tpp_op_seconds(op, timing), exposed = tpp_op_exposed_seconds(program, op, timing);
    struct tpp_segment segment = {.transfer_seconds = exposed, .bytes = op->count * op->bytes * exposed / transfer,
                                  .collective = op->collective, .group = op->group, .name = op->name};
    if (!is_hidden)
        return segment; /* with tp_comm_overlap the exposed part alone */
    const double compute = op->count * tpp_op_hiding_seconds(program, op, timing);
    const double slow = op->each_step ? 0 : timing->overlap_slowdown_fraction * fmin(transfer, compute);
    const double start = op->each_step ? 0 : unhidden_fraction * compute + slow;
    segment.is_hidden = true;
    segment.bytes = op->count * op->bytes;
    segment.lead_seconds = fmin(start, fmax(0, compute + exposed - transfer));
    segment.transfer_seconds = fmin(transfer, compute + exposed);
    segment.compute_seconds = fmin(compute + slow, compute + exposed);
    return segment;
}

static bool add_segment(struct tpp_segment_list *list, const struct tpp_segment *segment)
{
    if (list->count == TPP_MAX_SEGMENTS)
        return false;
    list->items[list->count++] = *segment;
    return true;
}

/* Collects compute up to the next transfer of the pass. */
static bool read_pass(const struct tpp_program *program, const struct tpp_timing *timing,
                      const struct pass_sections *pass, struct tpp_segment_list *list)
{
    double pending = 0;
    bool fits = true;
    list->count = 0;
    for (uint32_t i = 0; i < program->num_ops && fits; i++) {
        const struct tpp_op *op = &program->ops[i];
        if (!pass->has[op->section] || is_hidden_in(program, op, pass))
            continue;
        const struct tpp_op *hidden = hidden_transfer(program, i, pass);
        if (hidden && hidden->hidden_behind != (int)i)
            continue; /* in the first one's segment */
        if (op->kind != TPP_OP_COMMUNICATION && !hidden) {
            pending += op->count * tpp_op_seconds(op, timing);
            continue;
        }
        struct tpp_segment segment = make_segment(program, timing, hidden ? hidden : op, hidden != NULL);
        if (hidden) {
            const struct tpp_segment before = {.compute_seconds = pending};
            fits = pending <= 0 || add_segment(list, &before);
            pending = (op->count - hidden->count) * tpp_op_seconds(op, timing); /* runs that it does not cover */
        } else {
            segment.compute_seconds = pending;
            pending = 0;
        }
        fits = fits && add_segment(list, &segment);
    }
    const struct tpp_segment rest = {.compute_seconds = pending};
    return fits && (pending <= 0 || add_segment(list, &rest));
}

/* What the closed form has beside the operations: launches that the GPU waits for, accumulation of gradients. */
static void add_remainder(struct tpp_segment_list *list, double section_seconds)
{
    double sum = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct tpp_segment *segment = &list->items[i];
        sum += segment->is_hidden ? fmax(segment->compute_seconds, segment->lead_seconds + segment->transfer_seconds)
                                  : segment->compute_seconds + segment->transfer_seconds;
    }
    const struct tpp_segment rest = {.compute_seconds = section_seconds - sum};
    if (rest.compute_seconds > 1e-12 * section_seconds)
        add_segment(list, &rest);
}

static double pass_seconds(const struct tpp_build *build, const struct tpp_layer *layer,
                           const struct pass_sections *pass)
{
    double seconds = pass->has[TPP_SECTION_WEIGHT] ? accumulation_seconds(build, layer) : 0;
    for (int section = 0; section < TPP_SECTION_COUNT; section++)
        seconds += pass->has[section] ? layer->section_seconds[section] : 0;
    return seconds;
}

static enum tpp_code read_segments(struct tpp_build *build, enum tpp_layer_kind kind, enum tpp_layer_passes together,
                                   const struct tpp_layer *layer, struct tpp_unit *unit, struct tpp_error *err)
{
    const bool splits = build->splits_backward;
    const struct pass_sections passes[TPP_PASS_COUNT] = {
        {.has[TPP_SECTION_FORWARD] = true},
        {.has[TPP_SECTION_BACKWARD] = true, .has[TPP_SECTION_WEIGHT] = !splits},
        {.has[TPP_SECTION_WEIGHT] = splits},
    };
    struct tpp_timing timing;
    const struct tpp_program *program = tpp_evaluator_program(build->evaluator, build->strategy, kind, together, &timing);
    struct tpp_segment_list *lists = tpp_arena_alloc_array(build->arena, TPP_PASS_COUNT, sizeof(*lists));
    if (!lists)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the simulation");
    for (int pass = 0; pass < TPP_PASS_COUNT; pass++) {
        if (!read_pass(program, &timing, &passes[pass], &lists[pass]))
            return tpp_fail(err, TPP_E_INTERNAL, NULL, NULL, "a layer has more than %d transfers", TPP_MAX_SEGMENTS);
        add_remainder(&lists[pass], pass_seconds(build, layer, &passes[pass]));
    }
    unit->segments = lists;
    return TPP_OK;
}

enum tpp_code tpp_build_units(struct tpp_build *build, struct tpp_error *err)
{
    const struct tpp_layer *layers[TPP_UNIT_COUNT] = {build->assembly.embedding, build->assembly.decoder,
                                                      build->assembly.moe, build->assembly.head};
    for (int kind = 0; kind < TPP_UNIT_COUNT; kind++)
        if (layers[kind])
            read_layer(build, layers[kind], &build->units[kind]);
    if (build->assembly.paired_moe)
        read_layer(build, build->assembly.paired_moe, &build->paired_moe);
    bool with_sends;
    const bool share = tpp_build_layers_share_links(build, &with_sends);
    const bool is_asked = build->options->detail == TPP_DETAIL_OPS;
    if (build->options->mode == TPP_SIMULATION_COMPARABLE || build->options->detail == TPP_DETAIL_LAYERS ||
        (!is_asked && !share))
        return TPP_OK;
    build->has_operations = true;
    build->is_always_in_detail = is_asked || with_sends || build->is_sharded;
    enum tpp_code code = read_segments(build, TPP_LAYER_DECODER, TPP_PASSES_ALONE, build->assembly.decoder,
                                       &build->units[TPP_UNIT_LAYER], err);
    if (code == TPP_OK && build->assembly.moe)
        code = read_segments(build, TPP_LAYER_MOE, TPP_PASSES_ALONE, build->assembly.moe,
                             &build->units[TPP_UNIT_MOE], err);
    if (code == TPP_OK && build->assembly.paired_moe)
        code = read_segments(build, TPP_LAYER_MOE, TPP_PASSES_PAIRED, build->assembly.paired_moe, &build->paired_moe,
                             err);
    return code;
}
