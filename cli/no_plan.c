#include "cli/no_plan.h"

#include "cli/plan_json.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "planner/advise.h"
#include "planner/remedies.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_REMEDIES 8
#define NEAREST_SHOWN 5

/* The caller frees *remedies. */
static enum tpp_code find_remedies(const struct tpp_job_inputs *inputs, const struct tpp_space_limits *limits,
                                   struct tpp_remedy **remedies, size_t *count, struct tpp_error *err)
{
    *count = 0;
    *remedies = calloc(MAX_REMEDIES, sizeof **remedies);
    if (*remedies == NULL)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    return tpp_remedies_find(&inputs->model, &inputs->hardware, &inputs->job, &inputs->stack, limits, *remedies,
                             MAX_REMEDIES, count, err);
}

/* No strategy is valid: what refuses the pins. */
static void find_refusal(const struct tpp_job_inputs *inputs, const struct tpp_space_limits *limits,
                         struct tpp_error *refusal)
{
    *refusal = (struct tpp_error){.code = TPP_OK};
    tpp_no_valid_plan(&inputs->model, &inputs->hardware, &inputs->job, &inputs->stack, limits, refusal);
}

static void append_line(const char *before, const char *sentence, unsigned indent, struct tpp_answer *answer)
{
    char line[400];
    snprintf(line, sizeof line, "%s%s", before, sentence);
    tpp_text_format(&answer->text, "%*s", (int)indent, "");
    tpp_terminal_append_wrapped(&answer->text, line, indent, indent + 2, answer->width);
}

static void append_refusal(const struct tpp_error *refusal, struct tpp_answer *answer)
{
    append_line("No strategy can be run: ", refusal->message, 0, answer);
    if (refusal->where[0] != '\0')
        append_line("at: ", refusal->where, 2, answer);
    if (refusal->hint[0] != '\0')
        append_line("fix: ", refusal->hint, 2, answer);
}

static enum tpp_code append_remedies(const struct tpp_job_inputs *inputs, const struct tpp_space_limits *limits,
                                     struct tpp_answer *answer, struct tpp_error *err)
{
    struct tpp_remedy *remedies;
    size_t count;
    const enum tpp_code code = find_remedies(inputs, limits, &remedies, &count, err);
    if (code == TPP_OK && count > 0)
        tpp_text_append(&answer->text, "\nWhat would help, the smallest change first\n");
    for (size_t i = 0; code == TPP_OK && i < count; i++)
        append_line("", remedies[i].sentence, 2, answer);
    free(remedies);
    return code;
}

enum tpp_code tpp_no_plan_append(const struct tpp_job_inputs *inputs, const struct tpp_space_limits *limits,
                                 const struct tpp_found_plans *found, struct tpp_answer *answer, struct tpp_error *err)
{
    size_t count;
    const struct tpp_plan *nearest = tpp_search_nearest(found->search, &count);
    if (count == 0) {
        struct tpp_error refusal;
        find_refusal(inputs, limits, &refusal);
        append_refusal(&refusal, answer);
    } else {
        struct tpp_shortage shortage;
        tpp_shortage_find(&nearest[0], limits->memory_headroom_fraction, &shortage);
        append_line("Nothing fits: ", shortage.sentence, 0, answer);
        tpp_text_append(&answer->text, "\nThe plans that come nearest\n");
        if (!tpp_report_table(nearest, count < NEAREST_SHOWN ? count : NEAREST_SHOWN, answer))
            return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    }
    return append_remedies(inputs, limits, answer, err);
}

static void add_nearest(const struct tpp_plan *nearest, size_t count, const struct tpp_space_limits *limits,
                        struct tpp_json_writer *writer, struct cJSON *parent)
{
    struct tpp_shortage shortage;
    tpp_shortage_find(&nearest[0], limits->memory_headroom_fraction, &shortage);
    struct cJSON *object = tpp_json_add_object(writer, parent, "shortage");
    tpp_json_add_string(writer, object, "message", shortage.sentence);
    tpp_json_add_number(writer, object, "missing_bytes", shortage.missing_bytes);
    tpp_json_add_string(writer, object, "largest_term", tpp_memory_term_name(shortage.largest_term));
    tpp_json_add_number(writer, object, "largest_bytes", shortage.largest_bytes);
    struct cJSON *array = tpp_json_add_array(writer, parent, "nearest");
    for (size_t i = 0; i < count && i < NEAREST_SHOWN; i++)
        tpp_plan_add_json((unsigned)i + 1, &nearest[i].strategy, &nearest[i].cost, writer,
                          tpp_json_add_object(writer, array, NULL));
}

static void add_refusal(const struct tpp_error *refusal, struct tpp_json_writer *writer, struct cJSON *parent)
{
    struct cJSON *object = tpp_json_add_object(writer, parent, "refused");
    tpp_json_add_string(writer, object, "code", tpp_code_name(refusal->code));
    tpp_json_add_string(writer, object, "message", refusal->message);
    tpp_json_add_string(writer, object, "where", refusal->where);
    tpp_json_add_string(writer, object, "hint", refusal->hint);
}

static void add_remedy(const struct tpp_remedy *remedy, struct tpp_json_writer *writer, struct cJSON *array)
{
    struct cJSON *object = tpp_json_add_object(writer, array, NULL);
    tpp_json_add_string(writer, object, "kind", tpp_remedy_name(remedy->kind));
    tpp_json_add_string(writer, object, "message", remedy->sentence);
    tpp_json_add_u64(writer, object, "gpus", remedy->job.num_gpus);
    tpp_json_add_u64(writer, object, "sequence_length", remedy->job.sequence_length);
    tpp_json_add_string(writer, object, "engine", tpp_engine_name(remedy->stack.engine));
    tpp_plan_add_json(1, &remedy->plan.strategy, &remedy->plan.cost, writer,
                      tpp_json_add_object(writer, object, "plan"));
}

enum tpp_code tpp_no_plan_add_json(const struct tpp_job_inputs *inputs, const struct tpp_space_limits *limits,
                                   const struct tpp_found_plans *found, struct tpp_json_writer *writer,
                                   struct cJSON *parent, struct tpp_error *err)
{
    struct tpp_remedy *remedies;
    size_t count, num_remedies;
    const struct tpp_plan *nearest = tpp_search_nearest(found->search, &count);
    if (count > 0) {
        add_nearest(nearest, count, limits, writer, parent);
    } else {
        struct tpp_error refusal;
        find_refusal(inputs, limits, &refusal);
        add_refusal(&refusal, writer, parent);
    }
    const enum tpp_code code = find_remedies(inputs, limits, &remedies, &num_remedies, err);
    struct cJSON *array = tpp_json_add_array(writer, parent, "remedies");
    for (size_t i = 0; code == TPP_OK && i < num_remedies; i++)
        add_remedy(&remedies[i], writer, array);
    free(remedies);
    return code;
}
