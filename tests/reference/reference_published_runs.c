/* Predictions against published runs, with bounds on the errors.
 *
 * Source of every row: tests/reference/runs/README.md. The bounds are a fence against a change that makes predictions
 * worse by accident, not the goal itself: the rows are few, so one of them moves a mean by a percent or more. */
#include "costmodel/runs/run_predict.h"
#include "costmodel/runs/run_reader.h"
#include "costmodel/runs/run_report.h"
#include "tests/support/check_number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const files[] = {
    "bigscience",       "efficient-layouts",
    "fms-acceleration", "internevo",
    "llm-foundry",      "lucie",
    "megatron-lm",      "nemo",
    "nvidia-dgxc",      "other",
    "simumax-b200",     "torchtitan",
    "vocabulary-parallel", "vtrain-multi",
    "vtrain-single",
};
#define NUM_FILES (sizeof files / sizeof files[0])

struct book {
    struct tpp_runs runs;
    struct tpp_run_profiles profiles;
    struct tpp_run_prediction *predictions;
    struct tpp_run_report report;
};

static struct book book;

static int load_and_predict(void **state)
{
    (void)state;
    struct tpp_error err;
    const char *root = getenv("TPP_SOURCE_ROOT");
    for (size_t i = 0; i < NUM_FILES; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/tests/reference/runs/%s.jsonl", root != NULL ? root : ".", files[i]);
        if (tpp_runs_load(path, &book.profiles, &book.runs, &err) != TPP_OK) {
            print_error("%s: %s\n", path, err.message);
            return -1;
        }
    }
    book.predictions = calloc(book.runs.count, sizeof *book.predictions);
    for (size_t i = 0; i < book.runs.count; i++)
        if (tpp_run_predict(&book.runs.items[i], &book.profiles, TPP_RUN_ESTIMATE, &book.predictions[i], &err) != TPP_OK)
            return -1;
    return tpp_run_report_make(book.runs.items, book.predictions, book.runs.count, &book.report, &err);
}

static int release(void **state)
{
    (void)state;
    tpp_run_report_release(&book.report);
    free(book.predictions);
    tpp_runs_release(&book.runs);
    tpp_run_profiles_release(&book.profiles);
    return 0;
}

static const struct tpp_run_figures *group(const char *name)
{
    for (size_t i = 0; i < book.report.num_groups; i++)
        if (strcmp(book.report.groups[i].name, name) == 0)
            return &book.report.groups[i];
    fail_msg("no group %s", name);
    return NULL;
}

/* Every row of the default subset can be read; what is skipped is what the cost model does not know. */
static void rows_are_read_and_few_are_skipped(void **state)
{
    (void)state;
    assert_int_equal(book.runs.count, 150);
    for (size_t i = 0; i < book.runs.count; i++)
        assert_true(tpp_run_in_default_subset(&book.runs.items[i]));
    for (size_t i = 0; i < book.report.num_skips; i++)
        print_message("# skipped %zu: %s\n", book.report.skips[i].count, book.report.skips[i].reason);
    assert_true(book.report.all.num_skipped <= 3); /* redistributed layers (2), a contradiction */
}

static void every_prediction_is_a_plausible_number(void **state)
{
    (void)state;
    for (size_t i = 0; i < book.runs.count; i++) {
        const struct tpp_run_prediction *prediction = &book.predictions[i];
        if (prediction->skipped[0] != '\0')
            continue;
        assert_true(prediction->step_seconds > 0 && isfinite(prediction->step_seconds));
        assert_true(prediction->step_seconds_low <= prediction->step_seconds);
        assert_true(prediction->step_seconds <= prediction->step_seconds_high);
        assert_true(prediction->peak_allocated_bytes > 0);
        assert_true(prediction->peak_allocated_bytes <= prediction->peak_reserved_bytes);
        assert_true(prediction->peak_reserved_bytes <= prediction->device_total_bytes);
    }
}

static void step_time_stays_within_its_bounds(void **state)
{
    (void)state;
    /* Mean absolute error of a file's rows here, with little room: nothing that gives it back goes unseen. In brackets what
     * the specification's own evaluation of all rows of the source came to (sections 12 and 15.10). */
    static const struct {
        const char *name;
        double bound;
    } bounds[] = {
        {"bigscience", 0.062}, /* 3.9 % */
        {"efficient-layouts", 0.040}, /* 9.0 %; 3.3 % of these eight and 7.4 % of all 242 with half of NVLink's rate; now 5.0 % of all */
        {"fms-acceleration", 0.056}, /* 7.3 % */
        {"internevo", 0.051}, /* 8.6 % */
        {"lucie", 0.120}, /* 10.3 %: host time of blocking launches at micro-batch 1 */
        {"nvidia-dgxc", 0.015}, /* 1.2 %, worst row 2.8 % */
        {"simumax-b200", 0.055}, /* 4.4 % with its own constants */
        {"torchtitan", 0.115}, /* 9.5 %; rowwise FP8 and context over 4 and 8 ranks, 20 to 42 % too fast, are not explained */
        {"vocabulary-parallel", 0.028}, /* 7.1 % with the vocabulary layers on the last stage */
        {"vtrain-multi", 0.050}, /* 7.6 % */
    };
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        const struct tpp_run_errors *step = &group(bounds[i].name)->step;
        print_message("# %s: %.1f %% of %zu runs\n", bounds[i].name, 100 * step->mean_abs, step->n);
        assert_true(step->n > 0);
        if (step->mean_abs > bounds[i].bound)
            fail_msg("%s: mean error %.1f %%, bound %.1f %%", bounds[i].name, 100 * step->mean_abs,
                     100 * bounds[i].bound);
    }
    print_message("# plain mean over files: %.1f %%\n", 100 * book.report.all.step.macro_mean_abs);
    assert_true(book.report.all.step.macro_mean_abs <= 0.070); /* 15.10: 8.4 % */
}

/* SimuMax: every tensor of Megatron with Transformer Engine is known, and the mapping is published rank by rank. */
static void allocated_memory_on_b200_is_exact(void **state)
{
    (void)state;
    const struct tpp_run_errors *memory = &group("simumax-b200")->memory;
    assert_true(memory->n > 0);
    print_message("# B200: %.2f %%, worst %.2f %%\n", 100 * memory->mean_abs, 100 * memory->max_abs);
    assert_true(memory->mean_abs <= 0.002);
    assert_true(memory->max_abs <= 0.003);
}

static void fit_verdicts_and_ranking_hold(void **state)
{
    (void)state;
    const struct tpp_run_fits *fit = &book.report.all.fit;
    const struct tpp_run_ranking *ranking = &book.report.all.ranking;
    print_message("# fit: %zu of %zu right; ranking: %zu of %zu pairs\n", fit->num_right, fit->n, ranking->num_right,
                  ranking->pairs);
    assert_true((double)fit->num_right >= 0.9 * (double)fit->n);
    assert_true((double)ranking->num_right >= 0.8 * (double)ranking->pairs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_read_and_few_are_skipped), cmocka_unit_test(every_prediction_is_a_plausible_number),
        cmocka_unit_test(step_time_stays_within_its_bounds), cmocka_unit_test(allocated_memory_on_b200_is_exact),
        cmocka_unit_test(fit_verdicts_and_ranking_hold),
    };
    return cmocka_run_group_tests(tests, load_and_predict, release);
}
