/* Lines of runs files: what is read, what is skipped and why, what is no run at all. */
#include "costmodel/runs/run_reader.h"
#include "tests/support/check_number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Shaped like a row of the Aleph-Alpha sheets: sharding known as "distributed optimizer" only, out of memory. */
static const char layouts_row[] =
    "{\"id\":\"layouts-a\",\"year\":2023,\"source\":\"sheet row 4\","
    "\"model\":{\"name\":\"llama-13b\",\"layers\":40,\"hidden\":5120,\"heads\":40,\"kv_heads\":40,"
    "\"ffn_hidden\":13824,\"gated_mlp\":true,\"vocab\":128000,\"moe\":null,\"tied_embeddings\":false,"
    "\"seq_len\":2048},"
    "\"hw\":{\"gpu\":\"A100-SXM4-80GB\",\"gpus\":64,\"gpus_per_node\":8,\"inter\":null},"
    "\"par\":{\"tp\":2,\"pp\":1,\"vp\":1,\"dp\":32,\"cp\":1,\"ep\":1,\"etp\":null,\"sp\":false,\"zero_stage\":null,"
    "\"fsdp\":false,\"distributed_optimizer\":true,\"cpu_offload\":false},"
    "\"batch\":{\"global\":2048,\"micro\":8,\"grad_accum\":8},"
    "\"recompute\":\"none\",\"precision\":\"bf16\",\"flash_attention\":true,\"framework\":\"Aleph Alpha scaling\","
    "\"schedule\":null,\"task\":\"pretrain\","
    "\"measured\":{\"step_time_s\":null,\"peak_mem_gb\":null,\"oom\":true},"
    "\"notes\":\"kernel: flash_attention2 + RMS kernel.\",\"complete\":true,\"extra\":null,\"suspect\":null,"
    "\"attention_impl\":\"flash_attention2 + RMS kernel\"}";

#define ROW_SIZE 4096

/* `row` with `from` replaced once by `to`. */
static const char *replaced(char buffer[ROW_SIZE], const char *row, const char *from, const char *to)
{
    const char *place = strstr(row, from);
    assert_non_null(place);
    snprintf(buffer, ROW_SIZE, "%.*s%s%s", (int)(place - row), row, to, place + strlen(from));
    return buffer;
}

/* The layouts row with one replacement; valid until the next call. */
static const char *edited(const char *from, const char *to)
{
    static char text[ROW_SIZE];
    return replaced(text, layouts_row, from, to);
}

struct book {
    struct tpp_runs runs;
    struct tpp_run_profiles profiles;
};

static enum tpp_code read_text(struct book *book, const char *text, struct tpp_error *err)
{
    memset(book, 0, sizeof *book);
    return tpp_runs_read(text, strlen(text), "data/efficient-layouts.jsonl", &book->profiles, &book->runs, err);
}

static void release(struct book *book)
{
    tpp_runs_release(&book->runs);
    tpp_run_profiles_release(&book->profiles);
}

/* Reads one line and gives a copy of its run. */
static struct tpp_run read_one(const char *line)
{
    struct book book;
    struct tpp_error err;
    assert_int_equal(read_text(&book, line, &err), TPP_OK);
    assert_int_equal(book.runs.count, 1);
    const struct tpp_run run = book.runs.items[0];
    release(&book);
    return run;
}

static void check_skipped(const char *from, const char *to, const char *reason)
{
    const struct tpp_run run = read_one(edited(from, to));
    if (strstr(run.skipped, reason) == NULL)
        fail_msg("skipped for \"%s\", expected \"%s\"", run.skipped, reason);
}

static void a_complete_row_becomes_all_inputs(void **state)
{
    (void)state;
    const struct tpp_run run = read_one(layouts_row);
    assert_string_equal(run.skipped, "");
    assert_string_equal(run.id, "layouts-a");
    assert_string_equal(run.group, "efficient-layouts");
    assert_int_equal(run.out_of_memory, TPP_RUN_YES);
    assert_true(tpp_run_in_default_subset(&run));
    assert_int_equal(run.model.num_layers, 40);
    assert_int_equal(run.model.head_dim, 128); /* 5120 / 40 */
    assert_true(run.model.gated_mlp);
    assert_int_equal(run.model.norm, TPP_NORM_RMS);
    assert_int_equal(run.model.position, TPP_POSITION_ROPE);
    assert_int_equal(run.job.num_gpus, 64);
    assert_int_equal(run.job.global_batch_size, 2048);
    assert_int_equal(run.strategy.tensor_parallel, 2);
    assert_int_equal(run.strategy.data_parallel, 32);
    assert_int_equal(run.strategy.micro_batch_size, 8);
    assert_int_equal(run.strategy.num_micro_batches, 8); /* 2048 / (32 * 8) */
    assert_int_equal(run.strategy.zero_stage, 1);        /* null with a distributed optimizer */
    assert_int_equal(run.strategy.recompute, TPP_RECOMPUTE_NONE);
    assert_string_equal(run.cluster.profile, "dgx-a100-80g");
}

/* gpt-oss of Hugging Face: layer_types sliding_attention, full_attention in turn; 128 tokens. */
static void alternate_layers_have_the_window(void **state)
{
    (void)state;
    struct tpp_run run = read_one(
        edited("\"seq_len\":2048", "\"seq_len\":2048,\"sliding_window\":128,\"sliding_window_pattern\":\"alternate layers\""));
    assert_string_equal(run.skipped, "");
    assert_int_equal(run.model.sliding_window, 128);
    assert_int_equal(run.model.sliding_window_layers, 20); /* of 40 */
    check_skipped("\"seq_len\":2048", "\"seq_len\":2048,\"sliding_window\":128", "which layers use the sliding window");
    run = read_one(edited("\"seq_len\":2048", "\"seq_len\":2048,\"sliding_window\":4096"));
    assert_string_equal(run.skipped, "");
    assert_int_equal(run.model.sliding_window, 0); /* wider than the sequence */
}

/* NeMo's finetune_recipe(performance_mode=True) and Megatron-Bridge's performance recipes (llama3_70b_peft_8gpu_*) set
 * peft.target_modules = ["linear_qkv"]; what the notes say of a run goes before it. */
static void adapters_sit_where_the_recipe_puts_them(void **state)
{
    (void)state;
    static const struct {
        const char *framework, *notes;
        enum tpp_lora_targets targets;
        uint32_t rank;
    } rows[] = {
        {"NeMo/Megatron-Core (dgxc v25.02)", "packed SFT data", TPP_LORA_QKV, 16},
        {"Megatron-Bridge (NeMo container 26.06)", "packed sequences; LoRA: base weights frozen", TPP_LORA_QKV, 16},
        {"Megatron-Bridge (NeMo container 26.06)", "LoRA r=8 on q,k,v,o", TPP_LORA_ATTENTION, 8},
        {"NeMo AutoModel (PyTorch FSDP2)", "LoRA rank 16 on *_proj", TPP_LORA_ALL_LINEAR, 16},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[2][ROW_SIZE];
        replaced(text[0], layouts_row, "Aleph Alpha scaling", rows[i].framework);
        replaced(text[1], text[0], "\"pretrain\"", "\"lora\"");
        const struct tpp_run run = read_one(replaced(text[0], text[1], "kernel: flash_attention2 + RMS kernel.", rows[i].notes));
        assert_int_equal(run.job.task, TPP_TASK_LORA);
        assert_int_equal(run.job.lora_targets, rows[i].targets);
        assert_int_equal(run.job.lora_rank, rows[i].rank);
    }
}

/* torch counts in GiB even where the table prints GB, what was read off nvidia-smi as GB is decimal: 5.32372 *
 * 1073741824 = 5716300823 bytes. */
static void memory_is_read_in_the_unit_of_its_tool(void **state)
{
    (void)state;
    struct tpp_run run = read_one(edited("\"peak_mem_gb\":null,\"oom\":true",
                                         "\"peak_mem_gb\":5.32372,\"mem_unit\":\"GiB torch max allocated, rank 0\","
                                         "\"mem_kind\":\"allocated_peak\",\"oom\":false"));
    CHECK_NUMBER(run.measured_peak_bytes, 5716300823.0, 1e-6);
    assert_int_equal(run.memory_kind, TPP_RUN_MEMORY_ALLOCATED);
    assert_int_equal(run.out_of_memory, TPP_RUN_NO);
    run = read_one(edited("\"peak_mem_gb\":null", "\"peak_mem_gb\":49,\"mem_unit\":\"GB nvidia-smi, first node\","
                                                  "\"mem_kind\":\"device_used\""));
    CHECK_NUMBER(run.measured_peak_bytes, 49e9, 1e-9);
    assert_int_equal(run.memory_kind, TPP_RUN_MEMORY_DEVICE);
    run = read_one(edited("\"peak_mem_gb\":null", "\"peak_mem_gb\":73,\"mem_unit\":\"GB (1e9 bytes)\","
                                                  "\"mem_kind\":\"unknown\""));
    CHECK_NUMBER(run.measured_peak_bytes, 73e9, 1e-9);
    assert_int_equal(run.memory_kind, TPP_RUN_MEMORY_UNKNOWN);
}

static void a_timed_run_did_fit(void **state)
{
    (void)state;
    const struct tpp_run run = read_one(
        edited("\"step_time_s\":null,\"peak_mem_gb\":null,\"oom\":true", "\"step_time_s\":26.25,\"peak_mem_gb\":null"));
    assert_int_equal(run.out_of_memory, TPP_RUN_NO);
    CHECK_NUMBER(run.measured_step_seconds, 26.25, 1e-12);
}

/* 32 sequences a rank in micro-batches of 10: three full ones and one of two. */
static void a_smaller_last_micro_batch_is_kept_apart(void **state)
{
    (void)state;
    const struct tpp_run run = read_one(
        edited("\"global\":2048,\"micro\":8,\"grad_accum\":8", "\"global\":1024,\"micro\":10,\"grad_accum\":4"));
    assert_string_equal(run.skipped, "");
    assert_int_equal(run.strategy.micro_batch_size, 10);
    assert_int_equal(run.strategy.num_micro_batches, 3);
    assert_int_equal(run.remainder_sequences, 2);
}

static void what_cannot_be_predicted_says_why(void **state)
{
    (void)state;
    check_skipped("\"moe\":null", "\"moe\":{\"experts\":8,\"topk\":2}", "sizes of the experts not published");
    check_skipped("\"moe\":null", "\"family\":\"Mamba\"", "hybrid models are not modelled: Mamba");
    check_skipped("\"bf16\"", "\"int4\"", "int4 GEMMs are not modelled");
    check_skipped("\"bf16\"", "null", "precision not published");
    check_skipped("\"micro\":8", "\"micro\":null", "micro-batch not published");
    check_skipped("\"recompute\":\"none\"", "\"recompute\":null", "recomputation not published");
    check_skipped("\"ffn_hidden\":13824", "\"ffn_hidden\":null", "ffn hidden size not published");
    check_skipped("A100-SXM4-80GB", "GH200-144GB", "no cluster profile for GPU GH200-144GB");
    check_skipped("\"schedule\":null", "\"schedule\":\"v-half\"", "pipeline schedule v-half is not modelled");
    check_skipped("\"dp\":32", "\"dp\":31", "sizes do not multiply to 64 GPUs");
    check_skipped("\"cpu_offload\":false", "\"cpu_offload\":\"parameters\"", "offloading of parameters");
    check_skipped("\"distributed_optimizer\":true", "\"distributed_optimizer\":null", "sharding of the optimizer");
    check_skipped("\"recompute\":\"none\"", "\"recompute\":\"selective\",\"recompute_detail\":[\"moe_atc\"]",
                  "a recomputed module is not known");
    check_skipped("\"heads\":40", "\"heads\":41", "head dimension not published");
    check_skipped("\"oom\":true", "\"oom\":null", "nothing measured");
    check_skipped("\"task\":\"pretrain\"", "\"task\":\"dance\"", "task dance is not known");
}

static void vocabulary_layers_are_shared_as_the_method_says(void **state)
{
    (void)state;
    static const struct {
        const char *schedule;
        enum tpp_vocabulary_parallel kind;
    } rows[] = {
        {"\"schedule\":\"1f1b\",\"schedule_detail\":\"1f1b with vocabulary layers sharded over all pipeline ranks (method "
         "Vocab-2)\"",
         TPP_VOCABULARY_PARALLEL_ONE_BARRIER},
        {"\"schedule\":\"1f1b\",\"schedule_detail\":\"1f1b with vocabulary layers sharded over all pipeline ranks (2 "
         "passes, method Vocab-1)\"",
         TPP_VOCABULARY_PARALLEL_TWO_BARRIERS},
        {"\"schedule\":\"interlaced\"", TPP_VOCABULARY_PARALLEL_INTERLACED},
        {"\"schedule\":\"1f1b\"", TPP_VOCABULARY_PARALLEL_NONE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct tpp_run run = read_one(edited("\"schedule\":null", rows[i].schedule));
        assert_string_equal(run.skipped, "");
        assert_int_equal(run.strategy.vocabulary_parallel, rows[i].kind);
    }
}

/* Megatron-Bridge's recipes name the layers whose activations are offloaded (cpu_offloading_num_layers). */
static void a_number_of_offloaded_layers_is_of_their_activations(void **state)
{
    (void)state;
    const struct tpp_run run = read_one(edited("\"cpu_offload\":false", "\"cpu_offload\":30"));
    assert_string_equal(run.skipped, "");
    assert_int_equal(run.strategy.offload_layers, 30);
    assert_int_equal(run.strategy.offload, TPP_OFFLOAD_NONE);
}

static void the_attention_core_alone_is_selective_recomputation(void **state)
{
    (void)state;
    const struct tpp_run run =
        read_one(edited("\"recompute\":\"none\"", "\"recompute\":\"selective\",\"recompute_detail\":[\"core_attn\"]"));
    assert_string_equal(run.skipped, "");
    assert_int_equal(run.strategy.recompute, TPP_RECOMPUTE_SELECTIVE);
    assert_int_equal(run.strategy.recompute_modules, TPP_MODULE_CORE_ATTENTION);
}

static void modules_that_are_recomputed_are_read_by_name(void **state)
{
    (void)state;
    const struct tpp_run run = read_one(edited(
        "\"recompute\":\"none\"", "\"recompute\":\"selective\",\"recompute_detail\":[\"layernorm\",\"moe_act\"]"));
    assert_string_equal(run.skipped, "");
    assert_int_equal(run.strategy.recompute_modules, TPP_MODULE_LAYER_NORM | TPP_MODULE_EXPERT_ACTIVATION);
}

/* Megatron-Core splits experts over the tensor-parallel ranks where nothing is said; Megatron-Bridge's recipes have
 * expert_tensor_parallel_size=1 (scripts/performance/configs, workload_base_configs.py). */
static void bridge_keeps_experts_whole(void **state)
{
    (void)state;
    static const char moe[] = "\"moe\":{\"experts\":8,\"topk\":2,\"moe_ffn\":1024,\"shared\":0,\"dense_layers\":0,\"moe_layer_freq\":1}";
    char experts[ROW_SIZE], framework[ROW_SIZE];
    replaced(experts, layouts_row, "\"moe\":null", moe);
    assert_int_equal(read_one(replaced(framework, experts, "Aleph Alpha scaling", "Megatron-LM")).strategy.expert_tensor_parallel, 2);
    assert_int_equal(
        read_one(replaced(framework, experts, "Aleph Alpha scaling", "Megatron-Bridge")).strategy.expert_tensor_parallel, 1);
}

/* Two of eight experts on each of four ranks, two choices: 4 * min(1, 2 / 2) of the average; on eight ranks 8 * 1 / 2. */
static void what_no_router_balances_meets_on_one_rank(void **state)
{
    (void)state;
    static const char moe[] = "\"moe\":{\"experts\":8,\"topk\":2,\"moe_ffn\":1024,\"shared\":0,\"dense_layers\":0,\"moe_layer_freq\":1}";
    char experts[ROW_SIZE], four[ROW_SIZE], eight[ROW_SIZE], noted[ROW_SIZE];
    replaced(experts, layouts_row, "\"moe\":null", moe);
    replaced(four, experts, "\"ep\":1", "\"ep\":4");
    replaced(eight, experts, "\"ep\":1", "\"ep\":8");
    CHECK_NUMBER(read_one(four).job.expert_imbalance, 1, 0);
    CHECK_NUMBER(read_one(replaced(noted, four, "kernel:", "routing not forced, kernel:")).job.expert_imbalance, 4, 0);
    CHECK_NUMBER(read_one(replaced(noted, eight, "kernel:", "routing not forced, kernel:")).job.expert_imbalance, 4, 0);
}

/* 60 layers on 8 stages: balanced by the sheets' own stack; 62 in Megatron: embedding and loss count as one each. */
static void uneven_layers_are_split_as_the_engine_does(void **state)
{
    (void)state;
    char sizes[ROW_SIZE], layers[ROW_SIZE], megatron[ROW_SIZE];
    replaced(sizes, layouts_row, "\"pp\":1,\"vp\":1,\"dp\":32", "\"pp\":8,\"vp\":1,\"dp\":4");
    struct tpp_run run = read_one(replaced(layers, sizes, "\"layers\":40", "\"layers\":60"));
    assert_string_equal(run.skipped, "");
    assert_true(run.strategy.balanced_split);
    replaced(megatron, sizes, "Aleph Alpha scaling", "Megatron-LM (2024)");
    run = read_one(replaced(layers, megatron, "\"layers\":40", "\"layers\":62"));
    assert_string_equal(run.skipped, "");
    assert_true(run.strategy.account_for_embedding && run.strategy.account_for_loss);
    assert_false(run.strategy.balanced_split);
    run = read_one(replaced(layers, megatron, "\"layers\":40", "\"layers\":61"));
    assert_string_equal(run.skipped, "layers of each stage not published and 61 do not divide over 8");
}

static void broken_lines_are_counted_and_the_rest_is_read(void **state)
{
    (void)state;
    struct book book;
    struct tpp_error err;
    char text[16384];
    snprintf(text, sizeof text,
             "%s\n\n{\"id\":\n[1,2]\n{\"id\":7,\"measured\":{}}\n{\"id\":\"x\"}\n{}\n\"text\"\n  \t\r\n%s", layouts_row,
             edited("\"layers\":40", "\"layers\":\"forty\""));
    assert_int_equal(read_text(&book, text, &err), TPP_OK);
    assert_int_equal(book.runs.count, 8);
    assert_string_equal(book.runs.items[0].skipped, "");
    assert_non_null(strstr(book.runs.items[1].skipped, "not JSON"));
    assert_string_equal(book.runs.items[1].id, "efficient-layouts:3");
    for (size_t i = 2; i < 7; i++)
        assert_non_null(strstr(book.runs.items[i].skipped, "not a run"));
    tpp_runs_keep_default_subset(&book.runs);
    assert_non_null(strstr(book.runs.items[1].skipped, "not JSON"));
    assert_non_null(strstr(book.runs.items[7].skipped, "unreadable"));
    assert_string_equal(book.runs.items[7].id, "layouts-a");
    release(&book);
}

static void hostile_values_are_skipped_and_never_trusted(void **state)
{
    (void)state;
    static const char *const edits[][2] = {
        {"\"layers\":40", "\"layers\":-1"},
        {"\"layers\":40", "\"layers\":1e999"},
        {"\"layers\":40", "\"layers\":4294967297"},
        {"\"heads\":40", "\"heads\":0"},
        {"\"hidden\":5120", "\"hidden\":1099511627776"},
        {"\"tp\":2", "\"tp\":1099511627776"},
        {"\"pp\":1", "\"pp\":\"one\""},
        {"\"vp\":1", "\"vp\":{}"},
        {"\"micro\":8", "\"micro\":0.5"},
        {"\"global\":2048", "\"global\":2047"},
        {"\"gpus\":64", "\"gpus\":0"},
        {"\"gpus_per_node\":8", "\"gpus_per_node\":[8]"},
        {"\"vocab\":128000", "\"vocab\":0"},
        {"\"seq_len\":2048", "\"seq_len\":true"},
        {"\"notes\":\"kernel", "\"notes\":7,\"other\":\"kernel"},
        {"\"model\":{", "\"model\":7,\"other\":{"},
        {"\"par\":{", "\"par\":[],\"other\":{"},
        {"\"complete\":true", "\"complete\":\"yes\""},
        {"\"zero_stage\":null", "\"zero_stage\":\"two\""},
    };
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        struct book book;
        struct tpp_error err;
        (void)read_text(&book, edited(edits[i][0], edits[i][1]), &err);
        assert_int_equal(book.runs.count, 1);
        if (book.runs.items[0].skipped[0] == '\0')
            fail_msg("%s was accepted", edits[i][1]);
        release(&book);
    }
}

static void a_file_without_a_run_is_an_error(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "\n\n", "not json\n", "[]\n{}\n", "{\"id\":1}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct book book;
        struct tpp_error err;
        assert_int_equal(read_text(&book, texts[i], &err), TPP_E_SYNTAX);
        assert_non_null(strstr(err.message, "no line is a run"));
        release(&book);
    }
}

static void a_missing_file_is_an_error(void **state)
{
    (void)state;
    struct tpp_runs runs = {0};
    struct tpp_run_profiles profiles = {0};
    struct tpp_error err;
    assert_int_equal(tpp_runs_load("/no/such/file.jsonl", &profiles, &runs, &err), TPP_E_IO);
    assert_int_equal(runs.count, 0);
}

static void rows_outside_the_default_subset_are_marked(void **state)
{
    (void)state;
    static const char *const edits[][3] = {
        {"\"complete\":true", "\"complete\":false", "not complete in its source"},
        {"\"complete\":true", "\"complete\":null", ""}, /* runs of one's own need not say so */
        {"\"suspect\":null", "\"suspect\":\"twice the peak\"", "suspect: the source contradicts itself"},
        {"\"suspect\":null", "\"remeasured_by\":\"layouts-b\"", "measured again in a later edition"},
        {"\"suspect\":null", "\"suspect\":null", ""},
    };
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        struct book book;
        struct tpp_error err;
        assert_int_equal(read_text(&book, edited(edits[i][0], edits[i][1]), &err), TPP_OK);
        assert_string_equal(book.runs.items[0].skipped, "");
        tpp_runs_keep_default_subset(&book.runs);
        assert_string_equal(book.runs.items[0].skipped, edits[i][2]);
        release(&book);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_complete_row_becomes_all_inputs),
        cmocka_unit_test(what_no_router_balances_meets_on_one_rank),
        cmocka_unit_test(adapters_sit_where_the_recipe_puts_them),
        cmocka_unit_test(alternate_layers_have_the_window),
        cmocka_unit_test(memory_is_read_in_the_unit_of_its_tool),
        cmocka_unit_test(a_timed_run_did_fit),
        cmocka_unit_test(a_smaller_last_micro_batch_is_kept_apart),
        cmocka_unit_test(what_cannot_be_predicted_says_why),
        cmocka_unit_test(vocabulary_layers_are_shared_as_the_method_says),
        cmocka_unit_test(a_number_of_offloaded_layers_is_of_their_activations),
        cmocka_unit_test(the_attention_core_alone_is_selective_recomputation),
        cmocka_unit_test(modules_that_are_recomputed_are_read_by_name),
        cmocka_unit_test(bridge_keeps_experts_whole),
        cmocka_unit_test(uneven_layers_are_split_as_the_engine_does),
        cmocka_unit_test(broken_lines_are_counted_and_the_rest_is_read),
        cmocka_unit_test(hostile_values_are_skipped_and_never_trusted),
        cmocka_unit_test(a_file_without_a_run_is_an_error),
        cmocka_unit_test(a_missing_file_is_an_error),
        cmocka_unit_test(rows_outside_the_default_subset_are_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
