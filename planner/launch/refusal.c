/* refusal.c - see refusal.h. */
#include "planner/launch/refusal.h"

#include "planner/launch/option_spelling.h"
#include "planner/rules/schedules.h"

enum tpp_code tpp_refusal_first(const struct tpp_refusal *refusals, size_t count, const char *sentence,
                                const char *hint, struct tpp_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (refusals[i].is_refused)
            return tpp_fail(err, refusals[i].is_ours ? TPP_E_NOT_BUILT : TPP_E_UNSUPPORTED, refusals[i].where, hint,
                            "%s %s", sentence, refusals[i].reason);
    }
    return TPP_OK;
}

/* What the plan says of stages is said by a layout instead. */
static void set_layout(const struct tpp_launch_request *request, char layout[TPP_PLAN_LAYOUT_SIZE],
                       struct tpp_rule_settings *settings)
{
    tpp_plan_write_layout(request->strategy, request->model->num_layers, request->job->mtp_num_layers, layout);
    settings->pipeline_layout = layout;
    settings->account_for_embedding = settings->account_for_loss = false;
    settings->layers_per_virtual_stage = settings->virtual_stages_per_rank = TPP_RULE_UNSET;
}

static enum tpp_code check_rules(const struct tpp_launch_request *request, const char *framework,
                                 struct tpp_rule_settings *settings, char *layout, struct tpp_error *err)
{
    struct tpp_violation violation;
    char message[320], hint[256];
    tpp_rule_settings_for_job(request->model, request->job, request->stack, request->hardware->gpu.compute_capability,
                              settings);
    tpp_rule_settings_for_strategy(request->strategy, request->release, settings);
    if (layout != NULL && request->strategy->last_chunk_less > 0)
        set_layout(request, layout, settings);
    if (tpp_rules_violations(settings, request->release, &violation, 1) == 0)
        return TPP_OK;
    tpp_spell_options(settings->framework, violation.message, message, sizeof message);
    tpp_spell_options(settings->framework, violation.hint != NULL ? violation.hint : "", hint, sizeof hint);
    return tpp_fail(err, TPP_E_STRATEGY, violation.code, hint, "%s refuses it: %s", framework, message);
}

enum tpp_code tpp_launch_check_rules(const struct tpp_launch_request *request, const char *framework,
                                     struct tpp_rule_settings *settings, struct tpp_error *err)
{
    return check_rules(request, framework, settings, NULL, err);
}

enum tpp_code tpp_launch_check_core_rules(const struct tpp_launch_request *request, const char *framework,
                                          struct tpp_rule_settings *settings, char layout[TPP_PLAN_LAYOUT_SIZE],
                                          struct tpp_error *err)
{
    return check_rules(request, framework, settings, layout, err);
}

enum tpp_code tpp_launch_check_plain(const struct tpp_launch_request *request, const char *sentence,
                                     struct tpp_error *err)
{
    const struct tpp_strategy *s = request->strategy;
    const struct tpp_refusal refusals[] = {
        {s->dispatch != TPP_DISPATCH_ALL_TO_ALL || s->expert_overlap || s->shared_overlap, "strategy.dispatch",
         "other dispatchers than the all-to-all, and their overlap, are not written"},
        {s->recompute_modules != 0, "strategy.recompute_modules", "recomputation of single modules is not written"},
        {s->offload_percent > 0 && s->offload_percent < 100 && !tpp_engine_is_deepspeed(request->stack->engine),
         "strategy.offload_percent", "it offloads all of the optimizer, or nothing"},
        {s->offload_layers > 0, "strategy.offload_layers", "offload of activations is not written", true},
        {!s->align_grad_reduce, "strategy.align_grad_reduce", "aligning reductions is Megatron's alone"},
        {s->microbatch_group_size > 0, "strategy.microbatch_group_size",
         "groups of micro-batches are Megatron's alone"},
        {s->last_chunk_less > 0, "strategy.last_chunk_less", "layouts with a shorter last chunk are not written"},
    };
    return tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, sentence, "choose another plan or framework",
                             err);
}

enum tpp_code tpp_launch_check_core(const struct tpp_launch_request *request, const char *sentence,
                                    struct tpp_error *err)
{
    const struct tpp_strategy *s = request->strategy;
    const bool is_block = s->recompute == TPP_RECOMPUTE_FULL && s->recompute_method == TPP_RECOMPUTE_BLOCK;
    const struct tpp_refusal refusals[] = {
        {s->shard_group > 0, "strategy.shard_group", "its optimizer shards over all ranks that share weights"},
        {s->pipeline_parallel > 1 && !tpp_framework_has_schedule(request->stack->framework, s->schedule),
         "strategy.schedule", "it has no pipeline schedules beside 1f1b and interleaved"},
        {s->balanced_split && request->model->num_layers % s->pipeline_parallel != 0, "strategy.balanced_split",
         "it does not balance layers that do not divide"},
        {is_block && s->recompute_num_layers % s->virtual_pipeline_stages != 0, "strategy.recompute_num_layers",
         "block recomputation counts layers in each model chunk"},
        {s->zero_stage == 0 && s->overlap_param_gather, "strategy.overlap_param_gather",
         "nothing is gathered without a sharded optimizer"},
    };
    return tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, sentence, "choose another plan or framework",
                             err);
}

enum tpp_code tpp_launch_check_plain_job(const struct tpp_launch_request *request, const char *sentence,
                                         struct tpp_error *err)
{
    const struct tpp_job *job = request->job;
    const struct tpp_refusal refusals[] = {
        {job->mtp_num_layers > 0, "job.mtp_num_layers", "multi-token prediction is not written", true},
        {job->precision == TPP_PRECISION_MXFP8 || job->precision == TPP_PRECISION_FP8_BLOCK, "job.precision",
         "block-scaled FP8 is not written", true},
        {job->expert_capacity_factor > 0, "job.expert_capacity_factor", "token drop is not written", true},
        {request->stack->cuda_graphs, "stack.cuda_graphs", "it has no CUDA graphs"},
    };
    return tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, sentence, "choose another framework", err);
}

bool tpp_launch_has_window(const struct tpp_launch_request *request)
{
    const struct tpp_model *model = request->model;
    return model->sliding_window > 0 && model->sliding_window_layers > 0 &&
           model->sliding_window < request->job->sequence_length;
}
