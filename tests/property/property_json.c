/* Laws of the JSON layer on seeded random values. */
#include "costmodel/base/json_read.h"
#include "costmodel/base/json_write.h"

#include "tests/support/check_number.h"
#include "tests/support/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUM_CASES = 20000 };

/* Any finite double, by its bits: the very small and the very large as often as the usual. */
static double random_double(struct tpp_random *random)
{
    double value;
    do {
        const uint64_t bits = tpp_random_next(random);
        memcpy(&value, &bits, sizeof value);
    } while (!isfinite(value));
    return value;
}

static void the_text_of_a_number_reads_back_equal_and_is_not_longer_than_needed(void **state)
{
    (void)state;
    struct tpp_random random = {.state = 1};
    for (int i = 0; i < NUM_CASES; i++) {
        const uint64_t seed = random.state;
        /* Every other value is a short decimal, as people write them. */
        const double value = i % 2 ? random_double(&random) : (double)tpp_random_range(&random, 0, 99999) / 1000;
        char text[32], shorter[32];
        tpp_json_number_text(text, sizeof text, value);
        snprintf(shorter, sizeof shorter, "%.15g", value);
        if (strtod(text, NULL) != value || (strtod(shorter, NULL) == value && strcmp(text, shorter) != 0)) {
            fail_msg("seed %" PRIu64 ": %.17g became %s", seed, value, text);
        }
    }
}

static void numbers_survive_writing_and_reading(void **state)
{
    (void)state;
    enum { COUNT = 500 };
    struct tpp_random random = {.state = 2};
    struct tpp_json_writer writer;
    struct tpp_text text;
    struct tpp_json_document *document;
    double values[COUNT];
    tpp_json_writer_init(&writer);
    tpp_text_init(&text);
    struct cJSON *list = tpp_json_add_array(&writer, writer.root, "list");
    for (int i = 0; i < COUNT; i++) {
        values[i] = random_double(&random);
        tpp_json_add_number(&writer, list, NULL, values[i]);
    }
    assert_int_equal(tpp_json_print(&writer, &text, NULL), TPP_OK);
    assert_int_equal(tpp_json_parse(text.data, text.length, "printed", &document, NULL), TPP_OK);
    struct tpp_json array, element;
    assert_true(tpp_json_member(tpp_json_root(document), "list", &array));
    assert_int_equal(tpp_json_size(array), COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        double value = 0;
        assert_true(tpp_json_at(array, i, &element, NULL));
        assert_int_equal(tpp_json_as_number(element, -INFINITY, INFINITY, &value, NULL), TPP_OK);
        CHECK_NUMBER(value, values[i], 0);
    }
    tpp_json_document_free(document);
    tpp_text_release(&text);
    tpp_json_writer_release(&writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_of_a_number_reads_back_equal_and_is_not_longer_than_needed),
        cmocka_unit_test(numbers_survive_writing_and_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
