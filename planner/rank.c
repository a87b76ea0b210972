#include "planner/rank.h"

#include <stdlib.h>

struct tpp_ranking {
    enum tpp_rank_order order;
    double headroom_fraction;
    uint32_t capacity, count;
    struct tpp_plan *plans; /* in no order; the rows of `sorted` point into it */
    uint32_t *sorted;       /* indices of plans, best first */
};

enum tpp_rank_class tpp_rank_class(const struct tpp_memory *memory, double headroom_fraction)
{
    if (memory->fit == TPP_FIT_DOES_NOT_FIT ||
        memory->device_total_bytes > memory->capacity_bytes * (1 - headroom_fraction)) {
        return TPP_RANK_DOES_NOT_FIT;
    }
    return memory->fit == TPP_FIT_TIGHT ? TPP_RANK_TIGHT : TPP_RANK_FITS;
}

double tpp_rank_missing_bytes(const struct tpp_memory *memory, double headroom_fraction)
{
    if (tpp_rank_class(memory, headroom_fraction) != TPP_RANK_DOES_NOT_FIT) {
        return 0;
    }
    const double missing = memory->device_total_bytes - memory->capacity_bytes * (1 - headroom_fraction);
    return missing > 1 ? missing : 1;
}

bool tpp_rank_same_choice(const struct tpp_strategy *a, const struct tpp_strategy *b)
{
    return a->tensor_parallel == b->tensor_parallel && a->pipeline_parallel == b->pipeline_parallel &&
           a->context_parallel == b->context_parallel && a->expert_parallel == b->expert_parallel &&
           a->expert_tensor_parallel == b->expert_tensor_parallel && a->data_parallel == b->data_parallel &&
           a->zero_stage == b->zero_stage && a->shard_group == b->shard_group &&
           (a->recompute == TPP_RECOMPUTE_FULL) == (b->recompute == TPP_RECOMPUTE_FULL);
}

struct tpp_ranking *tpp_ranking_new(enum tpp_rank_order order, uint32_t capacity, double headroom_fraction)
{
    struct tpp_ranking *ranking = calloc(1, sizeof *ranking);
    if (ranking == NULL) {
        return NULL;
    }
    ranking->order = order;
    ranking->headroom_fraction = headroom_fraction;
    ranking->capacity = capacity;
    ranking->plans = calloc(capacity, sizeof *ranking->plans);
    ranking->sorted = calloc(capacity, sizeof *ranking->sorted);
    if (ranking->plans == NULL || ranking->sorted == NULL) {
        tpp_ranking_free(ranking);
        return NULL;
    }
    return ranking;
}

void tpp_ranking_free(struct tpp_ranking *ranking)
{
    if (ranking != NULL) {
        free(ranking->plans);
        free(ranking->sorted);
        free(ranking);
    }
}

static struct tpp_bound value_of(const struct tpp_ranking *ranking, const struct tpp_plan *plan)
{
    return (struct tpp_bound){
        .rank_class = tpp_rank_class(&plan->cost.memory, ranking->headroom_fraction),
        .missing_bytes = tpp_rank_missing_bytes(&plan->cost.memory, ranking->headroom_fraction),
        .step_seconds = plan->cost.step_seconds,
    };
}

static int compare_numbers(double a, double b)
{
    return (a > b) - (a < b);
}

static int compare_values(enum tpp_rank_order order, const struct tpp_bound *a, const struct tpp_bound *b)
{
    if (order == TPP_RANK_BEST && a->rank_class != b->rank_class) {
        return a->rank_class < b->rank_class ? -1 : 1;
    }
    if (order == TPP_RANK_NEAREST && a->missing_bytes != b->missing_bytes) {
        return compare_numbers(a->missing_bytes, b->missing_bytes);
    }
    return compare_numbers(a->step_seconds, b->step_seconds);
}

static int compare_plans(const struct tpp_ranking *ranking, const struct tpp_plan *a, const struct tpp_plan *b)
{
    const struct tpp_bound left = value_of(ranking, a), right = value_of(ranking, b);
    const int values = compare_values(ranking->order, &left, &right);
    return values != 0 ? values : tpp_strategy_compare(&a->strategy, &b->strategy);
}

static bool belongs(const struct tpp_ranking *ranking, const struct tpp_plan *plan)
{
    const bool fits = tpp_rank_class(&plan->cost.memory, ranking->headroom_fraction) != TPP_RANK_DOES_NOT_FIT;
    return fits == (ranking->order == TPP_RANK_BEST);
}

static const struct tpp_plan *last_plan(const struct tpp_ranking *ranking)
{
    return &ranking->plans[ranking->sorted[ranking->count - 1]];
}

/* Place of the plan of the same choice; `count` when there is none. */
static uint32_t find_choice(const struct tpp_ranking *ranking, const struct tpp_strategy *strategy)
{
    uint32_t place = 0;
    while (place < ranking->count &&
           !tpp_rank_same_choice(&ranking->plans[ranking->sorted[place]].strategy, strategy)) {
        place++;
    }
    return place;
}

/* Moves the entry at the end of the order up to where it belongs. */
static void sink(struct tpp_ranking *ranking, uint32_t place)
{
    const uint32_t moved = ranking->sorted[place];
    while (place > 0 &&
           compare_plans(ranking, &ranking->plans[moved], &ranking->plans[ranking->sorted[place - 1]]) < 0) {
        ranking->sorted[place] = ranking->sorted[place - 1];
        place--;
    }
    ranking->sorted[place] = moved;
}

void tpp_ranking_offer(struct tpp_ranking *ranking, const struct tpp_plan *plan)
{
    if (!belongs(ranking, plan)) {
        return;
    }
    const bool is_full = ranking->count == ranking->capacity;
    if (is_full && compare_plans(ranking, plan, last_plan(ranking)) >= 0) {
        return;
    }
    uint32_t place = find_choice(ranking, &plan->strategy);
    if (place < ranking->count) {
        if (compare_plans(ranking, plan, &ranking->plans[ranking->sorted[place]]) >= 0) {
            return;
        }
    } else if (is_full) {
        place = ranking->count - 1; /* the last one leaves */
    } else {
        ranking->sorted[place] = ranking->count++;
    }
    ranking->plans[ranking->sorted[place]] = *plan;
    sink(ranking, place);
}

void tpp_ranking_merge(struct tpp_ranking *into, const struct tpp_ranking *from)
{
    for (size_t i = 0; i < from->count; i++) {
        tpp_ranking_offer(into, tpp_ranking_at(from, i));
    }
}

size_t tpp_ranking_count(const struct tpp_ranking *ranking)
{
    return ranking->count;
}

const struct tpp_plan *tpp_ranking_at(const struct tpp_ranking *ranking, size_t index)
{
    return &ranking->plans[ranking->sorted[index]];
}

bool tpp_ranking_excludes(const struct tpp_ranking *ranking, const struct tpp_bound *bound)
{
    const bool fits = bound->rank_class != TPP_RANK_DOES_NOT_FIT;
    if (ranking->order == TPP_RANK_BEST && !fits) {
        return true;
    }
    if (ranking->count < ranking->capacity) {
        return false;
    }
    const struct tpp_bound last = value_of(ranking, last_plan(ranking));
    return compare_values(ranking->order, &last, bound) < 0;
}
