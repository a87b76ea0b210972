/* Flash attention: cost-model 5.2. One fit for all kernels that were measured: s0 and kappa are shared. */
#include "calibrate/fit/fit_group.h"
#include "costmodel/kernel_time.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double least_flops = 1e9; /* below it a launch is most of the time */

static struct tpp_attention attention_of(const struct tpp_sample *sample)
{
    const struct tpp_attention_sample *attention = &sample->attention;
    return (struct tpp_attention){.batch = attention->batch,
                                  .heads = attention->num_heads,
                                  .query_length = attention->query_length,
                                  .key_length = attention->key_length,
                                  .qk_head_dim = attention->qk_head_dim,
                                  .v_head_dim = attention->v_head_dim,
                                  .causal = attention->is_causal,
                                  .kernel = attention->kernel};
}

/* Whole causal or full calls of 16-bit formats with heads of one size, and the fast backward. The open cuDNN kernel is
 * a reference implementation, not what training runs. */
static enum tpp_fit_use select_flash(const struct tpp_sample *sample, const void *context)
{
    const struct tpp_attention_sample *attention = &sample->attention;
    (void)context;
    if (sample->kind != TPP_SAMPLE_ATTENTION) {
        return TPP_FIT_OTHER;
    }
    if (!(sample->seconds > 0) || attention->kernel >= TPP_FLASH_KERNEL_COUNT || attention->format != TPP_FORMAT_BF16 ||
        attention->window > 0 || attention->is_deterministic || attention->qk_head_dim != attention->v_head_dim ||
        tpp_sample_flops(sample) < least_flops) {
        return TPP_FIT_LEAVE_OUT;
    }
    return TPP_FIT_USE;
}

/* A kernel that the base does not have would divide by 0: such samples are left out by the caller. */
static double predict(const struct tpp_hardware *hardware, const struct tpp_sample *sample)
{
    const struct tpp_attention attention = attention_of(sample);
    return sample->attention.is_backward ? tpp_flash_backward_seconds(&hardware->gpu, &attention)
                                         : tpp_flash_forward_seconds(&hardware->gpu, &attention);
}

/* At the peak of the data sheet. */
static double least_seconds(const struct tpp_hardware *hardware, const struct tpp_sample *sample)
{
    return tpp_sample_flops(sample) / hardware->gpu.bf16_flops_per_second;
}

static uint64_t shape(const struct tpp_sample *sample)
{
    const struct tpp_attention_sample *attention = &sample->attention;
    uint64_t digest = tpp_fit_mix(tpp_fit_mix(UINT64_C(0x4154544e), attention->batch), attention->num_heads);
    digest = tpp_fit_mix(tpp_fit_mix(digest, attention->query_length), attention->qk_head_dim);
    return tpp_fit_mix(digest, attention->is_causal ? 1 : 0);
}

static void describe(const struct tpp_fit_set *set, char *range, size_t range_size)
{
    double low = INFINITY, high = 0, least_dim = INFINITY, greatest_dim = 0;
    for (size_t i = 0; i < set->points.count; i++) {
        const struct tpp_attention_sample *attention = &set->points.items[i]->attention;
        low = fmin(low, attention->query_length);
        high = fmax(high, attention->query_length);
        least_dim = fmin(least_dim, attention->qk_head_dim);
        greatest_dim = fmax(greatest_dim, attention->qk_head_dim);
    }
    snprintf(range, range_size, "lengths %.0f to %.0f, head dims %.0f to %.0f", low, high, least_dim, greatest_dim);
}

/* Unknowns of one kernel, in the order forward, backward, small heads. */
static const struct tpp_unknown kernel_unknowns[TPP_FLASH_KERNEL_COUNT][3] = {
    {{"gpu.flash1_forward_fraction", 0.02, 1, true},
     {"gpu.flash1_backward_fraction", 0.02, 1, true},
     {"gpu.flash1_small_head_ratio", 0.2, 3, false}},
    {{"gpu.flash2_forward_fraction", 0.02, 1, true},
     {"gpu.flash2_backward_fraction", 0.02, 1, true},
     {"gpu.flash2_small_head_ratio", 0.2, 3, false}},
    {{"gpu.flash3_forward_fraction", 0.02, 1, true},
     {"gpu.flash3_backward_fraction", 0.02, 1, true},
     {"gpu.flash3_small_head_ratio", 0.2, 3, false}},
};
static const struct tpp_unknown shared_unknowns[] = {
    {"gpu.flash_half_length_tokens", 5, 3000, false},
    {"gpu.flash_block_ratio", 0.02, 50, false},
};

/* Which of a kernel's values its samples speak about. Heads of 64 alone give no r_d apart from the rate. */
static size_t list_unknowns(const struct tpp_fit_set *set, struct tpp_unknown *unknowns)
{
    bool has[TPP_FLASH_KERNEL_COUNT][3] = {{false}}, has_large[TPP_FLASH_KERNEL_COUNT] = {false};
    size_t count = 0;
    for (size_t i = 0; i < set->points.count; i++) {
        const struct tpp_attention_sample *attention = &set->points.items[i]->attention;
        has[attention->kernel][attention->is_backward ? 1 : 0] = true;
        has[attention->kernel][2] = has[attention->kernel][2] || attention->qk_head_dim <= 64;
        has_large[attention->kernel] = has_large[attention->kernel] || attention->qk_head_dim > 64;
    }
    for (int kernel = 0; kernel < TPP_FLASH_KERNEL_COUNT; kernel++) {
        for (int j = 0; j < 3; j++) {
            if (has[kernel][j] && (j < 2 || has_large[kernel])) {
                unknowns[count++] = kernel_unknowns[kernel][j];
            }
        }
    }
    unknowns[count++] = shared_unknowns[0];
    unknowns[count++] = shared_unknowns[1];
    return count;
}

/* Kernels that the base says do not run here, but that were measured, start from a middling rate. */
static void start_missing_kernels(const struct tpp_fit_set *set, struct tpp_gpu *gpu)
{
    static const double start = 0.4;
    for (size_t i = 0; i < set->points.count; i++) {
        const enum tpp_attention_kernel kernel = set->points.items[i]->attention.kernel;
        double *fraction = set->points.items[i]->attention.is_backward ? &gpu->flash_backward_fraction[kernel]
                                                                       : &gpu->flash_forward_fraction[kernel];
        *fraction = *fraction > 0 ? *fraction : start;
    }
}

/* The value of the group fitted last; NULL when its samples do not speak about it. */
static struct tpp_fit_value *find_value(const struct tpp_fit_run *run, const char *key)
{
    struct tpp_fit_group *group = &run->report->groups[run->report->num_groups - 1];
    for (size_t i = 0; i < group->num_values; i++) {
        if (strcmp(group->values[i].key, key) == 0) {
            return &group->values[i];
        }
    }
    return NULL;
}

static bool is_fitted(const struct tpp_fit_value *value)
{
    return value && strcmp(value->state, tpp_unknown_state_name(TPP_UNKNOWN_FITTED)) == 0;
}

/* A kernel that the base does not have is added with both of its passes, or not at all: a profile with one is refused. */
static void forget_half_known_kernels(struct tpp_fit_run *run)
{
    for (int kernel = 0; kernel < TPP_FLASH_KERNEL_COUNT; kernel++) {
        struct tpp_fit_value *passes[2];
        for (int i = 0; i < 2; i++) {
            passes[i] = find_value(run, kernel_unknowns[kernel][i].key);
        }
        if (run->base->gpu.flash_forward_fraction[kernel] > 0 || (is_fitted(passes[0]) && is_fitted(passes[1]))) {
            continue;
        }
        for (int i = 0; i < 2; i++) {
            const char *key = kernel_unknowns[kernel][i].key;
            uint32_t index;
            tpp_hardware_field_index(key, &index);
            tpp_hardware_set(run->hardware, key, 0, NULL, NULL);
            run->hardware->origins[index] = run->base->origins[index];
            if (passes[i]) {
                passes[i]->state = is_fitted(passes[i]) ? "the other pass is not known" : passes[i]->state;
                passes[i]->value = passes[i]->error = 0;
            }
        }
    }
}

enum tpp_code tpp_fit_attention(struct tpp_fit_run *run, struct tpp_error *err)
{
    struct tpp_fit_set set;
    struct tpp_unknown unknowns[TPP_SOLVE_MAX_UNKNOWNS];
    enum tpp_code code = tpp_fit_collect(run, select_flash, NULL, &set, err);
    code = code ? code : tpp_fit_leave_out_impossible(run, least_seconds, "attention", &set, err);
    if (code == TPP_OK && set.points.count > 0) {
        const struct tpp_fit_plan plan = {.name = "attention",
                                          .unknowns = unknowns,
                                          .num_unknowns = list_unknowns(&set, unknowns),
                                          .predict = predict,
                                          .shape = shape,
                                          .size = tpp_sample_flops,
                                          .describe = describe,
                                          .is_in_profile = true,
                                          .error_key = "gpu.attention_error_fraction"};
        start_missing_kernels(&set, &run->hardware->gpu);
        code = tpp_fit_group(run, run->hardware, &plan, &set, err);
        if (code == TPP_OK) {
            forget_half_known_kernels(run);
        }
    }
    tpp_fit_set_release(&set);
    return code;
}
