#include "costmodel/model/model.h"
#include "costmodel/model/presets.h"
#include "tests/support/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* An odd little Llama: 3 layers, h 40, 6 heads of 7 in 2 groups, f 104, V 211. */
static struct tpp_model small_model(void)
{
    return (struct tpp_model){.name = "small",
                              .family = "llama",
                              .num_layers = 3,
                              .hidden_size = 40,
                              .num_attention_heads = 6,
                              .num_query_groups = 2,
                              .head_dim = 7,
                              .ffn_hidden_size = 104,
                              .gated_mlp = true,
                              .vocab_size = 211,
                              .position = TPP_POSITION_ROPE,
                              .rope_theta = 10000,
                              .rotary_fraction = 1,
                              .norms_per_layer = 2,
                              .final_norm = true,
                              .activation = TPP_ACTIVATION_SILU};
}

static struct tpp_model small_experts(void)
{
    struct tpp_model model = small_model();
    model.num_layers = 5;
    model.num_experts = 9;
    model.experts_per_token = 2;
    model.moe_ffn_hidden_size = 24;
    model.shared_expert_hidden_size = 48;
    model.first_k_dense = 1;
    model.moe_layer_period = 1;
    return model;
}

static struct tpp_model small_latent(void)
{
    struct tpp_model model = small_model();
    model.num_query_groups = 6;
    model.q_lora_rank = 15;
    model.kv_lora_rank = 11;
    model.qk_nope_head_dim = 5;
    model.qk_rope_head_dim = 2;
    model.v_head_dim = 4;
    return model;
}

static struct tpp_model_counts count(struct tpp_model model)
{
    struct tpp_model_counts counts;
    struct tpp_error err;
    if (tpp_model_check(&model, &err) != TPP_OK)
        fail_msg("%s (%s)", err.message, err.where);
    tpp_model_count(&model, &counts);
    return counts;
}

/* qkv 40 (6 + 2*2) 7 = 2800, output 42*40 = 1680, MLP 3*40*104 = 12480, norms 80: 17040 a layer. */
static void a_dense_layer_is_its_matrices_and_norms(void **state)
{
    (void)state;
    const struct tpp_model_counts counts = count(small_model());
    assert_int_equal(counts.dense_layer, 17040);
    assert_int_equal(counts.moe_layer, 0);
    assert_int_equal(counts.embedding, 8440);
    assert_int_equal(counts.lm_head, 8440);
    assert_int_equal(counts.final_norm, 40);
    assert_int_equal(counts.total, 3 * 17040 + 8440 + 8440 + 40);
    assert_int_equal(counts.active, counts.total);
    assert_int_equal(counts.num_dense_layers, 3);
    assert_int_equal(counts.num_moe_layers, 0);
}

/* Biases: qkv (6+4)*7 = 70, output 40, MLP 2*104 + 40 = 248 gated or 144 not, head 211. */
static void each_bias_counts_once(void **state)
{
    (void)state;
    struct tpp_model model = small_model();
    model.qkv_bias = true;
    assert_int_equal(count(model).dense_layer, 17040 + 70);
    model.output_bias = true;
    assert_int_equal(count(model).dense_layer, 17040 + 110);
    model.mlp_bias = true;
    assert_int_equal(count(model).dense_layer, 17040 + 110 + 248);
    model.gated_mlp = false;
    assert_int_equal(count(model).dense_layer, 17040 + 110 + 144 - 40 * 104);
    model.lm_head_bias = true;
    assert_int_equal(count(model).lm_head, 8440 + 211);
    model.tied_embeddings = true;
    assert_int_equal(count(model).lm_head, 211);
}

static void norms_count_by_kind_and_number(void **state)
{
    (void)state;
    struct tpp_model model = small_model();
    model.norms_per_layer = 4;
    assert_int_equal(count(model).dense_layer, 16960 + 160);
    model.norm = TPP_NORM_LAYER;
    assert_int_equal(count(model).dense_layer, 16960 + 320);
    assert_int_equal(count(model).final_norm, 80);
    model.embedding_norm = true;
    assert_int_equal(count(model).embedding, 8440 + 80);
    model.norm = TPP_NORM_LAYER_NO_BIAS;
    assert_int_equal(count(model).dense_layer, 16960 + 160);
    model.norm = TPP_NORM_NO_PARAMETERS;
    assert_int_equal(count(model).dense_layer, 16960);
    model.final_norm = false;
    model.qk_norm = true;
    model.qk_norm_elements = 14;
    model.attention_sink_elements = 6;
    assert_int_equal(count(model).dense_layer, 16960 + 20);
    assert_int_equal(count(model).final_norm, 0);
}

/* Base 4560 (2800 + 1680 + 80), router 360, one expert 3*40*24 = 2880, shared 5760: 36,600 with 9 experts,
 * 16,440 with 2. Layer 0 is dense: 17040. */
static void a_mixture_of_experts_counts_all_and_active(void **state)
{
    (void)state;
    struct tpp_model model = small_experts();
    struct tpp_model_counts counts = count(model);
    assert_int_equal(counts.moe_layer, 4560 + 360 + 9 * 2880 + 5760);
    assert_int_equal(counts.num_moe_layers, 4);
    assert_int_equal(counts.total, 17040 + 4 * 36600 + 16880 + 40);
    assert_int_equal(counts.active, 17040 + 4 * 16440 + 16880 + 40);
    model.router_bias = true; /* 9 elements of the total, none of the active ones */
    model.shared_expert_gate = true;
    counts = count(model);
    assert_int_equal(counts.moe_layer, 36600 + 9 + 40);
    assert_int_equal(counts.active, 17040 + 4 * 16480 + 16880 + 40);
    model.expert_bias = true; /* 2*24 + 40 = 88 an expert, 2*48 + 40 = 136 shared */
    assert_int_equal(count(model).moe_layer, 36649 + 9 * 88 + 136);
}

/* With r_q: 40*15 + 15 + 15*6*7 = 1245; kv 40*(11+2) + 11 + 11*6*(5+4) = 1125; output 6*4*40 = 960: 3330.
 * Without: 40*6*7 = 1680 for the queries: 3765. */
static void latent_attention_counts_its_projections(void **state)
{
    (void)state;
    struct tpp_model model = small_latent();
    assert_int_equal(count(model).dense_layer, 3330 + 12480 + 80);
    model.qkv_bias = model.output_bias = true; /* 15 + 13, 40 */
    assert_int_equal(count(model).dense_layer, 3330 + 68 + 12480 + 80);
    model.qkv_bias = model.output_bias = false;
    model.q_lora_rank = 0;
    assert_int_equal(count(model).dense_layer, 3765 + 12480 + 80);
}

/* OPT-6.7B (cost model, E1): 32 layers of 12 h^2 + 13 h, 50272 + 2050 rows of h, 2 h. */
static void opt_has_two_position_rows_more(void **state)
{
    (void)state;
    struct tpp_model model = *tpp_model_preset("opt-30b");
    model.num_layers = 32;
    model.hidden_size = 4096;
    model.num_attention_heads = model.num_query_groups = 32;
    model.ffn_hidden_size = 16384;
    assert_int_equal(model.learned_position_rows, 2050);
    assert_int_equal(count(model).total, UINT64_C(6658473984));
}

/* 100352 * 4096 * 2 for embedding and head = 822,083,584; a layer 4 * 4096^2 + 3 * 4096 * 11008 = 202,375,168, norms
 * 8192, norms of q and k 8192: 202,391,552, 32 of them 6,476,529,664; final norm 4096. Norms of one head would save
 * 32 * (8192 - 256) and make 7,298,363,392. */
static void olmo2_norms_all_heads_together(void **state)
{
    (void)state;
    struct tpp_model model = *tpp_model_preset("olmo2-7b");
    assert_int_equal(model.qk_norm_elements, 8192);
    assert_int_equal(count(model).dense_layer, 202391552);
    assert_int_equal(count(model).total, UINT64_C(822083584) + UINT64_C(6476529664) + 4096);
    assert_int_equal(count(model).total, UINT64_C(7298617344));
    model.qk_norm_elements = 256;
    assert_int_equal(count(model).total, UINT64_C(7298363392));
}

static void layers_with_experts_follow_the_pattern(void **state)
{
    (void)state;
    struct tpp_model model = small_experts();
    model.num_layers = 8;
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(tpp_model_layer_is_moe(&model, i), i >= 1);
    model.first_k_dense = 3;
    model.moe_layer_period = 2; /* layers 3, 5, 7 */
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(tpp_model_layer_is_moe(&model, i), i == 3 || i == 5 || i == 7);
    assert_false(tpp_model_layer_is_moe(&model, 9));
    const struct tpp_model dense = small_model();
    assert_false(tpp_model_layer_is_moe(&dense, 1));
}

static void refused(struct tpp_model model, const char *where)
{
    struct tpp_error err;
    assert_int_equal(tpp_model_check(&model, NULL), TPP_E_RANGE);
    assert_int_equal(tpp_model_check(&model, &err), TPP_E_RANGE);
    assert_string_equal(err.where, where);
    assert_true(err.message[0] != '\0');
}

#define REFUSED(make, field, value)                                                                                    \
    do {                                                                                                               \
        struct tpp_model model_ = make();                                                                              \
        model_.field = (value);                                                                                        \
        refused(model_, "model." #field);                                                                              \
    } while (0)

static void sizes_of_zero_or_beyond_reason_are_refused(void **state)
{
    (void)state;
    REFUSED(small_model, num_layers, 0);
    REFUSED(small_model, num_layers, 10001);
    REFUSED(small_model, hidden_size, 0);
    REFUSED(small_model, hidden_size, UINT32_MAX);
    REFUSED(small_model, num_attention_heads, 0);
    REFUSED(small_model, num_query_groups, 0);
    REFUSED(small_model, num_query_groups, 12);
    REFUSED(small_model, num_query_groups, 4); /* does not divide 6 */
    REFUSED(small_model, head_dim, 0);
    REFUSED(small_model, head_dim, 65537);
    REFUSED(small_model, ffn_hidden_size, 0);
    REFUSED(small_model, ffn_hidden_size, UINT32_MAX);
    REFUSED(small_model, vocab_size, 0);
    REFUSED(small_model, vocab_size, UINT32_MAX);
    REFUSED(small_model, max_position_embeddings, UINT32_MAX);
    REFUSED(small_model, norms_per_layer, 9);
    REFUSED(small_model, norm_epsilon, -1.0);
    REFUSED(small_model, rope_theta, INFINITY);
    REFUSED(small_model, rope_theta, NAN);
    REFUSED(small_model, rope_theta, 0);
    REFUSED(small_model, rotary_fraction, 1.5);
    REFUSED(small_model, rotary_fraction, 0);
    REFUSED(small_model, learned_position_rows, 64);
    REFUSED(small_model, qk_norm_elements, 14);
    REFUSED(small_model, sliding_window_layers, 2);
    REFUSED(small_model, norm, (enum tpp_norm)4);
    REFUSED(small_model, activation, (enum tpp_activation)99);
    REFUSED(small_model, position, (enum tpp_position)4);
    REFUSED(small_model, mtp_num_layers, 101);
    struct tpp_model model = small_model();
    model.sliding_window = 64;
    refused(model, "model.sliding_window_layers");
    model.sliding_window_layers = 4;
    refused(model, "model.sliding_window_layers");
    memset(model.name, 'x', sizeof(model.name));
    refused(model, "model");
}

static void experts_that_cannot_be_are_refused(void **state)
{
    (void)state;
    REFUSED(small_experts, experts_per_token, 0);
    REFUSED(small_experts, experts_per_token, 10);
    REFUSED(small_experts, moe_ffn_hidden_size, 0);
    REFUSED(small_experts, moe_layer_period, 0);
    REFUSED(small_experts, first_k_dense, 5);
    REFUSED(small_experts, ffn_hidden_size, 0); /* layer 0 is dense */
    REFUSED(small_experts, num_experts, 65537);
    REFUSED(small_experts, num_experts, 0);
    struct tpp_model model = small_experts();
    model.shared_expert_hidden_size = 0;
    model.shared_expert_gate = true;
    refused(model, "model.shared_expert_gate");
    model = small_experts();
    model.expert_groups = 4; /* of 9 experts */
    model.groups_per_token = 2;
    refused(model, "model.expert_groups");
    model = small_model();
    model.expert_bias = true;
    refused(model, "model.num_experts");
}

static void latent_attention_that_cannot_be_is_refused(void **state)
{
    (void)state;
    REFUSED(small_latent, kv_lora_rank, 0);
    REFUSED(small_latent, qk_nope_head_dim, 0);
    REFUSED(small_latent, head_dim, 8);
    REFUSED(small_latent, num_query_groups, 2);
}

/* 10000 layers of 65536 experts of width 2^24 in a hidden size of 2^20 would be 3e22 parameters. */
static void sizes_that_overflow_together_are_refused(void **state)
{
    (void)state;
    struct tpp_model model = small_experts();
    model.num_layers = 10000;
    model.hidden_size = 1048576;
    model.num_experts = 65536;
    model.moe_ffn_hidden_size = 16777216;
    refused(model, "model.hidden_size");
    model = small_model();
    model.num_attention_heads = model.num_query_groups = model.head_dim = 65536; /* 2^32 wide */
    refused(model, "model.head_dim");
    model = small_latent();
    model.num_attention_heads = model.num_query_groups = 65536;
    model.v_head_dim = 257;
    refused(model, "model.head_dim");
}

/* Any struct at all: the check answers, and what it lets through adds up within 2^56. */
static void what_passes_the_check_never_overflows(void **state)
{
    (void)state;
    struct tpp_random random = {20240607};
    unsigned passed = 0;
    for (int i = 0; i < 3000; i++) {
        struct tpp_model model = i % 2 == 0 ? small_experts() : small_latent();
        uint32_t *const sizes[] = {&model.num_layers,    &model.hidden_size,         &model.num_attention_heads,
                                   &model.vocab_size,    &model.ffn_hidden_size,     &model.num_experts,
                                   &model.first_k_dense, &model.moe_ffn_hidden_size, &model.shared_expert_hidden_size,
                                   &model.kv_lora_rank};
        for (int k = 0; k < 3; k++)
            *sizes[tpp_random_range(&random, 0, 9)] = (uint32_t)tpp_random_log_uniform(&random, 0.5, 4e9);
        if (tpp_model_check(&model, NULL) != TPP_OK)
            continue;
        struct tpp_model_counts c;
        tpp_model_count(&model, &c);
        const double sum = (double)c.embedding + (double)c.lm_head + (double)c.final_norm +
                           (double)c.num_dense_layers * (double)c.dense_layer +
                           (double)c.num_moe_layers * (double)c.moe_layer;
        assert_true(c.total <= UINT64_C(1) << 56 && c.active <= c.total);
        assert_true(fabs(sum - (double)c.total) <= 1e-9 * sum);
        assert_int_equal(c.num_dense_layers + c.num_moe_layers, model.num_layers);
        passed++;
    }
    assert_true(passed > 100);
}

static void names_of_the_choices_are_words(void **state)
{
    (void)state;
    assert_string_equal(tpp_norm_name(TPP_NORM_RMS), "rms_norm");
    assert_string_equal(tpp_norm_name(TPP_NORM_NO_PARAMETERS), "no_parameters");
    assert_string_equal(tpp_activation_name(TPP_ACTIVATION_GELU), "gelu");
    assert_string_equal(tpp_activation_name(TPP_ACTIVATION_SQUARED_RELU), "squared_relu");
    assert_string_equal(tpp_position_name(TPP_POSITION_ROPE), "rope");
    assert_string_equal(tpp_position_name(TPP_POSITION_NONE), "none");
    assert_string_equal(tpp_position_name((enum tpp_position)77), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dense_layer_is_its_matrices_and_norms),
        cmocka_unit_test(each_bias_counts_once),
        cmocka_unit_test(norms_count_by_kind_and_number),
        cmocka_unit_test(a_mixture_of_experts_counts_all_and_active),
        cmocka_unit_test(latent_attention_counts_its_projections),
        cmocka_unit_test(opt_has_two_position_rows_more),
        cmocka_unit_test(olmo2_norms_all_heads_together),
        cmocka_unit_test(layers_with_experts_follow_the_pattern),
        cmocka_unit_test(sizes_of_zero_or_beyond_reason_are_refused),
        cmocka_unit_test(experts_that_cannot_be_are_refused),
        cmocka_unit_test(latent_attention_that_cannot_be_is_refused),
        cmocka_unit_test(sizes_that_overflow_together_are_refused),
        cmocka_unit_test(what_passes_the_check_never_overflows),
        cmocka_unit_test(names_of_the_choices_are_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
