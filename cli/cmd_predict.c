#include "cli/answer.h"
#include "cli/command.h"
#include "cli/cost_strategy.h"
#include "cli/explain.h"
#include "cli/explain_peak.h"
#include "cli/job_options.h"
#include "cli/launch_script.h"
#include "cli/measured.h"
#include "cli/memory_replay.h"
#include "cli/plan_json.h"
#include "cli/report.h"
#include "cli/risks.h"
#include "cli/simulated.h"

#include <stdlib.h>

struct predict_arguments {
    struct tpp_job_arguments job;
    struct tpp_strategy_arguments strategy;
    struct tpp_simulated_arguments simulated;
    struct tpp_replay_arguments replay;
    double measured_step_seconds;
    bool explain, json;
};

#define ARG(field) offsetof(struct predict_arguments, field)

static const struct tpp_option predict_options[] = {
    {"explain", 'e', TPP_OPTION_FLAG, ARG(explain), .help = "show every term of time and memory as a tree, and the largest tensors at the peak"},
    {"measured-step-seconds", 0, TPP_OPTION_NUMBER, ARG(measured_step_seconds), "SECONDS", .min = 1e-9,
     .help = "compare with a measured step, and say when physics forbids it"},
    {"json", 0, TPP_OPTION_FLAG, ARG(json), .help = "print one JSON object"},
    {.name = NULL},
};
static const struct tpp_option_part predict_parts[] = {
    TPP_JOB_PARTS(struct predict_arguments, job),
    {"Strategy", tpp_strategy_options, ARG(strategy)},
    {"Simulation", tpp_simulated_options, ARG(simulated)},
    {"Lengths of sequences, and memory replay", tpp_replay_options_table, ARG(replay)},
    {"Memory replay of the plan", tpp_replay_plan_options_table, ARG(replay)},
    {"Output", predict_options, 0},
    {NULL},
};

/* What one prediction consists of. */
struct prediction {
    struct tpp_job_inputs inputs;
    struct tpp_plan plan;
    struct tpp_stage_cost *stages; /* owned */
    struct tpp_simulated simulated; /* all zero when it was not asked for */
    struct tpp_replay_answer replay; /* owned */
    struct tpp_explained_peak peak;  /* with --explain */
};

static enum tpp_code answer_as_json(const struct predict_arguments *arguments, const struct prediction *prediction,
                                    struct tpp_answer *answer, struct tpp_error *err)
{
    struct tpp_json_writer writer;
    tpp_answer_begin(&writer);
    tpp_job_inputs_add_json(&arguments->job, &prediction->inputs, &writer, writer.root);
    struct cJSON *plan = tpp_json_add_object(&writer, writer.root, "plan");
    tpp_plan_add_json(1, &prediction->plan.strategy, &prediction->plan.cost, &writer, plan);
    tpp_risks_add_json(&prediction->inputs, &prediction->plan, &writer, plan);
    tpp_launch_add_json(&prediction->inputs, &prediction->plan.strategy, &prediction->plan.cost,
                        &(struct tpp_launch_choices){.slurm = false}, &writer, plan);
    tpp_stages_add_json(prediction->stages, prediction->plan.strategy.pipeline_parallel, &writer, writer.root);
    if (prediction->simulated.simulation != NULL)
        tpp_simulated_add_json(&prediction->simulated, &prediction->plan, &writer, writer.root);
    tpp_replay_add_json(&prediction->replay, &writer, writer.root);
    if (arguments->explain) {
        struct cJSON *explain = tpp_explain_add_json(&prediction->plan.cost, &writer, writer.root);
        tpp_explained_peak_add_json(&prediction->peak, &writer, explain);
    }
    if (arguments->measured_step_seconds != TPP_OPTION_ABSENT) {
        const struct tpp_measured measured =
            tpp_measured_compare(arguments->measured_step_seconds, &prediction->inputs, &prediction->plan.cost);
        tpp_measured_add_json(&measured, &writer, writer.root);
    }
    return tpp_answer_finish(&writer, answer, err);
}

static enum tpp_code answer_as_text(const struct predict_arguments *arguments, const struct prediction *prediction,
                                    struct tpp_answer *answer, struct tpp_error *err)
{
    tpp_report_job(&prediction->inputs, &answer->text);
    tpp_text_append(&answer->text, "\n");
    tpp_report_plan(&prediction->plan.strategy, &prediction->plan.cost, answer);
    tpp_risks_append(&prediction->inputs, &prediction->plan, answer);
    tpp_replay_append(&prediction->replay, answer);
    if (arguments->measured_step_seconds != TPP_OPTION_ABSENT) {
        const struct tpp_measured measured =
            tpp_measured_compare(arguments->measured_step_seconds, &prediction->inputs, &prediction->plan.cost);
        tpp_text_append(&answer->text, "\n");
        tpp_measured_append(&measured, answer);
    }
    tpp_text_append(&answer->text, "\nStages, one micro-batch\n");
    if (!tpp_report_stages(prediction->stages, prediction->plan.strategy.pipeline_parallel, answer))
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    if (prediction->simulated.simulation != NULL) {
        tpp_text_append(&answer->text, "\n");
        if (!tpp_simulated_append(&arguments->simulated, &prediction->simulated, &prediction->plan, answer))
            return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    }
    if (arguments->explain) {
        tpp_text_append(&answer->text, "\n");
        tpp_explain_append(&prediction->plan.cost, &answer->text);
        tpp_explain_append_states(&prediction->inputs.stack, &answer->text);
        tpp_text_append(&answer->text, "\n");
        if (!tpp_explained_peak_append(&prediction->peak, answer))
            return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    }
    return TPP_OK;
}

static enum tpp_code run(const void *data, const struct tpp_operands *operands, struct tpp_answer *answer,
                         struct tpp_error *err)
{
    const struct predict_arguments *arguments = data;
    struct prediction prediction = {.stages = NULL};
    (void)operands;
    if (arguments->strategy.strategy == NULL)
        return tpp_fail(err, TPP_E_USAGE, "--strategy",
                        "give one, as in --strategy=tp=4,pp=2,mbs=1,recompute=full; or use "
                        "'tp-plan plan' to find one",
                        "--strategy is missing");
    enum tpp_code code = tpp_job_resolve(&arguments->job, &prediction.inputs, err);
    if (code == TPP_OK)
        code = tpp_replay_take_lengths(&arguments->replay, &prediction.inputs.job, err);
    if (code == TPP_OK)
        code = tpp_cost_strategy(&prediction.inputs, &arguments->strategy, &prediction.plan, &prediction.stages, err);
    if (code == TPP_OK && tpp_simulated_is_wanted(&arguments->simulated))
        code = tpp_simulated_run(&arguments->simulated, &prediction.inputs, &prediction.plan.strategy,
                                 &prediction.simulated, err);
    if (code == TPP_OK && prediction.simulated.simulation != NULL)
        code = tpp_simulated_write_trace(&arguments->simulated, &prediction.simulated, err);
    if (code == TPP_OK)
        code = tpp_replay_run(&arguments->replay, &prediction.inputs, &prediction.plan, &prediction.replay, err);
    if (code == TPP_OK && arguments->explain)
        code = tpp_explained_peak_find(&prediction.inputs, &prediction.plan, &prediction.peak, err);
    if (code == TPP_OK)
        code = arguments->json ? answer_as_json(arguments, &prediction, answer, err)
                               : answer_as_text(arguments, &prediction, answer, err);
    answer->is_no = prediction.plan.cost.memory.fit == TPP_FIT_DOES_NOT_FIT;
    tpp_simulated_release(&prediction.simulated);
    tpp_replay_answer_release(&prediction.replay);
    free(prediction.stages);
    return code;
}

const struct tpp_command tpp_command_predict = {
    .name = "predict",
    .summary = "predict time and memory of one plan in full",
    .about =
        "Predicts one optimizer step of one strategy: time with its 90 % interval, memory of every pipeline stage, "
        "bubble, exposed communication and risks; the exit status is 1 when it does not fit. --explain shows every term and what is alive at the peak, --simulate the step as events.",
    .parts = predict_parts,
    .examples = {{"tp-plan predict --model=codellama-34b --cluster=dgx-a100-80g --nodes=4 --seq-length=16384 "
                  "--global-batch-size=128 --strategy=tp=4,pp=2,mbs=1,zero=1,sp=1,recompute=full",
                  "one layout in full"},
                 {"tp-plan predict --model=codellama-13b --cluster=dgx-a100-80g --nodes=4 --seq-length=8192 "
                  "--global-batch-size=128 --strategy=tp=2,mbs=2,zero=1,sp=1,recompute=full --explain --json",
                  "every term, for another program"},
                 {"tp-plan predict --model=codellama-34b --cluster=dgx-a100-80g --nodes=4 --seq-length=16384 "
                  "--global-batch-size=128 --strategy=tp=4,pp=2,mbs=1,zero=1,sp=1,recompute=full --timeline "
                  "--slow-gpu=1:1.2",
                  "the pipeline drawn, with a slow GPU in the second stage"}},
    .arguments_size = sizeof(struct predict_arguments),
    .run = run,
};
