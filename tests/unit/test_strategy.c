/* Checks costmodel/strategy.h: completion, the consistency rules of cost-model 1.1 and 2.6, layers of a chunk, order.
 */
#include "costmodel/strategy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

/* 62 layers, 56 heads, 8 key/value heads: DeepSeek-Coder-33B's shape. */
static const struct tpp_model coder = {.num_layers = 62,
                                       .hidden_size = 7168,
                                       .num_attention_heads = 56,
                                       .num_query_groups = 8,
                                       .head_dim = 128,
                                       .ffn_hidden_size = 19200,
                                       .gated_mlp = true,
                                       .vocab_size = 32256};
static const struct tpp_model experts = {.num_layers = 12,
                                         .hidden_size = 4096,
                                         .num_attention_heads = 32,
                                         .num_query_groups = 8,
                                         .head_dim = 128,
                                         .num_experts = 60,
                                         .experts_per_token = 4,
                                         .moe_ffn_hidden_size = 1408,
                                         .shared_expert_hidden_size = 5632,
                                         .moe_layer_period = 1,
                                         .vocab_size = 1000};
static const struct tpp_stack megatron = {.engine = TPP_ENGINE_MEGATRON};

static struct tpp_job make_job(uint32_t num_gpus, uint64_t global_batch_size)
{
    struct tpp_job job = tpp_job_defaults();
    job.num_gpus = num_gpus;
    job.global_batch_size = global_batch_size;
    job.sequence_length = 4096;
    return job;
}

static struct tpp_strategy make(uint32_t t, uint32_t p, uint32_t c)
{
    struct tpp_strategy strategy = tpp_strategy_defaults();
    strategy.tensor_parallel = t;
    strategy.pipeline_parallel = p;
    strategy.context_parallel = c;
    return strategy;
}

static void expect_refused(struct tpp_strategy strategy, const struct tpp_model *model, const struct tpp_job *job,
                           const struct tpp_stack *stack, const char *where)
{
    struct tpp_error err = {.code = TPP_OK};
    enum tpp_code code = tpp_strategy_complete(&strategy, job, &err);
    if (code == TPP_OK) {
        code = tpp_strategy_check(&strategy, model, job, stack, &err);
    }
    assert_int_equal(code, TPP_E_STRATEGY);
    assert_string_equal(err.where, where);
    assert_true(err.message[0] != '\0');
}

static void expect_accepted(struct tpp_strategy strategy, const struct tpp_model *model, const struct tpp_job *job,
                            const struct tpp_stack *stack)
{
    struct tpp_error err = {.message = ""};
    enum tpp_code code = tpp_strategy_complete(&strategy, job, &err);
    if (code == TPP_OK) {
        code = tpp_strategy_check(&strategy, model, job, stack, &err);
    }
    assert_string_equal(err.message, "");
    assert_int_equal(code, TPP_OK);
}

static void completing_fills_what_follows(void **state)
{
    (void)state;
    const struct tpp_job job = make_job(120, 90);
    struct tpp_strategy s = make(2, 5, 3); /* 120 / 30 = 4 replicas */
    s.virtual_pipeline_stages = 2;
    assert_int_equal(tpp_strategy_complete(&s, &job, NULL), TPP_E_STRATEGY); /* 90 sequences do not divide by 4 */
    const struct tpp_job divides = make_job(120, 60);
    s = make(2, 5, 3);
    s.virtual_pipeline_stages = 2;
    s.micro_batch_size = 3;
    assert_int_equal(tpp_strategy_complete(&s, &divides, NULL), TPP_OK);
    assert_int_equal(s.data_parallel, 4);
    assert_int_equal(s.num_micro_batches, 5); /* 60 / (4 * 3) */
    assert_int_equal(s.schedule, TPP_SCHEDULE_INTERLEAVED);
}

static void completing_copes_with_extreme_sizes(void **state)
{
    (void)state;
    const struct tpp_job largest = make_job(1048576, 2147483648);
    struct tpp_strategy s = make(8, 64, 1);
    assert_int_equal(tpp_strategy_complete(&s, &largest, NULL), TPP_OK);
    assert_int_equal(s.data_parallel, 2048);                 /* 2^20 / 2^9 */
    assert_int_equal(s.num_micro_batches, 1048576);          /* 2^31 / 2^11 */
    const struct tpp_job prime = make_job(1048573, 1048573); /* the largest prime below 2^20 */
    s = make(1, 1, 1);
    assert_int_equal(tpp_strategy_complete(&s, &prime, NULL), TPP_OK);
    assert_int_equal(s.data_parallel, 1048573);
    assert_int_equal(s.num_micro_batches, 1);
    s = make(1048573, 1, 1);
    assert_int_equal(tpp_strategy_complete(&s, &prime, NULL), TPP_OK);
    assert_int_equal(s.data_parallel, 1);
    s = make(1048576, 512, 1048576); /* a product of 2^49 */
    expect_refused(s, &coder, &largest, &megatron, "strategy.data_parallel");
}

static void completing_refuses_sizes_that_contradict(void **state)
{
    (void)state;
    const struct tpp_job job = make_job(24, 48);
    struct tpp_strategy s = make(5, 1, 1);
    expect_refused(s, &coder, &job, &megatron, "strategy.data_parallel");
    s = make(2, 1, 1);
    s.data_parallel = 11;
    expect_refused(s, &coder, &job, &megatron, "strategy.data_parallel");
    s.data_parallel = 12;
    s.num_micro_batches = 5;
    expect_refused(s, &coder, &job, &megatron, "strategy.num_micro_batches");
    s.num_micro_batches = 4;
    expect_accepted(s, &coder, &job, &megatron);
    s = make(1, 1, 1);
    s.micro_batch_size = 5; /* 48 / (24 * 5) */
    expect_refused(s, &coder, &job, &megatron, "strategy.micro_batch_size");
    s = make(0, 1, 1);
    expect_refused(s, &coder, &job, &megatron, "strategy.tensor_parallel");
    s = make(1, 513, 1);
    expect_refused(s, &coder, &job, &megatron, "strategy.pipeline_parallel");
    s = make(1, 2, 1);
    s.virtual_pipeline_stages = 2049; /* 4098 chunks */
    expect_refused(s, &coder, &job, &megatron, "strategy.virtual_pipeline_stages");
    s.virtual_pipeline_stages = UINT32_MAX;
    expect_refused(s, &coder, &job, &megatron, "strategy.virtual_pipeline_stages");
}

static void an_incomplete_strategy_is_refused(void **state)
{
    (void)state;
    const struct tpp_job job = make_job(8, 8);
    struct tpp_strategy s = make(1, 1, 1);
    struct tpp_error err;
    assert_int_equal(tpp_strategy_check(&s, &coder, &job, &megatron, &err), TPP_E_STRATEGY);
    assert_string_equal(err.where, "strategy.data_parallel");
}

static void tensor_parallel_must_divide_heads_and_ffn(void **state)
{
    (void)state;
    const struct tpp_job job = make_job(112, 112);
    expect_accepted(
        make(7, 1, 1),
        &(struct tpp_model){.num_layers = 1, .num_attention_heads = 7, .num_query_groups = 7, .ffn_hidden_size = 49},
        &job, &megatron);
    expect_refused(make(16, 1, 1), &coder, &job, &megatron, "strategy.tensor_parallel"); /* 56 heads */
    expect_refused(make(28, 1, 1), &coder, &job, &megatron, "strategy.tensor_parallel"); /* 8 kv heads over 28 */
    struct tpp_model narrow = coder;
    narrow.ffn_hidden_size = 19201;
    expect_refused(make(2, 1, 1), &narrow, &job, &megatron, "strategy.tensor_parallel");
    struct tpp_model single = coder;
    single.num_query_groups = 1; /* one key/value head is copied */
    expect_accepted(make(8, 1, 1), &single, &job, &megatron);
}

static void sequence_parallel_needs_tensor_parallel_and_divides(void **state)
{
    (void)state;
    struct tpp_job job = make_job(8, 8);
    struct tpp_strategy s = make(1, 1, 1);
    s.sequence_parallel = true;
    expect_refused(s, &coder, &job, &megatron, "strategy.sequence_parallel");
    s.tensor_parallel = 4;
    expect_accepted(s, &coder, &job, &megatron);
    s.context_parallel = 2;
    job.sequence_length = 4 * 1027; /* divides into 2c = 4 parts; 2054 tokens a rank do not divide by 4 */
    expect_refused(s, &coder, &job, &megatron, "strategy.sequence_parallel");
    s = make(4, 1, 1);
    s.tp_comm_overlap = true;
    expect_refused(s, &coder, &job, &megatron, "strategy.tp_comm_overlap");
}

static void context_parallel_divides_the_sequence(void **state)
{
    (void)state;
    struct tpp_job job = make_job(12, 12);
    job.sequence_length = 4098; /* 3 * 1366, and 6 * 683 */
    expect_accepted(make(1, 1, 3), &coder, &job, &megatron);
    expect_refused(make(1, 1, 4), &coder, &job, &megatron, "strategy.context_parallel");
    struct tpp_strategy s = make(1, 1, 2); /* 4098 does not divide by 2c = 4 */
    expect_refused(s, &coder, &job, &megatron, "strategy.context_parallel");
    s.context_kind = TPP_CONTEXT_ULYSSES; /* but by c = 2 */
    expect_accepted(s, &coder, &job, &megatron);
}

static void ulysses_divides_the_heads(void **state)
{
    (void)state;
    struct tpp_job job = make_job(64, 64);
    struct tpp_strategy s = make(2, 1, 4);
    s.context_kind = TPP_CONTEXT_ULYSSES;
    expect_accepted(s, &coder, &job, &megatron); /* 56 heads and 8 kv heads over 8 */
    s.context_parallel = 8;                      /* 56 heads over 16 */
    expect_refused(s, &coder, &job, &megatron, "strategy.context_parallel");
    s.context_kind = TPP_CONTEXT_HYBRID;
    expect_refused(s, &coder, &job, &megatron, "strategy.ulysses_parallel"); /* u not given */
    s.ulysses_parallel = 4;
    expect_accepted(s, &coder, &job, &megatron);
    s.ulysses_parallel = 3;
    expect_refused(s, &coder, &job, &megatron, "strategy.ulysses_parallel");
    s.context_kind = TPP_CONTEXT_RING;
    expect_refused(s, &coder, &job, &megatron, "strategy.ulysses_parallel");
    struct tpp_model odd = coder;
    odd.num_query_groups = 6; /* 6 kv heads over 4 ranks: neither shared out nor copied */
    odd.num_attention_heads = 48;
    s = make(1, 1, 4);
    s.context_kind = TPP_CONTEXT_ULYSSES;
    expect_refused(s, &odd, &job, &megatron, "strategy.context_parallel");
}

static void experts_divide(void **state)
{
    (void)state;
    struct tpp_job job = make_job(48, 48);
    struct tpp_strategy s = make(1, 1, 1);
    s.expert_parallel = 12;
    expect_accepted(s, &experts, &job, &megatron);
    expect_refused(s, &coder, &job, &megatron, "strategy.expert_parallel"); /* a dense model */
    s.expert_parallel = 16;                                                 /* 60 experts */
    expect_refused(s, &experts, &job, &megatron, "strategy.expert_parallel");
    s.expert_parallel = 20; /* divides 60, but not 48 GPUs */
    expect_refused(s, &experts, &job, &megatron, "strategy.expert_parallel");
    s.expert_parallel = 12;
    s.expert_tensor_parallel = 8; /* 96 ranks on 48 */
    expect_refused(s, &experts, &job, &megatron, "strategy.expert_parallel");
    s.expert_parallel = 1;
    s.expert_tensor_parallel = 3; /* 1408 = 3 * 469 + 1 */
    expect_refused(s, &experts, &job, &megatron, "strategy.expert_tensor_parallel");
    struct tpp_model odd = experts;
    s.expert_parallel = 12;
    s.expert_tensor_parallel = 1;
    s.shared_overlap = true;
    expect_accepted(s, &experts, &job, &megatron);
    s.recompute = TPP_RECOMPUTE_SELECTIVE;
    s.recompute_modules = TPP_MODULE_SHARED_EXPERTS;
    expect_refused(s, &experts, &job, &megatron, "strategy.shared_overlap");
    s.recompute_modules = TPP_MODULE_MOE;
    expect_accepted(s, &experts, &job, &megatron);
    s.expert_overlap = true;
    expect_refused(s, &experts, &job, &megatron, "strategy.shared_overlap");
    s.expert_overlap = false;
    odd.shared_expert_hidden_size = 0;
    expect_refused(s, &odd, &job, &megatron, "strategy.shared_overlap");
    s.expert_parallel = 1;
    expect_refused(s, &experts, &job, &megatron, "strategy.shared_overlap");
    odd.shared_expert_hidden_size = 5633;
    expect_refused(make(2, 1, 1), &odd, &job, &megatron, "strategy.tensor_parallel");
}

static uint32_t sum_of_chunks(const struct tpp_strategy *s, uint32_t num_layers)
{
    uint32_t sum = 0;
    for (uint32_t stage = 0; stage < s->pipeline_parallel; stage++) {
        for (uint32_t chunk = 0; chunk < s->virtual_pipeline_stages; chunk++) {
            sum += tpp_strategy_chunk_layers(s, num_layers, stage, chunk);
        }
    }
    return sum;
}

static void uneven_splits_are_as_megatron_makes_them(void **state)
{
    (void)state;
    const struct tpp_job job = make_job(24, 24);
    struct tpp_strategy s = make(1, 4, 1);
    expect_refused(s, &coder, &job, &megatron, "strategy.pipeline_parallel"); /* 62 over 4 */
    s.first_stage_layers = 15;
    s.last_stage_layers = 15; /* 32 over the two between */
    expect_accepted(s, &coder, &job, &megatron);
    assert_int_equal(tpp_strategy_chunk_layers(&s, 62, 0, 0), 15);
    assert_int_equal(tpp_strategy_chunk_layers(&s, 62, 2, 0), 16);
    assert_int_equal(sum_of_chunks(&s, 62), 62);
    s.last_stage_layers = 14; /* 33 over two */
    expect_refused(s, &coder, &job, &megatron, "strategy.first_stage_layers");
    s.last_stage_layers = 0; /* 47 over three */
    expect_refused(s, &coder, &job, &megatron, "strategy.first_stage_layers");
    s.first_stage_layers = 63;
    expect_refused(s, &coder, &job, &megatron, "strategy.first_stage_layers");
    s.first_stage_layers = 14; /* 48 over three */
    expect_accepted(s, &coder, &job, &megatron);
    s.account_for_loss = true;
    expect_refused(s, &coder, &job, &megatron, "strategy.first_stage_layers");
}

static void embedding_and_loss_count_as_layers(void **state)
{
    (void)state;
    const struct tpp_job job = make_job(32, 32);
    struct tpp_strategy s = make(1, 8, 1);
    s.account_for_embedding = true;
    expect_refused(s, &coder, &job, &megatron, "strategy.pipeline_parallel"); /* 63 over 8 */
    s.account_for_loss = true;
    expect_accepted(s, &coder, &job, &megatron); /* 64 over 8 */
    assert_int_equal(tpp_strategy_chunk_layers(&s, 62, 0, 0), 7);
    assert_int_equal(tpp_strategy_chunk_layers(&s, 62, 1, 0), 8);
    assert_int_equal(tpp_strategy_chunk_layers(&s, 62, 7, 0), 7);
    assert_int_equal(sum_of_chunks(&s, 62), 62);
    s = make(1, 4, 1);
    s.virtual_pipeline_stages = 16; /* 64 slots of one layer: the first and the last chunk are empty */
    s.account_for_embedding = s.account_for_loss = true;
    expect_accepted(s, &coder, &job, &megatron);
    assert_int_equal(tpp_strategy_chunk_layers(&s, 62, 0, 0), 0);
    assert_int_equal(tpp_strategy_chunk_layers(&s, 62, 0, 1), 1);
    assert_int_equal(tpp_strategy_chunk_layers(&s, 62, 3, 15), 0);
    assert_int_equal(sum_of_chunks(&s, 62), 62);
}

static void stage_counts_split_into_chunks(void **state)
{
    (void)state;
    const struct tpp_job job = make_job(16, 16);
    struct tpp_strategy s = make(1, 4, 1);
    s.virtual_pipeline_stages = 2;
    s.first_stage_layers = 14;
    s.last_stage_layers = 16; /* 32 over two: 16 */
    expect_accepted(s, &coder, &job, &megatron);
    assert_int_equal(tpp_strategy_chunk_layers(&s, 62, 0, 1), 7);
    assert_int_equal(tpp_strategy_chunk_layers(&s, 62, 1, 0), 8);
    assert_int_equal(sum_of_chunks(&s, 62), 62);
    s.first_stage_layers = 15;
    s.last_stage_layers = 15;
    expect_refused(s, &coder, &job, &megatron, "strategy.first_stage_layers");
    s.first_stage_layers = 18;
    s.last_stage_layers = 18; /* 26 over two: 13 is odd */
    expect_refused(s, &coder, &job, &megatron, "strategy.first_stage_layers");
}

static void a_balanced_split_puts_the_rest_on_the_first_stages(void **state)
{
    (void)state;
    const struct tpp_job job = make_job(12, 12);
    const struct tpp_stack pipeline = {.engine = TPP_ENGINE_DEEPSPEED_PIPELINE};
    struct tpp_strategy s = make(1, 4, 1);
    s.balanced_split = true; /* 62 = 4 * 15 + 2 */
    expect_accepted(s, &coder, &job, &pipeline);
    assert_int_equal(tpp_strategy_chunk_layers(&s, 62, 1, 0), 16);
    assert_int_equal(tpp_strategy_chunk_layers(&s, 62, 2, 0), 15);
    assert_int_equal(sum_of_chunks(&s, 62), 62);
    s.account_for_loss = true;
    expect_refused(s, &coder, &job, &pipeline, "strategy.balanced_split");
    struct tpp_model flat = coder;
    flat.num_layers = 3;
    s.account_for_loss = false;
    expect_refused(s, &flat, &job, &pipeline, "strategy.pipeline_parallel");
}

static void interleaving_needs_whole_groups_of_micro_batches(void **state)
{
    (void)state;
    struct tpp_job job = make_job(4, 8);
    struct tpp_model model = coder;
    model.num_layers = 24;
    struct tpp_strategy s = make(1, 4, 1);
    s.virtual_pipeline_stages = 3;
    expect_accepted(s, &model, &job, &megatron);
    job.global_batch_size = 10; /* a partial group of 2 */
    expect_refused(s, &model, &job, &megatron, "strategy.num_micro_batches");
    job.global_batch_size = 3;
    expect_refused(s, &model, &job, &megatron, "strategy.num_micro_batches");
    /* Groups of 5 leave 4 of 14 micro-batches, which fill 4 stages, and 3 of 13, which do not. */
    s.microbatch_group_size = 5;
    job.global_batch_size = 14;
    expect_accepted(s, &model, &job, &megatron);
    job.global_batch_size = 13;
    expect_refused(s, &model, &job, &megatron, "strategy.microbatch_group_size");
    s.microbatch_group_size = 3;
    job.global_batch_size = 12;
    expect_refused(s, &model, &job, &megatron, "strategy.microbatch_group_size");
    s.microbatch_group_size = 16;
    expect_refused(s, &model, &job, &megatron, "strategy.microbatch_group_size");
    s.microbatch_group_size = 0;
    s.pipeline_parallel = 1;
    expect_refused(s, &model, &job, &megatron, "strategy.virtual_pipeline_stages");
    s = make(1, 4, 1);
    s.schedule = TPP_SCHEDULE_INTERLEAVED; /* without chunks */
    expect_refused(s, &model, &job, &megatron, "strategy.schedule");
    s.schedule = TPP_SCHEDULE_GPIPE;
    expect_accepted(s, &model, &job, &megatron);
    s.virtual_pipeline_stages = 2;
    expect_refused(s, &model, &job, &megatron, "strategy.schedule");
}

static void each_engine_has_its_zero_stages(void **state)
{
    (void)state;
    /* rows: engine; columns: stage 0 .. 3 without a pipeline */
    static const bool alone[TPP_ENGINE_COUNT][4] = {
        [TPP_ENGINE_MEGATRON] = {1, 1, 0, 0},
        [TPP_ENGINE_DEEPSPEED] = {1, 1, 1, 1},
        [TPP_ENGINE_DEEPSPEED_PIPELINE] = {1, 1, 0, 0},
        [TPP_ENGINE_FSDP1] = {0, 0, 0, 1},
        [TPP_ENGINE_FSDP2] = {0, 0, 0, 1},
        [TPP_ENGINE_DDP] = {1, 0, 0, 0},
    };
    const struct tpp_job job = make_job(8, 8);
    for (int engine = 0; engine < TPP_ENGINE_COUNT; engine++) {
        const struct tpp_stack stack = {.engine = (enum tpp_engine)engine};
        for (uint32_t stage = 0; stage < 4; stage++) {
            struct tpp_strategy s = make(2, 1, 1);
            s.zero_stage = stage;
            if (alone[engine][stage]) {
                expect_accepted(s, &coder, &job, &stack);
            } else {
                expect_refused(s, &coder, &job, &stack, "strategy.zero_stage");
            }
        }
    }
    const struct tpp_stack deepspeed = {.engine = TPP_ENGINE_DEEPSPEED};
    struct tpp_strategy s = make(1, 2, 1);
    s.zero_stage = 2;
    expect_refused(s, &coder, &job, &deepspeed, "strategy.zero_stage");
    s.zero_stage = 4;
    expect_refused(s, &coder, &job, &deepspeed, "strategy.zero_stage");
}

static void sharding_groups_offload_and_recomputation_are_consistent(void **state)
{
    (void)state;
    const struct tpp_job job = make_job(24, 24);
    struct tpp_strategy s = make(2, 1, 3); /* dp 4, dp * c = 12 */
    s.shard_group = 6;
    expect_refused(s, &coder, &(struct tpp_job){.num_gpus = 24, .global_batch_size = 24, .sequence_length = 4098},
                   &megatron, "strategy.shard_group"); /* nothing is sharded */
    s = make(2, 1, 1);
    s.zero_stage = 1;
    s.shard_group = 5;
    expect_refused(s, &coder, &job, &megatron, "strategy.shard_group");
    s.shard_group = 6;
    expect_accepted(s, &coder, &job, &megatron);
    s.offload = TPP_OFFLOAD_OPTIMIZER;
    expect_accepted(s, &coder, &job, &megatron);
    s.shard_group = 0;
    s.zero_stage = 0;
    expect_refused(s, &coder, &job, &megatron, "strategy.offload");
    s = make(2, 1, 1);
    s.recompute = TPP_RECOMPUTE_SELECTIVE;
    s.recompute_num_layers = 3;
    expect_refused(s, &coder, &job, &megatron, "strategy.recompute_num_layers");
    s.recompute = TPP_RECOMPUTE_FULL;
    s.recompute_method = TPP_RECOMPUTE_BLOCK;
    expect_accepted(s, &coder, &job, &megatron);
}

static void placement_divides_the_group(void **state)
{
    (void)state;
    const struct tpp_job job = make_job(8, 8);
    struct tpp_strategy s = make(4, 1, 1);
    s.placed_tensor_ranks_per_node = 2; /* 2 + 2 */
    expect_accepted(s, &coder, &job, &megatron);
    s.placed_tensor_ranks_per_node = 3;
    expect_refused(s, &coder, &job, &megatron, "strategy.placed_tensor_ranks_per_node");
    s = make(1, 1, 2);
    s.placed_context_ranks_per_node = 4;
    expect_refused(s, &coder, &job, &megatron, "strategy.placed_context_ranks_per_node");
}

static void vocabulary_layers_are_shared_in_1f1b_only(void **state)
{
    (void)state;
    static const char where[] = "strategy.vocabulary_parallel";
    const struct tpp_job job = make_job(16, 64);
    struct tpp_strategy s = make(1, 2, 1);
    struct tpp_model tied = coder;
    tied.tied_embeddings = true;
    s.vocabulary_parallel = TPP_VOCABULARY_PARALLEL_ONE_BARRIER;
    assert_int_equal(tpp_strategy_vocabulary_shards(&s), 2);
    expect_accepted(s, &coder, &job, &megatron);
    expect_refused(s, &tied, &job, &megatron, where);
    const struct tpp_stack fsdp = {.engine = TPP_ENGINE_FSDP2};
    s.zero_stage = 3; /* every rank needs its share of the vocabulary in every pass */
    expect_refused(s, &coder, &job, &fsdp, where);
    s.zero_stage = 0;
    s.schedule = TPP_SCHEDULE_GPIPE;
    expect_refused(s, &coder, &job, &megatron, where);
    s = make(1, 1, 1);
    s.vocabulary_parallel = TPP_VOCABULARY_PARALLEL_INTERLACED;
    expect_refused(s, &coder, &job, &megatron, where);
    s.vocabulary_parallel = (enum tpp_vocabulary_parallel)9;
    expect_refused(s, &coder, &job, &megatron, where);
}

static void values_outside_an_enum_are_refused(void **state)
{
    (void)state;
    const struct tpp_job job = make_job(8, 8);
    struct tpp_strategy s = make(1, 1, 1);
    s.recompute = (enum tpp_recompute)7;
    expect_refused(s, &coder, &job, &megatron, "strategy.recompute");
    s = make(1, 1, 1);
    s.schedule = TPP_SCHEDULE_COUNT;
    expect_refused(s, &coder, &job, &megatron, "strategy.schedule");
    s = make(1, 1, 1);
    s.context_kind = (enum tpp_context_kind)7;
    expect_refused(s, &coder, &job, &megatron, "strategy.context_kind");
    s = make(1, 1, 1);
    s.offload = TPP_OFFLOAD_NONE;
    s.offload_percent = 50; /* of nothing */
    expect_refused(s, &coder, &job, &megatron, "strategy.offload_percent");
    s.offload = TPP_OFFLOAD_OPTIMIZER;
    s.zero_stage = 1;
    expect_accepted(s, &coder, &job, &megatron);
    s.offload_percent = 101;
    expect_refused(s, &coder, &job, &megatron, "strategy.offload_percent");
    s.offload_percent = 0;
    s.offload_layers = coder.num_layers - 1;
    expect_accepted(s, &coder, &job, &megatron);
    s.offload_layers = coder.num_layers;
    expect_refused(s, &coder, &job, &megatron, "strategy.offload_layers");
    s.offload_layers = 1;
    struct tpp_strategy staged = s;
    staged.pipeline_parallel = 2;
    staged.data_parallel /= 2;
    staged.num_micro_batches *= 2;
    expect_refused(staged, &coder, &job, &megatron, "strategy.offload_layers");
    s.offload_layers = 0;
    s.offload = (enum tpp_offload)7;
    expect_refused(s, &coder, &job, &megatron, "strategy.offload");
}

static void context_parallelism_needs_a_flash_kernel(void **state)
{
    (void)state;
    const struct tpp_job job = make_job(8, 64);
    const struct tpp_model model = {.num_layers = 8, .hidden_size = 1024, .num_attention_heads = 8,
                                    .num_query_groups = 8, .head_dim = 128, .ffn_hidden_size = 4096, .vocab_size = 1000};
    const struct tpp_stack unfused = {.engine = TPP_ENGINE_MEGATRON, .attention = TPP_ATTENTION_FUSED_SOFTMAX};
    expect_accepted(make(2, 1, 2), &model, &job, &megatron);
    expect_refused(make(2, 1, 2), &model, &job, &unfused, "strategy.context_parallel");
    expect_accepted(make(2, 1, 1), &model, &job, &unfused);
}

static void the_order_is_total_and_starts_with_tensor_parallel(void **state)
{
    (void)state;
    const struct tpp_strategy a = make(2, 8, 1);
    struct tpp_strategy b = make(4, 1, 1);
    assert_true(tpp_strategy_compare(&a, &b) < 0);
    assert_true(tpp_strategy_compare(&b, &a) > 0);
    assert_int_equal(tpp_strategy_compare(&a, &a), 0);
    b = a;
    b.placed_context_ranks_per_node = 1; /* the last field */
    assert_true(tpp_strategy_compare(&a, &b) < 0);
    b = a;
    b.overlap_grad_reduce = false;
    assert_true(tpp_strategy_compare(&a, &b) > 0);
}

/* Layouts of Megatron-Bridge's DeepSeek-V3 recipes: "Et|(tt|)*30mL" over 8 stages of 4 chunks, and four layers a chunk with
 * one on the last over 4 stages of 4. */
static void the_last_chunk_can_hold_less(void **state)
{
    (void)state;
    struct tpp_strategy s = tpp_strategy_defaults();
    s.pipeline_parallel = 8;
    s.virtual_pipeline_stages = 4;
    s.account_for_embedding = true;
    s.last_chunk_less = 2;
    assert_int_equal(tpp_strategy_chunk_layers(&s, 61, 0, 0), 1);
    assert_int_equal(tpp_strategy_chunk_layers(&s, 61, 0, 1), 2);
    assert_int_equal(tpp_strategy_chunk_layers(&s, 61, 7, 2), 2);
    assert_int_equal(tpp_strategy_chunk_layers(&s, 61, 7, 3), 0);
    s.pipeline_parallel = 4;
    s.account_for_embedding = false;
    s.last_chunk_less = 3;
    assert_int_equal(tpp_strategy_chunk_layers(&s, 61, 0, 0), 4);
    assert_int_equal(tpp_strategy_chunk_layers(&s, 61, 3, 3), 1);
}

/* README of deepseek-ai/DualPipe: even stages and micro-batches, at least two micro-batches a stage. */
static void dualpipe_needs_even_stages_and_two_micro_batches_a_stage(void **state)
{
    (void)state;
    struct tpp_strategy s = make(1, 2, 1);
    s.schedule = TPP_SCHEDULE_DUALPIPE;
    struct tpp_job job = make_job(2, 4);
    expect_accepted(s, &coder, &job, &megatron);
    job.global_batch_size = 5;
    expect_refused(s, &coder, &job, &megatron, "strategy.num_micro_batches");
    job.global_batch_size = 2;
    expect_refused(s, &coder, &job, &megatron, "strategy.num_micro_batches");
    job = make_job(31, 62);
    s.pipeline_parallel = 31;
    expect_refused(s, &coder, &job, &megatron, "strategy.num_micro_batches");
    /* Shards of two copies would be gathered at different times. */
    const struct tpp_stack fsdp = {.engine = TPP_ENGINE_FSDP2};
    job = make_job(4, 8);
    s.pipeline_parallel = 2;
    s.zero_stage = 3;
    expect_refused(s, &coder, &job, &fsdp, "strategy.zero_stage");
    s.zero_stage = 1;
    expect_accepted(s, &coder, &job, &megatron);
    s.virtual_pipeline_stages = 31;
    expect_refused(s, &coder, &job, &megatron, "strategy.schedule");
    struct tpp_strategy v = make(1, 31, 1); /* 62 layers in 62 chunks */
    v.schedule = TPP_SCHEDULE_DUALPIPEV;
    v.virtual_pipeline_stages = 2;
    job = make_job(31, 62);
    expect_accepted(v, &coder, &job, &megatron);
    job.global_batch_size = 61;
    expect_refused(v, &coder, &job, &megatron, "strategy.num_micro_batches");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dualpipe_needs_even_stages_and_two_micro_batches_a_stage),
        cmocka_unit_test(the_last_chunk_can_hold_less),
        cmocka_unit_test(completing_fills_what_follows),
        cmocka_unit_test(completing_copes_with_extreme_sizes),
        cmocka_unit_test(completing_refuses_sizes_that_contradict),
        cmocka_unit_test(an_incomplete_strategy_is_refused),
        cmocka_unit_test(tensor_parallel_must_divide_heads_and_ffn),
        cmocka_unit_test(sequence_parallel_needs_tensor_parallel_and_divides),
        cmocka_unit_test(context_parallel_divides_the_sequence),
        cmocka_unit_test(ulysses_divides_the_heads),
        cmocka_unit_test(experts_divide),
        cmocka_unit_test(uneven_splits_are_as_megatron_makes_them),
        cmocka_unit_test(embedding_and_loss_count_as_layers),
        cmocka_unit_test(stage_counts_split_into_chunks),
        cmocka_unit_test(a_balanced_split_puts_the_rest_on_the_first_stages),
        cmocka_unit_test(interleaving_needs_whole_groups_of_micro_batches),
        cmocka_unit_test(each_engine_has_its_zero_stages),
        cmocka_unit_test(sharding_groups_offload_and_recomputation_are_consistent),
        cmocka_unit_test(placement_divides_the_group),
        cmocka_unit_test(vocabulary_layers_are_shared_in_1f1b_only),
        cmocka_unit_test(values_outside_an_enum_are_refused),
        cmocka_unit_test(context_parallelism_needs_a_flash_kernel),
        cmocka_unit_test(the_order_is_total_and_starts_with_tensor_parallel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
