/* Any bytes as a measurement file, and as a log: rows or an error; rows are whole, and their JSON can be printed. */
#include "tests/fuzz/fuzz_target.h"

#include "calibrate/fit/import.h"

#include <math.h>
#include <string.h>

static void check_samples(const struct tpp_samples *samples)
{
    struct tpp_json_writer writer;
    struct tpp_text text;
    for (size_t i = 0; i < samples->count; i++) {
        const struct tpp_sample *sample = &samples->items[i];
        FUZZ_CHECK(isfinite(sample->seconds) && sample->seconds >= 0);
        FUZZ_CHECK(sample->file < samples->num_files && sample->line > 0);
        FUZZ_CHECK(memchr(sample->device, 0, sizeof sample->device));
        FUZZ_CHECK(sample->kind != TPP_SAMPLE_COLLECTIVE || sample->seconds > 0 ||
                   sample->collective.bus_bytes_per_second > 0);
    }
    tpp_json_writer_init(&writer);
    tpp_text_init(&text);
    tpp_samples_add_json(samples, &writer, writer.root);
    FUZZ_CHECK(tpp_json_print(&writer, &text, NULL) == TPP_OK);
    tpp_json_writer_release(&writer);
    tpp_text_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tpp_samples samples;
    struct tpp_error err;
    tpp_samples_init(&samples);
    enum tpp_code code = tpp_import_text((const char *)data, size, "input_2n16g_reduce.txt", NULL, &samples, &err);
    FUZZ_CHECK((code == TPP_OK) == (samples.count > 0));
    FUZZ_CHECK(code == TPP_OK || (err.message[0] && err.where[0] && err.code == code));
    check_samples(&samples);
    code = tpp_import_nccl_log((const char *)data, size, "input", NULL, &samples, &err);
    check_samples(&samples);
    FUZZ_CHECK(code == TPP_OK || err.message[0]);
    tpp_samples_release(&samples);
    return 0;
}
