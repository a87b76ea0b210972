/* model_keys.h - private to costmodel/model: the ways in which a config's values are looked up. */
#ifndef TPP_COSTMODEL_MODEL_MODEL_KEYS_H
#define TPP_COSTMODEL_MODEL_MODEL_KEYS_H

#include "costmodel/base/json_read.h"
#include "costmodel/model/model_families.h"

/* *out = the value of whichever name is present, and *found = true; neither is touched when none is. Two names with
 * different values contradict each other: TPP_E_RANGE. */
enum tpp_code tpp_model_get_size(struct tpp_json config, const struct tpp_model_names *names, uint32_t min,
                                 uint32_t max, uint32_t *out, bool *found, struct tpp_error *err);
/* One optional name; *out is kept when it is absent. */
enum tpp_code tpp_model_get_u32(struct tpp_json config, const char *name, uint32_t min, uint32_t max, uint32_t *out,
                                struct tpp_error *err);
/* True when the member is there and null, which some classes tell apart from a missing one. */
bool tpp_model_is_null(struct tpp_json config, const char *name);
/* a * b, or the largest uint32_t, which tpp_model_check then refuses. */
uint32_t tpp_model_product(uint64_t a, uint64_t b);

#endif
