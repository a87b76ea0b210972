/* From what a source documents to the stack that ran: one test a source, and clusters from their published text. */
#include "costmodel/runs/run_hardware.h"
#include "costmodel/runs/run_recipe.h"
#include "costmodel/runs/run_stack.h"
#include "tests/support/check_number.h"

#include <string.h>

static struct tpp_gpu a100(void)
{
    struct tpp_gpu gpu = {.has_bf16 = true};
    gpu.flash_forward_fraction[TPP_ATTENTION_FLASH1] = 0.36;
    gpu.flash_forward_fraction[TPP_ATTENTION_FLASH2] = 0.63;
    return gpu;
}

static struct tpp_gpu h100(void)
{
    struct tpp_gpu gpu = a100();
    gpu.flash_forward_fraction[TPP_ATTENTION_FLASH3] = 0.58;
    return gpu;
}

/* A silent source: a dense gated model, nothing said. */
static struct tpp_run_facts facts_of(const char *framework, uint64_t year)
{
    struct tpp_run_facts facts = {.id = "",
                                  .source = "",
                                  .repository = "",
                                  .framework = framework,
                                  .notes = "",
                                  .attention = "",
                                  .precision = "bf16",
                                  .precision_detail = "",
                                  .task = "pretrain",
                                  .schedule = "",
                                  .schedule_detail = "",
                                  .recompute = "none",
                                  .recompute_detail = "",
                                  .mixed_precision_mode = "",
                                  .gpu = "",
                                  .network = "",
                                  .network_assumed = "",
                                  .memory_unit = "",
                                  .memory_kind = "",
                                  .year = year};
    facts.model = (struct tpp_run_model_facts){
        .name = "llama-7b", .family = "", .position = "", .activation = "", .window_pattern = "", .gated = TPP_RUN_YES};
    facts.parallel.sharding = "";
    return facts;
}

static struct tpp_stack stack_of(const struct tpp_run_facts *facts, struct tpp_gpu gpu)
{
    struct tpp_stack stack;
    struct tpp_job job = tpp_job_defaults();
    tpp_run_stack_read(facts, &gpu, &job, &stack);
    return stack;
}

/* Transformer Engine, nvte_get_fused_attn_backend: keys of 192 beside values of 128 on Blackwell from cuDNN 9.11 on, on
 * Hopper before; NVIDIA/TransformerEngine issue 2285: cuDNN 9.10.1 on B200, "no backend supports the provided input". */
static void latent_attention_on_blackwell_waited_for_its_kernel(void **state)
{
    (void)state;
    struct tpp_gpu gb200 = h100(), hopper = h100();
    gb200.compute_capability = 10;
    hopper.compute_capability = 9;
    struct tpp_run_facts facts = facts_of("NeMo/Megatron-Core (dgxc v25.05)", 2025);
    facts.model.has_latent_attention = true;
    assert_int_equal(stack_of(&facts, gb200).attention, TPP_ATTENTION_FUSED_SOFTMAX);
    assert_int_equal(stack_of(&facts, hopper).attention, TPP_ATTENTION_FLASH3);
    facts.framework = "Megatron-Bridge (NeMo container 25.11)";
    assert_int_equal(stack_of(&facts, gb200).attention, TPP_ATTENTION_FLASH3);
    facts.framework = "NeMo"; /* names no release: the newest */
    assert_int_equal(stack_of(&facts, gb200).attention, TPP_ATTENTION_FLASH3);
    facts.framework = "NeMo/Megatron-Core (dgxc v25.05)";
    facts.model.has_latent_attention = false;
    assert_int_equal(stack_of(&facts, gb200).attention, TPP_ATTENTION_FLASH3);
}

/* S19: gathered logits, eager kernels unless the sheet names the RMS kernel; gradients all-reduced in fp32. */
static void aleph_alpha_sheets_name_their_kernels(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("Aleph Alpha scaling", 2023);
    facts.parallel.distributed_optimizer = TPP_RUN_YES;
    facts.parallel.tensor = 2;
    facts.attention = "flash_attention2 + RMS kernel";
    struct tpp_stack stack = stack_of(&facts, a100());
    assert_int_equal(stack.framework, TPP_FRAMEWORK_OTHER);
    assert_int_equal(stack.engine, TPP_ENGINE_DEEPSPEED);
    assert_int_equal(stack.attention, TPP_ATTENTION_FLASH2);
    assert_int_equal(stack.norm_kernel, TPP_KERNEL_FUSED);
    assert_int_equal(stack.activation_kernel, TPP_KERNEL_EAGER);
    assert_int_equal(stack.lm_head_output, TPP_LM_HEAD_GATHERED);
    assert_true(stack.tensor_parallel_autograd && !stack.tensor_parallel_other);
    assert_true(stack.softmax_in_place && stack.recomputes_head);
    assert_false(stack.tensor_parallel_async);
    assert_int_equal(stack.gradient_bytes, 2);
    assert_int_equal(stack.reduce_bytes, 4);
    CHECK_NUMBER(stack.nic_ring_efficiency_fraction, 0.25, 0);
    facts.attention = "flash_attentionv1.0.8";
    stack = stack_of(&facts, a100());
    assert_int_equal(stack.attention, TPP_ATTENTION_FLASH1);
    assert_int_equal(stack.norm_kernel, TPP_KERNEL_EAGER);
    facts.attention = "no (fused softmax kernel)";
    assert_int_equal(stack_of(&facts, a100()).attention, TPP_ATTENTION_FUSED_SOFTMAX);
    facts.attention = "no (PyTorch attention)";
    assert_int_equal(stack_of(&facts, a100()).attention, TPP_ATTENTION_EAGER);
}

/* S2, S3: local layers around the fused softmax, dropout 0.1; asynchronous all-reduce only after 2021. */
static void early_megatron_has_local_layers_and_dropout(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("Megatron-LM (2021)", 2021);
    facts.model.name = "gpt-39.1B";
    facts.model.gated = TPP_RUN_NO;
    struct tpp_stack stack = stack_of(&facts, a100());
    assert_int_equal(stack.engine, TPP_ENGINE_MEGATRON);
    assert_int_equal(stack.attention, TPP_ATTENTION_FUSED_SOFTMAX);
    assert_false(stack.transformer_engine);
    assert_false(stack.tensor_parallel_async);
    CHECK_NUMBER(stack.memory_bound_factor, 1.2, 1e-12);
    CHECK_NUMBER(tpp_run_dropout(&facts), 0.1, 1e-12);
    facts.year = 2022;
    assert_true(stack_of(&facts, a100()).tensor_parallel_async);
    facts.notes = "untied embeddings, dropout 0, untied";
    CHECK_NUMBER(tpp_run_dropout(&facts), 0, 0);
}

static void transformer_engine_uses_the_gpus_own_generation(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("NeMo 24.07 container", 2024);
    facts.attention = "yes (TE fused attention)";
    struct tpp_stack stack = stack_of(&facts, h100());
    assert_int_equal(stack.framework, TPP_FRAMEWORK_NEMO);
    assert_int_equal(stack.attention, TPP_ATTENTION_FLASH3);
    assert_true(stack.transformer_engine);
    assert_string_equal(stack.release, "24.07");
    assert_int_equal(stack.gradient_bytes, 2); /* kept and reduced in bf16 */
    CHECK_NUMBER(stack.memory_bound_factor, 1.05, 1e-12);
    assert_int_equal(stack_of(&facts, a100()).attention, TPP_ATTENTION_FLASH2);
}

static void nemo_2_keeps_fp8_parameters(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("NeMo/Megatron-Core (dgxc v25.02)", 2025);
    const struct tpp_gpu gpu = h100();
    struct tpp_job job = tpp_job_defaults();
    struct tpp_stack stack;
    job.precision = TPP_PRECISION_FP8;
    tpp_run_stack_read(&facts, &gpu, &job, &stack);
    assert_int_equal(stack.gathered_linear_bytes, 1);
    job.precision = TPP_PRECISION_MXFP8; /* gathered in bf16, quantised there */
    tpp_run_stack_read(&facts, &gpu, &job, &stack);
    assert_int_equal(stack.gathered_linear_bytes, 2);
    facts = facts_of("NeMo 24.07 container", 2024);
    job.precision = TPP_PRECISION_FP8;
    tpp_run_stack_read(&facts, &gpu, &job, &stack);
    assert_int_equal(stack.gathered_linear_bytes, 2);
}

static void megatron_of_march_2021_sends_whole_tensors(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("Megatron-LM 8aa4619 (2021)", 2021);
    assert_false(stack_of(&facts, a100()).scatter_gather);
    facts.framework = "Megatron-LM (2021)"; /* SC'21, section 4.1 */
    assert_true(stack_of(&facts, a100()).scatter_gather);
}

static void automodel_has_no_policy_of_accelerate(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("NeMo AutoModel (PyTorch FSDP2)", 2026);
    facts.parallel.fsdp = TPP_RUN_YES;
    facts.parallel.zero_stage = 3;
    assert_true(tpp_engine_is_fsdp(stack_of(&facts, h100()).engine));
    assert_int_equal(stack_of(&facts, h100()).reduce_bytes, 4);
    facts.framework = "HF Trainer";
    assert_int_equal(stack_of(&facts, h100()).reduce_bytes, 2);
}

/* NVIDIA-NeMo/Automodel, examples/llm_benchmark/qwen/qwen3_moe_30b_te_deepep.yaml: rms_norm te, rope_fusion true. */
static void automodel_has_fused_kernels_for_experts(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("NeMo AutoModel (PyTorch FSDP2)", 2026);
    facts.parallel.fsdp = TPP_RUN_YES;
    assert_int_equal(stack_of(&facts, h100()).norm_kernel, TPP_KERNEL_EAGER);
    facts.model.has_experts = true;
    const struct tpp_stack stack = stack_of(&facts, h100());
    assert_int_equal(stack.norm_kernel, TPP_KERNEL_FUSED);
    assert_int_equal(stack.rope_kernel, TPP_KERNEL_FUSED);
    assert_int_equal(stack.activation_kernel, TPP_KERNEL_FUSED);
    CHECK_NUMBER(stack.memory_bound_factor, 1.05, 0);
}

/* S21: blocking launches from mid February 2022 on, Omni-Path with one port a ring, 0.30 of all for many, half for point to point. */
static void bigscience_blocks_launches_from_mid_february(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("Megatron-DeepSpeed", 2022);
    facts.notes = "CUDA_LAUNCH_BLOCKING=1 was used from mid February on to avoid hangs.";
    facts.network = "4x100 Gb/s Omni-Path per node";
    facts.source = "chronicles-prequel.md, 02-23, section";
    const struct tpp_stack stack = stack_of(&facts, a100());
    assert_int_equal(stack.norm_kernel, TPP_KERNEL_FUSED); /* its layers */
    assert_int_equal(stack.activation_kernel, TPP_KERNEL_EAGER);
    assert_int_equal(stack.rope_kernel, TPP_KERNEL_EAGER);
    assert_true(stack.launch_blocking);
    assert_int_equal(stack.engine, TPP_ENGINE_DEEPSPEED_PIPELINE);
    CHECK_NUMBER(stack.nic_ring_efficiency_fraction, 0.30, 1e-12);
    assert_true(stack.single_port_rings);
    CHECK_NUMBER(stack.nic_send_recv_efficiency_fraction, 0.45, 1e-12);
    facts.source = "chronicles-prequel.md, 02-11, section";
    assert_false(stack_of(&facts, a100()).launch_blocking);
    facts.notes = "CUDA_LAUNCH_BLOCKING=1 (no asynchronous overlap)"; /* S20: always */
    assert_true(stack_of(&facts, a100()).launch_blocking);
    facts.network = "8x HDR200 InfiniBand per node";
    CHECK_NUMBER(stack_of(&facts, a100()).nic_ring_efficiency_fraction, 0, 0);
    assert_false(stack_of(&facts, a100()).single_port_rings);
}

/* 15.7: without ZeRO bf16 has the pipeline engine's optimizer, whatever the engine. */
static void megatron_deepspeed_engine_follows_zero_and_stages(void **state)
{
    (void)state;
    static const struct {
        const char *framework, *precision;
        uint64_t zero_stage, pipeline;
        enum tpp_engine engine;
    } cases[] = {
        {"Megatron-DeepSpeed", "fp16", 1, 12, TPP_ENGINE_DEEPSPEED_PIPELINE},
        {"Megatron-DeepSpeed", "fp16", 0, 1, TPP_ENGINE_DEEPSPEED_PIPELINE},
        {"Megatron-DeepSpeed", "bf16", 1, 1, TPP_ENGINE_DEEPSPEED_PIPELINE},
        {"Megatron-DeepSpeed (--no-pipeline-parallel)", "bf16", 1, 1, TPP_ENGINE_DEEPSPEED},
        {"Megatron-DeepSpeed", "fp16", 3, 1, TPP_ENGINE_DEEPSPEED},
        {"Megatron-DeepSpeed (--no-pipeline-parallel)", "bf16", 0, 1, TPP_ENGINE_DEEPSPEED_PIPELINE},
        {"Megatron-DeepSpeed (--no-pipeline-parallel)", "fp16", 0, 1, TPP_ENGINE_DEEPSPEED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tpp_run_facts facts = facts_of(cases[i].framework, 2024);
        facts.precision = cases[i].precision;
        facts.parallel.zero_stage = cases[i].zero_stage;
        facts.parallel.pipeline = cases[i].pipeline;
        if (tpp_run_engine(&facts) != cases[i].engine)
            fail_msg("%s, %s, ZeRO %u", cases[i].framework, cases[i].precision, (unsigned)cases[i].zero_stage);
    }
}

/* Composer, get_mixed_precision: PURE has all in bf16, DEFAULT reduces in fp32. DEFAULT of 2022, of mosaicml/examples, names no type of
 * parameters, and bf16 for reductions. */
static void llm_foundry_travels_in_the_dtypes_of_its_mode(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("llm-foundry/Composer FSDP", 2024);
    facts.attention = "yes (triton flash attention)";
    facts.parallel.fsdp = TPP_RUN_YES;
    facts.mixed_precision_mode = "PURE";
    struct tpp_stack stack = stack_of(&facts, h100());
    assert_int_equal(stack.engine, TPP_ENGINE_FSDP1);
    assert_int_equal(stack.attention, TPP_ATTENTION_FLASH1);
    assert_int_equal(stack.reduce_bytes, 2);
    assert_int_equal(stack.gathered_linear_bytes, 2);
    assert_int_equal(stack.loss_kernel, TPP_LOSS_FUSED);
    assert_false(stack.checkpoint_stops_early); /* rows of PyTorch 1.13 */
    facts.mixed_precision_mode = "DEFAULT";
    stack = stack_of(&facts, h100());
    assert_true(stack.checkpoint_stops_early);
    assert_int_equal(stack.reduce_bytes, 4);
    assert_int_equal(stack.gathered_rest_bytes, 2);
    facts.year = 2023;
    assert_false(stack_of(&facts, h100()).checkpoint_stops_early);
    facts.repository = "mosaicml/examples";
    stack = stack_of(&facts, h100());
    assert_int_equal(stack.reduce_bytes, 2);
    assert_int_equal(stack.gathered_linear_bytes, 4);
    assert_int_equal(stack.gathered_rest_bytes, 4);
    assert_int_equal(stack.loss_kernel, TPP_LOSS_EAGER);
}

/* S23: fused kernels by plug-in; weights, gradients and states in bf16 where the notes say so. */
static void fms_acceleration_plug_ins_choose_the_kernels(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("HF Trainer / fms-hf-tuning + FSDP", 2024);
    facts.parallel.fsdp = TPP_RUN_YES;
    facts.attention = "2";
    facts.notes = "Acceleration plug-in: none. Weights, gradients and Adam states all in bf16 (no fp32 master copy).";
    struct tpp_stack stack = stack_of(&facts, a100());
    assert_int_equal(stack.framework, TPP_FRAMEWORK_HF_TRAINER);
    assert_int_equal(stack.engine, TPP_ENGINE_FSDP1);
    assert_int_equal(stack.norm_kernel, TPP_KERNEL_EAGER);
    assert_int_equal(stack.loss_kernel, TPP_LOSS_EAGER);
    assert_int_equal(stack.optimizer_bytes, 4);
    assert_int_equal(stack.shard_weight_bytes, 2);
    assert_int_equal(stack.gradient_bytes, 2);
    /* The later table: 16 bytes a parameter at rest, 64.26 GB of 8.03e9 parameters on two GPUs. */
    facts.source = "fms-acceleration scripts/benchmarks/refs/a100_80gb_liger.csv row 38";
    stack = stack_of(&facts, a100());
    assert_int_equal(stack.shard_weight_bytes + stack.gradient_bytes + stack.optimizer_bytes, 16);
    assert_int_equal(stack.weight_bytes, 2);
    assert_int_equal(stack.reduce_bytes, 2);
    facts.source = "fms-acceleration scripts/benchmarks/refs/a100_80gb.csv row 38";
    facts.notes = "Acceleration plug-in: foak-fast-kernels.";
    stack = stack_of(&facts, a100());
    assert_int_equal(stack.norm_kernel, TPP_KERNEL_FUSED);
    assert_int_equal(stack.activation_kernel, TPP_KERNEL_EAGER);
    assert_int_equal(stack.loss_kernel, TPP_LOSS_FUSED);
    facts.notes = "Acceleration plug-in: foak-fast-kernels-liger.";
    assert_int_equal(stack_of(&facts, a100()).loss_kernel, TPP_LOSS_FUSED_LINEAR);
    /* Transformers 4.48.1 behind this table, 4.45.2 behind the other. */
    assert_true(stack_of(&facts, a100()).keeps_logits);
    facts.source = "fms-acceleration scripts/benchmarks/refs/a100_80gb_liger.csv row 38";
    assert_false(stack_of(&facts, a100()).keeps_logits);
    /* Attention's adapters alone leave the MLP to Transformers' eager kernels. */
    struct tpp_job job = tpp_job_defaults();
    const struct tpp_gpu gpu = a100();
    job.task = TPP_TASK_QLORA;
    tpp_run_stack_read(&facts, &gpu, &job, &stack);
    assert_int_equal(stack.activation_kernel, TPP_KERNEL_FUSED);
    job.lora_targets = TPP_LORA_ATTENTION;
    tpp_run_stack_read(&facts, &gpu, &job, &stack);
    assert_int_equal(stack.activation_kernel, TPP_KERNEL_EAGER);
    facts.parallel.fsdp = TPP_RUN_NO;
    assert_int_equal(stack_of(&facts, a100()).engine, TPP_ENGINE_DDP);
    assert_true(stack_of(&facts, a100()).peft_adapters);
    /* The trainer's own preparation of a quantised model, but not under FSDP; a LayerNorm is cast around by autocast. */
    facts.notes = "Acceleration plug-in: baseline-peft-bnb. LoRA r=16 on q,k,v,o.";
    assert_true(stack_of(&facts, a100()).upcasts_states);
    facts.parallel.fsdp = TPP_RUN_YES;
    assert_false(stack_of(&facts, a100()).upcasts_states);
    facts.notes = "Acceleration plug-in: accelerated-peft-bnb-foak.";
    facts.model.gated = TPP_RUN_NO;
    facts.model.name = "santacoder";
    assert_int_equal(stack_of(&facts, a100()).norm_kernel, TPP_KERNEL_EAGER);
    assert_false(stack_of(&facts, a100()).loss_keeps_type); /* autocast widens it */
    /* Autocast's LayerNorm is fp32 and bitsandbytes returns its input's type, with FSDP too. */
    tpp_run_stack_read(&facts, &gpu, &job, &stack);
    assert_true(stack.upcasts_states);
    CHECK_NUMBER(tpp_run_dropout(&facts), 0.1, 0);
    facts.notes = "Acceleration plug-in: foak-fast-kernels. Weights, gradients and Adam states all in bf16 (no fp32 master copy).";
    assert_int_equal(stack_of(&facts, a100()).norm_kernel, TPP_KERNEL_FUSED);
    assert_true(stack_of(&facts, a100()).loss_keeps_type);
    assert_false(stack_of(&facts, a100()).upcasts_states);
    facts.framework = "NeMo AutoModel (PyTorch FSDP2)"; /* adapters of its own */
    assert_false(stack_of(&facts, a100()).peft_adapters);
}

/* Megatron-Bridge's recipes of Moonlight and DeepSeek-V3 pre-train with bf16 moments, those of Qwen3 with fp32 ones. */
static void recipes_choose_the_width_of_the_moments(void **state)
{
    (void)state;
    static const struct {
        const char *framework, *model, *task;
        bool narrow;
    } rows[] = {
        {"Megatron-Bridge 600d069b", "moonlight-16b-a3b", "pretrain", true},
        {"Megatron-Bridge", "deepseek-v3", "pretrain", true},
        {"Megatron-Bridge", "qwen3-30b-a3b", "pretrain", false},
        {"Megatron-Bridge", "moonlight-16b-a3b", "sft", false},
        {"Megatron-LM", "deepseek-v3", "pretrain", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tpp_run_facts facts = facts_of(rows[i].framework, 2026);
        facts.model.name = rows[i].model;
        facts.task = rows[i].task;
        const struct tpp_stack stack = stack_of(&facts, a100());
        assert_int_equal(stack.optimizer, rows[i].narrow ? TPP_OPTIMIZER_ADAMW_BF16 : TPP_OPTIMIZER_ADAMW);
        CHECK_NUMBER(stack.optimizer_bytes, rows[i].narrow ? 6 : 12, 0);
    }
}

/* torchtune's table: each row keeps what the rows above added. */
static void cumulative_tables_keep_what_came_before(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("torchtune single device", 2025);
    facts.notes = "+ packed; each row adds to the previous one.";
    assert_int_equal(stack_of(&facts, a100()).loss_kernel, TPP_LOSS_EAGER);
    facts.notes = "+ compile; each row adds to the previous one.";
    assert_int_equal(stack_of(&facts, a100()).loss_kernel, TPP_LOSS_COMPILED);
    facts.notes = "+ activation checkpointing; each row adds to the previous one.";
    const struct tpp_stack stack = stack_of(&facts, a100());
    assert_int_equal(stack.loss_kernel, TPP_LOSS_FUSED_LINEAR);
    assert_int_equal(stack.norm_kernel, TPP_KERNEL_FUSED);
    CHECK_NUMBER(stack.memory_bound_factor, 1.05, 1e-12);
}

static void recipes_name_what_their_graphs_capture(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("Megatron-Bridge (NeMo container 26.08)", 2026);
    facts.notes = "cuda graph: full_iteration []. MoE dispatcher hybridep.";
    struct tpp_stack stack = stack_of(&facts, h100());
    assert_true(stack.cuda_graphs);
    assert_int_equal(stack.graph_parts, 0);
    facts.notes = "cuda graph: transformer_engine ['attn', 'moe_router', 'moe_preprocess']. MoE dispatcher hybridep";
    assert_int_equal(stack_of(&facts, h100()).graph_parts, TPP_GRAPH_ATTENTION | TPP_GRAPH_ROUTER);
    facts.notes = "HybridEP, force balance, CUDA graphs moe_router/moe_preprocess, EP overlap off";
    stack = stack_of(&facts, h100());
    assert_true(stack.cuda_graphs);
    assert_int_equal(stack.graph_parts, TPP_GRAPH_ROUTER);
    facts.notes = "cuda graph: none";
    assert_false(stack_of(&facts, h100()).cuda_graphs);
    assert_false(stack.current_scaling);
    facts.precision_detail = "fp8 (current scaling per-tensor unless the recipe says otherwise)";
    assert_true(stack_of(&facts, h100()).current_scaling);
}

/* NVIDIA-NeMo/Megatron-Bridge 0.1.0 and 0.2.0, scripts/performance/configs/qwen3, for rows whose mapping is in none of its recipes:
 * cuda_graphs true with dropped tokens in 25.09; HybridEP and parts in 25.11. */
static void bridge_captured_qwen_on_grace(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("Megatron-Bridge (NeMo container 25.11)", 2025);
    facts.model.name = "qwen3-235b-a22b";
    facts.gpu = "GB200-NVL72";
    assert_true(stack_of(&facts, h100()).cuda_graphs);
    assert_int_equal(stack_of(&facts, h100()).graph_parts, TPP_GRAPH_ATTENTION | TPP_GRAPH_ROUTER);
    assert_true(tpp_run_has_hybrid_dispatch(&facts));
    facts.gpu = "GB300-NVL72";
    assert_int_equal(stack_of(&facts, h100()).graph_parts, TPP_GRAPH_ROUTER);
    facts.framework = "Megatron-Bridge (NeMo container 25.09)";
    assert_true(stack_of(&facts, h100()).cuda_graphs);
    assert_int_equal(stack_of(&facts, h100()).graph_parts, 0);
    assert_false(tpp_run_has_hybrid_dispatch(&facts));
    facts.notes = "cuda graph: none"; /* the row's own word counts */
    assert_false(stack_of(&facts, h100()).cuda_graphs);
    facts.notes = "";
    facts.gpu = "B200-SXM6-180GB";
    assert_false(stack_of(&facts, h100()).cuda_graphs);
    facts.notes = "MoE dispatcher hybridep";
    assert_true(tpp_run_has_hybrid_dispatch(&facts));
}

/* fp8_output_proj in Megatron-Bridge's MXFP8 recipes of two models: 0.5.0 (26.06) on GB200 and GB300, B300 after it. */
static void recipes_quantise_the_output_projection(void **state)
{
    (void)state;
    static const struct {
        const char *framework, *model, *gpu, *precision;
        bool fp8_head;
    } rows[] = {
        {"Megatron-Bridge (NeMo container 26.06)", "deepseek-v3", "GB200-NVL72", "mxfp8", true},
        {"Megatron-Bridge (NeMo container 26.08)", "gpt-oss-120b", "GB300-NVL72", "mxfp8", true},
        {"Megatron-Bridge (NeMo container 26.06)", "deepseek-v3", "B300-SXM6-288GB", "mxfp8", false},
        {"Megatron-Bridge (NeMo container 26.08)", "deepseek-v3", "B300-SXM6-288GB", "mxfp8", true},
        {"Megatron-Bridge (NeMo container 26.04.01)", "deepseek-v3", "GB200-NVL72", "mxfp8", false},
        {"Megatron-Bridge (NeMo container 26.08)", "qwen3-30b-a3b", "GB200-NVL72", "mxfp8", false},
        {"Megatron-Bridge (NeMo container 26.08)", "deepseek-v3", "GB200-NVL72", "fp8", false},
        {"NeMo (container 26.08)", "deepseek-v3", "GB200-NVL72", "mxfp8", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tpp_run_facts facts = facts_of(rows[i].framework, 2026);
        facts.model.name = rows[i].model;
        facts.gpu = rows[i].gpu;
        facts.precision = rows[i].precision;
        assert_int_equal(stack_of(&facts, h100()).fp8_head, rows[i].fp8_head);
    }
}

/* fp8_dot_product_attention comes with graphs of the whole iteration, not with DeepSeek-V3 on GB200. */
static void recipes_quantise_attention(void **state)
{
    (void)state;
    static const struct {
        const char *framework, *model, *gpu, *notes;
        bool fp8_attention;
    } rows[] = {
        {"Megatron-Bridge (NeMo container 26.06)", "qwen3-30b-a3b", "GB200-NVL72", "cuda graph: full_iteration []", true},
        {"Megatron-Bridge (NeMo container 26.08)", "gpt-oss-120b", "GB200-NVL72", "cuda graph: full_iteration []", true},
        {"Megatron-Bridge (NeMo container 26.06)", "deepseek-v3", "GB300-NVL72", "cuda graph: full_iteration []", true},
        {"Megatron-Bridge (NeMo container 26.06)", "deepseek-v3", "GB200-NVL72", "cuda graph: full_iteration []", false},
        {"Megatron-Bridge (NeMo container 26.06)", "gpt-oss-120b", "B300-SXM6-288GB", "cuda graph: transformer_engine ['attn']", false},
        {"Megatron-Bridge (NeMo container 25.11)", "llama3-8b", "GB200-NVL72", "cuda graph: local full_iteration", false},
        {"Megatron-Bridge (NeMo container 26.04)", "qwen3-30b-a3b", "GB200-NVL72", "cuda graph: full_iteration []", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tpp_run_facts facts = facts_of(rows[i].framework, 2026);
        facts.model.name = rows[i].model;
        facts.gpu = rows[i].gpu;
        facts.notes = rows[i].notes;
        facts.precision = "mxfp8";
        assert_int_equal(stack_of(&facts, h100()).fp8_attention, rows[i].fp8_attention);
    }
}

/* Grok-1 of dgxc v25.02 runs NeMo 24.12, whose padded experts are waited for. */
static void padded_experts_are_waited_for_before_25_04(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("NeMo/Megatron-Core (dgxc v25.02)", 2025);
    assert_true(stack_of(&facts, h100()).waits_when_padded);
    facts = facts_of("NeMo/Megatron-Core (dgxc v25.05.02)", 2025);
    assert_false(stack_of(&facts, h100()).waits_when_padded);
}

/* moe_router_fusion in all performance recipes of Megatron-Bridge, none of Moonlight's card. */
static void performance_recipes_fuse_the_router(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("Megatron-Bridge (NeMo container 26.02)", 2026);
    facts.notes = "Synthetic data; Megatron-Bridge perf recipe";
    assert_true(stack_of(&facts, h100()).fused_router);
    facts.notes = "20 steps; mean of iterations 11-20";
    assert_false(stack_of(&facts, h100()).fused_router);
}

/* Megatron-Core 0.16 in the containers from 26.02 on: "mscale is not supported by TE's fused RoPE" (rope_utils.py); 0.15 had no
 * such test. */
static void scaled_rotary_embeddings_are_not_fused(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("Megatron-Bridge (NeMo container 26.02)", 2026);
    facts.model.name = "gpt-oss-120b";
    assert_int_equal(stack_of(&facts, h100()).rope_kernel, TPP_KERNEL_EAGER);
    facts.framework = "Megatron-Bridge (NeMo container 25.11)";
    assert_int_equal(stack_of(&facts, h100()).rope_kernel, TPP_KERNEL_FUSED);
    facts.framework = "Megatron-Bridge (NeMo container 26.02)";
    facts.model.name = "llama3-70b";
    assert_int_equal(stack_of(&facts, h100()).rope_kernel, TPP_KERNEL_FUSED);
}

/* XLA fuses element-wise kernels and splits the cross entropy; no half rate as in plain PyTorch. */
static void graph_compilers_are_not_plain_torch(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("MaxText", 2024);
    const struct tpp_stack stack = stack_of(&facts, h100());
    assert_false(stack.tensor_parallel_other);
    assert_int_equal(stack.rope_kernel, TPP_KERNEL_FUSED);
    assert_int_equal(stack.lm_head_output, TPP_LM_HEAD_VOCABULARY_PARALLEL);
}

/* llm/llama/pretrain-llama2_7b-tp2sd4_stage2.json: "use_fused_rms_norm": true, "use_fused_rope": true; SwiGLU has no option
 * there. FlagPerf's Paddle runs say nothing of the kind. */
static void paddle_splits_its_linears_and_paddlenlp_fuses_kernels(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("PaddleNLP (AMP O2)", 2023);
    facts.model.gated = TPP_RUN_YES;
    struct tpp_stack stack = stack_of(&facts, a100());
    assert_int_equal(stack.norm_kernel, TPP_KERNEL_FUSED);
    assert_int_equal(stack.rope_kernel, TPP_KERNEL_FUSED);
    assert_int_equal(stack.activation_kernel, TPP_KERNEL_EAGER);
    facts.framework = "PaddlePaddle 2.5.1";
    stack = stack_of(&facts, a100());
    assert_true(stack.tensor_parallel_copies && stack.tensor_parallel_autograd && !stack.tensor_parallel_other);
    assert_int_equal(stack.norm_kernel, TPP_KERNEL_EAGER);
    assert_int_equal(stack.lm_head_output, TPP_LM_HEAD_VOCABULARY_PARALLEL);
}

/* S22: bf16 gradients reduced over all ranks under the last backward, the head split by vocabulary. */
static void internevo_reduces_bf16_gradients(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("InternEvo", 2023);
    facts.attention = "flash-attention";
    facts.parallel.has_zero_stage = true;
    facts.parallel.zero_stage = 1;
    const struct tpp_stack stack = stack_of(&facts, a100());
    struct tpp_strategy strategy = tpp_strategy_defaults();
    tpp_run_overlap_read(&facts, &stack, &strategy);
    assert_int_equal(stack.attention, TPP_ATTENTION_FLASH1);
    assert_int_equal(stack.reduce_bytes, 2);
    assert_int_equal(stack.lm_head_output, TPP_LM_HEAD_VOCABULARY_PARALLEL);
    assert_true(strategy.overlap_grad_reduce);
    assert_false(strategy.overlap_param_gather);
    assert_true(stack.broadcasts_parameters);
    facts.framework = "PaddleNLP";
    assert_false(stack_of(&facts, a100()).broadcasts_parameters);
}

static void overlap_follows_framework_and_notes(void **state)
{
    (void)state;
    static const struct {
        const char *framework, *notes;
        bool gradients, tensor;
    } cases[] = {
        {"Megatron-LM (2021)", "DDP implementation torch (overlapped).", true, false},
        {"Megatron-LM (2021)", "DDP implementation local (no overlap).", false, false},
        {"Megatron-LM main 2026-08", "grad overlap=True, param overlap=True", true, false},
        {"Megatron-LM 23e00ed (mcore 0.14+)", "no communication overlap (TP/P2P/grad overlap off)", false, false},
        {"NeMo/Megatron-Core (dgxc v25.04)", "", true, true},
        {"Megatron-DeepSpeed", "no overlap of communication; learned positions", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tpp_run_facts facts = facts_of(cases[i].framework, 2025);
        facts.notes = cases[i].notes;
        const struct tpp_stack stack = stack_of(&facts, h100());
        struct tpp_strategy strategy = tpp_strategy_defaults();
        strategy.tensor_parallel = 4;
        strategy.sequence_parallel = true;
        tpp_run_overlap_read(&facts, &stack, &strategy);
        if (strategy.overlap_grad_reduce != cases[i].gradients || strategy.tp_comm_overlap != cases[i].tensor)
            fail_msg("%s: %s", cases[i].framework, cases[i].notes);
    }
}

static void oneflow_overlaps_without_tensor_parallelism(void **state)
{
    (void)state;
    const struct tpp_run_facts facts = facts_of("OneFlow 0.3.5", 2021);
    const struct tpp_stack stack = stack_of(&facts, a100());
    for (uint32_t tensor = 1; tensor <= 8; tensor *= 8) {
        struct tpp_strategy strategy = tpp_strategy_defaults();
        strategy.tensor_parallel = tensor;
        tpp_run_overlap_read(&facts, &stack, &strategy);
        assert_int_equal(strategy.overlap_grad_reduce, tensor == 1);
        assert_false(strategy.overlap_param_gather);
    }
}

/* NeMo packs SQuAD for fine-tuning; packing for pretraining, or by others, leaves attention over the whole sequence. */
static void packed_fine_tuning_attends_within_documents(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("NeMo/Megatron-Core (dgxc v25.02)", 2025);
    facts.notes = "packed SFT data, seq 4096";
    facts.task = "sft";
    facts.model.sequence = 4096;
    assert_int_equal(tpp_run_packed_document_tokens(&facts), 256);
    facts.notes = "synthetic data";
    assert_int_equal(tpp_run_packed_document_tokens(&facts), 0);
    facts.notes = "packed sequences";
    facts.task = "pretrain";
    assert_int_equal(tpp_run_packed_document_tokens(&facts), 0);
    facts.task = "lora";
    facts.framework = "HF Trainer / fms-hf-tuning";
    assert_int_equal(tpp_run_packed_document_tokens(&facts), 0);
}

/* torchtitan's attention: torch's flash kernels until October 2025, but cuDNN's on Blackwell since May, which the selective policy
 * repeated until December; AMD's GPUs have none. */
static void torchtitan_asks_for_cudnn(void **state)
{
    (void)state;
    static const struct {
        uint64_t year;
        uint32_t capability;
        enum tpp_attention_kernel attention;
        bool repeats;
    } rows[] = {{2025, 9, TPP_ATTENTION_FLASH2, false}, {2026, 9, TPP_ATTENTION_FLASH3, false},
                {2025, 10, TPP_ATTENTION_FLASH3, true}, {2026, 10, TPP_ATTENTION_FLASH3, false},
                {2026, 0, TPP_ATTENTION_FLASH2, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tpp_run_facts facts = facts_of("torchtitan FSDP2 + torchao", rows[i].year);
        struct tpp_gpu gpu = h100();
        gpu.compute_capability = rows[i].capability;
        facts.attention = "SDPA";
        const struct tpp_stack stack = stack_of(&facts, gpu);
        assert_int_equal(stack.attention, rows[i].attention);
        assert_int_equal(stack.policy_repeats_attention, rows[i].repeats);
    }
}

/* Baichuan2-13B has ALiBi, the 7B is rotary; PaddleNLP makes a mask of it. */
static void paddlenlp_makes_a_mask_of_alibi(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("PaddleNLP (AMP O2)", 2023);
    facts.model.name = "baichuan-inc/Baichuan2-13B-Base";
    assert_true(stack_of(&facts, a100()).attention_bias);
    facts.model.name = "baichuan-inc/Baichuan2-7B-Base";
    assert_false(stack_of(&facts, a100()).attention_bias);
    facts.model.position = "alibi";
    assert_true(stack_of(&facts, a100()).attention_bias);
}

static void torchao_names_what_it_quantises(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("torchtitan FSDP2 + torchao", 2025);
    facts.notes = "torch.compile, bs 1, 100 steps";
    facts.gpu = "H100 (variant not stated)"; /* its table of H100: torchtitan 0.0.2, whose loss is not compiled */
    assert_int_equal(stack_of(&facts, h100()).loss_kernel, TPP_LOSS_COMPILED);
    facts.source = "torchao docs training.md, NVIDIA H100 table, rowwise";
    assert_int_equal(stack_of(&facts, h100()).loss_kernel, TPP_LOSS_EAGER);
    assert_int_equal(stack_of(&facts, h100()).quantised, TPP_QUANTISED_ALL);
    facts.source = "torchao moe_training README, Llama4 Scout end-to-end, mxfp8-linears";
    assert_int_equal(stack_of(&facts, h100()).quantised, TPP_QUANTISED_LINEARS);
    facts.source = "torchao moe_training README, Llama4 Scout end-to-end, mxfp8-grouped";
    assert_int_equal(stack_of(&facts, h100()).quantised, TPP_QUANTISED_EXPERTS);
    assert_int_equal(stack_of(&facts, h100()).row_scaling, TPP_ROW_SCALING_NONE);
    facts.precision_detail = "fp8 (rowwise, bf16 all-gather)";
    assert_int_equal(stack_of(&facts, h100()).row_scaling, TPP_ROW_SCALING_ALL);
    facts.precision_detail = "fp8 (rowwise, high-precision grad weight)";
    assert_int_equal(stack_of(&facts, h100()).row_scaling, TPP_ROW_SCALING_PLAIN_GRADIENT);
}

static void a_source_says_more_of_its_gpu(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("torchtitan FSDP2 + torchao", 2025);
    struct tpp_run_cluster cluster;
    char name[96];
    facts.gpu = "H100 (variant not stated)";
    tpp_run_gpu_name(&facts, name, sizeof name);
    assert_string_equal(name, "H100 (variant not stated)");
    facts.source = "torchao docs training.md, NVIDIA H100 table, rowwise";
    tpp_run_gpu_name(&facts, name, sizeof name);
    assert_true(tpp_run_cluster_read(name, "", 8, 8, &cluster));
    assert_string_equal(cluster.profile, "h100-500w-hbm2e");
    facts.gpu = "B200-SXM6-180GB";
    tpp_run_gpu_name(&facts, name, sizeof name);
    assert_true(tpp_run_cluster_read(name, "", 8, 8, &cluster));
    assert_string_equal(cluster.profile, "dgx-b200");
    facts.notes = "torch.compile, bs 1; \"power limited B200\"";
    tpp_run_gpu_name(&facts, name, sizeof name);
    assert_true(tpp_run_cluster_read(name, "", 8, 8, &cluster));
    assert_string_equal(cluster.profile, "b200-limited");
}

static void networks_are_read_from_their_text(void **state)
{
    (void)state;
    static const struct {
        const char *gpu, *network;
        uint64_t per_node;
        const char *profile;
        uint32_t num_nics;
        double nic; /* bytes per second */
    } cases[] = {
        {"A100-SXM4-80GB", "8x HDR200 InfiniBand per node (Selene)", 8, "dgx-a100-80g", 8, 25e9},
        {"A100-SXM4-80GB", "4x100 Gb/s Omni-Path per node", 8, "dgx-a100-80g", 4, 12.5e9},
        {"A100-SXM4-40GB", "1600 Gbps RoCE per node", 8, "dgx-a100-40g", 8, 25e9},
        {"H100-SXM5-80GB", "DGX H100 reference: 8x ConnectX-7 400 Gb/s (InfiniBand)", 8, "dgx-h100", 8, 50e9},
        {"MI300X-192GB", "400 Gb/s RoCE per GPU", 8, "mi300x", 8, 50e9},
        {"MI250 (per GCD, 64 GB)", "single node", 8, "mi250", 0, 0},
        {"MI325X-256GB", "8x 400 GbE Broadcom P1400G (bnxt_re) RoCE", 8, "mi325x", 8, 50e9},
        {"GH200-96GB", "4x 200 Gb/s InfiniBand", 4, "gh200-quad", 4, 25e9},
        {"A10G-24GB", "EFA 4x100", 8, "a10g-pcie", 4, 12.5e9},
        {"V100-SXM2-16GB", "1x100 Gb/s EDR InfiniBand per node", 8, "dgx1-v100-16g", 1, 12.5e9},
        {"H800-SXM5-80GB", "200 Gb/s InfiniBand (count per node not stated)", 8, "hgx-h800", 0, 0},
        {"GB200-NVL72", "one 400 Gb/s NIC per GPU (reference)", 4, "gb200-nvl72", 0, 0},
        {"H200-SXM5-141GB", "", 8, "dgx-h200", 0, 0},
        {"B300-SXM6-288GB", "", 8, "dgx-b300", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tpp_run_cluster cluster;
        assert_true(tpp_run_cluster_read(cases[i].gpu, cases[i].network, 64, cases[i].per_node, &cluster));
        assert_string_equal(cluster.profile, cases[i].profile);
        assert_int_equal(cluster.num_nics, cases[i].num_nics);
        CHECK_NUMBER(cluster.nic_bytes_per_second, cases[i].nic, 1e-9);
    }
}

static void an_unknown_gpu_has_no_profile(void **state)
{
    (void)state;
    struct tpp_run_cluster cluster;
    assert_false(tpp_run_cluster_read("MI355X-288GB", "", 8, 8, &cluster));
    assert_false(tpp_run_cluster_read("", "", 8, 8, &cluster));
}

/* A800: NVLink at 200 of 300 GB/s. A node of 4 GPUs keeps the NIC rate of a GPU: 8 NICs of 8 become 4 of 4. */
static void a_cluster_changes_only_what_differs(void **state)
{
    (void)state;
    struct tpp_run_cluster cluster;
    struct tpp_hardware hardware = {0};
    hardware.node.num_gpus = 8;
    hardware.network.num_nics = 8;
    hardware.network.nic_bytes_per_second = 25e9;
    hardware.node.bus_bytes_per_second[TPP_ALL_GATHER] = 225e9;
    assert_true(tpp_run_cluster_read("A800-SXM4-80GB", "", 64, 4, &cluster));
    tpp_run_cluster_apply(&cluster, &hardware);
    assert_int_equal(hardware.node.num_gpus, 4);
    assert_int_equal(hardware.network.num_nics, 4);
    CHECK_NUMBER(hardware.network.nic_bytes_per_second, 25e9, 1e-12);
    CHECK_NUMBER(hardware.node.bus_bytes_per_second[TPP_ALL_GATHER], 150e9, 1e-12);
}

/* Notes of Megatron-LM's functional tests. */
static void notes_say_what_is_deterministic(void **state)
{
    (void)state;
    struct tpp_run_facts facts = facts_of("Megatron-LM main 2026-08", 2026);
    facts.notes = "CI run, deterministic mode=False, grad overlap=True";
    assert_false(stack_of(&facts, a100()).deterministic);
    facts.notes = "CI run, deterministic mode=True, grad overlap=True";
    assert_true(stack_of(&facts, a100()).deterministic);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notes_say_what_is_deterministic),
        cmocka_unit_test(aleph_alpha_sheets_name_their_kernels),
        cmocka_unit_test(latent_attention_on_blackwell_waited_for_its_kernel),
        cmocka_unit_test(early_megatron_has_local_layers_and_dropout),
        cmocka_unit_test(transformer_engine_uses_the_gpus_own_generation),
        cmocka_unit_test(nemo_2_keeps_fp8_parameters),
        cmocka_unit_test(megatron_of_march_2021_sends_whole_tensors),
        cmocka_unit_test(automodel_has_no_policy_of_accelerate),
        cmocka_unit_test(automodel_has_fused_kernels_for_experts),
        cmocka_unit_test(bigscience_blocks_launches_from_mid_february),
        cmocka_unit_test(megatron_deepspeed_engine_follows_zero_and_stages),
        cmocka_unit_test(llm_foundry_travels_in_the_dtypes_of_its_mode),
        cmocka_unit_test(fms_acceleration_plug_ins_choose_the_kernels),
        cmocka_unit_test(recipes_choose_the_width_of_the_moments),
        cmocka_unit_test(cumulative_tables_keep_what_came_before),
        cmocka_unit_test(recipes_name_what_their_graphs_capture),
        cmocka_unit_test(bridge_captured_qwen_on_grace),
        cmocka_unit_test(performance_recipes_fuse_the_router),
        cmocka_unit_test(recipes_quantise_the_output_projection),
        cmocka_unit_test(recipes_quantise_attention),
        cmocka_unit_test(padded_experts_are_waited_for_before_25_04),
        cmocka_unit_test(scaled_rotary_embeddings_are_not_fused),
        cmocka_unit_test(graph_compilers_are_not_plain_torch),
        cmocka_unit_test(paddle_splits_its_linears_and_paddlenlp_fuses_kernels),
        cmocka_unit_test(internevo_reduces_bf16_gradients),
        cmocka_unit_test(overlap_follows_framework_and_notes),
        cmocka_unit_test(oneflow_overlaps_without_tensor_parallelism),
        cmocka_unit_test(packed_fine_tuning_attends_within_documents),
        cmocka_unit_test(torchtitan_asks_for_cudnn),
        cmocka_unit_test(paddlenlp_makes_a_mask_of_alibi),
        cmocka_unit_test(torchao_names_what_it_quantises),
        cmocka_unit_test(a_source_says_more_of_its_gpu),
        cmocka_unit_test(networks_are_read_from_their_text),
        cmocka_unit_test(an_unknown_gpu_has_no_profile),
        cmocka_unit_test(a_cluster_changes_only_what_differs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
