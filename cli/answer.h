/* answer.h - beginning and ending the JSON object of an answer, the same for every command. */
#ifndef TPP_CLI_ANSWER_H
#define TPP_CLI_ANSWER_H

#include "cli/command.h"
#include "costmodel/base/json_write.h"

/* Starts an answer: {"schema_version", "tool": {"name", "version"}. Ended by tpp_answer_finish. */
void tpp_answer_begin(struct tpp_json_writer *writer);
/* Prints the object into the answer and releases the writer, whatever happens. */
enum tpp_code tpp_answer_finish(struct tpp_json_writer *writer, struct tpp_answer *answer, struct tpp_error *err);

#endif
