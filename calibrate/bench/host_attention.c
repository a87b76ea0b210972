/* The grid of attention shapes. */
#include "calibrate/bench/host_numbers.h"
#include "calibrate/bench/host_shapes.h"

#include <stdlib.h>
#include <string.h>

uint64_t tpp_bench_attention_bytes(const struct tpp_bench_attention *attention, size_t element_bytes)
{
    const uint64_t rows = attention->batch * attention->length;
    const uint64_t query = rows * attention->num_heads * attention->head_dim;
    const uint64_t key = rows * attention->num_query_groups * attention->head_dim;
    /* Q, O, dQ, dO; K, V, dK, dV, and dK, dV of every query head before their sum over a group; the fp32 sum of dQ; two
     * fp32 statistics a row and head. */
    return (4 * query + 4 * key + 2 * query) * element_bytes + 4 * query + 8 * rows * attention->num_heads;
}

double tpp_bench_attention_flops(const struct tpp_bench_attention *attention)
{
    const double length = (double)attention->length;
    return 4.0 * (double)attention->batch * (double)attention->num_heads * length * length *
           (double)attention->head_dim * (attention->is_causal ? 0.5 : 1);
}

static enum tpp_code add(struct tpp_bench_attention_list *list, const struct tpp_bench_attention *attention,
                         struct tpp_error *err)
{
    if (list->count == list->capacity) {
        const size_t wanted = list->capacity ? 2 * list->capacity : 256;
        void *grown = realloc(list->items, wanted * sizeof *list->items);
        if (!grown) {
            return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
        }
        list->items = grown;
        list->capacity = wanted;
    }
    list->items[list->count++] = *attention;
    return TPP_OK;
}

/* All batches, masks and lengths of one kind of heads. */
static enum tpp_code add_heads(const struct tpp_bench_limits *limits, struct tpp_bench_attention shape,
                               struct tpp_bench_attention_list *list, struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    for (shape.length = 512; shape.length <= 131072; shape.length *= 2) {
        for (shape.batch = 1; shape.batch <= 8 && shape.batch * shape.length <= 131072; shape.batch *= 2) {
            for (int causal = 1; causal >= 0 && code == TPP_OK; causal--) {
                shape.is_causal = causal;
                if (tpp_bench_attention_bytes(&shape, limits->element_bytes) <= limits->memory_bytes) {
                    code = add(list, &shape, err);
                }
            }
        }
    }
    return code;
}

enum tpp_code tpp_bench_attention_grid(const struct tpp_bench_limits *limits, struct tpp_bench_attention_list *list,
                                       struct tpp_error *err)
{
    static const struct tpp_bench_attention heads[] = {
        {.num_heads = 32, .num_query_groups = 8, .head_dim = 128},
        {.num_heads = 64, .num_query_groups = 8, .head_dim = 128},
        {.num_heads = 8, .num_query_groups = 1, .head_dim = 128},
        {.num_heads = 16, .num_query_groups = 16, .head_dim = 128},
        {.num_heads = 4, .num_query_groups = 4, .head_dim = 128},
        {.num_heads = 16, .num_query_groups = 16, .head_dim = 64},
        {.num_heads = 32, .num_query_groups = 8, .head_dim = 64},
        {.num_heads = 8, .num_query_groups = 4, .head_dim = 256},
        {.num_heads = 16, .num_query_groups = 16, .head_dim = 256},
    };
    enum tpp_code code = TPP_OK;
    memset(list, 0, sizeof *list);
    for (size_t i = 0; i < sizeof heads / sizeof heads[0] && code == TPP_OK; i++) {
        code = add_heads(limits, heads[i], list, err);
    }
    for (size_t i = list->count; i > 1; i--) { /* a fixed shuffle: any beginning is a fair selection */
        const size_t other = (size_t)(tpp_bench_hash(21, i) % i);
        const struct tpp_bench_attention kept = list->items[i - 1];
        list->items[i - 1] = list->items[other];
        list->items[other] = kept;
    }
    if (code != TPP_OK) {
        tpp_bench_attention_list_release(list);
    }
    return code;
}

void tpp_bench_attention_list_release(struct tpp_bench_attention_list *list)
{
    free(list->items);
    memset(list, 0, sizeof *list);
}
