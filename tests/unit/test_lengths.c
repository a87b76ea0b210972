/* Distributions of sequence lengths: reading and sampling. */
#include "costmodel/allocator/lengths.h"
#include "tests/support/check_number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct tpp_lengths parsed(const char *text)
{
    struct tpp_lengths lengths;
    struct tpp_error err = {0};
    if (tpp_lengths_parse(text, &lengths, &err) != TPP_OK)
        fail_msg("%s: %s", text, err.message);
    return lengths;
}

struct moments {
    double mean, deviation, min, max;
};

static struct moments sample(const char *text, uint64_t limit)
{
    struct tpp_lengths lengths = parsed(text);
    uint64_t state = 7;
    const int count = 100000;
    double sum = 0, squares = 0, min = 1e18, max = 0;
    for (int i = 0; i < count; i++) {
        const double length = (double)tpp_lengths_sample(&lengths, limit, &state);
        sum += length;
        squares += length * length;
        min = fmin(min, length);
        max = fmax(max, length);
    }
    tpp_lengths_release(&lengths);
    return (struct moments){sum / count, sqrt(squares / count - sum / count * (sum / count)), min, max};
}

static void fixed_lengths_are_the_jobs_or_the_given(void **state)
{
    (void)state;
    struct moments moments = sample("fixed", 4096);
    CHECK_NUMBER(moments.min, 4096, 0);
    CHECK_NUMBER(moments.max, 4096, 0);
    moments = sample("fixed:2k", 4096);
    CHECK_NUMBER(moments.min, 2048, 0);
    CHECK_NUMBER(moments.max, 2048, 0);
}

/* Mean (8192 + 32768) / 2 = 20480, deviation 24577 / sqrt(12) = 7094.8. */
static void uniform_lengths_fill_their_range(void **state)
{
    (void)state;
    const struct moments moments = sample("uniform:8k-32k", 1 << 20);
    CHECK_NUMBER(moments.mean, 20480, 0.01);
    CHECK_NUMBER(moments.deviation, 7094.8, 0.01);
    assert_true(moments.min >= 8192 && moments.max <= 32768);
}

static void lognormal_lengths_have_the_given_mean_and_variation(void **state)
{
    (void)state;
    const struct moments moments = sample("lognormal:4096,0.5", 1 << 24);
    CHECK_NUMBER(moments.mean, 4096, 0.01);
    CHECK_NUMBER(moments.deviation, 2048, 0.02);
}

/* Weights 1, 2, 1 of 1024, 2048, 4096: mean (1024 + 4096 + 4096) / 4 = 2304. */
static void buckets_come_by_their_weights(void **state)
{
    (void)state;
    const struct moments moments = sample("bucketed:1k,2k=2,4k", 1 << 20);
    CHECK_NUMBER(moments.mean, 2304, 0.01);
    CHECK_NUMBER(moments.max, 4096, 0);
}

static void long_sequences_are_cut(void **state)
{
    (void)state;
    CHECK_NUMBER(sample("uniform:8k-32k", 10000).max, 10000, 0);
    CHECK_NUMBER(sample("lognormal:1k,3", 4096).max, 4096, 0);
}

static void a_file_lists_lengths(void **state)
{
    (void)state;
    char path[] = "/tmp/test_lengths_XXXXXX", text[64];
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, "100\n 300\r\n\n2k\n", 14), 14);
    close(file);
    snprintf(text, sizeof text, "file:%s", path);
    struct tpp_lengths lengths = parsed(text);
    assert_int_equal(lengths.count, 3);
    assert_int_equal(lengths.values[2], 2048);
    tpp_lengths_release(&lengths);
    FILE *again = fopen(path, "w");
    fputs("\xef\xbb\xbf" "7k\n", again); /* some editors begin a file with a byte order mark */
    fclose(again);
    lengths = parsed(text);
    assert_int_equal(lengths.count, 1);
    assert_int_equal(lengths.values[0], 7168);
    tpp_lengths_release(&lengths);
    again = fopen(path, "w");
    fputs("100\n3x\n", again);
    fclose(again);
    struct tpp_error err = {0};
    assert_int_equal(tpp_lengths_parse(text, &lengths, &err), TPP_E_SYNTAX);
    assert_string_equal(err.message, "this line has no length of a sequence");
    assert_non_null(strstr(err.where, ":2"));
    unlink(path);
    assert_int_equal(tpp_lengths_parse(text, &lengths, &err), TPP_E_IO);
}

static void lengths_that_would_all_be_cut_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t least; /* the longest --seq-length that is refused is one less */
    } cases[] = {{"fixed:16k", 16384}, {"uniform:8k-32k", 8192}, {"bucketed:16k,9k=3,20k", 9216}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tpp_lengths lengths = parsed(cases[i].text);
        struct tpp_error err = {0};
        assert_int_equal(tpp_lengths_check(&lengths, cases[i].least, NULL), TPP_OK);
        assert_int_equal(tpp_lengths_check(&lengths, cases[i].least - 1, &err), TPP_E_USAGE);
        assert_string_equal(err.where, "--seq-distribution");
        tpp_lengths_release(&lengths);
    }
    static const char *const any[] = {"fixed", "lognormal:8k,1"};
    for (size_t i = 0; i < sizeof(any) / sizeof(any[0]); i++) {
        struct tpp_lengths lengths = parsed(any[i]);
        assert_int_equal(tpp_lengths_check(&lengths, 1, NULL), TPP_OK);
        tpp_lengths_release(&lengths);
    }
}

static void wrong_texts_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "fixed:", "fixed:0", "uniform", "uniform:8k", "uniform:8k-4k", "uniform:8k-9kk",
                                        "lognormal:8k", "lognormal:8k,0", "lognormal:8k,nan", "bucketed:", "bucketed:8k,",
                                        "bucketed:8k=0", "bucketed:8k;9k", "file:", "normal:3", "fixed:999999999999",
                                        "fixed:134217729"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct tpp_lengths lengths;
        struct tpp_error err = {0};
        if (tpp_lengths_parse(wrong[i], &lengths, &err) != TPP_E_USAGE)
            fail_msg("'%s' was taken", wrong[i]);
        assert_string_equal(err.where, "--seq-distribution");
        assert_true(tpp_lengths_is_fixed(&lengths) && lengths.values == NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_lengths_are_the_jobs_or_the_given),
        cmocka_unit_test(uniform_lengths_fill_their_range),
        cmocka_unit_test(lognormal_lengths_have_the_given_mean_and_variation),
        cmocka_unit_test(buckets_come_by_their_weights),
        cmocka_unit_test(long_sequences_are_cut),
        cmocka_unit_test(a_file_lists_lengths),
        cmocka_unit_test(lengths_that_would_all_be_cut_are_refused),
        cmocka_unit_test(wrong_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
