/* Closed forms of the schedules against the event model, on seeded random plans with uniform stages; and laws of the
 * event model on uneven ones. */
#include "costmodel/pipeline.h"
#include "costmodel/schedules/schedule.h"
#include "tests/support/check_number.h"
#include "tests/support/random.h"

enum { NUM_CASES = 400, MAX_STAGES = 26, MAX_VIRTUAL = 6 };

struct plan {
    struct tpp_strategy strategy;
    struct tpp_schedule_chunk chunks[MAX_STAGES * MAX_VIRTUAL];
    struct tpp_schedule_problem problem;
    double f, b, w;
};

static struct tpp_schedule_run *run;

static int start(void **state)
{
    (void)state;
    return tpp_schedule_run_new(&run, NULL) != TPP_OK;
}

static int stop(void **state)
{
    (void)state;
    tpp_schedule_run_free(run);
    return 0;
}

/* Messages that are short beside the work: where the closed forms hold. */
static void random_plan(struct tpp_random *random, enum tpp_schedule schedule, struct plan *plan)
{
    const uint32_t p = (uint32_t)tpp_random_range(random, 1, MAX_STAGES - 2);
    const bool is_interleaved = schedule == TPP_SCHEDULE_INTERLEAVED && p > 1;
    const uint32_t v = is_interleaved                  ? (uint32_t)tpp_random_range(random, 2, MAX_VIRTUAL)
                       : schedule == TPP_SCHEDULE_ZB_V ? 2
                                                       : 1;
    const uint64_t m = is_interleaved ? p * tpp_random_range(random, 1, 6) : tpp_random_range(random, 1, 5 * p);
    plan->f = tpp_random_uniform(random, 0.013, 0.021);
    plan->b = tpp_random_uniform(random, 0.013, 0.021);
    plan->w = tpp_random_uniform(random, 0.008, 0.013);
    plan->strategy = tpp_strategy_defaults();
    plan->strategy.schedule = schedule;
    plan->strategy.pipeline_parallel = p;
    plan->strategy.virtual_pipeline_stages = v;
    plan->strategy.num_micro_batches = m;
    plan->problem = tpp_schedule_problem_of(&plan->strategy);
    plan->problem.edge_seconds = plan->f / v * tpp_random_uniform(random, 0, 0.02);
    plan->problem.chunks = plan->chunks;
    for (uint32_t g = 0; g < p * v; g++)
        plan->chunks[g] = (struct tpp_schedule_chunk){plan->f / v, plan->b / v, plan->w / v, 34.0 / v, 32.0 / v};
}

static struct tpp_pipeline closed_form(const struct plan *plan)
{
    const double others = plan->strategy.pipeline_parallel - 1, stage = plan->f + plan->b + plan->w;
    const struct tpp_pipeline_times times = {stage, others * stage, plan->problem.edge_seconds, others * plan->f,
                                             others * plan->w};
    return tpp_pipeline_step(&plan->strategy, &times);
}

static struct tpp_schedule_summary play(const struct plan *plan)
{
    struct tpp_schedule_summary summary;
    struct tpp_error err;
    if (tpp_schedule_step(run, &plan->problem, &summary, &err) != TPP_OK)
        fail_msg("%s p=%u m=%u: %s", tpp_schedule_name(plan->problem.schedule), plan->problem.pipeline_parallel,
                 plan->problem.num_micro_batches, err.message);
    return summary;
}

static void expect_close(const struct plan *plan, double events, double closed, double relative)
{
    if (fabs(events - closed) > relative * closed)
        fail_msg("%s p=%u v=%u m=%u F=%g B=%g W=%g Tc=%g: events %.9g, closed form %.9g",
                 tpp_schedule_name(plan->problem.schedule), plan->problem.pipeline_parallel,
                 plan->problem.virtual_pipeline_stages, plan->problem.num_micro_batches, plan->f, plan->b, plan->w,
                 plan->problem.edge_seconds, events, closed);
}

static void closed_forms_agree_with_the_events(void **state)
{
    (void)state;
    static const enum tpp_schedule schedules[] = {TPP_SCHEDULE_GPIPE, TPP_SCHEDULE_1F1B, TPP_SCHEDULE_INTERLEAVED,
                                                  TPP_SCHEDULE_ZB_H1, TPP_SCHEDULE_ZB_H2};
    for (size_t k = 0; k < sizeof schedules / sizeof schedules[0]; k++) {
        struct tpp_random random = {20240110 + k};
        for (int i = 0; i < NUM_CASES; i++) {
            struct plan plan;
            random_plan(&random, schedules[k], &plan);
            const struct tpp_schedule_summary summary = play(&plan);
            const bool is_span = schedules[k] == TPP_SCHEDULE_ZB_H2;
            expect_close(&plan, is_span ? summary.span_seconds : summary.makespan_seconds, closed_form(&plan).seconds,
                         1e-3);
        }
    }
}

/* The searched ones have no exact closed form: ZB-1p is as good as ZB-H1 or better, and stays close to it; ZB-V within
 * 10 % of the work. */
static void searched_schedules_are_near_their_closed_forms(void **state)
{
    (void)state;
    struct tpp_random random = {20240111};
    for (int i = 0; i < NUM_CASES; i++) {
        struct plan plan;
        random_plan(&random, i % 2 ? TPP_SCHEDULE_ZB_1P : TPP_SCHEDULE_ZB_V, &plan);
        if (plan.problem.num_micro_batches < 2 * plan.problem.pipeline_parallel)
            continue;
        expect_close(&plan, play(&plan).span_seconds, closed_form(&plan).seconds, i % 2 ? 0.02 : 0.1);
    }
}

/* DualPipe's closed form is that of the papers, for F = B = W; else it is off by up to a fifth of the idle time. */
static void dualpipe_is_near_its_closed_form(void **state)
{
    (void)state;
    struct tpp_random random = {20240114};
    for (int i = 0; i < NUM_CASES; i++) {
        struct plan plan;
        random_plan(&random, TPP_SCHEDULE_GPIPE, &plan);
        const uint32_t p = 2 * (1 + plan.problem.pipeline_parallel / 2), v = i % 2 ? 2 : 1;
        plan.strategy.schedule = plan.problem.schedule = i % 2 ? TPP_SCHEDULE_DUALPIPEV : TPP_SCHEDULE_DUALPIPE;
        plan.strategy.pipeline_parallel = plan.problem.pipeline_parallel = p;
        plan.strategy.virtual_pipeline_stages = plan.problem.virtual_pipeline_stages = v;
        plan.problem.num_micro_batches = 2 * p + 2 * (uint32_t)tpp_random_range(&random, 0, p);
        plan.strategy.num_micro_batches = plan.problem.num_micro_batches;
        plan.problem.edge_seconds = 0;
        const bool is_uniform = i % 4 < 2;
        if (is_uniform)
            plan.b = plan.w = plan.f;
        for (uint32_t g = 0; g < p * v; g++)
            plan.chunks[g] = (struct tpp_schedule_chunk){plan.f / v, plan.b / v, plan.w / v, 34.0 / v, 32.0 / v};
        expect_close(&plan, play(&plan).makespan_seconds, closed_form(&plan).seconds, is_uniform ? 1e-9 : 0.04);
    }
}

/* Shared vocabulary layers leave the bubble of 1F1B, whatever their passes take (arXiv 2411.05288, section 5), and hold one
 * micro-batch more for each barrier, half as many again when interlaced (README of sail-sg/VocabularyParallelism). Interlaced
 * passes of a round meet only where B is no shorter than F, as it is with both gradients in it. */
static void vocabulary_passes_leave_the_bubble_of_1f1b(void **state)
{
    (void)state;
    static const enum tpp_vocabulary_parallel kinds[] = {TPP_VOCABULARY_PARALLEL_ONE_BARRIER,
                                                         TPP_VOCABULARY_PARALLEL_TWO_BARRIERS,
                                                         TPP_VOCABULARY_PARALLEL_INTERLACED};
    struct tpp_random random = {20241105};
    for (int i = 0; i < NUM_CASES; i++) {
        struct plan plan;
        random_plan(&random, TPP_SCHEDULE_1F1B, &plan);
        const uint32_t p = plan.problem.pipeline_parallel, m = plan.problem.num_micro_batches;
        const bool is_interlaced = kinds[i % 3] == TPP_VOCABULARY_PARALLEL_INTERLACED;
        if (p == 1)
            continue;
        plan.problem.vocabulary_parallel = kinds[i % 3];
        plan.problem.edge_seconds = 0;
        const double s = tpp_random_uniform(&random, 0.0005, 0.01);
        const double t = is_interlaced ? 0 : tpp_random_uniform(&random, 0.0005, 0.01);
        for (uint32_t g = 0; g < p; g++) {
            plan.chunks[g].vocabulary_seconds = s;
            plan.chunks[g].vocabulary_weight_seconds = t;
        }
        const double stage = plan.f + plan.b + plan.w;
        const struct tpp_pipeline_times times = {stage + s + t, (p - 1) * stage, 0, 0, 0};
        const double closed = tpp_pipeline_step(&plan.strategy, &times).seconds, events = play(&plan).makespan_seconds;
        if (fabs(events - closed) > 1e-3 * closed)
            fail_msg("vocabulary %d p=%u m=%u F=%g B=%g S=%g T=%g: events %.9g, closed form %.9g", (int)kinds[i % 3], p,
                     m, plan.f, plan.b + plan.w, s, t, events, closed);
        const uint32_t more = is_interlaced ? p / 2 : kinds[i % 3] == TPP_VOCABULARY_PARALLEL_TWO_BARRIERS ? 2 : 1;
        assert_true(tpp_schedule_run_stages(run)[0].peak_micro_batches <= fmin(m, p + more));
        if (m >= 2 * p)
            assert_true(tpp_schedule_run_stages(run)[0].peak_micro_batches >= p + more - 1);
    }
}

/* Uneven stages, any schedule: no stage does less than its work or overlaps with itself, nothing ends before the
 * longest chain of one micro-batch, and a slower wire never makes a fixed order faster. */
static void uneven_stages_obey_the_laws(void **state)
{
    (void)state;
    struct tpp_random random = {20240112};
    for (int i = 0; i < NUM_CASES; i++) {
        struct plan plan;
        random_plan(&random, (enum tpp_schedule)tpp_random_range(&random, 0, TPP_SCHEDULE_ZB_V), &plan);
        const uint32_t p = plan.problem.pipeline_parallel, chunks = p * plan.problem.virtual_pipeline_stages;
        const bool is_split = tpp_schedule_info(plan.problem.schedule)->splits_backward;
        double chain = 0, work = 0;
        for (uint32_t g = 0; g < chunks; g++) {
            struct tpp_schedule_chunk *c = &plan.chunks[g];
            c->forward_seconds *= tpp_random_uniform(&random, 0.5, 2);
            c->backward_seconds *= tpp_random_uniform(&random, 0.5, 2);
            c->weight_seconds *= tpp_random_uniform(&random, 0.5, 2);
            chain += c->forward_seconds + c->backward_seconds + (is_split ? 0 : c->weight_seconds);
            work += c->forward_seconds + c->backward_seconds + c->weight_seconds;
        }
        const struct tpp_schedule_summary summary = play(&plan);
        const struct tpp_schedule_stage *stages = tpp_schedule_run_stages(run);
        double busy = 0;
        for (uint32_t r = 0; r < p; r++) {
            assert_true(stages[r].last_end_seconds - stages[r].first_start_seconds >=
                        stages[r].busy_seconds * (1 - 1e-12));
            busy += stages[r].busy_seconds;
        }
        CHECK_NUMBER(busy, work * plan.problem.num_micro_batches, 1e-9);
        assert_true(summary.makespan_seconds >= chain * (1 - 1e-12));
        if (tpp_schedule_info(plan.problem.schedule)->is_searched)
            continue;
        plan.problem.edge_seconds += 0.01;
        assert_true(play(&plan).makespan_seconds >= summary.makespan_seconds);
    }
}

/* Each op once, in an order that the event loop can run; the same bits again. */
static void lists_are_complete_and_the_same_again(void **state)
{
    (void)state;
    struct tpp_random random = {20240113};
    for (int i = 0; i < NUM_CASES; i++) {
        struct plan plan;
        random_plan(&random, (enum tpp_schedule)tpp_random_range(&random, 0, TPP_SCHEDULE_ZB_V), &plan);
        const struct tpp_schedule_summary first = play(&plan), second = play(&plan);
        assert_true(first.makespan_seconds == second.makespan_seconds && first.span_seconds == second.span_seconds);
        uint32_t seen[3] = {0};
        for (uint32_t r = 0; r < plan.problem.pipeline_parallel; r++) {
            size_t count;
            const struct tpp_schedule_op *ops = tpp_schedule_run_ops(run, r, &count);
            for (size_t k = 0; k < count; k++)
                seen[ops[k].kind]++;
        }
        const uint32_t all =
            plan.problem.pipeline_parallel * plan.problem.virtual_pipeline_stages * plan.problem.num_micro_batches;
        assert_int_equal(seen[TPP_SCHEDULE_OP_FORWARD], all);
        assert_int_equal(seen[TPP_SCHEDULE_OP_BACKWARD], all);
        assert_int_equal(seen[TPP_SCHEDULE_OP_WEIGHT],
                         tpp_schedule_info(plan.problem.schedule)->splits_backward ? all : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_forms_agree_with_the_events),
        cmocka_unit_test(searched_schedules_are_near_their_closed_forms),
        cmocka_unit_test(dualpipe_is_near_its_closed_form),
        cmocka_unit_test(vocabulary_passes_leave_the_bubble_of_1f1b),
        cmocka_unit_test(uneven_stages_obey_the_laws),
        cmocka_unit_test(lists_are_complete_and_the_same_again),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
