#include "calibrate/fit/fit.h"
#include "calibrate/fit/import.h"
#include "cli/answer.h"
#include "cli/calibrate_import.h"
#include "cli/calibrate_steps.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "costmodel/base/file.h"
#include "hwprofiles/profiles.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct calibrate_arguments {
    const char *base, *output, *gpu_output, *name, *device, *date, *residuals, *one_step, *collective;
    struct tpp_option_list steps;
    int64_t ranks, nodes;
    bool json;
};

#define ARG(field) offsetof(struct calibrate_arguments, field)

static const struct tpp_option import_options[] = {
    {"ranks", 0, TPP_OPTION_COUNT, ARG(ranks), "N", .min = 1, .max = 1000000,
     .help = "ranks of a log that does not list them"},
    {"nodes", 0, TPP_OPTION_COUNT, ARG(nodes), "N", .min = 1, .max = 1000000, .help = "nodes of such a log"},
    {"collective", 0, TPP_OPTION_CHOICE, ARG(collective),
     .choices = "all_reduce|all_gather|reduce_scatter|all_to_all|send_recv|broadcast|reduce|gather|scatter",
     .help = "what a log measured that does not say"},
    {.name = NULL},
};
static const struct tpp_option fit_options[] = {
    {"base", 'b', TPP_OPTION_TEXT, ARG(base), "NAME|FILE", .help = "the profile that the fit starts from"},
    {"output", 'o', TPP_OPTION_TEXT, ARG(output), "FILE", .help = "where the new profile is written"},
    {"gpu-output", 0, TPP_OPTION_TEXT, ARG(gpu_output), "FILE",
     .help = "where the GPU's values alone are written, in the form of hwprofiles/gpus"},
    {"name", 0, TPP_OPTION_TEXT, ARG(name), "NAME", .help = "name of the new profile; else the base's with -fitted"},
    {"device", 0, TPP_OPTION_TEXT, ARG(device), "TEXT", .help = "use only samples of devices with this in their name"},
    {"date", 0, TPP_OPTION_TEXT, ARG(date), "DATE", .help = "when it was measured, for the origin of the values"},
    {"one-step", 0, TPP_OPTION_TEXT, ARG(one_step), "RUN.jsonl",
     .help = "scale the GEMM rate of a step until this measured run is predicted right"},
    {"steps", 0, TPP_OPTION_LIST, ARG(steps), "RUNS.jsonl",
     .help = "fit the GEMM rate of a step to the measured runs of this GPU; may be given again"},
    {"residuals", 0, TPP_OPTION_TEXT, ARG(residuals), "FILE",
     .help = "write measured and predicted times of every sample as a table"},
    {.name = NULL},
};
static const struct tpp_option output_options[] = {
    {"json", 0, TPP_OPTION_FLAG, ARG(json), .help = "print one JSON object"},
    {.name = NULL},
};
static const struct tpp_option_part calibrate_parts[] = {
    {"What a log leaves open", import_options, 0}, {"Fit", fit_options, 0}, {"Output", output_options, 0}, {NULL}};

static enum tpp_code import_files(const struct calibrate_arguments *arguments, const struct tpp_operands *operands,
                                  struct tpp_samples *samples, struct tpp_error *err)
{
    const struct tpp_import_facts facts = {.num_ranks = arguments->ranks > 0 ? (uint32_t)arguments->ranks : 0,
                                           .num_nodes = arguments->nodes > 0 ? (uint32_t)arguments->nodes : 0,
                                           .operation = arguments->collective};
    enum tpp_code code = TPP_OK;
    for (size_t i = 1; i < operands->count && code == TPP_OK; i++)
        code = tpp_import_file(operands->items[i], &facts, samples, err);
    return code;
}

static enum tpp_code run_import(const struct calibrate_arguments *arguments, const struct tpp_samples *samples,
                                struct tpp_answer *answer, struct tpp_error *err)
{
    struct tpp_json_writer writer;
    if (!arguments->json)
        return tpp_calibrate_show_import(samples, answer, err);
    tpp_answer_begin(&writer);
    tpp_samples_add_json(samples, &writer, writer.root);
    return tpp_answer_finish(&writer, answer, err);
}

static enum tpp_code write_json(const char *path, struct tpp_json_writer *writer, struct tpp_error *err)
{
    struct tpp_text text;
    tpp_text_init(&text);
    enum tpp_code code = tpp_json_print(writer, &text, err);
    if (code == TPP_OK)
        code = tpp_file_write(path, text.data, text.length, 0644, err);
    tpp_text_release(&text);
    return code;
}

/* The profile in one file; or the GPU in a file of its own, which the profile then names by it. */
static enum tpp_code write_profile(const struct calibrate_arguments *arguments, const struct tpp_hardware *hardware,
                                   struct tpp_error *err)
{
    struct tpp_json_writer writer;
    enum tpp_code code = TPP_OK;
    if (arguments->output) {
        tpp_json_writer_init(&writer);
        tpp_hardware_add_json(hardware, &writer, writer.root);
        code = write_json(arguments->output, &writer, err);
        tpp_json_writer_release(&writer);
    }
    if (code == TPP_OK && arguments->gpu_output) {
        tpp_json_writer_init(&writer);
        tpp_hardware_add_gpu_json(hardware, &writer, writer.root);
        code = write_json(arguments->gpu_output, &writer, err);
        tpp_json_writer_release(&writer);
    }
    return code;
}

static enum tpp_code write_residuals(const char *path, const struct tpp_fit_report *report, struct tpp_error *err)
{
    struct tpp_text text;
    tpp_text_init(&text);
    tpp_fit_residual_table(report, &text);
    const enum tpp_code code = tpp_text_failed(&text) ? tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory")
                                                      : tpp_file_write(path, text.data, text.length, 0644, err);
    tpp_text_release(&text);
    return code;
}

/* Line by line: names in it come from the files. */
static void append_safely(struct tpp_text *out, char *text)
{
    for (char *line = text, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        const bool has_end = *end == '\n';
        if (has_end)
            *end++ = '\0';
        tpp_terminal_append(out, line);
        tpp_text_append(out, "\n");
    }
}

static enum tpp_code show_fit(const struct calibrate_arguments *arguments, const struct tpp_fit_report *report,
                              const struct tpp_hardware *hardware, struct tpp_answer *answer, struct tpp_error *err)
{
    if (arguments->json) {
        struct tpp_json_writer writer;
        tpp_answer_begin(&writer);
        tpp_json_add_string(&writer, writer.root, "base", arguments->base);
        tpp_json_add_string(&writer, writer.root, "output", arguments->output);
        tpp_fit_report_json(report, &writer, writer.root);
        tpp_hardware_add_json(hardware, &writer, tpp_json_add_object(&writer, writer.root, "profile"));
        return tpp_answer_finish(&writer, answer, err);
    }
    struct tpp_text text;
    tpp_text_init(&text);
    tpp_fit_report_text(report, &text);
    if (arguments->one_step)
        tpp_text_format(&text, "gpu.gemm_sustained_fraction %.5g: predicts the measured step\n",
                        hardware->gpu.gemm_sustained_fraction);
    const char *const written[] = {arguments->output, arguments->gpu_output};
    for (size_t i = 0; i < 2; i++)
        if (written[i])
            tpp_text_format(&text, "written: %s\n", written[i]);
    const bool has_failed = tpp_text_failed(&text);
    if (!has_failed && text.data)
        append_safely(&answer->text, text.data);
    tpp_text_release(&text);
    return has_failed ? tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory") : TPP_OK;
}

static enum tpp_code fit_and_write(const struct calibrate_arguments *arguments, const struct tpp_samples *samples,
                                   struct tpp_hardware hardware[2], struct tpp_fit_report *report,
                                   struct tpp_answer *answer, struct tpp_error *err)
{
    const struct tpp_fit_options options = {.device = arguments->device, .date = arguments->date};
    struct tpp_hardware *base = &hardware[0], *fitted = &hardware[1];
    enum tpp_code code = tpp_hardware_find(arguments->base, base, err);
    if (code == TPP_OK && samples->count > 0)
        code = tpp_fit_profile(samples, base, &options, fitted, report, err);
    else
        *fitted = *base;
    if (code == TPP_OK)
        code = tpp_fit_name_profile(fitted, arguments->name, err);
    if (code == TPP_OK && arguments->steps.count > 0)
        code = tpp_calibrate_steps(&arguments->steps, arguments->date, fitted, report, err);
    if (code == TPP_OK && arguments->one_step)
        code = tpp_calibrate_one_step(arguments->one_step, arguments->date, fitted, err);
    if (code == TPP_OK)
        code = write_profile(arguments, fitted, err);
    if (code == TPP_OK && arguments->residuals)
        code = write_residuals(arguments->residuals, report, err);
    return code != TPP_OK ? code : show_fit(arguments, report, fitted, answer, err);
}

/* An output that is also an input would take the measurements away; two outputs in one file, the first of them. */
static enum tpp_code check_outputs(const struct calibrate_arguments *arguments, const struct tpp_operands *operands,
                                   struct tpp_error *err)
{
    const struct {
        const char *option, *path;
    } outputs[] = {{"--output", arguments->output}, {"--gpu-output", arguments->gpu_output},
                   {"--residuals", arguments->residuals}};
    const char *const single[] = {arguments->base, arguments->one_step};
    enum { NUM_SINGLE = sizeof single / sizeof single[0] };
    const size_t num_files = operands->count - 1, num_steps = arguments->steps.count;
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++) {
        if (outputs[i].path == NULL)
            continue;
        for (size_t j = 0; j < num_files + num_steps + NUM_SINGLE; j++) {
            const char *input = j < num_files               ? operands->items[j + 1]
                                : j < num_files + num_steps ? arguments->steps.items[j - num_files]
                                                            : single[j - num_files - num_steps];
            if (input != NULL && tpp_file_is_same(outputs[i].path, input))
                return tpp_fail(err, TPP_E_USAGE, outputs[i].path, "write to another file",
                                "%s would overwrite \"%.100s\", which is read", outputs[i].option, input);
        }
        for (size_t j = 0; j < i; j++) {
            if (outputs[j].path != NULL && tpp_file_is_same(outputs[i].path, outputs[j].path))
                return tpp_fail(err, TPP_E_USAGE, outputs[i].path, "write to two files",
                                "%s and %s name the same file", outputs[j].option, outputs[i].option);
        }
    }
    return TPP_OK;
}

static enum tpp_code run_fit(const struct calibrate_arguments *arguments, const struct tpp_samples *samples,
                             struct tpp_answer *answer, struct tpp_error *err)
{
    struct tpp_fit_report report;
    if (arguments->base == NULL)
        return tpp_fail(err, TPP_E_USAGE, "--base", "tp-plan hardware lists the profiles that are shipped",
                        "a fit needs the profile that it starts from");
    struct tpp_hardware *hardware = malloc(2 * sizeof *hardware); /* large: not on the stack */
    if (hardware == NULL)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    tpp_fit_report_init(&report);
    const enum tpp_code code = fit_and_write(arguments, samples, hardware, &report, answer, err);
    tpp_fit_report_release(&report);
    free(hardware);
    return code;
}

static enum tpp_code run(const void *data, const struct tpp_operands *operands, struct tpp_answer *answer,
                         struct tpp_error *err)
{
    const struct calibrate_arguments *arguments = data;
    const char *action = operands->items[0];
    const bool is_fit = strcmp(action, "fit") == 0;
    struct tpp_samples samples;
    if (!is_fit && strcmp(action, "import") != 0)
        return tpp_fail(err, TPP_E_USAGE, action, "say import or fit first, then the files",
                        "calibrate cannot \"%.60s\"", action);
    if (operands->count < 2 && !(is_fit && (arguments->one_step || arguments->steps.count > 0)))
        return tpp_fail(err, TPP_E_USAGE, action, "give logs of nccl-tests, tables or samples files",
                        "calibrate %s needs a file", action);
    if (arguments->one_step != NULL && arguments->steps.count > 0)
        return tpp_fail(err, TPP_E_USAGE, "--one-step", "choose one of them",
                        "--one-step and --steps both set the GEMM rate of a step");
    tpp_samples_init(&samples);
    enum tpp_code code = is_fit ? check_outputs(arguments, operands, err) : TPP_OK;
    if (code == TPP_OK)
        code = import_files(arguments, operands, &samples, err);
    if (code == TPP_OK)
        code = is_fit ? run_fit(arguments, &samples, answer, err) : run_import(arguments, &samples, answer, err);
    tpp_samples_release(&samples);
    return code;
}

const struct tpp_command tpp_command_calibrate = {
    .name = "calibrate",
    .summary = "read measurements, and fit a cluster profile to them",
    .about =
        "import shows what is in logs of nccl-tests and rccl-tests, in tables of published measurements, and in "
        "samples files of the measuring programs. fit writes a profile with the values that follow from them, each "
        "with its error and origin, and says how good they are on samples that were held out.",
    .operands = "import|fit FILE...",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .parts = calibrate_parts,
    .examples = {{"tp-plan calibrate import all_reduce.log --json", "the rows of a log, for another program"},
                 {"tp-plan calibrate fit --base=dgx-h100 -o my-cluster.json samples.jsonl logs/*.txt",
                  "a profile from measurements"}},
    .arguments_size = sizeof(struct calibrate_arguments),
    .run = run,
};
