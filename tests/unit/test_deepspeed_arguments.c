/* Scripts of Megatron-DeepSpeed and of the Trainer with DeepSpeed: options, the configuration that they write, and
 * where the two contradict each other. */
#include "planner/launch/deepspeed_arguments.h"
#include "planner/launch/deepspeed_config.h"
#include "planner/launch/launch_line.h"
#include "planner/launch/plan_reading.h"
#include "planner/launch/trainer_arguments.h"
#include "tests/support/reference_lines.h"
#include "tests/support/script_reading.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SHAPE                                                                                                          \
    "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 "
#define BATCH "--micro-batch-size 4 --global-batch-size 64 --train-iters 10 --lr 1e-4 "

static void read_script(struct reading *r, const char *text, int64_t world_size)
{
    struct tpp_error err = {.code = TPP_OK};
    memset(r, 0, sizeof *r);
    if (tpp_shell_read(text, strlen(text), "t", NULL, 0, &r->script, &err) != TPP_OK ||
        tpp_launch_line_find(r->script, "t", &r->line, &err) != TPP_OK)
        fail_msg("%s at %s", err.message, err.where);
    assert_int_equal(tpp_deepspeed_read(r->line.arguments, r->script, &r->arguments, &r->settings, &r->problems, &err),
                     TPP_OK);
    r->settings.rules.world_size = world_size;
    r->settings.rules.cuda_device_max_connections = 1;
    tpp_deepspeed_find_dead(&r->arguments, &r->settings, &r->problems);
    tpp_megatron_find_violations(&r->arguments, &r->settings.rules, TPP_RELEASE_NEWEST, 1, &r->problems);
}

/* A script that writes this configuration and starts eight ranks with these options. */
static void read_with_config(struct reading *r, const char *config, const char *options)
{
    char text[4096];
    snprintf(text, sizeof text,
             "C=ds.json\ncat <<EOT > $C\n%s\nEOT\ndeepspeed --num_gpus 8 pretrain_gpt.py " SHAPE BATCH
             "--deepspeed --deepspeed_config $C %s",
             config, options);
    read_script(r, text, 8);
}

static void test_options_and_configuration_become_one_plan(void **state)
{
    struct reading r;
    struct tpp_plan_reading plan;
    struct tpp_error err = {.code = TPP_OK};
    struct tpp_hardware hardware = {.gpu = {.has_bf16 = true}};
    (void)state;
    read_with_config(
        &r,
        "{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4, \"fp16\": {\"enabled\": true},"
        " \"zero_optimization\": {\"stage\": 2, \"reduce_bucket_size\": 5e8, \"allgather_bucket_size\": 2e8,"
        " \"offload_optimizer\": {\"device\": \"cpu\"}}}",
        "--fp16 --zero-stage 2 --no-pipeline-parallel --checkpoint-activations --vocab-size 50257 "
        "--tensor-model-parallel-size 2");
    assert_false(tpp_problems_have(&r.problems, TPP_SEVERITY_ERROR));
    if (tpp_plan_from_megatron(&r.settings, &r.arguments, TPP_RELEASE_NEWEST, &hardware, NULL, "m", &plan, &r.problems,
                               &err) != TPP_OK)
        fail_msg("%s", err.message);
    assert_int_equal(plan.stack.framework, TPP_FRAMEWORK_MEGATRON_DEEPSPEED);
    assert_int_equal(plan.stack.engine, TPP_ENGINE_DEEPSPEED);
    assert_int_equal(plan.job.precision, TPP_PRECISION_FP16);
    assert_int_equal(plan.strategy.tensor_parallel, 2);
    assert_int_equal(plan.strategy.data_parallel, 4);
    assert_int_equal(plan.strategy.num_micro_batches, 4); /* 64 / (4 * 4) */
    assert_int_equal(plan.strategy.zero_stage, 2);
    assert_int_equal(plan.strategy.recompute, TPP_RECOMPUTE_FULL);
    assert_int_equal(plan.strategy.reduce_bucket_size, 500000000);
    assert_int_equal(plan.strategy.allgather_bucket_size, 200000000);
    assert_int_equal(plan.strategy.offload, TPP_OFFLOAD_OPTIMIZER);
    release_reading(&r);
}

static void check(const char *config, const char *options, const char *code)
{
    struct reading r;
    read_with_config(&r, config, options);
    if (find_problem(&r, code) == NULL)
        fail_msg("no %s for %s with %s", code, options, config);
    release_reading(&r);
}

static void test_chunks_in_host_memory_are_not_predicted(void **state)
{
    struct reading r;
    struct tpp_plan_reading plan;
    struct tpp_error err = {.code = TPP_OK};
    struct tpp_hardware hardware = {.gpu = {.has_bf16 = true}};
    (void)state;
    read_with_config(&r, "{\"train_batch_size\": 64}",
                     "--fp16 --no-pipeline-parallel --ds-sequence-parallel-size 4 --ds-sequence-parallel-fpdt "
                     "--ds-sequence-parallel-fpdt-offloading");
    assert_int_equal(tpp_plan_from_megatron(&r.settings, &r.arguments, TPP_RELEASE_NEWEST, &hardware, NULL, "m", &plan,
                                            &r.problems, &err),
                     TPP_E_UNSUPPORTED);
    assert_string_equal(err.where, "--ds-sequence-parallel-fpdt");
    release_reading(&r);
}

static void test_contradictions(void **state)
{
    struct reading r;
    (void)state;
    check("{\"train_batch_size\": 32}", "--fp16", "MD-7");
    /* The program sets its own before every step: no reason to stop. */
    read_with_config(&r, "{\"train_batch_size\": 32}", "--fp16");
    assert_int_equal(find_problem(&r, "MD-7")->severity, TPP_SEVERITY_WARNING);
    release_reading(&r);
    read_with_config(&r, "{\"train_micro_batch_size_per_gpu\": 2}", "--fp16");
    assert_int_equal(find_problem(&r, "MD-7")->severity, TPP_SEVERITY_ERROR);
    release_reading(&r);
    check("{\"train_micro_batch_size_per_gpu\": 2}", "--fp16", "MD-7");
    /* 4 * 1 * 8 = 32 */
    check("{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 1}",
          "--fp16", "DS-1");
    check("{\"zero_optimization\": {\"stage\": 1}}", "--zero-stage 0", "MD-6");
    check("{\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}}", "--fp16", "DS-2");
    check("{\"bf16\": {\"enabled\": true}}", "--fp16", "other-precision");
    check("{\"zero_optimization\": {\"stage\": 2, \"offload_param\": {\"device\": \"cpu\"}}}", "--no-pipeline-parallel",
          "DS-7");
    check("{\"fp16\": {\"enabled\": true, \"fp16_master_weights_and_grads\": true}}", "--fp16 --zero-stage 0", "DS-10");
    read_with_config(&r,
                     "{\"zero_optimization\": {\"stage\": 1}, "
                     "\"fp16\": {\"enabled\": true, \"fp16_master_weights_and_grads\": true}}",
                     "--fp16 --zero-stage 1");
    assert_null(find_problem(&r, "DS-10"));
    release_reading(&r);
    check("{\"train_batch_size\": }", "--fp16", "bad-config");
    check("{\"train_batch_size\": $X }", "--fp16", "unknown-config");
}

/* Field cases C14 and C15: the pipeline engine refuses stage 2 and 3, also for one stage, unless it is switched off.
 * The stage is that of the configuration. */
static void test_the_pipeline_engine_and_the_zero_stage(void **state)
{
    struct reading r;
    (void)state;
    check("{\"zero_optimization\": {\"stage\": 2}}", "--pipeline-model-parallel-size 2 --zero-stage 2", "MD-5");
    check("{\"zero_optimization\": {\"stage\": 3}}", "--tensor-model-parallel-size 4 --zero-stage 3", "MD-5");
    read_with_config(&r, "{\"zero_optimization\": {\"stage\": 3}}",
                     "--tensor-model-parallel-size 4 --zero-stage 3 --no-pipeline-parallel");
    assert_null(find_problem(&r, "MD-5"));
    release_reading(&r);
}

/* Field case C17 (bigcode-project/starcoder issue 77): train_batch 64 = micro 4 * accumulation 8 * world 1 is 32. Both
 * ways out are named: 64 / (4 * 1) = 16 steps, 64 / (4 * 8) = 2 ranks. */
static void test_factors_of_the_batch_are_shown_with_what_is_missing(void **state)
{
    static const char text[] =
        "echo '{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 8}' "
        "> ds.json\ndeepspeed --num_gpus 1 train.py --per_device_train_batch_size 4 --gradient_accumulation_steps 8 "
        "--max_length 2048 --deepspeed ds.json";
    struct reading r;
    (void)state;
    memset(&r, 0, sizeof r);
    assert_int_equal(tpp_shell_read(text, strlen(text), "t", NULL, 0, &r.script, NULL), TPP_OK);
    assert_int_equal(tpp_launch_line_find(r.script, "t", &r.line, NULL), TPP_OK);
    assert_int_equal(
        tpp_trainer_read(r.line.arguments, r.script, r.line.entry, false, &r.arguments, &r.settings, &r.problems, NULL),
        TPP_OK);
    r.settings.rules.world_size = 1;
    tpp_trainer_complete(&r.settings, &r.problems);
    const struct tpp_problem *problem = find_problem(&r, "DS-1");
    assert_non_null(problem);
    assert_int_equal(problem->severity, TPP_SEVERITY_ERROR);
    assert_non_null(strstr(problem->message, "64 is not micro-batch 4 * accumulation 8 * 1 data-parallel ranks"));
    assert_non_null(strstr(problem->hint, "gradient_accumulation_steps 16"));
    assert_non_null(strstr(problem->hint, "2 data-parallel ranks"));
    release_reading(&r);
    /* Its variant: 8 != 2 * 1 * 1 with 4 GPUs present; 8 / 2 = 4 ranks. */
    check("{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 1}",
          "--fp16", "DS-1");
}

/* Field case C13: 28 heads do not divide by 8 sequence-parallel ranks; 1, 2, 4, 28 do, and 7, 14 where the world does.
 */
static void test_ulysses_cuts_heads(void **state)
{
    struct reading r;
    (void)state;
    read_script(&r,
                "deepspeed --num_gpus 8 pretrain_gpt.py --num-layers 28 --hidden-size 3584 --num-attention-heads 28 "
                "--seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 8 --bf16 "
                "--ds-sequence-parallel-size 8 --deepspeed --no-pipeline-parallel",
                8);
    assert_non_null(find_problem(&r, "MD-3"));
    assert_non_null(strstr(find_problem(&r, "MD-3")->hint, "28 heads divide by 1, 2, 4, 7, 14, 28"));
    release_reading(&r);
}

/* megatron/arguments.py: MD-14. */
static void test_the_zero_bubble_pipeline(void **state)
{
    static const char config[] = "{\"train_batch_size\": 64}";
    struct reading r;
    (void)state;
    check(config,
          "--fp16 --pipeline-model-parallel-size 4 --tensor-model-parallel-size 2 --sequence-parallel "
          "--enable-zbh1-pipeline",
          "MD-14");
    read_with_config(&r, config, "--fp16 --pipeline-model-parallel-size 4 --enable-zbh1-pipeline");
    assert_null(find_problem(&r, "MD-14"));
    release_reading(&r);
    read_script(&r,
                "torchrun --nproc_per_node 8 pretrain_gpt.py " SHAPE BATCH "--pipeline-model-parallel-size 4 "
                "--enable-zbh1-pipeline",
                8);
    assert_non_null(find_problem(&r, "MD-14"));
    release_reading(&r);
}

static void test_options_of_the_forks(void **state)
{
    struct reading r;
    (void)state;
    read_script(&r, "deepspeed p.py " SHAPE "--deepspeed --num-query-groups 2", 8); /* Megatron-LM's name */
    assert_non_null(find_problem(&r, "unknown-option"));
    release_reading(&r);
    read_script(&r,
                "deepspeed p.py " SHAPE BATCH
                "--deepspeed --position-embedding-type alibi --pp-partition-method 'type:transformer|embedding' "
                "--embed-layernorm --bf16",
                8);
    assert_null(find_problem(&r, "unknown-option"));
    assert_true(r.settings.alibi && r.settings.embedding_norm);
    release_reading(&r);
}

/* Rules DS-3, DS-4, DS-8, DS-9, DS-11 and unknown keys of launch formats, section 3. */
static void test_keys_that_the_parser_of_deepspeed_refuses(void **state)
{
    (void)state;
    check("{\"zero_optimization\": {\"stage\": 4}}", "", "DS-3");
    check("{\"zero_optimization\": {\"stage\": 1, \"reduce_bucket_size\": -1}}", "", "DS-3");
    check("{\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.5}}}", "",
          "DS-3");
    check("{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"disk\"}}}", "", "DS-3");
    check("{\"zero_optimization\": {\"stage3_prefetch_bucket_size\": 15099494.4}}", "", "DS-4");
    check("{\"zero_optimization\": {\"legacy_stage1\": true}}", "", "DS-8");
    check(
        "{\"zero_optimization\": {\"stage\": 2, \"cpu_offload\": true, \"offload_optimizer\": {\"device\": \"cpu\"}}}",
        "", "DS-9");
    check("{\"zero_optimization\": {\"stage\": 1, \"stage\": 2}}", "", "DS-11");
    check("{\"zero_optimization\": {\"reduce_bucket_sise\": 5}}", "", "unknown-key");
    check("{\"zero_optimization\": {\"offload_optimizer\": {\"devices\": \"cpu\"}}}", "", "unknown-key");
    check("{\"gradient_accumulation_steps\": 2}", "", "DS-1"); /* no batch size */
    check("{\"train_batch_size\": 60}", "", "DS-1");           /* on 8 ranks */
}

static void test_keys_that_the_parser_of_deepspeed_takes(void **state)
{
    struct reading r;
    (void)state;
    read_with_config(&r,
                     "{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4, \"fp16\": {\"enabled\": true},"
                     " \"zero_optimization\": {\"stage\": 3, \"prefetch_bucket_size\": 5e7, \"reduce_bucket_size\": "
                     "\"auto\", \"overlap_comm\": null, \"contiguous_gradients\": \"true\","
                     " \"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.4}}, \"anything\": 1}",
                     "--fp16 --zero-stage 3 --no-pipeline-parallel");
    for (size_t i = 0; i < r.problems.count; i++) {
        if (r.problems.items[i].severity == TPP_SEVERITY_ERROR)
            fail_msg("%s: %s", r.problems.items[i].code, r.problems.items[i].message);
    }
    release_reading(&r);
    read_with_config(&r, "{\"zero_optimization\": {\"stage\": 2, \"cpu_offload\": true}}", "--no-pipeline-parallel");
    assert_int_equal(find_problem(&r, "DS-9")->severity, TPP_SEVERITY_WARNING);
    assert_true(r.settings.config.offloads_optimizer);
    release_reading(&r);
}

/* ---- the reference lines ---- */

static void compare(struct tpp_json line, unsigned *agreeing, unsigned *disagreeing)
{
    const char *id = "", *arguments, *verdict;
    uint64_t world_size;
    char text[8192];
    struct reading r;
    assert_int_equal(tpp_json_get_string(line, "id", &id, NULL), TPP_OK);
    assert_int_equal(tpp_json_need_string(line, "args", &arguments, NULL), TPP_OK);
    assert_int_equal(tpp_json_need_string(line, "verdict", &verdict, NULL), TPP_OK);
    assert_int_equal(tpp_json_need_u64(line, "world_size", 1, 1u << 20, &world_size, NULL), TPP_OK);
    snprintf(text, sizeof text, "torchrun pretrain_gpt.py %s", arguments);
    read_script(&r, text, (int64_t)world_size);
    bool refused = tpp_problems_have(&r.problems, TPP_SEVERITY_ERROR);
    bool expected = strncmp(verdict, "ok", 2) != 0;
    *agreeing += refused == expected;
    *disagreeing += refused != expected;
    if (refused != expected)
        print_message("# %s: the real code says %s, we say %s\n", id, verdict,
                      refused ? r.problems.items[0].message : "ok");
    release_reading(&r);
}

/* A configuration alone; the pipeline engine refuses what MD-5 says. */
static void compare_config(struct tpp_json line, unsigned *agreeing, unsigned *disagreeing)
{
    const char *id = "", *verdict;
    uint64_t world_size;
    bool pipeline = false;
    struct tpp_json json;
    struct tpp_deepspeed_config config = {.line = 1};
    struct tpp_problems problems = {.items = NULL};
    struct tpp_rule_settings rules = tpp_rule_settings_defaults(TPP_FRAMEWORK_MEGATRON_DEEPSPEED);
    struct tpp_violation violations[16];
    assert_int_equal(tpp_json_get_string(line, "id", &id, NULL), TPP_OK);
    assert_int_equal(tpp_json_need_string(line, "verdict", &verdict, NULL), TPP_OK);
    assert_int_equal(tpp_json_need_u64(line, "world_size", 1, 1u << 20, &world_size, NULL), TPP_OK);
    assert_int_equal(tpp_json_get_bool(line, "pipeline", &pipeline, NULL), TPP_OK);
    assert_int_equal(tpp_json_need_object(line, "config", &json, NULL), TPP_OK);
    tpp_deepspeed_config_take(json, &config, &problems);
    tpp_deepspeed_check_alone(&config, (int64_t)world_size, &problems);
    bool refused = tpp_problems_have(&problems, TPP_SEVERITY_ERROR);
    const char *why = refused ? problems.items[0].message : "ok";
    rules.pipeline_engine = pipeline;
    rules.zero_stage = config.zero_stage;
    rules.num_layers = rules.num_attention_heads = rules.hidden_size = 8;
    rules.sequence_length = rules.max_position_embeddings = 8;
    size_t count = tpp_rules_violations(&rules, TPP_RELEASE_NEWEST, violations, 16);
    for (size_t i = 0; i < count && i < 16; i++)
        refused = refused || strcmp(violations[i].code, "MD-5") == 0;
    bool expected = strncmp(verdict, "ok", 2) != 0;
    *agreeing += refused == expected;
    *disagreeing += refused != expected;
    if (refused != expected)
        print_message("# %s: the real code says %s, we say %s\n", id, verdict, why);
    tpp_problems_release(&problems);
}

static void test_agrees_with_the_configurations(void **state)
{
    static const char *const names[] = {"deepspeed-config.jsonl"};
    (void)state;
    reference_lines_agree(names, 1, compare_config);
}

static void test_agrees_with_the_lines(void **state)
{
    static const char *const names[] = {"megatron-deepspeed.jsonl", "bigscience.jsonl"};
    (void)state;
    reference_lines_agree(names, sizeof names / sizeof *names, compare);
}

/* engine.py: both decide by themselves what they are not told; the newest refuses a mix without ZeRO (pull request
 * 7515). 16 bytes of states have an fp32 copy of the gradients that is not needed when they are summed in fp32. */
static void test_types_of_gradients(void **state)
{
    static const struct {
        const char *keys;
        int stage;
        enum tpp_gradient_type type;
        uint32_t gradient_bytes, reduce_bytes, optimizer_bytes;
        const char *code;
    } cases[] = {
        {"", 2, TPP_GRADIENT_DEFAULT, 2, 2, 16, NULL},
        {"\"data_types\":{\"grad_accum_dtype\":\"fp32\"},\"communication_data_type\":\"FP32\",", 2, TPP_GRADIENT_FP32,
         4, 4, 12, NULL},
        {"\"data_types\":{\"grad_accum_dtype\":\"fp32\"},", 2, TPP_GRADIENT_DEFAULT, 4, 2, 12, NULL},
        {"\"communication_data_type\":\"fp32\",", 3, TPP_GRADIENT_DEFAULT, 2, 4, 16, NULL},
        {"\"data_types\":{\"grad_accum_dtype\":null},", 2, TPP_GRADIENT_DEFAULT, 2, 2, 16, NULL},
        {"\"data_types\":{\"grad_accum_dtype\":\"fp32\"},", 0, TPP_GRADIENT_DEFAULT, 4, 2, 12, "DS"},
        {"\"communication_data_type\":\"fp8\",", 2, TPP_GRADIENT_DEFAULT, 2, 2, 16, "bad-value"},
        {"\"data_types\":{\"grad_accum_dtype\":\"FP32\"},", 2, TPP_GRADIENT_DEFAULT, 2, 2, 16, "bad-value"},
    };
    struct tpp_hardware hardware = {.gpu = {.has_bf16 = true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reading r;
        struct tpp_plan_reading plan;
        char text[1024];
        snprintf(text, sizeof text,
                 "cat > ds.json <<END\n{\"train_batch_size\":64,\"train_micro_batch_size_per_gpu\":4,%s"
                 "\"bf16\":{\"enabled\":true},\"zero_optimization\":{\"stage\":%d}}\nEND\n"
                 "deepspeed --num_gpus 8 pretrain_gpt.py " SHAPE BATCH
                 "--bf16 --deepspeed --deepspeed_config ds.json --no-pipeline-parallel",
                 cases[i].keys, cases[i].stage);
        read_script(&r, text, 8);
        assert_int_equal(tpp_plan_from_megatron(&r.settings, &r.arguments, TPP_RELEASE_NEWEST, &hardware, NULL, "m",
                                                &plan, &r.problems, NULL),
                         TPP_OK);
        assert_int_equal(plan.job.gradient_type, cases[i].type);
        assert_int_equal(plan.stack.gradient_bytes, cases[i].gradient_bytes);
        assert_int_equal(plan.stack.reduce_bytes, cases[i].reduce_bytes);
        assert_true(plan.stack.optimizer_bytes == cases[i].optimizer_bytes);
        if (cases[i].code != NULL)
            assert_non_null(find_problem(&r, cases[i].code));
        else
            assert_true(find_problem(&r, "DS") == NULL && find_problem(&r, "bad-value") == NULL);
        release_reading(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_and_configuration_become_one_plan),
        cmocka_unit_test(test_chunks_in_host_memory_are_not_predicted),
        cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_the_pipeline_engine_and_the_zero_stage),
        cmocka_unit_test(test_factors_of_the_batch_are_shown_with_what_is_missing),
        cmocka_unit_test(test_keys_that_the_parser_of_deepspeed_refuses),
        cmocka_unit_test(test_keys_that_the_parser_of_deepspeed_takes),
        cmocka_unit_test(test_agrees_with_the_configurations),
        cmocka_unit_test(test_ulysses_cuts_heads),
        cmocka_unit_test(test_the_zero_bubble_pipeline),
        cmocka_unit_test(test_options_of_the_forks),
        cmocka_unit_test(test_agrees_with_the_lines),
        cmocka_unit_test(test_types_of_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
