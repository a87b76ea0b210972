/* Writing a profile in the format the reader takes. */
#include "hwprofiles/internal.h"
#include "hwprofiles/profiles.h"

#include <string.h>

static void add_value(const struct tpp_hardware *hardware, uint32_t index, struct tpp_json_writer *writer,
                      struct cJSON *group)
{
    const struct tpp_hardware_field *field = &tpp_hardware_fields(NULL)[index];
    const struct tpp_hardware_origin *origin = &hardware->origins[index];
    const double value = tpp_hardware_get(hardware, index);
    struct cJSON *object = tpp_json_add_object(writer, group, tpp_hardware_field_name(field));
    if (field->kind == TPP_HARDWARE_BOOL) {
        tpp_json_add_bool(writer, object, "value", value != 0);
    } else if (tpp_hardware_field_is_whole(field)) {
        tpp_json_add_u64(writer, object, "value", (uint64_t)value);
    } else {
        tpp_json_add_number(writer, object, "value", value);
    }
    tpp_json_add_string(writer, object, "provenance", tpp_provenance_name(origin->provenance));
    if (origin->source[0]) {
        tpp_json_add_string(writer, object, "source", origin->source);
    }
}

static void add_group(const struct tpp_hardware *hardware, const char *name, struct tpp_json_writer *writer,
                      struct cJSON *group)
{
    uint32_t count;
    const struct tpp_hardware_field *fields = tpp_hardware_fields(&count);
    for (uint32_t i = 0; i < count; i++) {
        if (tpp_hardware_field_in_group(&fields[i], name)) {
            add_value(hardware, i, writer, group);
        }
    }
}

void tpp_hardware_add_gpu_json(const struct tpp_hardware *hardware, struct tpp_json_writer *writer, struct cJSON *parent)
{
    tpp_json_add_string(writer, parent, "name", hardware->gpu.name);
    add_group(hardware, "gpu", writer, parent);
}

void tpp_hardware_add_json(const struct tpp_hardware *hardware, struct tpp_json_writer *writer, struct cJSON *parent)
{
    tpp_json_add_u64(writer, parent, "schema_version", TPP_HARDWARE_SCHEMA_VERSION);
    tpp_json_add_string(writer, parent, "name", hardware->name);
    if (hardware->description[0]) {
        tpp_json_add_string(writer, parent, "description", hardware->description);
    }
    for (int i = 0; i < TPP_HARDWARE_GROUP_COUNT; i++) {
        struct cJSON *group = tpp_json_add_object(writer, parent, tpp_hardware_groups[i]);
        if (strcmp(tpp_hardware_groups[i], "gpu") == 0) {
            tpp_hardware_add_gpu_json(hardware, writer, group);
        } else {
            add_group(hardware, tpp_hardware_groups[i], writer, group);
        }
    }
}
