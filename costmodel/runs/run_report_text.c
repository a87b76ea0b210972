#include "costmodel/runs/run_report.h"

#include "costmodel/base/units.h"

#include <stdio.h>

#define PERCENT 100.0

static void append_errors(const struct tpp_run_errors *errors, struct tpp_text *text)
{
    if (errors->n == 0) {
        tpp_text_format(text, " %5s %8s %8s %8s %8s %8s", "-", "-", "-", "-", "-", "-");
        return;
    }
    tpp_text_format(text, " %5zu %+7.1f%% %7.1f%% %7.1f%% %7.0f%% %7.1f%%", errors->n, PERCENT * errors->bias,
                    PERCENT * errors->mean_abs, PERCENT * errors->median_abs, PERCENT * errors->within_10pct,
                    PERCENT * errors->max_abs);
}

static void append_share(size_t part, size_t whole, struct tpp_text *text)
{
    if (whole == 0)
        tpp_text_format(text, " %7s", "-");
    else
        tpp_text_format(text, " %6.1f%%", PERCENT * (double)part / (double)whole);
}

static void append_step_row(const char *name, const struct tpp_run_figures *figures, struct tpp_text *text)
{
    tpp_text_format(text, "%-22.22s", name);
    append_errors(&figures->step, text);
    if (figures->step.n == 0)
        tpp_text_format(text, " %8s %8s\n", "-", "-");
    else
        tpp_text_format(text, " %7.0f%% %7.1f%%\n", PERCENT * figures->step.interval_coverage,
                        PERCENT * figures->naive.mean_abs);
}

static void append_memory_row(const char *name, const struct tpp_run_figures *figures, struct tpp_text *text)
{
    tpp_text_format(text, "%-22.22s", name);
    append_errors(&figures->memory, text);
    tpp_text_append(text, "\n");
}

static void append_verdict_row(const char *name, const struct tpp_run_figures *figures, struct tpp_text *text)
{
    const struct tpp_run_ranking *ranking = &figures->ranking;
    tpp_text_format(text, "%-22.22s %6zu", name, figures->fit.n);
    append_share(figures->fit.num_right, figures->fit.n, text);
    tpp_text_format(text, " %9zu %9zu %6zu %6zu", figures->fit.said_fits_but_out_of_memory,
                    figures->fit.said_out_of_memory_but_fits, ranking->groups, ranking->pairs);
    append_share(ranking->num_right, ranking->pairs, text);
    if (ranking->groups == 0)
        tpp_text_format(text, " %7s\n", "-");
    else
        tpp_text_format(text, " %6.1f%%\n", PERCENT * ranking->mean_regret_fraction);
}

typedef void append_row(const char *name, const struct tpp_run_figures *figures, struct tpp_text *text);

static void append_table(const struct tpp_run_report *report, const char *heading, append_row *append,
                         struct tpp_text *text)
{
    tpp_text_format(text, "%s\n", heading);
    for (size_t i = 0; i < report->num_groups; i++)
        append(report->groups[i].name, &report->groups[i], text);
    append("all", &report->all, text);
}

/* The timed sets among `sets`. */
static void append_step_sets(const char *heading, const struct tpp_run_figures *sets, size_t count,
                             struct tpp_text *text)
{
    tpp_text_format(text, "%-22s     n     bias mean abs   median  <= 10%%    worst interval  one MFU\n", heading);
    for (size_t i = 0; i < count; i++)
        if (sets[i].step.n > 0)
            append_step_row(sets[i].name, &sets[i], text);
    tpp_text_append(text, "\n");
}

/* Names come from files: their control characters must not reach a terminal. */
static void append_clean(const char *string, struct tpp_text *text)
{
    for (; *string != '\0'; string++) {
        const unsigned char byte = (unsigned char)*string;
        const char clean = byte < 0x20 || byte == 0x7f ? '?' : *string;
        tpp_text_append_bytes(text, &clean, 1);
    }
}

void tpp_run_report_append_text(const struct tpp_run_report *report, struct tpp_text *text)
{
    append_table(report, "step time                  n     bias mean abs   median  <= 10%    worst interval  one MFU",
                 append_step_row, text);
    tpp_text_format(
        text,
        "plain mean over groups of their mean abs: %.1f%%; with one MFU for each GPU type, the median of these "
        "runs: %.1f%%\n\n",
        PERCENT * report->all.step.macro_mean_abs, PERCENT * report->all.naive.macro_mean_abs);
    append_step_sets("step time by GPU", report->gpus, report->num_gpus, text);
    append_step_sets("step time by framework", report->frameworks, report->num_frameworks, text);
    append_table(report, "peak memory                n     bias mean abs   median  <= 10%    worst", append_memory_row,
                 text);
    tpp_text_format(text, "plain mean over groups of their mean abs: %.1f%%\n\n",
                    PERCENT * report->all.memory.macro_mean_abs);
    append_table(report, "does it fit, ranking     runs   right  too lax  too strict  jobs  pairs   right  regret",
                 append_verdict_row, text);
    if (report->num_skips > 0)
        tpp_text_append(text, "\nskipped:\n");
    for (size_t i = 0; i < report->num_skips; i++) {
        tpp_text_format(text, "%6zu  ", report->skips[i].count);
        append_clean(report->skips[i].reason, text);
        tpp_text_append(text, "\n");
    }
}

static void append_run(const struct tpp_run *run, const struct tpp_run_prediction *prediction, struct tpp_text *text)
{
    const struct tpp_run_error error = tpp_run_error(run, prediction);
    char measured[32], predicted[32];
    append_clean(run->group, text);
    tpp_text_append(text, "/");
    append_clean(run->id, text);
    if (prediction->skipped[0] != '\0') {
        tpp_text_append(text, ": skipped: ");
        append_clean(prediction->skipped, text);
        tpp_text_append(text, "\n");
        return;
    }
    if (error.has_step)
        tpp_text_format(text, ": %s measured, %s predicted (%+.1f%%)",
                        tpp_format_seconds(measured, sizeof measured, run->measured_step_seconds),
                        tpp_format_seconds(predicted, sizeof predicted, prediction->step_seconds),
                        PERCENT * error.step_fraction);
    if (error.has_memory)
        tpp_text_format(text, "; peak %s measured, %s predicted (%+.1f%%)",
                        tpp_format_bytes(measured, sizeof measured, run->measured_peak_bytes),
                        tpp_format_bytes(predicted, sizeof predicted, tpp_run_predicted_peak_bytes(run, prediction)),
                        PERCENT * error.memory_fraction);
    if (run->out_of_memory == TPP_RUN_YES)
        tpp_text_append(text, "; ran out of memory");
    tpp_text_format(text, "; predicted: %s\n", tpp_fit_name(prediction->fit));
}

void tpp_run_rows_append_text(const struct tpp_run *runs, const struct tpp_run_prediction *predictions, size_t count,
                              struct tpp_text *text)
{
    for (size_t i = 0; i < count; i++)
        append_run(&runs[i], &predictions[i], text);
}
