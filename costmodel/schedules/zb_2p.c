/* ZB-2p: the searched zero-bubble order with memory for 2p micro-batches, where next to no wait is left (Qi et al.
 * 2023, "Zero Bubble Pipeline Parallelism", section 3.1). */
#include "costmodel/schedules/schedule_parts.h"

const struct tpp_schedule_row tpp_schedule_zb_2p = {
    .info = {.name = "zb-2p", .placement = TPP_PLACEMENT_LOOP, .splits_backward = true, .is_searched = true},
    .chunks_a_stage = 1,
    .memory_limit_in_stages = 2,
    .search = tpp_search_zero_bubble,
};
