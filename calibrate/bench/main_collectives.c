/* tp-calibrate-collectives: NCCL on the groups of a training job, in the manner of nccl-tests. */
#include "calibrate/bench/collectives_run.h"

#include <stdlib.h>
#include <string.h>

struct arguments {
    const char *collectives, *groups, *type;
    uint64_t min_bytes, max_bytes;
    double factor;
    bool no_check, alone_only;
};

static struct arguments arguments;

static const struct tpp_bench_option options[] = {
    {"collectives", TPP_BENCH_LIST, offsetof(struct arguments, collectives), "LIST",
     "all_gather|reduce_scatter|all_reduce|all_to_all|send_recv",
     "all_gather,reduce_scatter,all_reduce,all_to_all,send_recv", 0, 0, "which, with commas"},
    {"groups", TPP_BENCH_TEXT, offsetof(struct arguments, groups), "LIST", NULL, NULL, 0, 0,
     "which groups, with commas, of node-N, node-N-strided, node, across-N, world; all that exist without it"},
    {"alone", TPP_BENCH_FLAG, offsetof(struct arguments, alone_only), .help = "leave out groups that work at once"},
    {"type", TPP_BENCH_CHOICE, offsetof(struct arguments, type), NULL, "bf16|fp32", "bf16", 0, 0,
     "type of the elements"},
    {"min-bytes", TPP_BENCH_BYTES, offsetof(struct arguments, min_bytes), "SIZE", NULL, "1KiB", 4, 1e12,
     "smallest message"},
    {"max-bytes", TPP_BENCH_BYTES, offsetof(struct arguments, max_bytes), "SIZE", NULL, "4GiB", 4, 1e12,
     "largest message, less where two buffers of it do not fit"},
    {"factor", TPP_BENCH_NUMBER, offsetof(struct arguments, factor), "X", NULL, "2", 1.1, 1024,
     "step from one size to the next"},
    {"no-check", TPP_BENCH_FLAG, offsetof(struct arguments, no_check), .help = "do not check the results"},
    {.name = NULL},
};

/* All sizes of one collective on one plan; ends early, on all ranks together, when the budget is used up. */
static enum tpp_code run_sizes(struct tpp_collectives *bench, enum tpp_bench_collective collective, bool *out_of_time,
                               struct tpp_error *err)
{
    uint64_t sizes[128];
    const size_t count = tpp_bench_size_grid(arguments.min_bytes, bench->max_bytes, arguments.factor, sizes, 128);
    enum tpp_code code = TPP_OK;
    for (size_t i = 0; i < count && code == TPP_OK && !*out_of_time; i++) {
        struct tpp_collective_point point = {.collective = collective, .bytes = sizes[i], .check = !arguments.no_check};
        for (int in_place = 0; in_place <= (int)tpp_bench_has_in_place(collective) && code == TPP_OK; in_place++) {
            point.in_place = in_place;
            code = tpp_collectives_measure(bench, &point, err);
        }
        code = code ? code : tpp_collectives_out_of_time(bench, out_of_time, err);
    }
    return code;
}

static enum tpp_code run_plan(struct tpp_collectives *bench, const struct tpp_bench_groups *plan, bool *out_of_time,
                              struct tpp_error *err)
{
    enum tpp_code code = tpp_collectives_begin(bench, plan, err);
    tpp_bench_say(bench->run, "%s%s: groups of %u ranks", plan->name, plan->concurrent ? ", all at once" : "",
                  tpp_bench_group_size(plan));
    for (int collective = 0; collective < TPP_BENCH_COLLECTIVE_COUNT && code == TPP_OK; collective++) {
        const enum tpp_bench_collective kind = (enum tpp_bench_collective)collective;
        if (tpp_bench_list_contains(arguments.collectives, tpp_bench_collective_name(kind))) {
            code = run_sizes(bench, kind, out_of_time, err);
        }
    }
    tpp_collectives_end(bench, code);
    return code;
}

static enum tpp_code run_plans(struct tpp_collectives *bench, struct tpp_error *err)
{
    struct tpp_bench_groups plans[TPP_BENCH_MAX_GROUPS];
    const size_t count = tpp_bench_group_plans(bench->num_nodes, bench->run->world.ranks_per_node, plans);
    enum tpp_code code = TPP_OK;
    bool out_of_time = false;
    size_t num_run = 0;
    for (size_t i = 0; i < count && code == TPP_OK && !out_of_time; i++) {
        const bool is_wanted =
            tpp_bench_list_contains(arguments.groups, plans[i].name) && !(plans[i].concurrent && arguments.alone_only);
        if (is_wanted) {
            num_run++;
            code = run_plan(bench, &plans[i], &out_of_time, err);
        }
    }
    if (code == TPP_OK && num_run == 0) {
        return tpp_fail(err, TPP_E_USAGE, "--groups", "see --help for the names, which depend on ranks and nodes",
                        "none of these groups exists on %u nodes of %u ranks", bench->num_nodes,
                        bench->run->world.ranks_per_node);
    }
    if (out_of_time) {
        tpp_bench_say(bench->run, "the time budget is used up: not all points were measured");
    }
    return code;
}

static enum tpp_code run(struct tpp_bench_run *run, struct tpp_error *err)
{
    struct tpp_collectives bench;
    enum tpp_code code = tpp_collectives_open(run, arguments.max_bytes, &bench, err);
    bench.type = strcmp(arguments.type, "fp32") == 0 ? TPP_BENCH_FP32 : TPP_BENCH_BF16;
    code = code ? code : tpp_collectives_memory(&bench, err);
    code = code ? code : run_plans(&bench, err);
    tpp_collectives_close(&bench, code);
    return code;
}

int main(int argc, char **argv)
{
    const struct tpp_bench_program program = {
        .name = "tp-calibrate-collectives",
        .about =
            "Measures NCCL's collectives on the groups of a training job: inside a node, one rank a node, several,\n"
            "strided, the whole world; alone and at once. Sizes and bandwidths are those of nccl-tests. Start one\n"
            "rank a GPU with torchrun, srun or mpirun, or with --spawn N on one machine.",
        .options = options,
        .arguments = &arguments,
        .is_distributed = true,
        .default_budget = "900",
        .run = run,
    };
    return tpp_bench_main(&program, argc, (const char *const *)argv);
}
