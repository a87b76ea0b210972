/* profiles.h - where a tpp_hardware comes from: the shipped profiles by name, or a user's JSON file.
 *
 * A profile file is an object {"schema_version":1, "name", "description", "gpu":{...} or "gpu":"<shipped GPU name>",
 * "node":{...}, "network":{...}}; every value is {"value":number, "provenance":"...", "source":"..."}; a user's file may
 * also give a plain number (provenance "assumed", source the file). "base":"<shipped profile>" starts from that profile
 * and overrides single values; inside "gpu" it starts from a shipped GPU. hwprofiles/schema.json describes the format,
 * hwprofiles/README.md how to write one. */
#ifndef TPP_HWPROFILES_PROFILES_H
#define TPP_HWPROFILES_PROFILES_H

#include "costmodel/base/error.h"
#include "costmodel/base/json_read.h"
#include "costmodel/base/json_write.h"
#include "hwprofiles/hardware.h"

#include <stddef.h>

/* Names of the shipped profiles, sorted; static. */
const char *const *tpp_hardware_profile_names(size_t *count);
/* Names of the shipped GPUs, what "gpu":"..." and "gpu":{"base":"..."} take; sorted, static. */
const char *const *tpp_hardware_gpu_names(size_t *count);
/* Reads a parsed profile. On failure *hardware holds nothing of use. */
enum tpp_code tpp_hardware_read(struct tpp_json profile, struct tpp_hardware *hardware, struct tpp_error *err);
enum tpp_code tpp_hardware_load(const char *path, struct tpp_hardware *hardware, struct tpp_error *err);
/* `--cluster`: a shipped profile by exact name, else a file. An unknown name hints at the nearest one. */
enum tpp_code tpp_hardware_find(const char *name_or_path, struct tpp_hardware *hardware, struct tpp_error *err);
/* Adds the whole profile, in the format tpp_hardware_read reads, to `parent` (an object). */
void tpp_hardware_add_json(const struct tpp_hardware *hardware, struct tpp_json_writer *writer, struct cJSON *parent);
/* Adds the GPU alone, in the format of a file in hwprofiles/gpus. */
void tpp_hardware_add_gpu_json(const struct tpp_hardware *hardware, struct tpp_json_writer *writer,
                               struct cJSON *parent);
/* Adds the JSON Schema (draft 7) of a profile file to `parent`: what hwprofiles/schema.json holds. */
void tpp_hardware_add_schema(struct tpp_json_writer *writer, struct cJSON *parent);

#endif
