/* trainer.c - launch scripts of Hugging Face's Trainer with DeepSpeed, and of ms-swift's Transformers side (swift sft,
 * swift pt), with the ds_config.json of both, and of the Trainer with FSDP under accelerate (launch formats, sections 3
 * to 5). The model comes from its own files. */
#include "costmodel/sequence_lengths.h"
#include "planner/launch/config/accelerate.h"
#include "planner/launch/deepspeed_json.h"
#include "planner/launch/emitter.h"
#include "planner/launch/refusal.h"

#include <stdio.h>

/* The same things by other names. */
struct names {
    const char *framework, *model, *dataset, *attention, *adapters, *lora_rank, *lora_targets;
    bool is_swift, is_fsdp;
};
static const struct names hugging_face = {
    .framework = "Hugging Face's Trainer",
    .model = "--model_name_or_path",
    .dataset = "--dataset_name",
    .attention = "--attn_implementation",
    .lora_rank = "--lora_r",
    .lora_targets = "--lora_target_modules",
};
static const struct names accelerate = {
    .framework = "accelerate",
    .model = "--model_name_or_path",
    .dataset = "--dataset_name",
    .attention = "--attn_implementation",
    .lora_rank = "--lora_r",
    .lora_targets = "--lora_target_modules",
    .is_fsdp = true,
};
static const struct names swift = {
    .framework = "ms-swift",
    .model = "--model",
    .dataset = "--dataset",
    .attention = "--attn_impl",
    .lora_rank = "--lora_rank",
    .lora_targets = "--target_modules",
    .is_swift = true,
};

#define CHOOSE "choose another plan or framework"

/* FlashAttention runs in 16 bits alone. */
static enum tpp_code check_job(const struct tpp_launch_request *request, const struct names *names,
                               struct tpp_error *err)
{
    char sentence[64];
    const enum tpp_attention_kernel attention = request->stack->attention;
    const struct tpp_job *job = request->job;
    const char *release = request->stack->release;
    const struct tpp_refusal refusals[] = {
        {names->is_swift && tpp_version_is_before(release, 4, 0), "release",
         "scripts are written with the options of 4.0 and newer", true},
        {names->is_fsdp && request->stack->engine == TPP_ENGINE_FSDP2 && tpp_version_is_before(release, 1, 6),
         "release", "FSDP2 is there from accelerate 1.6 on"},
        {job->hidden_dropout > 0 || job->attention_dropout > 0, "job.hidden_dropout", "dropout is the model's own"},
        {tpp_precision_is_fp8(job->precision), "job.precision", "plans are for 16 or 32 bits"},
        {names->is_fsdp && job->gradient_type == TPP_GRADIENT_FP32 && job->precision != TPP_PRECISION_FP32,
         "job.gradient_type", "it reduces gradients in the type that it computes in"},
        {attention != TPP_ATTENTION_FLASH2 && attention != TPP_ATTENTION_EAGER, "stack.attention",
         "it has FlashAttention 2 and eager attention"},
        {job->precision == TPP_PRECISION_FP32 && attention != TPP_ATTENTION_EAGER, "job.precision",
         "FlashAttention has no 32 bits (eager attention has)"},
        {job->precision == TPP_PRECISION_FP32 && job->task == TPP_TASK_QLORA, "job.precision",
         "the adapters of quantised weights are trained in 16 bits"},
    };
    snprintf(sentence, sizeof sentence, "%s cannot run this plan:", names->framework);
    const enum tpp_code code = tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, sentence, CHOOSE, err);
    return code != TPP_OK ? code : tpp_launch_check_plain_job(request, sentence, err);
}

static enum tpp_code check_plan(const struct tpp_launch_request *request, const struct names *names,
                                struct tpp_error *err)
{
    char sentence[64];
    struct tpp_rule_settings settings;
    const struct tpp_strategy *s = request->strategy;
    const bool is_partial = s->recompute == TPP_RECOMPUTE_FULL && s->recompute_num_layers > 1;
    const struct tpp_refusal refusals[] = {
        {s->tensor_parallel > 1 && !names->is_fsdp, "strategy.tensor_parallel",
         "it has no tensor parallelism in training"},
        {s->pipeline_parallel > 1, "strategy.pipeline_parallel", "it has no pipeline"},
        {s->expert_parallel > 1, "strategy.expert_parallel", "experts are not spread over ranks"},
        {s->context_parallel > 1 && !names->is_swift && !names->is_fsdp, "strategy.context_parallel",
         "it has no sequence parallelism over ranks"},
        {s->context_parallel > 1 && !names->is_fsdp && s->context_kind != TPP_CONTEXT_ULYSSES, "strategy.context_kind",
         "its sequence parallelism over ranks is Ulysses"},
        {s->recompute == TPP_RECOMPUTE_SELECTIVE || is_partial, "strategy.recompute",
         "gradient checkpointing is of every layer, or of none"},
        {s->offload == TPP_OFFLOAD_OPTIMIZER && s->zero_stage == 0, "strategy.offload", "ZeRO moves the optimizer"},
    };
    snprintf(sentence, sizeof sentence, "%s cannot run this plan:", names->framework);
    enum tpp_code code = tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, sentence, CHOOSE, err);
    if (code == TPP_OK)
        code = tpp_launch_check_plain(request, sentence, err);
    if (code == TPP_OK && names->is_fsdp)
        return tpp_accelerate_check(request, err);
    if (code == TPP_OK)
        code = tpp_deepspeed_json_check(request, TPP_DEEPSPEED_TRAINER, names->framework, err);
    return code != TPP_OK ? code : tpp_launch_check_rules(request, names->framework, &settings, err);
}

static void write_required(struct tpp_script *script, const struct tpp_launch_request *request,
                           const struct names *names)
{
    tpp_script_comment(script, "What only you know. More options may follow the name of this script; the last one of a "
                               "name wins.");
    if (!names->is_swift)
        tpp_script_required(script, "TRAIN_SCRIPT", "a program with the arguments of the Trainer, as sft.py of TRL");
    tpp_script_required(script, "MODEL", "the name or folder of the model, with its config.json");
    tpp_script_required(script, "DATASET", "the name or file of the data set");
    tpp_script_required(script, "OUTPUT_DIR", "the folder that checkpoints are written to");
    tpp_script_required(script, "MAX_STEPS", "the number of optimizer steps");
    tpp_script_required(script, "LR", "the peak learning rate");
    tpp_script_required_nodes(script, request);
    tpp_text_append(script->out, "\n");
}

static const char *target_modules(enum tpp_lora_targets targets)
{
    switch (targets) {
    case TPP_LORA_ATTENTION:
        return "q_proj k_proj v_proj o_proj";
    case TPP_LORA_QKV:
        return "q_proj k_proj v_proj";
    case TPP_LORA_QV:
        return "q_proj v_proj";
    default:
        return "all-linear";
    }
}

static void write_adapters(struct tpp_script *script, const struct tpp_job *job, const struct names *names)
{
    const bool is_adapter = tpp_job_is_adapter(job);
    if (names->is_swift)
        tpp_script_word(script, "--tuner_type", is_adapter ? "lora" : "full");
    if (!is_adapter)
        return;
    if (!names->is_swift)
        tpp_script_expression(script, "--use_peft", "true");
    tpp_script_integer(script, names->lora_rank, job->lora_rank);
    tpp_script_integer(script, "--lora_alpha", 2 * (int64_t)job->lora_rank);
    tpp_script_expression(script, names->lora_targets, target_modules(job->lora_targets));
    if (job->task != TPP_TASK_QLORA)
        return;
    if (names->is_swift) {
        tpp_script_word(script, "--quant_method", "bnb");
        tpp_script_integer(script, "--quant_bits", 4);
    } else {
        tpp_script_expression(script, "--load_in_4bit", "true");
    }
}

/* Context parallelism of PyTorch replaces the attention of scaled_dot_product_attention alone. */
static const char *attention_of(const struct tpp_launch_request *request, const struct names *names)
{
    if (request->stack->attention == TPP_ATTENTION_EAGER)
        return "eager";
    if (names->is_fsdp && request->strategy->context_parallel > 1)
        return "sdpa";
    return names->is_swift ? "flash_attn" : "flash_attention_2";
}

static void write_training(struct tpp_script *script, const struct tpp_launch_request *request,
                           const struct names *names)
{
    const struct tpp_strategy *s = request->strategy;
    const struct tpp_job *job = request->job;
    if (names->is_fsdp && job->task == TPP_TASK_QLORA)
        tpp_script_comment(script,
                           "FSDP shards weights of one type: let TRAIN_SCRIPT store the 4-bit ones in the type of "
                           "the model (bnb_4bit_quant_storage).");
    tpp_script_array_begin(script, "TRAINING_ARGS");
    write_adapters(script, job, names);
    tpp_script_integer(script, "--per_device_train_batch_size", s->micro_batch_size);
    tpp_script_integer(script, "--gradient_accumulation_steps", (int64_t)s->num_micro_batches);
    tpp_script_integer(script, "--max_length", (int64_t)job->sequence_length);
    /* Every sequence is as long as planned, or padded. */
    tpp_script_expression(script, "--packing", tpp_job_pads(request->job) ? "false" : "true");
    if (s->context_parallel > 1 && !names->is_fsdp)
        tpp_script_integer(script, "--sequence_parallel_size", s->context_parallel);
    /* The Trainer refuses both; FSDP's own does not gather the weights of a layer twice. */
    tpp_script_expression(script, "--gradient_checkpointing",
                          s->recompute == TPP_RECOMPUTE_FULL && !names->is_fsdp ? "true" : "false");
    if (job->precision == TPP_PRECISION_FP32) { /* newer Trainers take bf16 when nothing is said */
        tpp_script_expression(script, "--bf16", "false");
        tpp_script_word(script, "--torch_dtype", "float32");
    } else {
        tpp_script_expression(script, job->precision == TPP_PRECISION_FP16 ? "--fp16" : "--bf16", "true");
    }
    if (job->optimizer == TPP_OPTIMIZER_ADAMW_8BIT)
        tpp_script_word(script, "--optim", "adamw_bnb_8bit");
    tpp_script_word(script, names->attention, attention_of(request, names));
    tpp_script_expression(script, "--max_steps", "\"$MAX_STEPS\"");
    tpp_script_expression(script, "--learning_rate", "\"$LR\"");
    tpp_script_expression(script, names->model, "\"$MODEL\"");
    tpp_script_expression(script, names->dataset, "\"$DATASET\"");
    tpp_script_expression(script, "--output_dir", "\"$OUTPUT_DIR\"");
    if (!names->is_fsdp)
        tpp_script_expression(script, "--deepspeed", "\"$DS_CONFIG\"");
    tpp_script_array_end(script);
}

static enum tpp_code emit(const struct tpp_launch_request *request, struct tpp_script *script,
                          const struct names *names, struct tpp_error *err)
{
    struct tpp_text config;
    const char *arguments = "\"${TRAINING_ARGS[@]}\" \"$@\"";
    enum tpp_code code = check_plan(request, names, err);
    if (code != TPP_OK)
        return code;
    tpp_text_init(&config);
    code = names->is_fsdp ? tpp_accelerate_write(request, &config, err)
                          : tpp_deepspeed_json_write(request, TPP_DEEPSPEED_TRAINER, &config, err);
    tpp_script_header(script, request);
    write_required(script, request, names);
    tpp_script_environment(script, request);
    tpp_text_append(script->out, "\n");
    tpp_script_config(script, request, names->is_fsdp ? "ACCELERATE_CONFIG" : "DS_CONFIG",
                      names->is_fsdp ? "accelerate.yaml" : "ds_config.json", &config);
    tpp_text_release(&config);
    write_training(script, request, names);
    tpp_text_append(script->out, "\n");
    if (names->is_swift)
        tpp_script_per_node(script, request, request->job->task == TPP_TASK_PRETRAIN ? "swift pt" : "swift sft",
                            arguments);
    else if (names->is_fsdp)
        tpp_script_accelerate(script, request, "ACCELERATE_CONFIG", "\"$TRAIN_SCRIPT\"", arguments);
    else
        tpp_script_torchrun(script, request, "\"$TRAIN_SCRIPT\"", arguments);
    return code;
}

enum tpp_code tpp_launch_check_trainer(const struct tpp_launch_request *request, struct tpp_error *err)
{
    return check_job(request, &hugging_face, err);
}

enum tpp_code tpp_launch_check_accelerate(const struct tpp_launch_request *request, struct tpp_error *err)
{
    return check_job(request, &accelerate, err);
}

enum tpp_code tpp_launch_check_swift(const struct tpp_launch_request *request, struct tpp_error *err)
{
    return check_job(request, &swift, err);
}

enum tpp_code tpp_launch_emit_trainer(const struct tpp_launch_request *request, struct tpp_script *script,
                                      struct tpp_error *err)
{
    return emit(request, script, &hugging_face, err);
}

enum tpp_code tpp_launch_emit_accelerate(const struct tpp_launch_request *request, struct tpp_script *script,
                                         struct tpp_error *err)
{
    return emit(request, script, &accelerate, err);
}

enum tpp_code tpp_launch_emit_swift(const struct tpp_launch_request *request, struct tpp_script *script,
                                    struct tpp_error *err)
{
    return emit(request, script, &swift, err);
}
