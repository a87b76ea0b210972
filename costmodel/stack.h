/* stack.h - the software that runs the job, as far as it changes time or memory (cost-model section 15.1).
 *
 * The same configuration moves by tens of percent between stacks, so every field is an input with a default by framework
 * and a source; none is ever set for one published row. */
#ifndef TPP_COSTMODEL_STACK_H
#define TPP_COSTMODEL_STACK_H

#include "costmodel/base/error.h"
#include "costmodel/job.h"
#include "hwprofiles/hardware.h"

#include <stdbool.h>
#include <stdint.h>

enum tpp_framework {
    TPP_FRAMEWORK_MEGATRON_LM,
    TPP_FRAMEWORK_MEGATRON_DEEPSPEED,
    TPP_FRAMEWORK_NEMO,            /* NeMo and Megatron-Bridge: Megatron-Core with Transformer Engine */
    TPP_FRAMEWORK_MS_SWIFT,        /* megatron side of ms-swift */
    TPP_FRAMEWORK_TORCHTITAN,      /* FSDP2, torch.compile */
    TPP_FRAMEWORK_LLM_FOUNDRY,     /* Composer, FSDP1 */
    TPP_FRAMEWORK_HF_TRAINER,      /* transformers Trainer alone, with DeepSpeed or with FSDP */
    TPP_FRAMEWORK_NANOTRON,
    TPP_FRAMEWORK_OTHER,           /* plain PyTorch tensor and pipeline parallelism */
    TPP_FRAMEWORK_COUNT,
};

enum tpp_engine {
    TPP_ENGINE_MEGATRON,           /* DDP with contiguous main-gradient buffers, distributed optimizer */
    TPP_ENGINE_DEEPSPEED,          /* ZeRO 0..3 */
    TPP_ENGINE_DEEPSPEED_PIPELINE, /* DeepSpeed's pipeline engine: ZeRO 0, 1 */
    TPP_ENGINE_FSDP1,              /* PyTorch FullyShardedDataParallel */
    TPP_ENGINE_FSDP2,              /* fully_shard; also Megatron's use of it */
    TPP_ENGINE_DDP,                /* PyTorch DistributedDataParallel, or a single GPU */
    TPP_ENGINE_COUNT,
};

enum tpp_kernel_style { TPP_KERNEL_FUSED, TPP_KERNEL_EAGER };
enum tpp_lm_head_output { TPP_LM_HEAD_VOCABULARY_PARALLEL, TPP_LM_HEAD_GATHERED };
enum tpp_loss_kernel {
    TPP_LOSS_UNFUSED,      /* Megatron vocabulary-parallel cross entropy: 10 B a local logit at the peak */
    TPP_LOSS_FUSED,        /* TE / Triton, gradient in place: 2 B; in plain PyTorch stacks 4 or 8 B */
    TPP_LOSS_EAGER,        /* PyTorch float() + cross_entropy: 12 B in Hugging Face, 2 more with keeps_logits; torchtitan 12 B, split over
                              tensor-parallel ranks 16 B; else 14 B, gathered logits 18 B */
    TPP_LOSS_COMPILED,     /* 4 B; 9.5 B in Hugging Face, whose logits are fp32 */
    TPP_LOSS_FUSED_LINEAR, /* chunked together with the head: about 0 B */
};

/* Parts of a layer that CUDA graphs capture (Megatron-Core's --cuda-graph-scope). */
enum tpp_graph_part {
    TPP_GRAPH_ATTENTION = 1, /* attn */
    TPP_GRAPH_ROUTER = 2,    /* moe_router and moe_preprocess */
    TPP_GRAPH_MLP = 4,       /* mlp, or all of the experts behind the router */
};

/* Products of an FP8 job that are quantised: all but the head's, or of the linear layers or the experts alone, the others in 16
 * bits. torchao converts linears and grouped products apart (torchtitan's converters quantize.linear and quantize.grouped_mm). */
enum tpp_quantised { TPP_QUANTISED_ALL, TPP_QUANTISED_LINEARS, TPP_QUANTISED_EXPERTS };
/* torchao's rowwise recipes of FP8: one scale a row of each operand; with the weight gradient in 16 bits. */
enum tpp_row_scaling { TPP_ROW_SCALING_NONE, TPP_ROW_SCALING_ALL, TPP_ROW_SCALING_PLAIN_GRADIENT };

/* Host time of one launch with CUDA_LAUNCH_BLOCKING=1 [fit], 15.5. */
#define TPP_BLOCKING_LAUNCH_SECONDS 45e-6

struct tpp_stack {
    enum tpp_framework framework;
    char release[24];                 /* "0.14", "25.04"; "" = newest known */
    enum tpp_engine engine;
    enum tpp_attention_kernel attention;
    enum tpp_kernel_style norm_kernel, activation_kernel, rope_kernel;
    bool attention_bias;              /* flash attention gets a dense 16-bit mask of every head: the whole square is computed, and the mask made,
                                         read in both passes and kept (PaddleNLP with ALiBi) */
    bool softmax_in_place;            /* eager attention fills its mask into the fp32 scores (Aleph-Alpha/scaling) */
    bool recomputes_head;             /* full recomputation runs the final norm and the head again too, not the loss */
    enum tpp_loss_kernel loss_kernel;
    enum tpp_lm_head_output lm_head_output;
    bool keeps_logits;                /* Hugging Face: the 16-bit logits stay beside the loss's fp32 ones. Transformers since 4.46,
                                         loss/loss_utils.py, ForCausalLMLoss; before, the model itself cast them */
    bool loss_keeps_type;             /* Hugging Face: the model hands its 16-bit logits to cross entropy as they are, and no autocast
                                         widens them (GPTBigCodeForCausalLM) */
    bool peft_adapters;               /* those of PEFT: fp32 over 16-bit weights, which casts their inputs; outputs scaled */
    bool checkpoint_stops_early;      /* full recomputation ends with the last tensor that backward needs: torch.utils.checkpoint without
                                         reentrance since PyTorch 2.1 (pull request 96866) */
    bool upcasts_states;              /* hidden states are fp32 around quantised 16-bit products (peft's prepare_model_for_kbit_training;
                                         autocast's LayerNorm) */
    bool qkv_views;                   /* attention reads q, k and v where one product wrote them; their gradients are put together */
    double metric_logit_bytes;        /* traffic of metrics of the training loss, bytes a logit and micro-batch; 0: none */
    bool transformer_engine;          /* TE linears: dummy weight gradients, list (A) of 4.2 */
    bool tensor_parallel_async;       /* tp_async: backward all-reduce overlaps wgrad */
    bool tensor_parallel_other;       /* tp_stack = other: half the NVLink rate (15.4) */
    bool tensor_parallel_autograd;    /* every column-parallel linear reduces its own input gradient, and what sequence
                                         parallelism has gathered is kept for backward (Aleph-Alpha/scaling) */
    bool tensor_parallel_copies;      /* and copies its input, which is kept; q, k and v are three (Paddle's c_identity) */
    bool deterministic;               /* every sum has one order: backward of attention, and what PyTorch fills */
    uint32_t accumulator_blocks;      /* with it: blocks of threads that flash-attention 2 spreads the gradients of queries over */
    bool launch_blocking;             /* CUDA_LAUNCH_BLOCKING=1 (15.5) */
    bool synchronous_gather;          /* ZeRO-3 of DeepSpeed before 0.4.1: no overlap, copies, one parameter at a time */
    bool cuda_graphs;                 /* what they capture is launched ten times less */
    uint32_t graph_parts;             /* with cuda_graphs: TPP_GRAPH_* bits of what they capture; 0 = all */
    bool fused_router;                /* Megatron-Core's moe_router_fusion */
    bool waits_when_padded;           /* experts padded to a capacity are sorted and waited for as others are: Megatron-Core before 0.11 */
    bool fp8_attention;               /* MXFP8: products of attention too (Megatron-Core's fp8_dot_product_attention) */
    bool fp8_head;                    /* MXFP8: products of the output projection too (Megatron-Core's fp8_output_proj) */
    bool policy_repeats_attention;    /* torchtitan's selective policy does not save cuDNN's attention: before 0.2.1 (pull request 2095) */
    enum tpp_quantised quantised;
    enum tpp_row_scaling row_scaling;
    bool current_scaling;             /* FP8 with one scale a tensor: the scale is that of the tensor itself, not of earlier ones */
    double memory_bound_factor;       /* U of 5.3: 1.05 TE and compiled, 1.2 Megatron local, 1.25 eager */
    uint32_t weight_bytes;            /* of one weight in compute: 2; 4 for fp32 */
    uint32_t shard_weight_bytes;      /* of one stored (sharded) weight with FSDP: 4, or 2 for pure bf16 */
    bool fp8_weights;                 /* FP8: linears of decoder layers have no 16-bit weights beside those that are multiplied
                                         (Megatron-Core's fp8_param_gather) */
    uint32_t gathered_linear_bytes;   /* of one weight of a decoder layer's linears when parameters are gathered: weight_bytes;
                                         1 with fp8_weights, but for MXFP8, which is gathered in 16 bits and quantised there */
    uint32_t gathered_rest_bytes;     /* of any other weight: weight_bytes; both are 4 where FSDP gathers fp32 and autocast casts each
                                         product's weight */
    uint32_t gradient_bytes;          /* of one stored gradient: 4 (Megatron bf16), 2 */
    uint32_t reduce_bytes;            /* of one gradient on the wire */
    bool fp32_accumulation;           /* DeepSpeed's bf16 optimizer: an fp32 sum beside the 16-bit gradients, sharded states
                                         even at ZeRO stage 0 (15.7) */
    enum tpp_optimizer optimizer;     /* the job's */
    double optimizer_bytes;           /* states a parameter, master weight included: 12, 16 (fp16), 8 (fp32), 4 (pure bf16) */
    double moment_bytes;              /* of the two moments, at most: 8, or less by the optimizer */
    uint32_t vocabulary_multiple;     /* padding: 128 in Megatron (times tp), 1 = none */
    bool scatter_gather;              /* p2p tensors are cut by tp without sequence parallelism too */
    bool broadcasts_parameters;       /* ZeRO-1 deals whole tensors out to ranks, whose broadcasts of them follow the step (InternEvo) */
    bool overlap_p2p;                 /* interleaved schedules overlap p2p */
    double nic_ring_efficiency_fraction; /* 0: the profile's */
    double nic_send_recv_efficiency_fraction; /* 0: the profile's */
    bool single_port_rings;           /* a ring enters and leaves a node through one port, however many there are */
    double fixed_seconds;             /* T_fixed of 5.4: 10 ms */
};

/* Defaults of a framework on a GPU for a job: kernels of its current release, engine, dtypes (by precision and task). */
void tpp_stack_defaults(enum tpp_framework framework, const struct tpp_gpu *gpu, const struct tpp_job *job,
                        struct tpp_stack *stack);
/* Another engine than the default, with what follows from it: dtypes, and in ms-swift with DeepSpeed (swift sft) the
 * layers of Transformers. */
void tpp_stack_set_engine(struct tpp_stack *stack, enum tpp_engine engine, const struct tpp_gpu *gpu,
                          const struct tpp_job *job);
/* Bytes of both moments of bitsandbytes' 8-bit AdamW: a byte each, and an fp32 scale for every 256 (optim/optimizer.py). Hugging
 * Face's Trainer leaves those of embeddings in fp32 (Trainer.create_optimizer: optim_bits of nn.Embedding is 32). */
#define TPP_ADAMW_8BIT_BYTES (2 + 2 * 4 / 256.0)

/* Another optimizer than AdamW, which the stack has: bytes of moments, and of master weights. Megatron-Core's precision-aware one
 * keeps remainders of bf16 weights (store_param_remainders, core/optimizer/optimizer_config.py). */
void tpp_stack_set_optimizer(struct tpp_stack *stack, enum tpp_optimizer optimizer);
/* Sums gradients in 2 or 4 bytes, and makes no fp32 copy of fp32 ones for the step. */
void tpp_stack_set_gradient_bytes(struct tpp_stack *stack, uint32_t gradient_bytes);
/* CUDA graphs of `parts` (TPP_GRAPH_* bits; 0 = whole layers). Experts that take any number of tokens, `dropless`, cannot be
 * captured (Megatron-Core's TransformerConfig: "moe cuda graph is only supported with drop-padding MoE"): of whole layers,
 * attention and router are. */
void tpp_stack_set_cuda_graphs(struct tpp_stack *stack, uint32_t parts, bool dropless);
/* Megatron's --deterministic-mode: Transformer Engine without nondeterministic algorithms (NVTE_ALLOW_NONDETERMINISTIC_ALGO=0) and
 * torch.use_deterministic_algorithms(True), which fills what torch.empty hands out. */
void tpp_stack_set_deterministic(struct tpp_stack *stack, const struct tpp_gpu *gpu);
/* Whether linears keep FP8 weights alone, and with it what gathers send of them; false for a job without FP8. */
void tpp_stack_set_fp8_weights(struct tpp_stack *stack, const struct tpp_job *job, bool fp8_weights);
/* Bytes of one weight of a decoder layer's linears while nothing of it is sharded: weight_bytes; NF4 with QLoRA. FP8 products
 * of Transformer Engine want it quantised along both of its dimensions, forward and for the input's gradient; with one scale
 * a tensor Blackwell takes one copy both ways (is_non_tn_fp8_gemm_supported in its pytorch/utils.py). Megatron-Core makes the
 * copies once a step and keeps them over the micro-batches (is_first_microbatch in extensions/transformer_engine.py): beside
 * the 16-bit weight, or instead of it with fp8_weights. */
double tpp_stack_linear_weight_bytes(const struct tpp_stack *stack, const struct tpp_gpu *gpu, const struct tpp_job *job);
/* Sets dtype-dependent bytes (weight, gradient, reduce, optimizer) again after engine, or anything of the job, was changed. */
void tpp_stack_set_dtypes(struct tpp_stack *stack, const struct tpp_job *job);
/* Bytes that one trained parameter takes, by what they are, before anything is sharded (cost-model 4.1). */
struct tpp_state_bytes {
    uint32_t weights;         /* stored: FSDP's shards are fp32 and their own master copy */
    uint32_t gradients;
    uint32_t master_weights;  /* fp32 beside 16-bit weights, or the half that these lack of it */
    uint32_t gradient_copies; /* fp32, of fp16 training and of DeepSpeed's ZeRO optimizer */
    double moments;           /* Adam's two: 8; 4 in bf16; 2 in 8 bits, with a scale a block */
};
struct tpp_state_bytes tpp_stack_state_bytes(const struct tpp_stack *stack);
/* Bits of one NF4 weight with double quantisation, over 8 [exact], E15: (4 + 8/64 + 32/(64*256)) / 8. */
#define TPP_NF4_BYTES ((4.0 + 8.0 / 64 + 32.0 / (64 * 256)) / 8)
/* Bytes on the wire when `parameters`, of them `linear` ones in linears of decoder layers, are gathered. */
double tpp_stack_gathered_bytes(const struct tpp_stack *stack, double parameters, double linear);
/* Likewise of a whole layer, frozen weights included: those that QLoRA quantised travel as they are stored. */
double tpp_stack_layer_gathered_bytes(const struct tpp_stack *stack, const struct tpp_job *job, double parameters,
                                      double linear);

/* Contradictions: an optimizer or a type of gradients that the framework or engine lacks, flash3 on a GPU without it (flash_forward_fraction 0), FP8 where the GPU has none, ... */
enum tpp_code tpp_stack_check(const struct tpp_stack *stack, const struct tpp_gpu *gpu, const struct tpp_job *job,
                              struct tpp_error *err);

const char *tpp_framework_name(enum tpp_framework framework); /* "megatron-lm", "megatron-deepspeed", "nemo", "ms-swift",
                                                                 "torchtitan", "llm-foundry", "hf-trainer", "nanotron", "other" */
/* One of those names, "megatron-bridge" (nemo), or "accelerate": the Trainer, whose default engine is FSDP. */
bool tpp_framework_parse(const char *text, enum tpp_framework *out);
/* Engines that a framework can run with; TPP_FRAMEWORK_OTHER takes any. */
bool tpp_framework_has_engine(enum tpp_framework framework, enum tpp_engine engine);
const char *tpp_engine_name(enum tpp_engine engine); /* "megatron", "deepspeed", "deepspeed-pipeline", "fsdp1", "fsdp2", "ddp" */
bool tpp_engine_parse(const char *text, enum tpp_engine *out);
bool tpp_attention_kernel_parse(const char *text, enum tpp_attention_kernel *out);
/* Megatron-DeepSpeed: norms are apex's, but its SwiGLU is torch.chunk, F.silu and a product, its rotary embedding PyTorch's operations,
 * and keys and values are repeated for all query heads before it (megatron/model/transformer.py, rotary_pos_embedding.py). A
 * GELU is one kernel there too. */
bool tpp_framework_is_eager_between_products(enum tpp_framework framework);
bool tpp_engine_is_fsdp(enum tpp_engine engine);
bool tpp_engine_is_deepspeed(enum tpp_engine engine); /* its pipeline engine included */
/* Layers of plain PyTorch modules under autograd, not Megatron's (15.8, 15.9): Hugging Face, llm-foundry, other. */
bool tpp_stack_is_plain_torch(const struct tpp_stack *stack);

#endif
