/* problems.c - see problems.h. */
#include "planner/launch/problems.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tpp_problems_release(struct tpp_problems *problems)
{
    free(problems->items);
    *problems = (struct tpp_problems){.items = NULL};
}

static bool make_room(struct tpp_problems *problems)
{
    if (problems->count < problems->capacity)
        return true;
    size_t capacity = problems->capacity < 16 ? 16 : 2 * problems->capacity;
    struct tpp_problem *items = realloc(problems->items, capacity * sizeof *items);
    if (items == NULL) {
        problems->failed = true;
        return false;
    }
    problems->items = items;
    problems->capacity = capacity;
    return true;
}

void tpp_problems_add(struct tpp_problems *problems, const char *code, enum tpp_severity severity, uint32_t line,
                      const char *hint, const char *format, ...)
{
    va_list arguments;
    if (!make_room(problems))
        return;
    struct tpp_problem *problem = &problems->items[problems->count++];
    *problem = (struct tpp_problem){.severity = severity, .line = line};
    snprintf(problem->code, sizeof problem->code, "%s", code);
    snprintf(problem->hint, sizeof problem->hint, "%s", hint != NULL ? hint : "");
    va_start(arguments, format);
    vsnprintf(problem->message, sizeof problem->message, format, arguments);
    va_end(arguments);
}

/* True when `a` stands in front of `b`; equal ones keep their order. */
static bool is_before(const struct tpp_problem *a, const struct tpp_problem *b)
{
    return a->severity != b->severity ? a->severity > b->severity : a->line < b->line;
}

static bool is_same(const struct tpp_problem *a, const struct tpp_problem *b)
{
    return a->line == b->line && strcmp(a->code, b->code) == 0 && strcmp(a->message, b->message) == 0;
}

void tpp_problems_sort(struct tpp_problems *problems)
{
    size_t kept = 0;
    for (size_t i = 0; i < problems->count; i++) {
        struct tpp_problem problem = problems->items[i];
        bool is_new = true;
        for (size_t k = 0; k < kept && is_new; k++)
            is_new = !is_same(&problems->items[k], &problem);
        if (!is_new)
            continue;
        size_t at = kept++;
        for (; at > 0 && is_before(&problem, &problems->items[at - 1]); at--)
            problems->items[at] = problems->items[at - 1];
        problems->items[at] = problem;
    }
    problems->count = kept;
}

bool tpp_problems_have(const struct tpp_problems *problems, enum tpp_severity severity)
{
    for (size_t i = 0; i < problems->count; i++) {
        if (problems->items[i].severity == severity)
            return true;
    }
    return false;
}
