/* Axes of models with experts: over how many ranks they lie, and how tokens reach them. */
#include "planner/space_parts.h"

void tpp_space_add_experts(const struct tpp_space *space, struct tpp_space_cell *cell)
{
    const uint32_t num_experts = space->model->num_experts > 0 ? space->model->num_experts : 1;
    const uint32_t t = cell->tensor_parallel;
    const uint32_t stage_ranks = space->job->num_gpus / cell->pipeline_parallel;
    for (uint32_t e = 1; e <= num_experts && e <= stage_ranks; e++) {
        if (num_experts % e != 0 || stage_ranks % e != 0 || !tpp_pin_allows(space->limits.expert_parallel, e)) {
            continue;
        }
        if (cell->num_experts + 2 <= TPP_SPACE_MAX_VALUES) {
            cell->experts[cell->num_experts++] = (struct tpp_space_experts){e, 1};
            if (space->model->num_experts > 0 && t > 1 && stage_ranks % ((uint64_t)e * t) == 0 &&
                space->model->moe_ffn_hidden_size % t == 0) {
                cell->experts[cell->num_experts++] = (struct tpp_space_experts){e, t};
            }
        }
    }
}

/* Megatron-LM and Megatron-Bridge are told the dispatcher; DeepEP is there from 0.12 on, HybridEP from 0.16. */
static bool has_dispatch(const struct tpp_space *space, enum tpp_dispatch dispatch)
{
    if (dispatch == TPP_DISPATCH_ALL_TO_ALL)
        return true;
    if (dispatch == TPP_DISPATCH_ALL_GATHER)
        return tpp_space_is_megatron_core(space);
    return tpp_space_is_megatron_core(space) &&
           space->release >= (dispatch == TPP_DISPATCH_DEEPEP ? TPP_RELEASE_0_12 : TPP_RELEASE_0_16);
}

/* Of the two that send a token once, Megatron-Bridge's recipes take DeepEP on nodes of eight GPUs and HybridEP where NVLink
 * joins more (apply_flex_dispatcher_backend); the other one is tried on request. */
static bool is_usual(const struct tpp_space *space, enum tpp_dispatch dispatch)
{
    const bool joins_more = space->gpus_per_node > 8;
    return dispatch == TPP_DISPATCH_ALL_TO_ALL || (dispatch != TPP_DISPATCH_ALL_GATHER && joins_more == (dispatch == TPP_DISPATCH_HYBRIDEP));
}

static bool tries_dispatch(const struct tpp_space *space, enum tpp_dispatch dispatch)
{
    if (!tpp_pin_is_free(space->limits.dispatch))
        return tpp_pin_allows(space->limits.dispatch, dispatch);
    return has_dispatch(space, dispatch) && (space->limits.full_space || is_usual(space, dispatch));
}

/* The overlap is there from 0.14 on; what else it needs, rules say (ML-80). Of dispatchers it is tried with the one that sends
 * less, unless more is asked for. */
static bool tries_overlap(const struct tpp_space *space, enum tpp_dispatch dispatch, bool overlap)
{
    if (overlap && dispatch == TPP_DISPATCH_ALL_GATHER)
        return false;
    if (!tpp_pin_is_free(space->limits.expert_overlap))
        return tpp_pin_allows(space->limits.expert_overlap, overlap);
    const bool is_asked = space->limits.full_space || !tpp_pin_is_free(space->limits.dispatch);
    return !overlap || (tpp_space_is_megatron_core(space) && space->release >= TPP_RELEASE_0_14 &&
                        (is_asked || dispatch != TPP_DISPATCH_ALL_TO_ALL));
}

/* Shared experts beside the exchange: with the all-to-all from 0.10 on, with other dispatchers from 0.18 (ML-75), there on
 * request; not together with the other overlap (ML-80). */
static bool tries_shared(const struct tpp_space *space, enum tpp_dispatch dispatch, bool overlap, bool shared)
{
    if (shared && (overlap || dispatch == TPP_DISPATCH_ALL_GATHER || space->model->shared_expert_hidden_size == 0))
        return false;
    if (!tpp_pin_is_free(space->limits.shared_overlap))
        return tpp_pin_allows(space->limits.shared_overlap, shared);
    if (!shared)
        return true;
    return tpp_space_is_megatron_core(space) &&
           (dispatch == TPP_DISPATCH_ALL_TO_ALL ? space->release >= TPP_RELEASE_0_10
                                                : space->limits.full_space && space->release >= TPP_RELEASE_0_18);
}

static void add_exchange(const struct tpp_space *space, struct tpp_space_exchange exchange, struct tpp_space_cell *cell)
{
    if (tries_overlap(space, exchange.dispatch, exchange.overlap) &&
        tries_shared(space, exchange.dispatch, exchange.overlap, exchange.shared_overlap))
        cell->exchanges[cell->num_exchanges++] = exchange;
}

void tpp_space_add_exchanges(const struct tpp_space *space, struct tpp_space_cell *cell)
{
    if (space->model->num_experts == 0) {
        cell->exchanges[cell->num_exchanges++] = (struct tpp_space_exchange){TPP_DISPATCH_ALL_TO_ALL, false, false};
        return;
    }
    for (int i = TPP_DISPATCH_ALL_TO_ALL; i <= TPP_DISPATCH_ALL_GATHER; i++) {
        const enum tpp_dispatch dispatch = (enum tpp_dispatch)i;
        if (!tries_dispatch(space, dispatch))
            continue;
        add_exchange(space, (struct tpp_space_exchange){dispatch, false, false}, cell);
        add_exchange(space, (struct tpp_space_exchange){dispatch, false, true}, cell);
        add_exchange(space, (struct tpp_space_exchange){dispatch, true, false}, cell);
    }
}

bool tpp_space_set_exchange(const struct tpp_space_cell *cell, uint32_t index, struct tpp_strategy *strategy)
{
    const struct tpp_space_exchange *exchange = &cell->exchanges[index];
    strategy->dispatch = exchange->dispatch;
    strategy->expert_overlap = exchange->overlap;
    strategy->shared_overlap = exchange->shared_overlap;
    return strategy->expert_parallel > 1 ||
           (exchange->dispatch == TPP_DISPATCH_ALL_TO_ALL && !exchange->overlap && !exchange->shared_overlap);
}
