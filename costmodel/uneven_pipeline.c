#include "costmodel/uneven_pipeline.h"

#include "costmodel/schedules/schedule.h"
#include "costmodel/sequence_lengths.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double tpp_uneven_draws(const struct tpp_strategy *strategy)
{
    return (double)strategy->micro_batch_size * (strategy->zero_stage >= 3 ? strategy->data_parallel : 1);
}

/* splitmix64 */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void tpp_uneven_lengths(const struct tpp_job *job, double draws, uint32_t num_micro_batches, uint32_t shuffle,
                        double *relative)
{
    const uint32_t m = num_micro_batches;
    uint64_t state = shuffle;
    double sum = 0;
    for (uint32_t i = 0; i < m; i++) { /* the longest of `draws` is below the quantile of q^(1/draws) with probability q */
        const double place = pow((i + 0.5) / m, 1 / draws) * job->num_lengths;
        relative[i] = job->lengths[(uint32_t)fmin(place, job->num_lengths - 1.0)];
        sum += relative[i];
    }
    for (uint32_t i = 0; i < m; i++)
        relative[i] *= m / sum;
    for (uint32_t i = m; i > 1; i--) { /* Fisher and Yates */
        const uint32_t other = (uint32_t)(next_random(&state) % i);
        const double swapped = relative[i - 1];
        relative[i - 1] = relative[other];
        relative[other] = swapped;
    }
}

/* The step of `problem` with unequal micro-batches less that with equal ones, on average over the orders. */
static enum tpp_code wait_of(struct tpp_schedule_run *run, const struct tpp_job *job, double draws,
                             struct tpp_schedule_problem *problem, double *relative, double *wait, struct tpp_error *err)
{
    struct tpp_schedule_summary equal, unequal;
    problem->micro_batch_lengths = NULL;
    enum tpp_code code = tpp_schedule_step(run, problem, &equal, err);
    double sum = 0;
    for (uint32_t shuffle = 0; shuffle < TPP_UNEVEN_SHUFFLES && code == TPP_OK; shuffle++) {
        tpp_uneven_lengths(job, draws, problem->num_micro_batches, shuffle, relative);
        problem->micro_batch_lengths = relative;
        code = tpp_schedule_step(run, problem, &unequal, err);
        if (code == TPP_OK)
            sum += unequal.makespan_seconds - equal.makespan_seconds;
    }
    *wait = fmax(0, sum / TPP_UNEVEN_SHUFFLES);
    return code;
}

/* Micro-batches after which a step repeats: DualPipe's directions take turns. */
static uint32_t period_of(const struct tpp_schedule_problem *problem)
{
    const bool has_turns = tpp_schedule_info(problem->schedule)->placement != TPP_PLACEMENT_LOOP;
    const uint32_t group =
        problem->microbatch_group_size > 0 ? problem->microbatch_group_size : problem->pipeline_parallel;
    return has_turns ? 2 * group : group;
}

#define MOST_IN_A_GROUP 256u

/* Inside a long turn of a chunk stages wait as in a longer one. Turns that are shortened have to divide the micro-batches. */
static void shorten_groups(struct tpp_schedule_problem *problem)
{
    const uint32_t p = problem->pipeline_parallel, most = p > MOST_IN_A_GROUP ? p : MOST_IN_A_GROUP;
    if (problem->microbatch_group_size <= most)
        return;
    problem->microbatch_group_size = most;
    problem->num_micro_batches -= problem->num_micro_batches % most;
}

/* So many micro-batches are run; of more, each waits as these do: the ends of the step no longer matter. Whole periods. */
static uint32_t most_micro_batches(const struct tpp_schedule_problem *problem)
{
    const uint32_t period = period_of(problem), periods = 256 / period;
    return period * (periods > 16 ? periods : 16);
}

static enum tpp_code wait_of_all(struct tpp_schedule_run *run, const struct tpp_job *job, double draws,
                                 struct tpp_schedule_problem *problem, double *relative, double *wait,
                                 struct tpp_error *err)
{
    const uint32_t most = most_micro_batches(problem), m = problem->num_micro_batches;
    if (m <= most)
        return wait_of(run, job, draws, problem, relative, wait, err);
    problem->num_micro_batches = most;
    const enum tpp_code code = wait_of(run, job, draws, problem, relative, wait, err);
    *wait *= (double)m / most;
    return code;
}

#define FRACTION_STEPS 64.0

static double in_steps(double others_fraction)
{
    return fmin(fmax(round(others_fraction * FRACTION_STEPS), 0), FRACTION_STEPS);
}

/* F, B and W are a third of a stage's time each, over its chunks. */
static struct tpp_schedule_chunk *make_chunks(const struct tpp_schedule_problem *problem, double others_fraction)
{
    const uint32_t count = problem->pipeline_parallel * problem->virtual_pipeline_stages;
    struct tpp_schedule_chunk *chunks = calloc(count, sizeof(*chunks));
    const enum tpp_placement placement = tpp_schedule_info(problem->schedule)->placement;
    const double whole = 1.0 / 3 / problem->virtual_pipeline_stages;
    for (uint32_t g = 0; chunks && g < count; g++) {
        const uint32_t head = placement == TPP_PLACEMENT_V ? 0 : problem->pipeline_parallel - 1;
        const bool is_slowest = tpp_schedule_chunk_stage(placement, problem->pipeline_parallel, g) == head;
        const double each = whole * (is_slowest ? 1 : in_steps(others_fraction) / FRACTION_STEPS);
        chunks[g] = (struct tpp_schedule_chunk){.forward_seconds = each, .backward_seconds = each, .weight_seconds = each};
    }
    return chunks;
}

enum tpp_code tpp_uneven_wait(const struct tpp_job *job, const struct tpp_strategy *strategy, double others_fraction,
                              double *micro_batches, struct tpp_error *err)
{
    *micro_batches = 0;
    const bool are_equal = !tpp_job_pads(job) || job->lengths[0] >= job->lengths[job->num_lengths - 1];
    if (are_equal || strategy->pipeline_parallel <= 1 || strategy->num_micro_batches <= 1)
        return TPP_OK;
    struct tpp_schedule_problem problem = tpp_schedule_problem_of(strategy);
    problem.vocabulary_parallel = TPP_VOCABULARY_PARALLEL_NONE; /* its barriers are left out */
    shorten_groups(&problem);
    const double scale = (double)strategy->num_micro_batches / problem.num_micro_batches;
    const uint64_t most = most_micro_batches(&problem);
    const uint64_t count = strategy->num_micro_batches < most ? strategy->num_micro_batches : most;
    struct tpp_schedule_run *run = NULL;
    struct tpp_schedule_chunk *chunks = make_chunks(&problem, others_fraction);
    double *relative = malloc(count * sizeof(*relative));
    enum tpp_code code = chunks && relative ? tpp_schedule_run_new(&run, err)
                                            : tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    problem.chunks = chunks;
    if (code == TPP_OK)
        code = wait_of_all(run, job, tpp_uneven_draws(strategy), &problem, relative, micro_batches, err);
    *micro_batches *= scale;
    tpp_schedule_run_free(run);
    free(relative);
    free(chunks);
    return code;
}

/* One place a hash: what falls on a taken one replaces it. */
#define CACHE_SLOTS 1024
struct uneven_key {
    uint64_t schedule, stages, chunks, micro_batches, group, draws, others;
};
struct tpp_uneven_cache {
    struct {
        struct uneven_key key;
        double micro_batches;
    } slots[CACHE_SLOTS];
};

static uint32_t slot_of(const struct uneven_key *key)
{
    const uint64_t parts[] = {key->schedule, key->stages, key->chunks, key->micro_batches, key->group, key->draws, key->others};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        hash ^= parts[i];
        hash = next_random(&hash);
    }
    return (uint32_t)(hash % CACHE_SLOTS);
}

enum tpp_code tpp_uneven_wait_cached(struct tpp_uneven_cache **cache, const struct tpp_job *job,
                                     const struct tpp_strategy *strategy, double others_fraction,
                                     double *micro_batches, struct tpp_error *err)
{
    const struct uneven_key key = {strategy->schedule,          strategy->pipeline_parallel,
                                   strategy->virtual_pipeline_stages, strategy->num_micro_batches,
                                   strategy->microbatch_group_size, (uint64_t)tpp_uneven_draws(strategy),
                                   (uint64_t)in_steps(others_fraction)};
    *micro_batches = 0;
    if (!tpp_job_pads(job) || strategy->pipeline_parallel <= 1)
        return TPP_OK;
    if (!*cache && !(*cache = calloc(1, sizeof(**cache))))
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    const uint32_t slot = slot_of(&key);
    if (memcmp(&(*cache)->slots[slot].key, &key, sizeof key) != 0) { /* stages of an empty one: 0 */
        const enum tpp_code code = tpp_uneven_wait(job, strategy, others_fraction, &(*cache)->slots[slot].micro_batches, err);
        if (code != TPP_OK) {
            (*cache)->slots[slot].key = (struct uneven_key){0};
            return code;
        }
        (*cache)->slots[slot].key = key;
    }
    *micro_batches = (*cache)->slots[slot].micro_batches;
    return TPP_OK;
}

void tpp_uneven_cache_free(struct tpp_uneven_cache *cache)
{
    free(cache);
}
