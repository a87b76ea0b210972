/* megatron_suggest.c - numbers that would keep a broken rule, nearest to what the script says. */
#include "planner/launch/megatron_arguments.h"

#include <stdio.h>
#include <string.h>

/* What the rules count with; all at least 1. False when the script's sizes are none. */
struct sizes {
    int64_t tensor, pipeline, context, micro, data;
    bool can_be_uneven; /* the release has the first and the last stage's layers */
};

static bool get_sizes(const struct tpp_rule_settings *s, struct sizes *z)
{
    *z = (struct sizes){s->tensor_parallel, s->pipeline_parallel, s->context_parallel, s->micro_batch_size, 1, false};
    const int64_t all[] = {z->tensor, z->pipeline, z->context, z->micro, s->world_size};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i] < 1 || all[i] > TPP_RULE_MAX_SIZE)
            return false;
    }
    z->data = s->world_size / (z->tensor * z->pipeline * z->context);
    z->data = z->data < 1 ? 1 : z->data;
    return true;
}

static int64_t next_multiple(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static bool is_number(int64_t value)
{
    return value >= 1 && value <= TPP_RULE_MAX_NUMBER;
}

/* "1, 2, 4, 5": divisors of `value`, at most twelve. */
static void list_divisors(int64_t value, int64_t largest, char *text, size_t size)
{
    size_t used = 0;
    unsigned count = 0;
    text[0] = '\0';
    for (int64_t i = 1; i <= value && i <= largest && count < 12 && used < size; i++) {
        if (value % i == 0)
            used += (size_t)snprintf(text + used, size - used, "%s%lld", count++ > 0 ? ", " : "", (long long)i);
    }
}

static void suggest_sequence(const struct tpp_rule_settings *s, const struct sizes *z, char *hint, size_t size)
{
    int64_t unit = z->context > 1 ? 2 * z->context : 1;
    if (s->sequence_parallel && z->tensor > 1)
        unit *= z->tensor;
    if (is_number(s->sequence_length) && unit <= TPP_RULE_MAX_NUMBER)
        snprintf(hint, size, "the next sequence length that divides is %lld",
                 (long long)next_multiple(s->sequence_length, unit));
}

static void suggest_batch(const struct tpp_rule_settings *s, const struct sizes *z, char *hint, size_t size)
{
    int64_t unit = z->micro * z->data;
    if (!is_number(s->global_batch_size) || unit > TPP_RULE_MAX_NUMBER)
        return;
    int64_t above = next_multiple(s->global_batch_size, unit), below = above - unit;
    if (below >= unit)
        snprintf(hint, size, "with %lld sequences a micro-step of all replicas, %lld or %lld divide", (long long)unit,
                 (long long)below, (long long)above);
    else
        snprintf(hint, size, "with %lld sequences a micro-step of all replicas, %lld divides", (long long)unit,
                 (long long)above);
}

/* Micro-batches come in groups of the stages (ML-29). */
static void suggest_groups(const struct tpp_rule_settings *s, const struct sizes *z, char *hint, size_t size)
{
    int64_t group = s->microbatch_group_size != TPP_RULE_UNSET ? s->microbatch_group_size : z->pipeline;
    int64_t unit = z->micro * z->data;
    if (!is_number(s->global_batch_size) || unit > TPP_RULE_MAX_NUMBER || group < 1 || group > TPP_RULE_MAX_SIZE)
        return;
    int64_t steps = next_multiple(s->global_batch_size / unit, group);
    steps = steps < group ? group : steps;
    snprintf(hint, size, "%lld micro-batches are whole groups of %lld: a global batch of %lld", (long long)steps,
             (long long)group, (long long)(steps < TPP_RULE_MAX_SIZE ? steps * unit : 0));
}

static void suggest_chunks(const struct tpp_rule_settings *s, const struct sizes *z, char *hint, size_t size)
{
    char divisors[96];
    if (!is_number(s->num_layers) || s->num_layers % z->pipeline != 0)
        return;
    list_divisors(s->num_layers / z->pipeline, TPP_RULE_MAX_SIZE, divisors, sizeof divisors);
    snprintf(hint, size, "a stage of %lld layers divides into %s chunks", (long long)(s->num_layers / z->pipeline),
             divisors);
}

/* Chunks that divide even stages; else uneven ends, with one layer more in the middle stages, or the sizes that divide.
 */
static void suggest_stages(const struct tpp_rule_settings *s, const struct sizes *z, char *hint, size_t size)
{
    char divisors[96];
    if (!is_number(s->num_layers))
        return;
    if (s->virtual_stages_per_rank != TPP_RULE_UNSET && s->num_layers % z->pipeline == 0) {
        suggest_chunks(s, z, hint, size);
        return;
    }
    list_divisors(s->num_layers, TPP_MAX_PIPELINE_PARALLEL, divisors, sizeof divisors);
    int64_t middle = s->num_layers / z->pipeline + 1, rest = s->num_layers - middle * (z->pipeline - 2);
    if (z->can_be_uneven && z->pipeline > 2 && rest >= 2)
        snprintf(hint, size, "%lld divides by %s; or --decoder-first-pipeline-num-layers %lld and -last- %lld",
                 (long long)s->num_layers, divisors, (long long)(rest - rest / 2), (long long)(rest / 2));
    else
        snprintf(hint, size, "%lld divides by %s", (long long)s->num_layers, divisors);
}

static void suggest_heads(const struct tpp_rule_settings *s, const struct sizes *z, char *hint, size_t size)
{
    char divisors[96];
    (void)z;
    if (!is_number(s->num_attention_heads))
        return;
    list_divisors(s->num_attention_heads, 64, divisors, sizeof divisors);
    snprintf(hint, size, "%lld heads divide by %s", (long long)s->num_attention_heads, divisors);
}

static void suggest_world(const struct tpp_rule_settings *s, const struct sizes *z, char *hint, size_t size)
{
    int64_t unit = z->tensor * z->pipeline * z->context;
    if (unit <= TPP_RULE_MAX_SIZE)
        snprintf(hint, size, "%lld GPUs are the next that divide", (long long)next_multiple(s->world_size, unit));
}

/* Ulysses: every rank gets whole heads. */
static void suggest_whole_heads(const struct tpp_rule_settings *s, const struct sizes *z, char *hint, size_t size)
{
    if (z->context > 1 && s->num_attention_heads % z->context != 0)
        suggest_heads(s, z, hint, size);
}

void tpp_megatron_suggest(const char *code, const struct tpp_rule_settings *settings, enum tpp_release release,
                          char *hint, size_t size)
{
    static const struct {
        const char *code;
        void (*suggest)(const struct tpp_rule_settings *s, const struct sizes *z, char *hint, size_t size);
    } rules[] = {
        {"MD-2", suggest_world},    {"MD-3", suggest_whole_heads}, {"MD-13", suggest_batch},
        {"ML-1", suggest_world},    {"ML-3", suggest_batch},       {"ML-4", suggest_heads},
        {"ML-8", suggest_sequence}, {"ML-9", suggest_sequence},    {"ML-12", suggest_stages},
        {"ML-21", suggest_chunks},  {"ML-24", suggest_chunks},     {"ML-29", suggest_groups},
    };
    struct sizes sizes;
    hint[0] = '\0';
    if (!get_sizes(settings, &sizes))
        return;
    sizes.can_be_uneven = release >= TPP_RELEASE_0_9;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (strcmp(rules[i].code, code) == 0)
            rules[i].suggest(settings, &sizes, hint, size);
    }
}
