/* Checks planner/space.h: which values each size takes, and the ranges of limits and pins. */
#include "planner/space.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct tpp_model model = {.num_layers = 40,
                                       .hidden_size = 5120,
                                       .num_attention_heads = 40,
                                       .num_query_groups = 40,
                                       .head_dim = 128,
                                       .ffn_hidden_size = 15360,
                                       .vocab_size = 32000,
                                       .gated_mlp = true};

struct sizes { /* bit n: some cell has a size of n */
    uint64_t tensor, pipeline, context, data;
    size_t num_cells;
};

static struct tpp_job make_job(uint32_t num_gpus, uint64_t global_batch_size)
{
    struct tpp_job job = tpp_job_defaults();
    job.num_gpus = num_gpus;
    job.global_batch_size = global_batch_size;
    job.sequence_length = 8192;
    return job;
}

static uint64_t bit(uint32_t size)
{
    return size < 64 ? UINT64_C(1) << size : 0;
}

static struct sizes list_sizes(const struct tpp_job *job, const struct tpp_space_limits *limits)
{
    const struct tpp_stack stack = {.framework = TPP_FRAMEWORK_MEGATRON_LM, .engine = TPP_ENGINE_MEGATRON};
    static struct tpp_space_cell cell;
    struct tpp_space *space;
    struct sizes sizes = {0};
    assert_int_equal(tpp_space_new(&model, 8, job, &stack, limits, &space, NULL), TPP_OK);
    sizes.num_cells = tpp_space_num_cells(space);
    for (size_t i = 0; i < sizes.num_cells; i++) {
        tpp_space_cell(space, i, &cell);
        sizes.tensor |= bit(cell.tensor_parallel);
        sizes.pipeline |= bit(cell.pipeline_parallel);
        sizes.context |= bit(cell.context_parallel);
        sizes.data |= bit(cell.data_parallel);
    }
    tpp_space_free(space);
    return sizes;
}

static void sizes_are_divisors(void **state)
{
    (void)state;
    const struct tpp_job job = make_job(48, 96);
    struct tpp_space_limits limits = tpp_space_limits_defaults();
    const struct sizes sizes = list_sizes(&job, &limits);
    assert_int_equal(sizes.tensor, bit(1) | bit(2) | bit(4) | bit(8)); /* of 48 GPUs, 40 heads, a node of 8 */
    assert_int_equal(sizes.pipeline, bit(1) | bit(2) | bit(3) | bit(4) | bit(6) | bit(8) | bit(12) | bit(16) | bit(24));
    assert_int_equal(sizes.context, bit(1) | bit(2) | bit(4) | bit(8) | bit(16)); /* of 8192 tokens */
}

static void tensor_parallel_leaves_a_node_only_when_asked(void **state)
{
    (void)state;
    const struct tpp_job job = make_job(80, 80);
    struct tpp_space_limits limits = tpp_space_limits_defaults();
    assert_int_equal(list_sizes(&job, &limits).tensor & bit(20), 0);
    limits.max_tensor_parallel = 20;
    assert_true(list_sizes(&job, &limits).tensor & bit(20));
    limits.max_tensor_parallel = 0;
    limits.tensor_parallel = 40;
    assert_int_equal(list_sizes(&job, &limits).tensor, bit(40));
}

static void a_prime_world_is_all_data_parallel(void **state)
{
    (void)state;
    const struct tpp_job job = make_job(61, 122); /* 61 stages would be more than 40 layers */
    struct tpp_space_limits limits = tpp_space_limits_defaults();
    const struct sizes sizes = list_sizes(&job, &limits);
    assert_int_equal(sizes.num_cells, 1);
    assert_int_equal(sizes.data, bit(61));
}

static void a_batch_that_does_not_divide_leaves_nothing(void **state)
{
    (void)state;
    const struct tpp_job job = make_job(61, 60);
    struct tpp_space_limits limits = tpp_space_limits_defaults();
    assert_int_equal(list_sizes(&job, &limits).num_cells, 0);
}

static void limits_bound_the_sizes(void **state)
{
    (void)state;
    const struct tpp_job job = make_job(64, 64);
    struct tpp_space_limits limits = tpp_space_limits_defaults();
    limits.max_pipeline_parallel = 4;
    limits.max_context_parallel = 2;
    limits.data_parallel = 16;
    const struct sizes sizes = list_sizes(&job, &limits);
    assert_int_equal(sizes.pipeline, bit(1) | bit(2) | bit(4));
    assert_int_equal(sizes.context, bit(1) | bit(2));
    assert_int_equal(sizes.data, bit(16));
}

static void the_largest_world_is_listed_quickly(void **state)
{
    (void)state;
    const struct tpp_job job = make_job(1048576, 1048576);
    struct tpp_space_limits limits = tpp_space_limits_defaults();
    const struct sizes sizes = list_sizes(&job, &limits);
    /* t in {1,..,8}, p in {1,..,32}, c in {1,..,8192}: 4 * 6 * 14, but t 8, p 32 leaves 4096 ranks for c */
    assert_int_equal(sizes.num_cells, 335);
}

/* 40 layers on 4 stages of 5 chunks are 10 a stage: quarters are 2, 5 and 7 layers, but only 5 is the same number in
 * every chunk (and 10 is full recomputation). */
static void every_chunk_recomputes_the_same_number_of_layers(void **state)
{
    (void)state;
    const struct tpp_job job = make_job(4, 8);
    const struct tpp_stack stack = {.framework = TPP_FRAMEWORK_MEGATRON_LM, .engine = TPP_ENGINE_MEGATRON};
    struct tpp_space_limits limits = tpp_space_limits_defaults();
    static struct tpp_space_cell cell;
    struct tpp_space *space;
    uint64_t depths = 0;
    limits.pipeline_parallel = 4;
    limits.virtual_pipeline_stages = 5;
    limits.recompute = TPP_RECOMPUTE_FULL;
    assert_int_equal(tpp_space_new(&model, 8, &job, &stack, &limits, &space, NULL), TPP_OK);
    for (size_t i = 0; i < tpp_space_num_cells(space); i++) {
        tpp_space_cell(space, i, &cell);
        for (uint64_t group = 0; group < cell.num_groups; group++) {
            struct tpp_strategy strategy;
            if (tpp_space_group(space, &cell, group, &strategy) && strategy.recompute_method == TPP_RECOMPUTE_BLOCK) {
                depths |= bit(strategy.recompute_num_layers);
            }
        }
    }
    tpp_space_free(space);
    assert_int_equal(depths, bit(5));
}

/* 12 layers of 8 experts on one node: which pairs of dispatcher and overlap, and which lists of modules, groups have. Bits: twice
 * the dispatcher, 1 for the overlap, 256 times that with shared experts beside it; of module lists, the list itself is the bit. */
struct exchanges {
    uint32_t of_experts, of_one_rank; /* expert_parallel > 1, == 1 */
    uint64_t modules[2];
};

static struct exchanges list_exchanges_of(struct tpp_stack stack, uint32_t gpus_per_node, uint32_t kv_lora_rank,
                                          uint32_t shared_expert_hidden_size, const struct tpp_space_limits *limits)
{
    struct tpp_model moe = model;
    const struct tpp_job job = make_job(8, 8);
    static struct tpp_space_cell cell;
    struct tpp_space *space;
    struct exchanges found = {0};
    moe.num_layers = 12;
    moe.num_experts = 8;
    moe.experts_per_token = 2;
    moe.moe_ffn_hidden_size = 1408;
    moe.moe_layer_period = 1;
    moe.kv_lora_rank = kv_lora_rank;
    moe.shared_expert_hidden_size = shared_expert_hidden_size;
    assert_int_equal(tpp_space_new(&moe, gpus_per_node, &job, &stack, limits, &space, NULL), TPP_OK);
    for (size_t i = 0; i < tpp_space_num_cells(space); i++) {
        tpp_space_cell(space, i, &cell);
        for (uint64_t group = 0; group < cell.num_groups; group++) {
            struct tpp_strategy strategy;
            if (!tpp_space_group(space, &cell, group, &strategy))
                continue;
            uint32_t *pairs = strategy.expert_parallel > 1 ? &found.of_experts : &found.of_one_rank;
            *pairs |= 1U << (2 * strategy.dispatch + strategy.expert_overlap + 8 * strategy.shared_overlap);
            found.modules[strategy.recompute_modules / 64] |= UINT64_C(1) << strategy.recompute_modules % 64;
        }
    }
    tpp_space_free(space);
    return found;
}

static struct exchanges list_exchanges(struct tpp_stack stack, uint32_t gpus_per_node, uint32_t kv_lora_rank,
                                       const struct tpp_space_limits *limits)
{
    return list_exchanges_of(stack, gpus_per_node, kv_lora_rank, 0, limits);
}

/* --moe-shared-expert-overlap is there from 0.10 on with the all-to-all, from 0.18 with others (ML-75), never beside
 * --overlap-moe-expert-parallel-comm (ML-80). */
static void shared_experts_run_beside_where_the_release_can_say(void **state)
{
    (void)state;
    enum { PLAIN = 1, DEEPEP = 4, DEEPEP_OVERLAP = 8, GATHERED = 64, PLAIN_SHARED = 256, DEEPEP_SHARED = 1024, HYBRIDEP_SHARED = 4096 };
    struct tpp_stack stack = {.framework = TPP_FRAMEWORK_MEGATRON_LM, .engine = TPP_ENGINE_MEGATRON};
    struct tpp_space_limits limits = tpp_space_limits_defaults();
    struct exchanges found = list_exchanges_of(stack, 8, 0, 2816, &limits);
    assert_int_equal(found.of_experts, PLAIN | PLAIN_SHARED | DEEPEP | DEEPEP_OVERLAP);
    assert_int_equal(found.of_one_rank, PLAIN);
    limits.full_space = true;
    assert_int_equal(list_exchanges_of(stack, 8, 0, 2816, &limits).of_experts,
                     63 | GATHERED | PLAIN_SHARED | DEEPEP_SHARED | HYBRIDEP_SHARED);
    snprintf(stack.release, sizeof stack.release, "0.16");
    assert_int_equal(list_exchanges_of(stack, 8, 0, 2816, &limits).of_experts, 63 | GATHERED | PLAIN_SHARED);
    snprintf(stack.release, sizeof stack.release, "0.9");
    assert_int_equal(list_exchanges_of(stack, 8, 0, 2816, &limits).of_experts & PLAIN_SHARED, 0);
    stack.release[0] = '\0';
    limits.full_space = false;
    limits.shared_overlap = 1;
    assert_int_equal(list_exchanges_of(stack, 8, 0, 2816, &limits).of_experts, PLAIN_SHARED | DEEPEP_SHARED);
    assert_int_equal(list_exchanges_of(stack, 8, 0, 0, &limits).of_experts, 0); /* nothing shared */
    limits.shared_overlap = 0;
    assert_int_equal(list_exchanges_of(stack, 8, 0, 2816, &limits).of_experts, PLAIN | DEEPEP | DEEPEP_OVERLAP);
}

static void tokens_reach_experts_as_the_release_can_say(void **state)
{
    (void)state;
    enum { PLAIN = 1, PLAIN_OVERLAP = 2, DEEPEP = 4, DEEPEP_OVERLAP = 8, HYBRIDEP = 16, HYBRIDEP_OVERLAP = 32, GATHERED = 64 };
    struct tpp_stack stack = {.framework = TPP_FRAMEWORK_MEGATRON_LM, .engine = TPP_ENGINE_MEGATRON};
    struct tpp_space_limits limits = tpp_space_limits_defaults();
    struct exchanges found = list_exchanges(stack, 8, 0, &limits);
    assert_int_equal(found.of_experts, PLAIN | DEEPEP | DEEPEP_OVERLAP);
    assert_int_equal(found.of_one_rank, PLAIN); /* nothing is sent */
    /* NVLink over 72 GPUs: HybridEP, from 0.16 on; the overlap came with 0.14, DeepEP with 0.12. */
    assert_int_equal(list_exchanges(stack, 72, 0, &limits).of_experts, PLAIN | HYBRIDEP | HYBRIDEP_OVERLAP);
    snprintf(stack.release, sizeof stack.release, "0.15");
    assert_int_equal(list_exchanges(stack, 72, 0, &limits).of_experts, PLAIN);
    snprintf(stack.release, sizeof stack.release, "0.13");
    assert_int_equal(list_exchanges(stack, 8, 0, &limits).of_experts, PLAIN | DEEPEP);
    snprintf(stack.release, sizeof stack.release, "0.11");
    assert_int_equal(list_exchanges(stack, 8, 0, &limits).of_experts, PLAIN);
    stack.release[0] = '\0';
    limits.full_space = true;
    assert_int_equal(list_exchanges(stack, 8, 0, &limits).of_experts, 63 | GATHERED); /* gathers overlap with nothing */
    limits.full_space = false;
    limits.dispatch = TPP_DISPATCH_HYBRIDEP; /* believed; nothing is left for one rank */
    found = list_exchanges(stack, 8, 0, &limits);
    assert_int_equal(found.of_experts, HYBRIDEP | HYBRIDEP_OVERLAP);
    assert_int_equal(found.of_one_rank, 0);
    limits.dispatch = TPP_DISPATCH_ALL_GATHER;
    assert_int_equal(list_exchanges(stack, 8, 0, &limits).of_experts, GATHERED);
    limits.dispatch = TPP_PIN_ANY;
    limits.expert_overlap = 1;
    assert_int_equal(list_exchanges(stack, 8, 0, &limits).of_experts, PLAIN_OVERLAP | DEEPEP_OVERLAP);
    limits.expert_overlap = TPP_PIN_ANY;
    stack.framework = TPP_FRAMEWORK_MS_SWIFT; /* its scripts name no dispatcher */
    assert_int_equal(list_exchanges(stack, 8, 0, &limits).of_experts, PLAIN);
}

static uint64_t list_bit(uint32_t modules)
{
    return UINT64_C(1) << modules;
}

static void pinned_modules_are_the_only_recomputation(void **state)
{
    (void)state;
    struct tpp_stack stack = {.framework = TPP_FRAMEWORK_MEGATRON_LM, .engine = TPP_ENGINE_MEGATRON};
    struct tpp_space_limits limits = tpp_space_limits_defaults();
    limits.recompute_modules = TPP_MODULE_EXPERT_ACTIVATION | TPP_MODULE_SHARED_EXPERTS; /* 66: bit 2 of the second word */
    const struct exchanges found = list_exchanges(stack, 8, 0, &limits);
    assert_int_equal(found.modules[0], 0);
    assert_int_equal(found.modules[1], 4);
    limits.recompute = TPP_RECOMPUTE_NONE;
    assert_int_equal(list_exchanges(stack, 8, 0, &limits).modules[1], 0);
}

static void modules_are_recomputed_where_the_model_has_them(void **state)
{
    (void)state;
    enum { ACT = TPP_MODULE_EXPERT_ACTIVATION, NORM = TPP_MODULE_LAYER_NORM, UP = TPP_MODULE_LATENT_UP, MOE = TPP_MODULE_MOE };
    struct tpp_stack stack = {.framework = TPP_FRAMEWORK_NEMO, .engine = TPP_ENGINE_MEGATRON};
    struct tpp_space_limits limits = tpp_space_limits_defaults();
    const uint64_t plain = list_bit(0) | list_bit(ACT) | list_bit(ACT | NORM) | list_bit(MOE);
    assert_true(list_exchanges(stack, 8, 0, &limits).modules[0] == plain);
    const uint64_t latent = list_bit(0) | list_bit(UP) | list_bit(ACT | UP) | list_bit(ACT | NORM | UP) | list_bit(MOE);
    assert_true(list_exchanges(stack, 8, 512, &limits).modules[0] == latent);
    limits.full_space = true;
    assert_true(list_exchanges(stack, 8, 512, &limits).modules[0] ==
                (plain | latent | list_bit(NORM) | list_bit(TPP_MODULE_MLP) | list_bit(MOE | NORM)));
    limits.recompute = TPP_RECOMPUTE_FULL;
    assert_true(list_exchanges(stack, 8, 512, &limits).modules[0] == list_bit(0));
    limits = tpp_space_limits_defaults();
    stack.framework = TPP_FRAMEWORK_MEGATRON_LM;
    snprintf(stack.release, sizeof stack.release, "0.11"); /* --recompute-modules came with 0.12 */
    assert_true(list_exchanges(stack, 8, 512, &limits).modules[0] == list_bit(0));
}

struct found_schedules { /* bit n: some plan has n stages, n chunks */
    uint64_t stages, chunks;
    size_t num_plans;
};

/* All plans of 16 GPUs; each has the schedule `wanted`, and with one stage no other than 1F1B. */
static struct found_schedules list_schedules(enum tpp_framework framework, enum tpp_schedule wanted)
{
    const struct tpp_stack stack = {.framework = framework, .engine = TPP_ENGINE_MEGATRON};
    const struct tpp_job job = make_job(16, 64);
    static struct tpp_space_cell cell;
    struct tpp_space_limits limits = tpp_space_limits_defaults();
    struct tpp_space *space;
    struct found_schedules found = {0, 0, 0};
    limits.schedule = wanted;
    assert_int_equal(tpp_space_new(&model, 8, &job, &stack, &limits, &space, NULL), TPP_OK);
    for (size_t i = 0; i < tpp_space_num_cells(space); i++) {
        tpp_space_cell(space, i, &cell);
        for (uint64_t group = 0; group < cell.num_groups; group++) {
            struct tpp_strategy strategy;
            if (!tpp_space_group(space, &cell, group, &strategy))
                continue;
            assert_int_equal(strategy.schedule, wanted);
            found.stages |= bit(strategy.pipeline_parallel);
            found.chunks |= bit(strategy.virtual_pipeline_stages);
            found.num_plans++;
        }
    }
    tpp_space_free(space);
    return found;
}

static void a_pinned_schedule_is_the_only_one(void **state)
{
    (void)state;
    const uint64_t pipelines = bit(2) | bit(4) | bit(8); /* 40 layers leave too much on one of 16 */
    const struct found_schedules dual = list_schedules(TPP_FRAMEWORK_OTHER, TPP_SCHEDULE_DUALPIPE);
    assert_true(dual.stages == pipelines && dual.chunks == bit(1) && dual.num_plans > 0);
    /* 40 layers in two chunks on 2 and 4 stages; on 8 they do not divide, and a V takes no uneven split. */
    const struct found_schedules v = list_schedules(TPP_FRAMEWORK_TORCHTITAN, TPP_SCHEDULE_DUALPIPEV);
    assert_true(v.stages == (bit(2) | bit(4)) && v.chunks == bit(2));
    const struct found_schedules plain = list_schedules(TPP_FRAMEWORK_MEGATRON_LM, TPP_SCHEDULE_1F1B);
    assert_true(plain.stages == (pipelines | bit(1)) && plain.chunks == bit(1));
    const struct found_schedules chunks = list_schedules(TPP_FRAMEWORK_MEGATRON_LM, TPP_SCHEDULE_INTERLEAVED);
    assert_true(chunks.stages == pipelines && (chunks.chunks & (bit(1) | bit(2))) == bit(2));
}

static void a_schedule_that_the_framework_lacks_is_refused(void **state)
{
    (void)state;
    static const struct {
        enum tpp_framework framework;
        enum tpp_schedule lacks, has;
    } cases[] = {
        {TPP_FRAMEWORK_MEGATRON_LM, TPP_SCHEDULE_DUALPIPE, TPP_SCHEDULE_INTERLEAVED},
        {TPP_FRAMEWORK_NEMO, TPP_SCHEDULE_ZB_H1, TPP_SCHEDULE_1F1B},
        {TPP_FRAMEWORK_MS_SWIFT, TPP_SCHEDULE_GPIPE, TPP_SCHEDULE_INTERLEAVED},
        {TPP_FRAMEWORK_MEGATRON_DEEPSPEED, TPP_SCHEDULE_ZB_V, TPP_SCHEDULE_ZB_H1},
        {TPP_FRAMEWORK_TORCHTITAN, TPP_SCHEDULE_DUALPIPE, TPP_SCHEDULE_ZB_V},
        {TPP_FRAMEWORK_NANOTRON, TPP_SCHEDULE_INTERLEAVED, TPP_SCHEDULE_GPIPE},
        {TPP_FRAMEWORK_HF_TRAINER, TPP_SCHEDULE_GPIPE, TPP_SCHEDULE_1F1B},
        {TPP_FRAMEWORK_LLM_FOUNDRY, TPP_SCHEDULE_ZB_1P, TPP_SCHEDULE_1F1B},
    };
    const struct tpp_job job = make_job(16, 64);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tpp_stack stack = {.framework = cases[i].framework, .engine = TPP_ENGINE_MEGATRON};
        struct tpp_space_limits limits = tpp_space_limits_defaults();
        struct tpp_space *space;
        struct tpp_error err;
        limits.schedule = cases[i].lacks;
        assert_int_equal(tpp_space_new(&model, 8, &job, &stack, &limits, &space, &err), TPP_E_UNSUPPORTED);
        assert_string_equal(err.where, "schedule");
        assert_non_null(strstr(err.hint, tpp_schedule_name(cases[i].has)));
        limits.schedule = cases[i].has;
        assert_int_equal(tpp_space_new(&model, 8, &job, &stack, &limits, &space, &err), TPP_OK);
        tpp_space_free(space);
    }
}

static void expect_refused(struct tpp_space_limits limits, const char *where)
{
    struct tpp_error err;
    assert_int_equal(tpp_space_limits_check(&limits, &err), TPP_E_RANGE);
    assert_string_equal(err.where, where);
}

/* 40 layers: none, 10, 20, 30 and 39 of them, where there is one stage. */
static void offload_of_activations_has_a_depth(void **state)
{
    (void)state;
    const struct tpp_job job = make_job(8, 8);
    const struct tpp_stack stack = {.framework = TPP_FRAMEWORK_MEGATRON_LM, .engine = TPP_ENGINE_MEGATRON};
    struct tpp_space_limits limits = tpp_space_limits_defaults();
    static struct tpp_space_cell cell;
    static const uint32_t depths[] = {0, 10, 20, 30, 39};
    for (int i = 0; i < 4; i++) {
        struct tpp_model forty = model;
        struct tpp_space *space;
        forty.num_layers = 40;
        limits.offload_depths = i == 1;
        limits.full_space = i == 2;
        limits.offload_layers = i == 3 ? 17 : TPP_PIN_ANY;
        assert_int_equal(tpp_space_new(&forty, 8, &job, &stack, &limits, &space, NULL), TPP_OK);
        for (size_t k = 0; k < tpp_space_num_cells(space); k++) {
            tpp_space_cell(space, k, &cell);
            const bool has_stages = cell.pipeline_parallel > 1;
            if (i == 3) {
                assert_int_equal(cell.num_depths, has_stages ? 0 : 1);
                assert_true(has_stages || cell.depths[0] == 17);
                continue;
            }
            assert_int_equal(cell.num_depths, i == 0 || has_stages ? 1 : 5);
            assert_memory_equal(cell.depths, depths, cell.num_depths * sizeof *depths);
        }
        tpp_space_free(space);
    }
}

static void limits_out_of_range_are_named(void **state)
{
    (void)state;
    struct tpp_space_limits limits = tpp_space_limits_defaults();
    assert_int_equal(tpp_space_limits_check(&limits, NULL), TPP_OK);
    limits.keep = 1001;
    expect_refused(limits, "limits.keep");
    limits.keep = 0;
    expect_refused(limits, "limits.keep");
    limits = tpp_space_limits_defaults();
    limits.memory_headroom_fraction = 0.91;
    expect_refused(limits, "limits.memory_headroom_fraction");
    limits.memory_headroom_fraction = -0.1;
    expect_refused(limits, "limits.memory_headroom_fraction");
    limits = tpp_space_limits_defaults();
    limits.num_threads = 257;
    expect_refused(limits, "limits.num_threads");
    limits = tpp_space_limits_defaults();
    limits.tensor_parallel = 0;
    expect_refused(limits, "limits.tensor_parallel");
    limits = tpp_space_limits_defaults();
    limits.dispatch = TPP_DISPATCH_ALL_GATHER + 1;
    expect_refused(limits, "limits.dispatch");
    limits = tpp_space_limits_defaults();
    limits.expert_overlap = 2;
    expect_refused(limits, "limits.expert_overlap");
    limits = tpp_space_limits_defaults();
    limits.schedule = TPP_SCHEDULE_COUNT;
    expect_refused(limits, "limits.schedule");
    limits = tpp_space_limits_defaults();
    limits.shared_overlap = 2;
    expect_refused(limits, "limits.shared_overlap");
    limits = tpp_space_limits_defaults();
    limits.offload_percent = 101;
    expect_refused(limits, "limits.offload_percent");
    limits = tpp_space_limits_defaults();
    limits.offload_layers = -2;
    expect_refused(limits, "limits.offload_layers");
    limits = tpp_space_limits_defaults();
    limits.zero_stage = 4;
    expect_refused(limits, "limits.zero_stage");
    limits = tpp_space_limits_defaults();
    limits.recompute = -2;
    expect_refused(limits, "limits.recompute");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pinned_schedule_is_the_only_one),
        cmocka_unit_test(a_schedule_that_the_framework_lacks_is_refused),
        cmocka_unit_test(sizes_are_divisors),
        cmocka_unit_test(tensor_parallel_leaves_a_node_only_when_asked),
        cmocka_unit_test(a_prime_world_is_all_data_parallel),
        cmocka_unit_test(a_batch_that_does_not_divide_leaves_nothing),
        cmocka_unit_test(limits_bound_the_sizes),
        cmocka_unit_test(the_largest_world_is_listed_quickly),
        cmocka_unit_test(every_chunk_recomputes_the_same_number_of_layers),
        cmocka_unit_test(shared_experts_run_beside_where_the_release_can_say),
        cmocka_unit_test(tokens_reach_experts_as_the_release_can_say),
        cmocka_unit_test(pinned_modules_are_the_only_recomputation),
        cmocka_unit_test(modules_are_recomputed_where_the_model_has_them),
        cmocka_unit_test(offload_of_activations_has_a_depth),
        cmocka_unit_test(limits_out_of_range_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
