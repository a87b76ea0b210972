/* Checks planner/risks.h: every risk is provoked once, with its number in the message, and absent from a sound plan. */
#include "planner/risks.h"
#include "tests/support/shapes.h"

#include <stdlib.h>
#include <string.h>

struct scene {
    struct tpp_model model;
    struct tpp_hardware hardware;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_plan plan;
};

/* A plan without any risk: 8 nodes of 8 cards with a NIC each, tp 4, pp 2, 16 micro-batches interleaved, 80 % memory.
 */
static struct scene sound(void)
{
    struct scene s = {
        .model = {.num_layers = 32,
                  .hidden_size = 8192,
                  .num_attention_heads = 64,
                  .num_query_groups = 8,
                  .head_dim = 128,
                  .ffn_hidden_size = 28672,
                  .gated_mlp = true,
                  .vocab_size = 32000,
                  .norms_per_layer = 2,
                  .max_position_embeddings = 4096},
        .job = tpp_job_defaults(),
        .stack = {.framework = TPP_FRAMEWORK_MEGATRON_LM,
                  .engine = TPP_ENGINE_MEGATRON,
                  .attention = TPP_ATTENTION_FLASH2,
                  .weight_bytes = 2,
                  .gradient_bytes = 4,
                  .reduce_bytes = 4},
        .plan = {.strategy = tpp_strategy_defaults()},
    };
    s.hardware.node.num_gpus = 8;
    s.hardware.node.has_nvlink = true;
    for (int i = 0; i < TPP_COLLECTIVE_COUNT; i++) {
        s.hardware.node.bus_bytes_per_second[i] = 230e9;
    }
    s.hardware.node.half_rate_bytes = 7e6;
    s.hardware.network = (struct tpp_network){.num_nics = 8,
                                              .nic_bytes_per_second = 25e9,
                                              .ring_efficiency_fraction = 0.85,
                                              .send_recv_efficiency_fraction = 0.85,
                                              .oversubscription = 1};
    s.hardware.gpu = (struct tpp_gpu){.num_sms = 108,
                                      .gemm_tile_m = 128,
                                      .gemm_tile_n = 256,
                                      .has_bf16 = true,
                                      .bf16_flops_per_second = 312e12,
                                      .memory_bytes = UINT64_C(80000000000),
                                      .flash_forward_fraction = {0.36, 0.63, 0}};
    s.job.num_gpus = 64;
    s.job.sequence_length = 4096;
    s.job.global_batch_size = 512;
    s.plan.strategy.tensor_parallel = 4;
    s.plan.strategy.sequence_parallel = true;
    s.plan.strategy.pipeline_parallel = 2;
    s.plan.strategy.virtual_pipeline_stages = 2;
    s.plan.strategy.schedule = TPP_SCHEDULE_INTERLEAVED;
    s.plan.strategy.data_parallel = 8;
    s.plan.strategy.micro_batch_size = 4;
    s.plan.strategy.num_micro_batches = 16;
    s.plan.strategy.zero_stage = 1;
    s.plan.cost.step_seconds = 16;
    s.plan.cost.time_terms[TPP_TIME_GEMM] = 12.8; /* 0.8 s a micro-batch */
    s.plan.cost.model_flops_utilization = 0.5;
    s.plan.cost.bubble_fraction = 0.03;
    s.plan.cost.memory = (struct tpp_memory){
        .capacity_bytes = 80e9, .device_total_bytes = 64e9, .peak_reserved_bytes = 62e9, .peak_allocated_bytes = 60e9};
    s.plan.cost.memory.terms[TPP_MEMORY_WEIGHTS] = 2 * 3.4e9;
    return s;
}

static struct tpp_risk risks[TPP_MAX_RISKS];

static size_t list(const struct scene *s)
{
    const size_t count = tpp_plan_risks(&s->model, &s->hardware, &s->job, &s->stack, &s->plan, risks, TPP_MAX_RISKS);
    assert_true(count <= TPP_MAX_RISKS);
    return count;
}

/* Exactly this one risk, and `text` in its message. */
static void expect_only(const struct scene *s, const char *code, enum tpp_severity severity, const char *text)
{
    assert_int_equal(list(s), 1);
    assert_string_equal(risks[0].code, code);
    assert_int_equal(risks[0].severity, severity);
    assert_non_null(strstr(risks[0].message, text));
}

/* This risk among others, and `text` in its message. */
static void expect_one(const struct scene *s, const char *code, const char *text)
{
    const size_t count = list(s);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(risks[i].code, code) == 0) {
            assert_non_null(strstr(risks[i].message, text));
            return;
        }
    }
    fail_msg("no risk %s", code);
}

static void a_sound_plan_has_none(void **state)
{
    (void)state;
    const struct scene s = sound();
    assert_int_equal(list(&s), 0);
}

static void tensor_parallel_is_kept_inside_nodes(void **state)
{
    (void)state;
    struct scene s = sound();
    s.plan.strategy.tensor_parallel = 16;
    expect_one(&s, "tensor-parallel-across-nodes", "groups of 16 span nodes of 8");
    expect_one(&s, "key-value-heads-replicated",
               "tp 16 is above the 8 key/value heads, so each is held and computed 2 times");
    expect_one(&s, "narrow-shard", "h/tp = 512"); /* 8192 / 16 */
    s = sound();
    s.plan.strategy.placed_tensor_ranks_per_node = 2;
    expect_only(&s, "tensor-parallel-across-nodes", TPP_SEVERITY_WARNING, "2 ranks to a node");
    s = sound();
    s.hardware.node.has_nvlink = false;
    expect_only(&s, "tensor-parallel-over-pcie", TPP_SEVERITY_WARNING, "of 4 runs over PCIe");
}

static void kernel_shapes_are_judged(void **state)
{
    (void)state;
    struct scene s = sound();
    s.model.ffn_hidden_size = 28676; /* / 4 = 7169 */
    expect_only(&s, "unaligned-shard", TPP_SEVERITY_WARNING, "ffn/tp = 7169");
    s = sound();
    s.model.head_dim = 108;
    expect_only(&s, "head-dim-alignment", TPP_SEVERITY_WARNING, "heads of 108");
    s = sound();
    s.job.sequence_length = 8192;
    s.job.global_batch_size = 256;
    s.model.max_position_embeddings = 0;
    s.plan.strategy.sequence_parallel = false;
    expect_only(&s, "sequence-parallel-missing", TPP_SEVERITY_WARNING, "8192 tokens with tp 4");
    s = sound();
    s.job.sequence_length = 512;
    s.job.global_batch_size = 4096;
    s.plan.strategy.micro_batch_size = 1;
    /* (64 + 16) * 128 / 4 = 2560 columns are 10 tiles, 512 rows 4: 40 of 108 SMs */
    expect_only(&s, "partial-wave-gemm", TPP_SEVERITY_WARNING, "fills 37 %");
    s = sound();
    s.plan.cost.host_bound_fraction = 0.731;
    expect_only(&s, "host-bound", TPP_SEVERITY_WARNING, "73 %");
}

static void experts_are_kept_inside_nodes(void **state)
{
    (void)state;
    struct scene s = sound();
    s.model.num_experts = 48;
    s.plan.strategy.expert_parallel = 12;
    expect_one(&s, "expert-parallel-across-nodes", "12 ranks span nodes of 8");
    expect_one(&s, "expert-fragmentation", "other numbers of tokens at every step");
    s.plan.strategy.expert_parallel = 4;
    expect_only(&s, "expert-fragmentation", TPP_SEVERITY_INFO, "fragmentation on top");
    s.job.expert_imbalance = 1.3; /* cost-model 10.2 item 7 warns above it */
    expect_only(&s, "expert-fragmentation", TPP_SEVERITY_INFO, "fragmentation on top");
    s.job.num_expert_splits = 1;
    s.job.expert_splits[0] = (struct tpp_expert_split){4, 1.42};
    expect_one(&s, "expert-imbalance", "the fullest of 4 expert-parallel ranks gets 1.42 times the average");
    s.job.expert_capacity_factor = 1.5; /* each expert is padded to the same rows */
    expect_only(&s, "expert-fragmentation", TPP_SEVERITY_INFO, "fragmentation on top");
}

static void pipelines_want_micro_batches(void **state)
{
    (void)state;
    struct scene s = sound();
    s.plan.strategy.virtual_pipeline_stages = 1;
    s.plan.strategy.schedule = TPP_SCHEDULE_1F1B;
    s.plan.strategy.pipeline_parallel = 4;
    s.plan.strategy.num_micro_batches = 2;
    s.plan.cost.bubble_fraction = 0.6; /* field note B2: (4-1)/(2+4-1) */
    expect_only(&s, "fewer-micro-batches-than-stages", TPP_SEVERITY_WARNING, "idle 60 %");
    s.plan.strategy.num_micro_batches = 12;
    s.plan.cost.bubble_fraction = 0.2;
    expect_one(&s, "few-micro-batches", "12 micro-batches on 4 stages");
    expect_one(&s, "interleaving-missing", "bubble of 20 %");
    s.plan.strategy.num_micro_batches = 32; /* 8 a stage */
    assert_int_equal(list(&s), 0);
}

static void a_schedule_of_another_framework_is_named(void **state)
{
    (void)state;
    struct scene s = sound();
    s.plan.strategy.virtual_pipeline_stages = 1;
    s.plan.strategy.schedule = TPP_SCHEDULE_ZB_H1;
    expect_only(&s, "schedule-missing", TPP_SEVERITY_ERROR, "megatron-lm has no pipeline schedule zb-h1");
    assert_non_null(strstr(risks[0].hint, "1f1b, interleaved"));
    s.stack.framework = TPP_FRAMEWORK_OTHER;
    assert_int_equal(list(&s), 0);
}

static void stages_should_be_even(void **state)
{
    (void)state;
    struct scene s = sound();
    s.plan.cost.imbalance_seconds = 0.097; /* of 2 stages * 0.8 s: 6.06 % */
    expect_only(&s, "stage-imbalance", TPP_SEVERITY_WARNING, "6 %");
    s.plan.cost.imbalance_seconds = 0.079;
    assert_int_equal(list(&s), 0);
}

static void sharded_parameters_do_not_like_accumulation(void **state)
{
    (void)state;
    struct scene s = sound();
    s.stack.engine = TPP_ENGINE_FSDP2;
    s.plan.strategy.zero_stage = 3;
    expect_only(&s, "parameters-gathered-every-micro-batch", TPP_SEVERITY_WARNING,
                "each of 16 micro-batches on every stage");
    s.plan.strategy.pipeline_parallel = s.plan.strategy.virtual_pipeline_stages = 1;
    s.plan.strategy.num_micro_batches = 7;
    assert_int_equal(list(&s), 0);
}

static void long_sequences_want_context_parallelism(void **state)
{
    (void)state;
    struct scene s = sound();
    s.job.sequence_length = 32768;
    s.job.global_batch_size = 256;
    s.model.max_position_embeddings = 32768;
    s.plan.cost.memory.terms[TPP_MEMORY_ACTIVATIONS] = 25e9; /* 31 % of 80 GB */
    expect_only(&s, "long-sequence-activations", TPP_SEVERITY_WARNING, "31 %");
    s.plan.strategy.recompute = TPP_RECOMPUTE_FULL;
    assert_int_equal(list(&s), 0);
    s.model.max_position_embeddings = 16384;
    expect_only(&s, "sequence-beyond-model", TPP_SEVERITY_INFO, "longer than the 16384");
}

static void a_ring_needs_enough_tokens(void **state)
{
    (void)state;
    struct scene s = sound();
    s.job.sequence_length = 16384;
    s.model.max_position_embeddings = 0;
    s.plan.strategy.context_parallel = 4;
    s.plan.strategy.data_parallel = 2;
    /* across nodes: 2 * (2 kv / 16 heads) * 312e12 * 0.63 / (25e9 * 0.85) = 2312 tokens; a rank has 4096 */
    assert_int_equal(list(&s), 0);
    s.model.num_query_groups = 32; /* 4 times the keys and values: 9250 tokens */
    expect_only(&s, "context-ring-exposed", TPP_SEVERITY_WARNING, "attention of 9250");
    s.plan.strategy.context_kind = TPP_CONTEXT_ULYSSES;
    assert_int_equal(list(&s), 0);
    s = sound();
    s.stack.framework = TPP_FRAMEWORK_OTHER;
    s.plan.strategy.context_parallel = 2;
    s.plan.strategy.tensor_parallel = 2;
    s.job.sequence_length = 16384;
    s.model.max_position_embeddings = 0;
    expect_only(&s, "context-contiguous", TPP_SEVERITY_WARNING, "1.50 times"); /* (2*2-1)/2 */
    s.stack.framework = TPP_FRAMEWORK_MEGATRON_LM;
    s.model.sliding_window = 4096;
    s.model.sliding_window_layers = 12;
    expect_only(&s, "context-ring-window", TPP_SEVERITY_WARNING, "12 layers with a window of 4096 tokens");
    s.plan.strategy.context_kind = TPP_CONTEXT_ALL_GATHER;
    assert_int_equal(list(&s), 0);
}

static void documents_with_a_mask_are_noted(void **state)
{
    (void)state;
    struct scene s = sound();
    s.job.attention_block_length = 1024;
    expect_only(&s, "attention-blocked", TPP_SEVERITY_INFO, "1024 tokens");
}

static void memory_near_its_end_is_named(void **state)
{
    (void)state;
    struct scene s = sound();
    s.plan.cost.memory.device_total_bytes = 74e9; /* 92.5 % */
    s.plan.cost.memory.worst_stage = 1;
    expect_only(&s, "memory-nearly-full", TPP_SEVERITY_WARNING, "stage 1 needs 68.92 GiB of 74.51 GiB");
    s.plan.cost.memory.device_total_bytes = 78e9; /* 97.5 % */
    expect_only(&s, "memory-full", TPP_SEVERITY_WARNING, "97 %");
    s.plan.cost.memory.device_total_bytes = 81e9;
    s.plan.cost.memory.fit = TPP_FIT_DOES_NOT_FIT;
    expect_only(&s, "does-not-fit", TPP_SEVERITY_ERROR, "75.44 GiB");
    s = sound();
    s.plan.cost.memory.peak_reserved_bytes = 78.5e9;
    s.plan.cost.memory.peak_allocated_bytes = 75e9;
    expect_only(&s, "little-memory-outside-allocator", TPP_SEVERITY_WARNING, "1.40 GiB");
    s = sound();
    s.plan.cost.memory.peak_allocated_bytes = 50e9; /* 62 / 50 = 1.24 */
    expect_only(&s, "fragmentation", TPP_SEVERITY_WARNING, "1.24 times");
    s = sound();
    s.plan.cost.memory.host_bytes = 950e9;
    s.plan.cost.memory.host_capacity_bytes = 1e12;
    expect_only(&s, "host-memory-full", TPP_SEVERITY_ERROR, "884.76 GiB");
}

static void exposed_communication_names_its_term(void **state)
{
    (void)state;
    struct scene s = sound();
    s.plan.cost.exposed_communication_fraction = 0.31;
    s.plan.cost.time_terms[TPP_TIME_GRADIENT_COMM] = 3;
    expect_only(&s, "exposed-communication", TPP_SEVERITY_WARNING, "31 %");
    assert_non_null(strstr(risks[0].hint, "reducing gradients"));
    s.plan.cost.exposed_communication_fraction = 0.53;
    expect_only(&s, "mostly-communication", TPP_SEVERITY_WARNING, "53 %");
}

static void buckets_are_a_third_of_the_parameters_at_most(void **state)
{
    (void)state;
    struct scene s = sound();
    s.plan.strategy.reduce_bucket_size = 1200000000; /* of 3.4e9 parameters */
    expect_only(&s, "bucket-too-large", TPP_SEVERITY_INFO, "1.2e+09");
    s.plan.strategy.overlap_grad_reduce = false;
    assert_int_equal(list(&s), 0);
}

/* Llama-3-70B at TP 8, DeepSpeed's ZeRO-3 over 32 nodes (example E12). */
static struct scene zero_3_scene(uint64_t sequence_length)
{
    struct scene s = {.model = shape_preset("llama3-70b"), .hardware = shape_cluster("dgx-h100"),
                      .job = shape_job(256, sequence_length, 64)};
    struct tpp_evaluator *evaluator;
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_DEEPSPEED, &s.hardware.gpu, &s.job, &s.stack);
    s.plan.strategy = shape_strategy("tp=8,mbs=2,zero=3,sp=1", &s.job);
    assert_int_equal(tpp_evaluator_new(&s.model, &s.hardware, &s.job, &s.stack, &evaluator, NULL), TPP_OK);
    assert_int_equal(tpp_evaluator_cost(evaluator, &s.plan.strategy, &s.plan.cost, NULL), TPP_OK);
    tpp_evaluator_free(evaluator);
    return s;
}

static const struct tpp_risk *find_risk(const struct scene *s, const char *code)
{
    const size_t count = list(s);
    for (size_t i = 0; i < count; i++)
        if (strcmp(risks[i].code, code) == 0)
            return &risks[i];
    return NULL;
}

/* 5e8 elements of 2 bytes over 32 ranks at 42.5 GB/s: 22.794 ms; 1.6 % longer for the half-rate of 16 MB of a message of 1 GB, and
 * 8.4 us + 31 * 12 us of latency: 23.54 ms. What the risk recommends it does not warn of, nor does it when no bucket fits: then
 * latency may be a tenth of the bucket. Half-rate bytes included that is 380.4e-6 s / 0.1 * 42.5e9 B/s - 16 MB = 145.7 MB, or
 * 7.28e7 elements: 7.2e7 in two digits. */
static void a_zero_3_bucket_is_a_burst(void **state)
{
    (void)state;
    struct scene s = zero_3_scene(8192);
    const struct tpp_risk *risk = find_risk(&s, "bucket-burst");
    assert_non_null(risk);
    assert_int_equal(risk->severity, TPP_SEVERITY_INFO);
    assert_non_null(strstr(risk->message, "a bucket of 5e+08 elements is a burst of 23.5"));
    assert_non_null(strstr(risk->message, "every 4.7 layers")); /* 5e8 / 106971136 */
    const char *recommended = strstr(risk->hint, "try a reduce bucket of ");
    assert_non_null(recommended);
    s.plan.strategy.reduce_bucket_size = (uint64_t)strtod(recommended + strlen("try a reduce bucket of "), NULL);
    assert_in_range(s.plan.strategy.reduce_bucket_size, 200000000, 400000000); /* a slack of some 16 ms */
    assert_null(find_risk(&s, "bucket-burst"));
    s = zero_3_scene(1024);
    risk = find_risk(&s, "bucket-burst");
    assert_non_null(risk);
    assert_non_null(strstr(risk->hint, "try a reduce bucket of 7.2e+07 elements"));
    s.plan.strategy.reduce_bucket_size = 72000000;
    assert_null(find_risk(&s, "bucket-burst"));
}

static void few_nics_are_no_sure_network(void **state)
{
    (void)state;
    struct scene s = sound();
    s.hardware.network.num_nics = 3;
    expect_only(&s, "network-rate-uncertain", TPP_SEVERITY_WARNING, "3 NICs for 8 GPUs");
    s.job.num_gpus = 8;
    s.plan.strategy.data_parallel = 1;
    assert_int_equal(list(&s), 0);
}

static void the_job_is_noted(void **state)
{
    (void)state;
    struct scene s = sound();
    s.job.global_batch_size = 128; /* 0.52 M tokens */
    expect_only(&s, "small-batch", TPP_SEVERITY_INFO, "5.24e+05");
    s = sound();
    s.job.num_lengths = TPP_JOB_LENGTHS;
    s.plan.cost.useful_token_fraction = 0.813;
    assert_int_equal(list(&s), 0);
    s.plan.cost.useful_token_fraction = 0.361;
    expect_only(&s, "padding", TPP_SEVERITY_WARNING, "64 %");
    s.plan.cost.useful_token_fraction = 0.813;
    s.plan.cost.uneven_seconds = 0.04 * s.plan.cost.step_seconds;
    assert_int_equal(list(&s), 0);
    s.plan.cost.uneven_seconds = 0.31 * s.plan.cost.step_seconds;
    expect_only(&s, "uneven-micro-batches", TPP_SEVERITY_WARNING, "31 %");
    s.plan.cost.uneven_seconds = 0;
    s.plan.cost.useful_token_fraction = 0.361;
    s.job.packed_fraction = 0.7; /* a matter of the packer */
    assert_int_equal(list(&s), 0);
    s.job.global_batch_size = 8192; /* 34 M */
    expect_only(&s, "large-batch", TPP_SEVERITY_INFO, "3.36e+07");
    s = sound();
    s.job.precision = TPP_PRECISION_FP16;
    expect_only(&s, "fp16-loss-scaling", TPP_SEVERITY_INFO, "loss scaling");
    s = sound();
    s.stack.gradient_bytes = 2;
    s.plan.strategy.num_micro_batches = 34;
    expect_only(&s, "16-bit-accumulation", TPP_SEVERITY_WARNING, "34 micro-batches");
    s = sound();
    s.stack.launch_blocking = true;
    expect_only(&s, "launch-blocking", TPP_SEVERITY_WARNING, "nothing overlap");
    s = sound();
    /* Field note A4 claims 10.9 times the peak. Here the peak is 64 * 312e12 FLOP/s in 16 s = 3.194880e17 FLOP. */
    s.plan.cost.necessary_flops = 10.9 * 3.194880e17;
    expect_only(&s, "impossible-utilization", TPP_SEVERITY_ERROR, "1090 %");
    /* An MFU above 100 % is no proof: frozen weights have no gradients, FP8 has twice the peak. */
    s.plan.cost.model_flops_utilization = 1.1;
    s.plan.cost.necessary_flops = 1.1 * 3.194880e17;
    s.job.task = TPP_TASK_LORA;
    assert_int_equal(list(&s), 0);
}

static void a_short_list_is_cut_but_counted(void **state)
{
    (void)state;
    struct scene s = sound();
    struct tpp_risk one[2] = {{.code = "a"}, {.code = "untouched"}};
    s.stack.launch_blocking = true;
    s.plan.cost.host_bound_fraction = 0.9;
    assert_int_equal(tpp_plan_risks(&s.model, &s.hardware, &s.job, &s.stack, &s.plan, one, 1), 2);
    assert_string_equal(one[0].code, "host-bound");
    assert_string_equal(one[1].code, "untouched");
    assert_string_equal(tpp_severity_name(TPP_SEVERITY_ERROR), "error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_plan_has_none),
        cmocka_unit_test(tensor_parallel_is_kept_inside_nodes),
        cmocka_unit_test(kernel_shapes_are_judged),
        cmocka_unit_test(experts_are_kept_inside_nodes),
        cmocka_unit_test(pipelines_want_micro_batches),
        cmocka_unit_test(a_schedule_of_another_framework_is_named),
        cmocka_unit_test(stages_should_be_even),
        cmocka_unit_test(sharded_parameters_do_not_like_accumulation),
        cmocka_unit_test(long_sequences_want_context_parallelism),
        cmocka_unit_test(a_ring_needs_enough_tokens),
        cmocka_unit_test(documents_with_a_mask_are_noted),
        cmocka_unit_test(memory_near_its_end_is_named),
        cmocka_unit_test(exposed_communication_names_its_term),
        cmocka_unit_test(buckets_are_a_third_of_the_parameters_at_most),
        cmocka_unit_test(a_zero_3_bucket_is_a_burst),
        cmocka_unit_test(few_nics_are_no_sure_network),
        cmocka_unit_test(the_job_is_noted),
        cmocka_unit_test(a_short_list_is_cut_but_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
