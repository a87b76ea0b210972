/* Our own samples files: one JSON object a line (samples.md). */
#include "calibrate/fit/import.h"
#include "calibrate/fit/lines.h"
#include "calibrate/fit/nccl_log.h"
#include "costmodel/base/json_read.h"
#include "costmodel/base/statistics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SIZE 0x1p53
enum { MAX_REPEATS = 100000, SCHEMA_VERSION = 1 };

/* A number, or an array of repeats: their median and half the distance of their quartiles. */
static enum tpp_code read_repeats(struct tpp_json line, const char *name, double min, double max, double *median,
                                  struct tpp_sample *sample, struct tpp_error *err)
{
    struct tpp_json member, item;
    sample->num_repeats = 1;
    if (!tpp_json_member(line, name, &member) || !tpp_json_is_array(member)) {
        return tpp_json_need_number(line, name, min, max, median, err);
    }
    const size_t count = tpp_json_size(member);
    if (count == 0 || count > MAX_REPEATS) {
        return tpp_json_fail(member, err, TPP_E_RANGE, NULL, "\"%s\" has %zu repeats", name, count);
    }
    double *values = malloc(count * sizeof *values);
    if (!values) {
        return tpp_fail(err, TPP_E_MEMORY, member.file, NULL, "out of memory");
    }
    enum tpp_code code = TPP_OK;
    for (size_t i = 0; i < count && code == TPP_OK; i++) {
        tpp_json_at(member, i, &item, NULL);
        code = tpp_json_as_number(item, min, max, &values[i], err);
    }
    if (code == TPP_OK) {
        tpp_sort_numbers(values, count);
        *median = tpp_sorted_quantile(values, count, 0.5);
        const double spread =
            0.5 * (tpp_sorted_quantile(values, count, 0.75) - tpp_sorted_quantile(values, count, 0.25));
        sample->num_repeats = (uint32_t)count;
        sample->spread_fraction = *median > 0 ? spread / *median : 0;
    }
    free(values);
    return code;
}

static enum tpp_code read_seconds(struct tpp_json line, struct tpp_sample *sample, struct tpp_error *err)
{
    return read_repeats(line, "seconds", 1e-12, 1e18, &sample->seconds, sample, err);
}

/* A required size: a whole number of at least 1. */
static enum tpp_code need_size(struct tpp_json line, const char *name, double *out, struct tpp_error *err)
{
    uint64_t value = 0;
    const enum tpp_code code = tpp_json_need_u64(line, name, 1, (uint64_t)MAX_SIZE - 1, &value, err);
    *out = (double)value;
    return code;
}

struct size_member {
    const char *name;
    double *out;
};

static enum tpp_code need_sizes(struct tpp_json line, const struct size_member *members, size_t count,
                                struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    for (size_t i = 0; i < count && code == TPP_OK; i++) {
        code = need_size(line, members[i].name, members[i].out, err);
    }
    return code;
}

/* The index of the text in `names`, or an error that names the key. Absent: *index stays. */
static enum tpp_code get_choice(struct tpp_json line, const char *key, const char *const *names, int *index,
                                struct tpp_error *err)
{
    const char *text = NULL;
    const enum tpp_code code = tpp_json_get_string(line, key, &text, err);
    if (code != TPP_OK || !text) {
        return code;
    }
    for (int i = 0; names[i]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *index = i;
            return TPP_OK;
        }
    }
    return tpp_json_fail(line, err, TPP_E_RANGE, "see samples.md", "\"%s\" cannot be \"%.40s\"", key, text);
}

static enum tpp_code get_format(struct tpp_json line, enum tpp_sample_format *format, struct tpp_error *err)
{
    static const char *const names[] = {"bf16", "fp8", "fp8_block", "tf32", "fp32", "int8", "fp16", NULL};
    int index = TPP_FORMAT_BF16;
    const enum tpp_code code = get_choice(line, "dtype", names, &index, err);
    *format = index == TPP_FORMAT_COUNT ? TPP_FORMAT_BF16 : (enum tpp_sample_format)index;
    return code;
}

static enum tpp_code read_collective(struct tpp_json line, struct tpp_sample *sample, struct tpp_error *err)
{
    struct tpp_collective_sample *collective = &sample->collective;
    const char *operation = "", *dtype = "";
    uint64_t ranks = 0, nodes = 1, groups = 1;
    double wrong = -1;
    enum tpp_code code = tpp_json_need_string(line, "collective", &operation, err);
    code = code ? code : tpp_json_get_string(line, "dtype", &dtype, err);
    code = code ? code : tpp_json_need_u64(line, "bytes", 0, (uint64_t)MAX_SIZE - 1, &collective->bytes, err);
    code = code ? code : tpp_json_need_u64(line, "ranks", 1, 1000000, &ranks, err);
    code = code ? code : tpp_json_need_u64(line, "nodes", 1, ranks, &nodes, err);
    code = code ? code : tpp_json_get_u64(line, "concurrent_groups", 1, 1000000, &groups, err);
    code = code ? code : tpp_json_get_bool(line, "in_place", &collective->in_place, err);
    code = code ? code : tpp_json_get_number(line, "wrong", 0, 1e18, &wrong, err);
    code = code ? code : read_seconds(line, sample, err);
    if (code) {
        return code;
    }
    collective->operation = tpp_nccl_operation_in(operation);
    if (collective->operation == TPP_OPERATION_UNKNOWN) {
        return tpp_json_fail(line, err, TPP_E_RANGE, "see samples.md", "unknown collective \"%.40s\"", operation);
    }
    collective->num_ranks = (uint32_t)ranks;
    collective->num_nodes = (uint32_t)nodes;
    collective->num_wrong = wrong;
    collective->concurrent_groups = (uint32_t)groups;
    snprintf(collective->dtype, sizeof collective->dtype, "%s", dtype);
    collective->bus_bytes_per_second =
        tpp_sample_bus_factor(collective->operation, (uint32_t)ranks) * (double)collective->bytes / sample->seconds;
    return TPP_OK;
}

static enum tpp_code read_gemm(struct tpp_json line, struct tpp_sample *sample, struct tpp_error *err)
{
    static const char *const layouts[] = {"TN", "NN", "NT", NULL};
    static const char *const regimes[] = {"burst", "sustained", NULL};
    struct tpp_gemm_sample *gemm = &sample->gemm;
    const struct size_member sizes[] = {{"m", &gemm->m}, {"n", &gemm->n}, {"k", &gemm->k}};
    int layout = TPP_LAYOUT_TN, regime = 0;
    uint64_t products = 1;
    enum tpp_code code = need_sizes(line, sizes, 3, err);
    code = code ? code : tpp_json_get_u64(line, "products", 1, 1000000, &products, err);
    code = code ? code : get_choice(line, "layout", layouts, &layout, err);
    code = code ? code : get_format(line, &gemm->format, err);
    code = code ? code : tpp_json_get_bool(line, "accumulate", &gemm->accumulates, err);
    code = code ? code : tpp_json_get_bool(line, "grouped", &gemm->is_grouped, err);
    code = code ? code : get_choice(line, "regime", regimes, &regime, err);
    gemm->layout = (enum tpp_gemm_layout)layout;
    gemm->is_sustained = regime == 1;
    gemm->num_products = (double)products;
    return code ? code : read_seconds(line, sample, err);
}

static enum tpp_code read_attention(struct tpp_json line, struct tpp_sample *sample, struct tpp_error *err)
{
    static const char *const passes[] = {"forward", "backward", NULL};
    static const char *const kernels[] = {"flash1", "flash2", "flash3", "fused-softmax", "eager", NULL};
    struct tpp_attention_sample *attention = &sample->attention;
    const struct size_member sizes[] = {
        {"batch", &attention->batch},
        {"heads", &attention->num_heads},
        {"kv_heads", &attention->num_query_groups},
        {"query_length", &attention->query_length},
        {"key_length", &attention->key_length},
        {"qk_head_dim", &attention->qk_head_dim},
        {"v_head_dim", &attention->v_head_dim},
    };
    int pass = 0, kernel = TPP_ATTENTION_FLASH2;
    const char *implementation = "";
    enum tpp_code code = need_sizes(line, sizes, sizeof sizes / sizeof sizes[0], err);
    code = code ? code : get_choice(line, "pass", passes, &pass, err);
    code = code ? code : get_choice(line, "kernel", kernels, &kernel, err);
    code = code ? code : get_format(line, &attention->format, err);
    code = code ? code : tpp_json_get_bool(line, "causal", &attention->is_causal, err);
    code = code ? code : tpp_json_get_bool(line, "deterministic", &attention->is_deterministic, err);
    code = code ? code : tpp_json_get_number(line, "window", 0, MAX_SIZE, &attention->window, err);
    code = code ? code : tpp_json_get_string(line, "implementation", &implementation, err);
    attention->is_backward = pass == 1;
    attention->kernel = (enum tpp_attention_kernel)kernel;
    snprintf(attention->implementation, sizeof attention->implementation, "%s", implementation);
    return code ? code : read_seconds(line, sample, err);
}

static enum tpp_code read_memory_bound(struct tpp_json line, struct tpp_sample *sample, struct tpp_error *err)
{
    const char *operation = "";
    enum tpp_code code = tpp_json_need_string(line, "operation", &operation, err);
    code = code ? code : need_size(line, "bytes", &sample->memory.bytes, err);
    snprintf(sample->memory.operation, sizeof sample->memory.operation, "%s", operation);
    return code ? code : read_seconds(line, sample, err);
}

static enum tpp_code read_value(struct tpp_json line, struct tpp_sample *sample, struct tpp_error *err)
{
    const char *key = "";
    enum tpp_code code = tpp_json_need_string(line, "key", &key, err);
    if (code) {
        return code;
    }
    if (!tpp_hardware_field_index(key, &sample->value.field)) {
        return tpp_json_fail(line, err, TPP_E_RANGE, "the keys are those of a hardware profile",
                             "unknown hardware value \"%.60s\"", key);
    }
    const struct tpp_hardware_field *field = &tpp_hardware_fields(NULL)[sample->value.field];
    return read_repeats(line, "values", field->min, field->max, &sample->value.value, sample, err);
}

/* The device of a line, or of the run line before it. */
static enum tpp_code take_device(struct tpp_json line, char device[64], struct tpp_error *err)
{
    const char *name = NULL;
    const enum tpp_code code = tpp_json_get_string(line, "device", &name, err);
    if (code == TPP_OK && name) {
        snprintf(device, 64, "%.*s", (int)63, name);
    }
    return code;
}

/* What a run line says of the rows after it. A later format is refused as a whole: its rows may mean something else. */
static enum tpp_code read_run(struct tpp_json line, char run_device[64], struct tpp_error *err)
{
    uint64_t version = SCHEMA_VERSION;
    const enum tpp_code code = tpp_json_get_u64(line, "schema_version", 1, UINT32_MAX, &version, err);
    if (code == TPP_OK && version != SCHEMA_VERSION) {
        return tpp_json_fail(line, err, TPP_E_UNSUPPORTED, "use the tp-plan that came with the measuring programs",
                             "samples of schema_version %llu, this program reads %d", (unsigned long long)version,
                             SCHEMA_VERSION);
    }
    return code ? code : take_device(line, run_device, err);
}

/* Results that the program itself found wrong. */
static enum tpp_code read_wrong(struct tpp_json line, struct tpp_sample *sample, struct tpp_error *err)
{
    double num_wrong = 0;
    const enum tpp_code code = tpp_json_get_number(line, "wrong", 0, 1e18, &num_wrong, err);
    sample->is_wrong = num_wrong > 0;
    return code;
}

enum line_kind { RUN_LINE, ROW_LINE, OTHER_LINE };

/* One line: where the rows after it come from, a row, or something of a kind that no value follows from. */
static enum tpp_code read_line(struct tpp_json line, char run_device[64], struct tpp_sample *sample,
                               enum line_kind *line_kind, struct tpp_error *err)
{
    static const struct {
        const char *name;
        enum tpp_sample_kind kind;
        enum tpp_code (*read)(struct tpp_json line, struct tpp_sample *sample, struct tpp_error *err);
    } kinds[] = {
        {"collective", TPP_SAMPLE_COLLECTIVE, read_collective},
        {"gemm", TPP_SAMPLE_GEMM, read_gemm},
        {"attention", TPP_SAMPLE_ATTENTION, read_attention},
        {"memory_bound", TPP_SAMPLE_MEMORY_BOUND, read_memory_bound},
        {"value", TPP_SAMPLE_VALUE, read_value},
    };
    const char *kind = "";
    enum tpp_code code = tpp_json_need_string(line, "kind", &kind, err);
    *line_kind = OTHER_LINE;
    if (code == TPP_OK && strcmp(kind, "run") == 0) {
        *line_kind = RUN_LINE;
        return read_run(line, run_device, err);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && code == TPP_OK; i++) {
        if (strcmp(kind, kinds[i].name) == 0) {
            *line_kind = ROW_LINE;
            memcpy(sample->device, run_device, sizeof sample->device);
            sample->kind = kinds[i].kind;
            code = take_device(line, sample->device, err);
            code = code ? code : read_wrong(line, sample, err);
            return code ? code : kinds[i].read(line, sample, err);
        }
    }
    return code;
}

/* Parses one line and adds its row. *fault gets what is wrong with a broken line; returned is what ends the file: out of
 * memory, and a format that is not known. */
static enum tpp_code add_line(const char *start, size_t length, uint32_t number, char run_device[64],
                              struct tpp_samples *samples, struct tpp_error *fault, struct tpp_error *err)
{
    struct tpp_json_document *document;
    struct tpp_sample sample = {.line = number};
    char where[300];
    enum line_kind line_kind = OTHER_LINE;
    snprintf(where, sizeof where, "%s:%u", tpp_samples_file(samples)->source, number);
    enum tpp_code code = tpp_json_parse(start, length, where, &document, fault);
    if (code == TPP_OK) {
        code = read_line(tpp_json_root(document), run_device, &sample, &line_kind, fault);
        tpp_json_document_free(document);
    }
    if (code == TPP_E_MEMORY) {
        return tpp_fail(err, code, where, NULL, "out of memory");
    }
    if (code == TPP_E_UNSUPPORTED) {
        if (err) {
            *err = *fault;
        }
        return code;
    }
    if (code != TPP_OK) {
        if (tpp_samples_file(samples)->num_skipped_lines++ == 0) {
            tpp_samples_note(samples, "line %u: %.150s", number, fault->message);
        }
        return TPP_OK;
    }
    if (line_kind == OTHER_LINE) {
        tpp_samples_note(samples, "rows of other kinds than those of samples.md are passed over");
    }
    return line_kind == ROW_LINE ? tpp_samples_add(samples, &sample, err) : TPP_OK;
}

enum tpp_code tpp_import_sample_lines(const char *text, size_t length, const char *source, struct tpp_samples *samples,
                                      struct tpp_error *err)
{
    struct tpp_lines lines = {.text = text, .length = length};
    struct tpp_error fault = {0};
    char device[64] = "";
    const char *start;
    size_t line_length;
    enum tpp_code code = tpp_samples_begin_file(samples, source, "samples", err);
    while (code == TPP_OK && tpp_lines_next(&lines, &start, &line_length)) {
        size_t at = 0;
        while (at < line_length && (start[at] == ' ' || start[at] == '\t' || start[at] == '\r')) {
            at++;
        }
        if (at < line_length && start[at] != '#') {
            code = add_line(start, line_length, lines.number, device, samples, &fault, err);
        }
    }
    if (code == TPP_OK && tpp_samples_file(samples)->num_rows == 0) {
        return tpp_fail(err, TPP_E_SYNTAX, fault.where[0] ? fault.where : source, "the format is that of samples.md",
                        "no usable row in this samples file: %.150s", fault.message[0] ? fault.message : "it is empty");
    }
    return code;
}
