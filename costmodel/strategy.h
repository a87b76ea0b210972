/* strategy.h - one way to split a job over the GPUs: what the search enumerates, what `--strategy` names. */
#ifndef TPP_COSTMODEL_STRATEGY_H
#define TPP_COSTMODEL_STRATEGY_H

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "costmodel/job.h"
#include "costmodel/model/model.h"
#include "costmodel/stack.h"

#include <stdbool.h>
#include <stdint.h>

enum tpp_recompute { TPP_RECOMPUTE_NONE, TPP_RECOMPUTE_SELECTIVE, TPP_RECOMPUTE_FULL };
/* What selective recomputation runs again, bits of recompute_modules: Megatron-Core's --recompute-modules. */
enum {
    TPP_MODULE_CORE_ATTENTION = 1,
    TPP_MODULE_EXPERT_ACTIVATION = 2, /* moe_act */
    TPP_MODULE_LAYER_NORM = 4,
    TPP_MODULE_LATENT_UP = 8,         /* mla_up_proj: up-projections, rotary embedding, the copies of q, k and v */
    TPP_MODULE_MLP = 16,              /* of dense layers */
    TPP_MODULE_MOE = 32,              /* all from router to combine, its transfers too */
    TPP_MODULE_SHARED_EXPERTS = 64,
    TPP_MODULE_ALL = 127,
    TPP_MODULE_WHOLE_LAYER = 128, /* of no list: full recomputation of a multi-token-prediction block */
    TPP_MODULE_UNSAVED = 256,     /* of no list: what torchtitan's selective policy does not save (4.2 E) */
};
enum tpp_recompute_method { TPP_RECOMPUTE_UNIFORM, TPP_RECOMPUTE_BLOCK };
/* Pipeline schedules (cost-model 8.1, costmodel/schedules/schedule.h). */
enum tpp_schedule {
    TPP_SCHEDULE_GPIPE,
    TPP_SCHEDULE_1F1B,
    TPP_SCHEDULE_INTERLEAVED,
    TPP_SCHEDULE_ZB_H1,
    TPP_SCHEDULE_ZB_H2,
    TPP_SCHEDULE_ZB_1P,
    TPP_SCHEDULE_ZB_2P,
    TPP_SCHEDULE_ZB_V,
    TPP_SCHEDULE_DUALPIPE,
    TPP_SCHEDULE_DUALPIPEV,
    TPP_SCHEDULE_COUNT,
};
enum tpp_context_kind { TPP_CONTEXT_RING, TPP_CONTEXT_ALL_GATHER, TPP_CONTEXT_ULYSSES, TPP_CONTEXT_HYBRID };
/* How tokens reach their experts. ALL_TO_ALL sends every copy of a token by itself (NCCL). DEEPEP and HYBRIDEP send a token
 * once to each node that has one of its experts and forward it over NVLink, once to each rank there. */
/* How tokens reach experts on other ranks: each copy to its expert; each token once to a rank, or to a node and on from there;
 * ALL_GATHER, Megatron's default without --moe-token-dispatcher-type: all tokens of the group to every rank, which picks those of
 * its experts and adds its results into all, reduced and scattered back (MoEAllGatherTokenDispatcher). */
enum tpp_dispatch { TPP_DISPATCH_ALL_TO_ALL, TPP_DISPATCH_DEEPEP, TPP_DISPATCH_HYBRIDEP, TPP_DISPATCH_ALL_GATHER };
enum tpp_offload { TPP_OFFLOAD_NONE, TPP_OFFLOAD_OPTIMIZER };
/* Embedding and output head cut by vocabulary over the stages of a pipeline too, so that every stage does its share of them
 * (Yeung, Qi, Lin, Wan 2025, "Balancing Pipeline Parallelism with Vocabulary Parallelism", arXiv 2411.05288). Beside F and
 * B a stage then runs S (its logits and local softmax) and T (weight gradients) of every micro-batch. ONE_BARRIER, the
 * paper's Vocab-2, has the input gradient in S, scaled after the one reduction; TWO_BARRIERS, its Vocab-1, in T, between
 * two. INTERLACED (Lin et al. 2024) runs the shared head like tensor parallelism: nothing overlaps. */
enum tpp_vocabulary_parallel {
    TPP_VOCABULARY_PARALLEL_NONE,
    TPP_VOCABULARY_PARALLEL_ONE_BARRIER,
    TPP_VOCABULARY_PARALLEL_TWO_BARRIERS,
    TPP_VOCABULARY_PARALLEL_INTERLACED,
};

#define TPP_MAX_PIPELINE_PARALLEL 512
#define TPP_MAX_CHUNKS 4096 /* pipeline_parallel * virtual_pipeline_stages */

struct tpp_strategy {
    uint32_t tensor_parallel;         /* t */
    uint32_t pipeline_parallel;       /* p */
    uint32_t virtual_pipeline_stages; /* v: model chunks a rank, 1 = not interleaved */
    uint32_t context_parallel;        /* c */
    uint32_t expert_parallel;         /* e */
    uint32_t expert_tensor_parallel;  /* et */
    uint32_t data_parallel;           /* dp = N / (t p c) */
    uint32_t micro_batch_size;        /* b, sequences */
    uint64_t num_micro_batches;       /* m a pipeline and step = GBS / (dp b) */
    bool sequence_parallel;
    enum tpp_context_kind context_kind;
    uint32_t ulysses_parallel;        /* u of HYBRID: ranks of the all-to-all inside the ring; 0 otherwise */
    uint32_t zero_stage;              /* 0 .. 3; Megatron distributed optimizer = 1; FSDP = 3 */
    uint32_t shard_group;             /* ranks a replica is sharded over (HSDP, zero groups); 0 = all of dp*c */
    bool reshard_after_forward;       /* ZeRO-3 / FSDP: weights are gathered again for backward */
    enum tpp_recompute recompute;
    uint32_t recompute_modules;       /* SELECTIVE: TPP_MODULE_* bits; 0 = the attention core */
    enum tpp_recompute_method recompute_method;
    uint32_t recompute_num_layers;    /* BLOCK: layers of a stage that are recomputed; UNIFORM: layers a unit; 0 = all / 1 */
    enum tpp_schedule schedule;
    uint32_t microbatch_group_size;   /* INTERLEAVED: micro-batches a chunk takes in turn (Megatron-Core 0.10's
                                         --microbatch-group-size-per-virtual-pipeline-stage), p to m; 0 = p */
    uint32_t first_stage_layers, last_stage_layers; /* 0 = not given */
    bool account_for_embedding, account_for_loss;
    uint32_t last_chunk_less;         /* layers that the last chunk holds less than the others, for the loss and MTP blocks
                                         (Megatron's explicit layouts); not together with account_for_loss */
    bool balanced_split;              /* layers need not divide: the first L mod p stages hold one more (DeepSpeed engine) */
    uint64_t reduce_bucket_size;      /* elements; 0 = the framework's default */
    uint64_t allgather_bucket_size;   /* elements; 0 = the framework's default */
    bool overlap_grad_reduce, overlap_param_gather;
    bool align_grad_reduce;           /* Megatron with a pipeline: all stages start a chunk's reductions at the same virtual step,
                                         not bucket by bucket (simulator/build_gradient.c); read while reductions overlap */
    bool tp_comm_overlap;             /* user-buffer / async tensor-parallel overlap, rho of section 7 */
    enum tpp_dispatch dispatch;       /* models with experts */
    bool expert_overlap;              /* dispatch and combine of one micro-batch run beside the compute of another (Megatron's
                                         --overlap-moe-expert-parallel-comm); dualpipe and dualpipev do so in their pairs
                                         of passes, whatever is set here */
    bool shared_overlap;              /* shared experts run on a stream of their own beside dispatch and combine (Megatron's
                                         --moe-shared-expert-overlap) */
    enum tpp_offload offload;
    uint32_t offload_percent;         /* OPTIMIZER: of the states of every rank that live on the host, 1 to 100; 0 = 100
                                         (Megatron's --optimizer-offload-fraction) */
    uint32_t offload_layers;          /* first layers whose activations wait for backward in host memory, one stage only
                                         (Transformer Engine's CPU offload, Megatron's --cpu-offloading-num-layers); 0 = none */
    enum tpp_vocabulary_parallel vocabulary_parallel; /* 1F1B with untied embeddings */
    /* Ranks of a tensor-parallel group in one node when a placement other than rank order is given (`--placement`, field
     * note A4); 0 = rank order decides. */
    uint32_t placed_tensor_ranks_per_node;
    uint32_t placed_context_ranks_per_node;
};

/* All sizes 1, micro-batch 1, 1F1B, ZeRO 0, no recompute, reshard, overlap and alignment on. data_parallel and num_micro_batches are
 * 0: they follow from the job (tpp_strategy_complete). */
struct tpp_strategy tpp_strategy_defaults(void);
/* Share of the optimizer's states that is on the host, 0 to 1. */
double tpp_strategy_offload_fraction(const struct tpp_strategy *strategy);
/* N of the interleaved schedule: microbatch_group_size, p when it is 0; no more than there are micro-batches. */
uint32_t tpp_strategy_group_size(const struct tpp_strategy *strategy);

/* Fills what follows from the rest: data_parallel (when 0), num_micro_batches (when 0), schedule interleaved when v > 1.
 * TPP_E_STRATEGY when it does not divide. */
enum tpp_code tpp_strategy_complete(struct tpp_strategy *strategy, const struct tpp_job *job, struct tpp_error *err);

/* Cost-model 1.1: what cannot be run by any framework. `where` is "strategy.<field>". */
enum tpp_code tpp_strategy_check(const struct tpp_strategy *strategy, const struct tpp_model *model,
                                 const struct tpp_job *job, const struct tpp_stack *stack, struct tpp_error *err);

/* "tp=4,pp=2,vp=1,dp=4,cp=1,ep=1,mbs=2,zero=1,recompute=selective,sp=1,...". Keys: tp pp vp dp cp ep etp mbs gas (number of
 * micro-batches) zero sp cp_kind (ring|all-gather|ulysses|hybrid) ulysses recompute (none|selective|full)
 * recompute_modules (core_attn+moe_act+layernorm+mla_up_proj+mlp+moe+shared_experts) dispatch (all-to-all|deepep|hybridep|all-gather) ep_overlap
 * shared_overlap
 * recompute_method (uniform|block) recompute_layers schedule (tpp_schedule_name) vp_group first_layers last_layers
 * account_embedding account_loss last_chunk_less shard reduce_bucket allgather_bucket overlap_grad_reduce overlap_param_gather
 * align_grad_reduce tp_overlap offload (none|optimizer) offload_percent offload_layers vocab_parallel
 * (none|one-barrier|two-barriers|interlaced) reshard balanced_split placed_tp placed_cp. Unknown or doubled keys and bad values are TPP_E_USAGE with the nearest key as a hint.
 * Starts from tpp_strategy_defaults; `recompute=full:12` is short for block recomputation of 12 layers. */
enum tpp_code tpp_strategy_parse(const char *text, struct tpp_strategy *strategy, struct tpp_error *err);
/* The inverse: every field that differs from the default plus the sizes, in one fixed order; reads back equal. */
void tpp_strategy_format(const struct tpp_strategy *strategy, struct tpp_text *out);
/* Total order by the fields in order, for ties. */
int tpp_strategy_compare(const struct tpp_strategy *a, const struct tpp_strategy *b);

/* Decoder layers on chunk `chunk` (0 .. v-1) of stage `stage` (0 .. p-1), cost-model 2.6 [exact]. */
uint32_t tpp_strategy_chunk_layers(const struct tpp_strategy *strategy, uint32_t num_layers, uint32_t stage,
                                   uint32_t chunk);

const char *tpp_recompute_name(enum tpp_recompute recompute);          /* "none", "selective", "full" */
const char *tpp_schedule_name(enum tpp_schedule schedule);             /* "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipev" ... */
/* Two chunks a stage that go there and back: the first stage holds the embedding and the head (zb-v, dualpipev). */
bool tpp_schedule_is_v_shaped(enum tpp_schedule schedule);
/* Forward passes run together with backward passes of other micro-batches and hide what these wait for (dualpipe, dualpipev). */
bool tpp_schedule_pairs_passes(enum tpp_schedule schedule);
/* Copies of the model that the stages of a pipeline hold: 2 with dualpipe, where stage r also holds the layers of stage p-1-r
 * and every layer sees half of the micro-batches; else 1. */
uint32_t tpp_schedule_model_copies(enum tpp_schedule schedule);
const char *tpp_dispatch_name(enum tpp_dispatch dispatch);             /* "all-to-all", "deepep", "hybridep", "all-gather" */
/* Name of one TPP_MODULE_* bit: "core_attn", "moe_act", ...; NULL when it is none. */
const char *tpp_recompute_module_name(uint32_t bit);
bool tpp_recompute_module_parse(const char *text, uint32_t *bit);
/* Bits of names with + between, each once: "moe_act+layernorm". False when a name is unknown, doubled or missing. */
bool tpp_recompute_modules_parse(const char *text, uint32_t *bits);
const char *tpp_vocabulary_parallel_name(enum tpp_vocabulary_parallel kind); /* "none", "one-barrier", ... */
/* Stages that embedding and head are cut over: p, or 1 without vocabulary parallelism. */
uint32_t tpp_strategy_vocabulary_shards(const struct tpp_strategy *strategy);
const char *tpp_context_kind_name(enum tpp_context_kind kind);         /* "ring", "all-gather", "ulysses", "hybrid" */

#endif
