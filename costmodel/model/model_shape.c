#include "costmodel/model/model_shape.h"

#include "costmodel/model/model_experts.h"
#include "costmodel/model/model_fields.h"
#include "costmodel/model/model_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What every step gets. */
struct reading {
    struct tpp_json config, root;
    const struct tpp_model_family *family;
    struct tpp_model *model;
};

static enum tpp_code missing(const struct reading *r, const char *key, struct tpp_error *err)
{
    char hint[128];
    snprintf(hint, sizeof(hint), "add \"%s\": a config of model_type \"%s\" needs it", key, r->family->model_type);
    return tpp_json_fail(r->config, err, TPP_E_MISSING, hint, "\"%s\" is missing", key);
}

/* A size with a class default (0: the key is needed). */
static enum tpp_code read_size(const struct reading *r, const struct tpp_model_names *names, uint32_t max,
                               uint32_t class_default, uint32_t *out, struct tpp_error *err)
{
    bool found = false;
    enum tpp_code code = tpp_model_get_size(r->config, names, 1, max, out, &found, err);
    if (code != TPP_OK || found)
        return code;
    *out = class_default;
    return class_default > 0 ? TPP_OK : missing(r, names->name[0], err);
}

/* Without its key a class has one group a head, or its default; null always means one a head. */
static uint32_t default_groups(const struct reading *r)
{
    const char *key = r->family->keys->groups.name[0];
    const bool has_default = r->family->default_groups > 0 && !(key != NULL && tpp_model_is_null(r->config, key));
    return has_default ? r->family->default_groups : r->model->num_attention_heads;
}

static enum tpp_code read_head_dim(const struct reading *r, struct tpp_error *err)
{
    struct tpp_model *m = r->model;
    bool found = false;
    enum tpp_code code =
        tpp_model_get_size(r->config, &r->family->keys->head_dim, 1, TPP_MODEL_MAX_HEADS, &m->head_dim, &found, err);
    if (code != TPP_OK || found)
        return code;
    m->head_dim = r->family->default_head_dim;
    if (m->head_dim > 0)
        return TPP_OK;
    if (m->hidden_size % m->num_attention_heads != 0)
        return tpp_json_fail(r->config, err, TPP_E_RANGE, "the heads must divide the hidden size, or give \"head_dim\"",
                             "%" PRIu32 " heads do not divide hidden size %" PRIu32, m->num_attention_heads,
                             m->hidden_size);
    m->head_dim = m->hidden_size / m->num_attention_heads;
    return TPP_OK;
}

/* The width may be missing where no layer has a dense MLP: read_ffn_needed asks later. */
static enum tpp_code read_ffn(const struct reading *r, struct tpp_error *err)
{
    struct tpp_model *m = r->model;
    m->ffn_hidden_size = tpp_model_product(r->family->keys->ffn_per_hidden, m->hidden_size);
    bool found = false;
    return tpp_model_get_size(r->config, &r->family->keys->ffn, 1, TPP_MODEL_MAX_WIDTH, &m->ffn_hidden_size, &found,
                              err);
}

static enum tpp_code read_sizes(const struct reading *r, struct tpp_error *err)
{
    const struct tpp_model_family *f = r->family;
    const struct tpp_model_keys *keys = f->keys;
    struct tpp_model *m = r->model;
    enum tpp_code code = read_size(r, &keys->layers, TPP_MODEL_MAX_LAYERS, 0, &m->num_layers, err);
    if (code == TPP_OK)
        code = read_size(r, &keys->hidden, TPP_MODEL_MAX_HIDDEN, 0, &m->hidden_size, err);
    if (code == TPP_OK)
        code = read_size(r, &keys->heads, TPP_MODEL_MAX_HEADS, f->default_heads, &m->num_attention_heads, err);
    if (code == TPP_OK)
        code = read_size(r, &keys->groups, TPP_MODEL_MAX_HEADS, default_groups(r), &m->num_query_groups, err);
    if (code == TPP_OK)
        code = read_size(r, &keys->vocab, TPP_MODEL_MAX_WIDTH, f->default_vocab, &m->vocab_size, err);
    if (code == TPP_OK && !f->is_latent)
        code = read_head_dim(r, err);
    if (code == TPP_OK)
        code = read_ffn(r, err);
    return code;
}

static enum tpp_code read_latent(const struct reading *r, struct tpp_error *err)
{
    static const struct tpp_model_names kv_rank = {{"kv_lora_rank"}}, nope = {{"qk_nope_head_dim"}},
                                        rope = {{"qk_rope_head_dim"}}, value = {{"v_head_dim"}};
    struct tpp_model *m = r->model;
    if (!r->family->is_latent)
        return TPP_OK;
    struct tpp_json place;
    const uint32_t value_default = r->family->value_is_hidden ? m->hidden_size / m->num_attention_heads : 0;
    if (r->family->needs_q_rank && !tpp_json_member(r->config, "q_lora_rank", &place) &&
        !tpp_model_is_null(r->config, "q_lora_rank"))
        return missing(r, "q_lora_rank", err);
    enum tpp_code code = tpp_model_get_u32(r->config, "q_lora_rank", 0, TPP_MODEL_MAX_HIDDEN, &m->q_lora_rank, err);
    if (code == TPP_OK)
        code = read_size(r, &kv_rank, TPP_MODEL_MAX_HIDDEN, 0, &m->kv_lora_rank, err);
    if (code == TPP_OK)
        code = read_size(r, &nope, TPP_MODEL_MAX_HEADS, 0, &m->qk_nope_head_dim, err);
    if (code == TPP_OK)
        code = read_size(r, &rope, TPP_MODEL_MAX_HEADS, 0, &m->qk_rope_head_dim, err);
    if (code == TPP_OK)
        code = read_size(r, &value, TPP_MODEL_MAX_HEADS, value_default, &m->v_head_dim, err);
    m->head_dim = m->qk_nope_head_dim + m->qk_rope_head_dim;
    m->num_query_groups = m->num_attention_heads; /* every head has its own keys after the up-projection */
    return code;
}

/* rope_theta and the rest, from the config itself or (newer files) from rope_parameters. */
static enum tpp_code read_rotary_number(const struct reading *r, const char *key, double min, double max, double *out,
                                        struct tpp_error *err)
{
    struct tpp_json parameters;
    if (tpp_json_member(r->config, "rope_parameters", &parameters) && tpp_json_is_object(parameters)) {
        enum tpp_code code = tpp_json_get_number(parameters, key, min, max, out, err);
        if (code != TPP_OK)
            return code;
    }
    return tpp_json_get_number(r->config, key, min, max, out, err);
}

static enum tpp_code read_rotary(const struct reading *r, struct tpp_error *err)
{
    struct tpp_model *m = r->model;
    uint32_t rotary_dim = 0;
    m->rope_theta = r->family->default_theta > 0 ? r->family->default_theta : 10000;
    m->rotary_fraction = r->family->default_rotary_fraction > 0 ? r->family->default_rotary_fraction : 1;
    if (m->kv_lora_rank > 0)
        m->rotary_fraction = (double)m->qk_rope_head_dim / m->head_dim;
    enum tpp_code code = read_rotary_number(r, "rotary_emb_base", 1, 1e15, &m->rope_theta, err);
    if (code == TPP_OK)
        code = read_rotary_number(r, "rope_theta", 1, 1e15, &m->rope_theta, err);
    if (code == TPP_OK)
        code = read_rotary_number(r, "rotary_pct", 1e-6, 1, &m->rotary_fraction, err);
    if (code == TPP_OK)
        code = read_rotary_number(r, "partial_rotary_factor", 1e-6, 1, &m->rotary_fraction, err);
    if (code == TPP_OK)
        code = tpp_model_get_u32(r->config, "rotary_dim", 1, m->head_dim, &rotary_dim, err);
    if (rotary_dim > 0)
        m->rotary_fraction = (double)rotary_dim / m->head_dim;
    return code;
}

static enum tpp_code read_positions(const struct reading *r, struct tpp_error *err)
{
    struct tpp_model *m = r->model;
    bool found = false;
    m->position = r->family->position;
    m->max_position_embeddings = r->family->default_positions;
    enum tpp_code code = tpp_model_get_size(r->config, &r->family->keys->positions, 1, TPP_MODEL_MAX_POSITIONS,
                                            &m->max_position_embeddings, &found, err);
    if (code != TPP_OK)
        return code;
    if (m->position == TPP_POSITION_LEARNED)
        m->learned_position_rows = m->max_position_embeddings;
    return m->position == TPP_POSITION_ROPE ? read_rotary(r, err) : TPP_OK;
}

/* Every family has its own name for the epsilon of its norms. */
static enum tpp_code read_norms(const struct reading *r, struct tpp_error *err)
{
    static const char *const names[] = {"rms_norm_eps",      "layer_norm_eps", "layer_norm_epsilon",
                                        "layernorm_epsilon", "norm_epsilon",   "norm_eps"};
    struct tpp_model *m = r->model;
    m->norm = r->family->norm;
    m->norms_per_layer = r->family->norms_per_layer;
    m->final_norm = true;
    m->embedding_norm = r->family->embedding_norm;
    m->parallel_block = r->family->is_parallel;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        enum tpp_code code = tpp_json_get_number(r->config, names[i], 0, 1, &m->norm_epsilon, err);
        if (code != TPP_OK)
            return code;
    }
    return TPP_OK;
}

static const struct {
    const char *name;
    enum tpp_activation activation;
} activations[] = {
    {"silu", TPP_ACTIVATION_SILU},
    {"swish", TPP_ACTIVATION_SILU},
    {"swiglu", TPP_ACTIVATION_SILU},
    {"gelu", TPP_ACTIVATION_GELU},
    {"gelu_new", TPP_ACTIVATION_GELU},
    {"gelu_fast", TPP_ACTIVATION_GELU},
    {"gelu_pytorch_tanh", TPP_ACTIVATION_GELU},
    {"gelu_10", TPP_ACTIVATION_GELU},
    {"quick_gelu", TPP_ACTIVATION_GELU},
    {"gelu_python", TPP_ACTIVATION_GELU},
    {"gelu_accurate", TPP_ACTIVATION_GELU},
    {"geglu", TPP_ACTIVATION_GELU},
    {"relu", TPP_ACTIVATION_RELU},
    {"relu2", TPP_ACTIVATION_SQUARED_RELU},
    {"squared_relu", TPP_ACTIVATION_SQUARED_RELU},
};

static enum tpp_code read_activation(const struct reading *r, struct tpp_error *err)
{
    static const char *const keys[] = {"hidden_activation", "hidden_act", "activation_function", "activation"};
    struct tpp_json place;
    const char *name;
    size_t k = 0;
    r->model->activation = r->family->activation;
    r->model->gated_mlp = r->family->is_gated;
    while (k < sizeof(keys) / sizeof(keys[0]) && !tpp_json_member(r->config, keys[k], &place))
        k++;
    if (k == sizeof(keys) / sizeof(keys[0]))
        return TPP_OK;
    enum tpp_code code = tpp_json_as_string(place, &name, err);
    if (code != TPP_OK)
        return code;
    for (size_t i = 0; i < sizeof(activations) / sizeof(activations[0]); i++) {
        if (strcmp(activations[i].name, name) == 0) {
            r->model->activation = activations[i].activation;
            return TPP_OK;
        }
    }
    return tpp_json_fail(place, err, TPP_E_UNSUPPORTED, "known are silu, gelu and its variants, relu, relu2",
                         "activation \"%s\" is not known", name);
}

static enum tpp_code read_biases(const struct reading *r, struct tpp_error *err)
{
    unsigned parts = r->family->biases;
    for (size_t i = 0; i < sizeof(r->family->bias_keys) / sizeof(r->family->bias_keys[0]); i++) {
        const struct tpp_model_bias_key *key = &r->family->bias_keys[i];
        struct tpp_json place;
        bool is_on;
        if (key->key == NULL || !tpp_json_member(r->config, key->key, &place))
            continue;
        enum tpp_code code = tpp_json_as_bool(place, &is_on, err);
        if (code != TPP_OK)
            return code;
        parts = is_on != key->is_inverted ? parts | key->parts : parts & ~key->parts;
    }
    r->model->qkv_bias = (parts & TPP_BIAS_QKV) != 0;
    r->model->output_bias = (parts & TPP_BIAS_OUTPUT) != 0;
    r->model->mlp_bias = (parts & TPP_BIAS_MLP) != 0;
    r->model->lm_head_bias = (parts & TPP_BIAS_LM_HEAD) != 0;
    return TPP_OK;
}

/* Norms of q and k are of the kind of the other norms, with a bias where those have one. */
static enum tpp_code read_qk_norm(const struct reading *r, struct tpp_error *err)
{
    struct tpp_model *m = r->model;
    const uint64_t vectors = m->norm == TPP_NORM_LAYER ? 2 : 1;
    if (r->family->qk_norm == TPP_QK_NORM_NONE)
        return TPP_OK;
    m->qk_norm = r->family->qk_norm_key == NULL || r->family->qk_norm_default;
    if (r->family->qk_norm_key != NULL) {
        enum tpp_code code = tpp_json_get_bool(r->config, r->family->qk_norm_key, &m->qk_norm, err);
        if (code != TPP_OK)
            return code;
    }
    if (!m->qk_norm || r->family->qk_norm == TPP_QK_NORM_NO_WEIGHTS)
        return TPP_OK;
    if (r->family->qk_norm == TPP_QK_NORM_PER_HEAD)
        m->qk_norm_elements = tpp_model_product(2 * vectors, m->head_dim);
    else
        m->qk_norm_elements =
            tpp_model_product(vectors * ((uint64_t)m->num_attention_heads + m->num_query_groups), m->head_dim);
    return TPP_OK;
}

/* layer_types says for each layer what it attends to; anything but full and windowed attention is a hybrid. */
static enum tpp_code count_layer_types(const struct reading *r, struct tpp_json list, uint32_t *windowed,
                                       struct tpp_error *err)
{
    struct tpp_json item;
    const char *type;
    if (!tpp_json_is_array(list) || tpp_json_size(list) != r->model->num_layers)
        return tpp_json_fail(list, err, TPP_E_RANGE, "give a list with one name a layer",
                             "\"layer_types\" is not a list of %" PRIu32 " names", r->model->num_layers);
    *windowed = 0;
    for (size_t i = 0; tpp_json_at(list, i, &item, NULL); i++) {
        enum tpp_code code = tpp_json_as_string(item, &type, err);
        if (code != TPP_OK)
            return code;
        if (strcmp(type, "sliding_attention") == 0 || strcmp(type, "chunked_attention") == 0)
            (*windowed)++;
        else if (strcmp(type, "full_attention") != 0)
            return tpp_json_fail(item, err, TPP_E_UNSUPPORTED,
                                 "only transformers with softmax attention in every "
                                 "layer can be costed",
                                 "a layer of type \"%s\" makes this a hybrid", type);
    }
    return TPP_OK;
}

/* Number of layers with a window when the file does not list them. */
static enum tpp_code count_windowed(const struct reading *r, uint32_t *windowed, struct tpp_error *err)
{
    uint32_t layers = r->model->num_layers, period = r->family->window_period, first = 28; /* class default of Qwen */
    bool is_used = false;
    enum tpp_code code = TPP_OK;
    switch (r->family->window) {
    case TPP_WINDOW_NONE:
        *windowed = 0;
        break;
    case TPP_WINDOW_ALL:
        *windowed = layers;
        break;
    case TPP_WINDOW_PATTERN:
        code = tpp_model_get_u32(r->config, "sliding_window_pattern", 1, TPP_MODEL_MAX_LAYERS, &period, err);
        *windowed = layers - layers / period;
        break;
    case TPP_WINDOW_FROM_LAYER:
        code = tpp_json_get_bool(r->config, "use_sliding_window", &is_used, err);
        if (code == TPP_OK)
            code = tpp_model_get_u32(r->config, "max_window_layers", 0, TPP_MODEL_MAX_POSITIONS, &first, err);
        *windowed = is_used && first < layers ? layers - first : 0;
        break;
    }
    return code;
}

static enum tpp_code read_window(const struct reading *r, struct tpp_error *err)
{
    const char *key = r->family->window_key != NULL ? r->family->window_key : "sliding_window";
    uint32_t window = tpp_model_is_null(r->config, key) ? 0 : r->family->window_default, windowed = 0;
    struct tpp_json list;
    const bool has_list = tpp_json_member(r->config, "layer_types", &list);
    enum tpp_code code = has_list ? count_layer_types(r, list, &windowed, err) : count_windowed(r, &windowed, err);
    if (code == TPP_OK)
        code = tpp_model_get_u32(r->config, key, 0, TPP_MODEL_MAX_POSITIONS, &window, err);
    if (code == TPP_OK && has_list && windowed > 0 && window == 0)
        return missing(r, key, err);
    if (window > 0 && windowed > 0) {
        r->model->sliding_window = window;
        r->model->sliding_window_layers = windowed;
    }
    return code;
}

static enum tpp_code read_tied(const struct reading *r, struct tpp_error *err)
{
    r->model->tied_embeddings = r->family->is_tied;
    enum tpp_code code = tpp_json_get_bool(r->root, "tie_word_embeddings", &r->model->tied_embeddings, err);
    if (code == TPP_OK)
        code = tpp_json_get_bool(r->config, "tie_word_embeddings", &r->model->tied_embeddings, err);
    return code;
}

static enum tpp_code read_rest(const struct reading *r, struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    const char *key;
    if (r->family->experts != NULL)
        code = tpp_model_read_experts(r->config, r->family->experts, r->model, err);
    else if (tpp_model_find_expert_key(r->config, &key))
        code = tpp_json_fail(r->config, err, TPP_E_UNSUPPORTED, "use the model_type of the family with experts",
                             "\"%s\" counts experts, but %s models have none", key, r->model->family);
    if (code == TPP_OK && r->family->has_mtp)
        code = tpp_model_get_u32(r->config, "num_nextn_predict_layers", 0, TPP_MODEL_MAX_MTP_LAYERS,
                                 &r->model->mtp_num_layers, err);
    if (r->family->has_sinks)
        r->model->attention_sink_elements = r->model->num_attention_heads;
    if (code == TPP_OK && r->family->finish != NULL)
        code = r->family->finish(r->config, r->model, err);
    return code;
}

/* A dense layer needs a width; where every layer has experts the key is there without a use. */
static enum tpp_code settle_ffn(const struct reading *r, struct tpp_error *err)
{
    bool has_dense_layer = false;
    for (uint32_t i = 0; i < r->model->num_layers && !has_dense_layer; i++)
        has_dense_layer = !tpp_model_layer_is_moe(r->model, i);
    if (!has_dense_layer)
        r->model->ffn_hidden_size = 0;
    else if (r->model->ffn_hidden_size == 0)
        return missing(r, r->family->keys->ffn.name[0], err);
    return TPP_OK;
}

enum tpp_code tpp_model_read_shape(struct tpp_json config, struct tpp_json root, const struct tpp_model_family *family,
                                   struct tpp_model *model, struct tpp_error *err)
{
    static enum tpp_code (*const steps[])(const struct reading *, struct tpp_error *) = {
        read_sizes,   read_latent, read_positions, read_norms, read_activation, read_biases,
        read_qk_norm, read_window, read_tied,      read_rest,  settle_ffn};
    const struct reading reading = {config, root, family, model};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        enum tpp_code code = steps[i](&reading, err);
        if (code != TPP_OK)
            return code;
    }
    return TPP_OK;
}
