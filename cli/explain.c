#include "cli/explain.h"

#include "costmodel/base/units.h"

#include <stdbool.h>
#include <string.h>

/* One tree: its leaves by index. Groups are shown where their first leaf is. */
struct tree {
    const char *title; /* of the root */
    const char *unit;  /* key of the value in JSON */
    const double *terms;
    unsigned num_terms;
    double total;
    const char *(*name)(unsigned term);
    const char *(*group)(unsigned term);
    char *(*format)(char *buffer, size_t size, double value);
};

static const char *time_name(unsigned term)
{
    return tpp_time_term_name((enum tpp_time_term)term);
}

static const char *time_group(unsigned term)
{
    return tpp_time_term_group((enum tpp_time_term)term);
}

static const char *memory_name(unsigned term)
{
    return tpp_memory_term_name((enum tpp_memory_term)term);
}

static const char *memory_group(unsigned term)
{
    return tpp_memory_term_group((enum tpp_memory_term)term);
}

static struct tree time_tree(const struct tpp_cost *cost)
{
    return (struct tree){"step",    "seconds",  cost->time_terms,  TPP_TIME_TERM_COUNT, cost->step_seconds,
                         time_name, time_group, tpp_format_seconds};
}

static struct tree memory_tree(const struct tpp_cost *cost)
{
    return (struct tree){
        "device",    "bytes",      cost->memory.terms, TPP_MEMORY_TERM_COUNT, cost->memory.device_total_bytes,
        memory_name, memory_group, tpp_format_bytes};
}

/* True when `term` is the first of its group. */
static bool begins_group(const struct tree *tree, unsigned term)
{
    for (unsigned i = 0; i < term; i++) {
        if (strcmp(tree->group(i), tree->group(term)) == 0)
            return false;
    }
    return true;
}

static double group_sum(const struct tree *tree, const char *group)
{
    double sum = 0;
    for (unsigned i = 0; i < tree->num_terms; i++) {
        if (strcmp(tree->group(i), group) == 0)
            sum += tree->terms[i];
    }
    return sum;
}

static void append_node(const struct tree *tree, unsigned depth, const char *name, double value, struct tpp_text *out)
{
    char buffer[48];
    tpp_text_format(out, "%*s%-*s %12s %6.1f %%\n", (int)(2 * depth), "", (int)(34 - 2 * depth), name,
                    tree->format(buffer, sizeof buffer, value), tree->total > 0 ? 100 * value / tree->total : 0.0);
}

/* Terms that are zero are left out of the text: the JSON has them all. */
static void append_tree(const struct tree *tree, struct tpp_text *out)
{
    append_node(tree, 0, tree->title, tree->total, out);
    for (unsigned first = 0; first < tree->num_terms; first++) {
        const char *group = tree->group(first);
        const double sum = begins_group(tree, first) ? group_sum(tree, group) : 0;
        if (sum == 0)
            continue;
        append_node(tree, 1, group, sum, out);
        for (unsigned i = first; i < tree->num_terms; i++) {
            if (strcmp(tree->group(i), group) == 0 && tree->terms[i] != 0)
                append_node(tree, 2, tree->name(i), tree->terms[i], out);
        }
    }
}

void tpp_explain_append(const struct tpp_cost *cost, struct tpp_text *out)
{
    const struct tree time = time_tree(cost), memory = memory_tree(cost);
    tpp_text_append(out, "Time of one step, on the critical path\n");
    append_tree(&time, out);
    tpp_text_format(out, "\nMemory of the fullest GPU (pipeline stage %u) at its peak\n", cost->memory.worst_stage);
    append_tree(&memory, out);
}

void tpp_explain_append_states(const struct tpp_stack *stack, struct tpp_text *out)
{
    const struct tpp_state_bytes bytes = tpp_stack_state_bytes(stack);
    tpp_text_format(out, "Bytes of one trained parameter before sharding: weights %u, gradients %u", bytes.weights,
                    bytes.gradients);
    if (bytes.master_weights > 0)
        tpp_text_format(out, ", master weights %u", bytes.master_weights);
    if (bytes.gradient_copies > 0)
        tpp_text_format(out, ", gradient copies %u", bytes.gradient_copies);
    tpp_text_format(out, ", moments %g\n", bytes.moments);
}

static struct cJSON *add_node(const struct tree *tree, const char *name, double value, const char *key,
                              struct tpp_json_writer *writer, struct cJSON *parent)
{
    struct cJSON *node = tpp_json_add_object(writer, parent, key);
    tpp_json_add_string(writer, node, "name", name);
    tpp_json_add_number(writer, node, tree->unit, value);
    return node;
}

static void add_tree(const struct tree *tree, const char *key, struct tpp_json_writer *writer, struct cJSON *parent)
{
    struct cJSON *root = add_node(tree, tree->title, tree->total, key, writer, parent);
    struct cJSON *groups = tpp_json_add_array(writer, root, "children");
    for (unsigned first = 0; first < tree->num_terms; first++) {
        if (!begins_group(tree, first))
            continue;
        const char *group = tree->group(first);
        struct cJSON *node = add_node(tree, group, group_sum(tree, group), NULL, writer, groups);
        struct cJSON *leaves = tpp_json_add_array(writer, node, "children");
        for (unsigned i = first; i < tree->num_terms; i++) {
            if (strcmp(tree->group(i), group) == 0)
                add_node(tree, tree->name(i), tree->terms[i], NULL, writer, leaves);
        }
    }
}

struct cJSON *tpp_explain_add_json(const struct tpp_cost *cost, struct tpp_json_writer *writer, struct cJSON *parent)
{
    const struct tree time = time_tree(cost), memory = memory_tree(cost);
    struct cJSON *object = tpp_json_add_object(writer, parent, "explain");
    add_tree(&time, "time", writer, object);
    add_tree(&memory, "memory", writer, object);
    return object;
}
