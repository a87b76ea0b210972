/* The allocator replica, traced by hand. The first cases are the table of worked examples of the specification. */
#include "costmodel/allocator/replica.h"
#include "tests/support/check_number.h"
#include "tests/support/failing_alloc.h"

#include <stdlib.h>

#define MIB(x) ((uint64_t)((x) * 1048576.0))
#define GIB(x) ((uint64_t)(x) << 30)

static struct tpp_allocator *allocator_of(const char *text, uint64_t device_bytes)
{
    struct tpp_allocator_settings settings;
    struct tpp_allocator *allocator = NULL;
    assert_int_equal(tpp_allocator_settings_parse(text, &settings, NULL), TPP_OK);
    assert_int_equal(tpp_allocator_new(&settings, device_bytes, device_bytes, &allocator, NULL), TPP_OK);
    return allocator;
}

static uint32_t take(struct tpp_allocator *allocator, uint64_t bytes, uint32_t stream)
{
    uint32_t block;
    assert_int_equal(tpp_allocator_allocate(allocator, bytes, stream, &block), TPP_ALLOCATION_DONE);
    return block;
}

static void check(const struct tpp_allocator *allocator, uint64_t allocated, uint64_t reserved)
{
    assert_int_equal(tpp_allocator_statistics(allocator)->allocated.current, allocated);
    assert_int_equal(tpp_allocator_statistics(allocator)->reserved.current, reserved);
}

static void first_requests_are_the_worked_examples(void **state)
{
    (void)state;
    const struct {
        uint64_t bytes, allocated, reserved, largest_free;
    } rows[] = {
        {1, 512, MIB(2), MIB(2) - 512},
        {MIB(1), MIB(1), MIB(2), MIB(1)},
        {MIB(1) + 1, MIB(1) + 512, MIB(20), MIB(19) - 512},
        {MIB(9.5), MIB(9.5), MIB(20), MIB(10.5)},
        {MIB(10), MIB(10), MIB(10), 0},
        {MIB(10.5), MIB(10.5), MIB(12), MIB(1.5)}, /* 1.5 MiB is more than 1: split off */
        {MIB(11.25), MIB(12), MIB(12), 0},         /* 0.75 MiB is not */
        {MIB(19.5), MIB(20), MIB(20), 0},
        {MIB(25), MIB(26), MIB(26), 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tpp_allocator *allocator = allocator_of("", GIB(1));
        const uint32_t block = take(allocator, rows[i].bytes, 0);
        check(allocator, rows[i].allocated, rows[i].reserved);
        assert_int_equal(tpp_allocator_statistics(allocator)->requested.current, rows[i].bytes);
        assert_int_equal(tpp_allocator_statistics(allocator)->inactive_split.current, rows[i].largest_free);
        assert_int_equal(tpp_allocator_largest_free_block(allocator), rows[i].largest_free);
        tpp_allocator_release(allocator, block);
        check(allocator, 0, rows[i].reserved);
        assert_int_equal(tpp_allocator_statistics(allocator)->inactive_split.current, 0);
        assert_int_equal(tpp_allocator_largest_free_block(allocator), rows[i].reserved);
        tpp_allocator_free(allocator);
    }
}

static void nothing_is_no_block(void **state)
{
    (void)state;
    struct tpp_allocator *allocator = allocator_of("", GIB(1));
    assert_int_equal(take(allocator, 0, 0), TPP_NO_BLOCK);
    tpp_allocator_release(allocator, TPP_NO_BLOCK);
    check(allocator, 0, 0);
    tpp_allocator_free(allocator);
}

/* 30, 40 and 50 MiB free: a request of 35 takes the one of 40 and cuts it, 5 MiB stay. */
static void the_smallest_block_that_fits_is_cut(void **state)
{
    (void)state;
    struct tpp_allocator *allocator = allocator_of("", GIB(1));
    uint32_t blocks[3];
    for (int i = 0; i < 3; i++)
        blocks[i] = take(allocator, MIB(30) + (uint64_t)i * MIB(10), 0);
    for (int i = 0; i < 3; i++)
        tpp_allocator_release(allocator, blocks[i]);
    take(allocator, MIB(35), 0);
    check(allocator, MIB(35), MIB(120));
    assert_int_equal(tpp_allocator_statistics(allocator)->inactive_split.current, MIB(5));
    take(allocator, MIB(5), 0); /* the rest of the 40, not a part of a larger one */
    assert_int_equal(tpp_allocator_statistics(allocator)->inactive_split.current, 0);
    tpp_allocator_free(allocator);
}

/* Streams 0 and 1: what is free on 0 cannot serve 1 until the cache is released. Device of 100 MiB, 60 cached on stream 0:
 * 60 for stream 1 need a retry, which frees the first. */
static void a_stream_gets_memory_of_another_only_by_a_retry(void **state)
{
    (void)state;
    struct tpp_allocator *allocator = allocator_of("", MIB(100));
    tpp_allocator_release(allocator, take(allocator, MIB(60), 0));
    take(allocator, MIB(40), 1);
    check(allocator, MIB(40), MIB(100));
    assert_int_equal(tpp_allocator_statistics(allocator)->num_retries, 0);
    take(allocator, MIB(60), 1);
    check(allocator, MIB(100), MIB(100));
    assert_int_equal(tpp_allocator_statistics(allocator)->num_retries, 1);
    assert_int_equal(tpp_allocator_statistics(allocator)->num_device_frees, 1);
    uint32_t block;
    assert_int_equal(tpp_allocator_allocate(allocator, MIB(1), 0, &block), TPP_ALLOCATION_OUT_OF_MEMORY);
    assert_int_equal(block, TPP_NO_BLOCK);
    assert_int_equal(tpp_allocator_statistics(allocator)->num_out_of_memory, 1);
    assert_int_equal(tpp_allocator_statistics(allocator)->num_retries, 2);
    assert_int_equal(tpp_allocator_statistics(allocator)->failed_request_bytes, MIB(1));
    tpp_allocator_free(allocator);
}

/* 24 and 30 MiB free on a card of 60, and 5 of the 30 in use: 24 + 25 MiB are free, but no 26 together. */
static void free_memory_in_pieces_does_not_serve_a_large_request(void **state)
{
    (void)state;
    struct tpp_allocator *allocator = allocator_of("", MIB(60));
    const uint32_t pinned = take(allocator, MIB(4), 0); /* of a segment of 20: 16 stay */
    tpp_allocator_release(allocator, take(allocator, MIB(30), 0));
    take(allocator, MIB(26), 0); /* of the 30 */
    uint32_t block;
    assert_int_equal(tpp_allocator_allocate(allocator, MIB(18), 0, &block), TPP_ALLOCATION_OUT_OF_MEMORY);
    check(allocator, MIB(30), MIB(50)); /* 20 MiB are free: 16 and 4 */
    tpp_allocator_release(allocator, pinned);
    take(allocator, MIB(18), 0);
    tpp_allocator_free(allocator);
}

static void a_recorded_block_waits_for_its_stream(void **state)
{
    (void)state;
    struct tpp_allocator *allocator = allocator_of("", GIB(1));
    const uint32_t block = take(allocator, MIB(30), 1);
    tpp_allocator_record_stream(allocator, block, 0);
    tpp_allocator_release(allocator, block);
    assert_int_equal(tpp_allocator_statistics(allocator)->active.current, MIB(30));
    check(allocator, 0, MIB(30));
    const uint32_t second = take(allocator, MIB(30), 1);
    check(allocator, MIB(30), MIB(60));
    tpp_allocator_release(allocator, second);
    tpp_allocator_finish_stream(allocator, 0);
    take(allocator, MIB(30), 1);
    take(allocator, MIB(30), 1);
    check(allocator, MIB(60), MIB(60));
    tpp_allocator_free(allocator);
}

/* max_split_size 100 MiB: a block of 200 is not cut for 50 (a new segment), and serves 190 whole (10 of slack is below 20)
 * but not 170 (30 is not). */
static void blocks_above_the_split_limit_stay_whole(void **state)
{
    (void)state;
    struct tpp_allocator *allocator = allocator_of("max_split_size_mb:100", GIB(1));
    tpp_allocator_release(allocator, take(allocator, MIB(200), 0));
    tpp_allocator_release(allocator, take(allocator, MIB(50), 0));
    check(allocator, 0, MIB(250));
    const uint32_t block = take(allocator, MIB(190), 0);
    check(allocator, MIB(200), MIB(250));
    tpp_allocator_release(allocator, block);
    take(allocator, MIB(170), 0);
    check(allocator, MIB(170), MIB(420));
    tpp_allocator_free(allocator);
}

/* A card of 300 MiB with 120 and 150 cached, both above the limit of 100: for 250 neither is large enough; the larger and
 * then the other are released, and no retry is counted. */
static void oversize_blocks_are_released_before_a_retry(void **state)
{
    (void)state;
    struct tpp_allocator *allocator = allocator_of("max_split_size_mb:100", MIB(300));
    const uint32_t first = take(allocator, MIB(120), 0), second = take(allocator, MIB(150), 0);
    tpp_allocator_release(allocator, first);
    tpp_allocator_release(allocator, second);
    take(allocator, MIB(250), 0);
    check(allocator, MIB(250), MIB(250));
    assert_int_equal(tpp_allocator_statistics(allocator)->num_retries, 0);
    assert_int_equal(tpp_allocator_statistics(allocator)->num_device_frees, 2);
    tpp_allocator_free(allocator);
}

/* Threshold 0.5 of 1 GiB. Cached: 260 MiB since search 2, and 300 MiB, used once more, since search 3. A new segment of 40
 * is needed (search 4, on a stream where nothing is cached) with 560 > 512 reserved: 48 MiB must go. The ages are 2 and 1,
 * on average 1.5: the 260 go. */
static void garbage_collection_frees_what_lay_longest(void **state)
{
    (void)state;
    struct tpp_allocator *allocator =
        allocator_of("garbage_collection_threshold:0.5,per_process_memory_fraction:1.0", GIB(1));
    const uint32_t large = take(allocator, MIB(300), 0), small = take(allocator, MIB(260), 0);
    tpp_allocator_release(allocator, large);
    tpp_allocator_release(allocator, small);
    tpp_allocator_release(allocator, take(allocator, MIB(280), 0)); /* cut from the 300 and merged again */
    take(allocator, MIB(40), 1);
    check(allocator, MIB(40), MIB(300 + 40));
    tpp_allocator_free(allocator);
}

/* Threshold 0.5 of 1 GiB; 200, 220 and 240 MiB are cached since search 3, and 240 was used again at search 4. At search 5, with
 * 660 > 512 reserved, 148 MiB must go. The ages are 2, 2 and 1, on average 5/3: 200 and 220 both go, although 200 would do (the
 * source: "Don't stop upon reaching the target_size"). */
static void garbage_collection_goes_to_the_end_of_a_pass(void **state)
{
    (void)state;
    struct tpp_allocator *allocator =
        allocator_of("garbage_collection_threshold:0.5,per_process_memory_fraction:1.0", GIB(1));
    const uint32_t blocks[] = {take(allocator, MIB(200), 0), take(allocator, MIB(220), 0), take(allocator, MIB(240), 0)};
    for (int i = 0; i < 3; i++)
        tpp_allocator_release(allocator, blocks[i]);
    tpp_allocator_release(allocator, take(allocator, MIB(230), 0));
    take(allocator, MIB(40), 1);
    check(allocator, MIB(40), MIB(240 + 40));
    tpp_allocator_free(allocator);
}

/* large_segment_size_mb:12. 3 MiB make a segment of 12 and are cut from it; of it 9 MiB are left, so that 9.5 more make a
 * second one, cut too (2.5 MiB of rest are more than 1). With expandable segments 12 is the granule. */
static void large_segments_may_have_another_size(void **state)
{
    (void)state;
    struct tpp_allocator *allocator = allocator_of("large_segment_size_mb:12", GIB(1));
    take(allocator, MIB(3), 0);
    check(allocator, MIB(3), MIB(12));
    take(allocator, MIB(9.5), 0);
    check(allocator, MIB(12.5), MIB(24));
    assert_int_equal(tpp_allocator_largest_free_block(allocator), MIB(9));
    tpp_allocator_free(allocator);
    allocator = allocator_of("expandable_segments:True,large_segment_size_mb:12", GIB(1));
    take(allocator, MIB(30), 0);
    check(allocator, MIB(30), MIB(36));
    take(allocator, 512, 0);
    check(allocator, MIB(30) + 512, MIB(38));
    tpp_allocator_free(allocator);
}

/* Large pool, granules of 20 MiB: 30 MiB map 40; 5 more come from the rest; 10 more map the third granule, of which the
 * 5 MiB before it are a part. After all is free but the 5, the cache gives back what lies outside its granule. */
static void expandable_segments_map_granules(void **state)
{
    (void)state;
    struct tpp_allocator *allocator = allocator_of("expandable_segments:True", GIB(1));
    const uint32_t first = take(allocator, MIB(30), 0);
    check(allocator, MIB(30), MIB(40));
    take(allocator, MIB(5), 0);
    check(allocator, MIB(35), MIB(40));
    const uint32_t third = take(allocator, MIB(10), 0);
    check(allocator, MIB(45), MIB(60));
    tpp_allocator_release(allocator, first);
    tpp_allocator_release(allocator, third);
    tpp_allocator_empty_cache(allocator);
    check(allocator, MIB(5), MIB(20)); /* the 5 MiB are at 30 .. 35: the granule 20 .. 40 */
    assert_int_equal(tpp_allocator_statistics(allocator)->inactive_split.peak, 0);
    take(allocator, MIB(25), 0); /* into the hole at 0 .. 30: 20 MiB are mapped again */
    check(allocator, MIB(30), MIB(40));
    take(allocator, 512, 0); /* the small pool has granules of 2 MiB */
    check(allocator, MIB(30) + 512, MIB(42));
    tpp_allocator_free(allocator);
}

static void blocks_are_listed_with_their_segments(void **state)
{
    (void)state;
    struct tpp_allocator *allocator = allocator_of("", GIB(1));
    struct tpp_block_view *views;
    size_t count;
    take(allocator, MIB(3), 0);
    const uint32_t second = take(allocator, MIB(4), 0);
    tpp_allocator_record_stream(allocator, second, 2);
    tpp_allocator_release(allocator, second);
    take(allocator, MIB(30), 1);
    assert_int_equal(tpp_allocator_list(allocator, &views, &count, NULL), TPP_OK);
    assert_int_equal(count, 4); /* 3, 4, and the rest of 13 of one segment; 30 */
    const uint64_t sizes[] = {MIB(3), MIB(4), MIB(13), MIB(30)};
    const enum tpp_block_state states[] = {TPP_BLOCK_ALLOCATED, TPP_BLOCK_WAITING, TPP_BLOCK_INACTIVE, TPP_BLOCK_ALLOCATED};
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(views[i].bytes, sizes[i]);
        assert_int_equal(views[i].state, states[i]);
        assert_int_equal(views[i].segment_bytes, i < 3 ? MIB(20) : MIB(30));
        assert_int_equal(views[i].segment_address, views[i < 3 ? 0 : 3].address);
        assert_int_equal(views[i].stream, i < 3 ? 0 : 1);
    }
    free(views);
    tpp_allocator_free(allocator);
}

static void the_driver_pool_cannot_be_replayed(void **state)
{
    (void)state;
    struct tpp_allocator_settings settings = tpp_allocator_settings_defaults();
    struct tpp_allocator *allocator;
    settings.uses_driver_pool = true;
    assert_int_equal(tpp_allocator_new(&settings, 1, 1, &allocator, NULL), TPP_E_UNSUPPORTED);
    assert_null(allocator);
}

/* Requests with every n-th allocation of this program failing: an answer, never a crash. */
static void host_memory_may_run_out_anywhere(void **state)
{
    (void)state;
    const struct tpp_allocator_settings settings = tpp_allocator_settings_defaults();
    for (uint64_t n = 0;; n++) {
        struct tpp_allocator *allocator = NULL;
        bool failed = false;
        tpp_failing_alloc_arm(n);
        failed = tpp_allocator_new(&settings, GIB(64), GIB(64), &allocator, NULL) != TPP_OK;
        uint32_t blocks[2000];
        int count = 0;
        for (; !failed && count < 2000; count++)
            failed = tpp_allocator_allocate(allocator, 1 + (uint64_t)count * 4096, 0, &blocks[count]) !=
                     TPP_ALLOCATION_DONE;
        for (int i = 0; !failed && i < count; i += 2) {
            tpp_allocator_record_stream(allocator, blocks[i], 1);
            tpp_allocator_release(allocator, blocks[i]);
            failed = tpp_allocator_failed(allocator);
        }
        const bool was_armed = tpp_failing_alloc_disarm();
        assert_int_equal(failed, was_armed);
        tpp_allocator_free(allocator);
        if (!was_armed)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_requests_are_the_worked_examples),
        cmocka_unit_test(nothing_is_no_block),
        cmocka_unit_test(the_smallest_block_that_fits_is_cut),
        cmocka_unit_test(a_stream_gets_memory_of_another_only_by_a_retry),
        cmocka_unit_test(free_memory_in_pieces_does_not_serve_a_large_request),
        cmocka_unit_test(a_recorded_block_waits_for_its_stream),
        cmocka_unit_test(blocks_above_the_split_limit_stay_whole),
        cmocka_unit_test(oversize_blocks_are_released_before_a_retry),
        cmocka_unit_test(garbage_collection_frees_what_lay_longest),
        cmocka_unit_test(garbage_collection_goes_to_the_end_of_a_pass),
        cmocka_unit_test(large_segments_may_have_another_size),
        cmocka_unit_test(expandable_segments_map_granules),
        cmocka_unit_test(blocks_are_listed_with_their_segments),
        cmocka_unit_test(the_driver_pool_cannot_be_replayed),
        cmocka_unit_test(host_memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
