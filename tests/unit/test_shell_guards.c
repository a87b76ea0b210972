/* Scripts that ask for their variables, lose what the caller gave, or leave <places> to be filled in. */
#include "planner/launch/shell_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tpp_shell_script *read_with(const char *text, const struct tpp_shell_setting *settings, size_t count)
{
    struct tpp_shell_script *script;
    struct tpp_error err = {.code = TPP_OK};
    if (tpp_shell_read(text, strlen(text), "test.sh", settings, count, &script, &err) != TPP_OK)
        fail_msg("%s at %s", err.message, err.where);
    return script;
}

/* The words of the only program that runs, joined by '|'; an unknown one has '?' behind it. */
static void check(const char *text, const char *expected)
{
    char found[1024] = "";
    size_t count;
    struct tpp_shell_script *script = read_with(text, NULL, 0);
    const struct tpp_shell_command *commands = tpp_shell_commands(script, &count);
    if (*expected == '\0') {
        assert_int_equal(count, 0);
    } else {
        assert_int_equal(count, 1);
        for (size_t i = 0; i < commands[0].words.count; i++) {
            const size_t used = strlen(found);
            snprintf(found + used, sizeof found - used, "%s%s%s", i > 0 ? "|" : "", commands[0].words.items[i].text,
                     commands[0].words.items[i].note != 0 ? "?" : "");
        }
        assert_string_equal(found, expected);
    }
    tpp_shell_free(script);
}

/* Whoever runs the script sets what it stops without. */
static void test_a_question_for_a_variable_does_not_end_the_script(void **state)
{
    (void)state;
    check("if [[ -z $WORK ]]; then\n  echo 'set WORK'\n  exit 1\nfi\nrun $WORK/x", "run|$WORK/x?");
    check("if [ -z \"$WORK\" ]; then exit 1; else B=2; fi\nrun $B", "run|2");
    check("[ -z \"$WORK\" ] && exit 1\nrun", "run");
    check("[ -n \"$WORK\" ] || { echo 'set WORK' >&2; exit 1; }\nrun", "run");
    check("if [ -z \"$1\" ]; then echo usage; exit 2; fi\nrun $1", "run|$1?");
    /* No question of that kind: */
    check("if [ -z \"$WORK\" ]; then run a; exit 0; fi\nrun b", "run|a");
    check("if [ -z \"$WORK\" ]; then run a; exit; fi\nrun b", "run|a");
    check("WORK=\nif [ -z \"$WORK\" ]; then exit 1; fi\nrun", "");
    check("if [ -z \"$WORK\" ]; then WORK=4; fi\nrun $WORK", "run|4");
    check("if [ -z \"$WORK\" ]; then :; fi\nif [ 1 = 1 ]; then exit 1; fi\nrun", "");
}

static unsigned num_replaced(const char *text, const char *value, uint32_t *line)
{
    const struct tpp_shell_setting given = {"TP", value};
    size_t count;
    unsigned found = 0;
    struct tpp_shell_script *script = read_with(text, &given, 1);
    const struct tpp_shell_note *notes = tpp_shell_notes(script, &count);
    for (size_t i = 0; i < count; i++) {
        if (notes[i].kind != TPP_SHELL_REPLACED)
            continue;
        assert_string_equal(notes[i].text, "TP");
        *line = notes[i].line;
        found++;
    }
    tpp_shell_free(script);
    return found;
}

static void test_what_the_caller_gives_and_the_script_sets_is_noted(void **state)
{
    uint32_t line = 0;
    (void)state;
    assert_int_equal(num_replaced("A=1\nTP=4\nTP=5\nrun $TP", "8", &line), 1);
    assert_int_equal(line, 2);
    assert_int_equal(num_replaced("if maybe; then\nTP=4\nfi\nrun $TP", "8", &line), 1);
    assert_int_equal(num_replaced("TP=${TP:-4}\nrun $TP", "8", &line), 0);
    assert_int_equal(num_replaced("TP=8\nrun $TP", "8", &line), 0);
    assert_int_equal(num_replaced("TP=\"$TP --more\"\nrun $TP", "8", &line), 0);
    assert_int_equal(num_replaced("export TP\n: ${TP:=4}\nrun $TP", "8", &line), 0);
}

static void test_places_to_be_filled_in(void **state)
{
    (void)state;
    check("run --port <node1_port>", "run|--port|<node1_port>?");
    check("run --a $B/<NAME> \\\n  --c 2", "run|--a|$B/<NAME>?|--c|2");
    check("D=/x/<YOUR_NAME>\nrun $D/y", "run|/x/<YOUR_NAME>/y?");
    check("run -v <in >out", "run|-v"); /* redirections */
    check("run -v <in> out", "run|-v");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_question_for_a_variable_does_not_end_the_script),
        cmocka_unit_test(test_what_the_caller_gives_and_the_script_sets_is_noted),
        cmocka_unit_test(test_places_to_be_filled_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
