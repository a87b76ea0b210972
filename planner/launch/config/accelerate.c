/* accelerate.c - the configuration of accelerate: names and defaults of src/accelerate/commands (config/config_args.py,
 * config/cluster.py, launch.py) and utils/dataclasses.py at 16cb6eb, and a plan written with them. */
#include "planner/launch/config/accelerate.h"

#include "planner/launch/refusal.h"

struct tpp_accelerate_settings tpp_accelerate_defaults(void)
{
    return (struct tpp_accelerate_settings){.type = ACCELERATE_NO,
                                            .num_machines = 1,
                                            .num_processes = -1,
                                            .version = 1,
                                            .wrap = 2,
                                            .prefetch = 2,
                                            .original_parameters = true,
                                            .sync_states = true,
                                            .efficient_loading = true,
                                            .replicate = 1,
                                            .shard = 1,
                                            .tensor = 1,
                                            .context = 1,
                                            .sequence = 1,
                                            .zero_stage = 2};
}

#define AT(field) offsetof(struct tpp_accelerate_settings, field)
#define OTHER(path)                                                                                                    \
    {                                                                                                                  \
        path, TPP_KEY_OTHER, 0, NULL, TPP_WRITE_NEVER, false                                                           \
    }
#define SIZE(path, field, write)                                                                                       \
    {                                                                                                                  \
        path, TPP_KEY_INTEGER, AT(field), NULL, write, true                                                            \
    }
#define SWITCH(path, field, write)                                                                                     \
    {                                                                                                                  \
        path, TPP_KEY_BOOLEAN, AT(field), NULL, write, false                                                           \
    }
#define CHOICE(path, field, choices, write)                                                                            \
    {                                                                                                                  \
        path, TPP_KEY_CHOICE, AT(field), choices, write, true                                                          \
    }
#define FSDP(name) "fsdp_config.fsdp_" name
#define SIZES(name) "parallelism_config.parallelism_config_" name
#define STRATEGIES "FULL_SHARD|SHARD_GRAD_OP|NO_SHARD|HYBRID_SHARD|HYBRID_SHARD_ZERO2"
#define DEVICES "none|cpu|nvme"

static const struct tpp_config_key keys[] = {
    CHOICE("compute_environment", compute_environment, "LOCAL_MACHINE|AMAZON_SAGEMAKER", TPP_WRITE_ALWAYS),
    OTHER("debug"),
    CHOICE("distributed_type", type, "FSDP|DEEPSPEED|MULTI_GPU|MEGATRON_LM|NO|false|XLA|MULTI_CPU|MULTI_NPU|MULTI_XPU",
           TPP_WRITE_ALWAYS),
    CHOICE("mixed_precision", precision, "no|fp16|bf16|fp8|false", TPP_WRITE_ALWAYS),
    SIZE("num_machines", num_machines, TPP_WRITE_ALWAYS),
    SIZE("num_processes", num_processes, TPP_WRITE_ALWAYS),
    SIZE(FSDP("version"), version, TPP_WRITE_CHANGED),
    CHOICE(FSDP("sharding_strategy"), sharding, STRATEGIES "|1|2|3|4|5", TPP_WRITE_CHANGED),
    CHOICE(FSDP("reshard_after_forward"), reshard, "true|false|" STRATEGIES "|1|2|3|4|5|NO_RESHARD", TPP_WRITE_CHANGED),
    CHOICE(FSDP("auto_wrap_policy"), wrap, "TRANSFORMER_BASED_WRAP|SIZE_BASED_WRAP|NO_WRAP", TPP_WRITE_CHANGED),
    CHOICE(FSDP("backward_prefetch"), prefetch, "BACKWARD_PRE|BACKWARD_POST|NO_PREFETCH", TPP_WRITE_CHANGED),
    CHOICE(FSDP("state_dict_type"), state_dict, "FULL_STATE_DICT|LOCAL_STATE_DICT|SHARDED_STATE_DICT",
           TPP_WRITE_CHANGED),
    SWITCH(FSDP("offload_params"), offload, TPP_WRITE_CHANGED),
    SWITCH(FSDP("forward_prefetch"), forward_prefetch, TPP_WRITE_CHANGED),
    SWITCH(FSDP("use_orig_params"), original_parameters, TPP_WRITE_CHANGED),
    SWITCH(FSDP("sync_module_states"), sync_states, TPP_WRITE_CHANGED),
    SWITCH(FSDP("cpu_ram_efficient_loading"), efficient_loading, TPP_WRITE_CHANGED),
    SWITCH(FSDP("activation_checkpointing"), checkpointing, TPP_WRITE_CHANGED),
    SWITCH(FSDP("activation_checkpointing_offload"), checkpointing_offload, TPP_WRITE_CHANGED),
    OTHER(FSDP("transformer_layer_cls_to_wrap")),
    OTHER(FSDP("transformer_cls_names_to_wrap")),
    OTHER(FSDP("backward_prefetch_policy")),
    OTHER(FSDP("min_num_params")),
    OTHER(FSDP("ignored_modules")),
    SIZE(SIZES("dp_replicate_size"), replicate, TPP_WRITE_CHANGED),
    SIZE(SIZES("dp_shard_size"), shard, TPP_WRITE_CHANGED),
    SIZE(SIZES("tp_size"), tensor, TPP_WRITE_CHANGED),
    SIZE(SIZES("cp_size"), context, TPP_WRITE_CHANGED),
    CHOICE(SIZES("cp_comm_strategy"), rotation, "allgather|alltoall", TPP_WRITE_CHANGED),
    OTHER(SIZES("cp_backend")),
    SIZE(SIZES("sp_size"), sequence, TPP_WRITE_CHANGED),
    OTHER(SIZES("sp_backend")),
    OTHER(SIZES("sp_seq_length")),
    OTHER(SIZES("sp_seq_length_is_variable")),
    OTHER(SIZES("sp_attn_implementation")),
    SIZE("deepspeed_config.zero_stage", zero_stage, TPP_WRITE_NEVER),
    CHOICE("deepspeed_config.offload_optimizer_device", optimizer_device, DEVICES, TPP_WRITE_NEVER),
    CHOICE("deepspeed_config.offload_param_device", parameter_device, DEVICES, TPP_WRITE_NEVER),
    {"deepspeed_config.deepspeed_config_file", TPP_KEY_TEXT, AT(deepspeed_file), NULL, TPP_WRITE_NEVER, false},
    OTHER("deepspeed_config"),
    OTHER("megatron_lm_config"),
    OTHER("fp8_config"),
    OTHER("mpirun_config"),
    OTHER("dynamo_config"),
    OTHER("dynamo_backend"),
    OTHER("fp16"),
    OTHER("downcast_bf16"),
    OTHER("use_cpu"),
    OTHER("machine_rank"),
    OTHER("gpu_ids"),
    OTHER("main_process_ip"),
    OTHER("main_process_port"),
    OTHER("main_training_function"),
    OTHER("rdzv_backend"),
    OTHER("same_network"),
    OTHER("enable_cpu_affinity"),
    OTHER("tpu_name"),
    OTHER("tpu_zone"),
    OTHER("tpu_use_cluster"),
    OTHER("tpu_use_sudo"),
    OTHER("tpu_env"),
    OTHER("tpu_vm"),
    OTHER("command_file"),
    OTHER("commands"),
};
const struct tpp_key_table tpp_accelerate_table = {"accelerate", keys, sizeof keys / sizeof *keys, TPP_SEVERITY_ERROR};

/* Replicas of the sharded model. */
static uint32_t replicas_of(const struct tpp_strategy *s)
{
    return s->shard_group > 0 ? s->data_parallel * s->context_parallel / s->shard_group : 1;
}

enum tpp_code tpp_accelerate_check(const struct tpp_launch_request *request, struct tpp_error *err)
{
    struct tpp_rule_settings settings;
    const struct tpp_strategy *s = request->strategy;
    const bool is_first = request->stack->engine == TPP_ENGINE_FSDP1;
    const uint32_t ranks = s->data_parallel * s->context_parallel;
    const struct tpp_refusal refusals[] = {
        {s->zero_stage != 3, "strategy.zero_stage", "FSDP shards weights, gradients and optimizer: stage 3"},
        {s->shard_group > 0 && (ranks % s->shard_group != 0 || s->shard_group % s->context_parallel != 0),
         "strategy.shard_group", "replicas and shards must make the data-parallel ranks"},
        {is_first && s->shard_group > 0 && s->shard_group != ranks && s->shard_group != request->gpus_per_node,
         "strategy.shard_group", "HYBRID_SHARD shards over the GPUs of a node"},
        {!s->overlap_grad_reduce || !s->overlap_param_gather, "strategy.overlap_grad_reduce", "FSDP always overlaps"},
        {!s->align_grad_reduce, "strategy.align_grad_reduce", "aligning reductions is Megatron's alone"},
        {s->microbatch_group_size > 0, "strategy.microbatch_group_size", "groups of micro-batches are Megatron's alone"},
        {s->context_parallel > 1 && request->stack->attention == TPP_ATTENTION_EAGER, "stack.attention",
         "context parallelism needs a fused attention"},
    };
    const enum tpp_code code =
        tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals,
                          "accelerate cannot run this plan:", "choose another plan or framework", err);
    return code != TPP_OK ? code : tpp_launch_check_rules(request, "accelerate", &settings, err);
}

static void set_sharding(const struct tpp_strategy *s, struct tpp_accelerate_settings *out)
{
    const uint32_t replicas = replicas_of(s);
    if (out->version == 1) {
        out->sharding = replicas > 1
                            ? (s->reshard_after_forward ? ACCELERATE_HYBRID_SHARD : ACCELERATE_HYBRID_SHARD_ZERO2)
                        : s->reshard_after_forward ? ACCELERATE_FULL_SHARD
                                                   : ACCELERATE_SHARD_GRAD_OP;
        return;
    }
    out->reshard = s->reshard_after_forward ? ACCELERATE_RESHARD_TRUE : ACCELERATE_RESHARD_FALSE;
    if (replicas == 1 && s->tensor_parallel == 1 && s->context_parallel == 1)
        return; /* all ranks shard by themselves */
    out->replicate = replicas;
    out->shard = s->data_parallel / replicas;
    out->tensor = s->tensor_parallel;
    out->context = s->context_parallel;
    out->rotation = s->context_parallel > 1 && s->context_kind == TPP_CONTEXT_RING;
}

enum tpp_code tpp_accelerate_write(const struct tpp_launch_request *request, struct tpp_text *out,
                                   struct tpp_error *err)
{
    const struct tpp_strategy *s = request->strategy;
    struct tpp_accelerate_settings settings = tpp_accelerate_defaults();
    /* What FSDP needs is written though it is the default of a release: others differ. */
    struct tpp_accelerate_settings unlike = settings;
    settings.type = ACCELERATE_FSDP;
    settings.precision =
        request->job->precision == TPP_PRECISION_FP16 ? ACCELERATE_PRECISION_FP16 : ACCELERATE_PRECISION_BF16;
    settings.num_machines = request->num_nodes;
    settings.num_processes = request->job->num_gpus;
    settings.version = request->stack->engine == TPP_ENGINE_FSDP2 ? 2 : 1;
    settings.wrap = 0;
    settings.state_dict = 2;
    settings.offload = s->offload == TPP_OFFLOAD_OPTIMIZER;
    settings.checkpointing = s->recompute == TPP_RECOMPUTE_FULL;
    set_sharding(s, &settings);
    unlike.version = 0;
    unlike.efficient_loading = !settings.efficient_loading;
    unlike.offload = !settings.offload;
    unlike.checkpointing = !settings.checkpointing;
    if (settings.version == 1) {
        settings.prefetch = 0;
        unlike.sharding = ACCELERATE_NUM_SHARDINGS;
        unlike.original_parameters = unlike.sync_states = false;
    } else {
        unlike.reshard = ACCELERATE_RESHARD_FALSE + 1;
    }
    tpp_config_keys_write(&tpp_accelerate_table, &settings, &unlike, TPP_CONFIG_YAML, out);
    return tpp_text_failed(out) ? tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory") : TPP_OK;
}
