#include "cli/answer.h"
#include "cli/command.h"
#include "cli/cost_strategy.h"
#include "cli/find_plans.h"
#include "cli/job_options.h"
#include "cli/launch_script.h"
#include "cli/plan_json.h"
#include "cli/replay_list.h"
#include "cli/simulated_list.h"
#include "costmodel/base/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct launch_arguments {
    struct tpp_job_arguments job;
    struct tpp_strategy_arguments strategy;
    struct tpp_pin_arguments pins;
    struct tpp_replay_arguments replay;
    struct tpp_simulated_list_arguments simulated;
    const char *output, *job_name;
    bool slurm, debug, json;
};

#define ARG(field) offsetof(struct launch_arguments, field)

static const struct tpp_option launch_options[] = {
    {"output", 'o', TPP_OPTION_TEXT, ARG(output), "FILE|DIR",
     .help = "where to write the script, executable; a folder gets train.sh or train.sbatch and the configuration "
             "files, which are in the script elsewhere [standard output]"},
    {"slurm", 0, TPP_OPTION_FLAG, ARG(slurm), .help = "write a file for sbatch instead of a script for every node"},
    {"debug", 0, TPP_OPTION_FLAG, ARG(debug),
     .help = "set what finds faults (CUDA_LAUNCH_BLOCKING, logs of NCCL): 3 to 5 times slower"},
    {"job-name", 0, TPP_OPTION_TEXT, ARG(job_name), "NAME", .help = "name of the job [the model's]"},
    {"json", 0, TPP_OPTION_FLAG, ARG(json), .help = "print one JSON object, with the script in it"},
    {.name = NULL},
};
static const struct tpp_option_part launch_parts[] = {
    TPP_JOB_PARTS(struct launch_arguments, job),
    {"Strategy (else the best plan is taken)", tpp_strategy_options, ARG(strategy)},
    TPP_PIN_PARTS(struct launch_arguments, pins),
    {"Lengths of sequences, and memory replay of the best plans", tpp_replay_options_table, ARG(replay)},
    {"Simulation of the best plans", tpp_simulated_list_options, ARG(simulated)},
    {"Output", launch_options, 0},
    {NULL},
};

static enum tpp_code cost_given(const struct launch_arguments *arguments, struct tpp_job_inputs *inputs,
                                struct tpp_plan *plan, struct tpp_error *err)
{
    const enum tpp_code code = tpp_cost_strategy(inputs, &arguments->strategy, plan, NULL, err);
    return code != TPP_OK ? code : tpp_replay_one(&arguments->replay, inputs, plan, err);
}

/* The plan to launch: the one that is named, or the winner of the search. *found is false when nothing fits. */
static enum tpp_code choose(const struct launch_arguments *arguments, struct tpp_job_inputs *inputs,
                            const struct tpp_answer *answer, struct tpp_plan *plan, bool *found, struct tpp_error *err)
{
    struct tpp_space_limits limits;
    struct tpp_found_plans plans;
    *found = true;
    if (arguments->strategy.strategy != NULL)
        return cost_given(arguments, inputs, plan, err);
    if (arguments->strategy.placement != NULL)
        return tpp_fail(err, TPP_E_USAGE, "--placement", "give --strategy too",
                        "a placement needs a strategy: the search uses rank order");
    enum tpp_code code = tpp_pins_check_model(&arguments->pins, &inputs->model, err);
    if (code == TPP_OK)
        code = tpp_limits_resolve(&arguments->pins, &limits, err);
    tpp_job_take_stages(arguments->pins.pipeline_parallel, inputs);
    if (code == TPP_OK)
        code = tpp_simulated_list_prepare(&arguments->simulated, &limits, err);
    if (code == TPP_OK)
        code = tpp_find_plans(inputs, &limits, answer, &plans, err);
    if (code != TPP_OK)
        return code;
    code = tpp_replay_list(&arguments->replay, inputs, limits.memory_headroom_fraction, &plans, err);
    if (code == TPP_OK)
        code = tpp_simulated_list(&arguments->simulated, inputs, limits.memory_headroom_fraction, 1, &plans, err);
    *found = plans.num_plans > 0;
    if (code == TPP_OK && *found)
        *plan = plans.plans[0];
    tpp_found_plans_release(&plans);
    return code;
}

/* What --output names: a folder, or a file. */
static enum tpp_code names_folder(const char *output, bool *is_folder, struct tpp_error *err)
{
    struct stat status;
    const bool exists = stat(output, &status) == 0;
    *is_folder = exists && S_ISDIR(status.st_mode);
    if (output[strlen(output) - 1] == '/' && !exists)
        return tpp_fail(err, TPP_E_IO, output, "make it first", "there is no such folder");
    return TPP_OK;
}

static enum tpp_code write_into(const char *folder, const char *name, const struct tpp_text *content, unsigned mode,
                                struct tpp_text *path, struct tpp_error *err)
{
    tpp_text_format(path, "%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/", name);
    if (tpp_text_failed(path))
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    return tpp_file_write(tpp_text_get(path), tpp_text_get(content), content->length, mode, err);
}

/* The configuration files before the script that reads them. */
static enum tpp_code write_launch(const struct launch_arguments *arguments, const struct tpp_launch_output *launch,
                                  struct tpp_text *path, struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    for (size_t i = 0; i < launch->num_files && code == TPP_OK; i++) {
        code = write_into(arguments->output, launch->files[i].name, &launch->files[i].content, 0644, path, err);
        tpp_text_clear(path);
    }
    return code != TPP_OK ? code
                          : write_into(arguments->output, arguments->slurm ? "train.sbatch" : "train.sh",
                                       &launch->script, 0755, path, err);
}

static enum tpp_code write_folder(const struct launch_arguments *arguments, const struct tpp_job_inputs *inputs,
                                  const struct tpp_plan *plan, const struct tpp_launch_choices *choices,
                                  struct tpp_text *path, struct tpp_error *err)
{
    struct tpp_launch_output launch;
    enum tpp_code code = tpp_launch_files(inputs, &plan->strategy, &plan->cost, choices, &launch, err);
    if (code == TPP_OK)
        code = write_launch(arguments, &launch, path, err);
    tpp_launch_output_release(&launch);
    return code;
}

/* Writes what --output asks for, and says in `path` where the script is. */
static enum tpp_code write_output(const struct launch_arguments *arguments, const struct tpp_job_inputs *inputs,
                                  const struct tpp_plan *plan, const struct tpp_launch_choices *choices,
                                  const struct tpp_text *script, struct tpp_text *path, struct tpp_error *err)
{
    bool is_folder = false;
    const enum tpp_code code = names_folder(arguments->output, &is_folder, err);
    if (code != TPP_OK)
        return code;
    if (is_folder)
        return write_folder(arguments, inputs, plan, choices, path, err);
    tpp_text_append(path, arguments->output);
    if (tpp_text_failed(path))
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    return tpp_file_write(tpp_text_get(path), tpp_text_get(script), script->length, 0755, err);
}

static enum tpp_code answer_as_json(const struct launch_arguments *arguments, const struct tpp_job_inputs *inputs,
                                    const struct tpp_plan *plan, const char *script, const char *path,
                                    struct tpp_answer *answer, struct tpp_error *err)
{
    struct tpp_json_writer writer;
    tpp_answer_begin(&writer);
    struct cJSON *object = tpp_json_add_object(&writer, writer.root, "plan");
    tpp_plan_add_json(1, &plan->strategy, &plan->cost, &writer, object);
    tpp_json_add_string(&writer, object, "launch", script);
    tpp_json_add_string(&writer, writer.root, "output", path);
    tpp_job_inputs_add_json(&arguments->job, inputs, &writer, writer.root);
    return tpp_answer_finish(&writer, answer, err);
}

static enum tpp_code emit(const struct launch_arguments *arguments, const struct tpp_job_inputs *inputs,
                          const struct tpp_plan *plan, struct tpp_answer *answer, struct tpp_error *err)
{
    const struct tpp_launch_choices choices = {
        .slurm = arguments->slurm, .debug = arguments->debug, .job_name = arguments->job_name};
    struct tpp_text script, path;
    tpp_text_init(&script);
    tpp_text_init(&path);
    enum tpp_code code = tpp_launch_script(inputs, &plan->strategy, &plan->cost, &choices, &script, err);
    if (code == TPP_OK && tpp_text_failed(&script))
        code = tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    if (code == TPP_OK && arguments->output != NULL)
        code = write_output(arguments, inputs, plan, &choices, &script, &path, err);
    if (code == TPP_OK && arguments->json)
        code = answer_as_json(arguments, inputs, plan, tpp_text_get(&script),
                              arguments->output != NULL ? tpp_text_get(&path) : NULL, answer, err);
    else if (code == TPP_OK && arguments->output != NULL)
        tpp_text_format(&answer->text, "%s\n", tpp_text_get(&path));
    else if (code == TPP_OK)
        tpp_text_append(&answer->text, tpp_text_get(&script));
    tpp_text_release(&script);
    tpp_text_release(&path);
    return code;
}

static enum tpp_code answer_no(const struct launch_arguments *arguments, const struct tpp_job_inputs *inputs,
                               struct tpp_answer *answer, struct tpp_error *err)
{
    struct tpp_json_writer writer;
    answer->is_no = true;
    if (!arguments->json) {
        tpp_text_append(&answer->text, "nothing fits: 'tp-plan plan' with the same options says what is missing\n");
        return TPP_OK;
    }
    tpp_answer_begin(&writer);
    tpp_json_add_null(&writer, writer.root, "plan");
    tpp_json_add_null(&writer, writer.root, "output");
    tpp_job_inputs_add_json(&arguments->job, inputs, &writer, writer.root);
    return tpp_answer_finish(&writer, answer, err);
}

/* A plan that does not fit is written when it was asked for by name, and the answer is still no. */
static enum tpp_code run(const void *data, const struct tpp_operands *operands, struct tpp_answer *answer,
                         struct tpp_error *err)
{
    const struct launch_arguments *arguments = data;
    struct tpp_job_inputs inputs;
    struct tpp_plan plan;
    bool found = false;
    (void)operands;
    enum tpp_code code = tpp_job_resolve(&arguments->job, &inputs, err);
    if (code == TPP_OK)
        code = tpp_replay_take_lengths(&arguments->replay, &inputs.job, err);
    if (code == TPP_OK)
        code = choose(arguments, &inputs, answer, &plan, &found, err);
    if (code != TPP_OK)
        return code;
    if (!found)
        return answer_no(arguments, &inputs, answer, err);
    answer->is_no = plan.cost.memory.fit == TPP_FIT_DOES_NOT_FIT;
    return emit(arguments, &inputs, &plan, answer, err);
}

const struct tpp_command tpp_command_launch = {
    .name = "launch",
    .summary = "write the launch script of the best plan, or of a given one",
    .about = "Writes the script that launches the best plan, or the strategy that is given. What only you know (data, "
             "tokenizer, paths) is a variable of the script that stops it with a message when it is not set.",
    .parts = launch_parts,
    .examples = {{"tp-plan launch --model=deepseek-coder-33b --cluster=dgx-a100-80g --nodes=4 --seq-length=32768 "
                  "--global-batch-size=128 --slurm --output=train.sbatch",
                  "the best plan, for sbatch"},
                 {"tp-plan launch --model=llama3.1-8b --cluster=dgx-h100 --nodes=1 --seq-length=8192 "
                  "--global-batch-size=64 --strategy=tp=2,mbs=1,zero=1,sp=1",
                  "a strategy of your own, to standard output"}},
    .arguments_size = sizeof(struct launch_arguments),
    .run = run,
};
