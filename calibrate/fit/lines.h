/* lines.h - a text of strangers, line by line and word by word. */
#ifndef TPP_CALIBRATE_FIT_LINES_H
#define TPP_CALIBRATE_FIT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tpp_lines {
    const char *text;
    size_t length, at;
    uint32_t number; /* of the line returned last, from 1 */
};

/* The next line, without its end; not terminated. False after the last. An empty rest after the final newline is no
 * line. */
bool tpp_lines_next(struct tpp_lines *lines, const char **start, size_t *length);

#define TPP_LINE_SIZE 4096
/* Copies at most TPP_LINE_SIZE - 1 bytes of a line, terminated, with control characters replaced by spaces. */
void tpp_line_copy(char line[TPP_LINE_SIZE], const char *start, size_t length);

/* Cuts a line at runs of spaces, in place. Words beyond `max_words` are dropped. Returns their number. */
size_t tpp_line_words(char *line, char **words, size_t max_words);

/* The whole word is digits and below 2^63; *value may be NULL. */
bool tpp_word_u64(const char *word, uint64_t *value);
/* The whole word is a finite decimal number (sign and exponent allowed); *half_step, when not NULL, gets half the value
 * of its last printed digit: the rounding error it may hide. */
bool tpp_word_number(const char *word, double *value, double *half_step);

#endif
