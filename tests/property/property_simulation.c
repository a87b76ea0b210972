/* The simulator against the closed forms of the evaluator, on random plans of random models, and laws of its own.
 *
 * Stages are uniform: the vocabulary is small, so that embedding and head cost nothing to speak of, layers divide, and
 * micro-batches fill the pipeline as the closed forms ask for. */
#include "costmodel/simulator/simulate.h"
#include "costmodel/model/presets.h"
#include "costmodel/schedules/plan_schedule.h"
#include "hwprofiles/profiles.h"
#include "tests/support/check_number.h"
#include "tests/support/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NUM_PLANS = TPP_NUM_CASES(1500, 500) };

struct plan {
    struct tpp_model model;
    struct tpp_hardware hardware;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_strategy strategy;
};

static uint32_t pick(struct tpp_random *random, const uint32_t *values, uint32_t count)
{
    return values[tpp_random_range(random, 0, count - 1)];
}

static void make_model(struct tpp_random *random, struct tpp_model *model)
{
    static const uint32_t hidden[] = {4096, 6144, 8192}, layers[] = {24, 48, 96};
    memset(model, 0, sizeof(*model));
    snprintf(model->name, sizeof model->name, "random");
    model->num_layers = pick(random, layers, 3);
    model->hidden_size = pick(random, hidden, 3);
    model->head_dim = 128;
    model->num_attention_heads = model->hidden_size / 128;
    model->num_query_groups = model->num_attention_heads / 4;
    model->ffn_hidden_size = model->hidden_size * 7 / 2;
    model->gated_mlp = true;
    model->vocab_size = 128;
    model->max_position_embeddings = 32768;
    model->position = TPP_POSITION_ROPE;
    model->rope_theta = 1e4;
    model->rotary_fraction = 1;
    model->norm = TPP_NORM_RMS;
    model->norm_epsilon = 1e-5;
    model->activation = TPP_ACTIVATION_SILU;
    model->norms_per_layer = 2;
    model->final_norm = true;
}

static enum tpp_code complete(struct plan *plan, struct tpp_random *random, uint32_t dp, struct tpp_error *err)
{
    struct tpp_strategy *s = &plan->strategy;
    plan->job = tpp_job_defaults();
    plan->job.sequence_length = UINT64_C(2048) << tpp_random_range(random, 0, 3);
    plan->job.num_gpus = s->tensor_parallel * s->context_parallel * s->pipeline_parallel * dp;
    const uint64_t num_micro_batches = s->pipeline_parallel * tpp_random_range(random, 1, 12);
    plan->job.global_batch_size = num_micro_batches * dp * s->micro_batch_size;
    tpp_stack_defaults((enum tpp_framework)tpp_random_range(random, 0, TPP_FRAMEWORK_COUNT - 1), &plan->hardware.gpu,
                       &plan->job, &plan->stack);
    if (tpp_engine_is_fsdp(plan->stack.engine))
        s->zero_stage = 3;
    else if (plan->stack.engine == TPP_ENGINE_DEEPSPEED)
        s->zero_stage = (uint32_t)tpp_random_range(random, 0, 3);
    s->align_grad_reduce = tpp_random_range(random, 0, 2) > 0;
    s->reshard_after_forward = tpp_random_range(random, 0, 3) > 0;
    return tpp_strategy_complete(s, &plan->job, err);
}

/* Transfers between stages occupy inner stages twice as long as the ends: with fast ports all stages are alike. */
static const double fast_ports = 50, real_ports = 1;

/* A plan that the evaluator can cost; false when this draw is not one. */
static bool make_plan(struct tpp_random *random, double port_factor, struct plan *plan)
{
    static const uint32_t sizes[] = {1, 2, 4, 8}, chunks[] = {1, 1, 2, 3}, contexts[] = {1, 1, 1, 2};
    static const char *const clusters[] = {"dgx-h100", "dgx-a100-80g", "gb200-nvl72", "l40s-pcie"};
    struct tpp_strategy *s = &plan->strategy;
    memset(plan, 0, sizeof(*plan));
    make_model(random, &plan->model);
    assert_int_equal(tpp_hardware_find(clusters[tpp_random_range(random, 0, 3)], &plan->hardware, NULL), TPP_OK);
    plan->hardware.network.nic_bytes_per_second *= port_factor;
    *s = tpp_strategy_defaults();
    s->tensor_parallel = pick(random, sizes, 4);
    s->sequence_parallel = s->tensor_parallel > 1 && tpp_random_range(random, 0, 1);
    s->context_parallel = pick(random, contexts, 4);
    s->pipeline_parallel = pick(random, sizes, 4);
    s->virtual_pipeline_stages = s->pipeline_parallel > 1 ? pick(random, chunks, 4) : 1;
    s->micro_batch_size = (uint32_t)tpp_random_range(random, 1, 2);
    s->recompute = (enum tpp_recompute)tpp_random_range(random, 0, 2);
    s->schedule = s->virtual_pipeline_stages > 1           ? TPP_SCHEDULE_INTERLEAVED
                  : tpp_random_range(random, 0, 3) == 0 ? TPP_SCHEDULE_GPIPE
                                                           : TPP_SCHEDULE_1F1B;
    s->zero_stage = (uint32_t)tpp_random_range(random, 0, 1);
    s->tp_comm_overlap = tpp_random_range(random, 0, 4) == 0;
    s->overlap_grad_reduce = tpp_random_range(random, 0, 1);
    s->overlap_param_gather = s->overlap_grad_reduce && tpp_random_range(random, 0, 1);
    if (s->pipeline_parallel == 1 && tpp_random_range(random, 0, 2) == 0) {
        plan->model = *tpp_model_preset("mixtral-8x7b");
        s->expert_parallel = pick(random, sizes, 4);
    }
    struct tpp_error err;
    return complete(plan, random, UINT32_C(1) << tpp_random_range(random, 0, 5), &err) == TPP_OK;
}

static bool simulate(const struct plan *plan, const struct tpp_simulation_options *options, struct tpp_cost *cost,
                     struct tpp_simulation_result *result)
{
    struct tpp_evaluator *evaluator;
    struct tpp_simulation *simulation;
    struct tpp_error err = {0};
    if (tpp_evaluator_new(&plan->model, &plan->hardware, &plan->job, &plan->stack, &evaluator, &err) != TPP_OK)
        return false;
    const bool is_valid = tpp_evaluator_cost(evaluator, &plan->strategy, cost, &err) == TPP_OK;
    if (is_valid) {
        bool done = false;
        if (tpp_simulation_new(evaluator, &plan->strategy, options, &simulation, &err) != TPP_OK ||
            tpp_simulation_run(simulation, UINT64_MAX, &done, &err) != TPP_OK || !done)
            fail_msg("%s (%s)", err.message, err.where);
        *result = *tpp_simulation_result(simulation);
        result->ops = NULL;
        tpp_simulation_free(simulation);
    }
    tpp_evaluator_free(evaluator);
    return is_valid;
}

/* Makespan of the plan's pipeline by schedules/schedule.h. */
static double schedule_seconds(const struct plan *plan)
{
    struct tpp_evaluator *evaluator;
    struct tpp_schedule_run *run;
    struct tpp_schedule_problem problem;
    struct tpp_schedule_chunk chunks[64];
    struct tpp_schedule_summary summary;
    assert_true(plan->strategy.pipeline_parallel * plan->strategy.virtual_pipeline_stages <= 64);
    assert_int_equal(
        tpp_evaluator_new(&plan->model, &plan->hardware, &plan->job, &plan->stack, &evaluator, NULL), TPP_OK);
    assert_int_equal(tpp_schedule_run_new(&run, NULL), TPP_OK);
    assert_int_equal(tpp_plan_schedule(evaluator, &plan->strategy, chunks, &problem, NULL), TPP_OK);
    assert_int_equal(tpp_schedule_step(run, &problem, &summary, NULL), TPP_OK);
    tpp_schedule_run_free(run);
    tpp_evaluator_free(evaluator);
    return summary.makespan_seconds;
}

static void check(const struct plan *plan, uint64_t seed, double actual, double expected, double tolerance)
{
    if (fabs(actual - expected) <= tolerance * expected)
        return;
    struct tpp_text text;
    tpp_text_init(&text);
    tpp_strategy_format(&plan->strategy, &text);
    fail_msg("seed %" PRIu64 ": %s, %s, %s, %u layers of %u, %u GPUs: simulated %.9g, closed form %.9g (%+.3f %%)", seed,
             tpp_text_get(&text), plan->hardware.name, tpp_framework_name(plan->stack.framework),
             plan->model.num_layers, plan->model.hidden_size, plan->job.num_gpus, actual, expected,
             100 * (actual / expected - 1));
}

/* All forward passes come before all backward passes: what is lost when one stage is longer forward and another one backward. */
static double phase_seconds(const struct plan *plan)
{
    struct tpp_evaluator *evaluator;
    struct tpp_stage_cost stages[8];
    double forward = 0, backward = 0, both = 0;
    if (plan->strategy.schedule != TPP_SCHEDULE_GPIPE || plan->strategy.pipeline_parallel == 1)
        return 0;
    assert_int_equal(
        tpp_evaluator_new(&plan->model, &plan->hardware, &plan->job, &plan->stack, &evaluator, NULL), TPP_OK);
    assert_int_equal(tpp_evaluator_stages(evaluator, &plan->strategy, stages, NULL), TPP_OK);
    tpp_evaluator_free(evaluator);
    for (uint32_t i = 0; i < plan->strategy.pipeline_parallel; i++) {
        const double behind = stages[i].backward_seconds + stages[i].recompute_seconds;
        forward = fmax(forward, stages[i].forward_seconds);
        backward = fmax(backward, behind);
        both = fmax(both, stages[i].forward_seconds + behind);
    }
    return (double)plan->strategy.num_micro_batches * (forward + backward - both);
}

/* What keeps chunks from being alike, as seconds of the step: slower stages, while all run and while the pipeline fills and
 * drains; embedding and head, which are on one chunk of their stages, while p micro-batches pass it; and transfers. */
static double unevenness_seconds(const struct plan *plan, const struct tpp_cost *cost)
{
    const double p = plan->strategy.pipeline_parallel, m = (double)plan->strategy.num_micro_batches;
    const bool has_chunks = plan->strategy.virtual_pipeline_stages > 1;
    const double ends = has_chunks ? 2 * p / m : 0;
    return cost->imbalance_seconds * (m / p + (p > 1)) + ends * cost->time_terms[TPP_TIME_EMBEDDING_HEAD] +
           (p > 1 ? cost->time_terms[TPP_TIME_SHARD_COMM] : 0) + /* embedding and head travel on their chunks alone */
           cost->time_terms[TPP_TIME_PIPELINE_COMM] + phase_seconds(plan);
}

/* Chunks that take more micro-batches in turn than there are stages (--microbatch-group-size-per-virtual-pipeline-stage). */
static bool widen_group(struct plan *plan, uint64_t seed)
{
    struct tpp_strategy *s = &plan->strategy;
    const uint64_t size = s->pipeline_parallel + seed % s->pipeline_parallel, left = s->num_micro_batches % size;
    if (s->schedule != TPP_SCHEDULE_INTERLEAVED || size > s->num_micro_batches || (left > 0 && left < s->pipeline_parallel))
        return false;
    s->microbatch_group_size = (uint32_t)size;
    return size > s->pipeline_parallel;
}

static void comparable_mode_agrees_with_the_closed_forms(void **state)
{
    (void)state;
    uint32_t num_uniform = 0, num_pipelines = 0, num_other = 0, num_groups = 0;
    struct tpp_simulation_options options = tpp_simulation_options_defaults();
    options.mode = TPP_SIMULATION_COMPARABLE;
    for (uint64_t seed = 1; seed <= NUM_PLANS; seed++) {
        struct tpp_random random = {seed};
        struct plan plan;
        struct tpp_cost cost;
        struct tpp_simulation_result result;
        if (!make_plan(&random, fast_ports, &plan))
            continue;
        const bool is_wide = widen_group(&plan, seed);
        if (!simulate(&plan, &options, &cost, &result))
            continue;
        const double uneven = unevenness_seconds(&plan, &cost) / cost.step_seconds;
        /* The closed forms hold for equal stages: no further off than what is uneven. */
        check(&plan, seed, result.step_seconds, cost.step_seconds, 1e-3 + uneven);
        const bool is_uniform = uneven <= 1e-3;
        num_uniform += is_uniform;
        num_pipelines += is_uniform && plan.strategy.pipeline_parallel > 1;
        num_groups += is_uniform && is_wide;
        num_other += !is_uniform;
    }
    print_message("# %u plans with uniform stages, %u of them pipelines, %u with groups above p; %u others\n", num_uniform,
                  num_pipelines, num_groups, num_other);
    assert_true(num_uniform > NUM_PLANS / 4 && num_pipelines > NUM_PLANS / 20 && num_groups > TPP_NUM_CASES(NUM_PLANS / 200, 1));
}

/* Most of the plans that can: 1F1B, untied. */
static void share_vocabulary(struct tpp_random *random, struct plan *plan)
{
    const enum tpp_vocabulary_parallel kind =
        (enum tpp_vocabulary_parallel)tpp_random_range(random, 0, TPP_VOCABULARY_PARALLEL_INTERLACED);
    if (plan->strategy.schedule == TPP_SCHEDULE_1F1B && plan->strategy.pipeline_parallel > 1 &&
        !plan->model.tied_embeddings)
        plan->strategy.vocabulary_parallel = kind;
}

/* Any schedule, stages however uneven: the same events as those of the pipeline alone. */
static void comparable_mode_is_the_schedule_of_the_plan(void **state)
{
    (void)state;
    static const char *const models[] = {"llama3.1-8b", "gpt2", "mixtral-8x7b", "deepseek-v2-lite"};
    uint32_t num_checked = 0, num_sharing = 0, num_of[TPP_SCHEDULE_COUNT] = {0};
    struct tpp_simulation_options options = tpp_simulation_options_defaults();
    options.mode = TPP_SIMULATION_COMPARABLE;
    for (uint64_t seed = 1; seed <= NUM_PLANS; seed++) {
        struct tpp_random random = {seed};
        struct plan plan;
        struct tpp_cost cost;
        struct tpp_simulation_result result;
        if (!make_plan(&random, fast_ports, &plan))
            continue;
        if (tpp_random_range(&random, 0, 1))
            plan.model = *tpp_model_preset(models[tpp_random_range(&random, 0, 3)]);
        const enum tpp_schedule schedule = (enum tpp_schedule)tpp_random_range(&random, 0, TPP_SCHEDULE_COUNT - 1);
        const bool takes_two = tpp_schedule_is_v_shaped(schedule) && plan.strategy.virtual_pipeline_stages == 2;
        if (takes_two || (plan.strategy.pipeline_parallel > 1 && plan.strategy.schedule != TPP_SCHEDULE_INTERLEAVED))
            plan.strategy.schedule = schedule;
        if (plan.model.num_experts > 0 && plan.strategy.data_parallel % 2 == 0)
            plan.strategy.expert_parallel = 2; /* what pairs of passes hide */
        share_vocabulary(&random, &plan);
        if (!simulate(&plan, &options, &cost, &result))
            continue;
        /* Here a chunk adds up the gradients of its own parameters; there, a share of its stage's. */
        const bool adds_up = plan.stack.engine != TPP_ENGINE_MEGATRON && !tpp_engine_is_fsdp(plan.stack.engine);
        check(&plan, seed, result.pipeline_seconds, schedule_seconds(&plan), adds_up ? 5e-3 : 1e-9);
        num_checked++;
        num_of[plan.strategy.schedule]++;
        num_sharing += plan.strategy.vocabulary_parallel != TPP_VOCABULARY_PARALLEL_NONE;
    }
    print_message("# %u plans", num_checked);
    for (int schedule = 0; schedule < TPP_SCHEDULE_COUNT; schedule++) {
        print_message(", %u %s", num_of[schedule], tpp_schedule_name((enum tpp_schedule)schedule));
        assert_true(num_of[schedule] > 0);
    }
    print_message(", %u with shared vocabulary layers\n", num_sharing);
    assert_true(num_checked > NUM_PLANS / 6 && num_sharing > NUM_PLANS / 150);
}

static bool is_in_layers(const struct plan *plan)
{
    return plan->strategy.zero_stage >= 3 || tpp_engine_is_fsdp(plan->stack.engine);
}

static void events_agree_where_nothing_overlaps(void **state)
{
    (void)state;
    uint32_t num_checked = 0, num_reducing = 0;
    for (uint64_t seed = 1; seed <= NUM_PLANS; seed++) {
        struct tpp_random random = {seed};
        struct plan plan;
        struct tpp_cost cost;
        struct tpp_simulation_result result;
        struct tpp_simulation_options options = tpp_simulation_options_defaults();
        if (!make_plan(&random, fast_ports, &plan) || is_in_layers(&plan))
            continue;
        plan.strategy.overlap_grad_reduce = plan.strategy.overlap_param_gather = false;
        /* Operation by operation too: transfers in layers alone on their links take what their closed forms say. */
        options.detail = seed % 4 == 0 ? TPP_DETAIL_OPS : TPP_DETAIL_LAYERS;
        if (!simulate(&plan, &options, &cost, &result) ||
            unevenness_seconds(&plan, &cost) > 1e-3 * cost.step_seconds)
            continue;
        check(&plan, seed, result.step_seconds, cost.step_seconds,
              1e-3 + unevenness_seconds(&plan, &cost) / cost.step_seconds);
        num_checked++;
        num_reducing += plan.strategy.data_parallel > 1;
    }
    print_message("# %u plans, %u of them reduce gradients\n", num_checked, num_reducing);
    assert_true(num_checked > NUM_PLANS / 6 && num_reducing > NUM_PLANS / 10);
}

struct spread {
    uint32_t count, num_close; /* within 0.1 % */
    double sum, worst;
};

static void add_to(struct spread *spread, double off)
{
    spread->count++;
    spread->num_close += fabs(off) <= 1e-3;
    spread->sum += fabs(off);
    if (fabs(off) > fabs(spread->worst))
        spread->worst = off;
}

/* Time for which two different transfers wanted the busiest link at once. */
static double collision_seconds(const struct tpp_simulation_result *result)
{
    double longest = 0;
    for (uint32_t i = 0; i < result->num_contentions; i++)
        longest = fmax(longest, result->contention[i].collision_seconds);
    return longest;
}

/* A vocabulary that is worth sharing, on stages of equal layers. Transfers through fast ports hide in the room that the order
 * leaves for them, but for their latencies. */
static void vocabulary_passes_agree_with_the_closed_form(void **state)
{
    (void)state;
    struct spread spread[2] = {{0}, {0}};
    for (uint64_t seed = 1; seed <= 2 * NUM_PLANS; seed++) {
        struct tpp_random random = {seed};
        struct plan plan;
        struct tpp_cost cost;
        struct tpp_simulation_result result;
        struct tpp_simulation_options options = tpp_simulation_options_defaults();
        if (!make_plan(&random, fast_ports, &plan) || plan.strategy.schedule != TPP_SCHEDULE_1F1B ||
            plan.strategy.pipeline_parallel == 1 || is_in_layers(&plan))
            continue;
        plan.model.vocab_size = 1000 * (uint32_t)tpp_random_range(&random, 32, 256);
        share_vocabulary(&random, &plan);
        plan.strategy.overlap_grad_reduce = plan.strategy.overlap_param_gather = false;
        for (int i = 0; i < TPP_COLLECTIVE_COUNT; i++)
            plan.hardware.node.bus_bytes_per_second[i] *= fast_ports;
        for (int mode = 0; mode < 2; mode++) {
            options.mode = mode == 0 ? TPP_SIMULATION_COMPARABLE : TPP_SIMULATION_EVENTS;
            if (plan.strategy.vocabulary_parallel == TPP_VOCABULARY_PARALLEL_NONE ||
                !simulate(&plan, &options, &cost, &result))
                continue;
            /* The ends have fewer transfers: while all run, and for a whole round of p micro-batches in fill and drain. */
            const double p = plan.strategy.pipeline_parallel, m = (double)plan.strategy.num_micro_batches;
            const double uneven = cost.imbalance_seconds * (m / p + p / 2) / cost.step_seconds;
            if (mode == 0)
                check(&plan, seed, result.step_seconds, cost.step_seconds, 1e-3 + uneven);
            add_to(&spread[mode], result.step_seconds / cost.step_seconds - 1);
        }
    }
    for (int mode = 0; mode < 2; mode++)
        print_message("# %s: %u plans, %u within 0.1 %%, mean %.3f %%, worst %+.2f %%\n",
                      mode == 0 ? "passes in order" : "with their transfers", spread[mode].count, spread[mode].num_close,
                      100 * spread[mode].sum / spread[mode].count, 100 * spread[mode].worst);
    assert_true(spread[0].count > NUM_PLANS / 15 && spread[0].count == spread[1].count);
    assert_true(spread[1].num_close > 0.8 * spread[1].count && fabs(spread[1].worst) < 0.02);
    assert_true(spread[1].sum < 1e-3 * spread[1].count);
}

/* A layer's gather begins with the layer before it, whose first operations compute: one by one they are slowed for its whole
 * length, where the closed form slows the layer's mean, transfers of its own included. */
static const double one_by_one = 2.5e-3;

/* Everything overlaps, through ports as they are. Where no two transfers meet on a link, those of ZeRO-3 and FSDP included, both
 * agree to 0.1 %. Where they meet the step is longer than the closed forms know, seldom by more than a few percent. */
static void events_agree_with_the_closed_forms_of_overlap(void **state)
{
    (void)state;
    struct spread alone = {0}, colliding = {0}, in_layers = {0}, without_nvlink = {0};
    uint32_t num_layers_alone = 0;
    for (uint64_t seed = 1; seed <= NUM_PLANS; seed++) {
        struct tpp_random random = {seed};
        struct plan plan;
        struct tpp_cost cost;
        struct tpp_simulation_result result;
        const struct tpp_simulation_options options = tpp_simulation_options_defaults();
        if (!make_plan(&random, real_ports, &plan) || !simulate(&plan, &options, &cost, &result) ||
            unevenness_seconds(&plan, &cost) > 1e-3 * cost.step_seconds)
            continue;
        const bool never_meets = collision_seconds(&result) < 1e-5 * cost.step_seconds;
        const bool is_alone = !is_in_layers(&plan) && never_meets;
        const double off = result.step_seconds / cost.step_seconds - 1;
        num_layers_alone += is_in_layers(&plan) && never_meets;
        if (never_meets)
            check(&plan, seed, result.step_seconds, cost.step_seconds,
                  is_in_layers(&plan) && result.has_operations ? one_by_one : 1e-3);
        else
            assert_true(off > -0.05 && off < 1);
        add_to(is_alone                          ? &alone
               : !plan.hardware.node.has_nvlink ? &without_nvlink
               : is_in_layers(&plan)            ? &in_layers
                                                : &colliding, off);
    }
    const struct spread *all[] = {&alone, &colliding, &in_layers, &without_nvlink};
    static const char *const names[] = {"alone", "gradients in buckets meet others", "ZeRO-3 and FSDP", "all of them on PCIe"};
    for (int i = 0; i < 4; i++)
        print_message("# %s: %u plans, %u within 0.1 %%, mean %.3f %%, worst %+.2f %%\n", names[i], all[i]->count,
                      all[i]->num_close, 100 * all[i]->sum / all[i]->count, 100 * all[i]->worst);
    print_message("# %u plans of ZeRO-3 and FSDP whose transfers never meet\n", num_layers_alone);
    assert_true(num_layers_alone > NUM_PLANS / 150);
    assert_true(alone.count > NUM_PLANS / 15 && colliding.count > NUM_PLANS / 40 && in_layers.count > NUM_PLANS / 40 &&
                without_nvlink.count > NUM_PLANS / 40);
    assert_true(alone.sum < 1e-4 * alone.count);
    assert_true(colliding.sum < 2e-3 * colliding.count && in_layers.sum < 0.01 * in_layers.count);
}

/* Any schedule and any plan: two short steps give the long one. Where nothing overlaps and ports are slow, waits build up over
 * more periods than the short ones have. */
static void long_steps_are_periodic(void **state)
{
    (void)state;
    uint32_t num_checked = 0, counts[TPP_SCHEDULE_COUNT] = {0};
    double worst = 0, sum = 0;
    for (uint64_t seed = 1; seed <= NUM_PLANS; seed++) {
        struct tpp_random random = {seed};
        struct plan plan;
        struct tpp_evaluator *evaluator;
        double whole, periodic;
        const struct tpp_simulation_options options = tpp_simulation_options_defaults();
        if (!make_plan(&random, real_ports, &plan)) /* stages differ by their transfers */
            continue;
        struct tpp_strategy *strategy = &plan.strategy;
        if (strategy->pipeline_parallel > 1 && strategy->schedule != TPP_SCHEDULE_INTERLEAVED)
            strategy->schedule = (enum tpp_schedule)tpp_random_range(&random, 0, TPP_SCHEDULE_COUNT - 1);
        strategy->num_micro_batches += strategy->pipeline_parallel * tpp_random_range(&random, 4, 12);
        plan.job.global_batch_size =
            strategy->num_micro_batches * strategy->data_parallel * strategy->micro_batch_size;
        assert_int_equal(
            tpp_evaluator_new(&plan.model, &plan.hardware, &plan.job, &plan.stack, &evaluator, NULL), TPP_OK);
        if (tpp_simulation_step_seconds(evaluator, strategy, &options, &whole, NULL) == TPP_OK) {
            assert_int_equal(tpp_simulation_periodic_step_seconds(evaluator, strategy, &options, &periodic, NULL), TPP_OK);
            check(&plan, seed, periodic, whole, 5e-3);
            sum += fabs(periodic / whole - 1);
            worst = fmax(worst, fabs(periodic / whole - 1));
            counts[strategy->schedule]++;
            num_checked++;
        }
        tpp_evaluator_free(evaluator);
    }
    print_message("# %u plans, mean %.4f %%, worst %.4f %%\n", num_checked, 100 * sum / num_checked, 100 * worst);
    assert_true(sum < 5e-4 * num_checked);
    assert_true(num_checked > NUM_PLANS / 4 && counts[TPP_SCHEDULE_1F1B] > 50 && counts[TPP_SCHEDULE_INTERLEAVED] > 50 &&
                counts[TPP_SCHEDULE_ZB_V] + counts[TPP_SCHEDULE_ZB_H2] > 10);
}

static double step_seconds(const struct plan *plan, const struct tpp_simulation_options *options)
{
    struct tpp_cost cost;
    struct tpp_simulation_result result;
    return simulate(plan, options, &cost, &result) ? result.step_seconds : 0;
}

static void stragglers_only_ever_delay(void **state)
{
    (void)state;
    uint32_t num_checked = 0;
    for (uint64_t seed = 1; seed <= NUM_PLANS / 6; seed++) {
        struct tpp_random random = {seed};
        struct plan plan;
        struct tpp_simulation_options options = tpp_simulation_options_defaults();
        if (!make_plan(&random, fast_ports, &plan))
            continue;
        const double healthy = step_seconds(&plan, &options);
        if (healthy == 0)
            continue;
        options.slow_gpu.stage = options.slow_nic.stage =
            (uint32_t)tpp_random_range(&random, 0, plan.strategy.pipeline_parallel - 1);
        options.slow_gpu.slowdown = tpp_random_uniform(&random, 1.05, 2);
        const double slow_gpu = step_seconds(&plan, &options);
        /* Later compute can make two transfers miss each other: a hair of time may come back. */
        assert_true(slow_gpu > healthy * 0.999 && slow_gpu < healthy * options.slow_gpu.slowdown * 1.01);
        /* A healthy pipeline beside the slow one waits for it and changes nothing; on PCIe, where everything meets, transfers
         * that wait meet others. */
        options.num_replicas = 2;
        CHECK_NUMBER(step_seconds(&plan, &options), slow_gpu, plan.hardware.node.has_nvlink ? 0.005 : 0.05);
        options = tpp_simulation_options_defaults();
        options.slow_nic.slowdown = tpp_random_uniform(&random, 1.5, 20);
        assert_true(step_seconds(&plan, &options) > healthy * 0.999);
        num_checked++;
    }
    assert_true(num_checked > NUM_PLANS / 20);
}

static void jitter_is_repeatable_and_costs_time(void **state)
{
    (void)state;
    uint32_t num_checked = 0;
    for (uint64_t seed = 1; seed <= NUM_PLANS / 6; seed++) {
        struct tpp_random random = {seed};
        struct plan plan;
        struct tpp_simulation_options options = tpp_simulation_options_defaults();
        if (!make_plan(&random, fast_ports, &plan) || plan.strategy.tensor_parallel < 4)
            continue;
        const double healthy = step_seconds(&plan, &options);
        if (healthy == 0)
            continue;
        options.jitter_fraction = 0.05;
        options.seed = seed;
        const double first = step_seconds(&plan, &options), again = step_seconds(&plan, &options);
        assert_true(first == again && first > healthy);
        options.seed++;
        assert_true(step_seconds(&plan, &options) != first);
        num_checked++;
    }
    assert_true(num_checked > NUM_PLANS / 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comparable_mode_agrees_with_the_closed_forms),
        cmocka_unit_test(comparable_mode_is_the_schedule_of_the_plan),
        cmocka_unit_test(events_agree_where_nothing_overlaps),
        cmocka_unit_test(vocabulary_passes_agree_with_the_closed_form),
        cmocka_unit_test(events_agree_with_the_closed_forms_of_overlap),
        cmocka_unit_test(long_steps_are_periodic),
        cmocka_unit_test(stragglers_only_ever_delay),
        cmocka_unit_test(jitter_is_repeatable_and_costs_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
