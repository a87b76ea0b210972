#include "costmodel/model/model_json.h"

#include "costmodel/model/model_fields.h"
#include "costmodel/model/model_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_written(const struct tpp_model *model, enum tpp_model_field_group group)
{
    if (group == TPP_FIELD_EXPERTS)
        return model->num_experts > 0;
    if (group == TPP_FIELD_LATENT)
        return model->kv_lora_rank > 0;
    if (group == TPP_FIELD_QUANTIZED)
        return model->stored_as[0] != '\0';
    return true;
}

static void add_field(const struct tpp_model *model, const struct tpp_model_field *field,
                      struct tpp_json_writer *writer, struct cJSON *parent)
{
    const char *place = (const char *)model + field->offset;
    uint32_t count;
    unsigned choice;
    double number;
    bool flag;
    switch (field->kind) {
    case TPP_FIELD_U32:
        memcpy(&count, place, sizeof(count));
        tpp_json_add_u64(writer, parent, field->key, count);
        break;
    case TPP_FIELD_BOOL:
        memcpy(&flag, place, sizeof(flag));
        tpp_json_add_bool(writer, parent, field->key, flag);
        break;
    case TPP_FIELD_NUMBER:
        memcpy(&number, place, sizeof(number));
        tpp_json_add_number(writer, parent, field->key, number);
        break;
    case TPP_FIELD_TEXT:
        tpp_json_add_string(writer, parent, field->key, place);
        break;
    case TPP_FIELD_NORM:
    case TPP_FIELD_ACTIVATION:
    case TPP_FIELD_POSITION:
        memcpy(&choice, place, sizeof(choice));
        tpp_json_add_string(writer, parent, field->key, tpp_model_field_names(field->kind)[choice]);
        break;
    }
}

void tpp_model_add_json(const struct tpp_model *model, struct tpp_json_writer *writer, struct cJSON *parent)
{
    struct tpp_model_counts counts;
    size_t count;
    const struct tpp_model_field *fields = tpp_model_fields(&count);
    tpp_model_count(model, &counts);
    tpp_json_add_string(writer, parent, "name", model->name);
    tpp_json_add_u64(writer, parent, "total_parameters", counts.total);
    tpp_json_add_u64(writer, parent, "active_parameters", counts.active);
    for (size_t i = 1; i < count; i++) { /* the first is the name */
        if (is_written(model, fields[i].group))
            add_field(model, &fields[i], writer, parent);
    }
}

bool tpp_model_is_compact(struct tpp_json config)
{
    struct tpp_json place;
    return !tpp_json_member(config, "model_type", &place) && tpp_json_member(config, "layers", &place);
}

static enum tpp_code read_choice(struct tpp_json value, const struct tpp_model_field *field, char *place,
                                 struct tpp_error *err)
{
    const char *const *names = tpp_model_field_names(field->kind);
    const char *text;
    enum tpp_code code = tpp_json_as_string(value, &text, err);
    if (code != TPP_OK)
        return code;
    for (unsigned i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], text) == 0) {
            memcpy(place, &i, sizeof(i));
            return TPP_OK;
        }
    }
    char hint[96];
    const char *nearest = tpp_text_nearest(text, names);
    snprintf(hint, sizeof(hint), "did you mean \"%s\"?", nearest != NULL ? nearest : names[0]);
    return tpp_json_fail(value, err, TPP_E_RANGE, hint, "%s \"%s\" is not known", field->key, text);
}

static enum tpp_code read_text(struct tpp_json value, const struct tpp_model_field *field, char *place,
                               struct tpp_error *err)
{
    const char *text;
    enum tpp_code code = tpp_json_as_string(value, &text, err);
    if (code == TPP_OK)
        tpp_model_copy_name(place, field->size, text);
    return code;
}

static enum tpp_code read_field(struct tpp_json value, const struct tpp_model_field *field, struct tpp_model *model,
                                struct tpp_error *err)
{
    char *place = (char *)model + field->offset;
    enum tpp_code code = TPP_OK;
    uint64_t wide;
    double number;
    bool flag;
    switch (field->kind) {
    case TPP_FIELD_U32:
        code = tpp_json_as_u64(value, (uint64_t)field->min, (uint64_t)field->max, &wide, err);
        if (code == TPP_OK)
            memcpy(place, &(uint32_t){(uint32_t)wide}, sizeof(uint32_t));
        break;
    case TPP_FIELD_BOOL:
        code = tpp_json_as_bool(value, &flag, err);
        if (code == TPP_OK)
            memcpy(place, &flag, sizeof(flag));
        break;
    case TPP_FIELD_NUMBER:
        code = tpp_json_as_number(value, field->min, field->max, &number, err);
        if (code == TPP_OK)
            memcpy(place, &number, sizeof(number));
        break;
    case TPP_FIELD_TEXT:
        return read_text(value, field, place, err);
    default:
        return read_choice(value, field, place, err);
    }
    return code;
}

static enum tpp_code read_fields(struct tpp_json config, struct tpp_model *model, struct tpp_error *err)
{
    size_t count;
    const struct tpp_model_field *fields = tpp_model_fields(&count);
    for (size_t i = 0; i < count; i++) {
        struct tpp_json value;
        if (!tpp_json_member(config, fields[i].key, &value))
            continue;
        enum tpp_code code = read_field(value, &fields[i], model, err);
        if (code != TPP_OK)
            return code;
    }
    return TPP_OK;
}

static bool has(struct tpp_json config, const char *key)
{
    struct tpp_json place;
    return tpp_json_member(config, key, &place);
}

static enum tpp_code need_keys(struct tpp_json config, struct tpp_error *err)
{
    static const char *const needed[] = {"hidden_size", "num_attention_heads", "vocab_size"};
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        if (!has(config, needed[i]))
            return tpp_json_fail(config, err, TPP_E_MISSING,
                                 "a model file needs layers, hidden_size, "
                                 "num_attention_heads, vocab_size and ffn_hidden_size",
                                 "\"%s\" is missing", needed[i]);
    }
    return TPP_OK;
}

/* What follows from other keys. */
static enum tpp_code derive(struct tpp_json config, struct tpp_model *model, struct tpp_error *err)
{
    const bool is_rope = model->position == TPP_POSITION_ROPE;
    if (!has(config, "num_query_groups"))
        model->num_query_groups = model->num_attention_heads;
    if (!has(config, "head_dim")) {
        if (model->kv_lora_rank == 0 && model->hidden_size % model->num_attention_heads != 0)
            return tpp_json_fail(
                config, err, TPP_E_RANGE, "the heads must divide the hidden size, or give \"head_dim\"",
                "%" PRIu32 " heads do not divide hidden size %" PRIu32, model->num_attention_heads, model->hidden_size);
        model->head_dim = model->kv_lora_rank > 0 ? model->qk_nope_head_dim + model->qk_rope_head_dim
                                                  : model->hidden_size / model->num_attention_heads;
    }
    if (!has(config, "rope_theta"))
        model->rope_theta = is_rope ? 10000 : 0;
    if (!has(config, "rotary_fraction"))
        model->rotary_fraction = is_rope ? 1 : 0;
    if (!has(config, "learned_position_rows") && model->position == TPP_POSITION_LEARNED)
        model->learned_position_rows = model->max_position_embeddings;
    if (!has(config, "qk_norm_elements") && model->qk_norm)
        model->qk_norm_elements = 2 * model->head_dim;
    if (!has(config, "sliding_window_layers") && model->sliding_window > 0)
        model->sliding_window_layers = model->num_layers;
    if (!has(config, "moe_layer_period") && model->num_experts > 0)
        model->moe_layer_period = 1;
    return TPP_OK;
}

static enum tpp_code compare_count(struct tpp_json config, const char *key, uint64_t counted, struct tpp_error *err)
{
    uint64_t given = counted;
    enum tpp_code code = tpp_json_get_u64(config, key, 0, UINT64_C(1) << 53, &given, err);
    if (code == TPP_OK && given != counted)
        return tpp_json_fail(config, err, TPP_E_RANGE, "drop the key, or correct the sizes",
                             "\"%s\" is %" PRIu64 ", but the sizes amount to %" PRIu64, key, given, counted);
    return code;
}

static enum tpp_code compare_counts(struct tpp_json config, const struct tpp_model *model, struct tpp_error *err)
{
    struct tpp_model_counts counts;
    tpp_model_count(model, &counts);
    enum tpp_code code = compare_count(config, "total_parameters", counts.total, err);
    if (code == TPP_OK)
        code = compare_count(config, "active_parameters", counts.active, err);
    return code;
}

enum tpp_code tpp_model_read_compact(struct tpp_json config, const char *name, struct tpp_model *model,
                                     struct tpp_error *err)
{
    *model = (struct tpp_model){.family = "custom",
                                .gated_mlp = true,
                                .position = TPP_POSITION_ROPE,
                                .norm = TPP_NORM_RMS,
                                .activation = TPP_ACTIVATION_SILU,
                                .norms_per_layer = 2,
                                .final_norm = true};
    tpp_model_copy_name(model->name, sizeof(model->name), name);
    double version = 1;
    enum tpp_code code = tpp_json_refuse_unknown(config, tpp_model_compact_keys(), err);
    if (code == TPP_OK)
        code = tpp_json_get_number(config, "schema_version", 1, 1, &version, err);
    if (code == TPP_OK)
        code = need_keys(config, err);
    if (code == TPP_OK)
        code = read_fields(config, model, err);
    if (code == TPP_OK)
        code = derive(config, model, err);
    if (code == TPP_OK)
        code = tpp_model_check_in_file(model, config, err);
    if (code == TPP_OK)
        code = compare_counts(config, model, err);
    return code;
}
