/* Operations a second of the pipeline schedules: lists, event loop and memory of 64 stages x 512 micro-batches. Median
 * and spread of 9 repeats after a warm-up. */
#include "costmodel/schedules/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { NUM_STAGES = 64, NUM_MICRO_BATCHES = 512, NUM_REPEATS = 9, MAX_VIRTUAL = 4 };

static double now_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time); /* one thread */
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint32_t chunks_a_stage(enum tpp_schedule schedule)
{
    if (schedule == TPP_SCHEDULE_INTERLEAVED)
        return MAX_VIRTUAL;
    return tpp_schedule_is_v_shaped(schedule) ? 2 : 1;
}

static int measure(struct tpp_schedule_run *run, enum tpp_schedule schedule)
{
    static struct tpp_schedule_chunk chunks[NUM_STAGES * MAX_VIRTUAL];
    const uint32_t v = chunks_a_stage(schedule);
    for (uint32_t g = 0; g < NUM_STAGES * v; g++)
        chunks[g] = (struct tpp_schedule_chunk){0.0104 / v, 0.0102 / v, 0.0077 / v, 34e6 / v, 32e6 / v};
    const struct tpp_schedule_problem problem = {
        .schedule = schedule,
        .pipeline_parallel = NUM_STAGES,
        .virtual_pipeline_stages = v,
        .num_micro_batches = NUM_MICRO_BATCHES,
        .chunks = chunks,
        .edge_seconds = 0.0004,
    };
    double seconds[NUM_REPEATS];
    struct tpp_schedule_summary summary;
    struct tpp_error err;
    for (int i = -1; i < NUM_REPEATS; i++) {
        const double start = now_seconds();
        if (tpp_schedule_step(run, &problem, &summary, &err) != TPP_OK) {
            fprintf(stderr, "%s: %s\n", tpp_schedule_name(schedule), err.message);
            return 1;
        }
        if (i >= 0)
            seconds[i] = now_seconds() - start;
    }
    qsort(seconds, NUM_REPEATS, sizeof seconds[0], compare);
    printf("%-12s %8llu ops %9.3f ms (%.3f to %.3f) %7.1f million ops/s\n", tpp_schedule_name(schedule),
           (unsigned long long)summary.num_ops, 1e3 * seconds[NUM_REPEATS / 2], 1e3 * seconds[0],
           1e3 * seconds[NUM_REPEATS - 1], summary.num_ops / seconds[NUM_REPEATS / 2] / 1e6);
    return 0;
}

int main(void)
{
    struct tpp_schedule_run *run;
    if (tpp_schedule_run_new(&run, NULL) != TPP_OK)
        return 1;
    int failed = 0;
    for (enum tpp_schedule schedule = TPP_SCHEDULE_GPIPE; schedule < TPP_SCHEDULE_COUNT; schedule++)
        failed |= measure(run, schedule);
    tpp_schedule_run_free(run);
    return failed;
}
