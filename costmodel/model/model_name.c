#include "costmodel/model/model_name.h"

#include <stdio.h>
#include <string.h>

void tpp_model_copy_name(char *out, size_t size, const char *name)
{
    size_t length = strlen(name);
    if (length >= size) {
        length = size - 1;
        while (length > 0 && ((unsigned char)name[length] & 0xC0) == 0x80)
            length--; /* not in the middle of a character */
    }
    for (size_t i = 0; i < length; i++) {
        const unsigned char byte = (unsigned char)name[i];
        out[i] = byte < 0x20 || byte == 0x7F ? '?' : name[i];
    }
    out[length] = '\0';
}

/* Copies the last part of the path [path, end). */
static void copy_last_part(char *out, size_t size, const char *path, const char *end)
{
    const char *start = end;
    char part[4096];
    while (start > path && start[-1] != '/')
        start--;
    size_t length = (size_t)(end - start);
    if (length >= sizeof(part))
        length = sizeof(part) - 1;
    memcpy(part, start, length);
    part[length] = '\0';
    tpp_model_copy_name(out, size, part);
}

void tpp_model_name_of_path(char *out, size_t size, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *file = slash != NULL ? slash + 1 : path, *end = path + strlen(path);
    if (strcmp(file, "config.json") == 0 && slash != NULL && slash > path && slash[-1] != '.') {
        copy_last_part(out, size, path, slash);
        return;
    }
    if (end - file > 5 && strcmp(end - 5, ".json") == 0)
        end -= 5;
    copy_last_part(out, size, path, end);
}

enum tpp_code tpp_model_check_in_file(const struct tpp_model *model, struct tpp_json place, struct tpp_error *err)
{
    struct tpp_error found;
    enum tpp_code code = tpp_model_check(model, &found);
    if (code == TPP_OK)
        return TPP_OK;
    char where[512];
    snprintf(where, sizeof(where), "%s#%s (%s)", place.file != NULL ? place.file : "", place.pointer, found.where);
    return tpp_fail(err, code, where, found.hint, "%s", found.message);
}
