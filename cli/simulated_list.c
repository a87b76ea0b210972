#include "cli/simulated_list.h"

#include "cli/terminal.h"
#include "costmodel/base/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* So many plans are simulated, or --top when that is more. */
#define SHORT_LIST 16
/* A difference worth a line even when the place is the same. */
static const double large_difference_fraction = 0.01;

#define ARG(field) offsetof(struct tpp_simulated_list_arguments, field)

const struct tpp_option tpp_simulated_list_options[] = {
    {"simulate", 0, TPP_OPTION_FLAG, ARG(simulate),
     .help = "simulate the best plans as events and rank them by that, which is the default"},
    {"no-simulate", 0, TPP_OPTION_FLAG, ARG(no_simulate), .help = "rank the best plans by the estimate alone"},
    {.name = NULL},
};

enum tpp_code tpp_simulated_list_prepare(const struct tpp_simulated_list_arguments *arguments,
                                         struct tpp_space_limits *limits, struct tpp_error *err)
{
    if (arguments->simulate && arguments->no_simulate)
        return tpp_fail(err, TPP_E_USAGE, "--no-simulate", "leave one of them out",
                        "--simulate and --no-simulate contradict each other");
    if (!arguments->no_simulate && limits->keep < SHORT_LIST)
        limits->keep = SHORT_LIST;
    return TPP_OK;
}

static enum tpp_code simulate(const struct tpp_job_inputs *inputs, double memory_headroom_fraction,
                              struct tpp_found_plans *found, struct tpp_error *err)
{
    const size_t count = found->num_plans;
    found->simulated = calloc(count, sizeof *found->simulated);
    found->reordered = calloc(count, sizeof *found->reordered);
    if (found->simulated == NULL || found->reordered == NULL)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    const enum tpp_code code =
        tpp_simulated_ranking(&inputs->model, &inputs->hardware, &inputs->job, &inputs->stack, memory_headroom_fraction,
                              found->plans, count, found->simulated, err);
    for (size_t i = 0; i < count && code == TPP_OK; i++)
        found->reordered[i] = found->simulated[i].plan;
    found->plans = found->reordered;
    return code;
}

enum tpp_code tpp_simulated_list(const struct tpp_simulated_list_arguments *arguments,
                                 const struct tpp_job_inputs *inputs, double memory_headroom_fraction, size_t top,
                                 struct tpp_found_plans *found, struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    if (!arguments->no_simulate && found->num_plans > 0)
        code = simulate(inputs, memory_headroom_fraction, found, err);
    found->num_plans = found->num_plans < top ? found->num_plans : top;
    return code;
}

static bool is_worth_a_line(const struct tpp_simulated_plan *simulated, size_t index)
{
    return simulated->estimated_index != index || !simulated->is_simulated || simulated->bucket_gain_fraction > 0 ||
           fabs(simulated->simulated_seconds / simulated->plan.cost.step_seconds - 1) >= large_difference_fraction;
}

/* "; a reduce bucket of 2.6e+08 elements saves 2.8 % of it", or nothing. */
static void describe_buckets(const struct tpp_simulated_plan *simulated, char *out, size_t size)
{
    const struct tpp_strategy *strategy = &simulated->plan.strategy;
    const double gain = 100 * simulated->bucket_gain_fraction;
    const double reduce = (double)strategy->reduce_bucket_size, gather = (double)strategy->allgather_bucket_size;
    if (simulated->has_chosen[TPP_BUCKET_REDUCE] && simulated->has_chosen[TPP_BUCKET_GATHER])
        snprintf(out, size, "; buckets of %.2g elements to reduce and %.2g to gather save %.1f %% of it", reduce, gather, gain);
    else if (simulated->has_chosen[TPP_BUCKET_REDUCE] || simulated->has_chosen[TPP_BUCKET_GATHER])
        snprintf(out, size, "; a %s bucket of %.2g elements saves %.1f %% of it",
                 simulated->has_chosen[TPP_BUCKET_REDUCE] ? "reduce" : "gather",
                 simulated->has_chosen[TPP_BUCKET_REDUCE] ? reduce : gather, gain);
}

static void append_line(const struct tpp_simulated_plan *simulated, size_t index, struct tpp_answer *answer)
{
    const double difference = simulated->simulated_seconds / simulated->plan.cost.step_seconds - 1;
    char line[256], seconds[32], place[64] = "", bucket[128] = "";
    if (simulated->estimated_index != index)
        snprintf(place, sizeof place, "; number %zu by the estimate", simulated->estimated_index + 1);
    describe_buckets(simulated, bucket, sizeof bucket);
    if (simulated->is_simulated)
        snprintf(line, sizeof line, "%zu: %s, %.1f %% %s than the estimate%s%s", index + 1,
                 tpp_format_seconds(seconds, sizeof seconds, simulated->simulated_seconds), 100 * fabs(difference),
                 difference < 0 ? "less" : "more", place, bucket);
    else
        snprintf(line, sizeof line, "%zu: too large to simulate, the estimate stands%s", index + 1, place);
    tpp_text_append(&answer->text, "  ");
    tpp_terminal_append_wrapped(&answer->text, line, 2, 5, answer->width);
}

void tpp_simulated_list_append(const struct tpp_found_plans *found, struct tpp_answer *answer)
{
    size_t num_lines = 0;
    double largest = 0;
    if (found->simulated == NULL)
        return;
    for (size_t i = 0; i < found->num_plans; i++) {
        const struct tpp_simulated_plan *simulated = &found->simulated[i];
        num_lines += is_worth_a_line(simulated, i);
        largest = fmax(largest, fabs(simulated->simulated_seconds / simulated->plan.cost.step_seconds - 1));
    }
    if (num_lines == 0) {
        tpp_text_format(&answer->text, "Simulated as events, the plans keep this order; their steps differ from the estimates by "
                                       "up to %.1f %%.\n\n", 100 * largest);
        return;
    }
    tpp_text_append(&answer->text, "Where the simulated steps, which the order follows, differ from the estimates\n");
    for (size_t i = 0; i < found->num_plans; i++)
        if (is_worth_a_line(&found->simulated[i], i))
            append_line(&found->simulated[i], i, answer);
    tpp_text_append(&answer->text, "\n");
}

void tpp_simulated_list_add_json(const struct tpp_found_plans *found, size_t index, struct tpp_json_writer *writer,
                                 struct cJSON *plan)
{
    if (found->simulated == NULL)
        return;
    const struct tpp_simulated_plan *simulated = &found->simulated[index];
    if (simulated->is_simulated)
        tpp_json_add_number(writer, plan, "simulated_step_seconds", simulated->simulated_seconds);
    else
        tpp_json_add_null(writer, plan, "simulated_step_seconds");
    tpp_json_add_u64(writer, plan, "estimated_rank", simulated->estimated_index + 1);
}
