/* megatron_lm.c - the launch script of Megatron-LM (pretrain_gpt.py): what a release can say, parallel sizes, memory,
 * batch and environment (launch formats, sections 1.2, 1.7, 1.8, 9). */
#include "planner/launch/megatron_lm.h"

#include "planner/launch/determinism.h"
#include "planner/launch/emitter.h"
#include "planner/launch/graph_modules.h"
#include "planner/launch/refusal.h"
#include "planner/rules/layout.h"
#include "planner/rules/schedules.h"

#include <stdio.h>

/* The first with sequence parallelism, the distributed optimizer and the names of today. What a release lacks is
 * refused where its option would be written (script.h); below is only what has no option, or another name. */
#define OLDEST_RELEASE TPP_RELEASE_23_04

static bool is_even(const struct tpp_strategy *s, const struct tpp_model *model)
{
    return model->num_layers % s->pipeline_parallel == 0;
}

static bool recomputes_part_of_a_chunk(const struct tpp_strategy *s)
{
    return s->recompute == TPP_RECOMPUTE_FULL && s->recompute_method == TPP_RECOMPUTE_BLOCK &&
           s->recompute_num_layers % s->virtual_pipeline_stages != 0;
}

static bool shards_unevenly(const struct tpp_strategy *s)
{
    uint64_t ranks = (uint64_t)s->data_parallel * s->context_parallel;
    return s->shard_group > 0 && s->zero_stage > 0 && ranks % s->shard_group != 0;
}

#define CANNOT "Megatron-LM cannot run this plan:"
#define CHOOSE "choose another plan, release or framework"

static enum tpp_code check_plan(const struct tpp_launch_request *request, struct tpp_error *err)
{
    const struct tpp_strategy *s = request->strategy;
    const struct tpp_stack *stack = request->stack;
    const bool fsdp = stack->engine == TPP_ENGINE_FSDP2;
    const bool interleaves = s->pipeline_parallel > 1 && s->virtual_pipeline_stages > 1;
    const struct tpp_refusal refusals[] = {
        {!fsdp && s->zero_stage > 1, "strategy.zero_stage", "ZeRO stages 2 and 3 need the engine fsdp2"},
        {fsdp && s->zero_stage < 2, "strategy.zero_stage", "FSDP2 shards gradients too"},
        {s->pipeline_parallel > 1 && !tpp_framework_has_schedule(TPP_FRAMEWORK_MEGATRON_LM, s->schedule),
         "strategy.schedule", "it has no pipeline schedules beside 1f1b and interleaved"},
        {s->balanced_split && !is_even(s, request->model), "strategy.balanced_split",
         "it does not balance layers that do not divide"},
        {recomputes_part_of_a_chunk(s), "strategy.recompute_num_layers",
         "block recomputation counts layers in each model chunk"},
        {s->recompute_modules != 0 && request->release < TPP_RELEASE_0_12, "strategy.recompute_modules",
         "single modules are recomputed from 0.12 on"},
        {s->microbatch_group_size > 0 && request->release < TPP_RELEASE_0_10, "strategy.microbatch_group_size",
         "groups of micro-batches have a size of their own from 0.10 on"},
        {s->last_chunk_less > 0 && request->release < TPP_RELEASE_0_13, "strategy.last_chunk_less",
         "layouts of the pipeline are there from 0.13 on"},
        {s->last_chunk_less > 0 && s->account_for_loss, "strategy.last_chunk_less",
         "the loss is counted as a layer, or its chunk is made shorter"},
        {s->dispatch == TPP_DISPATCH_HYBRIDEP && request->release < TPP_RELEASE_0_16, "strategy.dispatch",
         "HybridEP is there from 0.16 on"},
        {s->dispatch == TPP_DISPATCH_DEEPEP && request->release < TPP_RELEASE_0_12, "strategy.dispatch",
         "DeepEP is there from 0.12 on"},
        {s->expert_overlap && request->release < TPP_RELEASE_0_14, "strategy.expert_overlap",
         "the overlap of expert communication is there from 0.14 on"},
        {interleaves && stack->overlap_p2p && request->release < TPP_RELEASE_23_06, "stack.overlap_p2p",
         "transfers between stages overlap from 23.06 on"},
        {shards_unevenly(s), "strategy.shard_group", "optimizer instances must be of one size"},
    };
    return tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, CANNOT, CHOOSE, err);
}

static void write_required(struct tpp_script *script, const struct tpp_launch_request *request)
{
    char tokenizer[80];
    tpp_script_comment(script,
                       "What only you know. More options of Megatron-LM may follow the name of this script; the "
                       "last one of a name wins.");
    tpp_script_required(script, "MEGATRON_PATH", "the folder of the Megatron-LM checkout");
    tpp_script_required(script, "DATA_PATH", "the prefix of the preprocessed data, or weights and prefixes");
    snprintf(tokenizer, sizeof tokenizer, "the tokenizer file or folder (the plan counts on %u entries)",
             request->model->vocab_size);
    tpp_script_required(script, "TOKENIZER_MODEL", tokenizer);
    tpp_script_required(script, "CHECKPOINT_PATH", "the folder that checkpoints are written to");
    tpp_script_required(script, "TRAIN_ITERS", "the number of optimizer steps");
    tpp_script_required(script, "LR", "the peak learning rate");
    if (request->job->task == TPP_TASK_SFT)
        tpp_script_required(script, "PRETRAINED_PATH", "the checkpoint to start from");
    tpp_script_required_nodes(script, request);
    tpp_text_format(script->out, "TOKENIZER_TYPE=\"${TOKENIZER_TYPE:-%s}\"\n",
                    request->release < TPP_RELEASE_0_8 ? "GPTSentencePieceTokenizer" : "HuggingFaceTokenizer");
    tpp_text_append(script->out, "SAVE_INTERVAL=\"${SAVE_INTERVAL:-1000}\"\n"
                                 "read -r -a DATA_PATHS <<< \"$DATA_PATH\"\n\n");
}

static const char *connections_reason(const struct tpp_rule_settings *settings, enum tpp_release release)
{
    if (settings->cuda_device_max_connections == 1 && release < TPP_RELEASE_0_12)
        return "Demanded by this release: kernels start in the order they are queued.";
    if (settings->cuda_device_max_connections == 1)
        return "Kernels start in the order they are queued, so that communication overlaps the GEMM behind it.";
    if (settings->torch_fsdp2)
        return "FSDP's gathers must not wait in the queue of compute kernels.";
    return "Communication and compute kernels get queues of their own.";
}

static void write_environment(struct tpp_script *script, const struct tpp_launch_request *request,
                              const struct tpp_rule_settings *settings)
{
    char number[24];
    snprintf(number, sizeof number, "%d", (int)settings->cuda_device_max_connections);
    tpp_script_export(script, request, "CUDA_DEVICE_MAX_CONNECTIONS", number,
                      connections_reason(settings, request->release));
    tpp_script_export(script, request, "TORCH_NCCL_AVOID_RECORD_STREAMS", "1",
                      "Buffers of collectives are freed when they are done, not at some later allocation.");
    if (settings->overlap_grad_reduce) {
        tpp_script_export(script, request, "NVTE_FWD_LAYERNORM_SM_MARGIN", "16",
                          "Norm kernels leave room for the collectives that run beside them.");
        tpp_text_append(script->out, "export NVTE_BWD_LAYERNORM_SM_MARGIN=16\n");
    }
    tpp_determinism_export(script, request);
    tpp_script_environment(script, request);
    tpp_text_append(script->out, "\n");
}

static void write_optional(struct tpp_script *script, const char *name, int64_t value)
{
    if (value != TPP_RULE_UNSET)
        tpp_script_integer(script, name, value);
}

static void write_context(struct tpp_script *script, const struct tpp_rule_settings *s)
{
    char sizes[48];
    if (s->context_parallel == 1)
        return;
    tpp_script_integer(script, "--context-parallel-size", s->context_parallel);
    if (script->release < TPP_RELEASE_0_10)
        return;
    tpp_script_word(script, "--cp-comm-type",
                    s->context_types == TPP_RULE_CONTEXT_P2P          ? "p2p"
                    : s->context_types == TPP_RULE_CONTEXT_ALL_GATHER ? "all_gather"
                    : s->context_types == TPP_RULE_CONTEXT_A2A        ? "a2a"
                                                                      : "a2a+p2p");
    if (s->hierarchical_product == TPP_RULE_UNSET)
        return;
    snprintf(sizes, sizeof sizes, "%d %d", (int)s->hierarchical_first,
             (int)(s->hierarchical_product / s->hierarchical_first));
    tpp_script_expression(script, "--hierarchical-context-parallel-sizes", sizes);
}

static bool is_interleaved(const struct tpp_rule_settings *s)
{
    return s->layers_per_virtual_stage != TPP_RULE_UNSET || s->virtual_stages_per_rank != TPP_RULE_UNSET ||
           (s->pipeline_layout != NULL && tpp_layout_read(s->pipeline_layout).num_stages > s->pipeline_parallel);
}

/* An option to have it in 23.06, one not to have it since. */
static void write_overlap_p2p(struct tpp_script *script, const struct tpp_rule_settings *s)
{
    if (!is_interleaved(s))
        return;
    if (script->release < TPP_RELEASE_0_4)
        tpp_script_flag_if(script, s->overlap_p2p, "--overlap-p2p-communication");
    else
        tpp_script_flag_if(script, !s->overlap_p2p, "--no-overlap-p2p-communication");
}

static void write_dispatch(struct tpp_script *script, const struct tpp_rule_settings *s)
{
    const bool flex = s->dispatcher == TPP_RULE_FLEX;
    tpp_script_word(script, "--moe-token-dispatcher-type",
                    flex                                  ? "flex"
                    : s->dispatcher == TPP_RULE_ALLGATHER ? "allgather"
                                                          : "alltoall");
    tpp_script_flag_if(script, s->enable_deepep, "--moe-enable-deepep");
    if (flex && script->release >= TPP_RELEASE_0_16)
        tpp_script_word(script, "--moe-flex-dispatcher-backend",
                        s->flex_backend == TPP_RULE_HYBRIDEP ? "hybridep" : "deepep");
    tpp_script_flag_if(script, s->overlap_expert_comm, "--overlap-moe-expert-parallel-comm");
    tpp_script_flag_if(script, s->shared_expert_overlap, "--moe-shared-expert-overlap");
}

static void write_parallel(struct tpp_script *script, const struct tpp_launch_request *request,
                           const struct tpp_rule_settings *s)
{
    tpp_script_array_begin(script, "PARALLEL_ARGS");
    tpp_script_integer(script, "--tensor-model-parallel-size", s->tensor_parallel);
    tpp_script_integer(script, "--pipeline-model-parallel-size", s->pipeline_parallel);
    write_optional(script, "--num-layers-per-virtual-pipeline-stage", s->layers_per_virtual_stage);
    write_optional(script, "--microbatch-group-size-per-virtual-pipeline-stage", s->microbatch_group_size);
    write_optional(script, "--num-virtual-stages-per-pipeline-rank", s->virtual_stages_per_rank);
    if (s->pipeline_layout != NULL)
        tpp_script_word(script, "--pipeline-model-parallel-layout", s->pipeline_layout);
    write_optional(script, "--decoder-first-pipeline-num-layers", s->first_stage_layers);
    write_optional(script, "--decoder-last-pipeline-num-layers", s->last_stage_layers);
    tpp_script_flag_if(script, s->account_for_embedding, "--account-for-embedding-in-pipeline-split");
    tpp_script_flag_if(script, s->account_for_loss, "--account-for-loss-in-pipeline-split");
    write_overlap_p2p(script, s);
    write_context(script, s);
    tpp_script_flag_if(script, s->sequence_parallel, "--sequence-parallel");
    tpp_script_flag_if(script, s->tp_comm_overlap, "--tp-comm-overlap");
    if (s->num_experts != TPP_RULE_UNSET) {
        tpp_script_integer(script, "--expert-model-parallel-size", s->expert_parallel);
        if (script->release >= TPP_RELEASE_0_10)
            tpp_script_integer(script, "--expert-tensor-parallel-size", s->expert_tensor_parallel);
        write_dispatch(script, s);
        if (request->job->expert_capacity_factor > 0) {
            tpp_script_number(script, "--moe-expert-capacity-factor", request->job->expert_capacity_factor);
            tpp_script_flag(script, "--moe-pad-expert-input-to-capacity");
        }
    }
    tpp_script_array_end(script);
}

/* --delay-grad-reduce until 0.8. */
static void write_alignment(struct tpp_script *script, const struct tpp_rule_settings *s)
{
    if (s->overlap_grad_reduce && !s->align_grad_reduce)
        tpp_script_flag(script,
                        script->release < TPP_RELEASE_0_9 ? "--no-delay-grad-reduce" : "--no-align-grad-reduce");
}

/* Of gradients and moments: the job's, whatever the plan. */
static void write_state_types(struct tpp_script *script, const struct tpp_launch_request *request,
                              const struct tpp_rule_settings *s)
{
    const bool has_choice = !s->torch_fsdp2 && request->stack->engine == TPP_ENGINE_MEGATRON;
    tpp_script_flag_if(script, has_choice && s->bf16 && request->stack->gradient_bytes == 2, "--grad-reduce-in-bf16");
    tpp_script_flag_if(script, has_choice && s->fp16 && request->stack->gradient_bytes == 4,
                       "--accumulate-allreduce-grads-in-fp32");
    if (s->narrow_state) {
        tpp_script_word(script, "--exp-avg-dtype", "bf16");
        tpp_script_word(script, "--exp-avg-sq-dtype", "bf16");
    }
}

static void write_data_parallel(struct tpp_script *script, const struct tpp_launch_request *request,
                                const struct tpp_rule_settings *s)
{
    tpp_script_flag_if(script, s->distributed_optimizer, "--use-distributed-optimizer");
    if (s->optimizer_instances > 1)
        tpp_script_integer(script, "--num-distributed-optimizer-instances", s->optimizer_instances);
    tpp_script_flag_if(script, s->overlap_grad_reduce, "--overlap-grad-reduce");
    tpp_script_flag_if(script, s->overlap_param_gather, "--overlap-param-gather");
    write_alignment(script, s);
    if (s->overlap_grad_reduce)
        write_optional(script, "--ddp-bucket-size", s->ddp_bucket_size);
    tpp_script_flag_if(script, s->torch_fsdp2, "--use-torch-fsdp2");
    tpp_script_flag_if(script, s->keeps_gathered_weights, "--torch-fsdp2-no-reshard-after-forward");
    tpp_script_flag_if(script, !s->gradient_accumulation_fusion, "--no-gradient-accumulation-fusion");
    tpp_script_flag_if(script, s->precision_aware_optimizer, "--use-precision-aware-optimizer");
    write_state_types(script, request, s);
    tpp_script_flag_if(script, s->optimizer_cpu_offload, "--optimizer-cpu-offload");
    if (s->optimizer_cpu_offload && s->optimizer_offload_fraction < 1)
        tpp_script_number(script, "--optimizer-offload-fraction", s->optimizer_offload_fraction);
    if (s->cpu_offload_layers > 0)
        tpp_script_integer(script, "--cpu-offloading-num-layers", s->cpu_offload_layers);
}

/* One option with a list of words behind it. */
static void write_recompute_modules(struct tpp_script *script, unsigned modules)
{
    char words[128] = "";
    size_t length = 0;
    for (uint32_t bit = 1; bit <= TPP_MODULE_ALL; bit <<= 1)
        if (modules & bit)
            length += (size_t)snprintf(words + length, sizeof words - length, "%s%s", length > 0 ? " " : "",
                                       tpp_recompute_module_name(bit));
    if (length > 0)
        tpp_script_expression(script, "--recompute-modules", words);
}

static void write_recompute(struct tpp_script *script, const struct tpp_rule_settings *s)
{
    if (s->recompute == TPP_RULE_GRANULARITY_NONE)
        return;
    bool full = s->recompute == TPP_RULE_GRANULARITY_FULL;
    tpp_script_word(script, "--recompute-granularity", full ? "full" : "selective");
    if (!full) {
        write_recompute_modules(script, s->recompute_modules);
        return;
    }
    tpp_script_word(script, "--recompute-method", s->recompute_method == TPP_RULE_METHOD_BLOCK ? "block" : "uniform");
    tpp_script_integer(script, "--recompute-num-layers", s->recompute_num_layers);
}

/* From here on the first collective may have to wait longer for the last rank than the default of 10 minutes. */
#define MANY_RANKS 64

static void write_precision(struct tpp_script *script, const struct tpp_rule_settings *s)
{
    tpp_script_flag_if(script, s->bf16, "--bf16");
    tpp_script_flag_if(script, s->fp16, "--fp16");
    if (s->fp8 == TPP_RULE_FP8_NONE)
        return;
    if (script->release < TPP_RELEASE_0_4) {
        tpp_script_flag(script, s->fp8 == TPP_RULE_FP8_E4M3 ? "--fp8-e4m3" : "--fp8-hybrid");
        return;
    }
    tpp_script_word(script, "--fp8-format", s->fp8 == TPP_RULE_FP8_E4M3 ? "e4m3" : "hybrid");
    if (script->release >= TPP_RELEASE_0_12)
        tpp_script_word(script, "--fp8-recipe",
                        s->fp8_recipe == TPP_RULE_FP8_MXFP8        ? "mxfp8"
                        : s->fp8_recipe == TPP_RULE_FP8_BLOCKWISE  ? "blockwise"
                        : s->fp8_recipe == TPP_RULE_FP8_TENSORWISE ? "tensorwise"
                                                                   : "delayed");
    tpp_script_flag_if(script, s->fp8_param_gather, "--fp8-param-gather");
    tpp_script_flag_if(script, s->fp8_param_gather && s->fp8_recipe == TPP_RULE_FP8_MXFP8,
                       "--reuse-grad-buf-for-mxfp8-param-ag");
}

/* The newest kernel of a GPU is what Transformer Engine chooses by itself. Before 0.11 there is one switch. */
static void write_attention_kernel(struct tpp_script *script, enum tpp_attention_kernel kernel)
{
    bool flash = kernel == TPP_ATTENTION_FLASH1 || kernel == TPP_ATTENTION_FLASH2;
    if (script->release < TPP_RELEASE_0_11)
        tpp_script_flag_if(script, flash || kernel == TPP_ATTENTION_FLASH3, "--use-flash-attn");
    else
        tpp_script_word(script, "--attention-backend",
                        flash                            ? "flash"
                        : kernel == TPP_ATTENTION_FLASH3 ? "auto"
                                                         : "unfused");
}

/* What the layers are made of, where it is not what the release takes by itself. */
static void write_implementation(struct tpp_script *script, const struct tpp_rule_settings *s)
{
    if (script->release < TPP_RELEASE_0_6 && !s->local_transformer)
        tpp_script_word(script, "--transformer-impl", "transformer_engine");
    if (script->release >= TPP_RELEASE_0_6 && s->local_transformer)
        tpp_script_word(script, "--transformer-impl", "local");
    tpp_script_flag_if(script, script->release >= TPP_RELEASE_0_4 && script->release < TPP_RELEASE_0_8,
                       "--use-mcore-models");
}

/* Whole layers need no names; parts of a layer have them from 0.16 on. */
static void write_graphs(struct tpp_script *script, const struct tpp_launch_request *request)
{
    char modules[TPP_GRAPH_MODULES_SIZE];
    tpp_script_word(script, "--cuda-graph-impl", "local");
    tpp_graph_modules_format(request, ' ', modules);
    if (*modules != '\0')
        tpp_script_expression(
            script, script->release < TPP_RELEASE_0_18 ? "--cuda-graph-scope" : "--cuda-graph-modules", modules);
}

/* The implementation te is refused by the newest releases (ML-97). */
static void write_kernels(struct tpp_script *script, const struct tpp_launch_request *request,
                          const struct tpp_rule_settings *s)
{
    write_attention_kernel(script, request->stack->attention);
    write_implementation(script, s);
    if (s->cuda_graph != TPP_RULE_GRAPH_NONE)
        write_graphs(script, request);
    tpp_script_flag_if(script, request->stack->deterministic, "--deterministic-mode");
    if (request->stack->loss_kernel != TPP_LOSS_FUSED)
        return;
    tpp_script_flag(script, "--cross-entropy-loss-fusion");
    if (script->release >= TPP_RELEASE_0_12)
        tpp_script_word(script, "--cross-entropy-fusion-impl", script->release <= TPP_RELEASE_0_17 ? "te" : "native");
}

/* Whether the release has every option of the model, the precision, the kernels and the optimizer: they are written,
 * and thrown away.
 */
static enum tpp_code check_options(const struct tpp_launch_request *request, struct tpp_error *err)
{
    struct tpp_rule_settings settings;
    struct tpp_text text;
    struct tpp_script script = {.out = &text,
                                .framework = "Megatron-LM",
                                .has_releases = true,
                                .release = request->release,
                                .find_option = tpp_launch_option_find};
    tpp_text_init(&text);
    tpp_rule_settings_for_job(request->model, request->job, request->stack, request->hardware->gpu.compute_capability,
                              &settings);
    tpp_megatron_lm_write_model(&script, request);
    write_precision(&script, &settings);
    write_kernels(&script, request, &settings);
    write_state_types(&script, request, &settings);
    const enum tpp_code code = tpp_text_failed(&text)
                                   ? tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory while writing options")
                                   : tpp_script_finish(&script, err);
    tpp_text_release(&text);
    return code;
}

enum tpp_code tpp_launch_check_megatron_lm(const struct tpp_launch_request *request, struct tpp_error *err)
{
    const struct tpp_stack *stack = request->stack;
    const enum tpp_precision precision = request->job->precision;
    const struct tpp_refusal refusals[] = {
        {request->release < OLDEST_RELEASE, "release", "scripts are written for 23.04 and newer"},
        {stack->engine != TPP_ENGINE_MEGATRON && stack->engine != TPP_ENGINE_FSDP2, "stack.engine",
         "it runs its own data parallelism or FSDP2"},
        {tpp_job_is_adapter(request->job), "job.task", "pretrain_gpt.py trains no adapters"},
        {stack->engine == TPP_ENGINE_FSDP2 && request->job->optimizer != TPP_OPTIMIZER_ADAMW, "job.optimizer",
         "its precision-aware optimizer needs the distributed optimizer, which FSDP2 excludes"},
        {stack->engine == TPP_ENGINE_FSDP2 && request->job->gradient_type != TPP_GRADIENT_DEFAULT, "job.gradient_type",
         "its FSDP2 has no option for the type of gradients"},
        {request->job->optimizer == TPP_OPTIMIZER_ADAMW_BF16 && request->release < TPP_RELEASE_0_13, "job.optimizer",
         "moments in bf16 are there from 0.13 on"},
        {request->job->gradient_type == TPP_GRADIENT_BF16 && request->release < TPP_RELEASE_0_12, "job.gradient_type",
         "gradients are reduced in bf16 from 0.12 on"},
        {precision == TPP_PRECISION_MXFP8 && request->release < TPP_RELEASE_0_12, "job.precision",
         "MXFP8 is there from 0.12 on"},
        {precision == TPP_PRECISION_FP8_BLOCK && request->release < TPP_RELEASE_0_13, "job.precision",
         "block-scaled FP8 is there from 0.13 on"},
        {tpp_graph_modules_hold_experts(request), "stack.cuda_graphs",
         "graphs hold experts with a fixed capacity alone"},
        {stack->cuda_graphs && (stack->graph_parts != 0 || request->model->num_experts > 0) &&
             request->release < TPP_RELEASE_0_16,
         "stack.cuda_graphs", "graphs of parts of a layer are there from 0.16 on"},
        {precision == TPP_PRECISION_FP8 && stack->current_scaling && request->release < TPP_RELEASE_0_12,
         "stack.current_scaling", "current scaling is there from 0.12 on"},
        {stack->engine == TPP_ENGINE_FSDP2 && stack->fp8_weights, "stack.fp8_weights",
         "its FSDP2 gathers weights in 16 bits"},
        {stack->deterministic && (stack->loss_kernel == TPP_LOSS_FUSED || request->strategy->tp_comm_overlap),
         "stack.deterministic", "deterministic mode excludes the fused cross entropy and --tp-comm-overlap"},
    };
    enum tpp_code code = tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, CANNOT, CHOOSE, err);
    if (code != TPP_OK)
        return code;
    code = tpp_megatron_lm_check_model(request, err);
    return code != TPP_OK ? code : check_options(request, err);
}

static void write_training(struct tpp_script *script, const struct tpp_launch_request *request,
                           const struct tpp_rule_settings *s)
{
    tpp_script_array_begin(script, "TRAINING_ARGS");
    tpp_script_integer(script, "--micro-batch-size", s->micro_batch_size);
    tpp_script_integer(script, "--global-batch-size", s->global_batch_size);
    tpp_script_expression(script, "--train-iters", "\"$TRAIN_ITERS\"");
    tpp_script_expression(script, "--lr", "\"$LR\"");
    write_precision(script, s);
    write_data_parallel(script, request, s);
    write_recompute(script, s);
    write_kernels(script, request, s);
    tpp_script_array_end(script);
}

static void write_data(struct tpp_script *script, const struct tpp_launch_request *request)
{
    tpp_script_array_begin(script, "DATA_ARGS");
    tpp_script_expression(script, "--data-path", "\"${DATA_PATHS[@]}\"");
    tpp_script_expression(script, "--tokenizer-type", "\"$TOKENIZER_TYPE\"");
    tpp_script_expression(script, "--tokenizer-model", "\"$TOKENIZER_MODEL\"");
    tpp_script_expression(script, "--save", "\"$CHECKPOINT_PATH\"");
    tpp_script_expression(script, "--load", "\"$CHECKPOINT_PATH\"");
    tpp_script_expression(script, "--save-interval", "\"$SAVE_INTERVAL\"");
    if (request->job->task == TPP_TASK_SFT)
        tpp_script_expression(script, "--pretrained-checkpoint", "\"$PRETRAINED_PATH\"");
    tpp_script_integer(script, "--log-interval", 1);
    if (request->job->num_gpus > MANY_RANKS)
        tpp_script_integer(script, "--distributed-timeout-minutes", 60);
    tpp_script_flag_if(script, script->release >= TPP_RELEASE_0_5, "--log-throughput");
    tpp_script_array_end(script);
}

enum tpp_code tpp_launch_emit_megatron_lm(const struct tpp_launch_request *request, struct tpp_script *script,
                                          struct tpp_error *err)
{
    struct tpp_rule_settings settings;
    enum tpp_code code = check_plan(request, err);
    if (code != TPP_OK)
        return code;
    char name[48];
    snprintf(name, sizeof name, "Megatron-LM %s", tpp_release_name(request->release));
    char layout[TPP_PLAN_LAYOUT_SIZE];
    code = tpp_launch_check_core_rules(request, name, &settings, layout, err);
    if (code != TPP_OK)
        return code;
    tpp_script_header(script, request);
    write_required(script, request);
    write_environment(script, request, &settings);
    tpp_megatron_lm_write_model(script, request);
    write_parallel(script, request, &settings);
    write_training(script, request, &settings);
    write_data(script, request);
    tpp_text_append(script->out, "\n");
    tpp_script_torchrun(
        script, request, "\"$MEGATRON_PATH/pretrain_gpt.py\"",
        "\"${MODEL_ARGS[@]}\" \"${PARALLEL_ARGS[@]}\" \"${TRAINING_ARGS[@]}\" \"${DATA_ARGS[@]}\" \"$@\"");
    return TPP_OK;
}
