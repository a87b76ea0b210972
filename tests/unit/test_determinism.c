/* Deterministic mode (ML-99): what megatron/training/determinism.py and Megatron-Bridge's config.py refuse. */
#include "planner/launch/bridge_arguments.h"
#include "planner/launch/determinism.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* How many times ML-99 is said of the script, and whether it is deterministic. */
static unsigned judge(const char *text, bool *deterministic)
{
    struct tpp_shell_script *script;
    struct tpp_launch_line line;
    struct tpp_arguments arguments;
    struct tpp_megatron_settings settings;
    struct tpp_problems problems = {0};
    enum tpp_framework framework;
    unsigned found = 0;
    assert_int_equal(tpp_shell_read(text, strlen(text), "t", NULL, 0, &script, NULL), TPP_OK);
    assert_int_equal(tpp_launch_line_find(script, "t", &line, NULL), TPP_OK);
    assert_int_equal(tpp_launch_line_framework(&line, "t", &framework, NULL), TPP_OK);
    if (framework == TPP_FRAMEWORK_NEMO)
        assert_int_equal(tpp_bridge_read(line.arguments, script, &arguments, &settings, &problems, NULL), TPP_OK);
    else
        assert_int_equal(tpp_megatron_read(line.arguments, script, line.entry, TPP_RELEASE_MAIN, &arguments, &settings,
                                           &problems, NULL),
                         TPP_OK);
    tpp_determinism_judge(&line, &arguments, &settings, TPP_RELEASE_MAIN, &problems);
    for (size_t i = 0; i < problems.count; i++)
        found += strcmp(problems.items[i].code, "ML-99") == 0 && problems.items[i].severity == TPP_SEVERITY_ERROR;
    *deterministic = settings.deterministic;
    tpp_problems_release(&problems);
    tpp_arguments_release(&arguments);
    tpp_shell_free(script);
    return found;
}

#define LM "torchrun --nproc_per_node=8 pretrain_gpt.py --num-layers 2 --micro-batch-size 1 "
#define BRIDGE "torchrun --nproc_per_node=8 run_recipe.py --recipe llama3_70b_pretrain_32gpu_h100_bf16"

static void test_what_deterministic_mode_is_refused_for(void **state)
{
    static const struct {
        const char *text;
        bool deterministic;
        unsigned refused;
    } cases[] = {
        {LM "--deterministic-mode", true, 0},
        {"NCCL_ALGO=Ring NVTE_ALLOW_NONDETERMINISTIC_ALGO=0 " LM "--deterministic-mode", true, 0},
        {"export NCCL_ALGO='CollnetChain,^NVLS' CUBLAS_WORKSPACE_CONFIG=:16:8\n" LM "--deterministic-mode", true, 0},
        {LM "--cross-entropy-loss-fusion", false, 0},
        {"NCCL_ALGO=Tree " LM, false, 0},
        {LM "--deterministic-mode --cross-entropy-loss-fusion", true, 1},
        {LM "--deterministic-mode --tp-comm-overlap", true, 1},
        {"NCCL_ALGO=Ring,Tree " LM "--deterministic-mode", true, 1},
        {"export NVTE_ALLOW_NONDETERMINISTIC_ALGO=1\n" LM "--deterministic-mode", true, 1},
        {"CUBLAS_WORKSPACE_CONFIG=:1:1 NCCL_ALGO= " LM "--deterministic-mode", true, 1},
        {"NVTE_ALLOW_NONDETERMINISTIC_ALGO=$X " LM "--deterministic-mode", true, 0},
        {BRIDGE "_config", false, 0},
        {BRIDGE "_deterministic_config", true, 0},
        {BRIDGE "_config --deterministic", true, 0},
        {BRIDGE "_config model.deterministic_mode=true model.cross_entropy_loss_fusion=false", true, 0},
        {BRIDGE "_config model.deterministic_mode=true", true, 1},
        {BRIDGE "_deterministic_config model.cross_entropy_loss_fusion=true", true, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool deterministic;
        assert_int_equal(judge(cases[i].text, &deterministic), cases[i].refused);
        assert_int_equal(deterministic, cases[i].deterministic);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_deterministic_mode_is_refused_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
