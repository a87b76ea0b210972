/* reference_lines.h - argument lines with the verdict of a framework's real code: tests/reference/lines, and the same
 * files in the folder of TPP_SHARED_VECTORS when it is set.
 *
 * A file holds one JSON object a line: "id", "args", "verdict", "world_size". */
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

static inline void reference_lines_read(const char *folder, const char *name, reference_line_compare *compare,
                                        unsigned *agreeing, unsigned *disagreeing)
{
    char path[4096], *data;
    size_t length;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(tpp_file_read(path, 1u << 20, &data, &length, NULL), TPP_OK);
    for (char *at = data; *at != '\0';) {
        const size_t line_length = strcspn(at, "\n");
        struct tpp_json_document *document;
        assert_int_equal(tpp_json_parse(at, line_length, path, &document, NULL), TPP_OK);
        compare(tpp_json_root(document), agreeing, disagreeing);
        tpp_json_document_free(document);
        at += line_length + (at[line_length] == '\n');
    }
    free(data);
}

/* Fails the test when a line of the files disagrees, or there is none. */
static inline void reference_lines_agree(const char *const *names, size_t num_names, reference_line_compare *compare)
{
    unsigned agreeing = 0, disagreeing = 0;
    char folder[4096];
    const char *shared = getenv("TPP_SHARED_VECTORS");
    snprintf(folder, sizeof folder, "%s/tests/reference/lines", getenv("TPP_SOURCE_ROOT"));
    for (size_t i = 0; i < num_names; i++) {
        reference_lines_read(folder, names[i], compare, &agreeing, &disagreeing);
        if (shared != NULL)
            reference_lines_read(shared, names[i], compare, &agreeing, &disagreeing);
    }
    print_message("# %u verdicts agree, %u do not\n", agreeing, disagreeing);
    assert_int_equal(disagreeing, 0);
    assert_int_not_equal(agreeing, 0);
}

#endif
