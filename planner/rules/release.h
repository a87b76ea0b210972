/* release.h - the releases of Megatron-LM that its options and rules were read from, oldest first.
 *
 * Megatron-Bridge, NeMo and the megatron side of ms-swift run on a release of Megatron Core and are judged by the same
 * numbers. Releases compare with < and >=. */
#ifndef TPP_PLANNER_RULES_RELEASE_H
#define TPP_PLANNER_RULES_RELEASE_H

#include "costmodel/base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum tpp_release {
    TPP_RELEASE_V2_6,
    TPP_RELEASE_23_04,
    TPP_RELEASE_23_06,
    TPP_RELEASE_0_4,
    TPP_RELEASE_0_5,
    TPP_RELEASE_0_6,
    TPP_RELEASE_0_7,
    TPP_RELEASE_0_8,
    TPP_RELEASE_0_9,
    TPP_RELEASE_0_10,
    TPP_RELEASE_0_11,
    TPP_RELEASE_0_12,
    TPP_RELEASE_0_13,
    TPP_RELEASE_0_14,
    TPP_RELEASE_0_15,
    TPP_RELEASE_0_16,
    TPP_RELEASE_0_17,
    TPP_RELEASE_0_18,
    TPP_RELEASE_0_19,
    TPP_RELEASE_MAIN, /* of 2026-08-22 */
    TPP_RELEASE_COUNT,
};

/* The newest release that is not a moving branch: what is meant when nothing is said. */
#define TPP_RELEASE_NEWEST TPP_RELEASE_0_19

/* "v2.6", "23.04", "0.14", "main". */
const char *tpp_release_name(enum tpp_release release);

/* Understands the names above, a third number ("0.14.1"), the prefixes of tags and branches ("core_v0.14.0",
 * "core_r0.14.0", "v0.14"), and "newest" or "" for TPP_RELEASE_NEWEST. TPP_E_USAGE names the known ones; `where` (an
 * option's name, may be NULL) goes into the error. */
enum tpp_code tpp_release_parse(const char *text, const char *where, enum tpp_release *out, struct tpp_error *err);

/* True when `text` begins with a number below major.minor ("3.8.1", "v3", "0.34"); false for words ("main") and "". */
bool tpp_version_is_before(const char *text, unsigned major, unsigned minor);

/* A range of releases in a text: "0.9..0.12", "0.14..", "..0.15". False when the text of `length` bytes is no range. */
bool tpp_release_in_range(const char *range, size_t length, enum tpp_release release);

#endif
