/* shapes.h - models, jobs and clusters that several tests share. Shapes are those of the named published models. */
#ifndef TPP_TESTS_SUPPORT_SHAPES_H
#define TPP_TESTS_SUPPORT_SHAPES_H

#include "costmodel/job.h"
#include "costmodel/model/presets.h"
#include "costmodel/stack.h"
#include "costmodel/strategy.h"
#include "hwprofiles/profiles.h"
#include "tests/support/check_number.h"

#include <string.h>

static inline struct tpp_model shape_preset(const char *name)
{
    const struct tpp_model *model = tpp_model_preset(name);
    assert_non_null(model);
    return *model;
}

static inline struct tpp_hardware shape_cluster(const char *name)
{
    struct tpp_hardware hardware;
    assert_int_equal(tpp_hardware_find(name, &hardware, NULL), TPP_OK);
    return hardware;
}

static inline struct tpp_job shape_job(uint32_t num_gpus, uint64_t sequence_length, uint64_t global_batch_size)
{
    struct tpp_job job = tpp_job_defaults();
    job.num_gpus = num_gpus;
    job.sequence_length = sequence_length;
    job.global_batch_size = global_batch_size;
    return job;
}

/* The 2021/22 Megatron stack of Korthikanti et al.: local kernels, fused softmax, dropout 0.1, fp16 with fp32
 * gradients. */
static inline struct tpp_stack shape_korthikanti_stack(const struct tpp_gpu *gpu, struct tpp_job *job)
{
    struct tpp_stack stack;
    job->precision = TPP_PRECISION_FP16;
    job->hidden_dropout = job->attention_dropout = 0.1;
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_LM, gpu, job, &stack);
    stack.attention = TPP_ATTENTION_FUSED_SOFTMAX;
    stack.transformer_engine = false;
    stack.memory_bound_factor = 1.2;
    stack.gradient_bytes = 4;
    return stack;
}

static inline struct tpp_strategy shape_strategy(const char *text, const struct tpp_job *job)
{
    struct tpp_strategy strategy;
    struct tpp_error err = {0};
    if (tpp_strategy_parse(text, &strategy, &err) != TPP_OK || tpp_strategy_complete(&strategy, job, &err) != TPP_OK)
        fail_msg("%s: %s (%s)", text, err.message, err.where);
    return strategy;
}

#endif
