/* run_recipe.h - what the recipes of Megatron-Bridge set beside the layout that a row states.
 *
 * Internal to costmodel/runs, under run_stack.h's rules. */
#ifndef TPP_COSTMODEL_RUNS_RUN_RECIPE_H
#define TPP_COSTMODEL_RUNS_RUN_RECIPE_H

#include "costmodel/runs/run_facts.h"
#include "costmodel/stack.h"

/* Determinism, moments of the optimizer, CUDA graphs, fused router; `stack` has framework and engine already. */
void tpp_run_recipe_read(const struct tpp_run_facts *facts, const struct tpp_gpu *gpu, struct tpp_stack *stack);

/* HybridEP dispatches and combines: named by the source, or what all recipes of that release and GPU have. */
bool tpp_run_has_hybrid_dispatch(const struct tpp_run_facts *facts);

#endif
