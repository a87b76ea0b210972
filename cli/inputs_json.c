/* What an answer depends on, with the defaults filled in, so that it can be made again. */
#include "cli/digest.h"
#include "cli/job_options.h"
#include "costmodel/sequence_lengths.h"

static const char *const loss_names[] = {"vocabulary-parallel", "fused", "eager", "compiled", "fused-linear"};
static const char *const lora_target_names[] = {"all-linear", "attention", "qkv", "qv"};

static const char *style_name(enum tpp_kernel_style style)
{
    return style == TPP_KERNEL_FUSED ? "fused" : "eager";
}

static void add_model(const struct tpp_job_arguments *arguments, const struct tpp_model *model,
                      struct tpp_json_writer *writer, struct cJSON *parent)
{
    struct tpp_model_counts counts;
    char digest[TPP_DIGEST_SIZE] = "";
    tpp_model_count(model, &counts);
    struct cJSON *object = tpp_json_add_object(writer, parent, "model");
    tpp_json_add_string(writer, object, "name", model->name);
    tpp_json_add_string(writer, object, "given", arguments->model);
    writer->failed = !tpp_digest_model(model, digest) || writer->failed;
    tpp_json_add_string(writer, object, "digest", digest);
    tpp_json_add_u64(writer, object, "total_parameters", counts.total);
    tpp_json_add_u64(writer, object, "active_parameters", counts.active);
}

static void add_cluster(const struct tpp_job_arguments *arguments, const struct tpp_job_inputs *inputs,
                        struct tpp_json_writer *writer, struct cJSON *parent)
{
    const struct tpp_hardware *hardware = &inputs->hardware;
    uint32_t count;
    char digest[TPP_DIGEST_SIZE] = "";
    const struct tpp_hardware_field *fields = tpp_hardware_fields(&count);
    struct cJSON *object = tpp_json_add_object(writer, parent, "cluster");
    tpp_json_add_string(writer, object, "name", hardware->name);
    tpp_json_add_string(writer, object, "given", arguments->cluster);
    writer->failed = !tpp_digest_hardware(hardware, digest) || writer->failed;
    tpp_json_add_string(writer, object, "digest", digest);
    tpp_json_add_string(writer, object, "gpu", hardware->gpu.name);
    tpp_json_add_u64(writer, object, "gpus", inputs->job.num_gpus);
    tpp_json_add_u64(writer, object, "gpus_per_node", hardware->node.num_gpus);
    struct cJSON *overrides = tpp_json_add_object(writer, object, "overrides");
    for (uint32_t i = 0; i < count; i++) {
        if (hardware->origins[i].provenance == TPP_PROVENANCE_USER)
            tpp_json_add_number(writer, overrides, fields[i].key, tpp_hardware_get(hardware, i));
    }
}

static void add_job(const struct tpp_job *job, struct tpp_json_writer *writer, struct cJSON *parent)
{
    struct cJSON *object = tpp_json_add_object(writer, parent, "job");
    tpp_json_add_u64(writer, object, "sequence_length", job->sequence_length);
    tpp_json_add_u64(writer, object, "global_batch_size", job->global_batch_size);
    tpp_json_add_string(writer, object, "precision", tpp_precision_name(job->precision));
    tpp_json_add_string(writer, object, "task", tpp_task_name(job->task));
    tpp_json_add_string(writer, object, "optimizer", tpp_optimizer_name(job->optimizer));
    tpp_json_add_string(writer, object, "gradient_type", tpp_gradient_type_name(job->gradient_type));
    if (tpp_job_is_adapter(job)) {
        tpp_json_add_u64(writer, object, "lora_rank", job->lora_rank);
        tpp_json_add_string(writer, object, "lora_targets", lora_target_names[job->lora_targets]);
        tpp_json_add_number(writer, object, "lora_dropout", job->lora_dropout);
    }
    tpp_json_add_u64(writer, object, "attention_block_length", job->attention_block_length);
    if (job->num_lengths > 0) {
        struct cJSON *lengths = tpp_json_add_object(writer, object, "sequence_lengths");
        tpp_json_add_bool(writer, lengths, "packed", !tpp_job_pads(job));
        tpp_json_add_number(writer, lengths, "useful_tokens", tpp_job_useful_tokens(job));
        tpp_json_add_number(writer, lengths, "document_tokens", tpp_job_document_tokens(job));
        tpp_json_add_number(writer, lengths, "longest_tokens", job->lengths[job->num_lengths - 1]);
    }
    tpp_json_add_number(writer, object, "mtp_num_layers", job->mtp_num_layers);
    tpp_json_add_number(writer, object, "expert_imbalance", job->expert_imbalance);
    if (job->num_expert_splits > 0) {
        struct cJSON *splits = tpp_json_add_array(writer, object, "expert_splits");
        for (uint32_t i = 0; i < job->num_expert_splits; i++) {
            struct cJSON *split = tpp_json_add_object(writer, splits, NULL);
            tpp_json_add_u64(writer, split, "expert_parallel", job->expert_splits[i].ranks);
            tpp_json_add_number(writer, split, "imbalance", job->expert_splits[i].imbalance);
        }
    }
    tpp_json_add_number(writer, object, "expert_capacity_factor", job->expert_capacity_factor);
    tpp_json_add_number(writer, object, "hidden_dropout", job->hidden_dropout);
    tpp_json_add_number(writer, object, "attention_dropout", job->attention_dropout);
}

/* Of a trained parameter, before sharding. */
static void add_state_bytes(const struct tpp_stack *stack, struct tpp_json_writer *writer, struct cJSON *parent)
{
    const struct tpp_state_bytes bytes = tpp_stack_state_bytes(stack);
    struct cJSON *object = tpp_json_add_object(writer, parent, "bytes_per_parameter");
    tpp_json_add_u64(writer, object, "weights", bytes.weights);
    tpp_json_add_u64(writer, object, "gradients", bytes.gradients);
    tpp_json_add_u64(writer, object, "master_weights", bytes.master_weights);
    tpp_json_add_u64(writer, object, "gradient_copies", bytes.gradient_copies);
    tpp_json_add_number(writer, object, "moments", bytes.moments);
}

static void add_software(const struct tpp_stack *stack, struct tpp_json_writer *writer, struct cJSON *parent)
{
    struct cJSON *object = tpp_json_add_object(writer, parent, "software");
    tpp_json_add_string(writer, object, "framework", tpp_framework_name(stack->framework));
    tpp_json_add_string(writer, object, "framework_version", stack->release);
    tpp_json_add_string(writer, object, "engine", tpp_engine_name(stack->engine));
    tpp_json_add_string(writer, object, "attention", tpp_attention_kernel_name(stack->attention));
    tpp_json_add_string(writer, object, "norm_kernel", style_name(stack->norm_kernel));
    tpp_json_add_string(writer, object, "activation_kernel", style_name(stack->activation_kernel));
    tpp_json_add_string(writer, object, "rope_kernel", style_name(stack->rope_kernel));
    tpp_json_add_string(writer, object, "loss_kernel", loss_names[stack->loss_kernel]);
    tpp_json_add_string(writer, object, "lm_head_output",
                        stack->lm_head_output == TPP_LM_HEAD_GATHERED ? "gathered" : "vocabulary-parallel");
    tpp_json_add_bool(writer, object, "transformer_engine", stack->transformer_engine);
    tpp_json_add_bool(writer, object, "tp_async", stack->tensor_parallel_async);
    tpp_json_add_string(writer, object, "tp_stack", stack->tensor_parallel_other ? "other" : "megatron");
    tpp_json_add_bool(writer, object, "launch_blocking", stack->launch_blocking);
    tpp_json_add_bool(writer, object, "deterministic", stack->deterministic);
    tpp_json_add_bool(writer, object, "cuda_graphs", stack->cuda_graphs);
    tpp_json_add_string(writer, object, "fp8_scaling", stack->current_scaling ? "current" : "delayed");
    tpp_json_add_bool(writer, object, "fp8_param_gather", stack->fp8_weights);
    add_state_bytes(stack, writer, object);
}

void tpp_job_inputs_add_json(const struct tpp_job_arguments *arguments, const struct tpp_job_inputs *inputs,
                             struct tpp_json_writer *writer, struct cJSON *parent)
{
    struct cJSON *object = tpp_json_add_object(writer, parent, "inputs");
    add_model(arguments, &inputs->model, writer, object);
    add_cluster(arguments, inputs, writer, object);
    add_job(&inputs->job, writer, object);
    add_software(&inputs->stack, writer, object);
}
