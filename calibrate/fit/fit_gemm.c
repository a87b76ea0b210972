/* Matrix products: cost-model 5.1. */
#include "calibrate/fit/fit_group.h"
#include "costmodel/base/statistics.h"
#include "costmodel/kernel_time.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Products that training makes: below these sizes a launch is most of the time, and the formula is not for it. */
static const double least_size = 128, least_flops = 5e8;
/* Measured fp8 products begin with a kernel that finds the scale and casts; it is most of the time below this. */
static const double least_fp8_flops = 3e10;

enum kind { PLAIN, WEIGHT_GRADIENT, FP8 };

static enum tpp_fit_use select_kind(const struct tpp_sample *sample, const void *context)
{
    const enum kind kind = *(const enum kind *)context;
    const struct tpp_gemm_sample *gemm = &sample->gemm;
    if (sample->kind != TPP_SAMPLE_GEMM || gemm->is_grouped || gemm->is_sustained ||
        gemm->format != (kind == FP8 ? TPP_FORMAT_FP8 : TPP_FORMAT_BF16) ||
        gemm->accumulates != (kind == WEIGHT_GRADIENT)) {
        return TPP_FIT_OTHER;
    }
    const double least = fmin(gemm->m, fmin(gemm->n, gemm->k));
    const bool is_large = tpp_sample_flops(sample) >= (kind == FP8 ? least_fp8_flops : least_flops);
    return least >= least_size && is_large ? TPP_FIT_USE : TPP_FIT_LEAVE_OUT;
}

/* At the peak of the data sheet; 0 where the GPU has no rate for the format. */
static double least_seconds(const struct tpp_hardware *hardware, const struct tpp_sample *sample)
{
    const double peak = sample->gemm.format == TPP_FORMAT_FP8 ? hardware->gpu.fp8_flops_per_second
                                                              : hardware->gpu.bf16_flops_per_second;
    return peak > 0 ? tpp_sample_flops(sample) / peak : 0;
}

static double predict(const struct tpp_hardware *hardware, const struct tpp_sample *sample)
{
    const struct tpp_gemm gemm = {.m = sample->gemm.m,
                                  .n = sample->gemm.n,
                                  .k = sample->gemm.k,
                                  .batch = sample->gemm.num_products,
                                  .kind = sample->gemm.accumulates ? TPP_GEMM_WGRAD : TPP_GEMM_FORWARD,
                                  .element_bytes = 2,
                                  .number = sample->gemm.format == TPP_FORMAT_FP8 ? TPP_NUMBER_FP8 : TPP_NUMBER_PLAIN};
    return tpp_gemm_burst_seconds(&hardware->gpu, &gemm);
}

/* All m of a layer's n and k are held out together: the judged layers are unseen. */
static uint64_t shape(const struct tpp_sample *sample)
{
    return tpp_fit_mix(tpp_fit_mix(UINT64_C(0x47454d4d), sample->gemm.n), sample->gemm.k);
}

static void describe(const struct tpp_fit_set *set, char *range, size_t range_size)
{
    double low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {0, 0, 0};
    for (size_t i = 0; i < set->points.count; i++) {
        const struct tpp_gemm_sample *gemm = &set->points.items[i]->gemm;
        const double sizes[3] = {gemm->m, gemm->n, gemm->k};
        for (int j = 0; j < 3; j++) {
            low[j] = fmin(low[j], sizes[j]);
            high[j] = fmax(high[j], sizes[j]);
        }
    }
    snprintf(range, range_size, "m %.0f to %.0f, n %.0f to %.0f, k %.0f to %.0f", low[0], high[0], low[1], high[1],
             low[2], high[2]);
}

static const struct tpp_unknown plain_unknowns[] = {
    {"gpu.gemm_max_fraction", 0.05, 1, true},
    {"gpu.gemm_half_k", 4, 2000, false},
    {"gpu.gemm_wave_quantization_fraction", 0, 1, true},
};
static const struct tpp_unknown wgrad_unknowns[] = {{"gpu.gemm_wgrad_fraction", 0.2, 1, true}};
static const struct tpp_unknown fp8_unknowns[] = {{"gpu.gemm_fp8_fraction", 0.2, 1, true}};

static void revert_tile(struct tpp_hardware *hardware, const struct tpp_hardware *base)
{
    hardware->gpu.gemm_tile_m = base->gpu.gemm_tile_m;
    hardware->gpu.gemm_tile_n = base->gpu.gemm_tile_n;
}

static const struct tpp_fit_plan plans[] = {
    [PLAIN] = {"gemm", plain_unknowns, 3, predict, shape, tpp_sample_flops, describe, true, "gpu.gemm_error_fraction",
               revert_tile},
    [WEIGHT_GRADIENT] = {"gemm, weight gradient", wgrad_unknowns, 1, predict, shape, tpp_sample_flops, describe, true,
                         NULL, NULL},
    [FP8] = {"gemm fp8", fp8_unknowns, 1, predict, shape, tpp_sample_flops, describe, true, NULL, NULL},
};

/* The preferred tile is one of a few: the one with which the fitted formula scatters least. The samples that are held
 * out do not take part. */
static enum tpp_code choose_tile(struct tpp_fit_run *run, struct tpp_fit_set *set, struct tpp_error *err)
{
    static const uint32_t tiles[][2] = {{128, 128}, {128, 256}, {256, 128}};
    struct tpp_gpu *gpu = &run->hardware->gpu;
    uint32_t best[2] = {gpu->gemm_tile_m, gpu->gemm_tile_n};
    double least = INFINITY;
    struct tpp_points kept = {.count = 0};
    struct tpp_hardware *trial = malloc(sizeof *trial);
    enum tpp_code code = tpp_fit_hold_out(set, shape, err);
    code = code ? code : tpp_fit_take_part(set, TPP_FIT_KEPT, &kept, err);
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0] && trial && code == TPP_OK; i++) {
        struct tpp_solution solution;
        *trial = *run->hardware;
        trial->gpu.gemm_tile_m = tiles[i][0];
        trial->gpu.gemm_tile_n = tiles[i][1];
        code = tpp_solve(trial, plain_unknowns, 3, predict, &kept, &solution, err);
        if (code == TPP_OK && solution.state[0] == TPP_UNKNOWN_FITTED && solution.scale < least) {
            least = solution.scale;
            best[0] = tiles[i][0];
            best[1] = tiles[i][1];
        }
    }
    if (!trial) {
        code = tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    }
    free(kept.items);
    free(trial);
    gpu->gemm_tile_m = best[0];
    gpu->gemm_tile_n = best[1];
    return code;
}

/* Says where another tile than the base's comes from, and how good the fit with it is. */
static void note_tile(struct tpp_fit_run *run, const struct tpp_fit_set *set)
{
    static const char *const keys[] = {"gpu.gemm_tile_m", "gpu.gemm_tile_n"};
    const struct tpp_gpu *gpu = &run->hardware->gpu, *base = &run->base->gpu;
    char errors[80];
    if (gpu->gemm_tile_m == base->gemm_tile_m && gpu->gemm_tile_n == base->gemm_tile_n) {
        return;
    }
    tpp_fit_describe_errors(&run->report->groups[run->report->num_groups - 1].held_out_after, errors, sizeof errors);
    for (size_t i = 0; i < 2; i++) {
        tpp_fit_set_origin(run, keys[i], set, 0, errors);
    }
    tpp_fit_note(run->report, "gemm tile %u x %u fits better than %u x %u", gpu->gemm_tile_m, gpu->gemm_tile_n,
                 base->gemm_tile_m, base->gemm_tile_n);
}

/* Order of products: GPU and shape first, bursts before sustained runs, then as they were read. */
static int compare_products(const void *a, const void *b)
{
    const struct tpp_sample *left = *(const struct tpp_sample *const *)a, *right = *(const struct tpp_sample *const *)b;
    const struct tpp_gemm_sample *x = &left->gemm, *y = &right->gemm;
    const double keys[][2] = {{x->m, y->m}, {x->n, y->n}, {x->k, y->k}, {x->num_products, y->num_products},
                              {x->layout, y->layout}, {x->accumulates, y->accumulates}, {x->is_grouped, y->is_grouped},
                              {x->is_sustained, y->is_sustained}};
    const int device = strcmp(left->device, right->device);
    if (device != 0) {
        return device;
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (keys[i][0] != keys[i][1]) {
            return keys[i][0] < keys[i][1] ? -1 : 1;
        }
    }
    return (left > right) - (left < right);
}

static bool is_same_product(const struct tpp_sample *a, const struct tpp_sample *b)
{
    return strcmp(a->device, b->device) == 0 && a->gemm.m == b->gemm.m && a->gemm.n == b->gemm.n &&
           a->gemm.k == b->gemm.k && a->gemm.num_products == b->gemm.num_products && a->gemm.layout == b->gemm.layout &&
           a->gemm.accumulates == b->gemm.accumulates && a->gemm.is_grouped == b->gemm.is_grouped;
}

/* The bf16 products that were measured both ways on one GPU: in `set` the sustained samples, in `ratios` their rate over
 * that of the burst; of several bursts the first. Both have room for all samples. */
static void collect_sustained(const struct tpp_fit_run *run, struct tpp_fit_set *set, double *ratios)
{
    const struct tpp_samples *samples = run->samples;
    const struct tpp_sample *burst = NULL, **products = set->points.items;
    size_t count = 0, num_ratios = 0;
    for (size_t i = 0; i < samples->count; i++) {
        const struct tpp_sample *sample = &samples->items[i];
        if (sample->kind == TPP_SAMPLE_GEMM && !sample->is_wrong && sample->gemm.format == TPP_FORMAT_BF16 &&
            sample->seconds >= least_seconds(run->base, sample)) {
            products[count++] = sample;
        }
    }
    qsort(products, count, sizeof *products, compare_products);
    for (size_t i = 0; i < count; i++) {
        const bool is_of_burst = burst && is_same_product(burst, products[i]);
        if (products[i]->gemm.is_sustained && is_of_burst) {
            ratios[num_ratios] = burst->seconds / products[i]->seconds;
            products[num_ratios++] = products[i]; /* at most i: nothing that is still to come */
        } else if (!products[i]->gemm.is_sustained && !is_of_burst) {
            burst = products[i];
        }
    }
    set->points.count = num_ratios;
    tpp_sort_numbers(ratios, num_ratios);
}

/* Standard error of a median: 1.2533 standard deviations over sqrt(n), a deviation being 0.7413 of the quartiles'
 * distance; of a normal distribution. */
static double median_error(const double *sorted, size_t count)
{
    const double quartiles = tpp_sorted_quantile(sorted, count, 0.75) - tpp_sorted_quantile(sorted, count, 0.25);
    return 1.2533 * 0.7413 * quartiles / sqrt((double)count);
}

/* A step lasts longer than a burst: what the power limit allows under load bounds what it sustains. */
static enum tpp_code lower_to_sustained(struct tpp_fit_run *run, struct tpp_error *err)
{
    static const char key[] = "gpu.gemm_sustained_fraction";
    const size_t room = run->samples->count + 1;
    struct tpp_fit_set set = {.points = {malloc(room * sizeof *set.points.items), 0}};
    double *ratios = malloc(room * sizeof *ratios);
    enum tpp_code code = TPP_OK;
    struct tpp_fit_group *group = NULL;
    if (!ratios || !set.points.items) {
        code = tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
        goto out;
    }
    collect_sustained(run, &set, ratios);
    if (set.points.count == 0) {
        goto out;
    }
    group = tpp_fit_new_group(run->report);
    if (!group) {
        code = tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
        goto out;
    }
    const double base = run->hardware->gpu.gemm_sustained_fraction;
    const double ratio = tpp_sorted_quantile(ratios, set.points.count, 0.5);
    const double error = median_error(ratios, set.points.count);
    snprintf(group->name, sizeof group->name, "gemm under load");
    describe(&set, group->range, sizeof group->range);
    group->num_samples = group->num_fitted = set.points.count;
    group->is_in_profile = true;
    group->values[group->num_values++] = (struct tpp_fit_value){
        key, base, fmin(ratio, base), ratio < base ? error : 0,
        ratio < base ? "measured" : "the base sustains no more than was measured"};
    if (ratio < base) {
        tpp_hardware_set(run->hardware, key, ratio, NULL, NULL);
        tpp_fit_set_origin(run, key, &set, error / ratio, ", of the burst rate after seconds of load");
    }
out:
    free(ratios);
    free(set.points.items);
    return code;
}

enum tpp_code tpp_fit_gemm(struct tpp_fit_run *run, struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    for (int i = PLAIN; i <= FP8 && code == TPP_OK; i++) {
        const enum kind kind = (enum kind)i;
        struct tpp_fit_set set;
        code = tpp_fit_collect(run, select_kind, &kind, &set, err);
        code = code ? code : tpp_fit_leave_out_impossible(run, least_seconds, plans[i].name, &set, err);
        if (code == TPP_OK && kind == PLAIN && set.points.count > 0) {
            code = choose_tile(run, &set, err);
        }
        const bool is_plain = kind == PLAIN && code == TPP_OK && set.points.count > 0;
        code = code ? code : tpp_fit_group(run, run->hardware, &plans[i], &set, err);
        if (is_plain && code == TPP_OK) {
            note_tile(run, &set);
            code = lower_to_sustained(run, err);
            tpp_fit_note(run->report,
                         "GEMM rates are of bursts; a training step is taken to sustain %.3g of them: measured steps "
                         "say how much (--steps, --one-step)",
                         run->hardware->gpu.gemm_sustained_fraction);
        }
        tpp_fit_set_release(&set);
    }
    return code;
}
