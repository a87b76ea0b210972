#include "costmodel/allocator/replay_parts.h"

#include "costmodel/evaluator.h"
#include "costmodel/memory_walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Steps of fixed lengths after which the pools have settled, if they ever do. */
static const uint32_t max_settling_steps = 8;
/* Share of draws that run out of memory from which on a plan is tight. */
static const double tight_probability = 0.05;

struct tpp_replay_options tpp_replay_defaults(void)
{
    return (struct tpp_replay_options){
        .settings = tpp_allocator_settings_defaults(),
        .seed = 1,
        .stage = TPP_REPLAY_WORST_STAGE,
        .num_steps = 50,
        .num_draws = 8,
    };
}

enum tpp_code tpp_replay_resolve(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                 struct tpp_replay_options *options, uint64_t *outside_bytes, struct tpp_error *err)
{
    struct tpp_cost cost;
    const enum tpp_code code = tpp_evaluator_cost(evaluator, strategy, &cost, err);
    if (code != TPP_OK)
        return code;
    if (options->num_steps < 1 || options->num_steps > 1000000)
        return tpp_fail(err, TPP_E_RANGE, "num_steps", "1 to 1000000", "a replay of %u steps", options->num_steps);
    const double outside = cost.memory.terms[TPP_MEMORY_CONTEXT] + cost.memory.terms[TPP_MEMORY_COMMUNICATORS];
    const double free_bytes = cost.memory.capacity_bytes - outside;
    *outside_bytes = (uint64_t)outside;
    if (options->stage == TPP_REPLAY_WORST_STAGE)
        options->stage = cost.memory.worst_stage;
    if (options->device_bytes == 0)
        options->device_bytes = free_bytes > 0 ? (uint64_t)free_bytes : 0;
    return TPP_OK;
}

static bool has_fixed_lengths(const struct tpp_replay_options *options)
{
    return options->packing || options->lengths == NULL || tpp_lengths_is_fixed(options->lengths);
}

/* What one replay is summed up to; the result of the plan, or one draw. */
static void note_failure(const struct tpp_play *play, uint32_t step, struct tpp_replay_failure *failure)
{
    const struct tpp_allocator_statistics *statistics = tpp_allocator_statistics(play->allocator);
    if (play->failed == NULL)
        return;
    *failure = (struct tpp_replay_failure){
        .happened = true,
        .step = step,
        .micro_batch = play->failed->micro_batch,
        .layer = play->failed->layer,
        .tensor = play->failed->name,
        .request_bytes = play->failed->bytes,
        .unused_bytes = statistics->reserved.current - statistics->allocated.current,
        .largest_free_block_bytes = tpp_allocator_largest_free_block(play->allocator),
    };
}

/* Plays set-up and steps. `steps` (may be NULL) has room for num_steps; *num_steps becomes the number played. */
static enum tpp_code play_steps(struct tpp_play *play, bool until_steady, uint32_t *num_steps,
                                struct tpp_replay_step *steps, struct tpp_replay_failure *failure, struct tpp_error *err)
{
    const struct tpp_allocator_statistics *statistics = tpp_allocator_statistics(play->allocator);
    const uint32_t limit = *num_steps;
    *num_steps = 0;
    enum tpp_code code = tpp_play_step(play, true, err);
    note_failure(play, 0, failure);
    while (code == TPP_OK && play->failed == NULL && !play->is_past_limit && *num_steps < limit) {
        const uint64_t segments = statistics->num_device_allocations, retries = statistics->num_retries;
        tpp_allocator_reset_peaks(play->allocator);
        code = tpp_play_step(play, false, err);
        if (steps != NULL)
            steps[*num_steps] = (struct tpp_replay_step){statistics->allocated.peak, statistics->reserved.peak,
                                                         statistics->num_retries - retries};
        ++*num_steps;
        note_failure(play, *num_steps, failure);
        /* The optimizer's moments come after the first step: the second may still have to grow. */
        if (until_steady && *num_steps > 2 && statistics->num_device_allocations == segments)
            break;
    }
    return code;
}

static int compare_bytes(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* `peaks`, which becomes sorted, has one entry a step. */
static struct tpp_replay_distribution distribution_of(uint64_t *peaks, uint32_t num_steps)
{
    qsort(peaks, num_steps, sizeof(*peaks), compare_bytes);
    return (struct tpp_replay_distribution){.median_bytes = peaks[(num_steps + 1) / 2 - 1],
                                            .percentile_95_bytes = peaks[(95 * (uint64_t)num_steps + 99) / 100 - 1]};
}

static enum tpp_code find_distributions(struct tpp_replay *out, struct tpp_error *err)
{
    if (out->num_steps == 0)
        return TPP_OK;
    uint64_t *peaks = malloc(out->num_steps * sizeof(*peaks));
    if (peaks == NULL)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the peaks of a replay");
    for (uint32_t i = 0; i < out->num_steps; i++)
        peaks[i] = out->steps[i].peak_allocated_bytes;
    out->allocated = distribution_of(peaks, out->num_steps);
    for (uint32_t i = 0; i < out->num_steps; i++)
        peaks[i] = out->steps[i].peak_reserved_bytes;
    out->reserved = distribution_of(peaks, out->num_steps);
    free(peaks);
    return TPP_OK;
}

static void sum_up(const struct tpp_play *play, struct tpp_replay *out)
{
    const struct tpp_allocator_statistics *statistics = tpp_allocator_statistics(play->allocator);
    uint64_t late = 0;
    const uint32_t warm_up = out->num_steps > 2 ? 2 : 0;
    out->peak_allocated_bytes = statistics->allocated.peak; /* of set-up, when no step was played */
    out->peak_reserved_bytes = statistics->reserved.peak;
    for (uint32_t i = 0; i < out->num_steps; i++) {
        const struct tpp_replay_step *step = &out->steps[i];
        if (step->peak_allocated_bytes > out->peak_allocated_bytes)
            out->peak_allocated_bytes = step->peak_allocated_bytes;
        if (step->peak_reserved_bytes > out->peak_reserved_bytes)
            out->peak_reserved_bytes = step->peak_reserved_bytes;
        late += i >= warm_up ? step->num_retries : 0;
    }
    if (out->peak_reserved_bytes > 0)
        out->fragmentation_fraction =
            1 - (double)out->peak_allocated_bytes / (double)out->peak_reserved_bytes;
    out->peak_inactive_split_bytes = statistics->inactive_split.peak;
    out->largest_free_block_bytes = tpp_allocator_largest_free_block(play->allocator);
    out->num_retries = statistics->num_retries;
    out->num_allocations = statistics->num_allocations;
    if (out->num_steps > warm_up)
        out->retries_per_1000_steps = 1000.0 * (double)late / (out->num_steps - warm_up);
}

static enum tpp_code play_nominal(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                  const struct tpp_replay_options *options, struct tpp_replay *out,
                                  struct tpp_error *err)
{
    struct tpp_play play;
    const bool fixed = has_fixed_lengths(options);
    out->num_steps = fixed && options->num_steps > max_settling_steps ? max_settling_steps : options->num_steps;
    out->steps = calloc(out->num_steps, sizeof(*out->steps));
    if (out->steps == NULL)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the steps of a replay");
    enum tpp_code code = tpp_play_new(evaluator, strategy, options->stage, options, options->device_bytes, options->seed,
                                      &play, err);
    if (code != TPP_OK)
        return code;
    code = play_steps(&play, fixed, &out->num_steps, out->steps, &out->failure, err);
    if (code == TPP_OK)
        sum_up(&play, out);
    tpp_play_release(&play);
    return code == TPP_OK ? find_distributions(out, err) : code;
}

/* The normal quantile of (draw + 1/2) / num_draws, by bisection of the distribution function. */
static double quantile(uint32_t draw, uint32_t num_draws)
{
    const double wanted = (draw + 0.5) / num_draws;
    double low = -8, high = 8;
    for (int i = 0; i < 60; i++) {
        const double middle = 0.5 * (low + high);
        if (0.5 * erfc(-middle / sqrt(2)) < wanted)
            low = middle;
        else
            high = middle;
    }
    return 0.5 * (low + high);
}

/* Fixed lengths ask for the same in every draw: where the plan itself ran without a retry, a device with room for what it
 * reserved is enough, and one smaller than what it allocated is not. Only between the two there is something to replay. */
static bool is_known(const struct tpp_replay *nominal, uint64_t device_bytes, bool *runs_out)
{
    if (nominal->failure.happened || nominal->num_retries > 0)
        return false;
    *runs_out = device_bytes < nominal->peak_allocated_bytes;
    return *runs_out || device_bytes >= nominal->peak_reserved_bytes;
}

/* One draw: other lengths, on a device that is larger or smaller than the real one by what the walk may be off. */
static enum tpp_code draw_runs_out(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                   const struct tpp_replay_options *options, const struct tpp_replay *nominal,
                                   uint32_t draw, bool *runs_out, struct tpp_error *err)
{
    const double scale = exp(TPP_MEMORY_TOTAL_SIGMA * quantile(draw, options->num_draws));
    const uint64_t device_bytes = (uint64_t)(scale * (double)options->device_bytes);
    const bool fixed = has_fixed_lengths(options);
    struct tpp_replay_failure failure = {.happened = false};
    struct tpp_play play;
    uint32_t num_steps = fixed && options->num_steps > max_settling_steps ? max_settling_steps : options->num_steps;
    if (fixed && is_known(nominal, device_bytes, runs_out))
        return TPP_OK;
    enum tpp_code code = tpp_play_new(evaluator, strategy, options->stage, options, device_bytes,
                                      options->seed + 1 + draw, &play, err);
    if (code != TPP_OK)
        return code;
    code = play_steps(&play, fixed, &num_steps, NULL, &failure, err);
    tpp_play_release(&play);
    *runs_out = failure.happened;
    return code;
}

static enum tpp_code estimate_probability(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                          const struct tpp_replay_options *options, struct tpp_replay *out,
                                          struct tpp_error *err)
{
    uint32_t count = 0;
    enum tpp_code code = TPP_OK;
    out->out_of_memory_probability = out->failure.happened;
    for (uint32_t draw = 0; draw < options->num_draws && code == TPP_OK; draw++) {
        bool runs_out = false;
        code = draw_runs_out(evaluator, strategy, options, out, draw, &runs_out, err);
        count += runs_out;
    }
    out->num_draws = options->num_draws;
    if (options->num_draws > 0)
        out->out_of_memory_probability = (double)count / options->num_draws;
    return code;
}

enum tpp_code tpp_replay_plan(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                              const struct tpp_replay_options *options, struct tpp_replay *out, struct tpp_error *err)
{
    struct tpp_replay_options resolved = *options;
    uint64_t outside = 0;
    memset(out, 0, sizeof(*out));
    enum tpp_code code = tpp_replay_resolve(evaluator, strategy, &resolved, &outside, err);
    if (code == TPP_OK) {
        out->stage = resolved.stage;
        out->device_bytes = resolved.device_bytes;
        code = play_nominal(evaluator, strategy, &resolved, out, err);
    }
    if (code == TPP_OK)
        code = estimate_probability(evaluator, strategy, &resolved, out, err);
    if (code != TPP_OK) {
        tpp_replay_release(out);
        return code;
    }
    const double total = (double)(out->peak_reserved_bytes + outside);
    const double limit = TPP_MEMORY_TIGHT_FRACTION * (double)(resolved.device_bytes + outside);
    out->fit = out->failure.happened                                                          ? TPP_FIT_DOES_NOT_FIT
               : out->num_retries > 0 || total > limit || out->out_of_memory_probability >= tight_probability ? TPP_FIT_TIGHT
                                                                                              : TPP_FIT_FITS;
    return TPP_OK;
}

void tpp_replay_release(struct tpp_replay *replay)
{
    free(replay->steps);
    memset(replay, 0, sizeof(*replay));
}
