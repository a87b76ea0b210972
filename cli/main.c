/* main.c - finds the subcommand, prints its answer or its error, and exits: the only file that does. */
#include "cli/command.h"
#include "cli/help.h"
#include "cli/terminal.h"
#include "costmodel/base/json_write.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DEFAULT_WIDTH 100
#define MIN_WIDTH 40
#define MAX_WIDTH 1000

static unsigned terminal_width(void)
{
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    long width = columns != NULL ? strtol(columns, NULL, 10) : 0;
    if (width <= 0 && isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        width = size.ws_col;
    if (width <= 0)
        width = DEFAULT_WIDTH;
    return width < MIN_WIDTH ? MIN_WIDTH : width > MAX_WIDTH ? MAX_WIDTH : (unsigned)width;
}

/* --json anywhere among the options: an error must be JSON too, also when the command line is what is wrong. */
static bool wants_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--json") == 0)
            return true;
    }
    return false;
}

static void report_on_stderr(const struct tpp_error *err)
{
    struct tpp_text text;
    tpp_text_init(&text);
    tpp_text_append(&text, TPP_PROGRAM_NAME ": error: ");
    tpp_terminal_append(&text, err->message);
    if (err->where[0] != '\0') {
        tpp_text_append(&text, "\n  at:  ");
        tpp_terminal_append(&text, err->where);
    }
    if (err->hint[0] != '\0') {
        tpp_text_append(&text, "\n  fix: ");
        tpp_terminal_append(&text, err->hint);
    }
    fprintf(stderr, "%s\n", tpp_text_failed(&text) ? TPP_PROGRAM_NAME ": error: out of memory" : tpp_text_get(&text));
    tpp_text_release(&text);
}

/* {"schema_version", "error": {"code", "message", "where", "hint"}} */
static enum tpp_code format_error(const struct tpp_error *err, struct tpp_text *out)
{
    struct tpp_json_writer writer;
    tpp_json_writer_init(&writer);
    tpp_json_add_u64(&writer, writer.root, "schema_version", TPP_JSON_SCHEMA_VERSION);
    struct cJSON *object = tpp_json_add_object(&writer, writer.root, "error");
    tpp_json_add_string(&writer, object, "code", tpp_code_name(err->code));
    tpp_json_add_string(&writer, object, "message", err->message);
    tpp_json_add_string(&writer, object, "where", err->where);
    tpp_json_add_string(&writer, object, "hint", err->hint);
    const enum tpp_code code = tpp_json_print(&writer, out, NULL);
    tpp_json_writer_release(&writer);
    return code;
}

/* One write at the end, checked to the close: a full disk or a closed pipe is not a success. */
static enum tpp_code print(const struct tpp_text *text, struct tpp_error *err)
{
    if (tpp_text_failed(text))
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory while the answer was written");
    errno = 0;
    if (text->length > 0)
        fwrite(tpp_text_get(text), 1, text->length, stdout);
    const bool failed = ferror(stdout) != 0;
    if (fflush(stdout) != 0 || failed || (text->length > 0 && close(STDOUT_FILENO) != 0))
        return tpp_fail(err, TPP_E_IO, "standard output", "check that the disk is not full and the reader still runs",
                        "the answer could not be written: %s", strerror(errno));
    return TPP_OK;
}

static enum tpp_code fail_unknown_command(const char *name, struct tpp_error *err)
{
    const char *names[32];
    size_t count = 0;
    char hint[128] = "see '" TPP_PROGRAM_NAME " --help' for the commands";
    for (; tpp_commands[count] != NULL && count < 31; count++)
        names[count] = tpp_commands[count]->name;
    names[count] = NULL;
    const char *near = tpp_text_nearest(name, names);
    if (near != NULL)
        snprintf(hint, sizeof hint, "did you mean '" TPP_PROGRAM_NAME " %s'?", near);
    return tpp_fail(err, TPP_E_USAGE, "the command", hint, "unknown command \"%.100s\"", name);
}

static enum tpp_code dispatch(int argc, char **argv, struct tpp_answer *answer, struct tpp_error *err)
{
    if (argc < 2)
        return tpp_fail(err, TPP_E_USAGE, "the command line", "see '" TPP_PROGRAM_NAME " --help' for the commands",
                        "a command is missing");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        tpp_help_program(&answer->text);
        return TPP_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        tpp_text_append(&answer->text, TPP_PROGRAM_NAME " " TPP_VERSION "\n");
        return TPP_OK;
    }
    const struct tpp_command *command = tpp_command_find(argv[1]);
    if (command == NULL)
        return fail_unknown_command(argv[1], err);
    return tpp_command_run(command, argc - 2, argv + 2, answer, err);
}

int main(int argc, char **argv)
{
    struct tpp_error err = {.code = TPP_OK};
    const bool json = wants_json(argc, argv);
    const bool on_terminal = isatty(STDERR_FILENO) == 1 && !json && getenv("NO_COLOR") == NULL;
    struct tpp_answer answer = {.width = terminal_width(), .on_terminal = on_terminal};
    tpp_text_init(&answer.text);
    enum tpp_code code = dispatch(argc, argv, &answer, &err);
    if (code != TPP_OK) {
        report_on_stderr(&err);
        tpp_text_release(&answer.text); /* half an answer is none */
        tpp_text_init(&answer.text);
        if (json)
            format_error(&err, &answer.text);
    }
    struct tpp_error print_err = {.code = TPP_OK};
    const enum tpp_code print_code = print(&answer.text, &print_err);
    if (print_code != TPP_OK) {
        report_on_stderr(&print_err);
        code = print_code;
    }
    const int status = code != TPP_OK ? tpp_code_exit_status(code) : answer.is_no ? 1 : 0;
    tpp_text_release(&answer.text);
    return status;
}
