#include "costmodel/simulator/event_heap.h"

#include <stdlib.h>
#include <string.h>

bool tpp_event_heap_grow(struct tpp_event_heap *heap, uint32_t capacity)
{
    if (capacity <= heap->capacity)
        return true;
    struct tpp_event_entry *entries = realloc(heap->entries, capacity * sizeof(*entries));
    if (!entries)
        return false;
    heap->entries = entries;
    uint32_t *positions = realloc(heap->positions, capacity * sizeof(*positions));
    if (!positions)
        return false;
    heap->positions = positions;
    for (uint32_t id = heap->capacity; id < capacity; id++)
        positions[id] = TPP_NO_EVENT;
    heap->capacity = capacity;
    return true;
}

bool tpp_event_heap_init(struct tpp_event_heap *heap, uint32_t capacity)
{
    memset(heap, 0, sizeof(*heap));
    return tpp_event_heap_grow(heap, capacity > 0 ? capacity : 1);
}

void tpp_event_heap_release(struct tpp_event_heap *heap)
{
    free(heap->entries);
    free(heap->positions);
    memset(heap, 0, sizeof(*heap));
}

static bool is_before(const struct tpp_event_entry *a, const struct tpp_event_entry *b)
{
    return a->seconds < b->seconds || (a->seconds == b->seconds && a->id < b->id);
}

static void put(struct tpp_event_heap *heap, uint32_t position, struct tpp_event_entry entry)
{
    heap->entries[position] = entry;
    heap->positions[entry.id] = position;
}

static void sift_up(struct tpp_event_heap *heap, uint32_t position, struct tpp_event_entry entry)
{
    while (position > 0) {
        const uint32_t parent = (position - 1) / 2;
        if (!is_before(&entry, &heap->entries[parent]))
            break;
        put(heap, position, heap->entries[parent]);
        position = parent;
    }
    put(heap, position, entry);
}

static void sift_down(struct tpp_event_heap *heap, uint32_t position, struct tpp_event_entry entry)
{
    for (;;) {
        uint32_t child = 2 * position + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && is_before(&heap->entries[child + 1], &heap->entries[child]))
            child++;
        if (!is_before(&heap->entries[child], &entry))
            break;
        put(heap, position, heap->entries[child]);
        position = child;
    }
    put(heap, position, entry);
}

/* `entry` takes the place at `position`, which may be too early or too late for it. */
static void settle(struct tpp_event_heap *heap, uint32_t position, struct tpp_event_entry entry)
{
    if (position > 0 && is_before(&entry, &heap->entries[(position - 1) / 2]))
        sift_up(heap, position, entry);
    else
        sift_down(heap, position, entry);
}

void tpp_event_heap_set(struct tpp_event_heap *heap, uint32_t id, double seconds)
{
    const struct tpp_event_entry entry = {seconds, id};
    if (heap->positions[id] == TPP_NO_EVENT)
        sift_up(heap, heap->count++, entry);
    else
        settle(heap, heap->positions[id], entry);
}

void tpp_event_heap_remove(struct tpp_event_heap *heap, uint32_t id)
{
    const uint32_t position = heap->positions[id];
    if (position == TPP_NO_EVENT)
        return;
    heap->positions[id] = TPP_NO_EVENT;
    const struct tpp_event_entry last = heap->entries[--heap->count];
    if (position < heap->count)
        settle(heap, position, last);
}
