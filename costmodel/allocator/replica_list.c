/* The blocks as a list, for exports and tests. */
#include "costmodel/allocator/replica_parts.h"

#include <stdlib.h>

static int by_address(const void *a, const void *b)
{
    const struct tpp_block_view *left = a, *right = b;
    return left->address < right->address ? -1 : left->address > right->address;
}

static struct tpp_block_view view_of(const struct tpp_allocator *allocator, uint32_t row)
{
    const struct tpp_block *block = &allocator->blocks[row];
    return (struct tpp_block_view){
        .address = block->address, .bytes = block->size, .requested_bytes = block->requested, .block = row,
        .stream = block->stream, .is_small = block->is_small, .is_expandable = block->is_expandable,
        .state = block->is_allocated     ? TPP_BLOCK_ALLOCATED
                 : block->num_events > 0 ? TPP_BLOCK_WAITING
                                         : TPP_BLOCK_INACTIVE,
    };
}

/* Neighbours in a segment follow each other in the list; an unmapped hole between two ends the mapped range. */
static void set_segments(const struct tpp_allocator *allocator, struct tpp_block_view *views, size_t count)
{
    for (size_t start = 0, end; start < count; start = end) {
        uint64_t bytes = views[start].bytes;
        for (end = start + 1; end < count && allocator->blocks[views[end - 1].block].next == views[end].block; end++)
            bytes += views[end].bytes;
        for (size_t i = start; i < end; i++) {
            views[i].segment_address = views[start].address;
            views[i].segment_bytes = bytes;
        }
    }
}

enum tpp_code tpp_allocator_list(const struct tpp_allocator *allocator, struct tpp_block_view **views, size_t *count,
                                 struct tpp_error *err)
{
    *count = 0;
    *views = malloc((allocator->num_blocks + 1) * sizeof(**views));
    if (*views == NULL)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the list of blocks");
    for (uint32_t row = 0; row < allocator->num_blocks; row++)
        if (allocator->blocks[row].is_live && allocator->blocks[row].is_mapped)
            (*views)[(*count)++] = view_of(allocator, row);
    qsort(*views, *count, sizeof(**views), by_address);
    set_segments(allocator, *views, *count);
    return TPP_OK;
}
