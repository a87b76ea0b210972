#include "cli/check_config.h"

#include "cli/check_world.h"
#include "cli/script_files.h"
#include "costmodel/base/file.h"
#include "costmodel/model/model_reader.h"
#include "hwprofiles/profiles.h"
#include "planner/launch/bridge_arguments.h"
#include "planner/launch/config/accelerate.h"
#include "planner/launch/deepspeed_arguments.h"
#include "planner/launch/determinism.h"
#include "planner/launch/plan_reading.h"
#include "planner/launch/swift_arguments.h"
#include "planner/launch/swift_config.h"
#include "planner/launch/trainer_arguments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

/* Splits NAME=VALUE in place of copies that `settings` point into. */
static enum tpp_code split_settings(const struct tpp_option_list *set, char *names, size_t size,
                                    struct tpp_shell_setting *settings, struct tpp_error *err)
{
    size_t used = 0;
    for (size_t i = 0; i < set->count; i++) {
        const char *equals = strchr(set->items[i], '=');
        size_t length = equals != NULL ? (size_t)(equals - set->items[i]) : 0;
        if (length == 0 || used + length + 1 > size)
            return tpp_fail(err, TPP_E_USAGE, "--set", "give --set NAME=VALUE; --set 1=VALUE is the first argument",
                            "\"%.80s\" is not NAME=VALUE", set->items[i]);
        memcpy(names + used, set->items[i], length);
        names[used + length] = '\0';
        settings[i] = (struct tpp_shell_setting){names + used, equals + 1};
        used += length + 1;
    }
    return TPP_OK;
}

/* With `has_no_arguments`, as the script runs without any; else what they decide is not known. */
static enum tpp_code read_commands(struct tpp_check *check, size_t length, bool has_no_arguments, struct tpp_error *err)
{
    char names[8192];
    struct tpp_shell_setting settings[TPP_OPTION_LIST_MAX + 1];
    size_t count = check->arguments->set.count;
    enum tpp_code code = split_settings(&check->arguments->set, names, sizeof names, settings, err);
    if (has_no_arguments)
        settings[count++] = (struct tpp_shell_setting){"#", "0"};
    if (code == TPP_OK)
        code =
            tpp_shell_read_with(check->text, length, check->file, settings, count, &check->source, &check->script, err);
    return code == TPP_OK ? tpp_launch_line_find(check->script, check->file, &check->line, err) : code;
}

/* The line of the first argument of the script that is looked at; 0: none is, or some were given. */
static uint32_t line_of_arguments(const struct tpp_check *check)
{
    size_t count;
    const struct tpp_shell_note *notes = tpp_shell_notes(check->script, &count);
    for (size_t i = 0; i < check->arguments->set.count; i++) {
        if (check->arguments->set.items[i][0] >= '0' && check->arguments->set.items[i][0] <= '9')
            return 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (notes[i].kind == TPP_SHELL_POSITIONAL)
            return notes[i].line;
    }
    return 0;
}

/* Reads the script and finds the training. Where only its arguments could decide on one, it is read as it runs without
 * them. */
static enum tpp_code read_shell(struct tpp_check *check, size_t length, struct tpp_error *err)
{
    enum tpp_code code = read_commands(check, length, false, err);
    const uint32_t line = code == TPP_E_MISSING ? line_of_arguments(check) : 0;
    if (line == 0)
        return code;
    struct tpp_error other;
    tpp_shell_free(check->script);
    check->script = NULL;
    const enum tpp_code second = read_commands(check, length, true, &other);
    if (second != TPP_OK)
        return code;
    tpp_problems_add(&check->problems, "no-arguments", TPP_SEVERITY_INFO, line, "give them with --set 1=VALUE",
                     "what the script starts depends on its arguments: it is read as it runs without them");
    return TPP_OK;
}

static enum tpp_code find_framework(struct tpp_check *check, struct tpp_error *err)
{
    const struct tpp_check_arguments *arguments = check->arguments;
    if (arguments->framework != NULL && !tpp_framework_parse(arguments->framework, &check->framework))
        return tpp_fail(err, TPP_E_INTERNAL, "--framework", NULL, "the option table and the frameworks disagree");
    if (arguments->framework == NULL) {
        enum tpp_code code = tpp_launch_line_framework(&check->line, check->file, &check->framework, err);
        if (code != TPP_OK)
            return code;
    }
    if (check->framework != TPP_FRAMEWORK_MEGATRON_LM && check->framework != TPP_FRAMEWORK_MEGATRON_DEEPSPEED &&
        check->framework != TPP_FRAMEWORK_MS_SWIFT && check->framework != TPP_FRAMEWORK_HF_TRAINER &&
        check->framework != TPP_FRAMEWORK_NEMO && !tpp_check_has_config(check->framework))
        return tpp_fail(
            err, TPP_E_NOT_BUILT, check->file,
            "scripts of megatron-lm, megatron-deepspeed, megatron-bridge, ms-swift, hf-trainer, accelerate, "
            "torchtitan and nanotron are read; use "
            "tp-plan predict with the same sizes in --strategy",
            "scripts of %s are not read in this release", tpp_framework_name(check->framework));
    return tpp_release_parse(arguments->framework_version != NULL ? arguments->framework_version : "",
                             "--framework-version", &check->release, err);
}

/* ---- judging ---- */

/* Transformers with DeepSpeed: Hugging Face's Trainer, or swift sft. */
static bool is_trainer(const struct tpp_check *check)
{
    return check->framework == TPP_FRAMEWORK_HF_TRAINER ||
           (check->framework == TPP_FRAMEWORK_MS_SWIFT && check->line.launcher == TPP_LAUNCHER_SWIFT);
}

/* The model is named, its shape is not in the options. */
static bool names_model(const struct tpp_check *check)
{
    return check->framework == TPP_FRAMEWORK_MS_SWIFT || check->framework == TPP_FRAMEWORK_HF_TRAINER ||
           check->framework == TPP_FRAMEWORK_NEMO;
}

static const struct tpp_argument *named_model(const struct tpp_check *check)
{
    if (check->framework == TPP_FRAMEWORK_NEMO)
        return tpp_bridge_recipe(&check->given);
    return tpp_argument_find(&check->given,
                             check->framework == TPP_FRAMEWORK_HF_TRAINER ? "--model_name_or_path" : "--model");
}

/* The shape is the model's, the batch has defaults. */
static bool add_missing_model(struct tpp_check *check)
{
    const bool may_be_elsewhere = /* the program's own option, or fixed */
        check->framework == TPP_FRAMEWORK_HF_TRAINER ||
        (check->framework == TPP_FRAMEWORK_NEMO && strcmp(check->line.entry, "run_recipe.py") != 0);
    if (named_model(check) == NULL && !may_be_elsewhere)
        tpp_problems_add(&check->problems, "missing-option", TPP_SEVERITY_ERROR, check->line.command->line, "write it",
                         check->framework == TPP_FRAMEWORK_NEMO ? "--recipe and --model are missing"
                                                                : "--model is missing");
    return !check->settings.is_incomplete;
}

/* False when a prediction lacks something. */
static bool add_missing(struct tpp_check *check)
{
    const size_t before = check->problems.count;
    if (names_model(check))
        return add_missing_model(check);
    const struct tpp_rule_settings *rules = &check->settings.rules;
    const struct {
        const char *name;
        int64_t value;
    } needed[] = {
        {"--num-layers", rules->num_layers},
        {"--hidden-size", rules->hidden_size},
        {"--num-attention-heads", rules->num_attention_heads},
        {"--seq-length", rules->sequence_length},
        {"--max-position-embeddings", rules->max_position_embeddings},
    };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (needed[i].value == 0 && tpp_argument_find(&check->given, needed[i].name) == NULL)
            tpp_problems_add(&check->problems, "missing-option", TPP_SEVERITY_ERROR, check->line.command->line,
                             "write it, or give its variable with --set", "%s is missing", needed[i].name);
    }
    if (tpp_argument_find(&check->given, "--micro-batch-size") == NULL)
        tpp_problems_add(&check->problems, "missing-option", TPP_SEVERITY_ERROR, check->line.command->line,
                         "write it, or give its variable with --set", "--micro-batch-size is missing");
    return check->problems.count == before && !check->settings.is_incomplete;
}

static bool is_on(const struct tpp_shell_word *word)
{
    return word != NULL && word->note == 0 && strcmp(word->text, "0") != 0 && *word->text != '\0';
}

static void add_environment(struct tpp_check *check)
{
    const struct tpp_shell_word *connections = tpp_launch_line_variable(&check->line, "CUDA_DEVICE_MAX_CONNECTIONS");
    const struct tpp_shell_word *blocking = tpp_launch_line_variable(&check->line, "CUDA_LAUNCH_BLOCKING");
    int64_t number;
    check->settings.rules.cuda_device_max_connections = TPP_RULE_UNSET;
    if (connections != NULL && tpp_argument_integer(connections->text, &number))
        check->settings.rules.cuda_device_max_connections = number;
    else if (check->framework == TPP_FRAMEWORK_MS_SWIFT) /* sets it by itself */
        check->settings.rules.cuda_device_max_connections = 1;
    if (is_on(blocking))
        tpp_problems_add(&check->problems, "launch-blocking", TPP_SEVERITY_WARNING, blocking->line,
                         "take it out: it is for finding faults",
                         "CUDA_LAUNCH_BLOCKING=%.20s makes every kernel wait for the one before: nothing overlaps",
                         blocking->text);
}

/* What only matters to the launch: sourced files, and several trainings in a script. */
static void add_notes(struct tpp_check *check)
{
    size_t count;
    const struct tpp_shell_note *notes = tpp_shell_notes(check->script, &count);
    for (size_t i = 0; i < count; i++) {
        if (notes[i].kind == TPP_SHELL_SOURCED)
            tpp_problems_add(&check->problems, "sourced-file", TPP_SEVERITY_INFO, notes[i].line,
                             "give what it sets with --set NAME=VALUE", "%.120s is read by the script, and not here",
                             notes[i].text);
        if (notes[i].kind == TPP_SHELL_REPLACED)
            tpp_problems_add(&check->problems, "set-again", TPP_SEVERITY_WARNING, notes[i].line,
                             "change the script, or let it take the value of its environment as in ${NAME:-4}",
                             "--set %.100s has no effect from here on: the script sets the variable itself",
                             notes[i].text);
    }
    if (check->line.num_candidates > 1)
        tpp_problems_add(&check->problems, "several-trainings", TPP_SEVERITY_INFO, check->line.command->line, "",
                         "the script starts %zu trainings: this one was checked", check->line.num_candidates);
}

/* ---- predicting ---- */

static void model_name(const char *file, char *name, size_t size)
{
    const char *slash = strrchr(file, '/');
    const char *base = slash != NULL ? slash + 1 : file;
    snprintf(name, size, "%s", strcmp(file, "-") == 0 ? "stdin" : base);
    char *dot = strrchr(name, '.');
    if (dot != NULL && dot > name)
        *dot = '\0';
}

enum tpp_code tpp_check_cost(struct tpp_check *check, struct tpp_error *err)
{
    struct tpp_evaluator *evaluator = NULL;
    struct tpp_job_inputs *inputs = &check->inputs;
    enum tpp_code code =
        tpp_evaluator_new(&inputs->model, &inputs->hardware, &inputs->job, &inputs->stack, &evaluator, err);
    if (code == TPP_OK)
        code = tpp_evaluator_cost(evaluator, &check->plan.strategy, &check->plan.cost, err);
    tpp_evaluator_free(evaluator);
    return code;
}

static enum tpp_code predict(struct tpp_check *check, const struct tpp_model *model, struct tpp_error *err)
{
    char name[64];
    struct tpp_plan_reading reading;
    const struct tpp_shell_word *blocking = tpp_launch_line_variable(&check->line, "CUDA_LAUNCH_BLOCKING");
    model_name(check->file, name, sizeof name);
    enum tpp_code code = tpp_plan_from_megatron(&check->settings, &check->given, check->release,
                                                &check->inputs.hardware, model, name, &reading, &check->problems, err);
    if (code != TPP_OK)
        return code;
    reading.stack.launch_blocking = reading.stack.launch_blocking || is_on(blocking);
    check->inputs.model = reading.model;
    check->inputs.job = reading.job;
    check->inputs.stack = reading.stack;
    check->plan.strategy = reading.strategy;
    return tpp_check_cost(check, err);
}

/* A plan that cannot be costed is a problem of its own only when nothing else says why; what is merely not modelled
 * here may run well. */
static enum tpp_severity severity_of_failure(const struct tpp_check *check, enum tpp_code code)
{
    if (tpp_problems_have(&check->problems, TPP_SEVERITY_ERROR))
        return TPP_SEVERITY_INFO;
    return code == TPP_E_UNSUPPORTED ? TPP_SEVERITY_WARNING : TPP_SEVERITY_ERROR;
}

static enum tpp_code try_to_predict(struct tpp_check *check, const struct tpp_model *model, struct tpp_error *err)
{
    struct tpp_error why = {.code = TPP_OK};
    enum tpp_code code = predict(check, model, &why);
    check->has_plan = code == TPP_OK;
    if (code == TPP_E_MEMORY || code == TPP_E_INTERNAL) {
        *err = why;
        return code;
    }
    if (code != TPP_OK)
        tpp_problems_add(&check->problems, "no-prediction", severity_of_failure(check, code), check->line.command->line,
                         why.hint, "the step cannot be predicted: %s", why.message);
    return TPP_OK;
}

/* The options by the framework's own table. */
static enum tpp_code read_options(struct tpp_check *check, struct tpp_error *err)
{
    if (check->framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED)
        return tpp_deepspeed_read(check->line.arguments, check->script, &check->given, &check->settings,
                                  &check->problems, err);
    if (is_trainer(check))
        return tpp_trainer_read(check->line.arguments, check->script, check->line.entry,
                                check->framework == TPP_FRAMEWORK_MS_SWIFT, &check->given, &check->settings,
                                &check->problems, err);
    if (check->framework == TPP_FRAMEWORK_MS_SWIFT)
        return tpp_swift_read(check->line.arguments, check->script, check->line.entry, &check->given, &check->settings,
                              &check->problems, err);
    if (check->framework == TPP_FRAMEWORK_NEMO)
        return tpp_bridge_read(check->line.arguments, check->script, &check->given, &check->settings, &check->problems,
                               err);
    return tpp_megatron_read(check->line.arguments, check->script, check->line.entry, check->release, &check->given,
                             &check->settings, &check->problems, err);
}

static void add_dead(struct tpp_check *check)
{
    if (check->framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED)
        tpp_deepspeed_find_dead(&check->given, &check->settings, &check->problems);
    else if (check->framework == TPP_FRAMEWORK_MEGATRON_LM)
        tpp_megatron_find_dead(&check->given, &check->settings, check->release, &check->problems);
    else if (check->framework == TPP_FRAMEWORK_MS_SWIFT && !is_trainer(check))
        tpp_swift_find_refused(&check->given, &check->settings, &check->problems);
    tpp_determinism_judge(&check->line, &check->given, &check->settings, check->release, &check->problems);
}

/* FSDP over one rank is no error: PyTorch falls back to NO_SHARD. */
static void drop_sharding(struct tpp_check *check)
{
    check->settings.rules.fsdp_version = 0;
    check->settings.rules.zero_stage = 0;
    tpp_problems_add(&check->problems, "dead-setting", TPP_SEVERITY_WARNING, check->line.command->line,
                     "start more processes, or take FSDP out", "FSDP with one process shards nothing");
}

/* Without a model only the rules of sizes can be asked, and nothing predicted. */
static enum tpp_code judge_named(struct tpp_check *check, const struct tpp_model *model, struct tpp_error *err)
{
    const struct tpp_argument *named = named_model(check);
    struct tpp_model reshaped;
    if (model == NULL)
        model = check->framework == TPP_FRAMEWORK_NEMO ? tpp_bridge_model(named) : tpp_swift_model(named);
    if (model != NULL && check->framework == TPP_FRAMEWORK_NEMO && check->arguments->model == NULL) {
        tpp_bridge_reshape(&check->given, model, &reshaped, &check->problems);
        model = &reshaped;
    }
    if (check->settings.shards_in_node && check->line.nodes > 1)
        check->settings.rules.optimizer_instances = check->line.nodes;
    if (check->settings.rules.fsdp_version > 0 && check->settings.rules.world_size == 1)
        drop_sharding(check);
    if (is_trainer(check))
        tpp_trainer_complete(&check->settings, &check->problems);
    const bool has_length = check->settings.rules.sequence_length > 0;
    tpp_swift_set_shape(&check->settings, model);
    check->is_shape_assumed = model == NULL;
    check->is_length_assumed = !has_length;
    add_dead(check);
    tpp_megatron_find_violations(&check->given, &check->settings.rules, check->release, check->line.command->line,
                                 &check->problems);
    if (model != NULL && has_length)
        return try_to_predict(check, model, err);
    tpp_problems_add(&check->problems, "no-prediction", TPP_SEVERITY_WARNING,
                     named != NULL ? named->word->line : check->line.command->line,
                     model == NULL ? "give its config.json with --model" : "write --max_length",
                     "the step cannot be predicted: %s is not known",
                     model == NULL ? "the shape of the model" : "the length of a sequence");
    return TPP_OK;
}

static enum tpp_code judge(struct tpp_check *check, struct tpp_error *err)
{
    struct tpp_model model;
    enum tpp_code code = TPP_OK;
    if (tpp_check_has_config(check->framework)) {
        add_notes(check);
        return tpp_check_config_of_script(check, tpp_check_written_world(check), err);
    }
    if (check->arguments->model != NULL)
        code = tpp_model_find(check->arguments->model, &model, err);
    if (code == TPP_OK && check->framework == TPP_FRAMEWORK_MS_SWIFT)
        code = tpp_swift_config_expand(&check->line, check->script, &check->swift_config, &check->problems, err);
    if (code == TPP_OK)
        code = read_options(check, err);
    if (code == TPP_OK && check->line.is_accelerate && is_trainer(check))
        code = tpp_accelerate_read(&check->line, check->script, &check->settings, &check->problems, err);
    if (code != TPP_OK)
        return code;
    check->settings.rules.compute_capability = check->inputs.hardware.gpu.compute_capability;
    const bool is_complete = add_missing(check);
    add_environment(check);
    add_notes(check);
    if (!is_complete)
        return TPP_OK;
    tpp_check_set_world(check);
    if (names_model(check))
        return judge_named(check, check->arguments->model != NULL ? &model : NULL, err);
    add_dead(check);
    tpp_megatron_find_violations(&check->given, &check->settings.rules, check->release, check->line.command->line,
                                 &check->problems);
    return try_to_predict(check, check->arguments->model != NULL ? &model : NULL, err);
}

enum tpp_code tpp_check_script(const struct tpp_check_arguments *arguments, const char *path, struct tpp_check *check,
                               struct tpp_error *err)
{
    *check = (struct tpp_check){.arguments = arguments, .file = strcmp(path, "-") == 0 ? "stdin" : path};
    size_t length;
    check->source = tpp_script_files(path);
    enum tpp_code code = tpp_hardware_find(arguments->cluster, &check->inputs.hardware, err);
    if (code == TPP_OK)
        code = tpp_file_read(path, TPP_SHELL_MAX_BYTES, &check->text, &length, err);
    if (code == TPP_OK && tpp_check_is_config(check->file, check->text, length)) {
        code = tpp_check_config(check, err);
        return code == TPP_OK && check->problems.failed ? tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory")
                                                        : code;
    }
    if (code == TPP_OK)
        code = read_shell(check, length, err);
    if (code == TPP_OK)
        code = find_framework(check, err);
    if (code == TPP_OK)
        code = judge(check, err);
    if (code == TPP_OK && check->problems.failed)
        code = tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    return code;
}

void tpp_check_release(struct tpp_check *check)
{
    tpp_arguments_release(&check->given);
    tpp_problems_release(&check->problems);
    tpp_swift_config_free(check->swift_config);
    tpp_shell_free(check->script);
    free(check->text);
    *check = (struct tpp_check){.arguments = check->arguments};
}
