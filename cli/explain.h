/* explain.h - the trees of named terms behind a prediction: every leaf is a term of the cost, every sum is exact. */
#ifndef TPP_CLI_EXPLAIN_H
#define TPP_CLI_EXPLAIN_H

#include "costmodel/base/json_write.h"
#include "costmodel/evaluate.h"

/* Time and memory as two trees, indented, with the share of the total. */
void tpp_explain_append(const struct tpp_cost *cost, struct tpp_text *out);
/* What makes up the static bytes: "one trained parameter takes weights 2, gradients 4, ... bytes". */
void tpp_explain_append_states(const struct tpp_stack *stack, struct tpp_text *out);
/* "explain": {"time": NODE, "memory": NODE}; NODE is {"name", "seconds" or "bytes", "children": [NODE...]}. Returns the
 * object: more may be added. */
struct cJSON *tpp_explain_add_json(const struct tpp_cost *cost, struct tpp_json_writer *writer, struct cJSON *parent);

#endif
