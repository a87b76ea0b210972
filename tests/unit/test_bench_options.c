/* The command line of the measuring programs. */
#include "calibrate/bench/host_options.h"
#include "tests/support/check_number.h"

#include <string.h>

struct arguments {
    bool verbose;
    const char *path, *mode, *types;
    uint64_t count, bytes;
    double seconds;
};

static struct arguments arguments;

static const struct tpp_bench_option options[] = {
    {"verbose", TPP_BENCH_FLAG, offsetof(struct arguments, verbose), .help = "say more"},
    {"path", TPP_BENCH_TEXT, offsetof(struct arguments, path), "FILE", NULL, "-", 0, 0, "where to"},
    {"mode", TPP_BENCH_CHOICE, offsetof(struct arguments, mode), NULL, "fast|slow", "fast", 0, 0, "how"},
    {"types", TPP_BENCH_LIST, offsetof(struct arguments, types), "LIST", "bf16|fp16|fp8", NULL, 0, 0, "which"},
    {"count", TPP_BENCH_COUNT, offsetof(struct arguments, count), "N", NULL, "7", 3, 100, "how many"},
    {"bytes", TPP_BENCH_BYTES, offsetof(struct arguments, bytes), "SIZE", NULL, "1KiB", 0, 0, "how much"},
    {"seconds", TPP_BENCH_NUMBER, offsetof(struct arguments, seconds), "S", NULL, "2.5", 0, 0, "how long"},
    {.name = NULL},
};

static const struct tpp_bench_part parts[] = {{options, &arguments}, {NULL, NULL}};

static enum tpp_code parse(int argc, const char *const *argv, struct tpp_error *err)
{
    bool help = true;
    memset(&arguments, 0, sizeof arguments);
    memset(err, 0, sizeof *err);
    const enum tpp_code code = tpp_bench_options_parse(parts, argc, argv, &help, err);
    assert_false(help);
    return code;
}

static void gives_every_option_its_default(void **state)
{
    (void)state;
    struct tpp_error err;
    assert_int_equal(parse(1, (const char *const[]){"x"}, &err), TPP_OK);
    assert_false(arguments.verbose);
    assert_string_equal(arguments.path, "-");
    assert_string_equal(arguments.mode, "fast");
    assert_null(arguments.types);
    assert_int_equal(arguments.count, 7);
    assert_int_equal(arguments.bytes, 1024);
    CHECK_NUMBER(arguments.seconds, 2.5, 0);
}

static void takes_values_after_a_space_or_an_equals_sign(void **state)
{
    (void)state;
    struct tpp_error err;
    const char *const argv[] = {"x",       "--count=31", "--bytes",        "3MiB",    "--verbose", "--mode", "slow",
                                "--types", "fp8,bf16",   "--seconds=0.25", "--path=", "--path",    "a=b"};
    assert_int_equal(parse(13, argv, &err), TPP_OK);
    assert_true(arguments.verbose);
    assert_int_equal(arguments.count, 31);
    assert_int_equal(arguments.bytes, 3 * 1048576);
    assert_string_equal(arguments.mode, "slow");
    assert_string_equal(arguments.types, "fp8,bf16");
    assert_string_equal(arguments.path, "a=b");
    CHECK_NUMBER(arguments.seconds, 0.25, 0);
}

static void refuses_what_it_does_not_know_and_says_where(void **state)
{
    (void)state;
    struct tpp_error err;
    static const struct {
        const char *argv[3];
        int argc;
        const char *where;
    } cases[] = {
        {{"x", "--cuont=4"}, 2, "--cuont=4"},
        {{"x", "--count"}, 2, "count"},
        {{"x", "--count", "2"}, 3, "count"},
        {{"x", "--count", "101"}, 3, "count"},
        {{"x", "--count", "many"}, 3, "count"},
        {{"x", "--verbose=1"}, 2, "verbose"},
        {{"x", "--mode", "fas"}, 3, "mode"},
        {{"x", "--mode", "fast,slow"}, 3, "mode"},
        {{"x", "--types", "fp8,"}, 3, "types"},
        {{"x", "--types", ""}, 3, "types"},
        {{"x", "--types", "fp8|bf16"}, 3, "types"},
        {{"x", "word"}, 2, "word"},
        {{"x", "-c"}, 2, "-c"},
        {{"x", "--"}, 2, "--"},
        {{"x", "--bytes", "-1"}, 3, "bytes"},
        {{"x", "--seconds", "nan"}, 3, "seconds"},
        {{"x", "--coun", "4"}, 3, "--coun"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(parse(cases[i].argc, cases[i].argv, &err), TPP_E_USAGE);
        assert_int_equal(err.code, TPP_E_USAGE);
        assert_string_equal(err.where, cases[i].where);
        assert_true(err.message[0] != '\0');
    }
    parse(2, (const char *const[]){"x", "--cuont=4"}, &err);
    assert_non_null(strstr(err.hint, "--count"));
}

static void help_lists_every_option_and_wins_over_errors_behind_it(void **state)
{
    (void)state;
    struct tpp_text text;
    bool help = false;
    const char *const argv[] = {"x", "--help"};
    assert_int_equal(tpp_bench_options_parse(parts, 2, argv, &help, NULL), TPP_OK);
    assert_true(help);
    tpp_text_init(&text);
    tpp_bench_options_help(parts, "tp-x", "Measures x.", &text);
    for (const struct tpp_bench_option *option = options; option->name; option++) {
        assert_non_null(strstr(tpp_text_get(&text), option->name));
        assert_non_null(strstr(tpp_text_get(&text), option->help));
    }
    assert_non_null(strstr(tpp_text_get(&text), "default 1KiB"));
    assert_non_null(strstr(tpp_text_get(&text), "exit codes"));
    tpp_text_release(&text);
}

static void a_list_contains_whole_words_only(void **state)
{
    (void)state;
    assert_true(tpp_bench_list_contains("bf16,fp8", "fp8"));
    assert_true(tpp_bench_list_contains("bf16|fp8", "bf16"));
    assert_true(tpp_bench_list_contains(NULL, "anything"));
    assert_false(tpp_bench_list_contains("bf16,fp8", "fp"));
    assert_false(tpp_bench_list_contains("bf16", "bf162"));
    assert_false(tpp_bench_list_contains("", "x"));
    assert_false(tpp_bench_list_contains("a,b", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_every_option_its_default),
        cmocka_unit_test(takes_values_after_a_space_or_an_equals_sign),
        cmocka_unit_test(refuses_what_it_does_not_know_and_says_where),
        cmocka_unit_test(help_lists_every_option_and_wins_over_errors_behind_it),
        cmocka_unit_test(a_list_contains_whole_words_only),
    };
    return cmocka_run_group_tests_name("bench_options", tests, NULL, NULL);
}
