/* Where the values of a fitted profile say they come from. */
#include "calibrate/fit/fit_group.h"

#include <stdio.h>
#include <string.h>

void tpp_fit_write_source(struct tpp_hardware_origin *origin, const char *text)
{
    const char *end = text + strlen(text);
    size_t length = 0;
    while (text < end) {
        const size_t bytes = tpp_utf8_length(text, (size_t)(end - text));
        if (length + (bytes ? bytes : 1) >= sizeof origin->source) {
            break;
        }
        if (bytes) {
            memcpy(origin->source + length, text, bytes);
        } else {
            origin->source[length] = '?';
        }
        length += bytes ? bytes : 1;
        text += bytes ? bytes : 1;
    }
    origin->source[length] = '\0';
}

void tpp_fit_describe_errors(const struct tpp_fit_errors *held_out, char *text, size_t size)
{
    text[0] = '\0';
    if (held_out->count > 0) {
        snprintf(text, size, ", held out: median %.2g %%, 90 %% within %.2g %%", 100 * held_out->median,
                 100 * held_out->p90);
    }
}

/* The samples' device (of the first) and file, for the origin of a value. */
void tpp_fit_set_origin(const struct tpp_fit_run *run, const char *key, const struct tpp_fit_set *set,
                        double relative_error, const char *addition)
{
    uint32_t index;
    const struct tpp_sample *first = set->points.items[0];
    const char *path = run->samples->files[first->file].source;
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    bool is_published = true, is_one_file = true;
    for (size_t i = 0; i < set->points.count; i++) {
        const uint32_t file = set->points.items[i]->file;
        is_published = is_published && strcmp(run->samples->files[file].format, "table") == 0;
        is_one_file = is_one_file && file == first->file;
    }
    if (!tpp_hardware_field_index(key, &index)) {
        return;
    }
    struct tpp_hardware_origin *origin = &run->hardware->origins[index];
    const char *date = run->options && run->options->date ? run->options->date : "";
    char text[512], error[32] = "";
    origin->provenance = is_published ? TPP_PROVENANCE_PUBLISHED : TPP_PROVENANCE_MEASURED;
    if (relative_error > 0) {
        snprintf(error, sizeof error, ", +-%.2g %%", 100 * relative_error);
    }
    snprintf(text, sizeof text, "calibrate fit%s%.30s: %zu samples of %.60s%s on %.50s%s%s", *date ? " " : "", date,
             set->points.count, name, is_one_file ? "" : " and others",
             first->device[0] ? first->device : "an unnamed device", error, addition);
    tpp_fit_write_source(origin, text);
}
