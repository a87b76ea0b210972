/* What bash would start, for the constructs of public launch scripts. Expected words were written by hand from the
 * rules of the bash manual (quoting, parameter expansion, word splitting); none were taken from this reader. */
#include "planner/launch/shell_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct tpp_shell_script *read_with(const char *text, const struct tpp_shell_setting *settings, size_t count)
{
    struct tpp_shell_script *script;
    struct tpp_error err = {.code = TPP_OK};
    if (tpp_shell_read(text, strlen(text), "test.sh", settings, count, &script, &err) != TPP_OK)
        fail_msg("%s at %s", err.message, err.where);
    return script;
}

static struct tpp_shell_script *read_text(const char *text)
{
    return read_with(text, NULL, 0);
}

static const struct tpp_shell_command *command_at(const struct tpp_shell_script *script, size_t index)
{
    size_t count;
    const struct tpp_shell_command *commands = tpp_shell_commands(script, &count);
    assert_true(index < count);
    return &commands[index];
}

/* Words joined by '|'; an unknown word shows what is written, with '?' behind it. */
static void assert_words(struct tpp_shell_words words, const char *expected)
{
    char found[4096] = "";
    for (size_t i = 0; i < words.count; i++) {
        size_t used = strlen(found);
        snprintf(found + used, sizeof found - used, "%s%s%s", i > 0 ? "|" : "", words.items[i].text,
                 words.items[i].note != 0 ? "?" : "");
    }
    assert_string_equal(found, expected);
}

/* The words of the last command. */
static void check(const char *text, const char *expected)
{
    size_t count;
    struct tpp_shell_script *script = read_text(text);
    tpp_shell_commands(script, &count);
    assert_true(count > 0);
    assert_words(command_at(script, count - 1)->words, expected);
    tpp_shell_free(script);
}

static void test_quotes_join_and_hide(void **state)
{
    (void)state;
    check("run 'a b' \"c d\" e\\ f g'h'\"i\" \"\" ''", "run|a b|c d|e f|ghi||");
    check("run \"a\\\"b\" \"\\$x\" 'a\\b' \"a\\nb\"", "run|a\"b|$x|a\\b|a\\nb");
    check("run $'a\\tb' $'it\\'s'", "run|a\tb|it's");
}

static void test_lines_are_joined_and_comments_left_out(void **state)
{
    (void)state;
    check("run --a 1 \\\n  --b 2 # --c 3\n", "run|--a|1|--b|2");
    check("run --a 1 \\\n\n", "run|--a|1");          /* a backslash in front of an empty line ends the command */
    check("run --a#b \\\n\t--c\n", "run|--a#b|--c"); /* no comment inside a word; tabs */
    check("run a\r\n", "run|a");                     /* an editor's line ends */
}

static void test_variables_and_defaults(void **state)
{
    (void)state;
    check("TP=4\nrun $TP ${TP} x${TP}y \"$TP\"", "run|4|4|x4y|4");
    check("run ${TP:-4} ${1:-x} ${A:-a b} \"${A:-a b}\" ${B:-${C:-7}}", "run|4|x|a|b|a b|7");
    check("A=\nrun ${A:-1} ${A-2} ${A:+3} ${A+4}x", "run|1|4x");
    check("run ${A:=5} $A", "run|5|5");
    check("A=abc.tar.gz\nrun ${#A} ${A%.*} ${A%%.*} ${A#*.} ${A##*.} ${A/tar/zip} ${A:1:2}",
          "run|10|abc.tar|abc|tar.gz|gz|abc.zip.gz|bc");
    check("A=x\nB=A\nrun ${!B} ${A^^}", "run|x|X");
    check("A=1\nA+=2\nrun $A", "run|12");
}

static void test_unquoted_values_are_split_again(void **state)
{
    (void)state;
    check("A='--b  1 \t--c'\nrun $A \"$A\"", "run|--b|1|--c|--b  1 \t--c");
    check("A=\" \\\n --a 1 \\\n --b 2\"\nrun $A", "run|--a|1|--b|2"); /* options in one long string */
    check("O=\"--lr 1\"\nG=\"--a $O --c\"\nrun $G", "run|--a|--lr|1|--c");
    check("A=\"--x\"\nA=\"${A} --y '1 2'\"\nrun $A", "run|--x|--y|'1|2'"); /* quotes stay characters */
}

static void test_arrays(void **state)
{
    (void)state;
    check("A=(\n  --a 1 # one\n  # --b 2\n  --c\n)\nrun \"${A[@]}\"", "run|--a|1|--c");
    check("A=(--a)\nA+=(--b 2)\nrun ${A[@]} ${#A[@]} ${A[1]}", "run|--a|--b|2|3|--b");
    check("A=(\"--fp8-format hybrid\" x)\nrun \"${A[@]}\"", "run|--fp8-format hybrid|x");
    check("A=(\"--fp8-format hybrid\" x)\nrun ${A[@]}", "run|--fp8-format|hybrid|x");
    check("A=(\"0:16 2.4B:320\")\nrun --s ${A[@]}", "run|--s|0:16|2.4B:320");
    check("A=(\"--split '99,1,0'\")\nrun ${A[@]}", "run|--split|'99,1,0'");
    check("A=()\nrun a \"${A[@]}\" b ${A[@]}", "run|a|b");
    check("A=(1 2)\nB=(\"${A[@]}\" 3)\nrun \"${B[*]}\" \"x${B[@]}y\"", "run|1 2 3|x1|2|3y");
}

static void test_arithmetic(void **state)
{
    (void)state;
    check("G=8\nN=2\nrun $(( $G * N )) $((G*N-1)) $(( (G + 1) % 4 )) $((2**5)) $((G>N ? 1 : 0))", "run|16|15|1|32|1");
    check("i=1\n((i++))\n(( i += 3 ))\nrun $i $((0x10)) $((7/2)) $((-7/2))", "run|5|16|3|-3");
    check("run $((1/0))", "run|1/0?");
    check("run $((GPUS * 2))", "run|$GPUS?");
}

static void test_what_commands_print_is_not_known(void **state)
{
    (void)state;
    check("A=$(nproc)\nrun $A `date` \"x$(echo a b)y\"", "run|$(nproc)?|`date`?|x$(echo a b)y?");
    check("N=$(( $(nvidia-smi -L | wc -l) * 2 ))\nrun $N", "run|$(nvidia-smi -L | wc -l)?");
}

/* The commands below would leave files if anything of the script ran. */
static void test_nothing_is_executed(void **state)
{
    char marker[] = "/tmp/tpp-shell-XXXXXX", text[1024];
    (void)state;
    int file = mkstemp(marker);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(unlink(marker), 0);
    snprintf(text, sizeof text,
             "A=$(touch %s)\nB=`touch %s`\ntouch %s\neval \"touch %s\"\nbash -c 'touch %s'\n"
             "cat <<E > %s\nx\nE\n: > %s\ntorchrun \"$(touch %s)\" $A $B <(touch %s) ${C:-$(touch %s)} | tee %s\n"
             "[ -n \"$(touch %s)\" ] && (touch %s)\n",
             marker, marker, marker, marker, marker, marker, marker, marker, marker, marker, marker, marker, marker);
    tpp_shell_free(read_text(text));
    assert_int_equal(access(marker, F_OK), -1);
}

static void test_conditions_that_can_be_decided(void **state)
{
    (void)state;
    check("M=7b\nif [ $M = 1b ]; then T=1\nelif [[ $M == 7* ]]; then T=4\nelse T=8; fi\nrun $T", "run|4");
    check("T=2\nif [ $T -gt 1 ] && [ \"$X\" = \"\" -o $T -eq 2 ]; then S=--sp; fi\nrun $S", "run|--sp");
    check("if [ -z ${VP} ]; then V=''; else V=\"--vp $VP\"; fi\nrun x $V", "run|x");
    check("case 8b in 70b) T=8;; 7b|8b) T=2;; *) T=1;; esac\nrun $T", "run|2");
    check("[[ -n $A || 3 -lt 2 ]] || T=9\nrun $T", "run|9");
    check("if (( 3 > 2 )); then run yes; else run no; fi", "run|yes");
    check("for i in 1 2 3; do A+=\" $i\"; done\nrun $A", "run|1|2|3");
    check("f() { local x=$1; B=\"$x$2\"; }\nf a b\nrun $B", "run|ab");
    check("while [[ $# -gt 0 ]]; do case $1 in --x) X=$2; shift 2;; esac; done\nrun ${X:-none}", "run|none");
}

static void test_conditions_that_cannot_be_decided_leave_the_value_open(void **state)
{
    size_t count;
    (void)state;
    struct tpp_shell_script *script = read_text("TP=1\nif [ -f /etc/x ]; then\nTP=8\nfi\nrun $TP");
    const struct tpp_shell_command *command = command_at(script, 0);
    const struct tpp_shell_note *note = tpp_shell_note_of(script, &command->words.items[1]);
    assert_non_null(note);
    assert_int_equal(note->kind, TPP_SHELL_UNDECIDED);
    assert_int_equal(note->line, 2);
    assert_string_equal(note->text, "$TP");
    tpp_shell_free(script);
    check("A=(--a)\nif grep -q x y; then A+=(--b); fi\nrun \"${A[@]}\"", "run|--a|$A?"); /* what was there stays */
    check("if [ -d $X ]; then T=2; else T=2; fi\nrun $T", "run|2");                      /* alike in both */
    check("T=1\nif [ ! -d $X ]; then T=3; exit 1; fi\nrun $T", "run|1");                 /* that branch ends */
    script = read_text("if [ -d x ]; then run a; else run b; fi");
    tpp_shell_commands(script, &count);
    assert_int_equal(count, 2);
    assert_true(command_at(script, 0)->is_conditional && command_at(script, 1)->is_conditional);
    tpp_shell_free(script);
}

static void test_every_word_knows_its_line(void **state)
{
    (void)state;
    struct tpp_shell_script *script = read_text("TP=4\nA=(\n  --tp $TP\n  --pp 2\n)\nrun \\\n  \"${A[@]}\" $MISSING");
    const struct tpp_shell_words words = command_at(script, 0)->words;
    static const uint32_t lines[] = {6, 3, 1, 4, 4, 7};
    assert_int_equal(words.count, 6);
    for (size_t i = 0; i < words.count; i++)
        assert_int_equal(words.items[i].line, lines[i]);
    const struct tpp_shell_note *note = tpp_shell_note_of(script, &words.items[5]);
    assert_int_equal(note->kind, TPP_SHELL_UNSET);
    assert_true(words.items[5].may_vanish);
    tpp_shell_free(script);
}

static void test_reasons_of_unknown_values(void **state)
{
    static const struct {
        const char *text;
        enum tpp_shell_note_kind kind;
    } cases[] = {
        {"run $A", TPP_SHELL_UNSET},
        {"run ${A:?set A}", TPP_SHELL_REQUIRED},
        {"run $3", TPP_SHELL_POSITIONAL},
        {"run $(x)", TPP_SHELL_COMMAND},
        {"A=<path to it>\nrun $A", TPP_SHELL_PLACEHOLDER},
        {"run $PWD", TPP_SHELL_COMMAND},
        {"run ${A@Q}", TPP_SHELL_UNREADABLE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tpp_shell_script *script = read_text(cases[i].text);
        const struct tpp_shell_note *note = tpp_shell_note_of(script, &command_at(script, 0)->words.items[1]);
        assert_non_null(note);
        assert_int_equal(note->kind, cases[i].kind);
        tpp_shell_free(script);
    }
}

/* POSIX, expr: numbers and operators as words of their own, the usual precedence. */
static void test_sums_of_expr_are_worked_out(void **state)
{
    (void)state;
    check("N=2\nrun $(expr 16 / $N) \"$(expr 2 + 3 \\* 4)\" `expr 7 % 4`", "run|8|14|3");
    check("N='8 * 2'\nrun $(expr $N)", "run|16");
    check("run $(expr 1 + $A) $(expr 010 + 1) $(expr length abc) $(expr 4 / 2; touch x) $(expr 1 +) `expr $(touch x)`",
          "run|$(expr 1 + $A)?|$(expr 010 + 1)?|$(expr length abc)?|$(expr 4 / 2; touch x)?|$(expr 1 +)?|"
          "`expr $(touch x)`?");
    check("run $(expr 1 / 0)", "run|1 / 0 ?");
}

static void test_the_caller_fills_what_is_open(void **state)
{
    const struct tpp_shell_setting settings[] = {{"TP", "8"}, {"2", "two words"}, {"MODE", "a"}};
    (void)state;
    struct tpp_shell_script *script =
        read_with("MODE=b\nrun $TP ${TP:-4} \"$2\" $1 $# $MODE", settings, sizeof settings / sizeof *settings);
    assert_words(command_at(script, 0)->words, "run|8|8|two words|$1?|2|b");
    tpp_shell_free(script);
    const struct tpp_shell_setting empty[] = {{"1", ""}, {"3", "c"}};
    script = read_with("if [ \"$1\" = a ]; then run a; else run \"<$1>\" \"$3\" $#; fi", empty, 2);
    assert_words(command_at(script, 0)->words, "run|<>|c|3");
    tpp_shell_free(script);
    const struct tpp_shell_setting none[] = {{"#", "0"}};
    script = read_with("if [ \"$1\" = a ]; then run a; else run \"<$1>\" ${2:-d} $#; fi", none, 1);
    assert_words(command_at(script, 0)->words, "run|<>|d|0");
    tpp_shell_free(script);
}

static void test_environment_of_a_command(void **state)
{
    (void)state;
    struct tpp_shell_script *script =
        read_text("export A=1 B=2\nC=3\nD=4 \\\nE='x y' \\\nmegatron sft --model m\nunset A\nrun");
    const struct tpp_shell_command *first = command_at(script, 0), *second = command_at(script, 1);
    assert_int_equal(first->num_environment, 4); /* A B D E */
    assert_string_equal(first->environment[3].name, "E");
    assert_string_equal(first->environment[3].value.text, "x y");
    assert_int_equal(second->num_environment, 1);
    assert_string_equal(second->environment[0].name, "B");
    tpp_shell_free(script);
}

static void test_here_documents_and_redirections(void **state)
{
    size_t count;
    (void)state;
    struct tpp_shell_script *script = read_text("M=4\ncat <<EOT > $D/ds.json\n{\"a\": $M, \"b\": \"\\$x\"}\nEOT\n"
                                                "cat > raw <<'E'\n$M\nE\nrun --a 2>&1 | tee log.txt &> all.log\n");
    const struct tpp_shell_file *files = tpp_shell_files(script, &count);
    assert_int_equal(count, 2);
    assert_string_equal(files[0].path.text, "$D/ds.json");
    assert_string_equal(files[0].content.text, "{\"a\": 4, \"b\": \"$x\"}\n");
    assert_string_equal(files[1].content.text, "$M\n");
    assert_words(command_at(script, 0)->words, "run|--a");
    tpp_shell_free(script);
}

static void test_text_for_another_shell(void **state)
{
    (void)state;
    struct tpp_shell_script *script =
        read_text("L='torchrun --nnodes 2'\nsrun -N 2 bash -c \"$L --node_rank \\$SLURM_PROCID x.py '1 2'\"");
    assert_words(command_at(script, 0)->words, "torchrun|--nnodes|2|--node_rank|$SLURM_PROCID?|x.py|1 2");
    assert_words(command_at(script, 0)->outer, "srun|-N|2");
    tpp_shell_free(script);
    check("bash -c 'run \"$0\" \"$@\"' a b 'c d'", "run|a|b|c d");
    check("C=\"run 'a b' c &> log\"\neval $C", "run|a b|c");
    check("exec run a\nrun b", "run|a");
}

static void test_batch_lines_set_the_job(void **state)
{
    (void)state;
    struct tpp_shell_script *script = read_text(
        "#!/bin/bash\n#SBATCH --nodes=4 --gres=gpu:a100:8\n#SBATCH <OPTIONS> -n 32 # all\n#SBATCH --exclusive\n"
        "run $SLURM_NNODES $SLURM_GPUS_ON_NODE $SLURM_NTASKS");
    assert_words(command_at(script, 0)->words, "run|4|8|32");
    assert_words(tpp_shell_batch_options(script), "--nodes=4|--gres=gpu:a100:8|<OPTIONS>|-n|32|--exclusive");
    tpp_shell_free(script);
}

static void test_names_of_files_that_are_read_are_noted(void **state)
{
    size_t count;
    (void)state;
    struct tpp_shell_script *script = read_text("source ./env.sh\nread -r -a P <<< \"a b\"\nrun ${P[@]}");
    const struct tpp_shell_note *notes = tpp_shell_notes(script, &count);
    assert_int_equal(count, 1);
    assert_int_equal(notes[0].kind, TPP_SHELL_SOURCED);
    assert_string_equal(notes[0].text, "./env.sh");
    assert_words(command_at(script, 0)->words, "run|a|b");
    tpp_shell_free(script);
}

/* Files "name=content", found by name. */
static bool read_from(void *context, const char *path, char **data, size_t *length)
{
    const size_t size = strlen(path);
    for (const char *const *file = context; *file != NULL; file++) {
        if (strncmp(*file, path, size) == 0 && (*file)[size] == '=') {
            *length = strlen(*file + size + 1);
            *data = malloc(*length + 1);
            assert_non_null(*data);
            memcpy(*data, *file + size + 1, *length + 1);
            return true;
        }
    }
    return false;
}

static struct tpp_shell_script *read_beside(const char *text, const char **files)
{
    static struct tpp_shell_source source = {.read = read_from};
    struct tpp_shell_script *script;
    struct tpp_error err = {.code = TPP_OK};
    source.context = files;
    if (tpp_shell_read_with(text, strlen(text), "test.sh", NULL, 0, &source, &script, &err) != TPP_OK)
        fail_msg("%s at %s", err.message, err.where);
    return script;
}

static void test_sourced_files_are_followed_and_count_at_their_line(void **state)
{
    static const char *files[] = {"./env.sh=TP=4\nif [ \"$1\" = big ]; then PP=8; else PP=2; fi\nreturn 0\nTP=9\n",
                                  "env.sh=TP=2\nsource inner.sh", "inner.sh=PP=$((TP * 3))\r\n",
                                  "train.sh=torchrun a.py --x", NULL};
    size_t count;
    (void)state;
    struct tpp_shell_script *script = read_beside("A=1\nsource ./env.sh big\nrun $TP $PP $1", files);
    assert_words(command_at(script, 0)->words, "run|4|8|$1?");
    assert_int_equal(command_at(script, 0)->words.items[1].line, 2); /* of the source */
    tpp_shell_notes(script, &count);
    assert_int_equal(count, 1); /* of $1 */
    tpp_shell_free(script);
    script = read_beside("D=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\n. \"$D/env.sh\"\nrun $TP $PP", files);
    assert_words(command_at(script, 0)->words, "run|2|6");
    tpp_shell_free(script);
    script = read_beside("\n. $(dirname \"$0\")/train.sh", files);
    assert_words(command_at(script, 0)->words, "torchrun|a.py|--x");
    assert_int_equal(command_at(script, 0)->line, 2);
    tpp_shell_free(script);
}

/* Cycles and fans end, what is no script and what is elsewhere is a note. */
static void test_sourced_files_that_cannot_be_followed_are_noted(void **state)
{
    static const char *files[] = {"a=source b\nA=1",
                                  "b=. a\nB=2",
                                  "c=. c1; . c1",
                                  "c1=. c2; . c2",
                                  "c2=. c3; . c3",
                                  "c3=. c4; . c4",
                                  "c4=. c5; . c5",
                                  "c5=. c6; . c6",
                                  "c6=N=1",
                                  "bad=if then (",
                                  NULL};
    static const struct {
        const char *text, *words;
        size_t num_notes;
    } cases[] = {
        {"source a\nrun $A $B", "run|1|2", 1},
        {"source bad\nT=3\nrun $T", "run|3", 1},
        {"source $HOME/a\nrun 1", "run|1", 2}, /* $HOME, and the file */
        {"source nowhere\nrun 1", "run|1", 1},
        {"source $(ls)/a\nrun 1", "run|1", 2},
        {"source \"$(dirname \"$0\")/..$X/a\"\nrun 1", "run|1", 3},
    };
    size_t count;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tpp_shell_script *script = read_beside(cases[i].text, files);
        assert_words(command_at(script, 0)->words, cases[i].words);
        tpp_shell_notes(script, &count);
        if (count != cases[i].num_notes)
            fail_msg("%zu notes for %s", count, cases[i].text);
        tpp_shell_free(script);
    }
    struct tpp_shell_script *script = read_beside("source c\nrun $N", files);
    assert_words(command_at(script, 0)->words, "run|1");
    tpp_shell_free(script);
}

static void test_what_is_no_script_is_named_with_its_line(void **state)
{
    static const struct {
        const char *text, *where;
    } cases[] = {
        {"a\nb 'c\n", "test.sh:2"},
        {"if true; then\n x\n", "test.sh:2"},
        {"x\n)\n", "test.sh:2"},
        {"run \"$(", "test.sh:1"},
        {"A=(1 2\n", "test.sh:1"},
        {"for i in 1; do\n", "test.sh:1"},
        {"case x in\na) b\n", "test.sh:2"},
        {"[[ a == b\n", "test.sh:1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tpp_shell_script *script;
        struct tpp_error err = {.code = TPP_OK};
        assert_int_equal(tpp_shell_read(cases[i].text, strlen(cases[i].text), "test.sh", NULL, 0, &script, &err),
                         TPP_E_SYNTAX);
        assert_null(script);
        assert_string_equal(err.where, cases[i].where);
        assert_true(err.message[0] != '\0' && err.hint[0] != '\0');
    }
}

/* Each would take for ever, or all memory, without a limit. */
static void test_work_is_bounded(void **state)
{
    static char text[1 << 16];
    struct tpp_shell_script *script;
    struct tpp_error err;
    size_t used = 0;
    (void)state;
    for (int i = 0; i < 60; i++) /* doubles with every line: 2^60 characters */
        used += (size_t)snprintf(text + used, sizeof text - used, "%s", i == 0 ? "A=xxxxxxxx\n" : "A=$A$A\n");
    assert_int_equal(tpp_shell_read(text, used, "t", NULL, 0, &script, &err), TPP_E_UNSUPPORTED);
    memset(text, '(', sizeof text - 1);
    assert_int_not_equal(tpp_shell_read(text, sizeof text - 1, "t", NULL, 0, &script, &err), TPP_OK);
    static const char endless[] = "f() { f; f; }\nf\nwhile true; do A=$A; done\n";
    assert_int_equal(tpp_shell_read(endless, sizeof endless - 1, "t", NULL, 0, &script, &err), TPP_E_UNSUPPORTED);
    static const char deep[] = "a=a\nrun $((a))\n"; /* a variable that is its own value */
    assert_int_equal(tpp_shell_read(deep, sizeof deep - 1, "t", NULL, 0, &script, &err), TPP_E_UNSUPPORTED);
}

/* Patterns on long texts: what is quick in bash is read, and what is not is given up. */
static void test_patterns_are_bounded(void **state)
{
    enum { LENGTH = 20000 };
    static char text[3 * LENGTH];
    struct tpp_shell_script *script;
    struct tpp_error err;
    (void)state;
    memset(text, 'b', sizeof text);
    memcpy(text, "A=", 2);
    int used = LENGTH + snprintf(text + LENGTH, LENGTH, "c.sh\nA=${A//b/}\nrun ${A%%.sh} ${A##*.} ${A/c/dd} ${A#?}\n");
    assert_int_equal(tpp_shell_read(text, (size_t)used, "t", NULL, 0, &script, &err), TPP_OK);
    assert_words(command_at(script, 0)->words, "run|c|sh|dd.sh|.sh");
    tpp_shell_free(script);
    memset(text + 2, 'b', sizeof text - 2);
    used = LENGTH + snprintf(text + LENGTH, LENGTH, "\n[[ $A == *[");
    memcpy(text + sizeof text - 13, " ]]\nrun me\n", 12);
    memset(text + used, 'a', sizeof text - 13 - (size_t)used);
    assert_int_equal(tpp_shell_read(text, sizeof text - 1, "t", NULL, 0, &script, &err), TPP_E_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quotes_join_and_hide),
        cmocka_unit_test(test_lines_are_joined_and_comments_left_out),
        cmocka_unit_test(test_variables_and_defaults),
        cmocka_unit_test(test_unquoted_values_are_split_again),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_what_commands_print_is_not_known),
        cmocka_unit_test(test_nothing_is_executed),
        cmocka_unit_test(test_conditions_that_can_be_decided),
        cmocka_unit_test(test_conditions_that_cannot_be_decided_leave_the_value_open),
        cmocka_unit_test(test_every_word_knows_its_line),
        cmocka_unit_test(test_reasons_of_unknown_values),
        cmocka_unit_test(test_sums_of_expr_are_worked_out),
        cmocka_unit_test(test_the_caller_fills_what_is_open),
        cmocka_unit_test(test_environment_of_a_command),
        cmocka_unit_test(test_here_documents_and_redirections),
        cmocka_unit_test(test_text_for_another_shell),
        cmocka_unit_test(test_batch_lines_set_the_job),
        cmocka_unit_test(test_names_of_files_that_are_read_are_noted),
        cmocka_unit_test(test_sourced_files_are_followed_and_count_at_their_line),
        cmocka_unit_test(test_sourced_files_that_cannot_be_followed_are_noted),
        cmocka_unit_test(test_what_is_no_script_is_named_with_its_line),
        cmocka_unit_test(test_work_is_bounded),
        cmocka_unit_test(test_patterns_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
