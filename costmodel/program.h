/* program.h - the layer program: what one layer of one kind does for one micro-batch on one rank, described once.
 *
 * An ordered list of operations (GEMMs, attention, memory-bound kernels, collectives) in sections, and the tensors they
 * allocate, keep for backward and free. The timer (layer.h), the memory walk (memory_walk.h) and the explainer read
 * it; nobody else has formulas of their own. A program depends on the axes below, the model, the job and the stack only:
 * not on the data- or pipeline-parallel size, nor on the hardware. */
#ifndef TPP_COSTMODEL_PROGRAM_H
#define TPP_COSTMODEL_PROGRAM_H

#include "costmodel/collective_time.h"
#include "costmodel/job.h"
#include "costmodel/kernel_time.h"
#include "costmodel/model/model.h"
#include "costmodel/stack.h"
#include "costmodel/strategy.h"
#include "hwprofiles/hardware.h"

#include <stdbool.h>
#include <stdint.h>

enum tpp_layer_kind {
    TPP_LAYER_DECODER, /* with the dense MLP */
    TPP_LAYER_MOE,     /* with experts */
    TPP_LAYER_EMBEDDING,
    TPP_LAYER_HEAD,
    TPP_LAYER_KIND_COUNT,
};

struct tpp_layer_axes {
    enum tpp_layer_kind kind;
    uint32_t tensor_parallel, context_parallel, ulysses_parallel, micro_batch_size;
    uint32_t expert_parallel, expert_tensor_parallel; /* MOE; 1 elsewhere */
    enum tpp_context_kind context_kind;
    bool sequence_parallel;
    enum tpp_dispatch dispatch;   /* MOE, and HEAD with MTP blocks; ALL_TO_ALL elsewhere */
    bool shared_overlap;          /* as dispatch; false elsewhere */
    uint32_t recompute_modules;   /* TPP_MODULE_* bits that selective recomputation runs again; 0: none */
    enum tpp_vocabulary_parallel vocabulary_parallel; /* EMBEDDING, HEAD; NONE elsewhere */
    uint32_t vocabulary_shards; /* EMBEDDING, HEAD: stages they are cut over; 0 and 1: not cut */
    bool untied_copy; /* HEAD: holds its own output matrix (untied, or tied with p > 1) */
};

enum tpp_section {
    TPP_SECTION_FORWARD,
    TPP_SECTION_BACKWARD, /* input gradients */
    TPP_SECTION_WEIGHT,   /* weight gradients */
    TPP_SECTION_COUNT,
};

enum tpp_op_kind {
    TPP_OP_GEMM,
    TPP_OP_GROUPED_GEMM,   /* one product for each expert of the rank */
    TPP_OP_FLASH_FORWARD,
    TPP_OP_FLASH_BACKWARD,
    TPP_OP_ATTENTION_GEMM, /* batched products of unfused attention */
    TPP_OP_MEMORY,         /* memory-bound kernel: bytes */
    TPP_OP_COMMUNICATION,
};

enum tpp_op_part {
    TPP_PART_LINEAR,
    TPP_PART_ATTENTION,
    TPP_PART_POINTWISE,
    TPP_PART_HEAD,
    TPP_PART_TENSOR,
    TPP_PART_CONTEXT,
    TPP_PART_EXPERT, /* dispatch and combine */
};

/* Groups a collective of a layer can run over. */
enum tpp_group_kind {
    TPP_GROUP_TENSOR,
    TPP_GROUP_CONTEXT,
    TPP_GROUP_ULYSSES,
    TPP_GROUP_EXPERT,
    TPP_GROUP_EXPERT_TENSOR,
};

#define TPP_NO_OP (-1)

struct tpp_op {
    const char *name;         /* static: "qkv forward" */
    enum tpp_op_kind kind;
    enum tpp_section section;
    enum tpp_op_part part;
    double count;             /* how many times it runs; ring steps are one op with count c-1 */
    struct tpp_gemm gemm;           /* GEMM; GROUPED_GEMM: of one expert, `batch` of them */
    struct tpp_attention attention; /* FLASH_*; ATTENTION_GEMM: shape of the scores */
    double bytes;             /* MEMORY: traffic; COMMUNICATION: full tensor (collective_time.h) */
    double kernels;           /* MEMORY: launches */
    uint32_t modules;         /* TPP_MODULE_* bits it belongs to: FORWARD ones run again when one is recomputed */
    double skipped_fraction;  /* FORWARD: of it that full recomputation leaves out (checkpoint_stops_early) */
    double repeated_fraction; /* of it that runs again with its modules: 1; less where it stands for several products */
    double rate_fraction;     /* MEMORY: share of the HBM rate that is reached; 0: the GPU's usual one */
    bool scaled;              /* MEMORY and unfused attention: time is multiplied by U of the stack */
    enum tpp_collective collective;
    enum tpp_group_kind group;
    struct tpp_token_dispatch dispatch; /* COMMUNICATION over EXPERT that is not an all-to-all; bytes 0: it is one */
    int hidden_behind;        /* COMMUNICATION: index of the op it overlaps with, or TPP_NO_OP: fully exposed */
    uint32_t num_hiding;      /* so many in a row from there on, none of them a transfer; 0: that one */
    bool each_step;           /* ring: hides behind one run of that op at a time */
};

enum tpp_tensor_life {
    TPP_TENSOR_INPUT,         /* kept for backward even when the whole layer is recomputed */
    TPP_TENSOR_SAVED,         /* kept for backward unless the layer is recomputed */
    TPP_TENSOR_EAGER,         /* the same; only because a kernel is not fused (15.9) */
    TPP_TENSOR_REPEATED,      /* the same; belongs to a module that selective recomputation runs again */
    TPP_TENSOR_SELECTED,      /* the same; kept by torchtitan's selective policy */
    TPP_TENSOR_BACKWARD_MLP,  /* alive during backward of the MLP */
    TPP_TENSOR_BACKWARD_ATTENTION, /* alive during backward of attention */
    TPP_TENSOR_LOSS,          /* alive at the loss */
    TPP_TENSOR_DUMMY,         /* one for each distinct weight shape, for good (Transformer Engine) */
    TPP_TENSOR_LIFE_COUNT,
};

struct tpp_tensor {
    const char *name;
    enum tpp_tensor_life life;
    double bytes;
};

#define TPP_PROGRAM_MAX_OPS 160
#define TPP_PROGRAM_MAX_TENSORS 64

struct tpp_program {
    struct tpp_layer_axes axes;
    uint32_t num_ops, num_tensors;
    struct tpp_op ops[TPP_PROGRAM_MAX_OPS];
    struct tpp_tensor tensors[TPP_PROGRAM_MAX_TENSORS];
    double tokens;             /* n = b s / c */
    /* Parameters of one rank, elements. */
    double parameters;         /* weights held: sharded ones divided by t, replicated ones whole */
    double vocabulary_parameters; /* of them in the output matrix and its bias (HEAD) */
    double linear_parameters;  /* of them in linear layers (quantised by QLoRA) */
    double expert_parameters;  /* of them in routed experts: their states are sharded over other ranks (2.5) */
    double trainable_parameters; /* == parameters, or the adapters' (LoRA) */
    double num_tensors_of_parameters; /* separate weight tensors, for launch-bound optimizers */
    /* What the host does, of what CUDA graphs capture a tenth (5.5): operations of Megatron's Python layers, and launches
     * without them, which one call makes for all experts, or plain PyTorch's. */
    double forward_operations, backward_operations;
    double forward_launches, backward_launches;
};

/* Fills *program. Inputs were checked (tpp_model_check, tpp_strategy_check). Sources: cost-model 2.1-2.3
 * (parameters), 4.2 (tensors), 5.1-5.3 and 15.2-15.3 (ops), 7 (collectives). */
void tpp_program_build(const struct tpp_model *model, const struct tpp_job *job, const struct tpp_stack *stack,
                       const struct tpp_layer_axes *axes, struct tpp_program *program);

/* V padded as section 2.4 says [exact]: E18. */
uint64_t tpp_padded_vocabulary(uint64_t vocab_size, uint32_t multiple, uint32_t tensor_parallel);

#endif
