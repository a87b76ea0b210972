/* Long sequences and context parallelism (cost-model 10.2 item 5, section 7 "CP"; field note A8). */
#include "planner/risk_checks.h"

#include <math.h>

#define VERY_LONG_SEQUENCE 32768
#define ACTIVATION_FRACTION 0.30 /* of the card, that a very long sequence may take without context parallelism */

static void very_long_sequence(struct tpp_risk_context *c)
{
    const struct tpp_strategy *s = c->strategy;
    const struct tpp_memory *memory = &c->cost->memory;
    const double fraction = memory->terms[TPP_MEMORY_ACTIVATIONS] / memory->capacity_bytes;
    if (c->job->sequence_length >= VERY_LONG_SEQUENCE && s->context_parallel == 1 &&
        s->recompute != TPP_RECOMPUTE_FULL && fraction > ACTIVATION_FRACTION) {
        tpp_risk_add(c, "long-sequence-activations", TPP_SEVERITY_WARNING,
                     "use context parallelism, or full recomputation",
                     "sequences of %llu tokens keep activations of %.0f %% of the card",
                     (unsigned long long)c->job->sequence_length, 100 * fraction);
    }
}

/* Tokens a rank from which a step of the ring is attention, not transfer: 4 b (s/c) kv d bytes against
 * 2 b a (s/c) (s/2c) 2d FLOP, both on one rank (cost-model 5.2, 7). */
static double ring_tokens(const struct tpp_risk_context *c)
{
    const struct tpp_hardware *hardware = c->hardware;
    const struct tpp_strategy *s = c->strategy;
    const double heads = (double)c->model->num_attention_heads / s->tensor_parallel;
    const double key_value_heads = fmax(1, (double)c->model->num_query_groups / s->tensor_parallel);
    const bool crosses = (uint64_t)s->tensor_parallel * s->context_parallel > hardware->node.num_gpus;
    const double rate =
        crosses ? tpp_hardware_nic_bytes_per_second_per_gpu(hardware) * hardware->network.send_recv_efficiency_fraction
                : hardware->node.bus_bytes_per_second[TPP_SEND_RECV];
    const double attention_rate =
        hardware->gpu.bf16_flops_per_second * hardware->gpu.flash_forward_fraction[c->stack->attention];
    return 2 * key_value_heads / heads * attention_rate / rate;
}

static void short_ring_steps(struct tpp_risk_context *c)
{
    const struct tpp_strategy *s = c->strategy;
    if (s->context_parallel == 1 || s->context_kind != TPP_CONTEXT_RING || c->model->kv_lora_rank > 0 ||
        (int)c->stack->attention >= TPP_FLASH_KERNEL_COUNT) {
        return;
    }
    const double tokens = (double)c->job->sequence_length / s->context_parallel, wanted = ring_tokens(c);
    if (tokens < wanted) {
        tpp_risk_add(c, "context-ring-exposed", TPP_SEVERITY_WARNING,
                     "use a smaller context-parallel size, or the all-to-all kind",
                     "%.0f tokens a rank are too few to hide a step of the ring: its transfer takes as long as the "
                     "attention of %.0f",
                     tokens, wanted);
    }
}

/* Zig-zag chunks are part of Megatron's, Transformer Engine's and torchtitan's rings; other stacks may cut in one
 * piece. */
static void contiguous_chunks(struct tpp_risk_context *c)
{
    const uint32_t size = c->strategy->context_parallel;
    const enum tpp_framework framework = c->stack->framework;
    const bool is_balanced = framework == TPP_FRAMEWORK_MEGATRON_LM || framework == TPP_FRAMEWORK_NEMO ||
                             framework == TPP_FRAMEWORK_MS_SWIFT || framework == TPP_FRAMEWORK_TORCHTITAN;
    if (size > 1 && c->strategy->context_kind == TPP_CONTEXT_RING && !is_balanced) {
        tpp_risk_add(
            c, "context-contiguous", TPP_SEVERITY_WARNING, "check that the stack cuts sequences in zig-zag order",
            "if the sequence is cut in one piece a rank, the last of %u ranks does %.2f times the mean attention work",
            size, (2.0 * size - 1) / size);
    }
}

static void ring_without_window(struct tpp_risk_context *c)
{
    const struct tpp_model *model = c->model;
    if (c->strategy->context_parallel > 1 && c->strategy->context_kind == TPP_CONTEXT_RING &&
        model->sliding_window > 0 && model->sliding_window < c->job->sequence_length) {
        tpp_risk_add(c, "context-ring-window", TPP_SEVERITY_WARNING, "use cp_kind=all-gather or cp_kind=ulysses",
                     "a ring computes the whole causal half in the %u layers with a window of %u tokens; Transformer "
                     "Engine refuses it",
                     model->sliding_window_layers, model->sliding_window);
    }
}

static void blocked_attention(struct tpp_risk_context *c)
{
    const unsigned long long length = c->job->attention_block_length;
    if (length > 0 && length < c->job->sequence_length) {
        tpp_risk_add(
            c, "attention-blocked", TPP_SEVERITY_INFO,
            "compare the quality on tasks that need context across documents",
            "attention stays inside documents of %llu tokens: cheaper, and the model never sees longer context",
            length);
    }
}

static void beyond_positions(struct tpp_risk_context *c)
{
    if (c->model->max_position_embeddings > 0 && c->job->sequence_length > c->model->max_position_embeddings) {
        tpp_risk_add(c, "sequence-beyond-model", TPP_SEVERITY_INFO,
                     "extend the positions (rotary scaling, a longer table) before training",
                     "sequences of %llu tokens are longer than the %u the model was made for",
                     (unsigned long long)c->job->sequence_length, c->model->max_position_embeddings);
    }
}

tpp_risk_check *const tpp_risk_context_checks[] = {
    very_long_sequence, short_ring_steps, contiguous_chunks, ring_without_window,
    blocked_attention, beyond_positions, NULL,
};
