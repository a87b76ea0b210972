/* property_configurations.c - random plans for the frameworks that are configured by a file: either an error with a
 * reason, or a file that reads back as the same plan and breaks no rule. */
#include "hwprofiles/profiles.h"
#include "planner/launch/config/configurations.h"
#include "tests/support/launch_case.h"
#include "tests/support/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define NUM_CASES 6000
#define MIN_WRITTEN 400

typedef enum tpp_code write_function(const struct tpp_launch_request *request, struct tpp_text *out,
                                     struct tpp_error *err);

static uint32_t pick(struct tpp_random *random, const uint32_t *values, size_t count)
{
    return values[tpp_random_range(random, 0, count - 1)];
}
#define PICK(...)                                                                                                      \
    pick(random, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void random_strategy(struct tpp_random *random, struct launch_case *c)
{
    struct tpp_strategy *s = &c->strategy;
    *s = tpp_strategy_defaults();
    s->tensor_parallel = PICK(1, 2, 4, 8);
    s->pipeline_parallel = PICK(1, 1, 2, 4);
    s->virtual_pipeline_stages = s->pipeline_parallel > 1 ? PICK(1, 1, 2, 4) : 1;
    s->context_parallel = PICK(1, 1, 2, 4);
    s->context_kind = s->context_parallel > 1 ? (enum tpp_context_kind)PICK(0, 1, 2) : TPP_CONTEXT_RING;
    s->sequence_parallel = s->tensor_parallel > 1 && PICK(0, 1, 1) == 1;
    s->micro_batch_size = PICK(1, 2, 4);
    s->recompute = (enum tpp_recompute)PICK(0, 1, 2);
    s->recompute_method =
        s->recompute == TPP_RECOMPUTE_FULL && PICK(0, 0, 1) == 1 ? TPP_RECOMPUTE_BLOCK : TPP_RECOMPUTE_UNIFORM;
    s->recompute_num_layers = s->recompute_method == TPP_RECOMPUTE_BLOCK ? 2 : 0;
    s->account_for_embedding = s->pipeline_parallel > 1 && PICK(0, 0, 1) == 1;
    s->account_for_loss = s->account_for_embedding;
    s->offload = (enum tpp_offload)PICK(0, 0, 0, 1);
    s->tp_comm_overlap = s->tensor_parallel > 1 && PICK(0, 0, 1) == 1;
    if (s->pipeline_parallel > 1 && s->virtual_pipeline_stages == 1 && PICK(0, 0, 1) == 1)
        s->schedule = TPP_SCHEDULE_GPIPE;
    if (s->virtual_pipeline_stages == 2 && PICK(0, 1) == 1)
        s->schedule = PICK(0, 1) == 1 ? TPP_SCHEDULE_ZB_V : TPP_SCHEDULE_DUALPIPEV;
    s->first_stage_layers = PICK(0, 0, 0, 0, 3);
    if (c->model.num_experts > 0) {
        s->expert_parallel = PICK(1, 1, 2, 4);
        s->expert_tensor_parallel = PICK(1, s->tensor_parallel);
    }
}

static void random_case(struct tpp_random *random, enum tpp_framework framework, struct launch_case *c)
{
    launch_case_init(c);
    assert_int_equal(tpp_hardware_find("dgx-h100", &c->hardware, NULL), TPP_OK);
    c->model.num_layers = PICK(30, 31, 32, 48);
    c->model.qkv_bias = PICK(0, 1) == 1;
    c->model.tied_embeddings = PICK(0, 1) == 1;
    if (PICK(0, 0, 1) == 1) {
        c->model.num_experts = 8;
        c->model.experts_per_token = 2;
        c->model.moe_ffn_hidden_size = 14336;
        c->model.ffn_hidden_size = 0;
        c->model.moe_layer_period = 1;
    }
    random_strategy(random, c);
    c->job.precision = (enum tpp_precision)PICK(0, 0, 2, 3);
    tpp_stack_defaults(framework, &c->hardware.gpu, &c->job, &c->stack);
    if (framework == TPP_FRAMEWORK_TORCHTITAN) {
        const uint32_t ranks = 64 / (c->strategy.tensor_parallel * c->strategy.pipeline_parallel);
        c->strategy.zero_stage = 3;
        c->strategy.reshard_after_forward = PICK(0, 1) == 1;
        c->strategy.shard_group = PICK(0, 0, 1) == 1 && ranks >= 8 ? ranks / 2 : 0;
    } else if (PICK(0, 1) == 1) {
        c->strategy.zero_stage = 1;
        c->stack.engine = TPP_ENGINE_MEGATRON;
        tpp_stack_set_dtypes(&c->stack, &c->job);
    }
    c->strategy.overlap_param_gather = c->strategy.zero_stage > 0;
}

static struct tpp_configuration_reading read_text(const struct launch_case *c, enum tpp_config_format format,
                                                  const struct tpp_model *model, const char *text,
                                                  struct tpp_problems *problems)
{
    struct tpp_config *config;
    struct tpp_error err = {.code = TPP_OK};
    const struct tpp_configuration *configuration;
    struct tpp_configuration_reading reading;
    assert_int_equal(tpp_config_read(text, strlen(text), "file", format, &config, &err), TPP_OK);
    assert_int_equal(tpp_configuration_find(config, "file", &configuration, &err), TPP_OK);
    assert_int_equal(configuration->framework, c->stack.framework);
    const struct tpp_configuration_request request = {
        .config = config, .hardware = &c->hardware, .model = model, .name = "file", .world_size = c->job.num_gpus};
    if (configuration->read(&request, &reading, problems, &err) != TPP_OK)
        fail_msg("%s: %s", err.where, err.message);
    tpp_configuration_judge(configuration, &reading, problems);
    reading.config = NULL;
    tpp_config_free(config);
    return reading;
}

static void check_same(const struct launch_case *c, const struct tpp_configuration_reading *reading)
{
    struct tpp_text before, after;
    struct tpp_strategy read = reading->plan.strategy, written = c->strategy;
    tpp_text_init(&before);
    tpp_text_init(&after);
    if (c->model.num_experts == 0)
        read.expert_tensor_parallel = written.expert_tensor_parallel;
    tpp_strategy_format(&written, &before);
    tpp_strategy_format(&read, &after);
    assert_string_equal(tpp_text_get(&after), tpp_text_get(&before));
    assert_int_equal(tpp_strategy_compare(&read, &written), 0);
    tpp_text_release(&before);
    tpp_text_release(&after);
    assert_int_equal(reading->plan.job.global_batch_size, c->job.global_batch_size);
    assert_int_equal(reading->plan.job.sequence_length, c->job.sequence_length);
    assert_int_equal(reading->plan.job.precision, c->job.precision);
    assert_int_equal(reading->plan.job.num_gpus, c->job.num_gpus);
    assert_int_equal(reading->plan.stack.engine, c->stack.engine);
    assert_true(reading->is_world_known && reading->has_plan);
}

static void check_model(const struct tpp_model *read, const struct tpp_model *model)
{
    struct tpp_model_counts a, b;
    tpp_model_count(read, &a);
    tpp_model_count(model, &b);
    assert_int_equal(a.total, b.total);
    assert_int_equal(a.active, b.active);
    assert_int_equal(read->num_query_groups, model->num_query_groups);
    assert_true(read->rope_theta == model->rope_theta && read->norm_epsilon == model->norm_epsilon);
}

static void check_framework(enum tpp_framework framework, write_function *write, enum tpp_config_format format)
{
    struct tpp_random random = {20261129};
    struct launch_case c;
    unsigned num_written = 0;
    for (unsigned i = 0; i < NUM_CASES; i++) {
        struct tpp_text text;
        struct tpp_error err = {.code = TPP_OK};
        struct tpp_problems problems = {0};
        random_case(&random, framework, &c);
        if (tpp_strategy_complete(&c.strategy, &c.job, NULL) != TPP_OK ||
            tpp_strategy_check(&c.strategy, &c.model, &c.job, &c.stack, NULL) != TPP_OK)
            continue;
        tpp_text_init(&text);
        const enum tpp_code code = write(&c.request, &text, &err);
        if (code != TPP_OK) {
            assert_true(code == TPP_E_UNSUPPORTED || code == TPP_E_STRATEGY);
            assert_true(err.message[0] != '\0' && err.where[0] != '\0' && err.hint[0] != '\0' && text.length == 0);
        } else {
            const struct tpp_model *given = framework == TPP_FRAMEWORK_TORCHTITAN ? &c.model : NULL;
            const struct tpp_configuration_reading reading =
                read_text(&c, format, given, tpp_text_get(&text), &problems);
            for (size_t k = 0; k < problems.count; k++)
                fail_msg("%s: %s\n%s", problems.items[k].code, problems.items[k].message, tpp_text_get(&text));
            check_same(&c, &reading);
            check_model(&reading.plan.model, &c.model);
            num_written++;
        }
        tpp_text_release(&text);
        tpp_problems_release(&problems);
    }
    if (num_written < MIN_WRITTEN)
        fail_msg("%u of %u plans were written", num_written, NUM_CASES);
}

static void test_a_plan_for_torchtitan_reads_back_equal(void **state)
{
    (void)state;
    check_framework(TPP_FRAMEWORK_TORCHTITAN, tpp_torchtitan_write, TPP_CONFIG_TOML);
}

static void test_a_plan_for_nanotron_reads_back_equal(void **state)
{
    (void)state;
    check_framework(TPP_FRAMEWORK_NANOTRON, tpp_nanotron_write, TPP_CONFIG_YAML);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plan_for_torchtitan_reads_back_equal),
        cmocka_unit_test(test_a_plan_for_nanotron_reads_back_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
