/* Any text as YAML and as TOML: read, or refused with a place and a reason. What is read has paths that are found
 * again, and every framework makes of it a plan, problems or an error. */
#include "tests/fuzz/fuzz_target.h"

#include "hwprofiles/profiles.h"
#include "planner/launch/config/configurations.h"

#include <string.h>

static struct tpp_hardware hardware;

static void check_entries(const struct tpp_config *config)
{
    size_t count;
    const struct tpp_config_entry *entries = tpp_config_entries(config, &count);
    FUZZ_CHECK(count <= TPP_CONFIG_MAX_ENTRIES);
    for (size_t i = 0; i < count; i++) {
        const struct tpp_config_entry *found = tpp_config_find(config, entries[i].path);
        FUZZ_CHECK(found != NULL && strcmp(found->path, entries[i].path) == 0);
        FUZZ_CHECK(entries[i].is_doubled == (found != &entries[i]));
        FUZZ_CHECK(entries[i].line >= 1 && strlen(entries[i].path) < TPP_CONFIG_MAX_PATH);
    }
}

static void check_configuration(enum tpp_framework framework, const struct tpp_config *config)
{
    const struct tpp_configuration *configuration = tpp_configuration_of(framework);
    struct tpp_configuration_reading reading;
    struct tpp_problems problems = {0};
    struct tpp_error err = {.code = TPP_OK};
    const struct tpp_configuration_request request = {.config = config, .hardware = &hardware, .name = "file"};
    const enum tpp_code code = configuration->read(&request, &reading, &problems, &err);
    FUZZ_CHECK(code == TPP_OK || (err.message[0] != '\0' && !reading.has_plan));
    if (reading.rules.world_size > 0)
        tpp_configuration_judge(configuration, &reading, &problems);
    FUZZ_CHECK(!problems.failed);
    tpp_problems_release(&problems);
}

static void check_format(const char *text, size_t length, enum tpp_config_format format)
{
    struct tpp_config *config;
    struct tpp_error err = {.code = TPP_OK};
    const enum tpp_code code = tpp_config_read(text, length, "file", format, &config, &err);
    FUZZ_CHECK((code == TPP_OK) == (config != NULL));
    FUZZ_CHECK(code == TPP_OK || (err.message[0] != '\0' && err.where[0] != '\0'));
    if (code != TPP_OK)
        return;
    check_entries(config);
    check_configuration(TPP_FRAMEWORK_TORCHTITAN, config);
    check_configuration(TPP_FRAMEWORK_NANOTRON, config);
    check_configuration(TPP_FRAMEWORK_HF_TRAINER, config);
    FUZZ_CHECK(tpp_config_override(config, "training.seq_len", "4096", 1, NULL) == TPP_OK ||
               config != NULL); /* the limit of entries */
    tpp_config_free(config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    FUZZ_CHECK(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    if (hardware.node.num_gpus == 0)
        FUZZ_CHECK(tpp_hardware_find("dgx-h100", &hardware, NULL) == TPP_OK);
    tpp_config_format_of("-", text);
    check_format(text, size, TPP_CONFIG_TOML);
    check_format(text, size, TPP_CONFIG_YAML);
    free(text);
    return 0;
}
