#include "cli/measured.h"

#include "cli/terminal.h"
#include "costmodel/base/units.h"
#include "costmodel/flops.h"

#include <stdio.h>

/* Reached under this share of the predicted speed: one in three hundred of the published runs, and what users report who
 * later find a broken network (PCIe or sockets instead of NVLink and InfiniBand). */
#define LEAST_SHARE_OF_PREDICTION 0.6

struct tpp_measured tpp_measured_compare(double measured_seconds, const struct tpp_job_inputs *inputs,
                                         const struct tpp_cost *cost)
{
    struct tpp_measured measured = {.seconds = measured_seconds};
    measured.error_fraction = cost->step_seconds / measured_seconds - 1;
    measured.least_seconds = tpp_flops_least_seconds(cost->necessary_flops, &inputs->job, &inputs->hardware.gpu);
    measured.utilization = measured.least_seconds / measured_seconds;
    measured.is_possible = measured.utilization <= 1;
    measured.is_inside_interval =
        measured_seconds >= cost->step_seconds_low && measured_seconds <= cost->step_seconds_high;
    measured.is_cause_outside = cost->step_seconds < LEAST_SHARE_OF_PREDICTION * measured_seconds;
    return measured;
}

void tpp_measured_append(const struct tpp_measured *measured, struct tpp_answer *answer)
{
    char line[512], seconds[32], least[32];
    tpp_format_seconds(seconds, sizeof seconds, measured->seconds);
    tpp_format_seconds(least, sizeof least, measured->least_seconds);
    if (measured->is_possible)
        snprintf(
            line, sizeof line,
            "Measured %s: the prediction is %.1f %% %s, %s its 90 %% interval. At the peak of all GPUs the step would "
            "take %s.",
            seconds, 100 * (measured->error_fraction < 0 ? -measured->error_fraction : measured->error_fraction),
            measured->error_fraction < 0 ? "too fast" : "too slow",
            measured->is_inside_interval ? "and the measurement is inside" : "and the measurement is outside", least);
    else
        snprintf(
            line, sizeof line,
            "Measured %s is impossible as one optimizer step: all GPUs at 100 %% of their peak need %s, so it would be "
            "an MFU of %.0f %%. It must be a part of a step, or of another job.",
            seconds, least, 100 * measured->utilization);
    tpp_terminal_append_wrapped(&answer->text, line, 0, 0, answer->width);
    if (measured->is_cause_outside)
        tpp_terminal_append_wrapped(
            &answer->text,
            "So slow a step has a cause outside the plan: a network or NVLink that does not deliver (measure it with "
            "nccl-tests), throttled GPUs, a slow data loader, other jobs on the nodes.",
            0, 0, answer->width);
}

void tpp_measured_add_json(const struct tpp_measured *measured, struct tpp_json_writer *writer, struct cJSON *parent)
{
    struct cJSON *object = tpp_json_add_object(writer, parent, "measured");
    tpp_json_add_number(writer, object, "step_seconds", measured->seconds);
    tpp_json_add_number(writer, object, "error_fraction", measured->error_fraction);
    tpp_json_add_bool(writer, object, "inside_interval", measured->is_inside_interval);
    tpp_json_add_number(writer, object, "least_seconds_at_peak", measured->least_seconds);
    tpp_json_add_number(writer, object, "utilization_of_peak", measured->utilization);
    tpp_json_add_bool(writer, object, "possible", measured->is_possible);
    tpp_json_add_bool(writer, object, "cause_is_outside_the_plan", measured->is_cause_outside);
}
