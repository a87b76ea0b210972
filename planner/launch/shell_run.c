/* shell_run.c - walks the tree of a script. A branch that may or may not run is walked on a copy of the variables. */
#include "planner/launch/shell_parts.h"

enum { MAX_ITERATIONS = 64, MAX_LOOP = 256 };

static enum tpp_shell_truth of_bool(bool value)
{
    return value ? TPP_YES : TPP_NO;
}

static enum tpp_shell_truth negated(enum tpp_shell_truth truth)
{
    return truth == TPP_MAYBE ? TPP_MAYBE : of_bool(truth == TPP_NO);
}

/* One of the bodies runs, or none of them when `may_skip`. A branch that ends the script has no part in what follows.
 */
static void run_branches(struct tpp_shell_script *s, struct tpp_shell_node *const *bodies, size_t count, bool may_skip,
                         uint32_t line)
{
    const struct tpp_shell_scope base = s->scope;
    struct tpp_shell_scope *outcomes = tpp_shell_alloc(s, count + 1, sizeof *outcomes);
    size_t num_outcomes = 0;
    s->undecided++;
    for (size_t i = 0; i < count && !tpp_shell_failed(s); i++) {
        s->scope = tpp_shell_scope_copy(s, &base);
        s->stop = TPP_STOP_NONE;
        tpp_shell_run(s, bodies[i]);
        if (s->stop != TPP_STOP_EXIT && outcomes != NULL)
            outcomes[num_outcomes++] = s->scope;
    }
    s->undecided--;
    if (may_skip && outcomes != NULL)
        outcomes[num_outcomes++] = base;
    s->scope = base;
    s->stop = num_outcomes == 0 ? TPP_STOP_EXIT : TPP_STOP_NONE;
    if (num_outcomes > 0 && !tpp_shell_failed(s))
        tpp_shell_merge(s, &base, outcomes, num_outcomes, line);
}

static enum tpp_shell_truth run_sequence(struct tpp_shell_script *s, struct tpp_shell_node *node)
{
    enum tpp_shell_truth truth = TPP_YES;
    for (struct tpp_shell_node *item = node->first; item != NULL && s->stop == TPP_STOP_NONE && !tpp_shell_failed(s);
         item = item->next)
        truth = tpp_shell_run(s, item->first);
    return truth;
}

static enum tpp_shell_truth run_subshell(struct tpp_shell_script *s, struct tpp_shell_node *node)
{
    const struct tpp_shell_scope saved = s->scope;
    s->scope = tpp_shell_scope_copy(s, &saved);
    enum tpp_shell_truth truth = tpp_shell_run(s, node);
    s->scope = saved;
    s->stop = TPP_STOP_NONE;
    return truth;
}

static enum tpp_shell_truth run_pipeline(struct tpp_shell_script *s, struct tpp_shell_node *node)
{
    enum tpp_shell_truth truth = TPP_YES;
    for (struct tpp_shell_node *part = node->first; part != NULL && !tpp_shell_failed(s); part = part->next)
        truth = run_subshell(s, part);
    return truth;
}

/* What runs when nothing sets a variable. Where that ends the script with a failure ("please set WORKSPACE"), whoever
 * runs it sets the variable: it is passed over. False: it was. */
static bool run_guarded(struct tpp_shell_script *s, struct tpp_shell_node *body, enum tpp_shell_truth *truth)
{
    const bool may_be_guard = s->asks_unset;
    const struct tpp_shell_scope base = s->scope;
    if (may_be_guard)
        s->scope = tpp_shell_scope_copy(s, &base);
    *truth = tpp_shell_run(s, body);
    if (!may_be_guard || s->stop != TPP_STOP_EXIT || !s->has_failed_exit)
        return true;
    s->scope = base;
    s->stop = TPP_STOP_NONE;
    return false;
}

/* Runs a condition, and notes on what it rests. */
static enum tpp_shell_truth run_condition(struct tpp_shell_script *s, struct tpp_shell_node *condition)
{
    s->asks_unset = false;
    return tpp_shell_run(s, condition);
}

/* `decides` is the value of the left side that makes the right side run. */
static enum tpp_shell_truth run_logical(struct tpp_shell_script *s, struct tpp_shell_node *node,
                                        enum tpp_shell_truth decides)
{
    enum tpp_shell_truth left = run_condition(s, node->first), right;
    if (s->stop != TPP_STOP_NONE || tpp_shell_failed(s))
        return left;
    if (left == decides)
        return run_guarded(s, node->second, &right) ? right : negated(decides);
    if (left != TPP_MAYBE)
        return left;
    run_branches(s, &node->second, 1, true, node->line);
    return TPP_MAYBE;
}

static enum tpp_shell_truth run_if(struct tpp_shell_script *s, struct tpp_shell_node *node)
{
    enum tpp_shell_truth condition = run_condition(s, node->first), truth;
    struct tpp_shell_node *const bodies[] = {node->second, node->third};
    if (s->stop != TPP_STOP_NONE || tpp_shell_failed(s))
        return condition;
    if (condition == TPP_YES && run_guarded(s, node->second, &truth))
        return truth;
    if (condition != TPP_MAYBE)
        return node->third != NULL ? tpp_shell_run(s, node->third) : TPP_YES;
    run_branches(s, bodies, node->third != NULL ? 2 : 1, node->third == NULL, node->line);
    return TPP_MAYBE;
}

/* False when the loop ends with this iteration. */
static bool goes_on(struct tpp_shell_script *s)
{
    if (s->stop == TPP_STOP_CONTINUE)
        s->stop = TPP_STOP_NONE;
    bool ends = s->stop != TPP_STOP_NONE;
    if (s->stop == TPP_STOP_BREAK)
        s->stop = TPP_STOP_NONE;
    return !ends && !tpp_shell_failed(s);
}

static enum tpp_shell_truth run_for(struct tpp_shell_script *s, struct tpp_shell_node *node)
{
    struct tpp_shell_fields items = {0};
    bool is_known = node->words.count > 0;
    for (size_t i = 1; i < node->words.count; i++)
        tpp_shell_expand(s, node->words.items[i], &items);
    if (is_known && !node->has_words) {
        for (size_t i = 0; i < s->scope.num_arguments; i++)
            tpp_shell_add_field(s, &items, s->scope.arguments[i]);
    }
    for (size_t i = 0; i < items.count; i++)
        is_known = is_known && tpp_shell_is_known(items.items[i]);
    const char *name = node->words.count > 0 ? tpp_shell_string(s, node->words.items[0]) : "";
    if (is_known && items.count <= MAX_ITERATIONS) {
        for (size_t i = 0; i < items.count; i++) {
            tpp_shell_set(s, name, items.items[i]);
            tpp_shell_run(s, node->second);
            if (!goes_on(s))
                break;
        }
        return TPP_YES;
    }
    if (*name != '\0') {
        uint32_t note = tpp_shell_add_note(s, TPP_SHELL_UNDECIDED, node->line, name);
        tpp_shell_set(s, name, tpp_shell_unknown(s, note, node->line));
    }
    run_branches(s, &node->second, 1, true, node->line);
    return TPP_MAYBE;
}

static enum tpp_shell_truth loop_condition(struct tpp_shell_script *s, struct tpp_shell_node *node)
{
    bool was_inside = s->is_loop_condition;
    s->is_loop_condition = true;
    enum tpp_shell_truth truth = tpp_shell_run(s, node->first);
    s->is_loop_condition = was_inside;
    return node->kind == TPP_NODE_UNTIL ? negated(truth) : truth;
}

static enum tpp_shell_truth run_while(struct tpp_shell_script *s, struct tpp_shell_node *node)
{
    for (unsigned i = 0; i < MAX_LOOP && !tpp_shell_failed(s); i++) {
        enum tpp_shell_truth truth = loop_condition(s, node);
        if (truth == TPP_NO || s->stop != TPP_STOP_NONE)
            return TPP_YES;
        if (truth == TPP_MAYBE)
            break;
        tpp_shell_run(s, node->second);
        if (!goes_on(s))
            return TPP_YES;
    }
    run_branches(s, &node->second, 1, true, node->line);
    return TPP_MAYBE;
}

static enum tpp_shell_truth matches_branch(struct tpp_shell_script *s, const struct tpp_shell_node *branch,
                                           struct tpp_shell_text value)
{
    enum tpp_shell_truth truth = TPP_NO;
    for (size_t i = 0; i < branch->words.count && truth != TPP_YES; i++) {
        enum tpp_shell_truth one = tpp_shell_matches(s, tpp_shell_expand_one(s, branch->words.items[i]), value);
        truth = one != TPP_NO ? one : truth;
    }
    return truth;
}

static enum tpp_shell_truth run_case(struct tpp_shell_script *s, struct tpp_shell_node *node)
{
    struct tpp_shell_text value = tpp_shell_expand_one(s, node->words.items[0]);
    struct tpp_shell_node **bodies = NULL;
    size_t count = 0, capacity = 0;
    bool is_certain = false;
    for (struct tpp_shell_node *branch = node->first; branch != NULL && !is_certain; branch = branch->next) {
        enum tpp_shell_truth truth = matches_branch(s, branch, value);
        if (truth == TPP_NO)
            continue;
        if (!tpp_shell_grow(s, &bodies, count, &capacity, sizeof *bodies))
            return TPP_MAYBE;
        bodies[count++] = branch->first;
        is_certain = truth == TPP_YES;
    }
    if (count == 0)
        return TPP_YES;
    if (count == 1 && is_certain)
        return tpp_shell_run(s, bodies[0]);
    run_branches(s, bodies, count, !is_certain, node->line);
    return TPP_MAYBE;
}

static enum tpp_shell_truth run_arithmetic(struct tpp_shell_script *s, struct tpp_shell_node *node)
{
    int64_t value;
    uint32_t note;
    if (!tpp_shell_arithmetic(s, node->words.items[0], node->line, &value, &note))
        return TPP_MAYBE;
    return of_bool(value != 0);
}

static enum tpp_shell_truth define(struct tpp_shell_script *s, struct tpp_shell_node *node)
{
    struct tpp_shell_function *function = tpp_shell_alloc(s, 1, sizeof *function);
    if (function != NULL) {
        *function = (struct tpp_shell_function){tpp_shell_string(s, node->words.items[0]), node->first, s->functions};
        s->functions = function;
    }
    return TPP_YES;
}

static enum tpp_shell_truth run_node(struct tpp_shell_script *s, struct tpp_shell_node *node)
{
    switch (node->kind) {
    case TPP_NODE_SIMPLE:
        return tpp_shell_run_simple(s, node);
    case TPP_NODE_PIPELINE:
        return run_pipeline(s, node);
    case TPP_NODE_AND:
        return run_logical(s, node, TPP_YES);
    case TPP_NODE_OR:
        return run_logical(s, node, TPP_NO);
    case TPP_NODE_NOT:
        return negated(tpp_shell_run(s, node->first));
    case TPP_NODE_SEQUENCE:
        return run_sequence(s, node);
    case TPP_NODE_IF:
        return run_if(s, node);
    case TPP_NODE_FOR:
        return run_for(s, node);
    case TPP_NODE_WHILE:
    case TPP_NODE_UNTIL:
        return run_while(s, node);
    case TPP_NODE_CASE:
        return run_case(s, node);
    case TPP_NODE_SUBSHELL:
        return run_subshell(s, node->first);
    case TPP_NODE_FUNCTION:
        return define(s, node);
    case TPP_NODE_ARITHMETIC:
        return run_arithmetic(s, node);
    case TPP_NODE_CONDITION:
        return tpp_shell_condition(s, &node->words, node->line);
    case TPP_NODE_ITEM:
    case TPP_NODE_BRANCH:
        break;
    }
    return TPP_YES;
}

enum tpp_shell_truth tpp_shell_run(struct tpp_shell_script *s, struct tpp_shell_node *node)
{
    if (node == NULL || !tpp_shell_step(s, 1) || !tpp_shell_enter(s, node->line))
        return TPP_MAYBE;
    enum tpp_shell_truth truth = run_node(s, node);
    tpp_shell_leave(s);
    return truth;
}

static void set_arguments(struct tpp_shell_scope *scope, const struct tpp_shell_fields *arguments)
{
    const bool has_name = arguments->count > 0;
    scope->name = has_name ? arguments->items[0] : (struct tpp_shell_text){NULL, 0};
    scope->arguments = has_name ? arguments->items + 1 : NULL;
    scope->num_arguments = has_name ? arguments->count - 1 : 0;
    scope->has_arguments = true;
}

void tpp_shell_run_text(struct tpp_shell_script *s, struct tpp_shell_text text,
                        const struct tpp_shell_fields *arguments)
{
    const struct tpp_shell_scope saved = s->scope;
    if (!tpp_shell_enter(s, tpp_shell_line(text, 1)))
        return;
    struct tpp_shell_node *node = tpp_shell_parse(s, text);
    if (arguments != NULL) {
        s->scope = tpp_shell_scope_copy(s, &saved);
        set_arguments(&s->scope, arguments);
    }
    tpp_shell_run(s, node);
    if (arguments != NULL) {
        s->scope = saved;
        s->stop = TPP_STOP_NONE;
    }
    tpp_shell_leave(s);
}
