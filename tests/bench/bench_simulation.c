/* How long one simulated step of Llama 3.1 405B on 16,384 H100 takes on one core, and what memory: the goal is a second. In
 * layers and operation by operation, without and with chunks, for 16 and 128 micro-batches. */
#include "costmodel/model/presets.h"
#include "costmodel/simulator/simulate.h"
#include "hwprofiles/profiles.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void check(enum tpp_code code, const struct tpp_error *err)
{
    if (code != TPP_OK) {
        fprintf(stderr, "bench_simulation: %s\n", err->message);
        exit(1);
    }
}

static void one_row(const struct tpp_model *model, const struct tpp_hardware *hardware, const char *text,
                    uint64_t batch, enum tpp_simulation_detail detail)
{
    struct tpp_error err;
    struct tpp_job job = tpp_job_defaults();
    struct tpp_stack stack;
    struct tpp_strategy strategy;
    struct tpp_evaluator *evaluator;
    struct tpp_simulation *simulation;
    struct tpp_simulation_options options = tpp_simulation_options_defaults();
    bool done;
    job.num_gpus = 16384;
    job.sequence_length = 8192;
    job.global_batch_size = batch;
    options.detail = detail;
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_LM, &hardware->gpu, &job, &stack);
    check(tpp_strategy_parse(text, &strategy, &err), &err);
    check(tpp_strategy_complete(&strategy, &job, &err), &err);
    check(tpp_evaluator_new(model, hardware, &job, &stack, &evaluator, &err), &err);
    const double start = now_seconds();
    check(tpp_simulation_new(evaluator, &strategy, &options, &simulation, &err), &err);
    const double built = now_seconds();
    check(tpp_simulation_run(simulation, UINT64_MAX, &done, &err), &err);
    const double end = now_seconds();
    const struct tpp_simulation_result *result = tpp_simulation_result(simulation);
    printf("%s, %llu sequences, %s: step %.3f s; built in %.4f s, run in %.4f s, %llu events, %.1f MB\n", text,
           (unsigned long long)batch, detail == TPP_DETAIL_OPS ? "operations" : "layers", result->step_seconds,
           built - start, end - built, (unsigned long long)result->num_events, 1e-6 * (double)result->num_bytes);
    tpp_simulation_free(simulation);
    tpp_evaluator_free(evaluator);
}

int main(void)
{
    static const char *const strategies[] = {
        "tp=8,pp=16,mbs=1,zero=1,sp=1,account_embedding=1,account_loss=1",
        "tp=8,pp=16,vp=2,mbs=1,zero=1,sp=1,account_embedding=1,account_loss=1",
    };
    struct tpp_error err;
    struct tpp_hardware hardware;
    const struct tpp_model *model = tpp_model_preset("llama3.1-405b");
    if (model == NULL) {
        fprintf(stderr, "bench_simulation: the preset is missing\n");
        return 1;
    }
    check(tpp_hardware_find("dgx-h100", &hardware, &err), &err);
    for (int i = 0; i < 2; i++)
        for (int detail = TPP_DETAIL_LAYERS; detail <= TPP_DETAIL_OPS; detail++) {
            one_row(model, &hardware, strategies[i], 2048, (enum tpp_simulation_detail)detail);
            one_row(model, &hardware, strategies[i], 16384, (enum tpp_simulation_detail)detail);
        }
    return 0;
}
