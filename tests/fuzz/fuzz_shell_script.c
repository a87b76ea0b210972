/* Any bytes as a launch script: it ends, in a tree of words whose lines and notes exist, or in an error with a place;
 * and whatever command it finds can be read as one of every framework. */
#include "tests/fuzz/fuzz_target.h"

#include "costmodel/model/presets.h"
#include "planner/launch/bridge_arguments.h"
#include "planner/launch/config/accelerate.h"
#include "planner/launch/deepspeed_arguments.h"
#include "planner/launch/launch_line.h"
#include "planner/launch/plan_reading.h"
#include "planner/launch/swift_arguments.h"
#include "planner/launch/trainer_arguments.h"

#include <string.h>

static void check_words(const struct tpp_shell_script *script, struct tpp_shell_words words, uint32_t num_lines)
{
    size_t num_notes;
    tpp_shell_notes(script, &num_notes);
    for (size_t i = 0; i < words.count; i++) {
        FUZZ_CHECK(words.items[i].text != NULL);
        FUZZ_CHECK(words.items[i].line <= num_lines);
        FUZZ_CHECK(words.items[i].note <= num_notes);
    }
}

static void read_plan(const struct tpp_megatron_settings *settings, const struct tpp_arguments *arguments,
                      const struct tpp_model *model, struct tpp_problems *problems)
{
    struct tpp_hardware hardware = {.gpu = {.has_bf16 = true, .fp8_flops_per_second = 2e15}};
    struct tpp_plan_reading plan;
    struct tpp_error err = {.code = TPP_OK};
    if (tpp_plan_from_megatron(settings, arguments, TPP_RELEASE_NEWEST, &hardware, model, "fuzz", &plan, problems,
                               &err) == TPP_OK)
        FUZZ_CHECK(plan.strategy.data_parallel >= 1 && plan.model.num_layers >= 1);
    else
        FUZZ_CHECK(err.message[0] != '\0' && err.where[0] != '\0');
}

static void read_as_deepspeed(const struct tpp_launch_line *line, const struct tpp_shell_script *script)
{
    struct tpp_arguments arguments;
    struct tpp_megatron_settings settings;
    struct tpp_problems problems = {0};
    FUZZ_CHECK(tpp_deepspeed_read(line->arguments, script, &arguments, &settings, &problems, NULL) == TPP_OK);
    settings.rules.world_size = 8;
    tpp_deepspeed_find_dead(&arguments, &settings, &problems);
    tpp_megatron_find_violations(&arguments, &settings.rules, TPP_RELEASE_NEWEST, 1, &problems);
    read_plan(&settings, &arguments, NULL, &problems);
    tpp_problems_release(&problems);
    tpp_arguments_release(&arguments);
}

/* Of a framework whose command lines only name the model. */
static void judge_named(struct tpp_megatron_settings *settings, struct tpp_arguments *arguments,
                        struct tpp_problems *problems)
{
    const struct tpp_model *model = tpp_model_preset("llama3.1-8b");
    FUZZ_CHECK(model != NULL);
    tpp_swift_set_shape(settings, model);
    tpp_megatron_find_violations(arguments, &settings->rules, TPP_RELEASE_NEWEST, 1, problems);
    if (settings->rules.sequence_length > 0 && !settings->is_incomplete)
        read_plan(settings, arguments, model, problems);
    tpp_problems_release(problems);
    tpp_arguments_release(arguments);
}

static void read_as_swift(const struct tpp_launch_line *line, const struct tpp_shell_script *script)
{
    struct tpp_arguments arguments;
    struct tpp_megatron_settings settings;
    struct tpp_problems problems = {0};
    FUZZ_CHECK(tpp_swift_read(line->arguments, script, line->entry, &arguments, &settings, &problems, NULL) == TPP_OK);
    settings.rules.world_size = 8;
    tpp_swift_model(tpp_argument_find(&arguments, "--model"));
    judge_named(&settings, &arguments, &problems);
}

static void read_as_bridge(const struct tpp_launch_line *line, const struct tpp_shell_script *script)
{
    struct tpp_arguments arguments;
    struct tpp_megatron_settings settings;
    struct tpp_problems problems = {0};
    FUZZ_CHECK(tpp_bridge_read(line->arguments, script, &arguments, &settings, &problems, NULL) == TPP_OK);
    settings.rules.world_size = 8;
    tpp_bridge_model(tpp_bridge_recipe(&arguments));
    judge_named(&settings, &arguments, &problems);
}

static void read_as_trainer(const struct tpp_launch_line *line, const struct tpp_shell_script *script, bool is_swift)
{
    struct tpp_arguments arguments;
    struct tpp_megatron_settings settings;
    struct tpp_problems problems = {0};
    struct tpp_launch_line own = *line;
    FUZZ_CHECK(tpp_trainer_read(line->arguments, script, line->entry, is_swift, &arguments, &settings, &problems,
                                NULL) == TPP_OK);
    struct tpp_error err = {.code = TPP_OK};
    if (tpp_accelerate_read(&own, script, &settings, &problems, &err) != TPP_OK)
        FUZZ_CHECK(err.message[0] != '\0' && err.where[0] != '\0');
    settings.rules.world_size = 8;
    tpp_trainer_complete(&settings, &problems);
    judge_named(&settings, &arguments, &problems);
}

static void read_line(const struct tpp_shell_script *script)
{
    struct tpp_launch_line line;
    struct tpp_arguments arguments;
    struct tpp_megatron_settings settings;
    struct tpp_problems problems = {0};
    struct tpp_error err;
    if (tpp_launch_line_find(script, "fuzz.sh", &line, &err) != TPP_OK ||
        line.arguments.count > TPP_ARGUMENTS_MAX_WORDS)
        return;
    FUZZ_CHECK(line.nodes >= 0 && line.ranks_per_node >= 0 && line.entry != NULL);
    FUZZ_CHECK(tpp_megatron_read(line.arguments, script, line.entry, TPP_RELEASE_NEWEST, &arguments, &settings,
                                 &problems, &err) == TPP_OK);
    settings.rules.world_size = 8;
    read_plan(&settings, &arguments, NULL, &problems);
    tpp_megatron_find_dead(&arguments, &settings, TPP_RELEASE_NEWEST, &problems);
    tpp_megatron_find_violations(&arguments, &settings.rules, TPP_RELEASE_NEWEST, 1, &problems);
    tpp_problems_sort(&problems);
    FUZZ_CHECK(!problems.failed);
    read_as_deepspeed(&line, script);
    read_as_swift(&line, script);
    read_as_bridge(&line, script);
    read_as_trainer(&line, script, false);
    read_as_trainer(&line, script, true);
    tpp_problems_release(&problems);
    tpp_arguments_release(&arguments);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tpp_shell_script *script;
    struct tpp_error err = {.code = TPP_OK};
    size_t count;
    uint32_t num_lines = 1;
    for (size_t i = 0; i < size; i++)
        num_lines += data[i] == '\n';
    if (tpp_shell_read((const char *)data, size, "fuzz.sh", NULL, 0, &script, &err) != TPP_OK) {
        FUZZ_CHECK(script == NULL && err.message[0] != '\0' && err.where[0] != '\0');
        return 0;
    }
    const struct tpp_shell_command *commands = tpp_shell_commands(script, &count);
    for (size_t i = 0; i < count; i++) {
        check_words(script, commands[i].words, num_lines);
        check_words(script, commands[i].outer, num_lines);
    }
    read_line(script);
    tpp_shell_free(script);
    return 0;
}
