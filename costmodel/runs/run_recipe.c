#include "costmodel/runs/run_recipe.h"

#include <stdlib.h>
#include <string.h>

static bool framework_has(const struct tpp_run_facts *facts, const char *word)
{
    return tpp_run_mentions(facts->framework, word);
}

static bool notes_have(const struct tpp_run_facts *facts, const char *word)
{
    return tpp_run_mentions(facts->notes, word);
}

/* Megatron-Bridge pre-trains these with use_precision_aware_optimizer and bf16 moments (recipes/moonlight/h100/moonlight_16b.py,
 * recipes/deepseek/h100/deepseek_v3.py); Megatron-Core leaves store_param_remainders on (core/optimizer/optimizer_config.py). */
static void set_recipe_moments(const struct tpp_run_facts *facts, struct tpp_stack *stack)
{
    static const char *const models[] = {"moonlight", "deepseek-v3"};
    if (!framework_has(facts, "Megatron-Bridge") || strcmp(facts->task, "pretrain") != 0)
        return;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        if (tpp_run_mentions(facts->model.name, models[i])) {
            tpp_stack_set_optimizer(stack, TPP_OPTIMIZER_ADAMW_BF16);
        }
}

/* Qwen3 on GB200 and GB300, of whose mappings in Megatron-Bridge's tables of 25.09 and 25.11 some are in no recipe of the release. All
 * those recipes have, in 25.09 (0.1.0), dropped tokens and whole layers captured (cuda_graphs: true); in 25.11 (0.2.0), HybridEP and
 * graphs of router and preprocessing, on GB200 of attention too (scripts/performance/configs/qwen3). */
static bool is_bridge_qwen_on_grace(const struct tpp_run_facts *facts)
{
    return framework_has(facts, "Megatron-Bridge") && tpp_run_mentions(facts->model.name, "qwen3") &&
           (framework_has(facts, "25.09") || framework_has(facts, "25.11")) &&
           (tpp_run_mentions(facts->gpu, "GB200") || tpp_run_mentions(facts->gpu, "GB300"));
}

bool tpp_run_has_hybrid_dispatch(const struct tpp_run_facts *facts)
{
    return notes_have(facts, "hybridep") || (is_bridge_qwen_on_grace(facts) && framework_has(facts, "25.11"));
}

/* "cuda graph: full_iteration []", "cuda graph: transformer_engine ['attn', 'moe_router', 'moe_preprocess']" of the
 * recipes, "CUDA graphs moe_router/moe_preprocess" of the model cards. */
static void set_graphs(const struct tpp_run_facts *facts, struct tpp_stack *stack)
{
    stack->cuda_graphs = (notes_have(facts, "cuda graph:") || notes_have(facts, "CUDA graphs moe")) &&
                         !notes_have(facts, "cuda graph: none");
    if (notes_have(facts, "moe_router"))
        stack->graph_parts = TPP_GRAPH_ROUTER | (notes_have(facts, "['attn'") ? TPP_GRAPH_ATTENTION : 0);
    if (!is_bridge_qwen_on_grace(facts) || notes_have(facts, "cuda graph"))
        return;
    stack->cuda_graphs = true;
    stack->graph_parts = 0;
    if (!framework_has(facts, "25.09"))
        stack->graph_parts = TPP_GRAPH_ROUTER | (tpp_run_mentions(facts->gpu, "GB200") ? TPP_GRAPH_ATTENTION : 0);
}

/* Megatron-Bridge's performance recipes set moe_router_fusion for all their models with experts (scripts/performance/configs, in
 * every release from 0.1.0 to 0.5.0); its other recipes do not. */
static bool fuses_router(const struct tpp_run_facts *facts)
{
    return framework_has(facts, "Megatron-Bridge") && notes_have(facts, "perf recipe");
}

static bool is_mxfp8_recipe(const struct tpp_run_facts *facts)
{
    return framework_has(facts, "Megatron-Bridge") && strcmp(facts->precision, "mxfp8") == 0;
}

/* Megatron-Bridge's MXFP8 recipes of DeepSeek-V3 and gpt-oss set fp8_output_proj, on GB200 and GB300 since 0.5.0 of container 26.06
 * (scripts/performance/configs, deepseek_llm_pretrain.py and gpt_oss_llm_pretrain.py), on B300 since 0.5.1. */
#define MXFP8_RELEASE 26.06

static bool quantises_head(const struct tpp_run_facts *facts, const struct tpp_stack *stack)
{
    const double release = strtod(stack->release, NULL);
    const bool is_grace = tpp_run_mentions(facts->gpu, "GB200") || tpp_run_mentions(facts->gpu, "GB300");
    return is_mxfp8_recipe(facts) &&
           (tpp_run_mentions(facts->model.name, "deepseek-v3") || tpp_run_mentions(facts->model.name, "gpt-oss")) &&
           (release > MXFP8_RELEASE || (release >= MXFP8_RELEASE && is_grace));
}

/* And fp8_dot_product_attention, with graphs of the whole iteration: Qwen3, gpt-oss, and DeepSeek-V3 but on GB200
 * (*_workload_base_configs.py of 0.5.0; perf_recipes of 0.6.0). */
static bool quantises_attention(const struct tpp_run_facts *facts, const struct tpp_stack *stack)
{
    const bool is_deepseek = tpp_run_mentions(facts->model.name, "deepseek-v3") && !tpp_run_mentions(facts->gpu, "GB200");
    return is_mxfp8_recipe(facts) && strtod(stack->release, NULL) >= MXFP8_RELEASE && notes_have(facts, "full_iteration") &&
           (is_deepseek || tpp_run_mentions(facts->model.name, "gpt-oss") || tpp_run_mentions(facts->model.name, "qwen3"));
}

/* Megatron-LM's functional tests: --deterministic-mode of their configurations. */
static bool is_deterministic(const struct tpp_run_facts *facts)
{
    return notes_have(facts, "deterministic mode=True") || notes_have(facts, "--deterministic-mode");
}

/* torchao's tables name what is quantised: "mxfp8-linears" and "mxfp8-grouped" (prototype/moe_training/README.md), and scales by row:
 * "rowwise", "rowwise_with_gw_hp", "rowwise, high-precision grad weight" (docs/source/workflows/training.md). */
static void set_quantised(const struct tpp_run_facts *facts, struct tpp_stack *stack)
{
    const char *detail = facts->precision_detail;
    if (tpp_run_mentions(facts->source, "-linears") || tpp_run_mentions(detail, "linears only"))
        stack->quantised = TPP_QUANTISED_LINEARS;
    else if (tpp_run_mentions(facts->source, "-grouped") || tpp_run_mentions(detail, "grouped GEMMs only"))
        stack->quantised = TPP_QUANTISED_EXPERTS;
    if (tpp_run_mentions(detail, "rowwise"))
        stack->row_scaling = tpp_run_mentions(detail, "gw_hp") || tpp_run_mentions(detail, "high-precision grad")
                                 ? TPP_ROW_SCALING_PLAIN_GRADIENT
                                 : TPP_ROW_SCALING_ALL;
}

void tpp_run_recipe_read(const struct tpp_run_facts *facts, const struct tpp_gpu *gpu, struct tpp_stack *stack)
{
    if (is_deterministic(facts))
        tpp_stack_set_deterministic(stack, gpu);
    set_quantised(facts, stack);
    set_recipe_moments(facts, stack);
    set_graphs(facts, stack);
    stack->fused_router = fuses_router(facts);
    stack->fp8_attention = quantises_attention(facts, stack);
    stack->fp8_head = quantises_head(facts, stack);
}
