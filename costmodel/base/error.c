#include "costmodel/base/error.h"

#include "costmodel/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Replaces what could drive a terminal: C0 controls, DEL, and C1 controls (C2 80 .. C2 9F in UTF-8). */
static void replace_controls(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++) {
        if (*p < 0x20 || *p == 0x7f) {
            *p = '?';
        } else if (*p == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f) {
            p[0] = '?';
            p[1] = '?';
        }
    }
}

static void copy_text(char *out, size_t size, const char *text)
{
    const size_t length = tpp_utf8_cut(text ? text : "", size - 1);
    if (length > 0) {
        memcpy(out, text, length);
    }
    out[length] = '\0';
    replace_controls(out);
}

enum tpp_code tpp_fail(struct tpp_error *err, enum tpp_code code, const char *where, const char *hint,
                       const char *format, ...)
{
    if (!err) {
        return code;
    }
    /* Built aside, because `where`, `hint` and the arguments may point into *err. One byte more than fits tells a cut
     * text from one that just fits. */
    struct tpp_error built = {.code = code};
    char message[sizeof built.message + 1];
    va_list args;
    va_start(args, format);
    if (vsnprintf(message, sizeof message, format, args) < 0) {
        message[0] = '\0';
    }
    va_end(args);
    copy_text(built.message, sizeof built.message, message);
    copy_text(built.where, sizeof built.where, where);
    copy_text(built.hint, sizeof built.hint, hint);
    *err = built;
    return code;
}

static const struct {
    const char *name;
    int exit_status;
} codes[] = {
    [TPP_OK] = {"ok", 0},
    [TPP_E_USAGE] = {"usage", 2},
    [TPP_E_SYNTAX] = {"syntax", 3},
    [TPP_E_TYPE] = {"type", 3},
    [TPP_E_RANGE] = {"range", 3},
    [TPP_E_MISSING] = {"missing", 3},
    [TPP_E_UNSUPPORTED] = {"unsupported", 3},
    [TPP_E_STRATEGY] = {"strategy", 2},
    [TPP_E_NOT_BUILT] = {"not_built", 4},
    [TPP_E_IO] = {"io", 5},
    [TPP_E_MEMORY] = {"memory", 70},
    [TPP_E_INTERNAL] = {"internal", 70},
};

static enum tpp_code known(enum tpp_code code)
{
    return (size_t)code < sizeof codes / sizeof codes[0] ? code : TPP_E_INTERNAL;
}

const char *tpp_code_name(enum tpp_code code)
{
    return codes[known(code)].name;
}

int tpp_code_exit_status(enum tpp_code code)
{
    return codes[known(code)].exit_status;
}
