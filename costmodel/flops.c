#include "costmodel/flops.h"

#include <math.h>

/* Elements of every matrix a token passes in one layer (3.1). */
static double layer_elements(const struct tpp_model *model, bool is_moe)
{
    const double h = model->hidden_size, a = model->num_attention_heads, d = model->head_dim;
    const double matrices = model->gated_mlp ? 3 : 2;
    double attention = h * (a + 2.0 * model->num_query_groups) * d + a * d * h;
    if (model->kv_lora_rank > 0) {
        const double qk = (double)model->qk_nope_head_dim + model->qk_rope_head_dim, r = model->kv_lora_rank;
        const double queries = model->q_lora_rank > 0 ? model->q_lora_rank * (h + a * qk) : h * a * qk;
        attention = queries + h * (r + model->qk_rope_head_dim) +
                    r * a * (model->qk_nope_head_dim + model->v_head_dim) + a * model->v_head_dim * h;
    }
    if (!is_moe)
        return attention + matrices * h * model->ffn_hidden_size;
    return attention + h * model->num_experts +
           matrices * h * ((double)model->experts_per_token * model->moe_ffn_hidden_size +
                           model->shared_expert_hidden_size);
}

/* Sum of the QK and V head dims. */
static double head_dims(const struct tpp_model *model)
{
    if (model->kv_lora_rank > 0)
        return (double)model->qk_nope_head_dim + model->qk_rope_head_dim + model->v_head_dim;
    return 2.0 * model->head_dim;
}

struct tpp_flops tpp_flops_forward(const struct tpp_model *model, double sequence_length, double document_length)
{
    const double s = sequence_length;
    const double attended = document_length > 0 ? document_length : s;
    const double window = model->sliding_window > 0 ? fmin(model->sliding_window, attended) : attended;
    const double windowed = model->sliding_window_layers, full = model->num_layers - windowed;
    const double layer = 2 * model->num_attention_heads * head_dims(model) * s / attended; /* of each document's scores */
    struct tpp_model_counts counts;
    tpp_model_count(model, &counts);
    return (struct tpp_flops){
        .layers = 2 * s *
                  (counts.num_dense_layers * layer_elements(model, false) +
                   counts.num_moe_layers * layer_elements(model, true)),
        .head = 2 * s * (double)model->hidden_size * model->vocab_size,
        .attention = 2 * s * attended * model->num_attention_heads * head_dims(model) * model->num_layers,
        .attended = layer * (full * attended * attended / 2 + windowed * window * (attended - window / 2)),
    };
}

double tpp_flops_model(const struct tpp_flops *forward, double sequences, bool causal)
{
    return 3 * sequences * (forward->layers + forward->head + forward->attention * (causal ? 0.5 : 1));
}

double tpp_flops_necessary(const struct tpp_flops *forward, double sequences)
{
    return 3 * sequences * (forward->layers + forward->head + forward->attended);
}

double tpp_flops_hardware(const struct tpp_flops *forward, double sequences, enum tpp_recompute recompute,
                          double recomputed_fraction, bool unfused_attention)
{
    double extra = 0;
    if (recompute == TPP_RECOMPUTE_FULL)
        extra = recomputed_fraction * (forward->layers + forward->attention);
    else if (recompute == TPP_RECOMPUTE_SELECTIVE && unfused_attention)
        extra = forward->attention;
    return tpp_flops_model(forward, sequences, false) + sequences * extra;
}

static double peak_flops_per_second(enum tpp_precision precision, const struct tpp_gpu *gpu)
{
    switch (precision) {
    case TPP_PRECISION_FP8:
    case TPP_PRECISION_FP8_BLOCK:
    case TPP_PRECISION_MXFP8:
        return gpu->fp8_flops_per_second > 0 ? gpu->fp8_flops_per_second : gpu->bf16_flops_per_second;
    case TPP_PRECISION_FP32:
        return gpu->tf32_flops_per_second > gpu->fp32_flops_per_second ? gpu->tf32_flops_per_second
                                                                       : gpu->fp32_flops_per_second;
    case TPP_PRECISION_BF16:
    case TPP_PRECISION_FP16:
        break;
    }
    return gpu->bf16_flops_per_second;
}

double tpp_flops_least_seconds(double necessary_flops, const struct tpp_job *job, const struct tpp_gpu *gpu)
{
    const double necessary = tpp_job_is_adapter(job) ? 2.0 / 3.0 : 1.0;
    return necessary * necessary_flops / (job->num_gpus * peak_flops_per_second(job->precision, gpu));
}
