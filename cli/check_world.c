#include "cli/check_world.h"

#include <stdio.h>
#include <string.h>

static bool is_size(int64_t value)
{
    return value >= 1 && value <= TPP_RULE_MAX_SIZE;
}

/* Least common multiple; 0 when it is no size. */
static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t x = a, y = b;
    if (!is_size(a) || !is_size(b))
        return 0;
    while (y != 0) {
        const int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return is_size(a / x * b) ? a / x * b : 0;
}

/* The smallest world that both cuts of it divide: tensor * context * pipeline, and the experts'. */
static int64_t needed_world(const struct tpp_rule_settings *rules)
{
    const int64_t expert_tensor =
        rules->expert_tensor_parallel == TPP_RULE_UNSET ? rules->tensor_parallel : rules->expert_tensor_parallel;
    if (!is_size(rules->tensor_parallel) || !is_size(rules->pipeline_parallel) || !is_size(rules->context_parallel) ||
        !is_size(rules->expert_parallel) || !is_size(expert_tensor))
        return 0;
    const int64_t dense = rules->tensor_parallel * rules->pipeline_parallel * rules->context_parallel;
    if (rules->num_experts == TPP_RULE_UNSET)
        return is_size(dense) ? dense : 0;
    return common_multiple(dense, expert_tensor * rules->expert_parallel * rules->pipeline_parallel);
}

/* A comment about several nodes in the lines around the number of nodes: the number is an example. */
static bool is_placeholder(const struct tpp_check *check)
{
    uint32_t line = 1;
    for (const char *at = check->text; *at != '\0';) {
        size_t length = strcspn(at, "\n");
        bool is_near = line + 5 >= check->line.nodes_line && line <= check->line.nodes_line + 1;
        for (size_t i = 0; is_near && memchr(at, '#', length) != NULL && i + 5 <= length; i++) {
            if ((at[i] == 'm' || at[i] == 'M') && memcmp(at + i + 1, "ulti", 4) == 0)
                return true;
        }
        at += length + (at[length] == '\n');
        line++;
    }
    return false;
}

static void add_unknown_world(struct tpp_check *check, int64_t needed)
{
    char hint[160];
    const struct tpp_shell_word *word =
        check->line.unknown_nodes != NULL ? check->line.unknown_nodes : check->line.unknown_ranks;
    snprintf(hint, sizeof hint, "give --nodes or --world-size: a multiple of %lld GPUs", (long long)needed);
    if (word != NULL)
        tpp_argument_explain(check->script, word, "the number of GPUs", true, &check->problems);
    tpp_problems_add(&check->problems, "world-size", TPP_SEVERITY_ERROR,
                     word != NULL ? word->line : check->line.command->line, hint,
                     "the script does not say on how many GPUs it runs");
}

int64_t tpp_check_written_world(struct tpp_check *check)
{
    const struct tpp_check_arguments *arguments = check->arguments;
    int64_t nodes = arguments->nodes != TPP_OPTION_ABSENT ? arguments->nodes : check->line.nodes;
    int64_t ranks = check->line.ranks_per_node;
    if (arguments->world_size != TPP_OPTION_ABSENT)
        return arguments->world_size;
    if (ranks == 0 && nodes > 0) {
        ranks = check->inputs.hardware.node.num_gpus;
        tpp_problems_add(&check->problems, "assumed-gpus", TPP_SEVERITY_INFO, check->line.ranks_line,
                         "give --world-size when it is another number",
                         "the script does not say how many GPUs of a node it uses: all %lld of %s are assumed",
                         (long long)ranks, check->inputs.hardware.name);
    }
    return nodes * ranks <= TPP_RULE_MAX_SIZE ? nodes * ranks : 0;
}

void tpp_check_set_world(struct tpp_check *check)
{
    struct tpp_rule_settings *rules = &check->settings.rules;
    int64_t needed = needed_world(rules), world = tpp_check_written_world(check);
    bool is_given = check->arguments->world_size != TPP_OPTION_ABSENT || check->arguments->nodes != TPP_OPTION_ABSENT;
    check->is_world_known = world > 0;
    rules->world_size = world > 0 ? world : needed;
    if (world == 0) {
        add_unknown_world(check, needed);
    } else if (!is_given && check->line.nodes == 1 && needed > world && is_placeholder(check)) {
        char hint[160];
        snprintf(hint, sizeof hint, "give --nodes or --world-size: a multiple of %lld GPUs is needed",
                 (long long)needed);
        tpp_problems_add(&check->problems, "ML-1", TPP_SEVERITY_ERROR, check->line.nodes_line, hint,
                         "the %lld GPUs of the script, whose one node looks like an example, are fewer than tp * pp * "
                         "cp: %lld are needed",
                         (long long)world, (long long)needed);
        rules->world_size = needed;
        check->is_world_known = false;
    }
}
