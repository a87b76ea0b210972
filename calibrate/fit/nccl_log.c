/* The lines of an nccl-tests or rccl-tests log, and which run each belongs to. */
#include "calibrate/fit/nccl_log.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 1000000 };

static void reset_run(struct tpp_nccl_run *run)
{
    struct tpp_nccl_row *rows = run->rows;
    const size_t capacity = run->row_capacity;
    memset(run, 0, sizeof *run);
    run->rows = rows;
    run->row_capacity = capacity;
    run->operation = TPP_OPERATION_UNKNOWN;
}

static uint64_t digest(const char *text, size_t length)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

static void add_host(struct tpp_nccl_run *run, const char *name, size_t length)
{
    const uint64_t host = digest(name, length);
    for (uint32_t i = 0; i < run->num_hosts; i++) {
        if (run->hosts[i] == host) {
            return;
        }
    }
    if (run->num_hosts < TPP_NCCL_MAX_HOSTS) {
        run->hosts[run->num_hosts++] = host;
    }
}

/* What follows the bus id: "[0x1a] NVIDIA A100-SXM4-80GB". */
static void take_device(struct tpp_nccl_run *run, const char *text)
{
    const char *name = strchr(text, ']');
    if (!name || run->device[0]) {
        return;
    }
    name += 1 + strspn(name + 1, " ");
    snprintf(run->device, sizeof run->device, "%s", name);
    for (size_t length = strlen(run->device); length > 0 && run->device[length - 1] == ' ';) {
        run->device[--length] = '\0';
    }
}

/* "Rank  0 Group  0 Pid  10001 on     node01 device  0 [0x00] NVIDIA A10G"; Group came later, the name may be missing.
 */
static bool take_rank_line(struct tpp_nccl_run *run, const char *line)
{
    const char *rank = strstr(line, "Rank ");
    const char *pid = rank ? strstr(rank, " Pid ") : NULL;
    const char *on = pid ? strstr(pid, " on ") : NULL;
    char *end;
    if (!on) {
        return false;
    }
    const unsigned long number = strtoul(rank + 5, &end, 10);
    if (end == rank + 5 || number >= MAX_RANKS) {
        return false;
    }
    const char *host = on + 4 + strspn(on + 4, " ");
    add_host(run, host, strcspn(host, " "));
    run->num_listed++;
    if (number + 1 > run->num_ranks) {
        run->num_ranks = (uint32_t)number + 1;
    }
    const char *device = strstr(host, " device ");
    const unsigned long index = device ? strtoul(device + 8, NULL, 10) : 0;
    if (device && index < 1024) {
        run->num_devices = index + 1 > run->num_devices ? (uint32_t)index + 1 : run->num_devices;
        take_device(run, device);
    }
    return true;
}

/* all_reduce_perf, in a title, a command line or a shell prompt. */
static int program_in(const char *line)
{
    char name[32];
    for (const char *end = strstr(line, "_perf"); end; end = strstr(end + 1, "_perf")) {
        const char *start = end;
        while (start > line && (islower((unsigned char)start[-1]) || start[-1] == '_')) {
            start--;
        }
        if ((size_t)(end - start) < sizeof name) {
            memcpy(name, start, (size_t)(end - start));
            name[end - start] = '\0';
            const int operation = tpp_nccl_operation_in(name);
            if (operation != TPP_OPERATION_UNKNOWN) {
                return operation;
            }
        }
    }
    return TPP_OPERATION_UNKNOWN;
}

static bool begins_run(const char *line)
{
    return strstr(line, "nThread ") || strstr(line, "Using devices") || strstr(line, "nccl-tests version") ||
           strstr(line, "rccl-tests: Version") || strstr(line, "Collective test starting");
}

/* A table's header: "size count type redop root time ...". */
static bool take_header(struct tpp_nccl_run *run, const char *line)
{
    const char *size = strstr(line, " size "), *type = size ? strstr(size, " type ") : NULL;
    if (!type || !strstr(type, " algbw ")) {
        return false;
    }
    run->has_header = true;
    run->has_redop_column = strstr(type, " redop ") != NULL;
    run->root = strstr(type, " root ") ? TPP_NCCL_ROOT_PRESENT : TPP_NCCL_ROOT_ABSENT;
    return true;
}

static bool is_elision(const char *line)
{
    const char *dots = strstr(line, "...");
    return dots && strspn(dots, ". ") == strlen(dots) && strspn(line, " ") == (size_t)(dots - line);
}

static void take_facts(struct tpp_nccl_run *run, const char *line)
{
    const int program = program_in(line);
    const char *nranks = strstr(line, " nranks ");
    if (program != TPP_OPERATION_UNKNOWN && (run->num_rows == 0 || run->operation == TPP_OPERATION_UNKNOWN)) {
        run->operation = program;
    }
    if (nranks && run->info_ranks == 0) {
        const unsigned long number = strtoul(nranks + 8, NULL, 10);
        run->info_ranks = number < MAX_RANKS ? (uint32_t)number : 0;
    }
    run->is_elided = run->is_elided || is_elision(line);
    run->has_failure = run->has_failure || strstr(line, "NCCL failure") || strstr(line, "Test failure");
}

static enum tpp_code add_row(struct tpp_nccl_run *run, const struct tpp_nccl_row *row, const char *source,
                             struct tpp_error *err)
{
    if (run->num_rows == run->row_capacity) {
        const size_t capacity = run->row_capacity ? 2 * run->row_capacity : 64;
        struct tpp_nccl_row *rows = realloc(run->rows, capacity * sizeof *rows);
        if (!rows) {
            return tpp_fail(err, TPP_E_MEMORY, source, NULL, "out of memory");
        }
        run->rows = rows;
        run->row_capacity = capacity;
    }
    run->rows[run->num_rows++] = *row;
    return TPP_OK;
}

struct reader {
    struct tpp_nccl_run *run;
    const char *source;
    const struct tpp_import_facts *facts;
    struct tpp_samples *samples;
    bool has_seen_log; /* a line that only this program prints */
};

static enum tpp_code finish(struct reader *reader, bool keeps_ranks, struct tpp_error *err)
{
    struct tpp_nccl_run *run = reader->run;
    const enum tpp_code code = tpp_nccl_finish_run(run, reader->source, reader->facts, reader->samples, err);
    if (keeps_ranks) {
        run->num_rows = 0;
        run->operation = TPP_OPERATION_UNKNOWN;
        run->is_elided = run->has_failure = false;
    } else {
        reset_run(run);
    }
    return code;
}

static enum tpp_code take_line(struct reader *reader, char line[TPP_LINE_SIZE], uint32_t number, struct tpp_error *err)
{
    struct tpp_nccl_run *run = reader->run;
    struct tpp_nccl_row row;
    enum tpp_code code = TPP_OK;
    if (begins_run(line)) {
        reader->has_seen_log = true;
        if (run->num_rows > 0) {
            code = finish(reader, false, err);
        }
        if (strstr(line, "Using devices")) { /* also after a run that ended before its first row */
            run->num_ranks = run->num_listed = run->num_devices = run->num_hosts = 0;
        }
        take_facts(run, line);
        return code;
    }
    if (strstr(line, " algbw ")) {
        if (run->num_rows > 0) { /* a second table without a title: on the same ranks */
            code = finish(reader, true, err);
        }
        reader->has_seen_log = take_header(run, line) || reader->has_seen_log;
        return code;
    }
    if (take_rank_line(run, line)) {
        reader->has_seen_log = true;
        return TPP_OK;
    }
    take_facts(run, line);
    switch (tpp_nccl_parse_row(line, run->root, &row)) {
    case TPP_NCCL_ROW:
        row.line = number;
        tpp_samples_file(reader->samples)->num_skipped_lines += row.is_partial;
        return add_row(run, &row, reader->source, err);
    case TPP_NCCL_BROKEN:
        tpp_samples_file(reader->samples)->num_skipped_lines++;
        break;
    case TPP_NCCL_NO_ROW:
        break;
    }
    return TPP_OK;
}

static enum tpp_code fail_without_rows(const struct reader *reader, struct tpp_error *err)
{
    const struct tpp_nccl_run *run = reader->run;
    const unsigned long long num_skipped = tpp_samples_file(reader->samples)->num_skipped_lines;
    if (!reader->has_seen_log && run->operation == TPP_OPERATION_UNKNOWN) {
        return tpp_fail(err, TPP_E_SYNTAX, reader->source,
                        "give a log of nccl-tests, a table of data/kernels or data/collectives, or a samples file",
                        "no measurement found: the format is not known");
    }
    return tpp_fail(err, TPP_E_SYNTAX, reader->source,
                    run->has_failure ? "the run failed: look at its messages, and run the test again"
                                     : "the run hung or its output was cut: run the test again",
                    "no usable row in this log of a collective test (%u ranks listed, %llu broken lines)",
                    run->num_ranks, num_skipped);
}

static enum tpp_code read_lines(struct reader *reader, const char *text, size_t length, struct tpp_error *err)
{
    struct tpp_lines lines = {.text = text, .length = length};
    const char *start;
    size_t line_length;
    char line[TPP_LINE_SIZE];
    enum tpp_code code = TPP_OK;
    while (code == TPP_OK && tpp_lines_next(&lines, &start, &line_length)) {
        tpp_line_copy(line, start, line_length);
        code = take_line(reader, line, lines.number, err);
    }
    if (code == TPP_OK) {
        code = tpp_nccl_finish_run(reader->run, reader->source, reader->facts, reader->samples, err);
    }
    return code;
}

enum tpp_code tpp_import_nccl_log(const char *text, size_t length, const char *source,
                                  const struct tpp_import_facts *facts, struct tpp_samples *samples,
                                  struct tpp_error *err)
{
    enum tpp_code code = tpp_samples_begin_file(samples, source, "nccl-tests log", err);
    if (code != TPP_OK) {
        return code;
    }
    struct reader reader = {.run = calloc(1, sizeof *reader.run), .source = source, .facts = facts, .samples = samples};
    if (!reader.run) {
        return tpp_fail(err, TPP_E_MEMORY, source, NULL, "out of memory");
    }
    reset_run(reader.run);
    code = read_lines(&reader, text, length, err);
    if (code == TPP_OK && tpp_samples_file(samples)->num_rows == 0) {
        code = fail_without_rows(&reader, err);
    }
    free(reader.run->rows);
    free(reader.run);
    return code;
}
