/* nccl_log.h - the parts of reading a log of nccl-tests: what one row says, and what one run of it says. */
#ifndef TPP_CALIBRATE_FIT_NCCL_LOG_H
#define TPP_CALIBRATE_FIT_NCCL_LOG_H

#include "calibrate/fit/import.h"
#include "calibrate/fit/lines.h"

/* time, algbw, busbw and #wrong of one half of a row. */
struct tpp_nccl_half {
    bool is_present;
    double seconds, seconds_half_step; /* as printed, and the rounding that may hide in it */
    double bus_bytes_per_second, bus_half_step;
    bool has_wrong;   /* the column is there, even as N/A */
    double num_wrong; /* negative: N/A */
};

struct tpp_nccl_row {
    uint32_t line;
    uint64_t bytes, count;
    char dtype[16];
    uint32_t element_bytes;
    bool has_redop; /* a reduction is named: sum, prod, ... ; false for "none" and a blank */
    bool has_root;
    int root;
    struct tpp_nccl_half halves[2]; /* out of place, in place */
    bool is_partial;                /* something stands where the second half should be: the line was mixed or cut */
};

/* Whether the table has a root column: what its header says, or nothing known. */
enum tpp_nccl_root { TPP_NCCL_ROOT_OPEN, TPP_NCCL_ROOT_ABSENT, TPP_NCCL_ROOT_PRESENT };

/* What became of a line of text. */
enum tpp_nccl_line { TPP_NCCL_NO_ROW, TPP_NCCL_ROW, TPP_NCCL_BROKEN };

/* Size of an element of an nccl-tests type name; 0 when it is none. */
uint32_t tpp_nccl_element_bytes(const char *dtype);
/* Reads a row that may stand behind a launcher's prefix; `line` is cut up. `broken` rows are those that look like one
 * and are not whole or contradict themselves (their time is not the time of their bandwidth). */
enum tpp_nccl_line tpp_nccl_parse_row(char line[TPP_LINE_SIZE], enum tpp_nccl_root root, struct tpp_nccl_row *row);

#define TPP_NCCL_MAX_HOSTS 4096

/* What the lines around the rows of one run say. */
struct tpp_nccl_run {
    int operation; /* named by the program's title or file name; TPP_OPERATION_UNKNOWN */
    enum tpp_nccl_root root;
    bool has_redop_column, has_header;
    uint32_t num_ranks;                 /* highest rank listed + 1; 0: none listed */
    uint32_t num_listed;                /* rank lines seen */
    uint32_t num_devices;               /* highest device index of a node + 1 */
    uint32_t num_hosts;                 /* different host names in the rank lines */
    uint64_t hosts[TPP_NCCL_MAX_HOSTS]; /* digests of their names */
    uint32_t info_ranks;                /* "nranks N" of NCCL's own lines */
    char device[64];
    bool is_elided;            /* "..." among the rows */
    bool has_failure;          /* "Test NCCL failure" and the like */
    struct tpp_nccl_row *rows; /* owned by the reader */
    size_t num_rows, row_capacity;
};

/* Decides what the run leaves open, from its columns, then from `facts`, then from the source's name, and appends its
 * rows. Halves that contradict the number of ranks are dropped and counted when their last column is missing, or when
 * others do not contradict it: then another test wrote between the lines. */
enum tpp_code tpp_nccl_finish_run(struct tpp_nccl_run *run, const char *source, const struct tpp_import_facts *facts,
                                  struct tpp_samples *samples, struct tpp_error *err);

/* Operation named by a word such as all_gather_perf, alltoall, all-reduce in `text`; TPP_OPERATION_UNKNOWN. */
int tpp_nccl_operation_in(const char *text);
/* Ranks that fit the bus bandwidth of all rows; 0 when none or too many do. */
uint32_t tpp_nccl_infer_ranks(const struct tpp_nccl_run *run, int operation);
/* Whether the bus bandwidths of the rows allow that number of ranks; true when they say nothing about it. */
bool tpp_nccl_ranks_fit(const struct tpp_nccl_run *run, int operation, uint32_t num_ranks);
/* Possible operations as a mask of 1 << operation, from the columns and with the ranks when known (else 0). */
unsigned tpp_nccl_possible_operations(const struct tpp_nccl_run *run, uint32_t num_ranks);

#endif
