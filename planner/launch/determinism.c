/* determinism.c - see determinism.h; megatron/training/determinism.py of Megatron-LM, and of Megatron-Bridge
 * training/config.py (_validate_and_apply_deterministic_mode). */
#include "planner/launch/determinism.h"

#include <stdio.h>
#include <string.h>

/* Every word between commas is one of these. */
static bool is_reproducible(const char *value)
{
    static const char *const algorithms[] = {"Ring", "CollnetDirect", "CollnetChain", "^NVLS"};
    for (const char *at = value; *at != '\0';) {
        const size_t length = strcspn(at, ", ");
        bool is_known = length == 0;
        for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++)
            is_known =
                is_known || (strncmp(at, algorithms[i], length) == 0 && algorithms[i][length] == '\0' && length > 0);
        if (!is_known)
            return false;
        at += length + (at[length] != '\0');
    }
    return true;
}

static void judge_variable(const struct tpp_launch_line *line, const char *name, const char *const *accepted,
                           struct tpp_problems *problems)
{
    const struct tpp_shell_word *word = tpp_launch_line_variable(line, name);
    char hint[96];
    if (word == NULL || word->note != 0)
        return;
    bool is_accepted = accepted == NULL && is_reproducible(word->text);
    for (size_t i = 0; accepted != NULL && accepted[i] != NULL; i++)
        is_accepted = is_accepted || strcmp(accepted[i], word->text) == 0;
    snprintf(hint, sizeof hint, "set it to %s", accepted != NULL ? accepted[0] : "Ring");
    if (!is_accepted)
        tpp_problems_add(problems, "ML-99", TPP_SEVERITY_ERROR, word->line, hint, "deterministic mode refuses %s=%.60s",
                         name, word->text);
}

void tpp_determinism_judge(const struct tpp_launch_line *line, const struct tpp_arguments *arguments,
                           const struct tpp_megatron_settings *settings, enum tpp_release release,
                           struct tpp_problems *problems)
{
    static const char *const zero[] = {"0", NULL}, *const workspaces[] = {":4096:8", ":16:8", NULL};
    const bool is_bridge = settings->rules.framework == TPP_FRAMEWORK_NEMO;
    const char *fusion = is_bridge ? "model.cross_entropy_loss_fusion" : "--cross-entropy-loss-fusion";
    if (!settings->deterministic)
        return;
    if (settings->cross_entropy_fusion)
        tpp_problems_add(problems, "ML-99", TPP_SEVERITY_ERROR, tpp_argument_line(arguments, fusion),
                         is_bridge ? "set model.cross_entropy_loss_fusion=false" : "take it out",
                         "deterministic mode excludes the fused cross entropy");
    if (!is_bridge && release >= TPP_RELEASE_MAIN && settings->rules.tp_comm_overlap)
        tpp_problems_add(problems, "ML-99", TPP_SEVERITY_ERROR, tpp_argument_line(arguments, "--tp-comm-overlap"),
                         "take it out", "deterministic mode excludes --tp-comm-overlap");
    judge_variable(line, "NCCL_ALGO", NULL, problems);
    judge_variable(line, "NVTE_ALLOW_NONDETERMINISTIC_ALGO", zero, problems);
    judge_variable(line, "CUBLAS_WORKSPACE_CONFIG", workspaces, problems);
}

void tpp_determinism_export(struct tpp_script *script, const struct tpp_launch_request *request)
{
    if (!request->stack->deterministic)
        return;
    tpp_script_export(script, request, "NVTE_ALLOW_NONDETERMINISTIC_ALGO", "0",
                      "Deterministic mode: every sum has one order, in attention, in NCCL and in cuBLAS.");
    tpp_text_append(script->out, "export NCCL_ALGO=Ring\nexport CUBLAS_WORKSPACE_CONFIG=:4096:8\n");
}
