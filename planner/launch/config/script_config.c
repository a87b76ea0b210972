#include "planner/launch/config/script_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char filled[] = ".filled.yaml"; /* a copy, with what the user sets filled in */

/* The path before it was filled in. */
static void plain_path(const char *path, char *plain, size_t size)
{
    const size_t length = strlen(path), ending = sizeof filled - 1;
    snprintf(plain, size, "%s", path);
    if (length > ending && length < size && strcmp(path + length - ending, filled) == 0)
        snprintf(plain, size, "%.*s", (int)(length - ending), path);
}

static const struct tpp_shell_file *find_file(const struct tpp_shell_script *script, const char *path)
{
    size_t count;
    const struct tpp_shell_file *files = tpp_shell_files(script, &count);
    for (size_t i = count; i > 0; i--) {
        if (strcmp(files[i - 1].path.text, path) == 0)
            return &files[i - 1];
    }
    return NULL;
}

enum tpp_code tpp_config_of_script(const struct tpp_shell_script *script, const struct tpp_shell_word *word,
                                   const char *path, enum tpp_config_format format, struct tpp_config **out,
                                   struct tpp_error *err)
{
    char plain[1024], *text;
    size_t length;
    *out = NULL;
    plain_path(path, plain, sizeof plain);
    const struct tpp_shell_file *file = find_file(script, plain);
    if (file != NULL) {
        enum tpp_code code = tpp_config_read(file->content.text, strlen(file->content.text), plain, format, out, err);
        if (code == TPP_OK)
            tpp_config_shift_lines(*out, file->content.line > 0 ? file->content.line - 1 : 0);
        return code;
    }
    struct tpp_shell_word named = *word;
    named.text = plain;
    if (!tpp_shell_open(script, &named, &text, &length))
        return TPP_OK;
    enum tpp_code code = tpp_config_read(text, length, plain, format, out, err);
    if (code == TPP_OK)
        tpp_config_set_lines(*out, word->line);
    free(text);
    return code;
}
