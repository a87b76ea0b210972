/* advise.h - why the first plan wins, what binds it, and what to say when no plan fits or none is valid. */
#ifndef TPP_PLANNER_ADVISE_H
#define TPP_PLANNER_ADVISE_H

#include "costmodel/evaluate.h"
#include "planner/search.h"
#include "planner/simulated_ranking.h"
#include "planner/space.h"

#include <stdbool.h>
#include <stddef.h>

/* What the time of a step is spent on. */
enum tpp_binding {
    TPP_BINDING_COMPUTE, /* GEMMs, attention, embedding and head, recomputation */
    TPP_BINDING_MEMORY,  /* memory-bound kernels and the optimizer: bandwidth of the device memory */
    TPP_BINDING_NETWORK, /* exposed communication of every kind */
    TPP_BINDING_BUBBLE,  /* waiting for the pipeline to fill and drain */
    TPP_BINDING_HOST,    /* launches, offload, fixed cost of a step */
    TPP_BINDING_COUNT,
};

struct tpp_reasons {
    double fractions[TPP_BINDING_COUNT]; /* of the winner's step; they sum to 1 */
    enum tpp_binding binding;            /* the largest of them */
    enum tpp_binding loss;               /* the largest but compute: where a better plan would have to gain */
    double device_memory_fraction;       /* used share of the capacity */
    char winner[256];                    /* one sentence: lower case, no full stop */
    bool has_runner_up;
    double runner_up_loss_seconds;       /* step time above the winner's; negative for a tight plan that is faster */
    double runner_up_loss_fraction;
    enum tpp_time_term runner_up_term;   /* leaf in which it loses most */
    double runner_up_term_seconds;
    char runner_up[256];
    size_t num_equal;                    /* plans that cannot be told apart from the winner, itself included; 1 = it alone */
    char equal[256];                     /* the sentence about them; "" when the winner is alone */
};

/* Steps predicted nearer to each other than this are one answer: of 258 published pairs of plans of one job whose
 * predictions lie so close, 59 % came in the measured order, little more than a coin would give (docs/validation.md). */
#define TPP_EQUAL_STEP_FRACTION 0.03

/* `plans`: the best plans of a search, `count` at least 1; `simulated`: the same, when that made their order, or NULL. */
void tpp_reasons_find(const struct tpp_plan *plans, const struct tpp_simulated_plan *simulated, size_t count,
                      struct tpp_reasons *reasons);

struct tpp_shortage {
    double missing_bytes;
    enum tpp_memory_term largest_term;
    double largest_bytes;
    char sentence[256];
};

/* `nearest`: the plan that misses memory by least. */
void tpp_shortage_find(const struct tpp_plan *nearest, double headroom_fraction, struct tpp_shortage *shortage);

/* Why a search found no valid strategy: takes the pins (every other size 1) as one strategy and says what refuses it.
 * Always fills *err and returns its code, TPP_E_STRATEGY unless the limits themselves are out of range. */
enum tpp_code tpp_no_valid_plan(const struct tpp_model *model, const struct tpp_hardware *hardware,
                                const struct tpp_job *job, const struct tpp_stack *stack,
                                const struct tpp_space_limits *limits, struct tpp_error *err);

const char *tpp_binding_name(enum tpp_binding binding); /* "compute", "memory", "network", "bubble", "host" */
/* "tp 8, pp 4, dp 2, mbs 1, ZeRO 1, full recomputation": sizes above 1 and what is switched on. Returns `buffer`. */
char *tpp_layout_words(char *buffer, size_t size, const struct tpp_strategy *strategy);

#endif
