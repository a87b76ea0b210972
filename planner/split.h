/* split.h - ways to put a model's layers on pipeline stages and chunks. */
#ifndef TPP_PLANNER_SPLIT_H
#define TPP_PLANNER_SPLIT_H

#include "planner/space.h"

/* Writes at most `max` splits of `num_layers` over `pipeline_parallel` stages of `virtual_pipeline_stages` chunks and
 * returns how many: the plain one when the layers divide; else the balanced one (`is_balanced`: DeepSpeed's engine), or
 * those that Megatron accepts (launch-formats ML-24, ML-25, ML-27): embedding or loss counted as a layer, or counts on
 * the first and last stage near the mean. */
uint32_t tpp_split_list(uint32_t num_layers, uint32_t pipeline_parallel, uint32_t virtual_pipeline_stages,
                        bool is_balanced, struct tpp_space_split *out, uint32_t max);

#endif
