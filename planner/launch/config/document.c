/* document.c - see document.h. */
#include "planner/launch/config/builder.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum tpp_code tpp_config_fail(const struct tpp_config *config, enum tpp_code code, uint32_t line, uint32_t column,
                              const char *hint, struct tpp_error *err, const char *format, ...)
{
    char where[256], message[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (column > 0)
        snprintf(where, sizeof where, "%.200s:%u:%u", config->file, line, column);
    else
        snprintf(where, sizeof where, "%.200s:%u", config->file, line);
    return tpp_fail(err, code, where, hint, "%s", message);
}

static bool append(struct tpp_config_path *path, char c)
{
    if (path->length + 1 >= sizeof path->text)
        return false;
    path->text[path->length++] = c;
    path->text[path->length] = '\0';
    return true;
}

bool tpp_config_path_key(struct tpp_config_path *path, const char *key)
{
    bool fits = path->length == 0 || append(path, '.');
    for (; fits && *key != '\0'; key++)
        fits = (*key != '.' || append(path, '\\')) && append(path, *key);
    return fits;
}

bool tpp_config_path_index(struct tpp_config_path *path, uint32_t index)
{
    char number[12];
    snprintf(number, sizeof number, "%u", index);
    return tpp_config_path_key(path, number);
}

static enum tpp_code grow(struct tpp_config *config, struct tpp_error *err)
{
    if (config->count < config->capacity)
        return TPP_OK;
    size_t capacity = config->capacity == 0 ? 64 : 2 * config->capacity;
    struct tpp_config_entry *entries = realloc(config->entries, capacity * sizeof *entries);
    if (entries == NULL)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    config->entries = entries;
    config->capacity = capacity;
    return TPP_OK;
}

enum tpp_code tpp_config_add(struct tpp_config *config, const char *path, enum tpp_config_kind kind, const char *text,
                             uint32_t line, size_t *index, struct tpp_error *err)
{
    if (config->count >= TPP_CONFIG_MAX_ENTRIES)
        return tpp_config_fail(config, TPP_E_UNSUPPORTED, line, 0, "give the configuration of a training", err,
                               "more than %d settings", TPP_CONFIG_MAX_ENTRIES);
    enum tpp_code code = grow(config, err);
    if (code != TPP_OK)
        return code;
    struct tpp_config_entry entry = {.kind = kind, .line = line};
    entry.path = tpp_arena_strdup(config->arena, path);
    entry.text = tpp_arena_strdup(config->arena, text);
    if (entry.path == NULL || entry.text == NULL)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    if (index != NULL)
        *index = config->count;
    config->entries[config->count++] = entry;
    return TPP_OK;
}

static int compare(const void *a, const void *b)
{
    const struct tpp_config_entry *x = *(const struct tpp_config_entry *const *)a;
    const struct tpp_config_entry *y = *(const struct tpp_config_entry *const *)b;
    const int order = strcmp(x->path, y->path);
    return order != 0 ? order : (x > y) - (x < y);
}

enum tpp_code tpp_config_finish(struct tpp_config *config, struct tpp_error *err)
{
    free(config->sorted);
    config->sorted = malloc((config->count + 1) * sizeof *config->sorted);
    if (config->sorted == NULL)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    config->num_sorted = config->count;
    for (size_t i = 0; i < config->count; i++)
        config->sorted[i] = &config->entries[i];
    qsort(config->sorted, config->count, sizeof *config->sorted, compare);
    for (size_t i = 1; i < config->count; i++) {
        if (strcmp(config->sorted[i - 1]->path, config->sorted[i]->path) == 0)
            config->entries[config->sorted[i - 1] - config->entries].is_doubled = true;
    }
    return TPP_OK;
}

const struct tpp_config_entry *tpp_config_find(const struct tpp_config *config, const char *path)
{
    size_t low = 0, high = config->num_sorted;
    while (low < high) { /* behind the last one of that path */
        size_t middle = low + (high - low) / 2;
        if (strcmp(config->sorted[middle]->path, path) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && strcmp(config->sorted[low - 1]->path, path) == 0 ? config->sorted[low - 1] : NULL;
}

const struct tpp_config_entry *tpp_config_entries(const struct tpp_config *config, size_t *count)
{
    *count = config->count;
    return config->entries;
}

static bool is_digit_of(char c, int base)
{
    int value = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : 99;
    return value < base;
}

/* Copies digits without the underscores between them; returns the end, or NULL when there is no digit, an underscore at
 * an end, or no room. */
static const char *copy_digits(const char *text, int base, char *out, size_t *used, size_t size)
{
    if (!is_digit_of(*text, base))
        return NULL;
    while (is_digit_of(*text, base) || (*text == '_' && is_digit_of(text[1], base))) {
        if (*text == '_')
            text++;
        if (*used + 1 >= size)
            return NULL;
        out[(*used)++] = *text++;
    }
    out[*used] = '\0';
    return text;
}

bool tpp_config_integer(const char *text, bool has_prefixes, char *out)
{
    char digits[72];
    size_t used = 0;
    int base = 10;
    if (*text == '+' || *text == '-')
        digits[used++] = *text++;
    else if (has_prefixes && text[0] == '0' && (text[1] == 'x' || text[1] == 'o' || text[1] == 'b')) {
        base = text[1] == 'x' ? 16 : text[1] == 'o' ? 8 : 2;
        text += 2;
    }
    if (base == 10 && text[0] == '0' && text[1] != '\0') /* 012: octal in YAML 1.1, refused in TOML */
        return false;
    text = copy_digits(text, base, digits, &used, sizeof digits);
    if (text == NULL || *text != '\0')
        return false;
    char *end;
    long long value = strtoll(digits, &end, base);
    if (*end != '\0' || value == INT64_MAX || value == INT64_MIN)
        return false;
    snprintf(out, 24, "%lld", value);
    return true;
}

static bool is_word_number(const char *text, char *out, size_t size)
{
    static const char *const words[] = {"inf", "nan", ".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"};
    const char *sign = *text == '-' ? "-" : "";
    const char *rest = *text == '-' || *text == '+' ? text + 1 : text;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(rest, words[i]) == 0) {
            snprintf(out, size, "%s%s", sign, i == 1 || i >= 5 ? "nan" : "inf");
            return true;
        }
    }
    return false;
}

bool tpp_config_number(const char *text, bool needs_point, char *out, size_t size)
{
    size_t used = 0;
    bool has_point = false, has_exponent = false;
    out[0] = '\0';
    if (is_word_number(text, out, size))
        return true;
    if (*text == '+' || *text == '-')
        out[used++] = *text++;
    if (*text != '.' || !needs_point)
        text = copy_digits(text, 10, out, &used, size);
    if (text != NULL && *text == '.') {
        has_point = true;
        if (used + 2 >= size)
            return false;
        out[used++] = *text++;
        out[used] = '\0';
        if (is_digit_of(*text, 10))
            text = copy_digits(text, 10, out, &used, size);
        else if (!needs_point || used == 1)
            return false;
    }
    if (text != NULL && (*text == 'e' || *text == 'E')) {
        has_exponent = true;
        if (used + 3 >= size)
            return false;
        out[used++] = *text++;
        if (*text == '+' || *text == '-')
            out[used++] = *text++;
        else if (needs_point)
            return false; /* 1.0e5 is a text in YAML 1.1 */
        text = copy_digits(text, 10, out, &used, size);
    }
    return text != NULL && *text == '\0' && strpbrk(out, "0123456789") != NULL &&
           (needs_point ? has_point : has_point || has_exponent);
}

static bool is_toml_line(const char *line, size_t length)
{
    size_t at = 0;
    if (length > 0 && line[0] == '[')
        return memchr(line, ']', length) != NULL && memchr(line, ',', length) == NULL;
    while (at < length &&
           (is_digit_of(line[at], 36) || strchr("ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ_-.", line[at])))
        at++;
    while (at < length && (line[at] == ' ' || line[at] == '\t'))
        at++;
    return at > 0 && at < length && line[at] == '=';
}

enum tpp_config_format tpp_config_format_of(const char *file, const char *text)
{
    const char *dot = strrchr(file, '.');
    if (dot != NULL && strcmp(dot, ".toml") == 0)
        return TPP_CONFIG_TOML;
    if (dot != NULL && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0 || strcmp(dot, ".json") == 0))
        return TPP_CONFIG_YAML;
    while (*text != '\0') {
        size_t space = strspn(text, " \t\r"), length = strcspn(text, "\n");
        if (space < length && text[space] != '#')
            return is_toml_line(text + space, length - space) ? TPP_CONFIG_TOML : TPP_CONFIG_YAML;
        text += length + (text[length] == '\n');
    }
    return TPP_CONFIG_YAML;
}

enum tpp_code tpp_config_read(const char *text, size_t length, const char *file, enum tpp_config_format format,
                              struct tpp_config **out, struct tpp_error *err)
{
    struct tpp_config *config = calloc(1, sizeof *config);
    *out = NULL;
    if (config == NULL)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    config->arena = tpp_arena_new();
    enum tpp_code code = TPP_OK;
    if (config->arena != NULL)
        config->file = tpp_arena_strdup(config->arena, file);
    if (config->file == NULL)
        code = tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    else if (length > TPP_CONFIG_MAX_BYTES)
        code = tpp_fail(err, TPP_E_UNSUPPORTED, file, "give the configuration of a training", "larger than %u bytes",
                        TPP_CONFIG_MAX_BYTES);
    else if (memchr(text, '\0', length) != NULL)
        code = tpp_fail(err, TPP_E_SYNTAX, file, "give a text file", "a byte of value 0 in the text");
    else
        code = format == TPP_CONFIG_TOML ? tpp_config_read_toml(config, text, length, err)
                                         : tpp_config_read_yaml(config, text, length, err);
    if (code == TPP_OK)
        code = tpp_config_finish(config, err);
    if (code == TPP_OK)
        *out = config;
    else
        tpp_config_free(config);
    return code;
}

enum tpp_code tpp_config_override(struct tpp_config *config, const char *path, const char *text, uint32_t line,
                                  struct tpp_error *err)
{
    char number[64];
    enum tpp_config_kind kind = TPP_CONFIG_TEXT;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        kind = TPP_CONFIG_BOOLEAN;
    else if (tpp_config_integer(text, false, number))
        kind = TPP_CONFIG_INTEGER;
    else if (tpp_config_number(text, false, number, sizeof number))
        kind = TPP_CONFIG_NUMBER;
    bool is_number = kind == TPP_CONFIG_INTEGER || kind == TPP_CONFIG_NUMBER;
    size_t index;
    enum tpp_code code = tpp_config_add(config, path, kind, is_number ? number : text, line, &index, err);
    if (code != TPP_OK)
        return code;
    config->entries[index].is_override = true;
    return tpp_config_finish(config, err);
}

void tpp_config_shift_lines(struct tpp_config *config, uint32_t lines)
{
    for (size_t i = 0; i < config->count; i++)
        config->entries[i].line += lines;
}

void tpp_config_set_lines(struct tpp_config *config, uint32_t line)
{
    for (size_t i = 0; i < config->count; i++)
        config->entries[i].line = line;
}

void tpp_config_free(struct tpp_config *config)
{
    if (config == NULL)
        return;
    tpp_arena_free(config->arena);
    free(config->entries);
    free(config->sorted);
    free(config);
}
