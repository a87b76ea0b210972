/* table.h - the form of a rule, shared by the files that hold them. */
#ifndef TPP_PLANNER_RULES_TABLE_H
#define TPP_PLANNER_RULES_TABLE_H

#include "planner/rules/rules.h"

/* The settings with what follows from them (launch-format rules of derived quantities); only for rows of the tables. */
struct tpp_rule_context {
    const struct tpp_rule_settings *s;
    enum tpp_release release;
    int64_t tensor_parallel, pipeline_parallel; /* as the release understands them */
    int64_t model_parallel;                     /* tensor * pipeline * context */
    int64_t data_parallel;                      /* world / model_parallel, rounded down; at least 1 */
    int64_t expert_tensor_parallel;
    int64_t expert_data_parallel; /* world / (expert tensor * expert * pipeline), rounded down */
    int64_t global_batch_size;
    int64_t num_micro_batches; /* global / (micro * data), rounded down */
    int64_t slots;             /* layers plus what the account-for switches add */
    int64_t virtual_stages;    /* chunks a rank; 0 = not interleaved */
    int64_t num_query_groups;  /* heads without grouped queries */
    int64_t kv_channels;
    int64_t ffn_hidden_size, moe_ffn_hidden_size;
    bool sequence_parallel; /* off with one tensor-parallel rank */
    bool is_moe;
    bool fsdp; /* any of the two */
};

struct tpp_rule {
    const char *code;
    enum tpp_rule_stage stage;
    enum tpp_release first, last; /* releases it holds in */
    bool (*holds)(const struct tpp_rule_context *c);
    const char *message; /* what must be true, or what is wrong */
    /* Names of the values it reads, separated by spaces, the one to change first; "" = none. Numbers (values.c) are
     * shown in the message. */
    const char *values;
    const char *hint;
};

/* A group of rules with one question in front of it, so that a dense model never asks the rules of experts. */
struct tpp_rule_group {
    const struct tpp_rule *rules;
    size_t count;
    bool (*applies)(const struct tpp_rule_context *c); /* NULL = always */
};

#define TPP_RULE_GROUP(rules, applies)                                                                                 \
    {                                                                                                                  \
        rules, sizeof(rules) / sizeof *(rules), applies                                                                \
    }
#define TPP_RULE_EVER TPP_RELEASE_V2_6, TPP_RELEASE_MAIN
#define TPP_RULE_SINCE(first) TPP_RELEASE_##first, TPP_RELEASE_MAIN

extern const struct tpp_rule_group tpp_rules_megatron_parallel; /* parallel sizes, batch */
extern const struct tpp_rule_group tpp_rules_megatron_context;  /* context parallelism */
extern const struct tpp_rule_group tpp_rules_megatron_pipeline; /* layers on stages, interleaving */
extern const struct tpp_rule_group tpp_rules_megatron_layout;   /* --pipeline-model-parallel-layout */
extern const struct tpp_rule_group tpp_rules_megatron_model;    /* heads, widths, lengths */
extern const struct tpp_rule_group tpp_rules_megatron_latent;   /* multi-latent attention, multi-token prediction */
extern const struct tpp_rule_group tpp_rules_megatron_moe;
extern const struct tpp_rule_group tpp_rules_megatron_optimizer; /* data parallelism, optimizer */
extern const struct tpp_rule_group tpp_rules_megatron_fsdp;      /* FSDP, checkpoint formats, muon */
extern const struct tpp_rule_group tpp_rules_megatron_memory;    /* recomputation, offload of activations */
extern const struct tpp_rule_group tpp_rules_megatron_precision;
extern const struct tpp_rule_group tpp_rules_megatron_training; /* length of training, data, environment */
extern const struct tpp_rule_group tpp_rules_bridge;            /* Megatron-Bridge, beside those of Megatron Core */
extern const struct tpp_rule_group tpp_rules_deepspeed;
extern const struct tpp_rule_group tpp_rules_swift;
extern const struct tpp_rule_group tpp_rules_trainer; /* Transformers with DeepSpeed: HF Trainer, swift sft */
extern const struct tpp_rule_group tpp_rules_transformers; /* without DeepSpeed: its own tensor parallelism */
extern const struct tpp_rule_group tpp_rules_accelerate; /* Hugging Face's Trainer with FSDP */
extern const struct tpp_rule_group tpp_rules_torchtitan;
extern const struct tpp_rule_group tpp_rules_nanotron;

/* DeepSpeed without ZeRO sums in the type of the weights (engine.py, _do_optimizer_sanity_check); its pipeline engine
 * decides by itself. */
static inline bool tpp_rule_sums_have_stage(const struct tpp_rule_context *c)
{
    return !c->s->sums_in_fp32 || (c->s->zero_stage >= 1 && !c->s->pipeline_engine);
}

/* True when `a` is a multiple of `b`; false for b < 1. */
static inline bool tpp_rule_divides(int64_t b, int64_t a)
{
    return b >= 1 && a % b == 0;
}

static inline bool tpp_rule_is_set(int64_t value)
{
    return value != TPP_RULE_UNSET;
}

/* Appends " (name = value, ...)" for the names in `values`; values.c. */
void tpp_rule_describe(const struct tpp_rule_context *c, const char *values, char *buffer, size_t size);
/* Name of the first number out of range, or NULL; values.c. */
const char *tpp_rule_bad_number(const struct tpp_rule_settings *settings);

#endif
