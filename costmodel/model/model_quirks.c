/* What no column of the family table can say: one function a family, run after the columns were applied. */
#include "costmodel/model/model_families.h"
#include "costmodel/model/model_fields.h"
#include "costmodel/model/model_keys.h"

#include <inttypes.h>
#include <string.h>

static void use_alibi(struct tpp_model *model)
{
    model->position = TPP_POSITION_ALIBI;
    model->learned_position_rows = 0;
    model->rope_theta = 0;
    model->rotary_fraction = 0;
}

/* The 7B models are rotary and have max_position_embeddings; the 13B models use ALiBi and have model_max_length only.
 */
enum tpp_code tpp_model_finish_baichuan(struct tpp_json config, struct tpp_model *model, struct tpp_error *err)
{
    if (model->max_position_embeddings > 0)
        return TPP_OK;
    use_alibi(model);
    return tpp_model_get_u32(config, "model_max_length", 1, TPP_MODEL_MAX_POSITIONS, &model->max_position_embeddings,
                             err);
}

enum tpp_code tpp_model_finish_chatglm(struct tpp_json config, struct tpp_model *model, struct tpp_error *err)
{
    bool grouped = false, rms_norm = true, qkv_bias = false;
    double rope_ratio = 1;
    enum tpp_code code = tpp_json_get_bool(config, "multi_query_attention", &grouped, err);
    if (code == TPP_OK)
        code = tpp_json_get_bool(config, "rmsnorm", &rms_norm, err);
    if (code == TPP_OK)
        code = tpp_json_get_bool(config, "add_qkv_bias", &qkv_bias, err);
    if (code == TPP_OK)
        code = tpp_json_get_bool(config, "post_layer_norm", &model->final_norm, err);
    if (code == TPP_OK)
        code = tpp_json_get_number(config, "rope_ratio", 1e-3, 1e6, &rope_ratio, err);
    if (code == TPP_OK && grouped) {
        model->num_query_groups = 1;
        code =
            tpp_model_get_u32(config, "multi_query_group_num", 1, TPP_MODEL_MAX_HEADS, &model->num_query_groups, err);
    }
    model->norm = rms_norm ? TPP_NORM_RMS : TPP_NORM_LAYER;
    model->qkv_bias = model->qkv_bias || qkv_bias;
    model->rope_theta *= rope_ratio;
    return code;
}

/* Three generations: 7B one key/value head and one norm, 40B and 180B groups and two parallel norms, the first 1B
 * neither parallel nor multi-query. num_kv_heads counts in the newer architecture only. */
enum tpp_code tpp_model_finish_falcon(struct tpp_json config, struct tpp_model *model, struct tpp_error *err)
{
    bool is_new = false, multi_query = true, parallel = true, alibi = false;
    uint32_t parallel_norms = 2;
    enum tpp_code code = tpp_json_get_bool(config, "new_decoder_architecture", &is_new, err);
    if (code == TPP_OK)
        code = tpp_json_get_bool(config, "multi_query", &multi_query, err);
    if (code == TPP_OK)
        code = tpp_json_get_bool(config, "parallel_attn", &parallel, err);
    if (code == TPP_OK)
        code = tpp_json_get_bool(config, "alibi", &alibi, err);
    if (code == TPP_OK)
        code = tpp_model_get_u32(config, "num_ln_in_parallel_attn", 1, 2, &parallel_norms, err);
    if (code != TPP_OK)
        return code;
    if (!is_new)
        model->num_query_groups = multi_query ? 1 : model->num_attention_heads;
    model->parallel_block = is_new || parallel;
    model->norms_per_layer = is_new ? parallel_norms : parallel ? 1 : 2;
    if (alibi)
        use_alibi(model);
    return TPP_OK;
}

enum tpp_code tpp_model_finish_gpt_bigcode(struct tpp_json config, struct tpp_model *model, struct tpp_error *err)
{
    bool multi_query = true;
    enum tpp_code code = tpp_json_get_bool(config, "multi_query", &multi_query, err);
    model->num_query_groups = multi_query ? 1 : model->num_attention_heads;
    return code;
}

enum tpp_code tpp_model_finish_gpt_neox(struct tpp_json config, struct tpp_model *model, struct tpp_error *err)
{
    return tpp_json_get_bool(config, "use_parallel_residual", &model->parallel_block, err);
}

/* Attention settings of MPT (llm-foundry) live in attn_config. */
static enum tpp_code read_mpt_attention(struct tpp_json attention, struct tpp_model *model, struct tpp_error *err)
{
    bool alibi = false, rope = false, full_norm = false, group_norm = false;
    const char *type = "multihead_attention";
    struct tpp_json place;
    enum tpp_code code = tpp_json_get_bool(attention, "rope", &rope, err);
    if (code == TPP_OK && !rope && !tpp_json_member(attention, "alibi", &place)) /* the two classes of MPT differ */
        return tpp_json_fail(attention, err, TPP_E_MISSING, "add \"alibi\": true, or false for learned positions",
                             "\"alibi\" is missing");
    if (code == TPP_OK)
        code = tpp_json_get_bool(attention, "alibi", &alibi, err);
    if (code == TPP_OK)
        code = tpp_json_get_bool(attention, "qk_ln", &full_norm, err);
    if (code == TPP_OK)
        code = tpp_json_get_bool(attention, "qk_gn", &group_norm, err);
    if (code == TPP_OK)
        code = tpp_json_get_string(attention, "attn_type", &type, err);
    if (code != TPP_OK)
        return code;
    if (full_norm || group_norm)
        return tpp_json_fail(attention, err, TPP_E_UNSUPPORTED, "give the shape in the compact form instead",
                             "norms of queries and keys in an mpt config are not known");
    if (strcmp(type, "multiquery_attention") == 0) {
        model->num_query_groups = 1;
    } else {
        code = tpp_model_get_u32(attention, "kv_n_heads", 1, TPP_MODEL_MAX_HEADS, &model->num_query_groups, err);
        if (code != TPP_OK)
            return code;
    }
    if (alibi) {
        use_alibi(model);
    } else if (rope) {
        model->position = TPP_POSITION_ROPE;
        model->learned_position_rows = 0;
        model->rotary_fraction = 1;
        model->rope_theta = 10000;
        return tpp_json_get_number(attention, "rope_theta", 1, 1e15, &model->rope_theta, err);
    }
    return TPP_OK;
}

static enum tpp_code read_mpt_mlp(struct tpp_json config, struct tpp_model *model, struct tpp_error *err)
{
    double ratio = 4;
    const char *type = "mptmlp";
    struct tpp_json ffn;
    enum tpp_code code = tpp_json_get_number(config, "expansion_ratio", 1e-3, 1000, &ratio, err);
    if (code != TPP_OK)
        return code;
    const double width = ratio * model->hidden_size;
    if (width < 1 || width > TPP_MODEL_MAX_WIDTH)
        return tpp_json_fail(config, err, TPP_E_RANGE, "give an expansion_ratio near 4",
                             "expansion_ratio %g makes an MLP of width %g", ratio, width);
    model->ffn_hidden_size = (uint32_t)width; /* llm-foundry cuts it to an integer too */
    if (!tpp_json_member(config, "ffn_config", &ffn))
        return TPP_OK;
    code = tpp_json_get_string(ffn, "ffn_type", &type, err);
    if (code == TPP_OK)
        code = tpp_model_get_u32(ffn, "ffn_hidden_size", 1, TPP_MODEL_MAX_WIDTH, &model->ffn_hidden_size, err);
    if (code != TPP_OK)
        return code;
    if (strcmp(type, "mptglu") != 0 && strcmp(type, "mptmlp") != 0)
        return tpp_json_fail(ffn, err, TPP_E_UNSUPPORTED, "known are mptmlp and mptglu", "ffn_type \"%s\" is not known",
                             type);
    model->gated_mlp = strcmp(type, "mptglu") == 0;
    return TPP_OK;
}

/* no_bias also drops the biases of the norms. Positions: ALiBi, rotary, or a table when neither is on. */
enum tpp_code tpp_model_finish_mpt(struct tpp_json config, struct tpp_model *model, struct tpp_error *err)
{
    const char *norm = "low_precision_layernorm";
    struct tpp_json attention;
    bool learned = true;
    enum tpp_code code = tpp_json_need_object(config, "attn_config", &attention, err);
    if (code == TPP_OK)
        code = read_mpt_attention(attention, model, err);
    if (code == TPP_OK)
        code = read_mpt_mlp(config, model, err);
    if (code == TPP_OK)
        code = tpp_json_get_bool(config, "learned_pos_emb", &learned, err);
    if (code == TPP_OK)
        code = tpp_json_get_string(config, "norm_type", &norm, err);
    if (code != TPP_OK)
        return code;
    if (strstr(norm, "rmsnorm") != NULL)
        model->norm = TPP_NORM_RMS;
    else if (!model->mlp_bias)
        model->norm = TPP_NORM_LAYER_NO_BIAS;
    if (model->position == TPP_POSITION_LEARNED && !learned) {
        model->position = TPP_POSITION_NONE;
        model->learned_position_rows = 0;
    }
    return TPP_OK;
}

/* Two rows more than positions (the padding offset of the original code). OPT-350M normalises after the block, without
 * a final norm, and projects its embeddings: the projection is not described. */
enum tpp_code tpp_model_finish_opt(struct tpp_json config, struct tpp_model *model, struct tpp_error *err)
{
    bool norm_before = true, affine = true;
    uint32_t projection = model->hidden_size;
    enum tpp_code code = tpp_json_get_bool(config, "do_layer_norm_before", &norm_before, err);
    if (code == TPP_OK)
        code = tpp_json_get_bool(config, "layer_norm_elementwise_affine", &affine, err);
    if (code == TPP_OK)
        code = tpp_model_get_u32(config, "word_embed_proj_dim", 1, TPP_MODEL_MAX_HIDDEN, &projection, err);
    if (code != TPP_OK)
        return code;
    if (projection != model->hidden_size)
        return tpp_json_fail(config, err, TPP_E_UNSUPPORTED, "only word_embed_proj_dim == hidden_size is known",
                             "\"word_embed_proj_dim\" is %" PRIu32 ", \"hidden_size\" is %" PRIu32, projection,
                             model->hidden_size);
    model->final_norm = norm_before;
    if (!affine)
        model->norm = TPP_NORM_NO_PARAMETERS;
    model->learned_position_rows = model->max_position_embeddings + 2;
    return TPP_OK;
}

/* Qwen v1: intermediate_size is the sum of the two gated halves. */
enum tpp_code tpp_model_finish_qwen(struct tpp_json config, struct tpp_model *model, struct tpp_error *err)
{
    if (model->ffn_hidden_size % 2 != 0)
        return tpp_json_fail(config, err, TPP_E_RANGE, "it is the sum of the two gated halves, so it is even",
                             "\"intermediate_size\" %" PRIu32 " of a qwen config is odd", model->ffn_hidden_size);
    model->ffn_hidden_size /= 2;
    return TPP_OK;
}

/* The norms of queries and keys have one vector a head, without biases. */
enum tpp_code tpp_model_finish_stablelm(struct tpp_json config, struct tpp_model *model, struct tpp_error *err)
{
    enum tpp_code code = tpp_json_get_bool(config, "use_parallel_residual", &model->parallel_block, err);
    if (code == TPP_OK)
        code = tpp_json_get_bool(config, "qk_layernorm", &model->qk_norm, err);
    if (model->parallel_block)
        model->norms_per_layer = 1;
    if (model->qk_norm)
        model->qk_norm_elements =
            tpp_model_product((uint64_t)model->num_attention_heads + model->num_query_groups, model->head_dim);
    return code;
}
