/* Laws of the search on random jobs, with an evaluator of scattered costs (tests/support/fake_evaluator.c): it finds
 * what brute force finds, with any number of threads and any cut into steps; pins hold; nothing invalid is ranked. */
#include "planner/rank.h"
#include "planner/search.h"
#include "planner/space.h"
#include "planner/validity.h"
#include "tests/support/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

struct scene {
    struct tpp_model model;
    struct tpp_hardware hardware;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_space_limits limits;
};

static uint32_t pick(struct tpp_random *random, const uint32_t *values, size_t count)
{
    return values[tpp_random_range(random, 0, count - 1)];
}

#define PICK(random, ...)                                                                                              \
    pick((random), (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void set_experts(struct tpp_model *model, uint32_t num_experts)
{
    model->num_experts = num_experts;
    model->experts_per_token = 2;
    model->moe_ffn_hidden_size = 1408;
    model->moe_layer_period = 1;
}

static struct tpp_model random_model(struct tpp_random *random)
{
    struct tpp_model model = {.num_layers = PICK(random, 7, 12, 31, 62),
                              .hidden_size = PICK(random, 4096, 7168),
                              .num_attention_heads = PICK(random, 28, 32, 56),
                              .head_dim = 128,
                              .vocab_size = 32256,
                              .ffn_hidden_size = PICK(random, 11008, 19200),
                              .gated_mlp = true,
                              .norms_per_layer = 2,
                              .norm = TPP_NORM_RMS,
                              .position = TPP_POSITION_ROPE,
                              .final_norm = true};
    model.num_query_groups = PICK(random, 1, 4, model.num_attention_heads);
    if (tpp_random_range(random, 0, 3) == 0) {
        set_experts(&model, PICK(random, 6, 8));
    }
    return model;
}

static struct scene random_scene(struct tpp_random *random)
{
    struct scene scene = {.model = random_model(random)};
    scene.hardware.node.num_gpus = PICK(random, 4, 8);
    scene.hardware.gpu.memory_bytes = PICK(random, 24, 40, 80) * UINT64_C(1000000000);
    scene.job = tpp_job_defaults();
    scene.job.num_gpus = PICK(random, 1, 7, 8, 12, 16);
    scene.job.sequence_length = PICK(random, 2048, 4100, 8192);
    scene.job.global_batch_size = PICK(random, 28, 48, 60);
    scene.stack.framework = TPP_FRAMEWORK_OTHER;
    scene.stack.engine = (enum tpp_engine)PICK(random, TPP_ENGINE_MEGATRON, TPP_ENGINE_DEEPSPEED,
                                               TPP_ENGINE_DEEPSPEED_PIPELINE, TPP_ENGINE_FSDP2, TPP_ENGINE_DDP);
    scene.limits = tpp_space_limits_defaults();
    scene.limits.full_space = tpp_random_range(random, 0, 2) > 0;
    scene.limits.max_micro_batch_size = PICK(random, 1, 2, 4);
    scene.limits.max_virtual_pipeline_stages = PICK(random, 0, 2);
    scene.limits.memory_headroom_fraction = PICK(random, 0, 1) * 0.1;
    scene.limits.num_threads = PICK(random, 1, 2, 3, 5);
    scene.limits.keep = PICK(random, 1, 3, 10, 40);
    return scene;
}

static struct tpp_search *run(const struct scene *scene, const struct tpp_space_limits *limits, uint64_t step)
{
    struct tpp_search *search;
    struct tpp_error err = {.message = ""};
    bool done = false;
    tpp_search_new(&scene->model, &scene->hardware, &scene->job, &scene->stack, limits, &search, &err);
    assert_string_equal(err.message, "");
    while (!done) {
        assert_int_equal(tpp_search_step(search, step, &done, &err), TPP_OK);
    }
    return search;
}

static void expect_same_plans(const struct tpp_plan *a, size_t num_a, const struct tpp_plan *b, size_t num_b)
{
    assert_int_equal(num_a, num_b);
    for (size_t i = 0; i < num_a; i++) {
        assert_int_equal(tpp_strategy_compare(&a[i].strategy, &b[i].strategy), 0);
        assert_memory_equal(&a[i].cost.step_seconds, &b[i].cost.step_seconds, sizeof(double));
        assert_memory_equal(&a[i].cost.memory.device_total_bytes, &b[i].cost.memory.device_total_bytes, sizeof(double));
    }
}

static void expect_same_answer(const struct tpp_search *a, const struct tpp_search *b)
{
    size_t num_a, num_b;
    const struct tpp_plan *best_a = tpp_search_best(a, &num_a), *best_b = tpp_search_best(b, &num_b);
    expect_same_plans(best_a, num_a, best_b, num_b);
    const struct tpp_plan *near_a = tpp_search_nearest(a, &num_a), *near_b = tpp_search_nearest(b, &num_b);
    expect_same_plans(near_a, num_a, near_b, num_b);
}

static void pruning_threads_and_steps_do_not_change_the_answer(void **state)
{
    (void)state;
    struct tpp_random random = {.state = 1911};
    uint64_t costed = 0, costed_exhaustively = 0;
    for (int i = 0; i < 16; i++) {
        const struct scene scene = random_scene(&random);
        struct tpp_space_limits limits = scene.limits;
        struct tpp_search *search = run(&scene, &limits, UINT64_MAX);
        limits.exhaustive = true;
        limits.num_threads = 1;
        struct tpp_search *exhaustive = run(&scene, &limits, tpp_random_range(&random, 700, 7000));
        expect_same_answer(search, exhaustive);
        limits.exhaustive = false;
        limits.num_threads = 4;
        struct tpp_search *stepped = run(&scene, &limits, tpp_random_range(&random, 500, 5000));
        expect_same_answer(search, stepped);
        const struct tpp_search_counts counts = tpp_search_counts(search), again = tpp_search_counts(stepped);
        const struct tpp_search_counts all = tpp_search_counts(exhaustive);
        assert_memory_equal(&counts, &again, sizeof counts);
        assert_int_equal(counts.enumerated, all.enumerated);
        assert_int_equal(counts.valid, all.valid);
        assert_int_equal(all.costed, all.valid);
        assert_true(counts.costed <= all.costed && counts.fitting <= all.fitting);
        costed += counts.costed;
        costed_exhaustively += all.costed;
        tpp_search_free(search);
        tpp_search_free(exhaustive);
        tpp_search_free(stepped);
    }
    assert_true(costed < costed_exhaustively * 3 / 4); /* or nothing is pruned */
}

/* ---- brute force: every valid strategy in one array, sorted, repeated choices left out ---- */

static double brute_headroom;

static int by_rank(const void *left, const void *right)
{
    const struct tpp_plan *a = left, *b = right;
    const int class_a = (int)tpp_rank_class(&a->cost.memory, brute_headroom);
    const int class_b = (int)tpp_rank_class(&b->cost.memory, brute_headroom);
    if (class_a != class_b) {
        return class_a - class_b;
    }
    if (a->cost.step_seconds != b->cost.step_seconds) {
        return a->cost.step_seconds < b->cost.step_seconds ? -1 : 1;
    }
    return tpp_strategy_compare(&a->strategy, &b->strategy);
}

struct collection {
    struct tpp_plan *plans;
    size_t count, capacity;
};

static void sort(struct collection *all, int (*compare)(const void *, const void *))
{
    if (all->count > 0) { /* qsort takes no NULL */
        qsort(all->plans, all->count, sizeof *all->plans, compare);
    }
}

static void collect(struct collection *all, const struct scene *scene, struct tpp_evaluator *evaluator,
                    const struct tpp_strategy *strategy)
{
    struct tpp_validity validity;
    tpp_validity_init(&scene->model, scene->hardware.gpu.compute_capability, &scene->job, &scene->stack, &validity);
    if (tpp_strategy_check(strategy, &scene->model, &scene->job, &scene->stack, NULL) != TPP_OK ||
        !tpp_validity_accepts(&validity, strategy)) {
        return;
    }
    if (all->count == all->capacity) {
        all->capacity = all->capacity * 2 + 1000;
        all->plans = realloc(all->plans, all->capacity * sizeof *all->plans);
        assert_non_null(all->plans);
    }
    all->plans[all->count].strategy = *strategy;
    assert_int_equal(tpp_evaluator_cost(evaluator, strategy, &all->plans[all->count].cost, NULL), TPP_OK);
    all->count++;
}

static struct collection collect_all(const struct scene *scene)
{
    struct collection all = {0};
    struct tpp_space *space;
    struct tpp_space_cell cell;
    struct tpp_evaluator *evaluator;
    tpp_evaluator_new(&scene->model, &scene->hardware, &scene->job, &scene->stack, &evaluator, NULL);
    assert_int_equal(tpp_space_new(&scene->model, scene->hardware.node.num_gpus, &scene->job, &scene->stack,
                                   &scene->limits, &space, NULL),
                     TPP_OK);
    for (size_t i = 0; i < tpp_space_num_cells(space); i++) {
        tpp_space_cell(space, i, &cell);
        for (uint64_t group = 0; group < cell.num_groups; group++) {
            struct tpp_strategy strategy;
            if (!tpp_space_group(space, &cell, group, &strategy)) {
                continue;
            }
            for (uint32_t variant = 0; variant < tpp_space_num_variants(space, &strategy); variant++) {
                struct tpp_strategy changed = strategy;
                tpp_space_set_variant(space, variant, &changed);
                collect(&all, scene, evaluator, &changed);
            }
        }
    }
    tpp_space_free(space);
    tpp_evaluator_free(evaluator);
    return all;
}

static bool is_repeated(const struct tpp_plan *plans, size_t count, const struct tpp_plan *plan)
{
    for (size_t i = 0; i < count; i++) {
        if (tpp_rank_same_choice(&plans[i].strategy, &plan->strategy)) {
            return true;
        }
    }
    return false;
}

static size_t take_distinct(const struct collection *all, size_t max, double headroom, struct tpp_plan *out)
{
    size_t count = 0;
    for (size_t i = 0; i < all->count && count < max; i++) {
        const struct tpp_plan *plan = &all->plans[i];
        if (tpp_rank_class(&plan->cost.memory, headroom) != TPP_RANK_DOES_NOT_FIT && !is_repeated(out, count, plan)) {
            out[count++] = *plan;
        }
    }
    return count;
}

static void the_search_finds_what_brute_force_finds(void **state)
{
    (void)state;
    struct tpp_random random = {.state = 60103};
    for (int i = 0; i < TPP_NUM_CASES(10, 5); i++) {
        struct scene scene = random_scene(&random);
        scene.limits.max_micro_batch_size = 2;
        if (i % 5 == 0) { /* dispatchers and recomputed modules are axes, some of them refused */
            set_experts(&scene.model, 8);
            scene.job.num_gpus = 8;
            scene.stack.framework = TPP_FRAMEWORK_NEMO;
            scene.stack.engine = TPP_ENGINE_MEGATRON;
        }
        struct collection all = collect_all(&scene);
        brute_headroom = scene.limits.memory_headroom_fraction;
        sort(&all, by_rank);
        struct tpp_plan expected[40];
        const size_t num_expected = take_distinct(&all, scene.limits.keep, brute_headroom, expected);
        struct tpp_search *search = run(&scene, &scene.limits, UINT64_MAX);
        size_t num_best;
        const struct tpp_plan *best = tpp_search_best(search, &num_best);
        expect_same_plans(best, num_best, expected, num_expected);
        assert_int_equal(tpp_search_counts(search).valid, all.count);
        tpp_search_free(search);
        free(all.plans);
    }
}

static void every_ranked_plan_is_valid_and_in_order(void **state)
{
    (void)state;
    struct tpp_random random = {.state = 77};
    for (int i = 0; i < 12; i++) {
        const struct scene scene = random_scene(&random);
        struct tpp_search *search = run(&scene, &scene.limits, UINT64_MAX);
        size_t count;
        const struct tpp_plan *best = tpp_search_best(search, &count);
        brute_headroom = scene.limits.memory_headroom_fraction;
        for (size_t k = 0; k < count; k++) {
            assert_int_equal(tpp_strategy_check(&best[k].strategy, &scene.model, &scene.job, &scene.stack, NULL),
                             TPP_OK);
            assert_true(best[k].cost.memory.device_total_bytes <=
                        best[k].cost.memory.capacity_bytes * (1 - brute_headroom));
            assert_true(best[k].cost.memory.fit != TPP_FIT_DOES_NOT_FIT);
            assert_true(k == 0 || by_rank(&best[k - 1], &best[k]) < 0);
            assert_false(is_repeated(best, k, &best[k]));
        }
        tpp_search_free(search);
    }
}

static void a_card_that_is_too_small_has_nearest_plans_in_order(void **state)
{
    (void)state;
    struct tpp_random random = {.state = 5};
    struct scene scene = random_scene(&random);
    scene.job.num_gpus = 16;
    scene.hardware.gpu.memory_bytes = 1000000; /* a megabyte */
    scene.limits.keep = 7;
    struct tpp_search *search = run(&scene, &scene.limits, UINT64_MAX);
    size_t count;
    tpp_search_best(search, &count);
    assert_int_equal(count, 0);
    const struct tpp_plan *nearest = tpp_search_nearest(search, &count);
    assert_int_equal(count, 7);
    for (size_t i = 1; i < count; i++) {
        assert_true(nearest[i - 1].cost.memory.device_total_bytes <= nearest[i].cost.memory.device_total_bytes);
    }
    assert_int_equal(tpp_search_counts(search).fitting, 0);
    tpp_search_free(search);
}

static bool holds(int64_t pin, uint64_t value)
{
    return pin == TPP_PIN_ANY || (uint64_t)pin == value;
}

static int64_t maybe(struct tpp_random *random, int64_t value)
{
    return tpp_random_range(random, 0, 2) == 0 ? value : TPP_PIN_ANY;
}

static void pins_and_limits_hold_for_every_plan(void **state)
{
    (void)state;
    struct tpp_random random = {.state = 4242};
    uint64_t seen = 0;
    for (int i = 0; i < 60; i++) {
        struct scene scene = random_scene(&random);
        struct tpp_space_limits *limits = &scene.limits;
        limits->tensor_parallel = maybe(&random, PICK(&random, 1, 2, 4));
        limits->pipeline_parallel = maybe(&random, PICK(&random, 1, 2, 3));
        limits->virtual_pipeline_stages = maybe(&random, PICK(&random, 1, 2));
        limits->context_parallel = maybe(&random, PICK(&random, 1, 2));
        limits->data_parallel = maybe(&random, PICK(&random, 2, 4, 6));
        limits->expert_parallel = maybe(&random, PICK(&random, 1, 2));
        limits->micro_batch_size = maybe(&random, PICK(&random, 1, 2, 24));
        limits->zero_stage = maybe(&random, PICK(&random, 0, 1, 3));
        limits->sequence_parallel = maybe(&random, PICK(&random, 0, 1));
        limits->recompute = maybe(&random, PICK(&random, 0, 1, 2));
        limits->offload = maybe(&random, PICK(&random, 0, 1));
        limits->reduce_bucket_size = maybe(&random, 123456);
        limits->context_kind = maybe(&random, PICK(&random, 0, 1, 2, 3));
        limits->max_pipeline_parallel = 6;
        const struct collection all = collect_all(&scene);
        for (size_t k = 0; k < all.count; k++) {
            const struct tpp_strategy *s = &all.plans[k].strategy;
            assert_true(holds(limits->tensor_parallel, s->tensor_parallel));
            assert_true(holds(limits->pipeline_parallel, s->pipeline_parallel) && s->pipeline_parallel <= 6);
            assert_true(holds(limits->virtual_pipeline_stages, s->virtual_pipeline_stages));
            assert_true(holds(limits->context_parallel, s->context_parallel));
            assert_true(holds(limits->data_parallel, s->data_parallel));
            assert_true(holds(limits->expert_parallel, s->expert_parallel));
            assert_true(holds(limits->micro_batch_size, s->micro_batch_size));
            assert_true(holds(limits->zero_stage, s->zero_stage));
            assert_true(holds(limits->sequence_parallel, s->sequence_parallel));
            assert_true(holds(limits->recompute, s->recompute) && holds(limits->offload, s->offload));
            assert_true(holds(limits->reduce_bucket_size, s->reduce_bucket_size));
            assert_true(s->context_parallel == 1 || holds(limits->context_kind, s->context_kind));
            assert_true(s->tensor_parallel <= scene.hardware.node.num_gpus);
        }
        seen += all.count;
        free(all.plans);
    }
    assert_true(seen > 1000);
}

/* The variants of a group are accepted or refused together, and no strategy is made twice. */
static int by_strategy(const void *left, const void *right)
{
    return tpp_strategy_compare(&((const struct tpp_plan *)left)->strategy,
                                &((const struct tpp_plan *)right)->strategy);
}

static void no_strategy_is_made_twice(void **state)
{
    (void)state;
    struct tpp_random random = {.state = 31};
    for (int i = 0; i < TPP_NUM_CASES(8, 4); i++) {
        struct scene scene = random_scene(&random);
        struct collection all = collect_all(&scene);
        sort(&all, by_strategy);
        for (size_t k = 1; k < all.count; k++) {
            assert_true(by_strategy(&all.plans[k - 1], &all.plans[k]) < 0);
        }
        free(all.plans);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pruning_threads_and_steps_do_not_change_the_answer),
        cmocka_unit_test(the_search_finds_what_brute_force_finds),
        cmocka_unit_test(every_ranked_plan_is_valid_and_in_order),
        cmocka_unit_test(a_card_that_is_too_small_has_nearest_plans_in_order),
        cmocka_unit_test(pins_and_limits_hold_for_every_plan),
        cmocka_unit_test(no_strategy_is_made_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
