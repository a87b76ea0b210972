/* Shipped profiles by name, and files. */
#include "hwprofiles/profiles.h"

#include "costmodel/base/text.h"
#include "hwprofiles/internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

const struct tpp_hardware_document *tpp_hardware_find_document(const struct tpp_hardware_document *documents,
                                                               const char *const *names, const char *name)
{
    for (size_t i = 0; names[i]; i++) {
        if (strcmp(names[i], name) == 0) {
            return &documents[i];
        }
    }
    return NULL;
}

const char *const *tpp_hardware_profile_names(size_t *count)
{
    if (count) {
        *count = tpp_hardware_profile_document_count;
    }
    return tpp_hardware_profile_document_names;
}

const char *const *tpp_hardware_gpu_names(size_t *count)
{
    if (count) {
        *count = tpp_hardware_gpu_document_count;
    }
    return tpp_hardware_gpu_document_names;
}

static enum tpp_code read_and_free(struct tpp_json_document *document, struct tpp_hardware *hardware,
                                   struct tpp_error *err)
{
    const enum tpp_code code = tpp_hardware_read(tpp_json_root(document), hardware, err);
    tpp_json_document_free(document);
    return code;
}

enum tpp_code tpp_hardware_load(const char *path, struct tpp_hardware *hardware, struct tpp_error *err)
{
    struct tpp_json_document *document;
    const enum tpp_code code = tpp_json_load(path, &document, err);
    return code ? code : read_and_free(document, hardware, err);
}

static enum tpp_code unknown_name(const char *name, struct tpp_error *err)
{
    char hint[160];
    const char *nearest = tpp_text_nearest(name, tpp_hardware_profile_document_names);
    if (nearest) {
        snprintf(hint, sizeof hint, "did you mean \"%s\"? tp-plan hardware lists all", nearest);
    } else {
        snprintf(hint, sizeof hint, "tp-plan hardware lists the shipped profiles; a file of your own works too");
    }
    return tpp_fail(err, TPP_E_USAGE, NULL, hint, "no hardware profile and no file is named \"%.100s\"", name);
}

/* A name nobody would give a shipped profile: what is wrong with the file says more than the nearest name. */
static bool is_path(const char *name)
{
    const size_t length = strlen(name);
    return strchr(name, '/') || strcmp(name, "-") == 0 || (length > 5 && strcmp(name + length - 5, ".json") == 0);
}

enum tpp_code tpp_hardware_find(const char *name_or_path, struct tpp_hardware *hardware, struct tpp_error *err)
{
    const struct tpp_hardware_document *file =
        tpp_hardware_find_document(tpp_hardware_profile_documents, tpp_hardware_profile_document_names, name_or_path);
    if (!file) {
        const bool exists = is_path(name_or_path) || access(name_or_path, F_OK) == 0;
        return exists ? tpp_hardware_load(name_or_path, hardware, err) : unknown_name(name_or_path, err);
    }
    struct tpp_json_document *document;
    const enum tpp_code code = tpp_json_parse((const char *)file->text, file->length, file->path, &document, err);
    return code ? code : read_and_free(document, hardware, err);
}
