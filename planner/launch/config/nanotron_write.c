/* nanotron_write.c - a plan as the configuration of a nanotron job, and the script that starts it. */
#include "planner/launch/config/nanotron.h"
#include "planner/launch/emitter.h"
#include "planner/rules/schedules.h"

static void set_model(const struct tpp_launch_request *request, struct tpp_nanotron_settings *s)
{
    const struct tpp_model *model = request->model;
    const bool is_gathered = request->strategy->context_kind == TPP_CONTEXT_ALL_GATHER;
    s->num_layers = model->num_layers;
    s->hidden_size = model->hidden_size;
    s->ffn_hidden_size =
        model->num_experts > 0 && model->ffn_hidden_size == 0 ? model->moe_ffn_hidden_size : model->ffn_hidden_size;
    s->num_heads = model->num_attention_heads;
    s->num_key_value_heads = model->num_query_groups;
    s->vocab_size = model->vocab_size;
    s->max_positions = model->max_position_embeddings > request->job->sequence_length
                           ? model->max_position_embeddings
                           : (int64_t)request->job->sequence_length;
    s->rms_epsilon = model->norm_epsilon > 0 ? model->norm_epsilon : s->rms_epsilon;
    s->rope_theta = model->rope_theta;
    s->tied_embeddings = model->tied_embeddings;
    s->attention_bias = model->qkv_bias;
    /* Its Llama layers have neither biases, experts nor context parallelism; its Qwen2 layers have all of them. */
    s->is_qwen2 = model->qkv_bias || model->num_experts > 0 || request->strategy->context_parallel > 1;
    s->is_llama = !s->is_qwen2;
    if (request->strategy->context_parallel > 1) {
        s->attention = is_gathered ? NANOTRON_ATTENTION_GATHER : NANOTRON_ATTENTION_RING;
        s->heads_stride = is_gathered ? 1 : TPP_KEY_UNSET;
    }
    if (model->num_experts == 0)
        return;
    s->num_experts = model->num_experts;
    s->experts_per_token = model->experts_per_token;
    s->moe_ffn_hidden_size = model->moe_ffn_hidden_size;
    s->has_shared_expert = model->shared_expert_hidden_size > 0;
    if (s->has_shared_expert)
        s->shared_expert_hidden_size = model->shared_expert_hidden_size;
}

static void set_training(struct tpp_nanotron_settings *s)
{
    s->project = "tp-plan";
    s->checkpoints_path = "@CHECKPOINT_PATH@";
    s->tokenizer = "@TOKENIZER_MODEL@";
    s->dataset = "@DATA_PATH@";
    s->train_steps = "@TRAIN_ITERS@";
    s->learning_rate = "@LR@";
    s->stage_name = "training";
    s->warmup_style = "linear";
    s->decay_style = "linear";
    s->checkpoint_interval = 1000;
    s->accumulate_in_fp32 = s->fused_adam = true;
    s->weight_decay = 0.1;
    s->clip_grad = 1;
    s->beta1 = 0.9;
    s->beta2 = 0.95;
    s->adam_epsilon = 1e-8;
    s->init_std = 0.02;
}

static void set_settings(const struct tpp_launch_request *request, struct tpp_nanotron_settings *s)
{
    const struct tpp_strategy *plan = request->strategy;
    *s = tpp_nanotron_defaults();
    set_model(request, s);
    set_training(s);
    s->data = plan->data_parallel;
    s->tensor = plan->tensor_parallel;
    s->pipeline = plan->pipeline_parallel;
    s->context = plan->context_parallel;
    s->engine = plan->schedule == TPP_SCHEDULE_GPIPE ? NANOTRON_ENGINE_AFAB : NANOTRON_ENGINE_1F1B;
    s->tensor_mode = plan->sequence_parallel ? NANOTRON_MODE_REDUCE_SCATTER : NANOTRON_MODE_ALL_REDUCE;
    s->tensor_async = plan->sequence_parallel && request->stack->tensor_parallel_async;
    s->recompute_layer = plan->recompute == TPP_RECOMPUTE_FULL;
    s->sequence_length = (int64_t)request->job->sequence_length;
    s->micro_batch_size = plan->micro_batch_size;
    s->accumulation = (int64_t)plan->num_micro_batches;
    s->zero_stage = plan->zero_stage;
    s->dtype = request->job->precision == TPP_PRECISION_FP32   ? 2
               : request->job->precision == TPP_PRECISION_FP16 ? 1
                                                               : 0;
}

#define CANNOT "nanotron cannot run this plan:"
#define CHOOSE "choose another plan or framework"

enum tpp_code tpp_launch_check_nanotron(const struct tpp_launch_request *request, struct tpp_error *err)
{
    const struct tpp_model *model = request->model;
    const struct tpp_refusal refusals[] = {
        {tpp_launch_has_window(request), "model.sliding_window", "its attention has no window"},
        {tpp_job_is_adapter(request->job), "job.task", "it trains no adapters"},
        {request->job->precision == TPP_PRECISION_FP8, "job.precision", "it has no FP8 of its own"},
        {model->norm != TPP_NORM_RMS || !model->gated_mlp || model->activation != TPP_ACTIVATION_SILU ||
             model->position != TPP_POSITION_ROPE || model->rotary_fraction < 1,
         "model", "its layers are those of Llama and Qwen2: RMSNorm, SwiGLU, rotary positions"},
        {model->output_bias || model->mlp_bias || model->lm_head_bias || model->parallel_block ||
             model->embedding_norm || model->norms_per_layer != 2 || model->kv_lora_rank > 0 ||
             model->mtp_num_layers > 0 || model->qk_norm,
         "model", "its layers have no such biases, norms or attention"},
        {(uint64_t)model->head_dim * model->num_attention_heads != model->hidden_size, "model.head_dim",
         "the heads must make the hidden size"},
        {model->num_experts > 0 && (model->first_k_dense > 0 || model->moe_layer_period > 1 ||
                                    model->shared_expert_gate || model->router_bias || model->expert_bias),
         "model", "every layer has the same experts, without gates or biases"},
    };
    const enum tpp_code code = tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, CANNOT, CHOOSE, err);
    return code != TPP_OK ? code : tpp_launch_check_plain_job(request, CANNOT, err);
}

static enum tpp_code check_plan(const struct tpp_launch_request *request, struct tpp_error *err)
{
    struct tpp_rule_settings settings;
    const struct tpp_strategy *s = request->strategy;
    const bool has_stages = s->pipeline_parallel > 1;
    const struct tpp_refusal refusals[] = {
        {has_stages && !tpp_framework_has_schedule(TPP_FRAMEWORK_NANOTRON, s->schedule), "strategy.schedule",
         "its pipeline engines are afab and 1f1b"},
        {s->shard_group > 0, "strategy.shard_group", "the optimizer is sharded over all data-parallel ranks"},
        {s->zero_stage > 0 && request->stack->engine == TPP_ENGINE_DDP, "stack.engine",
         "the plan's engine has no sharded optimizer"},
    };
    enum tpp_code code = tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, CANNOT, CHOOSE, err);
    if (code == TPP_OK)
        code = tpp_launch_check_plain(request, CANNOT, err);
    return code != TPP_OK ? code : tpp_launch_check_rules(request, "nanotron", &settings, err);
}

enum tpp_code tpp_nanotron_write(const struct tpp_launch_request *request, struct tpp_text *out, struct tpp_error *err)
{
    struct tpp_nanotron_settings settings;
    const struct tpp_nanotron_settings of_framework = tpp_nanotron_defaults();
    enum tpp_code code = tpp_launch_check_nanotron(request, err);
    if (code == TPP_OK)
        code = check_plan(request, err);
    if (code != TPP_OK)
        return code;
    set_settings(request, &settings);
    tpp_config_keys_write(&tpp_nanotron_table, &settings, &of_framework, TPP_CONFIG_YAML, out);
    return TPP_OK;
}

/* What only the user knows goes into a copy: numbers as numbers, everything else as JSON texts, which YAML reads too.
 */
static const char fill_in[] = "NANOTRON_FILLED=\"$NANOTRON_CONFIG.filled.yaml\"\n"
                              "export CHECKPOINT_PATH TOKENIZER_MODEL DATA_PATH TRAIN_ITERS LR\n"
                              "python3 -c '\n"
                              "import json, os, re, sys\n"
                              "def value(match):\n"
                              "    word = os.environ[match.group(1)]\n"
                              "    if re.fullmatch(r\"[0-9]+\", word):\n"
                              "        return word\n"
                              "    if re.fullmatch(r\"[0-9.]+([eE][-+]?[0-9]+)?\", word):\n"
                              "        return \"%.9e\" % float(word)\n"
                              "    return json.dumps(word)\n"
                              "with open(sys.argv[1]) as file:\n"
                              "    text = file.read()\n"
                              "with open(sys.argv[2], \"w\") as file:\n"
                              "    file.write(re.sub(r\"\\\"@([A-Z_]+)@\\\"\", value, text))\n"
                              "' \"$NANOTRON_CONFIG\" \"$NANOTRON_FILLED\"\n\n";

enum tpp_code tpp_launch_emit_nanotron(const struct tpp_launch_request *request, struct tpp_script *script,
                                       struct tpp_error *err)
{
    struct tpp_text content;
    tpp_text_init(&content);
    enum tpp_code code = tpp_nanotron_write(request, &content, err);
    if (code == TPP_OK) {
        tpp_script_header(script, request);
        tpp_script_comment(script, "What only you know.");
        tpp_script_required(script, "NANOTRON_PATH", "the folder of the nanotron checkout");
        tpp_script_required(script, "DATA_PATH", "the folder of the tokenized data");
        tpp_script_required(script, "TOKENIZER_MODEL", "the name or folder of the tokenizer");
        tpp_script_required(script, "CHECKPOINT_PATH", "the folder that checkpoints are written to");
        tpp_script_required(script, "TRAIN_ITERS", "the number of optimizer steps");
        tpp_script_required(script, "LR", "the learning rate");
        tpp_script_required_nodes(script, request);
        tpp_text_append(script->out, "\n");
        tpp_script_environment(script, request);
        tpp_script_export(script, request, "CUDA_DEVICE_MAX_CONNECTIONS", "1",
                          "Kernels start in the order they are queued: asynchronous tensor parallelism needs it.");
        tpp_text_append(script->out, "\n");
        tpp_script_config(script, request, "NANOTRON_CONFIG", "nanotron.yaml", &content);
        tpp_text_append(script->out, fill_in);
        tpp_script_torchrun(script, request, "\"$NANOTRON_PATH/run_train.py\"",
                            "--config-file \"$NANOTRON_FILLED\" \"$@\"");
    }
    tpp_text_release(&content);
    return code;
}
