/* Command lines of Hugging Face's Trainer and of swift sft: FSDP by --fsdp and --fsdp_config, files that swift brings,
 * accelerate launch in front of swift's own program. */
#include "planner/launch/config/accelerate.h"
#include "planner/launch/launch_line.h"
#include "planner/launch/plan_reading.h"
#include "planner/launch/swift_arguments.h"
#include "planner/launch/swift_config.h"
#include "planner/launch/trainer_arguments.h"
#include "tests/support/script_reading.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Eight ranks. */
static void read_script(struct reading *r, const char *text)
{
    struct tpp_error err = {.code = TPP_OK};
    enum tpp_framework framework = TPP_FRAMEWORK_HF_TRAINER;
    memset(r, 0, sizeof *r);
    if (tpp_shell_read(text, strlen(text), "t", NULL, 0, &r->script, &err) != TPP_OK ||
        tpp_launch_line_find(r->script, "t", &r->line, &err) != TPP_OK ||
        tpp_launch_line_framework(&r->line, "t", &framework, &err) != TPP_OK)
        fail_msg("%s at %s", err.message, err.where);
    assert_int_equal(tpp_trainer_read(r->line.arguments, r->script, r->line.entry, framework == TPP_FRAMEWORK_MS_SWIFT,
                                      &r->arguments, &r->settings, &r->problems, &err),
                     TPP_OK);
    if (r->line.is_accelerate)
        assert_int_equal(tpp_accelerate_read(&r->line, r->script, &r->settings, &r->problems, &err), TPP_OK);
    r->settings.rules.world_size = 8;
    tpp_trainer_complete(&r->settings, &r->problems);
}

#define TRAIN "torchrun --nproc_per_node=8 train.py --model_name_or_path m --per_device_train_batch_size 4 --bf16 True "
#define SWIFT "NPROC_PER_NODE=8 swift sft --model m --max_length 2048 --tuner_type full "

/* training_args.py, _process_fsdp_args: a text of words, and a configuration of version 1 unless it says another. */
static void test_words_of_fsdp(void **state)
{
    static const struct {
        const char *words;
        int64_t version, stage;
        bool keeps_gathered, offloads, in_node;
        const char *code;
    } cases[] = {
        {"--fsdp 'full_shard auto_wrap'", 1, 3, false, false, false, NULL},
        {"--fsdp full_shard --gradient_checkpointing True", 1, 3, false, false, false, NULL},
        {"--fsdp 'shard_grad_op auto_wrap'", 1, 3, true, false, false, NULL},
        {"--fsdp 'full_shard offload auto_wrap'", 1, 3, false, true, false, NULL},
        {"--fsdp 'hybrid_shard_zero2 auto_wrap'", 1, 3, true, false, true, NULL},
        {"--fsdp no_shard", 0, 0, false, false, false, NULL},
        {"--fsdp ''", 0, 0, false, false, false, NULL},
        {"--fsdp 'full_shard' --fsdp_config '{\"fsdp_version\": 2, \"reshard_after_forward\": \"false\"}'", 2, 3, true,
         false, false, NULL},
        {"--fsdp offload", 0, 0, false, false, false, "AC"},
        {"--fsdp 'full_shard shard_grad_op'", 1, 3, true, false, false, "AC"},
        {"--fsdp full_shards", 0, 0, false, false, false, "bad-value"},
        {"--fsdp full_shard --fsdp_config fsdp.json", 1, 3, false, false, false, "unknown-config"},
        {"--fsdp full_shard --fsdp_config '{\"activation_checkpointing\": true}' --gradient_checkpointing True", 1, 3,
         false, false, false, "AC"},
        {"--fsdp full_shard --fsdp_config '{broken'", 1, 3, false, false, false, "bad-config"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reading r;
        char text[512];
        snprintf(text, sizeof text, TRAIN "%s", cases[i].words);
        read_script(&r, text);
        print_message("# %s\n", cases[i].words);
        assert_int_equal(r.settings.rules.fsdp_version, cases[i].version);
        assert_int_equal(r.settings.rules.zero_stage, cases[i].stage);
        if (cases[i].code == NULL)
            assert_int_equal(r.settings.keeps_gathered, cases[i].keeps_gathered);
        assert_int_equal(r.settings.rules.optimizer_cpu_offload, cases[i].offloads);
        assert_int_equal(r.settings.shards_in_node, cases[i].in_node);
        if (cases[i].code != NULL)
            assert_non_null(find_problem(&r, cases[i].code));
        else
            assert_int_equal(r.problems.count, 0);
        release_reading(&r);
    }
}

/* A file that the script writes; its checkpoints are full recomputation. */
static void test_a_configuration_that_the_script_writes(void **state)
{
    struct reading r;
    (void)state;
    read_script(&r, "cat > fsdp.json <<END\n{\"fsdp_transformer_layer_cls_to_wrap\": \"LlamaDecoderLayer\",\n"
                    "\"activation_checkpointing\": true}\nEND\n" TRAIN "--fsdp full_shard --fsdp_config fsdp.json");
    assert_int_equal(r.problems.count, 0);
    assert_int_equal(r.settings.rules.recompute, TPP_RULE_GRANULARITY_FULL);
    release_reading(&r);
}

/* swift/config: every preset has "auto" where sizes belong; fsdp2.json checkpoints. */
static void test_files_that_swift_brings(void **state)
{
    static const char *const presets[] = {"zero0", "zero1", "zero2", "zero3", "zero2_offload", "zero3_offload"};
    struct reading r;
    (void)state;
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        char text[256];
        snprintf(text, sizeof text, SWIFT "--deepspeed %s", presets[i]);
        read_script(&r, text);
        assert_int_equal(r.problems.count, 0);
        assert_int_equal(r.settings.rules.zero_stage, presets[i][4] - '0');
        assert_int_equal(r.settings.rules.global_batch_size, 16); /* swift fills up to 16 sequences */
        release_reading(&r);
    }
    read_script(&r, SWIFT "--fsdp fsdp2 --gradient_checkpointing false");
    assert_int_equal(r.problems.count, 0);
    assert_int_equal(r.settings.rules.fsdp_version, 2);
    assert_int_equal(r.settings.rules.recompute, TPP_RULE_GRANULARITY_FULL);
    release_reading(&r);
    read_script(&r, "cat > f.json <<END\n{\"fsdp\": \"full_shard auto_wrap offload\",\n"
                    "\"fsdp_config\": {\"reshard_after_forward\": false}}\nEND\n" SWIFT
                    "--fsdp f.json --gradient_checkpointing false");
    assert_int_equal(r.problems.count, 0);
    assert_int_equal(r.settings.rules.fsdp_version, 2);
    assert_true(r.settings.rules.optimizer_cpu_offload && r.settings.keeps_gathered);
    assert_int_equal(r.settings.rules.recompute, TPP_RULE_GRANULARITY_NONE);
    release_reading(&r);
}

/* The plan of FSDP under swift sft is the Trainer's: ms-swift's own FSDP is Megatron's. */
static void test_fsdp_under_swift_is_the_trainers(void **state)
{
    struct reading r;
    struct tpp_plan_reading plan;
    struct tpp_error err = {.code = TPP_OK};
    const struct tpp_hardware hardware = {.gpu = {.has_bf16 = true}};
    (void)state;
    read_script(&r, "cat > f.yaml <<END\ndistributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n"
                    "  fsdp_sharding_strategy: SHARD_GRAD_OP\n  fsdp_version: 1\nEND\n"
                    "accelerate launch --config_file f.yaml swift/cli/sft.py --model Qwen/Qwen2.5-7B-Instruct "
                    "--max_length 2048 --tuner_type full --gradient_checkpointing false");
    assert_int_equal(r.line.launcher, TPP_LAUNCHER_SWIFT);
    assert_int_equal(r.line.ranks_per_node, 8);
    const struct tpp_model *model = tpp_swift_model(tpp_argument_find(&r.arguments, "--model"));
    assert_non_null(model);
    tpp_swift_set_shape(&r.settings, model);
    if (tpp_plan_from_megatron(&r.settings, &r.arguments, TPP_RELEASE_NEWEST, &hardware, model, "m", &plan, &r.problems,
                               &err) != TPP_OK)
        fail_msg("%s at %s", err.message, err.where);
    assert_int_equal(plan.stack.framework, TPP_FRAMEWORK_HF_TRAINER);
    assert_int_equal(plan.stack.engine, TPP_ENGINE_FSDP1);
    assert_int_equal(plan.strategy.zero_stage, 3);
    assert_false(plan.strategy.reshard_after_forward);
    release_reading(&r);
    read_script(&r, "accelerate launch --config_file elsewhere.json swift/cli/sft.py --model m --max_length 8");
    assert_non_null(find_problem(&r, "unknown-config"));
    release_reading(&r);
}

/* A model that is known and a length that is not: nothing is refused for it. */
static void test_an_unknown_length_is_no_wrong_length(void **state)
{
    struct reading r;
    (void)state;
    read_script(&r, "deepspeed --num_gpus=8 swift/cli/sft.py --model Qwen/Qwen2.5-7B-Instruct --tuner_type lora");
    tpp_swift_set_shape(&r.settings, tpp_swift_model(tpp_argument_find(&r.arguments, "--model")));
    tpp_megatron_find_violations(&r.arguments, &r.settings.rules, TPP_RELEASE_NEWEST, 1, &r.problems);
    assert_int_equal(r.problems.count, 0);
    release_reading(&r);
}

/* accelerate writes "auto" into the configuration that it makes. */
static void test_accelerate_fills_the_sizes_in(void **state)
{
    struct reading r;
    (void)state;
    read_script(&r, "accelerate launch --use_deepspeed --zero_stage 3 --num_processes 8 train.py "
                    "--model_name_or_path m --per_device_train_batch_size 4 --bf16");
    assert_null(find_problem(&r, "DS-1"));
    assert_int_equal(r.settings.rules.zero_stage, 3);
    release_reading(&r);
}

/* A switch, and the file apart: deepspeed.add_config_arguments; or a program that makes its configuration. */
static void test_the_switch_of_deepspeed(void **state)
{
    struct reading r;
    (void)state;
    read_script(&r, "deepspeed --num_gpus 8 main.py --model_name_or_path m --per_device_train_batch_size 4 \\\n"
                    "  --zero_stage 3 --deepspeed --output_dir /o");
    assert_int_equal(r.problems.count, 0);
    assert_true(r.settings.deepspeed);
    assert_int_equal(r.settings.rules.zero_stage, 3);
    release_reading(&r);
    read_script(&r, "cat > d.json <<END\n{\"train_batch_size\": \"auto\", \"zero_optimization\": {\"stage\": 2}}\nEND\n"
                    "deepspeed --num_gpus 8 main.py --model_name_or_path m --per_device_train_batch_size 4 \\\n"
                    "  --deepspeed --deepspeed_config d.json");
    assert_int_equal(r.problems.count, 0);
    assert_int_equal(r.settings.rules.zero_stage, 2);
    release_reading(&r);
    read_script(&r, "cat > d.json <<END\n{\"train_batch_size\": 96, \"train_micro_batch_size_per_gpu\": 3,\n"
                    " \"fp16\": {\"enabled\": true}}\nEND\n" /* 96 = 3 * 4 * 8: the arguments are the program's own */
                    "deepspeed --num_gpus 8 main.py --per_device_train_batch_size 8 --deepspeed "
                    "--deepspeed_config d.json");
    assert_int_equal(r.problems.count, 0);
    assert_int_equal(r.settings.rules.micro_batch_size, 3);
    assert_int_equal(r.settings.rules.global_batch_size, 96);
    assert_true(r.settings.rules.fp16 && !r.settings.rules.bf16);
    release_reading(&r);
    read_script(&r, "cat > d.json <<END\n{\"train_batch_size\": 100, \"train_micro_batch_size_per_gpu\": 3}\nEND\n"
                    "deepspeed --num_gpus 8 main.py --per_device_train_batch_size 8 --deepspeed "
                    "--deepspeed_config d.json");
    assert_non_null(find_problem(&r, "DS-1"));
    release_reading(&r);
    read_script(&r,
                "deepspeed --num_gpus 8 main.py --model_name_or_path m --per_device_train_batch_size 4 --deepspeed");
    assert_non_null(find_problem(&r, "unknown-config"));
    release_reading(&r);
}

/* swift/sequence_parallel pads what it splits. */
static void test_swift_pads_before_it_splits(void **state)
{
    struct reading r;
    (void)state;
    read_script(&r, "NPROC_PER_NODE=8 swift sft --model m --max_length 65535 --sequence_parallel_size 4");
    assert_int_equal(r.settings.rules.sequence_length, 65536);
    release_reading(&r);
}

/* swift/cli/main.py: keys become options in front of the others, ENV variables where none is set. */
static void test_a_file_of_options(void **state)
{
    static const char config[] = "cat > c.yaml <<END\nENV:\n  NPROC_PER_NODE: '4'\n  NNODES: 2\nmodel: m\n"
                                 "dataset:\n- a\n- b\nper_device_train_batch_size: 2\nmax_length: 4096\n"
                                 "gradient_checkpointing: false\nextra: {a: 1}\nEND\n";
    static const char *const expected[] = {"--model",   "m",
                                           "--dataset", "a",
                                           "b",         "--per_device_train_batch_size",
                                           "2",         "--max_length",
                                           "4096",      "--gradient_checkpointing",
                                           "False",     "--max_length",
                                           "512"};
    struct tpp_shell_script *script;
    struct tpp_launch_line line;
    struct tpp_swift_config *made;
    struct tpp_problems problems = {0};
    char text[1024];
    (void)state;
    snprintf(text, sizeof text, "%sswift sft c.yaml --max_length 512", config);
    assert_int_equal(tpp_shell_read(text, strlen(text), "t", NULL, 0, &script, NULL), TPP_OK);
    assert_int_equal(tpp_launch_line_find(script, "t", &line, NULL), TPP_OK);
    assert_int_equal(tpp_swift_config_expand(&line, script, &made, &problems, NULL), TPP_OK);
    assert_non_null(made);
    assert_int_equal(line.arguments.count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < line.arguments.count; i++)
        assert_string_equal(line.arguments.items[i].text, expected[i]);
    assert_int_equal(line.arguments.items[1].line, 5); /* of the script: "model: m" */
    assert_int_equal(line.ranks_per_node, 4);
    assert_int_equal(line.nodes, 2);
    tpp_swift_config_free(made);
    tpp_shell_free(script);
    snprintf(text, sizeof text, "NPROC_PER_NODE=8 megatron sft elsewhere.yml --max_length 512");
    assert_int_equal(tpp_shell_read(text, strlen(text), "t", NULL, 0, &script, NULL), TPP_OK);
    assert_int_equal(tpp_launch_line_find(script, "t", &line, NULL), TPP_OK);
    assert_int_equal(tpp_swift_config_expand(&line, script, &made, &problems, NULL), TPP_OK);
    assert_null(made);
    assert_int_equal(problems.count, 1);
    assert_string_equal(problems.items[0].code, "unknown-config");
    assert_int_equal(line.arguments.count, 2);
    tpp_problems_release(&problems);
    tpp_shell_free(script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_of_fsdp),
        cmocka_unit_test(test_a_configuration_that_the_script_writes),
        cmocka_unit_test(test_files_that_swift_brings),
        cmocka_unit_test(test_fsdp_under_swift_is_the_trainers),
        cmocka_unit_test(test_an_unknown_length_is_no_wrong_length),
        cmocka_unit_test(test_accelerate_fills_the_sizes_in),
        cmocka_unit_test(test_the_switch_of_deepspeed),
        cmocka_unit_test(test_swift_pads_before_it_splits),
        cmocka_unit_test(test_a_file_of_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
