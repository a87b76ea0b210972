/* Proposals how to split layers over stages when they do not divide, or the embedding and the head unbalance them. */
#include "costmodel/pipeline_layout.h"

#include <math.h>
#include <string.h>

/* Splits whose slowest stages differ by less are as short. */
static const double tie = 1e-9;

static double first_extra(const struct tpp_layer_split_request *request)
{
    return request->embedding_seconds;
}

/* Multi-token-prediction layers sit with the loss on the last chunk (launch-formats ML-28). */
static double last_extra(const struct tpp_layer_split_request *request)
{
    return request->head_seconds + request->num_mtp_layers * request->mtp_layer_seconds;
}

static double stage_extra(const struct tpp_layer_split_request *request, uint32_t stage)
{
    return (stage == 0 ? first_extra(request) : 0) +
           (stage + 1 == request->pipeline_parallel ? last_extra(request) : 0);
}

/* Slowest of the first, an inner and the last stage with these layers each. */
static double slowest_of(const struct tpp_layer_split_request *request, uint32_t first, uint32_t inner, uint32_t last)
{
    const uint32_t p = request->pipeline_parallel;
    const double t = request->layer_seconds;
    if (p == 1)
        return first * t + stage_extra(request, 0);
    const double ends = fmax(first * t + stage_extra(request, 0), last * t + stage_extra(request, p - 1));
    return p > 2 ? fmax(ends, inner * t) : ends;
}

static void keep_better(struct tpp_layer_split *best, struct tpp_layer_split candidate)
{
    if (candidate.slowest_seconds < best->slowest_seconds * (1 - tie))
        *best = candidate;
}

/* Embedding or loss counted as layers, or neither: p v equal chunks of slots. */
static void try_equal_slots(const struct tpp_layer_split_request *request, bool embedding, bool loss,
                            struct tpp_layer_split *best)
{
    const uint32_t p = request->pipeline_parallel, v = request->virtual_pipeline_stages;
    const uint32_t slots = request->num_layers + embedding + loss;
    if (slots % (p * v) != 0 || (p == 1 && (embedding || loss)))
        return;
    const uint32_t each = slots / p;
    const struct tpp_layer_split candidate = {
        .kind = embedding || loss ? TPP_LAYER_SPLIT_ACCOUNT : TPP_LAYER_SPLIT_EVEN,
        .account_for_embedding = embedding,
        .account_for_loss = loss,
        .slowest_seconds = p == 1 ? slowest_of(request, request->num_layers, 0, 0)
                                  : slowest_of(request, each - embedding, each, each - loss),
    };
    keep_better(best, candidate);
}

/* First and last counts for `inner` layers on each stage between: the last gets what the first leaves. Both grow with
 * their layers, so the best first count is where the two meet, or one step before. */
static void try_ends(const struct tpp_layer_split_request *request, uint32_t inner, struct tpp_layer_split *best)
{
    const uint32_t p = request->pipeline_parallel, v = request->virtual_pipeline_stages;
    const uint64_t between = (uint64_t)inner * (p - 2);
    if (between + 2 * v > request->num_layers || (request->num_layers - between) % v != 0)
        return;
    const uint32_t ends = (uint32_t)(request->num_layers - between);
    const double even = (ends * request->layer_seconds + stage_extra(request, p - 1) - stage_extra(request, 0)) /
                        (2 * request->layer_seconds);
    const double most = ends - v;
    const uint32_t low = (uint32_t)fmax(v, fmin(most, floor(even / v) * v));
    for (uint32_t first = low; first <= low + v && first <= ends - v; first += v) {
        const struct tpp_layer_split candidate = {
            .kind = TPP_LAYER_SPLIT_ENDS,
            .first_stage_layers = first,
            .last_stage_layers = ends - first,
            .slowest_seconds = slowest_of(request, first, inner, ends - first),
        };
        keep_better(best, candidate);
    }
}

/* Layers of each stage when every layer goes where there is least to do: no split has a shorter slowest stage, because
 * moving a layer off the slowest stage makes another one at least as slow. */
static double fill_stages(const struct tpp_layer_split_request *request, uint32_t *layers)
{
    const uint32_t p = request->pipeline_parallel;
    double slowest = 0;
    memset(layers, 0, p * sizeof(*layers));
    for (uint32_t i = 0; i < request->num_layers; i++) {
        uint32_t least = 0;
        for (uint32_t r = 1; r < p; r++)
            if (layers[r] * request->layer_seconds + stage_extra(request, r) <
                layers[least] * request->layer_seconds + stage_extra(request, least))
                least = r;
        layers[least]++;
    }
    for (uint32_t r = 0; r < p; r++)
        slowest = fmax(slowest, layers[r] * request->layer_seconds + stage_extra(request, r));
    return slowest;
}

/* Spreads a stage's layers over its chunks the same way. */
static void fill_chunks(const struct tpp_layer_split_request *request, uint32_t stage, uint32_t layers,
                        struct tpp_layout_chunk *chunks)
{
    const uint32_t p = request->pipeline_parallel, v = request->virtual_pipeline_stages;
    for (uint32_t i = 0; i < layers; i++) {
        uint32_t least = 0;
        double least_seconds = INFINITY;
        for (uint32_t c = 0; c < v; c++) {
            const struct tpp_layout_chunk *chunk = &chunks[c * p + stage];
            const double seconds = chunk->num_layers * request->layer_seconds +
                                   (chunk->has_embedding ? first_extra(request) : 0) +
                                   (chunk->has_loss ? last_extra(request) : 0);
            if (seconds < least_seconds) {
                least_seconds = seconds;
                least = c;
            }
        }
        chunks[least * p + stage].num_layers++;
    }
}

static void fill_layout(const struct tpp_layer_split_request *request, const uint32_t *stage_layers,
                        struct tpp_layout_chunk *chunks)
{
    const uint32_t p = request->pipeline_parallel, v = request->virtual_pipeline_stages;
    memset(chunks, 0, (size_t)p * v * sizeof(*chunks));
    chunks[0].has_embedding = true;
    chunks[p * v - 1].has_loss = true;
    chunks[p * v - 1].num_mtp_layers = request->num_mtp_layers;
    for (uint32_t stage = 0; stage < p; stage++)
        fill_chunks(request, stage, stage_layers[stage], chunks);
}

/* Chunks of a split that a strategy can hold. */
static void fill_from_strategy(const struct tpp_layer_split_request *request, const struct tpp_layer_split *split,
                               struct tpp_layout_chunk *chunks)
{
    const uint32_t p = request->pipeline_parallel, v = request->virtual_pipeline_stages;
    struct tpp_strategy strategy = tpp_strategy_defaults();
    strategy.pipeline_parallel = p;
    strategy.virtual_pipeline_stages = v;
    tpp_layer_split_apply(split, &strategy);
    for (uint32_t g = 0; g < p * v; g++)
        chunks[g] = (struct tpp_layout_chunk){
            .has_embedding = g == 0,
            .num_layers = tpp_strategy_chunk_layers(&strategy, request->num_layers, g % p, g / p),
            .num_mtp_layers = g + 1 == p * v ? request->num_mtp_layers : 0,
            .has_loss = g + 1 == p * v,
        };
}

static enum tpp_code check(const struct tpp_layer_split_request *request, struct tpp_error *err)
{
    const uint32_t p = request->pipeline_parallel, v = request->virtual_pipeline_stages;
    const double times[] = {request->layer_seconds, request->mtp_layer_seconds, request->embedding_seconds,
                            request->head_seconds};
    if (p < 1 || p > TPP_MAX_PIPELINE_PARALLEL || v < 1 || (uint64_t)p * v > TPP_MAX_CHUNKS)
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.pipeline_parallel", NULL,
                        "%u stages of %u chunks are not a pipeline", p, v);
    if (request->num_layers < 1 || request->num_layers > UINT32_C(1) << 16)
        return tpp_fail(err, TPP_E_STRATEGY, "model.num_layers", NULL, "%u layers cannot be split",
                        request->num_layers);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        if (!isfinite(times[i]) || times[i] < 0 || request->layer_seconds <= 0)
            return tpp_fail(err, TPP_E_RANGE, "layer split", NULL,
                            "a time is negative or not finite, or a layer takes none");
    return TPP_OK;
}

enum tpp_code tpp_layer_split_propose(const struct tpp_layer_split_request *request, struct tpp_layer_split *split,
                                      struct tpp_layout_chunk *chunks, struct tpp_error *err)
{
    uint32_t stage_layers[TPP_MAX_PIPELINE_PARALLEL];
    const enum tpp_code code = check(request, err);
    if (code != TPP_OK)
        return code;
    struct tpp_layer_split best = {.kind = TPP_LAYER_SPLIT_NONE, .slowest_seconds = INFINITY};
    for (int flags = 0; flags < 4; flags++)
        try_equal_slots(request, flags & 1, flags & 2, &best);
    const uint32_t p = request->pipeline_parallel, v = request->virtual_pipeline_stages;
    const uint32_t most = p > 2 ? request->num_layers / (p - 2) : v;
    for (uint32_t inner = v; p > 1 && inner <= most; inner += v)
        try_ends(request, inner, &best);
    const double shortest = fill_stages(request, stage_layers);
    if (request->allows_layout)
        keep_better(&best, (struct tpp_layer_split){.kind = TPP_LAYER_SPLIT_LAYOUT, .slowest_seconds = shortest});
    best.best_seconds = shortest;
    *split = best;
    if (chunks && best.kind == TPP_LAYER_SPLIT_LAYOUT)
        fill_layout(request, stage_layers, chunks);
    else if (chunks && best.kind != TPP_LAYER_SPLIT_NONE)
        fill_from_strategy(request, split, chunks);
    return TPP_OK;
}

bool tpp_layer_split_apply(const struct tpp_layer_split *split, struct tpp_strategy *strategy)
{
    if (split->kind == TPP_LAYER_SPLIT_LAYOUT || split->kind == TPP_LAYER_SPLIT_NONE)
        return false;
    strategy->account_for_embedding = split->account_for_embedding;
    strategy->account_for_loss = split->account_for_loss;
    strategy->first_stage_layers = split->first_stage_layers;
    strategy->last_stage_layers = split->last_stage_layers;
    strategy->balanced_split = false;
    return true;
}
