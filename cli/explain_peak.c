#include "cli/explain_peak.h"

#include "cli/terminal.h"
#include "costmodel/base/units.h"

#include <stdio.h>

static const char *const phase_names[] = {
    [TPP_TRACE_OUTSIDE] = "start of the step", [TPP_TRACE_FORWARD] = "forward",          [TPP_TRACE_LOSS] = "loss",
    [TPP_TRACE_BACKWARD] = "backward",         [TPP_TRACE_WEIGHT] = "weight gradients", [TPP_TRACE_OPTIMIZER] = "optimizer",
};

enum tpp_code tpp_explained_peak_find(const struct tpp_job_inputs *inputs, const struct tpp_plan *plan,
                                      struct tpp_explained_peak *out, struct tpp_error *err)
{
    struct tpp_evaluator *evaluator = NULL;
    *out = (struct tpp_explained_peak){.is_known = false};
    enum tpp_code code =
        tpp_evaluator_new(&inputs->model, &inputs->hardware, &inputs->job, &inputs->stack, &evaluator, err);
    if (code == TPP_OK)
        code = tpp_peak_find(evaluator, &plan->strategy, plan->cost.memory.worst_stage, &out->peak, &out->reason);
    tpp_evaluator_free(evaluator);
    out->is_known = code == TPP_OK;
    if (code == TPP_E_UNSUPPORTED)
        return TPP_OK;
    if (code != TPP_OK && out->reason.code != TPP_OK && err != NULL)
        *err = out->reason;
    return code;
}

/* "-" when there is none. */
static void put_range(struct tpp_table *table, uint32_t first, uint32_t last)
{
    if (first == UINT32_MAX)
        tpp_table_cell(table, "-");
    else if (first == last)
        tpp_table_cell(table, "%u", first);
    else
        tpp_table_cell(table, "%u-%u", first, last);
}

static const struct tpp_table_column columns[] = {
    {"TENSOR", true, 0}, {"BYTES", false, 0}, {"SHARE", false, 2}, {"COUNT", false, 0},
    {"LARGEST", false, 1}, {"LAYERS", false, 0}, {"MICRO-BATCHES", false, 0},
};

static void put_row(struct tpp_table *table, const struct tpp_peak *peak, const struct tpp_peak_tensors *tensors)
{
    char buffer[32];
    tpp_table_cell(table, "%s", tensors->name);
    tpp_table_cell(table, "%s", tpp_format_bytes(buffer, sizeof buffer, (double)tensors->bytes));
    tpp_table_cell(table, "%.1f %%", 100 * (double)tensors->bytes / (double)peak->alive_bytes);
    tpp_table_cell(table, "%u", tensors->count);
    tpp_table_cell(table, "%s", tpp_format_bytes(buffer, sizeof buffer, (double)tensors->largest_bytes));
    put_range(table, tensors->first_layer, tensors->last_layer);
    put_range(table, tensors->first_micro_batch, tensors->last_micro_batch);
}

static bool is_in_a_pass(const struct tpp_peak *peak)
{
    return peak->phase != TPP_TRACE_OUTSIDE && peak->phase != TPP_TRACE_OPTIMIZER;
}

/* "Alive at the peak of stage 0, in step 2, micro-batch 3, layer 7, backward: 61.20 GiB" */
static void append_moment(const struct tpp_peak *peak, struct tpp_answer *answer)
{
    char line[256], alive[32], micro_batch[32] = "", layer[32] = "";
    if (is_in_a_pass(peak))
        snprintf(micro_batch, sizeof micro_batch, ", micro-batch %u", peak->micro_batch);
    if (peak->layer != TPP_TRACE_NO_LAYER)
        snprintf(layer, sizeof layer, ", layer %u", peak->layer);
    snprintf(line, sizeof line, "Alive at the peak of stage %u, in step %u%s%s, %s: %s", peak->stage, peak->step, micro_batch,
             layer, phase_names[peak->phase], tpp_format_bytes(alive, sizeof alive, (double)peak->alive_bytes));
    tpp_terminal_append_wrapped(&answer->text, line, 0, 0, answer->width);
}

bool tpp_explained_peak_append(const struct tpp_explained_peak *explained, struct tpp_answer *answer)
{
    const struct tpp_peak *peak = &explained->peak;
    char line[400], other[32];
    if (!explained->is_known) {
        snprintf(line, sizeof line, "Tensors alive at the peak: not known, %s", explained->reason.message);
        tpp_terminal_append_wrapped(&answer->text, line, 0, 0, answer->width);
        return true;
    }
    append_moment(peak, answer);
    struct tpp_table *table = tpp_table_new(columns, sizeof columns / sizeof columns[0]);
    for (uint32_t i = 0; i < peak->count && table != NULL; i++)
        put_row(table, peak, &peak->tensors[i]);
    const bool done = table != NULL && tpp_table_append(table, answer->width, &answer->text);
    tpp_table_free(table);
    if (peak->num_other_names > 0)
        tpp_text_format(&answer->text, "%s in tensors of %u more name%s\n",
                        tpp_format_bytes(other, sizeof other, (double)peak->other_bytes), peak->num_other_names,
                        peak->num_other_names == 1 ? "" : "s");
    return done;
}

static void add_range(struct tpp_json_writer *writer, struct cJSON *parent, const char *key, uint32_t first, uint32_t last)
{
    if (first == UINT32_MAX) {
        tpp_json_add_null(writer, parent, key);
        return;
    }
    struct cJSON *range = tpp_json_add_array(writer, parent, key);
    tpp_json_add_u64(writer, range, NULL, first);
    tpp_json_add_u64(writer, range, NULL, last);
}

static void add_index(struct tpp_json_writer *writer, struct cJSON *parent, const char *key, bool is_known, uint32_t value)
{
    if (is_known)
        tpp_json_add_u64(writer, parent, key, value);
    else
        tpp_json_add_null(writer, parent, key);
}

void tpp_explained_peak_add_json(const struct tpp_explained_peak *explained, struct tpp_json_writer *writer,
                                 struct cJSON *parent)
{
    const struct tpp_peak *peak = &explained->peak;
    if (!explained->is_known) {
        tpp_json_add_null(writer, parent, "peak");
        return;
    }
    struct cJSON *object = tpp_json_add_object(writer, parent, "peak");
    tpp_json_add_u64(writer, object, "stage", peak->stage);
    tpp_json_add_u64(writer, object, "step", peak->step);
    tpp_json_add_string(writer, object, "phase", phase_names[peak->phase]);
    add_index(writer, object, "micro_batch", is_in_a_pass(peak), peak->micro_batch);
    add_index(writer, object, "layer", peak->layer != TPP_TRACE_NO_LAYER, peak->layer);
    tpp_json_add_u64(writer, object, "alive_bytes", peak->alive_bytes);
    struct cJSON *list = tpp_json_add_array(writer, object, "tensors");
    for (uint32_t i = 0; i < peak->count; i++) {
        const struct tpp_peak_tensors *tensors = &peak->tensors[i];
        struct cJSON *row = tpp_json_add_object(writer, list, NULL);
        tpp_json_add_string(writer, row, "name", tensors->name);
        tpp_json_add_u64(writer, row, "bytes", tensors->bytes);
        tpp_json_add_u64(writer, row, "largest_bytes", tensors->largest_bytes);
        tpp_json_add_u64(writer, row, "count", tensors->count);
        add_range(writer, row, "layers", tensors->first_layer, tensors->last_layer);
        add_range(writer, row, "micro_batches", tensors->first_micro_batch, tensors->last_micro_batch);
    }
    tpp_json_add_u64(writer, object, "other_names", peak->num_other_names);
    tpp_json_add_u64(writer, object, "other_bytes", peak->other_bytes);
}
