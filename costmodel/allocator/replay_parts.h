/* replay_parts.h - private to the replay and its export: one trace on one allocator. */
#ifndef TPP_COSTMODEL_ALLOCATOR_REPLAY_PARTS_H
#define TPP_COSTMODEL_ALLOCATOR_REPLAY_PARTS_H

#include "costmodel/allocator/replay.h"
#include "costmodel/allocator/replica.h"
#include "costmodel/allocator/trace.h"

struct tpp_play {
    struct tpp_tracer *tracer;       /* owned */
    struct tpp_allocator *allocator; /* owned */
    uint32_t *blocks;                /* owned: of each tensor */
    uint32_t capacity;
    const struct tpp_trace_event *event; /* being played; an allocator's watcher may look at it */
    const struct tpp_trace_event *failed; /* the request that found no memory, or NULL */
    uint64_t reserved_limit_bytes; /* UINT64_MAX: none */
    bool is_past_limit;            /* a step has reserved as much and was not played to its end */
};

/* `device_bytes`, `seed`: instead of the options' ones. On failure nothing is left to free. */
enum tpp_code tpp_play_new(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy, uint32_t stage,
                           const struct tpp_replay_options *options, uint64_t device_bytes, uint64_t seed,
                           struct tpp_play *out, struct tpp_error *err);
void tpp_play_release(struct tpp_play *play);
/* The next step, or (is_setup) what comes before the first: writes its events and plays them until one finds no memory, or
 * (but not in set-up) the limit is reserved. */
enum tpp_code tpp_play_step(struct tpp_play *play, bool is_setup, struct tpp_error *err);

/* Fills options->stage and device_bytes where they are left open; what the context and communicators take. */
enum tpp_code tpp_replay_resolve(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                 struct tpp_replay_options *options, uint64_t *outside_bytes, struct tpp_error *err);

#endif
