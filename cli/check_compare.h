/* check_compare.h - a checked script beside what else there is: memory, better plans, measurements, an older check. */
#ifndef TPP_CLI_CHECK_COMPARE_H
#define TPP_CLI_CHECK_COMPARE_H

#include "cli/check_script.h"
#include "cli/command.h"

/* Adds to check->problems; sets the better plan and the measurement. Nothing without a plan, but what the baseline
 * asks. TPP_E_USAGE when a measurement or baseline was given and there is nothing to compare it with. */
enum tpp_code tpp_check_compare(struct tpp_check *check, const struct tpp_answer *answer, struct tpp_error *err);

#endif
