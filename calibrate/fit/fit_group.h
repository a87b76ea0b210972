/* fit_group.h - one group of a fit: its samples, its unknowns, and how good they are; shared by the fits of each kind.
 */
#ifndef TPP_CALIBRATE_FIT_FIT_GROUP_H
#define TPP_CALIBRATE_FIT_FIT_GROUP_H

#include "calibrate/fit/fit.h"
#include "calibrate/fit/solve.h"

/* What is passed through all fits. */
struct tpp_fit_run {
    const struct tpp_samples *samples; /* of the options' device */
    const struct tpp_hardware *base;
    const struct tpp_fit_options *options;
    struct tpp_hardware *hardware; /* the result so far: later fits use what earlier ones found */
    struct tpp_fit_report *report;
};

/* A group's samples: an array with room for all, how many the formula is not for, and how many no GPU of this peak can
 * have run. */
struct tpp_fit_set {
    struct tpp_points points;
    size_t num_left_out, num_impossible;
    bool *is_held_out; /* by sample; NULL before tpp_fit_hold_out */
};

enum tpp_fit_use { TPP_FIT_OTHER, TPP_FIT_USE, TPP_FIT_LEAVE_OUT };
/* Whether a sample belongs to the group. */
typedef enum tpp_fit_use tpp_fit_select(const struct tpp_sample *sample, const void *context);

/* Collects the samples of a group; release with tpp_fit_set_release. */
enum tpp_code tpp_fit_collect(const struct tpp_fit_run *run, tpp_fit_select *select, const void *context,
                              struct tpp_fit_set *set, struct tpp_error *err);
/* Takes out what is faster than `least`, the seconds at the base's peak rate. TPP_E_RANGE when that is most of it: then
 * the samples are not of the base's GPU. */
enum tpp_code tpp_fit_leave_out_impossible(const struct tpp_fit_run *run, tpp_predict *least, const char *name,
                                           struct tpp_fit_set *set, struct tpp_error *err);

void tpp_fit_set_release(struct tpp_fit_set *set); /* also after tpp_fit_collect failed */

/* What is fitted: unknowns, the formula, and what stands for the sample in the hold-out and on the axis of a plot. */
struct tpp_fit_plan {
    const char *name;
    const struct tpp_unknown *unknowns;
    size_t num_unknowns;
    tpp_predict *predict;
    uint64_t (*shape)(const struct tpp_sample *sample); /* samples of equal shape are held out together */
    double (*size)(const struct tpp_sample *sample);
    void (*describe)(const struct tpp_fit_set *set, char *range, size_t range_size);
    bool is_in_profile;
    const char *error_key; /* value of the profile that says how far off the formula is, see fit_judge.c; NULL: none */
    /* Puts back what was chosen beside the unknowns, when the fit is no better than the base; NULL: nothing was. */
    void (*revert)(struct tpp_hardware *hardware, const struct tpp_hardware *base);
};

/* Fits, judges and writes the group into the report, and (when is_in_profile) the values into run->hardware. `hardware`
 * is what the fit starts from and gets the solution: run->hardware, or a copy of it with parts switched off. Nothing
 * happens when the set is empty. */
enum tpp_code tpp_fit_group(struct tpp_fit_run *run, struct tpp_hardware *hardware, const struct tpp_fit_plan *plan,
                            struct tpp_fit_set *set, struct tpp_error *err);

/* Marks where a value comes from: "calibrate fit 2026-11-29: 300 samples of g.jsonl on NVIDIA H200, +-0.8 %", and behind
 * it `addition`. */
void tpp_fit_set_origin(const struct tpp_fit_run *run, const char *key, const struct tpp_fit_set *set,
                        double relative_error, const char *addition);
/* ", held out: median 5.1 %, 90 % within 25 %" for such an addition; "" when none were. */
void tpp_fit_describe_errors(const struct tpp_fit_errors *held_out, char *text, size_t size);
/* Puts a text into an origin's source: bytes that are no UTF-8 as "?", and cut between characters, so that the profile can
 * be read back. */
void tpp_fit_write_source(struct tpp_hardware_origin *origin, const char *text);
/* Which samples of a set are meant. */
enum tpp_fit_part { TPP_FIT_ALL, TPP_FIT_KEPT, TPP_FIT_HELD_OUT };
/* Errors of a formula on samples; those it cannot predict (a kernel that is not there) are not counted. */
enum tpp_code tpp_fit_judge(const struct tpp_hardware *hardware, tpp_predict *predict, const struct tpp_fit_set *set,
                            enum tpp_fit_part part, struct tpp_fit_errors *errors, struct tpp_error *err);
/* One error, and the measured seconds that it is of. */
struct tpp_sample_error {
    double error, seconds;
};
/* Median, quantiles and bias of errors, which it sorts. */
enum tpp_code tpp_fit_summarise(struct tpp_sample_error *items, size_t count, struct tpp_fit_errors *errors,
                                struct tpp_error *err);
/* Writes the plan's error_key: how far off the formula is on what it has not seen. */
void tpp_fit_write_error(struct tpp_fit_run *run, const struct tpp_fit_group *group, const struct tpp_fit_plan *plan,
                         const struct tpp_solution *solution, const struct tpp_fit_set *set);
/* Chooses 30 % of the shapes: of their digests in order, the last three of every ten. */
enum tpp_code tpp_fit_hold_out(struct tpp_fit_set *set, uint64_t (*shape)(const struct tpp_sample *sample),
                               struct tpp_error *err);
/* Samples of one part; the caller frees points->items. */
enum tpp_code tpp_fit_take_part(const struct tpp_fit_set *set, enum tpp_fit_part part, struct tpp_points *points,
                                struct tpp_error *err);
/* A new group, zeroed; NULL when out of memory. Valid until the next one. */
struct tpp_fit_group *tpp_fit_new_group(struct tpp_fit_report *report);
uint64_t tpp_fit_mix(uint64_t digest, double value);
/* Notes beyond the report's room are dropped. */
bool tpp_fit_has_room_for_notes(const struct tpp_fit_report *report);
void tpp_fit_note(struct tpp_fit_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

enum tpp_code tpp_fit_gemm(struct tpp_fit_run *run, struct tpp_error *err);
enum tpp_code tpp_fit_attention(struct tpp_fit_run *run, struct tpp_error *err);
enum tpp_code tpp_fit_memory_bound(struct tpp_fit_run *run, struct tpp_error *err);
enum tpp_code tpp_fit_collectives(struct tpp_fit_run *run, struct tpp_error *err);
enum tpp_code tpp_fit_values(struct tpp_fit_run *run, struct tpp_error *err);

#endif
