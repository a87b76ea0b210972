#include "calibrate/bench/host_program.h"

#include "calibrate/bench/host_bootstrap.h"
#include "calibrate/bench/host_socket.h"
#include "calibrate/bench/host_spawn.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef TPP_BENCH_MPI_BUILT
#include "calibrate/bench/mpi_world.h"
#endif

#define AT(field) offsetof(struct tpp_bench_common, field)

static const struct tpp_bench_option common_options[] = {
    {"output", TPP_BENCH_TEXT, AT(output), "FILE", NULL, "-", 0, 0, "where the samples go, - is standard output"},
    {"append", TPP_BENCH_FLAG, AT(append), .help = "keep what the output file holds"},
    {"repeats", TPP_BENCH_COUNT, AT(repeats), "N", NULL, "9", 3, 10000, "measured repeats of each point"},
    {"timeout", TPP_BENCH_NUMBER, AT(timeout_seconds), "SECONDS", NULL, "120", 1, 86400,
     "how long one step may take before the run ends with an error"},
    {"seed", TPP_BENCH_COUNT, AT(seed), "N", NULL, "1", 0, 9e15, "of the random data"},
    {.name = NULL},
};

static const struct tpp_bench_option device_options[] = {
    {"device", TPP_BENCH_COUNT, AT(device), "N", NULL, "0", 0, 1023, "index of the GPU"},
    {.name = NULL},
};

static const struct tpp_bench_option spawn_options[] = {
    {"spawn", TPP_BENCH_COUNT, AT(spawn), "N", NULL, "0", 0, 64,
     "start N ranks on this machine, where no launcher (torchrun, srun, mpirun) does"},
    {.name = NULL},
};

static int report(const struct tpp_bench_program *program, const struct tpp_bench_run *run, const struct tpp_error *err)
{
    char rank[32] = "";
    if (run && run->world.size > 1) {
        snprintf(rank, sizeof rank, " (rank %u)", run->world.rank);
    }
    fprintf(stderr, "%s: error%s: %s\n", program->name, rank, err->message);
    if (err->where[0]) {
        fprintf(stderr, "  at:  %s\n", err->where);
    }
    if (err->hint[0]) {
        fprintf(stderr, "  fix: %s\n", err->hint);
    }
    return tpp_code_exit_status(err->code);
}

static int print_help(const struct tpp_bench_part *parts, const struct tpp_bench_program *program)
{
    struct tpp_text text;
    tpp_text_init(&text);
    tpp_bench_options_help(parts, program->name, program->about, &text);
    const bool is_written = !tpp_text_failed(&text) && fputs(tpp_text_get(&text), stdout) >= 0 && fflush(stdout) == 0;
    tpp_text_release(&text);
    return is_written ? 0 : tpp_code_exit_status(TPP_E_IO);
}

static const char *lookup(void *context, const char *name)
{
    (void)context;
    return getenv(name);
}

#ifdef TPP_BENCH_MPI_BUILT
/* Without a launcher of its own MPI_Init starts daemons, and ends the program where it cannot. Open MPI; PMI and PMIx
 * (MPICH, Intel MPI, srun --mpi); MVAPICH. */
static bool is_started_by_mpi(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (getenv(names[i])) {
            return true;
        }
    }
    return false;
}
#endif

static enum tpp_code find_world(struct tpp_bench_run *run, struct tpp_error *err)
{
#ifdef TPP_BENCH_MPI_BUILT
    if (is_started_by_mpi()) {
        bool is_started = false;
        const enum tpp_code code = tpp_bench_mpi_world(&run->world, &is_started, err);
        if (code != TPP_OK || is_started) {
            return code;
        }
    }
#endif
    return tpp_bench_world_find(lookup, NULL, &run->world, err);
}

static enum tpp_code connect_ranks(struct tpp_bench_run *run, struct tpp_error *err)
{
    const struct tpp_bootstrap_options options = {
        .rank = run->world.rank,
        .size = run->world.size,
        .address = run->world.address,
        .port = run->world.port,
        .token = run->world.token,
        .timeout_seconds = run->common.timeout_seconds,
    };
    return tpp_bootstrap_new(&options, &run->bootstrap, err);
}

static enum tpp_code measure(struct tpp_bench_run *run, struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    run->world.size = 1;
    if (run->program->is_distributed) {
        code = find_world(run, err);
        code = code ? code : connect_ranks(run, err);
    }
    if (code == TPP_OK) {
        if (run->world.rank == 0) {
            code = tpp_bench_samples_open(&run->samples, run->common.output, run->common.append, err);
        } else {
            tpp_bench_samples_open_nothing(&run->samples);
        }
    }
    code = code ? code : run->program->run(run, err);
    if (code != TPP_OK) {
        char message[300];
        snprintf(message, sizeof message, "rank %u: %s", run->world.rank, err->message);
        tpp_bootstrap_abort(run->bootstrap, message);
    }
    return code;
}

static int finish(struct tpp_bench_run *run, enum tpp_code code, struct tpp_error *err)
{
    struct tpp_error close_error = {0};
    const enum tpp_code closed = tpp_bench_samples_close(&run->samples, &close_error);
    if (code == TPP_OK && closed != TPP_OK) {
        *err = close_error;
        code = closed;
    }
    int status = code == TPP_OK ? 0 : report(run->program, run, err);
    if (code != TPP_OK) {
        tpp_bench_watch(run, 20); /* drivers may wait at the end for work that never ends */
    }
    tpp_bootstrap_free(run->bootstrap);
#ifdef TPP_BENCH_MPI_BUILT
    tpp_bench_mpi_finish(code != TPP_OK);
#endif
    if (status == 0 && run->num_wrong > 0) {
        fprintf(stderr, "%s: %llu results were wrong: see \"wrong\" in the samples\n", run->program->name,
                (unsigned long long)run->num_wrong);
        status = 1;
    }
    return status;
}

int tpp_bench_main(const struct tpp_bench_program *program, int argc, const char *const *argv)
{
    struct tpp_bench_run run = {.program = program, .argv = argv, .argc = argc, .start_seconds = tpp_bench_now()};
    const struct tpp_bench_option budget_options[] = {
        {"budget", TPP_BENCH_NUMBER, AT(budget_seconds), "SECONDS", NULL, program->default_budget, 1, 1e6,
         program->is_distributed ? "time to spend; it is said when not all points could be measured"
                                 : "time to spend: any beginning of the points is a fair selection of all"},
        {.name = NULL},
    };
    const struct tpp_bench_part parts[] = {
        {program->options, program->arguments},
        {budget_options, &run.common},
        {common_options, &run.common},
        {program->is_distributed ? spawn_options : device_options, &run.common},
        {NULL, NULL},
    };
    struct tpp_error err = {0};
    bool help = false;
    int status = 0;
    enum tpp_code code = tpp_bench_options_parse(parts, argc, argv, &help, &err);
    if (help) {
        return print_help(parts, program);
    }
    if (code == TPP_OK && run.common.spawn > 0 && !getenv("WORLD_SIZE")) {
        code = tpp_bench_spawn(argv, (uint32_t)run.common.spawn, run.common.timeout_seconds, &status, &err);
        if (code != TPP_OK) {
            report(program, NULL, &err);
        }
        return status;
    }
    if (code != TPP_OK) {
        return report(program, NULL, &err);
    }
    tpp_bench_samples_open_nothing(&run.samples);
    code = measure(&run, &err);
    return finish(&run, code, &err);
}

double tpp_bench_seconds_left(const struct tpp_bench_run *run)
{
    const double left = run->start_seconds + run->common.budget_seconds - tpp_bench_now();
    return left > 0 ? left : 0;
}

/* What the signal handler writes; a handler can do no more than write and end. */
static char watch_message[800];

static void watch_handler(int signal)
{
    (void)signal;
    const ssize_t written = write(STDERR_FILENO, watch_message, strlen(watch_message));
    _exit(written < 0 ? 70 : 5);
}

void tpp_bench_watch(const struct tpp_bench_run *run, double seconds)
{
    snprintf(watch_message, sizeof watch_message,
             "%s: error (rank %u): rank %u is stuck in a call that does not return: ended after %.0f s\n",
             run->program->name, run->world.rank, run->world.rank, seconds);
    signal(SIGALRM, watch_handler);
    alarm((unsigned)(seconds + 0.999));
}

void tpp_bench_last_words(const struct tpp_error *err, double seconds)
{
    snprintf(watch_message, sizeof watch_message, "error: %s\n  at:  %s\n  fix: %s\n", err->message, err->where,
             err->hint);
    signal(SIGALRM, watch_handler);
    alarm((unsigned)(seconds + 0.999));
}

void tpp_bench_say(const struct tpp_bench_run *run, const char *format, ...)
{
    if (run->world.rank != 0) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: %.1f s: ", run->program->name, tpp_bench_now() - run->start_seconds);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}
