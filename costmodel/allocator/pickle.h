/* pickle.h - private to the snapshot: Python's pickle format, protocol 2, as far as the memory viewer reads it.
 *
 * Values are written in order onto the text; containers are opened, filled and closed. Failures stay in the text
 * (tpp_text_failed). Source of the opcodes: Python's pickletools documentation. */
#ifndef TPP_COSTMODEL_ALLOCATOR_PICKLE_H
#define TPP_COSTMODEL_ALLOCATOR_PICKLE_H

#include "costmodel/base/text.h"

#include <stdint.h>

#define TPP_PICKLE_MAX_WORDS 64
#define TPP_PICKLE_BATCH 1000 /* values that are appended to a list at once, as in Python's own pickles */

struct tpp_pickle {
    struct tpp_text *out;
    const char *words[TPP_PICKLE_MAX_WORDS]; /* texts written before, by address: written once, then referred to */
    uint32_t num_words;
};

void tpp_pickle_begin(struct tpp_pickle *pickle, struct tpp_text *out);
void tpp_pickle_end(struct tpp_pickle *pickle);
void tpp_pickle_open_dict(struct tpp_pickle *pickle);
void tpp_pickle_close_dict(struct tpp_pickle *pickle);
void tpp_pickle_open_list(struct tpp_pickle *pickle);
/* Comes before the value of that index. The viewer makes a batch the arguments of one call, and engines for JavaScript take
 * some 120 000 of them: a list that may be long says this for each of its values. */
void tpp_pickle_list_value(struct tpp_pickle *pickle, uint64_t index);
void tpp_pickle_close_list(struct tpp_pickle *pickle);
void tpp_pickle_u64(struct tpp_pickle *pickle, uint64_t value); /* below 2^63 */
void tpp_pickle_bool(struct tpp_pickle *pickle, bool value);
void tpp_pickle_text(struct tpp_pickle *pickle, const char *text);
/* A text that lives as long as the pickle and comes again: keys and names. */
void tpp_pickle_word(struct tpp_pickle *pickle, const char *word);

#endif
