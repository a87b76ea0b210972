/* launch_case.h - a model, cluster, job and plan to write launch scripts of. */
#ifndef TPP_TESTS_SUPPORT_LAUNCH_CASE_H
#define TPP_TESTS_SUPPORT_LAUNCH_CASE_H

#include "planner/launch/launch.h"

#include <stdio.h>
#include <string.h>

struct launch_case {
    struct tpp_model model;
    struct tpp_hardware hardware;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_strategy strategy;
    struct tpp_launch_request request;
};

/* What every script needs to start. */
static const char *const launch_environment[] = {"MEGATRON_PATH=/opt/megatron",
                                                 "DATA_PATH=0.3 /data/a 0.7 /data/b",
                                                 "TOKENIZER_MODEL=/data/tokenizer",
                                                 "CHECKPOINT_PATH=/checkpoints",
                                                 "TRAIN_ITERS=1000",
                                                 "LR=3e-4",
                                                 "MASTER_ADDR=host0",
                                                 "NODE_RANK=1",
                                                 "SLURM_NNODES=8",
                                                 "SLURM_JOB_NODELIST=host[0-7]",
                                                 "MODEL=/models/a b$(touch trace)`touch trace`\n\"'--model é",
                                                 "DATASET=; touch trace #",
                                                 "OUTPUT_DIR=/out",
                                                 "PRETRAINED_PATH=/pretrained",
                                                 "MAX_STEPS=1000",
                                                 "TRAIN_SCRIPT=sft.py",
                                                 "BRIDGE_PATH=/opt/bridge $(touch trace)",
                                                 NULL};

/* Llama 3 8B (Grattafiori et al. 2024, table 3) on 8 nodes of 8 H100, sequences of 8192, global batch 512, tp 4 * pp 4,
 * two chunks a rank. The request points into the case: do not copy it. */
static inline void launch_case_init(struct launch_case *c)
{
    memset(c, 0, sizeof *c);
    c->model = (struct tpp_model){.name = "llama-3-8b",
                                  .num_layers = 32,
                                  .hidden_size = 4096,
                                  .num_attention_heads = 32,
                                  .num_query_groups = 8,
                                  .head_dim = 128,
                                  .ffn_hidden_size = 14336,
                                  .gated_mlp = true,
                                  .vocab_size = 128256,
                                  .max_position_embeddings = 8192,
                                  .position = TPP_POSITION_ROPE,
                                  .rope_theta = 500000,
                                  .rotary_fraction = 1,
                                  .norm = TPP_NORM_RMS,
                                  .norm_epsilon = 1e-5,
                                  .activation = TPP_ACTIVATION_SILU,
                                  .norms_per_layer = 2,
                                  .final_norm = true};
    snprintf(c->hardware.name, sizeof c->hardware.name, "dgx-h100");
    c->hardware.gpu.compute_capability = 9.0;
    c->job = tpp_job_defaults();
    c->job.num_gpus = 64;
    c->job.sequence_length = 8192;
    c->job.global_batch_size = 512;
    c->stack = (struct tpp_stack){.framework = TPP_FRAMEWORK_MEGATRON_LM,
                                  .engine = TPP_ENGINE_MEGATRON,
                                  .attention = TPP_ATTENTION_FLASH3,
                                  .transformer_engine = true,
                                  .overlap_p2p = true,
                                  .gradient_bytes = 4,
                                  .vocabulary_multiple = 128};
    c->strategy = tpp_strategy_defaults();
    c->strategy.tensor_parallel = 4;
    c->strategy.pipeline_parallel = 4;
    c->strategy.virtual_pipeline_stages = 2;
    c->strategy.data_parallel = 4;
    c->strategy.num_micro_batches = 128; /* 512 / 4 */
    c->strategy.schedule = TPP_SCHEDULE_INTERLEAVED;
    c->strategy.sequence_parallel = true;
    c->strategy.zero_stage = 1;
    c->request = (struct tpp_launch_request){.model = &c->model,
                                             .hardware = &c->hardware,
                                             .job = &c->job,
                                             .stack = &c->stack,
                                             .strategy = &c->strategy,
                                             .release = TPP_RELEASE_NEWEST,
                                             .num_nodes = 8,
                                             .gpus_per_node = 8};
}

#endif
