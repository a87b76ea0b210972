/* explain_peak.h - the tensors alive at the peak, as --explain shows them below the tree of memory. */
#ifndef TPP_CLI_EXPLAIN_PEAK_H
#define TPP_CLI_EXPLAIN_PEAK_H

#include "cli/command.h"
#include "cli/job_options.h"
#include "costmodel/allocator/peak_tensors.h"
#include "costmodel/base/json_write.h"
#include "planner/search.h"

struct tpp_explained_peak {
    bool is_known;            /* false: the plan has no trace; `reason` says why */
    struct tpp_peak peak;
    struct tpp_error reason;
};

/* Of the plan's fullest stage. A plan that cannot be traced is an answer; TPP_E_MEMORY is the only failure. */
enum tpp_code tpp_explained_peak_find(const struct tpp_job_inputs *inputs, const struct tpp_plan *plan,
                                      struct tpp_explained_peak *out, struct tpp_error *err);
/* When it is, and a table of its largest tensors; one line when it is not known. False when out of memory. */
bool tpp_explained_peak_append(const struct tpp_explained_peak *explained, struct tpp_answer *answer);
/* "peak": {"stage", "step", "phase", "micro_batch", "layer", "alive_bytes", "tensors": [{"name", "bytes", "largest_bytes",
 * "count", "layers", "micro_batches"}...], "other_names", "other_bytes"}; null when it is not known. "layers" and
 * "micro_batches" are [first, last], null where tensors belong to none. */
void tpp_explained_peak_add_json(const struct tpp_explained_peak *explained, struct tpp_json_writer *writer,
                                 struct cJSON *parent);

#endif
