/* Attention, row by row, from the formulas: o = softmax(q k^T / sqrt(d)) v and its derivative. */
#include "calibrate/bench/host_check.h"

#include <math.h>

enum { Q, K, V, D_O };

struct source {
    const struct tpp_bench_attention *shape;
    enum tpp_bench_type type;
    uint64_t seed, batch, head;
};

/* Element of a row of this head; k and v have one head for each group of query heads. */
static double element(const struct source *source, uint64_t tensor, uint64_t row, uint64_t i)
{
    const struct tpp_bench_attention *shape = source->shape;
    const uint64_t per_group = shape->num_heads / shape->num_query_groups;
    const int is_key = tensor == K || tensor == V;
    const uint64_t heads = is_key ? shape->num_query_groups : shape->num_heads;
    const uint64_t head = is_key ? source->head / per_group : source->head;
    const uint64_t index = ((source->batch * shape->length + row) * heads + head) * shape->head_dim + i;
    return tpp_bench_round(source->type, tpp_bench_random_value(source->seed + tensor, index));
}

static double dot(const struct source *source, uint64_t a, uint64_t a_row, uint64_t b, uint64_t b_row)
{
    double sum = 0;
    for (uint64_t i = 0; i < source->shape->head_dim; i++) {
        sum += element(source, a, a_row, i) * element(source, b, b_row, i);
    }
    return sum;
}

static uint64_t num_seen(const struct source *source, uint64_t row)
{
    return source->shape->is_causal ? row + 1 : source->shape->length;
}

/* Softmax of the row's scores, into `p`. */
static void probabilities(const struct source *source, uint64_t row, double *p)
{
    const double scale = 1 / sqrt((double)source->shape->head_dim);
    const uint64_t count = num_seen(source, row);
    double largest = -INFINITY, sum = 0;
    for (uint64_t j = 0; j < count; j++) {
        p[j] = scale * dot(source, Q, row, K, j);
        largest = fmax(largest, p[j]);
    }
    for (uint64_t j = 0; j < count; j++) {
        p[j] = exp(p[j] - largest);
        sum += p[j];
    }
    for (uint64_t j = 0; j < count; j++) {
        p[j] /= sum;
    }
}

static void weighted_rows(const struct source *source, const double *weights, uint64_t tensor, uint64_t row,
                          double *row_values)
{
    for (uint64_t i = 0; i < source->shape->head_dim; i++) {
        row_values[i] = 0;
    }
    for (uint64_t j = 0; j < num_seen(source, row); j++) {
        for (uint64_t i = 0; i < source->shape->head_dim; i++) {
            row_values[i] += weights[j] * element(source, tensor, j, i);
        }
    }
}

void tpp_bench_attention_output_row(const struct tpp_bench_attention *shape, enum tpp_bench_type type, uint64_t seed,
                                    uint64_t batch, uint64_t head, uint64_t row, double *scratch, double *row_values)
{
    const struct source source = {shape, type, seed, batch, head};
    probabilities(&source, row, scratch);
    weighted_rows(&source, scratch, V, row, row_values);
}

/* dq = 1/sqrt(d) sum_j p_j (dp_j - sum_l p_l dp_l) k_j, with dp_j = do v_j: the derivative of softmax. */
void tpp_bench_attention_query_gradient_row(const struct tpp_bench_attention *shape, enum tpp_bench_type type,
                                            uint64_t seed, uint64_t batch, uint64_t head, uint64_t row, double *scratch,
                                            double *row_values)
{
    const struct source source = {shape, type, seed, batch, head};
    const double scale = 1 / sqrt((double)shape->head_dim);
    double mean = 0;
    probabilities(&source, row, scratch);
    for (uint64_t j = 0; j < num_seen(&source, row); j++) {
        mean += scratch[j] * dot(&source, D_O, row, V, j);
    }
    for (uint64_t j = 0; j < num_seen(&source, row); j++) {
        scratch[j] *= scale * (dot(&source, D_O, row, V, j) - mean);
    }
    weighted_rows(&source, scratch, K, row, row_values);
}

uint64_t tpp_bench_attention_count_wrong(enum tpp_bench_type type, const double *wanted, const void *found,
                                         uint64_t head_dim)
{
    double squares = 0;
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < head_dim; i++) {
        squares += wanted[i] * wanted[i] / (double)head_dim;
    }
    /* A rounded probability is off by at most half a last place; 16 of these of the row's size is far above what their
     * sum makes, and far below 1, which a missing mask, scale or term makes. */
    const double tolerance = 16 * tpp_bench_type_rounding(type) * sqrt(squares) + 1e-6;
    for (uint64_t i = 0; i < head_dim; i++) {
        wrong += !(fabs(tpp_bench_element(type, found, i) - wanted[i]) <= tolerance);
    }
    return wrong;
}
