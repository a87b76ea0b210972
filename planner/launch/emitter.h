/* emitter.h - what one framework brings to launch.c: a row in its table. */
#ifndef TPP_PLANNER_LAUNCH_EMITTER_H
#define TPP_PLANNER_LAUNCH_EMITTER_H

#include "planner/launch/launch.h"

struct tpp_launch_emitter {
    enum tpp_framework framework;
    /* Appends the script to `out`, which is empty. Nodes and GPUs have been checked. */
    enum tpp_code (*emit)(const struct tpp_launch_request *request, struct tpp_text *out, struct tpp_error *err);
};

extern const struct tpp_launch_emitter tpp_launch_megatron_lm;

#endif
