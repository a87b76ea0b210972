/* job.h - what is to be trained: sequence, batch, precision, task. Plain values; tpp_job_check says what is wrong. */
#ifndef TPP_COSTMODEL_JOB_H
#define TPP_COSTMODEL_JOB_H

#include "costmodel/base/error.h"
#include "costmodel/model/model.h"

#include <stdbool.h>
#include <stdint.h>

/* FP8: one scale a tensor (delayed or current scaling of Transformer Engine). FP8_BLOCK: DeepSeek's 1 x 128 and 128 x 128
 * blocks. MXFP8: one scale for 32 elements, in the tensor cores of Blackwell. */
enum tpp_precision {
    TPP_PRECISION_BF16,
    TPP_PRECISION_FP16,
    TPP_PRECISION_FP32,
    TPP_PRECISION_FP8,
    TPP_PRECISION_FP8_BLOCK,
    TPP_PRECISION_MXFP8,
};
enum tpp_task { TPP_TASK_PRETRAIN, TPP_TASK_SFT, TPP_TASK_LORA, TPP_TASK_QLORA };
/* Linear layers that carry adapters (LoRA, QLoRA). */
enum tpp_lora_targets { TPP_LORA_ALL_LINEAR, TPP_LORA_ATTENTION /* q,k,v,o */, TPP_LORA_QKV, TPP_LORA_QV };

/* AdamW with moments in fp32; in bf16 (Megatron's precision-aware optimizer); in 8 bits, scaled by block (bitsandbytes). */
enum tpp_optimizer { TPP_OPTIMIZER_ADAMW, TPP_OPTIMIZER_ADAMW_BF16, TPP_OPTIMIZER_ADAMW_8BIT };
/* What gradients are summed and sent in: the engine's own choice, or stated. */
enum tpp_gradient_type { TPP_GRADIENT_DEFAULT, TPP_GRADIENT_FP32, TPP_GRADIENT_BF16 };

/* Nothing larger exists; the limits also keep every product of sizes far from overflow. */
#define TPP_JOB_MAX_GPUS 1048576                 /* 2^20 */
#define TPP_JOB_MAX_SEQUENCE_LENGTH 134217728    /* 2^27 */
#define TPP_JOB_MAX_GLOBAL_BATCH_SIZE 2147483648 /* 2^31 */

/* The fullest rank's tokens over the average when the experts lie on so many ranks. */
struct tpp_expert_split {
    uint32_t ranks;
    double imbalance;
};
#define TPP_JOB_MAX_EXPERT_SPLITS 64
/* Equally likely lengths that stand for a distribution: parts of 1/2 to 1/6, 1/8, 1/10, 1/12 come out exactly. */
#define TPP_JOB_LENGTHS 480

struct tpp_job {
    uint32_t num_gpus;             /* N, world size: 1 .. TPP_JOB_MAX_GPUS */
    uint64_t sequence_length;      /* s, tokens: 1 .. TPP_JOB_MAX_SEQUENCE_LENGTH */
    uint64_t global_batch_size;    /* sequences a step: 1 .. TPP_JOB_MAX_GLOBAL_BATCH_SIZE */
    enum tpp_precision precision;  /* of the GEMMs; FP8: everything but the head, the rest as bf16 */
    enum tpp_task task;
    enum tpp_optimizer optimizer;
    enum tpp_gradient_type gradient_type;
    uint32_t lora_rank;            /* 1 .. 4096, for TPP_TASK_LORA and TPP_TASK_QLORA */
    enum tpp_lora_targets lora_targets;
    double lora_dropout;           /* of the adapters' inputs */
    double hidden_dropout;         /* 0 .. 1; only whether it is on matters, here and below */
    double attention_dropout;
    double expert_imbalance;       /* rows of the fullest expert rank over the average: 1 (balanced) .. 100 */
    uint32_t num_expert_splits;    /* of expert_splits; 0: expert_imbalance holds for any expert-parallel size */
    struct tpp_expert_split expert_splits[TPP_JOB_MAX_EXPERT_SPLITS]; /* from measured counts (expert_load.h) */
    double expert_capacity_factor; /* rows an expert can take over the average, padded to it and the rest dropped; 0: none
                                      is dropped; otherwise up to 100 */
    uint32_t mtp_num_layers;       /* multi-token-prediction blocks that train with the model: 0 .. TPP_MODEL_MAX_MTP_LAYERS */
    uint32_t num_lengths;          /* TPP_JOB_LENGTHS, of `lengths`; 0: every sequence has sequence_length tokens */
    double lengths[TPP_JOB_LENGTHS]; /* of sequences before padding or packing, rising: 1 .. sequence_length (sequence_lengths.h) */
    double packed_fraction;        /* with lengths: of packed sequences, tokens that are no padding; 0: not packed, padded to the
                                      longest of a micro-batch */
    uint64_t attention_block_length; /* packed documents with a block-diagonal mask: tokens a document; 0 = whole sequence */
};

/* bf16, pretrain, no dropout, rank 16 on all linears; sizes 0. */
struct tpp_job tpp_job_defaults(void);
enum tpp_code tpp_job_check(const struct tpp_job *job, const struct tpp_model *model, struct tpp_error *err);
/* Rows of the fullest of `expert_parallel` ranks over the average: of its split, or expert_imbalance where there is none. */
double tpp_job_expert_imbalance(const struct tpp_job *job, uint32_t expert_parallel);
bool tpp_job_is_adapter(const struct tpp_job *job); /* LoRA or QLoRA */

/* 8-bit products, of whatever scaling. */
bool tpp_precision_is_fp8(enum tpp_precision precision);

const char *tpp_precision_name(enum tpp_precision precision); /* "bf16", "fp16", "fp32", "fp8", "fp8-block", "mxfp8" */
const char *tpp_task_name(enum tpp_task task);                /* "pretrain", "sft", "lora", "qlora" */
const char *tpp_optimizer_name(enum tpp_optimizer optimizer); /* "adamw", "adamw-bf16", "adamw-8bit" */
const char *tpp_gradient_type_name(enum tpp_gradient_type type); /* "default", "fp32", "bf16" */
/* Inverse of the names above; false when there is none. */
bool tpp_precision_parse(const char *text, enum tpp_precision *out);
bool tpp_task_parse(const char *text, enum tpp_task *out);
bool tpp_optimizer_parse(const char *text, enum tpp_optimizer *out);

#endif
