#include "cli/plan_json.h"

#include "cli/replay_list.h"

/* "strategy": {...} of a plan, also what defaults mean written out. */
static void add_strategy(const struct tpp_strategy *strategy, struct tpp_json_writer *writer, struct cJSON *parent)
{
    struct cJSON *object = tpp_json_add_object(writer, parent, "strategy");
    struct tpp_text text;
    tpp_json_add_u64(writer, object, "tensor_parallel", strategy->tensor_parallel);
    tpp_json_add_u64(writer, object, "pipeline_parallel", strategy->pipeline_parallel);
    tpp_json_add_u64(writer, object, "virtual_pipeline_stages", strategy->virtual_pipeline_stages);
    tpp_json_add_u64(writer, object, "context_parallel", strategy->context_parallel);
    tpp_json_add_string(writer, object, "context_kind", tpp_context_kind_name(strategy->context_kind));
    tpp_json_add_u64(writer, object, "expert_parallel", strategy->expert_parallel);
    tpp_json_add_u64(writer, object, "expert_tensor_parallel", strategy->expert_tensor_parallel);
    tpp_json_add_string(writer, object, "dispatch", tpp_dispatch_name(strategy->dispatch));
    tpp_json_add_bool(writer, object, "expert_overlap", strategy->expert_overlap);
    tpp_json_add_u64(writer, object, "data_parallel", strategy->data_parallel);
    tpp_json_add_u64(writer, object, "zero_stage", strategy->zero_stage);
    tpp_json_add_u64(writer, object, "shard_group", strategy->shard_group);
    tpp_json_add_u64(writer, object, "micro_batch_size", strategy->micro_batch_size);
    tpp_json_add_u64(writer, object, "num_micro_batches", strategy->num_micro_batches);
    tpp_json_add_bool(writer, object, "sequence_parallel", strategy->sequence_parallel);
    tpp_json_add_string(writer, object, "recompute", tpp_recompute_name(strategy->recompute));
    struct cJSON *modules = tpp_json_add_array(writer, object, "recompute_modules");
    for (uint32_t bit = 1; bit <= TPP_MODULE_ALL; bit <<= 1)
        if (strategy->recompute_modules & bit)
            tpp_json_add_string(writer, modules, NULL, tpp_recompute_module_name(bit));
    tpp_json_add_string(writer, object, "recompute_method",
                        strategy->recompute_method == TPP_RECOMPUTE_BLOCK ? "block" : "uniform");
    tpp_json_add_u64(writer, object, "recompute_num_layers", strategy->recompute_num_layers);
    tpp_json_add_string(writer, object, "schedule", tpp_schedule_name(strategy->schedule));
    tpp_json_add_u64(writer, object, "microbatch_group_size", strategy->microbatch_group_size);
    tpp_json_add_u64(writer, object, "first_stage_layers", strategy->first_stage_layers);
    tpp_json_add_u64(writer, object, "last_stage_layers", strategy->last_stage_layers);
    tpp_json_add_u64(writer, object, "reduce_bucket_size", strategy->reduce_bucket_size);
    tpp_json_add_u64(writer, object, "allgather_bucket_size", strategy->allgather_bucket_size);
    tpp_json_add_bool(writer, object, "overlap_grad_reduce", strategy->overlap_grad_reduce);
    tpp_json_add_bool(writer, object, "overlap_param_gather", strategy->overlap_param_gather);
    tpp_json_add_bool(writer, object, "align_grad_reduce", strategy->align_grad_reduce);
    tpp_json_add_string(writer, object, "offload", strategy->offload == TPP_OFFLOAD_OPTIMIZER ? "optimizer" : "none");
    tpp_json_add_number(writer, object, "optimizer_offload_fraction", tpp_strategy_offload_fraction(strategy));
    tpp_json_add_u64(writer, object, "offload_layers", strategy->offload_layers);
    tpp_json_add_bool(writer, object, "shared_expert_overlap", strategy->shared_overlap);
    tpp_text_init(&text);
    tpp_strategy_format(strategy, &text);
    tpp_json_add_string(writer, object, "text", tpp_text_get(&text));
    writer->failed = writer->failed || tpp_text_failed(&text);
    tpp_text_release(&text);
}

/* "memory": {...} */
static void add_memory(const struct tpp_memory *memory, struct tpp_json_writer *writer, struct cJSON *parent)
{
    struct cJSON *object = tpp_json_add_object(writer, parent, "memory");
    tpp_json_add_bool(writer, object, "fits", memory->fit != TPP_FIT_DOES_NOT_FIT);
    tpp_json_add_string(writer, object, "verdict", tpp_fit_name(memory->fit));
    tpp_json_add_number(writer, object, "peak_allocated_bytes", memory->peak_allocated_bytes);
    tpp_json_add_number(writer, object, "peak_reserved_bytes", memory->peak_reserved_bytes);
    tpp_json_add_number(writer, object, "device_total_bytes", memory->device_total_bytes);
    tpp_json_add_number(writer, object, "capacity_bytes", memory->capacity_bytes);
    tpp_json_add_number(writer, object, "fragmentation_fraction", memory->fragmentation_fraction);
    tpp_json_add_number(writer, object, "out_of_memory_probability", memory->out_of_memory_probability);
    tpp_json_add_number(writer, object, "host_bytes", memory->host_bytes);
    tpp_json_add_u64(writer, object, "worst_stage", memory->worst_stage);
    tpp_replay_memory_add_json(memory, writer, object);
    struct cJSON *terms = tpp_json_add_object(writer, object, "terms");
    for (int i = 0; i < TPP_MEMORY_TERM_COUNT; i++)
        tpp_json_add_number(writer, terms, tpp_memory_term_name((enum tpp_memory_term)i), memory->terms[i]);
}

static void add_time_terms(const struct tpp_cost *cost, struct tpp_json_writer *writer, struct cJSON *plan)
{
    struct cJSON *terms = tpp_json_add_object(writer, plan, "time_terms");
    for (int i = 0; i < TPP_TIME_TERM_COUNT; i++)
        tpp_json_add_number(writer, terms, tpp_time_term_name((enum tpp_time_term)i), cost->time_terms[i]);
}

void tpp_plan_add_json(unsigned rank, const struct tpp_strategy *strategy, const struct tpp_cost *cost,
                       struct tpp_json_writer *writer, struct cJSON *plan)
{
    tpp_json_add_u64(writer, plan, "rank", rank);
    add_strategy(strategy, writer, plan);
    tpp_json_add_number(writer, plan, "step_seconds", cost->step_seconds);
    tpp_json_add_number(writer, plan, "step_seconds_low", cost->step_seconds_low);
    tpp_json_add_number(writer, plan, "step_seconds_high", cost->step_seconds_high);
    tpp_json_add_number(writer, plan, "tokens_per_second_per_gpu", cost->tokens_per_second_per_gpu);
    tpp_json_add_number(writer, plan, "model_flops", cost->model_flops);
    tpp_json_add_number(writer, plan, "model_flops_causal", cost->model_flops_causal);
    tpp_json_add_number(writer, plan, "hardware_flops", cost->hardware_flops);
    tpp_json_add_number(writer, plan, "model_flops_per_second_per_gpu", cost->model_flops_per_second_per_gpu);
    tpp_json_add_number(writer, plan, "model_flops_utilization", cost->model_flops_utilization);
    tpp_json_add_number(writer, plan, "bubble_fraction", cost->bubble_fraction);
    tpp_json_add_number(writer, plan, "uneven_micro_batches_seconds", cost->uneven_seconds);
    tpp_json_add_number(writer, plan, "exposed_communication_fraction", cost->exposed_communication_fraction);
    tpp_json_add_number(writer, plan, "host_bound_fraction", cost->host_bound_fraction);
    tpp_json_add_number(writer, plan, "computed_sequence_tokens", cost->computed_sequence_tokens);
    tpp_json_add_number(writer, plan, "useful_token_fraction", cost->useful_token_fraction);
    add_time_terms(cost, writer, plan);
    add_memory(&cost->memory, writer, plan);
}

void tpp_stages_add_json(const struct tpp_stage_cost *stages, size_t num_stages, struct tpp_json_writer *writer,
                         struct cJSON *parent)
{
    struct cJSON *array = tpp_json_add_array(writer, parent, "stages");
    for (size_t i = 0; i < num_stages; i++) {
        struct cJSON *object = tpp_json_add_object(writer, array, NULL);
        tpp_json_add_u64(writer, object, "stage", i);
        tpp_json_add_u64(writer, object, "layers", stages[i].num_layers);
        tpp_json_add_u64(writer, object, "parameters", stages[i].parameters);
        tpp_json_add_number(writer, object, "forward_seconds", stages[i].forward_seconds);
        tpp_json_add_number(writer, object, "backward_seconds", stages[i].backward_seconds);
        tpp_json_add_number(writer, object, "recompute_seconds", stages[i].recompute_seconds);
        tpp_json_add_number(writer, object, "in_flight_micro_batches", stages[i].in_flight_micro_batches);
        add_memory(&stages[i].memory, writer, object);
    }
}
