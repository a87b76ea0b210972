/* megatron_bridge.c - the launch script of Megatron-Bridge: a recipe, and every setting of the plan as an override
 * (launch formats, section 7). The shape of the model is the recipe's.
 *
 * Nothing is left to the recipe that a plan decides: what the plan does not use is set to null. What the user gives
 * reaches the configuration as ${oc.env:NAME}, so that no character of it is read by the grammar of overrides. */
#include "planner/launch/bridge_arguments.h"
#include "planner/launch/bridge_precision.h"
#include "planner/launch/determinism.h"
#include "planner/launch/emitter.h"
#include "planner/launch/graph_modules.h"
#include "planner/launch/refusal.h"

#include <stdio.h>

#define NAME "Megatron-Bridge"

#define CANNOT NAME " cannot run this plan:"
#define CHOOSE "choose another plan or framework"

enum tpp_code tpp_launch_check_megatron_bridge(const struct tpp_launch_request *request, struct tpp_error *err)
{
    const struct tpp_stack *stack = request->stack;
    const struct tpp_job *job = request->job;
    const bool is_fsdp = tpp_engine_is_fsdp(stack->engine);
    struct tpp_stack usual;
    tpp_stack_defaults(stack->framework, &request->hardware->gpu, job, &usual);
    tpp_stack_set_engine(&usual, stack->engine, &request->hardware->gpu, job);
    const struct tpp_refusal refusals[] = {
        {job->task == TPP_TASK_QLORA, "job.task", "it trains no quantised weights"},
        {job->task == TPP_TASK_LORA && job->lora_targets == TPP_LORA_QV, "job.lora_targets",
         "q, k and v are one layer there"},
        {job->precision == TPP_PRECISION_FP32, "job.precision", "its recipes train in 16 bits or FP8"},
        {job->precision == TPP_PRECISION_FP16 && is_fsdp, "job.precision", "plans with its FSDP are for bf16 and FP8"},
        {job->attention_block_length > 0, "job.attention_block_length",
         "masks between documents are the data set's own"},
        {stack->attention != usual.attention, "stack.attention",
         "attention is left to Transformer Engine, which takes another kernel here"},
        {!stack->transformer_engine, "stack.transformer_engine", "its layers are Transformer Engine's"},
        {stack->loss_kernel != TPP_LOSS_FUSED && stack->loss_kernel != TPP_LOSS_UNFUSED, "stack.loss_kernel",
         "it has no such kernel"},
        {stack->gradient_bytes != usual.gradient_bytes, "stack.gradient_bytes",
         "its precisions fix the number format of gradients"},
        {stack->overlap_p2p != usual.overlap_p2p, "stack.overlap_p2p", "it overlaps transfers of interleaved stages"},
        {stack->cuda_graphs && job->task != TPP_TASK_PRETRAIN, "stack.cuda_graphs",
         "graphs of layers cannot capture packed sequences"},
        {tpp_graph_modules_hold_experts(request), "stack.cuda_graphs",
         "graphs hold experts with a fixed capacity alone"},
    };
    return tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, CANNOT, CHOOSE, err);
}

static enum tpp_code check_plan(const struct tpp_launch_request *request, struct tpp_error *err)
{
    const struct tpp_strategy *s = request->strategy;
    const bool is_fsdp = tpp_engine_is_fsdp(request->stack->engine);
    const struct tpp_refusal refusals[] = {
        {s->last_chunk_less > 0 && s->account_for_loss, "strategy.last_chunk_less",
         "the loss is counted as a layer, or its chunk is made shorter"},
        {!is_fsdp && s->zero_stage > 1, "strategy.zero_stage", "ZeRO stages 2 and 3 need the engine fsdp2"},
    };
    enum tpp_code code = tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, CANNOT, CHOOSE, err);
    return code == TPP_OK ? tpp_launch_check_core(request, CANNOT, err) : code;
}

static void write_switch(struct tpp_script *script, const char *name, bool is_on)
{
    tpp_script_expression(script, name, is_on ? "true" : "false");
}

/* What is not used is taken away: the recipe may have set it. */
static void write_optional(struct tpp_script *script, const char *name, int64_t value)
{
    if (value != TPP_RULE_UNSET)
        tpp_script_integer(script, name, value);
    else
        tpp_script_expression(script, name, "null");
}

static void begin_overrides(struct tpp_script *script, const char *name)
{
    tpp_text_append(script->out, "# shellcheck disable=SC2191 # the = is part of the override\n");
    tpp_script_array_begin(script, name);
}

static void write_required(struct tpp_script *script, const struct tpp_launch_request *request, const char *recipe)
{
    const bool is_pretraining = request->job->task == TPP_TASK_PRETRAIN;
    tpp_script_comment(script, "What only you know. More overrides (KEY=VALUE) may follow the name of this script; the "
                               "last one of a key wins.");
    tpp_script_required(script, "BRIDGE_PATH", "the folder of the Megatron-Bridge checkout");
    if (recipe == NULL)
        tpp_script_required(script, "MODEL", "the recipes of the model, as llama31_8b");
    if (is_pretraining) {
        tpp_script_required(script, "DATA_PATH", "the prefix of the indexed data, without .bin");
    } else {
        tpp_script_required(script, "DATASET", "a packed data set that it knows, as squad or local-jsonl");
        tpp_script_required(script, "PRETRAINED_PATH", "the folder of the converted checkpoint to start from");
    }
    tpp_script_required(script, "CHECKPOINT_PATH", "the folder that checkpoints are written to");
    tpp_script_required(script, "TRAIN_ITERS", "the number of optimizer steps");
    tpp_script_required(script, "LR", "the peak learning rate");
    tpp_script_required_nodes(script, request);
    tpp_text_format(script->out,
                    "# Overrides read these from the environment.\nexport %s CHECKPOINT_PATH TRAIN_ITERS LR\n\n",
                    is_pretraining ? "DATA_PATH" : "PRETRAINED_PATH");
}

static void write_recipe(struct tpp_script *script, const struct tpp_launch_request *request, const char *recipe)
{
    const bool is_pretraining = request->job->task == TPP_TASK_PRETRAIN;
    tpp_script_comment(script, "The recipe builds the model; everything of the plan is set below.");
    tpp_script_array_begin(script, "RECIPE_ARGS");
    if (recipe != NULL)
        tpp_script_word(script, "--model", recipe);
    else
        tpp_script_expression(script, "--model", "\"$MODEL\"");
    tpp_script_word(script, "--mode", tpp_task_name(request->job->task));
    tpp_script_expression(script, "--dataset", is_pretraining ? "megatron-indexed" : "\"$DATASET\"");
    tpp_script_array_end(script);
}

static void write_dispatch(struct tpp_script *script, const struct tpp_rule_settings *rules)
{
    const bool is_flex = rules->dispatcher == TPP_RULE_FLEX;
    tpp_script_word(script, "model.moe_token_dispatcher_type",
                    is_flex                                   ? "flex"
                    : rules->dispatcher == TPP_RULE_ALLGATHER ? "allgather"
                                                              : "alltoall");
    tpp_script_expression(script, "model.moe_flex_dispatcher_backend",
                          !is_flex                                   ? "null"
                          : rules->flex_backend == TPP_RULE_HYBRIDEP ? "hybridep"
                                                                     : "deepep");
}

/* Ranks of the all-to-all, and of the ring of such groups. */
static void write_hierarchy(struct tpp_script *script, const struct tpp_rule_settings *rules)
{
    char sizes[48];
    if (rules->hierarchical_product == TPP_RULE_UNSET) {
        tpp_script_expression(script, "model.hierarchical_context_parallel_sizes", "null");
        return;
    }
    snprintf(sizes, sizeof sizes, "[%d,%d]", (int)rules->hierarchical_first,
             (int)(rules->hierarchical_product / rules->hierarchical_first));
    tpp_script_word(script, "model.hierarchical_context_parallel_sizes", sizes);
}

/* In the grammar of overrides a text with signs is quoted. */
static void write_layout(struct tpp_script *script, const struct tpp_rule_settings *rules)
{
    char quoted[TPP_PLAN_LAYOUT_SIZE + 2];
    snprintf(quoted, sizeof quoted, "\"%s\"", rules->pipeline_layout != NULL ? rules->pipeline_layout : "");
    tpp_script_word(script, "model.pipeline_model_parallel_layout", rules->pipeline_layout != NULL ? quoted : "null");
}

/* Rows of an expert, padded up to its capacity; tokens beyond it are dropped. */
static void write_capacity(struct tpp_script *script, const struct tpp_job *job)
{
    if (job->expert_capacity_factor > 0)
        tpp_script_number(script, "model.moe_expert_capacity_factor", job->expert_capacity_factor);
    else
        tpp_script_expression(script, "model.moe_expert_capacity_factor", "null");
    write_switch(script, "model.moe_pad_expert_input_to_capacity", job->expert_capacity_factor > 0);
}

static void write_parallel(struct tpp_script *script, const struct tpp_launch_request *request,
                           const struct tpp_rule_settings *rules)
{
    const struct tpp_strategy *s = request->strategy;
    static const char *const kinds[] = {"p2p", "all_gather", "a2a", "a2a+p2p"};
    const bool is_interleaved = s->virtual_pipeline_stages > 1;
    begin_overrides(script, "PARALLEL_ARGS");
    tpp_script_integer(script, "model.tensor_model_parallel_size", s->tensor_parallel);
    tpp_script_integer(script, "model.pipeline_model_parallel_size", s->pipeline_parallel);
    write_optional(script, "model.virtual_pipeline_model_parallel_size",
                   is_interleaved ? (int64_t)s->virtual_pipeline_stages : TPP_RULE_UNSET);
    if (rules->microbatch_group_size != TPP_RULE_UNSET)
        tpp_script_integer(script, "model.microbatch_group_size_per_vp_stage", rules->microbatch_group_size);
    write_layout(script, rules);
    write_optional(script, "model.num_layers_in_first_pipeline_stage", rules->first_stage_layers);
    write_optional(script, "model.num_layers_in_last_pipeline_stage", rules->last_stage_layers);
    write_switch(script, "model.account_for_embedding_in_pipeline_split", rules->account_for_embedding);
    write_switch(script, "model.account_for_loss_in_pipeline_split", rules->account_for_loss);
    tpp_script_integer(script, "model.context_parallel_size", s->context_parallel);
    tpp_script_expression(script, "model.cp_comm_type", s->context_parallel > 1 ? kinds[s->context_kind] : "null");
    write_hierarchy(script, rules);
    write_switch(script, "model.sequence_parallel", s->sequence_parallel);
    if (rules->num_experts != TPP_RULE_UNSET) {
        tpp_script_integer(script, "model.expert_model_parallel_size", s->expert_parallel);
        tpp_script_integer(script, "model.expert_tensor_parallel_size", rules->expert_tensor_parallel);
        write_dispatch(script, rules);
        write_switch(script, "model.overlap_moe_expert_parallel_comm", s->expert_overlap);
        write_switch(script, "model.moe_shared_expert_overlap", s->shared_overlap);
        write_capacity(script, request->job);
    }
    tpp_script_array_end(script);
}

/* Recipes may narrow any of them; an optimizer that is not precision-aware takes fp32 alone. */
static void write_state_types(struct tpp_script *script, bool is_narrow)
{
    const char *moments = is_narrow ? "torch.bfloat16" : "torch.float32";
    tpp_script_word(script, "optimizer.main_grads_dtype", "torch.float32");
    tpp_script_word(script, "optimizer.main_params_dtype", "torch.float32");
    tpp_script_word(script, "optimizer.exp_avg_dtype", moments);
    tpp_script_word(script, "optimizer.exp_avg_sq_dtype", moments);
}

/* Megatron FSDP: weights are made on their own shard, and gradients not averaged in the collective. */
static void write_fsdp(struct tpp_script *script, bool is_on)
{
    write_switch(script, "ddp.use_megatron_fsdp", is_on);
    write_switch(script, "dist.use_megatron_fsdp", is_on);
    tpp_script_word(script, "ddp.data_parallel_sharding_strategy", is_on ? "optim_grads_params" : "no_shard");
    if (!is_on)
        return;
    write_switch(script, "ddp.average_in_collective", false);
    write_switch(script, "model.init_model_with_meta_device", true);
    tpp_script_word(script, "checkpoint.ckpt_format", "fsdp_dtensor");
}

/* `comm_overlap` of a recipe would be applied over all of these. */
static void write_overlap(struct tpp_script *script, const struct tpp_rule_settings *rules,
                          const struct tpp_strategy *s)
{
    const bool is_interleaved = s->virtual_pipeline_stages > 1;
    begin_overrides(script, "OVERLAP_ARGS");
    tpp_script_expression(script, "comm_overlap", "null");
    write_switch(script, "model.tp_comm_overlap", s->tp_comm_overlap);
    write_switch(script, "model.overlap_p2p_comm", is_interleaved && rules->overlap_p2p);
    write_switch(script, "model.batch_p2p_comm", !is_interleaved && s->pipeline_parallel > 1);
    write_switch(script, "ddp.use_distributed_optimizer", rules->distributed_optimizer);
    write_switch(script, "optimizer.use_distributed_optimizer", rules->distributed_optimizer);
    write_switch(script, "ddp.overlap_grad_reduce", rules->overlap_grad_reduce);
    if (rules->overlap_grad_reduce && !rules->align_grad_reduce)
        write_switch(script, "dist.align_grad_reduce", false);
    write_switch(script, "ddp.overlap_param_gather", rules->overlap_param_gather);
    write_switch(script, "optimizer.overlap_param_gather", rules->overlap_param_gather);
    write_optional(script, "ddp.bucket_size", rules->ddp_bucket_size);
    write_fsdp(script, rules->megatron_fsdp);
    write_switch(script, "optimizer.optimizer_cpu_offload", rules->optimizer_cpu_offload);
    if (rules->optimizer_cpu_offload) /* which offloads nothing by itself */
        tpp_script_number(script, "optimizer.optimizer_offload_fraction", rules->optimizer_offload_fraction);
    write_switch(script, "model.cpu_offloading", rules->cpu_offload_layers > 0);
    tpp_script_integer(script, "model.cpu_offloading_num_layers", rules->cpu_offload_layers);
    if (rules->cpu_offload_layers > 0)
        write_switch(script, "model.cpu_offloading_weights", false);
    write_switch(script, "optimizer.use_precision_aware_optimizer", rules->precision_aware_optimizer);
    write_state_types(script, rules->narrow_state);
    tpp_script_array_end(script);
}

static void write_recompute(struct tpp_script *script, const struct tpp_rule_settings *rules,
                            const struct tpp_strategy *s)
{
    static const char *const methods[] = {"null", "uniform", "block"};
    char modules[160] = "[";
    size_t length = 1;
    for (uint32_t bit = 1; s->recompute == TPP_RECOMPUTE_SELECTIVE && bit <= TPP_MODULE_ALL; bit <<= 1)
        if (s->recompute_modules & bit)
            length += (size_t)snprintf(modules + length, sizeof modules - length, "%s%s", length > 1 ? "," : "",
                                       tpp_recompute_module_name(bit));
    snprintf(modules + length, sizeof modules - length, "]");
    tpp_script_expression(script, "model.recompute_granularity",
                          s->recompute == TPP_RECOMPUTE_NONE ? "null" : tpp_recompute_name(s->recompute));
    tpp_script_expression(script, "model.recompute_method", methods[rules->recompute_method]);
    write_optional(script, "model.recompute_num_layers", rules->recompute_num_layers);
    tpp_script_word(script, "model.recompute_modules", length > 1 ? modules : "null");
}

/* As the plan counts it, whether the vocabulary divides or not. */
static void write_vocabulary(struct tpp_script *script, const struct tpp_stack *stack)
{
    write_switch(script, "model.should_pad_vocab", true);
    tpp_script_integer(script, "model.make_vocab_size_divisible_by", stack->vocabulary_multiple);
}

/* Transformer Engine's graphs; an empty list of modules stands for whole layers. */
static void write_graphs(struct tpp_script *script, const struct tpp_launch_request *request)
{
    const bool is_on = request->stack->cuda_graphs;
    char modules[TPP_GRAPH_MODULES_SIZE], list[TPP_GRAPH_MODULES_SIZE + 2];
    tpp_graph_modules_format(request, ',', modules);
    snprintf(list, sizeof list, "[%s]", modules);
    tpp_script_word(script, "model.cuda_graph_impl", is_on ? "transformer_engine" : "none");
    if (is_on)
        tpp_script_word(script, "model.cuda_graph_modules", list);
    write_switch(script, "model.use_te_rng_tracker", is_on);
    write_switch(script, "rng.te_rng_tracker", is_on);
}

/* The adapters' layers by Megatron Core's names. */
static void write_adapters(struct tpp_script *script, const struct tpp_job *job)
{
    tpp_script_integer(script, "peft.dim", job->lora_rank);
    tpp_script_integer(script, "peft.alpha", 2 * (int64_t)job->lora_rank);
    tpp_script_word(script, "peft.target_modules",
                    job->lora_targets == TPP_LORA_ALL_LINEAR  ? "[linear_qkv,linear_proj,linear_fc1,linear_fc2]"
                    : job->lora_targets == TPP_LORA_ATTENTION ? "[linear_qkv,linear_proj]"
                                                              : "[linear_qkv]");
}

static void write_training(struct tpp_script *script, const struct tpp_launch_request *request,
                           const struct tpp_rule_settings *rules)
{
    const struct tpp_job *job = request->job;
    begin_overrides(script, "TRAINING_ARGS");
    tpp_script_integer(script, "train.micro_batch_size", request->strategy->micro_batch_size);
    tpp_script_integer(script, "train.global_batch_size", (int64_t)job->global_batch_size);
    tpp_script_expression(script, "train.train_iters", "\"'\\${oc.decode:\\${oc.env:TRAIN_ITERS}}'\"");
    tpp_script_integer(script, "dataset.seq_length", (int64_t)job->sequence_length);
    tpp_script_expression(script, "optimizer.lr", "\"'\\${oc.decode:\\${oc.env:LR}}'\"");
    tpp_bridge_write_precision(script, request);
    tpp_script_number(script, "model.hidden_dropout", job->hidden_dropout);
    tpp_script_number(script, "model.attention_dropout", job->attention_dropout);
    write_switch(script, "model.cross_entropy_loss_fusion", request->stack->loss_kernel == TPP_LOSS_FUSED);
    if (request->stack->deterministic)
        write_switch(script, "model.deterministic_mode", true);
    write_vocabulary(script, request->stack);
    write_graphs(script, request);
    if (job->mtp_num_layers > 0 || request->model->mtp_num_layers > 0)
        write_optional(script, "model.mtp_num_layers",
                       job->mtp_num_layers > 0 ? (int64_t)job->mtp_num_layers : TPP_RULE_UNSET);
    write_recompute(script, rules, request->strategy);
    if (tpp_job_is_adapter(job))
        write_adapters(script, job);
    tpp_script_expression(script, "checkpoint.save", "\"\\${oc.env:CHECKPOINT_PATH}\"");
    tpp_script_expression(script, "checkpoint.load", "\"\\${oc.env:CHECKPOINT_PATH}\"");
    if (job->task == TPP_TASK_PRETRAIN)
        tpp_script_expression(script, "dataset.blend", "\"[[\\${oc.env:DATA_PATH}],null]\"");
    else
        tpp_script_expression(script, "checkpoint.pretrained_checkpoint", "\"\\${oc.env:PRETRAINED_PATH}\"");
    tpp_script_array_end(script);
}

enum tpp_code tpp_launch_emit_megatron_bridge(const struct tpp_launch_request *request, struct tpp_script *script,
                                              struct tpp_error *err)
{
    struct tpp_rule_settings rules;
    char number[24], layout[TPP_PLAN_LAYOUT_SIZE];
    const char *recipe = tpp_bridge_recipe_of(request->model, request->job->task);
    enum tpp_code code = check_plan(request, err);
    if (code == TPP_OK)
        code = tpp_launch_check_core_rules(request, NAME, &rules, layout, err);
    if (code != TPP_OK)
        return code;
    snprintf(number, sizeof number, "%d", (int)rules.cuda_device_max_connections);
    tpp_script_header(script, request);
    write_required(script, request, recipe);
    tpp_script_export(script, request, "CUDA_DEVICE_MAX_CONNECTIONS", number,
                      "Queues of kernels: 1 keeps the order that overlap counts on.");
    if (request->stack->cuda_graphs)
        tpp_script_export(script, request, "NCCL_GRAPH_REGISTER", "0",
                          "NCCL's buffers inside of graphs do not stand expandable segments.");
    tpp_determinism_export(script, request);
    tpp_script_environment(script, request);
    tpp_text_append(script->out, "\n");
    write_recipe(script, request, recipe);
    write_parallel(script, request, &rules);
    write_overlap(script, &rules, request->strategy);
    write_training(script, request, &rules);
    tpp_text_append(script->out, "\n");
    tpp_script_torchrun(script, request, "\"$BRIDGE_PATH/scripts/training/run_recipe.py\"",
                        "\"${RECIPE_ARGS[@]}\" \"${PARALLEL_ARGS[@]}\" \"${OVERLAP_ARGS[@]}\" "
                        "\"${TRAINING_ARGS[@]}\" \"$@\"");
    return TPP_OK;
}
