/* Expandable segments: one range of addresses for each stream and pool, mapped in granules where a request needs them. */
#include "costmodel/allocator/replica_parts.h"

static uint64_t granule_bytes(const struct tpp_allocator *allocator, const struct tpp_block *block)
{
    return block->is_small ? TPP_ALLOCATOR_SMALL_SEGMENT : allocator->settings.large_segment_bytes;
}

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static bool is_allocatable(const struct tpp_allocator *allocator, uint32_t block)
{
    if (block == TPP_NO_BLOCK)
        return false;
    const struct tpp_block *view = &allocator->blocks[block];
    return !view->is_allocated && view->num_events == 0 && view->stream_uses == 0;
}

static bool has_room(const struct tpp_allocator *allocator, uint32_t block, uint64_t size)
{
    uint64_t bytes = 0;
    for (; bytes < size && is_allocatable(allocator, block); block = allocator->blocks[block].next)
        bytes += allocator->blocks[block].size;
    return bytes >= size;
}

static uint32_t new_range(struct tpp_allocator *allocator, uint32_t stream, bool is_small)
{
    const uint32_t block = tpp_block_new(allocator);
    if (block == TPP_NO_BLOCK)
        return block;
    struct tpp_block *range = &allocator->blocks[block];
    range->stream = (uint8_t)stream;
    range->is_small = is_small;
    range->is_expandable = true;
    range->is_mapped = false;
    range->size = round_up(allocator->range_bytes, granule_bytes(allocator, range));
    range->address = round_up(allocator->next_address, granule_bytes(allocator, range));
    allocator->next_address = range->address + range->size;
    tpp_pool_insert_unmapped(allocator, block);
    return block;
}

/* The lowest hole that is large enough together with the free block before it and what follows; else a new range. */
static uint32_t find_range(struct tpp_allocator *allocator, uint32_t stream, bool is_small, uint64_t size)
{
    const struct tpp_block_set *unmapped = &allocator->pools[stream][is_small].unmapped;
    for (size_t i = 0; i < unmapped->count; i++) {
        uint32_t block = unmapped->entries[i].block;
        const uint32_t before = allocator->blocks[block].previous;
        if (is_allocatable(allocator, before))
            block = before;
        if (has_room(allocator, block, size))
            return block;
    }
    return size <= allocator->range_bytes ? new_range(allocator, stream, is_small) : TPP_NO_BLOCK;
}

/* Maps the first `size` bytes of a hole, in whole granules, and merges them with free neighbours. */
static bool map(struct tpp_allocator *allocator, uint32_t block, uint64_t size)
{
    const uint64_t bytes = round_up(size, granule_bytes(allocator, &allocator->blocks[block]));
    const uint64_t reserved = allocator->statistics.reserved.current;
    if (bytes > allocator->device_bytes || reserved > allocator->device_bytes - bytes)
        return false;
    uint32_t rest = TPP_NO_BLOCK;
    if (bytes < allocator->blocks[block].size) {
        rest = tpp_block_new(allocator);
        if (rest == TPP_NO_BLOCK)
            return false;
    }
    tpp_pool_erase_unmapped(allocator, block);
    struct tpp_block *mapped = &allocator->blocks[block];
    const uint64_t address = mapped->address;
    mapped->is_mapped = true;
    if (rest != TPP_NO_BLOCK) {
        struct tpp_block *hole = &allocator->blocks[rest];
        *hole = *mapped;
        hole->is_mapped = false;
        hole->address += bytes;
        hole->size -= bytes;
        mapped->size = bytes;
        tpp_block_splice(allocator, rest, block, mapped->next);
        tpp_pool_insert_unmapped(allocator, rest);
    }
    tpp_block_merge_neighbours(allocator, block);
    tpp_pool_insert_free(allocator, block);
    tpp_reserved_add(allocator, &allocator->blocks[block], address, bytes);
    return true;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint32_t tpp_expand(struct tpp_allocator *allocator, uint32_t stream, bool is_small, uint64_t size)
{
    uint32_t block = find_range(allocator, stream, is_small, size);
    if (block == TPP_NO_BLOCK)
        return block;
    if (!allocator->blocks[block].is_mapped && !map(allocator, block, smaller(allocator->blocks[block].size, size)))
        return TPP_NO_BLOCK;
    /* From here the block is free and in its set, and followed by a hole while it is too small. */
    while (allocator->blocks[block].size < size) {
        const uint64_t missing = size - allocator->blocks[block].size;
        const uint32_t hole = allocator->blocks[block].next;
        if (!map(allocator, hole, smaller(missing, allocator->blocks[hole].size)))
            return TPP_NO_BLOCK;
        block = hole; /* it has taken the block before it in */
    }
    tpp_pool_erase_free(allocator, block);
    return block;
}

/* A part of `block` that stays mapped, linked where it belongs. */
static void keep_part(struct tpp_allocator *allocator, uint32_t part, uint32_t block, uint64_t address, uint64_t size,
                      bool is_before)
{
    struct tpp_block *kept = &allocator->blocks[part];
    *kept = allocator->blocks[block];
    kept->address = address;
    kept->size = size;
    if (is_before)
        tpp_block_splice(allocator, part, allocator->blocks[block].previous, block);
    else
        tpp_block_splice(allocator, part, block, allocator->blocks[block].next);
    tpp_pool_insert_free(allocator, part);
}

void tpp_unmap(struct tpp_allocator *allocator, uint32_t block)
{
    const struct tpp_block whole = allocator->blocks[block];
    const uint64_t granule = granule_bytes(allocator, &whole), end = whole.address + whole.size;
    const uint64_t first = round_up(whole.address, granule), last = end / granule * granule;
    if (last <= first)
        return;
    const uint32_t before = first > whole.address ? tpp_block_new(allocator) : TPP_NO_BLOCK;
    const uint32_t after = last < end ? tpp_block_new(allocator) : TPP_NO_BLOCK;
    if (allocator->failed)
        return;
    tpp_pool_erase_free(allocator, block);
    if (before != TPP_NO_BLOCK)
        keep_part(allocator, before, block, whole.address, first - whole.address, true);
    if (after != TPP_NO_BLOCK)
        keep_part(allocator, after, block, last, end - last, false);
    struct tpp_block *hole = &allocator->blocks[block];
    hole->address = first;
    hole->size = last - first;
    hole->is_mapped = false;
    tpp_block_merge_neighbours(allocator, block);
    tpp_pool_insert_unmapped(allocator, block);
    tpp_reserved_remove(allocator, &whole, first, last - first);
}
