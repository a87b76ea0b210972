/* configurations.h - what a framework that is configured by a file brings: one table of keys, read and written, and
 * what its settings mean as a plan.
 *
 * torchtitan (TOML of its releases up to 0.2.2), nanotron (YAML), accelerate (YAML; batch, length and model are options
 * of the program that it starts). Launch formats, sections 5, 6 and 8. */
#ifndef TPP_PLANNER_LAUNCH_CONFIG_CONFIGURATIONS_H
#define TPP_PLANNER_LAUNCH_CONFIG_CONFIGURATIONS_H

#include "planner/launch/config/document.h"
#include "planner/launch/launch.h"
#include "planner/launch/plan_reading.h"

/* What stands beside the file. */
struct tpp_configuration_request { /* all borrowed */
    const struct tpp_config *config;
    const struct tpp_hardware *hardware;
    const struct tpp_model *model; /* the user's; NULL: the file's */
    const char *name;              /* of a model that only the file describes */
    int64_t world_size;            /* 0: the file's own sizes */
};

struct tpp_configuration_reading {
    bool is_world_known;            /* else `rules` and plan are for the smallest world that the file's sizes need */
    struct tpp_rule_settings rules; /* what the framework's rules are asked about */
    bool has_plan;                  /* what a prediction needs is there */
    struct tpp_plan_reading plan;
    const struct tpp_config *config; /* as in the request; lines of the rules' keys */
};

/* Where a value that rules read (tpp_violation) stands in the file: the first of the keys that is there. */
struct tpp_rule_keys {
    const char *value;
    const char *keys[3];
};

/* One framework's way. */
struct tpp_configuration {
    enum tpp_framework framework;
    bool leaves_options; /* the command line of the program says the rest: a file alone is no plan */
    /* True when the keys at the top of the file are this framework's. */
    bool (*is_own)(const struct tpp_config *config);
    /* Fills *out as far as it goes. What the framework refuses besides its rules, and what had to be assumed, is added
     * to `problems`. Fails for what nobody can go on from: TPP_E_MEMORY, and the errors of tpp_model_check,
     * tpp_job_check, tpp_stack_check and tpp_strategy_complete. */
    enum tpp_code (*read)(const struct tpp_configuration_request *request, struct tpp_configuration_reading *out,
                          struct tpp_problems *problems, struct tpp_error *err);
    const struct tpp_rule_keys *rule_keys; /* ends with a value of NULL */
};

extern const struct tpp_configuration tpp_configuration_torchtitan;
extern const struct tpp_configuration tpp_configuration_nanotron;
extern const struct tpp_configuration tpp_configuration_accelerate;

/* The one that the file belongs to. TPP_E_UNSUPPORTED: none knows its keys. */
enum tpp_code tpp_configuration_find(const struct tpp_config *config, const char *file,
                                     const struct tpp_configuration **out, struct tpp_error *err);
/* NULL: the framework has none. */
const struct tpp_configuration *tpp_configuration_of(enum tpp_framework framework);
/* Asks the rules and adds what is broken, with the line of the first key that the rule is about. */
void tpp_configuration_judge(const struct tpp_configuration *configuration,
                             const struct tpp_configuration_reading *reading, struct tpp_problems *problems);

/* The plan's part of the file, as it is written into a script or next to one. Fails with TPP_E_UNSUPPORTED when the
 * framework cannot say the plan, TPP_E_STRATEGY when it would refuse it. */
enum tpp_code tpp_torchtitan_write(const struct tpp_launch_request *request, struct tpp_text *out,
                                   struct tpp_error *err);
enum tpp_code tpp_nanotron_write(const struct tpp_launch_request *request, struct tpp_text *out, struct tpp_error *err);

#endif
