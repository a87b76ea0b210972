/* measured.h - a measured step time beside the predicted one, and whether physics allows it. */
#ifndef TPP_CLI_MEASURED_H
#define TPP_CLI_MEASURED_H

#include "cli/command.h"
#include "cli/job_options.h"
#include "costmodel/evaluate.h"

#include <stdbool.h>

struct tpp_measured {
    double seconds;
    double error_fraction; /* predicted / measured - 1 */
    double least_seconds;  /* all GPUs at their peak do nothing but the step's necessary operations */
    double utilization;    /* least_seconds / seconds: above 1 is impossible */
    bool is_possible;
    bool is_inside_interval;
    bool is_cause_outside; /* so slow that no plan explains it: a network that does not deliver, throttling, other jobs */
};

struct tpp_measured tpp_measured_compare(double measured_seconds, const struct tpp_job_inputs *inputs,
                                         const struct tpp_cost *cost);
void tpp_measured_append(const struct tpp_measured *measured, struct tpp_answer *answer);
/* "measured": {...} */
void tpp_measured_add_json(const struct tpp_measured *measured, struct tpp_json_writer *writer, struct cJSON *parent);

#endif
