/* A command line of Megatron-LM: settings, problems with their lines, and suggestions. The field cases are restated
 * practitioners' reports; their numbers are computed in the comments. */
#include "planner/launch/launch_line.h"
#include "planner/launch/plan_reading.h"
#include "tests/support/script_reading.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SHAPE "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --max-position-embeddings 65536 "
#define REST "--hidden-size 4096 --num-attention-heads 32 --max-position-embeddings 4096 --seq-length 4096 "
#define START "export CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun --nproc_per_node 8 pretrain_gpt.py --mock-data --bf16 "

/* Reads a script of one training in a release; world size and connections as it says. */
static void read_script(struct reading *r, enum tpp_release release, const char *text)
{
    struct tpp_error err = {.code = TPP_OK};
    memset(r, 0, sizeof *r);
    if (tpp_shell_read(text, strlen(text), "test.sh", NULL, 0, &r->script, &err) != TPP_OK ||
        tpp_launch_line_find(r->script, "test.sh", &r->line, &err) != TPP_OK)
        fail_msg("%s at %s", err.message, err.where);
    assert_int_equal(tpp_megatron_read(r->line.arguments, r->script, r->line.entry, release, &r->arguments,
                                       &r->settings, &r->problems, &err),
                     TPP_OK);
    r->settings.rules.world_size = r->line.nodes * r->line.ranks_per_node;
    r->settings.rules.cuda_device_max_connections = 1;
    tpp_megatron_find_dead(&r->arguments, &r->settings, release, &r->problems);
    tpp_megatron_find_violations(&r->arguments, &r->settings.rules, release, r->line.command->line, &r->problems);
}

/* The script has the problem, in that line, and its hint holds the text. */
static void check_in(enum tpp_release release, const char *text, const char *code, uint32_t line, const char *hint)
{
    struct reading r;
    read_script(&r, release, text);
    const struct tpp_problem *problem = find_problem(&r, code);
    if (problem == NULL)
        fail_msg("no %s in: %s", code, text);
    assert_int_equal(problem->line, line);
    if (strstr(problem->hint, hint) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", hint, problem->hint);
    release_reading(&r);
}

static void check(const char *text, const char *code, uint32_t line, const char *hint)
{
    check_in(TPP_RELEASE_0_16, text, code, line, hint);
}

static void test_options_of_other_releases(void **state)
{
    (void)state;
    check(START "\\\n--activations-checkpoint-method uniform", "renamed-option", 3, "--recompute-method");
    check(START "--use-custom-fsdp", "renamed-option", 2, "--use-megatron-fsdp");
    check(START "--megatron-fsdp-version 2", "too-new-option", 2, "--framework-version");
    check(START "--checkpoint-activations", "removed-option", 2, "--recompute-granularity full");
    check_in(TPP_RELEASE_0_7, START "--recompute-modules mlp", "too-new-option", 2, "--framework-version");
    check(START "--tensor-model-parallel-sise 2", "unknown-option", 2, "--tensor-model-parallel-size");
}

static void test_reductions_are_aligned_unless_switched_off(void **state)
{
    static const struct {
        enum tpp_release release;
        const char *option;
        bool is_aligned;
    } cases[] = {
        {TPP_RELEASE_0_8, "--no-delay-grad-reduce", false},
        {TPP_RELEASE_0_9, "--no-align-grad-reduce", false},
        {TPP_RELEASE_0_17, "--disable-align-grad-reduce", false},
        {TPP_RELEASE_0_17, "", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reading r;
        char text[512];
        snprintf(text, sizeof text, START SHAPE "--overlap-grad-reduce %s", cases[i].option);
        read_script(&r, cases[i].release, text);
        assert_null(find_problem(&r, "unknown-option"));
        assert_int_equal(r.settings.rules.align_grad_reduce, cases[i].is_aligned);
        release_reading(&r);
    }
}

/* Megatron-LM v2.6, arguments.py: a method asks for full recomputation, of one layer at a time unless it is said;
 * --checkpoint-activations is the method uniform. */
static void check_checkpointing(enum tpp_release release, const char *options, enum tpp_rule_method method,
                                int64_t num_layers)
{
    struct reading r;
    char text[300];
    snprintf(text, sizeof text, START "%s", options);
    read_script(&r, release, text);
    assert_int_equal(r.settings.rules.recompute, TPP_RULE_GRANULARITY_FULL);
    assert_int_equal(r.settings.rules.recompute_method, method);
    assert_int_equal(r.settings.rules.recompute_num_layers, num_layers);
    release_reading(&r);
}

static void test_checkpointing_of_2021_is_full_recomputation(void **state)
{
    (void)state;
    check_checkpointing(TPP_RELEASE_V2_6, "--activations-checkpoint-method uniform", TPP_RULE_METHOD_UNIFORM, 1);
    check_checkpointing(TPP_RELEASE_V2_6, "--activations-checkpoint-num-layers 4 --activations-checkpoint-method block",
                        TPP_RULE_METHOD_BLOCK, 4);
    check_checkpointing(TPP_RELEASE_V2_6, "--checkpoint-activations", TPP_RULE_METHOD_UNIFORM, 1);
    /* refused since 23.04, and still understood: the new names mean the same */
    check_checkpointing(TPP_RELEASE_0_16, "--activations-checkpoint-method uniform", TPP_RULE_METHOD_UNIFORM, 1);
    check_in(TPP_RELEASE_V2_6,
             START REST "--num-layers 32 --micro-batch-size 1 --activations-checkpoint-method uniform \\\n"
                        "--distribute-checkpointed-activations",
             "ML-62", 3, "drop it");
}

static void test_words_that_the_parser_stops_at(void **state)
{
    (void)state;
    check(START "--bf16 true", "stray-word", 2, "takes no value");
    check(START "--bf16=true", "stray-value", 2, "take the value out");
    check(START "--train-iters 1e6", "bad-value", 2, "without an exponent");
    check(START "--lr abc", "bad-value", 2, "a number");
    check(START "--rampup-batch-size 16 16", "missing-value", 2, "");
    check(START "--micro-batch-size --fp16", "missing-value", 2, "");
    check(START "--fp8-format e5m2", "bad-value", 2, "hybrid");
}

/* A flood of words would take minutes. */
static void test_too_many_words_are_refused(void **state)
{
    static struct tpp_shell_word words[TPP_ARGUMENTS_MAX_WORDS + 1];
    struct tpp_arguments arguments;
    struct tpp_megatron_settings settings;
    struct tpp_problems problems = {0};
    struct tpp_error err = {.code = TPP_OK};
    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        words[i] = (struct tpp_shell_word){.text = "--bf16", .line = 1};
    const struct tpp_shell_words all = {words, sizeof words / sizeof *words};
    assert_int_equal(tpp_megatron_read(all, NULL, NULL, TPP_RELEASE_NEWEST, &arguments, &settings, &problems, &err),
                     TPP_E_UNSUPPORTED);
    assert_true(err.message[0] != '\0' && err.hint[0] != '\0');
    tpp_arguments_release(&arguments);
    tpp_problems_release(&problems);
}

static void test_numbers_as_python_reads_them(void **state)
{
    struct reading r;
    (void)state;
    read_script(&r, TPP_RELEASE_0_16,
                START SHAPE "--train-samples 220_000_000 --seq-length=4096 --micro-batch-size 4 --micro-batch-size 2 "
                            "--lr .01 --min-lr 6.0e-5 --ffn-hidden-size 1_1008 --norm-epsilon 1e-6");
    assert_true(r.settings.rules.has_train_samples);
    assert_int_equal(r.settings.rules.sequence_length, 4096);
    assert_int_equal(r.settings.rules.micro_batch_size, 2); /* the last one wins */
    assert_true(r.settings.rules.lr == .01 && r.settings.norm_epsilon == 1e-6);
    assert_int_equal(r.settings.rules.ffn_hidden_size, 11008);
    assert_null(find_problem(&r, "bad-value"));
    release_reading(&r);
}

static void test_layer_patterns(void **state)
{
    static const struct {
        const char *pattern;
        int64_t first_dense, period;
        bool is_read;
    } cases[] = {
        {"1", 0, 1, true},
        {"([0]*3+[1]*29)", 3, 1, true},
        {"[1]*32", 0, 1, true},
        {"([0,1]*16)", 0, 2, true},
        {"[0]*2+([0,1])*15", 3, 2, true}, /* layer 1 is dense, layers 3, 5, ... are not */
        {"[1]*2+[0]*30", 0, 1, false},
        {"[0, 0, 1]*10+[0]*2", 0, 3, true},
        {"[1", 0, 1, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        struct reading r;
        snprintf(text, sizeof text, START SHAPE "--seq-length 4096 --num-experts 8 --moe-layer-freq '%s'",
                 cases[i].pattern);
        read_script(&r, TPP_RELEASE_0_16, text);
        assert_int_equal(r.settings.is_pattern_read, cases[i].is_read);
        if (cases[i].is_read) {
            assert_int_equal(r.settings.first_dense_layers, cases[i].first_dense);
            assert_int_equal(r.settings.moe_layer_period, cases[i].period);
        }
        release_reading(&r);
    }
}

static void test_settings_without_effect(void **state)
{
    (void)state;
    check(START "\\\n--sequence-parallel", "dead-setting", 3, "take it out");
    check(START "--position-embedding-type rope --no-position-embedding", "contradiction", 2, "");
    check(START "--no-masked-softmax-fusion", "dead-setting", 2, "");
    check(START "--use-mcore-models", "dead-setting", 2, "");
    check(START "--num-query-groups 8", "dead-setting", 2, "--group-query-attention");
    check_in(TPP_RELEASE_0_19, START "--rampup-batch-size 16 16 100", "dead-setting", 2, "--step-batch-size-schedule");
}

/* Field case C05: 30 layers over 4 stages built 28; 7, 8, 8, 7 is a way. */
static void test_layers_that_do_not_divide(void **state)
{
    (void)state;
    check(START REST "--num-layers 30 --pipeline-model-parallel-size 4", "ML-12", 2,
          "--decoder-first-pipeline-num-layers 7 and -last- 7");
    /* before 0.9 there are no uneven stages */
    check_in(TPP_RELEASE_0_8, START REST "--num-layers 30 --pipeline-model-parallel-size 4",
             "ML-12", 2, "30 divides by 1, 2, 3, 5, 6, 10, 15, 30");
    struct reading r;
    read_script(&r, TPP_RELEASE_0_8, START REST "--num-layers 30 --pipeline-model-parallel-size 4");
    assert_null(strstr(find_problem(&r, "ML-12")->hint, "--decoder-first"));
    release_reading(&r);
}

/* Field case C07: 40 layers on 2 stages do not make 12 chunks; 1, 2, 4, 5, 10, 20 do. Two layers a chunk of a 21-layer
 * stage: 42 layers. */
static void test_chunks_that_do_not_divide(void **state)
{
    (void)state;
    check(START REST "--num-layers 40 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 3",
          "ML-21", 2, "1, 2, 4, 5, 10, 20");
    check(START REST "--num-layers 40 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 12",
          "ML-12", 2, "a stage of 20 layers divides into 1, 2, 4, 5, 10, 20 chunks");
}

/* Field cases C25 and C26: 8190 tokens with cp 4 need a multiple of 8: 8192; with tp 4 and sequence parallelism 32. */
static void test_sequences_that_do_not_divide(void **state)
{
    (void)state;
    check(START SHAPE "--seq-length 8190 --context-parallel-size 4", "ML-8", 2, "8192");
    check(START SHAPE "--seq-length 4098 --tensor-model-parallel-size 4 --sequence-parallel", "ML-9", 2, "4100");
}

/* Field case C30: 6 micro-batches on 4 stages with 2 chunks; 8 are whole groups. dp = 8 / 4 = 2, so the batch is 16. */
static void test_micro_batches_that_do_not_group(void **state)
{
    (void)state;
    check_in(TPP_RELEASE_0_9,
             START SHAPE "--seq-length 4096 --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4 "
                         "--micro-batch-size 1 --global-batch-size 12",
             "ML-29", 2, "8 micro-batches are whole groups of 4: a global batch of 16");
}

/* 7 GPUs, micro-batch 2: units of 14, and 252 and 266 are the multiples around 256 (field case C16). */
static void test_batches_that_do_not_divide(void **state)
{
    (void)state;
    check("torchrun --nproc_per_node 7 pretrain_gpt.py --mock-data " SHAPE
          "--seq-length 4096 --micro-batch-size 2 --global-batch-size 256",
          "ML-3", 1, "252 or 266");
}

/* Field cases C22 to C24: ceil to 128 * tp. 151669 -> 512 * 297 = 152064; 250682 -> 1024 * 245 = 250880; 32002 -> 256 *
 * 126 = 32256; 32000 = 256 * 125 stays; 50257 with divisor 1 -> 50258, with 128 -> 256 * 197 = 50432. */
static void test_vocabularies_are_padded(void **state)
{
    static const struct {
        unsigned vocabulary, tensor, divisor;
        const char *code, *text;
    } cases[] = {
        {151669, 4, 128, "padded-vocabulary", "to 152064"}, {250682, 8, 128, "padded-vocabulary", "to 250880"},
        {32002, 2, 128, "padded-vocabulary", "to 32256"},   {32000, 2, 128, NULL, ""},
        {50257, 2, 1, "odd-vocabulary", "to 50258"},        {50257, 2, 128, "padded-vocabulary", "to 50432"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        struct reading r;
        struct tpp_plan_reading plan;
        struct tpp_hardware hardware = {.gpu = {.has_bf16 = true}};
        snprintf(text, sizeof text,
                 START SHAPE "--seq-length 4096 --micro-batch-size 1 --global-batch-size 8 --vocab-size %u "
                             "--tensor-model-parallel-size %u --make-vocab-size-divisible-by %u",
                 cases[i].vocabulary, cases[i].tensor, cases[i].divisor);
        read_script(&r, TPP_RELEASE_0_16, text);
        assert_int_equal(tpp_plan_from_megatron(&r.settings, &r.arguments, TPP_RELEASE_0_16, &hardware, NULL, "m",
                                                &plan, &r.problems, NULL),
                         TPP_OK);
        if (cases[i].code != NULL) {
            assert_non_null(find_problem(&r, cases[i].code));
            assert_non_null(strstr(find_problem(&r, cases[i].code)->message, cases[i].text));
        } else {
            assert_null(find_problem(&r, "padded-vocabulary"));
        }
        release_reading(&r);
    }
}

static void check_line(const char *text, int64_t ranks, int64_t nodes, enum tpp_launcher launcher, const char *entry)
{
    struct tpp_shell_script *script;
    struct tpp_launch_line line;
    struct tpp_error err = {.code = TPP_OK};
    assert_int_equal(tpp_shell_read(text, strlen(text), "t", NULL, 0, &script, &err), TPP_OK);
    if (tpp_launch_line_find(script, "t", &line, &err) != TPP_OK)
        fail_msg("%s: %s", err.message, text);
    assert_int_equal(line.ranks_per_node, ranks);
    assert_int_equal(line.nodes, nodes);
    assert_int_equal(line.launcher, launcher);
    assert_string_equal(line.entry, entry);
    tpp_shell_free(script);
}

static void test_launchers_and_their_sizes(void **state)
{
    (void)state;
    check_line("torchrun --nproc_per_node 8 --nnodes=4 x/pretrain_gpt.py --a", 8, 4, TPP_LAUNCHER_TORCHRUN,
               "pretrain_gpt.py");
    check_line("torchrun --standalone --nproc-per-node=2 p.py", 2, 1, TPP_LAUNCHER_TORCHRUN, "p.py");
    check_line("torchrun --nproc_per_node gpu --nnodes 1:4 p.py", 0, 0, TPP_LAUNCHER_TORCHRUN, "p.py");
    check_line("uv run python -u -m torch.distributed.run --nproc_per_node 4 p.py", 4, 1, TPP_LAUNCHER_TORCHRUN,
               "p.py");
    check_line("nsys profile -o x python3 -m torch.distributed.launch --nproc_per_node 4 p.py", 4, 1,
               TPP_LAUNCHER_TORCHRUN, "p.py");
    check_line("deepspeed --num_nodes 2 --num_gpus=8 --master_port 1 p.py --deepspeed", 8, 2, TPP_LAUNCHER_DEEPSPEED,
               "p.py");
    check_line("deepspeed p.py --deepspeed", 0, 1, TPP_LAUNCHER_DEEPSPEED, "p.py");
    check_line("NPROC_PER_NODE=4 NNODES=2 megatron sft --model m", 4, 2, TPP_LAUNCHER_MEGATRON, "sft");
    check_line("#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=8\nsrun python -u p.py --num-layers 2", 8, 4,
               TPP_LAUNCHER_PYTHON, "p.py");
    check_line("#SBATCH -N 4 --ntasks-per-node=8\nsrun -N2 -n 8 bash -c 'python p.py --num-layers 2'", 8, 2,
               TPP_LAUNCHER_PYTHON, "p.py");
    check_line("python tools/preprocess.py --input x\npython p.py --micro-batch-size 1", 1, 1, TPP_LAUNCHER_PYTHON,
               "p.py");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_of_other_releases),
        cmocka_unit_test(test_reductions_are_aligned_unless_switched_off),
        cmocka_unit_test(test_checkpointing_of_2021_is_full_recomputation),
        cmocka_unit_test(test_words_that_the_parser_stops_at),
        cmocka_unit_test(test_too_many_words_are_refused),
        cmocka_unit_test(test_numbers_as_python_reads_them),
        cmocka_unit_test(test_layer_patterns),
        cmocka_unit_test(test_settings_without_effect),
        cmocka_unit_test(test_layers_that_do_not_divide),
        cmocka_unit_test(test_chunks_that_do_not_divide),
        cmocka_unit_test(test_sequences_that_do_not_divide),
        cmocka_unit_test(test_micro_batches_that_do_not_group),
        cmocka_unit_test(test_batches_that_do_not_divide),
        cmocka_unit_test(test_vocabularies_are_padded),
        cmocka_unit_test(test_launchers_and_their_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
