/* What `calibrate import --json` prints of the rows. */
#include "calibrate/fit/samples.h"

#include <string.h>

static void add_or_null(struct tpp_json_writer *writer, struct cJSON *row, const char *name, double value)
{
    if (value > 0) {
        tpp_json_add_number(writer, row, name, value);
    } else {
        tpp_json_add_null(writer, row, name);
    }
}

static void add_text_or_null(struct tpp_json_writer *writer, struct cJSON *row, const char *name, const char *text)
{
    tpp_json_add_string(writer, row, name, text[0] ? text : NULL);
}

static void add_collective(const struct tpp_sample *sample, struct tpp_json_writer *writer, struct cJSON *row)
{
    const struct tpp_collective_sample *collective = &sample->collective;
    tpp_json_add_string(writer, row, "collective", tpp_sample_operation_name(collective->operation));
    if (sample->seconds > 0) {
        tpp_json_add_u64(writer, row, "bytes", collective->bytes);
    } else {
        tpp_json_add_null(writer, row, "bytes");
    }
    add_or_null(writer, row, "ranks", collective->num_ranks);
    add_or_null(writer, row, "nodes", collective->num_nodes);
    add_text_or_null(writer, row, "dtype", collective->dtype);
    tpp_json_add_bool(writer, row, "in_place", collective->in_place);
    add_or_null(writer, row, "seconds", sample->seconds);
    if (sample->seconds > 0) {
        tpp_json_add_number(writer, row, "algorithm_bandwidth_bytes_per_second",
                            (double)collective->bytes / sample->seconds);
    } else {
        tpp_json_add_null(writer, row, "algorithm_bandwidth_bytes_per_second");
    }
    tpp_json_add_number(writer, row, "bus_bandwidth_bytes_per_second", collective->bus_bytes_per_second);
    if (collective->concurrent_groups > 1) {
        tpp_json_add_u64(writer, row, "concurrent_groups", collective->concurrent_groups);
    }
    if (collective->num_wrong < 0) {
        tpp_json_add_null(writer, row, "wrong");
    } else {
        tpp_json_add_number(writer, row, "wrong", collective->num_wrong);
    }
}

static void add_gemm(const struct tpp_sample *sample, struct tpp_json_writer *writer, struct cJSON *row)
{
    static const char *const layouts[] = {"TN", "NN", "NT"};
    const struct tpp_gemm_sample *gemm = &sample->gemm;
    tpp_json_add_number(writer, row, "m", gemm->m);
    tpp_json_add_number(writer, row, "n", gemm->n);
    tpp_json_add_number(writer, row, "k", gemm->k);
    tpp_json_add_number(writer, row, "products", gemm->num_products);
    tpp_json_add_string(writer, row, "layout", layouts[gemm->layout]);
    tpp_json_add_string(writer, row, "dtype", tpp_sample_format_name(gemm->format));
    tpp_json_add_bool(writer, row, "accumulate", gemm->accumulates);
    tpp_json_add_bool(writer, row, "grouped", gemm->is_grouped);
    tpp_json_add_number(writer, row, "seconds", sample->seconds);
    tpp_json_add_number(writer, row, "flops_per_second", tpp_sample_flops(sample) / sample->seconds);
}

static void add_attention(const struct tpp_sample *sample, struct tpp_json_writer *writer, struct cJSON *row)
{
    const struct tpp_attention_sample *attention = &sample->attention;
    tpp_json_add_string(writer, row, "kernel", tpp_attention_kernel_name(attention->kernel));
    add_text_or_null(writer, row, "implementation", attention->implementation);
    tpp_json_add_string(writer, row, "pass", attention->is_backward ? "backward" : "forward");
    tpp_json_add_number(writer, row, "batch", attention->batch);
    add_or_null(writer, row, "heads", attention->num_heads);
    add_or_null(writer, row, "kv_heads", attention->num_query_groups);
    tpp_json_add_number(writer, row, "query_length", attention->query_length);
    tpp_json_add_number(writer, row, "key_length", attention->key_length);
    tpp_json_add_number(writer, row, "qk_head_dim", attention->qk_head_dim);
    tpp_json_add_number(writer, row, "v_head_dim", attention->v_head_dim);
    tpp_json_add_bool(writer, row, "causal", attention->is_causal);
    add_or_null(writer, row, "window", attention->window);
    tpp_json_add_bool(writer, row, "deterministic", attention->is_deterministic);
    tpp_json_add_string(writer, row, "dtype", tpp_sample_format_name(attention->format));
    add_or_null(writer, row, "seconds", sample->seconds);
    if (attention->flops_per_second > 0) {
        tpp_json_add_number(writer, row, "flops_per_second", attention->flops_per_second);
    }
}

static void add_memory_bound(const struct tpp_sample *sample, struct tpp_json_writer *writer, struct cJSON *row)
{
    const struct tpp_memory_sample *memory = &sample->memory;
    tpp_json_add_string(writer, row, "operation", memory->operation);
    add_or_null(writer, row, "bytes", memory->bytes);
    add_or_null(writer, row, "seconds", sample->seconds);
    tpp_json_add_number(writer, row, "bytes_per_second",
                        sample->seconds > 0 ? memory->bytes / sample->seconds : memory->bytes_per_second);
}

static void add_moe(const struct tpp_sample *sample, struct tpp_json_writer *writer, struct cJSON *row)
{
    const struct tpp_moe_sample *moe = &sample->moe;
    tpp_json_add_number(writer, row, "tokens", moe->num_tokens);
    tpp_json_add_number(writer, row, "hidden_size", moe->hidden_size);
    tpp_json_add_number(writer, row, "ffn_hidden_size", moe->ffn_hidden_size);
    tpp_json_add_number(writer, row, "experts_per_token", moe->experts_per_token);
    tpp_json_add_number(writer, row, "experts", moe->num_experts);
    tpp_json_add_number(writer, row, "tensor_parallel", moe->tensor_parallel);
    tpp_json_add_number(writer, row, "expert_parallel", moe->expert_parallel);
    add_text_or_null(writer, row, "distribution", moe->distribution);
    tpp_json_add_number(writer, row, "seconds", sample->seconds);
}

static void add_row(const struct tpp_samples *samples, const struct tpp_sample *sample, struct tpp_json_writer *writer,
                    struct cJSON *rows)
{
    struct cJSON *row = tpp_json_add_object(writer, rows, NULL);
    tpp_json_add_string(writer, row, "kind", tpp_sample_kind_name(sample->kind));
    switch (sample->kind) {
    case TPP_SAMPLE_COLLECTIVE:
        add_collective(sample, writer, row);
        break;
    case TPP_SAMPLE_GEMM:
        add_gemm(sample, writer, row);
        break;
    case TPP_SAMPLE_ATTENTION:
        add_attention(sample, writer, row);
        break;
    case TPP_SAMPLE_MEMORY_BOUND:
        add_memory_bound(sample, writer, row);
        break;
    case TPP_SAMPLE_MOE_LAYER:
        add_moe(sample, writer, row);
        break;
    default:
        tpp_json_add_string(writer, row, "key", tpp_hardware_fields(NULL)[sample->value.field].key);
        tpp_json_add_number(writer, row, "value", sample->value.value);
        break;
    }
    if (sample->is_wrong) {
        tpp_json_add_bool(writer, row, "wrong_results", true);
    }
    if (sample->num_repeats > 1) {
        tpp_json_add_u64(writer, row, "repeats", sample->num_repeats);
        tpp_json_add_number(writer, row, "spread_fraction", sample->spread_fraction);
    }
    add_text_or_null(writer, row, "device", sample->device);
    tpp_json_add_u64(writer, row, "line", sample->line);
    if (samples->num_files > 1) {
        tpp_json_add_string(writer, row, "source", samples->files[sample->file].source);
    }
}

/* The device of all rows of file `index` (of all files: SIZE_MAX); NULL when there are several or none. */
static const char *common_device(const struct tpp_samples *samples, size_t index)
{
    const char *device = NULL;
    for (size_t i = 0; i < samples->count; i++) {
        const struct tpp_sample *sample = &samples->items[i];
        if (index != SIZE_MAX && sample->file != index) {
            continue;
        }
        if (device && strcmp(device, sample->device) != 0) {
            return NULL;
        }
        device = sample->device;
    }
    return device && device[0] ? device : NULL;
}

static void add_file(const struct tpp_samples *samples, size_t index, struct tpp_json_writer *writer,
                     struct cJSON *files)
{
    const struct tpp_sample_file *file = &samples->files[index];
    struct cJSON *object = tpp_json_add_object(writer, files, NULL);
    tpp_json_add_string(writer, object, "source", file->source);
    tpp_json_add_string(writer, object, "format", file->format);
    tpp_json_add_string(writer, object, "device", common_device(samples, index));
    tpp_json_add_u64(writer, object, "rows", file->num_rows);
    tpp_json_add_u64(writer, object, "skipped_lines", file->num_skipped_lines);
    struct cJSON *notes = tpp_json_add_array(writer, object, "notes");
    for (uint32_t i = 0; i < file->num_notes; i++) {
        tpp_json_add_string(writer, notes, NULL, file->notes[i]);
    }
}

void tpp_samples_add_json(const struct tpp_samples *samples, struct tpp_json_writer *writer, struct cJSON *parent)
{
    uint64_t num_skipped = 0;
    struct cJSON *rows = tpp_json_add_array(writer, parent, "rows");
    for (size_t i = 0; i < samples->count; i++) {
        add_row(samples, &samples->items[i], writer, rows);
    }
    for (size_t i = 0; i < samples->num_files; i++) {
        num_skipped += samples->files[i].num_skipped_lines;
    }
    tpp_json_add_u64(writer, parent, "skipped_lines", num_skipped);
    tpp_json_add_string(writer, parent, "source", samples->num_files == 1 ? samples->files[0].source : NULL);
    tpp_json_add_string(writer, parent, "device", common_device(samples, SIZE_MAX));
    struct cJSON *files = tpp_json_add_array(writer, parent, "files");
    for (size_t i = 0; i < samples->num_files; i++) {
        add_file(samples, i, writer, files);
    }
}
