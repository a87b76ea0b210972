/* property_launch.c - random plans in random releases: either an error with a reason, or a script that bash runs and
 * whose options exist in the release, break no rule and say the same plan when they are read back. */
#include "planner/launch/launch_line.h"
#include "planner/launch/options.h"
#include "planner/launch/plan_reading.h"
#include "planner/rules/layout.h"
#include "planner/rules/rules.h"
#include "tests/support/argument_line.h"
#include "tests/support/launch_case.h"
#include "tests/support/random.h"
#include "tests/support/script_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define NUM_CASES 1800
#define MIN_WRITTEN 150

static uint32_t pick(struct tpp_random *random, const uint32_t *values, size_t count)
{
    return values[tpp_random_range(random, 0, count - 1)];
}
#define PICK(...)                                                                                                      \
    pick(random, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static bool flip(struct tpp_random *random)
{
    return tpp_random_next(random) >> 63;
}

static void random_model(struct tpp_random *random, struct tpp_model *model)
{
    model->num_layers = PICK(24, 30, 31, 32, 48, 80);
    model->num_query_groups = PICK(1, 4, 8, 32);
    model->tied_embeddings = flip(random);
    model->qkv_bias = flip(random);
    model->gated_mlp = PICK(0, 1, 1) == 1;
    model->activation = model->gated_mlp ? TPP_ACTIVATION_SILU : TPP_ACTIVATION_SQUARED_RELU;
    if (PICK(0, 0, 0, 1) == 0)
        return;
    model->num_experts = PICK(8, 16, 60);
    model->experts_per_token = PICK(1, 2, 4);
    model->moe_ffn_hidden_size = PICK(1792, 14336);
    model->shared_expert_hidden_size = PICK(0, 2816);
    model->moe_layer_period = PICK(1, 2);
    model->first_k_dense = PICK(0, 0, 1, 3);
}

static void random_strategy(struct tpp_random *random, struct launch_case *c)
{
    struct tpp_strategy *s = &c->strategy;
    s->tensor_parallel = PICK(1, 2, 4, 8);
    s->pipeline_parallel = PICK(1, 2, 4, 8);
    s->virtual_pipeline_stages = PICK(1, 1, 2, 4, 5);
    if (s->virtual_pipeline_stages > 1)
        s->microbatch_group_size = PICK(0, 0, s->pipeline_parallel, 2 * s->pipeline_parallel, s->pipeline_parallel + 1);
    s->context_parallel = PICK(1, 1, 2, 4);
    s->context_kind = (enum tpp_context_kind)PICK(0, 1, 2, 3);
    s->ulysses_parallel = s->context_kind == TPP_CONTEXT_HYBRID && s->context_parallel == 4 ? 2 : 0;
    s->sequence_parallel = s->tensor_parallel > 1;
    s->micro_batch_size = PICK(1, 2, 4);
    s->zero_stage = PICK(0, 1, 1, 1);
    s->recompute = (enum tpp_recompute)PICK(0, 1, 2);
    s->recompute_method = (enum tpp_recompute_method)PICK(0, 1);
    s->recompute_num_layers = PICK(0, 2, 4);
    s->overlap_grad_reduce = flip(random);
    s->overlap_param_gather = s->overlap_grad_reduce;
    s->align_grad_reduce = flip(random);
    s->offload = (enum tpp_offload)PICK(0, 0, 0, 1);
    s->reduce_bucket_size = PICK(0, 0, 200000000);
    s->first_stage_layers = PICK(0, 0, 0, 3, 6);
    s->account_for_embedding = PICK(0, 0, 0, 1) == 1;
    s->account_for_loss = s->account_for_embedding;
    s->expert_tensor_parallel = PICK(1, 1, s->tensor_parallel);
    if (c->model.num_experts > 0)
        s->expert_parallel = PICK(1, 2, 4, 8);
    s->data_parallel = 0;
    s->num_micro_batches = 0;
    s->schedule = TPP_SCHEDULE_1F1B;
}

/* Rarer words, from 0.8 on; most releases lack some of them. */
static void random_extras(struct tpp_random *random, struct launch_case *c)
{
    struct tpp_strategy *s = &c->strategy;
    const bool exchanges = c->model.num_experts > 0 && s->expert_parallel * s->expert_tensor_parallel > 1;
    if (s->recompute == TPP_RECOMPUTE_SELECTIVE && flip(random))
        s->recompute_modules = PICK(TPP_MODULE_CORE_ATTENTION, TPP_MODULE_LAYER_NORM, TPP_MODULE_MLP,
                                    TPP_MODULE_CORE_ATTENTION | TPP_MODULE_MOE, TPP_MODULE_EXPERT_ACTIVATION);
    s->tp_comm_overlap = s->tensor_parallel > 1 && PICK(0, 0, 1) == 1;
    s->dispatch = exchanges ? (enum tpp_dispatch)PICK(0, 0, 0, 1, 2) : TPP_DISPATCH_ALL_TO_ALL;
    s->expert_overlap = exchanges && PICK(0, 0, 1) == 1;
    s->shared_overlap = c->model.shared_expert_hidden_size > 0 && s->expert_parallel > 1 && flip(random);
    if (s->offload == TPP_OFFLOAD_OPTIMIZER)
        s->offload_percent = PICK(0, 0, 25);
    if (s->pipeline_parallel == 1 && s->recompute == TPP_RECOMPUTE_NONE)
        s->offload_layers = PICK(0, 0, 7);
    s->last_stage_layers = s->first_stage_layers > 0 ? PICK(0, s->first_stage_layers) : PICK(0, 0, 0, 0, 3, 7);
    s->last_chunk_less = s->pipeline_parallel > 1 ? PICK(0, 0, 0, 0, 1) : 0;
    s->shard_group = s->zero_stage > 0 ? PICK(0, 0, 0, 0, 8) : 0;
}

/* FP8 by recipe, experts of a fixed capacity, CUDA graphs; the stack has the types of the job. */
static void random_software(struct tpp_random *random, struct launch_case *c)
{
    static const double factors[] = {0, 1, 1.5};
    struct tpp_stack *stack = &c->stack;
    if (c->model.num_experts > 0)
        c->job.expert_capacity_factor = factors[PICK(0, 0, 1, 2)];
    stack->current_scaling = c->job.precision == TPP_PRECISION_FP8 && PICK(0, 0, 1) == 1;
    tpp_stack_set_fp8_weights(stack, &c->job, PICK(0, 1) == 1);
    if (c->request.release >= TPP_RELEASE_0_15 && PICK(0, 0, 0, 1) == 1)
        tpp_stack_set_cuda_graphs(stack, PICK(0, 0, TPP_GRAPH_ATTENTION),
                                  c->model.num_experts > 0 && !(c->job.expert_capacity_factor > 0));
    if (c->strategy.last_chunk_less > 0)
        c->strategy.account_for_loss = false;
    if (c->request.release >= TPP_RELEASE_0_14 && c->model.num_experts == 0)
        c->job.mtp_num_layers = PICK(0, 0, 0, 1);
}

/* PyTorch's FSDP2 instead of the distributed optimizer. */
static void make_sharded(struct tpp_random *random, struct launch_case *c)
{
    struct tpp_strategy *s = &c->strategy;
    s->pipeline_parallel = s->virtual_pipeline_stages = s->expert_parallel = 1;
    s->microbatch_group_size = s->first_stage_layers = s->last_stage_layers = s->last_chunk_less = 0;
    s->account_for_embedding = s->account_for_loss = false;
    s->zero_stage = 3;
    s->reshard_after_forward = flip(random);
    s->overlap_grad_reduce = s->overlap_param_gather = s->align_grad_reduce = true;
    s->offload = TPP_OFFLOAD_NONE;
    s->offload_percent = 0;
    s->shard_group = 0;
    s->reduce_bucket_size = 0;
    s->expert_overlap = s->shared_overlap = false;
    c->model.tied_embeddings = false;
    c->job.optimizer = TPP_OPTIMIZER_ADAMW;
    c->job.gradient_type = TPP_GRADIENT_DEFAULT;
    c->job.precision = (enum tpp_precision)PICK(0, 0, 3, 4, 5);
    c->stack.engine = TPP_ENGINE_FSDP2;
    tpp_stack_set_dtypes(&c->stack, &c->job);
}

/* What the releases before 0.8 have, and before 0.4 too. */
static void make_old(struct launch_case *c)
{
    c->model.rope_theta = 10000;
    c->stack.loss_kernel = TPP_LOSS_UNFUSED;
    c->strategy.first_stage_layers = 0;
    c->strategy.account_for_embedding = c->strategy.account_for_loss = false;
    c->strategy.offload = TPP_OFFLOAD_NONE;
    c->strategy.reduce_bucket_size = 0;
    if (c->model.num_experts > 0) {
        c->model.experts_per_token = 2;
        c->model.moe_layer_period = 1;
        c->model.first_k_dense = 0;
        c->strategy.expert_tensor_parallel = c->strategy.tensor_parallel;
    }
    if (c->request.release >= TPP_RELEASE_0_4)
        return;
    c->model.num_experts = c->model.experts_per_token = c->model.moe_ffn_hidden_size = c->model.shared_expert_hidden_size = 0;
    c->model.moe_layer_period = c->model.first_k_dense = 0;
    c->strategy.expert_parallel = c->strategy.expert_tensor_parallel = 1;
    c->model.num_query_groups = c->model.num_attention_heads;
    c->model.norm = TPP_NORM_LAYER;
    c->model.qkv_bias = false;
    c->strategy.context_parallel = 1;
    c->strategy.context_kind = TPP_CONTEXT_RING;
    c->strategy.ulysses_parallel = 0;
    c->strategy.overlap_grad_reduce = c->strategy.overlap_param_gather = false;
    c->stack.overlap_p2p = c->stack.overlap_p2p && c->request.release >= TPP_RELEASE_23_06;
}

static void random_case(struct tpp_random *random, struct launch_case *c)
{
    launch_case_init(c);
    random_model(random, &c->model);
    random_strategy(random, c);
    c->job.precision = (enum tpp_precision)PICK(0, 0, 0, 1, 3, 4, 5);
    c->stack.attention = (enum tpp_attention_kernel)PICK(1, 2, 3);
    c->stack.loss_kernel = (enum tpp_loss_kernel)PICK(0, 1);
    if (PICK(0, 0, 0, 1) == 1)
        tpp_stack_set_deterministic(&c->stack, &c->hardware.gpu);
    c->hardware.gpu.compute_capability = PICK(8, 9, 10);
    c->hardware.gpu.has_bf16 = true;
    c->hardware.gpu.fp8_flops_per_second = 2e15;
    for (int i = 0; i < TPP_FLASH_KERNEL_COUNT; i++)
        c->hardware.gpu.flash_forward_fraction[i] = 0.5;
    c->request.slurm = flip(random);
    c->request.release = (enum tpp_release)tpp_random_range(random, TPP_RELEASE_23_04, TPP_RELEASE_MAIN);
    if (c->request.release >= TPP_RELEASE_0_11) {
        c->job.optimizer = (enum tpp_optimizer)PICK(0, 0, 0, 1);
        c->job.gradient_type = (enum tpp_gradient_type)PICK(0, 0, 0, c->job.precision == TPP_PRECISION_FP16 ? 1 : 2);
    }
    tpp_stack_set_dtypes(&c->stack, &c->job);
    if (c->request.release < TPP_RELEASE_0_8 && PICK(0, 1, 1, 1) == 1)
        make_old(c);
    else if (c->request.release >= TPP_RELEASE_0_8 && flip(random))
        random_extras(random, c);
    if (c->request.release >= TPP_RELEASE_0_10 && PICK(0, 0, 0, 0, 1) == 1)
        make_sharded(random, c);
    else if (c->request.release >= TPP_RELEASE_0_9)
        random_software(random, c);
}

static void check_options_exist(const struct script_run *run, enum tpp_release release, size_t first)
{
    for (size_t i = first; i < run->num_words; i++) {
        if (strncmp(run->words[i], "--", 2) != 0)
            continue;
        const struct tpp_launch_option *option = tpp_launch_option_find(run->words[i]);
        if (option == NULL || !tpp_launch_option_in(option, release))
            fail_msg("%s does not exist in %s", run->words[i], tpp_release_name(release));
    }
}

/* The settings that the written options mean. */
static void read_back(const struct launch_case *c, const struct script_run *run, size_t first,
                      struct tpp_rule_settings *settings, char *line, size_t size)
{
    char reason[160];
    size_t used = 0;
    for (size_t i = first; i < run->num_words; i++) {
        int count = snprintf(line + used, size - used, "%s ", run->words[i]);
        assert_true(count > 0 && (size_t)count < size - used);
        used += (size_t)count;
    }
    *settings = tpp_rule_settings_defaults(TPP_FRAMEWORK_MEGATRON_LM);
    settings->world_size = c->job.num_gpus;
    settings->compute_capability = c->hardware.gpu.compute_capability;
    settings->cuda_device_max_connections = strtoll(script_run_variable(run, "CUDA_DEVICE_MAX_CONNECTIONS"), NULL, 10);
    if (argument_line_read(line, c->request.release, settings, reason, sizeof reason) != ARGUMENTS_READ)
        fail_msg("refused by the parser: %s", reason);
}

static void check_same_plan(const struct launch_case *c, const struct tpp_rule_settings *s)
{
    const struct tpp_strategy *plan = &c->strategy;
    int64_t stages = plan->pipeline_parallel;
    int64_t slots = (int64_t)c->model.num_layers + plan->account_for_embedding + plan->account_for_loss;
    assert_int_equal(s->tensor_parallel, plan->tensor_parallel);
    assert_int_equal(s->pipeline_parallel, stages);
    assert_int_equal(s->context_parallel, plan->context_parallel);
    assert_int_equal(s->micro_batch_size, plan->micro_batch_size);
    assert_int_equal(s->global_batch_size, c->job.global_batch_size);
    assert_int_equal(s->sequence_parallel, plan->sequence_parallel);
    assert_int_equal(s->torch_fsdp2, c->stack.engine == TPP_ENGINE_FSDP2);
    assert_int_equal(s->distributed_optimizer, plan->zero_stage > 0 && !s->torch_fsdp2);
    assert_int_equal(s->overlap_grad_reduce, plan->overlap_grad_reduce && !s->torch_fsdp2);
    assert_int_equal(s->align_grad_reduce, plan->align_grad_reduce || !plan->overlap_grad_reduce);
    assert_int_equal(s->optimizer_cpu_offload, plan->offload == TPP_OFFLOAD_OPTIMIZER);
    if (s->optimizer_cpu_offload)
        assert_true(s->optimizer_offload_fraction == (plan->offload_percent > 0 ? 0.25 : 1));
    assert_int_equal(s->cpu_offload_layers, plan->offload_layers);
    assert_int_equal(s->recompute, plan->recompute);
    assert_int_equal(s->fp16, c->job.precision == TPP_PRECISION_FP16);
    assert_int_equal(s->num_layers, c->model.num_layers);
    int64_t chunks = s->pipeline_layout != NULL ? tpp_layout_read(s->pipeline_layout).num_stages / stages
                     : s->virtual_stages_per_rank != TPP_RULE_UNSET  ? s->virtual_stages_per_rank
                     : s->layers_per_virtual_stage != TPP_RULE_UNSET ? slots / stages / s->layers_per_virtual_stage
                                                                     : 1;
    assert_int_equal(chunks, plan->virtual_pipeline_stages);
    if (c->model.num_experts > 0) {
        assert_int_equal(s->expert_parallel, plan->expert_parallel);
        assert_int_equal(s->num_experts, c->model.num_experts);
    }
}

/* What the words of a plan leave out or say in another way: without effect on what is run. */
static struct tpp_strategy as_written(const struct launch_case *c)
{
    struct tpp_strategy s = c->strategy;
    if (c->model.num_experts == 0)
        s.expert_tensor_parallel = s.expert_parallel = 1;
    else if (c->request.release < TPP_RELEASE_0_10)
        s.expert_tensor_parallel = s.tensor_parallel;
    if (s.context_parallel == 1 || c->request.release < TPP_RELEASE_0_10)
        s.context_kind = TPP_CONTEXT_RING;
    if (s.context_kind != TPP_CONTEXT_HYBRID)
        s.ulysses_parallel = 0;
    if (s.pipeline_parallel * s.virtual_pipeline_stages == 2 && s.account_for_embedding && s.last_chunk_less > 0) {
        s.account_for_embedding = false; /* two chunks: one is longer than the other */
        s.last_chunk_less--;
    }
    if ((uint64_t)s.shard_group == (uint64_t)s.data_parallel * s.context_parallel)
        s.shard_group = 0; /* one group of all ranks */
    if (s.recompute != TPP_RECOMPUTE_FULL) {
        s.recompute_method = TPP_RECOMPUTE_UNIFORM;
        s.recompute_num_layers = 0;
    } else if (s.recompute_num_layers == 0) { /* all layers, one by one */
        s.recompute_method = TPP_RECOMPUTE_UNIFORM;
        s.recompute_num_layers = 1;
    }
    s.overlap_param_gather = s.overlap_param_gather && s.zero_stage > 0;
    s.align_grad_reduce = s.align_grad_reduce || !s.overlap_grad_reduce;
    if (s.microbatch_group_size == s.pipeline_parallel)
        s.microbatch_group_size = 0; /* the size that groups have by themselves */
    s.reduce_bucket_size = s.overlap_grad_reduce ? s.reduce_bucket_size : 0;
    return s;
}

static void check_same_model(const struct tpp_model *read, const struct tpp_model *model)
{
    struct tpp_model_counts a, b;
    tpp_model_count(read, &a);
    tpp_model_count(model, &b);
    assert_int_equal(a.total, b.total);
    assert_int_equal(a.active, b.active);
    assert_int_equal(a.num_moe_layers, b.num_moe_layers);
    for (uint32_t i = 0; i < model->num_layers; i++)
        assert_int_equal(tpp_model_layer_is_moe(read, i), tpp_model_layer_is_moe(model, i));
    assert_int_equal(read->num_query_groups, model->num_query_groups);
    assert_int_equal(read->head_dim, model->head_dim);
    assert_int_equal(read->position, model->position);
    assert_true(read->rope_theta == model->rope_theta && read->norm_epsilon == model->norm_epsilon);
    assert_int_equal(read->activation, model->activation);
    assert_int_equal(read->vocab_size, model->vocab_size);
}

static void check_same_stack(const struct launch_case *c, const struct tpp_stack *read)
{
    assert_int_equal(read->engine, c->stack.engine);
    assert_int_equal(read->loss_kernel, c->stack.loss_kernel);
    assert_int_equal(read->transformer_engine, c->stack.transformer_engine);
    assert_int_equal(read->vocabulary_multiple, c->stack.vocabulary_multiple);
    assert_int_equal(read->current_scaling, c->stack.current_scaling);
    assert_int_equal(read->fp8_weights, c->stack.fp8_weights);
    assert_int_equal(read->gathered_linear_bytes, c->stack.gathered_linear_bytes);
    assert_int_equal(read->cuda_graphs, c->stack.cuda_graphs);
    assert_int_equal(read->deterministic, c->stack.deterministic);
    assert_int_equal(read->graph_parts, c->stack.graph_parts);
    assert_int_equal(read->gradient_bytes, c->stack.gradient_bytes);
    assert_int_equal(read->reduce_bytes, c->stack.reduce_bytes);
    if (c->strategy.virtual_pipeline_stages > 1)
        assert_int_equal(read->overlap_p2p, c->stack.overlap_p2p);
    if (c->request.release >= TPP_RELEASE_0_11) /* before, one switch stands for both flash kernels */
        assert_int_equal(read->attention, c->stack.attention);
}

static void check_same_strategy(const struct launch_case *c, const struct tpp_strategy *read)
{
    const struct tpp_strategy written = as_written(c);
    struct tpp_text expected, found;
    tpp_text_init(&expected);
    tpp_text_init(&found);
    tpp_strategy_format(&written, &expected);
    tpp_strategy_format(read, &found);
    assert_string_equal(tpp_text_get(&found), tpp_text_get(&expected));
    assert_int_equal(tpp_strategy_compare(read, &written), 0);
    tpp_text_release(&expected);
    tpp_text_release(&found);
}

/* The script through the reader, as `tp-plan check` takes it: the same plan, and no complaint. */
static void check_reads_back(const struct launch_case *c, const char *text)
{
    struct tpp_shell_script *script;
    struct tpp_launch_line line;
    struct tpp_arguments arguments;
    struct tpp_megatron_settings settings;
    struct tpp_problems problems = {0};
    struct tpp_plan_reading read;
    struct tpp_error err = {0};
    enum tpp_framework framework;
    assert_int_equal(tpp_shell_read(text, strlen(text), "plan.sh", NULL, 0, &script, &err), TPP_OK);
    assert_int_equal(tpp_launch_line_find(script, "plan.sh", &line, &err), TPP_OK);
    assert_int_equal(tpp_launch_line_framework(&line, "plan.sh", &framework, &err), TPP_OK);
    assert_int_equal(framework, TPP_FRAMEWORK_MEGATRON_LM);
    assert_int_equal(line.nodes * line.ranks_per_node, c->job.num_gpus);
    assert_int_equal(tpp_megatron_read(line.arguments, script, line.entry, c->request.release, &arguments, &settings,
                                       &problems, &err),
                     TPP_OK);
    settings.rules.world_size = line.nodes * line.ranks_per_node;
    tpp_megatron_find_dead(&arguments, &settings, c->request.release, &problems);
    enum tpp_code code = tpp_plan_from_megatron(&settings, &arguments, c->request.release, &c->hardware, NULL, "plan",
                                                &read, &problems, &err);
    if (code != TPP_OK)
        fail_msg("%s at %s", err.message, err.where);
    for (size_t i = 0; i < problems.count; i++) {
        if (problems.items[i].severity != TPP_SEVERITY_INFO)
            fail_msg("%s: %s", problems.items[i].code, problems.items[i].message);
    }
    check_same_model(&read.model, &c->model);
    check_same_stack(c, &read.stack);
    check_same_strategy(c, &read.strategy);
    assert_int_equal(read.job.sequence_length, c->job.sequence_length);
    assert_int_equal(read.job.global_batch_size, c->job.global_batch_size);
    assert_int_equal(read.job.precision, c->job.precision);
    assert_int_equal(read.job.optimizer, c->job.optimizer);
    assert_int_equal(read.job.gradient_type, c->job.gradient_type);
    assert_int_equal(read.job.mtp_num_layers, c->job.mtp_num_layers);
    assert_true(read.job.expert_capacity_factor == c->job.expert_capacity_factor);
    tpp_problems_release(&problems);
    tpp_arguments_release(&arguments);
    tpp_shell_free(script);
}

static void check_script(const struct launch_case *c, const char *script)
{
    struct script_run run;
    struct tpp_rule_settings settings;
    struct tpp_violation violation;
    char line[16384];
    size_t first = 0;
    script_run(script, launch_environment, &run);
    if (run.status != 0)
        fail_msg("the script ended with %d: %s", run.status, run.complaint);
    while (first < run.num_words && strcmp(run.words[first], "/opt/megatron/pretrain_gpt.py") != 0)
        first++;
    first++;
    assert_true(first < run.num_words);
    check_options_exist(&run, c->request.release, first);
    read_back(c, &run, first, &settings, line, sizeof line);
    if (tpp_rules_violations(&settings, c->request.release, &violation, 1) > 0)
        fail_msg("%s: %s", violation.code, violation.message);
    check_same_plan(c, &settings);
    script_run_release(&run);
}

static bool shortens_the_last_chunk(const struct launch_case *c)
{
    return c->strategy.last_chunk_less > 0;
}

static bool drops_tokens(const struct launch_case *c)
{
    return c->job.expert_capacity_factor > 0;
}

static bool scales_by_itself(const struct launch_case *c)
{
    return c->stack.current_scaling;
}

static bool scales_blocks(const struct launch_case *c)
{
    return c->job.precision == TPP_PRECISION_FP8_BLOCK;
}

static bool scales_32(const struct launch_case *c)
{
    return c->job.precision == TPP_PRECISION_MXFP8;
}

static bool keeps_fp8_weights(const struct launch_case *c)
{
    return c->stack.fp8_weights;
}

static bool captures_graphs(const struct launch_case *c)
{
    return c->stack.cuda_graphs;
}

static bool shards_weights(const struct launch_case *c)
{
    return c->stack.engine == TPP_ENGINE_FSDP2;
}

static bool offloads(const struct launch_case *c)
{
    return c->strategy.offload == TPP_OFFLOAD_OPTIMIZER;
}

static bool dispatches_otherwise(const struct launch_case *c)
{
    return c->strategy.dispatch != TPP_DISPATCH_ALL_TO_ALL;
}

static bool groups_micro_batches(const struct launch_case *c)
{
    return c->strategy.microbatch_group_size > 0;
}

static bool predicts_more_tokens(const struct launch_case *c)
{
    return c->job.mtp_num_layers > 0;
}

static bool sums_in_one_order(const struct launch_case *c)
{
    return c->stack.deterministic;
}

/* Each must be among the plans that were written. */
static const struct {
    const char *name;
    bool (*is_used)(const struct launch_case *c);
} axes[] = {{"a shorter last chunk", shortens_the_last_chunk},
            {"token drop", drops_tokens},
            {"current scaling", scales_by_itself},
            {"block scaling", scales_blocks},
            {"MXFP8", scales_32},
            {"FP8 weights", keeps_fp8_weights},
            {"CUDA graphs", captures_graphs},
            {"FSDP2", shards_weights},
            {"offload", offloads},
            {"other dispatchers", dispatches_otherwise},
            {"groups of micro-batches", groups_micro_batches},
            {"multi-token prediction", predicts_more_tokens},
            {"deterministic sums", sums_in_one_order}};
#define NUM_AXES (sizeof axes / sizeof *axes)

static void test_what_is_written_is_the_plan_and_runs(void **state)
{
    unsigned written = 0, by_release[TPP_RELEASE_COUNT] = {0}, by_axis[NUM_AXES] = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= NUM_CASES; seed++) {
        struct tpp_random random = {seed};
        struct launch_case c;
        struct tpp_text script;
        struct tpp_error err = {0};
        random_case(&random, &c);
        if (tpp_strategy_complete(&c.strategy, &c.job, NULL) != TPP_OK)
            continue;
        tpp_text_init(&script);
        if (tpp_launch_emit(&c.request, &script, &err) == TPP_OK) {
            print_message("# seed %llu\n", (unsigned long long)seed);
            check_script(&c, tpp_text_get(&script));
            check_reads_back(&c, tpp_text_get(&script));
            for (size_t i = 0; i < NUM_AXES; i++)
                by_axis[i] += axes[i].is_used(&c);
            by_release[c.request.release]++;
            written++;
        } else {
            assert_true(err.code == TPP_E_UNSUPPORTED || err.code == TPP_E_STRATEGY || err.code == TPP_E_NOT_BUILT);
            assert_true(err.message[0] != '\0' && err.where[0] != '\0' && err.hint[0] != '\0');
        }
        tpp_text_release(&script);
    }
    print_message("# %u written\n", written);
    assert_true(written >= MIN_WRITTEN);
    for (size_t i = 0; i < NUM_AXES; i++) {
        if (by_axis[i] == 0)
            fail_msg("no plan with %s was written", axes[i].name);
    }
    for (int release = TPP_RELEASE_23_04; release <= TPP_RELEASE_MAIN; release++)
        assert_true(by_release[release] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_written_is_the_plan_and_runs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
