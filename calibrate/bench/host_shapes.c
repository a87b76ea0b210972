#include "calibrate/bench/host_shapes.h"

#include "calibrate/bench/host_numbers.h"

#include <stdlib.h>
#include <string.h>

const char *tpp_bench_layout_name(enum tpp_bench_layout layout)
{
    static const char *const names[] = {"TN", "NN", "NT"};
    return names[layout];
}

const char *tpp_bench_reason_name(enum tpp_bench_reason reason)
{
    static const char *const names[TPP_BENCH_REASON_COUNT] = {"model", "step", "skinny", "odd", "large", "depth"};
    return names[reason];
}

uint64_t tpp_bench_gemm_a_index(const struct tpp_bench_gemm *gemm, uint64_t row, uint64_t inner)
{
    return gemm->layout == TPP_BENCH_NT ? inner * gemm->m + row : row * gemm->k + inner;
}

uint64_t tpp_bench_gemm_b_index(const struct tpp_bench_gemm *gemm, uint64_t inner, uint64_t column)
{
    return gemm->layout == TPP_BENCH_TN ? column * gemm->k + inner : inner * gemm->n + column;
}

uint64_t tpp_bench_gemm_bytes(const struct tpp_bench_gemm *gemm, size_t input_bytes, size_t output_bytes)
{
    return (gemm->m * gemm->k + gemm->k * gemm->n) * input_bytes + gemm->m * gemm->n * output_bytes;
}

/* What the makers of shapes write to. */
struct sink {
    const struct tpp_bench_limits *limits;
    struct tpp_bench_gemm_list *list;
    bool failed;
};

static bool same(const struct tpp_bench_gemm *a, const struct tpp_bench_gemm *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->layout == b->layout && a->accumulates == b->accumulates;
}

static void add(struct sink *sink, struct tpp_bench_gemm gemm)
{
    struct tpp_bench_gemm_list *list = sink->list;
    const uint64_t multiple = sink->limits->multiple;
    if (gemm.m == 0 || gemm.n == 0 || gemm.k == 0 || gemm.m % multiple || gemm.n % multiple || gemm.k % multiple ||
        tpp_bench_gemm_bytes(&gemm, sink->limits->element_bytes, 4) > sink->limits->memory_bytes) {
        return;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (same(&list->items[i], &gemm)) {
            return;
        }
    }
    if (list->count == list->capacity) {
        const size_t wanted = list->capacity ? 2 * list->capacity : 256;
        void *grown = realloc(list->items, wanted * sizeof *list->items);
        if (!grown) {
            sink->failed = true;
            return;
        }
        list->items = grown;
        list->capacity = wanted;
    }
    list->items[list->count++] = gemm;
}

/* A linear layer of `in` to `out` features over `tokens` rows: forward, input gradient, weight gradient. */
static void add_linear(struct sink *sink, enum tpp_bench_reason reason, uint64_t tokens, uint64_t out, uint64_t in)
{
    add(sink, (struct tpp_bench_gemm){tokens, out, in, TPP_BENCH_TN, reason, false});
    add(sink, (struct tpp_bench_gemm){tokens, in, out, TPP_BENCH_NN, reason, false});
    add(sink, (struct tpp_bench_gemm){out, in, tokens, TPP_BENCH_NT, reason, true});
}

/* The four projections of transformer layers from 0.5 to 500 billion parameters, sharded over 1 to 8 GPUs. */
static void add_models(struct sink *sink)
{
    static const struct {
        uint64_t hidden, qkv, ffn_in, ffn; /* ffn_in: 2 ffn when the activation is gated */
    } models[] = {
        {1024, 3072, 4096, 4096},    {2048, 3072, 16384, 8192},    {3584, 4608, 37888, 18944},
        {4096, 6144, 28672, 14336},  {4096, 12288, 22016, 11008},  {5120, 7168, 55296, 27648},
        {8192, 10240, 57344, 28672}, {12288, 36864, 49152, 49152}, {16384, 18432, 106496, 53248},
    };
    static const uint64_t tokens[] = {1024, 2048, 4096, 8192, 16384};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        for (uint64_t tp = 1; tp <= 8; tp *= 2) {
            for (size_t j = 0; j < sizeof tokens / sizeof tokens[0]; j++) {
                add_linear(sink, TPP_BENCH_MODEL, tokens[j], models[i].qkv / tp, models[i].hidden);
                add_linear(sink, TPP_BENCH_MODEL, tokens[j], models[i].hidden, models[i].hidden / tp);
                add_linear(sink, TPP_BENCH_MODEL, tokens[j], models[i].ffn_in / tp, models[i].hidden);
                add_linear(sink, TPP_BENCH_MODEL, tokens[j], models[i].hidden, models[i].ffn / tp);
            }
        }
    }
}

/* m where tiles of 128 rows just fill a whole number of waves over the SMs, one tile and one row more. n = 2048 is 8
 * tile columns of 256 (16 of 128), so that the waves end at different m than the rows of tiles do. */
static void add_steps(struct sink *sink)
{
    const uint64_t n = 2048, k = 4096;
    for (uint64_t waves = 1; waves <= 6; waves++) {
        const uint64_t tile_rows = waves * sink->limits->num_sms / (n / 256);
        const uint64_t m = 128 * (tile_rows ? tile_rows : 1);
        const uint64_t edges[] = {m - 64, m, m + 16, m + 128, m + 256};
        for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
            add(sink, (struct tpp_bench_gemm){edges[i], n, k, TPP_BENCH_TN, TPP_BENCH_STEP, false});
        }
    }
    for (uint64_t m = 256; m <= 4096; m *= 2) {
        add(sink, (struct tpp_bench_gemm){m, 8192, 8192, TPP_BENCH_TN, TPP_BENCH_STEP, false});
        add(sink, (struct tpp_bench_gemm){m + 1, 8192, 8192, TPP_BENCH_TN, TPP_BENCH_STEP, false});
        add(sink, (struct tpp_bench_gemm){m + 16, 8192, 8192, TPP_BENCH_TN, TPP_BENCH_STEP, false});
    }
}

static void add_skinny(struct sink *sink)
{
    static const uint64_t small[] = {16, 32, 64, 128, 192, 384};
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++) {
        for (uint64_t wide = 2048; wide <= 8192; wide *= 2) {
            add(sink, (struct tpp_bench_gemm){small[i], wide, wide, TPP_BENCH_TN, TPP_BENCH_SKINNY, false});
            add(sink, (struct tpp_bench_gemm){4096, small[i], wide, TPP_BENCH_TN, TPP_BENCH_SKINNY, false});
            add(sink, (struct tpp_bench_gemm){wide, wide, small[i], TPP_BENCH_TN, TPP_BENCH_SKINNY, false});
            add(sink, (struct tpp_bench_gemm){wide, wide, small[i], TPP_BENCH_NT, TPP_BENCH_SKINNY, true});
        }
    }
}

/* k = 1000 is a multiple of 8, 1004 of 4, 1002 of 2; vocabulary sizes that nobody padded. */
static void add_odd(struct sink *sink)
{
    static const uint64_t sizes[][3] = {{4096, 4096, 4104},  {4096, 4096, 4100}, {4096, 4096, 4098},
                                        {4096, 4104, 4096},  {4096, 4100, 4096}, {4096, 50257, 1600},
                                        {2048, 32003, 4096}, {1000, 1000, 1000}, {1023, 2047, 4095},
                                        {3000, 5000, 7000},  {4096, 4112, 4112}, {2064, 2064, 2064}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        add_linear(sink, TPP_BENCH_ODD, sizes[i][0], sizes[i][1], sizes[i][2]);
    }
}

static void add_large(struct sink *sink)
{
    add_linear(sink, TPP_BENCH_LARGE, 8192, 8192, 8192);
    add_linear(sink, TPP_BENCH_LARGE, 8192, 128256, 4096);
    add_linear(sink, TPP_BENCH_LARGE, 16384, 16384, 16384);
    add_linear(sink, TPP_BENCH_LARGE, 32768, 28672, 8192);
    add_linear(sink, TPP_BENCH_LARGE, 32768, 12288, 12288);
}

static void add_depths(struct sink *sink)
{
    for (uint64_t k = 64; k <= 65536; k *= 2) {
        add(sink, (struct tpp_bench_gemm){4096, 4096, k, TPP_BENCH_TN, TPP_BENCH_DEPTH, false});
        add(sink, (struct tpp_bench_gemm){512, 1024, k, TPP_BENCH_TN, TPP_BENCH_DEPTH, false});
    }
}

/* Shuffles [begin, end) with a fixed seed: the same grid everywhere. */
static void shuffle(struct tpp_bench_gemm *items, size_t begin, size_t end)
{
    for (size_t i = end; i > begin + 1; i--) {
        const size_t other = begin + (size_t)(tpp_bench_hash(20, i) % (i - begin));
        const struct tpp_bench_gemm kept = items[i - 1];
        items[i - 1] = items[other];
        items[other] = kept;
    }
}

/* Deals the reasons out in turn, so that a budget that ends early has seen each; `first` holds where each one's shapes
 * begin. Two of three are model shapes: they are what is predicted. */
static enum tpp_code deal(struct tpp_bench_gemm_list *list, const size_t first[TPP_BENCH_REASON_COUNT + 1],
                          struct tpp_error *err)
{
    size_t next[TPP_BENCH_REASON_COUNT], count = 0;
    struct tpp_bench_gemm *dealt = malloc((list->count ? list->count : 1) * sizeof *dealt);
    if (!dealt) {
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    }
    memcpy(next, first, sizeof next);
    for (size_t turn = 0; count < list->count; turn++) {
        for (int reason = 0; reason < TPP_BENCH_REASON_COUNT; reason++) {
            for (int i = 0; i < (reason == TPP_BENCH_MODEL ? 8 : 1) && next[reason] < first[reason + 1]; i++) {
                dealt[count++] = list->items[next[reason]++];
            }
        }
    }
    free(list->items);
    list->items = dealt;
    list->capacity = list->count;
    return TPP_OK;
}

enum tpp_code tpp_bench_gemm_grid(const struct tpp_bench_limits *limits, struct tpp_bench_gemm_list *list,
                                  struct tpp_error *err)
{
    static void (*const makers[TPP_BENCH_REASON_COUNT])(struct sink *) = {add_models, add_steps, add_skinny,
                                                                          add_odd,    add_large, add_depths};
    struct sink sink = {.limits = limits, .list = list};
    size_t first[TPP_BENCH_REASON_COUNT + 1] = {0};
    memset(list, 0, sizeof *list);
    for (int reason = 0; reason < TPP_BENCH_REASON_COUNT; reason++) {
        makers[reason](&sink);
        first[reason + 1] = list->count;
        shuffle(list->items, first[reason], list->count);
    }
    const enum tpp_code code =
        sink.failed ? tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory") : deal(list, first, err);
    if (code != TPP_OK) {
        tpp_bench_gemm_list_release(list);
    }
    return code;
}

void tpp_bench_gemm_list_release(struct tpp_bench_gemm_list *list)
{
    free(list->items);
    memset(list, 0, sizeof *list);
}
