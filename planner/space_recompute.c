/* The axis of recomputation: nothing, single modules, or whole layers of a part of each stage. */
#include "planner/space_parts.h"

/* With flash attention nothing of the core is kept, so recomputing it is the same plan as recomputing nothing;
 * torchtitan's selective operators are another list (cost-model 4.2 E). */
static bool saves_by_selective(const struct tpp_space *space)
{
    return (int)space->stack->attention >= TPP_FLASH_KERNEL_COUNT ||
           space->stack->framework == TPP_FRAMEWORK_TORCHTITAN;
}

/* Modules that Megatron Core recomputes by themselves (--recompute-modules, 0.12 and later), from what saves least to what
 * costs most. With latent attention its up-projections come first: they save most for what they cost. The rest is tried on
 * request, also what every layer has: a model without experts has whole layers instead. */
static const struct {
    uint32_t modules;
    bool needs_experts;
    enum { TRIED_ALWAYS, TRIED_WITH_LATENT, TRIED_WITHOUT_LATENT, TRIED_ON_REQUEST } when;
} module_lists[] = {
    {TPP_MODULE_LAYER_NORM, false, TRIED_ON_REQUEST},
    {TPP_MODULE_MLP, false, TRIED_ON_REQUEST},
    {TPP_MODULE_LATENT_UP, false, TRIED_WITH_LATENT},
    {TPP_MODULE_EXPERT_ACTIVATION, true, TRIED_WITHOUT_LATENT},
    {TPP_MODULE_EXPERT_ACTIVATION | TPP_MODULE_LAYER_NORM, true, TRIED_WITHOUT_LATENT},
    {TPP_MODULE_EXPERT_ACTIVATION | TPP_MODULE_LATENT_UP, true, TRIED_WITH_LATENT},
    {TPP_MODULE_EXPERT_ACTIVATION | TPP_MODULE_LAYER_NORM | TPP_MODULE_LATENT_UP, true, TRIED_WITH_LATENT},
    {TPP_MODULE_MOE, true, TRIED_ALWAYS},
    {TPP_MODULE_MOE | TPP_MODULE_LAYER_NORM, true, TRIED_ON_REQUEST},
};

static bool tries_modules(const struct tpp_space *space, size_t i)
{
    const bool is_latent = space->model->kv_lora_rank > 0;
    if ((module_lists[i].needs_experts && space->model->num_experts == 0) ||
        (module_lists[i].when == TRIED_WITH_LATENT && !is_latent))
        return false;
    return space->limits.full_space || module_lists[i].when == TRIED_ALWAYS ||
           module_lists[i].when == (is_latent ? TRIED_WITH_LATENT : TRIED_WITHOUT_LATENT);
}

static void add_recompute(const struct tpp_space *space, struct tpp_space_cell *cell,
                          struct tpp_space_recompute recompute)
{
    if (tpp_pin_allows(space->limits.recompute, recompute.kind))
        cell->recomputes[cell->num_recomputes++] = recompute;
}

static void add_modules(const struct tpp_space *space, struct tpp_space_cell *cell)
{
    if (!tpp_space_is_megatron_core(space) || space->release < TPP_RELEASE_0_12)
        return;
    for (size_t i = 0; i < sizeof module_lists / sizeof module_lists[0]; i++) {
        if (tries_modules(space, i))
            add_recompute(space, cell,
                          (struct tpp_space_recompute){TPP_RECOMPUTE_SELECTIVE, 0, module_lists[i].modules});
    }
}

void tpp_space_add_recomputes(const struct tpp_space *space, struct tpp_space_cell *cell)
{
    if (!tpp_pin_is_free(space->limits.recompute_modules)) {
        add_recompute(space, cell, (struct tpp_space_recompute){TPP_RECOMPUTE_SELECTIVE, 0,
                                                                (uint32_t)space->limits.recompute_modules});
        return;
    }
    add_recompute(space, cell, (struct tpp_space_recompute){TPP_RECOMPUTE_NONE, 0, 0});
    if (saves_by_selective(space) || !tpp_pin_is_free(space->limits.recompute))
        add_recompute(space, cell, (struct tpp_space_recompute){TPP_RECOMPUTE_SELECTIVE, 0, 0});
    add_modules(space, cell);
    for (uint32_t quarters = 1; quarters <= 3; quarters++)
        add_recompute(space, cell, (struct tpp_space_recompute){TPP_RECOMPUTE_FULL, quarters, 0});
    add_recompute(space, cell, (struct tpp_space_recompute){TPP_RECOMPUTE_FULL, 0, 0});
}

/* So many quarters of a stage's layers, rounded down to one number for all of its chunks: what frameworks can say. */
static uint32_t recompute_depth(uint32_t stage_layers, uint32_t quarters, uint32_t num_chunks)
{
    return stage_layers * quarters / 4 / num_chunks * num_chunks;
}

bool tpp_space_set_recompute(struct tpp_strategy *strategy, struct tpp_space_recompute recompute, uint32_t stage_layers)
{
    const uint32_t num_chunks = strategy->virtual_pipeline_stages;
    strategy->recompute = recompute.kind;
    strategy->recompute_modules = recompute.modules;
    if (recompute.kind != TPP_RECOMPUTE_FULL || recompute.quarters == 0) {
        return true;
    }
    const uint32_t depth = recompute_depth(stage_layers, recompute.quarters, num_chunks);
    strategy->recompute_method = TPP_RECOMPUTE_BLOCK;
    strategy->recompute_num_layers = depth;
    return depth > recompute_depth(stage_layers, recompute.quarters - 1, num_chunks);
}
