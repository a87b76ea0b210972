/* shell_source.c - files that a script reads: another script through `source`, a configuration that it names. */
#include "planner/launch/shell_parts.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SOURCED = 32, MAX_NESTED = 8 };

static bool contains(const char *text, size_t length, const char *part)
{
    const size_t size = strlen(part);
    for (size_t i = 0; i + size <= length; i++) {
        if (memcmp(text + i, part, size) == 0)
            return true;
    }
    return false;
}

/* Behind the piece "$(...)" at the beginning of a text; 0 when there is none. */
static size_t first_piece(const char *text)
{
    if (text[0] != '$' || text[1] != '(')
        return 0;
    size_t depth = 1, at = 2;
    for (; text[at] != '\0' && depth > 0; at++)
        depth += (text[at] == '(') - (size_t)(text[at] == ')');
    return depth == 0 ? at : 0;
}

/* What is behind the folder that a script is started in, when it is written as a command or variable: beside the
 * script, as paths without a folder are. */
static const char *in_folder(const char *text)
{
    static const char *const here[] = {"$(pwd)/", "`pwd`/", "$PWD/", "${PWD}/"};
    for (size_t i = 0; i < sizeof here / sizeof *here; i++) {
        const size_t length = strlen(here[i]);
        if (strncmp(text, here[i], length) == 0 && strpbrk(text + length, "$`") == NULL)
            return text + length;
    }
    return NULL;
}

/* What is behind "$(dirname "$0")/" and "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/": beside the script. */
static const char *beside_script(const char *text)
{
    const size_t length = first_piece(text);
    if (length == 0 || text[length] != '/' || strpbrk(text + length, "$`") != NULL)
        return NULL;
    const bool is_own =
        contains(text, length, "$0") || contains(text, length, "${0}") || contains(text, length, "BASH_SOURCE");
    return contains(text, length, "dirname") && is_own && !contains(text, length, "..") ? text + length + 1 : NULL;
}

bool tpp_shell_open(const struct tpp_shell_script *script, const struct tpp_shell_word *word, char **data,
                    size_t *length)
{
    const char *path = word->note == 0 ? word->text : in_folder(word->text);
    if (path == NULL)
        path = beside_script(word->text);
    *data = NULL;
    return script->source != NULL && path != NULL && *path != '\0' &&
           script->source->read(script->source->context, path, data, length);
}

/* All of a sourced file is at the line of the command that reads it. */
static struct tpp_shell_text at_line(struct tpp_shell_script *s, const char *data, size_t length, uint32_t line)
{
    struct tpp_shell_cell *cells = tpp_shell_alloc(s, length + 1, sizeof *cells);
    size_t count = 0;
    for (size_t i = 0; cells != NULL && i < length; i++) {
        if (data[i] == '\r' && i + 1 < length && data[i + 1] == '\n')
            continue;
        cells[count++] = (struct tpp_shell_cell){line, 0, data[i] == '\0' ? '?' : data[i], TPP_SHELL_PLAIN};
    }
    return (struct tpp_shell_text){cells, cells != NULL ? count : 0};
}

static bool is_being_read(const struct tpp_shell_script *s, const char *path)
{
    for (size_t i = 0; i < s->num_nested; i++) {
        if (strcmp(s->nested[i], path) == 0)
            return true;
    }
    return false;
}

/* A text that is no script leaves this one as it was. */
static bool run_file(struct tpp_shell_script *s, struct tpp_shell_text text, const struct tpp_shell_fields *arguments)
{
    struct tpp_shell_scope *scope = &s->scope;
    const struct tpp_shell_scope saved = *scope;
    struct tpp_shell_node *tree = tpp_shell_parse(s, text);
    if (s->code == TPP_E_SYNTAX) {
        s->code = TPP_OK;
        return false;
    }
    if (arguments->count > 0) {
        scope->arguments = arguments->items;
        scope->num_arguments = arguments->count;
        scope->has_arguments = true;
    }
    if (!tpp_shell_failed(s))
        tpp_shell_run(s, tree);
    if (s->stop == TPP_STOP_RETURN)
        s->stop = TPP_STOP_NONE;
    scope->arguments = saved.arguments;
    scope->num_arguments = saved.num_arguments;
    scope->has_arguments = saved.has_arguments;
    return true;
}

/* As run_file, in a shell of its own. */
static bool run_job(struct tpp_shell_script *s, struct tpp_shell_text text, const struct tpp_shell_fields *options,
                    const struct tpp_shell_fields *arguments)
{
    tpp_shell_read_batch(s, text);
    for (size_t i = 1; i < options->count; i++)
        tpp_shell_add_field(s, &s->batch, options->items[i]);
    tpp_shell_run_text(s, text, arguments);
    if (s->code != TPP_E_SYNTAX)
        return true;
    s->code = TPP_OK;
    return false;
}

/* With `options`, as a job. */
static bool run_named(struct tpp_shell_script *s, struct tpp_shell_text name, const struct tpp_shell_fields *options,
                      const struct tpp_shell_fields *arguments, uint32_t line)
{
    char *data;
    size_t length;
    bool is_read = false;
    const struct tpp_shell_word word = tpp_shell_word_of(s, name);
    if (tpp_shell_failed(s) || s->num_sourced >= MAX_SOURCED || s->num_nested >= MAX_NESTED ||
        is_being_read(s, word.text) || !tpp_shell_open(s, &word, &data, &length))
        return false;
    s->num_sourced++;
    if (length <= TPP_SHELL_MAX_BYTES && tpp_shell_enter(s, line)) {
        s->nested[s->num_nested++] = word.text;
        const struct tpp_shell_text text = at_line(s, data, length, line);
        is_read = options != NULL ? run_job(s, text, options, arguments) : run_file(s, text, arguments);
        s->num_nested--;
        tpp_shell_leave(s);
    }
    free(data);
    return is_read;
}

bool tpp_shell_source(struct tpp_shell_script *s, struct tpp_shell_text name, const struct tpp_shell_fields *arguments,
                      uint32_t line)
{
    return run_named(s, name, NULL, arguments, line);
}

bool tpp_shell_submit(struct tpp_shell_script *s, struct tpp_shell_text name, const struct tpp_shell_fields *options,
                      const struct tpp_shell_fields *arguments, uint32_t line)
{
    return run_named(s, name, options, arguments, line);
}
