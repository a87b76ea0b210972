/* The allocator's option string and its arithmetic; numbers by hand from the rules of the source. */
#include "costmodel/allocator/settings.h"
#include "tests/support/check_number.h"

#include <string.h>

#define MIB(x) ((uint64_t)((x) * 1048576.0))

static struct tpp_allocator_settings parsed(const char *text)
{
    struct tpp_allocator_settings settings;
    struct tpp_error err = {0};
    if (tpp_allocator_settings_parse(text, &settings, &err) != TPP_OK)
        fail_msg("%s: %s", text, err.message);
    return settings;
}

static void requests_round_to_512_bytes(void **state)
{
    (void)state;
    const struct tpp_allocator_settings plain = tpp_allocator_settings_defaults();
    assert_int_equal(tpp_allocator_round(&plain, 1), 512);
    assert_int_equal(tpp_allocator_round(&plain, 512), 512);
    assert_int_equal(tpp_allocator_round(&plain, 513), 1024);
    assert_int_equal(tpp_allocator_round(&plain, MIB(1) + 1), MIB(1) + 512);
    assert_int_equal(tpp_allocator_round(&plain, UINT64_MAX), 0);
}

static void segments_have_three_sizes(void **state)
{
    (void)state;
    const struct tpp_allocator_settings plain = tpp_allocator_settings_defaults();
    assert_int_equal(tpp_allocator_segment_bytes(&plain, 512), MIB(2));
    assert_int_equal(tpp_allocator_segment_bytes(&plain, MIB(1)), MIB(2));
    assert_int_equal(tpp_allocator_segment_bytes(&plain, MIB(1) + 512), MIB(20));
    assert_int_equal(tpp_allocator_segment_bytes(&plain, MIB(10) - 512), MIB(20));
    assert_int_equal(tpp_allocator_segment_bytes(&plain, MIB(10)), MIB(10));
    assert_int_equal(tpp_allocator_segment_bytes(&plain, MIB(25)), MIB(26));
    const struct tpp_allocator_settings other = parsed("large_segment_size_mb:12");
    assert_int_equal(tpp_allocator_segment_bytes(&other, MIB(1) + 512), MIB(12));
    assert_int_equal(tpp_allocator_segment_bytes(&other, MIB(10)), MIB(10));
}

/* 4 divisions: 4800 lies in 4096 .. 8192, steps of 1024: 5120. 1200 is not above 512 * 4, so it goes to 1536. */
static void divisions_cut_the_power_of_two_below(void **state)
{
    (void)state;
    const struct tpp_allocator_settings four = parsed("roundup_power2_divisions:4");
    assert_int_equal(tpp_allocator_round(&four, 4800), 5120);
    assert_int_equal(tpp_allocator_round(&four, 1200), 1536);
    assert_int_equal(tpp_allocator_round(&four, 8192), 8192);
    /* 70 MiB in 64 .. 128, steps of 16: 80 MiB. */
    assert_int_equal(tpp_allocator_round(&four, MIB(70)), MIB(80));
}

/* Sizes 256 MiB: index 8, 512: 9, 1024: 10; the first fills below, `>` what is above index 10 (c10/core/AllocatorConfig.cpp
 * since PyTorch 2.9; its documentation: "4 divisions for allocations between 512MB and 1GB and 8 divisions for any larger"). */
static void a_division_list_fills_its_table(void **state)
{
    (void)state;
    const struct tpp_allocator_settings list = parsed("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]");
    static const uint16_t expected[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8};
    assert_memory_equal(list.roundup_divisions, expected, sizeof expected);
    const struct tpp_allocator_settings gap = parsed("roundup_power2_divisions:[4:2,32:4]");
    static const uint16_t with_gap[16] = {2, 2, 2, 0, 0, 4};
    assert_memory_equal(gap.roundup_divisions, with_gap, sizeof with_gap);
    const struct tpp_allocator_settings above = parsed("roundup_power2_divisions:[>:8]");
    static const uint16_t all_above[16] = {0, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8};
    assert_memory_equal(above.roundup_divisions, all_above, sizeof all_above);
}

static void options_are_read_and_written(void **state)
{
    (void)state;
    const struct tpp_allocator_settings settings =
        parsed(" garbage_collection_threshold:0.8, max_split_size_mb:128,expandable_segments:True,"
               "pinned_use_cuda_host_register:True,max_non_split_rounding_mb:64,per_process_memory_fraction:0.9 ");
    assert_int_equal(settings.max_split_size_bytes, MIB(128));
    assert_int_equal(settings.max_non_split_rounding_bytes, MIB(64));
    assert_true(settings.expandable_segments);
    CHECK_NUMBER(settings.garbage_collection_threshold, 0.8, 0);
    CHECK_NUMBER(settings.memory_fraction, 0.9, 0);
    struct tpp_text text;
    tpp_text_init(&text);
    tpp_allocator_settings_format(&settings, &text);
    assert_string_equal(tpp_text_get(&text),
                        "expandable_segments:True,max_split_size_mb:128,max_non_split_rounding_mb:64,"
                        "garbage_collection_threshold:0.8,per_process_memory_fraction:0.9");
    tpp_text_clear(&text);
    const struct tpp_allocator_settings plain = tpp_allocator_settings_defaults();
    tpp_allocator_settings_format(&plain, &text);
    assert_string_equal(tpp_text_get(&text), "");
    tpp_text_release(&text);
    assert_true(parsed("").max_split_size_bytes == TPP_ALLOCATOR_UNLIMITED);
    /* The slack follows the segment's size, wherever in the text that is. */
    assert_int_equal(parsed("max_split_size_mb:15,large_segment_size_mb:12").max_non_split_rounding_bytes, MIB(12));
    assert_int_equal(parsed("max_non_split_rounding_mb:64,large_segment_size_mb:12").max_non_split_rounding_bytes, MIB(64));
    assert_true(parsed("backend:cudaMallocAsync").uses_driver_pool);
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"max_split_size_mb:19", "max_split_size_mb cannot be '19'"},
        {"max_non_split_rounding_mb:19", "max_non_split_rounding_mb cannot be '19'"},
        {"max_split_size_mb:39,large_segment_size_mb:40", "max_split_size_mb cannot be '39'"},
        {"large_segment_size_mb:10", "large_segment_size_mb cannot be '10'"},
        {"large_segment_size_mb", "the option 'large_segment_size_mb' has no value"},
        {"max_split_size_mb:12x", "max_split_size_mb cannot be '12x'"},
        {"max_split_size_mb", "the option 'max_split_size_mb' has no value"},
        {"max_split_size_mb:", "the option 'max_split_size_mb' has no value"},
        {"garbage_collection_threshold:1", "garbage_collection_threshold cannot be '1'"},
        {"garbage_collection_threshold:nan", "garbage_collection_threshold cannot be 'nan'"},
        {"expandable_segments:true", "expandable_segments cannot be 'true'"},
        {"roundup_power2_divisions:3", "roundup_power2_divisions cannot be '3'"},
        {"roundup_power2_divisions:[256:1", "roundup_power2_divisions cannot be '[256:1'"},
        {"roundup_power2_divisions:0", "roundup_power2_divisions cannot be '0'"},
        {"roundup_power2_divisions:[]", "roundup_power2_divisions cannot be ''"},
        {"roundup_power2_divisions:[300:8]", "a size of roundup_power2_divisions cannot be '300'"},
        {"roundup_power2_divisions:[256]", "roundup_power2_divisions cannot be '256'"},
        {"backend:driver", "backend cannot be 'driver'"},
        {"max_split_size:128", "the allocator has no option 'max_split_size'"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct tpp_allocator_settings settings = tpp_allocator_settings_defaults();
        struct tpp_error err = {0};
        assert_int_equal(tpp_allocator_settings_parse(wrong[i][0], &settings, &err), TPP_E_USAGE);
        assert_string_equal(err.message, wrong[i][1]);
        assert_string_equal(err.where, "PYTORCH_CUDA_ALLOC_CONF");
        assert_true(settings.max_split_size_bytes == TPP_ALLOCATOR_UNLIMITED);
    }
    struct tpp_error err = {0};
    struct tpp_allocator_settings settings;
    tpp_allocator_settings_parse("max_split_size:128", &settings, &err);
    assert_string_equal(err.hint, "did you mean max_split_size_mb");
    char text[2000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(tpp_allocator_settings_parse(text, &settings, &err), TPP_E_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_round_to_512_bytes),
        cmocka_unit_test(segments_have_three_sizes),
        cmocka_unit_test(divisions_cut_the_power_of_two_below),
        cmocka_unit_test(a_division_list_fills_its_table),
        cmocka_unit_test(options_are_read_and_written),
        cmocka_unit_test(wrong_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
