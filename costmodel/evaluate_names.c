/* Names of the leaves of the time and memory trees, and of the groups they are shown under. */
#include "costmodel/evaluate.h"

struct leaf {
    const char *name, *group;
};

static const struct leaf time_leaves[TPP_TIME_TERM_COUNT] = {
    [TPP_TIME_GEMM] = {"gemm", "compute"},
    [TPP_TIME_ATTENTION] = {"attention", "compute"},
    [TPP_TIME_MEMORY_BOUND] = {"memory_bound", "compute"},
    [TPP_TIME_EMBEDDING_HEAD] = {"embedding_and_head", "compute"},
    [TPP_TIME_RECOMPUTE] = {"recompute", "compute"},
    [TPP_TIME_HOST] = {"host_launch", "compute"},
    [TPP_TIME_TENSOR_COMM] = {"tensor_parallel", "communication"},
    [TPP_TIME_CONTEXT_COMM] = {"context_parallel", "communication"},
    [TPP_TIME_EXPERT_COMM] = {"expert_parallel", "communication"},
    [TPP_TIME_SHARD_COMM] = {"parameter_sharding", "communication"},
    [TPP_TIME_GRADIENT_COMM] = {"gradients_and_parameters", "communication"},
    [TPP_TIME_BUBBLE] = {"bubble", "pipeline"},
    [TPP_TIME_PIPELINE_COMM] = {"send_recv", "pipeline"},
    [TPP_TIME_OPTIMIZER] = {"optimizer", "step"},
    [TPP_TIME_OFFLOAD] = {"offload", "step"},
    [TPP_TIME_FIXED] = {"fixed", "step"},
};

static const struct leaf memory_leaves[TPP_MEMORY_TERM_COUNT] = {
    [TPP_MEMORY_WEIGHTS] = {"weights", "static"},
    [TPP_MEMORY_GRADIENTS] = {"gradients", "static"},
    [TPP_MEMORY_OPTIMIZER] = {"optimizer_states", "static"},
    [TPP_MEMORY_ACTIVATIONS] = {"activations", "activations"},
    [TPP_MEMORY_RECOMPUTE_LAYER] = {"recomputed_layer", "activations"},
    [TPP_MEMORY_BACKWARD] = {"backward_transients", "transients"},
    [TPP_MEMORY_LOGITS] = {"logits_and_loss", "transients"},
    [TPP_MEMORY_DUMMY_WGRAD] = {"dummy_weight_gradients", "transients"},
    [TPP_MEMORY_GATHERED] = {"gathered_parameters", "transients"},
    [TPP_MEMORY_BUCKETS] = {"communication_buckets", "transients"},
    [TPP_MEMORY_WORKSPACES] = {"library_workspaces", "transients"},
    [TPP_MEMORY_OPTIMIZER_STEP] = {"optimizer_temporaries", "transients"},
    [TPP_MEMORY_RESERVE] = {"fragmentation", "outside"},
    [TPP_MEMORY_CONTEXT] = {"cuda_context", "outside"},
    [TPP_MEMORY_COMMUNICATORS] = {"nccl_communicators", "outside"},
};

const char *tpp_time_term_name(enum tpp_time_term term)
{
    return time_leaves[term].name;
}

const char *tpp_time_term_group(enum tpp_time_term term)
{
    return time_leaves[term].group;
}

const char *tpp_memory_term_name(enum tpp_memory_term term)
{
    return memory_leaves[term].name;
}

const char *tpp_memory_term_group(enum tpp_memory_term term)
{
    return memory_leaves[term].group;
}

const char *tpp_fit_name(enum tpp_fit fit)
{
    static const char *const names[] = {"fits", "tight", "does not fit"};
    return names[fit];
}
