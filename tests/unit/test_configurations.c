/* Configuration files: what YAML and TOML make of a text, keys and rules with their lines, and the plan of a file. The
 * files are after torchtitan/models/llama3/train_configs/llama3_8b.toml of tag v0.2.2 and
 * examples/config_tiny_llama.yaml of nanotron 2411b02. */
#include "hwprofiles/profiles.h"
#include "planner/launch/config/configurations.h"
#include "tests/support/launch_case.h"
#include "tests/support/script_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct tpp_config *parse(const char *text, enum tpp_config_format format)
{
    struct tpp_config *config;
    struct tpp_error err = {.code = TPP_OK};
    if (tpp_config_read(text, strlen(text), "file", format, &config, &err) != TPP_OK)
        fail_msg("%s: %s", err.where, err.message);
    return config;
}

static void check_entry(const struct tpp_config *config, const char *path, enum tpp_config_kind kind, const char *text,
                        uint32_t line)
{
    const struct tpp_config_entry *entry = tpp_config_find(config, path);
    if (entry == NULL)
        fail_msg("%s is not there", path);
    assert_int_equal(entry->kind, kind);
    assert_string_equal(entry->text, text);
    assert_int_equal(entry->line, line);
}

static void check_refused(const char *text, enum tpp_config_format format, enum tpp_code code, const char *where)
{
    struct tpp_config *config;
    struct tpp_error err = {.code = TPP_OK};
    assert_int_equal(tpp_config_read(text, strlen(text), "file", format, &config, &err), code);
    assert_null(config);
    assert_string_equal(err.where, where);
    assert_true(err.message[0] != '\0');
}

/* ---- the formats ---- */

static void test_toml_values_have_their_kinds_and_lines(void **state)
{
    struct tpp_config *config = parse("top = 1_000 # note\n"
                                      "[a]\n"
                                      "b = [1, 2.5, # two\n"
                                      "     'x']\n"
                                      "c.d = true\n"
                                      "e = {f = -3, \"g.h\" = 1e-5}\n"
                                      "[[s]]\n"
                                      "n = \"\\u00e9\\n\"\n"
                                      "[[s]]\n"
                                      "n = '''it's'''\n"
                                      "hex = 0x1F\n",
                                      TPP_CONFIG_TOML);
    (void)state;
    check_entry(config, "top", TPP_CONFIG_INTEGER, "1000", 1);
    check_entry(config, "a.b", TPP_CONFIG_LIST, "", 3);
    check_entry(config, "a.b.1", TPP_CONFIG_NUMBER, "2.5", 3);
    check_entry(config, "a.b.2", TPP_CONFIG_TEXT, "x", 4);
    check_entry(config, "a.c.d", TPP_CONFIG_BOOLEAN, "true", 5);
    check_entry(config, "a.e.f", TPP_CONFIG_INTEGER, "-3", 6);
    check_entry(config, "a.e.g\\.h", TPP_CONFIG_NUMBER, "1e-5", 6);
    check_entry(config, "s.0.n", TPP_CONFIG_TEXT, "\xc3\xa9\n", 8);
    check_entry(config, "s.1.n", TPP_CONFIG_TEXT, "it's", 10);
    check_entry(config, "s.1.hex", TPP_CONFIG_INTEGER, "31", 11);
    assert_int_equal(tpp_config_find(config, "s")->num_items, 2);
    assert_null(tpp_config_find(config, "a.z"));
    tpp_config_free(config);
}

static void test_toml_that_is_wrong_is_refused_with_its_place(void **state)
{
    (void)state;
    check_refused("a = 1\na = 2\n", TPP_CONFIG_TOML, TPP_E_SYNTAX, "file:2");
    check_refused("[a]\n[a]\n", TPP_CONFIG_TOML, TPP_E_SYNTAX, "file:2");
    check_refused("a = 1\n[a]\n", TPP_CONFIG_TOML, TPP_E_SYNTAX, "file:2");
    check_refused("a = yes\n", TPP_CONFIG_TOML, TPP_E_SYNTAX, "file:1:8");
    check_refused("a = 012\n", TPP_CONFIG_TOML, TPP_E_SYNTAX, "file:1:8");
    check_refused("a = 1.\n", TPP_CONFIG_TOML, TPP_E_SYNTAX, "file:1:7");
    check_refused("a = .5\n", TPP_CONFIG_TOML, TPP_E_SYNTAX, "file:1:7");
    check_refused("a = 1 b = 2\n", TPP_CONFIG_TOML, TPP_E_SYNTAX, "file:1:7");
    check_refused("\na = \"x\n", TPP_CONFIG_TOML, TPP_E_SYNTAX, "file:2:7");
    check_refused("a = \"\\x\"\n", TPP_CONFIG_TOML, TPP_E_SYNTAX, "file:1:7");
    check_refused("a = [1 2]\n", TPP_CONFIG_TOML, TPP_E_SYNTAX, "file:1:8");
    check_refused("a = {b = 1,}\n", TPP_CONFIG_TOML, TPP_E_SYNTAX, "file:1:12");
    check_refused("a\n", TPP_CONFIG_TOML, TPP_E_SYNTAX, "file:1:2");
    check_refused("[a\n", TPP_CONFIG_TOML, TPP_E_SYNTAX, "file:1:3");
    check_refused("a = \"\x01\"\n", TPP_CONFIG_TOML, TPP_E_SYNTAX, "file:1:6");
    check_refused("a = \"\xff\"\n", TPP_CONFIG_TOML, TPP_E_SYNTAX, "file:1:6");
}

/* As PyYAML's safe loader: 1e5 and 1.0e5 are texts, on and yes are true. */
static void test_yaml_values_have_the_kinds_of_the_safe_loader(void **state)
{
    struct tpp_config *config = parse("a: {b: 1_000, c: 1e5, d: 1.0e+5, e: '1', f: ~}\n"
                                      "g:\n"
                                      "- yes\n"
                                      "- h: off\n"
                                      "  i: .5\n"
                                      "j: 1.0e5\n"
                                      "k: 1f1b\n",
                                      TPP_CONFIG_YAML);
    (void)state;
    check_entry(config, "a.b", TPP_CONFIG_INTEGER, "1000", 1);
    check_entry(config, "a.c", TPP_CONFIG_TEXT, "1e5", 1);
    check_entry(config, "a.d", TPP_CONFIG_NUMBER, "1.0e+5", 1);
    check_entry(config, "a.e", TPP_CONFIG_TEXT, "1", 1);
    check_entry(config, "a.f", TPP_CONFIG_NULL, "~", 1);
    check_entry(config, "g.0", TPP_CONFIG_BOOLEAN, "true", 3);
    check_entry(config, "g.1.h", TPP_CONFIG_BOOLEAN, "false", 4);
    check_entry(config, "g.1.i", TPP_CONFIG_NUMBER, ".5", 5);
    check_entry(config, "j", TPP_CONFIG_TEXT, "1.0e5", 6);
    check_entry(config, "k", TPP_CONFIG_TEXT, "1f1b", 7);
    tpp_config_free(config);
}

static void test_yaml_that_could_do_more_than_say_values_is_refused(void **state)
{
    (void)state;
    check_refused("a: !!python/object/apply:os.system ['id']\n", TPP_CONFIG_YAML, TPP_E_UNSUPPORTED, "file:1:4");
    check_refused("a: &x 1\n", TPP_CONFIG_YAML, TPP_E_UNSUPPORTED, "file:1:4");
    check_refused("a: *x\n", TPP_CONFIG_YAML, TPP_E_UNSUPPORTED, "file:1:4");
    check_refused("a: 1\n---\nb: 2\n", TPP_CONFIG_YAML, TPP_E_UNSUPPORTED, "file:2:1");
    check_refused("a: [1\n", TPP_CONFIG_YAML, TPP_E_SYNTAX, "file:2:1");
    check_refused("just words\n", TPP_CONFIG_YAML, TPP_E_SYNTAX, "file:1:1");
    check_refused("? [a]\n: 1\n", TPP_CONFIG_YAML, TPP_E_UNSUPPORTED, "file:1:3");
}

static void test_nesting_and_size_are_bounded(void **state)
{
    struct tpp_config *config;
    struct tpp_error err;
    char deep[256];
    (void)state;
    memset(deep, '[', 200);
    deep[200] = '\0';
    assert_int_equal(tpp_config_read(deep, 200, "file", TPP_CONFIG_YAML, &config, &err), TPP_E_UNSUPPORTED);
    memcpy(deep, "a = ", 4);
    assert_int_equal(tpp_config_read(deep, 200, "file", TPP_CONFIG_TOML, &config, &err), TPP_E_UNSUPPORTED);
    assert_int_equal(tpp_config_read("a", (1u << 20) + 1, "file", TPP_CONFIG_YAML, &config, &err), TPP_E_UNSUPPORTED);
    assert_int_equal(tpp_config_read("a\0b", 3, "file", TPP_CONFIG_YAML, &config, &err), TPP_E_SYNTAX);
}

static void test_the_format_is_seen_in_the_name_or_the_text(void **state)
{
    (void)state;
    assert_int_equal(tpp_config_format_of("x.toml", "a: 1"), TPP_CONFIG_TOML);
    assert_int_equal(tpp_config_format_of("x.json", "a = 1"), TPP_CONFIG_YAML);
    assert_int_equal(tpp_config_format_of("-", "# note\n[job]\na = 1"), TPP_CONFIG_TOML);
    assert_int_equal(tpp_config_format_of("-", "\nseq_len = 1"), TPP_CONFIG_TOML);
    assert_int_equal(tpp_config_format_of("-", "a: 1 = 2"), TPP_CONFIG_YAML);
}

/* ---- the frameworks ---- */

struct answer {
    struct tpp_configuration_reading reading;
    struct tpp_problems problems;
    enum tpp_framework framework;
};

static void ask(const char *text, enum tpp_config_format format, int64_t world_size, struct answer *answer)
{
    static struct tpp_hardware hardware;
    const struct tpp_configuration *configuration;
    struct tpp_config *config = parse(text, format);
    memset(answer, 0, sizeof *answer);
    assert_int_equal(tpp_hardware_find("dgx-h100", &hardware, NULL), TPP_OK);
    assert_int_equal(tpp_configuration_find(config, "file", &configuration, NULL), TPP_OK);
    const struct tpp_configuration_request request = {
        .config = config, .hardware = &hardware, .name = "file", .world_size = world_size};
    struct tpp_error err = {.code = TPP_OK};
    if (configuration->read(&request, &answer->reading, &answer->problems, &err) != TPP_OK)
        tpp_problems_add(&answer->problems, "no-prediction", TPP_SEVERITY_ERROR, 0, "", "%s", err.message);
    if (answer->reading.rules.world_size > 0)
        tpp_configuration_judge(configuration, &answer->reading, &answer->problems);
    answer->framework = configuration->framework;
    tpp_config_free(config);
}

static unsigned num_problems(const struct answer *answer, const char *code)
{
    unsigned count = 0;
    for (size_t i = 0; i < answer->problems.count; i++)
        count += strcmp(answer->problems.items[i].code, code) == 0;
    return count;
}

static void check_problem(const struct answer *answer, const char *code, uint32_t line)
{
    for (size_t i = 0; i < answer->problems.count; i++) {
        if (strcmp(answer->problems.items[i].code, code) == 0) {
            assert_int_equal(answer->problems.items[i].line, line);
            return;
        }
    }
    fail_msg("%s is not among the %zu problems", code, answer->problems.count);
}

static const char llama3_8b[] = "[job]\n"
                                "dump_folder = \"./outputs\"\n"
                                "[model]\n"
                                "name = \"llama3\"\n"
                                "flavor = \"8B\"\n"
                                "[optimizer]\n"
                                "lr = 3e-4\n"
                                "[training]\n"
                                "local_batch_size = 1\n"
                                "seq_len = 8192\n"
                                "[parallelism]\n"
                                "data_parallel_replicate_degree = 1\n"
                                "data_parallel_shard_degree = -1\n"
                                "[activation_checkpoint]\n"
                                "mode = \"selective\"\n"
                                "selective_ac_option = \"op\"\n"
                                "[quantize.linear.float8]\n"
                                "filter_fqns = [\"output\"]\n";

/* 64 GPUs, as its note says: FSDP over all of them, one sequence each. */
static void test_torchtitan_reads_its_llama_8b(void **state)
{
    struct answer answer;
    (void)state;
    ask(llama3_8b, TPP_CONFIG_TOML, 64, &answer);
    assert_int_equal(answer.framework, TPP_FRAMEWORK_TORCHTITAN);
    assert_int_equal(answer.problems.count, 0);
    assert_true(answer.reading.has_plan && answer.reading.is_world_known);
    const struct tpp_strategy *plan = &answer.reading.plan.strategy;
    assert_int_equal(plan->data_parallel, 64);
    assert_int_equal(plan->zero_stage, 3);
    assert_true(plan->reshard_after_forward); /* "default" without pipeline stages */
    assert_int_equal(plan->recompute, TPP_RECOMPUTE_SELECTIVE);
    assert_int_equal(plan->num_micro_batches, 1);
    assert_int_equal(answer.reading.plan.job.global_batch_size, 64);
    assert_int_equal(answer.reading.plan.model.num_layers, 32);
    assert_string_equal(answer.reading.plan.model.name, "llama3.1-8b");
    tpp_problems_release(&answer.problems);
}

/* tp 2 * pp 4, 8 sequences a pass in micro-batches of 2; the layers a stage are (32 + 1 + 1) / (4 * 2) rounded up. */
static void test_torchtitan_reads_pipeline_stages(void **state)
{
    struct answer answer;
    (void)state;
    ask("[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 8\nglobal_batch_size = 32\n"
        "seq_len = 4096\n[parallelism]\ntensor_parallel_degree = 2\npipeline_parallel_degree = 4\n"
        "data_parallel_shard_degree = 2\ndata_parallel_replicate_degree = 2\n"
        "pipeline_parallel_schedule = \"Interleaved1F1B\"\npipeline_parallel_microbatch_size = 2\n"
        "pipeline_parallel_first_stage_less_layers = 0\npipeline_parallel_last_stage_less_layers = 0\n"
        "[activation_checkpoint]\nmode = \"full\"\n",
        TPP_CONFIG_TOML, 32, &answer);
    assert_int_equal(answer.problems.count, 0);
    const struct tpp_strategy *plan = &answer.reading.plan.strategy;
    assert_int_equal(plan->virtual_pipeline_stages, 2);
    assert_int_equal(plan->schedule, TPP_SCHEDULE_INTERLEAVED);
    assert_int_equal(plan->micro_batch_size, 2);
    assert_int_equal(plan->num_micro_batches, 4);
    assert_int_equal(plan->data_parallel, 4);
    assert_int_equal(plan->shard_group, 2);
    assert_false(plan->reshard_after_forward); /* "default" with stages */
    assert_int_equal(plan->recompute, TPP_RECOMPUTE_FULL);
    tpp_problems_release(&answer.problems);
}

static void test_torchtitan_rules_name_the_line(void **state)
{
    struct answer answer;
    (void)state;
    ask("[model]\nname = \"llama3\"\nflavor = \"8B\"\n"
        "[training]\nlocal_batch_size = 3\nglobal_batch_size = 32\nseq_len = 4095\nsequence = 1\n"
        "[parallelism]\ntensor_parallel_degree = 16\ndata_parallel_shard_degree = 3\n",
        TPP_CONFIG_TOML, 64, &answer);
    check_problem(&answer, "TT-1", 11);
    check_problem(&answer, "TT-3", 6);
    check_problem(&answer, "TT-4", 7);
    check_problem(&answer, "TT-8", 10);
    check_problem(&answer, "unknown-key", 8);
    tpp_problems_release(&answer.problems);
    /* (32 + 2) / 5 rounded up are 7 stages on 4 ranks */
    ask("[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 8\n[parallelism]\n"
        "pipeline_parallel_degree = 4\npipeline_parallel_layers_per_stage = 5\npipeline_parallel_microbatch_size = 3\n",
        TPP_CONFIG_TOML, 4, &answer);
    check_problem(&answer, "TT-5", 8);
    check_problem(&answer, "TT-3", 9);
    tpp_problems_release(&answer.problems);
    ask("[training]\nlocal_batch_size = \"8\"\n[activation_checkpoint]\nmode = \"half\"\n[model]\nflavor = \"9B\"\n",
        TPP_CONFIG_TOML, 4, &answer);
    check_problem(&answer, "wrong-value", 2);
    check_problem(&answer, "no-prediction", 6);
    assert_false(answer.reading.has_plan);
    tpp_problems_release(&answer.problems);
}

/* Rules without a number share their letters, not their lines. */
static void test_rules_without_a_number_name_their_own_line(void **state)
{
    struct answer answer;
    (void)state;
    ask("[model]\nname = \"deepseek_v3\"\nflavor = \"16B\"\n[parallelism]\ntensor_parallel_degree = 4\n"
        "expert_parallel_degree = 2\ndata_parallel_shard_degree = 2\n",
        TPP_CONFIG_TOML, 8, &answer);
    check_problem(&answer, "TT", 6); /* experts over fewer ranks than tensors */
    tpp_problems_release(&answer.problems);
}

static const char tiny_llama[] = "data_stages:\n"
                                 "- data: {dataset: null, num_loading_workers: 1, seed: 42}\n"
                                 "  name: Stable Training Stage\n"
                                 "  start_training_step: 1\n"
                                 "general: {project: debug, run: 'tiny_llama_%date_%jobid'}\n"
                                 "model:\n"
                                 "  ddp_bucket_cap_mb: 25\n"
                                 "  dtype: bfloat16\n"
                                 "  init_method: {std: 0.025}\n"
                                 "  model_config:\n"
                                 "    hidden_size: 2048\n"
                                 "    intermediate_size: 11008\n"
                                 "    is_llama_config: true\n"
                                 "    num_attention_heads: 16\n"
                                 "    num_hidden_layers: 28\n"
                                 "    num_key_value_heads: 2\n"
                                 "    rope_scaling: null\n"
                                 "    tie_word_embeddings: true\n"
                                 "    vocab_size: 128256\n"
                                 "optimizer:\n"
                                 "  learning_rate_scheduler: {learning_rate: 0.0003, lr_warmup_style: linear}\n"
                                 "  zero_stage: 0\n"
                                 "parallelism: {dp: 4, expert_parallel_size: 1, pp: 1, pp_engine: 1f1b, tp: 2,\n"
                                 "  tp_linear_async_communication: true, tp_mode: REDUCE_SCATTER}\n"
                                 "tokens:\n"
                                 "  batch_accumulation_per_replica: 1\n"
                                 "  micro_batch_size: 3\n"
                                 "  sequence_length: 4096\n"
                                 "  train_steps: 2000\n";

static void test_nanotron_reads_its_example(void **state)
{
    struct answer answer;
    (void)state;
    ask(tiny_llama, TPP_CONFIG_YAML, 0, &answer);
    assert_int_equal(answer.framework, TPP_FRAMEWORK_NANOTRON);
    assert_int_equal(answer.problems.count, 0);
    assert_true(answer.reading.has_plan);
    const struct tpp_plan_reading *plan = &answer.reading.plan;
    assert_int_equal(plan->job.num_gpus, 8);
    assert_int_equal(plan->job.global_batch_size, 12); /* 3 * 1 * 4 */
    assert_int_equal(plan->strategy.tensor_parallel, 2);
    assert_true(plan->strategy.sequence_parallel);
    assert_int_equal(plan->strategy.recompute, TPP_RECOMPUTE_NONE);
    assert_int_equal(plan->model.head_dim, 128);
    assert_true(plan->model.rope_theta == 10000 && plan->model.tied_embeddings);
    assert_int_equal(plan->model.num_query_groups, 2);
    tpp_problems_release(&answer.problems);
    ask(tiny_llama, TPP_CONFIG_YAML, 16, &answer); /* started on twice as many */
    check_problem(&answer, "NT-1", 23);
    tpp_problems_release(&answer.problems);
}

/* config.py and models_config.py at 2411b02: moe_config is optional, folders are one or a list. */
static void test_nanotron_takes_null_and_lists(void **state)
{
    struct answer answer;
    char text[2048];
    const char *shape = strstr(tiny_llama, "    hidden_size: 2048\n");
    (void)state;
    snprintf(text, sizeof text,
             "data_stages:\n- data: {dataset: {dataset_folder: [/a, /b], vocab_size: 128256}, seed: 42}\n"
             "  name: one\n  start_training_step: 1\n%.*s    moe_config: null\n%s",
             (int)(shape - strstr(tiny_llama, "general")), strstr(tiny_llama, "general"), shape);
    ask(text, TPP_CONFIG_YAML, 0, &answer);
    assert_int_equal(answer.problems.count, 0);
    assert_true(answer.reading.has_plan);
    tpp_problems_release(&answer.problems);
    snprintf(text, sizeof text, "%.*s    moe_config: {experts: 8}\n%s", (int)(shape - tiny_llama), tiny_llama, shape);
    ask(text, TPP_CONFIG_YAML, 0, &answer);
    check_problem(&answer, "unknown-key", 11);
    tpp_problems_release(&answer.problems);
    const char *model = strstr(tiny_llama, "general:"), *warmup = strstr(tiny_llama, "lr_warmup_style: linear");
    snprintf(text, sizeof text,
             "%.*s- data: {dataset: null, seed: 42}\n  name: Annealing\n  start_training_step: 1\n%s",
             (int)(model - tiny_llama), tiny_llama, model);
    ask(text, TPP_CONFIG_YAML, 0, &answer);
    check_problem(&answer, "NT-7", 7); /* the step of the first stage */
    tpp_problems_release(&answer.problems);
    snprintf(text, sizeof text, "%.*slr_warmup_style: cosine%s", (int)(warmup - tiny_llama), tiny_llama,
             warmup + strlen("lr_warmup_style: linear"));
    ask(text, TPP_CONFIG_YAML, 0, &answer);
    check_problem(&answer, "NT-7", 21);
    tpp_problems_release(&answer.problems);
    /* What is no word is wrong, once, and equals nothing. */
    snprintf(text, sizeof text, "%.*slr_warmup_style: {linear: 1}%s", (int)(warmup - tiny_llama), tiny_llama,
             warmup + strlen("lr_warmup_style: linear"));
    ask(text, TPP_CONFIG_YAML, 0, &answer);
    assert_int_equal(num_problems(&answer, "NT-7"), 0);
    tpp_problems_release(&answer.problems);
    snprintf(text, sizeof text,
             "%.*s- {name: [a], start_training_step: null}\n- {name: [b], start_training_step: null}\n%s",
             (int)(model - tiny_llama), tiny_llama, model);
    ask(text, TPP_CONFIG_YAML, 0, &answer);
    assert_int_equal(num_problems(&answer, "NT-7"), 0);
    tpp_problems_release(&answer.problems);
    snprintf(text, sizeof text, "%.*s    moe_config: 8\n%s", (int)(shape - tiny_llama), tiny_llama, shape);
    ask(text, TPP_CONFIG_YAML, 0, &answer);
    check_problem(&answer, "wrong-value", 11);
    tpp_problems_release(&answer.problems);
}

static void test_nanotron_rules_name_the_line(void **state)
{
    struct answer answer;
    (void)state;
    ask("parallelism:\n  dp: 1\n  tp: 4\n  pp: 8\n  pp_engine: 1F1B\n  expert_parallel_size: 2\n"
        "model:\n  model_config:\n    num_attention_heads: 16\n    num_key_value_heads: 2\n"
        "optimizer:\n  zero_stage: 2\n  weight: 1\n"
        "tokens:\n  sequence_length: 2048\n  micro_batch_size: 1\n  batch_accumulation_per_replica: 4\n",
        TPP_CONFIG_YAML, 0, &answer);
    check_problem(&answer, "NT-2", 6);
    check_problem(&answer, "NT-3", 3);
    check_problem(&answer, "NT-4", 17);
    check_problem(&answer, "NT", 12);
    check_problem(&answer, "unknown-key", 13);
    tpp_problems_release(&answer.problems);
    ask("parallelism: {dp: 1, tp: 1, pp: 1}\n", TPP_CONFIG_YAML, 0, &answer);
    check_problem(&answer, "missing-key", 0);
    assert_false(answer.reading.has_plan);
    tpp_problems_release(&answer.problems);
}

/* 16 GPUs as 4 replicas of tp 4 with one shard each: accelerate has no ranks to shard over. */
static void test_accelerate_rules_name_the_line(void **state)
{
    struct answer answer;
    (void)state;
    ask("distributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 2\nnum_processes: 16\n"
        "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: SHARD_GRAD_OP\n"
        "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_wrap: 1\n"
        "parallelism_config:\n  parallelism_config_dp_replicate_size: 4\n  parallelism_config_tp_size: 4\n",
        TPP_CONFIG_YAML, 0, &answer);
    check_problem(&answer, "AC", 7);
    check_problem(&answer, "unknown-key", 9);
    size_t num_sizes = 0; /* product, no shards, replicas of tp without shards, by the file and by the rules */
    for (size_t i = 0; i < answer.problems.count; i++)
        num_sizes += answer.problems.items[i].line == 11;
    assert_int_equal(num_sizes, 2);
    assert_false(answer.reading.has_plan);
    tpp_problems_release(&answer.problems);
    ask("distributed_type: FSDP\nnum_processes: 8\n"
        "fsdp_config:\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_sync_module_states: false\n"
        "  fsdp_reshard_after_forward: SHARD_GRAD_OP\n",
        TPP_CONFIG_YAML, 0, &answer);
    check_problem(&answer, "AC", 5);
    check_problem(&answer, "dead-setting", 6);
    tpp_problems_release(&answer.problems);
}

/* As accelerate's own questionnaire writes it, with NO and 'no' and numbers of strategies. */
static void test_accelerate_takes_the_file_of_its_questionnaire(void **state)
{
    struct answer answer;
    (void)state;
    ask("compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: FSDP\ndowncast_bf16: 'no'\n"
        "fsdp_config:\n  fsdp_activation_checkpointing: true\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
        "  fsdp_cpu_ram_efficient_loading: true\n  fsdp_offload_params: false\n  fsdp_reshard_after_forward: true\n"
        "  fsdp_state_dict_type: SHARDED_STATE_DICT\n  fsdp_version: 2\n"
        "machine_rank: 0\nmain_training_function: main\nmixed_precision: no\nnum_machines: 1\nnum_processes: 8\n"
        "parallelism_config:\n  parallelism_config_cp_backend: torch\n  parallelism_config_cp_comm_strategy: "
        "allgather\n"
        "  parallelism_config_cp_size: 4\n  parallelism_config_dp_replicate_size: 1\n"
        "  parallelism_config_dp_shard_size: 2\n  parallelism_config_tp_size: 1\n"
        "rdzv_backend: static\nsame_network: true\nuse_cpu: false\n",
        TPP_CONFIG_YAML, 0, &answer);
    assert_int_equal(answer.problems.count, 1); /* a file alone is no plan */
    check_problem(&answer, "no-prediction", 0);
    assert_int_equal(answer.reading.rules.context_parallel, 4);
    assert_int_equal(answer.reading.rules.fsdp_version, 2);
    assert_int_equal(answer.reading.rules.world_size, 8);
    tpp_problems_release(&answer.problems);
}

static void test_a_file_of_nobody_is_said_so(void **state)
{
    struct tpp_error err;
    const struct tpp_configuration *configuration;
    struct tpp_config *config = parse("services: {web: {image: nginx}}\n", TPP_CONFIG_YAML);
    (void)state;
    assert_int_equal(tpp_configuration_find(config, "file", &configuration, &err), TPP_E_UNSUPPORTED);
    tpp_config_free(config);
}

/* ---- the scripts ---- */

static void check_script(enum tpp_framework framework, const char *option, const char *file, const char *ends_in)
{
    static const char *const environment[] = {"NANOTRON_PATH=/opt/nano tron",
                                              "MODEL_NAME=llama3",
                                              "MODEL_FLAVOR=8B",
                                              "DATASET=$(touch trace)",
                                              "DATA_PATH=/data/`touch trace`\"\n: '",
                                              "TOKENIZER_MODEL=/data/\xc3\xa9",
                                              "CHECKPOINT_PATH=a\"; touch trace",
                                              "TRAIN_ITERS=1000",
                                              "LR=3e-4",
                                              "MASTER_ADDR=host0",
                                              "NODE_RANK=1",
                                              "SLURM_NNODES=8",
                                              "SLURM_JOB_NODELIST=host[0-7]",
                                              NULL};
    struct launch_case c;
    struct script_run run;
    struct tpp_text script;
    struct tpp_error err = {.code = TPP_OK};
    launch_case_init(&c);
    assert_int_equal(tpp_hardware_find("dgx-h100", &c.hardware, NULL), TPP_OK);
    snprintf(c.model.name, sizeof c.model.name, "a$(touch trace)\n`touch trace`'\"\xc3\xa9");
    c.request.job_name = "b;touch trace\n";
    tpp_stack_defaults(framework, &c.hardware.gpu, &c.job, &c.stack);
    c.strategy.virtual_pipeline_stages = 1;
    c.strategy.schedule = TPP_SCHEDULE_1F1B;
    c.strategy.zero_stage = framework == TPP_FRAMEWORK_TORCHTITAN ? 3 : 0;
    for (int slurm = 0; slurm < 2; slurm++) {
        c.request.slurm = slurm == 1;
        tpp_text_init(&script);
        if (tpp_launch_emit(&c.request, &script, &err) != TPP_OK)
            fail_msg("%s: %s", err.where, err.message);
        script_run(tpp_text_get(&script), environment, &run);
        if (run.status != 0)
            fail_msg("%s", run.complaint);
        assert_string_equal(run.program, "torchrun");
        assert_false(run.left_a_trace);
        assert_string_equal(script_run_value(&run, option), file);
        assert_non_null(script_run_file(&run, strrchr(file, '/') + 1));
        assert_non_null(strstr(script_run_file(&run, strrchr(file, '/') + 1), ends_in));
        script_run_release(&run);
        tpp_text_release(&script);
    }
}

static void test_a_script_for_torchtitan_writes_its_file_and_starts_it(void **state)
{
    (void)state;
    check_script(TPP_FRAMEWORK_TORCHTITAN, "--job.config_file", "./torchtitan.toml",
                 "tensor_parallel_degree = 4\npipeline_parallel_degree = 4\n");
}

/* What the user sets is filled in: numbers as YAML's, texts as JSON's. */
static void test_a_script_for_nanotron_fills_its_file_in_and_starts_it(void **state)
{
    (void)state;
    check_script(TPP_FRAMEWORK_NANOTRON, "--config-file", "./nanotron.yaml.filled.yaml",
                 "learning_rate: 3.000000000e-04\n");
    check_script(TPP_FRAMEWORK_NANOTRON, "--config-file", "./nanotron.yaml.filled.yaml", "train_steps: 1000\n");
    check_script(TPP_FRAMEWORK_NANOTRON, "--config-file", "./nanotron.yaml.filled.yaml",
                 "dataset_folder: \"/data/`touch trace`\\\"\\n: '\"\n");
}

/* What only Megatron-LM's scripts have words for must not be left out in silence. */
static void check_unwritten(enum tpp_framework framework)
{
    static const char *const places[] = {"strategy.dispatch",          "strategy.dispatch", "job.mtp_num_layers",
                                         "strategy.recompute_modules", "job.precision",     "job.precision",
                                         "strategy.last_chunk_less"};
    for (int i = 0; i < 7; i++) {
        struct launch_case c;
        struct tpp_text script;
        struct tpp_error err = {.code = TPP_OK};
        launch_case_init(&c);
        assert_int_equal(tpp_hardware_find("dgx-h100", &c.hardware, NULL), TPP_OK);
        tpp_stack_defaults(framework, &c.hardware.gpu, &c.job, &c.stack);
        c.strategy.virtual_pipeline_stages = 1;
        c.strategy.schedule = TPP_SCHEDULE_1F1B;
        c.strategy.zero_stage = framework == TPP_FRAMEWORK_TORCHTITAN ? 3 : 0;
        c.strategy.dispatch = i == 0 ? TPP_DISPATCH_DEEPEP : TPP_DISPATCH_ALL_TO_ALL;
        c.strategy.expert_overlap = i == 1;
        c.job.mtp_num_layers = i == 2;
        c.strategy.recompute_modules = i == 3 ? TPP_MODULE_LAYER_NORM : 0;
        c.job.precision = i == 4 ? TPP_PRECISION_MXFP8 : i == 5 ? TPP_PRECISION_FP8_BLOCK : TPP_PRECISION_BF16;
        c.strategy.last_chunk_less = i == 6;
        tpp_text_init(&script);
        assert_int_equal(tpp_launch_emit(&c.request, &script, &err),
                         strncmp(places[i], "job", 3) == 0 ? TPP_E_NOT_BUILT : TPP_E_UNSUPPORTED);
        assert_string_equal(err.where, places[i]);
        tpp_text_release(&script);
    }
}

static void test_what_files_have_no_words_for_is_refused(void **state)
{
    (void)state;
    check_unwritten(TPP_FRAMEWORK_TORCHTITAN);
    check_unwritten(TPP_FRAMEWORK_NANOTRON);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_files_have_no_words_for_is_refused),
        cmocka_unit_test(test_toml_values_have_their_kinds_and_lines),
        cmocka_unit_test(test_toml_that_is_wrong_is_refused_with_its_place),
        cmocka_unit_test(test_yaml_values_have_the_kinds_of_the_safe_loader),
        cmocka_unit_test(test_yaml_that_could_do_more_than_say_values_is_refused),
        cmocka_unit_test(test_nesting_and_size_are_bounded),
        cmocka_unit_test(test_the_format_is_seen_in_the_name_or_the_text),
        cmocka_unit_test(test_torchtitan_reads_its_llama_8b),
        cmocka_unit_test(test_torchtitan_reads_pipeline_stages),
        cmocka_unit_test(test_torchtitan_rules_name_the_line),
        cmocka_unit_test(test_rules_without_a_number_name_their_own_line),
        cmocka_unit_test(test_nanotron_reads_its_example),
        cmocka_unit_test(test_nanotron_takes_null_and_lists),
        cmocka_unit_test(test_nanotron_rules_name_the_line),
        cmocka_unit_test(test_accelerate_rules_name_the_line),
        cmocka_unit_test(test_accelerate_takes_the_file_of_its_questionnaire),
        cmocka_unit_test(test_a_file_of_nobody_is_said_so),
        cmocka_unit_test(test_a_script_for_torchtitan_writes_its_file_and_starts_it),
        cmocka_unit_test(test_a_script_for_nanotron_fills_its_file_in_and_starts_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
