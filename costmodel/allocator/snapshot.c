#include "costmodel/allocator/snapshot.h"

#include "costmodel/allocator/pickle.h"
#include "costmodel/allocator/replay_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The tensor that a block holds: what its stack frames say. */
struct owner {
    const char *name;
    uint32_t layer, micro_batch;
};

/* Keys, once: the pickle refers to a text by its address. */
static const char key_action[] = "action", key_addr[] = "addr", key_size[] = "size", key_stream[] = "stream",
                  key_frames[] = "frames", key_name[] = "name", key_filename[] = "filename", key_line[] = "line",
                  key_device[] = "device", key_device_free[] = "device_free", key_state[] = "state",
                  key_address[] = "address", key_requested[] = "requested_size", key_total[] = "total_size",
                  key_allocated[] = "allocated_size", key_active[] = "active_size", key_type[] = "segment_type",
                  key_expandable[] = "is_expandable", key_blocks[] = "blocks", key_pool[] = "segment_pool_id",
                  word_small[] = "small", word_large[] = "large", word_plan[] = "plan", word_setup[] = "outside the layers";
static const char *const action_names[] = {
    [TPP_ACTION_SEGMENT_ALLOC] = "segment_alloc",     [TPP_ACTION_SEGMENT_FREE] = "segment_free",
    [TPP_ACTION_SEGMENT_MAP] = "segment_map",         [TPP_ACTION_SEGMENT_UNMAP] = "segment_unmap",
    [TPP_ACTION_ALLOC] = "alloc",                     [TPP_ACTION_FREE_REQUESTED] = "free_requested",
    [TPP_ACTION_FREE_COMPLETED] = "free_completed",   [TPP_ACTION_OUT_OF_MEMORY] = "oom"};
static const char *const state_names[] = {[TPP_BLOCK_ALLOCATED] = "active_allocated",
                                          [TPP_BLOCK_WAITING] = "active_pending_free",
                                          [TPP_BLOCK_INACTIVE] = "inactive"};

struct recorder {
    struct tpp_pickle pickle;
    const struct tpp_play *play;
    uint64_t device_bytes, num_events;
};

static void put_pair_u64(struct tpp_pickle *pickle, const char *key, uint64_t value)
{
    tpp_pickle_word(pickle, key);
    tpp_pickle_u64(pickle, value);
}

static void put_pair_word(struct tpp_pickle *pickle, const char *key, const char *value)
{
    tpp_pickle_word(pickle, key);
    tpp_pickle_word(pickle, value);
}

static void put_frame(struct tpp_pickle *pickle, const char *name, bool is_constant, uint64_t line)
{
    tpp_pickle_open_dict(pickle);
    tpp_pickle_word(pickle, key_name);
    if (is_constant)
        tpp_pickle_word(pickle, name);
    else
        tpp_pickle_text(pickle, name);
    put_pair_word(pickle, key_filename, word_plan);
    put_pair_u64(pickle, key_line, line);
    tpp_pickle_close_dict(pickle);
}

static void put_frames(struct tpp_pickle *pickle, const struct owner *owner)
{
    char place[64];
    tpp_pickle_word(pickle, key_frames);
    tpp_pickle_open_list(pickle);
    if (owner != NULL && owner->name != NULL) {
        put_frame(pickle, owner->name, true, 0);
        if (owner->layer == TPP_TRACE_NO_LAYER) {
            put_frame(pickle, word_setup, true, 0);
        } else {
            snprintf(place, sizeof place, "layer %u, micro-batch %u", owner->layer, owner->micro_batch);
            put_frame(pickle, place, false, owner->layer);
        }
    }
    tpp_pickle_close_list(pickle);
}

/* The event being played is the cause of what the allocator does; frees name the block that goes. */
static void record(void *context, enum tpp_allocator_action action, uint64_t address, uint64_t bytes, uint32_t stream)
{
    struct recorder *recorder = context;
    struct tpp_pickle *pickle = &recorder->pickle;
    const struct tpp_trace_event *event = recorder->play->event;
    const struct owner owner = {event->name, event->layer, event->micro_batch};
    tpp_pickle_list_value(pickle, recorder->num_events++);
    tpp_pickle_open_dict(pickle);
    put_pair_word(pickle, key_action, action_names[action]);
    if (action == TPP_ACTION_OUT_OF_MEMORY)
        put_pair_u64(pickle, key_device_free,
                     recorder->device_bytes - tpp_allocator_statistics(recorder->play->allocator)->reserved.current);
    else
        put_pair_u64(pickle, key_addr, address);
    put_pair_u64(pickle, key_size, bytes);
    put_pair_u64(pickle, key_stream, stream);
    put_frames(pickle, action == TPP_ACTION_ALLOC || action == TPP_ACTION_OUT_OF_MEMORY ? &owner : NULL);
    tpp_pickle_close_dict(pickle);
}

static void put_block(struct tpp_pickle *pickle, const struct tpp_block_view *view, const struct owner *owner)
{
    tpp_pickle_open_dict(pickle);
    put_pair_u64(pickle, key_address, view->address);
    put_pair_u64(pickle, key_size, view->bytes);
    put_pair_u64(pickle, key_requested, view->state == TPP_BLOCK_INACTIVE ? view->bytes : view->requested_bytes);
    put_pair_word(pickle, key_state, state_names[view->state]);
    put_frames(pickle, view->state == TPP_BLOCK_INACTIVE ? NULL : owner);
    tpp_pickle_close_dict(pickle);
}

/* Which tensor each block holds: notes of all steps, by the block's number, from the events that made them. */
struct notes {
    struct owner *owners; /* owned */
    uint32_t capacity;
    bool failed;
};

/* One segment with its blocks: views[0 .. count-1]. */
static void put_segment(struct tpp_pickle *pickle, const struct tpp_block_view *views, size_t count,
                        const struct notes *notes)
{
    uint64_t allocated = 0, active = 0;
    for (size_t i = 0; i < count; i++) {
        allocated += views[i].state == TPP_BLOCK_ALLOCATED ? views[i].bytes : 0;
        active += views[i].state != TPP_BLOCK_INACTIVE ? views[i].bytes : 0;
    }
    tpp_pickle_open_dict(pickle);
    put_pair_u64(pickle, key_device, 0);
    put_pair_u64(pickle, key_address, views[0].segment_address);
    put_pair_u64(pickle, key_total, views[0].segment_bytes);
    put_pair_u64(pickle, key_allocated, allocated);
    put_pair_u64(pickle, key_active, active);
    put_pair_u64(pickle, key_stream, views[0].stream);
    put_pair_word(pickle, key_type, views[0].is_small ? word_small : word_large);
    tpp_pickle_word(pickle, key_pool);
    tpp_pickle_open_list(pickle);
    tpp_pickle_u64(pickle, 0);
    tpp_pickle_u64(pickle, 0);
    tpp_pickle_close_list(pickle);
    tpp_pickle_word(pickle, key_expandable);
    tpp_pickle_bool(pickle, views[0].is_expandable);
    put_frames(pickle, NULL);
    tpp_pickle_word(pickle, key_blocks);
    tpp_pickle_open_list(pickle);
    for (size_t i = 0; i < count; i++) {
        tpp_pickle_list_value(pickle, i);
        put_block(pickle, &views[i], views[i].block < notes->capacity ? &notes->owners[views[i].block] : NULL);
    }
    tpp_pickle_close_list(pickle);
    tpp_pickle_close_dict(pickle);
}

static enum tpp_code put_segments(struct recorder *recorder, const struct notes *notes, struct tpp_error *err)
{
    struct tpp_block_view *views = NULL;
    size_t count = 0;
    uint64_t num_segments = 0;
    const enum tpp_code code = tpp_allocator_list(recorder->play->allocator, &views, &count, err);
    if (code == TPP_OK) {
        tpp_pickle_text(&recorder->pickle, "segments");
        tpp_pickle_open_list(&recorder->pickle);
        for (size_t start = 0, end; start < count; start = end) {
            for (end = start + 1; end < count && views[end].segment_address == views[start].segment_address; end++)
                ;
            tpp_pickle_list_value(&recorder->pickle, num_segments++);
            put_segment(&recorder->pickle, &views[start], end - start, notes);
        }
        tpp_pickle_close_list(&recorder->pickle);
    }
    free(views);
    return code;
}

static void note(struct notes *notes, uint32_t block, const struct tpp_trace_event *event)
{
    if (block == TPP_NO_BLOCK)
        return;
    if (block >= notes->capacity) {
        const uint32_t capacity = block < 512 ? 1024 : 2 * block;
        struct owner *owners = realloc(notes->owners, capacity * sizeof(*owners));
        if (owners == NULL) {
            notes->failed = true;
            return;
        }
        memset(&owners[notes->capacity], 0, (capacity - notes->capacity) * sizeof(*owners));
        notes->owners = owners;
        notes->capacity = capacity;
    }
    notes->owners[block] = (struct owner){event->name, event->layer, event->micro_batch};
}

/* Tensors that live after the step: the last allocation of each number that was not freed. */
static void note_step(struct notes *notes, const struct tpp_play *play)
{
    size_t count = 0;
    const struct tpp_trace_event *events = tpp_tracer_events(play->tracer, &count);
    const struct tpp_trace_event *end = play->failed != NULL ? play->failed : events + count;
    for (const struct tpp_trace_event *event = events; event < end; event++)
        if (event->kind == TPP_TRACE_ALLOCATE)
            note(notes, play->blocks[event->tensor], event);
}

static enum tpp_code play_and_record(struct recorder *recorder, struct tpp_play *play, uint32_t num_steps,
                                     struct notes *notes, struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    tpp_pickle_text(&recorder->pickle, "device_traces");
    tpp_pickle_open_list(&recorder->pickle);
    tpp_pickle_open_list(&recorder->pickle);
    for (uint32_t step = 0; step <= num_steps && code == TPP_OK && play->failed == NULL; step++) {
        if (step == num_steps)
            tpp_allocator_watch(play->allocator, record, recorder);
        code = tpp_play_step(play, step == 0, err);
        if (code == TPP_OK)
            note_step(notes, play);
    }
    tpp_allocator_watch(play->allocator, NULL, NULL);
    tpp_pickle_close_list(&recorder->pickle);
    tpp_pickle_close_list(&recorder->pickle);
    return code == TPP_OK && notes->failed ? tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the snapshot")
                                           : code;
}

/* The step to record: `num_steps`, or an earlier one that runs out of memory (0: set-up does). */
static enum tpp_code find_step(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                               const struct tpp_replay_options *options, uint32_t *num_steps, struct tpp_error *err)
{
    struct tpp_play play;
    enum tpp_code code =
        tpp_play_new(evaluator, strategy, options->stage, options, options->device_bytes, options->seed, &play, err);
    if (code != TPP_OK)
        return code;
    for (uint32_t step = 0; step <= *num_steps && code == TPP_OK; step++) {
        code = tpp_play_step(&play, step == 0, err);
        if (code == TPP_OK && play.failed != NULL)
            *num_steps = step;
    }
    tpp_play_release(&play);
    return code;
}

enum tpp_code tpp_snapshot_write(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                 const struct tpp_replay_options *options, uint32_t num_steps, struct tpp_text *out,
                                 struct tpp_error *err)
{
    struct tpp_replay_options resolved = *options;
    struct tpp_play play;
    struct notes notes = {.owners = NULL};
    uint64_t outside = 0;
    uint32_t last = num_steps > 0 ? num_steps : 1;
    enum tpp_code code = tpp_replay_resolve(evaluator, strategy, &resolved, &outside, err);
    if (code == TPP_OK)
        code = find_step(evaluator, strategy, &resolved, &last, err);
    if (code == TPP_OK)
        code = tpp_play_new(evaluator, strategy, resolved.stage, &resolved, resolved.device_bytes, resolved.seed, &play,
                            err);
    if (code != TPP_OK)
        return code;
    struct recorder recorder = {.play = &play, .device_bytes = resolved.device_bytes};
    tpp_pickle_begin(&recorder.pickle, out);
    tpp_pickle_open_dict(&recorder.pickle);
    code = play_and_record(&recorder, &play, last, &notes, err);
    if (code == TPP_OK)
        code = put_segments(&recorder, &notes, err);
    tpp_pickle_close_dict(&recorder.pickle);
    tpp_pickle_end(&recorder.pickle);
    if (code == TPP_OK && tpp_text_failed(out))
        code = tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the snapshot");
    free(notes.owners);
    tpp_play_release(&play);
    return code;
}
