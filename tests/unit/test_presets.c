#include "costmodel/model/model_reader.h"
#include "costmodel/model/presets.h"
#include "model_totals.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct tpp_model_counts count_of(const char *name)
{
    struct tpp_model_counts counts;
    const struct tpp_model *model = tpp_model_preset(name);
    if (model == NULL)
        fail_msg("there is no preset %s", name);
    tpp_model_count(model, &counts);
    return counts;
}

static void presets_are_sorted_and_found_by_name(void **state)
{
    (void)state;
    size_t count;
    const struct tpp_model *presets = tpp_model_presets(&count);
    assert_int_equal(count, NUM_MODEL_TOTALS + 1); /* and gpt3-175b, which was never published as a file */
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || strcmp(presets[i - 1].name, presets[i].name) < 0);
        assert_ptr_equal(tpp_model_preset(presets[i].name), &presets[i]);
    }
    assert_null(tpp_model_preset("llama"));
    assert_null(tpp_model_preset(""));
}

static void every_preset_passes_the_check(void **state)
{
    (void)state;
    size_t count;
    const struct tpp_model *presets = tpp_model_presets(&count);
    for (size_t i = 0; i < count; i++) {
        struct tpp_error err;
        if (tpp_model_check(&presets[i], &err) != TPP_OK)
            fail_msg("%s: %s (%s)", presets[i].name, err.message, err.where);
        assert_true(presets[i].family[0] != '\0');
        assert_true(presets[i].max_position_embeddings > 0);
    }
}

static void presets_have_the_published_parameter_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < NUM_MODEL_TOTALS; i++) {
        const struct tpp_model_counts counts = count_of(model_totals[i].name);
        char total[32], active[32];
        snprintf(total, sizeof(total), "%.3f", (double)counts.total / 1e9);
        snprintf(active, sizeof(active), "%.2f", (double)counts.active / 1e9);
        if (strcmp(total, model_totals[i].total) != 0)
            fail_msg("%s has %s, published %s", model_totals[i].name, total, model_totals[i].total);
        if (model_totals[i].active[0] == '\0')
            assert_int_equal(counts.active, counts.total);
        else if (strcmp(active, model_totals[i].active) != 0)
            fail_msg("%s has %s active, published %s", model_totals[i].name, active, model_totals[i].active);
    }
}

/* Cost model, example E1. */
static void presets_have_the_exact_counts_of_the_worked_example(void **state)
{
    (void)state;
    assert_int_equal(count_of("llama2-7b").total, UINT64_C(6738415616));
    assert_int_equal(count_of("llama3.1-8b").total, UINT64_C(8030261248));
    assert_int_equal(count_of("llama3-70b").total, UINT64_C(70553706496));
    assert_int_equal(count_of("llama3.1-405b").total, UINT64_C(405853388800));
    assert_int_equal(count_of("qwen2.5-7b").total, UINT64_C(7615616512));
    assert_int_equal(count_of("gemma-7b").total, UINT64_C(8537680896));
    assert_int_equal(count_of("gpt-neox-20b").total, UINT64_C(20554567680));
    assert_int_equal(count_of("bloom-176b").total, UINT64_C(176247271424));
    assert_int_equal(count_of("mixtral-8x7b").total, UINT64_C(46702792704));
    assert_int_equal(count_of("mixtral-8x7b").active, UINT64_C(12879925248));
    assert_int_equal(count_of("deepseek-v2").total, UINT64_C(235741434880));
    assert_int_equal(count_of("deepseek-v3").total, UINT64_C(671026419200));
    assert_int_equal(count_of("deepseek-v3").active, UINT64_C(37552282624));
}

/* 96 layers of 12 h^2 + 13 h = 1,812,099,072; 51200 + 2048 rows of h = 654,311,424; final norm 2 h = 24,576. */
static void gpt3_has_the_parameters_of_its_shape(void **state)
{
    (void)state;
    const struct tpp_model_counts counts = count_of("gpt3-175b");
    assert_int_equal(counts.dense_layer, UINT64_C(1812099072));
    assert_int_equal(counts.embedding, UINT64_C(654311424));
    assert_int_equal(counts.final_norm, 24576);
    assert_int_equal(counts.total, UINT64_C(174615846912));
}

static void a_preset_is_found_by_its_exact_name_only(void **state)
{
    (void)state;
    struct tpp_model model;
    struct tpp_error err;
    assert_int_equal(tpp_model_find("qwen3-8b", &model, &err), TPP_OK);
    assert_string_equal(model.name, "qwen3-8b");
    assert_int_equal(tpp_model_find("lama3.1-8b", &model, &err), TPP_E_USAGE);
    assert_non_null(strstr(err.message, "lama3.1-8b"));
    assert_non_null(strstr(err.hint, "\"llama3.1-8b\""));
    assert_int_equal(tpp_model_find("", &model, &err), TPP_E_USAGE);
    assert_int_equal(tpp_model_find("no/such/file.json", &model, &err), TPP_E_IO);
    assert_int_equal(tpp_model_find("nosuchfile.json", &model, &err), TPP_E_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_are_sorted_and_found_by_name),
        cmocka_unit_test(every_preset_passes_the_check),
        cmocka_unit_test(presets_have_the_published_parameter_counts),
        cmocka_unit_test(presets_have_the_exact_counts_of_the_worked_example),
        cmocka_unit_test(gpt3_has_the_parameters_of_its_shape),
        cmocka_unit_test(a_preset_is_found_by_its_exact_name_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
