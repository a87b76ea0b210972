#include "costmodel/stack.h"

#include <math.h>
#include <string.h>

/* Defaults of a framework's current release; sources: cost-model 5.2-5.4, 15.1, 15.4, 15.8 and launch-formats 1, 2,
 * 6, 8. */
struct framework_row {
    const char *name;
    enum tpp_engine engine;
    bool fused_kernels; /* norm; activation and rotary too, but in Megatron-DeepSpeed */
    enum tpp_loss_kernel loss_kernel;
    bool transformer_engine;
    bool tensor_parallel_async;
    bool tensor_parallel_other;
    enum tpp_lm_head_output lm_head_output;
    bool newest_attention; /* cuDNN / FlashAttention-3 where the GPU has it; else FlashAttention-2 */
    double memory_bound_factor;
    uint32_t vocabulary_multiple;
    bool scatter_gather, overlap_p2p;
};

static const struct framework_row frameworks[TPP_FRAMEWORK_COUNT] = {
    [TPP_FRAMEWORK_MEGATRON_LM] = {"megatron-lm", TPP_ENGINE_MEGATRON, true, TPP_LOSS_UNFUSED, true, true, false,
                                   TPP_LM_HEAD_VOCABULARY_PARALLEL, true, 1.05, 128, true, true},
    [TPP_FRAMEWORK_MEGATRON_DEEPSPEED] = {"megatron-deepspeed", TPP_ENGINE_DEEPSPEED, true, TPP_LOSS_UNFUSED, false,
                                          false, false, TPP_LM_HEAD_VOCABULARY_PARALLEL, false, 1.2, 128, true, false},
    [TPP_FRAMEWORK_NEMO] = {"nemo", TPP_ENGINE_MEGATRON, true, TPP_LOSS_FUSED, true, true, false,
                            TPP_LM_HEAD_VOCABULARY_PARALLEL, true, 1.05, 128, true, true},
    [TPP_FRAMEWORK_MS_SWIFT] = {"ms-swift", TPP_ENGINE_MEGATRON, true, TPP_LOSS_FUSED, true, true, false,
                                TPP_LM_HEAD_VOCABULARY_PARALLEL, false, 1.05, 128, true, true},
    [TPP_FRAMEWORK_TORCHTITAN] = {"torchtitan", TPP_ENGINE_FSDP2, true, TPP_LOSS_COMPILED, false, false, false,
                                  TPP_LM_HEAD_VOCABULARY_PARALLEL, false, 1.05, 1, false, false},
    [TPP_FRAMEWORK_LLM_FOUNDRY] = {"llm-foundry", TPP_ENGINE_FSDP1, true, TPP_LOSS_EAGER, false, false, true,
                                   TPP_LM_HEAD_GATHERED, false, 1.25, 1, false, false},
    [TPP_FRAMEWORK_HF_TRAINER] = {"hf-trainer", TPP_ENGINE_FSDP1, false, TPP_LOSS_EAGER, false, false, true,
                                  TPP_LM_HEAD_GATHERED, false, 1.25, 1, false, false},
    [TPP_FRAMEWORK_NANOTRON] = {"nanotron", TPP_ENGINE_DDP, false, TPP_LOSS_UNFUSED, false, true, true,
                                TPP_LM_HEAD_VOCABULARY_PARALLEL, false, 1.25, 1, false, false},
    [TPP_FRAMEWORK_OTHER] = {"other", TPP_ENGINE_DDP, false, TPP_LOSS_EAGER, false, false, true, TPP_LM_HEAD_GATHERED,
                             false, 1.25, 1, false, false},
};

static const char *const engine_names[TPP_ENGINE_COUNT] = {[TPP_ENGINE_MEGATRON] = "megatron",
                                                           [TPP_ENGINE_DEEPSPEED] = "deepspeed",
                                                           [TPP_ENGINE_DEEPSPEED_PIPELINE] = "deepspeed-pipeline",
                                                           [TPP_ENGINE_FSDP1] = "fsdp1",
                                                           [TPP_ENGINE_FSDP2] = "fsdp2",
                                                           [TPP_ENGINE_DDP] = "ddp"};

/* Composer keeps two metrics of the training loss, cross entropy and perplexity, and computes them anew from the logits of every
 * micro-batch (trainer.py, _eval_train_metrics; llm-foundry's modeling_mpt.py, train_metrics). Under autocast each casts the logits
 * up, 2 + 4 B, and takes their log-softmax, 4 + 4 B. */
static const double composer_metric_logit_bytes = 2 * (2 + 4 + 4 + 4);

/* Data loader hand-off, logging, gradient-norm all-reduce, host synchronisation [fit], 5.4. */
static const double fixed_seconds = 0.010;

static enum tpp_attention_kernel default_attention(const struct framework_row *row, const struct tpp_gpu *gpu)
{
    if (row->newest_attention && gpu->flash_forward_fraction[TPP_ATTENTION_FLASH3] > 0)
        return TPP_ATTENTION_FLASH3;
    if (gpu->flash_forward_fraction[TPP_ATTENTION_FLASH2] > 0)
        return TPP_ATTENTION_FLASH2;
    if (gpu->flash_forward_fraction[TPP_ATTENTION_FLASH3] > 0)
        return TPP_ATTENTION_FLASH3;
    return row->fused_kernels ? TPP_ATTENTION_FUSED_SOFTMAX : TPP_ATTENTION_EAGER;
}

void tpp_stack_defaults(enum tpp_framework framework, const struct tpp_gpu *gpu, const struct tpp_job *job,
                        struct tpp_stack *stack)
{
    const struct framework_row *row = &frameworks[framework];
    const enum tpp_kernel_style style = row->fused_kernels ? TPP_KERNEL_FUSED : TPP_KERNEL_EAGER;
    memset(stack, 0, sizeof(*stack));
    stack->framework = framework;
    stack->engine = row->engine;
    stack->attention = default_attention(row, gpu);
    /* torchtitan asks torch for cuDNN's attention first, on all GPUs since its 0.2.0 (pull request 1776). */
    if (framework == TPP_FRAMEWORK_TORCHTITAN && gpu->compute_capability > 0 &&
        gpu->flash_forward_fraction[TPP_ATTENTION_FLASH3] > 0)
        stack->attention = TPP_ATTENTION_FLASH3;
    stack->norm_kernel = stack->activation_kernel = stack->rope_kernel = style;
    if (tpp_framework_is_eager_between_products(framework))
        stack->activation_kernel = stack->rope_kernel = TPP_KERNEL_EAGER;
    stack->loss_kernel = row->loss_kernel;
    stack->lm_head_output = row->lm_head_output;
    stack->keeps_logits = framework == TPP_FRAMEWORK_HF_TRAINER;
    stack->peft_adapters = framework == TPP_FRAMEWORK_HF_TRAINER || framework == TPP_FRAMEWORK_LLM_FOUNDRY;
    stack->qkv_views = framework == TPP_FRAMEWORK_LLM_FOUNDRY;
    stack->metric_logit_bytes = framework == TPP_FRAMEWORK_LLM_FOUNDRY ? composer_metric_logit_bytes : 0;
    stack->transformer_engine = row->transformer_engine;
    stack->tensor_parallel_async = row->tensor_parallel_async;
    stack->tensor_parallel_other = row->tensor_parallel_other;
    stack->memory_bound_factor = row->memory_bound_factor;
    stack->vocabulary_multiple = row->vocabulary_multiple;
    stack->scatter_gather = row->scatter_gather;
    stack->overlap_p2p = row->overlap_p2p;
    stack->fixed_seconds = fixed_seconds;
    stack->checkpoint_stops_early = framework == TPP_FRAMEWORK_TORCHTITAN || framework == TPP_FRAMEWORK_LLM_FOUNDRY;
    tpp_stack_set_dtypes(stack, job);
}

void tpp_stack_set_engine(struct tpp_stack *stack, enum tpp_engine engine, const struct tpp_gpu *gpu,
                          const struct tpp_job *job)
{
    if (stack->framework == TPP_FRAMEWORK_MS_SWIFT && engine == TPP_ENGINE_DEEPSPEED) {
        char release[sizeof stack->release];
        memcpy(release, stack->release, sizeof release);
        tpp_stack_defaults(TPP_FRAMEWORK_HF_TRAINER, gpu, job, stack);
        memcpy(stack->release, release, sizeof release);
        stack->framework = TPP_FRAMEWORK_MS_SWIFT;
    }
    stack->engine = engine;
    tpp_stack_set_dtypes(stack, job);
}

/* Bytes a parameter by engine and precision, cost-model 4.1 and 15.7 [exact]. */
static void set_engine_dtypes(struct tpp_stack *stack, const struct tpp_job *job)
{
    const bool fp32 = job->precision == TPP_PRECISION_FP32, fp16 = job->precision == TPP_PRECISION_FP16;
    const uint32_t w = fp32 ? 4 : 2;
    stack->fp32_accumulation = stack->engine == TPP_ENGINE_DEEPSPEED_PIPELINE && !fp16 && !fp32;
    stack->weight_bytes = stack->shard_weight_bytes = w;
    if (tpp_engine_is_fsdp(stack->engine)) {
        /* fp32 shards and their gradients, compute in w; reduced in fp32, but accelerate's policy has one type for parameters
           and reductions (FullyShardedDataParallelPlugin.set_mixed_precision) */
        stack->shard_weight_bytes = tpp_job_is_adapter(job) ? w : 4;
        stack->gradient_bytes = 4;
        stack->reduce_bytes = stack->framework == TPP_FRAMEWORK_HF_TRAINER ? w : 4;
        stack->optimizer_bytes = 8;
        return;
    }
    switch (stack->engine) {
    case TPP_ENGINE_MEGATRON:
        stack->gradient_bytes = stack->reduce_bytes = fp16 ? 2 : 4;
        stack->optimizer_bytes = fp32 ? 8 : fp16 ? 16 : 12;
        return;
    case TPP_ENGINE_DEEPSPEED_PIPELINE:
        stack->gradient_bytes = w;
        stack->reduce_bytes = fp16 ? 2 : 4;
        stack->optimizer_bytes = fp32 ? 8 : fp16 ? 16 : 12;
        return;
    case TPP_ENGINE_DEEPSPEED:
        stack->gradient_bytes = stack->reduce_bytes = w;
        stack->optimizer_bytes = fp32 ? 8 : 16;
        return;
    default: /* DDP under autocast: fp32 weights and states, a 16-bit copy in compute */
        stack->gradient_bytes = stack->reduce_bytes = 4;
        stack->optimizer_bytes = fp32 ? 8 : 12;
        return;
    }
}

/* Of 12 bytes with moments in bf16, 8 would be left; the master weight keeps the half alone that a bf16 weight lacks of it. */
void tpp_stack_set_optimizer(struct tpp_stack *stack, enum tpp_optimizer optimizer)
{
    static const double moments[] = {8, 4, TPP_ADAMW_8BIT_BYTES};
    stack->optimizer_bytes += moments[optimizer] - moments[stack->optimizer];
    stack->optimizer = optimizer;
    stack->moment_bytes = moments[optimizer];
    if (optimizer == TPP_OPTIMIZER_ADAMW_BF16 && stack->optimizer_bytes == 8)
        stack->optimizer_bytes = 6;
}

void tpp_stack_set_cuda_graphs(struct tpp_stack *stack, uint32_t parts, bool dropless)
{
    stack->cuda_graphs = true;
    stack->graph_parts = parts == 0 && dropless ? TPP_GRAPH_ATTENTION | TPP_GRAPH_ROUTER : parts;
}

void tpp_stack_set_deterministic(struct tpp_stack *stack, const struct tpp_gpu *gpu)
{
    stack->deterministic = true;
    stack->accumulator_blocks = gpu->num_sms;
}

void tpp_stack_set_fp8_weights(struct tpp_stack *stack, const struct tpp_job *job, bool fp8_weights)
{
    stack->fp8_weights = fp8_weights && tpp_precision_is_fp8(job->precision);
    /* MXFP8: bf16 into the gradient buffer (reuse_grad_buf_for_mxfp8_param_ag). */
    const bool travels_in_fp8 = stack->fp8_weights && job->precision != TPP_PRECISION_MXFP8;
    stack->gathered_linear_bytes = travels_in_fp8 ? 1 : stack->weight_bytes;
    stack->gathered_rest_bytes = stack->weight_bytes;
}

double tpp_stack_linear_weight_bytes(const struct tpp_stack *stack, const struct tpp_gpu *gpu, const struct tpp_job *job)
{
    static const double mx_scale = 1.0 / 32;
    if (job->task == TPP_TASK_QLORA)
        return TPP_NF4_BYTES;
    if (!tpp_precision_is_fp8(job->precision) || !stack->transformer_engine || stack->engine != TPP_ENGINE_MEGATRON)
        return stack->weight_bytes;
    const double copies = job->precision == TPP_PRECISION_FP8 && gpu->compute_capability >= 10 ? 1 : 2;
    const double quantised = copies * (job->precision == TPP_PRECISION_MXFP8 ? 1 + mx_scale : 1);
    return stack->fp8_weights ? quantised : stack->weight_bytes + quantised;
}

/* Megatron's fp16 training and DeepSpeed's ZeRO make an fp32 copy of 16-bit gradients for the step. */
void tpp_stack_set_gradient_bytes(struct tpp_stack *stack, uint32_t gradient_bytes)
{
    if (gradient_bytes == 4 && stack->gradient_bytes < 4 && stack->optimizer_bytes - stack->moment_bytes >= 8)
        stack->optimizer_bytes -= 4;
    stack->gradient_bytes = gradient_bytes;
}

void tpp_stack_set_dtypes(struct tpp_stack *stack, const struct tpp_job *job)
{
    set_engine_dtypes(stack, job);
    /* NeMo's and Megatron-Bridge's bf16_with_fp8_mixed set fp8_params or fp8_param_gather, but for subchannel scaling. */
    tpp_stack_set_fp8_weights(stack, job,
                              stack->framework == TPP_FRAMEWORK_NEMO && job->precision != TPP_PRECISION_FP8_BLOCK);
    stack->optimizer = TPP_OPTIMIZER_ADAMW;
    tpp_stack_set_optimizer(stack, job->optimizer);
    if (job->gradient_type == TPP_GRADIENT_DEFAULT)
        return;
    stack->reduce_bytes = job->gradient_type == TPP_GRADIENT_FP32 ? 4 : 2;
    /* FSDP sums in the type of its shards. */
    if (stack->engine == TPP_ENGINE_MEGATRON || stack->engine == TPP_ENGINE_DEEPSPEED)
        tpp_stack_set_gradient_bytes(stack, stack->reduce_bytes);
}

struct tpp_state_bytes tpp_stack_state_bytes(const struct tpp_stack *stack)
{
    const double moments = fmin(stack->optimizer_bytes, stack->moment_bytes);
    const uint32_t rest = (uint32_t)(stack->optimizer_bytes - moments), master = rest < 4 ? rest : 4;
    return (struct tpp_state_bytes){
        .weights = tpp_engine_is_fsdp(stack->engine) ? stack->shard_weight_bytes : stack->weight_bytes,
        .gradients = stack->gradient_bytes,
        .master_weights = master,
        .gradient_copies = rest - master,
        .moments = moments,
    };
}

double tpp_stack_gathered_bytes(const struct tpp_stack *stack, double parameters, double linear)
{
    return stack->gathered_rest_bytes * (parameters - linear) + stack->gathered_linear_bytes * linear;
}

double tpp_stack_layer_gathered_bytes(const struct tpp_stack *stack, const struct tpp_job *job, double parameters,
                                      double linear)
{
    const double bytes = tpp_stack_gathered_bytes(stack, parameters, linear);
    return job->task == TPP_TASK_QLORA ? bytes - (stack->gathered_linear_bytes - TPP_NF4_BYTES) * linear : bytes;
}

static bool has_optimizer(const struct tpp_stack *stack)
{
    const bool is_other = stack->framework == TPP_FRAMEWORK_OTHER;
    if (stack->optimizer == TPP_OPTIMIZER_ADAMW_BF16)
        return (stack->engine == TPP_ENGINE_MEGATRON || stack->engine == TPP_ENGINE_FSDP2) &&
               (stack->framework == TPP_FRAMEWORK_MEGATRON_LM || stack->framework == TPP_FRAMEWORK_NEMO ||
                stack->framework == TPP_FRAMEWORK_MS_SWIFT || is_other);
    return stack->optimizer == TPP_OPTIMIZER_ADAMW ||
           (tpp_stack_is_plain_torch(stack) && stack->framework != TPP_FRAMEWORK_LLM_FOUNDRY) || is_other;
}

/* Megatron's --grad-reduce-in-bf16 and --accumulate-allreduce-grads-in-fp32, FSDP's reduce_dtype, DeepSpeed's
 * data_types.grad_accum_dtype with communication_data_type, which its pipeline engine decides by itself. ms-swift has bf16
 * as the main_grads_dtype of its precision-aware optimizer alone; nanotron's accumulate_grad_in_fp32: false makes the
 * moments 16-bit too, and keeps no master weights. */
static bool has_gradient_type(const struct tpp_stack *stack, const struct tpp_job *job)
{
    if (job->gradient_type == TPP_GRADIENT_DEFAULT)
        return true;
    if (tpp_engine_is_fsdp(stack->engine)) /* torchtitan's mixed_precision_reduce knows float32 alone */
        return stack->framework != TPP_FRAMEWORK_TORCHTITAN || job->gradient_type == TPP_GRADIENT_FP32;
    if (stack->engine == TPP_ENGINE_DEEPSPEED)
        return job->gradient_type == TPP_GRADIENT_FP32 && job->precision != TPP_PRECISION_FP32;
    if (stack->engine != TPP_ENGINE_MEGATRON || job->precision == TPP_PRECISION_FP32)
        return false;
    if (job->gradient_type == TPP_GRADIENT_FP32)
        return true;
    return job->precision != TPP_PRECISION_FP16 && stack->framework != TPP_FRAMEWORK_NANOTRON &&
           (stack->framework != TPP_FRAMEWORK_MS_SWIFT || stack->optimizer == TPP_OPTIMIZER_ADAMW_BF16);
}

enum tpp_code tpp_stack_check(const struct tpp_stack *stack, const struct tpp_gpu *gpu, const struct tpp_job *job,
                              struct tpp_error *err)
{
    if (stack->attention < TPP_FLASH_KERNEL_COUNT && gpu->flash_forward_fraction[stack->attention] <= 0)
        return tpp_fail(err, TPP_E_UNSUPPORTED, "stack.attention", "choose another attention kernel",
                        "%s has no %s attention kernel", gpu->name, tpp_attention_kernel_name(stack->attention));
    if (tpp_precision_is_fp8(job->precision) && gpu->fp8_flops_per_second <= 0)
        return tpp_fail(err, TPP_E_UNSUPPORTED, "job.precision",
                        gpu->has_bf16 ? "use bf16, or a GPU with FP8 tensor cores"
                                      : "use fp16, or a GPU with FP8 tensor cores",
                        "%s has no FP8 tensor cores", gpu->name);
    if (job->precision == TPP_PRECISION_BF16 && !gpu->has_bf16)
        return tpp_fail(err, TPP_E_UNSUPPORTED, "job.precision", "use fp16", "%s has no bf16 tensor cores", gpu->name);
    if (!has_optimizer(stack))
        return tpp_fail(err, TPP_E_UNSUPPORTED, "job.optimizer",
                        "adamw-bf16 is Megatron-Core's, adamw-8bit that of programs that take bitsandbytes' optimizers",
                        "%s with the engine %s has no %s", tpp_framework_name(stack->framework),
                        tpp_engine_name(stack->engine), tpp_optimizer_name(stack->optimizer));
    if (!has_gradient_type(stack, job))
        return tpp_fail(err, TPP_E_UNSUPPORTED, "job.gradient_type", "leave it to the framework",
                        "the type of gradients cannot be chosen in %s with the engine %s and %s",
                        tpp_framework_name(stack->framework), tpp_engine_name(stack->engine),
                        tpp_precision_name(job->precision));
    if (!(stack->memory_bound_factor > 0) || !(stack->fixed_seconds >= 0) || stack->vocabulary_multiple < 1 ||
        stack->weight_bytes < 1)
        return tpp_fail(err, TPP_E_RANGE, "stack", NULL, "the stack's factors and sizes must be positive");
    return TPP_OK;
}

bool tpp_framework_is_eager_between_products(enum tpp_framework framework)
{
    return framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED;
}

bool tpp_engine_is_fsdp(enum tpp_engine engine)
{
    return engine == TPP_ENGINE_FSDP1 || engine == TPP_ENGINE_FSDP2;
}

bool tpp_engine_is_deepspeed(enum tpp_engine engine)
{
    return engine == TPP_ENGINE_DEEPSPEED || engine == TPP_ENGINE_DEEPSPEED_PIPELINE;
}

bool tpp_stack_is_plain_torch(const struct tpp_stack *stack)
{
    return stack->framework == TPP_FRAMEWORK_HF_TRAINER || stack->framework == TPP_FRAMEWORK_LLM_FOUNDRY ||
           stack->framework == TPP_FRAMEWORK_OTHER ||
           (stack->framework == TPP_FRAMEWORK_MS_SWIFT && stack->engine == TPP_ENGINE_DEEPSPEED); /* swift sft */
}

const char *tpp_framework_name(enum tpp_framework framework)
{
    return frameworks[framework].name;
}

bool tpp_framework_parse(const char *text, enum tpp_framework *out)
{
    if (strcmp(text, "megatron-bridge") == 0) /* what NeMo became */
        text = frameworks[TPP_FRAMEWORK_NEMO].name;
    if (strcmp(text, "accelerate") == 0)
        text = frameworks[TPP_FRAMEWORK_HF_TRAINER].name;
    for (int i = 0; i < TPP_FRAMEWORK_COUNT; i++) {
        if (strcmp(text, frameworks[i].name) == 0) {
            *out = (enum tpp_framework)i;
            return true;
        }
    }
    return false;
}

bool tpp_framework_has_engine(enum tpp_framework framework, enum tpp_engine engine)
{
#define BIT(engine) (1u << (engine))
    static const unsigned engines[TPP_FRAMEWORK_COUNT] = {
        [TPP_FRAMEWORK_MEGATRON_LM] = BIT(TPP_ENGINE_MEGATRON) | BIT(TPP_ENGINE_FSDP2),
        [TPP_FRAMEWORK_MEGATRON_DEEPSPEED] = BIT(TPP_ENGINE_DEEPSPEED) | BIT(TPP_ENGINE_DEEPSPEED_PIPELINE),
        [TPP_FRAMEWORK_NEMO] = BIT(TPP_ENGINE_MEGATRON) | BIT(TPP_ENGINE_FSDP2),
        [TPP_FRAMEWORK_MS_SWIFT] = BIT(TPP_ENGINE_MEGATRON) | BIT(TPP_ENGINE_DEEPSPEED) | BIT(TPP_ENGINE_FSDP2),
        [TPP_FRAMEWORK_TORCHTITAN] = BIT(TPP_ENGINE_FSDP2) | BIT(TPP_ENGINE_DDP),
        [TPP_FRAMEWORK_LLM_FOUNDRY] = BIT(TPP_ENGINE_FSDP1) | BIT(TPP_ENGINE_DDP),
        [TPP_FRAMEWORK_HF_TRAINER] =
            BIT(TPP_ENGINE_FSDP1) | BIT(TPP_ENGINE_FSDP2) | BIT(TPP_ENGINE_DEEPSPEED) | BIT(TPP_ENGINE_DDP),
        [TPP_FRAMEWORK_NANOTRON] = BIT(TPP_ENGINE_DDP) | BIT(TPP_ENGINE_MEGATRON),
        [TPP_FRAMEWORK_OTHER] = ~0u,
    };
    return (engines[framework] & BIT(engine)) != 0;
#undef BIT
}

const char *tpp_engine_name(enum tpp_engine engine)
{
    return engine_names[engine];
}

bool tpp_engine_parse(const char *text, enum tpp_engine *out)
{
    for (int i = 0; i < TPP_ENGINE_COUNT; i++) {
        if (strcmp(text, engine_names[i]) == 0) {
            *out = (enum tpp_engine)i;
            return true;
        }
    }
    return false;
}

bool tpp_attention_kernel_parse(const char *text, enum tpp_attention_kernel *out)
{
    for (int i = 0; i < TPP_ATTENTION_KERNEL_COUNT; i++) {
        if (strcmp(text, tpp_attention_kernel_name((enum tpp_attention_kernel)i)) == 0) {
            *out = (enum tpp_attention_kernel)i;
            return true;
        }
    }
    return false;
}
