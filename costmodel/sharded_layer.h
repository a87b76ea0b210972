/* sharded_layer.h - ZeRO-3 and FSDP: the traffic of sharded parameters layer by layer (cost-model 9.2).
 *
 * A layer's weights are gathered one layer ahead, in backward again; its gradients are reduced behind it, on the same
 * communicator (over the replicas of a shard on a stream of their own). A pass over n layers ends when compute or transfers do,
 * whichever takes longer:
 *
 *     forward   max(G + n F, n G + f)
 *     backward  max(G - h + n B + R, n (G + R) - h + rest(G) + rest(R)),    rest(t) = max(0, b - t (1 - sigma))
 *
 * F, B one layer's compute with the slow-down by what travels beside it (9.3) and the copies out of the flat buffers, f, b without
 * the slow-down, G its gather, R its reduction, h what of the first gather the head hides. Where transfers bind they wait twice: the
 * first reduction for the first layer, beside which only the second gather runs (and the head's reduction), and the last one for the
 * last layer, beside which only the reduction before it does. (9.2 adds the copies to transfers that they run beside, and one exposed
 * gather and reduction to passes that transfers bind.) The ends of the model, which are one unit, or a unit each with FSDP2, are
 * gathered before the pass; their gradients leave last, but the head's of FSDP2 first.
 *
 * Pure. Checked by tests/unit/test_sharded_layer.c, and against the simulated step by tests/property/property_simulation.c. */
#ifndef TPP_COSTMODEL_SHARDED_LAYER_H
#define TPP_COSTMODEL_SHARDED_LAYER_H

#include "costmodel/data_parallel.h"

/* Seconds that HBM copies take on the GPU: of what was gathered (`gathered_bytes` on the wire), and of the gradients of `elements`
 * parameters before they are reduced, casts included. In 16-bit training with fp32 shards on n ranks, bytes a parameter:
 *
 *                          gathered    gradients reduced in 16 bits    in fp32
 *     FSDP1                6 / n       4                               4 + 6
 *     FSDP2                4           4                               6
 *     DeepSpeed            4           4                               4
 */
double tpp_gather_copy_seconds(const struct tpp_gpu *gpu, const struct tpp_stack *stack, const struct tpp_replicas *replicas,
                               double gathered_bytes);
double tpp_gradient_copy_seconds(const struct tpp_gpu *gpu, const struct tpp_stack *stack, const struct tpp_replicas *replicas,
                                 double elements);

struct tpp_sharded_work { /* of one layer and one micro-batch */
    double gathered_bytes, reduced_parameters;
    double forward_seconds, backward_seconds;                   /* the latter with recomputation */
    double forward_transfer_seconds, backward_transfer_seconds; /* of them, transfers of its own: others do not slow them */
};

struct tpp_sharded_layer {
    double alone_seconds[2];               /* as given: forward, backward */
    double compute_seconds[2];             /* F, B */
    double unslowed_seconds[2];            /* f, b */
    double slowdown;                       /* backward: sigma of the share that others slow */
    double gather_seconds[2];              /* G; 0 in backward when the weights stay */
    double reduce_seconds;                 /* R on the communicator of the gathers */
    double replicate_seconds;              /* HSDP: all-reduce of the shard over its replicas */
    double layer_elements, bucket_elements; /* reduced; DeepSpeed: a bucket, 0 elsewhere: a layer */
    bool is_synchronous;                   /* nothing runs beside anything */
};
struct tpp_sharded_layer tpp_sharded_layer_time(const struct tpp_hardware *hardware, const struct tpp_links *links,
                                                const struct tpp_stack *stack, const struct tpp_strategy *strategy,
                                                const struct tpp_replicas *replicas, const struct tpp_sharded_work *work);

/* Embedding and head, as far as they are on the layers' chunk; all 0 without. */
struct tpp_sharded_ends {
    double gather_seconds;        /* before the forward pass */
    double first_reduce_seconds, last_reduce_seconds; /* before and behind the layers' */
    double reduced_elements;
    double head_seconds;          /* compute that hides the first gather of the backward pass */
};
struct tpp_sharded_ends tpp_sharded_ends_time(const struct tpp_links *links, const struct tpp_stack *stack,
                                              const struct tpp_strategy *strategy, const struct tpp_replicas *replicas,
                                              double embedding_parameters, double head_parameters, double head_seconds);

/* What the traffic adds to the passes of `num_layers` layers alone. */
double tpp_sharded_forward_extra_seconds(const struct tpp_sharded_layer *layer, const struct tpp_sharded_ends *ends,
                                         double num_layers);
double tpp_sharded_backward_extra_seconds(const struct tpp_sharded_layer *layer, const struct tpp_sharded_ends *ends,
                                          double num_layers);

#endif
