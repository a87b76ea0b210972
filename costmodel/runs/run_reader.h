/* run_reader.h - published or own measured runs: a file of JSON lines becomes tpp_runs.
 *
 * A line that cannot be predicted is kept with the reason in `skipped`: a mixture of experts, a schedule without a
 * model, a size that the source does not print, a GPU without a profile, broken JSON. Nothing is guessed for a size
 * that decides time or memory; what the software of a source is known to do is in run_stack.c. */
#ifndef TPP_COSTMODEL_RUNS_RUN_READER_H
#define TPP_COSTMODEL_RUNS_RUN_READER_H

#include "costmodel/base/error.h"
#include "costmodel/base/json_read.h"
#include "costmodel/runs/run.h"
#include "costmodel/runs/run_hardware.h"

#include <stdbool.h>
#include <stddef.h>

struct tpp_runs {          /* starts zeroed */
    struct tpp_run *items; /* owned */
    size_t count, capacity;
};

#define TPP_RUNS_MAX_FILE_BYTES (64u * 1024u * 1024u)

/* Appends the lines of `text` (blank ones are passed over). `file` names the text in messages, its name without folder
 * and ending is the group. TPP_E_SYNTAX when not a single line is a run; TPP_E_MEMORY. */
enum tpp_code tpp_runs_read(const char *text, size_t length, const char *file, struct tpp_run_profiles *profiles,
                            struct tpp_runs *runs, struct tpp_error *err);
/* The same from a file, or "-" for standard input (group "-"). */
enum tpp_code tpp_runs_load(const char *path, struct tpp_run_profiles *profiles, struct tpp_runs *runs,
                            struct tpp_error *err);
/* Marks the runs outside the default subset (tpp_run_in_default_subset) as skipped, each with its reason; broken lines
 * keep theirs. */
void tpp_runs_keep_default_subset(struct tpp_runs *runs);
void tpp_runs_release(struct tpp_runs *runs);

#endif
