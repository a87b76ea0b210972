#include "calibrate/fit/import.h"

#include "calibrate/fit/lines.h"
#include "costmodel/base/file.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum format { FORMAT_LOG, FORMAT_TABLE, FORMAT_SAMPLES };

/* By the first line that is neither empty nor a comment: an object, or names with commas; all else is a log. */
static enum format find_format(const char *text, size_t length)
{
    struct tpp_lines lines = {.text = text, .length = length};
    const char *start;
    size_t line_length;
    while (tpp_lines_next(&lines, &start, &line_length)) {
        size_t at = 0;
        while (at < line_length && isspace((unsigned char)start[at])) {
            at++;
        }
        if (at == line_length || start[at] == '#') {
            continue;
        }
        if (start[at] == '{') {
            return FORMAT_SAMPLES;
        }
        size_t num_commas = 0;
        for (; at < line_length; at++) {
            num_commas += start[at] == ',';
            if (!isalnum((unsigned char)start[at]) && !strchr("_,\r", start[at])) {
                return FORMAT_LOG;
            }
        }
        return num_commas >= 3 ? FORMAT_TABLE : FORMAT_LOG;
    }
    return FORMAT_LOG;
}

enum tpp_code tpp_import_text(const char *text, size_t length, const char *source, const struct tpp_import_facts *facts,
                              struct tpp_samples *samples, struct tpp_error *err)
{
    const size_t count = samples->count, num_files = samples->num_files;
    enum tpp_code code;
    switch (find_format(text, length)) {
    case FORMAT_SAMPLES:
        code = tpp_import_sample_lines(text, length, source, samples, err);
        break;
    case FORMAT_TABLE:
        code = tpp_import_table(text, length, source, samples, err);
        break;
    default:
        code = tpp_import_nccl_log(text, length, source, facts, samples, err);
    }
    if (code != TPP_OK) {
        samples->count = count;
        samples->num_files = num_files;
    }
    return code;
}

enum tpp_code tpp_import_file(const char *path, const struct tpp_import_facts *facts, struct tpp_samples *samples,
                              struct tpp_error *err)
{
    char *text;
    size_t length;
    enum tpp_code code = tpp_file_read(path, TPP_IMPORT_MAX_FILE_BYTES, &text, &length, err);
    if (code == TPP_OK) {
        code = tpp_import_text(text, length, path, facts, samples, err);
        free(text);
    }
    return code;
}
