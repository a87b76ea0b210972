/* launch_line.h - which command of a script starts the training, with what program, and on how many GPUs. */
#ifndef TPP_PLANNER_LAUNCH_LAUNCH_LINE_H
#define TPP_PLANNER_LAUNCH_LAUNCH_LINE_H

#include "costmodel/stack.h"
#include "planner/launch/shell_reader.h"

enum tpp_launcher {
    TPP_LAUNCHER_TORCHRUN,  /* also python -m torch.distributed.run and launch */
    TPP_LAUNCHER_DEEPSPEED, /* the deepspeed program */
    TPP_LAUNCHER_MEGATRON,  /* megatron sft|pt|rlhf of ms-swift */
    TPP_LAUNCHER_SWIFT,     /* swift sft|pt|rlhf */
    TPP_LAUNCHER_ACCELERATE,
    TPP_LAUNCHER_PYTHON, /* one process for each task of srun, or alone */
};

struct tpp_launch_line {
    const struct tpp_shell_command *command;
    enum tpp_launcher launcher;
    bool is_accelerate;                      /* accelerate launch, of swift's own programs too */
    const char *entry;                       /* "pretrain_gpt.py", "sft": the last part of its path */
    struct tpp_shell_words launcher_options; /* of torchrun, deepspeed, accelerate: in front of the entry */
    struct tpp_shell_words arguments;        /* behind the entry */
    int64_t ranks_per_node, nodes;           /* 0: not known */
    uint32_t ranks_line, nodes_line;         /* where they are written; 0: not at all */
    const struct tpp_shell_word *unknown_ranks, *unknown_nodes; /* the word that would say it, when it is not known */
    size_t num_candidates;                                      /* commands that start a training */
};

/* Takes the last command that runs in any case, else the last one of all. TPP_E_MISSING: there is none. */
enum tpp_code tpp_launch_line_find(const struct tpp_shell_script *script, const char *file,
                                   struct tpp_launch_line *line, struct tpp_error *err);

/* The framework that the program and its options belong to. TPP_E_UNSUPPORTED names the launcher that is not read. */
enum tpp_code tpp_launch_line_framework(const struct tpp_launch_line *line, const char *file,
                                        enum tpp_framework *framework, struct tpp_error *err);

/* The value of an exported variable, or one in front of the command; NULL: it is not set. */
const struct tpp_shell_word *tpp_launch_line_variable(const struct tpp_launch_line *line, const char *name);

#endif
