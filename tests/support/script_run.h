/* script_run.h - runs a launch script where the launchers (torchrun, deepspeed, accelerate, megatron, swift), `srun`
 * and `scontrol` are stubs, and shows what it would start. */
#ifndef TPP_TESTS_SUPPORT_SCRIPT_RUN_H
#define TPP_TESTS_SUPPORT_SCRIPT_RUN_H

#include <stdbool.h>
#include <stddef.h>

#define SCRIPT_RUN_MAX_FILES 4

struct script_run {
    int status;        /* of the script */
    char program[16];  /* the launcher that was started, "" when none was */
    char *words[1024]; /* its arguments */
    size_t num_words;
    char *variables[256]; /* its environment, "NAME=VALUE" */
    size_t num_variables;
    char complaint[1024]; /* standard error */
    bool left_a_trace;    /* a file `trace` was made in the folder of the run: something in a text was executed */
    struct {
        char name[64];
        char *content;             /* terminated */
    } files[SCRIPT_RUN_MAX_FILES]; /* that the script wrote */
    size_t num_files;
    char *data;
};

/* Runs `script` in an empty folder with `environment` ("NAME=VALUE", NULL-terminated) alone; fails the test when it
 * cannot. Release the result. */
void script_run(const char *script, const char *const *environment, struct script_run *run);
void script_run_release(struct script_run *run);
/* The word behind `option`, or NULL; "" for a flag at the end. */
const char *script_run_value(const struct script_run *run, const char *option);
bool script_run_has(const struct script_run *run, const char *option);
/* Value of an environment variable of the launcher, or content of a file that the script wrote; NULL: there is none. */
const char *script_run_variable(const struct script_run *run, const char *name);
const char *script_run_file(const struct script_run *run, const char *name);

#endif
