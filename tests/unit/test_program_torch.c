/* What Composer, autocast and transformers' loop over experts add to a layer or leave out of it, byte by byte; the sources are at the
 * formulas. */
#include "costmodel/program.h"
#include "tests/support/shapes.h"

/* A GPT of 2048 wide layers and biases, five sequences of 1,024 tokens. */
enum { TOKENS = 5120, HIDDEN = 2048, FFN = 8192, VOCABULARY = 50368 };

struct scene {
    struct tpp_hardware hardware;
    struct tpp_model model;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_program program;
};

static void open_scene(struct scene *scene, enum tpp_framework framework)
{
    memset(scene, 0, sizeof *scene);
    scene->hardware = shape_cluster("dgx-a100-80g");
    scene->model = shape_preset("gpt3-175b");
    scene->model.hidden_size = HIDDEN;
    scene->model.ffn_hidden_size = FFN;
    scene->model.num_attention_heads = scene->model.num_query_groups = 16;
    scene->model.head_dim = 128;
    scene->model.vocab_size = VOCABULARY;
    scene->job = shape_job(8, 1024, 40);
    tpp_stack_defaults(framework, &scene->hardware.gpu, &scene->job, &scene->stack);
}

static void build(struct scene *scene, enum tpp_layer_kind kind)
{
    const struct tpp_layer_axes axes = {.kind = kind, .tensor_parallel = 1, .context_parallel = 1, .expert_parallel = 1,
                                        .expert_tensor_parallel = 1, .micro_batch_size = 5,
                                        .untied_copy = kind == TPP_LAYER_HEAD};
    tpp_program_build(&scene->model, &scene->job, &scene->stack, &axes, &scene->program);
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

static double tensor(const struct scene *scene, const char *name)
{
    double bytes = 0;
    for (uint32_t i = 0; i < scene->program.num_tensors; i++)
        if (strcmp(scene->program.tensors[i].name, name) == 0)
            bytes += scene->program.tensors[i].bytes;
    return bytes;
}

/* The first product of that name in a section. */
static const struct tpp_gemm *product(const struct scene *scene, const char *name, enum tpp_section section)
{
    for (uint32_t i = 0; i < scene->program.num_ops; i++) {
        const struct tpp_op *op = &scene->program.ops[i];
        if (op->kind == TPP_OP_GEMM && op->section == section && strcmp(op->name, name) == 0)
            return &op->gemm;
    }
    fail_msg("no product %s", name);
    return NULL;
}

/* MPT's attention reads views of the packed product; autograd joins the three gradients, 2 + 2 bytes an element. */
static void views_of_q_k_v_are_not_copied(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_LLM_FOUNDRY);
    build(&scene, TPP_LAYER_DECODER);
    CHECK_NUMBER(traffic(&scene, "q, k, v layout", TPP_SECTION_FORWARD), 0, 0);
    CHECK_NUMBER(traffic(&scene, "q, k, v layout", TPP_SECTION_BACKWARD), 0, 0);
    CHECK_NUMBER(traffic(&scene, "q, k, v gradients", TPP_SECTION_BACKWARD), 4.0 * 3 * HIDDEN * TOKENS, 0);
    open_scene(&scene, TPP_FRAMEWORK_HF_TRAINER);
    build(&scene, TPP_LAYER_DECODER);
    CHECK_NUMBER(traffic(&scene, "q, k, v layout", TPP_SECTION_FORWARD), 4.0 * 3 * HIDDEN * TOKENS, 0);
    CHECK_NUMBER(traffic(&scene, "q, k, v gradients", TPP_SECTION_BACKWARD), 0, 0);
}

/* Two metrics of the loss, each a cast of 16-bit logits to fp32 (6 B) and their log-softmax (8 B), behind the loss. */
static void composer_computes_its_metrics_from_the_logits(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_LLM_FOUNDRY);
    scene.stack.loss_kernel = TPP_LOSS_FUSED; /* reads the logits twice */
    build(&scene, TPP_LAYER_HEAD);
    CHECK_NUMBER(traffic(&scene, "loss", TPP_SECTION_FORWARD), (4.0 + 2 * 14) * VOCABULARY * TOKENS, 0);
    open_scene(&scene, TPP_FRAMEWORK_HF_TRAINER);
    scene.stack.loss_kernel = TPP_LOSS_FUSED;
    build(&scene, TPP_LAYER_HEAD);
    CHECK_NUMBER(traffic(&scene, "loss", TPP_SECTION_FORWARD), 10.0 * VOCABULARY * TOKENS, 0);
}

/* FSDP under mixed precision: weight gradients come out in 16 bits; Megatron's product adds them to fp32. */
static void sharded_weight_gradients_are_16_bit(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_LLM_FOUNDRY);
    assert_int_equal(scene.stack.gradient_bytes, 4); /* of the shards */
    build(&scene, TPP_LAYER_DECODER);
    assert_int_equal(product(&scene, "mlp in", TPP_SECTION_WEIGHT)->kind, TPP_GEMM_FORWARD);
    open_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM);
    build(&scene, TPP_LAYER_DECODER);
    assert_int_equal(product(&scene, "mlp in", TPP_SECTION_WEIGHT)->kind, TPP_GEMM_WGRAD);
}

/* Where fp32 weights are gathered, autocast reads 4 and writes 2 bytes of each for its product, and back for its gradient. */
static void autocast_copies_gathered_fp32_weights(void **state)
{
    (void)state;
    struct scene scene;
    const double weights = (3.0 + 1) * HIDDEN * HIDDEN + 2.0 * HIDDEN * FFN;
    open_scene(&scene, TPP_FRAMEWORK_LLM_FOUNDRY);
    build(&scene, TPP_LAYER_DECODER);
    CHECK_NUMBER(traffic(&scene, "weight cast", TPP_SECTION_FORWARD), 0, 0);
    scene.stack.gathered_linear_bytes = scene.stack.gathered_rest_bytes = 4;
    build(&scene, TPP_LAYER_DECODER);
    CHECK_NUMBER(traffic(&scene, "weight cast", TPP_SECTION_FORWARD), 6 * weights, 1e-12);
    CHECK_NUMBER(traffic(&scene, "weight cast", TPP_SECTION_BACKWARD), 0, 0);
    CHECK_NUMBER(traffic(&scene, "weight cast", TPP_SECTION_WEIGHT), 6 * weights, 1e-12);
    CHECK_NUMBER(tpp_stack_gathered_bytes(&scene.stack, 7e6, 5e6), 28e6, 0);
}

/* Each of Mixtral's eight experts makes a gradient for all tokens, 2 bytes an element, and adds it, 6. */
static void a_loop_over_experts_sums_gradients_of_all_tokens(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_HF_TRAINER);
    scene.model = shape_preset("mixtral-8x7b");
    build(&scene, TPP_LAYER_MOE);
    CHECK_NUMBER(traffic(&scene, "expert loop gradients", TPP_SECTION_BACKWARD), 8.0 * 8 * TOKENS * 4096, 0);
    open_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM);
    scene.model = shape_preset("mixtral-8x7b");
    build(&scene, TPP_LAYER_MOE);
    CHECK_NUMBER(traffic(&scene, "expert loop gradients", TPP_SECTION_BACKWARD), 0, 0);
}

/* Deterministic: attention with 108 SMs for 5 x 16 heads has 2 accumulators of 4 bytes, one more than otherwise. Results of Transformer
 * Engine are filled first, two bytes an element: of norms 2 x 2048, q, k and v 6144, attention 2048, products 2048, 8192 and 2048 wide;
 * backward the MLP's are 8192 and 2048. */
static void deterministic_runs_fill_what_they_allocate(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM);
    build(&scene, TPP_LAYER_DECODER);
    const double before = tensor(&scene, "q, k, v gradients");
    CHECK_NUMBER(traffic(&scene, "fills", TPP_SECTION_FORWARD), 0, 0);
    tpp_stack_set_deterministic(&scene.stack, &scene.hardware.gpu);
    build(&scene, TPP_LAYER_DECODER);
    CHECK_NUMBER(tensor(&scene, "q, k, v gradients") - before, 4.0 * TOKENS * HIDDEN, 0);
    CHECK_NUMBER(traffic(&scene, "fills", TPP_SECTION_FORWARD), 2.0 * TOKENS * (4096 + 6144 + 2048 + 2048 + 8192 + 2048), 0);
    CHECK_NUMBER(traffic(&scene, "fills", TPP_SECTION_BACKWARD), 2.0 * TOKENS * (4096 + 6144 + 2048 + 2048 + 8192 + 2048), 0);
    for (uint32_t i = 0; i < scene.program.num_ops; i++)
        if (scene.program.ops[i].kind == TPP_OP_FLASH_BACKWARD)
            assert_true(scene.program.ops[i].attention.deterministic);
    scene.stack.transformer_engine = false;
    build(&scene, TPP_LAYER_DECODER);
    CHECK_NUMBER(traffic(&scene, "fills", TPP_SECTION_FORWARD), 0, 0);
}

/* Megatron-DeepSpeed's layers of Llama's kind. SwiGLU: silu 2 + 2, product 4 + 2; back two products 4 + 2 each, silu 4 + 2, both
 * halves' gradients joined 4 + 4; silu's result is kept. Rotary embedding: two products 2 + 2, half of the signs 1 + 1, the halves
 * joined 2 + 2, a sum 4 + 2; back as much. 4 groups of keys and values are copied to 16 heads, read once and written four times,
 * before that. */
static void megatron_deepspeed_is_eager_between_products(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_MEGATRON_DEEPSPEED);
    scene.model.gated_mlp = true;
    scene.model.position = TPP_POSITION_ROPE;
    build(&scene, TPP_LAYER_DECODER);
    CHECK_NUMBER(traffic(&scene, "activation", TPP_SECTION_FORWARD), 10.0 * TOKENS * FFN, 0);
    CHECK_NUMBER(traffic(&scene, "activation", TPP_SECTION_BACKWARD), 26.0 * TOKENS * FFN, 0);
    CHECK_NUMBER(traffic(&scene, "rotary embedding", TPP_SECTION_FORWARD), 20.0 * TOKENS * 2 * HIDDEN, 0);
    CHECK_NUMBER(traffic(&scene, "rotary embedding", TPP_SECTION_BACKWARD), 20.0 * TOKENS * 2 * HIDDEN, 0);
    CHECK_NUMBER(traffic(&scene, "repeated keys and values", TPP_SECTION_FORWARD), 0, 0);
    CHECK_NUMBER(tensor(&scene, "activation eager copy"), 2.0 * TOKENS * FFN, 0);
    CHECK_NUMBER(tensor(&scene, "attention norm eager copies"), 0, 0);
    scene.model.num_query_groups = 4;
    build(&scene, TPP_LAYER_DECODER);
    CHECK_NUMBER(traffic(&scene, "repeated keys and values", TPP_SECTION_FORWARD), 2 * 2.0 * TOKENS * (16 + 4) * 128, 0);
    CHECK_NUMBER(traffic(&scene, "repeated keys and values", TPP_SECTION_BACKWARD), 2 * 2.0 * TOKENS * (16 + 4) * 128, 0);
    CHECK_NUMBER(traffic(&scene, "rotary embedding", TPP_SECTION_FORWARD), 20.0 * TOKENS * 2 * HIDDEN, 0);
    CHECK_NUMBER(traffic(&scene, "q, k, v layout", TPP_SECTION_FORWARD), 4.0 * TOKENS * 3 * HIDDEN, 0);
    CHECK_NUMBER(tensor(&scene, "q, k, v"), 2.0 * TOKENS * 3 * HIDDEN, 0);
    open_scene(&scene, TPP_FRAMEWORK_MEGATRON_DEEPSPEED); /* a GELU is one kernel */
    build(&scene, TPP_LAYER_DECODER);
    CHECK_NUMBER(traffic(&scene, "activation", TPP_SECTION_BACKWARD), 6.0 * TOKENS * FFN, 0);
}

/* Norms 2, q k v and the projection out 4 with biases, MLP 3. Gate and up are one product in Megatron, two modules elsewhere: a matrix
 * and a bias more. */
static void plain_torch_has_gate_and_up_apart(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM);
    scene.model.gated_mlp = true;
    build(&scene, TPP_LAYER_DECODER);
    const double together = scene.program.num_tensors_of_parameters;
    open_scene(&scene, TPP_FRAMEWORK_OTHER);
    scene.model.gated_mlp = true;
    build(&scene, TPP_LAYER_DECODER);
    CHECK_NUMBER(scene.program.num_tensors_of_parameters - together, 2, 0);
    scene.model.mlp_bias = false;
    build(&scene, TPP_LAYER_DECODER);
    CHECK_NUMBER(scene.program.num_tensors_of_parameters, 2 + 4 + 3, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_of_q_k_v_are_not_copied),
        cmocka_unit_test(composer_computes_its_metrics_from_the_logits),
        cmocka_unit_test(sharded_weight_gradients_are_16_bit),
        cmocka_unit_test(autocast_copies_gathered_fp32_weights),
        cmocka_unit_test(megatron_deepspeed_is_eager_between_products),
        cmocka_unit_test(plain_torch_has_gate_and_up_apart),
        cmocka_unit_test(deterministic_runs_fill_what_they_allocate),
        cmocka_unit_test(a_loop_over_experts_sums_gradients_of_all_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
