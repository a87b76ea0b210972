/* shell_reader.h - what a bash script would start, found without starting anything.
 *
 * The reader follows assignments, defaults (${TP:-4}), arithmetic, arrays, here-documents, if, case, loops and
 * functions as bash does, and never runs a command: what a command would print ($(...), `...`) is not known. What
 * cannot be decided is not guessed either: after an `if` whose condition is not known, a variable that its branches set
 * differently is unknown, and the note says where. Every word knows the line it was written on. Time and memory are
 * bounded for any input. */
#ifndef TPP_PLANNER_LAUNCH_SHELL_READER_H
#define TPP_PLANNER_LAUNCH_SHELL_READER_H

#include "costmodel/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TPP_SHELL_MAX_BYTES (1u << 20)

enum tpp_shell_note_kind {
    TPP_SHELL_UNSET,       /* a variable that nothing in the script sets */
    TPP_SHELL_REQUIRED,    /* the same, and the script stops with a message (${NAME:?...}) */
    TPP_SHELL_POSITIONAL,  /* an argument of the script */
    TPP_SHELL_COMMAND,     /* what a command would print */
    TPP_SHELL_UNDECIDED,   /* depends on a condition or loop that cannot be decided */
    TPP_SHELL_PLACEHOLDER, /* <Specify path> */
    TPP_SHELL_UNREADABLE,  /* an expansion that the reader does not follow */
    TPP_SHELL_REPLACED,    /* a variable that the caller gave, and the script sets to something else */
    TPP_SHELL_SOURCED,     /* a file that is read by the script and not here: what it sets is not known */
};

/* Why something is not known. */
struct tpp_shell_note {
    enum tpp_shell_note_kind kind;
    uint32_t line;
    const char *text; /* "$NAME", "$(date)", the file that is sourced */
};

struct tpp_shell_word {
    const char *text; /* the value; unknown pieces as they are written in the script */
    uint32_t line;    /* where its first character was written, from 1 */
    uint32_t note;    /* index + 1 of the note of its first unknown piece; 0: the word is known */
    bool may_vanish;  /* an unknown value outside quotes: none, one or several words */
};

struct tpp_shell_words {
    const struct tpp_shell_word *items;
    size_t count;
};

struct tpp_shell_variable {
    const char *name;
    struct tpp_shell_word value; /* of an array: its first item */
};

/* A program that the script starts. */
struct tpp_shell_command {
    uint32_t line;
    struct tpp_shell_words words;
    struct tpp_shell_words outer;                 /* what started the shell it runs in: srun ... bash -c */
    const struct tpp_shell_variable *environment; /* exported variables and assignments in front of the command */
    size_t num_environment;
    bool is_conditional; /* behind a condition that cannot be decided */
};

/* A file that the script writes with a here-document or echo. */
struct tpp_shell_file {
    struct tpp_shell_word path, content;
};

/* A variable that the caller knows; names of digits are arguments of the script, "#" with "0" says that it has none. */
struct tpp_shell_setting {
    const char *name, *value;
};

/* Where files that a script reads come from. `read` fills *data with a terminated buffer (free) for a path as the
 * script writes it, relative to the script; false: there is none. */
struct tpp_shell_source {
    bool (*read)(void *context, const char *path, char **data, size_t *length);
    void *context;
};

struct tpp_shell_script; /* opaque */

/* Reads `length` bytes. `file` is used in messages. TPP_E_SYNTAX: no shell script; TPP_E_UNSUPPORTED: larger, deeper or
 * longer at work than the limits. On success the caller owns *out (tpp_shell_free). */
enum tpp_code tpp_shell_read(const char *text, size_t length, const char *file,
                             const struct tpp_shell_setting *settings, size_t num_settings,
                             struct tpp_shell_script **out, struct tpp_error *err);
/* The same, and follows `source FILE` and `. FILE` into files of `source` (borrowed until the script is freed): nothing
 * in them is executed either, what they set counts at the line that reads them. At most 32 files, 8 inside each other,
 * and never one inside itself. */
enum tpp_code tpp_shell_read_with(const char *text, size_t length, const char *file,
                                  const struct tpp_shell_setting *settings, size_t num_settings,
                                  const struct tpp_shell_source *source, struct tpp_shell_script **out,
                                  struct tpp_error *err);
void tpp_shell_free(struct tpp_shell_script *script); /* NULL is fine */

/* A file that a word names, relative to the script: also behind "$(dirname "$0")/" and the like. *data is the caller's
 * (free); false: there is none, or it is not known which. */
bool tpp_shell_open(const struct tpp_shell_script *script, const struct tpp_shell_word *word, char **data,
                    size_t *length);

/* All valid until the script is freed. Commands are in the order of the script. */
const struct tpp_shell_command *tpp_shell_commands(const struct tpp_shell_script *script, size_t *count);
const struct tpp_shell_file *tpp_shell_files(const struct tpp_shell_script *script, size_t *count);
const struct tpp_shell_note *tpp_shell_notes(const struct tpp_shell_script *script, size_t *count);
/* Words of the #SBATCH lines. */
struct tpp_shell_words tpp_shell_batch_options(const struct tpp_shell_script *script);
/* NULL when word->note is 0. */
const struct tpp_shell_note *tpp_shell_note_of(const struct tpp_shell_script *script,
                                               const struct tpp_shell_word *word);

#endif
