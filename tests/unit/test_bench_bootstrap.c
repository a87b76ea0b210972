/* Ranks that meet over TCP: processes of this machine on loopback, with short time-outs. */
#include "calibrate/bench/host_bootstrap.h"
#include "calibrate/bench/host_socket.h"
#include "calibrate/bench/host_spawn.h"
#include "tests/support/check_number.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a rank does; it writes what it has to say to the file and returns its exit status. */
typedef int (*rank_main)(uint32_t rank, uint16_t port, FILE *report);

static uint16_t unused_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    close(fd);
    return ntohs(address.sin_port);
}

#define MAX_RANKS 8

struct outcome {
    int status[MAX_RANKS];
    char report[MAX_RANKS][400];
    double seconds;
};

static pid_t start(rank_main main_of_rank, uint32_t rank, uint16_t port, int *report)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        alarm(30); /* a test that hangs fails */
        FILE *file = fdopen(ends[1], "w");
        const int status = main_of_rank(rank, port, file);
        fclose(file);
        _exit(status);
    }
    assert_true(pid > 0);
    close(ends[1]);
    *report = ends[0];
    return pid;
}

/* Runs `count` ranks to their ends. */
static void run_ranks(rank_main main_of_rank, uint32_t count, struct outcome *outcome)
{
    pid_t pids[MAX_RANKS];
    int reports[MAX_RANKS];
    const uint16_t port = unused_port();
    const double begin = tpp_bench_now();
    memset(outcome, 0, sizeof *outcome);
    for (uint32_t rank = 0; rank < count; rank++) {
        pids[rank] = start(main_of_rank, rank, port, &reports[rank]);
    }
    for (uint32_t rank = 0; rank < count; rank++) {
        size_t length = 0;
        ssize_t got;
        while (length + 1 < sizeof outcome->report[rank] &&
               (got = read(reports[rank], outcome->report[rank] + length, sizeof outcome->report[rank] - 1 - length)) >
                   0) {
            length += (size_t)got;
        }
        close(reports[rank]);
        assert_int_equal(waitpid(pids[rank], &outcome->status[rank], 0), pids[rank]);
    }
    outcome->seconds = tpp_bench_now() - begin;
}

static enum tpp_code join(uint32_t rank, uint32_t size, uint16_t port, double timeout, uint64_t token,
                          struct tpp_bootstrap **bootstrap, struct tpp_error *err)
{
    const struct tpp_bootstrap_options options = {
        .rank = rank, .size = size, .address = "127.0.0.1", .port = port, .token = token, .timeout_seconds = timeout};
    return tpp_bootstrap_new(&options, bootstrap, err);
}

static int say(FILE *report, const struct tpp_error *err)
{
    fprintf(report, "%s", err->message);
    return 5;
}

static int exchange(uint32_t rank, uint16_t port, FILE *report)
{
    struct tpp_bootstrap *bootstrap;
    struct tpp_error err = {0};
    uint64_t all[4], mine;
    char id[128] = {0};
    if (join(rank, 4, port, 10, 77, &bootstrap, &err) != TPP_OK) {
        return say(report, &err);
    }
    for (uint64_t step = 0; step < 50; step++) {
        mine = 1000 * step + rank;
        snprintf(id, sizeof id, "%s %llu", rank == 0 ? "id" : "nothing", (unsigned long long)step);
        if (tpp_bootstrap_all_gather(bootstrap, &mine, sizeof mine, all, &err) != TPP_OK ||
            tpp_bootstrap_broadcast(bootstrap, id, sizeof id, &err) != TPP_OK ||
            tpp_bootstrap_check(bootstrap, &err) != TPP_OK || tpp_bootstrap_barrier(bootstrap, &err) != TPP_OK) {
            return say(report, &err);
        }
        char expected[32];
        snprintf(expected, sizeof expected, "id %llu", (unsigned long long)step);
        for (uint64_t other = 0; other < 4; other++) {
            if (all[other] != 1000 * step + other || strcmp(id, expected) != 0) {
                return 1;
            }
        }
    }
    tpp_bootstrap_free(bootstrap);
    return 0;
}

static void four_processes_exchange_data(void **state)
{
    (void)state;
    struct outcome outcome;
    run_ranks(exchange, 4, &outcome);
    for (int rank = 0; rank < 4; rank++) {
        assert_string_equal(outcome.report[rank], "");
        assert_int_equal(outcome.status[rank], 0);
    }
}

static int die_in_the_middle(uint32_t rank, uint16_t port, FILE *report)
{
    struct tpp_bootstrap *bootstrap;
    struct tpp_error err = {0};
    if (join(rank, 4, port, 10, 77, &bootstrap, &err) != TPP_OK) {
        return say(report, &err);
    }
    for (int step = 0; step < 3; step++) {
        if (rank == 2 && step == 1) {
            raise(SIGKILL);
        }
        if (tpp_bootstrap_barrier(bootstrap, &err) != TPP_OK) {
            tpp_bootstrap_free(bootstrap);
            return say(report, &err);
        }
    }
    tpp_bootstrap_free(bootstrap);
    return 0;
}

static void a_dead_rank_is_named_by_all_others_at_once(void **state)
{
    (void)state;
    struct outcome outcome;
    run_ranks(die_in_the_middle, 4, &outcome);
    for (int rank = 0; rank < 4; rank++) {
        if (rank != 2) {
            assert_int_equal(WEXITSTATUS(outcome.status[rank]), 5);
            assert_non_null(strstr(outcome.report[rank], "rank 2 ended"));
        }
    }
    assert_true(outcome.seconds < 5); /* half of the time-out: nobody waited for it */
}

static int hang_in_the_middle(uint32_t rank, uint16_t port, FILE *report)
{
    struct tpp_bootstrap *bootstrap;
    struct tpp_error err = {0};
    if (join(rank, 4, port, 1.5, 77, &bootstrap, &err) != TPP_OK) {
        return say(report, &err);
    }
    if (rank == 1 || rank == 3) {
        sleep(3);
        return 0;
    }
    const enum tpp_code code = tpp_bootstrap_barrier(bootstrap, &err);
    tpp_bootstrap_free(bootstrap);
    return code == TPP_OK ? 0 : say(report, &err);
}

static void ranks_that_hang_are_named_after_the_time_out(void **state)
{
    (void)state;
    struct outcome outcome;
    run_ranks(hang_in_the_middle, 4, &outcome);
    assert_non_null(strstr(outcome.report[0], "ranks 1 and 3 did not answer within 1.5 s"));
    assert_non_null(strstr(outcome.report[2], "ranks 1 and 3 did not answer within 1.5 s"));
}

static int come_late(uint32_t rank, uint16_t port, FILE *report)
{
    struct tpp_bootstrap *bootstrap;
    struct tpp_error err = {0};
    if (rank == 3) {
        return 0; /* never comes */
    }
    if (rank == 0) {
        usleep(300 * 1000); /* the others knock before anybody listens */
    }
    const enum tpp_code code = join(rank, 4, port, 1.5, 77, &bootstrap, &err);
    return code == TPP_OK ? 0 : say(report, &err);
}

static void a_rank_that_never_comes_is_named(void **state)
{
    (void)state;
    struct outcome outcome;
    run_ranks(come_late, 4, &outcome);
    for (int rank = 0; rank < 3; rank++) {
        assert_non_null(strstr(outcome.report[rank], "rank 3 did not come within 1.5 s"));
    }
    assert_true(outcome.seconds < 5);
}

static int nobody_listens(uint32_t rank, uint16_t port, FILE *report)
{
    struct tpp_bootstrap *bootstrap;
    struct tpp_error err = {0};
    return join(rank + 1, 2, port, 0.5, 77, &bootstrap, &err) == TPP_OK ? 0 : say(report, &err);
}

static void a_rank_without_rank_0_says_so(void **state)
{
    (void)state;
    struct outcome outcome;
    run_ranks(nobody_listens, 1, &outcome);
    assert_non_null(strstr(outcome.report[0], "rank 1 cannot reach rank 0"));
    assert_non_null(strstr(outcome.report[0], "nobody listens"));
}

/* Rank 3 is a stranger: another job's rank, a scanner that says nothing, one that talks nonsense. */
static int with_strangers(uint32_t rank, uint16_t port, FILE *report)
{
    struct tpp_bootstrap *bootstrap;
    struct tpp_error err = {0};
    const char *why;
    if (rank == 3) {
        const double deadline = tpp_bench_now() + 5;
        const int silent = tpp_socket_connect("127.0.0.1", port, deadline, &why);
        const int loud = tpp_socket_connect("127.0.0.1", port, deadline, &why);
        char nonsense[512];
        memset(nonsense, 'x', sizeof nonsense);
        tpp_socket_send(loud, nonsense, sizeof nonsense, deadline);
        const enum tpp_code code = join(1, 3, port, 2, 78, &bootstrap, &err);
        close(silent);
        close(loud);
        return code == TPP_OK ? 1 : 0;
    }
    usleep(rank == 0 ? 0 : 400 * 1000); /* the strangers are first */
    if (join(rank, 3, port, 8, 77, &bootstrap, &err) != TPP_OK || tpp_bootstrap_barrier(bootstrap, &err) != TPP_OK) {
        return say(report, &err);
    }
    tpp_bootstrap_free(bootstrap);
    return 0;
}

static void strangers_do_not_disturb(void **state)
{
    (void)state;
    struct outcome outcome;
    run_ranks(with_strangers, 4, &outcome);
    for (int rank = 0; rank < 4; rank++) {
        assert_string_equal(outcome.report[rank], "");
        assert_int_equal(outcome.status[rank], 0);
    }
}

static int give_up(uint32_t rank, uint16_t port, FILE *report)
{
    struct tpp_bootstrap *bootstrap;
    struct tpp_error err = {0};
    if (join(rank, 4, port, 10, 77, &bootstrap, &err) != TPP_OK) {
        return say(report, &err);
    }
    enum tpp_code code = TPP_OK;
    if (rank == 1) {
        tpp_bootstrap_abort(bootstrap, "rank 1: no memory left on GPU 1");
    } else {
        /* These wait for their GPUs, not for each other: they look whether all are there. */
        for (int i = 0; i < 500 && code == TPP_OK; i++) {
            usleep(10 * 1000);
            code = tpp_bootstrap_check(bootstrap, &err);
        }
    }
    tpp_bootstrap_free(bootstrap);
    return code == TPP_OK ? 0 : say(report, &err);
}

static void why_a_rank_gave_up_reaches_all_others(void **state)
{
    (void)state;
    struct outcome outcome;
    run_ranks(give_up, 4, &outcome);
    for (int rank = 0; rank < 4; rank++) {
        assert_string_equal(outcome.report[rank], rank == 1 ? "" : "rank 1: no memory left on GPU 1");
    }
    assert_true(outcome.seconds < 4);
}

static int wait_in_vain(uint32_t rank, uint16_t port, FILE *report)
{
    struct tpp_bootstrap *bootstrap;
    struct tpp_error err = {0};
    if (join(rank, 4, port, 10, 77, &bootstrap, &err) != TPP_OK) {
        return say(report, &err);
    }
    if (rank == 2) {
        sleep(2); /* stuck while the others are in a collective with it */
        return 0;
    }
    tpp_bootstrap_blame(bootstrap, "all_reduce of 1 MiB", 1, &err);
    tpp_bootstrap_free(bootstrap);
    return say(report, &err);
}

static void the_rank_that_keeps_others_waiting_is_found(void **state)
{
    (void)state;
    struct outcome outcome;
    run_ranks(wait_in_vain, 4, &outcome);
    for (int rank = 0; rank < 4; rank++) {
        if (rank != 2) {
            assert_string_equal(outcome.report[rank], "rank 2 kept the others waiting in all_reduce of 1 MiB");
        }
    }
}

static int go_on_while_others_wait(uint32_t rank, uint16_t port, FILE *report)
{
    struct tpp_bootstrap *bootstrap;
    struct tpp_error err = {0};
    if (join(rank, 4, port, 1.5, 77, &bootstrap, &err) != TPP_OK) {
        return say(report, &err);
    }
    if (rank == 2) {
        sleep(3);
        return 0;
    }
    if (rank == 1) {
        usleep(500 * 1000);
        tpp_bootstrap_blame(bootstrap, "all_gather of 1 MiB", 2, &err);
    } else {
        tpp_bootstrap_barrier(bootstrap, &err); /* their part of the collective is done */
    }
    tpp_bootstrap_free(bootstrap);
    return say(report, &err);
}

static void the_late_rank_is_found_though_some_went_on(void **state)
{
    (void)state;
    struct outcome outcome;
    run_ranks(go_on_while_others_wait, 4, &outcome);
    for (int rank = 0; rank < 4; rank++) {
        if (rank != 2) {
            assert_string_equal(outcome.report[rank], "rank 2 did not answer within 1.5 s");
        }
    }
}

static int disagree(uint32_t rank, uint16_t port, FILE *report)
{
    struct tpp_bootstrap *bootstrap;
    struct tpp_error err = {0};
    char all[64];
    if (join(rank, 3, port, 5, 77, &bootstrap, &err) != TPP_OK) {
        return say(report, &err);
    }
    const enum tpp_code code = tpp_bootstrap_all_gather(bootstrap, "abcdef", rank == 2 ? 5 : 4, all, &err);
    tpp_bootstrap_free(bootstrap);
    return code == TPP_OK ? 0 : say(report, &err);
}

static void ranks_that_run_apart_are_told(void **state)
{
    (void)state;
    struct outcome outcome;
    run_ranks(disagree, 3, &outcome);
    for (int rank = 0; rank < 3; rank++) {
        assert_non_null(strstr(outcome.report[rank], "rank 2 sent 5 bytes where 4 belong"));
    }
}

static void one_rank_needs_nobody(void **state)
{
    (void)state;
    struct tpp_bootstrap *bootstrap;
    struct tpp_error err = {0};
    uint32_t all = 0, mine = 5;
    assert_int_equal(join(0, 1, 1, 1, 0, &bootstrap, &err), TPP_OK);
    assert_int_equal(tpp_bootstrap_all_gather(bootstrap, &mine, sizeof mine, &all, &err), TPP_OK);
    assert_int_equal(all, 5);
    assert_int_equal(tpp_bootstrap_barrier(bootstrap, &err), TPP_OK);
    assert_int_equal(tpp_bootstrap_check(bootstrap, &err), TPP_OK);
    tpp_bootstrap_free(bootstrap);
}

static void spawned_ranks_know_who_they_are_and_the_one_that_fails_is_named(void **state)
{
    (void)state;
    struct tpp_error err = {0};
    int status = -1;
    const char *const good[] = {
        "sh", "-c", "test $WORLD_SIZE = 3 && test $RANK = $LOCAL_RANK && test -n \"$TPP_BOOTSTRAP_PORT\"", NULL};
    assert_int_equal(tpp_bench_spawn(good, 3, 1, &status, &err), TPP_OK);
    assert_int_equal(status, 0);
    const double begin = tpp_bench_now();
    const char *const bad[] = {"sh", "-c", "test $RANK != 1 || exit 9; exec sleep 20", NULL};
    assert_int_equal(tpp_bench_spawn(bad, 3, 0.3, &status, &err), TPP_E_IO);
    assert_int_equal(status, 9);
    assert_non_null(strstr(err.message, "rank 1 ended with status 9"));
    assert_true(tpp_bench_now() - begin < 5); /* the others were not waited for */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_processes_exchange_data),
        cmocka_unit_test(a_dead_rank_is_named_by_all_others_at_once),
        cmocka_unit_test(ranks_that_hang_are_named_after_the_time_out),
        cmocka_unit_test(a_rank_that_never_comes_is_named),
        cmocka_unit_test(a_rank_without_rank_0_says_so),
        cmocka_unit_test(strangers_do_not_disturb),
        cmocka_unit_test(why_a_rank_gave_up_reaches_all_others),
        cmocka_unit_test(the_rank_that_keeps_others_waiting_is_found),
        cmocka_unit_test(the_late_rank_is_found_though_some_went_on),
        cmocka_unit_test(ranks_that_run_apart_are_told),
        cmocka_unit_test(one_rank_needs_nobody),
        cmocka_unit_test(spawned_ranks_know_who_they_are_and_the_one_that_fails_is_named),
    };
    return cmocka_run_group_tests_name("bench_bootstrap", tests, NULL, NULL);
}
