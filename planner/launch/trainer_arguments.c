/* trainer_arguments.c - see trainer_arguments.h; launch formats, sections 3 and 4. */
#include "planner/launch/trainer_arguments.h"

#include "planner/launch/argument_map.h"
#include "planner/launch/deepspeed_config.h"
#include "planner/launch/trainer_fsdp.h"

#include <stdlib.h>
#include <string.h>

#define BOOL "true|false|True|False|1|0|yes|no"
#define ROW(name, kind, num_values, defaults, choices)                                                                 \
    {name, TPP_LAUNCH_OPTION_##kind, num_values, TPP_RELEASE_V2_6, TPP_RELEASE_MAIN, defaults, choices},
static const struct tpp_launch_option rows[] = {
#include "planner/launch/trainer_options.inc"
};
#undef ROW

static int compare_name(const void *name, const void *row)
{
    return strcmp(name, ((const struct tpp_launch_option *)row)->name);
}

const struct tpp_launch_option *tpp_trainer_option_find(const char *name)
{
    return bsearch(name, rows, sizeof rows / sizeof *rows, sizeof *rows, compare_name);
}

#define RULE(field) offsetof(struct tpp_megatron_settings, rules.field)
#define HERE(field) offsetof(struct tpp_megatron_settings, field)

static const struct tpp_argument_mapping mappings[] = {
    {"--attn_impl", TPP_SET_SPECIAL, 0, NULL},
    {"--attn_implementation", TPP_SET_SPECIAL, 0, NULL},
    {"--bf16", TPP_SET_SWITCH, RULE(bf16), NULL},
    {"--block_size", TPP_SET_NUMBER, RULE(sequence_length), NULL},
    {"--cutoff_len", TPP_SET_NUMBER, RULE(sequence_length), NULL},
    {"--fp16", TPP_SET_SWITCH, RULE(fp16), NULL},
    {"--gradient_accumulation_steps", TPP_SET_NUMBER, HERE(accumulation), NULL},
    {"--gradient_checkpointing", TPP_SET_SWITCH, HERE(checkpoint_activations), NULL},
    {"--load_in_4bit", TPP_SET_SWITCH, HERE(quantised), NULL},
    {"--lora_r", TPP_SET_NUMBER, HERE(lora_rank), NULL},
    {"--lora_rank", TPP_SET_NUMBER, HERE(lora_rank), NULL},
    {"--lora_target_modules", TPP_SET_SPECIAL, 0, NULL},
    {"--max_length", TPP_SET_NUMBER, RULE(sequence_length), NULL},
    {"--max_seq_length", TPP_SET_NUMBER, RULE(sequence_length), NULL},
    {"--model_max_length", TPP_SET_NUMBER, RULE(sequence_length), NULL},
    {"--per_device_train_batch_size", TPP_SET_NUMBER, RULE(micro_batch_size), NULL},
    {"--quant_bits", TPP_SET_VARIANT, HERE(quantised), "8"},
    {"--sequence_parallel_size", TPP_SET_NUMBER, RULE(context_parallel), NULL},
    {"--target_modules", TPP_SET_SPECIAL, 0, NULL},
    {"--torch_dtype", TPP_SET_SPECIAL, 0, NULL},
    {"--train_type", TPP_SET_VARIANT, HERE(trains_adapters), "full"},
    {"--tuner_type", TPP_SET_VARIANT, HERE(trains_adapters), "full"},
    {"--use_peft", TPP_SET_SWITCH, HERE(trains_adapters), NULL},
};

static const char *const needed_options[] = {
    "--per_device_train_batch_size",
    "--gradient_accumulation_steps",
    "--sequence_parallel_size",
    "--max_length",
    "--max_seq_length",
    "--model_max_length",
    "--block_size",
    "--cutoff_len",
    NULL,
};

static bool has_value(const struct tpp_argument *a, const char *value)
{
    for (size_t i = 0; i < a->num_values; i++) {
        if (strcmp(a->values[i].text, value) == 0)
            return true;
    }
    return false;
}

static enum tpp_lora_targets targets_of(const struct tpp_argument *a)
{
    if (has_value(a, "o_proj") && !has_value(a, "up_proj"))
        return TPP_LORA_ATTENTION;
    if (has_value(a, "k_proj") && !has_value(a, "up_proj"))
        return TPP_LORA_QKV;
    return has_value(a, "q_proj") && !has_value(a, "up_proj") ? TPP_LORA_QV : TPP_LORA_ALL_LINEAR;
}

static void read_special(const struct tpp_argument *a, struct tpp_megatron_settings *s)
{
    const char *name = a->option->name, *value = a->num_values > 0 ? a->values[0].text : "";
    if (strcmp(name, "--target_modules") == 0 || strcmp(name, "--lora_target_modules") == 0) {
        s->lora_targets = targets_of(a);
    } else if (strcmp(name, "--torch_dtype") == 0) {
        s->rules.bf16 = strcmp(value, "bfloat16") == 0;
        s->rules.fp16 = strcmp(value, "float16") == 0;
    } else {
        s->attention = strncmp(value, "flash", 5) == 0 ? TPP_MEGATRON_ATTENTION_FLASH
                       : strcmp(value, "eager") == 0   ? TPP_MEGATRON_ATTENTION_LOCAL
                                                       : TPP_MEGATRON_ATTENTION_AUTO;
    }
}

static struct tpp_megatron_settings defaults(const char *entry, bool is_swift)
{
    struct tpp_megatron_settings s =
        tpp_megatron_defaults(is_swift ? TPP_FRAMEWORK_MS_SWIFT : TPP_FRAMEWORK_HF_TRAINER, TPP_RELEASE_NEWEST);
    s.rules.engine_follows_stages = true;
    s.rules.context_types = TPP_RULE_CONTEXT_A2A;
    s.rules.num_data_sources = 1;
    s.rules.has_train_iters = true;
    s.rules.micro_batch_size = is_swift ? 1 : 8;
    s.rules.bf16 = is_swift;
    s.accumulation = is_swift ? TPP_RULE_UNSET : 1;
    s.checkpoint_activations = is_swift;
    s.trains_adapters = is_swift && strcmp(entry, "pt") != 0;
    s.gives_checkpoint = strcmp(entry, "pt") != 0;
    s.lora_rank = is_swift ? 8 : 16;
    s.hidden_dropout = s.attention_dropout = 0;
    return s;
}

/* swift: zero0 ... zero3_offload are files that it brings, with "auto" for sizes. */
static bool read_preset(const struct tpp_argument *argument, struct tpp_deepspeed_config *config)
{
    const char *value = argument->values[0].text;
    if (strncmp(value, "zero", 4) != 0 || value[4] < '0' || value[4] > '3' ||
        (value[5] != '\0' && strcmp(value + 5, "_offload") != 0))
        return false;
    *config = (struct tpp_deepspeed_config){.is_known = true,
                                            .line = argument->word->line,
                                            .train_batch_size = TPP_RULE_UNSET,
                                            .micro_batch_size = TPP_RULE_UNSET,
                                            .accumulation = TPP_RULE_UNSET,
                                            .is_batch_open = true,
                                            .zero_stage = value[4] - '0',
                                            .reduce_bucket_size = TPP_RULE_UNSET,
                                            .allgather_bucket_size = TPP_RULE_UNSET,
                                            .offloads_optimizer = value[5] != '\0',
                                            .offloads_parameters = value[5] != '\0' && value[4] == '3'};
    return true;
}

/* DeepSpeed's own arguments (deepspeed.add_config_arguments): a switch, and a file in --deepspeed_config. Programs
 * without a file make their configuration; --zero_stage is what those of DeepSpeedExamples call its stage. */
static void read_switch(const struct tpp_argument *argument, const struct tpp_arguments *arguments,
                        const struct tpp_shell_script *script, struct tpp_megatron_settings *s,
                        struct tpp_problems *problems)
{
    const struct tpp_argument *stage = tpp_argument_find(arguments, "--zero_stage");
    int64_t number = 0;
    s->owns_deepspeed = true;
    if (argument->num_values > 0) {
        tpp_deepspeed_config_read(argument, script, &s->config, problems);
        if (s->config.is_known) {
            s->rules.bf16 = s->config.bf16;
            s->rules.fp16 = s->config.fp16;
        }
        return;
    }
    const bool is_known = stage != NULL && stage->is_known && stage->num_values == 1 &&
                          tpp_argument_integer(stage->values[0].text, &number) && number >= 0 && number <= 3;
    if (!is_known)
        tpp_problems_add(problems, "unknown-config", TPP_SEVERITY_WARNING, argument->word->line,
                         "name a file with --deepspeed_config to have it checked",
                         "the program makes its own DeepSpeed configuration: ZeRO stage 0 is assumed");
    s->config = (struct tpp_deepspeed_config){.is_known = true,
                                              .line = argument->word->line,
                                              .is_batch_open = true,
                                              .zero_stage = is_known ? number : 0,
                                              .train_batch_size = TPP_RULE_UNSET,
                                              .micro_batch_size = TPP_RULE_UNSET,
                                              .accumulation = TPP_RULE_UNSET,
                                              .reduce_bucket_size = TPP_RULE_UNSET,
                                              .allgather_bucket_size = TPP_RULE_UNSET};
}

static void read_deepspeed(const struct tpp_arguments *arguments, const struct tpp_shell_script *script, bool is_swift,
                           struct tpp_megatron_settings *s, struct tpp_problems *problems)
{
    const struct tpp_argument *argument = tpp_argument_find(arguments, "--deepspeed");
    const struct tpp_argument *config = tpp_argument_find(arguments, "--deepspeed_config");
    s->deepspeed = argument != NULL || config != NULL;
    if (!s->deepspeed)
        return;
    if (argument == NULL || argument->num_values == 0)
        read_switch(config != NULL ? config : argument, arguments, script, s, problems);
    else if (!is_swift || !read_preset(argument, &s->config))
        tpp_deepspeed_config_read(argument, script, &s->config, problems);
    s->rules.zero_stage = s->config.is_known ? s->config.zero_stage : 0;
    s->rules.optimizer_cpu_offload = s->config.offloads_optimizer;
}

enum tpp_code tpp_trainer_read(struct tpp_shell_words words, const struct tpp_shell_script *script, const char *entry,
                               bool is_swift, struct tpp_arguments *arguments, struct tpp_megatron_settings *out,
                               struct tpp_problems *problems, struct tpp_error *err)
{
    const struct tpp_argument_dialect dialect = {.framework = is_swift ? "ms-swift" : "Hugging Face's Trainer",
                                                 .find = tpp_trainer_option_find,
                                                 .release = TPP_RELEASE_NEWEST,
                                                 .takes_foreign = true,
                                                 .is_partial = true};
    const struct tpp_argument_map map = {mappings, sizeof mappings / sizeof *mappings, needed_options, read_special};
    enum tpp_code code = tpp_arguments_read(words, script, &dialect, arguments, problems, err);
    *out = defaults(entry, is_swift);
    if (code != TPP_OK)
        return code;
    tpp_arguments_map(arguments, script, &map, out, problems);
    read_deepspeed(arguments, script, is_swift, out, problems);
    tpp_trainer_read_fsdp(arguments, script, is_swift, out, problems);
    if (out->rules.fp16)
        out->rules.bf16 = false;
    if (out->checkpoint_activations) {
        out->rules.recompute = TPP_RULE_GRANULARITY_FULL;
        out->rules.recompute_method = TPP_RULE_METHOD_UNIFORM;
        out->rules.recompute_num_layers = 1;
    }
    out->rules.max_position_embeddings = out->rules.sequence_length;
    return TPP_OK;
}

static bool is_set(int64_t value)
{
    return value != TPP_RULE_UNSET;
}

/* What of micro-batch and accumulation follows from the configuration; DS-1 says where it does not. */
static void take_batch(struct tpp_megatron_settings *s, int64_t data)
{
    const struct tpp_deepspeed_config *config = &s->config;
    const int64_t limit = TPP_RULE_MAX_SIZE, batch = is_set(config->train_batch_size) ? config->train_batch_size : 0;
    int64_t micro = is_set(config->micro_batch_size) ? config->micro_batch_size : 0;
    int64_t steps = is_set(config->accumulation) ? config->accumulation : 0;
    if (micro == 0 && batch > 0)
        micro = batch / (data * (steps > 0 ? steps : 1));
    if (steps == 0)
        steps = batch > 0 && micro > 0 ? batch / data / micro : 1;
    if (micro >= 1 && micro <= limit && steps >= 1 && steps <= limit) {
        s->rules.micro_batch_size = micro;
        s->accumulation = steps;
    }
}

void tpp_trainer_complete(struct tpp_megatron_settings *s, struct tpp_problems *problems)
{
    struct tpp_rule_settings *rules = &s->rules;
    const int64_t limit = TPP_RULE_MAX_SIZE;
    if (rules->micro_batch_size < 1 || rules->micro_batch_size > limit || rules->context_parallel < 1 ||
        rules->context_parallel > limit || rules->tensor_parallel < 1 || rules->tensor_parallel > limit ||
        rules->context_parallel * rules->tensor_parallel > rules->world_size ||
        (is_set(s->accumulation) && s->accumulation < 1) || s->accumulation > limit)
        return; /* the rules say so */
    if (rules->framework == TPP_FRAMEWORK_MS_SWIFT && rules->sequence_length % rules->context_parallel != 0 &&
        rules->sequence_length < TPP_RULE_MAX_NUMBER - rules->context_parallel) /* padded before it is split */
        rules->sequence_length += rules->context_parallel - rules->sequence_length % rules->context_parallel;
    const int64_t data = rules->world_size / (rules->context_parallel * rules->tensor_parallel);
    if (s->owns_deepspeed && s->config.is_known && !s->config.is_batch_open)
        take_batch(s, data);
    const int64_t unit = rules->micro_batch_size * data;
    if (!is_set(s->accumulation)) /* swift fills up to 16 sequences */
        s->accumulation = (16 + unit - 1) / unit;
    if (unit <= TPP_RULE_MAX_NUMBER / s->accumulation)
        rules->global_batch_size = unit * s->accumulation;
    if (!s->owns_deepspeed)
        tpp_deepspeed_check_trainer(s, data, problems);
    else if (s->config.is_known)
        tpp_deepspeed_check_alone(&s->config, data, problems);
}
