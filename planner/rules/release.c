/* release.c - names of the releases and how people write them. */
#include "planner/rules/release.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[TPP_RELEASE_COUNT] = {
    [TPP_RELEASE_V2_6] = "v2.6", [TPP_RELEASE_23_04] = "23.04", [TPP_RELEASE_23_06] = "23.06",
    [TPP_RELEASE_0_4] = "0.4",   [TPP_RELEASE_0_5] = "0.5",     [TPP_RELEASE_0_6] = "0.6",
    [TPP_RELEASE_0_7] = "0.7",   [TPP_RELEASE_0_8] = "0.8",     [TPP_RELEASE_0_9] = "0.9",
    [TPP_RELEASE_0_10] = "0.10", [TPP_RELEASE_0_11] = "0.11",   [TPP_RELEASE_0_12] = "0.12",
    [TPP_RELEASE_0_13] = "0.13", [TPP_RELEASE_0_14] = "0.14",   [TPP_RELEASE_0_15] = "0.15",
    [TPP_RELEASE_0_16] = "0.16", [TPP_RELEASE_0_17] = "0.17",   [TPP_RELEASE_0_18] = "0.18",
    [TPP_RELEASE_0_19] = "0.19", [TPP_RELEASE_MAIN] = "main",
};

const char *tpp_release_name(enum tpp_release release)
{
    return (unsigned)release < TPP_RELEASE_COUNT ? names[release] : "unknown";
}

/* Length of "0.14" in "0.14.1rc2": the part of a version number that names a release. */
static size_t two_numbers(const char *text)
{
    size_t first = strspn(text, "0123456789");
    if (first == 0 || text[first] != '.')
        return 0;
    size_t second = strspn(text + first + 1, "0123456789");
    size_t length = first + 1 + second;
    return second != 0 && (text[length] == '\0' || text[length] == '.') ? length : 0;
}

static bool find(const char *text, size_t length, enum tpp_release *out)
{
    for (unsigned i = 0; i < TPP_RELEASE_COUNT; i++) {
        if (strlen(names[i]) == length && memcmp(names[i], text, length) == 0) {
            *out = (enum tpp_release)i;
            return true;
        }
    }
    return false;
}

/* core_v0.1.0 to core_v0.3.0 are tags of the months around 23.04 and 23.06, whose scripts had no numbers of their own.
 */
static bool is_between(const char *text)
{
    const char *number = strncmp(text, "core_", 5) == 0 ? text + 5 : text;
    number += *number == 'v' || *number == 'r';
    return two_numbers(number) == 3 && number[0] == '0' && number[2] >= '1' && number[2] <= '3';
}

enum tpp_code tpp_release_parse(const char *text, const char *where, enum tpp_release *out, struct tpp_error *err)
{
    static const char *const prefixes[] = {"core_v", "core_r", "v", ""};
    if (*text == '\0' || strcmp(text, "newest") == 0) {
        *out = TPP_RELEASE_NEWEST;
        return TPP_OK;
    }
    if (strcmp(text, "main") == 0 || strcmp(text, names[TPP_RELEASE_V2_6]) == 0 || strcmp(text, "2.6") == 0) {
        *out = *text == 'm' ? TPP_RELEASE_MAIN : TPP_RELEASE_V2_6;
        return TPP_OK;
    }
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t prefix = strlen(prefixes[i]);
        if (strncmp(text, prefixes[i], prefix) == 0 && find(text + prefix, two_numbers(text + prefix), out))
            return TPP_OK;
    }
    if (is_between(text))
        return tpp_fail(err, TPP_E_USAGE, where, "use 23.06, the tag beside it, or 0.4",
                        "the options of Megatron-LM %.40s are not known: the core releases count from 0.4 on", text);
    return tpp_fail(err, TPP_E_USAGE, where, "use one of 23.04, 23.06, 0.4 to 0.19, main or newest",
                    "\"%s\" is not a known release of Megatron-LM", text);
}

bool tpp_version_is_before(const char *text, unsigned major, unsigned minor)
{
    text += *text == 'v';
    if (*text < '0' || *text > '9')
        return false;
    char *end;
    const unsigned long first = strtoul(text, &end, 10);
    const unsigned long second = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
    return first < major || (first == major && second < minor);
}

bool tpp_release_in_range(const char *range, size_t length, enum tpp_release release)
{
    const char *dots = NULL;
    for (size_t i = 0; i + 1 < length && dots == NULL; i++) {
        if (range[i] == '.' && range[i + 1] == '.')
            dots = range + i;
    }
    if (dots == NULL)
        return false;
    enum tpp_release first = TPP_RELEASE_V2_6, last = TPP_RELEASE_MAIN;
    size_t head = (size_t)(dots - range), tail = length - head - 2;
    if ((head != 0 && !find(range, head, &first)) || (tail != 0 && !find(dots + 2, tail, &last)))
        return false;
    return release >= first && release <= last;
}
