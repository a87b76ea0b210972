/* A strategy as one line of text and back. One table of keys drives both directions. */
#include "costmodel/strategy.h"

#include "costmodel/base/units.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum field_kind {
    FIELD_U32,
    FIELD_U64,
    FIELD_BOOL,
    FIELD_RECOMPUTE,
    FIELD_METHOD,
    FIELD_SCHEDULE,
    FIELD_CONTEXT,
    FIELD_DISPATCH,
    FIELD_MODULES,
    FIELD_OFFLOAD,
    FIELD_VOCABULARY
};

struct field {
    const char *key;
    enum field_kind kind;
    size_t offset;
    bool is_always_written; /* even when it has its default */
    const char *values;
};

#define FIELD(key, kind, member, is_always_written, values)                                                            \
    {                                                                                                                  \
        key, kind, offsetof(struct tpp_strategy, member), is_always_written, values                                    \
    }

static const struct field fields[] = {
    FIELD("tp", FIELD_U32, tensor_parallel, true, "a whole number"),
    FIELD("pp", FIELD_U32, pipeline_parallel, true, "a whole number"),
    FIELD("vp", FIELD_U32, virtual_pipeline_stages, true, "a whole number"),
    FIELD("dp", FIELD_U32, data_parallel, false, "a whole number"),
    FIELD("cp", FIELD_U32, context_parallel, true, "a whole number"),
    FIELD("ep", FIELD_U32, expert_parallel, true, "a whole number"),
    FIELD("etp", FIELD_U32, expert_tensor_parallel, false, "a whole number"),
    FIELD("mbs", FIELD_U32, micro_batch_size, true, "a whole number of sequences"),
    FIELD("gas", FIELD_U64, num_micro_batches, false, "a whole number of micro-batches"),
    FIELD("zero", FIELD_U32, zero_stage, true, "0, 1, 2 or 3"),
    FIELD("sp", FIELD_BOOL, sequence_parallel, true, "0 or 1"),
    FIELD("cp_kind", FIELD_CONTEXT, context_kind, false, "ring, all-gather, ulysses or hybrid"),
    FIELD("ulysses", FIELD_U32, ulysses_parallel, false, "a whole number of ranks"),
    FIELD("recompute", FIELD_RECOMPUTE, recompute, true, "none, selective, full or full:LAYERS"),
    FIELD("recompute_modules", FIELD_MODULES, recompute_modules, false,
          "core_attn, moe_act, layernorm, mla_up_proj, mlp, moe or shared_experts with + between"),
    FIELD("recompute_method", FIELD_METHOD, recompute_method, false, "uniform or block"),
    FIELD("recompute_layers", FIELD_U32, recompute_num_layers, false, "a whole number of layers"),
    FIELD("schedule", FIELD_SCHEDULE, schedule, false,
          "gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-1p, zb-2p, zb-v, dualpipe or dualpipev"),
    FIELD("vp_group", FIELD_U32, microbatch_group_size, false, "a whole number of micro-batches"),
    FIELD("first_layers", FIELD_U32, first_stage_layers, false, "a whole number of layers"),
    FIELD("last_layers", FIELD_U32, last_stage_layers, false, "a whole number of layers"),
    FIELD("account_embedding", FIELD_BOOL, account_for_embedding, false, "0 or 1"),
    FIELD("account_loss", FIELD_BOOL, account_for_loss, false, "0 or 1"),
    FIELD("last_chunk_less", FIELD_U32, last_chunk_less, false, "a whole number of layers"),
    FIELD("balanced_split", FIELD_BOOL, balanced_split, false, "0 or 1"),
    FIELD("shard", FIELD_U32, shard_group, false, "a whole number of ranks"),
    FIELD("reduce_bucket", FIELD_U64, reduce_bucket_size, false, "a whole number of elements"),
    FIELD("allgather_bucket", FIELD_U64, allgather_bucket_size, false, "a whole number of elements"),
    FIELD("overlap_grad_reduce", FIELD_BOOL, overlap_grad_reduce, false, "0 or 1"),
    FIELD("overlap_param_gather", FIELD_BOOL, overlap_param_gather, false, "0 or 1"),
    FIELD("align_grad_reduce", FIELD_BOOL, align_grad_reduce, false, "0 or 1"),
    FIELD("tp_overlap", FIELD_BOOL, tp_comm_overlap, false, "0 or 1"),
    FIELD("dispatch", FIELD_DISPATCH, dispatch, false, "all-to-all, deepep, hybridep or all-gather"),
    FIELD("ep_overlap", FIELD_BOOL, expert_overlap, false, "0 or 1"),
    FIELD("shared_overlap", FIELD_BOOL, shared_overlap, false, "0 or 1"),
    FIELD("offload", FIELD_OFFLOAD, offload, false, "none or optimizer"),
    FIELD("offload_percent", FIELD_U32, offload_percent, false, "a whole number of percent"),
    FIELD("offload_layers", FIELD_U32, offload_layers, false, "a whole number of layers"),
    FIELD("vocab_parallel", FIELD_VOCABULARY, vocabulary_parallel, false,
          "none, one-barrier, two-barriers or interlaced"),
    FIELD("reshard", FIELD_BOOL, reshard_after_forward, false, "0 or 1"),
    FIELD("placed_tp", FIELD_U32, placed_tensor_ranks_per_node, false, "a whole number of ranks"),
    FIELD("placed_cp", FIELD_U32, placed_context_ranks_per_node, false, "a whole number of ranks"),
};
enum { NUM_FIELDS = sizeof fields / sizeof fields[0], MAX_WORD = 63 };

static const char *method_name(unsigned method)
{
    static const char *const names[] = {"uniform", "block"};
    return method <= TPP_RECOMPUTE_BLOCK ? names[method] : NULL;
}

static const char *offload_name(unsigned offload)
{
    static const char *const names[] = {"none", "optimizer"};
    return offload <= TPP_OFFLOAD_OPTIMIZER ? names[offload] : NULL;
}

/* Name of value `value` of an enum field; NULL past the last. */
static const char *enum_name(enum field_kind kind, unsigned value)
{
    switch (kind) {
    case FIELD_RECOMPUTE:
        return tpp_recompute_name((enum tpp_recompute)value);
    case FIELD_METHOD:
        return method_name(value);
    case FIELD_SCHEDULE:
        return tpp_schedule_name((enum tpp_schedule)value);
    case FIELD_CONTEXT:
        return tpp_context_kind_name((enum tpp_context_kind)value);
    case FIELD_DISPATCH:
        return tpp_dispatch_name((enum tpp_dispatch)value);
    case FIELD_VOCABULARY:
        return tpp_vocabulary_parallel_name((enum tpp_vocabulary_parallel)value);
    default:
        return offload_name(value);
    }
}

/* The enums of a strategy have no negative value, so the compiler stores them as unsigned int. */
static_assert(sizeof(enum tpp_recompute) == sizeof(unsigned) && sizeof(enum tpp_schedule) == sizeof(unsigned) &&
                  sizeof(enum tpp_offload) == sizeof(unsigned) && sizeof(enum tpp_context_kind) == sizeof(unsigned) &&
                  sizeof(enum tpp_recompute_method) == sizeof(unsigned) &&
                  sizeof(enum tpp_dispatch) == sizeof(unsigned) &&
                  sizeof(enum tpp_vocabulary_parallel) == sizeof(unsigned),
              "fields of an enum type are copied as unsigned int");

static uint64_t get_field(const struct tpp_strategy *strategy, const struct field *field)
{
    const char *place = (const char *)strategy + field->offset;
    uint32_t word;
    uint64_t wide;
    bool flag;
    switch (field->kind) {
    case FIELD_U64:
        memcpy(&wide, place, sizeof wide);
        return wide;
    case FIELD_BOOL:
        memcpy(&flag, place, sizeof flag);
        return flag;
    default:
        memcpy(&word, place, sizeof word);
        return word;
    }
}

static void set_field(struct tpp_strategy *strategy, const struct field *field, uint64_t value)
{
    char *place = (char *)strategy + field->offset;
    const uint32_t word = (uint32_t)value;
    const bool flag = value != 0;
    switch (field->kind) {
    case FIELD_U64:
        memcpy(place, &value, sizeof value);
        break;
    case FIELD_BOOL:
        memcpy(place, &flag, sizeof flag);
        break;
    default:
        memcpy(place, &word, sizeof word);
        break;
    }
}

static enum tpp_code fail_unknown_key(const char *key, struct tpp_error *err)
{
    /* Words people take from the frameworks and the JSON output, which no spelling distance finds. */
    static const char *const synonyms[][2] = {
        {"tensor_parallel", "tp"},       {"pipeline_parallel", "pp"},
        {"data_parallel", "dp"},         {"context_parallel", "cp"},
        {"expert_parallel", "ep"},       {"micro_batch_size", "mbs"},
        {"zero_stage", "zero"},          {"sequence_parallel", "sp"},
        {"num_micro_batches", "gas"},    {"virtual_pipeline_stages", "vp"},
        {"ulysses_parallel", "ulysses"}, {"micro_batch", "mbs"},
    };
    const char *names[NUM_FIELDS + 1] = {NULL};
    for (size_t i = 0; i < NUM_FIELDS; i++) {
        names[i] = fields[i].key;
    }
    const char *nearest = tpp_text_nearest(key, names);
    for (size_t i = 0; i < sizeof synonyms / sizeof synonyms[0]; i++) {
        if (strcmp(key, synonyms[i][0]) == 0) {
            nearest = synonyms[i][1];
        }
    }
    char hint[160] = "keys are tp, pp, vp, dp, cp, ep, mbs, zero, sp, recompute and those of the manual";
    if (nearest != NULL) {
        snprintf(hint, sizeof hint, "did you mean %s?", nearest);
    }
    return tpp_fail(err, TPP_E_USAGE, "strategy", hint, "unknown key \"%s\"", key);
}

static enum tpp_code fail_value(const struct field *field, const char *value, struct tpp_error *err)
{
    char where[96], hint[96];
    snprintf(where, sizeof where, "strategy.%s", field->key);
    snprintf(hint, sizeof hint, "give %s", field->values);
    return tpp_fail(err, TPP_E_USAGE, where, hint, "\"%s\" is not a value of %s", value, field->key);
}

static bool parse_flag(const char *value, uint64_t *out)
{
    *out = strcmp(value, "1") == 0 || strcmp(value, "true") == 0;
    return *out == 1 || strcmp(value, "0") == 0 || strcmp(value, "false") == 0;
}

static bool parse_enum(enum field_kind kind, const char *value, uint64_t *out)
{
    const char *name;
    for (unsigned i = 0; (name = enum_name(kind, i)) != NULL; i++) {
        if (strcmp(name, value) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

static bool parse_value(const struct field *field, const char *value, uint64_t *out)
{
    switch (field->kind) {
    case FIELD_U32:
        return tpp_parse_count(value, NULL, out, NULL) == TPP_OK && *out <= UINT32_MAX;
    case FIELD_U64:
        return tpp_parse_count(value, NULL, out, NULL) == TPP_OK;
    case FIELD_BOOL:
        return parse_flag(value, out);
    case FIELD_MODULES: {
        uint32_t bits;
        const bool is_list = tpp_recompute_modules_parse(value, &bits);
        *out = is_list ? bits : 0;
        return is_list;
    }
    default:
        return parse_enum(field->kind, value, out);
    }
}

/* "recompute=full:12": block recomputation of 12 layers. True when `value` has that form and a valid number. */
static bool parse_full_depth(const struct field *field, const char *value, struct tpp_strategy *strategy)
{
    static const char prefix[] = "full:";
    uint64_t layers;
    if (field->kind != FIELD_RECOMPUTE || strncmp(value, prefix, sizeof prefix - 1) != 0 ||
        tpp_parse_count(value + sizeof prefix - 1, NULL, &layers, NULL) != TPP_OK || layers < 1 ||
        layers > UINT32_MAX) {
        return false;
    }
    strategy->recompute = TPP_RECOMPUTE_FULL;
    strategy->recompute_method = TPP_RECOMPUTE_BLOCK;
    strategy->recompute_num_layers = (uint32_t)layers;
    return true;
}

static const struct field *find_field(const char *key)
{
    for (size_t i = 0; i < NUM_FIELDS; i++) {
        if (strcmp(fields[i].key, key) == 0) {
            return &fields[i];
        }
    }
    return NULL;
}

static enum tpp_code parse_pair(const char *key, const char *value, struct tpp_strategy *strategy, bool *is_given,
                                struct tpp_error *err)
{
    const struct field *field = find_field(key);
    if (field == NULL) {
        return fail_unknown_key(key, err);
    }
    bool *given = &is_given[field - fields];
    if (*given) {
        return tpp_fail(err, TPP_E_USAGE, "strategy", "give each key once", "the key %s is given twice", key);
    }
    *given = true;
    if (parse_full_depth(field, value, strategy)) {
        return TPP_OK;
    }
    uint64_t number;
    if (!parse_value(field, value, &number)) {
        return fail_value(field, value, err);
    }
    set_field(strategy, field, number);
    return TPP_OK;
}

/* Takes the text up to a stop character as a word; false when it is empty or too long. */
static bool take_word(const char **text, const char *stops, char word[MAX_WORD + 1])
{
    const size_t length = strcspn(*text, stops);
    if (length == 0 || length > MAX_WORD) {
        return false;
    }
    memcpy(word, *text, length);
    word[length] = '\0';
    *text += length;
    return true;
}

static bool has_depth_twice(const char *text, const bool *is_given)
{
    return strstr(text, "recompute=full:") != NULL &&
           (is_given[find_field("recompute_layers") - fields] || is_given[find_field("recompute_method") - fields]);
}

enum tpp_code tpp_strategy_parse(const char *text, struct tpp_strategy *strategy, struct tpp_error *err)
{
    static const char hint[] = "write key=value pairs with commas between, like tp=4,pp=2,mbs=1";
    bool is_given[NUM_FIELDS] = {false};
    struct tpp_strategy result = tpp_strategy_defaults();
    const char *rest = text;
    while (*rest != '\0') {
        char key[MAX_WORD + 1], value[MAX_WORD + 1];
        const char *start = rest;
        if (!take_word(&rest, "=,", key) || *rest++ != '=' || !take_word(&rest, ",", value) ||
            (*rest == ',' && rest[1] == '\0')) {
            return tpp_fail(err, TPP_E_USAGE, "strategy", hint, "no key=value pair at \"%.60s\"", start);
        }
        enum tpp_code code = parse_pair(key, value, &result, is_given, err);
        if (code != TPP_OK) {
            return code;
        }
        rest += *rest == ',';
    }
    if (has_depth_twice(text, is_given)) {
        return tpp_fail(err, TPP_E_USAGE, "strategy.recompute", "use one of the two",
                        "recompute=full:LAYERS already gives the method and the number of layers");
    }
    *strategy = result;
    return TPP_OK;
}

static void format_modules(const char *key, uint32_t modules, struct tpp_text *out)
{
    const char *separator = "";
    tpp_text_format(out, "%s=", key);
    for (uint32_t bit = 1; bit <= TPP_MODULE_ALL; bit <<= 1) {
        if ((modules & bit) != 0) {
            tpp_text_format(out, "%s%s", separator, tpp_recompute_module_name(bit));
            separator = "+";
        }
    }
}

static void format_field(const struct tpp_strategy *strategy, const struct field *field, struct tpp_text *out)
{
    const uint64_t value = get_field(strategy, field);
    switch (field->kind) {
    case FIELD_U32:
    case FIELD_U64:
    case FIELD_BOOL:
        tpp_text_format(out, "%s=%llu", field->key, (unsigned long long)value);
        break;
    case FIELD_MODULES:
        format_modules(field->key, (uint32_t)value, out);
        break;
    default:
        tpp_text_format(out, "%s=%s", field->key, enum_name(field->kind, (unsigned)value));
        break;
    }
}

void tpp_strategy_format(const struct tpp_strategy *strategy, struct tpp_text *out)
{
    const struct tpp_strategy defaults = tpp_strategy_defaults();
    const char *separator = "";
    for (size_t i = 0; i < NUM_FIELDS; i++) {
        const struct field *field = &fields[i];
        if (!field->is_always_written && get_field(strategy, field) == get_field(&defaults, field)) {
            continue;
        }
        tpp_text_append(out, separator);
        format_field(strategy, field, out);
        separator = ",";
    }
}
