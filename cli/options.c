#include "cli/options.h"

#include "costmodel/base/text.h"
#include "costmodel/base/units.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define MAX_OPTIONS 256 /* of one command */
#define MAX_CHOICES 16
#define MAX_CHOICE_LENGTH 40

struct parser {
    const struct tpp_option_part *parts;
    void *arguments;
    bool given[MAX_OPTIONS]; /* by position of the option over all parts */
    bool help;
};

static bool choice_contains(const char *words, const char *text)
{
    const size_t length = strlen(text);
    for (const char *word = words; word != NULL && length > 0;) {
        if (strncmp(word, text, length) == 0 && (word[length] == '|' || word[length] == '\0'))
            return strchr(text, '|') == NULL;
        word = strchr(word, '|');
        word = word != NULL ? word + 1 : NULL;
    }
    return false;
}

unsigned tpp_choice_index(const char *words, const char *text)
{
    const size_t length = strlen(text);
    unsigned index = 0;
    for (const char *word = words; word != NULL; index++) {
        if (strncmp(word, text, length) == 0 && (word[length] == '|' || word[length] == '\0'))
            return index;
        word = strchr(word, '|');
        word = word != NULL ? word + 1 : NULL;
    }
    return 0;
}

static void *field_of(const struct parser *parser, const struct tpp_option_part *part, const struct tpp_option *option)
{
    return (char *)parser->arguments + part->base + option->offset;
}

/* Position of an option over all parts and its part; NULL when there is none. `length` bytes of `name` count. */
static const struct tpp_option *find(const struct tpp_option_part *parts, const char *name, size_t length,
                                     char short_name, const struct tpp_option_part **out_part, size_t *index)
{
    *index = 0;
    for (const struct tpp_option_part *part = parts; part->heading != NULL; part++) {
        for (const struct tpp_option *option = part->options; option->name != NULL; option++, (*index)++) {
            const bool is_long =
                name != NULL && strlen(option->name) == length && memcmp(option->name, name, length) == 0;
            if (is_long || (short_name != '\0' && option->short_name == short_name)) {
                *out_part = part;
                return option;
            }
        }
    }
    return NULL;
}

const struct tpp_option *tpp_options_find(const struct tpp_option_part *parts, const char *name)
{
    const struct tpp_option_part *part;
    size_t index;
    if (strncmp(name, "--", 2) == 0)
        return find(parts, name + 2, strlen(name + 2), '\0', &part, &index);
    if (name[0] == '-' && name[1] != '\0' && name[2] == '\0')
        return find(parts, NULL, 0, name[1], &part, &index);
    return NULL;
}

/* A beginning of a name comes before a name that is merely alike: abbreviations are refused, but understood. */
static const char *nearest_name(const struct tpp_option_part *parts, const char *name)
{
    const char *names[MAX_OPTIONS + 1], *begun = NULL;
    size_t count = 0;
    for (const struct tpp_option_part *part = parts; part->heading != NULL; part++) {
        for (const struct tpp_option *option = part->options; option->name != NULL && count < MAX_OPTIONS; option++) {
            names[count++] = option->name;
            if (begun == NULL && name[0] != '\0' && strncmp(option->name, name, strlen(name)) == 0)
                begun = option->name;
        }
    }
    names[count] = NULL;
    return begun != NULL ? begun : tpp_text_nearest(name, names);
}

static enum tpp_code fail_unknown(const struct parser *parser, const char *argument, size_t length,
                                  struct tpp_error *err)
{
    char name[64], hint[128] = "see --help for the options of this command";
    snprintf(name, sizeof name, "%.*s", (int)length, argument);
    const char *near = strncmp(name, "--", 2) == 0 ? nearest_name(parser->parts, name + 2) : NULL;
    if (near != NULL)
        snprintf(hint, sizeof hint, "did you mean --%s? Names are never abbreviated", near);
    return tpp_fail(err, TPP_E_USAGE, name, hint, "unknown option \"%s\"", name);
}

static enum tpp_code check_range(const struct tpp_option *option, const char *where, const char *text, double value,
                                 struct tpp_error *err)
{
    const bool is_count = option->kind == TPP_OPTION_COUNT || option->kind == TPP_OPTION_BYTES;
    const double max = option->max > 0 ? option->max : is_count ? TPP_OPTION_COUNT_MAX : 1e300;
    if (value >= option->min && value <= max)
        return TPP_OK;
    char hint[128];
    if (option->max > 0)
        snprintf(hint, sizeof hint, "give a value from %.15g to %.15g", option->min, max);
    else if (value < option->min)
        snprintf(hint, sizeof hint, "give a value of at least %.15g", option->min);
    else
        snprintf(hint, sizeof hint, "give a value of at most %.16g", max);
    return tpp_fail(err, TPP_E_USAGE, where, hint, "%s is out of range: \"%s\"", where, text);
}

static enum tpp_code parse_count(const struct tpp_option *option, const char *where, const char *text, int64_t *out,
                                 struct tpp_error *err)
{
    if (option->whole_digits && (text[0] == '\0' || text[strspn(text, "0123456789")] != '\0'))
        return tpp_fail(err, TPP_E_USAGE, where, "write the number in digits: 32768, not 32K (which could be 32000)",
                        "%s must be a whole number in digits, found \"%s\"", where, text);
    uint64_t value;
    const enum tpp_code code = option->kind == TPP_OPTION_COUNT ? tpp_parse_count(text, where, &value, err)
                                                                : tpp_parse_bytes(text, where, &value, err);
    if (code != TPP_OK)
        return code;
    if (check_range(option, where, text, (double)value, err) != TPP_OK)
        return TPP_E_USAGE;
    *out = (int64_t)value;
    return TPP_OK;
}

static enum tpp_code parse_number(const struct tpp_option *option, const char *where, const char *text, double *out,
                                  struct tpp_error *err)
{
    double value;
    const enum tpp_code code = option->kind == TPP_OPTION_NUMBER ? tpp_parse_number(text, where, &value, err)
                                                                 : tpp_parse_bandwidth(text, where, &value, err);
    if (code != TPP_OK)
        return code;
    if (check_range(option, where, text, value, err) != TPP_OK)
        return TPP_E_USAGE;
    *out = value;
    return TPP_OK;
}

/* The word of "a|b|c" that is most like `text`, in `buffer`; NULL when none is near. */
static const char *nearest_choice(const char *words, const char *text, char buffer[MAX_CHOICES][MAX_CHOICE_LENGTH])
{
    const char *names[MAX_CHOICES + 1];
    size_t count = 0;
    for (const char *word = words; word != NULL && count < MAX_CHOICES; count++) {
        const size_t length = strcspn(word, "|");
        snprintf(buffer[count], MAX_CHOICE_LENGTH, "%.*s", (int)length, word);
        names[count] = buffer[count];
        word = word[length] == '|' ? word + length + 1 : NULL;
    }
    names[count] = NULL;
    return tpp_text_nearest(text, names);
}

static enum tpp_code parse_choice(const struct tpp_option *option, const char *where, const char *text,
                                  const char **out, struct tpp_error *err)
{
    if (!choice_contains(option->choices, text)) {
        char hint[256], words[MAX_CHOICES][MAX_CHOICE_LENGTH];
        const char *near = nearest_choice(option->choices, text, words);
        if (near != NULL)
            snprintf(hint, sizeof hint, "did you mean \"%s\"? One of %s", near, option->choices);
        else
            snprintf(hint, sizeof hint, "give one of %s", option->choices);
        return tpp_fail(err, TPP_E_USAGE, where, hint, "%s cannot be \"%s\"", where, text);
    }
    *out = text;
    return TPP_OK;
}

static enum tpp_code append_item(struct tpp_option_list *list, const char *where, const char *text,
                                 struct tpp_error *err)
{
    if (list->count == TPP_OPTION_LIST_MAX)
        return tpp_fail(err, TPP_E_USAGE, where, "give fewer of them", "%s is given more than %d times", where,
                        TPP_OPTION_LIST_MAX);
    list->items[list->count++] = text;
    return TPP_OK;
}

/* Parses `text` into the option's field; a failed parse of a value is always a usage error. */
static enum tpp_code store(const struct tpp_option *option, void *field, const char *text, struct tpp_error *err)
{
    char where[64];
    enum tpp_code code = TPP_E_INTERNAL;
    snprintf(where, sizeof where, "--%s", option->name);
    switch (option->kind) {
    case TPP_OPTION_FLAG:
        *(bool *)field = true;
        return TPP_OK;
    case TPP_OPTION_TEXT:
        *(const char **)field = text;
        return text[0] != '\0' ? TPP_OK : tpp_fail(err, TPP_E_USAGE, where, "give a value", "%s is empty", where);
    case TPP_OPTION_LIST:
        return append_item(field, where, text, err);
    case TPP_OPTION_CHOICE:
        return parse_choice(option, where, text, field, err);
    case TPP_OPTION_COUNT:
    case TPP_OPTION_BYTES:
        code = parse_count(option, where, text, field, err);
        break;
    case TPP_OPTION_NUMBER:
    case TPP_OPTION_BANDWIDTH:
        code = parse_number(option, where, text, field, err);
        break;
    }
    if (code != TPP_OK && err != NULL)
        err->code = TPP_E_USAGE;
    return code != TPP_OK ? TPP_E_USAGE : TPP_OK;
}

static void set_absent(const struct tpp_option *option, void *field)
{
    switch (option->kind) {
    case TPP_OPTION_COUNT:
    case TPP_OPTION_BYTES:
        *(int64_t *)field = TPP_OPTION_ABSENT;
        break;
    case TPP_OPTION_NUMBER:
    case TPP_OPTION_BANDWIDTH:
        *(double *)field = TPP_OPTION_ABSENT;
        break;
    case TPP_OPTION_FLAG:
    case TPP_OPTION_TEXT:
    case TPP_OPTION_CHOICE:
    case TPP_OPTION_LIST:
        break; /* the struct is zeroed */
    }
}

static void set_defaults(const struct parser *parser)
{
    for (const struct tpp_option_part *part = parser->parts; part->heading != NULL; part++) {
        for (const struct tpp_option *option = part->options; option->name != NULL; option++) {
            void *field = field_of(parser, part, option);
            set_absent(option, field);
            if (option->fallback != NULL) {
                const enum tpp_code code = store(option, field, option->fallback, NULL);
                assert(code == TPP_OK); /* a default that does not parse is our mistake */
                (void)code;
            }
        }
    }
}

/* One option at argv[*index], with its value in the same or the next argument. */
static enum tpp_code parse_option(struct parser *parser, int argc, const char **argv, int *index, struct tpp_error *err)
{
    const char *argument = argv[*index];
    const bool is_long = argument[1] == '-';
    const char *equals = is_long ? strchr(argument, '=') : NULL;
    const size_t length = equals != NULL ? (size_t)(equals - argument) : strlen(argument);
    const struct tpp_option_part *part;
    size_t position;
    if ((length == 6 && strncmp(argument, "--help", 6) == 0 && equals == NULL) || strcmp(argument, "-h") == 0) {
        parser->help = true;
        return TPP_OK;
    }
    const struct tpp_option *option = is_long ? find(parser->parts, argument + 2, length - 2, '\0', &part, &position)
                                              : find(parser->parts, NULL, 0, argument[1], &part, &position);
    if (option == NULL || (!is_long && argument[2] != '\0'))
        return fail_unknown(parser, argument, length, err);
    char where[64];
    snprintf(where, sizeof where, "--%s", option->name);
    assert(position < sizeof parser->given / sizeof parser->given[0]);
    if (parser->given[position] && option->kind != TPP_OPTION_LIST)
        return tpp_fail(err, TPP_E_USAGE, where, "give it once", "%s is given twice", where);
    parser->given[position] = true;
    const char *value = equals != NULL ? equals + 1 : NULL;
    if (option->kind == TPP_OPTION_FLAG) {
        if (value != NULL)
            return tpp_fail(err, TPP_E_USAGE, where, "leave out everything from \"=\"", "%s takes no value", where);
    } else if (value == NULL) {
        if (*index + 1 >= argc)
            return tpp_fail(err, TPP_E_USAGE, where, "give its value after it", "%s needs a value", where);
        value = argv[++*index];
    }
    return store(option, field_of(parser, part, option), value, err);
}

static enum tpp_code check_required(const struct parser *parser, struct tpp_error *err)
{
    size_t position = 0;
    for (const struct tpp_option_part *part = parser->parts; part->heading != NULL; part++) {
        for (const struct tpp_option *option = part->options; option->name != NULL; option++, position++) {
            if (option->required && !parser->given[position]) {
                char where[64], hint[128];
                snprintf(where, sizeof where, "--%s", option->name);
                snprintf(hint, sizeof hint, "give %s=%s: %.80s", where,
                         option->metavar != NULL ? option->metavar : option->choices, option->help);
                return tpp_fail(err, TPP_E_USAGE, where, hint, "%s is missing", where);
            }
        }
    }
    return TPP_OK;
}

enum tpp_code tpp_options_parse(const struct tpp_option_part *parts, int argc, const char **argv, void *arguments,
                                struct tpp_operands *operands, bool *help, struct tpp_error *err)
{
    struct parser parser = {.parts = parts, .arguments = arguments};
    bool only_operands = false;
    int num_operands = 0;
    set_defaults(&parser);
    for (int i = 0; i < argc; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = true;
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1] != '\0') {
            const enum tpp_code code = parse_option(&parser, argc, argv, &i, err);
            if (code != TPP_OK)
                return code;
        } else {
            argv[num_operands++] = argv[i];
        }
    }
    *operands = (struct tpp_operands){.items = argv, .count = (size_t)num_operands};
    *help = parser.help;
    return parser.help ? TPP_OK : check_required(&parser, err);
}
