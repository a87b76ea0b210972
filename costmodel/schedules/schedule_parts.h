/* schedule_parts.h - private to the schedules: a row of the table, the lists being made, and the buffers of a run. */
#ifndef TPP_COSTMODEL_SCHEDULES_SCHEDULE_PARTS_H
#define TPP_COSTMODEL_SCHEDULES_SCHEDULE_PARTS_H

#include "costmodel/schedules/schedule.h"

/* The list of one stage while it is filled; it has room for all operations of the stage. */
struct tpp_op_list {
    struct tpp_schedule_op *ops;
    size_t count;
};

static inline void tpp_op_add(struct tpp_op_list *list, enum tpp_schedule_op_kind kind, uint32_t chunk,
                              uint32_t micro_batch)
{
    list->ops[list->count++] =
        (struct tpp_schedule_op){.micro_batch = micro_batch, .chunk = (uint16_t)chunk, .kind = (uint8_t)kind};
}

/* The last op runs as one block with the op that is added next. */
static inline void tpp_op_pair(struct tpp_op_list *list)
{
    list->ops[list->count - 1].is_paired = 1;
}

struct tpp_buffer { /* grows, never shrinks */
    void *data;
    size_t size;
};
/* At least `count` things of `size` bytes in buffer->data; what was there is lost. */
enum tpp_code tpp_buffer_reserve(struct tpp_buffer *buffer, size_t count, size_t size, struct tpp_error *err);

struct tpp_schedule_run {
    struct tpp_buffer ops, times, stages;
    struct tpp_buffer finish, cursors;    /* of the event loop */
    struct tpp_buffer search, candidate;  /* of a searched schedule: its state, and the lists being tried */
    size_t ops_a_stage;
    uint32_t num_stages;
    bool is_timed;
};

struct tpp_schedule_row {
    struct tpp_schedule_info info;
    uint32_t chunks_a_stage;       /* the v it needs; 0 = any */
    double memory_limit_in_stages; /* own memory limit as a multiple of p; 0 = it has none */
    /* More that the sizes must meet; may be NULL. */
    enum tpp_code (*check)(const struct tpp_schedule_problem *problem, struct tpp_error *err);
    /* Fills the list of one stage. */
    void (*order)(const struct tpp_schedule_problem *problem, uint32_t stage, struct tpp_op_list *list);
    /* Instead of `order` when the lists of all stages hang together: fills run->ops. */
    enum tpp_code (*search)(struct tpp_schedule_run *run, const struct tpp_schedule_problem *problem,
                            struct tpp_error *err);
};

extern const struct tpp_schedule_row tpp_schedule_gpipe, tpp_schedule_1f1b, tpp_schedule_interleaved,
    tpp_schedule_zb_h1, tpp_schedule_zb_h2, tpp_schedule_zb_1p, tpp_schedule_zb_2p, tpp_schedule_zb_v,
    tpp_schedule_dualpipe, tpp_schedule_dualpipev;
const struct tpp_schedule_row *tpp_schedule_row_of(enum tpp_schedule schedule);

/* Chunks that operations name: p v, or 2p where the model is there twice. */
uint32_t tpp_problem_num_chunks(const struct tpp_schedule_problem *problem);
/* Times and bytes of a chunk: both copies of the model have the same. */
const struct tpp_schedule_chunk *tpp_problem_chunk(const struct tpp_schedule_problem *problem, uint32_t chunk);
static inline struct tpp_schedule_op *tpp_run_list(const struct tpp_schedule_run *run, uint32_t stage)
{
    return (struct tpp_schedule_op *)run->ops.data + (size_t)stage * run->ops_a_stage;
}

/* Times the lists of the run (schedule_events.c): fills times and, of each stage, start, end and busy seconds.
 * TPP_E_INTERNAL when they wait for each other. */
enum tpp_code tpp_schedule_play(struct tpp_schedule_run *run, const struct tpp_schedule_problem *problem,
                                struct tpp_error *err);
/* Bytes alive op by op, and the peaks of a stage (schedule_memory.c). */
void tpp_schedule_walk_memory(struct tpp_schedule_run *run, const struct tpp_schedule_problem *problem, uint32_t stage);

/* One-forward-one-backward with `warm_up` forwards first and W(i) after B(i + delay); a delay of UINT32_MAX: no W. */
#define TPP_NO_WEIGHT_OPS UINT32_MAX
void tpp_order_one_f_one_b(uint32_t num_micro_batches, uint32_t stage, uint32_t warm_up, uint32_t delay,
                           struct tpp_op_list *list);

/* The zero-bubble heuristic on plain stages under the problem's memory limit, or the row's (zero_bubble_search.c). */
enum tpp_code tpp_search_zero_bubble(struct tpp_schedule_run *run, const struct tpp_schedule_problem *problem,
                                     struct tpp_error *err);
double tpp_problem_memory_limit(const struct tpp_schedule_problem *problem);

/* 1F1B with the passes of shared vocabulary layers (vocabulary_order.c): fills run->ops. */
enum tpp_code tpp_order_with_vocabulary(struct tpp_schedule_run *run, const struct tpp_schedule_problem *problem,
                                        struct tpp_error *err);

/* DualPipe's order on one stage (two_chunk_order.c): forward and backward of chunks `first` and `second` in turns, as
 * if the stage were number `depth` of `num_depths` on the way to where the two directions meet. */
struct tpp_two_chunks {
    uint32_t first, second;                   /* chunk of phase 0 and of phase 1 */
    uint32_t first_base, second_base;         /* their first micro-batch */
    uint32_t depth, num_depths;
    uint32_t num_micro_batches;               /* of each of the two chunks */
};
void tpp_order_two_chunks(const struct tpp_two_chunks *chunks, struct tpp_op_list *list);

#endif
