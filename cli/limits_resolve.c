#include "cli/job_options.h"

#include <math.h>
#include <string.h>

static uint32_t limit_of(int64_t value)
{
    return value == TPP_OPTION_ABSENT ? 0 : (uint32_t)value;
}

static int64_t pin_of_choice(const char *words, const char *text)
{
    return text == NULL ? TPP_PIN_ANY : (int64_t)tpp_choice_index(words, text);
}

/* Naming one thing that is offloaded keeps the other on the device, unless that is given, too. */
static void resolve_offload(const struct tpp_pin_arguments *arguments, struct tpp_space_limits *limits)
{
    const char *what = arguments->offload != NULL ? arguments->offload : "";
    limits->offload = strcmp(what, "optimizer") == 0 ? TPP_OFFLOAD_OPTIMIZER
                      : *what != '\0'                ? TPP_OFFLOAD_NONE
                                                     : TPP_PIN_ANY;
    limits->offload_depths = strcmp(what, "activations") == 0;
    limits->offload_layers = arguments->offload_layers;
    if (*what != '\0' && !limits->offload_depths && arguments->offload_layers == TPP_OPTION_ABSENT)
        limits->offload_layers = 0;
    if (arguments->offload_fraction != TPP_OPTION_ABSENT)
        limits->offload_percent = (uint32_t)lround(100 * arguments->offload_fraction);
}

static enum tpp_code resolve_recompute(const struct tpp_pin_arguments *arguments, struct tpp_space_limits *limits,
                                       struct tpp_error *err)
{
    uint32_t modules;
    limits->recompute = pin_of_choice("none|selective|full", arguments->recompute);
    if (arguments->recompute_modules == NULL)
        return TPP_OK;
    if (!tpp_recompute_modules_parse(arguments->recompute_modules, &modules))
        return tpp_fail(err, TPP_E_USAGE, "--recompute-modules",
                        "give each once, with + between: core_attn, moe_act, layernorm, mla_up_proj, mlp, moe, shared_experts",
                        "\"%.60s\" is no list of modules", arguments->recompute_modules);
    if (arguments->recompute != NULL && limits->recompute != TPP_RECOMPUTE_SELECTIVE)
        return tpp_fail(err, TPP_E_USAGE, "--recompute-modules", "give --recompute=selective, or drop one of them",
                        "a list of modules belongs to selective recomputation, not to %s", arguments->recompute);
    limits->recompute_modules = modules;
    return TPP_OK;
}

enum tpp_code tpp_pins_check_model(const struct tpp_pin_arguments *arguments, const struct tpp_model *model,
                                   struct tpp_error *err)
{
    const struct {
        const char *option, *text, *off, *what;
        bool has;
    } pins[] = {
        {"--dispatch", arguments->dispatch, "all-to-all", "routed experts", model->num_experts > 0},
        {"--expert-overlap", arguments->expert_overlap, "off", "routed experts", model->num_experts > 0},
        {"--shared-expert-overlap", arguments->shared_overlap, "off", "shared experts",
         model->num_experts > 0 && model->shared_expert_hidden_size > 0},
    };
    for (size_t i = 0; i < sizeof pins / sizeof pins[0]; i++)
        if (pins[i].text != NULL && !pins[i].has && strcmp(pins[i].text, pins[i].off) != 0)
            return tpp_fail(err, TPP_E_USAGE, pins[i].option, "drop it, or give a model that has them",
                            "%s=%s asks for something that %.60s has not: it has no %s", pins[i].option, pins[i].text,
                            model->name, pins[i].what);
    return TPP_OK;
}

enum tpp_code tpp_limits_resolve(const struct tpp_pin_arguments *arguments, struct tpp_space_limits *limits,
                                 struct tpp_error *err)
{
    *limits = tpp_space_limits_defaults();
    limits->tensor_parallel = arguments->tensor_parallel;
    limits->pipeline_parallel = arguments->pipeline_parallel;
    limits->virtual_pipeline_stages = arguments->virtual_pipeline_stages;
    limits->context_parallel = arguments->context_parallel;
    limits->expert_parallel = arguments->expert_parallel;
    limits->data_parallel = arguments->data_parallel;
    limits->micro_batch_size = arguments->micro_batch_size;
    limits->zero_stage = arguments->zero_stage;
    limits->reduce_bucket_size = arguments->reduce_bucket_size;
    limits->allgather_bucket_size = arguments->allgather_bucket_size;
    limits->sequence_parallel = pin_of_choice("off|on", arguments->sequence_parallel);
    limits->context_kind = pin_of_choice("ring|all-gather|ulysses|hybrid", arguments->context_kind);
    limits->dispatch = pin_of_choice("all-to-all|deepep|hybridep|all-gather", arguments->dispatch);
    limits->expert_overlap = pin_of_choice("off|on", arguments->expert_overlap);
    limits->schedule = pin_of_choice(TPP_SCHEDULE_WORDS, arguments->schedule);
    limits->shared_overlap = pin_of_choice("off|on", arguments->shared_overlap);
    resolve_offload(arguments, limits);
    limits->max_tensor_parallel = limit_of(arguments->max_tensor_parallel);
    limits->max_pipeline_parallel = limit_of(arguments->max_pipeline_parallel);
    limits->max_context_parallel = limit_of(arguments->max_context_parallel);
    limits->max_micro_batch_size = limit_of(arguments->max_micro_batch_size);
    limits->max_virtual_pipeline_stages = limit_of(arguments->max_virtual_pipeline_stages);
    limits->full_space = arguments->full_space;
    limits->exhaustive = arguments->exhaustive;
    limits->num_threads = limit_of(arguments->threads);
    limits->keep = (uint32_t)arguments->top;
    if (arguments->memory_headroom != TPP_OPTION_ABSENT)
        limits->memory_headroom_fraction = arguments->memory_headroom;
    return resolve_recompute(arguments, limits, err);
}
