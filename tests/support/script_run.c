/* script_run.c - see script_run.h. */
#include "script_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char torchrun_stub[] = "#!/bin/bash\n"
                                    "printf '%s\\0' \"$@\" > words\n"
                                    "printf '%s' \"${CUDA_DEVICE_MAX_CONNECTIONS:-}\" > connections\n";
static const char srun_stub[] = "#!/bin/bash\n"
                                "shift\n" /* --kill-on-bad-exit=1 */
                                "SLURM_PROCID=3 exec \"$@\"\n";
static const char scontrol_stub[] = "#!/bin/bash\n"
                                    "printf 'first\\nsecond\\n'\n";

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0700), 0);
}

/* Up to `size` - 1 bytes of a file of the folder, terminated; their number, 0 when there is none. The file is removed.
 */
static size_t take_file(const char *folder, const char *name, char *buffer, size_t size)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    size_t length = 0;
    if (file != NULL) {
        length = fread(buffer, 1, size - 1, file);
        fclose(file);
        unlink(path);
    }
    buffer[length] = '\0';
    return length;
}

static int run_bash(const char *folder, const char *const *environment)
{
    char path[300];
    const char *all[64];
    size_t count = 0;
    snprintf(path, sizeof path, "PATH=%s:/usr/bin:/bin", folder);
    all[count++] = path;
    for (size_t i = 0; environment[i] != NULL && count + 1 < sizeof all / sizeof *all; i++)
        all[count++] = environment[i];
    all[count] = NULL;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static char bash[] = "bash", script[] = "script";
        char *words[] = {bash, script, NULL};
        if (chdir(folder) != 0 || freopen("complaint", "w", stderr) == NULL)
            _exit(126);
        execve("/bin/bash", words, (char *const *)(uintptr_t)all);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void remove_folder(const char *folder)
{
    static const char *const names[] = {"script", "torchrun", "srun", "scontrol"};
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

void script_run(const char *script, const char *const *environment, struct script_run *run)
{
    char folder[] = "/tmp/tpp-launch-XXXXXX", trace[8];
    memset(run, 0, sizeof *run);
    run->data = malloc(65536);
    assert_non_null(run->data);
    assert_non_null(mkdtemp(folder));
    write_file(folder, "script", script);
    write_file(folder, "torchrun", torchrun_stub);
    write_file(folder, "srun", srun_stub);
    write_file(folder, "scontrol", scontrol_stub);
    run->status = run_bash(folder, environment);
    size_t length = take_file(folder, "words", run->data, 65536);
    for (size_t at = 0; at < length && run->num_words < 1024; at += strlen(run->data + at) + 1)
        run->words[run->num_words++] = run->data + at;
    take_file(folder, "connections", run->connections, sizeof run->connections);
    take_file(folder, "complaint", run->complaint, sizeof run->complaint);
    char path[64];
    snprintf(path, sizeof path, "%s/trace", folder);
    run->left_a_trace = access(path, F_OK) == 0;
    take_file(folder, "trace", trace, sizeof trace);
    remove_folder(folder);
}

void script_run_release(struct script_run *run)
{
    free(run->data);
    run->data = NULL;
}

const char *script_run_value(const struct script_run *run, const char *option)
{
    for (size_t i = 0; i < run->num_words; i++) {
        if (strcmp(run->words[i], option) == 0)
            return i + 1 < run->num_words ? run->words[i + 1] : "";
    }
    return NULL;
}

bool script_run_has(const struct script_run *run, const char *option)
{
    return script_run_value(run, option) != NULL;
}
