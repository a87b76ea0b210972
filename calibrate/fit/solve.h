/* solve.h - the values of a profile that make a formula of the cost model meet measured times best.
 *
 * The unknowns are values of a struct tpp_hardware, named by their keys; the prediction is the planner's own function
 * of that struct, so what is fitted is what is used. The error of a point is log(predicted / measured): a factor of two
 * is as bad upwards as downwards, and a microsecond counts as much as a second.
 *
 *     minimise sum_i w_i rho(log p_i(x) / t_i),  rho = Tukey's biweight at 4.685 robust standard deviations
 *
 * by iteratively reweighted least squares; each round is a Levenberg-Marquardt solution of GSL (gsl_multifit_nlinear).
 * Standard errors come from the covariance of the last round, (J' W J)^-1 times its residual variance.
 * Source: Holland, Welsch 1977, "Robust regression using iteratively reweighted least-squares", Comm. Statist. A6. */
#ifndef TPP_CALIBRATE_FIT_SOLVE_H
#define TPP_CALIBRATE_FIT_SOLVE_H

#include "calibrate/fit/samples.h"
#include "hwprofiles/hardware.h"

/* Of more than TPP_SOLVE_MAX_POINTS points that many are used, drawn evenly, always the same ones: their standard errors are
 * a tenth of a percent then, and the time is bounded. */
enum { TPP_SOLVE_MAX_UNKNOWNS = 16, TPP_SOLVE_POINTS_PER_UNKNOWN = 4, TPP_SOLVE_MAX_POINTS = 8192 };

struct tpp_unknown {
    const char *key;      /* of a hardware profile; a value stored as double */
    double min, max;      /* where it is looked for; min > 0: on a logarithmic scale */
    bool may_be_at_limit; /* a value at `min` or `max` is an answer (a share that is 0 or 1) */
    bool is_off_at_min;   /* `min` stands for "no such effect": taken when the points do not show one that the base's value
                           * would make visible in them */
};

/* Seconds of a sample on that hardware, above 0. */
typedef double tpp_predict(const struct tpp_hardware *hardware, const struct tpp_sample *sample);

struct tpp_points {
    const struct tpp_sample **items; /* borrowed */
    size_t count;
};

enum tpp_unknown_state {
    TPP_UNKNOWN_FITTED,
    TPP_UNKNOWN_TOO_FEW_POINTS,
    TPP_UNKNOWN_UNDETERMINED, /* ran to its limit, or its standard error is above a half of it: base value kept */
    TPP_UNKNOWN_OFF,          /* no such effect seen where the base has one: set to `min` */
    TPP_UNKNOWN_DIVERGED,
    TPP_UNKNOWN_NO_BETTER, /* set by the caller: the fit is worse than the base on samples that were held out */
};

struct tpp_solution {
    enum tpp_unknown_state state[TPP_SOLVE_MAX_UNKNOWNS];
    double value[TPP_SOLVE_MAX_UNKNOWNS]; /* the base value where the state is neither FITTED nor OFF */
    double error[TPP_SOLVE_MAX_UNKNOWNS]; /* standard error; 0 where the value is the base's or at a limit */
    double scale;                         /* robust standard deviation of the logarithmic errors */
};

/* Starts from the values in `hardware` and writes the solution into it; values that these points do not determine keep
 * what they had. Not converging and too few points are answers (see state), no errors. */
enum tpp_code tpp_solve(struct tpp_hardware *hardware, const struct tpp_unknown *unknowns, size_t num_unknowns,
                        tpp_predict *predict, const struct tpp_points *points, struct tpp_solution *solution,
                        struct tpp_error *err);

/* splitmix64: numbers that follow no pattern from numbers that do. */
uint64_t tpp_solve_mix(uint64_t z);

const char *tpp_unknown_state_name(enum tpp_unknown_state state); /* "fitted", "too few points", ... */

#endif
