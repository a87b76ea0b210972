/* What gives memory back to the driver: garbage collection, oversize blocks, and the whole cache. */
#include "costmodel/allocator/replica_parts.h"

static bool is_whole_segment(const struct tpp_block *block)
{
    return block->previous == TPP_NO_BLOCK && block->next == TPP_NO_BLOCK && !block->is_expandable;
}

/* cudaFree of a free block that is a whole segment. */
static void release_segment(struct tpp_allocator *allocator, uint32_t block)
{
    tpp_pool_erase_free(allocator, block);
    const struct tpp_block *released = &allocator->blocks[block];
    tpp_reserved_remove(allocator, released, released->address, released->size);
    tpp_block_delete(allocator, block);
}

/* Whole free segments of the large pools: their number and the sum of their ages. */
struct candidates {
    double num, age;
};

/* Searches of the large pools since the block was cached. */
static double age_of(const struct tpp_allocator *allocator, const struct tpp_block *block)
{
    return (double)(allocator->num_searches[false] - block->age_base);
}

static struct candidates count_candidates(struct tpp_allocator *allocator)
{
    struct candidates found = {0, 0};
    for (int stream = 0; stream < TPP_ALLOCATOR_MAX_STREAMS; stream++) {
        struct tpp_pool *pool = &allocator->pools[stream][false];
        tpp_set_settle(&pool->free);
        for (size_t i = 0; i < pool->free.count; i++) {
            const struct tpp_block *block = &allocator->blocks[pool->free.entries[i].block];
            if (!is_whole_segment(block))
                continue;
            found.num++;
            found.age += age_of(allocator, block);
        }
    }
    return found;
}

/* One pass over the large pools: frees all that is at least as old as `average`, also when less would do; returns the bytes. */
static uint64_t collect_older(struct tpp_allocator *allocator, double average, struct candidates *left)
{
    uint64_t freed = 0;
    for (int stream = 0; stream < TPP_ALLOCATOR_MAX_STREAMS; stream++) {
        const struct tpp_pool *pool = &allocator->pools[stream][false];
        for (size_t i = 0; i < pool->free.count;) {
            const uint32_t row = pool->free.entries[i].block;
            const struct tpp_block *block = &allocator->blocks[row];
            const double age = age_of(allocator, block);
            if (!is_whole_segment(block) || age < average) {
                i++;
                continue;
            }
            freed += block->size;
            left->num--;
            left->age -= age;
            release_segment(allocator, row); /* the next entry moves to i */
        }
    }
    return freed;
}

void tpp_garbage_collect(struct tpp_allocator *allocator)
{
    const double threshold = allocator->settings.garbage_collection_threshold;
    const uint64_t limit = (uint64_t)(threshold * (double)allocator->allowed_bytes);
    const uint64_t reserved = allocator->statistics.reserved.current;
    if (reserved <= limit)
        return;
    const uint64_t target = reserved - limit;
    struct candidates left = count_candidates(allocator);
    uint64_t freed = 0, last = 1;
    while (freed < target && last > 0 && left.num > 0) {
        last = collect_older(allocator, left.age / left.num, &left);
        freed += last;
    }
}

bool tpp_release_oversize(struct tpp_allocator *allocator, struct tpp_pool *pool, uint64_t rounded)
{
    const uint64_t limit = allocator->settings.max_split_size_bytes, wanted = rounded < limit ? limit : rounded;
    if (limit == TPP_ALLOCATOR_UNLIMITED)
        return false;
    tpp_set_settle(&pool->free);
    const size_t at = tpp_set_lower_bound(&pool->free, wanted, 0);
    if (at < pool->free.count && !allocator->blocks[pool->free.entries[at].block].is_expandable) {
        release_segment(allocator, pool->free.entries[at].block);
        return true;
    }
    uint64_t freed = 0;
    for (size_t i = pool->free.count; i-- > 0 && freed < wanted && pool->free.entries[i].size >= limit;) {
        const uint32_t row = pool->free.entries[i].block;
        if (!is_whole_segment(&allocator->blocks[row]))
            continue;
        freed += pool->free.entries[i].size;
        release_segment(allocator, row);
    }
    return freed >= wanted;
}

/* Whole segments first; unmapping changes the set, so the rows to unmap are taken one by one from the end of it. */
static void release_pool(struct tpp_allocator *allocator, struct tpp_pool *pool)
{
    tpp_set_settle(&pool->free);
    for (size_t i = pool->free.count; i-- > 0;) {
        const uint32_t row = pool->free.entries[i].block;
        if (is_whole_segment(&allocator->blocks[row]))
            release_segment(allocator, row);
    }
    if (!allocator->settings.expandable_segments)
        return;
    /* Parts that stay are smaller than a granule, so a part is never taken for a candidate again: scan until none is left. */
    for (size_t i = pool->free.count; i-- > 0;) {
        const uint64_t freed = allocator->statistics.num_device_frees;
        tpp_unmap(allocator, pool->free.entries[i].block);
        if (allocator->statistics.num_device_frees != freed)
            i = pool->free.count;
    }
}

void tpp_release_cached(struct tpp_allocator *allocator)
{
    for (int stream = 0; stream < TPP_ALLOCATOR_MAX_STREAMS; stream++)
        for (int is_small = 0; is_small < 2; is_small++)
            release_pool(allocator, &allocator->pools[stream][is_small]);
}
