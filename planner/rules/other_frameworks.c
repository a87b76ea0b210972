/* other_frameworks.c - rules of Megatron-DeepSpeed (MD, with DeepSpeed's own), ms-swift's megatron side (SW),
 * torchtitan (TT) and nanotron (NT), as far as they concern what a plan chooses. A rule without a number of its own has
 * the letters alone. Some of launch-formats are judged under another code: DS-5 is MD-5, DS-6 MD-18, SW-6 the rules of
 * Megatron's FSDP (ML-45 and what stands beside it), SW-11 ML-28; MD-8 refuses nothing that MD-4 does not. TT-9 is about a
 * torchtitan whose configuration is no TOML any more and is not read. */
#include "planner/rules/table.h"

static bool sizes_within_world(const struct tpp_rule_context *c)
{
    return c->tensor_parallel <= c->s->world_size && c->pipeline_parallel <= c->s->world_size / c->tensor_parallel;
}

/* Sizes that are cut down silently (MD-1) are judged there. */
static bool deepspeed_world_divides(const struct tpp_rule_context *c)
{
    return !sizes_within_world(c) || tpp_rule_divides(c->model_parallel, c->s->world_size);
}

static bool ulysses_alone(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    return s->context_parallel == 1 ||
           (s->context_types == TPP_RULE_CONTEXT_A2A && c->tensor_parallel == 1 && c->pipeline_parallel == 1 &&
            !s->sequence_parallel && s->num_attention_heads % s->context_parallel == 0 &&
            s->sequence_length % s->context_parallel == 0);
}

static bool stages_have_engine(const struct tpp_rule_context *c)
{
    return c->s->pipeline_engine || c->pipeline_parallel == 1;
}

static bool engine_zero_stage(const struct tpp_rule_context *c)
{
    return !c->s->pipeline_engine || c->s->zero_stage <= 1;
}

static bool no_interleaving(const struct tpp_rule_context *c)
{
    return c->virtual_stages <= 1;
}

static bool deepspeed_chunks(const struct tpp_rule_context *c)
{
    int64_t layers = c->s->layers_per_virtual_stage;
    return !tpp_rule_is_set(layers) || (c->pipeline_parallel > 2 && tpp_rule_divides(layers, c->s->num_layers));
}

static bool key_value_heads_divide(const struct tpp_rule_context *c)
{
    return tpp_rule_divides(c->num_query_groups, c->s->num_attention_heads);
}

static bool heads_divide(const struct tpp_rule_context *c)
{
    return c->s->num_attention_heads % c->tensor_parallel == 0;
}

static bool all_heads_divide(const struct tpp_rule_context *c)
{
    return heads_divide(c) && c->num_query_groups % c->tensor_parallel == 0;
}

static bool experts_divide(const struct tpp_rule_context *c)
{
    return c->s->expert_parallel == 1 || (c->is_moe && c->s->num_experts % c->s->expert_parallel == 0);
}

static bool batch_divides(const struct tpp_rule_context *c)
{
    int64_t unit = c->s->micro_batch_size * c->data_parallel;
    return c->global_batch_size >= unit && c->global_batch_size % unit == 0;
}

static bool one_precision(const struct tpp_rule_context *c)
{
    return !c->s->fp16 || !c->s->bf16;
}

static bool positions_reach(const struct tpp_rule_context *c)
{
    return c->s->max_position_embeddings >= c->s->sequence_length;
}

static bool connections_for_sequence(const struct tpp_rule_context *c)
{
    return !c->sequence_parallel || c->s->cuda_device_max_connections == 1;
}

static bool experts_without_stage_3(const struct tpp_rule_context *c)
{
    return !c->is_moe || c->s->zero_stage < 3;
}

/* The pipeline engine takes --recompute-num-layers of --recompute-method uniform as its interval, and with block none.
 */
static bool engine_recomputes_every_layer(const struct tpp_rule_context *c)
{
    return !c->s->pipeline_engine || c->s->recompute != TPP_RULE_GRANULARITY_FULL ||
           c->s->recompute_method != TPP_RULE_METHOD_BLOCK;
}

/* Stages hand on hidden states alone: the loss that balances the experts is dropped. */
static bool experts_without_engine(const struct tpp_rule_context *c)
{
    return !c->is_moe || !c->s->pipeline_engine;
}

static bool experts_on_data_ranks(const struct tpp_rule_context *c)
{
    return !c->is_moe || tpp_rule_divides(c->s->expert_parallel, c->data_parallel);
}

static bool experts_whole_or_cut(const struct tpp_rule_context *c)
{
    return !c->is_moe || c->expert_tensor_parallel == 1 || c->expert_tensor_parallel == c->tensor_parallel;
}

static bool no_tensor_overlap(const struct tpp_rule_context *c)
{
    return !c->s->tp_comm_overlap;
}

static const struct tpp_rule deepspeed_rules[] = {
    {"DS", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, tpp_rule_sums_have_stage,
     "the type that gradients are summed in is chosen with ZeRO alone, and without the pipeline engine", "pp",
     "use ZeRO stage 1 or above and one stage"},
    {"MD-1", TPP_RULE_SILENT, TPP_RULE_EVER, sizes_within_world,
     "tensor and pipeline parallel sizes beyond the world are cut down without a word", "world tp pp",
     "choose sizes whose product divides the number of GPUs"},
    {"MD-2", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, deepspeed_world_divides,
     "the number of GPUs must be a multiple of tensor * pipeline * sequence parallel sizes", "world tp pp cp",
     "choose sizes whose product divides the number of GPUs"},
    {"MD-3", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, ulysses_alone,
     "sequence parallelism over ranks is Ulysses only, with tensor and pipeline sizes of 1, no --sequence-parallel, "
     "and heads and sequence that divide",
     "cp tp pp heads sequence", "lower --ds-sequence-parallel-size"},
    {"MD-4", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, stages_have_engine,
     "several stages need DeepSpeed's pipeline engine", "pp", "drop --no-pipeline-parallel"},
    {"MD-5", TPP_RULE_AT_RUN, TPP_RULE_EVER, engine_zero_stage,
     "DeepSpeed's pipeline engine refuses ZeRO stages 2 and 3", "zero", "use stage 1, or --no-pipeline-parallel"},
    {"MD-9", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, deepspeed_chunks,
     "interleaving needs more than two stages and layers that divide by the layers of a virtual stage", "pp layers",
     "drop --num-layers-per-virtual-pipeline-stage"},
    {"MD-9", TPP_RULE_SILENT, TPP_RULE_EVER, no_interleaving, "the DeepSpeed engine does not interleave", "vp",
     "drop --num-layers-per-virtual-pipeline-stage"},
    {"MD-11", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, key_value_heads_divide,
     "the attention heads must be a multiple of the key/value heads", "heads groups", "change --num-key-value-heads"},
    {"MD-11", TPP_RULE_AT_BUILD, TPP_RULE_EVER, all_heads_divide,
     "heads and key/value heads must be multiples of the tensor parallel size", "heads groups tp",
     "lower the tensor parallel size"},
    {"MD-12", TPP_RULE_AT_BUILD, TPP_RULE_EVER, experts_divide,
     "the experts must be a multiple of the expert parallel size", "experts ep", "change the expert parallel size"},
    {"MD-13", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, batch_divides,
     "the global batch must be a multiple of micro batch * data parallel size", "global-batch micro-batch dp",
     "change the global or micro batch size"},
    {"MD-16", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, positions_reach,
     "the sequence must not be longer than --max-position-embeddings", "sequence max-positions",
     "raise --max-position-embeddings"},
    {"MD-16", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, one_precision, "--fp16 and --bf16 exclude each other", "",
     "drop one of them"},
    {"MD-17", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, connections_for_sequence,
     "sequence parallelism needs CUDA_DEVICE_MAX_CONNECTIONS=1", "tp", "export CUDA_DEVICE_MAX_CONNECTIONS=1"},
    {"MD-15", TPP_RULE_SILENT, TPP_RULE_EVER, engine_recomputes_every_layer,
     "DeepSpeed's pipeline engine recomputes every layer or none: with --recompute-method block, none", "recompute",
     "use --recompute-method uniform"},
    {"MD-18", TPP_RULE_AT_RUN, TPP_RULE_EVER, experts_without_stage_3, "DeepSpeed refuses experts with ZeRO stage 3",
     "zero", "use stage 2"},
    {"MD", TPP_RULE_SILENT, TPP_RULE_EVER, experts_without_engine,
     "DeepSpeed's pipeline engine does not add the loss that balances experts", "experts pp",
     "use one stage with --no-pipeline-parallel"},
    {"MD", TPP_RULE_AT_BUILD, TPP_RULE_EVER, experts_on_data_ranks,
     "experts are spread over data-parallel ranks alone: these must be a multiple of the expert parallel size", "ep dp",
     "lower the expert parallel size"},
    {"MD", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, experts_whole_or_cut,
     "experts are whole, or cut by the tensor parallel size", "etp tp", "use one of the two"},
    {"MD", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, no_tensor_overlap, "tensor-parallel traffic does not overlap", "tp",
     "drop the overlap"},
};

static bool world_divides(const struct tpp_rule_context *c)
{
    return tpp_rule_divides(c->model_parallel, c->s->world_size);
}

static bool expert_world_divides(const struct tpp_rule_context *c)
{
    return tpp_rule_divides(c->expert_tensor_parallel * c->s->expert_parallel * c->pipeline_parallel, c->s->world_size);
}

static bool ends_have_stages(const struct tpp_rule_context *c)
{
    return c->pipeline_parallel > 1 ||
           (!tpp_rule_is_set(c->s->first_stage_layers) && !tpp_rule_is_set(c->s->last_stage_layers));
}

static bool overlap_has_sequence_parallel(const struct tpp_rule_context *c)
{
    return !c->s->tp_comm_overlap || c->sequence_parallel;
}

static bool muon_without_overlap(const struct tpp_rule_context *c)
{
    return c->s->optimizer != TPP_RULE_MUON || (!c->s->overlap_grad_reduce && !c->s->overlap_param_gather);
}

static bool no_bucket_size(const struct tpp_rule_context *c)
{
    return !tpp_rule_is_set(c->s->ddp_bucket_size) && !tpp_rule_is_set(c->s->allgather_bucket_size);
}

static bool no_hierarchy(const struct tpp_rule_context *c)
{
    return c->s->context_parallel == 1 || !(c->s->context_types & TPP_RULE_CONTEXT_A2A_P2P);
}

static const struct tpp_rule swift_rules[] = {
    {"SW-1", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, world_divides,
     "the number of GPUs must be a multiple of tensor * pipeline * context parallel sizes", "world tp pp cp",
     "choose sizes whose product divides the number of GPUs"},
    {"SW-1", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, expert_world_divides,
     "the number of GPUs must be a multiple of expert tensor * expert * pipeline parallel sizes", "world etp ep pp",
     "lower the expert parallel size"},
    {"SW-1", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, batch_divides,
     "the global batch must be a multiple of micro batch * data parallel size, and at least that",
     "global-batch micro-batch dp", "change the global or micro batch size"},
    {"SW-3", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, ends_have_stages,
     "layers of the first or last stage need more than one stage", "pp", "drop decoder_first/last_pipeline_num_layers"},
    {"SW-4", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, overlap_has_sequence_parallel,
     "tp_comm_overlap needs sequence parallelism and more than one tensor-parallel rank", "tp",
     "add --sequence_parallel true"},
    {"SW-7", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, muon_without_overlap,
     "muon excludes overlap_grad_reduce and overlap_param_gather", "", "use dist_muon, or drop the overlap"},
    {"SW", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, no_bucket_size, "bucket sizes cannot be set", "bucket gather-bucket",
     "leave them to the framework"},
    {"SW", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, no_hierarchy, "there is no hierarchical context parallelism", "cp",
     "use a ring, all-gather or all-to-all"},
};

/* The sizes as written must make the world exactly. */
static bool world_is_product(const struct tpp_rule_context *c)
{
    int64_t data = tpp_rule_is_set(c->s->data_parallel) ? c->s->data_parallel : c->data_parallel;
    return world_divides(c) && c->s->world_size / c->model_parallel == data;
}

/* Without sharded positions too: the loss and norms are cut by the tensor parallel size. */
static bool titan_sequence_divides(const struct tpp_rule_context *c)
{
    return c->s->sequence_length % (c->tensor_parallel * 2 * c->s->context_parallel) == 0;
}

static int64_t titan_num_stages(const struct tpp_rule_context *c)
{
    return c->pipeline_parallel * (c->virtual_stages > 1 ? c->virtual_stages : 1);
}

static bool titan_stages_have_layers(const struct tpp_rule_context *c)
{
    return titan_num_stages(c) <= c->slots;
}

/* Stages are made from a number of layers a stage, with one slot each for embedding and output: the number of stages
 * must come out as pp * vp. One or two stages a rank need no such number. */
static bool titan_stages(const struct tpp_rule_context *c)
{
    const int64_t slots = c->slots, stages = titan_num_stages(c);
    int64_t layers = (slots + stages - 1) / stages;
    return c->virtual_stages <= 2 || (slots + layers - 1) / layers == stages;
}

static bool titan_experts(const struct tpp_rule_context *c)
{
    return !c->is_moe || c->expert_tensor_parallel == c->tensor_parallel ||
           (c->s->expert_parallel > 1 && c->expert_tensor_parallel == 1);
}

/* Its two ways of rotating keys and values are a ring and a gather. */
static bool no_exchange_of_heads(const struct tpp_rule_context *c)
{
    return c->s->context_parallel == 1 || !(c->s->context_types & (TPP_RULE_CONTEXT_A2A | TPP_RULE_CONTEXT_A2A_P2P));
}

static bool tensor_means_sequence(const struct tpp_rule_context *c)
{
    return c->tensor_parallel == 1 || c->s->sequence_parallel;
}

static bool no_counted_ends(const struct tpp_rule_context *c)
{
    return !tpp_rule_is_set(c->s->first_stage_layers) && !tpp_rule_is_set(c->s->last_stage_layers);
}

static bool recomputes_each_layer(const struct tpp_rule_context *c)
{
    return c->s->recompute != TPP_RULE_GRANULARITY_FULL ||
           (c->s->recompute_method != TPP_RULE_METHOD_BLOCK &&
            (!tpp_rule_is_set(c->s->recompute_num_layers) || c->s->recompute_num_layers == 1));
}

/* Experts that are cut by the tensor parallel size alone are gone since pull request 4794 (2026-09). */
static bool titan_experts_reach(const struct tpp_rule_context *c)
{
    return !c->is_moe || c->s->expert_parallel >= c->tensor_parallel;
}

/* Stage 0 are plain replicas (DDP). */
static bool replicas_are_alone(const struct tpp_rule_context *c)
{
    return c->s->zero_stage > 0 || c->model_parallel == 1;
}

static bool replicas_are_several(const struct tpp_rule_context *c)
{
    return c->s->zero_stage > 0 || c->data_parallel > 1;
}

/* Shards are made of data and context ranks, replicas of what is left of the data ranks. */
static bool replicas_and_shards_make_world(const struct tpp_rule_context *c)
{
    const int64_t context = c->s->context_parallel, shard = c->s->shard_group;
    return !tpp_rule_is_set(shard) ||
           (tpp_rule_divides(context, shard) && tpp_rule_divides(shard / context, c->data_parallel));
}

static const struct tpp_rule torchtitan_rules[] = {
    {"TT-1", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, world_is_product,
     "data * context * tensor * pipeline parallel degrees must be the number of GPUs", "world dp cp tp pp",
     "change a degree"},
    {"TT-2", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, experts_divide,
     "expert parallelism needs experts, and as many as a multiple of its degree", "experts ep",
     "change expert_parallel_degree"},
    {"TT-3", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, batch_divides,
     "the global batch must be a multiple of the local batch * data parallel degree", "global-batch micro-batch dp",
     "change global_batch_size"},
    {"TT-4", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, titan_sequence_divides,
     "the sequence must be a multiple of tensor * 2 * context parallel degrees", "sequence tp cp", "change seq_len"},
    {"TT-5", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, titan_stages, "no number of layers a stage gives this many stages",
     "vp pp layers", "use one or two stages a rank"},
    {"TT-6", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, titan_stages_have_layers,
     "every stage needs a layer, or the place of the embedding or the head", "pp vp layers", "use fewer stages"},
    {"TT-7", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, replicas_are_alone,
     "plain replicas exclude tensor, pipeline and context parallelism", "tp pp cp",
     "shard with data_parallel_shard_degree, or use replicas alone"},
    {"TT", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, replicas_are_several, "one replica is not DDP", "dp",
     "use the engine fsdp2"},
    {"TT-1", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, replicas_and_shards_make_world,
     "a group of shards holds whole context-parallel groups, and replicas of it make the data-parallel ranks",
     "shard-group cp dp", "change data_parallel_shard_degree"},
    {"TT", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, no_bucket_size, "gradients are reduced one layer at a time",
     "bucket gather-bucket", "leave bucket sizes to the framework"},
    {"TT-8", TPP_RULE_AT_BUILD, TPP_RULE_EVER, all_heads_divide,
     "heads and key/value heads must be multiples of the tensor parallel degree", "heads groups tp",
     "lower tensor_parallel_degree"},
    {"TT-2", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, titan_experts,
     "experts are cut like the rest, or, with expert parallelism, not at all", "etp tp ep",
     "set expert_tensor_parallel_degree to 1 or to the tensor parallel degree"},
    {"TT", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, no_exchange_of_heads,
     "context parallelism is a ring or gathers keys and values: it exchanges no heads", "cp",
     "use a ring or all-gather"},
    {"TT", TPP_RULE_SILENT, TPP_RULE_EVER, tensor_means_sequence, "tensor parallelism always shards the sequence too",
     "tp", "use sequence parallelism"},
    {"TT", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, no_counted_ends,
     "the layers of the first and last stage cannot be counted, only made fewer", "first-layers last-layers",
     "use pipeline_parallel_first_stage_less_layers"},
    {"TT", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, recomputes_each_layer,
     "full activation checkpointing takes every layer for itself", "recompute", "recompute all layers, or \"op\""},
    {"TT", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, titan_experts_reach,
     "experts are spread over at least as many ranks as tensors", "ep tp",
     "raise expert_parallel_degree to tensor_parallel_degree, or use Megatron with expert tensor parallelism"},
};

static bool nanotron_experts(const struct tpp_rule_context *c)
{
    return c->s->expert_parallel == 1;
}

static bool nanotron_heads(const struct tpp_rule_context *c)
{
    return heads_divide(c) && c->num_query_groups >= c->tensor_parallel && key_value_heads_divide(c);
}

static bool nanotron_accumulation(const struct tpp_rule_context *c)
{
    return c->num_micro_batches >= c->pipeline_parallel - 1;
}

static bool nanotron_zero(const struct tpp_rule_context *c)
{
    return c->s->zero_stage <= 1;
}

static bool recomputes_all_or_nothing(const struct tpp_rule_context *c)
{
    return c->s->recompute != TPP_RULE_GRANULARITY_SELECTIVE && recomputes_each_layer(c);
}

static bool no_split_of_layers(const struct tpp_rule_context *c)
{
    return no_counted_ends(c) && !c->s->account_for_embedding && !c->s->account_for_loss;
}

/* Experts are cut by the tensor parallel size like the rest. */
static bool nanotron_expert_tensor(const struct tpp_rule_context *c)
{
    return !c->is_moe || c->expert_tensor_parallel == c->tensor_parallel;
}

static bool nothing_is_offloaded(const struct tpp_rule_context *c)
{
    return !c->s->optimizer_cpu_offload;
}

static const struct tpp_rule nanotron_rules[] = {
    {"NT-1", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, world_is_product,
     "tensor * pipeline * context * data parallel sizes must be the number of GPUs", "world dp tp pp cp",
     "change a size"},
    {"NT-2", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, nanotron_experts, "expert parallelism does not work", "ep",
     "set expert_parallel_size to 1"},
    {"NT-3", TPP_RULE_AT_BUILD, TPP_RULE_EVER, nanotron_heads,
     "the heads must be multiples of the tensor parallel size and of the key/value heads, of which each rank needs one",
     "tp heads groups", "lower the tensor parallel size"},
    {"NT-4", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, nanotron_accumulation,
     "1f1b needs at least one micro-batch less than stages", "micro-batches pp",
     "raise batch_accumulation_per_replica"},
    {"NT-5", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, batch_divides,
     "the global batch is micro batch * accumulation * data parallel size", "global-batch micro-batch dp",
     "change the batch"},
    {"NT", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, nanotron_zero, "zero_stage must be 0 or 1", "zero",
     "set zero_stage to 1"},
    {"NT", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, no_interleaving, "there is no interleaved schedule", "vp",
     "use one stage a rank"},
    {"NT", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, recomputes_all_or_nothing,
     "recompute_layer recomputes every layer whole, or none", "recompute", "recompute all layers or none"},
    {"NT-6", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, no_split_of_layers,
     "layers are spread over the stages by their cost: nothing sets their number", "first-layers last-layers",
     "leave the split to it"},
    {"NT", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, no_exchange_of_heads,
     "context parallelism is a ring or gathers keys and values: it exchanges no heads", "cp",
     "use a ring or all-gather"},
    {"NT", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, no_bucket_size,
     "ddp_bucket_cap_mb counts megabytes of all ranks alike: a plan's buckets count elements", "bucket gather-bucket",
     "leave bucket sizes to the framework"},
    {"NT", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, no_tensor_overlap, "there are no user buffers", "tp",
     "drop the overlap"},
    {"NT", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, nothing_is_offloaded, "nothing is offloaded", "",
     "keep the optimizer on the GPU"},
    {"NT", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, nanotron_expert_tensor,
     "experts are cut by the tensor parallel size like the rest", "etp tp", "use the tensor parallel size"},
};

static bool packed_batch_is_one(const struct tpp_rule_context *c)
{
    return !c->s->packs_sequences || c->s->micro_batch_size == 1;
}

/* Its validate_flex_dispatcher_backend; of Blackwell, DeepEP takes B200 and B300 alone, which is not told apart here.
 */
static bool flex_knows_gpu(const struct tpp_rule_context *c)
{
    return !c->is_moe || c->s->dispatcher != TPP_RULE_FLEX ||
           (c->s->compute_capability >= 8.0 && c->s->compute_capability < 11.0);
}

static const struct tpp_rule bridge_rules[] = {
    {"MB", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, flex_knows_gpu,
     "DeepEP and HybridEP are for GPUs of compute capability 8, 9 and 10", "ep",
     "use model.moe_token_dispatcher_type=alltoall"},
    {"MB", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, packed_batch_is_one,
     "packed sequences are trained with a micro-batch of one", "micro-batch",
     "use a micro-batch of 1 and a longer packed sequence"},
};

const struct tpp_rule_group tpp_rules_bridge = TPP_RULE_GROUP(bridge_rules, NULL);
const struct tpp_rule_group tpp_rules_deepspeed = TPP_RULE_GROUP(deepspeed_rules, NULL);
const struct tpp_rule_group tpp_rules_swift = TPP_RULE_GROUP(swift_rules, NULL);
const struct tpp_rule_group tpp_rules_torchtitan = TPP_RULE_GROUP(torchtitan_rules, NULL);
const struct tpp_rule_group tpp_rules_nanotron = TPP_RULE_GROUP(nanotron_rules, NULL);
