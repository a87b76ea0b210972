#include "planner/rules/schedules.h"

#include "costmodel/base/text.h"

#define BIT(schedule) (1u << (schedule))

/* Megatron Core: megatron/core/pipeline_parallel/schedules.py, get_forward_backward_func; ms-swift and NeMo call it.
 * Megatron-DeepSpeed: --enable-zbh1-pipeline. torchtitan: pipeline_parallel_schedule takes the classes of
 * torch.distributed.pipelining. nanotron: the engines "1f1b" and "afab". */
static const unsigned core = BIT(TPP_SCHEDULE_1F1B) | BIT(TPP_SCHEDULE_INTERLEAVED);

static unsigned schedules_of(enum tpp_framework framework)
{
    switch (framework) {
    case TPP_FRAMEWORK_MEGATRON_LM:
    case TPP_FRAMEWORK_NEMO:
    case TPP_FRAMEWORK_MS_SWIFT:
        return core;
    case TPP_FRAMEWORK_MEGATRON_DEEPSPEED:
        return BIT(TPP_SCHEDULE_1F1B) | BIT(TPP_SCHEDULE_ZB_H1);
    case TPP_FRAMEWORK_TORCHTITAN:
        return core | BIT(TPP_SCHEDULE_GPIPE) | BIT(TPP_SCHEDULE_ZB_V) | BIT(TPP_SCHEDULE_DUALPIPEV);
    case TPP_FRAMEWORK_NANOTRON:
        return BIT(TPP_SCHEDULE_1F1B) | BIT(TPP_SCHEDULE_GPIPE);
    case TPP_FRAMEWORK_LLM_FOUNDRY:
    case TPP_FRAMEWORK_HF_TRAINER:
        return BIT(TPP_SCHEDULE_1F1B);
    default:
        return BIT(TPP_SCHEDULE_COUNT) - 1;
    }
}

bool tpp_framework_has_schedule(enum tpp_framework framework, enum tpp_schedule schedule)
{
    return (schedules_of(framework) & BIT(schedule)) != 0;
}

enum tpp_code tpp_framework_check_schedule(enum tpp_framework framework, enum tpp_schedule schedule,
                                           struct tpp_error *err)
{
    if (tpp_framework_has_schedule(framework, schedule)) {
        return TPP_OK;
    }
    struct tpp_text names;
    bool is_first = true;
    tpp_text_init(&names);
    for (int s = 0; s < TPP_SCHEDULE_COUNT; s++) {
        if (tpp_framework_has_schedule(framework, (enum tpp_schedule)s)) {
            tpp_text_format(&names, "%s %s", is_first ? "choose another framework, or one of" : ",",
                            tpp_schedule_name((enum tpp_schedule)s));
            is_first = false;
        }
    }
    const enum tpp_code code =
        tpp_fail(err, TPP_E_UNSUPPORTED, "schedule", tpp_text_get(&names), "%s has no pipeline schedule %s",
                 tpp_framework_name(framework), tpp_schedule_name(schedule));
    tpp_text_release(&names);
    return code;
}
