/* job_options.h - the options that every prediction shares, and the structs they turn into: what is trained, on which
 * cluster, by which software, and what the user pins or limits. */
#ifndef TPP_CLI_JOB_OPTIONS_H
#define TPP_CLI_JOB_OPTIONS_H

#include "cli/options.h"
#include "costmodel/base/json_write.h"
#include "costmodel/job.h"
#include "costmodel/stack.h"
#include "hwprofiles/hardware.h"
#include "planner/space.h"

struct tpp_job_arguments {
    const char *model, *cluster;
    int64_t nodes, gpus, sequence_length, global_batch_size;
    const char *precision, *task, *lora_targets, *optimizer;
    int64_t lora_rank, attention_block_length;
    uint64_t mtp_num_layers; /* 0: not given */
    double expert_imbalance, expert_capacity_factor;
    const char *expert_tokens;
    double lora_dropout, hidden_dropout, attention_dropout;
    /* Single values of the profile. */
    int64_t gpu_memory;
    double inter_node_bandwidth, intra_node_bandwidth, nic_efficiency;
    struct tpp_option_list set_hardware;
    /* The software stack; NULL = the framework's default. */
    const char *framework, *framework_version, *engine, *attention;
    const char *norm_kernel, *activation_kernel, *rope_kernel, *loss_kernel, *lm_head_output;
    const char *transformer_engine, *tp_async, *tp_stack, *gradient_type, *fp8_scaling, *fp8_param_gather;
    bool launch_blocking, cuda_graphs;
};

/* Names of enum tpp_schedule, in its order. */
#define TPP_SCHEDULE_WORDS "gpipe|1f1b|interleaved|zb-h1|zb-h2|zb-1p|zb-2p|zb-v|dualpipe|dualpipev"

struct tpp_pin_arguments {
    int64_t tensor_parallel, pipeline_parallel, virtual_pipeline_stages, context_parallel, expert_parallel,
        data_parallel;
    int64_t micro_batch_size, zero_stage, reduce_bucket_size, allgather_bucket_size, offload_layers;
    double offload_fraction;
    const char *sequence_parallel, *context_kind, *recompute, *recompute_modules, *offload, *dispatch, *expert_overlap,
        *shared_overlap, *schedule;
    int64_t max_tensor_parallel, max_pipeline_parallel, max_context_parallel, max_micro_batch_size;
    int64_t max_virtual_pipeline_stages, threads, top;
    double memory_headroom;
    bool full_space, exhaustive;
};

/* Everything a prediction needs, resolved: loaded, overridden and checked one by one (the evaluator checks them
 * together). */
struct tpp_job_inputs {
    struct tpp_model model;
    struct tpp_hardware hardware;
    struct tpp_job job;
    struct tpp_stack stack;
};

/* Parts of a command's options: `type` is the struct of arguments, `job` and `pins` its members of the types above. */
#define TPP_JOB_PARTS(type, job)                                                                                       \
    {"Job", tpp_training_options, offsetof(type, job)}, {"Cluster", tpp_cluster_options, offsetof(type, job)},         \
    {                                                                                                                  \
        "Software (defaults follow the framework)", tpp_software_options, offsetof(type, job)                          \
    }
#define TPP_PIN_PARTS(type, pins)                                                                                      \
    {"Pinned choices", tpp_pin_options, offsetof(type, pins)},                                                         \
    {                                                                                                                  \
        "Limits of the search", tpp_limit_options, offsetof(type, pins)                                                \
    }

extern const struct tpp_option tpp_training_options[];
extern const struct tpp_option tpp_cluster_options[];
extern const struct tpp_option tpp_software_options[];
extern const struct tpp_option tpp_pin_options[];
extern const struct tpp_option tpp_limit_options[];

/* DeepSpeed runs several stages by its pipeline engine, whatever was asked for (launch formats, MD-5): *inputs gets
 * that engine, with its number formats, when `pipeline_parallel` (a pin: negative when free) is above 1. */
void tpp_job_take_stages(int64_t pipeline_parallel, struct tpp_job_inputs *inputs);

/* Loads model and profile, applies the overrides, fills job and stack. */
enum tpp_code tpp_job_resolve(const struct tpp_job_arguments *arguments, struct tpp_job_inputs *inputs,
                              struct tpp_error *err);
/* Refuses what the model has nothing for: dispatch and overlap of experts, routed or shared, that are not there. */
enum tpp_code tpp_pins_check_model(const struct tpp_pin_arguments *arguments, const struct tpp_model *model,
                                   struct tpp_error *err);
enum tpp_code tpp_limits_resolve(const struct tpp_pin_arguments *arguments, struct tpp_space_limits *limits,
                                 struct tpp_error *err);

/* The "inputs" object of an answer: what the result depends on, defaults filled in. */
void tpp_job_inputs_add_json(const struct tpp_job_arguments *arguments, const struct tpp_job_inputs *inputs,
                             struct tpp_json_writer *writer, struct cJSON *parent);

#endif
