#include "costmodel/model/model_keys.h"

#include "costmodel/base/units.h"

#include <cjson/cJSON.h>
#include <inttypes.h>

enum tpp_code tpp_model_get_size(struct tpp_json config, const struct tpp_model_names *names, uint32_t min,
                                 uint32_t max, uint32_t *out, bool *found, struct tpp_error *err)
{
    const char *first = NULL;
    uint64_t first_value = 0;
    for (size_t i = 0; i < TPP_MODEL_MAX_NAMES && names->name[i] != NULL; i++) {
        struct tpp_json place;
        uint64_t value;
        if (!tpp_json_member(config, names->name[i], &place))
            continue;
        enum tpp_code code = tpp_json_as_u64(place, min, max, &value, err);
        if (code != TPP_OK)
            return code;
        if (first != NULL && value != first_value)
            return tpp_json_fail(place, err, TPP_E_RANGE, "the two keys mean the same: keep one of them",
                                 "\"%s\" is %" PRIu64 ", but \"%s\" is %" PRIu64, names->name[i], value, first,
                                 first_value);
        first = names->name[i];
        first_value = value;
    }
    if (first != NULL) {
        *out = (uint32_t)first_value;
        *found = true;
    }
    return TPP_OK;
}

enum tpp_code tpp_model_get_u32(struct tpp_json config, const char *name, uint32_t min, uint32_t max, uint32_t *out,
                                struct tpp_error *err)
{
    uint64_t value = *out;
    enum tpp_code code = tpp_json_get_u64(config, name, min, max, &value, err);
    if (code == TPP_OK)
        *out = (uint32_t)value;
    return code;
}

bool tpp_model_is_null(struct tpp_json config, const char *name)
{
    return cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(config.node, name));
}

uint32_t tpp_model_product(uint64_t a, uint64_t b)
{
    uint64_t product;
    return tpp_mul_u64(a, b, &product) && product < UINT32_MAX ? (uint32_t)product : UINT32_MAX;
}
