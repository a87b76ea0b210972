/* The event model of the pipeline schedules: small pipelines by hand, the table of micro-batches in flight
 * (cost-model 4.3, E7), example E8, what is refused, and what a run hands out. */
#include "costmodel/schedules/schedule.h"
#include "tests/support/check_number.h"
#include "tests/support/failing_alloc.h"

#include <string.h>

enum { MAX_CHUNKS = 64 };

struct pipeline {
    struct tpp_schedule_run *run;
    struct tpp_schedule_chunk chunks[MAX_CHUNKS];
    struct tpp_schedule_problem problem;
    struct tpp_schedule_summary summary;
    struct tpp_error err;
};

/* All chunks alike: the full stage's F, B, W over v; activations of 34 and 32 bytes a full stage. */
static struct pipeline make(enum tpp_schedule schedule, uint32_t p, uint32_t v, uint32_t m, double f, double b,
                            double w)
{
    struct pipeline pipeline = {
        .problem = {
            .schedule = schedule, .pipeline_parallel = p, .virtual_pipeline_stages = v, .num_micro_batches = m}};
    assert_int_equal(tpp_schedule_run_new(&pipeline.run, &pipeline.err), TPP_OK);
    for (uint32_t g = 0; g < p * v; g++)
        pipeline.chunks[g] = (struct tpp_schedule_chunk){f / v, b / v, w / v, 34.0 / v, 32.0 / v};
    return pipeline;
}

static void play(struct pipeline *pipeline)
{
    pipeline->problem.chunks = pipeline->chunks;
    if (tpp_schedule_step(pipeline->run, &pipeline->problem, &pipeline->summary, &pipeline->err) != TPP_OK)
        fail_msg("%s: %s", tpp_schedule_name(pipeline->problem.schedule), pipeline->err.message);
}

static double makespan(enum tpp_schedule schedule, uint32_t p, uint32_t v, uint32_t m, double f, double b, double w)
{
    struct pipeline pipeline = make(schedule, p, v, m, f, b, w);
    play(&pipeline);
    tpp_schedule_run_free(pipeline.run);
    return pipeline.summary.makespan_seconds;
}

static void small_schedules_are_those_of_example_e8(void **state)
{
    (void)state;
    CHECK_NUMBER(makespan(TPP_SCHEDULE_GPIPE, 4, 1, 8, 1, 1, 1), 33, 1e-12);
    CHECK_NUMBER(makespan(TPP_SCHEDULE_1F1B, 4, 1, 8, 1, 1, 1), 33, 1e-12);
    CHECK_NUMBER(makespan(TPP_SCHEDULE_ZB_H1, 4, 1, 8, 1, 1, 1), 27, 1e-12);
    CHECK_NUMBER(makespan(TPP_SCHEDULE_INTERLEAVED, 4, 2, 8, 1, 1, 1), 28.5, 1e-12);
}

static void one_stage_does_nothing_but_work(void **state)
{
    (void)state;
    for (enum tpp_schedule schedule = TPP_SCHEDULE_GPIPE; schedule <= TPP_SCHEDULE_DUALPIPEV; schedule++) {
        if (schedule == TPP_SCHEDULE_DUALPIPE)
            continue; /* needs two */
        const uint32_t v = schedule == TPP_SCHEDULE_ZB_V || schedule == TPP_SCHEDULE_DUALPIPEV ? 2 : 1;
        CHECK_NUMBER(makespan(schedule, 1, v, 5, 1.25, 2, 0.5), 5 * 3.75, 1e-12);
    }
}

/* Stages 2, 2, 2, 3 s (F 1 of each), m = 5: the last stage works 5 * 3 without a break from 3 on, the others fill with
 * 1 each and drain with 1 each: 3 + 15 + 3. */
static void the_slowest_stage_sets_the_pace(void **state)
{
    (void)state;
    struct pipeline pipeline = make(TPP_SCHEDULE_1F1B, 4, 1, 5, 1, 0.6, 0.4);
    pipeline.chunks[3].backward_seconds = 1.6;
    play(&pipeline);
    const struct tpp_schedule_stage *stages = tpp_schedule_run_stages(pipeline.run);
    CHECK_NUMBER(pipeline.summary.makespan_seconds, 21, 1e-12);
    CHECK_NUMBER(stages[3].first_start_seconds, 3, 1e-12);
    CHECK_NUMBER(stages[3].last_end_seconds, 18, 1e-12);
    CHECK_NUMBER(stages[3].busy_seconds, 15, 1e-12);
    CHECK_NUMBER(pipeline.summary.imbalance_seconds, 15, 1e-12); /* 3 stages of 10 s beside one of 15 */
    CHECK_NUMBER(pipeline.summary.bubble_fraction, 1 - 45.0 / 84, 1e-12);
    tpp_schedule_run_free(pipeline.run);
}

/* p = 2, m = 1: F F' B' B with a blocking transfer of 0.25 on the receiving op and 0.5 on the wire, each way. */
static void transfers_cost_the_wire_and_the_receiver(void **state)
{
    (void)state;
    struct pipeline pipeline = make(TPP_SCHEDULE_1F1B, 2, 1, 1, 1, 2, 3);
    pipeline.problem.edge_seconds = 0.5;
    pipeline.problem.transfer_seconds = 0.25;
    play(&pipeline);
    CHECK_NUMBER(pipeline.summary.makespan_seconds, 1 + 0.5 + 1.25 + 5 + 0.5 + 5.25, 1e-12);
    tpp_schedule_run_free(pipeline.run);
}

/* The V turns on the last stage: no wire between its two chunks. */
static void the_turn_of_a_v_costs_nothing(void **state)
{
    (void)state;
    struct pipeline pipeline = make(TPP_SCHEDULE_ZB_V, 2, 2, 1, 2, 2, 2);
    pipeline.problem.edge_seconds = 0.5;
    play(&pipeline);
    /* F there 1, wire, F there, F back, wire, F back; the same four B and two wires; the last W. */
    CHECK_NUMBER(pipeline.summary.makespan_seconds, 8 + 4 * 0.5 + 1, 1e-12);
    tpp_schedule_run_free(pipeline.run);
}

static double in_flight(enum tpp_schedule schedule, uint32_t v, uint32_t stage)
{
    struct pipeline pipeline = make(schedule, 8, v, 48, 1, 1, 1);
    play(&pipeline);
    const double peak = tpp_schedule_run_stages(pipeline.run)[stage].peak_micro_batches;
    tpp_schedule_run_free(pipeline.run);
    return peak;
}

static void micro_batches_in_flight_are_those_of_example_e7(void **state)
{
    (void)state;
    CHECK_NUMBER(in_flight(TPP_SCHEDULE_GPIPE, 1, 5), 48, 1e-12);
    CHECK_NUMBER(in_flight(TPP_SCHEDULE_1F1B, 1, 0), 8, 1e-12);
    CHECK_NUMBER(in_flight(TPP_SCHEDULE_1F1B, 1, 3), 5, 1e-12);
    CHECK_NUMBER(in_flight(TPP_SCHEDULE_1F1B, 1, 7), 1, 1e-12);
    CHECK_NUMBER(in_flight(TPP_SCHEDULE_INTERLEAVED, 3, 0), 31.0 / 3, 1e-12);
    CHECK_NUMBER(in_flight(TPP_SCHEDULE_INTERLEAVED, 3, 7), 17.0 / 3, 1e-12);
    CHECK_NUMBER(in_flight(TPP_SCHEDULE_ZB_H2, 1, 0), 15, 1e-12);
    CHECK_NUMBER(in_flight(TPP_SCHEDULE_ZB_V, 2, 0), 8, 1e-12);
    CHECK_NUMBER(in_flight(TPP_SCHEDULE_ZB_V, 2, 7), 8, 1e-12);
    CHECK_NUMBER(in_flight(TPP_SCHEDULE_DUALPIPE, 1, 0), 9, 1e-12);
    CHECK_NUMBER(in_flight(TPP_SCHEDULE_DUALPIPE, 1, 4), 9, 1e-12);
}

/* ZB-H1, stage r: p - r micro-batches whose B has not run and r whose W has not: (p-r) M_B + r M_W. */
static void activation_bytes_of_zb_h1_are_the_rule(void **state)
{
    (void)state;
    struct pipeline pipeline = make(TPP_SCHEDULE_ZB_H1, 8, 1, 48, 1, 1, 1);
    play(&pipeline);
    for (uint32_t r = 0; r < 8; r++)
        CHECK_NUMBER(tpp_schedule_run_stages(pipeline.run)[r].peak_activation_bytes, (8 - r) * 34.0 + r * 32.0, 1e-12);
    assert_int_equal(pipeline.summary.worst_stage, 0);
    CHECK_NUMBER(pipeline.summary.peak_activation_bytes, 8 * 34.0, 1e-12);
    tpp_schedule_run_free(pipeline.run);
}

/* 8.1: no wait at all when F = B = W, with the memory of 1F1B. */
static void zb_v_has_no_bubble_when_all_ops_are_alike(void **state)
{
    (void)state;
    static const uint32_t micro_batches[] = {2, 3, 4, 7};
    for (uint32_t p = 2; p <= 9; p++)
        for (size_t k = 0; k < sizeof micro_batches / sizeof micro_batches[0]; k++) {
            struct pipeline pipeline = make(TPP_SCHEDULE_ZB_V, p, 2, p * micro_batches[k] + k % 2, 2, 2, 2);
            play(&pipeline);
            assert_true(pipeline.summary.span_bubble_fraction == 0);
            assert_true(pipeline.summary.peak_activation_bytes <= p * 34.0);
            tpp_schedule_run_free(pipeline.run);
        }
}

/* (p/2-1)(F&B + B_full - 3W) with F&B = 3, B_full = 2, W = 1: 6 (E8); with 0.5 of each pair hidden, F&B = 2.5: 3 * 1.5
 * = 4.5 on the stages in the middle. */
static void dualpipe_waits_as_its_closed_form_says(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct pipeline pipeline = make(TPP_SCHEDULE_DUALPIPE, 8, 1, 20, 1, 1, 1);
        for (uint32_t g = 0; g < 8; g++) {
            pipeline.chunks[g].hidden_forward_seconds = 0.2 * k;
            pipeline.chunks[g].hidden_backward_seconds = 0.3 * k;
        }
        play(&pipeline);
        const struct tpp_schedule_stage *stages = tpp_schedule_run_stages(pipeline.run);
        for (uint32_t r = 3; r < 5; r++)
            CHECK_NUMBER(pipeline.summary.makespan_seconds - stages[r].busy_seconds, k == 0 ? 6 : 4.5, 1e-12);
        tpp_schedule_run_free(pipeline.run);
    }
}

/* 4 stages of DualPipeV work like 8 of DualPipe with chunks of the same length. */
static void dualpipev_is_half_of_dualpipe(void **state)
{
    (void)state;
    CHECK_NUMBER(makespan(TPP_SCHEDULE_DUALPIPEV, 4, 2, 10, 2, 2, 2),
                 makespan(TPP_SCHEDULE_DUALPIPE, 8, 1, 20, 1, 1, 1), 1e-12);
}

/* Groups of 4 on 2 stages, m = 8, v = 2. Stage 0 first runs 2(p-1) + (v-1)N = 6 forwards: four of chunk 0, two of
 * chunk 2. */
static void interleaving_takes_groups_of_micro_batches(void **state)
{
    (void)state;
    struct pipeline pipeline = make(TPP_SCHEDULE_INTERLEAVED, 2, 2, 8, 1, 1, 1);
    pipeline.problem.microbatch_group_size = 4;
    play(&pipeline);
    size_t count;
    const struct tpp_schedule_op *ops = tpp_schedule_run_ops(pipeline.run, 0, &count);
    static const struct tpp_schedule_op first[] = {
        {0, 0, TPP_SCHEDULE_OP_FORWARD, 0},  {1, 0, TPP_SCHEDULE_OP_FORWARD, 0},  {2, 0, TPP_SCHEDULE_OP_FORWARD, 0},
        {3, 0, TPP_SCHEDULE_OP_FORWARD, 0},  {0, 2, TPP_SCHEDULE_OP_FORWARD, 0},  {1, 2, TPP_SCHEDULE_OP_FORWARD, 0},
        {2, 2, TPP_SCHEDULE_OP_FORWARD, 0},  {0, 2, TPP_SCHEDULE_OP_BACKWARD, 0}, {3, 2, TPP_SCHEDULE_OP_FORWARD, 0},
        {1, 2, TPP_SCHEDULE_OP_BACKWARD, 0}, {4, 0, TPP_SCHEDULE_OP_FORWARD, 0},  {2, 2, TPP_SCHEDULE_OP_BACKWARD, 0},
    };
    assert_int_equal(count, 32);
    assert_memory_equal(ops, first, sizeof first);
    tpp_schedule_run_free(pipeline.run);
}

static void times_follow_the_dependencies(void **state)
{
    (void)state;
    struct pipeline pipeline = make(TPP_SCHEDULE_1F1B, 2, 1, 2, 1, 1, 0);
    play(&pipeline);
    /* Stage 0: F0 0-1, F1 1-2, B0 3-4 (stage 1: F0 1-2, B0 2-3), B1 5-6 (stage 1: F1 3-4, B1 4-5). */
    static const double starts[] = {0, 1, 3, 5};
    size_t count;
    const struct tpp_schedule_time *times = tpp_schedule_run_times(pipeline.run, 0, &count);
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++) {
        CHECK_NUMBER(times[i].start_seconds, starts[i], 1e-12);
        CHECK_NUMBER(times[i].end_seconds, starts[i] + 1, 1e-12);
    }
    CHECK_NUMBER(times[1].activation_bytes, 68, 1e-12);
    CHECK_NUMBER(times[3].activation_bytes, 34, 1e-12);
    assert_int_equal(tpp_schedule_order(pipeline.run, &pipeline.problem, NULL), TPP_OK);
    assert_null(tpp_schedule_run_times(pipeline.run, 0, &count));
    assert_null(tpp_schedule_run_stages(pipeline.run));
    tpp_schedule_run_free(pipeline.run);
}

static void expect_refused(struct pipeline pipeline, enum tpp_code code, const char *message)
{
    pipeline.problem.chunks = pipeline.chunks;
    assert_int_equal(tpp_schedule_step(pipeline.run, &pipeline.problem, &pipeline.summary, &pipeline.err), code);
    if (!strstr(pipeline.err.message, message))
        fail_msg("\"%s\" does not say \"%s\"", pipeline.err.message, message);
    tpp_schedule_run_free(pipeline.run);
}

static void what_cannot_run_is_refused(void **state)
{
    (void)state;
    expect_refused(make(TPP_SCHEDULE_1F1B, 4, 2, 8, 1, 1, 1), TPP_E_STRATEGY, "has 1 chunk(s)");
    expect_refused(make(TPP_SCHEDULE_ZB_V, 4, 1, 8, 1, 1, 1), TPP_E_STRATEGY, "has 2 chunk(s)");
    expect_refused(make(TPP_SCHEDULE_1F1B, 4, 1, 0, 1, 1, 1), TPP_E_STRATEGY, "are not a pipeline");
    expect_refused(make(TPP_SCHEDULE_1F1B, 8, 1, 4000000000, 1, 1, 1), TPP_E_STRATEGY, "too many operations");
    expect_refused(make(TPP_SCHEDULE_INTERLEAVED, 4, 2, 9, 1, 1, 1), TPP_E_STRATEGY, "in groups of 4");
    expect_refused(make(TPP_SCHEDULE_DUALPIPE, 3, 1, 8, 1, 1, 1), TPP_E_STRATEGY, "on 3 stages");
    expect_refused(make(TPP_SCHEDULE_DUALPIPE, 8, 1, 14, 1, 1, 1), TPP_E_STRATEGY, "14 micro-batches");
    expect_refused(make(TPP_SCHEDULE_DUALPIPEV, 8, 2, 15, 1, 1, 1), TPP_E_STRATEGY, "15 micro-batches");
    expect_refused(make(TPP_SCHEDULE_1F1B, 4, 1, 8, -1, 1, 1), TPP_E_RANGE, "chunk 0");
    expect_refused(make(TPP_SCHEDULE_1F1B, 4, 1, 8, 1, NAN, 1), TPP_E_RANGE, "chunk 0");
    struct pipeline limited = make(TPP_SCHEDULE_ZB_1P, 4, 1, 8, 1, 1, 1);
    limited.problem.memory_limit = 0.5;
    expect_refused(limited, TPP_E_STRATEGY, "memory limit of 0.5");
    struct pipeline shape = make(TPP_SCHEDULE_ZB_V, 4, 2, 8, 1, 1, 1);
    shape.problem.memory_limit = 0.25;
    expect_refused(shape, TPP_E_STRATEGY, "memory limit of 0.25");
    struct pipeline slow = make(TPP_SCHEDULE_GPIPE, 4, 1, 8, 1, 1, 1);
    slow.problem.edge_seconds = -1;
    expect_refused(slow, TPP_E_RANGE, "transfer time");
}

static void any_failed_allocation_is_an_error(void **state)
{
    (void)state;
    for (enum tpp_schedule schedule = TPP_SCHEDULE_GPIPE; schedule < TPP_SCHEDULE_COUNT; schedule++)
        for (uint64_t n = 0;; n++) {
            struct pipeline pipeline = make(schedule, 4, tpp_schedule_is_v_shaped(schedule) ? 2 : 1, 8, 1, 1, 1);
            pipeline.problem.chunks = pipeline.chunks;
            tpp_failing_alloc_arm(n);
            const enum tpp_code code =
                tpp_schedule_step(pipeline.run, &pipeline.problem, &pipeline.summary, &pipeline.err);
            const bool has_failed = tpp_failing_alloc_disarm();
            assert_int_equal(code, has_failed ? TPP_E_MEMORY : TPP_OK);
            play(&pipeline); /* the run is still good */
            tpp_schedule_run_free(pipeline.run);
            if (!has_failed)
                break;
        }
}

static void the_table_has_the_names_of_the_strategy(void **state)
{
    (void)state;
    for (enum tpp_schedule schedule = TPP_SCHEDULE_GPIPE; schedule < TPP_SCHEDULE_COUNT; schedule++)
        assert_string_equal(tpp_schedule_info(schedule)->name, tpp_schedule_name(schedule));
    assert_null(tpp_schedule_name(TPP_SCHEDULE_COUNT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_schedules_are_those_of_example_e8),
        cmocka_unit_test(one_stage_does_nothing_but_work),
        cmocka_unit_test(the_slowest_stage_sets_the_pace),
        cmocka_unit_test(transfers_cost_the_wire_and_the_receiver),
        cmocka_unit_test(the_turn_of_a_v_costs_nothing),
        cmocka_unit_test(micro_batches_in_flight_are_those_of_example_e7),
        cmocka_unit_test(activation_bytes_of_zb_h1_are_the_rule),
        cmocka_unit_test(zb_v_has_no_bubble_when_all_ops_are_alike),
        cmocka_unit_test(dualpipe_waits_as_its_closed_form_says),
        cmocka_unit_test(dualpipev_is_half_of_dualpipe),
        cmocka_unit_test(interleaving_takes_groups_of_micro_batches),
        cmocka_unit_test(times_follow_the_dependencies),
        cmocka_unit_test(what_cannot_run_is_refused),
        cmocka_unit_test(any_failed_allocation_is_an_error),
        cmocka_unit_test(the_table_has_the_names_of_the_strategy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
