/* Parameter counts: cost-model 2.1 (dense), 2.2 (mixture of experts), 2.3 (multi-head latent attention). */
#include "costmodel/model/model_counts.h"

#include "costmodel/base/units.h"

/* A sum of products that remembers overflow, so that the check and the count are one formula. */
struct sum {
    uint64_t value;
    bool overflow;
};

static void add(struct sum *sum, uint64_t a, uint64_t b)
{
    uint64_t product, total;
    if (tpp_mul_u64(a, b, &product) && tpp_add_u64(sum->value, product, &total))
        sum->value = total;
    else
        sum->overflow = true;
}

static void add_all(struct sum *sum, uint64_t count, struct sum one)
{
    add(sum, count, one.value);
    sum->overflow = sum->overflow || one.overflow;
}

static uint64_t norm_elements(const struct tpp_model *model)
{
    switch (model->norm) {
    case TPP_NORM_RMS:
    case TPP_NORM_LAYER_NO_BIAS:
        return model->hidden_size;
    case TPP_NORM_LAYER:
        return UINT64_C(2) * model->hidden_size;
    case TPP_NORM_NO_PARAMETERS:
        break;
    }
    return 0;
}

/* MLA (2.3):  h r_q + r_q + r_q a (d_n + d_r), or h a (d_n + d_r) without r_q;  + h (r_kv + d_r) + r_kv
 *             + r_kv a (d_n + d_v) + a d_v h.
 * A qkv-bias sits on the two down-projections, as in the DeepSeek code; the output bias on the last matrix. */
static struct sum latent_attention(const struct tpp_model *model)
{
    const uint64_t h = model->hidden_size, a = model->num_attention_heads;
    const uint64_t r_q = model->q_lora_rank, r_kv = model->kv_lora_rank;
    const uint64_t d_n = model->qk_nope_head_dim, d_r = model->qk_rope_head_dim, d_v = model->v_head_dim;
    struct sum sum = {0};
    add(&sum, r_q > 0 ? r_q : h, a * (d_n + d_r));
    add(&sum, h, r_q + r_kv + d_r);
    add(&sum, 1, r_q + r_kv);
    add(&sum, r_kv, a * (d_n + d_v));
    add(&sum, a * d_v, h);
    if (model->qkv_bias)
        add(&sum, 1, r_q + r_kv + d_r);
    if (model->output_bias)
        add(&sum, 1, h);
    return sum;
}

/* Plain attention (2.1):  h (a + 2 kv) d + a d h, biases, norms of q and k, sinks. */
static struct sum attention(const struct tpp_model *model)
{
    if (model->kv_lora_rank > 0)
        return latent_attention(model);
    const uint64_t h = model->hidden_size, d = model->head_dim;
    const uint64_t query = model->num_attention_heads * d;
    const uint64_t columns = query + 2 * model->num_query_groups * d;
    struct sum sum = {0};
    add(&sum, h, columns);
    add(&sum, query, h);
    if (model->qkv_bias)
        add(&sum, 1, columns);
    if (model->output_bias)
        add(&sum, 1, h);
    return sum;
}

/* MLP of inner width f (2.1):  (3 or 2) h f, biases (2f or f) + h. */
static struct sum mlp(const struct tpp_model *model, uint64_t width, bool bias)
{
    const uint64_t inputs = model->gated_mlp ? 2 : 1;
    struct sum sum = {0};
    add(&sum, (inputs + 1) * model->hidden_size, width);
    if (bias) {
        add(&sum, inputs, width);
        add(&sum, 1, model->hidden_size);
    }
    return sum;
}

/* Attention, norms, norms of q and k, sinks: what a dense and a MoE layer have in common. */
static struct sum layer_base(const struct tpp_model *model)
{
    struct sum sum = attention(model);
    add(&sum, model->norms_per_layer, norm_elements(model));
    add(&sum, 1, model->qk_norm_elements);
    add(&sum, 1, model->attention_sink_elements);
    return sum;
}

static struct sum dense_layer(const struct tpp_model *model)
{
    struct sum sum = layer_base(model);
    add_all(&sum, 1, mlp(model, model->ffn_hidden_size, model->mlp_bias));
    return sum;
}

/* 2.2: router E h, experts, shared expert and its gate. `experts` is E for the total, k for the active count. The
 * router's bias (E elements) is left to the caller: it is in the total and, as in the published 37,552,282,624 active
 * parameters of DeepSeek-V3, not in the active count. */
static struct sum moe_layer(const struct tpp_model *model, uint64_t experts)
{
    struct sum sum = layer_base(model);
    add(&sum, model->num_experts, model->hidden_size);
    add_all(&sum, experts, mlp(model, model->moe_ffn_hidden_size, model->expert_bias));
    if (model->shared_expert_hidden_size > 0)
        add_all(&sum, 1, mlp(model, model->shared_expert_hidden_size, model->expert_bias));
    if (model->shared_expert_gate)
        add(&sum, 1, model->hidden_size);
    return sum;
}

static struct sum embedding(const struct tpp_model *model)
{
    struct sum sum = {0};
    add(&sum, model->hidden_size, (uint64_t)model->vocab_size + model->learned_position_rows);
    if (model->embedding_norm)
        add(&sum, 1, norm_elements(model));
    return sum;
}

static struct sum lm_head(const struct tpp_model *model)
{
    struct sum sum = {0};
    if (!model->tied_embeddings)
        add(&sum, model->hidden_size, model->vocab_size);
    if (model->lm_head_bias)
        add(&sum, 1, model->vocab_size);
    return sum;
}

static uint32_t count_moe_layers(const struct tpp_model *model)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->num_layers; i++)
        count += tpp_model_layer_is_moe(model, i) ? 1 : 0;
    return count;
}

bool tpp_model_count_checked(const struct tpp_model *model, struct tpp_model_counts *counts)
{
    const struct sum dense = dense_layer(model), token = embedding(model), head = lm_head(model);
    struct sum moe = {0}, moe_active = {0}, total = {0}, active;
    *counts = (struct tpp_model_counts){.num_moe_layers = count_moe_layers(model)};
    counts->num_dense_layers = model->num_layers - counts->num_moe_layers;
    counts->final_norm = model->final_norm ? norm_elements(model) : 0;
    if (counts->num_moe_layers > 0) {
        moe = moe_layer(model, model->num_experts);
        add(&moe, model->num_experts, model->router_bias ? 1 : 0);
        moe_active = moe_layer(model, model->experts_per_token);
    }
    add_all(&total, 1, token);
    add_all(&total, 1, head);
    add(&total, 1, counts->final_norm);
    add_all(&total, counts->num_dense_layers, dense);
    active = total;
    add_all(&total, counts->num_moe_layers, moe);
    add_all(&active, counts->num_moe_layers, moe_active);
    counts->total = total.value;
    counts->active = active.value;
    counts->embedding = token.value;
    counts->lm_head = head.value;
    counts->dense_layer = model->ffn_hidden_size > 0 ? dense.value : 0;
    counts->moe_layer = moe.value;
    return !total.overflow && total.value <= TPP_MODEL_MAX_PARAMETERS;
}

void tpp_model_count(const struct tpp_model *model, struct tpp_model_counts *counts)
{
    (void)tpp_model_count_checked(model, counts);
}

bool tpp_model_layer_is_moe(const struct tpp_model *model, uint32_t index)
{
    return model->num_experts > 0 && model->moe_layer_period > 0 && index >= model->first_k_dense &&
           index < model->num_layers && (index + 1) % model->moe_layer_period == 0;
}
