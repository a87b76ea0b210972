/* event_heap.h - the next of many pending events: a binary heap over small numbers whose times may change.
 *
 * An id is in the heap at most once. Equal times leave in the order of their ids, so that a run does not depend on the
 * history of the heap. */
#ifndef TPP_COSTMODEL_SIMULATOR_EVENT_HEAP_H
#define TPP_COSTMODEL_SIMULATOR_EVENT_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#define TPP_NO_EVENT UINT32_MAX

struct tpp_event_entry {
    double seconds;
    uint32_t id;
};

struct tpp_event_heap {
    struct tpp_event_entry *entries;
    uint32_t *positions; /* of an id in `entries`; TPP_NO_EVENT when it is not there */
    uint32_t count, capacity;
};

/* Room for the ids 0 .. capacity-1. False when out of memory; the heap can be released all the same. */
bool tpp_event_heap_init(struct tpp_event_heap *heap, uint32_t capacity);
void tpp_event_heap_release(struct tpp_event_heap *heap);
/* More ids; false when out of memory, and then nothing has changed. */
bool tpp_event_heap_grow(struct tpp_event_heap *heap, uint32_t capacity);

/* Adds `id`, or moves it to another time. */
void tpp_event_heap_set(struct tpp_event_heap *heap, uint32_t id, double seconds);
void tpp_event_heap_remove(struct tpp_event_heap *heap, uint32_t id); /* nothing happens when it is not there */

/* Time of the first event; infinity when there is none. */
static inline double tpp_event_heap_first_seconds(const struct tpp_event_heap *heap)
{
    return heap->count > 0 ? heap->entries[0].seconds : __builtin_inf();
}

#endif
