/* graph_modules.c - see graph_modules.h; names of Megatron Core's CudaGraphModule (core/transformer/enums.py). */
#include "planner/launch/graph_modules.h"

#include "planner/launch/argument_map.h"

#include <stdio.h>
#include <string.h>

/* Of a reader alone, beside TPP_GRAPH_*. */
#define WHOLE_ITERATION 128
#define WHOLE_LAYER (uint32_t)(TPP_GRAPH_ATTENTION | TPP_GRAPH_ROUTER | TPP_GRAPH_MLP)

static bool captures_experts(const struct tpp_launch_request *request)
{
    const uint32_t parts = request->stack->graph_parts;
    return request->model->num_experts > 0 && (parts == 0 || (parts & TPP_GRAPH_MLP));
}

bool tpp_graph_modules_hold_experts(const struct tpp_launch_request *request)
{
    return request->stack->cuda_graphs && captures_experts(request) && !(request->job->expert_capacity_factor > 0);
}

/* An empty list stands for whole layers; those with experts are said by their modules. */
void tpp_graph_modules_format(const struct tpp_launch_request *request, char separator,
                              char text[TPP_GRAPH_MODULES_SIZE])
{
    const uint32_t parts = request->stack->graph_parts;
    const bool has_experts = request->model->num_experts > 0, is_whole = parts == 0;
    const struct {
        bool is_captured;
        const char *name;
    } rows[] = {{is_whole || (parts & TPP_GRAPH_ATTENTION), "attn"},
                {has_experts && (parts & TPP_GRAPH_ROUTER) && !captures_experts(request), "moe_router"},
                {has_experts && (parts & TPP_GRAPH_ROUTER) && !captures_experts(request), "moe_preprocess"},
                {captures_experts(request), "moe"},
                {(is_whole || (parts & TPP_GRAPH_MLP)) && request->model->ffn_hidden_size > 0, "mlp"}};
    size_t length = 0;
    *text = '\0';
    if (!request->stack->cuda_graphs || (is_whole && !has_experts))
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].is_captured)
            length += (size_t)snprintf(text + length, TPP_GRAPH_MODULES_SIZE - length, "%.1s%s",
                                       length > 0 ? &separator : "", rows[i].name);
}

void tpp_graph_module_read(const char *name, struct tpp_megatron_settings *settings)
{
    static const uint32_t parts[] = {TPP_GRAPH_ATTENTION,
                                     TPP_GRAPH_ROUTER,
                                     TPP_GRAPH_ROUTER,
                                     TPP_GRAPH_MLP,
                                     TPP_GRAPH_ROUTER | TPP_GRAPH_MLP,
                                     WHOLE_ITERATION,
                                     0};
    settings->graph_parts |= parts[tpp_word_index("attn|moe_router|moe_preprocess|mlp|moe|full_iteration", name)];
}

void tpp_graph_modules_complete(struct tpp_megatron_settings *settings)
{
    if ((settings->graph_parts & WHOLE_ITERATION) && settings->rules.cuda_graph != TPP_RULE_GRAPH_NONE)
        settings->rules.cuda_graph = TPP_RULE_GRAPH_FULL_ITERATION;
    settings->graph_parts &= WHOLE_LAYER;
    if (settings->graph_parts == WHOLE_LAYER)
        settings->graph_parts = 0;
}
