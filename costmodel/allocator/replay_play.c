/* One trace played on one allocator. */
#include "costmodel/allocator/replay_parts.h"

#include "costmodel/evaluator.h"

#include <stdlib.h>
#include <string.h>

enum tpp_code tpp_play_new(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy, uint32_t stage,
                           const struct tpp_replay_options *options, uint64_t device_bytes, uint64_t seed,
                           struct tpp_play *out, struct tpp_error *err)
{
    const struct tpp_trace_options trace = {.lengths = options->lengths, .packing = options->packing, .seed = seed};
    *out = (struct tpp_play){
        .reserved_limit_bytes = options->reserved_limit_bytes > 0 ? options->reserved_limit_bytes : UINT64_MAX};
    enum tpp_code code = tpp_tracer_new(evaluator, strategy, stage, &trace, &out->tracer, err);
    if (code == TPP_OK)
        code = tpp_allocator_new(&options->settings, device_bytes, (uint64_t)evaluator->hardware->gpu.memory_bytes,
                                 &out->allocator, err);
    if (code != TPP_OK)
        tpp_play_release(out);
    return code;
}

void tpp_play_release(struct tpp_play *play)
{
    tpp_tracer_free(play->tracer);
    tpp_allocator_free(play->allocator);
    free(play->blocks);
    memset(play, 0, sizeof(*play));
}

static bool has_room(struct tpp_play *play)
{
    const uint32_t needed = tpp_tracer_num_tensors(play->tracer);
    if (needed <= play->capacity)
        return true;
    uint32_t *blocks = realloc(play->blocks, 2 * (size_t)needed * sizeof(*blocks));
    if (blocks == NULL)
        return false;
    play->blocks = blocks;
    play->capacity = 2 * needed;
    return true;
}

static enum tpp_allocation play_event(struct tpp_play *play, const struct tpp_trace_event *event)
{
    switch (event->kind) {
    case TPP_TRACE_ALLOCATE:
        return tpp_allocator_allocate(play->allocator, event->bytes, event->stream, &play->blocks[event->tensor]);
    case TPP_TRACE_RECORD:
        tpp_allocator_record_stream(play->allocator, play->blocks[event->tensor], event->stream);
        break;
    case TPP_TRACE_FREE:
        tpp_allocator_release(play->allocator, play->blocks[event->tensor]);
        break;
    default:
        tpp_allocator_finish_stream(play->allocator, event->stream);
        break;
    }
    return TPP_ALLOCATION_DONE;
}

enum tpp_code tpp_play_step(struct tpp_play *play, bool is_setup, struct tpp_error *err)
{
    size_t count = 0;
    enum tpp_code code = is_setup ? tpp_tracer_setup(play->tracer, err) : tpp_tracer_step(play->tracer, err);
    if (code != TPP_OK)
        return code;
    const struct tpp_trace_event *events = tpp_tracer_events(play->tracer, &count);
    const struct tpp_allocator_statistics *statistics = tpp_allocator_statistics(play->allocator);
    bool failed = !has_room(play);
    for (size_t i = 0; i < count && !failed && !play->is_past_limit; i++) {
        play->event = &events[i];
        const enum tpp_allocation result = play_event(play, &events[i]);
        failed = result == TPP_ALLOCATION_NO_HOST_MEMORY;
        if (result == TPP_ALLOCATION_OUT_OF_MEMORY) {
            play->failed = &events[i];
            break;
        }
        play->is_past_limit = !is_setup && statistics->reserved.current >= play->reserved_limit_bytes;
    }
    if (failed || tpp_allocator_failed(play->allocator))
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the allocator replay");
    return TPP_OK;
}
