/* megatron_deepspeed.c - the launch script and ds_config.json of Megatron-DeepSpeed (launch formats, sections 2 and 3).
 */
#include "planner/launch/deepspeed_json.h"
#include "planner/launch/emitter.h"
#include "planner/launch/refusal.h"
#include "planner/rules/schedules.h"

#define NAME "Megatron-DeepSpeed"

/* With several stages its own pipeline engine runs, whatever was asked for (MD-5). */
static bool uses_pipeline_engine(const struct tpp_launch_request *request)
{
    return request->stack->engine == TPP_ENGINE_DEEPSPEED_PIPELINE || request->strategy->pipeline_parallel > 1;
}

#define CANNOT NAME " cannot run this plan:"
#define CHOOSE "choose another plan or framework"

static enum tpp_code check_plan(const struct tpp_launch_request *request, struct tpp_error *err)
{
    const struct tpp_strategy *s = request->strategy;
    const bool has_stages = s->pipeline_parallel > 1;
    const struct tpp_refusal refusals[] = {
        {s->dispatch != TPP_DISPATCH_ALL_TO_ALL || s->expert_overlap || s->shared_overlap, "strategy.dispatch",
         "its experts exchange tokens by all-to-all, without overlap"},
        {s->recompute_modules != 0, "strategy.recompute_modules", "it recomputes the attention core or whole layers"},
        {s->last_chunk_less > 0, "strategy.last_chunk_less", "it splits whole layers over the stages by itself"},
        {has_stages && !tpp_framework_has_schedule(TPP_FRAMEWORK_MEGATRON_DEEPSPEED, s->schedule), "strategy.schedule",
         "it has no pipeline schedules beside 1f1b and zb-h1"},
        {has_stages && s->schedule == TPP_SCHEDULE_ZB_H1 && s->sequence_parallel, "strategy.schedule",
         "its zero-bubble schedule excludes sequence parallelism (MD-14)"},
        {has_stages && request->model->num_layers % s->pipeline_parallel != 0 && !s->balanced_split,
         "strategy.balanced_split", "it gives layers that do not divide to the first stages"},
        {s->context_parallel > 1 && s->context_kind != TPP_CONTEXT_ULYSSES, "strategy.context_kind",
         "its sequence parallelism over ranks is Ulysses"},
    };
    return tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, CANNOT, CHOOSE, err);
}

static bool has_activation(const struct tpp_model *model)
{
    return model->gated_mlp
               ? model->activation == TPP_ACTIVATION_SILU
               : model->activation == TPP_ACTIVATION_GELU || model->activation == TPP_ACTIVATION_SQUARED_RELU;
}

static bool has_biases(const struct tpp_model *model)
{
    const bool has_mlp = model->ffn_hidden_size > 0;
    return model->qkv_bias == model->output_bias && (!has_mlp || model->output_bias == model->mlp_bias);
}

/* Experts are copies of the dense MLP, in every n-th layer. */
static bool has_other_experts(const struct tpp_model *model)
{
    return model->num_experts > 0 &&
           (model->first_k_dense > 0 ||
            (model->ffn_hidden_size > 0 && model->ffn_hidden_size != model->moe_ffn_hidden_size));
}

static enum tpp_code check_model(const struct tpp_launch_request *request, struct tpp_error *err)
{
    const struct tpp_model *model = request->model;
    const bool is_learned = model->position == TPP_POSITION_LEARNED;
    const struct tpp_refusal refusals[] = {
        {model->parallel_block, "model.parallel_block", "attention and MLP that read the same input"},
        {model->norms_per_layer != 2 || !model->final_norm, "model.norms_per_layer",
         "another number of norms than two a layer and one at the end"},
        {model->embedding_norm, "model.embedding_norm", "a norm behind the embedding"},
        {model->norm != TPP_NORM_RMS && model->norm != TPP_NORM_LAYER, "model.norm",
         "a layer norm without bias or without parameters"},
        {model->qk_norm, "model.qk_norm", "norms of q and k"},
        {!has_activation(model), "model.activation", "this activation (it has GELU, SwiGLU and squared ReLU)"},
        {!has_biases(model), "model.qkv_bias", "biases in some linear layers alone"},
        {model->lm_head_bias, "model.lm_head_bias", "a bias in the output layer"},
        {model->position == TPP_POSITION_ALIBI, "model.position", "ALiBi positions (BLOOM's fork has them)"},
        {is_learned && model->learned_position_rows < request->job->sequence_length, "model.learned_position_rows",
         "a sequence that is longer than the model's table of positions"},
        {tpp_launch_has_window(request), "model.sliding_window", "a sliding window"},
        {model->attention_sink_elements > 0, "model.attention_sink_elements", "attention sinks"},
        {model->kv_lora_rank > 0, "model.kv_lora_rank", "multi-latent attention"},
        {has_other_experts(model), "model.moe_ffn_hidden_size",
         "experts of another width than the dense layers, or dense layers in front"},
        {model->shared_expert_hidden_size > 0, "model.shared_expert_hidden_size", "shared experts"},
        {model->router_bias || model->expert_bias, "model.router_bias", "biases of experts or routers alone"},
    };
    return tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, "the options of " NAME " cannot describe",
                             "train it with a framework that has this layer", err);
}

enum tpp_code tpp_launch_check_megatron_deepspeed(const struct tpp_launch_request *request, struct tpp_error *err)
{
    const struct tpp_stack *stack = request->stack;
    const struct tpp_refusal refusals[] = {
        {tpp_job_is_adapter(request->job), "job.task", "pretrain_gpt.py trains no adapters"},
        {request->job->mtp_num_layers > 0, "job.mtp_num_layers", "it has no multi-token prediction"},
        {tpp_precision_is_fp8(request->job->precision), "job.precision", "it has no FP8 recipes"},
        {stack->attention != TPP_ATTENTION_FLASH1 && stack->attention != TPP_ATTENTION_FLASH2 &&
             stack->attention != TPP_ATTENTION_FUSED_SOFTMAX,
         "stack.attention", "it has FlashAttention 1 and 2, and its own softmax"},
        {stack->loss_kernel != TPP_LOSS_UNFUSED, "stack.loss_kernel", "it has no fused cross entropy"},
        {stack->cuda_graphs, "stack.cuda_graphs", "it has no CUDA graphs"},
    };
    const enum tpp_code code = tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, CANNOT, CHOOSE, err);
    return code != TPP_OK ? code : check_model(request, err);
}

static void write_required(struct tpp_script *script, const struct tpp_launch_request *request)
{
    tpp_script_comment(script, "What only you know. More options may follow the name of this script; the last one of a "
                               "name wins.");
    tpp_script_required(script, "MEGATRON_PATH", "the folder of the Megatron-DeepSpeed checkout");
    tpp_script_required(script, "DATA_PATH", "the prefix of the preprocessed data, or weights and prefixes");
    tpp_script_required(script, "TOKENIZER_MODEL", "the tokenizer file or folder");
    tpp_script_required(script, "CHECKPOINT_PATH", "the folder that checkpoints are written to");
    tpp_script_required(script, "TRAIN_ITERS", "the number of optimizer steps");
    tpp_script_required(script, "LR", "the peak learning rate");
    if (request->job->task == TPP_TASK_SFT)
        tpp_script_required(script, "PRETRAINED_PATH", "the checkpoint to start from");
    tpp_script_required_nodes(script, request);
    tpp_text_append(script->out, "TOKENIZER_TYPE=\"${TOKENIZER_TYPE:-HFTokenizer}\"\n"
                                 "SAVE_INTERVAL=\"${SAVE_INTERVAL:-1000}\"\n"
                                 "read -r -a DATA_PATHS <<< \"$DATA_PATH\"\n\n");
}

static void write_positions(struct tpp_script *script, const struct tpp_launch_request *request)
{
    const struct tpp_model *model = request->model;
    uint64_t positions = request->job->sequence_length;
    if (model->position == TPP_POSITION_LEARNED)
        positions = model->learned_position_rows;
    else if (model->max_position_embeddings > positions)
        positions = model->max_position_embeddings;
    tpp_script_integer(script, "--seq-length", (int64_t)request->job->sequence_length);
    tpp_script_integer(script, "--max-position-embeddings", (int64_t)positions);
    if (model->position == TPP_POSITION_LEARNED)
        return;
    if (model->position == TPP_POSITION_NONE) {
        tpp_script_flag(script, "--no-position-embedding");
        return;
    }
    tpp_script_flag(script, "--use-rotary-position-embeddings");
    tpp_script_integer(script, "--rotary-position-embeddings-theta", (int64_t)model->rope_theta);
    if (model->rotary_fraction < 1)
        tpp_script_number(script, "--rotary-percent", model->rotary_fraction);
}

static void write_model(struct tpp_script *script, const struct tpp_launch_request *request)
{
    const struct tpp_model *model = request->model;
    tpp_script_array_begin(script, "MODEL_ARGS");
    tpp_script_integer(script, "--num-layers", model->num_layers);
    tpp_script_integer(script, "--hidden-size", model->hidden_size);
    tpp_script_integer(script, "--ffn-hidden-size",
                       model->ffn_hidden_size > 0 ? model->ffn_hidden_size : model->moe_ffn_hidden_size);
    tpp_script_flag_if(script, model->gated_mlp, "--swiglu");
    tpp_script_flag_if(script, !model->gated_mlp && model->activation == TPP_ACTIVATION_SQUARED_RELU, "--squared-relu");
    tpp_script_integer(script, "--num-attention-heads", model->num_attention_heads);
    tpp_script_integer(script, "--kv-channels", model->head_dim);
    if (model->num_query_groups != model->num_attention_heads)
        tpp_script_integer(script, "--num-key-value-heads", model->num_query_groups);
    tpp_script_flag_if(script, !model->output_bias, "--disable-bias-linear");
    tpp_script_word(script, "--normalization", model->norm == TPP_NORM_RMS ? "rmsnorm" : "layernorm");
    if (model->norm_epsilon > 0)
        tpp_script_number(script, "--layernorm-epsilon", model->norm_epsilon);
    write_positions(script, request);
    tpp_script_integer(script, "--vocab-size", model->vocab_size);
    if (request->stack->vocabulary_multiple > 0)
        tpp_script_integer(script, "--make-vocab-size-divisible-by", request->stack->vocabulary_multiple);
    tpp_script_flag_if(script, !model->tied_embeddings, "--untie-embeddings-and-output-weights");
    tpp_script_number(script, "--attention-dropout", request->job->attention_dropout);
    tpp_script_number(script, "--hidden-dropout", request->job->hidden_dropout);
    if (model->num_experts > 0) {
        tpp_script_integer(script, "--num-experts", model->num_experts);
        tpp_script_integer(script, "--topk", model->experts_per_token);
        tpp_script_integer(script, "--expert-interval", model->moe_layer_period);
        if (request->job->expert_capacity_factor > 0)
            tpp_script_number(script, "--moe-train-capacity-factor", request->job->expert_capacity_factor);
        else
            tpp_script_flag(script, "--disable-moe-token-dropping");
    }
    tpp_script_array_end(script);
}

static void write_parallel(struct tpp_script *script, const struct tpp_launch_request *request)
{
    const struct tpp_strategy *s = request->strategy;
    tpp_script_array_begin(script, "PARALLEL_ARGS");
    tpp_script_integer(script, "--tensor-model-parallel-size", s->tensor_parallel);
    tpp_script_integer(script, "--pipeline-model-parallel-size", s->pipeline_parallel);
    tpp_script_flag_if(script, !uses_pipeline_engine(request), "--no-pipeline-parallel");
    tpp_script_flag_if(script, s->pipeline_parallel > 1 && s->schedule == TPP_SCHEDULE_ZB_H1, "--enable-zbh1-pipeline");
    if (s->context_parallel > 1)
        tpp_script_integer(script, "--ds-sequence-parallel-size", s->context_parallel);
    tpp_script_flag_if(script, s->sequence_parallel && s->tensor_parallel > 1, "--sequence-parallel");
    if (request->model->num_experts > 0) {
        tpp_script_integer(script, "--moe-expert-parallel-size", s->expert_parallel);
        tpp_script_flag_if(script, s->tensor_parallel > 1 && s->expert_tensor_parallel == s->tensor_parallel,
                           "--enable-expert-tensor-parallelism");
        tpp_script_flag(script, "--create-moe-param-group");
    }
    tpp_script_array_end(script);
}

static void write_recompute(struct tpp_script *script, const struct tpp_strategy *s)
{
    const bool is_block = s->recompute_method == TPP_RECOMPUTE_BLOCK && s->recompute_num_layers > 0;
    if (s->recompute == TPP_RECOMPUTE_NONE)
        return;
    tpp_script_word(script, "--recompute-granularity", tpp_recompute_name(s->recompute));
    if (s->recompute != TPP_RECOMPUTE_FULL)
        return;
    tpp_script_word(script, "--recompute-method", is_block ? "block" : "uniform");
    tpp_script_integer(script, "--recompute-num-layers",
                       s->recompute_method == TPP_RECOMPUTE_BLOCK && !is_block ? 1
                       : s->recompute_num_layers > 0                           ? s->recompute_num_layers
                                                                               : 1);
}

static void write_training(struct tpp_script *script, const struct tpp_launch_request *request)
{
    const struct tpp_strategy *s = request->strategy;
    const enum tpp_attention_kernel attention = request->stack->attention;
    tpp_script_array_begin(script, "TRAINING_ARGS");
    tpp_script_integer(script, "--micro-batch-size", s->micro_batch_size);
    tpp_script_integer(script, "--global-batch-size", (int64_t)request->job->global_batch_size);
    tpp_script_expression(script, "--train-iters", "\"$TRAIN_ITERS\"");
    tpp_script_expression(script, "--lr", "\"$LR\"");
    tpp_script_flag_if(script, request->job->precision == TPP_PRECISION_BF16, "--bf16");
    tpp_script_flag_if(script, request->job->precision == TPP_PRECISION_FP16, "--fp16");
    tpp_script_flag_if(script, attention == TPP_ATTENTION_FLASH1, "--use-flash-attn-v1");
    tpp_script_flag_if(script, attention == TPP_ATTENTION_FLASH2, "--use-flash-attn-v2");
    write_recompute(script, s);
    tpp_script_flag(script, "--deepspeed");
    tpp_script_expression(script, "--deepspeed_config", "\"$DS_CONFIG\"");
    tpp_script_integer(script, "--zero-stage", s->zero_stage);
    tpp_script_flag_if(script, s->offload == TPP_OFFLOAD_OPTIMIZER, "--cpu-optimizer");
    tpp_script_array_end(script);
}

static void write_data(struct tpp_script *script, const struct tpp_launch_request *request)
{
    const bool is_tuning = request->job->task == TPP_TASK_SFT;
    tpp_script_array_begin(script, "DATA_ARGS");
    tpp_script_expression(script, "--data-path", "\"${DATA_PATHS[@]}\"");
    tpp_script_expression(script, "--tokenizer-type", "\"$TOKENIZER_TYPE\"");
    tpp_script_expression(script, "--tokenizer-model", "\"$TOKENIZER_MODEL\"");
    tpp_script_expression(script, "--save", "\"$CHECKPOINT_PATH\"");
    tpp_script_expression(script, "--load", is_tuning ? "\"$PRETRAINED_PATH\"" : "\"$CHECKPOINT_PATH\"");
    tpp_script_flag_if(script, is_tuning, "--finetune");
    tpp_script_expression(script, "--save-interval", "\"$SAVE_INTERVAL\"");
    tpp_script_integer(script, "--log-interval", 1);
    tpp_script_array_end(script);
}

enum tpp_code tpp_launch_emit_megatron_deepspeed(const struct tpp_launch_request *request, struct tpp_script *script,
                                                 struct tpp_error *err)
{
    const enum tpp_deepspeed_client client =
        uses_pipeline_engine(request) ? TPP_DEEPSPEED_PIPELINE : TPP_DEEPSPEED_ENGINE;
    struct tpp_rule_settings settings;
    struct tpp_text config;
    enum tpp_code code = check_plan(request, err);
    if (code == TPP_OK)
        code = tpp_deepspeed_json_check(request, client, NAME, err);
    if (code == TPP_OK)
        code = tpp_launch_check_rules(request, NAME, &settings, err);
    if (code != TPP_OK)
        return code;
    tpp_text_init(&config);
    code = tpp_deepspeed_json_write(request, client, &config, err);
    tpp_script_header(script, request);
    write_required(script, request);
    tpp_script_export(script, request, "CUDA_DEVICE_MAX_CONNECTIONS", "1",
                      "Kernels start in the order they are queued; sequence parallelism demands it.");
    tpp_script_environment(script, request);
    tpp_text_append(script->out, "\n");
    tpp_script_config(script, request, "DS_CONFIG", "ds_config.json", &config);
    tpp_text_release(&config);
    write_model(script, request);
    write_parallel(script, request);
    write_training(script, request);
    write_data(script, request);
    tpp_text_append(script->out, "\n");
    tpp_script_torchrun(
        script, request, "\"$MEGATRON_PATH/pretrain_gpt.py\"",
        "\"${MODEL_ARGS[@]}\" \"${PARALLEL_ARGS[@]}\" \"${TRAINING_ARGS[@]}\" \"${DATA_ARGS[@]}\" \"$@\"");
    return code;
}
