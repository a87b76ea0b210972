#include "planner/validity.h"

#include <stddef.h>

void tpp_validity_init(const struct tpp_model *model, double compute_capability, const struct tpp_job *job,
                       const struct tpp_stack *stack, struct tpp_validity *validity)
{
    *validity = (struct tpp_validity){.release = tpp_rules_release(stack), .has_last = false};
    tpp_rule_settings_for_job(model, job, stack, compute_capability, &validity->settings);
}

/* The depth of block recomputation is no matter of any rule: a number above the layers of a stage is accepted (ML-60).
 */
static bool is_same_to_rules(const struct tpp_strategy *a, const struct tpp_strategy *b)
{
    struct tpp_strategy left = *a;
    left.recompute_num_layers = b->recompute_num_layers;
    return tpp_strategy_compare(&left, b) == 0;
}

bool tpp_validity_accepts(struct tpp_validity *validity, const struct tpp_strategy *strategy)
{
    if (!validity->has_last || !is_same_to_rules(&validity->last, strategy)) {
        tpp_rule_settings_for_strategy(strategy, validity->release, &validity->settings);
        validity->last = *strategy;
        validity->last_answer = tpp_rules_accept(&validity->settings, validity->release);
        validity->has_last = true;
    }
    return validity->last_answer;
}
