/* plan_job.c - precision, batch, optimizer, and the software that the options choose. */
#include "planner/launch/plan_parts.h"

#include <stdio.h>
#include <string.h>

static enum tpp_precision fp8_precision(enum tpp_rule_fp8_recipe recipe)
{
    return recipe == TPP_RULE_FP8_MXFP8       ? TPP_PRECISION_MXFP8
           : recipe == TPP_RULE_FP8_BLOCKWISE ? TPP_PRECISION_FP8_BLOCK
                                              : TPP_PRECISION_FP8;
}

static bool is_argument(const struct tpp_plan_source *r, const char *name, const char *const values[])
{
    const struct tpp_argument *a = tpp_argument_find(r->arguments, name);
    for (size_t i = 0; a != NULL && a->num_values == 1 && values[i] != NULL; i++) {
        if (strcmp(a->values[0].text, values[i]) == 0)
            return true;
    }
    return false;
}

/* Both moments in bf16; bitsandbytes' AdamW in 8 bits, by the Trainer's names. */
static enum tpp_optimizer read_optimizer(const struct tpp_plan_source *r)
{
    static const char *const bf16[] = {"bf16", "bfloat16", "torch.bfloat16", NULL};
    static const char *const moments[][2] = {{"--exp-avg-dtype", "--exp-avg-sq-dtype"},
                                             {"--exp_avg_dtype", "--exp_avg_sq_dtype"},
                                             {"optimizer.exp_avg_dtype", "optimizer.exp_avg_sq_dtype"}};
    static const char *const in_8_bits[] = {"adamw_bnb_8bit", "adamw_8bit", NULL};
    if (is_argument(r, "--optim", in_8_bits))
        return TPP_OPTIMIZER_ADAMW_8BIT;
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        if (is_argument(r, moments[i][0], bf16) && is_argument(r, moments[i][1], bf16))
            return TPP_OPTIMIZER_ADAMW_BF16;
    }
    return TPP_OPTIMIZER_ADAMW;
}

/* What is the default of a precision counts as not chosen. The narrow gradients of ms-swift without narrow moments are
 * not modelled. */
static enum tpp_gradient_type read_gradient_type(const struct tpp_megatron_settings *s, enum tpp_optimizer optimizer)
{
    const struct tpp_rule_settings *rules = &s->rules;
    if (rules->fp16 && s->gradients_in_fp32)
        return TPP_GRADIENT_FP32;
    if ((rules->fp16 || rules->bf16) && s->config.is_known && !rules->pipeline_engine &&
        s->config.sums_in == TPP_DEEPSPEED_FP32 && s->config.reduces_in == TPP_DEEPSPEED_FP32)
        return TPP_GRADIENT_FP32;
    const bool is_modelled = rules->framework != TPP_FRAMEWORK_MS_SWIFT || optimizer == TPP_OPTIMIZER_ADAMW_BF16;
    return rules->bf16 && s->gradients_in_bf16 && is_modelled ? TPP_GRADIENT_BF16 : TPP_GRADIENT_DEFAULT;
}

/* Tokens beyond the capacity are dropped in any case; the rows are padded to it only when that is asked for, which
 * DeepSpeed always does: with a factor of 1 unless another is given (deepspeed/moe/layer.py). */
static double read_capacity(const struct tpp_plan_source *r)
{
    static const char *const names[] = {"--moe-expert-capacity-factor", "--moe_expert_capacity_factor",
                                        "model.moe_expert_capacity_factor", "--moe-train-capacity-factor"};
    const struct tpp_rule_settings *rules = &r->s->rules;
    const bool is_deepspeed = rules->framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED;
    double factor = is_deepspeed ? 1 : 0;
    if (!tpp_plan_is_set(rules->num_experts) || (!is_deepspeed && !rules->pad_to_capacity) ||
        tpp_argument_find(r->arguments, "--disable-moe-token-dropping") != NULL)
        return 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct tpp_argument *given = tpp_argument_find(r->arguments, names[i]);
        if (given != NULL && given->is_known && !given->is_null)
            tpp_argument_number(given->values[0].text, &factor);
    }
    return factor > 0 ? factor : 0;
}

void tpp_plan_read_job(const struct tpp_plan_source *r, struct tpp_job *job)
{
    const struct tpp_megatron_settings *s = r->s;
    const struct tpp_rule_settings *rules = &s->rules;
    int64_t model_parallel = rules->tensor_parallel * rules->pipeline_parallel * rules->context_parallel;
    int64_t replicas = model_parallel > 0 ? rules->world_size / model_parallel : 1;
    *job = tpp_job_defaults();
    job->num_gpus = tpp_plan_size_of(rules->world_size);
    job->sequence_length = rules->sequence_length > 0 ? (uint64_t)rules->sequence_length : 0;
    job->global_batch_size = (uint64_t)tpp_plan_or_else(rules->global_batch_size, rules->micro_batch_size * replicas);
    job->precision = rules->fp8 != TPP_RULE_FP8_NONE ? fp8_precision(rules->fp8_recipe)
                     : rules->fp16                   ? TPP_PRECISION_FP16
                     : rules->bf16                   ? TPP_PRECISION_BF16
                                                     : TPP_PRECISION_FP32;
    job->mtp_num_layers = s->trains_adapters ? 0 : tpp_plan_size_of(tpp_plan_or_else(rules->mtp_num_layers, 0));
    job->lora_rank = s->trains_adapters ? tpp_plan_size_of(s->lora_rank) : job->lora_rank;
    job->lora_targets = s->trains_adapters ? s->lora_targets : job->lora_targets;
    job->task = s->trains_adapters    ? (s->quantised ? TPP_TASK_QLORA : TPP_TASK_LORA)
                : s->gives_checkpoint ? TPP_TASK_SFT
                                      : TPP_TASK_PRETRAIN;
    job->optimizer = read_optimizer(r);
    job->gradient_type = read_gradient_type(s, job->optimizer);
    job->expert_capacity_factor = read_capacity(r);
    job->hidden_dropout = s->hidden_dropout;
    job->attention_dropout = s->attention_dropout;
}

static void read_attention_kernel(const struct tpp_megatron_settings *s, enum tpp_release release,
                                  const struct tpp_gpu *gpu, struct tpp_stack *stack)
{
    bool has_flash2 = gpu->flash_forward_fraction[TPP_ATTENTION_FLASH2] > 0;
    bool uses_flash =
        s->attention == TPP_MEGATRON_ATTENTION_FLASH || (release < TPP_RELEASE_0_11 && s->flash_attention);
    if (s->attention == TPP_MEGATRON_ATTENTION_UNFUSED || s->attention == TPP_MEGATRON_ATTENTION_LOCAL ||
        (s->rules.local_transformer && !s->flash_attention && s->attention == TPP_MEGATRON_ATTENTION_AUTO))
        stack->attention = TPP_ATTENTION_FUSED_SOFTMAX;
    else if (s->flash_3 && gpu->flash_forward_fraction[TPP_ATTENTION_FLASH3] > 0)
        stack->attention = TPP_ATTENTION_FLASH3;
    else if (uses_flash && has_flash2)
        stack->attention = TPP_ATTENTION_FLASH2;
}

/* One of the two types alone; both in fp32 are the job's. The pipeline engine sums as it does. */
static void read_deepspeed_types(const struct tpp_deepspeed_config *config, struct tpp_stack *stack)
{
    static const uint32_t bytes[] = {0, 4, 2, 2};
    if (!tpp_engine_is_deepspeed(stack->engine))
        return;
    if (config->reduces_in != TPP_DEEPSPEED_TYPE_UNSET)
        stack->reduce_bytes = bytes[config->reduces_in];
    if (config->sums_in != TPP_DEEPSPEED_TYPE_UNSET && stack->engine == TPP_ENGINE_DEEPSPEED)
        tpp_stack_set_gradient_bytes(stack, bytes[config->sums_in]);
}

/* Megatron-DeepSpeed: the engine that runs, unfused attention unless it is asked for. */
static void read_deepspeed_stack(const struct tpp_megatron_settings *s, const struct tpp_hardware *hardware,
                                 const struct tpp_job *job, struct tpp_stack *stack)
{
    const struct tpp_gpu *gpu = &hardware->gpu;
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_DEEPSPEED, gpu, job, stack);
    stack->engine = !s->deepspeed              ? TPP_ENGINE_MEGATRON
                    : s->rules.pipeline_engine ? TPP_ENGINE_DEEPSPEED_PIPELINE
                                               : TPP_ENGINE_DEEPSPEED;
    tpp_stack_set_dtypes(stack, job);
    read_deepspeed_types(&s->config, stack);
    stack->attention = s->flash_attention && gpu->flash_forward_fraction[TPP_ATTENTION_FLASH2] > 0
                           ? TPP_ATTENTION_FLASH2
                           : TPP_ATTENTION_FUSED_SOFTMAX;
}

/* --fp8-format chooses between formats of one size. PyTorch's FSDP2 gathers in 16 bits whatever is asked for. */
static void read_fp8(const struct tpp_rule_settings *rules, const struct tpp_job *job, struct tpp_stack *stack)
{
    stack->current_scaling = rules->fp8 != TPP_RULE_FP8_NONE && rules->fp8_recipe == TPP_RULE_FP8_TENSORWISE;
    tpp_stack_set_fp8_weights(stack, job, rules->fp8_param_gather && !rules->torch_fsdp2);
}

static void read_stack(const struct tpp_megatron_settings *s, enum tpp_release release,
                       const struct tpp_hardware *hardware, const struct tpp_job *job, struct tpp_stack *stack)
{
    const struct tpp_rule_settings *rules = &s->rules;
    tpp_stack_defaults(rules->framework, &hardware->gpu, job, stack);
    if (rules->framework == TPP_FRAMEWORK_MEGATRON_LM)
        snprintf(stack->release, sizeof stack->release, "%s", tpp_release_name(release));
    if (rules->torch_fsdp2 || rules->megatron_fsdp)
        stack->engine = TPP_ENGINE_FSDP2;
    tpp_stack_set_dtypes(stack, job);
    read_fp8(rules, job, stack);
    read_attention_kernel(s, release, &hardware->gpu, stack);
    stack->transformer_engine = !rules->local_transformer;
    if (rules->local_transformer)
        stack->memory_bound_factor = 1.2; /* cost-model 5.3: kernels of Megatron's own */
    /* Megatron-Bridge's determinism switches the fusion off, Megatron-LM refuses it. */
    stack->loss_kernel = s->cross_entropy_fusion && !s->deterministic ? TPP_LOSS_FUSED : TPP_LOSS_UNFUSED;
    stack->overlap_p2p = rules->overlap_p2p;
    if (rules->cuda_graph != TPP_RULE_GRAPH_NONE)
        tpp_stack_set_cuda_graphs(stack, s->graph_parts,
                                  tpp_plan_is_set(rules->num_experts) && !(job->expert_capacity_factor > 0));
    stack->tensor_parallel_async = rules->async_tensor_all_reduce;
    if (s->deterministic)
        tpp_stack_set_deterministic(stack, &hardware->gpu);
}

/* Hugging Face's layers under DeepSpeed, FSDP or DistributedDataParallel. */
static void read_trainer_stack(const struct tpp_megatron_settings *s, const struct tpp_hardware *hardware,
                               const struct tpp_job *job, struct tpp_stack *stack)
{
    const bool is_fsdp = !s->deepspeed && s->rules.fsdp_version > 0;
    /* ms-swift's own FSDP is Megatron's: under swift sft it is the Trainer's. */
    const enum tpp_framework framework = is_fsdp ? TPP_FRAMEWORK_HF_TRAINER : s->rules.framework;
    tpp_stack_defaults(framework, &hardware->gpu, job, stack);
    const enum tpp_engine engine = s->deepspeed ? TPP_ENGINE_DEEPSPEED
                                   : is_fsdp    ? s->rules.fsdp_version == 2 ? TPP_ENGINE_FSDP2 : TPP_ENGINE_FSDP1
                                   : framework == TPP_FRAMEWORK_MS_SWIFT ? TPP_ENGINE_DEEPSPEED
                                                                         : TPP_ENGINE_DDP;
    tpp_stack_set_engine(stack, engine, &hardware->gpu, job);
    read_deepspeed_types(&s->config, stack);
    if (s->attention == TPP_MEGATRON_ATTENTION_LOCAL)
        stack->attention = TPP_ATTENTION_EAGER;
}

void tpp_plan_read_stack(const struct tpp_plan_source *r, const struct tpp_hardware *hardware,
                         const struct tpp_job *job, struct tpp_stack *stack)
{
    if (r->s->rules.framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED)
        read_deepspeed_stack(r->s, hardware, job, stack);
    else if (r->s->rules.engine_follows_stages)
        read_trainer_stack(r->s, hardware, job, stack);
    else
        read_stack(r->s, r->release, hardware, job, stack);
}
