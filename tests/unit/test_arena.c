/* Pieces of an arena: zeroed, aligned, apart from each other, gone after a rewind. */
#include "costmodel/base/arena.h"

#include "tests/support/check_number.h"
#include "tests/support/failing_alloc.h"

#include <string.h>

static void pieces_are_zeroed_and_aligned_for_any_type(void **state)
{
    (void)state;
    struct tpp_arena *arena = tpp_arena_new();
    assert_non_null(arena);
    for (size_t size = 0; size < 200; size++) {
        unsigned char *piece = tpp_arena_alloc(arena, size);
        assert_non_null(piece);
        assert_int_equal((uintptr_t)piece % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < size; i++) {
            assert_int_equal(piece[i], 0);
        }
        memset(piece, 0xee, size);
    }
    tpp_arena_free(arena);
    tpp_arena_free(NULL);
}

static void pieces_keep_their_content_over_many_blocks(void **state)
{
    (void)state;
    enum {
        COUNT = 3000
    }; /* 7 to 306 bytes each: several blocks of 64 KiB, and one piece that is larger than a block */
    static unsigned char *pieces[COUNT];
    struct tpp_arena *arena = tpp_arena_new();
    for (size_t i = 0; i < COUNT; i++) {
        pieces[i] = tpp_arena_alloc(arena, i == 1234 ? 200000 : 7 + i % 300);
        assert_non_null(pieces[i]);
        memset(pieces[i], (int)(i % 251), 7 + i % 300);
    }
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t j = 0; j < 7 + i % 300; j++) {
            assert_int_equal(pieces[i][j], i % 251);
        }
    }
    tpp_arena_free(arena);
}

static void a_rewind_keeps_what_is_older_and_new_pieces_are_zeroed_again(void **state)
{
    (void)state;
    struct tpp_arena *arena = tpp_arena_new();
    const struct tpp_arena_mark empty = tpp_arena_mark(arena);
    char *name = tpp_arena_strdup(arena, "kept");
    const struct tpp_arena_mark mark = tpp_arena_mark(arena);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++) {
            unsigned char *piece = tpp_arena_alloc(arena, 5000);
            assert_non_null(piece);
            for (size_t j = 0; j < 5000; j++) {
                assert_int_equal(piece[j], 0);
            }
            memset(piece, 0xee, 5000);
        }
        tpp_arena_rewind(arena, mark);
        assert_string_equal(name, "kept");
    }
    tpp_arena_rewind(arena, empty);
    name = tpp_arena_strdup(arena, "again");
    assert_string_equal(name, "again");
    tpp_arena_free(arena);
}

static void sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    struct tpp_arena *arena = tpp_arena_new();
    assert_null(tpp_arena_alloc(arena, SIZE_MAX));
    assert_null(tpp_arena_alloc(arena, (size_t)PTRDIFF_MAX));
    assert_null(tpp_arena_alloc_array(arena, SIZE_MAX / 8 + 1, 8)); /* 2^61 * 8 = 2^64 wraps to 0 */
    assert_null(tpp_arena_alloc_array(arena, (size_t)1 << 33, (size_t)1 << 33));
    assert_non_null(tpp_arena_alloc_array(arena, 7, 9));
    assert_non_null(tpp_arena_alloc_array(arena, 7, 0));
    assert_non_null(tpp_arena_alloc_array(arena, 0, 7));
    tpp_arena_free(arena);
}

/* Fills an arena over several blocks; false when an allocation failed. */
static bool use_arena(void)
{
    struct tpp_arena *arena = tpp_arena_new();
    bool is_ok = arena != NULL;
    for (int i = 0; is_ok && i < 12; i++) {
        is_ok = tpp_arena_alloc(arena, 60000) && tpp_arena_strdup(arena, "text");
    }
    tpp_arena_free(arena);
    return is_ok;
}

static void every_failed_allocation_gives_null(void **state)
{
    (void)state;
    uint64_t n = 0;
    bool has_failed = true;
    for (; has_failed; n++) {
        tpp_failing_alloc_arm(n);
        const bool is_ok = use_arena();
        has_failed = tpp_failing_alloc_disarm();
        assert_int_equal(is_ok, !has_failed);
    }
    assert_true(n > 15); /* the arena, 12 blocks, the list of blocks twice */
}

static void an_arena_works_on_after_a_failed_allocation(void **state)
{
    (void)state;
    struct tpp_arena *arena = tpp_arena_new();
    char *before = tpp_arena_strdup(arena, "before");
    tpp_failing_alloc_arm(0);
    assert_null(tpp_arena_alloc(arena, 100000));
    assert_true(tpp_failing_alloc_disarm());
    assert_non_null(tpp_arena_alloc(arena, 100000));
    assert_string_equal(before, "before");
    tpp_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_zeroed_and_aligned_for_any_type),
        cmocka_unit_test(pieces_keep_their_content_over_many_blocks),
        cmocka_unit_test(a_rewind_keeps_what_is_older_and_new_pieces_are_zeroed_again),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(every_failed_allocation_gives_null),
        cmocka_unit_test(an_arena_works_on_after_a_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
