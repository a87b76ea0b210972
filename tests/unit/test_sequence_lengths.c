/* Lengths that differ: what padding and packing leave of a micro-batch, by hand, and what it costs. */
#include "costmodel/sequence_lengths.h"
#include "costmodel/program.h"
#include "costmodel/schedules/schedule.h"
#include "costmodel/simulator/simulate.h"
#include "costmodel/uneven_pipeline.h"
#include "tests/support/shape_cost.h"

static struct tpp_job job_with(const char *text, uint64_t sequence_length, bool packs)
{
    struct tpp_job job = shape_job(8, sequence_length, 64);
    struct tpp_lengths lengths;
    assert_int_equal(tpp_lengths_parse(text, &lengths, NULL), TPP_OK);
    tpp_job_set_lengths(&job, &lengths, packs);
    tpp_lengths_release(&lengths);
    return job;
}

static void one_length_is_no_distribution(void **state)
{
    (void)state;
    const struct tpp_job own = job_with("fixed", 4096, false), longer = job_with("fixed:8k", 4096, true);
    assert_int_equal(own.num_lengths, 0);
    assert_int_equal(longer.num_lengths, 0);
    assert_false(tpp_job_pads(&own));
    CHECK_NUMBER(tpp_job_useful_tokens(&own), 4096, 0);
    CHECK_NUMBER(tpp_job_document_tokens(&own), 0, 0);
}

/* Every second sequence has 1024 tokens, the others 3072. */
static void a_micro_batch_is_as_long_as_its_longest(void **state)
{
    (void)state;
    const struct tpp_job job = job_with("bucketed:3k,1k", 4096, false);
    assert_true(tpp_job_pads(&job));
    CHECK_NUMBER(tpp_job_useful_tokens(&job), 2048, 0);
    CHECK_NUMBER(tpp_job_document_tokens(&job), 2560, 1e-12); /* (1 + 9) / 2 over 2, thousands of tokens */
    struct tpp_padded_length one = tpp_padded_length(&job, 1, 1, 1);
    CHECK_NUMBER(one.tokens, 2048, 1e-12);
    CHECK_NUMBER(one.attended, 2560, 1e-12);
    /* Two: a quarter is short twice. E[max] = (1 + 3 * 3) / 4 = 2.5, E[max^2] = (1 + 3 * 9) / 4 = 7. */
    const struct tpp_padded_length two = tpp_padded_length(&job, 2, 1, 1);
    CHECK_NUMBER(two.tokens, 2.5 * 1024, 1e-12);
    CHECK_NUMBER(two.attended, 7 / 2.5 * 1024, 1e-12);
    /* Four ranks of two that wait for each other after every micro-batch: all short once in 2^8. */
    CHECK_NUMBER(tpp_padded_length(&job, 2, 4, 1).tokens, (3 - 2 / 256.0) * 1024, 1e-12);
    /* Sixteen that wait after four micro-batches of one: the mean is 2, the deviation 1, of four 1/2; the largest of
     * sixteen normal numbers is 1.766 on average (Teichroew 1956), Blom's 1.769. */
    one = tpp_padded_length(&job, 1, 16, 4);
    CHECK_NUMBER(one.tokens, (2 + 1.766 / 2) * 1024, 2e-3);
    CHECK_NUMBER(one.attended, 2560 * one.tokens / 2048, 1e-12);
    /* Never above the longest: 1000 ranks are 3.24 deviations up, 3.62. */
    CHECK_NUMBER(tpp_padded_length(&job, 1, 1000, 4).tokens, 3072, 0);
}

static void quantiles_stand_for_the_distribution(void **state)
{
    (void)state;
    /* 1 .. 480, all alike: mean 240.5; the larger of two (n + 1)(4n - 1) / (6n) = 481 * 1919 / 2880 = 320.5. */
    const struct tpp_job uniform = job_with("uniform:1-480", 1000, false);
    CHECK_NUMBER(tpp_job_useful_tokens(&uniform), 240.5, 1e-12);
    CHECK_NUMBER(tpp_padded_length(&uniform, 2, 1, 1).tokens, 481 * 1919 / 2880.0, 1e-12);
    /* A weight of two is two of three. */
    CHECK_NUMBER(tpp_job_useful_tokens((const struct tpp_job[]){job_with("bucketed:300,600=2", 1000, false)}), 500, 1e-12);
    /* Cut at the job's length: a third of 1000 instead of 4000. */
    CHECK_NUMBER(tpp_job_useful_tokens((const struct tpp_job[]){job_with("bucketed:500=2,4000", 1000, false)}), 2000 / 3.0, 1e-12);
    /* Log-normal, not cut: its own mean and E[l^2] / E[l] = mean (1 + cv^2); 480 quantiles lack the end of the tail. */
    const struct tpp_job lognormal = job_with("lognormal:2000,0.5", 1000000, false);
    CHECK_NUMBER(tpp_job_useful_tokens(&lognormal), 2000, 2e-3);
    CHECK_NUMBER(tpp_job_document_tokens(&lognormal), 2500, 1e-2);
}

static void packs_are_filled_first_fit_decreasing(void **state)
{
    (void)state;
    /* 4096: a long one and a short one. Attention inside each, as of documents of E[l^2] / E[l]. */
    const struct tpp_job full = job_with("bucketed:1k,3k", 4096, true);
    assert_false(tpp_job_pads(&full));
    CHECK_NUMBER(full.packed_fraction, 1, 0);
    CHECK_NUMBER(tpp_job_useful_tokens(&full), 4096, 0);
    assert_int_equal(full.attention_block_length, 2560);
    /* 4000: the long ones by themselves, the short ones in threes: 3072 of 4000. */
    CHECK_NUMBER(job_with("bucketed:1k,3k", 4000, true).packed_fraction, 0.768, 1e-12);
    /* All in one pack: nothing is known of how full it gets. */
    CHECK_NUMBER(job_with("bucketed:1,3", 4096, true).packed_fraction, 1, 0);
    /* What is given stays. */
    struct tpp_job given = shape_job(8, 4096, 64);
    struct tpp_lengths lengths;
    given.attention_block_length = 4096;
    assert_int_equal(tpp_lengths_parse("bucketed:1k,3k", &lengths, NULL), TPP_OK);
    tpp_job_set_lengths(&given, &lengths, true);
    tpp_lengths_release(&lengths);
    assert_int_equal(given.attention_block_length, 4096);
}

static void attention_of_padded_sequences_grows_with_the_square(void **state)
{
    (void)state;
    /* Two of E[max] 2560 and E[max^2] 7 * 1024^2: 2 * 2560 tokens in rows of 2867 (2867.2) have 2 * 7 * 1024^2 scores. */
    const struct tpp_model model = shape_preset("llama3.1-8b");
    const struct tpp_hardware h100 = shape_cluster("dgx-h100");
    const struct tpp_job job = job_with("bucketed:1k,3k", 4096, false), padded = tpp_padded_job(&job, 2, 1, 1);
    const struct tpp_layer_axes axes = {.kind = TPP_LAYER_DECODER, .tensor_parallel = 1, .context_parallel = 1,
                                        .micro_batch_size = 2, .expert_parallel = 1, .expert_tensor_parallel = 1};
    struct tpp_stack stack;
    struct tpp_program program;
    tpp_stack_defaults(TPP_FRAMEWORK_HF_TRAINER, &h100.gpu, &job, &stack);
    tpp_program_build(&model, &padded, &stack, &axes, &program);
    double scores = 0;
    for (uint32_t i = 0; i < program.num_ops; i++)
        if (program.ops[i].kind == TPP_OP_FLASH_FORWARD)
            scores += program.ops[i].attention.batch * program.ops[i].attention.query_length *
                      program.ops[i].attention.key_length;
    CHECK_NUMBER(program.tokens, 2 * 2560, 0);
    CHECK_NUMBER(scores, 2 * 7 * 1048576.0, 1e-4);
}

static struct tpp_cost cost_with(const struct tpp_job *job, const char *text)
{
    const struct tpp_model model = shape_preset("llama3.1-8b");
    const struct tpp_hardware h100 = shape_cluster("dgx-h100");
    const struct tpp_strategy strategy = shape_strategy(text, job);
    return shape_cost(&model, &h100, TPP_FRAMEWORK_HF_TRAINER, job, &strategy);
}

static void padding_takes_time_and_the_longest_takes_memory(void **state)
{
    (void)state;
    /* All of 2048 tokens: the time of a job of 2048, the memory of one of 4096. */
    const char *text = "mbs=2,zero=3,recompute=full";
    const struct tpp_job half = job_with("fixed:2k", 4096, false), whole = shape_job(8, 4096, 64), shorter = shape_job(8, 2048, 64);
    const struct tpp_cost mixed = cost_with(&half, text), time = cost_with(&shorter, text), memory = cost_with(&whole, text);
    CHECK_NUMBER(mixed.step_seconds, time.step_seconds, 1e-12);
    CHECK_NUMBER(mixed.tokens_per_second_per_gpu, time.tokens_per_second_per_gpu, 1e-12);
    CHECK_NUMBER(mixed.model_flops, time.model_flops, 1e-12);
    CHECK_NUMBER(mixed.memory.peak_allocated_bytes, memory.memory.peak_allocated_bytes, 0);
    CHECK_NUMBER(mixed.useful_token_fraction, 1, 1e-12);
    CHECK_NUMBER(whole.num_lengths, 0, 0);
    CHECK_NUMBER(memory.useful_token_fraction, 1, 0);
    /* Of two lengths, 8 ranks that wait for each other (ZeRO-3) with two sequences each: 3 - 2 / 2^16, of which 2 are useful. */
    const struct tpp_job two = job_with("bucketed:1k,3k", 4096, false);
    const struct tpp_cost padded = cost_with(&two, text);
    CHECK_NUMBER(padded.computed_sequence_tokens, 3072, 1e-4);
    CHECK_NUMBER(padded.useful_token_fraction, 2 / 3.0, 1e-4);
    assert_true(padded.step_seconds > 1.3 * time.step_seconds && padded.step_seconds < memory.step_seconds);
    /* Packed: the tokens of whole sequences, less attention; every token is useful. */
    const struct tpp_job packs = job_with("bucketed:1k,3k", 4096, true);
    const struct tpp_cost packed = cost_with(&packs, text);
    CHECK_NUMBER(packed.computed_sequence_tokens, 4096, 0);
    CHECK_NUMBER(packed.useful_token_fraction, 1, 0);
    assert_true(packed.step_seconds < memory.step_seconds && packed.step_seconds > 0.9 * memory.step_seconds);
    CHECK_NUMBER(packed.time_terms[TPP_TIME_GEMM], memory.time_terms[TPP_TIME_GEMM], 1e-12);
}

static void documents_do_not_lie_in_padded_sequences(void **state)
{
    (void)state;
    struct tpp_job job = job_with("bucketed:1k,3k", 4096, false);
    struct tpp_error err;
    const struct tpp_model model = shape_preset("llama3.1-8b");
    job.attention_block_length = 512;
    assert_int_equal(tpp_job_check(&job, &model, &err), TPP_E_RANGE);
    assert_string_equal(err.where, "job.attention_block_length");
}

static double wait_of(const struct tpp_job *job, const char *text)
{
    const struct tpp_strategy strategy = shape_strategy(text, job);
    double wait = -1;
    assert_int_equal(tpp_uneven_wait(job, &strategy, 1, &wait, NULL), TPP_OK);
    return wait;
}

static void drawn_micro_batches_are_the_quantiles_in_some_order(void **state)
{
    (void)state;
    const struct tpp_job job = job_with("bucketed:1k,3k", 4096, false);
    double lengths[4], other[4], sum = 0;
    /* One sequence each: 1, 1, 3, 3 over 2. The longest of two is 1 with probability 1/4: sqrt(1/8) is below one half, sqrt(3/8) not. */
    tpp_uneven_lengths(&job, 1, 4, 7, lengths);
    for (int i = 0; i < 4; i++) {
        assert_true(lengths[i] == 0.5 || lengths[i] == 1.5);
        sum += lengths[i];
    }
    CHECK_NUMBER(sum, 4, 1e-12);
    tpp_uneven_lengths(&job, 1, 4, 7, other);
    assert_memory_equal(lengths, other, sizeof lengths);
    tpp_uneven_lengths(&job, 2, 4, 7, lengths); /* 1, 3, 3, 3 over 2.5 */
    sum = 0;
    for (int i = 0; i < 4; i++)
        sum += lengths[i] < 1;
    CHECK_NUMBER(sum, 1, 0);
}

/* Two stages and two micro-batches of 1/2 and 3/2, F = B = W = 1/3 of a micro-batch: 1F1B ends after 19/6 when the short one comes
 * first (its F is through at 2/6, its B on the last stage at 4/6, the long one's at 13/6, and that on the first at 19/6), after
 * 20/6 when the long one does, after 3 when they are equal. */
static void stages_wait_for_longer_micro_batches(void **state)
{
    (void)state;
    struct tpp_job job = job_with("bucketed:1k,3k", 4096, false);
    job.num_gpus = 2;
    job.global_batch_size = 2;
    const double shorts_first = wait_of(&job, "pp=2,mbs=1") * TPP_UNEVEN_SHUFFLES * 6;
    assert_true(shorts_first > 4 - 1e-9 && shorts_first < 8 + 1e-9);
    CHECK_NUMBER(shorts_first, round(shorts_first), 1e-9);
    /* One stage, one micro-batch, packing and equal lengths wait for nobody. */
    job.num_gpus = 8;
    job.global_batch_size = 64;
    assert_true(wait_of(&job, "pp=8,mbs=1") > 1);
    const struct tpp_job equal = job_with("fixed:2k", 4096, false), packed = job_with("bucketed:1k,3k", 4096, true);
    CHECK_NUMBER(wait_of(&job, "tp=8,pp=1,mbs=1,sp=1"), 0, 0);
    CHECK_NUMBER(wait_of(&job, "pp=8,mbs=64"), 0, 0);
    CHECK_NUMBER(wait_of(&equal, "pp=8,mbs=1"), 0, 0);
    CHECK_NUMBER(wait_of(&packed, "pp=8,mbs=1"), 0, 0);
    /* The longest of sixteen is nearly always the same. */
    assert_true(wait_of(&job, "pp=4,tp=2,sp=1,mbs=16") < wait_of(&job, "pp=4,tp=2,sp=1,mbs=1"));
}

/* Chunks that take many micro-batches in turn: fewer are run, and the wait grows with the micro-batches. */
static void long_turns_of_a_chunk_wait_as_shorter_ones_do(void **state)
{
    (void)state;
    struct tpp_job job = job_with("bucketed:1k,3k", 4096, false);
    job.global_batch_size = 1 << 30;
    const double wait = wait_of(&job, "pp=8,vp=2,mbs=1,vp_group=256");
    assert_true(wait > 0);
    CHECK_NUMBER(wait_of(&job, "pp=8,vp=2,mbs=1,vp_group=4096"), wait, 1e-9);
    CHECK_NUMBER(wait_of(&job, "pp=8,vp=2,mbs=1,vp_group=268435456"), wait, 1e-9);
}

/* Of 1600 micro-batches a part is run; they wait as long as when all are, within what their order leaves open. */
static void long_steps_wait_as_shorter_ones_do(void **state)
{
    (void)state;
    struct tpp_job job = job_with("uniform:1k-3k", 4096, false);
    job.num_gpus = 2;
    job.global_batch_size = 1600;
    struct tpp_strategy strategy = shape_strategy("pp=2,mbs=1", &job);
    struct tpp_schedule_run *run = NULL;
    struct tpp_schedule_chunk chunks[2] = {{1 / 3.0, 1 / 3.0, 1 / 3.0, 0, 0}, {1 / 3.0, 1 / 3.0, 1 / 3.0, 0, 0}};
    struct tpp_schedule_problem problem = tpp_schedule_problem_of(&strategy);
    struct tpp_schedule_summary summary;
    static double lengths[1600];
    double sum = 0;
    problem.chunks = chunks;
    problem.micro_batch_lengths = lengths;
    assert_int_equal(tpp_schedule_run_new(&run, NULL), TPP_OK);
    for (uint32_t shuffle = 0; shuffle < 8; shuffle++) {
        tpp_uneven_lengths(&job, 1, 1600, shuffle, lengths);
        assert_int_equal(tpp_schedule_step(run, &problem, &summary, NULL), TPP_OK);
        sum += summary.makespan_seconds - 1601; /* m + p - 1 */
    }
    tpp_schedule_run_free(run);
    CHECK_NUMBER(1600 + wait_of(&job, "pp=2,mbs=1"), 1600 + sum / 8, 0.02);
}

static void the_simulation_runs_unequal_micro_batches(void **state)
{
    (void)state;
    const struct tpp_model model = shape_preset("llama3.1-8b");
    const struct tpp_hardware h100 = shape_cluster("dgx-h100");
    const struct tpp_job job = job_with("uniform:1k-7k", 8192, false);
    const struct tpp_strategy strategy = shape_strategy("tp=2,pp=4,mbs=1,sp=1,recompute=full", &job);
    const struct tpp_simulation_options options = tpp_simulation_options_defaults();
    struct tpp_stack stack;
    struct tpp_evaluator *evaluator = NULL;
    struct tpp_cost cost;
    double simulated = 0;
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_LM, &h100.gpu, &job, &stack);
    assert_int_equal(tpp_evaluator_new(&model, &h100, &job, &stack, &evaluator, NULL), TPP_OK);
    assert_int_equal(tpp_evaluator_cost(evaluator, &strategy, &cost, NULL), TPP_OK);
    assert_int_equal(tpp_simulation_step_seconds(evaluator, &strategy, &options, &simulated, NULL), TPP_OK);
    tpp_evaluator_free(evaluator);
    assert_true(cost.uneven_seconds > 0.15 * cost.step_seconds);
    CHECK_NUMBER(simulated, cost.step_seconds, 0.05);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_length_is_no_distribution),
        cmocka_unit_test(a_micro_batch_is_as_long_as_its_longest),
        cmocka_unit_test(quantiles_stand_for_the_distribution),
        cmocka_unit_test(packs_are_filled_first_fit_decreasing),
        cmocka_unit_test(attention_of_padded_sequences_grows_with_the_square),
        cmocka_unit_test(padding_takes_time_and_the_longest_takes_memory),
        cmocka_unit_test(documents_do_not_lie_in_padded_sequences),
        cmocka_unit_test(drawn_micro_batches_are_the_quantiles_in_some_order),
        cmocka_unit_test(stages_wait_for_longer_micro_batches),
        cmocka_unit_test(long_turns_of_a_chunk_wait_as_shorter_ones_do),
        cmocka_unit_test(long_steps_wait_as_shorter_ones_do),
        cmocka_unit_test(the_simulation_runs_unequal_micro_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
