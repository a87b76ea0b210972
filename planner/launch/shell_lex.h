/* shell_lex.h - private to the parser: words, blanks, here-documents and redirections of a script's text. */
#ifndef TPP_PLANNER_LAUNCH_SHELL_LEX_H
#define TPP_PLANNER_LAUNCH_SHELL_LEX_H

#include "planner/launch/shell_parts.h"

enum { TPP_SHELL_MAX_PENDING = 16 };

struct tpp_shell_parser {
    struct tpp_shell_script *script;
    struct tpp_shell_text text;
    size_t at;
    struct tpp_shell_redirect *pending[TPP_SHELL_MAX_PENDING]; /* here-documents whose text begins on the next line */
    size_t num_pending;
};

char tpp_shell_peek(const struct tpp_shell_parser *p, size_t ahead); /* '\0' behind the end */
bool tpp_shell_ended(const struct tpp_shell_parser *p);              /* of the text, or failed */
uint32_t tpp_shell_parser_line(const struct tpp_shell_parser *p);
void tpp_shell_fail_expected(struct tpp_shell_parser *p, const char *what);
/* Blanks, joined lines and comments; newlines too when asked for. */
void tpp_shell_skip_blanks(struct tpp_shell_parser *p, bool newlines);
/* A word as it is written; empty where none begins. */
struct tpp_shell_text tpp_shell_take_word(struct tpp_shell_parser *p);
bool tpp_shell_is_at(const struct tpp_shell_parser *p, const char *word); /* a reserved word is here */
bool tpp_shell_take(struct tpp_shell_parser *p, const char *word);        /* and takes it, behind blanks */
void tpp_shell_expect(struct tpp_shell_parser *p, const char *word);      /* fails where it is not */
/* A redirection, when one begins here ("2>", "&>", "<<EOF"); it is added to `node`. */
bool tpp_shell_take_redirect(struct tpp_shell_parser *p, struct tpp_shell_node *node);

#endif
