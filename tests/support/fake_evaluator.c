/* An evaluator whose costs are cheap, scattered and reproducible: what the tests of the search need. Linked in place of
 * costmodel/evaluate.c. It keeps the one promise the search relies on: variants of a group (planner/space.h) differ in
 * exposed gradient communication and in bucket memory alone. */
#include "costmodel/evaluate.h"

#include <stdlib.h>

struct tpp_evaluator {
    const struct tpp_model *model;
    const struct tpp_hardware *hardware;
    const struct tpp_job *job;
    const struct tpp_stack *stack;
};

enum tpp_code tpp_evaluator_new(const struct tpp_model *model, const struct tpp_hardware *hardware,
                                const struct tpp_job *job, const struct tpp_stack *stack, struct tpp_evaluator **out,
                                struct tpp_error *err)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL) {
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    }
    **out = (struct tpp_evaluator){model, hardware, job, stack};
    return TPP_OK;
}

void tpp_evaluator_free(struct tpp_evaluator *evaluator)
{
    free(evaluator);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

/* 0 .. 1 in 256 steps, so that equal costs happen. */
static double share(uint64_t hash)
{
    return (double)(mix(hash, 77) >> 56) / 255;
}

static uint64_t hash_group(const struct tpp_strategy *s)
{
    const uint64_t fields[] = {s->tensor_parallel,       s->pipeline_parallel, s->virtual_pipeline_stages,
                               s->context_parallel,      s->expert_parallel,   s->expert_tensor_parallel,
                               s->micro_batch_size,      s->sequence_parallel, s->context_kind,
                               s->ulysses_parallel,      s->zero_stage,        s->shard_group,
                               s->reshard_after_forward, s->recompute,         s->recompute_num_layers,
                               s->first_stage_layers,    s->last_stage_layers, s->account_for_embedding,
                               s->account_for_loss,      s->tp_comm_overlap,   s->offload};
    uint64_t hash = 1;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        hash = mix(hash, fields[i]);
    }
    return hash;
}

static uint64_t hash_variant(const struct tpp_strategy *s)
{
    uint64_t hash = mix(hash_group(s), s->reduce_bucket_size);
    hash = mix(hash, s->allgather_bucket_size);
    return mix(hash, s->overlap_grad_reduce * 2u + s->overlap_param_gather);
}

static void cost_memory(const struct tpp_evaluator *evaluator, const struct tpp_strategy *s, struct tpp_memory *memory)
{
    const struct tpp_model *model = evaluator->model;
    const double layer = (4.0 * model->hidden_size + 3.0 * model->ffn_hidden_size) * model->hidden_size;
    const double parameters = model->num_layers * layer / s->tensor_parallel / s->pipeline_parallel;
    const double shard = s->zero_stage > 0 ? (double)s->data_parallel * s->context_parallel : 1;
    memory->terms[TPP_MEMORY_WEIGHTS] = 2 * parameters / (s->zero_stage == 3 ? shard : 1);
    memory->terms[TPP_MEMORY_GRADIENTS] = 4 * parameters / (s->zero_stage >= 2 ? shard : 1);
    memory->terms[TPP_MEMORY_OPTIMIZER] = s->offload == TPP_OFFLOAD_OPTIMIZER ? 0 : 12 * parameters / shard;
    memory->terms[TPP_MEMORY_ACTIVATIONS] = 4e9 * share(hash_group(s)) * s->micro_batch_size;
    memory->terms[TPP_MEMORY_BUCKETS] = 2e10 * share(hash_variant(s));
    memory->peak_allocated_bytes = 0;
    for (int i = 0; i < TPP_MEMORY_RESERVE; i++) {
        memory->peak_allocated_bytes += memory->terms[i];
    }
    memory->terms[TPP_MEMORY_RESERVE] = 0.04 * memory->peak_allocated_bytes;
    memory->peak_reserved_bytes = 1.04 * memory->peak_allocated_bytes;
    memory->device_total_bytes = memory->peak_reserved_bytes;
    memory->capacity_bytes = (double)evaluator->hardware->gpu.memory_bytes;
    const double use = memory->device_total_bytes / memory->capacity_bytes;
    memory->fit = use <= 0.92 ? TPP_FIT_FITS : use <= 0.97 ? TPP_FIT_TIGHT : TPP_FIT_DOES_NOT_FIT;
}

enum tpp_code tpp_evaluator_cost(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                 struct tpp_cost *cost, struct tpp_error *err)
{
    const enum tpp_code code = tpp_strategy_check(strategy, evaluator->model, evaluator->job, evaluator->stack, err);
    if (code != TPP_OK) {
        return code;
    }
    *cost = (struct tpp_cost){.step_seconds = 0};
    cost->time_terms[TPP_TIME_GEMM] = 1 + share(hash_group(strategy));
    cost->time_terms[TPP_TIME_GRADIENT_COMM] = 0.3 * share(hash_variant(strategy));
    cost->step_seconds = cost->time_terms[TPP_TIME_GEMM] + cost->time_terms[TPP_TIME_GRADIENT_COMM];
    cost_memory(evaluator, strategy, &cost->memory);
    return TPP_OK;
}
