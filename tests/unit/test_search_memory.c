/* A search that runs out of memory says so and leaks nothing, whichever allocation fails. */
#include "costmodel/model/presets.h"
#include "hwprofiles/profiles.h"
#include "planner/search.h"
#include "tests/support/failing_alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct tpp_hardware hardware;

static enum tpp_code search(const struct tpp_job *job, const struct tpp_stack *stack,
                            const struct tpp_space_limits *limits, size_t *num_best)
{
    struct tpp_search *search;
    bool done = false;
    enum tpp_code code = tpp_search_new(tpp_model_preset("llama2-7b"), &hardware, job, stack, limits, &search, NULL);
    while (code == TPP_OK && !done) {
        code = tpp_search_step(search, 1000, &done, NULL);
    }
    if (code == TPP_OK) {
        tpp_search_best(search, num_best);
    }
    tpp_search_free(search);
    return code;
}

static void every_failed_allocation_is_an_error(void **state)
{
    (void)state;
    struct tpp_job job = tpp_job_defaults();
    struct tpp_stack stack;
    struct tpp_space_limits limits = tpp_space_limits_defaults();
    job.num_gpus = 8;
    job.sequence_length = 4096;
    job.global_batch_size = 8;
    limits.num_threads = 1;
    limits.tensor_parallel = 2;
    limits.context_parallel = 1;
    limits.full_space = true;
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_LM, &hardware.gpu, &job, &stack);
    uint64_t num_failed = 0;
    size_t num_best = 0;
    for (bool has_failed = true; has_failed; num_failed += has_failed) {
        tpp_failing_alloc_arm(num_failed);
        const enum tpp_code code = search(&job, &stack, &limits, &num_best);
        has_failed = tpp_failing_alloc_disarm();
        assert_int_equal(code, has_failed ? TPP_E_MEMORY : TPP_OK);
    }
    assert_true(num_failed > 10); /* space, lists, walks, evaluator, its layers */
    assert_true(num_best > 0);
}

static int read_hardware(void **state)
{
    (void)state;
    return tpp_hardware_find("dgx-a100-80g", &hardware, NULL) == TPP_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failed_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, read_hardware, NULL);
}
