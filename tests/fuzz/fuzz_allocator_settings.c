/* Any text as PYTORCH_CUDA_ALLOC_CONF: it ends in settings or in an error, and settings read back equal when written. */
#include "tests/fuzz/fuzz_target.h"

#include "costmodel/allocator/settings.h"

#include <string.h>

static void check_settings(const struct tpp_allocator_settings *settings)
{
    struct tpp_text text;
    struct tpp_allocator_settings again;
    tpp_text_init(&text);
    tpp_allocator_settings_format(settings, &text);
    FUZZ_CHECK(!tpp_text_failed(&text));
    FUZZ_CHECK(tpp_allocator_settings_parse(tpp_text_get(&text), &again, NULL) == TPP_OK);
    FUZZ_CHECK(again.max_split_size_bytes == settings->max_split_size_bytes);
    FUZZ_CHECK(again.max_non_split_rounding_bytes == settings->max_non_split_rounding_bytes);
    FUZZ_CHECK(again.large_segment_bytes == settings->large_segment_bytes);
    FUZZ_CHECK(again.garbage_collection_threshold == settings->garbage_collection_threshold);
    FUZZ_CHECK(again.memory_fraction == settings->memory_fraction);
    FUZZ_CHECK(again.expandable_segments == settings->expandable_segments);
    FUZZ_CHECK(again.uses_driver_pool == settings->uses_driver_pool);
    FUZZ_CHECK(memcmp(again.roundup_divisions, settings->roundup_divisions, sizeof again.roundup_divisions) == 0);
    tpp_text_release(&text);
    for (unsigned shift = 0; shift < 63; shift++) {
        const uint64_t bytes = (UINT64_C(3) << shift) / 2;
        const uint64_t rounded = tpp_allocator_round(settings, bytes > 0 ? bytes : 1);
        FUZZ_CHECK(rounded == 0 || (rounded >= bytes && rounded % TPP_ALLOCATOR_MIN_BLOCK == 0));
        FUZZ_CHECK(rounded == 0 || bytes < 512 || rounded / 2 <= bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct tpp_allocator_settings settings;
    struct tpp_error err = {0};
    FUZZ_CHECK(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    if (tpp_allocator_settings_parse(text, &settings, &err) == TPP_OK)
        check_settings(&settings);
    else
        FUZZ_CHECK(err.message[0] != '\0' && err.hint[0] != '\0');
    free(text);
    return 0;
}
