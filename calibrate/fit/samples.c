#include "calibrate/fit/samples.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tpp_samples_init(struct tpp_samples *samples)
{
    memset(samples, 0, sizeof *samples);
}

void tpp_samples_release(struct tpp_samples *samples)
{
    free(samples->items);
    free(samples->files);
    tpp_samples_init(samples);
}

/* Makes room for one more item of `size` bytes; NULL when out of memory. */
static void *grow(void *items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity) {
        return items;
    }
    const size_t wanted = *capacity ? 2 * *capacity : 64;
    void *grown = wanted > SIZE_MAX / size ? NULL : realloc(items, wanted * size);
    if (grown) {
        *capacity = wanted;
    }
    return grown;
}

enum tpp_code tpp_samples_begin_file(struct tpp_samples *samples, const char *source, const char *format,
                                     struct tpp_error *err)
{
    void *grown = samples->num_files < UINT32_MAX
                      ? grow(samples->files, samples->num_files, &samples->file_capacity, sizeof *samples->files)
                      : NULL;
    if (!grown) {
        return tpp_fail(err, TPP_E_MEMORY, source, NULL, "out of memory");
    }
    samples->files = grown;
    struct tpp_sample_file *file = &samples->files[samples->num_files++];
    memset(file, 0, sizeof *file);
    snprintf(file->source, sizeof file->source, "%s", source);
    file->format = format;
    return TPP_OK;
}

struct tpp_sample_file *tpp_samples_file(struct tpp_samples *samples)
{
    return &samples->files[samples->num_files - 1];
}

enum tpp_code tpp_samples_add(struct tpp_samples *samples, const struct tpp_sample *sample, struct tpp_error *err)
{
    void *grown = grow(samples->items, samples->count, &samples->capacity, sizeof *samples->items);
    if (!grown) {
        return tpp_fail(err, TPP_E_MEMORY, tpp_samples_file(samples)->source, NULL, "out of memory");
    }
    samples->items = grown;
    samples->items[samples->count] = *sample;
    samples->items[samples->count++].file = (uint32_t)(samples->num_files - 1);
    tpp_samples_file(samples)->num_rows++;
    return TPP_OK;
}

void tpp_samples_note(struct tpp_samples *samples, const char *format, ...)
{
    struct tpp_sample_file *file = tpp_samples_file(samples);
    char note[sizeof file->notes[0]];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(note, sizeof note, format, arguments);
    va_end(arguments);
    for (uint32_t i = 0; i < file->num_notes; i++) {
        if (strcmp(file->notes[i], note) == 0) {
            return;
        }
    }
    if (file->num_notes < TPP_SAMPLE_MAX_NOTES) {
        memcpy(file->notes[file->num_notes++], note, sizeof note);
    }
}

const char *tpp_sample_operation_name(int operation)
{
    static const char *const names[] = {"broadcast", "reduce", "gather", "scatter", "unknown"};
    if (operation < TPP_COLLECTIVE_COUNT) {
        return tpp_collective_name((enum tpp_collective)operation);
    }
    return names[operation - TPP_COLLECTIVE_COUNT];
}

double tpp_sample_bus_factor(int operation, uint32_t num_ranks)
{
    const double n = num_ranks;
    if (num_ranks < 2) {
        return 0;
    }
    switch (operation) {
    case TPP_ALL_REDUCE:
        return 2 * (n - 1) / n;
    case TPP_SEND_RECV:
    case TPP_OPERATION_BROADCAST:
    case TPP_OPERATION_REDUCE:
        return 1;
    case TPP_OPERATION_UNKNOWN:
        return 0;
    default:
        return (n - 1) / n;
    }
}

double tpp_sample_flops(const struct tpp_sample *sample)
{
    const struct tpp_gemm_sample *gemm = &sample->gemm;
    const struct tpp_attention_sample *attention = &sample->attention;
    if (sample->kind == TPP_SAMPLE_GEMM) {
        return 2 * gemm->m * gemm->n * gemm->k * gemm->num_products;
    }
    if (sample->kind != TPP_SAMPLE_ATTENTION) {
        return 0;
    }
    return 2 * attention->batch * attention->num_heads * attention->query_length * attention->key_length *
           (attention->qk_head_dim + attention->v_head_dim) * (attention->is_causal ? 0.5 : 1.0) *
           (attention->is_backward ? 2.5 : 1.0);
}

const char *tpp_sample_format_name(enum tpp_sample_format format)
{
    static const char *const names[TPP_FORMAT_COUNT] = {"bf16", "fp8", "fp8_block", "tf32", "fp32", "int8"};
    return names[format];
}

const char *tpp_sample_kind_name(enum tpp_sample_kind kind)
{
    static const char *const names[TPP_SAMPLE_KIND_COUNT] = {"collective",   "gemm",      "attention",
                                                             "memory_bound", "moe_layer", "value"};
    return names[kind];
}
