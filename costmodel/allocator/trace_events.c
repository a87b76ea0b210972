/* Writing events, and the numbers of tensors. */
#include "costmodel/allocator/trace_parts.h"

#include <math.h>
#include <stdlib.h>

static struct tpp_trace_event *add_event(struct tpp_tracer *tracer, enum tpp_trace_kind kind, uint8_t stream)
{
    if (tracer->num_events == tracer->capacity) {
        const size_t capacity = tracer->capacity > 0 ? 2 * tracer->capacity : 4096;
        struct tpp_trace_event *events = realloc(tracer->events, capacity * sizeof(*events));
        if (events == NULL) {
            tracer->failed = true;
            return NULL;
        }
        tracer->events = events;
        tracer->capacity = capacity;
    }
    struct tpp_trace_event *event = &tracer->events[tracer->num_events++];
    *event = (struct tpp_trace_event){.kind = (uint8_t)kind, .stream = stream, .phase = (uint8_t)tracer->phase,
                                      .tensor = TPP_NO_TENSOR, .micro_batch = tracer->micro_batch, .layer = tracer->layer};
    return event;
}

void tpp_ids_push(struct tpp_tracer *tracer, struct tpp_tensor_ids *ids, uint32_t tensor)
{
    if (tensor == TPP_NO_TENSOR)
        return;
    if (ids->count == ids->capacity) {
        const size_t capacity = ids->capacity > 0 ? 2 * ids->capacity : 64;
        uint32_t *larger = realloc(ids->ids, capacity * sizeof(*larger));
        if (larger == NULL) {
            tracer->failed = true;
            return;
        }
        ids->ids = larger;
        ids->capacity = capacity;
    }
    ids->ids[ids->count++] = tensor;
}

static uint32_t new_id(struct tpp_tracer *tracer)
{
    if (tracer->free_ids.count > 0)
        return tracer->free_ids.ids[--tracer->free_ids.count];
    if (tracer->num_ids == tracer->sizes_capacity) {
        const size_t capacity = tracer->sizes_capacity > 0 ? 2 * tracer->sizes_capacity : 1024;
        uint64_t *sizes = realloc(tracer->sizes, capacity * sizeof(*sizes));
        if (sizes == NULL) {
            tracer->failed = true;
            return TPP_NO_TENSOR;
        }
        tracer->sizes = sizes;
        tracer->sizes_capacity = capacity;
    }
    return tracer->num_ids++;
}

uint32_t tpp_trace_allocate(struct tpp_tracer *tracer, const char *name, double bytes, uint8_t stream)
{
    if (!(bytes >= 1) || tracer->failed)
        return TPP_NO_TENSOR;
    const uint32_t tensor = new_id(tracer);
    struct tpp_trace_event *event = tracer->failed ? NULL : add_event(tracer, TPP_TRACE_ALLOCATE, stream);
    if (event == NULL)
        return TPP_NO_TENSOR;
    event->tensor = tensor;
    event->name = name;
    event->bytes = bytes < 0x1p62 ? (uint64_t)ceil(bytes) : UINT64_C(1) << 62;
    tracer->sizes[tensor] = event->bytes;
    tracer->alive_bytes += event->bytes;
    if (tracer->alive_bytes > tracer->peak_bytes)
        tracer->peak_bytes = tracer->alive_bytes;
    return tensor;
}

void tpp_trace_release(struct tpp_tracer *tracer, uint32_t tensor)
{
    if (tensor == TPP_NO_TENSOR)
        return;
    struct tpp_trace_event *event = add_event(tracer, TPP_TRACE_FREE, 0);
    if (event == NULL)
        return;
    event->tensor = tensor;
    tracer->alive_bytes -= tracer->sizes[tensor];
    tpp_ids_push(tracer, &tracer->free_ids, tensor);
}

void tpp_trace_record(struct tpp_tracer *tracer, uint32_t tensor, uint8_t stream)
{
    struct tpp_trace_event *event = tensor != TPP_NO_TENSOR ? add_event(tracer, TPP_TRACE_RECORD, stream) : NULL;
    if (event != NULL)
        event->tensor = tensor;
}

void tpp_trace_finish(struct tpp_tracer *tracer)
{
    add_event(tracer, TPP_TRACE_FINISH, TPP_TRACE_COMPUTE_STREAM);
    add_event(tracer, TPP_TRACE_FINISH, TPP_TRACE_COMMUNICATION_STREAM);
}

void tpp_ids_release(struct tpp_tracer *tracer, struct tpp_tensor_ids *ids, size_t count)
{
    while (ids->count > count)
        tpp_trace_release(tracer, ids->ids[--ids->count]);
}

void tpp_ids_drop(struct tpp_tensor_ids *ids)
{
    free(ids->ids);
    *ids = (struct tpp_tensor_ids){0};
}
