#include "cli/report.h"

#include "cli/terminal.h"
#include "costmodel/base/units.h"
#include "costmodel/sequence_lengths.h"
#include "planner/advise.h"

#include <stdio.h>
#include <string.h>

#define LABEL_WIDTH 22

static const char *seconds(char *buffer, size_t size, double value)
{
    return tpp_format_seconds(buffer, size, value);
}

/* Of lengths that differ. */
static void append_lengths(const struct tpp_job *job, struct tpp_text *out)
{
    char mean[32];
    if (tpp_job_pads(job))
        tpp_text_format(out, "%s on average, padded to the longest of a micro-batch, ",
                        tpp_format_count(mean, sizeof mean, (uint64_t)(tpp_job_useful_tokens(job) + 0.5)));
    else if (job->num_lengths > 0)
        tpp_text_format(out, "%.1f %% full, with attention inside documents, ", 100 * job->packed_fraction);
}

void tpp_report_job(const struct tpp_job_inputs *inputs, struct tpp_text *out)
{
    char length[32], batch[32];
    const uint32_t per_node = inputs->hardware.node.num_gpus, num_gpus = inputs->job.num_gpus;
    tpp_terminal_append(out, inputs->model.name);
    if (num_gpus >= per_node)
        tpp_text_format(out, " on %u node%s of ", num_gpus / per_node, num_gpus == per_node ? "" : "s");
    else
        tpp_text_append(out, " on a part of one node of ");
    tpp_terminal_append(out, inputs->hardware.name);
    tpp_text_format(out, " (%u GPU%s)\n", num_gpus, num_gpus == 1 ? "" : "s");
    tpp_text_format(out, "%s, %s, %s of %s tokens, ", tpp_task_name(inputs->job.task),
                    tpp_precision_name(inputs->job.precision), inputs->job.packed_fraction > 0 ? "packs" : "sequences",
                    tpp_format_count(length, sizeof length, inputs->job.sequence_length));
    append_lengths(&inputs->job, out);
    tpp_text_format(out, "%s a step, ", tpp_format_count(batch, sizeof batch, inputs->job.global_batch_size));
    tpp_text_append(out, tpp_framework_name(inputs->stack.framework));
    if (inputs->stack.release[0] != '\0') {
        tpp_text_append(out, " ");
        tpp_terminal_append(out, inputs->stack.release);
    }
    tpp_text_format(out, ", attention %s\n", tpp_attention_kernel_name(inputs->stack.attention));
}

static void append_label(struct tpp_text *out, const char *label)
{
    tpp_text_format(out, "%-*s", LABEL_WIDTH, label);
}

static void append_time(const struct tpp_cost *cost, struct tpp_text *out)
{
    char step[32], low[32], high[32], tokens[32], rate[32];
    append_label(out, "step time");
    tpp_text_format(out, "%s (90 %% interval %s to %s)\n", seconds(step, sizeof step, cost->step_seconds),
                    seconds(low, sizeof low, cost->step_seconds_low),
                    seconds(high, sizeof high, cost->step_seconds_high));
    append_label(out, "throughput");
    tpp_text_format(out, "%s tokens/s/GPU, %s/GPU, %.1f %% of the peak (MFU, attention counted in full)\n",
                    tpp_format_count(tokens, sizeof tokens, (uint64_t)(cost->tokens_per_second_per_gpu + 0.5)),
                    tpp_format_flops_rate(rate, sizeof rate, cost->model_flops_per_second_per_gpu),
                    100 * cost->model_flops_utilization);
    if (cost->useful_token_fraction < 1) {
        append_label(out, "useful tokens");
        tpp_text_format(out, "%.1f %% of %s that are computed for a sequence, the rest is padding\n",
                        100 * cost->useful_token_fraction,
                        tpp_format_count(tokens, sizeof tokens, (uint64_t)(cost->computed_sequence_tokens + 0.5)));
    }
    append_label(out, "pipeline bubble");
    tpp_text_format(out, "%.1f %%", 100 * cost->bubble_fraction);
    if (cost->uneven_seconds > 0)
        tpp_text_format(out, ", %s of it because micro-batches differ in length",
                        seconds(step, sizeof step, cost->uneven_seconds));
    tpp_text_append(out, "\n");
    append_label(out, "exposed communication");
    tpp_text_format(out, "%.1f %% of the step\n", 100 * cost->exposed_communication_fraction);
}

static void append_memory(const struct tpp_memory *memory, struct tpp_text *out)
{
    char total[32], capacity[32], allocated[32], reserved[32], host[32];
    append_label(out, "memory");
    tpp_text_format(out, "%s of %s on the fullest GPU: %s\n",
                    tpp_format_bytes(total, sizeof total, memory->device_total_bytes),
                    tpp_format_bytes(capacity, sizeof capacity, memory->capacity_bytes), tpp_fit_name(memory->fit));
    append_label(out, "");
    tpp_text_format(out, "peak allocated %s, reserved %s, out-of-memory probability %.1f %%\n",
                    tpp_format_bytes(allocated, sizeof allocated, memory->peak_allocated_bytes),
                    tpp_format_bytes(reserved, sizeof reserved, memory->peak_reserved_bytes),
                    100 * memory->out_of_memory_probability);
    if (memory->host_bytes > 0) {
        append_label(out, "host memory");
        tpp_text_format(out, "%s a node\n", tpp_format_bytes(host, sizeof host, memory->host_bytes));
    }
}

void tpp_report_plan(const struct tpp_strategy *strategy, const struct tpp_cost *cost, struct tpp_answer *answer)
{
    struct tpp_text text;
    tpp_text_init(&text);
    tpp_strategy_format(strategy, &text);
    append_label(&answer->text, "strategy");
    tpp_text_append(&answer->text, tpp_text_get(&text));
    tpp_text_append(&answer->text, "\n");
    answer->text.failed = answer->text.failed || tpp_text_failed(&text);
    tpp_text_release(&text);
    append_time(cost, &answer->text);
    append_memory(&cost->memory, &answer->text);
}

static bool finish_table(struct tpp_table *table, struct tpp_answer *answer)
{
    const bool done = table != NULL && tpp_table_append(table, answer->width, &answer->text);
    tpp_table_free(table);
    return done;
}

static const struct tpp_table_column stage_columns[] = {
    {"STAGE", false, 0},     {"LAYERS", false, 0},   {"PARAMETERS", false, 3},
    {"FORWARD", false, 1},   {"BACKWARD", false, 1}, {"RECOMPUTE", false, 2},
    {"IN FLIGHT", false, 4}, {"MEMORY", false, 0},   {"", true, 0},
};

bool tpp_report_stages(const struct tpp_stage_cost *stages, size_t num_stages, struct tpp_answer *answer)
{
    struct tpp_table *table = tpp_table_new(stage_columns, sizeof stage_columns / sizeof stage_columns[0]);
    for (size_t i = 0; i < num_stages && table != NULL; i++) {
        char buffer[32];
        tpp_table_cell(table, "%zu", i);
        tpp_table_cell(table, "%u", stages[i].num_layers);
        tpp_table_cell(table, "%s", tpp_format_count(buffer, sizeof buffer, stages[i].parameters));
        tpp_table_cell(table, "%s", seconds(buffer, sizeof buffer, stages[i].forward_seconds));
        tpp_table_cell(table, "%s", seconds(buffer, sizeof buffer, stages[i].backward_seconds));
        tpp_table_cell(table, "%s", seconds(buffer, sizeof buffer, stages[i].recompute_seconds));
        tpp_table_cell(table, "%.3g", stages[i].in_flight_micro_batches);
        tpp_table_cell(table, "%s", tpp_format_bytes(buffer, sizeof buffer, stages[i].memory.device_total_bytes));
        tpp_table_cell(table, "%s", stages[i].memory.fit == TPP_FIT_FITS ? "" : tpp_fit_name(stages[i].memory.fit));
    }
    return finish_table(table, answer);
}

/* One column of the plan table: a cell from a plan. */
struct plan_column {
    struct tpp_table_column column;
    void (*append)(struct tpp_table *table, const struct tpp_plan *plan);
    /* The value that is left out when all plans have it (0: always shown). */
    uint32_t usual;
    uint32_t (*value)(const struct tpp_strategy *strategy);
};

#define SIZE_COLUMN(function, field)                                                                                   \
    static uint32_t function(const struct tpp_strategy *strategy)                                                      \
    {                                                                                                                  \
        return (uint32_t)strategy->field;                                                                              \
    }
SIZE_COLUMN(tensor_of, tensor_parallel)
SIZE_COLUMN(pipeline_of, pipeline_parallel)
SIZE_COLUMN(virtual_of, virtual_pipeline_stages)
SIZE_COLUMN(context_of, context_parallel)
SIZE_COLUMN(expert_of, expert_parallel)
SIZE_COLUMN(data_of, data_parallel)
SIZE_COLUMN(zero_of, zero_stage)
SIZE_COLUMN(micro_batch_of, micro_batch_size)

static void append_micro_batches(struct tpp_table *table, const struct tpp_plan *plan)
{
    tpp_table_cell(table, "%llu", (unsigned long long)plan->strategy.num_micro_batches);
}

static void append_modules(struct tpp_table *table, uint32_t modules)
{
    char cell[96] = "";
    size_t used = 0;
    for (uint32_t bit = 1; bit <= TPP_MODULE_ALL; bit <<= 1)
        if (modules & bit)
            used += (size_t)snprintf(cell + used, sizeof cell - used, "%s%s", used > 0 ? "+" : "",
                                     tpp_recompute_module_name(bit));
    tpp_table_cell(table, "%s", cell);
}

static void append_recompute(struct tpp_table *table, const struct tpp_plan *plan)
{
    const struct tpp_strategy *strategy = &plan->strategy;
    if (strategy->recompute_modules != 0) {
        append_modules(table, strategy->recompute_modules);
        return;
    }
    if (strategy->recompute == TPP_RECOMPUTE_FULL && strategy->recompute_method == TPP_RECOMPUTE_BLOCK &&
        strategy->recompute_num_layers > 0)
        tpp_table_cell(table, "full:%u", strategy->recompute_num_layers);
    else
        tpp_table_cell(table, "%s", tpp_recompute_name(strategy->recompute));
}

static void append_sharding(const struct tpp_strategy *strategy, char *cell, size_t size)
{
    size_t used = strlen(cell);
    if (strategy->shard_group > 0)
        used += (size_t)snprintf(cell + used, size - used, " shard:%u", strategy->shard_group);
    if (strategy->zero_stage == 3 && !strategy->reshard_after_forward && used < size)
        snprintf(cell + used, size - used, " keep-weights");
}

static void append_offload(const struct tpp_strategy *strategy, char *cell, size_t size)
{
    size_t used = strlen(cell);
    if (strategy->offload_percent > 0)
        used += (size_t)snprintf(cell + used, size - used, ":%u%%", strategy->offload_percent);
    if (strategy->offload_layers > 0 && used < size)
        snprintf(cell + used, size - used, " act-offload:%u", strategy->offload_layers);
}

/* Everything else that tells two plans apart: what is on, and how the layers are split. */
static void append_extras(struct tpp_table *table, const struct tpp_plan *plan)
{
    const struct tpp_strategy *strategy = &plan->strategy;
    char cell[160] = "", first[24] = "", last[24] = "";
    if (strategy->first_stage_layers > 0)
        snprintf(first, sizeof first, " first:%u", strategy->first_stage_layers);
    if (strategy->last_stage_layers > 0)
        snprintf(last, sizeof last, " last:%u", strategy->last_stage_layers);
    /* 1f1b and interleaved are seen in VP. */
    const bool is_named = strategy->pipeline_parallel > 1 && strategy->schedule != TPP_SCHEDULE_1F1B &&
                          strategy->schedule != TPP_SCHEDULE_INTERLEAVED;
    snprintf(cell, sizeof cell, "%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s", is_named ? " " : "",
             is_named ? tpp_schedule_name(strategy->schedule) : "", strategy->sequence_parallel ? " sp" : "",
             strategy->context_parallel > 1 ? " " : "",
             strategy->context_parallel > 1 ? tpp_context_kind_name(strategy->context_kind) : "",
             strategy->tp_comm_overlap ? " tp-overlap" : "", strategy->dispatch != TPP_DISPATCH_ALL_TO_ALL ? " " : "",
             strategy->dispatch != TPP_DISPATCH_ALL_TO_ALL ? tpp_dispatch_name(strategy->dispatch) : "",
             strategy->expert_overlap ? " ep-overlap" : "", strategy->shared_overlap ? " shared-overlap" : "", first, last,
             strategy->account_for_embedding ? " +emb" : "", strategy->account_for_loss ? " +loss" : "",
             strategy->offload == TPP_OFFLOAD_OPTIMIZER ? " offload" : "");
    append_offload(strategy, cell, sizeof cell);
    append_sharding(strategy, cell, sizeof cell);
    tpp_table_cell(table, "%s", cell[0] == ' ' ? cell + 1 : cell);
}

static void append_step(struct tpp_table *table, const struct tpp_plan *plan)
{
    char buffer[32];
    tpp_table_cell(table, "%s", seconds(buffer, sizeof buffer, plan->cost.step_seconds));
}

static void append_interval(struct tpp_table *table, const struct tpp_plan *plan)
{
    tpp_table_cell(table, "%.4g-%.4g", plan->cost.step_seconds_low, plan->cost.step_seconds_high);
}

static void append_tokens(struct tpp_table *table, const struct tpp_plan *plan)
{
    tpp_table_cell(table, "%.0f", plan->cost.tokens_per_second_per_gpu);
}

static void append_utilization(struct tpp_table *table, const struct tpp_plan *plan)
{
    tpp_table_cell(table, "%.1f%%", 100 * plan->cost.model_flops_utilization);
}

static void append_bubble(struct tpp_table *table, const struct tpp_plan *plan)
{
    tpp_table_cell(table, "%.1f%%", 100 * plan->cost.bubble_fraction);
}

static void append_communication(struct tpp_table *table, const struct tpp_plan *plan)
{
    tpp_table_cell(table, "%.1f%%", 100 * plan->cost.exposed_communication_fraction);
}

static void append_device_memory(struct tpp_table *table, const struct tpp_plan *plan)
{
    char buffer[32];
    tpp_table_cell(table, "%s%s", tpp_format_bytes(buffer, sizeof buffer, plan->cost.memory.device_total_bytes),
                   plan->cost.memory.fit == TPP_FIT_FITS ? "" : " !");
}

static const struct plan_column plan_columns[] = {
    {{"TP", false, 0}, NULL, 0, tensor_of},
    {{"PP", false, 0}, NULL, 0, pipeline_of},
    {{"VP", false, 0}, NULL, 1, virtual_of},
    {{"CP", false, 0}, NULL, 1, context_of},
    {{"EP", false, 0}, NULL, 1, expert_of},
    {{"DP", false, 0}, NULL, 0, data_of},
    {{"ZERO", false, 0}, NULL, 0, zero_of},
    {{"MBS", false, 0}, NULL, 0, micro_batch_of},
    {{"MICRO-BATCHES", false, 8}, append_micro_batches, 0, NULL},
    {{"RECOMPUTE", true, 1}, append_recompute, 0, NULL},
    {{"WITH", true, 1}, append_extras, 0, NULL},
    {{"STEP", false, 0}, append_step, 0, NULL},
    {{"INTERVAL s", false, 9}, append_interval, 0, NULL},
    {{"TOKENS/S/GPU", false, 7}, append_tokens, 0, NULL},
    {{"MFU", false, 3}, append_utilization, 0, NULL},
    {{"BUBBLE", false, 5}, append_bubble, 0, NULL},
    {{"COMM", false, 4}, append_communication, 0, NULL},
    {{"MEMORY", false, 0}, append_device_memory, 0, NULL},
};
#define NUM_PLAN_COLUMNS (sizeof plan_columns / sizeof plan_columns[0])

static bool is_shown(const struct plan_column *column, const struct tpp_plan *plans, size_t num_plans)
{
    if (column->value == NULL || column->usual == 0)
        return true;
    for (size_t i = 0; i < num_plans; i++) {
        if (column->value(&plans[i].strategy) != column->usual)
            return true;
    }
    return false;
}

static void append_plan_row(struct tpp_table *table, const struct plan_column *const *shown, size_t num_shown,
                            size_t rank, const struct tpp_plan *plan)
{
    tpp_table_cell(table, "%zu", rank);
    for (size_t i = 0; i < num_shown; i++) {
        if (shown[i]->append != NULL)
            shown[i]->append(table, plan);
        else
            tpp_table_cell(table, "%u", shown[i]->value(&plan->strategy));
    }
}

bool tpp_report_table(const struct tpp_plan *plans, size_t num_plans, struct tpp_answer *answer)
{
    struct tpp_table_column columns[NUM_PLAN_COLUMNS + 1] = {{"#", false, 0}};
    const struct plan_column *shown[NUM_PLAN_COLUMNS];
    size_t num_shown = 0;
    for (size_t i = 0; i < NUM_PLAN_COLUMNS; i++) {
        if (is_shown(&plan_columns[i], plans, num_plans)) {
            shown[num_shown++] = &plan_columns[i];
            columns[num_shown] = plan_columns[i].column;
        }
    }
    struct tpp_table *table = tpp_table_new(columns, num_shown + 1);
    for (size_t i = 0; i < num_plans && table != NULL; i++)
        append_plan_row(table, shown, num_shown, i + 1, &plans[i]);
    return finish_table(table, answer);
}

/* A sentence of the planner, which begins in lower case. */
static void append_sentence(const char *sentence, struct tpp_answer *answer)
{
    char line[300];
    snprintf(line, sizeof line, "%s.", sentence);
    if (line[0] >= 'a' && line[0] <= 'z')
        line[0] = (char)(line[0] - 'a' + 'A');
    tpp_text_append(&answer->text, "  ");
    tpp_terminal_append_wrapped(&answer->text, line, 2, 2, answer->width);
}

void tpp_report_reasons(const struct tpp_plan *plans, const struct tpp_simulated_plan *simulated, size_t num_plans,
                        struct tpp_answer *answer)
{
    struct tpp_reasons reasons;
    tpp_reasons_find(plans, simulated, num_plans, &reasons);
    tpp_text_append(&answer->text, "Why the first one wins\n");
    append_sentence(reasons.winner, answer);
    if (reasons.has_runner_up)
        append_sentence(reasons.runner_up, answer);
    if (reasons.num_equal > 1)
        append_sentence(reasons.equal, answer);
}

void tpp_reasons_add_json(const struct tpp_plan *plans, const struct tpp_simulated_plan *simulated, size_t num_plans,
                          struct tpp_json_writer *writer, struct cJSON *parent)
{
    struct tpp_reasons reasons;
    tpp_reasons_find(plans, simulated, num_plans, &reasons);
    struct cJSON *object = tpp_json_add_object(writer, parent, "reasons");
    tpp_json_add_string(writer, object, "winner", reasons.winner);
    tpp_json_add_string(writer, object, "binding", tpp_binding_name(reasons.binding));
    tpp_json_add_string(writer, object, "largest_loss", tpp_binding_name(reasons.loss));
    tpp_json_add_number(writer, object, "device_memory_fraction", reasons.device_memory_fraction);
    struct cJSON *fractions = tpp_json_add_object(writer, object, "fractions");
    for (int i = 0; i < TPP_BINDING_COUNT; i++)
        tpp_json_add_number(writer, fractions, tpp_binding_name((enum tpp_binding)i), reasons.fractions[i]);
    tpp_json_add_u64(writer, object, "num_equal", reasons.num_equal);
    if (reasons.num_equal > 1)
        tpp_json_add_string(writer, object, "equal", reasons.equal);
    if (!reasons.has_runner_up)
        return;
    tpp_json_add_string(writer, object, "runner_up", reasons.runner_up);
    tpp_json_add_number(writer, object, "runner_up_loss_seconds", reasons.runner_up_loss_seconds);
    tpp_json_add_number(writer, object, "runner_up_loss_fraction", reasons.runner_up_loss_fraction);
    tpp_json_add_string(writer, object, "runner_up_term", tpp_time_term_name(reasons.runner_up_term));
    tpp_json_add_number(writer, object, "runner_up_term_seconds", reasons.runner_up_term_seconds);
}
