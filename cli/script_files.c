#include "cli/script_files.h"

#include "costmodel/base/file.h"
#include "costmodel/base/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void cut_last_part(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash != NULL)
        *(slash == path ? slash + 1 : slash) = '\0';
}

/* Absolute folder that files may be in (free); NULL: none. */
static char *allowed_folder(const char *script)
{
    char *folder = realpath(script, NULL);
    if (folder == NULL)
        return NULL;
    cut_last_part(folder);
    const char *last = strrchr(folder, '/');
    if (last != NULL && last != folder)
        cut_last_part(folder);
    return folder;
}

static bool is_below(const char *folder, const char *path)
{
    const size_t length = strlen(folder);
    return length > 1 && strncmp(path, folder, length) == 0 && path[length] == '/';
}

/* Absolute path (free) of what `path` names from the script's folder; NULL: nothing, or elsewhere. */
static char *resolve(const char *script, const char *path)
{
    struct tpp_text joined;
    const char *slash = strrchr(script, '/');
    tpp_text_init(&joined);
    if (slash != NULL)
        tpp_text_append_bytes(&joined, script, (size_t)(slash + 1 - script));
    tpp_text_append(&joined, path);
    char *folder = allowed_folder(script);
    char *real = tpp_text_failed(&joined) ? NULL : realpath(tpp_text_get(&joined), NULL);
    if (real != NULL && (folder == NULL || !is_below(folder, real))) {
        free(real);
        real = NULL;
    }
    free(folder);
    tpp_text_release(&joined);
    return real;
}

static bool read_file(void *context, const char *path, char **data, size_t *length)
{
    struct stat status;
    const char *script = context;
    *data = NULL;
    if (strcmp(script, "-") == 0 || path[0] == '/')
        return false;
    char *real = resolve(script, path);
    const bool is_file = real != NULL && stat(real, &status) == 0 && S_ISREG(status.st_mode);
    const bool is_read = is_file && tpp_file_read(real, TPP_SHELL_MAX_BYTES, data, length, NULL) == TPP_OK;
    free(real);
    return is_read;
}

struct tpp_shell_source tpp_script_files(const char *script)
{
    return (struct tpp_shell_source){.read = read_file, .context = (void *)(uintptr_t)script};
}
