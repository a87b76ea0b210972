#include "costmodel/allocator/peak_tensors.h"

#include <stdlib.h>
#include <string.h>

/* The second step begins with the optimizer's moments, and later ones repeat it. */
static const uint32_t num_steps = 2;

struct tensor { /* the event that made it; bytes 0: not alive */
    const char *name;
    uint64_t bytes;
    uint32_t layer, micro_batch;
};

/* Tensors by their numbers, as events come and go. */
struct tensors {
    struct tensor *all; /* owned */
    uint32_t capacity;
    uint64_t alive_bytes;
};

/* What is alive, by name. */
struct groups {
    struct tpp_peak_tensors *list; /* owned */
    uint32_t count, capacity;
};

static bool make_room(struct tensors *tensors, uint32_t needed)
{
    if (needed <= tensors->capacity)
        return true;
    struct tensor *all = realloc(tensors->all, needed * sizeof(*all));
    if (all == NULL)
        return false;
    memset(&all[tensors->capacity], 0, (needed - tensors->capacity) * sizeof(*all));
    tensors->all = all;
    tensors->capacity = needed;
    return true;
}

static bool is_in_a_pass(enum tpp_trace_phase phase)
{
    return phase != TPP_TRACE_OUTSIDE && phase != TPP_TRACE_OPTIMIZER;
}

static void follow(struct tensors *tensors, const struct tpp_trace_event *event)
{
    if (event->kind != TPP_TRACE_ALLOCATE && event->kind != TPP_TRACE_FREE)
        return;
    struct tensor *tensor = &tensors->all[event->tensor];
    tensors->alive_bytes -= tensor->bytes;
    *tensor = (struct tensor){.bytes = 0};
    if (event->kind == TPP_TRACE_FREE)
        return;
    *tensor = (struct tensor){event->name, event->bytes, event->layer,
                              is_in_a_pass((enum tpp_trace_phase)event->phase) ? event->micro_batch : UINT32_MAX};
    tensors->alive_bytes += event->bytes;
}

/* The group of that name, a new one when there is none; NULL when out of memory. */
static struct tpp_peak_tensors *group_of(struct groups *groups, const char *name)
{
    for (uint32_t i = 0; i < groups->count; i++)
        if (groups->list[i].name == name || strcmp(groups->list[i].name, name) == 0)
            return &groups->list[i];
    if (groups->count == groups->capacity) {
        const uint32_t capacity = groups->capacity > 0 ? 2 * groups->capacity : 64;
        struct tpp_peak_tensors *list = realloc(groups->list, capacity * sizeof(*list));
        if (list == NULL)
            return NULL;
        groups->list = list;
        groups->capacity = capacity;
    }
    groups->list[groups->count] = (struct tpp_peak_tensors){.name = name,
                                                            .first_layer = TPP_TRACE_NO_LAYER,
                                                            .last_layer = TPP_TRACE_NO_LAYER,
                                                            .first_micro_batch = UINT32_MAX,
                                                            .last_micro_batch = UINT32_MAX};
    return &groups->list[groups->count++];
}

/* UINT32_MAX, which stands for none, leaves the range as it is. */
static void widen(uint32_t *first, uint32_t *last, uint32_t value)
{
    if (value == UINT32_MAX)
        return;
    if (*first == UINT32_MAX || value < *first)
        *first = value;
    if (*last == UINT32_MAX || value > *last)
        *last = value;
}

static bool sum_up(const struct tensors *tensors, struct groups *groups)
{
    groups->count = 0;
    for (uint32_t i = 0; i < tensors->capacity; i++) {
        const struct tensor *tensor = &tensors->all[i];
        struct tpp_peak_tensors *group = tensor->bytes > 0 ? group_of(groups, tensor->name) : NULL;
        if (tensor->bytes == 0)
            continue;
        if (group == NULL)
            return false;
        group->bytes += tensor->bytes;
        group->largest_bytes = tensor->bytes > group->largest_bytes ? tensor->bytes : group->largest_bytes;
        group->count++;
        widen(&group->first_layer, &group->last_layer, tensor->layer);
        widen(&group->first_micro_batch, &group->last_micro_batch, tensor->micro_batch);
    }
    return true;
}

/* Index of the event after which most is alive, when that is more than `most`; `count` when it is not. */
static size_t find_peak(const struct tpp_trace_event *events, size_t count, const struct tensors *tensors, uint64_t most,
                        uint64_t *sizes)
{
    uint64_t alive = tensors->alive_bytes;
    size_t peak = count;
    for (uint32_t i = 0; i < tensors->capacity; i++)
        sizes[i] = tensors->all[i].bytes;
    for (size_t i = 0; i < count; i++) {
        if (events[i].kind == TPP_TRACE_FREE)
            alive -= sizes[events[i].tensor];
        if (events[i].kind != TPP_TRACE_ALLOCATE)
            continue;
        sizes[events[i].tensor] = events[i].bytes;
        alive += events[i].bytes;
        if (alive > most) {
            most = alive;
            peak = i;
        }
    }
    return peak;
}

/* One step (0: set-up, which has no peak): the groups and *out become those of its peak when it is higher than before. */
static enum tpp_code look_at(struct tpp_tracer *tracer, uint32_t step, struct tensors *tensors, struct groups *groups,
                             struct tpp_peak *out, struct tpp_error *err)
{
    size_t count = 0;
    const enum tpp_code code = step == 0 ? tpp_tracer_setup(tracer, err) : tpp_tracer_step(tracer, err);
    if (code != TPP_OK)
        return code;
    const struct tpp_trace_event *events = tpp_tracer_events(tracer, &count);
    bool done = make_room(tensors, tpp_tracer_num_tensors(tracer));
    uint64_t *sizes = done ? malloc((tensors->capacity + (size_t)1) * sizeof(*sizes)) : NULL;
    done = sizes != NULL;
    const size_t peak = step > 0 && done ? find_peak(events, count, tensors, out->alive_bytes, sizes) : count;
    free(sizes);
    for (size_t i = 0; i < count && done; i++) {
        follow(tensors, &events[i]);
        if (i != peak)
            continue;
        out->step = step;
        out->phase = (enum tpp_trace_phase)events[i].phase;
        out->micro_batch = events[i].micro_batch;
        out->layer = events[i].layer;
        out->alive_bytes = tensors->alive_bytes;
        done = sum_up(tensors, groups);
    }
    return done ? TPP_OK : tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the tensors at the peak");
}

static int compare_groups(const void *a, const void *b)
{
    const struct tpp_peak_tensors *left = a, *right = b;
    if (left->bytes != right->bytes)
        return left->bytes > right->bytes ? -1 : 1;
    return strcmp(left->name, right->name);
}

static void list_largest(struct groups *groups, struct tpp_peak *out)
{
    if (groups->count > 0)
        qsort(groups->list, groups->count, sizeof(*groups->list), compare_groups);
    for (uint32_t i = 0; i < groups->count; i++) {
        if (i < TPP_PEAK_MAX_TENSORS) {
            out->tensors[out->count++] = groups->list[i];
        } else {
            out->num_other_names++;
            out->other_bytes += groups->list[i].bytes;
        }
    }
}

enum tpp_code tpp_peak_find(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy, uint32_t stage,
                            struct tpp_peak *out, struct tpp_error *err)
{
    const struct tpp_trace_options options = {.lengths = NULL};
    struct tpp_tracer *tracer = NULL;
    struct tensors tensors = {.all = NULL};
    struct groups groups = {.list = NULL};
    *out = (struct tpp_peak){.stage = stage};
    enum tpp_code code = tpp_tracer_new(evaluator, strategy, stage, &options, &tracer, err);
    for (uint32_t step = 0; step <= num_steps && code == TPP_OK; step++)
        code = look_at(tracer, step, &tensors, &groups, out, err);
    if (code == TPP_OK)
        list_largest(&groups, out);
    tpp_tracer_free(tracer);
    free(tensors.all);
    free(groups.list);
    return code;
}
