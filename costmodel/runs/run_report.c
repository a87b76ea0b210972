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

struct work {
    struct tpp_run_pair *pairs; /* of one set at a time */
    double *scratch;
    size_t *group_of; /* run -> index of its group */
};

static enum tpp_code out_of_memory(struct tpp_error *err)
{
    return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
}

static enum tpp_code find_groups(const struct tpp_run *runs, size_t count, size_t *group_of,
                                 struct tpp_run_report *report, struct tpp_error *err)
{
    for (size_t i = 0; i < count; i++) {
        size_t group = i > 0 && strcmp(runs[i].group, runs[i - 1].group) == 0 ? group_of[i - 1] : 0;
        while (group < report->num_groups && strcmp(report->groups[group].name, runs[i].group) != 0)
            group++;
        if (group == report->num_groups) {
            const size_t size = (report->num_groups + 1) * sizeof *report->groups;
            struct tpp_run_figures *groups = realloc(report->groups, size);
            if (groups == NULL)
                return out_of_memory(err);
            report->groups = groups;
            memset(&groups[group], 0, sizeof groups[group]);
            snprintf(groups[group].name, sizeof groups[group].name, "%s", runs[i].group);
            report->num_groups++;
        }
        group_of[i] = group;
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
    figures->memory = tpp_run_memory_errors(work->pairs, count, work->scratch);
    figures->fit = tpp_run_count_fits(work->pairs, count);
    figures->ranking = tpp_run_rank(work->pairs, count);
}

/* macro_mean_abs over groups: the plain mean of their mean_abs, each group once. */
static void set_macro_means(struct tpp_run_report *report)
{
    size_t timed = 0, measured = 0;
    double step = 0, memory = 0;
    for (size_t i = 0; i < report->num_groups; i++) {
        const struct tpp_run_figures *group = &report->groups[i];
        if (is_outside_totals(group->name))
            continue;
        timed += group->step.n > 0;
        measured += group->memory.n > 0;
        step += group->step.mean_abs;
        memory += group->memory.mean_abs;
    }
    report->all.step.macro_mean_abs = timed > 0 ? step / (double)timed : 0;
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

/* Collects the runs of one group, or (group == num_groups) of all groups that count in the totals. */
static size_t collect(const struct tpp_run *runs, const struct tpp_run_prediction *predictions, size_t count,
                      const struct tpp_run_report *report, size_t group, struct work *work)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        const bool wanted = group < report->num_groups ? work->group_of[i] == group : !is_outside_totals(runs[i].group);
        if (wanted) {
            work->pairs[n] = (struct tpp_run_pair){&runs[i], &predictions[i], n};
            n++;
        }
    }
    return n;
}

enum tpp_code tpp_run_report_make(const struct tpp_run *runs, const struct tpp_run_prediction *predictions,
                                  size_t count, struct tpp_run_report *report, struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    struct work work = {
        .pairs = malloc((count + 1) * sizeof *work.pairs),
        .scratch = malloc((count + 1) * sizeof *work.scratch),
        .group_of = malloc((count + 1) * sizeof *work.group_of),
    };
    memset(report, 0, sizeof *report);
    if (work.pairs == NULL || work.scratch == NULL || work.group_of == NULL)
        code = out_of_memory(err);
    if (code == TPP_OK)
        code = find_groups(runs, count, work.group_of, report, err);
    if (code == TPP_OK)
        code = list_skips(predictions, count, report, err);
    for (size_t group = 0; code == TPP_OK && group < report->num_groups; group++)
        make_figures(&work, collect(runs, predictions, count, report, group, &work), &report->groups[group]);
    if (code == TPP_OK) {
        make_figures(&work, collect(runs, predictions, count, report, report->num_groups, &work), &report->all);
        set_macro_means(report);
    } else {
        tpp_run_report_release(report);
    }
    free(work.pairs);
    free(work.scratch);
    free(work.group_of);
    return code;
}

void tpp_run_report_release(struct tpp_run_report *report)
{
    free(report->groups);
    free(report->skips);
    memset(report, 0, sizeof *report);
}
