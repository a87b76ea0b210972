/* torchtitan_write.c - a plan as the job configuration of torchtitan, and the script that launches it. */
#include "planner/launch/config/torchtitan.h"
#include "planner/launch/emitter.h"
#include "planner/rules/schedules.h"

#include <string.h>

/* As many layers a stage as make just this number of stages; UNSET where its own default does. */
static void set_stages(const struct tpp_launch_request *request, struct tpp_titan_settings *s)
{
    const struct tpp_strategy *plan = request->strategy;
    static const unsigned schedules[TPP_SCHEDULE_COUNT] = {
        [TPP_SCHEDULE_GPIPE] = TITAN_SCHEDULE_GPIPE,
        [TPP_SCHEDULE_1F1B] = TITAN_SCHEDULE_1F1B,
        [TPP_SCHEDULE_INTERLEAVED] = TITAN_SCHEDULE_INTERLEAVED,
        [TPP_SCHEDULE_ZB_V] = TITAN_SCHEDULE_ZBV,
        [TPP_SCHEDULE_DUALPIPEV] = TITAN_SCHEDULE_DUALPIPEV,
    };
    if (plan->pipeline_parallel == 1)
        return;
    s->schedule = schedules[plan->schedule];
    s->first_less = plan->account_for_embedding;
    s->last_less = plan->account_for_loss;
    const int64_t stages = (int64_t)plan->pipeline_parallel * plan->virtual_pipeline_stages;
    if (plan->virtual_pipeline_stages > 2)
        s->layers_per_stage = (tpp_titan_slots(request->model, s) + stages - 1) / stages;
}

/* With stages, the local batch is what one pass through the pipeline takes; without, it is the micro-batch. */
static void set_batch(const struct tpp_strategy *plan, const struct tpp_job *job, struct tpp_titan_settings *s)
{
    s->local_batch_size = plan->micro_batch_size;
    s->global_batch_size = (int64_t)job->global_batch_size;
    s->seq_len = (int64_t)job->sequence_length;
    if (plan->pipeline_parallel == 1)
        return;
    s->local_batch_size = (int64_t)plan->num_micro_batches * plan->micro_batch_size;
    s->microbatch_size = plan->micro_batch_size;
}

static void set_sharding(const struct tpp_strategy *plan, const struct tpp_stack *stack, struct tpp_titan_settings *s)
{
    const uint32_t context = plan->context_parallel;
    const uint32_t shard = plan->shard_group > 0 ? plan->shard_group / context : plan->data_parallel;
    s->shard = stack->engine == TPP_ENGINE_DDP ? 1 : shard;
    s->replicate = plan->data_parallel / (s->shard > 0 ? s->shard : 1);
    if (stack->engine != TPP_ENGINE_DDP)
        s->reshard = plan->reshard_after_forward ? TITAN_RESHARD_ALWAYS : TITAN_RESHARD_NEVER;
}

static void set_settings(const struct tpp_launch_request *request, struct tpp_titan_settings *s)
{
    const struct tpp_strategy *plan = request->strategy;
    *s = tpp_titan_defaults();
    tpp_titan_set_flavor(request->model, s);
    set_batch(plan, request->job, s);
    set_sharding(plan, request->stack, s);
    set_stages(request, s);
    s->tensor = plan->tensor_parallel;
    s->pipeline = plan->pipeline_parallel;
    s->context = plan->context_parallel;
    s->expert = plan->expert_parallel;
    s->expert_tensor = request->model->num_experts > 0 && plan->expert_parallel > 1 ? plan->expert_tensor_parallel : 1;
    s->rotate_method = plan->context_parallel > 1 && plan->context_kind == TPP_CONTEXT_RING;
    s->async_tensor_parallel = plan->tp_comm_overlap;
    s->cpu_offload = plan->offload == TPP_OFFLOAD_OPTIMIZER;
    s->float8 = request->job->precision == TPP_PRECISION_FP8;
    s->mixed_precision_param = request->job->precision == TPP_PRECISION_FP32;
    s->checkpointing = plan->recompute == TPP_RECOMPUTE_FULL        ? TITAN_CHECKPOINT_FULL
                       : plan->recompute == TPP_RECOMPUTE_SELECTIVE ? TITAN_CHECKPOINT_SELECTIVE
                                                                    : TITAN_CHECKPOINT_NONE;
    if (plan->recompute == TPP_RECOMPUTE_SELECTIVE)
        s->selective_option = "op";
    s->compile = true; /* what the plan's times count on */
}

#define CANNOT "torchtitan cannot run this plan:"
#define CHOOSE "choose another plan or framework"

enum tpp_code tpp_launch_check_torchtitan(const struct tpp_launch_request *request, struct tpp_error *err)
{
    const struct tpp_refusal refusals[] = {
        {tpp_launch_has_window(request), "model.sliding_window", "its attention has no window"},
        {strcmp(request->stack->release, "main") == 0, "release", "files are written for the releases up to 0.2.2"},
        {tpp_job_is_adapter(request->job), "job.task", "it trains no adapters"},
    };
    const enum tpp_code code = tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, CANNOT, CHOOSE, err);
    return code != TPP_OK ? code : tpp_launch_check_plain_job(request, CANNOT, err);
}

static enum tpp_code check_plan(const struct tpp_launch_request *request, struct tpp_error *err)
{
    struct tpp_rule_settings settings;
    const struct tpp_strategy *s = request->strategy;
    const bool ddp = request->stack->engine == TPP_ENGINE_DDP;
    const struct tpp_refusal refusals[] = {
        {!ddp && s->zero_stage != 3, "strategy.zero_stage", "FSDP2 shards weights, gradients and optimizer: stage 3"},
        {ddp && s->zero_stage != 0, "strategy.zero_stage", "plain replicas shard nothing"},
        {s->pipeline_parallel > 1 && !tpp_framework_has_schedule(TPP_FRAMEWORK_TORCHTITAN, s->schedule), "strategy.schedule", "it has no such schedule"},
        {!s->overlap_grad_reduce || (!ddp && !s->overlap_param_gather), "strategy.overlap_grad_reduce",
         "it always overlaps"},
        {s->balanced_split, "strategy.balanced_split", "the plan's split of layers is another"},
    };
    enum tpp_code code = tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, CANNOT, CHOOSE, err);
    if (code == TPP_OK)
        code = tpp_launch_check_plain(request, CANNOT, err);
    return code != TPP_OK ? code : tpp_launch_check_rules(request, "torchtitan", &settings, err);
}

enum tpp_code tpp_torchtitan_write(const struct tpp_launch_request *request, struct tpp_text *out,
                                   struct tpp_error *err)
{
    struct tpp_titan_settings settings;
    const struct tpp_titan_settings of_framework = tpp_titan_defaults();
    enum tpp_code code = tpp_launch_check_torchtitan(request, err);
    if (code == TPP_OK)
        code = check_plan(request, err);
    if (code != TPP_OK)
        return code;
    set_settings(request, &settings);
    tpp_config_keys_write(&tpp_titan_table, &settings, &of_framework, TPP_CONFIG_TOML, out);
    return TPP_OK;
}

/* Options behind the file win over it: that is where what only the user knows goes. */
enum tpp_code tpp_launch_emit_torchtitan(const struct tpp_launch_request *request, struct tpp_script *script,
                                         struct tpp_error *err)
{
    struct tpp_text content;
    struct tpp_titan_settings settings;
    tpp_text_init(&content);
    enum tpp_code code = tpp_torchtitan_write(request, &content, err);
    if (code == TPP_OK) {
        set_settings(request, &settings);
        tpp_script_header(script, request);
        tpp_script_comment(script,
                           "What only you know. More options of torchtitan may follow the name of this script.");
        if (settings.flavor == NULL) {
            tpp_script_required(script, "MODEL_NAME", "the name of a model that torchtitan knows");
            tpp_script_required(script, "MODEL_FLAVOR", "its flavor of the planned shape");
        }
        tpp_script_required(script, "TOKENIZER_MODEL", "the folder of the Hugging Face assets (tokenizer)");
        tpp_script_required(script, "DATASET", "the name of the data set: c4, or one of your own");
        tpp_script_required(script, "CHECKPOINT_PATH", "the folder that outputs are written to");
        tpp_script_required(script, "TRAIN_ITERS", "the number of optimizer steps");
        tpp_script_required(script, "LR", "the peak learning rate");
        tpp_script_required_nodes(script, request);
        tpp_text_append(script->out, "\n");
        tpp_script_environment(script, request);
        tpp_script_export(script, request, "PYTORCH_ALLOC_CONF", "\"${PYTORCH_ALLOC_CONF:-expandable_segments:True}\"",
                          "Its name since PyTorch 2.9.");
        tpp_text_append(script->out, "\n");
        tpp_script_config(script, request, "TORCHTITAN_CONFIG", "torchtitan.toml", &content);
        tpp_text_append(script->out, "\n");
        tpp_script_array_begin(script, "TRAINING_ARGS");
        if (settings.flavor == NULL) {
            tpp_script_expression(script, "--model.name", "\"$MODEL_NAME\"");
            tpp_script_expression(script, "--model.flavor", "\"$MODEL_FLAVOR\"");
        }
        tpp_script_expression(script, "--model.hf_assets_path", "\"$TOKENIZER_MODEL\"");
        tpp_script_expression(script, "--training.dataset", "\"$DATASET\"");
        tpp_script_expression(script, "--training.steps", "\"$TRAIN_ITERS\"");
        tpp_script_expression(script, "--optimizer.lr", "\"$LR\"");
        tpp_script_expression(script, "--job.dump_folder", "\"$CHECKPOINT_PATH\"");
        tpp_script_array_end(script);
        tpp_text_append(script->out, "\n");
        tpp_script_torchrun(script, request, "-m torchtitan.train",
                            "--job.config_file \"$TORCHTITAN_CONFIG\" \"${TRAINING_ARGS[@]}\" \"$@\"");
    }
    tpp_text_release(&content);
    return code;
}
