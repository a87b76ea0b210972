/* walk.h - one thread's walk over cells of the space: costs groups, then the variants that could still matter.
 *
 * Two passes. The first costs the default variant of every group. The second costs the other variants, but not of a group
 * whose bound (bound.h) is above what the first pass found, nor of a cell of such groups: the finished lists of the first
 * pass decide, so what is costed does not depend on threads or steps. */
#ifndef TPP_PLANNER_WALK_H
#define TPP_PLANNER_WALK_H

#include "costmodel/evaluate.h"
#include "planner/rank.h"
#include "planner/search.h"
#include "planner/space.h"
#include "planner/validity.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum tpp_walk_pass { TPP_WALK_GROUPS, TPP_WALK_VARIANTS, TPP_WALK_DONE };

/* What all walks of one search share; constant while they run, but for the counter. */
struct tpp_walk_plan {
    const struct tpp_space *space;
    bool exhaustive;
    double headroom_fraction;
    enum tpp_walk_pass pass;
    atomic_size_t next_cell;              /* cells are handed out in order */
    struct tpp_ranking *best, *nearest;   /* of the finished first pass */
    struct tpp_bound *cell_bounds;        /* least of the groups of a cell; written by the first pass */
};

struct tpp_walk {
    struct tpp_walk_plan *plan;
    struct tpp_evaluator *evaluator; /* owned */
    struct tpp_validity validity;
    struct tpp_ranking *best, *nearest; /* owned */
    struct tpp_search_counts counts;
    bool is_in_cell, is_finished;       /* of the current pass */
    size_t cell_index;
    struct tpp_space_cell cell;
    uint64_t group;
    uint32_t variant;                   /* next of the group; 0: the group is not begun */
    struct tpp_strategy strategy;       /* of the group */
    enum tpp_code code;
    struct tpp_error err;
};

/* Looks at up to `budget` candidates; sets is_finished when no cell is left, or code and err. */
void tpp_walk_run(struct tpp_walk *walk, uint64_t budget);
/* Starts the next pass. */
void tpp_walk_restart(struct tpp_walk *walk);
void tpp_walk_release(struct tpp_walk *walk);

#endif
