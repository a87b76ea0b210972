/* risks.h - what may go wrong with a plan although it can be run: rules of practice (cost-model 10.2, 9.4, 15.3, 15.6 and
 * the field notes), each with the numbers it is about. They change no prediction; what a framework refuses is rules.h. */
#ifndef TPP_PLANNER_RISKS_H
#define TPP_PLANNER_RISKS_H

#include "costmodel/job.h"
#include "costmodel/model/model.h"
#include "costmodel/stack.h"
#include "hwprofiles/hardware.h"
#include "planner/search.h"

#include <stddef.h>

enum tpp_severity { TPP_SEVERITY_INFO, TPP_SEVERITY_WARNING, TPP_SEVERITY_ERROR };

struct tpp_risk {
    const char *code;  /* stable, static: "tensor-parallel-across-nodes" */
    enum tpp_severity severity;
    char message[256]; /* what and by how much; lower case, no full stop */
    char hint[200];    /* what to change; may be empty */
};

#define TPP_MAX_RISKS 48 /* more than there are kinds of risk */

/* Writes at most `max` risks in a fixed order and returns how many there are. `plan` was costed for these inputs. */
size_t tpp_plan_risks(const struct tpp_model *model, const struct tpp_hardware *hardware, const struct tpp_job *job,
                      const struct tpp_stack *stack, const struct tpp_plan *plan, struct tpp_risk *out, size_t max);

const char *tpp_severity_name(enum tpp_severity severity); /* "info", "warning", "error" */

#endif
