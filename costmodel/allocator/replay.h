/* replay.h - a plan's steps played through the allocator: what it reserves, how fragmented it is, whether it runs out.
 *
 * The entry point for (evaluator, strategy, options). The trace (trace.h) says what a rank allocates and frees, the replica
 * (replica.h) where PyTorch puts it. Pure: the same inputs and seed give the same bits.
 *
 *     struct tpp_replay_options options = tpp_replay_defaults();
 *     struct tpp_replay replay;
 *     code = tpp_replay_plan(evaluator, &strategy, &options, &replay, err);
 *     ... replay.peak_reserved_bytes, replay.fit, replay.failure ...
 *     tpp_replay_release(&replay);
 */
#ifndef TPP_COSTMODEL_ALLOCATOR_REPLAY_H
#define TPP_COSTMODEL_ALLOCATOR_REPLAY_H

#include "costmodel/allocator/lengths.h"
#include "costmodel/allocator/settings.h"
#include "costmodel/base/text.h"
#include "costmodel/evaluate.h"

#include <stdbool.h>
#include <stdint.h>

#define TPP_REPLAY_WORST_STAGE UINT32_MAX

struct tpp_replay_options {
    struct tpp_allocator_settings settings;
    const struct tpp_lengths *lengths; /* NULL: fixed; borrowed */
    bool packing;                      /* sequences are packed to the job's length: no lengths to vary */
    uint64_t seed;
    uint32_t stage;                    /* TPP_REPLAY_WORST_STAGE: where the memory walk peaks */
    uint32_t num_steps;                /* variable lengths; fixed ones stop once a step changes nothing. 1 .. 1000000 */
    uint32_t num_draws;                /* replays that the probability is made of; 0: none, the probability is 0 or 1 */
    uint64_t device_bytes;             /* for the allocator; 0: the card less context and communicators */
    uint64_t reserved_limit_bytes;     /* a step that reserves as much ends the replay: more need not be known; 0: none */
};
/* PyTorch's defaults, fixed lengths, seed 1, worst stage, 50 steps, 8 draws. */
struct tpp_replay_options tpp_replay_defaults(void);

struct tpp_replay_step {
    uint64_t peak_allocated_bytes, peak_reserved_bytes;
    uint64_t num_retries;
};

/* Peaks of the steps, by nearest rank: the least that half of them, and that 95 of 100 do not pass. */
struct tpp_replay_distribution {
    uint64_t median_bytes, percentile_95_bytes;
};

struct tpp_replay_failure { /* the request that ran out of memory */
    bool happened;
    uint32_t step, micro_batch, layer; /* step 0: at set-up; layer UINT32_MAX: outside the layers */
    const char *tensor;                /* static text */
    uint64_t request_bytes;
    uint64_t unused_bytes;             /* reserved but not allocated at that moment: what fragmentation took */
    uint64_t largest_free_block_bytes;
};

struct tpp_replay {
    uint32_t stage;
    uint64_t device_bytes;              /* what the allocator could have */
    uint64_t peak_allocated_bytes, peak_reserved_bytes;
    struct tpp_replay_distribution allocated, reserved; /* of the steps' peaks; 0 when none was played */
    double fragmentation_fraction;      /* (reserved - allocated) / reserved, of the peaks */
    uint64_t peak_inactive_split_bytes; /* of the last step: free parts of segments in use, which no cache can return */
    uint64_t largest_free_block_bytes;  /* at the end */
    uint64_t num_retries;
    double retries_per_1000_steps;      /* after the first two steps, when there are more */
    double out_of_memory_probability;   /* share of draws that run out: other lengths, and a walk that is off by its error */
    enum tpp_fit fit;                   /* tight: it retries, or nears the card's end, or one draw in twenty runs out */
    struct tpp_replay_failure failure;
    uint64_t num_allocations;
    uint32_t num_draws;                 /* that the probability is made of; 0: of the replay itself */
    uint32_t num_steps;                 /* played: up to a failure, or (fixed lengths) the steady state */
    struct tpp_replay_step *steps;      /* owned */
};

/* TPP_E_STRATEGY when the plan cannot be run, TPP_E_UNSUPPORTED with vocabulary parallelism and for backend:cudaMallocAsync. Out of device
 * memory is an answer (replay->failure). On success the caller releases *out. */
enum tpp_code tpp_replay_plan(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                              const struct tpp_replay_options *options, struct tpp_replay *out, struct tpp_error *err);
void tpp_replay_release(struct tpp_replay *replay);

#define TPP_REPLAY_MAX_ADVICE 8
struct tpp_replay_advice {
    struct tpp_allocator_settings settings;
    char text[96];                      /* the value of PYTORCH_CUDA_ALLOC_CONF; "" is the plain allocator */
    const char *since;                  /* first release of PyTorch that knows all of it; NULL: all of 2.x. Static */
    uint64_t peak_allocated_bytes, peak_reserved_bytes;
    double retries_per_1000_steps;
    bool runs_out;
};
/* Replays the plan with each setting that may help, and with the given one. Sorted: those that run first, then fewer
 * retries, then fewer reserved bytes, then the shorter text. `out` has room for TPP_REPLAY_MAX_ADVICE. */
enum tpp_code tpp_replay_advise(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                const struct tpp_replay_options *options, struct tpp_replay_advice *out, uint32_t *count,
                                struct tpp_error *err);
/* True when a setting is worth a word: it runs where the other does not, retries less, or reserves 2 % less and retries no
 * more. */
bool tpp_replay_advice_helps(const struct tpp_replay_advice *with, const struct tpp_replay_advice *without);

/* Puts what was replayed into a plan's memory: reserve, totals, probability and verdict. The allocated peak stays the
 * walk's, and so does its reserve when the replay has less: what kernels take for a moment is in the published runs that
 * the reserve comes from, but not in the trace. A plan that retries is tight at best; one that runs out does not fit. */
void tpp_replay_apply(const struct tpp_replay_advice *replayed, struct tpp_memory *memory);
/* The short way for a list of plans: replays with the options' settings and, when these leave fragmentation or retries,
 * with one setting after another until none is left (the rest of the list cannot save anything then; only those that every
 * PyTorch 2 knows, since a script sets it). `memory` becomes that of the best, alloc_conf its setting when it helps. `given`
 * (may be NULL): the text of the options' settings, when the user named them: nothing else is tried, and alloc_conf is that
 * text. What cannot be replayed leaves the walk's figures. No draws are made: the probability is the walk's, of the replayed
 * total. */
enum tpp_code tpp_replay_choose(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                const struct tpp_replay_options *options, const char *given, struct tpp_memory *memory,
                                struct tpp_error *err);

#endif
