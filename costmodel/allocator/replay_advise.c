/* Which setting of the allocator helps a plan: found by replaying it with each. */
#include "costmodel/allocator/replay.h"

#include "costmodel/memory_walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Worth trying: the ranges that published advice and the allocator's documentation name. Garbage collection needs a limit
 * on the process's memory, so the two come together; as an option, that limit is new (PyTorch pull request 161035), and an
 * older allocator stops at a name that it does not know. */
static const struct candidate {
    const char *text;
    const char *since; /* release of PyTorch; NULL: all of 2.x */
} candidates[] = {
    {"", NULL},
    {"expandable_segments:True", NULL},
    {"max_split_size_mb:128", NULL},
    {"max_split_size_mb:512", NULL},
    {"garbage_collection_threshold:0.8,per_process_memory_fraction:0.95", "2.10"},
    {"roundup_power2_divisions:8", NULL},
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
    advice->peak_allocated_bytes = replay.peak_allocated_bytes;
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
        if (strcmp(candidates[i].text, tpp_text_get(&text)) == 0)
            continue;
        out[*count] = (struct tpp_replay_advice){.since = candidates[i].since};
        strncpy(out[*count].text, candidates[i].text, sizeof out->text - 1);
        code = tpp_allocator_settings_parse(candidates[i].text, &out[(*count)++].settings, err);
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

/* Share of the reserved bytes below which a difference is not worth a word. */
static const double worth_saving = 0.02;

bool tpp_replay_advice_helps(const struct tpp_replay_advice *with, const struct tpp_replay_advice *without)
{
    if (with->runs_out || (!without->runs_out && with->retries_per_1000_steps > without->retries_per_1000_steps))
        return false;
    return without->runs_out || with->retries_per_1000_steps < without->retries_per_1000_steps ||
           (double)with->peak_reserved_bytes < (1 - worth_saving) * (double)without->peak_reserved_bytes;
}

/* Reserved bytes from which on another setting cannot help any more; 0: none, it may save retries. */
static uint64_t helpful_limit(const struct tpp_replay_advice *without)
{
    return without->runs_out || without->retries_per_1000_steps > 0
               ? 0
               : (uint64_t)ceil((1 - worth_saving) * (double)without->peak_reserved_bytes);
}

/* No setting can save more than what is reserved and not allocated. */
static bool leaves_nothing_to_save(const struct tpp_replay_advice *advice)
{
    return !advice->runs_out && advice->retries_per_1000_steps <= 0 &&
           (double)advice->peak_allocated_bytes >= (1 - worth_saving) * (double)advice->peak_reserved_bytes;
}

void tpp_replay_apply(const struct tpp_replay_advice *replayed, struct tpp_memory *memory)
{
    const double outside = memory->device_total_bytes - memory->peak_reserved_bytes;
    memory->replayed_allocated_bytes = (double)replayed->peak_allocated_bytes;
    memory->replayed_reserved_bytes = (double)replayed->peak_reserved_bytes;
    memory->unset_reserved_bytes = memory->replayed_reserved_bytes;
    memory->peak_reserved_bytes = fmax(memory->peak_reserved_bytes, memory->replayed_reserved_bytes);
    memory->terms[TPP_MEMORY_RESERVE] = memory->peak_reserved_bytes - memory->peak_allocated_bytes;
    memory->device_total_bytes = memory->peak_reserved_bytes + outside;
    memory->retries_per_1000_steps = replayed->retries_per_1000_steps;
    memory->is_replayed = true;
    tpp_walk_verdict(memory);
    if (replayed->runs_out) { /* as likely as not: the walk errs to both sides */
        memory->fit = TPP_FIT_DOES_NOT_FIT;
        memory->out_of_memory_probability = fmax(memory->out_of_memory_probability, 0.5);
    } else if (replayed->retries_per_1000_steps > 0 && memory->fit == TPP_FIT_FITS) {
        memory->fit = TPP_FIT_TIGHT;
    }
}

static enum tpp_code choose(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                            const struct tpp_replay_options *options, const char *given, struct tpp_memory *memory,
                            struct tpp_error *err)
{
    struct tpp_replay_advice first = {.settings = options->settings}, best;
    struct tpp_replay_options limited = *options;
    const char *setting = given;
    enum tpp_code code = try_setting(evaluator, strategy, options, &first, err);
    best = first;
    for (size_t i = 1; i < NUM_CANDIDATES && code == TPP_OK && given == NULL && !leaves_nothing_to_save(&best); i++) {
        struct tpp_replay_advice next = {.runs_out = false};
        if (candidates[i].since != NULL) /* the launch script would stop where PyTorch is older */
            continue;
        code = tpp_allocator_settings_parse(candidates[i].text, &next.settings, err);
        limited.reserved_limit_bytes = helpful_limit(&best);
        if (code == TPP_OK)
            code = try_setting(evaluator, strategy, &limited, &next, err);
        if (code == TPP_OK && tpp_replay_advice_helps(&next, &best)) {
            best = next;
            setting = candidates[i].text;
        }
    }
    if (code != TPP_OK)
        return code;
    tpp_replay_apply(&best, memory);
    memory->unset_reserved_bytes = (double)first.peak_reserved_bytes;
    memory->alloc_conf = setting;
    return TPP_OK;
}

enum tpp_code tpp_replay_choose(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                const struct tpp_replay_options *options, const char *given, struct tpp_memory *memory,
                                struct tpp_error *err)
{
    struct tpp_error fault = {.code = TPP_OK};
    const enum tpp_code code = choose(evaluator, strategy, options, given, memory, &fault);
    if (code == TPP_E_UNSUPPORTED) { /* vocabulary passes, the driver's own pool */
        memory->alloc_conf = given;
        return TPP_OK;
    }
    if (code != TPP_OK && err != NULL)
        *err = fault;
    return code;
}
