#include "costmodel/model/model_experts.h"

#include "costmodel/model/model_fields.h"
#include "costmodel/model/model_keys.h"

#include <inttypes.h>
#include <stdio.h>

/* Which layers have experts, before it is put into tpp_model's two numbers. */
struct pattern {
    uint32_t num_layers;
    bool has_experts[TPP_MODEL_MAX_LAYERS];
};

static enum tpp_code fail_missing(struct tpp_json config, const char *key, struct tpp_error *err)
{
    char hint[96];
    snprintf(hint, sizeof(hint), "add \"%s\": a config with experts needs it", key);
    return tpp_json_fail(config, err, TPP_E_MISSING, hint, "\"%s\" is missing", key);
}

static enum tpp_code need_size(struct tpp_json config, const struct tpp_model_names *names, uint32_t max, uint32_t *out,
                               struct tpp_error *err)
{
    bool found = false;
    enum tpp_code code = tpp_model_get_size(config, names, 1, max, out, &found, err);
    return code == TPP_OK && !found ? fail_missing(config, names->name[0], err) : code;
}

/* The keys without which a class would put in a number of its own. */
static enum tpp_code need_layout(struct tpp_json config, const struct tpp_model_expert_keys *keys,
                                 struct tpp_error *err)
{
    const char *const needed[] = {keys->first_k_dense, keys->shared_count, keys->shared_size};
    struct tpp_json place;
    for (size_t i = 0; keys->needs_layout && i < sizeof(needed) / sizeof(needed[0]); i++) {
        if (needed[i] != NULL && !tpp_json_member(config, needed[i], &place) && !tpp_model_is_null(config, needed[i]))
            return fail_missing(config, needed[i], err);
    }
    return TPP_OK;
}

/* A list of layer numbers: every layer of it gets `value`, after the others got the opposite when `fill` is set. */
static enum tpp_code apply_layer_list(struct tpp_json config, const char *key, bool value, bool fill,
                                      struct pattern *pattern, struct tpp_error *err)
{
    struct tpp_json list, item;
    if (key == NULL || !tpp_json_member(config, key, &list))
        return TPP_OK;
    if (!tpp_json_is_array(list))
        return tpp_json_fail(list, err, TPP_E_TYPE, "give a list of layer numbers", "\"%s\" is not a list", key);
    for (uint32_t i = 0; fill && i < pattern->num_layers; i++)
        pattern->has_experts[i] = !value;
    const size_t count = tpp_json_size(list);
    if (count > pattern->num_layers)
        return tpp_json_fail(list, err, TPP_E_RANGE, "name each layer once",
                             "\"%s\" has %zu entries for %" PRIu32 " layers", key, count, pattern->num_layers);
    for (size_t i = 0; i < count && tpp_json_at(list, i, &item, NULL); i++) {
        uint64_t layer;
        enum tpp_code code = tpp_json_as_u64(item, 0, pattern->num_layers - 1, &layer, err);
        if (code != TPP_OK)
            return code;
        pattern->has_experts[layer] = value;
    }
    return TPP_OK;
}

/* One 0 or 1 a layer. */
static enum tpp_code apply_flags(struct tpp_json list, struct pattern *pattern, struct tpp_error *err)
{
    struct tpp_json item;
    if (tpp_json_size(list) != pattern->num_layers)
        return tpp_json_fail(list, err, TPP_E_RANGE, "give one 0 or 1 a layer", "%zu entries for %" PRIu32 " layers",
                             tpp_json_size(list), pattern->num_layers);
    for (uint32_t i = 0; i < pattern->num_layers && tpp_json_at(list, i, &item, NULL); i++) {
        uint64_t flag;
        enum tpp_code code = tpp_json_as_u64(item, 0, 1, &flag, err);
        if (code != TPP_OK)
            return code;
        pattern->has_experts[i] = pattern->has_experts[i] && flag == 1;
    }
    return TPP_OK;
}

/* DeepSeek: layer i has experts when i >= first_k_dense_replace and i % moe_layer_freq == 0; or flags, one a layer. */
static enum tpp_code apply_frequency(struct tpp_json config, const char *key, struct pattern *pattern,
                                     struct tpp_error *err)
{
    struct tpp_json place;
    uint64_t frequency;
    if (key == NULL || !tpp_json_member(config, key, &place))
        return TPP_OK;
    if (tpp_json_is_array(place))
        return apply_flags(place, pattern, err);
    enum tpp_code code = tpp_json_as_u64(place, 1, TPP_MODEL_MAX_LAYERS, &frequency, err);
    for (uint32_t i = 0; code == TPP_OK && i < pattern->num_layers; i++)
        pattern->has_experts[i] = pattern->has_experts[i] && i % frequency == 0;
    return code;
}

static enum tpp_code read_pattern(struct tpp_json config, const struct tpp_model_expert_keys *keys,
                                  struct pattern *pattern, struct tpp_error *err)
{
    uint32_t first = 0, period = 1;
    enum tpp_code code = TPP_OK;
    if (keys->first_k_dense != NULL)
        code = tpp_model_get_u32(config, keys->first_k_dense, 0, TPP_MODEL_MAX_LAYERS, &first, err);
    if (code == TPP_OK && keys->period != NULL)
        code = tpp_model_get_u32(config, keys->period, 1, TPP_MODEL_MAX_LAYERS, &period, err);
    for (uint32_t i = 0; i < pattern->num_layers; i++)
        pattern->has_experts[i] = i >= first && (i + 1) % period == 0;
    if (code == TPP_OK)
        code = apply_frequency(config, keys->frequency, pattern, err);
    if (code == TPP_OK)
        code = apply_layer_list(config, keys->expert_layers, true, true, pattern, err);
    if (code == TPP_OK)
        code = apply_layer_list(config, keys->dense_layers, false, false, pattern, err);
    return code;
}

static bool pattern_is(const struct pattern *pattern, uint32_t first_k_dense, uint32_t period)
{
    for (uint32_t i = 0; i < pattern->num_layers; i++) {
        if (pattern->has_experts[i] != (i >= first_k_dense && (i + 1) % period == 0))
            return false;
    }
    return true;
}

/* The index of the first layer with experts from `start` on; num_layers when there is none. */
static uint32_t next_expert_layer(const struct pattern *pattern, uint32_t start)
{
    while (start < pattern->num_layers && !pattern->has_experts[start])
        start++;
    return start;
}

/* Puts the pattern into first_k_dense and moe_layer_period: the distance of the first two layers with experts is the
 * only period possible; layers before the first one are dense by number only when the period does not say so already.
 */
static bool fit_pattern(const struct pattern *pattern, struct tpp_model *model)
{
    const uint32_t first = next_expert_layer(pattern, 0), second = next_expert_layer(pattern, first + 1);
    const uint32_t period = second < pattern->num_layers ? second - first : first + 1;
    model->moe_layer_period = period;
    model->first_k_dense = first + 1 == period ? 0 : first;
    return first < pattern->num_layers && pattern_is(pattern, model->first_k_dense, period);
}

static enum tpp_code read_layers(struct tpp_json config, const struct tpp_model_expert_keys *keys,
                                 struct tpp_model *model, struct tpp_error *err)
{
    struct pattern pattern = {.num_layers = model->num_layers};
    enum tpp_code code = read_pattern(config, keys, &pattern, err);
    if (code == TPP_OK && !fit_pattern(&pattern, model))
        return tpp_json_fail(config, err, TPP_E_UNSUPPORTED,
                             "known are: the first layers dense, then every n-th layer i with (i + 1) % n == 0",
                             next_expert_layer(&pattern, 0) == pattern.num_layers
                                 ? "no layer is left for the experts"
                                 : "the layers with experts follow no pattern that can be described");
    return code;
}

static enum tpp_code read_shared(struct tpp_json config, const struct tpp_model_expert_keys *keys,
                                 struct tpp_model *model, struct tpp_error *err)
{
    uint32_t count = keys->always_shared ? 1 : 0;
    if (keys->shared_size != NULL)
        return tpp_model_get_u32(config, keys->shared_size, 0, TPP_MODEL_MAX_WIDTH, &model->shared_expert_hidden_size,
                                 err);
    if (keys->shared_count != NULL) {
        enum tpp_code code = tpp_model_get_u32(config, keys->shared_count, 0, TPP_MODEL_MAX_HEADS, &count, err);
        if (code != TPP_OK)
            return code;
    }
    model->shared_expert_hidden_size = tpp_model_product(count, model->moe_ffn_hidden_size);
    return TPP_OK;
}

/* One group, or all groups, is no limit. */
static enum tpp_code read_groups(struct tpp_json config, const struct tpp_model_expert_keys *keys,
                                 struct tpp_model *model, struct tpp_error *err)
{
    uint32_t groups = 0, chosen = 0;
    bool found = false;
    if (keys->groups.name[0] == NULL)
        return TPP_OK;
    enum tpp_code code = tpp_model_get_size(config, &keys->groups, 0, TPP_MODEL_MAX_HEADS, &groups, &found, err);
    if (code == TPP_OK)
        code = tpp_model_get_size(config, &keys->groups_per_token, 0, TPP_MODEL_MAX_HEADS, &chosen, &found, err);
    if (code == TPP_OK && chosen > 0 && groups > 1 && chosen != groups) {
        model->expert_groups = groups;
        model->groups_per_token = chosen;
    }
    return code;
}

enum tpp_code tpp_model_read_experts(struct tpp_json config, const struct tpp_model_expert_keys *keys,
                                     struct tpp_model *model, struct tpp_error *err)
{
    bool found = false;
    enum tpp_code code =
        tpp_model_get_size(config, &keys->experts, 0, TPP_MODEL_MAX_HEADS, &model->num_experts, &found, err);
    if (code != TPP_OK || (found && model->num_experts == 0))
        return code;
    if (!found && keys->may_be_null && tpp_model_is_null(config, keys->experts.name[0]))
        return TPP_OK;
    if (!found)
        return fail_missing(config, keys->experts.name[0], err);
    code = need_layout(config, keys, err);
    if (code == TPP_OK)
        code = need_size(config, &keys->per_token, TPP_MODEL_MAX_HEADS, &model->experts_per_token, err);
    if (code == TPP_OK)
        code = need_size(config, &keys->ffn, TPP_MODEL_MAX_WIDTH, &model->moe_ffn_hidden_size, err);
    if (code == TPP_OK)
        code = read_groups(config, keys, model, err);
    if (code == TPP_OK)
        code = read_shared(config, keys, model, err);
    if (code == TPP_OK)
        code = read_layers(config, keys, model, err);
    model->shared_expert_gate = keys->gate && model->shared_expert_hidden_size > 0;
    model->router_bias = keys->router_bias;
    model->expert_bias = keys->expert_bias;
    return code;
}
