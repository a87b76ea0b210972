/* presets.h - the model shapes that are shipped, by name. */
#ifndef TPP_COSTMODEL_MODEL_PRESETS_H
#define TPP_COSTMODEL_MODEL_PRESETS_H

#include "costmodel/model/model.h"

#include <stddef.h>

/* Sorted by name; *count is their number. Static: never freed. */
const struct tpp_model *tpp_model_presets(size_t *count);
/* NULL when there is none of that exact name. */
const struct tpp_model *tpp_model_preset(const char *name);

#endif
