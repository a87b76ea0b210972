#include "cli/check_report.h"

#include "cli/check_config.h"

#include "cli/answer.h"
#include "cli/check_compare.h"
#include "cli/launch_script.h"
#include "cli/plan_json.h"
#include "cli/report.h"
#include "cli/risks.h"
#include "cli/terminal.h"
#include "costmodel/base/file.h"

#include <stdio.h>

const char *tpp_check_verdict(const struct tpp_check *check)
{
    if (tpp_problems_have(&check->problems, TPP_SEVERITY_ERROR))
        return "fail";
    return tpp_problems_have(&check->problems, TPP_SEVERITY_WARNING) ? "warn" : "ok";
}

static void format_where(const struct tpp_check *check, const struct tpp_problem *problem, char *where, size_t size)
{
    if (problem->line > 0)
        snprintf(where, size, "%s:%u", check->file, problem->line);
    else
        snprintf(where, size, "%s", check->file);
}

static void append_problem(const struct tpp_check *check, const struct tpp_problem *problem, struct tpp_answer *answer)
{
    char line[1400], where[600];
    format_where(check, problem, where, sizeof where);
    snprintf(line, sizeof line, "%s %s at %s: %s%s%s", tpp_severity_name(problem->severity), problem->code, where,
             problem->message, problem->hint[0] != '\0' ? "; " : "", problem->hint);
    tpp_text_append(&answer->text, "  ");
    tpp_terminal_append_wrapped(&answer->text, line, 2, 4, answer->width);
}

void tpp_check_append(const struct tpp_check *check, struct tpp_answer *answer)
{
    struct tpp_text *out = &answer->text;
    tpp_terminal_append(out, check->file);
    tpp_text_format(out, ": %s\n", tpp_check_verdict(check));
    for (size_t i = 0; i < check->problems.count; i++)
        append_problem(check, &check->problems.items[i], answer);
    if (check->has_plan) {
        tpp_text_append(out, "\n");
        tpp_report_job(&check->inputs, out);
        tpp_text_append(out, "\n");
        tpp_report_plan(&check->plan.strategy, &check->plan.cost, answer);
    }
    if (check->has_measured) {
        tpp_text_append(out, "\n");
        tpp_measured_append(&check->measured, answer);
    }
    if (check->has_better) {
        tpp_text_append(out, "\nBetter plan for the same GPUs\n");
        tpp_report_plan(&check->better.strategy, &check->better.cost, answer);
    }
}

/* ---- JSON ---- */

static void add_problems(const struct tpp_check *check, struct tpp_json_writer *writer)
{
    struct cJSON *array = tpp_json_add_array(writer, writer->root, "problems");
    for (size_t i = 0; i < check->problems.count; i++) {
        const struct tpp_problem *problem = &check->problems.items[i];
        char where[600];
        struct cJSON *object = tpp_json_add_object(writer, array, NULL);
        format_where(check, problem, where, sizeof where);
        tpp_json_add_string(writer, object, "code", problem->code);
        tpp_json_add_string(writer, object, "severity", tpp_severity_name(problem->severity));
        tpp_json_add_string(writer, object, "message", problem->message);
        tpp_json_add_string(writer, object, "hint", problem->hint);
        tpp_json_add_string(writer, object, "where", where);
    }
}

static void add_script(const struct tpp_check *check, struct tpp_json_writer *writer)
{
    static const char *const launchers[] = {"torchrun", "deepspeed", "megatron", "swift", "accelerate", "python"};
    const struct tpp_launch_line *line = &check->line;
    struct cJSON *object = tpp_json_add_object(writer, writer->root, "script");
    tpp_json_add_string(writer, object, "file", check->file);
    tpp_json_add_u64(writer, object, "line", line->command != NULL ? line->command->line : 1);
    tpp_json_add_string(writer, object, "framework", tpp_framework_name(check->framework));
    tpp_json_add_string(writer, object, "framework_version",
                        tpp_check_has_config(check->framework) ? NULL : tpp_release_name(check->release));
    tpp_json_add_string(writer, object, "launcher", line->command != NULL ? launchers[line->launcher] : NULL);
    tpp_json_add_string(writer, object, "entry", line->entry);
    if (check->is_world_known)
        tpp_json_add_u64(writer, object, "world_size", (uint64_t)check->settings.rules.world_size);
    else
        tpp_json_add_null(writer, object, "world_size");
}

struct number {
    const char *name;
    int64_t value;
};

static void add_numbers(const struct number *numbers, size_t count, struct tpp_json_writer *writer,
                        struct cJSON *object)
{
    for (size_t i = 0; i < count; i++) {
        if (numbers[i].value != TPP_RULE_UNSET)
            tpp_json_add_number(writer, object, numbers[i].name, (double)numbers[i].value);
    }
}

/* Of the model; 0 where an option that must be there is not. */
static void add_shape(const struct tpp_check *check, struct tpp_json_writer *writer, struct cJSON *object)
{
    const struct tpp_rule_settings *rules = &check->settings.rules;
    const bool is_deepspeed = rules->framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED;
    const struct number numbers[] = {
        {"num_layers", rules->num_layers},
        {"hidden_size", rules->hidden_size},
        {"ffn_hidden_size", rules->ffn_hidden_size},
        {"num_attention_heads", rules->num_attention_heads},
        {"num_query_groups", rules->group_query_attention ? rules->num_query_groups : TPP_RULE_UNSET},
        {"num_experts", rules->num_experts == TPP_RULE_UNSET && is_deepspeed ? 1 : rules->num_experts},
        {"experts_per_token", rules->num_experts != TPP_RULE_UNSET ? rules->experts_per_token : TPP_RULE_UNSET},
    };
    for (size_t i = 0; !check->is_shape_assumed && i < sizeof numbers / sizeof *numbers; i++)
        add_numbers(&numbers[i], numbers[i].value != 0, writer, object);
    const struct number length = {"sequence_length", rules->sequence_length};
    add_numbers(&length, !check->is_length_assumed && length.value != 0, writer, object);
}

/* What the script sets, also where no plan can be made of it; what it leaves out, and what only the name of a model
 * says that is not known, is not there. */
static void add_settings(const struct tpp_check *check, struct tpp_json_writer *writer)
{
    static const char *const granularities[] = {"none", "selective", "full"};
    static const char *const methods[] = {"none", "uniform", "block"};
    static const char *const fp8[] = {"none", "e4m3", "hybrid"};
    static const char *const recipes[] = {"delayed", "tensorwise", "mxfp8", "blockwise", "custom"};
    const struct tpp_rule_settings *rules = &check->settings.rules;
    const bool has_zero = rules->framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED ||
                          rules->framework == TPP_FRAMEWORK_NANOTRON || rules->engine_follows_stages;
    const struct number numbers[] = {
        {"tensor_parallel", rules->tensor_parallel},
        {"pipeline_parallel", rules->pipeline_parallel},
        {"context_parallel", rules->context_parallel},
        {"expert_parallel", rules->expert_parallel},
        {"expert_tensor_parallel", rules->expert_tensor_parallel},
        {"layers_per_virtual_stage", rules->layers_per_virtual_stage},
        {"virtual_stages_per_rank", rules->virtual_stages_per_rank},
        {"micro_batch_size", rules->micro_batch_size},
        {"global_batch_size", rules->global_batch_size},
        {"zero_stage", has_zero ? rules->zero_stage : TPP_RULE_UNSET},
        {"first_stage_layers", rules->first_stage_layers},
        {"last_stage_layers", rules->last_stage_layers},
        {"recompute_num_layers", rules->recompute_num_layers},
        {"rampup_start", rules->rampup_start},
        {"rampup_increment", rules->rampup_increment},
    };
    if (rules->world_size == 0) { /* a configuration of which too little could be read */
        tpp_json_add_null(writer, writer->root, "settings");
        return;
    }
    struct cJSON *object = tpp_json_add_object(writer, writer->root, "settings");
    add_numbers(numbers, sizeof numbers / sizeof *numbers, writer, object);
    add_shape(check, writer, object);
    tpp_json_add_bool(writer, object, "sequence_parallel", rules->sequence_parallel);
    tpp_json_add_bool(writer, object, "tp_comm_overlap", rules->tp_comm_overlap);
    tpp_json_add_bool(writer, object, "optimizer_cpu_offload", rules->optimizer_cpu_offload);
    tpp_json_add_bool(writer, object, "distributed_optimizer", rules->distributed_optimizer);
    tpp_json_add_bool(writer, object, "overlap_grad_reduce", rules->overlap_grad_reduce);
    tpp_json_add_bool(writer, object, "overlap_param_gather", rules->overlap_param_gather);
    tpp_json_add_string(writer, object, "fsdp",
                        rules->megatron_fsdp ? "megatron"
                        : rules->torch_fsdp2 ? "torch"
                                             : "none");
    tpp_json_add_string(writer, object, "precision", rules->bf16 ? "bf16" : rules->fp16 ? "fp16" : "fp32");
    tpp_json_add_string(writer, object, "fp8", fp8[rules->fp8]);
    if (rules->fp8 != TPP_RULE_FP8_NONE) {
        tpp_json_add_string(writer, object, "fp8_recipe", recipes[rules->fp8_recipe]);
        tpp_json_add_bool(writer, object, "fp8_param_gather", rules->fp8_param_gather);
    }
    tpp_json_add_string(writer, object, "recompute", granularities[rules->recompute]);
    tpp_json_add_string(writer, object, "recompute_method", methods[rules->recompute_method]);
}

static void add_plan(const struct tpp_check *check, const struct tpp_plan *plan, const char *name,
                     struct tpp_json_writer *writer)
{
    struct cJSON *object = tpp_json_add_object(writer, writer->root, name);
    tpp_plan_add_json(1, &plan->strategy, &plan->cost, writer, object);
    tpp_risks_add_json(&check->inputs, plan, writer, object);
    tpp_launch_add_json(&check->inputs, &plan->strategy, &plan->cost, &(struct tpp_launch_choices){.slurm = false},
                        writer, object);
}

enum tpp_code tpp_check_answer_json(const struct tpp_check *check, struct tpp_answer *answer, struct tpp_error *err)
{
    struct tpp_json_writer writer;
    tpp_answer_begin(&writer);
    tpp_json_add_string(&writer, writer.root, "verdict", tpp_check_verdict(check));
    add_problems(check, &writer);
    if (check->has_plan)
        add_plan(check, &check->plan, "plan", &writer);
    else
        tpp_json_add_null(&writer, writer.root, "plan");
    if (check->has_better) {
        add_plan(check, &check->better, "better_plan", &writer);
        tpp_json_add_number(&writer, writer.root, "better_plan_gain_fraction", check->better_gain_fraction);
    }
    if (check->has_measured)
        tpp_measured_add_json(&check->measured, &writer, writer.root);
    add_script(check, &writer);
    add_settings(check, &writer);
    if (check->has_plan) {
        const struct tpp_job_arguments given = {.model = check->arguments->model != NULL ? check->arguments->model
                                                                                         : check->file,
                                                .cluster = check->arguments->cluster};
        tpp_job_inputs_add_json(&given, &check->inputs, &writer, writer.root);
    }
    return tpp_answer_finish(&writer, answer, err);
}

/* ---- SARIF ---- */

/* A path as a relative reference of RFC 3986: what is not unreserved or a slash is encoded. */
static void append_uri(struct tpp_text *out, const char *path)
{
    for (; *path != '\0'; path++) {
        const unsigned char c = (unsigned char)*path;
        const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                              c == '.' || c == '_' || c == '~' || c == '/';
        if (is_plain)
            tpp_text_append_bytes(out, path, 1);
        else
            tpp_text_format(out, "%%%02X", c);
    }
}

static void add_result(const struct tpp_problem *problem, const char *uri, struct tpp_json_writer *writer,
                       struct cJSON *results)
{
    static const char *const levels[] = {"note", "warning", "error"};
    char text[640];
    struct cJSON *result = tpp_json_add_object(writer, results, NULL);
    snprintf(text, sizeof text, "%s%s%s", problem->message, problem->hint[0] != '\0' ? "; " : "", problem->hint);
    tpp_json_add_string(writer, result, "ruleId", problem->code);
    tpp_json_add_string(writer, result, "level", levels[problem->severity]);
    tpp_json_add_string(writer, tpp_json_add_object(writer, result, "message"), "text", text);
    struct cJSON *location = tpp_json_add_object(writer, tpp_json_add_array(writer, result, "locations"), NULL);
    struct cJSON *physical = tpp_json_add_object(writer, location, "physicalLocation");
    tpp_json_add_string(writer, tpp_json_add_object(writer, physical, "artifactLocation"), "uri", uri);
    tpp_json_add_u64(writer, tpp_json_add_object(writer, physical, "region"), "startLine",
                     problem->line > 0 ? problem->line : 1);
}

static void add_run(const struct tpp_check *check, const char *uri, struct tpp_json_writer *writer)
{
    struct cJSON *run = tpp_json_add_object(writer, tpp_json_add_array(writer, writer->root, "runs"), NULL);
    struct cJSON *driver = tpp_json_add_object(writer, tpp_json_add_object(writer, run, "tool"), "driver");
    tpp_json_add_string(writer, driver, "name", TPP_PROGRAM_NAME);
    tpp_json_add_string(writer, driver, "version", TPP_VERSION);
    struct cJSON *results = tpp_json_add_array(writer, run, "results");
    for (size_t i = 0; i < check->problems.count; i++)
        add_result(&check->problems.items[i], uri, writer, results);
}

enum tpp_code tpp_check_write_sarif(const struct tpp_check *check, const char *path, struct tpp_error *err)
{
    struct tpp_json_writer writer;
    struct tpp_text text, uri;
    tpp_text_init(&text);
    tpp_text_init(&uri);
    append_uri(&uri, check->file);
    tpp_json_writer_init(&writer);
    tpp_json_add_string(&writer, writer.root, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
    tpp_json_add_string(&writer, writer.root, "version", "2.1.0");
    add_run(check, tpp_text_get(&uri), &writer);
    writer.failed = writer.failed || tpp_text_failed(&uri);
    enum tpp_code code = tpp_json_print(&writer, &text, err);
    if (code == TPP_OK)
        code = tpp_file_write(path, tpp_text_get(&text), text.length, 0644, err);
    tpp_json_writer_release(&writer);
    tpp_text_release(&text);
    tpp_text_release(&uri);
    return code;
}
