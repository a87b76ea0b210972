/* The memo of measured layers: built and measured once for each set of layer axes. */
#include "costmodel/evaluator.h"
#include "costmodel/sequence_lengths.h"

#include <stdlib.h>
#include <string.h>

/* What selective recomputation runs again. Megatron's layers of its own (not Transformer Engine's) leave a flash kernel out of
 * the checkpoint, and torchtitan keeps single operations instead (4.2 E). */
static uint32_t repeated_modules(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                 enum tpp_layer_kind kind)
{
    const struct tpp_stack *stack = evaluator->stack;
    const bool has_layer = kind == TPP_LAYER_DECODER || kind == TPP_LAYER_MOE ||
                           (kind == TPP_LAYER_HEAD && (evaluator->job->mtp_num_layers > 0 || stack->recomputes_head));
    if (!has_layer || strategy->recompute == TPP_RECOMPUTE_NONE)
        return 0;
    if (strategy->recompute == TPP_RECOMPUTE_FULL) /* of the layers; in the head, of what is marked */
        return kind == TPP_LAYER_HEAD ? TPP_MODULE_WHOLE_LAYER : 0;
    if (stack->framework == TPP_FRAMEWORK_TORCHTITAN)
        return TPP_MODULE_UNSAVED;
    if (strategy->recompute_modules != 0)
        return strategy->recompute_modules;
    const bool repeats_core = stack->attention >= TPP_FLASH_KERNEL_COUNT || stack->transformer_engine;
    return repeats_core ? TPP_MODULE_CORE_ATTENTION : 0;
}

static struct tpp_layer_key make_key(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                     enum tpp_layer_kind kind, enum tpp_layer_passes passes)
{
    struct tpp_layer_key key;
    memset(&key, 0, sizeof(key));
    key.axes.kind = kind;
    key.axes.tensor_parallel = strategy->tensor_parallel;
    key.axes.context_parallel = strategy->context_parallel;
    key.axes.context_kind = strategy->context_parallel > 1 ? strategy->context_kind : TPP_CONTEXT_RING;
    key.axes.ulysses_parallel = key.axes.context_kind == TPP_CONTEXT_HYBRID ? strategy->ulysses_parallel : 0;
    key.axes.micro_batch_size = strategy->micro_batch_size;
    /* The head holds the multi-token-prediction blocks, which have experts as the last layers have. */
    const bool has_mtp = kind == TPP_LAYER_HEAD && evaluator->job->mtp_num_layers > 0;
    const bool has_experts = kind == TPP_LAYER_MOE || (has_mtp && evaluator->model->num_experts > 0);
    key.axes.expert_parallel = has_experts ? strategy->expert_parallel : 1;
    key.axes.expert_tensor_parallel = has_experts ? strategy->expert_tensor_parallel : 1;
    key.axes.sequence_parallel = strategy->sequence_parallel && strategy->tensor_parallel > 1;
    /* With tied embeddings the last of several stages holds its own copy (2.1). */
    key.axes.untied_copy =
        kind == TPP_LAYER_HEAD && (!evaluator->model->tied_embeddings || strategy->pipeline_parallel > 1);
    const bool is_end = kind == TPP_LAYER_EMBEDDING || kind == TPP_LAYER_HEAD;
    key.axes.vocabulary_parallel = is_end ? strategy->vocabulary_parallel : TPP_VOCABULARY_PARALLEL_NONE;
    key.axes.vocabulary_shards = is_end ? tpp_strategy_vocabulary_shards(strategy) : 1;
    key.tensor_comm_overlap = strategy->tp_comm_overlap;
    if (has_experts) {
        key.axes.dispatch = strategy->dispatch;
        key.axes.shared_overlap = strategy->shared_overlap;
        key.expert_overlap = tpp_schedule_pairs_passes(strategy->schedule) ? passes == TPP_PASSES_PAIRED
                                                                           : strategy->expert_overlap;
    }
    key.axes.recompute_modules = repeated_modules(evaluator, strategy, kind);
    key.placed_tensor_ranks = strategy->placed_tensor_ranks_per_node;
    key.placed_context_ranks = strategy->placed_context_ranks_per_node;
    if (tpp_job_pads(evaluator->job)) { /* sharded parameters are gathered, and waited for, in every micro-batch */
        key.waiting_ranks = strategy->data_parallel;
        key.waiting_micro_batches = strategy->zero_stage >= 3 ? 1 : strategy->num_micro_batches;
    }
    return key;
}

static uint64_t hash_key(const struct tpp_layer_key *key)
{
    const uint64_t parts[] = {key->axes.kind,
                              key->axes.tensor_parallel,
                              key->axes.context_parallel,
                              key->axes.ulysses_parallel,
                              key->axes.micro_batch_size,
                              (uint64_t)key->axes.expert_parallel << 32 | key->axes.expert_tensor_parallel,
                              (uint64_t)key->axes.context_kind << 3 | (uint64_t)key->axes.sequence_parallel << 2 |
                                  (uint64_t)key->axes.untied_copy << 1 | (uint64_t)key->tensor_comm_overlap,
                              (uint64_t)key->axes.recompute_modules << 5 | (uint64_t)key->axes.dispatch << 2 |
                                  (uint64_t)key->axes.shared_overlap << 1 | (uint64_t)key->expert_overlap,
                              (uint64_t)key->axes.vocabulary_shards << 2 | (uint64_t)key->axes.vocabulary_parallel,
                              key->placed_tensor_ranks,
                              key->placed_context_ranks,
                              key->waiting_ranks,
                              key->waiting_micro_batches};
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        hash = (hash ^ parts[i]) * UINT64_C(0xbf58476d1ce4e5b9);
        hash ^= hash >> 29;
    }
    return hash;
}

static bool same_key(const struct tpp_layer_key *a, const struct tpp_layer_key *b)
{
    return a->axes.kind == b->axes.kind && a->axes.tensor_parallel == b->axes.tensor_parallel &&
           a->axes.context_parallel == b->axes.context_parallel &&
           a->axes.ulysses_parallel == b->axes.ulysses_parallel &&
           a->axes.expert_parallel == b->axes.expert_parallel &&
           a->axes.expert_tensor_parallel == b->axes.expert_tensor_parallel &&
           a->axes.dispatch == b->axes.dispatch && a->axes.recompute_modules == b->axes.recompute_modules &&
           a->expert_overlap == b->expert_overlap && a->axes.shared_overlap == b->axes.shared_overlap &&
           a->axes.micro_batch_size == b->axes.micro_batch_size && a->axes.context_kind == b->axes.context_kind &&
           a->axes.vocabulary_parallel == b->axes.vocabulary_parallel &&
           a->axes.vocabulary_shards == b->axes.vocabulary_shards &&
           a->axes.sequence_parallel == b->axes.sequence_parallel && a->axes.untied_copy == b->axes.untied_copy &&
           a->tensor_comm_overlap == b->tensor_comm_overlap && a->placed_tensor_ranks == b->placed_tensor_ranks &&
           a->placed_context_ranks == b->placed_context_ranks && a->waiting_ranks == b->waiting_ranks &&
           a->waiting_micro_batches == b->waiting_micro_batches;
}

static struct tpp_memo_entry **find_slot(struct tpp_memo_entry **slots, uint32_t num_slots,
                                         const struct tpp_layer_key *key)
{
    uint32_t i = (uint32_t)hash_key(key) & (num_slots - 1);
    while (slots[i] && !same_key(&slots[i]->key, key))
        i = (i + 1) & (num_slots - 1);
    return &slots[i];
}

static bool grow(struct tpp_evaluator *evaluator)
{
    const uint32_t num_slots = evaluator->num_slots ? evaluator->num_slots * 2 : 256;
    struct tpp_memo_entry **slots = calloc(num_slots, sizeof(*slots));
    if (!slots)
        return false;
    for (uint32_t i = 0; i < evaluator->num_slots; i++)
        if (evaluator->slots[i])
            *find_slot(slots, num_slots, &evaluator->slots[i]->key) = evaluator->slots[i];
    free(evaluator->slots);
    evaluator->slots = slots;
    evaluator->num_slots = num_slots;
    return true;
}

static struct tpp_group context_group(const struct tpp_evaluator *evaluator, const struct tpp_layer_key *key,
                                      uint32_t size, uint32_t stride)
{
    if (key->placed_context_ranks > 0)
        return tpp_group_place_by_hand(size, key->placed_context_ranks);
    return tpp_group_place(size, stride, evaluator->hardware->node.num_gpus);
}

static struct tpp_timing make_timing(const struct tpp_evaluator *evaluator, const struct tpp_layer_key *key)
{
    const struct tpp_layer_axes *axes = &key->axes;
    const uint32_t t = axes->tensor_parallel, c = axes->context_parallel;
    const uint32_t u = axes->context_kind == TPP_CONTEXT_ULYSSES  ? c
                       : axes->context_kind == TPP_CONTEXT_HYBRID ? axes->ulysses_parallel
                                                                  : 1;
    return (struct tpp_timing){
        .gpu = &evaluator->hardware->gpu,
        .links = &evaluator->tensor_links,
        .context_links = &evaluator->links,
        .overlap_slowdown_fraction = evaluator->hardware->overlap_slowdown_fraction,
        .memory_bound_factor = evaluator->stack->memory_bound_factor,
        .tensor_group = key->placed_tensor_ranks > 0
                            ? tpp_group_place_by_hand(t, key->placed_tensor_ranks)
                            : tpp_group_place(t, 1, evaluator->hardware->node.num_gpus),
        .ulysses_group = context_group(evaluator, key, u, t),
        .context_group = context_group(evaluator, key, axes->context_kind == TPP_CONTEXT_HYBRID ? c / u : c,
                                       axes->context_kind == TPP_CONTEXT_HYBRID ? t * u : t),
        .expert_group = tpp_group_place(axes->expert_parallel, axes->expert_tensor_parallel,
                                        evaluator->hardware->node.num_gpus),
        .expert_tensor_group = tpp_group_place(axes->expert_tensor_parallel, 1, evaluator->hardware->node.num_gpus),
        .tensor_comm_overlap = key->tensor_comm_overlap,
        .expert_overlap = key->expert_overlap,
        .launch_blocking = evaluator->stack->launch_blocking,
    };
}

/* The program of what a rank computes: padded sequences are shorter than the job's, on average. */
static void build_timed(struct tpp_evaluator *evaluator, const struct tpp_layer_key *key)
{
    const struct tpp_job *job = evaluator->job;
    if (tpp_job_pads(job)) {
        const struct tpp_job padded =
            tpp_padded_job(job, key->axes.micro_batch_size, key->waiting_ranks, key->waiting_micro_batches);
        tpp_program_build(evaluator->model, &padded, evaluator->stack, &key->axes, &evaluator->program);
        return;
    }
    tpp_program_build(evaluator->model, job, evaluator->stack, &key->axes, &evaluator->program);
}

static void measure(struct tpp_evaluator *evaluator, struct tpp_memo_entry *entry)
{
    struct tpp_timing timing = make_timing(evaluator, &entry->key);
    build_timed(evaluator, &entry->key);
    tpp_timing_overlap_experts(&evaluator->program, &timing);
    tpp_layer_measure(&evaluator->program, &timing, &entry->layer);
    if (tpp_job_pads(evaluator->job)) { /* memory is that of the longest */
        struct tpp_layer longest;
        tpp_program_build(evaluator->model, evaluator->job, evaluator->stack, &entry->key.axes, &evaluator->program);
        tpp_layer_measure(&evaluator->program, &timing, &longest);
        memcpy(entry->layer.bytes, longest.bytes, sizeof longest.bytes);
    }
}

const struct tpp_program *tpp_evaluator_program(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                                enum tpp_layer_kind kind, enum tpp_layer_passes passes,
                                                struct tpp_timing *timing)
{
    const struct tpp_layer_key key = make_key(evaluator, strategy, kind, passes);
    *timing = make_timing(evaluator, &key);
    build_timed(evaluator, &key);
    tpp_timing_overlap_experts(&evaluator->program, timing);
    return &evaluator->program;
}

const struct tpp_layer *tpp_evaluator_layer(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                            enum tpp_layer_kind kind, enum tpp_layer_passes passes)
{
    const struct tpp_layer_key key = make_key(evaluator, strategy, kind, passes);
    if (evaluator->num_entries * 2 >= evaluator->num_slots && !grow(evaluator))
        return NULL;
    struct tpp_memo_entry **slot = find_slot(evaluator->slots, evaluator->num_slots, &key);
    if (!*slot) {
        struct tpp_memo_entry *entry = malloc(sizeof(*entry));
        if (!entry)
            return NULL;
        entry->key = key;
        measure(evaluator, entry);
        *slot = entry;
        evaluator->num_entries++;
    }
    return &(*slot)->layer;
}
