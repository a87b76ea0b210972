#include "cli/check_compare.h"

#include "cli/find_plans.h"
#include "cli/simulated_list.h"
#include "costmodel/base/json_read.h"
#include "costmodel/base/units.h"
#include "planner/advise.h"
#include "planner/risks.h"

#include <stdio.h>
#include <string.h>

/* A gain below the first is inside what predictions of one job differ by; from the second on it is worth a warning. */
#define LEAST_GAIN_FRACTION 0.02
#define LARGE_GAIN_FRACTION 0.10

static bool has_code(const struct tpp_problems *problems, const char *code)
{
    for (size_t i = 0; i < problems->count; i++) {
        if (strcmp(problems->items[i].code, code) == 0)
            return true;
    }
    return false;
}

/* Memory is among them: "does-not-fit" and "memory-full". */
static void add_risks(struct tpp_check *check)
{
    struct tpp_risk risks[TPP_MAX_RISKS];
    const struct tpp_job_inputs *inputs = &check->inputs;
    const size_t count = tpp_plan_risks(&inputs->model, &inputs->hardware, &inputs->job, &inputs->stack, &check->plan,
                                        risks, TPP_MAX_RISKS);
    for (size_t i = 0; i < count && i < TPP_MAX_RISKS; i++) {
        if (has_code(&check->problems, risks[i].code)) /* with its line */
            continue;
        tpp_problems_add(&check->problems, risks[i].code, risks[i].severity, 0, risks[i].hint, "%s", risks[i].message);
    }
}

static void describe_better(struct tpp_check *check)
{
    char layout[128], step[32], hint[200];
    const bool fits = check->plan.cost.memory.fit != TPP_FIT_DOES_NOT_FIT;
    const double gain = check->better_gain_fraction;
    tpp_layout_words(layout, sizeof layout, &check->better.strategy);
    snprintf(hint, sizeof hint, "use %s", layout);
    tpp_format_seconds(step, sizeof step, check->better_seconds);
    if (!fits)
        tpp_problems_add(&check->problems, "better-plan", TPP_SEVERITY_INFO, 0, hint,
                         "a plan of the same job fits on the same GPUs, with %s a step", step);
    else
        tpp_problems_add(&check->problems, "better-plan",
                         gain >= LARGE_GAIN_FRACTION ? TPP_SEVERITY_WARNING : TPP_SEVERITY_INFO, 0, hint,
                         "another plan for the same GPUs is %.0f %% faster%s: %s a step", 100 * gain,
                         check->is_better_simulated ? " when simulated" : "", step);
}

/* Sets check->better and its gain: by simulated steps when both can be simulated, as `plan` ranks. */
static enum tpp_code compare_better(struct tpp_check *check, const struct tpp_found_plans *found, struct tpp_error *err)
{
    const struct tpp_job_inputs *inputs = &check->inputs;
    struct tpp_simulated_plan own;
    const enum tpp_code code = tpp_simulated_step(&inputs->model, &inputs->hardware, &inputs->job, &inputs->stack,
                                                  &check->plan, &own, err);
    if (code != TPP_OK)
        return code;
    check->better = found->plans[0];
    check->is_better_simulated = own.is_simulated && found->simulated[0].is_simulated;
    check->better_seconds =
        check->is_better_simulated ? found->simulated[0].simulated_seconds : check->better.cost.step_seconds;
    check->better_gain_fraction =
        (check->is_better_simulated ? own.simulated_seconds : check->plan.cost.step_seconds) / check->better_seconds - 1;
    check->has_better = check->plan.cost.memory.fit == TPP_FIT_DOES_NOT_FIT ||
                        check->better_gain_fraction >= LEAST_GAIN_FRACTION;
    return TPP_OK;
}

/* The best plan of the same job on the same GPUs, when it is worth naming. */
static enum tpp_code find_better(struct tpp_check *check, const struct tpp_answer *answer, struct tpp_error *err)
{
    struct tpp_found_plans found;
    struct tpp_space_limits limits = tpp_space_limits_defaults();
    const struct tpp_simulated_list_arguments simulated = {false, false};
    enum tpp_code code = tpp_simulated_list_prepare(&simulated, &limits, err);
    if (code == TPP_OK)
        code = tpp_find_plans(&check->inputs, &limits, answer, &found, err);
    if (code != TPP_OK)
        return code == TPP_E_MEMORY || code == TPP_E_INTERNAL ? code : TPP_OK;
    code = tpp_simulated_list(&simulated, &check->inputs, limits.memory_headroom_fraction, 1, &found, err);
    if (code == TPP_OK && found.num_plans > 0)
        code = compare_better(check, &found, err);
    tpp_found_plans_release(&found);
    if (code == TPP_OK && check->has_better)
        describe_better(check);
    return code;
}

/* ---- measurements ---- */

static enum tpp_code add_measured(struct tpp_check *check, struct tpp_error *err)
{
    const struct tpp_check_arguments *arguments = check->arguments;
    double seconds = arguments->measured_step_seconds;
    const bool has_rate = arguments->measured_tflops != TPP_OPTION_ABSENT;
    if (seconds == TPP_OPTION_ABSENT && !has_rate)
        return TPP_OK;
    if (!check->has_plan)
        return TPP_OK; /* the problems say why there is nothing to compare with */
    if (seconds != TPP_OPTION_ABSENT && has_rate)
        return tpp_fail(err, TPP_E_USAGE, "--measured-tflops", "give one of them",
                        "--measured-step-seconds and --measured-tflops are both given");
    if (has_rate)
        seconds = check->plan.cost.model_flops / (arguments->measured_tflops * 1e12 * check->inputs.job.num_gpus);
    check->measured = tpp_measured_compare(seconds, &check->inputs, &check->plan.cost);
    check->has_measured = true;
    if (!check->measured.is_possible)
        tpp_problems_add(&check->problems, "impossible-measurement", TPP_SEVERITY_ERROR, 0,
                         "check what was timed: a part of a step, another batch, or kernels that had not ended",
                         "a step of %.4g s is impossible: at the peak of all GPUs it takes %.4g s, so that it would be "
                         "an MFU of %.0f %%",
                         seconds, check->measured.least_seconds, 100 * check->measured.utilization);
    else if (!check->measured.is_inside_interval)
        tpp_problems_add(&check->problems, "unlike-measurement", TPP_SEVERITY_INFO, 0,
                         "calibrate the cluster's profile, or check that script and measurement are the same job",
                         "the measured %.4g s a step are outside the predicted interval of %.4g to %.4g s", seconds,
                         check->plan.cost.step_seconds_low, check->plan.cost.step_seconds_high);
    return TPP_OK;
}

/* ---- an older answer ---- */

struct baseline {
    double step_seconds, memory_bytes;
};

static enum tpp_code read_baseline(const char *path, struct baseline *baseline, struct tpp_error *err)
{
    struct tpp_json_document *document;
    struct tpp_json plan, memory;
    enum tpp_code code = tpp_json_load(path, &document, err);
    if (code != TPP_OK)
        return code;
    code = tpp_json_need_object(tpp_json_root(document), "plan", &plan, err);
    if (code == TPP_OK)
        code = tpp_json_need_number(plan, "step_seconds", 1e-12, 1e12, &baseline->step_seconds, err);
    if (code == TPP_OK)
        code = tpp_json_need_object(plan, "memory", &memory, err);
    if (code == TPP_OK)
        code = tpp_json_need_number(memory, "device_total_bytes", 1, 1e18, &baseline->memory_bytes, err);
    tpp_json_document_free(document);
    return code;
}

static void compare_with(struct tpp_check *check, const struct baseline *baseline)
{
    const double tolerance = check->arguments->tolerance;
    const double step = check->plan.cost.step_seconds, memory = check->plan.cost.memory.device_total_bytes;
    char old[32], new[32];
    if (step > baseline->step_seconds * (1 + tolerance))
        tpp_problems_add(&check->problems, "slower-than-baseline", TPP_SEVERITY_ERROR, 0,
                         "find the setting that changed, or make a new baseline",
                         "a step takes %s, %.1f %% more than the %s of the baseline",
                         tpp_format_seconds(new, sizeof new, step), 100 * (step / baseline->step_seconds - 1),
                         tpp_format_seconds(old, sizeof old, baseline->step_seconds));
    if (memory > baseline->memory_bytes * (1 + tolerance))
        tpp_problems_add(&check->problems, "larger-than-baseline", TPP_SEVERITY_ERROR, 0,
                         "find the setting that changed, or make a new baseline",
                         "the fullest GPU holds %s, %.1f %% more than the %s of the baseline",
                         tpp_format_bytes(new, sizeof new, memory), 100 * (memory / baseline->memory_bytes - 1),
                         tpp_format_bytes(old, sizeof old, baseline->memory_bytes));
}

static enum tpp_code add_baseline(struct tpp_check *check, struct tpp_error *err)
{
    struct baseline baseline;
    if (check->arguments->baseline == NULL)
        return TPP_OK;
    const enum tpp_code code = read_baseline(check->arguments->baseline, &baseline, err);
    if (code != TPP_OK)
        return code;
    if (check->has_plan)
        compare_with(check, &baseline);
    else
        tpp_problems_add(&check->problems, "no-prediction", TPP_SEVERITY_ERROR, 0, "solve the other problems first",
                         "there is no prediction to compare with the baseline");
    return TPP_OK;
}

enum tpp_code tpp_check_compare(struct tpp_check *check, const struct tpp_answer *answer, struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    if (check->has_plan) {
        add_risks(check);
        code = find_better(check, answer, err);
    }
    if (code == TPP_OK)
        code = add_measured(check, err);
    if (code == TPP_OK)
        code = add_baseline(check, err);
    tpp_problems_sort(&check->problems);
    if (code == TPP_OK && check->problems.failed)
        code = tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    return code;
}
