/* reference_other_rules.c - the rules of Megatron-DeepSpeed and ms-swift against argument lines with the verdict of
 * their own code (megatron_lm_rules.md). */
#include "costmodel/base/file.h"
#include "costmodel/base/json_read.h"
#include "planner/rules/layout.h"
#include "planner/rules/rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum target { NUMBER, FLAG, NO_FLAG, CHOICE, LAYOUT };

struct mapping {
    const char *name;
    enum target target;
    size_t offset;
    const char *choice; /* of CHOICE: the word that sets the number behind it */
    unsigned value;
};

#define AT(field) offsetof(struct tpp_rule_settings, field)

/* Names with '_' and '-' alike: ms-swift uses the one, Megatron-DeepSpeed the other. */
static const struct mapping mappings[] = {
    {"--tensor-model-parallel-size", NUMBER, AT(tensor_parallel), NULL, 0},
    {"--pipeline-model-parallel-size", NUMBER, AT(pipeline_parallel), NULL, 0},
    {"--ds-sequence-parallel-size", NUMBER, AT(context_parallel), NULL, 0},
    {"--expert-model-parallel-size", NUMBER, AT(expert_parallel), NULL, 0},
    {"--moe-expert-parallel-size", NUMBER, AT(expert_parallel), NULL, 0},
    {"--num-experts", NUMBER, AT(num_experts), NULL, 0},
    {"--num-layers", NUMBER, AT(num_layers), NULL, 0},
    {"--hidden-size", NUMBER, AT(hidden_size), NULL, 0},
    {"--num-attention-heads", NUMBER, AT(num_attention_heads), NULL, 0},
    {"--num-key-value-heads", NUMBER, AT(num_query_groups), NULL, 0},
    {"--seq-length", NUMBER, AT(sequence_length), NULL, 0},
    {"--max-position-embeddings", NUMBER, AT(max_position_embeddings), NULL, 0},
    {"--micro-batch-size", NUMBER, AT(micro_batch_size), NULL, 0},
    {"--global-batch-size", NUMBER, AT(global_batch_size), NULL, 0},
    {"--num-layers-per-virtual-pipeline-stage", NUMBER, AT(layers_per_virtual_stage), NULL, 0},
    {"--virtual-pipeline-model-parallel-size", NUMBER, AT(virtual_stages_per_rank), NULL, 0},
    {"--decoder-first-pipeline-num-layers", NUMBER, AT(first_stage_layers), NULL, 0},
    {"--decoder-last-pipeline-num-layers", NUMBER, AT(last_stage_layers), NULL, 0},
    {"--recompute-num-layers", NUMBER, AT(recompute_num_layers), NULL, 0},
    {"--zero-stage", NUMBER, AT(zero_stage), NULL, 0},
    {"--fp16", FLAG, AT(fp16), NULL, 0},
    {"--bf16", FLAG, AT(bf16), NULL, 0},
    {"--no-pipeline-parallel", NO_FLAG, AT(pipeline_engine), NULL, 0},
    {"--sequence-parallel", FLAG, AT(sequence_parallel), NULL, 0},
    {"--tp-comm-overlap", FLAG, AT(tp_comm_overlap), NULL, 0},
    {"--overlap-grad-reduce", FLAG, AT(overlap_grad_reduce), NULL, 0},
    {"--use-megatron-fsdp", FLAG, AT(megatron_fsdp), NULL, 0},
    {"--moe-grouped-gemm", FLAG, AT(grouped_gemm), NULL, 0},
    {"--optimizer", CHOICE, AT(optimizer), "muon", TPP_RULE_MUON},
    {"--recompute-granularity", CHOICE, AT(recompute), "full", TPP_RULE_GRANULARITY_FULL},
    {"--recompute-granularity", CHOICE, AT(recompute), "none", TPP_RULE_GRANULARITY_NONE},
    {"--recompute-method", CHOICE, AT(recompute_method), "uniform", TPP_RULE_METHOD_UNIFORM},
    {"--pipeline-model-parallel-layout", LAYOUT, 0, NULL, 0},
};

static void set(const struct mapping *mapping, char *value, struct tpp_rule_settings *settings)
{
    void *field = (char *)settings + mapping->offset;
    bool is_off = value != NULL && strcmp(value, "false") == 0;
    if (mapping->target == NUMBER)
        *(int64_t *)field = strtoll(value, NULL, 10);
    else if (mapping->target == LAYOUT)
        settings->pipeline_layout = value;
    else if (mapping->target == CHOICE)
        *(unsigned *)field = strcmp(value, mapping->choice) == 0 ? mapping->value : *(unsigned *)field;
    else
        *(bool *)field = (mapping->target == FLAG) != is_off;
}

static void read_line(char *text, struct tpp_rule_settings *settings)
{
    char *words[256];
    size_t count = 0;
    for (char *word = strtok(text, " "); word != NULL && count < 256; word = strtok(NULL, " "))
        words[count++] = word;
    for (size_t i = 0; i < count; i++) {
        if (strncmp(words[i], "--", 2) != 0)
            continue;
        for (char *c = words[i]; *c != '\0'; c++)
            *c = *c == '_' ? '-' : *c;
        for (size_t k = 0; k < sizeof mappings / sizeof *mappings; k++) {
            if (strcmp(words[i], mappings[k].name) == 0)
                set(&mappings[k], i + 1 < count ? words[i + 1] : NULL, settings);
        }
    }
}

/* DeepSpeed lines give the whole shape; ms-swift takes it from a model that the lines leave open: here one of 32
 * layers, or of as many as a layout places. */
static struct tpp_rule_settings start(enum tpp_framework framework)
{
    struct tpp_rule_settings s = tpp_rule_settings_defaults(framework);
    s.cuda_device_max_connections = 1;
    s.group_query_attention = true;
    if (framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED) {
        s.pipeline_engine = true;
        s.context_types = TPP_RULE_CONTEXT_A2A;
        s.num_query_groups = 0;
        return s;
    }
    s.num_layers = 32;
    s.hidden_size = 4096;
    s.num_attention_heads = s.num_query_groups = 32;
    s.sequence_length = s.max_position_embeddings = 2048;
    s.global_batch_size = 16;
    s.swiglu = s.bf16 = true;
    s.linear_bias = false;
    s.distributed_optimizer = true;
    s.grouped_gemm = true;
    s.dispatcher = TPP_RULE_ALLTOALL;
    s.recompute = TPP_RULE_GRANULARITY_SELECTIVE;
    return s;
}

/* What a program does silently it does not refuse. */
static bool is_refused(const struct tpp_rule_settings *settings, const char **code)
{
    struct tpp_violation violations[16];
    size_t count = tpp_rules_violations(settings, TPP_RELEASE_NEWEST, violations, 16);
    for (size_t i = 0; i < count && i < 16; i++) {
        *code = violations[i].code;
        if (violations[i].stage != TPP_RULE_SILENT)
            return true;
    }
    return false;
}

/* A line about something that the settings do not hold. */
static bool is_outside(const char *id)
{
    return strncmp(id, "bad6 bf16 torch DDP", 19) == 0;
}

static void compare(struct tpp_json line)
{
    const char *name, *id, *arguments, *verdict, *code = "";
    uint64_t world_size;
    enum tpp_framework framework;
    assert_int_equal(tpp_json_need_string(line, "framework", &name, NULL), TPP_OK);
    assert_int_equal(tpp_json_need_string(line, "id", &id, NULL), TPP_OK);
    assert_int_equal(tpp_json_need_string(line, "args", &arguments, NULL), TPP_OK);
    assert_int_equal(tpp_json_need_string(line, "verdict", &verdict, NULL), TPP_OK);
    assert_int_equal(tpp_json_need_u64(line, "world_size", 1, 1u << 20, &world_size, NULL), TPP_OK);
    assert_true(tpp_framework_parse(name, &framework));
    struct tpp_rule_settings settings = start(framework);
    char *text = strdup(arguments);
    assert_non_null(text);
    settings.world_size = (int64_t)world_size;
    read_line(text, &settings);
    if (settings.pipeline_layout != NULL)
        settings.num_layers = tpp_layout_read(settings.pipeline_layout).num_layers;
    if (framework == TPP_FRAMEWORK_MS_SWIFT && settings.expert_parallel > 1)
        settings.num_experts = 8;
    if (settings.num_query_groups == 0)
        settings.num_query_groups = settings.num_attention_heads;
    bool refused = is_refused(&settings, &code);
    if (!is_outside(id) && refused != (strcmp(verdict, "ok") != 0))
        fail_msg("%s %s: the real code says %s, we say %s %s", name, id, verdict, refused ? "refused by" : "ok", code);
    free(text);
}

static void test_agrees_with_the_lines(void **state)
{
    char path[4096], *data;
    size_t length;
    struct tpp_error err;
    unsigned count = 0;
    (void)state;
    snprintf(path, sizeof path, "%s/tests/reference/other_rules.jsonl", getenv("TPP_SOURCE_ROOT"));
    assert_int_equal(tpp_file_read(path, 1u << 20, &data, &length, &err), TPP_OK);
    for (char *at = data; *at != '\0'; count++) {
        size_t line_length = strcspn(at, "\n");
        struct tpp_json_document *document;
        assert_int_equal(tpp_json_parse(at, line_length, path, &document, &err), TPP_OK);
        compare(tpp_json_root(document));
        tpp_json_document_free(document);
        at += line_length + (at[line_length] == '\n');
    }
    free(data);
    assert_true(count >= 25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_agrees_with_the_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
