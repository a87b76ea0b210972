/* What no framework can run (cost-model 1.1 and 2.6). Rules of one framework and release are the planner's. The search
 * calls this for every candidate: the way to TPP_OK formats nothing. */
#include "costmodel/strategy.h"

#include <stddef.h>

static enum tpp_code check_enums(const struct tpp_strategy *s, struct tpp_error *err)
{
    if (tpp_recompute_name(s->recompute) == NULL || (unsigned)s->recompute_method > TPP_RECOMPUTE_BLOCK) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.recompute", NULL, "unknown recomputation %d, method %d",
                        (int)s->recompute, (int)s->recompute_method);
    }
    if (tpp_schedule_name(s->schedule) == NULL) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.schedule", NULL, "unknown schedule %d", (int)s->schedule);
    }
    if (tpp_context_kind_name(s->context_kind) == NULL) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.context_kind", NULL, "unknown kind of context parallelism %d",
                        (int)s->context_kind);
    }
    if (tpp_dispatch_name(s->dispatch) == NULL) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.dispatch", NULL, "unknown kind of dispatch %d", (int)s->dispatch);
    }
    if ((unsigned)s->offload > TPP_OFFLOAD_OPTIMIZER) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.offload", NULL, "unknown kind of offload %d", (int)s->offload);
    }
    if (tpp_vocabulary_parallel_name(s->vocabulary_parallel) == NULL) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.vocabulary_parallel", NULL,
                        "unknown kind of vocabulary parallelism %d", (int)s->vocabulary_parallel);
    }
    return TPP_OK;
}

/* The published pipelines of this kind: 1F1B, a head of its own (arguments.py of sail-sg/VocabularyParallelism). */
static enum tpp_code check_vocabulary(const struct tpp_strategy *s, const struct tpp_model *model,
                                      const struct tpp_job *job, struct tpp_error *err)
{
    static const char where[] = "strategy.vocabulary_parallel";
    if (s->vocabulary_parallel == TPP_VOCABULARY_PARALLEL_NONE) {
        return TPP_OK;
    }
    if (s->pipeline_parallel == 1 || s->schedule != TPP_SCHEDULE_1F1B) {
        return tpp_fail(err, TPP_E_STRATEGY, where, "set pp above 1 and schedule=1f1b, or drop vocab_parallel",
                        "vocabulary layers shared by the stages need pp > 1 and 1f1b");
    }
    if (s->zero_stage > 1) {
        return tpp_fail(err, TPP_E_STRATEGY, where, "set zero to 0 or 1, or drop vocab_parallel",
                        "vocabulary layers shared by the stages need whole weights and gradients on every rank");
    }
    if (model->tied_embeddings || job->mtp_num_layers > 0) {
        return tpp_fail(err, TPP_E_STRATEGY, where, "drop vocab_parallel",
                        "vocabulary layers shared by the stages need untied embeddings and no prediction blocks");
    }
    return TPP_OK;
}

/* One of two sizes is a multiple of the other: heads are either shared out or copied whole. */
static bool is_shared_or_copied(uint64_t num_heads, uint64_t ranks)
{
    return num_heads >= ranks ? num_heads % ranks == 0 : ranks % num_heads == 0;
}

static bool has_key_value_heads(const struct tpp_model *model)
{
    return model->kv_lora_rank == 0 && model->num_query_groups > 0;
}

static enum tpp_code check_tensor(const struct tpp_strategy *s, const struct tpp_model *model, struct tpp_error *err)
{
    static const char where[] = "strategy.tensor_parallel";
    const uint32_t t = s->tensor_parallel;
    if (model->num_attention_heads % t != 0) {
        return tpp_fail(err, TPP_E_STRATEGY, where, "choose a size that divides the heads",
                        "%u attention heads do not divide by tp = %u", model->num_attention_heads, t);
    }
    if (has_key_value_heads(model) && !is_shared_or_copied(model->num_query_groups, t)) {
        return tpp_fail(err, TPP_E_STRATEGY, where, "choose a divisor or a multiple of the key/value heads",
                        "%u key/value heads can neither be shared out nor copied over tp = %u", model->num_query_groups,
                        t);
    }
    if (model->ffn_hidden_size % t != 0) {
        return tpp_fail(err, TPP_E_STRATEGY, where, "choose a size that divides the FFN",
                        "an FFN of %u does not divide by tp = %u", model->ffn_hidden_size, t);
    }
    if (model->shared_expert_hidden_size % t != 0) {
        return tpp_fail(err, TPP_E_STRATEGY, where, "choose a size that divides the shared expert",
                        "a shared expert of %u does not divide by tp = %u", model->shared_expert_hidden_size, t);
    }
    if (s->tp_comm_overlap && !s->sequence_parallel) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.tp_comm_overlap", "set sp=1, or drop tp_overlap",
                        "overlapped tensor-parallel communication needs sequence parallelism");
    }
    return TPP_OK;
}

static enum tpp_code check_sequence_parallel(const struct tpp_strategy *s, const struct tpp_job *job,
                                             struct tpp_error *err)
{
    if (!s->sequence_parallel) {
        return TPP_OK;
    }
    if (s->tensor_parallel == 1) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.sequence_parallel", "set sp=0, or tp above 1",
                        "sequence parallelism needs tp > 1");
    }
    if (job->sequence_length / s->context_parallel % s->tensor_parallel != 0) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.sequence_parallel", "pad the sequence, or set sp=0",
                        "%llu tokens / cp %u do not divide by tp = %u, as sequence parallelism needs",
                        (unsigned long long)job->sequence_length, s->context_parallel, s->tensor_parallel);
    }
    return TPP_OK;
}

/* Heads over the ranks of an all-to-all: a % (t u) == 0, and kv % (t u) == 0 unless key/value heads are copied. */
static enum tpp_code check_ulysses(const struct tpp_strategy *s, const struct tpp_model *model, uint32_t u,
                                   struct tpp_error *err)
{
    const uint64_t ranks = (uint64_t)s->tensor_parallel * u;
    if (model->num_attention_heads % ranks != 0) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.context_parallel", "choose a smaller size, or cp_kind=ring",
                        "%u attention heads do not divide by tp * ulysses = %u * %u", model->num_attention_heads,
                        s->tensor_parallel, u);
    }
    if (has_key_value_heads(model) && !is_shared_or_copied(model->num_query_groups, ranks)) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.context_parallel", "choose a smaller size, or cp_kind=ring",
                        "%u key/value heads can neither be shared out nor copied over tp * ulysses = %u * %u",
                        model->num_query_groups, s->tensor_parallel, u);
    }
    return TPP_OK;
}

static enum tpp_code check_hybrid_size(const struct tpp_strategy *s, struct tpp_error *err)
{
    const uint32_t c = s->context_parallel, u = s->ulysses_parallel;
    if (s->context_kind != TPP_CONTEXT_HYBRID && u != 0) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.ulysses_parallel", "set cp_kind=hybrid, or drop ulysses",
                        "an all-to-all of %u ranks belongs to hybrid context parallelism only", u);
    }
    if (s->context_kind == TPP_CONTEXT_HYBRID && (u < 1 || c % u != 0)) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.ulysses_parallel", "give ulysses=U with U dividing cp",
                        "hybrid context parallelism of %u ranks cannot have an all-to-all of %u", c, u);
    }
    return TPP_OK;
}

static enum tpp_code check_context(const struct tpp_strategy *s, const struct tpp_model *model,
                                   const struct tpp_job *job, struct tpp_error *err)
{
    const uint32_t c = s->context_parallel;
    enum tpp_code code = check_hybrid_size(s, err);
    if (code != TPP_OK || c == 1) {
        return code;
    }
    /* The balanced causal split gives each rank one chunk of the front half and its mirror image. */
    const uint64_t parts = s->context_kind == TPP_CONTEXT_ULYSSES ? c : UINT64_C(2) * c;
    if (job->sequence_length % parts != 0) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.context_parallel", "pad the sequence, or choose a smaller size",
                        "a sequence of %llu tokens does not divide into %llu parts for cp = %u",
                        (unsigned long long)job->sequence_length, (unsigned long long)parts, c);
    }
    if (s->context_kind == TPP_CONTEXT_ULYSSES) {
        return check_ulysses(s, model, c, err);
    }
    if (s->context_kind == TPP_CONTEXT_HYBRID) {
        return check_ulysses(s, model, s->ulysses_parallel, err);
    }
    return TPP_OK;
}

/* Rings, gathers and head swaps are built around flash kernels: none of the frameworks cuts an unfused softmax. */
static enum tpp_code check_context_kernel(const struct tpp_strategy *s, const struct tpp_stack *stack,
                                          struct tpp_error *err)
{
    if (s->context_parallel > 1 && stack->attention >= TPP_FLASH_KERNEL_COUNT) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.context_parallel", "set cp=1, or choose a flash kernel",
                        "cp = %u needs a flash attention kernel, not %s", s->context_parallel,
                        tpp_attention_kernel_name(stack->attention));
    }
    return TPP_OK;
}

static enum tpp_code check_experts(const struct tpp_strategy *s, const struct tpp_model *model,
                                   const struct tpp_job *job, struct tpp_error *err)
{
    static const char where[] = "strategy.expert_parallel";
    const uint32_t e = s->expert_parallel, et = s->expert_tensor_parallel;
    if (s->expert_overlap && e == 1) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.expert_overlap", "set ep above 1, or drop ep_overlap",
                        "there is no dispatch to overlap with ep = 1");
    }
    if (s->dispatch == TPP_DISPATCH_ALL_GATHER && (s->expert_overlap || s->shared_overlap)) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.dispatch", "choose another dispatch, or drop the overlap",
                        "all-gathers of tokens run beside nothing");
    }
    if (s->shared_overlap && (e == 1 || model->shared_expert_hidden_size == 0)) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.shared_overlap", "drop shared_overlap",
                        e == 1 ? "there is no dispatch to overlap with ep = 1" : "the model has no shared experts");
    }
    if (s->shared_overlap && s->recompute_modules & TPP_MODULE_SHARED_EXPERTS) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.shared_overlap", "recompute other modules, or drop shared_overlap",
                        "shared experts that run beside the dispatch are not recomputed by themselves");
    }
    if (s->shared_overlap && s->expert_overlap) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.shared_overlap", "drop one of shared_overlap and ep_overlap",
                        "dispatch and combine cannot run beside both the shared experts and another micro-batch");
    }
    if (model->num_experts == 0) {
        if (e > 1 || (et > 1 && et != s->tensor_parallel)) {
            return tpp_fail(err, TPP_E_STRATEGY, where, "set ep=1 and drop etp",
                            "ep = %u, etp = %u, but the model has no experts", e, et);
        }
        return TPP_OK;
    }
    if (model->num_experts % e != 0) {
        return tpp_fail(err, TPP_E_STRATEGY, where, "choose a size that divides the experts",
                        "%u experts do not divide by ep = %u", model->num_experts, e);
    }
    const uint32_t stage_ranks = job->num_gpus / s->pipeline_parallel;
    if (stage_ranks % ((uint64_t)e * et) != 0) {
        return tpp_fail(err, TPP_E_STRATEGY, where, "choose ep * etp that divides the GPUs of a stage",
                        "the %u GPUs of a pipeline stage do not divide by ep * etp = %u * %u", stage_ranks, e, et);
    }
    if (model->moe_ffn_hidden_size % et != 0) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.expert_tensor_parallel",
                        "choose a size that divides the expert's FFN",
                        "an expert FFN of %u does not divide by etp = %u", model->moe_ffn_hidden_size, et);
    }
    return TPP_OK;
}

static bool has_stage_counts(const struct tpp_strategy *s)
{
    return s->first_stage_layers > 0 || s->last_stage_layers > 0;
}

/* Explicit counts on the first and last stage; what is left must divide over the stages between (launch-formats ML-24,
 * ML-25). */
static enum tpp_code check_stage_counts(const struct tpp_strategy *s, uint32_t num_layers, struct tpp_error *err)
{
    static const char where[] = "strategy.first_stage_layers";
    const uint32_t p = s->pipeline_parallel, v = s->virtual_pipeline_stages;
    const uint32_t given = (s->first_stage_layers > 0) + (s->last_stage_layers > 0);
    const uint64_t taken = (uint64_t)s->first_stage_layers + s->last_stage_layers;
    if (given > p || taken > num_layers) {
        return tpp_fail(err, TPP_E_STRATEGY, where, "give counts that leave layers for the other stages",
                        "first and last stage counts of %u and %u do not fit %u layers on %u stages",
                        s->first_stage_layers, s->last_stage_layers, num_layers, p);
    }
    const uint32_t left = num_layers - (uint32_t)taken, stages = p - given;
    if (stages == 0 ? left != 0 : left % stages != 0) {
        return tpp_fail(err, TPP_E_STRATEGY, where, "choose counts that leave a multiple of the other stages",
                        "%u layers left after the first and last stage do not divide over %u stages", left, stages);
    }
    if (s->first_stage_layers % v != 0 || s->last_stage_layers % v != 0 || (stages > 0 && left / stages % v != 0)) {
        return tpp_fail(err, TPP_E_STRATEGY, where, "choose counts that are multiples of vp",
                        "stages of %u, %u and %u layers do not all divide into vp = %u chunks", s->first_stage_layers,
                        stages > 0 ? left / stages : 0, s->last_stage_layers, v);
    }
    return TPP_OK;
}

static enum tpp_code check_balanced_split(const struct tpp_strategy *s, uint32_t num_layers, struct tpp_error *err)
{
    if (s->virtual_pipeline_stages > 1 || s->account_for_embedding || s->account_for_loss || s->last_chunk_less > 0 ||
        has_stage_counts(s)) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.balanced_split",
                        "drop balanced_split or the other split options",
                        "a balanced split excludes vp > 1, stage counts and counting embedding or loss as layers");
    }
    if (num_layers < s->pipeline_parallel) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.pipeline_parallel", "choose fewer stages",
                        "%u layers cannot fill %u stages", num_layers, s->pipeline_parallel);
    }
    return TPP_OK;
}

static enum tpp_code check_layers(const struct tpp_strategy *s, const struct tpp_model *model, struct tpp_error *err)
{
    const uint32_t num_layers = model->num_layers, p = s->pipeline_parallel, v = s->virtual_pipeline_stages;
    if (s->balanced_split) {
        return check_balanced_split(s, num_layers, err);
    }
    if (s->last_chunk_less > 0 && (s->account_for_loss || s->last_chunk_less > num_layers)) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.last_chunk_less", "use account_loss or last_chunk_less",
                        "a last chunk of %u layers less than the others, of %u", s->last_chunk_less, num_layers);
    }
    const uint32_t extra = s->account_for_embedding + s->account_for_loss + s->last_chunk_less;
    if (has_stage_counts(s)) {
        if (extra > 0) {
            return tpp_fail(err, TPP_E_STRATEGY, "strategy.first_stage_layers", "use one of the two",
                            "first and last stage counts exclude counting embedding or loss as layers");
        }
        return check_stage_counts(s, num_layers, err);
    }
    if ((num_layers + extra) % (p * v) != 0) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.pipeline_parallel",
                        "choose sizes that divide the layers, or give first_layers and last_layers",
                        "%u layers%s do not divide by pp * vp = %u * %u", num_layers + extra,
                        extra > 0 ? " (embedding or loss counted)" : "", p, v);
    }
    if ((num_layers + extra) / (p * v) < s->last_chunk_less) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.last_chunk_less", "take fewer layers off the last chunk",
                        "chunks of %u layers cannot lose %u", (num_layers + extra) / (p * v), s->last_chunk_less);
    }
    return TPP_OK;
}

/* Two chunks a stage, and layers that are the same number in all of them. */
static enum tpp_code check_v_shape(const struct tpp_strategy *s, struct tpp_error *err)
{
    if (s->virtual_pipeline_stages != 2) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.schedule", "set vp=2", "schedule %s with vp = %u",
                        tpp_schedule_name(s->schedule), s->virtual_pipeline_stages);
    }
    if (has_stage_counts(s) || s->account_for_embedding || s->account_for_loss || s->last_chunk_less > 0 ||
        s->balanced_split) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.schedule", "drop the split options",
                        "schedule %s has the first and the last layers on one stage and takes no uneven split",
                        tpp_schedule_name(s->schedule));
    }
    return TPP_OK;
}

/* Passes in pairs: every chunk needs as many micro-batches as there are chunks on the way of one (dualpipe: half of them go
 * each way), and the two copies of a sharded layer would be gathered at different times. */
static enum tpp_code check_paired_passes(const struct tpp_strategy *s, struct tpp_error *err)
{
    const uint32_t p = s->pipeline_parallel, copies = tpp_schedule_model_copies(s->schedule);
    if (p % copies != 0 || s->num_micro_batches % copies != 0 || s->num_micro_batches < 2 * (uint64_t)p) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.num_micro_batches",
                        copies == 2 ? "take an even number of stages, and an even number of micro-batches of at least "
                                      "twice as many"
                                    : "take at least twice as many micro-batches as stages",
                        "schedule %s cannot run %llu micro-batches on %u stages", tpp_schedule_name(s->schedule),
                        (unsigned long long)s->num_micro_batches, p);
    }
    if (copies == 2 && s->zero_stage > 1) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.zero_stage", "set zero to 0 or 1",
                        "schedule %s holds two copies of the model, whose gradients and weights cannot be sharded: "
                        "they are in use at different times",
                        tpp_schedule_name(s->schedule));
    }
    return TPP_OK;
}

/* Interleaving: p > 1, and groups of p <= N <= m micro-batches; what is left for the last group still fills the pipeline, which
 * is never so with N = p. */
static enum tpp_code check_schedule(const struct tpp_strategy *s, struct tpp_error *err)
{
    const uint32_t p = s->pipeline_parallel, v = s->virtual_pipeline_stages;
    const bool is_interleaved = s->schedule == TPP_SCHEDULE_INTERLEAVED;
    if (tpp_schedule_is_v_shaped(s->schedule)) {
        const enum tpp_code code = check_v_shape(s, err);
        return code == TPP_OK && tpp_schedule_pairs_passes(s->schedule) ? check_paired_passes(s, err) : code;
    }
    if (is_interleaved != (v > 1)) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.schedule", "interleaving and vp > 1 go together",
                        "schedule %s with vp = %u", tpp_schedule_name(s->schedule), v);
    }
    const uint32_t group = s->microbatch_group_size;
    if (group > 0 && (!is_interleaved || group < p || group > s->num_micro_batches)) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.microbatch_group_size",
                        "drop vp_group, or choose a size from pp to the number of micro-batches with vp > 1",
                        "groups of %u micro-batches on %u stages of %u chunks, of %llu micro-batches", group, p, v,
                        (unsigned long long)s->num_micro_batches);
    }
    if (!is_interleaved) {
        return tpp_schedule_pairs_passes(s->schedule) ? check_paired_passes(s, err) : TPP_OK;
    }
    if (p == 1) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.virtual_pipeline_stages", "set vp=1, or pp above 1",
                        "interleaving needs pp > 1");
    }
    if (group > 0) {
        const uint64_t left = s->num_micro_batches % group;
        if (left != 0 && left < p) {
            return tpp_fail(err, TPP_E_STRATEGY, "strategy.microbatch_group_size",
                            "choose a size that divides the micro-batches, or leaves at least pp of them",
                            "groups of %u leave %llu of %llu micro-batches, fewer than the %u stages", group,
                            (unsigned long long)left, (unsigned long long)s->num_micro_batches, p);
        }
        return TPP_OK;
    }
    if (s->num_micro_batches < p || s->num_micro_batches % p != 0) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.num_micro_batches",
                        "choose a micro-batch size that gives a multiple of pp micro-batches, or vp=1",
                        "interleaving over pp = %u needs a multiple of it, not %llu micro-batches", p,
                        (unsigned long long)s->num_micro_batches);
    }
    return TPP_OK;
}

static const char *zero_refusal(const struct tpp_strategy *s, enum tpp_engine engine)
{
    switch (engine) {
    case TPP_ENGINE_MEGATRON:
        return s->zero_stage > 1 ? "Megatron's distributed optimizer is ZeRO stage 1; use an FSDP engine for stage 3"
                                 : NULL;
    case TPP_ENGINE_DEEPSPEED:
        return s->zero_stage > 1 && s->pipeline_parallel > 1 ? "with pipeline parallelism DeepSpeed has stages 0 and 1"
                                                             : NULL;
    case TPP_ENGINE_DEEPSPEED_PIPELINE:
        return s->zero_stage > 1 ? "the DeepSpeed pipeline engine has stages 0 and 1" : NULL;
    case TPP_ENGINE_FSDP1:
    case TPP_ENGINE_FSDP2:
        return s->zero_stage != 3 ? "FSDP is stage 3; reshard=0 keeps the weights gathered for backward" : NULL;
    case TPP_ENGINE_DDP:
        return s->zero_stage != 0 ? "DistributedDataParallel shards nothing: stage 0" : NULL;
    default:
        return "unknown engine";
    }
}

static enum tpp_code check_sharding(const struct tpp_strategy *s, const struct tpp_stack *stack, struct tpp_error *err)
{
    if (s->zero_stage > 3) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.zero_stage", "choose 0, 1, 2 or 3", "there is no ZeRO stage %u",
                        s->zero_stage);
    }
    const char *refusal = zero_refusal(s, stack->engine);
    if (refusal != NULL) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.zero_stage", refusal,
                        "ZeRO stage %u does not run on this engine", s->zero_stage);
    }
    const uint64_t replicas = (uint64_t)s->data_parallel * s->context_parallel;
    if (s->shard_group > 0 && (s->zero_stage == 0 || replicas % s->shard_group != 0)) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.shard_group", "choose a divisor of dp * cp, with zero above 0",
                        "ZeRO stage %u over %llu ranks cannot shard over groups of %u", s->zero_stage,
                        (unsigned long long)replicas, s->shard_group);
    }
    if (s->offload == TPP_OFFLOAD_OPTIMIZER && s->zero_stage == 0) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.offload", "set zero to 1 or more",
                        "optimizer offload needs a sharded optimizer");
    }
    return TPP_OK;
}

static enum tpp_code check_offload(const struct tpp_strategy *s, const struct tpp_model *model, struct tpp_error *err)
{
    if (s->offload_percent > 100 || (s->offload_percent > 0 && s->offload != TPP_OFFLOAD_OPTIMIZER)) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.offload_percent", "give 1 to 100, with offload=optimizer",
                        "%u %% of the optimizer cannot be offloaded", s->offload_percent);
    }
    if (s->offload_layers > 0 && s->pipeline_parallel > 1) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.offload_layers", "set pp=1, or drop offload_layers",
                        "activations of single layers are offloaded with one stage only, not %u", s->pipeline_parallel);
    }
    if (s->offload_layers >= model->num_layers && s->offload_layers > 0) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.offload_layers", "offload fewer layers than the model has",
                        "%u layers of %u cannot be offloaded", s->offload_layers, model->num_layers);
    }
    return TPP_OK;
}

static enum tpp_code check_recompute(const struct tpp_strategy *s, struct tpp_error *err)
{
    if (s->recompute != TPP_RECOMPUTE_FULL &&
        (s->recompute_num_layers > 0 || s->recompute_method != TPP_RECOMPUTE_UNIFORM)) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.recompute_num_layers", "set recompute=full, or drop them",
                        "a method or a number of layers belongs to full recomputation only");
    }
    if (s->recompute_modules > TPP_MODULE_ALL || (s->recompute_modules != 0 && s->recompute != TPP_RECOMPUTE_SELECTIVE)) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.recompute_modules", "set recompute=selective, or drop them",
                        "a list of modules belongs to selective recomputation only");
    }
    return TPP_OK;
}

static enum tpp_code check_placement(const struct tpp_strategy *s, struct tpp_error *err)
{
    if (s->placed_tensor_ranks_per_node > 0 && s->tensor_parallel % s->placed_tensor_ranks_per_node != 0) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.placed_tensor_ranks_per_node", "give a divisor of tp",
                        "tp = %u cannot be placed %u ranks to a node", s->tensor_parallel,
                        s->placed_tensor_ranks_per_node);
    }
    if (s->placed_context_ranks_per_node > 0 && s->context_parallel % s->placed_context_ranks_per_node != 0) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.placed_context_ranks_per_node", "give a divisor of cp",
                        "cp = %u cannot be placed %u ranks to a node", s->context_parallel,
                        s->placed_context_ranks_per_node);
    }
    return TPP_OK;
}

/* The sizes multiply to the job: what tpp_strategy_complete makes true, on a copy so that this call changes nothing. */
static enum tpp_code check_complete(const struct tpp_strategy *s, const struct tpp_job *job, struct tpp_error *err)
{
    struct tpp_strategy copy = *s;
    if (s->data_parallel == 0 || s->num_micro_batches == 0) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.data_parallel", "complete the strategy first",
                        "dp = %u with %llu micro-batches is not a complete strategy", s->data_parallel,
                        (unsigned long long)s->num_micro_batches);
    }
    return tpp_strategy_complete(&copy, job, err);
}

enum tpp_code tpp_strategy_check(const struct tpp_strategy *strategy, const struct tpp_model *model,
                                 const struct tpp_job *job, const struct tpp_stack *stack, struct tpp_error *err)
{
    enum tpp_code code;
    if ((code = check_enums(strategy, err)) != TPP_OK || (code = check_complete(strategy, job, err)) != TPP_OK ||
        (code = check_tensor(strategy, model, err)) != TPP_OK ||
        (code = check_context(strategy, model, job, err)) != TPP_OK ||
        (code = check_context_kernel(strategy, stack, err)) != TPP_OK ||
        (code = check_sequence_parallel(strategy, job, err)) != TPP_OK ||
        (code = check_experts(strategy, model, job, err)) != TPP_OK ||
        (code = check_layers(strategy, model, err)) != TPP_OK || (code = check_schedule(strategy, err)) != TPP_OK ||
        (code = check_vocabulary(strategy, model, job, err)) != TPP_OK ||
        (code = check_sharding(strategy, stack, err)) != TPP_OK ||
        (code = check_offload(strategy, model, err)) != TPP_OK || (code = check_recompute(strategy, err)) != TPP_OK) {
        return code;
    }
    return check_placement(strategy, err);
}
