/* graph_modules.h - private: which modules CUDA graphs are made of, by Megatron Core's names, written and read. */
#ifndef TPP_PLANNER_LAUNCH_GRAPH_MODULES_H
#define TPP_PLANNER_LAUNCH_GRAPH_MODULES_H

#include "planner/launch/launch.h"
#include "planner/launch/megatron_arguments.h"

#define TPP_GRAPH_MODULES_SIZE 64
/* "attn,moe_router", joined by `separator`; empty for whole layers. A request without graphs has none. */
void tpp_graph_modules_format(const struct tpp_launch_request *request, char separator,
                              char text[TPP_GRAPH_MODULES_SIZE]);
/* Experts of any number of tokens, which no graph can hold. */
bool tpp_graph_modules_hold_experts(const struct tpp_launch_request *request);

/* Adds what the name of a module, or of an old scope, stands for. */
void tpp_graph_module_read(const char *name, struct tpp_megatron_settings *settings);
/* After all options: "full_iteration" was a scope of the implementation `local` until 0.17. */
void tpp_graph_modules_complete(struct tpp_megatron_settings *settings);

#endif
