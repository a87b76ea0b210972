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

/* What a file begins with that is no text, and what to do about it. */
static enum tpp_code check_text(const char *text, size_t length, const char *source, struct tpp_error *err)
{
    static const struct {
        const char *magic, *what, *hint;
    } kinds[] = {
        {"\x1f\x8b", "compressed with gzip", "unpack it: gzip -d"},
        {"\x28\xb5\x2f\xfd", "compressed with zstd", "unpack it: zstd -d"},
        {"\xfd" "7zXZ", "compressed with xz", "unpack it: xz -d"},
        {"BZh", "compressed with bzip2", "unpack it: bzip2 -d"},
        {"PK\x03\x04", "a zip archive", "unpack it, and give the files in it"},
        {"\xff\xfe", "UTF-16", "save it as UTF-8"},
        {"\xfe\xff", "UTF-16", "save it as UTF-8"},
        {"\x7f" "ELF", "a program", "give what it prints"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const size_t size = strlen(kinds[i].magic);
        if (length >= size && memcmp(text, kinds[i].magic, size) == 0) {
            return tpp_fail(err, TPP_E_SYNTAX, source, kinds[i].hint, "the file is %s, not a text of measurements",
                            kinds[i].what);
        }
    }
    return TPP_OK;
}

enum tpp_code tpp_import_text(const char *text, size_t length, const char *source, const struct tpp_import_facts *facts,
                              struct tpp_samples *samples, struct tpp_error *err)
{
    const size_t count = samples->count, num_files = samples->num_files;
    enum tpp_code code = check_text(text, length, source, err);
    if (code != TPP_OK) {
        return code;
    }
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark, of editors and spreadsheets */
        text += 3;
        length -= 3;
    }
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
