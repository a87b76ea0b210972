/* The trees of --explain: every term once, and the leaves sum to the total. */
#include "cli/explain.h"

#include "tests/support/check_number.h"
#include "costmodel/base/json_read.h"

#include <stdio.h>
#include <string.h>

/* Powers of two, so that every sum is exact and tells which terms are in it. */
static void make_cost(struct tpp_cost *cost)
{
    memset(cost, 0, sizeof *cost);
    for (int i = 0; i < TPP_TIME_TERM_COUNT; i++)
        cost->time_terms[i] = (double)(UINT64_C(1) << i);
    cost->step_seconds = (double)((UINT64_C(1) << TPP_TIME_TERM_COUNT) - 1);
    for (int i = 0; i < TPP_MEMORY_TERM_COUNT; i++)
        cost->memory.terms[i] = (double)(UINT64_C(1) << (20 + i));
    cost->memory.device_total_bytes = (double)(((UINT64_C(1) << TPP_MEMORY_TERM_COUNT) - 1) * (UINT64_C(1) << 20));
}

/* Sum of the leaves below `node`; checks that every node is the sum of its children. */
static double check_sums(struct tpp_json node, const char *unit, unsigned *num_leaves)
{
    struct tpp_json children, child;
    double value = -1, sum = 0;
    assert_int_equal(tpp_json_need_number(node, unit, 0, 1e300, &value, NULL), TPP_OK);
    if (!tpp_json_member(node, "children", &children)) {
        ++*num_leaves;
        return value;
    }
    for (size_t i = 0; tpp_json_at(children, i, &child, NULL); i++)
        sum += check_sums(child, unit, num_leaves);
    assert_true(sum == value);
    return sum;
}

static void leaves_sum_to_the_total(void **state)
{
    struct tpp_cost cost;
    struct tpp_json_writer writer;
    struct tpp_text text;
    struct tpp_json_document *document;
    struct tpp_json explain, tree;
    unsigned num_leaves = 0;
    (void)state;
    make_cost(&cost);
    tpp_text_init(&text);
    tpp_json_writer_init(&writer);
    tpp_explain_add_json(&cost, &writer, writer.root);
    assert_int_equal(tpp_json_print(&writer, &text, NULL), TPP_OK);
    assert_int_equal(tpp_json_parse(tpp_text_get(&text), text.length, "explain", &document, NULL), TPP_OK);
    assert_true(tpp_json_member(tpp_json_root(document), "explain", &explain));
    assert_true(tpp_json_member(explain, "time", &tree));
    assert_true(check_sums(tree, "seconds", &num_leaves) == cost.step_seconds);
    assert_int_equal(num_leaves, TPP_TIME_TERM_COUNT);
    assert_true(tpp_json_member(explain, "memory", &tree));
    num_leaves = 0;
    assert_true(check_sums(tree, "bytes", &num_leaves) == cost.memory.device_total_bytes);
    assert_int_equal(num_leaves, TPP_MEMORY_TERM_COUNT);
    tpp_json_document_free(document);
    tpp_json_writer_release(&writer);
    tpp_text_release(&text);
}

static void text_names_every_term_that_is_not_zero(void **state)
{
    struct tpp_cost cost;
    struct tpp_text text;
    (void)state;
    make_cost(&cost);
    cost.time_terms[TPP_TIME_OFFLOAD] = 0;
    tpp_text_init(&text);
    tpp_explain_append(&cost, &text);
    for (int i = 0; i < TPP_TIME_TERM_COUNT; i++) {
        char line[80];
        snprintf(line, sizeof line, "\n    %s ", tpp_time_term_name((enum tpp_time_term)i));
        assert_int_equal(strstr(tpp_text_get(&text), line) != NULL, i != TPP_TIME_OFFLOAD);
    }
    tpp_text_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_sum_to_the_total),
        cmocka_unit_test(text_names_every_term_that_is_not_zero),
    };
    return cmocka_run_group_tests_name("explain", tests, NULL, NULL);
}
