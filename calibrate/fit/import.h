/* import.h - reading measurements from files of strangers.
 *
 * Every reader ends in rows or in a clear error. Lines that should be rows and are broken, cut or mixed with another
 * writer's are skipped and counted; a file without one usable row is an error that says what the file is. Each appends
 * one file to *samples; when tpp_import_file or _text fails, that file and its rows are taken away again. */
#ifndef TPP_CALIBRATE_FIT_IMPORT_H
#define TPP_CALIBRATE_FIT_IMPORT_H

#include "calibrate/fit/samples.h"

#include <stddef.h>
#include <stdint.h>

#define TPP_IMPORT_MAX_FILE_BYTES (256u * 1024u * 1024u)

/* What a log may leave open and its reader knows. 0: take it from the log. */
struct tpp_import_facts {
    uint32_t num_ranks, num_nodes;
    const char *operation; /* "all_reduce", ...; NULL: from the log */
};

/* Reads a file ("-" is standard input) and finds its format by its content. `facts` may be NULL. */
enum tpp_code tpp_import_file(const char *path, const struct tpp_import_facts *facts, struct tpp_samples *samples,
                              struct tpp_error *err);
/* The same for a text in memory; `source` names it in messages, and may hint at what a log leaves open. */
enum tpp_code tpp_import_text(const char *text, size_t length, const char *source, const struct tpp_import_facts *facts,
                              struct tpp_samples *samples, struct tpp_error *err);

/* The readers behind it. */
enum tpp_code tpp_import_nccl_log(const char *text, size_t length, const char *source,
                                  const struct tpp_import_facts *facts, struct tpp_samples *samples,
                                  struct tpp_error *err);
enum tpp_code tpp_import_table(const char *text, size_t length, const char *source, struct tpp_samples *samples,
                               struct tpp_error *err);
enum tpp_code tpp_import_sample_lines(const char *text, size_t length, const char *source, struct tpp_samples *samples,
                                      struct tpp_error *err);

#endif
