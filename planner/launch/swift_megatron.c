/* swift_megatron.c - the launch script of ms-swift's megatron side: megatron sft and megatron pt (launch formats,
 * section 4). The shape of the model is not written: it comes from the model's own files. */
#include "costmodel/sequence_lengths.h"
#include "planner/launch/emitter.h"
#include "planner/launch/refusal.h"

#include <stdio.h>

#define NAME "ms-swift"

#define CANNOT NAME " cannot run this plan:"
#define CHOOSE "choose another plan or framework"

enum tpp_code tpp_launch_check_swift_megatron(const struct tpp_launch_request *request, struct tpp_error *err)
{
    const struct tpp_stack *stack = request->stack;
    const struct tpp_job *job = request->job;
    const bool is_fsdp = tpp_engine_is_fsdp(stack->engine);
    const struct tpp_refusal refusals[] = {
        {tpp_version_is_before(stack->release, 4, 0), "release",
         "scripts are written with the options of 4.0 and newer", true},
        {job->task == TPP_TASK_QLORA, "job.task", "its megatron side trains no quantised weights"},
        {job->task == TPP_TASK_LORA && job->lora_targets == TPP_LORA_QV, "job.lora_targets",
         "q, k and v are one layer there"},
        {job->hidden_dropout > 0 || job->attention_dropout > 0, "job.hidden_dropout", "dropout is the model's own"},
        {job->precision == TPP_PRECISION_FP32, "job.precision", "it trains in 16 bits or FP8"},
        {job->precision == TPP_PRECISION_FP16 && is_fsdp, "job.precision", "plans with its FSDP are for bf16 and FP8"},
        {job->gradient_type != TPP_GRADIENT_DEFAULT && is_fsdp, "job.gradient_type",
         "its FSDP has no option for the type of gradients"},
        {stack->attention == TPP_ATTENTION_FLASH1 || stack->attention == TPP_ATTENTION_EAGER, "stack.attention",
         "it has FlashAttention 2 and 3, and Transformer Engine's own"},
        {!stack->transformer_engine, "stack.transformer_engine", "its layers are Transformer Engine's"},
        {stack->loss_kernel != TPP_LOSS_FUSED && stack->loss_kernel != TPP_LOSS_UNFUSED, "stack.loss_kernel",
         "it has no such kernel"},
        {stack->cuda_graphs, "stack.cuda_graphs", "it has no CUDA graphs"},
    };
    return tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, CANNOT, CHOOSE, err);
}

static enum tpp_code check_plan(const struct tpp_launch_request *request, struct tpp_error *err)
{
    const struct tpp_strategy *s = request->strategy;
    const bool is_fsdp = tpp_engine_is_fsdp(request->stack->engine);
    const struct tpp_refusal refusals[] = {
        {s->offload_layers > 0, "strategy.offload_layers", "it does not offload activations"},
        {s->dispatch == TPP_DISPATCH_HYBRIDEP, "strategy.dispatch", "it has the all-to-all and DeepEP"},
        {s->expert_overlap, "strategy.expert_overlap", "it does not overlap the exchange of experts"},
        {s->last_chunk_less > 0 && s->account_for_loss, "strategy.last_chunk_less",
         "the loss is counted as a layer, or its chunk is made shorter"},
        {!is_fsdp && s->zero_stage > 1, "strategy.zero_stage",
         "ZeRO stages 2 and 3 need the engine deepspeed or fsdp2"},
    };
    enum tpp_code code = tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, CANNOT, CHOOSE, err);
    return code == TPP_OK ? tpp_launch_check_core(request, CANNOT, err) : code;
}

static void write_switch(struct tpp_script *script, const char *name, bool is_on)
{
    tpp_script_expression(script, name, is_on ? "true" : "false");
}

static void write_optional(struct tpp_script *script, const char *name, int64_t value)
{
    if (value != TPP_RULE_UNSET)
        tpp_script_integer(script, name, value);
}

static void write_required(struct tpp_script *script, const struct tpp_launch_request *request)
{
    tpp_script_comment(script, "What only you know. More options may follow the name of this script; the last one of a "
                               "name wins.");
    tpp_script_required(script, "MODEL", "the name or folder of the model, with its config.json");
    tpp_script_required(script, "DATASET", "the name or file of the data set");
    tpp_script_required(script, "OUTPUT_DIR", "the folder that checkpoints are written to");
    tpp_script_required(script, "TRAIN_ITERS", "the number of optimizer steps");
    tpp_script_required(script, "LR", "the peak learning rate");
    tpp_script_required_nodes(script, request);
    tpp_text_append(script->out, "\n");
}

/* Rows of an expert, padded up to its capacity; tokens beyond it are dropped. */
static void write_experts(struct tpp_script *script, const struct tpp_launch_request *request,
                          const struct tpp_rule_settings *rules)
{
    const double capacity = request->job->expert_capacity_factor;
    tpp_script_integer(script, "--expert_model_parallel_size", request->strategy->expert_parallel);
    tpp_script_integer(script, "--expert_tensor_parallel_size", rules->expert_tensor_parallel);
    if (request->strategy->shared_overlap)
        write_switch(script, "--moe_shared_expert_overlap", true);
    if (rules->dispatcher == TPP_RULE_FLEX) {
        tpp_script_word(script, "--moe_token_dispatcher_type", "flex");
        write_switch(script, "--moe_enable_deepep", true);
    } else if (rules->dispatcher == TPP_RULE_ALLGATHER) {
        tpp_script_word(script, "--moe_token_dispatcher_type", "allgather");
    }
    if (!(capacity > 0))
        return;
    tpp_script_number(script, "--moe_expert_capacity_factor", capacity);
    write_switch(script, "--moe_pad_expert_input_to_capacity", true);
}

static void write_parallel(struct tpp_script *script, const struct tpp_launch_request *request,
                           const struct tpp_rule_settings *rules)
{
    const struct tpp_strategy *s = request->strategy;
    static const char *const kinds[] = {"p2p", "all_gather", "a2a"};
    tpp_script_array_begin(script, "PARALLEL_ARGS");
    tpp_script_integer(script, "--tensor_model_parallel_size", s->tensor_parallel);
    tpp_script_integer(script, "--pipeline_model_parallel_size", s->pipeline_parallel);
    if (rules->pipeline_layout != NULL)
        tpp_script_word(script, "--pipeline_model_parallel_layout", rules->pipeline_layout);
    else if (s->virtual_pipeline_stages > 1)
        tpp_script_integer(script, "--virtual_pipeline_model_parallel_size", s->virtual_pipeline_stages);
    write_optional(script, "--microbatch_group_size_per_vp_stage", rules->microbatch_group_size);
    write_optional(script, "--decoder_first_pipeline_num_layers", rules->first_stage_layers);
    write_optional(script, "--decoder_last_pipeline_num_layers", rules->last_stage_layers);
    if (rules->account_for_embedding)
        write_switch(script, "--account_for_embedding_in_pipeline_split", true);
    if (rules->account_for_loss)
        write_switch(script, "--account_for_loss_in_pipeline_split", true);
    tpp_script_integer(script, "--context_parallel_size", s->context_parallel);
    if (s->context_parallel > 1)
        tpp_script_word(script, "--cp_comm_type", kinds[s->context_kind]);
    write_switch(script, "--sequence_parallel", s->sequence_parallel);
    if (s->tp_comm_overlap)
        write_switch(script, "--tp_comm_overlap", true);
    if (rules->num_experts != TPP_RULE_UNSET)
        write_experts(script, request, rules);
    tpp_script_array_end(script);
}

/* One option with a list of words behind it. */
static void write_recompute_modules(struct tpp_script *script, uint32_t modules)
{
    char words[128] = "";
    size_t length = 0;
    for (uint32_t bit = 1; bit <= TPP_MODULE_ALL; bit <<= 1)
        if (modules & bit)
            length += (size_t)snprintf(words + length, sizeof words - length, "%s%s", length > 0 ? " " : "",
                                       tpp_recompute_module_name(bit));
    if (length > 0)
        tpp_script_expression(script, "--recompute_modules", words);
}

static void write_recompute(struct tpp_script *script, const struct tpp_rule_settings *rules,
                            const struct tpp_strategy *s)
{
    tpp_script_word(script, "--recompute_granularity", tpp_recompute_name(s->recompute));
    if (s->recompute == TPP_RECOMPUTE_SELECTIVE)
        write_recompute_modules(script, s->recompute_modules);
    if (s->recompute != TPP_RECOMPUTE_FULL)
        return;
    tpp_script_word(script, "--recompute_method",
                    rules->recompute_method == TPP_RULE_METHOD_BLOCK ? "block" : "uniform");
    tpp_script_integer(script, "--recompute_num_layers", rules->recompute_num_layers);
}

static void write_fp8(struct tpp_script *script, const struct tpp_rule_settings *rules)
{
    static const char *const recipes[] = {"delayed", "tensorwise", "mxfp8", "blockwise"};
    if (rules->fp8 == TPP_RULE_FP8_NONE)
        return;
    tpp_script_word(script, "--fp8_format", rules->fp8 == TPP_RULE_FP8_E4M3 ? "e4m3" : "hybrid");
    tpp_script_word(script, "--fp8_recipe", recipes[rules->fp8_recipe]);
    if (rules->fp8_param_gather)
        write_switch(script, "--fp8_param_gather", true);
}

static void write_precision(struct tpp_script *script, const struct tpp_launch_request *request,
                            const struct tpp_rule_settings *rules)
{
    const bool is_fp16 = request->job->precision == TPP_PRECISION_FP16;
    const enum tpp_attention_kernel attention = request->stack->attention;
    write_switch(script, is_fp16 ? "--fp16" : "--bf16", true);
    write_fp8(script, rules);
    tpp_script_word(script, "--attention_backend",
                    attention == TPP_ATTENTION_FLASH2   ? "flash"
                    : attention == TPP_ATTENTION_FLASH3 ? "flash_3"
                                                        : "unfused");
    write_switch(script, "--cross_entropy_loss_fusion", request->stack->loss_kernel == TPP_LOSS_FUSED);
}

/* The adapters' layers by Megatron Core's names. */
static void write_tuner(struct tpp_script *script, const struct tpp_job *job)
{
    const bool is_adapter = tpp_job_is_adapter(job);
    tpp_script_word(script, "--tuner_type", is_adapter ? "lora" : "full");
    if (!is_adapter)
        return;
    tpp_script_integer(script, "--lora_rank", job->lora_rank);
    tpp_script_integer(script, "--lora_alpha", 2 * (int64_t)job->lora_rank);
    tpp_script_expression(script, "--target_modules",
                          job->lora_targets == TPP_LORA_ALL_LINEAR  ? "all-linear"
                          : job->lora_targets == TPP_LORA_ATTENTION ? "linear_qkv linear_proj"
                                                                    : "linear_qkv");
}

static void write_training(struct tpp_script *script, const struct tpp_launch_request *request,
                           const struct tpp_rule_settings *rules)
{
    const struct tpp_strategy *s = request->strategy;
    tpp_script_array_begin(script, "TRAINING_ARGS");
    write_tuner(script, request->job);
    tpp_script_integer(script, "--micro_batch_size", s->micro_batch_size);
    tpp_script_integer(script, "--global_batch_size", (int64_t)request->job->global_batch_size);
    tpp_script_integer(script, "--max_length", (int64_t)request->job->sequence_length);
    write_switch(script, "--packing", !tpp_job_pads(request->job)); /* every sequence is as long as planned */
    tpp_script_expression(script, "--train_iters", "\"$TRAIN_ITERS\"");
    tpp_script_expression(script, "--lr", "\"$LR\"");
    write_precision(script, request, rules);
    write_switch(script, "--use_distributed_optimizer", rules->distributed_optimizer);
    if (rules->megatron_fsdp) {
        write_switch(script, "--use_megatron_fsdp", true);
        tpp_script_word(script, "--data_parallel_sharding_strategy", "optim_grads_params");
    }
    write_switch(script, "--overlap_grad_reduce", rules->overlap_grad_reduce);
    write_switch(script, "--overlap_param_gather", rules->overlap_param_gather);
    if (rules->overlap_grad_reduce && !rules->align_grad_reduce)
        write_switch(script, "--align_grad_reduce", false);
    if (rules->optimizer_cpu_offload)
        write_switch(script, "--optimizer_cpu_offload", true);
    if (rules->optimizer_cpu_offload && rules->optimizer_offload_fraction < 1)
        tpp_script_number(script, "--optimizer_offload_fraction", rules->optimizer_offload_fraction);
    if (rules->precision_aware_optimizer)
        write_switch(script, "--use_precision_aware_optimizer", true);
    if (rules->narrow_state) {
        tpp_script_word(script, "--exp_avg_dtype", "bf16");
        tpp_script_word(script, "--exp_avg_sq_dtype", "bf16");
    }
    if (request->job->gradient_type == TPP_GRADIENT_BF16)
        tpp_script_word(script, "--main_grads_dtype", "bf16");
    if (rules->fp16 && request->job->gradient_type == TPP_GRADIENT_FP32)
        write_switch(script, "--accumulate_allreduce_grads_in_fp32", true);
    write_recompute(script, rules, s);
    if (request->job->mtp_num_layers > 0)
        tpp_script_integer(script, "--mtp_num_layers", request->job->mtp_num_layers);
    tpp_script_expression(script, "--model", "\"$MODEL\"");
    tpp_script_expression(script, "--dataset", "\"$DATASET\"");
    tpp_script_expression(script, "--output_dir", "\"$OUTPUT_DIR\"");
    tpp_script_array_end(script);
}

enum tpp_code tpp_launch_emit_swift_megatron(const struct tpp_launch_request *request, struct tpp_script *script,
                                             struct tpp_error *err)
{
    struct tpp_rule_settings rules;
    char number[24], layout[TPP_PLAN_LAYOUT_SIZE];
    enum tpp_code code = check_plan(request, err);
    if (code == TPP_OK)
        code = tpp_launch_check_core_rules(request, NAME, &rules, layout, err);
    if (code != TPP_OK)
        return code;
    snprintf(number, sizeof number, "%d", (int)rules.cuda_device_max_connections);
    tpp_script_header(script, request);
    write_required(script, request);
    tpp_script_export(script, request, "CUDA_DEVICE_MAX_CONNECTIONS", number,
                      "Queues of kernels: 1 keeps the order that overlap counts on.");
    tpp_script_environment(script, request);
    tpp_text_append(script->out, "\n");
    write_parallel(script, request, &rules);
    write_training(script, request, &rules);
    tpp_text_append(script->out, "\n");
    tpp_script_per_node(script, request, request->job->task == TPP_TASK_PRETRAIN ? "megatron pt" : "megatron sft",
                        "\"${PARALLEL_ARGS[@]}\" \"${TRAINING_ARGS[@]}\" \"$@\"");
    return TPP_OK;
}
