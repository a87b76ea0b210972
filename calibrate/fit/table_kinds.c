/* The tables of published measurements that are understood, by their columns. The first that matches is taken. */
#include "calibrate/fit/csv.h"
#include "calibrate/fit/nccl_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double element_bytes = 2; /* of the tables of memory-bound kernels: fp16 */

static enum tpp_csv_row read_collective(const struct tpp_csv *table, struct tpp_sample *sample)
{
    double ranks, per_node, bytes;
    const int operation = tpp_nccl_operation_in(tpp_csv_cell(table, "op"));
    if (operation == TPP_OPERATION_UNKNOWN || !tpp_csv_size(table, "ngpus", &ranks) ||
        !tpp_csv_size(table, "bytes", &bytes) || !tpp_csv_seconds(table, &sample->seconds) || ranks > UINT32_MAX) {
        return TPP_CSV_BROKEN;
    }
    per_node = ranks; /* tables without the column are of one node */
    if (tpp_csv_has(table, "gpus_per_node") && !tpp_csv_size(table, "gpus_per_node", &per_node)) {
        return TPP_CSV_BROKEN;
    }
    sample->kind = TPP_SAMPLE_COLLECTIVE;
    sample->collective = (struct tpp_collective_sample){
        .operation = operation,
        .bytes = (uint64_t)bytes,
        .num_ranks = (uint32_t)ranks,
        .num_nodes = per_node < ranks ? (uint32_t)((ranks + per_node - 1) / per_node) : 1,
        .dtype = "half",
        .num_wrong = -1,
        .bus_bytes_per_second = tpp_sample_bus_factor(operation, (uint32_t)ranks) * bytes / sample->seconds};
    return TPP_CSV_ROW;
}

static enum tpp_sample_format comment_format(const struct tpp_csv *table)
{
    if (tpp_csv_says(table, "fp8_block") || tpp_csv_says(table, "fine-grained scaling")) {
        return TPP_FORMAT_FP8_BLOCK;
    }
    if (tpp_csv_says(table, "dtype: fp8")) {
        return TPP_FORMAT_FP8;
    }
    return tpp_csv_says(table, "a8w8") || tpp_csv_says(table, "int8") ? TPP_FORMAT_INT8 : TPP_FORMAT_BF16;
}

static bool word_format(const char *word, enum tpp_sample_format *format)
{
    static const struct {
        const char *name;
        enum tpp_sample_format format;
    } names[] = {{"bf16", TPP_FORMAT_BF16},       {"fp16", TPP_FORMAT_BF16}, {"fp8", TPP_FORMAT_FP8},
                 {"mxfp8", TPP_FORMAT_FP8_BLOCK}, {"tf32", TPP_FORMAT_TF32}, {"fp32", TPP_FORMAT_FP32}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(word, names[i].name) == 0) {
            *format = names[i].format;
            return true;
        }
    }
    return false;
}

/* m, n, k, and the time, or the rate where the time was not published. */
static enum tpp_csv_row read_product(const struct tpp_csv *table, const char *m_name, struct tpp_sample *sample)
{
    struct tpp_gemm_sample *gemm = &sample->gemm;
    double teraflops;
    sample->kind = TPP_SAMPLE_GEMM;
    gemm->num_products = 1;
    if (!tpp_csv_size(table, m_name, &gemm->m) || !tpp_csv_size(table, "n", &gemm->n) ||
        !tpp_csv_size(table, "k", &gemm->k)) {
        return TPP_CSV_BROKEN;
    }
    if (tpp_csv_has(table, "groups") && !tpp_csv_size(table, "groups", &gemm->num_products)) {
        return TPP_CSV_BROKEN;
    }
    if (tpp_csv_has(table, "time_us")) {
        return tpp_csv_seconds(table, &sample->seconds) ? TPP_CSV_ROW : TPP_CSV_BROKEN;
    }
    if (!tpp_csv_number(table, "tflops", &teraflops) || !(teraflops > 0)) {
        return TPP_CSV_BROKEN;
    }
    sample->seconds = 2 * gemm->m * gemm->n * gemm->k * gemm->num_products / (teraflops * 1e12);
    return TPP_CSV_ROW;
}

static enum tpp_csv_row read_gemm(const struct tpp_csv *table, struct tpp_sample *sample)
{
    sample->gemm.format = comment_format(table);
    return read_product(table, "m", sample);
}

static enum tpp_csv_row read_layer_gemm(const struct tpp_csv *table, struct tpp_sample *sample)
{
    return read_product(table, "m_tokens", sample);
}

/* Which product of the three a word stands for, in the order of enum tpp_gemm_layout. */
static bool read_layout(const char *word, const char *const *words, struct tpp_sample *sample)
{
    for (int i = 0; i < 3; i++) {
        if (strcmp(word, words[i]) == 0) {
            sample->gemm.layout = (enum tpp_gemm_layout)i;
            return true;
        }
    }
    return false;
}

static enum tpp_csv_row read_training_gemm(const struct tpp_csv *table, struct tpp_sample *sample)
{
    static const char *const layouts[] = {"TN", "NN", "NT"};
    double batch;
    const enum tpp_csv_row verdict = read_product(table, "m", sample);
    if (verdict != TPP_CSV_ROW || !tpp_csv_size(table, "batch", &batch) ||
        !read_layout(tpp_csv_cell(table, "layout"), layouts, sample)) {
        return TPP_CSV_BROKEN;
    }
    sample->gemm.num_products = batch;
    sample->gemm.accumulates = strcmp(tpp_csv_cell(table, "accumulate"), "True") == 0;
    return verdict;
}

static enum tpp_csv_row read_grouped_gemm(const struct tpp_csv *table, struct tpp_sample *sample)
{
    static const char *const stages[] = {"fwd", "bwd_grad_act", "bwd_grad_w"};
    sample->gemm.is_grouped = true;
    return read_layout(tpp_csv_cell(table, "stage"), stages, sample) ? read_product(table, "m_per_group", sample)
                                                                     : TPP_CSV_BROKEN;
}

static enum tpp_csv_row read_block_gemm(const struct tpp_csv *table, struct tpp_sample *sample)
{
    sample->gemm.format = TPP_FORMAT_FP8_BLOCK;
    sample->gemm.is_grouped = strcmp(tpp_csv_cell(table, "kind"), "dense") != 0;
    return read_product(table, "m", sample);
}

static void take_gpu_cell(const struct tpp_csv *table, struct tpp_sample *sample)
{
    snprintf(sample->device, sizeof sample->device, "%s", tpp_csv_cell(table, "gpu"));
}

static enum tpp_csv_row read_square_gemm(const struct tpp_csv *table, struct tpp_sample *sample)
{
    double n;
    take_gpu_cell(table, sample);
    if (strcmp(tpp_csv_cell(table, "n"), "best") == 0) {
        return TPP_CSV_UNUSED;
    }
    if (!tpp_csv_size(table, "n", &n) || !tpp_csv_seconds(table, &sample->seconds) ||
        !word_format(tpp_csv_cell(table, "dtype"), &sample->gemm.format)) {
        return TPP_CSV_BROKEN;
    }
    sample->kind = TPP_SAMPLE_GEMM;
    sample->gemm.m = sample->gemm.n = sample->gemm.k = n;
    sample->gemm.num_products = 1;
    return TPP_CSV_ROW;
}

/* "1024x10240x5120". */
static enum tpp_csv_row read_best_gemm(const struct tpp_csv *table, struct tpp_sample *sample)
{
    struct tpp_gemm_sample *gemm = &sample->gemm;
    double teraflops;
    take_gpu_cell(table, sample);
    char *end = NULL;
    gemm->m = strtod(tpp_csv_cell(table, "shape"), &end);
    gemm->n = *end == 'x' ? strtod(end + 1, &end) : 0;
    gemm->k = *end == 'x' ? strtod(end + 1, &end) : 0;
    if (!(gemm->m >= 1 && gemm->n >= 1 && gemm->k >= 1 && gemm->m * gemm->n * gemm->k <= 1e18) || *end) {
        return TPP_CSV_UNUSED;
    }
    if (!tpp_csv_number(table, "best_tflops", &teraflops) || !(teraflops > 0) ||
        !word_format(tpp_csv_cell(table, "dtype"), &gemm->format)) {
        return TPP_CSV_BROKEN;
    }
    sample->kind = TPP_SAMPLE_GEMM;
    gemm->num_products = 1;
    sample->seconds = 2 * gemm->m * gemm->n * gemm->k / (teraflops * 1e12);
    return TPP_CSV_ROW;
}

/* Shape of an attention call with one sequence length; heads that were not published stay 0. */
static bool read_attention_shape(const struct tpp_csv *table, const char *heads, const char *qk_dim, const char *v_dim,
                                 struct tpp_sample *sample)
{
    struct tpp_attention_sample *attention = &sample->attention;
    sample->kind = TPP_SAMPLE_ATTENTION;
    attention->is_causal = true;
    if (!tpp_csv_size(table, "batch", &attention->batch) || !tpp_csv_size(table, "seqlen", &attention->query_length) ||
        !tpp_csv_size(table, qk_dim, &attention->qk_head_dim) || !tpp_csv_size(table, v_dim, &attention->v_head_dim)) {
        return false;
    }
    attention->key_length = attention->query_length;
    return !heads || (tpp_csv_size(table, heads, &attention->num_heads) &&
                      tpp_csv_size(table, "kv_heads", &attention->num_query_groups));
}

/* FlashAttention-3 on Hopper; cuDNN, TensorRT-LLM and FlashAttention-4 kernels are of its generation on Hopper and
 * later, of the second on older GPUs (hardware.h). */
static enum tpp_attention_kernel kernel_of(const char *words, const char *device)
{
    const bool is_old = strstr(device, "A100") || strstr(device, "L40") || strstr(device, "4090") ||
                        strstr(device, "A5000") || strstr(device, "A40");
    if (strstr(words, "FlashAttention-2") || strstr(words, "FA2") || is_old) {
        return TPP_ATTENTION_FLASH2;
    }
    return TPP_ATTENTION_FLASH3;
}

static enum tpp_csv_row read_attention_forward(const struct tpp_csv *table, struct tpp_sample *sample)
{
    if (!read_attention_shape(table, "heads", "head_dim", "head_dim", sample) ||
        !tpp_csv_seconds(table, &sample->seconds)) {
        return TPP_CSV_BROKEN;
    }
    sample->attention.kernel = kernel_of(table->comments, sample->device);
    return TPP_CSV_ROW;
}

static enum tpp_csv_row read_attention_training(const struct tpp_csv *table, struct tpp_sample *sample)
{
    struct tpp_attention_sample *attention = &sample->attention;
    const char *backend = tpp_csv_cell(table, "backend");
    take_gpu_cell(table, sample);
    if (!read_attention_shape(table, "q_heads", "head_dim_qk", "head_dim_vo", sample) ||
        !tpp_csv_seconds(table, &sample->seconds) || !word_format(tpp_csv_cell(table, "dtype"), &attention->format)) {
        return TPP_CSV_BROKEN;
    }
    tpp_csv_number(table, "window", &attention->window);
    attention->is_causal = strcmp(tpp_csv_cell(table, "mask"), "causal") == 0;
    snprintf(attention->implementation, sizeof attention->implementation, "%s", backend);
    attention->is_backward = strcmp(tpp_csv_cell(table, "pass"), "bwd") == 0;
    attention->is_deterministic = strcmp(tpp_csv_cell(table, "deterministic"), "yes") == 0;
    attention->kernel = kernel_of(strcmp(backend, "flash_attention_2") == 0 ? "FA2" : backend, sample->device);
    return TPP_CSV_ROW;
}

/* Efficiencies that count the full matrix: batch, heads and lengths with 2 (d_qk + d_v) each, 2.5 times that backward.
 */
static enum tpp_csv_row read_attention_efficiency(const struct tpp_csv *table, struct tpp_sample *sample)
{
    struct tpp_attention_sample *attention = &sample->attention;
    double teraflops;
    if (!read_attention_shape(table, "heads", "qk_dim", "v_dim", sample) ||
        !tpp_csv_number(table, "tflops_fullmask", &teraflops) || !(teraflops > 0)) {
        return TPP_CSV_BROKEN;
    }
    attention->is_backward = strcmp(tpp_csv_cell(table, "pass"), "sdp_bwd") == 0;
    attention->kernel = kernel_of("", sample->device);
    sample->seconds = 2 * attention->batch * attention->num_heads * attention->query_length * attention->key_length *
                      (attention->qk_head_dim + attention->v_head_dim) * (attention->is_backward ? 2.5 : 1) /
                      (teraflops * 1e12);
    return TPP_CSV_ROW;
}

/* A rate of one pass, without the number of heads. Rows may have both passes, one of them, or the sum of both only. */
static enum tpp_csv_row read_attention_rate(const struct tpp_csv *table, bool is_backward, struct tpp_sample *sample)
{
    struct tpp_attention_sample *attention = &sample->attention;
    const char *rate = is_backward ? "bwd_tflops" : "fwd_tflops";
    double teraflops;
    take_gpu_cell(table, sample);
    if (!tpp_csv_size(table, "seqlen", &attention->query_length) ||
        !tpp_csv_size(table, "head_dim", &attention->qk_head_dim) ||
        !word_format(tpp_csv_cell(table, "dtype"), &attention->format)) {
        return TPP_CSV_BROKEN;
    }
    sample->kind = TPP_SAMPLE_ATTENTION;
    attention->key_length = attention->query_length;
    attention->v_head_dim = attention->qk_head_dim;
    attention->batch = 1;
    tpp_csv_size(table, "batch", &attention->batch);
    attention->is_causal = strcmp(tpp_csv_cell(table, "causal"), "1") == 0;
    attention->is_backward = is_backward;
    attention->kernel = kernel_of(tpp_csv_cell(table, "kernel"), sample->device);
    snprintf(attention->implementation, sizeof attention->implementation, "%s", tpp_csv_cell(table, "kernel"));
    if (!*tpp_csv_cell(table, rate)) {
        return TPP_CSV_UNUSED;
    }
    if (!tpp_csv_number(table, rate, &teraflops) || !(teraflops > 0)) {
        return TPP_CSV_BROKEN;
    }
    attention->flops_per_second = teraflops * 1e12;
    return TPP_CSV_ROW;
}

static enum tpp_csv_row read_attention_forward_rate(const struct tpp_csv *table, struct tpp_sample *sample)
{
    return read_attention_rate(table, false, sample);
}

static enum tpp_csv_row read_attention_backward_rate(const struct tpp_csv *table, struct tpp_sample *sample)
{
    return read_attention_rate(table, true, sample);
}

/* "EP 8x2 (2 nodes)" or "EP 8 (1 node)": ranks a node, nodes. */
static bool read_topology(const char *text, struct tpp_collective_sample *collective)
{
    char *end;
    if (strncmp(text, "EP ", 3) != 0) {
        return false;
    }
    const unsigned long per_node = strtoul(text + 3, &end, 10);
    const unsigned long nodes = *end == 'x' ? strtoul(end + 1, &end, 10) : 1;
    if (per_node < 1 || per_node > 1024 || nodes < 1 || nodes > 1024 || (*end != ' ' && *end != '\0')) {
        return false;
    }
    collective->num_ranks = (uint32_t)(per_node * nodes);
    collective->num_nodes = (uint32_t)nodes;
    return true;
}

/* What an exchange of experts' tokens reaches on its bottleneck, as its authors define it: a rate without size and time. */
static enum tpp_csv_row read_exchange(const struct tpp_csv *table, const char *rate, const char *dtype,
                                      struct tpp_sample *sample)
{
    struct tpp_collective_sample *collective = &sample->collective;
    double gigabytes;
    if (!read_topology(tpp_csv_cell(table, "topology"), collective) || !tpp_csv_number(table, rate, &gigabytes) ||
        !(gigabytes > 0)) {
        return TPP_CSV_BROKEN;
    }
    sample->kind = TPP_SAMPLE_COLLECTIVE;
    snprintf(sample->device, sizeof sample->device, "%s", tpp_csv_cell(table, "arch"));
    collective->operation = TPP_ALL_TO_ALL;
    collective->num_wrong = -1;
    collective->bus_bytes_per_second = gigabytes * 1e9;
    snprintf(collective->dtype, sizeof collective->dtype, "%s", dtype);
    return TPP_CSV_ROW;
}

static enum tpp_csv_row read_dispatch(const struct tpp_csv *table, struct tpp_sample *sample)
{
    return read_exchange(table, "dispatch_gbps", "fp8", sample);
}

static enum tpp_csv_row read_combine(const struct tpp_csv *table, struct tpp_sample *sample)
{
    return read_exchange(table, "combine_gbps", "bfloat16", sample);
}

/* Least traffic in matrices of tokens x width: norms read and write one, the others read two and write one. */
static enum tpp_csv_row read_elementwise(const struct tpp_csv *table, struct tpp_sample *sample)
{
    double tokens, width;
    const char *operation = tpp_csv_cell(table, "op");
    if (!tpp_csv_size(table, "tokens", &tokens) || !tpp_csv_size(table, "width", &width) ||
        !tpp_csv_seconds(table, &sample->seconds)) {
        return TPP_CSV_BROKEN;
    }
    sample->kind = TPP_SAMPLE_MEMORY_BOUND;
    snprintf(sample->memory.operation, sizeof sample->memory.operation, "%s", operation);
    sample->memory.bytes = (strstr(operation, "norm") ? 2 : 3) * tokens * width * element_bytes;
    return TPP_CSV_ROW;
}

/* Copies inside the device only: "copy" counts one way, the memory is read and written. */
static enum tpp_csv_row read_memory_rate(const struct tpp_csv *table, struct tpp_sample *sample)
{
    const char *what = tpp_csv_cell(table, "what");
    double gigabytes;
    take_gpu_cell(table, sample);
    if (!tpp_csv_number(table, "gbps", &gigabytes) || !(gigabytes > 0)) {
        return TPP_CSV_BROKEN;
    }
    if (strstr(what, "peer") || strstr(what, "PCIe") || strstr(what, "pinned") || strstr(what, "host") ||
        strstr(what, "NVLink") || strcmp(sample->device, "same log") == 0) {
        return TPP_CSV_UNUSED;
    }
    sample->kind = TPP_SAMPLE_MEMORY_BOUND;
    snprintf(sample->memory.operation, sizeof sample->memory.operation, "%s", what);
    sample->memory.bytes_per_second = gigabytes * 1e9 * (strcmp(tpp_csv_cell(table, "traffic"), "copy") == 0 ? 2 : 1);
    return TPP_CSV_ROW;
}

static enum tpp_csv_row read_moe(const struct tpp_csv *table, struct tpp_sample *sample)
{
    struct tpp_moe_sample *moe = &sample->moe;
    if (!tpp_csv_size(table, "num_tokens", &moe->num_tokens) || !tpp_csv_size(table, "hidden", &moe->hidden_size) ||
        !tpp_csv_size(table, "inter", &moe->ffn_hidden_size) || !tpp_csv_size(table, "topk", &moe->experts_per_token) ||
        !tpp_csv_size(table, "experts", &moe->num_experts) || !tpp_csv_size(table, "moe_tp", &moe->tensor_parallel) ||
        !tpp_csv_size(table, "moe_ep", &moe->expert_parallel) || !tpp_csv_seconds(table, &sample->seconds)) {
        return TPP_CSV_BROKEN;
    }
    sample->kind = TPP_SAMPLE_MOE_LAYER;
    snprintf(moe->distribution, sizeof moe->distribution, "%s", tpp_csv_cell(table, "distribution"));
    return TPP_CSV_ROW;
}

/* The more columns, the earlier: a table of training GEMMs also has m, n, k and time_us. */
static const struct tpp_csv_kind kinds[] = {
    {{"op", "ngpus", "bytes", "time_us"}, read_collective, NULL},
    {{"batch", "m", "n", "k", "layout", "accumulate", "time_us"}, read_training_gemm, NULL},
    {{"groups", "m_per_group", "n", "k", "stage", "time_us"}, read_grouped_gemm, NULL},
    {{"kind", "groups", "m", "n", "k", "tflops"}, read_block_gemm, NULL},
    {{"op", "tp", "m_tokens", "n", "k", "time_us"}, read_layer_gemm, NULL},
    {{"m", "n", "k", "time_us"}, read_gemm, NULL},
    {{"gpu", "dtype", "n", "time_us"}, read_square_gemm, NULL},
    {{"gpu", "dtype", "best_tflops", "shape"}, read_best_gemm, NULL},
    {{"gpu", "backend", "mask", "seqlen", "q_heads", "pass", "time_ms"}, read_attention_training, NULL},
    {{"pass", "batch", "seqlen", "heads", "qk_dim", "v_dim", "tflops_fullmask"}, read_attention_efficiency, NULL},
    {{"batch", "seqlen", "heads", "kv_heads", "head_dim", "time_us"}, read_attention_forward, NULL},
    {{"gpu", "kernel", "causal", "head_dim", "seqlen", "fwd_tflops", "bwd_tflops"}, read_attention_forward_rate,
     read_attention_backward_rate},
    {{"op", "tokens", "width", "time_us"}, read_elementwise, NULL},
    {{"gpu", "what", "traffic", "gbps"}, read_memory_rate, NULL},
    {{"num_tokens", "hidden", "inter", "topk", "experts", "moe_tp", "time_us"}, read_moe, NULL},
    {{"arch", "topology", "bottleneck", "dispatch_gbps", "combine_gbps"}, read_dispatch, read_combine},
};

const struct tpp_csv_kind *tpp_csv_kind_find(const struct tpp_csv *table)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t j = 0;
        while (kinds[i].columns[j] && tpp_csv_has(table, kinds[i].columns[j])) {
            j++;
        }
        if (!kinds[i].columns[j]) {
            return &kinds[i];
        }
    }
    return NULL;
}
