#include "costmodel/strategy.h"

#include <stddef.h>
#include <string.h>

/* No size is larger than the world, and products of three fit 64 bits. */
#define MAX_SIZE TPP_JOB_MAX_GPUS

struct tpp_strategy tpp_strategy_defaults(void)
{
    return (struct tpp_strategy){
        .tensor_parallel = 1,
        .pipeline_parallel = 1,
        .virtual_pipeline_stages = 1,
        .context_parallel = 1,
        .expert_parallel = 1,
        .expert_tensor_parallel = 1,
        .micro_batch_size = 1,
        .schedule = TPP_SCHEDULE_1F1B,
        .reshard_after_forward = true,
        .overlap_grad_reduce = true,
        .overlap_param_gather = true,
        .align_grad_reduce = true,
    };
}

double tpp_strategy_offload_fraction(const struct tpp_strategy *s)
{
    if (s->offload != TPP_OFFLOAD_OPTIMIZER)
        return 0;
    return s->offload_percent > 0 ? s->offload_percent / 100.0 : 1;
}

uint32_t tpp_strategy_group_size(const struct tpp_strategy *s)
{
    const uint32_t given = s->microbatch_group_size > 0 ? s->microbatch_group_size : s->pipeline_parallel;
    return s->num_micro_batches < given ? (uint32_t)s->num_micro_batches : given;
}

/* What a rank's copy of the model takes: t p c ranks. */
static uint64_t model_ranks(const struct tpp_strategy *s)
{
    return (uint64_t)s->tensor_parallel * s->pipeline_parallel * s->context_parallel;
}

static enum tpp_code check_size(const char *where, uint64_t value, uint64_t max, struct tpp_error *err)
{
    if (value < 1 || value > max) {
        return tpp_fail(err, TPP_E_STRATEGY, where, NULL, "a size of %llu is outside 1 to %llu",
                        (unsigned long long)value, (unsigned long long)max);
    }
    return TPP_OK;
}

static enum tpp_code check_base_sizes(const struct tpp_strategy *s, struct tpp_error *err)
{
    const struct {
        const char *where;
        uint64_t value, max;
    } sizes[] = {
        {"strategy.tensor_parallel", s->tensor_parallel, MAX_SIZE},
        {"strategy.pipeline_parallel", s->pipeline_parallel, TPP_MAX_PIPELINE_PARALLEL},
        {"strategy.virtual_pipeline_stages", s->virtual_pipeline_stages, TPP_MAX_CHUNKS},
        {"strategy.context_parallel", s->context_parallel, MAX_SIZE},
        {"strategy.expert_parallel", s->expert_parallel, MAX_SIZE},
        {"strategy.expert_tensor_parallel", s->expert_tensor_parallel, MAX_SIZE},
        {"strategy.micro_batch_size", s->micro_batch_size, UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        enum tpp_code code = check_size(sizes[i].where, sizes[i].value, sizes[i].max, err);
        if (code != TPP_OK) {
            return code;
        }
    }
    return check_size("strategy.virtual_pipeline_stages", (uint64_t)s->pipeline_parallel * s->virtual_pipeline_stages,
                      TPP_MAX_CHUNKS, err);
}

/* dp = N / (t p c): cost-model 1, launch-formats 1.4 item 1. */
static enum tpp_code complete_data_parallel(struct tpp_strategy *s, const struct tpp_job *job, struct tpp_error *err)
{
    const uint64_t ranks = model_ranks(s);
    if (s->data_parallel == 0) {
        if (job->num_gpus % ranks != 0) {
            return tpp_fail(err, TPP_E_STRATEGY, "strategy.data_parallel",
                            "choose sizes whose product divides the number of GPUs",
                            "%u GPUs do not divide by tp * pp * cp = %u * %u * %u", job->num_gpus, s->tensor_parallel,
                            s->pipeline_parallel, s->context_parallel);
        }
        s->data_parallel = (uint32_t)(job->num_gpus / ranks);
    }
    /* ranks may be as large as 2^60: divide before multiplying. */
    if (job->num_gpus % ranks != 0 || job->num_gpus / ranks != s->data_parallel) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.data_parallel", "leave dp out: it follows from the other sizes",
                        "tp * pp * cp * dp = %u * %u * %u * %u is not the %u GPUs of the job", s->tensor_parallel,
                        s->pipeline_parallel, s->context_parallel, s->data_parallel, job->num_gpus);
    }
    return TPP_OK;
}

/* m = GBS / (dp b), exact: cost-model 1.1. */
static enum tpp_code complete_micro_batches(struct tpp_strategy *s, const struct tpp_job *job, struct tpp_error *err)
{
    const uint64_t at_once = (uint64_t)s->data_parallel * s->micro_batch_size;
    if (job->global_batch_size % at_once != 0) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.micro_batch_size",
                        "change the global batch size, or choose a micro-batch that divides it",
                        "a global batch of %llu sequences does not divide by dp * mbs = %u * %u",
                        (unsigned long long)job->global_batch_size, s->data_parallel, s->micro_batch_size);
    }
    const uint64_t micro_batches = job->global_batch_size / at_once;
    if (s->num_micro_batches == 0) {
        s->num_micro_batches = micro_batches;
    }
    if (s->num_micro_batches != micro_batches) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy.num_micro_batches",
                        "leave gas out: it follows from the global batch size",
                        "%llu micro-batches of dp * mbs = %u * %u sequences are not the global batch of %llu",
                        (unsigned long long)s->num_micro_batches, s->data_parallel, s->micro_batch_size,
                        (unsigned long long)job->global_batch_size);
    }
    return TPP_OK;
}

enum tpp_code tpp_strategy_complete(struct tpp_strategy *strategy, const struct tpp_job *job, struct tpp_error *err)
{
    enum tpp_code code = check_base_sizes(strategy, err);
    if (code == TPP_OK) {
        code = complete_data_parallel(strategy, job, err);
    }
    if (code == TPP_OK) {
        code = complete_micro_batches(strategy, job, err);
    }
    if (code == TPP_OK && strategy->virtual_pipeline_stages > 1 && strategy->schedule == TPP_SCHEDULE_1F1B) {
        strategy->schedule = TPP_SCHEDULE_INTERLEAVED;
    }
    return code;
}

/* Slots of one chunk when embedding and loss count as layers (cost-model 2.6). */
static uint32_t accounted_layers(const struct tpp_strategy *s, uint32_t num_layers)
{
    return num_layers + s->account_for_embedding + s->account_for_loss + s->last_chunk_less;
}

/* Layers of a whole stage with first and last counts; the stages between share the rest. */
static uint32_t uneven_stage_layers(const struct tpp_strategy *s, uint32_t num_layers, uint32_t stage)
{
    if (stage == 0 && s->first_stage_layers > 0) {
        return s->first_stage_layers;
    }
    if (stage == s->pipeline_parallel - 1 && s->last_stage_layers > 0) {
        return s->last_stage_layers;
    }
    const uint32_t given = (s->first_stage_layers > 0) + (s->last_stage_layers > 0);
    return (num_layers - s->first_stage_layers - s->last_stage_layers) / (s->pipeline_parallel - given);
}

uint32_t tpp_strategy_chunk_layers(const struct tpp_strategy *strategy, uint32_t num_layers, uint32_t stage,
                                   uint32_t chunk)
{
    const uint32_t p = strategy->pipeline_parallel, v = strategy->virtual_pipeline_stages;
    if (strategy->balanced_split) {
        return num_layers / p + (stage < num_layers % p);
    }
    if (strategy->first_stage_layers > 0 || strategy->last_stage_layers > 0) {
        return uneven_stage_layers(strategy, num_layers, stage) / v;
    }
    const bool is_first = strategy->account_for_embedding && stage == 0 && chunk == 0;
    const bool is_last = stage == p - 1 && chunk == v - 1;
    return accounted_layers(strategy, num_layers) / (p * v) - is_first -
           (is_last ? strategy->account_for_loss + strategy->last_chunk_less : 0);
}

/* Every field in the order of the struct; the first that differs decides. */
#define ORDER(field)                                                                                                   \
    do {                                                                                                               \
        if (a->field != b->field) {                                                                                    \
            return a->field < b->field ? -1 : 1;                                                                       \
        }                                                                                                              \
    } while (0)

static int compare_sizes(const struct tpp_strategy *a, const struct tpp_strategy *b)
{
    ORDER(tensor_parallel);
    ORDER(pipeline_parallel);
    ORDER(virtual_pipeline_stages);
    ORDER(context_parallel);
    ORDER(expert_parallel);
    ORDER(expert_tensor_parallel);
    ORDER(data_parallel);
    ORDER(micro_batch_size);
    ORDER(num_micro_batches);
    ORDER(sequence_parallel);
    ORDER(context_kind);
    ORDER(ulysses_parallel);
    return 0;
}

int tpp_strategy_compare(const struct tpp_strategy *a, const struct tpp_strategy *b)
{
    const int sizes = compare_sizes(a, b);
    if (sizes != 0) {
        return sizes;
    }
    ORDER(zero_stage);
    ORDER(shard_group);
    ORDER(reshard_after_forward);
    ORDER(recompute);
    ORDER(recompute_modules);
    ORDER(recompute_method);
    ORDER(recompute_num_layers);
    ORDER(schedule);
    ORDER(microbatch_group_size);
    ORDER(first_stage_layers);
    ORDER(last_stage_layers);
    ORDER(account_for_embedding);
    ORDER(account_for_loss);
    ORDER(last_chunk_less);
    ORDER(balanced_split);
    ORDER(reduce_bucket_size);
    ORDER(allgather_bucket_size);
    ORDER(overlap_grad_reduce);
    ORDER(overlap_param_gather);
    ORDER(align_grad_reduce);
    ORDER(tp_comm_overlap);
    ORDER(dispatch);
    ORDER(expert_overlap);
    ORDER(shared_overlap);
    ORDER(offload);
    ORDER(offload_percent);
    ORDER(offload_layers);
    ORDER(vocabulary_parallel);
    ORDER(placed_tensor_ranks_per_node);
    ORDER(placed_context_ranks_per_node);
    return 0;
}

const char *tpp_recompute_name(enum tpp_recompute recompute)
{
    static const char *const names[] = {"none", "selective", "full"};
    return (unsigned)recompute <= TPP_RECOMPUTE_FULL ? names[recompute] : NULL;
}

const char *tpp_schedule_name(enum tpp_schedule schedule)
{
    static const char *const names[TPP_SCHEDULE_COUNT] = {"gpipe", "1f1b", "interleaved", "zb-h1",    "zb-h2",
                                                          "zb-1p", "zb-2p", "zb-v",       "dualpipe", "dualpipev"};
    return (unsigned)schedule < TPP_SCHEDULE_COUNT ? names[schedule] : NULL;
}

bool tpp_schedule_is_v_shaped(enum tpp_schedule schedule)
{
    return schedule == TPP_SCHEDULE_ZB_V || schedule == TPP_SCHEDULE_DUALPIPEV;
}

bool tpp_schedule_pairs_passes(enum tpp_schedule schedule)
{
    return schedule == TPP_SCHEDULE_DUALPIPE || schedule == TPP_SCHEDULE_DUALPIPEV;
}

uint32_t tpp_schedule_model_copies(enum tpp_schedule schedule)
{
    return schedule == TPP_SCHEDULE_DUALPIPE ? 2 : 1;
}

const char *tpp_context_kind_name(enum tpp_context_kind kind)
{
    static const char *const names[] = {"ring", "all-gather", "ulysses", "hybrid"};
    return (unsigned)kind <= TPP_CONTEXT_HYBRID ? names[kind] : NULL;
}

const char *tpp_dispatch_name(enum tpp_dispatch dispatch)
{
    static const char *const names[] = {"all-to-all", "deepep", "hybridep", "all-gather"};
    return (unsigned)dispatch <= TPP_DISPATCH_ALL_GATHER ? names[dispatch] : NULL;
}

const char *tpp_vocabulary_parallel_name(enum tpp_vocabulary_parallel kind)
{
    static const char *const names[] = {"none", "one-barrier", "two-barriers", "interlaced"};
    return (unsigned)kind <= TPP_VOCABULARY_PARALLEL_INTERLACED ? names[kind] : NULL;
}

uint32_t tpp_strategy_vocabulary_shards(const struct tpp_strategy *strategy)
{
    return strategy->vocabulary_parallel == TPP_VOCABULARY_PARALLEL_NONE ? 1 : strategy->pipeline_parallel;
}

static const char *const module_names[] = {"core_attn", "moe_act", "layernorm",     "mla_up_proj",
                                           "mlp",       "moe",     "shared_experts"};
enum { NUM_MODULES = sizeof module_names / sizeof module_names[0] };

const char *tpp_recompute_module_name(uint32_t bit)
{
    for (unsigned i = 0; i < NUM_MODULES; i++) {
        if (bit == UINT32_C(1) << i) {
            return module_names[i];
        }
    }
    return NULL;
}

bool tpp_recompute_module_parse(const char *text, uint32_t *bit)
{
    for (unsigned i = 0; i < NUM_MODULES; i++) {
        if (strcmp(text, module_names[i]) == 0) {
            *bit = UINT32_C(1) << i;
            return true;
        }
    }
    return false;
}

bool tpp_recompute_modules_parse(const char *text, uint32_t *bits)
{
    char word[32];
    *bits = 0;
    for (;;) {
        const size_t length = strcspn(text, "+");
        uint32_t bit;
        if (length >= sizeof word)
            return false;
        memcpy(word, text, length);
        word[length] = '\0';
        if (!tpp_recompute_module_parse(word, &bit) || (*bits & bit) != 0)
            return false;
        *bits |= bit;
        if (text[length] == '\0')
            return true;
        text += length + 1;
    }
}
