/* emitter.h - what one framework brings to launch.c: a row in its table.
 *
 * A new framework is a new file with one `emit`, and one row. Scripts are written with script.h; the texts of
 * configuration files are made first and handed over with tpp_script_config. */
#ifndef TPP_PLANNER_LAUNCH_EMITTER_H
#define TPP_PLANNER_LAUNCH_EMITTER_H

#include "planner/launch/script.h"

/* Refuses what no plan can change (tpp_launch_check_job): model, precision, task, stack, release. */
typedef enum tpp_code tpp_launch_check_function(const struct tpp_launch_request *request, struct tpp_error *err);
/* Appends to script->out, whose header (tpp_script_header) is the first that it writes. Nodes, GPUs, model and job have
 * been checked, by check_job too. TPP_E_UNSUPPORTED: the framework cannot say the plan; TPP_E_STRATEGY: it would
 * refuse it. */
typedef enum tpp_code tpp_launch_emit_function(const struct tpp_launch_request *request, struct tpp_script *script,
                                               struct tpp_error *err);

struct tpp_launch_emitter {
    enum tpp_framework framework;
    unsigned engines;  /* bits 1 << TPP_ENGINE_...; rows of one framework differ in them */
    const char *title; /* for the header and messages: "Megatron-LM" */
    bool has_releases; /* the release of the request is one of this framework: the header names it */
    const struct tpp_launch_option *(*find_option)(
        const char *name); /* its option table; NULL: options are not checked */
    tpp_launch_check_function *check_job;
    tpp_launch_emit_function *emit;
};

#define TPP_LAUNCH_ANY_ENGINE (~0u)

tpp_launch_emit_function tpp_launch_emit_megatron_lm;                    /* megatron_lm.c */
tpp_launch_emit_function tpp_launch_emit_megatron_deepspeed;             /* megatron_deepspeed.c */
tpp_launch_emit_function tpp_launch_emit_megatron_bridge;                /* megatron_bridge.c */
tpp_launch_emit_function tpp_launch_emit_swift_megatron;                 /* swift_megatron.c */
tpp_launch_emit_function tpp_launch_emit_swift, tpp_launch_emit_trainer; /* trainer.c */
tpp_launch_emit_function tpp_launch_emit_accelerate;                     /* trainer.c */
tpp_launch_emit_function tpp_launch_emit_nanotron;                       /* config/nanotron.c */
tpp_launch_emit_function tpp_launch_emit_torchtitan;                     /* config/torchtitan_write.c */

tpp_launch_check_function tpp_launch_check_megatron_lm, tpp_launch_check_megatron_deepspeed,
    tpp_launch_check_megatron_bridge, tpp_launch_check_swift_megatron, tpp_launch_check_swift, tpp_launch_check_trainer,
    tpp_launch_check_accelerate, tpp_launch_check_torchtitan, tpp_launch_check_nanotron; /* in the same files */

#endif
