/* The allocator replica against a slow model of the same rules: one flat list of pieces in address order, searched from
 * end to end for everything. Both get the same seeded requests; after each one every figure must agree. */
#include "costmodel/allocator/replica.h"
#include "tests/support/check_number.h"
#include "tests/support/random.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define MAX_PIECES 4096
#define NUM_STREAMS 3

enum state { FREE, USED, WAITING, HOLE };
struct piece {
    uint64_t address, size, requested, cached_at;
    enum state state;
    int segment;
    unsigned stream, uses, waits, arrived;
    bool is_small;
};
struct model {
    struct tpp_allocator_settings settings;
    uint64_t device, total, next_address;
    struct piece pieces[MAX_PIECES];
    int count, num_segments;
    uint64_t searches[2], retries, ooms, peak_allocated, peak_reserved;
};

/* How often the seeds of a test went each of the ways: one that none went is not tested. */
enum way {
    COLLECTED, ONE_OVERSIZE, SEVERAL_OVERSIZE, RETRIED, RAN_OUT, UNMAPPED, WAITED, REFUSED, PREFERRED_LESS_ROOM, NUM_WAYS
};
static const char *const way_names[NUM_WAYS] = {
    "garbage collection", "one oversize block", "several oversize blocks", "a retry", "out of memory", "unmapping",
    "a wait for a stream", "a refusal of an oversize block", "the block with less room"};

static struct model model;
static uint64_t ways[NUM_WAYS];

static uint64_t up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static uint64_t sum(bool used, bool waiting, bool free_too)
{
    uint64_t bytes = 0;
    for (int i = 0; i < model.count; i++) {
        const enum state state = model.pieces[i].state;
        if ((state == USED && used) || (state == WAITING && waiting) || (state == FREE && free_too))
            bytes += model.pieces[i].size;
    }
    return bytes;
}

static uint64_t reserved(void)
{
    return sum(true, true, true);
}

static void remove_piece(int at)
{
    memmove(&model.pieces[at], &model.pieces[at + 1], (size_t)(--model.count - at) * sizeof(model.pieces[0]));
}

static void insert_piece(int at, struct piece piece)
{
    assert_true(model.count < MAX_PIECES);
    memmove(&model.pieces[at + 1], &model.pieces[at], (size_t)(model.count++ - at) * sizeof(model.pieces[0]));
    model.pieces[at] = piece;
}

/* Neighbours of one segment that are both free, or both holes, become one. */
static void merge_all(void)
{
    for (int i = 0; i + 1 < model.count;) {
        struct piece *a = &model.pieces[i], *b = &model.pieces[i + 1];
        if (a->segment == b->segment && a->state == b->state && (a->state == FREE || a->state == HOLE)) {
            a->size += b->size;
            a->cached_at = a->cached_at > b->cached_at ? a->cached_at : b->cached_at;
            remove_piece(i + 1);
        } else {
            i++;
        }
    }
}

static bool is_whole(int at)
{
    const int segment = model.pieces[at].segment;
    return (at == 0 || model.pieces[at - 1].segment != segment) &&
           (at + 1 == model.count || model.pieces[at + 1].segment != segment);
}

static uint64_t inactive_split(void)
{
    uint64_t bytes = 0;
    for (int i = 0; i < model.count && !model.settings.expandable_segments; i++)
        if (model.pieces[i].state == FREE && !is_whole(i))
            bytes += model.pieces[i].size;
    return bytes;
}

static void poll_events(void)
{
    for (int i = 0; i < model.count; i++) {
        struct piece *piece = &model.pieces[i];
        if (piece->state == WAITING && (piece->waits & ~piece->arrived) == 0) {
            piece->state = FREE;
            piece->cached_at = model.searches[piece->is_small];
        }
    }
    merge_all();
}

static bool is_candidate(int i, unsigned stream, bool is_small)
{
    return model.pieces[i].state == FREE && model.pieces[i].stream == stream && model.pieces[i].is_small == is_small;
}

static uint64_t room(int i)
{
    const bool has_hole = i + 1 < model.count && model.pieces[i + 1].state == HOLE &&
                          model.pieces[i + 1].segment == model.pieces[i].segment;
    return model.pieces[i].size + (has_hole ? model.pieces[i + 1].size : 0);
}

/* Smallest piece above (size, address) of `after` (or of at least `size` without); -1: none. */
static int next_larger(unsigned stream, bool is_small, uint64_t size, int after)
{
    int best = -1;
    for (int i = 0; i < model.count; i++) {
        const uint64_t s = model.pieces[i].size;
        const bool above = after < 0 ? s >= size : s > model.pieces[after].size || (s == model.pieces[after].size && i > after);
        if (is_candidate(i, stream, is_small) && above && (best < 0 || s < model.pieces[best].size))
            best = i;
    }
    return best;
}

static int best_fit(unsigned stream, bool is_small, uint64_t size)
{
    const uint64_t limit = model.settings.max_split_size_bytes;
    model.searches[is_small]++;
    int best = next_larger(stream, is_small, size, -1);
    if (best < 0)
        return -1;
    while (model.settings.expandable_segments) {
        const int next = next_larger(stream, is_small, 0, best);
        if (next < 0 || room(next) >= room(best))
            break;
        best = next;
        ways[PREFERRED_LESS_ROOM]++;
    }
    const uint64_t found = model.pieces[best].size;
    const bool is_refused = (size < limit && found >= limit) ||
                            (size >= limit && found >= size + model.settings.max_non_split_rounding_bytes);
    ways[REFUSED] += is_refused;
    return is_refused ? -1 : best;
}

static int append_segment(unsigned stream, bool is_small, uint64_t size, enum state state, uint64_t alignment)
{
    const uint64_t address = up(model.next_address, alignment);
    model.next_address = address + size;
    insert_piece(model.count, (struct piece){.address = address, .size = size, .state = state, .stream = stream,
                                             .is_small = is_small, .segment = model.num_segments++});
    return model.count - 1;
}

/* Maps the front of a hole. */
static bool map_hole(int at, uint64_t size, uint64_t granule)
{
    const uint64_t bytes = up(size, granule);
    if (reserved() + bytes > model.device)
        return false;
    struct piece rest = model.pieces[at];
    rest.address += bytes;
    rest.size -= bytes;
    model.pieces[at].size = bytes;
    model.pieces[at].state = FREE;
    if (rest.size > 0)
        insert_piece(at + 1, rest);
    return true;
}

static int expand(unsigned stream, bool is_small, uint64_t size)
{
    const uint64_t granule = is_small ? 2 * MIB : model.settings.large_segment_bytes;
    int start = -1;
    for (int i = 0; i < model.count && start < 0; i++) {
        const struct piece *hole = &model.pieces[i];
        if (hole->state != HOLE || hole->stream != stream || hole->is_small != is_small)
            continue;
        int first = i > 0 && model.pieces[i - 1].segment == hole->segment && model.pieces[i - 1].state == FREE ? i - 1 : i;
        uint64_t bytes = 0;
        for (int j = first; j < model.count && model.pieces[j].segment == hole->segment &&
                            (model.pieces[j].state == FREE || model.pieces[j].state == HOLE); j++)
            bytes += model.pieces[j].size;
        if (bytes >= size)
            start = first;
    }
    if (start < 0)
        start = append_segment(stream, is_small, up(model.total + model.total / 8, granule), HOLE, granule);
    for (;;) {
        if (model.pieces[start].state == FREE && model.pieces[start].size >= size)
            return start;
        const int hole = model.pieces[start].state == HOLE ? start : start + 1;
        const uint64_t have = hole == start ? 0 : model.pieces[start].size, there = model.pieces[hole].size;
        if (!map_hole(hole, size - have < there ? size - have : there, granule))
            return -1;
        merge_all();
    }
}

static int make_segment(unsigned stream, bool is_small, uint64_t size)
{
    const uint64_t bytes = size <= MIB ? 2 * MIB : size < 10 * MIB ? model.settings.large_segment_bytes : up(size, 2 * MIB);
    if (model.settings.memory_fraction > 0 &&
        reserved() + bytes > (uint64_t)(model.settings.memory_fraction * (double)model.total))
        return -1;
    if (model.settings.expandable_segments)
        return expand(stream, is_small, size);
    return reserved() + bytes > model.device ? -1 : append_segment(stream, is_small, bytes, FREE, 1);
}

static void collect_garbage(void)
{
    const uint64_t allowed = (uint64_t)(model.settings.memory_fraction * (double)model.total);
    const uint64_t limit = (uint64_t)(model.settings.garbage_collection_threshold * (double)allowed), now = reserved();
    uint64_t freed = 0;
    bool found = now > limit;
    while (found && freed < now - limit) {
        double ages = 0, num = 0;
        for (int i = 0; i < model.count; i++) {
            const struct piece *p = &model.pieces[i];
            if (p->state == FREE && !p->is_small && is_whole(i)) {
                ages += (double)(model.searches[0] - p->cached_at);
                num++;
            }
        }
        found = false;
        for (int i = model.count - 1; i >= 0; i--) {
            const struct piece *p = &model.pieces[i];
            if (p->state == FREE && !p->is_small && is_whole(i) && (double)(model.searches[0] - p->cached_at) >= ages / num) {
                freed += p->size;
                found = true;
                ways[COLLECTED]++;
                remove_piece(i);
            }
        }
    }
}

static bool release_oversize(unsigned stream, bool is_small, uint64_t size)
{
    const uint64_t limit = model.settings.max_split_size_bytes, wanted = size < limit ? limit : size;
    if (limit == TPP_ALLOCATOR_UNLIMITED)
        return false;
    const int one = next_larger(stream, is_small, wanted, -1);
    if (one >= 0 && !model.settings.expandable_segments) {
        remove_piece(one);
        ways[ONE_OVERSIZE]++;
        return true;
    }
    uint64_t freed = 0, num = 0;
    while (freed < wanted && !model.settings.expandable_segments) {
        int largest = -1;
        for (int i = 0; i < model.count; i++)
            if (is_candidate(i, stream, is_small) && model.pieces[i].size >= limit &&
                (largest < 0 || model.pieces[i].size >= model.pieces[largest].size))
                largest = i;
        if (largest < 0)
            return false;
        freed += model.pieces[largest].size;
        ways[SEVERAL_OVERSIZE] += ++num > 1;
        remove_piece(largest);
    }
    return freed >= wanted;
}

static void unmap_granules(int at)
{
    const struct piece whole = model.pieces[at];
    const uint64_t granule = whole.is_small ? 2 * MIB : model.settings.large_segment_bytes, end = whole.address + whole.size;
    const uint64_t first = up(whole.address, granule), last = end / granule * granule;
    if (last <= first)
        return;
    struct piece hole = whole, after = whole;
    ways[UNMAPPED]++;
    hole.state = HOLE;
    hole.address = first;
    hole.size = last - first;
    after.address = last;
    after.size = end - last;
    model.pieces[at].size = first - whole.address;
    if (after.size > 0)
        insert_piece(at + 1, after);
    insert_piece(at + 1, hole);
    if (first == whole.address)
        remove_piece(at);
}

static void release_cache(void)
{
    for (int i = model.count - 1; i >= 0; i--) {
        if (model.pieces[i].state != FREE)
            continue;
        if (model.settings.expandable_segments)
            unmap_granules(i);
        else if (is_whole(i))
            remove_piece(i);
    }
    merge_all();
}

static void arrive(unsigned stream)
{
    for (int i = 0; i < model.count; i++)
        if (model.pieces[i].state == WAITING)
            model.pieces[i].arrived |= 1U << stream;
}

/* Address of the block, or 0 when out of memory. */
static uint64_t slow_allocate(uint64_t bytes, unsigned stream)
{
    poll_events();
    const uint64_t size = tpp_allocator_round(&model.settings, bytes);
    const bool is_small = size <= MIB;
    int at = best_fit(stream, is_small, size);
    if (at < 0) {
        if (model.settings.garbage_collection_threshold > 0 && model.settings.memory_fraction > 0)
            collect_garbage();
        at = make_segment(stream, is_small, size);
    }
    if (at < 0 && release_oversize(stream, is_small, size))
        at = make_segment(stream, is_small, size);
    if (at < 0) {
        for (unsigned s = 0; s < NUM_STREAMS; s++)
            arrive(s);
        poll_events();
        release_cache();
        model.retries++;
        ways[RETRIED]++;
        at = make_segment(stream, is_small, size);
    }
    if (at < 0) {
        model.ooms++;
        ways[RAN_OUT]++;
        return 0;
    }
    struct piece rest = model.pieces[at];
    const uint64_t left = rest.size - size;
    const bool splits = is_small || model.settings.expandable_segments
                            ? left >= 512
                            : size < model.settings.max_split_size_bytes && left > MIB;
    model.pieces[at].state = USED;
    model.pieces[at].requested = bytes;
    model.pieces[at].uses = model.pieces[at].waits = model.pieces[at].arrived = 0;
    if (splits) {
        model.pieces[at].size = size;
        rest.address += size;
        rest.size = left;
        rest.cached_at = model.searches[is_small];
        insert_piece(at + 1, rest);
    }
    return model.pieces[at].address;
}

static struct piece *piece_at(uint64_t address)
{
    for (int i = 0; i < model.count; i++)
        if (model.pieces[i].address == address)
            return &model.pieces[i];
    fail_msg("no piece");
    return NULL;
}

static void slow_release(uint64_t address)
{
    struct piece *piece = piece_at(address);
    piece->state = piece->uses != 0 ? WAITING : FREE;
    ways[WAITED] += piece->uses != 0;
    piece->waits = piece->uses;
    piece->arrived = 0;
    piece->cached_at = model.searches[piece->is_small];
    merge_all();
}

static uint64_t slow_requested(void)
{
    uint64_t bytes = 0;
    for (int i = 0; i < model.count; i++)
        if (model.pieces[i].state == USED || model.pieces[i].state == WAITING)
            bytes += model.pieces[i].requested;
    return bytes;
}

static uint64_t slow_largest_free(void)
{
    uint64_t largest = 0;
    for (int i = 0; i < model.count; i++)
        if (model.pieces[i].state == FREE && model.pieces[i].size > largest)
            largest = model.pieces[i].size;
    return largest;
}

struct held {
    uint32_t block;
    uint64_t address;
};

static uint64_t random_size(struct tpp_random *random)
{
    switch (tpp_random_range(random, 0, 5)) {
    case 0:
        return tpp_random_range(random, 1, 4096);
    case 1: /* few sizes that come again */
        return tpp_random_range(random, 1, 12) * 3 * MIB - 77;
    case 2: /* at the limits, which are whole MiB */
        return tpp_random_range(random, 1, 90) * MIB;
    default:
        return (uint64_t)tpp_random_log_uniform(random, 256, 240.0 * (double)MIB);
    }
}

/* The list of blocks against the pieces, which are in the order of their addresses too. */
static void compare_blocks(const struct tpp_allocator *allocator)
{
    static const enum tpp_block_state states[] = {
        [FREE] = TPP_BLOCK_INACTIVE, [USED] = TPP_BLOCK_ALLOCATED, [WAITING] = TPP_BLOCK_WAITING};
    struct tpp_block_view *views;
    size_t count, at = 0;
    assert_int_equal(tpp_allocator_list(allocator, &views, &count, NULL), TPP_OK);
    for (int i = 0; i < model.count; i++) {
        const struct piece *piece = &model.pieces[i];
        if (piece->state == HOLE)
            continue;
        assert_true(at < count);
        assert_int_equal(views[at].address, piece->address);
        assert_int_equal(views[at].bytes, piece->size);
        assert_int_equal(views[at].state, states[piece->state]);
        assert_int_equal(views[at].stream, piece->stream);
        assert_int_equal(views[at++].is_small, piece->is_small);
    }
    assert_int_equal(at, count);
    free(views);
}

static void compare(const struct tpp_allocator *allocator, uint64_t seed, int step)
{
    const struct tpp_allocator_statistics *s = tpp_allocator_statistics(allocator);
    const uint64_t allocated = sum(true, false, false), now = reserved();
    model.peak_allocated = allocated > model.peak_allocated ? allocated : model.peak_allocated;
    model.peak_reserved = now > model.peak_reserved ? now : model.peak_reserved;
    const uint64_t fast[] = {s->allocated.current, s->active.current, s->reserved.current, s->requested.current,
                             s->inactive_split.current, s->num_retries, s->num_out_of_memory,
                             tpp_allocator_largest_free_block(allocator), s->allocated.peak, s->reserved.peak};
    const uint64_t slow[] = {allocated, sum(true, true, false), now, slow_requested(), inactive_split(), model.retries,
                             model.ooms, slow_largest_free(), model.peak_allocated, model.peak_reserved};
    static const char *const names[] = {"allocated", "active", "reserved", "requested", "inactive split", "retries",
                                        "out of memory", "largest free block", "peak allocated", "peak reserved"};
    for (size_t i = 0; i < sizeof(fast) / sizeof(fast[0]); i++)
        if (fast[i] != slow[i])
            fail_msg("seed %llu, step %d: %s is %llu, the slow model has %llu", (unsigned long long)seed, step, names[i],
                     (unsigned long long)fast[i], (unsigned long long)slow[i]);
    if (step % 16 == 0)
        compare_blocks(allocator);
}

static struct tpp_allocator_settings random_settings(struct tpp_random *random, bool expandable)
{
    struct tpp_allocator_settings settings = tpp_allocator_settings_defaults();
    settings.expandable_segments = expandable;
    if (tpp_random_range(random, 0, 2) == 0)
        settings.large_segment_bytes = settings.max_non_split_rounding_bytes = tpp_random_range(random, 11, 40) * MIB;
    if (tpp_random_range(random, 0, 2) == 0)
        settings.max_split_size_bytes = tpp_random_range(random, settings.large_segment_bytes / MIB, 64) * MIB;
    if (tpp_random_range(random, 0, 2) == 0)
        settings.max_non_split_rounding_bytes = tpp_random_range(random, settings.large_segment_bytes / MIB, 60) * MIB;
    if (tpp_random_range(random, 0, 1) == 0) /* each of the two alone does nothing for garbage */
        settings.memory_fraction = tpp_random_uniform(random, 0.4, 1);
    if (tpp_random_range(random, 0, 1) == 0)
        settings.garbage_collection_threshold = tpp_random_uniform(random, 0.3, 0.9);
    for (int i = 0; i < TPP_ALLOCATOR_DIVISION_SIZES && tpp_random_range(random, 0, 1) == 0; i++)
        settings.roundup_divisions[i] = (uint16_t)(1U << tpp_random_range(random, 0, 4));
    return settings;
}

static void replay_one(uint64_t seed, bool expandable)
{
    struct tpp_random random = {seed};
    struct held held[256];
    int num_held = 0;
    memset(&model, 0, sizeof model);
    model.settings = random_settings(&random, expandable);
    model.device = tpp_random_range(&random, 150, 900) * MIB;
    model.total = model.device + tpp_random_range(&random, 0, 100) * MIB;
    model.next_address = UINT64_C(1) << 40;
    struct tpp_allocator *allocator = NULL;
    assert_int_equal(tpp_allocator_new(&model.settings, model.device, model.total, &allocator, NULL), TPP_OK);
    for (int step = 0; step < 400; step++) {
        const uint64_t choice = tpp_random_range(&random, 0, 19);
        if (choice < 10 && num_held < 256) {
            const uint64_t bytes = random_size(&random);
            const unsigned stream = tpp_random_range(&random, 0, 3) == 0 ? (unsigned)tpp_random_range(&random, 0, 2) : 0;
            struct held *made = &held[num_held];
            const enum tpp_allocation result = tpp_allocator_allocate(allocator, bytes, stream, &made->block);
            made->address = slow_allocate(bytes, stream);
            assert_int_equal(result == TPP_ALLOCATION_OUT_OF_MEMORY, made->address == 0);
            if (made->address != 0) {
                assert_int_equal(tpp_allocator_block_address(allocator, made->block), made->address);
                num_held++;
            }
        } else if (choice < 18 && num_held > 0) {
            const int which = (int)tpp_random_range(&random, 0, (uint64_t)num_held - 1);
            for (unsigned stream = 0; stream < NUM_STREAMS && choice == 17; stream++) {
                tpp_allocator_record_stream(allocator, held[which].block, stream);
                struct piece *piece = piece_at(held[which].address);
                piece->uses |= piece->stream == stream ? 0 : 1U << stream;
            }
            tpp_allocator_release(allocator, held[which].block);
            slow_release(held[which].address);
            held[which] = held[--num_held];
        } else if (choice == 18) {
            const unsigned stream = (unsigned)tpp_random_range(&random, 0, 2);
            tpp_allocator_finish_stream(allocator, stream);
            arrive(stream);
        } else if (tpp_random_range(&random, 0, 9) == 0) {
            tpp_allocator_empty_cache(allocator);
            for (unsigned s = 0; s < NUM_STREAMS; s++)
                arrive(s);
            poll_events();
            release_cache();
        }
        compare(allocator, seed, step);
    }
    tpp_allocator_free(allocator);
}

static void replay_seeds(uint64_t first, bool expandable)
{
    memset(ways, 0, sizeof ways);
    for (uint64_t seed = first; seed < first + 300; seed++)
        replay_one(seed, expandable);
    for (int way = 0; way < NUM_WAYS; way++) {
        const bool is_impossible = expandable ? way <= SEVERAL_OVERSIZE : way == UNMAPPED || way == PREFERRED_LESS_ROOM;
        if ((ways[way] < 20) != is_impossible)
            fail_msg("%s: %llu times", way_names[way], (unsigned long long)ways[way]);
    }
}

static void the_replica_agrees_with_the_slow_model(void **state)
{
    (void)state;
    replay_seeds(1, false);
}

static void expandable_segments_agree_too(void **state)
{
    (void)state;
    replay_seeds(1001, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_replica_agrees_with_the_slow_model),
        cmocka_unit_test(expandable_segments_agree_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
