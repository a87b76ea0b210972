/* Reading and writing JSON while one allocation fails, for every one of them: an error, and nothing leaks (the
 * sanitizer build says so). */
#include "costmodel/base/file.h"
#include "costmodel/base/json_read.h"
#include "costmodel/base/json_write.h"

#include "tests/support/check_number.h"
#include "tests/support/failing_alloc.h"

#include <stdio.h>
#include <string.h>

static const char document_text[] =
    "{\"name\": \"m\", \"list\": [1, 2, {\"deep\": [true, null, \"text\"]}], \"x\": 0.25}";

static void every_failed_allocation_while_loading_is_an_error(void **state)
{
    (void)state;
    static const char path[] = "json_memory_test.json";
    struct tpp_error err;
    uint64_t n = 0;
    assert_int_equal(tpp_file_write(path, document_text, strlen(document_text), 0644, &err), TPP_OK);
    for (;; n++) {
        struct tpp_json_document *document = NULL;
        tpp_failing_alloc_arm(n);
        const enum tpp_code code = tpp_json_load(path, &document, &err);
        const bool has_failed = tpp_failing_alloc_disarm();
        tpp_json_document_free(document);
        if (!has_failed) {
            assert_int_equal(code, TPP_OK);
            assert_non_null(document);
            break;
        }
        assert_int_equal(code, TPP_E_MEMORY);
        assert_null(document);
        assert_string_equal(err.where, path);
    }
    assert_true(n > 15); /* the buffer, the document, 10 nodes with 4 names and 2 texts, the index */
    remove(path);
}

static enum tpp_code write_document(struct tpp_text *out, struct tpp_error *err)
{
    struct tpp_json_writer writer;
    tpp_json_writer_init(&writer);
    tpp_json_add_string(&writer, writer.root, "name", "m");
    struct cJSON *list = tpp_json_add_array(&writer, writer.root, "list");
    for (int i = 0; i < 20; i++) {
        struct cJSON *row = tpp_json_add_object(&writer, list, NULL);
        tpp_json_add_number(&writer, row, "seconds", 0.1);
        tpp_json_add_u64(&writer, row, "bytes", 913);
        tpp_json_add_bool(&writer, row, "fits", true);
        tpp_json_add_null(&writer, row, "launch");
    }
    const enum tpp_code code = tpp_json_print(&writer, out, err);
    tpp_json_writer_release(&writer);
    return code;
}

static void every_failed_allocation_while_writing_is_an_error(void **state)
{
    (void)state;
    uint64_t n = 0;
    for (;; n++) {
        struct tpp_text text;
        struct tpp_error err;
        tpp_text_init(&text);
        tpp_failing_alloc_arm(n);
        const enum tpp_code code = write_document(&text, &err);
        const bool has_failed = tpp_failing_alloc_disarm();
        assert_int_equal(code, has_failed ? TPP_E_MEMORY : TPP_OK);
        tpp_text_release(&text);
        if (!has_failed) {
            break;
        }
    }
    assert_true(n > 200); /* 20 rows of 5 nodes and 4 names alone are 180 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failed_allocation_while_loading_is_an_error),
        cmocka_unit_test(every_failed_allocation_while_writing_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
