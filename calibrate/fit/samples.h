/* samples.h - measured times of kernels and collectives, whatever wrote them down: the input of the fit.
 *
 * Three formats are read (import.h finds out which): logs of nccl-tests and rccl-tests, the tables of published
 * measurements, and our own samples files (samples.md). Nothing is fitted or judged here; what a row says about itself
 * (wrong results, one rank only) is kept with it. */
#ifndef TPP_CALIBRATE_FIT_SAMPLES_H
#define TPP_CALIBRATE_FIT_SAMPLES_H

#include "costmodel/base/error.h"
#include "costmodel/base/json_write.h"
#include "costmodel/kernel_time.h"
#include "hwprofiles/hardware.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tpp_sample_kind {
    TPP_SAMPLE_COLLECTIVE,
    TPP_SAMPLE_GEMM,
    TPP_SAMPLE_ATTENTION,
    TPP_SAMPLE_MEMORY_BOUND,
    TPP_SAMPLE_MOE_LAYER, /* a whole fused expert layer: imported, not fitted */
    TPP_SAMPLE_VALUE,     /* one value of a profile, measured directly: launch gap, context memory, overlap */
    TPP_SAMPLE_KIND_COUNT,
};

/* What nccl-tests can run. The first ones are enum tpp_collective, the others have no rate of their own in a profile.
 */
enum tpp_sample_operation {
    TPP_OPERATION_BROADCAST = TPP_COLLECTIVE_COUNT,
    TPP_OPERATION_REDUCE,
    TPP_OPERATION_GATHER,
    TPP_OPERATION_SCATTER,
    TPP_OPERATION_UNKNOWN, /* the log does not say, and its columns leave it open */
    TPP_OPERATION_COUNT,
};

/* Number formats a matrix product or attention was measured in. */
enum tpp_sample_format {
    TPP_FORMAT_BF16, /* or fp16: the same rate */
    TPP_FORMAT_FP8,
    TPP_FORMAT_FP8_BLOCK, /* 128 x 128 block scales */
    TPP_FORMAT_TF32,
    TPP_FORMAT_FP32,
    TPP_FORMAT_INT8,
    TPP_FORMAT_COUNT,
};

struct tpp_collective_sample {
    int operation;      /* enum tpp_collective or enum tpp_sample_operation */
    uint64_t bytes;     /* the "size" of nccl-tests, see collective_time.h */
    uint32_t num_ranks; /* 0: the log does not say */
    uint32_t num_nodes; /* 0: the log does not say */
    bool in_place;
    char dtype[16];              /* as written */
    double bus_bytes_per_second; /* from bytes and time; the log's own column where the ranks are unknown; without a time
                                  * (a published rate) what its authors say */
    double num_wrong;            /* results found wrong; negative: not checked */
    uint32_t concurrent_groups;  /* groups of that kind that ran at the same time; 0: the file does not say */
};

enum tpp_gemm_layout { TPP_LAYOUT_TN, TPP_LAYOUT_NN, TPP_LAYOUT_NT }; /* forward, input gradient, weight gradient */

struct tpp_gemm_sample {
    double m, n, k;
    double num_products; /* independent products of that shape; experts when is_grouped */
    enum tpp_gemm_layout layout;
    enum tpp_sample_format format;
    bool accumulates; /* into fp32 */
    bool is_grouped;
    bool is_sustained; /* after seconds of load, when the power limit has slowed the clock */
};

struct tpp_attention_sample {
    double batch, num_heads, num_query_groups; /* 0 heads: a published rate without the shape, not fitted */
    double query_length, key_length;
    double qk_head_dim, v_head_dim;
    bool is_causal, is_backward, is_deterministic;
    double window; /* tokens; 0: none */
    enum tpp_sample_format format;
    enum tpp_attention_kernel kernel;
    char implementation[32]; /* "cudnn", "flash_attention_2"; "" when not said */
    double flops_per_second; /* where the rate is all that was published; else 0 */
};

struct tpp_memory_sample {
    char operation[40];      /* "add", "input_layernorm", "copy" */
    double bytes;            /* least traffic: reads and writes */
    double bytes_per_second; /* where the rate is all that was published; else 0 */
};

struct tpp_moe_sample {
    double num_tokens, hidden_size, ffn_hidden_size, experts_per_token, num_experts, tensor_parallel, expert_parallel;
    char distribution[24];
};

struct tpp_value_sample {
    uint32_t field; /* row of tpp_hardware_fields() */
    double value;
};

struct tpp_sample {
    enum tpp_sample_kind kind;
    uint32_t file;          /* index into tpp_samples.files */
    uint32_t line;          /* counted from 1 */
    double seconds;         /* median of the repeats; 0 for a VALUE and for published rates */
    uint32_t num_repeats;   /* 1 when only one figure was written down */
    double spread_fraction; /* half the distance of the quartiles, relative to the median; 0 for one figure */
    bool is_wrong;          /* the program found wrong results: shown, never fitted */
    char device[64];        /* "" when the file does not say */
    union {
        struct tpp_collective_sample collective;
        struct tpp_gemm_sample gemm;
        struct tpp_attention_sample attention;
        struct tpp_memory_sample memory;
        struct tpp_moe_sample moe;
        struct tpp_value_sample value;
    };
};

#define TPP_SAMPLE_MAX_NOTES 8

struct tpp_sample_file {
    char source[256];   /* path as given, cut when longer */
    const char *format; /* "nccl-tests log", "table", "samples"; static */
    size_t num_rows;
    uint64_t num_skipped_lines;            /* lines that should be rows and are not whole */
    char notes[TPP_SAMPLE_MAX_NOTES][200]; /* what a reader of the rows should know */
    uint32_t num_notes;
};

struct tpp_samples {
    struct tpp_sample *items;
    size_t count, capacity;
    struct tpp_sample_file *files;
    size_t num_files, file_capacity;
};

void tpp_samples_init(struct tpp_samples *samples);
void tpp_samples_release(struct tpp_samples *samples);

/* For importers. Begins a file; later rows and notes belong to it. */
enum tpp_code tpp_samples_begin_file(struct tpp_samples *samples, const char *source, const char *format,
                                     struct tpp_error *err);
/* Appends a copy of `sample`, with the file's index filled in. */
enum tpp_code tpp_samples_add(struct tpp_samples *samples, const struct tpp_sample *sample, struct tpp_error *err);
/* The file begun last. */
struct tpp_sample_file *tpp_samples_file(struct tpp_samples *samples);
/* Adds a note to the file begun last; the ninth and later ones, and doubled ones, are dropped. */
void tpp_samples_note(struct tpp_samples *samples, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "all_reduce", "broadcast", ...; "unknown". */
const char *tpp_sample_operation_name(int operation);
/* The factor of nccl-tests from algorithm to bus bandwidth; 0 for one rank and for an unknown operation. */
double tpp_sample_bus_factor(int operation, uint32_t num_ranks);
/* Operations of a matrix product, 2 m n k each, or of attention: 2 b h s_q s_k (d_qk + d_v), half of it when causal, 2.5 times
 * that backward. 0 for other kinds. */
double tpp_sample_flops(const struct tpp_sample *sample);
const char *tpp_sample_format_name(enum tpp_sample_format format); /* "bf16", "fp8", ... */
const char *tpp_sample_kind_name(enum tpp_sample_kind kind);       /* "collective", "gemm", ... */

/* Adds "rows", "skipped_lines", "source", "device" and "files" to `parent`. "source" and "device" are null when the
 * rows come from several. */
void tpp_samples_add_json(const struct tpp_samples *samples, struct tpp_json_writer *writer, struct cJSON *parent);

#endif
