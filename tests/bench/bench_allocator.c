/* Allocations replayed a second: the allocator alone on a recorded step, and a whole plan with its trace. */
#include "costmodel/allocator/replay.h"
#include "costmodel/allocator/replica.h"
#include "costmodel/allocator/trace.h"
#include "costmodel/model/presets.h"
#include "hwprofiles/profiles.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void play(struct tpp_allocator *allocator, const struct tpp_trace_event *events, size_t count, uint32_t *blocks)
{
    for (size_t i = 0; i < count; i++) {
        if (events[i].kind == TPP_TRACE_ALLOCATE)
            tpp_allocator_allocate(allocator, events[i].bytes, events[i].stream, &blocks[events[i].tensor]);
        else if (events[i].kind == TPP_TRACE_FREE)
            tpp_allocator_release(allocator, blocks[events[i].tensor]);
        else if (events[i].kind == TPP_TRACE_RECORD)
            tpp_allocator_record_stream(allocator, blocks[events[i].tensor], events[i].stream);
        else
            tpp_allocator_finish_stream(allocator, events[i].stream);
    }
}

/* One step, played again and again on one allocator: it frees all that it allocates. */
static void bench_replica(const struct tpp_tracer *tracer)
{
    const struct tpp_allocator_settings settings = tpp_allocator_settings_defaults();
    struct tpp_allocator *allocator = NULL;
    size_t count = 0;
    const struct tpp_trace_event *events = tpp_tracer_events(tracer, &count);
    uint32_t *blocks = calloc(tpp_tracer_num_tensors(tracer), sizeof(*blocks));
    if (blocks == NULL || tpp_allocator_new(&settings, UINT64_C(1) << 40, UINT64_C(1) << 40, &allocator, NULL) != TPP_OK)
        exit(1);
    const double start = seconds_now();
    double seconds = 0;
    for (; seconds < 1; seconds = seconds_now() - start)
        play(allocator, events, count, blocks);
    const double allocations = (double)tpp_allocator_statistics(allocator)->num_allocations;
    printf("replica: %.1f million allocations a second, with their frees\n", 1e-6 * allocations / seconds);
    tpp_allocator_free(allocator);
    free(blocks);
}

static void bench_plan(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                       const struct tpp_lengths *lengths, const char *name)
{
    struct tpp_replay_options options = tpp_replay_defaults();
    options.lengths = lengths;
    double allocations = 0, seconds = 0;
    int plans = 0;
    for (const double start = seconds_now(); seconds < 1; seconds = seconds_now() - start, plans++) {
        struct tpp_replay replay;
        if (tpp_replay_plan(evaluator, strategy, &options, &replay, NULL) != TPP_OK)
            exit(1);
        allocations += (double)replay.num_allocations;
        tpp_replay_release(&replay);
    }
    printf("%s: %.1f ms a plan with its %u draws, %.0f allocations in its own replay\n", name, 1e3 * seconds / plans,
           options.num_draws, allocations / plans);
}

int main(void)
{
    struct tpp_hardware hardware;
    struct tpp_stack stack;
    struct tpp_strategy strategy;
    struct tpp_evaluator *evaluator = NULL;
    struct tpp_tracer *tracer = NULL;
    struct tpp_lengths uniform;
    struct tpp_job job = tpp_job_defaults();
    const struct tpp_model *model = tpp_model_preset("codellama-13b");
    const struct tpp_trace_options options = {.seed = 1};
    job.num_gpus = 32;
    job.sequence_length = 32768;
    job.global_batch_size = 128;
    if (model == NULL || tpp_hardware_find("dgx-a100-80g", &hardware, NULL) != TPP_OK)
        return 1;
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_DEEPSPEED, &hardware.gpu, &job, &stack);
    if (tpp_strategy_parse("mbs=1,zero=3,recompute=full", &strategy, NULL) != TPP_OK ||
        tpp_strategy_complete(&strategy, &job, NULL) != TPP_OK ||
        tpp_evaluator_new(model, &hardware, &job, &stack, &evaluator, NULL) != TPP_OK ||
        tpp_tracer_new(evaluator, &strategy, 0, &options, &tracer, NULL) != TPP_OK ||
        tpp_tracer_setup(tracer, NULL) != TPP_OK || tpp_tracer_step(tracer, NULL) != TPP_OK ||
        tpp_tracer_step(tracer, NULL) != TPP_OK || tpp_lengths_parse("uniform:8k-32k", &uniform, NULL) != TPP_OK)
        return 1;
    bench_replica(tracer);
    bench_plan(evaluator, &strategy, NULL, "fixed lengths");
    bench_plan(evaluator, &strategy, &uniform, "uniform lengths, 50 steps");
    tpp_lengths_release(&uniform);
    tpp_tracer_free(tracer);
    tpp_evaluator_free(evaluator);
    return 0;
}
