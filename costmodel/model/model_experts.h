/* model_experts.h - private to costmodel/model: the mixture-of-experts part of a config. */
#ifndef TPP_COSTMODEL_MODEL_MODEL_EXPERTS_H
#define TPP_COSTMODEL_MODEL_MODEL_EXPERTS_H

#include "costmodel/model/model_families.h"

/* Fills the expert fields of *model from the names in `keys`; model->num_layers must be set. A pattern of layers that
 * first_k_dense and moe_layer_period cannot say is TPP_E_UNSUPPORTED. */
enum tpp_code tpp_model_read_experts(struct tpp_json config, const struct tpp_model_expert_keys *keys,
                                     struct tpp_model *model, struct tpp_error *err);

#endif
