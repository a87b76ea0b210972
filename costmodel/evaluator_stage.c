/* Stages of one strategy: what the measured layers add up to on one rank of each (cost-model 8.2 "uneven stages", 9.1, 9.2). */
#include "costmodel/evaluator.h"

#include <math.h>
#include <string.h>

/* Interleaved schedules overlap their transfers; this much of each still occupies the device (7 "PP"). */
static const double overlapped_send_fraction = 0.15;

/* 1F1B and GPipe exchange with a neighbour while both wait, once above and once below in every micro-batch of an inner
 * stage: the transfer is on the device of each, and starts when the later one comes to it. Nothing is on the way before that.
 * Megatron-LM sends and receives in one batch (p2p_communication.py, _batched_p2p_ops): an exchange takes Tc. DeepSpeed's
 * pipeline sends, then receives, each call waiting for the other side (runtime/pipe/p2p.py, send and recv; the pipelines
 * derived from it too, as Aleph-Alpha/scaling's communicator.py): 2 Tc. Schedules that split backward send asynchronously. */
static double exchange_fraction(const struct tpp_strategy *strategy, const struct tpp_stack *stack)
{
    const bool in_place = strategy->schedule == TPP_SCHEDULE_INTERLEAVED
                              ? !stack->overlap_p2p
                              : strategy->schedule == TPP_SCHEDULE_1F1B || strategy->schedule == TPP_SCHEDULE_GPIPE;
    return !in_place ? overlapped_send_fraction : tpp_engine_is_deepspeed(stack->engine) ? 2 : 1;
}

/* Activations between stages travel in t parts when the ranks of tensor parallelism have a part each. */
static bool cuts_messages(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy)
{
    return strategy->tensor_parallel > 1 && (strategy->sequence_parallel || evaluator->stack->scatter_gather);
}

double tpp_stage_send_bytes(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                            const struct tpp_assembly *assembly)
{
    return (double)evaluator->stack->weight_bytes * assembly->decoder->tokens * evaluator->model->hidden_size /
           (cuts_messages(evaluator, strategy) ? strategy->tensor_parallel : 1);
}

bool tpp_stages_leave_leaf(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy, uint32_t lower,
                           uint32_t upper)
{
    const uint64_t ranks = evaluator->job->num_gpus / strategy->pipeline_parallel;
    const uint64_t leaf_ranks = (uint64_t)evaluator->links.nodes_per_leaf * evaluator->hardware->node.num_gpus;
    return leaf_ranks > 0 && lower * ranks / leaf_ranks != ((upper + 1) * ranks - 1) / leaf_ranks;
}

double tpp_stage_send_seconds(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                              const struct tpp_assembly *assembly, bool leaves_leaf)
{
    const uint32_t gpus = evaluator->hardware->node.num_gpus;
    if (strategy->pipeline_parallel <= 1)
        return 0;
    const double bytes = tpp_stage_send_bytes(evaluator, strategy, assembly);
    const double stage_nodes = (double)evaluator->job->num_gpus / strategy->pipeline_parallel / gpus;
    const double load = leaves_leaf ? tpp_stage_uplink_load(&evaluator->links, stage_nodes) : 1;
    double seconds = tpp_send_recv_seconds(&evaluator->links, evaluator->job->num_gpus > gpus, load, bytes);
    if (cuts_messages(evaluator, strategy) && !strategy->sequence_parallel) {
        const struct tpp_group group = tpp_group_place(strategy->tensor_parallel, 1, gpus);
        seconds += tpp_collective_seconds(&evaluator->tensor_links, TPP_ALL_GATHER, &group,
                                          bytes * strategy->tensor_parallel);
    }
    return seconds;
}

struct tpp_vocabulary_transfers tpp_vocabulary_transfers(const struct tpp_evaluator *evaluator,
                                                         const struct tpp_strategy *strategy,
                                                         const struct tpp_assembly *assembly)
{
    const bool waits = strategy->vocabulary_parallel == TPP_VOCABULARY_PARALLEL_INTERLACED;
    const uint32_t stride = strategy->tensor_parallel * strategy->context_parallel * strategy->data_parallel;
    const double n = assembly->decoder->tokens, h = evaluator->model->hidden_size;
    const double hidden = evaluator->stack->weight_bytes * n * h;
    return (struct tpp_vocabulary_transfers){
        .group = tpp_group_place(strategy->pipeline_parallel, stride, evaluator->hardware->node.num_gpus),
        .input_bytes = waits ? hidden : 4 * n * (h + 1),
        .loss_bytes = 4 * n,
        .hidden_bytes = hidden,
    };
}

static double vocabulary_send_seconds(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                      const struct tpp_assembly *assembly)
{
    if (strategy->vocabulary_parallel == TPP_VOCABULARY_PARALLEL_NONE)
        return 0;
    const struct tpp_vocabulary_transfers sent = tpp_vocabulary_transfers(evaluator, strategy, assembly);
    const struct tpp_links *links = &evaluator->links;
    return tpp_collective_seconds(links, TPP_ALL_GATHER, &sent.group, sent.input_bytes) +
           TPP_VOCABULARY_LOSS_REDUCTIONS * tpp_collective_seconds(links, TPP_ALL_REDUCE, &sent.group, sent.loss_bytes) +
           2 * tpp_collective_seconds(links, TPP_ALL_REDUCE, &sent.group, sent.hidden_bytes) +
           tpp_collective_seconds(links, TPP_ALL_GATHER, &sent.group, sent.hidden_bytes);
}

/* Beside transfers that wait for the slowest stage, their kernels spinning on the multiprocessors meanwhile, F and B take
 * this much longer [measured: 1.066 at 2048 and 1.071 at 4096 tokens, four vocabularies each alike; stage timings of
 * sail-sg/VocabularyParallelism, artifact/exp_one_host.csv]. */
static const double vocabulary_slowdown_fraction = 0.068;

double tpp_vocabulary_slowdown_seconds(const struct tpp_strategy *strategy, double layers_seconds)
{
    const bool is_beside = strategy->vocabulary_parallel == TPP_VOCABULARY_PARALLEL_ONE_BARRIER ||
                           strategy->vocabulary_parallel == TPP_VOCABULARY_PARALLEL_TWO_BARRIERS;
    return is_beside ? vocabulary_slowdown_fraction * layers_seconds : 0;
}

void tpp_vocabulary_pass_seconds(const struct tpp_strategy *strategy, const struct tpp_assembly *assembly,
                                 double seconds[2])
{
    const struct tpp_layer *ends[2] = {assembly->embedding, assembly->head};
    seconds[0] = seconds[1] = 0;
    for (int end = 0; end < 2; end++)
        for (int section = 0; section < TPP_SECTION_COUNT; section++)
            seconds[tpp_is_in_second_vocabulary_pass(strategy, end == 1, (enum tpp_section)section)] +=
                ends[end]->section_seconds[section];
}

bool tpp_is_in_second_vocabulary_pass(const struct tpp_strategy *strategy, bool is_head, enum tpp_section section)
{
    switch (strategy->vocabulary_parallel) {
    case TPP_VOCABULARY_PARALLEL_ONE_BARRIER:
        return section == TPP_SECTION_WEIGHT || (!is_head && section == TPP_SECTION_BACKWARD);
    case TPP_VOCABULARY_PARALLEL_TWO_BARRIERS:
        return section != TPP_SECTION_FORWARD;
    default:
        return false;
    }
}

/* What those transfers take from a micro-batch of a stage whose own layers run for `layers_seconds`. */
static double vocabulary_exposed_seconds(const struct tpp_strategy *strategy, const struct tpp_assembly *assembly,
                                         double layers_seconds)
{
    switch (strategy->vocabulary_parallel) {
    case TPP_VOCABULARY_PARALLEL_NONE:
        return 0;
    case TPP_VOCABULARY_PARALLEL_INTERLACED:
        return assembly->vocabulary_send_seconds;
    default:
        return fmax(tpp_vocabulary_slowdown_seconds(strategy, layers_seconds), assembly->vocabulary_send_seconds - layers_seconds);
    }
}

static struct tpp_sharded_work sharded_work(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                            const struct tpp_layer *layer)
{
    const double layers = (double)evaluator->model->num_layers / strategy->pipeline_parallel;
    const double again = tpp_recomputed_layers(strategy, layers) / layers;
    return (struct tpp_sharded_work){
        .gathered_bytes = tpp_stack_layer_gathered_bytes(evaluator->stack, evaluator->job, layer->parameters,
                                                         layer->linear_parameters),
        .reduced_parameters = layer->trainable_parameters,
        .forward_seconds = layer->section_seconds[TPP_SECTION_FORWARD],
        .backward_seconds = layer->section_seconds[TPP_SECTION_BACKWARD] + layer->section_seconds[TPP_SECTION_WEIGHT] +
                            again * tpp_layer_recompute_seconds(layer) + layer->repeated_seconds,
        .forward_transfer_seconds = tpp_layer_transfer_seconds(layer, TPP_SECTION_FORWARD),
        .backward_transfer_seconds = tpp_layer_transfer_seconds(layer, TPP_SECTION_BACKWARD) +
                                     tpp_layer_transfer_seconds(layer, TPP_SECTION_WEIGHT) +
                                     again * tpp_layer_transfer_seconds(layer, TPP_SECTION_FORWARD),
    };
}

static void assemble_sharded(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                             struct tpp_assembly *assembly)
{
    const struct tpp_layer *embedding = assembly->embedding, *head = assembly->head;
    const struct tpp_sharded_work work =
        sharded_work(evaluator, strategy, assembly->moe ? assembly->moe : assembly->decoder);
    assembly->sharded = tpp_sharded_layer_time(evaluator->hardware, &evaluator->links, evaluator->stack, strategy,
                                               &assembly->replicas, &work);
    double head_seconds = 0;
    for (int section = 0; section < TPP_SECTION_COUNT; section++)
        head_seconds += head->section_seconds[section];
    const bool are_together = strategy->pipeline_parallel == 1 || tpp_schedule_is_v_shaped(strategy->schedule) ||
                              strategy->vocabulary_parallel != TPP_VOCABULARY_PARALLEL_NONE;
    for (int has_embedding = 0; has_embedding < 2; has_embedding++)
        for (int has_head = 0; has_head < 2; has_head++)
            if ((has_embedding && has_head) == are_together)
                assembly->ends[has_embedding][has_head] = tpp_sharded_ends_time(
                    &evaluator->links, evaluator->stack, strategy, &assembly->replicas,
                    has_embedding ? embedding->parameters : 0, has_head ? head->parameters : 0,
                    has_head ? head_seconds : 0);
}

struct tpp_sharding_extra tpp_sharding_extra(const struct tpp_assembly *assembly, double num_layers, bool has_embedding,
                                             bool has_head)
{
    const struct tpp_sharded_ends *ends = &assembly->ends[has_embedding][has_head];
    if (!assembly->is_sharded)
        return (struct tpp_sharding_extra){0, 0};
    return (struct tpp_sharding_extra){tpp_sharded_forward_extra_seconds(&assembly->sharded, ends, num_layers),
                                       tpp_sharded_backward_extra_seconds(&assembly->sharded, ends, num_layers)};
}

/* Of a stage in the middle, where the two directions meet: all its forward passes but those of fill and drain (the order of
 * two_chunk_order.c) run beside a backward pass. */
static double paired_fraction(const struct tpp_strategy *strategy)
{
    const double passes = (double)strategy->num_micro_batches * strategy->virtual_pipeline_stages;
    const double unpaired = strategy->pipeline_parallel * strategy->virtual_pipeline_stages + 1;
    return fmax(0, 1 - unpaired / passes);
}

enum tpp_code tpp_assemble(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                           struct tpp_assembly *assembly, struct tpp_error *err)
{
    memset(assembly, 0, sizeof(*assembly));
    const bool has_experts = evaluator->model->num_experts > 0;
    const bool has_pairs =
        has_experts && strategy->expert_parallel > 1 && tpp_schedule_pairs_passes(strategy->schedule);
    assembly->decoder = tpp_evaluator_layer(evaluator, strategy, TPP_LAYER_DECODER, TPP_PASSES_ALONE);
    assembly->embedding = tpp_evaluator_layer(evaluator, strategy, TPP_LAYER_EMBEDDING, TPP_PASSES_ALONE);
    assembly->head = tpp_evaluator_layer(evaluator, strategy, TPP_LAYER_HEAD, TPP_PASSES_ALONE);
    if (has_experts)
        assembly->moe = tpp_evaluator_layer(evaluator, strategy, TPP_LAYER_MOE, TPP_PASSES_ALONE);
    if (has_pairs)
        assembly->paired_moe = tpp_evaluator_layer(evaluator, strategy, TPP_LAYER_MOE, TPP_PASSES_PAIRED);
    if (!assembly->decoder || !assembly->embedding || !assembly->head || (has_experts && !assembly->moe) ||
        (has_pairs && !assembly->paired_moe))
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the layer memo");
    assembly->replicas = tpp_replicas_make(strategy, evaluator->stack, evaluator->hardware->node.num_gpus);
    assembly->expert_replicas = assembly->replicas;
    if (has_pairs)
        assembly->paired_fraction = paired_fraction(strategy);
    if (has_experts)
        assembly->expert_replicas =
            tpp_expert_replicas_make(strategy, evaluator->stack, evaluator->hardware->node.num_gpus);
    assembly->is_sharded = tpp_gathers_layers(evaluator->stack, strategy, &assembly->replicas);
    if (assembly->is_sharded)
        assemble_sharded(evaluator, strategy, assembly);
    assembly->vocabulary_send_seconds = vocabulary_send_seconds(evaluator, strategy, assembly);
    assembly->send_seconds = tpp_stage_send_seconds(
        evaluator, strategy, assembly,
        tpp_stages_leave_leaf(evaluator, strategy, 0, strategy->pipeline_parallel - 1));
    assembly->send_device_fraction = exchange_fraction(strategy, evaluator->stack);
    assembly->edge_seconds = assembly->send_device_fraction < 1 ? assembly->send_seconds : 0;
    return TPP_OK;
}

static double section_sum(const struct tpp_layer *layer, bool forward)
{
    return forward ? layer->section_seconds[TPP_SECTION_FORWARD]
                   : layer->section_seconds[TPP_SECTION_BACKWARD] + layer->section_seconds[TPP_SECTION_WEIGHT];
}

static bool is_plain_split(const struct tpp_strategy *strategy)
{
    return strategy->first_stage_layers == 0 && strategy->last_stage_layers == 0 && !strategy->account_for_embedding &&
           !strategy->account_for_loss && strategy->last_chunk_less == 0;
}

/* MoE layers among the `count` layers from `first` on. */
static uint32_t count_moe(const struct tpp_model *model, uint32_t first, uint32_t count)
{
    uint32_t moe = 0;
    for (uint32_t i = first; i < first + count; i++)
        moe += tpp_model_layer_is_moe(model, i);
    return moe;
}

/* Layers lie on chunks in the order chunk 0 of every stage, then chunk 1 of every stage (launch-formats 1.4), and in a V
 * chunk 1 from the last stage back to the first. */
static struct tpp_stage_layers walk_chunks(const struct tpp_strategy *strategy, const struct tpp_model *model,
                                           uint32_t index)
{
    struct tpp_stage_layers layers = {0, 0};
    uint32_t first = 0;
    for (uint32_t chunk = 0; chunk < strategy->virtual_pipeline_stages; chunk++) {
        const bool is_back = chunk == 1 && tpp_schedule_is_v_shaped(strategy->schedule);
        for (uint32_t k = 0; k < strategy->pipeline_parallel; k++) {
            const uint32_t stage = is_back ? strategy->pipeline_parallel - 1 - k : k;
            const uint32_t count = tpp_strategy_chunk_layers(strategy, model->num_layers, stage, chunk);
            if (stage == index) {
                layers.total += count;
                layers.moe += model->num_experts > 0 ? count_moe(model, first, count) : 0;
            }
            first += count;
        }
    }
    return layers;
}

static struct tpp_stage_layers layers_of_one_copy(const struct tpp_strategy *strategy, const struct tpp_model *model,
                                                  uint32_t index)
{
    const uint32_t p = strategy->pipeline_parallel, chunks = p * strategy->virtual_pipeline_stages;
    if (model->num_experts == 0 && is_plain_split(strategy) && model->num_layers % chunks == 0)
        return (struct tpp_stage_layers){model->num_layers / p, 0};
    return walk_chunks(strategy, model, index);
}

struct tpp_stage_layers tpp_stage_layers(const struct tpp_strategy *strategy, const struct tpp_model *model,
                                         uint32_t index)
{
    struct tpp_stage_layers layers = layers_of_one_copy(strategy, model, index);
    if (tpp_schedule_model_copies(strategy->schedule) == 1)
        return layers;
    const struct tpp_stage_layers other = layers_of_one_copy(strategy, model, strategy->pipeline_parallel - 1 - index);
    return (struct tpp_stage_layers){layers.total + other.total, layers.moe + other.moe};
}

const struct tpp_layer *tpp_stage_layer(const struct tpp_assembly *assembly, const struct tpp_stage *stage)
{
    if (stage->moe_layers == 0)
        return assembly->decoder;
    return stage->moe_layers < stage->num_layers ? &stage->blend : assembly->moe;
}

/* Every chunk is a pass of its own. */
static void add_sharding(const struct tpp_strategy *strategy, const struct tpp_assembly *assembly, struct tpp_stage *stage)
{
    const uint32_t v = strategy->virtual_pipeline_stages;
    stage->sharding_seconds = 0;
    for (uint32_t chunk = 0; chunk < v && assembly->is_sharded; chunk++) {
        const struct tpp_sharding_extra extra = tpp_sharding_extra(
            assembly, stage->num_layers / v, stage->has_embedding && chunk == 0, stage->has_head && chunk + 1 == v);
        stage->forward_seconds += extra.forward_seconds;
        stage->backward_seconds += extra.backward_seconds;
        stage->sharding_seconds += extra.forward_seconds + extra.backward_seconds;
    }
}

struct tpp_hidden_in_pairs tpp_hidden_in_pairs(const struct tpp_assembly *assembly, double moe_layers,
                                               double recomputed_fraction)
{
    const struct tpp_layer *alone = assembly->moe, *paired = assembly->paired_moe;
    if (!paired || moe_layers == 0)
        return (struct tpp_hidden_in_pairs){0, 0, 0};
    const double forward = section_sum(alone, true) - section_sum(paired, true);
    const double again = tpp_layer_recompute_seconds(alone) - tpp_layer_recompute_seconds(paired);
    const double repeated = alone->repeated_seconds - paired->repeated_seconds;
    return (struct tpp_hidden_in_pairs){
        .forward_seconds = moe_layers * forward,
        .backward_seconds = moe_layers * (section_sum(alone, false) - section_sum(paired, false)),
        .recompute_seconds = moe_layers * (recomputed_fraction * again + repeated),
    };
}

static double ends_accumulation_seconds(const struct tpp_evaluator *evaluator, const struct tpp_assembly *assembly)
{
    return tpp_accumulation_seconds(
        &evaluator->hardware->gpu, evaluator->stack,
        assembly->embedding->trainable_parameters + assembly->head->trainable_parameters,
        assembly->embedding->num_parameter_tensors + assembly->head->num_parameter_tensors);
}

/* From passes through all layers to the mean of the micro-batches, which pass one copy of the model. */
static void scale_to_passes(struct tpp_stage *stage)
{
    double *const seconds[] = {&stage->forward_seconds,   &stage->backward_seconds,   &stage->weight_seconds,
                               &stage->recompute_seconds, &stage->accumulate_seconds, &stage->hidden_seconds,
                               &stage->hidden_recompute_seconds};
    for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++)
        *seconds[i] *= stage->pass_fraction;
}

bool tpp_stages_sum_embedding(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy)
{
    const bool has_both_on_one =
        tpp_schedule_is_v_shaped(strategy->schedule) || tpp_schedule_model_copies(strategy->schedule) == 2;
    return evaluator->model->tied_embeddings && strategy->pipeline_parallel > 1 && !has_both_on_one;
}

/* Compute lost beside copies that no multiprocessor runs: the lower end of 9.3's 0.05 to 0.1. */
static const double copy_slowdown_fraction = 0.05;

/* Copies of n of L layers' activations to the host beside their forward pass, or back beside their backward, one after the
 * other. Transformer Engine wants layer i's there before layer L - n + i starts, and starts to bring them back with that one's
 * backward (pytorch/cpu_offload.py, _default_offload_sync_init): the first copy starts one layer late, the last one must be
 * there one layer early, and with n = L - 1 every layer waits for its own,
 *
 *     exposed = max(0, C - (L - 2)/L T) + sigma min(C, T),  C for n = L - 1
 *
 * C all copies, T the pass. Holds for layers that are alike. Checked by tests/unit/test_evaluate.c. */
static double copy_exposed_seconds(double copies, double pass, double num_layers, double offloaded)
{
    if (offloaded > num_layers - 2)
        return copies;
    return fmax(0, copies - (num_layers - 2) / num_layers * pass) + copy_slowdown_fraction * fmin(copies, pass);
}

static void add_offload(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                        const struct tpp_layer *layer, struct tpp_stage *stage)
{
    const double L = stage->num_layers, n = strategy->offload_layers;
    stage->offload_seconds[0] = stage->offload_seconds[1] = 0;
    if (n <= 0)
        return;
    const double bytes = tpp_kept_by_layers_bytes(evaluator->stack, strategy, layer, L, n);
    const double copies = bytes / evaluator->hardware->node.host_link_bytes_per_second;
    stage->offload_seconds[0] = copy_exposed_seconds(copies, stage->forward_seconds, L, n);
    stage->offload_seconds[1] = copy_exposed_seconds(copies, stage->backward_seconds + stage->recompute_seconds, L, n);
    stage->forward_seconds += stage->offload_seconds[0];
    stage->backward_seconds += stage->offload_seconds[1];
}

void tpp_stage_time(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                    const struct tpp_assembly *assembly, uint32_t index, struct tpp_stage_layers layers,
                    struct tpp_stage *stage)
{
    const uint32_t p = strategy->pipeline_parallel;
    const bool is_v = tpp_schedule_is_v_shaped(strategy->schedule);
    const bool has_copy = tpp_schedule_model_copies(strategy->schedule) == 2;
    stage->num_layers = layers.total;
    stage->pass_fraction = has_copy ? 0.5 : 1;
    stage->is_first = index == 0 || (has_copy && index + 1 == p);
    stage->is_last = index + 1 == (is_v ? 1 : p) || (has_copy && index == 0);
    stage->moe_layers = layers.moe;
    if (layers.moe > 0 && layers.moe < layers.total)
        stage->blend = tpp_layer_blend(assembly->decoder, layers.total - layers.moe, assembly->moe, layers.moe);
    const struct tpp_layer *layer = tpp_stage_layer(assembly, stage);
    const double L = stage->num_layers;
    stage->recomputed_layers = tpp_recomputed_layers(strategy, L);
    stage->forward_seconds = L * section_sum(layer, true);
    stage->backward_seconds = L * section_sum(layer, false);
    stage->weight_seconds = L * layer->section_seconds[TPP_SECTION_WEIGHT];
    stage->recompute_seconds = stage->recomputed_layers * tpp_layer_recompute_seconds(layer) + L * layer->repeated_seconds;
    stage->parameters = L * layer->parameters;
    stage->trainable_parameters = L * layer->trainable_parameters;
    const double trained_layers = tpp_job_is_adapter(evaluator->job) ? 0 : L;
    stage->expert_parameters = trained_layers * layer->expert_parameters;
    stage->linear_parameters = trained_layers * layer->linear_parameters;
    stage->num_parameter_tensors = L * layer->num_parameter_tensors;
    const bool shares_ends = strategy->vocabulary_parallel != TPP_VOCABULARY_PARALLEL_NONE;
    stage->has_embedding = shares_ends || stage->is_first;
    stage->has_head = shares_ends || stage->is_last;
    const double vocabulary_exposed = vocabulary_exposed_seconds(
        strategy, assembly, stage->forward_seconds + stage->backward_seconds + stage->recompute_seconds);
    stage->vocabulary_seconds = stage->vocabulary_exposed_seconds = vocabulary_exposed;
    const struct tpp_layer *ends[2] = {stage->has_embedding ? assembly->embedding : NULL,
                                       stage->has_head ? assembly->head : NULL};
    for (int i = 0; i < 2; i++) {
        if (!ends[i])
            continue;
        if (shares_ends)
            stage->vocabulary_seconds += section_sum(ends[i], true) + section_sum(ends[i], false);
        stage->forward_seconds += section_sum(ends[i], true);
        stage->backward_seconds += section_sum(ends[i], false);
        stage->weight_seconds += ends[i]->section_seconds[TPP_SECTION_WEIGHT];
        stage->recompute_seconds += ends[i]->repeated_seconds;
        stage->expert_parameters += ends[i]->expert_parameters;
        stage->linear_parameters += trained_layers > 0 ? ends[i]->linear_parameters : 0; /* prediction blocks */
        stage->parameters += ends[i]->parameters;
        stage->trainable_parameters += ends[i]->trainable_parameters;
        stage->num_parameter_tensors += ends[i]->num_parameter_tensors;
    }
    add_sharding(strategy, assembly, stage);
    stage->accumulate_seconds = tpp_accumulation_seconds(&evaluator->hardware->gpu, evaluator->stack,
                                                         stage->trainable_parameters, stage->num_parameter_tensors);
    stage->backward_seconds += stage->accumulate_seconds;
    add_offload(evaluator, strategy, layer, stage);
    stage->vocabulary_accumulate_seconds = shares_ends ? ends_accumulation_seconds(evaluator, assembly) : 0;
    stage->vocabulary_seconds += stage->vocabulary_accumulate_seconds;
    const struct tpp_hidden_in_pairs hidden =
        tpp_hidden_in_pairs(assembly, stage->moe_layers, stage->recomputed_layers / stage->num_layers);
    stage->hidden_recompute_seconds = hidden.recompute_seconds;
    stage->hidden_seconds = hidden.forward_seconds + hidden.backward_seconds + hidden.recompute_seconds;
    scale_to_passes(stage);
    /* A stage receives in forward unless first, in backward unless last; once a chunk. Inner chunks wrap around. */
    const double v = strategy->virtual_pipeline_stages;
    const bool is_turn = is_v && index + 1 == p;
    const double local = stage->pass_fraction * (stage->is_first + stage->is_last) + 2 * is_turn;
    const double transfers = p > 1 ? 2 * v - local : 0;
    stage->send_seconds =
        transfers * assembly->send_device_fraction * assembly->send_seconds + vocabulary_exposed;
    stage->seconds = stage->forward_seconds + stage->backward_seconds + stage->recompute_seconds +
                     stage->send_seconds - assembly->paired_fraction * stage->hidden_seconds;
}

static void layer_terms(const struct tpp_layer *layer, double times, bool is_end, double terms[TPP_TIME_TERM_COUNT])
{
    static const enum tpp_time_term leaf[TPP_PART_COUNT] = {
        [TPP_PART_LINEAR] = TPP_TIME_GEMM,         [TPP_PART_ATTENTION] = TPP_TIME_ATTENTION,
        [TPP_PART_POINTWISE] = TPP_TIME_MEMORY_BOUND, [TPP_PART_HEAD] = TPP_TIME_EMBEDDING_HEAD,
        [TPP_PART_TENSOR] = TPP_TIME_TENSOR_COMM,  [TPP_PART_CONTEXT] = TPP_TIME_CONTEXT_COMM,
        [TPP_PART_EXPERT] = TPP_TIME_EXPERT_COMM};
    for (int section = 0; section < TPP_SECTION_COUNT; section++) {
        for (int part = 0; part < TPP_PART_COUNT; part++) {
            const bool end_compute = is_end && part < TPP_PART_TENSOR;
            terms[end_compute ? TPP_TIME_EMBEDDING_HEAD : leaf[part]] += times * layer->seconds[section][part];
        }
        terms[TPP_TIME_HOST] += times * layer->host_seconds[section];
    }
}

void tpp_stage_terms(const struct tpp_assembly *assembly, const struct tpp_stage *stage, double micro_batches,
                     double terms[TPP_TIME_TERM_COUNT])
{
    const double passes = micro_batches * stage->pass_fraction;
    layer_terms(tpp_stage_layer(assembly, stage), passes * stage->num_layers, false, terms);
    if (stage->has_embedding)
        layer_terms(assembly->embedding, passes, true, terms);
    if (stage->has_head)
        layer_terms(assembly->head, passes, true, terms);
    const double paired = micro_batches * assembly->paired_fraction;
    terms[TPP_TIME_EXPERT_COMM] -= paired * (stage->hidden_seconds - stage->hidden_recompute_seconds);
    terms[TPP_TIME_RECOMPUTE] -= paired * stage->hidden_recompute_seconds;
    terms[TPP_TIME_MEMORY_BOUND] += micro_batches * stage->accumulate_seconds;
    terms[TPP_TIME_RECOMPUTE] += micro_batches * stage->recompute_seconds;
    terms[TPP_TIME_SHARD_COMM] += micro_batches * stage->sharding_seconds;
    terms[TPP_TIME_OFFLOAD] += micro_batches * (stage->offload_seconds[0] + stage->offload_seconds[1]);
    terms[TPP_TIME_PIPELINE_COMM] += micro_batches * stage->send_seconds;
}

struct stage_walk {
    struct tpp_walk walk;
    struct tpp_walk_stage stage;
};

static struct stage_walk walk_of(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                 const struct tpp_assembly *assembly, const struct tpp_stage *stage, uint32_t index)
{
    /* The ends of a pipeline sum the gradient of a tied embedding in a group of their own. */
    const bool sums_tied =
        tpp_stages_sum_embedding(evaluator, strategy) && (stage->is_first || stage->is_last);
    const bool is_mixed = stage->moe_layers > 0 && stage->moe_layers < stage->num_layers;
    return (struct stage_walk){
        .walk = {.job = evaluator->job, .stack = evaluator->stack, .strategy = strategy, .hardware = evaluator->hardware,
                 .shard_ranks = assembly->replicas.shard_ranks,
                 .expert_shard_ranks = assembly->expert_replicas.shard_ranks,
                 .communicator_bytes = tpp_walk_communicator_bytes(evaluator->hardware, strategy) +
                                       (sums_tied ? evaluator->hardware->network.nccl_communicator_bytes : 0)},
        .stage = {.decoder = tpp_stage_layer(assembly, stage),
                  .dense = is_mixed ? assembly->decoder : NULL,
                  .last = is_mixed ? assembly->moe : NULL, /* dense layers come first */
                  .embedding = stage->has_embedding ? assembly->embedding : NULL,
                  .head = stage->has_head ? assembly->head : NULL,
                  .num_layers = stage->num_layers,
                  .in_flight = tpp_in_flight_micro_batches(strategy, index) * stage->pass_fraction,
                  .awaiting_weights = tpp_micro_batches_awaiting_weights(strategy, index)},
    };
}

void tpp_stage_memory(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                      const struct tpp_assembly *assembly, const struct tpp_stage *stage, uint32_t index,
                      struct tpp_memory *memory)
{
    const struct stage_walk view = walk_of(evaluator, strategy, assembly, stage, index);
    tpp_walk_stage_memory(&view.walk, &view.stage, memory);
    memory->worst_stage = index;
}

double tpp_stage_micro_batch_bytes(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                   const struct tpp_assembly *assembly, const struct tpp_stage *stage, uint32_t index)
{
    const struct stage_walk view = walk_of(evaluator, strategy, assembly, stage, index);
    return tpp_walk_micro_batch_bytes(&view.walk, &view.stage);
}
