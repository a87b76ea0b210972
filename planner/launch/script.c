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
    const struct tpp_launch_option *option = tpp_launch_option_find(name);
    if (option == NULL || !tpp_launch_option_in(option, script->release))
        refuse(script, name, "");
    else if (value != NULL && !tpp_launch_option_allows(option, script->release, value))
        refuse(script, name, value);
}

void tpp_script_flag(struct tpp_script *script, const char *name)
{
    check(script, name, NULL);
    tpp_text_format(script->out, "    %s\n", name);
}

void tpp_script_integer(struct tpp_script *script, const char *name, int64_t value)
{
    check(script, name, NULL);
    tpp_text_format(script->out, "    %s %" PRId64 "\n", name, value);
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
    tpp_text_format(script->out, "    %s %s\n", name, number);
}

void tpp_script_word(struct tpp_script *script, const char *name, const char *value)
{
    check(script, name, value);
    tpp_text_format(script->out, "    %s ", name);
    tpp_text_append_shell_word(script->out, value);
    tpp_text_append(script->out, "\n");
}

void tpp_script_expression(struct tpp_script *script, const char *name, const char *expression)
{
    check(script, name, NULL);
    tpp_text_format(script->out, "    %s %s\n", name, expression);
}

void tpp_script_required(struct tpp_script *script, const char *name, const char *what)
{
    tpp_text_format(script->out, ": \"${%s:?set %s to %s}\"\n", name, name, what);
}

void tpp_script_export(struct tpp_script *script, const char *name, const char *value, const char *reason)
{
    tpp_script_comment(script, "%s", reason);
    tpp_text_format(script->out, "export %s=%s\n", name, value);
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

void tpp_script_header(struct tpp_script *script, const struct tpp_launch_request *request, const char *framework)
{
    struct tpp_text plan;
    tpp_text_append(script->out, "#!/usr/bin/env bash\n");
    if (request->slurm)
        append_sbatch(script->out, request);
    tpp_script_comment(script, "Written by tp-plan%s%s for %s %s.", request->tool_version != NULL ? " " : "",
                       request->tool_version != NULL ? request->tool_version : "", framework,
                       tpp_release_name(request->release));
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

static void append_slurm(struct tpp_text *out, const struct tpp_launch_request *request, const char *entry,
                         const char *arguments)
{
    tpp_text_format(
        out,
        "if [ \"${SLURM_NNODES:-}\" != %u ]; then\n"
        "    echo \"planned for %u nodes, started on ${SLURM_NNODES:-none}\" >&2\n"
        "    exit 2\n"
        "fi\n"
        "read -r MASTER_ADDR < <(scontrol show hostnames \"$SLURM_JOB_NODELIST\")\n"
        "MASTER_PORT=\"${MASTER_PORT:-29500}\"\n"
        "export MASTER_ADDR MASTER_PORT\n"
        "# shellcheck disable=SC2016 # expanded on each node, where SLURM_PROCID is the node's number\n"
        "srun --kill-on-bad-exit=1 bash -c 'exec torchrun --nproc_per_node %u --nnodes %u "
        "--node_rank \"$SLURM_PROCID\" --master_addr \"$MASTER_ADDR\" --master_port \"$MASTER_PORT\" \"$@\"' "
        "torchrun \\\n    %s %s\n",
        request->num_nodes, request->num_nodes, request->gpus_per_node, request->num_nodes, entry, arguments);
}

void tpp_script_torchrun(struct tpp_script *script, const struct tpp_launch_request *request, const char *entry,
                         const char *arguments)
{
    if (request->slurm) {
        append_slurm(script->out, request, entry, arguments);
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

enum tpp_code tpp_script_finish(const struct tpp_script *script, struct tpp_error *err)
{
    if (script->refused_option == NULL)
        return TPP_OK;
    if (script->refused_value[0] != '\0')
        return tpp_fail(err, TPP_E_UNSUPPORTED, "release", "choose a newer release",
                        "Megatron-LM %s has no %s %s, which this plan needs", tpp_release_name(script->release),
                        script->refused_option, script->refused_value);
    return tpp_fail(err, TPP_E_UNSUPPORTED, "release", "choose a newer release",
                    "Megatron-LM %s has no option %s, which this plan needs", tpp_release_name(script->release),
                    script->refused_option);
}
