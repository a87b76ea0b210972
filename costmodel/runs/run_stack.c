#include "costmodel/runs/run_stack.h"

#include "costmodel/runs/run_recipe.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* FlashAttention-2 was released in July 2023; what calls itself "flash attention" before is the first generation. */
#define FLASH2_YEAR 2024
/* Megatron-LM overlaps the backward all-reduce with the weight gradient since October 2021. */
#define TENSOR_ASYNC_YEAR 2022
/* Transformer Engine is the default implementation of Megatron-Core layers since core 0.7 (2024) and keeps its dummy
 * weight gradients; before, --use-flash-attn names the local layers. */
#define TRANSFORMER_ENGINE_YEAR 2025
/* Checkpoints without reentrance end early since PyTorch 2.1 of October 2023. */
#define EARLY_STOP_YEAR 2024
/* NeMo 2's FP8 recipe keeps parameters in FP8 (fp8_params); the scripts of NeMo-Framework-Launcher before it set fp8 and
 * fp8_hybrid alone (examples/training/llama/h100/llama2_13b_fp8.sh). */
#define FP8_PARAMETERS_YEAR 2025

static bool framework_has(const struct tpp_run_facts *facts, const char *word)
{
    return tpp_run_mentions(facts->framework, word);
}

static bool notes_have(const struct tpp_run_facts *facts, const char *word)
{
    return tpp_run_mentions(facts->notes, word);
}

enum tpp_framework tpp_run_framework(const struct tpp_run_facts *facts)
{
    static const struct {
        const char *word;
        enum tpp_framework framework;
    } names[] = {
        /* first match wins: "Megatron-LM / NeMo" is NeMo, "NeMo AutoModel" is Hugging Face models */
        {"torchtitan", TPP_FRAMEWORK_TORCHTITAN},
        {"foundry", TPP_FRAMEWORK_LLM_FOUNDRY},
        {"Composer", TPP_FRAMEWORK_LLM_FOUNDRY},
        {"Megatron-DeepSpeed", TPP_FRAMEWORK_MEGATRON_DEEPSPEED},
        {"AutoModel", TPP_FRAMEWORK_HF_TRAINER},
        {"NeMo", TPP_FRAMEWORK_NEMO},
        {"Megatron-Bridge", TPP_FRAMEWORK_NEMO},
        {"HF Trainer", TPP_FRAMEWORK_HF_TRAINER},
        {"swift", TPP_FRAMEWORK_MS_SWIFT},
        {"Megatron", TPP_FRAMEWORK_MEGATRON_LM},
        {"OneFlow", TPP_FRAMEWORK_MEGATRON_LM}, /* its GPT has Megatron's cuts, split loss and fused kernels */
        {"nanotron", TPP_FRAMEWORK_NANOTRON},
        {"HF", TPP_FRAMEWORK_HF_TRAINER},
        {"Hugging", TPP_FRAMEWORK_HF_TRAINER},
        {"transformers", TPP_FRAMEWORK_HF_TRAINER},
        {"xtuner", TPP_FRAMEWORK_HF_TRAINER},
        {"torchtune", TPP_FRAMEWORK_HF_TRAINER},
        {"litgpt", TPP_FRAMEWORK_HF_TRAINER},
        {"PEFT", TPP_FRAMEWORK_HF_TRAINER},
        {"DeepSpeed", TPP_FRAMEWORK_MEGATRON_DEEPSPEED}, /* without HF: ZeRO on Megatron's layers (SC'21 table 2) */
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (framework_has(facts, names[i].word))
            return names[i].framework;
    return TPP_FRAMEWORK_OTHER;
}

static bool has_shards(const struct tpp_run_facts *facts)
{
    return (facts->parallel.has_zero_stage && facts->parallel.zero_stage > 0) ||
           facts->parallel.distributed_optimizer == TPP_RUN_YES;
}

static enum tpp_engine plain_torch_engine(const struct tpp_run_facts *facts)
{
    if (framework_has(facts, "DeepSpeed") || notes_have(facts, "ds_config"))
        return TPP_ENGINE_DEEPSPEED;
    if (framework_has(facts, "FSDP2") || framework_has(facts, "AutoModel") ||
        (framework_has(facts, "torchtune") && facts->parallel.fsdp == TPP_RUN_YES))
        return TPP_ENGINE_FSDP2;
    if (facts->parallel.fsdp == TPP_RUN_YES)
        return TPP_ENGINE_FSDP1;
    return has_shards(facts) ? TPP_ENGINE_DEEPSPEED : TPP_ENGINE_DDP;
}

/* Megatron-DeepSpeed: the pipeline engine runs ZeRO 0 and 1, also on a single stage, unless the source switched it off
 * (S20:
 * "--no-pipeline-parallel"). Without ZeRO the plain engine's bf16 optimizer is the pipeline engine's: fp32
 * accumulation, states sharded over dp (15.7). */
static enum tpp_engine megatron_deepspeed_engine(const struct tpp_run_facts *facts)
{
    const bool has_bf16_optimizer = facts->parallel.zero_stage == 0 && strcmp(facts->precision, "bf16") == 0;
    if (facts->parallel.zero_stage >= 2 || (framework_has(facts, "no-pipeline") && !has_bf16_optimizer))
        return TPP_ENGINE_DEEPSPEED;
    return TPP_ENGINE_DEEPSPEED_PIPELINE;
}

enum tpp_engine tpp_run_engine(const struct tpp_run_facts *facts)
{
    switch (tpp_run_framework(facts)) {
    case TPP_FRAMEWORK_MEGATRON_LM:
    case TPP_FRAMEWORK_NEMO:
    case TPP_FRAMEWORK_MS_SWIFT:
    case TPP_FRAMEWORK_NANOTRON:
        return facts->parallel.fsdp == TPP_RUN_YES ? TPP_ENGINE_FSDP2 : TPP_ENGINE_MEGATRON;
    case TPP_FRAMEWORK_MEGATRON_DEEPSPEED:
        return megatron_deepspeed_engine(facts);
    case TPP_FRAMEWORK_TORCHTITAN:
        return TPP_ENGINE_FSDP2;
    case TPP_FRAMEWORK_LLM_FOUNDRY:
        return TPP_ENGINE_FSDP1;
    case TPP_FRAMEWORK_HF_TRAINER:
    case TPP_FRAMEWORK_OTHER:
    case TPP_FRAMEWORK_COUNT:
        break;
    }
    return plain_torch_engine(facts);
}

/* cuDNN's kernels, which Transformer Engine chooses: of the third generation from Hopper on. */
static enum tpp_attention_kernel cudnn_attention(const struct tpp_gpu *gpu)
{
    return gpu->flash_forward_fraction[TPP_ATTENTION_FLASH3] > 0 ? TPP_ATTENTION_FLASH3 : TPP_ATTENTION_FLASH2;
}

static bool uses_cudnn(const struct tpp_run_facts *facts)
{
    const char *text = facts->attention;
    return tpp_run_mentions(text, "TransformerEngine") || tpp_run_mentions(text, "Transformer Engine") ||
           tpp_run_mentions(text, "cudnn") || tpp_run_mentions(text, "(TE") || strncmp(text, "TE ", 3) == 0;
}

/* The source names the kernel; false when it only says yes, no or nothing. */
static bool named_attention(const struct tpp_run_facts *facts, const struct tpp_gpu *gpu,
                            enum tpp_attention_kernel *out)
{
    static const struct {
        const char *word;
        enum tpp_attention_kernel kernel;
    } names[] = {
        {"fused softmax", TPP_ATTENTION_FUSED_SOFTMAX},
        {"PyTorch attention", TPP_ATTENTION_EAGER}, /* S19: "no (PyTorch attention)" */
        {"eager", TPP_ATTENTION_EAGER},
        {"triton", TPP_ATTENTION_FLASH1},      /* S17: the Triton port of the first generation */
        {"attentionv1", TPP_ATTENTION_FLASH1}, /* S19: "flash_attentionv1.0.8" */
        {"attention v1", TPP_ATTENTION_FLASH1},
        {"attention 1", TPP_ATTENTION_FLASH1},
        {"attention3", TPP_ATTENTION_FLASH3},
        {"attention 3", TPP_ATTENTION_FLASH3},
        {"attention-3", TPP_ATTENTION_FLASH3},
        {"attention2", TPP_ATTENTION_FLASH2},
        {"attention 2", TPP_ATTENTION_FLASH2},
        {"attention-2", TPP_ATTENTION_FLASH2},
        {"attention v2", TPP_ATTENTION_FLASH2},
        {"flash_attn 2", TPP_ATTENTION_FLASH2},
        {"SDPA", TPP_ATTENTION_FLASH2}, /* torch's fused path, second generation since torch 2.2 */
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (tpp_run_mentions(facts->attention, names[i].word)) {
            *out = names[i].kernel;
            return true;
        }
    if (strcmp(facts->attention, "2") == 0 || strcmp(facts->attention, "3") == 0) { /* the major version alone */
        *out = facts->attention[0] == '2' ? TPP_ATTENTION_FLASH2 : TPP_ATTENTION_FLASH3;
        return true;
    }
    if (uses_cudnn(facts)) {
        *out = cudnn_attention(gpu);
        return true;
    }
    return false;
}

/* Compilers of whole graphs: they split the cross entropy by vocabulary and overlap collectives with what is ready. */
static bool compiles_graph(const struct tpp_run_facts *facts)
{
    static const char *const names[] = {"Alpa", "Pax", "MaxText", "JAX"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (framework_has(facts, names[i]))
            return true;
    return false;
}

/* Release of NeMo as a number, 25.04; 0 where the source names none. */
static double release_of(const struct tpp_stack *stack)
{
    return strtod(stack->release, NULL);
}

/* Latent attention, whose keys (192) are wider than its values (128), on Blackwell: cuDNN trains it from 9.11 of June 2025 on
 * (Transformer Engine, fused_attn.cpp, nvte_get_fused_attn_backend), flash-attention 2 never; before, Transformer Engine
 * falls back on products around its fused softmax. Containers of before July 2025 have the older cuDNN. */
#define LATENT_BLACKWELL_RELEASE 25.07

static bool lacks_latent_flash(const struct tpp_run_facts *facts, const struct tpp_gpu *gpu,
                               const struct tpp_stack *stack)
{
    return stack->framework == TPP_FRAMEWORK_NEMO && facts->model.has_latent_attention &&
           gpu->compute_capability >= 10 && release_of(stack) > 0 && release_of(stack) < LATENT_BLACKWELL_RELEASE;
}

/* torchtitan has torch try cuDNN's attention first, on Blackwell since its pull request 1196 of May 2025, on all GPUs since 1776 of
 * October 2025 (models/attention.py). */
#define TITAN_CUDNN_YEAR 2026

static bool asks_for_cudnn(const struct tpp_run_facts *facts, const struct tpp_gpu *gpu)
{
    const bool is_sdpa = facts->attention[0] == '\0' || strcmp(facts->attention, "SDPA") == 0;
    return tpp_run_framework(facts) == TPP_FRAMEWORK_TORCHTITAN && is_sdpa &&
           (gpu->compute_capability >= 10 || (gpu->compute_capability > 0 && facts->year >= TITAN_CUDNN_YEAR));
}

static enum tpp_attention_kernel choose_attention(const struct tpp_run_facts *facts, const struct tpp_gpu *gpu)
{
    enum tpp_attention_kernel kernel;
    if (asks_for_cudnn(facts, gpu))
        return cudnn_attention(gpu);
    if (named_attention(facts, gpu, &kernel))
        return kernel;
    const enum tpp_framework framework = tpp_run_framework(facts);
    const bool is_megatron = framework == TPP_FRAMEWORK_MEGATRON_LM || framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED;
    const bool names_flash = tpp_run_mentions(facts->attention, "flash") || strncmp(facts->attention, "yes", 3) == 0;
    const bool is_flash = facts->flash_attention == TPP_RUN_YES ||
                          (facts->flash_attention == TPP_RUN_UNSAID && (names_flash || facts->year >= FLASH2_YEAR));
    /* Megatron's local layers run its fused scale-mask-softmax (S2, S3, S21); graph compilers fuse theirs. */
    if (!is_flash)
        return is_megatron || compiles_graph(facts) ? TPP_ATTENTION_FUSED_SOFTMAX : TPP_ATTENTION_EAGER;
    if (framework == TPP_FRAMEWORK_NEMO)
        return cudnn_attention(gpu);
    return facts->year < FLASH2_YEAR ? TPP_ATTENTION_FLASH1 : TPP_ATTENTION_FLASH2;
}

/* DeepSpeed's ZeRO-3 gathered parameter by parameter and synchronised after each until its 0.4.1 of mid 2021 (pull
 * request 1188). */
#define SYNCHRONOUS_GATHER_YEAR 2021

/* From 2023 on DeepSpeed runs ZeRO-1 with bf16 in its ZeRO optimizer; before, and at stage 0, in the bf16 optimizer
 * that accumulates in fp32 (engine.py, _configure_optimizer). The gradients still travel in fp32 (15.7). */
#define ZERO1_BF16_YEAR 2023

static void set_deepspeed_optimizer(const struct tpp_run_facts *facts, struct tpp_stack *stack)
{
    if (stack->fp32_accumulation && facts->parallel.zero_stage == 1 && facts->year >= ZERO1_BF16_YEAR) {
        stack->fp32_accumulation = false;
        stack->optimizer_bytes = 16;
    }
}

/* gpt-oss stretches its positions by YaRN, which scales sine and cosine: from 0.16 on Megatron-Core leaves the fused kernel for that
 * (rope_utils.py, "mscale is not supported by TE's fused RoPE"), in containers from 26.02 on. */
#define SCALED_ROTARY_RELEASE 26.02

static bool scales_rotary(const struct tpp_run_facts *facts, const struct tpp_stack *stack)
{
    return stack->framework == TPP_FRAMEWORK_NEMO && tpp_run_mentions(facts->model.name, "gpt-oss") &&
           release_of(stack) >= SCALED_ROTARY_RELEASE;
}

/* Megatron-Core 0.11 made padded experts fit for graphs (commit f27a04f of January 2025); dgxc-benchmarking's Grok-1 of v25.02 still runs
 * NeMo 24.12 (grok1/README_314b.md). */
#define GRAPHABLE_PADDING_RELEASE 25.04

/* Megatron's layers: Transformer Engine (U 1.05) or the local ones (U 1.2, cost-model 5.3). */
static void set_megatron_layers(const struct tpp_run_facts *facts, struct tpp_stack *stack)
{
    const bool is_nemo = stack->framework == TPP_FRAMEWORK_NEMO;
    stack->transformer_engine =
        stack->framework != TPP_FRAMEWORK_MEGATRON_DEEPSPEED &&
        (is_nemo || uses_cudnn(facts) || (facts->year >= TRANSFORMER_ENGINE_YEAR && facts->attention[0] == '\0'));
    stack->memory_bound_factor = stack->transformer_engine ? 1.05 : 1.2;
    const bool is_eager = tpp_framework_is_eager_between_products(stack->framework);
    stack->norm_kernel = TPP_KERNEL_FUSED;
    stack->activation_kernel = is_eager ? TPP_KERNEL_EAGER : TPP_KERNEL_FUSED;
    stack->rope_kernel = is_eager || scales_rotary(facts, stack) ? TPP_KERNEL_EAGER : TPP_KERNEL_FUSED;
    stack->tensor_parallel_async =
        stack->framework != TPP_FRAMEWORK_MEGATRON_DEEPSPEED && facts->year >= TENSOR_ASYNC_YEAR; /* 15.4 */
    stack->loss_kernel = is_nemo || notes_have(facts, "fused cross entropy") ? TPP_LOSS_FUSED : TPP_LOSS_UNFUSED;
    if (is_nemo && stack->engine == TPP_ENGINE_MEGATRON)
        stack->gradient_bytes = stack->reduce_bytes = 2; /* its performance recipes keep and reduce bf16 gradients */
    /* Megatron-LM's main of 22 March 2021: every tensor-parallel rank sends the whole tensor (communicate of megatron/training.py);
       "Break up tensors sent between pipeline stages" (27fc468) was merged after it. */
    if (framework_has(facts, "8aa4619"))
        stack->scatter_gather = false;
    stack->waits_when_padded = is_nemo && release_of(stack) > 0 && release_of(stack) < GRAPHABLE_PADDING_RELEASE;
    if (facts->year < FP8_PARAMETERS_YEAR) {
        stack->fp8_weights = false;
        stack->gathered_linear_bytes = stack->weight_bytes;
    }
}

/* llm-foundry's MPT (S17): PyTorch's own LayerNorm and GELU are one kernel each; the loss is flash-attention's fused
 * cross entropy (loss_fn: fused_crossentropy). Its predecessor mosaicml/examples has PyTorch's loss and LayerNorms in
 * fp32. Composer's mixed-precision modes (get_mixed_precision): PURE gathers and reduces in bf16, DEFAULT reduces in fp32; but before
 * its 0.13 DEFAULT named no param_dtype, so that fp32 parameters were gathered, and reduced in bf16. The shards are fp32 in all.
 */
static void set_llm_foundry(const struct tpp_run_facts *facts, struct tpp_stack *stack)
{
    const bool is_predecessor = tpp_run_mentions(facts->repository, "mosaicml/examples");
    stack->norm_kernel = is_predecessor ? TPP_KERNEL_EAGER : TPP_KERNEL_FUSED;
    stack->activation_kernel = TPP_KERNEL_FUSED;
    stack->loss_kernel = is_predecessor ? TPP_LOSS_EAGER : TPP_LOSS_FUSED;
    const bool is_pure = strcmp(facts->mixed_precision_mode, "PURE") == 0;
    stack->reduce_bytes = is_pure || is_predecessor ? 2 : 4;
    if (is_predecessor && !is_pure)
        stack->gathered_linear_bytes = stack->gathered_rest_bytes = 4;
    /* Its benchmarks set activation_checkpointing_reentrant: false (submit_benchmarks.py), and ran PyTorch 1.13 at first; the table of
       2024 has rows in mode PURE from before. */
    stack->checkpoint_stops_early = facts->year >= EARLY_STOP_YEAR && !is_pure;
}

/* torch.compile and XLA fuse element-wise kernels (5.3). */
static void set_compiled(struct tpp_stack *stack)
{
    stack->memory_bound_factor = 1.05;
    stack->norm_kernel = stack->activation_kernel = stack->rope_kernel = TPP_KERNEL_FUSED;
    if (stack->loss_kernel == TPP_LOSS_EAGER)
        stack->loss_kernel = TPP_LOSS_COMPILED;
}

/* S23's tables: a100_80gb.csv was measured with Transformers 4.48.1, a100_80gb_liger.csv with 4.45.2 (refs/requirements*.txt);
 * elsewhere the year tells: 4.46 is of October 2024. torchtune deletes its logits before backward. */
static bool keeps_logits(const struct tpp_run_facts *facts)
{
    if (framework_has(facts, "torchtune"))
        return false;
    return facts->year >= 2025 || tpp_run_mentions(facts->source, "refs/a100_80gb.csv");
}

/* Frameworks whose adapters are not PEFT's. */
static bool has_own_adapters(const struct tpp_run_facts *facts)
{
    return framework_has(facts, "AutoModel") || framework_has(facts, "torchtune") || framework_has(facts, "litgpt");
}

/* fms-acceleration's plug-ins (S23): "foak" brings Triton RMSNorm, rotary and in-place cross entropy, and for quantised
 * bases fused LoRA, with a fused SwiGLU where the MLP has adapters; "liger" a cross entropy fused with the head. Without them all is eager. */
static void set_hugging_face(const struct tpp_run_facts *facts, const struct tpp_job *job, struct tpp_stack *stack)
{
    const bool is_fast = notes_have(facts, "foak") || notes_have(facts, "liger") || notes_have(facts, "unsloth");
    /* LayerNorm and GELU are one kernel each in PyTorch; autocast puts casts around the norm. S23's scenarios set fp16 or bf16 for
       quantised bases alone, its other runs are in bf16 as such; its kernels know RMSNorm only. */
    const bool is_plain_gpt = facts->model.gated == TPP_RUN_NO, is_autocast = !notes_have(facts, "states all in bf16");
    const bool has_fused_norm = is_plain_gpt ? !is_autocast : is_fast;
    stack->norm_kernel = has_fused_norm ? TPP_KERNEL_FUSED : TPP_KERNEL_EAGER;
    stack->rope_kernel = is_fast ? TPP_KERNEL_FUSED : TPP_KERNEL_EAGER;
    const bool has_fused_adapters = is_fast && job->task == TPP_TASK_QLORA && job->lora_targets == TPP_LORA_ALL_LINEAR;
    stack->activation_kernel = is_plain_gpt || has_fused_adapters ? TPP_KERNEL_FUSED : TPP_KERNEL_EAGER;
    stack->loss_kernel = is_fast ? TPP_LOSS_FUSED : TPP_LOSS_EAGER;
    stack->keeps_logits = keeps_logits(facts);
    /* Transformers' modeling_gpt_bigcode.py calls CrossEntropyLoss on the logits without float(), unlike Llama's */
    stack->loss_keeps_type = !is_autocast && tpp_run_mentions(facts->model.name, "santacoder");
    /* S23's baseline leaves the preparation to the trainer, which calls peft's but not for a model that FSDP shards (trl, sft_trainer.py) */
    stack->upcasts_states = notes_have(facts, "baseline-peft-bnb") && facts->parallel.fsdp != TPP_RUN_YES;
    /* autocast runs LayerNorm in fp32, and bitsandbytes' product returns its input's type (nn/modules.py, Linear4bit.forward) */
    stack->upcasts_states |= is_plain_gpt && is_autocast && job->task == TPP_TASK_QLORA && notes_have(facts, "peft-bnb");
    stack->peft_adapters = !has_own_adapters(facts);
    stack->checkpoint_stops_early = framework_has(facts, "torchtune"); /* checkpoint_wrapper; the Trainer's checkpoints are reentrant */
    if (framework_has(facts, "AutoModel")) /* no accelerate: its own MixedPrecisionPolicy has reduce_dtype float32 */
        stack->reduce_bytes = 4;
    if (framework_has(facts, "AutoModel") && facts->model.has_experts) {
        /* its own models: Transformer Engine's norms and rotary embedding, a fused weighted activation in the experts (backend of
           examples/llm_benchmark/{qwen,gpt_oss,deepseek}; components/moe/experts.py) */
        stack->norm_kernel = stack->rope_kernel = stack->activation_kernel = TPP_KERNEL_FUSED;
        stack->memory_bound_factor = 1.05;
    }
    if (notes_have(facts, "liger") || notes_have(facts, "chunked CE"))
        stack->loss_kernel = TPP_LOSS_FUSED_LINEAR;
    if (notes_have(facts, "torch.compile") || notes_have(facts, "+ compile"))
        set_compiled(stack);
    if (notes_have(facts, "each row adds to the previous") && !notes_have(facts, "+ packed")) {
        set_compiled(stack); /* torchtune's table: packed, compiled, chunked loss, then the rest */
        if (!notes_have(facts, "+ compile"))
            stack->loss_kernel = TPP_LOSS_FUSED_LINEAR;
    }
}

/* torchtitan compiles blocks where the source says so; the loss with them since its pull request 1033 of April 2025, but not from
 * December 2024 on (commit e8977b0). */
static void set_torchtitan(const struct tpp_run_facts *facts, struct tpp_stack *stack)
{
    const bool compiles = notes_have(facts, "compile") || tpp_run_mentions(facts->framework, "compile");
    /* torchao's table of H100 names torchtitan 0.0.2 (docs/source/workflows/training.md). */
    const bool is_old = (release_of(stack) > 0 && release_of(stack) < 0.1) ||
                        (tpp_run_mentions(facts->source, "torchao") && tpp_run_mentions(facts->gpu, "H100"));
    const bool compiles_loss = facts->year >= 2025 && !is_old;
    if (!compiles) {
        stack->memory_bound_factor = 1.25;
        stack->norm_kernel = stack->activation_kernel = stack->rope_kernel = TPP_KERNEL_EAGER;
    }
    if (!compiles || !compiles_loss)
        stack->loss_kernel = TPP_LOSS_EAGER;
}

static void set_graph_compiler(struct tpp_stack *stack)
{
    set_compiled(stack);
    stack->tensor_parallel_other = false;
    stack->tensor_parallel_async = true;
    stack->lm_head_output = TPP_LM_HEAD_VOCABULARY_PARALLEL;
}

/* Aleph-Alpha/scaling casts every bucket of its 16-bit gradients up and all-reduces it whole, before a rank keeps its part
 * (core/optimizer/allreduce.py); with activation checkpointing the head is a layer like others (core/nn/parallel_module). What rings
 * carry out of a node, of all its ports, which nobody describes [fit on half of S19's rows; on the other half 0.21 is as good]:
 * 0.25. Messages between stages show no such limit. */
static void set_aleph_alpha(struct tpp_stack *stack)
{
    stack->tensor_parallel_autograd = true;
    stack->tensor_parallel_other = false;
    stack->softmax_in_place = true;
    stack->recomputes_head = true;
    stack->reduce_bytes = 4;
    stack->nic_ring_efficiency_fraction = 0.25;
}

/* Baichuan's 13B models have ALiBi, its 7B are rotary. */
static bool has_alibi(const struct tpp_run_facts *facts)
{
    return strcmp(facts->model.position, "alibi") == 0 || tpp_run_mentions(facts->model.name, "bloom") ||
           (tpp_run_mentions(facts->model.name, "baichuan") && tpp_run_mentions(facts->model.name, "13b"));
}

/* Plain PyTorch tensor parallelism (15.1, 15.4): exposed all-reduces, eager kernels; at half the NVLink rate where the source
 * does not say which reductions there are.
 * S19 (Aleph Alpha scaling): gathered logits; a fused RMSNorm where the sheet names "RMS kernel"; gate and up are linears of
 * their own, each with its copy_to_tensor_model_parallel_region, and norms gather (core/nn/mlp.py, norm/rms_norm.py).
 * S22 (InternEvo): apex RMSNorm, flash-attention's rotary kernel, vocabulary-parallel head; bf16 gradients.
 * Paddle's tensor parallelism ends in a cross entropy split by vocabulary too; each of its ColumnParallelLinear copies its
 * input and reduces the gradient of it (c_identity: distributed/fleet/layers/mpu/mp_ops.py, TensorCopy of the kernel).
 * PaddleNLP adds ALiBi to the mask of every head and hands that to flash attention, which then is not causal
 * (paddlenlp/transformers/llama/fusion_ops.py).
 * PaddleNLP's pre-training configurations set use_fused_rms_norm and use_fused_rope (llm/{llama,qwen,baichuan}/pretrain-*.json of
 * November 2023). */
static void set_other(const struct tpp_run_facts *facts, struct tpp_stack *stack)
{
    const bool is_internevo = framework_has(facts, "InternEvo") || framework_has(facts, "InternLM");
    const bool is_plain_gpt = facts->model.gated == TPP_RUN_NO;
    const bool is_paddlenlp = framework_has(facts, "PaddleNLP"), is_paddle = framework_has(facts, "Paddle");
    const bool has_fused_norm = is_internevo || is_paddlenlp || is_plain_gpt ||
                                tpp_run_mentions(facts->attention, "RMS kernel") || notes_have(facts, "RMS kernel");
    stack->tensor_parallel_async = false;
    stack->tensor_parallel_autograd = is_paddle;
    stack->tensor_parallel_other = !is_paddle;
    stack->tensor_parallel_copies = is_paddle;
    stack->norm_kernel = has_fused_norm ? TPP_KERNEL_FUSED : TPP_KERNEL_EAGER;
    stack->activation_kernel = is_plain_gpt ? TPP_KERNEL_FUSED : TPP_KERNEL_EAGER;
    stack->rope_kernel = is_internevo || is_paddlenlp ? TPP_KERNEL_FUSED : TPP_KERNEL_EAGER;
    stack->attention_bias = is_paddlenlp && has_alibi(facts);
    stack->lm_head_output = is_internevo || is_paddle ? TPP_LM_HEAD_VOCABULARY_PARALLEL : TPP_LM_HEAD_GATHERED;
    if (framework_has(facts, "Aleph Alpha"))
        set_aleph_alpha(stack);
    if (is_internevo) {
        stack->gradient_bytes = stack->reduce_bytes = 2;
        stack->loss_kernel = TPP_LOSS_FUSED;
        stack->broadcasts_parameters = true; /* solver/optimizer/hybrid_zero_optim.py, broadcast_params */
    }
    if (compiles_graph(facts))
        set_graph_compiler(stack);
}

/* Accelerate 0.30 (May 2024, pull request 2674) casts the trained weights that FSDP shards to fp32 under mixed precision, and
 * their gradients and states follow: 4 + 4 + 8 bytes a parameter, whatever the script loaded. Tables with Liger's kernels, of
 * August 2024, are later than that; S23's show 16 bytes a parameter and GPU at rest, and 8 in the table before. */
static bool casts_shards_up(const struct tpp_run_facts *facts, const struct tpp_stack *stack)
{
    return stack->framework == TPP_FRAMEWORK_HF_TRAINER && stack->engine == TPP_ENGINE_FSDP1 &&
           (tpp_run_mentions(facts->source, "liger") || notes_have(facts, "liger"));
}

/* Dtypes that a source states against its engine's habit. */
static void set_stated_dtypes(const struct tpp_run_facts *facts, struct tpp_stack *stack)
{
    const bool cast_up = casts_shards_up(facts, stack);
    if (notes_have(facts, "states all in bf16") || tpp_run_mentions(facts->precision_detail, "pure, bf16")) {
        stack->weight_bytes = stack->reduce_bytes = 2;
        stack->shard_weight_bytes = stack->gradient_bytes = cast_up ? 4 : 2; /* S23: no fp32 master copy */
        stack->optimizer_bytes = cast_up ? 8 : 4;
    }
    if (notes_have(facts, "grad_reduce_in_fp32=False") || notes_have(facts, "grad reduction in bf16"))
        stack->gradient_bytes = stack->reduce_bytes = 2; /* Megatron-Bridge recipes */
}

/* S21: CUDA_LAUNCH_BLOCKING=1 "from mid February on": the chronicle's sections carry their month and day. */
static bool is_launch_blocking(const struct tpp_run_facts *facts)
{
    if (!notes_have(facts, "CUDA_LAUNCH_BLOCKING=1"))
        return false;
    if (!notes_have(facts, "from mid February"))
        return true;
    for (const char *text = facts->source; *text != '\0'; text++)
        if (isdigit((unsigned char)text[0]) && isdigit((unsigned char)text[1]) && text[2] == '-' &&
            isdigit((unsigned char)text[3]) && isdigit((unsigned char)text[4]))
            return strncmp(text, "02-15", 5) >= 0;
    return true;
}

/* The first "digits.digits" of the framework's text ("NeMo 24.07 container", "Megatron-Core 0.6.0"). */
static void set_release(const struct tpp_run_facts *facts, struct tpp_stack *stack)
{
    const char *text = facts->framework;
    stack->release[0] = '\0';
    for (; *text != '\0'; text++) {
        const size_t length = strspn(text, "0123456789.");
        if (length >= 3 && length < sizeof stack->release && isdigit((unsigned char)text[0]) &&
            memchr(text, '.', length - 1) != NULL) {
            memcpy(stack->release, text, length);
            stack->release[length] = '\0';
            if (stack->release[length - 1] == '.')
                stack->release[length - 1] = '\0';
            return;
        }
        if (length > 0)
            text += length - 1;
    }
}

void tpp_run_stack_read(const struct tpp_run_facts *facts, const struct tpp_gpu *gpu, const struct tpp_job *job,
                        struct tpp_stack *stack)
{
    tpp_stack_defaults(tpp_run_framework(facts), gpu, job, stack);
    stack->engine = tpp_run_engine(facts);
    tpp_stack_set_dtypes(stack, job);
    set_deepspeed_optimizer(facts, stack);
    set_release(facts, stack);
    switch (stack->framework) {
    case TPP_FRAMEWORK_MEGATRON_LM:
    case TPP_FRAMEWORK_MEGATRON_DEEPSPEED:
    case TPP_FRAMEWORK_NEMO:
    case TPP_FRAMEWORK_MS_SWIFT:
        set_megatron_layers(facts, stack);
        break;
    case TPP_FRAMEWORK_LLM_FOUNDRY:
        set_llm_foundry(facts, stack);
        break;
    case TPP_FRAMEWORK_HF_TRAINER:
        set_hugging_face(facts, job, stack);
        break;
    case TPP_FRAMEWORK_OTHER:
        set_other(facts, stack);
        break;
    case TPP_FRAMEWORK_TORCHTITAN:
        set_torchtitan(facts, stack);
        break;
    case TPP_FRAMEWORK_NANOTRON:
    case TPP_FRAMEWORK_COUNT:
        break; /* their defaults are what the published runs used */
    }
    stack->attention =
        lacks_latent_flash(facts, gpu, stack) ? TPP_ATTENTION_FUSED_SOFTMAX : choose_attention(facts, gpu);
    /* Its selective policy saves cuDNN's since December 2025. */
    stack->policy_repeats_attention = stack->framework == TPP_FRAMEWORK_TORCHTITAN &&
                                      stack->attention == TPP_ATTENTION_FLASH3 && facts->year < TITAN_CUDNN_YEAR;
    stack->synchronous_gather =
        stack->engine == TPP_ENGINE_DEEPSPEED && facts->year > 0 && facts->year <= SYNCHRONOUS_GATHER_YEAR;
    set_stated_dtypes(facts, stack);
    tpp_run_recipe_read(facts, gpu, stack);
    stack->current_scaling = tpp_run_mentions(facts->precision_detail, "current scaling");
    stack->launch_blocking = is_launch_blocking(facts);
    if (stack->launch_blocking)
        stack->tensor_parallel_async = false; /* 15.5: nothing overlaps */
    if (notes_have(facts, "no communication overlap"))
        stack->overlap_p2p = false; /* S7: user buffers, p2p and gradients; the linear layers' own overlap stays */
    if (notes_have(facts, "no overlap of communication") || notes_have(facts, "no compute/communication overlap"))
        stack->tensor_parallel_async = stack->overlap_p2p = false;
    if (tpp_run_mentions(facts->network, "Omni-Path")) {
        /* 15.6: a ring runs through one of the four ports, at the usual efficiency; several at once share what the node
         * reaches then [fit on S20, S21], and messages reach half of all. */
        stack->single_port_rings = true;
        stack->nic_ring_efficiency_fraction = 0.30;
        stack->nic_send_recv_efficiency_fraction = 0.45;
    }
}

void tpp_run_overlap_read(const struct tpp_run_facts *facts, const struct tpp_stack *stack,
                          struct tpp_strategy *strategy)
{
    bool gradients = false, parameters = false;
    switch (stack->framework) {
    case TPP_FRAMEWORK_NEMO: /* its recipes switch both on, and the tensor-parallel user buffers with SP */
        gradients = parameters = true;
        strategy->tp_comm_overlap = strategy->tensor_parallel > 1 && strategy->sequence_parallel;
        break;
    case TPP_FRAMEWORK_TORCHTITAN:
    case TPP_FRAMEWORK_LLM_FOUNDRY:
    case TPP_FRAMEWORK_HF_TRAINER: /* FSDP prefetches and DDP overlaps by themselves */
        gradients = parameters = true;
        break;
    case TPP_FRAMEWORK_OTHER: /* S22: InternEvo overlaps the reduction with the last backward (15.7) */
        gradients = framework_has(facts, "InternEvo") || tpp_engine_is_fsdp(stack->engine);
        parameters = tpp_engine_is_fsdp(stack->engine);
        break;
    case TPP_FRAMEWORK_MEGATRON_LM: /* --overlap-grad-reduce and --overlap-param-gather are off by default */
    case TPP_FRAMEWORK_MEGATRON_DEEPSPEED:
    case TPP_FRAMEWORK_MS_SWIFT:
    case TPP_FRAMEWORK_NANOTRON:
    case TPP_FRAMEWORK_COUNT:
        gradients = parameters = tpp_engine_is_fsdp(stack->engine);
        /* OneFlow's collectives have streams of their own (collective boxing), but its GPT puts them on the compute stream with
           tensor parallelism (OneFlow-Benchmark, oneflow_gpt/training.py: nccl_use_compute_stream). */
        if (framework_has(facts, "OneFlow"))
            gradients = strategy->tensor_parallel == 1;
        break;
    }
    if (stack->engine == TPP_ENGINE_DEEPSPEED && strategy->zero_stage == 3)
        gradients = parameters = true; /* overlap_comm is on by default for stage 3 (S5) */
    if (notes_have(facts, "grad overlap=True") || notes_have(facts, "zero overlap on") ||
        notes_have(facts, "(overlapped)") || notes_have(facts, "zero and tp overlap on"))
        gradients = true; /* "DDP implementation torch (overlapped)" of S2, CI configurations, tuning tables */
    if (notes_have(facts, "param overlap=True") || notes_have(facts, "zero overlap on") ||
        notes_have(facts, "zero and tp overlap on"))
        parameters = true;
    if (notes_have(facts, "tp overlap on") || notes_have(facts, "async TP") || notes_have(facts, "AsyncTP"))
        strategy->tp_comm_overlap = true;
    if (stack->launch_blocking || notes_have(facts, "no overlap") || notes_have(facts, "no communication overlap") ||
        notes_have(facts, "no compute/communication overlap")) {
        gradients = parameters = false;
        strategy->tp_comm_overlap = false;
    }
    strategy->overlap_grad_reduce = gradients;
    strategy->overlap_param_gather = parameters;
}

/* "dropout 0.1" in the notes; a bare "dropout" without a number says nothing. */
static bool stated_dropout(const char *notes, double *out)
{
    for (; *notes != '\0'; notes++)
        if (strncmp(notes, "dropout ", 8) == 0 && isdigit((unsigned char)notes[8])) {
            *out = strtod(notes + 8, NULL);
            return *out >= 0 && *out < 1;
        }
    return false;
}

/* Megatron's --hidden-dropout and --attention-dropout default to 0.1, which GPT scripts keep (S2, S3); scripts of
 * Llama-type models and NeMo's Nemotron recipes set 0, and so do the other frameworks' defaults. */
double tpp_run_dropout(const struct tpp_run_facts *facts)
{
    double dropout = 0;
    if (facts->model.has_dropout)
        return facts->model.dropout;
    if (stated_dropout(facts->notes, &dropout))
        return dropout;
    const enum tpp_framework framework = tpp_run_framework(facts);
    const bool is_megatron = framework == TPP_FRAMEWORK_MEGATRON_LM || framework == TPP_FRAMEWORK_NEMO ||
                             framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED;
    const bool is_gpt = tpp_run_mentions(facts->model.name, "gpt") || tpp_run_mentions(facts->model.name, "bloom");
    if (framework == TPP_FRAMEWORK_HF_TRAINER && tpp_run_mentions(facts->model.name, "santacoder"))
        return 0.1; /* GPTBigCodeConfig: attn_pdrop, resid_pdrop, embd_pdrop */
    return is_megatron && is_gpt && facts->model.gated != TPP_RUN_YES ? 0.1 : 0;
}

/* NeMo's fine-tuning recipes pack SQuAD, whose samples have one to three hundred tokens; at that length attention is
 * next to nothing, whichever the exact number. Other packing is either of unknown length or attends across documents.
 */
#define SQUAD_SAMPLE_TOKENS 256

uint64_t tpp_run_packed_document_tokens(const struct tpp_run_facts *facts)
{
    const bool is_packed = notes_have(facts, "packed SQuAD") || notes_have(facts, "packed SFT") ||
                           (notes_have(facts, "packed sequences") && strcmp(facts->task, "pretrain") != 0);
    if (!is_packed || tpp_run_framework(facts) != TPP_FRAMEWORK_NEMO || facts->model.sequence <= SQUAD_SAMPLE_TOKENS)
        return 0;
    return SQUAD_SAMPLE_TOKENS;
}
