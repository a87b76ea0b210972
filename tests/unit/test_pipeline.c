/* Closed forms of the schedules against example E8 and table 4.3 (E7). */
#include "costmodel/memory_walk.h"
#include "costmodel/pipeline.h"
#include "tests/support/check_number.h"

static struct tpp_strategy pipeline(enum tpp_schedule schedule, uint32_t p, uint32_t v, uint64_t m)
{
    struct tpp_strategy strategy = tpp_strategy_defaults();
    strategy.schedule = schedule;
    strategy.pipeline_parallel = p;
    strategy.virtual_pipeline_stages = v;
    strategy.num_micro_batches = m;
    return strategy;
}

static struct tpp_pipeline uniform(const struct tpp_strategy *strategy, double stage_seconds, double edge_seconds)
{
    const struct tpp_pipeline_times times = {stage_seconds, (strategy->pipeline_parallel - 1) * stage_seconds,
                                             edge_seconds};
    return tpp_pipeline_step(strategy, &times);
}

static void one_f_one_b_makespan_is_example_e8(void **state)
{
    (void)state;
    /* p=8, m=24, F 18.522, B 18.086, W 9.337, Tc 0.601: 1456.749; rate 1 - 24 * 45.945 / 1456.749 = 0.2431. */
    const struct tpp_strategy strategy = pipeline(TPP_SCHEDULE_1F1B, 8, 1, 24);
    const struct tpp_pipeline step = uniform(&strategy, 18.522 + 18.086 + 9.337, 0.601);
    CHECK_NUMBER(step.seconds, 1456.749, 1e-6);
    CHECK_NUMBER(1 - step.busy_seconds / step.seconds, 0.2431, 2e-4);
}

static void small_schedules_are_those_of_example_e8(void **state)
{
    (void)state;
    /* p=4, m=8, F=B=W=1: 33 for GPipe and 1F1B; interleaved v=2: 28.5. */
    const struct tpp_strategy gpipe = pipeline(TPP_SCHEDULE_GPIPE, 4, 1, 8);
    const struct tpp_strategy plain = pipeline(TPP_SCHEDULE_1F1B, 4, 1, 8);
    const struct tpp_strategy interleaved = pipeline(TPP_SCHEDULE_INTERLEAVED, 4, 2, 8);
    CHECK_NUMBER(uniform(&gpipe, 3, 0).seconds, 33, 1e-12);
    CHECK_NUMBER(uniform(&plain, 3, 0).seconds, 33, 1e-12);
    CHECK_NUMBER(uniform(&interleaved, 3, 0).seconds, 28.5, 1e-12);
}

static void bubble_fractions_are_the_textbook_ones(void **state)
{
    (void)state;
    /* (p-1)/(m+p-1) = 3/5 (field note B2: 2 micro-batches on PP4); interleaved (p-1)/(v m+p-1) = 1/33 (A5 with v = 2). */
    const struct tpp_strategy b2 = pipeline(TPP_SCHEDULE_1F1B, 4, 1, 2);
    const struct tpp_strategy a5 = pipeline(TPP_SCHEDULE_INTERLEAVED, 2, 2, 16);
    CHECK_NUMBER(uniform(&b2, 1.7, 0).bubble_fraction, 0.6, 1e-12);
    CHECK_NUMBER(uniform(&a5, 1.7, 0).bubble_fraction, 1.0 / 33, 1e-12);
}

static void a_slower_last_stage_sets_the_pace(void **state)
{
    (void)state;
    /* Stages 2, 2, 2, 3 s and m = 5: every micro-batch waits for the slow one, 5 * 3, the others fill and drain, 6. */
    const struct tpp_strategy strategy = pipeline(TPP_SCHEDULE_1F1B, 4, 1, 5);
    const struct tpp_pipeline_times times = {3, 6, 0};
    const struct tpp_pipeline step = tpp_pipeline_step(&strategy, &times);
    CHECK_NUMBER(step.seconds, 21, 1e-12);
    CHECK_NUMBER(step.bubble_fraction, 1 - 5 * 9.0 / (4 * 21.0), 1e-12);
}

static void one_stage_has_no_bubble(void **state)
{
    (void)state;
    const struct tpp_strategy strategy = pipeline(TPP_SCHEDULE_1F1B, 1, 1, 7);
    const struct tpp_pipeline step = uniform(&strategy, 2, 1);
    assert_true(step.seconds == 14 && step.bubble_fraction == 0);
}

static void micro_batches_in_flight_are_example_e7(void **state)
{
    (void)state;
    const struct tpp_strategy plain = pipeline(TPP_SCHEDULE_1F1B, 8, 1, 64);
    const struct tpp_strategy interleaved = pipeline(TPP_SCHEDULE_INTERLEAVED, 8, 3, 64);
    const struct tpp_strategy gpipe = pipeline(TPP_SCHEDULE_GPIPE, 8, 1, 11);
    const struct tpp_strategy few = pipeline(TPP_SCHEDULE_1F1B, 8, 1, 3);
    CHECK_NUMBER(tpp_in_flight_micro_batches(&plain, 0), 8, 0);
    CHECK_NUMBER(tpp_in_flight_micro_batches(&plain, 3), 5, 0);
    CHECK_NUMBER(tpp_in_flight_micro_batches(&plain, 7), 1, 0);
    CHECK_NUMBER(tpp_in_flight_micro_batches(&interleaved, 0), 31.0 / 3, 1e-12); /* 10.333 */
    CHECK_NUMBER(tpp_in_flight_micro_batches(&interleaved, 7), 17.0 / 3, 1e-12); /* 5.667 */
    struct tpp_strategy groups = interleaved; /* of 16: 2 (8 - 1) + 2 * 16 + 1 chunks of a micro-batch */
    groups.microbatch_group_size = 16;
    CHECK_NUMBER(tpp_in_flight_micro_batches(&groups, 0), 47.0 / 3, 1e-12);
    CHECK_NUMBER(tpp_in_flight_micro_batches(&gpipe, 5), 11, 0);
    CHECK_NUMBER(tpp_in_flight_micro_batches(&few, 0), 3, 0);
}

static double seconds_of(enum tpp_schedule schedule, uint32_t p, uint32_t v, uint64_t m, double f, double b, double w,
                         double edge)
{
    const struct tpp_strategy strategy = pipeline(schedule, p, v, m);
    const struct tpp_pipeline_times times = {f + b + w, (p - 1) * (f + b + w), edge, (p - 1) * f, (p - 1) * w};
    return tpp_pipeline_step(&strategy, &times).seconds;
}

static void zero_bubble_schedules_are_those_of_example_e8(void **state)
{
    (void)state;
    CHECK_NUMBER(seconds_of(TPP_SCHEDULE_ZB_H1, 8, 1, 24, 18.522, 18.086, 9.337, 0.601), 1310.405, 1e-6);
    CHECK_NUMBER(seconds_of(TPP_SCHEDULE_ZB_1P, 8, 1, 24, 18.522, 18.086, 9.337, 0.601), 1310.405, 1e-6);
    CHECK_NUMBER(seconds_of(TPP_SCHEDULE_ZB_H2, 8, 1, 24, 18.522, 18.086, 9.337, 0.601), 1236.632, 1e-6);
    CHECK_NUMBER(seconds_of(TPP_SCHEDULE_ZB_H1, 4, 1, 8, 1, 1, 1, 0), 27, 1e-12);
    CHECK_NUMBER(seconds_of(TPP_SCHEDULE_ZB_V, 4, 2, 8, 1, 1, 1, 0), 24, 1e-12); /* no bubble for F = B = W */
    CHECK_NUMBER(seconds_of(TPP_SCHEDULE_ZB_2P, 4, 1, 12, 1, 1, 1, 0), 36, 1e-12);
    /* With 8 micro-batches the first stage of 8 gets its first gradient at 8 + 7, and then has 8 B and 8 W to do. */
    CHECK_NUMBER(seconds_of(TPP_SCHEDULE_ZB_2P, 8, 1, 8, 1, 1, 1, 0), 31, 1e-12);
    /* DualPipe idles 6 with F = W = 1, B_full = 2, F&B = 3 on 8 stages; 4 stages of DualPipeV of twice the length also. */
    CHECK_NUMBER(seconds_of(TPP_SCHEDULE_DUALPIPE, 8, 1, 20, 1, 1, 1, 0), 66, 1e-12);
    CHECK_NUMBER(seconds_of(TPP_SCHEDULE_DUALPIPEV, 4, 2, 10, 2, 2, 2, 0), 66, 1e-12);
}

/* F&B = 2.5 instead of 3 in all of m - p - 1 = 11 pairs of a stage in the middle, which then idles (p/2-1)(F&B + B_full - 3W)
 * = 3 * 1.5: 60 - 5.5 + 4.5. The stages' seconds have 11/20 of what pairs save off. */
static void pairs_hide_what_they_wait_for(void **state)
{
    (void)state;
    static const struct {
        enum tpp_schedule schedule;
        uint32_t p, v;
        uint64_t m;
        double scale; /* stages of DualPipeV are twice as long */
    } cases[] = {{TPP_SCHEDULE_DUALPIPE, 8, 1, 20, 1}, {TPP_SCHEDULE_DUALPIPEV, 4, 2, 10, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct tpp_strategy strategy = pipeline(cases[i].schedule, cases[i].p, cases[i].v, cases[i].m);
        const double phi = 11.0 / 20, stage = cases[i].scale * (3 - phi * 0.5), others = cases[i].p - 1;
        const struct tpp_pipeline_times times = {
            .slowest_seconds = stage,
            .others_seconds = others * stage,
            .others_forward_seconds = others * cases[i].scale,
            .others_weight_seconds = others * cases[i].scale,
            .others_hidden_seconds = others * cases[i].scale * 0.5,
            .paired_fraction = phi,
        };
        CHECK_NUMBER(tpp_pipeline_step(&strategy, &times).seconds, 59, 1e-12);
    }
}

static void messages_are_late_for_all_but_one_in_p_micro_batches(void **state)
{
    (void)state;
    /* p=4: m=8 is 2(p-1) m/p + 2(p-2) = 16. m=5: 6 there and back and 2 for each of micro-batches 2, 3, 4, which the fifth
     * does not add to: 12. One micro-batch: 6. */
    CHECK_NUMBER(seconds_of(TPP_SCHEDULE_1F1B, 4, 1, 8, 1, 1, 1, 0.001) - 33, 0.016, 1e-9);
    CHECK_NUMBER(seconds_of(TPP_SCHEDULE_1F1B, 4, 1, 5, 1, 1, 1, 0.001) - 24, 0.012, 1e-9);
    CHECK_NUMBER(seconds_of(TPP_SCHEDULE_1F1B, 4, 1, 1, 1, 1, 1, 0.001) - 12, 0.006, 1e-9);
    /* All vp - 1 hops there and back: 2 (3 * 4 - 1). */
    CHECK_NUMBER(seconds_of(TPP_SCHEDULE_INTERLEAVED, 4, 3, 8, 1, 1, 1, 0.001) - 27, 0.022, 1e-9);
}

static void split_backwards_keep_more_in_flight(void **state)
{
    (void)state;
    const double w = 32.0 / 34; /* of a micro-batch that waits for W only */
    const struct tpp_strategy h1 = pipeline(TPP_SCHEDULE_ZB_H1, 8, 1, 64), h2 = pipeline(TPP_SCHEDULE_ZB_H2, 8, 1, 64);
    const struct tpp_strategy few = pipeline(TPP_SCHEDULE_ZB_H2, 8, 1, 3);
    const struct tpp_strategy two = pipeline(TPP_SCHEDULE_ZB_2P, 8, 1, 64), shape = pipeline(TPP_SCHEDULE_ZB_V, 8, 2, 64);
    const struct tpp_strategy dual = pipeline(TPP_SCHEDULE_DUALPIPE, 8, 1, 64);
    const struct tpp_strategy half = pipeline(TPP_SCHEDULE_DUALPIPEV, 8, 2, 64);
    CHECK_NUMBER(tpp_in_flight_micro_batches(&h1, 0), 8, 0);
    CHECK_NUMBER(tpp_in_flight_micro_batches(&h1, 5), 3 + 5 * w, 1e-12);
    CHECK_NUMBER(tpp_in_flight_micro_batches(&h2, 0), 15, 0); /* E7 */
    CHECK_NUMBER(tpp_in_flight_micro_batches(&h2, 2), 11 + 4 * w, 1e-12);
    CHECK_NUMBER(tpp_in_flight_micro_batches(&few, 0), 3, 0);
    CHECK_NUMBER(tpp_in_flight_micro_batches(&few, 7), 1 + 2 * w, 1e-12);
    CHECK_NUMBER(tpp_in_flight_micro_batches(&two, 4), 16, 0);
    CHECK_NUMBER(tpp_in_flight_micro_batches(&shape, 4), 8, 0);
    CHECK_NUMBER(tpp_in_flight_micro_batches(&dual, 4), 9, 0); /* E7 */
    CHECK_NUMBER(tpp_in_flight_micro_batches(&half, 4), 8.5, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_f_one_b_makespan_is_example_e8),
        cmocka_unit_test(small_schedules_are_those_of_example_e8),
        cmocka_unit_test(bubble_fractions_are_the_textbook_ones),
        cmocka_unit_test(a_slower_last_stage_sets_the_pace),
        cmocka_unit_test(one_stage_has_no_bubble),
        cmocka_unit_test(micro_batches_in_flight_are_example_e7),
        cmocka_unit_test(zero_bubble_schedules_are_those_of_example_e8),
        cmocka_unit_test(pairs_hide_what_they_wait_for),
        cmocka_unit_test(messages_are_late_for_all_but_one_in_p_micro_batches),
        cmocka_unit_test(split_backwards_keep_more_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
