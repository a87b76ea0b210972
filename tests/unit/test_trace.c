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

/* Times in whole nanoseconds, as Perfetto reads them: one of overlap, and a slice is drawn inside the one before. */
struct slice {
    double pid, tid;
    long long start, end;
};

static long long nanoseconds(const cJSON *event, const char *name)
{
    const double time = 1000 * number(event, name);
    assert_true(fabs(time - round(time)) < 1e-3); /* three decimals of a microsecond, no more */
    return llround(time);
}

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
            slices[count++] = (struct slice){number(event, "pid"), number(event, "tid"), nanoseconds(event, "ts"),
                                             nanoseconds(event, "ts") + nanoseconds(event, "dur")};
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
                assert_true(slices[s].start >= slices[s - 1].end);
        free(slices);
        cJSON_Delete(trace.root);
    }
}

/* The slice that an arrow binds to, which is the one around its time: the start of the transfer that it leaves, the start of
 * the pass that it enters. NULL when there is none, and the viewer would drop the arrow. */
static const struct slice *slice_around(const struct slice *slices, size_t count, const cJSON *event)
{
    const long long time = nanoseconds(event, "ts");
    for (size_t s = 0; s < count; s++)
        if (slices[s].pid == number(event, "pid") && slices[s].tid == number(event, "tid") && slices[s].start <= time &&
            time < slices[s].end)
            return &slices[s];
    return NULL;
}

static void arrows_bind_to_slices_and_pair_up(void **state)
{
    (void)state;
    static const char *const strategies[] = {"tp=2,pp=4,mbs=1,zero=1,sp=1", "tp=4,pp=2,vp=2,mbs=1,zero=1,sp=1",
                                             "tp=2,pp=4,mbs=1,zero=1,sp=1,schedule=zb-h1"};
    enum { MAX_ARROWS = 1024 };
    for (int i = 0; i < 3; i++) {
        struct trace trace = make_trace(strategies[i], 1);
        struct slice *slices = malloc((size_t)cJSON_GetArraySize(trace.events) * sizeof(*slices));
        const size_t count = read_slices(&trace, slices);
        const struct slice *from[MAX_ARROWS] = {NULL}, *to[MAX_ARROWS] = {NULL};
        const cJSON *event;
        int num_arrows = 0;
        cJSON_ArrayForEach(event, trace.events)
        {
            const char phase = string(event, "ph")[0];
            if (phase != 's' && phase != 'f')
                continue;
            const int id = (int)number(event, "id");
            const struct slice *slice = slice_around(slices, count, event);
            assert_true(id > 0 && id < MAX_ARROWS && slice);
            if (phase == 's') {
                assert_null(from[id]); /* an id is used once */
                from[id] = slice;
                num_arrows++;
            } else {
                assert_true(from[id] && !to[id]); /* written after its start */
                assert_true(slice->start >= from[id]->end && slice->pid != from[id]->pid); /* received on another stage */
                to[id] = slice;
            }
        }
        for (int id = 1; id <= num_arrows; id++)
            assert_true(from[id] && to[id]);
        assert_true(num_arrows > 0);
        free(slices);
        cJSON_Delete(trace.root);
    }
}

static void check_counters(const char *strategy)
{
    struct trace trace = make_trace(strategy, 1);
    const char *names[64];
    double pids[64];
    long long latest[64];
    int num_counters = 0;
    const cJSON *event, *value;
    cJSON_ArrayForEach(event, trace.events)
    {
        if (strcmp(string(event, "ph"), "C") != 0)
            continue;
        cJSON_ArrayForEach(value, cJSON_GetObjectItemCaseSensitive(event, "args"))
        {
            assert_true(cJSON_IsNumber(value) && value->valuedouble >= 0);
            if (strcmp(value->string, "used_percent") == 0)
                assert_true(value->valuedouble <= 100.01);
        }
        int i = 0;
        while (i < num_counters && !(pids[i] == number(event, "pid") && strcmp(names[i], string(event, "name")) == 0))
            i++;
        assert_true(i < 64);
        if (i == num_counters) {
            names[num_counters] = string(event, "name");
            pids[num_counters] = number(event, "pid");
            latest[num_counters++] = -1;
        }
        assert_true(nanoseconds(event, "ts") > latest[i]); /* one value a moment */
        latest[i] = nanoseconds(event, "ts");
    }
    assert_true(num_counters >= 8); /* memory and network ports of four stages */
    cJSON_Delete(trace.root);
}

static void counters_have_numbers_and_only_go_forward_in_time(void **state)
{
    (void)state;
    check_counters("tp=2,pp=4,mbs=1,zero=1,sp=1");
    check_counters("tp=2,pp=4,mbs=1,zero=1,sp=1,vocab_parallel=two-barriers");
}

/* A thread without a name shows as a number: every track that has a slice is named, once, and so is its process. */
static void every_track_with_slices_has_one_name(void **state)
{
    (void)state;
    struct trace trace = make_trace("tp=2,pp=4,mbs=1,zero=1,sp=1", 2);
    int processes[8] = {0}, threads[8][16] = {{0}};
    const cJSON *event;
    cJSON_ArrayForEach(event, trace.events)
    {
        const cJSON *args = cJSON_GetObjectItemCaseSensitive(event, "args");
        if (strcmp(string(event, "name"), "process_name") == 0 && strlen(string(args, "name")) > 0)
            processes[(int)number(event, "pid")]++;
        if (strcmp(string(event, "name"), "thread_name") == 0 && strlen(string(args, "name")) > 0)
            threads[(int)number(event, "pid")][(int)number(event, "tid")]++;
    }
    cJSON_ArrayForEach(event, trace.events)
    {
        if (strcmp(string(event, "ph"), "X") != 0)
            continue;
        assert_int_equal(processes[(int)number(event, "pid")], 1);
        assert_int_equal(threads[(int)number(event, "pid")][(int)number(event, "tid")], 1);
    }
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
        cmocka_unit_test(arrows_bind_to_slices_and_pair_up),
        cmocka_unit_test(counters_have_numbers_and_only_go_forward_in_time),
        cmocka_unit_test(every_track_with_slices_has_one_name),
        cmocka_unit_test(memory_returns_to_what_is_held_all_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
