/* rules.h - what a framework refuses: its checks of parallel sizes, batch, recomputation, optimizer and model shape, by
 * the numbers of the reference (ML-1 ...: Megatron-LM, MD: Megatron-DeepSpeed, SW: ms-swift, TT: torchtitan,
 * NT: nanotron), each with the releases in which it holds.
 *
 * A settings struct says what a launch line says, whether it comes from a strategy or from a script. */
#ifndef TPP_PLANNER_RULES_RULES_H
#define TPP_PLANNER_RULES_RULES_H

#include "costmodel/job.h"
#include "costmodel/model/model.h"
#include "costmodel/stack.h"
#include "costmodel/strategy.h"
#include "planner/rules/release.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An optional number that was not given. */
#define TPP_RULE_UNSET INT64_MIN
/* Numbers outside -MAX .. MAX are refused before any rule is asked, so that no product of a rule overflows. */
#define TPP_RULE_MAX_SIZE (INT64_C(1) << 20)   /* parallel sizes, layers, heads, experts */
#define TPP_RULE_MAX_NUMBER (INT64_C(1) << 40) /* everything else */

enum tpp_rule_position { /* --position-embedding-type */
                         TPP_RULE_POSITION_LEARNED,
                         TPP_RULE_POSITION_ROPE,
                         TPP_RULE_POSITION_NONE,
                         TPP_RULE_POSITION_RELATIVE,
                         TPP_RULE_POSITION_MROPE,
                         TPP_RULE_POSITION_YARN,
};
enum tpp_rule_granularity { TPP_RULE_GRANULARITY_NONE, TPP_RULE_GRANULARITY_SELECTIVE, TPP_RULE_GRANULARITY_FULL };
enum tpp_rule_method { TPP_RULE_METHOD_NONE, TPP_RULE_METHOD_UNIFORM, TPP_RULE_METHOD_BLOCK };
enum tpp_rule_dispatcher { TPP_RULE_ALLGATHER, TPP_RULE_ALLTOALL, TPP_RULE_ALLTOALL_SEQ, TPP_RULE_FLEX };
enum tpp_rule_flex_backend { TPP_RULE_DEEPEP, TPP_RULE_HYBRIDEP, TPP_RULE_NCCLEP };
enum tpp_rule_score { TPP_RULE_SOFTMAX, TPP_RULE_SIGMOID, TPP_RULE_SQRTSOFTPLUS };
enum tpp_rule_balancing { /* --moe-router-load-balancing-type */
                          TPP_RULE_AUX_LOSS,
                          TPP_RULE_SEQ_AUX_LOSS,
                          TPP_RULE_GLOBAL_AUX_LOSS,
                          TPP_RULE_BALANCING_NONE,
                          TPP_RULE_SINKHORN,
                          TPP_RULE_QUANTILE,
};
enum tpp_rule_optimizer { TPP_RULE_ADAM, TPP_RULE_SGD, TPP_RULE_MUON, TPP_RULE_DIST_MUON, TPP_RULE_OTHER_OPTIMIZER };
enum tpp_rule_checkpoint {
    TPP_RULE_TORCH_DIST,
    TPP_RULE_TORCH,
    TPP_RULE_TORCH_DCP,
    TPP_RULE_FSDP_DTENSOR,
    TPP_RULE_ZARR
};
enum tpp_rule_fp8 { TPP_RULE_FP8_NONE, TPP_RULE_FP8_E4M3, TPP_RULE_FP8_HYBRID };
enum tpp_rule_fp8_recipe {
    TPP_RULE_FP8_DELAYED,
    TPP_RULE_FP8_TENSORWISE,
    TPP_RULE_FP8_MXFP8,
    TPP_RULE_FP8_BLOCKWISE,
    TPP_RULE_FP8_CUSTOM,
};
enum tpp_rule_cuda_graph {
    TPP_RULE_GRAPH_NONE,
    TPP_RULE_GRAPH_LOCAL,
    TPP_RULE_GRAPH_TE,
    TPP_RULE_GRAPH_FULL_ITERATION
};
enum { /* bits of context_types */
       TPP_RULE_CONTEXT_P2P = 1,
       TPP_RULE_CONTEXT_ALL_GATHER = 2,
       TPP_RULE_CONTEXT_A2A = 4,
       TPP_RULE_CONTEXT_A2A_P2P = 8,
       TPP_RULE_CONTEXT_UNKNOWN = 16,
};
enum { /* bits of recompute_modules */
       TPP_RULE_MODULE_CORE_ATTN = TPP_MODULE_CORE_ATTENTION,
       TPP_RULE_MODULE_MOE_ACT = TPP_MODULE_EXPERT_ACTIVATION,
       TPP_RULE_MODULE_LAYERNORM = TPP_MODULE_LAYER_NORM,
       TPP_RULE_MODULE_MLA_UP_PROJ = TPP_MODULE_LATENT_UP,
       TPP_RULE_MODULE_MLP = TPP_MODULE_MLP,
       TPP_RULE_MODULE_MOE = TPP_MODULE_MOE,
       TPP_RULE_MODULE_SHARED_EXPERTS = TPP_MODULE_SHARED_EXPERTS,
       TPP_RULE_MODULE_OTHER_ARCHITECTURE = 128, /* gdn_norm_out, mhc, ...: accepted, not for transformers */
       TPP_RULE_MODULE_UNKNOWN = 256,
};

struct tpp_rule_settings {
    enum tpp_framework framework;
    bool is_checked; /* every number is known to be in range; set by tpp_rule_settings_for_strategy alone */
    int64_t world_size;

    /* Parallel sizes and pipeline. */
    int64_t tensor_parallel, pipeline_parallel, context_parallel, expert_parallel;
    int64_t expert_tensor_parallel;                /* UNSET = tensor_parallel */
    int64_t layers_per_virtual_stage;              /* UNSET */
    int64_t virtual_stages_per_rank;               /* UNSET */
    int64_t first_stage_layers, last_stage_layers; /* UNSET */
    int64_t microbatch_group_size;                 /* UNSET = pipeline_parallel */
    const char *pipeline_layout;                   /* borrowed; NULL = none */
    bool account_for_embedding, account_for_loss;
    bool overlap_p2p, overlap_p2p_warmup_flush;
    bool defer_embedding_wgrad;
    int64_t wgrad_deferral_limit;
    bool sequence_parallel;
    bool pipeline_before_data; /* --use-tp-pp-dp-mapping */
    unsigned context_types;    /* bits above */
    int64_t num_context_types;
    int64_t hierarchical_product;                       /* of the given sizes; UNSET */
    int64_t hierarchical_first;                         /* the first of them: ranks of the all-to-all */
    int64_t tensor_weight_shards, expert_weight_shards; /* UNSET */
    bool tp_comm_overlap;

    /* Batch and length of training. */
    int64_t micro_batch_size;
    int64_t global_batch_size;                             /* UNSET = micro_batch_size * data parallel */
    int64_t eval_global_batch_size, eval_micro_batch_size; /* UNSET */
    bool decrease_batch_size;
    int64_t rampup_start, rampup_increment; /* UNSET = no ramp-up */
    bool step_batch_size_schedule;
    bool has_train_iters, has_train_samples, has_lr_decay_iters, has_lr_decay_samples;
    bool has_lr_warmup_iters, has_lr_warmup_samples, has_lr_warmup_fraction;
    int64_t num_data_sources;
    double lr, min_lr; /* 0 = not given */
    bool packs_sequences; /* fine-tuning on packed sequences, as Megatron-Bridge and ms-swift do */
    bool has_save, has_save_interval;

    /* Model. */
    int64_t num_layers, hidden_size, num_attention_heads;
    int64_t ffn_hidden_size; /* UNSET = the framework's default */
    int64_t kv_channels;     /* UNSET = hidden_size / num_attention_heads */
    bool group_query_attention;
    int64_t num_query_groups;
    int64_t sequence_length, max_position_embeddings;
    bool swiglu, squared_relu, quick_geglu;
    bool linear_bias; /* no --disable-bias-linear */
    bool untied_embeddings;
    enum tpp_rule_position position;
    bool rms_norm;
    bool local_transformer; /* --transformer-impl local */
    bool multi_latent_attention;
    bool rope_fusion;
    int64_t mtp_num_layers; /* UNSET */

    /* Mixture of experts. */
    int64_t num_experts; /* UNSET = dense */
    int64_t experts_per_token;
    int64_t moe_ffn_hidden_size;       /* UNSET = ffn_hidden_size */
    int64_t shared_expert_hidden_size; /* UNSET */
    int64_t layer_pattern_length;      /* of --moe-layer-freq as a list; UNSET = not a list */
    bool has_dense_layers;             /* a list with a zero, or every n-th layer with n > 1 */
    bool grouped_gemm, shared_expert_overlap, router_pre_softmax, router_expert_bias, pad_to_capacity, enable_deepep;
    bool has_capacity_factor;
    enum tpp_rule_dispatcher dispatcher;
    enum tpp_rule_flex_backend flex_backend;
    enum tpp_rule_score score_function;
    enum tpp_rule_balancing load_balancing;
    int64_t router_num_groups, router_group_topk; /* UNSET */
    bool overlap_expert_comm, delay_wgrad;
    bool bias_dropout_fusion;

    /* Precision, recomputation, offload. */
    bool bf16, fp16;
    enum tpp_rule_fp8 fp8;
    enum tpp_rule_fp8_recipe fp8_recipe;
    bool fp8_param_gather, first_last_layers_bf16, fp4;
    enum tpp_rule_granularity recompute;
    enum tpp_rule_method recompute_method;
    int64_t recompute_num_layers; /* UNSET */
    unsigned recompute_modules;   /* bits above; 0 = not given */
    bool distribute_saved_activations;
    int64_t cpu_offload_layers;
    enum tpp_rule_cuda_graph cuda_graph;
    bool cross_entropy_fusion_te; /* fusion on, with implementation te */

    /* Optimizer and data parallelism. */
    bool distributed_optimizer, overlap_grad_reduce, overlap_param_gather, overlap_param_gather_with_step;
    bool align_grad_reduce; /* Megatron: true unless switched off */
    bool precision_aware_optimizer, narrow_state; /* any of the main-grads, main-params, exp-avg types not fp32 */
    bool optimizer_cpu_offload;
    double optimizer_offload_fraction; /* of the states, with the switch above */
    bool torch_fsdp2, megatron_fsdp;
    bool partial_fsdp; /* a plan: Megatron's FSDP with less than all sharded, weights kept, or transfers that do not overlap */
    bool keeps_gathered_weights; /* of FSDP2, until backward: --torch-fsdp2-no-reshard-after-forward */
    bool gradient_accumulation_fusion;
    bool async_tensor_all_reduce; /* no --no-async-tensor-model-parallel-allreduce (until 0.16) */
    bool mcore_models;            /* --use-mcore-models; without meaning since 0.8 */
    enum tpp_rule_optimizer optimizer;
    enum tpp_rule_checkpoint checkpoint_format;
    int64_t optimizer_instances;
    int64_t ddp_bucket_size, ddp_num_buckets; /* UNSET */
    int64_t allgather_bucket_size;            /* of gathers alone, elements; UNSET = the framework's default */
    int64_t shard_group;                      /* ranks that share one copy of the sharded states; UNSET = all */
    int64_t zero_stage;                       /* DeepSpeed and nanotron; torchtitan: 3 */

    /* DeepSpeed, torchtitan, nanotron: */
    bool sums_in_fp32;          /* a plan: 16-bit training under ZeRO whose gradients are asked to be summed in fp32 */
    bool pipeline_engine;       /* DeepSpeed's, in use for any pipeline_parallel */
    bool no_parallelism_config; /* accelerate before 1.10 has none: no tensor or context parallelism, no replicas */
    int64_t fsdp_version;       /* 1 or 2 under Hugging Face's Trainer; 0: another engine */
    bool engine_follows_stages; /* a plan: the pipeline engine when there are stages, else --no-pipeline-parallel */
    int64_t data_parallel;      /* as written; UNSET = what is left of the world */

    /* Where it runs. */
    int64_t cuda_device_max_connections; /* UNSET = not set */
    double compute_capability;
};

/* The release whose rules a plan is judged by: the stack's under Megatron-LM, where it names one; else the newest.
 * Other frameworks have numbers of their own, which say nothing about Megatron Core. */
enum tpp_release tpp_rules_release(const struct tpp_stack *stack);

/* What a launch line of `framework` means that gives nothing: sizes 1, everything off, the framework's own defaults, no
 * model, compute capability 9.0. */
struct tpp_rule_settings tpp_rule_settings_defaults(enum tpp_framework framework);

/* The settings of a plan as tpp-plan writes them. `model`, `job` and `stack` fix everything that a search does not
 * vary; `compute_capability` is the GPU's. */
void tpp_rule_settings_for_job(const struct tpp_model *model, const struct tpp_job *job, const struct tpp_stack *stack,
                               double compute_capability, struct tpp_rule_settings *settings);
/* Sets the rest from one strategy; cheap, once a candidate, on the result of tpp_rule_settings_for_job. */
void tpp_rule_settings_for_strategy(const struct tpp_strategy *strategy, enum tpp_release release,
                                    struct tpp_rule_settings *settings);

/* Which part of the framework stops the program; for Megatron-LM the "where" of the reference. */
enum tpp_rule_stage {
    TPP_RULE_AT_ARGUMENTS, /* argument validation and configuration, groups, batch calculator, schedule */
    TPP_RULE_AT_BUILD,     /* when the layers are made */
    TPP_RULE_AT_RUN,       /* in the first forward pass */
    TPP_RULE_AT_KERNEL,    /* inside Transformer Engine: read from its code, not tried */
    TPP_RULE_SILENT,       /* nothing stops: the program trains something else than was asked */
};

struct tpp_violation {
    const char *code; /* "ML-4"; static */
    enum tpp_rule_stage stage;
    char message[240]; /* the rule and the values found */
    const char *hint;  /* what to change; static */
    /* Names of the values that the rule reads, separated by spaces, the one to change first; static. */
    const char *values;
};

/* True when the framework runs these settings. Allocates nothing. Frameworks without rules of their own accept
 * everything. `release` is looked at for frameworks on Megatron Core only. */
bool tpp_rules_accept(const struct tpp_rule_settings *settings, enum tpp_release release);
/* The broken rules in the order of the tables; returns how many there are and writes the first `max`. */
size_t tpp_rules_violations(const struct tpp_rule_settings *settings, enum tpp_release release,
                            struct tpp_violation *out, size_t max);

#endif
