/* swift_findings.c - what ms-swift's megatron side refuses beside the sizes of a plan (SW-2, SW-5, SW-8, SW-10). */
#include "planner/launch/swift_arguments.h"

#include <string.h>

static const struct tpp_argument *known(const struct tpp_arguments *arguments, const char *name)
{
    const struct tpp_argument *given = tpp_argument_find(arguments, name);
    return given != NULL && given->is_known && !given->is_null ? given : NULL;
}

/* true, True, 1, yes, or no value at all; `otherwise` where it is not given. */
static bool is_on(const struct tpp_arguments *arguments, const char *name, bool otherwise)
{
    static const char *const words[] = {"false", "False", "0", "no"};
    const struct tpp_argument *given = known(arguments, name);
    if (given == NULL)
        return otherwise;
    for (size_t i = 0; i < sizeof words / sizeof *words && given->num_values > 0; i++) {
        if (strcmp(given->values[0].text, words[i]) == 0)
            return false;
    }
    return true;
}

static double number_of(const struct tpp_arguments *arguments, const char *name, double otherwise)
{
    double number;
    const struct tpp_argument *given = known(arguments, name);
    return given != NULL && given->num_values == 1 && tpp_argument_number(given->values[0].text, &number) ? number
                                                                                                          : otherwise;
}

void tpp_swift_find_refused(const struct tpp_arguments *arguments, const struct tpp_megatron_settings *settings,
                            struct tpp_problems *problems)
{
    const struct tpp_rule_settings *rules = &settings->rules;
    const struct {
        bool is_refused;
        const char *code, *option, *hint, *message;
    } findings[] = {
        {rules->recompute == TPP_RULE_GRANULARITY_SELECTIVE && known(arguments, "--recompute_method") != NULL, "SW-2",
         "--recompute_method", "take it out, or use --recompute_granularity full",
         "recompute_method excludes selective recomputation"},
        {is_on(arguments, "--group_by_length", false) && is_on(arguments, "--padding_free", true), "SW-5",
         "--group_by_length", "add --padding_free false",
         "group_by_length excludes padding_free, which is on unless it is switched off"},
        {number_of(arguments, "--save_total_limit", 2) < 2, "SW-8", "--save_total_limit", "keep 2 or more",
         "save_total_limit is at least 2"},
        {known(arguments, "--save_total_limit") != NULL && is_on(arguments, "--async_save", false), "SW-8",
         "--save_total_limit", "take one of them out", "save_total_limit excludes async_save"},
        {number_of(arguments, "--freeze_parameters_ratio", 0) > 0 && rules->pipeline_parallel > 1, "SW-8",
         "--freeze_parameters_ratio", "use one stage", "freeze_parameters_ratio excludes several stages"},
        {is_on(arguments, "--streaming", false) && tpp_argument_find(arguments, "--train_iters") == NULL, "SW-10",
         "--streaming", "add --train_iters", "streaming data needs train_iters: nobody knows how long it is"},
    };
    for (size_t i = 0; i < sizeof findings / sizeof *findings; i++) {
        if (findings[i].is_refused)
            tpp_problems_add(problems, findings[i].code, TPP_SEVERITY_ERROR,
                             tpp_argument_line(arguments, findings[i].option), findings[i].hint, "%s",
                             findings[i].message);
    }
}
