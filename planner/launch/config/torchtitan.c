/* torchtitan.c - the job configuration of torchtitan up to 0.2.2: keys and rules of launch formats, section 6; names
 * and defaults of torchtitan/config/job_config.py of tag v0.2.2. */
#include "costmodel/model/presets.h"
#include "planner/launch/config/shared.h"
#include "planner/launch/emitter.h"

#include <stdio.h>
#include <string.h>

enum reshard { RESHARD_DEFAULT, RESHARD_ALWAYS, RESHARD_NEVER };
enum checkpointing { CHECKPOINT_SELECTIVE, CHECKPOINT_FULL, CHECKPOINT_MEMORY_BUDGET, CHECKPOINT_NONE };
enum schedule {
    SCHEDULE_1F1B,
    SCHEDULE_GPIPE,
    SCHEDULE_INTERLEAVED,
    SCHEDULE_LOOPED_BFS,
    SCHEDULE_INTERLEAVED_ZERO_BUBBLE,
    SCHEDULE_ZBV,
    SCHEDULE_DUALPIPEV,
};

struct settings {
    const char *model_name, *flavor;
    bool float8;
    int64_t local_batch_size, global_batch_size, seq_len;
    unsigned dtype, mixed_precision_param; /* 0: bfloat16, 1: float32 */
    bool cpu_offload;
    int64_t replicate, shard, tensor, pipeline, context, expert, expert_tensor;
    unsigned reshard, schedule, rotate_method;
    bool disable_loss_parallel, async_tensor_parallel;
    int64_t layers_per_stage, first_less, last_less, microbatch_size;
    const char *schedule_csv;
    unsigned checkpointing;
    const char *selective_option;
    bool compile;
};

static struct settings defaults(void)
{
    return (struct settings){.model_name = "llama3",
                             .flavor = "debugmodel",
                             .local_batch_size = 8,
                             .global_batch_size = -1,
                             .seq_len = 2048,
                             .dtype = 1,
                             .replicate = 1,
                             .shard = -1,
                             .tensor = 1,
                             .pipeline = 1,
                             .context = 1,
                             .expert = 1,
                             .expert_tensor = 1,
                             .schedule = SCHEDULE_1F1B,
                             .layers_per_stage = TPP_KEY_UNSET,
                             .first_less = 1,
                             .last_less = 1,
                             .microbatch_size = 1,
                             .selective_option = "2"};
}

#define AT(field) offsetof(struct settings, field)
#define OTHER(path)                                                                                                    \
    {                                                                                                                  \
        path, TPP_KEY_OTHER, 0, NULL, TPP_WRITE_NEVER, false                                                           \
    }
#define SIZE(path, field, write)                                                                                       \
    {                                                                                                                  \
        path, TPP_KEY_INTEGER, AT(field), NULL, write, true                                                            \
    }

static const struct tpp_config_key keys[] = {
    OTHER("job.config_file"),
    OTHER("job.dump_folder"),
    OTHER("job.description"),
    OTHER("job.print_config"),
    OTHER("job.save_config_file"),
    OTHER("job.custom_config_module"),
    {"model.name", TPP_KEY_TEXT, AT(model_name), NULL, TPP_WRITE_ALWAYS, false},
    {"model.flavor", TPP_KEY_TEXT, AT(flavor), NULL, TPP_WRITE_ALWAYS, false},
    {"model.converters", TPP_KEY_LISTED, AT(float8), "quantize.linear.float8", TPP_WRITE_CHANGED, false},
    OTHER("model.hf_assets_path"),
    OTHER("model.tokenizer_path"),
    OTHER("model.print_after_conversion"),
    SIZE("training.local_batch_size", local_batch_size, TPP_WRITE_ALWAYS),
    SIZE("training.global_batch_size", global_batch_size, TPP_WRITE_ALWAYS),
    SIZE("training.seq_len", seq_len, TPP_WRITE_ALWAYS),
    {"training.dtype", TPP_KEY_CHOICE, AT(dtype), "bfloat16|float32", TPP_WRITE_CHANGED, false},
    {"training.mixed_precision_param", TPP_KEY_CHOICE, AT(mixed_precision_param), "bfloat16|float32", TPP_WRITE_ALWAYS,
     false},
    {"training.enable_cpu_offload", TPP_KEY_BOOLEAN, AT(cpu_offload), NULL, TPP_WRITE_CHANGED, false},
    OTHER("training.mixed_precision_reduce"),
    OTHER("training.dataset"),
    OTHER("training.dataset_path"),
    OTHER("training.max_norm"),
    OTHER("training.steps"),
    OTHER("training.gc_freq"),
    OTHER("training.gc_debug"),
    OTHER("training.dataloader"),
    SIZE("parallelism.data_parallel_replicate_degree", replicate, TPP_WRITE_ALWAYS),
    SIZE("parallelism.data_parallel_shard_degree", shard, TPP_WRITE_ALWAYS),
    {"parallelism.fsdp_reshard_after_forward", TPP_KEY_CHOICE, AT(reshard), "default|always|never", TPP_WRITE_CHANGED,
     false},
    SIZE("parallelism.tensor_parallel_degree", tensor, TPP_WRITE_ALWAYS),
    {"parallelism.disable_loss_parallel", TPP_KEY_BOOLEAN, AT(disable_loss_parallel), NULL, TPP_WRITE_CHANGED, false},
    {"parallelism.enable_async_tensor_parallel", TPP_KEY_BOOLEAN, AT(async_tensor_parallel), NULL, TPP_WRITE_CHANGED,
     false},
    SIZE("parallelism.pipeline_parallel_degree", pipeline, TPP_WRITE_ALWAYS),
    {"parallelism.pipeline_parallel_schedule", TPP_KEY_CHOICE, AT(schedule),
     "1F1B|GPipe|Interleaved1F1B|LoopedBFS|InterleavedZeroBubble|ZBVZeroBubble|DualPipeV", TPP_WRITE_CHANGED, true},
    {"parallelism.pipeline_parallel_layers_per_stage", TPP_KEY_INTEGER, AT(layers_per_stage), NULL, TPP_WRITE_CHANGED,
     true},
    SIZE("parallelism.pipeline_parallel_first_stage_less_layers", first_less, TPP_WRITE_CHANGED),
    SIZE("parallelism.pipeline_parallel_last_stage_less_layers", last_less, TPP_WRITE_CHANGED),
    SIZE("parallelism.pipeline_parallel_microbatch_size", microbatch_size, TPP_WRITE_CHANGED),
    {"parallelism.pipeline_parallel_schedule_csv", TPP_KEY_TEXT, AT(schedule_csv), NULL, TPP_WRITE_NEVER, false},
    OTHER("parallelism.pipeline_parallel_expert_parallel_overlap"),
    OTHER("parallelism.module_fqns_per_model_part"),
    SIZE("parallelism.context_parallel_degree", context, TPP_WRITE_ALWAYS),
    {"parallelism.context_parallel_rotate_method", TPP_KEY_CHOICE, AT(rotate_method), "allgather|alltoall",
     TPP_WRITE_CHANGED, false},
    OTHER("parallelism.context_parallel_load_balancer"),
    SIZE("parallelism.expert_parallel_degree", expert, TPP_WRITE_CHANGED),
    SIZE("parallelism.expert_tensor_parallel_degree", expert_tensor, TPP_WRITE_CHANGED),
    OTHER("parallelism.expert_parallel_comm_backend"),
    {"activation_checkpoint.mode", TPP_KEY_CHOICE, AT(checkpointing), "selective|full|memory_budget|none",
     TPP_WRITE_ALWAYS, true},
    {"activation_checkpoint.selective_ac_option", TPP_KEY_TEXT, AT(selective_option), NULL, TPP_WRITE_CHANGED, true},
    OTHER("activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns"),
    OTHER("activation_checkpoint.early_stop"),
    OTHER("activation_checkpoint.memory_budget"),
    OTHER("activation_checkpoint.visualize_memory_budget_pareto"),
    OTHER("activation_checkpoint.preserve_rng_state"),
    OTHER("activation_checkpoint.determinism_check"),
    OTHER("activation_checkpoint.debug"),
    {"compile.enable", TPP_KEY_BOOLEAN, AT(compile), NULL, TPP_WRITE_ALWAYS, false},
    OTHER("compile.components"),
    OTHER("compile.backend"),
    OTHER("profiling"),
    OTHER("metrics"),
    OTHER("optimizer"),
    OTHER("lr_scheduler"),
    OTHER("checkpoint"),
    OTHER("quantize"),
    OTHER("comm"),
    OTHER("memory_estimation"),
    OTHER("fault_tolerance"),
    OTHER("experimental"),
    OTHER("validation"),
    OTHER("debug"),
};
static const struct tpp_key_table table = {"torchtitan", keys, sizeof keys / sizeof *keys, TPP_SEVERITY_ERROR};

/* Flavours that it has, by a shipped model of the same shape. */
static const struct {
    const char *name, *flavor, *preset;
} flavors[] = {
    {"llama3", "8B", "llama3.1-8b"},
    {"llama3", "70B", "llama3.1-70b"},
    {"llama3", "405B", "llama3.1-405b"},
    {"llama3", "8B", "llama3-8b"},
    {"llama3", "70B", "llama3-70b"},
    {"qwen3", "0.6B", "qwen3-0.6b"},
    {"qwen3", "1.7B", "qwen3-1.7b"},
    {"qwen3", "4B", "qwen3-4b"},
    {"qwen3", "8B", "qwen3-8b"},
    {"qwen3", "14B", "qwen3-14b"},
    {"qwen3", "32B", "qwen3-32b"},
    {"qwen3", "30B-A3B", "qwen3-30b-a3b"},
    {"qwen3", "235B-A22B", "qwen3-235b-a22b"},
    {"deepseek_v3", "16B", "deepseek-v2-lite"},
    {"deepseek_v3", "671B", "deepseek-v3"},
};
#define NUM_FLAVORS (sizeof flavors / sizeof *flavors)

/* ---- a plan as settings ---- */

static int64_t slots(const struct tpp_model *model, const struct settings *s)
{
    return model->num_layers + s->first_less + s->last_less;
}

/* As many layers a stage as make just this number of stages; UNSET where its own default does. */
static void set_stages(const struct tpp_launch_request *request, struct settings *s)
{
    const struct tpp_strategy *plan = request->strategy;
    static const unsigned schedules[TPP_SCHEDULE_COUNT] = {
        [TPP_SCHEDULE_GPIPE] = SCHEDULE_GPIPE,
        [TPP_SCHEDULE_1F1B] = SCHEDULE_1F1B,
        [TPP_SCHEDULE_INTERLEAVED] = SCHEDULE_INTERLEAVED,
        [TPP_SCHEDULE_ZB_V] = SCHEDULE_ZBV,
        [TPP_SCHEDULE_DUALPIPEV] = SCHEDULE_DUALPIPEV,
    };
    if (plan->pipeline_parallel == 1)
        return;
    s->schedule = schedules[plan->schedule];
    s->first_less = plan->account_for_embedding;
    s->last_less = plan->account_for_loss;
    const int64_t stages = (int64_t)plan->pipeline_parallel * plan->virtual_pipeline_stages;
    if (plan->virtual_pipeline_stages > 2)
        s->layers_per_stage = (slots(request->model, s) + stages - 1) / stages;
}

/* With stages, the local batch is what one pass through the pipeline takes; without, it is the micro-batch. */
static void set_batch(const struct tpp_strategy *plan, const struct tpp_job *job, struct settings *s)
{
    s->local_batch_size = plan->micro_batch_size;
    s->global_batch_size = (int64_t)job->global_batch_size;
    s->seq_len = (int64_t)job->sequence_length;
    if (plan->pipeline_parallel == 1)
        return;
    s->local_batch_size = (int64_t)plan->num_micro_batches * plan->micro_batch_size;
    s->microbatch_size = plan->micro_batch_size;
}

static void set_sharding(const struct tpp_strategy *plan, const struct tpp_stack *stack, struct settings *s)
{
    const uint32_t context = plan->context_parallel;
    const uint32_t shard = plan->shard_group > 0 ? plan->shard_group / context : plan->data_parallel;
    s->shard = stack->engine == TPP_ENGINE_DDP ? 1 : shard;
    s->replicate = plan->data_parallel / (s->shard > 0 ? s->shard : 1);
    if (stack->engine != TPP_ENGINE_DDP)
        s->reshard = plan->reshard_after_forward ? RESHARD_ALWAYS : RESHARD_NEVER;
}

static void set_flavor(const struct tpp_model *model, struct settings *s)
{
    for (size_t i = 0; i < NUM_FLAVORS; i++) {
        const struct tpp_model *preset = tpp_model_preset(flavors[i].preset);
        if (preset != NULL && tpp_same_shape(preset, model)) {
            s->model_name = flavors[i].name;
            s->flavor = flavors[i].flavor;
            return;
        }
    }
    s->model_name = s->flavor = NULL;
}

static void set_settings(const struct tpp_launch_request *request, struct settings *s)
{
    const struct tpp_strategy *plan = request->strategy;
    *s = defaults();
    set_flavor(request->model, s);
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
    s->checkpointing = plan->recompute == TPP_RECOMPUTE_FULL        ? CHECKPOINT_FULL
                       : plan->recompute == TPP_RECOMPUTE_SELECTIVE ? CHECKPOINT_SELECTIVE
                                                                    : CHECKPOINT_NONE;
    if (plan->recompute == TPP_RECOMPUTE_SELECTIVE)
        s->selective_option = "op";
    s->compile = true; /* what the plan's times count on */
}

static bool has_schedule(const struct tpp_strategy *plan)
{
    return plan->pipeline_parallel == 1 || plan->schedule == TPP_SCHEDULE_GPIPE ||
           plan->schedule == TPP_SCHEDULE_1F1B || plan->schedule == TPP_SCHEDULE_INTERLEAVED ||
           plan->schedule == TPP_SCHEDULE_ZB_V || plan->schedule == TPP_SCHEDULE_DUALPIPEV;
}

static enum tpp_code check_plan(const struct tpp_launch_request *request, struct tpp_error *err)
{
    struct tpp_rule_settings settings;
    const struct tpp_strategy *s = request->strategy;
    const bool ddp = request->stack->engine == TPP_ENGINE_DDP;
    const uint32_t context = s->context_parallel;
    const struct tpp_refusal refusals[] = {
        {tpp_launch_has_window(request), "model.sliding_window", "its attention has no window"},
        {strcmp(request->stack->release, "main") == 0, "release", "files are written for the releases up to 0.2.2"},
        {tpp_job_is_adapter(request->job), "job.task", "it trains no adapters"},
        {!ddp && s->zero_stage != 3, "strategy.zero_stage", "FSDP2 shards weights, gradients and optimizer: stage 3"},
        {ddp && (s->zero_stage != 0 || s->tensor_parallel * s->pipeline_parallel * context > 1), "strategy.zero_stage",
         "plain replicas go with no other parallelism"},
        {ddp && s->data_parallel == 1, "strategy.data_parallel", "one replica is not DDP"},
        {s->shard_group % context != 0 || (s->shard_group > 0 && s->data_parallel % (s->shard_group / context) != 0),
         "strategy.shard_group", "replicas and shards must make the data-parallel ranks"},
        {!has_schedule(s), "strategy.schedule", "it has no such schedule"},
        {s->reduce_bucket_size > 0 || s->allgather_bucket_size > 0, "strategy.reduce_bucket_size",
         "FSDP2 reduces one layer at a time"},
        {!s->overlap_grad_reduce || !s->overlap_param_gather, "strategy.overlap_grad_reduce", "FSDP2 always overlaps"},
        {s->balanced_split, "strategy.balanced_split", "the plan's split of layers is another"},
    };
    enum tpp_code code = tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals,
                                           "torchtitan cannot run this plan:", "choose another plan or framework", err);
    return code != TPP_OK ? code : tpp_launch_check_rules(request, "torchtitan", &settings, err);
}

enum tpp_code tpp_torchtitan_write(const struct tpp_launch_request *request, struct tpp_text *out,
                                   struct tpp_error *err)
{
    struct settings settings;
    const struct settings of_framework = defaults();
    enum tpp_code code = check_plan(request, err);
    if (code != TPP_OK)
        return code;
    set_settings(request, &settings);
    tpp_config_keys_write(&table, &settings, &of_framework, TPP_CONFIG_TOML, out);
    return TPP_OK;
}

/* Options behind the file win over it: that is where what only the user knows goes. */
enum tpp_code tpp_launch_emit_torchtitan(const struct tpp_launch_request *request, struct tpp_script *script,
                                         struct tpp_error *err)
{
    struct tpp_text content;
    struct settings settings;
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

/* ---- settings as a plan ---- */

static bool is_own(const struct tpp_config *config)
{
    return tpp_config_find(config, "parallelism.data_parallel_shard_degree") != NULL ||
           tpp_config_find(config, "training.local_batch_size") != NULL ||
           tpp_config_find(config, "parallelism.tensor_parallel_degree") != NULL ||
           (tpp_config_find(config, "model.flavor") != NULL && tpp_config_find(config, "training.seq_len") != NULL);
}

/* -1 takes the ranks that are left. Without a world: one shard. */
static void find_degrees(const struct settings *s, int64_t world, int64_t *replicate, int64_t *shard)
{
    const int64_t others = tpp_size_between(tpp_size_between(s->tensor) * tpp_size_between(s->pipeline));
    const int64_t model = tpp_size_between(others * tpp_size_between(s->context));
    *replicate = tpp_size_between(s->replicate);
    *shard = s->shard > 0 ? tpp_size_between(s->shard) : tpp_size_between(world / tpp_size_between(model * *replicate));
}

static int64_t needed_world(const struct settings *s, int64_t replicate, int64_t shard)
{
    int64_t world = tpp_size_between(tpp_size_between(s->tensor) * tpp_size_between(s->pipeline));
    world = tpp_size_between(world * tpp_size_between(s->context));
    return tpp_size_between(tpp_size_between(world * replicate) * shard);
}

static int64_t count_chunks(const struct settings *s, const struct tpp_model *model)
{
    const bool is_single = s->schedule == SCHEDULE_1F1B || s->schedule == SCHEDULE_GPIPE;
    const int64_t pipeline = tpp_size_between(s->pipeline);
    if (s->layers_per_stage == TPP_KEY_UNSET || s->layers_per_stage < 1)
        return is_single ? 1 : 2;
    const int64_t stages = (slots(model, s) + s->layers_per_stage - 1) / s->layers_per_stage;
    return stages / pipeline > 0 ? stages / pipeline : 1;
}

/* TT-5: what a number of layers a stage and a schedule must agree in. */
static void judge_stages(const struct settings *s, const struct tpp_config *config, const struct tpp_model *model,
                         struct tpp_problems *problems)
{
    const bool is_single = s->schedule == SCHEDULE_1F1B || s->schedule == SCHEDULE_GPIPE;
    const bool is_v = s->schedule == SCHEDULE_ZBV || s->schedule == SCHEDULE_DUALPIPEV;
    const char *key = "parallelism.pipeline_parallel_layers_per_stage";
    if (s->pipeline <= 1 || s->layers_per_stage == TPP_KEY_UNSET || s->layers_per_stage < 1)
        return;
    const int64_t stages = (slots(model, s) + s->layers_per_stage - 1) / s->layers_per_stage;
    const int64_t chunks = stages / s->pipeline;
    if (stages % s->pipeline != 0)
        tpp_problems_add(problems, "TT-5", TPP_SEVERITY_ERROR, tpp_config_line(config, key),
                         "choose layers a stage whose stages divide", "%lld stages are no multiple of %lld ranks",
                         (long long)stages, (long long)s->pipeline);
    else if ((is_single && chunks != 1) || (!is_single && chunks < 2) || (is_v && chunks != 2))
        tpp_problems_add(problems, "TT-5", TPP_SEVERITY_ERROR, tpp_config_line(config, key),
                         is_single ? "raise it" : "change the schedule or the layers a stage",
                         "the schedule needs %s a rank, and the layers a stage make %lld",
                         is_single ? "one stage"
                         : is_v    ? "exactly two stages"
                                   : "at least two stages",
                         (long long)chunks);
}

static enum tpp_schedule schedule_of(const struct settings *s)
{
    static const enum tpp_schedule schedules[] = {
        [SCHEDULE_1F1B] = TPP_SCHEDULE_1F1B,
        [SCHEDULE_GPIPE] = TPP_SCHEDULE_GPIPE,
        [SCHEDULE_INTERLEAVED] = TPP_SCHEDULE_INTERLEAVED,
        [SCHEDULE_LOOPED_BFS] = TPP_SCHEDULE_INTERLEAVED,
        [SCHEDULE_INTERLEAVED_ZERO_BUBBLE] = TPP_SCHEDULE_INTERLEAVED,
        [SCHEDULE_ZBV] = TPP_SCHEDULE_ZB_V,
        [SCHEDULE_DUALPIPEV] = TPP_SCHEDULE_DUALPIPEV,
    };
    return s->pipeline > 1 && s->schedule <= SCHEDULE_DUALPIPEV ? schedules[s->schedule] : TPP_SCHEDULE_1F1B;
}

/* "op" is the list of cost-model 4.2 E; a number n recomputes every n-th layer whole. */
static void read_recompute(const struct settings *s, const struct tpp_config *config, const struct tpp_model *model,
                           struct tpp_strategy *plan, struct tpp_problems *problems)
{
    const char *option = s->selective_option != NULL ? s->selective_option : "2";
    int every = 0;
    if (s->checkpointing == CHECKPOINT_NONE)
        return;
    if (s->checkpointing == CHECKPOINT_FULL) {
        plan->recompute = TPP_RECOMPUTE_FULL;
        return;
    }
    plan->recompute = TPP_RECOMPUTE_SELECTIVE;
    if (s->checkpointing == CHECKPOINT_MEMORY_BUDGET) {
        tpp_problems_add(problems, "assumed-recompute", TPP_SEVERITY_INFO,
                         tpp_config_line(config, "activation_checkpoint.mode"), "",
                         "what a memory budget recomputes is not known before it runs: the list of \"op\" is assumed");
        return;
    }
    if (strcmp(option, "op") == 0)
        return;
    for (const char *c = option; *c >= '0' && *c <= '9' && every < 10000; c++)
        every = 10 * every + (*c - '0');
    if (option[strspn(option, "0123456789")] != '\0' || *option == '\0') {
        tpp_problems_add(problems, "wrong-value", TPP_SEVERITY_ERROR,
                         tpp_config_line(config, "activation_checkpoint.selective_ac_option"),
                         "write \"op\", or how many layers apart", "selective_ac_option cannot be \"%.60s\"", option);
        return;
    }
    plan->recompute = TPP_RECOMPUTE_FULL;
    if (every <= 1)
        return;
    const uint32_t layers = model->num_layers / plan->pipeline_parallel;
    plan->recompute_method = TPP_RECOMPUTE_BLOCK;
    plan->recompute_num_layers = (layers + (uint32_t)every - 1) / (uint32_t)every;
}

static void read_strategy(const struct settings *s, const struct tpp_configuration_request *request, int64_t replicate,
                          int64_t shard, struct tpp_plan_reading *plan, struct tpp_problems *problems)
{
    struct tpp_strategy *out = &plan->strategy;
    *out = tpp_strategy_defaults();
    out->tensor_parallel = (uint32_t)tpp_size_between(s->tensor);
    out->pipeline_parallel = (uint32_t)tpp_size_between(s->pipeline);
    out->context_parallel = (uint32_t)tpp_size_between(s->context);
    out->expert_parallel = plan->model.num_experts > 0 ? (uint32_t)tpp_size_between(s->expert) : 1;
    if (plan->model.num_experts > 0)
        out->expert_tensor_parallel =
            s->expert > 1 ? (uint32_t)tpp_size_between(s->expert_tensor) : out->tensor_parallel;
    out->data_parallel = (uint32_t)tpp_size_between(replicate * shard);
    out->sequence_parallel = s->tensor > 1;
    out->context_kind = s->context > 1 && s->rotate_method == 0 ? TPP_CONTEXT_ALL_GATHER : TPP_CONTEXT_RING;
    out->tp_comm_overlap = s->async_tensor_parallel;
    out->offload = s->cpu_offload ? TPP_OFFLOAD_OPTIMIZER : TPP_OFFLOAD_NONE;
    out->schedule = schedule_of(s);
    if (s->pipeline > 1) {
        out->virtual_pipeline_stages = (uint32_t)tpp_size_between(count_chunks(s, &plan->model));
        out->account_for_embedding = s->first_less > 0;
        out->account_for_loss = s->last_less > 0;
        out->micro_batch_size = (uint32_t)tpp_size_between(s->microbatch_size);
    } else {
        out->micro_batch_size = (uint32_t)tpp_size_between(s->local_batch_size);
    }
    if (replicate > 1 && shard == 1 && s->context == 1)
        return;
    out->zero_stage = 3;
    out->reshard_after_forward = s->reshard == RESHARD_DEFAULT ? s->pipeline <= 1 : s->reshard == RESHARD_ALWAYS;
    if (replicate > 1)
        out->shard_group = (uint32_t)tpp_size_between(shard * tpp_size_between(s->context));
    read_recompute(s, request->config, &plan->model, out, problems);
}

static void read_job(const struct settings *s, int64_t world, int64_t replicate, int64_t shard, struct tpp_job *job)
{
    *job = tpp_job_defaults();
    job->num_gpus = (uint32_t)tpp_size_between(world);
    job->sequence_length = s->seq_len > 0 ? (uint64_t)s->seq_len : 0;
    job->global_batch_size = (uint64_t)(s->global_batch_size > 0 ? s->global_batch_size
                                                                 : tpp_size_between(s->local_batch_size) *
                                                                       tpp_size_between(replicate * shard));
    job->precision = s->float8                       ? TPP_PRECISION_FP8
                     : s->mixed_precision_param == 1 ? TPP_PRECISION_FP32
                                                     : TPP_PRECISION_BF16;
}

static const struct tpp_model *model_of(const struct settings *s)
{
    for (size_t i = 0; i < NUM_FLAVORS && s->model_name != NULL && s->flavor != NULL; i++) {
        if (strcmp(flavors[i].name, s->model_name) == 0 && strcmp(flavors[i].flavor, s->flavor) == 0 &&
            tpp_model_preset(flavors[i].preset) != NULL)
            return tpp_model_preset(flavors[i].preset);
    }
    return NULL;
}

/* What is checked beside the rules of a plan. */
static void judge_settings(const struct settings *s, const struct tpp_config *config, struct tpp_problems *problems)
{
    if (s->pipeline > 1 && s->microbatch_size > 0 && s->local_batch_size % s->microbatch_size != 0)
        tpp_problems_add(problems, "TT-3", TPP_SEVERITY_ERROR,
                         tpp_config_line(config, "parallelism.pipeline_parallel_microbatch_size"),
                         "change local_batch_size or the micro-batch size",
                         "the local batch of %lld is no multiple of the pipeline's micro-batch of %lld",
                         (long long)s->local_batch_size, (long long)s->microbatch_size);
    if (s->async_tensor_parallel && !s->compile)
        tpp_problems_add(problems, "dead-setting", TPP_SEVERITY_WARNING,
                         tpp_config_line(config, "parallelism.enable_async_tensor_parallel"), "set compile.enable",
                         "asynchronous tensor parallelism needs the compiler");
    if (s->schedule == SCHEDULE_LOOPED_BFS || s->schedule == SCHEDULE_INTERLEAVED_ZERO_BUBBLE)
        tpp_problems_add(problems, "assumed-schedule", TPP_SEVERITY_INFO,
                         tpp_config_line(config, "parallelism.pipeline_parallel_schedule"), "",
                         "the schedule is costed as Interleaved1F1B");
}

static enum tpp_code read(const struct tpp_configuration_request *request, struct tpp_configuration_reading *out,
                          struct tpp_problems *problems, struct tpp_error *err)
{
    struct settings s = defaults();
    bool is_incomplete = false;
    int64_t replicate, shard;
    memset(out, 0, sizeof *out);
    out->config = request->config;
    tpp_config_keys_read(&table, request->config, &s, &is_incomplete, problems);
    const struct tpp_model *model = request->model != NULL ? request->model : model_of(&s);
    find_degrees(&s, request->world_size, &replicate, &shard);
    const int64_t needed = needed_world(&s, replicate, shard);
    out->is_world_known = request->world_size > 0 || s.shard > 0;
    const int64_t world = request->world_size > 0 ? request->world_size : needed;
    if (is_incomplete || model == NULL) {
        if (model == NULL)
            tpp_problems_add(problems, "no-prediction", TPP_SEVERITY_WARNING,
                             tpp_config_line(request->config, "model.flavor"), "give its config.json with --model",
                             "the step cannot be predicted: the shape of the model is not known");
        return TPP_OK;
    }
    judge_settings(&s, request->config, problems);
    judge_stages(&s, request->config, model, problems);
    out->plan.model = *model;
    read_job(&s, world, replicate, shard, &out->plan.job);
    read_strategy(&s, request, replicate, shard, &out->plan, problems);
    const enum tpp_engine engine = out->plan.strategy.zero_stage == 0 ? TPP_ENGINE_DDP : TPP_ENGINE_FSDP2;
    tpp_stack_defaults(TPP_FRAMEWORK_TORCHTITAN, &request->hardware->gpu, &out->plan.job, &out->plan.stack);
    out->plan.stack.engine = engine;
    tpp_rules_of_plan(&out->plan, request->hardware, world, &out->rules);
    if (out->rules.recompute_method == TPP_RULE_METHOD_BLOCK) { /* every n-th layer, which it can */
        out->rules.recompute_method = TPP_RULE_METHOD_UNIFORM;
        out->rules.recompute_num_layers = 1;
    }
    if (s.pipeline > 1)
        out->rules.micro_batch_size = s.local_batch_size; /* TT-3 */
    enum tpp_code code = tpp_complete_plan(engine, request->hardware, TPP_FRAMEWORK_TORCHTITAN, &out->plan, err);
    if (s.disable_loss_parallel)
        out->plan.stack.lm_head_output = TPP_LM_HEAD_GATHERED;
    out->has_plan = code == TPP_OK;
    return code;
}

static const char *const *keys_of_rule(const char *code)
{
    static const char *const sizes[] = {"parallelism.data_parallel_shard_degree", "parallelism.tensor_parallel_degree",
                                        "parallelism.pipeline_parallel_degree", "parallelism.context_parallel_degree",
                                        NULL};
    static const char *const experts[] = {"parallelism.expert_tensor_parallel_degree",
                                          "parallelism.expert_parallel_degree", NULL};
    static const char *const batch[] = {"training.global_batch_size", "training.local_batch_size", NULL};
    static const char *const sequence[] = {"training.seq_len", NULL};
    static const char *const stages[] = {"parallelism.pipeline_parallel_layers_per_stage",
                                         "parallelism.pipeline_parallel_degree", NULL};
    static const char *const heads[] = {"parallelism.tensor_parallel_degree", NULL};
    static const struct {
        const char *code;
        const char *const *keys;
    } rows[] = {{"TT-1", sizes},  {"TT-2", experts}, {"TT-3", batch}, {"TT-4", sequence},
                {"TT-5", stages}, {"TT-6", stages},  {"TT-8", heads}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].code, code) == 0)
            return rows[i].keys;
    }
    return NULL;
}

const struct tpp_configuration tpp_configuration_torchtitan = {
    .framework = TPP_FRAMEWORK_TORCHTITAN,
    .is_own = is_own,
    .read = read,
    .keys_of_rule = keys_of_rule,
};
