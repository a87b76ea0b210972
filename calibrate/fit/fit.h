/* fit.h - from samples to a profile: which values follow from which samples, with what error, and how good they are on
 * samples that were not fitted.
 *
 * | samples        | values                                                                 | cost-model |
 * | GEMM           | g_max, g_k0, wq, the tile; wg_f from weight gradients; fp8 factor       | 5.1 |
 * | training steps | g_sus                                                                   | 5.6 |
 * | attention      | forward and backward rate and r_d of each kernel, s0, kappa             | 5.2 |
 * | memory-bound   | memory efficiency from streaming kernels                                | 5.3 |
 * | collectives    | bus bandwidths, half-rate size, base and hop latency; NIC efficiency    | 6.1 |
 * | values         | launch gap, host launch, context, communicator memory, overlap          | -   |
 *
 * Each is fitted twice: on 70 % of the samples, to be judged on the other 30 %, and on all, for the profile. Which
 * sample goes where depends on its shape alone (for GEMMs on n and k: whole layers are held out), so that the same
 * files give the same profile. */
#ifndef TPP_CALIBRATE_FIT_FIT_H
#define TPP_CALIBRATE_FIT_FIT_H

#include "calibrate/fit/samples.h"
#include "costmodel/base/text.h"
#include "hwprofiles/hardware.h"

struct tpp_fit_value {
    const char *key;    /* of the profile */
    double base, value; /* equal when it was kept */
    double error;       /* standard error; of a value measured directly: half the distance of the quartiles; 0: none */
    const char *state;  /* "fitted", "measured", or why the base value was kept; static */
};

/* Errors |predicted / measured - 1| of a set of samples. */
struct tpp_fit_errors {
    size_t count;
    double median, p90, bias; /* bias: median of predicted / measured - 1 */
    double time_p90;          /* nine tenths of the measured time lie in samples within this */
};

enum { TPP_FIT_MAX_VALUES = TPP_HARDWARE_MAX_VALUES };

struct tpp_fit_group {
    char name[64];                    /* "gemm bf16", "attention", "all_reduce, 8 ranks, 1 node" */
    char range[160];                  /* what the samples span: where the values hold */
    size_t num_samples, num_left_out; /* left_out: outside the range the formula is for */
    size_t num_impossible;            /* faster than the GPU's peak: left out, in no other number */
    size_t num_fitted;                /* of num_samples: all, or the TPP_SOLVE_MAX_POINTS that the fit saw */
    bool is_in_profile;               /* false: shown only, the profile has no place for it */
    struct tpp_fit_value values[TPP_FIT_MAX_VALUES];
    size_t num_values;
    struct tpp_fit_errors held_out_before, held_out_after; /* fitted on 70 %, judged on 30 % */
    struct tpp_fit_errors all_before, all_after;
    size_t first_residual, num_residuals; /* into tpp_fit_report.residuals */
};

struct tpp_fit_residual {
    double size; /* FLOP, or bytes */
    double measured_seconds, predicted_seconds, base_seconds;
    bool is_held_out;
};

struct tpp_fit_report {
    struct tpp_fit_group *groups;
    size_t num_groups, group_capacity;
    struct tpp_fit_residual *residuals;
    size_t num_residuals, residual_capacity;
    char notes[8][200];
    uint32_t num_notes;
};

struct tpp_fit_options {
    const char *device; /* use only samples whose device contains this; NULL: all */
    const char *date;   /* put into the origin of measured values; NULL: none */
};

void tpp_fit_report_init(struct tpp_fit_report *report);
void tpp_fit_report_release(struct tpp_fit_report *report);

/* Names the new profile: `name`, or with NULL what it is called with "-fitted" behind. TPP_E_USAGE when `name` is not 1 to
 * 63 bytes of UTF-8, which a profile could not be read back with. */
enum tpp_code tpp_fit_name_profile(struct tpp_hardware *hardware, const char *name, struct tpp_error *err);

/* Fits what the samples determine and fills *hardware: `base` with those values, their provenance (published when all
 * of its samples come from tables, else measured), standard error, error on the samples held out, and source. Samples
 * faster than the GPU's peak are counted and left out; TPP_E_RANGE when most of a kind are. TPP_E_MISSING when no sample
 * can be used. `options` may be NULL. */
enum tpp_code tpp_fit_profile(const struct tpp_samples *samples, const struct tpp_hardware *base,
                              const struct tpp_fit_options *options, struct tpp_hardware *hardware,
                              struct tpp_fit_report *report, struct tpp_error *err);

/* Seconds of one step on that hardware; what tpp_fit_one_step changes is g_sus alone. `context` is the caller's. */
typedef enum tpp_code tpp_fit_step(const struct tpp_hardware *hardware, const void *context, double *seconds,
                                   struct tpp_error *err);
/* Where measured steps come from: for the origin of the value that follows. */
struct tpp_step_origin {
    const char *source; /* name of the run, or of the file */
    const char *date;   /* NULL: none */
    bool is_published;  /* all of them; else measured */
};
/* Scales g_sus until the predicted step takes the measured time (cost-model 5.6: calibration by one step). Fails with
 * TPP_E_RANGE when no GEMM rate in the step, g_max * g_sus, from 0.05 to 1 does with a g_sus that a profile
 * may have; the message says what the ends predict. */
enum tpp_code tpp_fit_one_step(struct tpp_hardware *hardware, double measured_seconds,
                               const struct tpp_step_origin *origin, tpp_fit_step *step, const void *context,
                               struct tpp_error *err);

struct tpp_measured_step {
    tpp_fit_step *predict;
    const void *context;
};
/* Measured steps; `predict` gives the seconds of step `index` on that hardware. */
struct tpp_measured_steps {
    const double *seconds; /* measured, above 0 */
    size_t count;
    enum tpp_code (*predict)(const struct tpp_hardware *hardware, const void *context, size_t index, double *seconds,
                             struct tpp_error *err);
    const void *context;
};
/* Sets g_sus to the value at which the median error of the steps is 0: one number of the GPU, whatever ran on it. Fewer
 * than four steps leave it as it is, and so does a median that no rate brings to 0 or that hardly depends on it; the group
 * in the report says so. Judged like the other fits, on three of every ten steps. */
enum tpp_code tpp_fit_steps(struct tpp_hardware *hardware, const struct tpp_measured_steps *steps,
                            const struct tpp_step_origin *origin, struct tpp_fit_report *report,
                            struct tpp_error *err);

/* For people and for programs. */
void tpp_fit_report_text(const struct tpp_fit_report *report, struct tpp_text *out);
void tpp_fit_report_json(const struct tpp_fit_report *report, struct tpp_json_writer *writer, struct cJSON *parent);
/* One line a residual: group, size, measured, predicted, base, held_out; comma-separated with a header. */
void tpp_fit_residual_table(const struct tpp_fit_report *report, struct tpp_text *out);

#endif
