#include "planner/rules/release_stack.h"

#include "planner/rules/release.h"

#include <string.h>

/* Transformer Engine 1.05, layers of Megatron's own 1.2 (cost-model 5.3). */
static const double local_memory_bound_factor = 1.2;

static void take_megatron(struct tpp_stack *stack, const struct tpp_model *model, const struct tpp_gpu *gpu,
                          const struct tpp_job *job)
{
    enum tpp_release release;
    if (tpp_release_parse(stack->release, NULL, &release, NULL) != TPP_OK)
        return;
    stack->waits_when_padded = release < TPP_RELEASE_0_11;
    if (release < TPP_RELEASE_23_06)
        stack->overlap_p2p = false;
    if (release >= TPP_RELEASE_0_6 || tpp_precision_is_fp8(job->precision) || model->norm == TPP_NORM_RMS)
        return;
    stack->transformer_engine = false;
    stack->memory_bound_factor = local_memory_bound_factor;
    if (release == TPP_RELEASE_V2_6)
        stack->attention = TPP_ATTENTION_FUSED_SOFTMAX;
    else if (gpu->flash_forward_fraction[TPP_ATTENTION_FLASH2] > 0)
        stack->attention = TPP_ATTENTION_FLASH2;
}

/* Containers and releases of NeMo count in years; Megatron-Bridge's from 0.1 on. */
static bool is_nemo_before(const char *release, unsigned major, unsigned minor)
{
    return tpp_version_is_before(release, major, minor) && !tpp_version_is_before(release, 20, 0);
}

static void take_nemo(struct tpp_stack *stack, const struct tpp_job *job)
{
    stack->waits_when_padded = is_nemo_before(stack->release, 25, 4);
    if (is_nemo_before(stack->release, 25, 0))
        tpp_stack_set_fp8_weights(stack, job, false);
}

/* Torchtitan asks for cuDNN's attention on Blackwell since 0.1, on all GPUs since 0.2; its policy saves it from 0.2.1 on. */
static void take_torchtitan(struct tpp_stack *stack, const struct tpp_gpu *gpu)
{
    const char *release = stack->release[0] == 'v' ? stack->release + 1 : stack->release;
    if (tpp_version_is_before(release, 0, 1))
        stack->loss_kernel = TPP_LOSS_EAGER;
    const bool is_before_0_2 = tpp_version_is_before(release, 0, 2);
    if (is_before_0_2 && gpu->compute_capability < 10 && gpu->flash_forward_fraction[TPP_ATTENTION_FLASH2] > 0)
        stack->attention = TPP_ATTENTION_FLASH2;
    const bool lacks_cudnn = is_before_0_2 || strcmp(release, "0.2") == 0 || strcmp(release, "0.2.0") == 0;
    stack->policy_repeats_attention = stack->attention == TPP_ATTENTION_FLASH3 && lacks_cudnn;
}

void tpp_stack_take_release(struct tpp_stack *stack, const struct tpp_model *model, const struct tpp_gpu *gpu,
                            const struct tpp_job *job)
{
    if (stack->framework == TPP_FRAMEWORK_MEGATRON_LM)
        take_megatron(stack, model, gpu, job);
    else if (stack->framework == TPP_FRAMEWORK_NEMO)
        take_nemo(stack, job);
    else if (stack->framework == TPP_FRAMEWORK_TORCHTITAN)
        take_torchtitan(stack, gpu);
}
