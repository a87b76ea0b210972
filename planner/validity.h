/* validity.h - whether the framework in use runs a strategy of a search, beside what tpp_strategy_check asks of all. */
#ifndef TPP_PLANNER_VALIDITY_H
#define TPP_PLANNER_VALIDITY_H

#include "costmodel/job.h"
#include "costmodel/model/model.h"
#include "costmodel/stack.h"
#include "costmodel/strategy.h"
#include "planner/rules/rules.h"

#include <stdbool.h>

struct tpp_validity { /* a value; one per thread */
    enum tpp_release release;
    struct tpp_rule_settings settings; /* of the last strategy */
    struct tpp_strategy last;          /* the search asks for many that rules cannot tell apart, one after the other */
    bool has_last, last_answer;
};

/* The release is that of tpp_rules_release. */
void tpp_validity_init(const struct tpp_model *model, double compute_capability, const struct tpp_job *job,
                       const struct tpp_stack *stack, struct tpp_validity *validity);
/* Allocates nothing. */
bool tpp_validity_accepts(struct tpp_validity *validity, const struct tpp_strategy *strategy);

#endif
