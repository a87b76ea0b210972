/* When the stages of a Megatron pipeline start their reductions: the rule of its schedules.py, on what was simulated. */
#include "costmodel/collective_time.h"
#include "costmodel/data_parallel.h"
#include "costmodel/evaluator.h"
#include "costmodel/simulator/slices.h"
#include "tests/support/shapes.h"

enum { STAGES = 4, MAX_PASSES = 64 };

struct scene {
    struct tpp_model model;
    struct tpp_hardware hardware;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_strategy strategy;
    struct tpp_evaluator *evaluator;
    struct tpp_simulation *simulation;
    const struct tpp_simulation_result *result;
};

/* Llama 3.1 8B, tp 2, 4 stages, 4 replicas over nodes, 8 micro-batches. */
static void simulate(struct scene *scene, const char *text)
{
    const struct tpp_simulation_options options = tpp_simulation_options_defaults();
    bool done;
    scene->model = shape_preset("llama3.1-8b");
    scene->hardware = shape_cluster("dgx-h100");
    scene->job = shape_job(32, 8192, 32);
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_LM, &scene->hardware.gpu, &scene->job, &scene->stack);
    assert_int_equal(tpp_evaluator_new(&scene->model, &scene->hardware, &scene->job, &scene->stack, &scene->evaluator,
                                       NULL),
                     TPP_OK);
    scene->strategy = shape_strategy(text, &scene->job);
    assert_int_equal(scene->strategy.num_micro_batches, 8);
    assert_int_equal(tpp_simulation_new(scene->evaluator, &scene->strategy, &options, &scene->simulation, NULL), TPP_OK);
    assert_int_equal(tpp_simulation_run(scene->simulation, UINT64_MAX, &done, NULL), TPP_OK);
    scene->result = tpp_simulation_result(scene->simulation);
}

static void release(struct scene *scene)
{
    tpp_simulation_free(scene->simulation);
    tpp_evaluator_free(scene->evaluator);
}

/* Backward passes of a stage in the order they ran. */
static uint32_t backward_passes(const struct scene *scene, uint32_t stage, const struct tpp_simulated_op **passes)
{
    uint32_t count = 0;
    for (size_t i = 0; i < scene->result->num_ops; i++) {
        const struct tpp_simulated_op *op = &scene->result->ops[i];
        if (op->stage == stage && op->pass == TPP_PASS_BACKWARD) {
            assert_true(count < MAX_PASSES);
            passes[count++] = op;
        }
    }
    return count;
}

static uint32_t last_of_chunk(const struct tpp_simulated_op **passes, uint32_t count, uint32_t chunk)
{
    uint32_t last = UINT32_MAX;
    for (uint32_t k = 0; k < count; k++)
        last = passes[k]->chunk == chunk ? k : last;
    assert_true(last < count);
    return last;
}

struct buckets {
    uint32_t chunk, count;
    double first_seconds; /* when the first may start */
};

static void look_at_bucket(const struct tpp_graph_task *task, void *context)
{
    struct buckets *buckets = context;
    assert_string_equal(task->name, "gradient bucket");
    if (task->chunk == buckets->chunk && buckets->count++ == 0)
        buckets->first_seconds = task->ready_seconds;
}

static struct buckets buckets_of(const struct scene *scene, uint32_t stage, uint32_t chunk)
{
    struct buckets buckets = {.chunk = chunk};
    tpp_simulation_visit_slices(scene->simulation, stage, TPP_TRACK_REDUCE, look_at_bucket, &buckets);
    assert_true(buckets.count > 0);
    return buckets;
}

/* Chunks of rank r: r and r + 4 in model order. Backward takes micro-batches in groups of 4, chunk 1 then chunk 0: pass 11 is
 * the last of chunk 1, pass 15 that of chunk 0. So chunk 1 starts behind pass 11 + r; pass 15 + r is there on rank 0 alone, and
 * what is left starts behind pass 15: on the first rank it all starts there, too. */
static void interleaved_ranks_start_a_chunk_as_many_passes_later_as_they_are_ahead(void **state)
{
    (void)state;
    struct scene scene;
    const struct tpp_simulated_op *passes[MAX_PASSES];
    simulate(&scene, "tp=2,pp=4,vp=2,mbs=1,zero=1,sp=1");
    for (uint32_t r = 0; r < STAGES; r++) {
        assert_int_equal(backward_passes(&scene, r, passes), 16);
        assert_int_equal(last_of_chunk(passes, 16, r + STAGES), 11);
        assert_int_equal(last_of_chunk(passes, 16, r), 15);
        CHECK_NUMBER(buckets_of(&scene, r, r + STAGES).first_seconds, passes[11 + r]->end_seconds, 1e-9);
        CHECK_NUMBER(buckets_of(&scene, r, r).first_seconds, passes[15]->end_seconds, 1e-9);
    }
    release(&scene);
}

struct gathers {
    uint32_t chunk;
    double ready_seconds, before_seconds; /* when the chunk's first gather may start, when the one before it has ended */
    bool is_found;
};

static void look_at_gather(const struct tpp_graph_task *task, void *context)
{
    struct gathers *gathers = context;
    assert_string_equal(task->name, "parameter gather");
    if (task->chunk == gathers->chunk && !gathers->is_found) {
        gathers->is_found = true;
        gathers->ready_seconds = task->ready_seconds;
    }
    if (!gathers->is_found)
        gathers->before_seconds = task->end_seconds;
}

/* 4 chunks a stage, forward in groups of 4: chunk c begins with pass 4 c. Chunks 0 and 1 are asked for when the step begins;
 * chunk 2 when the first rank comes to pass 4, the first of chunk 1, which is pass 4 - r of rank r, and chunk 3 at pass 8 - r. */
static void interleaved_ranks_gather_a_chunk_when_the_first_one_comes_to_its_predecessor(void **state)
{
    (void)state;
    struct scene scene;
    simulate(&scene, "tp=2,pp=4,vp=4,mbs=1,zero=1,sp=1");
    for (uint32_t r = 0; r < STAGES; r++) {
        double ends[4 * 8]; /* of forward passes, as they ran */
        uint32_t count = 0;
        for (size_t i = 0; i < scene.result->num_ops; i++)
            if (scene.result->ops[i].stage == r && scene.result->ops[i].pass == TPP_PASS_FORWARD)
                ends[count++] = scene.result->ops[i].end_seconds;
        assert_int_equal(count, 4 * 8);
        for (uint32_t chunk = 0; chunk < 4; chunk++) {
            struct gathers gathers = {.chunk = chunk * STAGES + r};
            tpp_simulation_visit_slices(scene.simulation, r, TPP_TRACK_GATHER, look_at_gather, &gathers);
            const double asked = chunk < 2 ? 0 : ends[4 * (chunk - 1) - r - 1];
            assert_true(gathers.is_found);
            CHECK_NUMBER(gathers.ready_seconds, fmax(asked, gathers.before_seconds), 1e-9);
        }
    }
    release(&scene);
}

/* Latest less earliest start of the second chunk, in backward passes of a chunk. */
static double spread_of_second_chunk(const struct scene *scene)
{
    const struct tpp_simulated_op *passes[MAX_PASSES];
    double earliest = INFINITY, latest = 0;
    for (uint32_t r = 0; r < STAGES; r++) {
        const double start = buckets_of(scene, r, r + STAGES).first_seconds;
        earliest = fmin(earliest, start);
        latest = fmax(latest, start);
    }
    backward_passes(scene, 1, passes);
    return (latest - earliest) / (passes[0]->end_seconds - passes[0]->start_seconds);
}

/* On their own, ranks finish pass 11 one after the other: three backward passes from the last rank to the first, and two more
 * forward passes of a third of their sum, as rank 3 still alternates: 3 and more. Aligned, all start within one and a half. */
static void aligned_ranks_start_at_about_the_same_time(void **state)
{
    (void)state;
    struct scene aligned, alone;
    simulate(&aligned, "tp=2,pp=4,vp=2,mbs=1,zero=1,sp=1");
    simulate(&alone, "tp=2,pp=4,vp=2,mbs=1,zero=1,sp=1,align_grad_reduce=0");
    assert_true(spread_of_second_chunk(&aligned) < 1.5);
    assert_true(spread_of_second_chunk(&alone) > 2.5);
    /* The price: the first chunk of the first rank, whose last pass ends the pipeline, is reduced in the open. It has 4 of the
     * 32 layers, 218103808 parameters over tp 2 and norms of 8192, and the embedding of 128256 x 4096 / 2: 698.9e6 elements in
     * 18 buckets of at most 4e7. */
    const struct tpp_replicas replicas = tpp_replicas_make(&aligned.strategy, &aligned.stack, 8);
    const double size = ((4 * 218103808.0 + 128256.0 * 4096) / 2 + 4 * 8192) / 18;
    assert_int_equal(buckets_of(&aligned, 0, 0).count, 18);
    CHECK_NUMBER(aligned.result->gradient_exposed_seconds,
                 18 * tpp_collective_seconds(&aligned.evaluator->links, TPP_REDUCE_SCATTER, &replicas.all,
                                             aligned.stack.reduce_bytes * size),
                 1e-6);
    /* Alone, what the embedding adds at the end stays: 262.7e6 of 698.9e6 elements, 6.8 buckets, and what waits before them. */
    assert_true(alone.result->gradient_exposed_seconds > 0.376 * aligned.result->gradient_exposed_seconds &&
                alone.result->gradient_exposed_seconds < 0.6 * aligned.result->gradient_exposed_seconds);
    release(&aligned);
    release(&alone);
}

/* forward_backward_pipelining_without_interleaving: the first stage alone overlaps its last pass. */
static void without_interleaving_all_but_the_first_stage_start_behind_their_last_pass(void **state)
{
    (void)state;
    struct scene scene;
    const struct tpp_simulated_op *passes[MAX_PASSES];
    simulate(&scene, "tp=2,pp=4,mbs=1,zero=1,sp=1");
    for (uint32_t r = 0; r < STAGES; r++) {
        assert_int_equal(backward_passes(&scene, r, passes), 8);
        if (r > 0)
            CHECK_NUMBER(buckets_of(&scene, r, r).first_seconds, passes[7]->end_seconds, 1e-9);
        else
            assert_true(buckets_of(&scene, r, r).first_seconds < passes[7]->end_seconds);
    }
    release(&scene);
}

static void switched_off_every_stage_overlaps_its_last_pass(void **state)
{
    (void)state;
    struct scene scene;
    const struct tpp_simulated_op *passes[MAX_PASSES];
    simulate(&scene, "tp=2,pp=4,mbs=1,zero=1,sp=1,align_grad_reduce=0");
    for (uint32_t r = 0; r < STAGES; r++) {
        const uint32_t count = backward_passes(&scene, r, passes);
        const double first = buckets_of(&scene, r, r).first_seconds;
        assert_true(first > passes[count - 1]->start_seconds && first < passes[count - 1]->end_seconds);
    }
    release(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interleaved_ranks_start_a_chunk_as_many_passes_later_as_they_are_ahead),
        cmocka_unit_test(interleaved_ranks_gather_a_chunk_when_the_first_one_comes_to_its_predecessor),
        cmocka_unit_test(aligned_ranks_start_at_about_the_same_time),
        cmocka_unit_test(without_interleaving_all_but_the_first_stage_start_behind_their_last_pass),
        cmocka_unit_test(switched_off_every_stage_overlaps_its_last_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
