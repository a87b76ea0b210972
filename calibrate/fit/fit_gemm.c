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

static double flops(const struct tpp_sample *sample)
{
    return 2 * sample->gemm.m * sample->gemm.n * sample->gemm.k * sample->gemm.num_products;
}

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
    return least >= least_size && flops(sample) >= (kind == FP8 ? least_fp8_flops : least_flops) ? TPP_FIT_USE
                                                                                                 : TPP_FIT_LEAVE_OUT;
}

/* At the peak of the data sheet; 0 where the GPU has no rate for the format. */
static double least_seconds(const struct tpp_hardware *hardware, const struct tpp_sample *sample)
{
    const double peak = sample->gemm.format == TPP_FORMAT_FP8 ? hardware->gpu.fp8_flops_per_second
                                                              : hardware->gpu.bf16_flops_per_second;
    return peak > 0 ? flops(sample) / peak : 0;
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

static const struct tpp_fit_plan plans[] = {
    [PLAIN] = {"gemm", plain_unknowns, 3, predict, shape, flops, describe, true, "gpu.gemm_error_fraction"},
    [WEIGHT_GRADIENT] = {"gemm, weight gradient", wgrad_unknowns, 1, predict, shape, flops, describe, true, NULL},
    [FP8] = {"gemm fp8", fp8_unknowns, 1, predict, shape, flops, describe, true, NULL},
};

/* The preferred tile is one of a few: the one with which the fitted formula scatters least. The samples that are held
 * out do not take part. */
static enum tpp_code choose_tile(struct tpp_fit_run *run, struct tpp_fit_set *set, struct tpp_error *err)
{
    static const uint32_t tiles[][2] = {{128, 128}, {128, 256}, {256, 128}};
    const uint32_t base[2] = {run->hardware->gpu.gemm_tile_m, run->hardware->gpu.gemm_tile_n};
    uint32_t best[2] = {base[0], base[1]};
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
    if (best[0] != base[0] || best[1] != base[1]) {
        tpp_hardware_set(run->hardware, "gpu.gemm_tile_m", best[0], NULL, NULL);
        tpp_hardware_set(run->hardware, "gpu.gemm_tile_n", best[1], NULL, NULL);
        tpp_fit_set_origin(run, "gpu.gemm_tile_m", set, 0, "");
        tpp_fit_set_origin(run, "gpu.gemm_tile_n", set, 0, "");
        tpp_fit_note(run->report, "gemm tile %u x %u fits better than %u x %u", best[0], best[1], base[0], base[1]);
    }
    return code;
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

/* Sustained over burst rate of every bf16 product that was measured both ways on one GPU, in `ratios`; of several bursts
 * the first. `products` is scratch; both have room for all samples. Returns the number of ratios. */
static size_t sustained_ratios(const struct tpp_fit_run *run, const struct tpp_sample **products, double *ratios)
{
    const struct tpp_samples *samples = run->samples;
    size_t count = 0, num_ratios = 0;
    const struct tpp_sample *burst = NULL;
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
            ratios[num_ratios++] = burst->seconds / products[i]->seconds;
        } else if (!products[i]->gemm.is_sustained && !is_of_burst) {
            burst = products[i];
        }
    }
    return num_ratios;
}

/* A step lasts longer than a burst: what the power limit allows under load bounds what it sustains. */
static enum tpp_code lower_to_sustained(struct tpp_fit_run *run, const struct tpp_fit_set *set, struct tpp_error *err)
{
    double *ratios = malloc((run->samples->count + 1) * sizeof *ratios);
    const struct tpp_sample **products = malloc((run->samples->count + 1) * sizeof *products);
    if (!ratios || !products) {
        free(ratios);
        free(products);
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    }
    const size_t count = sustained_ratios(run, products, ratios);
    tpp_sort_numbers(ratios, count);
    const double ratio = count > 0 ? tpp_sorted_quantile(ratios, count, 0.5) : 1;
    if (ratio < run->hardware->gpu.gemm_sustained_fraction) {
        tpp_hardware_set(run->hardware, "gpu.gemm_sustained_fraction", ratio, NULL, NULL);
        tpp_fit_set_origin(run, "gpu.gemm_sustained_fraction", set, 0, "");
        tpp_fit_note(run->report, "GEMMs under load run at %.3f of the burst rate (%zu shapes): g_sus is no more", ratio,
                     count);
    }
    free(ratios);
    free(products);
    return TPP_OK;
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
            code = lower_to_sustained(run, &set, err);
            tpp_fit_note(run->report,
                         "GEMM rates are of bursts; a training step is taken to sustain %.3g of them: measured steps "
                         "say how much (--steps, --one-step)",
                         run->hardware->gpu.gemm_sustained_fraction);
        }
        tpp_fit_set_release(&set);
    }
    return code;
}
