/* torchtitan_keys.c - the job configuration of torchtitan up to 0.2.2: keys and rules of launch formats, section 6;
 * names and defaults of torchtitan/config/job_config.py of tag v0.2.2. */
#include "planner/launch/config/torchtitan.h"

#include "costmodel/model/presets.h"

#include <string.h>

struct tpp_titan_settings tpp_titan_defaults(void)
{
    return (struct tpp_titan_settings){.model_name = "llama3",
                                       .flavor = "debugmodel",
                                       .local_batch_size = 8,
                                       .global_batch_size = -1,
                                       .seq_len = 2048,
                                       .dtype = 1,
                                       .replicate = 1,
                                       .shard = -1,
                                       .tensor = 1,
                                       .pipeline = 1,
                                       .context = 1,
                                       .expert = 1,
                                       .expert_tensor = 1,
                                       .schedule = TITAN_SCHEDULE_1F1B,
                                       .layers_per_stage = TPP_KEY_UNSET,
                                       .first_less = 1,
                                       .last_less = 1,
                                       .microbatch_size = 1,
                                       .selective_option = "2"};
}

#define AT(field) offsetof(struct tpp_titan_settings, field)
#define OTHER(path)                                                                                                    \
    {                                                                                                                  \
        path, TPP_KEY_OTHER, 0, NULL, TPP_WRITE_NEVER, false                                                           \
    }
#define SIZE(path, field, write)                                                                                       \
    {                                                                                                                  \
        path, TPP_KEY_INTEGER, AT(field), NULL, write, true                                                            \
    }

static const struct tpp_config_key keys[] = {
    OTHER("job.config_file"),
    OTHER("job.dump_folder"),
    OTHER("job.description"),
    OTHER("job.print_config"),
    OTHER("job.save_config_file"),
    OTHER("job.custom_config_module"),
    {"model.name", TPP_KEY_TEXT, AT(model_name), NULL, TPP_WRITE_ALWAYS, false},
    {"model.flavor", TPP_KEY_TEXT, AT(flavor), NULL, TPP_WRITE_ALWAYS, false},
    {"model.converters", TPP_KEY_LISTED, AT(float8), "quantize.linear.float8", TPP_WRITE_CHANGED, false},
    OTHER("model.hf_assets_path"),
    OTHER("model.tokenizer_path"),
    OTHER("model.print_after_conversion"),
    SIZE("training.local_batch_size", local_batch_size, TPP_WRITE_ALWAYS),
    SIZE("training.global_batch_size", global_batch_size, TPP_WRITE_ALWAYS),
    SIZE("training.seq_len", seq_len, TPP_WRITE_ALWAYS),
    {"training.dtype", TPP_KEY_CHOICE, AT(dtype), "bfloat16|float32", TPP_WRITE_CHANGED, false},
    {"training.mixed_precision_param", TPP_KEY_CHOICE, AT(mixed_precision_param), "bfloat16|float32", TPP_WRITE_ALWAYS,
     false},
    {"training.enable_cpu_offload", TPP_KEY_BOOLEAN, AT(cpu_offload), NULL, TPP_WRITE_CHANGED, false},
    OTHER("training.mixed_precision_reduce"),
    OTHER("training.dataset"),
    OTHER("training.dataset_path"),
    OTHER("training.max_norm"),
    OTHER("training.steps"),
    OTHER("training.gc_freq"),
    OTHER("training.gc_debug"),
    OTHER("training.dataloader"),
    SIZE("parallelism.data_parallel_replicate_degree", replicate, TPP_WRITE_ALWAYS),
    SIZE("parallelism.data_parallel_shard_degree", shard, TPP_WRITE_ALWAYS),
    {"parallelism.fsdp_reshard_after_forward", TPP_KEY_CHOICE, AT(reshard), "default|always|never", TPP_WRITE_CHANGED,
     false},
    SIZE("parallelism.tensor_parallel_degree", tensor, TPP_WRITE_ALWAYS),
    {"parallelism.disable_loss_parallel", TPP_KEY_BOOLEAN, AT(disable_loss_parallel), NULL, TPP_WRITE_CHANGED, false},
    {"parallelism.enable_async_tensor_parallel", TPP_KEY_BOOLEAN, AT(async_tensor_parallel), NULL, TPP_WRITE_CHANGED,
     false},
    SIZE("parallelism.pipeline_parallel_degree", pipeline, TPP_WRITE_ALWAYS),
    {"parallelism.pipeline_parallel_schedule", TPP_KEY_CHOICE, AT(schedule),
     "1F1B|GPipe|Interleaved1F1B|LoopedBFS|InterleavedZeroBubble|ZBVZeroBubble|DualPipeV", TPP_WRITE_CHANGED, true},
    {"parallelism.pipeline_parallel_layers_per_stage", TPP_KEY_INTEGER, AT(layers_per_stage), NULL, TPP_WRITE_CHANGED,
     true},
    SIZE("parallelism.pipeline_parallel_first_stage_less_layers", first_less, TPP_WRITE_CHANGED),
    SIZE("parallelism.pipeline_parallel_last_stage_less_layers", last_less, TPP_WRITE_CHANGED),
    SIZE("parallelism.pipeline_parallel_microbatch_size", microbatch_size, TPP_WRITE_CHANGED),
    {"parallelism.pipeline_parallel_schedule_csv", TPP_KEY_TEXT, AT(schedule_csv), NULL, TPP_WRITE_NEVER, false},
    OTHER("parallelism.pipeline_parallel_expert_parallel_overlap"),
    OTHER("parallelism.module_fqns_per_model_part"),
    SIZE("parallelism.context_parallel_degree", context, TPP_WRITE_ALWAYS),
    {"parallelism.context_parallel_rotate_method", TPP_KEY_CHOICE, AT(rotate_method), "allgather|alltoall",
     TPP_WRITE_CHANGED, false},
    OTHER("parallelism.context_parallel_load_balancer"),
    SIZE("parallelism.expert_parallel_degree", expert, TPP_WRITE_CHANGED),
    SIZE("parallelism.expert_tensor_parallel_degree", expert_tensor, TPP_WRITE_CHANGED),
    OTHER("parallelism.expert_parallel_comm_backend"),
    {"activation_checkpoint.mode", TPP_KEY_CHOICE, AT(checkpointing), "selective|full|memory_budget|none",
     TPP_WRITE_ALWAYS, true},
    {"activation_checkpoint.selective_ac_option", TPP_KEY_TEXT, AT(selective_option), NULL, TPP_WRITE_CHANGED, true},
    OTHER("activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns"),
    OTHER("activation_checkpoint.early_stop"),
    OTHER("activation_checkpoint.memory_budget"),
    OTHER("activation_checkpoint.visualize_memory_budget_pareto"),
    OTHER("activation_checkpoint.preserve_rng_state"),
    OTHER("activation_checkpoint.determinism_check"),
    OTHER("activation_checkpoint.debug"),
    {"compile.enable", TPP_KEY_BOOLEAN, AT(compile), NULL, TPP_WRITE_ALWAYS, false},
    OTHER("compile.components"),
    OTHER("compile.backend"),
    OTHER("profiling"),
    OTHER("metrics"),
    OTHER("optimizer"),
    OTHER("lr_scheduler"),
    OTHER("checkpoint"),
    OTHER("quantize"),
    OTHER("comm"),
    OTHER("memory_estimation"),
    OTHER("fault_tolerance"),
    OTHER("experimental"),
    OTHER("validation"),
    OTHER("debug"),
};
const struct tpp_key_table tpp_titan_table = {"torchtitan", keys, sizeof keys / sizeof *keys, TPP_SEVERITY_ERROR};

/* Flavours that it has, by a shipped model of the same shape. */
static const struct {
    const char *name, *flavor, *preset;
} flavors[] = {
    {"llama3", "8B", "llama3.1-8b"},
    {"llama3", "70B", "llama3.1-70b"},
    {"llama3", "405B", "llama3.1-405b"},
    {"llama3", "8B", "llama3-8b"},
    {"llama3", "70B", "llama3-70b"},
    {"qwen3", "0.6B", "qwen3-0.6b"},
    {"qwen3", "1.7B", "qwen3-1.7b"},
    {"qwen3", "4B", "qwen3-4b"},
    {"qwen3", "8B", "qwen3-8b"},
    {"qwen3", "14B", "qwen3-14b"},
    {"qwen3", "32B", "qwen3-32b"},
    {"qwen3", "30B-A3B", "qwen3-30b-a3b"},
    {"qwen3", "235B-A22B", "qwen3-235b-a22b"},
    {"deepseek_v3", "16B", "deepseek-v2-lite"},
    {"deepseek_v3", "671B", "deepseek-v3"},
};
#define NUM_FLAVORS (sizeof flavors / sizeof *flavors)

int64_t tpp_titan_slots(const struct tpp_model *model, const struct tpp_titan_settings *s)
{
    return model->num_layers + s->first_less + s->last_less;
}

void tpp_titan_set_flavor(const struct tpp_model *model, struct tpp_titan_settings *s)
{
    for (size_t i = 0; i < NUM_FLAVORS; i++) {
        const struct tpp_model *preset = tpp_model_preset(flavors[i].preset);
        if (preset != NULL && tpp_same_shape(preset, model)) {
            s->model_name = flavors[i].name;
            s->flavor = flavors[i].flavor;
            return;
        }
    }
    s->model_name = s->flavor = NULL;
}

const struct tpp_model *tpp_titan_model(const struct tpp_titan_settings *s)
{
    for (size_t i = 0; i < NUM_FLAVORS && s->model_name != NULL && s->flavor != NULL; i++) {
        if (strcmp(flavors[i].name, s->model_name) == 0 && strcmp(flavors[i].flavor, s->flavor) == 0 &&
            tpp_model_preset(flavors[i].preset) != NULL)
            return tpp_model_preset(flavors[i].preset);
    }
    return NULL;
}
