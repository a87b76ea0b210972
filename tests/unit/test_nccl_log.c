/* Logs of nccl-tests and rccl-tests, in every shape the programs and their launchers have given them.
 *
 * The logs in tests/fuzz/corpus/nccl_log are pieces of published ones (interleaved.txt excepted); expected values are
 * read from them by eye. With TPP_SHARED_LOGS=folder all logs of a collection with an index.json are read too. */
#include "calibrate/fit/import.h"
#include "costmodel/base/json_read.h"

#include "tests/support/check_number.h"
#include "tests/support/source_file.h"

#include <string.h>

/* What a log must give: the rows of one direction, and the first and last of them. */
struct expected {
    const char *file;
    const char *operation;
    const char *dtype;
    uint32_t num_ranks, num_nodes;
    size_t num_rows; /* both directions */
    uint64_t num_skipped;
    const char *device;
    uint64_t last_bytes;
    double last_bus_gigabytes; /* the log's own figure, last row, last direction */
};

static const struct expected logs[] = {
    /* microsoft/superbenchmark tests/data: tables without root, errors N/A, sizes of zero */
    {"no_redop_column.txt", "all_gather", "float", 8, 1, 12, 0, "A100-SXM4-40GB", 8589934592, 230.07},
    {"no_reduction_but_root.txt", "broadcast", "float", 8, 1, 8, 0, "A100-SXM4-40GB", 8589934592, 234.70},
    {"old_root.txt", "reduce", "float", 8, 1, 8, 0, "A100-SXM4-40GB", 8589934592, 228.83},
    /* NVIDIA/nccl issue: NCCL's own lines around and after the rows */
    {"info_between.txt", "all_reduce", "float", 2, 1, 6, 0, "NVIDIA A100-SXM4-80GB", 536870912, 192.18},
    /* GKE documentation: rows left out */
    {"elided.txt", "all_gather", "float", 2, 1, 8, 0, "NVIDIA B200", 8589934592, 564.14},
    /* aws-samples: mpirun --tag-output, three tags a row */
    {"prefix_in_row.txt", "all_reduce", "float", 16, 2, 10, 0, "NVIDIA H100 80GB HBM3", 17179869184, 487.01},
    /* Google Cloud documentation: the first comment lines lost their # */
    {"lost_hashes.txt", "all_reduce", "float", 16, 2, 8, 0, "NVIDIA H100 80GB HBM3", 8589934592, 337.35},
    /* ROCm and Pensando documentation: rank lines without device name or without group */
    {"no_device_name.txt", "all_reduce", "float", 16, 2, 8, 0, "", 8589934592, 369.08},
    {"no_group.txt", "all_reduce", "float", 16, 2, 8, 0, "AMD Instinct MI300X", 17179869184, 357.46},
    /* coreweave/nccl-tests: the last line of the rank list only */
    {"last_rank_only.txt", "all_reduce", "float", 1440, 360, 12, 0, "NVIDIA GB200", 17179869184, 404.77},
    /* public copy of an EFA-on-EKS blog post: one GPU */
    {"one_rank.txt", "all_reduce", "float", 1, 1, 12, 0, "NVIDIA A10G", 2147483648, 0},
    /* LUMI documentation: srun --label; 65536 / (512 * 4) = 32 ranks; the last row misses its last column */
    {"srun_label.txt", "all_gather", "float", 32, 0, 12, 0, "", 2097152, 0.03},
    /* NVIDIA/nccl issue: no list of ranks. 4.33 * 122131 / 268435.456 = 1.970 = 2 - 2/n: n is 62 to 72, so 64 */
    {"no_rank_list.txt", "all_reduce", "float", 64, 0, 4, 0, "", 536870912, 4.32},
    /* the same: a blank redop, and results wrong in place, as all_to_all is; 268435456 / (1048576 * 4) = 64 */
    {"blank_redop.txt", "all_to_all", "float", 64, 0, 4, 0, "", 536870912, 0.51},
    /* NVIDIA/nccl issue: the last row cut in its first number; a factor of 1 is that of two ranks */
    {"cut_row.txt", "all_reduce", "float", 2, 0, 10, 1, "", 33554432, 41.52},
    /* coreweave/nccl-tests: the list of ranks is "..."; 386.56 / 195.31 = 1.9792 = 2 * 95/96, whatever the name says */
    {"wrong_name_8n64g.txt", "all_reduce", "float", 96, 12, 10, 0, "", 8589934592, 385.56},
    /* made by hand: two broken rows, one whose time is not that of its bandwidth, one with half a row, one cut */
    {"interleaved.txt", "all_reduce", "float", 4, 1, 3, 4, "NVIDIA A100-SXM4-80GB", 8388608, 78.64},
};

static enum tpp_code import(const char *name, struct tpp_samples *samples, struct tpp_error *err)
{
    char path[1024], relative[256];
    snprintf(relative, sizeof relative, "tests/fuzz/corpus/nccl_log/%s", name);
    tpp_samples_init(samples);
    return tpp_import_file(source_path(path, sizeof path, relative), NULL, samples, err);
}

static bool has_note(const struct tpp_samples *samples, const char *words)
{
    for (uint32_t i = 0; i < samples->files[0].num_notes; i++) {
        if (strstr(samples->files[0].notes[i], words)) {
            return true;
        }
    }
    return false;
}

static void check_log(const struct expected *expected)
{
    struct tpp_samples samples;
    struct tpp_error err = {0};
    print_message("# %s\n", expected->file);
    if (import(expected->file, &samples, &err) != TPP_OK) {
        fail_msg("%s: %s", expected->file, err.message);
    }
    assert_int_equal(samples.count, expected->num_rows);
    assert_int_equal(samples.files[0].num_skipped_lines, expected->num_skipped);
    for (size_t i = 0; i < samples.count; i++) {
        const struct tpp_sample *sample = &samples.items[i];
        assert_int_equal(sample->kind, TPP_SAMPLE_COLLECTIVE);
        assert_string_equal(tpp_sample_operation_name(sample->collective.operation), expected->operation);
        assert_string_equal(sample->collective.dtype, expected->dtype);
        assert_int_equal(sample->collective.num_ranks, expected->num_ranks);
        assert_int_equal(sample->collective.num_nodes, expected->num_nodes);
        assert_string_equal(sample->device, expected->device);
    }
    const struct tpp_collective_sample *last = &samples.items[samples.count - 1].collective;
    assert_int_equal(last->bytes, expected->last_bytes);
    if (expected->last_bus_gigabytes > 1) {
        CHECK_NUMBER(last->bus_bytes_per_second, expected->last_bus_gigabytes * 1e9,
                     0.0012); /* 4.32 is 4.315 .. 4.325 */
    }
    tpp_samples_release(&samples);
}

static void every_shape_of_log_gives_its_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++) {
        check_log(&logs[i]);
    }
}

static void a_row_gives_both_directions_in_seconds_and_bytes(void **state)
{
    (void)state;
    struct tpp_samples samples;
    assert_int_equal(import("info_between.txt", &samples, NULL), TPP_OK);
    /* 134217728  857.6  156.51  156.51  0  819.6  163.76  163.76  0 on line 16, two ranks: factor 2 * 1/2 = 1 */
    const struct tpp_sample *out = &samples.items[0], *in = &samples.items[1];
    assert_int_equal(out->line, 16);
    assert_false(out->collective.in_place);
    assert_true(in->collective.in_place);
    assert_int_equal(out->collective.bytes, 134217728);
    CHECK_NUMBER(out->seconds, 857.6e-6, 1e-12);
    CHECK_NUMBER(in->seconds, 819.6e-6, 1e-12);
    CHECK_NUMBER(out->collective.bus_bytes_per_second, 134217728 / 857.6e-6, 1e-12);
    CHECK_NUMBER(out->collective.num_wrong, 0, 0);
    tpp_samples_release(&samples);
}

static void rows_of_zero_bytes_are_kept(void **state)
{
    (void)state;
    struct tpp_samples samples;
    assert_int_equal(import("no_redop_column.txt", &samples, NULL), TPP_OK);
    assert_int_equal(samples.items[0].collective.bytes, 0);
    CHECK_NUMBER(samples.items[0].seconds, 34.27e-6, 1e-12);
    assert_true(samples.items[0].collective.num_wrong < 0); /* N/A */
    tpp_samples_release(&samples);
}

static void several_runs_in_a_file_are_told_apart(void **state)
{
    (void)state;
    static const int operations[] = {TPP_ALL_REDUCE, TPP_ALL_GATHER, TPP_REDUCE_SCATTER, TPP_ALL_TO_ALL, TPP_SEND_RECV};
    struct tpp_samples samples;
    assert_int_equal(import("five_runs.txt", &samples, NULL), TPP_OK);
    size_t run = 0;
    for (size_t i = 0; i < samples.count; i++) {
        if (samples.items[i].collective.operation != operations[run]) {
            run++;
        }
        assert_true(run < 5);
        assert_int_equal(samples.items[i].collective.operation, operations[run]);
        assert_int_equal(samples.items[i].collective.num_ranks, 8);
        assert_int_equal(samples.items[i].collective.num_nodes, 1);
    }
    assert_int_equal(run, 4);
    assert_int_equal(samples.count, 30); /* 5 runs of 3 rows in two directions */
    tpp_samples_release(&samples);
}

static void wrong_results_are_kept_as_such(void **state)
{
    (void)state;
    struct tpp_samples samples;
    assert_int_equal(import("blank_redop.txt", &samples, NULL), TPP_OK);
    CHECK_NUMBER(samples.items[0].collective.num_wrong, 0, 0); /* 0e+00 */
    CHECK_NUMBER(samples.items[1].collective.num_wrong, 1, 0); /* 1e+00 in place */
    tpp_samples_release(&samples);
}

static void excerpts_and_oddities_are_noted(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"elided.txt", "rows were left out"},         {"last_rank_only.txt", "list of ranks is an excerpt"},
        {"one_rank.txt", "nothing was communicated"}, {"no_rank_list.txt", "64 ranks follow from the columns"},
        {"wrong_name_8n64g.txt", "says 64 ranks"},    {"impossible_bus.txt", "busbw below algbw"},
        {"impossible_bus.txt", "ranks left open"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tpp_samples samples;
        assert_int_equal(import(cases[i][0], &samples, NULL), TPP_OK);
        assert_true(has_note(&samples, cases[i][1]));
        tpp_samples_release(&samples);
    }
}

/* Rows of an all-gather on 8 ranks that wrote into the log of an all-reduce: 46.0 x 1.75 = 80.5, 46.0 x 0.875 = 40.25. A
 * whole column of the other factor is the log's own and is recomputed. */
static void lines_of_another_test_are_skipped(void **state)
{
    (void)state;
    static const char reduces[] = "     1048576        262144     float     sum      -1    22.80   45.99   80.48      0\n";
    static const char gathers[] = "     1048576        262144     float     sum      -1    22.80   45.99   40.24      0\n";
    const struct tpp_import_facts facts = {.num_ranks = 8, .num_nodes = 1, .operation = "all_reduce"};
    char text[1024];
    struct tpp_samples samples;
    tpp_samples_init(&samples);
    int length = snprintf(text, sizeof text, "%s%s%s%s", reduces, gathers, reduces, gathers);
    assert_int_equal(tpp_import_text(text, (size_t)length, "x", &facts, &samples, NULL), TPP_OK);
    assert_int_equal(samples.count, 2);
    assert_int_equal(samples.items[1].line, 3);
    assert_int_equal(samples.files[0].num_skipped_lines, 2);
    assert_true(has_note(&samples, "another test's lines are between"));
    tpp_samples_release(&samples);
    length = snprintf(text, sizeof text, "%s%s", gathers, gathers);
    assert_int_equal(tpp_import_text(text, (size_t)length, "x", &facts, &samples, NULL), TPP_OK);
    assert_int_equal(samples.count, 2);
    CHECK_NUMBER(samples.items[0].collective.bus_bytes_per_second, 1.75 * 1048576 / 22.8e-6, 1e-12);
    assert_true(has_note(&samples, "recomputed"));
    tpp_samples_release(&samples);
}

static void a_log_without_rows_is_an_error_that_says_why(void **state)
{
    (void)state;
    struct tpp_samples samples;
    struct tpp_error err;
    assert_int_equal(import("failed.txt", &samples, &err), TPP_E_SYNTAX);
    assert_non_null(strstr(err.message, "16 ranks listed"));
    assert_non_null(strstr(err.hint, "failed"));
    assert_int_equal(samples.num_files, 0);
    tpp_samples_release(&samples);
    assert_int_equal(import("hung.txt", &samples, &err), TPP_E_SYNTAX);
    assert_non_null(strstr(err.message, "2 ranks listed"));
    assert_non_null(strstr(err.hint, "hung"));
    assert_int_equal(tpp_import_text("hello\nworld\n", 12, "x.txt", NULL, &samples, &err), TPP_E_SYNTAX);
    assert_non_null(strstr(err.message, "format is not known"));
    assert_string_equal(err.where, "x.txt");
    tpp_samples_release(&samples);
}

static void what_the_reader_knows_goes_before_what_the_log_says(void **state)
{
    (void)state;
    static const char text[] = "       size         count      type   redop    root     time   algbw   busbw #wrong\n"
                               "     1048576        262144     float     sum      -1    50.00   20.97   31.46      0\n";
    const struct tpp_import_facts facts = {.num_ranks = 4, .num_nodes = 2, .operation = "all_reduce"};
    struct tpp_samples samples;
    tpp_samples_init(&samples);
    assert_int_equal(tpp_import_text(text, sizeof text - 1, "x", &facts, &samples, NULL), TPP_OK);
    assert_int_equal(samples.items[0].collective.num_ranks, 4);
    assert_int_equal(samples.items[0].collective.num_nodes, 2);
    CHECK_NUMBER(samples.items[0].collective.bus_bytes_per_second, 1.5 * 1048576 / 50e-6, 1e-12);
    tpp_samples_release(&samples);
}

/* A file of the collection against its entry in index.json. The two entries known to be wrong: the busbw column of
 * h100-sxm_8n64g_... is that of 96 ranks, and rtxa6000_1n1g_... has 25 rows. Logs that do not say are left open. */
static void check_collection_log(const char *folder, struct tpp_json entry)
{
    const char *file = "", *operation = "";
    uint64_t ranks, nodes, rows;
    char path[1024];
    struct tpp_samples samples;
    struct tpp_error err = {0};
    assert_int_equal(tpp_json_need_string(entry, "file", &file, &err), TPP_OK);
    assert_int_equal(tpp_json_need_string(entry, "collective", &operation, &err), TPP_OK);
    assert_int_equal(tpp_json_need_u64(entry, "ngpus", 1, 100000, &ranks, &err), TPP_OK);
    assert_int_equal(tpp_json_need_u64(entry, "nodes", 1, 100000, &nodes, &err), TPP_OK);
    assert_int_equal(tpp_json_need_u64(entry, "data_rows", 0, 100000, &rows, &err), TPP_OK);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    tpp_samples_init(&samples);
    const enum tpp_code code = tpp_import_file(path, NULL, &samples, &err);
    const bool is_one_rank = strstr(file, "rtxa6000_1n1g") != NULL;
    print_message("# %s: %zu rows, %s\n", file, samples.count, code ? err.message : "read");
    assert_int_equal(code != TPP_OK, rows == 0 && !is_one_rank);
    size_t num_out_of_place = 0;
    for (size_t i = 0; i < samples.count; i++) {
        const struct tpp_collective_sample *row = &samples.items[i].collective;
        num_out_of_place += !row->in_place;
        if (row->num_ranks != 0 && !strstr(file, "8n64g_all_reduce_ndr")) {
            assert_int_equal(row->num_ranks, ranks);
            assert_true(row->num_nodes == nodes || strstr(file, "_multi_"));
        }
    }
    assert_int_equal(num_out_of_place, is_one_rank ? 25 : rows);
    tpp_samples_release(&samples);
}

static void the_whole_collection_is_read(void **state)
{
    (void)state;
    const char *folder = getenv("TPP_SHARED_LOGS");
    char path[1024];
    struct tpp_json_document *document;
    struct tpp_json logs_array, entry;
    if (!folder) {
        print_message("# TPP_SHARED_LOGS is not set\n");
        return;
    }
    snprintf(path, sizeof path, "%s/index.json", folder);
    assert_int_equal(tpp_json_load(path, &document, NULL), TPP_OK);
    assert_true(tpp_json_member(tpp_json_root(document), "logs", &logs_array));
    for (size_t i = 0; tpp_json_at(logs_array, i, &entry, NULL); i++) {
        check_collection_log(folder, entry);
    }
    tpp_json_document_free(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_of_log_gives_its_table),
        cmocka_unit_test(a_row_gives_both_directions_in_seconds_and_bytes),
        cmocka_unit_test(rows_of_zero_bytes_are_kept),
        cmocka_unit_test(several_runs_in_a_file_are_told_apart),
        cmocka_unit_test(wrong_results_are_kept_as_such),
        cmocka_unit_test(excerpts_and_oddities_are_noted),
        cmocka_unit_test(lines_of_another_test_are_skipped),
        cmocka_unit_test(a_log_without_rows_is_an_error_that_says_why),
        cmocka_unit_test(what_the_reader_knows_goes_before_what_the_log_says),
        cmocka_unit_test(the_whole_collection_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
