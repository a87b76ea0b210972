/* Reading JSON from a stranger: what passes, what is refused, and what the error says. */
#include "costmodel/base/json_read.h"

#include "tests/support/check_number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tpp_json_document *parse(const char *text)
{
    struct tpp_json_document *document;
    struct tpp_error err;
    if (tpp_json_parse(text, strlen(text), "in.json", &document, &err) != TPP_OK) {
        fail_msg("%s: %s", err.where, err.message);
    }
    return document;
}

static void valid_texts_are_read(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}",
        "[]",
        " \t\r\n1 ",
        "-0",
        "0.5",
        "1e5",
        "1E+5",
        "-1.25e-3",
        "\"\"",
        "true",
        "false",
        "null",
        "[1,2,[3]]",
        "{\"a\":{\"b\":[{}]}}",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\"",
        "\"\xc3\xa9\xf0\x9f\x98\x80\"",
        "\xef\xbb\xbf{}",
        "{\"a\":1,\"A\":2}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        tpp_json_document_free(parse(texts[i]));
    }
}

struct refused {
    const char *text;
    enum tpp_code code;
    const char *where;
    const char *message; /* a part of it */
};

static void check_refused(const struct refused *row, size_t length)
{
    struct tpp_json_document *document = (struct tpp_json_document *)-1;
    struct tpp_error err = {0};
    const enum tpp_code code = tpp_json_parse(row->text, length, "in.json", &document, &err);
    if (code != row->code || document || strcmp(err.where, row->where) != 0 || !strstr(err.message, row->message)) {
        fail_msg("%s: code %s at %s: %s", row->text, tpp_code_name(code), err.where, err.message);
    }
}

static void what_is_not_json_is_refused_with_line_and_column(void **state)
{
    (void)state;
    static const struct refused rows[] = {
        {"", TPP_E_SYNTAX, "in.json:1:1", "expected a value, found the end of the text"},
        {"{\"a\":1} trailing", TPP_E_SYNTAX, "in.json:1:9", "expected the end of the text, found 't'"},
        {"{} {}", TPP_E_SYNTAX, "in.json:1:4", "expected the end of the text"},
        {"01", TPP_E_SYNTAX, "in.json:1:1", "begins with a zero"},
        {"-01", TPP_E_SYNTAX, "in.json:1:1", "begins with a zero"},
        {"[1.]", TPP_E_SYNTAX, "in.json:1:4", "expected a digit after the point, found ']'"},
        {"[.5]", TPP_E_SYNTAX, "in.json:1:2", "expected a value, found '.'"},
        {"[+5]", TPP_E_SYNTAX, "in.json:1:2", "expected a value"},
        {"[-]", TPP_E_SYNTAX, "in.json:1:3", "expected a digit"},
        {"1e", TPP_E_SYNTAX, "in.json:1:3", "expected a digit in the exponent"},
        {"1e+", TPP_E_SYNTAX, "in.json:1:4", "expected a digit in the exponent"},
        {"[1,\n 1e999]", TPP_E_RANGE, "in.json:2:2", "too large"},
        {"-1e999", TPP_E_RANGE, "in.json:1:1", "too large"},
        {"1234567890123456789012345678901234567890123456789012345678901234", TPP_E_RANGE, "in.json:1:1", "63"},
        {"NaN", TPP_E_SYNTAX, "in.json:1:1", "expected a value, found 'N'"},
        {"[0, Infinity]", TPP_E_SYNTAX, "in.json:1:5", "expected a value, found 'I'"},
        {"-Infinity", TPP_E_SYNTAX, "in.json:1:2", "expected a digit, found 'I'"},
        {"tru", TPP_E_SYNTAX, "in.json:1:1", "expected a value"},
        {"truex", TPP_E_SYNTAX, "in.json:1:5", "expected the end"},
        {"[1 2]", TPP_E_SYNTAX, "in.json:1:4", "expected ',' or ']', found '2'"},
        {"[1,]", TPP_E_SYNTAX, "in.json:1:4", "expected a value, found ']'"},
        {"[,1]", TPP_E_SYNTAX, "in.json:1:2", "expected a value"},
        {"[1", TPP_E_SYNTAX, "in.json:1:3", "found the end of the text"},
        {"{\"a\":1,}", TPP_E_SYNTAX, "in.json:1:8", "expected a name in double quotes, found '}'"},
        {"{a:1}", TPP_E_SYNTAX, "in.json:1:2", "expected a name in double quotes"},
        {"{\"a\" 1}", TPP_E_SYNTAX, "in.json:1:6", "expected ':' after a name"},
        {"{\"a\":1 \"b\":2}", TPP_E_SYNTAX, "in.json:1:8", "expected ',' or '}'"},
        {"{\n\n  \"\": 1}", TPP_E_SYNTAX, "in.json:3:3", "empty name"},
        {"\"abc", TPP_E_SYNTAX, "in.json:1:1", "a string without an end"},
        {"\"a\nb\"", TPP_E_SYNTAX, "in.json:1:3", "control character"},
        {"\"\\x\"", TPP_E_SYNTAX, "in.json:1:3", "after a backslash, found 'x'"},
        {"\"\\u12g4\"", TPP_E_SYNTAX, "in.json:1:6", "four hexadecimal digits"},
        {"\"a\\u0000b\"", TPP_E_SYNTAX, "in.json:1:3", "\\u0000"},
        {"{\"a\\u0000b\":1}", TPP_E_SYNTAX, "in.json:1:4", "\\u0000"},
        {"\"\\ud83d\"", TPP_E_SYNTAX, "in.json:1:2", "half of a surrogate pair"},
        {"\"\\ude00\"", TPP_E_SYNTAX, "in.json:1:2", "half of a surrogate pair"},
        {"\"\\ud83d\\u0041\"", TPP_E_SYNTAX, "in.json:1:2", "half of a surrogate pair"},
        {"\"\xc3\xa9\xff\"", TPP_E_SYNTAX, "in.json:1:3", "not UTF-8"}, /* the e with accent is one column */
        {"\"\xc0\x80\"", TPP_E_SYNTAX, "in.json:1:2", "not UTF-8"},     /* overlong NUL */
        {"\"\xed\xa0\x80\"", TPP_E_SYNTAX, "in.json:1:2", "not UTF-8"}, /* a surrogate */
        {"[\x01]", TPP_E_SYNTAX, "in.json:1:2", "found the byte 0x01"},
        {"[1,2]\x0b", TPP_E_SYNTAX, "in.json:1:6", "found the byte 0x0b"}, /* no white space in JSON */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_refused(&rows[i], strlen(rows[i].text));
    }
    const struct refused nul = {"[1\0]", TPP_E_SYNTAX, "in.json:1:3", "found the byte 0x00"};
    check_refused(&nul, 4);
    const struct refused nul_at_end = {"[1]\0", TPP_E_SYNTAX, "in.json:1:4", "found the byte 0x00"};
    check_refused(&nul_at_end, 4);
}

static void doubled_keys_are_refused_wherever_they_stand(void **state)
{
    (void)state;
    static const struct refused rows[] = {
        {"{\"a\":1,\"b\":2,\"a\":3}", TPP_E_SYNTAX, "in.json#", "the key \"a\" stands here twice"},
        {"{\"x\":[0,{\"k\":1,\"k\":1}]}", TPP_E_SYNTAX, "in.json#/x/1", "\"k\""},
        {"{\"ab\":1,\"a\\u0062\":2}", TPP_E_SYNTAX, "in.json#", "\"ab\""}, /* the same name in two spellings */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check_refused(&rows[i], strlen(rows[i].text));
    }
}

/* `depth` arrays inside each other. */
static char *nested(size_t depth)
{
    char *text = malloc(2 * depth + 1);
    assert_non_null(text);
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    text[2 * depth] = '\0';
    return text;
}

static void nesting_stops_at_128(void **state)
{
    (void)state;
    char *text = nested(128);
    tpp_json_document_free(parse(text));
    free(text);
    text = nested(129);
    const struct refused row = {text, TPP_E_RANGE, "in.json:1:129", "nested too deep"};
    check_refused(&row, strlen(text));
    free(text);
    text = nested(1000000); /* recursion that is not bounded would overflow the stack here */
    const struct refused deep = {text, TPP_E_RANGE, "in.json:1:129", "nested too deep"};
    check_refused(&deep, strlen(text));
    free(text);
}

static void members_are_found_by_their_exact_name(void **state)
{
    (void)state;
    struct tpp_json_document *document = parse("{\"a\":1,\"B\":null,\"c/d~e\":{\"x\":[10,20]}}");
    const struct tpp_json root = tpp_json_root(document);
    struct tpp_json value;
    assert_true(tpp_json_member(root, "a", &value));
    assert_string_equal(value.pointer, "/a");
    assert_string_equal(value.file, "in.json");
    assert_false(tpp_json_member(root, "A", &value));
    assert_false(tpp_json_member(root, "B", &value)); /* null counts as absent */
    assert_false(tpp_json_member(root, "", &value));
    assert_true(tpp_json_member(root, "c/d~e", &value));
    assert_string_equal(value.pointer, "/c~1d~0e"); /* RFC 6901, section 3 */
    assert_true(tpp_json_member(value, "x", &value));
    assert_true(tpp_json_at(value, 1, &value, NULL));
    assert_string_equal(value.pointer, "/c~1d~0e/x/1");
    assert_false(tpp_json_member(value, "a", &value));
    tpp_json_document_free(document);
}

static void kinds_sizes_and_indices_are_told(void **state)
{
    (void)state;
    struct tpp_json_document *document = parse("{\"o\":{\"p\":1},\"a\":[1,2,3],\"s\":\"t\",\"n\":1,\"b\":true}");
    const struct tpp_json root = tpp_json_root(document);
    static const char *const names[] = {"o", "a", "s", "n", "b"};
    for (size_t i = 0; i < 5; i++) {
        struct tpp_json value;
        const char *name;
        assert_true(tpp_json_at(root, i, &value, &name));
        assert_string_equal(name, names[i]);
        assert_int_equal(tpp_json_is_object(value), i == 0);
        assert_int_equal(tpp_json_is_array(value), i == 1);
        assert_int_equal(tpp_json_is_string(value), i == 2);
        assert_int_equal(tpp_json_is_number(value), i == 3);
        assert_int_equal(tpp_json_is_bool(value), i == 4);
        assert_int_equal(tpp_json_size(value), i == 0 ? 1 : i == 1 ? 3 : 0);
        assert_false(tpp_json_at(value, 3, &value, &name));
    }
    assert_int_equal(tpp_json_size(root), 5);
    tpp_json_document_free(document);
}

static void access_by_index_does_not_walk_a_list(void **state)
{
    (void)state;
    enum { COUNT = 200000 }; /* a walk for each would be 2e10 steps: the test would not end in its time */
    char *text = malloc(2 * COUNT + 2);
    assert_non_null(text);
    for (size_t i = 0; i < COUNT; i++) {
        text[2 * i + 1] = '7';
        text[2 * i + 2] = ',';
    }
    text[0] = '[';
    text[2 * COUNT] = ']';
    text[2 * COUNT + 1] = '\0';
    struct tpp_json_document *document = parse(text);
    uint64_t sum = 0;
    for (size_t i = 0; i < tpp_json_size(tpp_json_root(document)); i++) {
        struct tpp_json value;
        uint64_t seven = 0;
        assert_true(tpp_json_at(tpp_json_root(document), i, &value, NULL));
        assert_int_equal(tpp_json_as_u64(value, 0, 9, &seven, NULL), TPP_OK);
        sum += seven;
    }
    assert_int_equal(sum, 7 * COUNT);
    tpp_json_document_free(document);
    free(text);
}

static void long_pointers_are_cut_with_dots(void **state)
{
    (void)state;
    char text[600];
    snprintf(text, sizeof text, "{\"%0100d\":{\"%0100d\":{\"k\":[5]}}}", 1, 2);
    struct tpp_json_document *document = parse(text);
    struct tpp_json value = tpp_json_root(document);
    for (int i = 0; i < 4; i++) {
        assert_true(tpp_json_at(value, 0, &value, NULL));
    }
    const size_t length = strlen(value.pointer);
    assert_true(length < sizeof value.pointer);
    assert_int_equal(length, 159); /* 156 and the dots */
    assert_string_equal(value.pointer + length - 5, "00...");
    struct tpp_error err;
    uint64_t number;
    assert_int_equal(tpp_json_as_u64(value, 0, 4, &number, &err), TPP_E_RANGE);
    assert_true(strncmp(err.where, "in.json#/000", 12) == 0);
    tpp_json_document_free(document);
}

/* Reads the member "x" of a text with each reader, and shows the error of the one asked for. */
static enum tpp_code read_number(const char *text, double min, double max, double *out, struct tpp_error *err)
{
    struct tpp_json_document *document = parse(text);
    const enum tpp_code code = tpp_json_need_number(tpp_json_root(document), "x", min, max, out, err);
    tpp_json_document_free(document);
    return code;
}

static enum tpp_code read_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out, struct tpp_error *err)
{
    struct tpp_json_document *document = parse(text);
    const enum tpp_code code = tpp_json_need_u64(tpp_json_root(document), "x", min, max, out, err);
    tpp_json_document_free(document);
    return code;
}

static void numbers_are_checked_for_type_and_range(void **state)
{
    (void)state;
    struct tpp_error err;
    double value = 99;
    assert_int_equal(read_number("{\"x\":0.25}", 0, 1, &value, &err), TPP_OK);
    CHECK_NUMBER(value, 0.25, 0);
    assert_int_equal(read_number("{\"x\":1}", 0, 1, &value, &err), TPP_OK);
    value = 99;
    assert_int_equal(read_number("{\"x\":1.5}", 0, 1, &value, &err), TPP_E_RANGE);
    assert_string_equal(err.message, "\"x\" must be from 0 to 1, found the number 1.5");
    assert_string_equal(err.where, "in.json#/x");
    assert_int_equal(read_number("{\"x\":-1}", 0, INFINITY, &value, &err), TPP_E_RANGE);
    assert_string_equal(err.message, "\"x\" must be at least 0, found the number -1");
    assert_int_equal(read_number("{\"x\":7}", -INFINITY, 6, &value, &err), TPP_E_RANGE);
    assert_string_equal(err.message, "\"x\" must be at most 6, found the number 7");
    assert_int_equal(read_number("{\"x\":\"80GB\"}", 0, 1, &value, &err), TPP_E_TYPE);
    assert_string_equal(err.message, "\"x\" must be a number, found the text \"80GB\"");
    assert_int_equal(read_number("{}", 0, 1, &value, &err), TPP_E_MISSING);
    assert_string_equal(err.message, "the key \"x\" is missing");
    assert_string_equal(err.hint, "add \"x\" here");
    assert_int_equal(read_number("{\"x\":null}", 0, 1, &value, &err), TPP_E_MISSING);
    assert_int_equal(read_number("[]", 0, 1, &value, &err), TPP_E_TYPE);
    assert_string_equal(err.message, "the document must be an object with the key \"x\", found an array");
    CHECK_NUMBER(value, 99, 0);
}

static void whole_numbers_are_exact_below_2_to_the_53(void **state)
{
    (void)state;
    struct tpp_error err;
    uint64_t value = 99;
    assert_int_equal(read_u64("{\"x\":4000000000}", 0, UINT64_MAX, &value, &err), TPP_OK); /* more than an int holds */
    assert_true(value == UINT64_C(4000000000));
    assert_int_equal(read_u64("{\"x\":9007199254740991}", 0, UINT64_MAX, &value, &err), TPP_OK);
    assert_true(value == UINT64_C(9007199254740991));
    assert_int_equal(read_u64("{\"x\":1e3}", 0, UINT64_MAX, &value, &err), TPP_OK);
    assert_int_equal(value, 1000);
    assert_int_equal(read_u64("{\"x\":-0}", 0, UINT64_MAX, &value, &err), TPP_OK);
    assert_int_equal(value, 0);
    value = 99;
    assert_int_equal(read_u64("{\"x\":9007199254740992}", 0, UINT64_MAX, &value, &err), TPP_E_RANGE);
    assert_string_equal(err.message,
                        "\"x\" must be a whole number from 0 to 9007199254740991, found the number 9007199254740992");
    assert_int_equal(read_u64("{\"x\":1e300}", 0, UINT64_MAX, &value, &err), TPP_E_RANGE);
    assert_int_equal(read_u64("{\"x\":-1}", 0, UINT64_MAX, &value, &err), TPP_E_RANGE);
    assert_int_equal(read_u64("{\"x\":7}", 8, 16, &value, &err), TPP_E_RANGE);
    assert_int_equal(read_u64("{\"x\":17}", 8, 16, &value, &err), TPP_E_RANGE);
    assert_string_equal(err.message, "\"x\" must be a whole number from 8 to 16, found the number 17");
    assert_int_equal(read_u64("{\"x\":8.5}", 8, 16, &value, &err), TPP_E_TYPE);
    assert_int_equal(read_u64("{\"x\":true}", 8, 16, &value, &err), TPP_E_TYPE);
    assert_string_equal(err.message, "\"x\" must be a whole number, found true");
    assert_int_equal(read_u64("{}", 0, 1, &value, &err), TPP_E_MISSING);
    assert_int_equal(value, 99);
}

static void texts_objects_and_truth_values_are_checked(void **state)
{
    (void)state;
    struct tpp_json_document *document =
        parse("{\"s\":\"h\\u00e9\",\"o\":{\"k\":1},\"b\":true,\"list\":[false,{},null]}");
    const struct tpp_json root = tpp_json_root(document);
    struct tpp_error err;
    struct tpp_json value;
    const char *text = "kept";
    bool truth = false;
    assert_int_equal(tpp_json_need_string(root, "s", &text, &err), TPP_OK);
    assert_string_equal(text, "h\xc3\xa9");
    assert_int_equal(tpp_json_need_string(root, "o", &text, &err), TPP_E_TYPE);
    assert_string_equal(err.message, "\"o\" must be a text, found an object");
    assert_int_equal(tpp_json_need_string(root, "t", &text, &err), TPP_E_MISSING);
    assert_int_equal(tpp_json_need_object(root, "o", &value, &err), TPP_OK);
    assert_string_equal(value.pointer, "/o");
    assert_int_equal(tpp_json_need_object(root, "s", &value, &err), TPP_E_TYPE);
    assert_int_equal(tpp_json_need_object(root, "t", &value, &err), TPP_E_MISSING);
    assert_int_equal(tpp_json_get_bool(root, "b", &truth, &err), TPP_OK);
    assert_true(truth);
    assert_int_equal(tpp_json_get_bool(root, "s", &truth, &err), TPP_E_TYPE);
    assert_true(tpp_json_member(root, "list", &value));
    assert_true(tpp_json_at(value, 2, &value, NULL));
    assert_int_equal(tpp_json_as_bool(value, &truth, &err), TPP_E_TYPE);
    assert_string_equal(err.message, "element 2 must be true or false, found null");
    assert_string_equal(err.where, "in.json#/list/2");
    tpp_json_document_free(document);
}

static void optional_members_keep_their_default(void **state)
{
    (void)state;
    struct tpp_json_document *document = parse("{\"n\":null,\"s\":\"x\",\"u\":5,\"d\":0.5}");
    const struct tpp_json root = tpp_json_root(document);
    struct tpp_error err;
    double number = 1.5;
    uint64_t whole = 7;
    bool truth = true;
    const char *text = "default";
    assert_int_equal(tpp_json_get_number(root, "absent", 0, 1, &number, &err), TPP_OK);
    assert_int_equal(tpp_json_get_u64(root, "n", 0, 1, &whole, &err), TPP_OK);
    assert_int_equal(tpp_json_get_bool(root, "n", &truth, &err), TPP_OK);
    assert_int_equal(tpp_json_get_string(root, "absent", &text, &err), TPP_OK);
    CHECK_NUMBER(number, 1.5, 0);
    assert_int_equal(whole, 7);
    assert_true(truth);
    assert_string_equal(text, "default");
    assert_int_equal(tpp_json_get_number(root, "d", 0, 1, &number, &err), TPP_OK);
    CHECK_NUMBER(number, 0.5, 0);
    assert_int_equal(tpp_json_get_u64(root, "u", 0, 9, &whole, &err), TPP_OK);
    assert_int_equal(whole, 5);
    assert_int_equal(tpp_json_get_string(root, "s", &text, &err), TPP_OK);
    assert_string_equal(text, "x");
    assert_int_equal(tpp_json_get_number(root, "s", 0, 1, &number, &err), TPP_E_TYPE);
    assert_int_equal(tpp_json_get_u64(root, "u", 0, 4, &whole, &err), TPP_E_RANGE);
    assert_int_equal(tpp_json_get_string(root, "u", &text, &err), TPP_E_TYPE);
    struct tpp_json member;
    assert_true(tpp_json_member(root, "u", &member));
    assert_int_equal(tpp_json_get_string(member, "k", &text, &err), TPP_E_TYPE);
    assert_string_equal(err.message, "\"u\" must be an object with the key \"k\", found the number 5");
    tpp_json_document_free(document);
}

static void unknown_keys_are_refused_with_the_nearest_name(void **state)
{
    (void)state;
    static const char *const names[] = {"hidden_size", "num_layers", "vocab_size", NULL};
    struct tpp_error err;
    struct tpp_json_document *document = parse("{\"num_layers\":1,\"hiden_size\":2}");
    assert_int_equal(tpp_json_refuse_unknown(tpp_json_root(document), names, &err), TPP_E_SYNTAX);
    assert_string_equal(err.message, "unknown key \"hiden_size\"");
    assert_string_equal(err.where, "in.json#/hiden_size");
    assert_string_equal(err.hint, "did you mean \"hidden_size\"?");
    tpp_json_document_free(document);
    document = parse("{\"colour\":1}");
    assert_int_equal(tpp_json_refuse_unknown(tpp_json_root(document), names, &err), TPP_E_SYNTAX);
    assert_string_equal(err.hint, "known here: hidden_size, num_layers, vocab_size");
    assert_int_equal(tpp_json_refuse_unknown(tpp_json_root(document), names, NULL), TPP_E_SYNTAX);
    tpp_json_document_free(document);
    document = parse("{\"vocab_size\":1}");
    assert_int_equal(tpp_json_refuse_unknown(tpp_json_root(document), names, &err), TPP_OK);
    tpp_json_document_free(document);
    document = parse("[1]");
    assert_int_equal(tpp_json_refuse_unknown(tpp_json_root(document), names, &err), TPP_OK);
    tpp_json_document_free(document);
}

static void a_long_list_of_known_keys_ends_with_dots(void **state)
{
    (void)state;
    static const char *names[101];
    struct tpp_error err;
    struct tpp_json_document *document = parse("{\"colour\":1}");
    for (size_t i = 0; i < 100; i++) {
        names[i] = "sequence_length";
    }
    assert_int_equal(tpp_json_refuse_unknown(tpp_json_root(document), names, &err), TPP_E_SYNTAX);
    const size_t length = strlen(err.hint);
    assert_true(length > 230 && length < sizeof err.hint);
    assert_string_equal(err.hint + length - 21, " sequence_length, ...");
    tpp_json_document_free(document);
}

static void messages_stay_whole_with_long_names_and_texts(void **state)
{
    (void)state;
    char file[400], text[700];
    memset(file, 'f', sizeof file);
    strcpy(file + sizeof file - 9, "end.json");
    snprintf(text, sizeof text, "{\"%0250d\":\"%0250d\"}", 1, 2);
    struct tpp_json_document *document;
    struct tpp_error err;
    assert_int_equal(tpp_json_parse(text, strlen(text), file, &document, &err), TPP_OK);
    struct tpp_json value;
    double number;
    assert_true(tpp_json_at(tpp_json_root(document), 0, &value, NULL));
    assert_int_equal(tpp_json_as_number(value, 0, 1, &number, &err), TPP_E_TYPE);
    assert_non_null(strstr(err.where, "end.json#/000"));
    assert_non_null(strstr(err.message, "...\""));
    tpp_json_document_free(document);
}

static void files_are_loaded_and_missing_ones_are_io_errors(void **state)
{
    (void)state;
    char path[] = "json_read_XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    fputs("{\"a\":\n  oops}", file);
    fclose(file);
    struct tpp_json_document *document;
    struct tpp_error err;
    char where[64];
    snprintf(where, sizeof where, "%s:2:3", path);
    assert_int_equal(tpp_json_load(path, &document, &err), TPP_E_SYNTAX);
    assert_string_equal(err.where, where);
    assert_null(document);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\"a\": 3}\n", file);
    fclose(file);
    uint64_t value;
    assert_int_equal(tpp_json_load(path, &document, &err), TPP_OK);
    assert_int_equal(tpp_json_need_u64(tpp_json_root(document), "a", 0, 9, &value, &err), TPP_OK);
    assert_int_equal(value, 3);
    tpp_json_document_free(document);
    remove(path);
    assert_int_equal(tpp_json_load(path, &document, &err), TPP_E_IO);
    assert_null(document);
    tpp_json_document_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_texts_are_read),
        cmocka_unit_test(what_is_not_json_is_refused_with_line_and_column),
        cmocka_unit_test(doubled_keys_are_refused_wherever_they_stand),
        cmocka_unit_test(nesting_stops_at_128),
        cmocka_unit_test(members_are_found_by_their_exact_name),
        cmocka_unit_test(kinds_sizes_and_indices_are_told),
        cmocka_unit_test(access_by_index_does_not_walk_a_list),
        cmocka_unit_test(long_pointers_are_cut_with_dots),
        cmocka_unit_test(numbers_are_checked_for_type_and_range),
        cmocka_unit_test(whole_numbers_are_exact_below_2_to_the_53),
        cmocka_unit_test(texts_objects_and_truth_values_are_checked),
        cmocka_unit_test(optional_members_keep_their_default),
        cmocka_unit_test(unknown_keys_are_refused_with_the_nearest_name),
        cmocka_unit_test(a_long_list_of_known_keys_ends_with_dots),
        cmocka_unit_test(messages_stay_whole_with_long_names_and_texts),
        cmocka_unit_test(files_are_loaded_and_missing_ones_are_io_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
