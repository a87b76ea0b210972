/* options.c - look-up in the option table of Megatron-LM. */
#include "planner/launch/options.h"

#include <stdlib.h>
#include <string.h>

#define ROW(name, kind, num_values, first, last, defaults, choices)                                                    \
    {name, TPP_LAUNCH_OPTION_##kind, num_values, TPP_RELEASE_##first, TPP_RELEASE_##last, defaults, choices},
static const struct tpp_launch_option options[] = {
#include "planner/launch/megatron_lm_options.inc"
};
#undef ROW

/* Read from the same parsers: options that were replaced, and those kept only to end the program with a message. */
static const struct tpp_launch_rename renames[] = {
    {"--activations-checkpoint-method", "--recompute-method", TPP_RELEASE_23_04, false},
    {"--activations-checkpoint-num-layers", "--recompute-num-layers", TPP_RELEASE_23_04, false},
    {"--checkpoint-activations", "--recompute-granularity full --recompute-method uniform", TPP_RELEASE_23_04, true},
    {"--cuda-graph-scope", "--cuda-graph-modules", TPP_RELEASE_0_18, false},
    {"--enable-cuda-graph", "--cuda-graph-impl local", TPP_RELEASE_0_15, false},
    {"--fp8-e4m3", "--fp8-format e4m3", TPP_RELEASE_0_4, false},
    {"--fp8-hybrid", "--fp8-format hybrid", TPP_RELEASE_0_4, false},
    {"--layernorm-epsilon", "--norm-epsilon", TPP_RELEASE_0_4, false},
    {"--local_rank", "--local-rank", TPP_RELEASE_0_9, false},
    {"--model-parallel-size", "--tensor-model-parallel-size", TPP_RELEASE_V2_6, true},
    {"--moe-extended-tp", "--expert-tensor-parallel-size", TPP_RELEASE_0_17, false},
    {"--moe-layer-recompute", "--recompute-modules moe", TPP_RELEASE_0_12, false},
    {"--no-query-key-layer-scaling", NULL, TPP_RELEASE_0_4, false},
    {"--overlap-p2p-communication", NULL, TPP_RELEASE_0_4, false},
    {"--use-custom-fsdp", "--use-megatron-fsdp", TPP_RELEASE_0_14, false},
    {"--use-flash-attn", "--attention-backend flash", TPP_RELEASE_0_11, false},
    {"--use-rotary-position-embeddings", "--position-embedding-type rope", TPP_RELEASE_0_4, false},
};

const struct tpp_launch_option *tpp_launch_options(size_t *count)
{
    *count = sizeof options / sizeof *options;
    return options;
}

static int compare_name(const void *name, const void *option)
{
    return strcmp(name, ((const struct tpp_launch_option *)option)->name);
}

const struct tpp_launch_option *tpp_launch_option_find(const char *name)
{
    return bsearch(name, options, sizeof options / sizeof *options, sizeof *options, compare_name);
}

bool tpp_launch_option_in(const struct tpp_launch_option *option, enum tpp_release release)
{
    return release >= option->first && release <= option->last;
}

/* True when `list` ("a|b@0.12..") has `value` in `release`. */
static bool list_has(const char *list, enum tpp_release release, const char *value)
{
    size_t value_length = strlen(value);
    while (*list != '\0') {
        size_t length = strcspn(list, "|"), name = strcspn(list, "@|");
        if (name == value_length && memcmp(list, value, name) == 0 &&
            (name == length || tpp_release_in_range(list + name + 1, length - name - 1, release)))
            return true;
        list += length + (list[length] == '|');
    }
    return false;
}

bool tpp_launch_option_allows(const struct tpp_launch_option *option, enum tpp_release release, const char *value)
{
    return *option->choices == '\0' || list_has(option->choices, release, value);
}

bool tpp_launch_option_is_default(const struct tpp_launch_option *option, enum tpp_release release, const char *value)
{
    return list_has(option->defaults, release, value);
}

const struct tpp_launch_rename *tpp_launch_rename_find(const char *old_name)
{
    for (size_t i = 0; i < sizeof renames / sizeof *renames; i++) {
        if (strcmp(renames[i].old_name, old_name) == 0)
            return &renames[i];
    }
    return NULL;
}

const struct tpp_launch_rename *tpp_launch_renames(size_t *count)
{
    *count = sizeof renames / sizeof *renames;
    return renames;
}
