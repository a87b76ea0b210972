#include "costmodel/job.h"

#include "costmodel/base/units.h"
#include "costmodel/model/model_fields.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define MAX_LORA_RANK 4096
#define MAX_EXPERT_IMBALANCE 100
#define MAX_EXPERT_CAPACITY 100

static const char *const precision_names[] = {"bf16", "fp16", "fp32", "fp8", "fp8-block", "mxfp8"};
static const char *const task_names[] = {"pretrain", "sft", "lora", "qlora"};
static const char *const optimizer_names[] = {"adamw", "adamw-bf16", "adamw-8bit"};

struct tpp_job tpp_job_defaults(void)
{
    return (struct tpp_job){
        .precision = TPP_PRECISION_BF16,
        .task = TPP_TASK_PRETRAIN,
        .lora_rank = 16,
        .lora_targets = TPP_LORA_ALL_LINEAR,
        .expert_imbalance = 1,
    };
}

bool tpp_job_is_adapter(const struct tpp_job *job)
{
    return job->task == TPP_TASK_LORA || job->task == TPP_TASK_QLORA;
}

bool tpp_precision_is_fp8(enum tpp_precision precision)
{
    return precision == TPP_PRECISION_FP8 || precision == TPP_PRECISION_FP8_BLOCK || precision == TPP_PRECISION_MXFP8;
}

static enum tpp_code check_sizes(const struct tpp_job *job, struct tpp_error *err)
{
    char found[32];
    if (job->num_gpus < 1 || job->num_gpus > TPP_JOB_MAX_GPUS) {
        return tpp_fail(err, TPP_E_RANGE, "job.num_gpus", "give 1 to 1,048,576 GPUs", "%s GPUs are out of range",
                        tpp_format_count(found, sizeof found, job->num_gpus));
    }
    if (job->sequence_length < 1 || job->sequence_length > TPP_JOB_MAX_SEQUENCE_LENGTH) {
        return tpp_fail(err, TPP_E_RANGE, "job.sequence_length", "give 1 to 134,217,728 tokens",
                        "a sequence length of %s tokens is out of range",
                        tpp_format_count(found, sizeof found, job->sequence_length));
    }
    if (job->global_batch_size < 1 || job->global_batch_size > TPP_JOB_MAX_GLOBAL_BATCH_SIZE) {
        return tpp_fail(err, TPP_E_RANGE, "job.global_batch_size", "give 1 to 2,147,483,648 sequences a step",
                        "a global batch of %s sequences is out of range",
                        tpp_format_count(found, sizeof found, job->global_batch_size));
    }
    if (job->attention_block_length > job->sequence_length) {
        return tpp_fail(err, TPP_E_RANGE, "job.attention_block_length",
                        "give a document length up to the sequence length, or none for whole sequences",
                        "documents of %s tokens do not fit in the sequence",
                        tpp_format_count(found, sizeof found, job->attention_block_length));
    }
    if (job->num_lengths > 0 && job->packed_fraction == 0 && job->attention_block_length > 0) {
        return tpp_fail(err, TPP_E_RANGE, "job.attention_block_length", "pack them, or leave the document length out",
                        "sequences that are padded hold no documents");
    }
    return TPP_OK;
}

static enum tpp_code check_kinds(const struct tpp_job *job, struct tpp_error *err)
{
    if (tpp_precision_name(job->precision) == NULL) {
        return tpp_fail(err, TPP_E_RANGE, "job.precision", "choose bf16, fp16, fp32, fp8, fp8-block or mxfp8", "unknown precision %d",
                        (int)job->precision);
    }
    if (tpp_task_name(job->task) == NULL) {
        return tpp_fail(err, TPP_E_RANGE, "job.task", "choose pretrain, sft, lora or qlora", "unknown task %d",
                        (int)job->task);
    }
    if (tpp_optimizer_name(job->optimizer) == NULL) {
        return tpp_fail(err, TPP_E_RANGE, "job.optimizer", "choose adamw, adamw-bf16 or adamw-8bit",
                        "unknown optimizer %d", (int)job->optimizer);
    }
    if ((unsigned)job->gradient_type > TPP_GRADIENT_BF16) {
        return tpp_fail(err, TPP_E_RANGE, "job.gradient_type", "choose fp32 or bf16", "unknown type of gradients %d",
                        (int)job->gradient_type);
    }
    return TPP_OK;
}

static enum tpp_code check_adapters(const struct tpp_job *job, const struct tpp_model *model, struct tpp_error *err)
{
    if (job->lora_rank < 1 || job->lora_rank > MAX_LORA_RANK) {
        return tpp_fail(err, TPP_E_RANGE, "job.lora_rank", "give a rank of 1 to 4096",
                        "an adapter rank of %u is out of range", job->lora_rank);
    }
    if (job->lora_rank > model->hidden_size) {
        return tpp_fail(err, TPP_E_RANGE, "job.lora_rank", "8 to 64 is usual",
                        "an adapter of rank %u is wider than the model (hidden size %u)", job->lora_rank,
                        model->hidden_size);
    }
    if ((unsigned)job->lora_targets > TPP_LORA_QV) {
        return tpp_fail(err, TPP_E_RANGE, "job.lora_targets", NULL, "unknown set of adapted layers %d",
                        (int)job->lora_targets);
    }
    return TPP_OK;
}

static enum tpp_code check_dropout(const char *where, double value, struct tpp_error *err)
{
    if (!(value >= 0 && value <= 1)) { /* refuses NaN too */
        return tpp_fail(err, TPP_E_RANGE, where, "give a probability from 0 to 1", "a dropout of %g is out of range",
                        value);
    }
    return TPP_OK;
}

static enum tpp_code check_experts(const struct tpp_job *job, struct tpp_error *err)
{
    if (!(job->expert_imbalance >= 1 && job->expert_imbalance <= MAX_EXPERT_IMBALANCE)) {
        return tpp_fail(err, TPP_E_RANGE, "job.expert_imbalance", "give the fullest rank's tokens over the average",
                        "an imbalance of %g is not between 1 and %d", job->expert_imbalance, MAX_EXPERT_IMBALANCE);
    }
    if (!(job->expert_capacity_factor >= 0 && job->expert_capacity_factor <= MAX_EXPERT_CAPACITY)) {
        return tpp_fail(err, TPP_E_RANGE, "job.expert_capacity_factor", "1 to 2 is usual, 0 drops no token",
                        "a capacity factor of %g is not between 0 and %d", job->expert_capacity_factor,
                        MAX_EXPERT_CAPACITY);
    }
    if (job->mtp_num_layers > TPP_MODEL_MAX_MTP_LAYERS) {
        return tpp_fail(err, TPP_E_RANGE, "job.mtp_num_layers", "DeepSeek-V3 has 1",
                        "%u multi-token-prediction blocks are more than %d", job->mtp_num_layers,
                        TPP_MODEL_MAX_MTP_LAYERS);
    }
    if (job->mtp_num_layers > 0 && tpp_job_is_adapter(job)) {
        return tpp_fail(err, TPP_E_UNSUPPORTED, "job.mtp_num_layers", "leave the blocks out, or train all weights",
                        "multi-token prediction is not trained together with adapters");
    }
    return TPP_OK;
}

enum tpp_code tpp_job_check(const struct tpp_job *job, const struct tpp_model *model, struct tpp_error *err)
{
    enum tpp_code code = check_sizes(job, err);
    if (code == TPP_OK) {
        code = check_kinds(job, err);
    }
    if (code == TPP_OK && tpp_job_is_adapter(job)) {
        code = check_adapters(job, model, err);
    }
    if (code == TPP_OK) {
        code = check_dropout("job.lora_dropout", job->lora_dropout, err);
    }
    if (code == TPP_OK) {
        code = check_dropout("job.hidden_dropout", job->hidden_dropout, err);
    }
    if (code == TPP_OK) {
        code = check_dropout("job.attention_dropout", job->attention_dropout, err);
    }
    return code == TPP_OK ? check_experts(job, err) : code;
}

static const char *name_at(const char *const *names, size_t count, unsigned index)
{
    return index < count ? names[index] : NULL;
}

static bool find_name(const char *const *names, size_t count, const char *text, unsigned *out)
{
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(names[i], text) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const char *tpp_precision_name(enum tpp_precision precision)
{
    return name_at(precision_names, COUNT(precision_names), (unsigned)precision);
}

const char *tpp_task_name(enum tpp_task task)
{
    return name_at(task_names, COUNT(task_names), (unsigned)task);
}

const char *tpp_gradient_type_name(enum tpp_gradient_type type)
{
    static const char *const names[] = {"default", "fp32", "bf16"};
    return names[type];
}

const char *tpp_optimizer_name(enum tpp_optimizer optimizer)
{
    return name_at(optimizer_names, COUNT(optimizer_names), (unsigned)optimizer);
}

bool tpp_precision_parse(const char *text, enum tpp_precision *out)
{
    unsigned index;
    if (!find_name(precision_names, COUNT(precision_names), text, &index)) {
        return false;
    }
    *out = (enum tpp_precision)index;
    return true;
}

bool tpp_task_parse(const char *text, enum tpp_task *out)
{
    unsigned index;
    if (!find_name(task_names, COUNT(task_names), text, &index)) {
        return false;
    }
    *out = (enum tpp_task)index;
    return true;
}

bool tpp_optimizer_parse(const char *text, enum tpp_optimizer *out)
{
    unsigned index;
    if (!find_name(optimizer_names, COUNT(optimizer_names), text, &index)) {
        return false;
    }
    *out = (enum tpp_optimizer)index;
    return true;
}

double tpp_job_expert_imbalance(const struct tpp_job *job, uint32_t expert_parallel)
{
    for (uint32_t i = 0; i < job->num_expert_splits; i++) {
        if (job->expert_splits[i].ranks == expert_parallel)
            return job->expert_splits[i].imbalance;
    }
    return job->expert_imbalance;
}
