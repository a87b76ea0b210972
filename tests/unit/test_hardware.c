/* The table of hardware values, overrides, checks, the schema, and a stranger's profile file. */
#include "hwprofiles/profiles.h"

#include "costmodel/base/file.h"
#include "tests/support/check_number.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Every value that has no fallback, and one with its origin. */
#define GPU                                                                                                            \
    "\"gpu\":{\"bf16_flops_per_second\":2e14,\"num_sms\":97,"                                                          \
    "\"memory_bandwidth_bytes_per_second\":{\"value\":1.3e12,\"provenance\":\"measured\",\"source\":\"lab\"},"         \
    "\"memory_bytes\":47000000000}"
#define NODE                                                                                                           \
    "\"node\":{\"num_gpus\":7,\"all_reduce_bus_bytes_per_second\":11e9,\"all_gather_bus_bytes_per_second\":12e9,"      \
    "\"reduce_scatter_bus_bytes_per_second\":13e9,\"all_to_all_bus_bytes_per_second\":14e9,"                           \
    "\"send_recv_bus_bytes_per_second\":15e9}"
#define NETWORK "\"network\":{\"num_nics\":3,\"nic_bytes_per_second\":21.7e9}"
#define HEAD "{\"schema_version\":1,\"name\":\"mine\","
#define WHOLE HEAD GPU "," NODE "," NETWORK "}"
#define ON_A100(rest) "{\"schema_version\":1,\"name\":\"mine\",\"base\":\"dgx-a100-80g\"," rest "}"

static enum tpp_code read_bytes(const char *text, size_t length, struct tpp_hardware *hardware, struct tpp_error *err)
{
    struct tpp_json_document *document;
    enum tpp_code code = tpp_json_parse(text, length, "mine.json", &document, err);
    if (!code) {
        code = tpp_hardware_read(tpp_json_root(document), hardware, err);
        tpp_json_document_free(document);
    }
    return code;
}

static void must_read(const char *text, struct tpp_hardware *hardware)
{
    struct tpp_error err = {0};
    if (read_bytes(text, strlen(text), hardware, &err)) {
        fail_msg("%s: %s: %s", text, err.where, err.message);
    }
}

static uint32_t row(const char *key)
{
    uint32_t index = 0;
    if (!tpp_hardware_field_index(key, &index)) {
        fail_msg("no row %s", key);
    }
    return index;
}

static void each_row_has_its_own_member_and_a_sound_range(void **state)
{
    (void)state;
    uint32_t count;
    const struct tpp_hardware_field *fields = tpp_hardware_fields(&count);
    assert_in_range(count, 50, TPP_HARDWARE_MAX_VALUES);
    for (uint32_t i = 0; i < count; i++) {
        if (fields[i].min > fields[i].max || !fields[i].about[0] || !strchr(fields[i].key, '.') ||
            fields[i].max > 9007199254740992.0 * (fields[i].kind == TPP_HARDWARE_DOUBLE ? 1e6 : 1)) {
            fail_msg("%s: bad row", fields[i].key);
        }
        if (!fields[i].required && (fields[i].fallback < fields[i].min || fields[i].fallback > fields[i].max)) {
            fail_msg("%s: fallback out of range", fields[i].key);
        }
        for (uint32_t j = 0; j < i; j++) {
            assert_int_not_equal(fields[i].offset, fields[j].offset);
            assert_string_not_equal(fields[i].key, fields[j].key);
        }
        assert_int_equal(row(fields[i].key), i);
    }
}

/* The row named after a member reads that member, also when rows are moved. */
static void rows_read_the_member_they_are_named_after(void **state)
{
    (void)state;
    struct tpp_hardware hardware = {0};
    hardware.gpu.memory_bytes = 901;
    hardware.gpu.gemm_tile_n = 902;
    hardware.gpu.has_bf16 = true;
    hardware.gpu.flash_backward_fraction[TPP_ATTENTION_FLASH3] = 0.903;
    hardware.gpu.flash_small_head_fraction[TPP_ATTENTION_FLASH1] = 0.904;
    hardware.node.bus_bytes_per_second[TPP_REDUCE_SCATTER] = 905;
    hardware.node.bus_bytes_per_second[TPP_ALL_TO_ALL] = 906;
    hardware.network.nodes_per_leaf = 907;
    hardware.network.hop_latency_seconds = 0.908;
    hardware.overlap_slowdown_fraction = 0.909;
    CHECK_NUMBER(tpp_hardware_get(&hardware, row("gpu.memory_bytes")), 901, 0);
    CHECK_NUMBER(tpp_hardware_get(&hardware, row("gpu.gemm_tile_n")), 902, 0);
    CHECK_NUMBER(tpp_hardware_get(&hardware, row("gpu.has_bf16")), 1, 0);
    CHECK_NUMBER(tpp_hardware_get(&hardware, row("gpu.flash3_backward_fraction")), 0.903, 0);
    CHECK_NUMBER(tpp_hardware_get(&hardware, row("gpu.flash1_small_head_ratio")), 0.904, 0);
    CHECK_NUMBER(tpp_hardware_get(&hardware, row("node.reduce_scatter_bus_bytes_per_second")), 905, 0);
    CHECK_NUMBER(tpp_hardware_get(&hardware, row("node.all_to_all_bus_bytes_per_second")), 906, 0);
    CHECK_NUMBER(tpp_hardware_get(&hardware, row("network.nodes_per_leaf")), 907, 0);
    CHECK_NUMBER(tpp_hardware_get(&hardware, row("network.hop_latency_seconds")), 0.908, 0);
    CHECK_NUMBER(tpp_hardware_get(&hardware, row("gpu.overlap_slowdown_fraction")), 0.909, 0);
}

static void a_whole_profile_of_plain_numbers_is_read(void **state)
{
    (void)state;
    struct tpp_hardware hardware;
    must_read(WHOLE, &hardware);
    assert_string_equal(hardware.name, "mine");
    CHECK_NUMBER(hardware.gpu.bf16_flops_per_second, 2e14, 0);
    assert_int_equal(hardware.gpu.num_sms, 97);
    assert_true(hardware.gpu.memory_bytes == 47000000000);
    CHECK_NUMBER(hardware.node.bus_bytes_per_second[TPP_SEND_RECV], 15e9, 0);
    CHECK_NUMBER(tpp_hardware_nic_bytes_per_second_per_gpu(&hardware), 9.3e9, 1e-15); /* 3 * 21.7 / 7 */
    const struct tpp_hardware_origin *plain = &hardware.origins[row("gpu.num_sms")];
    assert_int_equal(plain->provenance, TPP_PROVENANCE_ASSUMED);
    assert_string_equal(plain->source, "mine.json");
    const struct tpp_hardware_origin *full = &hardware.origins[row("gpu.memory_bandwidth_bytes_per_second")];
    assert_int_equal(full->provenance, TPP_PROVENANCE_MEASURED);
    assert_string_equal(full->source, "lab");
    /* What is not given has the value of the table and says so. */
    CHECK_NUMBER(hardware.gpu.gemm_half_k, 160, 0);
    CHECK_NUMBER(hardware.network.oversubscription, 1, 0);
    assert_true(hardware.gpu.has_bf16);
    assert_int_equal(hardware.origins[row("gpu.gemm_half_k")].provenance, TPP_PROVENANCE_ASSUMED);
    assert_non_null(strstr(hardware.origins[row("gpu.gemm_half_k")].source, "not in the profile"));
}

static void a_profile_overrides_single_values_of_its_base(void **state)
{
    (void)state;
    struct tpp_hardware base, mine;
    assert_int_equal(tpp_hardware_find("dgx-a100-80g", &base, NULL), TPP_OK);
    must_read(ON_A100("\"gpu\":{\"gemm_max_fraction\":0.613},\"network\":{\"num_nics\":4}"), &mine);
    assert_string_equal(mine.name, "mine");
    assert_string_equal(mine.gpu.name, base.gpu.name);
    uint32_t count;
    const struct tpp_hardware_field *fields = tpp_hardware_fields(&count);
    for (uint32_t i = 0; i < count; i++) {
        const double value = tpp_hardware_get(&mine, i);
        if (strcmp(fields[i].key, "gpu.gemm_max_fraction") == 0) {
            CHECK_NUMBER(value, 0.613, 0);
            assert_string_equal(mine.origins[i].source, "mine.json");
        } else if (strcmp(fields[i].key, "network.num_nics") == 0) {
            CHECK_NUMBER(value, 4, 0);
        } else {
            CHECK_NUMBER(value, tpp_hardware_get(&base, i), 0);
            assert_string_equal(mine.origins[i].source, base.origins[i].source);
        }
    }
    must_read(ON_A100("\"gpu\":\"h100-sxm5-80g\""), &mine);
    assert_int_equal(mine.gpu.num_sms, 132);
    assert_int_equal(mine.network.num_nics, 8);
    must_read(ON_A100("\"gpu\":{\"base\":\"b200-sxm\",\"name\":\"odd\",\"memory_bytes\":180e9}"), &mine);
    assert_int_equal(mine.gpu.num_sms, 148);
    assert_string_equal(mine.gpu.name, "odd");
    assert_true(mine.gpu.memory_bytes == 180000000000);
    must_read(ON_A100("\"gpu\":{\"num_sms\":null},\"node\":null"), &mine); /* null counts as absent */
    assert_int_equal(mine.gpu.num_sms, 108);
}

struct refused {
    const char *text;
    enum tpp_code code;
    const char *where;
    const char *message; /* a part of it */
    const char *hint;    /* a part of it */
};

static void check_refused(const struct refused *wanted)
{
    struct tpp_hardware hardware;
    struct tpp_error err = {0};
    const enum tpp_code code = read_bytes(wanted->text, strlen(wanted->text), &hardware, &err);
    if (code != wanted->code || err.code != code || strcmp(err.where, wanted->where) != 0 ||
        !strstr(err.message, wanted->message) || !strstr(err.hint, wanted->hint)) {
        fail_msg("%s\n%s at %s: %s (%s)", wanted->text, tpp_code_name(code), err.where, err.message, err.hint);
    }
}

static void wrong_values_are_refused_with_what_where_and_how_to_fix_it(void **state)
{
    (void)state;
    static const struct refused rows[] = {
        {ON_A100("\"gpu\":{\"memory_bytes\":\"80GB\"}"), TPP_E_TYPE, "mine.json#/gpu/memory_bytes",
         "\"memory_bytes\" must be a number, found the text \"80GB\"", "give bytes as a number (80000000000)"},
        {ON_A100("\"gpu\":{\"memory_bytes\":{\"value\":\"80GB\"}}"), TPP_E_TYPE, "mine.json#/gpu/memory_bytes/value",
         "\"memory_bytes\" must be a number, found the text \"80GB\"", "(80000000000)"},
        {ON_A100("\"network\":{\"nic_bytes_per_second\":\"200Gb/s\"}"), TPP_E_TYPE,
         "mine.json#/network/nic_bytes_per_second", "found the text \"200Gb/s\"",
         "give bytes per second as a number (25000000000)"},
        {ON_A100("\"gpu\":{\"gemm_max_fraction\":\"many\"}"), TPP_E_TYPE, "mine.json#/gpu/gemm_max_fraction",
         "found the text \"many\"", "give fraction as a number"},
        {ON_A100("\"gpu\":{\"num_sms\":true}"), TPP_E_TYPE, "mine.json#/gpu/num_sms", "must be a number, found true",
         "give count as a number"},
        {ON_A100("\"gpu\":{\"num_sms\":[1]}"), TPP_E_TYPE, "mine.json#/gpu/num_sms", "found an array", ""},
        {ON_A100("\"node\":{\"has_nvlink\":1}"), TPP_E_TYPE, "mine.json#/node/has_nvlink",
         "must be true or false, found 1", "without quotes"},
        {ON_A100("\"gpu\":{\"gemm_max_fraction\":1.01}"), TPP_E_RANGE, "mine.json#/gpu/gemm_max_fraction",
         "must be from 0.01 to 1, found 1.01", "give a number from 0.01 to 1"},
        {ON_A100("\"gpu\":{\"gemm_error_fraction\":-0.1}"), TPP_E_RANGE, "mine.json#/gpu/gemm_error_fraction",
         "must be from 0 to 1, found -0.1", "give a number from 0 to 1"},
        {ON_A100("\"gpu\":{\"attention_error_fraction\":25}"), TPP_E_RANGE, "mine.json#/gpu/attention_error_fraction",
         "found 25", "give a number from 0 to 1"}, /* per cent */
        {ON_A100("\"gpu\":{\"memory_error_fraction\":1e999}"), TPP_E_RANGE, "mine.json:1:88", "too large", ""},
        {ON_A100("\"gpu\":{\"memory_error_fraction\":NaN}"), TPP_E_SYNTAX, "mine.json:1:88", "found 'N'", "no NaN"},
        {ON_A100("\"node\":{\"collective_error_fraction\":\"20 %\"}"), TPP_E_TYPE,
         "mine.json#/node/collective_error_fraction", "must be a number, found the text \"20 %\"",
         "give fraction as a number"},
        {ON_A100("\"network\":{\"collective_error_fraction\":{\"value\":null}}"), TPP_E_MISSING,
         "mine.json#/network/collective_error_fraction", "has no \"value\"", ""},
        {ON_A100("\"node\":{\"num_gpus\":0}"), TPP_E_RANGE, "mine.json#/node/num_gpus", "found 0", "whole number"},
        {ON_A100("\"node\":{\"num_gpus\":-8}"), TPP_E_RANGE, "mine.json#/node/num_gpus", "found -8", ""},
        {ON_A100("\"node\":{\"num_gpus\":7.5}"), TPP_E_RANGE, "mine.json#/node/num_gpus",
         "must be a whole number, found 7.5", ""},
        {ON_A100("\"gpu\":{\"memory_bytes\":9007199254740993}"), TPP_E_RANGE, "mine.json#/gpu/memory_bytes", "must be",
         ""},
        {ON_A100("\"gpu\":{\"memory_bytes\":1e300}"), TPP_E_RANGE, "mine.json#/gpu/memory_bytes", "found 1e+300", ""},
        {ON_A100("\"gpu\":{\"num_sms\":{\"provenance\":\"measured\"}}"), TPP_E_MISSING, "mine.json#/gpu/num_sms",
         "\"num_sms\" has no \"value\"", "\"value\""},
        {ON_A100("\"gpu\":{\"num_sms\":{\"value\":9,\"provenance\":\"guessed\"}}"), TPP_E_RANGE,
         "mine.json#/gpu/num_sms/provenance", "unknown provenance \"guessed\"", "assumed"},
        {ON_A100("\"gpu\":{\"num_sms\":{\"value\":9,\"sourse\":\"x\"}}"), TPP_E_SYNTAX, "mine.json#/gpu/num_sms/sourse",
         "sourse", "source"},
        {ON_A100("\"gpu\":{\"context_bytes\":90e9}"), TPP_E_RANGE, "mine.json#/gpu/context_bytes", "leaves nothing",
         ""},
        {ON_A100("\"network\":{\"oversubscription_ratio\":2,\"nodes_per_leaf\":0}"), TPP_E_RANGE,
         "mine.json#/network/nodes_per_leaf", "oversubscribed network needs", ""},
        {ON_A100("\"gpu\":{\"flash2_backward_fraction\":0}"), TPP_E_RANGE, "mine.json#/gpu/flash2_backward_fraction",
         "is 0 although", "both directions"},
        {ON_A100("\"gpu\":{\"flash3_backward_fraction\":0.5}"), TPP_E_RANGE, "mine.json#/gpu/flash3_forward_fraction",
         "is 0 although", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_refused(&rows[i]);
    }
}

static void wrong_structure_is_refused_with_what_where_and_how_to_fix_it(void **state)
{
    (void)state;
    static const struct refused rows[] = {
        {"[]", TPP_E_TYPE, "mine.json#", "must be an object", "README"},
        {"{}", TPP_E_MISSING, "mine.json#", "schema_version", ""},
        {"{\"schema_version\":2,\"base\":\"mi300x\"}", TPP_E_RANGE, "mine.json#/schema_version", "", ""},
        {HEAD "\"memory_bytes\":1}", TPP_E_SYNTAX, "mine.json#/memory_bytes", "memory_bytes", ""},
        {ON_A100("\"gpus\":{}"), TPP_E_SYNTAX, "mine.json#/gpus", "gpus", "gpu"},
        {ON_A100("\"gpu\":{\"memory_byte\":1}"), TPP_E_SYNTAX, "mine.json#/gpu/memory_byte", "memory_byte",
         "memory_bytes"},
        {ON_A100("\"node\":{\"num_sms\":1}"), TPP_E_SYNTAX, "mine.json#/node/num_sms", "num_sms", ""},
        {ON_A100("\"node\":{\"num_gpus\":8,\"num_gpus\":8}"), TPP_E_SYNTAX, "mine.json#/node", "\"num_gpus\"", ""},
        {ON_A100("\"gpu\":7"), TPP_E_TYPE, "mine.json#/gpu", "must be a name or an object", "shipped GPU"},
        {ON_A100("\"node\":\"fast\""), TPP_E_TYPE, "mine.json#/node", "must be an object", ""},
        {ON_A100("\"gpu\":\"h100-sxm5-81g\""), TPP_E_RANGE, "mine.json#/gpu", "no shipped GPU is named",
         "did you mean \"h100-sxm5-80g\"?"},
        {"{\"schema_version\":1,\"name\":\"x\",\"base\":\"dgx_h10\"}", TPP_E_RANGE, "mine.json#/base",
         "no shipped profile is named \"dgx_h10\"", "dgx-h100"},
        {"{\"schema_version\":1,\"name\":\"x\",\"base\":8}", TPP_E_TYPE, "mine.json#/base", "", ""},
        {HEAD NODE "," NETWORK "}", TPP_E_MISSING, "mine.json#", "\"bf16_flops_per_second\" is missing in \"gpu\"",
         "\"base\""},
        {HEAD GPU "," NETWORK ",\"node\":{\"num_gpus\":8}}", TPP_E_MISSING, "mine.json#/node",
         "\"all_reduce_bus_bytes_per_second\" is missing in \"node\"", "bus bandwidth"},
        {"{\"schema_version\":1," GPU "," NODE "," NETWORK "}", TPP_E_MISSING, "mine.json#", "\"name\" is missing", ""},
        {"{\"schema_version\":1,\"base\":\"mi300x\",\"name\":\"\"}", TPP_E_RANGE, "mine.json#/name", "0 bytes", "63"},
        {"{\"schema_version\":1,\"base\":\"mi300x\",\"name\":"
         "\"0123456789012345678901234567890123456789012345678901234567890123\"}",
         TPP_E_RANGE, "mine.json#/name", "64 bytes", "63"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_refused(&rows[i]);
    }
}

static void numbers_that_are_not_finite_are_refused(void **state)
{
    (void)state;
    static const char *const words[] = {"NaN", "1e999", "-1e999", "Infinity", "-inf", "0x10", "1."};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char text[160];
        snprintf(text, sizeof text, "{\"schema_version\":1,\"base\":\"mi300x\",\"gpu\":{\"num_sms\":%s}}", words[i]);
        struct tpp_hardware hardware;
        struct tpp_error err = {0};
        const enum tpp_code code = read_bytes(text, strlen(text), &hardware, &err);
        if (code != TPP_E_SYNTAX && code != TPP_E_RANGE) {
            fail_msg("%s: %s", words[i], tpp_code_name(code));
        }
        assert_non_null(strstr(err.where, "mine.json"));
    }
}

/* A file that was cut anywhere is refused: nothing shorter than the whole is a profile. */
static void truncated_profiles_are_refused(void **state)
{
    (void)state;
    for (size_t length = 0; length < strlen(WHOLE); length++) {
        char *text = malloc(length + 1); /* its own block: a sanitizer sees a read behind the end */
        assert_non_null(text);
        memcpy(text, WHOLE, length);
        text[length] = '\0';
        struct tpp_hardware hardware;
        struct tpp_error err = {0};
        assert_int_equal(read_bytes(text, length, &hardware, &err), TPP_E_SYNTAX);
        assert_true(err.message[0] && err.where[0]);
        free(text);
    }
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    char text[4096] = ON_A100("\"gpu\":{\"num_sms\":");
    char *end = text + strlen(text) - 1; /* over the closing brace of the macro */
    memset(end, '[', 2000);
    struct tpp_hardware hardware;
    struct tpp_error err = {0};
    assert_int_equal(read_bytes(text, strlen(text), &hardware, &err), TPP_E_RANGE);
    assert_non_null(strstr(err.where, "mine.json:1:"));
}

static void overrides_are_checked_and_marked(void **state)
{
    (void)state;
    struct tpp_hardware hardware;
    struct tpp_error err = {0};
    assert_int_equal(tpp_hardware_find("dgx-h100", &hardware, &err), TPP_OK);
    const double before = hardware.gpu.gemm_max_fraction;
    assert_int_equal(tpp_hardware_set(&hardware, "gpu.memory_bytes", 64e9, "--gpu-memory=64GB", &err), TPP_OK);
    assert_true(hardware.gpu.memory_bytes == 64000000000);
    assert_int_equal(hardware.origins[row("gpu.memory_bytes")].provenance, TPP_PROVENANCE_USER);
    assert_string_equal(hardware.origins[row("gpu.memory_bytes")].source, "--gpu-memory=64GB");
    assert_int_equal(tpp_hardware_set(&hardware, "gpu.memory_byte", 64e9, NULL, &err), TPP_E_USAGE);
    assert_non_null(strstr(err.hint, "gpu.memory_bytes"));
    assert_int_equal(tpp_hardware_set(&hardware, "zzz", 1, NULL, &err), TPP_E_USAGE);
    assert_non_null(strstr(err.message, "zzz"));
    assert_int_equal(tpp_hardware_set(&hardware, "gpu.gemm_max_fraction", 1.5, NULL, &err), TPP_E_RANGE);
    assert_string_equal(err.where, "gpu.gemm_max_fraction");
    assert_int_equal(tpp_hardware_set(&hardware, "gpu.gemm_max_fraction", NAN, NULL, &err), TPP_E_RANGE);
    assert_int_equal(tpp_hardware_set(&hardware, "node.num_gpus", 2.5, NULL, &err), TPP_E_RANGE);
    assert_int_equal(tpp_hardware_set(&hardware, "gpu.has_bf16", 0.5, NULL, &err), TPP_E_RANGE);
    CHECK_NUMBER(hardware.gpu.gemm_max_fraction, before, 0); /* untouched */
    assert_int_equal(tpp_hardware_check(&hardware, &err), TPP_OK);
    assert_int_equal(tpp_hardware_set(&hardware, "network.oversubscription_ratio", 3, NULL, &err), TPP_OK);
    assert_int_equal(tpp_hardware_set(&hardware, "network.nodes_per_leaf", 0, NULL, &err), TPP_OK);
    assert_int_equal(tpp_hardware_check(&hardware, &err), TPP_E_RANGE);
    assert_string_equal(err.where, "network.nodes_per_leaf");
}

static void check_refuses_what_no_loader_would_make(void **state)
{
    (void)state;
    struct tpp_hardware hardware;
    assert_int_equal(tpp_hardware_find("dgx-h100", &hardware, NULL), TPP_OK);
    hardware.gpu.kernel_gap_seconds = NAN;
    assert_int_equal(tpp_hardware_check(&hardware, NULL), TPP_E_RANGE);
    hardware.gpu.kernel_gap_seconds = DBL_MIN;
    assert_int_equal(tpp_hardware_check(&hardware, NULL), TPP_OK);
    hardware.name[0] = '\0';
    assert_int_equal(tpp_hardware_check(&hardware, NULL), TPP_E_MISSING);
}

/* hwprofiles/schema.json is what the table says. TPP_REGENERATE=1 writes it anew. */
static void the_schema_file_is_made_from_the_table(void **state)
{
    (void)state;
    char path[1024];
    snprintf(path, sizeof path, "%s/hwprofiles/schema.json", getenv("TPP_SOURCE_ROOT"));
    struct tpp_json_writer writer;
    struct tpp_text text;
    struct tpp_error err = {0};
    tpp_json_writer_init(&writer);
    tpp_text_init(&text);
    tpp_hardware_add_schema(&writer, writer.root);
    assert_int_equal(tpp_json_print(&writer, &text, &err), TPP_OK);
    if (getenv("TPP_REGENERATE")) {
        assert_int_equal(tpp_file_write(path, tpp_text_get(&text), text.length, 0644, &err), TPP_OK);
    }
    char *file = NULL;
    size_t length = 0;
    assert_int_equal(tpp_file_read(path, 1 << 20, &file, &length, &err), TPP_OK);
    assert_string_equal(file, tpp_text_get(&text));
    free(file);
    tpp_text_release(&text);
    tpp_json_writer_release(&writer);
}

static void the_example_of_the_manual_is_read(void **state)
{
    (void)state;
    char path[1024];
    snprintf(path, sizeof path, "%s/hwprofiles/README.md", getenv("TPP_SOURCE_ROOT"));
    char *manual = NULL;
    size_t length = 0;
    assert_int_equal(tpp_file_read(path, 1 << 20, &manual, &length, NULL), TPP_OK);
    char *begin = strstr(manual, "```json\n");
    assert_non_null(begin);
    begin += strlen("```json\n");
    char *end = strstr(begin, "```");
    assert_non_null(end);
    *end = '\0';
    struct tpp_hardware hardware;
    must_read(begin, &hardware);
    CHECK_NUMBER(hardware.network.ring_efficiency_fraction, 0.78, 0);
    assert_int_equal(hardware.origins[row("network.ring_efficiency_fraction")].provenance, TPP_PROVENANCE_MEASURED);
    CHECK_NUMBER(hardware.gpu.memory_bandwidth_bytes_per_second, 4.8e12, 0);
    CHECK_NUMBER(hardware.gpu.gemm_max_fraction, 0.66, 0);
    free(manual);
}

static void enumerations_have_the_names_of_the_file_formats(void **state)
{
    (void)state;
    assert_string_equal(tpp_provenance_name(TPP_PROVENANCE_MEASURED), "measured");
    assert_string_equal(tpp_provenance_name(TPP_PROVENANCE_USER), "user");
    assert_string_equal(tpp_attention_kernel_name(TPP_ATTENTION_FLASH3), "flash3");
    assert_string_equal(tpp_attention_kernel_name(TPP_ATTENTION_FUSED_SOFTMAX), "fused-softmax");
    assert_string_equal(tpp_collective_name(TPP_ALL_REDUCE), "all_reduce");
    assert_string_equal(tpp_collective_name(TPP_SEND_RECV), "send_recv");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_has_its_own_member_and_a_sound_range),
        cmocka_unit_test(rows_read_the_member_they_are_named_after),
        cmocka_unit_test(a_whole_profile_of_plain_numbers_is_read),
        cmocka_unit_test(a_profile_overrides_single_values_of_its_base),
        cmocka_unit_test(wrong_values_are_refused_with_what_where_and_how_to_fix_it),
        cmocka_unit_test(wrong_structure_is_refused_with_what_where_and_how_to_fix_it),
        cmocka_unit_test(numbers_that_are_not_finite_are_refused),
        cmocka_unit_test(truncated_profiles_are_refused),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(overrides_are_checked_and_marked),
        cmocka_unit_test(check_refuses_what_no_loader_would_make),
        cmocka_unit_test(the_schema_file_is_made_from_the_table),
        cmocka_unit_test(the_example_of_the_manual_is_read),
        cmocka_unit_test(enumerations_have_the_names_of_the_file_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
