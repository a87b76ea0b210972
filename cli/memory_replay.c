#include "cli/memory_replay.h"

#include "cli/replay_curve.h"
#include "cli/terminal.h"
#include "costmodel/allocator/snapshot.h"
#include "costmodel/base/file.h"
#include "costmodel/base/units.h"
#include "costmodel/sequence_lengths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARG(field) offsetof(struct tpp_replay_arguments, field)

const struct tpp_option tpp_replay_options_table[] = {
    {"seq-distribution", 0, TPP_OPTION_TEXT, ARG(lengths), "LENGTHS",
     .help = "lengths of sequences: fixed, uniform:8k-32k, lognormal:MEAN,CV, bucketed:8k,16k=2 or file:PATH, cut at "
             "--seq-length; micro-batches are padded to their longest, and memory is replayed"},
    {"seq-packing", 0, TPP_OPTION_FLAG, ARG(packing),
     .help = "sequences are packed to --seq-length, with attention inside each, so that all micro-batches are as long"},
    {"replay-seed", 0, TPP_OPTION_COUNT, ARG(seed), "SEED", .max = TPP_OPTION_COUNT_MAX,
     .help = "start of the drawn lengths, 1 when not given"},
    {"alloc-conf", 0, TPP_OPTION_TEXT, ARG(settings), "SETTINGS",
     .help = "replay with these settings of PyTorch's allocator, as PYTORCH_CUDA_ALLOC_CONF has them"},
    {.name = NULL},
};
const struct tpp_option tpp_replay_plan_options_table[] = {
    {"replay-steps", 0, TPP_OPTION_COUNT, ARG(num_steps), "STEPS", .min = 1, .max = 10000,
     .help = "steps to replay, 50 when not given, and fewer where these have more than 4096 micro-batches; fixed lengths stop "
             "once a step changes nothing"},
    {"memory-snapshot", 0, TPP_OPTION_TEXT, ARG(snapshot), "FILE",
     .help = "write the last replayed step for PyTorch's memory viewer (memory_viz)"},
    {.name = NULL},
};

static enum tpp_code replay_with(struct tpp_evaluator *evaluator, const struct tpp_replay_arguments *arguments,
                                 const struct tpp_strategy *strategy, const struct tpp_replay_options *options,
                                 struct tpp_replay_answer *out, struct tpp_error *err)
{
    struct tpp_text text;
    enum tpp_code code = tpp_replay_plan(evaluator, strategy, options, &out->replay, err);
    if (code == TPP_OK)
        code = tpp_replay_advise(evaluator, strategy, options, out->advice, &out->num_advice, err);
    if (code != TPP_OK || arguments->snapshot == NULL)
        return code;
    tpp_text_init(&text);
    code = tpp_snapshot_write(evaluator, strategy, options, out->replay.num_steps, &text, err);
    if (code == TPP_OK)
        code = tpp_file_write(arguments->snapshot, tpp_text_get(&text), text.length, 0644, err);
    tpp_text_release(&text);
    return code;
}

/* Options that would be taken without effect, or with another than meant. */
static enum tpp_code check_arguments(const struct tpp_replay_arguments *arguments, const struct tpp_lengths *lengths,
                                     const struct tpp_job *job, struct tpp_error *err)
{
    const bool varies = !tpp_lengths_is_fixed(lengths) && !arguments->packing;
    if (arguments->snapshot != NULL && strcmp(arguments->snapshot, "-") == 0)
        return tpp_fail(err, TPP_E_USAGE, "--memory-snapshot", "name a file, as in --memory-snapshot=step.pickle",
                        "standard output has the answer: the snapshot cannot go there");
    if (arguments->seed != TPP_OPTION_ABSENT && !varies)
        return tpp_fail(err, TPP_E_USAGE, "--replay-seed",
                        "give --seq-distribution too, as in --seq-distribution=uniform:8k-32k, or leave --replay-seed out",
                        "a seed without lengths that vary has no effect");
    return arguments->packing ? TPP_OK : tpp_lengths_check(lengths, job->sequence_length, err);
}

enum tpp_code tpp_replay_take_lengths(const struct tpp_replay_arguments *arguments, struct tpp_job *job,
                                      struct tpp_error *err)
{
    struct tpp_lengths lengths;
    if (arguments->lengths == NULL)
        return TPP_OK;
    enum tpp_code code = tpp_lengths_parse(arguments->lengths, &lengths, err);
    if (code == TPP_OK && !arguments->packing)
        code = tpp_lengths_check(&lengths, job->sequence_length, err);
    if (code == TPP_OK)
        tpp_job_set_lengths(job, &lengths, arguments->packing);
    tpp_lengths_release(&lengths);
    return code;
}

enum tpp_code tpp_replay_options_resolve(const struct tpp_replay_arguments *arguments, const struct tpp_job *job,
                                         struct tpp_lengths *lengths, struct tpp_replay_options *options,
                                         struct tpp_error *err)
{
    *options = tpp_replay_defaults();
    enum tpp_code code = tpp_lengths_parse(arguments->lengths != NULL ? arguments->lengths : "fixed", lengths, err);
    if (code == TPP_OK)
        code = check_arguments(arguments, lengths, job, err);
    if (code == TPP_OK && arguments->settings != NULL)
        code = tpp_allocator_settings_parse(arguments->settings, &options->settings, err);
    options->lengths = lengths;
    options->packing = arguments->packing;
    if (arguments->seed != TPP_OPTION_ABSENT)
        options->seed = (uint64_t)arguments->seed;
    return code;
}

/* The default, in as many steps as have 4096 micro-batches: a second or two a setting. At least 5, 3 of them after warm-up. */
static uint32_t steps_of(const struct tpp_replay_arguments *arguments, const struct tpp_strategy *strategy)
{
    const uint64_t usual = tpp_replay_defaults().num_steps, least = 5;
    const uint64_t affordable = 4096 / strategy->num_micro_batches;
    if (arguments->num_steps != TPP_OPTION_ABSENT)
        return (uint32_t)arguments->num_steps;
    return (uint32_t)(affordable < least ? least : affordable < usual ? affordable : usual);
}

static bool is_asked(const struct tpp_replay_arguments *arguments)
{
    return arguments->lengths != NULL || arguments->settings != NULL || arguments->snapshot != NULL || arguments->packing ||
           arguments->num_steps != TPP_OPTION_ABSENT || arguments->seed != TPP_OPTION_ABSENT;
}

/* The replay with the given settings is the memory of the plan. */
static void put_into_plan(const struct tpp_replay_answer *replayed, const struct tpp_replay_arguments *arguments,
                          struct tpp_memory *memory)
{
    const struct tpp_replay_advice given = {.peak_allocated_bytes = replayed->replay.peak_allocated_bytes,
                                            .peak_reserved_bytes = replayed->replay.peak_reserved_bytes,
                                            .retries_per_1000_steps = replayed->replay.retries_per_1000_steps,
                                            .runs_out = replayed->replay.failure.happened};
    tpp_replay_apply(&given, memory);
    memory->alloc_conf = arguments->settings;
}

enum tpp_code tpp_replay_run(const struct tpp_replay_arguments *arguments, const struct tpp_job_inputs *inputs,
                             struct tpp_plan *plan, struct tpp_replay_answer *out, struct tpp_error *err)
{
    struct tpp_replay_options options;
    struct tpp_evaluator *evaluator = NULL;
    struct tpp_lengths lengths;
    memset(out, 0, sizeof *out);
    if (!is_asked(arguments))
        return TPP_OK;
    enum tpp_code code = tpp_replay_options_resolve(arguments, &inputs->job, &lengths, &options, err);
    options.num_steps = steps_of(arguments, &plan->strategy);
    if (code == TPP_OK)
        code = tpp_evaluator_new(&inputs->model, &inputs->hardware, &inputs->job, &inputs->stack, &evaluator, err);
    if (code == TPP_OK)
        code = replay_with(evaluator, arguments, &plan->strategy, &options, out, err);
    const bool varies = !tpp_lengths_is_fixed(&lengths) && !arguments->packing;
    tpp_evaluator_free(evaluator);
    tpp_lengths_release(&lengths);
    out->is_asked = code == TPP_OK;
    out->varies = varies;
    if (code != TPP_OK)
        tpp_replay_answer_release(out);
    else
        put_into_plan(out, arguments, &plan->cost.memory);
    return code;
}

void tpp_replay_answer_release(struct tpp_replay_answer *replayed)
{
    tpp_replay_release(&replayed->replay);
    memset(replayed, 0, sizeof *replayed);
}

static void append_failure(const struct tpp_replay *replay, struct tpp_answer *answer)
{
    const struct tpp_replay_failure *failure = &replay->failure;
    char line[400], request[32], unused[32], layer[32] = "outside the layers";
    tpp_format_bytes(request, sizeof request, (double)failure->request_bytes);
    tpp_format_bytes(unused, sizeof unused, (double)failure->unused_bytes);
    if (failure->layer != UINT32_MAX)
        snprintf(layer, sizeof layer, "layer %u", failure->layer);
    if (failure->step == 0)
        snprintf(line, sizeof line, "Out of memory before the first step: %s for %s.", request, failure->tensor);
    else
        snprintf(line, sizeof line, "Out of memory in step %u, micro-batch %u, %s: %s for %s, with %s reserved but unused.",
                 failure->step, failure->micro_batch, layer, request, failure->tensor, unused);
    tpp_terminal_append_wrapped(&answer->text, line, 0, 0, answer->width);
}

/* The best setting, when it is worth a word: it runs where the plain one does not, or saves 2 % or retries. */
static void append_advice(const struct tpp_replay_answer *replayed, struct tpp_answer *answer)
{
    const struct tpp_replay_advice *best = &replayed->advice[0];
    const struct tpp_replay *replay = &replayed->replay;
    char line[400], reserved[32];
    const struct tpp_replay_advice given = {.peak_reserved_bytes = replay->peak_reserved_bytes,
                                            .retries_per_1000_steps = replay->retries_per_1000_steps,
                                            .runs_out = replay->failure.happened};
    if (!tpp_replay_advice_helps(best, &given))
        return;
    tpp_format_bytes(reserved, sizeof reserved, (double)best->peak_reserved_bytes);
    snprintf(line, sizeof line, "Helps: PYTORCH_CUDA_ALLOC_CONF=%s%s%s%s reserves %s with %.0f retries per 1000 steps.",
             best->text, best->since != NULL ? " (from PyTorch " : "", best->since != NULL ? best->since : "",
             best->since != NULL ? " on)" : "", reserved, best->retries_per_1000_steps);
    tpp_terminal_append_wrapped(&answer->text, line, 0, 0, answer->width);
}

void tpp_replay_append(const struct tpp_replay_answer *replayed, struct tpp_answer *answer)
{
    const struct tpp_replay *replay = &replayed->replay;
    char line[512], allocated[32], reserved[32], available[32];
    if (!replayed->is_asked)
        return;
    tpp_format_bytes(allocated, sizeof allocated, (double)replay->peak_allocated_bytes);
    tpp_format_bytes(reserved, sizeof reserved, (double)replay->peak_reserved_bytes);
    tpp_format_bytes(available, sizeof available, (double)replay->device_bytes);
    snprintf(line, sizeof line,
             "Replayed %u step%s of stage %u through PyTorch's allocator: %s allocated, %s reserved (%.1f %% fragmentation) of "
             "%s, %.0f retries per 1000 steps, out-of-memory probability %.0f %% (%u draws): %s.",
             replay->num_steps, replay->num_steps == 1 ? "" : "s", replay->stage, allocated, reserved,
             100 * replay->fragmentation_fraction, available, replay->retries_per_1000_steps,
             100 * replay->out_of_memory_probability, replay->num_draws, tpp_fit_name(replay->fit));
    tpp_text_append(&answer->text, "\n");
    tpp_terminal_append_wrapped(&answer->text, line, 0, 0, answer->width);
    if (replay->failure.happened)
        append_failure(replay, answer);
    append_advice(replayed, answer);
    if (replay->fit != TPP_FIT_FITS)
        tpp_terminal_append_wrapped(&answer->text,
                                    "'tp-plan plan' with these lengths replays the best plans, and says which one is calmer and what that costs.",
                                    0, 0, answer->width);
    if (replayed->varies)
        tpp_replay_curve_append(replay, answer->width, &answer->text);
}

static void add_failure(const struct tpp_replay_failure *failure, struct tpp_json_writer *writer, struct cJSON *parent)
{
    if (!failure->happened) {
        tpp_json_add_null(writer, parent, "failure");
        return;
    }
    struct cJSON *object = tpp_json_add_object(writer, parent, "failure");
    tpp_json_add_u64(writer, object, "step", failure->step);
    tpp_json_add_u64(writer, object, "micro_batch", failure->micro_batch);
    if (failure->layer == UINT32_MAX)
        tpp_json_add_null(writer, object, "layer");
    else
        tpp_json_add_u64(writer, object, "layer", failure->layer);
    tpp_json_add_string(writer, object, "tensor", failure->tensor);
    tpp_json_add_u64(writer, object, "request_bytes", failure->request_bytes);
    tpp_json_add_u64(writer, object, "unused_bytes", failure->unused_bytes);
    tpp_json_add_u64(writer, object, "largest_free_block_bytes", failure->largest_free_block_bytes);
}

static void add_distribution(const struct tpp_replay_distribution *peaks, const char *key, struct tpp_json_writer *writer,
                             struct cJSON *parent)
{
    struct cJSON *object = tpp_json_add_object(writer, parent, key);
    tpp_json_add_u64(writer, object, "median_bytes", peaks->median_bytes);
    tpp_json_add_u64(writer, object, "percentile_95_bytes", peaks->percentile_95_bytes);
}

static void add_steps(const struct tpp_replay *replay, struct tpp_json_writer *writer, struct cJSON *parent)
{
    struct cJSON *steps = tpp_json_add_array(writer, parent, "steps");
    for (uint32_t i = 0; i < replay->num_steps; i++) {
        struct cJSON *step = tpp_json_add_object(writer, steps, NULL);
        tpp_json_add_u64(writer, step, "peak_allocated_bytes", replay->steps[i].peak_allocated_bytes);
        tpp_json_add_u64(writer, step, "peak_reserved_bytes", replay->steps[i].peak_reserved_bytes);
        tpp_json_add_u64(writer, step, "retries", replay->steps[i].num_retries);
    }
}

static void add_advice(const struct tpp_replay_answer *replayed, struct tpp_json_writer *writer, struct cJSON *parent)
{
    struct cJSON *list = tpp_json_add_array(writer, parent, "advice");
    for (uint32_t i = 0; i < replayed->num_advice; i++) {
        struct cJSON *object = tpp_json_add_object(writer, list, NULL);
        tpp_json_add_string(writer, object, "alloc_conf", replayed->advice[i].text);
        if (replayed->advice[i].since != NULL)
            tpp_json_add_string(writer, object, "since_pytorch", replayed->advice[i].since);
        tpp_json_add_u64(writer, object, "peak_reserved_bytes", replayed->advice[i].peak_reserved_bytes);
        tpp_json_add_number(writer, object, "retries_per_1000_steps", replayed->advice[i].retries_per_1000_steps);
        tpp_json_add_bool(writer, object, "out_of_memory", replayed->advice[i].runs_out);
    }
}

void tpp_replay_add_json(const struct tpp_replay_answer *replayed, struct tpp_json_writer *writer, struct cJSON *parent)
{
    const struct tpp_replay *replay = &replayed->replay;
    if (!replayed->is_asked)
        return;
    struct cJSON *object = tpp_json_add_object(writer, parent, "replay");
    tpp_json_add_u64(writer, object, "stage", replay->stage);
    tpp_json_add_string(writer, object, "fit", tpp_fit_name(replay->fit));
    tpp_json_add_u64(writer, object, "device_bytes", replay->device_bytes);
    tpp_json_add_u64(writer, object, "peak_allocated_bytes", replay->peak_allocated_bytes);
    tpp_json_add_u64(writer, object, "peak_reserved_bytes", replay->peak_reserved_bytes);
    add_distribution(&replay->allocated, "step_peaks_allocated", writer, object);
    add_distribution(&replay->reserved, "step_peaks_reserved", writer, object);
    tpp_json_add_number(writer, object, "fragmentation_fraction", replay->fragmentation_fraction);
    tpp_json_add_u64(writer, object, "peak_inactive_split_bytes", replay->peak_inactive_split_bytes);
    tpp_json_add_u64(writer, object, "largest_free_block_bytes", replay->largest_free_block_bytes);
    tpp_json_add_number(writer, object, "retries_per_1000_steps", replay->retries_per_1000_steps);
    tpp_json_add_number(writer, object, "out_of_memory_probability", replay->out_of_memory_probability);
    tpp_json_add_u64(writer, object, "draws", replay->num_draws);
    add_failure(&replay->failure, writer, object);
    add_steps(replay, writer, object);
    add_advice(replayed, writer, object);
}
