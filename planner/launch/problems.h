/* problems.h - what is wrong with a launch script, each with the line it comes from. */
#ifndef TPP_PLANNER_LAUNCH_PROBLEMS_H
#define TPP_PLANNER_LAUNCH_PROBLEMS_H

#include "planner/risks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tpp_problem {
    char code[40]; /* a rule's number ("ML-14") or a word: "unknown-option" */
    enum tpp_severity severity;
    char message[320]; /* lower case, no full stop */
    char hint[256];    /* may be empty */
    uint32_t line;     /* 0: the whole script */
};

struct tpp_problems { /* a failed allocation is remembered */
    struct tpp_problem *items;
    size_t count, capacity;
    bool failed;
};

void tpp_problems_release(struct tpp_problems *problems);
void tpp_problems_add(struct tpp_problems *problems, const char *code, enum tpp_severity severity, uint32_t line,
                      const char *hint, const char *format, ...) __attribute__((format(printf, 6, 7)));
/* Errors first, then warnings; in each by line, then in the order they were added. The same problem twice is left out.
 */
void tpp_problems_sort(struct tpp_problems *problems);
bool tpp_problems_have(const struct tpp_problems *problems, enum tpp_severity severity);

#endif
