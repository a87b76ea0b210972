/* Checks planner/replayed_ranking.h and the choice of a setting behind it (costmodel/allocator/replay.h). */
#include "planner/replayed_ranking.h"
#include "tests/support/check_number.h"
#include "tests/support/shapes.h"

#define GIB(bytes) ((bytes)*0x1p30)

struct fixture {
    struct tpp_model model;
    struct tpp_hardware hardware;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_evaluator *evaluator;
    struct tpp_replay_options options;
    struct tpp_lengths lengths;
};

static void start(struct fixture *fixture, const char *preset, enum tpp_framework framework, uint32_t num_gpus,
                  uint64_t sequence_length, const char *lengths)
{
    fixture->model = shape_preset(preset);
    fixture->hardware = shape_cluster("dgx-a100-80g");
    fixture->job = shape_job(num_gpus, sequence_length, 128);
    tpp_stack_defaults(framework, &fixture->hardware.gpu, &fixture->job, &fixture->stack);
    assert_int_equal(tpp_evaluator_new(&fixture->model, &fixture->hardware, &fixture->job, &fixture->stack,
                                       &fixture->evaluator, NULL),
                     TPP_OK);
    assert_int_equal(tpp_lengths_parse(lengths, &fixture->lengths, NULL), TPP_OK);
    fixture->options = tpp_replay_defaults();
    fixture->options.lengths = &fixture->lengths;
}

static void finish(struct fixture *fixture)
{
    tpp_lengths_release(&fixture->lengths);
    tpp_evaluator_free(fixture->evaluator);
}

static struct tpp_plan make_plan(struct fixture *fixture, const char *text)
{
    struct tpp_plan plan = {.strategy = shape_strategy(text, &fixture->job)};
    struct tpp_error err = {0};
    if (tpp_evaluator_cost(fixture->evaluator, &plan.strategy, &plan.cost, &err) != TPP_OK)
        fail_msg("%s (%s)", err.message, err.where);
    return plan;
}

/* 60 GiB allocated with 4 % more reserved and 2 GiB outside, on a card of 80 GiB. A replay with 70 GiB: the reserve becomes
 * 10 GiB of 70, the total 72 GiB, 90 % of the card. */
static void a_replay_raises_the_reserve_and_never_lowers_it(void **state)
{
    (void)state;
    const struct tpp_memory walked = {.peak_allocated_bytes = GIB(60), .peak_reserved_bytes = GIB(62.4),
                                      .device_total_bytes = GIB(64.4), .capacity_bytes = GIB(80)};
    struct tpp_memory memory = walked;
    tpp_replay_apply(&(struct tpp_replay_advice){.peak_reserved_bytes = UINT64_C(70) << 30}, &memory);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_RESERVE], GIB(10), 1e-12);
    CHECK_NUMBER(memory.fragmentation_fraction, 1.0 / 7, 1e-12);
    CHECK_NUMBER(memory.device_total_bytes, GIB(72), 1e-12);
    assert_int_equal(memory.fit, TPP_FIT_FITS);
    memory = walked; /* a retry costs a step of its time: never "fits" */
    tpp_replay_apply(&(struct tpp_replay_advice){.peak_reserved_bytes = UINT64_C(70) << 30, .retries_per_1000_steps = 20},
                     &memory);
    assert_int_equal(memory.fit, TPP_FIT_TIGHT);
    memory = walked;
    tpp_replay_apply(&(struct tpp_replay_advice){.peak_allocated_bytes = UINT64_C(50) << 30,
                                                 .peak_reserved_bytes = UINT64_C(55) << 30}, &memory);
    CHECK_NUMBER(memory.peak_reserved_bytes, GIB(62.4), 1e-12);
    CHECK_NUMBER(memory.replayed_allocated_bytes, GIB(50), 1e-12); /* short sequences: what the replay did, not the walk */
    CHECK_NUMBER(memory.replayed_reserved_bytes, GIB(55), 1e-12);
    memory = walked;
    tpp_replay_apply(&(struct tpp_replay_advice){.peak_reserved_bytes = UINT64_C(77) << 30, .runs_out = true}, &memory);
    assert_int_equal(memory.fit, TPP_FIT_DOES_NOT_FIT);
    assert_true(memory.out_of_memory_probability >= 0.5);
}

/* ZeRO-3 with lengths that vary fragments, and expandable segments end that. A user's
 * own setting is played as it is, and no other is chosen. */
static void a_setting_is_chosen_when_it_helps(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, "codellama-13b", TPP_FRAMEWORK_MEGATRON_DEEPSPEED, 32, 32768, "uniform:8k-32k");
    struct tpp_plan plan = make_plan(&fixture, "tp=1,dp=32,mbs=1,zero=3,recompute=full"), own = plan, fixed = plan;
    assert_int_equal(tpp_replayed_ranking(&fixture.model, &fixture.hardware, &fixture.job, &fixture.stack, 0,
                                          &fixture.options, NULL, &plan, 1, NULL),
                     TPP_OK);
    assert_true(plan.cost.memory.is_replayed);
    assert_string_equal(plan.cost.memory.alloc_conf, "expandable_segments:True");
    assert_true(plan.cost.memory.replayed_reserved_bytes < 0.98 * plan.cost.memory.unset_reserved_bytes);
    assert_int_equal(tpp_allocator_settings_parse("max_split_size_mb:512", &fixture.options.settings, NULL), TPP_OK);
    assert_int_equal(tpp_replayed_ranking(&fixture.model, &fixture.hardware, &fixture.job, &fixture.stack, 0,
                                          &fixture.options, "max_split_size_mb:512", &own, 1, NULL),
                     TPP_OK);
    assert_string_equal(own.cost.memory.alloc_conf, "max_split_size_mb:512");
    assert_true(own.cost.memory.replayed_reserved_bytes == own.cost.memory.unset_reserved_bytes);
    fixture.options.settings = tpp_allocator_settings_defaults();
    fixture.options.packing = true; /* all as long: nothing to choose */
    assert_int_equal(tpp_replayed_ranking(&fixture.model, &fixture.hardware, &fixture.job, &fixture.stack, 0,
                                          &fixture.options, NULL, &fixed, 1, NULL),
                     TPP_OK);
    assert_true(fixed.cost.memory.unset_reserved_bytes <= plan.cost.memory.unset_reserved_bytes);
    finish(&fixture);
}

/* 7B on 8 GPUs, of which the allocator gets 40 GiB: whole weights and gradients are 6 B x 6.74e9 = 37.7 GiB and run out, an
 * eighth of them does not. The order of the rest stays. */
static void plans_that_run_out_go_last(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, "llama2-7b", TPP_FRAMEWORK_MEGATRON_LM, 8, 4096, "fixed");
    struct tpp_plan plans[] = {
        make_plan(&fixture, "tp=1,mbs=1,zero=1"),
        make_plan(&fixture, "tp=8,mbs=1,zero=1,sp=1"),
        make_plan(&fixture, "tp=4,mbs=1,zero=1,sp=1"),
    };
    fixture.options.device_bytes = UINT64_C(40) << 30;
    assert_int_equal(tpp_replayed_ranking(&fixture.model, &fixture.hardware, &fixture.job, &fixture.stack, 0,
                                          &fixture.options, NULL, plans, 3, NULL),
                     TPP_OK);
    assert_int_equal(plans[0].strategy.tensor_parallel, 8);
    assert_int_equal(plans[1].strategy.tensor_parallel, 4);
    assert_int_equal(plans[2].strategy.tensor_parallel, 1);
    assert_int_equal(plans[2].cost.memory.fit, TPP_FIT_DOES_NOT_FIT);
    assert_int_equal(tpp_replayed_calmer_plan(plans, 3), 3); /* the first is no worry */
    plans[0].cost.memory.retries_per_1000_steps = 1;
    assert_int_equal(tpp_replayed_calmer_plan(plans, 3), 1);
    plans[1].cost.memory.fit = TPP_FIT_TIGHT;
    assert_int_equal(tpp_replayed_calmer_plan(plans, 3), 3);
    assert_int_equal(tpp_replayed_calmer_plan(plans, 0), 0);
    finish(&fixture);
}

/* The driver's own pool has no rules here: the walk's figures stay, the setting is still the user's. */
static void what_cannot_be_replayed_keeps_the_walk(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, "llama2-7b", TPP_FRAMEWORK_MEGATRON_LM, 8, 4096, "fixed");
    struct tpp_plan plan = make_plan(&fixture, "tp=4,mbs=1,zero=1,sp=1");
    const double reserved = plan.cost.memory.peak_reserved_bytes;
    assert_int_equal(tpp_allocator_settings_parse("backend:cudaMallocAsync", &fixture.options.settings, NULL), TPP_OK);
    assert_int_equal(tpp_replayed_ranking(&fixture.model, &fixture.hardware, &fixture.job, &fixture.stack, 0,
                                          &fixture.options, "backend:cudaMallocAsync", &plan, 1, NULL),
                     TPP_OK);
    assert_false(plan.cost.memory.is_replayed);
    assert_true(plan.cost.memory.peak_reserved_bytes == reserved);
    assert_string_equal(plan.cost.memory.alloc_conf, "backend:cudaMallocAsync");
    finish(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replay_raises_the_reserve_and_never_lowers_it),
        cmocka_unit_test(a_setting_is_chosen_when_it_helps),
        cmocka_unit_test(plans_that_run_out_go_last),
        cmocka_unit_test(what_cannot_be_replayed_keeps_the_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
