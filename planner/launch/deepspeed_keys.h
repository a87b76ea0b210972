/* deepspeed_keys.h - private: what DeepSpeed's own parser refuses in zero_optimization. */
#ifndef TPP_PLANNER_LAUNCH_DEEPSPEED_KEYS_H
#define TPP_PLANNER_LAUNCH_DEEPSPEED_KEYS_H

#include "costmodel/base/json_read.h"
#include "planner/launch/problems.h"

/* Adds unknown keys, and values out of DS-3, DS-4, DS-8 and DS-9, at `line`. `zero` is an object. */
void tpp_deepspeed_keys_judge(struct tpp_json zero, uint32_t line, struct tpp_problems *problems);

#endif
