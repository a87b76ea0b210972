#include "calibrate/bench/host_samples.h"

#include "costmodel/base/json_write.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void tpp_bench_samples_open_nothing(struct tpp_bench_samples *samples)
{
    memset(samples, 0, sizeof *samples);
    samples->name = "nothing";
    tpp_text_init(&samples->line);
}

enum tpp_code tpp_bench_samples_open(struct tpp_bench_samples *samples, const char *path, bool append,
                                     struct tpp_error *err)
{
    tpp_bench_samples_open_nothing(samples);
    if (!path || strcmp(path, "-") == 0) {
        samples->file = stdout;
        samples->name = "standard output";
        return TPP_OK;
    }
    samples->file = fopen(path, "a+");
    samples->name = path;
    samples->owns_file = true;
    samples->is_emptied = !append;
    if (!samples->file) {
        return tpp_fail(err, TPP_E_IO, path, "name a file that can be written with --output", "cannot open: %s",
                        strerror(errno));
    }
    return TPP_OK;
}

static enum tpp_code write_failed(const struct tpp_bench_samples *samples, struct tpp_error *err)
{
    return tpp_fail(err, TPP_E_IO, samples->name, "is the disk full?", "cannot write the samples: %s", strerror(errno));
}

enum tpp_code tpp_bench_samples_close(struct tpp_bench_samples *samples, struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    FILE *file = samples->file;
    tpp_text_release(&samples->line);
    if (file && (fflush(file) != 0 || ferror(file))) {
        code = write_failed(samples, err);
    }
    if (file && samples->owns_file && fclose(file) != 0 && code == TPP_OK) {
        code = write_failed(samples, err);
    }
    samples->file = NULL;
    return code;
}

/* A JSON text. Bytes that are not UTF-8 become U+FFFD: names of devices and hosts are not ours. */
static void append_quoted(struct tpp_text *line, const char *value)
{
    tpp_text_append(line, "\"");
    while (*value) {
        const unsigned char byte = (unsigned char)*value;
        const size_t length = tpp_utf8_length(value, strlen(value));
        if (byte == '"' || byte == '\\') {
            tpp_text_format(line, "\\%c", byte);
        } else if (byte < 0x20 || byte == 0x7f) {
            tpp_text_format(line, "\\u%04x", byte);
        } else if (length == 0) {
            tpp_text_append(line, "\xef\xbf\xbd");
        } else {
            tpp_text_append_bytes(line, value, length);
        }
        value += length ? length : 1;
    }
    tpp_text_append(line, "\"");
}

static void append_number(struct tpp_bench_samples *samples, double value)
{
    char buffer[32];
    if (!isfinite(value)) {
        samples->has_bad_number = true;
        return;
    }
    tpp_text_append(&samples->line, tpp_json_number_text(buffer, sizeof buffer, value));
}

static void append_key(struct tpp_bench_samples *samples, const char *key)
{
    tpp_text_append(&samples->line, samples->has_member ? "," : "");
    append_quoted(&samples->line, key);
    tpp_text_append(&samples->line, ":");
    samples->has_member = true;
}

void tpp_bench_samples_begin(struct tpp_bench_samples *samples, const char *kind)
{
    tpp_text_clear(&samples->line);
    samples->has_member = samples->has_bad_number = false;
    tpp_text_append(&samples->line, "{");
    tpp_bench_samples_text(samples, "kind", kind);
}

void tpp_bench_samples_begin_object(struct tpp_bench_samples *samples, const char *key)
{
    append_key(samples, key);
    tpp_text_append(&samples->line, "{");
    samples->has_member = false;
}

void tpp_bench_samples_end_object(struct tpp_bench_samples *samples)
{
    tpp_text_append(&samples->line, "}");
    samples->has_member = true;
}

void tpp_bench_samples_text(struct tpp_bench_samples *samples, const char *key, const char *value)
{
    append_key(samples, key);
    if (value) {
        append_quoted(&samples->line, value);
    } else {
        tpp_text_append(&samples->line, "null");
    }
}

void tpp_bench_samples_number(struct tpp_bench_samples *samples, const char *key, double value)
{
    append_key(samples, key);
    append_number(samples, value);
}

void tpp_bench_samples_count(struct tpp_bench_samples *samples, const char *key, uint64_t value)
{
    append_key(samples, key);
    tpp_text_format(&samples->line, "%llu", (unsigned long long)value);
}

void tpp_bench_samples_bool(struct tpp_bench_samples *samples, const char *key, bool value)
{
    append_key(samples, key);
    tpp_text_append(&samples->line, value ? "true" : "false");
}

void tpp_bench_samples_numbers(struct tpp_bench_samples *samples, const char *key, const double *values, size_t count)
{
    append_key(samples, key);
    tpp_text_append(&samples->line, "[");
    for (size_t i = 0; i < count; i++) {
        tpp_text_append(&samples->line, i ? "," : "");
        append_number(samples, values[i]);
    }
    tpp_text_append(&samples->line, "]");
}

void tpp_bench_samples_texts(struct tpp_bench_samples *samples, const char *key, const char *const *values,
                             size_t count)
{
    append_key(samples, key);
    tpp_text_append(&samples->line, "[");
    for (size_t i = 0; i < count; i++) {
        tpp_text_append(&samples->line, i ? "," : "");
        append_quoted(&samples->line, values[i]);
    }
    tpp_text_append(&samples->line, "]");
}

/* Empties the file; or ends a line that a run before was cut in, so that the first one of this run is whole. What is no
 * regular file has nothing in it. */
static void begin_file(const struct tpp_bench_samples *samples)
{
    FILE *file = samples->file;
    struct stat status;
    if (!samples->owns_file || fstat(fileno(file), &status) != 0 || !S_ISREG(status.st_mode)) {
        return;
    }
    if (samples->is_emptied) {
        if (ftruncate(fileno(file), 0) != 0) {
            clearerr(file); /* the lines go behind what is there */
        }
    } else if (fseek(file, -1, SEEK_END) == 0) {
        const int last = fgetc(file);
        fseek(file, 0, SEEK_END);
        if (last != '\n' && last != EOF) {
            fputc('\n', file);
        }
    }
}

enum tpp_code tpp_bench_samples_end(struct tpp_bench_samples *samples, struct tpp_error *err)
{
    FILE *file = samples->file;
    tpp_text_append(&samples->line, "}\n");
    if (tpp_text_failed(&samples->line)) {
        return tpp_fail(err, TPP_E_MEMORY, samples->name, NULL, "out of memory");
    }
    if (samples->has_bad_number) {
        return tpp_fail(err, TPP_E_INTERNAL, samples->name, NULL, "a measured number is not finite");
    }
    if (!file) {
        return TPP_OK;
    }
    if (samples->num_lines == 0) {
        begin_file(samples);
    }
    if (fputs(tpp_text_get(&samples->line), file) < 0 || fflush(file) != 0) {
        return write_failed(samples, err);
    }
    samples->num_lines++;
    return TPP_OK;
}
