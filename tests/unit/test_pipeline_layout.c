/* The layout string and back, what is refused, and proposed splits by hand and against all splits of small cases. */
#include "costmodel/pipeline_layout.h"
#include "tests/support/check_number.h"
#include "tests/support/random.h"

#include <string.h>

enum { MAX_LAYOUT = 64 };

static struct tpp_layout_chunk chunks[MAX_LAYOUT];

static uint32_t parse(const char *text)
{
    struct tpp_error err = {0};
    uint32_t count;
    if (tpp_pipeline_layout_parse(text, chunks, MAX_LAYOUT, &count, &err) != TPP_OK)
        fail_msg("%s: %s", text, err.message);
    return count;
}

static void expect_text(const struct tpp_layout_chunk *some, uint32_t count, const char *expected)
{
    struct tpp_text text;
    tpp_text_init(&text);
    tpp_pipeline_layout_format(some, count, &text);
    assert_string_equal(tpp_text_get(&text), expected);
    tpp_text_release(&text);
}

/* launch-formats 1.4 item 8: "Et*3|(tt|)*29,m|L" has 32 stages: 1 + 29 + 1 + 1, and 3 + 58 layers. */
static void the_documented_layout_is_read(void **state)
{
    (void)state;
    assert_int_equal(parse("Et*3|(tt|)*29,m|L"), 32);
    assert_true(chunks[0].has_embedding && chunks[0].num_layers == 3);
    assert_true(chunks[1].num_layers == 2 && chunks[29].num_layers == 2);
    assert_true(chunks[30].num_layers == 0 && chunks[30].num_mtp_layers == 1 && !chunks[30].has_loss);
    assert_true(chunks[31].has_loss && chunks[31].num_layers == 0);
    expect_text(chunks, 32, "Et*3|(tt|)*29m|L");
}

static void every_form_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *text, *again;
        uint32_t num_chunks;
    } cases[] = {
        {"EtL", "EtL", 1},
        {"E,t,t,t|t*4,L", "Et*3|t*4L", 2},
        {"E||ttL", "E||ttL", 3},
        {"E|*3ttmL", "E|(|)*2ttmL", 4},
        {"E(t*2|)*2(t)*3L", "Ett|tt|t*3L", 3},
        {"(Et|)*1t*5|t*5|t*5|tL", "Et|(t*5|)*3tL", 5},
        {"Ett|tt|tt|ttmmL", "Ett|(tt|)*2ttmmL", 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(parse(cases[i].text), cases[i].num_chunks);
        expect_text(chunks, cases[i].num_chunks, cases[i].again);
    }
}

static void expect_refused(const char *text, enum tpp_code code, const char *message)
{
    struct tpp_error err = {0};
    uint32_t count;
    assert_int_equal(tpp_pipeline_layout_parse(text, chunks, MAX_LAYOUT, &count, &err), code);
    if (!strstr(err.message, message))
        fail_msg("%s: \"%s\" does not say \"%s\"", text, err.message, message);
    assert_int_equal(count, 0);
}

static void what_is_no_layout_is_refused(void **state)
{
    (void)state;
    expect_refused("Et|xL", TPP_E_SYNTAX, "character 4");
    expect_refused("Et*|L", TPP_E_SYNTAX, "a star without a number");
    expect_refused("Et*0|L", TPP_E_SYNTAX, "a star without a number");
    expect_refused("Et*99999999999999999999|L", TPP_E_SYNTAX, "a star without a number");
    expect_refused("E(t|*3L", TPP_E_SYNTAX, "without its end");
    expect_refused("E(t|)L", TPP_E_SYNTAX, "without a star");
    expect_refused("E()*3tL", TPP_E_SYNTAX, "an empty group");
    expect_refused("E((t|)*2)*2L", TPP_E_SYNTAX, "neither E, t, m, L nor |");
    expect_refused("E(t*1000000)*1000000|L", TPP_E_SYNTAX, "2^20 items");
    expect_refused("E(,,)*1000000|L", TPP_E_SYNTAX, "2^20 items");
    expect_refused("E|*70L", TPP_E_STRATEGY, "more than 64 stages");
    expect_refused("", TPP_E_STRATEGY, "no embedding");
    expect_refused("tt|L", TPP_E_STRATEGY, "no embedding");
    expect_refused("Et|t", TPP_E_STRATEGY, "no loss");
    expect_refused("EtL|", TPP_E_STRATEGY, "no loss");
    expect_refused("EtL|t", TPP_E_STRATEGY, "follows the loss");
    expect_refused("Em|tL", TPP_E_STRATEGY, "follows a multi-token-prediction layer");
    expect_refused("tE|L", TPP_E_STRATEGY, "not the first item");
    expect_refused("Et|EL", TPP_E_STRATEGY, "not the only one");
}

static void random_layouts_read_back_equal(void **state)
{
    (void)state;
    struct tpp_random random = {20250611};
    for (int i = 0; i < 500; i++) {
        struct tpp_layout_chunk made[MAX_LAYOUT] = {0};
        const uint32_t count = (uint32_t)tpp_random_range(&random, 1, MAX_LAYOUT);
        for (uint32_t g = 0; g < count; g++)
            made[g].num_layers = (uint32_t)tpp_random_range(&random, 0, i % 2 ? 1 : 5);
        made[0].has_embedding = made[count - 1].has_loss = true;
        made[count - 1].num_mtp_layers = (uint32_t)tpp_random_range(&random, 0, 4);
        struct tpp_text text;
        tpp_text_init(&text);
        tpp_pipeline_layout_format(made, count, &text);
        assert_int_equal(parse(tpp_text_get(&text)), count);
        for (uint32_t g = 0; g < count; g++)
            assert_true(chunks[g].num_layers == made[g].num_layers &&
                        chunks[g].has_embedding == made[g].has_embedding &&
                        chunks[g].num_mtp_layers == made[g].num_mtp_layers && chunks[g].has_loss == made[g].has_loss);
        tpp_text_release(&text);
    }
}

static struct tpp_layer_split propose(uint32_t num_layers, uint32_t p, uint32_t v, double embedding, double head,
                                      bool allows_layout)
{
    const struct tpp_layer_split_request request = {
        .num_layers = num_layers,
        .pipeline_parallel = p,
        .virtual_pipeline_stages = v,
        .layer_seconds = 1,
        .embedding_seconds = embedding,
        .head_seconds = head,
        .allows_layout = allows_layout,
    };
    struct tpp_layer_split split;
    struct tpp_error err;
    if (tpp_layer_split_propose(&request, &split, chunks, &err) != TPP_OK)
        fail_msg("%s", err.message);
    return split;
}

static void layers_that_divide_stay_even(void **state)
{
    (void)state;
    assert_int_equal(propose(64, 4, 2, 0.1, 0.2, true).kind, TPP_LAYER_SPLIT_EVEN);
    expect_text(chunks, 8, "Et*8|(t*8|)*6t*8L");
    assert_int_equal(propose(30, 1, 1, 0.1, 0.7, true).kind, TPP_LAYER_SPLIT_EVEN);
}

/* DeepSeek-Coder-33B: 62 layers. On 4 stages 64 slots, 16 each; on 2, 31 + 0.1 and 31 + 1.5 against 32 + 0.1 and 30
 * + 1.5. */
static void sixty_two_layers_are_balanced(void **state)
{
    (void)state;
    struct tpp_layer_split split = propose(62, 4, 1, 0.9, 0.95, true);
    assert_int_equal(split.kind, TPP_LAYER_SPLIT_ACCOUNT);
    assert_true(split.account_for_embedding && split.account_for_loss);
    CHECK_NUMBER(split.slowest_seconds, 16, 1e-12);
    split = propose(62, 2, 1, 0.1, 1.5, true);
    assert_int_equal(split.kind, TPP_LAYER_SPLIT_ENDS);
    assert_int_equal(split.first_stage_layers, 32);
    assert_int_equal(split.last_stage_layers, 30);
    CHECK_NUMBER(split.slowest_seconds, 32.1, 1e-12);
    struct tpp_strategy strategy = tpp_strategy_defaults();
    strategy.pipeline_parallel = 2;
    assert_true(tpp_layer_split_apply(&split, &strategy));
    assert_int_equal(tpp_strategy_chunk_layers(&strategy, 62, 0, 0), 32);
}

/* Llama-3 405B: 126 layers on 16 stages, one less on the first and the last. */
static void the_layers_of_llama_405b_are_split_as_published(void **state)
{
    (void)state;
    const struct tpp_layer_split split = propose(126, 16, 1, 0.2, 1.2, true);
    assert_int_equal(split.kind, TPP_LAYER_SPLIT_ACCOUNT);
    CHECK_NUMBER(split.slowest_seconds, 8.2, 1e-12);
    expect_text(chunks, 16, "Et*7|(t*8|)*14t*7L");
}

/* 22 layers on 8 stages of 2 chunks: end counts in twos leave 6 layers on one end (2 * 6 between, 4 + 6); a layout has
 * 3 at most. */
static void a_layout_string_helps_where_counts_do_not(void **state)
{
    (void)state;
    struct tpp_layer_split split = propose(22, 8, 2, 0, 0, false);
    assert_int_equal(split.kind, TPP_LAYER_SPLIT_ENDS);
    CHECK_NUMBER(split.slowest_seconds, 6, 1e-12);
    CHECK_NUMBER(split.best_seconds, 3, 1e-12);
    split = propose(22, 8, 2, 0, 0, true);
    assert_int_equal(split.kind, TPP_LAYER_SPLIT_LAYOUT);
    CHECK_NUMBER(split.slowest_seconds, 3, 1e-12);
    expect_text(chunks, 16, "Ett|(tt|)*5(t|)*9tL");
    struct tpp_strategy strategy = tpp_strategy_defaults();
    assert_false(tpp_layer_split_apply(&split, &strategy));
    split = propose(3, 8, 1, 0, 0, false); /* fewer layers than stages */
    assert_int_equal(split.kind, TPP_LAYER_SPLIT_NONE);
    assert_false(tpp_layer_split_apply(&split, &strategy));
}

static double stage_seconds(const struct tpp_layer_split_request *request, uint32_t stage, uint32_t layers)
{
    return layers * request->layer_seconds + (stage == 0 ? request->embedding_seconds : 0) +
           (stage + 1 == request->pipeline_parallel
                ? request->head_seconds + request->num_mtp_layers * request->mtp_layer_seconds
                : 0);
}

/* Shortest slowest stage of all ways to put the layers on stages `stage` and up. */
static double search_all(const struct tpp_layer_split_request *request, uint32_t stage, uint32_t layers)
{
    if (stage + 1 == request->pipeline_parallel)
        return stage_seconds(request, stage, layers);
    double best = INFINITY;
    for (uint32_t here = 0; here <= layers; here++)
        best = fmin(best, fmax(stage_seconds(request, stage, here), search_all(request, stage + 1, layers - here)));
    return best;
}

static void check_chunks(const struct tpp_layer_split_request *request, const struct tpp_layer_split *split)
{
    const uint32_t p = request->pipeline_parallel, v = request->virtual_pipeline_stages;
    uint32_t total = 0, on_stage[8] = {0};
    double slowest = 0;
    for (uint32_t g = 0; g < p * v; g++) {
        on_stage[g % p] += chunks[g].num_layers;
        total += chunks[g].num_layers;
    }
    for (uint32_t r = 0; r < p; r++)
        slowest = fmax(slowest, stage_seconds(request, r, on_stage[r]));
    assert_int_equal(total, request->num_layers);
    CHECK_NUMBER(split->slowest_seconds, slowest, 1e-9);
}

static void no_split_is_shorter_than_the_proposed_layout(void **state)
{
    (void)state;
    struct tpp_random random = {20250612};
    for (int i = 0; i < 300; i++) {
        const struct tpp_layer_split_request request = {
            .num_layers = (uint32_t)tpp_random_range(&random, 1, 14),
            .num_mtp_layers = (uint32_t)tpp_random_range(&random, 0, 2),
            .pipeline_parallel = (uint32_t)tpp_random_range(&random, 1, 5),
            .virtual_pipeline_stages = (uint32_t)tpp_random_range(&random, 1, 3),
            .layer_seconds = tpp_random_uniform(&random, 0.01, 0.02),
            .mtp_layer_seconds = tpp_random_uniform(&random, 0.01, 0.03),
            .embedding_seconds = tpp_random_uniform(&random, 0, 0.03),
            .head_seconds = tpp_random_uniform(&random, 0, 0.06),
            .allows_layout = true,
        };
        struct tpp_layer_split split;
        assert_int_equal(tpp_layer_split_propose(&request, &split, chunks, NULL), TPP_OK);
        CHECK_NUMBER(split.best_seconds, search_all(&request, 0, request.num_layers), 1e-9);
        CHECK_NUMBER(split.slowest_seconds, split.best_seconds, 2e-9);
        check_chunks(&request, &split);
        struct tpp_layer_split_request plain = request;
        plain.allows_layout = false;
        assert_int_equal(tpp_layer_split_propose(&plain, &split, chunks, NULL), TPP_OK);
        assert_true(split.slowest_seconds >= split.best_seconds * (1 - 1e-9));
        if (split.kind != TPP_LAYER_SPLIT_NONE)
            check_chunks(&plain, &split);
    }
}

static void sizes_and_times_of_no_pipeline_are_refused(void **state)
{
    (void)state;
    struct tpp_layer_split_request request = {
        .num_layers = 8, .pipeline_parallel = 0, .virtual_pipeline_stages = 1, .layer_seconds = 1};
    struct tpp_layer_split split;
    struct tpp_error err;
    assert_int_equal(tpp_layer_split_propose(&request, &split, NULL, &err), TPP_E_STRATEGY);
    request.pipeline_parallel = 512;
    request.virtual_pipeline_stages = 9;
    assert_int_equal(tpp_layer_split_propose(&request, &split, NULL, &err), TPP_E_STRATEGY);
    request.virtual_pipeline_stages = 1;
    request.num_layers = 0;
    assert_int_equal(tpp_layer_split_propose(&request, &split, NULL, &err), TPP_E_STRATEGY);
    request.num_layers = 8;
    request.head_seconds = -1;
    assert_int_equal(tpp_layer_split_propose(&request, &split, NULL, &err), TPP_E_RANGE);
    request.head_seconds = 0;
    request.layer_seconds = 0;
    assert_int_equal(tpp_layer_split_propose(&request, &split, NULL, &err), TPP_E_RANGE);
    assert_string_equal(err.where, "layer split");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_documented_layout_is_read),
        cmocka_unit_test(every_form_is_read),
        cmocka_unit_test(what_is_no_layout_is_refused),
        cmocka_unit_test(random_layouts_read_back_equal),
        cmocka_unit_test(layers_that_divide_stay_even),
        cmocka_unit_test(sixty_two_layers_are_balanced),
        cmocka_unit_test(the_layers_of_llama_405b_are_split_as_published),
        cmocka_unit_test(a_layout_string_helps_where_counts_do_not),
        cmocka_unit_test(no_split_is_shorter_than_the_proposed_layout),
        cmocka_unit_test(sizes_and_times_of_no_pipeline_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
