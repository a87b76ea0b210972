/* 1F1B with embedding and head shared by the stages (Yeung, Qi, Lin, Wan 2025, "Balancing Pipeline Parallelism with Vocabulary
 * Parallelism", arXiv 2411.05288): beside F and B every stage runs S of every micro-batch, which needs the last stage's F, and
 * T; barriers over all stages stand between.
 *
 *     one barrier (Vocab-2):   S(i) on all stages before B(i) of the last stage and T(i) of all
 *     two barriers (Vocab-1):  S(i) on all stages before T(i) of all, these before B(i) of the last
 *     interlaced:              S(i), which holds all of T, on all stages at once
 *
 * The paper tiles a building block whose passes lie by what they take on a mean stage; here a list is what such a stage does that
 * takes, whenever it is free, the first of S, T, F and B that can run, F while less than p - r + x micro-batches are in flight on
 * stage r, x the number of barriers, with room for the transfers. All stages then take m (F + B + S + T) + (p-1) (F + B), the bubble of
 * 1F1B, as the paper has it (tests/property/property_pipeline.c). */
#include "costmodel/schedules/schedule_parts.h"

#include <math.h>
#include <string.h>

enum { S = TPP_SCHEDULE_OP_VOCABULARY, T = TPP_SCHEDULE_OP_VOCABULARY_WEIGHT, F = TPP_SCHEDULE_OP_FORWARD,
       B = TPP_SCHEDULE_OP_BACKWARD, KINDS = TPP_SCHEDULE_OP_KIND_COUNT };

struct stage {
    double free_seconds;
    uint32_t count[KINDS]; /* ops put so far */
    uint32_t max_in_flight;
    struct tpp_op_list list;
};

struct search {
    const struct tpp_schedule_problem *problem;
    uint32_t p, m;
    double seconds[KINDS]; /* of a mean stage: the block is the same on all, whose small differences would turn its order over */
    struct stage *stages;
    double *end[2];      /* of F and B by stage * m + micro-batch */
    double input_room_seconds, room_seconds[2]; /* from F to S; behind S and behind T */
    double *barrier[2];  /* latest end of S and of T by micro-batch */
    uint32_t *passed[2]; /* stages that have run them */
    /* Which stage acts next: the winner of each pair of a tree over the stages, by when it acts. */
    double *act_seconds;
    uint32_t *winners, num_leaves;
};

static bool has_two_barriers(const struct search *search)
{
    return search->problem->vocabulary_parallel == TPP_VOCABULARY_PARALLEL_TWO_BARRIERS;
}

/* When all stages have run S (which = 0) or T (1) of a micro-batch; infinity when they have not. */
static double passed_at(const struct search *search, int which, uint32_t micro_batch)
{
    return search->passed[which][micro_batch] == search->p
               ? search->barrier[which][micro_batch] + search->room_seconds[which]
               : INFINITY;
}

static double end_of(const struct search *search, int kind, uint32_t stage, uint32_t micro_batch)
{
    return search->stages[stage].count[kind] > micro_batch
               ? search->end[kind == B][(size_t)stage * search->m + micro_batch]
               : INFINITY;
}

/* When the next op of a kind can run on a stage that is free; infinity when what it needs has not run yet. */
static double ready_at(const struct search *search, uint32_t index, int kind)
{
    const struct stage *stage = &search->stages[index];
    const uint32_t last = search->p - 1, i = stage->count[kind];
    if (i == search->m)
        return INFINITY;
    switch (kind) {
    case S:
        return end_of(search, F, last, i) + search->input_room_seconds;
    case T:
        return passed_at(search, 0, i);
    case F:
        if (i - stage->count[B] >= stage->max_in_flight)
            return INFINITY;
        return index == 0 ? 0 : end_of(search, F, index - 1, i);
    default:
        if (i == stage->count[F])
            return INFINITY;
        return index == last ? passed_at(search, has_two_barriers(search), i) : end_of(search, B, index + 1, i);
    }
}

/* Sums of the same passes in another order: at one moment all the same. */
static const double same_moment_fraction = 1e-9;

/* The op that a stage runs next and when, as far as is known. */
static int choose(const struct search *search, uint32_t index, double *start_seconds)
{
    static const int by_rank[] = {S, T, F, B};
    enum { NUM_RANKS = sizeof by_rank / sizeof by_rank[0] };
    double starts[NUM_RANKS], first = INFINITY;
    int chosen = 0;
    for (int i = 0; i < NUM_RANKS; i++) {
        starts[i] = fmax(search->stages[index].free_seconds, ready_at(search, index, by_rank[i]));
        first = fmin(first, starts[i]);
    }
    *start_seconds = INFINITY;
    if (first == INFINITY)
        return -1;
    while (starts[chosen] > first * (1 + same_moment_fraction))
        chosen++;
    *start_seconds = starts[chosen];
    return by_rank[chosen];
}

static void play_match(struct search *search, uint32_t node)
{
    const uint32_t left = search->winners[2 * node], right = search->winners[2 * node + 1];
    search->winners[node] = search->act_seconds[right] < search->act_seconds[left] ? right : left;
}

static void look_again(struct search *search, uint32_t stage)
{
    choose(search, stage, &search->act_seconds[stage]);
    for (uint32_t node = (search->num_leaves + stage) / 2; node > 0; node /= 2)
        play_match(search, node);
}

static void look_again_everywhere(struct search *search)
{
    for (uint32_t stage = 0; stage < search->p; stage++)
        look_again(search, stage);
}

/* Runs an op; stages that may have waited for it look again. */
static void put(struct search *search, uint32_t index, int kind, double start_seconds)
{
    struct stage *stage = &search->stages[index];
    const uint32_t i = stage->count[kind]++;
    const double end = stage->free_seconds = start_seconds + search->seconds[kind];
    tpp_op_add(&stage->list, (enum tpp_schedule_op_kind)kind, index, i);
    if (kind == S || kind == T) {
        const int which = kind == T;
        search->barrier[which][i] = fmax(search->barrier[which][i], end);
        if (++search->passed[which][i] == search->p)
            look_again_everywhere(search);
    } else {
        search->end[kind == B][(size_t)index * search->m + i] = end;
        if (kind == F && index + 1 == search->p)
            look_again_everywhere(search);
        else if (kind == F ? index + 1 < search->p : index > 0)
            look_again(search, kind == F ? index + 1 : index - 1);
    }
    look_again(search, index);
}

/* Without room a stage would run T at once behind S, and wait there for the least transfer. */
static const double least_room_fraction = 0.05; /* of F */

static uint32_t leaves_for(uint32_t num_stages)
{
    uint32_t leaves = 1;
    while (leaves < num_stages)
        leaves *= 2;
    return leaves;
}

static enum tpp_code start(struct search *search, struct tpp_schedule_run *run, struct tpp_error *err)
{
    const struct tpp_schedule_problem *problem = search->problem;
    const size_t p = problem->pipeline_parallel, m = problem->num_micro_batches, leaves = leaves_for((uint32_t)p);
    const size_t doubles = (2 * p * m + 2 * m + leaves) * sizeof(double);
    const size_t counts = (2 * m + 2 * leaves) * sizeof(uint32_t);
    const enum tpp_code code = tpp_buffer_reserve(&run->search, 1, p * sizeof(struct stage) + doubles + counts, err);
    if (code != TPP_OK)
        return code;
    memset(run->search.data, 0, p * sizeof(struct stage) + doubles + counts);
    search->p = (uint32_t)p;
    search->m = (uint32_t)m;
    search->num_leaves = (uint32_t)leaves;
    search->stages = run->search.data;
    search->end[0] = (double *)(search->stages + p);
    search->end[1] = search->end[0] + p * m;
    search->barrier[0] = search->end[1] + p * m;
    search->barrier[1] = search->barrier[0] + m;
    search->act_seconds = search->barrier[1] + m;
    search->passed[0] = (uint32_t *)(search->act_seconds + leaves);
    search->passed[1] = search->passed[0] + m;
    search->winners = search->passed[1] + m;
    for (uint32_t r = 0; r < p; r++) {
        const struct tpp_schedule_chunk *chunk = &problem->chunks[r];
        struct stage *stage = &search->stages[r];
        search->seconds[F] += chunk->forward_seconds / (double)p;
        search->seconds[B] += (chunk->backward_seconds + chunk->weight_seconds) / (double)p;
        search->seconds[S] += chunk->vocabulary_seconds / (double)p;
        search->seconds[T] += chunk->vocabulary_weight_seconds / (double)p;
        stage->max_in_flight = (uint32_t)p - r + 1 + has_two_barriers(search);
        stage->list.ops = tpp_run_list(run, r);
    }
    const double least = least_room_fraction * search->seconds[F];
    search->input_room_seconds = fmax(least, problem->vocabulary_input_seconds);
    search->room_seconds[0] = fmax(least, problem->vocabulary_loss_seconds);
    search->room_seconds[1] = fmax(least, problem->vocabulary_gradient_seconds);
    for (uint32_t leaf = 0; leaf < leaves; leaf++) {
        search->act_seconds[leaf] = INFINITY;
        search->winners[leaves + leaf] = leaf;
    }
    for (uint32_t node = (uint32_t)leaves - 1; node > 0; node--)
        play_match(search, node);
    look_again_everywhere(search);
    return TPP_OK;
}

static enum tpp_code search_barriers(struct tpp_schedule_run *run, const struct tpp_schedule_problem *problem,
                                     struct tpp_error *err)
{
    struct search search = {.problem = problem};
    const enum tpp_code code = start(&search, run, err);
    for (uint64_t left = (uint64_t)search.p * run->ops_a_stage; code == TPP_OK && left > 0; left--) {
        double start_seconds;
        const uint32_t stage = search.winners[1];
        const int kind = choose(&search, stage, &start_seconds);
        if (kind < 0)
            return tpp_fail(err, TPP_E_INTERNAL, "schedule", NULL, "the vocabulary passes stop on stage %u", stage);
        put(&search, stage, kind, start_seconds);
    }
    return code;
}

/* Lin et al. 2024, "nnScaler" (OSDI): between the S of two micro-batches every stage runs one F and one B. Results go forward
 * two stages in such a round, from one that begins with its F to one that ends with it, and backward one, so that nobody waits
 * inside a round where B is no shorter than F: stage r holds 3 (p - 1 - r) / 2 micro-batches more than the last. */
static void order_interlaced(const struct tpp_schedule_problem *problem, uint32_t stage, struct tpp_op_list *list)
{
    const uint32_t m = problem->num_micro_batches, behind = problem->pipeline_parallel - 1 - stage;
    const uint32_t wanted = 1 + behind / 2, warm_up = wanted < m ? wanted : m;
    const bool begins_with_forward = behind % 2 == 1;
    uint32_t forward = 0, backward = 0;
    while (forward < warm_up)
        tpp_op_add(list, TPP_SCHEDULE_OP_FORWARD, stage, forward++);
    for (uint32_t i = 0; i < m; i++) {
        tpp_op_add(list, TPP_SCHEDULE_OP_VOCABULARY, stage, i);
        if (begins_with_forward && forward < m)
            tpp_op_add(list, TPP_SCHEDULE_OP_FORWARD, stage, forward++);
        if (i >= behind)
            tpp_op_add(list, TPP_SCHEDULE_OP_BACKWARD, stage, backward++);
        if (!begins_with_forward && forward < m)
            tpp_op_add(list, TPP_SCHEDULE_OP_FORWARD, stage, forward++);
    }
    while (backward < m)
        tpp_op_add(list, TPP_SCHEDULE_OP_BACKWARD, stage, backward++);
}

enum tpp_code tpp_order_with_vocabulary(struct tpp_schedule_run *run, const struct tpp_schedule_problem *problem,
                                        struct tpp_error *err)
{
    if (problem->vocabulary_parallel != TPP_VOCABULARY_PARALLEL_INTERLACED)
        return search_barriers(run, problem, err);
    for (uint32_t stage = 0; stage < run->num_stages; stage++) {
        struct tpp_op_list list = {.ops = tpp_run_list(run, stage)};
        order_interlaced(problem, stage, &list);
    }
    return TPP_OK;
}
