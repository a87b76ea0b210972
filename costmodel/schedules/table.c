/* The schedules by their value in enum tpp_schedule, and where their chunks are. */
#include "costmodel/schedules/schedule_parts.h"

#include <assert.h>

static const struct tpp_schedule_row *const rows[] = {
    [TPP_SCHEDULE_GPIPE] = &tpp_schedule_gpipe,
    [TPP_SCHEDULE_1F1B] = &tpp_schedule_1f1b,
    [TPP_SCHEDULE_INTERLEAVED] = &tpp_schedule_interleaved,
    [TPP_SCHEDULE_ZB_H1] = &tpp_schedule_zb_h1,
    [TPP_SCHEDULE_ZB_H2] = &tpp_schedule_zb_h2,
    [TPP_SCHEDULE_ZB_1P] = &tpp_schedule_zb_1p,
    [TPP_SCHEDULE_ZB_2P] = &tpp_schedule_zb_2p,
    [TPP_SCHEDULE_ZB_V] = &tpp_schedule_zb_v,
    [TPP_SCHEDULE_DUALPIPE] = &tpp_schedule_dualpipe,
    [TPP_SCHEDULE_DUALPIPEV] = &tpp_schedule_dualpipev,
};
static_assert(sizeof rows / sizeof rows[0] == TPP_SCHEDULE_COUNT, "every schedule has its row");

const struct tpp_schedule_row *tpp_schedule_row_of(enum tpp_schedule schedule)
{
    assert((unsigned)schedule < TPP_SCHEDULE_COUNT);
    return rows[schedule];
}

const struct tpp_schedule_info *tpp_schedule_info(enum tpp_schedule schedule)
{
    return &tpp_schedule_row_of(schedule)->info;
}

uint32_t tpp_schedule_chunk_stage(enum tpp_placement placement, uint32_t pipeline_parallel, uint32_t chunk)
{
    if (placement == TPP_PLACEMENT_LOOP)
        return chunk % pipeline_parallel;
    return chunk < pipeline_parallel ? chunk : 2 * pipeline_parallel - 1 - chunk;
}

/* The second copy of the model starts anew at chunk p. */
static bool is_first_of_copy(enum tpp_placement placement, uint32_t pipeline_parallel, uint32_t chunk)
{
    return chunk == 0 || (placement == TPP_PLACEMENT_TWO_WAY && chunk == pipeline_parallel);
}

uint32_t tpp_schedule_previous_chunk(enum tpp_placement placement, uint32_t pipeline_parallel, uint32_t chunk)
{
    return is_first_of_copy(placement, pipeline_parallel, chunk) ? TPP_NO_CHUNK : chunk - 1;
}

uint32_t tpp_schedule_next_chunk(enum tpp_placement placement, uint32_t pipeline_parallel, uint32_t num_chunks,
                                 uint32_t chunk)
{
    const bool is_last = chunk + 1 == num_chunks || is_first_of_copy(placement, pipeline_parallel, chunk + 1);
    return is_last ? TPP_NO_CHUNK : chunk + 1;
}
