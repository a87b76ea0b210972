/* simulated_ranking.h - the short list of a search, in the order of its simulated steps
 * (costmodel/simulator/simulate.h).
 *
 * The search ranks by the closed forms, which do not see that transfers of different kinds meet on a link. Simulating
 * the few best plans does. Head-room goes first as in rank.h: a tight plan stays behind all that fit with room. */
#ifndef TPP_PLANNER_SIMULATED_RANKING_H
#define TPP_PLANNER_SIMULATED_RANKING_H

#include "planner/bucket_sizes.h"
#include "planner/search.h"

/* Steps that differ by less are the same: it is what simulation and estimate agree to where nothing contends. */
#define TPP_SIMULATED_RESOLUTION_FRACTION 1e-3

struct tpp_simulated_plan {
    struct tpp_plan plan;     /* the cost is the estimate; unchanged but for a bucket that was chosen */
    double simulated_seconds; /* of the step; the estimate when the step is too large to simulate */
    size_t estimated_index;   /* in the list that was given, 0 first */
    double bucket_gain_fraction; /* of the step, by the buckets chosen here instead of the defaults; 0: none was */
    bool has_chosen[TPP_BUCKET_COUNT];
    bool is_simulated;
};

/* Simulates `count` plans, best first as tpp_search_best gives them, into ranked[0 .. count-1]. Steps that differ by less
 * than 0.1 %, which is what simulation and estimate agree to, keep their order.
 * Buckets that a plan leaves to the framework get the simulated best of a few sizes (bucket_sizes.h) when it saves 0.1 % or
 * more. TPP_E_MEMORY and TPP_E_INTERNAL are the only failures; inputs are borrowed for the call. */
enum tpp_code tpp_simulated_ranking(const struct tpp_model *model, const struct tpp_hardware *hardware,
                                    const struct tpp_job *job, const struct tpp_stack *stack,
                                    double memory_headroom_fraction, const struct tpp_plan *plans, size_t count,
                                    struct tpp_simulated_plan *ranked, struct tpp_error *err);

/* Simulates one plan as it is. Failures as above. */
enum tpp_code tpp_simulated_step(const struct tpp_model *model, const struct tpp_hardware *hardware,
                                 const struct tpp_job *job, const struct tpp_stack *stack, const struct tpp_plan *plan,
                                 struct tpp_simulated_plan *out, struct tpp_error *err);

#endif
