/* script.c - see script.h. */
#include "planner/launch/script.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tpp_script_comment(struct tpp_script *script, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    for (char *c = line; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    }
    tpp_text_format(script->out, "# %s\n", line);
}

void tpp_script_array_begin(struct tpp_script *script, const char *name)
{
    tpp_text_format(script->out, "%s=(\n", name);
}

void tpp_script_array_end(struct tpp_script *script)
{
    tpp_text_append(script->out, ")\n");
}

static void refuse(struct tpp_script *script, const char *name, const char *value)
{
    if (script->refused_option != NULL)
        return;
    script->refused_option = name;
    snprintf(script->refused_value, sizeof script->refused_value, "%s", value);
}

static void check(struct tpp_script *script, const char *name, const char *value)
{
    if (script->find_option == NULL)
        return;
    const struct tpp_launch_option *option = script->find_option(name);
    if (option == NULL || !tpp_launch_option_in(option, script->release))
        refuse(script, name, "");
    else if (value != NULL && !tpp_launch_option_allows(option, script->release, value))
        refuse(script, name, value);
}

/* "--name value", or "key=value" of a configuration. */
static char separator_of(const char *name)
{
    return *name == '-' ? ' ' : '=';
}

void tpp_script_flag(struct tpp_script *script, const char *name)
{
    check(script, name, NULL);
    tpp_text_format(script->out, "    %s\n", name);
}

void tpp_script_flag_if(struct tpp_script *script, bool is_on, const char *name)
{
    if (is_on)
        tpp_script_flag(script, name);
}

void tpp_script_integer(struct tpp_script *script, const char *name, int64_t value)
{
    check(script, name, NULL);
    tpp_text_format(script->out, "    %s%c%" PRId64 "\n", name, separator_of(name), value);
}

void tpp_script_number(struct tpp_script *script, const char *name, double value)
{
    char number[32];
    check(script, name, NULL);
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(number, sizeof number, "%.*g", digits, value);
        if (strtod(number, NULL) == value)
            break;
    }
    tpp_text_format(script->out, "    %s%c%s\n", name, separator_of(name), number);
}

void tpp_script_word(struct tpp_script *script, const char *name, const char *value)
{
    check(script, name, value);
    tpp_text_format(script->out, "    %s%c", name, separator_of(name));
    tpp_text_append_shell_word(script->out, value);
    tpp_text_append(script->out, "\n");
}

void tpp_script_expression(struct tpp_script *script, const char *name, const char *expression)
{
    check(script, name, NULL);
    tpp_text_format(script->out, "    %s%c%s\n", name, separator_of(name), expression);
}

void tpp_script_required(struct tpp_script *script, const char *name, const char *what)
{
    tpp_text_format(script->out, ": \"${%s:?set %s to %s}\"\n", name, name, what);
}

static const struct tpp_launch_variable *find_variable(const struct tpp_launch_request *request, const char *name)
{
    for (size_t i = 0; i < request->num_variables; i++) {
        if (strcmp(request->variables[i].name, name) == 0)
            return &request->variables[i];
    }
    return NULL;
}

void tpp_script_export(struct tpp_script *script, const struct tpp_launch_request *request, const char *name,
                       const char *value, const char *reason)
{
    if (find_variable(request, name) != NULL)
        return;
    tpp_script_comment(script, "%s", reason);
    tpp_text_format(script->out, "export %s=%s\n", name, value);
}

/* Field note A9: what finds faults, and what it costs. */
static void append_debug(struct tpp_script *script, const struct tpp_launch_request *request)
{
    tpp_script_comment(script, "For finding faults. Every kernel waits for the one before: training is 3 to 5 times "
                               "slower. Not for production.");
    tpp_text_append(script->out, "echo \"warning: written with --debug: training is 3 to 5 times slower\" >&2\n");
    tpp_script_export(script, request, "CUDA_LAUNCH_BLOCKING", "1",
                      "An illegal access stops at the kernel that did it.");
    tpp_script_export(script, request, "NCCL_DEBUG", "INFO", "NCCL says which network and rings it chose.");
    tpp_script_export(script, request, "TORCH_DISTRIBUTED_DEBUG", "DETAIL",
                      "Every collective is compared among the ranks before it runs.");
}

void tpp_script_environment(struct tpp_script *script, const struct tpp_launch_request *request)
{
    tpp_script_export(script, request, "PYTORCH_CUDA_ALLOC_CONF",
                      "\"${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}\"", "Less fragmentation.");
    for (size_t i = 0; i < request->num_variables; i++) {
        const struct tpp_launch_variable *variable = &request->variables[i];
        if (variable->reason != NULL)
            tpp_script_comment(script, "%s", variable->reason);
        tpp_text_format(script->out, "export %s=", variable->name);
        tpp_text_append_shell_word(script->out, variable->value);
        tpp_text_append(script->out, "\n");
    }
    if (request->debug)
        append_debug(script, request);
    else if (request->stack->launch_blocking)
        tpp_script_export(script, request, "CUDA_LAUNCH_BLOCKING", "1", "The plan was made with blocking launches.");
}

/* sbatch takes the rest of the line as it is: letters, digits, '.', '_' and '-' only. */
static void append_job_name(struct tpp_text *out, const char *name)
{
    for (size_t i = 0; name[i] != '\0' && i < 64; i++) {
        char c = name[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                        (i > 0 && (c == '.' || c == '-')) || c == '_';
        tpp_text_append_bytes(out, is_plain ? &c : "_", 1);
    }
}

static void append_sbatch(struct tpp_text *out, const struct tpp_launch_request *request)
{
    const char *name = request->job_name != NULL ? request->job_name : request->model->name;
    tpp_text_append(out, "#SBATCH --job-name=");
    append_job_name(out, *name != '\0' ? name : "train");
    tpp_text_format(out, "\n#SBATCH --nodes=%u\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=%u\n",
                    request->num_nodes, request->gpus_per_node);
}

void tpp_script_header(struct tpp_script *script, const struct tpp_launch_request *request)
{
    struct tpp_text plan;
    tpp_text_append(script->out, "#!/usr/bin/env bash\n");
    if (request->slurm)
        append_sbatch(script->out, request);
    tpp_script_comment(script, "Written by tp-plan%s%s for %s%s%s.", request->tool_version != NULL ? " " : "",
                       request->tool_version != NULL ? request->tool_version : "", script->framework,
                       script->has_releases ? " " : "", script->has_releases ? tpp_release_name(request->release) : "");
    tpp_script_comment(script, "model: %s; cluster: %s; %u GPUs, %u a node", request->model->name,
                       request->hardware->name, request->job->num_gpus, request->gpus_per_node);
    tpp_text_init(&plan);
    tpp_strategy_format(request->strategy, &plan);
    tpp_script_comment(script, "plan: %s", tpp_text_get(&plan));
    script->out->failed |= tpp_text_failed(&plan);
    tpp_text_release(&plan);
    if (request->note != NULL)
        tpp_script_comment(script, "%s", request->note);
    if (request->strategy->placed_tensor_ranks_per_node > 0)
        tpp_script_comment(script, "The plan counts on %u tensor-parallel ranks in a node: order the nodes so.",
                           request->strategy->placed_tensor_ranks_per_node);
    tpp_text_append(script->out, "set -euo pipefail\n\n");
}

void tpp_script_required_nodes(struct tpp_script *script, const struct tpp_launch_request *request)
{
    if (request->num_nodes == 1 || request->slurm)
        return;
    tpp_script_required(script, "MASTER_ADDR", "the name or address of the first node");
    tpp_script_required(script, "NODE_RANK", "the number of this node, counted from 0");
}

/* sbatch runs a copy of the script: its own folder says nothing. */
void tpp_script_config(struct tpp_script *script, const struct tpp_launch_request *request, const char *variable,
                       const char *name, const struct tpp_text *content)
{
    const char *folder = request->slurm ? "${SLURM_SUBMIT_DIR:-.}" : "$(dirname \"$0\")";
    if (script->files != NULL && script->files->num_files < TPP_LAUNCH_MAX_FILES) {
        struct tpp_launch_file *file = &script->files->files[script->files->num_files++];
        *file = (struct tpp_launch_file){.name = name};
        tpp_text_append_bytes(&file->content, tpp_text_get(content), content->length);
        tpp_text_format(script->out, "%s=\"${CONFIG_DIR:-%s}/%s\"\n", variable, folder, name);
        script->out->failed |= tpp_text_failed(&file->content);
    } else {
        tpp_text_format(script->out, "%s=\"${CONFIG_DIR:-.}/%s\"\ncat > \"$%s\" << 'TP_PLAN_END'\n", variable, name,
                        variable);
        tpp_text_append_bytes(script->out, tpp_text_get(content), content->length);
        tpp_text_append(script->out, "TP_PLAN_END\n");
    }
    script->out->failed |= tpp_text_failed(content);
}

static void append_slurm_nodes(struct tpp_text *out, const struct tpp_launch_request *request)
{
    tpp_text_format(out,
                    "if [ \"${SLURM_NNODES:-}\" != %u ]; then\n"
                    "    echo \"planned for %u nodes, started on ${SLURM_NNODES:-none}\" >&2\n"
                    "    exit 2\n"
                    "fi\n"
                    "read -r MASTER_ADDR < <(scontrol show hostnames \"$SLURM_JOB_NODELIST\")\n"
                    "MASTER_PORT=\"${MASTER_PORT:-29500}\"\n"
                    "export MASTER_ADDR MASTER_PORT\n"
                    "# shellcheck disable=SC2016 # expanded on each node, where SLURM_PROCID is the node's number\n",
                    request->num_nodes, request->num_nodes);
}

void tpp_script_torchrun(struct tpp_script *script, const struct tpp_launch_request *request, const char *entry,
                         const char *arguments)
{
    if (request->slurm) {
        append_slurm_nodes(script->out, request);
        tpp_text_format(script->out,
                        "srun --kill-on-bad-exit=1 bash -c 'exec torchrun --nproc_per_node %u --nnodes %u "
                        "--node_rank \"$SLURM_PROCID\" --master_addr \"$MASTER_ADDR\" --master_port \"$MASTER_PORT\" "
                        "\"$@\"' torchrun \\\n    %s %s\n",
                        request->gpus_per_node, request->num_nodes, entry, arguments);
    } else if (request->num_nodes == 1) {
        tpp_text_format(script->out, "exec torchrun --standalone --nproc_per_node %u \\\n    %s %s\n",
                        request->gpus_per_node, entry, arguments);
    } else {
        tpp_text_format(script->out,
                        "exec torchrun --nproc_per_node %u --nnodes %u --node_rank \"$NODE_RANK\" \\\n"
                        "    --master_addr \"$MASTER_ADDR\" --master_port \"${MASTER_PORT:-29500}\" \\\n    %s %s\n",
                        request->gpus_per_node, request->num_nodes, entry, arguments);
    }
}

void tpp_script_accelerate(struct tpp_script *script, const struct tpp_launch_request *request, const char *variable,
                           const char *entry, const char *arguments)
{
    if (request->slurm) {
        append_slurm_nodes(script->out, request);
        tpp_text_format(script->out,
                        "srun --kill-on-bad-exit=1 bash -c 'exec accelerate launch --machine_rank \"$SLURM_PROCID\" "
                        "--main_process_ip \"$MASTER_ADDR\" --main_process_port \"$MASTER_PORT\" \"$@\"' accelerate "
                        "\\\n    --config_file \"$%s\" %s %s\n",
                        variable, entry, arguments);
    } else if (request->num_nodes == 1) {
        tpp_text_format(script->out, "exec accelerate launch --config_file \"$%s\" \\\n    %s %s\n", variable, entry,
                        arguments);
    } else {
        tpp_text_format(script->out,
                        "exec accelerate launch --config_file \"$%s\" --machine_rank \"$NODE_RANK\" \\\n"
                        "    --main_process_ip \"$MASTER_ADDR\" --main_process_port \"${MASTER_PORT:-29500}\" \\\n"
                        "    %s %s\n",
                        variable, entry, arguments);
    }
}

void tpp_script_per_node(struct tpp_script *script, const struct tpp_launch_request *request, const char *program,
                         const char *arguments)
{
    tpp_text_format(script->out, "export NPROC_PER_NODE=%u NNODES=%u\n", request->gpus_per_node, request->num_nodes);
    if (request->slurm) {
        append_slurm_nodes(script->out, request);
        tpp_text_format(script->out,
                        "srun --kill-on-bad-exit=1 bash -c 'NODE_RANK=\"$SLURM_PROCID\" exec %s \"$@\"' ranks \\\n"
                        "    %s\n",
                        program, arguments);
        return;
    }
    if (request->num_nodes > 1)
        tpp_text_append(script->out, "MASTER_PORT=\"${MASTER_PORT:-29500}\"\n"
                                     "export MASTER_ADDR MASTER_PORT NODE_RANK\n");
    tpp_text_format(script->out, "exec %s \\\n    %s\n", program, arguments);
}

enum tpp_code tpp_script_finish(const struct tpp_script *script, struct tpp_error *err)
{
    const bool has_value = script->refused_value[0] != '\0';
    if (script->refused_option == NULL)
        return TPP_OK;
    return tpp_fail(err, TPP_E_UNSUPPORTED, "release",
                    script->has_releases ? "choose a newer release" : "choose another plan or framework",
                    "%s%s%s has no %s%s%s%s, which this plan needs", script->framework, script->has_releases ? " " : "",
                    script->has_releases ? tpp_release_name(script->release) : "", has_value ? "" : "option ",
                    script->refused_option, has_value ? " " : "", script->refused_value);
}
