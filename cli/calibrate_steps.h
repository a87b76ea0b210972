/* calibrate_steps.h - measured training steps for `tp-plan calibrate fit`: what a step sustains of the GEMM rate. */
#ifndef TPP_CLI_CALIBRATE_STEPS_H
#define TPP_CLI_CALIBRATE_STEPS_H

#include "calibrate/fit/fit.h"
#include "cli/options.h"

/* --one-step: scales g_sus until the first measured run of this GPU in the file is predicted right; TPP_E_RANGE when all are
 * of other GPUs. `date` may be NULL. */
enum tpp_code tpp_calibrate_one_step(const char *path, const char *date, struct tpp_hardware *hardware,
                                     struct tpp_error *err);
/* --steps: fits g_sus to the runs of the files that are of this GPU, dense, in 16 bits and in the default subset. Each is
 * predicted on the cluster that it names, with the GPU of `hardware` in it. */
enum tpp_code tpp_calibrate_steps(const struct tpp_option_list *files, const char *date,
                                  struct tpp_hardware *hardware, struct tpp_fit_report *report, struct tpp_error *err);

#endif
