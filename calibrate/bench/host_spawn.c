#include "calibrate/bench/host_spawn.h"

#include "calibrate/bench/host_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A port that is free now on loopback; 0 when there is none. */
static uint16_t free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    uint16_t port = 0;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &size) == 0) {
        port = ntohs(address.sin_port);
    }
    if (fd >= 0) {
        close(fd);
    }
    return port;
}

static void set_number(const char *name, unsigned long value)
{
    char text[32];
    snprintf(text, sizeof text, "%lu", value);
    setenv(name, text, 1);
}

/* In the child: becomes rank `rank`. */
static void become_rank(const char *const *argv, uint32_t rank, uint32_t count, uint16_t port, long parent)
{
    set_number("RANK", rank);
    set_number("LOCAL_RANK", rank);
    set_number("WORLD_SIZE", count);
    set_number("LOCAL_WORLD_SIZE", count);
    set_number("TPP_BOOTSTRAP_PORT", port);
    set_number("TORCHELASTIC_RUN_ID", (unsigned long)parent * 65536ul + port);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    fprintf(stderr, "%s: cannot be started: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static int status_of(int wait_status)
{
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

struct children {
    pid_t *pids; /* 0: has ended */
    uint32_t count, num_alive;
    double end_at;   /* when those that are left are ended; 0: no rank has failed */
    int num_signals; /* that we sent for that */
};

static void end_all(const struct children *children, int signal)
{
    for (uint32_t rank = 0; rank < children->count; rank++) {
        if (children->pids[rank] > 0) {
            kill(children->pids[rank], signal);
        }
    }
}

/* Takes note of one that has ended. */
static void note_end(struct children *children, pid_t pid, int wait_status, double grace_seconds, int *status,
                     struct tpp_error *err)
{
    for (uint32_t rank = 0; rank < children->count; rank++) {
        if (children->pids[rank] != pid) {
            continue;
        }
        children->pids[rank] = 0;
        children->num_alive--;
        /* A rank that lost another one ends with 5: one with a reason of its own says more. */
        if (wait_status != 0 && (*status == 0 || (*status == 5 && children->num_signals == 0))) {
            *status = status_of(wait_status);
            children->end_at = tpp_bench_now() + grace_seconds;
            tpp_fail(err, TPP_E_IO, "--spawn", "its own message is above", "rank %u %s %d", rank,
                     WIFSIGNALED(wait_status) ? "was ended by signal" : "ended with status",
                     WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status));
        }
    }
}

static void wait_for_all(struct children *children, double grace_seconds, int *status, struct tpp_error *err)
{
    while (children->num_alive > 0) {
        int wait_status = 0;
        const pid_t pid = waitpid(-1, &wait_status, WNOHANG);
        if (pid > 0) {
            note_end(children, pid, wait_status, grace_seconds, status, err);
            continue;
        }
        if (children->end_at > 0 && tpp_bench_now() > children->end_at) {
            end_all(children, children->num_signals++ == 0 ? SIGTERM : SIGKILL);
            children->end_at = tpp_bench_now() + 2;
        }
        nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
    }
}

enum tpp_code tpp_bench_spawn(const char *const *argv, uint32_t count, double grace_seconds, int *status,
                              struct tpp_error *err)
{
    const uint16_t port = free_port();
    struct children children = {.pids = calloc(count ? count : 1, sizeof(pid_t)), .count = count};
    *status = 0;
    if (!children.pids) {
        return tpp_fail(err, TPP_E_MEMORY, "--spawn", NULL, "out of memory");
    }
    fflush(NULL); /* what is in our buffers is not to be written by each child again */
    for (uint32_t rank = 0; rank < count && *status == 0; rank++) {
        const pid_t pid = fork();
        if (pid == 0) {
            become_rank(argv, rank, count, port, (long)getppid());
        }
        if (pid < 0) {
            *status = 1;
            children.end_at = tpp_bench_now();
            tpp_fail(err, TPP_E_IO, "--spawn", NULL, "rank %u cannot be started: %s", rank, strerror(errno));
            break;
        }
        children.pids[rank] = pid;
        children.num_alive++;
    }
    wait_for_all(&children, grace_seconds, status, err);
    free(children.pids);
    return *status == 0 ? TPP_OK : TPP_E_IO;
}
