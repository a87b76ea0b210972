/* script_reading.h - what a test reads out of one launch script, and what was found wrong with it. */
#ifndef TPP_TESTS_SUPPORT_SCRIPT_READING_H
#define TPP_TESTS_SUPPORT_SCRIPT_READING_H

#include "planner/launch/launch_line.h"
#include "planner/launch/megatron_arguments.h"
#include "planner/launch/problems.h"
#include "planner/launch/shell_reader.h"

#include <string.h>

struct reading {
    struct tpp_shell_script *script;
    struct tpp_launch_line line;
    struct tpp_arguments arguments;
    struct tpp_megatron_settings settings;
    struct tpp_problems problems;
};

static inline void release_reading(struct reading *r)
{
    tpp_problems_release(&r->problems);
    tpp_arguments_release(&r->arguments);
    tpp_shell_free(r->script);
}

/* The first problem of this code, or NULL. */
static inline const struct tpp_problem *find_problem(const struct reading *r, const char *code)
{
    for (size_t i = 0; i < r->problems.count; i++) {
        if (strcmp(r->problems.items[i].code, code) == 0)
            return &r->problems.items[i];
    }
    return NULL;
}

#endif
