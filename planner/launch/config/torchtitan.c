/* torchtitan.c - the job configuration of torchtitan as a plan, and what it breaks (launch formats, section 6). */
#include "planner/launch/config/torchtitan.h"

#include <string.h>

static bool is_own(const struct tpp_config *config)
{
    return tpp_config_find(config, "parallelism.data_parallel_shard_degree") != NULL ||
           tpp_config_find(config, "training.local_batch_size") != NULL ||
           tpp_config_find(config, "parallelism.tensor_parallel_degree") != NULL ||
           (tpp_config_find(config, "model.flavor") != NULL && tpp_config_find(config, "training.seq_len") != NULL);
}

/* -1 takes the ranks that are left. Without a world: one shard. */
static void find_degrees(const struct tpp_titan_settings *s, int64_t world, int64_t *replicate, int64_t *shard)
{
    const int64_t others = tpp_size_between(tpp_size_between(s->tensor) * tpp_size_between(s->pipeline));
    const int64_t model = tpp_size_between(others * tpp_size_between(s->context));
    *replicate = tpp_size_between(s->replicate);
    *shard = s->shard > 0 ? tpp_size_between(s->shard) : tpp_size_between(world / tpp_size_between(model * *replicate));
}

static int64_t needed_world(const struct tpp_titan_settings *s, int64_t replicate, int64_t shard)
{
    int64_t world = tpp_size_between(tpp_size_between(s->tensor) * tpp_size_between(s->pipeline));
    world = tpp_size_between(world * tpp_size_between(s->context));
    return tpp_size_between(tpp_size_between(world * replicate) * shard);
}

static int64_t count_chunks(const struct tpp_titan_settings *s, const struct tpp_model *model)
{
    const bool is_single = s->schedule == TITAN_SCHEDULE_1F1B || s->schedule == TITAN_SCHEDULE_GPIPE;
    const int64_t pipeline = tpp_size_between(s->pipeline);
    if (s->layers_per_stage == TPP_KEY_UNSET || s->layers_per_stage < 1)
        return is_single ? 1 : 2;
    const int64_t stages = (tpp_titan_slots(model, s) + s->layers_per_stage - 1) / s->layers_per_stage;
    return stages / pipeline > 0 ? stages / pipeline : 1;
}

/* TT-5: what a number of layers a stage and a schedule must agree in. */
static void judge_stages(const struct tpp_titan_settings *s, const struct tpp_config *config,
                         const struct tpp_model *model, struct tpp_problems *problems)
{
    const bool is_single = s->schedule == TITAN_SCHEDULE_1F1B || s->schedule == TITAN_SCHEDULE_GPIPE;
    const bool is_v = s->schedule == TITAN_SCHEDULE_ZBV || s->schedule == TITAN_SCHEDULE_DUALPIPEV;
    const char *key = "parallelism.pipeline_parallel_layers_per_stage";
    if (s->pipeline <= 1 || s->layers_per_stage == TPP_KEY_UNSET || s->layers_per_stage < 1)
        return;
    const int64_t stages = (tpp_titan_slots(model, s) + s->layers_per_stage - 1) / s->layers_per_stage;
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

static enum tpp_schedule schedule_of(const struct tpp_titan_settings *s)
{
    static const enum tpp_schedule schedules[] = {
        [TITAN_SCHEDULE_1F1B] = TPP_SCHEDULE_1F1B,
        [TITAN_SCHEDULE_GPIPE] = TPP_SCHEDULE_GPIPE,
        [TITAN_SCHEDULE_INTERLEAVED] = TPP_SCHEDULE_INTERLEAVED,
        [TITAN_SCHEDULE_LOOPED_BFS] = TPP_SCHEDULE_INTERLEAVED,
        [TITAN_SCHEDULE_INTERLEAVED_ZERO_BUBBLE] = TPP_SCHEDULE_INTERLEAVED,
        [TITAN_SCHEDULE_ZBV] = TPP_SCHEDULE_ZB_V,
        [TITAN_SCHEDULE_DUALPIPEV] = TPP_SCHEDULE_DUALPIPEV,
    };
    return s->pipeline > 1 && s->schedule <= TITAN_SCHEDULE_DUALPIPEV ? schedules[s->schedule] : TPP_SCHEDULE_1F1B;
}

/* "op" is the list of cost-model 4.2 E; a number n recomputes every n-th layer whole. */
static void read_recompute(const struct tpp_titan_settings *s, const struct tpp_config *config,
                           const struct tpp_model *model, struct tpp_strategy *plan, struct tpp_problems *problems)
{
    const char *option = s->selective_option != NULL ? s->selective_option : "2";
    int every = 0;
    if (s->checkpointing == TITAN_CHECKPOINT_NONE)
        return;
    if (s->checkpointing == TITAN_CHECKPOINT_FULL) {
        plan->recompute = TPP_RECOMPUTE_FULL;
        return;
    }
    plan->recompute = TPP_RECOMPUTE_SELECTIVE;
    if (s->checkpointing == TITAN_CHECKPOINT_MEMORY_BUDGET) {
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

static void read_strategy(const struct tpp_titan_settings *s, const struct tpp_configuration_request *request,
                          int64_t replicate, int64_t shard, struct tpp_plan_reading *plan,
                          struct tpp_problems *problems)
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
    out->reshard_after_forward =
        s->reshard == TITAN_RESHARD_DEFAULT ? s->pipeline <= 1 : s->reshard == TITAN_RESHARD_ALWAYS;
    if (replicate > 1)
        out->shard_group = (uint32_t)tpp_size_between(shard * tpp_size_between(s->context));
    read_recompute(s, request->config, &plan->model, out, problems);
}

static void read_job(const struct tpp_titan_settings *s, int64_t world, int64_t replicate, int64_t shard,
                     struct tpp_job *job)
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

/* What is checked beside the rules of a plan. */
static void judge_settings(const struct tpp_titan_settings *s, const struct tpp_config *config,
                           struct tpp_problems *problems)
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
    if (s->schedule == TITAN_SCHEDULE_LOOPED_BFS || s->schedule == TITAN_SCHEDULE_INTERLEAVED_ZERO_BUBBLE)
        tpp_problems_add(problems, "assumed-schedule", TPP_SEVERITY_INFO,
                         tpp_config_line(config, "parallelism.pipeline_parallel_schedule"), "",
                         "the schedule is costed as Interleaved1F1B");
}

static enum tpp_code read(const struct tpp_configuration_request *request, struct tpp_configuration_reading *out,
                          struct tpp_problems *problems, struct tpp_error *err)
{
    struct tpp_titan_settings s = tpp_titan_defaults();
    bool is_incomplete = false;
    int64_t replicate, shard;
    memset(out, 0, sizeof *out);
    out->config = request->config;
    tpp_config_keys_read(&tpp_titan_table, request->config, &s, &is_incomplete, problems);
    const struct tpp_model *model = request->model != NULL ? request->model : tpp_titan_model(&s);
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

static const struct tpp_rule_keys rule_keys[] = {
    {"dp", {"parallelism.data_parallel_shard_degree", "parallelism.data_parallel_replicate_degree"}},
    {"tp", {"parallelism.tensor_parallel_degree"}},
    {"pp", {"parallelism.pipeline_parallel_degree"}},
    {"vp", {"parallelism.pipeline_parallel_layers_per_stage"}},
    {"cp", {"parallelism.context_parallel_degree"}},
    {"ep", {"parallelism.expert_parallel_degree"}},
    {"etp", {"parallelism.expert_tensor_parallel_degree"}},
    {"first-layers", {"parallelism.pipeline_parallel_first_stage_less_layers"}},
    {"last-layers", {"parallelism.pipeline_parallel_last_stage_less_layers"}},
    {"layers", {"model.flavor"}},
    {"sequence", {"training.seq_len"}},
    {"micro-batch", {"training.local_batch_size"}},
    {"global-batch", {"training.global_batch_size", "training.local_batch_size"}},
    {"recompute", {"activation_checkpoint.mode"}},
    {NULL, {NULL}},
};

const struct tpp_configuration tpp_configuration_torchtitan = {
    .framework = TPP_FRAMEWORK_TORCHTITAN,
    .is_own = is_own,
    .read = read,
    .rule_keys = rule_keys,
};
