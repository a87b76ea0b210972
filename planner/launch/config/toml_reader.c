/* toml_reader.c - TOML 1.0, strictly: what Python's tomllib refuses is an error with its line. */
#include "planner/launch/config/builder.h"

#include "costmodel/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct tpp_config *config;
    struct tpp_error *err;
    const char *text, *end, *line_begin;
    uint32_t line;
    enum tpp_code code; /* the first failure: everything stops then */
    unsigned depth;
    struct tpp_config_path table; /* of the last [header] */
    struct tpp_text scratch;
};

static void fail(struct reader *r, enum tpp_code code, const char *hint, const char *what)
{
    if (r->code == TPP_OK)
        r->code = tpp_config_fail(r->config, code, r->line, (uint32_t)(r->text - r->line_begin) + 1, hint, r->err, "%s",
                                  what);
}

static char peek(const struct reader *r)
{
    return r->text < r->end ? *r->text : '\0';
}

static bool looking_at(const struct reader *r, const char *word)
{
    size_t length = strlen(word);
    return (size_t)(r->end - r->text) >= length && memcmp(r->text, word, length) == 0;
}

static void skip_blanks(struct reader *r)
{
    while (peek(r) == ' ' || peek(r) == '\t')
        r->text++;
}

static bool take_newline(struct reader *r)
{
    if (looking_at(r, "\r\n"))
        r->text++;
    if (peek(r) != '\n')
        return false;
    r->line++;
    r->line_begin = ++r->text;
    return true;
}

/* A valid UTF-8 character that is no control character but the tab. */
static size_t character(struct reader *r)
{
    unsigned char c = (unsigned char)peek(r);
    size_t length = tpp_utf8_length(r->text, (size_t)(r->end - r->text));
    if (length == 0 || (c < 0x20 && c != '\t') || c == 0x7f) {
        fail(r, TPP_E_SYNTAX, "take it out", length == 0 ? "bytes that are no UTF-8" : "a control character");
        return 0;
    }
    return length;
}

static void skip_comment(struct reader *r)
{
    if (peek(r) != '#')
        return;
    while (r->code == TPP_OK && r->text < r->end && peek(r) != '\n' && !looking_at(r, "\r\n"))
        r->text += character(r);
}

/* Blanks, comments and new lines, inside arrays and between lines. */
static void skip_space(struct reader *r)
{
    do {
        skip_blanks(r);
        skip_comment(r);
    } while (r->code == TPP_OK && take_newline(r));
}

static void end_of_line(struct reader *r)
{
    skip_blanks(r);
    skip_comment(r);
    if (r->code == TPP_OK && r->text < r->end && !take_newline(r))
        fail(r, TPP_E_SYNTAX, "begin a new line", "something behind the value");
}

/* ---- strings ---- */

static void append_code_point(struct reader *r, unsigned long code)
{
    char out[5] = "";
    if (code < 0x80)
        out[0] = (char)code;
    else if (code < 0x800)
        snprintf(out, sizeof out, "%c%c", (int)(0xc0 | code >> 6), (int)(0x80 | (code & 0x3f)));
    else if (code < 0x10000)
        snprintf(out, sizeof out, "%c%c%c", (int)(0xe0 | code >> 12), (int)(0x80 | (code >> 6 & 0x3f)),
                 (int)(0x80 | (code & 0x3f)));
    else
        snprintf(out, sizeof out, "%c%c%c%c", (int)(0xf0 | code >> 18), (int)(0x80 | (code >> 12 & 0x3f)),
                 (int)(0x80 | (code >> 6 & 0x3f)), (int)(0x80 | (code & 0x3f)));
    tpp_text_append(&r->scratch, out);
}

static void read_unicode(struct reader *r, int digits)
{
    unsigned long code = 0;
    for (int i = 0; i < digits; i++) {
        char c = peek(r);
        int value = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (value < 0) {
            fail(r, TPP_E_SYNTAX, "write four or eight hexadecimal digits", "no Unicode escape");
            return;
        }
        code = code * 16 + (unsigned long)value;
        r->text++;
    }
    if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        fail(r, TPP_E_SYNTAX, "write another one", "no Unicode character that can be read");
    else
        append_code_point(r, code);
}

static void read_escape(struct reader *r, bool is_multiline)
{
    static const char names[] = "btnfr\"\\", values[] = "\b\t\n\f\r\"\\";
    const char *found = peek(r) != '\0' ? strchr(names, peek(r)) : NULL;
    if (found != NULL) {
        tpp_text_append_bytes(&r->scratch, values + (found - names), 1);
        r->text++;
    } else if (peek(r) == 'u' || peek(r) == 'U') {
        int digits = *r->text++ == 'u' ? 4 : 8;
        read_unicode(r, digits);
    } else if (is_multiline && (peek(r) == ' ' || peek(r) == '\t' || peek(r) == '\n' || peek(r) == '\r')) {
        skip_blanks(r);
        if (!take_newline(r)) {
            fail(r, TPP_E_SYNTAX, "write \\\\ for a backslash", "a backslash in front of a blank");
            return;
        }
        do
            skip_blanks(r);
        while (take_newline(r));
    } else {
        fail(r, TPP_E_SYNTAX, "write \\\\ for a backslash", "no escape that TOML has");
    }
}

/* Up to two quotes may stand in front of the closing three. */
static bool ends_multiline(struct reader *r, const char *quotes)
{
    if (!looking_at(r, quotes))
        return false;
    r->text += 3;
    for (int i = 0; i < 2 && peek(r) == *quotes; i++) {
        tpp_text_append_bytes(&r->scratch, quotes, 1);
        r->text++;
    }
    return true;
}

/* The text lands in r->scratch. */
static void read_string(struct reader *r)
{
    char quote = *r->text;
    const char *quotes = quote == '"' ? "\"\"\"" : "'''";
    bool is_multiline = looking_at(r, quotes);
    r->text += is_multiline ? 3 : 1;
    tpp_text_clear(&r->scratch);
    if (is_multiline)
        take_newline(r);
    while (r->code == TPP_OK) {
        if (is_multiline ? ends_multiline(r, quotes) : peek(r) == quote) {
            r->text += is_multiline ? 0 : 1;
            return;
        }
        if (r->text == r->end || (!is_multiline && peek(r) == '\n')) {
            fail(r, TPP_E_SYNTAX, "close the quotes", "a text that does not end");
        } else if (quote == '"' && peek(r) == '\\') {
            r->text++;
            read_escape(r, is_multiline);
        } else if (is_multiline && take_newline(r)) {
            tpp_text_append(&r->scratch, "\n");
        } else {
            size_t length = character(r);
            tpp_text_append_bytes(&r->scratch, r->text, length);
            r->text += length;
        }
    }
}

/* ---- keys ---- */

static bool is_bare(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* a."b c".d: appends each part to the path. */
static void read_key(struct reader *r, struct tpp_config_path *path)
{
    do {
        skip_blanks(r);
        if (peek(r) == '"' || peek(r) == '\'') {
            if (looking_at(r, "\"\"\"") || looking_at(r, "'''"))
                fail(r, TPP_E_SYNTAX, "write the key on one line", "a key of several lines");
            else
                read_string(r);
        } else {
            const char *begin = r->text;
            while (is_bare(peek(r)))
                r->text++;
            tpp_text_clear(&r->scratch);
            tpp_text_append_bytes(&r->scratch, begin, (size_t)(r->text - begin));
            if (r->text == begin)
                fail(r, TPP_E_SYNTAX, "write key = value", "no key");
        }
        if (r->code == TPP_OK && !tpp_config_path_key(path, tpp_text_get(&r->scratch)))
            fail(r, TPP_E_UNSUPPORTED, "shorten the names", "a path of keys that is too long");
        skip_blanks(r);
    } while (r->code == TPP_OK && peek(r) == '.' && r->text++ != NULL);
}

/* ---- values ---- */

static size_t add(struct reader *r, const char *path, enum tpp_config_kind kind, const char *text)
{
    size_t index = 0;
    if (r->code == TPP_OK)
        r->code = tpp_config_add(r->config, path, kind, text, r->line, &index, r->err);
    return index;
}

static void read_value(struct reader *r, struct tpp_config_path *path);
static void read_assignment(struct reader *r, const struct tpp_config_path *table);

static void read_array(struct reader *r, struct tpp_config_path *path)
{
    size_t length = path->length, index = add(r, path->text, TPP_CONFIG_LIST, "");
    uint32_t count = 0;
    r->text++;
    for (skip_space(r); r->code == TPP_OK && peek(r) != ']'; skip_space(r)) {
        if (!tpp_config_path_index(path, count++))
            fail(r, TPP_E_UNSUPPORTED, "shorten the names", "a path of keys that is too long");
        else
            read_value(r, path);
        path->length = length;
        path->text[length] = '\0';
        skip_space(r);
        if (r->code == TPP_OK && peek(r) != ',' && peek(r) != ']')
            fail(r, TPP_E_SYNTAX, "write , or ]", "a list that does not end");
        if (r->code == TPP_OK && peek(r) == ',')
            r->text++;
    }
    if (r->code != TPP_OK)
        return;
    r->text++;
    r->config->entries[index].num_items = count;
}

static void read_inline_table(struct reader *r, struct tpp_config_path *path)
{
    size_t index = add(r, path->text, TPP_CONFIG_TABLE, "");
    uint32_t count = 0;
    r->text++;
    skip_blanks(r);
    while (r->code == TPP_OK && peek(r) != '}') {
        read_assignment(r, path);
        count++;
        skip_blanks(r);
        if (r->code == TPP_OK && peek(r) != ',' && peek(r) != '}')
            fail(r, TPP_E_SYNTAX, "write , or }", "a table that does not end");
        if (r->code == TPP_OK && peek(r) == ',') {
            r->text++;
            skip_blanks(r);
            if (peek(r) == '}')
                fail(r, TPP_E_SYNTAX, "take the comma out", "a comma in front of }");
        }
    }
    if (r->code != TPP_OK)
        return;
    r->text++;
    r->config->entries[index].num_items = count;
}

/* 1979-05-27T07:32:00Z and its parts: kept as text. */
static bool is_date(const char *word)
{
    size_t digits = strspn(word, "0123456789");
    return ((digits == 4 && word[4] == '-') || (digits == 2 && word[2] == ':')) &&
           word[strspn(word, "0123456789-:.+TtZz")] == '\0';
}

/* Exponents without a point are numbers, and so is 1.0e5; 1. and .5 are not. */
static void read_word(struct reader *r, const struct tpp_config_path *path)
{
    char word[80], number[80];
    size_t length = 0;
    while (length + 1 < sizeof word && (is_bare(peek(r)) || strchr("+.:", peek(r)) != NULL) && peek(r) != '\0')
        word[length++] = *r->text++;
    word[length] = '\0';
    if (length == 0 || is_bare(peek(r)))
        fail(r, TPP_E_SYNTAX, "put texts in quotes", "no value");
    else if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0)
        add(r, path->text, TPP_CONFIG_BOOLEAN, word);
    else if (tpp_config_integer(word, true, number))
        add(r, path->text, TPP_CONFIG_INTEGER, number);
    else if (strstr(word, ".inf") == NULL && strstr(word, ".nan") == NULL && strstr(word, ".I") == NULL &&
             strstr(word, ".N") == NULL && tpp_config_number(word, false, number, sizeof number))
        add(r, path->text, TPP_CONFIG_NUMBER, number);
    else if (is_date(word))
        add(r, path->text, TPP_CONFIG_TEXT, word);
    else
        fail(r, TPP_E_SYNTAX, "put texts in quotes", "a value that is no number, boolean or text in quotes");
}

static void read_value(struct reader *r, struct tpp_config_path *path)
{
    if (r->depth == TPP_CONFIG_MAX_DEPTH) {
        fail(r, TPP_E_UNSUPPORTED, NULL, "nested too deep");
        return;
    }
    r->depth++;
    if (peek(r) == '"' || peek(r) == '\'') {
        uint32_t line = r->line;
        read_string(r);
        size_t index = add(r, path->text, TPP_CONFIG_TEXT, tpp_text_get(&r->scratch));
        if (r->code == TPP_OK)
            r->config->entries[index].line = line;
    } else if (peek(r) == '[') {
        read_array(r, path);
    } else if (peek(r) == '{') {
        read_inline_table(r, path);
    } else {
        read_word(r, path);
    }
    r->depth--;
}

static void read_assignment(struct reader *r, const struct tpp_config_path *table)
{
    struct tpp_config_path path = *table;
    read_key(r, &path);
    if (r->code == TPP_OK && peek(r) != '=')
        fail(r, TPP_E_SYNTAX, "write key = value", "no = behind the key");
    if (r->code != TPP_OK)
        return;
    r->text++;
    skip_blanks(r);
    read_value(r, &path);
}

/* ---- tables ---- */

/* Items of the array of tables that have been seen; the last entry of the path holds the count. */
static struct tpp_config_entry *find_last(struct reader *r, const char *path)
{
    for (size_t i = r->config->count; i > 0; i--) {
        if (strcmp(r->config->entries[i - 1].path, path) == 0)
            return &r->config->entries[i - 1];
    }
    return NULL;
}

static void begin_table(struct reader *r)
{
    bool is_item = looking_at(r, "[[");
    r->text += is_item ? 2 : 1;
    r->table = (struct tpp_config_path){.length = 0};
    read_key(r, &r->table);
    if (r->code == TPP_OK && !looking_at(r, is_item ? "]]" : "]"))
        fail(r, TPP_E_SYNTAX, "write [name] or [[name]]", "the head of a table does not end");
    if (r->code != TPP_OK)
        return;
    r->text += is_item ? 2 : 1;
    struct tpp_config_entry *entry = is_item ? find_last(r, r->table.text) : NULL;
    if (entry != NULL && entry->kind != TPP_CONFIG_LIST) {
        fail(r, TPP_E_SYNTAX, "rename one of them", "a name of an array of tables that is taken");
        return;
    }
    if (is_item) {
        size_t index =
            entry != NULL ? (size_t)(entry - r->config->entries) : add(r, r->table.text, TPP_CONFIG_LIST, "");
        if (r->code == TPP_OK && !tpp_config_path_index(&r->table, r->config->entries[index].num_items++))
            fail(r, TPP_E_UNSUPPORTED, "shorten the names", "a path of keys that is too long");
    }
    add(r, r->table.text, TPP_CONFIG_TABLE, "");
    end_of_line(r);
}

/* Tables inside an array of tables belong to its last item: [[a]] then [a.b] is a.0.b here. Not followed: refused. */
static void check_doubled(struct reader *r)
{
    if (r->code == TPP_OK)
        r->code = tpp_config_finish(r->config, r->err);
    for (size_t i = 1; r->code == TPP_OK && i < r->config->num_sorted; i++) {
        const struct tpp_config_entry *entry = r->config->sorted[i], *before = r->config->sorted[i - 1];
        size_t length = strlen(before->path);
        bool is_inside = strncmp(before->path, entry->path, length) == 0 && entry->path[length] == '.';
        bool is_value = before->kind != TPP_CONFIG_LIST && before->kind != TPP_CONFIG_TABLE;
        if (strcmp(before->path, entry->path) == 0)
            r->code = tpp_config_fail(r->config, TPP_E_SYNTAX, entry->line, 0, "write it once", r->err,
                                      "%.150s is there twice, also in line %u", entry->path, before->line);
        else if (is_inside && is_value)
            r->code = tpp_config_fail(r->config, TPP_E_SYNTAX, entry->line, 0, "rename one of them", r->err,
                                      "%.150s is a value, in line %u, and a table", before->path, before->line);
    }
}

enum tpp_code tpp_config_read_toml(struct tpp_config *config, const char *text, size_t length, struct tpp_error *err)
{
    struct reader r = {.config = config, .err = err, .text = text, .end = text + length, .line_begin = text, .line = 1};
    uint32_t num_arrays = 0;
    tpp_text_init(&r.scratch);
    for (skip_space(&r); r.code == TPP_OK && r.text < r.end; skip_space(&r)) {
        if (peek(&r) == '[') {
            num_arrays += looking_at(&r, "[[");
            begin_table(&r);
            if (num_arrays > 100) /* each looks for its list */
                fail(&r, TPP_E_UNSUPPORTED, "give the configuration of a training", "more than 100 arrays of tables");
        } else {
            read_assignment(&r, &r.table);
            end_of_line(&r);
        }
    }
    check_doubled(&r);
    if (r.code == TPP_OK && tpp_text_failed(&r.scratch))
        r.code = tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    tpp_text_release(&r.scratch);
    return r.code;
}
