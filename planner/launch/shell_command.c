/* shell_command.c - one command: assignments, what bash does itself, functions, and programs, which are noted and never
 * run. */
#include "planner/launch/shell_parts.h"

#include <string.h>

struct command {
    struct tpp_shell_script *script;
    const struct tpp_shell_node *node;
    struct tpp_shell_fields words;    /* expanded */
    struct tpp_shell_fields prefixes; /* assignments in front, as they are written */
};

static const char *name_of(const struct command *c)
{
    return c->words.count > 0 && tpp_shell_is_known(c->words.items[0]) ? tpp_shell_string(c->script, c->words.items[0])
                                                                       : "";
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static struct tpp_shell_fields behind(const struct command *c, size_t first)
{
    struct tpp_shell_fields rest = {0};
    if (first < c->words.count) {
        rest.items = c->words.items + first;
        rest.count = rest.capacity = c->words.count - first;
    }
    return rest;
}

/* ---- what bash does itself ---- */

static enum tpp_shell_truth do_nothing(struct command *c)
{
    (void)c;
    return TPP_YES;
}

static enum tpp_shell_truth do_false(struct command *c)
{
    (void)c;
    return TPP_NO;
}

static enum tpp_shell_truth do_test(struct command *c)
{
    return tpp_shell_test(c->script, &c->words, c->node->line);
}

static enum tpp_shell_truth stop_with(struct command *c, enum tpp_shell_stop stop)
{
    c->script->stop = stop;
    return TPP_YES;
}

static enum tpp_shell_truth do_exit(struct command *c)
{
    c->script->has_failed_exit = c->words.count > 1 && !tpp_shell_equals(c->words.items[1], "0");
    return stop_with(c, TPP_STOP_EXIT);
}

static enum tpp_shell_truth do_return(struct command *c)
{
    return stop_with(c, TPP_STOP_RETURN);
}

static enum tpp_shell_truth do_break(struct command *c)
{
    return stop_with(c, TPP_STOP_BREAK);
}

static enum tpp_shell_truth do_continue(struct command *c)
{
    return stop_with(c, TPP_STOP_CONTINUE);
}

static enum tpp_shell_truth do_unset(struct command *c)
{
    for (size_t i = 1; i < c->words.count; i++) {
        if (tpp_shell_is_known(c->words.items[i]) && tpp_shell_byte(c->words.items[i], 0) != '-')
            tpp_shell_unset(c->script, tpp_shell_string(c->script, c->words.items[i]));
    }
    return TPP_YES;
}

static enum tpp_shell_truth do_shift(struct command *c)
{
    struct tpp_shell_scope *scope = &c->script->scope;
    int64_t count = 1;
    uint32_t note;
    if (c->words.count > 1 && !tpp_shell_arithmetic(c->script, c->words.items[1], c->node->line, &count, &note))
        return TPP_MAYBE;
    if (count < 0 || (uint64_t)count > scope->num_arguments)
        return TPP_NO;
    scope->arguments += count;
    scope->num_arguments -= (size_t)count;
    return TPP_YES;
}

/* set -- words; options of the shell change nothing here. */
static enum tpp_shell_truth do_set(struct command *c)
{
    for (size_t i = 1; i < c->words.count; i++) {
        if (!tpp_shell_equals(c->words.items[i], "--"))
            continue;
        struct tpp_shell_fields arguments = behind(c, i + 1);
        c->script->scope.arguments = arguments.items;
        c->script->scope.num_arguments = arguments.count;
        c->script->scope.has_arguments = true;
        break;
    }
    return TPP_YES;
}

static struct tpp_shell_text joined_from(const struct command *c, size_t first)
{
    struct tpp_shell_builder text = {0};
    for (size_t i = first; i < c->words.count; i++) {
        if (i > first)
            tpp_shell_push_string(c->script, &text, " ", tpp_shell_line(c->words.items[i], c->node->line),
                                  TPP_SHELL_PLAIN);
        tpp_shell_push_text(c->script, &text, c->words.items[i], TPP_SHELL_PLAIN);
    }
    return tpp_shell_text_of(&text);
}

static enum tpp_shell_truth do_eval(struct command *c)
{
    tpp_shell_run_text(c->script, joined_from(c, 1), NULL);
    return TPP_MAYBE;
}

static enum tpp_shell_truth do_source(struct command *c)
{
    const struct tpp_shell_fields arguments = behind(c, 2);
    if (c->words.count > 1 && !tpp_shell_source(c->script, c->words.items[1], &arguments, c->node->line))
        tpp_shell_add_note(c->script, TPP_SHELL_SOURCED, c->node->line, tpp_shell_string(c->script, c->words.items[1]));
    return TPP_YES;
}

static enum tpp_shell_truth do_let(struct command *c)
{
    int64_t value = 0;
    uint32_t note;
    bool is_known = true;
    for (size_t i = 1; i < c->words.count; i++)
        is_known = tpp_shell_arithmetic(c->script, c->words.items[i], c->node->line, &value, &note);
    return !is_known ? TPP_MAYBE : value != 0 ? TPP_YES : TPP_NO;
}

static struct tpp_shell_text here_string(const struct command *c, bool *is_there)
{
    for (const struct tpp_shell_redirect *r = c->node->redirects; r != NULL; r = r->next) {
        if (r->kind == TPP_REDIRECT_HERE_STRING) {
            *is_there = true;
            return tpp_shell_expand_one(c->script, r->word);
        }
    }
    *is_there = false;
    return (struct tpp_shell_text){NULL, 0};
}

/* The words of a text as `read` splits it. */
static void split(struct tpp_shell_script *s, struct tpp_shell_text text, struct tpp_shell_fields *fields)
{
    size_t begin = 0;
    for (size_t i = 0; i <= text.count; i++) {
        char c = i < text.count && text.cells[i].note != 0 ? 'x' : tpp_shell_byte(text, i);
        if (c != ' ' && c != '\t' && c != '\n' && c != '\0')
            continue;
        if (i > begin)
            tpp_shell_add_field(s, fields, tpp_shell_slice(text, begin, i));
        begin = i + 1;
    }
}

static void set_unknown(struct tpp_shell_script *s, const char *name, uint32_t line)
{
    struct tpp_shell_builder open = {0};
    uint32_t note = tpp_shell_add_note(s, TPP_SHELL_COMMAND, line, name);
    tpp_shell_push_unknown(s, &open, note, line, TPP_SHELL_SPLIT);
    tpp_shell_set(s, name, tpp_shell_text_of(&open));
}

/* read, mapfile, readarray, getopts: names get what they read; known only from <<<. */
static enum tpp_shell_truth do_read(struct command *c)
{
    struct tpp_shell_fields parts = {0};
    bool is_here, is_array = false;
    struct tpp_shell_text text = here_string(c, &is_here);
    size_t num_names = 0;
    split(c->script, text, &parts);
    for (size_t i = 1; i < c->words.count; i++) {
        struct tpp_shell_text word = c->words.items[i];
        if (tpp_shell_byte(word, 0) == '-') {
            is_array = is_array || tpp_shell_byte(word, word.count - 1) == 'a';
            continue;
        }
        if (tpp_shell_name_length(word, 0) != word.count)
            continue;
        const char *name = tpp_shell_string(c->script, word);
        if (!is_here)
            set_unknown(c->script, name, c->node->line);
        else if (is_array)
            tpp_shell_set_array(c->script, name, &parts);
        else if (i + 1 == c->words.count && num_names == 0)
            tpp_shell_set(c->script, name, text);
        else
            tpp_shell_set(c->script, name,
                          num_names < parts.count ? parts.items[num_names] : (struct tpp_shell_text){NULL, 0});
        num_names++;
    }
    return is_here ? TPP_YES : TPP_MAYBE;
}

/* ---- programs ---- */

/* The body of the here-document; false without one. */
static bool here_document(const struct command *c, struct tpp_shell_text *text)
{
    for (const struct tpp_shell_redirect *r = c->node->redirects; r != NULL; r = r->next) {
        if (r->kind == TPP_REDIRECT_HERE) {
            *text = r->is_literal ? r->body : tpp_shell_expand_document(c->script, r->body);
            return true;
        }
    }
    return false;
}

static void add_file(struct tpp_shell_script *s, struct tpp_shell_text path, struct tpp_shell_text content)
{
    if (tpp_shell_grow(s, &s->files, s->num_files, &s->files_capacity, sizeof *s->files))
        s->files[s->num_files++] = (struct tpp_shell_file){tpp_shell_word_of(s, path), tpp_shell_word_of(s, content)};
}

/* cat <<EOF > FILE, echo TEXT > FILE, tee FILE <<EOF. */
static enum tpp_shell_truth do_print(struct command *c)
{
    struct tpp_shell_text content;
    bool is_document = here_document(c, &content), is_echo = strcmp(name_of(c), "echo") == 0;
    if (!is_document && !is_echo)
        return TPP_YES;
    if (!is_document)
        content = joined_from(c, 1);
    for (const struct tpp_shell_redirect *r = c->node->redirects; r != NULL; r = r->next) {
        if (r->kind == TPP_REDIRECT_WRITE)
            add_file(c->script, tpp_shell_expand_one(c->script, r->word), content);
    }
    if (is_document && strcmp(name_of(c), "tee") == 0 && c->words.count > 1)
        add_file(c->script, c->words.items[c->words.count - 1], content);
    return TPP_YES;
}

static bool is_shell(const char *name)
{
    return strcmp(name, "bash") == 0 || strcmp(name, "sh") == 0 || strcmp(name, "zsh") == 0;
}

/* bash -c TEXT among the words: index of the text, 0 when it is not there. */
static size_t find_text(const struct command *c, size_t *shell)
{
    for (size_t i = 0; i + 2 < c->words.count; i++) {
        if (!tpp_shell_is_known(c->words.items[i]) ||
            !is_shell(base_name(tpp_shell_string(c->script, c->words.items[i]))))
            continue;
        *shell = i;
        for (size_t k = i + 1; k + 1 < c->words.count && tpp_shell_byte(c->words.items[k], 0) == '-'; k++) {
            if (tpp_shell_byte(c->words.items[k], c->words.items[k].count - 1) == 'c')
                return k + 1;
        }
    }
    return 0;
}

/* The shell that `num_outer` words start runs `text`. */
static void run_inside(struct command *c, struct tpp_shell_text text, size_t num_outer, size_t first_argument)
{
    struct tpp_shell_script *s = c->script;
    struct tpp_shell_words outer = s->outer;
    struct tpp_shell_fields words = {c->words.items, num_outer, num_outer}, arguments = behind(c, first_argument);
    s->outer = tpp_shell_words_of(s, &words);
    tpp_shell_run_text(s, text, &arguments);
    s->outer = outer;
}

static void set_environment(struct command *c, struct tpp_shell_command *command)
{
    struct tpp_shell_script *s = c->script;
    struct tpp_shell_variable *environment = tpp_shell_alloc(s, s->scope.count + 1, sizeof *environment);
    for (size_t i = 0; environment != NULL && i < s->scope.count; i++) {
        const struct tpp_shell_value *value = &s->scope.values[i];
        if (value->is_set && value->is_exported && value->count > 0)
            environment[command->num_environment++] =
                (struct tpp_shell_variable){value->name, tpp_shell_word_of(s, value->items[0])};
    }
    command->environment = environment;
}

static void add_command(struct command *c)
{
    struct tpp_shell_script *s = c->script;
    struct tpp_shell_command command = {.line = c->node->line,
                                        .words = tpp_shell_words_of(s, &c->words),
                                        .outer = s->outer,
                                        .is_conditional = s->undecided > 0};
    set_environment(c, &command);
    if (tpp_shell_grow(s, &s->commands, s->num_commands, &s->commands_capacity, sizeof command))
        s->commands[s->num_commands++] = command;
}

/* sbatch OPTIONS FILE: the first word that is no option and names a file beside the script; false: there is none.
 * Values of options stand among the words, but name no file. */
static bool submit(struct command *c)
{
    for (size_t i = 1; i < c->words.count; i++) {
        const struct tpp_shell_fields options = {c->words.items, i, i}, arguments = behind(c, i);
        if (tpp_shell_byte(c->words.items[i], 0) != '-' &&
            tpp_shell_submit(c->script, c->words.items[i], &options, &arguments, c->node->line))
            return true;
    }
    return false;
}

static enum tpp_shell_truth run_program(struct command *c)
{
    const char *name = base_name(name_of(c));
    struct tpp_shell_text text;
    size_t shell = 0, at = find_text(c, &shell);
    if (at > 0) {
        run_inside(c, c->words.items[at], shell, at + 1);
    } else if ((is_shell(name) || strcmp(name, "sbatch") == 0) && here_document(c, &text)) {
        if (!is_shell(name))
            tpp_shell_read_batch(c->script, text);
        run_inside(c, text, is_shell(name) ? 0 : c->words.count, c->words.count);
    } else if (strcmp(name, "sbatch") != 0 || !submit(c)) {
        add_command(c);
    }
    return TPP_MAYBE;
}

static enum tpp_shell_truth call(struct command *c, const struct tpp_shell_function *function)
{
    struct tpp_shell_script *s = c->script;
    struct tpp_shell_scope saved = s->scope;
    struct tpp_shell_fields arguments = behind(c, 1);
    s->scope.arguments = arguments.items;
    s->scope.num_arguments = arguments.count;
    s->scope.has_arguments = true;
    enum tpp_shell_truth truth = tpp_shell_run(s, function->body);
    if (s->stop == TPP_STOP_RETURN)
        s->stop = TPP_STOP_NONE;
    s->scope.arguments = saved.arguments;
    s->scope.num_arguments = saved.num_arguments;
    s->scope.has_arguments = saved.has_arguments;
    return truth;
}

struct builtin {
    const char *name;
    enum tpp_shell_truth (*run)(struct command *c);
};

/* Commands whose success is taken for granted do nothing here. */
static const struct builtin builtins[] = {
    {":", do_nothing},         {"true", do_nothing},   {"false", do_false},    {"[", do_test},
    {"test", do_test},         {"exit", do_exit},      {"return", do_return},  {"break", do_break},
    {"continue", do_continue}, {"unset", do_unset},    {"shift", do_shift},    {"set", do_set},
    {"eval", do_eval},         {"source", do_source},  {".", do_source},       {"let", do_let},
    {"read", do_read},         {"mapfile", do_read},   {"readarray", do_read}, {"getopts", do_read},
    {"echo", do_print},        {"cat", do_print},      {"tee", do_print},      {"printf", do_nothing},
    {"cd", do_nothing},        {"pushd", do_nothing},  {"popd", do_nothing},   {"mkdir", do_nothing},
    {"shopt", do_nothing},     {"ulimit", do_nothing}, {"module", do_nothing}, {"trap", do_nothing},
    {"wait", do_nothing},      {"sleep", do_nothing},  {"umask", do_nothing},  {"clear", do_nothing},
    {"date", do_nothing},      {"pwd", do_nothing},    {"conda", do_nothing},  {"touch", do_nothing},
    {"rm", do_nothing},        {"cp", do_nothing},     {"mv", do_nothing},     {"chmod", do_nothing},
};

static enum tpp_shell_truth dispatch(struct command *c)
{
    const char *name = name_of(c);
    for (const struct tpp_shell_function *f = c->script->functions; f != NULL; f = f->next) {
        if (strcmp(f->name, name) == 0)
            return call(c, f);
    }
    if (strcmp(name, "exec") == 0 || strcmp(name, "command") == 0 || strcmp(name, "builtin") == 0) {
        bool replaces = *name == 'e' && c->words.count > 1;
        c->words = behind(c, 1);
        enum tpp_shell_truth truth = c->words.count > 0 ? dispatch(c) : TPP_YES;
        if (replaces)
            c->script->stop = TPP_STOP_EXIT;
        return truth;
    }
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++) {
        if (strcmp(builtins[i].name, name) == 0)
            return builtins[i].run(c);
    }
    return run_program(c);
}

/* Assignments in front of a command hold for that command. */
static enum tpp_shell_truth run_with_prefixes(struct command *c)
{
    const struct tpp_shell_scope saved = c->script->scope;
    if (c->prefixes.count == 0)
        return dispatch(c);
    c->script->scope = tpp_shell_scope_copy(c->script, &saved);
    for (size_t i = 0; i < c->prefixes.count; i++)
        tpp_shell_export(c->script, tpp_shell_assign(c->script, c->prefixes.items[i]));
    enum tpp_shell_truth truth = dispatch(c);
    c->script->scope = saved;
    return truth;
}

static bool is_declaration(struct tpp_shell_text word)
{
    static const char *const names[] = {"export", "declare", "typeset", "local", "readonly"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (tpp_shell_equals(word, names[i]))
            return true;
    }
    return false;
}

static enum tpp_shell_truth declare(struct tpp_shell_script *s, const struct tpp_shell_node *node, size_t first)
{
    bool exports = tpp_shell_equals(node->words.items[first], "export");
    for (size_t i = first + 1; i < node->words.count; i++) {
        struct tpp_shell_text word = node->words.items[i];
        if (tpp_shell_byte(word, 0) == '-') {
            exports = exports || tpp_shell_byte(word, 1) == 'x';
        } else if (tpp_shell_is_assignment(word)) {
            const char *name = tpp_shell_assign(s, word);
            if (exports)
                tpp_shell_export(s, name);
        } else if (exports && tpp_shell_name_length(word, 0) == word.count) {
            tpp_shell_export(s, tpp_shell_string(s, word));
        }
    }
    return TPP_YES;
}

enum tpp_shell_truth tpp_shell_run_simple(struct tpp_shell_script *s, struct tpp_shell_node *node)
{
    struct command c = {.script = s, .node = node};
    size_t first = 0;
    while (first < node->words.count && tpp_shell_is_assignment(node->words.items[first]))
        tpp_shell_add_field(s, &c.prefixes, node->words.items[first++]);
    if (first < node->words.count && is_declaration(node->words.items[first]))
        return declare(s, node, first);
    for (size_t i = first; i < node->words.count && !tpp_shell_failed(s); i++)
        tpp_shell_expand(s, node->words.items[i], &c.words);
    if (tpp_shell_failed(s))
        return TPP_MAYBE;
    if (c.words.count > 0)
        return run_with_prefixes(&c);
    for (size_t i = 0; i < c.prefixes.count; i++)
        tpp_shell_assign(s, c.prefixes.items[i]);
    return TPP_YES;
}
