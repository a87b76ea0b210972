#include "cli/launch_script.h"

#include "costmodel/base/units.h"
#include "planner/rules/rules.h"

#include <stdio.h>
#include <string.h>

enum tpp_code tpp_launch_release(const struct tpp_stack *stack, enum tpp_release *release, struct tpp_error *err)
{
    *release = TPP_RELEASE_NEWEST;
    if (stack->framework != TPP_FRAMEWORK_MEGATRON_LM)
        return TPP_OK;
    return tpp_release_parse(stack->release, "--framework-version", release, err);
}

/* What a request borrows, beside its inputs. */
struct request_texts {
    char note[256], reason[160];
    struct tpp_launch_variable alloc_conf;
};

/* One line for the script's header. */
static void format_note(const struct tpp_cost *cost, char *note, size_t size)
{
    char step[32], low[32], high[32], memory[32], capacity[32];
    snprintf(note, size, "predicted: %s a step (90 %% interval %s to %s), %s of %s on the fullest GPU: %s",
             tpp_format_seconds(step, sizeof step, cost->step_seconds),
             tpp_format_seconds(low, sizeof low, cost->step_seconds_low),
             tpp_format_seconds(high, sizeof high, cost->step_seconds_high),
             tpp_format_bytes(memory, sizeof memory, cost->memory.device_total_bytes),
             tpp_format_bytes(capacity, sizeof capacity, cost->memory.capacity_bytes), tpp_fit_name(cost->memory.fit));
}

/* The setting of the allocator that a replay chose, or that was asked for, instead of the script's default. */
static void set_allocator(const struct tpp_memory *memory, struct request_texts *texts,
                          struct tpp_launch_request *request)
{
    char with[32], without[32];
    if (memory->alloc_conf == NULL)
        return;
    snprintf(texts->reason, sizeof texts->reason, "The plan's memory, replayed with it: %s reserved; without: %s.",
             tpp_format_bytes(with, sizeof with, memory->replayed_reserved_bytes),
             tpp_format_bytes(without, sizeof without, memory->unset_reserved_bytes));
    texts->alloc_conf = (struct tpp_launch_variable){.name = "PYTORCH_CUDA_ALLOC_CONF", .value = memory->alloc_conf,
                                                     .reason = memory->is_replayed ? texts->reason : NULL};
    request->variables = &texts->alloc_conf;
    request->num_variables = 1;
}

bool tpp_launch_trains(const struct tpp_job_inputs *inputs, struct tpp_error *err)
{
    struct tpp_launch_request request = {
        .model = &inputs->model, .hardware = &inputs->hardware, .job = &inputs->job, .stack = &inputs->stack};
    request.release = tpp_rules_release(&inputs->stack);
    if (tpp_launch_check_job(&request, err) != TPP_E_UNSUPPORTED)
        return true;
    const bool is_state = strcmp(err->where, "job.optimizer") == 0 || strcmp(err->where, "job.gradient_type") == 0;
    const bool is_training = strcmp(err->where, "job.precision") == 0 || strcmp(err->where, "job.task") == 0;
    return !is_state && (!is_training || inputs->stack.framework == TPP_FRAMEWORK_MEGATRON_LM);
}

/* `texts` must outlive *request. */
static enum tpp_code fill_request(const struct tpp_job_inputs *inputs, const struct tpp_strategy *strategy,
                                  const struct tpp_cost *cost, const struct tpp_launch_choices *choices,
                                  struct request_texts *texts, struct tpp_launch_request *request,
                                  struct tpp_error *err)
{
    const uint32_t per_node = inputs->hardware.node.num_gpus, num_gpus = inputs->job.num_gpus;
    *request = (struct tpp_launch_request){.model = &inputs->model,
                                           .hardware = &inputs->hardware,
                                           .job = &inputs->job,
                                           .stack = &inputs->stack,
                                           .strategy = strategy,
                                           .num_nodes = num_gpus > per_node ? num_gpus / per_node : 1,
                                           .gpus_per_node = num_gpus > per_node ? per_node : num_gpus,
                                           .slurm = choices->slurm,
                                           .debug = choices->debug,
                                           .job_name = choices->job_name,
                                           .tool_version = TPP_VERSION,
                                           .note = texts->note};
    format_note(cost, texts->note, sizeof texts->note);
    set_allocator(&cost->memory, texts, request);
    return tpp_launch_release(&inputs->stack, &request->release, err);
}

enum tpp_code tpp_launch_script(const struct tpp_job_inputs *inputs, const struct tpp_strategy *strategy,
                                const struct tpp_cost *cost, const struct tpp_launch_choices *choices,
                                struct tpp_text *out, struct tpp_error *err)
{
    struct request_texts texts;
    struct tpp_launch_request request;
    const enum tpp_code code = fill_request(inputs, strategy, cost, choices, &texts, &request, err);
    return code != TPP_OK ? code : tpp_launch_emit(&request, out, err);
}

enum tpp_code tpp_launch_files(const struct tpp_job_inputs *inputs, const struct tpp_strategy *strategy,
                               const struct tpp_cost *cost, const struct tpp_launch_choices *choices,
                               struct tpp_launch_output *launch, struct tpp_error *err)
{
    struct request_texts texts;
    struct tpp_launch_request request;
    *launch = (struct tpp_launch_output){.num_files = 0};
    const enum tpp_code code = fill_request(inputs, strategy, cost, choices, &texts, &request, err);
    return code != TPP_OK ? code : tpp_launch_write(&request, launch, err);
}

void tpp_launch_add_json(const struct tpp_job_inputs *inputs, const struct tpp_strategy *strategy,
                         const struct tpp_cost *cost, const struct tpp_launch_choices *choices,
                         struct tpp_json_writer *writer, struct cJSON *plan)
{
    struct tpp_error err = {.code = TPP_OK};
    struct tpp_text script;
    tpp_text_init(&script);
    if (tpp_launch_script(inputs, strategy, cost, choices, &script, &err) == TPP_OK) {
        tpp_json_add_string(writer, plan, "launch", tpp_text_get(&script));
        writer->failed = writer->failed || tpp_text_failed(&script);
    } else {
        tpp_json_add_null(writer, plan, "launch");
        tpp_json_add_string(writer, plan, "launch_error", err.message);
    }
    tpp_text_release(&script);
}
