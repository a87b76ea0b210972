/* Tables of published measurements, and our own samples files. Rows are those of published tables; sums by hand. */
#include "calibrate/fit/import.h"
#include "costmodel/base/json_read.h"

#include "tests/support/check_number.h"
#include "tests/support/failing_alloc.h"

#include <string.h>

static struct tpp_samples read_text(const char *text)
{
    struct tpp_samples samples;
    struct tpp_error err = {0};
    tpp_samples_init(&samples);
    if (tpp_import_text(text, strlen(text), "table.csv", NULL, &samples, &err) != TPP_OK) {
        fail_msg("%s (%s)", err.message, err.where);
    }
    return samples;
}

static void tables_of_collectives_know_their_nodes(void **state)
{
    (void)state;
    struct tpp_samples samples = read_text("# GPU: NVIDIA H200; NCCL 2.29.2, one NVSwitch node; dtype half\n"
                                           "op,ngpus,message_elems,bytes,time_us,busbw_gbps\n"
                                           "alltoall,8,512,1024,16.26,0.0551\n");
    assert_string_equal(samples.items[0].device, "NVIDIA H200");
    assert_int_equal(samples.items[0].collective.operation, TPP_ALL_TO_ALL);
    assert_int_equal(samples.items[0].collective.num_nodes, 1);
    CHECK_NUMBER(samples.items[0].collective.bus_bytes_per_second, 1024 * 7.0 / 8 / 16.26e-6, 1e-12);
    tpp_samples_release(&samples);
    samples = read_text("op,ngpus,gpus_per_node,bytes,time_us,busbw_gbps\n"
                        "all_reduce,16,8,34816,61,1.07\nsend_recv,2,1,2048,24,0.08533\n");
    assert_int_equal(samples.items[0].collective.num_nodes, 2);
    assert_int_equal(samples.items[1].collective.operation, TPP_SEND_RECV);
    assert_int_equal(samples.items[1].collective.num_nodes, 2);
    tpp_samples_release(&samples);
}

static void tables_of_matrix_products_know_their_format(void **state)
{
    (void)state;
    struct tpp_samples samples = read_text("# GPU: NVIDIA L40S; dtype: fp8; dense peak 733 TFLOP/s\n"
                                           "m,n,k,time_us,tflops\n4096,8192,1024,137.5,499.8\n");
    assert_int_equal(samples.items[0].kind, TPP_SAMPLE_GEMM);
    assert_int_equal(samples.items[0].gemm.format, TPP_FORMAT_FP8);
    CHECK_NUMBER(samples.items[0].seconds, 137.5e-6, 1e-12);
    CHECK_NUMBER(samples.items[0].gemm.k, 1024, 0);
    tpp_samples_release(&samples);
    samples = read_text("batch,m,n,k,layout,accumulate,out_dtype,efficiency,tflops,time_us\n"
                        "1,4096,1536,5120,TN,False,bf16,0.78767,245.8,262.15\n"
                        "1,5120,1536,4096,NT,True,fp32,0.75,234,275.3\n");
    assert_int_equal(samples.items[0].gemm.layout, TPP_LAYOUT_TN);
    assert_false(samples.items[0].gemm.accumulates);
    assert_int_equal(samples.items[1].gemm.layout, TPP_LAYOUT_NT);
    assert_true(samples.items[1].gemm.accumulates);
    tpp_samples_release(&samples);
    samples = read_text("kind,groups,m,n,k,tflops,gbps,speedup\ngrouped_masked,2,512,4096,7168,801,3e3,1.2\n");
    assert_true(samples.items[0].gemm.is_grouped);
    CHECK_NUMBER(samples.items[0].seconds, 2.0 * 2 * 512 * 4096 * 7168 / 801e12, 1e-12);
    tpp_samples_release(&samples);
}

static void tables_of_attention_give_time_and_shape(void **state)
{
    (void)state;
    struct tpp_samples samples =
        read_text("# GPU: NVIDIA A100-SXM4-80GB; bf16 causal forward (prefill) attention; FlashAttention-2 (SGLang)\n"
                  "batch,seqlen,heads,kv_heads,head_dim,time_us,tflops\n1,4096,32,8,128,700.5,196.2\n");
    assert_int_equal(samples.items[0].attention.kernel, TPP_ATTENTION_FLASH2);
    assert_true(samples.items[0].attention.is_causal);
    tpp_samples_release(&samples);
    samples = read_text("gpu,backend,dtype,mask,window,batch,seqlen,q_heads,kv_heads,head_dim_qk,head_dim_vo,pass,"
                        "deterministic,time_ms,tflops\n"
                        "H200,cudnn,bf16,none,,2,8192,64,8,128,128,bwd,yes,18.1,607\n");
    const struct tpp_attention_sample *attention = &samples.items[0].attention;
    assert_int_equal(attention->kernel, TPP_ATTENTION_FLASH3);
    assert_true(attention->is_backward && attention->is_deterministic && !attention->is_causal);
    assert_string_equal(attention->implementation, "cudnn");
    assert_string_equal(samples.items[0].device, "H200");
    CHECK_NUMBER(samples.items[0].seconds, 18.1e-3, 1e-12);
    tpp_samples_release(&samples);
    /* full-matrix efficiency: 2 * 64 * 4096^2 * 256 = 549.76 GFLOP forward, 2.5 times that backward */
    samples = read_text("pass,batch,seqlen,heads,kv_heads,qk_dim,v_dim,qkv_contiguous,efficiency_fullmask,"
                        "tflops_fullmask\nsdp_bwd,1,4096,64,8,128,128,True,0.9,2000\n");
    CHECK_NUMBER(samples.items[0].seconds, 2.5 * 549.755813888e9 / 2000e12, 1e-9);
    tpp_samples_release(&samples);
}

static void tables_of_memory_bound_kernels_count_their_traffic(void **state)
{
    (void)state;
    struct tpp_samples samples = read_text("model,op,tp,tokens,width,time_us,gbps\n"
                                           "x,input_layernorm,1,4096,8192,193,695.4\nx,add,1,4096,8192,112,1798\n");
    CHECK_NUMBER(samples.items[0].memory.bytes, 2.0 * 4096 * 8192 * 2, 0);
    CHECK_NUMBER(samples.items[1].memory.bytes, 3.0 * 4096 * 8192 * 2, 0); /* 201.3 MB / 112 us = 1797.6 GB/s */
    tpp_samples_release(&samples);
    samples = read_text("gpu,what,traffic,gbps,peak_gbps,fraction,source\n"
                        "A800,\"a*1.2 elementwise, 4 Mi floats\",rw,1727.5,1935,0.893,x\n"
                        "A10G,copy,copy,245.7,600,0.819,x\nH200,host to device pinned,copy,55.4,63,0.88,x\n");
    assert_int_equal(samples.count, 2);
    CHECK_NUMBER(samples.items[0].memory.bytes_per_second, 1727.5e9, 1e-12);
    CHECK_NUMBER(samples.items[1].memory.bytes_per_second, 491.4e9, 1e-12);
    assert_int_equal(samples.files[0].num_notes, 1);
    tpp_samples_release(&samples);
}

static void broken_rows_of_a_table_are_counted(void **state)
{
    (void)state;
    struct tpp_samples samples = read_text("m,n,k,time_us,tflops\n1,2,3\n4,5,x,7,8\n0,1,1,1,1\n64,256,512,3.5,4.8\n"
                                           "64,256,512,-3.5,4.8\n64,256,512,1e999,4.8\n");
    assert_int_equal(samples.count, 1);
    assert_int_equal(samples.files[0].num_skipped_lines, 5);
    tpp_samples_release(&samples);
}

/* Rows that hold two measurements: both passes of attention, one of them, or their sum alone; dispatch and combine of
 * experts, rates without a size. A word where the second should be makes the line a broken one, and the first stays. */
static void rows_of_two_measurements_give_both(void **state)
{
    (void)state;
    struct tpp_samples samples = read_text("gpu,kernel,dtype,causal,head_dim,seqlen,batch,fwd_tflops,bwd_tflops\n"
                                           "H100,FA3,bf16,1,128,8192,2,648.1,512.5\nH100,FA3,bf16,1,128,8192,2,,500\n"
                                           "H100,FA3,bf16,1,128,8192,2,,\nH100,FA3,bf16,1,128,8192,2,640,x\n");
    assert_int_equal(samples.count, 4);
    CHECK_NUMBER(samples.items[0].attention.flops_per_second, 648.1e12, 1e-12);
    assert_false(samples.items[0].attention.is_backward);
    CHECK_NUMBER(samples.items[1].attention.flops_per_second, 512.5e12, 1e-12);
    assert_true(samples.items[1].attention.is_backward && samples.items[2].attention.is_backward);
    CHECK_NUMBER(samples.items[3].attention.flops_per_second, 640e12, 1e-12);
    assert_int_equal(samples.files[0].num_skipped_lines, 1);
    assert_non_null(strstr(samples.files[0].notes[0], "1 rows are not measurements"));
    tpp_samples_release(&samples);
    samples = read_text("arch,nic,topology,bottleneck,dispatch_gbps,combine_gbps,sms\n"
                        "SM90 (H100/H800),CX7 400 Gb/s,EP 8x2 (2 nodes),RDMA,90,81,12\n"
                        "SM100 (B200),none,EP 8 (1 node),NVLink,726,740,64\n"
                        "SM100 (B200),none,8 ranks,NVLink,726,740,64\n");
    assert_int_equal(samples.count, 4);
    assert_int_equal(samples.items[1].collective.operation, TPP_ALL_TO_ALL);
    assert_int_equal(samples.items[1].collective.num_ranks, 16);
    assert_int_equal(samples.items[1].collective.num_nodes, 2);
    assert_string_equal(samples.items[1].collective.dtype, "bfloat16");
    CHECK_NUMBER(samples.items[1].collective.bus_bytes_per_second, 81e9, 1e-12);
    assert_int_equal(samples.items[2].collective.num_ranks, 8);
    assert_int_equal(samples.items[2].collective.num_nodes, 1);
    assert_string_equal(samples.items[2].collective.dtype, "fp8");
    CHECK_NUMBER(samples.items[2].seconds, 0, 0);
    assert_int_equal(samples.files[0].num_skipped_lines, 1);
    tpp_samples_release(&samples);
}

static void products_of_an_unknown_layout_are_broken_rows(void **state)
{
    (void)state;
    struct tpp_samples samples = read_text("batch,m,n,k,layout,accumulate,time_us\n1,4096,1536,5120,TT,False,262.15\n"
                                           "1,4096,1536,5120,NN,False,262.15\n");
    assert_int_equal(samples.count, 1);
    assert_int_equal(samples.items[0].gemm.layout, TPP_LAYOUT_NN);
    assert_int_equal(samples.files[0].num_skipped_lines, 1);
    tpp_samples_release(&samples);
    samples = read_text("groups,m_per_group,n,k,stage,time_us\n160,154,3072,5120,fwd,1725.2\n"
                        "160,154,3072,5120,bwd_grad_w,3678.4\n160,154,3072,5120,update,3678.4\n");
    assert_int_equal(samples.count, 2);
    assert_int_equal(samples.items[1].gemm.layout, TPP_LAYOUT_NT);
    tpp_samples_release(&samples);
}

/* What operators hand over by mistake, and what spreadsheets put in front. */
static void files_that_are_no_text_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text, *what;
    } cases[] = {{"\x1f\x8b\x08 xx", "compressed with gzip"}, {"PK\x03\x04xx", "a zip archive"},
                 {"\xff\xfe#", "UTF-16"}, {"\x7f" "ELF", "a program"}, {"BZh91", "compressed with bzip2"}};
    struct tpp_samples samples;
    struct tpp_error err;
    tpp_samples_init(&samples);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(tpp_import_text(cases[i].text, strlen(cases[i].text), "x", NULL, &samples, &err), TPP_E_SYNTAX);
        assert_non_null(strstr(err.message, cases[i].what));
        assert_true(err.hint[0] && samples.num_files == 0);
    }
    tpp_samples_release(&samples);
    samples = read_text("\xef\xbb\xbfm,n,k,time_us\r\n4096,8192,1024,137.5\r\n");
    assert_int_equal(samples.count, 1);
    tpp_samples_release(&samples);
}

static void samples_of_a_later_format_are_refused(void **state)
{
    (void)state;
    static const char text[] = "{\"kind\":\"gemm\",\"m\":64,\"n\":64,\"k\":64,\"seconds\":1}\n"
                               "{\"kind\":\"run\",\"schema_version\":2}\n";
    struct tpp_samples samples;
    struct tpp_error err;
    tpp_samples_init(&samples);
    assert_int_equal(tpp_import_text(text, sizeof text - 1, "s.jsonl", NULL, &samples, &err), TPP_E_UNSUPPORTED);
    assert_string_equal(err.message, "samples of schema_version 2, this program reads 1");
    assert_non_null(strstr(err.where, "s.jsonl:2"));
    assert_int_equal(samples.count, 0);
    assert_int_equal(tpp_import_text(text, sizeof text - 1, "s.jsonl", NULL, &samples, NULL), TPP_E_UNSUPPORTED);
    tpp_samples_release(&samples);
}

/* A launch gap of 1e17 s is a broken line, not a profile that cannot be read. */
static void values_that_no_profile_may_have_are_broken_lines(void **state)
{
    (void)state;
    struct tpp_samples samples =
        read_text("{\"kind\":\"value\",\"key\":\"gpu.kernel_gap_seconds\",\"values\":[1e17]}\n"
                  "{\"kind\":\"value\",\"key\":\"gpu.overlap_slowdown_fraction\",\"values\":1.5}\n"
                  "{\"kind\":\"value\",\"key\":\"gpu.kernel_gap_seconds\",\"values\":[2e-6]}\n");
    assert_int_equal(samples.count, 1);
    assert_int_equal(samples.files[0].num_skipped_lines, 2);
    assert_non_null(strstr(samples.files[0].notes[0], "from 0 to 0.01"));
    tpp_samples_release(&samples);
}

/* 1e300 TFLOP/s or GB/s, and products that would take 1e300 s: their rates and times are no finite numbers. */
static void figures_that_nothing_measured_are_broken_rows(void **state)
{
    (void)state;
    static const char *const tables[] = {
        "gpu,what,traffic,gbps\nX,copy,copy,1e300\nX,copy,copy,1300\n",
        "kind,groups,m,n,k,tflops\ndense,1,9e15,9e15,9e15,1e-300\ndense,1,4096,4096,4096,700\n",
        "op,tokens,width,time_us\nadd,8192,8192,1e-300\nadd,8192,8192,100\n",
    };
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        struct tpp_samples samples = read_text(tables[i]);
        assert_int_equal(samples.count, 1);
        assert_int_equal(samples.files[0].num_skipped_lines, 1);
        tpp_samples_release(&samples);
    }
}

static void shapes_that_are_no_numbers_are_left_out(void **state)
{
    (void)state;
    struct tpp_samples samples = read_text("gpu,dtype,best_tflops,peak_tflops,efficiency,shape,software\n"
                                           "X,bf16,100,200,0.5,nanx1024x1024,t\n"
                                           "X,bf16,100,200,0.5,1024xinfx1024,t\n"
                                           "X,bf16,100,200,0.5,1024x1024x1024,t\n");
    assert_int_equal(samples.count, 1);
    CHECK_NUMBER(samples.items[0].seconds, 2.0 * 1024 * 1024 * 1024 / 100e12, 1e-12);
    tpp_samples_release(&samples);
}

static void unknown_tables_are_refused(void **state)
{
    (void)state;
    struct tpp_samples samples;
    struct tpp_error err;
    const char *text = "arch,nic,topology,bottleneck\nSM90,CX7,EP,RDMA\n";
    tpp_samples_init(&samples);
    assert_int_equal(tpp_import_text(text, strlen(text), "t.csv", NULL, &samples, &err), TPP_E_UNSUPPORTED);
    assert_string_equal(err.where, "t.csv");
    tpp_samples_release(&samples);
}

static const char run_lines[] =
    "{\"kind\":\"run\",\"schema_version\":1,\"device\":\"NVIDIA H200\",\"driver\":\"570.1\",\"command_line\":[\"x\"]}\n"
    "{\"kind\":\"gemm\",\"m\":4096,\"n\":8192,\"k\":1024,\"dtype\":\"bf16\",\"layout\":\"NT\",\"accumulate\":true,"
    "\"regime\":\"sustained\",\"wrong\":2,\"seconds\":[0.004,0.001,0.002,0.003,0.010]}\n"
    "{\"kind\":\"collective\",\"collective\":\"all_gather\",\"bytes\":1048576,\"ranks\":4,\"nodes\":2,\"dtype\":"
    "\"bfloat16\",\"in_place\":true,\"wrong\":0,\"seconds\":[5e-5]}\n"
    "{\"kind\":\"attention\",\"batch\":1,\"heads\":8,\"kv_heads\":8,\"query_length\":4096,\"key_length\":4096,"
    "\"qk_head_dim\":128,\"v_head_dim\":128,\"causal\":true,\"pass\":\"backward\",\"kernel\":\"flash3\","
    "\"seconds\":0.001}\n"
    "{\"kind\":\"memory_bound\",\"operation\":\"rms_norm\",\"bytes\":1000000,\"seconds\":[1e-6,3e-6]}\n"
    "{\"kind\":\"value\",\"key\":\"gpu.kernel_gap_seconds\",\"values\":[1e-6,2e-6,4e-6],\"device\":\"other\"}\n"
    "{\"kind\":\"gemm\",\"m\":0,\"n\":8192,\"k\":1024,\"seconds\":[1]}\n"
    "{\"kind\":\"gemm\",\"m\":4096,\"n\":81";

static void samples_files_keep_repeats_as_median_and_spread(void **state)
{
    (void)state;
    struct tpp_samples samples = read_text(run_lines);
    assert_int_equal(samples.count, 5);
    assert_int_equal(samples.files[0].num_skipped_lines, 2);
    const struct tpp_sample *gemm = &samples.items[0];
    CHECK_NUMBER(gemm->seconds, 0.003, 1e-12);
    CHECK_NUMBER(gemm->spread_fraction, 0.5 * (0.004 - 0.002) / 0.003, 1e-12); /* quartiles: 2nd and 4th of 5 */
    assert_int_equal(gemm->num_repeats, 5);
    assert_int_equal(gemm->gemm.layout, TPP_LAYOUT_NT);
    assert_string_equal(gemm->device, "NVIDIA H200");
    assert_true(gemm->gemm.is_sustained && gemm->is_wrong);
    assert_int_equal(samples.items[1].collective.num_nodes, 2);
    CHECK_NUMBER(samples.items[1].collective.bus_bytes_per_second, 0.75 * 1048576 / 5e-5, 1e-12);
    assert_true(samples.items[2].attention.is_backward);
    CHECK_NUMBER(samples.items[3].seconds, 2e-6, 1e-12);
    CHECK_NUMBER(samples.items[4].value.value, 2e-6, 1e-12);
    assert_string_equal(samples.items[4].device, "other");
    tpp_samples_release(&samples);
}

static void a_samples_file_without_a_row_says_what_is_wrong(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{\"kind\":\"gemm\",\"n\":1,\"k\":1,\"seconds\":1}", "\"m\""},
        {"{\"kind\":\"gemm\",\"m\":1,\"n\":1,\"k\":1,\"seconds\":[]}", "0 repeats"},
        {"{\"kind\":\"gemm\",\"m\":1,\"n\":1,\"k\":1,\"seconds\":[0]}", "found the number 0"},
        {"{\"kind\":\"gemm\",\"m\":1,\"n\":1,\"k\":1,\"seconds\":1,\"dtype\":\"fp4\"}", "fp4"},
        {"{\"kind\":\"value\",\"key\":\"gpu.speed\",\"values\":[1]}", "gpu.speed"},
        {"{\"kind\":\"overlap\"}", "empty"},
        {"{\"kind\":\"run\",\"device\":\"x\"}", "empty"},
        {"{\"kind\":\"collective\",\"collective\":\"dance\",\"bytes\":1,\"ranks\":2,\"nodes\":1,\"seconds\":1}",
         "dance"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tpp_samples samples;
        struct tpp_error err = {0};
        tpp_samples_init(&samples);
        assert_int_not_equal(tpp_import_text(cases[i][0], strlen(cases[i][0]), "s.jsonl", NULL, &samples, &err),
                             TPP_OK);
        if (!strstr(err.message, cases[i][1])) {
            fail_msg("\"%s\" does not name %s", err.message, cases[i][1]);
        }
        assert_int_equal(samples.num_files, 0);
        tpp_samples_release(&samples);
    }
}

static void rows_are_printed_with_the_keys_of_the_contract(void **state)
{
    (void)state;
    struct tpp_samples samples = read_text(run_lines);
    struct tpp_json_writer writer;
    struct tpp_text text;
    struct tpp_json_document *document;
    struct tpp_json rows, row, member;
    tpp_json_writer_init(&writer);
    tpp_text_init(&text);
    tpp_samples_add_json(&samples, &writer, writer.root);
    assert_int_equal(tpp_json_print(&writer, &text, NULL), TPP_OK);
    assert_int_equal(tpp_json_parse(text.data, text.length, "out", &document, NULL), TPP_OK);
    assert_true(tpp_json_member(tpp_json_root(document), "rows", &rows));
    assert_int_equal(tpp_json_size(rows), 5);
    assert_true(tpp_json_at(rows, 1, &row, NULL));
    static const char *const keys[] = {"collective",
                                       "bytes",
                                       "ranks",
                                       "nodes",
                                       "dtype",
                                       "in_place",
                                       "seconds",
                                       "algorithm_bandwidth_bytes_per_second",
                                       "bus_bandwidth_bytes_per_second"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_true(tpp_json_member(row, keys[i], &member));
    }
    double rate = 0;
    assert_int_equal(tpp_json_need_number(row, keys[7], 0, 1e18, &rate, NULL), TPP_OK);
    CHECK_NUMBER(rate, 1048576 / 5e-5, 1e-12);
    assert_true(tpp_json_member(tpp_json_root(document), "skipped_lines", &member));
    assert_true(tpp_json_member(tpp_json_root(document), "source", &member));
    assert_false(tpp_json_member(tpp_json_root(document), "device", &member)); /* two devices: null */
    tpp_json_document_free(document);
    tpp_json_writer_release(&writer);
    tpp_text_release(&text);
    tpp_samples_release(&samples);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "# Rank  0 Pid 1 on a device 0 [0x0] X\n#       size         count      type     time   algbw   busbw  error\n"
        "     1048576        262144     float    50.00   20.97   20.97      0\n",
        "m,n,k,time_us,tflops\n64,256,512,3.5,4.8\n", run_lines};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        for (uint64_t n = 0;; n++) {
            struct tpp_samples samples;
            struct tpp_error err = {0};
            tpp_samples_init(&samples);
            tpp_failing_alloc_arm(n);
            const enum tpp_code code = tpp_import_text(texts[i], strlen(texts[i]), "x", NULL, &samples, &err);
            const bool has_failed = tpp_failing_alloc_disarm();
            assert_int_equal(code, has_failed ? TPP_E_MEMORY : TPP_OK);
            assert_int_equal(samples.num_files, has_failed ? 0 : 1);
            tpp_samples_release(&samples);
            if (!has_failed) {
                break;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_of_collectives_know_their_nodes),
        cmocka_unit_test(tables_of_matrix_products_know_their_format),
        cmocka_unit_test(tables_of_attention_give_time_and_shape),
        cmocka_unit_test(tables_of_memory_bound_kernels_count_their_traffic),
        cmocka_unit_test(broken_rows_of_a_table_are_counted),
        cmocka_unit_test(figures_that_nothing_measured_are_broken_rows),
        cmocka_unit_test(rows_of_two_measurements_give_both),
        cmocka_unit_test(products_of_an_unknown_layout_are_broken_rows),
        cmocka_unit_test(files_that_are_no_text_are_told_apart),
        cmocka_unit_test(samples_of_a_later_format_are_refused),
        cmocka_unit_test(values_that_no_profile_may_have_are_broken_lines),
        cmocka_unit_test(shapes_that_are_no_numbers_are_left_out),
        cmocka_unit_test(unknown_tables_are_refused),
        cmocka_unit_test(samples_files_keep_repeats_as_median_and_spread),
        cmocka_unit_test(a_samples_file_without_a_row_says_what_is_wrong),
        cmocka_unit_test(rows_are_printed_with_the_keys_of_the_contract),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
