#include "cli/answer.h"

void tpp_answer_begin(struct tpp_json_writer *writer)
{
    tpp_json_writer_init(writer);
    tpp_json_add_u64(writer, writer->root, "schema_version", TPP_JSON_SCHEMA_VERSION);
    struct cJSON *tool = tpp_json_add_object(writer, writer->root, "tool");
    tpp_json_add_string(writer, tool, "name", TPP_PROGRAM_NAME);
    tpp_json_add_string(writer, tool, "version", TPP_VERSION);
}

enum tpp_code tpp_answer_finish(struct tpp_json_writer *writer, struct tpp_answer *answer, struct tpp_error *err)
{
    const enum tpp_code code = tpp_json_print(writer, &answer->text, err);
    tpp_json_writer_release(writer);
    return code;
}
