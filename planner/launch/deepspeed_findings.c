/* deepspeed_findings.c - where the options of Megatron-DeepSpeed and its ds_config.json contradict each other. */
#include "planner/launch/deepspeed_arguments.h"
#include "planner/launch/deepspeed_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_set(int64_t value)
{
    return value != TPP_RULE_UNSET;
}

static int64_t data_parallel(const struct tpp_rule_settings *rules)
{
    int64_t model_parallel = rules->tensor_parallel * rules->pipeline_parallel * rules->context_parallel;
    return model_parallel > 0 ? rules->world_size / model_parallel : 1;
}

/* MD-16, and what BLOOM's fork refuses while it reads its options. */
static void check_pairs(const struct tpp_arguments *arguments, const struct tpp_megatron_settings *s,
                        struct tpp_problems *problems)
{
    const struct tpp_argument *type = tpp_argument_find(arguments, "--position-embedding-type");
    bool is_rotary = type != NULL && s->rules.position == TPP_RULE_POSITION_ROPE;
    if (s->rules.has_train_iters && s->rules.has_train_samples)
        tpp_problems_add(problems, "MD-16", TPP_SEVERITY_ERROR, tpp_argument_line(arguments, "--train-samples"),
                         "give one of them", "--train-iters and --train-samples exclude each other");
    if (is_rotary && tpp_argument_find(arguments, "--max-position-embeddings") != NULL)
        tpp_problems_add(problems, "MD", TPP_SEVERITY_ERROR, tpp_argument_line(arguments, "--max-position-embeddings"),
                         "take --max-position-embeddings out",
                         "rotary positions refuse --max-position-embeddings in BLOOM's fork");
    if (tpp_argument_find(arguments, "--glu-activation") != NULL &&
        tpp_argument_find(arguments, "--no-bias-gelu-fusion") == NULL)
        tpp_problems_add(problems, "MD", TPP_SEVERITY_ERROR, tpp_argument_line(arguments, "--glu-activation"),
                         "add --no-bias-gelu-fusion", "--glu-activation needs --no-bias-gelu-fusion");
}

/* MD-10, MD-14, and the ramp-up of MD-13: the first batch is the smallest. */
static void check_options(const struct tpp_arguments *arguments, const struct tpp_megatron_settings *s,
                          struct tpp_problems *problems)
{
    const struct tpp_rule_settings *rules = &s->rules;
    int64_t unit = data_parallel(rules) * rules->micro_batch_size;
    if (s->foreign_ddp && rules->bf16)
        tpp_problems_add(problems, "MD-10", TPP_SEVERITY_ERROR, tpp_argument_line(arguments, "--DDP-impl"),
                         "use --DDP-impl local", "bf16 needs --DDP-impl local");
    if (s->zero_bubble && (!s->deepspeed || rules->sequence_parallel))
        tpp_problems_add(problems, "MD-14", TPP_SEVERITY_ERROR, tpp_argument_line(arguments, "--enable-zbh1-pipeline"),
                         s->deepspeed ? "take --sequence-parallel out" : "add --deepspeed and its configuration",
                         "--enable-zbh1-pipeline needs --deepspeed, and excludes --sequence-parallel");
    if (!is_set(rules->rampup_start) || !is_set(rules->global_batch_size) || unit < 1)
        return;
    bool is_reached =
        rules->rampup_increment > 0 && (rules->global_batch_size - rules->rampup_start) % rules->rampup_increment == 0;
    if (rules->rampup_start % unit != 0 || !is_reached)
        tpp_problems_add(problems, "MD-13", TPP_SEVERITY_ERROR, tpp_argument_line(arguments, "--rampup-batch-size"),
                         "start at a multiple of micro-batch * data-parallel ranks",
                         "a ramp-up from %lld by %lld to %lld sequences does not divide by micro-batch * data-parallel "
                         "ranks = %lld in every step",
                         (long long)rules->rampup_start, (long long)rules->rampup_increment,
                         (long long)rules->global_batch_size, (long long)unit);
}

/* DS-1 where the configuration leaves one or two of the three out: DeepSpeed divides, and needs a batch size. */
static void check_missing_factors(const struct tpp_deepspeed_config *config, int64_t data,
                                  struct tpp_problems *problems)
{
    const int64_t batch = config->train_batch_size, micro = config->micro_batch_size, steps = config->accumulation;
    if (config->is_batch_open || data < 1)
        return;
    if ((is_set(batch) && batch < 1) || (is_set(micro) && micro < 1) || (is_set(steps) && steps < 1)) {
        tpp_problems_add(problems, "DS-1", TPP_SEVERITY_ERROR, config->line, "give sizes of at least 1",
                         "a batch size or the accumulation of the DeepSpeed configuration is below 1");
    } else if (!is_set(batch) && !is_set(micro)) {
        tpp_problems_add(problems, "DS-1", TPP_SEVERITY_ERROR, config->line,
                         "write train_batch_size or train_micro_batch_size_per_gpu",
                         "the DeepSpeed configuration has no batch size");
    } else if (is_set(batch)) {
        const double others = (double)data * (double)(is_set(micro) ? micro : is_set(steps) ? steps : 1);
        if (fmod((double)batch, others) != 0)
            tpp_problems_add(problems, "DS-1", TPP_SEVERITY_ERROR, config->line, "make it a multiple",
                             "train_batch_size %lld is no multiple of %.0f, %s * %lld data-parallel ranks",
                             (long long)batch, others, is_set(micro) ? "the micro-batch" : "the accumulation",
                             (long long)data);
    }
}

/* DS-1, with the two numbers that would make it right. */
static void check_factors(const struct tpp_deepspeed_config *config, int64_t data, struct tpp_problems *problems)
{
    char hint[160];
    const int64_t batch = config->train_batch_size, micro = config->micro_batch_size, steps = config->accumulation;
    if (!is_set(batch) || !is_set(micro) || !is_set(steps) || data < 1 || micro < 1 || steps < 1) {
        check_missing_factors(config, data, problems);
        return;
    }
    if ((double)micro * (double)steps * (double)data == (double)batch)
        return;
    const double others = (double)micro * (double)data, ranks = (double)micro * (double)steps;
    if (fmod((double)batch, others) == 0)
        snprintf(hint, sizeof hint, "gradient_accumulation_steps %.0f fits these ranks", (double)batch / others);
    else
        snprintf(hint, sizeof hint, "make train_batch_size %.0f or %.0f, or leave it out",
                 floor((double)batch / others) * others, ceil((double)batch / others) * others);
    if (fmod((double)batch, ranks) == 0) {
        const size_t used = strlen(hint);
        snprintf(hint + used, sizeof hint - used, "; or start %.0f data-parallel ranks", (double)batch / ranks);
    }
    tpp_problems_add(problems, "DS-1", TPP_SEVERITY_ERROR, config->line, hint,
                     "train_batch_size %lld is not micro-batch %lld * accumulation %lld * %lld data-parallel ranks",
                     (long long)batch, (long long)micro, (long long)steps, (long long)data);
}

/* MD-7: what both have is equal. The program tells DeepSpeed its own global batch before the first step
 * (megatron/training.py, set_train_batch_size), so that another in the configuration is without effect. */
static void check_batch(const struct tpp_megatron_settings *s, struct tpp_problems *problems)
{
    const struct tpp_rule_settings *rules = &s->rules;
    const struct tpp_deepspeed_config *config = &s->config;
    if (is_set(config->train_batch_size) && is_set(rules->global_batch_size) &&
        config->train_batch_size != rules->global_batch_size)
        tpp_problems_add(problems, "MD-7", TPP_SEVERITY_WARNING, config->line, "write the same number in both",
                         "train_batch_size is %lld, --global-batch-size is %lld, which counts",
                         (long long)config->train_batch_size, (long long)rules->global_batch_size);
    if (is_set(config->micro_batch_size) && config->micro_batch_size != rules->micro_batch_size)
        tpp_problems_add(problems, "MD-7", TPP_SEVERITY_ERROR, config->line, "write the same number in both",
                         "train_micro_batch_size_per_gpu is %lld, --micro-batch-size is %lld",
                         (long long)config->micro_batch_size, (long long)rules->micro_batch_size);
}

/* DS-2 and DS-7. */
static void check_config(const struct tpp_deepspeed_config *config, struct tpp_problems *problems)
{
    if (config->fp16 && config->bf16)
        tpp_problems_add(problems, "DS-2", TPP_SEVERITY_ERROR, config->line, "enable one",
                         "fp16 and bf16 are both enabled in the DeepSpeed configuration");
    if (config->offloads_parameters && config->zero_stage != 3)
        tpp_problems_add(problems, "DS-7", TPP_SEVERITY_ERROR, config->line, "use stage 3, or take offload_param out",
                         "offload_param needs ZeRO stage 3");
    if (config->offloads_optimizer && config->zero_stage == 0)
        tpp_problems_add(problems, "DS-7", TPP_SEVERITY_ERROR, config->line,
                         "use stage 1, 2 or 3, or take offload_optimizer out", "offload_optimizer needs a ZeRO stage");
}

void tpp_deepspeed_check_alone(const struct tpp_deepspeed_config *config, int64_t data, struct tpp_problems *problems)
{
    if (!config->is_known)
        return;
    check_factors(config, data, problems);
    check_config(config, problems);
}

static bool are_sizes(const struct tpp_rule_settings *rules)
{
    const int64_t sizes[] = {rules->world_size, rules->tensor_parallel, rules->pipeline_parallel,
                             rules->context_parallel, rules->micro_batch_size};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i] < 1 || sizes[i] > TPP_RULE_MAX_SIZE)
            return false;
    }
    return true;
}

void tpp_deepspeed_find_dead(const struct tpp_arguments *arguments, const struct tpp_megatron_settings *s,
                             struct tpp_problems *problems)
{
    const struct tpp_rule_settings *rules = &s->rules;
    const struct tpp_deepspeed_config *config = &s->config;
    if (!are_sizes(rules)) /* the rules say so */
        return;
    check_options(arguments, s, problems);
    check_pairs(arguments, s, problems);
    if (rules->sequence_parallel && rules->tensor_parallel == 1)
        tpp_problems_add(problems, "dead-setting", TPP_SEVERITY_WARNING,
                         tpp_argument_line(arguments, "--sequence-parallel"), "take it out",
                         "--sequence-parallel does nothing with one tensor-parallel rank");
    if (!config->is_known)
        return;
    check_batch(s, problems);
    tpp_deepspeed_check_alone(config, data_parallel(rules), problems);
    if ((config->bf16 && rules->fp16) || (config->fp16 && rules->bf16))
        tpp_problems_add(problems, "other-precision", TPP_SEVERITY_ERROR, config->line, "enable the same one in both",
                         "the DeepSpeed configuration has another precision than the options");
    if (s->written_zero_stage != config->zero_stage && tpp_argument_find(arguments, "--zero-stage") != NULL)
        tpp_problems_add(problems, "MD-6", TPP_SEVERITY_WARNING, tpp_argument_line(arguments, "--zero-stage"),
                         "write the same stage in both: the one of the configuration is used",
                         "--zero-stage is %lld, the stage of the configuration %lld", (long long)s->written_zero_stage,
                         (long long)config->zero_stage);
}

void tpp_deepspeed_check_trainer(const struct tpp_megatron_settings *s, int64_t data, struct tpp_problems *problems)
{
    const struct tpp_deepspeed_config *config = &s->config;
    const struct {
        const char *key, *argument;
        int64_t written, used;
    } pairs[] = {
        {"train_micro_batch_size_per_gpu", "--per_device_train_batch_size", config->micro_batch_size,
         s->rules.micro_batch_size},
        {"gradient_accumulation_steps", "--gradient_accumulation_steps", config->accumulation, s->accumulation},
        {"train_batch_size", "the arguments' product with the ranks", config->train_batch_size,
         s->rules.global_batch_size},
    };
    if (!config->is_known)
        return;
    tpp_deepspeed_check_alone(config, data, problems);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (is_set(pairs[i].written) && is_set(pairs[i].used) && pairs[i].written != pairs[i].used)
            tpp_problems_add(problems, "trainer-config", TPP_SEVERITY_ERROR, config->line,
                             "write \"auto\", or the same number in both",
                             "%s is %lld in the DeepSpeed configuration, %s is %lld: the Trainer refuses that",
                             pairs[i].key, (long long)pairs[i].written, pairs[i].argument, (long long)pairs[i].used);
    }
    if ((config->bf16 && !s->rules.bf16) || (config->fp16 && !s->rules.fp16))
        tpp_problems_add(problems, "trainer-config", TPP_SEVERITY_ERROR, config->line,
                         "write \"auto\", or the same precision in both",
                         "the DeepSpeed configuration has another precision than the arguments: the Trainer refuses "
                         "that");
}
