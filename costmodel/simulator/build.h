/* build.h - private to the simulator: turns a strategy into the event graph of its step.
 *
 * A device is one pipeline stage of one replica, numbered replica * p + stage. The build makes, in this order: what a unit
 * (embedding, layer, head) costs, resources and routes, the passes of every device in the order of the schedule with the
 * transfers between stages, gradient buckets or ZeRO-3 traffic, and the end of the step. */
#ifndef TPP_COSTMODEL_SIMULATOR_BUILD_H
#define TPP_COSTMODEL_SIMULATOR_BUILD_H

#include "costmodel/base/arena.h"
#include "costmodel/evaluator.h"
#include "costmodel/simulator/event_graph.h"
#include "costmodel/simulator/order.h"
#include "costmodel/simulator/simulate.h"

enum tpp_unit_kind {
    TPP_UNIT_EMBEDDING,
    TPP_UNIT_LAYER, /* with the dense MLP */
    TPP_UNIT_MOE,   /* with experts */
    TPP_UNIT_HEAD,
    TPP_UNIT_COUNT,
};

/* Parameters by who holds the same ones: routed experts have replicas of their own (2.5). */
enum tpp_parameter_part { TPP_PARAMETERS_DENSE, TPP_PARAMETERS_EXPERT, TPP_PARAMETERS_COUNT };

/* A stretch of a pass of one layer when its operations are simulated: compute, and the transfer that goes with it. */
struct tpp_segment {
    double compute_seconds;  /* before the transfer, or beside it */
    double lead_seconds;     /* is_hidden: compute before the transfer starts */
    double transfer_seconds; /* alone; 0: none */
    double bytes;            /* full tensor of the transfer */
    enum tpp_collective collective;
    enum tpp_group_kind group;
    const char *name;
    bool is_hidden;          /* runs beside compute_seconds - lead_seconds; what follows waits for both */
};
#define TPP_MAX_SEGMENTS 64

struct tpp_segment_list {
    struct tpp_segment items[TPP_MAX_SEGMENTS];
    uint32_t count;
};

/* What one unit costs on one micro-batch. Backward of a schedule that does not split it is BACKWARD + WEIGHT. */
struct tpp_unit {
    double compute_seconds[TPP_PASS_COUNT]; /* scaled by a slow GPU */
    double other_seconds[TPP_PASS_COUNT];   /* exposed transfers inside */
    double repeated_seconds;                /* selective recomputation, in BACKWARD */
    double skipped_seconds;                 /* forward that full recomputation leaves out */
    double elements[TPP_PARAMETERS_COUNT];  /* trainable parameters of a rank */
    double gather_bytes[TPP_PARAMETERS_COUNT]; /* of them on the wire, behind the optimizer */
    double gathered_bytes;                  /* ZeRO-3: of its weights */
    struct tpp_segment_list *segments;      /* [TPP_PASS_COUNT], when operations are simulated */
};

struct tpp_chunk {
    struct tpp_order_chunk place;
    uint32_t first_layer, num_layers;       /* in the model */
    uint32_t num_moe_layers;                /* of them */
    bool has_embedding, has_head;           /* its share of them, where the stages share them */
    bool passes_ends;                       /* in F and B; else in passes of their own */
    double recomputed_fraction;             /* of its layers */
    double elements[TPP_PARAMETERS_COUNT], gather_bytes[TPP_PARAMETERS_COUNT];
};

struct tpp_op_tasks { /* of one pass of one micro-batch through one chunk on one device */
    uint32_t first, last;
    uint32_t block_first, block_last; /* of the passes that run together with it: all start and end as one */
    uint32_t before; /* what its device did last before them; TPP_NO_TASK */
    uint32_t send;   /* of its result; TPP_NO_TASK */
};

struct tpp_vocabulary_tasks { /* of one micro-batch on one device; TPP_NO_TASK */
    uint32_t input, loss, gradient; /* transfers before S, behind it, and behind T */
    uint32_t first, second;         /* compute of S and of T */
};

/* Whom a transfer of a stage goes to. */
enum tpp_route_kind {
    TPP_ROUTE_REPLICAS,  /* all ranks that hold the same parameters */
    TPP_ROUTE_SHARD,     /* those that the states are sharded over */
    TPP_ROUTE_REPLICATE, /* those that hold the same shard */
    TPP_ROUTE_EXPERT_REPLICAS, TPP_ROUTE_EXPERT_SHARD, /* the same for routed experts */
    TPP_ROUTE_TENSOR, TPP_ROUTE_CONTEXT, TPP_ROUTE_ULYSSES, TPP_ROUTE_EXPERT, TPP_ROUTE_EXPERT_TENSOR,
    TPP_ROUTE_TIED,      /* first and last stage: the tied embedding */
    TPP_ROUTE_PIPELINE,  /* all stages: shared vocabulary layers */
    TPP_ROUTE_GROUP_COUNT, /* those above are collectives of a group */
    TPP_ROUTE_SEND_UP = TPP_ROUTE_GROUP_COUNT, /* to the next stage, of the last one to the first */
    TPP_ROUTE_SEND_DOWN,
    TPP_ROUTE_HOST,
    TPP_ROUTE_COUNT,
};

struct tpp_build_route {
    uint32_t route;             /* in the graph; TPP_NO_TASK until used */
    double seconds_per_byte;    /* least time of a byte, on healthy links */
};

struct tpp_build {
    struct tpp_evaluator *evaluator;
    const struct tpp_strategy *strategy;
    const struct tpp_simulation_options *options;
    struct tpp_assembly assembly;
    struct tpp_gradient_traffic traffic[TPP_PARAMETERS_COUNT];
    struct tpp_arena *arena;
    struct tpp_graph *graph;
    struct tpp_order *order;
    uint32_t num_stages, num_replicas, num_devices, num_chunks, num_micro_batches;
    bool splits_backward, is_sharded;
    bool has_operations;            /* units have segments */
    bool is_always_in_detail;       /* every pass uses them, not only those beside gradients and gathers */
    double offload_seconds[TPP_PASS_COUNT]; /* exposed copies of activations to the host and back, of a pass */
    struct tpp_unit units[TPP_UNIT_COUNT];
    struct tpp_unit paired_moe;     /* TPP_UNIT_MOE in a forward and a backward pass that run together */
    struct tpp_chunk *chunks;
    struct tpp_op_tasks *ops;      /* [replica][chunk][micro-batch][pass]: tpp_build_op */
    struct tpp_vocabulary_tasks *vocabulary; /* [device][micro-batch], where the stages share vocabulary layers */
    uint32_t (*streams)[TPP_TRACK_COUNT]; /* by device; TPP_NO_TASK until used */
    struct tpp_build_route (*routes)[TPP_ROUTE_COUNT][TPP_COLLECTIVE_COUNT]; /* by device */
    struct tpp_group groups[TPP_ROUTE_GROUP_COUNT];
    struct tpp_resource *resources; /* healthy ones */
    uint32_t num_resources, num_leaves, num_domains;
    double send_seconds[2];         /* of a transfer between stages; [1]: through the spine */
    uint32_t *last_compute;         /* by device: latest task of its compute stream; TPP_NO_TASK */
    uint32_t *last_reduce;          /* by device: latest gradient transfer */
    uint32_t *before_head;          /* by device: end of the last layer of the latest forward pass */
    uint32_t *shared;               /* transfers of the first replica, for the others to join in the same order */
    uint32_t num_shared, max_shared, next_shared;
    struct tpp_held_gradients {     /* of the device that is being written (build_alignment.c) */
        struct tpp_held_chunk {
            uint32_t chunk;
            uint32_t since;         /* its last backward pass, counted over all passes of the device */
        } *chunks;                  /* in the order they were complete */
        uint32_t first, count;      /* those that are held */
        uint32_t num_backward;      /* passes written */
    } held;
    struct tpp_build_finish {       /* tasks whose times make up the result */
        uint32_t barrier, optimizer, end;
    } finish;
    const double *lengths;          /* [replica][micro-batch]: over the mean one's; NULL: all alike */
    uint64_t random;
    bool has_failed;               /* an allocation */
};

/* Parameters that a unit uses up or completes evenly over its compute: cuts it where a transfer of them has to be waited for or
 * leaves. */
struct tpp_meter {
    /* How much more of the unit may run, as a share of it; may write waits. INFINITY: all of it. */
    double (*until_cut)(void *context);
    void (*has_run)(void *context, double share);
    void *context;
};

/* One task after the other on a compute stream. Compute is collected until something has to be waited for, so that a pass
 * without anything to wait for is one event. */
struct tpp_pen {
    struct tpp_build *build;
    uint32_t device, micro_batch, chunk, layer;
    const char *name;
    bool in_detail;              /* units operation by operation */
    bool is_in_pair;             /* forward beside backward of another micro-batch */
    double length;               /* of the micro-batch over the mean one's: of its compute and of transfers in its layers */
    const struct tpp_meter *meter; /* of the unit that is being written; NULL: it is not cut */
    double unit_seconds;         /* its compute, factors not applied */
    double counted_seconds;      /* while is_counting */
    bool is_counting;            /* compute is counted, nothing is written */
    double pending_seconds;      /* collected, factors applied */
    double pending_compute;      /* of them, what transfers slow */
    uint32_t waits[8];           /* tasks the next one waits for */
    uint32_t num_waits;
    uint32_t first, last;        /* tasks written */
};
struct tpp_pen tpp_pen_start(struct tpp_build *build, uint32_t device, uint32_t chunk, uint32_t micro_batch,
                             const char *name);
/* Compute of the device (slow GPU and jitter apply), and time that passes on it whatever its speed. */
void tpp_pen_compute(struct tpp_pen *pen, double compute_seconds, double other_seconds);
/* What comes next waits for `task`. */
void tpp_pen_wait(struct tpp_pen *pen, uint32_t task);
/* Writes what was collected, an empty task when nothing was but something is waited for or nothing was written yet.
 * Returns the last task. */
uint32_t tpp_pen_flush(struct tpp_pen *pen);
/* FORWARD, BACKWARD or WEIGHT of a unit by itself. */
void tpp_pen_section(struct tpp_pen *pen, enum tpp_unit_kind kind, enum tpp_simulated_pass section);
/* A pass of a unit; BACKWARD begins with recomputation and ends with WEIGHT when the schedule does not split it. */
void tpp_pen_unit(struct tpp_pen *pen, enum tpp_unit_kind kind, enum tpp_simulated_pass pass);
/* The same, cut by the meter; all of the unit has run by the meter's account when it is written. */
void tpp_pen_metered_unit(struct tpp_pen *pen, enum tpp_unit_kind kind, enum tpp_simulated_pass pass,
                          const struct tpp_meter *meter);

/* Ranks that hold the same parameters of a part. */
const struct tpp_replicas *tpp_build_replicas(const struct tpp_build *build, enum tpp_parameter_part part);
uint32_t tpp_build_stream(struct tpp_build *build, uint32_t device, enum tpp_track track);
/* A transfer of `bytes` on its busiest link that takes `seconds` alone, `latency_seconds` of them latency. */
uint32_t tpp_build_transfer(struct tpp_build *build, uint32_t device, enum tpp_track track,
                            const struct tpp_build_route *route, double seconds, double latency_seconds, double bytes,
                            const struct tpp_graph_task *like);
struct tpp_op_tasks *tpp_build_op(struct tpp_build *build, uint32_t device, uint32_t chunk, uint32_t micro_batch,
                                  enum tpp_simulated_pass pass);

/* build_links.c: resources of all devices, groups; routes are made when first used. */
enum tpp_code tpp_build_links(struct tpp_build *build, struct tpp_error *err);
/* A collective of the device's group; alone it takes what tpp_collective_seconds says, or `seconds` when that is above 0.
 * `like` gives name, micro-batch, chunk and layer. */
uint32_t tpp_build_collective(struct tpp_build *build, uint32_t device, enum tpp_track track, enum tpp_route_kind kind,
                              enum tpp_collective collective, double bytes, double seconds,
                              const struct tpp_graph_task *like);
/* No time on a link: where all stages of a pipeline have to be. */
uint32_t tpp_build_meeting(struct tpp_build *build, uint32_t device, enum tpp_track track,
                           const struct tpp_graph_task *like);
/* A pass's result to a neighbour stage, and how long it takes alone. */
double tpp_build_send_seconds(const struct tpp_build *build, uint32_t stage, uint32_t other);
uint32_t tpp_build_send(struct tpp_build *build, uint32_t device, uint32_t to_stage, enum tpp_track track,
                        const struct tpp_graph_task *like);
/* Between the device and its host. */
uint32_t tpp_build_host_copy(struct tpp_build *build, uint32_t device, double bytes, const struct tpp_graph_task *like);
/* True when transfers inside layers share a link with gradients or parameters; *with_sends: with transfers between stages. */
bool tpp_build_layers_share_links(const struct tpp_build *build, bool *with_sends);

/* build_layer.c: units, and their segments. */
enum tpp_code tpp_build_units(struct tpp_build *build, struct tpp_error *err);

/* build_pipeline.c: all passes and the transfers between stages. */
enum tpp_code tpp_build_pipeline(struct tpp_build *build, struct tpp_error *err);
/* Units of the pen's chunk in the order of the pass, and how many. */
uint32_t tpp_pen_num_units(const struct tpp_pen *pen);
bool tpp_unit_is_layer(enum tpp_unit_kind kind);
/* Units of each kind on a chunk. */
void tpp_chunk_count_units(const struct tpp_chunk *chunk, double counts[TPP_UNIT_COUNT]);
enum tpp_unit_kind tpp_pen_unit_at(const struct tpp_pen *pen, enum tpp_simulated_pass pass, uint32_t index);

/* build_gradient.c: passes that fill gradient buckets or wait for gathered parameters (DDP, ZeRO-0 to 2). */
void tpp_build_gathered_forward(struct tpp_pen *pen);
void tpp_build_bucketed_pass(struct tpp_pen *pen, enum tpp_simulated_pass pass);
/* All buckets of a chunk, behind what the device has computed. */
void tpp_build_start_reductions(struct tpp_build *build, uint32_t device, uint32_t chunk);
/* A collective that all replicas of the stage take part in: the first replica makes it, the others join it. It starts after
 * `after` of each. */
uint32_t tpp_build_joint(struct tpp_build *build, uint32_t device, enum tpp_track track, enum tpp_route_kind kind,
                         enum tpp_collective collective, double bytes, double seconds,
                         const struct tpp_graph_task *like, uint32_t after);

/* build_alignment.c: when the stages of a Megatron pipeline start their reductions. True when the buckets of the stage do not
 * leave as they fill. */
bool tpp_build_holds_gradients(const struct tpp_build *build, uint32_t stage);
/* The device has written its next backward pass, `is_last` of the chunk; hands over what is due. */
void tpp_build_hold_gradients(struct tpp_build *build, uint32_t device, uint32_t chunk, bool is_last);
/* Its list is written: hands over what is left, and is ready for the next device. */
void tpp_build_release_gradients(struct tpp_build *build, uint32_t device);

/* build_sharded.c: passes of ZeRO-3 and FSDP. */
void tpp_build_sharded_forward(struct tpp_pen *pen);
void tpp_build_sharded_backward(struct tpp_pen *pen, enum tpp_simulated_pass pass);

/* build_vocabulary.c: passes S and T, and whom they wait for when all are written. */
void tpp_build_vocabulary_pass(struct tpp_pen *pen, enum tpp_simulated_pass pass);
void tpp_build_connect_vocabulary(struct tpp_build *build);

/* build_finish.c: from the last backward to the end of the step. */
void tpp_build_finish(struct tpp_build *build, const struct tpp_cost *cost);

#endif
