/* Command lines of Megatron-Bridge's run_recipe.py: options and overrides, in the order of precedence of its source. */
#include "costmodel/model/presets.h"
#include "hwprofiles/profiles.h"
#include "planner/launch/bridge_arguments.h"
#include "planner/launch/launch_line.h"
#include "planner/launch/plan_reading.h"
#include "planner/launch/swift_arguments.h"
#include "tests/support/script_reading.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void read_script(struct reading *r, const char *text)
{
    struct tpp_error err = {.code = TPP_OK};
    enum tpp_framework framework = TPP_FRAMEWORK_MEGATRON_LM;
    memset(r, 0, sizeof *r);
    if (tpp_shell_read(text, strlen(text), "t", NULL, 0, &r->script, &err) != TPP_OK ||
        tpp_launch_line_find(r->script, "t", &r->line, &err) != TPP_OK ||
        tpp_launch_line_framework(&r->line, "t", &framework, &err) != TPP_OK)
        fail_msg("%s at %s", err.message, err.where);
    assert_int_equal(framework, TPP_FRAMEWORK_NEMO);
    assert_int_equal(tpp_bridge_read(r->line.arguments, r->script, &r->arguments, &r->settings, &r->problems, &err),
                     TPP_OK);
}

/* run_recipe.py: "the trailing KEY=VALUE override takes precedence" over the option of the same field. */
static void test_an_override_wins_over_an_option(void **state)
{
    struct reading r;
    (void)state;
    read_script(&r, "torchrun --nproc_per_node=8 run_recipe.py --model llama31_8b --mode pretrain \\\n"
                    "  model.tensor_model_parallel_size=4 train.global_batch_size=96 -tp 2 -pp 2 -gb 64 -vp=4");
    assert_int_equal(r.settings.rules.tensor_parallel, 4);
    assert_int_equal(r.settings.rules.pipeline_parallel, 2);
    assert_int_equal(r.settings.rules.global_batch_size, 96);
    assert_int_equal(r.settings.rules.virtual_stages_per_rank, 4);
    assert_int_equal(tpp_argument_line(&r.arguments, "model.tensor_model_parallel_size"), 2);
    assert_ptr_equal(tpp_bridge_model(tpp_bridge_recipe(&r.arguments)), tpp_model_preset("llama3.1-8b"));
    const struct tpp_problem *assumed = find_problem(&r, "recipe-default");
    assert_non_null(assumed);
    assert_non_null(strstr(assumed->message, "train.micro_batch_size"));
    assert_null(strstr(assumed->message, "global_batch_size"));
    release_reading(&r);
}

static void test_values_in_the_grammar_of_hydra(void **state)
{
    struct reading r;
    (void)state;
    read_script(
        &r, "srun python run_recipe.py --recipe qwen25_7b_peft_1gpu_h100_bf16_config \\\n"
            " '++model.recompute_granularity=\"selective\"' +model.recompute_modules=[core_attn,moe_act] \\\n"
            " model.virtual_pipeline_model_parallel_size=4 model.virtual_pipeline_model_parallel_size=null \\\n"
            " ddp.overlap_grad_reduce=True dist.align_grad_reduce=false 'peft.target_modules=[linear_qkv, "
            "linear_proj]' peft.dim=8 \\\n"
            " mixed_precision=bf16-with-fp8-subchannel-scaling-mixed 'optimizer.lr=${oc.env:LR}' comm_overlap=null \\\n"
            " 'logger.wandb_project=a=b'");
    const struct tpp_rule_settings *rules = &r.settings.rules;
    assert_false(tpp_problems_have(&r.problems, TPP_SEVERITY_ERROR));
    assert_int_equal(rules->recompute, TPP_RULE_GRANULARITY_SELECTIVE);
    assert_int_equal(rules->recompute_modules, 3);
    assert_int_equal(rules->virtual_stages_per_rank, TPP_RULE_UNSET);
    assert_true(rules->overlap_grad_reduce && !rules->align_grad_reduce);
    assert_true(r.settings.trains_adapters);
    assert_int_equal(r.settings.lora_rank, 8);
    assert_int_equal(r.settings.lora_targets, TPP_LORA_ATTENTION);
    assert_int_equal(rules->fp8_recipe, TPP_RULE_FP8_BLOCKWISE);
    assert_false(rules->fp8_param_gather);
    assert_ptr_equal(tpp_bridge_model(tpp_bridge_recipe(&r.arguments)), tpp_model_preset("qwen2.5-7b"));
    release_reading(&r);
}

static void test_broken_rules_and_keys_at_their_lines(void **state)
{
    struct reading r;
    (void)state;
    read_script(&r, "torchrun --nproc_per_node=8 run_recipe.py --model llama31_8b --mode pretrain \\\n"
                    "  -tp 3 \\\n"
                    "  model.pipeline_model_paralel_size=2 train.micro_batch_size=1 train.global_batch_size=64 \\\n"
                    "  dataset.seq_length=8k");
    r.settings.rules.world_size = 8;
    r.settings.rules.compute_capability = 9.0;
    tpp_swift_set_shape(&r.settings, tpp_model_preset("llama3.1-8b"));
    tpp_megatron_find_violations(&r.arguments, &r.settings.rules, TPP_RELEASE_NEWEST, 1, &r.problems);
    const struct tpp_problem *problem = find_problem(&r, "ML-1"); /* 8 GPUs are no multiple of 3 */
    assert_non_null(problem);
    assert_int_equal(problem->line, 2);
    problem = find_problem(&r, "unknown-option");
    assert_non_null(problem);
    assert_int_equal(problem->line, 3);
    assert_string_equal(problem->hint, "did you mean model.pipeline_model_parallel_size?");
    problem = find_problem(&r, "bad-value");
    assert_non_null(problem);
    assert_int_equal(problem->line, 4);
    assert_true(r.settings.is_incomplete);
    release_reading(&r);
}

/* mixed_precision.setup overwrites ddp.grad_reduce_in_fp32; the object is what its bf16_mixed() returns, but for one
 * field. */
static void test_types_of_gradients_and_moments(void **state)
{
    struct reading r;
    (void)state;
    read_script(&r, "torchrun run_recipe.py --model llama31_8b --mode pretrain mixed_precision=bf16_mixed \\\n"
                    " ddp.grad_reduce_in_fp32=false optimizer.exp_avg_dtype=torch.bfloat16 \\\n"
                    " optimizer.exp_avg_sq_dtype=torch.float32 optimizer.use_precision_aware_optimizer=true");
    assert_true(r.settings.gradients_in_fp32 && !r.settings.gradients_in_bf16);
    assert_true(r.settings.rules.narrow_state && r.settings.rules.precision_aware_optimizer);
    const struct tpp_problem *dead = find_problem(&r, "dead-setting");
    assert_non_null(dead);
    assert_int_equal(dead->line, 2);
    assert_non_null(strstr(dead->message, "reduced in fp32"));
    release_reading(&r);
    read_script(&r, "torchrun run_recipe.py --model llama31_8b --mode pretrain mixed_precision=bf16_mixed \\\n"
                    " ddp.grad_reduce_in_fp32=false '++mixed_precision={_target_: "
                    "megatron.bridge.training.mixed_precision.MixedPrecisionConfig, bf16: true, fp8: hybrid, "
                    "fp8_recipe: blockwise, grad_reduce_in_fp32: false}'");
    assert_true(r.settings.gradients_in_bf16 && !r.settings.gradients_in_fp32);
    assert_true(r.settings.rules.bf16 && r.settings.rules.fp8 == TPP_RULE_FP8_HYBRID);
    assert_int_equal(r.settings.rules.fp8_recipe, TPP_RULE_FP8_BLOCKWISE);
    assert_false(r.settings.rules.narrow_state);
    assert_null(find_problem(&r, "dead-setting"));
    release_reading(&r);
    read_script(&r, "torchrun run_recipe.py --recipe llama3_8b_pretrain_2gpu_h100_fp8cs_config \\\n"
                    " mixed_precision.grad_reduce_in_fp32=false");
    assert_true(r.settings.gradients_in_bf16);
    release_reading(&r);
}

#define START "torchrun --nproc_per_node=8 run_recipe.py --model llama31_8b --mode pretrain "

/* Of its mixed_precision.py: the recipe functions, and the defaults of the dataclass. */
static void test_precisions_by_name_and_in_full(void **state)
{
    static const struct {
        const char *value;
        enum tpp_rule_fp8 format;
        enum tpp_rule_fp8_recipe recipe;
        bool keeps_weights;
    } cases[] = {
        {"bf16_with_fp8_delayed_scaling_mixed", TPP_RULE_FP8_HYBRID, TPP_RULE_FP8_DELAYED, true},
        {"bf16-with-fp8-current-scaling-mixed", TPP_RULE_FP8_HYBRID, TPP_RULE_FP8_TENSORWISE, true},
        {"bf16_with_fp8_subchannel_scaling_mixed", TPP_RULE_FP8_HYBRID, TPP_RULE_FP8_BLOCKWISE, false},
        {"bf16_with_mxfp8_mixed", TPP_RULE_FP8_E4M3, TPP_RULE_FP8_MXFP8, true},
        {"nemotron_h_bf16_with_fp8_current_scaling_mixed", TPP_RULE_FP8_HYBRID, TPP_RULE_FP8_TENSORWISE, true},
        {"nanov2_bf16_with_fp8_current_scaling_mixed", TPP_RULE_FP8_HYBRID, TPP_RULE_FP8_BLOCKWISE, true},
        {"'{_target_: a.MixedPrecisionConfig, bf16: true, fp8: hybrid}'", TPP_RULE_FP8_HYBRID, TPP_RULE_FP8_TENSORWISE,
         false},
        {"'{fp8_recipe:delayed,fp8:e4m3,fp8_param:true}'", TPP_RULE_FP8_E4M3, TPP_RULE_FP8_DELAYED, true},
        {"bf16_with_mxfp8_mixed mixed_precision.fp8_param_gather=false", TPP_RULE_FP8_E4M3, TPP_RULE_FP8_MXFP8, false},
        {"bf16_with_fp8_delayed_scaling_mixed mixed_precision.fp8_recipe=blockwise", TPP_RULE_FP8_HYBRID,
         TPP_RULE_FP8_BLOCKWISE, true},
        {"bf16_mixed", TPP_RULE_FP8_NONE, TPP_RULE_FP8_DELAYED, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reading r;
        char text[512];
        snprintf(text, sizeof text, START "mixed_precision=%s", cases[i].value);
        read_script(&r, text);
        assert_int_equal(r.settings.rules.fp8, cases[i].format);
        if (cases[i].format != TPP_RULE_FP8_NONE)
            assert_int_equal(r.settings.rules.fp8_recipe, cases[i].recipe);
        assert_int_equal(r.settings.rules.fp8_param_gather, cases[i].keeps_weights);
        assert_true(r.settings.rules.bf16 && !r.settings.rules.fp16);
        release_reading(&r);
    }
}

/* TransformerConfig.__post_init__: the chunks may be said beside a layout, when they are its own. */
static void test_a_layout_and_its_chunks(void **state)
{
    static const char *const chunks[] = {"2", "null", "3"};
    (void)state;
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        struct reading r;
        char text[512];
        snprintf(text, sizeof text,
                 START "-pp 2 'model.pipeline_model_parallel_layout=\"Et*8|(t*9|)*2t*6L\"' "
                       "model.virtual_pipeline_model_parallel_size=%s",
                 chunks[i]);
        read_script(&r, text);
        assert_string_equal(r.settings.rules.pipeline_layout, "Et*8|(t*9|)*2t*6L");
        r.settings.rules.world_size = 8;
        tpp_swift_set_shape(&r.settings, tpp_model_preset("llama3.1-8b"));
        tpp_megatron_find_violations(&r.arguments, &r.settings.rules, TPP_RELEASE_NEWEST, 1, &r.problems);
        assert_int_equal(find_problem(&r, "ML-22") != NULL, i == 2); /* the layout has 4 chunks on 2 ranks */
        release_reading(&r);
    }
}

static void test_capacity_graphs_and_fsdp(void **state)
{
    struct reading r;
    (void)state;
    read_script(&r, "torchrun run_recipe.py --model qwen3_30b_a3b --mode pretrain model.moe_expert_capacity_factor=1.1 "
                    "model.moe_pad_expert_input_to_capacity=true model.cuda_graph_scope=[moe_router,moe_preprocess] "
                    "model.cuda_graph_impl=transformer_engine ddp.use_megatron_fsdp=true "
                    "ddp.data_parallel_sharding_strategy=optim_grads_params checkpoint.ckpt_format=fsdp_dtensor");
    assert_true(r.settings.rules.has_capacity_factor && r.settings.rules.pad_to_capacity);
    assert_int_equal(r.settings.rules.cuda_graph, TPP_RULE_GRAPH_TE);
    assert_int_equal(r.settings.graph_parts, TPP_GRAPH_ROUTER);
    assert_true(r.settings.rules.megatron_fsdp);
    assert_int_equal(r.settings.sharding, TPP_MEGATRON_SHARD_PARAMETERS);
    assert_int_equal(r.settings.rules.checkpoint_format, TPP_RULE_FSDP_DTENSOR);
    release_reading(&r);
    read_script(&r, START "model.cuda_graph_scope=[full_iteration] model.cuda_graph_impl=local");
    assert_int_equal(r.settings.rules.cuda_graph, TPP_RULE_GRAPH_FULL_ITERATION);
    release_reading(&r);
    /* Of megatron.bridge.recipes.qwen.h100.qwen3_moe, which recomputes. */
    read_script(&r, "torchrun run_recipe.py --recipe qwen3_30b_a3b_pretrain_8gpu_h100_bf16_config \\\n"
                    "  model.recompute_granularity=null model.recompute_method=null model.recompute_num_layers=null");
    assert_int_equal(r.settings.rules.recompute, TPP_RULE_GRANULARITY_NONE);
    assert_int_equal(r.settings.rules.recompute_method, TPP_RULE_METHOD_NONE);
    release_reading(&r);
}

/* Two notes of the shell reader that are not each other. */
static void test_an_expansion_that_is_not_followed_is_not_set_by_the_script(void **state)
{
    struct reading r;
    bool is_found = false;
    (void)state;
    read_script(&r, START "train.micro_batch_size=${A@Q}");
    for (size_t i = 0; i < r.problems.count; i++)
        is_found = is_found || strstr(r.problems.items[i].message, "it cannot be followed") != NULL;
    assert_true(is_found);
    release_reading(&r);
}

/* --deterministic of its performance scripts, the recipes that carry it in their name, model.deterministic_mode by itself. */
static void test_determinism_by_option_name_and_key(void **state)
{
    static const char *const scripts[] = {
        START "--deterministic", START "model.deterministic_mode=true",
        "torchrun run_recipe.py --recipe llama3_70b_pretrain_32gpu_h100_bf16_deterministic_config"};
    struct reading r;
    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        read_script(&r, scripts[i]);
        assert_true(r.settings.deterministic);
        release_reading(&r);
    }
    read_script(&r, START "model.deterministic_mode=false");
    assert_false(r.settings.deterministic);
    release_reading(&r);
}

/* Field case C22: 151669 = 13 * 11667 - 2 has no factor 4; up to a multiple of 4 * 128 it is 297 * 512 = 152064, up to
 * one of 4 (its own divisor is 1, being odd) 151672. GPTModelProvider.provide pads where should_pad_vocab is true. */
static void test_the_vocabulary_is_padded_where_it_is_asked_for(void **state)
{
    static const struct {
        const char *words;
        const char *code;
        enum tpp_severity severity;
        const char *text;
        uint32_t multiple;
    } cases[] = {
        {"", "vocabulary-parts", TPP_SEVERITY_WARNING, "does not divide over tp = 4", 128},
        {"model.should_pad_vocab=false", "vocabulary-parts", TPP_SEVERITY_ERROR, "is not padded", 1},
        {"model.should_pad_vocab=true model.make_vocab_size_divisible_by=128", "padded-vocabulary", TPP_SEVERITY_INFO,
         "from 151669 to 152064", 128},
        {"model.should_pad_vocab=true", "odd-vocabulary", TPP_SEVERITY_WARNING, "from 151669 to 151672", 1},
    };
    struct tpp_model model = *tpp_model_preset("qwen3-4b");
    struct tpp_hardware hardware;
    (void)state;
    assert_int_equal(tpp_hardware_find("dgx-h100", &hardware, NULL), TPP_OK);
    model.vocab_size = 151669;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reading r;
        struct tpp_plan_reading plan;
        char text[512];
        snprintf(text, sizeof text,
                 "torchrun --nproc_per_node=4 run_recipe.py --model qwen3_4b --mode pretrain -tp 4 %s", cases[i].words);
        read_script(&r, text);
        r.settings.rules.world_size = 4;
        tpp_swift_set_shape(&r.settings, &model);
        assert_int_equal(tpp_plan_from_megatron(&r.settings, &r.arguments, TPP_RELEASE_NEWEST, &hardware, &model, "m",
                                                &plan, &r.problems, NULL),
                         TPP_OK);
        const struct tpp_problem *problem = find_problem(&r, cases[i].code);
        assert_non_null(problem);
        assert_int_equal(problem->severity, cases[i].severity);
        assert_non_null(strstr(problem->message, cases[i].text));
        if (strcmp(cases[i].code, "vocabulary-parts") == 0)
            assert_non_null(strstr(problem->hint, "152064"));
        assert_int_equal(plan.stack.vocabulary_multiple, cases[i].multiple);
        release_reading(&r);
    }
}

static void test_overrides_of_the_shape(void **state)
{
    struct reading r;
    struct tpp_model model;
    (void)state;
    read_script(&r, "torchrun run_recipe.py --model deepseek_v3 --mode pretrain \\\n model.num_layers=8");
    tpp_bridge_reshape(&r.arguments, tpp_model_preset("deepseek-v3"), &model, &r.problems);
    assert_int_equal(model.num_layers, 8);
    assert_int_equal(model.first_k_dense, 3);
    assert_null(find_problem(&r, "other-shape"));
    tpp_bridge_reshape(&r.arguments, tpp_model_preset("gpt-oss-20b"), &model,
                       &r.problems); /* every second has a window */
    assert_int_equal(model.num_layers, 24);
    assert_int_equal(find_problem(&r, "other-shape")->line, 2);
    release_reading(&r);
    read_script(&r, "torchrun run_recipe.py --model llama31_8b --mode pretrain model.hidden_size=1024");
    tpp_bridge_reshape(&r.arguments, tpp_model_preset("llama3.1-8b"), &model, &r.problems);
    assert_int_equal(model.hidden_size, 4096);
    assert_non_null(strstr(find_problem(&r, "other-shape")->message, "hidden size"));
    release_reading(&r);
    read_script(&r, "torchrun run_recipe.py --model deepseek_v3 --mode pretrain model.num_layers=3");
    tpp_bridge_reshape(&r.arguments, tpp_model_preset("deepseek-v3"), &model, &r.problems);
    assert_int_equal(model.num_layers, 61); /* three dense layers and none with experts: another model */
    assert_non_null(find_problem(&r, "other-shape"));
    release_reading(&r);
}

/* ModelParallelConfig: sizes are int, virtual stages Optional[int]. */
static void test_a_size_cannot_be_null(void **state)
{
    struct reading r;
    (void)state;
    read_script(&r, "torchrun run_recipe.py --model llama31_8b --mode pretrain model.tensor_model_parallel_size=null");
    assert_non_null(find_problem(&r, "bad-value"));
    assert_true(r.settings.is_incomplete);
    assert_int_equal(r.settings.rules.tensor_parallel, 1);
    release_reading(&r);
}

/* Of megatron.bridge.recipes.llama.h100.llama3 and qwen.h100.qwen3_moe. */
static void test_a_known_recipe_sets_its_sizes(void **state)
{
    struct reading r;
    const struct tpp_rule_settings *rules = &r.settings.rules;
    (void)state;
    read_script(&r, "torchrun --nproc_per_node=8 --nnodes=4 run_recipe.py \\\n"
                    "  --recipe llama3_70b_pretrain_32gpu_h100_bf16_config train.global_batch_size=64");
    assert_int_equal(rules->tensor_parallel, 4);
    assert_int_equal(rules->pipeline_parallel, 4);
    assert_int_equal(rules->virtual_stages_per_rank, 5);
    assert_int_equal(rules->context_parallel, 2);
    assert_true(rules->sequence_parallel && rules->overlap_grad_reduce && rules->tp_comm_overlap);
    assert_int_equal(rules->micro_batch_size, 1);
    assert_int_equal(rules->global_batch_size, 64); /* the recipe's 512, overridden */
    assert_int_equal(rules->sequence_length, 8192);
    assert_null(find_problem(&r, "recipe-default"));
    release_reading(&r);
    read_script(&r, "torchrun --nproc_per_node=8 run_recipe.py --recipe qwen3_30b_a3b_pretrain_8gpu_h100_bf16_config");
    assert_int_equal(rules->expert_parallel, 4);
    assert_int_equal(rules->expert_tensor_parallel, 1);
    assert_int_equal(rules->recompute, TPP_RULE_GRANULARITY_FULL);
    assert_int_equal(rules->micro_batch_size, 2); /* recipes/common.py */
    release_reading(&r);
    static const char *const counting[] = {"llama31_405b_pretrain_256gpu_h100_bf16_config",
                                           "qwen3_235b_a22b_pretrain_256gpu_h100_bf16_config"};
    for (size_t i = 0; i < sizeof counting / sizeof *counting; i++) { /* 126 and 94 layers in 8 * 2 and 16 chunks */
        char text[256];
        snprintf(text, sizeof text, "torchrun --nproc_per_node=8 --nnodes=32 run_recipe.py --recipe %s", counting[i]);
        read_script(&r, text);
        r.settings.rules.world_size = 256;
        tpp_swift_set_shape(&r.settings, tpp_bridge_model(tpp_bridge_recipe(&r.arguments)));
        tpp_megatron_find_violations(&r.arguments, rules, TPP_RELEASE_NEWEST, 1, &r.problems);
        assert_false(tpp_problems_have(&r.problems, TPP_SEVERITY_ERROR));
        release_reading(&r);
    }
    read_script(&r, "torchrun run_recipe.py --recipe llama3_8b_pretrain_2gpu_h100_nvfp4_config");
    assert_non_null(find_problem(&r, "not-modelled"));
    release_reading(&r);
    read_script(&r, "torchrun run_recipe.py --recipe llama3_8b_pretrain_2gpu_h100_bf16_confi");
    assert_non_null(find_problem(&r, "recipe-default"));
    release_reading(&r);
}

static void test_recipes_are_sorted(void **state)
{
    static const char *const names[] = {
#define ROW(name, ...) name,
#include "planner/launch/bridge_recipe_sizes.inc"
#undef ROW
    };
    (void)state;
    for (size_t i = 1; i < sizeof names / sizeof *names; i++)
        assert_true(strcmp(names[i - 1], names[i]) < 0);
}

static void test_every_recipe_is_of_a_shipped_model(void **state)
{
    static const char *const models[] = {"llama2-7b", "llama3.1-405b", "qwen3-30b-a3b", "deepseek-v3", "gpt3-175b"};
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const struct tpp_model *model = tpp_model_preset(models[i]);
        assert_non_null(model);
        assert_non_null(tpp_bridge_recipe_of(model, TPP_TASK_PRETRAIN));
    }
    assert_null(
        tpp_bridge_recipe_of(tpp_model_preset("llama2-7b"), TPP_TASK_LORA)); /* has a recipe to pre-train alone */
    assert_string_equal(tpp_bridge_recipe_of(tpp_model_preset("qwen3-30b-a3b"), TPP_TASK_LORA), "qwen3_30b_a3b");
    struct tpp_model other = *tpp_model_preset("llama3.1-8b"); /* the name alone does not make it that model */
    other.num_layers++;
    assert_null(tpp_bridge_recipe_of(&other, TPP_TASK_PRETRAIN));
}

/* Field case C07: 40 layers on 2 stages do not make 12 chunks, whatever else the recipe's model is. */
static void test_the_layers_of_an_unknown_recipe_are_asked(void **state)
{
    struct reading r;
    (void)state;
    read_script(&r, "torchrun --nnodes=2 --nproc_per_node=8 run_recipe.py --recipe qwen35_vl_35b_a3b_sft_config "
                    "model.num_layers=40 model.pipeline_model_parallel_size=2 "
                    "model.virtual_pipeline_model_parallel_size=12");
    assert_null(tpp_bridge_model(tpp_bridge_recipe(&r.arguments)));
    r.settings.rules.world_size = 16;
    tpp_swift_set_shape(&r.settings, NULL);
    tpp_megatron_find_violations(&r.arguments, &r.settings.rules, TPP_RELEASE_NEWEST, 1, &r.problems);
    assert_non_null(find_problem(&r, "ML-12"));
    release_reading(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_override_wins_over_an_option),
        cmocka_unit_test(test_values_in_the_grammar_of_hydra),
        cmocka_unit_test(test_broken_rules_and_keys_at_their_lines),
        cmocka_unit_test(test_types_of_gradients_and_moments),
        cmocka_unit_test(test_precisions_by_name_and_in_full),
        cmocka_unit_test(test_an_expansion_that_is_not_followed_is_not_set_by_the_script),
        cmocka_unit_test(test_determinism_by_option_name_and_key),
        cmocka_unit_test(test_a_layout_and_its_chunks),
        cmocka_unit_test(test_capacity_graphs_and_fsdp),
        cmocka_unit_test(test_the_vocabulary_is_padded_where_it_is_asked_for),
        cmocka_unit_test(test_overrides_of_the_shape),
        cmocka_unit_test(test_a_size_cannot_be_null),
        cmocka_unit_test(test_a_known_recipe_sets_its_sizes),
        cmocka_unit_test(test_the_layers_of_an_unknown_recipe_are_asked),
        cmocka_unit_test(test_recipes_are_sorted),
        cmocka_unit_test(test_every_recipe_is_of_a_shipped_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
