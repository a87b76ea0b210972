/* search.h - walks the space of strategies of one job and keeps the best distinct plans.
 *
 * Long work is new / step / result / free: the caller keeps progress, time limit and Ctrl-C in its own hands. */
#ifndef TPP_PLANNER_SEARCH_H
#define TPP_PLANNER_SEARCH_H

#include "costmodel/evaluate.h"
#include "planner/space.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tpp_plan {
    struct tpp_strategy strategy;
    struct tpp_cost cost;
};

struct tpp_search_counts {
    uint64_t enumerated; /* strategies that the axes make */
    uint64_t valid;      /* accepted by tpp_strategy_check and the framework's rules */
    uint64_t costed;     /* of the valid ones, those whose full cost was computed */
    uint64_t fitting;    /* of the costed ones */
};

struct tpp_search; /* opaque */

/* All inputs are borrowed and must outlive the search. On success the caller owns *out. */
enum tpp_code tpp_search_new(const struct tpp_model *model, const struct tpp_hardware *hardware,
                             const struct tpp_job *job, const struct tpp_stack *stack,
                             const struct tpp_space_limits *limits, struct tpp_search **out, struct tpp_error *err);
/* Costs up to `max_candidates` more; sets *done when none are left. The result after *done does not depend on the number
 * of threads or on how the work was cut into steps. */
enum tpp_code tpp_search_step(struct tpp_search *search, uint64_t max_candidates, bool *done, struct tpp_error *err);
/* The best distinct plans, best first: of the plans that differ in settings alone (rank.h: micro-batch, interleaving, kind
 * of context parallelism, bucket sizes, ...) the best is listed. Borrowed until the next step or free. */
const struct tpp_plan *tpp_search_best(const struct tpp_search *search, size_t *count);
/* Plans that miss memory by least, least missing first: what to say when nothing fits. Empty as soon as one fits. */
const struct tpp_plan *tpp_search_nearest(const struct tpp_search *search, size_t *count);
struct tpp_search_counts tpp_search_counts(const struct tpp_search *search);
void tpp_search_free(struct tpp_search *search); /* NULL is fine */

#endif
