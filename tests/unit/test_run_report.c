/* Figures over predicted runs, computed by hand. */
#include "costmodel/runs/run_report.h"
#include "costmodel/runs/run_statistics.h"
#include "tests/support/check_number.h"

#include <stdio.h>
#include <string.h>

static struct tpp_run timed_run(const char *group, double measured_seconds, uint32_t tensor_parallel)
{
    struct tpp_run run = {.complete = true, .out_of_memory = TPP_RUN_NO, .measured_step_seconds = measured_seconds};
    snprintf(run.group, sizeof run.group, "%s", group);
    snprintf(run.id, sizeof run.id, "%s-tp%u", group, tensor_parallel);
    run.model.num_layers = 40;
    run.job.num_gpus = 64;
    run.strategy.tensor_parallel = tensor_parallel;
    return run;
}

/* Predicted seconds with an interval of 10 % to each side. */
static struct tpp_run_prediction predicted(double seconds)
{
    return (struct tpp_run_prediction){
        .step_seconds = seconds, .step_seconds_low = 0.9 * seconds, .step_seconds_high = 1.1 * seconds};
}

static void report_of(const struct tpp_run *runs, const struct tpp_run_prediction *predictions, size_t count,
                      struct tpp_run_report *report)
{
    struct tpp_error err;
    assert_int_equal(tpp_run_report_make(runs, predictions, count, report, &err), TPP_OK);
}

/* Errors +5 %, -20 %, +8 %, -1 %: bias -2 %, mean 8.5 %, median (5 + 8) / 2 = 6.5 %, 3 of 4 within 10 %.
 * Measured 10 s lies in [9.45, 11.55], [7.2, 8.8], [9.72, 11.88], [8.91, 10.89]: 3 of 4. */
static void errors_are_summed_up_by_hand(void **state)
{
    (void)state;
    const struct tpp_run runs[] = {timed_run("a", 10, 1), timed_run("a", 10, 2), timed_run("a", 10, 4),
                                   timed_run("a", 10, 8)};
    const struct tpp_run_prediction predictions[] = {predicted(10.5), predicted(8), predicted(10.8), predicted(9.9)};
    struct tpp_run_report report;
    report_of(runs, predictions, 4, &report);
    const struct tpp_run_errors *step = &report.all.step;
    assert_int_equal(step->n, 4);
    CHECK_NUMBER(step->bias, -0.02, 1e-9);
    CHECK_NUMBER(step->mean_abs, 0.085, 1e-9);
    CHECK_NUMBER(step->median_abs, 0.065, 1e-9);
    CHECK_NUMBER(step->within_10pct, 0.75, 1e-9);
    CHECK_NUMBER(step->max_abs, 0.2, 1e-9);
    CHECK_NUMBER(step->interval_coverage, 0.75, 1e-9);
    CHECK_NUMBER(step->macro_mean_abs, 0.085, 1e-9);
    tpp_run_report_release(&report);
}

/* Group a: 10 % and 30 %, mean 20 %; group b: 4 %. Plain mean of the two 12 %, mean over rows 44/3 %. The third group
 * is no raw measurement: 50 %, in its own figures only. */
static void the_macro_mean_counts_each_group_once(void **state)
{
    (void)state;
    const struct tpp_run runs[] = {timed_run("a", 10, 1), timed_run("a", 10, 2), timed_run("b", 10, 1),
                                   timed_run("vtrain-single", 10, 1)};
    const struct tpp_run_prediction predictions[] = {predicted(11), predicted(7), predicted(10.4), predicted(15)};
    struct tpp_run_report report;
    report_of(runs, predictions, 4, &report);
    assert_int_equal(report.num_groups, 3);
    CHECK_NUMBER(report.groups[0].step.mean_abs, 0.20, 1e-9);
    CHECK_NUMBER(report.all.step.macro_mean_abs, 0.12, 1e-9);
    CHECK_NUMBER(report.all.step.mean_abs, 0.44 / 3, 1e-9);
    assert_int_equal(report.all.step.n, 3);
    assert_string_equal(report.groups[2].name, "vtrain-single");
    CHECK_NUMBER(report.groups[2].step.mean_abs, 0.5, 1e-9);
    tpp_run_report_release(&report);
}

/* Two GPU types. X: at the peak 4 and 6 s, measured 10 and 10: MFU 0.4 and 0.6, median 0.5: 8 s and 12 s, 20 % off
 * each. Y: 3 s of 12: MFU 0.25, 12 s: right. Group a (both X) 20 %, group b 0: plain mean 10 %. By framework: one of X
 * and the one of Y are Megatron's: (20 + 0) / 2. */
static void one_mfu_for_each_gpu_is_the_naive_baseline(void **state)
{
    (void)state;
    struct tpp_run runs[] = {timed_run("a", 10, 1), timed_run("a", 10, 2), timed_run("b", 12, 1), timed_run("b", 9, 1)};
    struct tpp_run_prediction predictions[] = {
        predicted(10.5), predicted(8), predicted(12), {.skipped = "no vocabulary"}};
    const char *const gpus[] = {"X", "X", "Y", ""};
    const double at_peak[] = {4, 6, 3, 0};
    for (size_t i = 0; i < 4; i++) {
        snprintf(runs[i].gpu, sizeof runs[i].gpu, "%s", gpus[i]);
        predictions[i].seconds_at_peak = at_peak[i];
    }
    runs[0].stack.framework = TPP_FRAMEWORK_NEMO;
    struct tpp_run_report report;
    report_of(runs, predictions, 4, &report);
    assert_int_equal(report.num_gpus, 3); /* X, Y, unknown */
    assert_string_equal(report.gpus[0].name, "X");
    CHECK_NUMBER(report.gpus[0].naive.mean_abs, 0.2, 1e-9);
    CHECK_NUMBER(report.gpus[0].naive.bias, 0, 1e-9);
    CHECK_NUMBER(report.gpus[0].step.mean_abs, 0.125, 1e-9); /* 5 and 20 % */
    CHECK_NUMBER(report.gpus[1].naive.mean_abs, 0, 1e-9);
    assert_string_equal(report.gpus[2].name, "unknown");
    assert_int_equal(report.gpus[2].step.n, 0);
    assert_int_equal(report.num_frameworks, 3);
    assert_string_equal(report.frameworks[1].name, "megatron-lm");
    CHECK_NUMBER(report.frameworks[1].naive.mean_abs, 0.1, 1e-9);
    CHECK_NUMBER(report.all.naive.macro_mean_abs, 0.1, 1e-9);
    CHECK_NUMBER(report.all.naive.mean_abs, 0.4 / 3, 1e-9);
    tpp_run_report_release(&report);
}

static size_t occurrences(const char *text, const char *word)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word))
        count++;
    return count;
}

/* Times of 2 to 50 s: axes from 1 to 100 s over 640 units. 10 s measured is the middle, 64 + 320; 50 s predicted is
 * 640 - 640 * 1.69897 / 2 = 96.3. Names are what an attacker would choose. */
static void the_page_shows_every_timed_run_and_runs_nothing(void **state)
{
    (void)state;
    struct tpp_run runs[] = {timed_run("a", 10, 1), timed_run("<script>alert('x')</script>\"&", 2, 1),
                             timed_run("a", 0, 1)};
    const struct tpp_run_prediction predictions[] = {predicted(50), predicted(2), predicted(3)};
    struct tpp_run_report report;
    struct tpp_text html;
    snprintf(runs[1].id, sizeof runs[1].id, "\x1b[31m\xff<b onload=\"x\">");
    report_of(runs, predictions, 3, &report);
    tpp_text_init(&html);
    tpp_run_report_append_html(&report, runs, predictions, 3, &html);
    const char *page = tpp_text_get(&html);
    assert_int_equal(occurrences(page, "<circle "), 2); /* the third was not timed */
    assert_non_null(strstr(page, "cx=\"384.0\" cy=\"96.3\""));
    assert_non_null(strstr(page, "a/a-tp1: 10.00 s measured, 50.00 s predicted (+400.0 %)"));
    assert_null(strstr(page, "<script"));
    assert_null(strstr(page, "<b "));
    assert_null(strchr(page, 0x1b));
    assert_null(strchr(page, 0xff));
    assert_non_null(strstr(
        page, "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;/?[31m?&lt;b onload=&quot;x&quot;&gt;"));
    assert_int_equal(occurrences(page, "http"), 1); /* the policy that forbids it all: http-equiv */
    tpp_text_release(&html);
    tpp_run_report_release(&report);
}

/* Without a single timed run there is still a page. */
static void a_page_without_runs_is_whole(void **state)
{
    (void)state;
    struct tpp_run_report report;
    struct tpp_text html;
    report_of(NULL, NULL, 0, &report);
    tpp_text_init(&html);
    tpp_run_report_append_html(&report, NULL, NULL, 0, &html);
    assert_int_equal(occurrences(tpp_text_get(&html), "<circle "), 0);
    assert_non_null(strstr(tpp_text_get(&html), "</html>"));
    assert_null(strstr(tpp_text_get(&html), "nan"));
    tpp_text_release(&html);
    tpp_run_report_release(&report);
}

/* Allocated, reserved and device peaks are each compared with their own prediction; an unknown kind with none. */
static void peak_memory_is_compared_with_the_same_quantity(void **state)
{
    (void)state;
    struct tpp_run runs[4];
    struct tpp_run_prediction predictions[4];
    const enum tpp_run_memory_kind kinds[] = {TPP_RUN_MEMORY_ALLOCATED, TPP_RUN_MEMORY_RESERVED, TPP_RUN_MEMORY_DEVICE,
                                              TPP_RUN_MEMORY_UNKNOWN};
    for (size_t i = 0; i < 4; i++) {
        runs[i] = timed_run("m", 0, (uint32_t)i + 1);
        runs[i].measured_peak_bytes = 50e9;
        runs[i].memory_kind = kinds[i];
        predictions[i] = (struct tpp_run_prediction){
            .peak_allocated_bytes = 51e9, .peak_reserved_bytes = 53e9, .device_total_bytes = 57e9};
    }
    struct tpp_run_report report;
    report_of(runs, predictions, 4, &report);
    CHECK_NUMBER(tpp_run_error(&runs[0], &predictions[0]).memory_fraction, 0.02, 1e-9);
    CHECK_NUMBER(tpp_run_error(&runs[1], &predictions[1]).memory_fraction, 0.06, 1e-9);
    CHECK_NUMBER(tpp_run_error(&runs[2], &predictions[2]).memory_fraction, 0.14, 1e-9);
    assert_false(tpp_run_error(&runs[3], &predictions[3]).has_memory);
    assert_int_equal(report.all.memory.n, 3);
    assert_int_equal(report.all.step.n, 0);
    CHECK_NUMBER(report.all.memory.mean_abs, 0.22 / 3, 1e-9);
    tpp_run_report_release(&report);
}

/* Four verdicts, one of each kind, a fifth run of which nobody knows whether it ran, and a "tight" that counts as
 * fits.
 */
static void fit_verdicts_are_counted_by_kind(void **state)
{
    (void)state;
    struct tpp_run runs[6];
    struct tpp_run_prediction predictions[6];
    const enum tpp_run_answer measured[] = {TPP_RUN_NO,  TPP_RUN_NO,     TPP_RUN_YES,
                                            TPP_RUN_YES, TPP_RUN_UNSAID, TPP_RUN_YES};
    const enum tpp_fit said[] = {TPP_FIT_FITS, TPP_FIT_DOES_NOT_FIT, TPP_FIT_DOES_NOT_FIT,
                                 TPP_FIT_FITS, TPP_FIT_FITS,         TPP_FIT_TIGHT};
    for (size_t i = 0; i < 6; i++) {
        runs[i] = timed_run("f", 0, (uint32_t)i + 1);
        runs[i].out_of_memory = measured[i];
        predictions[i] = (struct tpp_run_prediction){.fit = said[i]};
    }
    struct tpp_run_report report;
    report_of(runs, predictions, 6, &report);
    assert_int_equal(report.all.fit.n, 5);
    assert_int_equal(report.all.fit.num_right, 2);
    assert_int_equal(report.all.fit.said_fits_but_out_of_memory, 2);
    assert_int_equal(report.all.fit.said_out_of_memory_but_fits, 1);
    tpp_run_report_release(&report);
}

/* Measured 10, 10.05, 12, 15: the first two are no pair (0.5 % apart), so 5 pairs. Predicted 11, 10, 9, 16: the
 * order of 12 against 10 and 10.05 is wrong, 3 right. The predicted best took 12 s: regret 20 %. A run of another
 * job (other global batch) makes no pair; nor does the same plan measured again. */
static void ranking_counts_pairs_of_one_job(void **state)
{
    (void)state;
    struct tpp_run runs[] = {timed_run("r", 10, 1), timed_run("r", 10.05, 2), timed_run("r", 12, 4),
                             timed_run("r", 15, 8), timed_run("r", 99, 16),   timed_run("r", 20, 8)};
    const struct tpp_run_prediction predictions[] = {predicted(11), predicted(10), predicted(9),
                                                     predicted(16), predicted(1),  predicted(16)};
    runs[4].job.global_batch_size = 7;
    struct tpp_run_report report;
    report_of(runs, predictions, 5, &report);
    assert_int_equal(report.all.ranking.groups, 1);
    assert_int_equal(report.all.ranking.pairs, 5);
    assert_int_equal(report.all.ranking.num_right, 3);
    CHECK_NUMBER(report.all.ranking.mean_regret_fraction, 0.2, 1e-9);
    tpp_run_report_release(&report);
    report_of(runs, predictions, 6, &report); /* tp 8 again, 20 s: three more pairs, none with its twin */
    assert_int_equal(report.all.ranking.pairs, 8);
    assert_int_equal(report.all.ranking.num_right, 6);
    tpp_run_report_release(&report);
}

static void an_equal_prediction_for_unequal_plans_is_not_right(void **state)
{
    (void)state;
    const struct tpp_run runs[] = {timed_run("r", 10, 1), timed_run("r", 12, 2)};
    const struct tpp_run_prediction predictions[] = {predicted(11), predicted(11)};
    struct tpp_run_report report;
    report_of(runs, predictions, 2, &report);
    assert_int_equal(report.all.ranking.pairs, 1);
    assert_int_equal(report.all.ranking.num_right, 0);
    tpp_run_report_release(&report);
}

static void skipped_runs_are_counted_by_reason_and_never_scored(void **state)
{
    (void)state;
    const struct tpp_run runs[] = {timed_run("s", 10, 1), timed_run("s", 10, 2), timed_run("s", 10, 4),
                                   timed_run("s", 10, 8)};
    const struct tpp_run_prediction predictions[] = {
        predicted(10), {.skipped = "no"}, {.skipped = "micro-batch not published"}, {.skipped = "no"}};
    struct tpp_run_report report;
    report_of(runs, predictions, 4, &report);
    assert_int_equal(report.all.num_skipped, 3);
    assert_int_equal(report.all.step.n, 1);
    assert_int_equal(report.all.fit.n, 1);
    assert_int_equal(report.num_skips, 2);
    assert_string_equal(report.skips[0].reason, "no");
    assert_int_equal(report.skips[0].count, 2);
    assert_string_equal(report.skips[1].reason, "micro-batch not published");
    tpp_run_report_release(&report);
}

static void an_empty_list_makes_an_empty_report(void **state)
{
    (void)state;
    struct tpp_run_report report;
    report_of(NULL, NULL, 0, &report);
    assert_int_equal(report.num_groups, 0);
    assert_int_equal(report.all.step.n, 0);
    CHECK_NUMBER(report.all.step.macro_mean_abs, 0, 0);
    tpp_run_report_release(&report);
}

static void json_has_the_keys_of_the_contract(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "\"rows\"",
        "\"id\"",
        "\"measured_step_seconds\"",
        "\"predicted_step_seconds\"",
        "\"error_fraction\"",
        "\"measured_peak_bytes\"",
        "\"predicted_peak_bytes\"",
        "\"memory_error_fraction\"",
        "\"skipped\"",
        "\"summary\"",
        "\"step\"",
        "\"memory\"",
        "\"n\"",
        "\"mean_abs\"",
        "\"median_abs\"",
        "\"bias\"",
        "\"within_10pct\"",
        "\"max_abs\"",
        "\"interval_coverage\"",
        "\"macro_mean_abs\"",
        "\"fit\"",
        "\"right_fraction\"",
        "\"said_fits_but_out_of_memory\"",
        "\"said_out_of_memory_but_fits\"",
        "\"ranking\"",
        "\"groups\"",
        "\"pairs\"",
        "\"pairs_right_fraction\"",
        "\"mean_regret_fraction\"",
        "\"error_fraction\": 0.25",
    };
    const struct tpp_run runs[] = {timed_run("g", 8, 1)};
    const struct tpp_run_prediction predictions[] = {predicted(10)};
    struct tpp_run_report report;
    struct tpp_json_writer writer;
    struct tpp_text text;
    struct tpp_error err;
    report_of(runs, predictions, 1, &report);
    tpp_json_writer_init(&writer);
    tpp_text_init(&text);
    tpp_run_report_add_json(&report, runs, predictions, 1, &writer, writer.root);
    assert_int_equal(tpp_json_print(&writer, &text, &err), TPP_OK);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strstr(tpp_text_get(&text), keys[i]) == NULL)
            fail_msg("%s is missing", keys[i]);
    tpp_text_release(&text);
    tpp_json_writer_release(&writer);
    tpp_run_report_release(&report);
}

static void the_table_shows_groups_and_reasons(void **state)
{
    (void)state;
    const struct tpp_run runs[] = {timed_run("lucie", 8, 1), timed_run("lucie", 8, 2)};
    const struct tpp_run_prediction predictions[] = {predicted(10), {.skipped = "bad\x1b[31m reason"}};
    struct tpp_run_report report;
    struct tpp_text text;
    report_of(runs, predictions, 2, &report);
    tpp_text_init(&text);
    tpp_run_report_append_text(&report, &text);
    tpp_run_rows_append_text(runs, predictions, 2, &text);
    assert_non_null(strstr(tpp_text_get(&text), "lucie "));
    assert_non_null(strstr(tpp_text_get(&text), "+25.0%"));
    assert_non_null(strstr(tpp_text_get(&text), "     1  bad?[31m reason"));
    assert_non_null(strstr(tpp_text_get(&text), "lucie/lucie-tp2: skipped: bad?"));
    tpp_text_release(&text);
    tpp_run_report_release(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_summed_up_by_hand),
        cmocka_unit_test(the_macro_mean_counts_each_group_once),
        cmocka_unit_test(one_mfu_for_each_gpu_is_the_naive_baseline),
        cmocka_unit_test(the_page_shows_every_timed_run_and_runs_nothing),
        cmocka_unit_test(a_page_without_runs_is_whole),
        cmocka_unit_test(peak_memory_is_compared_with_the_same_quantity),
        cmocka_unit_test(fit_verdicts_are_counted_by_kind),
        cmocka_unit_test(ranking_counts_pairs_of_one_job),
        cmocka_unit_test(an_equal_prediction_for_unequal_plans_is_not_right),
        cmocka_unit_test(skipped_runs_are_counted_by_reason_and_never_scored),
        cmocka_unit_test(an_empty_list_makes_an_empty_report),
        cmocka_unit_test(json_has_the_keys_of_the_contract),
        cmocka_unit_test(the_table_shows_groups_and_reasons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
