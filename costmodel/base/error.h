/* error.h - the one error value of the project and how a function reports it.
 *
 * A function that can fail returns enum tpp_code and takes `struct tpp_error *err` last. The function that
 * finds the fault fills it; callers pass it on unchanged. `err` may be NULL when the caller wants the code only. */
#ifndef TPP_COSTMODEL_BASE_ERROR_H
#define TPP_COSTMODEL_BASE_ERROR_H

enum tpp_code {
    TPP_OK = 0,
    TPP_E_USAGE,         /* a command line or call that cannot mean anything; exit 2 */
    TPP_E_SYNTAX,        /* a file that is not the format it should be; exit 3 */
    TPP_E_TYPE,          /* a value of the wrong type; exit 3 */
    TPP_E_RANGE,         /* a value outside its valid range; exit 3 */
    TPP_E_MISSING,       /* a key or value that is needed and absent; exit 3 */
    TPP_E_UNSUPPORTED,   /* understood, but not something this program can cost; exit 3 */
    TPP_E_STRATEGY,      /* sizes that cannot be run together (cost-model 1.1); exit 2 */
    TPP_E_NOT_BUILT,     /* a part that was not built in, or no device; exit 4 */
    TPP_E_IO,            /* reading or writing failed; exit 5 */
    TPP_E_MEMORY,        /* out of memory in this program; exit 70 */
    TPP_E_INTERNAL,      /* our bug; exit 70 */
};

struct tpp_error {      /* plain value; nothing in it is allocated */
    enum tpp_code code; /* stable: printed in --json, mapped to the exit code */
    char message[256];  /* what is wrong, with the value found; lower case, no full stop */
    char where[256];    /* file:line:column or file#/json/pointer, or the option's name; may be empty */
    char hint[256];     /* what the user can do about it; may be empty */
};

/* Fills *err (when not NULL) and returns `code`. `where` and `hint` may be NULL. Texts that do not fit are cut at a
 * character boundary; control characters that came from input are replaced by '?'. */
enum tpp_code tpp_fail(struct tpp_error *err, enum tpp_code code, const char *where, const char *hint,
                       const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Stable lower-case name of a code for --json: "usage", "syntax", "type", "range", "missing", "unsupported",
 * "strategy", "not_built", "io", "memory", "internal"; "ok" for TPP_OK. */
const char *tpp_code_name(enum tpp_code code);

/* Exit code of the command-line contract for a code: 0, 2, 3, 4, 5 or 70. */
int tpp_code_exit_status(enum tpp_code code);

#endif
