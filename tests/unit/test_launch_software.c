/* FP8 recipes, pipeline layouts, experts of a fixed capacity, CUDA graphs and Megatron's FSDP: the words of each
 * framework for them. Keys and names are those of Megatron-Bridge 067f987, ms-swift 3602360 and Megatron-LM d98e8a6. */
#include "tests/support/launch_case.h"
#include "tests/support/script_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void start(const struct launch_case *c, struct script_run *run)
{
    struct tpp_text script;
    struct tpp_error err = {0};
    tpp_text_init(&script);
    if (tpp_launch_emit(&c->request, &script, &err) != TPP_OK)
        fail_msg("%s (%s)", err.message, err.where);
    script_run(tpp_text_get(&script), launch_environment, run);
    if (run->status != 0)
        fail_msg("the script ended with %d: %s", run->status, run->complaint);
    tpp_text_release(&script);
}

static void check_refused(const struct launch_case *c, enum tpp_code code, const char *where)
{
    struct tpp_text script;
    struct tpp_error err = {0};
    tpp_text_init(&script);
    assert_int_equal(tpp_launch_emit(&c->request, &script, &err), code);
    assert_string_equal(err.where, where);
    assert_true(err.message[0] != '\0' && err.hint[0] != '\0');
    tpp_text_release(&script);
}

/* The words "key=value", or option and value where the framework has no overrides, of one start. */
static void check_words(const struct launch_case *c, const char *const *words)
{
    struct script_run run;
    start(c, &run);
    for (; *words != NULL; words++) {
        const char *const space = strchr(*words, ' ');
        char option[96];
        snprintf(option, sizeof option, "%.*s", (int)(space != NULL ? space - *words : 95), *words);
        const char *value = space != NULL ? script_run_value(&run, option) : NULL;
        if (space != NULL ? value == NULL || strcmp(value, space + 1) != 0 : !script_run_has(&run, *words))
            fail_msg("no %s (%s)", *words, value != NULL ? value : "nothing");
    }
    script_run_release(&run);
}
#define CHECK(c, ...) check_words(c, (const char *const[]){__VA_ARGS__, NULL})

/* An H100 with FP8, under the framework's own kernels. */
static void open_case(struct launch_case *c, enum tpp_framework framework, enum tpp_engine engine,
                      enum tpp_precision precision)
{
    launch_case_init(c);
    for (int i = 0; i < TPP_FLASH_KERNEL_COUNT; i++)
        c->hardware.gpu.flash_forward_fraction[i] = 0.5;
    c->hardware.gpu.fp8_flops_per_second = 2e15;
    c->hardware.gpu.has_bf16 = true;
    c->job.precision = precision;
    tpp_stack_defaults(framework, &c->hardware.gpu, &c->job, &c->stack);
    tpp_stack_set_engine(&c->stack, engine, &c->hardware.gpu, &c->job);
}

/* Every layer has experts. */
static void add_experts(struct launch_case *c)
{
    c->model.num_experts = 8;
    c->model.experts_per_token = 2;
    c->model.moe_ffn_hidden_size = 14336;
    c->model.moe_layer_period = 1;
    c->model.ffn_hidden_size = 0;
    c->strategy.expert_parallel = 4;
    c->strategy.expert_tensor_parallel = 1;
}

#define OBJECT(keys)                                                                                                   \
    "mixed_precision={_target_:megatron.bridge.training.mixed_precision.MixedPrecisionConfig,bf16:true,"               \
    "params_dtype:{_target_:torch.bfloat16,_call_:false},pipeline_dtype:{_target_:torch.bfloat16,_call_:false}," keys  \
    "grad_reduce_in_fp32:true}"

/* Names where one means exactly the plan; its bf16_with_fp8_current_scaling_mixed keeps two layers in bf16. */
static void bridge_says_fp8_by_name_or_in_full(void **state)
{
    struct launch_case c;
    (void)state;
    open_case(&c, TPP_FRAMEWORK_NEMO, TPP_ENGINE_MEGATRON, TPP_PRECISION_FP8);
    CHECK(&c, "mixed_precision=bf16_with_fp8_delayed_scaling_mixed");
    c.stack.current_scaling = true;
    CHECK(&c, OBJECT("fp8:hybrid,fp8_recipe:tensorwise,fp8_param_gather:true,"));
    tpp_stack_set_fp8_weights(&c.stack, &c.job, false);
    CHECK(&c, OBJECT("fp8:hybrid,fp8_recipe:tensorwise,fp8_param_gather:false,"));
    c.stack.current_scaling = false;
    CHECK(&c, OBJECT("fp8:hybrid,fp8_recipe:delayed,fp8_amax_history_len:1024,fp8_amax_compute_algo:max,"
                     "fp8_param_gather:false,"));
    open_case(&c, TPP_FRAMEWORK_NEMO, TPP_ENGINE_MEGATRON, TPP_PRECISION_MXFP8);
    CHECK(&c, "mixed_precision=bf16_with_mxfp8_mixed");
    c.job.gradient_type = TPP_GRADIENT_BF16;
    tpp_stack_set_dtypes(&c.stack, &c.job);
    struct script_run run;
    start(&c, &run);
    assert_true(script_run_has(
        &run,
        "mixed_precision={_target_:megatron.bridge.training.mixed_precision.MixedPrecisionConfig,bf16:true,"
        "params_dtype:{_target_:torch.bfloat16,_call_:false},pipeline_dtype:{_target_:torch.bfloat16,_call_:false},"
        "fp8:e4m3,fp8_recipe:mxfp8,fp8_param_gather:true,reuse_grad_buf_for_mxfp8_param_ag:true,"
        "grad_reduce_in_fp32:false}"));
    script_run_release(&run);
    open_case(&c, TPP_FRAMEWORK_NEMO, TPP_ENGINE_MEGATRON, TPP_PRECISION_FP8_BLOCK);
    CHECK(&c, "mixed_precision=bf16_with_fp8_subchannel_scaling_mixed");
}

static void swift_and_megatron_name_the_recipe(void **state)
{
    struct launch_case c;
    (void)state;
    open_case(&c, TPP_FRAMEWORK_MS_SWIFT, TPP_ENGINE_MEGATRON, TPP_PRECISION_FP8_BLOCK);
    CHECK(&c, "--fp8_format e4m3", "--fp8_recipe blockwise");
    open_case(&c, TPP_FRAMEWORK_MS_SWIFT, TPP_ENGINE_MEGATRON, TPP_PRECISION_FP8);
    c.stack.current_scaling = true;
    tpp_stack_set_fp8_weights(&c.stack, &c.job, true);
    CHECK(&c, "--fp8_format hybrid", "--fp8_recipe tensorwise", "--fp8_param_gather true");
    open_case(&c, TPP_FRAMEWORK_MEGATRON_LM, TPP_ENGINE_MEGATRON, TPP_PRECISION_MXFP8);
    tpp_stack_set_fp8_weights(&c.stack, &c.job, true);
    CHECK(&c, "--fp8-format e4m3", "--fp8-recipe mxfp8", "--fp8-param-gather", "--reuse-grad-buf-for-mxfp8-param-ag");
    open_case(&c, TPP_FRAMEWORK_MEGATRON_LM, TPP_ENGINE_MEGATRON, TPP_PRECISION_FP8);
    c.stack.current_scaling = true;
    CHECK(&c, "--fp8-recipe tensorwise");
    c.request.release = TPP_RELEASE_0_11; /* --fp8-recipe is there from 0.12 on */
    check_refused(&c, TPP_E_UNSUPPORTED, "stack.current_scaling");
    c.request.release = TPP_RELEASE_NEWEST;
    tpp_stack_set_fp8_weights(&c.stack, &c.job, true);
    c.strategy.zero_stage = 0;
    check_refused(&c, TPP_E_STRATEGY, "ML-50"); /* --fp8-param-gather needs the distributed optimizer */
}

/* 32 layers, the embedding's slot and 3 that the last stage lacks: 36 = 4 * 9. 36 layers and 4 that are lacking: 40 = 8 *
 * 5, the last chunk has 1. */
static void uneven_ends_are_a_layout(void **state)
{
    struct launch_case c;
    struct script_run run;
    (void)state;
    open_case(&c, TPP_FRAMEWORK_NEMO, TPP_ENGINE_MEGATRON, TPP_PRECISION_BF16);
    c.strategy.virtual_pipeline_stages = 1;
    c.strategy.schedule = TPP_SCHEDULE_1F1B;
    c.strategy.account_for_embedding = true;
    c.strategy.last_chunk_less = 3;
    CHECK(&c, "model.pipeline_model_parallel_layout=\"Et*8|(t*9|)*2t*6L\"",
          "model.account_for_embedding_in_pipeline_split=false", "model.virtual_pipeline_model_parallel_size=null");
    c.stack.framework = TPP_FRAMEWORK_MS_SWIFT;
    c.job.mtp_num_layers = 1;
    CHECK(&c, "--pipeline_model_parallel_layout Et*8|(t*9|)*2t*6mL", "--mtp_num_layers 1");
    open_case(&c, TPP_FRAMEWORK_MEGATRON_LM, TPP_ENGINE_MEGATRON, TPP_PRECISION_BF16);
    c.model.num_layers = 36;
    c.strategy.last_chunk_less = 4;
    start(&c, &run);
    assert_string_equal(script_run_value(&run, "--pipeline-model-parallel-layout"), "Et*5|(t*5|)*6tL");
    assert_false(script_run_has(&run, "--num-layers-per-virtual-pipeline-stage"));
    assert_false(script_run_has(&run, "--num-virtual-stages-per-pipeline-rank"));
    script_run_release(&run);
    c.request.release = TPP_RELEASE_0_12; /* layouts are there from 0.13 on */
    check_refused(&c, TPP_E_UNSUPPORTED, "strategy.last_chunk_less");
    c.request.release = TPP_RELEASE_NEWEST;
    c.model.num_layers = 35; /* 39 layers and slots do not make 8 chunks */
    check_refused(&c, TPP_E_STRATEGY, "ML-28");
}

static void capacities_are_padded_to(void **state)
{
    struct launch_case c;
    (void)state;
    open_case(&c, TPP_FRAMEWORK_NEMO, TPP_ENGINE_MEGATRON, TPP_PRECISION_BF16);
    add_experts(&c);
    CHECK(&c, "model.moe_expert_capacity_factor=null", "model.moe_pad_expert_input_to_capacity=false");
    c.job.expert_capacity_factor = 1.25;
    CHECK(&c, "model.moe_expert_capacity_factor=1.25", "model.moe_pad_expert_input_to_capacity=true");
    c.stack.framework = TPP_FRAMEWORK_MS_SWIFT;
    CHECK(&c, "--moe_expert_capacity_factor 1.25", "--moe_pad_expert_input_to_capacity true");
    c.strategy.dispatch = TPP_DISPATCH_DEEPEP; /* whose kernels take any number (ML-78) */
    check_refused(&c, TPP_E_STRATEGY, "ML-78");
    c.job.expert_capacity_factor = 0;
    CHECK(&c, "--moe_token_dispatcher_type flex", "--moe_enable_deepep true");
    c.job.expert_capacity_factor = 1.25;
    c.strategy.dispatch = TPP_DISPATCH_ALL_TO_ALL;
    c.stack.framework = TPP_FRAMEWORK_MEGATRON_LM;
    CHECK(&c, "--moe-expert-capacity-factor 1.25", "--moe-pad-expert-input-to-capacity");
}

/* "moe cuda graph is only supported with drop-padding MoE" (TransformerConfig). */
static void graphs_are_of_what_can_be_captured(void **state)
{
    struct launch_case c;
    struct script_run run;
    (void)state;
    open_case(&c, TPP_FRAMEWORK_NEMO, TPP_ENGINE_MEGATRON, TPP_PRECISION_BF16);
    CHECK(&c, "model.cuda_graph_impl=none", "rng.te_rng_tracker=false");
    tpp_stack_set_cuda_graphs(&c.stack, 0, false);
    start(&c, &run);
    assert_true(script_run_has(&run, "model.cuda_graph_impl=transformer_engine"));
    assert_true(script_run_has(&run, "model.cuda_graph_modules=[]"));
    assert_true(script_run_has(&run, "rng.te_rng_tracker=true"));
    assert_true(script_run_has(&run, "model.use_te_rng_tracker=true"));
    assert_string_equal(script_run_variable(&run, "NCCL_GRAPH_REGISTER"), "0");
    script_run_release(&run);
    add_experts(&c);
    check_refused(&c, TPP_E_UNSUPPORTED, "stack.cuda_graphs");
    tpp_stack_set_cuda_graphs(&c.stack, 0, true);
    CHECK(&c, "model.cuda_graph_modules=[attn,moe_router,moe_preprocess]");
    c.job.expert_capacity_factor = 1;
    tpp_stack_set_cuda_graphs(&c.stack, 0, false);
    CHECK(&c, "model.cuda_graph_modules=[attn,moe]");
    c.job.task = TPP_TASK_SFT; /* packed sequences cannot be captured */
    check_refused(&c, TPP_E_UNSUPPORTED, "stack.cuda_graphs");
    open_case(&c, TPP_FRAMEWORK_MEGATRON_LM, TPP_ENGINE_MEGATRON, TPP_PRECISION_BF16);
    tpp_stack_set_cuda_graphs(&c.stack, TPP_GRAPH_ATTENTION, false);
    CHECK(&c, "--cuda-graph-impl local", "--cuda-graph-modules attn");
    c.request.release = TPP_RELEASE_0_17;
    CHECK(&c, "--cuda-graph-impl local", "--cuda-graph-scope attn");
}

static void fsdp_is_megatrons_own(void **state)
{
    struct launch_case c;
    struct script_run run;
    (void)state;
    open_case(&c, TPP_FRAMEWORK_NEMO, TPP_ENGINE_FSDP2, TPP_PRECISION_BF16);
    c.strategy.zero_stage = 3;
    start(&c, &run);
    assert_true(script_run_has(&run, "ddp.use_megatron_fsdp=true"));
    assert_true(script_run_has(&run, "dist.use_megatron_fsdp=true"));
    assert_true(script_run_has(&run, "ddp.data_parallel_sharding_strategy=optim_grads_params"));
    assert_true(script_run_has(&run, "checkpoint.ckpt_format=fsdp_dtensor"));
    assert_true(script_run_has(&run, "ddp.average_in_collective=false"));
    assert_string_not_equal(script_run_variable(&run, "CUDA_DEVICE_MAX_CONNECTIONS"), "1");
    script_run_release(&run);
    c.strategy.zero_stage = 2;
    check_refused(&c, TPP_E_STRATEGY, "ML-45");
    c.strategy.zero_stage = 3;
    c.strategy.reshard_after_forward = false;
    check_refused(&c, TPP_E_STRATEGY, "ML-45");
    open_case(&c, TPP_FRAMEWORK_MS_SWIFT, TPP_ENGINE_FSDP2, TPP_PRECISION_BF16);
    c.strategy.zero_stage = 3;
    CHECK(&c, "--use_megatron_fsdp true", "--data_parallel_sharding_strategy optim_grads_params",
          "--use_distributed_optimizer true");
}

static void bridge_pads_the_vocabulary_as_planned(void **state)
{
    struct launch_case c;
    (void)state;
    open_case(&c, TPP_FRAMEWORK_NEMO, TPP_ENGINE_MEGATRON, TPP_PRECISION_BF16);
    CHECK(&c, "model.should_pad_vocab=true", "model.make_vocab_size_divisible_by=128");
}

/* Both keys in fp32; ZeRO takes another type alone, and fp32 is no copy of 16 bits then (16 - 4 bytes of states). */
static void deepspeed_sums_and_sends_in_fp32(void **state)
{
    struct launch_case c;
    struct script_run run;
    (void)state;
    open_case(&c, TPP_FRAMEWORK_HF_TRAINER, TPP_ENGINE_DEEPSPEED, TPP_PRECISION_BF16);
    c.strategy.tensor_parallel = c.strategy.pipeline_parallel = c.strategy.virtual_pipeline_stages = 1;
    c.strategy.schedule = TPP_SCHEDULE_1F1B;
    c.strategy.sequence_parallel = false;
    c.strategy.data_parallel = 64;
    c.strategy.num_micro_batches = 8;
    c.strategy.zero_stage = 2;
    start(&c, &run);
    assert_null(strstr(script_run_file(&run, "ds_config.json"), "_type"));
    script_run_release(&run);
    assert_true(c.stack.optimizer_bytes == 16);
    c.job.gradient_type = TPP_GRADIENT_FP32;
    tpp_stack_set_dtypes(&c.stack, &c.job);
    assert_true(c.stack.optimizer_bytes == 12 && c.stack.gradient_bytes == 4 && c.stack.reduce_bytes == 4);
    start(&c, &run);
    assert_non_null(strstr(script_run_file(&run, "ds_config.json"), "\"grad_accum_dtype\": \"fp32\""));
    assert_non_null(strstr(script_run_file(&run, "ds_config.json"), "\"communication_data_type\": \"fp32\""));
    script_run_release(&run);
    c.strategy.zero_stage = 0;
    check_refused(&c, TPP_E_STRATEGY, "DS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bridge_says_fp8_by_name_or_in_full),
        cmocka_unit_test(swift_and_megatron_name_the_recipe),
        cmocka_unit_test(uneven_ends_are_a_layout),
        cmocka_unit_test(capacities_are_padded_to),
        cmocka_unit_test(graphs_are_of_what_can_be_captured),
        cmocka_unit_test(fsdp_is_megatrons_own),
        cmocka_unit_test(bridge_pads_the_vocabulary_as_planned),
        cmocka_unit_test(deepspeed_sums_and_sends_in_fp32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
