/* run_facts.h - one line of a runs file as typed values, before anything is concluded from them.
 *
 * Internal to costmodel/runs. Texts point into the parsed document and are never NULL: "" when the source is silent.
 * Counts are 0 when the source is silent; answers are TPP_RUN_UNSAID. */
#ifndef TPP_COSTMODEL_RUNS_RUN_FACTS_H
#define TPP_COSTMODEL_RUNS_RUN_FACTS_H

#include "costmodel/base/error.h"
#include "costmodel/base/json_read.h"
#include "costmodel/runs/run.h"

#include <stdbool.h>
#include <stdint.h>

struct tpp_run_model_facts {
    const char *name, *family, *position, *activation, *window_pattern;
    uint64_t layers, hidden, heads, kv_heads, head_dim, ffn_hidden, vocab, sequence, sliding_window;
    enum tpp_run_answer gated, tied, bias, qk_norm;
    bool has_experts, has_latent_attention;
    uint64_t experts, experts_per_token, expert_ffn, shared_experts, shared_ffn, dense_layers, expert_period; /* moe */
    uint64_t q_lora_rank, kv_lora_rank, qk_head_dim, qk_rope_head_dim, v_head_dim;                            /* mla */
    uint64_t mtp_layers;
    bool has_dropout;
    double dropout;
};

struct tpp_run_parallel_facts {
    uint64_t tensor, pipeline, chunks, data, context, ulysses, expert, expert_tensor;
    uint64_t zero_group, fsdp_group; /* 0 = all ranks */
    enum tpp_run_answer sequence_parallel, fsdp, distributed_optimizer;
    bool has_zero_stage;
    uint64_t zero_stage;
    bool offloads;           /* anything but activations of whole layers goes to the host */
    uint64_t offloaded_layers; /* whose activations do */
    bool offloads_optimizer; /* the source says no more than "CPU offload" */
    const char *sharding;    /* llm-foundry: FULL_SHARD, SHARD_GRAD_OP */
};

struct tpp_run_facts {
    const char *id, *source, *repository, *framework, *notes, *attention, *precision, *precision_detail, *task;
    const char *schedule, *schedule_detail, *recompute, *recompute_detail, *mixed_precision_mode;
    const char *gpu, *network, *network_assumed;
    uint64_t year, num_gpus, gpus_per_node;
    uint64_t global_batch, micro_batch, num_micro_batches;
    enum tpp_run_answer flash_attention;
    struct tpp_run_model_facts model;
    struct tpp_run_parallel_facts parallel;
    bool complete, suspect, remeasured, is_published;
    uint32_t recompute_modules;       /* TPP_MODULE_* bits of a list of names; 0: none given */
    bool has_unknown_module;          /* the list names one that is no such bit */
    double step_seconds, peak_memory; /* 0 = not measured; memory in the unit of memory_unit */
    const char *memory_unit, *memory_kind;
    enum tpp_run_answer out_of_memory;
};

/* Only the identity (id, complete, suspect, remeasured) and what was measured. TPP_E_TYPE when the row is not an object
 * with an id. */
enum tpp_code tpp_run_facts_read_measured(struct tpp_json row, struct tpp_run_facts *facts, struct tpp_error *err);
/* Everything else. A value of the wrong type is an error that names its place. */
enum tpp_code tpp_run_facts_read(struct tpp_json row, struct tpp_run_facts *facts, struct tpp_error *err);

/* True when `text` contains `word`, upper or lower case. */
bool tpp_run_mentions(const char *text, const char *word);

#endif
