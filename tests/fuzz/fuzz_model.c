/* Any bytes as a model config: an error that says what and where, or a checked shape whose counts add up and that is
 * written in the compact form and read back the same. */
#include "tests/fuzz/fuzz_target.h"

#include "costmodel/model/model_json.h"
#include "costmodel/model/model_reader.h"

#include <string.h>

static void check_error(enum tpp_code code, const struct tpp_error *err)
{
    FUZZ_CHECK(err->code == code && err->message[0] && err->where[0]);
    FUZZ_CHECK(code != TPP_E_INTERNAL && code != TPP_E_USAGE && code != TPP_E_IO);
}

static void check_counts(const struct tpp_model *model)
{
    struct tpp_model_counts counts;
    tpp_model_count(model, &counts);
    const uint64_t layers =
        counts.num_dense_layers * counts.dense_layer + (uint64_t)counts.num_moe_layers * counts.moe_layer;
    FUZZ_CHECK(counts.total == counts.embedding + counts.lm_head + counts.final_norm + layers);
    FUZZ_CHECK(counts.active <= counts.total && counts.total > 0);
    FUZZ_CHECK(counts.num_dense_layers + counts.num_moe_layers == model->num_layers);
}

static void check_round_trip(const struct tpp_model *model)
{
    struct tpp_model again;
    struct tpp_json_writer writer;
    struct tpp_json_document *document;
    struct tpp_text first, second;
    struct tpp_json_writer other;
    tpp_text_init(&first);
    tpp_text_init(&second);
    tpp_json_writer_init(&writer);
    tpp_json_writer_init(&other);
    tpp_model_add_json(model, &writer, writer.root);
    FUZZ_CHECK(tpp_json_print(&writer, &first, NULL) == TPP_OK);
    FUZZ_CHECK(tpp_json_parse(first.data, first.length, "printed", &document, NULL) == TPP_OK);
    FUZZ_CHECK(tpp_model_read(tpp_json_root(document), "again", &again, NULL) == TPP_OK);
    tpp_model_add_json(&again, &other, other.root);
    FUZZ_CHECK(tpp_json_print(&other, &second, NULL) == TPP_OK);
    FUZZ_CHECK(strcmp(first.data, second.data) == 0);
    tpp_json_document_free(document);
    tpp_json_writer_release(&writer);
    tpp_json_writer_release(&other);
    tpp_text_release(&first);
    tpp_text_release(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tpp_json_document *document;
    struct tpp_model model;
    struct tpp_error err = {0};
    enum tpp_code code = tpp_json_parse((const char *)data, size, "input", &document, &err);
    if (code != TPP_OK) {
        check_error(code, &err);
        return 0;
    }
    code = tpp_model_read(tpp_json_root(document), "input", &model, &err);
    tpp_json_document_free(document); /* nothing of the result points into it */
    if (code != TPP_OK) {
        check_error(code, &err);
        return 0;
    }
    FUZZ_CHECK(tpp_model_check(&model, &err) == TPP_OK);
    check_counts(&model);
    check_round_trip(&model);
    return 0;
}
