/* text.h - a growing text buffer, and quoting.
 *
 * A failed allocation is remembered in the buffer (tpp_text_failed) instead of being returned by every call: check once
 * at the end. */
#ifndef TPP_COSTMODEL_BASE_TEXT_H
#define TPP_COSTMODEL_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct tpp_text {
    char *data; /* always terminated when not NULL */
    size_t length;
    size_t capacity;
    bool failed;
};

void tpp_text_init(struct tpp_text *text);
void tpp_text_release(struct tpp_text *text);
void tpp_text_clear(struct tpp_text *text); /* keeps the memory, and remembers a failure */
void tpp_text_append(struct tpp_text *text, const char *string);
void tpp_text_append_bytes(struct tpp_text *text, const char *bytes, size_t length);
void tpp_text_format(struct tpp_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends `value` as one word of a POSIX shell: as it is when it is made of [A-Za-z0-9_./:=,@%+-] only and not empty,
 * else in single quotes. Nothing in it is ever expanded by a shell. */
void tpp_text_append_shell_word(struct tpp_text *text, const char *value);
/* "" when nothing was appended; never NULL. */
const char *tpp_text_get(const struct tpp_text *text);
bool tpp_text_failed(const struct tpp_text *text);

/* The length of the longest beginning of `string` that has at most `max_bytes` bytes and does not end inside a UTF-8
 * character. */
size_t tpp_utf8_cut(const char *string, size_t max_bytes);
/* The length (1 to 4) of the valid UTF-8 character that `bytes` begin with; 0 when there is none (also for an overlong
 * form, a surrogate, or a value above U+10FFFF). At most `length` bytes are read. */
size_t tpp_utf8_length(const char *bytes, size_t length);

/* The name of the NULL-terminated list that is most like `word` ("did you mean"), by edit distance and without regard
 * to ASCII case, '-' and '_'; NULL when none is near. */
const char *tpp_text_nearest(const char *word, const char *const *names);

#endif
