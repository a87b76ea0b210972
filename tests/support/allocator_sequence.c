/* allocator_sequence.c - sequences of allocations for scripts/gpu_allocator_check.py, which runs them through real PyTorch.
 *
 *   allocator_sequence record NAME           writes the sequence: settings, then one event a line
 *   allocator_sequence replay FILE TOTAL     plays it on the replica of a card of TOTAL bytes and writes, after each event,
 *                                            allocated, reserved and active bytes, retries, out-of-memory
 *
 * Events: "a TENSOR BYTES STREAM" allocate, "r TENSOR STREAM" record_stream, "f TENSOR" free, "s STREAM" the stream is
 * done, "e" empty the cache. */
#include "costmodel/allocator/replica.h"
#include "costmodel/allocator/trace.h"
#include "costmodel/model/presets.h"
#include "hwprofiles/profiles.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TENSORS 100000

struct sequence {
    const char *name, *settings, *framework, *strategy, *lengths;
};
/* Peaks of 4 to 16 GiB: any card of 24 GB or more can run them; the script sets the fraction so that the second retries. */
static const struct sequence sequences[] = {
    {"static", "", "megatron-lm", "tp=4,dp=2,mbs=1,zero=1,sp=1", "fixed"},
    {"variable", "per_process_memory_fraction:0.35", "megatron-deepspeed", "mbs=1,zero=3,recompute=full", "uniform:512-4k"},
    {"expandable", "expandable_segments:True", "megatron-deepspeed", "mbs=1,zero=3,recompute=full", "uniform:512-4k"},
};

static int fail(const char *message)
{
    fprintf(stderr, "allocator_sequence: %s\n", message);
    return 1;
}

static void write_events(const struct tpp_tracer *tracer)
{
    size_t count = 0;
    const struct tpp_trace_event *events = tpp_tracer_events(tracer, &count);
    for (size_t i = 0; i < count; i++) {
        const struct tpp_trace_event *event = &events[i];
        if (event->kind == TPP_TRACE_ALLOCATE)
            printf("a %" PRIu32 " %" PRIu64 " %u\n", event->tensor, event->bytes, event->stream);
        else if (event->kind == TPP_TRACE_RECORD)
            printf("r %" PRIu32 " %u\n", event->tensor, event->stream);
        else if (event->kind == TPP_TRACE_FREE)
            printf("f %" PRIu32 "\n", event->tensor);
        else
            printf("s %u\n", event->stream);
    }
}

static enum tpp_code record_with(const struct sequence *sequence, struct tpp_evaluator *evaluator,
                                 const struct tpp_strategy *strategy, struct tpp_error *err)
{
    struct tpp_lengths lengths;
    struct tpp_tracer *tracer = NULL;
    enum tpp_code code = tpp_lengths_parse(sequence->lengths, &lengths, err);
    const struct tpp_trace_options options = {.lengths = &lengths, .seed = 1};
    if (code == TPP_OK)
        code = tpp_tracer_new(evaluator, strategy, 0, &options, &tracer, err);
    if (code == TPP_OK) {
        printf("settings %s\n", sequence->settings);
        code = tpp_tracer_setup(tracer, err);
    }
    for (int step = 0; code == TPP_OK && step < 6; step++) {
        write_events(tracer);
        code = tpp_tracer_step(tracer, err);
    }
    if (code == TPP_OK)
        puts("e");
    tpp_tracer_free(tracer);
    tpp_lengths_release(&lengths);
    return code;
}

static int record(const struct sequence *sequence)
{
    struct tpp_error err = {0};
    struct tpp_hardware hardware;
    struct tpp_stack stack;
    struct tpp_strategy strategy;
    struct tpp_evaluator *evaluator = NULL;
    enum tpp_framework framework;
    struct tpp_job job = tpp_job_defaults();
    const struct tpp_model *model = tpp_model_preset("deepseek-coder-1.3b");
    job.num_gpus = 8;
    job.sequence_length = 4096;
    job.global_batch_size = 16;
    enum tpp_code code = tpp_hardware_find("dgx-a100-80g", &hardware, &err);
    if (model == NULL || !tpp_framework_parse(sequence->framework, &framework))
        return fail("no such model or framework");
    tpp_stack_defaults(framework, &hardware.gpu, &job, &stack);
    if (code == TPP_OK)
        code = tpp_strategy_parse(sequence->strategy, &strategy, &err);
    if (code == TPP_OK)
        code = tpp_strategy_complete(&strategy, &job, &err);
    if (code == TPP_OK)
        code = tpp_evaluator_new(model, &hardware, &job, &stack, &evaluator, &err);
    if (code == TPP_OK)
        code = record_with(sequence, evaluator, &strategy, &err);
    tpp_evaluator_free(evaluator);
    return code == TPP_OK ? 0 : fail(err.message);
}

static bool play(struct tpp_allocator *allocator, const char *line, uint32_t *blocks)
{
    uint64_t bytes = 0;
    unsigned tensor = 0, stream = 0;
    if (sscanf(line, "a %u %" SCNu64 " %u", &tensor, &bytes, &stream) == 3 && tensor < MAX_TENSORS)
        return tpp_allocator_allocate(allocator, bytes, stream, &blocks[tensor]) != TPP_ALLOCATION_NO_HOST_MEMORY;
    if (sscanf(line, "r %u %u", &tensor, &stream) == 2 && tensor < MAX_TENSORS)
        tpp_allocator_record_stream(allocator, blocks[tensor], stream);
    else if (sscanf(line, "f %u", &tensor) == 1 && tensor < MAX_TENSORS)
        tpp_allocator_release(allocator, blocks[tensor]);
    else if (sscanf(line, "s %u", &stream) == 1)
        tpp_allocator_finish_stream(allocator, stream);
    else if (line[0] == 'e')
        tpp_allocator_empty_cache(allocator);
    else
        return false;
    return true;
}

static int replay(FILE *file, uint64_t total_bytes)
{
    char line[512];
    struct tpp_error err = {0};
    struct tpp_allocator_settings settings;
    struct tpp_allocator *allocator = NULL;
    uint32_t *blocks = calloc(MAX_TENSORS, sizeof(*blocks));
    bool is_good = blocks != NULL && fgets(line, sizeof line, file) != NULL && strncmp(line, "settings ", 9) == 0;
    if (is_good) {
        line[strcspn(line, "\n")] = '\0';
        is_good = tpp_allocator_settings_parse(line + 9, &settings, &err) == TPP_OK &&
                  tpp_allocator_new(&settings, total_bytes, total_bytes, &allocator, &err) == TPP_OK;
    }
    while (is_good && fgets(line, sizeof line, file) != NULL) {
        is_good = play(allocator, line, blocks);
        const struct tpp_allocator_statistics *s = tpp_allocator_statistics(allocator);
        printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", s->allocated.current, s->reserved.current,
               s->active.current, s->num_retries, s->num_out_of_memory);
    }
    tpp_allocator_free(allocator);
    free(blocks);
    return is_good ? 0 : fail(err.message[0] != '\0' ? err.message : "this is not a sequence");
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "record") == 0) {
        for (size_t i = 0; i < sizeof(sequences) / sizeof(sequences[0]); i++)
            if (strcmp(argv[2], sequences[i].name) == 0)
                return record(&sequences[i]);
        return fail("the sequences are static, variable, expandable");
    }
    if (argc != 4 || strcmp(argv[1], "replay") != 0)
        return fail("usage: allocator_sequence record NAME | replay FILE TOTAL_BYTES");
    FILE *file = fopen(argv[2], "r");
    if (file == NULL)
        return fail("cannot open the sequence");
    const int status = replay(file, strtoull(argv[3], NULL, 10));
    fclose(file);
    return status;
}
