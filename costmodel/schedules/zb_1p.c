/* ZB-1p: the searched zero-bubble order with memory for p micro-batches, as much as 1F1B needs (Qi et al. 2023, "Zero
 * Bubble Pipeline Parallelism", section 3.1). */
#include "costmodel/schedules/schedule_parts.h"

const struct tpp_schedule_row tpp_schedule_zb_1p = {
    .info = {.name = "zb-1p", .placement = TPP_PLACEMENT_LOOP, .splits_backward = true, .is_searched = true},
    .chunks_a_stage = 1,
    .memory_limit_in_stages = 1,
    .search = tpp_search_zero_bubble,
};
