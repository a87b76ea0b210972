/* Replayed reserved memory against the peaks that 8 ranks reported (torch.cuda.max_memory_allocated and _reserved).
 *
 * Source of every row: tests/reference/runs/README.md (SimuMax, 8 x B200, Megatron-LM, fixed sequence lengths). The ranks of
 * one pipeline stage do the same work, so each stage is compared with the mean of its ranks; among themselves they differ by
 * up to 3 % in reserved memory, which is what thread timing alone does to the pools.
 *
 * The bounds: allocated is the memory walk's. Reserved is what ranks of one stage differ by among themselves, 1.5 % in the mean
 * and 3 % at most: what the order of allocations decides is replayed, what the timing of threads does is not. An argument names another file of rows. */
#include "costmodel/allocator/replay.h"
#include "costmodel/base/file.h"
#include "costmodel/base/json_read.h"
#include "costmodel/runs/run_hardware.h"
#include "costmodel/runs/run_reader.h"
#include "tests/support/check_number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *rows_path;

struct errors {
    double sum, sum_absolute, lowest, highest;
    int count;
};

static void add_error(struct errors *errors, double error)
{
    errors->lowest = errors->count == 0 || error < errors->lowest ? error : errors->lowest;
    errors->highest = errors->count == 0 || error > errors->highest ? error : errors->highest;
    errors->sum += error;
    errors->sum_absolute += fabs(error);
    errors->count++;
}

/* Mean over the stage's ranks of one figure, bytes. */
static double measured(struct tpp_json row, const char *name, uint32_t stage, uint32_t num_stages)
{
    struct tpp_json figures, ranks, rank;
    double sum = 0, value = 0;
    int count = 0;
    if (!tpp_json_member(row, "measured", &figures) || !tpp_json_member(figures, "peak_memory_by_rank_mb", &ranks))
        return 0;
    const size_t num_ranks = tpp_json_size(ranks);
    for (size_t i = 0; i < num_ranks; i++) {
        const char *number = NULL;
        assert_true(tpp_json_at(ranks, i, &rank, &number));
        if (strtoul(number, NULL, 10) / (num_ranks / num_stages) != stage)
            continue;
        assert_int_equal(tpp_json_need_number(rank, name, 0, 1e9, &value, NULL), TPP_OK);
        sum += value * 1048576;
        count++;
    }
    return count > 0 ? sum / count : 0;
}

static void compare_row(const struct tpp_run *run, struct tpp_run_profiles *profiles, struct tpp_json row,
                        struct errors *allocated, struct errors *reserved)
{
    struct tpp_error err = {0};
    struct tpp_evaluator *evaluator = NULL;
    struct tpp_hardware hardware = *tpp_run_profiles_find(profiles, run->cluster.profile, &err);
    tpp_run_cluster_apply(&run->cluster, &hardware);
    assert_int_equal(tpp_evaluator_new(&run->model, &hardware, &run->job, &run->stack, &evaluator, &err), TPP_OK);
    for (uint32_t stage = 0; stage < run->strategy.pipeline_parallel; stage++) {
        struct tpp_replay_options options = tpp_replay_defaults();
        struct tpp_replay replay;
        const double real[2] = {measured(row, "max_allocated_mb", stage, run->strategy.pipeline_parallel),
                                measured(row, "max_reserved_mb", stage, run->strategy.pipeline_parallel)};
        options.stage = stage;
        options.num_draws = 0;
        if (real[0] <= 0)
            continue;
        if (tpp_replay_plan(evaluator, &run->strategy, &options, &replay, &err) != TPP_OK)
            fail_msg("%s: %s (%s)", run->id, err.message, err.where);
        const double errors[2] = {(double)replay.peak_allocated_bytes / real[0] - 1,
                                  (double)replay.peak_reserved_bytes / real[1] - 1};
        print_message("# %s stage %u: allocated %+.2f %%, reserved %+.2f %% (measured %.2f / %.2f GiB)\n", run->id, stage,
                      100 * errors[0], 100 * errors[1], real[0] / 0x1p30, real[1] / 0x1p30);
        add_error(allocated, errors[0]);
        add_error(reserved, errors[1]);
        tpp_replay_release(&replay);
    }
    tpp_evaluator_free(evaluator);
}

static void replayed_memory_is_near_the_measured(void **state)
{
    (void)state;
    struct tpp_run_profiles profiles = {0};
    struct tpp_runs runs = {0};
    struct tpp_error err = {0};
    struct errors allocated = {0}, reserved = {0};
    char *data = NULL;
    size_t length = 0;
    if (tpp_runs_load(rows_path, &profiles, &runs, &err) != TPP_OK)
        fail_msg("%s: %s", rows_path, err.message);
    assert_int_equal(tpp_file_read(rows_path, (size_t)64 << 20, &data, &length, &err), TPP_OK);
    char *line = data;
    for (size_t i = 0; i < runs.count; i++) {
        char *end = strchr(line, '\n');
        struct tpp_json_document *document = NULL;
        assert_int_equal(tpp_json_parse(line, end != NULL ? (size_t)(end - line) : strlen(line), "row", &document, &err),
                         TPP_OK);
        if (runs.items[i].skipped[0] == '\0')
            compare_row(&runs.items[i], &profiles, tpp_json_root(document), &allocated, &reserved);
        tpp_json_document_free(document);
        line = end != NULL ? end + 1 : line + strlen(line);
    }
    print_message("# %d stages: allocated mean |error| %.2f %% (%+.2f .. %+.2f), reserved %.2f %% (bias %+.2f, %+.2f .. %+.2f)\n",
                  reserved.count, 100 * allocated.sum_absolute / allocated.count, 100 * allocated.lowest,
                  100 * allocated.highest, 100 * reserved.sum_absolute / reserved.count, 100 * reserved.sum / reserved.count,
                  100 * reserved.lowest, 100 * reserved.highest);
    assert_in_range(reserved.count, 4, 1000);
    assert_true(allocated.sum_absolute / allocated.count < 0.006);
    assert_true(allocated.lowest > -0.01); /* never optimistic by more */
    assert_true(reserved.sum_absolute / reserved.count < 0.015);
    assert_true(reserved.lowest > -0.03 && reserved.highest < 0.03);
    free(data);
    tpp_runs_release(&runs);
    tpp_run_profiles_release(&profiles);
}

int main(int argc, char **argv)
{
    char path[1024];
    const char *root = getenv("TPP_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/tests/reference/runs/simumax-b200.jsonl", root != NULL ? root : ".");
    rows_path = argc > 1 ? argv[1] : path;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replayed_memory_is_near_the_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
