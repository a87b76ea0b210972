/* Memory-bound kernels: cost-model 5.3. The efficiency comes from kernels that only stream; how much slower the others
 * are is shown, because it belongs to the software and not to the GPU. */
#include "calibrate/fit/fit_group.h"
#include "costmodel/kernel_time.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Below it the data may sit in the last-level cache, whose largest is 126 MB (hardware.md section 1). */
static const double least_bytes = 128e6;

static bool streams(const char *operation)
{
    static const char *const words[] = {"add", "copy", "scale", "triad", "elementwise", "STREAM"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strstr(operation, words[i])) {
            return true;
        }
    }
    return false;
}

static enum tpp_fit_use select_operation(const struct tpp_sample *sample, const void *context)
{
    const char *operation = context; /* NULL: those that stream */
    if (sample->kind != TPP_SAMPLE_MEMORY_BOUND || !(sample->seconds > 0) ||
        (operation ? strcmp(operation, sample->memory.operation) != 0 : !streams(sample->memory.operation))) {
        return TPP_FIT_OTHER;
    }
    return sample->memory.bytes >= least_bytes ? TPP_FIT_USE : TPP_FIT_LEAVE_OUT;
}

static double predict(const struct tpp_hardware *hardware, const struct tpp_sample *sample)
{
    return tpp_memory_bound_seconds(&hardware->gpu, sample->memory.bytes, 1, 1);
}

/* At the data sheet's bandwidth: what is faster was in a cache. */
static double least_seconds(const struct tpp_hardware *hardware, const struct tpp_sample *sample)
{
    return sample->memory.bytes / hardware->gpu.memory_bandwidth_bytes_per_second;
}

static uint64_t shape(const struct tpp_sample *sample)
{
    return tpp_fit_mix(UINT64_C(0x4d454d), sample->memory.bytes);
}

static double size(const struct tpp_sample *sample)
{
    return sample->memory.bytes;
}

static void describe(const struct tpp_fit_set *set, char *range, size_t range_size)
{
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < set->points.count; i++) {
        low = fmin(low, set->points.items[i]->memory.bytes);
        high = fmax(high, set->points.items[i]->memory.bytes);
    }
    snprintf(range, range_size, "%.3g to %.3g bytes", low, high);
}

/* Nothing streams at the data sheet's rate; a fit that ends there has seen the cache. */
static const struct tpp_unknown unknowns[] = {{"gpu.memory_efficiency_fraction", 0.05, 0.97, false}};

static bool is_other(const struct tpp_sample *sample)
{
    return sample->kind == TPP_SAMPLE_MEMORY_BOUND && sample->seconds > 0 && sample->memory.bytes >= least_bytes &&
           !streams(sample->memory.operation);
}

/* Notes how much longer each other operation takes than its bytes at that efficiency, while the report has room. */
static enum tpp_code note_others(struct tpp_fit_run *run, struct tpp_error *err)
{
    const struct tpp_samples *samples = run->samples;
    for (size_t i = 0; i < samples->count && tpp_fit_has_room_for_notes(run->report); i++) {
        const char *operation = samples->items[i].memory.operation;
        struct tpp_fit_set set;
        struct tpp_fit_errors errors;
        bool is_first = is_other(&samples->items[i]);
        for (size_t j = 0; j < i && is_first; j++) {
            is_first = !is_other(&samples->items[j]) || strcmp(samples->items[j].memory.operation, operation) != 0;
        }
        if (!is_first) {
            continue;
        }
        enum tpp_code code = tpp_fit_collect(run, select_operation, operation, &set, err);
        code = code ? code : tpp_fit_judge(run->hardware, predict, &set, TPP_FIT_ALL, &errors, err);
        if (code == TPP_OK && set.points.count > 0) {
            tpp_fit_note(run->report, "%s takes %.2f times what its bytes need (%zu samples)", operation,
                         1 / (1 + errors.bias), set.points.count);
        }
        tpp_fit_set_release(&set);
        if (code) {
            return code;
        }
    }
    return TPP_OK;
}

enum tpp_code tpp_fit_memory_bound(struct tpp_fit_run *run, struct tpp_error *err)
{
    static const struct tpp_fit_plan plan = {
        "memory-bound kernels", unknowns, 1, predict, shape, size, describe, true, "gpu.memory_error_fraction"};
    struct tpp_fit_set set;
    enum tpp_code code = tpp_fit_collect(run, select_operation, NULL, &set, err);
    code = code ? code : tpp_fit_leave_out_impossible(run, least_seconds, plan.name, &set, err);
    code = code ? code : tpp_fit_group(run, run->hardware, &plan, &set, err);
    tpp_fit_set_release(&set);
    return code ? code : note_others(run, err);
}
