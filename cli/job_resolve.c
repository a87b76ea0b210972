#include "cli/job_options.h"

#include "costmodel/base/units.h"
#include "costmodel/expert_load.h"
#include "costmodel/model/model_reader.h"
#include "hwprofiles/profiles.h"
#include "planner/rules/release_stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What came from the command line is a usage error, whatever the callee calls it. */
static enum tpp_code as_usage(enum tpp_code code, const char *option, struct tpp_error *err)
{
    if (code == TPP_OK || code == TPP_E_MEMORY)
        return code;
    if (err != NULL) {
        err->code = TPP_E_USAGE;
        snprintf(err->where, sizeof err->where, "%s", option);
    }
    return TPP_E_USAGE;
}

/* The option behind a field of the job or the stack; NULL for what no single option says. */
static const char *option_of(const char *field)
{
    static const char *const options[][2] = {
        {"job.attention_block_length", "--attention-block-length"},
        {"job.precision", "--precision"},
        {"job.optimizer", "--optimizer"},
        {"job.gradient_type", "--gradient-dtype"},
        {"stack.attention", "--attention"},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (strcmp(options[i][0], field) == 0)
            return options[i][1];
    }
    return NULL;
}

/* Options that are valid alone and contradict each other or the cluster are a usage error too; what is wrong with the
 * model or the profile stays what it is. */
static enum tpp_code name_option(enum tpp_code code, struct tpp_error *err)
{
    const char *option = code != TPP_OK && err != NULL ? option_of(err->where) : NULL;
    return option != NULL ? as_usage(code, option, err) : code;
}

static const struct tpp_hardware_field *find_field(const char *key)
{
    uint32_t count;
    const struct tpp_hardware_field *fields = tpp_hardware_fields(&count);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(fields[i].key, key) == 0)
            return &fields[i];
    }
    return NULL;
}

/* "gpu.memory_bytes=80GB": units where the field has bytes or bytes per second, else a plain number. */
static enum tpp_code set_by_key(struct tpp_hardware *hardware, const char *item, struct tpp_error *err)
{
    char key[80], where[112];
    const char *equals = strchr(item, '=');
    if (equals == NULL || equals == item || (size_t)(equals - item) >= sizeof key)
        return tpp_fail(err, TPP_E_USAGE, "--set-hardware",
                        "give --set-hardware=KEY=VALUE; 'tp-plan hardware NAME' "
                        "shows the keys",
                        "\"%.80s\" is not KEY=VALUE", item);
    snprintf(key, sizeof key, "%.*s", (int)(equals - item), item);
    snprintf(where, sizeof where, "--set-hardware=%s", key);
    const struct tpp_hardware_field *field = find_field(key);
    enum tpp_code code;
    double value = 0;
    uint64_t bytes = 0;
    if (field == NULL) {
        code = TPP_OK; /* its error names the nearest key */
    } else if (strcmp(field->unit, "bytes") == 0) {
        code = tpp_parse_bytes(equals + 1, where, &bytes, err);
        value = (double)bytes;
    } else if (strcmp(field->unit, "bytes_per_second") == 0) {
        code = tpp_parse_bandwidth(equals + 1, where, &value, err);
    } else {
        code = tpp_parse_number(equals + 1, where, &value, err);
    }
    if (code == TPP_OK)
        code = tpp_hardware_set(hardware, key, value, "--set-hardware", err);
    return as_usage(code, where, err);
}

/* The rate of all collectives inside a node, by the ratio of the wanted all-reduce rate to the profile's. */
static enum tpp_code scale_node(struct tpp_hardware *hardware, double bytes_per_second, struct tpp_error *err)
{
    const double ratio = bytes_per_second / hardware->node.bus_bytes_per_second[TPP_ALL_REDUCE];
    enum tpp_code code = TPP_OK;
    for (int i = 0; i < TPP_COLLECTIVE_COUNT && code == TPP_OK; i++) {
        char key[80];
        snprintf(key, sizeof key, "node.%s_bus_bytes_per_second", tpp_collective_name((enum tpp_collective)i));
        code = tpp_hardware_set(hardware, key, ratio * hardware->node.bus_bytes_per_second[i], "--intra-node-bandwidth",
                                err);
    }
    return as_usage(code, "--intra-node-bandwidth", err);
}

static enum tpp_code set_network_efficiency(struct tpp_hardware *hardware, double fraction, struct tpp_error *err)
{
    static const char option[] = "--nic-efficiency";
    enum tpp_code code = tpp_hardware_set(hardware, "network.ring_efficiency_fraction", fraction, option, err);
    if (code == TPP_OK)
        code = tpp_hardware_set(hardware, "network.send_recv_efficiency_fraction", fraction, option, err);
    return as_usage(code, option, err);
}

static enum tpp_code set_network_rate(struct tpp_hardware *hardware, double node_bytes_per_second,
                                      struct tpp_error *err)
{
    static const char option[] = "--inter-node-bandwidth";
    if (hardware->network.num_nics == 0)
        return tpp_fail(err, TPP_E_USAGE, option, "set network.num_nics with --set-hardware too",
                        "the profile %s has no network card", hardware->name);
    return as_usage(tpp_hardware_set(hardware, "network.nic_bytes_per_second",
                                     node_bytes_per_second / hardware->network.num_nics, option, err),
                    option, err);
}

/* General keys first, so that num_nics set by key is what --inter-node-bandwidth is divided by. */
static enum tpp_code override_hardware(const struct tpp_job_arguments *arguments, struct tpp_hardware *hardware,
                                       struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    for (size_t i = 0; i < arguments->set_hardware.count && code == TPP_OK; i++)
        code = set_by_key(hardware, arguments->set_hardware.items[i], err);
    if (code == TPP_OK && arguments->gpu_memory != TPP_OPTION_ABSENT)
        code =
            as_usage(tpp_hardware_set(hardware, "gpu.memory_bytes", (double)arguments->gpu_memory, "--gpu-memory", err),
                     "--gpu-memory", err);
    if (code == TPP_OK && arguments->inter_node_bandwidth != TPP_OPTION_ABSENT)
        code = set_network_rate(hardware, arguments->inter_node_bandwidth, err);
    if (code == TPP_OK && arguments->intra_node_bandwidth != TPP_OPTION_ABSENT)
        code = scale_node(hardware, arguments->intra_node_bandwidth, err);
    if (code == TPP_OK && arguments->nic_efficiency != TPP_OPTION_ABSENT)
        code = set_network_efficiency(hardware, arguments->nic_efficiency, err);
    return code != TPP_OK ? code : tpp_hardware_check(hardware, err);
}

static enum tpp_code count_gpus(const struct tpp_job_arguments *arguments, const struct tpp_hardware *hardware,
                                uint32_t *num_gpus, struct tpp_error *err)
{
    const uint64_t per_node = hardware->node.num_gpus;
    const bool by_nodes = arguments->nodes != TPP_OPTION_ABSENT, by_gpus = arguments->gpus != TPP_OPTION_ABSENT;
    if (by_nodes == by_gpus)
        return tpp_fail(err, TPP_E_USAGE, "--nodes", "give --nodes=N or --gpus=N",
                        by_nodes ? "--nodes and --gpus are both given" : "the size of the cluster is missing");
    const uint64_t count = by_nodes ? (uint64_t)arguments->nodes * per_node : (uint64_t)arguments->gpus;
    if (count > UINT64_C(1) << 20)
        return tpp_fail(err, TPP_E_USAGE, "--nodes", "give at most 1048576 GPUs in all",
                        "%llu nodes of %llu GPUs are more than can be planned", (unsigned long long)arguments->nodes,
                        (unsigned long long)per_node);
    if (count > per_node && count % per_node != 0) {
        char hint[128];
        snprintf(hint, sizeof hint, "give %llu or %llu GPUs, or another --cluster",
                 (unsigned long long)(count / per_node * per_node),
                 (unsigned long long)((count / per_node + 1) * per_node));
        return tpp_fail(err, TPP_E_USAGE, "--gpus", hint, "%llu GPUs are not whole nodes of %llu",
                        (unsigned long long)count, (unsigned long long)per_node);
    }
    *num_gpus = (uint32_t)count;
    return TPP_OK;
}

static enum tpp_code fill_job(const struct tpp_job_arguments *arguments, struct tpp_job *job, struct tpp_error *err)
{
    *job = tpp_job_defaults();
    job->sequence_length = (uint64_t)arguments->sequence_length;
    job->global_batch_size = (uint64_t)arguments->global_batch_size;
    job->mtp_num_layers = (uint32_t)arguments->mtp_num_layers;
    job->expert_imbalance = arguments->expert_imbalance;
    job->expert_capacity_factor = arguments->expert_capacity_factor;
    job->hidden_dropout = arguments->hidden_dropout;
    job->attention_dropout = arguments->attention_dropout;
    if (arguments->gradient_type != NULL)
        job->gradient_type = strcmp(arguments->gradient_type, "fp32") == 0 ? TPP_GRADIENT_FP32 : TPP_GRADIENT_BF16;
    if (!tpp_precision_parse(arguments->precision, &job->precision) || !tpp_task_parse(arguments->task, &job->task) ||
        !tpp_optimizer_parse(arguments->optimizer, &job->optimizer))
        return tpp_fail(err, TPP_E_INTERNAL, "--precision", NULL, "the option table and the job disagree");
    if (arguments->attention_block_length != TPP_OPTION_ABSENT)
        job->attention_block_length = (uint64_t)arguments->attention_block_length;
    const bool has_adapter_option = arguments->lora_rank != TPP_OPTION_ABSENT || arguments->lora_targets != NULL ||
                                    arguments->lora_dropout > 0;
    const char *where = arguments->lora_targets != NULL               ? "--lora-targets"
                        : arguments->lora_rank != TPP_OPTION_ABSENT ? "--lora-rank"
                                                                    : "--lora-dropout";
    if (has_adapter_option && !tpp_job_is_adapter(job))
        return tpp_fail(err, TPP_E_USAGE, where, "add --task=lora or --task=qlora", "the task \"%s\" has no adapters",
                        arguments->task);
    job->lora_dropout = arguments->lora_dropout;
    if (arguments->lora_rank != TPP_OPTION_ABSENT)
        job->lora_rank = (uint32_t)arguments->lora_rank;
    if (arguments->lora_targets != NULL)
        job->lora_targets =
            (enum tpp_lora_targets)tpp_choice_index("all-linear|attention|qkv|qv", arguments->lora_targets);
    return TPP_OK;
}

static enum tpp_code fill_expert_load(const struct tpp_job_arguments *arguments, struct tpp_job_inputs *inputs,
                                      struct tpp_error *err)
{
    if (arguments->expert_imbalance > 1)
        return tpp_fail(err, TPP_E_USAGE, "--expert-tokens", "drop --expert-imbalance",
                        "the imbalance is given twice, by itself and by tokens");
    return tpp_expert_load_read(arguments->expert_tokens, inputs->model.num_experts, &inputs->job, err);
}

static void set_style(const char *text, enum tpp_kernel_style *style)
{
    if (text != NULL)
        *style = strcmp(text, "fused") == 0 ? TPP_KERNEL_FUSED : TPP_KERNEL_EAGER;
}

static void set_switch(const char *text, bool *value)
{
    if (text != NULL)
        *value = strcmp(text, "on") == 0;
}

static enum tpp_code fill_fp8(const struct tpp_job_arguments *arguments, const struct tpp_job *job,
                              struct tpp_stack *stack, struct tpp_error *err)
{
    if (arguments->fp8_scaling != NULL && job->precision != TPP_PRECISION_FP8)
        return tpp_fail(err, TPP_E_USAGE, "--fp8-scaling", "drop it, or use --precision=fp8",
                        "%s has no scale for a whole tensor", tpp_precision_name(job->precision));
    if (arguments->fp8_param_gather != NULL && !tpp_precision_is_fp8(job->precision))
        return tpp_fail(err, TPP_E_USAGE, "--fp8-param-gather", "drop it, or use --precision=fp8, fp8-block or mxfp8",
                        "%s has no FP8 weights", tpp_precision_name(job->precision));
    if (arguments->fp8_scaling != NULL)
        stack->current_scaling = strcmp(arguments->fp8_scaling, "current") == 0;
    if (arguments->fp8_param_gather != NULL)
        tpp_stack_set_fp8_weights(stack, job, strcmp(arguments->fp8_param_gather, "on") == 0);
    return TPP_OK;
}

static enum tpp_code fill_stack(const struct tpp_job_arguments *arguments, const struct tpp_job_inputs *inputs,
                                struct tpp_stack *stack, struct tpp_error *err)
{
    enum tpp_framework framework;
    if (!tpp_framework_parse(arguments->framework, &framework))
        return tpp_fail(err, TPP_E_INTERNAL, "--framework", NULL, "the option table and the stack disagree");
    tpp_stack_defaults(framework, &inputs->hardware.gpu, &inputs->job, stack);
    if (arguments->framework_version != NULL) {
        if (strlen(arguments->framework_version) >= sizeof stack->release)
            return tpp_fail(err, TPP_E_USAGE, "--framework-version", "give a release, as in 0.14",
                            "\"%.80s\" is no release", arguments->framework_version);
        snprintf(stack->release, sizeof stack->release, "%s", arguments->framework_version);
    }
    enum tpp_engine engine;
    if (arguments->engine != NULL && tpp_engine_parse(arguments->engine, &engine))
        tpp_stack_set_engine(stack, engine, &inputs->hardware.gpu, &inputs->job);
    if (!tpp_framework_has_engine(framework, stack->engine))
        return tpp_fail(err, TPP_E_USAGE, "--engine", "drop it for the framework's own, or use --framework=other",
                        "%s does not run with the engine %s", arguments->framework, arguments->engine);
    tpp_stack_take_release(stack, &inputs->model, &inputs->hardware.gpu, &inputs->job);
    if (strcmp(arguments->attention, "auto") != 0)
        tpp_attention_kernel_parse(arguments->attention, &stack->attention);
    set_style(arguments->norm_kernel, &stack->norm_kernel);
    set_style(arguments->activation_kernel, &stack->activation_kernel);
    set_style(arguments->rope_kernel, &stack->rope_kernel);
    if (arguments->loss_kernel != NULL)
        stack->loss_kernel = (enum tpp_loss_kernel)tpp_choice_index(
            "vocabulary-parallel|fused|eager|compiled|fused-linear", arguments->loss_kernel);
    if (arguments->lm_head_output != NULL)
        stack->lm_head_output =
            (enum tpp_lm_head_output)tpp_choice_index("vocabulary-parallel|gathered", arguments->lm_head_output);
    set_switch(arguments->transformer_engine, &stack->transformer_engine);
    set_switch(arguments->tp_async, &stack->tensor_parallel_async);
    if (arguments->tp_stack != NULL)
        stack->tensor_parallel_other = strcmp(arguments->tp_stack, "other") == 0;
    stack->launch_blocking = stack->launch_blocking || arguments->launch_blocking;
    if (arguments->cuda_graphs)
        tpp_stack_set_cuda_graphs(stack, 0, inputs->model.num_experts > 0 && !(inputs->job.expert_capacity_factor > 0));
    if (arguments->nic_efficiency != TPP_OPTION_ABSENT)
        stack->nic_ring_efficiency_fraction = stack->nic_send_recv_efficiency_fraction = 0;
    return fill_fp8(arguments, &inputs->job, stack, err);
}

void tpp_job_take_stages(int64_t pipeline_parallel, struct tpp_job_inputs *inputs)
{
    struct tpp_stack *stack = &inputs->stack;
    if (pipeline_parallel > 1 && stack->framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED &&
        stack->engine == TPP_ENGINE_DEEPSPEED)
        tpp_stack_set_engine(stack, TPP_ENGINE_DEEPSPEED_PIPELINE, &inputs->hardware.gpu, &inputs->job);
}

enum tpp_code tpp_job_resolve(const struct tpp_job_arguments *arguments, struct tpp_job_inputs *inputs,
                              struct tpp_error *err)
{
    enum tpp_code code = tpp_model_find(arguments->model, &inputs->model, err);
    if (code == TPP_OK)
        code = tpp_hardware_find(arguments->cluster, &inputs->hardware, err);
    if (code == TPP_OK)
        code = override_hardware(arguments, &inputs->hardware, err);
    if (code == TPP_OK)
        code = fill_job(arguments, &inputs->job, err);
    if (code == TPP_OK && arguments->expert_tokens != NULL)
        code = fill_expert_load(arguments, inputs, err);
    if (code == TPP_OK)
        code = count_gpus(arguments, &inputs->hardware, &inputs->job.num_gpus, err);
    if (code == TPP_OK)
        code = name_option(tpp_job_check(&inputs->job, &inputs->model, err), err);
    if (code == TPP_OK)
        code = fill_stack(arguments, inputs, &inputs->stack, err);
    if (code == TPP_OK)
        code = name_option(tpp_stack_check(&inputs->stack, &inputs->hardware.gpu, &inputs->job, err), err);
    return code;
}
