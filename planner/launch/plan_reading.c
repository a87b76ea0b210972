/* plan_reading.c - see plan_reading.h. */
#include "planner/launch/plan_parts.h"

#include <string.h>

/* Numbers whose products below cannot overflow. */
static enum tpp_code check_sizes(const struct tpp_rule_settings *rules, struct tpp_error *err)
{
    const int64_t sizes[] = {rules->world_size,       rules->tensor_parallel, rules->pipeline_parallel,
                             rules->context_parallel, rules->expert_parallel, rules->micro_batch_size,
                             rules->num_layers};
    const int64_t numbers[] = {tpp_plan_or_else(rules->global_batch_size, 1), rules->sequence_length,
                               rules->hidden_size, tpp_plan_or_else(rules->recompute_num_layers, 1),
                               tpp_plan_or_else(rules->virtual_stages_per_rank, 1)};
    bool is_right = true;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        is_right = is_right && sizes[i] >= 1 && sizes[i] <= TPP_RULE_MAX_SIZE;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        is_right = is_right && numbers[i] >= 1 && numbers[i] <= TPP_RULE_MAX_NUMBER;
    if (is_right)
        return TPP_OK;
    return tpp_fail(err, TPP_E_RANGE, "script", "give sizes of at least 1",
                    "a size of the script is outside of what can be run");
}

enum tpp_code tpp_plan_from_megatron(const struct tpp_megatron_settings *settings,
                                     const struct tpp_arguments *arguments, enum tpp_release release,
                                     const struct tpp_hardware *hardware, const struct tpp_model *model,
                                     const char *name, struct tpp_plan_reading *out, struct tpp_problems *problems,
                                     struct tpp_error *err)
{
    const struct tpp_plan_source source = {settings, arguments, release, problems};
    memset(out, 0, sizeof *out);
    if (tpp_argument_find(arguments, "--ds-sequence-parallel-fpdt") != NULL)
        return tpp_fail(err, TPP_E_UNSUPPORTED, "--ds-sequence-parallel-fpdt", "take it out to see the step without it",
                        "attention in chunks that wait in host memory (FPDT) is not modelled");
    enum tpp_code code = check_sizes(&settings->rules, err);
    if (code != TPP_OK)
        return code;
    if (model != NULL) {
        out->model = *model;
        tpp_plan_compare_models(&source, model);
    } else {
        tpp_plan_read_model(&source, name, &out->model);
    }
    tpp_plan_read_job(&source, &out->job);
    code = tpp_model_check(&out->model, err);
    if (code == TPP_OK)
        code = tpp_job_check(&out->job, &out->model, err);
    if (code != TPP_OK)
        return code;
    tpp_plan_read_stack(&source, hardware, &out->job, &out->stack);
    if (!settings->rules.engine_follows_stages)
        out->stack.vocabulary_multiple = tpp_plan_size_of(tpp_plan_vocabulary_multiple(&source, out->model.vocab_size));
    tpp_plan_judge_vocabulary(&source, out->model.vocab_size);
    code = tpp_stack_check(&out->stack, &hardware->gpu, &out->job, err);
    return code != TPP_OK ? code : tpp_plan_read_strategy(&source, &out->job, &out->strategy, err);
}
