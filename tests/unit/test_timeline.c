/* The pipeline, and gathers beside reductions, as text: rows by hand for a small schedule, chunks, windows, and no line longer than the terminal. */
#include "cli/sharded_timeline.h"
#include "cli/timeline.h"
#include "costmodel/evaluator.h"
#include "tests/support/shapes.h"

#include <string.h>

/* Two stages, two micro-batches, F = 1, B = 2: GPipe. */
static const struct tpp_simulated_op gpipe[] = {
    {0, 1, 0, 0, 0, TPP_PASS_FORWARD},  {1, 2, 0, 0, 1, TPP_PASS_FORWARD},  {5, 7, 0, 0, 0, TPP_PASS_BACKWARD},
    {7, 9, 0, 0, 1, TPP_PASS_BACKWARD}, {1, 2, 1, 1, 0, TPP_PASS_FORWARD},  {2, 3, 1, 1, 1, TPP_PASS_FORWARD},
    {3, 5, 1, 1, 0, TPP_PASS_BACKWARD}, {5, 7, 1, 1, 1, TPP_PASS_BACKWARD},
};

static void a_small_pipeline_is_drawn_to_scale(void **state)
{
    (void)state;
    struct tpp_text text;
    tpp_text_init(&text);
    /* 57 - 9 of the label - 12 = 36 columns for 9 s: four a second. */
    tpp_timeline_append(gpipe, 8, 2, 57, &text);
    assert_string_equal(tpp_text_get(&text), "stage 0 |F0--F1--............B0======B1======|  33 % idle\n"
                                             "stage 1 |....F0--F1--B0======B1======........|  33 % idle\n"
                                             "9.00 s, a column 250.000 ms\n"
                                             "F forward, B backward, W weights, . idle\n");
    tpp_text_release(&text);
}

static void chunks_and_weights_have_their_marks(void **state)
{
    (void)state;
    /* Chunk 2 of two stages is the second one of stage 0. */
    static const struct tpp_simulated_op ops[] = {{0, 2, 0, 2, 7, TPP_PASS_FORWARD}, {2, 3, 0, 2, 7, TPP_PASS_WEIGHT}};
    struct tpp_text text;
    tpp_text_init(&text);
    tpp_timeline_append(ops, 2, 2, 45, &text);
    assert_non_null(strstr(tpp_text_get(&text), "stage 0 |F7b-------------W7b~~~~~|   0 % idle\n"));
    assert_non_null(strstr(tpp_text_get(&text), "stage 1 |........................| 100 % idle\n"));
    tpp_text_release(&text);
}

/* Shared vocabulary layers: columns are as wide as F and B ask for, and S and T take one of them however short they are. */
static void vocabulary_passes_take_a_column(void **state)
{
    (void)state;
    static const struct tpp_simulated_op ops[] = {{0, 3, 0, 0, 0, TPP_PASS_FORWARD},
                                                  {3, 3.01, 0, 0, 0, TPP_PASS_VOCABULARY},
                                                  {4, 4.01, 0, 0, 0, TPP_PASS_VOCABULARY_WEIGHT},
                                                  {6, 12, 0, 0, 0, TPP_PASS_BACKWARD}};
    struct tpp_text text;
    tpp_text_init(&text);
    tpp_timeline_append(ops, 4, 1, 45, &text); /* 24 columns of half a second */
    assert_string_equal(tpp_text_get(&text), "stage 0 |F0----S.T...B0==========|  25 % idle\n"
                                             "12.00 s, a column 500.000 ms\n"
                                             "F forward, B backward, S vocabulary, T its weights, . idle\n");
    tpp_text_release(&text);
}

static void a_long_step_shows_how_it_fills_and_drains(void **state)
{
    (void)state;
    struct tpp_simulated_op ops[200];
    struct tpp_text text;
    for (uint32_t i = 0; i < 100; i++) {
        ops[2 * i] = (struct tpp_simulated_op){3.0 * i, 3.0 * i + 1, 0, 0, i, TPP_PASS_FORWARD};
        ops[2 * i + 1] = (struct tpp_simulated_op){3.0 * i + 1, 3.0 * i + 3, 0, 0, i, TPP_PASS_BACKWARD};
    }
    tpp_text_init(&text);
    /* 64 - 21 = 43 columns: twice 20 at a third of a second, the last of them from 293 1/3 s on. */
    tpp_timeline_append(ops, 200, 1, 64, &text);
    assert_string_equal(tpp_text_get(&text), "stage 0 |F0-B0====F1-B1====F2 ~ ==F98B98===F99B99===|   0 % idle\n"
                                             "first and last 6.67 s of 300.00 s\n"
                                             "F forward, B backward, W weights, . idle\n");
    tpp_text_release(&text);
}

static void no_line_is_wider_than_the_terminal(void **state)
{
    (void)state;
    struct tpp_simulated_op ops[600];
    for (uint32_t i = 0; i < 600; i++)
        ops[i] = (struct tpp_simulated_op){0.1 * i, 0.1 * i + 0.05 * (1 + i % 3), i / 3, i / 3, i % 3,
                                           (enum tpp_simulated_pass)(i % 3)};
    for (unsigned width = 1; width < 200; width += 7) {
        struct tpp_text text;
        tpp_text_init(&text);
        tpp_timeline_append(ops, 600, 200, width, &text);
        unsigned lines = 0;
        for (const char *line = tpp_text_get(&text); *line; lines++) {
            const size_t length = strcspn(line, "\n");
            assert_true(length <= (width < TPP_TIMELINE_MIN_WIDTH ? TPP_TIMELINE_MIN_WIDTH : width));
            line += length + 1;
        }
        assert_int_equal(lines, 48 + 1 + 2); /* 48 of 200 stages, what is left out, two lines below */
        tpp_text_release(&text);
    }
}

static void nothing_is_drawn_of_nothing(void **state)
{
    (void)state;
    struct tpp_text text;
    tpp_text_init(&text);
    tpp_timeline_append(NULL, 0, 4, 80, &text);
    assert_string_equal(tpp_text_get(&text), "nothing to draw\n");
    tpp_text_release(&text);
}

/* Llama-3-70B of test_contention.c, 256 GPUs; appends what is drawn of one step. */
static void draw_sharded(const char *strategy_text, uint64_t sequence_length, unsigned width, struct tpp_text *text)
{
    const struct tpp_model model = shape_preset("llama3-70b");
    const struct tpp_hardware hardware = shape_cluster("dgx-h100");
    const struct tpp_job job = shape_job(256, sequence_length, 64);
    const struct tpp_strategy strategy = shape_strategy(strategy_text, &job);
    const struct tpp_simulation_options options = tpp_simulation_options_defaults();
    struct tpp_stack stack;
    struct tpp_evaluator *evaluator;
    struct tpp_simulation *simulation;
    bool done = false;
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_DEEPSPEED, &hardware.gpu, &job, &stack);
    assert_int_equal(tpp_evaluator_new(&model, &hardware, &job, &stack, &evaluator, NULL), TPP_OK);
    assert_int_equal(tpp_simulation_new(evaluator, &strategy, &options, &simulation, NULL), TPP_OK);
    assert_int_equal(tpp_simulation_run(simulation, UINT64_MAX, &done, NULL), TPP_OK);
    tpp_text_init(text);
    tpp_sharded_timeline_append(simulation, width, text);
    tpp_simulation_free(simulation);
    tpp_evaluator_free(evaluator);
}

static void gathers_that_queue_behind_reductions_are_drawn(void **state)
{
    (void)state;
    struct tpp_text text;
    /* Layers of 18 ms: a bucket of 5e8, 22.8 ms, ends 10 ms after the gather behind it was needed; one of 1e8, 4.6 ms, and
     * the gather behind it, 4.9 ms, fit in a layer. */
    draw_sharded("tp=8,mbs=2,zero=3,sp=1,recompute=full,reduce_bucket=500000000", 4096, 118, &text);
    assert_non_null(strstr(tpp_text_get(&text), ".B"));
    assert_non_null(strstr(tpp_text_get(&text), "gather  |:::::"));
    tpp_text_release(&text);
    draw_sharded("tp=8,mbs=2,zero=3,sp=1,recompute=full,reduce_bucket=100000000", 4096, 118, &text);
    assert_null(strstr(tpp_text_get(&text), ".B"));
    tpp_text_release(&text);
    draw_sharded("tp=8,mbs=2,zero=1,sp=1,recompute=full", 4096, 118, &text);
    assert_string_equal(tpp_text_get(&text), "");
    tpp_text_release(&text);
    for (unsigned width = 10; width < 200; width += 37) {
        draw_sharded("tp=8,mbs=2,zero=3,sp=1,recompute=full", 8192, width, &text);
        for (const char *line = tpp_text_get(&text); *line; line += strcspn(line, "\n") + 1)
            assert_true(strcspn(line, "\n") <= (width < TPP_TIMELINE_MIN_WIDTH ? TPP_TIMELINE_MIN_WIDTH : width));
        tpp_text_release(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_pipeline_is_drawn_to_scale),
        cmocka_unit_test(chunks_and_weights_have_their_marks),
        cmocka_unit_test(vocabulary_passes_take_a_column),
        cmocka_unit_test(a_long_step_shows_how_it_fills_and_drains),
        cmocka_unit_test(no_line_is_wider_than_the_terminal),
        cmocka_unit_test(nothing_is_drawn_of_nothing),
        cmocka_unit_test(gathers_that_queue_behind_reductions_are_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
