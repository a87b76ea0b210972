/* megatron_moe.c - Megatron-LM's rules for mixtures of experts (ML-7, ML-70 .. ML-82). */
#include "planner/rules/table.h"

static bool is_moe(const struct tpp_rule_context *c)
{
    return c->is_moe || c->s->expert_parallel > 1 || c->s->overlap_expert_comm || c->s->delay_wgrad;
}

static bool expert_mlp_divides(const struct tpp_rule_context *c)
{
    return !c->is_moe || c->moe_ffn_hidden_size % c->expert_tensor_parallel == 0;
}

static bool shared_mlp_divides(const struct tpp_rule_context *c)
{
    return !c->is_moe || !tpp_rule_is_set(c->s->shared_expert_hidden_size) ||
           c->s->shared_expert_hidden_size % c->tensor_parallel == 0;
}

static bool expert_width_is_dense(const struct tpp_rule_context *c)
{
    return !c->is_moe || c->s->grouped_gemm || c->moe_ffn_hidden_size == c->ffn_hidden_size;
}

static bool experts_divide(const struct tpp_rule_context *c)
{
    return c->s->expert_parallel == 1 || (c->is_moe && c->s->num_experts % c->s->expert_parallel == 0);
}

static bool experts_without_fp16(const struct tpp_rule_context *c)
{
    return !c->s->fp16 || !(c->s->expert_parallel > 1 || c->s->grouped_gemm);
}

static bool tensor_has_sequence_parallel(const struct tpp_rule_context *c)
{
    return !c->is_moe || c->tensor_parallel == 1 || c->sequence_parallel;
}

static bool biases_allowed(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    if (!c->is_moe || !s->linear_bias)
        return true;
    if (tpp_rule_is_set(s->shared_expert_hidden_size) && c->release >= TPP_RELEASE_0_10)
        return false;
    if (c->release <= TPP_RELEASE_0_12)
        return true;
    if (c->release <= TPP_RELEASE_0_14)
        return false;
    return c->expert_tensor_parallel == 1 && !(s->grouped_gemm && s->bias_dropout_fusion);
}

static bool one_expert_has_pre_softmax(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    return !c->is_moe || s->experts_per_token != 1 || s->score_function != TPP_RULE_SOFTMAX || s->router_pre_softmax ||
           s->load_balancing == TPP_RULE_SINKHORN;
}

static bool capacity_balancing(const struct tpp_rule_context *c)
{
    return !c->s->has_capacity_factor || c->s->load_balancing <= TPP_RULE_BALANCING_NONE;
}

static bool capacity_dispatcher(const struct tpp_rule_context *c)
{
    return !c->s->has_capacity_factor || c->s->dispatcher == TPP_RULE_ALLTOALL ||
           c->s->dispatcher == TPP_RULE_ALLTOALL_SEQ;
}

static bool padding_has_capacity(const struct tpp_rule_context *c)
{
    return !c->s->pad_to_capacity || c->s->has_capacity_factor;
}

static bool shared_overlap_dispatcher(const struct tpp_rule_context *c)
{
    if (!c->s->shared_expert_overlap || !tpp_rule_is_set(c->s->shared_expert_hidden_size))
        return true;
    return c->s->dispatcher == TPP_RULE_ALLTOALL ||
           (c->release >= TPP_RELEASE_0_18 && c->s->dispatcher == TPP_RULE_FLEX);
}

static bool expert_bias_score(const struct tpp_rule_context *c)
{
    return !c->s->router_expert_bias || c->s->score_function != TPP_RULE_SOFTMAX;
}

static bool router_groups_fit(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    if (!c->is_moe || !tpp_rule_is_set(s->router_group_topk) || s->router_group_topk == 0)
        return true;
    return tpp_rule_is_set(s->router_num_groups) && tpp_rule_divides(s->router_num_groups, s->num_experts) &&
           s->router_group_topk <= s->router_num_groups;
}

static bool deepep_has_flex(const struct tpp_rule_context *c)
{
    return !c->s->enable_deepep || c->s->dispatcher == TPP_RULE_FLEX;
}

static bool flex_has_deepep(const struct tpp_rule_context *c)
{
    return !c->is_moe || c->s->dispatcher != TPP_RULE_FLEX || c->s->enable_deepep;
}

/* Before 0.16 flex is DeepEP. */
static bool uses_deepep(const struct tpp_rule_context *c)
{
    return c->s->dispatcher == TPP_RULE_FLEX &&
           (c->release < TPP_RELEASE_0_16 || c->s->enable_deepep || c->s->flex_backend == TPP_RULE_DEEPEP);
}

static bool deepep_without_padding(const struct tpp_rule_context *c)
{
    return !uses_deepep(c) || !c->s->pad_to_capacity;
}

static bool deepep_has_ranks(const struct tpp_rule_context *c)
{
    return !c->is_moe || !uses_deepep(c) || c->expert_tensor_parallel * c->s->expert_parallel > 1;
}

static bool pattern_matches(const struct tpp_rule_context *c)
{
    return !c->is_moe || !tpp_rule_is_set(c->s->layer_pattern_length) || c->s->layer_pattern_length == c->s->num_layers;
}

static bool overlap_allowed(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    if (!s->overlap_expert_comm)
        return true;
    return s->expert_parallel > 1 && (s->dispatcher == TPP_RULE_ALLTOALL || s->dispatcher == TPP_RULE_FLEX) &&
           (s->bf16 || s->fp16) && (c->pipeline_parallel == 1 || c->virtual_stages > 0) &&
           s->recompute != TPP_RULE_GRANULARITY_FULL && s->recompute_method == TPP_RULE_METHOD_NONE &&
           !tpp_rule_is_set(s->recompute_num_layers) && !(s->recompute_modules & TPP_RULE_MODULE_MOE) &&
           !s->shared_expert_overlap && !(tpp_rule_is_set(s->mtp_num_layers) && s->mtp_num_layers > 1);
}

static bool delay_has_overlap(const struct tpp_rule_context *c)
{
    return !c->s->delay_wgrad || (c->s->overlap_expert_comm && !c->s->local_transformer);
}

static bool grouped_gemm_runs(const struct tpp_rule_context *c)
{
    return !c->s->grouped_gemm || c->s->compute_capability >= 8.0;
}

static bool no_expert_parallel(const struct tpp_rule_context *c)
{
    return c->s->expert_parallel == 1;
}

/* The context has the tensor parallel size here: what was asked for is in the settings. */
static bool experts_are_cut_like_the_rest(const struct tpp_rule_context *c)
{
    return !tpp_rule_is_set(c->s->expert_tensor_parallel) || c->s->expert_tensor_parallel == c->tensor_parallel;
}

static const struct tpp_rule rules[] = {
    {"ML", TPP_RULE_AT_ARGUMENTS, TPP_RELEASE_V2_6, TPP_RELEASE_23_06, no_expert_parallel,
     "expert parallelism is there from 0.4 on", "ep", "use one expert-parallel rank, or a newer release"},
    {"ML", TPP_RULE_AT_ARGUMENTS, TPP_RELEASE_V2_6, TPP_RELEASE_0_9, experts_are_cut_like_the_rest,
     "before 0.10 experts are cut by the tensor parallel size like the rest", "tp",
     "cut experts by the tensor parallel size, or use release 0.10 or newer"},
    {"ML-7", TPP_RULE_AT_BUILD, TPP_RULE_EVER, expert_mlp_divides,
     "the experts' width must be a multiple of the expert tensor parallel size", "moe-ffn etp",
     "set --expert-tensor-parallel-size 1"},
    {"ML-7", TPP_RULE_AT_BUILD, TPP_RULE_EVER, shared_mlp_divides,
     "the shared experts' width must be a multiple of the tensor parallel size", "shared-ffn tp",
     "change the tensor parallel size"},
    {"ML-7", TPP_RULE_AT_BUILD, TPP_RELEASE_0_10, TPP_RELEASE_0_11, expert_width_is_dense,
     "without --moe-grouped-gemm the experts must be as wide as the dense MLP in this release", "moe-ffn ffn",
     "add --moe-grouped-gemm"},
    {"ML-70", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, experts_divide,
     "expert parallelism needs experts, and as many as a multiple of its size", "experts ep",
     "choose an expert parallel size that divides the experts"},
    {"ML-70", TPP_RULE_AT_ARGUMENTS, TPP_RELEASE_V2_6, TPP_RELEASE_0_15, experts_without_fp16,
     "fp16 excludes expert parallelism and --moe-grouped-gemm until 0.15", "ep", "use --bf16"},
    {"ML-71", TPP_RULE_AT_RUN, TPP_RULE_EVER, tensor_has_sequence_parallel,
     "experts with tensor parallelism need sequence parallelism", "tp", "add --sequence-parallel"},
    {"ML-72", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, biases_allowed,
     "experts cannot have linear biases here (0.13, 0.14: never; 0.15 and later: only with one expert tensor parallel "
     "rank; never with shared experts)",
     "etp", "add --disable-bias-linear"},
    {"ML-73", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_11), one_expert_has_pre_softmax,
     "one expert a token with softmax scores needs --moe-router-pre-softmax", "topk", "add --moe-router-pre-softmax"},
    {"ML-74", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_7), capacity_balancing,
     "a capacity factor works only with an auxiliary-loss balancing, or none", "",
     "use --moe-router-load-balancing-type aux_loss"},
    {"ML-74", TPP_RULE_AT_ARGUMENTS, TPP_RELEASE_0_7, TPP_RELEASE_0_11, capacity_dispatcher,
     "a capacity factor needs the dispatcher alltoall in this release", "", "use --moe-token-dispatcher-type alltoall"},
    {"ML-74", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_7), padding_has_capacity,
     "--moe-pad-expert-input-to-capacity needs a capacity factor", "", "add --moe-expert-capacity-factor"},
    {"ML-75", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_10), shared_overlap_dispatcher,
     "overlapping shared experts needs the dispatcher alltoall (0.18 and later: or flex)", "",
     "use --moe-token-dispatcher-type alltoall"},
    {"ML-76", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_11), expert_bias_score,
     "an expert bias in the router needs sigmoid scores", "", "use --moe-router-score-function sigmoid"},
    {"ML-77", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_11), router_groups_fit,
     "group-limited routing needs groups that divide the experts, and at least as many as are chosen",
     "experts router-groups group-topk", "add --moe-router-num-groups"},
    {"ML-78", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_12), deepep_has_flex,
     "--moe-enable-deepep needs the dispatcher flex", "", "use --moe-token-dispatcher-type flex"},
    {"ML-78", TPP_RULE_AT_BUILD, TPP_RELEASE_0_12, TPP_RELEASE_0_15, flex_has_deepep,
     "the dispatcher flex needs --moe-enable-deepep in this release", "", "add --moe-enable-deepep"},
    {"ML-78", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_12), deepep_without_padding,
     "DeepEP excludes padding to capacity", "", "drop --moe-pad-expert-input-to-capacity"},
    {"ML-78", TPP_RULE_AT_BUILD, TPP_RULE_SINCE(0_12), deepep_has_ranks,
     "DeepEP needs expert tensor * expert parallel sizes above 1", "etp ep",
     "use --moe-token-dispatcher-type alltoall"},
    {"ML-79", TPP_RULE_AT_BUILD, TPP_RULE_SINCE(0_10), pattern_matches,
     "the list of --moe-layer-freq must have one entry a layer", "layer-pattern layers", "change --moe-layer-freq"},
    {"ML-80", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_14), overlap_allowed,
     "--overlap-moe-expert-parallel-comm needs expert parallelism with alltoall or flex, 16-bit precision, "
     "interleaving when there are stages, no full or moe recomputation, no shared-expert overlap",
     "ep pp vp", "drop it"},
    {"ML-81", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_14), delay_has_overlap,
     "--delay-wgrad-compute needs --overlap-moe-expert-parallel-comm and Transformer Engine", "", "drop it"},
    {"ML-82", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_5), grouped_gemm_runs,
     "--moe-grouped-gemm needs compute capability 8.0", "", "drop --moe-grouped-gemm"},
};

const struct tpp_rule_group tpp_rules_megatron_moe = TPP_RULE_GROUP(rules, is_moe);
