/* host_samples.h - the samples file: one JSON object a line, flushed line by line, so that a run that is killed keeps
 * what it measured.
 *
 * The first line of a run has "kind":"run" and says where the rows come from; the rows have the kinds and keys of
 * calibrate/fit/samples.md. A line is built key by key and ended with tpp_bench_samples_end. A failed
 * allocation or a number that is not finite makes the whole line fail at its end; nothing is written of it then. */
#ifndef TPP_CALIBRATE_BENCH_HOST_SAMPLES_H
#define TPP_CALIBRATE_BENCH_HOST_SAMPLES_H

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tpp_bench_samples {
    void *file;       /* FILE *; NULL: rows are dropped (all ranks but the first) */
    const char *name; /* for messages */
    struct tpp_text line;
    bool has_member;
    bool has_bad_number;
    bool owns_file;
    bool is_emptied; /* before the first line */
    uint64_t num_lines;
};

/* `path` "-" or NULL is standard output; `append` keeps what an existing file holds. Without it, the file is emptied when the
 * first line is written: a program that finds no GPU takes no samples away. */
enum tpp_code tpp_bench_samples_open(struct tpp_bench_samples *samples, const char *path, bool append,
                                     struct tpp_error *err);
/* A writer that drops everything. */
void tpp_bench_samples_open_nothing(struct tpp_bench_samples *samples);
/* TPP_E_IO when the file could not be written whole. */
enum tpp_code tpp_bench_samples_close(struct tpp_bench_samples *samples, struct tpp_error *err);

void tpp_bench_samples_begin(struct tpp_bench_samples *samples, const char *kind);
void tpp_bench_samples_text(struct tpp_bench_samples *samples, const char *key, const char *value); /* NULL: null */
void tpp_bench_samples_number(struct tpp_bench_samples *samples, const char *key, double value);
void tpp_bench_samples_count(struct tpp_bench_samples *samples, const char *key, uint64_t value);
void tpp_bench_samples_bool(struct tpp_bench_samples *samples, const char *key, bool value);
void tpp_bench_samples_numbers(struct tpp_bench_samples *samples, const char *key, const double *values, size_t count);
void tpp_bench_samples_texts(struct tpp_bench_samples *samples, const char *key, const char *const *values,
                             size_t count);
/* Members until the end of the object belong to it. */
void tpp_bench_samples_begin_object(struct tpp_bench_samples *samples, const char *key);
void tpp_bench_samples_end_object(struct tpp_bench_samples *samples);
enum tpp_code tpp_bench_samples_end(struct tpp_bench_samples *samples, struct tpp_error *err);

#endif
