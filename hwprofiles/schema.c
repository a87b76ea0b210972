/* The JSON Schema (draft 7) of a profile file, made from the table of values. */
#include "hwprofiles/internal.h"
#include "hwprofiles/profiles.h"

#include <stdio.h>
#include <string.h>

static struct cJSON *add_names(struct tpp_json_writer *writer, struct cJSON *parent, const char *key,
                               const char *const *names)
{
    struct cJSON *array = tpp_json_add_array(writer, parent, key);
    for (; *names; names++) {
        tpp_json_add_string(writer, array, NULL, *names);
    }
    return array;
}

static void add_text(struct tpp_json_writer *writer, struct cJSON *properties, const char *key, size_t size)
{
    struct cJSON *text = tpp_json_add_object(writer, properties, key);
    tpp_json_add_string(writer, text, "type", "string");
    tpp_json_add_u64(writer, text, "minLength", 1);
    tpp_json_add_u64(writer, text, "maxLength", size - 1);
}

static void add_range(struct tpp_json_writer *writer, struct cJSON *parent, const struct tpp_hardware_field *field)
{
    if (field->kind == TPP_HARDWARE_BOOL) {
        tpp_json_add_string(writer, parent, "type", "boolean");
        return;
    }
    tpp_json_add_string(writer, parent, "type", tpp_hardware_field_is_whole(field) ? "integer" : "number");
    tpp_json_add_number(writer, parent, "minimum", field->min);
    tpp_json_add_number(writer, parent, "maximum", field->max);
}

/* One value: plain, or with its origin. */
static void add_value(struct tpp_json_writer *writer, struct cJSON *properties, const struct tpp_hardware_field *field)
{
    char description[160];
    snprintf(description, sizeof description, "%s [%s]", field->about, field->unit);
    struct cJSON *value = tpp_json_add_object(writer, properties, tpp_hardware_field_name(field));
    tpp_json_add_string(writer, value, "description", description);
    if (!field->required) {
        if (field->kind == TPP_HARDWARE_BOOL) {
            tpp_json_add_bool(writer, value, "default", field->fallback != 0);
        } else {
            tpp_json_add_number(writer, value, "default", field->fallback);
        }
    }
    struct cJSON *forms = tpp_json_add_array(writer, value, "anyOf");
    add_range(writer, tpp_json_add_object(writer, forms, NULL), field);
    struct cJSON *full = tpp_json_add_object(writer, forms, NULL);
    tpp_json_add_string(writer, full, "type", "object");
    add_names(writer, full, "required", (const char *const[]){"value", NULL});
    tpp_json_add_bool(writer, full, "additionalProperties", false);
    struct cJSON *parts = tpp_json_add_object(writer, full, "properties");
    add_range(writer, tpp_json_add_object(writer, parts, "value"), field);
    tpp_json_add_string(writer, tpp_json_add_object(writer, parts, "provenance"), "$ref", "#/definitions/provenance");
    tpp_json_add_string(writer, tpp_json_add_object(writer, parts, "source"), "$ref", "#/definitions/source");
}

static void add_group(struct tpp_json_writer *writer, struct cJSON *definitions, const char *group)
{
    struct cJSON *object = tpp_json_add_object(writer, definitions, group);
    tpp_json_add_string(writer, object, "type", "object");
    tpp_json_add_bool(writer, object, "additionalProperties", false);
    struct cJSON *properties = tpp_json_add_object(writer, object, "properties");
    if (strcmp(group, "gpu") == 0) {
        add_text(writer, properties, "name", sizeof((struct tpp_gpu *)0)->name);
        add_names(writer, tpp_json_add_object(writer, properties, "base"), "enum", tpp_hardware_gpu_names(NULL));
    }
    uint32_t count;
    const struct tpp_hardware_field *fields = tpp_hardware_fields(&count);
    for (uint32_t i = 0; i < count; i++) {
        if (tpp_hardware_field_in_group(&fields[i], group)) {
            add_value(writer, properties, &fields[i]);
        }
    }
}

static void add_definitions(struct tpp_json_writer *writer, struct cJSON *parent)
{
    struct cJSON *definitions = tpp_json_add_object(writer, parent, "definitions");
    const char *provenances[TPP_PROVENANCE_COUNT + 1] = {NULL};
    for (int i = 0; i < TPP_PROVENANCE_COUNT; i++) {
        provenances[i] = tpp_provenance_name((enum tpp_provenance)i);
    }
    add_names(writer, tpp_json_add_object(writer, definitions, "provenance"), "enum", provenances);
    add_text(writer, definitions, "source", sizeof((struct tpp_hardware_origin *)0)->source);
    for (int i = 0; i < TPP_HARDWARE_GROUP_COUNT; i++) {
        add_group(writer, definitions, tpp_hardware_groups[i]);
    }
}

static void add_required(struct tpp_json_writer *writer, struct cJSON *parent, const char *group)
{
    struct cJSON *array = tpp_json_add_array(writer, parent, "required");
    uint32_t count;
    const struct tpp_hardware_field *fields = tpp_hardware_fields(&count);
    for (uint32_t i = 0; i < count; i++) {
        if (fields[i].required && tpp_hardware_field_in_group(&fields[i], group)) {
            tpp_json_add_string(writer, array, NULL, tpp_hardware_field_name(&fields[i]));
        }
    }
}

/* A profile builds on another one, or gives every value that has no fallback. */
static void add_completeness(struct tpp_json_writer *writer, struct cJSON *parent)
{
    struct cJSON *either = tpp_json_add_array(writer, parent, "anyOf");
    add_names(writer, tpp_json_add_object(writer, either, NULL), "required", (const char *const[]){"base", NULL});
    struct cJSON *whole = tpp_json_add_object(writer, either, NULL);
    add_names(writer, whole, "required", (const char *const[]){"name", "gpu", "node", "network", NULL});
    struct cJSON *properties = tpp_json_add_object(writer, whole, "properties");
    struct cJSON *gpu = tpp_json_add_array(writer, tpp_json_add_object(writer, properties, "gpu"), "anyOf");
    tpp_json_add_string(writer, tpp_json_add_object(writer, gpu, NULL), "type", "string");
    add_names(writer, tpp_json_add_object(writer, gpu, NULL), "required", (const char *const[]){"base", NULL});
    add_required(writer, tpp_json_add_object(writer, gpu, NULL), "gpu");
    add_required(writer, tpp_json_add_object(writer, properties, "node"), "node");
    add_required(writer, tpp_json_add_object(writer, properties, "network"), "network");
}

void tpp_hardware_add_schema(struct tpp_json_writer *writer, struct cJSON *parent)
{
    tpp_json_add_string(writer, parent, "$schema", "http://json-schema.org/draft-07/schema#");
    tpp_json_add_string(writer, parent, "title", "tp-plan hardware profile");
    tpp_json_add_string(writer, parent, "type", "object");
    tpp_json_add_bool(writer, parent, "additionalProperties", false);
    add_names(writer, parent, "required", (const char *const[]){"schema_version", NULL});
    struct cJSON *properties = tpp_json_add_object(writer, parent, "properties");
    struct cJSON *version = tpp_json_add_object(writer, properties, "schema_version");
    tpp_json_add_u64(writer, version, "const", TPP_HARDWARE_SCHEMA_VERSION);
    add_text(writer, properties, "name", sizeof((struct tpp_hardware *)0)->name);
    add_text(writer, properties, "description", sizeof((struct tpp_hardware *)0)->description);
    add_names(writer, tpp_json_add_object(writer, properties, "base"), "enum", tpp_hardware_profile_names(NULL));
    struct cJSON *gpu = tpp_json_add_array(writer, tpp_json_add_object(writer, properties, "gpu"), "anyOf");
    add_names(writer, tpp_json_add_object(writer, gpu, NULL), "enum", tpp_hardware_gpu_names(NULL));
    tpp_json_add_string(writer, tpp_json_add_object(writer, gpu, NULL), "$ref", "#/definitions/gpu");
    tpp_json_add_string(writer, tpp_json_add_object(writer, properties, "node"), "$ref", "#/definitions/node");
    tpp_json_add_string(writer, tpp_json_add_object(writer, properties, "network"), "$ref", "#/definitions/network");
    add_completeness(writer, parent);
    add_definitions(writer, parent);
}
