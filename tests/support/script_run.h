/* script_run.h - runs a launch script where `torchrun`, `srun` and `scontrol` are stubs, and shows what it would start.
 */
#ifndef TPP_TESTS_SUPPORT_SCRIPT_RUN_H
#define TPP_TESTS_SUPPORT_SCRIPT_RUN_H

#include <stdbool.h>
#include <stddef.h>

struct script_run {
    int status;        /* of the script */
    char *words[1024]; /* arguments that torchrun was started with; none when it was not */
    size_t num_words;
    char connections[16]; /* CUDA_DEVICE_MAX_CONNECTIONS that it saw */
    char complaint[1024]; /* standard error */
    bool left_a_trace;    /* a file `trace` was made in the folder of the run: something in a text was executed */
    char *data;
};

/* Runs `script` in an empty folder with `environment` ("NAME=VALUE", NULL-terminated) alone; fails the test when it
 * cannot. Release the result. */
void script_run(const char *script, const char *const *environment, struct script_run *run);
void script_run_release(struct script_run *run);
/* The word behind `option`, or NULL; "" for a flag at the end. */
const char *script_run_value(const struct script_run *run, const char *option);
bool script_run_has(const struct script_run *run, const char *option);

#endif
