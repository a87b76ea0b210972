/* Checks costmodel/job.h: defaults, ranges and names. */
#include "costmodel/job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

static const struct tpp_model narrow_model = {.num_layers = 7, .hidden_size = 56, .num_attention_heads = 7};

static struct tpp_job good_job(void)
{
    struct tpp_job job = tpp_job_defaults();
    job.num_gpus = 7;
    job.sequence_length = 4097;
    job.global_batch_size = 913;
    return job;
}

static void expect_range_error(const struct tpp_job *job, const char *where)
{
    struct tpp_error err;
    assert_int_equal(tpp_job_check(job, &narrow_model, &err), TPP_E_RANGE);
    assert_string_equal(err.where, where);
    assert_true(err.message[0] != '\0');
}

static void defaults_are_bf16_pretraining_without_dropout(void **state)
{
    (void)state;
    struct tpp_job job = tpp_job_defaults();
    assert_int_equal(job.precision, TPP_PRECISION_BF16);
    assert_int_equal(job.task, TPP_TASK_PRETRAIN);
    assert_int_equal(job.lora_rank, 16);
    assert_true(job.hidden_dropout == 0 && job.attention_dropout == 0);
    assert_int_equal(job.num_gpus, 0);
}

static void a_job_at_the_limits_is_accepted(void **state)
{
    (void)state;
    struct tpp_job job = good_job();
    assert_int_equal(tpp_job_check(&job, &narrow_model, NULL), TPP_OK);
    job.num_gpus = 1048576;
    job.sequence_length = 134217728;
    job.global_batch_size = 2147483648;
    job.hidden_dropout = 1;
    job.attention_block_length = job.sequence_length;
    assert_int_equal(tpp_job_check(&job, &narrow_model, NULL), TPP_OK);
}

static void sizes_out_of_range_are_named(void **state)
{
    (void)state;
    struct tpp_job job = tpp_job_defaults();
    expect_range_error(&job, "job.num_gpus");
    job = good_job();
    job.num_gpus = 1048577;
    expect_range_error(&job, "job.num_gpus");
    job = good_job();
    job.sequence_length = 0;
    expect_range_error(&job, "job.sequence_length");
    job.sequence_length = 134217729;
    expect_range_error(&job, "job.sequence_length");
    job = good_job();
    job.global_batch_size = 0;
    expect_range_error(&job, "job.global_batch_size");
    job.global_batch_size = 2147483649;
    expect_range_error(&job, "job.global_batch_size");
    job = good_job();
    job.attention_block_length = 4098;
    expect_range_error(&job, "job.attention_block_length");
}

static void kinds_and_dropout_are_checked(void **state)
{
    (void)state;
    struct tpp_job job = good_job();
    job.precision = (enum tpp_precision)17;
    expect_range_error(&job, "job.precision");
    job = good_job();
    job.task = (enum tpp_task)4;
    expect_range_error(&job, "job.task");
    job = good_job();
    job.hidden_dropout = NAN;
    expect_range_error(&job, "job.hidden_dropout");
    job = good_job();
    job.attention_dropout = 1.001;
    expect_range_error(&job, "job.attention_dropout");
    job.attention_dropout = -0.001;
    expect_range_error(&job, "job.attention_dropout");
}

static void adapters_are_checked_only_when_there_are_any(void **state)
{
    (void)state;
    struct tpp_job job = good_job();
    job.lora_rank = 0;
    assert_false(tpp_job_is_adapter(&job));
    assert_int_equal(tpp_job_check(&job, &narrow_model, NULL), TPP_OK);
    job.task = TPP_TASK_QLORA;
    assert_true(tpp_job_is_adapter(&job));
    expect_range_error(&job, "job.lora_rank");
    job.lora_rank = 57; /* one more than the model is wide */
    expect_range_error(&job, "job.lora_rank");
    job.lora_rank = 4097;
    expect_range_error(&job, "job.lora_rank");
    job.lora_rank = 56;
    assert_int_equal(tpp_job_check(&job, &narrow_model, NULL), TPP_OK);
    job.lora_targets = (enum tpp_lora_targets)9;
    expect_range_error(&job, "job.lora_targets");
}

static void names_read_back(void **state)
{
    (void)state;
    for (int i = TPP_PRECISION_BF16; i <= TPP_PRECISION_MXFP8; i++) {
        enum tpp_precision precision;
        assert_true(tpp_precision_parse(tpp_precision_name((enum tpp_precision)i), &precision));
        assert_int_equal(precision, i);
    }
    for (int i = TPP_TASK_PRETRAIN; i <= TPP_TASK_QLORA; i++) {
        enum tpp_task task;
        assert_true(tpp_task_parse(tpp_task_name((enum tpp_task)i), &task));
        assert_int_equal(task, i);
    }
    enum tpp_task task;
    assert_false(tpp_task_parse("LoRA", &task));
    assert_string_equal(tpp_precision_name(TPP_PRECISION_FP8), "fp8");
    assert_string_equal(tpp_task_name(TPP_TASK_QLORA), "qlora");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_bf16_pretraining_without_dropout),
        cmocka_unit_test(a_job_at_the_limits_is_accepted),
        cmocka_unit_test(sizes_out_of_range_are_named),
        cmocka_unit_test(kinds_and_dropout_are_checked),
        cmocka_unit_test(adapters_are_checked_only_when_there_are_any),
        cmocka_unit_test(names_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
