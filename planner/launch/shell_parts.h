/* shell_parts.h - private to the shell reader: text that knows its lines, the tree of a script, and its state.
 *
 * Everything lives in one arena until the script is freed, and is never changed once another part has seen it, so that
 * a state is copied by copying pointers. A failure (memory, limit, syntax) is kept in the reader: every function that
 * can fail looks at tpp_shell_failed and does nothing then. */
#ifndef TPP_PLANNER_LAUNCH_SHELL_PARTS_H
#define TPP_PLANNER_LAUNCH_SHELL_PARTS_H

#include "costmodel/base/arena.h"
#include "planner/launch/shell_reader.h"

enum { TPP_SHELL_MAX_DEPTH = 64 }; /* commands inside each other, functions, expansions */

enum tpp_shell_kind {
    TPP_SHELL_PLAIN,  /* written without quotes: its spaces have separated words already */
    TPP_SHELL_QUOTED, /* stays together */
    TPP_SHELL_SPLIT,  /* from an expansion without quotes: spaces separate words */
};

struct tpp_shell_cell { /* one character */
    uint32_t line;
    uint32_t note; /* index + 1: stands for text that is not known; 0: it is `byte` */
    char byte;
    uint8_t kind;
};

struct tpp_shell_text { /* borrowed characters */
    const struct tpp_shell_cell *cells;
    size_t count;
};

struct tpp_shell_builder { /* a text that grows */
    struct tpp_shell_cell *cells;
    size_t count, capacity;
};

struct tpp_shell_fields {
    struct tpp_shell_text *items;
    size_t count, capacity;
};

/* ---- the tree ---- */

enum tpp_shell_node_kind {
    TPP_NODE_SIMPLE,
    TPP_NODE_PIPELINE, /* parts through `next` of the first */
    TPP_NODE_AND,
    TPP_NODE_OR,
    TPP_NODE_NOT,
    TPP_NODE_SEQUENCE, /* items through `next` of the first */
    TPP_NODE_ITEM,     /* first */
    TPP_NODE_IF,       /* first: condition, second: body, third: otherwise */
    TPP_NODE_FOR,      /* words: name and list (none: it cannot be decided), second: body */
    TPP_NODE_WHILE,    /* first: condition, second: body */
    TPP_NODE_UNTIL,
    TPP_NODE_CASE,   /* words[0], branches through `next` of the first */
    TPP_NODE_BRANCH, /* words: patterns, first: body */
    TPP_NODE_SUBSHELL,
    TPP_NODE_FUNCTION,   /* words[0]: name, first: body */
    TPP_NODE_ARITHMETIC, /* (( words[0] )) */
    TPP_NODE_CONDITION,  /* [[ words ]] */
};

enum tpp_shell_redirect_kind { TPP_REDIRECT_OTHER, TPP_REDIRECT_WRITE, TPP_REDIRECT_HERE, TPP_REDIRECT_HERE_STRING };

struct tpp_shell_redirect {
    enum tpp_shell_redirect_kind kind;
    bool is_literal, strips_tabs; /* here-document: delimiter in quotes, <<- */
    struct tpp_shell_text word;   /* file, delimiter or string */
    struct tpp_shell_text body;
    struct tpp_shell_redirect *next;
};

struct tpp_shell_node {
    enum tpp_shell_node_kind kind;
    uint32_t line;
    struct tpp_shell_node *first, *second, *third, *next;
    struct tpp_shell_fields words;
    struct tpp_shell_redirect *redirects;
    bool has_words; /* FOR: `in` is there */
};

/* ---- the state ---- */

struct tpp_shell_value {
    const char *name;
    bool is_set, is_exported, is_array;
    bool is_given; /* by the caller */
    size_t count;
    const struct tpp_shell_text *items;
};

struct tpp_shell_scope {
    struct tpp_shell_value *values;
    size_t count, capacity;
    const struct tpp_shell_text *arguments; /* $1 ... */
    size_t num_arguments;
    struct tpp_shell_text name; /* $0 of a shell that was given one */
    bool has_arguments;         /* they are all: of a function, or given by the caller */
};

struct tpp_shell_function {
    const char *name;
    struct tpp_shell_node *body;
    struct tpp_shell_function *next;
};

enum tpp_shell_stop { TPP_STOP_NONE, TPP_STOP_BREAK, TPP_STOP_CONTINUE, TPP_STOP_RETURN, TPP_STOP_EXIT };
enum tpp_shell_truth { TPP_NO, TPP_YES, TPP_MAYBE };

struct tpp_shell_script {
    struct tpp_arena *arena;
    const char *file;
    enum tpp_code code;
    struct tpp_error error;
    size_t bytes_left, steps_left;
    unsigned depth;
    struct tpp_shell_scope scope;
    struct tpp_shell_function *functions;
    enum tpp_shell_stop stop;
    unsigned undecided;     /* depth of branches that may not run */
    bool asks_unset;        /* the last condition is as it is because nothing sets a variable */
    bool has_failed_exit;   /* the last exit was not with 0 */
    bool is_loop_condition; /* $# is 0 there: without arguments, a loop over them does not run */
    struct tpp_shell_words outer;
    struct tpp_shell_note *notes;
    size_t num_notes, notes_capacity;
    struct tpp_shell_command *commands;
    size_t num_commands, commands_capacity;
    struct tpp_shell_file *files;
    size_t num_files, files_capacity;
    const struct tpp_shell_source *source; /* NULL: none is followed */
    const char *nested[8];                 /* names of files that are being read */
    size_t num_nested, num_sourced;
    struct tpp_shell_fields batch; /* words of #SBATCH lines */
    struct tpp_shell_words batch_words;
};

/* shell_text.c */
bool tpp_shell_failed(const struct tpp_shell_script *s);
void tpp_shell_fail(struct tpp_shell_script *s, enum tpp_code code, uint32_t line, const char *hint, const char *format,
                    ...) __attribute__((format(printf, 5, 6)));
/* NULL, and failed, when memory or the limit is used up. */
void *tpp_shell_alloc(struct tpp_shell_script *s, size_t count, size_t size);
/* A larger copy of an array of `size`-byte items when count == *capacity. False on failure. */
bool tpp_shell_grow(struct tpp_shell_script *s, void *array, size_t count, size_t *capacity, size_t size);
/* Counts work; false, and failed, when there was too much. */
bool tpp_shell_step(struct tpp_shell_script *s, size_t count);
bool tpp_shell_enter(struct tpp_shell_script *s, uint32_t line);
void tpp_shell_leave(struct tpp_shell_script *s);
uint32_t tpp_shell_add_note(struct tpp_shell_script *s, enum tpp_shell_note_kind kind, uint32_t line, const char *text);
void tpp_shell_push(struct tpp_shell_script *s, struct tpp_shell_builder *builder, struct tpp_shell_cell cell);
void tpp_shell_push_text(struct tpp_shell_script *s, struct tpp_shell_builder *builder, struct tpp_shell_text text,
                         enum tpp_shell_kind kind);
void tpp_shell_push_string(struct tpp_shell_script *s, struct tpp_shell_builder *builder, const char *string,
                           uint32_t line, enum tpp_shell_kind kind);
void tpp_shell_push_unknown(struct tpp_shell_script *s, struct tpp_shell_builder *builder, uint32_t note, uint32_t line,
                            enum tpp_shell_kind kind);
struct tpp_shell_text tpp_shell_text_of(const struct tpp_shell_builder *builder);
struct tpp_shell_text tpp_shell_from_string(struct tpp_shell_script *s, const char *string, uint32_t line);
struct tpp_shell_text tpp_shell_unknown(struct tpp_shell_script *s, uint32_t note, uint32_t line);
struct tpp_shell_text tpp_shell_slice(struct tpp_shell_text text, size_t begin, size_t end);
void tpp_shell_add_field(struct tpp_shell_script *s, struct tpp_shell_fields *fields, struct tpp_shell_text text);
bool tpp_shell_is_known(struct tpp_shell_text text);
/* Terminated copy; unknown pieces as they are written. Never NULL ("" on failure). */
const char *tpp_shell_string(struct tpp_shell_script *s, struct tpp_shell_text text);
bool tpp_shell_equals(struct tpp_shell_text text, const char *string);
bool tpp_shell_same(struct tpp_shell_text a, struct tpp_shell_text b);
uint32_t tpp_shell_line(struct tpp_shell_text text, uint32_t otherwise);
/* Note of the first unknown piece; 0 without one. */
uint32_t tpp_shell_first_note(struct tpp_shell_text text);
/* Length of the name ([A-Za-z_][A-Za-z0-9_]*) at `at`; 0: none. */
size_t tpp_shell_name_length(struct tpp_shell_text text, size_t at);
struct tpp_shell_words tpp_shell_words_of(struct tpp_shell_script *s, const struct tpp_shell_fields *fields);
struct tpp_shell_word tpp_shell_word_of(struct tpp_shell_script *s, struct tpp_shell_text text);

/* shell_scan.c: where pieces of a text end; at most text.count */
char tpp_shell_byte(struct tpp_shell_text text, size_t at); /* '\0' behind the end; '?' for what is not known */
/* Behind the quoted or expanded piece that begins at `at` (\ ' " $ `); `at` + 1 for any other character. Sets failed
 * when it has no end. */
size_t tpp_shell_skip_piece(struct tpp_shell_script *s, struct tpp_shell_text text, size_t at, bool in_quotes);
/* Behind the `)` that closes the `(` in front of `at`. */
size_t tpp_shell_skip_parentheses(struct tpp_shell_script *s, struct tpp_shell_text text, size_t at);

/* shell_parse.c */
struct tpp_shell_node *tpp_shell_parse(struct tpp_shell_script *s, struct tpp_shell_text source);
/* Words of the inside of an array literal. */
void tpp_shell_parse_array(struct tpp_shell_script *s, struct tpp_shell_text inside, struct tpp_shell_fields *words);

/* shell_state.c */
const struct tpp_shell_value *tpp_shell_get(struct tpp_shell_script *s, const char *name); /* NULL: never set */
/* A variable of the caller, exported; a note says when the script loses its value. */
void tpp_shell_give(struct tpp_shell_script *s, const char *name, struct tpp_shell_text text);
void tpp_shell_set(struct tpp_shell_script *s, const char *name, struct tpp_shell_text text);
void tpp_shell_set_array(struct tpp_shell_script *s, const char *name, const struct tpp_shell_fields *items);
void tpp_shell_unset(struct tpp_shell_script *s, const char *name);
void tpp_shell_export(struct tpp_shell_script *s, const char *name);
struct tpp_shell_scope tpp_shell_scope_copy(struct tpp_shell_script *s, const struct tpp_shell_scope *scope);
/* What is alike in all scopes; what is not becomes unknown, but keeps the beginning it had in `base`. */
void tpp_shell_merge(struct tpp_shell_script *s, const struct tpp_shell_scope *base,
                     const struct tpp_shell_scope *scopes, size_t count, uint32_t line);

/* shell_expand.c, shell_parameter.c */
/* Appends the fields that a word becomes. */
void tpp_shell_expand(struct tpp_shell_script *s, struct tpp_shell_text word, struct tpp_shell_fields *fields);
/* The same without splitting: values of assignments, strings, patterns (quoted characters stay marked). */
struct tpp_shell_text tpp_shell_expand_one(struct tpp_shell_script *s, struct tpp_shell_text word);
/* A here-document: only $ and ` are special. */
struct tpp_shell_text tpp_shell_expand_document(struct tpp_shell_script *s, struct tpp_shell_text body);
/* ${...} without the braces: appends the items (several for arrays with [@]) to `items`. */
void tpp_shell_expand_braces(struct tpp_shell_script *s, struct tpp_shell_text inside, uint32_t line, bool in_quotes,
                             struct tpp_shell_fields *items);
/* $NAME, $1, $@, $#. */
void tpp_shell_expand_name(struct tpp_shell_script *s, const char *name, uint32_t line, bool in_quotes,
                           struct tpp_shell_fields *items);
/* Why a parameter has no value that is known. */
uint32_t tpp_shell_missing(struct tpp_shell_script *s, const char *name, uint32_t line);

/* shell_assign.c */
bool tpp_shell_is_assignment(struct tpp_shell_text word);
/* Carries out an assignment; returns the name. */
const char *tpp_shell_assign(struct tpp_shell_script *s, struct tpp_shell_text word);

/* shell_arith.c: false when the value is not known; then *note says why (0: it makes no sense). */
bool tpp_shell_arithmetic(struct tpp_shell_script *s, struct tpp_shell_text expression, uint32_t line, int64_t *value,
                          uint32_t *note);

/* shell_test.c */
enum tpp_shell_truth tpp_shell_test(struct tpp_shell_script *s, const struct tpp_shell_fields *words, uint32_t line);
enum tpp_shell_truth tpp_shell_condition(struct tpp_shell_script *s, const struct tpp_shell_fields *words,
                                         uint32_t line);
/* A glob; special characters count where they are not quoted. */
enum tpp_shell_truth tpp_shell_matches(struct tpp_shell_script *s, struct tpp_shell_text pattern,
                                       struct tpp_shell_text text);

/* shell_run.c */
enum tpp_shell_truth tpp_shell_run(struct tpp_shell_script *s, struct tpp_shell_node *node);
/* Runs `text` in this shell; with `arguments` ($0 first), in a shell of its own. */
void tpp_shell_run_text(struct tpp_shell_script *s, struct tpp_shell_text text,
                        const struct tpp_shell_fields *arguments);

/* shell_source.c */
/* Runs a file in this shell; false when it is not followed. */
bool tpp_shell_source(struct tpp_shell_script *s, struct tpp_shell_text name, const struct tpp_shell_fields *arguments,
                      uint32_t line);
/* Runs a file in a shell of its own, as sbatch does: `options` of the command line (its name first) stand above those
 * of the file's #SBATCH lines; `arguments`: $0 first. False when it is not followed. */
bool tpp_shell_submit(struct tpp_shell_script *s, struct tpp_shell_text name, const struct tpp_shell_fields *options,
                      const struct tpp_shell_fields *arguments, uint32_t line);

/* shell_reader.c */
/* Adds the words of #SBATCH lines. */
void tpp_shell_read_batch(struct tpp_shell_script *s, struct tpp_shell_text text);

/* shell_command.c */
enum tpp_shell_truth tpp_shell_run_simple(struct tpp_shell_script *s, struct tpp_shell_node *node);

#endif
