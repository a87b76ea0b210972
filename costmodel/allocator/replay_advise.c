/* Which setting of the allocator helps a plan: found by replaying it with each. */
#include "costmodel/allocator/replay.h"

#include <stdlib.h>
#include <string.h>

/* Worth trying: the ranges that published advice and the allocator's documentation name. Garbage collection needs a limit
 * on the process's memory, so the two come together. */
static const char *const candidates[] = {
    "",
    "expandable_segments:True",
    "max_split_size_mb:128",
    "max_split_size_mb:512",
    "garbage_collection_threshold:0.8,per_process_memory_fraction:0.95",
    "roundup_power2_divisions:8",
};
#define NUM_CANDIDATES (sizeof(candidates) / sizeof(candidates[0]))
_Static_assert(NUM_CANDIDATES < TPP_REPLAY_MAX_ADVICE, "room for the given setting too");

static int compare_advice(const void *a, const void *b)
{
    const struct tpp_replay_advice *left = a, *right = b;
    if (left->runs_out != right->runs_out)
        return left->runs_out ? 1 : -1;
    if (left->retries_per_1000_steps != right->retries_per_1000_steps)
        return left->retries_per_1000_steps < right->retries_per_1000_steps ? -1 : 1;
    if (left->peak_reserved_bytes != right->peak_reserved_bytes)
        return left->peak_reserved_bytes < right->peak_reserved_bytes ? -1 : 1;
    const size_t lengths[2] = {strlen(left->text), strlen(right->text)};
    return lengths[0] != lengths[1] ? (lengths[0] < lengths[1] ? -1 : 1) : strcmp(left->text, right->text);
}

static enum tpp_code try_setting(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                 const struct tpp_replay_options *options, struct tpp_replay_advice *advice,
                                 struct tpp_error *err)
{
    struct tpp_replay_options with = *options;
    struct tpp_replay replay;
    with.settings = advice->settings;
    with.num_draws = 0;
    const enum tpp_code code = tpp_replay_plan(evaluator, strategy, &with, &replay, err);
    if (code != TPP_OK)
        return code;
    advice->peak_reserved_bytes = replay.peak_reserved_bytes;
    advice->retries_per_1000_steps = replay.retries_per_1000_steps;
    advice->runs_out = replay.failure.happened;
    tpp_replay_release(&replay);
    return TPP_OK;
}

/* The given setting first, then the candidates that differ from it. */
static enum tpp_code list_settings(const struct tpp_allocator_settings *given, struct tpp_replay_advice *out,
                                   uint32_t *count, struct tpp_error *err)
{
    struct tpp_text text;
    tpp_text_init(&text);
    tpp_allocator_settings_format(given, &text);
    *count = 0;
    out[*count] = (struct tpp_replay_advice){.settings = *given};
    strncpy(out[(*count)++].text, tpp_text_get(&text), sizeof out->text - 1);
    enum tpp_code code =
        tpp_text_failed(&text) ? tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the advice") : TPP_OK;
    for (size_t i = 0; i < NUM_CANDIDATES && code == TPP_OK; i++) {
        if (strcmp(candidates[i], tpp_text_get(&text)) == 0)
            continue;
        out[*count] = (struct tpp_replay_advice){.runs_out = false};
        strncpy(out[*count].text, candidates[i], sizeof out->text - 1);
        code = tpp_allocator_settings_parse(candidates[i], &out[(*count)++].settings, err);
    }
    tpp_text_release(&text);
    return code;
}

enum tpp_code tpp_replay_advise(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                const struct tpp_replay_options *options, struct tpp_replay_advice *out, uint32_t *count,
                                struct tpp_error *err)
{
    enum tpp_code code = list_settings(&options->settings, out, count, err);
    for (uint32_t i = 0; i < *count && code == TPP_OK; i++)
        code = try_setting(evaluator, strategy, options, &out[i], err);
    if (code == TPP_OK)
        qsort(out, *count, sizeof(*out), compare_advice);
    return code;
}
