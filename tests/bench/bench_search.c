/* How many candidates are costed a second on one core: GPT-3 175B on 512 A100, sequences of 2048, a batch of 1536.
 *
 * Two things are compared in one run: the evaluator of the search, which remembers measured layers, and a fresh
 * evaluator for every candidate, which is what a search without that memory would pay. Prints the median of several
 * repeats. */
#include "hwprofiles/profiles.h"
#include "planner/search.h"

#include "costmodel/model/presets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NUM_REPEATS = 5, NUM_FRESH = 2000 };

struct scene {
    const struct tpp_model *model;
    struct tpp_hardware hardware;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_space_limits limits;
};

static double now_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time); /* one thread: not disturbed by what else runs on the machine */
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int fail(const struct tpp_error *err)
{
    fprintf(stderr, "bench_search: %s\n", err->message);
    exit(1);
}

static void make_scene(struct scene *scene)
{
    struct tpp_error err;
    scene->model = tpp_model_preset("gpt3-175b");
    if (scene->model == NULL || tpp_hardware_find("dgx-a100-80g", &scene->hardware, &err) != TPP_OK) {
        fprintf(stderr, "bench_search: the preset or the profile is missing\n");
        exit(1);
    }
    scene->job = tpp_job_defaults();
    scene->job.num_gpus = 512;
    scene->job.sequence_length = 2048;
    scene->job.global_batch_size = 1536;
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_LM, &scene->hardware.gpu, &scene->job, &scene->stack);
    scene->limits = tpp_space_limits_defaults();
    scene->limits.num_threads = 1;
}

/* Seconds of one whole search. */
static double time_search(const struct scene *scene, struct tpp_search_counts *counts)
{
    struct tpp_search *search;
    struct tpp_error err;
    bool done = false;
    const double start = now_seconds();
    if (tpp_search_new(scene->model, &scene->hardware, &scene->job, &scene->stack, &scene->limits, &search, &err) !=
        TPP_OK) {
        fail(&err);
    }
    while (!done) {
        if (tpp_search_step(search, UINT64_MAX, &done, &err) != TPP_OK) {
            fail(&err);
        }
    }
    const double seconds = now_seconds() - start;
    *counts = tpp_search_counts(search);
    tpp_search_free(search);
    return seconds;
}

static int by_value(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void bench_search(const struct scene *scene, const char *name)
{
    struct tpp_search_counts counts;
    double seconds[NUM_REPEATS];
    time_search(scene, &counts); /* warm-up */
    for (int i = 0; i < NUM_REPEATS; i++) {
        seconds[i] = time_search(scene, &counts);
    }
    qsort(seconds, NUM_REPEATS, sizeof seconds[0], by_value);
    const double median = seconds[NUM_REPEATS / 2];
    printf("%-12s %10llu enumerated %9llu costed in %.3f s (%.3f .. %.3f): %.0f costed/s, %.0f enumerated/s\n", name,
           (unsigned long long)counts.enumerated, (unsigned long long)counts.costed, median, seconds[0],
           seconds[NUM_REPEATS - 1], (double)counts.costed / median, (double)counts.enumerated / median);
}

/* One strategy, with a new evaluator every time. */
static void bench_fresh(const struct scene *scene)
{
    struct tpp_strategy strategy;
    struct tpp_error err;
    struct tpp_cost cost;
    tpp_strategy_parse("tp=8,pp=8,mbs=1,zero=1,sp=1", &strategy, &err);
    tpp_strategy_complete(&strategy, &scene->job, &err);
    const double start = now_seconds();
    for (int i = 0; i < NUM_FRESH; i++) {
        struct tpp_evaluator *evaluator;
        if (tpp_evaluator_new(scene->model, &scene->hardware, &scene->job, &scene->stack, &evaluator, &err) != TPP_OK ||
            tpp_evaluator_cost(evaluator, &strategy, &cost, &err) != TPP_OK) {
            fail(&err);
        }
        tpp_evaluator_free(evaluator);
    }
    const double seconds = now_seconds() - start;
    printf("%-12s %.0f costed/s with a fresh evaluator for every candidate\n", "fresh", NUM_FRESH / seconds);
}

int main(void)
{
    static struct scene scene;
    make_scene(&scene);
    bench_search(&scene, "default");
    scene.limits.full_space = true;
    bench_search(&scene, "full");
    bench_fresh(&scene);
    return 0;
}
