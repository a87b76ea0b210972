#include "costmodel/allocator/replica_parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum tpp_code tpp_allocator_new(const struct tpp_allocator_settings *settings, uint64_t device_bytes,
                                uint64_t total_bytes, struct tpp_allocator **out, struct tpp_error *err)
{
    *out = NULL;
    if (settings->uses_driver_pool)
        return tpp_fail(err, TPP_E_UNSUPPORTED, "PYTORCH_CUDA_ALLOC_CONF", "replay with backend:native",
                        "the driver's pool (cudaMallocAsync) cannot be replayed");
    struct tpp_allocator *allocator = calloc(1, sizeof(*allocator));
    if (allocator == NULL)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the allocator replay");
    allocator->settings = *settings;
    allocator->device_bytes = device_bytes;
    allocator->allowed_bytes = settings->memory_fraction > 0 && settings->memory_fraction < 1
                                   ? (uint64_t)(settings->memory_fraction * (double)total_bytes)
                                   : total_bytes;
    allocator->range_bytes = total_bytes + total_bytes / 8;
    allocator->free_row = TPP_NO_BLOCK;
    allocator->next_address = UINT64_C(1) << 40;
    *out = allocator;
    return TPP_OK;
}

void tpp_allocator_free(struct tpp_allocator *allocator)
{
    if (allocator == NULL)
        return;
    for (int stream = 0; stream < TPP_ALLOCATOR_MAX_STREAMS; stream++) {
        free(allocator->events[stream].blocks);
        for (int i = 0; i < 2; i++) {
            free(allocator->pools[stream][i].free.entries);
            free(allocator->pools[stream][i].unmapped.entries);
        }
    }
    free(allocator->blocks);
    free(allocator);
}

static bool is_split(const struct tpp_block *block)
{
    return block->previous != TPP_NO_BLOCK || block->next != TPP_NO_BLOCK;
}

void tpp_block_become_free(struct tpp_allocator *allocator, uint32_t block)
{
    struct tpp_allocator_statistics *statistics = &allocator->statistics;
    const uint64_t size = allocator->blocks[block].size, requested = allocator->blocks[block].requested;
    tpp_allocator_tell(allocator, TPP_ACTION_FREE_COMPLETED, allocator->blocks[block].address, requested,
                       allocator->blocks[block].stream);
    allocator->blocks[block].requested = 0;
    tpp_block_merge_neighbours(allocator, block);
    const struct tpp_block *merged = &allocator->blocks[block];
    if (is_split(merged) && !merged->is_expandable)
        tpp_count_add(&statistics->inactive_split, merged->size);
    tpp_pool_insert_free(allocator, block);
    statistics->active.current -= size;
    statistics->requested.current -= requested;
}

/* Blocks whose streams have all got to their events become free; in order within a stream, as events are polled. */
static void process_events(struct tpp_allocator *allocator)
{
    for (int stream = 0; stream < TPP_ALLOCATOR_MAX_STREAMS; stream++) {
        struct tpp_event_queue *queue = &allocator->events[stream];
        while (queue->head < queue->num_finished) {
            const uint32_t block = queue->blocks[queue->head++];
            if (--allocator->blocks[block].num_events == 0)
                tpp_block_become_free(allocator, block);
        }
        if (queue->head == queue->count)
            queue->head = queue->count = queue->num_finished = 0;
    }
}

static void synchronize(struct tpp_allocator *allocator)
{
    for (uint32_t stream = 0; stream < TPP_ALLOCATOR_MAX_STREAMS; stream++)
        tpp_allocator_finish_stream(allocator, stream);
    process_events(allocator);
}

/* An expandable block counts with the hole behind it; a larger block that can grow less is preferred. */
static size_t prefer_least_room(const struct tpp_allocator *allocator, const struct tpp_block_set *set, size_t at)
{
    uint64_t room[2];
    for (size_t next = at + 1; next <= set->count; next++) {
        if (next == set->count || !allocator->blocks[set->entries[at].block].is_expandable)
            break;
        for (size_t i = 0; i < 2; i++) {
            const struct tpp_block *block = &allocator->blocks[set->entries[at + i].block];
            const uint32_t behind = block->next;
            const bool is_hole = behind != TPP_NO_BLOCK && !allocator->blocks[behind].is_mapped;
            room[i] = block->size + (is_hole ? allocator->blocks[behind].size : 0);
        }
        if (room[1] >= room[0])
            break;
        at = next;
    }
    return at;
}

/* Best fit in the pool; only the first candidate is tested against the rules for oversize blocks. */
static uint32_t find_free(struct tpp_allocator *allocator, struct tpp_pool *pool, uint64_t rounded)
{
    const struct tpp_allocator_settings *settings = &allocator->settings;
    allocator->num_searches[rounded <= TPP_ALLOCATOR_SMALL_LIMIT]++;
    tpp_set_settle(&pool->free);
    size_t at = tpp_set_lower_bound(&pool->free, rounded, 0);
    if (at == pool->free.count)
        return TPP_NO_BLOCK;
    if (settings->expandable_segments)
        at = prefer_least_room(allocator, &pool->free, at);
    const uint64_t size = pool->free.entries[at].size, limit = settings->max_split_size_bytes;
    if (rounded < limit && size >= limit)
        return TPP_NO_BLOCK;
    if (rounded >= limit && size - rounded >= settings->max_non_split_rounding_bytes)
        return TPP_NO_BLOCK;
    tpp_set_take(&pool->free, at); /* a rest may come in */
    return pool->free.entries[at].block;
}

/* cudaMalloc of a segment, or mapping; TPP_NO_BLOCK when the device or the fraction refuses. */
static uint32_t new_segment(struct tpp_allocator *allocator, uint32_t stream, bool is_small, uint64_t rounded)
{
    const uint64_t bytes = tpp_allocator_segment_bytes(&allocator->settings, rounded);
    const uint64_t reserved = allocator->statistics.reserved.current;
    if (allocator->settings.memory_fraction > 0 && reserved + bytes > allocator->allowed_bytes)
        return TPP_NO_BLOCK;
    if (allocator->settings.expandable_segments)
        return tpp_expand(allocator, stream, is_small, rounded);
    if (bytes > allocator->device_bytes || reserved > allocator->device_bytes - bytes)
        return TPP_NO_BLOCK;
    const uint32_t block = tpp_block_new(allocator);
    if (block == TPP_NO_BLOCK)
        return block;
    struct tpp_block *made = &allocator->blocks[block];
    made->address = allocator->next_address;
    made->size = bytes;
    made->stream = (uint8_t)stream;
    made->is_small = is_small;
    allocator->next_address += bytes;
    tpp_reserved_add(allocator, made, made->address, bytes);
    return block;
}

/* Section by section what the source tries: the cache, garbage collection and the driver, oversize blocks, everything. */
static uint32_t find_block(struct tpp_allocator *allocator, uint32_t stream, bool is_small, uint64_t rounded)
{
    struct tpp_pool *pool = &allocator->pools[stream][is_small];
    uint32_t block = find_free(allocator, pool, rounded);
    if (block != TPP_NO_BLOCK)
        return block;
    if (allocator->settings.garbage_collection_threshold > 0 && allocator->settings.memory_fraction > 0)
        tpp_garbage_collect(allocator);
    block = new_segment(allocator, stream, is_small, rounded);
    if (block == TPP_NO_BLOCK && tpp_release_oversize(allocator, pool, rounded))
        block = new_segment(allocator, stream, is_small, rounded);
    if (block == TPP_NO_BLOCK && !allocator->failed) {
        synchronize(allocator);
        tpp_release_cached(allocator);
        allocator->statistics.num_retries++;
        block = new_segment(allocator, stream, is_small, rounded);
    }
    return block;
}

static bool should_split(const struct tpp_allocator *allocator, const struct tpp_block *block, uint64_t rounded)
{
    const uint64_t rest = block->size - rounded;
    if (block->is_small || allocator->settings.expandable_segments)
        return rest >= TPP_ALLOCATOR_MIN_BLOCK;
    return rounded < allocator->settings.max_split_size_bytes && rest > TPP_ALLOCATOR_SMALL_LIMIT;
}

/* Cuts the front off; the rest keeps the row of the found block and goes back to the pool. */
static uint32_t split(struct tpp_allocator *allocator, uint32_t found, uint64_t rounded)
{
    const uint32_t front = tpp_block_new(allocator);
    if (front == TPP_NO_BLOCK)
        return found;
    struct tpp_block *rest = &allocator->blocks[found], *made = &allocator->blocks[front];
    made->address = rest->address;
    made->size = rounded;
    made->stream = rest->stream;
    made->is_small = rest->is_small;
    made->is_expandable = rest->is_expandable;
    tpp_block_splice(allocator, front, rest->previous, found);
    rest->address += rounded;
    rest->size -= rounded;
    tpp_pool_insert_free(allocator, found);
    return front;
}

/* Splits when the rules say so, and keeps the count of inactive parts: those in segments with another part in use. */
static uint32_t take_block(struct tpp_allocator *allocator, uint32_t found, uint64_t rounded)
{
    struct tpp_allocator_count *inactive = &allocator->statistics.inactive_split;
    const struct tpp_block before = allocator->blocks[found];
    const bool was_split = is_split(&before);
    if (!should_split(allocator, &before, rounded)) {
        if (was_split && !before.is_expandable)
            inactive->current -= before.size;
        return found;
    }
    const uint32_t taken = split(allocator, found, rounded);
    if (!before.is_expandable && taken != found) {
        if (was_split)
            inactive->current -= rounded;
        else
            tpp_count_add(inactive, before.size - rounded);
    }
    return taken;
}

enum tpp_allocation tpp_allocator_allocate(struct tpp_allocator *allocator, uint64_t bytes, uint32_t stream,
                                           uint32_t *block)
{
    struct tpp_allocator_statistics *statistics = &allocator->statistics;
    assert(stream < TPP_ALLOCATOR_MAX_STREAMS);
    *block = TPP_NO_BLOCK;
    if (bytes == 0)
        return TPP_ALLOCATION_DONE;
    process_events(allocator);
    const uint64_t rounded = tpp_allocator_round(&allocator->settings, bytes), segments = statistics->num_device_allocations;
    const bool is_small = rounded <= TPP_ALLOCATOR_SMALL_LIMIT;
    const uint32_t found = rounded > 0 ? find_block(allocator, stream, is_small, rounded) : TPP_NO_BLOCK;
    if (allocator->failed)
        return TPP_ALLOCATION_NO_HOST_MEMORY;
    if (found == TPP_NO_BLOCK) {
        statistics->num_out_of_memory++;
        statistics->failed_request_bytes = bytes;
        tpp_allocator_tell(allocator, TPP_ACTION_OUT_OF_MEMORY, 0, bytes, stream);
        return TPP_ALLOCATION_OUT_OF_MEMORY;
    }
    const uint32_t taken = take_block(allocator, found, rounded);
    struct tpp_block *made = &allocator->blocks[taken];
    made->is_allocated = true;
    made->requested = bytes;
    statistics->num_allocations++;
    tpp_count_add(&statistics->allocated, made->size);
    tpp_count_add(&statistics->active, made->size);
    tpp_count_add(&statistics->requested, bytes);
    if (statistics->num_device_allocations != segments && statistics->reserved.current == statistics->reserved.peak)
        statistics->allocated_at_reserved_peak = statistics->allocated.current;
    tpp_allocator_tell(allocator, TPP_ACTION_ALLOC, made->address, bytes, stream);
    *block = taken;
    return allocator->failed ? TPP_ALLOCATION_NO_HOST_MEMORY : TPP_ALLOCATION_DONE;
}

void tpp_allocator_record_stream(struct tpp_allocator *allocator, uint32_t block, uint32_t stream)
{
    assert(stream < TPP_ALLOCATOR_MAX_STREAMS);
    if (block != TPP_NO_BLOCK && allocator->blocks[block].stream != stream)
        allocator->blocks[block].stream_uses |= (uint16_t)(1U << stream);
}

static void add_event(struct tpp_allocator *allocator, uint32_t stream, uint32_t block)
{
    struct tpp_event_queue *queue = &allocator->events[stream];
    if (queue->count == queue->capacity) {
        const size_t capacity = queue->capacity > 0 ? 2 * queue->capacity : 64;
        uint32_t *blocks = realloc(queue->blocks, capacity * sizeof(*blocks));
        if (blocks == NULL) {
            allocator->failed = true;
            return;
        }
        queue->blocks = blocks;
        queue->capacity = capacity;
    }
    queue->blocks[queue->count++] = block;
    allocator->blocks[block].num_events++;
}

void tpp_allocator_release(struct tpp_allocator *allocator, uint32_t block)
{
    if (block == TPP_NO_BLOCK)
        return;
    struct tpp_block *given = &allocator->blocks[block];
    assert(given->is_allocated);
    given->is_allocated = false;
    allocator->statistics.allocated.current -= given->size;
    tpp_allocator_tell(allocator, TPP_ACTION_FREE_REQUESTED, given->address, given->requested, given->stream);
    const unsigned uses = given->stream_uses;
    given->stream_uses = 0;
    for (uint32_t stream = 0; stream < TPP_ALLOCATOR_MAX_STREAMS; stream++)
        if (uses >> stream & 1)
            add_event(allocator, stream, block);
    if (uses == 0)
        tpp_block_become_free(allocator, block);
}

void tpp_allocator_finish_stream(struct tpp_allocator *allocator, uint32_t stream)
{
    assert(stream < TPP_ALLOCATOR_MAX_STREAMS);
    allocator->events[stream].num_finished = allocator->events[stream].count;
}

void tpp_allocator_empty_cache(struct tpp_allocator *allocator)
{
    synchronize(allocator);
    tpp_release_cached(allocator);
}

void tpp_allocator_reset_peaks(struct tpp_allocator *allocator)
{
    struct tpp_allocator_statistics *statistics = &allocator->statistics;
    struct tpp_allocator_count *counts[] = {&statistics->allocated, &statistics->requested, &statistics->active,
                                            &statistics->reserved, &statistics->inactive_split};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        counts[i]->peak = counts[i]->current;
    statistics->allocated_at_reserved_peak = statistics->allocated.current;
}

void tpp_allocator_watch(struct tpp_allocator *allocator, tpp_allocator_watcher *watcher, void *context)
{
    allocator->watcher = watcher;
    allocator->context = context;
}

const struct tpp_allocator_statistics *tpp_allocator_statistics(const struct tpp_allocator *allocator)
{
    return &allocator->statistics;
}

uint64_t tpp_allocator_largest_free_block(const struct tpp_allocator *allocator)
{
    uint64_t largest = 0;
    for (int stream = 0; stream < TPP_ALLOCATOR_MAX_STREAMS; stream++) {
        for (int i = 0; i < 2; i++) {
            const struct tpp_block_set *set = &allocator->pools[stream][i].free;
            const size_t end = set->gap > 0 && set->gap == set->count ? set->count - 1 : set->count;
            if (end > 0 && set->entries[end - 1].size > largest)
                largest = set->entries[end - 1].size;
        }
    }
    return largest;
}

bool tpp_allocator_failed(const struct tpp_allocator *allocator)
{
    return allocator->failed;
}

uint64_t tpp_allocator_block_address(const struct tpp_allocator *allocator, uint32_t block)
{
    return allocator->blocks[block].address;
}
