/* bridge_precision.h - private: the override mixed_precision of Megatron-Bridge, written and read.
 *
 * Its value is a name that stands for a whole MixedPrecisionConfig (training/mixed_precision.py), or that object:
 * {_target_:...,bf16:true,fp8_recipe:blockwise,...}. What it holds is applied over `model`, `optimizer` and `ddp`. */
#ifndef TPP_PLANNER_LAUNCH_BRIDGE_PRECISION_H
#define TPP_PLANNER_LAUNCH_BRIDGE_PRECISION_H

#include "planner/launch/megatron_arguments.h"
#include "planner/launch/script.h"

/* Precision, FP8 recipe, FP8 weights and the type of gradients of the request. */
void tpp_bridge_write_precision(struct tpp_script *script, const struct tpp_launch_request *request);
/* A name that is not known counts as bf16_mixed, a key of the object that is not there as its default. */
void tpp_bridge_read_precision(const char *value, struct tpp_megatron_settings *settings);

#endif
