/* plan_layout.h - private: a layout string of Megatron Core as fields of a strategy, and back. */
#ifndef TPP_PLANNER_LAUNCH_PLAN_LAYOUT_H
#define TPP_PLANNER_LAUNCH_PLAN_LAYOUT_H

#include "costmodel/strategy.h"

enum tpp_plan_layout {
    TPP_PLAN_LAYOUT_SAME,   /* the strategy holds what the layout says */
    TPP_PLAN_LAYOUT_OTHER,  /* its stages differ in a way that a strategy cannot hold: it has their number alone */
    TPP_PLAN_LAYOUT_BROKEN, /* no layout, or none of that many stages: the strategy is left alone */
};

/* Sets virtual stages and, from the layers that first and last chunk lack, account_for_embedding and last_chunk_less;
 * pipeline_parallel is set before. */
enum tpp_plan_layout tpp_plan_read_layout(const char *text, struct tpp_strategy *strategy);

#define TPP_PLAN_LAYOUT_SIZE 96
/* The inverse: "Et*3|(t*4|)*6ttmL", for a strategy whose first and last chunk alone differ from the others, with the
 * multi-token-prediction blocks on the last one; at most TPP_MAX_CHUNKS chunks. Empty when out of memory. */
void tpp_plan_write_layout(const struct tpp_strategy *strategy, uint32_t num_layers, uint32_t mtp_num_layers,
                           char text[TPP_PLAN_LAYOUT_SIZE]);

#endif
