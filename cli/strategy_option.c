#include "cli/strategy_option.h"

#include <string.h>

const struct tpp_option tpp_strategy_options[] = {
    {"strategy", 0, TPP_OPTION_TEXT, offsetof(struct tpp_strategy_arguments, strategy), "LIST",
     .help =
         "sizes and choices, as in tp=4,pp=2,vp=1,dp=4,cp=1,mbs=2,zero=1,recompute=selective,sp=1; what is left out "
         "follows from the rest or is off"},
    {"placement", 0, TPP_OPTION_TEXT, offsetof(struct tpp_strategy_arguments, placement), "LIST",
     .help = "ranks of a group on each node it spans, as in tp=2+2 [rank order: tensor-parallel ranks are neighbours]"},
    {.name = NULL},
};

/* "2+2" -> 2 when the parts are equal and sum to `size`. */
static enum tpp_code parse_sum(const char *text, size_t length, const char *group, uint32_t size, uint32_t *ranks,
                               struct tpp_error *err)
{
    static const char where[] = "--placement";
    uint64_t sum = 0, first = 0;
    const char *end = text + length;
    for (const char *c = text; c <= end;) {
        uint64_t part = 0;
        const char *digits = c;
        for (; c < end && *c >= '0' && *c <= '9' && part <= UINT32_MAX; c++)
            part = 10 * part + (uint64_t)(*c - '0');
        if (c == digits || (c < end && *c != '+') || part == 0 || part > UINT32_MAX)
            return tpp_fail(err, TPP_E_USAGE, where, "write ranks a node with + between nodes, as in tp=2+2",
                            "\"%.*s\" is no placement", (int)(length < 80 ? length : 80), text);
        first = first == 0 ? part : first;
        if (part != first)
            return tpp_fail(err, TPP_E_USAGE, where, "give the same number of ranks on every node",
                            "the %s group is spread unevenly: \"%.*s\"", group, (int)(length < 80 ? length : 80), text);
        sum += part;
        c++;
    }
    if (sum != size)
        return tpp_fail(err, TPP_E_USAGE, where, "make the ranks of all nodes sum to the size of the group",
                        "the placement has %llu %s ranks, the strategy %u", (unsigned long long)sum, group, size);
    *ranks = (uint32_t)first;
    return TPP_OK;
}

enum tpp_code tpp_placement_parse(const char *text, uint32_t tensor_parallel, uint32_t context_parallel,
                                  uint32_t *tensor_ranks_per_node, uint32_t *context_ranks_per_node,
                                  struct tpp_error *err)
{
    *tensor_ranks_per_node = *context_ranks_per_node = 0;
    for (const char *item = text; item != NULL;) {
        const size_t length = strcspn(item, ",");
        const bool is_tensor = strncmp(item, "tp=", 3) == 0, is_context = strncmp(item, "cp=", 3) == 0;
        uint32_t *ranks = is_tensor ? tensor_ranks_per_node : context_ranks_per_node;
        if ((!is_tensor && !is_context) || *ranks != 0)
            return tpp_fail(err, TPP_E_USAGE, "--placement", "give tp=... and cp=..., each once, as in tp=2+2,cp=4",
                            "\"%.*s\" is no placement of a group", (int)(length < 80 ? length : 80), item);
        const enum tpp_code code = parse_sum(item + 3, length - 3, is_tensor ? "tp" : "cp",
                                             is_tensor ? tensor_parallel : context_parallel, ranks, err);
        if (code != TPP_OK)
            return code;
        item = item[length] == ',' ? item + length + 1 : NULL;
    }
    return TPP_OK;
}

static bool names_key(const char *list, const char *key)
{
    const size_t length = strlen(key);
    for (const char *item = list; item != NULL; item = strchr(item, ',') ? strchr(item, ',') + 1 : NULL)
        if (strncmp(item, key, length) == 0 && item[length] == '=')
            return true;
    return false;
}

enum tpp_code tpp_strategy_resolve(const struct tpp_strategy_arguments *arguments, const struct tpp_job_inputs *inputs,
                                   struct tpp_strategy *strategy, struct tpp_error *err)
{
    enum tpp_code code = tpp_strategy_parse(arguments->strategy, strategy, err);
    if (code == TPP_OK && tpp_engine_is_fsdp(inputs->stack.engine) && !names_key(arguments->strategy, "zero"))
        strategy->zero_stage = 3; /* FSDP has no other */
    if (code == TPP_OK)
        code = tpp_strategy_complete(strategy, &inputs->job, err);
    if (code == TPP_OK && arguments->placement != NULL)
        code =
            tpp_placement_parse(arguments->placement, strategy->tensor_parallel, strategy->context_parallel,
                                &strategy->placed_tensor_ranks_per_node, &strategy->placed_context_ranks_per_node, err);
    return code != TPP_OK ? code : tpp_strategy_check(strategy, &inputs->model, &inputs->job, &inputs->stack, err);
}
