/* script_run.c - see script_run.h. */
#include "script_run.h"

#include <dirent.h>
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

static const char launcher_stub[] = "#!/bin/bash\n"
                                    "printf '%s\\0' \"${0##*/}\" \"$@\" > words\n"
                                    "env -0 > variables\n";
static const char srun_stub[] = "#!/bin/bash\n"
                                "shift\n" /* --kill-on-bad-exit=1 */
                                "SLURM_PROCID=3 exec \"$@\"\n";
static const char scontrol_stub[] = "#!/bin/bash\n"
                                    "printf 'first\\nsecond\\n'\n";

static const struct stub {
    const char *name, *text;
} stubs[] = {
    {"torchrun", launcher_stub}, {"deepspeed", launcher_stub}, {"accelerate", launcher_stub},
    {"megatron", launcher_stub}, {"swift", launcher_stub},     {"srun", srun_stub},
    {"scontrol", scontrol_stub},
};
#define NUM_STUBS (sizeof stubs / sizeof *stubs)

enum { DATA_SIZE = 1 << 18, MAX_TEXT = 1 << 16 };

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

static bool is_stub(const char *name)
{
    for (size_t i = 0; i < NUM_STUBS; i++) {
        if (strcmp(stubs[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Removes the folder; what else it has was written by the script, and goes to `data` from `used` on. */
static void clear_folder(const char *folder, size_t used, struct script_run *run)
{
    char path[400];
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        if (!is_stub(entry->d_name) && run->num_files < SCRIPT_RUN_MAX_FILES && used + MAX_TEXT <= DATA_SIZE) {
            snprintf(run->files[run->num_files].name, sizeof run->files->name, "%s", entry->d_name);
            run->files[run->num_files++].content = run->data + used;
            used += take_file(folder, entry->d_name, run->data + used, MAX_TEXT) + 1;
        }
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink(path);
    }
    closedir(directory);
    rmdir(folder);
}

/* Texts that end in a zero byte each, at data[at .. at + length). */
static size_t split(char *data, size_t length, char **items, size_t max)
{
    size_t count = 0;
    for (size_t at = 0; at < length && count < max; at += strlen(data + at) + 1)
        items[count++] = data + at;
    return count;
}

void script_run(const char *script, const char *const *environment, struct script_run *run)
{
    char folder[] = "/tmp/tpp-launch-XXXXXX", trace[8], path[64], *words[1024];
    memset(run, 0, sizeof *run);
    run->data = malloc(DATA_SIZE);
    assert_non_null(run->data);
    assert_non_null(mkdtemp(folder));
    write_file(folder, "script", script);
    for (size_t i = 0; i < NUM_STUBS; i++)
        write_file(folder, stubs[i].name, stubs[i].text);
    run->status = run_bash(folder, environment);
    size_t used = take_file(folder, "words", run->data, MAX_TEXT);
    const size_t count = split(run->data, used, words, 1024);
    snprintf(run->program, sizeof run->program, "%s", count > 0 ? words[0] : "");
    for (size_t i = 1; i < count; i++)
        run->words[run->num_words++] = words[i];
    used++;
    const size_t length = take_file(folder, "variables", run->data + used, MAX_TEXT);
    run->num_variables =
        split(run->data + used, length, run->variables, sizeof run->variables / sizeof *run->variables);
    used += length + 1;
    take_file(folder, "complaint", run->complaint, sizeof run->complaint);
    snprintf(path, sizeof path, "%s/trace", folder);
    run->left_a_trace = access(path, F_OK) == 0;
    take_file(folder, "trace", trace, sizeof trace);
    take_file(folder, "script", trace, sizeof trace);
    clear_folder(folder, used, run);
}

void script_run_release(struct script_run *run)
{
    free(run->data);
    run->data = NULL;
}

const char *script_run_variable(const struct script_run *run, const char *name)
{
    const size_t length = strlen(name);
    for (size_t i = 0; i < run->num_variables; i++) {
        if (strncmp(run->variables[i], name, length) == 0 && run->variables[i][length] == '=')
            return run->variables[i] + length + 1;
    }
    return NULL;
}

const char *script_run_file(const struct script_run *run, const char *name)
{
    for (size_t i = 0; i < run->num_files; i++) {
        if (strcmp(run->files[i].name, name) == 0)
            return run->files[i].content;
    }
    return NULL;
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
