#include "costmodel/flops.h"

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

double tpp_flops_head_forward(const struct tpp_model *model, double sequence_length)
{
    return 2 * sequence_length * (double)model->hidden_size * model->vocab_size;
}

double tpp_flops_linear_forward(const struct tpp_model *model, double sequence_length)
{
    struct tpp_model_counts counts;
    tpp_model_count(model, &counts);
    return 2 * sequence_length *
               (counts.num_dense_layers * layer_elements(model, false) +
                counts.num_moe_layers * layer_elements(model, true)) +
           tpp_flops_head_forward(model, sequence_length);
}

double tpp_flops_attention_forward(const struct tpp_model *model, double sequence_length)
{
    double head_dims = 2.0 * model->head_dim;
    if (model->kv_lora_rank > 0)
        head_dims = (double)model->qk_nope_head_dim + model->qk_rope_head_dim + model->v_head_dim;
    return 2 * sequence_length * sequence_length * model->num_attention_heads * head_dims * model->num_layers;
}

double tpp_flops_model(const struct tpp_model *model, const struct tpp_job *job, bool causal)
{
    const double s = (double)job->sequence_length;
    const double attention = tpp_flops_attention_forward(model, s) * (causal ? 0.5 : 1);
    return 3 * (double)job->global_batch_size * (tpp_flops_linear_forward(model, s) + attention);
}

double tpp_flops_hardware(const struct tpp_model *model, const struct tpp_job *job, enum tpp_recompute recompute,
                          double recomputed_fraction, bool unfused_attention)
{
    const double s = (double)job->sequence_length, attention = tpp_flops_attention_forward(model, s);
    const double layers = tpp_flops_linear_forward(model, s) - tpp_flops_head_forward(model, s) + attention;
    double extra = 0;
    if (recompute == TPP_RECOMPUTE_FULL)
        extra = recomputed_fraction * layers;
    else if (recompute == TPP_RECOMPUTE_SELECTIVE && unfused_attention)
        extra = attention;
    return tpp_flops_model(model, job, false) + (double)job->global_batch_size * extra;
}
