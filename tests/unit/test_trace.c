/* The trace of a simulated step against the Trace Event Format: members, nesting of slices, arrows that end, counters. */
#include "costmodel/simulator/trace.h"
#include "tests/support/shapes.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

struct trace {
    cJSON *root;
    const cJSON *events;
    double step_seconds;
    size_t num_ops;
};

static struct trace make_trace(const char *strategy_text, uint32_t num_replicas)
{
    const struct tpp_model model = shape_preset("llama3.1-8b");
    const struct tpp_hardware hardware = shape_cluster("dgx-h100");
    const struct tpp_job job = shape_job(32, 4096, 64);
    struct tpp_stack stack;
    struct tpp_evaluator *evaluator;
    struct tpp_simulation *simulation;
    struct tpp_simulation_options options = tpp_simulation_options_defaults();
    struct tpp_text text;
    bool done;
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_LM, &hardware.gpu, &job, &stack);
    const struct tpp_strategy strategy = shape_strategy(strategy_text, &job);
    options.records_links = true;
    options.num_replicas = num_replicas;
    assert_int_equal(tpp_evaluator_new(&model, &hardware, &job, &stack, &evaluator, NULL), TPP_OK);
    assert_int_equal(tpp_simulation_new(evaluator, &strategy, &options, &simulation, NULL), TPP_OK);
    assert_null(tpp_simulation_result(simulation));
    assert_int_equal(tpp_simulation_run(simulation, UINT64_MAX, &done, NULL), TPP_OK);
    tpp_text_init(&text);
    tpp_simulation_trace(simulation, &text);
    assert_false(tpp_text_failed(&text));
    struct trace trace = {.root = cJSON_ParseWithOpts(tpp_text_get(&text), NULL, 1),
                          .step_seconds = tpp_simulation_result(simulation)->step_seconds,
                          .num_ops = tpp_simulation_result(simulation)->num_ops};
    assert_non_null(trace.root);
    trace.events = cJSON_GetObjectItemCaseSensitive(trace.root, "traceEvents");
    assert_true(cJSON_IsArray(trace.events));
    tpp_text_release(&text);
    tpp_simulation_free(simulation);
    tpp_evaluator_free(evaluator);
    return trace;
}

static double number(const cJSON *event, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(event, name);
    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static const char *string(const cJSON *event, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(event, name);
    assert_true(cJSON_IsString(item));
    return item->valuestring;
}

static void every_event_has_what_its_phase_asks_for(void **state)
{
    (void)state;
    struct trace trace = make_trace("tp=2,pp=4,mbs=1,zero=1,sp=1", 2);
    size_t counts[128] = {0};
    const cJSON *event;
    cJSON_ArrayForEach(event, trace.events)
    {
        const char *phase = string(event, "ph");
        assert_int_equal(strlen(phase), 1);
        assert_true(strlen(string(event, "name")) > 0);
        assert_true(number(event, "pid") >= 0 && number(event, "pid") < 8); /* 2 replicas of 4 stages */
        counts[(unsigned char)phase[0]]++;
        if (phase[0] == 'M') {
            assert_true(cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(event, "args")));
            continue;
        }
        assert_true(number(event, "ts") >= 0 && number(event, "ts") <= trace.step_seconds * 1e6 + 1);
        if (phase[0] == 'X')
            assert_true(number(event, "dur") >= 0 && number(event, "tid") < 7);
        else if (phase[0] == 's' || phase[0] == 'f')
            assert_true(number(event, "id") > 0 && strcmp(string(event, "cat"), "send") == 0);
        else if (phase[0] == 'C')
            assert_true(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(event, "args")) >= 1);
        else
            fail_msg("phase %s", phase);
        if (phase[0] == 'f')
            assert_string_equal(string(event, "bp"), "e");
    }
    assert_int_equal(counts['M'], 8 * (2 + 2 * 7));
    /* dp = 4, m = 16: 3 edges forward and back, 16 micro-batches, 2 replicas. */
    assert_int_equal(counts['s'], 2 * 3 * 16 * 2);
    assert_int_equal(counts['f'], counts['s']);
    assert_true(counts['X'] >= trace.num_ops && counts['C'] > 0);
    cJSON_Delete(trace.root);
}

struct slice {
    double pid, tid, start, end;
};

static int compare_slices(const void *left, const void *right)
{
    const struct slice *a = left, *b = right;
    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    if (a->tid != b->tid)
        return a->tid < b->tid ? -1 : 1;
    return (a->start > b->start) - (a->start < b->start);
}

static size_t read_slices(const struct trace *trace, struct slice *slices)
{
    size_t count = 0;
    const cJSON *event;
    cJSON_ArrayForEach(event, trace->events)
    {
        if (strcmp(string(event, "ph"), "X") == 0)
            slices[count++] = (struct slice){number(event, "pid"), number(event, "tid"), number(event, "ts"),
                                             number(event, "ts") + number(event, "dur")};
    }
    qsort(slices, count, sizeof(*slices), compare_slices);
    return count;
}

static void slices_of_a_stream_follow_each_other(void **state)
{
    (void)state;
    static const char *const strategies[] = {"tp=2,pp=4,mbs=1,zero=1,sp=1", "tp=4,pp=2,vp=2,mbs=1,zero=1,sp=1",
                                             "tp=8,pp=1,mbs=1,zero=1"};
    for (int i = 0; i < 3; i++) {
        struct trace trace = make_trace(strategies[i], 1);
        struct slice *slices = malloc((size_t)cJSON_GetArraySize(trace.events) * sizeof(*slices));
        const size_t count = read_slices(&trace, slices);
        for (size_t s = 1; s < count; s++)
            if (slices[s].pid == slices[s - 1].pid && slices[s].tid == slices[s - 1].tid)
                assert_true(slices[s].start >= slices[s - 1].end - 2e-3); /* times have three decimals */
        free(slices);
        cJSON_Delete(trace.root);
    }
}

static void arrows_begin_and_end_in_slices(void **state)
{
    (void)state;
    struct trace trace = make_trace("tp=2,pp=4,mbs=1,zero=1,sp=1", 1);
    struct slice *slices = malloc((size_t)cJSON_GetArraySize(trace.events) * sizeof(*slices));
    const size_t count = read_slices(&trace, slices);
    double starts[512] = {0};
    const cJSON *event;
    cJSON_ArrayForEach(event, trace.events)
    {
        const char phase = string(event, "ph")[0];
        if (phase != 's' && phase != 'f')
            continue;
        const double ts = number(event, "ts");
        const int id = (int)number(event, "id");
        size_t s = 0;
        while (s < count && !(slices[s].pid == number(event, "pid") && slices[s].tid == number(event, "tid") &&
                              slices[s].start <= ts + 2e-3 && ts <= slices[s].end + 2e-3))
            s++;
        assert_true(s < count && id < 512);
        if (phase == 's')
            starts[id] = ts;
        else
            assert_true(starts[id] > 0 && ts > starts[id]); /* written before it, and later in time */
    }
    free(slices);
    cJSON_Delete(trace.root);
}

static void memory_returns_to_what_is_held_all_the_time(void **state)
{
    (void)state;
    struct trace trace = make_trace("tp=2,pp=4,mbs=1,zero=1,sp=1", 1);
    double peak[4] = {0}, last[4] = {0};
    const cJSON *event;
    cJSON_ArrayForEach(event, trace.events)
    {
        if (strcmp(string(event, "name"), "memory") != 0)
            continue;
        const cJSON *values = cJSON_GetObjectItemCaseSensitive(event, "args");
        const int stage = (int)number(event, "pid");
        last[stage] = number(values, "activation_bytes");
        peak[stage] = fmax(peak[stage], last[stage]);
        assert_true(number(values, "weights_and_states_bytes") > 0);
    }
    for (int stage = 0; stage < 4; stage++)
        assert_true(last[stage] < 1 && peak[stage] > 0);
    CHECK_NUMBER(peak[0] / peak[3], 4, 0.01); /* 1F1B: p - r micro-batches in flight */
    cJSON_Delete(trace.root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_event_has_what_its_phase_asks_for),
        cmocka_unit_test(slices_of_a_stream_follow_each_other),
        cmocka_unit_test(arrows_begin_and_end_in_slices),
        cmocka_unit_test(memory_returns_to_what_is_held_all_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
