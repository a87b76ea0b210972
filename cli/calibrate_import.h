/* calibrate_import.h - `tp-plan calibrate import`: what is in files of measurements. */
#ifndef TPP_CLI_CALIBRATE_IMPORT_H
#define TPP_CLI_CALIBRATE_IMPORT_H

#include "calibrate/fit/samples.h"
#include "cli/command.h"

/* One table row for each kind of measurement in each file, then what was skipped and noted. */
enum tpp_code tpp_calibrate_show_import(const struct tpp_samples *samples, struct tpp_answer *answer,
                                        struct tpp_error *err);

#endif
