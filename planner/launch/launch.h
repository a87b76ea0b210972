/* launch.h - writes the launch of a plan for its framework: a script, and the configuration files that it reads.
 *
 * What only the user knows (data, tokenizer, paths, number of steps, learning rate) is left as variables of the script
 * that stop it with a message when they are not set. Every text from outside is quoted: nothing in a name is ever
 * executed. What a framework cannot say, or refuses, is an error with the reason and never a wrong script. */
#ifndef TPP_PLANNER_LAUNCH_LAUNCH_H
#define TPP_PLANNER_LAUNCH_LAUNCH_H

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "costmodel/job.h"
#include "costmodel/model/model.h"
#include "costmodel/stack.h"
#include "costmodel/strategy.h"
#include "hwprofiles/hardware.h"
#include "planner/rules/release.h"

#include <stdbool.h>
#include <stdint.h>

/* A setting of the environment that the plan counts on. */
struct tpp_launch_variable {
    const char *name;   /* of letters, digits and '_' */
    const char *value;  /* quoted when it is written */
    const char *reason; /* the comment above it; NULL: none */
};

struct tpp_launch_request { /* all borrowed */
    const struct tpp_model *model;
    const struct tpp_hardware *hardware;
    const struct tpp_job *job;
    const struct tpp_stack *stack;       /* its framework is the one written for */
    const struct tpp_strategy *strategy; /* filled by tpp_strategy_complete */
    enum tpp_release release;
    uint32_t num_nodes, gpus_per_node; /* their product is job->num_gpus */
    bool slurm;                        /* a file for sbatch instead of a script for each node */
    const char *job_name;              /* NULL = the model's name */
    const char *tool_version;          /* of tp-plan, for the header; may be NULL */
    const char *note;                  /* one line for the header (predicted step time); may be NULL */
    /* Set in every script, instead of a default of the same name (PYTORCH_CUDA_ALLOC_CONF). */
    const struct tpp_launch_variable *variables;
    size_t num_variables;
    bool debug; /* adds what finds faults and slows training down, with a warning */
};

/* A configuration file that stands beside the script. */
struct tpp_launch_file {
    const char *name; /* static, without a folder: "ds_config.json" */
    struct tpp_text content;
};

#define TPP_LAUNCH_MAX_FILES 4

struct tpp_launch_output {
    struct tpp_text script;
    struct tpp_launch_file files[TPP_LAUNCH_MAX_FILES];
    size_t num_files;
};

/* Fills *launch; the script looks for its files in its own folder (under Slurm: the folder of sbatch), or in
 * $CONFIG_DIR when that is set. The caller releases *launch, also after a failure. Fails as tpp_launch_emit does. */
enum tpp_code tpp_launch_write(const struct tpp_launch_request *request, struct tpp_launch_output *launch,
                               struct tpp_error *err);
void tpp_launch_output_release(struct tpp_launch_output *launch);

/* Appends one script that writes its configuration files by itself. TPP_E_NOT_BUILT: no script is written for this
 * framework, the hint names those that have one. TPP_E_UNSUPPORTED: the framework, or this release, has no way to say
 * it; TPP_E_NOT_BUILT: it has, and these scripts do not. TPP_E_STRATEGY: it would refuse it, `where` is the rule's
 * number. TPP_E_USAGE: nodes and GPUs that do not make the job. On failure *out is as it was. */
enum tpp_code tpp_launch_emit(const struct tpp_launch_request *request, struct tpp_text *out, struct tpp_error *err);

/* What no plan of the job could change: TPP_E_NOT_BUILT and TPP_E_UNSUPPORTED as above, when the framework, or this
 * release, cannot train this model in this precision and task; `where` begins with "model", "job", "stack" or
 * "release". Of the request its model, job, stack, hardware and release are looked at. */
enum tpp_code tpp_launch_check_job(const struct tpp_launch_request *request, struct tpp_error *err);

/* True when tpp_launch_emit would write a script; else *err (may be NULL) says why not. */
bool tpp_launch_can_express(const struct tpp_launch_request *request, struct tpp_error *err);

/* Name of the index-th framework that scripts are written for, as tpp_framework_name says it; NULL behind the last. */
const char *tpp_launch_framework_at(size_t index);

#endif
