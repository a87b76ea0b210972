/* megatron_lm_model.c - a model's shape in the options of Megatron-LM (launch formats, section 1.2). */
#include "planner/launch/megatron_lm.h"

#include "planner/launch/refusal.h"

#include <math.h>
#include <string.h>

#define SENTENCE "the options of Megatron-LM cannot describe"
#define HINT "train it with a framework that has this layer, or write a model definition for Megatron-LM"

static bool has_activation(const struct tpp_model *model)
{
    if (model->gated_mlp)
        return model->activation == TPP_ACTIVATION_SILU;
    return model->activation == TPP_ACTIVATION_GELU || model->activation == TPP_ACTIVATION_SQUARED_RELU;
}

/* --disable-bias-linear takes the biases of every linear layer, --add-qkv-bias gives back those of q, k and v. */
static bool has_biases(const struct tpp_model *model)
{
    bool has_dense = model->ffn_hidden_size > 0;
    if (has_dense && model->output_bias != model->mlp_bias)
        return false;
    return !model->output_bias || model->qkv_bias;
}

static bool has_position_table(const struct tpp_model *model, const struct tpp_job *job)
{
    return model->position != TPP_POSITION_LEARNED || model->learned_position_rows >= job->sequence_length;
}

static bool has_integral_base(const struct tpp_model *model)
{
    return model->position != TPP_POSITION_ROPE ||
           (model->rope_theta >= 1 && model->rope_theta < 1e15 && floor(model->rope_theta) == model->rope_theta);
}

static enum tpp_code check_layers(const struct tpp_launch_request *request, struct tpp_error *err)
{
    const struct tpp_model *model = request->model;
    const struct tpp_refusal refusals[] = {
        {model->parallel_block, "model.parallel_block", "attention and MLP that read the same input"},
        {model->norms_per_layer != 2, "model.norms_per_layer", "a layer with another number of norms than 2"},
        {!model->final_norm, "model.final_norm", "a model without a norm behind the last layer"},
        {model->embedding_norm, "model.embedding_norm", "a norm behind the embedding"},
        {model->norm == TPP_NORM_LAYER_NO_BIAS || model->norm == TPP_NORM_NO_PARAMETERS, "model.norm",
         "a layer norm without bias or without parameters"},
        {model->qk_norm && model->qk_norm_elements != 2 * model->head_dim, "model.qk_norm",
         "norms of q and k over more than one head"},
        {!has_activation(model), "model.activation", "this activation (it has GELU, SwiGLU and squared ReLU)"},
        {!has_biases(model), "model.qkv_bias", "this choice of biases"},
        {model->lm_head_bias, "model.lm_head_bias", "a bias in the output layer"},
        {model->position == TPP_POSITION_ALIBI, "model.position", "ALiBi positions"},
        {!has_position_table(model, request->job), "model.learned_position_rows",
         "a sequence that is longer than the model's table of positions"},
        {!has_integral_base(model), "model.rope_theta", "a rotary base that is not a whole number"},
        {tpp_launch_has_window(request), "model.sliding_window",
         "a sliding window that is shorter than the sequence, in every release"},
        {model->attention_sink_elements > 0, "model.attention_sink_elements", "attention sinks, in every release"},
    };
    return tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, SENTENCE, HINT, err);
}

/* What decides which experts are chosen is no part of a model's shape; what we cannot know we do not write. */
static enum tpp_code check_experts(const struct tpp_model *model, struct tpp_error *err)
{
    const struct tpp_refusal refusals[] = {
        {model->router_bias, "model.router_bias", "a router bias of unknown use"},
        {model->expert_bias, "model.expert_bias", "biases in experts alone"},
        {model->kv_lora_rank > 0, "model.kv_lora_rank", "multi-latent attention alike in every release"},
    };
    return tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, SENTENCE, HINT, err);
}

/* Before 0.10 every layer has experts, as wide as --ffn-hidden-size. */
static enum tpp_code check_expert_layers(const struct tpp_launch_request *request, struct tpp_error *err)
{
    const struct tpp_model *model = request->model;
    bool mixes_layers = model->first_k_dense > 0 || model->moe_layer_period > 1;
    if (model->num_experts == 0 || request->release >= TPP_RELEASE_0_10 || !mixes_layers)
        return TPP_OK;
    return tpp_fail(err, TPP_E_UNSUPPORTED, "model.first_k_dense", "choose release 0.10 or newer",
                    "Megatron-LM %s has no option for dense layers among those with experts",
                    tpp_release_name(request->release));
}

/* Families with parts that a model's shape does not hold; `prefix` of model_type. */
static enum tpp_code check_family(const struct tpp_model *model, struct tpp_error *err)
{
    static const struct {
        const char *prefix;
        const char *part;
    } families[] = {
        {"llama4", "chunked attention and layers without positions"},
        {"qwen2_vl", "a vision tower"},
        {"qwen2_5_vl", "a vision tower"},
    };
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const struct tpp_refusal refusal = {strncmp(model->family, families[i].prefix, strlen(families[i].prefix)) == 0,
                                            "model.family", families[i].part};
        if (tpp_refusal_first(&refusal, 1, SENTENCE, HINT, err) != TPP_OK)
            return TPP_E_UNSUPPORTED;
    }
    return TPP_OK;
}

enum tpp_code tpp_megatron_lm_check_model(const struct tpp_launch_request *request, struct tpp_error *err)
{
    enum tpp_code code = check_layers(request, err);
    if (code == TPP_OK)
        code = check_family(request->model, err);
    if (code == TPP_OK)
        code = check_experts(request->model, err);
    if (code == TPP_OK)
        code = check_expert_layers(request, err);
    return code;
}

static void write_attention(struct tpp_script *script, const struct tpp_model *model)
{
    tpp_script_integer(script, "--num-attention-heads", model->num_attention_heads);
    tpp_script_integer(script, "--kv-channels", model->head_dim);
    if (model->num_query_groups != model->num_attention_heads) {
        tpp_script_flag(script, "--group-query-attention");
        tpp_script_integer(script, "--num-query-groups", model->num_query_groups);
    }
    if (!model->output_bias && !model->mlp_bias)
        tpp_script_flag(script, "--disable-bias-linear");
    if (!model->output_bias && model->qkv_bias)
        tpp_script_flag(script, "--add-qkv-bias");
    if (model->qk_norm)
        tpp_script_flag(script, "--qk-layernorm");
}

/* Before 0.4 a table of positions is there unless it is switched off. */
static void write_position_type(struct tpp_script *script, enum tpp_position position)
{
    if (script->release >= TPP_RELEASE_0_4) {
        tpp_script_word(script, "--position-embedding-type",
                        position == TPP_POSITION_ROPE      ? "rope"
                        : position == TPP_POSITION_LEARNED ? "learned_absolute"
                                                           : "none");
        return;
    }
    tpp_script_flag_if(script, position == TPP_POSITION_ROPE, "--use-rotary-position-embeddings");
    tpp_script_flag_if(script, position != TPP_POSITION_LEARNED, "--no-position-embedding");
}

/* The only one before --rotary-base, which is there since 0.8. */
#define OLD_ROTARY_BASE 10000

static void write_positions(struct tpp_script *script, const struct tpp_launch_request *request)
{
    const struct tpp_model *model = request->model;
    uint64_t positions = request->job->sequence_length;
    tpp_script_integer(script, "--seq-length", (int64_t)request->job->sequence_length);
    if (model->position == TPP_POSITION_LEARNED)
        positions = model->learned_position_rows;
    else if (model->max_position_embeddings > positions)
        positions = model->max_position_embeddings;
    tpp_script_integer(script, "--max-position-embeddings", (int64_t)positions);
    write_position_type(script, model->position);
    if (model->position != TPP_POSITION_ROPE)
        return;
    if (script->release >= TPP_RELEASE_0_8 || model->rope_theta != OLD_ROTARY_BASE)
        tpp_script_integer(script, "--rotary-base", (int64_t)model->rope_theta);
    if (model->rotary_fraction < 1)
        tpp_script_number(script, "--rotary-percent", model->rotary_fraction);
}

static void write_vocabulary(struct tpp_script *script, const struct tpp_launch_request *request)
{
    tpp_script_integer(script, "--vocab-size", request->model->vocab_size);
    if (request->stack->vocabulary_multiple > 0)
        tpp_script_integer(script, "--make-vocab-size-divisible-by", request->stack->vocabulary_multiple);
    if (!request->model->tied_embeddings)
        tpp_script_flag(script, "--untie-embeddings-and-output-weights");
}

/* Experts by layer as runs of equal entries: "([0]*3+[1]*58)". Only our own characters. */
static void write_layer_pattern(struct tpp_script *script, const struct tpp_model *model)
{
    struct tpp_text pattern;
    tpp_text_init(&pattern);
    uint32_t start = 0;
    for (uint32_t i = 1; i <= model->num_layers; i++) {
        bool is_moe = tpp_model_layer_is_moe(model, start);
        if (i < model->num_layers && tpp_model_layer_is_moe(model, i) == is_moe)
            continue;
        tpp_text_format(&pattern, "%s[%d]*%u", start == 0 ? "(" : "+", is_moe ? 1 : 0, i - start);
        start = i;
    }
    tpp_text_append(&pattern, ")");
    script->out->failed |= tpp_text_failed(&pattern);
    tpp_script_word(script, "--moe-layer-freq", tpp_text_get(&pattern));
    tpp_text_release(&pattern);
}

static void write_experts(struct tpp_script *script, const struct tpp_model *model)
{
    tpp_script_integer(script, "--num-experts", model->num_experts);
    tpp_script_integer(script, "--moe-router-topk", model->experts_per_token);
    if (model->experts_per_token == 1 && script->release >= TPP_RELEASE_0_8) /* demanded since 0.11 (ML-73) */
        tpp_script_flag(script, "--moe-router-pre-softmax");
    if (script->release >= TPP_RELEASE_0_10)
        tpp_script_integer(script, "--moe-ffn-hidden-size", model->moe_ffn_hidden_size);
    if (model->first_k_dense > 0 || model->moe_layer_period > 1)
        write_layer_pattern(script, model);
    if (model->shared_expert_hidden_size > 0)
        tpp_script_integer(script, "--moe-shared-expert-intermediate-size", model->shared_expert_hidden_size);
    if (model->shared_expert_gate)
        tpp_script_flag(script, "--moe-shared-expert-gate");
    tpp_script_flag(script, "--moe-grouped-gemm");
}

static uint32_t dense_width(const struct tpp_model *model, enum tpp_release release)
{
    bool is_expert_width = model->num_experts > 0 && (release < TPP_RELEASE_0_10 || model->ffn_hidden_size == 0);
    return is_expert_width ? model->moe_ffn_hidden_size : model->ffn_hidden_size;
}

void tpp_megatron_lm_write_model(struct tpp_script *script, const struct tpp_launch_request *request)
{
    const struct tpp_model *model = request->model;
    tpp_script_comment(script,
                       "The shape of the model. What changes neither time nor memory (rotary scaling, the order of "
                       "rotary channels) is not in a plan: add it when a checkpoint needs it.");
    if (model->num_experts > 0)
        tpp_script_comment(script, "Routing is Megatron-LM's own (softmax over the chosen experts): if the model was "
                                   "made with another, add its options.");
    tpp_script_array_begin(script, "MODEL_ARGS");
    tpp_script_integer(script, "--num-layers", model->num_layers);
    tpp_script_integer(script, "--hidden-size", model->hidden_size);
    tpp_script_integer(script, "--ffn-hidden-size", dense_width(model, script->release));
    if (model->gated_mlp)
        tpp_script_flag(script, "--swiglu");
    else if (model->activation == TPP_ACTIVATION_SQUARED_RELU)
        tpp_script_flag(script, "--squared-relu");
    write_attention(script, model);
    if (script->release >= TPP_RELEASE_0_4 || model->norm == TPP_NORM_RMS)
        tpp_script_word(script, "--normalization", model->norm == TPP_NORM_RMS ? "RMSNorm" : "LayerNorm");
    if (model->norm_epsilon > 0)
        tpp_script_number(script, script->release < TPP_RELEASE_0_4 ? "--layernorm-epsilon" : "--norm-epsilon",
                          model->norm_epsilon);
    write_positions(script, request);
    write_vocabulary(script, request);
    tpp_script_number(script, "--attention-dropout", request->job->attention_dropout);
    tpp_script_number(script, "--hidden-dropout", request->job->hidden_dropout);
    if (model->num_experts > 0)
        write_experts(script, model);
    if (request->job->mtp_num_layers > 0)
        tpp_script_integer(script, "--mtp-num-layers", request->job->mtp_num_layers);
    tpp_script_array_end(script);
}
