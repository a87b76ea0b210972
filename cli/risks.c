#include "cli/risks.h"

#include "cli/launch_script.h"
#include "cli/terminal.h"
#include "planner/launch/option_spelling.h"
#include "planner/risks.h"
#include "planner/rules/rules.h"

#include <stdio.h>

#define MAX_VIOLATIONS 16
#define MAX_SHOWN (MAX_VIOLATIONS + TPP_MAX_RISKS)

/* A rule that is broken silently trains something else than was asked: a warning; any other stops the framework. */
static void from_violation(enum tpp_framework framework, const struct tpp_violation *violation, struct tpp_risk *risk)
{
    risk->code = violation->code;
    risk->severity = violation->stage == TPP_RULE_SILENT ? TPP_SEVERITY_WARNING : TPP_SEVERITY_ERROR;
    tpp_spell_options(framework, violation->message, risk->message, sizeof risk->message);
    tpp_spell_options(framework, violation->hint != NULL ? violation->hint : "", risk->hint, sizeof risk->hint);
}

/* What the framework refuses about a plan; returns how many were written. */
static size_t find_violations(const struct tpp_job_inputs *inputs, const struct tpp_strategy *strategy,
                              struct tpp_risk risks[MAX_VIOLATIONS])
{
    enum tpp_release release;
    struct tpp_violation violations[MAX_VIOLATIONS];
    if (tpp_launch_release(&inputs->stack, &release, NULL) != TPP_OK)
        return 0;
    struct tpp_rule_settings settings = tpp_rule_settings_defaults(inputs->stack.framework);
    tpp_rule_settings_for_job(&inputs->model, &inputs->job, &inputs->stack, inputs->hardware.gpu.compute_capability,
                              &settings);
    tpp_rule_settings_for_strategy(strategy, release, &settings);
    const size_t found = tpp_rules_violations(&settings, release, violations, MAX_VIOLATIONS);
    const size_t count = found < MAX_VIOLATIONS ? found : MAX_VIOLATIONS;
    for (size_t i = 0; i < count; i++)
        from_violation(inputs->stack.framework, &violations[i], &risks[i]);
    return count;
}

static size_t find_risks(const struct tpp_job_inputs *inputs, const struct tpp_plan *plan,
                         struct tpp_risk risks[MAX_SHOWN])
{
    const size_t count = find_violations(inputs, &plan->strategy, risks);
    return count + tpp_plan_risks(&inputs->model, &inputs->hardware, &inputs->job, &inputs->stack, plan, risks + count,
                                  TPP_MAX_RISKS);
}

void tpp_risks_add_json(const struct tpp_job_inputs *inputs, const struct tpp_plan *plan,
                        struct tpp_json_writer *writer, struct cJSON *parent)
{
    struct tpp_risk risks[MAX_SHOWN];
    const size_t count = find_risks(inputs, plan, risks);
    struct cJSON *array = tpp_json_add_array(writer, parent, "risks");
    for (size_t i = 0; i < count; i++) {
        struct cJSON *object = tpp_json_add_object(writer, array, NULL);
        tpp_json_add_string(writer, object, "code", risks[i].code);
        tpp_json_add_string(writer, object, "severity", tpp_severity_name(risks[i].severity));
        tpp_json_add_string(writer, object, "message", risks[i].message);
        tpp_json_add_string(writer, object, "hint", risks[i].hint);
    }
}

void tpp_risks_append(const struct tpp_job_inputs *inputs, const struct tpp_plan *plan, struct tpp_answer *answer)
{
    struct tpp_risk risks[MAX_SHOWN];
    const size_t count = find_risks(inputs, plan, risks);
    if (count > 0)
        tpp_text_append(&answer->text, "\nRisks\n");
    for (size_t i = 0; i < count; i++) {
        char line[600];
        snprintf(line, sizeof line, "%s %s: %s%s%s", tpp_severity_name(risks[i].severity), risks[i].code,
                 risks[i].message, risks[i].hint[0] != '\0' ? "; " : "", risks[i].hint);
        tpp_text_append(&answer->text, "  ");
        tpp_terminal_append_wrapped(&answer->text, line, 2, 4, answer->width);
    }
}
