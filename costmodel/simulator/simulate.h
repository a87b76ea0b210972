/* simulate.h - one training step of one strategy as events: the third reader of the layer program (cost-model 8.2, 9.2-9.4).
 *
 * The ranks that differ are simulated: one for each pipeline stage, with its compute, transfer and host streams. Ranks of a
 * stage do the same at the same time, so one stands for all of them, and cost grows with what differs, not with the world.
 * A straggler is simulated as the rank that stands for its stage: collectives wait for the slowest, so the step is as long
 * as with all ranks; with num_replicas = 2 a pipeline without it runs beside it and waits in the collectives.
 *
 * Step: gathers of parameters (left over from the step before) with the first forward passes; the pipeline with its
 * transfers, gradient buckets as they fill, ZeRO-3 gathers and reductions; then, when all stages are done, gradient norm
 * and optimizer, offload, parameter gathers that do not overlap, and the fixed time. */
#ifndef TPP_COSTMODEL_SIMULATOR_SIMULATE_H
#define TPP_COSTMODEL_SIMULATOR_SIMULATE_H

#include "costmodel/evaluate.h"
#include "costmodel/simulator/flow.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tpp_simulation_mode {
    /* Everything as events; the step differs from tpp_evaluator_cost where transfers wait, collide or hide. */
    TPP_SIMULATION_EVENTS,
    /* Comparable with tpp_evaluator_cost: overlapped traffic (gradients, ZeRO-3) costs what its closed form says, transfers
     * between stages share no link, so that only the order of the pipeline is simulated. On uniform stages both agree to
     * 0.1 %. */
    TPP_SIMULATION_COMPARABLE,
};

enum tpp_simulation_detail {
    TPP_DETAIL_AUTO,   /* single operations where tensor- or context-parallel transfers share a link with others */
    TPP_DETAIL_LAYERS, /* a layer's section is one compute event */
    TPP_DETAIL_OPS,    /* every transfer inside a layer is one event */
};

#define TPP_EVERY_STAGE UINT32_MAX

struct tpp_straggler {
    uint32_t stage;            /* TPP_EVERY_STAGE: all of them */
    double slowdown;           /* 1: none; 1.3: compute takes 1.3 times as long, or the NIC has 1/1.3 of its rate */
};

struct tpp_simulation_options {
    enum tpp_simulation_mode mode;
    enum tpp_simulation_detail detail;
    uint32_t num_replicas;     /* pipelines simulated side by side, 1 .. 8; the first one has the stragglers */
    /* CUDA_DEVICE_MAX_CONNECTIONS=1: kernels start in the order of issue, so that a reduce-scatter of ZeRO-3/FSDP is over
     * before the next layer's backward (9.2). */
    bool has_single_connection;
    bool records_links;        /* for the counters of a trace */
    struct tpp_straggler slow_gpu, slow_nic;
    double jitter_fraction;    /* standard deviation of a compute event on one rank, 0 .. 1; the slowest of t c ranks counts */
    uint64_t seed;             /* of the jitter */
    uint32_t num_micro_batches; /* simulate a step of so many instead of the strategy's, no more than it has; 0: all */
    uint64_t max_tasks;        /* TPP_E_RANGE when about more would be needed, 1 .. 1e7: 1.5 GB */
};
/* Events, automatic detail, one replica, no straggler, no jitter. */
struct tpp_simulation_options tpp_simulation_options_defaults(void);

enum tpp_simulated_pass {
    TPP_PASS_FORWARD,
    TPP_PASS_BACKWARD,
    TPP_PASS_WEIGHT,
    TPP_PASS_VOCABULARY,        /* S and T of vocabulary layers that the stages share (schedules/vocabulary_order.c) */
    TPP_PASS_VOCABULARY_WEIGHT,
    TPP_PASS_COUNT,
};

struct tpp_simulated_op { /* one pass of a micro-batch through a chunk */
    double start_seconds, end_seconds;
    uint32_t stage, chunk, micro_batch; /* chunk: in model order */
    enum tpp_simulated_pass pass;
};

enum tpp_contention_level { TPP_CONTENTION_LOW, TPP_CONTENTION_MODERATE, TPP_CONTENTION_HIGH, TPP_CONTENTION_SATURATED };
const char *tpp_contention_level_name(enum tpp_contention_level level); /* "low", "moderate", "high", "saturated" */

struct tpp_simulated_contention { /* of one kind of link, on the stage where it is worst */
    enum tpp_resource_kind resource;
    enum tpp_contention_level level;
    uint32_t stage;                /* LEAF_UPLINK: number of the leaf; SPINE: 0 */
    double load_fraction;          /* offered bytes over what the link can move in the window (9.4) */
    double window_start_seconds, window_seconds; /* backward of the layers that fill one bucket */
    const char *operations[2];     /* that want the link at once for the longest time; NULL: never two different ones */
    double collision_seconds;      /* that time, summed over the step */
};

struct tpp_simulation_result {
    double step_seconds;
    double pipeline_seconds;       /* end of the last backward or weight pass */
    double gradient_exposed_seconds; /* reductions after that, gathers after the optimizer; EVENTS only, as the next two */
    double optimizer_seconds, fixed_seconds; /* optimizer: with offload */
    double bubble_fraction;        /* of pipeline_seconds of all stages: time outside every pass */
    uint64_t num_events, num_tasks;
    size_t num_bytes;              /* memory held by the simulation */
    const struct tpp_simulated_op *ops; /* of the first replica, stage by stage in the order they ran */
    size_t num_ops;
    struct tpp_simulated_contention contention[TPP_RESOURCE_KIND_COUNT]; /* resources that are used, worst first */
    uint32_t num_contentions;
    bool has_operations;           /* layers were simulated operation by operation */
};

struct tpp_simulation; /* opaque */

/* Prepares a step. The evaluator is borrowed and must outlive the simulation; the strategy is copied. TPP_E_STRATEGY as
 * tpp_evaluator_cost; TPP_E_RANGE (`where` "simulation.<field>") for options out of range. On success the caller owns
 * *out. */
enum tpp_code tpp_simulation_new(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                 const struct tpp_simulation_options *options, struct tpp_simulation **out,
                                 struct tpp_error *err);
/* Handles up to `max_events` more events; sets *done when the step is over. */
enum tpp_code tpp_simulation_run(struct tpp_simulation *simulation, uint64_t max_events, bool *done,
                                 struct tpp_error *err);
/* Borrowed: valid until the simulation is freed; NULL before the run is done. */
const struct tpp_simulation_result *tpp_simulation_result(const struct tpp_simulation *simulation);
/* The length of a whole step: new, run to the end, free. Fails as they do; then *step_seconds is untouched. */
enum tpp_code tpp_simulation_step_seconds(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                          const struct tpp_simulation_options *options, double *step_seconds,
                                          struct tpp_error *err);
/* The same, up to rounding, in less time when there are many micro-batches: between fill and drain a pipeline repeats itself,
 * so that a step with k p more of them is longer by k times what p more cost. Two shorter steps are simulated, congruent to
 * the whole one modulo p. Exact once the schedule is periodic (0.5 % where waits build up slowly); short steps, and those of
 * searched schedules, of groups of a size of their own, of ZeRO-3 in a pipeline and of interleaving without overlap, are simulated
 * whole. */
enum tpp_code tpp_simulation_periodic_step_seconds(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                                   const struct tpp_simulation_options *options, double *step_seconds,
                                                   struct tpp_error *err);
void tpp_simulation_free(struct tpp_simulation *simulation); /* NULL is fine */

#endif
