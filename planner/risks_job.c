/* The job itself: batch, precision, impossible times, debugging switches (cost-model 10.2 item 11; field notes A4, A9).
 */
#include "planner/risk_checks.h"

#include "costmodel/flops.h"
#include "costmodel/sequence_lengths.h"

#define SMALL_BATCH_TOKENS 1e6
#define LARGE_BATCH_TOKENS 16e6
#define USEFUL_FRACTION 0.8   /* of tokens; packing costs nothing and leaves 0.95 and more */
#define MANY_ACCUMULATIONS 32 /* sums of so many 16-bit gradients lose digits */

static void batch_tokens(struct tpp_risk_context *c)
{
    const double tokens = (double)c->job->global_batch_size * (double)c->job->sequence_length;
    const bool is_small = tokens < SMALL_BATCH_TOKENS;
    if (c->job->task == TPP_TASK_PRETRAIN && (is_small || tokens > LARGE_BATCH_TOKENS)) {
        tpp_risk_add(c, is_small ? "small-batch" : "large-batch", TPP_SEVERITY_INFO, NULL,
                     "a global batch of %.3g tokens is %s what pretraining usually uses (1 to 16 million): a matter of "
                     "optimisation, not of speed",
                     tokens, is_small ? "below" : "above");
    }
}

static void padding(struct tpp_risk_context *c)
{
    if (tpp_job_pads(c->job) && c->cost->useful_token_fraction < USEFUL_FRACTION) {
        tpp_risk_add(c, "padding", TPP_SEVERITY_WARNING,
                     "pack sequences (--seq-packing), sort them by length, or lower the micro-batch",
                     "%.0f %% of the tokens that are computed are padding", 100 * (1 - c->cost->useful_token_fraction));
    }
}

static void half_precision(struct tpp_risk_context *c)
{
    if (c->job->precision == TPP_PRECISION_FP16) {
        tpp_risk_add(c, "fp16-loss-scaling", TPP_SEVERITY_INFO,
                     c->hardware->gpu.has_bf16 ? "use bf16, which this GPU has" : "use dynamic loss scaling",
                     "fp16 needs loss scaling, and steps are skipped when it overflows");
    }
}

static void short_sums(struct tpp_risk_context *c)
{
    const unsigned long long m = c->strategy->num_micro_batches;
    if (c->stack->gradient_bytes == 2 && !c->stack->fp32_accumulation && m >= MANY_ACCUMULATIONS &&
        !tpp_job_is_adapter(c->job)) {
        tpp_risk_add(c, "16-bit-accumulation", TPP_SEVERITY_WARNING, "accumulate gradients in fp32",
                     "the gradients of %llu micro-batches are summed in 16 bits", m);
    }
}

/* Not by the MFU: with adapters, FP8 or very long sequences its conventions pass 100 % in steps that are possible. */
static void impossible(struct tpp_risk_context *c)
{
    const double least = tpp_flops_least_seconds(c->cost->necessary_flops, c->job, &c->hardware->gpu);
    if (least > c->cost->step_seconds) {
        tpp_risk_add(c, "impossible-utilization", TPP_SEVERITY_ERROR,
                     "check the step time, the batch and the GPU of the profile",
                     "the step time means %.0f %% of the GPUs' peak: physics forbids it",
                     100 * least / c->cost->step_seconds);
    }
}

static void quantized_file(struct tpp_risk_context *c)
{
    if (c->model->stored_as[0] != '\0')
        tpp_risk_add(c, "quantized-file", TPP_SEVERITY_INFO, NULL,
                     "the file holds %s weights, which training does not keep: weights are counted with %u bytes each, "
                     "states with what the engine keeps",
                     c->model->stored_as, c->job->task == TPP_TASK_QLORA ? 2 : c->stack->weight_bytes);
}

static void blocking_launches(struct tpp_risk_context *c)
{
    if (c->stack->launch_blocking) {
        tpp_risk_add(c, "launch-blocking", TPP_SEVERITY_WARNING, "unset CUDA_LAUNCH_BLOCKING in production",
                     "blocking launches let nothing overlap: a switch for finding faults");
    }
}

tpp_risk_check *const tpp_risk_job_checks[] = {
    batch_tokens, padding, half_precision, short_sums, impossible, quantized_file, blocking_launches, NULL,
};
