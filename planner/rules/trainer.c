/* trainer.c - what Transformers cannot run, as far as a plan chooses it: with DeepSpeed (Hugging Face's Trainer,
 * ms-swift's swift sft; DS, launch formats sections 3 and 4), with FSDP (the Trainer under accelerate; AC, section 5),
 * and with its own tensor parallelism (HF). A rule without a number of its own has the letters alone. */
#include "planner/rules/table.h"

static bool model_is_whole(const struct tpp_rule_context *c)
{
    return c->tensor_parallel == 1 && c->pipeline_parallel == 1 && c->s->expert_parallel == 1;
}

static bool sequence_is_whole(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    if (s->context_parallel == 1)
        return true;
    return s->framework == TPP_FRAMEWORK_MS_SWIFT && s->context_types == TPP_RULE_CONTEXT_A2A &&
           s->num_attention_heads % s->context_parallel == 0 && s->sequence_length % s->context_parallel == 0;
}

static bool world_divides(const struct tpp_rule_context *c)
{
    return tpp_rule_divides(c->s->context_parallel, c->s->world_size);
}

static bool batch_divides(const struct tpp_rule_context *c)
{
    const int64_t unit = c->s->micro_batch_size * c->data_parallel;
    return c->global_batch_size >= unit && c->global_batch_size % unit == 0;
}

static bool recomputes_layers(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    return s->recompute == TPP_RULE_GRANULARITY_NONE ||
           (s->recompute == TPP_RULE_GRANULARITY_FULL && s->recompute_method == TPP_RULE_METHOD_UNIFORM &&
            s->recompute_num_layers <= 1);
}

static bool one_precision(const struct tpp_rule_context *c)
{
    return !c->s->fp16 || !c->s->bf16;
}

static bool offload_has_stage(const struct tpp_rule_context *c)
{
    return !c->s->optimizer_cpu_offload || c->s->zero_stage >= 1;
}

static const struct tpp_rule rules[] = {
    {"DS", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, tpp_rule_sums_have_stage,
     "the type that gradients are summed in is chosen with ZeRO alone, and without the pipeline engine", "pp",
     "use ZeRO stage 1 or above and one stage"},
    {"DS", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, model_is_whole,
     "there is no tensor, pipeline or expert parallelism: ZeRO shards instead", "tp pp ep", "raise the ZeRO stage"},
    {"DS", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, sequence_is_whole,
     "a sequence is on one rank, in ms-swift on ranks that divide heads and length (Ulysses)", "cp heads sequence",
     "lower the sequence parallel size"},
    {"DS", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, world_divides,
     "the number of GPUs must be a multiple of the sequence parallel size", "world cp", "change the number of GPUs"},
    {"DS-1", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, batch_divides,
     "the global batch is micro-batch * accumulation * data-parallel ranks", "global-batch micro-batch dp",
     "change the batch"},
    {"DS-2", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, one_precision, "fp16 and bf16 exclude each other", "",
     "drop one of them"},
    {"DS-7", TPP_RULE_AT_RUN, TPP_RULE_EVER, offload_has_stage, "the optimizer is offloaded from ZeRO stage 1 on",
     "zero", "use stage 1, 2 or 3"},
    {"DS", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, recomputes_layers,
     "gradient checkpointing is of every layer, one by one, or of none", "", "use recompute=full or none"},
};

/* Projections are cut by columns whatever the heads, and the pieces are viewed as whole heads in forward: nothing is
 * said when the model is loaded (huggingface/transformers issue 48307). */
static bool heads_are_whole(const struct tpp_rule_context *c)
{
    return c->s->num_attention_heads % c->tensor_parallel == 0 && c->num_query_groups % c->tensor_parallel == 0;
}

static const struct tpp_rule transformers_rules[] = {
    {"HF", TPP_RULE_AT_RUN, TPP_RULE_EVER, heads_are_whole,
     "heads and key/value heads must be multiples of the tensor parallel size: forward fails on pieces of heads",
     "tp heads groups", "lower the tensor parallel size"},
};

const struct tpp_rule_group tpp_rules_trainer = TPP_RULE_GROUP(rules, NULL);
const struct tpp_rule_group tpp_rules_transformers = TPP_RULE_GROUP(transformers_rules, NULL);

/* ---- FSDP, under accelerate ---- */

static bool has_no_stages(const struct tpp_rule_context *c)
{
    return c->pipeline_parallel == 1 && c->s->expert_parallel == 1;
}

static bool sizes_have_version(const struct tpp_rule_context *c)
{
    return c->s->fsdp_version == 2 || (c->tensor_parallel == 1 && c->s->context_parallel == 1);
}

static bool sizes_have_config(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    return !s->no_parallelism_config ||
           (c->tensor_parallel == 1 && s->context_parallel == 1 && !tpp_rule_is_set(s->shard_group));
}

static bool sizes_make_world(const struct tpp_rule_context *c)
{
    return tpp_rule_divides(c->tensor_parallel * c->s->context_parallel, c->s->world_size) &&
           c->data_parallel % c->s->optimizer_instances == 0;
}

/* FSDP's ranks are those of data and context parallelism. */
static bool has_shards(const struct tpp_rule_context *c)
{
    return c->data_parallel * c->s->context_parallel > c->s->optimizer_instances;
}

static bool replicas_have_shards(const struct tpp_rule_context *c)
{
    return c->s->optimizer_instances == 1 || (c->tensor_parallel == 1 && c->s->context_parallel == 1) ||
           c->data_parallel > c->s->optimizer_instances;
}

static bool sequence_is_cut(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    const unsigned others = (unsigned)~(TPP_RULE_CONTEXT_P2P | TPP_RULE_CONTEXT_ALL_GATHER);
    return s->context_parallel == 1 ||
           ((s->context_types & others) == 0 &&
            (s->sequence_length == 0 || s->sequence_length % (2 * s->context_parallel) == 0));
}

static bool sequences_stay_whole(const struct tpp_rule_context *c)
{
    return !c->sequence_parallel;
}

static bool is_sixteen_bits(const struct tpp_rule_context *c)
{
    return c->s->fp8 == TPP_RULE_FP8_NONE;
}

static bool reduces_layers(const struct tpp_rule_context *c)
{
    return !tpp_rule_is_set(c->s->ddp_bucket_size) && !tpp_rule_is_set(c->s->allgather_bucket_size);
}

static bool no_tensor_overlap(const struct tpp_rule_context *c)
{
    return !c->s->tp_comm_overlap;
}

static const struct tpp_rule fsdp_rules[] = {
    {"AC", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, has_no_stages,
     "there is no pipeline or expert parallelism: FSDP shards instead", "pp ep", "lower pp and ep to 1"},
    {"AC", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, sizes_have_version,
     "tensor and context parallelism need fsdp_version 2", "tp cp", "set fsdp_version to 2"},
    {"AC", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, sizes_have_config,
     "parallelism_config (tp, cp, replicas of shards) is there from accelerate 1.10 on", "tp cp instances",
     "shard over all ranks, or use a newer release"},
    {"AC", TPP_RULE_AT_RUN, TPP_RULE_EVER, sizes_make_world,
     "dp_replicate * dp_shard * tp * cp must be the number of processes", "world tp cp", "change the sizes"},
    {"AC", TPP_RULE_AT_RUN, TPP_RULE_EVER, has_shards, "FSDP needs more than one rank to shard over", "dp cp instances",
     "raise dp_shard, or run without FSDP"},
    {"AC", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, replicas_have_shards,
     "tensor or context parallelism with replicas needs dp_shard above 1", "instances tp cp dp", "lower dp_replicate"},
    {"AC", TPP_RULE_AT_RUN, TPP_RULE_EVER, sequence_is_cut,
     "context parallelism rotates or gathers keys, and cuts a sequence into 2 * cp parts", "cp sequence",
     "choose a length that 2 * cp divides"},
    {"AC", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, sequences_stay_whole,
     "tensor parallelism of Transformers has no sequence parallelism", "tp", "switch sequence parallelism off"},
    {"AC", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, batch_divides,
     "the global batch is micro-batch * accumulation * data-parallel ranks", "global-batch micro-batch dp",
     "change the batch"},
    {"AC", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, one_precision, "fp16 and bf16 exclude each other", "",
     "drop one of them"},
    {"AC", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, reduces_layers, "FSDP reduces one layer at a time",
     "bucket gather-bucket", "leave bucket sizes to the framework"},
    {"AC", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, no_tensor_overlap, "tensor-parallel traffic does not overlap", "tp",
     "drop the overlap"},
    {"AC", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, is_sixteen_bits, "plans are for 16 or 32 bits", "", "use bf16"},
    {"AC", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, recomputes_layers,
     "activation checkpointing is of every layer, one by one, or of none", "", "use recompute=full or none"},
};

const struct tpp_rule_group tpp_rules_accelerate = TPP_RULE_GROUP(fsdp_rules, NULL);
