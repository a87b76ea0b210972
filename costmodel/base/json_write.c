#include "costmodel/base/json_write.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tpp_json_writer_init(struct tpp_json_writer *writer)
{
    writer->root = cJSON_CreateObject();
    writer->failed = writer->root == NULL;
    writer->has_bad_number = false;
}

void tpp_json_writer_release(struct tpp_json_writer *writer)
{
    cJSON_Delete(writer->root);
    writer->root = NULL;
}

/* Puts `node` (NULL when it could not be made) into `parent`, or frees it. */
static struct cJSON *attach(struct tpp_json_writer *writer, struct cJSON *parent, const char *name, struct cJSON *node)
{
    const bool is_attached =
        node && (name ? cJSON_AddItemToObject(parent, name, node) : cJSON_AddItemToArray(parent, node));
    if (is_attached) {
        return node;
    }
    cJSON_Delete(node);
    writer->failed = true;
    return NULL;
}

struct cJSON *tpp_json_add_object(struct tpp_json_writer *writer, struct cJSON *parent, const char *name)
{
    return parent ? attach(writer, parent, name, cJSON_CreateObject()) : NULL;
}

struct cJSON *tpp_json_add_array(struct tpp_json_writer *writer, struct cJSON *parent, const char *name)
{
    return parent ? attach(writer, parent, name, cJSON_CreateArray()) : NULL;
}

char *tpp_json_number_text(char *buffer, size_t size, double value)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(buffer, size, "%.*g", digits, value);
        if (strtod(buffer, NULL) == value) {
            break;
        }
    }
    return buffer;
}

/* Numbers are kept as the text that is printed, because a double would lose digits of a large count. */
void tpp_json_add_number(struct tpp_json_writer *writer, struct cJSON *parent, const char *name, double value)
{
    char text[32];
    if (!parent) {
        return;
    }
    if (!isfinite(value)) {
        writer->failed = true;
        writer->has_bad_number = true;
        return;
    }
    attach(writer, parent, name, cJSON_CreateRaw(tpp_json_number_text(text, sizeof text, value)));
}

void tpp_json_add_u64(struct tpp_json_writer *writer, struct cJSON *parent, const char *name, uint64_t value)
{
    char text[32];
    if (parent) {
        snprintf(text, sizeof text, "%" PRIu64, value);
        attach(writer, parent, name, cJSON_CreateRaw(text));
    }
}

void tpp_json_add_bool(struct tpp_json_writer *writer, struct cJSON *parent, const char *name, bool value)
{
    if (parent) {
        attach(writer, parent, name, cJSON_CreateBool(value));
    }
}

void tpp_json_add_null(struct tpp_json_writer *writer, struct cJSON *parent, const char *name)
{
    if (parent) {
        attach(writer, parent, name, cJSON_CreateNull());
    }
}

void tpp_json_add_string(struct tpp_json_writer *writer, struct cJSON *parent, const char *name, const char *value)
{
    if (!value) {
        tpp_json_add_null(writer, parent, name);
    } else if (parent) {
        attach(writer, parent, name, cJSON_CreateString(value));
    }
}

/* The printer is our own, because cJSON's writes a tab after each name and bytes that are no UTF-8 as they are. */

static void print_escaped(struct tpp_text *out, unsigned char c)
{
    static const char short_escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* pairs: the character, its letter */
    for (const char *p = short_escapes; *p; p += 2) {
        if ((unsigned char)p[0] == c) {
            tpp_text_format(out, "\\%c", p[1]);
            return;
        }
    }
    tpp_text_format(out, "\\u%04x", c);
}

static bool needs_escape(unsigned char c)
{
    return c < 0x20 || c == 0x7f || c == '"' || c == '\\';
}

static void print_string(struct tpp_text *out, const char *string)
{
    const char *end = string + strlen(string);
    tpp_text_append(out, "\"");
    while (string < end) {
        const char *run = string;
        size_t length = 0;
        while (run < end && !needs_escape((unsigned char)*run) &&
               (length = tpp_utf8_length(run, (size_t)(end - run)))) {
            run += length;
        }
        tpp_text_append_bytes(out, string, (size_t)(run - string));
        string = run;
        if (string == end) {
            break;
        }
        if (needs_escape((unsigned char)*string)) {
            print_escaped(out, (unsigned char)*string);
        } else {
            tpp_text_append(out, "\xef\xbf\xbd"); /* U+FFFD */
        }
        string++;
    }
    tpp_text_append(out, "\"");
}

static void print_new_line(struct tpp_text *out, unsigned depth)
{
    tpp_text_append(out, "\n");
    for (unsigned i = 0; i < depth; i++) {
        tpp_text_append(out, "  ");
    }
}

/* An array of scalars stays on one line. */
static bool is_on_one_line(const struct cJSON *node)
{
    if (!cJSON_IsArray(node)) {
        return node->child == NULL;
    }
    for (const struct cJSON *child = node->child; child; child = child->next) {
        if (child->child) {
            return false;
        }
    }
    return true;
}

static void print_node(struct tpp_text *out, const struct cJSON *node, unsigned depth);

static void print_container(struct tpp_text *out, const struct cJSON *node, unsigned depth)
{
    const bool is_object = cJSON_IsObject(node);
    const bool is_flat = is_on_one_line(node);
    tpp_text_append(out, is_object ? "{" : "[");
    for (const struct cJSON *child = node->child; child; child = child->next) {
        if (!is_flat) {
            print_new_line(out, depth + 1);
        }
        if (is_object) {
            print_string(out, child->string);
            tpp_text_append(out, ": ");
        }
        print_node(out, child, depth + 1);
        tpp_text_append(out, !child->next ? "" : is_flat ? ", " : ",");
    }
    if (!is_flat) {
        print_new_line(out, depth);
    }
    tpp_text_append(out, is_object ? "}" : "]");
}

static void print_node(struct tpp_text *out, const struct cJSON *node, unsigned depth)
{
    if (cJSON_IsObject(node) || cJSON_IsArray(node)) {
        print_container(out, node, depth);
    } else if (cJSON_IsString(node)) {
        print_string(out, node->valuestring);
    } else if (cJSON_IsRaw(node)) {
        tpp_text_append(out, node->valuestring);
    } else {
        tpp_text_append(out, cJSON_IsTrue(node) ? "true" : cJSON_IsFalse(node) ? "false" : "null");
    }
}

enum tpp_code tpp_json_print(struct tpp_json_writer *writer, struct tpp_text *out, struct tpp_error *err)
{
    if (writer->has_bad_number) {
        return tpp_fail(err, TPP_E_INTERNAL, NULL, "report this as a bug, with the command line",
                        "a number of the JSON output is not finite");
    }
    if (!writer->failed) {
        print_node(out, writer->root, 0);
        tpp_text_append(out, "\n");
    }
    if (writer->failed || tpp_text_failed(out)) {
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory while writing JSON");
    }
    return TPP_OK;
}
