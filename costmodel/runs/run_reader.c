#include "costmodel/runs/run_reader.h"

#include "costmodel/base/file.h"
#include "costmodel/runs/run_facts.h"
#include "costmodel/runs/run_inputs.h"
#include "costmodel/runs/run_stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIGABYTE 1e9
#define GIBIBYTE 1073741824.0

/* torch counts in binary units, whatever the table calls them (torchtitan logs GiB; the vocabulary tables print "GB"
 * for MiB / 1024). A plain GB of another tool is decimal, also one that somebody read off nvidia-smi (S21). */
static double memory_unit_bytes(const char *unit)
{
    static const char *const binary[] = {"GiB", "MiB", "torch"};
    for (size_t i = 0; i < sizeof binary / sizeof binary[0]; i++)
        if (tpp_run_mentions(unit, binary[i]))
            return GIBIBYTE;
    return GIGABYTE;
}

static enum tpp_run_memory_kind memory_kind(const struct tpp_run_facts *facts)
{
    if (strcmp(facts->memory_kind, "allocated_peak") == 0)
        return TPP_RUN_MEMORY_ALLOCATED;
    if (strcmp(facts->memory_kind, "reserved_peak") == 0 || tpp_run_mentions(facts->memory_unit, "torchtitan"))
        return TPP_RUN_MEMORY_RESERVED; /* torchtitan prints the maximum reserved over GPUs */
    if (strcmp(facts->memory_kind, "device_used") == 0)
        return TPP_RUN_MEMORY_DEVICE;
    return TPP_RUN_MEMORY_UNKNOWN;
}

static void set_measured(const struct tpp_run_facts *facts, struct tpp_run *run)
{
    snprintf(run->id, sizeof run->id, "%s", facts->id);
    run->measured_step_seconds = facts->step_seconds;
    run->measured_peak_bytes = facts->peak_memory * memory_unit_bytes(facts->memory_unit);
    run->memory_kind = memory_kind(facts);
    run->out_of_memory = facts->out_of_memory;
    if (facts->step_seconds > 0)
        run->out_of_memory = TPP_RUN_NO; /* what was timed did fit */
    run->complete = facts->complete;
    run->is_published = facts->is_published;
    run->suspect = facts->suspect;
    run->remeasured = facts->remeasured;
}

static bool read_inputs(const struct tpp_run_facts *facts, struct tpp_run_profiles *profiles, struct tpp_run *run)
{
    struct tpp_error err;
    const char *network = facts->network[0] != '\0' ? facts->network : facts->network_assumed;
    char gpu[96];
    tpp_run_gpu_name(facts, gpu, sizeof gpu);
    if (!tpp_run_check_facts(facts, run) || !tpp_run_read_model(facts, run))
        return false;
    if (!tpp_run_cluster_read(gpu, network, facts->num_gpus, facts->gpus_per_node, &run->cluster))
        return tpp_run_skip(run, "no cluster profile for GPU %.80s",
                            facts->gpu[0] == '\0' ? "(not named)" : facts->gpu);
    const struct tpp_hardware *hardware = tpp_run_profiles_find(profiles, run->cluster.profile, &err);
    if (hardware == NULL)
        return tpp_run_skip(run, "no cluster profile for GPU %.80s: %.100s", facts->gpu, err.message);
    if (!tpp_run_read_job(facts, run))
        return false;
    tpp_run_stack_read(facts, &hardware->gpu, &run->job, &run->stack);
    snprintf(run->gpu, sizeof run->gpu, "%.63s", hardware->gpu.name);
    if (tpp_stack_check(&run->stack, &hardware->gpu, &run->job, &err) != TPP_OK)
        return tpp_run_skip(run, "stack: %.180s", err.message);
    return tpp_run_read_strategy(facts, run);
}

/* One parsed line. Always fills *run: what cannot be read or predicted is said in run->skipped. False when the line is
 * not a run at all (no object, no id, no "measured"). */
static bool read_run(struct tpp_json row, const char *group, struct tpp_run_profiles *profiles, struct tpp_run *run)
{
    struct tpp_run_facts facts;
    struct tpp_error err;
    memset(run, 0, sizeof *run);
    snprintf(run->group, sizeof run->group, "%s", group);
    if (tpp_run_facts_read_measured(row, &facts, &err) != TPP_OK) {
        snprintf(run->id, sizeof run->id, "%s", facts.id);
        run->broken = true;
        tpp_run_skip(run, "not a run: %.150s", err.message);
        return false;
    }
    set_measured(&facts, run);
    if (run->measured_step_seconds <= 0 && run->measured_peak_bytes <= 0 && run->out_of_memory == TPP_RUN_UNSAID)
        tpp_run_skip(run, "nothing measured");
    else if (tpp_run_facts_read(row, &facts, &err) != TPP_OK)
        tpp_run_skip(run, "unreadable: %.150s", err.message);
    else
        (void)read_inputs(&facts, profiles, run);
    return true;
}

static struct tpp_run *append(struct tpp_runs *runs)
{
    if (runs->count == runs->capacity) {
        const size_t capacity = runs->capacity == 0 ? 256 : 2 * runs->capacity;
        struct tpp_run *items = realloc(runs->items, capacity * sizeof *items);
        if (items == NULL)
            return NULL;
        runs->items = items;
        runs->capacity = capacity;
    }
    return &runs->items[runs->count++];
}

/* File name without folder and ending; bytes that do not belong in a key of the report become '_'. */
static void group_name(const char *file, char *group, size_t size)
{
    const char *slash = strrchr(file, '/');
    const char *name = slash != NULL ? slash + 1 : file;
    const char *dot = strrchr(name, '.');
    const size_t length = dot != NULL && dot != name ? (size_t)(dot - name) : strlen(name);
    snprintf(group, size, "%.*s", (int)(length < size ? length : size - 1), name);
    for (char *byte = group; *byte != '\0'; byte++)
        if ((unsigned char)*byte < 0x20 || (unsigned char)*byte >= 0x7f)
            *byte = '_';
}

/* One line; *is_run says whether it was a run at all. */
static enum tpp_code read_line(const char *line, size_t length, const char *where, const char *group,
                               struct tpp_run_profiles *profiles, struct tpp_run *run, bool *is_run,
                               struct tpp_error *err)
{
    struct tpp_json_document *document = NULL;
    const enum tpp_code code = tpp_json_parse(line, length, where, &document, err);
    *is_run = false;
    if (code == TPP_E_MEMORY)
        return code;
    if (code != TPP_OK) {
        memset(run, 0, sizeof *run);
        snprintf(run->group, sizeof run->group, "%s", group);
        run->broken = true;
        tpp_run_skip(run, "not JSON: %.150s", err->message);
    } else {
        *is_run = read_run(tpp_json_root(document), group, profiles, run);
    }
    tpp_json_document_free(document);
    return TPP_OK;
}

static bool is_blank(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (strchr(" \t\r", line[i]) == NULL || line[i] == '\0')
            return false;
    return true;
}

enum tpp_code tpp_runs_read(const char *text, size_t length, const char *file, struct tpp_run_profiles *profiles,
                            struct tpp_runs *runs, struct tpp_error *err)
{
    char group[sizeof runs->items->group], where[256];
    size_t num_lines = 0, num_runs = 0, num_faults = 0;
    char first_fault[sizeof runs->items->skipped] = "the file is empty";
    group_name(file, group, sizeof group);
    for (const char *line = text, *end = text + length; line < end; num_lines++) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const size_t line_length = (size_t)((newline != NULL ? newline : end) - line);
        if (!is_blank(line, line_length)) {
            struct tpp_run *run = append(runs);
            struct tpp_error fault = {0};
            bool is_run = false;
            if (run == NULL)
                return tpp_fail(err, TPP_E_MEMORY, file, NULL, "out of memory");
            snprintf(where, sizeof where, "%s:%zu", file, num_lines + 1);
            if (read_line(line, line_length, where, group, profiles, run, &is_run, &fault) != TPP_OK)
                return tpp_fail(err, TPP_E_MEMORY, where, NULL, "out of memory");
            if (run->id[0] == '\0')
                snprintf(run->id, sizeof run->id, "%.60s:%zu", group, num_lines + 1);
            if (!is_run && num_faults++ == 0)
                snprintf(first_fault, sizeof first_fault, "line %zu: %.150s", num_lines + 1, run->skipped);
            num_runs += is_run;
        }
        line += line_length + (newline != NULL);
    }
    if (num_runs > 0)
        return TPP_OK;
    return tpp_fail(err, TPP_E_SYNTAX, file, "give one run a line as a JSON object with \"id\" and \"measured\"",
                    "no line is a run (%s)", first_fault);
}

enum tpp_code tpp_runs_load(const char *path, struct tpp_run_profiles *profiles, struct tpp_runs *runs,
                            struct tpp_error *err)
{
    char *text = NULL;
    size_t length = 0;
    enum tpp_code code = tpp_file_read(path, TPP_RUNS_MAX_FILE_BYTES, &text, &length, err);
    if (code != TPP_OK)
        return code;
    code = tpp_runs_read(text, length, path, profiles, runs, err);
    free(text);
    return code;
}

void tpp_runs_keep_default_subset(struct tpp_runs *runs)
{
    for (size_t i = 0; i < runs->count; i++) {
        struct tpp_run *run = &runs->items[i];
        if (run->broken)
            continue;
        if (run->suspect)
            tpp_run_skip(run, "suspect: the source contradicts itself");
        else if (run->remeasured)
            tpp_run_skip(run, "measured again in a later edition");
        else if (!run->complete)
            tpp_run_skip(run, "not complete in its source");
    }
}

void tpp_runs_release(struct tpp_runs *runs)
{
    free(runs->items);
    memset(runs, 0, sizeof *runs);
}
