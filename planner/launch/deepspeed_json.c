/* deepspeed_json.c - see deepspeed_json.h. */
#include "planner/launch/deepspeed_json.h"

#include "costmodel/base/json_write.h"
#include "planner/launch/refusal.h"

#include <stdio.h>

enum tpp_code tpp_deepspeed_json_check(const struct tpp_launch_request *request, enum tpp_deepspeed_client client,
                                       const char *framework, struct tpp_error *err)
{
    char sentence[96];
    const struct tpp_strategy *s = request->strategy;
    const bool has_buckets = client != TPP_DEEPSPEED_PIPELINE && s->zero_stage > 0;
    const struct tpp_refusal refusals[] = {
        {s->shard_group > 0, "strategy.shard_group", "ZeRO shards over all ranks that share weights"},
        {s->zero_stage == 3 && !s->reshard_after_forward, "strategy.reshard_after_forward",
         "ZeRO stage 3 frees the weights behind forward"},
        {has_buckets && s->overlap_grad_reduce != s->overlap_param_gather, "strategy.overlap_param_gather",
         "overlap_comm stands for both directions"},
        {s->offload_percent > 0 && s->offload_percent < 100 && s->zero_stage < 3, "strategy.offload_percent",
         "a part of the optimizer is offloaded at stage 3 only"},
        {s->offload_layers > 0, "strategy.offload_layers", "offload of activations is not written", true},
        {!s->align_grad_reduce, "strategy.align_grad_reduce", "aligning reductions is Megatron's alone"},
        {s->microbatch_group_size > 0, "strategy.microbatch_group_size", "groups of micro-batches are Megatron's alone"},
        {s->virtual_pipeline_stages > 1, "strategy.virtual_pipeline_stages", "its stages have one part each"},
        {s->first_stage_layers > 0 || s->last_stage_layers > 0 || s->account_for_embedding || s->account_for_loss,
         "strategy.first_stage_layers", "it divides the layers over stages by itself"},
    };
    snprintf(sentence, sizeof sentence, "%s cannot run this plan:", framework);
    return tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals, sentence, "choose another plan or framework",
                             err);
}

static void add_zero(const struct tpp_launch_request *request, enum tpp_deepspeed_client client,
                     struct tpp_json_writer *writer)
{
    const struct tpp_strategy *s = request->strategy;
    struct cJSON *zero = tpp_json_add_object(writer, writer->root, "zero_optimization");
    tpp_json_add_u64(writer, zero, "stage", s->zero_stage);
    if (s->zero_stage == 0)
        return;
    if (client != TPP_DEEPSPEED_PIPELINE) /* whose engine switches it off */
        tpp_json_add_bool(writer, zero, "overlap_comm", s->overlap_grad_reduce);
    tpp_json_add_bool(writer, zero, "contiguous_gradients", true);
    if (s->reduce_bucket_size > 0)
        tpp_json_add_u64(writer, zero, "reduce_bucket_size", s->reduce_bucket_size);
    if (s->allgather_bucket_size > 0)
        tpp_json_add_u64(writer, zero, "allgather_bucket_size", s->allgather_bucket_size);
    if (s->zero_stage == 3)
        tpp_json_add_bool(writer, zero, "stage3_gather_16bit_weights_on_model_save", true);
    if (s->offload != TPP_OFFLOAD_OPTIMIZER)
        return;
    struct cJSON *offload = tpp_json_add_object(writer, zero, "offload_optimizer");
    tpp_json_add_string(writer, offload, "device", "cpu");
    tpp_json_add_bool(writer, offload, "pin_memory", true);
    if (tpp_strategy_offload_fraction(s) < 1)
        tpp_json_add_number(writer, offload, "ratio", tpp_strategy_offload_fraction(s));
}

/* The pipeline engine's bf16 optimizer sums in fp32 whatever the stage, but without one it may not be said
 * (deepspeed_config.c). */
static bool sums_in_fp32(const struct tpp_launch_request *request, enum tpp_deepspeed_client client)
{
    return client == TPP_DEEPSPEED_PIPELINE ? request->stack->fp32_accumulation && request->strategy->zero_stage > 0
                                            : request->stack->gradient_bytes == 4;
}

static void add_precision(const struct tpp_launch_request *request, enum tpp_deepspeed_client client,
                          struct tpp_json_writer *writer)
{
    const enum tpp_precision precision = request->job->precision;
    if (precision != TPP_PRECISION_BF16 && precision != TPP_PRECISION_FP16)
        return;
    struct cJSON *object = tpp_json_add_object(writer, writer->root, precision == TPP_PRECISION_BF16 ? "bf16" : "fp16");
    tpp_json_add_bool(writer, object, "enabled", true);
    if (sums_in_fp32(request, client)) {
        object = tpp_json_add_object(writer, writer->root, "data_types");
        tpp_json_add_string(writer, object, "grad_accum_dtype", "fp32");
    }
    if (request->stack->reduce_bytes == 4)
        tpp_json_add_string(writer, writer->root, "communication_data_type", "fp32");
}

enum tpp_code tpp_deepspeed_json_write(const struct tpp_launch_request *request, enum tpp_deepspeed_client client,
                                       struct tpp_text *out, struct tpp_error *err)
{
    const struct tpp_strategy *s = request->strategy;
    struct tpp_json_writer writer;
    tpp_json_writer_init(&writer);
    tpp_json_add_u64(&writer, writer.root, "train_batch_size", request->job->global_batch_size);
    tpp_json_add_u64(&writer, writer.root, "train_micro_batch_size_per_gpu", s->micro_batch_size);
    tpp_json_add_u64(&writer, writer.root, "gradient_accumulation_steps", s->num_micro_batches);
    if (client == TPP_DEEPSPEED_TRAINER)
        tpp_json_add_string(&writer, writer.root, "gradient_clipping", "auto");
    else
        tpp_json_add_number(&writer, writer.root, "gradient_clipping", 1.0); /* off by default until 0.19 */
    tpp_json_add_u64(&writer, writer.root, "steps_per_print", 10);
    add_precision(request, client, &writer);
    add_zero(request, client, &writer);
    const enum tpp_code code = tpp_json_print(&writer, out, err);
    tpp_json_writer_release(&writer);
    return code;
}
