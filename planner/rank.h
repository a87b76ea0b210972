/* rank.h - which plan is better, when two plans are one choice, and a bounded list of the best. */
#ifndef TPP_PLANNER_RANK_H
#define TPP_PLANNER_RANK_H

#include "costmodel/evaluate.h"
#include "planner/search.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Plans that fit with head-room come before tight ones; plans that do not fit are not ranked. */
enum tpp_rank_class { TPP_RANK_FITS, TPP_RANK_TIGHT, TPP_RANK_DOES_NOT_FIT };

/* `headroom_fraction`: share of the capacity that must stay free whatever `fit` says. */
enum tpp_rank_class tpp_rank_class(const struct tpp_memory *memory, double headroom_fraction);
/* Bytes above what a plan may use: 0 when it fits. A plan that is refused although it is below capacity (reserved memory
 * close to it) misses at least one byte. */
double tpp_rank_missing_bytes(const struct tpp_memory *memory, double headroom_fraction);

/* True when two strategies have the same parallel sizes, the same sharding and both or neither recompute whole layers: one
 * choice for a person, of which only the best is listed. Micro-batch, interleaving, layer split, kind of context
 * parallelism, bucket sizes, overlap switches, depth of recomputation and offload are its settings. */
bool tpp_rank_same_choice(const struct tpp_strategy *a, const struct tpp_strategy *b);

enum tpp_rank_order {
    TPP_RANK_BEST,    /* class, step time, strategy order; plans that do not fit are left out */
    TPP_RANK_NEAREST, /* missing bytes, step time, strategy order; plans that fit are left out */
};

struct tpp_ranking; /* opaque: the first `capacity` distinct choices offered, in order */

/* The caller owns the result (tpp_ranking_free); NULL when out of memory. */
struct tpp_ranking *tpp_ranking_new(enum tpp_rank_order order, uint32_t capacity, double headroom_fraction);
void tpp_ranking_free(struct tpp_ranking *ranking); /* NULL is fine */
/* What is kept does not depend on the order in which plans are offered. Allocates nothing. */
void tpp_ranking_offer(struct tpp_ranking *ranking, const struct tpp_plan *plan);
void tpp_ranking_merge(struct tpp_ranking *into, const struct tpp_ranking *from);
size_t tpp_ranking_count(const struct tpp_ranking *ranking);
/* Plan `index` of the order, 0 first. Valid until the next offer or merge. */
const struct tpp_plan *tpp_ranking_at(const struct tpp_ranking *ranking, size_t index);

/* The least that any variant of a group can reach (bound.h), or a plan's own values. */
struct tpp_bound {
    enum tpp_rank_class rank_class;
    double missing_bytes;
    double step_seconds;
};

/* True when nothing at or above `bound` can enter: the list is full and its last plan is strictly better. */
bool tpp_ranking_excludes(const struct tpp_ranking *ranking, const struct tpp_bound *bound);

#endif
