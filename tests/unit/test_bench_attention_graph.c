/* Does cuDNN know our graph of attention as one of its fused kernels? It answers for a GPU that is described to it, so
 * this needs none. Its kernels are compiled when they are used, for which it wants a driver library to be loaded; the
 * toolkit's stand-in is enough to be asked, and nothing is run. */
#include "calibrate/bench/attention_graph.h"
#include "tests/support/check_number.h"

#include <dlfcn.h>
#include <stdio.h>

/* cuDNN's own names of what cudaGetDeviceProperties says of a GPU. */
static const char *describe(char *text, size_t size, int capability, int num_sms, int shared_bytes, double memory_bytes)
{
    snprintf(text, size,
             "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"deviceVer\":%d,"
             "\"multiProcessorCount\":%d,\"maxSharedMemoryPerBlockOptin\":%d,\"totalGlobalMem\":%.0f,"
             "\"driverVer\":13000,\"regsPerBlock\":65536,\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,"
             "\"l2CacheSize\":52428800,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
             "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"pciDeviceId\":0,\"maxCtasPerSM\":32,"
             "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"isTccDriver\":0,\"supportCoopLaunch\":1,"
             "\"deviceName\":\"described\",\"cudaDeviceId\":0}",
             capability, num_sms, shared_bytes, memory_bytes);
    return text;
}

static size_t count(struct tpp_attention_library *library, const struct tpp_bench_attention *shape,
                    enum tpp_attention_pass pass)
{
    size_t found = 0;
    struct tpp_error err = {0};
    if (tpp_attention_count_kernels(library, shape, TPP_BENCH_BF16, pass, &found, &err) != TPP_OK) {
        print_message("# %s: %s\n", err.where, err.message);
        return 0;
    }
    return found;
}

/* What every shape of these must have on an A100, an H200 and a B200. */
static const struct tpp_bench_attention shapes[] = {
    {.batch = 2, .num_heads = 16, .num_query_groups = 16, .length = 1024, .head_dim = 128, .is_causal = true},
    {.batch = 2, .num_heads = 16, .num_query_groups = 16, .length = 1024, .head_dim = 128, .is_causal = false},
    {.batch = 1, .num_heads = 32, .num_query_groups = 8, .length = 4096, .head_dim = 128, .is_causal = true},
    {.batch = 1, .num_heads = 16, .num_query_groups = 16, .length = 512, .head_dim = 64, .is_causal = true},
    {.batch = 1, .num_heads = 8, .num_query_groups = 1, .length = 131072, .head_dim = 128, .is_causal = true},
};

static void check_device(int capability, int num_sms, int shared_bytes, double memory_bytes)
{
    char text[1024];
    struct tpp_error err = {0};
    struct tpp_attention_library *library;
    describe(text, sizeof text, capability, num_sms, shared_bytes, memory_bytes);
    const enum tpp_code code = tpp_attention_library_new_for(text, &library, &err);
    if (code != TPP_OK) {
        print_message("# %s\n", err.message);
    }
    assert_int_equal(code, TPP_OK);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        assert_true(count(library, &shapes[i], TPP_ATTENTION_FORWARD) > 0);
        assert_true(count(library, &shapes[i], TPP_ATTENTION_BACKWARD) > 0);
    }
    /* It does not say yes to everything: 127 is no multiple of 8, and the gradient wants heads of 256 at most. */
    struct tpp_bench_attention strange = shapes[0];
    strange.head_dim = 127;
    assert_int_equal(count(library, &strange, TPP_ATTENTION_FORWARD), 0);
    strange.head_dim = 1000;
    assert_int_equal(count(library, &strange, TPP_ATTENTION_BACKWARD), 0);
    tpp_attention_library_free(library);
}

static void cudnn_knows_the_graph_on_an_a100(void **state)
{
    (void)state;
    check_device(800, 108, 166912, 85e9);
}

static void cudnn_knows_the_graph_on_an_h200(void **state)
{
    (void)state;
    check_device(900, 132, 232448, 150e9);
}

static void cudnn_knows_the_graph_on_a_b200(void **state)
{
    (void)state;
    check_device(1000, 148, 232448, 190e9);
}

static void what_describes_no_gpu_is_an_error(void **state)
{
    (void)state;
    struct tpp_error err = {0};
    struct tpp_attention_library *library;
    assert_int_not_equal(tpp_attention_library_new_for("{\"maxGridSize\":3}", &library, &err), TPP_OK);
    assert_null(library);
    assert_true(err.message[0] != '\0');
}

int main(void)
{
    if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) && !dlopen(CUDA_DRIVER_STUB, RTLD_NOW | RTLD_GLOBAL)) {
        puts("1..0 # SKIP neither a driver nor the toolkit's stand-in for one");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cudnn_knows_the_graph_on_an_a100),
        cmocka_unit_test(cudnn_knows_the_graph_on_an_h200),
        cmocka_unit_test(cudnn_knows_the_graph_on_a_b200),
        cmocka_unit_test(what_describes_no_gpu_is_an_error),
    };
    return cmocka_run_group_tests_name("bench_attention_graph", tests, NULL, NULL);
}
