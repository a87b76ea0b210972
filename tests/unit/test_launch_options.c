/* test_launch_options.c - releases and the option table of Megatron-LM. */
#include "planner/launch/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void check_release(const char *text, enum tpp_release expected)
{
    enum tpp_release release = TPP_RELEASE_COUNT;
    struct tpp_error err;
    assert_int_equal(tpp_release_parse(text, "--release", &release, &err), TPP_OK);
    assert_int_equal(release, expected);
}

static void test_releases_are_understood_as_people_write_them(void **state)
{
    (void)state;
    check_release("0.14", TPP_RELEASE_0_14);
    check_release("core_v0.14.0", TPP_RELEASE_0_14);
    check_release("core_r0.9.0", TPP_RELEASE_0_9);
    check_release("v0.10.1", TPP_RELEASE_0_10);
    check_release("23.06", TPP_RELEASE_23_06);
    check_release("v2.6", TPP_RELEASE_V2_6);
    check_release("main", TPP_RELEASE_MAIN);
    check_release("newest", TPP_RELEASE_0_19);
    check_release("", TPP_RELEASE_0_19);
    for (int i = 0; i < TPP_RELEASE_COUNT; i++)
        check_release(tpp_release_name((enum tpp_release)i), (enum tpp_release)i);
}

static void test_other_texts_are_no_release(void **state)
{
    static const char *const texts[] = {"0.20",      "0",     "0.",   ".14",    "0.14x", "x0.14",
                                        "core_0.14", "25.04", "Main", "0.1400", "0.14 ", "latest"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        enum tpp_release release;
        struct tpp_error err = {0};
        assert_int_equal(tpp_release_parse(texts[i], "--release", &release, &err), TPP_E_USAGE);
        assert_non_null(strstr(err.message, texts[i]));
        assert_string_equal(err.where, "--release");
        assert_non_null(strstr(err.hint, "0.19"));
    }
}

/* Tags of 2023 whose options nobody has listed: not taken for another release. */
static void test_the_first_core_tags_have_unknown_options(void **state)
{
    static const char *const texts[] = {"0.3", "core_v0.1.0", "core_r0.2.0", "v0.3.0"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        enum tpp_release release;
        struct tpp_error err = {0};
        assert_int_equal(tpp_release_parse(texts[i], "--release", &release, &err), TPP_E_USAGE);
        assert_non_null(strstr(err.message, texts[i]));
        assert_non_null(strstr(err.hint, "23.06"));
    }
}

static void test_versions_compare_by_number(void **state)
{
    (void)state;
    assert_true(tpp_version_is_before("3.12.6", 4, 0));
    assert_true(tpp_version_is_before("1.9", 1, 10));
    assert_true(tpp_version_is_before("v1", 1, 6));
    assert_false(tpp_version_is_before("1.10.1", 1, 10));
    assert_false(tpp_version_is_before("4", 4, 0));
    assert_false(tpp_version_is_before("main", 4, 0));
    assert_false(tpp_version_is_before("", 4, 0));
}

static void test_releases_are_in_the_order_of_their_dates(void **state)
{
    (void)state;
    assert_true(TPP_RELEASE_V2_6 < TPP_RELEASE_23_04);
    assert_true(TPP_RELEASE_23_06 < TPP_RELEASE_0_4);
    assert_true(TPP_RELEASE_0_9 < TPP_RELEASE_0_10);
    assert_true(TPP_RELEASE_0_19 < TPP_RELEASE_MAIN);
}

static void test_ranges_of_releases_include_both_ends(void **state)
{
    (void)state;
    assert_true(tpp_release_in_range("0.9..0.12", 9, TPP_RELEASE_0_9));
    assert_true(tpp_release_in_range("0.9..0.12", 9, TPP_RELEASE_0_12));
    assert_false(tpp_release_in_range("0.9..0.12", 9, TPP_RELEASE_0_13));
    assert_true(tpp_release_in_range("..0.15", 6, TPP_RELEASE_V2_6));
    assert_false(tpp_release_in_range("0.16..", 6, TPP_RELEASE_0_15));
    assert_true(tpp_release_in_range("0.16..", 6, TPP_RELEASE_MAIN));
    assert_false(tpp_release_in_range("0.16", 4, TPP_RELEASE_0_16));
    assert_false(tpp_release_in_range("x..", 3, TPP_RELEASE_0_16));
}

static void test_options_are_sorted_so_that_each_is_found(void **state)
{
    size_t count;
    const struct tpp_launch_option *options = tpp_launch_options(&count);
    (void)state;
    assert_int_equal(count, 968); /* rows of the reference */
    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(tpp_launch_option_find(options[i].name), &options[i]);
        assert_true(options[i].first <= options[i].last);
        bool is_flag = options[i].kind <= TPP_LAUNCH_OPTION_OFF;
        assert_int_equal(options[i].num_values == '0', is_flag);
    }
    assert_null(tpp_launch_option_find("--recompute-gran")); /* abbreviations are off */
    assert_null(tpp_launch_option_find("--recompute_granularity"));
    assert_null(tpp_launch_option_find(""));
}

static void check_life(const char *name, enum tpp_release first, enum tpp_release last)
{
    const struct tpp_launch_option *option = tpp_launch_option_find(name);
    assert_non_null(option);
    for (int release = 0; release < TPP_RELEASE_COUNT; release++)
        assert_int_equal(tpp_launch_option_in(option, (enum tpp_release)release),
                         release >= (int)first && release <= (int)last);
}

static void test_options_live_from_their_first_to_their_last_release(void **state)
{
    (void)state;
    check_life("--tensor-model-parallel-size", TPP_RELEASE_V2_6, TPP_RELEASE_MAIN);
    check_life("--num-virtual-stages-per-pipeline-rank", TPP_RELEASE_0_11, TPP_RELEASE_MAIN);
    check_life("--layernorm-epsilon", TPP_RELEASE_V2_6, TPP_RELEASE_23_06);
    check_life("--norm-epsilon", TPP_RELEASE_0_4, TPP_RELEASE_MAIN);
    check_life("--use-custom-fsdp", TPP_RELEASE_0_12, TPP_RELEASE_0_13);
    check_life("--overlap-p2p-communication", TPP_RELEASE_23_06, TPP_RELEASE_23_06);
}

static void test_choices_and_defaults_follow_the_release(void **state)
{
    const struct tpp_launch_option *dispatcher = tpp_launch_option_find("--moe-token-dispatcher-type");
    const struct tpp_launch_option *format = tpp_launch_option_find("--ckpt-format");
    const struct tpp_launch_option *strategy = tpp_launch_option_find("--data-parallel-sharding-strategy");
    const struct tpp_launch_option *layers = tpp_launch_option_find("--recompute-num-layers");
    (void)state;
    assert_false(tpp_launch_option_allows(dispatcher, TPP_RELEASE_0_11, "flex"));
    assert_true(tpp_launch_option_allows(dispatcher, TPP_RELEASE_0_12, "flex"));
    assert_true(tpp_launch_option_allows(dispatcher, TPP_RELEASE_0_12, "alltoall_seq"));
    assert_false(tpp_launch_option_allows(dispatcher, TPP_RELEASE_0_13, "alltoall_seq"));
    assert_false(tpp_launch_option_allows(dispatcher, TPP_RELEASE_0_13, "ring"));
    assert_true(tpp_launch_option_allows(format, TPP_RELEASE_0_15, "zarr"));
    assert_false(tpp_launch_option_allows(format, TPP_RELEASE_0_16, "zarr"));
    assert_true(tpp_launch_option_allows(layers, TPP_RELEASE_0_16, "7"));
    assert_true(tpp_launch_option_is_default(strategy, TPP_RELEASE_0_17, "no_shard"));
    assert_true(tpp_launch_option_is_default(strategy, TPP_RELEASE_0_18, "optim_grads_params"));
    assert_false(tpp_launch_option_is_default(strategy, TPP_RELEASE_0_18, "no_shard"));
    assert_true(tpp_launch_option_is_default(layers, TPP_RELEASE_23_06, "1"));
    assert_true(tpp_launch_option_is_default(layers, TPP_RELEASE_0_4, "none"));
}

static void test_a_renamed_option_leads_to_one_that_exists(void **state)
{
    size_t count;
    const struct tpp_launch_rename *renames = tpp_launch_renames(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        char name[80];
        assert_non_null(tpp_launch_option_find(renames[i].old_name));
        if (renames[i].new_name == NULL)
            continue;
        size_t length = strcspn(renames[i].new_name, " ");
        assert_true(length < sizeof name);
        memcpy(name, renames[i].new_name, length);
        name[length] = '\0';
        const struct tpp_launch_option *option = tpp_launch_option_find(name);
        assert_non_null(option);
        assert_true(tpp_launch_option_in(option, renames[i].since));
    }
    assert_string_equal(tpp_launch_rename_find("--use-custom-fsdp")->new_name, "--use-megatron-fsdp");
    assert_true(tpp_launch_rename_find("--checkpoint-activations")->ends_program);
    assert_null(tpp_launch_rename_find("--bf16"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_releases_are_understood_as_people_write_them),
        cmocka_unit_test(test_other_texts_are_no_release),
        cmocka_unit_test(test_the_first_core_tags_have_unknown_options),
        cmocka_unit_test(test_versions_compare_by_number),
        cmocka_unit_test(test_releases_are_in_the_order_of_their_dates),
        cmocka_unit_test(test_ranges_of_releases_include_both_ends),
        cmocka_unit_test(test_options_are_sorted_so_that_each_is_found),
        cmocka_unit_test(test_options_live_from_their_first_to_their_last_release),
        cmocka_unit_test(test_choices_and_defaults_follow_the_release),
        cmocka_unit_test(test_a_renamed_option_leads_to_one_that_exists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
