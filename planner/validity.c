#include "planner/validity.h"

#include <stddef.h>

void tpp_validity_init(const struct tpp_model *model, double compute_capability, const struct tpp_job *job,
                       const struct tpp_stack *stack, struct tpp_validity *validity)
{
    if (tpp_release_parse(stack->release, NULL, &validity->release, NULL) != TPP_OK) {
        validity->release = TPP_RELEASE_NEWEST; /* "25.04" and the like: numbers of the framework's own */
    }
    tpp_rule_settings_for_job(model, job, stack, compute_capability, &validity->settings);
}

bool tpp_validity_accepts(struct tpp_validity *validity, const struct tpp_strategy *strategy)
{
    tpp_rule_settings_for_strategy(strategy, validity->release, &validity->settings);
    return tpp_rules_accept(&validity->settings, validity->release);
}
