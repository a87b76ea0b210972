#include "costmodel/allocator/settings.h"

#include "costmodel/base/json_write.h"
#include "costmodel/base/units.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char variable[] = "PYTORCH_CUDA_ALLOC_CONF";
#define MAX_TEXT 1024

struct tpp_allocator_settings tpp_allocator_settings_defaults(void)
{
    return (struct tpp_allocator_settings){
        .max_split_size_bytes = TPP_ALLOCATOR_UNLIMITED,
        .max_non_split_rounding_bytes = TPP_ALLOCATOR_LARGE_SEGMENT,
        .large_segment_bytes = TPP_ALLOCATOR_LARGE_SEGMENT,
    };
}

static unsigned floor_log2(uint64_t value)
{
    return 63 - (unsigned)__builtin_clzll(value);
}

static unsigned division_index(uint64_t bytes)
{
    const unsigned log2 = floor_log2(bytes);
    return log2 < 20 ? 0 : log2 - 20 < TPP_ALLOCATOR_DIVISION_SIZES ? log2 - 20 : TPP_ALLOCATOR_DIVISION_SIZES - 1;
}

/* The power of two below is cut into `divisions` steps and the size rounded up to one of them. */
static uint64_t round_to_division(uint64_t bytes, unsigned divisions)
{
    const uint64_t power = UINT64_C(1) << floor_log2(bytes), step = power >> floor_log2(divisions);
    if (power == bytes)
        return bytes;
    if (step == 0)
        return power << 1;
    return (bytes + step - 1) & ~(step - 1);
}

uint64_t tpp_allocator_round(const struct tpp_allocator_settings *settings, uint64_t bytes)
{
    if (bytes < TPP_ALLOCATOR_MIN_BLOCK)
        return TPP_ALLOCATOR_MIN_BLOCK;
    if (bytes > UINT64_C(1) << 62)
        return 0;
    const unsigned divisions = settings->roundup_divisions[division_index(bytes)];
    if (divisions > 1 && bytes > TPP_ALLOCATOR_MIN_BLOCK * divisions)
        return round_to_division(bytes, divisions);
    return (bytes + TPP_ALLOCATOR_MIN_BLOCK - 1) & ~(TPP_ALLOCATOR_MIN_BLOCK - 1);
}

uint64_t tpp_allocator_segment_bytes(const struct tpp_allocator_settings *settings, uint64_t rounded)
{
    if (rounded <= TPP_ALLOCATOR_SMALL_LIMIT)
        return TPP_ALLOCATOR_SMALL_SEGMENT;
    if (rounded < TPP_ALLOCATOR_OWN_SEGMENT)
        return settings->large_segment_bytes;
    return (rounded + TPP_ALLOCATOR_SMALL_SEGMENT - 1) & ~(TPP_ALLOCATOR_SMALL_SEGMENT - 1);
}

/* One option: its name and the text of its value, both without spaces. */
struct option {
    const char *name;
    const char *value;
};

static enum tpp_code bad_value(const struct option *option, const char *hint, struct tpp_error *err)
{
    return tpp_fail(err, TPP_E_USAGE, variable, hint, "%s cannot be '%s'", option->name, option->value);
}

static enum tpp_code parse_whole(const struct option *option, uint64_t min, uint64_t max, const char *hint, uint64_t *out,
                                 struct tpp_error *err)
{
    uint64_t value = 0;
    const char *at = option->value;
    for (; isdigit((unsigned char)*at) && value <= max; at++)
        value = value * 10 + (uint64_t)(*at - '0');
    if (at == option->value || *at != '\0' || value < min || value > max)
        return bad_value(option, hint, err);
    *out = value;
    return TPP_OK;
}

static enum tpp_code parse_fraction(const struct option *option, bool includes_one, double *out, struct tpp_error *err)
{
    double value = 0;
    if (tpp_parse_number(option->value, variable, &value, NULL) != TPP_OK || value <= 0 || value > 1 ||
        (value == 1 && !includes_one))
        return bad_value(option, "give a number above 0 and below 1", err);
    *out = value;
    return TPP_OK;
}

static enum tpp_code parse_bool(const struct option *option, bool *out, struct tpp_error *err)
{
    if (strcmp(option->value, "True") != 0 && strcmp(option->value, "False") != 0)
        return bad_value(option, "write True or False", err);
    *out = option->value[0] == 'T';
    return TPP_OK;
}

/* `min` 0: in a list, where 0 takes the rounding of a size away. */
static enum tpp_code parse_divisions(const struct option *option, uint64_t min, uint16_t *out, struct tpp_error *err)
{
    uint64_t value = 0;
    const char *hint = "divisions are powers of two, at most 32768";
    const enum tpp_code code = parse_whole(option, min, 32768, hint, &value, err);
    if (code != TPP_OK)
        return code;
    if ((value & (value - 1)) != 0)
        return bad_value(option, hint, err);
    *out = (uint16_t)value;
    return TPP_OK;
}

/* One "size:divisions" of a list. `>` fills what is above the last size (of none: above 1 MiB); the first size also fills
 * what is below it. */
static enum tpp_code parse_entry(char *entry, bool *has_size, unsigned *last, uint16_t table[], struct tpp_error *err)
{
    static const char hint[] = "write it as [256:1,512:2,1024:4,>:8], sizes in MiB and powers of two";
    char *colon = strchr(entry, ':');
    const struct option whole = {"roundup_power2_divisions", entry};
    if (colon == NULL)
        return bad_value(&whole, hint, err);
    *colon = '\0';
    const struct option size = {"a size of roundup_power2_divisions", entry};
    const struct option divisions = {"a division of roundup_power2_divisions", colon + 1};
    uint16_t value = 0;
    uint64_t mebibytes = 0;
    enum tpp_code code = parse_divisions(&divisions, 0, &value, err);
    if (code != TPP_OK)
        return code;
    if (strcmp(entry, ">") == 0) {
        for (unsigned i = *last + 1; i < TPP_ALLOCATOR_DIVISION_SIZES; i++)
            table[i] = value;
        return TPP_OK;
    }
    code = parse_whole(&size, 1, UINT64_C(1) << 40, hint, &mebibytes, err);
    if (code != TPP_OK)
        return code;
    if ((mebibytes & (mebibytes - 1)) != 0)
        return bad_value(&size, hint, err);
    const unsigned index = division_index(mebibytes << 20);
    for (unsigned i = *has_size ? index : 0; i <= index; i++)
        table[i] = value;
    *has_size = true;
    *last = index;
    return TPP_OK;
}

static enum tpp_code parse_division_list(char *list, uint16_t table[], struct tpp_error *err)
{
    unsigned last = 0;
    bool has_size = false;
    memset(table, 0, sizeof(*table) * TPP_ALLOCATOR_DIVISION_SIZES);
    for (char *entry = list; entry != NULL;) {
        char *comma = strchr(entry, ',');
        if (comma != NULL)
            *comma = '\0';
        const enum tpp_code code = parse_entry(entry, &has_size, &last, table, err);
        if (code != TPP_OK)
            return code;
        entry = comma != NULL ? comma + 1 : NULL;
    }
    return TPP_OK;
}

static enum tpp_code parse_roundup(char *value, struct tpp_allocator_settings *settings, struct tpp_error *err)
{
    const size_t length = strlen(value);
    const struct option option = {"roundup_power2_divisions", value};
    if (value[0] == '[') {
        if (value[length - 1] != ']')
            return bad_value(&option, "close the list with ]", err);
        value[length - 1] = '\0';
        return parse_division_list(value + 1, settings->roundup_divisions, err);
    }
    uint16_t divisions = 0;
    const enum tpp_code code = parse_divisions(&option, 1, &divisions, err);
    for (unsigned i = 0; code == TPP_OK && i < TPP_ALLOCATOR_DIVISION_SIZES; i++)
        settings->roundup_divisions[i] = divisions;
    return code;
}

static enum tpp_code parse_mebibytes(const struct option *option, uint64_t min, uint64_t *out, struct tpp_error *err)
{
    uint64_t value = 0;
    char hint[64];
    snprintf(hint, sizeof hint, "whole MiB, %llu or more", (unsigned long long)min);
    const enum tpp_code code = parse_whole(option, min, UINT64_C(1) << 40, hint, &value, err);
    if (code == TPP_OK)
        *out = value << 20;
    return code;
}

/* A large segment is more than the largest request that shares one. */
static const uint64_t min_large_segment_mebibytes = (TPP_ALLOCATOR_OWN_SEGMENT >> 20) + 1;

static enum tpp_code parse_backend(const struct option *option, struct tpp_allocator_settings *settings,
                                   struct tpp_error *err)
{
    if (strcmp(option->value, "native") != 0 && strcmp(option->value, "cudaMallocAsync") != 0)
        return bad_value(option, "native or cudaMallocAsync", err);
    settings->uses_driver_pool = option->value[0] == 'c';
    return TPP_OK;
}

/* Options that move no block on the device: their values are checked only. */
static bool is_ignored_flag(const char *name)
{
    static const char *const names[] = {"release_lock_on_cudamalloc", "pinned_use_cuda_host_register",
                                        "pinned_use_background_threads", "graph_capture_record_stream_reuse"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool is_ignored_number(const char *name)
{
    return strcmp(name, "pinned_num_register_threads") == 0 || strcmp(name, "pinned_reserve_segment_size_mb") == 0 ||
           strcmp(name, "pinned_max_round_threshold_mb") == 0 || strcmp(name, "pinned_max_cached_size_mb") == 0;
}

static const char *const option_names[] = {
    "backend", "large_segment_size_mb", "max_split_size_mb", "max_non_split_rounding_mb", "roundup_power2_divisions", "garbage_collection_threshold",
    "expandable_segments", "per_process_memory_fraction", "release_lock_on_cudamalloc", "pinned_use_cuda_host_register",
    "pinned_use_background_threads", "pinned_num_register_threads", "pinned_reserve_segment_size_mb",
    "pinned_max_round_threshold_mb", "pinned_max_cached_size_mb", "graph_capture_record_stream_reuse", NULL};

static enum tpp_code parse_option(const char *name, char *value, struct tpp_allocator_settings *settings,
                                  struct tpp_error *err)
{
    const struct option option = {name, value};
    bool flag = false;
    uint64_t number = 0;
    if (strcmp(name, "backend") == 0)
        return parse_backend(&option, settings, err);
    if (strcmp(name, "max_split_size_mb") == 0)
        return parse_mebibytes(&option, settings->large_segment_bytes >> 20, &settings->max_split_size_bytes, err);
    if (strcmp(name, "max_non_split_rounding_mb") == 0)
        return parse_mebibytes(&option, settings->large_segment_bytes >> 20, &settings->max_non_split_rounding_bytes, err);
    if (strcmp(name, "roundup_power2_divisions") == 0)
        return parse_roundup(value, settings, err);
    if (strcmp(name, "garbage_collection_threshold") == 0)
        return parse_fraction(&option, false, &settings->garbage_collection_threshold, err);
    if (strcmp(name, "per_process_memory_fraction") == 0)
        return parse_fraction(&option, true, &settings->memory_fraction, err);
    if (strcmp(name, "expandable_segments") == 0)
        return parse_bool(&option, &settings->expandable_segments, err);
    if (is_ignored_flag(name))
        return parse_bool(&option, &flag, err);
    if (is_ignored_number(name))
        return parse_whole(&option, 0, UINT64_C(1) << 40, "a whole number", &number, err);
    const char *nearest = tpp_text_nearest(name, option_names);
    char hint[128] = "leave it out";
    if (nearest != NULL)
        strncat(strcpy(hint, "did you mean "), nearest, sizeof hint - 16);
    return tpp_fail(err, TPP_E_USAGE, variable, hint, "the allocator has no option '%s'", name);
}

/* End of the option that starts at `text`: its comma, lists in brackets passed over, or the end. */
static const char *option_end(const char *text)
{
    bool in_list = false;
    for (; *text != '\0' && (in_list || *text != ','); text++)
        in_list = *text == '[' || (in_list && *text != ']');
    return text;
}

/* One "name:value" of `length` bytes. The size of a large segment is read (`of_segments`) before all else, which it bounds. */
static enum tpp_code parse_named(const char *text, size_t length, bool of_segments, struct tpp_allocator_settings *settings,
                                 struct tpp_error *err)
{
    static const char segment_name[] = "large_segment_size_mb";
    char copy[MAX_TEXT];
    memcpy(copy, text, length);
    copy[length] = '\0';
    char *colon = strchr(copy, ':');
    if (colon == NULL || colon[1] == '\0')
        return tpp_fail(err, TPP_E_USAGE, variable, "write name:value, separated by commas", "the option '%.*s' has no value",
                        (int)strcspn(copy, ":"), copy);
    *colon = '\0';
    if ((strcmp(copy, segment_name) == 0) != of_segments)
        return TPP_OK;
    if (!of_segments)
        return parse_option(copy, colon + 1, settings, err);
    const struct option option = {copy, colon + 1};
    const enum tpp_code code = parse_mebibytes(&option, min_large_segment_mebibytes, &settings->large_segment_bytes, err);
    settings->max_non_split_rounding_bytes = settings->large_segment_bytes;
    return code;
}

static enum tpp_code parse_all(const char *text, bool of_segments, struct tpp_allocator_settings *settings,
                               struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    while (*text != '\0' && code == TPP_OK) {
        const char *end = option_end(text);
        code = parse_named(text, (size_t)(end - text), of_segments, settings, err);
        text = *end == ',' ? end + 1 : end;
    }
    return code;
}

enum tpp_code tpp_allocator_settings_parse(const char *text, struct tpp_allocator_settings *out, struct tpp_error *err)
{
    char copy[MAX_TEXT];
    size_t length = 0;
    struct tpp_allocator_settings settings = tpp_allocator_settings_defaults();
    for (const char *at = text; *at != '\0'; at++) {
        if (isspace((unsigned char)*at))
            continue;
        if (length + 1 >= sizeof copy)
            return tpp_fail(err, TPP_E_USAGE, variable, "no setting needs that much", "the text is longer than %d bytes",
                            MAX_TEXT - 1);
        copy[length++] = *at;
    }
    copy[length] = '\0';
    enum tpp_code code = parse_all(copy, true, &settings, err);
    if (code == TPP_OK)
        code = parse_all(copy, false, &settings, err);
    if (code == TPP_OK)
        *out = settings;
    return code;
}

static void append_separator(struct tpp_text *out, size_t start)
{
    if (out->length > start)
        tpp_text_append(out, ",");
}

static void format_divisions(const uint16_t table[], struct tpp_text *out)
{
    bool is_uniform = true;
    for (unsigned i = 1; i < TPP_ALLOCATOR_DIVISION_SIZES; i++)
        is_uniform = is_uniform && table[i] == table[0];
    tpp_text_append(out, "roundup_power2_divisions:");
    if (is_uniform) {
        tpp_text_format(out, "%u", (unsigned)table[0]);
        return;
    }
    for (unsigned i = 0; i < TPP_ALLOCATOR_DIVISION_SIZES; i++)
        tpp_text_format(out, "%s%llu:%u", i == 0 ? "[" : ",", 1ULL << i, (unsigned)table[i]);
    tpp_text_append(out, "]");
}

void tpp_allocator_settings_format(const struct tpp_allocator_settings *settings, struct tpp_text *out)
{
    const struct tpp_allocator_settings plain = tpp_allocator_settings_defaults();
    const size_t start = out->length;
    char number[32];
    if (settings->uses_driver_pool)
        tpp_text_append(out, "backend:cudaMallocAsync");
    if (settings->expandable_segments) {
        append_separator(out, start);
        tpp_text_append(out, "expandable_segments:True");
    }
    if (settings->max_split_size_bytes != plain.max_split_size_bytes) {
        append_separator(out, start);
        tpp_text_format(out, "max_split_size_mb:%llu", (unsigned long long)(settings->max_split_size_bytes >> 20));
    }
    if (settings->large_segment_bytes != plain.large_segment_bytes) {
        append_separator(out, start);
        tpp_text_format(out, "large_segment_size_mb:%llu", (unsigned long long)(settings->large_segment_bytes >> 20));
    }
    if (settings->max_non_split_rounding_bytes != settings->large_segment_bytes) {
        append_separator(out, start);
        tpp_text_format(out, "max_non_split_rounding_mb:%llu",
                        (unsigned long long)(settings->max_non_split_rounding_bytes >> 20));
    }
    if (memcmp(settings->roundup_divisions, plain.roundup_divisions, sizeof plain.roundup_divisions) != 0) {
        append_separator(out, start);
        format_divisions(settings->roundup_divisions, out);
    }
    if (settings->garbage_collection_threshold > 0) {
        append_separator(out, start);
        tpp_text_format(out, "garbage_collection_threshold:%s",
                        tpp_json_number_text(number, sizeof number, settings->garbage_collection_threshold));
    }
    if (settings->memory_fraction > 0) {
        append_separator(out, start);
        tpp_text_format(out, "per_process_memory_fraction:%s",
                        tpp_json_number_text(number, sizeof number, settings->memory_fraction));
    }
}
