/* deepspeed_keys.c - the keys of zero_optimization, as DeepSpeed's own parser takes them (launch formats, section 3;
 * names and types of deepspeedai/DeepSpeed edaa722). */
#include "planner/launch/deepspeed_keys.h"

#include "costmodel/base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum kind { STAGE, SIZE, INTEGER, FRACTION, SWITCH, TEXT, DEVICE, OBJECT };

struct key {
    const char *name;
    enum kind kind;
    bool may_be_null;
};

static const struct key zero_keys[] = {
    {"stage", STAGE, false},
    {"contiguous_gradients", SWITCH, false},
    {"reduce_scatter", SWITCH, false},
    {"reduce_bucket_size", SIZE, false},
    {"use_multi_rank_bucket_allreduce", SWITCH, false},
    {"allgather_partitions", SWITCH, false},
    {"allgather_bucket_size", SIZE, false},
    {"overlap_comm", SWITCH, true},
    {"load_from_fp32_weights", SWITCH, false},
    {"elastic_checkpoint", SWITCH, false},
    {"offload_param", OBJECT, true},
    {"offload_optimizer", OBJECT, true},
    {"zenflow", OBJECT, true},
    {"sub_group_size", SIZE, false},
    {"cpu_offload_param", SWITCH, true},
    {"cpu_offload_use_pin_memory", SWITCH, true},
    {"cpu_offload", SWITCH, true},
    {"stage3_prefetch_bucket_size", SIZE, false},
    {"stage3_param_persistence_threshold", SIZE, false},
    {"stage3_model_persistence_threshold", SIZE, false},
    {"stage3_max_live_parameters", SIZE, false},
    {"stage3_max_reuse_distance", SIZE, false},
    {"stage3_gather_16bit_weights_on_model_save", SWITCH, false},
    {"stage3_module_granularity_threshold", INTEGER, false},
    {"stage3_use_all_reduce_for_fetch_params", SWITCH, false},
    {"stage3_allgather_sequential", SWITCH, false},
    {"stage3_gather_fp16_weights_on_model_save", SWITCH, false},
    {"ignore_unused_parameters", SWITCH, false},
    {"legacy_stage1", SWITCH, false},
    {"round_robin_gradients", SWITCH, false},
    {"zero_hpz_partition_size", SIZE, false},
    {"zero_quantized_weights", SWITCH, false},
    {"zero_quantized_nontrainable_weights", SWITCH, false},
    {"zero_quantized_gradients", SWITCH, false},
    {"zeropp_loco_param", OBJECT, true},
    {"mics_shard_size", INTEGER, false},
    {"mics_hierarchical_params_gather", SWITCH, false},
    {"memory_efficient_linear", SWITCH, false},
    {"pipeline_loading_checkpoint", SWITCH, false},
    {"override_module_apply", SWITCH, false},
    {"log_trace_cache_warnings", SWITCH, false},
    {"enable_sanity_checks", SWITCH, false},
    {"save_muon_momentum_buffer_in_memory", SWITCH, false},
    {"leaf_module", OBJECT, false},
    {NULL, OBJECT, false},
};
static const struct key optimizer_keys[] = {
    {"device", DEVICE, false},
    {"nvme_path", TEXT, true},
    {"buffer_count", SIZE, false},
    {"pin_memory", SWITCH, false},
    {"pipeline_read", SWITCH, false},
    {"pipeline_write", SWITCH, false},
    {"fast_init", SWITCH, false},
    {"ratio", FRACTION, false},
    {"super_offload", SWITCH, false},
    {"cpuadam_cores_perc", FRACTION, false},
    {NULL, OBJECT, false},
};
static const struct key parameter_keys[] = {
    {"device", DEVICE, false},    {"nvme_path", TEXT, true},   {"buffer_count", SIZE, false},
    {"buffer_size", SIZE, false}, {"max_in_cpu", SIZE, false}, {"pin_memory", SWITCH, false},
    {NULL, OBJECT, false},
};

struct judging {
    struct tpp_problems *problems;
    uint32_t line;
};

/* The prefix stage3_ may be left out. */
static const struct key *find_key(const struct key *keys, const char *name)
{
    static const char prefix[] = "stage3_";
    const size_t length = sizeof prefix - 1;
    for (; keys->name != NULL; keys++) {
        if (strcmp(keys->name, name) == 0 ||
            (strncmp(keys->name, prefix, length) == 0 && strcmp(keys->name + length, name) == 0))
            return keys;
    }
    return NULL;
}

static void add_unknown(const struct judging *j, const struct key *keys, const char *object, const char *name)
{
    const char *names[sizeof zero_keys / sizeof *zero_keys];
    char hint[160] = "take it out";
    size_t count = 0;
    for (; keys[count].name != NULL; count++)
        names[count] = keys[count].name;
    names[count] = NULL;
    const char *nearest = tpp_text_nearest(name, names);
    if (nearest != NULL)
        snprintf(hint, sizeof hint, "did you mean %s?", nearest);
    tpp_problems_add(j->problems, "unknown-key", TPP_SEVERITY_ERROR, j->line, hint,
                     "%s has no key %.80s: DeepSpeed refuses it", object, name);
}

static bool as_text(struct tpp_json value, const char **text)
{
    return tpp_json_is_string(value) && tpp_json_as_string(value, text, NULL) == TPP_OK;
}

/* A number, also one that is written as a text or as true or false: the parser converts. */
static bool as_number(struct tpp_json value, double *number)
{
    const char *text;
    bool is_on;
    char *end;
    if (tpp_json_is_number(value))
        return tpp_json_as_number(value, -HUGE_VAL, HUGE_VAL, number, NULL) == TPP_OK;
    if (tpp_json_is_bool(value) && tpp_json_as_bool(value, &is_on, NULL) == TPP_OK) {
        *number = is_on;
        return true;
    }
    if (!as_text(value, &text) || *text == '\0')
        return false;
    *number = strtod(text, &end);
    return *end == '\0' && isfinite(*number);
}

static bool is_switch(struct tpp_json value)
{
    static const char *const words[] = {"0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes"};
    const char *text;
    double number;
    if (tpp_json_is_bool(value) ||
        (tpp_json_is_number(value) && as_number(value, &number) && (number == 0 || number == 1)))
        return true;
    for (size_t i = 0; as_text(value, &text) && i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(words[i], text) == 0)
            return true;
    }
    return false;
}

static bool is_device(struct tpp_json value)
{
    const char *text;
    return as_text(value, &text) &&
           (strcmp(text, "none") == 0 || strcmp(text, "cpu") == 0 || strcmp(text, "nvme") == 0);
}

/* What is wrong with a value; NULL: nothing. *code is the rule. */
static const char *complaint(enum kind kind, struct tpp_json value, const char **code)
{
    double number = 0;
    const bool is_number = as_number(value, &number);
    *code = "DS-3";
    switch (kind) {
    case STAGE:
        return is_number && (number == 0 || number == 1 || number == 2 || number == 3) ? NULL : "must be 0, 1, 2 or 3";
    case FRACTION:
        return is_number && number >= 0 && number <= 1 ? NULL : "must be a number of 0 to 1";
    case SIZE:
    case INTEGER:
        if (kind == SIZE && is_number && number < 0)
            return "must not be negative";
        *code = "DS-4";
        return is_number && floor(number) == number ? NULL : "must be a whole number";
    case SWITCH:
        return is_switch(value) ? NULL : "must be true or false";
    case DEVICE:
        return is_device(value) ? NULL : "must be none, cpu or nvme";
    case TEXT:
        return tpp_json_is_string(value) ? NULL : "must be a path";
    case OBJECT:
        return tpp_json_is_object(value) ? NULL : "must be an object";
    }
    return NULL;
}

static void judge_object(const struct judging *j, const struct key *keys, const char *object, struct tpp_json json)
{
    struct tpp_json value, ignored;
    const char *name, *text, *code;
    for (size_t i = 0; i < tpp_json_size(json) && tpp_json_at(json, i, &value, &name); i++) {
        const struct key *key = find_key(keys, name);
        if (as_text(value, &text) && strcmp(text, "auto") == 0) /* dropped, whatever the name (DS-12) */
            continue;
        if (key == NULL) {
            add_unknown(j, keys, object, name);
            continue;
        }
        const bool is_null = !tpp_json_member(json, name, &ignored);
        const char *what = is_null && key->may_be_null ? NULL : complaint(key->kind, value, &code);
        if (what != NULL)
            tpp_problems_add(j->problems, code, TPP_SEVERITY_ERROR, j->line, "write a value that DeepSpeed takes",
                             "%s.%.80s %s", object, name, what);
    }
}

static bool is_true(struct tpp_json zero, const char *name)
{
    bool is_on = false;
    return tpp_json_get_bool(zero, name, &is_on, NULL) == TPP_OK && is_on;
}

/* DS-9, and the key of DS-8 that is left in the table. */
static void judge_old_keys(const struct judging *j, struct tpp_json zero)
{
    static const struct {
        const char *old, *new;
    } pairs[] = {{"cpu_offload", "offload_optimizer"}, {"cpu_offload_param", "offload_param"}};
    struct tpp_json ignored;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (!tpp_json_member(zero, pairs[i].old, &ignored))
            continue;
        const bool has_both = tpp_json_member(zero, pairs[i].new, &ignored);
        tpp_problems_add(j->problems, "DS-9", has_both ? TPP_SEVERITY_ERROR : TPP_SEVERITY_WARNING, j->line,
                         has_both ? "take the old one out" : "use the new one",
                         has_both ? "%s is the old name of %s: DeepSpeed refuses both together"
                                  : "%s is deprecated, its place is taken by %s",
                         pairs[i].old, pairs[i].new);
    }
    if (is_true(zero, "legacy_stage1"))
        tpp_problems_add(j->problems, "DS-8", TPP_SEVERITY_ERROR, j->line, "take it out",
                         "legacy_stage1 is gone from DeepSpeed");
}

/* The part of DS-3 about two keys: the optimizer is split between GPU and host by stage 3 alone. */
static void judge_ratio(const struct judging *j, struct tpp_json zero, struct tpp_json offload)
{
    double stage = 0, ratio = 1;
    struct tpp_json value;
    if (tpp_json_member(zero, "stage", &value))
        as_number(value, &stage);
    if (tpp_json_member(offload, "ratio", &value) && as_number(value, &ratio) && ratio < 1 && stage != 3)
        tpp_problems_add(j->problems, "DS-3", TPP_SEVERITY_ERROR, j->line, "use stage 3, or take ratio out",
                         "offload_optimizer.ratio below 1 needs ZeRO stage 3");
}

void tpp_deepspeed_keys_judge(struct tpp_json zero, uint32_t line, struct tpp_problems *problems)
{
    const struct judging j = {problems, line};
    struct tpp_json offload;
    judge_object(&j, zero_keys, "zero_optimization", zero);
    judge_old_keys(&j, zero);
    if (tpp_json_member(zero, "offload_param", &offload) && tpp_json_is_object(offload))
        judge_object(&j, parameter_keys, "offload_param", offload);
    if (!tpp_json_member(zero, "offload_optimizer", &offload) || !tpp_json_is_object(offload))
        return;
    judge_object(&j, optimizer_keys, "offload_optimizer", offload);
    judge_ratio(&j, zero, offload);
}
