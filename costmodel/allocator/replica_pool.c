/* The table of blocks and the ordered sets of free ones. */
#include "costmodel/allocator/replica_parts.h"

#include <stdlib.h>
#include <string.h>

uint32_t tpp_block_new(struct tpp_allocator *allocator)
{
    uint32_t row = allocator->free_row;
    if (row != TPP_NO_BLOCK) {
        allocator->free_row = allocator->blocks[row].next;
    } else {
        if (allocator->num_blocks == allocator->capacity) {
            const uint32_t capacity = allocator->capacity > 0 ? 2 * allocator->capacity : 1024;
            struct tpp_block *blocks =
                capacity < TPP_NO_BLOCK / 2 ? realloc(allocator->blocks, capacity * sizeof(*blocks)) : NULL;
            if (blocks == NULL) {
                allocator->failed = true;
                return TPP_NO_BLOCK;
            }
            allocator->blocks = blocks;
            allocator->capacity = capacity;
        }
        row = allocator->num_blocks++;
    }
    allocator->blocks[row] =
        (struct tpp_block){.previous = TPP_NO_BLOCK, .next = TPP_NO_BLOCK, .is_mapped = true, .is_live = true};
    return row;
}

void tpp_block_delete(struct tpp_allocator *allocator, uint32_t block)
{
    allocator->blocks[block].is_live = false;
    allocator->blocks[block].next = allocator->free_row;
    allocator->free_row = block;
}

void tpp_block_splice(struct tpp_allocator *allocator, uint32_t block, uint32_t previous, uint32_t next)
{
    allocator->blocks[block].previous = previous;
    allocator->blocks[block].next = next;
    if (previous != TPP_NO_BLOCK)
        allocator->blocks[previous].next = block;
    if (next != TPP_NO_BLOCK)
        allocator->blocks[next].previous = block;
}

void tpp_set_take(struct tpp_block_set *set, size_t at)
{
    set->gap = at + 1;
}

void tpp_set_settle(struct tpp_block_set *set)
{
    if (set->gap == 0)
        return;
    memmove(&set->entries[set->gap - 1], &set->entries[set->gap], (set->count - set->gap) * sizeof(*set->entries));
    set->count--;
    set->gap = 0;
}

size_t tpp_set_lower_bound(const struct tpp_block_set *set, uint64_t size, uint64_t address)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct tpp_set_entry *entry = &set->entries[middle];
        if (entry->size < size || (entry->size == size && entry->address < address))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool has_room(struct tpp_block_set *set)
{
    if (set->count < set->capacity || set->gap > 0)
        return true;
    const size_t capacity = set->capacity > 0 ? 2 * set->capacity : 64;
    struct tpp_set_entry *entries = realloc(set->entries, capacity * sizeof(*entries));
    if (entries == NULL)
        return false;
    set->entries = entries;
    set->capacity = capacity;
    return true;
}

static void set_insert(struct tpp_allocator *allocator, struct tpp_block_set *set, uint64_t size, uint32_t block)
{
    const uint64_t address = allocator->blocks[block].address;
    if (!has_room(set)) {
        allocator->failed = true;
        return;
    }
    size_t at = tpp_set_lower_bound(set, size, address);
    const size_t gap = set->gap > 0 ? set->gap - 1 : set->count++;
    if (at <= gap) {
        memmove(&set->entries[at + 1], &set->entries[at], (gap - at) * sizeof(*set->entries));
    } else {
        at--;
        memmove(&set->entries[gap], &set->entries[gap + 1], (at - gap) * sizeof(*set->entries));
    }
    set->entries[at] = (struct tpp_set_entry){.size = size, .address = address, .block = block};
    set->gap = 0;
}

static void set_erase(const struct tpp_allocator *allocator, struct tpp_block_set *set, uint64_t size, uint32_t block)
{
    tpp_set_settle(set);
    const size_t at = tpp_set_lower_bound(set, size, allocator->blocks[block].address);
    if (at < set->count && set->entries[at].block == block) /* else an insert has failed */
        tpp_set_take(set, at);
}

struct tpp_pool *tpp_block_pool(struct tpp_allocator *allocator, uint32_t block)
{
    return &allocator->pools[allocator->blocks[block].stream][allocator->blocks[block].is_small];
}

void tpp_pool_insert_free(struct tpp_allocator *allocator, uint32_t block)
{
    struct tpp_block *cached = &allocator->blocks[block];
    cached->age_base = allocator->num_searches[cached->is_small];
    set_insert(allocator, &tpp_block_pool(allocator, block)->free, cached->size, block);
}

void tpp_pool_erase_free(struct tpp_allocator *allocator, uint32_t block)
{
    struct tpp_block_set *set = &tpp_block_pool(allocator, block)->free;
    set_erase(allocator, set, allocator->blocks[block].size, block);
    tpp_set_settle(set);
}

void tpp_pool_insert_unmapped(struct tpp_allocator *allocator, uint32_t block)
{
    set_insert(allocator, &tpp_block_pool(allocator, block)->unmapped, 0, block);
}

void tpp_pool_erase_unmapped(struct tpp_allocator *allocator, uint32_t block)
{
    struct tpp_block_set *set = &tpp_block_pool(allocator, block)->unmapped;
    set_erase(allocator, set, 0, block);
    tpp_set_settle(set);
}

/* Takes `source` out of its set and gives its range to `target`; true when both were free and of one kind. */
static bool try_merge(struct tpp_allocator *allocator, uint32_t target, uint32_t source)
{
    if (source == TPP_NO_BLOCK)
        return false;
    struct tpp_block *to = &allocator->blocks[target], *from = &allocator->blocks[source];
    if (from->is_allocated || from->num_events > 0 || from->stream_uses != 0 || from->is_mapped != to->is_mapped)
        return false;
    if (from->is_mapped) /* `target` comes in next */
        set_erase(allocator, &tpp_block_pool(allocator, source)->free, from->size, source);
    else
        tpp_pool_erase_unmapped(allocator, source);
    if (to->previous == source) {
        to->address = from->address;
        to->previous = from->previous;
        if (to->previous != TPP_NO_BLOCK)
            allocator->blocks[to->previous].next = target;
    } else {
        to->next = from->next;
        if (to->next != TPP_NO_BLOCK)
            allocator->blocks[to->next].previous = target;
    }
    to->size += from->size;
    tpp_block_delete(allocator, source);
    return true;
}

void tpp_block_merge_neighbours(struct tpp_allocator *allocator, uint32_t block)
{
    struct tpp_allocator_count *inactive = &allocator->statistics.inactive_split;
    const uint32_t sides[2] = {allocator->blocks[block].previous, allocator->blocks[block].next};
    for (int i = 0; i < 2; i++) {
        const uint64_t size = sides[i] != TPP_NO_BLOCK ? allocator->blocks[sides[i]].size : 0;
        if (try_merge(allocator, block, sides[i]) && !allocator->blocks[block].is_expandable)
            inactive->current -= size;
    }
}

void tpp_count_add(struct tpp_allocator_count *count, uint64_t bytes)
{
    count->current += bytes;
    if (count->current > count->peak)
        count->peak = count->current;
}

void tpp_allocator_tell(const struct tpp_allocator *allocator, enum tpp_allocator_action action, uint64_t address,
                        uint64_t bytes, uint32_t stream)
{
    if (allocator->watcher != NULL)
        allocator->watcher(allocator->context, action, address, bytes, stream);
}

void tpp_reserved_add(struct tpp_allocator *allocator, const struct tpp_block *block, uint64_t address, uint64_t bytes)
{
    allocator->statistics.num_device_allocations++;
    tpp_count_add(&allocator->statistics.reserved, bytes);
    tpp_allocator_tell(allocator, block->is_expandable ? TPP_ACTION_SEGMENT_MAP : TPP_ACTION_SEGMENT_ALLOC, address, bytes,
                       block->stream);
}

void tpp_reserved_remove(struct tpp_allocator *allocator, const struct tpp_block *block, uint64_t address, uint64_t bytes)
{
    allocator->statistics.num_device_frees++;
    allocator->statistics.reserved.current -= bytes;
    tpp_allocator_tell(allocator, block->is_expandable ? TPP_ACTION_SEGMENT_UNMAP : TPP_ACTION_SEGMENT_FREE, address, bytes,
                       block->stream);
}
