/* Any bytes: parse, touch every value with every reader, print, and parse what was printed: it prints the same again.
 */
#include "tests/fuzz/fuzz_target.h"

#include "costmodel/base/json_read.h"
#include "costmodel/base/json_write.h"

#include <float.h>
#include <string.h>

static void touch(struct tpp_json value)
{
    static const char *const names[] = {"name", "hidden_size", NULL};
    struct tpp_error err;
    double number;
    uint64_t whole;
    bool truth;
    const char *text;
    FUZZ_CHECK(strlen(value.pointer) < sizeof value.pointer);
    FUZZ_CHECK((tpp_json_as_number(value, -1, 1e300, &number, &err) == TPP_OK) || err.message[0]);
    FUZZ_CHECK((tpp_json_as_u64(value, 1, UINT64_MAX, &whole, &err) == TPP_OK) || err.message[0]);
    FUZZ_CHECK((tpp_json_as_bool(value, &truth, &err) == TPP_OK) || err.message[0]);
    FUZZ_CHECK((tpp_json_as_string(value, &text, &err) == TPP_OK) || err.message[0]);
    FUZZ_CHECK((tpp_json_need_string(value, "name", &text, &err) == TPP_OK) || err.message[0]);
    FUZZ_CHECK((tpp_json_refuse_unknown(value, names, &err) == TPP_OK) || err.message[0]);
}

static void copy_value(struct tpp_json_writer *writer, struct cJSON *parent, const char *name, struct tpp_json value);

static void copy_children(struct tpp_json_writer *writer, struct cJSON *parent, struct tpp_json value)
{
    struct tpp_json child;
    const char *name = NULL;
    for (size_t i = 0; tpp_json_at(value, i, &child, &name); i++) {
        copy_value(writer, parent, tpp_json_is_object(value) ? name : NULL, child);
    }
}

static void copy_value(struct tpp_json_writer *writer, struct cJSON *parent, const char *name, struct tpp_json value)
{
    const char *text = NULL;
    bool truth = false;
    double number = 0;
    touch(value);
    if (tpp_json_is_object(value)) {
        copy_children(writer, tpp_json_add_object(writer, parent, name), value);
    } else if (tpp_json_is_array(value)) {
        copy_children(writer, tpp_json_add_array(writer, parent, name), value);
    } else if (tpp_json_as_string(value, &text, NULL) == TPP_OK) {
        tpp_json_add_string(writer, parent, name, text);
    } else if (tpp_json_as_bool(value, &truth, NULL) == TPP_OK) {
        tpp_json_add_bool(writer, parent, name, truth);
    } else if (tpp_json_is_number(value)) {
        FUZZ_CHECK(tpp_json_as_number(value, -DBL_MAX, DBL_MAX, &number, NULL) == TPP_OK);
        tpp_json_add_number(writer, parent, name, number);
    } else {
        tpp_json_add_null(writer, parent, name);
    }
}

/* Prints a document; one whose root is no object is printed as the member "value" of one. */
static void print_document(const struct tpp_json_document *document, struct tpp_text *out)
{
    struct tpp_json_writer writer;
    const struct tpp_json root = tpp_json_root(document);
    tpp_json_writer_init(&writer);
    if (tpp_json_is_object(root)) {
        touch(root);
        copy_children(&writer, writer.root, root);
    } else {
        copy_value(&writer, writer.root, "value", root);
    }
    FUZZ_CHECK(tpp_json_print(&writer, out, NULL) == TPP_OK);
    tpp_json_writer_release(&writer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tpp_json_document *document, *again;
    struct tpp_error err;
    struct tpp_text first, second;
    const enum tpp_code code = tpp_json_parse((const char *)data, size, "input", &document, &err);
    if (code != TPP_OK) {
        FUZZ_CHECK(!document && err.message[0] && err.where[0] && err.code == code);
        return 0;
    }
    tpp_text_init(&first);
    tpp_text_init(&second);
    print_document(document, &first);
    const enum tpp_code code_again = tpp_json_parse(first.data, first.length, "printed", &again, &err);
    if (code_again == TPP_OK) {
        print_document(again, &second);
        FUZZ_CHECK(strcmp(first.data, second.data) == 0);
    } else { /* one level deeper than the input, and so perhaps too deep */
        FUZZ_CHECK(code_again == TPP_E_RANGE && !tpp_json_is_object(tpp_json_root(document)));
    }
    tpp_json_document_free(document);
    tpp_json_document_free(again);
    tpp_text_release(&first);
    tpp_text_release(&second);
    return 0;
}
