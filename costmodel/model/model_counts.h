/* model_counts.h - private to costmodel/model: the parameter count with its overflow answer. */
#ifndef TPP_COSTMODEL_MODEL_MODEL_COUNTS_H
#define TPP_COSTMODEL_MODEL_MODEL_COUNTS_H

#include "costmodel/model/model.h"

/* 2^56: leaves room for the 18 or 20 bytes of training state of each parameter in 64 bits (7e16 parameters, ten
 * thousand times the largest model ever published). */
#define TPP_MODEL_MAX_PARAMETERS (UINT64_C(1) << 56)

/* As tpp_model_count, but false when the total is above TPP_MODEL_MAX_PARAMETERS or a sum overflows; the counts are
 * then meaningless. Needs only that the fields are in their ranges. */
bool tpp_model_count_checked(const struct tpp_model *model, struct tpp_model_counts *counts);

#endif
