#include "planner/space_parts.h"

struct tpp_space_limits tpp_space_limits_defaults(void)
{
    return (struct tpp_space_limits){
        .tensor_parallel = TPP_PIN_ANY,
        .pipeline_parallel = TPP_PIN_ANY,
        .virtual_pipeline_stages = TPP_PIN_ANY,
        .context_parallel = TPP_PIN_ANY,
        .expert_parallel = TPP_PIN_ANY,
        .data_parallel = TPP_PIN_ANY,
        .micro_batch_size = TPP_PIN_ANY,
        .zero_stage = TPP_PIN_ANY,
        .sequence_parallel = TPP_PIN_ANY,
        .recompute = TPP_PIN_ANY,
        .recompute_modules = TPP_PIN_ANY,
        .context_kind = TPP_PIN_ANY,
        .offload = TPP_PIN_ANY,
        .offload_layers = TPP_PIN_ANY,
        .dispatch = TPP_PIN_ANY,
        .expert_overlap = TPP_PIN_ANY,
        .schedule = TPP_PIN_ANY,
        .shared_overlap = TPP_PIN_ANY,
        .reduce_bucket_size = TPP_PIN_ANY,
        .allgather_bucket_size = TPP_PIN_ANY,
        .keep = 10,
    };
}

static enum tpp_code check_pin(const char *where, int64_t pin, int64_t min, int64_t max, struct tpp_error *err)
{
    if (!tpp_pin_is_free(pin) && (pin < min || pin > max)) {
        return tpp_fail(err, TPP_E_RANGE, where, NULL, "a pinned value of %lld is outside %lld to %lld", (long long)pin,
                        (long long)min, (long long)max);
    }
    return TPP_OK;
}

static enum tpp_code check_pins(const struct tpp_space_limits *limits, struct tpp_error *err)
{
    const int64_t gpus = INT64_C(1) << 20;
    const struct {
        const char *where;
        int64_t pin, min, max;
    } pins[] = {
        {"limits.tensor_parallel", limits->tensor_parallel, 1, gpus},
        {"limits.pipeline_parallel", limits->pipeline_parallel, 1, TPP_MAX_PIPELINE_PARALLEL},
        {"limits.virtual_pipeline_stages", limits->virtual_pipeline_stages, 1, TPP_MAX_CHUNKS},
        {"limits.context_parallel", limits->context_parallel, 1, gpus},
        {"limits.expert_parallel", limits->expert_parallel, 1, gpus},
        {"limits.data_parallel", limits->data_parallel, 1, gpus},
        {"limits.micro_batch_size", limits->micro_batch_size, 1, UINT32_MAX},
        {"limits.zero_stage", limits->zero_stage, 0, 3},
        {"limits.sequence_parallel", limits->sequence_parallel, 0, 1},
        {"limits.recompute", limits->recompute, 0, TPP_RECOMPUTE_FULL},
        {"limits.recompute_modules", limits->recompute_modules, 1, TPP_MODULE_ALL},
        {"limits.context_kind", limits->context_kind, 0, TPP_CONTEXT_HYBRID},
        {"limits.offload", limits->offload, 0, TPP_OFFLOAD_OPTIMIZER},
        {"limits.offload_layers", limits->offload_layers, 0, UINT32_MAX},
        {"limits.dispatch", limits->dispatch, 0, TPP_DISPATCH_ALL_GATHER},
        {"limits.expert_overlap", limits->expert_overlap, 0, 1},
        {"limits.schedule", limits->schedule, 0, TPP_SCHEDULE_COUNT - 1},
        {"limits.shared_overlap", limits->shared_overlap, 0, 1},
        {"limits.reduce_bucket_size", limits->reduce_bucket_size, 0, INT64_C(1) << 50},
        {"limits.allgather_bucket_size", limits->allgather_bucket_size, 0, INT64_C(1) << 50},
    };
    for (size_t i = 0; i < sizeof pins / sizeof pins[0]; i++) {
        enum tpp_code code = check_pin(pins[i].where, pins[i].pin, pins[i].min, pins[i].max, err);
        if (code != TPP_OK) {
            return code;
        }
    }
    return TPP_OK;
}

enum tpp_code tpp_space_limits_check(const struct tpp_space_limits *limits, struct tpp_error *err)
{
    if (limits->keep < 1 || limits->keep > 1000) {
        return tpp_fail(err, TPP_E_RANGE, "limits.keep", "keep 1 to 1000 plans", "%u plans cannot be kept",
                        limits->keep);
    }
    if (!(limits->memory_headroom_fraction >= 0 && limits->memory_headroom_fraction <= 0.9)) {
        return tpp_fail(err, TPP_E_RANGE, "limits.memory_headroom_fraction", "leave 0 to 0.9 of the memory free",
                        "a head-room of %g is out of range", limits->memory_headroom_fraction);
    }
    if (limits->offload_percent > 100) {
        return tpp_fail(err, TPP_E_RANGE, "limits.offload_percent", "offload 1 to 100 %",
                        "%u %% of the optimizer cannot be offloaded", limits->offload_percent);
    }
    if (limits->num_threads > 256) {
        return tpp_fail(err, TPP_E_RANGE, "limits.num_threads", "use 1 to 256 threads, or 0 for all processors",
                        "%u threads are too many", limits->num_threads);
    }
    return check_pins(limits, err);
}
