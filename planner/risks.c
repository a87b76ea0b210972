#include "planner/risk_checks.h"

#include <stdarg.h>
#include <stdio.h>

void tpp_risk_add(struct tpp_risk_context *c, const char *code, enum tpp_severity severity, const char *hint,
                  const char *format, ...)
{
    if (c->count++ >= c->max) {
        return;
    }
    struct tpp_risk *risk = &c->out[c->count - 1];
    *risk = (struct tpp_risk){.code = code, .severity = severity};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(risk->message, sizeof risk->message, format, arguments);
    va_end(arguments);
    snprintf(risk->hint, sizeof risk->hint, "%s", hint != NULL ? hint : "");
}

size_t tpp_plan_risks(const struct tpp_model *model, const struct tpp_hardware *hardware, const struct tpp_job *job,
                      const struct tpp_stack *stack, const struct tpp_plan *plan, struct tpp_risk *out, size_t max)
{
    static tpp_risk_check *const *const lists[] = {
        tpp_risk_memory_checks,  tpp_risk_tensor_checks, tpp_risk_pipeline_checks,
        tpp_risk_context_checks, tpp_risk_data_checks,   tpp_risk_job_checks,
    };
    struct tpp_risk_context context = {.model = model,
                                       .hardware = hardware,
                                       .job = job,
                                       .stack = stack,
                                       .strategy = &plan->strategy,
                                       .cost = &plan->cost,
                                       .out = out,
                                       .max = max};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        for (tpp_risk_check *const *check = lists[i]; *check != NULL; check++) {
            (*check)(&context);
        }
    }
    return context.count;
}

const char *tpp_severity_name(enum tpp_severity severity)
{
    static const char *const names[] = {"info", "warning", "error"};
    return (unsigned)severity <= TPP_SEVERITY_ERROR ? names[severity] : NULL;
}
