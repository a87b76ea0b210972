/* peak_tensors.h - the moment of a step at which a rank holds most, and the tensors that it holds then.
 *
 * Read from the trace (trace.h) with sequences of the job's length: what the categories of the memory walk (memory_walk.h) are
 * made of. Bytes are as asked for, without the allocator's rounding. */
#ifndef TPP_COSTMODEL_ALLOCATOR_PEAK_TENSORS_H
#define TPP_COSTMODEL_ALLOCATOR_PEAK_TENSORS_H

#include "costmodel/allocator/trace.h"

#define TPP_PEAK_MAX_TENSORS 12

/* All tensors of one name that are alive at the peak. */
struct tpp_peak_tensors {
    const char *name; /* static text */
    uint64_t bytes, largest_bytes;
    uint32_t count;
    uint32_t first_layer, last_layer;             /* of the model; TPP_TRACE_NO_LAYER: outside the layers */
    uint32_t first_micro_batch, last_micro_batch; /* UINT32_MAX: made outside the passes */
};

struct tpp_peak {
    uint32_t stage, step;       /* step: from 1. The optimizer's moments are there from the end of the first on */
    enum tpp_trace_phase phase; /* at which the last tensor was made */
    uint32_t micro_batch;       /* 0 outside the passes */
    uint32_t layer;             /* TPP_TRACE_NO_LAYER: outside the layers */
    uint64_t alive_bytes;       /* of all tensors */
    struct tpp_peak_tensors tensors[TPP_PEAK_MAX_TENSORS]; /* most bytes first, then by name */
    uint32_t count;
    uint32_t num_other_names; /* of tensors that are not in the list */
    uint64_t other_bytes;
};

/* The first such moment of stage `stage` after set-up. Errors as tpp_tracer_new: TPP_E_UNSUPPORTED for what has no trace. */
enum tpp_code tpp_peak_find(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy, uint32_t stage,
                            struct tpp_peak *out, struct tpp_error *err);

#endif
