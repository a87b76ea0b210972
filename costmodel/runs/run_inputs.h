/* run_inputs.h - from the facts of a row to model, job and strategy.
 *
 * Internal to costmodel/runs. Each function returns false and fills run->skipped when the row cannot be predicted. */
#ifndef TPP_COSTMODEL_RUNS_RUN_INPUTS_H
#define TPP_COSTMODEL_RUNS_RUN_INPUTS_H

#include "costmodel/runs/run_facts.h"

#include <stdbool.h>

/* Writes the reason (formatted) and returns false. */
bool tpp_run_skip(struct tpp_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether everything is published and of a kind that the cost model knows. */
bool tpp_run_check_facts(const struct tpp_run_facts *facts, struct tpp_run *run);
bool tpp_run_read_model(const struct tpp_run_facts *facts, struct tpp_run *run);
bool tpp_run_read_job(const struct tpp_run_facts *facts, struct tpp_run *run);
/* Needs run->model, run->job and run->stack. */
bool tpp_run_read_strategy(const struct tpp_run_facts *facts, struct tpp_run *run);

#endif
