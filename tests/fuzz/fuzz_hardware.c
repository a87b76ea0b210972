/* Any bytes as a hardware profile: an error that says what and where, or values in their range that are written and
 * read back the same. */
#include "tests/fuzz/fuzz_target.h"

#include "hwprofiles/profiles.h"

#include <string.h>

static void check_error(enum tpp_code code, const struct tpp_error *err)
{
    FUZZ_CHECK(err->code == code && err->message[0] && err->where[0]);
    FUZZ_CHECK(code != TPP_E_INTERNAL && code != TPP_E_USAGE && code != TPP_E_IO);
}

static void check_round_trip(const struct tpp_hardware *hardware)
{
    struct tpp_hardware again;
    struct tpp_json_writer writer;
    struct tpp_json_document *document;
    struct tpp_text text;
    uint32_t count;
    tpp_text_init(&text);
    tpp_json_writer_init(&writer);
    tpp_hardware_add_json(hardware, &writer, writer.root);
    FUZZ_CHECK(tpp_json_print(&writer, &text, NULL) == TPP_OK);
    FUZZ_CHECK(tpp_json_parse(text.data, text.length, "printed", &document, NULL) == TPP_OK);
    FUZZ_CHECK(tpp_hardware_read(tpp_json_root(document), &again, NULL) == TPP_OK);
    FUZZ_CHECK(strcmp(again.name, hardware->name) == 0 && strcmp(again.gpu.name, hardware->gpu.name) == 0);
    FUZZ_CHECK(strcmp(again.description, hardware->description) == 0);
    (void)tpp_hardware_fields(&count);
    for (uint32_t i = 0; i < count; i++) {
        FUZZ_CHECK(tpp_hardware_get(&again, i) == tpp_hardware_get(hardware, i));
        FUZZ_CHECK(again.origins[i].provenance == hardware->origins[i].provenance);
        FUZZ_CHECK(strcmp(again.origins[i].source, hardware->origins[i].source) == 0);
    }
    tpp_json_document_free(document);
    tpp_json_writer_release(&writer);
    tpp_text_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tpp_json_document *document;
    struct tpp_hardware hardware;
    struct tpp_error err = {0};
    enum tpp_code code = tpp_json_parse((const char *)data, size, "input", &document, &err);
    if (code != TPP_OK) {
        check_error(code, &err);
        return 0;
    }
    code = tpp_hardware_read(tpp_json_root(document), &hardware, &err);
    tpp_json_document_free(document); /* nothing of the result points into it */
    if (code != TPP_OK) {
        check_error(code, &err);
        return 0;
    }
    FUZZ_CHECK(tpp_hardware_check(&hardware, &err) == TPP_OK);
    FUZZ_CHECK(tpp_hardware_nic_bytes_per_second_per_gpu(&hardware) > 0);
    check_round_trip(&hardware);
    return 0;
}
