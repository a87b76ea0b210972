/* The checking of launch scripts is not part of this release: the name is kept, and the answer says so. */
#include "cli/command.h"
#include "costmodel/job.h"

struct check_arguments {
    const char *cluster;
    int64_t world_size;
    struct tpp_option_list set;
    bool json;
};

static const struct tpp_option check_options[] = {
    {"cluster", 'c', TPP_OPTION_TEXT, offsetof(struct check_arguments, cluster), "NAME|FILE",
     .help = "the cluster that the script would run on"},
    {"world-size", 0, TPP_OPTION_COUNT, offsetof(struct check_arguments, world_size), "N", .min = 1,
     .max = TPP_JOB_MAX_GPUS, .help = "number of GPUs, when the script leaves it open"},
    {"set", 0, TPP_OPTION_LIST, offsetof(struct check_arguments, set), "NAME=VALUE",
     .help = "a variable that the script leaves open"},
    {"json", 0, TPP_OPTION_FLAG, offsetof(struct check_arguments, json), .help = "print one JSON object"},
    {.name = NULL},
};
static const struct tpp_option_part check_parts[] = {{"Input and output", check_options, 0}, {NULL}};

static enum tpp_code run(const void *arguments, const struct tpp_operands *operands, struct tpp_answer *answer,
                         struct tpp_error *err)
{
    (void)arguments;
    (void)operands;
    (void)answer;
    return tpp_fail(err, TPP_E_NOT_BUILT, "check", "use tp-plan predict with the same sizes in --strategy",
                    "the checking of launch scripts is not part of this release");
}

const struct tpp_command tpp_command_check = {
    .name = "check",
    .summary = "check a launch script (not in this release)",
    .about = "Will read a launch script and say what the framework refuses, what does not fit and what is slow. It is "
             "not part of this release: it answers with exit code 4.",
    .operands = "SCRIPT",
    .min_operands = 1,
    .max_operands = 1,
    .parts = check_parts,
    .examples = {{"tp-plan check train.sh --cluster=dgx-a100-80g", "a script in a file"},
                 {"tp-plan check - --json < train.sh", "a script from standard input"}},
    .arguments_size = sizeof(struct check_arguments),
    .run = run,
};
