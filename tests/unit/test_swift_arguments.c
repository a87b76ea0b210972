/* Command lines of ms-swift's megatron side: defaults of its own, switches with values, names of 3.x, models that are
 * only named. */
#include "costmodel/model/presets.h"
#include "planner/launch/launch_line.h"
#include "planner/launch/plan_reading.h"
#include "planner/launch/swift_arguments.h"
#include "tests/support/reference_lines.h"
#include "tests/support/script_reading.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void read_script(struct reading *r, const char *text, int64_t world_size)
{
    struct tpp_error err = {.code = TPP_OK};
    memset(r, 0, sizeof *r);
    if (tpp_shell_read(text, strlen(text), "t", NULL, 0, &r->script, &err) != TPP_OK ||
        tpp_launch_line_find(r->script, "t", &r->line, &err) != TPP_OK)
        fail_msg("%s at %s", err.message, err.where);
    assert_int_equal(
        tpp_swift_read(r->line.arguments, r->script, r->line.entry, &r->arguments, &r->settings, &r->problems, &err),
        TPP_OK);
    r->settings.rules.world_size = world_size;
    r->settings.rules.cuda_device_max_connections = 1;
    tpp_swift_set_shape(&r->settings, tpp_swift_model(tpp_argument_find(&r->arguments, "--model")));
    tpp_megatron_find_violations(&r->arguments, &r->settings.rules, TPP_RELEASE_NEWEST, 1, &r->problems);
}

static void test_a_script_becomes_a_plan(void **state)
{
    struct reading r;
    struct tpp_plan_reading plan;
    struct tpp_error err = {.code = TPP_OK};
    struct tpp_hardware hardware = {.gpu = {.has_bf16 = true}};
    (void)state;
    read_script(
        &r,
        "PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True' \\\nNPROC_PER_NODE=8 \\\nCUDA_VISIBLE_DEVICES=0,1 \\\n"
        "megatron sft \\\n  --model Qwen/Qwen2.5-7B-Instruct --dataset 'a/b#100' c \\\n"
        "  --tensor_model_parallel_size 4 --sequence_parallel true --micro_batch_size 2 \\\n"
        "  --recompute_granularity full --recompute_method uniform --recompute_num_layers 1 \\\n"
        "  --max_length 8192 --packing true --overlap_grad_reduce True --align_grad_reduce False --no_save_optim "
        "true\n",
        8);
    assert_false(tpp_problems_have(&r.problems, TPP_SEVERITY_ERROR));
    assert_int_equal(r.line.ranks_per_node, 8);
    const struct tpp_model *model = tpp_swift_model(tpp_argument_find(&r.arguments, "--model"));
    assert_ptr_equal(model, tpp_model_preset("qwen2.5-7b"));
    if (tpp_plan_from_megatron(&r.settings, &r.arguments, TPP_RELEASE_NEWEST, &hardware, model, "m", &plan, &r.problems,
                               &err) != TPP_OK)
        fail_msg("%s", err.message);
    assert_int_equal(plan.stack.framework, TPP_FRAMEWORK_MS_SWIFT);
    assert_int_equal(plan.job.task, TPP_TASK_SFT);
    assert_int_equal(plan.job.global_batch_size, 16); /* its default */
    assert_int_equal(plan.job.sequence_length, 8192);
    assert_int_equal(plan.strategy.data_parallel, 2);
    assert_int_equal(plan.strategy.num_micro_batches, 4); /* 16 / (2 * 2) */
    assert_int_equal(plan.strategy.zero_stage, 1);        /* use_distributed_optimizer is on */
    assert_true(plan.strategy.overlap_grad_reduce && !plan.strategy.overlap_param_gather);
    assert_false(plan.strategy.align_grad_reduce);
    assert_int_equal(plan.strategy.recompute, TPP_RECOMPUTE_FULL);
    release_reading(&r);
}

static void test_switches_and_defaults(void **state)
{
    struct reading r;
    (void)state;
    read_script(&r, "megatron pt --model m --use_distributed_optimizer false --tuner_type lora --lora_rank 32", 8);
    assert_false(r.settings.rules.distributed_optimizer);
    assert_true(r.settings.trains_adapters && !r.settings.gives_checkpoint);
    assert_int_equal(r.settings.lora_rank, 32);
    assert_int_equal(r.settings.rules.recompute, TPP_RULE_GRANULARITY_SELECTIVE);
    assert_int_equal(r.settings.rules.expert_tensor_parallel, 1);
    assert_null(tpp_swift_model(tpp_argument_find(&r.arguments, "--model")));
    release_reading(&r);
    read_script(&r, "megatron sft --model m --sequence_parallel maybe", 8);
    assert_non_null(find_problem(&r, "bad-value"));
    release_reading(&r);
}

static void test_names_of_release_3(void **state)
{
    struct reading r;
    (void)state;
    read_script(&r, "megatron sft --model m \\\n --train_type lora --load_safetensors true --sequence_paralel true", 8);
    const struct tpp_problem *problem = find_problem(&r, "renamed-option");
    assert_non_null(problem);
    assert_int_equal(problem->severity, TPP_SEVERITY_ERROR);
    assert_int_equal(problem->line, 2);
    assert_string_equal(problem->hint, "write --tuner_type");
    problem = find_problem(&r, "unknown-option"); /* may be of a class that is not listed */
    assert_non_null(problem);
    assert_int_equal(problem->severity, TPP_SEVERITY_WARNING);
    assert_string_equal(problem->hint, "did you mean --sequence_parallel?");
    release_reading(&r);
}

/* ---- the reference lines ---- */

static void compare(struct tpp_json line, unsigned *agreeing, unsigned *disagreeing)
{
    const char *id = "", *arguments, *verdict;
    uint64_t world_size;
    struct tpp_text text;
    struct reading r;
    char *copy;
    assert_int_equal(tpp_json_get_string(line, "id", &id, NULL), TPP_OK);
    assert_int_equal(tpp_json_need_string(line, "args", &arguments, NULL), TPP_OK);
    assert_int_equal(tpp_json_need_string(line, "verdict", &verdict, NULL), TPP_OK);
    assert_int_equal(tpp_json_need_u64(line, "world_size", 1, 1u << 20, &world_size, NULL), TPP_OK);
    tpp_text_init(&text);
    tpp_text_append(&text, "megatron sft");
    copy = strdup(arguments);
    assert_non_null(copy);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) {
        tpp_text_append(&text, " ");
        tpp_text_append_shell_word(&text, word);
    }
    read_script(&r, tpp_text_get(&text), (int64_t)world_size);
    bool refused = tpp_problems_have(&r.problems, TPP_SEVERITY_ERROR), expected = strncmp(verdict, "ok", 2) != 0;
    *agreeing += refused == expected;
    *disagreeing += refused != expected;
    if (refused != expected)
        print_message("# %s: the real code says %s, we say %s\n", id, verdict,
                      refused ? r.problems.items[0].message : "ok");
    release_reading(&r);
    tpp_text_release(&text);
    free(copy);
}

static void test_agrees_with_the_lines(void **state)
{
    static const char *const names[] = {"ms-swift-megatron.jsonl"};
    (void)state;
    reference_lines_agree(names, sizeof names / sizeof *names, compare);
}

/* swift/megatron/arguments/megatron_args.py: SW-2, SW-5, SW-8, SW-10. */
static void test_what_is_refused_beside_the_sizes(void **state)
{
    static const struct {
        const char *options, *code;
    } cases[] = {
        {"--recompute_granularity selective --recompute_method uniform", "SW-2"},
        {"--recompute_granularity full --recompute_method uniform --recompute_num_layers 1", NULL},
        {"--group_by_length true", "SW-5"},
        {"--group_by_length true --padding_free false", NULL},
        {"--save_total_limit 1", "SW-8"},
        {"--save_total_limit 2 --async_save true", "SW-8"},
        {"--save_total_limit 2 --async_save false", NULL},
        {"--freeze_parameters_ratio 0.5 --pipeline_model_parallel_size 2", "SW-8"},
        {"--freeze_parameters_ratio 0.5", NULL},
        {"--streaming true", "SW-10"},
        {"--streaming true --train_iters 100", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reading r;
        char text[256];
        snprintf(text, sizeof text, "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen2.5-7B --max_length 4096 %s",
                 cases[i].options);
        read_script(&r, text, 8);
        tpp_swift_find_refused(&r.arguments, &r.settings, &r.problems);
        print_message("# %s\n", cases[i].options);
        if (cases[i].code != NULL)
            assert_non_null(find_problem(&r, cases[i].code));
        else
            assert_false(tpp_problems_have(&r.problems, TPP_SEVERITY_ERROR));
        release_reading(&r);
    }
}

/* The first training that is found is behind a condition. */
static void test_a_training_behind_a_condition(void **state)
{
    static const char text[] = "if [ \"$MODE\" = train ]; then\n  NPROC_PER_NODE=8 megatron sft --model m\nfi\n";
    struct tpp_shell_script *script;
    struct tpp_launch_line line = {.entry = NULL};
    (void)state;
    assert_int_equal(tpp_shell_read(text, strlen(text), "t", NULL, 0, &script, NULL), TPP_OK);
    assert_int_equal(tpp_launch_line_find(script, "t", &line, NULL), TPP_OK);
    assert_string_equal(line.entry, "sft");
    assert_true(line.command->is_conditional);
    tpp_shell_free(script);
}

/* The file of the package that `swift sft` starts, given to a launcher: the same task. */
static void test_a_file_of_the_package_is_its_task(void **state)
{
    static const char text[] = "deepspeed --hostfile=hosts.txt swift/cli/sft.py --model m --tuner_type lora";
    struct tpp_shell_script *script;
    struct tpp_launch_line line;
    enum tpp_framework framework;
    (void)state;
    assert_int_equal(tpp_shell_read(text, strlen(text), "t", NULL, 0, &script, NULL), TPP_OK);
    assert_int_equal(tpp_launch_line_find(script, "t", &line, NULL), TPP_OK);
    assert_int_equal(tpp_launch_line_framework(&line, "t", &framework, NULL), TPP_OK);
    assert_int_equal(framework, TPP_FRAMEWORK_MS_SWIFT);
    assert_int_equal(line.launcher, TPP_LAUNCHER_SWIFT);
    assert_string_equal(line.entry, "sft");
    tpp_shell_free(script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_of_the_package_is_its_task),
        cmocka_unit_test(test_a_training_behind_a_condition),
        cmocka_unit_test(test_what_is_refused_beside_the_sizes),
        cmocka_unit_test(test_a_script_becomes_a_plan),
        cmocka_unit_test(test_switches_and_defaults),
        cmocka_unit_test(test_names_of_release_3),
        cmocka_unit_test(test_agrees_with_the_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
