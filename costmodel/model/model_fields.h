/* model_fields.h - private to costmodel/model: one row for every field of tpp_model. The row drives the compact form in
 * both directions (model_json.h) and the range check (tpp_model_check), so that the three cannot drift apart. */
#ifndef TPP_COSTMODEL_MODEL_MODEL_FIELDS_H
#define TPP_COSTMODEL_MODEL_MODEL_FIELDS_H

#include "costmodel/model/model.h"

#include <stdbool.h>
#include <stddef.h>

/* Upper ends of the ranges. They leave every published model a factor of ten or more; what they allow together is
 * bounded once more by the parameter count (TPP_MODEL_MAX_PARAMETERS). */
#define TPP_MODEL_MAX_LAYERS 10000u
#define TPP_MODEL_MAX_MTP_LAYERS 100u
#define TPP_MODEL_MAX_HIDDEN 1048576u       /* 2^20 */
#define TPP_MODEL_MAX_WIDTH 16777216u       /* 2^24: an MLP, a vocabulary */
#define TPP_MODEL_MAX_HEADS 65536u          /* 2^16: heads, experts, elements of a head */
#define TPP_MODEL_MAX_POSITIONS 1073741824u /* 2^30: tokens, rows of a table */

enum tpp_model_field_kind {
    TPP_FIELD_U32,
    TPP_FIELD_BOOL,
    TPP_FIELD_NUMBER,
    TPP_FIELD_TEXT,
    TPP_FIELD_NORM,
    TPP_FIELD_ACTIVATION,
    TPP_FIELD_POSITION,
};

/* Written only when the model has that part. */
enum tpp_model_field_group { TPP_FIELD_ALWAYS, TPP_FIELD_EXPERTS, TPP_FIELD_LATENT, TPP_FIELD_QUANTIZED };

struct tpp_model_field {
    const char *key;  /* in the compact form */
    const char *name; /* of the struct's member, for messages */
    size_t offset;
    size_t size; /* bytes of a text field */
    enum tpp_model_field_kind kind;
    enum tpp_model_field_group group;
    double min, max; /* numbers only */
};

/* In the order they are written; *count is their number. */
const struct tpp_model_field *tpp_model_fields(size_t *count);

/* "name", "total_parameters", ... : every key the compact form may have, NULL-terminated. */
const char *const *tpp_model_compact_keys(void);

/* Names of an enum field's values, in order of the enum, NULL-terminated; NULL for any other kind. */
const char *const *tpp_model_field_names(enum tpp_model_field_kind kind);

#endif
