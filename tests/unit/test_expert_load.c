/* Checks costmodel/expert_load.h: counts of tokens, what the fullest rank gets of them, and what is refused. */
#include "costmodel/expert_load.h"
#include "costmodel/evaluate.h"
#include "tests/support/check_number.h"
#include "tests/support/shape_cost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Six experts: 30 tokens, 5 on average. */
static const char six[] = "7,1, 4 9\n6,3";

static void the_fullest_rank_decides(void **state)
{
    (void)state;
    struct tpp_job job = tpp_job_defaults();
    assert_int_equal(tpp_expert_load_read(six, 6, &job, NULL), TPP_OK);
    assert_int_equal(job.num_expert_splits, 4); /* 1, 2, 3 and 6 ranks */
    CHECK_NUMBER(tpp_job_expert_imbalance(&job, 1), 1, 0);
    CHECK_NUMBER(tpp_job_expert_imbalance(&job, 2), 18 / 15.0, 1e-12); /* 7 1 4, 9 6 3 */
    CHECK_NUMBER(tpp_job_expert_imbalance(&job, 3), 13 / 10.0, 1e-12); /* 7 1, 4 9, 6 3 */
    CHECK_NUMBER(tpp_job_expert_imbalance(&job, 6), 9 / 5.0, 1e-12);
    /* One expert that gets all: its rank has as many times the average as there are ranks. */
    assert_int_equal(tpp_expert_load_read("0,0,0,0,0,1e6", 6, &job, NULL), TPP_OK);
    CHECK_NUMBER(tpp_job_expert_imbalance(&job, 3), 3, 1e-12);
}

static void without_counts_one_factor_holds(void **state)
{
    (void)state;
    struct tpp_job job = tpp_job_defaults();
    job.expert_imbalance = 1.17;
    CHECK_NUMBER(tpp_job_expert_imbalance(&job, 8), 1.17, 0);
}

static void a_file_is_read(void **state)
{
    (void)state;
    char path[] = "/tmp/tpp-expert-load-XXXXXX", text[64];
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, six, sizeof six - 1), sizeof six - 1);
    close(file);
    struct tpp_job job = tpp_job_defaults();
    struct tpp_error err;
    snprintf(text, sizeof text, "file:%s", path);
    assert_int_equal(tpp_expert_load_read(text, 6, &job, NULL), TPP_OK);
    CHECK_NUMBER(tpp_job_expert_imbalance(&job, 6), 1.8, 1e-12);
    assert_int_equal(tpp_expert_load_read(text, 7, &job, &err), TPP_E_SYNTAX);
    assert_string_equal(err.where, path);
    unlink(path);
    assert_int_equal(tpp_expert_load_read(text, 6, &job, &err), TPP_E_IO);
}

static void what_is_no_count_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "0 numbers are fewer than the experts"}, {"1,2", "2 numbers are fewer than the experts"},
        {"1,2,3,4", "there are more numbers than experts"}, {"1,-2,3", "number 2 is no count"},
        {"1,nan,3", "number 2 is no count"}, {"1,inf,3", "number 2 is no count"}, {"0x10,2,3", "number 1 is no count"},
        {"1,2,3e99", "number 3 is no count"}, {"1,2,3k", "number 3 is no count"}, {"0,0,0", "no expert has a token"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tpp_job job = tpp_job_defaults();
        struct tpp_error err;
        assert_int_equal(tpp_expert_load_read(cases[i].text, 3, &job, &err), TPP_E_USAGE);
        assert_string_equal(err.where, "--expert-tokens");
        assert_non_null(strstr(err.message, cases[i].message));
        assert_int_equal(job.num_expert_splits, 0);
    }
    struct tpp_job job = tpp_job_defaults();
    assert_int_equal(tpp_expert_load_read("1", 0, &job, NULL), TPP_E_USAGE);
    assert_int_equal(tpp_expert_load_read("1", 4097, &job, NULL), TPP_E_USAGE);
}

/* Mixtral's eight experts with one twice as full as the rest, 16 of 72: over eight ranks its rank gets 16 / 9 of the average, over
 * two that half gets 40 / 36. A plan costs what it costs with that factor given. */
static void a_plan_pays_for_its_own_split(void **state)
{
    (void)state;
    const struct tpp_model model = shape_preset("mixtral-8x7b");
    const struct tpp_hardware h100 = shape_cluster("dgx-h100");
    static const struct {
        const char *strategy;
        double factor;
    } cases[] = {{"ep=8,etp=1,zero=1,pp=2", 16 / 9.0}, {"ep=2,etp=1,zero=1,pp=2", 40 / 36.0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double seconds[2];
        for (int by_counts = 0; by_counts < 2; by_counts++) {
            struct tpp_job job = shape_job(64, 4096, 512);
            if (by_counts)
                assert_int_equal(tpp_expert_load_read("8,8,16,8,8,8,8,8", 8, &job, NULL), TPP_OK);
            else
                job.expert_imbalance = cases[i].factor;
            const struct tpp_strategy strategy = shape_strategy(cases[i].strategy, &job);
            seconds[by_counts] = shape_cost(&model, &h100, TPP_FRAMEWORK_MEGATRON_LM, &job, &strategy).step_seconds;
        }
        CHECK_NUMBER(seconds[1], seconds[0], 1e-12);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fullest_rank_decides),
        cmocka_unit_test(without_counts_one_factor_holds),
        cmocka_unit_test(a_file_is_read),
        cmocka_unit_test(what_is_no_count_is_refused),
        cmocka_unit_test(a_plan_pays_for_its_own_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
