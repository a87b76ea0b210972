/* What is alive at the peak, by hand. Llama-2-7B, bf16: h = 4096, f = 11008, 32 layers and 6738415616 parameters; n = 4096 tokens
 * of a micro-batch. A layer's input takes 2 h n = 33554432 bytes, what its MLP's first product writes 4 f n = 180355072. */
#include "costmodel/allocator/peak_tensors.h"
#include "tests/support/failing_alloc.h"
#include "tests/support/shapes.h"

struct fixture {
    struct tpp_hardware hardware;
    struct tpp_model model;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_strategy strategy;
    struct tpp_evaluator *evaluator;
};

static void start(struct fixture *fixture, enum tpp_framework framework, uint32_t num_gpus, uint64_t batch,
                  const char *strategy)
{
    fixture->hardware = shape_cluster("dgx-a100-80g");
    fixture->model = shape_preset("llama2-7b");
    fixture->job = shape_job(num_gpus, 4096, batch);
    tpp_stack_defaults(framework, &fixture->hardware.gpu, &fixture->job, &fixture->stack);
    fixture->strategy = shape_strategy(strategy, &fixture->job);
    assert_int_equal(tpp_evaluator_new(&fixture->model, &fixture->hardware, &fixture->job, &fixture->stack,
                                       &fixture->evaluator, NULL),
                     TPP_OK);
}

static struct tpp_peak find(struct fixture *fixture, uint32_t stage)
{
    struct tpp_peak peak;
    struct tpp_error err = {0};
    if (tpp_peak_find(fixture->evaluator, &fixture->strategy, stage, &peak, &err) != TPP_OK)
        fail_msg("%s (%s)", err.message, err.where);
    assert_int_equal(peak.stage, stage);
    return peak;
}

static const struct tpp_peak_tensors *of_name(const struct tpp_peak *peak, const char *name)
{
    for (uint32_t i = 0; i < peak->count; i++)
        if (strcmp(peak->tensors[i].name, name) == 0)
            return &peak->tensors[i];
    fail_msg("no %s at the peak", name);
    return NULL;
}

static void check_list(const struct tpp_peak *peak)
{
    uint64_t sum = peak->other_bytes;
    assert_in_range(peak->count, 1, TPP_PEAK_MAX_TENSORS);
    assert_true(peak->num_other_names == 0 || peak->count == TPP_PEAK_MAX_TENSORS);
    for (uint32_t i = 0; i < peak->count; i++) {
        const struct tpp_peak_tensors *tensors = &peak->tensors[i];
        sum += tensors->bytes;
        assert_true(i == 0 || peak->tensors[i - 1].bytes >= tensors->bytes);
        assert_true(tensors->largest_bytes * tensors->count >= tensors->bytes && tensors->largest_bytes <= tensors->bytes);
        assert_true(tensors->first_layer <= tensors->last_layer &&
                    tensors->first_micro_batch <= tensors->last_micro_batch);
    }
    assert_int_equal(sum, peak->alive_bytes);
}

/* On one GPU with everything recomputed, the 32000 logits of each token outweigh one layer's backward: 4096 * 32000 * (2 + 4 + 4)
 * = 1.3e9 bytes in Megatron, 4096 (14 h + 12 f) = 0.8e9 for the layer with its gradients. */
static void the_loss_is_the_peak_of_one_gpu(void **state)
{
    (void)state;
    struct fixture fixture;
    struct tpp_cost cost;
    start(&fixture, TPP_FRAMEWORK_MEGATRON_LM, 1, 2, "mbs=1,recompute=full");
    const struct tpp_peak peak = find(&fixture, 0);
    check_list(&peak);
    assert_int_equal(peak.step, 2); /* the moments are missing in the first one's passes */
    assert_int_equal(peak.phase, TPP_TRACE_LOSS);
    assert_int_equal(peak.micro_batch, 0);
    assert_int_equal(peak.layer, TPP_TRACE_NO_LAYER);
    assert_string_equal(peak.tensors[0].name, "optimizer moments"); /* 2 of 4 bytes */
    assert_in_range(peak.tensors[0].bytes, 8 * UINT64_C(6738415616), 8 * UINT64_C(6738415616) + 2000);
    assert_int_equal(of_name(&peak, "gradients")->bytes, 4 * UINT64_C(6738415616));
    assert_int_equal(of_name(&peak, "gradients")->count, 1); /* one flat buffer */
    assert_int_equal(of_name(&peak, "gradients")->first_layer, TPP_TRACE_NO_LAYER);
    assert_int_equal(of_name(&peak, "gradients")->first_micro_batch, UINT32_MAX);
    const struct tpp_peak_tensors *inputs = of_name(&peak, "layer input");
    assert_int_equal(inputs->count, 32);
    assert_int_equal(inputs->bytes, 32 * UINT64_C(33554432));
    assert_int_equal(inputs->largest_bytes, 33554432);
    assert_int_equal(inputs->first_layer, 0);
    assert_int_equal(inputs->last_layer, 31);
    assert_int_equal(inputs->first_micro_batch, 0);
    assert_int_equal(inputs->last_micro_batch, 0);
    /* The same peak as the memory walk's, which the categories of --explain come from. */
    assert_int_equal(tpp_evaluator_cost(fixture.evaluator, &fixture.strategy, &cost, NULL), TPP_OK);
    CHECK_NUMBER((double)peak.alive_bytes, cost.memory.peak_allocated_bytes, 1e-4);
    tpp_evaluator_free(fixture.evaluator);
}

/* 1F1B on four stages of 8 layers: the first stage holds micro-batches 0 to 3 when the backward of 0 begins, at its last layer,
 * which has just been run again. */
static void a_first_stage_peaks_at_its_first_backward(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, TPP_FRAMEWORK_MEGATRON_LM, 4, 16, "pp=4,mbs=1,recompute=full");
    const struct tpp_peak peak = find(&fixture, 0);
    check_list(&peak);
    assert_int_equal(peak.phase, TPP_TRACE_BACKWARD);
    assert_int_equal(peak.micro_batch, 0);
    assert_int_equal(peak.layer, 7);
    const struct tpp_peak_tensors *inputs = of_name(&peak, "layer input");
    assert_int_equal(inputs->count, 4 * 8);
    assert_int_equal(inputs->last_layer, 7);
    assert_int_equal(inputs->first_micro_batch, 0);
    assert_int_equal(inputs->last_micro_batch, 3);
    const struct tpp_peak_tensors *products = of_name(&peak, "mlp in output");
    assert_int_equal(products->count, 1);
    assert_int_equal(products->bytes, 180355072);
    assert_int_equal(products->first_layer, 7);
    assert_int_equal(products->last_layer, 7);
    assert_int_equal(products->last_micro_batch, 0);
    tpp_evaluator_free(fixture.evaluator);
}

/* FSDP holds two gathered units: the layer at work and the one fetched ahead. */
static void gathered_layers_are_in_the_list(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, TPP_FRAMEWORK_TORCHTITAN, 8, 32, "dp=8,mbs=1,zero=3,recompute=full");
    const struct tpp_peak peak = find(&fixture, 0);
    check_list(&peak);
    const struct tpp_peak_tensors *gathered = NULL;
    for (uint32_t i = 0; i < peak.count; i++)
        if (strstr(peak.tensors[i].name, "gathered") != NULL && peak.tensors[i].first_layer != TPP_TRACE_NO_LAYER)
            gathered = &peak.tensors[i];
    assert_non_null(gathered);
    assert_int_equal(gathered->last_layer - gathered->first_layer, 1);
    tpp_evaluator_free(fixture.evaluator);
}

static void what_has_no_trace_is_said(void **state)
{
    (void)state;
    struct fixture fixture;
    struct tpp_peak peak;
    struct tpp_error err = {0};
    start(&fixture, TPP_FRAMEWORK_MEGATRON_LM, 4, 16, "pp=4,mbs=1,vocab_parallel=one-barrier");
    assert_int_equal(tpp_peak_find(fixture.evaluator, &fixture.strategy, 0, &peak, &err), TPP_E_UNSUPPORTED);
    assert_string_equal(err.where, "strategy.vocabulary_parallel");
    tpp_evaluator_free(fixture.evaluator);
    start(&fixture, TPP_FRAMEWORK_MEGATRON_LM, 4, 16, "pp=4,mbs=1");
    assert_int_equal(tpp_peak_find(fixture.evaluator, &fixture.strategy, 4, &peak, &err), TPP_E_RANGE);
    tpp_evaluator_free(fixture.evaluator);
}

static void host_memory_may_run_out_anywhere(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, TPP_FRAMEWORK_MEGATRON_LM, 2, 4, "pp=2,mbs=1");
    for (uint64_t n = 0;; n++) {
        struct tpp_peak peak;
        tpp_failing_alloc_arm(n);
        const enum tpp_code code = tpp_peak_find(fixture.evaluator, &fixture.strategy, 0, &peak, NULL);
        const bool was_armed = tpp_failing_alloc_disarm();
        assert_int_equal(code, was_armed ? TPP_E_MEMORY : TPP_OK);
        if (!was_armed)
            break;
    }
    tpp_evaluator_free(fixture.evaluator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_is_the_peak_of_one_gpu),
        cmocka_unit_test(a_first_stage_peaks_at_its_first_backward),
        cmocka_unit_test(gathered_layers_are_in_the_list),
        cmocka_unit_test(what_has_no_trace_is_said),
        cmocka_unit_test(host_memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
