/* Whole plans through the event model: example E16, agreement with the evaluator, V-shaped schedules. */
#include "costmodel/schedules/plan_schedule.h"
#include "tests/support/shapes.h"
#include "tests/support/specification.h"

enum { MAX_CHUNKS = 128 };

struct plan {
    struct tpp_model model;
    struct tpp_hardware hardware;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_strategy strategy;
    struct tpp_evaluator *evaluator;
    struct tpp_cost cost;
    struct tpp_schedule_chunk chunks[MAX_CHUNKS];
    struct tpp_schedule_problem problem;
    struct tpp_schedule_run *run;
    struct tpp_schedule_summary summary;
};

static void play(struct plan *plan, const char *strategy)
{
    struct tpp_error err = {0};
    plan->strategy = shape_strategy(strategy, &plan->job);
    if (tpp_evaluator_new(&plan->model, &plan->hardware, &plan->job, &plan->stack, &plan->evaluator, &err) != TPP_OK ||
        tpp_evaluator_cost(plan->evaluator, &plan->strategy, &plan->cost, &err) != TPP_OK ||
        tpp_plan_schedule(plan->evaluator, &plan->strategy, plan->chunks, &plan->problem, &err) != TPP_OK ||
        tpp_schedule_run_new(&plan->run, &err) != TPP_OK ||
        tpp_schedule_step(plan->run, &plan->problem, &plan->summary, &err) != TPP_OK)
        fail_msg("%s: %s (%s)", strategy, err.message, err.where);
}

static void stop(struct plan *plan)
{
    tpp_schedule_run_free(plan->run);
    tpp_evaluator_free(plan->evaluator);
}

/* GPT-3 175B on 64 A100, the Megatron of Korthikanti et al. */
static void make_gpt3(struct plan *plan)
{
    plan->model = shape_preset("gpt3-175b");
    plan->hardware = tpp_specification_cluster("dgx-a100-80g", "a100-sxm4-80g");
    plan->job = shape_job(64, 2048, 64);
    plan->stack = shape_korthikanti_stack(&plan->hardware.gpu, &plan->job);
}

/* Seconds of the step that the closed form of the pipeline gives: all but what comes once a step. */
static double pipeline_seconds(const struct tpp_cost *cost)
{
    return cost->step_seconds - cost->time_terms[TPP_TIME_GRADIENT_COMM] - cost->time_terms[TPP_TIME_OPTIMIZER] -
           cost->time_terms[TPP_TIME_OFFLOAD] - cost->time_terms[TPP_TIME_FIXED];
}

static void gpt3_on_64_gpus_is_example_e16(void **state)
{
    (void)state;
    /* Pipeline 13.730 s, with the head on the last chunk; our layers and head make it 0.6 % less, event by event and in
     * the closed form alike: the last stage, which has the head, never waits once it has begun. */
    struct plan plan;
    make_gpt3(&plan);
    play(&plan, "tp=8,pp=8,vp=3,mbs=1,sp=1,recompute=selective");
    CHECK_NUMBER(plan.summary.makespan_seconds, 13.730, 1e-2);
    CHECK_NUMBER(plan.summary.makespan_seconds, pipeline_seconds(&plan.cost), 1e-3);
    stop(&plan);
}

static void stages_are_as_busy_as_the_evaluator_says(void **state)
{
    (void)state;
    static const char *const strategies[] = {
        "tp=8,pp=8,vp=3,mbs=1,sp=1,recompute=selective",
        "tp=8,pp=8,mbs=1,sp=1,recompute=full:5",
        "tp=8,pp=8,vp=2,mbs=1,sp=1,schedule=zb-v",
        "tp=8,pp=4,mbs=1,sp=1,schedule=zb-h1",
        "tp=8,pp=1,mbs=1,sp=1",
        "tp=8,pp=8,mbs=1,sp=1,first_layers=9,last_layers=9",
        "tp=8,pp=8,mbs=1,sp=1,recompute=full:5,schedule=dualpipe",
        "tp=8,pp=4,mbs=1,sp=1,schedule=dualpipe,first_layers=20,last_layers=28",
    };
    for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++) {
        struct plan plan;
        make_gpt3(&plan);
        play(&plan, strategies[k]);
        struct tpp_stage_cost costs[8];
        assert_int_equal(tpp_evaluator_stages(plan.evaluator, &plan.strategy, costs, NULL), TPP_OK);
        const struct tpp_schedule_stage *stages = tpp_schedule_run_stages(plan.run);
        double sent = 0, busy = 0;
        for (uint32_t r = 0; r < plan.strategy.pipeline_parallel; r++) {
            const double work = costs[r].forward_seconds + costs[r].backward_seconds + costs[r].recompute_seconds;
            busy = fmax(busy, stages[r].busy_seconds);
            sent = fmax(sent, stages[r].busy_seconds - work * plan.problem.num_micro_batches);
            assert_true(stages[r].busy_seconds >= work * plan.problem.num_micro_batches * (1 - 1e-12));
        }
        /* Transfers of a stage: 2v a micro-batch, fewer at the ends, 4 for the inside of a V. */
        const double v = plan.strategy.virtual_pipeline_stages, p = plan.strategy.pipeline_parallel;
        CHECK_NUMBER(sent, p > 1 ? 2 * v * plan.problem.num_micro_batches * plan.problem.transfer_seconds : 0, 1e-6);
        CHECK_NUMBER(plan.cost.imbalance_seconds * plan.problem.num_micro_batches, plan.summary.imbalance_seconds,
                     1e-6);
        stop(&plan);
    }
}

/* 1F1B waits for its slowest stage once a micro-batch and for the others once: the closed form holds with uneven stages
 * too when the slow one is an end. */
static void closed_forms_hold_for_a_slow_head(void **state)
{
    (void)state;
    static const char *const strategies[] = {"tp=8,pp=8,mbs=1,sp=1,recompute=selective", "tp=8,pp=4,mbs=1,sp=1",
                                             "tp=8,pp=2,mbs=2,sp=1,recompute=full"};
    for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++) {
        struct plan plan;
        make_gpt3(&plan);
        play(&plan, strategies[k]);
        CHECK_NUMBER(plan.summary.makespan_seconds, pipeline_seconds(&plan.cost), 1e-2);
        stop(&plan);
    }
}

/* bf16 has no fp32 copies of gradients in the step, which would be the peak. */
static void make_gpt3_in_bf16(struct plan *plan)
{
    make_gpt3(plan);
    plan->job.precision = TPP_PRECISION_BF16;
    tpp_stack_set_dtypes(&plan->stack, &plan->job);
}

static void kept_bytes_are_those_of_the_memory_walk(void **state)
{
    (void)state;
    struct plan plan;
    make_gpt3_in_bf16(&plan);
    play(&plan, "tp=8,pp=8,mbs=1,sp=1,recompute=selective");
    struct tpp_stage_cost costs[8];
    assert_int_equal(tpp_evaluator_stages(plan.evaluator, &plan.strategy, costs, NULL), TPP_OK);
    for (uint32_t r = 0; r < 8; r++)
        CHECK_NUMBER(tpp_schedule_run_stages(plan.run)[r].peak_activation_bytes,
                     costs[r].memory.terms[TPP_MEMORY_ACTIVATIONS], 1e-12);
    stop(&plan);
}

/* With fp16 the peak of these stages is the optimizer's step, where no activations are left: they are kept all the same. */
static void kept_bytes_do_not_depend_on_where_the_peak_is(void **state)
{
    (void)state;
    struct plan plan;
    make_gpt3(&plan);
    plan.job.global_batch_size = 8;
    play(&plan, "tp=8,pp=8,mbs=1,sp=1,recompute=selective");
    assert_true(plan.cost.memory.terms[TPP_MEMORY_ACTIVATIONS] == 0);
    for (uint32_t r = 0; r < 8; r++) /* 12 layers of E5, 8 - r micro-batches */
        CHECK_NUMBER(tpp_schedule_run_stages(plan.run)[r].peak_activation_bytes, (8 - r) * 12 * 106954752.0, 1e-12);
    stop(&plan);
}

/* Embedding and head on stage 0, no all-reduce of the tied embedding, no second copy. */
static void a_v_has_both_ends_on_its_first_stage(void **state)
{
    (void)state;
    struct plan plan;
    make_gpt3(&plan);
    play(&plan, "tp=8,pp=8,vp=2,mbs=1,sp=1,schedule=zb-v");
    struct tpp_stage_cost costs[8];
    assert_int_equal(tpp_evaluator_stages(plan.evaluator, &plan.strategy, costs, NULL), TPP_OK);
    /* E2: 2,718,922,752 of 12 layers; embedding 51200*1536 + 2048*12288 positions = 103,809,024 as on stage 0 of E2;
     * head and final norm 78,667,776 as on its last stage. */
    assert_int_equal(costs[0].parameters, 2718922752 + 103809024 + 78667776);
    assert_int_equal(costs[7].parameters, 2718922752);
    stop(&plan);
}

/* README of deepseek-ai/DualPipe: 2x the parameters, PP + 1 activations; DeepSeek-V3 report, 3.2.1: the shallowest and the
 * deepest layers on the same rank. E2: stages of 8 hold 2,822,731,776, 2,718,922,752 in the middle and 2,797,590,528
 * parameters. E5: 106,954,752 bytes a layer with selective recomputation. */
static void dualpipe_holds_two_stages_and_nine_activations_of_eight(void **state)
{
    (void)state;
    struct plan plan;
    make_gpt3_in_bf16(&plan);
    play(&plan, "tp=8,pp=8,mbs=1,sp=1,recompute=selective,schedule=dualpipe");
    struct tpp_stage_cost costs[8];
    assert_int_equal(tpp_evaluator_stages(plan.evaluator, &plan.strategy, costs, NULL), TPP_OK);
    for (uint32_t r = 0; r < 8; r++) {
        const bool is_end = r == 0 || r == 7;
        assert_int_equal(costs[r].parameters, is_end ? 2822731776 + 2797590528 : 2 * 2718922752);
        assert_int_equal(costs[r].num_layers, 24);
        CHECK_NUMBER(costs[r].memory.terms[TPP_MEMORY_ACTIVATIONS], 9 * 12 * 106954752.0, 1e-12);
        CHECK_NUMBER(tpp_schedule_run_stages(plan.run)[r].peak_activation_bytes, 9 * 12 * 106954752.0, 1e-12);
        CHECK_NUMBER(tpp_schedule_run_stages(plan.run)[r].peak_micro_batches, 9, 1e-12);
    }
    /* E4: 18 bytes a parameter without sharding. */
    CHECK_NUMBER(costs[0].memory.terms[TPP_MEMORY_WEIGHTS] + costs[0].memory.terms[TPP_MEMORY_GRADIENTS] +
                     costs[0].memory.terms[TPP_MEMORY_OPTIMIZER],
                 18 * 5620322304.0, 1e-12);
    /* Embedding and head are on one rank: nothing is summed between the ends. */
    assert_true(costs[0].memory.terms[TPP_MEMORY_COMMUNICATORS] == costs[3].memory.terms[TPP_MEMORY_COMMUNICATORS]);
    stop(&plan);
}

/* Both copies of a stage reduce together: the optimizer's 12 bytes of fp16 are shared by 2 dp ranks. 128 GPUs: dp = 2. */
static void dualpipe_shards_states_over_both_copies(void **state)
{
    (void)state;
    struct plan plan;
    make_gpt3(&plan);
    plan.job.num_gpus = 128;
    play(&plan, "tp=8,pp=8,mbs=1,sp=1,zero=1,schedule=dualpipe");
    struct tpp_stage_cost costs[8];
    assert_int_equal(tpp_evaluator_stages(plan.evaluator, &plan.strategy, costs, NULL), TPP_OK);
    CHECK_NUMBER(costs[3].memory.terms[TPP_MEMORY_OPTIMIZER], 12 * 2 * 2718922752.0 / 4, 1e-12);
    CHECK_NUMBER(costs[3].memory.terms[TPP_MEMORY_WEIGHTS], 2 * 2 * 2718922752.0, 1e-12);
    stop(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt3_on_64_gpus_is_example_e16),
        cmocka_unit_test(stages_are_as_busy_as_the_evaluator_says),
        cmocka_unit_test(closed_forms_hold_for_a_slow_head),
        cmocka_unit_test(kept_bytes_are_those_of_the_memory_walk),
        cmocka_unit_test(kept_bytes_do_not_depend_on_where_the_peak_is),
        cmocka_unit_test(a_v_has_both_ends_on_its_first_stage),
        cmocka_unit_test(dualpipe_holds_two_stages_and_nine_activations_of_eight),
        cmocka_unit_test(dualpipe_shards_states_over_both_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
