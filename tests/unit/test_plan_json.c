/* The JSON of a plan has every key of the contract, under its name and with its type. */
#include "cli/plan_json.h"
#include "costmodel/base/json_read.h"

#include "tests/support/check_number.h"

#include <stdio.h>
#include <string.h>

/* name:type, type n number, s text, b boolean, o object */
static const char *const plan_keys[] = {
    "rank:n",
    "strategy:o",
    "step_seconds:n",
    "step_seconds_low:n",
    "step_seconds_high:n",
    "tokens_per_second_per_gpu:n",
    "model_flops_per_second_per_gpu:n",
    "model_flops_utilization:n",
    "bubble_fraction:n",
    "exposed_communication_fraction:n",
    "memory:o",
    NULL,
};
static const char *const strategy_keys[] = {
    "tensor_parallel:n",
    "pipeline_parallel:n",
    "virtual_pipeline_stages:n",
    "context_parallel:n",
    "expert_parallel:n",
    "data_parallel:n",
    "zero_stage:n",
    "micro_batch_size:n",
    "num_micro_batches:n",
    "sequence_parallel:b",
    "recompute:s",
    "schedule:s",
    "reduce_bucket_size:n",
    "allgather_bucket_size:n",
    NULL,
};
static const char *const memory_keys[] = {
    "fits:b",
    "peak_allocated_bytes:n",
    "peak_reserved_bytes:n",
    "device_total_bytes:n",
    "capacity_bytes:n",
    "fragmentation_fraction:n",
    "out_of_memory_probability:n",
    "worst_stage:n",
    "terms:o",
    NULL,
};

static void check_keys(struct tpp_json object, const char *const *keys)
{
    for (size_t i = 0; keys[i] != NULL; i++) {
        char name[64];
        struct tpp_json member;
        const size_t length = strcspn(keys[i], ":");
        snprintf(name, sizeof name, "%.*s", (int)length, keys[i]);
        if (!tpp_json_member(object, name, &member))
            fail_msg("\"%s\" is missing", name);
        const char type = tpp_json_is_number(member)   ? 'n'
                          : tpp_json_is_string(member) ? 's'
                          : tpp_json_is_bool(member)   ? 'b'
                          : tpp_json_is_object(member) ? 'o'
                                                       : '?';
        if (type != keys[i][length + 1])
            fail_msg("\"%s\" has the wrong type", name);
    }
}

struct printed {
    struct tpp_json_writer writer;
    struct tpp_text text;
    struct tpp_json_document *document;
};

static struct tpp_json print_plan(struct printed *printed, const struct tpp_strategy *strategy,
                                  const struct tpp_cost *cost)
{
    tpp_text_init(&printed->text);
    tpp_json_writer_init(&printed->writer);
    tpp_plan_add_json(3, strategy, cost, &printed->writer, printed->writer.root);
    assert_int_equal(tpp_json_print(&printed->writer, &printed->text, NULL), TPP_OK);
    assert_int_equal(
        tpp_json_parse(tpp_text_get(&printed->text), printed->text.length, "plan", &printed->document, NULL), TPP_OK);
    return tpp_json_root(printed->document);
}

static void release(struct printed *printed)
{
    tpp_json_document_free(printed->document);
    tpp_json_writer_release(&printed->writer);
    tpp_text_release(&printed->text);
}

static void a_plan_has_the_keys_of_the_contract(void **state)
{
    struct printed printed;
    struct tpp_cost cost;
    struct tpp_json member;
    const struct tpp_strategy strategy = tpp_strategy_defaults();
    (void)state;
    memset(&cost, 0, sizeof cost);
    const struct tpp_json plan = print_plan(&printed, &strategy, &cost);
    check_keys(plan, plan_keys);
    assert_true(tpp_json_member(plan, "strategy", &member));
    check_keys(member, strategy_keys);
    assert_true(tpp_json_member(plan, "memory", &member));
    check_keys(member, memory_keys);
    release(&printed);
}

static void values_are_those_of_the_plan(void **state)
{
    struct printed printed;
    struct tpp_cost cost;
    struct tpp_json memory, strategy_json, terms;
    double number = 0;
    const char *text;
    bool fits = true;
    struct tpp_strategy strategy = tpp_strategy_defaults();
    (void)state;
    memset(&cost, 0, sizeof cost);
    strategy.pipeline_parallel = 7;
    strategy.recompute = TPP_RECOMPUTE_SELECTIVE;
    cost.step_seconds = 0.1 + 0.2;
    cost.memory.fit = TPP_FIT_DOES_NOT_FIT;
    cost.memory.terms[TPP_MEMORY_LOGITS] = 913e6;
    const struct tpp_json plan = print_plan(&printed, &strategy, &cost);
    assert_int_equal(tpp_json_need_number(plan, "step_seconds", 0, 1, &number, NULL), TPP_OK);
    assert_true(number == 0.1 + 0.2); /* to the last bit */
    assert_true(tpp_json_member(plan, "strategy", &strategy_json));
    assert_true(tpp_json_member(plan, "memory", &memory));
    assert_int_equal(tpp_json_need_number(strategy_json, "pipeline_parallel", 0, 99, &number, NULL), TPP_OK);
    assert_true(number == 7);
    assert_int_equal(tpp_json_need_string(strategy_json, "recompute", &text, NULL), TPP_OK);
    assert_string_equal(text, "selective");
    assert_int_equal(tpp_json_get_bool(memory, "fits", &fits, NULL), TPP_OK);
    assert_false(fits);
    assert_true(tpp_json_member(memory, "terms", &terms));
    assert_int_equal(tpp_json_size(terms), TPP_MEMORY_TERM_COUNT);
    assert_int_equal(tpp_json_need_number(terms, tpp_memory_term_name(TPP_MEMORY_LOGITS), 0, 1e12, &number, NULL),
                     TPP_OK);
    assert_true(number == 913e6);
    release(&printed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_has_the_keys_of_the_contract),
        cmocka_unit_test(values_are_those_of_the_plan),
    };
    return cmocka_run_group_tests_name("plan_json", tests, NULL, NULL);
}
