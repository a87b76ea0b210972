/* risks.h - what may go wrong with a plan: the framework's refusals and the planner's warnings, as text and as JSON. */
#ifndef TPP_CLI_RISKS_H
#define TPP_CLI_RISKS_H

#include "cli/command.h"
#include "cli/job_options.h"
#include "planner/search.h"

/* "risks": [{"code", "severity", "message", "hint"}...], the framework's refusals (severity "error") first. */
void tpp_risks_add_json(const struct tpp_job_inputs *inputs, const struct tpp_plan *plan,
                        struct tpp_json_writer *writer, struct cJSON *parent);
/* A heading and one paragraph a risk; nothing when there is none. */
void tpp_risks_append(const struct tpp_job_inputs *inputs, const struct tpp_plan *plan, struct tpp_answer *answer);

#endif
