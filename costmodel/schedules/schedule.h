/* schedule.h - pipeline schedules as lists of operations, and the discrete events that time them (cost-model 8.2).
 *
 * A pipeline runs three kinds of operations, each for one micro-batch i on one model chunk g: forward F(g,i), backward
 * B(g,i) (the gradient of the input), and weight W(g,i) (the gradient of the weights). A schedule says which stage
 * holds which chunk and in which order a stage runs its operations; each stage works its list off strictly in order.
 * An operation starts when its stage is free and what it needs has arrived:
 *
 *     F(g,i) after F(g-1,i), B(g,i) after F(g,i) and B(g+1,i), W(g,i) after B(g,i)
 *
 * plus edge_seconds when the other operation ran on another stage. Schedules that do not split the backward pass have
 * no W in their lists: their B takes B + W. With embedding and head shared by all stages (vocabulary_order.c) a stage r also
 * runs S(r,i) and T(r,i), chunk r, whose barriers stand between the last stage's F and its B. Time and memory are O(p v m); ops and times live in buffers that a run
 * keeps, so stepping many problems of one size allocates once. Same problem, same bits. */
#ifndef TPP_COSTMODEL_SCHEDULES_SCHEDULE_H
#define TPP_COSTMODEL_SCHEDULES_SCHEDULE_H

#include "costmodel/base/error.h"
#include "costmodel/strategy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tpp_schedule_op_kind {
    TPP_SCHEDULE_OP_FORWARD,
    TPP_SCHEDULE_OP_BACKWARD,
    TPP_SCHEDULE_OP_WEIGHT,
    TPP_SCHEDULE_OP_VOCABULARY,        /* S */
    TPP_SCHEDULE_OP_VOCABULARY_WEIGHT, /* T */
    TPP_SCHEDULE_OP_KIND_COUNT,
};

struct tpp_schedule_op {
    uint32_t micro_batch;
    uint16_t chunk;     /* in model order; DualPipe: p + stage in the second direction */
    uint8_t kind;       /* enum tpp_schedule_op_kind */
    uint8_t is_paired;  /* runs together with the next op of the list, as one block: DualPipe's overlapped F and B */
};

enum tpp_placement {
    TPP_PLACEMENT_LOOP,    /* chunk g on stage g mod p */
    TPP_PLACEMENT_V,       /* two chunks a stage: g on g < p ? g : 2p-1-g; embedding and head both on stage 0 */
    TPP_PLACEMENT_TWO_WAY, /* as V, but chunks p .. 2p-1 are a second copy of the model, for half of the micro-batches */
};
#define TPP_NO_CHUNK UINT32_MAX

/* What is fixed of a schedule: one row of the table in schedules/table.c. */
struct tpp_schedule_info {
    const char *name;               /* "zb-h1" */
    enum tpp_placement placement;
    bool splits_backward;           /* W is an operation of its own */
    bool is_searched;               /* the list depends on the times and on memory_limit */
};
const struct tpp_schedule_info *tpp_schedule_info(enum tpp_schedule schedule); /* never NULL for a valid value */

/* Where a chunk is, and its neighbours in the model (TPP_NO_CHUNK at the ends). `num_chunks`: of all stages. */
uint32_t tpp_schedule_chunk_stage(enum tpp_placement placement, uint32_t pipeline_parallel, uint32_t chunk);
uint32_t tpp_schedule_previous_chunk(enum tpp_placement placement, uint32_t pipeline_parallel, uint32_t chunk);
uint32_t tpp_schedule_next_chunk(enum tpp_placement placement, uint32_t pipeline_parallel, uint32_t num_chunks,
                                 uint32_t chunk);

/* One chunk and one micro-batch. Recomputation is part of backward_seconds. */
struct tpp_schedule_chunk {
    double forward_seconds, backward_seconds, weight_seconds; /* F, B, W */
    double activation_bytes;        /* M_B: alive from the start of F to the end of B */
    double weight_activation_bytes; /* M_W: what of them stays alive until the end of W, when the backward is split */
    double hidden_forward_seconds, hidden_backward_seconds; /* what F, and B with W, save in a pair of the two */
    double vocabulary_seconds, vocabulary_weight_seconds;   /* S, T; interlaced: all in S */
};

struct tpp_schedule_problem {
    enum tpp_schedule schedule;
    uint32_t pipeline_parallel;        /* p */
    uint32_t virtual_pipeline_stages;  /* v: chunks a stage; 1, or the schedule's own 2 (zb-v, dualpipev) */
    uint32_t num_micro_batches;        /* m */
    uint32_t microbatch_group_size;    /* interleaved: micro-batches a chunk takes in turn; 0 = p */
    /* zb-1p, zb-2p, zb-v: what a stage may hold at once, in micro-batches of its own M_B; 0 = the schedule's p, 2p, p. */
    double memory_limit;
    enum tpp_vocabulary_parallel vocabulary_parallel; /* 1F1B */
    /* How long their transfers take from the last stage's F to S, behind S, and behind T: room that the order leaves, and no
     * part of any time. */
    double vocabulary_input_seconds, vocabulary_loss_seconds, vocabulary_gradient_seconds;
    const struct tpp_schedule_chunk *chunks; /* p v in model order (DualPipe: p, both copies alike); borrowed */
    const double *micro_batch_lengths; /* m factors of the times of each micro-batch's operations, 1 being as the chunks say; the
                                          lists do not follow them; NULL: all 1; borrowed */
    double edge_seconds;               /* Tc: from the end of an operation to its arrival on another stage */
    double transfer_seconds;           /* stage time of a transfer, added to each op with input from another stage */
};

struct tpp_schedule_stage {
    double first_start_seconds, last_end_seconds;
    double busy_seconds;               /* transfers included */
    double peak_micro_batches;         /* in flight: forward started, B not finished; in full stages, chunks / v */
    double peak_activation_bytes;
};

struct tpp_schedule_time {             /* of one op, in seconds after the first one's start */
    double start_seconds, end_seconds;
    double activation_bytes;           /* alive on the stage while it runs */
};

struct tpp_schedule_summary {
    double makespan_seconds;           /* first start to last end of all stages */
    double span_seconds;               /* the longest stage's own first start to last end */
    double busy_seconds;               /* of the busiest stage */
    double bubble_fraction;            /* 1 - busy of all stages / (p makespan) */
    double span_bubble_fraction;       /* 1 - busy of all stages / (p span): the rate of the zero-bubble papers */
    double imbalance_seconds;          /* sum over stages of (busiest stage - stage) */
    double peak_activation_bytes;      /* of the worst stage */
    uint32_t worst_stage;
    uint64_t num_ops;
};

struct tpp_schedule_run; /* opaque: buffers and the last result; one per thread */
/* On success the caller owns *out. */
enum tpp_code tpp_schedule_run_new(struct tpp_schedule_run **out, struct tpp_error *err);
void tpp_schedule_run_free(struct tpp_schedule_run *run); /* NULL is fine */

/* Makes the lists and times them. TPP_E_STRATEGY for sizes that the schedule cannot run (`where` "schedule"),
 * TPP_E_RANGE for times or bytes that are not finite or negative. */
enum tpp_code tpp_schedule_step(struct tpp_schedule_run *run, const struct tpp_schedule_problem *problem,
                                struct tpp_schedule_summary *summary, struct tpp_error *err);
/* Makes the lists only, for a simulator that times them itself. */
enum tpp_code tpp_schedule_order(struct tpp_schedule_run *run, const struct tpp_schedule_problem *problem,
                                 struct tpp_error *err);

/* Of the last step: borrowed until the next call with the run. stages: p of them. ops and times: of one stage, in the
 * order in which it runs them, *count of them (times only after a step). */
const struct tpp_schedule_stage *tpp_schedule_run_stages(const struct tpp_schedule_run *run);
const struct tpp_schedule_op *tpp_schedule_run_ops(const struct tpp_schedule_run *run, uint32_t stage, size_t *count);
const struct tpp_schedule_time *tpp_schedule_run_times(const struct tpp_schedule_run *run, uint32_t stage,
                                                       size_t *count);

/* The problem of a completed strategy, with no chunks and times of 0 yet. */
struct tpp_schedule_problem tpp_schedule_problem_of(const struct tpp_strategy *strategy);

#endif
