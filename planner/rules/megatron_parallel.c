/* megatron_parallel.c - Megatron-LM's rules for the parallel sizes and the batch (ML-1 .. ML-3, ML-8, ML-9, ML-83,
 * ML-90, ML-92 .. ML-94, ML-100, and ML-43 for the groups of the optimizer). */
#include "planner/rules/table.h"

static bool world_divides(const struct tpp_rule_context *c)
{
    return tpp_rule_divides(c->model_parallel, c->s->world_size);
}

/* Before 0.10 experts were sharded inside the data-parallel group; 0.7 knew no context parallelism with it. */
static bool expert_world_divides(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    if (c->release >= TPP_RELEASE_0_10)
        return tpp_rule_divides(c->expert_tensor_parallel * s->expert_parallel * c->pipeline_parallel, s->world_size);
    if (c->release <= TPP_RELEASE_0_7 && s->expert_parallel > 1 && s->context_parallel > 1)
        return false;
    return tpp_rule_divides(s->expert_parallel, c->data_parallel);
}

/* Since 0.18 the evaluation batch must divide whatever --decrease-batch-size-if-needed does to the training batch. */
static bool batch_divides(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    int64_t unit = s->micro_batch_size * c->data_parallel;
    if (c->global_batch_size < unit)
        return false;
    if (!s->decrease_batch_size || c->release < TPP_RELEASE_0_9)
        return c->global_batch_size % unit == 0;
    return c->release < TPP_RELEASE_0_18 || tpp_rule_is_set(s->eval_global_batch_size) ||
           c->global_batch_size % unit == 0;
}

static bool eval_batch_divides(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    int64_t micro = tpp_rule_is_set(s->eval_micro_batch_size) ? s->eval_micro_batch_size : s->micro_batch_size;
    int64_t global = tpp_rule_is_set(s->eval_global_batch_size) ? s->eval_global_batch_size : c->global_batch_size;
    if (!tpp_rule_is_set(s->eval_global_batch_size) && !tpp_rule_is_set(s->eval_micro_batch_size))
        return true;
    return global >= micro * c->data_parallel && global % (micro * c->data_parallel) == 0;
}

static bool rampup_divides(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    if (!tpp_rule_is_set(s->rampup_start))
        return true;
    int64_t unit = s->micro_batch_size * c->data_parallel;
    return s->rampup_start >= 1 && s->rampup_start % unit == 0 && c->global_batch_size >= s->rampup_start &&
           tpp_rule_divides(s->rampup_increment, c->global_batch_size - s->rampup_start);
}

static bool context_cuts_sequence(const struct tpp_rule_context *c)
{
    return c->s->context_parallel == 1 || c->s->sequence_length % (2 * c->s->context_parallel) == 0;
}

static bool sequence_parallel_cuts_sequence(const struct tpp_rule_context *c)
{
    return !c->sequence_parallel || c->s->sequence_length / c->s->context_parallel % c->tensor_parallel == 0;
}

/* Both cuts of the world must make the same pipeline groups: with the pipeline inside, the ranks of a stage lie
 * tensor * context, or expert tensor * expert, apart. */
static bool mapping_agrees(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    if (!s->pipeline_before_data)
        return true;
    if (c->release <= TPP_RELEASE_0_10)
        return s->context_parallel == 1 && s->expert_parallel == 1;
    return c->pipeline_parallel == 1 ||
           c->tensor_parallel * s->context_parallel == c->expert_tensor_parallel * s->expert_parallel;
}

static bool instances_divide(const struct tpp_rule_context *c)
{
    return tpp_rule_divides(c->s->optimizer_instances, c->data_parallel * c->s->context_parallel);
}

static bool instances_divide_experts(const struct tpp_rule_context *c)
{
    return tpp_rule_divides(c->s->optimizer_instances, c->expert_data_parallel);
}

static bool no_tensor_overlap(const struct tpp_rule_context *c)
{
    return !c->s->tp_comm_overlap;
}

static bool overlap_has_sequence_parallel(const struct tpp_rule_context *c)
{
    return !c->s->tp_comm_overlap || c->sequence_parallel;
}

static bool hierarchy_given(const struct tpp_rule_context *c)
{
    return !(c->s->context_types & TPP_RULE_CONTEXT_A2A_P2P) || tpp_rule_is_set(c->s->hierarchical_product);
}

static bool hierarchy_fits(const struct tpp_rule_context *c)
{
    return !tpp_rule_is_set(c->s->hierarchical_product) || c->s->hierarchical_product == c->s->context_parallel;
}

static bool context_types_match_layers(const struct tpp_rule_context *c)
{
    return c->s->num_context_types <= 1 || c->s->num_context_types == c->s->num_layers;
}

static bool context_type_known(const struct tpp_rule_context *c)
{
    return !(c->s->context_types & TPP_RULE_CONTEXT_UNKNOWN);
}

/* The all-to-all gives every rank whole heads of the whole sequence. */
static bool heads_divide_all_to_all(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    int64_t ranks = s->context_types & TPP_RULE_CONTEXT_A2A       ? s->context_parallel
                    : s->context_types & TPP_RULE_CONTEXT_A2A_P2P ? s->hierarchical_first
                                                                  : 1;
    if (s->context_parallel == 1 || ranks <= 1)
        return true;
    int64_t groups = c->num_query_groups < c->tensor_parallel ? 1 : c->num_query_groups / c->tensor_parallel;
    return s->num_attention_heads / c->tensor_parallel % ranks == 0 && groups % ranks == 0;
}

static bool weight_shards_fit(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    int64_t tensor = tpp_rule_is_set(s->tensor_weight_shards) ? s->tensor_weight_shards : c->tensor_parallel;
    int64_t expert = tpp_rule_is_set(s->expert_weight_shards) ? s->expert_weight_shards : c->expert_tensor_parallel;
    bool more = tensor > c->tensor_parallel || expert > c->expert_tensor_parallel;
    return tensor >= c->tensor_parallel && tensor % c->tensor_parallel == 0 && expert >= c->expert_tensor_parallel &&
           expert % c->expert_tensor_parallel == 0 && !(more && s->optimizer_instances > 1);
}

static bool uses_context(const struct tpp_rule_context *c)
{
    return c->s->context_parallel > 1 || c->s->context_types != TPP_RULE_CONTEXT_P2P || c->s->num_context_types > 1 ||
           tpp_rule_is_set(c->s->hierarchical_product);
}

static bool no_context_parallel(const struct tpp_rule_context *c)
{
    return c->s->context_parallel == 1;
}

static bool context_is_ring(const struct tpp_rule_context *c)
{
    return c->s->context_parallel == 1 || c->s->context_types == TPP_RULE_CONTEXT_P2P;
}

static const struct tpp_rule context_rules[] = {
    {"ML", TPP_RULE_AT_ARGUMENTS, TPP_RELEASE_V2_6, TPP_RELEASE_23_06, no_context_parallel,
     "context parallelism is there from 0.4 on", "cp", "use one context-parallel rank, or a newer release"},
    {"ML", TPP_RULE_AT_ARGUMENTS, TPP_RELEASE_V2_6, TPP_RELEASE_0_9, context_is_ring,
     "before 0.10 context parallelism is a ring", "cp", "use a ring, or release 0.10 or newer"},
    {"ML-8", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, context_cuts_sequence,
     "context parallelism cuts the sequence into 2 * its size", "sequence cp",
     "use a sequence length that is a multiple of twice the context parallel size"},
    {"ML-92", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_10), hierarchy_given,
     "the context communication a2a+p2p needs hierarchical context parallel sizes", "cp",
     "add --hierarchical-context-parallel-sizes"},
    {"ML-92", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_10), hierarchy_fits,
     "the hierarchical context parallel sizes must multiply to the context parallel size", "cp hierarchical-product",
     "change --hierarchical-context-parallel-sizes"},
    {"ML-93", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_10), context_types_match_layers,
     "a list of --cp-comm-type has one entry for each layer", "context-types layers", "give one type, or one a layer"},
    {"ML-94", TPP_RULE_AT_KERNEL, TPP_RULE_SINCE(0_10), context_type_known,
     "the context communication type must be p2p, a2a, all_gather or a2a+p2p", "", "change --cp-comm-type"},
    {"ML-94", TPP_RULE_AT_KERNEL, TPP_RULE_SINCE(0_10), heads_divide_all_to_all,
     "heads and key/value heads of a tensor-parallel rank must divide by the ranks of the context all-to-all",
     "heads groups tp cp", "use --cp-comm-type p2p or a smaller context parallel size"},
};

static const struct tpp_rule rules[] = {
    {"ML-1", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, world_divides,
     "the number of GPUs must be a multiple of tensor * pipeline * context parallel sizes", "world tp pp cp",
     "choose sizes whose product divides the number of GPUs"},
    {"ML-2", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, expert_world_divides,
     "the GPUs must be cut evenly by expert tensor * expert * pipeline parallel sizes (before 0.10: data parallel by "
     "expert parallel; 0.7: no context parallelism with experts)",
     "world etp ep pp dp", "lower the expert parallel size, or set --expert-tensor-parallel-size 1"},
    {"ML-3", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, batch_divides,
     "the global batch must be a multiple of micro batch * data parallel size, and at least that",
     "global-batch micro-batch dp", "change the global or micro batch size, or the data parallel size"},
    {"ML-3", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_18), eval_batch_divides,
     "the evaluation batch must be a multiple of its micro batch * data parallel size", "eval-batch dp",
     "change --eval-global-batch-size"},
    {"ML-3", TPP_RULE_AT_ARGUMENTS, TPP_RELEASE_V2_6, TPP_RELEASE_0_17, rampup_divides,
     "a batch ramp-up must start at a multiple of micro batch * data parallel size and reach the global batch in whole "
     "increments",
     "rampup-start rampup-increment global-batch micro-batch dp", "change --rampup-batch-size"},
    {"ML-9", TPP_RULE_AT_RUN, TPP_RULE_EVER, sequence_parallel_cuts_sequence,
     "sequence parallelism cuts what context parallelism leaves of the sequence by the tensor parallel size",
     "sequence cp tp", "use a sequence length that divides, or drop --sequence-parallel"},
    {"ML-43", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_10), instances_divide,
     "data * context parallel ranks must be a multiple of the distributed optimizer instances", "dp cp instances",
     "change --num-distributed-optimizer-instances"},
    {"ML-43", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_13), instances_divide_experts,
     "expert data parallel ranks must be a multiple of the distributed optimizer instances", "edp instances",
     "change --num-distributed-optimizer-instances"},
    {"ML-83", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, mapping_agrees,
     "--use-tp-pp-dp-mapping needs the same pipeline groups for experts and for the rest", "tp cp etp ep pp",
     "drop --use-tp-pp-dp-mapping"},
    {"ML", TPP_RULE_AT_ARGUMENTS, TPP_RELEASE_V2_6, TPP_RELEASE_23_06, no_tensor_overlap,
     "--tp-comm-overlap is there from 0.4 on", "tp", "drop the overlap, or use a newer release"},
    {"ML-90", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, overlap_has_sequence_parallel,
     "--tp-comm-overlap needs sequence parallelism and more than one tensor-parallel rank", "tp",
     "add --sequence-parallel, or drop --tp-comm-overlap"},
    {"ML-100", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_19), weight_shards_fit,
     "weight shards must be a multiple of the tensor parallel size and exclude several optimizer instances",
     "tp etp instances", "change --tensor-parallel-num-weight-shards"},
};

const struct tpp_rule_group tpp_rules_megatron_context = TPP_RULE_GROUP(context_rules, uses_context);
const struct tpp_rule_group tpp_rules_megatron_parallel = TPP_RULE_GROUP(rules, NULL);
