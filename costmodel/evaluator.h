/* evaluator.h - private to the evaluator: its state, the memo of measured layers, and the stages of one strategy. */
#ifndef TPP_COSTMODEL_EVALUATOR_H
#define TPP_COSTMODEL_EVALUATOR_H

#include "costmodel/evaluate.h"
#include "costmodel/flops.h"
#include "costmodel/interval.h"
#include "costmodel/layer.h"
#include "costmodel/memory_walk.h"
#include "costmodel/pipeline.h"
#include "costmodel/sharded_layer.h"
#include "costmodel/uneven_pipeline.h"

struct tpp_layer_key { /* compared field by field; no padding matters */
    struct tpp_layer_axes axes;
    bool tensor_comm_overlap, expert_overlap;
    uint32_t placed_tensor_ranks, placed_context_ranks;
    uint32_t waiting_ranks;       /* padded sequences: who waits for whom (sequence_lengths.h); 0 without */
    uint64_t waiting_micro_batches;
};

struct tpp_memo_entry {
    struct tpp_layer_key key;
    struct tpp_layer layer;
};

struct tpp_evaluator {
    const struct tpp_model *model;
    const struct tpp_hardware *hardware;
    const struct tpp_job *job;
    const struct tpp_stack *stack;
    struct tpp_links links;          /* of every group */
    struct tpp_links tensor_links;   /* of tensor-parallel groups (15.4) */
    double useful_tokens;            /* of one sequence, padding left out */
    struct tpp_flops forward_flops;  /* of those */
    struct tpp_interval interval;    /* what no strategy changes of it */
    struct tpp_program program;      /* scratch for a memo miss */
    struct tpp_memo_entry **slots;   /* open addressing; a power of two of them */
    uint32_t num_slots, num_entries;
    struct tpp_uneven_cache *uneven; /* NULL until used */
};

/* Schedules that pair a forward with a backward pass (tpp_schedule_pairs_passes) hide transfers of experts in the pairs. */
enum tpp_layer_passes { TPP_PASSES_ALONE, TPP_PASSES_PAIRED };

/* Layer of `kind` for the strategy, from the memo; NULL when out of memory. Valid as long as the evaluator. */
const struct tpp_layer *tpp_evaluator_layer(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                            enum tpp_layer_kind kind, enum tpp_layer_passes passes);

/* The program of the layer and what times it, for a reader of single operations. Valid until the evaluator is used again. */
const struct tpp_program *tpp_evaluator_program(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                                enum tpp_layer_kind kind, enum tpp_layer_passes passes,
                                                struct tpp_timing *timing);

/* The parts of one strategy that all stages share. */
struct tpp_assembly {
    const struct tpp_layer *decoder, *moe, *embedding, *head; /* moe: NULL for a dense model */
    const struct tpp_layer *paired_moe; /* moe in a pair of passes; NULL where pairs hide nothing */
    double paired_fraction;          /* of the passes of a stage in the middle, those that run in pairs */
    struct tpp_replicas replicas, expert_replicas;
    bool is_sharded;                 /* ZeRO-3/FSDP: parameters are gathered layer by layer */
    struct tpp_sharded_layer sharded; /* of one decoder layer */
    struct tpp_sharded_ends ends[2][2]; /* [with the embedding][with the head] */
    double vocabulary_send_seconds;  /* vocabulary parallelism: all its transfers of one micro-batch */
    double send_seconds;             /* one transfer between stages, the slowest; 0 with one stage */
    double send_device_fraction;     /* device time of an exchange over it: 1, 2; below 1 it runs beside compute */
    double edge_seconds;             /* then: how long it is on the way; else 0, it starts when the receiver is free */
};

enum tpp_code tpp_assemble(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                           struct tpp_assembly *assembly, struct tpp_error *err);

/* One transfer of a micro-batch's activations to a neighbour stage, 7 "PP": bytes of a rank, whether any rank's way from one
 * stage to the other leaves a leaf switch, and seconds. */
double tpp_stage_send_bytes(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                            const struct tpp_assembly *assembly);
bool tpp_stages_leave_leaf(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy, uint32_t lower,
                           uint32_t upper);
double tpp_stage_send_seconds(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                              const struct tpp_assembly *assembly, bool leaves_leaf);

/* Vocabulary parallelism, for each micro-batch over the ranks of a pipeline: the head's input from the last stage to all,
 * three all-reduces of 4n bytes for the loss, the all-reduce of the input's gradient, that of the embedding's output, and
 * the gradient of it from the first stage. A ring passes a broadcast on as it passes an all-gather. Where they have streams
 * of their own, the head's input travels in fp32 with a column more (vocab_parallel_schedule.py). */
#define TPP_VOCABULARY_LOSS_REDUCTIONS 3
struct tpp_vocabulary_transfers {
    struct tpp_group group;                        /* of a pipeline's stages */
    double input_bytes, loss_bytes, hidden_bytes;  /* the head's input; one reduction of the loss; everything else */
};
struct tpp_vocabulary_transfers tpp_vocabulary_transfers(const struct tpp_evaluator *evaluator,
                                                         const struct tpp_strategy *strategy,
                                                         const struct tpp_assembly *assembly);
/* What F and B of a stage whose own layers run for `layers_seconds` take longer beside them; 0 where nothing runs beside. */
double tpp_vocabulary_slowdown_seconds(const struct tpp_strategy *strategy, double layers_seconds);
/* Seconds of the passes S and T of a stage's share of embedding and head (schedules/vocabulary_order.c), and which of the two
 * holds a section: S the head's forward, with one barrier its input gradient too, and the embedding's forward for a micro-batch
 * to come; T the rest; interlaced S all. */
void tpp_vocabulary_pass_seconds(const struct tpp_strategy *strategy, const struct tpp_assembly *assembly,
                                 double seconds[2]);
bool tpp_is_in_second_vocabulary_pass(const struct tpp_strategy *strategy, bool is_head, enum tpp_section section);

/* What the traffic of sharded parameters adds to the passes of a chunk; 0 where nothing is sharded. */
struct tpp_sharding_extra {
    double forward_seconds, backward_seconds;
};
struct tpp_sharding_extra tpp_sharding_extra(const struct tpp_assembly *assembly, double num_layers, bool has_embedding,
                                             bool has_head);

/* Decoder layers on all chunks of a stage, and how many of them have experts. */
struct tpp_stage_layers {
    uint32_t total, moe;
};
struct tpp_stage_layers tpp_stage_layers(const struct tpp_strategy *strategy, const struct tpp_model *model,
                                         uint32_t index);

struct tpp_stage {
    double num_layers, recomputed_layers;
    double pass_fraction;            /* of the micro-batches that pass a layer: half of them where the model is there twice */
    double moe_layers;               /* of num_layers */
    struct tpp_layer blend;          /* of its dense and MoE layers, when it has both */
    bool is_first, is_last;
    bool has_embedding, has_head;    /* its share of them, with vocabulary parallelism */
    double vocabulary_seconds;       /* part of seconds: what runs beside forward and backward of the stage's own layers */
    double vocabulary_exposed_seconds, vocabulary_accumulate_seconds; /* parts of that: what their transfers take; their part
                                                                         of accumulate_seconds */
    double forward_seconds, backward_seconds, recompute_seconds; /* of one micro-batch, communication included */
    double weight_seconds;           /* part of backward_seconds: gradients of weights */
    double send_seconds;             /* device time of its transfers */
    double accumulate_seconds;       /* gradients added to those of earlier micro-batches; part of backward_seconds */
    double sharding_seconds;         /* traffic of sharded parameters; part of forward_ and backward_seconds */
    double offload_seconds[2];       /* exposed copies of activations to the host and back; part of forward_, backward_seconds */
    double hidden_seconds;           /* what a micro-batch saves all of whose passes run in pairs */
    double hidden_recompute_seconds; /* part of it: in the forward that is run again */
    double seconds;                  /* forward, backward, recompute and send, without what is hidden */
    double parameters, trainable_parameters, expert_parameters, num_parameter_tensors;
    double linear_parameters;        /* of the trainable ones, in linears of decoder layers */
};

/* What one layer of the stage costs. */
const struct tpp_layer *tpp_stage_layer(const struct tpp_assembly *assembly, const struct tpp_stage *stage);
/* What the passes of `moe_layers` layers save in pairs, where pairs hide something: transfers of experts in them and in the
 * forward that is run again in backward, of `recomputed_fraction` of the layers. */
struct tpp_hidden_in_pairs {
    double forward_seconds, backward_seconds, recompute_seconds;
};
struct tpp_hidden_in_pairs tpp_hidden_in_pairs(const struct tpp_assembly *assembly, double moe_layers,
                                               double recomputed_fraction);
/* True when the first and the last stage sum the gradient of a tied embedding: each has a copy of its own. */
bool tpp_stages_sum_embedding(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy);
void tpp_stage_time(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                    const struct tpp_assembly *assembly, uint32_t index, struct tpp_stage_layers layers,
                    struct tpp_stage *stage);
/* Adds what `seconds` of the stage consist of, `micro_batches` times, to the leaves of the time tree. */
void tpp_stage_terms(const struct tpp_assembly *assembly, const struct tpp_stage *stage, double micro_batches,
                     double terms[TPP_TIME_TERM_COUNT]);
/* Memory of one rank of the stage, without the verdict. */
void tpp_stage_memory(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                      const struct tpp_assembly *assembly, const struct tpp_stage *stage, uint32_t index,
                      struct tpp_memory *memory);
/* What one micro-batch keeps for backward on all decoder layers of the stage. */
double tpp_stage_micro_batch_bytes(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                   const struct tpp_assembly *assembly, const struct tpp_stage *stage, uint32_t index);

#endif
