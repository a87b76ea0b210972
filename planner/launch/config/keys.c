/* keys.c - see keys.h. */
#include "planner/launch/config/keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- reading ---- */

static unsigned choice_of(const char *choices, const char *word, bool *is_found)
{
    size_t wanted = strlen(word);
    for (unsigned index = 0;; index++) {
        size_t length = strcspn(choices, "|");
        *is_found = length == wanted && strncasecmp(choices, word, length) == 0;
        if (*is_found)
            return index;
        if (choices[length] == '\0')
            return index + 1;
        choices += length + 1;
    }
}

static const struct tpp_config_key *find_key(const struct tpp_key_table *table, const char *path, size_t length)
{
    for (size_t i = 0; i < table->count; i++) {
        if (strncmp(table->keys[i].path, path, length) == 0 && table->keys[i].path[length] == '\0')
            return &table->keys[i];
    }
    return NULL;
}

static bool takes_list(const struct tpp_config_key *key)
{
    return key->kind == TPP_KEY_TEXT && key->choices != NULL;
}

/* The key itself, or one around it: what is inside a list, or inside a table without meaning here. */
static const struct tpp_config_key *key_around(const struct tpp_key_table *table, const char *path)
{
    for (size_t length = strlen(path); length > 0; length--) {
        if (path[length] != '\0' && path[length] != '.')
            continue;
        const struct tpp_config_key *key = find_key(table, path, length);
        if (key != NULL && (path[length] == '\0' || key->kind == TPP_KEY_OTHER || key->kind == TPP_KEY_LISTED ||
                            takes_list(key)))
            return key;
    }
    return NULL;
}

static bool is_section(const struct tpp_key_table *table, const char *path)
{
    size_t length = strlen(path);
    if (length == 0)
        return true;
    for (size_t i = 0; i < table->count; i++) {
        if (strncmp(table->keys[i].path, path, length) == 0 && table->keys[i].path[length] == '.')
            return true;
    }
    return false;
}

/* The last part of a path that is in no section is what is misspelt; the nearest key has the same section. */
static void add_unknown(const struct tpp_key_table *table, const struct tpp_config_entry *entry,
                        struct tpp_problems *problems)
{
    const char *names[512];
    char hint[200] = "take it out, or see the documentation of the release";
    size_t count = 0;
    for (size_t i = 0; i < table->count && count + 1 < sizeof names / sizeof *names; i++)
        names[count++] = table->keys[i].path;
    names[count] = NULL;
    const char *nearest = tpp_text_nearest(entry->path, names);
    if (nearest != NULL)
        snprintf(hint, sizeof hint, "did you mean %.120s?", nearest);
    tpp_problems_add(problems, "unknown-key", table->unknown, entry->line, hint, "%s has no key %.150s",
                     table->framework, entry->path);
}

static void add_wrong(const struct tpp_key_table *table, const struct tpp_config_key *key,
                      const struct tpp_config_entry *entry, struct tpp_problems *problems)
{
    static const char *const wanted[] = {"a whole number", "a number", "true or false", "one of these words",
                                         "a text",         "a list",   "a table or null",
                                         "anything"};
    char hint[256];
    snprintf(hint, sizeof hint, "%s%.200s", key->kind == TPP_KEY_CHOICE ? "write one of " : "write ",
             key->kind == TPP_KEY_CHOICE ? key->choices : wanted[key->kind]);
    if (key->kind == TPP_KEY_NUMBER && entry->kind == TPP_CONFIG_TEXT && strpbrk(entry->text, "eE") != NULL)
        snprintf(hint, sizeof hint, "write the number with a point and a signed exponent, as in 1.0e-5");
    tpp_problems_add(problems, "wrong-value", TPP_SEVERITY_ERROR, entry->line, hint, "%s of %s cannot be \"%.80s\"",
                     entry->path, table->framework,
                     entry->kind == TPP_CONFIG_LIST || entry->kind == TPP_CONFIG_TABLE ? "..." : entry->text);
}

static bool is_open(const struct tpp_config_entry *entry)
{
    const size_t length = strlen(entry->text);
    return entry->kind == TPP_CONFIG_TEXT &&
           ((length > 2 && entry->text[0] == '@' && entry->text[length - 1] == '@') ||
            strstr(entry->text, "${") != NULL || strstr(entry->text, "$(") != NULL ||
            (entry->text[0] == '$' && entry->text[1] != '\0') || strchr(entry->text, '`') != NULL);
}

static bool set_listed(const struct tpp_config *config, const struct tpp_config_key *key,
                       const struct tpp_config_entry *entry, bool *field)
{
    *field = false;
    if (entry->kind == TPP_CONFIG_NULL)
        return true;
    if (entry->kind != TPP_CONFIG_LIST)
        return false;
    for (uint32_t i = 0; i < entry->num_items; i++) {
        char path[TPP_CONFIG_MAX_PATH + 16];
        snprintf(path, sizeof path, "%s.%u", entry->path, i);
        const struct tpp_config_entry *item = tpp_config_find(config, path);
        *field = *field || (item != NULL && strcmp(item->text, key->choices) == 0);
    }
    return true;
}

static bool set_first(const struct tpp_config *config, const struct tpp_config_entry *entry, const char **field)
{
    char path[TPP_CONFIG_MAX_PATH + 16];
    snprintf(path, sizeof path, "%s.0", entry->path);
    const struct tpp_config_entry *item = tpp_config_find(config, path);
    *field = item != NULL && item->kind == TPP_CONFIG_TEXT ? item->text : NULL;
    return *field != NULL;
}

/* False when the value is of another kind. null leaves what may be left open. */
static bool set_field(const struct tpp_config *config, const struct tpp_config_key *key,
                      const struct tpp_config_entry *entry, void *field)
{
    bool is_found;
    switch (key->kind) {
    case TPP_KEY_INTEGER:
        if (entry->kind == TPP_CONFIG_NULL)
            *(int64_t *)field = TPP_KEY_UNSET;
        else if (entry->kind == TPP_CONFIG_INTEGER)
            *(int64_t *)field = strtoll(entry->text, NULL, 10);
        return entry->kind == TPP_CONFIG_NULL || entry->kind == TPP_CONFIG_INTEGER;
    case TPP_KEY_NUMBER:
        if (entry->kind == TPP_CONFIG_NUMBER || entry->kind == TPP_CONFIG_INTEGER)
            *(double *)field = strtod(entry->text, NULL);
        return entry->kind != TPP_CONFIG_TEXT && entry->kind != TPP_CONFIG_BOOLEAN && entry->kind < TPP_CONFIG_LIST;
    case TPP_KEY_BOOLEAN: /* the words: accelerate's own questionnaire writes 'no' */
        choice_of("true|yes", entry->text, &is_found);
        *(bool *)field = entry->kind != TPP_CONFIG_NULL && is_found;
        if (entry->kind == TPP_CONFIG_TEXT && !is_found)
            choice_of("false|no", entry->text, &is_found);
        return entry->kind == TPP_CONFIG_BOOLEAN || entry->kind == TPP_CONFIG_NULL ||
               (entry->kind == TPP_CONFIG_TEXT && is_found);
    case TPP_KEY_CHOICE:
        if (entry->kind == TPP_CONFIG_NULL)
            return true;
        *(unsigned *)field = choice_of(key->choices, entry->text, &is_found);
        return is_found && entry->kind < TPP_CONFIG_LIST;
    case TPP_KEY_TEXT:
        if (takes_list(key) && entry->kind == TPP_CONFIG_LIST)
            return set_first(config, entry, field);
        if (entry->kind < TPP_CONFIG_LIST)
            *(const char **)field = entry->kind == TPP_CONFIG_NULL ? NULL : entry->text;
        return entry->kind < TPP_CONFIG_LIST;
    case TPP_KEY_LISTED:
        return set_listed(config, key, entry, field);
    case TPP_KEY_SECTION:
        return entry->kind == TPP_CONFIG_TABLE || entry->kind == TPP_CONFIG_NULL;
    case TPP_KEY_OTHER:
        return true;
    }
    return true;
}

static void read_entry(const struct tpp_key_table *table, const struct tpp_config *config,
                       const struct tpp_config_entry *entry, char *settings, bool *is_incomplete,
                       struct tpp_problems *problems)
{
    const struct tpp_config_key *key = key_around(table, entry->path);
    if (key == NULL) {
        if (entry->kind != TPP_CONFIG_TABLE || !is_section(table, entry->path))
            add_unknown(table, entry, problems);
        return;
    }
    if (strcmp(key->path, entry->path) != 0 || key->kind == TPP_KEY_OTHER)
        return;
    const struct tpp_config_entry *used = tpp_config_find(config, entry->path);
    if (entry->is_doubled && used != NULL && used->is_override)
        return;
    if (entry->is_doubled) {
        tpp_problems_add(problems, "doubled-key", TPP_SEVERITY_WARNING, entry->line, "take one of them out",
                         "%.150s is written more than once: the last one counts", entry->path);
        return;
    }
    if (is_open(entry) && key->kind != TPP_KEY_TEXT) {
        if (is_incomplete != NULL && key->is_needed) {
            *is_incomplete = true;
            tpp_problems_add(problems, "unknown-value", TPP_SEVERITY_WARNING, entry->line,
                             "give the variable with --set NAME=VALUE", "%.150s is %.80s, which is not known",
                             entry->path, entry->text);
        }
        return;
    }
    if (!set_field(config, key, entry, settings + key->offset))
        add_wrong(table, key, entry, problems);
}

void tpp_config_keys_read(const struct tpp_key_table *table, const struct tpp_config *config, void *settings,
                          bool *is_incomplete, struct tpp_problems *problems)
{
    size_t count;
    const struct tpp_config_entry *entries = tpp_config_entries(config, &count);
    const char *unknown = NULL; /* of a table that is not known, its inside is not reported again */
    for (size_t i = 0; i < count; i++) {
        const char *path = entries[i].path;
        size_t length = unknown != NULL ? strlen(unknown) : 0;
        if (unknown != NULL && strncmp(path, unknown, length) == 0 && path[length] == '.')
            continue;
        unknown = key_around(table, path) == NULL && !is_section(table, path) ? path : NULL;
        read_entry(table, config, &entries[i], settings, is_incomplete, problems);
    }
}

uint32_t tpp_config_line(const struct tpp_config *config, const char *path)
{
    const struct tpp_config_entry *entry = tpp_config_find(config, path);
    return entry != NULL ? entry->line : 0;
}

/* ---- writing ---- */

static size_t size_of(enum tpp_key_kind kind)
{
    return kind == TPP_KEY_INTEGER                             ? sizeof(int64_t)
           : kind == TPP_KEY_NUMBER                            ? sizeof(double)
           : kind == TPP_KEY_BOOLEAN || kind == TPP_KEY_LISTED ? sizeof(bool)
           : kind == TPP_KEY_CHOICE                            ? sizeof(unsigned)
                                                               : sizeof(const char *);
}

static bool is_written(const struct tpp_config_key *key, const char *settings, const char *defaults)
{
    const char *field = settings + key->offset;
    if (key->kind >= TPP_KEY_SECTION || key->write == TPP_WRITE_NEVER)
        return false;
    if (key->kind == TPP_KEY_INTEGER && *(const int64_t *)(const void *)field == TPP_KEY_UNSET)
        return false;
    if (key->kind == TPP_KEY_TEXT && *(const char *const *)(const void *)field == NULL)
        return false;
    return key->write == TPP_WRITE_ALWAYS || memcmp(field, defaults + key->offset, size_of(key->kind)) != 0;
}

/* In double quotes, in which TOML, JSON and YAML agree. What is no UTF-8 becomes '?'. */
static void append_quoted(struct tpp_text *out, const char *text)
{
    tpp_text_append(out, "\"");
    while (*text != '\0') {
        size_t length = tpp_utf8_length(text, strlen(text));
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            tpp_text_format(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            tpp_text_format(out, "\\u%04x", c);
        else if (length == 0)
            tpp_text_append(out, "?");
        else
            tpp_text_append_bytes(out, text, length);
        text += length > 0 ? length : 1;
    }
    tpp_text_append(out, "\"");
}

/* The shortest text that reads back equal, with the point and sign that YAML 1.1 wants. */
static void append_number(struct tpp_text *out, double value)
{
    char number[40];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(number, sizeof number, "%.*g", digits, value);
        if (strtod(number, NULL) == value)
            break;
    }
    char *exponent = strchr(number, 'e');
    if (strchr(number, '.') != NULL)
        tpp_text_append(out, number);
    else if (exponent != NULL)
        tpp_text_format(out, "%.*s.0%s", (int)(exponent - number), number, exponent);
    else
        tpp_text_format(out, "%s.0", number);
}

static void append_choice(struct tpp_text *out, const char *choices, unsigned index, bool is_quoted)
{
    while (index-- > 0)
        choices += strcspn(choices, "|") + 1;
    tpp_text_format(out, is_quoted ? "\"%.*s\"" : "%.*s", (int)strcspn(choices, "|"), choices);
}

static void append_value(struct tpp_text *out, const struct tpp_config_key *key, const char *settings, bool is_quoted)
{
    const void *field = settings + key->offset;
    const char *text;
    switch (key->kind) {
    case TPP_KEY_INTEGER:
        tpp_text_format(out, "%" PRId64, *(const int64_t *)field);
        break;
    case TPP_KEY_NUMBER:
        append_number(out, *(const double *)field);
        break;
    case TPP_KEY_BOOLEAN:
        tpp_text_append(out, *(const bool *)field ? "true" : "false");
        break;
    case TPP_KEY_CHOICE:
        append_choice(out, key->choices, *(const unsigned *)field, is_quoted);
        break;
    case TPP_KEY_TEXT:
        text = *(const char *const *)field;
        if (is_quoted)
            append_quoted(out, text);
        else
            tpp_text_append_shell_word(out, text);
        break;
    case TPP_KEY_LISTED:
        tpp_text_format(out, *(const bool *)field ? "[\"%s\"]" : "[]", key->choices);
        break;
    case TPP_KEY_SECTION:
    case TPP_KEY_OTHER:
        break;
    }
}

/* Length of the section of a path, without its last part; 0: none. */
static size_t section_length(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot != NULL ? (size_t)(dot - path) : 0;
}

static void open_toml(struct tpp_text *out, const char *path, const char *before)
{
    size_t length = section_length(path);
    if (before == NULL || section_length(before) != length || strncmp(path, before, length) != 0)
        tpp_text_format(out, "%s[%.*s]\n", before != NULL ? "\n" : "", (int)length, path);
}

/* Opens the mappings and list items around a key that the one before was not in. The index of a list becomes "- ",
 * which stands where the blanks of its first key would. */
static void open_yaml(struct tpp_text *out, const char *path, const char *before)
{
    unsigned depth = 0;
    bool is_common = before != NULL, is_dash = false;
    for (const char *part = path;; depth++) {
        size_t length = strcspn(part, ".");
        bool is_last = part[length] == '\0', is_index = strspn(part, "0123456789") == length;
        size_t so_far = (size_t)(part - path) + length;
        is_common = is_common && strncmp(before, path, so_far) == 0 && (before[so_far] == '.');
        if (!is_common || is_last) {
            if (is_index) {
                tpp_text_format(out, "%*s- ", (int)(2 * depth), "");
                is_dash = true;
            } else {
                tpp_text_format(out, "%*s%.*s:%s", is_dash ? 0 : (int)(2 * depth), "", (int)length, part,
                                is_last ? " " : "\n");
                is_dash = false;
            }
        }
        if (is_last)
            return;
        part += length + 1;
    }
}

void tpp_config_keys_write(const struct tpp_key_table *table, const void *settings, const void *defaults,
                           enum tpp_config_format format, struct tpp_text *out)
{
    const char *before = NULL;
    for (size_t i = 0; i < table->count; i++) {
        const struct tpp_config_key *key = &table->keys[i];
        if (!is_written(key, settings, defaults))
            continue;
        if (format == TPP_CONFIG_TOML) {
            open_toml(out, key->path, before);
            tpp_text_format(out, "%s = ", key->path + section_length(key->path) + 1);
        } else {
            open_yaml(out, key->path, before);
        }
        append_value(out, key, settings, true);
        tpp_text_append(out, "\n");
        before = key->path;
    }
}

void tpp_config_keys_write_options(const struct tpp_key_table *table, const void *settings, const void *defaults,
                                   struct tpp_text *out)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct tpp_config_key *key = &table->keys[i];
        if (!is_written(key, settings, defaults) || key->kind == TPP_KEY_LISTED)
            continue;
        tpp_text_format(out, "    --%s ", key->path);
        append_value(out, key, settings, false);
        tpp_text_append(out, "\n");
    }
}
