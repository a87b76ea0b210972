/* Kernel times against the worked example E10 of the specification and its measured rows. */
#include "costmodel/kernel_time.h"
#include "hwprofiles/profiles.h"
#include "tests/support/check_number.h"
#include "tests/support/shapes.h"
#include "tests/support/specification.h"

static struct tpp_gpu gpu_of(const char *profile)
{
    const bool is_a100 = strcmp(profile, "dgx-a100-80g") == 0;
    return tpp_specification_cluster(profile, is_a100 ? "a100-sxm4-80g" : "h100-sxm5-80g").gpu;
}

static void gemm_times_are_those_of_example_e10(void **state)
{
    (void)state;
    const struct tpp_gpu a100 = gpu_of("dgx-a100-80g"), h100 = gpu_of("dgx-h100");
    const struct tpp_gemm first = {.m = 8192, .n = 2304, .k = 6144, .batch = 1, .element_bytes = 2};
    const struct tpp_gemm second = {.m = 8192, .n = 7168, .k = 8192, .batch = 1, .element_bytes = 2};
    CHECK_NUMBER(tpp_gemm_seconds(&a100, &first), 1.0646e-3, 1e-4);
    CHECK_NUMBER(tpp_gemm_seconds(&h100, &second), 1.4694e-3, 1e-4);
}

/* 0.9 of the product's rate in a step: 1.4694 ms less 1.2 us of gap, over 0.9; the kernel alone stays as it was. */
static void a_step_sustains_less_than_a_burst(void **state)
{
    (void)state;
    struct tpp_gpu h100 = gpu_of("dgx-h100");
    const struct tpp_gemm product = {.m = 8192, .n = 7168, .k = 8192, .batch = 1, .element_bytes = 2};
    h100.gemm_sustained_fraction = 0.9;
    CHECK_NUMBER(tpp_gemm_burst_seconds(&h100, &product), 1.4694e-3, 1e-4);
    CHECK_NUMBER(tpp_gemm_seconds(&h100, &product), (1.4694e-3 - 1.2e-6) / 0.9 + 1.2e-6, 1e-4);
    /* Bound by memory: 2 (2 * 8192 * 16 + 8192^2) bytes at 0.85 * 3.35 TB/s, however fast the product is. */
    const struct tpp_gemm skinny = {.m = 16, .n = 8192, .k = 8192, .batch = 1, .element_bytes = 2};
    CHECK_NUMBER(tpp_gemm_seconds(&h100, &skinny), tpp_gemm_burst_seconds(&h100, &skinny), 0);
}

static void fp8_products_are_faster_and_pay_for_the_cast(void **state)
{
    (void)state;
    /* Second product of E10 by 5.1 "FP8", twice 0.865 of the rate for the depth of 8192 but not for the 160 beside it:
     * 1.4694 ms * (8192 / 1.73 + 160) / (8192 + 160) + 3 * 8192 * 8192 B / (0.85 * 3.35 TB/s) = 0.86124 + 0.07070 ms. */
    const struct tpp_gpu h100 = gpu_of("dgx-h100");
    const struct tpp_gemm product = {.m = 8192, .n = 7168, .k = 8192, .batch = 1, .element_bytes = 2, .number = TPP_NUMBER_FP8};
    CHECK_NUMBER(tpp_gemm_seconds(&h100, &product), 0.93194e-3, 1e-4);
}

static void block_scaled_products_are_quantised_once(void **state)
{
    (void)state;
    /* The same product with MXFP8: forward reads 2 B and writes two copies of 33/32 B an element, 4.0625 * 8192 * 8192 B
     * / (0.85 * 3.35 TB/s) = 0.09574 ms on top of 0.86124; the weight gradient multiplies copies that are there.
     * DeepSeek's blocks: 1.4694 ms * (8192 / (1.73 * 0.89) + 160) / 8352 = 0.96421 ms, and 0.09574. */
    const struct tpp_gpu h100 = gpu_of("dgx-h100");
    struct tpp_gemm product = {.m = 8192, .n = 7168, .k = 8192, .batch = 1, .element_bytes = 2, .number = TPP_NUMBER_MXFP8};
    CHECK_NUMBER(tpp_gemm_seconds(&h100, &product), 0.95698e-3, 1e-4);
    product.number = TPP_NUMBER_FP8_BLOCK;
    CHECK_NUMBER(tpp_gemm_seconds(&h100, &product), 1.05995e-3, 1e-4);
    product.reuses_copies = true;
    CHECK_NUMBER(tpp_gemm_seconds(&h100, &product), 0.96421e-3, 1e-4);
}

/* torchao quantises each operand of each product along its own dimension. By rows, on the product of E10 with 0.86 of the rate:
 * 1.4694 ms * (8192 / (1.73 * 0.86) + 160) / 8352 = 0.99688 ms, and forward 3 B of 8192 * 8192 + 7168 * 8192 elements, 377.5 MB
 * / (0.85 * 3.35 TB/s) = 0.13257 ms; input gradient 3 and 7, 612.4 MB, 0.21505; weight gradient 5 and 5, 629.1 MB, 0.22094.
 * MXFP8 reads 2 B and writes 33/32: 3.03125 B of both, 381.5 MB, 0.13395 ms on top of 0.86124. */
static void torchao_quantises_for_each_product(void **state)
{
    (void)state;
    const struct tpp_gpu h100 = gpu_of("dgx-h100");
    struct tpp_gemm product = {.m = 8192, .n = 7168, .k = 8192, .batch = 1, .element_bytes = 2, .number = TPP_NUMBER_FP8_ROWS};
    CHECK_NUMBER(tpp_gemm_seconds(&h100, &product), 0.99688e-3 + 0.13257e-3, 1e-4);
    product.casts = TPP_CASTS_DGRAD;
    CHECK_NUMBER(tpp_gemm_seconds(&h100, &product), 0.99688e-3 + 0.21505e-3, 1e-4);
    product.casts = TPP_CASTS_WGRAD;
    CHECK_NUMBER(tpp_gemm_seconds(&h100, &product), 0.99688e-3 + 0.22094e-3, 1e-4);
    product.number = TPP_NUMBER_MXFP8_APART;
    CHECK_NUMBER(tpp_gemm_seconds(&h100, &product), 0.86124e-3 + 0.13395e-3, 1e-4);
}

/* Best products of 8192 rows and more, TFLOP/s by depth, of one H100 SXM in bf16 and in FP8 with one scale (ai-dynamo/aiconfigurator,
 * gemm tables of TensorRT-LLM 1.3.0rc20); the cast of the operand is not in them. */
static void fp8_gains_less_at_short_depth(void **state)
{
    (void)state;
    const struct {
        double depth, bf16, fp8;
    } best[] = {{512, 660, 978}, {1024, 759, 1190}, {2048, 799, 1362}, {4096, 822, 1425}};
    const struct tpp_hardware h100 = shape_cluster("dgx-h100");
    for (size_t i = 0; i < sizeof best / sizeof best[0]; i++) {
        struct tpp_gemm product = {.m = 16384, .n = 16384, .k = best[i].depth, .batch = 1, .element_bytes = 2};
        const double bf16 = tpp_gemm_burst_seconds(&h100.gpu, &product);
        product.number = TPP_NUMBER_MXFP8;
        product.reuses_copies = true;
        CHECK_NUMBER(bf16 / tpp_gemm_burst_seconds(&h100.gpu, &product), best[i].fp8 / best[i].bf16, 0.06);
    }
}

static void one_group_is_a_product_like_others(void **state)
{
    (void)state;
    /* One expert a rank: what Transformer Engine starts is a plain product, without the loss of many. */
    const struct tpp_gpu h100 = gpu_of("dgx-h100");
    struct tpp_gemm product = {.m = 6144, .n = 8192, .k = 4096, .batch = 1, .kind = TPP_GEMM_WGRAD, .element_bytes = 2};
    CHECK_NUMBER(tpp_grouped_gemm_seconds(&h100, &product), tpp_gemm_seconds(&h100, &product), 0);
    product.batch = 2;
    assert_true(tpp_grouped_gemm_seconds(&h100, &product) > 1.3 * tpp_gemm_seconds(&h100, &product));
}

static void one_row_more_than_a_wave_costs_another_wave(void **state)
{
    (void)state;
    /* A100, n = k = 8192: m 1024 -> 1025 loses 12 % of the rate (published); here: 8 -> 9 tile rows of 128. */
    const struct tpp_gpu a100 = gpu_of("dgx-a100-80g");
    const struct tpp_gemm even = {.m = 1024, .n = 8192, .k = 8192, .batch = 1, .element_bytes = 2};
    struct tpp_gemm odd = even;
    odd.m = 1025;
    const double loss = tpp_gemm_seconds(&a100, &odd) / tpp_gemm_seconds(&a100, &even) - 1;
    assert_true(loss > 0.03 && loss < 0.20);
}

static void weight_gradients_pay_for_fp32_accumulation(void **state)
{
    (void)state;
    const struct tpp_gpu a100 = gpu_of("dgx-a100-80g");
    const struct tpp_gemm forward = {.m = 6144, .n = 6144, .k = 8192, .batch = 1, .element_bytes = 2};
    struct tpp_gemm wgrad = forward;
    wgrad.kind = TPP_GEMM_WGRAD;
    const double gap = a100.kernel_gap_seconds; /* wg_f = 0.95 */
    CHECK_NUMBER(tpp_gemm_seconds(&a100, &wgrad) - gap, (tpp_gemm_seconds(&a100, &forward) - gap) / 0.95, 1e-9);
}

static void skinny_products_are_bound_by_memory(void **state)
{
    (void)state;
    /* m = 1: 2 bytes * (k + n + k n) move: 8192 * 8192 * 2 = 134 MB over 0.88 * 2.039 TB/s = 74.8 us. */
    const struct tpp_gpu a100 = gpu_of("dgx-a100-80g");
    const struct tpp_gemm skinny = {.m = 1, .n = 8192, .k = 8192, .batch = 1, .element_bytes = 2};
    const double bytes = 2 * (8192.0 + 8192.0 + 8192.0 * 8192.0);
    assert_true(tpp_gemm_seconds(&a100, &skinny) >= bytes / (0.88 * 2.039e12));
}

static void flash_attention_times_are_those_of_example_e10(void **state)
{
    (void)state;
    const struct tpp_gpu h100 = gpu_of("dgx-h100");
    const struct tpp_attention attention = {.batch = 1, .heads = 8, .query_length = 8192, .key_length = 8192,
                                            .qk_head_dim = 128, .v_head_dim = 128, .causal = true,
                                            .kernel = TPP_ATTENTION_FLASH3};
    CHECK_NUMBER(tpp_flash_forward_seconds(&h100, &attention), 0.33545e-3, 1e-4);
    CHECK_NUMBER(tpp_flash_backward_seconds(&h100, &attention), 1.05462e-3, 1e-4);
}

/* SimuMax's table of B200 at 4096 tokens, causal: rates of forward and backward, of the full matrix, TFLOP/s. Backward counts
 * 2.5 times forward; equal FLOP apart from the dimensions, 320 against 256, which the rates have out already. */
static void wide_heads_of_b200_take_the_time_that_was_measured(void **state)
{
    (void)state;
    static const struct {
        double heads, plain[2], wide[2];
    } rows[] = {{128, {2242, 1871}, {1869, 1446}}, {64, {1961, 1641}, {1992, 1369}},
                {32, {1646, 1792}, {1775, 1373}}, {16, {1301, 1699}, {1433, 1334}}};
    struct tpp_hardware shipped, *const b200 = &shipped;
    assert_int_equal(tpp_hardware_find("dgx-b200", &shipped, NULL), TPP_OK);
    double plain = 0, wide = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        plain += rows[i].heads * (1 / rows[i].plain[0] + 2.5 / rows[i].plain[1]);
        wide += rows[i].heads * (1 / rows[i].wide[0] + 2.5 / rows[i].wide[1]);
    }
    struct tpp_attention attention = {.batch = 1, .heads = 128, .query_length = 4096, .key_length = 4096, .qk_head_dim = 128,
                                      .v_head_dim = 128, .causal = true, .kernel = TPP_ATTENTION_FLASH3};
    const double gaps = 6 * b200->gpu.kernel_gap_seconds;
    const double narrow_seconds =
        tpp_flash_forward_seconds(&b200->gpu, &attention) + tpp_flash_backward_seconds(&b200->gpu, &attention) - gaps;
    attention.qk_head_dim = 192;
    const double wide_seconds =
        tpp_flash_forward_seconds(&b200->gpu, &attention) + tpp_flash_backward_seconds(&b200->gpu, &attention) - gaps;
    CHECK_NUMBER(narrow_seconds / wide_seconds * (320.0 / 256), plain / wide, 0.01); /* 0.823 */
    attention.kernel = TPP_ATTENTION_FLASH2; /* nobody measured it: no ratio */
    const double wide2 = tpp_flash_forward_seconds(&b200->gpu, &attention) - 2 * b200->gpu.kernel_gap_seconds;
    attention.qk_head_dim = 128;
    const double narrow2 = tpp_flash_forward_seconds(&b200->gpu, &attention) - 2 * b200->gpu.kernel_gap_seconds;
    CHECK_NUMBER(wide2 / narrow2, 320.0 / 256, 1e-9);
}

/* 108 SMs of A100, heads of 128. Of 2 x 64 heads one block each, 128 in two rounds: 128 / 216 of the rate, for any length; 0.55 of it
 * was measured at 4k to 32k (cudnn-frontend). Of 2 x 8 heads 7 blocks each, 112 in two rounds, with 64 / 7 of the columns; and six
 * more accumulators of 16 x 8192 x 128, 4 bytes cleared and 4 read at 0.88 * 2.039 TB/s. */
static void one_order_of_sums_costs_backward_its_parallelism(void **state)
{
    (void)state;
    const struct tpp_gpu a100 = gpu_of("dgx-a100-80g"), h100 = gpu_of("dgx-h100");
    const double gaps = 4 * 1.2e-6;
    struct tpp_attention fast = {.batch = 2, .heads = 64, .query_length = 8192, .key_length = 8192, .qk_head_dim = 128,
                                 .v_head_dim = 128, .causal = true, .kernel = TPP_ATTENTION_FLASH2};
    struct tpp_attention ordered = fast;
    ordered.deterministic = true;
    CHECK_NUMBER((tpp_flash_backward_seconds(&a100, &fast) - gaps) / (tpp_flash_backward_seconds(&a100, &ordered) - gaps),
                 128 / 216.0, 1e-9);
    CHECK_NUMBER(tpp_flash_forward_seconds(&a100, &ordered), tpp_flash_forward_seconds(&a100, &fast), 0);
    fast.heads = ordered.heads = 8;
    const double more = 6 * 8 * 16.0 * 8192 * 128 / (0.88 * 2.039e12);
    CHECK_NUMBER((tpp_flash_backward_seconds(&a100, &fast) - gaps) /
                     (tpp_flash_backward_seconds(&a100, &ordered) - gaps - more),
                 64 * 16 / 108.0 / (2 * 64 / 7.0), 1e-9);
    CHECK_NUMBER(tpp_flash2_accumulators(108, 16, true), 7, 0);
    CHECK_NUMBER(tpp_flash2_accumulators(108, 128, true), 1, 0);
    CHECK_NUMBER(tpp_flash2_accumulators(108, 16, false), 1, 0);
    fast.kernel = ordered.kernel = TPP_ATTENTION_FLASH3; /* cuDNN, H200: 431.6 of 490.3 TFLOP/s on average over 2k to 16k */
    CHECK_NUMBER((tpp_flash_backward_seconds(&h100, &fast) - gaps) / (tpp_flash_backward_seconds(&h100, &ordered) - gaps),
                 (367.1 + 432.5 + 463.4 + 454.0) / (401.4 + 494.6 + 526.2 + 538.9), 0.01);
}

/* NVIDIA/cudnn-frontend, benchmark/sdpa_benchmark_training/results, 24 April 2026: cuDNN 9.22, two causal sequences of 4096, ms in bf16
 * and in MXFP8. Medians over lengths and both GPUs stand for each. */
static void mxfp8_attention_gains_what_was_measured(void **state)
{
    (void)state;
    static const struct {
        const char *profile;
        double qk_head_dim, v_head_dim, forward[2], backward[2];
    } rows[] = {
        {"gb200-nvl72", 128, 128, {0.391, 0.326}, {1.198, 1.305}}, {"gb300-nvl72", 128, 128, {0.323, 0.242}, {1.101, 1.203}},
        {"gb200-nvl72", 192, 128, {0.977, 0.714}, {3.383, 2.620}}, {"gb300-nvl72", 192, 128, {0.864, 0.546}, {3.127, 2.348}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tpp_hardware profile;
        assert_int_equal(tpp_hardware_find(rows[i].profile, &profile, NULL), TPP_OK);
        const double gap = profile.gpu.kernel_gap_seconds;
        struct tpp_attention attention = {.batch = 2, .heads = 64, .query_length = 4096, .key_length = 4096, .causal = true,
                                          .qk_head_dim = rows[i].qk_head_dim, .v_head_dim = rows[i].v_head_dim,
                                          .kernel = TPP_ATTENTION_FLASH3};
        const double forward = tpp_flash_forward_seconds(&profile.gpu, &attention) - 2 * gap;
        const double backward = tpp_flash_backward_seconds(&profile.gpu, &attention) - 4 * gap;
        attention.quantised = true;
        CHECK_NUMBER(forward / (tpp_flash_forward_seconds(&profile.gpu, &attention) - 2 * gap),
                     rows[i].forward[0] / rows[i].forward[1], 0.1);
        CHECK_NUMBER(backward / (tpp_flash_backward_seconds(&profile.gpu, &attention) - 4 * gap),
                     rows[i].backward[0] / rows[i].backward[1], 0.1);
    }
}

static void unaligned_head_dims_leave_the_tensor_cores(void **state)
{
    (void)state;
    /* 0.04 instead of 0.55 of the peak; 2 x d FLOP with x = 2^24 scores. */
    const struct tpp_gpu a100 = gpu_of("dgx-a100-80g");
    const double scores = 16777216, rows = 8192;
    CHECK_NUMBER(tpp_attention_gemm_seconds(&a100, scores, rows, 108), 2 * scores * 108 / (0.04 * 312e12), 1e-9);
    CHECK_NUMBER(tpp_attention_gemm_seconds(&a100, scores, rows, 256), 2 * scores * 256 / (0.55 * 312e12), 1e-9);
}

static void memory_bound_kernels_move_their_bytes(void **state)
{
    (void)state;
    /* 913 MB at 0.88 * 2.039e12 B/s = 508.83 us, times 1.2, plus 3 gaps of 1.2 us. */
    const struct tpp_gpu a100 = gpu_of("dgx-a100-80g");
    CHECK_NUMBER(tpp_memory_bound_seconds(&a100, 913e6, 1.2, 3), 913e6 / (0.88 * 2.039e12) * 1.2 + 3.6e-6, 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm_times_are_those_of_example_e10),
        cmocka_unit_test(a_step_sustains_less_than_a_burst),
        cmocka_unit_test(block_scaled_products_are_quantised_once),
        cmocka_unit_test(torchao_quantises_for_each_product),
        cmocka_unit_test(fp8_gains_less_at_short_depth),
        cmocka_unit_test(one_group_is_a_product_like_others),
        cmocka_unit_test(fp8_products_are_faster_and_pay_for_the_cast),
        cmocka_unit_test(one_row_more_than_a_wave_costs_another_wave),
        cmocka_unit_test(weight_gradients_pay_for_fp32_accumulation),
        cmocka_unit_test(skinny_products_are_bound_by_memory),
        cmocka_unit_test(flash_attention_times_are_those_of_example_e10),
        cmocka_unit_test(wide_heads_of_b200_take_the_time_that_was_measured),
        cmocka_unit_test(one_order_of_sums_costs_backward_its_parallelism),
        cmocka_unit_test(mxfp8_attention_gains_what_was_measured),
        cmocka_unit_test(unaligned_head_dims_leave_the_tensor_cores),
        cmocka_unit_test(memory_bound_kernels_move_their_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
