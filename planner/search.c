#include "planner/search.h"

#include "planner/rank.h"
#include "planner/walk.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_THREADS 256

struct tpp_search {
    struct tpp_space *space;
    struct tpp_walk_plan plan;
    struct tpp_walk *walks;
    uint32_t num_walks;
    bool has_variants;               /* a second pass is needed */
    struct tpp_plan *best, *nearest; /* of `keep`: what the caller sees */
    size_t num_best, num_nearest;
};

static uint32_t num_threads(const struct tpp_space_limits *limits, size_t num_cells)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count = limits->num_threads > 0 ? limits->num_threads : (online > 0 ? (size_t)online : 1);
    count = count < num_cells ? count : num_cells; /* more would have nothing to do */
    count = count < MAX_THREADS ? count : MAX_THREADS;
    return count > 0 ? (uint32_t)count : 1;
}

static enum tpp_code fail_memory(struct tpp_error *err)
{
    return tpp_fail(err, TPP_E_MEMORY, NULL, "keep fewer plans or use fewer threads", "out of memory for the search");
}

static enum tpp_code make_lists(struct tpp_search *search, const struct tpp_space_limits *limits, struct tpp_error *err)
{
    const double headroom = limits->memory_headroom_fraction;
    search->plan.best = tpp_ranking_new(TPP_RANK_BEST, limits->keep, headroom);
    search->plan.nearest = tpp_ranking_new(TPP_RANK_NEAREST, limits->keep, headroom);
    search->best = calloc(limits->keep, sizeof *search->best);
    search->nearest = calloc(limits->keep, sizeof *search->nearest);
    search->walks = calloc(search->num_walks, sizeof *search->walks);
    search->plan.cell_bounds = calloc(tpp_space_num_cells(search->space) + 1, sizeof *search->plan.cell_bounds);
    if (search->plan.cell_bounds == NULL || search->plan.best == NULL || search->plan.nearest == NULL ||
        search->best == NULL || search->nearest == NULL || search->walks == NULL) {
        return fail_memory(err);
    }
    return TPP_OK;
}

struct inputs {
    const struct tpp_model *model;
    const struct tpp_hardware *hardware;
    const struct tpp_job *job;
    const struct tpp_stack *stack;
    const struct tpp_space_limits *limits;
};

static enum tpp_code make_walk(struct tpp_search *search, const struct inputs *inputs, struct tpp_walk *walk,
                               struct tpp_error *err)
{
    const struct tpp_space_limits *limits = inputs->limits;
    walk->plan = &search->plan;
    walk->best = tpp_ranking_new(TPP_RANK_BEST, limits->keep, limits->memory_headroom_fraction);
    walk->nearest = tpp_ranking_new(TPP_RANK_NEAREST, limits->keep, limits->memory_headroom_fraction);
    if (walk->best == NULL || walk->nearest == NULL) {
        return fail_memory(err);
    }
    tpp_validity_init(inputs->model, inputs->hardware->gpu.compute_capability, inputs->job, inputs->stack,
                      &walk->validity);
    return tpp_evaluator_new(inputs->model, inputs->hardware, inputs->job, inputs->stack, &walk->evaluator, err);
}

static enum tpp_code make(struct tpp_search *search, const struct inputs *inputs, struct tpp_error *err)
{
    const struct tpp_space_limits *limits = inputs->limits;
    enum tpp_code code = tpp_space_new(inputs->model, inputs->hardware->node.num_gpus, inputs->job, inputs->stack,
                                       limits, &search->space, err);
    if (code != TPP_OK) {
        return code;
    }
    search->plan.space = search->space;
    search->plan.exhaustive = limits->exhaustive;
    search->plan.headroom_fraction = limits->memory_headroom_fraction;
    search->plan.pass = TPP_WALK_GROUPS;
    atomic_init(&search->plan.next_cell, 0);
    search->has_variants = limits->full_space;
    search->num_walks = num_threads(limits, tpp_space_num_cells(search->space));
    code = make_lists(search, limits, err);
    for (uint32_t i = 0; i < search->num_walks && code == TPP_OK; i++) {
        code = make_walk(search, inputs, &search->walks[i], err);
    }
    return code;
}

enum tpp_code tpp_search_new(const struct tpp_model *model, const struct tpp_hardware *hardware,
                             const struct tpp_job *job, const struct tpp_stack *stack,
                             const struct tpp_space_limits *limits, struct tpp_search **out, struct tpp_error *err)
{
    const struct inputs inputs = {model, hardware, job, stack, limits};
    *out = NULL;
    enum tpp_code code = tpp_space_limits_check(limits, err);
    if (code == TPP_OK) {
        code = tpp_job_check(job, model, err);
    }
    if (code != TPP_OK) {
        return code;
    }
    struct tpp_search *search = calloc(1, sizeof *search);
    if (search == NULL) {
        return fail_memory(err);
    }
    code = make(search, &inputs, err);
    if (code != TPP_OK) {
        tpp_search_free(search);
        return code;
    }
    *out = search;
    return TPP_OK;
}

void tpp_search_free(struct tpp_search *search)
{
    if (search == NULL) {
        return;
    }
    for (uint32_t i = 0; search->walks != NULL && i < search->num_walks; i++) {
        tpp_walk_release(&search->walks[i]);
    }
    free(search->walks);
    free(search->plan.cell_bounds);
    tpp_ranking_free(search->plan.best);
    tpp_ranking_free(search->plan.nearest);
    free(search->best);
    free(search->nearest);
    tpp_space_free(search->space);
    free(search);
}

/* ---- one step ---- */

struct share { /* of a step, for one thread */
    struct tpp_walk *walk;
    uint64_t budget;
    pthread_t thread;
    bool has_thread;
};

static void *run_share(void *data)
{
    struct share *share = data;
    tpp_walk_run(share->walk, share->budget);
    return NULL;
}

/* The first share runs in the caller's thread, and so does one that gets no thread of its own. */
static void run_shares(struct share *shares, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        shares[i].has_thread = pthread_create(&shares[i].thread, NULL, run_share, &shares[i]) == 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!shares[i].has_thread) {
            run_share(&shares[i]);
        }
    }
    for (uint32_t i = 1; i < count; i++) {
        if (shares[i].has_thread) {
            pthread_join(shares[i].thread, NULL);
        }
    }
}

/* Deals the candidates of a step to the walks that have work left. */
static void run_walks(struct tpp_search *search, uint64_t max_candidates)
{
    struct share shares[MAX_THREADS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < search->num_walks && count < max_candidates; i++) {
        if (!search->walks[i].is_finished) {
            shares[count++] = (struct share){.walk = &search->walks[i]};
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        shares[i].budget = max_candidates / count + (i < max_candidates % count);
    }
    run_shares(shares, count);
}

static bool is_pass_finished(const struct tpp_search *search)
{
    for (uint32_t i = 0; i < search->num_walks; i++) {
        if (!search->walks[i].is_finished) {
            return false;
        }
    }
    return true;
}

static void finish_pass(struct tpp_search *search)
{
    if (search->plan.pass == TPP_WALK_VARIANTS || !search->has_variants) {
        search->plan.pass = TPP_WALK_DONE;
        return;
    }
    for (uint32_t i = 0; i < search->num_walks; i++) {
        tpp_ranking_merge(search->plan.best, search->walks[i].best);
        tpp_ranking_merge(search->plan.nearest, search->walks[i].nearest);
        tpp_walk_restart(&search->walks[i]);
    }
    search->plan.pass = TPP_WALK_VARIANTS;
    atomic_store(&search->plan.next_cell, 0);
}

static size_t copy_plans(const struct tpp_ranking *ranking, struct tpp_plan *out)
{
    const size_t count = tpp_ranking_count(ranking);
    for (size_t i = 0; i < count; i++) {
        out[i] = *tpp_ranking_at(ranking, i);
    }
    return count;
}

/* Merges what the walks have so far into what the caller sees, through the first walk's lists: a plan offered twice is
 * kept once. */
static void publish(struct tpp_search *search)
{
    struct tpp_walk *first = &search->walks[0];
    for (uint32_t i = 1; i < search->num_walks; i++) {
        tpp_ranking_merge(first->best, search->walks[i].best);
        tpp_ranking_merge(first->nearest, search->walks[i].nearest);
    }
    search->num_best = copy_plans(first->best, search->best);
    search->num_nearest = search->num_best > 0 ? 0 : copy_plans(first->nearest, search->nearest);
}

enum tpp_code tpp_search_step(struct tpp_search *search, uint64_t max_candidates, bool *done, struct tpp_error *err)
{
    *done = search->plan.pass == TPP_WALK_DONE;
    if (*done) {
        return TPP_OK;
    }
    run_walks(search, max_candidates);
    for (uint32_t i = 0; i < search->num_walks; i++) {
        if (search->walks[i].code != TPP_OK) {
            if (err != NULL) {
                *err = search->walks[i].err;
            }
            return search->walks[i].code;
        }
    }
    if (is_pass_finished(search)) {
        finish_pass(search);
    }
    publish(search);
    *done = search->plan.pass == TPP_WALK_DONE;
    return TPP_OK;
}

const struct tpp_plan *tpp_search_best(const struct tpp_search *search, size_t *count)
{
    *count = search->num_best;
    return search->best;
}

const struct tpp_plan *tpp_search_nearest(const struct tpp_search *search, size_t *count)
{
    *count = search->num_nearest;
    return search->nearest;
}

struct tpp_search_counts tpp_search_counts(const struct tpp_search *search)
{
    struct tpp_search_counts sum = {0};
    for (uint32_t i = 0; i < search->num_walks; i++) {
        const struct tpp_search_counts counts = search->walks[i].counts;
        sum.enumerated += counts.enumerated;
        sum.valid += counts.valid;
        sum.costed += counts.costed;
        sum.fitting += counts.fitting;
    }
    return sum;
}
