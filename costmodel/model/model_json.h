/* model_json.h - the project's own compact model file: one flat JSON object with a key for each field of tpp_model.
 *
 * Written in full words and read back to the same struct. Written by hand, it needs only "layers", "hidden_size",
 * "num_attention_heads", "vocab_size" and "ffn_hidden_size" (with experts instead: "num_experts", "experts_per_token",
 * "moe_ffn_hidden_size"); what is missing is a Llama block: RMSNorm, gated SiLU, rotary positions with base 10000, no
 * biases, embeddings not tied, one key/value head a query head, head_dim = hidden_size / num_attention_heads. */
#ifndef TPP_COSTMODEL_MODEL_MODEL_JSON_H
#define TPP_COSTMODEL_MODEL_MODEL_JSON_H

#include "costmodel/base/error.h"
#include "costmodel/base/json_read.h"
#include "costmodel/base/json_write.h"
#include "costmodel/model/model.h"

/* Adds the keys to `parent` (an object): "name", "total_parameters", "active_parameters", "layers", then the others.
 * Fields of experts and of latent attention appear only in models that have them. */
void tpp_model_add_json(const struct tpp_model *model, struct tpp_json_writer *writer, struct cJSON *parent);

/* True for an object in the compact form: it has "layers" and no "model_type". */
bool tpp_model_is_compact(struct tpp_json config);

/* Reads the compact form. An unknown key is an error; "total_parameters" and "active_parameters" may be given and must
 * then be what the sizes amount to. *model is checked (tpp_model_check). `name` is used when the object has none. */
enum tpp_code tpp_model_read_compact(struct tpp_json config, const char *name, struct tpp_model *model,
                                     struct tpp_error *err);

#endif
