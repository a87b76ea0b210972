/* The calibration is not part of this release: the name is kept, and the answer says so. */
#include "cli/command.h"

#include <stdint.h>

struct calibrate_arguments {
    bool json;
};

static const struct tpp_option calibrate_options[] = {
    {"json", 0, TPP_OPTION_FLAG, offsetof(struct calibrate_arguments, json), .help = "print one JSON object"},
    {.name = NULL},
};
static const struct tpp_option_part calibrate_parts[] = {{"Output", calibrate_options, 0}, {NULL}};

static enum tpp_code run(const void *arguments, const struct tpp_operands *operands, struct tpp_answer *answer,
                         struct tpp_error *err)
{
    (void)arguments;
    (void)operands;
    (void)answer;
    return tpp_fail(err, TPP_E_NOT_BUILT, "calibrate",
                    "write measured values into a profile by hand: see tp-plan hardware --json NAME",
                    "the calibration is not part of this release");
}

const struct tpp_command tpp_command_calibrate = {
    .name = "calibrate",
    .summary = "turn measurements into a profile (not in this release)",
    .about = "Will turn logs and samples of a cluster into a profile. It is not part of this release: it answers with "
             "exit code 4.",
    .operands = "import|fit FILE...",
    .max_operands = SIZE_MAX,
    .parts = calibrate_parts,
    .examples = {{"tp-plan calibrate import nccl.log", "the rows of a log"},
                 {"tp-plan calibrate fit samples.jsonl", "a profile from samples"}},
    .arguments_size = sizeof(struct calibrate_arguments),
    .run = run,
};
