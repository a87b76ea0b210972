/* arguments.c - see arguments.h. */
#include "planner/launch/arguments.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HINTS = 200 }; /* finding a name like another takes time: not for a flood of unknown ones */

bool tpp_argument_integer(const char *text, int64_t *out)
{
    char digits[24];
    size_t count = 0;
    for (const char *c = text; *c != '\0'; c++) {
        bool is_digit = *c >= '0' && *c <= '9';
        bool separates = *c == '_' && c > text && c[-1] >= '0' && c[-1] <= '9' && c[1] != '\0';
        if (separates)
            continue;
        if (count + 1 == sizeof digits || !(is_digit || (c == text && (*c == '-' || *c == '+'))))
            return false;
        digits[count++] = *c;
    }
    digits[count] = '\0';
    errno = 0;
    *out = strtoll(digits, NULL, 10);
    return errno == 0 && count > 0 && digits[count - 1] >= '0' && digits[count - 1] <= '9';
}

bool tpp_argument_number(const char *text, double *out)
{
    char *end;
    if (*text == '\0' || strspn(text, "0123456789+-.eE_") != strlen(text))
        return false;
    *out = strtod(text, &end);
    return *end == '\0' && isfinite(*out);
}

static const char *reason_of(enum tpp_shell_note_kind kind)
{
    switch (kind) {
    case TPP_SHELL_UNSET:
        return "the script does not set it";
    case TPP_SHELL_REQUIRED:
        return "it must be set when the script starts";
    case TPP_SHELL_POSITIONAL:
        return "it is an argument of the script";
    case TPP_SHELL_COMMAND:
        return "it is known only where the script runs";
    case TPP_SHELL_UNDECIDED:
        return "it depends on a condition that cannot be decided here";
    case TPP_SHELL_PLACEHOLDER:
        return "it is a placeholder";
    case TPP_SHELL_REPLACED:
        return "the script sets it itself";
    case TPP_SHELL_UNREADABLE:
    case TPP_SHELL_SOURCED:
        break;
    }
    return "it cannot be followed";
}

static const char *code_of(enum tpp_shell_note_kind kind)
{
    static const char *const codes[] = {
        [TPP_SHELL_UNSET] = "unset-variable",       [TPP_SHELL_REQUIRED] = "required-variable",
        [TPP_SHELL_POSITIONAL] = "script-argument", [TPP_SHELL_COMMAND] = "command-output",
        [TPP_SHELL_UNDECIDED] = "undecided",        [TPP_SHELL_PLACEHOLDER] = "placeholder",
        [TPP_SHELL_UNREADABLE] = "unreadable",      [TPP_SHELL_REPLACED] = "set-again",
        [TPP_SHELL_SOURCED] = "sourced-file"};
    return codes[kind];
}

static enum tpp_severity severity_of(enum tpp_shell_note_kind kind, bool needed)
{
    if (needed)
        return TPP_SEVERITY_ERROR;
    bool is_left_open = kind == TPP_SHELL_UNSET || kind == TPP_SHELL_UNDECIDED || kind == TPP_SHELL_PLACEHOLDER;
    return is_left_open ? TPP_SEVERITY_WARNING : TPP_SEVERITY_INFO;
}

void tpp_argument_explain(const struct tpp_shell_script *script, const struct tpp_shell_word *word, const char *option,
                          bool needed, struct tpp_problems *problems)
{
    const struct tpp_shell_note *note = tpp_shell_note_of(script, word);
    char hint[256];
    if (note == NULL)
        return;
    const char *name = *note->text == '$' ? note->text + 1 : "";
    bool can_set = *name != '\0' &&
                   strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789") == strlen(name);
    if (note->kind == TPP_SHELL_UNDECIDED)
        snprintf(hint, sizeof hint, "give the variables of the condition in line %u with --set NAME=VALUE", note->line);
    else if (can_set)
        snprintf(hint, sizeof hint, "give it with --set %.100s=VALUE", name);
    else
        snprintf(hint, sizeof hint, "write the value into the script, or into a variable given with --set");
    tpp_problems_add(problems, code_of(note->kind), severity_of(note->kind, needed), word->line, hint,
                     "%s%s%.120s is not known: %s (line %u)", option, *option != '\0' ? ": " : "", note->text,
                     reason_of(note->kind), note->line);
}

/* ---- one command line ---- */

struct reader {
    struct tpp_shell_words words;
    const struct tpp_shell_script *script;
    const struct tpp_argument_dialect *dialect;
    struct tpp_arguments *out;
    struct tpp_problems *problems;
    char *text;           /* where the next unquoted value goes */
    bool has_flag_before; /* the last word was an option without a value */
};

static bool looks_like_option(const char *text)
{
    double number;
    return text[0] == '-' && text[1] != '\0' && !tpp_argument_number(text, &number);
}

static void explain_release(struct reader *r, const struct tpp_shell_word *word, const char *name,
                            const struct tpp_launch_option *option, const struct tpp_launch_rename *rename)
{
    const char *here = tpp_release_name(r->dialect->release);
    char hint[200] = "take it out";
    if (rename != NULL && rename->new_name != NULL)
        snprintf(hint, sizeof hint, "write %s instead", rename->new_name);
    if (rename != NULL && rename->ends_program && r->dialect->release >= rename->since)
        tpp_problems_add(r->problems, "removed-option", TPP_SEVERITY_ERROR, word->line, hint,
                         "%s %s stops at %s, kept only to say so", r->dialect->framework, here, name);
    else if (option->last < r->dialect->release)
        tpp_problems_add(r->problems, rename != NULL ? "renamed-option" : "removed-option", TPP_SEVERITY_ERROR,
                         word->line, hint, "%s %s has no %s: its last release with it is %s", r->dialect->framework,
                         here, name, tpp_release_name(option->last));
    else
        tpp_problems_add(r->problems, "too-new-option", TPP_SEVERITY_ERROR, word->line,
                         "take it out, or say which release is used with --framework-version",
                         "%s %s has no %s yet: its first release with it is %s", r->dialect->framework, here, name,
                         tpp_release_name(option->first));
}

static void explain_unknown(struct reader *r, const struct tpp_shell_word *word, const char *name)
{
    char hint[200];
    if (r->dialect->is_partial)
        return;
    bool is_worth_it = r->problems->count < MAX_HINTS && r->dialect->nearest != NULL;
    const char *near = is_worth_it ? r->dialect->nearest(name) : NULL;
    if (near != NULL)
        snprintf(hint, sizeof hint, "did you mean %s?", near);
    else
        snprintf(hint, sizeof hint, "take it out, or check its spelling");
    tpp_problems_add(r->problems, "unknown-option",
                     r->dialect->takes_foreign ? TPP_SEVERITY_WARNING : TPP_SEVERITY_ERROR, word->line, hint,
                     "%s has no option %.120s in any release known%s", r->dialect->framework, name,
                     r->dialect->takes_foreign ? "; the program may have added it" : "");
}

/* NULL, with the problem added, when the release does not take the name. An option that has only got another name is
 * kept: the reader still learns what the script means. */
static const struct tpp_launch_option *look_up(struct reader *r, const struct tpp_shell_word *word, const char *name)
{
    const struct tpp_launch_option *option = r->dialect->find(name);
    const struct tpp_launch_rename *rename = r->dialect->has_releases ? tpp_launch_rename_find(name) : NULL;
    if (option == NULL) {
        explain_unknown(r, word, name);
        return NULL;
    }
    bool ends = rename != NULL && rename->ends_program && r->dialect->release >= rename->since;
    if (r->dialect->has_releases && (ends || !tpp_launch_option_in(option, r->dialect->release))) {
        explain_release(r, word, name, option, rename);
        return rename != NULL && rename->new_name != NULL && !ends ? option : NULL;
    }
    return option;
}

static size_t max_values(const struct tpp_launch_option *option)
{
    return option->num_values == '+' || option->num_values == '*' ? SIZE_MAX : (size_t)(option->num_values - '0');
}

static size_t min_values(const struct tpp_launch_option *option)
{
    return option->num_values == '+' ? 1 : option->num_values == '*' ? 0 : (size_t)(option->num_values - '0');
}

static bool is_right_kind(const struct tpp_launch_option *option, const char *value)
{
    int64_t integer;
    double number;
    if (option->kind == TPP_LAUNCH_OPTION_INT)
        return tpp_argument_integer(value, &integer);
    return option->kind != TPP_LAUNCH_OPTION_FLOAT || tpp_argument_number(value, &number);
}

static void check_values(struct reader *r, struct tpp_argument *argument)
{
    const struct tpp_launch_option *option = argument->option;
    argument->is_known = true;
    for (size_t i = 0; i < argument->num_values; i++) {
        const struct tpp_shell_word *value = &argument->values[i];
        char hint[200];
        argument->is_known = argument->is_known && value->note == 0;
        if (value->note != 0)
            continue;
        if (argument->is_null && (option->kind != TPP_LAUNCH_OPTION_INT || strcmp(option->defaults, "none") == 0))
            continue;
        if (r->dialect->has_overrides && strstr(value->text, "${") != NULL) { /* resolved when it runs */
            argument->is_known = false;
            continue;
        }
        bool is_right = is_right_kind(option, value->text);
        bool is_allowed = tpp_launch_option_allows(option, r->dialect->release, value->text);
        argument->is_known = argument->is_known && is_right && is_allowed;
        if (!is_right) {
            tpp_problems_add(r->problems, "bad-value", TPP_SEVERITY_ERROR, value->line,
                             option->kind == TPP_LAUNCH_OPTION_INT ? "give a whole number, without an exponent"
                                                                   : "give a number",
                             "%s does not take \"%.100s\"", option->name, value->text);
        } else if (!is_allowed) {
            snprintf(hint, sizeof hint, "it takes %.160s", option->choices);
            tpp_problems_add(r->problems, "bad-value", TPP_SEVERITY_ERROR, value->line, hint,
                             "%s does not take \"%.100s\"%s%s", option->name, value->text,
                             r->dialect->has_releases ? " in release " : "",
                             r->dialect->has_releases ? tpp_release_name(r->dialect->release) : "");
        }
    }
    if (argument->num_values >= min_values(option))
        return;
    argument->is_known = false;
    tpp_problems_add(r->problems, "missing-value", TPP_SEVERITY_ERROR, argument->word->line, "write it behind",
                     "%s has no value", option->name);
}

static void add(struct reader *r, struct tpp_argument argument)
{
    r->out->items[r->out->count] = argument; /* never more than there are words */
    struct tpp_argument *kept = &r->out->items[r->out->count++];
    if (argument.values == NULL)
        kept->values = &kept->joined;
    check_values(r, kept);
}

/* "--name=value": an option without values takes none. */
static void read_joined(struct reader *r, const struct tpp_shell_word *word, const char *equals, const char *name)
{
    const struct tpp_launch_option *option = look_up(r, word, name);
    if (option == NULL)
        return;
    if (max_values(option) == 0) {
        tpp_problems_add(r->problems, "stray-value", TPP_SEVERITY_ERROR, word->line, "take the value out",
                         "%s takes no value", name);
        return;
    }
    struct tpp_argument argument = {.option = option, .word = word, .num_values = 1, .joined = *word};
    argument.joined.text = equals + 1;
    add(r, argument);
}

/* Hydra's value without the quotes around it: \' and \\ inside of them are ' and \. */
static const char *unquote(struct reader *r, const char *value)
{
    const char quote = *value, *const text = r->text;
    const size_t length = strlen(value);
    if ((quote != '\'' && quote != '"') || length < 2 || value[length - 1] != quote)
        return value;
    for (const char *c = value + 1; c < value + length - 1; c++) {
        c += *c == '\\' && (c[1] == quote || c[1] == '\\') && c + 1 < value + length - 1;
        *r->text++ = *c;
    }
    *r->text++ = '\0';
    return text;
}

/* "key=value", "+key=value", "++key=value". */
static void read_override(struct reader *r, const struct tpp_shell_word *word, const char *equals)
{
    char name[128];
    const char *key = word->text + strspn(word->text, "+");
    const size_t length = (size_t)(equals - key);
    snprintf(name, sizeof name, "%.*s", (int)(length < 120 ? length : 120), key);
    r->has_flag_before = false;
    const struct tpp_launch_option *option = look_up(r, word, name);
    if (option == NULL)
        return;
    struct tpp_argument argument = {.option = option, .word = word, .num_values = 1, .joined = *word};
    argument.joined.text = unquote(r, equals + 1);
    argument.is_null = word->note == 0 && strcmp(equals + 1, "null") == 0;
    add(r, argument);
}

static size_t count_values(const struct reader *r, size_t at, size_t most)
{
    size_t count = 0;
    while (count < most && at + count < r->words.count && !looks_like_option(r->words.items[at + count].text))
        count++;
    return count;
}

/* A word where an option should be. */
static void read_stray(struct reader *r, const struct tpp_shell_word *word)
{
    if (word->note != 0) {
        tpp_argument_explain(r->script, word, "", false, r->problems);
        return;
    }
    tpp_problems_add(r->problems, "stray-word", TPP_SEVERITY_ERROR, word->line,
                     r->has_flag_before ? "the option in front of it takes no value"
                                        : "quote a value that has spaces, and expand arrays as \"${NAME[@]}\"",
                     "\"%.100s\" belongs to no option", word->text);
}

/* Reads the word at `at` and its values; returns behind them. */
static size_t read_word(struct reader *r, size_t at)
{
    const struct tpp_shell_word *word = &r->words.items[at];
    char name[128];
    const char *equals = r->dialect->has_overrides && word->text[0] != '-' ? strchr(word->text, '=') : NULL;
    if (equals != NULL && equals != word->text) {
        read_override(r, word, equals);
        return at + 1;
    }
    if (word->text[0] != '-' || word->text[1] == '\0') {
        read_stray(r, word);
        return at + 1;
    }
    size_t length = strcspn(word->text, "=");
    snprintf(name, sizeof name, "%.*s", (int)(length < 120 ? length : 120), word->text);
    r->has_flag_before = false;
    if (word->text[length] == '=') {
        read_joined(r, word, word->text + length, name);
        return at + 1;
    }
    const struct tpp_launch_option *option = look_up(r, word, name);
    if (option == NULL)
        return at + 1 + count_values(r, at + 1, SIZE_MAX);
    size_t count = count_values(r, at + 1, max_values(option));
    r->has_flag_before = max_values(option) == 0;
    add(r,
        (struct tpp_argument){
            .option = option, .word = word, .values = count > 0 ? &r->words.items[at + 1] : word, .num_values = count});
    return at + 1 + count;
}

enum tpp_code tpp_arguments_read(struct tpp_shell_words words, const struct tpp_shell_script *script,
                                 const struct tpp_argument_dialect *dialect, struct tpp_arguments *out,
                                 struct tpp_problems *problems, struct tpp_error *err)
{
    struct reader reader = {.words = words, .script = script, .dialect = dialect, .out = out, .problems = problems};
    *out = (struct tpp_arguments){.items = NULL};
    if (words.count > TPP_ARGUMENTS_MAX_WORDS)
        return tpp_fail(err, TPP_E_UNSUPPORTED, "script", "check how the command line is made",
                        "the training has %zu words on its command line, more than %d", words.count,
                        TPP_ARGUMENTS_MAX_WORDS);
    out->items = calloc(words.count + 1, sizeof *out->items);
    if (out->items == NULL)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory while reading the command line");
    size_t num_bytes = 1;
    for (size_t i = 0; dialect->has_overrides && i < words.count; i++)
        num_bytes += strlen(words.items[i].text) + 1;
    reader.text = out->texts = malloc(num_bytes);
    if (out->texts == NULL) {
        tpp_arguments_release(out);
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory while reading the command line");
    }
    for (size_t at = 0; at < words.count;)
        at = read_word(&reader, at);
    return TPP_OK;
}

void tpp_arguments_release(struct tpp_arguments *arguments)
{
    free(arguments->items);
    free(arguments->texts);
    *arguments = (struct tpp_arguments){.items = NULL};
}

const struct tpp_argument *tpp_argument_find(const struct tpp_arguments *arguments, const char *name)
{
    for (size_t i = arguments->count; i > 0; i--) {
        if (strcmp(arguments->items[i - 1].option->name, name) == 0)
            return &arguments->items[i - 1];
    }
    return NULL;
}

uint32_t tpp_argument_line(const struct tpp_arguments *arguments, const char *name)
{
    const struct tpp_argument *argument = tpp_argument_find(arguments, name);
    return argument != NULL ? argument->word->line : 0;
}
