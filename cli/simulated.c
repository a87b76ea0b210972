#include "cli/simulated.h"

#include "cli/sharded_timeline.h"
#include "cli/terminal.h"
#include "cli/timeline.h"
#include "costmodel/base/file.h"
#include "costmodel/base/units.h"
#include "costmodel/simulator/trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_SLOWDOWN 1000 /* what tpp_simulation_new takes */
#define ARG(field) offsetof(struct tpp_simulated_arguments, field)

const struct tpp_option tpp_simulated_options[] = {
    {"simulate", 0, TPP_OPTION_FLAG, ARG(simulate),
     .help = "simulate the step as events: order of the pipeline, shared links, what hides and what does not"},
    {"timeline", 0, TPP_OPTION_FLAG, ARG(timeline), .help = "draw the simulated pipeline, one row a stage"},
    {"trace", 0, TPP_OPTION_TEXT, ARG(trace), "FILE",
     .help = "write the simulated step as a Chrome trace, to be opened in Perfetto"},
    {"slow-gpu", 0, TPP_OPTION_TEXT, ARG(slow_gpu), "STAGE:FACTOR",
     .help = "simulate with one GPU of a stage (or of 'all') that computes FACTOR times as long, as in 0:1.2"},
    {"slow-nic", 0, TPP_OPTION_TEXT, ARG(slow_nic), "STAGE:FACTOR",
     .help = "simulate with network ports of a stage (or of 'all') that have 1/FACTOR of their rate"},
    {"jitter", 0, TPP_OPTION_NUMBER, ARG(jitter_fraction), "FRACTION", .fallback = "0", .max = 1,
     .help = "simulate with compute times that vary by this standard deviation"},
    {"seed", 0, TPP_OPTION_COUNT, ARG(seed), "N", .help = "of the jitter, 1 when not given: the same seed, the same step"},
    {.name = NULL},
};

bool tpp_simulated_is_wanted(const struct tpp_simulated_arguments *arguments)
{
    return arguments->simulate || arguments->timeline || arguments->trace != NULL || arguments->slow_gpu != NULL ||
           arguments->slow_nic != NULL || arguments->jitter_fraction > 0 || arguments->seed != TPP_OPTION_ABSENT;
}

static enum tpp_code read_straggler(const char *text, const char *where, uint32_t num_stages, struct tpp_straggler *out,
                                    struct tpp_error *err)
{
    char stage[24];
    const char *colon = text == NULL ? NULL : strchr(text, ':');
    uint64_t number = 0;
    if (text == NULL)
        return TPP_OK;
    if (colon == NULL || colon == text || (size_t)(colon - text) >= sizeof stage)
        return tpp_fail(err, TPP_E_USAGE, where, "give a stage (or 'all') and a factor, as in 0:1.2",
                        "'%.40s' is not STAGE:FACTOR", text);
    memcpy(stage, text, (size_t)(colon - text));
    stage[colon - text] = '\0';
    if (strcmp(stage, "all") == 0)
        number = TPP_EVERY_STAGE;
    else if (tpp_parse_count(stage, where, &number, err) != TPP_OK)
        return TPP_E_USAGE;
    else if (number >= num_stages)
        return tpp_fail(err, TPP_E_USAGE, where, "name one of the strategy's stages, from 0 on",
                        "there is no stage %s among %u", stage, num_stages);
    out->stage = (uint32_t)number;
    if (tpp_parse_number(colon + 1, where, &out->slowdown, err) != TPP_OK)
        return TPP_E_USAGE;
    if (!(out->slowdown >= 1 && out->slowdown <= MAX_SLOWDOWN))
        return tpp_fail(err, TPP_E_USAGE, where, "give a factor from 1 (as fast as the others) to 1000",
                        "a part cannot be %g times as slow", out->slowdown);
    return TPP_OK;
}

/* Options that would be taken without effect, or with another than meant. */
static enum tpp_code check_arguments(const struct tpp_simulated_arguments *arguments, struct tpp_error *err)
{
    if (arguments->trace != NULL && strcmp(arguments->trace, "-") == 0)
        return tpp_fail(err, TPP_E_USAGE, "--trace", "name a file, as in --trace=step.json",
                        "standard output has the answer: the trace cannot go there");
    if (arguments->seed != TPP_OPTION_ABSENT && arguments->jitter_fraction <= 0)
        return tpp_fail(err, TPP_E_USAGE, "--seed", "give --jitter too, as in --jitter=0.02, or leave --seed out",
                        "a seed without jitter has no effect");
    return TPP_OK;
}

/* What is too large to simulate came with the command line, not from a file. */
static enum tpp_code as_usage(enum tpp_code code, struct tpp_error *err)
{
    if (code != TPP_E_RANGE)
        return code;
    if (err != NULL)
        err->code = TPP_E_USAGE;
    return TPP_E_USAGE;
}

static bool is_disturbed(const struct tpp_simulated_arguments *arguments)
{
    return arguments->slow_gpu != NULL || arguments->slow_nic != NULL || arguments->jitter_fraction > 0;
}

enum tpp_code tpp_simulated_run(const struct tpp_simulated_arguments *arguments, const struct tpp_job_inputs *inputs,
                                const struct tpp_strategy *strategy, struct tpp_simulated *out, struct tpp_error *err)
{
    *out = (struct tpp_simulated){.evaluator = NULL};
    struct tpp_simulation_options options = tpp_simulation_options_defaults();
    const struct tpp_simulation_options undisturbed = options;
    options.records_links = arguments->trace != NULL;
    options.jitter_fraction = arguments->jitter_fraction;
    options.seed = arguments->seed != TPP_OPTION_ABSENT ? (uint64_t)arguments->seed : 1;
    enum tpp_code code = check_arguments(arguments, err);
    if (code == TPP_OK)
        code = read_straggler(arguments->slow_gpu, "--slow-gpu", strategy->pipeline_parallel, &options.slow_gpu, err);
    if (code == TPP_OK)
        code = read_straggler(arguments->slow_nic, "--slow-nic", strategy->pipeline_parallel, &options.slow_nic, err);
    if (code == TPP_OK)
        code = tpp_evaluator_new(&inputs->model, &inputs->hardware, &inputs->job, &inputs->stack, &out->evaluator, err);
    if (code == TPP_OK && is_disturbed(arguments))
        code = as_usage(
            tpp_simulation_step_seconds(out->evaluator, strategy, &undisturbed, &out->undisturbed_seconds, err), err);
    if (code == TPP_OK)
        code = as_usage(tpp_simulation_new(out->evaluator, strategy, &options, &out->simulation, err), err);
    bool done = false;
    if (code == TPP_OK)
        code = tpp_simulation_run(out->simulation, UINT64_MAX, &done, err);
    if (code != TPP_OK)
        tpp_simulated_release(out);
    return code;
}

void tpp_simulated_release(struct tpp_simulated *simulated)
{
    tpp_simulation_free(simulated->simulation);
    tpp_evaluator_free(simulated->evaluator);
    *simulated = (struct tpp_simulated){.evaluator = NULL};
}

enum tpp_code tpp_simulated_write_trace(const struct tpp_simulated_arguments *arguments,
                                        const struct tpp_simulated *simulated, struct tpp_error *err)
{
    if (arguments->trace == NULL)
        return TPP_OK;
    struct tpp_text text;
    tpp_text_init(&text);
    tpp_simulation_trace(simulated->simulation, &text);
    const enum tpp_code code = tpp_text_failed(&text)
                                   ? tpp_fail(err, TPP_E_MEMORY, "--trace", NULL, "out of memory for the trace")
                                   : tpp_file_write(arguments->trace, tpp_text_get(&text), text.length, 0644, err);
    tpp_text_release(&text);
    return code;
}

static void append_times(const struct tpp_simulated *simulated, const struct tpp_plan *plan, struct tpp_answer *answer)
{
    const struct tpp_simulation_result *result = tpp_simulation_result(simulated->simulation);
    const double difference = result->step_seconds / plan->cost.step_seconds - 1;
    char line[640], step[32], pipeline[32], exposed[32], optimizer[32], other[32];
    tpp_format_seconds(step, sizeof step, result->step_seconds);
    tpp_format_seconds(pipeline, sizeof pipeline, result->pipeline_seconds);
    tpp_format_seconds(exposed, sizeof exposed, result->gradient_exposed_seconds);
    tpp_format_seconds(optimizer, sizeof optimizer, result->optimizer_seconds);
    tpp_format_seconds(other, sizeof other, result->fixed_seconds);
    snprintf(line, sizeof line,
             "%s, %.1f %% %s than the estimate: pipeline %s (stages idle %.1f %% of it), gradients and parameters not "
             "hidden %s, optimizer %s, fixed %s.",
             step, 100 * fabs(difference), difference < 0 ? "less" : "more", pipeline, 100 * result->bubble_fraction,
             exposed, optimizer, other);
    tpp_terminal_append_wrapped(&answer->text, line, 0, 0, answer->width);
    if (simulated->undisturbed_seconds > 0) {
        tpp_format_seconds(other, sizeof other, simulated->undisturbed_seconds);
        snprintf(line, sizeof line, "With no slow part and no jitter the simulated step is %s: they cost %.1f %%.",
                 other, 100 * (result->step_seconds / simulated->undisturbed_seconds - 1));
        tpp_terminal_append_wrapped(&answer->text, line, 0, 0, answer->width);
    }
}

/* The owner of a link: the spine has none. */
static void name_owner(const struct tpp_simulated_contention *contention, char *buffer, size_t size)
{
    if (contention->resource == TPP_RESOURCE_SPINE)
        snprintf(buffer, size, "-");
    else
        snprintf(buffer, size, "%s %u", contention->resource == TPP_RESOURCE_LEAF_UPLINK ? "leaf" : "stage",
                 contention->stage);
}

static bool append_links(const struct tpp_simulation_result *result, struct tpp_answer *answer)
{
    static const struct tpp_table_column columns[] = {
        {"link", .is_left = true},
        {"where", .is_left = true, .priority = 1},
        {"contention", .is_left = true},
        {"load"},
        {"window", .priority = 3},
        {"colliding", .priority = 1},
        {"operations", .is_left = true, .priority = 2},
    };
    if (result->num_contentions == 0)
        return true;
    struct tpp_table *table = tpp_table_new(columns, sizeof columns / sizeof columns[0]);
    if (table == NULL)
        return false;
    for (uint32_t i = 0; i < result->num_contentions; i++) {
        const struct tpp_simulated_contention *contention = &result->contention[i];
        char owner[32], window[32], collision[32];
        name_owner(contention, owner, sizeof owner);
        tpp_format_seconds(window, sizeof window, contention->window_seconds);
        tpp_format_seconds(collision, sizeof collision, contention->collision_seconds);
        tpp_table_cell(table, "%s", tpp_resource_kind_name(contention->resource));
        tpp_table_cell(table, "%s", owner);
        tpp_table_cell(table, "%s", tpp_contention_level_name(contention->level));
        tpp_table_cell(table, "%.0f %%", 100 * contention->load_fraction);
        tpp_table_cell(table, "%s", window);
        tpp_table_cell(table, "%s", contention->collision_seconds > 0 ? collision : "-");
        if (contention->operations[0] != NULL && contention->operations[1] != NULL)
            tpp_table_cell(table, "%s + %s", contention->operations[0], contention->operations[1]);
        else
            tpp_table_cell(table, "-");
    }
    const bool appended = tpp_table_append(table, answer->width, &answer->text);
    tpp_table_free(table);
    return appended;
}

bool tpp_simulated_append(const struct tpp_simulated_arguments *arguments, const struct tpp_simulated *simulated,
                          const struct tpp_plan *plan, struct tpp_answer *answer)
{
    const struct tpp_simulation_result *result = tpp_simulation_result(simulated->simulation);
    tpp_text_append(&answer->text, "Simulated step\n");
    append_times(simulated, plan, answer);
    if (!append_links(result, answer))
        return false;
    if (arguments->timeline) {
        tpp_text_append(&answer->text, "\nTimeline\n");
        tpp_timeline_append(result->ops, result->num_ops, plan->strategy.pipeline_parallel, answer->width,
                            &answer->text);
        tpp_sharded_timeline_append(simulated->simulation, answer->width, &answer->text);
    }
    if (arguments->trace != NULL) {
        tpp_text_append(&answer->text, "\nTrace in ");
        tpp_terminal_append(&answer->text, arguments->trace);
        tpp_text_append(&answer->text, ": open it in Perfetto (ui.perfetto.dev).\n");
    }
    return true;
}

void tpp_simulated_add_json(const struct tpp_simulated *simulated, const struct tpp_plan *plan,
                            struct tpp_json_writer *writer, struct cJSON *parent)
{
    const struct tpp_simulation_result *result = tpp_simulation_result(simulated->simulation);
    struct cJSON *object = tpp_json_add_object(writer, parent, "simulation");
    tpp_json_add_number(writer, object, "step_seconds", result->step_seconds);
    tpp_json_add_number(writer, object, "difference_fraction", result->step_seconds / plan->cost.step_seconds - 1);
    if (simulated->undisturbed_seconds > 0)
        tpp_json_add_number(writer, object, "step_seconds_undisturbed", simulated->undisturbed_seconds);
    tpp_json_add_number(writer, object, "pipeline_seconds", result->pipeline_seconds);
    tpp_json_add_number(writer, object, "gradient_exposed_seconds", result->gradient_exposed_seconds);
    tpp_json_add_number(writer, object, "optimizer_seconds", result->optimizer_seconds);
    tpp_json_add_number(writer, object, "fixed_seconds", result->fixed_seconds);
    tpp_json_add_number(writer, object, "bubble_fraction", result->bubble_fraction);
    tpp_json_add_number(writer, object, "events", (double)result->num_events);
    struct cJSON *list = tpp_json_add_array(writer, object, "contention");
    for (uint32_t i = 0; i < result->num_contentions; i++) {
        const struct tpp_simulated_contention *contention = &result->contention[i];
        struct cJSON *item = tpp_json_add_object(writer, list, NULL);
        char owner[32];
        name_owner(contention, owner, sizeof owner);
        tpp_json_add_string(writer, item, "link", tpp_resource_kind_name(contention->resource));
        tpp_json_add_string(writer, item, "where", owner);
        tpp_json_add_string(writer, item, "level", tpp_contention_level_name(contention->level));
        tpp_json_add_number(writer, item, "load_fraction", contention->load_fraction);
        tpp_json_add_number(writer, item, "window_start_seconds", contention->window_start_seconds);
        tpp_json_add_number(writer, item, "window_seconds", contention->window_seconds);
        tpp_json_add_number(writer, item, "collision_seconds", contention->collision_seconds);
        struct cJSON *operations = tpp_json_add_array(writer, item, "operations");
        for (int j = 0; j < 2; j++)
            if (contention->operations[j] != NULL)
                tpp_json_add_string(writer, operations, NULL, contention->operations[j]);
    }
}
