/* launch_line.c - see launch_line.h; the forms of launch formats, section 9. */
#include "planner/launch/launch_line.h"

#include "planner/launch/arguments.h"
#include "planner/launch/slurm_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 1 << 20 };

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text), wanted = strlen(ending);
    return length >= wanted && strcmp(text + length - wanted, ending) == 0;
}

static bool is_one_of(const char *word, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strcmp(*words, word) == 0)
            return true;
    }
    return false;
}

/* "python", "python3", "python3.10". */
static bool is_python(const char *name)
{
    static const char python[] = "python";
    size_t at = 0;
    while (python[at] != '\0' && name[at] == python[at])
        at++;
    if (python[at] != '\0')
        return false;
    while ((name[at] >= '0' && name[at] <= '9') || name[at] == '.')
        at++;
    return name[at] == '\0';
}

/* "--nproc-per-node" is "--nproc_per_node"; true when the word, up to a =, is `name` (with '_'). */
static bool is_option(const char *word, const char *name)
{
    size_t length = strcspn(word, "=");
    if (strlen(name) != length)
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = i >= 2 && word[i] == '-' ? '_' : word[i];
        if (c != name[i])
            return false;
    }
    return true;
}

/* ---- options of launchers ---- */

static const char *const launcher_flags[] = {"--standalone",
                                             "--no_python",
                                             "--module",
                                             "-m",
                                             "--run_path",
                                             "--use_env",
                                             "--no_local_rank",
                                             "--force_multi",
                                             "--no_ssh",
                                             "--no_ssh_check",
                                             "--bind_cores_to_rank",
                                             "--force_ssh",
                                             "--elastic_training",
                                             "--use_fsdp",
                                             "--use_deepspeed",
                                             "--use_parallelism_config",
                                             "--multi_gpu",
                                             NULL};

static bool is_flag(const char *word)
{
    for (const char *const *flag = launcher_flags; *flag != NULL; flag++) {
        if (is_option(word, *flag))
            return true;
    }
    return false;
}

static void set_size(const struct tpp_shell_word *word, const char *value, int64_t *size, uint32_t *line,
                     const struct tpp_shell_word **unknown)
{
    int64_t number;
    *line = word->line;
    *size = 0;
    *unknown = word->note != 0 ? word : NULL;
    if (word->note == 0 && tpp_argument_integer(value, &number) && number >= 1 && number <= MAX_RANKS)
        *size = number;
}

static void take_option(struct tpp_launch_line *line, const char *name, const struct tpp_shell_word *word,
                        const char *value)
{
    if (is_option(name, "--nproc_per_node") || is_option(name, "--num_gpus"))
        set_size(word, value, &line->ranks_per_node, &line->ranks_line, &line->unknown_ranks);
    else if (is_option(name, "--nnodes") || is_option(name, "--num_nodes"))
        set_size(word, value, &line->nodes, &line->nodes_line, &line->unknown_nodes);
    else if (is_option(name, "--hostfile") && line->nodes_line == 0)
        line->nodes = 0; /* as many as the file has lines */
}

/* The options of torchrun, deepspeed or accelerate from `at` on; returns where the program is. */
static size_t read_launcher(struct tpp_launch_line *line, struct tpp_shell_words words, size_t at)
{
    const size_t begin = at;
    while (at < words.count && words.items[at].text[0] == '-') {
        const struct tpp_shell_word *word = &words.items[at];
        const char *equals = strchr(word->text, '=');
        at++;
        if (is_flag(word->text))
            continue;
        if (equals != NULL) {
            take_option(line, word->text, word, equals + 1);
        } else if (at < words.count) {
            take_option(line, word->text, &words.items[at], words.items[at].text);
            at++;
        }
    }
    line->launcher_options = (struct tpp_shell_words){words.items + begin, at - begin};
    return at;
}

/* The task of a file that `swift` starts by itself: .../swift/cli/sft.py; NULL: it is none. */
static const char *swift_task(const char *path)
{
    static const struct {
        const char *ending, *task;
    } files[] = {{"swift/cli/sft.py", "sft"}, {"swift/cli/pt.py", "pt"}, {"swift/cli/rlhf.py", "rlhf"}};
    const size_t length = strlen(path);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const size_t size = strlen(files[i].ending);
        if (length >= size && strcmp(path + length - size, files[i].ending) == 0 &&
            (length == size || path[length - size - 1] == '/'))
            return files[i].task;
    }
    return NULL;
}

static void set_program(struct tpp_launch_line *line, struct tpp_shell_words words, size_t at)
{
    if (at >= words.count)
        return;
    line->entry = swift_task(words.items[at].text);
    if (line->entry != NULL)
        line->launcher = TPP_LAUNCHER_SWIFT;
    else
        line->entry = base_name(words.items[at].text);
    line->arguments = (struct tpp_shell_words){words.items + at + 1, words.count - at - 1};
}

/* Tasks that srun starts: by its own options, else by those of the batch job. */
static void set_tasks(const struct tpp_shell_script *script, struct tpp_shell_words words, size_t end,
                      struct tpp_launch_line *line)
{
    struct tpp_slurm_options options = {0};
    tpp_slurm_options_read(tpp_shell_batch_options(script), &options);
    tpp_slurm_options_read(line->command->outer, &options);
    tpp_slurm_options_read((struct tpp_shell_words){words.items, end}, &options);
    line->nodes = options.nodes;
    line->ranks_per_node = options.tasks_per_node;
    if (line->ranks_per_node == 0 && options.nodes > 0 && options.tasks % options.nodes == 0)
        line->ranks_per_node = options.tasks / options.nodes;
    if (line->nodes == 0 && options.tasks > 0) {
        line->ranks_per_node = options.tasks_per_node > 0 ? options.tasks_per_node : options.tasks;
        line->nodes = options.tasks / line->ranks_per_node;
    }
}

static bool has_word(struct tpp_shell_words words, size_t end, const char *name)
{
    for (size_t i = 0; i < end && i < words.count; i++) {
        if (strcmp(base_name(words.items[i].text), name) == 0)
            return true;
    }
    return false;
}

/* python [options] [-m module] program, at word `at`. */
static bool read_python(const struct tpp_shell_script *script, struct tpp_launch_line *line,
                        struct tpp_shell_words words, size_t at)
{
    size_t begin = at++;
    while (at < words.count && words.items[at].text[0] == '-' && strcmp(words.items[at].text, "-m") != 0 &&
           strcmp(words.items[at].text, "-c") != 0)
        at++;
    if (at + 1 < words.count && strcmp(words.items[at].text, "-m") == 0) {
        const char *module = words.items[at + 1].text;
        if (strcmp(module, "torch.distributed.run") == 0 || strcmp(module, "torch.distributed.launch") == 0) {
            line->launcher = TPP_LAUNCHER_TORCHRUN;
            line->nodes = 1;
            line->ranks_per_node = 1;
            set_program(line, words, read_launcher(line, words, at + 2));
            return line->entry != NULL;
        }
        return false;
    }
    if (at >= words.count || !ends_with(words.items[at].text, ".py"))
        return false;
    line->launcher = TPP_LAUNCHER_PYTHON;
    line->ranks_per_node = line->nodes = 1;
    if (has_word(words, begin, "srun") || has_word(line->command->outer, line->command->outer.count, "srun"))
        set_tasks(script, words, begin, line);
    set_program(line, words, at);
    return true;
}

/* ms-swift takes the sizes from the environment: one process without them. */
static void set_from_environment(struct tpp_launch_line *line)
{
    const struct tpp_shell_word *ranks = tpp_launch_line_variable(line, "NPROC_PER_NODE");
    const struct tpp_shell_word *nodes = tpp_launch_line_variable(line, "NNODES");
    line->ranks_per_node = line->nodes = 1;
    if (ranks != NULL)
        set_size(ranks, ranks->text, &line->ranks_per_node, &line->ranks_line, &line->unknown_ranks);
    if (nodes != NULL)
        set_size(nodes, nodes->text, &line->nodes, &line->nodes_line, &line->unknown_nodes);
}

/* True when the word at `at` starts a training; then *line is filled. */
static bool read_at(const struct tpp_shell_script *script, struct tpp_launch_line *line, struct tpp_shell_words words,
                    size_t at)
{
    static const char *const tasks[] = {"sft", "pt", "rlhf", "export", NULL};
    const char *name = base_name(words.items[at].text);
    const char *next = at + 1 < words.count ? words.items[at + 1].text : "";
    const bool is_unknown_module = words.items[at].note != 0 && strcmp(next, "-m") == 0; /* "$PYTHON_BIN" -m ... */
    if (is_python(name) || is_unknown_module)
        return read_python(script, line, words, at);
    bool is_torchrun = strcmp(name, "torchrun") == 0, is_deepspeed = strcmp(name, "deepspeed") == 0;
    if (is_torchrun || is_deepspeed || (strcmp(name, "accelerate") == 0 && strcmp(next, "launch") == 0)) {
        line->launcher = is_torchrun    ? TPP_LAUNCHER_TORCHRUN
                         : is_deepspeed ? TPP_LAUNCHER_DEEPSPEED
                                        : TPP_LAUNCHER_ACCELERATE;
        line->is_accelerate = !is_torchrun && !is_deepspeed;
        line->nodes = 1;
        line->ranks_per_node = is_torchrun ? 1 : 0;
        set_program(line, words, read_launcher(line, words, at + (is_torchrun || is_deepspeed ? 1 : 2)));
        return line->entry != NULL;
    }
    if ((strcmp(name, "megatron") != 0 && strcmp(name, "swift") != 0) || !is_one_of(next, tasks))
        return false;
    line->launcher = *name == 'm' ? TPP_LAUNCHER_MEGATRON : TPP_LAUNCHER_SWIFT;
    set_from_environment(line);
    set_program(line, words, at + 1);
    return true;
}

static bool read_command(const struct tpp_shell_script *script, const struct tpp_shell_command *command,
                         struct tpp_launch_line *line)
{
    for (size_t i = 0; i < command->words.count; i++) {
        *line = (struct tpp_launch_line){.command = command};
        if (read_at(script, line, command->words, i))
            return true;
    }
    return false;
}

static bool has_argument(const struct tpp_launch_line *line, const char *name)
{
    for (size_t i = 0; i < line->arguments.count; i++) {
        if (is_option(line->arguments.items[i].text, name))
            return true;
    }
    return false;
}

/* A recipe of Megatron-Bridge, by its own program or another that takes its overrides. */
static bool is_bridge(const struct tpp_launch_line *line)
{
    return strcmp(line->entry, "run_recipe.py") == 0 || has_argument(line, "model.tensor_model_parallel_size") ||
           has_argument(line, "train.global_batch_size");
}

/* Data preparation and the like are programs too; a training has options. */
static bool is_training(const struct tpp_launch_line *line)
{
    size_t options = 0;
    if (line->launcher != TPP_LAUNCHER_PYTHON)
        return true;
    for (size_t i = 0; i < line->arguments.count; i++) {
        const char *text = line->arguments.items[i].text;
        options += strcmp(text, "--num-layers") == 0 || strcmp(text, "--micro-batch-size") == 0 ||
                   strcmp(text, "--tensor-model-parallel-size") == 0 || strcmp(text, "--deepspeed") == 0 ||
                   strcmp(text, "--per_device_train_batch_size") == 0;
    }
    return options > 0 || is_bridge(line);
}

/* Writes a checkpoint in another format: looked at when there is nothing else. */
static bool is_export(const struct tpp_launch_line *line)
{
    return strcmp(line->entry, "export") == 0;
}

enum tpp_code tpp_launch_line_find(const struct tpp_shell_script *script, const char *file,
                                   struct tpp_launch_line *line, struct tpp_error *err)
{
    size_t count, found = 0;
    const struct tpp_shell_command *commands = tpp_shell_commands(script, &count);
    for (size_t i = 0; i < count; i++) {
        struct tpp_launch_line here;
        if (!read_command(script, &commands[i], &here) || !is_training(&here))
            continue;
        if (found == 0 || is_export(line) ||
            (!is_export(&here) && (!here.command->is_conditional || line->command->is_conditional)))
            *line = here;
        found++;
    }
    if (found == 0)
        return tpp_fail(err, TPP_E_MISSING, file,
                        "give a script that runs torchrun, deepspeed, python -m torch.distributed.run, megatron or a "
                        "training program under srun; give variables that decide it with --set NAME=VALUE",
                        "no command of the script starts a training");
    line->num_candidates = found;
    return TPP_OK;
}

enum tpp_code tpp_launch_line_framework(const struct tpp_launch_line *line, const char *file,
                                        enum tpp_framework *framework, struct tpp_error *err)
{
    char where[256];
    snprintf(where, sizeof where, "%.200s:%u", file, line->command->line);
    if (line->launcher == TPP_LAUNCHER_MEGATRON || line->launcher == TPP_LAUNCHER_SWIFT)
        *framework = TPP_FRAMEWORK_MS_SWIFT;
    else if (strcmp(line->entry, "torchtitan.train") == 0 || has_argument(line, "--job.config_file"))
        *framework = TPP_FRAMEWORK_TORCHTITAN;
    else if (strcmp(line->entry, "run_train.py") == 0 && has_argument(line, "--config_file"))
        *framework = TPP_FRAMEWORK_NANOTRON;
    else if (is_bridge(line))
        *framework = TPP_FRAMEWORK_NEMO;
    else if (has_argument(line, "--deepspeed_config") || has_argument(line, "--deepspeed"))
        *framework = has_argument(line, "--num_layers") ? TPP_FRAMEWORK_MEGATRON_DEEPSPEED : TPP_FRAMEWORK_HF_TRAINER;
    else if (has_argument(line, "--per_device_train_batch_size") || line->launcher == TPP_LAUNCHER_ACCELERATE)
        *framework = TPP_FRAMEWORK_HF_TRAINER;
    else if (has_argument(line, "--num_layers") || has_argument(line, "--micro_batch_size") ||
             has_argument(line, "--tensor_model_parallel_size"))
        *framework = TPP_FRAMEWORK_MEGATRON_LM;
    else
        return tpp_fail(err, TPP_E_UNSUPPORTED, where, "say what it is with --framework",
                        "%.100s is a program whose options are not known", line->entry);
    return TPP_OK;
}

const struct tpp_shell_word *tpp_launch_line_variable(const struct tpp_launch_line *line, const char *name)
{
    for (size_t i = line->command->num_environment; i > 0; i--) {
        if (strcmp(line->command->environment[i - 1].name, name) == 0)
            return &line->command->environment[i - 1].value;
    }
    return NULL;
}
