/* The order of DualPipe, and of its half DualPipeV, on one stage: forward of one chunk overlapped with backward of the
 * other (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 3.2.1 and figure 5). */
#include "costmodel/schedules/schedule_parts.h"

/* Where each kind of op stands, by phase: 0 = the chunk whose forwards come first, 1 = the other. */
struct progress {
    const struct tpp_two_chunks *chunks;
    struct tpp_op_list *list;
    uint32_t num_forwards[2], num_backwards[2];
    size_t next_weight; /* place in the list before which no backward is without its weight gradient */
};

static uint32_t chunk_of(const struct progress *progress, int phase)
{
    return phase == 0 ? progress->chunks->first : progress->chunks->second;
}

static uint32_t base_of(const struct progress *progress, int phase)
{
    return phase == 0 ? progress->chunks->first_base : progress->chunks->second_base;
}

static void forward(struct progress *progress, int phase)
{
    tpp_op_add(progress->list, TPP_SCHEDULE_OP_FORWARD, chunk_of(progress, phase),
               base_of(progress, phase) + progress->num_forwards[phase]++);
}

/* Leaves the weight gradient for later. */
static void input_gradient(struct progress *progress, int phase)
{
    if (progress->next_weight == SIZE_MAX)
        progress->next_weight = progress->list->count;
    tpp_op_add(progress->list, TPP_SCHEDULE_OP_BACKWARD, chunk_of(progress, phase),
               base_of(progress, phase) + progress->num_backwards[phase]++);
}

/* Both gradients as one block: nobody sees the first before the second is done. */
static void backward(struct progress *progress, int phase)
{
    const uint32_t micro_batch = base_of(progress, phase) + progress->num_backwards[phase]++;
    tpp_op_add(progress->list, TPP_SCHEDULE_OP_BACKWARD, chunk_of(progress, phase), micro_batch);
    tpp_op_pair(progress->list);
    tpp_op_add(progress->list, TPP_SCHEDULE_OP_WEIGHT, chunk_of(progress, phase), micro_batch);
}

static void forward_with_backward(struct progress *progress, int forward_phase)
{
    forward(progress, forward_phase);
    tpp_op_pair(progress->list);
    backward(progress, 1 - forward_phase);
}

/* The oldest weight gradient that was left for later. */
static void weight(struct progress *progress)
{
    const struct tpp_schedule_op op = progress->list->ops[progress->next_weight];
    tpp_op_add(progress->list, TPP_SCHEDULE_OP_WEIGHT, op.chunk, op.micro_batch);
    size_t next = progress->next_weight + 1;
    while (next < progress->list->count &&
           (progress->list->ops[next].kind != TPP_SCHEDULE_OP_BACKWARD || progress->list->ops[next].is_paired))
        next++;
    progress->next_weight = next < progress->list->count ? next : SIZE_MAX;
}

static void warm_up(struct progress *progress, uint32_t before, uint32_t after)
{
    for (uint32_t i = 0; i < 2 * after; i++)
        forward(progress, 0);
    for (uint32_t i = 0; i < before; i++) {
        forward(progress, 0);
        forward(progress, 1);
    }
    for (uint32_t i = 0; i < after; i++) {
        input_gradient(progress, 1);
        weight(progress);
        forward(progress, 1);
    }
}

/* In the second half of the drain only the gradients that others wait for are taken at once. */
static void drain(struct progress *progress, uint32_t before, uint32_t after)
{
    const uint32_t num_whole =
        before; /* of the 2 * before backwards: those whose weight gradient is not left for later */
    for (uint32_t i = 0; i < after; i++) {
        backward(progress, 1);
        forward_with_backward(progress, 1);
    }
    for (uint32_t i = 0; i < 2 * before; i++) {
        const int phase = i % 2 == 0 ? 1 : 0;
        if (i < num_whole)
            backward(progress, phase);
        else
            input_gradient(progress, phase);
    }
    for (uint32_t i = 0; i < after; i++) {
        weight(progress);
        input_gradient(progress, 0);
    }
    for (uint32_t i = 0; i < before; i++)
        weight(progress);
}

void tpp_order_two_chunks(const struct tpp_two_chunks *chunks, struct tpp_op_list *list)
{
    struct progress progress = {.chunks = chunks, .list = list, .next_weight = SIZE_MAX};
    const uint32_t before = chunks->depth + 1, after = chunks->num_depths - before;
    const uint32_t num_pairs = chunks->num_micro_batches - 2 * chunks->num_depths + before;
    warm_up(&progress, before, after);
    for (uint32_t i = 0; i < num_pairs; i++) {
        if (i == 0 && after == 0) { /* here the first backward needs the forward just run: no overlap */
            forward(&progress, 0);
            backward(&progress, 1);
        } else {
            forward_with_backward(&progress, 0);
        }
        forward_with_backward(&progress, 1);
    }
    drain(&progress, before, after);
}
