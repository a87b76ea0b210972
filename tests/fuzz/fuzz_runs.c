/* Any bytes as a runs file: every line becomes inputs that can be predicted, or a reason; the report adds up. */
#include "tests/fuzz/fuzz_target.h"

#include "costmodel/runs/run_predict.h"
#include "costmodel/runs/run_reader.h"
#include "costmodel/runs/run_report.h"

#include <stdlib.h>

/* More runs than this say nothing new and take long. */
#define MAX_PREDICTED 8

static void check_run(const struct tpp_run *run)
{
    FUZZ_CHECK(run->id[0] != '\0');
    FUZZ_CHECK(run->measured_step_seconds >= 0 && run->measured_peak_bytes >= 0);
    if (run->skipped[0] != '\0')
        return;
    FUZZ_CHECK(run->strategy.micro_batch_size >= 1 && run->strategy.num_micro_batches >= 1);
    FUZZ_CHECK(run->remainder_sequences < run->strategy.micro_batch_size);
    FUZZ_CHECK(run->cluster.profile[0] != '\0');
}

static void check_report(const struct tpp_runs *runs, const struct tpp_run_prediction *predictions)
{
    struct tpp_run_report report;
    struct tpp_text text;
    size_t skipped = 0, listed = 0;
    FUZZ_CHECK(tpp_run_report_make(runs->items, predictions, runs->count, &report, NULL) == TPP_OK);
    for (size_t i = 0; i < runs->count; i++)
        skipped += predictions[i].skipped[0] != '\0';
    for (size_t i = 0; i < report.num_skips; i++)
        listed += report.skips[i].count;
    FUZZ_CHECK(skipped == listed);
    tpp_text_init(&text);
    tpp_run_report_append_text(&report, &text);
    tpp_run_rows_append_text(runs->items, predictions, runs->count, &text);
    FUZZ_CHECK(!tpp_text_failed(&text));
    tpp_text_release(&text);
    tpp_run_report_release(&report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tpp_run_profiles profiles; /* loaded once: they never change */
    struct tpp_runs runs = {0};
    struct tpp_error err = {0};
    const enum tpp_code code = tpp_runs_read((const char *)data, size, "input.jsonl", &profiles, &runs, &err);
    FUZZ_CHECK(code == TPP_OK || (code == TPP_E_SYNTAX && err.message[0] != '\0'));
    if (runs.count > MAX_PREDICTED)
        runs.count = MAX_PREDICTED;
    struct tpp_run_prediction *predictions = calloc(runs.count + 1, sizeof *predictions);
    FUZZ_CHECK(predictions != NULL);
    for (size_t i = 0; i < runs.count; i++) {
        check_run(&runs.items[i]);
        FUZZ_CHECK(tpp_run_predict(&runs.items[i], &profiles, TPP_RUN_ESTIMATE, &predictions[i], &err) == TPP_OK);
    }
    check_report(&runs, predictions);
    free(predictions);
    tpp_runs_release(&runs);
    return 0;
}
