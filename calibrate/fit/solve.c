#include "calibrate/fit/solve.h"

#include "costmodel/base/statistics.h"

#include <assert.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_matrix.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <gsl/gsl_vector.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double biweight_cutoff = 4.685;    /* 95 % efficiency for normal errors (Holland, Welsch) */
static const double mad_to_deviation = 1.4826;  /* of a normal distribution */
static const double measurement_scatter = 0.05; /* repeats that scatter by more count less */
static const double least_scale = 1e-4;         /* below it the data have no scatter: all weights 1 */
static const double greatest_relative_error = 0.5;
enum { MAX_ROUNDS = 20, MAX_ITERATIONS = 100 };

/* The unknowns that are free in this run, and where they are stored. */
struct run {
    struct tpp_hardware *hardware;
    const struct tpp_unknown *unknowns[TPP_SOLVE_MAX_UNKNOWNS];
    size_t index[TPP_SOLVE_MAX_UNKNOWNS]; /* into the caller's list */
    double *place[TPP_SOLVE_MAX_UNKNOWNS];
    double base[TPP_SOLVE_MAX_UNKNOWNS]; /* of the caller's list: what the fit starts from */
    size_t count;
    tpp_predict *predict;
    const struct tpp_points *points;
};

/* Every real x stands for a value inside the limits. */
static double to_value(const struct tpp_unknown *unknown, double x)
{
    const double share = 1 / (1 + exp(-x));
    return unknown->min > 0 ? unknown->min * pow(unknown->max / unknown->min, share)
                            : unknown->min + (unknown->max - unknown->min) * share;
}

static double share_of(const struct tpp_unknown *unknown, double value)
{
    return unknown->min > 0 ? log(value / unknown->min) / log(unknown->max / unknown->min)
                            : (value - unknown->min) / (unknown->max - unknown->min);
}

static double to_x(const struct tpp_unknown *unknown, double value)
{
    const double inside = fmin(fmax(value, unknown->min), unknown->max);
    const double share = fmin(fmax(share_of(unknown, inside), 0.02), 0.98);
    return log(share / (1 - share));
}

static double *place_of(struct tpp_hardware *hardware, const char *key)
{
    uint32_t index;
    const bool is_known = tpp_hardware_field_index(key, &index);
    const struct tpp_hardware_field *field = &tpp_hardware_fields(NULL)[index];
    assert(is_known && field->kind == TPP_HARDWARE_DOUBLE);
    (void)is_known;
    return (double *)((char *)hardware + field->offset);
}

static void set_values(const struct run *run, const gsl_vector *x)
{
    for (size_t i = 0; i < run->count; i++) {
        *run->place[i] = to_value(run->unknowns[i], gsl_vector_get(x, i));
    }
}

static int residuals(const gsl_vector *x, void *parameters, gsl_vector *f)
{
    const struct run *run = parameters;
    set_values(run, x);
    for (size_t i = 0; i < run->points->count; i++) {
        const double error = log(run->predict(run->hardware, run->points->items[i]) / run->points->items[i]->seconds);
        if (!isfinite(error)) {
            return GSL_EDOM;
        }
        gsl_vector_set(f, i, error);
    }
    return GSL_SUCCESS;
}

/* Median distance of the residuals from zero, as a standard deviation. */
static double robust_scale(const gsl_vector *f, double *scratch)
{
    for (size_t i = 0; i < f->size; i++) {
        scratch[i] = fabs(gsl_vector_get(f, i));
    }
    tpp_sort_numbers(scratch, f->size);
    return mad_to_deviation * tpp_sorted_quantile(scratch, f->size, 0.5);
}

static void set_weights(const struct run *run, const gsl_vector *f, double scale, gsl_vector *weights)
{
    for (size_t i = 0; i < weights->size; i++) {
        const double scatter = run->points->items[i]->spread_fraction / measurement_scatter;
        const double u = gsl_vector_get(f, i) / (biweight_cutoff * fmax(scale, least_scale));
        const double biweight = fabs(u) < 1 ? (1 - u * u) * (1 - u * u) : 1e-6;
        gsl_vector_set(weights, i, biweight / (1 + scatter * scatter));
    }
}

struct workspace {
    gsl_multifit_nlinear_workspace *solver;
    gsl_vector *x, *weights, *errors; /* errors: log(predicted / measured), without the weights */
    gsl_matrix *covariance;
    double *scratch;
};

static void release(struct workspace *workspace)
{
    if (workspace->solver) {
        gsl_multifit_nlinear_free(workspace->solver);
    }
    gsl_vector_free(workspace->x);
    gsl_vector_free(workspace->weights);
    gsl_vector_free(workspace->errors);
    gsl_matrix_free(workspace->covariance);
    free(workspace->scratch);
}

static bool acquire(struct workspace *workspace, const struct run *run)
{
    const size_t n = run->points->count;
    gsl_multifit_nlinear_parameters parameters = gsl_multifit_nlinear_default_parameters();
    parameters.h_df = 1e-4; /* the formulas have steps: a difference must reach over rounding */
    memset(workspace, 0, sizeof *workspace);
    workspace->solver = gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &parameters, n, run->count);
    workspace->x = gsl_vector_alloc(run->count);
    workspace->weights = gsl_vector_alloc(n);
    workspace->errors = gsl_vector_alloc(n);
    workspace->covariance = gsl_matrix_alloc(run->count, run->count);
    workspace->scratch = malloc(n * sizeof *workspace->scratch);
    return workspace->solver && workspace->x && workspace->weights && workspace->errors && workspace->covariance &&
           workspace->scratch;
}

/* Rounds of weighted least squares until the scale of the errors stands still. */
static bool iterate(struct run *run, struct workspace *workspace, double *scale)
{
    gsl_multifit_nlinear_fdf system = {.f = residuals, .n = run->points->count, .p = run->count, .params = run};
    double previous = INFINITY;
    gsl_vector_set_all(workspace->weights, 1);
    for (size_t i = 0; i < run->count; i++) {
        gsl_vector_set(workspace->x, i, to_x(run->unknowns[i], *run->place[i]));
    }
    for (int round = 0; round < MAX_ROUNDS; round++) {
        int info;
        if (gsl_multifit_nlinear_winit(workspace->x, workspace->weights, &system, workspace->solver) != GSL_SUCCESS) {
            return false;
        }
        const int status =
            gsl_multifit_nlinear_driver(MAX_ITERATIONS, 1e-8, 1e-10, 1e-10, NULL, NULL, &info, workspace->solver);
        if (status != GSL_SUCCESS && status != GSL_ENOPROG && status != GSL_EMAXITER) {
            return false;
        }
        gsl_vector_memcpy(workspace->x, gsl_multifit_nlinear_position(workspace->solver));
        if (residuals(workspace->x, run, workspace->errors) != GSL_SUCCESS) {
            return false;
        }
        *scale = robust_scale(workspace->errors, workspace->scratch);
        set_weights(run, workspace->errors, *scale, workspace->weights);
        if (round > 0 && fabs(*scale - previous) <= 1e-5 * *scale) {
            return true;
        }
        previous = *scale;
    }
    return true; /* the scale still moves between two neighbours: the last one is as good */
}

/* Variance of the weighted residuals at the solution. */
static double residual_variance(const struct run *run, const struct workspace *workspace)
{
    double sum = 0;
    const gsl_vector *f = workspace->errors;
    for (size_t i = 0; i < f->size; i++) {
        sum += gsl_vector_get(workspace->weights, i) * gsl_vector_get(f, i) * gsl_vector_get(f, i);
    }
    return sum / (double)(run->points->count - run->count);
}

/* Standard error of a value: of x by the covariance, times dvalue/dx. */
static double value_error(const struct tpp_unknown *unknown, double x, double variance)
{
    const double step = 1e-4;
    const double slope = (to_value(unknown, x + step) - to_value(unknown, x - step)) / (2 * step);
    return variance > 0 ? fabs(slope) * sqrt(variance) : 0;
}

/* Place in the run of the caller's unknown `index`. */
static size_t index_of(const struct run *run, size_t index)
{
    size_t i = 0;
    while (run->index[i] != index) {
        i++;
    }
    return i;
}

/* How badly an unknown is determined: its relative standard error (of a share: the absolute one); infinite at a limit
 * that is no answer. */
static double badness(const struct tpp_unknown *unknown, double value, double error, bool is_at_limit)
{
    if (is_at_limit) {
        return unknown->may_be_at_limit ? 0 : INFINITY;
    }
    return unknown->may_be_at_limit ? error : error / fabs(value);
}

/* Whether these points would show the effect that a value of the base says: whether it makes more of a tenth of the times
 * than they scatter. When it does not, that none was seen says nothing. */
static bool would_be_seen(const struct run *run, size_t at, double scale, double *scratch)
{
    static const double least_scatter = 0.01;
    const double found = *run->place[at];
    size_t count = 0;
    for (size_t i = 0; i < run->points->count; i++) {
        *run->place[at] = run->unknowns[at]->min;
        const double without = run->predict(run->hardware, run->points->items[i]);
        *run->place[at] = run->base[run->index[at]];
        const double effect = fabs(log(run->predict(run->hardware, run->points->items[i]) / without));
        if (isfinite(effect)) {
            scratch[count++] = effect;
        }
    }
    *run->place[at] = found;
    tpp_sort_numbers(scratch, count);
    return count > 0 && tpp_sorted_quantile(scratch, count, 0.9) > 2 * fmax(scale, least_scatter);
}

/* Takes the solution over, and marks the unknown that it determines least when it does not determine it well. When the
 * unknowns depend on each other (GSL gives one of them the variance 0) the last is marked: callers name the important
 * ones first. Returns false when one was marked. */
static bool judge(const struct run *run, struct workspace *workspace, struct tpp_solution *solution)
{
    double worst = greatest_relative_error;
    size_t marked = SIZE_MAX;
    bool is_dependent = false;
    /* The solver keeps the Jacobian of the weighted residuals: (J' W J)^-1. */
    gsl_multifit_nlinear_covar(gsl_multifit_nlinear_jac(workspace->solver), 1e-10, workspace->covariance);
    const double variance = residual_variance(run, workspace);
    for (size_t i = 0; i < run->count; i++) {
        const struct tpp_unknown *unknown = run->unknowns[i];
        const double x = gsl_vector_get(workspace->x, i), value = to_value(unknown, x);
        const double covariance = gsl_matrix_get(workspace->covariance, i, i), share = share_of(unknown, value);
        const double error = value_error(unknown, x, covariance * variance);
        const size_t at = run->index[i];
        const bool is_at_limit = share < 0.01 || share > 0.99;
        const double bad = badness(unknown, value, error, is_at_limit);
        is_dependent = is_dependent || (!is_at_limit && !(covariance > 0));
        solution->value[at] = !is_at_limit ? value : share < 0.5 ? unknown->min : unknown->max;
        solution->error[at] = is_at_limit ? 0 : error;
        if (bad >= worst) {
            worst = bad;
            marked = at;
        }
    }
    if (is_dependent && !isinf(worst)) {
        marked = run->index[run->count - 1];
    }
    if (marked != SIZE_MAX) {
        const size_t at = index_of(run, marked);
        const bool is_off =
            run->unknowns[at]->is_off_at_min && would_be_seen(run, at, solution->scale, workspace->scratch);
        solution->state[marked] = is_off ? TPP_UNKNOWN_OFF : TPP_UNKNOWN_UNDETERMINED;
    }
    return marked == SIZE_MAX;
}

static void select_free(struct run *run, const struct tpp_unknown *unknowns, size_t num_unknowns,
                        const struct tpp_solution *solution)
{
    run->count = 0;
    for (size_t i = 0; i < num_unknowns; i++) {
        if (solution->state[i] == TPP_UNKNOWN_FITTED) {
            run->unknowns[run->count] = &unknowns[i];
            run->index[run->count] = i;
            run->place[run->count++] = place_of(run->hardware, unknowns[i].key);
        }
    }
}

/* Puts base values back for all that is not fitted, and the solution in for the rest. */
static void settle(struct tpp_hardware *hardware, const struct tpp_unknown *unknowns, size_t num_unknowns,
                   const double *base, struct tpp_solution *solution)
{
    for (size_t i = 0; i < num_unknowns; i++) {
        if (solution->state[i] != TPP_UNKNOWN_FITTED) {
            solution->value[i] = solution->state[i] == TPP_UNKNOWN_OFF ? unknowns[i].min : base[i];
            solution->error[i] = 0;
        }
        *place_of(hardware, unknowns[i].key) = solution->value[i];
    }
}

static void mark_all(struct tpp_solution *solution, size_t num_unknowns, enum tpp_unknown_state state)
{
    for (size_t i = 0; i < num_unknowns; i++) {
        if (solution->state[i] == TPP_UNKNOWN_FITTED) {
            solution->state[i] = state;
        }
    }
}

static enum tpp_code solve_points(struct tpp_hardware *hardware, const struct tpp_unknown *unknowns, size_t num_unknowns,
                                  tpp_predict *predict, const struct tpp_points *points, struct tpp_solution *solution,
                                  struct tpp_error *err)
{
    struct run run = {.hardware = hardware, .predict = predict, .points = points};
    assert(num_unknowns <= TPP_SOLVE_MAX_UNKNOWNS);
    memset(solution, 0, sizeof *solution);
    for (size_t i = 0; i < num_unknowns; i++) {
        run.base[i] = *place_of(hardware, unknowns[i].key);
    }
    gsl_error_handler_t *handler = gsl_set_error_handler_off();
    for (select_free(&run, unknowns, num_unknowns, solution); run.count > 0;) {
        struct workspace workspace;
        if (points->count < TPP_SOLVE_POINTS_PER_UNKNOWN * run.count) {
            mark_all(solution, num_unknowns, TPP_UNKNOWN_TOO_FEW_POINTS);
            break;
        }
        const bool has_memory = acquire(&workspace, &run);
        const bool has_converged = has_memory && iterate(&run, &workspace, &solution->scale);
        const bool is_determined = has_converged && judge(&run, &workspace, solution);
        release(&workspace);
        if (!has_memory) {
            settle(hardware, unknowns, num_unknowns, run.base, solution);
            gsl_set_error_handler(handler);
            return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
        }
        if (!has_converged) {
            mark_all(solution, num_unknowns, TPP_UNKNOWN_DIVERGED);
            break;
        }
        if (is_determined) {
            break;
        }
        for (size_t i = 0; i < num_unknowns; i++) { /* again without them, from the base */
            *place_of(hardware, unknowns[i].key) = solution->state[i] == TPP_UNKNOWN_OFF ? unknowns[i].min : run.base[i];
        }
        select_free(&run, unknowns, num_unknowns, solution);
    }
    gsl_set_error_handler(handler);
    settle(hardware, unknowns, num_unknowns, run.base, solution);
    return TPP_OK;
}

uint64_t tpp_solve_mix(uint64_t z)
{
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* One point out of each of TPP_SOLVE_MAX_POINTS equal stretches, at a place that follows no pattern of the list. */
static void draw_points(const struct tpp_points *points, const struct tpp_sample **drawn)
{
    for (size_t i = 0; i < TPP_SOLVE_MAX_POINTS; i++) {
        const size_t first = i * points->count / TPP_SOLVE_MAX_POINTS;
        const size_t length = (i + 1) * points->count / TPP_SOLVE_MAX_POINTS - first;
        drawn[i] = points->items[first + tpp_solve_mix(i) % length];
    }
}

enum tpp_code tpp_solve(struct tpp_hardware *hardware, const struct tpp_unknown *unknowns, size_t num_unknowns,
                        tpp_predict *predict, const struct tpp_points *points, struct tpp_solution *solution,
                        struct tpp_error *err)
{
    if (points->count <= TPP_SOLVE_MAX_POINTS) {
        return solve_points(hardware, unknowns, num_unknowns, predict, points, solution, err);
    }
    struct tpp_points drawn = {.count = TPP_SOLVE_MAX_POINTS};
    drawn.items = malloc(TPP_SOLVE_MAX_POINTS * sizeof *drawn.items);
    if (!drawn.items) {
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    }
    draw_points(points, drawn.items);
    const enum tpp_code code = solve_points(hardware, unknowns, num_unknowns, predict, &drawn, solution, err);
    free(drawn.items);
    return code;
}

const char *tpp_unknown_state_name(enum tpp_unknown_state state)
{
    static const char *const names[] = {"fitted",
                                        "too few points",
                                        "not determined by these points",
                                        "no such effect seen",
                                        "did not converge",
                                        "no better on held-out samples"};
    return names[state];
}
