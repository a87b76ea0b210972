/* schedules.h - which pipeline schedules a framework has. */
#ifndef TPP_PLANNER_RULES_SCHEDULES_H
#define TPP_PLANNER_RULES_SCHEDULES_H

#include "costmodel/stack.h"
#include "costmodel/strategy.h"

#include <stdbool.h>

/* In its newest release. Without stages there is nothing to schedule, and trainers without stages have 1F1B in name. */
bool tpp_framework_has_schedule(enum tpp_framework framework, enum tpp_schedule schedule);
/* TPP_E_UNSUPPORTED when it has not: `where` "schedule", the hint names those that it has. */
enum tpp_code tpp_framework_check_schedule(enum tpp_framework framework, enum tpp_schedule schedule,
                                           struct tpp_error *err);

#endif
