/* model_shape.h - private to costmodel/model: one row of the family table applied to one config. */
#ifndef TPP_COSTMODEL_MODEL_MODEL_SHAPE_H
#define TPP_COSTMODEL_MODEL_MODEL_SHAPE_H

#include "costmodel/model/model_families.h"

/* `config` is the object with the sizes of the language model, `root` the whole file (the same for most): a model with
 * several senses says there whether its embeddings are tied. Fills all of *model but its name and family. */
enum tpp_code tpp_model_read_shape(struct tpp_json config, struct tpp_json root, const struct tpp_model_family *family,
                                   struct tpp_model *model, struct tpp_error *err);

#endif
