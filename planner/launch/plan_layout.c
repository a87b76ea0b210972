/* plan_layout.c - see plan_layout.h. */
#include "planner/launch/plan_layout.h"

#include "costmodel/pipeline_layout.h"

#include <stdio.h>

/* Chunks between first and last hold `each` layers. */
static bool has_even_middle(const struct tpp_layout_chunk *chunks, uint32_t count, uint32_t each)
{
    for (uint32_t i = 1; i + 1 < count; i++) {
        if (chunks[i].num_layers != each)
            return false;
    }
    return true;
}

enum tpp_plan_layout tpp_plan_read_layout(const char *text, struct tpp_strategy *strategy)
{
    struct tpp_layout_chunk chunks[TPP_MAX_CHUNKS];
    uint32_t count;
    if (strategy->pipeline_parallel < 1 ||
        tpp_pipeline_layout_parse(text, chunks, TPP_MAX_CHUNKS, &count, NULL) != TPP_OK ||
        count % strategy->pipeline_parallel != 0)
        return TPP_PLAN_LAYOUT_BROKEN;
    strategy->virtual_pipeline_stages = count / strategy->pipeline_parallel;
    const uint32_t first = chunks[0].num_layers, last = chunks[count - 1].num_layers;
    const uint32_t each = count > 2 ? chunks[1].num_layers : first > last ? first : last;
    const bool lacks_one = first + 1 == each;
    if ((first != each && !lacks_one) || last > each || !has_even_middle(chunks, count, each))
        return TPP_PLAN_LAYOUT_OTHER;
    strategy->account_for_embedding = lacks_one;
    strategy->last_chunk_less = each - last;
    return TPP_PLAN_LAYOUT_SAME;
}

void tpp_plan_write_layout(const struct tpp_strategy *strategy, uint32_t num_layers, uint32_t mtp_num_layers,
                           char text[TPP_PLAN_LAYOUT_SIZE])
{
    struct tpp_layout_chunk chunks[TPP_MAX_CHUNKS];
    struct tpp_text written;
    const uint32_t stages = strategy->pipeline_parallel, count = stages * strategy->virtual_pipeline_stages;
    for (uint32_t i = 0; i < count && i < TPP_MAX_CHUNKS; i++)
        chunks[i] = (struct tpp_layout_chunk){
            .has_embedding = i == 0,
            .num_layers = tpp_strategy_chunk_layers(strategy, num_layers, i % stages, i / stages),
            .num_mtp_layers = i + 1 == count ? mtp_num_layers : 0,
            .has_loss = i + 1 == count};
    tpp_text_init(&written);
    tpp_pipeline_layout_format(chunks, count, &written);
    snprintf(text, TPP_PLAN_LAYOUT_SIZE, "%s", tpp_text_failed(&written) ? "" : tpp_text_get(&written));
    tpp_text_release(&written);
}
