#include "cli/answer.h"
#include "cli/command.h"
#include "costmodel/base/file.h"
#include "costmodel/runs/run_reader.h"
#include "costmodel/runs/run_report.h"

#include <stdlib.h>

struct validate_arguments {
    const char *html;
    bool all, rows, simulate, json;
};

#define ARG(field) offsetof(struct validate_arguments, field)

static const struct tpp_option validate_options[] = {
    {"all", 'a', TPP_OPTION_FLAG, ARG(all),
     .help = "predict the runs that are incomplete, suspect or measured again later too"},
    {"rows", 'r', TPP_OPTION_FLAG, ARG(rows), .help = "show every run, not only the figures by file"},
    {"simulate", 0, TPP_OPTION_FLAG, ARG(simulate), .help = "simulate every step as events instead of estimating it"},
    {"html", 0, TPP_OPTION_TEXT, ARG(html), "FILE",
     .help = "write a page with the tables and a picture of predicted against measured times"},
    {"json", 0, TPP_OPTION_FLAG, ARG(json), .help = "print one JSON object"},
    {.name = NULL},
};
static const struct tpp_option_part validate_parts[] = {{"What to show", validate_options, 0}, {NULL}};

struct validation {
    struct tpp_run_profiles profiles;
    struct tpp_runs runs;
    struct tpp_run_prediction *predictions; /* owned; one a run */
    struct tpp_run_report report;
};

static enum tpp_code load(struct validation *validation, const struct tpp_operands *files, bool all,
                          struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    for (size_t i = 0; i < files->count && code == TPP_OK; i++)
        code = tpp_runs_load(files->items[i], &validation->profiles, &validation->runs, err);
    if (code == TPP_OK && !all)
        tpp_runs_keep_default_subset(&validation->runs);
    return code;
}

static enum tpp_code predict(struct validation *validation, enum tpp_run_method method, struct tpp_error *err)
{
    const size_t count = validation->runs.count;
    enum tpp_code code = TPP_OK;
    validation->predictions = calloc(count > 0 ? count : 1, sizeof *validation->predictions);
    if (validation->predictions == NULL)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    for (size_t i = 0; i < count && code == TPP_OK; i++)
        code = tpp_run_predict(&validation->runs.items[i], &validation->profiles, method, &validation->predictions[i],
                               err);
    return code != TPP_OK
               ? code
               : tpp_run_report_make(validation->runs.items, validation->predictions, count, &validation->report, err);
}

static enum tpp_code show(const struct validation *validation, const struct validate_arguments *arguments,
                          struct tpp_answer *answer, struct tpp_error *err)
{
    const struct tpp_run *runs = validation->runs.items;
    const size_t count = validation->runs.count;
    if (arguments->json) {
        struct tpp_json_writer writer;
        tpp_answer_begin(&writer);
        tpp_run_report_add_json(&validation->report, runs, validation->predictions, count, &writer, writer.root);
        return tpp_answer_finish(&writer, answer, err);
    }
    if (arguments->rows) {
        tpp_run_rows_append_text(runs, validation->predictions, count, &answer->text);
        tpp_text_append(&answer->text, "\n");
    }
    tpp_run_report_append_text(&validation->report, &answer->text);
    return TPP_OK;
}

static enum tpp_code write_html(const struct validation *validation, const char *path, struct tpp_error *err)
{
    struct tpp_text html;
    tpp_text_init(&html);
    tpp_run_report_append_html(&validation->report, validation->runs.items, validation->predictions,
                               validation->runs.count, &html);
    const enum tpp_code code = tpp_text_failed(&html)
                                   ? tpp_fail(err, TPP_E_MEMORY, "--html", NULL, "out of memory for the page")
                                   : tpp_file_write(path, tpp_text_get(&html), html.length, 0644, err);
    tpp_text_release(&html);
    return code;
}

static enum tpp_code run(const void *data, const struct tpp_operands *operands, struct tpp_answer *answer,
                         struct tpp_error *err)
{
    const struct validate_arguments *arguments = data;
    struct validation validation = {.predictions = NULL};
    enum tpp_code code = load(&validation, operands, arguments->all, err);
    if (code == TPP_OK)
        code = predict(&validation, arguments->simulate ? TPP_RUN_SIMULATE : TPP_RUN_ESTIMATE, err);
    if (code == TPP_OK)
        code = show(&validation, arguments, answer, err);
    if (code == TPP_OK && arguments->html != NULL)
        code = write_html(&validation, arguments->html, err);
    tpp_run_report_release(&validation.report);
    free(validation.predictions);
    tpp_runs_release(&validation.runs);
    tpp_run_profiles_release(&validation.profiles);
    return code;
}

const struct tpp_command tpp_command_validate = {
    .name = "validate",
    .summary = "predict measured runs and report the errors",
    .about =
        "Predicts measured training runs, one JSON object a line, and reports the errors of step time and memory, the "
        "fit verdicts and the order of plans, by file, GPU and framework, beside what one MFU for each GPU type would "
        "say. "
        "Runs that cannot be predicted are listed with the reason.",
    .operands = "RUNS.jsonl...",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .parts = validate_parts,
    .examples = {{"tp-plan validate my-runs.jsonl --rows", "how far off the predictions of my own runs are"},
                 {"tp-plan validate runs/*.jsonl --html=errors.html", "published runs, as a page for the browser"}},
    .arguments_size = sizeof(struct validate_arguments),
    .run = run,
};
