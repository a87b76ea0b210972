#include "costmodel/model/model_reader.h"

#include "costmodel/base/text.h"
#include "costmodel/model/model_families.h"
#include "costmodel/model/model_json.h"
#include "costmodel/model/model_name.h"
#include "costmodel/model/model_shape.h"
#include "costmodel/model/presets.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_NAMES 256

static enum tpp_code fail_unknown_type(struct tpp_json place, const char *model_type, struct tpp_error *err)
{
    const char *names[MAX_NAMES];
    char hint[160];
    size_t count;
    const struct tpp_model_family *families = tpp_model_families(&count);
    for (size_t i = 0; i < count && i < MAX_NAMES - 1; i++)
        names[i] = families[i].model_type;
    names[count < MAX_NAMES - 1 ? count : MAX_NAMES - 1] = NULL;
    const char *nearest = tpp_text_nearest(model_type, names);
    snprintf(hint, sizeof(hint),
             "the nearest known is \"%s\"; or give the shape in the compact form (\"layers\", "
             "\"hidden_size\", ...)",
             nearest != NULL ? nearest : "llama");
    return tpp_json_fail(place, err, TPP_E_UNSUPPORTED, hint, "\"model_type\" \"%s\" is not known", model_type);
}

/* State-space and linear-attention layers, encoders and cross attention: nothing this project costs. */
static enum tpp_code refuse_others(struct tpp_json config, struct tpp_error *err)
{
    static const char *const flags[] = {"is_encoder_decoder", "add_cross_attention"};
    const char *key;
    if (tpp_model_find_hybrid_key(config, &key))
        return tpp_json_fail(config, err, TPP_E_UNSUPPORTED,
                             "only transformers with softmax attention in every layer can be costed",
                             "\"%s\" makes this a hybrid of attention and other layers", key);
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        bool is_on = false;
        enum tpp_code code = tpp_json_get_bool(config, flags[i], &is_on, err);
        if (code != TPP_OK)
            return code;
        if (is_on)
            return tpp_json_fail(config, err, TPP_E_UNSUPPORTED, "only decoders can be costed", "\"%s\" is true",
                                 flags[i]);
    }
    return TPP_OK;
}

/* Finds the family of `config`, or says why there is none. */
static enum tpp_code find_family(struct tpp_json config, const struct tpp_model_family **out, struct tpp_error *err)
{
    struct tpp_json place;
    const char *model_type;
    if (!tpp_json_member(config, "model_type", &place))
        return tpp_json_fail(config, err, TPP_E_MISSING,
                             "give the \"model_type\" of the config.json, or a shape in the compact form (\"layers\")",
                             "\"model_type\" is missing");
    enum tpp_code code = tpp_json_as_string(place, &model_type, err);
    if (code != TPP_OK)
        return code;
    const char *reason = tpp_model_refused_type(model_type);
    if (reason != NULL)
        return tpp_json_fail(place, err, TPP_E_UNSUPPORTED,
                             "only decoders with softmax attention in every layer can be costed",
                             "\"model_type\" \"%s\" cannot be described: %s", model_type, reason);
    *out = tpp_model_family_find(model_type);
    return *out != NULL ? TPP_OK : fail_unknown_type(place, model_type, err);
}

/* A model with several senses keeps its language model in an object of its own, with a model_type of its own: a known
 * one decides, "<outer>_text" is the same family, and anything else is refused. */
static enum tpp_code enter_nested(struct tpp_json *config, const struct tpp_model_family **family,
                                  struct tpp_error *err)
{
    struct tpp_json inner, place;
    const char *type = "";
    char text_type[64];
    if ((*family)->nested == NULL || !tpp_json_member(*config, (*family)->nested, &inner))
        return TPP_OK;
    if (!tpp_json_is_object(inner))
        return tpp_json_fail(inner, err, TPP_E_TYPE, "give the language model's config", "\"%s\" is not an object",
                             (*family)->nested);
    *config = inner;
    if (!tpp_json_member(inner, "model_type", &place))
        return refuse_others(inner, err);
    enum tpp_code code = tpp_json_as_string(place, &type, err);
    if (code != TPP_OK)
        return code;
    snprintf(text_type, sizeof(text_type), "%s_text", (*family)->model_type);
    if (tpp_model_family_find(type) != NULL || strcmp(type, text_type) != 0)
        code = find_family(inner, family, err);
    return code == TPP_OK ? refuse_others(inner, err) : code;
}

/* A file may hold quantised weights. What it is made of does not change the shape, and training does not keep it. */
static enum tpp_code read_quantization(struct tpp_json config, struct tpp_model *model, struct tpp_error *err)
{
    struct tpp_json place;
    const char *method = "quantized";
    if (!tpp_json_member(config, "quantization_config", &place))
        return TPP_OK;
    if (!tpp_json_is_object(place))
        return tpp_json_fail(place, err, TPP_E_TYPE, "drop the key, or give its object",
                             "\"quantization_config\" is not an object");
    const enum tpp_code code = tpp_json_get_string(place, "quant_method", &method, err);
    if (code == TPP_OK)
        tpp_model_copy_name(model->stored_as, sizeof(model->stored_as), method);
    return code;
}

static enum tpp_code read_config(struct tpp_json root, struct tpp_model *model, struct tpp_error *err)
{
    const struct tpp_model_family *family;
    struct tpp_json config = root;
    enum tpp_code code = refuse_others(root, err);
    if (code == TPP_OK)
        code = find_family(root, &family, err);
    if (code != TPP_OK)
        return code;
    tpp_model_copy_name(model->family, sizeof(model->family), family->model_type);
    code = enter_nested(&config, &family, err);
    if (code == TPP_OK)
        code = tpp_model_read_shape(config, root, family, model, err);
    if (code == TPP_OK)
        code = read_quantization(root, model, err);
    if (code == TPP_OK)
        code = tpp_model_check_in_file(model, config, err);
    return code;
}

enum tpp_code tpp_model_read(struct tpp_json config, const char *name, struct tpp_model *model, struct tpp_error *err)
{
    if (!tpp_json_is_object(config))
        return tpp_json_fail(config, err, TPP_E_TYPE, "give a Hugging Face config.json or a model file",
                             "a model is not an object");
    if (tpp_model_is_compact(config))
        return tpp_model_read_compact(config, name, model, err);
    *model = (struct tpp_model){0};
    tpp_model_copy_name(model->name, sizeof(model->name), name);
    return read_config(config, model, err);
}

enum tpp_code tpp_model_load(const char *path, struct tpp_model *model, struct tpp_error *err)
{
    struct tpp_json_document *document;
    char name[sizeof(model->name)];
    enum tpp_code code = tpp_json_load(path, &document, err);
    if (code != TPP_OK)
        return code;
    tpp_model_name_of_path(name, sizeof(name), strcmp(path, "-") == 0 ? "stdin" : path);
    code = tpp_model_read(tpp_json_root(document), name, model, err);
    tpp_json_document_free(document);
    return code;
}

static bool looks_like_path(const char *text)
{
    const size_t length = strlen(text);
    return strcmp(text, "-") == 0 || strchr(text, '/') != NULL ||
           (length > 5 && strcmp(text + length - 5, ".json") == 0) || access(text, F_OK) == 0;
}

static enum tpp_code fail_unknown_name(const char *name, struct tpp_error *err)
{
    const char *names[MAX_NAMES];
    char hint[160];
    size_t count;
    const struct tpp_model *presets = tpp_model_presets(&count);
    for (size_t i = 0; i < count && i < MAX_NAMES - 1; i++)
        names[i] = presets[i].name;
    names[count < MAX_NAMES - 1 ? count : MAX_NAMES - 1] = NULL;
    const char *nearest = tpp_text_nearest(name, names);
    snprintf(hint, sizeof(hint), "%s%s%sgive a shipped model (tp-plan models) or a config.json",
             nearest != NULL ? "did you mean \"" : "", nearest != NULL ? nearest : "",
             nearest != NULL ? "\"? Or " : "");
    return tpp_fail(err, TPP_E_USAGE, "--model", hint, "no model is named \"%s\", and there is no such file", name);
}

enum tpp_code tpp_model_find(const char *name_or_path, struct tpp_model *model, struct tpp_error *err)
{
    const struct tpp_model *preset = tpp_model_preset(name_or_path);
    if (preset != NULL) {
        *model = *preset;
        return TPP_OK;
    }
    if (looks_like_path(name_or_path))
        return tpp_model_load(name_or_path, model, err);
    return fail_unknown_name(name_or_path, err);
}
