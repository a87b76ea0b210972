/* bound.h - what the variants of a group can reach at best, from the cost of one of them. */
#ifndef TPP_PLANNER_BOUND_H
#define TPP_PLANNER_BOUND_H

#include "costmodel/evaluate.h"
#include "planner/rank.h"

/* Variants of a group (planner/space.h) differ in bucket sizes and in what overlaps with data-parallel traffic. In time
 * these move nothing but the exposed gradient and shard communication; in memory nothing but buckets, gathered copies,
 * the gradients' buffers and what is reserved in proportion. So no variant is below this one without those terms.
 * Checked by tests/property/property_variants.c against the costs of all variants of random groups. */
struct tpp_bound tpp_bound_of_variants(const struct tpp_cost *cost, double headroom_fraction);

#endif
