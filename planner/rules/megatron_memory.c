/* megatron_memory.c - Megatron-LM's rules for precision, recomputation and offload of activations (ML-11, ML-50 ..
 * ML-52, ML-60 .. ML-64, ML-97). */
#include "planner/rules/table.h"

static bool one_precision(const struct tpp_rule_context *c)
{
    return !c->s->fp16 || !c->s->bf16;
}

static bool fp8_gather_has_optimizer(const struct tpp_rule_context *c)
{
    return !c->s->fp8_param_gather || c->s->distributed_optimizer || c->fsdp;
}

static bool fp8_gather_has_fp8(const struct tpp_rule_context *c)
{
    return !c->s->fp8_param_gather || c->s->fp8 != TPP_RULE_FP8_NONE;
}

static bool one_narrow_format(const struct tpp_rule_context *c)
{
    return !c->s->fp4 || c->s->fp8 == TPP_RULE_FP8_NONE;
}

static bool bf16_layers_recipe(const struct tpp_rule_context *c)
{
    return !c->s->first_last_layers_bf16 || c->s->fp8_recipe != TPP_RULE_FP8_DELAYED;
}

/* Before 0.4 the number of layers has a default. */
static bool full_is_complete(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    if (s->recompute != TPP_RULE_GRANULARITY_FULL)
        return true;
    bool has_number = tpp_rule_is_set(s->recompute_num_layers) || c->release < TPP_RELEASE_0_4;
    return s->recompute_method != TPP_RULE_METHOD_NONE && has_number;
}

static bool selective_is_bare(const struct tpp_rule_context *c)
{
    return c->s->recompute != TPP_RULE_GRANULARITY_SELECTIVE ||
           (c->s->recompute_method == TPP_RULE_METHOD_NONE && !tpp_rule_is_set(c->s->recompute_num_layers));
}

static bool is_selective(const struct tpp_rule_context *c, unsigned module)
{
    return c->s->recompute == TPP_RULE_GRANULARITY_SELECTIVE && (c->s->recompute_modules & module);
}

static bool modules_known(const struct tpp_rule_context *c)
{
    unsigned unknown = TPP_RULE_MODULE_UNKNOWN;
    if (c->release < TPP_RELEASE_0_14)
        unknown |= TPP_RULE_MODULE_SHARED_EXPERTS | TPP_RULE_MODULE_OTHER_ARCHITECTURE;
    return !is_selective(c, unknown);
}

static bool modules_fit_model(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    bool shared_overlap = tpp_rule_is_set(s->shared_expert_hidden_size) && s->shared_expert_overlap;
    return !(is_selective(c, TPP_RULE_MODULE_MOE_ACT) && !s->grouped_gemm) &&
           !(is_selective(c, TPP_RULE_MODULE_MLA_UP_PROJ) && !s->multi_latent_attention) &&
           !(is_selective(c, TPP_RULE_MODULE_SHARED_EXPERTS) && shared_overlap);
}

static bool modules_fit_fp8(const struct tpp_rule_context *c)
{
    return !is_selective(c, TPP_RULE_MODULE_MOE_ACT | TPP_RULE_MODULE_LAYERNORM) || c->s->fp8 == TPP_RULE_FP8_NONE ||
           c->s->fp8_recipe != TPP_RULE_FP8_DELAYED;
}

static bool saved_activations_allowed(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    return !s->distribute_saved_activations || (c->tensor_parallel > 1 && s->recompute == TPP_RULE_GRANULARITY_FULL &&
                                                s->recompute_method != TPP_RULE_METHOD_NONE && !c->sequence_parallel);
}

static bool layer_offload_allowed(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    return s->cpu_offload_layers == 0 || (s->cpu_offload_layers > 0 && s->cpu_offload_layers < s->num_layers &&
                                          c->pipeline_parallel == 1 && s->recompute == TPP_RULE_GRANULARITY_NONE);
}

static bool graphs_allow_full(const struct tpp_rule_context *c)
{
    if (c->s->recompute != TPP_RULE_GRANULARITY_FULL || c->s->cuda_graph == TPP_RULE_GRAPH_NONE)
        return true;
    return c->release > TPP_RELEASE_0_15 && c->s->cuda_graph == TPP_RULE_GRAPH_FULL_ITERATION;
}

static bool cross_entropy_native(const struct tpp_rule_context *c)
{
    return !c->s->cross_entropy_fusion_te;
}

static bool saves_memory(const struct tpp_rule_context *c)
{
    return c->s->recompute != TPP_RULE_GRANULARITY_NONE || c->s->distribute_saved_activations ||
           c->s->cpu_offload_layers != 0;
}

static bool is_not_plain_bf16(const struct tpp_rule_context *c)
{
    return c->s->fp16 || c->s->fp4 || c->s->fp8 != TPP_RULE_FP8_NONE || c->s->fp8_param_gather ||
           c->s->first_last_layers_bf16 || c->s->cross_entropy_fusion_te;
}

static const struct tpp_rule recompute_rules[] = {
    {"ML-60", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(23_04), full_is_complete,
     "full recomputation needs --recompute-method and --recompute-num-layers", "",
     "add --recompute-method uniform --recompute-num-layers 1"},
    {"ML-60", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(23_04), selective_is_bare,
     "selective recomputation takes neither --recompute-method nor --recompute-num-layers", "", "drop them"},
    {"ML-61", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_12), modules_known,
     "a recomputation module is not known in this release", "",
     "use core_attn, moe_act, layernorm, mla_up_proj, mlp, moe (0.14: shared_experts)"},
    {"ML-61", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_12), modules_fit_model,
     "recomputing moe_act needs --moe-grouped-gemm, mla_up_proj multi-latent attention, shared_experts no overlap of "
     "them",
     "", "change --recompute-modules"},
    {"ML-61", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_12), modules_fit_fp8,
     "recomputing moe_act or layernorm with fp8 excludes the delayed recipe", "", "use --fp8-recipe tensorwise"},
    {"ML-62", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, saved_activations_allowed,
     "--distribute-saved-activations needs tensor parallelism, full recomputation and no sequence parallelism", "tp",
     "drop it"},
    {"ML-63", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_16), layer_offload_allowed,
     "offloading activations needs fewer layers than the model has, one stage and no recomputation", "layers pp",
     "drop --cpu-offloading-num-layers"},
    {"ML-64", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_15), graphs_allow_full,
     "full recomputation excludes CUDA graphs (0.16 and later: except of the full iteration)", "",
     "drop --cuda-graph-impl"},
};

static const struct tpp_rule rules[] = {
    {"ML-11", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, one_precision, "--fp16 and --bf16 exclude each other", "",
     "drop one of them"},
    {"ML-50", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_9), fp8_gather_has_optimizer,
     "--fp8-param-gather needs the distributed optimizer or FSDP", "", "add --use-distributed-optimizer"},
    {"ML-50", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_12), fp8_gather_has_fp8, "--fp8-param-gather needs an fp8 format",
     "", "add --fp8-format hybrid"},
    {"ML-51", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_15), one_narrow_format, "fp8 and fp4 exclude each other", "",
     "give one format"},
    {"ML-52", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_12), bf16_layers_recipe,
     "--first-last-layers-bf16 does not work with the delayed fp8 recipe", "", "use --fp8-recipe tensorwise"},
    {"ML-97", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_19), cross_entropy_native,
     "cross entropy fusion with the implementation te is refused", "", "use --cross-entropy-fusion-impl native"},
};

const struct tpp_rule_group tpp_rules_megatron_memory = TPP_RULE_GROUP(recompute_rules, saves_memory);
const struct tpp_rule_group tpp_rules_megatron_precision = TPP_RULE_GROUP(rules, is_not_plain_bf16);
