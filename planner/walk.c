#include "planner/walk.h"

#include "planner/bound.h"

#include <math.h>

/* Costs a candidate. False when it cannot be run (the evaluator checks it) or on an error. */
static bool cost(struct tpp_walk *walk, const struct tpp_strategy *strategy, struct tpp_plan *plan)
{
    struct tpp_error err;
    plan->strategy = *strategy;
    const enum tpp_code code = tpp_evaluator_cost(walk->evaluator, strategy, &plan->cost, &err);
    if (code != TPP_OK && code != TPP_E_STRATEGY && code != TPP_E_UNSUPPORTED) {
        walk->code = code;
        walk->err = err;
    }
    return code == TPP_OK;
}

static void keep(struct tpp_walk *walk, const struct tpp_plan *plan)
{
    walk->counts.costed++;
    walk->counts.fitting += tpp_rank_class(&plan->cost.memory, walk->plan->headroom_fraction) != TPP_RANK_DOES_NOT_FIT;
    tpp_ranking_offer(walk->best, plan);
    tpp_ranking_offer(walk->nearest, plan);
}

/* The least of each value: not above the bound of any group in any order. */
static void lower_cell_bound(struct tpp_walk *walk, const struct tpp_cost *default_cost)
{
    const struct tpp_bound bound = tpp_bound_of_variants(default_cost, walk->plan->headroom_fraction);
    struct tpp_bound *least = &walk->plan->cell_bounds[walk->cell_index];
    least->rank_class = bound.rank_class < least->rank_class ? bound.rank_class : least->rank_class;
    least->missing_bytes = fmin(bound.missing_bytes, least->missing_bytes);
    least->step_seconds = fmin(bound.step_seconds, least->step_seconds);
}

static void cost_group(struct tpp_walk *walk)
{
    struct tpp_strategy strategy;
    struct tpp_plan plan;
    if (!tpp_space_group(walk->plan->space, &walk->cell, walk->group++, &strategy)) {
        return;
    }
    const uint32_t num_variants = tpp_space_num_variants(walk->plan->space, &strategy);
    walk->counts.enumerated += num_variants;
    if (tpp_validity_accepts(&walk->validity, &strategy) && cost(walk, &strategy, &plan)) {
        walk->counts.valid += num_variants;
        keep(walk, &plan);
        if (num_variants > 1) {
            lower_cell_bound(walk, &plan.cost);
        }
    }
}

/* The lists of the first pass are full of better plans than any variant can become. What misses memory by least matters
 * only when nothing fits. */
static bool is_hopeless(const struct tpp_walk_plan *plan, const struct tpp_bound *bound)
{
    return !plan->exhaustive && tpp_ranking_excludes(plan->best, bound) &&
           (tpp_ranking_count(plan->best) > 0 || tpp_ranking_excludes(plan->nearest, bound));
}

/* True when the variants of the next group are worth costing. */
static bool begin_variants(struct tpp_walk *walk)
{
    struct tpp_plan plan;
    if (!tpp_space_group(walk->plan->space, &walk->cell, walk->group, &walk->strategy) ||
        tpp_space_num_variants(walk->plan->space, &walk->strategy) == 1 ||
        !tpp_validity_accepts(&walk->validity, &walk->strategy) || !cost(walk, &walk->strategy, &plan)) {
        return false;
    }
    const struct tpp_bound bound = tpp_bound_of_variants(&plan.cost, walk->plan->headroom_fraction);
    return !is_hopeless(walk->plan, &bound);
}

static void cost_variant(struct tpp_walk *walk)
{
    if (walk->variant == 0) {
        if (begin_variants(walk)) {
            walk->variant = 1;
        } else {
            walk->group++;
        }
        return;
    }
    struct tpp_strategy strategy = walk->strategy;
    struct tpp_plan plan;
    const uint32_t num_variants = tpp_space_num_variants(walk->plan->space, &walk->strategy);
    tpp_space_set_variant(walk->plan->space, walk->variant, &strategy);
    if (cost(walk, &strategy, &plan)) {
        keep(walk, &plan);
    }
    if (++walk->variant == num_variants) {
        walk->variant = 0;
        walk->group++;
    }
}

/* Moves to the next cell worth walking; false when none is left. */
static bool enter_cell(struct tpp_walk *walk)
{
    static const struct tpp_bound none = {TPP_RANK_DOES_NOT_FIT, INFINITY, INFINITY};
    struct tpp_walk_plan *plan = walk->plan;
    size_t index;
    do {
        index = atomic_fetch_add(&plan->next_cell, 1);
        if (index >= tpp_space_num_cells(plan->space)) {
            return false;
        }
    } while (plan->pass == TPP_WALK_VARIANTS && is_hopeless(plan, &plan->cell_bounds[index]));
    if (plan->pass == TPP_WALK_GROUPS) {
        plan->cell_bounds[index] = none;
    }
    walk->cell_index = index;
    tpp_space_cell(plan->space, index, &walk->cell);
    walk->group = 0;
    walk->variant = 0;
    return true;
}

void tpp_walk_run(struct tpp_walk *walk, uint64_t budget)
{
    for (; budget > 0 && walk->code == TPP_OK && !walk->is_finished; budget--) {
        if (!walk->is_in_cell) {
            walk->is_in_cell = enter_cell(walk);
            walk->is_finished = !walk->is_in_cell;
        } else if (walk->group == walk->cell.num_groups) {
            walk->is_in_cell = false;
        } else if (walk->plan->pass == TPP_WALK_GROUPS) {
            cost_group(walk);
        } else {
            cost_variant(walk);
        }
    }
}

void tpp_walk_restart(struct tpp_walk *walk)
{
    walk->is_in_cell = walk->is_finished = false;
}

void tpp_walk_release(struct tpp_walk *walk)
{
    tpp_evaluator_free(walk->evaluator);
    tpp_ranking_free(walk->best);
    tpp_ranking_free(walk->nearest);
}
