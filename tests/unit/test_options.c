/* The option table: parsing, and that help, man page and completion say the same. */
#include "cli/command.h"
#include "cli/help.h"
#include "cli/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* cmocka.h needs setjmp.h, stdarg.h, stddef.h and stdint.h before it. */
#include <cmocka.h>

struct arguments {
    bool json;
    const char *model, *recompute;
    int64_t batch, memory, tokens;
    double headroom, rate;
    struct tpp_option_list set;
};

#define ARG(field) offsetof(struct arguments, field)

static const struct tpp_option options[] = {
    {"json", 'j', TPP_OPTION_FLAG, ARG(json), .help = "print JSON"},
    {"model", 'm', TPP_OPTION_TEXT, ARG(model), "NAME", .required = true, .help = "a model"},
    {"recompute", 0, TPP_OPTION_CHOICE, ARG(recompute), .choices = "none|selective|full", .fallback = "none",
     .help = "recomputation"},
    {"batch", 0, TPP_OPTION_COUNT, ARG(batch), "N", .min = 1, .max = 1000000, .help = "a count"},
    {"tokens", 0, TPP_OPTION_COUNT, ARG(tokens), "N", .whole_digits = true, .help = "a count in digits"},
    {"memory", 0, TPP_OPTION_BYTES, ARG(memory), "BYTES", .help = "bytes"},
    {"headroom", 0, TPP_OPTION_NUMBER, ARG(headroom), "FRACTION", .max = 0.9, .fallback = "0.05", .help = "a number"},
    {"rate", 0, TPP_OPTION_BANDWIDTH, ARG(rate), "RATE", .help = "a bandwidth"},
    {"set", 0, TPP_OPTION_LIST, ARG(set), "K=V", .help = "a list"},
    {.name = NULL},
};
static const struct tpp_option_part parts[] = {{"All", options, 0}, {NULL}};

struct result {
    struct arguments arguments;
    struct tpp_operands operands;
    const char *words[80];
    bool help;
    enum tpp_code code;
    struct tpp_error err;
};

/* Parses words up to NULL. */
static void parse(struct result *result, const char *const *words)
{
    int count = 0;
    memset(result, 0, sizeof *result);
    for (; words[count] != NULL; count++)
        result->words[count] = words[count];
    result->code = tpp_options_parse(parts, count, result->words, &result->arguments, &result->operands, &result->help,
                                     &result->err);
}

#define PARSE(result, ...) parse((result), (const char *const[]){__VA_ARGS__, NULL})

static void refuse(const char *word, const char *value, const char *where)
{
    struct result result;
    PARSE(&result, "--model=m", word, value);
    assert_int_equal(result.code, TPP_E_USAGE);
    assert_int_equal(result.err.code, TPP_E_USAGE);
    assert_string_equal(result.err.where, where);
    assert_true(result.err.hint[0] != '\0');
}

static void both_forms_of_a_value_are_read(void **state)
{
    struct result result;
    (void)state;
    PARSE(&result, "--model=a=b", "--batch", "64", "-j", "--rate=200Gb/s", "--memory", "80GB");
    assert_int_equal(result.code, TPP_OK);
    assert_string_equal(result.arguments.model, "a=b");
    assert_int_equal(result.arguments.batch, 64);
    assert_true(result.arguments.json);
    assert_true(result.arguments.rate == 25e9);          /* 200e9 / 8 */
    assert_true(result.arguments.memory == 80000000000); /* decimal */
}

static void what_is_not_given_is_absent_or_its_default(void **state)
{
    struct result result;
    (void)state;
    PARSE(&result, "-m", "x");
    assert_int_equal(result.code, TPP_OK);
    assert_false(result.arguments.json);
    assert_string_equal(result.arguments.recompute, "none");
    assert_int_equal(result.arguments.batch, TPP_OPTION_ABSENT);
    assert_int_equal(result.arguments.memory, TPP_OPTION_ABSENT);
    assert_true(result.arguments.rate == TPP_OPTION_ABSENT);
    assert_true(result.arguments.headroom == 0.05);
    assert_int_equal(result.arguments.set.count, 0);
}

static void operands_and_options_mix(void **state)
{
    struct result result;
    (void)state;
    PARSE(&result, "one", "--model", "m", "-", "--set", "a=1", "--set=b=2", "--", "--batch", "--");
    assert_int_equal(result.code, TPP_OK);
    assert_int_equal(result.operands.count, 4);
    assert_string_equal(result.operands.items[0], "one");
    assert_string_equal(result.operands.items[1], "-");
    assert_string_equal(result.operands.items[2], "--batch");
    assert_string_equal(result.operands.items[3], "--");
    assert_int_equal(result.arguments.set.count, 2);
    assert_string_equal(result.arguments.set.items[1], "b=2");
}

static void names_are_never_abbreviated(void **state)
{
    struct result result;
    (void)state;
    PARSE(&result, "--model=m", "--recomp=full");
    assert_int_equal(result.code, TPP_E_USAGE);
    assert_string_equal(result.err.where, "--recomp");
    assert_non_null(strstr(result.err.hint, "--recompute"));
    PARSE(&result, "--model=m", "--recomptue=full");
    assert_non_null(strstr(result.err.hint, "--recompute"));
    refuse("--zzzzzzzzzzzz", "1", "--zzzzzzzzzzzz");
    refuse("-q", "1", "-q");
    refuse("-jm", "1", "-jm");
    refuse("--=", "1", "--");
}

static void values_that_mean_nothing_are_refused(void **state)
{
    (void)state;
    refuse("--recompute", "ful", "--recompute");
    refuse("--recompute", "none|full", "--recompute");
    refuse("--recompute", "", "--recompute");
    refuse("--batch", "0", "--batch");
    refuse("--batch", "1000001", "--batch");
    refuse("--batch", "-3", "--batch");
    refuse("--batch", "1.5", "--batch");
    refuse("--batch", "", "--batch");
    refuse("--batch", "99999999999999999999999", "--batch");
    refuse("--tokens", "32K", "--tokens");
    refuse("--tokens", "1e3", "--tokens");
    refuse("--tokens", "9007199254740993", "--tokens"); /* 2^53 + 1 */
    refuse("--memory", "80 bananas", "--memory");
    refuse("--headroom", "0.91", "--headroom");
    refuse("--headroom", "nan", "--headroom");
    refuse("--headroom", "-0.1", "--headroom");
    refuse("--rate", "fast", "--rate");
    refuse("--model", "again", "--model"); /* given twice */
}

static void values_missing_or_too_many_are_refused(void **state)
{
    struct result result;
    (void)state;
    PARSE(&result, "--model");
    assert_int_equal(result.code, TPP_E_USAGE);
    PARSE(&result, "--model=m", "--json=1");
    assert_int_equal(result.code, TPP_E_USAGE);
    assert_string_equal(result.err.where, "--json");
    PARSE(&result, "--model=");
    assert_int_equal(result.code, TPP_E_USAGE);
    PARSE(&result, "--json");
    assert_int_equal(result.code, TPP_E_USAGE);
    assert_string_equal(result.err.where, "--model");
    assert_string_equal(result.err.message, "--model is missing");
    const char *words[TPP_OPTION_LIST_MAX + 3] = {"--model=m"};
    for (int i = 1; i <= TPP_OPTION_LIST_MAX + 1; i++)
        words[i] = "--set=x";
    parse(&result, words);
    assert_int_equal(result.code, TPP_E_USAGE);
}

static void help_needs_nothing_else(void **state)
{
    struct result result;
    (void)state;
    PARSE(&result, "--json", "-h");
    assert_int_equal(result.code, TPP_OK);
    assert_true(result.help);
    PARSE(&result, "--help");
    assert_true(result.help);
    PARSE(&result, "--model=m", "--help=x");
    assert_int_equal(result.code, TPP_E_USAGE);
}

/* Does the whole word occur, not followed by a letter of a longer name? */
static bool contains_word(const char *text, const char *word)
{
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        const char next = at[strlen(word)];
        if (strchr("abcdefghijklmnopqrstuvwxyz0123456789-\\", next) == NULL || next == '\0')
            return true;
    }
    return false;
}

static void escape_minus(const char *text, char *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '-')
            *out++ = '\\';
        *out++ = *text;
    }
    *out = '\0';
}

/* The part of the man page or completion that belongs to one command. */
static void section(const char *text, const char *begin, const char *end, char *out, size_t size)
{
    const char *from = strstr(text, begin);
    assert_non_null(from);
    from += strlen(begin);
    const char *to = strstr(from, end);
    snprintf(out, size, "%.*s", to != NULL ? (int)(to - from) : (int)strlen(from), from);
}

static void check_option_everywhere(const struct tpp_option *option, const char *help, const char *man,
                                    const char *completion)
{
    char name[80], escaped[160];
    snprintf(name, sizeof name, "--%s", option->name);
    escape_minus(name, escaped);
    if (!contains_word(help, name) || !contains_word(man, escaped) || !contains_word(completion, name))
        fail_msg("%s is not in help, man page and completion alike", name);
}

static void help_man_page_and_completion_name_every_option(void **state)
{
    static char part[40000];
    struct tpp_text help, man, completion;
    (void)state;
    tpp_text_init(&man);
    tpp_text_init(&completion);
    tpp_help_man_page(&man);
    tpp_help_bash_completion(&completion);
    for (size_t i = 0; tpp_commands[i] != NULL; i++) {
        const struct tpp_command *command = tpp_commands[i];
        char begin[80];
        static char words[8000];
        snprintf(begin, sizeof begin, "    %s:*) words='", command->name);
        section(tpp_text_get(&completion), begin, "'", words, sizeof words);
        snprintf(begin, sizeof begin, ".SS tp-plan %s\n", command->name);
        if (!command->hidden)
            section(tpp_text_get(&man), begin, "\n.SS ", part, sizeof part);
        tpp_text_init(&help);
        tpp_help_command(command, &help);
        for (const struct tpp_option_part *p = command->parts; p->heading != NULL && !command->hidden; p++) {
            for (const struct tpp_option *option = p->options; option->name != NULL; option++)
                check_option_everywhere(option, tpp_text_get(&help), part, words);
        }
        assert_false(tpp_text_failed(&help));
        tpp_text_release(&help);
    }
    tpp_text_release(&man);
    tpp_text_release(&completion);
}

static void help_lines_fit_and_do_not_end_in_spaces(void **state)
{
    (void)state;
    for (size_t i = 0; tpp_commands[i] != NULL; i++) {
        struct tpp_text help;
        tpp_text_init(&help);
        tpp_help_command(tpp_commands[i], &help);
        const char *examples = strstr(tpp_text_get(&help), "\nExamples:");
        for (const char *line = tpp_text_get(&help); line < examples;) {
            const size_t length = strcspn(line, "\n");
            assert_true(length <= 100);
            assert_true(length == 0 || line[length - 1] != ' ');
            line += length + 1;
        }
        tpp_text_release(&help);
    }
}

/* A value that the option must accept. */
static const char *sample_value(const struct tpp_option *option, char *buffer, size_t size)
{
    switch (option->kind) {
    case TPP_OPTION_CHOICE:
        snprintf(buffer, size, "%.*s", (int)strcspn(option->choices, "|"), option->choices);
        return buffer;
    case TPP_OPTION_COUNT:
    case TPP_OPTION_BYTES:
    case TPP_OPTION_NUMBER:
    case TPP_OPTION_BANDWIDTH:
        snprintf(buffer, size, "%.15g", option->min);
        return buffer;
    case TPP_OPTION_FLAG:
    case TPP_OPTION_TEXT:
    case TPP_OPTION_LIST:
        break;
    }
    return "x=1";
}

static void every_option_of_every_command_parses_and_is_well_formed(void **state)
{
    (void)state;
    for (size_t i = 0; tpp_commands[i] != NULL; i++) {
        const struct tpp_command *command = tpp_commands[i];
        assert_non_null(command->examples[1].command);
        assert_null(strchr(command->summary, '.'));
        for (const struct tpp_option_part *part = command->parts; part->heading != NULL; part++) {
            for (const struct tpp_option *option = part->options; option->name != NULL; option++) {
                static char arguments[1 << 16];
                char word[160], value[80];
                struct tpp_operands operands;
                struct tpp_error err = {.code = TPP_OK};
                bool help;
                assert_true(command->arguments_size <= sizeof arguments);
                memset(arguments, 0, sizeof arguments);
                snprintf(word, sizeof word, option->kind == TPP_OPTION_FLAG ? "--%s" : "--%s=%s", option->name,
                         sample_value(option, value, sizeof value));
                const char *words[] = {word, "--help"};
                if (tpp_options_parse(command->parts, 2, words, arguments, &operands, &help, &err) != TPP_OK)
                    fail_msg("%s %s: %s", command->name, word, err.message);
                assert_non_null(option->help);
                assert_true(option->kind == TPP_OPTION_FLAG || option->metavar != NULL || option->choices != NULL);
                snprintf(word, sizeof word, "--%s", option->name);
                assert_ptr_equal(tpp_options_find(command->parts, word), option); /* no name twice */
                snprintf(word, sizeof word, "-%c", option->short_name);
                assert_true(option->short_name == 0 || tpp_options_find(command->parts, word) == option);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_of_a_value_are_read),
        cmocka_unit_test(what_is_not_given_is_absent_or_its_default),
        cmocka_unit_test(operands_and_options_mix),
        cmocka_unit_test(names_are_never_abbreviated),
        cmocka_unit_test(values_that_mean_nothing_are_refused),
        cmocka_unit_test(values_missing_or_too_many_are_refused),
        cmocka_unit_test(help_needs_nothing_else),
        cmocka_unit_test(help_man_page_and_completion_name_every_option),
        cmocka_unit_test(help_lines_fit_and_do_not_end_in_spaces),
        cmocka_unit_test(every_option_of_every_command_parses_and_is_well_formed),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
