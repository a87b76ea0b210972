/* Traffic of memory-bound kernels and tensors kept, byte by byte: tables 5.3, 15.2, 15.3 and 15.9, losses of 4.4, 15.4 and
 * 15.8. Expected numbers are the tables' entries times the tokens. */
#include "costmodel/program.h"
#include "tests/support/shapes.h"

/* Llama-3-8B, three sequences of 1,024 tokens on two tensor-parallel ranks: n = 3072, t = 2. */
enum { TOKENS = 3072, RANKS = 2, HIDDEN = 4096, HEADS = 32, GROUPS = 8, HEAD_DIM = 128, FFN = 14336, VOCABULARY = 128256 };

struct scene {
    struct tpp_model model;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_layer_axes axes;
    struct tpp_program program;
};

static void open_scene(struct scene *scene, enum tpp_framework framework)
{
    const struct tpp_hardware h100 = shape_cluster("dgx-h100");
    memset(scene, 0, sizeof *scene);
    scene->model = shape_preset("llama3.1-8b");
    scene->job = shape_job(RANKS, 1024, 3);
    tpp_stack_defaults(framework, &h100.gpu, &scene->job, &scene->stack);
    scene->axes = (struct tpp_layer_axes){
        .kind = TPP_LAYER_DECODER, .tensor_parallel = RANKS, .context_parallel = 1, .micro_batch_size = 3};
}

static void build(struct scene *scene, enum tpp_layer_kind kind)
{
    scene->axes.kind = kind;
    scene->axes.untied_copy = kind == TPP_LAYER_HEAD;
    tpp_program_build(&scene->model, &scene->job, &scene->stack, &scene->axes, &scene->program);
}

static double traffic(const struct scene *scene, const char *name, enum tpp_section section)
{
    double bytes = 0;
    for (uint32_t i = 0; i < scene->program.num_ops; i++) {
        const struct tpp_op *op = &scene->program.ops[i];
        if (op->kind == TPP_OP_MEMORY && op->section == section && strcmp(op->name, name) == 0)
            bytes += op->count * op->bytes;
    }
    return bytes;
}

static double kept(const struct scene *scene, const char *name)
{
    double bytes = 0;
    for (uint32_t i = 0; i < scene->program.num_tensors; i++)
        if (strcmp(scene->program.tensors[i].name, name) == 0 &&
            scene->program.tensors[i].life != TPP_TENSOR_SELECTED)
            bytes += scene->program.tensors[i].bytes;
    return bytes;
}

static void check_traffic(const struct scene *scene, const char *name, double forward, double backward)
{
    CHECK_NUMBER(traffic(scene, name, TPP_SECTION_FORWARD), forward, 0);
    CHECK_NUMBER(traffic(scene, name, TPP_SECTION_BACKWARD), backward, 0);
}

static void fused_kernels_move_the_bytes_of_table_5_3(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM);
    build(&scene, TPP_LAYER_DECODER);
    const double n = TOKENS, t = RANKS, rotated = (HEADS + GROUPS) * HEAD_DIM, qkv = (HEADS + 2 * GROUPS) * HEAD_DIM;
    check_traffic(&scene, "norm", 8.0 * HIDDEN * n, 12.0 * HIDDEN * n);
    check_traffic(&scene, "residual", 12.0 * HIDDEN * n, 8.0 * HIDDEN * n);
    check_traffic(&scene, "activation", 6 * FFN / t * n, 10 * FFN / t * n);
    check_traffic(&scene, "rotary embedding", 4 * rotated / t * n, 4 * rotated / t * n);
    check_traffic(&scene, "q, k, v layout", 4 * qkv / t * n, 4 * qkv / t * n);
    build(&scene, TPP_LAYER_EMBEDDING);
    check_traffic(&scene, "embedding", 6.0 * HIDDEN * n, 10.0 * HIDDEN * n);
    scene.axes.sequence_parallel = true; /* the norms and residuals of a rank see n / t tokens */
    scene.job.hidden_dropout = 0.1;
    build(&scene, TPP_LAYER_DECODER);
    check_traffic(&scene, "norm", 8.0 * HIDDEN * n / t, 12.0 * HIDDEN * n / t);
    check_traffic(&scene, "residual", 14.0 * HIDDEN * n / t, 10.0 * HIDDEN * n / t);
    build(&scene, TPP_LAYER_EMBEDDING);
    CHECK_NUMBER(traffic(&scene, "embedding", TPP_SECTION_FORWARD), 9.0 * HIDDEN * n, 0);
    scene.model.gated_mlp = false;
    build(&scene, TPP_LAYER_DECODER);
    check_traffic(&scene, "activation", 4 * FFN / t * n, 6 * FFN / t * n);
}

/* With checkpoints around every module the final norm, the head's product and the gather of its logits run again; the loss
 * is behind them. In plain full recomputation nothing of the head does. */
static void a_head_in_a_checkpoint_repeats_all_but_the_loss(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_OTHER);
    scene.axes.recompute_modules = TPP_MODULE_WHOLE_LAYER;
    for (int recomputes = 0; recomputes < 2; recomputes++) {
        scene.stack.recomputes_head = recomputes == 1;
        build(&scene, TPP_LAYER_HEAD);
        uint32_t repeated = 0;
        for (uint32_t i = 0; i < scene.program.num_ops; i++) {
            const struct tpp_op *op = &scene.program.ops[i];
            if (op->section == TPP_SECTION_FORWARD && (op->modules & TPP_MODULE_WHOLE_LAYER) != 0) {
                assert_true(strcmp(op->name, "norm") == 0 || strcmp(op->name, "head") == 0 || strcmp(op->name, "logits") == 0);
                repeated++;
            }
        }
        assert_int_equal(repeated, recomputes == 1 ? 3 : 0);
    }
}

/* But for RMSNorm, counted operation by operation in PyTorch's autograd: forward 6 + 8 + 4 + 8 + 6 + 4 bytes an element, backward
 * 12 for the weight, 6, 24 for the product with the root, 24 for the square, 12 and 6; the table has 34 and 66. */
static void eager_kernels_move_the_bytes_of_table_15_2(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_HF_TRAINER);
    build(&scene, TPP_LAYER_DECODER);
    const double n = TOKENS, t = RANKS, rotated = (HEADS + GROUPS) * HEAD_DIM;
    check_traffic(&scene, "norm", 2 * 36.0 * HIDDEN * n, 2 * 84.0 * HIDDEN * n);
    check_traffic(&scene, "activation", 10 * FFN / t * n, 16 * FFN / t * n);
    check_traffic(&scene, "rotary embedding", 20 * rotated / t * n, 24 * rotated / t * n);
    /* Kept besides, 15.9: 20 h for two norms, 2 f / t. */
    CHECK_NUMBER(kept(&scene, "attention norm eager copies") + kept(&scene, "mlp norm eager copies"),
                 20.0 * HIDDEN * n, 0);
    CHECK_NUMBER(kept(&scene, "activation eager copy"), 2 * FFN / t * n, 0);
}

static void unfused_attention_moves_and_keeps_its_scores(void **state)
{
    (void)state;
    /* Bytes of a score forward, backward and kept: 5.2 with and without dropout, 15.3, 15.9. Aleph-Alpha/scaling: bf16 to fp32
     * 2 + 4, fill 4 + 4, softmax 4 + 4, back to bf16 4 + 2; gradients 2 + 4, 4 + 4 + 4, 4 + 4, 4 + 2. */
    static const struct {
        enum tpp_attention_kernel kernel;
        double dropout, forward, backward, kept;
        bool in_place;
    } rows[] = {
        {TPP_ATTENTION_FUSED_SOFTMAX, 0, 4, 6, 2, false},
        {TPP_ATTENTION_FUSED_SOFTMAX, 0.1, 9, 11, 5, false},
        {TPP_ATTENTION_EAGER, 0, 33, 38, 7, false},
        {TPP_ATTENTION_EAGER, 0.1, 38, 43, 7, false},
        {TPP_ATTENTION_EAGER, 0, 28, 32, 7, true},
    };
    const double scores = 3.0 * HEADS / RANKS * 1024 * 1024;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct scene scene;
        open_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM);
        scene.stack.attention = rows[i].kernel;
        scene.stack.softmax_in_place = rows[i].in_place;
        scene.job.attention_dropout = rows[i].dropout;
        build(&scene, TPP_LAYER_DECODER);
        check_traffic(&scene, "softmax", rows[i].forward * scores, rows[i].backward * scores);
        CHECK_NUMBER(kept(&scene, "attention scores"), rows[i].kept * scores, 0);
    }
}

static void losses_move_and_hold_their_bytes_a_logit(void **state)
{
    (void)state;
    /* Bytes of a local logit forward, backward (5.3, 15.4) and at the peak (4.4, 15.4, 15.8). */
    static const struct {
        enum tpp_framework framework;
        enum tpp_loss_kernel kernel;
        enum tpp_lm_head_output output;
        double forward, backward, peak;
    } rows[] = {
        {TPP_FRAMEWORK_MEGATRON_LM, TPP_LOSS_UNFUSED, TPP_LM_HEAD_VOCABULARY_PARALLEL, 34, 14, 10},
        {TPP_FRAMEWORK_MEGATRON_LM, TPP_LOSS_FUSED, TPP_LM_HEAD_VOCABULARY_PARALLEL, 10, 4, 2},
        {TPP_FRAMEWORK_TORCHTITAN, TPP_LOSS_COMPILED, TPP_LM_HEAD_VOCABULARY_PARALLEL, 4, 4, 4},
        {TPP_FRAMEWORK_OTHER, TPP_LOSS_EAGER, TPP_LM_HEAD_GATHERED, 18, 12, 18},
        {TPP_FRAMEWORK_HF_TRAINER, TPP_LOSS_EAGER, TPP_LM_HEAD_VOCABULARY_PARALLEL, 18, 12, 14},
        {TPP_FRAMEWORK_HF_TRAINER, TPP_LOSS_FUSED, TPP_LM_HEAD_VOCABULARY_PARALLEL, 10, 4, 10},
        {TPP_FRAMEWORK_HF_TRAINER, TPP_LOSS_FUSED_LINEAR, TPP_LM_HEAD_VOCABULARY_PARALLEL, 10, 4, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const double logits =
            (double)TOKENS * VOCABULARY / (rows[i].output == TPP_LM_HEAD_GATHERED ? 1 : RANKS);
        struct scene scene;
        open_scene(&scene, rows[i].framework);
        scene.stack.loss_kernel = rows[i].kernel;
        scene.stack.lm_head_output = rows[i].output;
        build(&scene, TPP_LAYER_HEAD);
        check_traffic(&scene, "loss", rows[i].forward * logits, rows[i].backward * logits);
        CHECK_NUMBER(kept(&scene, "logits and loss"), rows[i].peak * logits, 0);
        if (rows[i].framework != TPP_FRAMEWORK_HF_TRAINER || rows[i].kernel == TPP_LOSS_FUSED_LINEAR)
            continue;
        scene.stack.keeps_logits = false; /* Transformers before 4.46: 2 bytes less */
        build(&scene, TPP_LAYER_HEAD);
        CHECK_NUMBER(kept(&scene, "logits and loss"), (rows[i].peak - 2) * logits, 0);
        /* GPTBigCode in bf16: logits and their copy, 2 bytes each; eager 2 of log-softmax; 4 in fp32 each, else */
        const bool fused = rows[i].kernel == TPP_LOSS_FUSED;
        scene.stack.loss_keeps_type = true;
        build(&scene, TPP_LAYER_HEAD);
        check_traffic(&scene, "loss", (fused ? 6 : 8) * logits, (fused ? 4 : 6) * logits);
        CHECK_NUMBER(kept(&scene, "logits and loss"), (fused ? 4 : 6) * logits, 0);
    }
}

/* The whole list of one layer, of a single rank, bytes a token. */
static double list_a_token(struct scene *scene)
{
    scene->axes.tensor_parallel = 1;
    build(scene, TPP_LAYER_DECODER);
    double bytes = 0;
    for (uint32_t i = 0; i < scene->program.num_tensors; i++) {
        const enum tpp_tensor_life life = scene->program.tensors[i].life;
        if (life == TPP_TENSOR_INPUT || life == TPP_TENSOR_SAVED || life == TPP_TENSOR_EAGER)
            bytes += scene->program.tensors[i].bytes;
    }
    return bytes / TOKENS;
}

/* Llama-3-8B, 4-bit, adapters on q, k, v and o with dropout, fused norms, eager SwiGLU. The rows of fms-acceleration on one GPU
 * with a loss fused to the head grow by 520.4 kB a token (39.988 - 14.411 GB between 4 and 16 sequences of 4096): the inputs of
 * 32 layers, 262.1 kB, and one layer that is run again, 258.2. */
static void frozen_layers_keep_what_their_adapters_read(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_HF_TRAINER);
    scene.stack.norm_kernel = TPP_KERNEL_FUSED;
    scene.job.task = TPP_TASK_QLORA;
    scene.job.lora_targets = TPP_LORA_ATTENTION;
    /* Two residuals and a norm's output, q k v, attention's output and its 4 bytes a head; gate, up and silu; of the MLP's frozen
     * products neither input. */
    const double attention = 3 * 2.0 * HIDDEN + 2.0 * (HEADS + 2 * GROUPS) * HEAD_DIM + 2.0 * HIDDEN + 4 * HEADS;
    const double plain = attention + 3 * 2.0 * FFN, dropped = 4 * 3.0 * HIDDEN;
    CHECK_NUMBER(list_a_token(&scene), plain, 0);
    scene.job.lora_dropout = 0.1; /* four inputs after dropout, 2 bytes and the mask's one */
    CHECK_NUMBER(list_a_token(&scene), plain + dropped, 0);
    CHECK_NUMBER(kept(&scene, "adapter inputs after dropout"), dropped * TOKENS, 0);
    /* With the gradients of gate, up and product, less the input that the list counts for every layer. */
    CHECK_NUMBER(list_a_token(&scene) + 3 * 2.0 * FFN - 2.0 * HIDDEN, 258.2e3, 0.01);
    scene.job.lora_targets = TPP_LORA_ALL_LINEAR; /* the norm's output, the product; two and one adapters more */
    CHECK_NUMBER(list_a_token(&scene), plain + 2.0 * HIDDEN + 2.0 * FFN + dropped + 3.0 * (2 * HIDDEN + FFN), 0);
}

/* Adapters of rank 16 on q, k, v and o, on one rank: 4 inputs of h, outputs of h, two of keys and values, h. PEFT 0.13.2 over bf16
 * weights: x to fp32 (6 B), dropout (4 read, 4 written, mask 1), down for the product (6); lora_B's output times the scaling (4)
 * and the sum (6). Backward: 4 and 6, 9, 6, and the sum of the input's gradients (6). Over quantised weights x stays: dropout 5. */
static void adapters_move_their_inputs_and_outputs(void **state)
{
    (void)state;
    static const struct {
        enum tpp_task task;
        bool peft;
        double dropout, input, output_forward, output_backward;
    } rows[] = {
        {TPP_TASK_LORA, true, 0.1, 21, 10, 4}, {TPP_TASK_LORA, true, 0, 12, 10, 4}, {TPP_TASK_QLORA, true, 0.1, 5, 10, 4},
        {TPP_TASK_QLORA, true, 0, 0, 10, 4},   {TPP_TASK_LORA, false, 0.1, 5, 6, 0},
    };
    const double inputs = 4.0 * HIDDEN * TOKENS, outputs = (2.0 * HIDDEN + 2.0 * GROUPS * HEAD_DIM) * TOKENS;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct scene scene;
        open_scene(&scene, TPP_FRAMEWORK_HF_TRAINER);
        assert_true(scene.stack.peft_adapters);
        scene.stack.peft_adapters = rows[i].peft;
        scene.axes.tensor_parallel = 1;
        scene.job.task = rows[i].task;
        scene.job.lora_targets = TPP_LORA_ATTENTION;
        scene.job.lora_dropout = rows[i].dropout;
        build(&scene, TPP_LAYER_DECODER);
        check_traffic(&scene, "adapter input", rows[i].input * inputs, rows[i].input * inputs);
        check_traffic(&scene, "adapter sum", rows[i].output_forward * outputs, rows[i].output_backward * outputs + 6 * inputs);
    }
    struct scene megatron; /* one sum of a linear's output, one of its input's gradient */
    open_scene(&megatron, TPP_FRAMEWORK_NEMO);
    megatron.axes.tensor_parallel = 1;
    megatron.job.task = TPP_TASK_LORA;
    megatron.job.lora_targets = TPP_LORA_ATTENTION;
    build(&megatron, TPP_LAYER_DECODER);
    check_traffic(&megatron, "adapter input", 0, 0);
    check_traffic(&megatron, "adapter sum", 6 * outputs, 2 * 6.0 * HIDDEN * TOKENS);
}

/* torchtitan's selective policy saves every second aten.mm, which it sees before torchao's tensors turn it into a scaled
 * product: tables of Llama-3 8B show the same peak for bf16 and FP8 (47.65 and 47.77 GiB; 33.71 and 33.38). */
static void the_selective_policy_saves_products_of_every_precision(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_TORCHTITAN);
    const enum tpp_precision precisions[] = {TPP_PRECISION_BF16, TPP_PRECISION_FP8, TPP_PRECISION_MXFP8};
    for (size_t p = 0; p < sizeof precisions / sizeof precisions[0]; p++) {
        scene.job.precision = precisions[p];
        scene.axes.tensor_parallel = 1;
        build(&scene, TPP_LAYER_DECODER);
        double selected = 0;
        for (uint32_t i = 0; i < scene.program.num_tensors; i++)
            if (scene.program.tensors[i].life == TPP_TENSOR_SELECTED)
                selected += scene.program.tensors[i].bytes / TOKENS;
        const double core = 2.0 * HIDDEN + 4 * HEADS;
        const double products = 2.0 * HIDDEN + 2.0 * GROUPS * HEAD_DIM + 2.0 * FFN + 2.0 * HIDDEN; /* q, v, gate, down */
        CHECK_NUMBER(selected, core + products, 0);
    }
}

/* Megatron-Core's fp8_output_proj: all three products of the head are quantised, those of MTP blocks' heads too; without it none. */
static void products_of_a_quantised_head_are_the_layers(void **state)
{
    (void)state;
    const struct tpp_model model = shape_preset("deepseek-v3");
    const struct tpp_hardware gb200 = shape_cluster("gb200-nvl72");
    const struct tpp_layer_axes axes = {.kind = TPP_LAYER_HEAD, .tensor_parallel = 1, .context_parallel = 1,
                                        .expert_parallel = 64, .expert_tensor_parallel = 1, .micro_batch_size = 1,
                                        .untied_copy = true};
    struct tpp_job job = shape_job(64, 4096, 64);
    struct tpp_stack stack;
    job.precision = TPP_PRECISION_MXFP8;
    job.mtp_num_layers = 1;
    tpp_stack_defaults(TPP_FRAMEWORK_NEMO, &gb200.gpu, &job, &stack);
    for (int quantised = 0; quantised < 2; quantised++) {
        struct tpp_program program;
        uint32_t products = 0;
        stack.fp8_head = quantised == 1;
        tpp_program_build(&model, &job, &stack, &axes, &program);
        for (uint32_t i = 0; i < program.num_ops; i++)
            if (program.ops[i].kind == TPP_OP_GEMM && strcmp(program.ops[i].name, "head") == 0) {
                assert_int_equal(program.ops[i].gemm.number, quantised ? TPP_NUMBER_MXFP8 : TPP_NUMBER_PLAIN);
                products++;
            }
        assert_int_equal(products, 2 * 3);
    }
}

/* Before its 0.2.1 the policy's list lacks cuDNN's attention: its forward runs again, and neither its result nor the sums are kept. The
 * change to cuDNN on B200 took 1.8 of 46.39 GiB (pytorch/torchtitan pull request 1196): 32 layers of 8192 x 4096 x 2 B are 2 GiB. */
static void the_selective_policy_may_not_know_the_attention(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_TORCHTITAN);
    scene.axes.tensor_parallel = 1;
    scene.axes.recompute_modules = TPP_MODULE_UNSAVED;
    for (int repeats = 0; repeats < 2; repeats++) {
        scene.stack.policy_repeats_attention = repeats != 0;
        build(&scene, TPP_LAYER_DECODER);
        double selected = 0;
        uint32_t again = 0;
        for (uint32_t i = 0; i < scene.program.num_tensors; i++)
            if (scene.program.tensors[i].life == TPP_TENSOR_SELECTED)
                selected += scene.program.tensors[i].bytes / TOKENS;
        for (uint32_t i = 0; i < scene.program.num_ops; i++)
            if (scene.program.ops[i].kind == TPP_OP_FLASH_FORWARD)
                again |= scene.program.ops[i].modules & TPP_MODULE_UNSAVED;
        const double products = 2.0 * HIDDEN + 2.0 * GROUPS * HEAD_DIM + 2.0 * FFN + 2.0 * HIDDEN; /* q, v, gate, down */
        CHECK_NUMBER(selected, products + (repeats ? 0 : 2.0 * HIDDEN + 4 * HEADS), 0);
        assert_int_equal(again, repeats ? TPP_MODULE_UNSAVED : 0);
    }
}

/* Flash attention under a dense mask: on two ranks 16 heads of three sequences have 3 x 16 x 1024^2 scores, 2 B each: written and read
 * forward, read backward, kept. */
static void a_mask_of_every_head_is_made_and_read(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_OTHER);
    build(&scene, TPP_LAYER_DECODER);
    check_traffic(&scene, "attention bias", 0, 0);
    scene.stack.attention_bias = true;
    build(&scene, TPP_LAYER_DECODER);
    const double scores = 3.0 * HEADS / RANKS * 1024 * 1024;
    check_traffic(&scene, "attention bias", 4 * scores, 2 * scores);
    CHECK_NUMBER(kept(&scene, "attention bias"), 2 * scores, 0);
    for (uint32_t i = 0; i < scene.program.num_ops; i++)
        if (scene.program.ops[i].kind == TPP_OP_FLASH_FORWARD)
            assert_false(scene.program.ops[i].attention.causal);
}

/* torchao converts linear layers and grouped products apart, and scales by rows with or without the weight gradient. */
static void torchao_quantises_what_it_is_told_to(void **state)
{
    (void)state;
    struct scene scene;
    static const struct {
        enum tpp_quantised quantised;
        enum tpp_row_scaling rows;
        enum tpp_precision precision;
        enum tpp_number forward, weight, expert;
    } rows[] = {
        {TPP_QUANTISED_ALL, 0, TPP_PRECISION_MXFP8, TPP_NUMBER_MXFP8_APART, TPP_NUMBER_MXFP8_APART, TPP_NUMBER_MXFP8_APART},
        {TPP_QUANTISED_LINEARS, 0, TPP_PRECISION_MXFP8, TPP_NUMBER_MXFP8_APART, TPP_NUMBER_MXFP8_APART, TPP_NUMBER_PLAIN},
        {TPP_QUANTISED_EXPERTS, 0, TPP_PRECISION_MXFP8, TPP_NUMBER_PLAIN, TPP_NUMBER_PLAIN, TPP_NUMBER_MXFP8_APART},
        {TPP_QUANTISED_LINEARS, TPP_ROW_SCALING_ALL, TPP_PRECISION_FP8, TPP_NUMBER_FP8_ROWS, TPP_NUMBER_FP8_ROWS, TPP_NUMBER_PLAIN},
        {TPP_QUANTISED_LINEARS, TPP_ROW_SCALING_PLAIN_GRADIENT, TPP_PRECISION_FP8, TPP_NUMBER_FP8_ROWS, TPP_NUMBER_PLAIN,
         TPP_NUMBER_PLAIN},
    };
    open_scene(&scene, TPP_FRAMEWORK_TORCHTITAN);
    scene.model = shape_preset("mixtral-8x7b");
    scene.axes.tensor_parallel = scene.axes.expert_parallel = scene.axes.expert_tensor_parallel = 1;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        scene.stack.quantised = rows[i].quantised;
        scene.stack.row_scaling = rows[i].rows;
        scene.job.precision = rows[i].precision;
        build(&scene, TPP_LAYER_MOE);
        for (uint32_t k = 0; k < scene.program.num_ops; k++) {
            const struct tpp_op *op = &scene.program.ops[k];
            if (strcmp(op->name, "qkv") == 0)
                assert_int_equal(op->gemm.number, op->section == TPP_SECTION_WEIGHT ? rows[i].weight : rows[i].forward);
            if (op->kind == TPP_OP_GROUPED_GEMM)
                assert_int_equal(op->gemm.number, rows[i].expert);
        }
    }
}

/* Transformer Engine keeps the inputs of FP8 products as it quantised them: a byte, MXFP8 with a scale for 32, blocks with an
 * fp32 scale for 128; the projection keeps its own beside flash attention's result. Without Transformer Engine all stays in 16 bits. */
static void inputs_of_fp8_products_are_kept_in_a_byte(void **state)
{
    (void)state;
    static const struct {
        enum tpp_precision precision;
        double bytes;
    } rows[] = {{TPP_PRECISION_BF16, 2}, {TPP_PRECISION_FP8, 1}, {TPP_PRECISION_MXFP8, 1 + 1.0 / 32},
                {TPP_PRECISION_FP8_BLOCK, 1 + 4.0 / 128}};
    struct scene scene;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        open_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM);
        scene.job.precision = rows[i].precision;
        build(&scene, TPP_LAYER_DECODER);
        CHECK_NUMBER(kept(&scene, "activation output"), rows[i].bytes * FFN / RANKS * TOKENS, 0);
        CHECK_NUMBER(kept(&scene, "mlp norm output"), rows[i].bytes * HIDDEN * TOKENS, 0);
        CHECK_NUMBER(kept(&scene, "quantised attention output"), i == 0 ? 0 : rows[i].bytes * HIDDEN / RANKS * TOKENS, 0);
    }
    scene.stack.transformer_engine = false;
    build(&scene, TPP_LAYER_DECODER);
    CHECK_NUMBER(kept(&scene, "activation output"), 2.0 * FFN / RANKS * TOKENS, 0);
}

static void quantised_weights_are_read_in_every_pass(void **state)
{
    (void)state;
    /* 7 bytes for each of the 6,979,321,856 / 32 quantised weights of a layer, half of them on a rank; where 15.8 has 4.5, see
     * program_linear.c. Mixtral 8x7B: half of 41,943,040 of the attention and all of 8 x 3 x 4096 x 14336 of the experts. */
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_HF_TRAINER);
    scene.job.task = TPP_TASK_QLORA;
    build(&scene, TPP_LAYER_DECODER);
    const double bytes = 7 * 6979321856.0 / 32 / RANKS;
    check_traffic(&scene, "dequantise", bytes, bytes);
    scene.model = shape_preset("mixtral-8x7b");
    scene.axes.expert_parallel = scene.axes.expert_tensor_parallel = 1;
    build(&scene, TPP_LAYER_MOE);
    const double with_experts = 7 * (41943040.0 / RANKS + 1409286144.0);
    check_traffic(&scene, "dequantise", with_experts, with_experts);
    check_traffic(&scene, "activation", 10.0 * FFN * 2 * TOKENS, 16.0 * FFN * 2 * TOKENS); /* eager, two experts a token */
}

/* Counted by hand, bytes a token on one rank, h 4096, f 14336, qkv 6144, rotated 5120, adapters on all. Forward: 3 casts of h for q,
 * k, v, 2 of qkv, 20 rotated, 10 for 3 h of adapters, 10 h of sums less 16 h of norms; 2 + 1 casts of h and of f, 10 f of the
 * activation, 10 for 2 h + f of adapters; and 12 for a weight of q, k, v, gate, up and down. Backward: 24 rotated, 20 h of sums, 6 h
 * more in the MLP, 16 f; no weights. */
static void fp32_states_are_cast_around_quantised_products(void **state)
{
    (void)state;
    struct scene scene;
    const double h = HIDDEN, f = FFN, qkv = 6144, rotated = 5120;
    const double both = 18 * h + 12 * qkv + 30 * h + 18 * h + 18 * f + 10 * (2 * h + f);
    open_scene(&scene, TPP_FRAMEWORK_HF_TRAINER);
    scene.job.task = TPP_TASK_QLORA;
    scene.axes.tensor_parallel = 1;
    build(&scene, TPP_LAYER_DECODER);
    check_traffic(&scene, "casts of fp32 states", 0, 0);
    CHECK_NUMBER(kept(&scene, "layer input"), 2 * h * TOKENS, 0);
    scene.stack.upcasts_states = true;
    build(&scene, TPP_LAYER_DECODER);
    check_traffic(&scene, "casts of fp32 states",
                  (both + 20 * rotated - 6 * h + 10 * f) * TOKENS + 12 * (qkv * h + 3 * h * f),
                  (both + 24 * rotated + 4 * h + 6 * h + 16 * f) * TOKENS);
    CHECK_NUMBER(kept(&scene, "layer input"), 4 * h * TOKENS, 0);
}

/* Nothing in backward needs the MLP's output, nor the sum with it: the last product keeps its input. */
static void a_checkpoint_that_stops_early_leaves_out_the_last_product(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_LLM_FOUNDRY);
    scene.axes.tensor_parallel = 1;
    for (int frozen = 0; frozen < 2; frozen++) {
        scene.job.task = frozen == 1 ? TPP_TASK_LORA : TPP_TASK_PRETRAIN; /* adapters come after the product */
        build(&scene, TPP_LAYER_DECODER);
        double skipped = 0;
        for (uint32_t i = 0; i < scene.program.num_ops; i++) {
            const struct tpp_op *op = &scene.program.ops[i];
            skipped += op->skipped_fraction;
            if (op->skipped_fraction > 0)
                assert_true(op->section == TPP_SECTION_FORWARD &&
                            (strcmp(op->name, "mlp out") == 0 || strcmp(op->name, "residual") == 0));
        }
        CHECK_NUMBER(skipped, frozen == 1 ? 0 : 1.5, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_kernels_move_the_bytes_of_table_5_3),
        cmocka_unit_test(eager_kernels_move_the_bytes_of_table_15_2),
        cmocka_unit_test(a_head_in_a_checkpoint_repeats_all_but_the_loss),
        cmocka_unit_test(unfused_attention_moves_and_keeps_its_scores),
        cmocka_unit_test(losses_move_and_hold_their_bytes_a_logit),
        cmocka_unit_test(frozen_layers_keep_what_their_adapters_read),
        cmocka_unit_test(adapters_move_their_inputs_and_outputs),
        cmocka_unit_test(the_selective_policy_saves_products_of_every_precision),
        cmocka_unit_test(products_of_a_quantised_head_are_the_layers),
        cmocka_unit_test(the_selective_policy_may_not_know_the_attention),
        cmocka_unit_test(a_mask_of_every_head_is_made_and_read),
        cmocka_unit_test(torchao_quantises_what_it_is_told_to),
        cmocka_unit_test(inputs_of_fp8_products_are_kept_in_a_byte),
        cmocka_unit_test(quantised_weights_are_read_in_every_pass),
        cmocka_unit_test(fp32_states_are_cast_around_quantised_products),
        cmocka_unit_test(a_checkpoint_that_stops_early_leaves_out_the_last_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
