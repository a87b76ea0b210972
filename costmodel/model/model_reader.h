/* model_reader.h - a Hugging Face config.json, or the project's own compact model file, becomes a tpp_model.
 *
 * A shape that is not known is an error that names the key it needs, never a guess: an unknown model_type, a missing
 * size, two keys that contradict each other, a hybrid (state-space, linear attention) are all refused. */
#ifndef TPP_COSTMODEL_MODEL_MODEL_READER_H
#define TPP_COSTMODEL_MODEL_MODEL_READER_H

#include "costmodel/base/error.h"
#include "costmodel/base/json_read.h"
#include "costmodel/model/model.h"

/* Reads a parsed config: one with a "model_type" as a Hugging Face config, one with "layers" and without it in the
 * compact form (model_json.h). *model was checked when TPP_OK comes back. `name` becomes model->name (cut to fit). */
enum tpp_code tpp_model_read(struct tpp_json config, const char *name, struct tpp_model *model, struct tpp_error *err);
/* Reads a file; the model's name is the file name without folder and ending ("config.json": its folder's name). */
enum tpp_code tpp_model_load(const char *path, struct tpp_model *model, struct tpp_error *err);
/* `--model`: a shipped preset by exact name, else a file. A word that is neither (no '/', no ".json", no such file) is
 * TPP_E_USAGE with the nearest preset as its hint. */
enum tpp_code tpp_model_find(const char *name_or_path, struct tpp_model *model, struct tpp_error *err);

#endif
