#include "cli/help.h"

#include <stdio.h>
#include <string.h>

#define HELP_WIDTH 100
#define HELP_INDENT 34        /* where the second column begins */
#define MAX_CHOICES_LENGTH 44 /* of "a|b|c" in the first column */

struct exit_status {
    int status;
    const char *meaning;
};

static const struct exit_status exit_statuses[] = {
    {0, "done"},
    {1, "the answer is no: nothing fits, or a check failed"},
    {2, "the command line cannot mean anything"},
    {3, "bad input file"},
    {4, "not built in, or no device"},
    {5, "reading or writing failed"},
    {70, "a bug in tp-plan"},
};
#define NUM_EXIT_STATUSES (sizeof exit_statuses / sizeof exit_statuses[0])

/* Appends `string` in lines of at most HELP_WIDTH, broken at spaces; `column` is where the text begins on this line,
 * and every further line begins at `indent`. Ends the line. */
static void append_wrapped(struct tpp_text *out, const char *string, unsigned column, unsigned indent)
{
    const char *separator = "";
    for (const char *word = string + strspn(string, " "); *word != '\0';) {
        const size_t length = strcspn(word, " ");
        if (separator[0] != '\0' && column + 1 + length > HELP_WIDTH) {
            tpp_text_format(out, "\n%*s", (int)indent, "");
            column = indent;
            separator = "";
        }
        tpp_text_append(out, separator);
        tpp_text_append_bytes(out, word, length);
        column += (unsigned)(strlen(separator) + length);
        separator = " ";
        word += length;
        word += strspn(word, " ");
    }
    tpp_text_append(out, "\n");
}

/* A row of two columns: `left` at two spaces, `right` wrapped in the second column. */
static void append_row(struct tpp_text *out, const char *left, const char *right, unsigned indent)
{
    tpp_text_format(out, "  %s", left);
    const unsigned used = 2 + (unsigned)strlen(left);
    if (used + 1 >= indent)
        tpp_text_format(out, "\n%*s", (int)indent, "");
    else
        tpp_text_format(out, "%*s", (int)(indent - used), "");
    append_wrapped(out, right, indent, indent);
}

static void append_exit_statuses(struct tpp_text *out)
{
    tpp_text_append(out, "\nExit codes:\n");
    for (size_t i = 0; i < NUM_EXIT_STATUSES; i++) {
        char left[16];
        snprintf(left, sizeof left, "%d", exit_statuses[i].status);
        append_row(out, left, exit_statuses[i].meaning, 7);
    }
}

/* Many choices are listed in the text of the option, few ones in place of the value. */
static bool has_many_choices(const struct tpp_option *option)
{
    return option->kind == TPP_OPTION_CHOICE && strlen(option->choices) > MAX_CHOICES_LENGTH;
}

static const char *value_name(const struct tpp_option *option)
{
    if (has_many_choices(option))
        return "NAME";
    return option->kind == TPP_OPTION_CHOICE ? option->choices : option->metavar;
}

/* "-o, --output=FILE" */
static void format_option(const struct tpp_option *option, char *buffer, size_t size)
{
    char short_text[8] = "";
    if (option->short_name != '\0')
        snprintf(short_text, sizeof short_text, "-%c, ", option->short_name);
    if (option->kind == TPP_OPTION_FLAG)
        snprintf(buffer, size, "%s--%s", short_text, option->name);
    else
        snprintf(buffer, size, "%s--%s=%s", short_text, option->name, value_name(option));
}

/* The help of an option with what else its row says: choices, required, repeated, the default. */
static void append_option_help(const struct tpp_option *option, struct tpp_text *out)
{
    tpp_text_append(out, option->help);
    if (has_many_choices(option)) {
        tpp_text_append(out, "; one of ");
        for (const char *c = option->choices; *c != '\0'; c++)
            tpp_text_append_bytes(out, *c == '|' ? ", " : c, *c == '|' ? 2 : 1);
    }
    tpp_text_append(out, option->required ? " (required)" : "");
    tpp_text_append(out, option->kind == TPP_OPTION_LIST ? " (may be repeated)" : "");
    if (option->fallback != NULL)
        tpp_text_format(out, " [%s]", option->fallback);
}

static void append_options(const struct tpp_command *command, struct tpp_text *out)
{
    for (const struct tpp_option_part *part = command->parts; part->heading != NULL; part++) {
        tpp_text_format(out, "\n%s:\n", part->heading);
        for (const struct tpp_option *option = part->options; option->name != NULL; option++) {
            char left[128];
            struct tpp_text right;
            tpp_text_init(&right);
            format_option(option, left, sizeof left);
            append_option_help(option, &right);
            append_row(out, left, tpp_text_get(&right), HELP_INDENT);
            tpp_text_release(&right);
        }
    }
    tpp_text_append(out, "\nHelp:\n");
    append_row(out, "-h, --help", "show this text", HELP_INDENT);
}

void tpp_help_command(const struct tpp_command *command, struct tpp_text *out)
{
    tpp_text_format(out, "Usage: " TPP_PROGRAM_NAME " %s [OPTION]...%s%s\n\n", command->name,
                    command->operands != NULL ? " " : "", command->operands != NULL ? command->operands : "");
    append_wrapped(out, command->about, 0, 0);
    append_options(command, out);
    tpp_text_append(out, "\nExamples:\n");
    for (size_t i = 0; i < TPP_COMMAND_EXAMPLES_MAX && command->examples[i].command != NULL; i++)
        tpp_text_format(out, "  # %s\n  %s\n", command->examples[i].about, command->examples[i].command);
    append_exit_statuses(out);
}

void tpp_help_program(struct tpp_text *out)
{
    tpp_text_append(out,
                    "Usage: " TPP_PROGRAM_NAME " COMMAND [OPTION]...\n\n"
                    "Says how to split the training of a transformer over a cluster before a GPU is booked: how long\n"
                    "a step takes, how much memory every rank needs, why, and the launch script that runs it.\n\n"
                    "Commands:\n");
    for (size_t i = 0; tpp_commands[i] != NULL; i++) {
        if (!tpp_commands[i]->hidden)
            append_row(out, tpp_commands[i]->name, tpp_commands[i]->summary, 14);
    }
    tpp_text_append(out, "\n'" TPP_PROGRAM_NAME " COMMAND --help' shows the options of a command, '" TPP_PROGRAM_NAME
                         " --version' the version.\n");
    append_exit_statuses(out);
}

/* Text for roff: backslashes and minus signs escaped, no line begins with a control character. */
static void append_roff(struct tpp_text *out, const char *string)
{
    for (const char *c = string; *c != '\0'; c++) {
        if (*c == '\\')
            tpp_text_append(out, "\\e");
        else if (*c == '-')
            tpp_text_append(out, "\\-");
        else if ((*c == '.' || *c == '\'') && (c == string || c[-1] == '\n'))
            tpp_text_format(out, "\\&%c", *c);
        else
            tpp_text_append_bytes(out, c, 1);
    }
}

static void append_man_options(const struct tpp_command *command, struct tpp_text *out)
{
    for (const struct tpp_option_part *part = command->parts; part->heading != NULL; part++) {
        tpp_text_append(out, ".PP\n");
        append_roff(out, part->heading);
        tpp_text_append(out, ":\n");
        for (const struct tpp_option *option = part->options; option->name != NULL; option++) {
            char left[128];
            struct tpp_text right;
            tpp_text_init(&right);
            format_option(option, left, sizeof left);
            append_option_help(option, &right);
            tpp_text_append(out, ".TP\n.B ");
            append_roff(out, left);
            tpp_text_append(out, "\n");
            append_roff(out, tpp_text_get(&right));
            tpp_text_append(out, ".\n");
            tpp_text_release(&right);
        }
    }
}

static void append_man_command(const struct tpp_command *command, struct tpp_text *out)
{
    tpp_text_format(out, ".SS " TPP_PROGRAM_NAME " %s\n", command->name);
    append_roff(out, command->about);
    tpp_text_append(out, "\n");
    append_man_options(command, out);
    for (size_t i = 0; i < TPP_COMMAND_EXAMPLES_MAX && command->examples[i].command != NULL; i++) {
        tpp_text_append(out, ".PP\n");
        append_roff(out, command->examples[i].about);
        tpp_text_append(out, ":\n.PP\n.nf\n.RS\n");
        append_roff(out, command->examples[i].command);
        tpp_text_append(out, "\n.RE\n.fi\n");
    }
}

void tpp_help_man_page(struct tpp_text *out)
{
    tpp_text_append(out,
                    ".TH TP\\-PLAN 1 \"\" \"tp\\-plan " TPP_VERSION "\"\n.SH NAME\ntp\\-plan \\- plan how to split "
                    "the training of a transformer over a cluster\n.SH SYNOPSIS\n.B tp\\-plan\n.I COMMAND\n"
                    "[\\fIOPTION\\fR]...\n.SH DESCRIPTION\n"
                    "Predicts step time and memory of every way to split a training job over a cluster, ranks them, "
                    "says why the first one wins and writes its launch script. No GPU is needed.\n.SH COMMANDS\n");
    for (size_t i = 0; tpp_commands[i] != NULL; i++) {
        if (!tpp_commands[i]->hidden)
            append_man_command(tpp_commands[i], out);
    }
    tpp_text_append(out, ".SH EXIT STATUS\n");
    for (size_t i = 0; i < NUM_EXIT_STATUSES; i++)
        tpp_text_format(out, ".TP\n.B %d\n%s.\n", exit_statuses[i].status, exit_statuses[i].meaning);
}

static void append_completion_values(const struct tpp_command *command, struct tpp_text *out)
{
    for (const struct tpp_option_part *part = command->parts; part->heading != NULL; part++) {
        for (const struct tpp_option *option = part->options; option->name != NULL; option++) {
            if (option->kind != TPP_OPTION_CHOICE)
                continue;
            tpp_text_format(out, "    %s:--%s) words='", command->name, option->name);
            for (const char *c = option->choices; *c != '\0'; c++)
                tpp_text_append_bytes(out, *c == '|' ? " " : c, 1);
            tpp_text_append(out, "';;\n");
        }
    }
}

static void append_completion_names(const struct tpp_command *command, struct tpp_text *out)
{
    tpp_text_format(out, "    %s:*) words='--help", command->name);
    for (const struct tpp_option_part *part = command->parts; part->heading != NULL; part++) {
        for (const struct tpp_option *option = part->options; option->name != NULL; option++)
            tpp_text_format(out, " --%s", option->name);
    }
    tpp_text_append(out, "';;\n");
}

void tpp_help_bash_completion(struct tpp_text *out)
{
    tpp_text_append(out,
                    "# bash completion for tp-plan\n_tp_plan()\n{\n"
                    "  local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\" words=''\n"
                    "  COMPREPLY=()\n"
                    "  [ \"$previous\" = '=' ] && previous=\"${COMP_WORDS[COMP_CWORD-2]}\"\n"
                    "  [ \"$current\" = '=' ] && current=''\n"
                    "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    words='--help --version");
    for (size_t i = 0; tpp_commands[i] != NULL; i++) {
        if (!tpp_commands[i]->hidden)
            tpp_text_format(out, " %s", tpp_commands[i]->name);
    }
    tpp_text_append(out, "'\n  else\n    case \"${COMP_WORDS[1]}:$previous\" in\n");
    for (size_t i = 0; tpp_commands[i] != NULL; i++)
        append_completion_values(tpp_commands[i], out);
    for (size_t i = 0; tpp_commands[i] != NULL; i++)
        append_completion_names(tpp_commands[i], out);
    tpp_text_append(out, "    esac\n  fi\n  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}\n"
                         "complete -o default -F _tp_plan tp-plan\n");
}
