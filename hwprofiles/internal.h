/* internal.h - what the files of this folder share and nobody else needs. */
#ifndef TPP_HWPROFILES_INTERNAL_H
#define TPP_HWPROFILES_INTERNAL_H

#include "hwprofiles/hardware.h"

#define TPP_HARDWARE_SCHEMA_VERSION 1
#define TPP_HARDWARE_GROUP_COUNT 3
extern const char *const tpp_hardware_groups[TPP_HARDWARE_GROUP_COUNT]; /* "gpu", "node", "network" */

/* Writes a value that tpp_hardware_accept has let through; its origin is the caller's business. */
void tpp_hardware_store(struct tpp_hardware *hardware, uint32_t index, double value);
/* Finite, in range, whole where it is a count; else TPP_E_RANGE at `where`. */
enum tpp_code tpp_hardware_accept(uint32_t index, double value, const char *where, struct tpp_error *err);
bool tpp_hardware_field_is_whole(const struct tpp_hardware_field *field);
/* "memory_bytes" of "gpu.memory_bytes". */
const char *tpp_hardware_field_name(const struct tpp_hardware_field *field);
size_t tpp_hardware_field_group_length(const struct tpp_hardware_field *field);
bool tpp_hardware_field_in_group(const struct tpp_hardware_field *field, const char *group);

/* tpp_hardware_check for a profile read from `file`: `where` becomes file#/group/key. NULL: the key alone. */
enum tpp_code tpp_hardware_check_file(const struct tpp_hardware *hardware, const char *file, struct tpp_error *err);

/* A JSON file put into the program by embed.py. */
struct tpp_hardware_document {
    const char *name; /* of the file, without folder and ending */
    const char *path; /* from the source root, for messages */
    const unsigned char *text;
    size_t length;
};
extern const struct tpp_hardware_document tpp_hardware_profile_documents[];
extern const char *const tpp_hardware_profile_document_names[]; /* the same order: sorted; NULL at the end */
extern const size_t tpp_hardware_profile_document_count;
extern const struct tpp_hardware_document tpp_hardware_gpu_documents[];
extern const char *const tpp_hardware_gpu_document_names[];
extern const size_t tpp_hardware_gpu_document_count;

/* The document of that name, NULL when there is none. */
const struct tpp_hardware_document *tpp_hardware_find_document(const struct tpp_hardware_document *documents,
                                                               const char *const *names, const char *name);

#endif
