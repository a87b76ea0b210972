/* From options to model, cluster, job and stack: overrides, sizes and what is refused. */
#include "cli/job_options.h"

#include "tests/support/check_number.h"

#include <stdio.h>
#include <string.h>

struct arguments {
    struct tpp_job_arguments job;
    struct tpp_pin_arguments pins;
};

static const struct tpp_option_part parts[] = {
    TPP_JOB_PARTS(struct arguments, job), TPP_PIN_PARTS(struct arguments, pins), {NULL}};

#define JOB "--model=llama3.1-8b", "--cluster=dgx-a100-80g", "--seq-length=8192", "--global-batch-size=64"

/* Resolves the words of a command line up to NULL. */
static enum tpp_code resolve(const char *const *words, struct tpp_job_inputs *inputs, struct tpp_space_limits *limits,
                             struct tpp_error *err)
{
    const char *argv[40];
    struct arguments arguments = {.job = {.model = NULL}};
    struct tpp_operands operands;
    bool help;
    int count = 0;
    for (; words[count] != NULL; count++)
        argv[count] = words[count];
    memset(err, 0, sizeof *err);
    const enum tpp_code code = tpp_options_parse(parts, count, argv, &arguments, &operands, &help, err);
    if (code != TPP_OK)
        return code;
    const enum tpp_code limited = limits != NULL ? tpp_limits_resolve(&arguments.pins, limits, err) : TPP_OK;
    return limited == TPP_OK ? tpp_job_resolve(&arguments.job, inputs, err) : limited;
}

#define RESOLVE(inputs, limits, err, ...)                                                                              \
    resolve((const char *const[]){JOB, __VA_ARGS__, NULL}, (inputs), (limits), (err))

static void refuse(const char *first, const char *second, const char *where)
{
    struct tpp_job_inputs inputs;
    struct tpp_error err;
    assert_int_equal(RESOLVE(&inputs, NULL, &err, first, second), TPP_E_USAGE);
    assert_int_equal(err.code, TPP_E_USAGE);
    assert_string_equal(err.where, where);
    assert_true(err.hint[0] != '\0');
}

static enum tpp_provenance provenance_of(const struct tpp_hardware *hardware, const char *key)
{
    uint32_t count;
    const struct tpp_hardware_field *fields = tpp_hardware_fields(&count);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(fields[i].key, key) == 0)
            return hardware->origins[i].provenance;
    }
    fail_msg("no hardware value %s", key);
    return TPP_PROVENANCE_ASSUMED;
}

static void nodes_and_gpus_say_how_many(void **state)
{
    struct tpp_job_inputs inputs;
    struct tpp_error err;
    (void)state;
    assert_int_equal(RESOLVE(&inputs, NULL, &err, "--nodes=4"), TPP_OK);
    assert_int_equal(inputs.job.num_gpus, 32);
    assert_int_equal(RESOLVE(&inputs, NULL, &err, "--gpus=16"), TPP_OK);
    assert_int_equal(inputs.job.num_gpus, 16);
    assert_int_equal(RESOLVE(&inputs, NULL, &err, "--gpus=7"), TPP_OK); /* a part of one node, and a prime */
    assert_int_equal(inputs.job.num_gpus, 7);
    refuse("--gpus=31", "--precision=bf16", "--gpus");
    refuse("--gpus=8", "--nodes=1", "--nodes");
    refuse("--precision=bf16", "--task=sft", "--nodes");
    refuse("--nodes=131073", "--task=sft", "--nodes"); /* 8 * 131073 > 2^20 */
}

static void single_values_override_the_profile_and_say_so(void **state)
{
    struct tpp_job_inputs profile, inputs;
    struct tpp_error err;
    (void)state;
    assert_int_equal(RESOLVE(&profile, NULL, &err, "--nodes=2"), TPP_OK);
    assert_int_equal(RESOLVE(&inputs, NULL, &err, "--nodes=2", "--gpu-memory=40GB", "--inter-node-bandwidth=200Gb/s",
                             "--intra-node-bandwidth=117.5GB/s", "--nic-efficiency=0.25", "--set-hardware",
                             "gpu.num_sms=64"),
                     TPP_OK);
    assert_true(inputs.hardware.gpu.memory_bytes == 40000000000);
    /* 200e9 bits = 25e9 bytes a second over the 8 ports of the node */
    assert_int_equal(profile.hardware.network.num_nics, 8);
    CHECK_NUMBER(inputs.hardware.network.nic_bytes_per_second, 3.125e9, 1e-12);
    CHECK_NUMBER(inputs.hardware.network.ring_efficiency_fraction, 0.25, 1e-12);
    CHECK_NUMBER(inputs.hardware.network.send_recv_efficiency_fraction, 0.25, 1e-12);
    const double ratio = 117.5e9 / profile.hardware.node.bus_bytes_per_second[TPP_ALL_REDUCE];
    for (int i = 0; i < TPP_COLLECTIVE_COUNT; i++)
        CHECK_NUMBER(inputs.hardware.node.bus_bytes_per_second[i],
                     ratio * profile.hardware.node.bus_bytes_per_second[i], 1e-12);
    assert_int_equal(inputs.hardware.gpu.num_sms, 64);
    assert_int_equal(provenance_of(&inputs.hardware, "gpu.memory_bytes"), TPP_PROVENANCE_USER);
    assert_int_equal(provenance_of(&inputs.hardware, "gpu.num_sms"), TPP_PROVENANCE_USER);
    assert_int_not_equal(provenance_of(&inputs.hardware, "gpu.context_bytes"), TPP_PROVENANCE_USER);
}

static void values_by_key_take_the_units_of_their_field(void **state)
{
    struct tpp_job_inputs inputs;
    struct tpp_error err;
    (void)state;
    assert_int_equal(RESOLVE(&inputs, NULL, &err, "--nodes=2", "--set-hardware=gpu.memory_bytes=32GiB",
                             "--set-hardware=network.num_nics=2", "--inter-node-bandwidth=50GB/s",
                             "--set-hardware=node.host_link_bytes_per_second=12.5GB/s"),
                     TPP_OK);
    assert_true(inputs.hardware.gpu.memory_bytes == UINT64_C(32) << 30);
    CHECK_NUMBER(inputs.hardware.network.nic_bytes_per_second, 25e9, 1e-12); /* 50 GB/s over the 2 ports just set */
    CHECK_NUMBER(inputs.hardware.node.host_link_bytes_per_second, 12.5e9, 1e-12);
    refuse("--nodes=1", "--set-hardware=gpu.nonsense=1", "--set-hardware=gpu.nonsense");
    refuse("--nodes=1", "--set-hardware=gpu.num_sms=many", "--set-hardware=gpu.num_sms");
    refuse("--nodes=1", "--set-hardware=gpu.num_sms", "--set-hardware");
    refuse("--nodes=1", "--set-hardware==1", "--set-hardware");
    refuse("--nodes=1", "--gpu-memory=1kB", "--gpu-memory");
}

static void software_follows_the_framework_until_it_is_said(void **state)
{
    struct tpp_job_inputs inputs;
    struct tpp_error err;
    (void)state;
    assert_int_equal(RESOLVE(&inputs, NULL, &err, "--nodes=1", "--framework=megatron-lm"), TPP_OK);
    assert_int_equal(inputs.stack.engine, TPP_ENGINE_MEGATRON);
    assert_int_equal(inputs.stack.norm_kernel, TPP_KERNEL_FUSED);
    refuse("--nodes=1", "--engine=deepspeed", "--engine"); /* Megatron-LM has none of DeepSpeed */
    assert_int_equal(RESOLVE(&inputs, NULL, &err, "--nodes=1", "--framework=other", "--engine=deepspeed", "--norm-kernel=eager",
                             "--attention=fused-softmax", "--loss-kernel=eager", "--lm-head-output=gathered",
                             "--tp-async=off", "--tp-stack=other", "--launch-blocking", "--framework-version=0.14"),
                     TPP_OK);
    assert_int_equal(inputs.stack.engine, TPP_ENGINE_DEEPSPEED);
    assert_int_equal(inputs.stack.norm_kernel, TPP_KERNEL_EAGER);
    assert_int_equal(inputs.stack.attention, TPP_ATTENTION_FUSED_SOFTMAX);
    assert_int_equal(inputs.stack.loss_kernel, TPP_LOSS_EAGER);
    assert_int_equal(inputs.stack.lm_head_output, TPP_LM_HEAD_GATHERED);
    assert_false(inputs.stack.tensor_parallel_async);
    assert_true(inputs.stack.tensor_parallel_other && inputs.stack.launch_blocking);
    assert_string_equal(inputs.stack.release, "0.14");
    refuse("--nodes=1", "--framework-version=a-release-name-that-is-too-long", "--framework-version");
}

static void adapters_have_ranks_and_other_tasks_do_not(void **state)
{
    struct tpp_job_inputs inputs;
    struct tpp_error err;
    (void)state;
    assert_int_equal(RESOLVE(&inputs, NULL, &err, "--nodes=1", "--task=qlora", "--lora-rank=64", "--lora-targets=qv"),
                     TPP_OK);
    assert_int_equal(inputs.job.task, TPP_TASK_QLORA);
    assert_int_equal(inputs.job.lora_rank, 64);
    assert_int_equal(inputs.job.lora_targets, TPP_LORA_QV);
    refuse("--nodes=1", "--lora-rank=8", "--lora-rank");
    refuse("--nodes=1", "--lora-targets=qv", "--lora-targets");
}

static void options_that_contradict_each_other_are_named(void **state)
{
    (void)state;
    refuse("--nodes=1", "--attention-block-length=8193", "--attention-block-length"); /* of 8192 tokens */
    refuse("--nodes=1", "--precision=fp8", "--precision");                            /* on A100 */
    refuse("--nodes=1", "--attention=flash3", "--attention");
}

static void pins_and_limits_reach_the_search(void **state)
{
    struct tpp_job_inputs inputs;
    struct tpp_space_limits limits;
    struct tpp_error err;
    (void)state;
    assert_int_equal(RESOLVE(&inputs, &limits, &err, "--nodes=1"), TPP_OK);
    assert_int_equal(limits.tensor_parallel, TPP_PIN_ANY);
    assert_int_equal(limits.recompute, TPP_PIN_ANY);
    assert_int_equal(limits.zero_stage, TPP_PIN_ANY);
    assert_int_equal(limits.max_tensor_parallel, 0);
    assert_int_equal(limits.keep, 10);
    assert_int_equal(RESOLVE(&inputs, &limits, &err, "--nodes=1", "--tensor-parallel=4", "--zero-stage=0",
                             "--recompute=full", "--sequence-parallel=off", "--context-kind=ulysses",
                             "--offload=optimizer", "--max-micro-batch-size=2", "--memory-headroom=0.1", "--top=3",
                             "--reduce-bucket-size=5e8"),
                     TPP_OK);
    assert_int_equal(limits.tensor_parallel, 4);
    assert_int_equal(limits.zero_stage, 0);
    assert_int_equal(limits.recompute, TPP_RECOMPUTE_FULL);
    assert_int_equal(limits.sequence_parallel, 0);
    assert_int_equal(limits.context_kind, TPP_CONTEXT_ULYSSES);
    assert_int_equal(limits.offload, TPP_OFFLOAD_OPTIMIZER);
    assert_int_equal(limits.max_micro_batch_size, 2);
    assert_int_equal(limits.reduce_bucket_size, 500000000);
    assert_int_equal(limits.keep, 3);
    CHECK_NUMBER(limits.memory_headroom_fraction, 0.1, 1e-12);
    assert_int_equal(limits.offload_layers, 0); /* what is not named stays */
    assert_int_equal(limits.offload_percent, 0);
    assert_int_equal(limits.shared_overlap, TPP_PIN_ANY);
    assert_int_equal(RESOLVE(&inputs, &limits, &err, "--nodes=1", "--offload=optimizer", "--offload-layers=12",
                             "--optimizer-offload-fraction=0.29", "--shared-expert-overlap=on"),
                     TPP_OK);
    assert_int_equal(limits.offload, TPP_OFFLOAD_OPTIMIZER);
    assert_int_equal(limits.offload_layers, 12);
    assert_int_equal(limits.offload_percent, 29);
    assert_int_equal(limits.shared_overlap, 1);
    assert_int_equal(RESOLVE(&inputs, &limits, &err, "--nodes=1", "--offload=activations"), TPP_OK);
    assert_int_equal(limits.offload, TPP_OFFLOAD_NONE);
    assert_int_equal(limits.offload_layers, TPP_PIN_ANY);
    assert_true(limits.offload_depths);
    assert_int_equal(RESOLVE(&inputs, &limits, &err, "--nodes=1", "--optimizer-offload-fraction=1.5"), TPP_E_USAGE);
    assert_int_equal(RESOLVE(&inputs, &limits, &err, "--nodes=1", "--recompute-modules=moe_act+layernorm"), TPP_OK);
    assert_int_equal(limits.recompute_modules, TPP_MODULE_EXPERT_ACTIVATION | TPP_MODULE_LAYER_NORM);
    static const char *const bad[] = {"moe_act,layernorm", "moe_act+", "", "layernorm+layernorm", "everything"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char option[64];
        snprintf(option, sizeof option, "--recompute-modules=%s", bad[i]);
        assert_int_equal(RESOLVE(&inputs, &limits, &err, "--nodes=1", option), TPP_E_USAGE);
        assert_string_equal(err.where, "--recompute-modules");
    }
    assert_int_equal(RESOLVE(&inputs, &limits, &err, "--nodes=1", "--recompute-modules=mlp", "--recompute=full"), TPP_E_USAGE);
}

static const char *choices_of(const char *name)
{
    const struct tpp_option *option = tpp_options_find(parts, name);
    assert_non_null(option);
    return option->choices;
}

/* The option table writes the names out; the cost model has them too. */
static void choices_are_the_names_of_the_cost_model(void **state)
{
    (void)state;
    for (int i = 0; i < TPP_FRAMEWORK_COUNT; i++)
        assert_int_equal(tpp_choice_index(choices_of("--framework"), tpp_framework_name((enum tpp_framework)i)), i);
    for (int i = 0; i < TPP_ENGINE_COUNT; i++)
        assert_int_equal(tpp_choice_index(choices_of("--engine"), tpp_engine_name((enum tpp_engine)i)), i);
    for (int i = 0; i < TPP_ATTENTION_KERNEL_COUNT; i++) /* "auto" is first */
        assert_int_equal(
            tpp_choice_index(choices_of("--attention"), tpp_attention_kernel_name((enum tpp_attention_kernel)i)),
            i + 1);
    for (int i = TPP_CONTEXT_RING; i <= TPP_CONTEXT_HYBRID; i++)
        assert_int_equal(
            tpp_choice_index(choices_of("--context-kind"), tpp_context_kind_name((enum tpp_context_kind)i)), i);
    for (int i = TPP_RECOMPUTE_NONE; i <= TPP_RECOMPUTE_FULL; i++)
        assert_int_equal(tpp_choice_index(choices_of("--recompute"), tpp_recompute_name((enum tpp_recompute)i)), i);
    assert_string_equal(choices_of("--precision"), "bf16|fp16|fp32|fp8|fp8-block|mxfp8");
    assert_string_equal(choices_of("--task"), "pretrain|sft|lora|qlora");
}

#define FP8_JOB(...)                                                                                                   \
    resolve((const char *const[]){"--model=llama3.1-8b", "--cluster=dgx-h100", "--seq-length=8192",                    \
                                  "--global-batch-size=64", "--nodes=1", __VA_ARGS__, NULL},                           \
            &inputs, NULL, &err)

static void fp8_is_scaled_and_kept_as_asked(void **state)
{
    struct tpp_job_inputs inputs;
    struct tpp_error err;
    (void)state;
    assert_int_equal(FP8_JOB("--precision=fp8", "--fp8-scaling=current"), TPP_OK);
    assert_true(inputs.stack.current_scaling && !inputs.stack.fp8_weights);
    assert_int_equal(FP8_JOB("--precision=fp8-block", "--fp8-param-gather=on"), TPP_OK);
    assert_true(inputs.stack.fp8_weights && inputs.stack.gathered_linear_bytes == 1);
    assert_int_equal(FP8_JOB("--precision=fp8", "--framework=nemo", "--fp8-param-gather=off"), TPP_OK);
    assert_true(!inputs.stack.fp8_weights && inputs.stack.gathered_linear_bytes == 2);
    refuse("--nodes=1", "--fp8-param-gather=on", "--fp8-param-gather");
    refuse("--nodes=1", "--fp8-scaling=current", "--fp8-scaling");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_and_gpus_say_how_many),
        cmocka_unit_test(single_values_override_the_profile_and_say_so),
        cmocka_unit_test(values_by_key_take_the_units_of_their_field),
        cmocka_unit_test(software_follows_the_framework_until_it_is_said),
        cmocka_unit_test(adapters_have_ranks_and_other_tasks_do_not),
        cmocka_unit_test(options_that_contradict_each_other_are_named),
        cmocka_unit_test(pins_and_limits_reach_the_search),
        cmocka_unit_test(choices_are_the_names_of_the_cost_model),
        cmocka_unit_test(fp8_is_scaled_and_kept_as_asked),
    };
    return cmocka_run_group_tests_name("job_options", tests, NULL, NULL);
}
