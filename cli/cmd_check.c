#include "cli/check_compare.h"
#include "cli/check_report.h"
#include "cli/command.h"
#include "costmodel/job.h"

#define ARG(field) offsetof(struct tpp_check_arguments, field)

static const struct tpp_option script_options[] = {
    {"set", 's', TPP_OPTION_LIST, ARG(set), "NAME=VALUE",
     .help = "a variable that the script leaves open; NAME 1, 2, ... are its arguments"},
    {"nodes", 'n', TPP_OPTION_COUNT, ARG(nodes), "N", .min = 1, .max = TPP_JOB_MAX_GPUS,
     .help = "number of nodes, instead of the script's"},
    {"world-size", 0, TPP_OPTION_COUNT, ARG(world_size), "N", .min = 1, .max = TPP_JOB_MAX_GPUS,
     .help = "number of GPUs, instead of the script's"},
    {"model", 'm', TPP_OPTION_TEXT, ARG(model), "NAME|FILE",
     .help = "the model that is trained, instead of the shape in the script's options"},
    {"framework", 'f', TPP_OPTION_CHOICE, ARG(framework),
     .choices = "megatron-lm|megatron-deepspeed|nemo|megatron-bridge|ms-swift|hf-trainer|accelerate|torchtitan|nanotron",
     .help = "what the script starts [found from its options]"},
    {"framework-version", 0, TPP_OPTION_TEXT, ARG(framework_version), "RELEASE",
     .help = "release of the framework, as in 0.14 [newest known]"},
    {.name = NULL},
};
static const struct tpp_option check_options[] = {
    {"cluster", 'c', TPP_OPTION_TEXT, ARG(cluster), "NAME|FILE", .required = true,
     .help = "the cluster that the script runs on: a shipped profile or one of your own"},
    {"measured-step-seconds", 0, TPP_OPTION_NUMBER, ARG(measured_step_seconds), "SECONDS", .min = 1e-9,
     .help = "a measured step to compare with; one that physics forbids fails the check"},
    {"measured-tflops", 0, TPP_OPTION_NUMBER, ARG(measured_tflops), "TFLOPS", .min = 1e-9,
     .help = "a measured rate of one GPU, in TFLOP/s, to compare with"},
    {"baseline", 0, TPP_OPTION_TEXT, ARG(baseline), "FILE",
     .help = "the JSON of an older check: fails when step time or memory got worse"},
    {"tolerance", 0, TPP_OPTION_NUMBER, ARG(tolerance), "FRACTION", .max = 10, .fallback = "0.02",
     .help = "by how much they may get worse"},
    {.name = NULL},
};
static const struct tpp_option output_options[] = {
    {"json", 0, TPP_OPTION_FLAG, ARG(json), .help = "print one JSON object"},
    {"sarif", 0, TPP_OPTION_TEXT, ARG(sarif), "FILE", .help = "write the problems for code-review tools"},
    {.name = NULL},
};
static const struct tpp_option_part check_parts[] = {
    {"Script", script_options, 0}, {"Comparison", check_options, 0}, {"Output", output_options, 0}, {NULL}};

static enum tpp_code answer_with(const struct tpp_check_arguments *arguments, const struct tpp_check *check,
                                 struct tpp_answer *answer, struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    answer->is_no = tpp_problems_have(&check->problems, TPP_SEVERITY_ERROR);
    if (arguments->sarif != NULL)
        code = tpp_check_write_sarif(check, arguments->sarif, err);
    if (code == TPP_OK && arguments->json)
        code = tpp_check_answer_json(check, answer, err);
    else if (code == TPP_OK)
        tpp_check_append(check, answer);
    return code;
}

static enum tpp_code run(const void *data, const struct tpp_operands *operands, struct tpp_answer *answer,
                         struct tpp_error *err)
{
    const struct tpp_check_arguments *arguments = data;
    struct tpp_check check;
    enum tpp_code code = tpp_check_script(arguments, operands->items[0], &check, err);
    if (code == TPP_OK)
        code = tpp_check_compare(&check, answer, err);
    if (code == TPP_OK)
        code = answer_with(arguments, &check, answer, err);
    tpp_check_release(&check);
    return code;
}

const struct tpp_command tpp_command_check = {
    .name = "check",
    .summary = "check a launch script or configuration: accepted, fits, fast?",
    .about = "Reads a bash script without running anything in it, or the TOML or YAML configuration of torchtitan, "
             "nanotron or accelerate, and says what the framework refuses and in which line, "
             "whether it fits, how fast it is, and which plan would be better. Fails (exit code 1) when it would not "
             "start or not fit; '-' reads standard input.",
    .operands = "SCRIPT",
    .min_operands = 1,
    .max_operands = 1,
    .parts = check_parts,
    .examples = {{"tp-plan check train.sh --cluster=dgx-a100-80g --nodes=4", "a script in a file"},
                 {"tp-plan check - --cluster=dgx-h100 --set TP=4 --json < train.sh",
                  "from standard input, with a variable that it leaves open"}},
    .arguments_size = sizeof(struct tpp_check_arguments),
    .run = run,
};
