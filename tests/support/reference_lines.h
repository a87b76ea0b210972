/* reference_lines.h - argument lines with the verdict of a framework's real code, where the environment names them.
 *
 * A file of TPP_SHARED_VECTORS holds one JSON object a line: "id", "args", "verdict", "world_size". */
#ifndef TPP_TESTS_SUPPORT_REFERENCE_LINES_H
#define TPP_TESTS_SUPPORT_REFERENCE_LINES_H

#include "costmodel/base/file.h"
#include "costmodel/base/json_read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Compares our verdict with a line's, and counts. */
typedef void reference_line_compare(struct tpp_json line, unsigned *agreeing, unsigned *disagreeing);

/* Fails the test when a line of the files disagrees, or there is none. */
static inline void reference_lines_agree(const char *const *names, size_t num_names, reference_line_compare *compare)
{
    unsigned agreeing = 0, disagreeing = 0;
    for (size_t i = 0; i < num_names; i++) {
        char path[4096], *data;
        size_t length;
        snprintf(path, sizeof path, "%s/%s", getenv("TPP_SHARED_VECTORS"), names[i]);
        assert_int_equal(tpp_file_read(path, 1u << 20, &data, &length, NULL), TPP_OK);
        for (char *at = data; *at != '\0';) {
            const size_t line_length = strcspn(at, "\n");
            struct tpp_json_document *document;
            assert_int_equal(tpp_json_parse(at, line_length, path, &document, NULL), TPP_OK);
            compare(tpp_json_root(document), &agreeing, &disagreeing);
            tpp_json_document_free(document);
            at += line_length + (at[line_length] == '\n');
        }
        free(data);
    }
    print_message("# %u verdicts agree, %u do not\n", agreeing, disagreeing);
    assert_int_equal(disagreeing, 0);
    assert_int_not_equal(agreeing, 0);
}

#endif
