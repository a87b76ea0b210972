#include "costmodel/allocator/pickle.h"

#include <string.h>

static void put(struct tpp_pickle *pickle, const char *bytes, size_t length)
{
    tpp_text_append_bytes(pickle->out, bytes, length);
}

/* An opcode and its little-endian argument of `num_bytes`. */
static void put_number(struct tpp_pickle *pickle, char opcode, uint64_t value, size_t num_bytes)
{
    char bytes[9] = {opcode};
    for (size_t i = 0; i < num_bytes; i++)
        bytes[1 + i] = (char)(value >> (8 * i) & 0xff);
    put(pickle, bytes, 1 + num_bytes);
}

void tpp_pickle_begin(struct tpp_pickle *pickle, struct tpp_text *out)
{
    *pickle = (struct tpp_pickle){.out = out};
    put(pickle, "\x80\x02", 2); /* PROTO 2 */
}

void tpp_pickle_end(struct tpp_pickle *pickle)
{
    put(pickle, ".", 1); /* STOP */
}

void tpp_pickle_open_dict(struct tpp_pickle *pickle)
{
    put(pickle, "}(", 2); /* EMPTY_DICT MARK */
}

void tpp_pickle_close_dict(struct tpp_pickle *pickle)
{
    put(pickle, "u", 1); /* SETITEMS */
}

void tpp_pickle_open_list(struct tpp_pickle *pickle)
{
    put(pickle, "](", 2); /* EMPTY_LIST MARK */
}

void tpp_pickle_list_value(struct tpp_pickle *pickle, uint64_t index)
{
    if (index > 0 && index % TPP_PICKLE_BATCH == 0)
        put(pickle, "e(", 2); /* APPENDS MARK */
}

void tpp_pickle_close_list(struct tpp_pickle *pickle)
{
    put(pickle, "e", 1); /* APPENDS */
}

void tpp_pickle_u64(struct tpp_pickle *pickle, uint64_t value)
{
    if (value < 0x100) {
        put_number(pickle, 'K', value, 1); /* BININT1 */
    } else if (value < 0x80000000) {
        put_number(pickle, 'J', value, 4); /* BININT */
    } else {
        put(pickle, "\x8a\x08", 2); /* LONG1 of 8 bytes */
        char bytes[8];
        for (int i = 0; i < 8; i++)
            bytes[i] = (char)(value >> (8 * i) & 0xff);
        put(pickle, bytes, sizeof bytes);
    }
}

void tpp_pickle_bool(struct tpp_pickle *pickle, bool value)
{
    put(pickle, value ? "\x88" : "\x89", 1); /* NEWTRUE, NEWFALSE */
}

void tpp_pickle_text(struct tpp_pickle *pickle, const char *text)
{
    const size_t length = strlen(text);
    put_number(pickle, 'X', length, 4); /* BINUNICODE */
    put(pickle, text, length);
}

void tpp_pickle_word(struct tpp_pickle *pickle, const char *word)
{
    for (uint32_t i = 0; i < pickle->num_words; i++) {
        if (pickle->words[i] == word) {
            put_number(pickle, 'h', i, 1); /* BINGET */
            return;
        }
    }
    tpp_pickle_text(pickle, word);
    if (pickle->num_words < TPP_PICKLE_MAX_WORDS) {
        put_number(pickle, 'q', pickle->num_words, 1); /* BINPUT */
        pickle->words[pickle->num_words++] = word;
    }
}
