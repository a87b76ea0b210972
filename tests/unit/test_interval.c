/* The 90 % interval of a step. */
#include "costmodel/interval.h"
#include "tests/support/check_number.h"
#include "tests/support/shapes.h"

/* A Megatron step of 10 s on 8 Hopper GPUs: 6 s of products (one of them recomputation), 1 s of attention, 1 s of
 * memory-bound kernels, 1 s of tensor-parallel and 1 s of data-parallel communication, a tenth of it bubble. */
struct fixture {
    struct tpp_model model;
    struct tpp_hardware hardware;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_cost cost;
};

static void make(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    f->model = shape_preset("gpt3-175b");
    f->hardware = shape_cluster("dgx-h100");
    f->job = shape_job(8, 2048, 64);
    f->stack = shape_korthikanti_stack(&f->hardware.gpu, &f->job);
    f->stack.attention = TPP_ATTENTION_FLASH2;
    f->hardware.gpu.gemm_error_fraction = 0.2;
    f->hardware.gpu.attention_error_fraction = 0.3;
    f->hardware.gpu.memory_error_fraction = 0.1;
    f->hardware.node.collective_error_fraction = 0.4;
    f->hardware.network.collective_error_fraction = 0.5;
    f->cost.step_seconds = 10;
    f->cost.bubble_fraction = 0.1;
    f->cost.time_terms[TPP_TIME_GEMM] = 5;
    f->cost.time_terms[TPP_TIME_RECOMPUTE] = 1;
    f->cost.time_terms[TPP_TIME_ATTENTION] = 1;
    f->cost.time_terms[TPP_TIME_MEMORY_BOUND] = 1;
    f->cost.time_terms[TPP_TIME_TENSOR_COMM] = 1;
    f->cost.time_terms[TPP_TIME_GRADIENT_COMM] = 1;
}

static double fraction(const struct fixture *f)
{
    const struct tpp_interval interval = tpp_interval_make(&f->model, &f->hardware, &f->job, &f->stack);
    return tpp_interval_fraction(&interval, &f->cost);
}

static void parts_add_in_quadrature_by_their_share(void **state)
{
    (void)state;
    struct fixture f;
    make(&f);
    /* 0.6 * 0.2 / 2 = 0.06; 0.1 * 0.3 = 0.03; 0.1 * 0.1 = 0.01; one node: 0.2 * 0.4 = 0.08; any step 0.06; bubble 0.4 * 0.1
     * = 0.04: squares 36 + 9 + 1 + 64 + 36 + 16 = 162e-4. */
    CHECK_NUMBER(fraction(&f), 0.127279, 1e-5);
    /* On 64 GPUs the reduction crosses nodes: 0.1 * 0.4 and 0.1 * 0.5 instead: 36 + 9 + 1 + 16 + 25 + 36 + 16 = 139e-4. */
    f.job.num_gpus = 64;
    CHECK_NUMBER(fraction(&f), 0.117898, 1e-5);
}

static void a_regime_that_is_less_known_is_wider(void **state)
{
    (void)state;
    struct fixture f;
    make(&f);
    f.stack.launch_blocking = true; /* 162e-4 and 0.05 */
    CHECK_NUMBER(fraction(&f), 0.136748, 1e-5);
    f.job.precision = TPP_PRECISION_FP8; /* and 0.14: 162 + 25 + 196 = 383e-4 */
    CHECK_NUMBER(fraction(&f), 0.195704, 1e-5);
    f.hardware.gpu.gemm_error_fraction = 2;
    CHECK_NUMBER(fraction(&f), TPP_INTERVAL_MAX_FRACTION, 0);
}

static void better_measurements_make_it_narrower(void **state)
{
    (void)state;
    struct fixture f;
    make(&f);
    double *const errors[] = {&f.hardware.gpu.gemm_error_fraction, &f.hardware.gpu.attention_error_fraction,
                              &f.hardware.gpu.memory_error_fraction, &f.hardware.node.collective_error_fraction};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        const double before = fraction(&f);
        *errors[i] /= 2;
        assert_true(fraction(&f) < before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_add_in_quadrature_by_their_share),
        cmocka_unit_test(a_regime_that_is_less_known_is_wider),
        cmocka_unit_test(better_measurements_make_it_narrower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
