/* property_launch_frameworks.c - random plans for Megatron-DeepSpeed, Megatron-Bridge, ms-swift, Hugging Face's Trainer
 * and accelerate, with names that want to be executed: either an error with a reason, or a script that bash runs into
 * one start of the launcher, and that says the same plan when it is read back. */
#include "costmodel/base/json_read.h"
#include "planner/launch/bridge_arguments.h"
#include "planner/launch/config/accelerate.h"
#include "planner/launch/deepspeed_arguments.h"
#include "planner/launch/launch_line.h"
#include "planner/launch/plan_reading.h"
#include "planner/launch/swift_arguments.h"
#include "planner/launch/trainer_arguments.h"
#include "tests/support/launch_case.h"
#include "tests/support/random.h"
#include "tests/support/script_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define NUM_CASES 600
#define MIN_WRITTEN 60

static const char hostile[] = "a\"b'c$(touch trace)`touch trace`\n#SBATCH --wrap=x\n; touch trace é";

struct reader {
    enum tpp_framework framework;
    enum tpp_engine engine;
    const char *program; /* that is started */
};
static const struct reader readers[] = {
    {TPP_FRAMEWORK_MEGATRON_DEEPSPEED, TPP_ENGINE_DEEPSPEED, "torchrun"},
    {TPP_FRAMEWORK_MEGATRON_DEEPSPEED, TPP_ENGINE_DEEPSPEED_PIPELINE, "torchrun"},
    {TPP_FRAMEWORK_NEMO, TPP_ENGINE_MEGATRON, "torchrun"},
    {TPP_FRAMEWORK_NEMO, TPP_ENGINE_FSDP2, "torchrun"},
    {TPP_FRAMEWORK_MS_SWIFT, TPP_ENGINE_MEGATRON, "megatron"},
    {TPP_FRAMEWORK_MS_SWIFT, TPP_ENGINE_FSDP2, "megatron"},
    {TPP_FRAMEWORK_MS_SWIFT, TPP_ENGINE_DEEPSPEED, "swift"},
    {TPP_FRAMEWORK_HF_TRAINER, TPP_ENGINE_DEEPSPEED, "torchrun"},
    {TPP_FRAMEWORK_HF_TRAINER, TPP_ENGINE_FSDP1, "accelerate"},
    {TPP_FRAMEWORK_HF_TRAINER, TPP_ENGINE_FSDP2, "accelerate"},
};

static uint32_t pick(struct tpp_random *random, const uint32_t *values, size_t count)
{
    return values[tpp_random_range(random, 0, count - 1)];
}
#define PICK(...)                                                                                                      \
    pick(random, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

/* Megatron's own layers and options, with its optimizer or its FSDP. */
static bool is_core(const struct reader *reader)
{
    return reader->framework == TPP_FRAMEWORK_NEMO || *reader->program == 'm';
}

static bool has_plain_layers(const struct reader *reader)
{
    return reader->framework == TPP_FRAMEWORK_HF_TRAINER || *reader->program == 's';
}

static void random_model(struct tpp_random *random, const struct reader *reader, struct tpp_model *model)
{
    model->num_layers = PICK(24, 30, 32, 48);
    model->num_query_groups = PICK(4, 8, 32);
    model->tied_embeddings = PICK(0, 1) == 1;
    if (PICK(0, 0, 0, 1) == 0 || has_plain_layers(reader))
        return;
    model->num_experts = PICK(8, 16);
    model->experts_per_token = PICK(1, 2);
    model->shared_expert_hidden_size = PICK(0, 2816);
    model->moe_layer_period = PICK(1, 2);
    model->moe_ffn_hidden_size = model->ffn_hidden_size;
    if (model->moe_layer_period == 1)
        model->ffn_hidden_size = 0;
}

static void random_strategy(struct tpp_random *random, const struct reader *reader, struct launch_case *c)
{
    struct tpp_strategy *s = &c->strategy;
    const bool is_plain = has_plain_layers(reader), is_megatron = is_core(reader);
    *s = tpp_strategy_defaults();
    s->tensor_parallel = is_plain ? 1 : PICK(1, 2, 4, 8);
    s->pipeline_parallel = is_plain ? 1 : PICK(1, 1, 2, 4);
    s->virtual_pipeline_stages = is_megatron && s->pipeline_parallel > 1 ? PICK(1, 1, 2) : 1;
    if (s->virtual_pipeline_stages > 1)
        s->microbatch_group_size = PICK(0, 0, 0, 0, 0, 2 * s->pipeline_parallel);
    s->context_parallel = PICK(1, 1, 1, 2, 4);
    s->context_kind = is_megatron ? (enum tpp_context_kind)PICK(0, 1, 2) : TPP_CONTEXT_ULYSSES;
    if (reader->framework == TPP_FRAMEWORK_NEMO && s->context_parallel == 4 && PICK(0, 1) == 1) {
        s->context_kind = TPP_CONTEXT_HYBRID;
        s->ulysses_parallel = 2;
    }
    s->sequence_parallel = s->tensor_parallel > 1;
    s->micro_batch_size = PICK(1, 2, 4);
    s->zero_stage = is_megatron ? PICK(0, 1) : s->pipeline_parallel > 1 ? PICK(0, 1) : PICK(0, 1, 2, 3);
    s->recompute = (enum tpp_recompute)PICK(0, 1, 2);
    s->recompute_method = is_plain ? TPP_RECOMPUTE_UNIFORM : (enum tpp_recompute_method)PICK(0, 1);
    s->recompute_num_layers = is_plain ? 0 : PICK(0, 2, 4);
    s->overlap_grad_reduce = s->overlap_param_gather = s->zero_stage > 0 && PICK(0, 1, 1) == 1;
    s->align_grad_reduce = !is_megatron || !s->overlap_grad_reduce || PICK(0, 1) == 1;
    s->offload = s->zero_stage > 0 ? (enum tpp_offload)PICK(0, 0, 0, 1) : TPP_OFFLOAD_NONE;
    if (s->offload == TPP_OFFLOAD_OPTIMIZER)
        s->offload_percent = PICK(0, 0, 0, 40);
    if (s->pipeline_parallel == 1 && s->recompute == TPP_RECOMPUTE_NONE)
        s->offload_layers = PICK(0, 0, 0, 7);
    if (!is_megatron) {
        s->reduce_bucket_size = s->zero_stage > 0 ? PICK(0, 200000000) : 0;
        s->allgather_bucket_size = s->zero_stage > 0 ? PICK(0, 50000000) : 0;
    }
    if (c->model.num_experts > 0) {
        s->expert_parallel = PICK(1, 2, 4);
        s->expert_tensor_parallel = PICK(1, s->tensor_parallel);
        if (reader->framework == TPP_FRAMEWORK_NEMO)
            s->dispatch = (enum tpp_dispatch)PICK(0, 0, 1, 2);
    }
    if (tpp_engine_is_fsdp(reader->engine) && is_megatron) {
        s->zero_stage = 3;
        s->overlap_grad_reduce = s->overlap_param_gather = true;
        s->align_grad_reduce = PICK(0, 1) == 1;
    } else if (tpp_engine_is_fsdp(reader->engine)) {
        s->tensor_parallel = PICK(1, 1, 1, 2, 4);
        s->sequence_parallel = false;
        s->context_kind = (enum tpp_context_kind)PICK(0, 1, 2);
        s->zero_stage = PICK(3, 3, 3, 3, 2);
        s->reshard_after_forward = PICK(0, 1) == 1;
        s->shard_group = PICK(0, 0, 0, 8, 16);
        s->overlap_grad_reduce = s->overlap_param_gather = PICK(0, 1, 1, 1, 1) == 1;
        s->reduce_bucket_size = s->allgather_bucket_size = 0;
    }
    if (reader->framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED && s->pipeline_parallel > 1 && PICK(0, 0, 1) == 1) {
        s->schedule = TPP_SCHEDULE_ZB_H1;
        s->sequence_parallel = false;
    }
    s->balanced_split = !is_megatron && c->model.num_layers % s->pipeline_parallel != 0;
}

/* Where the plan's kernels and number formats are not the framework's own; the stack has its defaults. */
static void random_stack(struct tpp_random *random, const struct reader *reader, struct launch_case *c)
{
    if (is_core(reader) && tpp_precision_is_fp8(c->job.precision)) {
        c->stack.current_scaling = c->job.precision == TPP_PRECISION_FP8 && PICK(0, 1) == 1;
        tpp_stack_set_fp8_weights(&c->stack, &c->job, PICK(0, 1) == 1);
    }
    if (reader->framework == TPP_FRAMEWORK_NEMO) {
        c->stack.vocabulary_multiple = PICK(128, 128, 256);
        if (PICK(0, 0, 0, 1) == 1) {
            tpp_stack_set_deterministic(&c->stack, &c->hardware.gpu);
            c->stack.loss_kernel = TPP_LOSS_UNFUSED;
        }
        if (c->job.task == TPP_TASK_PRETRAIN && PICK(0, 0, 1) == 1)
            tpp_stack_set_cuda_graphs(
                &c->stack,
                PICK(0, TPP_GRAPH_ATTENTION, c->model.num_experts > 0 ? TPP_GRAPH_ATTENTION | TPP_GRAPH_ROUTER : 0),
                c->model.num_experts > 0 && !(c->job.expert_capacity_factor > 0));
    }
    if (reader->engine == TPP_ENGINE_DEEPSPEED && c->job.gradient_type == TPP_GRADIENT_DEFAULT && PICK(0, 0, 0, 1) == 1)
        c->stack.reduce_bytes = 4; /* sent in fp32, and not summed */
}

/* What only the Megatron side of a framework can say. */
static void random_megatron(struct tpp_random *random, struct launch_case *c)
{
    struct tpp_strategy *s = &c->strategy;
    const bool is_piped = s->pipeline_parallel > 1;
    const bool exchanges = c->model.num_experts > 0 && s->expert_parallel * s->expert_tensor_parallel > 1;
    if (s->recompute == TPP_RECOMPUTE_SELECTIVE)
        s->recompute_modules = PICK(0, 0, TPP_MODULE_CORE_ATTENTION, TPP_MODULE_LAYER_NORM, TPP_MODULE_MLP,
                                    TPP_MODULE_CORE_ATTENTION | TPP_MODULE_MOE, TPP_MODULE_EXPERT_ACTIVATION);
    s->tp_comm_overlap = s->tensor_parallel > 1 && PICK(0, 0, 1) == 1;
    s->dispatch = exchanges ? (enum tpp_dispatch)PICK(0, 0, 0, 0, 1, 2) : TPP_DISPATCH_ALL_TO_ALL;
    s->expert_overlap = exchanges && PICK(0, 0, 1) == 1;
    s->shared_overlap = c->model.shared_expert_hidden_size > 0 && s->expert_parallel > 1 && PICK(0, 0, 0, 1) == 1;
    s->first_stage_layers = is_piped ? PICK(0, 0, 0, 6) : 0;
    s->last_stage_layers = is_piped ? PICK(0, 0, 0, 6) : 0;
    s->account_for_embedding = is_piped && PICK(0, 0, 0, 1) == 1;
    s->account_for_loss = s->account_for_embedding;
    s->last_chunk_less = is_piped ? PICK(0, 0, 0, 0, 1, 2) : 0;
    if (s->last_chunk_less > 0)
        s->account_for_loss = false;
    c->job.mtp_num_layers = is_piped && c->job.task < TPP_TASK_LORA ? PICK(0, 0, 0, 0, 1) : 0;
    s->reduce_bucket_size = s->overlap_grad_reduce ? PICK(0, 0, 200000000) : 0;
    s->shard_group = s->zero_stage > 0 && s->zero_stage < 3 ? PICK(0, 0, 0, 0, 8) : 0;
    c->hardware.gpu.fp8_flops_per_second = 2e15;
    c->job.precision = (enum tpp_precision)PICK(0, 0, 0, 1, 3, 4, 5);
    s->ulysses_parallel = 0;
    if (s->context_parallel == 4 && PICK(0, 0, 1) == 1) {
        s->context_kind = TPP_CONTEXT_HYBRID;
        s->ulysses_parallel = 2;
    }
}

/* Types of moments and gradients: the framework's own choice, or another that it has. */
static void random_state_types(struct tpp_random *random, const struct reader *reader, struct tpp_job *job)
{
    const bool is_megatron = is_core(reader);
    if (reader->engine == TPP_ENGINE_DEEPSPEED && PICK(0, 0, 1) == 1)
        job->gradient_type = TPP_GRADIENT_FP32;
    if (reader->framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED || PICK(0, 0, 1) == 0)
        return;
    job->optimizer = is_megatron ? TPP_OPTIMIZER_ADAMW_BF16 : TPP_OPTIMIZER_ADAMW_8BIT;
    if (is_megatron && PICK(0, 1) == 1)
        job->gradient_type = job->precision == TPP_PRECISION_FP16 ? TPP_GRADIENT_FP32 : TPP_GRADIENT_BF16;
    if (reader->framework == TPP_FRAMEWORK_NEMO && PICK(0, 1) == 1)
        job->optimizer = TPP_OPTIMIZER_ADAMW;
}

static void random_case(struct tpp_random *random, const struct reader *reader, struct launch_case *c)
{
    static const double factors[] = {0, 0, 1, 1.25};
    launch_case_init(c);
    for (int i = 0; i < TPP_FLASH_KERNEL_COUNT; i++)
        c->hardware.gpu.flash_forward_fraction[i] = 0.5;
    c->hardware.gpu.compute_capability = PICK(8, 9, 10);
    c->hardware.gpu.has_bf16 = true;
    c->job.precision = (enum tpp_precision)PICK(0, 0, 1);
    c->job.task = reader->framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED ? (enum tpp_task)PICK(0, 1)
                                                                        : (enum tpp_task)PICK(0, 1, 2, 3);
    c->job.lora_rank = PICK(8, 64);
    c->job.lora_targets = (enum tpp_lora_targets)PICK(0, 1, 2, 3);
    random_model(random, reader, &c->model);
    random_strategy(random, reader, c);
    if (c->model.num_experts > 0)
        c->job.expert_capacity_factor = factors[PICK(0, 1, 2, 3)];
    if (is_core(reader))
        random_megatron(random, c);
    random_state_types(random, reader, &c->job);
    tpp_stack_defaults(reader->framework, &c->hardware.gpu, &c->job, &c->stack);
    tpp_stack_set_engine(&c->stack, reader->engine, &c->hardware.gpu, &c->job);
    random_stack(random, reader, c);
    snprintf(c->model.name, sizeof c->model.name, "%.60s", hostile);
    snprintf(c->hardware.name, sizeof c->hardware.name, "%.60s", hostile);
    c->request.job_name = c->request.note = hostile;
    c->request.release = TPP_RELEASE_NEWEST;
    c->request.slurm = PICK(0, 1) == 1;
}

/* What the words of a plan leave out or say in another way: without effect on what is run. */
static struct tpp_strategy as_written(const struct launch_case *c)
{
    struct tpp_strategy s = c->strategy;
    if (c->model.num_experts == 0)
        s.expert_tensor_parallel = s.expert_parallel = 1;
    if (s.context_parallel == 1)
        s.context_kind = TPP_CONTEXT_RING;
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
    if (tpp_engine_is_deepspeed(c->stack.engine)) { /* without a stage nothing says what overlaps */
        const bool pipeline = c->stack.framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED &&
                              (c->stack.engine == TPP_ENGINE_DEEPSPEED_PIPELINE || s.pipeline_parallel > 1);
        s.overlap_grad_reduce = !pipeline && (s.overlap_grad_reduce || s.zero_stage == 0);
        s.overlap_param_gather = s.overlap_grad_reduce && s.zero_stage > 0;
    }
    return s;
}

static enum tpp_code read_line(const struct reader *reader, struct tpp_launch_line *line,
                               const struct tpp_shell_script *script, struct tpp_arguments *arguments,
                               struct tpp_megatron_settings *settings, struct tpp_problems *problems)
{
    if (reader->framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED)
        return tpp_deepspeed_read(line->arguments, script, arguments, settings, problems, NULL);
    if (reader->framework == TPP_FRAMEWORK_NEMO)
        return tpp_bridge_read(line->arguments, script, arguments, settings, problems, NULL);
    if (is_core(reader))
        return tpp_swift_read(line->arguments, script, line->entry, arguments, settings, problems, NULL);
    const enum tpp_code code =
        tpp_trainer_read(line->arguments, script, line->entry, reader->framework == TPP_FRAMEWORK_MS_SWIFT, arguments,
                         settings, problems, NULL);
    return code == TPP_OK && *reader->program == 'a' ? tpp_accelerate_read(line, script, settings, problems, NULL)
                                                     : code;
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
    tpp_text_release(&expected);
    tpp_text_release(&found);
}

static void check_same_stack(const struct launch_case *c, const struct tpp_stack *read)
{
    const struct tpp_stack *stack = &c->stack;
    assert_int_equal(read->current_scaling, stack->current_scaling);
    assert_int_equal(read->fp8_weights, stack->fp8_weights);
    assert_int_equal(read->gathered_linear_bytes, stack->gathered_linear_bytes);
    assert_int_equal(read->cuda_graphs, stack->cuda_graphs);
    assert_int_equal(read->graph_parts, stack->graph_parts);
    assert_int_equal(read->vocabulary_multiple, stack->vocabulary_multiple);
    assert_int_equal(read->deterministic, stack->deterministic);
    if (read->engine != stack->engine) /* the pipeline engine, by the number of stages */
        return;
    assert_int_equal(read->gradient_bytes, stack->gradient_bytes);
    assert_int_equal(read->reduce_bytes, stack->reduce_bytes);
}

static void check_same_job(const struct reader *reader, const struct launch_case *c,
                           const struct tpp_plan_reading *read)
{
    const bool says_task = reader->framework != TPP_FRAMEWORK_HF_TRAINER || tpp_job_is_adapter(&c->job);
    struct tpp_model_counts a, b;
    tpp_model_count(&read->model, &a);
    tpp_model_count(&c->model, &b);
    assert_int_equal(a.total, b.total);
    assert_int_equal(a.num_moe_layers, b.num_moe_layers);
    assert_int_equal(read->job.sequence_length, c->job.sequence_length);
    assert_int_equal(read->job.global_batch_size, c->job.global_batch_size);
    assert_int_equal(read->job.precision, c->job.precision);
    assert_int_equal(read->job.optimizer, c->job.optimizer);
    assert_int_equal(read->job.gradient_type, c->job.gradient_type);
    if (says_task)
        assert_int_equal(read->job.task, c->job.task);
    if (tpp_job_is_adapter(&c->job)) {
        assert_int_equal(read->job.lora_rank, c->job.lora_rank);
        assert_int_equal(read->job.lora_targets, c->job.lora_targets);
    }
    assert_int_equal(read->stack.engine, c->strategy.pipeline_parallel > 1 && reader->engine == TPP_ENGINE_DEEPSPEED
                                             ? TPP_ENGINE_DEEPSPEED_PIPELINE
                                             : reader->engine);
    assert_true(read->stack.engine != c->stack.engine || read->stack.optimizer_bytes == c->stack.optimizer_bytes);
    assert_int_equal(read->stack.attention, c->stack.attention);
    assert_int_equal(read->stack.loss_kernel, c->stack.loss_kernel);
    assert_true(read->job.expert_capacity_factor == c->job.expert_capacity_factor);
    assert_int_equal(read->job.mtp_num_layers, c->job.mtp_num_layers);
    check_same_stack(c, &read->stack);
}

static void check_reads_back(const struct reader *reader, const struct launch_case *c, const char *text)
{
    struct tpp_shell_script *script;
    struct tpp_launch_line line;
    struct tpp_arguments arguments;
    struct tpp_megatron_settings settings;
    struct tpp_problems problems = {0};
    struct tpp_plan_reading read;
    struct tpp_error err = {0};
    enum tpp_framework framework;
    const bool is_named = reader->framework != TPP_FRAMEWORK_MEGATRON_DEEPSPEED;
    const struct tpp_shell_setting program = {"TRAIN_SCRIPT", "sft.py"};
    assert_int_equal(tpp_shell_read(text, strlen(text), "plan.sh", &program, 1, &script, &err), TPP_OK);
    assert_int_equal(tpp_launch_line_find(script, "plan.sh", &line, &err), TPP_OK);
    assert_int_equal(tpp_launch_line_framework(&line, "plan.sh", &framework, &err), TPP_OK);
    assert_int_equal(framework, reader->framework);
    assert_int_equal(read_line(reader, &line, script, &arguments, &settings, &problems), TPP_OK);
    assert_int_equal(line.nodes * line.ranks_per_node, c->job.num_gpus);
    settings.rules.world_size = c->job.num_gpus;
    settings.rules.compute_capability = c->hardware.gpu.compute_capability;
    settings.rules.cuda_device_max_connections = TPP_RULE_UNSET;
    const struct tpp_shell_word *connections = tpp_launch_line_variable(&line, "CUDA_DEVICE_MAX_CONNECTIONS");
    if (connections != NULL)
        tpp_argument_integer(connections->text, &settings.rules.cuda_device_max_connections);
    if (has_plain_layers(reader))
        tpp_trainer_complete(&settings, &problems);
    else if (!is_named)
        tpp_deepspeed_find_dead(&arguments, &settings, &problems);
    if (is_named)
        tpp_swift_set_shape(&settings, &c->model);
    tpp_megatron_find_violations(&arguments, &settings.rules, TPP_RELEASE_NEWEST, 1, &problems);
    enum tpp_code code = tpp_plan_from_megatron(&settings, &arguments, TPP_RELEASE_NEWEST, &c->hardware,
                                                is_named ? &c->model : NULL, "plan", &read, &problems, &err);
    if (code != TPP_OK)
        fail_msg("%s at %s", err.message, err.where);
    for (size_t i = 0; i < problems.count; i++) {
        if (problems.items[i].severity != TPP_SEVERITY_INFO)
            fail_msg("%s: %s", problems.items[i].code, problems.items[i].message);
    }
    check_same_strategy(c, &read.strategy);
    check_same_job(reader, c, &read);
    tpp_problems_release(&problems);
    tpp_arguments_release(&arguments);
    tpp_shell_free(script);
}

/* One start of the launcher, every text in one word, nothing executed, and a configuration that parses. */
static void check_runs(const struct reader *reader, const struct launch_case *c, const char *text)
{
    struct script_run run;
    struct tpp_json_document *document;
    struct tpp_error err = {0};
    script_run(text, launch_environment, &run);
    if (run.status != 0)
        fail_msg("the script ended with %d: %s", run.status, run.complaint);
    assert_string_equal(run.program, reader->program);
    assert_false(run.left_a_trace);
    if (reader->framework == TPP_FRAMEWORK_NEMO) { /* what the user gives stays in the environment */
        assert_string_equal(script_run_value(&run, "--model"), script_run_variable(&run, "MODEL"));
        assert_true(script_run_has(&run, "checkpoint.save=${oc.env:CHECKPOINT_PATH}"));
        assert_string_equal(script_run_variable(&run, "CHECKPOINT_PATH"), "/checkpoints");
    } else if (reader->framework != TPP_FRAMEWORK_MEGATRON_DEEPSPEED) {
        const bool is_trainer = reader->framework == TPP_FRAMEWORK_HF_TRAINER;
        assert_string_equal(script_run_value(&run, is_trainer ? "--model_name_or_path" : "--model"),
                            script_run_variable(&run, "MODEL"));
        assert_string_equal(script_run_value(&run, is_trainer ? "--dataset_name" : "--dataset"),
                            script_run_variable(&run, "DATASET"));
    }
    if (reader->framework == TPP_FRAMEWORK_MS_SWIFT) {
        assert_int_equal(atoi(script_run_variable(&run, "NPROC_PER_NODE")), c->request.gpus_per_node);
        assert_int_equal(atoi(script_run_variable(&run, "NNODES")), c->request.num_nodes);
        assert_string_equal(script_run_variable(&run, "NODE_RANK"), c->request.slurm ? "3" : "1");
    }
    if (*reader->program == 'a') {
        assert_string_equal(script_run_value(&run, "--machine_rank"), c->request.slurm ? "3" : "1");
        assert_non_null(script_run_file(&run, "accelerate.yaml"));
    }
    const char *config = script_run_file(&run, "ds_config.json");
    assert_true((config != NULL) == tpp_engine_is_deepspeed(reader->engine));
    if (config != NULL) {
        if (tpp_json_parse(config, strlen(config), "ds_config.json", &document, &err) != TPP_OK)
            fail_msg("%s at %s", err.message, err.where);
        tpp_json_document_free(document);
    }
    script_run_release(&run);
}

#define LM_SIDE (1u << TPP_FRAMEWORK_NEMO | 1u << TPP_FRAMEWORK_MS_SWIFT)
#define ZERO_SIDE                                                                                                      \
    (1u << TPP_FRAMEWORK_MEGATRON_DEEPSPEED | 1u << TPP_FRAMEWORK_HF_TRAINER | 1u << TPP_FRAMEWORK_MS_SWIFT)

/* Number of the plans written that use a part of the plan; each framework that has it must have written some. */
struct axis {
    const char *name;
    unsigned frameworks; /* that have it: bits 1 << TPP_FRAMEWORK_... */
    unsigned written[TPP_FRAMEWORK_COUNT];
};

static void count_axes(const struct launch_case *c, struct axis *axes)
{
    const struct tpp_strategy *s = &c->strategy;
    const struct tpp_stack *stack = &c->stack;
    const bool is_used[] = {
        c->job.precision == TPP_PRECISION_FP8 && stack->current_scaling,
        c->job.precision == TPP_PRECISION_FP8 && !stack->current_scaling,
        c->job.precision == TPP_PRECISION_FP8_BLOCK,
        c->job.precision == TPP_PRECISION_MXFP8,
        stack->fp8_weights,
        s->last_chunk_less > 0,
        c->job.expert_capacity_factor > 0,
        tpp_engine_is_fsdp(stack->engine),
        s->offload == TPP_OFFLOAD_OPTIMIZER,
        s->dispatch != TPP_DISPATCH_ALL_TO_ALL,
        s->microbatch_group_size > 0,
        s->schedule == TPP_SCHEDULE_ZB_H1,
        stack->cuda_graphs,
        c->job.mtp_num_layers > 0,
        c->job.gradient_type != TPP_GRADIENT_DEFAULT,
        s->recompute_modules != 0,
        stack->deterministic,
        s->context_parallel > 1 && s->context_kind == TPP_CONTEXT_HYBRID,
        c->model.num_experts > 0 && s->expert_tensor_parallel != s->tensor_parallel,
        tpp_job_is_adapter(&c->job),
        c->job.optimizer == TPP_OPTIMIZER_ADAMW_BF16,
        c->job.optimizer == TPP_OPTIMIZER_ADAMW_8BIT,
        s->first_stage_layers > 0 || s->last_stage_layers > 0,
        s->recompute == TPP_RECOMPUTE_FULL && s->recompute_method == TPP_RECOMPUTE_BLOCK,
        s->offload_layers > 0,
    };
    for (size_t i = 0; i < sizeof is_used / sizeof *is_used; i++)
        axes[i].written[stack->framework] += is_used[i];
}

static void check_reader(const struct reader *reader, struct axis *axes)
{
    unsigned written = 0;
    for (uint64_t seed = 1; seed <= NUM_CASES; seed++) {
        struct tpp_random random = {seed};
        struct launch_case c;
        struct tpp_text script;
        struct tpp_error err = {0};
        random_case(&random, reader, &c);
        if (tpp_strategy_complete(&c.strategy, &c.job, NULL) != TPP_OK)
            continue;
        tpp_text_init(&script);
        if (tpp_launch_emit(&c.request, &script, &err) == TPP_OK) {
            print_message("# %s, %s, seed %llu\n", tpp_framework_name(reader->framework),
                          tpp_engine_name(reader->engine), (unsigned long long)seed);
            if (written % 8 == 0) /* a process each */
                check_runs(reader, &c, tpp_text_get(&script));
            check_reads_back(reader, &c, tpp_text_get(&script));
            count_axes(&c, axes);
            written++;
        } else {
            assert_true(err.code == TPP_E_UNSUPPORTED || err.code == TPP_E_STRATEGY || err.code == TPP_E_NOT_BUILT);
            assert_true(err.message[0] != '\0' && err.where[0] != '\0' && err.hint[0] != '\0');
        }
        tpp_text_release(&script);
    }
    print_message("# %u written\n", written);
    assert_true(written >= MIN_WRITTEN);
}

static void test_what_is_written_runs_and_reads_back(void **state)
{
    struct axis axes[] = {
        {"current scaling", LM_SIDE, {0}},
        {"delayed scaling", LM_SIDE, {0}},
        {"block scaling", LM_SIDE, {0}},
        {"MXFP8", LM_SIDE, {0}},
        {"FP8 weights", LM_SIDE, {0}},
        {"a shorter last chunk", LM_SIDE, {0}},
        {"token drop", LM_SIDE | 1u << TPP_FRAMEWORK_MEGATRON_DEEPSPEED, {0}},
        {"FSDP", LM_SIDE | 1u << TPP_FRAMEWORK_HF_TRAINER, {0}},
        {"offload", LM_SIDE | ZERO_SIDE, {0}},
        {"other dispatchers", LM_SIDE, {0}},
        {"groups of micro-batches", LM_SIDE, {0}},
        {"a zero-bubble schedule", 1u << TPP_FRAMEWORK_MEGATRON_DEEPSPEED, {0}},
        {"CUDA graphs", 1u << TPP_FRAMEWORK_NEMO, {0}},
        {"multi-token prediction", LM_SIDE, {0}},
        {"another type of gradients", LM_SIDE | ZERO_SIDE, {0}},
        {"single modules", LM_SIDE, {0}},
        {"deterministic sums", 1u << TPP_FRAMEWORK_NEMO, {0}},
        {"hierarchical context parallelism", 1u << TPP_FRAMEWORK_NEMO, {0}},
        {"experts cut otherwise than the rest", LM_SIDE | 1u << TPP_FRAMEWORK_MEGATRON_DEEPSPEED, {0}},
        {"adapters", LM_SIDE | 1u << TPP_FRAMEWORK_HF_TRAINER, {0}},
        {"moments in bf16", LM_SIDE, {0}},
        {"moments in 8 bits", 1u << TPP_FRAMEWORK_HF_TRAINER | 1u << TPP_FRAMEWORK_MS_SWIFT, {0}},
        {"counted ends", LM_SIDE, {0}},
        {"recomputation of the first layers", LM_SIDE, {0}},
        {"layers in host memory", 1u << TPP_FRAMEWORK_NEMO, {0}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        check_reader(&readers[i], axes);
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        for (int framework = 0; framework < TPP_FRAMEWORK_COUNT; framework++)
            if ((axes[i].frameworks >> framework & 1) && axes[i].written[framework] == 0)
                fail_msg("no plan with %s was written for %s", axes[i].name,
                         tpp_framework_name((enum tpp_framework)framework));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_written_runs_and_reads_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
