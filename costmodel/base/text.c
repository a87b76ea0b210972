#include "costmodel/base/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tpp_text_init(struct tpp_text *text)
{
    *text = (struct tpp_text){0};
}

void tpp_text_release(struct tpp_text *text)
{
    free(text->data);
    *text = (struct tpp_text){0};
}

void tpp_text_clear(struct tpp_text *text)
{
    text->length = 0;
    if (text->data) {
        text->data[0] = '\0';
    }
}

/* Makes room for `extra` bytes and the terminator. */
static bool reserve(struct tpp_text *text, size_t extra)
{
    if (text->failed || extra > PTRDIFF_MAX - text->length - 1) {
        text->failed = true;
        return false;
    }
    const size_t needed = text->length + extra + 1;
    if (needed <= text->capacity) {
        return true;
    }
    size_t capacity = text->capacity < 64 ? 128 : 2 * text->capacity;
    if (capacity < needed) {
        capacity = needed;
    }
    char *data = realloc(text->data, capacity);
    if (!data) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void tpp_text_append_bytes(struct tpp_text *text, const char *bytes, size_t length)
{
    if (!reserve(text, length)) {
        return;
    }
    if (length > 0) {
        memcpy(text->data + text->length, bytes, length);
    }
    text->length += length;
    text->data[text->length] = '\0';
}

void tpp_text_append(struct tpp_text *text, const char *string)
{
    tpp_text_append_bytes(text, string, strlen(string));
}

void tpp_text_format(struct tpp_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0 || !reserve(text, (size_t)length)) {
        text->failed = true;
        return;
    }
    va_start(args, format);
    vsnprintf(text->data + text->length, (size_t)length + 1, format, args);
    va_end(args);
    text->length += (size_t)length;
}

/* Ranges written out, because isalnum() depends on the locale. */
static bool is_plain_shell_character(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("_./:=,@%+-", c) != NULL);
}

void tpp_text_append_shell_word(struct tpp_text *text, const char *value)
{
    size_t num_plain = 0;
    while (is_plain_shell_character(value[num_plain])) {
        num_plain++;
    }
    if (num_plain > 0 && value[num_plain] == '\0') {
        tpp_text_append_bytes(text, value, num_plain);
        return;
    }
    /* Within single quotes only a single quote is special: close, an escaped quote, open again. */
    tpp_text_append(text, "'");
    for (const char *quote = strchr(value, '\''); quote; quote = strchr(value, '\'')) {
        tpp_text_append_bytes(text, value, (size_t)(quote - value));
        tpp_text_append(text, "'\\''");
        value = quote + 1;
    }
    tpp_text_append(text, value);
    tpp_text_append(text, "'");
}

const char *tpp_text_get(const struct tpp_text *text)
{
    return text->data ? text->data : "";
}

bool tpp_text_failed(const struct tpp_text *text)
{
    return text->failed;
}

size_t tpp_utf8_cut(const char *string, size_t max_bytes)
{
    size_t length = strnlen(string, max_bytes);
    if (length < max_bytes || string[length] == '\0') {
        return length;
    }
    /* A continuation byte after the cut means that the cut is inside a character, of 4 bytes at most. */
    for (size_t back = 0; back < 4 && back <= length; back++) {
        if (((unsigned char)string[length - back] & 0xc0) != 0x80) {
            return length - back;
        }
    }
    return length;
}

size_t tpp_utf8_length(const char *bytes, size_t length)
{
    /* Unicode 15, table 3-7: the second byte has a narrower range after E0, ED, F0 and F4. */
    const unsigned char *p = (const unsigned char *)bytes;
    if (length == 0) {
        return 0;
    }
    if (p[0] < 0x80) {
        return 1;
    }
    const size_t need = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || length < need) {
        return 0;
    }
    const unsigned char low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < low || p[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < need; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return need;
}

enum { MAX_NAME = 64 };

/* Lower case, '_' for '-'; true when the whole word fitted. */
static bool fold(const char *word, char out[MAX_NAME + 1], size_t *length)
{
    size_t n = 0;
    for (; word[n] && n < MAX_NAME; n++) {
        const char c = word[n];
        out[n] = c == '-' ? '_' : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    *length = n;
    return word[n] == '\0';
}

/* Levenshtein's distance, with one row of the table. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t row[MAX_NAME + 1];
    for (size_t j = 0; j <= b_length; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            const size_t replace = diagonal + (a[i - 1] != b[j - 1]);
            const size_t change = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replace < change ? replace : change;
        }
    }
    return row[b_length];
}

const char *tpp_text_nearest(const char *word, const char *const *names)
{
    char a[MAX_NAME + 1], b[MAX_NAME + 1];
    size_t a_length, b_length;
    if (!fold(word, a, &a_length)) {
        return NULL;
    }
    const char *best = NULL;
    size_t best_distance = a_length / 3 + 2; /* further away is no longer a slip of the fingers */
    for (; *names; names++) {
        if (!fold(*names, b, &b_length)) {
            continue;
        }
        const size_t distance = edit_distance(a, a_length, b, b_length);
        const size_t longer = a_length > b_length ? a_length : b_length;
        if (distance < best_distance && distance < longer) {
            best = *names;
            best_distance = distance;
        }
    }
    return best;
}
