/* megatron_training.c - Megatron-LM's rules for the length of training, data and environment (ML-13, ML-14, ML-15,
 * ML-91, ML-96). */
#include "planner/rules/table.h"

static bool one_data_source(const struct tpp_rule_context *c)
{
    return c->s->num_data_sources <= 1 && (c->s->num_data_sources == 1 || c->release > TPP_RELEASE_0_7);
}

static bool iterations_alone(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    if (!s->has_train_iters)
        return true;
    return !s->has_train_samples && !s->has_lr_decay_samples && !s->has_lr_warmup_samples &&
           (c->release > TPP_RELEASE_0_17 || !tpp_rule_is_set(s->rampup_start));
}

static bool samples_alone(const struct tpp_rule_context *c)
{
    return !c->s->has_train_samples || (!c->s->has_lr_decay_iters && !c->s->has_lr_warmup_iters);
}

static bool one_warmup(const struct tpp_rule_context *c)
{
    return !c->s->has_lr_warmup_fraction || (!c->s->has_lr_warmup_iters && !c->s->has_lr_warmup_samples);
}

static bool rates_are_ordered(const struct tpp_rule_context *c)
{
    return c->s->lr == 0 || c->s->min_lr <= c->s->lr;
}

static bool save_has_interval(const struct tpp_rule_context *c)
{
    return !c->s->has_save || c->s->has_save_interval;
}

/* Kernels must start in the order they were queued, so that a collective queued before a GEMM runs under it;
 * asynchronous all-reduces of tensor parallelism were taken to be on whatever its size until 0.11. */
static bool connections_until_0_11(const struct tpp_rule_context *c)
{
    return c->s->cuda_device_max_connections == 1 || !(c->sequence_parallel || c->s->async_tensor_all_reduce);
}

static bool connections_since_0_12(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    bool old_gpu = s->compute_capability < 10.0;
    bool needed =
        (c->tensor_parallel > 1 && (old_gpu || c->release == TPP_RELEASE_0_12)) || (s->context_parallel > 1 && old_gpu);
    return !needed || c->fsdp || s->cuda_device_max_connections == 1;
}

static bool one_batch_schedule(const struct tpp_rule_context *c)
{
    return !c->s->step_batch_size_schedule || !tpp_rule_is_set(c->s->global_batch_size);
}

static const struct tpp_rule rules[] = {
    {"ML-13", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, one_data_source,
     "there must be one data source: --mock-data, --data-path or the three split paths", "", "give exactly one"},
    {"ML-14", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, iterations_alone,
     "--train-iters excludes sample-based lengths (and, until 0.17, --rampup-batch-size)", "",
     "use either iterations or samples"},
    {"ML-14", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, samples_alone,
     "--train-samples excludes iteration-based lengths of the learning-rate schedule", "",
     "use either iterations or samples"},
    {"ML-14", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, one_warmup,
     "--lr-warmup-fraction excludes a count of warm-up iterations or samples", "", "give one of them"},
    {"ML-15", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, rates_are_ordered,
     "the least learning rate must not be above the learning rate", "", "lower --min-lr"},
    {"ML-15", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, save_has_interval, "--save needs --save-interval", "",
     "add --save-interval"},
    {"ML-91", TPP_RULE_AT_ARGUMENTS, TPP_RELEASE_23_04, TPP_RELEASE_0_11, connections_until_0_11,
     "CUDA_DEVICE_MAX_CONNECTIONS must be 1 in this release", "", "export CUDA_DEVICE_MAX_CONNECTIONS=1"},
    {"ML-91", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_12), connections_since_0_12,
     "CUDA_DEVICE_MAX_CONNECTIONS must be 1 with tensor or context parallelism on GPUs before compute capability 10",
     "tp cp", "export CUDA_DEVICE_MAX_CONNECTIONS=1"},
    {"ML-96", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_18), one_batch_schedule,
     "--step-batch-size-schedule excludes --global-batch-size", "", "drop --global-batch-size"},
};

const struct tpp_rule_group tpp_rules_megatron_training = TPP_RULE_GROUP(rules, NULL);
