/* run.h - one measured training run: what was measured, and the inputs that predict it.
 *
 * Filled by run_reader.h from one line of a runs file (JSON, one object a line; the schema is described in
 * tests/reference/runs/README.md), predicted by run_predict.h, scored by run_report.h. Plain values. */
#ifndef TPP_COSTMODEL_RUNS_RUN_H
#define TPP_COSTMODEL_RUNS_RUN_H

#include "costmodel/job.h"
#include "costmodel/model/model.h"
#include "costmodel/stack.h"
#include "costmodel/strategy.h"

#include <stdbool.h>
#include <stdint.h>

/* Which quantity a published peak is, and so which predicted one it is compared with. */
enum tpp_run_memory_kind {
    TPP_RUN_MEMORY_UNKNOWN,   /* the source does not say: listed, never scored */
    TPP_RUN_MEMORY_ALLOCATED, /* torch max allocated -> peak_allocated_bytes */
    TPP_RUN_MEMORY_RESERVED,  /* torch max reserved -> peak_reserved_bytes */
    TPP_RUN_MEMORY_DEVICE,    /* nvidia-smi, hipMemGetInfo -> device_total_bytes */
};

/* Answers of a source to a yes/no question. */
enum tpp_run_answer { TPP_RUN_UNSAID, TPP_RUN_NO, TPP_RUN_YES };

/* The machine: a shipped profile and what the source says about this cluster in particular. */
struct tpp_run_cluster {
    char profile[64];            /* name of a shipped profile; "" when there is none for the GPU */
    uint32_t gpus_per_node;      /* GPUs of one NVLink domain; 0 = the profile's */
    uint32_t num_nics;           /* per node; 0 = the profile's */
    double nic_bytes_per_second; /* one NIC, nominal; 0 = the profile's */
    double bus_fraction;         /* NVLink bus rates over those of the profile: 1, less for an A800 */
};

struct tpp_run {
    char id[96];
    char group[64];    /* name of the file without folder and ending */
    char skipped[200]; /* why it cannot be predicted; "" = it can */
    char gpu[64];      /* name of the profile's GPU; "" when it was not found: then the stack is not valid either */

    /* What was measured. */
    double measured_step_seconds; /* 0 = not measured */
    double measured_peak_bytes;   /* 0 = not measured */
    enum tpp_run_memory_kind memory_kind;
    enum tpp_run_answer out_of_memory; /* YES: it did not run; NO: it ran */
    bool broken;                       /* the line is no run at all */
    bool
        complete; /* the source states every field that a predictor needs; a row that does not say counts as complete */
    bool is_published; /* the row says where it was published ("url_or_repo_path"); else one's own */
    bool suspect; /* the source contradicts itself */
    bool remeasured; /* a later edition measured the same configuration again */

    /* What predicts it; valid when `skipped` is empty. */
    struct tpp_model model;
    struct tpp_run_cluster cluster;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_strategy strategy; /* num_micro_batches counts the full micro-batches only */
    uint32_t remainder_sequences; /* sequences of one last, smaller micro-batch; 0 = all are full */
};

/* True for the rows of which every accuracy figure is made: complete, not suspect, not measured again later. */
static inline bool tpp_run_in_default_subset(const struct tpp_run *run)
{
    return run->complete && !run->suspect && !run->remeasured;
}

#endif
