#include "cli/risks.h"

#include "cli/launch_script.h"
#include "cli/terminal.h"
#include "planner/rules.h"

#define MAX_VIOLATIONS 16

/* What the framework refuses about a plan; returns how many were written. */
static size_t find_violations(const struct tpp_job_inputs *inputs, const struct tpp_strategy *strategy,
                              struct tpp_violation violations[MAX_VIOLATIONS])
{
    enum tpp_release release;
    if (tpp_launch_release(&inputs->stack, &release, NULL) != TPP_OK)
        return 0;
    struct tpp_rule_settings settings = tpp_rule_settings_defaults(inputs->stack.framework);
    tpp_rule_settings_for_job(&inputs->model, &inputs->job, &inputs->stack, inputs->hardware.gpu.compute_capability,
                              &settings);
    tpp_rule_settings_for_strategy(strategy, release, &settings);
    const size_t count = tpp_rules_violations(&settings, release, violations, MAX_VIOLATIONS);
    return count < MAX_VIOLATIONS ? count : MAX_VIOLATIONS;
}

static const char *severity_of(const struct tpp_violation *violation)
{
    return violation->stage == TPP_RULE_SILENT ? "warning" : "error";
}

static void add_risk(const char *code, const char *severity, const char *message, const char *hint,
                     struct tpp_json_writer *writer, struct cJSON *array)
{
    struct cJSON *object = tpp_json_add_object(writer, array, NULL);
    tpp_json_add_string(writer, object, "code", code);
    tpp_json_add_string(writer, object, "severity", severity);
    tpp_json_add_string(writer, object, "message", message);
    tpp_json_add_string(writer, object, "hint", hint);
}

void tpp_risks_add_json(const struct tpp_job_inputs *inputs, const struct tpp_plan *plan,
                        struct tpp_json_writer *writer, struct cJSON *parent)
{
    struct tpp_violation violations[MAX_VIOLATIONS];
    const size_t num_violations = find_violations(inputs, &plan->strategy, violations);
    struct cJSON *array = tpp_json_add_array(writer, parent, "risks");
    for (size_t i = 0; i < num_violations; i++)
        add_risk(violations[i].code, severity_of(&violations[i]), violations[i].message, violations[i].hint, writer,
                 array);
}

static void append_risk(const char *code, const char *severity, const char *message, const char *hint,
                        struct tpp_answer *answer)
{
    struct tpp_text line;
    tpp_text_init(&line);
    tpp_text_format(&line, "%s %s: %s. %s%s", severity, code, message, hint, hint[0] != '\0' ? "." : "");
    tpp_text_append(&answer->text, "  ");
    tpp_terminal_append_wrapped(&answer->text, tpp_text_get(&line), 2, 4, answer->width);
    tpp_text_release(&line);
}

void tpp_risks_append(const struct tpp_job_inputs *inputs, const struct tpp_plan *plan, struct tpp_answer *answer)
{
    struct tpp_violation violations[MAX_VIOLATIONS];
    const size_t num_violations = find_violations(inputs, &plan->strategy, violations);
    if (num_violations == 0)
        return;
    tpp_text_append(&answer->text, "\nRisks\n");
    for (size_t i = 0; i < num_violations; i++)
        append_risk(violations[i].code, severity_of(&violations[i]), violations[i].message, violations[i].hint, answer);
}
