/* model_name.h - private to costmodel/model: names that come from outside, and where a bad shape was found. */
#ifndef TPP_COSTMODEL_MODEL_MODEL_NAME_H
#define TPP_COSTMODEL_MODEL_MODEL_NAME_H

#include "costmodel/base/json_read.h"
#include "costmodel/model/model.h"

#include <stddef.h>

/* Copies as much as fits of whole UTF-8 characters; control characters become '?'. */
void tpp_model_copy_name(char *out, size_t size, const char *name);
/* The name of a file's model: without folder and ".json"; "config.json" is named by its folder. */
void tpp_model_name_of_path(char *out, size_t size, const char *path);
/* tpp_model_check for a shape that came from `place`: the error's `where` also names the file. */
enum tpp_code tpp_model_check_in_file(const struct tpp_model *model, struct tpp_json place, struct tpp_error *err);

#endif
