/* The growing text, quoting for a shell (judged by a real one), UTF-8, and the nearest name. */
#include "costmodel/base/text.h"

#include "costmodel/base/file.h"
#include "tests/support/check_number.h"
#include "tests/support/failing_alloc.h"
#include "tests/support/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void text_grows_and_stays_terminated(void **state)
{
    (void)state;
    struct tpp_text text;
    tpp_text_init(&text);
    assert_string_equal(tpp_text_get(&text), "");
    tpp_text_append(&text, "");
    assert_string_equal(tpp_text_get(&text), "");
    for (int i = 0; i < 1000; i++) {
        tpp_text_format(&text, "%03d,", i);
        assert_int_equal(text.length, 4 * (i + 1));
        assert_int_equal(text.data[text.length], '\0');
    }
    assert_memory_equal(text.data + 4 * 913, "913,", 4);
    tpp_text_clear(&text);
    assert_string_equal(tpp_text_get(&text), "");
    tpp_text_append_bytes(&text, "a\0b", 3);
    assert_int_equal(text.length, 3);
    assert_memory_equal(text.data, "a\0b", 4);
    assert_false(tpp_text_failed(&text));
    tpp_text_release(&text);
    assert_string_equal(tpp_text_get(&text), "");
    tpp_text_release(&text);
}

static void a_failed_allocation_is_remembered(void **state)
{
    (void)state;
    uint64_t n = 0;
    for (;; n++) {
        struct tpp_text text;
        tpp_text_init(&text);
        tpp_failing_alloc_arm(n);
        for (int i = 0; i < 200; i++) {
            tpp_text_append(&text, "0123456789");
            tpp_text_format(&text, "%d", 7);
            tpp_text_append_shell_word(&text, "a b");
        }
        const bool has_failed = tpp_failing_alloc_disarm();
        assert_int_equal(tpp_text_failed(&text), has_failed);
        tpp_text_clear(&text);
        tpp_text_append(&text, "more");
        assert_int_equal(tpp_text_failed(&text), has_failed);
        assert_string_equal(tpp_text_get(&text), has_failed ? "" : "more");
        tpp_text_release(&text);
        if (!has_failed) {
            break;
        }
    }
    assert_true(n >= 5); /* 200 * 16 bytes from 128 on, doubled each time */
}

static void a_length_beyond_memory_fails_and_keeps_the_text(void **state)
{
    (void)state;
    struct tpp_text text;
    tpp_text_init(&text);
    tpp_text_append(&text, "kept");
    tpp_text_append_bytes(&text, "x", SIZE_MAX - 2);
    assert_true(tpp_text_failed(&text));
    assert_string_equal(tpp_text_get(&text), "kept");
    tpp_text_release(&text);
}

static void check_word(const char *value, const char *expected)
{
    struct tpp_text text;
    tpp_text_init(&text);
    tpp_text_append_shell_word(&text, value);
    assert_string_equal(tpp_text_get(&text), expected);
    tpp_text_release(&text);
}

static void plain_words_stay_and_others_are_quoted(void **state)
{
    (void)state;
    check_word("--tensor-model-parallel-size", "--tensor-model-parallel-size");
    check_word("A=/x/y.z:1,2@b%+_", "A=/x/y.z:1,2@b%+_");
    check_word("", "''");
    check_word("a b", "'a b'");
    check_word("it's", "'it'\\''s'");
    check_word("'", "''\\'''");
    check_word("$HOME", "'$HOME'");
    check_word("~", "'~'");
    check_word("{a,b}", "'{a,b}'");
    check_word("caf\xc3\xa9", "'caf\xc3\xa9'");
}

enum { NUM_RANDOM = 400, MAX_WORDS = 500 };

static const char *const hostile[] = {
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned",
    "x; touch pwned #",
    "&& touch pwned",
    "| touch pwned",
    "> pwned",
    "'; touch pwned; '",
    "'$(touch pwned)'",
    "\"; touch pwned; \"",
    "\\'; touch pwned; \\'",
    "''",
    "'",
    "'''",
    "\\",
    "\\\\",
    "a\\",
    "\n",
    "a\nb",
    "a\n",
    "\t",
    " ",
    "  a  ",
    "",
    "!!",
    "!x",
    "~",
    "~root",
    "*",
    "?",
    "[a-z]*",
    "{a,b}",
    "$HOME",
    "${HOME}",
    "$'a\\n'",
    "#c",
    "a=b",
    "-n",
    "-e",
    "--",
    "%s",
    "%d%n",
    "a;b",
    "a&b",
    "a|b",
    "(a)",
    "<a",
    "a>b",
    "caf\xc3\xa9",
    "\xff\xfe",
    "\x01\x02\x1b[2J",
    "\x7f",
    "\r",
    "\r\n",
    "if",
    "exit",
    "$",
    "`",
    "\"",
};

/* Random bytes without NUL, half of them from the shell's own characters. */
static char *random_word(struct tpp_random *random)
{
    static const char special[] = "'\"\\$`!&|;<>(){}[]*?~#= \n\t-%";
    const size_t length = (size_t)tpp_random_range(random, 0, 40);
    char *word = malloc(length + 1);
    assert_non_null(word);
    for (size_t i = 0; i < length; i++) {
        const uint64_t pick = tpp_random_next(random);
        word[i] = pick % 2 ? special[pick / 2 % (sizeof special - 1)] : (char)(1 + pick / 2 % 255);
    }
    word[length] = '\0';
    return word;
}

/* Writes the words as the arguments of one command, which prints each with a NUL behind it, and runs it with sh. */
static void check_with_shell(const char *folder, const char *const *words, size_t count)
{
    struct tpp_text script, expected;
    char path[300], command[700];
    tpp_text_init(&script);
    tpp_text_init(&expected);
    tpp_text_format(&script, "cd %s && printf '%%s\\0'", folder);
    for (size_t i = 0; i < count; i++) {
        tpp_text_append(&script, " ");
        tpp_text_append_shell_word(&script, words[i]);
        tpp_text_append_bytes(&expected, words[i], strlen(words[i]) + 1);
    }
    tpp_text_append(&script, "\n");
    snprintf(path, sizeof path, "%s/script", folder);
    assert_int_equal(tpp_file_write(path, script.data, script.length, 0644, NULL), TPP_OK);
    snprintf(command, sizeof command, "sh %s", path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    char *actual = malloc(expected.length + 1);
    assert_non_null(actual);
    assert_int_equal(fread(actual, 1, expected.length + 1, pipe), expected.length);
    assert_int_equal(pclose(pipe), 0);
    assert_memory_equal(actual, expected.data, expected.length);
    free(actual);
    assert_int_equal(remove(path), 0);
    tpp_text_release(&script);
    tpp_text_release(&expected);
}

static void a_real_shell_gives_every_word_back(void **state)
{
    (void)state;
    char folder[] = "text_shell_XXXXXX";
    const char *words[MAX_WORDS];
    const size_t num_hostile = sizeof hostile / sizeof hostile[0];
    struct tpp_random random = {.state = 20240229};
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < num_hostile; i++) {
        words[i] = hostile[i];
    }
    char *made[NUM_RANDOM];
    for (size_t i = 0; i < NUM_RANDOM; i++) {
        made[i] = random_word(&random);
        words[num_hostile + i] = made[i];
    }
    check_with_shell(folder, words, num_hostile + NUM_RANDOM);
    for (size_t i = 0; i < NUM_RANDOM; i++) {
        free(made[i]);
    }
    assert_int_equal(rmdir(folder), 0); /* which also says that no word made a file */
}

static void utf8_is_cut_between_characters(void **state)
{
    (void)state;
    assert_int_equal(tpp_utf8_cut("abc", 2), 2);
    assert_int_equal(tpp_utf8_cut("abc", 3), 3);
    assert_int_equal(tpp_utf8_cut("abc", 9), 3);
    assert_int_equal(tpp_utf8_cut("", 0), 0);
    assert_int_equal(tpp_utf8_cut("a\xe2\x82\xac", 1), 1);
    assert_int_equal(tpp_utf8_cut("a\xe2\x82\xac", 2), 1);
    assert_int_equal(tpp_utf8_cut("a\xe2\x82\xac", 3), 1);
    assert_int_equal(tpp_utf8_cut("a\xe2\x82\xac", 4), 4);
    assert_int_equal(tpp_utf8_cut("\xf0\x9f\x98\x80", 3), 0);
    assert_int_equal(tpp_utf8_cut("\x80\x80\x80\x80\x80\x80", 5), 5); /* no UTF-8 at all: just cut */
}

static void valid_characters_have_their_length(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
    } rows[] = {
        {"a", 1},
        {"\x7f", 1},
        {"\xc2\x80", 2},
        {"\xdf\xbf", 2},
        {"\xe0\xa0\x80", 3},
        {"\xed\x9f\xbf", 3},
        {"\xee\x80\x80", 3},
        {"\xef\xbf\xbf", 3},
        {"\xf0\x90\x80\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4},
        /* continuation first, overlong, surrogate, beyond U+10FFFF, never valid, cut short */
        {"\x80", 0},
        {"\xc0\x80", 0},
        {"\xc1\xbf", 0},
        {"\xe0\x9f\xbf", 0},
        {"\xf0\x8f\xbf\xbf", 0},
        {"\xed\xa0\x80", 0},
        {"\xf4\x90\x80\x80", 0},
        {"\xf5\x80\x80\x80", 0},
        {"\xff", 0},
        {"\xe2\x82", 0},
        {"\xe2\x82 ", 0},
        {"\xc3", 0},
        {"", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(tpp_utf8_length(rows[i].bytes, strlen(rows[i].bytes)), rows[i].length);
    }
}

static void the_nearest_name_is_offered_only_when_near(void **state)
{
    (void)state;
    static const char *const names[] = {"hidden_size", "num_layers", "tp", "vocab_size", "vocab_sizes", NULL};
    static const char *const none[] = {NULL};
    assert_string_equal(tpp_text_nearest("hiden_size", names), "hidden_size");
    assert_string_equal(tpp_text_nearest("Hidden-Size", names), "hidden_size");
    assert_string_equal(tpp_text_nearest("vocab_sise", names), "vocab_size"); /* 1 away, the other is 2 */
    assert_string_equal(tpp_text_nearest("pp", names), "tp");
    assert_null(tpp_text_nearest("xy", names)); /* nothing in common with tp */
    assert_null(tpp_text_nearest("x", (const char *const[]){"y", NULL})); /* one change, but nothing is left */
    assert_null(tpp_text_nearest("colour", names));
    assert_null(tpp_text_nearest("", names));
    assert_null(tpp_text_nearest("tp", none));
    char word[200];
    memset(word, 'a', sizeof word);
    word[sizeof word - 1] = '\0';
    assert_null(tpp_text_nearest(word, names));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_grows_and_stays_terminated),
        cmocka_unit_test(a_failed_allocation_is_remembered),
        cmocka_unit_test(a_length_beyond_memory_fails_and_keeps_the_text),
        cmocka_unit_test(plain_words_stay_and_others_are_quoted),
        cmocka_unit_test(a_real_shell_gives_every_word_back),
        cmocka_unit_test(utf8_is_cut_between_characters),
        cmocka_unit_test(valid_characters_have_their_length),
        cmocka_unit_test(the_nearest_name_is_offered_only_when_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
