#include "costmodel/runs/run_report.h"

#include "costmodel/runs/run_statistics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Groups that are no raw measurements: in the list, in no figure over all groups (README of the data). */
static bool is_outside_totals(const char *group)
{
    return strcmp(group, "vtrain-single") == 0;
}

/* What runs are put together by. */
typedef const char *key_of_run(const struct tpp_run *run);

static const char *group_of_run(const struct tpp_run *run)
{
    return run->group;
}

static const char *gpu_of_run(const struct tpp_run *run)
{
    return run->gpu[0] != '\0' ? run->gpu : "unknown";
}

static const char *framework_of_run(const struct tpp_run *run)
{
    return run->gpu[0] != '\0' ? tpp_framework_name(run->stack.framework) : "unknown";
}

struct work {
    struct tpp_run_pair *pairs; /* of one set at a time */
    double *scratch;
    double *naive_seconds; /* of each run */
    size_t *set_of;        /* run -> index of its group, GPU or framework */
};

static enum tpp_code out_of_memory(struct tpp_error *err)
{
    return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
}

static enum tpp_code find_sets(const struct tpp_run *runs, size_t count, key_of_run *key, size_t *set_of,
                               struct tpp_run_figures **sets, size_t *num_sets, struct tpp_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const char *name = key(&runs[i]);
        size_t set = i > 0 && strcmp(name, (*sets)[set_of[i - 1]].name) == 0 ? set_of[i - 1] : 0;
        while (set < *num_sets && strcmp((*sets)[set].name, name) != 0)
            set++;
        if (set == *num_sets) {
            struct tpp_run_figures *grown = realloc(*sets, (*num_sets + 1) * sizeof **sets);
            if (grown == NULL)
                return out_of_memory(err);
            *sets = grown;
            memset(&grown[set], 0, sizeof grown[set]);
            snprintf(grown[set].name, sizeof grown[set].name, "%s", name);
            ++*num_sets;
        }
        set_of[i] = set;
    }
    return TPP_OK;
}

static void make_figures(const struct work *work, size_t count, struct tpp_run_figures *figures)
{
    figures->num_runs = count;
    figures->num_skipped = 0;
    for (size_t i = 0; i < count; i++)
        figures->num_skipped += work->pairs[i].prediction->skipped[0] != '\0';
    figures->step = tpp_run_step_errors(work->pairs, count, work->scratch);
    figures->naive = tpp_run_naive_errors(work->pairs, count, work->scratch);
    figures->memory = tpp_run_memory_errors(work->pairs, count, work->scratch);
    figures->fit = tpp_run_count_fits(work->pairs, count);
    figures->ranking = tpp_run_rank(work->pairs, count);
}

/* macro_mean_abs over groups: the plain mean of their mean_abs, each group once. */
static void set_macro_means(struct tpp_run_report *report)
{
    size_t timed = 0, measured = 0;
    double step = 0, memory = 0, naive = 0;
    for (size_t i = 0; i < report->num_groups; i++) {
        const struct tpp_run_figures *group = &report->groups[i];
        if (is_outside_totals(group->name))
            continue;
        timed += group->step.n > 0;
        measured += group->memory.n > 0;
        step += group->step.mean_abs;
        memory += group->memory.mean_abs;
        naive += group->naive.mean_abs;
    }
    report->all.step.macro_mean_abs = timed > 0 ? step / (double)timed : 0;
    report->all.naive.macro_mean_abs = timed > 0 ? naive / (double)timed : 0;
    report->all.memory.macro_mean_abs = measured > 0 ? memory / (double)measured : 0;
}

static int compare_reasons(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int compare_skips(const void *a, const void *b)
{
    const struct tpp_run_skip_count *left = a, *right = b;
    if (left->count != right->count)
        return left->count < right->count ? 1 : -1;
    return strcmp(left->reason, right->reason);
}

/* Counts equal reasons; `reasons` are those of the skipped runs, sorted. */
static enum tpp_code count_skips(const char **reasons, size_t count, struct tpp_run_report *report,
                                 struct tpp_error *err)
{
    size_t distinct = 0;
    qsort(reasons, count, sizeof *reasons, compare_reasons);
    for (size_t i = 0; i < count; i++)
        distinct += i == 0 || strcmp(reasons[i], reasons[i - 1]) != 0;
    report->skips = calloc(distinct + 1, sizeof *report->skips);
    if (report->skips == NULL)
        return out_of_memory(err);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(reasons[i], reasons[i - 1]) != 0)
            snprintf(report->skips[report->num_skips++].reason, sizeof report->skips->reason, "%s", reasons[i]);
        report->skips[report->num_skips - 1].count++;
    }
    qsort(report->skips, report->num_skips, sizeof *report->skips, compare_skips);
    return TPP_OK;
}

static enum tpp_code list_skips(const struct tpp_run_prediction *predictions, size_t count,
                                struct tpp_run_report *report, struct tpp_error *err)
{
    size_t skipped = 0;
    const char **reasons = malloc((count + 1) * sizeof *reasons);
    if (reasons == NULL)
        return out_of_memory(err);
    for (size_t i = 0; i < count; i++)
        if (predictions[i].skipped[0] != '\0')
            reasons[skipped++] = predictions[i].skipped;
    const enum tpp_code code = count_skips(reasons, skipped, report, err);
    free(reasons);
    return code;
}

#define EVERY_SET SIZE_MAX

/* Collects the runs of one set, or of all; those outside the totals are in their own group only. */
static size_t collect(const struct tpp_run *runs, const struct tpp_run_prediction *predictions, size_t count,
                      size_t set, bool is_group, struct work *work)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if ((set != EVERY_SET && work->set_of[i] != set) || (!is_group && is_outside_totals(runs[i].group)))
            continue;
        work->pairs[n] = (struct tpp_run_pair){&runs[i], &predictions[i], n, work->naive_seconds[i]};
        n++;
    }
    return n;
}

/* One MFU a GPU type: the median of the runs themselves, which no real forecast could know. */
static void set_naive_seconds(const struct tpp_run *runs, const struct tpp_run_prediction *predictions, size_t count,
                              size_t num_gpus, struct work *work)
{
    for (size_t gpu = 0; gpu < num_gpus; gpu++) {
        const size_t n = collect(runs, predictions, count, gpu, false, work);
        const double utilization = tpp_run_median_utilization(work->pairs, n, work->scratch);
        for (size_t i = 0; i < count; i++)
            if (work->set_of[i] == gpu && utilization > 0)
                work->naive_seconds[i] = predictions[i].seconds_at_peak / utilization;
    }
}

/* The figures of all sets of one kind. */
static enum tpp_code make_sets(const struct tpp_run *runs, const struct tpp_run_prediction *predictions, size_t count,
                               key_of_run *key, struct tpp_run_figures **sets, size_t *num_sets, struct work *work,
                               struct tpp_error *err)
{
    const bool is_group = key == group_of_run;
    const enum tpp_code code = find_sets(runs, count, key, work->set_of, sets, num_sets, err);
    if (code == TPP_OK && key == gpu_of_run)
        set_naive_seconds(runs, predictions, count, *num_sets, work);
    for (size_t set = 0; code == TPP_OK && set < *num_sets; set++)
        make_figures(work, collect(runs, predictions, count, set, is_group, work), &(*sets)[set]);
    return code;
}

enum tpp_code tpp_run_report_make(const struct tpp_run *runs, const struct tpp_run_prediction *predictions,
                                  size_t count, struct tpp_run_report *report, struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    struct work work = {
        .pairs = malloc((count + 1) * sizeof *work.pairs),
        .scratch = malloc((count + 1) * sizeof *work.scratch),
        .naive_seconds = calloc(count + 1, sizeof *work.naive_seconds),
        .set_of = malloc((count + 1) * sizeof *work.set_of),
    };
    memset(report, 0, sizeof *report);
    if (work.pairs == NULL || work.scratch == NULL || work.naive_seconds == NULL || work.set_of == NULL)
        code = out_of_memory(err);
    if (code == TPP_OK)
        code = list_skips(predictions, count, report, err);
    if (code == TPP_OK) /* first: it finds the naive seconds of all others */
        code = make_sets(runs, predictions, count, gpu_of_run, &report->gpus, &report->num_gpus, &work, err);
    if (code == TPP_OK)
        code = make_sets(runs, predictions, count, framework_of_run, &report->frameworks, &report->num_frameworks,
                         &work, err);
    if (code == TPP_OK)
        code = make_sets(runs, predictions, count, group_of_run, &report->groups, &report->num_groups, &work, err);
    if (code == TPP_OK) {
        make_figures(&work, collect(runs, predictions, count, EVERY_SET, false, &work), &report->all);
        set_macro_means(report);
    } else {
        tpp_run_report_release(report);
    }
    free(work.pairs);
    free(work.scratch);
    free(work.naive_seconds);
    free(work.set_of);
    return code;
}

void tpp_run_report_release(struct tpp_run_report *report)
{
    free(report->groups);
    free(report->gpus);
    free(report->frameworks);
    free(report->skips);
    memset(report, 0, sizeof *report);
}
