/* argument_map.h - private to the readers of command lines: which field of the settings an option sets. */
#ifndef TPP_PLANNER_LAUNCH_ARGUMENT_MAP_H
#define TPP_PLANNER_LAUNCH_ARGUMENT_MAP_H

#include "planner/launch/megatron_arguments.h"

enum tpp_argument_target {
    TPP_SET_NUMBER, /* int64_t */
    TPP_SET_DOUBLE,
    TPP_SET_TRUE,
    TPP_SET_FALSE,
    TPP_SET_SWITCH,  /* bool with a value: false for false, False, 0, no; true without one */
    TPP_SET_CHOICE,  /* enum: index in `words`; a word that is not there changes nothing, null is 0 */
    TPP_SET_VARIANT, /* bool: the value is not the first of `words` */
    TPP_ADD_VARIANT, /* the same, and true when it was before: of several options */
    TPP_SET_BITS,    /* unsigned: bits of `words`, the last one for unknown words */
    TPP_SET_GIVEN,   /* bool: the option is there */
    TPP_COUNT_DATA,
    TPP_SET_SPECIAL,
};

struct tpp_argument_mapping {
    const char *name;
    enum tpp_argument_target target;
    size_t offset; /* in struct tpp_megatron_settings */
    const char *words;
};

struct tpp_argument_map {
    const struct tpp_argument_mapping *mappings;
    size_t count;
    const char *const *needed; /* NULL-terminated: an unknown value of these is an error */
    void (*special)(const struct tpp_argument *argument, struct tpp_megatron_settings *settings);
};

/* Sets what is known, and says of what is not why. The last option of a name decides. */
void tpp_arguments_map(const struct tpp_arguments *arguments, const struct tpp_shell_script *script,
                       const struct tpp_argument_map *map, struct tpp_megatron_settings *settings,
                       struct tpp_problems *problems);

/* What a command line means that gives nothing. */
struct tpp_megatron_settings tpp_megatron_defaults(enum tpp_framework framework, enum tpp_release release);

/* --main-grads-dtype: reductions take the type of the precision-aware optimizer's gradients (launch formats 1.4). */
void tpp_megatron_read_main_gradients(const char *type, struct tpp_megatron_settings *settings);

/* Index of `word` in "a|b|c", or the number of words. */
unsigned tpp_word_index(const char *words, const char *word);

#endif
