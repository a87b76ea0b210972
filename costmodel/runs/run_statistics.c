#include "costmodel/runs/run_statistics.h"

#include "costmodel/base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CLOSE_FRACTION 0.10    /* "within 10 %" */
#define TELLABLE_FRACTION 0.01 /* measured times nearer than this are no pair */

struct tpp_run_error tpp_run_error(const struct tpp_run *run, const struct tpp_run_prediction *prediction)
{
    struct tpp_run_error error = {0};
    if (prediction->skipped[0] != '\0')
        return error;
    if (run->measured_step_seconds > 0) {
        error.has_step = true;
        error.step_fraction = prediction->step_seconds / run->measured_step_seconds - 1;
    }
    const double predicted_bytes = tpp_run_predicted_peak_bytes(run, prediction);
    if (run->measured_peak_bytes > 0 && predicted_bytes > 0) {
        error.has_memory = true;
        error.memory_fraction = predicted_bytes / run->measured_peak_bytes - 1;
    }
    return error;
}

/* Sorts `values` in place. */
static double median_of(double *values, size_t count)
{
    if (count == 0)
        return 0;
    tpp_sort_numbers(values, count);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* Turns the signed errors in `errors` into figures; the order of `errors` is lost. */
static struct tpp_run_errors summarize(double *errors, size_t count)
{
    struct tpp_run_errors figures = {.n = count};
    if (count == 0)
        return figures;
    size_t close = 0;
    for (size_t i = 0; i < count; i++) {
        figures.bias += errors[i] / (double)count;
        errors[i] = fabs(errors[i]);
        figures.mean_abs += errors[i] / (double)count;
        if (errors[i] > figures.max_abs)
            figures.max_abs = errors[i];
        close += errors[i] <= CLOSE_FRACTION;
    }
    figures.within_10pct = (double)close / (double)count;
    figures.median_abs = median_of(errors, count);
    figures.macro_mean_abs = figures.mean_abs;
    return figures;
}

struct tpp_run_errors tpp_run_step_errors(const struct tpp_run_pair *pairs, size_t count, double *scratch)
{
    size_t n = 0, covered = 0;
    for (size_t i = 0; i < count; i++) {
        const struct tpp_run_prediction *prediction = pairs[i].prediction;
        const struct tpp_run_error error = tpp_run_error(pairs[i].run, prediction);
        if (!error.has_step)
            continue;
        scratch[n++] = error.step_fraction;
        covered += pairs[i].run->measured_step_seconds >= prediction->step_seconds_low &&
                   pairs[i].run->measured_step_seconds <= prediction->step_seconds_high;
    }
    struct tpp_run_errors figures = summarize(scratch, n);
    if (n > 0)
        figures.interval_coverage = (double)covered / (double)n;
    return figures;
}

struct tpp_run_errors tpp_run_naive_errors(const struct tpp_run_pair *pairs, size_t count, double *scratch)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (tpp_run_error(pairs[i].run, pairs[i].prediction).has_step && pairs[i].naive_seconds > 0)
            scratch[n++] = pairs[i].naive_seconds / pairs[i].run->measured_step_seconds - 1;
    struct tpp_run_errors figures = summarize(scratch, n);
    figures.interval_coverage = -1;
    return figures;
}

double tpp_run_median_utilization(const struct tpp_run_pair *pairs, size_t count, double *scratch)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (tpp_run_error(pairs[i].run, pairs[i].prediction).has_step)
            scratch[n++] = pairs[i].prediction->seconds_at_peak / pairs[i].run->measured_step_seconds;
    return median_of(scratch, n);
}

struct tpp_run_errors tpp_run_memory_errors(const struct tpp_run_pair *pairs, size_t count, double *scratch)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        const struct tpp_run_error error = tpp_run_error(pairs[i].run, pairs[i].prediction);
        if (error.has_memory)
            scratch[n++] = error.memory_fraction;
    }
    struct tpp_run_errors figures = summarize(scratch, n);
    figures.interval_coverage = -1;
    return figures;
}

struct tpp_run_fits tpp_run_count_fits(const struct tpp_run_pair *pairs, size_t count)
{
    struct tpp_run_fits fits = {0};
    for (size_t i = 0; i < count; i++) {
        if (pairs[i].prediction->skipped[0] != '\0' || pairs[i].run->out_of_memory == TPP_RUN_UNSAID)
            continue;
        const bool said_fits = pairs[i].prediction->fit != TPP_FIT_DOES_NOT_FIT;
        const bool did_fit = pairs[i].run->out_of_memory == TPP_RUN_NO;
        fits.n++;
        fits.num_right += said_fits == did_fit;
        fits.said_fits_but_out_of_memory += said_fits && !did_fit;
        fits.said_out_of_memory_but_fits += !said_fits && did_fit;
    }
    return fits;
}

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_shapes(const struct tpp_model *a, const struct tpp_model *b)
{
    const uint64_t left[] = {a->num_layers, a->hidden_size,     a->num_attention_heads, a->num_query_groups,
                             a->head_dim,   a->ffn_hidden_size, a->gated_mlp,           a->vocab_size};
    const uint64_t right[] = {b->num_layers, b->hidden_size,     b->num_attention_heads, b->num_query_groups,
                              b->head_dim,   b->ffn_hidden_size, b->gated_mlp,           b->vocab_size};
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
        if (left[i] != right[i])
            return compare_u64(left[i], right[i]);
    return 0;
}

/* 0 for runs of one job: what a planner would have chosen between. */
static int compare_jobs(const struct tpp_run *a, const struct tpp_run *b)
{
    int order = strcmp(a->group, b->group);
    if (order == 0)
        order = strcmp(a->cluster.profile, b->cluster.profile);
    if (order == 0)
        order = compare_shapes(&a->model, &b->model);
    if (order == 0)
        order = compare_u64(a->job.num_gpus, b->job.num_gpus);
    if (order == 0)
        order = compare_u64(a->job.sequence_length, b->job.sequence_length);
    if (order == 0)
        order = compare_u64(a->job.global_batch_size, b->job.global_batch_size);
    if (order == 0)
        order = compare_u64(a->job.precision, b->job.precision);
    return order != 0 ? order : compare_u64(a->job.task, b->job.task);
}

static int compare_pairs(const void *a, const void *b)
{
    const struct tpp_run_pair *left = a, *right = b;
    const int order = compare_jobs(left->run, right->run);
    return order != 0 ? order : compare_u64(left->order, right->order);
}

/* The same plan on the same kernels, measured twice, is no choice. */
static bool is_same_plan(const struct tpp_run *a, const struct tpp_run *b)
{
    return tpp_strategy_compare(&a->strategy, &b->strategy) == 0 && a->stack.attention == b->stack.attention &&
           a->stack.norm_kernel == b->stack.norm_kernel && a->stack.loss_kernel == b->stack.loss_kernel &&
           a->stack.engine == b->stack.engine && a->stack.launch_blocking == b->stack.launch_blocking &&
           a->stack.activation_kernel == b->stack.activation_kernel && a->stack.rope_kernel == b->stack.rope_kernel;
}

/* Pairs and regret of the runs of one job; ties of the prediction count as wrong. */
static void rank_job(const struct tpp_run_pair *job, size_t count, struct tpp_run_ranking *ranking)
{
    size_t chosen = 0;
    double best_seconds = INFINITY;
    for (size_t i = 0; i < count; i++) {
        const double seconds = job[i].run->measured_step_seconds;
        if (seconds < best_seconds)
            best_seconds = seconds;
        if (job[i].prediction->step_seconds < job[chosen].prediction->step_seconds)
            chosen = i;
        for (size_t k = i + 1; k < count; k++) {
            const double other = job[k].run->measured_step_seconds;
            if (fabs(seconds - other) <= TELLABLE_FRACTION * fmin(seconds, other) ||
                is_same_plan(job[i].run, job[k].run))
                continue;
            const double predicted = job[i].prediction->step_seconds, predicted_other = job[k].prediction->step_seconds;
            ranking->pairs++;
            ranking->num_right += seconds < other ? predicted < predicted_other : predicted > predicted_other;
        }
    }
    ranking->groups++;
    ranking->mean_regret_fraction += job[chosen].run->measured_step_seconds / best_seconds - 1;
}

struct tpp_run_ranking tpp_run_rank(struct tpp_run_pair *pairs, size_t count)
{
    struct tpp_run_ranking ranking = {0};
    size_t timed = 0;
    for (size_t i = 0; i < count; i++)
        if (tpp_run_error(pairs[i].run, pairs[i].prediction).has_step)
            pairs[timed++] = pairs[i];
    qsort(pairs, timed, sizeof *pairs, compare_pairs);
    for (size_t first = 0, next; first < timed; first = next) {
        for (next = first + 1; next < timed && compare_jobs(pairs[first].run, pairs[next].run) == 0; next++) {
        }
        if (next - first >= 2)
            rank_job(&pairs[first], next - first, &ranking);
    }
    if (ranking.groups > 0)
        ranking.mean_regret_fraction /= (double)ranking.groups;
    return ranking;
}
