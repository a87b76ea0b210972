#include "costmodel/base/json_read.h"

#include "costmodel/base/file.h"
#include "costmodel/base/json_syntax.h"
#include "costmodel/base/text.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cJSON keeps children in a linked list. So that access by index does not walk it, `children` holds the children of
 * each container side by side, in document order; cJSON leaves the number fields of a container unused, and they say
 * where: valuedouble is the place of the first child, valueint their number. */
struct tpp_json_document {
    struct cJSON *root;
    const struct cJSON **children;
    size_t num_children;
    char file[];
};

static bool is_container(const struct cJSON *node)
{
    return cJSON_IsObject(node) || cJSON_IsArray(node);
}

static size_t count_descendants(const struct cJSON *node)
{
    size_t count = 0;
    for (const struct cJSON *child = node->child; child; child = child->next) {
        count += 1 + (is_container(child) ? count_descendants(child) : 0);
    }
    return count;
}

static int compare_names(const void *a, const void *b)
{
    const struct cJSON *const *left = a, *const *right = b;
    return strcmp((*left)->string, (*right)->string);
}

/* `scratch` has room for all members. */
static enum tpp_code refuse_doubled(struct tpp_json object, const struct cJSON **scratch, struct tpp_error *err)
{
    const size_t count = tpp_json_size(object);
    const struct cJSON *const *members = object.document->children + (size_t)object.node->valuedouble;
    if (count < 2) {
        return TPP_OK;
    }
    memcpy(scratch, members, count * sizeof *scratch);
    qsort(scratch, count, sizeof *scratch, compare_names);
    for (size_t i = 1; i < count; i++) {
        if (strcmp(scratch[i - 1]->string, scratch[i]->string) == 0) {
            return tpp_json_fail(object, err, TPP_E_SYNTAX, "keep one of them", "the key \"%.80s\" stands here twice",
                                 scratch[i]->string);
        }
    }
    return TPP_OK;
}

/* Recursion is bounded: the syntax check has refused what is deeper than TPP_JSON_MAX_DEPTH. */
static enum tpp_code index_children(struct tpp_json_document *document, struct tpp_json place,
                                    const struct cJSON **scratch, struct tpp_error *err)
{
    /* The tree is the document's own; a place only shows it as const. */
    struct cJSON *node = (struct cJSON *)(uintptr_t)place.node;
    const size_t first = document->num_children;
    for (const struct cJSON *child = node->child; child; child = child->next) {
        document->children[document->num_children++] = child;
    }
    const size_t count = document->num_children - first;
    node->valuedouble = (double)first;
    node->valueint = (int)count;
    if (cJSON_IsObject(node)) {
        const enum tpp_code code = refuse_doubled(place, scratch, err);
        if (code != TPP_OK) {
            return code;
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct tpp_json child;
        if (is_container(document->children[first + i]) && tpp_json_at(place, i, &child, NULL)) {
            const enum tpp_code code = index_children(document, child, scratch, err);
            if (code != TPP_OK) {
                return code;
            }
        }
    }
    return TPP_OK;
}

static enum tpp_code fail_memory(struct tpp_error *err, const char *file)
{
    return tpp_fail(err, TPP_E_MEMORY, file, NULL, "out of memory while reading JSON");
}

static enum tpp_code build_index(struct tpp_json_document *document, struct tpp_error *err)
{
    if (!is_container(document->root)) {
        return TPP_OK;
    }
    const size_t count = count_descendants(document->root) + 1; /* one more, so that it is never malloc(0) */
    const struct cJSON **scratch = calloc(count, sizeof *scratch);
    enum tpp_code code;
    document->children = calloc(count, sizeof *document->children);
    if (!scratch || !document->children) {
        code = fail_memory(err, document->file);
    } else {
        code = index_children(document, tpp_json_root(document), scratch, err);
    }
    free(scratch);
    return code;
}

enum tpp_code tpp_json_parse(const char *text, size_t length, const char *file, struct tpp_json_document **out,
                             struct tpp_error *err)
{
    *out = NULL;
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* byte order mark */
        text += 3;
        length -= 3;
    }
    enum tpp_code code = tpp_json_check_syntax(text, length, file, err);
    if (code != TPP_OK) {
        return code;
    }
    const size_t file_size = strlen(file) + 1;
    struct tpp_json_document *document = calloc(1, sizeof *document + file_size);
    if (!document) {
        return fail_memory(err, file);
    }
    memcpy(document->file, file, file_size);
    document->root = cJSON_ParseWithLength(text, length);
    if (!document->root) {
        code = fail_memory(err, file); /* the syntax has been checked: nothing else is left to fail */
    } else {
        code = build_index(document, err);
    }
    if (code != TPP_OK) {
        tpp_json_document_free(document);
        return code;
    }
    *out = document;
    return TPP_OK;
}

enum tpp_code tpp_json_load(const char *path, struct tpp_json_document **out, struct tpp_error *err)
{
    char *text;
    size_t length;
    *out = NULL;
    enum tpp_code code = tpp_file_read(path, TPP_JSON_MAX_FILE_BYTES, &text, &length, err);
    if (code == TPP_OK) {
        code = tpp_json_parse(text, length, strcmp(path, "-") == 0 ? "standard input" : path, out, err);
        free(text);
    }
    return code;
}

void tpp_json_document_free(struct tpp_json_document *document)
{
    if (document) {
        cJSON_Delete(document->root);
        free(document->children);
        free(document);
    }
}

struct tpp_json tpp_json_root(const struct tpp_json_document *document)
{
    return (struct tpp_json){.node = document->root, .document = document, .file = document->file};
}

/* Appends `token` to the pointer, '~' and '/' escaped as RFC 6901 says. Room for "..." is always kept, and a pointer
 * that has been cut stays as it is. */
static void append_token(struct tpp_json *place, const char *token)
{
    char escaped[sizeof place->pointer];
    size_t length = 0;
    escaped[length++] = '/';
    for (; *token && length + 2 < sizeof escaped; token++) {
        if (*token == '~' || *token == '/') {
            escaped[length++] = '~';
            escaped[length++] = *token == '~' ? '0' : '1';
        } else {
            escaped[length++] = *token;
        }
    }
    escaped[length] = '\0';
    const size_t used = strlen(place->pointer);
    const size_t room = sizeof place->pointer - sizeof "...";
    if (used >= room - 4 && strcmp(place->pointer + used - 3, "...") == 0) {
        return;
    }
    const size_t fitting = tpp_utf8_cut(escaped, room - used);
    const bool is_cut = *token || fitting < length;
    memcpy(place->pointer + used, escaped, fitting);
    memcpy(place->pointer + used + fitting, is_cut ? "..." : "", is_cut ? sizeof "..." : 1);
}

static struct tpp_json child_of(struct tpp_json parent, const struct cJSON *node, size_t index)
{
    struct tpp_json child = parent;
    child.node = node;
    if (cJSON_IsObject(parent.node)) {
        append_token(&child, node->string);
    } else {
        char number[24];
        snprintf(number, sizeof number, "%zu", index);
        append_token(&child, number);
    }
    return child;
}

bool tpp_json_is_object(struct tpp_json value)
{
    return cJSON_IsObject(value.node);
}

bool tpp_json_is_array(struct tpp_json value)
{
    return cJSON_IsArray(value.node);
}

bool tpp_json_is_string(struct tpp_json value)
{
    return cJSON_IsString(value.node);
}

bool tpp_json_is_number(struct tpp_json value)
{
    return cJSON_IsNumber(value.node);
}

bool tpp_json_is_bool(struct tpp_json value)
{
    return cJSON_IsBool(value.node);
}

bool tpp_json_member(struct tpp_json object, const char *name, struct tpp_json *out)
{
    if (!cJSON_IsObject(object.node)) {
        return false;
    }
    const struct cJSON *node = cJSON_GetObjectItemCaseSensitive(object.node, name);
    if (!node || cJSON_IsNull(node)) {
        return false;
    }
    *out = child_of(object, node, 0);
    return true;
}

size_t tpp_json_size(struct tpp_json value)
{
    return is_container(value.node) ? (size_t)value.node->valueint : 0;
}

bool tpp_json_at(struct tpp_json value, size_t index, struct tpp_json *out, const char **out_name)
{
    if (index >= tpp_json_size(value)) {
        return false;
    }
    const struct cJSON *node = value.document->children[(size_t)value.node->valuedouble + index];
    *out = child_of(value, node, index);
    if (out_name) {
        *out_name = node->string;
    }
    return true;
}
