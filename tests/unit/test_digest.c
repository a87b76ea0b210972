/* Fingerprints of inputs. */
#include "cli/digest.h"
#include "costmodel/model/presets.h"

#include "tests/support/check_number.h"

#include <string.h>

/* Published test vectors of FNV-1a, 64 bits (draft-eastlake-fnv, appendix C). */
static void the_hash_is_fnv_1a(void **state)
{
    (void)state;
    assert_true(tpp_digest_bytes("", 0) == UINT64_C(0xcbf29ce484222325));
    assert_true(tpp_digest_bytes("a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(tpp_digest_bytes("foobar", 6) == UINT64_C(0x85944171f73967e8));
}

static void a_model_is_its_shape_and_not_its_name(void **state)
{
    char first[TPP_DIGEST_SIZE], renamed[TPP_DIGEST_SIZE], changed[TPP_DIGEST_SIZE];
    struct tpp_model model = *tpp_model_preset("llama3.1-8b");
    (void)state;
    assert_true(tpp_digest_model(&model, first));
    strcpy(model.name, "another");
    assert_true(tpp_digest_model(&model, renamed));
    model.vocab_size++;
    assert_true(tpp_digest_model(&model, changed));
    assert_string_equal(first, renamed);
    assert_string_not_equal(first, changed);
    assert_int_equal(strlen(first), TPP_DIGEST_SIZE - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hash_is_fnv_1a),
        cmocka_unit_test(a_model_is_its_shape_and_not_its_name),
    };
    return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}
