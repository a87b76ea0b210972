#include "costmodel/runs/run_inputs.h"

#include "costmodel/runs/run_recipe.h"
#include "costmodel/runs/run_stack.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SIZE UINT32_MAX

bool tpp_run_skip(struct tpp_run *run, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(run->skipped, sizeof run->skipped, format, arguments);
    va_end(arguments);
    return false;
}

/* Sizes that every prediction needs, with the name a person would look for. */
static const char *missing_size(const struct tpp_run_facts *facts)
{
    const struct {
        uint64_t value;
        const char *name;
    } sizes[] = {
        {facts->model.layers, "number of layers"},   {facts->model.hidden, "hidden size"},
        {facts->model.heads, "number of heads"},     {facts->model.ffn_hidden, "ffn hidden size"},
        {facts->model.vocab, "vocabulary"},          {facts->model.sequence, "sequence length"},
        {facts->num_gpus, "number of GPUs"},         {facts->parallel.tensor, "tensor-parallel size"},
        {facts->parallel.pipeline, "pipeline size"}, {facts->parallel.data, "data-parallel size"},
        {facts->global_batch, "global batch"},       {facts->micro_batch, "micro-batch"},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i].value == 0)
            return sizes[i].name;
        if (sizes[i].value > MAX_SIZE)
            return "plausible size (one is beyond 2^32)";
    }
    if (facts->parallel.pipeline > 1 && facts->parallel.chunks == 0)
        return "number of virtual stages";
    if (facts->recompute[0] == '\0')
        return "recomputation";
    if (facts->precision[0] == '\0')
        return "precision";
    if (facts->parallel.data > 1 && !facts->parallel.has_zero_stage &&
        facts->parallel.distributed_optimizer == TPP_RUN_UNSAID)
        return "sharding of the optimizer";
    return NULL;
}

static bool check_model_kind(const struct tpp_run_facts *facts, struct tpp_run *run)
{
    if (facts->model.family[0] != '\0')
        return tpp_run_skip(run, "hybrid models are not modelled: %.100s", facts->model.family);
    const struct tpp_run_model_facts *model = &facts->model;
    if (model->has_experts && (model->experts == 0 || model->experts_per_token == 0 || model->expert_ffn == 0 ||
                               model->experts_per_token > model->experts || model->experts > MAX_SIZE ||
                               model->expert_ffn > MAX_SIZE || model->shared_ffn > MAX_SIZE))
        return tpp_run_skip(run, "sizes of the experts not published");
    if (model->has_latent_attention && (model->kv_lora_rank == 0 || model->qk_head_dim == 0 || model->v_head_dim == 0))
        return tpp_run_skip(run, "ranks of the latent attention not published");
    return true;
}

/* Schedules other than the classic three, and pipelines whose stages are not runs of whole layers. */
static bool check_schedule(const struct tpp_run_facts *facts, struct tpp_run *run)
{
    static const char *const known[] = {"", "1f1b", "interleaved", "gpipe", "afab", "interlaced"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(facts->schedule, known[i]) != 0)
            continue;
        if (tpp_run_mentions(facts->schedule_detail, "redistributed"))
            return tpp_run_skip(run, "layers of each stage not published (redistributed)");
        return true;
    }
    return tpp_run_skip(run, "pipeline schedule %.60s is not modelled", facts->schedule);
}

static bool check_recompute(const struct tpp_run_facts *facts, struct tpp_run *run)
{
    if (strcmp(facts->recompute, "selective") == 0 && facts->has_unknown_module)
        return tpp_run_skip(run, "a recomputed module is not known");
    if (strcmp(facts->recompute, "selective") == 0 &&
        (tpp_run_mentions(facts->recompute_detail, "JAX") || tpp_run_mentions(facts->recompute_detail, "SAVE_")))
        return tpp_run_skip(run, "JAX rematerialisation policies are not modelled");
    if (strcmp(facts->recompute, "none") == 0 || strcmp(facts->recompute, "selective") == 0 ||
        strcmp(facts->recompute, "full") == 0)
        return true;
    return tpp_run_skip(run, "recomputation %.60s is not known", facts->recompute);
}

bool tpp_run_check_facts(const struct tpp_run_facts *facts, struct tpp_run *run)
{
    if (!check_model_kind(facts, run))
        return false;
    const char *missing = missing_size(facts);
    if (missing != NULL)
        return tpp_run_skip(run, "%s not published", missing);
    if (facts->parallel.offloads && !facts->parallel.offloads_optimizer)
        return tpp_run_skip(run, "offloading of parameters, or of activations that are not named, is not modelled");
    if (tpp_run_mentions(facts->notes, "device_map") && facts->num_gpus > 1)
        return tpp_run_skip(run, "layers spread over GPUs without a schedule (device_map) are not modelled");
    const struct tpp_run_parallel_facts *parallel = &facts->parallel;
    const double context = parallel->context == 0 ? 1 : (double)parallel->context;
    if ((double)parallel->tensor * (double)parallel->pipeline * (double)parallel->data * context !=
        (double)facts->num_gpus)
        return tpp_run_skip(run, "sizes do not multiply to %llu GPUs", (unsigned long long)facts->num_gpus);
    return check_schedule(facts, run) && check_recompute(facts, run);
}

static bool is_family(const struct tpp_run_facts *facts, const char *word)
{
    return tpp_run_mentions(facts->model.name, word);
}

/* Position embedding: the row's word, else by family (cost-model 2.1). */
static enum tpp_position read_position(const struct tpp_run_facts *facts)
{
    const char *text = facts->model.position;
    if (tpp_run_mentions(text, "rope") || tpp_run_mentions(text, "rotary"))
        return TPP_POSITION_ROPE;
    if (tpp_run_mentions(text, "learned"))
        return TPP_POSITION_LEARNED;
    if (tpp_run_mentions(text, "alibi") || is_family(facts, "bloom") || is_family(facts, "Baichuan2-13B"))
        return TPP_POSITION_ALIBI;
    if (tpp_run_mentions(text, "none"))
        return TPP_POSITION_NONE;
    return facts->model.gated == TPP_RUN_YES || is_family(facts, "nemotron") ? TPP_POSITION_ROPE : TPP_POSITION_LEARNED;
}

/* Gated models are Llama's kind: RMSNorm, no biases (Qwen 1, 1.5, 2: on QKV). The others are GPT's: LayerNorm and
 * biases everywhere; Nemotron has neither biases nor GELU (squared ReLU). */
static void set_family(const struct tpp_run_facts *facts, struct tpp_model *model)
{
    const bool is_gated = facts->model.gated == TPP_RUN_YES;
    const bool is_nemotron = is_family(facts, "nemotron");
    const bool has_bias =
        facts->model.bias == TPP_RUN_UNSAID ? !is_gated && !is_nemotron : facts->model.bias == TPP_RUN_YES;
    model->gated_mlp = is_gated;
    model->norm = is_gated ? TPP_NORM_RMS : TPP_NORM_LAYER;
    model->activation = is_gated ? TPP_ACTIVATION_SILU : TPP_ACTIVATION_GELU;
    if (is_nemotron)
        model->activation = TPP_ACTIVATION_SQUARED_RELU;
    /* gpt-oss: on attention, router and experts. */
    const bool is_gpt_oss = is_family(facts, "gpt-oss");
    model->qkv_bias = has_bias || is_gpt_oss || (is_family(facts, "qwen") && !is_family(facts, "qwen3"));
    model->output_bias = has_bias || is_gpt_oss;
    model->mlp_bias = has_bias;
    model->router_bias = model->expert_bias = is_gpt_oss && facts->model.has_experts;
    model->embedding_norm = is_family(facts, "bloom");
    model->norms_per_layer = is_family(facts, "gemma2") || is_family(facts, "gemma-2") ? 4 : 2;
    model->qk_norm = facts->model.qk_norm == TPP_RUN_YES;
}

static void set_experts(const struct tpp_run_model_facts *from, struct tpp_model *model)
{
    model->num_experts = (uint32_t)from->experts;
    model->experts_per_token = (uint32_t)from->experts_per_token;
    model->moe_ffn_hidden_size = (uint32_t)from->expert_ffn;
    model->shared_expert_hidden_size =
        (uint32_t)(from->shared_ffn > 0 ? from->shared_ffn : from->shared_experts * from->expert_ffn);
    model->first_k_dense = (uint32_t)from->dense_layers;
    model->moe_layer_period = from->expert_period > 0 ? (uint32_t)from->expert_period : 1;
}

static void set_latent(const struct tpp_run_model_facts *from, struct tpp_model *model)
{
    model->q_lora_rank = (uint32_t)from->q_lora_rank;
    model->kv_lora_rank = (uint32_t)from->kv_lora_rank;
    model->qk_nope_head_dim = (uint32_t)from->qk_head_dim;
    model->qk_rope_head_dim = (uint32_t)from->qk_rope_head_dim;
    model->v_head_dim = (uint32_t)from->v_head_dim;
    model->head_dim = model->qk_nope_head_dim + model->qk_rope_head_dim;
    model->num_query_groups = model->num_attention_heads;
}

bool tpp_run_read_model(const struct tpp_run_facts *facts, struct tpp_run *run)
{
    const struct tpp_run_model_facts *from = &facts->model;
    struct tpp_model *model = &run->model;
    struct tpp_error err;
    if (from->gated == TPP_RUN_UNSAID)
        return tpp_run_skip(run, "kind of MLP (gated or not) not published");
    if (from->head_dim == 0 && from->hidden % from->heads != 0)
        return tpp_run_skip(run, "head dimension not published and hidden size not divisible by the heads");
    snprintf(model->name, sizeof model->name, "%s", from->name);
    model->num_layers = (uint32_t)from->layers;
    model->hidden_size = (uint32_t)from->hidden;
    model->num_attention_heads = (uint32_t)from->heads;
    model->num_query_groups = (uint32_t)(from->kv_heads != 0 ? from->kv_heads : from->heads);
    model->head_dim = (uint32_t)(from->head_dim != 0 ? from->head_dim : from->hidden / from->heads);
    model->ffn_hidden_size = (uint32_t)from->ffn_hidden;
    model->vocab_size = (uint32_t)from->vocab;
    model->position = read_position(facts);
    if (model->position == TPP_POSITION_LEARNED)
        model->learned_position_rows = (uint32_t)from->sequence;
    model->rope_theta = model->position == TPP_POSITION_ROPE ? 10000 : 0;
    model->rotary_fraction = model->position == TPP_POSITION_ROPE ? 1 : 0;
    set_family(facts, model);
    if (model->qk_norm)
        model->qk_norm_elements = 2 * model->head_dim;
    if (from->has_experts)
        set_experts(from, model);
    if (from->has_latent_attention)
        set_latent(from, model);
    model->final_norm = true;
    model->tied_embeddings = from->tied == TPP_RUN_YES;
    if (from->sliding_window > 0 && from->sliding_window < from->sequence) {
        if (!tpp_run_mentions(from->window_pattern, "alternate"))
            return tpp_run_skip(run, "which layers use the sliding window is not published");
        model->sliding_window = (uint32_t)from->sliding_window;
        model->sliding_window_layers = (model->num_layers + 1) / 2; /* the first layer has it */
    }
    if (tpp_model_check(model, &err) != TPP_OK)
        return tpp_run_skip(run, "model: %s", err.message);
    return true;
}

/* S23 trains its adapters with lora_dropout 0.1 (scripts/benchmarks/scenarios*.yaml). */
static double adapter_dropout(const struct tpp_run_facts *facts)
{
    return tpp_run_mentions(facts->repository, "fms-acceleration") ? 0.1 : 0;
}

/* "LoRA r=16 on q,k,v,o", "LoRA rank 8 on c_attn", "LoRA rank 16 on *_proj". */
static void read_adapter(const char *notes, struct tpp_job *job)
{
    for (; *notes != '\0'; notes++) {
        const char *number = NULL;
        if (strncmp(notes, "LoRA r=", 7) == 0)
            number = notes + 7;
        else if (strncmp(notes, "LoRA rank ", 10) == 0)
            number = notes + 10;
        if (number == NULL)
            continue;
        char *end;
        const unsigned long rank = strtoul(number, &end, 10);
        if (rank >= 1 && rank <= 4096)
            job->lora_rank = (uint32_t)rank;
        if (strncmp(end, " on q,k,v,o", 11) == 0)
            job->lora_targets = TPP_LORA_ATTENTION;
        else if (strncmp(end, " on q_proj, v_proj", 18) == 0)
            job->lora_targets = TPP_LORA_QV;
        else if (strncmp(end, " on c_attn", 10) == 0)
            job->lora_targets = TPP_LORA_QKV;
        return;
    }
}

static bool read_precision(const struct tpp_run_facts *facts, struct tpp_run *run)
{
    if (tpp_precision_parse(facts->precision, &run->job.precision))
        return true;
    return tpp_run_skip(run, "%.40s GEMMs are not modelled", facts->precision);
}

/* A router that nothing balances by force, in the first steps of training from scratch: one rank's experts take all tokens that they can,
 * every choice of each where it has as many experts [fit on the peak of torchao's bf16 steps of two layers of Llama-4 Scout, 145.55 GiB,
 * 34 more than balanced ones need; the times of the same table agree]. */
static double unforced_imbalance(const struct tpp_model *model, double expert_parallel)
{
    const double experts = model->num_experts / expert_parallel, choices = model->experts_per_token;
    return fmax(1, expert_parallel * fmin(1, experts / choices));
}

bool tpp_run_read_job(const struct tpp_run_facts *facts, struct tpp_run *run)
{
    struct tpp_job *job = &run->job;
    struct tpp_error err;
    *job = tpp_job_defaults();
    job->num_gpus = (uint32_t)facts->num_gpus;
    job->sequence_length = facts->model.sequence;
    job->global_batch_size = facts->global_batch;
    if (!read_precision(facts, run))
        return false;
    if (!tpp_task_parse(facts->task, &job->task))
        return tpp_run_skip(run, "task %.60s is not known", facts->task[0] == '\0' ? "(none)" : facts->task);
    if (tpp_job_is_adapter(job)) {
        job->lora_dropout = adapter_dropout(facts);
        /* NeMo's finetune_recipe(performance_mode=True) and the performance recipes of Megatron-Bridge:
         * peft.target_modules = ["linear_qkv"]. */
        if (tpp_run_framework(facts) == TPP_FRAMEWORK_NEMO)
            job->lora_targets = TPP_LORA_QKV;
        read_adapter(facts->notes, job);
    }
    job->mtp_num_layers = (uint32_t)(facts->model.mtp_layers <= UINT32_MAX ? facts->model.mtp_layers : UINT32_MAX);
    /* "MoE token-drop (capacity factor 1, padded)", "capacity factor 1.0 padded" of NVIDIA's recipes. */
    if (run->model.num_experts > 0 && tpp_run_mentions(facts->notes, "capacity factor 1"))
        job->expert_capacity_factor = 1;
    if (run->model.num_experts > 0 && facts->parallel.expert > 1 && tpp_run_mentions(facts->notes, "routing not forced"))
        job->expert_imbalance = unforced_imbalance(&run->model, (double)facts->parallel.expert);
    job->hidden_dropout = job->attention_dropout = tpp_run_dropout(facts);
    job->attention_block_length = tpp_run_packed_document_tokens(facts);
    if (tpp_job_check(job, &run->model, &err) != TPP_OK)
        return tpp_run_skip(run, "job: %s", err.message);
    return true;
}

/* The layouts that Megatron-Bridge's recipes write out for DeepSeek-V3 and Kimi-K2, whose 61 layers divide over nothing
 * (deepseek_v3.py, "Et*4|(t*4|)*14tmL" and the like; perf recipes, "Et|(tt|)*30mL"): all chunks alike but the last, which
 * holds what is left beside the loss and the multi-token-prediction block; the first is one short when they do not
 * come out otherwise. */
static bool read_explicit_layout(struct tpp_run *run, uint32_t chunks)
{
    const uint32_t layers = run->model.num_layers;
    for (uint32_t short_first = 0; short_first <= 1; short_first++) {
        const uint32_t each = (layers + short_first + chunks - 1) / chunks, less = each * chunks - layers - short_first;
        if (less > each)
            continue;
        run->strategy.account_for_embedding = short_first == 1;
        run->strategy.last_chunk_less = less;
        return run->model.kv_lora_rank > 0;
    }
    return false;
}

/* Layers that do not divide evenly: Megatron's scripts count embedding and loss as a layer each where that makes them
 * divide (126 layers of Llama 405B, S9; BigScience's "type:transformer|embedding"); DeepSpeed's engine and the other
 * stacks balance whole layers. */
static bool read_split(const struct tpp_run_facts *facts, struct tpp_run *run)
{
    struct tpp_strategy *strategy = &run->strategy;
    const uint32_t chunks = strategy->pipeline_parallel * strategy->virtual_pipeline_stages;
    const uint32_t layers = run->model.num_layers;
    const bool is_megatron = run->stack.engine == TPP_ENGINE_MEGATRON;
    const bool counts_embedding = tpp_run_mentions(facts->notes, "embedding stages count as one layer");
    if (layers % chunks == 0 && !counts_embedding)
        return true;
    if ((layers + 2) % chunks == 0 && (is_megatron || counts_embedding)) {
        strategy->account_for_embedding = strategy->account_for_loss = true;
        return true;
    }
    if (is_megatron && read_explicit_layout(run, chunks))
        return true;
    if (is_megatron)
        return tpp_run_skip(run, "layers of each stage not published and %u do not divide over %u", layers, chunks);
    strategy->balanced_split = layers % chunks != 0;
    return true;
}

static void read_context(const struct tpp_run_facts *facts, struct tpp_strategy *strategy)
{
    const uint64_t ulysses = facts->parallel.ulysses;
    strategy->context_kind = TPP_CONTEXT_RING;
    if (strategy->context_parallel == 1)
        return;
    if (ulysses == strategy->context_parallel || tpp_run_mentions(facts->notes, "CP via a2a"))
        strategy->context_kind = TPP_CONTEXT_ULYSSES;
    else if (ulysses > 1 && ulysses < strategy->context_parallel) {
        strategy->context_kind = TPP_CONTEXT_HYBRID;
        strategy->ulysses_parallel = (uint32_t)ulysses;
    }
}

static void read_sharding(const struct tpp_run_facts *facts, const struct tpp_stack *stack,
                          struct tpp_strategy *strategy)
{
    const struct tpp_run_parallel_facts *from = &facts->parallel;
    strategy->zero_stage = from->has_zero_stage ? (uint32_t)from->zero_stage
                                                : from->distributed_optimizer == TPP_RUN_YES; /* S19: null, true */
    if (tpp_engine_is_fsdp(stack->engine)) {
        strategy->zero_stage = 3;
        strategy->reshard_after_forward = strcmp(from->sharding, "SHARD_GRAD_OP") != 0 &&
                                          !tpp_run_mentions(facts->notes, "reshard_after_forward false");
    }
    const uint64_t group = tpp_engine_is_fsdp(stack->engine) ? from->fsdp_group : from->zero_group;
    const uint64_t ranks = (uint64_t)strategy->data_parallel * strategy->context_parallel;
    if (strategy->zero_stage > 0 && group > 1 && group < ranks)
        strategy->shard_group = (uint32_t)group;
    if (from->offloads_optimizer)
        strategy->offload = TPP_OFFLOAD_OPTIMIZER;
    strategy->offload_layers = (uint32_t)(from->offloaded_layers < UINT32_MAX ? from->offloaded_layers : UINT32_MAX);
}

static void read_recompute(const struct tpp_run_facts *facts, const struct tpp_model *model,
                           struct tpp_strategy *strategy)
{
    if (strcmp(facts->recompute, "selective") == 0) {
        strategy->recompute = TPP_RECOMPUTE_SELECTIVE;
        strategy->recompute_modules = facts->recompute_modules;
    }
    if (strcmp(facts->recompute, "full") != 0)
        return;
    strategy->recompute = TPP_RECOMPUTE_FULL;
    if (tpp_run_mentions(facts->recompute_detail, "every 2nd layer")) {
        const uint32_t layers = model->num_layers / strategy->pipeline_parallel;
        strategy->recompute_method = TPP_RECOMPUTE_BLOCK;
        strategy->recompute_num_layers = layers > 1 ? layers / 2 : 1;
    }
}

/* Micro-batches of one pipeline; sequences that fill no whole one make a last, smaller micro-batch (llm-foundry). */
static bool read_batch(const struct tpp_run_facts *facts, struct tpp_run *run)
{
    struct tpp_strategy *strategy = &run->strategy;
    if (facts->global_batch % facts->parallel.data != 0)
        return tpp_run_skip(run, "global batch does not divide over the data-parallel ranks");
    const uint64_t sequences = facts->global_batch / facts->parallel.data;
    const uint64_t micro_batch = facts->micro_batch < sequences ? facts->micro_batch : sequences;
    strategy->micro_batch_size = (uint32_t)micro_batch;
    strategy->num_micro_batches = sequences / micro_batch;
    run->remainder_sequences = (uint32_t)(sequences % micro_batch);
    if (run->remainder_sequences != 0 && strategy->pipeline_parallel > 1)
        return tpp_run_skip(run, "micro-batches of unequal size in a pipeline are not modelled");
    return true;
}

/* Megatron-Core's default is the tensor-parallel size (launch-formats 1.4); Megatron-Bridge's performance recipes set 1 for all their
 * models (expert_tensor_parallel_size=1 in every workload_base_configs.py). */
static uint32_t expert_tensor_parallel(const struct tpp_run_facts *facts, const struct tpp_strategy *strategy)
{
    if (facts->parallel.expert_tensor > 0)
        return (uint32_t)facts->parallel.expert_tensor;
    return tpp_run_mentions(facts->framework, "Megatron-Bridge") ? 1 : strategy->tensor_parallel;
}

/* Megatron-Bridge's recipes for DeepSeek-V3 on 1024 H100 (scripts/performance/configs/deepseek, enable_deepep=True,
 * set_moe_a2a_overlap_overrides; False and absent on B200 and GB200), which its tables of the first releases leave out. */
static bool is_bridge_deepseek_on_hopper(const struct tpp_run_facts *facts)
{
    return tpp_run_mentions(facts->framework, "Megatron-Bridge") && is_family(facts, "deepseek-v3") &&
           tpp_run_mentions(facts->gpu, "H100");
}

/* The sources name the dispatcher where it is not NCCL's all-to-all, and the overlap where it is on. NeMo AutoModel's
 * table has "TE + DeepEP" for all its models with experts (docs/performance-summary.md, "Kernel Optimizations"). */
static void read_dispatch(const struct tpp_run_facts *facts, struct tpp_strategy *strategy)
{
    const bool is_bridge_deepseek = is_bridge_deepseek_on_hopper(facts);
    if (tpp_run_has_hybrid_dispatch(facts))
        strategy->dispatch = TPP_DISPATCH_HYBRIDEP;
    else if (tpp_run_mentions(facts->notes, "deepep") || is_bridge_deepseek ||
             tpp_run_mentions(facts->framework, "AutoModel"))
        strategy->dispatch = TPP_DISPATCH_DEEPEP;
    strategy->expert_overlap =
        strategy->expert_parallel > 1 && (is_bridge_deepseek || tpp_run_mentions(facts->notes, "a2a overlap on") ||
                                          tpp_run_mentions(facts->notes, "EP overlap on"));
}

/* The methods of sail-sg/VocabularyParallelism: Vocab-2 (its default) has one barrier, Vocab-1 (--disable-backward-fusion)
 * two. */
static void read_vocabulary(const struct tpp_run_facts *facts, struct tpp_strategy *strategy)
{
    if (strcmp(facts->schedule, "interlaced") == 0)
        strategy->vocabulary_parallel = TPP_VOCABULARY_PARALLEL_INTERLACED;
    else if (tpp_run_mentions(facts->schedule_detail, "vocabulary layers sharded"))
        strategy->vocabulary_parallel = tpp_run_mentions(facts->schedule_detail, "Vocab-1")
                                            ? TPP_VOCABULARY_PARALLEL_TWO_BARRIERS
                                            : TPP_VOCABULARY_PARALLEL_ONE_BARRIER;
}

bool tpp_run_read_strategy(const struct tpp_run_facts *facts, struct tpp_run *run)
{
    const struct tpp_run_parallel_facts *from = &facts->parallel;
    struct tpp_strategy *strategy = &run->strategy;
    *strategy = tpp_strategy_defaults();
    strategy->tensor_parallel = (uint32_t)from->tensor;
    strategy->pipeline_parallel = (uint32_t)from->pipeline;
    strategy->data_parallel = (uint32_t)from->data;
    strategy->context_parallel = from->context > 1 ? (uint32_t)from->context : 1;
    if (run->model.num_experts > 0) {
        strategy->expert_parallel = from->expert > 1 ? (uint32_t)from->expert : 1;
        strategy->expert_tensor_parallel = expert_tensor_parallel(facts, strategy);
        read_dispatch(facts, strategy);
    }
    strategy->virtual_pipeline_stages = from->pipeline > 1 && from->chunks > 1 ? (uint32_t)from->chunks : 1;
    if (from->pipeline > run->model.num_layers || from->chunks > run->model.num_layers)
        return tpp_run_skip(run, "more pipeline stages than layers");
    /* torchtitan's tensor parallelism shards the norms' tokens too (models/llama3/infra/parallelize.py, SequenceParallel) */
    const bool is_torchtitan = tpp_run_framework(facts) == TPP_FRAMEWORK_TORCHTITAN;
    strategy->sequence_parallel = (from->sequence_parallel == TPP_RUN_YES || is_torchtitan) && from->tensor > 1;
    const bool is_gpipe = strcmp(facts->schedule, "gpipe") == 0 || strcmp(facts->schedule, "afab") == 0;
    strategy->schedule = is_gpipe                                ? TPP_SCHEDULE_GPIPE
                         : strategy->virtual_pipeline_stages > 1 ? TPP_SCHEDULE_INTERLEAVED
                                                                 : TPP_SCHEDULE_1F1B;
    read_vocabulary(facts, strategy);
    read_context(facts, strategy);
    read_sharding(facts, &run->stack, strategy);
    read_recompute(facts, &run->model, strategy);
    tpp_run_overlap_read(facts, &run->stack, strategy);
    return read_split(facts, run) && read_batch(facts, run);
}
