#include "costmodel/schedules/plan_schedule.h"

#include "costmodel/evaluator.h"
#include "costmodel/memory_walk.h"

#include <stdlib.h>

struct view {
    struct tpp_evaluator *evaluator;
    const struct tpp_strategy *strategy;
    const struct tpp_assembly *assembly;
    const struct tpp_stage *stages;
};

static void add_layers(const struct tpp_layer *layer, double times, struct tpp_schedule_chunk *chunk)
{
    if (times == 0)
        return; /* a model with experts everywhere has no dense layer: its times mean nothing */
    chunk->forward_seconds += times * layer->section_seconds[TPP_SECTION_FORWARD];
    chunk->backward_seconds += times * layer->section_seconds[TPP_SECTION_BACKWARD];
    chunk->weight_seconds += times * layer->section_seconds[TPP_SECTION_WEIGHT];
}

/* What is the stage's and not a layer's, by the chunk's share of its layers: gradient accumulation, kept activations.
 */
static void add_share_of_stage(const struct view *view, uint32_t index, double num_layers,
                               struct tpp_schedule_chunk *chunk)
{
    const struct tpp_stage *stage = &view->stages[index];
    const double chunks = view->strategy->virtual_pipeline_stages / stage->pass_fraction;
    const double share = stage->num_layers > 0 ? num_layers / stage->num_layers : 1 / chunks;
    chunk->weight_seconds +=
        share * (stage->accumulate_seconds - stage->vocabulary_accumulate_seconds) / stage->pass_fraction;
    chunk->activation_bytes =
        share * tpp_stage_micro_batch_bytes(view->evaluator, view->strategy, view->assembly, stage, index);
    chunk->weight_activation_bytes = TPP_WEIGHT_ACTIVATION_FRACTION * chunk->activation_bytes;
}

/* A chunk of stage `index`, which holds `num_layers` layers of the model from `first` on. */
static struct tpp_schedule_chunk make_chunk(const struct view *view, uint32_t index, uint32_t first, uint32_t num_layers)
{
    const struct tpp_assembly *assembly = view->assembly;
    const struct tpp_model *model = view->evaluator->model;
    struct tpp_schedule_chunk out = {0};
    uint32_t moe = 0;
    for (uint32_t i = first; i < first + num_layers && model->num_experts > 0; i++)
        moe += tpp_model_layer_is_moe(model, i);
    add_layers(assembly->decoder, num_layers - moe, &out);
    if (moe > 0)
        add_layers(assembly->moe, moe, &out);
    /* Recomputation repeats the forward of the stage's mean layer, as the evaluator has it. */
    const struct tpp_stage *stage = &view->stages[index];
    const struct tpp_layer *mean = tpp_stage_layer(assembly, stage);
    const double recomputed_fraction = stage->num_layers > 0 ? stage->recomputed_layers / stage->num_layers : 0;
    out.backward_seconds += num_layers * (mean->repeated_seconds +
                                          recomputed_fraction * tpp_layer_recompute_seconds(mean));
    const struct tpp_hidden_in_pairs hidden = tpp_hidden_in_pairs(assembly, moe, recomputed_fraction);
    out.hidden_forward_seconds = hidden.forward_seconds;
    out.hidden_backward_seconds = hidden.backward_seconds + hidden.recompute_seconds;
    add_share_of_stage(view, index, num_layers, &out);
    return out;
}

static void add_sharding(const struct view *view, uint32_t num_layers, bool has_embedding, bool has_head,
                         struct tpp_schedule_chunk *chunk)
{
    const struct tpp_sharding_extra extra = tpp_sharding_extra(view->assembly, num_layers, has_embedding, has_head);
    chunk->forward_seconds += extra.forward_seconds;
    chunk->backward_seconds += extra.backward_seconds;
}

/* Every stage's share of embedding and head. What their transfers take of F and B beside them is counted with S: it comes once a
 * micro-batch, and neither fill nor drain have it. */
static void add_vocabulary(const struct view *view, struct tpp_schedule_chunk *chunks)
{
    double seconds[2];
    tpp_vocabulary_pass_seconds(view->strategy, view->assembly, seconds);
    for (uint32_t stage = 0; stage < view->strategy->pipeline_parallel; stage++) {
        struct tpp_schedule_chunk *chunk = &chunks[stage];
        chunk->vocabulary_seconds = seconds[0] + view->stages[stage].vocabulary_exposed_seconds;
        chunk->vocabulary_weight_seconds = seconds[1];
        *(seconds[1] > 0 ? &chunk->vocabulary_weight_seconds : &chunk->vocabulary_seconds) +=
            view->stages[stage].vocabulary_accumulate_seconds;
    }
}

static void make_chunks(const struct view *view, struct tpp_schedule_chunk *chunks)
{
    const struct tpp_strategy *strategy = view->strategy;
    const uint32_t p = strategy->pipeline_parallel, num_chunks = p * strategy->virtual_pipeline_stages;
    const enum tpp_placement placement = tpp_schedule_info(strategy->schedule)->placement;
    uint32_t first = 0;
    for (uint32_t g = 0; g < num_chunks; g++) {
        const uint32_t index = tpp_schedule_chunk_stage(placement, p, g);
        const uint32_t layers = tpp_strategy_chunk_layers(strategy, view->evaluator->model->num_layers, index, g / p);
        chunks[g] = make_chunk(view, index, first, layers);
        add_sharding(view, layers, g == 0, g + 1 == num_chunks, &chunks[g]);
        first += layers;
    }
    if (strategy->vocabulary_parallel != TPP_VOCABULARY_PARALLEL_NONE) {
        add_vocabulary(view, chunks);
        return;
    }
    add_layers(view->assembly->embedding, 1, &chunks[0]);
    add_layers(view->assembly->head, 1, &chunks[num_chunks - 1]);
    chunks[num_chunks - 1].backward_seconds += view->assembly->head->repeated_seconds;
}

static void set_room(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                     const struct tpp_assembly *assembly, struct tpp_schedule_problem *problem)
{
    const struct tpp_vocabulary_transfers sent = tpp_vocabulary_transfers(evaluator, strategy, assembly);
    const struct tpp_links *links = &evaluator->links;
    const double gradient = tpp_collective_seconds(links, TPP_ALL_REDUCE, &sent.group, sent.hidden_bytes);
    const bool has_one_barrier = strategy->vocabulary_parallel == TPP_VOCABULARY_PARALLEL_ONE_BARRIER;
    problem->vocabulary_input_seconds = tpp_collective_seconds(links, TPP_ALL_GATHER, &sent.group, sent.input_bytes);
    problem->vocabulary_loss_seconds =
        TPP_VOCABULARY_LOSS_REDUCTIONS * tpp_collective_seconds(links, TPP_ALL_REDUCE, &sent.group, sent.loss_bytes) +
        (has_one_barrier ? gradient : 0);
    problem->vocabulary_gradient_seconds = gradient;
}

enum tpp_code tpp_plan_schedule(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                struct tpp_schedule_chunk *chunks, struct tpp_schedule_problem *problem,
                                struct tpp_error *err)
{
    struct tpp_assembly assembly;
    enum tpp_code code = tpp_strategy_check(strategy, evaluator->model, evaluator->job, evaluator->stack, err);
    if (code == TPP_OK)
        code = tpp_assemble(evaluator, strategy, &assembly, err);
    if (code != TPP_OK)
        return code;
    struct tpp_stage *stages = calloc(strategy->pipeline_parallel, sizeof(*stages));
    if (!stages)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the stages");
    for (uint32_t index = 0; index < strategy->pipeline_parallel; index++)
        tpp_stage_time(evaluator, strategy, &assembly, index, tpp_stage_layers(strategy, evaluator->model, index),
                       &stages[index]);
    const struct view view = {evaluator, strategy, &assembly, stages};
    make_chunks(&view, chunks);
    free(stages);
    *problem = tpp_schedule_problem_of(strategy);
    problem->chunks = chunks;
    if (strategy->vocabulary_parallel != TPP_VOCABULARY_PARALLEL_NONE)
        set_room(evaluator, strategy, &assembly, problem);
    problem->edge_seconds = assembly.edge_seconds;
    problem->transfer_seconds = assembly.send_device_fraction * assembly.send_seconds;
    return TPP_OK;
}
