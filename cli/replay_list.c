#include "cli/replay_list.h"

#include "cli/terminal.h"
#include "costmodel/base/units.h"
#include "planner/replayed_ranking.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum tpp_code replay_plans(const struct tpp_replay_arguments *arguments, const struct tpp_job_inputs *inputs,
                                  double memory_headroom_fraction, struct tpp_plan *plans, size_t count,
                                  struct tpp_error *err)
{
    struct tpp_replay_options options;
    struct tpp_lengths lengths;
    enum tpp_code code = tpp_replay_options_resolve(arguments, &inputs->job, &lengths, &options, err);
    if (code == TPP_OK)
        code = tpp_replayed_ranking(&inputs->model, &inputs->hardware, &inputs->job, &inputs->stack,
                                    memory_headroom_fraction, &options, arguments->settings, plans, count, err);
    tpp_lengths_release(&lengths);
    return code;
}

enum tpp_code tpp_replay_list(const struct tpp_replay_arguments *arguments, const struct tpp_job_inputs *inputs,
                              double memory_headroom_fraction, struct tpp_found_plans *found, struct tpp_error *err)
{
    if (found->num_plans == 0)
        return TPP_OK;
    found->replayed = malloc(found->num_plans * sizeof *found->replayed);
    if (found->replayed == NULL)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    memcpy(found->replayed, found->plans, found->num_plans * sizeof *found->replayed);
    found->plans = found->replayed;
    return replay_plans(arguments, inputs, memory_headroom_fraction, found->replayed, found->num_plans, err);
}

enum tpp_code tpp_replay_one(const struct tpp_replay_arguments *arguments, const struct tpp_job_inputs *inputs,
                             struct tpp_plan *plan, struct tpp_error *err)
{
    return replay_plans(arguments, inputs, 0, plan, 1, err);
}

static void append_setting(const struct tpp_memory *memory, struct tpp_answer *answer)
{
    char line[300], reserved[32], without[32];
    if (memory->alloc_conf == NULL)
        return;
    snprintf(line, sizeof line, "PYTORCH_CUDA_ALLOC_CONF=%.100s reserves %s instead of %s; the launch script sets it.",
             memory->alloc_conf, tpp_format_bytes(reserved, sizeof reserved, memory->replayed_reserved_bytes),
             tpp_format_bytes(without, sizeof without, memory->unset_reserved_bytes));
    tpp_text_append(&answer->text, "  ");
    tpp_terminal_append_wrapped(&answer->text, line, 2, 2, answer->width);
}

/* Which other plan calms memory, and what that costs. */
static void append_calmer(const struct tpp_plan *plans, size_t num_plans, struct tpp_answer *answer)
{
    const size_t calmer = tpp_replayed_calmer_plan(plans, num_plans);
    char line[300], reserved[32], more[32];
    if (calmer == num_plans)
        return;
    const double seconds = plans[calmer].cost.step_seconds - plans[0].cost.step_seconds;
    snprintf(line, sizeof line, "Plan %zu has no such trouble: it reserves %s, and its step takes %s (%.1f %%) more.",
             calmer + 1, tpp_format_bytes(reserved, sizeof reserved, plans[calmer].cost.memory.peak_reserved_bytes),
             tpp_format_seconds(more, sizeof more, seconds), 100 * seconds / plans[0].cost.step_seconds);
    tpp_text_append(&answer->text, "  ");
    tpp_terminal_append_wrapped(&answer->text, line, 2, 2, answer->width);
}

void tpp_replay_list_append(const struct tpp_plan *plans, size_t num_plans, struct tpp_answer *answer)
{
    const struct tpp_memory *memory = &plans[0].cost.memory;
    char line[400], allocated[32], reserved[32];
    if (!memory->is_replayed)
        return;
    snprintf(line, sizeof line,
             "Replayed through PyTorch's allocator: %s allocated, %s reserved, %.0f retries per 1000 steps; with %.1f %% for "
             "fragmentation the out-of-memory probability is %.1f %%: %s.",
             tpp_format_bytes(allocated, sizeof allocated, memory->replayed_allocated_bytes),
             tpp_format_bytes(reserved, sizeof reserved, memory->replayed_reserved_bytes), memory->retries_per_1000_steps,
             100 * memory->fragmentation_fraction, 100 * memory->out_of_memory_probability, tpp_fit_name(memory->fit));
    tpp_text_append(&answer->text, "\nMemory of the first one\n  ");
    tpp_terminal_append_wrapped(&answer->text, line, 2, 2, answer->width);
    append_setting(memory, answer);
    append_calmer(plans, num_plans, answer);
}

void tpp_replay_calmer_add_json(const struct tpp_plan *plans, size_t num_plans, struct tpp_json_writer *writer,
                                struct cJSON *parent)
{
    const size_t calmer = tpp_replayed_calmer_plan(plans, num_plans);
    if (calmer == num_plans) {
        tpp_json_add_null(writer, parent, "calmer_plan");
        return;
    }
    struct cJSON *object = tpp_json_add_object(writer, parent, "calmer_plan");
    tpp_json_add_u64(writer, object, "rank", calmer + 1);
    tpp_json_add_number(writer, object, "peak_reserved_bytes", plans[calmer].cost.memory.peak_reserved_bytes);
    tpp_json_add_number(writer, object, "added_step_seconds",
                        plans[calmer].cost.step_seconds - plans[0].cost.step_seconds);
}

void tpp_replay_memory_add_json(const struct tpp_memory *memory, struct tpp_json_writer *writer, struct cJSON *object)
{
    if (!memory->is_replayed) {
        tpp_json_add_null(writer, object, "replay");
        return;
    }
    struct cJSON *replay = tpp_json_add_object(writer, object, "replay");
    tpp_json_add_number(writer, replay, "retries_per_1000_steps", memory->retries_per_1000_steps);
    if (memory->alloc_conf != NULL)
        tpp_json_add_string(writer, replay, "alloc_conf", memory->alloc_conf);
    else
        tpp_json_add_null(writer, replay, "alloc_conf");
    tpp_json_add_number(writer, replay, "allocated_bytes", memory->replayed_allocated_bytes);
    tpp_json_add_number(writer, replay, "reserved_bytes", memory->replayed_reserved_bytes);
    tpp_json_add_number(writer, replay, "reserved_without_alloc_conf_bytes", memory->unset_reserved_bytes);
}
