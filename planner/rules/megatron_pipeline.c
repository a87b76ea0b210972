/* megatron_pipeline.c - Megatron-LM's rules for layers on stages and for interleaving (ML-12, ML-20 .. ML-27, ML-29 ..
 * ML-31). Layouts written as a string are in megatron_layout.c. */
#include "planner/rules/table.h"

static bool has_ends(const struct tpp_rule_context *c)
{
    return tpp_rule_is_set(c->s->first_stage_layers) || tpp_rule_is_set(c->s->last_stage_layers);
}

static bool accounts(const struct tpp_rule_context *c)
{
    return c->s->account_for_embedding || c->s->account_for_loss;
}

static bool is_plain(const struct tpp_rule_context *c)
{
    return !has_ends(c) && !accounts(c) && c->s->pipeline_layout == NULL;
}

static bool layers_divide(const struct tpp_rule_context *c)
{
    return !is_plain(c) || c->s->num_layers % c->pipeline_parallel == 0;
}

/* Layers a rank split into chunks; for layers-per-stage that is ML-21. */
static bool chunks_divide(const struct tpp_rule_context *c)
{
    if (!is_plain(c) || c->virtual_stages == 0 || !tpp_rule_is_set(c->s->virtual_stages_per_rank))
        return true;
    return c->s->num_layers / c->pipeline_parallel % c->virtual_stages == 0;
}

static bool interleaving_asked(const struct tpp_rule_context *c)
{
    return tpp_rule_is_set(c->s->layers_per_virtual_stage) || tpp_rule_is_set(c->s->virtual_stages_per_rank);
}

static bool enough_stages(const struct tpp_rule_context *c)
{
    if (!interleaving_asked(c))
        return true;
    if (c->release <= TPP_RELEASE_0_7 || !c->s->overlap_p2p)
        return c->pipeline_parallel > 2;
    return c->pipeline_parallel > 1;
}

static bool virtual_stage_divides(const struct tpp_rule_context *c)
{
    int64_t layers = c->s->layers_per_virtual_stage;
    if (!tpp_rule_is_set(layers))
        return true;
    return c->slots % c->pipeline_parallel == 0 && tpp_rule_divides(layers, c->slots / c->pipeline_parallel);
}

/* Megatron-LM takes one of its options. Programs that fill Megatron Core's own configuration may give the chunks of a
 * layout too, and must agree with it. */
static bool one_interleaving(const struct tpp_rule_context *c)
{
    if (c->s->framework != TPP_FRAMEWORK_MEGATRON_LM && c->s->pipeline_layout != NULL)
        return !tpp_rule_is_set(c->s->virtual_stages_per_rank) ||
               c->s->virtual_stages_per_rank == (c->virtual_stages > 0 ? c->virtual_stages : 1);
    int given = tpp_rule_is_set(c->s->layers_per_virtual_stage) + tpp_rule_is_set(c->s->virtual_stages_per_rank) +
                (c->s->pipeline_layout != NULL);
    return given <= 1;
}

/* 0.9 and 0.10 have no interleaving with uneven stages at all, which this covers: they know no other way to ask. */
static bool virtual_stage_without_ends(const struct tpp_rule_context *c)
{
    return !tpp_rule_is_set(c->s->layers_per_virtual_stage) || !has_ends(c);
}

/* Stages and layers that the given first and last stage leave. */
static void middle(const struct tpp_rule_context *c, int64_t *stages, int64_t *layers)
{
    *stages = c->pipeline_parallel;
    *layers = c->s->num_layers;
    if (tpp_rule_is_set(c->s->first_stage_layers)) {
        *stages -= 1;
        *layers -= c->s->first_stage_layers;
    }
    if (tpp_rule_is_set(c->s->last_stage_layers)) {
        *stages -= 1;
        *layers -= c->s->last_stage_layers;
    }
}

static bool ends_divide_into_chunks(const struct tpp_rule_context *c)
{
    int64_t stages, layers, chunks = c->virtual_stages;
    if (chunks == 0 || !has_ends(c))
        return true;
    middle(c, &stages, &layers);
    return (!tpp_rule_is_set(c->s->first_stage_layers) || c->s->first_stage_layers % chunks == 0) &&
           (!tpp_rule_is_set(c->s->last_stage_layers) || c->s->last_stage_layers % chunks == 0) &&
           (stages < 1 || layers / stages % chunks == 0);
}

static bool ends_are_positive(const struct tpp_rule_context *c)
{
    return (!tpp_rule_is_set(c->s->first_stage_layers) || c->s->first_stage_layers > 0) &&
           (!tpp_rule_is_set(c->s->last_stage_layers) || c->s->last_stage_layers > 0);
}

/* 0.11 and 0.12 divide by the number of stages left, which is 0 when two stages are both given. */
static bool middle_divides(const struct tpp_rule_context *c)
{
    int64_t stages, layers;
    if (!has_ends(c))
        return true;
    middle(c, &stages, &layers);
    if (stages >= 1)
        return layers >= 0 && layers % stages == 0;
    return layers == 0 && stages == 0 && c->release != TPP_RELEASE_0_11 && c->release != TPP_RELEASE_0_12;
}

static bool ends_without_accounting(const struct tpp_rule_context *c)
{
    return !has_ends(c) || !accounts(c);
}

static bool slots_divide(const struct tpp_rule_context *c)
{
    if (!accounts(c) || has_ends(c) || c->s->pipeline_layout != NULL)
        return true;
    if (c->release == TPP_RELEASE_0_11 && c->s->account_for_embedding && c->s->account_for_loss &&
        c->pipeline_parallel == 2)
        return false; /* a division by zero in that release */
    return c->slots % c->pipeline_parallel == 0 &&
           (c->virtual_stages == 0 || c->slots / c->pipeline_parallel % c->virtual_stages == 0);
}

/* Interleaving works through groups of N micro-batches (default: one for each stage); a last group that is smaller must
 * still fill the pipeline. Before 0.10 groups have the size of the pipeline. */
static bool micro_batches_fill_groups(const struct tpp_rule_context *c)
{
    int64_t stages = c->pipeline_parallel, batches = c->num_micro_batches;
    if (c->virtual_stages == 0 || stages == 1)
        return true;
    if (c->release < TPP_RELEASE_0_10)
        return batches % stages == 0;
    int64_t group = tpp_rule_is_set(c->s->microbatch_group_size) ? c->s->microbatch_group_size : stages;
    if (group < stages || group > batches)
        return false;
    return batches % group == 0 || batches % group >= stages;
}

static bool warmup_flush_has_interleaving(const struct tpp_rule_context *c)
{
    return !c->s->overlap_p2p_warmup_flush || (c->s->overlap_p2p && c->virtual_stages > 0);
}

static bool deferral_has_pipeline(const struct tpp_rule_context *c)
{
    return !c->s->defer_embedding_wgrad ||
           (c->pipeline_parallel > 1 && c->s->gradient_accumulation_fusion && c->s->wgrad_deferral_limit >= 0);
}

static bool uses_pipeline(const struct tpp_rule_context *c)
{
    return c->pipeline_parallel > 1 || interleaving_asked(c) || has_ends(c) || accounts(c) ||
           c->s->pipeline_layout != NULL || c->s->overlap_p2p_warmup_flush || c->s->defer_embedding_wgrad;
}

static bool no_ends(const struct tpp_rule_context *c)
{
    return !has_ends(c);
}

static bool no_accounting(const struct tpp_rule_context *c)
{
    return !accounts(c);
}

static const struct tpp_rule rules[] = {
    {"ML", TPP_RULE_AT_ARGUMENTS, TPP_RELEASE_V2_6, TPP_RELEASE_0_8, no_ends,
     "layers of the first and last stage can be given from 0.9 on", "first-layers last-layers",
     "use even stages, or release 0.9 or newer"},
    {"ML", TPP_RULE_AT_ARGUMENTS, TPP_RELEASE_V2_6, TPP_RELEASE_0_10, no_accounting,
     "embedding and loss can be counted as layers from 0.11 on", "", "use even stages, or release 0.11 or newer"},
    {"ML-12", TPP_RULE_SILENT, TPP_RELEASE_0_4, TPP_RELEASE_0_9, layers_divide,
     "layers that do not divide by the stages are dropped without a word in this release", "layers pp",
     "use a pipeline size that divides the layers"},
    {"ML-12", TPP_RULE_AT_ARGUMENTS, TPP_RELEASE_V2_6, TPP_RELEASE_23_06, layers_divide,
     "the layers must be a multiple of the stages", "layers pp", "use a pipeline size that divides the layers"},
    {"ML-12", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_10), layers_divide, "the layers must be a multiple of the stages",
     "layers pp", "use a pipeline size that divides the layers, or give uneven stages"},
    {"ML-12", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_11), chunks_divide,
     "the layers of a stage must be a multiple of its virtual stages", "layers pp vp", "change the virtual stages"},
    {"ML-20", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, enough_stages,
     "interleaving needs more than one stage, and more than two without overlapped p2p (or before 0.8)", "pp",
     "use more stages, or drop --no-overlap-p2p-communication"},
    {"ML-21", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, virtual_stage_divides,
     "the layers of a stage must be a multiple of the layers of a virtual stage", "layers pp layers-per-virtual-stage",
     "change --num-layers-per-virtual-pipeline-stage"},
    {"ML-22", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_11), one_interleaving,
     "layers a virtual stage, virtual stages a rank and a pipeline layout exclude each other, or disagree", "",
     "give one of the three"},
    {"ML-23", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_9), virtual_stage_without_ends,
     "--num-layers-per-virtual-pipeline-stage cannot be combined with first or last stage layers", "",
     "use --num-virtual-stages-per-pipeline-rank (0.11 or newer)"},
    {"ML-24", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_11), ends_divide_into_chunks,
     "the layers of the first, the last and every other stage must each be a multiple of the virtual stages",
     "layers first-layers last-layers pp vp", "change the first or last stage, or the virtual stages"},
    {"ML-25", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_9), ends_are_positive,
     "first and last stage must hold at least one layer", "first-layers last-layers", "give a positive number"},
    {"ML-25", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_9), middle_divides,
     "the layers that first and last stage leave must divide evenly by the stages left (0.11, 0.12: not both with two "
     "stages)",
     "layers first-layers last-layers pp", "change the first or last stage"},
    {"ML-26", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_11), ends_without_accounting,
     "first and last stage layers exclude accounting for embedding and loss", "", "give one of the two"},
    {"ML-27", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_11), slots_divide,
     "layers, counted with embedding and loss, must divide by the stages, and those of a stage by the virtual stages "
     "(0.11: not both with two stages)",
     "layers pp vp", "change the stages or drop an account-for switch"},
    {"ML-29", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, micro_batches_fill_groups,
     "interleaving needs micro-batches in groups of at least the number of stages (before 0.10: a multiple of it)",
     "micro-batches group pp", "raise the global batch, or lower the micro batch or the stages"},
    {"ML-30", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_10), warmup_flush_has_interleaving,
     "--overlap-p2p-communication-warmup-flush needs interleaving with overlapped p2p", "vp", "drop it"},
    {"ML-31", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_8), deferral_has_pipeline,
     "--defer-embedding-wgrad-compute needs several stages, gradient accumulation fusion and a limit of 0 or more",
     "pp", "drop it"},
};

const struct tpp_rule_group tpp_rules_megatron_pipeline = TPP_RULE_GROUP(rules, uses_pipeline);
