/* megatron_optimizer.c - Megatron-LM's rules for data parallelism, optimizer and checkpoint format (ML-40 .. ML-42,
 * ML-44 .. ML-49, ML-53). */
#include "planner/rules/table.h"

/* Before 0.8 only the core models can. */
static bool gather_has_core_models(const struct tpp_rule_context *c)
{
    return !c->s->overlap_param_gather || c->s->mcore_models;
}

static bool gather_has_distributed_optimizer(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    if (!s->overlap_param_gather || s->distributed_optimizer)
        return true;
    return (s->megatron_fsdp && c->release >= TPP_RELEASE_0_12) ||
           (s->optimizer == TPP_RULE_DIST_MUON && c->release >= TPP_RELEASE_0_16);
}

static bool gather_has_reduce(const struct tpp_rule_context *c)
{
    return !c->s->overlap_param_gather || c->s->overlap_grad_reduce;
}

static bool step_overlap_allowed(const struct tpp_rule_context *c)
{
    return !c->s->overlap_param_gather_with_step ||
           (c->s->overlap_param_gather && c->virtual_stages > 0 && c->s->checkpoint_format == TPP_RULE_TORCH);
}

static bool one_bucket_option(const struct tpp_rule_context *c)
{
    return !tpp_rule_is_set(c->s->ddp_bucket_size) || !tpp_rule_is_set(c->s->ddp_num_buckets);
}

static bool torch_fsdp2_allowed(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    if (!s->torch_fsdp2)
        return true;
    bool format = s->checkpoint_format == TPP_RULE_TORCH_DIST ||
                  (s->checkpoint_format == TPP_RULE_TORCH_DCP && c->release >= TPP_RELEASE_0_12);
    return c->pipeline_parallel == 1 && s->expert_parallel == 1 && !s->distributed_optimizer &&
           !s->gradient_accumulation_fusion && s->untied_embeddings && !s->fp16 && format;
}

static bool fsdp_connections(const struct tpp_rule_context *c)
{
    return !c->fsdp || c->s->cuda_device_max_connections != 1;
}

static bool megatron_fsdp_format(const struct tpp_rule_context *c)
{
    return !c->s->megatron_fsdp || c->s->checkpoint_format == TPP_RULE_FSDP_DTENSOR;
}

static bool fsdp_is_whole(const struct tpp_rule_context *c)
{
    return !c->s->partial_fsdp;
}

static bool megatron_fsdp_optimizer(const struct tpp_rule_context *c)
{
    return !c->s->megatron_fsdp || c->s->optimizer == TPP_RULE_ADAM || c->s->optimizer == TPP_RULE_SGD;
}

static bool dcp_has_fsdp2(const struct tpp_rule_context *c)
{
    return c->s->checkpoint_format != TPP_RULE_TORCH_DCP ||
           (c->s->torch_fsdp2 && c->tensor_parallel == 1 && c->pipeline_parallel == 1);
}

static bool dtensor_has_fsdp(const struct tpp_rule_context *c)
{
    return c->s->checkpoint_format != TPP_RULE_FSDP_DTENSOR || c->s->megatron_fsdp;
}

static bool offload_has_aware_optimizer(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    return !s->optimizer_cpu_offload ||
           (s->precision_aware_optimizer && !(s->fp8_param_gather && s->fp8_recipe != TPP_RULE_FP8_DELAYED));
}

static bool aware_optimizer_allowed(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    return !s->precision_aware_optimizer ||
           (s->optimizer == TPP_RULE_ADAM && (s->distributed_optimizer || s->megatron_fsdp));
}

static bool narrow_state_has_aware_optimizer(const struct tpp_rule_context *c)
{
    return !c->s->narrow_state || c->s->precision_aware_optimizer;
}

static bool muon_allowed(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    if (s->optimizer != TPP_RULE_MUON && s->optimizer != TPP_RULE_DIST_MUON)
        return true;
    if (s->distributed_optimizer && c->release <= TPP_RELEASE_0_17)
        return false;
    return (s->checkpoint_format == TPP_RULE_TORCH || s->checkpoint_format == TPP_RULE_TORCH_DIST) && !c->fsdp &&
           !s->fp16;
}

static bool uses_fsdp_or_others(const struct tpp_rule_context *c)
{
    return c->fsdp || c->s->checkpoint_format != TPP_RULE_TORCH_DIST || c->s->optimizer != TPP_RULE_ADAM;
}

static bool has_torch_fsdp2(const struct tpp_rule_context *c)
{
    return !c->s->torch_fsdp2;
}

static bool torch_fsdp2_shards_all(const struct tpp_rule_context *c)
{
    return !c->s->torch_fsdp2 || !tpp_rule_is_set(c->s->shard_group);
}

static bool frees_gathered_weights(const struct tpp_rule_context *c)
{
    return !c->s->keeps_gathered_weights;
}

static const struct tpp_rule fsdp_rules[] = {
    {"ML-44", TPP_RULE_AT_ARGUMENTS, TPP_RELEASE_V2_6, TPP_RELEASE_0_9, has_torch_fsdp2,
     "--use-torch-fsdp2 is there from 0.10 on", "", "choose release 0.10 or newer"},
    {"ML-44", TPP_RULE_AT_ARGUMENTS, TPP_RELEASE_V2_6, TPP_RELEASE_0_12, frees_gathered_weights,
     "--torch-fsdp2-no-reshard-after-forward is there from 0.13 on", "",
     "gather weights again, or use a newer release"},
    {"ML-44", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, torch_fsdp2_shards_all,
     "--use-torch-fsdp2 shards over all ranks that share weights", "shard-group", "shard over all of them"},
    {"ML-44", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_10), torch_fsdp2_allowed,
     "--use-torch-fsdp2 needs one stage, no expert parallelism, no distributed optimizer, "
     "--no-gradient-accumulation-fusion, untied embeddings, no fp16 and --ckpt-format torch_dist",
     "pp ep", "change these, or drop --use-torch-fsdp2"},
    {"ML-44", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_12), fsdp_connections,
     "with FSDP, CUDA_DEVICE_MAX_CONNECTIONS must not be 1", "", "set CUDA_DEVICE_MAX_CONNECTIONS=8"},
    {"ML-45", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_14), megatron_fsdp_format,
     "--use-megatron-fsdp needs --ckpt-format fsdp_dtensor", "", "add --ckpt-format fsdp_dtensor"},
    {"ML-45", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_14), fsdp_is_whole,
     "plans with Megatron FSDP shard weights too, free them behind forward and overlap both directions", "",
     "use ZeRO stage 3 with both overlaps"},
    {"ML-45", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_14), megatron_fsdp_optimizer,
     "--use-megatron-fsdp works with adam and sgd only", "", "use --optimizer adam"},
    {"ML-46", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_10), dcp_has_fsdp2,
     "--ckpt-format torch_dcp needs --use-torch-fsdp2 and tensor and pipeline parallel sizes of 1", "tp pp",
     "use --ckpt-format torch_dist"},
    {"ML-46", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_14), dtensor_has_fsdp,
     "--ckpt-format fsdp_dtensor needs --use-megatron-fsdp", "", "use --ckpt-format torch_dist"},
    {"ML-53", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_16), muon_allowed,
     "muon needs --ckpt-format torch or torch_dist, no FSDP, no fp16 and, until 0.17, no distributed optimizer", "",
     "use --optimizer adam"},
};

static bool no_overlap(const struct tpp_rule_context *c)
{
    return !c->s->overlap_grad_reduce && !c->s->overlap_param_gather;
}

static bool no_bucket_size(const struct tpp_rule_context *c)
{
    return !tpp_rule_is_set(c->s->ddp_bucket_size);
}

static bool one_optimizer_instance(const struct tpp_rule_context *c)
{
    return c->s->optimizer_instances == 1;
}

static bool no_optimizer_offload(const struct tpp_rule_context *c)
{
    return !c->s->optimizer_cpu_offload;
}

static bool one_bucket_size(const struct tpp_rule_context *c)
{
    return !tpp_rule_is_set(c->s->allgather_bucket_size) || c->s->allgather_bucket_size == c->s->ddp_bucket_size;
}

static const struct tpp_rule rules[] = {
    {"ML", TPP_RULE_AT_ARGUMENTS, TPP_RELEASE_V2_6, TPP_RELEASE_23_06, no_overlap,
     "--overlap-grad-reduce and --overlap-param-gather are there from 0.4 on", "", "reduce after backward"},
    {"ML", TPP_RULE_AT_ARGUMENTS, TPP_RELEASE_V2_6, TPP_RELEASE_0_6, no_bucket_size,
     "--ddp-bucket-size is there from 0.7 on", "bucket", "leave the bucket size to the framework"},
    {"ML", TPP_RULE_AT_ARGUMENTS, TPP_RELEASE_V2_6, TPP_RELEASE_0_9, one_optimizer_instance,
     "--num-distributed-optimizer-instances is there from 0.10 on", "instances",
     "shard over all ranks that share weights"},
    {"ML", TPP_RULE_AT_ARGUMENTS, TPP_RELEASE_V2_6, TPP_RELEASE_0_11, no_optimizer_offload,
     "--optimizer-cpu-offload is there from 0.12 on", "", "keep the optimizer on the GPU"},
    {"ML", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, one_bucket_size,
     "gathers and reductions have one bucket size, in elements", "gather-bucket bucket",
     "leave the bucket of gathers to the framework"},
    {"ML-40", TPP_RULE_AT_ARGUMENTS, TPP_RELEASE_0_4, TPP_RELEASE_0_7, gather_has_core_models,
     "--overlap-param-gather needs --use-mcore-models in this release", "", "add --use-mcore-models"},
    {"ML-40", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, gather_has_distributed_optimizer,
     "--overlap-param-gather needs --use-distributed-optimizer", "", "add --use-distributed-optimizer"},
    {"ML-40", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, gather_has_reduce,
     "--overlap-param-gather needs --overlap-grad-reduce", "", "add --overlap-grad-reduce"},
    {"ML-41", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_9), step_overlap_allowed,
     "--overlap-param-gather-with-optimizer-step needs --overlap-param-gather, interleaving and --ckpt-format torch",
     "vp", "drop it"},
    {"ML-42", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_18), one_bucket_option,
     "--ddp-num-buckets and --ddp-bucket-size exclude each other", "", "give one of them"},
    {"ML-47", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_12), offload_has_aware_optimizer,
     "--optimizer-cpu-offload needs --use-precision-aware-optimizer, and the delayed fp8 recipe with fp8 parameters",
     "", "add --use-precision-aware-optimizer"},
    {"ML-48", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_11), aware_optimizer_allowed,
     "--use-precision-aware-optimizer needs adam and --use-distributed-optimizer", "",
     "add --use-distributed-optimizer"},
    {"ML-49", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_13), narrow_state_has_aware_optimizer,
     "gradients, parameters or moments below fp32 need --use-precision-aware-optimizer", "",
     "add --use-precision-aware-optimizer"},
};

const struct tpp_rule_group tpp_rules_megatron_fsdp = TPP_RULE_GROUP(fsdp_rules, uses_fsdp_or_others);
const struct tpp_rule_group tpp_rules_megatron_optimizer = TPP_RULE_GROUP(rules, NULL);
