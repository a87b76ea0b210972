/* test_rules.c - rules of the frameworks: messages, settings from a plan, and the small rule sets. Megatron-LM's
 * verdicts are compared with the real code in tests/reference. */
#include "planner/rules/layout.h"
#include "planner/rules/rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* 32 layers, hidden 4096, 32 heads in 8 groups, 8 GPUs as tp 2 * pp 2 * dp 2. */
static struct tpp_rule_settings base_settings(enum tpp_framework framework)
{
    struct tpp_rule_settings s = tpp_rule_settings_defaults(framework);
    s.world_size = 8;
    s.tensor_parallel = 2;
    s.pipeline_parallel = 2;
    s.num_layers = 32;
    s.hidden_size = 4096;
    s.num_attention_heads = 32;
    s.group_query_attention = true;
    s.num_query_groups = 8;
    s.sequence_length = s.max_position_embeddings = 4096;
    s.global_batch_size = 64;
    s.swiglu = s.untied_embeddings = s.bf16 = s.sequence_parallel = true;
    s.linear_bias = false;
    s.cuda_device_max_connections = 1;
    s.num_data_sources = 1;
    return s;
}

static void check_broken(const struct tpp_rule_settings *settings, const char *code)
{
    struct tpp_violation violations[8];
    size_t count = tpp_rules_violations(settings, TPP_RELEASE_NEWEST, violations, 8);
    assert_true(count >= 1);
    assert_string_equal(violations[0].code, code);
    assert_true(violations[0].message[0] != '\0' && violations[0].hint[0] != '\0');
    assert_false(tpp_rules_accept(settings, TPP_RELEASE_NEWEST));
}

static void check_kept(const struct tpp_rule_settings *settings)
{
    assert_int_equal(tpp_rules_violations(settings, TPP_RELEASE_NEWEST, NULL, 0), 0);
    assert_true(tpp_rules_accept(settings, TPP_RELEASE_NEWEST));
}

static void test_a_message_says_the_rule_and_the_values(void **state)
{
    struct tpp_rule_settings s = base_settings(TPP_FRAMEWORK_MEGATRON_LM);
    struct tpp_violation v;
    (void)state;
    s.world_size = 6;
    assert_true(tpp_rules_violations(&s, TPP_RELEASE_0_14, &v, 1) >= 1);
    assert_string_equal(v.code, "ML-1");
    assert_string_equal(v.message,
                        "the number of GPUs must be a multiple of tensor * pipeline * context parallel sizes "
                        "(world = 6, tp = 2, pp = 2, cp = 1)");
    assert_int_equal(v.stage, TPP_RULE_AT_ARGUMENTS);
}

static void test_all_violations_are_counted_and_only_the_first_are_written(void **state)
{
    struct tpp_rule_settings s = base_settings(TPP_FRAMEWORK_MEGATRON_LM);
    struct tpp_violation v[2] = {{.code = NULL}, {.code = NULL}};
    (void)state;
    s.num_layers = 31;             /* ML-12 */
    s.fp16 = true;                 /* ML-11 */
    s.overlap_param_gather = true; /* ML-40 twice */
    assert_int_equal(tpp_rules_violations(&s, TPP_RELEASE_0_14, v, 1), 4);
    assert_string_equal(v[0].code, "ML-12");
    assert_null(v[1].code);
}

static void test_rates_and_checkpoints_are_complete(void **state)
{
    struct tpp_rule_settings s = base_settings(TPP_FRAMEWORK_MEGATRON_LM);
    (void)state;
    s.lr = 1e-4;
    s.min_lr = 1e-5;
    s.has_save = s.has_save_interval = true;
    check_kept(&s);
    s.min_lr = 2e-4;
    check_broken(&s, "ML-15");
    s.min_lr = 0;
    s.has_save_interval = false;
    check_broken(&s, "ML-15");
}

static void test_numbers_no_rule_can_take_are_refused_first(void **state)
{
    struct tpp_rule_settings s = base_settings(TPP_FRAMEWORK_MEGATRON_LM);
    (void)state;
    s.tensor_parallel = 0;
    check_broken(&s, "range");
    s.tensor_parallel = -2;
    check_broken(&s, "range");
    s = base_settings(TPP_FRAMEWORK_MEGATRON_LM);
    s.hidden_size = INT64_MAX;
    check_broken(&s, "range");
    s = base_settings(TPP_FRAMEWORK_MEGATRON_LM);
    s.micro_batch_size = TPP_RULE_UNSET;
    check_broken(&s, "range");
}

static void test_layouts_are_counted(void **state)
{
    struct tpp_layout layout = tpp_layout_read("Et*3|(tt|)*29,m|L");
    (void)state;
    assert_true(layout.is_valid && layout.starts_with_embedding && layout.ends_with_loss && layout.mtp_after_layers);
    assert_int_equal(layout.num_stages, 32); /* 1 + 29 + the one of m + the one of L */
    assert_int_equal(layout.num_layers, 61); /* 3 + 2 * 29 */
    assert_int_equal(layout.num_mtp_layers, 1);
    assert_int_equal(layout.first_mtp_stage, 30);
    assert_int_equal(tpp_layout_read("Et|||tL").num_stages, 4);
    assert_int_equal(tpp_layout_read("Et|*3tL").num_stages, 4);
}

static void test_hostile_layouts_end(void **state)
{
    static const char *const texts[] = {"t*99999999999999999999",
                                        "(t*99999)*99999",
                                        "(",
                                        ")",
                                        "()*3|*",
                                        "((t)*2)*2",
                                        "t*",
                                        "*3",
                                        "(tt)",
                                        "t*-1",
                                        "\xff\xfe",
                                        "(|||)*1048577"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(tpp_layout_read(texts[i]).is_valid);
    assert_false(tpp_layout_read("").starts_with_embedding);
}

static struct tpp_model plain_model(void)
{
    return (struct tpp_model){.num_layers = 32,
                              .hidden_size = 4096,
                              .num_attention_heads = 32,
                              .num_query_groups = 8,
                              .head_dim = 128,
                              .ffn_hidden_size = 14336,
                              .gated_mlp = true,
                              .vocab_size = 128256,
                              .position = TPP_POSITION_ROPE,
                              .rope_theta = 500000,
                              .rotary_fraction = 1,
                              .activation = TPP_ACTIVATION_SILU,
                              .norms_per_layer = 2,
                              .final_norm = true};
}

static void test_a_plan_is_judged_as_it_will_be_written(void **state)
{
    struct tpp_model model = plain_model();
    struct tpp_job job = tpp_job_defaults();
    struct tpp_stack stack = {.framework = TPP_FRAMEWORK_MEGATRON_LM,
                              .engine = TPP_ENGINE_MEGATRON,
                              .transformer_engine = true,
                              .overlap_p2p = true};
    struct tpp_strategy strategy = tpp_strategy_defaults();
    struct tpp_rule_settings s;
    (void)state;
    job.num_gpus = 64;
    job.sequence_length = 8192;
    job.global_batch_size = 96;
    strategy.tensor_parallel = 4;
    strategy.pipeline_parallel = 4;
    strategy.virtual_pipeline_stages = 2;
    strategy.sequence_parallel = true;
    strategy.zero_stage = 1;
    strategy.overlap_param_gather = true;
    tpp_rule_settings_for_job(&model, &job, &stack, 9.0, &s);
    tpp_rule_settings_for_strategy(&strategy, TPP_RELEASE_NEWEST, &s);
    assert_int_equal(s.layers_per_virtual_stage, 4); /* 32 / (4 * 2) */
    assert_int_equal(s.cuda_device_max_connections, 1);
    check_kept(&s);
    strategy.virtual_pipeline_stages = 3; /* 8 layers a stage */
    tpp_rule_settings_for_strategy(&strategy, TPP_RELEASE_NEWEST, &s);
    check_broken(&s, "ML-21");
    strategy.virtual_pipeline_stages = 1;
    strategy.tensor_parallel = 16; /* 8 groups: refused before 0.16 */
    strategy.pipeline_parallel = 1;
    tpp_rule_settings_for_strategy(&strategy, TPP_RELEASE_0_15, &s);
    assert_false(tpp_rules_accept(&s, TPP_RELEASE_0_15));
    tpp_rule_settings_for_strategy(&strategy, TPP_RELEASE_0_16, &s);
    assert_true(tpp_rules_accept(&s, TPP_RELEASE_0_16));
}

static void test_deepspeed_plans_take_the_engine_that_their_stages_need(void **state)
{
    struct tpp_model model = plain_model();
    struct tpp_job job = tpp_job_defaults();
    struct tpp_stack stack = {.framework = TPP_FRAMEWORK_MEGATRON_DEEPSPEED, .engine = TPP_ENGINE_DEEPSPEED};
    struct tpp_strategy strategy = tpp_strategy_defaults();
    struct tpp_rule_settings s;
    (void)state;
    job.num_gpus = 64;
    job.sequence_length = 4096;
    job.global_batch_size = 64;
    strategy.pipeline_parallel = 4;
    strategy.zero_stage = 1;
    tpp_rule_settings_for_job(&model, &job, &stack, 8.0, &s);
    tpp_rule_settings_for_strategy(&strategy, TPP_RELEASE_NEWEST, &s);
    check_kept(&s);
    strategy.zero_stage = 3;
    tpp_rule_settings_for_strategy(&strategy, TPP_RELEASE_NEWEST, &s);
    check_broken(&s, "MD-5");
    strategy.pipeline_parallel = 1; /* nothing of the plan before is left */
    tpp_rule_settings_for_strategy(&strategy, TPP_RELEASE_NEWEST, &s);
    check_kept(&s);
}

static void test_deepspeed_refuses_what_its_engines_cannot(void **state)
{
    struct tpp_rule_settings s = base_settings(TPP_FRAMEWORK_MEGATRON_DEEPSPEED);
    (void)state;
    check_broken(&s, "MD-4"); /* two stages without the pipeline engine */
    s.pipeline_engine = true;
    s.zero_stage = 1;
    check_kept(&s);
    s.zero_stage = 2;
    check_broken(&s, "MD-5");
    s.pipeline_engine = false;
    s.pipeline_parallel = 1;
    check_kept(&s);
    s.context_parallel = 2; /* Ulysses excludes tensor parallelism */
    s.context_types = TPP_RULE_CONTEXT_A2A;
    check_broken(&s, "MD-3");
    s.tensor_parallel = 1;
    s.sequence_parallel = false;
    check_kept(&s);
    s.context_types = TPP_RULE_CONTEXT_P2P;
    check_broken(&s, "MD-3");
    s = base_settings(TPP_FRAMEWORK_MEGATRON_DEEPSPEED);
    s.pipeline_parallel = 1;
    s.tensor_parallel = 16; /* silently cut to 8 by the program */
    check_broken(&s, "MD-1");
    s.tensor_parallel = 2;
    s.global_batch_size = 62; /* 4 data-parallel ranks */
    check_broken(&s, "MD-13");
    s.global_batch_size = 64;
    s.cuda_device_max_connections = TPP_RULE_UNSET;
    check_broken(&s, "MD-17");
}

static void test_swift_checks_its_own_and_the_core_rules(void **state)
{
    struct tpp_rule_settings s = base_settings(TPP_FRAMEWORK_MS_SWIFT);
    (void)state;
    check_kept(&s);
    s.global_batch_size = 63;
    check_broken(&s, "SW-1");
    s = base_settings(TPP_FRAMEWORK_MS_SWIFT);
    s.pipeline_parallel = 1;
    s.first_stage_layers = 3;
    check_broken(&s, "SW-3");
    s = base_settings(TPP_FRAMEWORK_MS_SWIFT);
    s.sequence_parallel = false;
    s.tp_comm_overlap = true;
    check_broken(&s, "SW-4");
    s = base_settings(TPP_FRAMEWORK_MS_SWIFT);
    s.num_layers = 31;
    check_broken(&s, "ML-12");
}

static void test_torchtitan_wants_exact_products(void **state)
{
    struct tpp_rule_settings s = base_settings(TPP_FRAMEWORK_TORCHTITAN);
    (void)state;
    check_kept(&s);
    s.data_parallel = 4;
    check_broken(&s, "TT-1");
    s.data_parallel = 2;
    s.sequence_length = 4098; /* not a multiple of 2 * 2 */
    check_broken(&s, "TT-4");
    s = base_settings(TPP_FRAMEWORK_TORCHTITAN);
    s.layers_per_virtual_stage = 2; /* 16 stages a layer pair: 34 slots by 3 make 12 stages, by 2 make 17 */
    s.account_for_embedding = s.account_for_loss = true; /* its default: one layer less at either end */
    s.pipeline_parallel = 2;
    check_broken(&s, "TT-5");
    s = base_settings(TPP_FRAMEWORK_TORCHTITAN);
    s.num_layers = 1; /* two stages */
    s.pipeline_parallel = 2;
    check_broken(&s, "TT-6");
    s = base_settings(TPP_FRAMEWORK_TORCHTITAN);
    s.num_query_groups = 1;
    check_broken(&s, "TT-8");
    s = base_settings(TPP_FRAMEWORK_TORCHTITAN);
    s.num_experts = 8;
    s.expert_tensor_parallel = 1; /* tp 2: only with expert parallelism */
    check_broken(&s, "TT-2");
    s.expert_parallel = 2;
    check_kept(&s);
    s = base_settings(TPP_FRAMEWORK_TORCHTITAN);
    s.recompute = TPP_RULE_GRANULARITY_FULL;
    s.recompute_method = TPP_RULE_METHOD_UNIFORM;
    s.recompute_num_layers = 1;
    check_kept(&s);
    s.recompute_method = TPP_RULE_METHOD_BLOCK;
    check_broken(&s, "TT");
    s = base_settings(TPP_FRAMEWORK_TORCHTITAN);
    s.sequence_parallel = false;
    check_broken(&s, "TT");
}

/* Field case C11 (pytorch/torchtitan issue 2574, huggingface/transformers issue 48307): Qwen3-VL-30B-A3B has 32 heads
 * and 4 key/value heads; tp 8 failed in the middle of the forward pass. */
static void test_torchtitan_refuses_more_tensor_ranks_than_key_value_heads(void **state)
{
    struct tpp_rule_settings s = base_settings(TPP_FRAMEWORK_TORCHTITAN);
    (void)state;
    s.world_size = 8;
    s.pipeline_parallel = 1;
    s.data_parallel = 1;
    s.tensor_parallel = 8;
    s.num_layers = 48;
    s.num_attention_heads = 32;
    s.group_query_attention = true;
    s.num_query_groups = 4;
    s.kv_channels = 128;
    check_broken(&s, "TT-8");
    s.tensor_parallel = 4;
    s.data_parallel = 2;
    check_kept(&s);
}

/* The other half of C11: Transformers' own tensor parallelism, without DeepSpeed, fails in the same way. */
static void test_transformers_refuses_more_tensor_ranks_than_key_value_heads(void **state)
{
    struct tpp_rule_settings s = base_settings(TPP_FRAMEWORK_HF_TRAINER);
    (void)state;
    s.world_size = 8;
    s.pipeline_parallel = 1;
    s.data_parallel = 1;
    s.tensor_parallel = 8;
    s.num_layers = 48;
    s.num_attention_heads = 32;
    s.group_query_attention = true;
    s.num_query_groups = 4;
    s.kv_channels = 128;
    check_broken(&s, "HF");
    s.tensor_parallel = 4;
    s.data_parallel = 2;
    check_kept(&s);
    s.tensor_parallel = 3; /* 32 heads */
    check_broken(&s, "HF");
}

/* Field case C21 (pytorch/torchtitan pull request 4794): tp 8 with ep 4 is gone there; Megatron-LM takes it, with
 * experts cut by their own tensor parallel size. */
static void test_experts_over_fewer_ranks_than_tensors(void **state)
{
    struct tpp_rule_settings s = base_settings(TPP_FRAMEWORK_TORCHTITAN);
    (void)state;
    s.world_size = 8;
    s.pipeline_parallel = 1;
    s.data_parallel = 1;
    s.tensor_parallel = 8;
    s.num_experts = 64;
    s.expert_parallel = 4;
    s.num_query_groups = 8;
    check_broken(&s, "TT");
    s.expert_parallel = 8;
    check_kept(&s);
    s = base_settings(TPP_FRAMEWORK_MEGATRON_LM);
    s.world_size = 8;
    s.pipeline_parallel = 1;
    s.tensor_parallel = 8;
    s.num_query_groups = 8;
    s.sequence_parallel = true;
    s.linear_bias = false;
    s.num_experts = 64;
    s.expert_parallel = 4;
    s.expert_tensor_parallel = 2;
    s.dispatcher = TPP_RULE_ALLTOALL;
    check_kept(&s);
}

static void test_nanotron_needs_accumulation_and_no_experts(void **state)
{
    struct tpp_rule_settings s = base_settings(TPP_FRAMEWORK_NANOTRON);
    (void)state;
    check_kept(&s);
    s.pipeline_parallel = 4;
    s.global_batch_size = 2; /* 2 micro-batches, 3 needed */
    check_broken(&s, "NT-4");
    s = base_settings(TPP_FRAMEWORK_NANOTRON);
    s.expert_parallel = 2;
    check_broken(&s, "NT-2");
    s = base_settings(TPP_FRAMEWORK_NANOTRON);
    s.num_query_groups = 1;
    check_broken(&s, "NT-3");
    s = base_settings(TPP_FRAMEWORK_NANOTRON);
    s.zero_stage = 3;
    check_broken(&s, "NT");
    s = base_settings(TPP_FRAMEWORK_NANOTRON);
    s.recompute = TPP_RULE_GRANULARITY_SELECTIVE;
    check_broken(&s, "NT");
    s = base_settings(TPP_FRAMEWORK_NANOTRON);
    s.account_for_loss = true;
    check_broken(&s, "NT-6");
}

/* Releases by flags of Megatron-LM: the first that has --context-parallel-size, --expert-model-parallel-size and
 * --overlap-grad-reduce is 0.4, --ddp-bucket-size 0.7, --decoder-first-pipeline-num-layers 0.9, --cp-comm-type,
 * --expert-tensor-parallel-size and --use-torch-fsdp2 0.10, --account-for-loss-in-pipeline-split 0.11,
 * --optimizer-cpu-offload 0.12, --torch-fsdp2-no-reshard-after-forward 0.13. */
static void check_since(const struct tpp_rule_settings *settings, enum tpp_release first)
{
    assert_false(tpp_rules_accept(settings, (enum tpp_release)(first - 1)));
    assert_true(tpp_rules_accept(settings, first));
}

static struct tpp_rule_settings whole_model(void)
{
    struct tpp_rule_settings s = base_settings(TPP_FRAMEWORK_MEGATRON_LM);
    s.tensor_parallel = s.pipeline_parallel = 1;
    s.sequence_parallel = false;
    s.mcore_models = s.distributed_optimizer = true;
    return s;
}

static void test_a_plan_needs_a_release_that_can_say_it(void **state)
{
    struct tpp_rule_settings s = whole_model();
    (void)state;
    s.overlap_grad_reduce = true;
    check_since(&s, TPP_RELEASE_0_4);
    s = whole_model();
    s.context_parallel = 2;
    check_since(&s, TPP_RELEASE_0_4);
    s.context_types = TPP_RULE_CONTEXT_ALL_GATHER;
    check_since(&s, TPP_RELEASE_0_10);
    s = whole_model();
    s.ddp_bucket_size = 913000000;
    check_since(&s, TPP_RELEASE_0_7);
    s = whole_model();
    s.pipeline_parallel = 4;
    s.first_stage_layers = s.last_stage_layers = 6;
    check_since(&s, TPP_RELEASE_0_9);
    s = whole_model();
    s.pipeline_parallel = 3;
    s.world_size = 6;
    s.num_layers = 31;
    s.account_for_embedding = s.account_for_loss = true;
    check_since(&s, TPP_RELEASE_0_11);
    s = whole_model();
    s.optimizer_cpu_offload = s.precision_aware_optimizer = true;
    check_since(&s, TPP_RELEASE_0_12);
    s = whole_model();
    s.num_experts = 8;
    s.expert_parallel = 4;
    s.grouped_gemm = true;
    check_since(&s, TPP_RELEASE_0_4);
    s.tensor_parallel = 2;
    s.sequence_parallel = true;
    s.expert_tensor_parallel = 1;
    check_since(&s, TPP_RELEASE_0_10);
}

static void test_sharding_by_torch_needs_a_release_that_can_say_it(void **state)
{
    struct tpp_rule_settings s = whole_model();
    (void)state;
    s.distributed_optimizer = s.gradient_accumulation_fusion = false;
    s.torch_fsdp2 = true;
    assert_false(tpp_rules_accept(&s, TPP_RELEASE_0_9));
    s.cuda_device_max_connections = 8;
    assert_true(tpp_rules_accept(&s, TPP_RELEASE_0_12));
    s.keeps_gathered_weights = true;
    check_since(&s, TPP_RELEASE_0_13);
    s.shard_group = 4;
    check_broken(&s, "ML-44");
}

static void test_plans_that_a_framework_has_no_words_for_are_refused(void **state)
{
    struct tpp_rule_settings s = whole_model();
    (void)state;
    s.allgather_bucket_size = 50000000;
    check_broken(&s, "ML");
    s.ddp_bucket_size = 50000000; /* one for both */
    check_kept(&s);
    s = base_settings(TPP_FRAMEWORK_NEMO);
    s.micro_batch_size = 2;
    check_kept(&s);
    s.packs_sequences = true;
    check_broken(&s, "MB");
    s = base_settings(TPP_FRAMEWORK_NEMO);
    s.num_experts = 8;
    s.expert_parallel = 2;
    s.expert_tensor_parallel = 1;
    s.dispatcher = TPP_RULE_FLEX;
    s.grouped_gemm = true;
    check_kept(&s);
    s.compute_capability = 12.0;
    check_broken(&s, "MB");
    s = base_settings(TPP_FRAMEWORK_HF_TRAINER);
    s.fsdp_version = 2;
    s.pipeline_parallel = 1; /* tp 2 * dp 4 */
    s.sequence_parallel = false;
    check_kept(&s);
    s.no_parallelism_config = true; /* accelerate 1.9 */
    check_broken(&s, "AC");
    s = base_settings(TPP_FRAMEWORK_MS_SWIFT);
    s.ddp_bucket_size = 50000000;
    check_broken(&s, "SW");
    s = base_settings(TPP_FRAMEWORK_NANOTRON);
    s.ddp_bucket_size = 50000000;
    check_broken(&s, "NT");
    s = base_settings(TPP_FRAMEWORK_NANOTRON);
    s.optimizer_cpu_offload = true;
    check_broken(&s, "NT");
    s = base_settings(TPP_FRAMEWORK_TORCHTITAN);
    s.zero_stage = 0; /* plain replicas, with tp 2 * pp 2 */
    check_broken(&s, "TT-7");
    s.tensor_parallel = s.pipeline_parallel = 1;
    check_kept(&s);
    s.zero_stage = 3;
    s.context_parallel = 2;
    s.shard_group = 3; /* of 4 data ranks: no whole pairs of context ranks */
    check_broken(&s, "TT-1");
    s.shard_group = 4; /* 2 data * 2 context, twice */
    check_kept(&s);
}

static void test_megatron_deepspeed_cannot_say_every_plan(void **state)
{
    struct tpp_rule_settings s = base_settings(TPP_FRAMEWORK_MEGATRON_DEEPSPEED);
    (void)state;
    s.pipeline_engine = true;
    s.recompute = TPP_RULE_GRANULARITY_FULL;
    s.recompute_method = TPP_RULE_METHOD_UNIFORM;
    s.recompute_num_layers = 1;
    check_kept(&s);
    s.recompute_method = TPP_RULE_METHOD_BLOCK;
    check_broken(&s, "MD-15");
    s = base_settings(TPP_FRAMEWORK_MEGATRON_DEEPSPEED);
    s.pipeline_parallel = 1; /* dp 4 */
    s.num_experts = 8;
    s.expert_parallel = 4;
    check_kept(&s);
    s.expert_parallel = 8; /* more than the data ranks */
    check_broken(&s, "MD");
    s.expert_parallel = 4;
    s.pipeline_engine = true;
    check_broken(&s, "MD");
}

static void test_a_framework_without_rules_accepts(void **state)
{
    struct tpp_rule_settings s = base_settings(TPP_FRAMEWORK_OTHER);
    (void)state;
    s.world_size = 7;
    check_kept(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_message_says_the_rule_and_the_values),
        cmocka_unit_test(test_all_violations_are_counted_and_only_the_first_are_written),
        cmocka_unit_test(test_rates_and_checkpoints_are_complete),
        cmocka_unit_test(test_numbers_no_rule_can_take_are_refused_first),
        cmocka_unit_test(test_layouts_are_counted),
        cmocka_unit_test(test_hostile_layouts_end),
        cmocka_unit_test(test_a_plan_is_judged_as_it_will_be_written),
        cmocka_unit_test(test_deepspeed_plans_take_the_engine_that_their_stages_need),
        cmocka_unit_test(test_deepspeed_refuses_what_its_engines_cannot),
        cmocka_unit_test(test_swift_checks_its_own_and_the_core_rules),
        cmocka_unit_test(test_torchtitan_wants_exact_products),
        cmocka_unit_test(test_torchtitan_refuses_more_tensor_ranks_than_key_value_heads),
        cmocka_unit_test(test_transformers_refuses_more_tensor_ranks_than_key_value_heads),
        cmocka_unit_test(test_experts_over_fewer_ranks_than_tensors),
        cmocka_unit_test(test_nanotron_needs_accumulation_and_no_experts),
        cmocka_unit_test(test_a_plan_needs_a_release_that_can_say_it),
        cmocka_unit_test(test_sharding_by_torch_needs_a_release_that_can_say_it),
        cmocka_unit_test(test_plans_that_a_framework_has_no_words_for_are_refused),
        cmocka_unit_test(test_megatron_deepspeed_cannot_say_every_plan),
        cmocka_unit_test(test_a_framework_without_rules_accepts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
