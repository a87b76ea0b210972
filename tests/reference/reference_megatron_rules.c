/* reference_megatron_rules.c - the rules of Megatron-LM against argument lines with the verdict of the real code.
 *
 * megatron_lm_rules.jsonl holds a part of the lines; its source is in megatron_lm_rules.md. When TPP_SHARED_VECTORS
 * names a folder with the whole sets (megatron-lm-named.jsonl, megatron-lm-random.jsonl), all of them are compared. */
#include "costmodel/base/file.h"
#include "costmodel/base/json_read.h"
#include "tests/support/argument_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct tally {
    unsigned agreeing, disagreeing;
};

/* The verdicts were taken without a GPU, so that Transformer Engine's kernels never ran, and those of releases before
 * 0.10 without building the layers: what stops only there says "ok". */
static bool is_seen(const struct tpp_violation *violation, enum tpp_release release)
{
    if (violation->stage == TPP_RULE_AT_KERNEL)
        return false;
    return violation->stage != TPP_RULE_AT_BUILD || release >= TPP_RELEASE_0_10;
}

static void set_environment(struct tpp_json line, struct tpp_rule_settings *settings)
{
    struct tpp_json env, value;
    const char *text;
    settings->cuda_device_max_connections = 1;
    if (!tpp_json_member(line, "env", &env) || !tpp_json_member(env, "CUDA_DEVICE_MAX_CONNECTIONS", &value))
        return;
    assert_int_equal(tpp_json_as_string(value, &text, NULL), TPP_OK);
    settings->cuda_device_max_connections = *text == '\0' ? TPP_RULE_UNSET : strtoll(text, NULL, 10);
}

static void compare(struct tpp_json line, const char *name, const char *expected, struct tally *tally)
{
    enum tpp_release release;
    const char *id, *arguments;
    char reason[160] = "";
    uint64_t world_size;
    struct tpp_rule_settings settings = tpp_rule_settings_defaults(TPP_FRAMEWORK_MEGATRON_LM);
    struct tpp_violation violations[64];
    assert_int_equal(tpp_release_parse(name, NULL, &release, NULL), TPP_OK);
    assert_int_equal(tpp_json_need_string(line, "id", &id, NULL), TPP_OK);
    assert_int_equal(tpp_json_need_string(line, "args", &arguments, NULL), TPP_OK);
    assert_int_equal(tpp_json_need_u64(line, "world_size", 1, 1u << 20, &world_size, NULL), TPP_OK);
    settings.world_size = (int64_t)world_size;
    set_environment(line, &settings);
    char *text = strdup(arguments);
    assert_non_null(text);
    enum argument_verdict read = argument_line_read(text, release, &settings, reason, sizeof reason);
    bool refused = read == ARGUMENTS_REFUSED, expects_refusal = strcmp(expected, "ok") != 0;
    const char *code = reason;
    if (read == ARGUMENTS_READ) {
        size_t count = tpp_rules_violations(&settings, release, violations, 64);
        assert_int_equal(count == 0, tpp_rules_accept(&settings, release));
        for (size_t i = 0; i < count && !refused; i++) {
            refused = is_seen(&violations[i], release);
            code = violations[i].code;
        }
    }
    if (refused == expects_refusal) {
        tally->agreeing++;
    } else {
        tally->disagreeing++;
        print_message("# %s, %s: the real code says %s, we say %s %s\n", id, name, expected,
                      refused ? "refused by" : "ok", refused ? code : "");
    }
    free(text);
}

static struct tally compare_file(const char *path)
{
    struct tally tally = {0, 0};
    struct tpp_error err;
    char *data;
    size_t length;
    assert_int_equal(tpp_file_read(path, 64u << 20, &data, &length, &err), TPP_OK);
    for (char *at = data; *at != '\0';) {
        size_t line_length = strcspn(at, "\n");
        struct tpp_json_document *document;
        struct tpp_json verdicts, verdict;
        const char *name, *text;
        assert_int_equal(tpp_json_parse(at, line_length, path, &document, &err), TPP_OK);
        struct tpp_json line = tpp_json_root(document);
        assert_true(tpp_json_member(line, "verdicts", &verdicts));
        for (size_t i = 0; tpp_json_at(verdicts, i, &verdict, &name); i++) {
            assert_int_equal(tpp_json_as_string(verdict, &text, &err), TPP_OK);
            compare(line, name, text, &tally);
        }
        tpp_json_document_free(document);
        at += line_length + (at[line_length] == '\n');
    }
    free(data);
    print_message("# %s: %u verdicts agree, %u do not\n", path, tally.agreeing, tally.disagreeing);
    return tally;
}

static void test_agrees_with_the_kept_lines(void **state)
{
    char path[4096];
    (void)state;
    snprintf(path, sizeof path, "%s/tests/reference/megatron_lm_rules.jsonl", getenv("TPP_SOURCE_ROOT"));
    struct tally tally = compare_file(path);
    assert_int_equal(tally.disagreeing, 0);
    assert_true(tally.agreeing > 1000);
}

static void test_agrees_with_all_lines(void **state)
{
    static const char *const files[] = {"megatron-lm-named.jsonl", "megatron-lm-random.jsonl"};
    const char *folder = getenv("TPP_SHARED_VECTORS");
    char path[4096];
    unsigned disagreeing = 0;
    (void)state;
    assert_non_null(folder);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        disagreeing += compare_file(path).disagreeing;
    }
    assert_int_equal(disagreeing, 0);
}

int main(void)
{
    const struct CMUnitTest kept[] = {cmocka_unit_test(test_agrees_with_the_kept_lines)};
    const struct CMUnitTest all[] = {cmocka_unit_test(test_agrees_with_the_kept_lines),
                                     cmocka_unit_test(test_agrees_with_all_lines)};
    if (getenv("TPP_SHARED_VECTORS") == NULL)
        return cmocka_run_group_tests(kept, NULL, NULL);
    return cmocka_run_group_tests(all, NULL, NULL);
}
