#include "cli/answer.h"
#include "cli/command.h"
#include "cli/find_plans.h"
#include "cli/job_options.h"
#include "cli/launch_script.h"
#include "cli/no_plan.h"
#include "cli/plan_json.h"
#include "cli/replay_list.h"
#include "cli/report.h"
#include "cli/risks.h"
#include "cli/simulated_list.h"
#include "cli/terminal.h"
#include "costmodel/base/units.h"

#include <stdio.h>
#include <stdlib.h>

struct plan_arguments {
    struct tpp_job_arguments job;
    struct tpp_pin_arguments pins;
    struct tpp_replay_arguments replay;
    struct tpp_simulated_list_arguments simulated;
    bool json, reproducible;
};

#define ARG(field) offsetof(struct plan_arguments, field)

static const struct tpp_option plan_options[] = {
    {"json", 0, TPP_OPTION_FLAG, ARG(json), .help = "print one JSON object"},
    {"reproducible", 0, TPP_OPTION_FLAG, ARG(reproducible),
     .help = "write 0 for what depends on this machine (seconds and threads of the search)"},
    {.name = NULL},
};
static const struct tpp_option_part plan_parts[] = {
    TPP_JOB_PARTS(struct plan_arguments, job),
    TPP_PIN_PARTS(struct plan_arguments, pins),
    {"Lengths of sequences, and memory replay of the best plans", tpp_replay_options_table, ARG(replay)},
    {"Simulation of the best plans", tpp_simulated_list_options, ARG(simulated)},
    {"Output", plan_options, 0},
    {NULL},
};

/* What `plan` found, for both forms of the answer. */
struct findings {
    const struct plan_arguments *arguments;
    struct tpp_job_inputs inputs;
    struct tpp_space_limits limits;
    struct tpp_found_plans found;
};

static enum tpp_code answer_as_json(const struct findings *findings, struct tpp_answer *answer, struct tpp_error *err)
{
    const struct tpp_launch_choices choices = {.slurm = false};
    struct tpp_json_writer writer;
    tpp_answer_begin(&writer);
    struct cJSON *plans = tpp_json_add_array(&writer, writer.root, "plans");
    for (size_t i = 0; i < findings->found.num_plans; i++) {
        const struct tpp_plan *plan = &findings->found.plans[i];
        struct cJSON *object = tpp_json_add_object(&writer, plans, NULL);
        tpp_plan_add_json((unsigned)i + 1, &plan->strategy, &plan->cost, &writer, object);
        tpp_risks_add_json(&findings->inputs, plan, &writer, object);
        tpp_launch_add_json(&findings->inputs, &plan->strategy, &plan->cost, &choices, &writer, object);
        tpp_simulated_list_add_json(&findings->found, i, &writer, object);
    }
    enum tpp_code code = TPP_OK;
    if (findings->found.num_plans > 0)
        tpp_reasons_add_json(findings->found.plans, findings->found.simulated, findings->found.num_plans, &writer, writer.root);
    else
        code = tpp_no_plan_add_json(&findings->inputs, &findings->limits, &findings->found, &writer, writer.root, err);
    if (code != TPP_OK) {
        tpp_json_writer_release(&writer);
        return code;
    }
    tpp_replay_calmer_add_json(findings->found.plans, findings->found.num_plans, &writer, writer.root);
    tpp_found_plans_add_json(&findings->found, findings->arguments->reproducible, &writer, writer.root);
    tpp_job_inputs_add_json(&findings->arguments->job, &findings->inputs, &writer, writer.root);
    return tpp_answer_finish(&writer, answer, err);
}

static void append_space(const struct findings *findings, struct tpp_text *out)
{
    char enumerated[32], valid[32], costed[32], fitting[32], seconds[32];
    const struct tpp_search_counts counts = tpp_search_counts(findings->found.search);
    tpp_text_format(out, "%s strategies, %s can be run, %s costed, %s of these fit",
                    tpp_format_count(enumerated, sizeof enumerated, counts.enumerated),
                    tpp_format_count(valid, sizeof valid, counts.valid),
                    tpp_format_count(costed, sizeof costed, counts.costed),
                    tpp_format_count(fitting, sizeof fitting, counts.fitting));
    if (!findings->arguments->reproducible)
        tpp_text_format(out, " (%s, %u thread%s)", tpp_format_seconds(seconds, sizeof seconds, findings->found.seconds),
                        findings->found.num_threads, findings->found.num_threads == 1 ? "" : "s");
    tpp_text_append(out, "\n");
}

/* The script of the winner, or why there is none. */
static void append_launch(const struct findings *findings, const struct tpp_plan *plan, struct tpp_answer *answer)
{
    const struct tpp_launch_choices choices = {.slurm = false};
    struct tpp_error err = {.code = TPP_OK};
    tpp_text_append(&answer->text, "\nLaunch script of the first plan ('" TPP_PROGRAM_NAME " launch' writes it)\n\n");
    if (tpp_launch_script(&findings->inputs, &plan->strategy, &plan->cost, &choices, &answer->text, &err) == TPP_OK)
        return;
    tpp_text_append(&answer->text, "  none: ");
    tpp_terminal_append_wrapped(&answer->text, err.message, 8, 8, answer->width);
    tpp_text_append(&answer->text, "  fix: ");
    tpp_terminal_append_wrapped(&answer->text, err.hint, 7, 7, answer->width);
}

static enum tpp_code answer_as_text(const struct findings *findings, struct tpp_answer *answer, struct tpp_error *err)
{
    const struct tpp_found_plans *found = &findings->found;
    tpp_report_job(&findings->inputs, &answer->text);
    append_space(findings, &answer->text);
    tpp_text_append(&answer->text, "\n");
    if (found->num_plans == 0)
        return tpp_no_plan_append(&findings->inputs, &findings->limits, found, answer, err);
    if (!tpp_report_table(found->plans, found->num_plans, answer))
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    tpp_text_append(&answer->text, "\n");
    tpp_simulated_list_append(found, answer);
    tpp_report_reasons(found->plans, found->simulated, found->num_plans, answer);
    tpp_replay_list_append(found->plans, found->num_plans, answer);
    tpp_risks_append(&findings->inputs, &found->plans[0], answer);
    append_launch(findings, &found->plans[0], answer);
    return TPP_OK;
}

static enum tpp_code run(const void *data, const struct tpp_operands *operands, struct tpp_answer *answer,
                         struct tpp_error *err)
{
    struct findings findings = {.arguments = data};
    (void)operands;
    enum tpp_code code = tpp_job_resolve(&findings.arguments->job, &findings.inputs, err);
    if (code == TPP_OK)
        code = tpp_replay_take_lengths(&findings.arguments->replay, &findings.inputs.job, err);
    enum tpp_release release;
    if (code == TPP_OK)
        code = tpp_launch_release(&findings.inputs.stack, &release, err);
    if (code == TPP_OK && !tpp_launch_trains(&findings.inputs, err))
        return TPP_E_UNSUPPORTED;
    if (code == TPP_OK)
        code = tpp_pins_check_model(&findings.arguments->pins, &findings.inputs.model, err);
    if (code == TPP_OK)
        code = tpp_limits_resolve(&findings.arguments->pins, &findings.limits, err);
    tpp_job_take_stages(findings.arguments->pins.pipeline_parallel, &findings.inputs);
    if (code == TPP_OK)
        code = tpp_simulated_list_prepare(&findings.arguments->simulated, &findings.limits, err);
    if (code == TPP_OK)
        code = tpp_find_plans(&findings.inputs, &findings.limits, answer, &findings.found, err);
    if (code != TPP_OK)
        return code;
    answer->is_no = findings.found.num_plans == 0;
    code = tpp_replay_list(&findings.arguments->replay, &findings.inputs, findings.limits.memory_headroom_fraction,
                           &findings.found, err);
    if (code == TPP_OK)
        code = tpp_simulated_list(&findings.arguments->simulated, &findings.inputs, findings.limits.memory_headroom_fraction,
                                  (size_t)findings.arguments->pins.top, &findings.found, err);
    if (code == TPP_OK)
        code = findings.arguments->json ? answer_as_json(&findings, answer, err) : answer_as_text(&findings, answer, err);
    tpp_found_plans_release(&findings.found);
    return code;
}

const struct tpp_command tpp_command_plan = {
    .name = "plan",
    .summary = "rank the ways to split a training job over a cluster",
    .about =
        "Costs every strategy that the framework accepts, simulates the best of them, and shows these: the table, why the "
        "first wins, its risks and its launch script. When nothing fits, says what is missing and the smallest changes that would help.",
    .parts = plan_parts,
    .examples = {{"tp-plan plan --model=deepseek-coder-33b --cluster=dgx-a100-80g --nodes=4 --seq-length=32768 "
                  "--global-batch-size=128",
                  "how to train this model on four nodes"},
                 {"tp-plan plan --model=my-model/config.json --cluster=mine.json --gpus=64 --seq-length=8192 "
                  "--global-batch-size=1024 --tensor-parallel=8 --json",
                  "with a pinned size, for another program"}},
    .arguments_size = sizeof(struct plan_arguments),
    .run = run,
};
