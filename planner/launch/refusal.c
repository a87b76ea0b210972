/* refusal.c - see refusal.h. */
#include "planner/launch/refusal.h"

enum tpp_code tpp_refusal_first(const struct tpp_refusal *refusals, size_t count, const char *sentence,
                                const char *hint, struct tpp_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (refusals[i].is_refused)
            return tpp_fail(err, TPP_E_UNSUPPORTED, refusals[i].where, hint, "%s %s", sentence, refusals[i].reason);
    }
    return TPP_OK;
}

enum tpp_code tpp_launch_check_rules(const struct tpp_launch_request *request, const char *framework,
                                     struct tpp_rule_settings *settings, struct tpp_error *err)
{
    struct tpp_violation violation;
    tpp_rule_settings_for_job(request->model, request->job, request->stack, request->hardware->gpu.compute_capability,
                              settings);
    tpp_rule_settings_for_strategy(request->strategy, request->release, settings);
    if (tpp_rules_violations(settings, request->release, &violation, 1) == 0)
        return TPP_OK;
    return tpp_fail(err, TPP_E_STRATEGY, violation.code, violation.hint, "%s refuses it: %s", framework,
                    violation.message);
}

bool tpp_launch_has_window(const struct tpp_launch_request *request)
{
    const struct tpp_model *model = request->model;
    return model->sliding_window > 0 && model->sliding_window_layers > 0 &&
           model->sliding_window < request->job->sequence_length;
}
