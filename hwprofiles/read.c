/* Reading a profile: the shipped ones and a stranger's take the same way. */
#include "costmodel/base/text.h"
#include "costmodel/base/units.h"
#include "hwprofiles/internal.h"
#include "hwprofiles/profiles.h"

#include <stdio.h>
#include <string.h>

#define MAX_BASES 8 /* shipped files that build on each other */

const char *const tpp_hardware_groups[TPP_HARDWARE_GROUP_COUNT] = {"gpu", "node", "network"};

struct reader {
    struct tpp_hardware *hardware;
    struct tpp_error *err;
    bool given[TPP_HARDWARE_MAX_VALUES];
    unsigned num_bases;
};

typedef enum tpp_code read_function(struct reader *reader, struct tpp_json json);

/* Reads the shipped file that `name` stands for with `read`. */
static enum tpp_code read_shipped(struct reader *reader, struct tpp_json name, const char *what,
                                  const struct tpp_hardware_document *documents, const char *const *names,
                                  read_function *read)
{
    const char *wanted;
    enum tpp_code code = tpp_json_as_string(name, &wanted, reader->err);
    if (code) {
        return code;
    }
    const struct tpp_hardware_document *file = tpp_hardware_find_document(documents, names, wanted);
    if (!file) {
        const char *nearest = tpp_text_nearest(wanted, names);
        char hint[128];
        snprintf(hint, sizeof hint, nearest ? "did you mean \"%s\"?" : "tp-plan hardware lists what is shipped%s",
                 nearest ? nearest : "");
        return tpp_json_fail(name, reader->err, TPP_E_RANGE, hint, "no shipped %s is named \"%.64s\"", what, wanted);
    }
    if (reader->num_bases++ == MAX_BASES) {
        return tpp_json_fail(name, reader->err, TPP_E_INTERNAL, NULL, "shipped profiles build on each other in a ring");
    }
    struct tpp_json_document *document;
    code = tpp_json_parse((const char *)file->text, file->length, file->path, &document, reader->err);
    if (code) {
        return code;
    }
    code = read(reader, tpp_json_root(document));
    tpp_json_document_free(document);
    return code;
}

/* An optional text of less than `size` bytes. */
static enum tpp_code read_text(struct reader *reader, struct tpp_json object, const char *key, char *out, size_t size)
{
    struct tpp_json member;
    if (!tpp_json_member(object, key, &member)) {
        return TPP_OK;
    }
    const char *text;
    const enum tpp_code code = tpp_json_as_string(member, &text, reader->err);
    if (code) {
        return code;
    }
    if (text[0] == '\0' || strlen(text) >= size) {
        char hint[64];
        snprintf(hint, sizeof hint, "give 1 to %zu bytes", size - 1);
        return tpp_json_fail(member, reader->err, TPP_E_RANGE, hint, "\"%s\" has %zu bytes", key, strlen(text));
    }
    snprintf(out, size, "%s", text);
    return TPP_OK;
}

static void describe(struct tpp_json value, char *buffer, size_t size)
{
    const char *text;
    bool flag;
    double number;
    if (tpp_json_as_string(value, &text, NULL) == TPP_OK) {
        snprintf(buffer, size, "the text \"%.40s\"", text);
    } else if (tpp_json_as_bool(value, &flag, NULL) == TPP_OK) {
        snprintf(buffer, size, "%s", flag ? "true" : "false");
    } else if (tpp_json_is_number(value) && tpp_json_as_number(value, -1e308, 1e308, &number, NULL) == TPP_OK) {
        snprintf(buffer, size, "%.15g", number);
    } else {
        snprintf(buffer, size, "%s", tpp_json_is_array(value) ? "an array" : "an object");
    }
}

/* "give bytes as a number (80000000000)" when the text can be understood, else without the example. */
static void number_hint(const struct tpp_hardware_field *field, struct tpp_json value, char *hint, size_t size)
{
    char unit[32];
    snprintf(unit, sizeof unit, "%s", field->unit);
    for (char *c = unit; *c; c++) {
        *c = *c == '_' ? ' ' : *c;
    }
    const char *text;
    uint64_t bytes;
    double rate;
    if (tpp_json_as_string(value, &text, NULL) != TPP_OK) {
        snprintf(hint, size, "give %s as a number", unit);
    } else if (strcmp(field->unit, "bytes") == 0 && tpp_parse_bytes(text, NULL, &bytes, NULL) == TPP_OK) {
        snprintf(hint, size, "give bytes as a number (%llu)", (unsigned long long)bytes);
    } else if (strcmp(field->unit, "bytes_per_second") == 0 && tpp_parse_bandwidth(text, NULL, &rate, NULL) == TPP_OK) {
        snprintf(hint, size, "give bytes per second as a number (%.15g)", rate);
    } else {
        snprintf(hint, size, "give %s as a number", unit);
    }
}

static enum tpp_code read_number(struct reader *reader, uint32_t index, struct tpp_json value)
{
    const struct tpp_hardware_field *field = &tpp_hardware_fields(NULL)[index];
    const bool wants_flag = field->kind == TPP_HARDWARE_BOOL;
    if (wants_flag ? !tpp_json_is_bool(value) : !tpp_json_is_number(value)) {
        char found[64], hint[96];
        describe(value, found, sizeof found);
        if (wants_flag) {
            snprintf(hint, sizeof hint, "give true or false without quotes");
        } else {
            number_hint(field, value, hint, sizeof hint);
        }
        return tpp_json_fail(value, reader->err, TPP_E_TYPE, hint, "\"%s\" must be %s, found %s",
                             tpp_hardware_field_name(field), wants_flag ? "true or false" : "a number", found);
    }
    double number = 0;
    bool flag = false;
    enum tpp_code code = wants_flag ? tpp_json_as_bool(value, &flag, reader->err)
                                    : tpp_json_as_number(value, -1e308, 1e308, &number, reader->err);
    if (code) {
        return code;
    }
    number = wants_flag ? flag : number;
    struct tpp_error fault;
    code = tpp_hardware_accept(index, number, NULL, &fault);
    if (code) {
        return tpp_json_fail(value, reader->err, code, fault.hint, "%s", fault.message);
    }
    tpp_hardware_store(reader->hardware, index, number);
    reader->given[index] = true;
    return TPP_OK;
}

static enum tpp_code read_provenance(struct reader *reader, struct tpp_json object, enum tpp_provenance *out)
{
    struct tpp_json member;
    *out = TPP_PROVENANCE_ASSUMED;
    if (!tpp_json_member(object, "provenance", &member)) {
        return TPP_OK;
    }
    const char *word;
    const enum tpp_code code = tpp_json_as_string(member, &word, reader->err);
    if (code) {
        return code;
    }
    for (int i = 0; i < TPP_PROVENANCE_COUNT; i++) {
        if (strcmp(word, tpp_provenance_name((enum tpp_provenance)i)) == 0) {
            *out = (enum tpp_provenance)i;
            return TPP_OK;
        }
    }
    return tpp_json_fail(member, reader->err, TPP_E_RANGE, "measured, published, datasheet, assumed or user",
                         "unknown provenance \"%.40s\"", word);
}

/* One value: a plain number, or {"value", "provenance", "source"}. */
static enum tpp_code read_value(struct reader *reader, uint32_t index, struct tpp_json value)
{
    static const char *const keys[] = {"value", "provenance", "source", NULL};
    struct tpp_hardware_origin *origin = &reader->hardware->origins[index];
    memset(origin, 0, sizeof *origin);
    origin->provenance = TPP_PROVENANCE_ASSUMED;
    snprintf(origin->source, sizeof origin->source, "%.*s", (int)tpp_utf8_cut(value.file, sizeof origin->source - 1),
             value.file);
    if (!tpp_json_is_object(value)) {
        return read_number(reader, index, value);
    }
    enum tpp_code code = tpp_json_refuse_unknown(value, keys, reader->err);
    if (code) {
        return code;
    }
    struct tpp_json number;
    if (!tpp_json_member(value, "value", &number)) {
        return tpp_json_fail(value, reader->err, TPP_E_MISSING,
                             "give {\"value\": ..., \"provenance\": ..., \"source\": ...}", "\"%s\" has no \"value\"",
                             tpp_hardware_field_name(&tpp_hardware_fields(NULL)[index]));
    }
    code = read_number(reader, index, number);
    if (!code) {
        code = read_provenance(reader, value, &origin->provenance);
    }
    return code ? code : read_text(reader, value, "source", origin->source, sizeof origin->source);
}

/* The values of one group that are given. `extra` are the members that are no values. */
static enum tpp_code read_group(struct reader *reader, struct tpp_json object, const char *group,
                                const char *const *extra)
{
    const char *names[TPP_HARDWARE_MAX_VALUES + 3] = {NULL};
    size_t num_names = 0;
    uint32_t count;
    const struct tpp_hardware_field *fields = tpp_hardware_fields(&count);
    for (uint32_t i = 0; i < count; i++) {
        if (tpp_hardware_field_in_group(&fields[i], group)) {
            names[num_names++] = tpp_hardware_field_name(&fields[i]);
        }
    }
    for (; *extra; extra++) {
        names[num_names++] = *extra;
    }
    enum tpp_code code = tpp_json_refuse_unknown(object, names, reader->err);
    for (uint32_t i = 0; i < count && !code; i++) {
        struct tpp_json member;
        if (tpp_hardware_field_in_group(&fields[i], group) &&
            tpp_json_member(object, tpp_hardware_field_name(&fields[i]), &member)) {
            code = read_value(reader, i, member);
        }
    }
    return code;
}

static enum tpp_code read_gpu(struct reader *reader, struct tpp_json gpu)
{
    static const char *const extra[] = {"name", "base", NULL};
    struct tpp_json base;
    if (tpp_json_is_string(gpu)) {
        return read_shipped(reader, gpu, "GPU", tpp_hardware_gpu_documents, tpp_hardware_gpu_document_names, read_gpu);
    }
    if (!tpp_json_is_object(gpu)) {
        return tpp_json_fail(gpu, reader->err, TPP_E_TYPE, "give the name of a shipped GPU or an object of values",
                             "\"gpu\" must be a name or an object");
    }
    enum tpp_code code = TPP_OK;
    if (tpp_json_member(gpu, "base", &base)) {
        code = read_shipped(reader, base, "GPU", tpp_hardware_gpu_documents, tpp_hardware_gpu_document_names, read_gpu);
    }
    if (!code) {
        code = read_text(reader, gpu, "name", reader->hardware->gpu.name, sizeof reader->hardware->gpu.name);
    }
    return code ? code : read_group(reader, gpu, "gpu", extra);
}

static enum tpp_code read_groups(struct reader *reader, struct tpp_json profile)
{
    static const char *const no_extra[] = {NULL};
    enum tpp_code code = TPP_OK;
    for (int i = 0; i < TPP_HARDWARE_GROUP_COUNT && !code; i++) {
        const char *group = tpp_hardware_groups[i];
        struct tpp_json member;
        if (!tpp_json_member(profile, group, &member)) {
            continue;
        }
        if (strcmp(group, "gpu") == 0) {
            code = read_gpu(reader, member);
        } else if (!tpp_json_is_object(member)) {
            code = tpp_json_fail(member, reader->err, TPP_E_TYPE, "give an object of values",
                                 "\"%s\" must be an object", group);
        } else {
            code = read_group(reader, member, group, no_extra);
        }
    }
    return code;
}

static enum tpp_code read_profile(struct reader *reader, struct tpp_json profile)
{
    static const char *const keys[] = {"schema_version", "name", "description", "base", "gpu", "node", "network", NULL};
    if (!tpp_json_is_object(profile)) {
        return tpp_json_fail(profile, reader->err, TPP_E_TYPE, "a profile is one JSON object; see hwprofiles/README.md",
                             "a hardware profile must be an object");
    }
    enum tpp_code code = tpp_json_refuse_unknown(profile, keys, reader->err);
    uint64_t version;
    if (!code) {
        code = tpp_json_need_u64(profile, "schema_version", TPP_HARDWARE_SCHEMA_VERSION, TPP_HARDWARE_SCHEMA_VERSION,
                                 &version, reader->err);
    }
    struct tpp_json base;
    if (!code && tpp_json_member(profile, "base", &base)) {
        code = read_shipped(reader, base, "profile", tpp_hardware_profile_documents,
                            tpp_hardware_profile_document_names, read_profile);
    }
    struct tpp_hardware *hardware = reader->hardware;
    if (!code) {
        code = read_text(reader, profile, "name", hardware->name, sizeof hardware->name);
    }
    if (!code) {
        code = read_text(reader, profile, "description", hardware->description, sizeof hardware->description);
    }
    return code ? code : read_groups(reader, profile);
}

static enum tpp_code missing(struct reader *reader, struct tpp_json profile, const struct tpp_hardware_field *field)
{
    char group[16], hint[160];
    snprintf(group, sizeof group, "%.*s", (int)tpp_hardware_field_group_length(field), field->key);
    snprintf(hint, sizeof hint, "add it (%s), or start from a shipped profile with \"base\"", field->about);
    struct tpp_json place = profile;
    (void)tpp_json_member(profile, group, &place);
    return tpp_json_fail(place, reader->err, TPP_E_MISSING, hint, "\"%s\" is missing in \"%s\"",
                         tpp_hardware_field_name(field), group);
}

/* Values that are not given: an error, or the fallback. */
static enum tpp_code complete(struct reader *reader, struct tpp_json profile)
{
    uint32_t count;
    const struct tpp_hardware_field *fields = tpp_hardware_fields(&count);
    for (uint32_t i = 0; i < count; i++) {
        if (reader->given[i]) {
            continue;
        }
        if (fields[i].required) {
            return missing(reader, profile, &fields[i]);
        }
        tpp_hardware_store(reader->hardware, i, fields[i].fallback);
        reader->hardware->origins[i].provenance = TPP_PROVENANCE_ASSUMED;
        snprintf(reader->hardware->origins[i].source, sizeof reader->hardware->origins[i].source,
                 "not in the profile: the value used where nothing is known");
    }
    return TPP_OK;
}

enum tpp_code tpp_hardware_read(struct tpp_json profile, struct tpp_hardware *hardware, struct tpp_error *err)
{
    memset(hardware, 0, sizeof *hardware);
    struct reader reader = {.hardware = hardware, .err = err};
    enum tpp_code code = read_profile(&reader, profile);
    if (!code && hardware->name[0] == '\0') {
        return tpp_json_fail(profile, err, TPP_E_MISSING, "give the cluster a name", "\"name\" is missing");
    }
    if (!code) {
        code = complete(&reader, profile);
    }
    if (!code && hardware->gpu.name[0] == '\0') {
        snprintf(hardware->gpu.name, sizeof hardware->gpu.name, "GPU of %.*s",
                 (int)tpp_utf8_cut(hardware->name, sizeof hardware->gpu.name - 8), hardware->name);
    }
    return code ? code : tpp_hardware_check_file(hardware, profile.file, err);
}
