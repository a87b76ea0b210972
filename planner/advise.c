#include "planner/advise.h"

#include "costmodel/base/units.h"
#include "planner/rank.h"
#include "planner/rules/rules.h"
#include "planner/validity.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static const enum tpp_binding binding_of[TPP_TIME_TERM_COUNT] = {
    [TPP_TIME_GEMM] = TPP_BINDING_COMPUTE,          [TPP_TIME_ATTENTION] = TPP_BINDING_COMPUTE,
    [TPP_TIME_MEMORY_BOUND] = TPP_BINDING_MEMORY,   [TPP_TIME_EMBEDDING_HEAD] = TPP_BINDING_COMPUTE,
    [TPP_TIME_RECOMPUTE] = TPP_BINDING_COMPUTE,     [TPP_TIME_HOST] = TPP_BINDING_HOST,
    [TPP_TIME_TENSOR_COMM] = TPP_BINDING_NETWORK,   [TPP_TIME_CONTEXT_COMM] = TPP_BINDING_NETWORK,
    [TPP_TIME_EXPERT_COMM] = TPP_BINDING_NETWORK,   [TPP_TIME_SHARD_COMM] = TPP_BINDING_NETWORK,
    [TPP_TIME_BUBBLE] = TPP_BINDING_BUBBLE,         [TPP_TIME_PIPELINE_COMM] = TPP_BINDING_NETWORK,
    [TPP_TIME_GRADIENT_COMM] = TPP_BINDING_NETWORK, [TPP_TIME_OPTIMIZER] = TPP_BINDING_MEMORY,
    [TPP_TIME_OFFLOAD] = TPP_BINDING_HOST,          [TPP_TIME_FIXED] = TPP_BINDING_HOST,
};

const char *tpp_binding_name(enum tpp_binding binding)
{
    static const char *const names[TPP_BINDING_COUNT] = {"compute", "memory", "network", "bubble", "host"};
    return (unsigned)binding < TPP_BINDING_COUNT ? names[binding] : NULL;
}

/* ---- layouts in words ---- */

struct words {
    char *buffer;
    size_t size, length;
};

static void add_word(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add_word(struct words *words, const char *format, ...)
{
    if (words->length > 0 && words->length + 3 < words->size) {
        words->length += (size_t)snprintf(words->buffer + words->length, words->size - words->length, ", ");
    }
    va_list arguments;
    va_start(arguments, format);
    const int written = vsnprintf(words->buffer + words->length, words->size - words->length, format, arguments);
    va_end(arguments);
    words->length += written > 0 ? (size_t)written : 0;
    words->length = words->length < words->size ? words->length : words->size - 1;
}

static void add_size(struct words *words, const char *name, uint64_t size)
{
    if (size > 1) {
        add_word(words, "%s %llu", name, (unsigned long long)size);
    }
}

char *tpp_layout_words(char *buffer, size_t size, const struct tpp_strategy *strategy)
{
    struct words words = {.buffer = buffer, .size = size};
    buffer[0] = '\0';
    add_size(&words, "tp", strategy->tensor_parallel);
    add_size(&words, "pp", strategy->pipeline_parallel);
    add_size(&words, "vp", strategy->virtual_pipeline_stages);
    add_size(&words, "cp", strategy->context_parallel);
    add_size(&words, "ep", strategy->expert_parallel);
    add_size(&words, "dp", strategy->data_parallel);
    add_word(&words, "mbs %u", strategy->micro_batch_size);
    add_size(&words, "ZeRO", strategy->zero_stage > 1 ? strategy->zero_stage : 0);
    if (strategy->zero_stage == 1) {
        add_word(&words, "ZeRO 1");
    }
    if (strategy->recompute == TPP_RECOMPUTE_FULL && strategy->recompute_num_layers > 0 &&
        strategy->recompute_method == TPP_RECOMPUTE_BLOCK) {
        add_word(&words, "%u layers of a stage recomputed", strategy->recompute_num_layers);
    } else if (strategy->recompute != TPP_RECOMPUTE_NONE) {
        add_word(&words, "%s recomputation", tpp_recompute_name(strategy->recompute));
    }
    if (strategy->offload == TPP_OFFLOAD_OPTIMIZER) {
        add_word(&words, "optimizer offloaded");
    }
    if (strategy->offload_layers > 0) {
        add_word(&words, "activations of %u layers offloaded", strategy->offload_layers);
    }
    return buffer;
}

/* ---- why the first plan wins ---- */

static enum tpp_binding largest_from(const double fractions[TPP_BINDING_COUNT], int first)
{
    int largest = first;
    for (int i = first + 1; i < TPP_BINDING_COUNT; i++) {
        largest = fractions[i] > fractions[largest] ? i : largest;
    }
    return (enum tpp_binding)largest;
}

static void describe_winner(const struct tpp_plan *plan, struct tpp_reasons *reasons)
{
    const double step = plan->cost.step_seconds;
    for (int i = 0; i < TPP_TIME_TERM_COUNT && step > 0; i++) {
        reasons->fractions[binding_of[i]] += plan->cost.time_terms[i] / step;
    }
    reasons->binding = largest_from(reasons->fractions, TPP_BINDING_COMPUTE);
    reasons->loss = largest_from(reasons->fractions, TPP_BINDING_COMPUTE + 1);
    reasons->device_memory_fraction = plan->cost.memory.device_total_bytes / plan->cost.memory.capacity_bytes;
    snprintf(reasons->winner, sizeof reasons->winner,
             "%s binds: %.0f %% of the step is compute, %.0f %% memory-bound kernels, %.0f %% exposed communication, "
             "%.0f %% bubble, %.0f %% host and fixed cost; %.0f %% of the memory is used",
             tpp_binding_name(reasons->binding), 100 * reasons->fractions[TPP_BINDING_COMPUTE],
             100 * reasons->fractions[TPP_BINDING_MEMORY], 100 * reasons->fractions[TPP_BINDING_NETWORK],
             100 * reasons->fractions[TPP_BINDING_BUBBLE], 100 * reasons->fractions[TPP_BINDING_HOST],
             100 * reasons->device_memory_fraction);
}

/* The term in which the other plan loses most, by the estimate. */
static enum tpp_time_term largest_loss(const struct tpp_plan *winner, const struct tpp_plan *other)
{
    int worst = 0;
    for (int i = 1; i < TPP_TIME_TERM_COUNT; i++) {
        const double more = other->cost.time_terms[i] - winner->cost.time_terms[i];
        worst = more > other->cost.time_terms[worst] - winner->cost.time_terms[worst] ? i : worst;
    }
    return (enum tpp_time_term)worst;
}

/* `loss_seconds`, of `winner_seconds`: of the steps that made the order. */
static void describe_runner_up(const struct tpp_plan *winner, const struct tpp_plan *other, double loss_seconds,
                               double winner_seconds, struct tpp_reasons *reasons)
{
    const enum tpp_time_term worst = largest_loss(winner, other);
    const double estimated_seconds = other->cost.step_seconds - winner->cost.step_seconds;
    const double percent = 100 * fabs(loss_seconds) / winner_seconds;
    char loss[32], term[32], estimated[32], layout[128];
    reasons->has_runner_up = true;
    reasons->runner_up_term = worst;
    reasons->runner_up_term_seconds = other->cost.time_terms[worst] - winner->cost.time_terms[worst];
    reasons->runner_up_loss_seconds = loss_seconds;
    reasons->runner_up_loss_fraction = loss_seconds / winner_seconds;
    tpp_layout_words(layout, sizeof layout, &other->strategy);
    tpp_format_seconds(term, sizeof term, reasons->runner_up_term_seconds);
    tpp_format_seconds(loss, sizeof loss, fabs(loss_seconds));
    tpp_format_seconds(estimated, sizeof estimated, fabs(estimated_seconds));
    if (loss_seconds < 0 &&
        (loss_seconds == estimated_seconds || percent > 100 * TPP_SIMULATED_RESOLUTION_FRACTION))
        snprintf(reasons->runner_up, sizeof reasons->runner_up,
                 "the second (%s) would be %s faster, but its memory is tight: %.0f %% of the card", layout, loss,
                 100 * other->cost.memory.device_total_bytes / other->cost.memory.capacity_bytes);
    else if (estimated_seconds < 0)
        snprintf(reasons->runner_up, sizeof reasons->runner_up,
                 "the second (%s) is %s faster by the estimate, but %s %s (%.1f %%) when simulated", layout, estimated,
                 loss_seconds < 0 ? "no more than" : "slower by", loss, percent);
    else
        snprintf(reasons->runner_up, sizeof reasons->runner_up,
                 "the second (%s) loses %s (%.1f %%); most of its loss is in %s, %s more", layout, loss, percent,
                 tpp_time_term_name(reasons->runner_up_term), term);
}

static double step_of(const struct tpp_plan *plans, const struct tpp_simulated_plan *simulated, size_t i)
{
    return simulated != NULL ? simulated[i].simulated_seconds : plans[i].cost.step_seconds;
}

static void find_equals(const struct tpp_plan *plans, const struct tpp_simulated_plan *simulated, size_t count,
                        struct tpp_reasons *reasons)
{
    const double step = step_of(plans, simulated, 0);
    reasons->num_equal = 1;
    while (reasons->num_equal < count &&
           fabs(step_of(plans, simulated, reasons->num_equal) - step) < TPP_EQUAL_STEP_FRACTION * step)
        reasons->num_equal++;
    if (reasons->num_equal > 1)
        snprintf(reasons->equal, sizeof reasons->equal,
                 "the first %zu plans shown are equal as far as can be told, with steps less than %.0f %% from the first's: "
                 "measure them, or choose by memory and simplicity",
                 reasons->num_equal, 100 * TPP_EQUAL_STEP_FRACTION);
}

void tpp_reasons_find(const struct tpp_plan *plans, const struct tpp_simulated_plan *simulated, size_t count,
                      struct tpp_reasons *reasons)
{
    *reasons = (struct tpp_reasons){.binding = TPP_BINDING_COMPUTE};
    describe_winner(&plans[0], reasons);
    find_equals(plans, simulated, count, reasons);
    if (count < 2)
        return;
    const double winner = step_of(plans, simulated, 0), other = step_of(plans, simulated, 1);
    describe_runner_up(&plans[0], &plans[1], other - winner, winner, reasons);
}

/* ---- nothing fits ---- */

void tpp_shortage_find(const struct tpp_plan *nearest, double headroom_fraction, struct tpp_shortage *shortage)
{
    const struct tpp_memory *memory = &nearest->cost.memory;
    char missing[32], largest[32], layout[128];
    int term = 0;
    for (int i = 1; i < TPP_MEMORY_TERM_COUNT; i++) {
        term = memory->terms[i] > memory->terms[term] ? i : term;
    }
    *shortage = (struct tpp_shortage){
        .missing_bytes = tpp_rank_missing_bytes(memory, headroom_fraction),
        .largest_term = (enum tpp_memory_term)term,
        .largest_bytes = memory->terms[term],
    };
    snprintf(shortage->sentence, sizeof shortage->sentence,
             "the nearest plan (%s) misses %s on stage %u; its largest part is %s with %s",
             tpp_layout_words(layout, sizeof layout, &nearest->strategy),
             tpp_format_bytes(missing, sizeof missing, shortage->missing_bytes), memory->worst_stage,
             tpp_memory_term_name(shortage->largest_term),
             tpp_format_bytes(largest, sizeof largest, shortage->largest_bytes));
}

/* ---- nothing is valid ---- */

static uint32_t pin_or(int64_t pin, uint32_t value)
{
    return pin == TPP_PIN_ANY ? value : (uint32_t)pin;
}

static struct tpp_strategy strategy_of_pins(const struct tpp_stack *stack, const struct tpp_space_limits *limits)
{
    struct tpp_strategy strategy = tpp_strategy_defaults();
    strategy.tensor_parallel = pin_or(limits->tensor_parallel, 1);
    strategy.pipeline_parallel = pin_or(limits->pipeline_parallel, 1);
    strategy.virtual_pipeline_stages = pin_or(limits->virtual_pipeline_stages, 1);
    strategy.context_parallel = pin_or(limits->context_parallel, 1);
    strategy.expert_parallel = pin_or(limits->expert_parallel, 1);
    strategy.data_parallel = pin_or(limits->data_parallel, 0);
    strategy.micro_batch_size = pin_or(limits->micro_batch_size, 1);
    strategy.zero_stage = pin_or(limits->zero_stage, tpp_engine_is_fsdp(stack->engine) ? 3 : 0);
    strategy.sequence_parallel = pin_or(limits->sequence_parallel, 0) == 1;
    strategy.recompute = (enum tpp_recompute)pin_or(limits->recompute, TPP_RECOMPUTE_NONE);
    strategy.context_kind = (enum tpp_context_kind)pin_or(limits->context_kind, TPP_CONTEXT_RING);
    strategy.offload = (enum tpp_offload)pin_or(limits->offload, TPP_OFFLOAD_NONE);
    return strategy;
}

static enum tpp_code fail_by_rules(const struct tpp_model *model, const struct tpp_hardware *hardware,
                                   const struct tpp_job *job, const struct tpp_stack *stack,
                                   const struct tpp_strategy *strategy, struct tpp_error *err)
{
    struct tpp_validity validity;
    struct tpp_violation violation;
    tpp_validity_init(model, hardware->gpu.compute_capability, job, stack, &validity);
    tpp_rule_settings_for_strategy(strategy, validity.release, &validity.settings);
    if (tpp_rules_violations(&validity.settings, validity.release, &violation, 1) > 0) {
        return tpp_fail(err, TPP_E_STRATEGY, "strategy", violation.hint, "%s: %s (%s)",
                        tpp_framework_name(stack->framework), violation.message, violation.code);
    }
    return tpp_fail(err, TPP_E_STRATEGY, "strategy", "drop a pin or a limit, or change the number of GPUs or the batch",
                    "no strategy meets all pins and limits on %u GPUs", job->num_gpus);
}

enum tpp_code tpp_no_valid_plan(const struct tpp_model *model, const struct tpp_hardware *hardware,
                                const struct tpp_job *job, const struct tpp_stack *stack,
                                const struct tpp_space_limits *limits, struct tpp_error *err)
{
    enum tpp_code code = tpp_space_limits_check(limits, err);
    if (code != TPP_OK) {
        return code;
    }
    struct tpp_strategy strategy = strategy_of_pins(stack, limits);
    /* With data parallelism pinned the rest of the GPUs must go somewhere: its own product says nothing then. */
    if (limits->data_parallel != TPP_PIN_ANY && job->num_gpus % strategy.data_parallel == 0) {
        strategy.data_parallel = 0;
    }
    code = tpp_strategy_complete(&strategy, job, err);
    if (code == TPP_OK) {
        code = tpp_strategy_check(&strategy, model, job, stack, err);
    }
    return code != TPP_OK ? code : fail_by_rules(model, hardware, job, stack, &strategy, err);
}
