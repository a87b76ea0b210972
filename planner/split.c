#include "planner/split.h"

#include <assert.h>

struct splits {
    struct tpp_space_split *out;
    uint32_t count, max;
    uint32_t num_layers, p, v;
};

/* Layers of the fullest stage. */
static uint32_t max_stage_layers(const struct tpp_space_split *split, const struct splits *splits)
{
    struct tpp_strategy strategy = tpp_strategy_defaults();
    strategy.pipeline_parallel = splits->p;
    strategy.virtual_pipeline_stages = splits->v;
    strategy.first_stage_layers = split->first_stage_layers;
    strategy.last_stage_layers = split->last_stage_layers;
    strategy.account_for_embedding = split->account_for_embedding;
    strategy.account_for_loss = split->account_for_loss;
    strategy.balanced_split = split->balanced_split;
    uint32_t max = 0;
    for (uint32_t stage = 0; stage < splits->p; stage++) {
        uint32_t layers = 0;
        for (uint32_t chunk = 0; chunk < splits->v; chunk++) {
            layers += tpp_strategy_chunk_layers(&strategy, splits->num_layers, stage, chunk);
        }
        max = layers > max ? layers : max;
    }
    return max;
}

static void add(struct splits *splits, struct tpp_space_split split)
{
    if (splits->count < splits->max) {
        split.virtual_pipeline_stages = splits->v;
        split.max_stage_layers = max_stage_layers(&split, splits);
        splits->out[splits->count++] = split;
    }
}

static void add_accounted(struct splits *splits)
{
    const uint32_t chunks = splits->p * splits->v;
    if ((splits->num_layers + 2) % chunks == 0) {
        add(splits, (struct tpp_space_split){.account_for_embedding = true, .account_for_loss = true});
    }
    if ((splits->num_layers + 1) % chunks == 0) {
        add(splits, (struct tpp_space_split){.account_for_loss = true});
        add(splits, (struct tpp_space_split){.account_for_embedding = true});
    }
}

/* Counts of 1 .. 2 * middle that divide into chunks; 0 stands for "not given". */
static bool is_near(uint32_t layers, uint32_t middle, uint32_t v)
{
    return layers % v == 0 && layers <= 2 * middle;
}

static void add_counts(struct splits *splits, uint32_t first, uint32_t last, uint32_t middle)
{
    if (is_near(first, middle, splits->v) && is_near(last, middle, splits->v)) {
        add(splits, (struct tpp_space_split){.first_stage_layers = first, .last_stage_layers = last});
    }
}

/* First and last stage hold what the stages between, `middle` layers each, leave: on the last alone, on the first
 * alone, or halved over both (the last, with the head, gets the smaller half). */
static void add_uneven(struct splits *splits, uint32_t middle)
{
    const uint32_t p = splits->p, v = splits->v;
    const uint64_t but_one = (uint64_t)middle * (p - 1);
    if (but_one < splits->num_layers) {
        const uint32_t rest = splits->num_layers - (uint32_t)but_one;
        add_counts(splits, 0, rest, middle);
        add_counts(splits, rest, 0, middle);
    }
    const uint64_t but_two = (uint64_t)middle * (p - 2);
    if (p > 2 && but_two + 2 * v <= splits->num_layers) {
        const uint32_t rest = splits->num_layers - (uint32_t)but_two;
        const uint32_t last = rest / v / 2 * v;
        add_counts(splits, rest - last, last, middle);
    }
}

uint32_t tpp_split_list(uint32_t num_layers, uint32_t pipeline_parallel, uint32_t virtual_pipeline_stages,
                        bool is_balanced, struct tpp_space_split *out, uint32_t max)
{
    const uint32_t p = pipeline_parallel, v = virtual_pipeline_stages;
    struct splits splits = {.out = out, .max = max, .num_layers = num_layers, .p = p, .v = v};
    assert(p >= 1 && v >= 1);
    if (num_layers % (p * v) == 0) {
        add(&splits, (struct tpp_space_split){0});
        return splits.count;
    }
    if (is_balanced) {
        if (v == 1 && num_layers >= p) {
            add(&splits, (struct tpp_space_split){.balanced_split = true});
        }
        return splits.count;
    }
    if (p == 1) {
        return 0;
    }
    add_accounted(&splits);
    const uint32_t middle = num_layers / p / v * v; /* of a stage, a multiple of the chunks below the mean */
    if (middle > 0) {
        add_uneven(&splits, middle);
    }
    add_uneven(&splits, middle + v);
    return splits.count;
}
