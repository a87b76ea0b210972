/* Fused attention on the host, of the rows that are checked: the last one and that behind the middle. */
#include "calibrate/bench/attention_graph.h"
#include "calibrate/bench/host_check.h"
#include "tests/calibrate/fake_stream.h"

#include <stdlib.h>
#include <string.h>

struct tpp_attention_library {
    struct CUstream_st *stream;
};

struct tpp_attention_plan {
    struct tpp_attention_library *library;
    struct tpp_bench_attention shape;
    enum tpp_bench_type type;
    enum tpp_attention_pass pass;
    void *done_for; /* the result that is there already */
};

enum tpp_code tpp_attention_library_new(struct CUstream_st *stream, struct tpp_attention_library **out,
                                        struct tpp_error *err)
{
    (void)err;
    *out = calloc(1, sizeof **out);
    (*out)->stream = stream;
    return TPP_OK;
}

void tpp_attention_library_free(struct tpp_attention_library *library)
{
    free(library);
}

const char *tpp_attention_library_version(const struct tpp_attention_library *library)
{
    (void)library;
    return "9.0.0";
}

enum tpp_code tpp_attention_plan_new(struct tpp_attention_library *library, const struct tpp_bench_attention *shape,
                                     enum tpp_bench_type type, enum tpp_attention_pass pass,
                                     struct tpp_attention_plan **out, struct tpp_error *err)
{
    (void)err;
    *out = calloc(1, sizeof **out);
    **out = (struct tpp_attention_plan){library, *shape, type, pass, NULL};
    return TPP_OK;
}

void tpp_attention_plan_free(struct tpp_attention_plan *plan)
{
    free(plan);
}

uint64_t tpp_attention_plan_workspace_bytes(const struct tpp_attention_plan *plan)
{
    return plan->pass == TPP_ATTENTION_FORWARD ? 0 : 4096;
}

struct work {
    struct tpp_attention_plan *plan;
    char *result;
};

static void one_row(const struct tpp_attention_plan *plan, uint64_t batch, uint64_t head, uint64_t row, char *result)
{
    const struct tpp_bench_attention *shape = &plan->shape;
    const size_t bytes = tpp_bench_type_bytes(plan->type);
    double *scratch = malloc((shape->length + shape->head_dim) * sizeof *scratch), *values = scratch + shape->length;
    const uint64_t first = ((batch * shape->length + row) * shape->num_heads + head) * shape->head_dim;
    if (plan->pass == TPP_ATTENTION_FORWARD) {
        tpp_bench_attention_output_row(shape, plan->type, 1, batch, head, row, scratch, values);
    } else {
        tpp_bench_attention_query_gradient_row(shape, plan->type, 1, batch, head, row, scratch, values);
    }
    for (uint64_t i = 0; i < shape->head_dim; i++) {
        const uint32_t bits = tpp_bench_encode(plan->type, (float)values[i] + (float)fake_setting("TPP_FAKE_WRONG"));
        memcpy(result + (first + i) * bytes, &bits, bytes);
    }
    free(scratch);
}

static int compute(void *context)
{
    const struct work *work = context;
    const struct tpp_bench_attention *shape = &work->plan->shape;
    if (work->plan->done_for == work->result) {
        return 0;
    }
    one_row(work->plan, shape->batch - 1, shape->num_heads - 1, shape->length / 2 + 1, work->result);
    one_row(work->plan, shape->batch - 1, 0, shape->length - 1, work->result);
    work->plan->done_for = work->result;
    return 0;
}

enum tpp_code tpp_attention_plan_run(const struct tpp_attention_plan *plan, const struct tpp_attention_buffers *buffers,
                                     struct tpp_error *err)
{
    const bool is_forward = plan->pass == TPP_ATTENTION_FORWARD;
    const struct work work = {(struct tpp_attention_plan *)(uintptr_t)plan, is_forward ? buffers->o : buffers->d_q};
    if (!buffers->q || (!is_forward && (!buffers->stats || !buffers->d_o || !buffers->sum || !buffers->workspace))) {
        return tpp_fail(err, TPP_E_INTERNAL, "attention", NULL, "a tensor has no memory");
    }
    fake_stream_push(plan->library->stream, compute, &work, sizeof work);
    return TPP_OK;
}
