#include "cli/check_config.h"

#include "costmodel/model/model_reader.h"
#include "planner/launch/config/script_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which files ---- */

static bool is_configuration(const char *path, const char *text, size_t length)
{
    struct tpp_config *config;
    struct tpp_error ignored;
    const struct tpp_configuration *configuration;
    if (tpp_config_read(text, length, path, tpp_config_format_of(path, text), &config, &ignored) != TPP_OK)
        return false;
    bool is_own = tpp_configuration_find(config, path, &configuration, &ignored) == TPP_OK;
    tpp_config_free(config);
    return is_own;
}

bool tpp_check_is_config(const char *path, const char *text, size_t length)
{
    static const char *const endings[] = {".toml", ".yaml", ".yml", ".json"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot != NULL && i < sizeof endings / sizeof *endings; i++) {
        if (strcmp(dot, endings[i]) == 0)
            return true;
    }
    return strncmp(text, "#!", 2) != 0 && is_configuration(path, text, length);
}

/* ---- judging ---- */

static void add_unknown_world(struct tpp_check *check, const struct tpp_configuration_reading *reading)
{
    char hint[160];
    if (check->is_world_known || reading->rules.world_size == 0)
        return;
    snprintf(hint, sizeof hint, "give --nodes or --world-size: a multiple of %lld GPUs",
             (long long)reading->rules.world_size);
    tpp_problems_add(
        &check->problems, "world-size", TPP_SEVERITY_WARNING, 0, hint,
        "the file does not say on how many GPUs it runs: the fewest that its sizes need, %lld, are assumed",
        (long long)reading->rules.world_size);
}

static enum tpp_code predict(struct tpp_check *check, const struct tpp_configuration_reading *reading,
                             struct tpp_error *err)
{
    struct tpp_error why = {.code = TPP_OK};
    check->inputs.model = reading->plan.model;
    check->inputs.job = reading->plan.job;
    check->inputs.stack = reading->plan.stack;
    check->plan.strategy = reading->plan.strategy;
    enum tpp_code code = tpp_check_cost(check, &why);
    check->has_plan = code == TPP_OK;
    if (code == TPP_E_MEMORY || code == TPP_E_INTERNAL) {
        *err = why;
        return code;
    }
    if (code != TPP_OK)
        tpp_problems_add(&check->problems, "no-prediction", TPP_SEVERITY_WARNING, 0, why.hint,
                         "the step cannot be predicted: %s", why.message);
    return TPP_OK;
}

static enum tpp_code judge(struct tpp_check *check, const struct tpp_config *config,
                           const struct tpp_configuration *configuration, int64_t world_size, struct tpp_error *err)
{
    struct tpp_model model;
    struct tpp_configuration_reading reading;
    struct tpp_error why = {.code = TPP_OK};
    struct tpp_configuration_request request = {
        .config = config, .hardware = &check->inputs.hardware, .name = check->file, .world_size = world_size};
    if (check->arguments->model != NULL) {
        enum tpp_code code = tpp_model_find(check->arguments->model, &model, err);
        if (code != TPP_OK)
            return code;
        request.model = &model;
    }
    check->framework = configuration->framework;
    enum tpp_code code = configuration->read(&request, &reading, &check->problems, &why);
    if (code == TPP_E_MEMORY || code == TPP_E_INTERNAL) {
        *err = why;
        return code;
    }
    check->is_world_known = reading.is_world_known;
    check->settings.rules = reading.rules;
    add_unknown_world(check, &reading);
    if (reading.rules.world_size > 0)
        tpp_configuration_judge(configuration, &reading, &check->problems);
    if (code != TPP_OK)
        tpp_problems_add(&check->problems, "no-prediction",
                         tpp_problems_have(&check->problems, TPP_SEVERITY_ERROR) ? TPP_SEVERITY_INFO
                                                                                 : TPP_SEVERITY_ERROR,
                         0, why.hint, "the step cannot be predicted: %s", why.message);
    return reading.has_plan ? predict(check, &reading, err) : TPP_OK;
}

static int64_t given_world(const struct tpp_check *check)
{
    const struct tpp_check_arguments *arguments = check->arguments;
    if (arguments->world_size != TPP_OPTION_ABSENT)
        return arguments->world_size;
    return arguments->nodes != TPP_OPTION_ABSENT ? arguments->nodes * check->inputs.hardware.node.num_gpus : 0;
}

static enum tpp_code fail_framework(const struct tpp_check *check, const struct tpp_configuration *found,
                                    struct tpp_error *err)
{
    return tpp_fail(err, TPP_E_USAGE, "--framework", "drop it, or give a file of that framework",
                    "%.150s is a file of %s, not of %s", check->file, tpp_framework_name(found->framework),
                    check->arguments->framework);
}

enum tpp_code tpp_check_config(struct tpp_check *check, struct tpp_error *err)
{
    struct tpp_config *config;
    const struct tpp_configuration *configuration;
    enum tpp_framework wanted;
    enum tpp_code code = tpp_config_read(check->text, strlen(check->text), check->file,
                                         tpp_config_format_of(check->file, check->text), &config, err);
    if (code != TPP_OK)
        return code;
    code = tpp_configuration_find(config, check->file, &configuration, err);
    if (code == TPP_OK && check->arguments->framework != NULL &&
        (!tpp_framework_parse(check->arguments->framework, &wanted) || wanted != configuration->framework))
        code = fail_framework(check, configuration, err);
    if (code == TPP_OK)
        code = judge(check, config, configuration, given_world(check), err);
    tpp_config_free(config);
    return code;
}

/* ---- in a script ---- */

bool tpp_check_has_config(enum tpp_framework framework)
{
    const struct tpp_configuration *configuration = tpp_configuration_of(framework);
    return configuration != NULL && !configuration->leaves_options;
}

/* True when the word, up to a =, is `name`, with '-' and '_' alike. */
static bool is_option(const char *word, const char *name)
{
    for (; *name != '\0'; word++, name++) {
        if (*word != *name && !(*word == '_' && *name == '-') && !(*word == '-' && *name == '_'))
            return false;
    }
    return *word == '\0' || *word == '=';
}

/* The word with the value of the option at `at`: itself, when it has a =; NULL: it has none. */
static const struct tpp_shell_word *value_at(struct tpp_shell_words words, size_t at, const char **value, size_t *used)
{
    const char *equals = strchr(words.items[at].text, '=');
    const size_t behind = equals != NULL ? at : at + 1;
    *used = equals != NULL ? 1 : 2;
    if (behind >= words.count)
        return NULL;
    *value = equals != NULL ? equals + 1 : words.items[behind].text;
    return &words.items[behind];
}

/* The word that names the configuration; NULL: none does. */
static const struct tpp_shell_word *config_word(const struct tpp_launch_line *line, const char **path)
{
    for (size_t i = 0; i < line->arguments.count; i++) {
        size_t used;
        const char *word = line->arguments.items[i].text;
        if (is_option(word, "--job.config_file") || is_option(word, "--config-file"))
            return value_at(line->arguments, i, path, &used);
    }
    return NULL;
}

/* torchtitan: --section.key value, or =value; a switch without one is true. */
static enum tpp_code apply_options(const struct tpp_launch_line *line, struct tpp_config *config, struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    for (size_t i = 0; i < line->arguments.count && code == TPP_OK;) {
        const struct tpp_shell_word *word = &line->arguments.items[i];
        char path[TPP_CONFIG_MAX_PATH];
        size_t used = 1, length = strcspn(word->text, "=");
        const bool is_setting =
            strncmp(word->text, "--", 2) == 0 && memchr(word->text, '.', length) != NULL && length < sizeof path;
        if (is_setting) {
            const char *value = NULL;
            value_at(line->arguments, i, &value, &used);
            if (value == NULL || (used == 2 && strncmp(value, "--", 2) == 0)) {
                value = "true";
                used = 1;
            }
            snprintf(path, sizeof path, "%.*s", (int)(length - 2), word->text + 2);
            for (char *c = path; *c != '\0'; c++)
                *c = *c == '-' ? '_' : *c;
            code = tpp_config_override(config, path, value, word->line, err);
        }
        i += used;
    }
    return code;
}

enum tpp_code tpp_check_config_of_script(struct tpp_check *check, int64_t world_size, struct tpp_error *err)
{
    const struct tpp_configuration *configuration = tpp_configuration_of(check->framework);
    const bool is_titan = check->framework == TPP_FRAMEWORK_TORCHTITAN;
    const char *path = "";
    const struct tpp_shell_word *word = config_word(&check->line, &path);
    struct tpp_config *config = NULL;
    const enum tpp_config_format format = is_titan ? TPP_CONFIG_TOML : TPP_CONFIG_YAML;
    enum tpp_code code = word != NULL ? tpp_config_of_script(check->script, word, path, format, &config, err) : TPP_OK;
    if (code == TPP_OK && config == NULL && (word != NULL || !is_titan))
        tpp_problems_add(&check->problems, "unknown-config", TPP_SEVERITY_WARNING, check->line.command->line,
                         "put it beside the script, or write it there with a here-document, to have it checked",
                         "the configuration is not written by the script, and not beside it: %.150s",
                         word != NULL ? path : "none is named");
    if (code == TPP_OK && config == NULL && is_titan)
        code = tpp_config_read("", 0, check->file, TPP_CONFIG_TOML, &config, err);
    if (code == TPP_OK && is_titan)
        code = apply_options(&check->line, config, err);
    if (code == TPP_OK && config != NULL)
        code = judge(check, config, configuration, world_size, err);
    tpp_config_free(config);
    return code;
}
