#include "cli/answer.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "costmodel/base/units.h"
#include "hwprofiles/profiles.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct hardware_arguments {
    bool json;
};

static const struct tpp_option hardware_options[] = {
    {"json", 0, TPP_OPTION_FLAG, offsetof(struct hardware_arguments, json), .help = "print one JSON object"},
    {.name = NULL},
};
static const struct tpp_option_part hardware_parts[] = {{"Output", hardware_options, 0}, {NULL}};

static double node_network_rate(const struct tpp_hardware *hardware)
{
    return hardware->network.num_nics * hardware->network.nic_bytes_per_second;
}

static void add_summary(const struct tpp_hardware *hardware, struct tpp_json_writer *writer, struct cJSON *object)
{
    tpp_json_add_string(writer, object, "name", hardware->name);
    tpp_json_add_string(writer, object, "description", hardware->description);
    tpp_json_add_string(writer, object, "gpu", hardware->gpu.name);
    tpp_json_add_u64(writer, object, "gpus_per_node", hardware->node.num_gpus);
    tpp_json_add_u64(writer, object, "gpu_memory_bytes", hardware->gpu.memory_bytes);
    tpp_json_add_number(writer, object, "bf16_flops_per_second", hardware->gpu.bf16_flops_per_second);
    tpp_json_add_number(writer, object, "intra_node_bytes_per_second",
                        hardware->node.bus_bytes_per_second[TPP_ALL_REDUCE]);
    tpp_json_add_number(writer, object, "inter_node_bytes_per_second", node_network_rate(hardware));
}

static enum tpp_code list_as_json(struct tpp_answer *answer, struct tpp_error *err)
{
    struct tpp_json_writer writer;
    size_t count;
    enum tpp_code code = TPP_OK;
    const char *const *names = tpp_hardware_profile_names(&count);
    tpp_answer_begin(&writer);
    struct cJSON *array = tpp_json_add_array(&writer, writer.root, "profiles");
    for (size_t i = 0; i < count && code == TPP_OK; i++) {
        struct tpp_hardware hardware;
        code = tpp_hardware_find(names[i], &hardware, err);
        if (code == TPP_OK)
            add_summary(&hardware, &writer, tpp_json_add_object(&writer, array, NULL));
    }
    if (code == TPP_OK)
        return tpp_answer_finish(&writer, answer, err);
    tpp_json_writer_release(&writer);
    return code;
}

static const struct tpp_table_column list_columns[] = {
    {"PROFILE", true, 0},    {"GPU", true, 4},      {"GPUS", false, 0},    {"MEMORY", false, 1},
    {"BF16 PEAK", false, 2}, {"IN NODE", false, 3}, {"NETWORK", false, 2},
};
#define NUM_LIST_COLUMNS (sizeof list_columns / sizeof list_columns[0])

static void append_profile_row(struct tpp_table *table, const struct tpp_hardware *hardware)
{
    char buffer[48];
    tpp_table_cell(table, "%s", hardware->name);
    tpp_table_cell(table, "%s", hardware->gpu.name);
    tpp_table_cell(table, "%u", hardware->node.num_gpus);
    tpp_table_cell(table, "%s", tpp_format_bytes(buffer, sizeof buffer, (double)hardware->gpu.memory_bytes));
    tpp_table_cell(table, "%s", tpp_format_flops_rate(buffer, sizeof buffer, hardware->gpu.bf16_flops_per_second));
    tpp_table_cell(table, "%s",
                   tpp_format_bandwidth(buffer, sizeof buffer, hardware->node.bus_bytes_per_second[TPP_ALL_REDUCE]));
    tpp_table_cell(table, "%s", tpp_format_bandwidth(buffer, sizeof buffer, node_network_rate(hardware)));
}

static enum tpp_code finish_table(struct tpp_table *table, struct tpp_answer *answer, struct tpp_error *err)
{
    const bool done = table != NULL && tpp_table_append(table, answer->width, &answer->text);
    tpp_table_free(table);
    return done ? TPP_OK : tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
}

static enum tpp_code list_as_text(struct tpp_answer *answer, struct tpp_error *err)
{
    size_t count;
    enum tpp_code code = TPP_OK;
    const char *const *names = tpp_hardware_profile_names(&count);
    struct tpp_table *table = tpp_table_new(list_columns, NUM_LIST_COLUMNS);
    for (size_t i = 0; i < count && table != NULL && code == TPP_OK; i++) {
        struct tpp_hardware hardware;
        code = tpp_hardware_find(names[i], &hardware, err);
        if (code == TPP_OK)
            append_profile_row(table, &hardware);
    }
    if (code == TPP_OK)
        return finish_table(table, answer, err);
    tpp_table_free(table);
    return code;
}

static const char *format_value(char *buffer, size_t size, const char *unit, double value)
{
    if (strcmp(unit, "bytes") == 0)
        return tpp_format_bytes(buffer, size, value);
    if (strcmp(unit, "bytes_per_second") == 0)
        return tpp_format_bandwidth(buffer, size, value);
    if (strcmp(unit, "flops_per_second") == 0)
        return tpp_format_flops_rate(buffer, size, value);
    if (strcmp(unit, "seconds") == 0)
        return tpp_format_seconds(buffer, size, value);
    if (strcmp(unit, "boolean") == 0)
        return value != 0 ? "yes" : "no";
    snprintf(buffer, size, "%.6g", value);
    return buffer;
}

static bool is_first_use(const struct tpp_hardware *hardware, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++) {
        if (strcmp(hardware->origins[i].source, hardware->origins[index].source) == 0)
            return false;
    }
    return true;
}

/* Number of the source of value `index`: sources are counted in the order of their first use. */
static unsigned source_number(const struct tpp_hardware *hardware, uint32_t index)
{
    unsigned number = 0;
    for (uint32_t i = 0; i <= index; i++) {
        number += is_first_use(hardware, i);
        if (strcmp(hardware->origins[i].source, hardware->origins[index].source) == 0)
            break;
    }
    return number;
}

static void append_sources(const struct tpp_hardware *hardware, uint32_t count, struct tpp_answer *answer)
{
    tpp_text_append(&answer->text, "\nSources\n");
    for (uint32_t i = 0; i < count; i++) {
        if (is_first_use(hardware, i)) {
            tpp_text_format(&answer->text, "%4u  ", source_number(hardware, i));
            tpp_terminal_append_wrapped(&answer->text, hardware->origins[i].source, 6, 6, answer->width);
        }
    }
}

static const struct tpp_table_column value_columns[] = {
    {"KEY", true, 0}, {"VALUE", false, 0}, {"KNOWN FROM", true, 0}, {"SOURCE", false, 0}, {"MEANING", true, 1}};

static enum tpp_code show_as_text(const struct tpp_hardware *hardware, struct tpp_answer *answer, struct tpp_error *err)
{
    uint32_t count;
    const struct tpp_hardware_field *fields = tpp_hardware_fields(&count);
    tpp_terminal_append(&answer->text, hardware->name);
    tpp_text_append(&answer->text, ": ");
    tpp_terminal_append(&answer->text, hardware->description);
    tpp_text_append(&answer->text, "\nGPU: ");
    tpp_terminal_append(&answer->text, hardware->gpu.name);
    tpp_text_append(&answer->text, "\n\n");
    struct tpp_table *table = tpp_table_new(value_columns, 5);
    for (uint32_t i = 0; i < count && table != NULL; i++) {
        char buffer[48];
        tpp_table_cell(table, "%s", fields[i].key);
        tpp_table_cell(table, "%s", format_value(buffer, sizeof buffer, fields[i].unit, tpp_hardware_get(hardware, i)));
        tpp_table_cell(table, "%s", tpp_provenance_name(hardware->origins[i].provenance));
        tpp_table_cell(table, "%u", source_number(hardware, i));
        tpp_table_cell(table, "%s", fields[i].about);
    }
    const enum tpp_code code = finish_table(table, answer, err);
    append_sources(hardware, count, answer);
    return code;
}

static enum tpp_code run(const void *data, const struct tpp_operands *operands, struct tpp_answer *answer,
                         struct tpp_error *err)
{
    const struct hardware_arguments *arguments = data;
    struct tpp_hardware hardware;
    if (operands->count == 0)
        return arguments->json ? list_as_json(answer, err) : list_as_text(answer, err);
    const enum tpp_code code = tpp_hardware_find(operands->items[0], &hardware, err);
    if (code != TPP_OK)
        return code;
    if (!arguments->json)
        return show_as_text(&hardware, answer, err);
    struct tpp_json_writer writer;
    tpp_json_writer_init(&writer);
    tpp_hardware_add_json(&hardware, &writer, writer.root);
    return tpp_answer_finish(&writer, answer, err);
}

const struct tpp_command tpp_command_hardware = {
    .name = "hardware",
    .summary = "list the shipped cluster profiles, or show one with the origin of every value",
    .about = "Lists the cluster profiles that are shipped. With a name or a profile of your own, shows every value and "
             "where it comes from: measured, published, data sheet, assumed, or given by the user.",
    .operands = "[NAME|FILE]",
    .max_operands = 1,
    .parts = hardware_parts,
    .examples = {{"tp-plan hardware", "what is shipped"},
                 {"tp-plan hardware --json dgx-a100-80g > mine.json", "a profile to start your own from"}},
    .arguments_size = sizeof(struct hardware_arguments),
    .run = run,
};
