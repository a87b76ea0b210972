/* accelerate_read.c - the configuration of accelerate as settings of a Trainer's command line, and what it breaks
 * (launch formats, section 5; utils/dataclasses.py and parallelism_config.py of accelerate). */
#include "planner/launch/config/accelerate.h"
#include "planner/launch/config/script_config.h"
#include "planner/launch/config/shared.h"

#include <stdio.h>
#include <string.h>

#define FSDP(name) "fsdp_config.fsdp_" name
#define SIZES(name) "parallelism_config.parallelism_config_" name

static bool is_own(const struct tpp_config *config)
{
    return tpp_config_find(config, "distributed_type") != NULL &&
           (tpp_config_find(config, "num_processes") != NULL || tpp_config_find(config, "fsdp_config") != NULL ||
            tpp_config_find(config, "deepspeed_config") != NULL || tpp_config_find(config, "num_machines") != NULL);
}

static void add(const struct tpp_config *config, const char *key, enum tpp_severity severity, const char *hint,
                const char *message, struct tpp_problems *problems)
{
    tpp_problems_add(problems, severity == TPP_SEVERITY_ERROR ? "AC" : "dead-setting", severity,
                     tpp_config_line(config, key), hint, "%s", message);
}

static bool has(const struct tpp_config *config, const char *key)
{
    return tpp_config_find(config, key) != NULL;
}

static void judge_second(const struct tpp_accelerate_settings *s, const struct tpp_config *config,
                         struct tpp_problems *problems)
{
    if (s->reshard > ACCELERATE_RESHARD_FALSE)
        add(config, FSDP("reshard_after_forward"), TPP_SEVERITY_ERROR, "write true or false",
            "fsdp_reshard_after_forward is true or false in version 2", problems);
    if (s->forward_prefetch)
        add(config, FSDP("forward_prefetch"), TPP_SEVERITY_WARNING, "take it out",
            "version 2 has no fsdp_forward_prefetch", problems);
    if (has(config, FSDP("sharding_strategy")))
        add(config, FSDP("sharding_strategy"), TPP_SEVERITY_WARNING, "write fsdp_reshard_after_forward",
            "version 2 ignores fsdp_sharding_strategy", problems);
    if (has(config, FSDP("backward_prefetch")) && s->prefetch != 2)
        add(config, FSDP("backward_prefetch"), TPP_SEVERITY_WARNING, "take it out",
            "version 2 ignores fsdp_backward_prefetch", problems);
}

/* A file cannot make version 1 see fsdp_reshard_after_forward: the strategy has a default, and comes first. */
static void judge_first(const struct tpp_accelerate_settings *s, const struct tpp_config *config,
                        struct tpp_problems *problems)
{
    const unsigned written = (s->reshard - ACCELERATE_RESHARD_FALSE - 1) % ACCELERATE_NUM_SHARDINGS;
    if (s->reshard > ACCELERATE_RESHARD_FALSE && written != s->sharding)
        add(config, FSDP("reshard_after_forward"), TPP_SEVERITY_WARNING, "write fsdp_sharding_strategy",
            "version 1 takes fsdp_sharding_strategy, and not fsdp_reshard_after_forward", problems);
    if (s->reshard == ACCELERATE_RESHARD_FALSE)
        add(config, FSDP("reshard_after_forward"), TPP_SEVERITY_WARNING, "write fsdp_sharding_strategy: SHARD_GRAD_OP",
            "version 1 ignores fsdp_reshard_after_forward", problems);
    if (s->checkpointing_offload)
        add(config, FSDP("activation_checkpointing_offload"), TPP_SEVERITY_ERROR, "set fsdp_version to 2",
            "fsdp_activation_checkpointing_offload needs version 2", problems);
    if (has(config, "parallelism_config"))
        add(config, "parallelism_config", TPP_SEVERITY_ERROR, "set fsdp_version to 2",
            "parallelism_config needs fsdp_version 2", problems);
}

static void judge_fsdp(const struct tpp_accelerate_settings *s, const struct tpp_config *config,
                       struct tpp_problems *problems)
{
    if (s->version != 1 && s->version != 2)
        add(config, FSDP("version"), TPP_SEVERITY_ERROR, "write 1 or 2", "fsdp_version is 1 or 2", problems);
    else if (s->version == 2)
        judge_second(s, config, problems);
    else
        judge_first(s, config, problems);
    if (s->efficient_loading && !s->sync_states)
        add(config, FSDP("sync_module_states"), TPP_SEVERITY_ERROR, "set fsdp_sync_module_states to true",
            "fsdp_cpu_ram_efficient_loading needs fsdp_sync_module_states", problems);
    if (s->checkpointing_offload && !s->checkpointing)
        add(config, FSDP("activation_checkpointing_offload"), TPP_SEVERITY_ERROR,
            "set fsdp_activation_checkpointing to true",
            "fsdp_activation_checkpointing_offload needs fsdp_activation_checkpointing", problems);
    if (s->wrap == 2)
        tpp_problems_add(
            problems, "no-wrap", TPP_SEVERITY_WARNING, tpp_config_line(config, FSDP("auto_wrap_policy")),
            "write fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP",
            "without a policy the whole model is one unit: all its weights are gathered at once, while the "
            "prediction is for units of one layer");
}

static void judge_sizes(const struct tpp_accelerate_settings *s, const struct tpp_config *config, int64_t processes,
                        struct tpp_problems *problems)
{
    const int64_t sizes[] = {s->replicate, s->shard, s->tensor, s->context, s->sequence};
    int64_t product = 1;
    if (!has(config, "parallelism_config"))
        return;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i] < 1)
            add(config, "parallelism_config", TPP_SEVERITY_ERROR, "write at least 1",
                "sizes of parallelism_config are at least 1", problems);
        product = tpp_size_between(product * tpp_size_between(sizes[i]));
    }
    if (s->context > 1 && s->sequence > 1)
        add(config, SIZES("sp_size"), TPP_SEVERITY_ERROR, "set one of them to 1",
            "cp_size and sp_size exclude each other", problems);
    if (processes > 0 && product > 1 && product != processes && s->sequence <= 1)
        tpp_problems_add(problems, "AC", TPP_SEVERITY_ERROR, tpp_config_line(config, "parallelism_config"),
                         "change the sizes, or num_processes",
                         "the sizes of parallelism_config make %lld processes, and there are %lld", (long long)product,
                         (long long)processes);
}

static void apply_fsdp(const struct tpp_accelerate_settings *s, int64_t processes, int64_t machines,
                       struct tpp_megatron_settings *out)
{
    struct tpp_rule_settings *rules = &out->rules;
    if (s->version == 1 && s->sharding % ACCELERATE_NUM_SHARDINGS == ACCELERATE_NO_SHARD)
        return; /* replicas */
    const unsigned sharding = s->sharding % ACCELERATE_NUM_SHARDINGS;
    rules->fsdp_version = s->version == 2 ? 2 : 1;
    rules->zero_stage = 3;
    rules->optimizer_cpu_offload = s->offload;
    if (s->version == 2) {
        out->keeps_gathered = s->reshard == ACCELERATE_RESHARD_FALSE;
        rules->tensor_parallel = s->tensor;
        rules->context_parallel = s->context;
        rules->context_types = s->rotation == 1 ? TPP_RULE_CONTEXT_P2P : TPP_RULE_CONTEXT_ALL_GATHER;
        rules->optimizer_instances = tpp_size_between(s->replicate);
    } else {
        out->keeps_gathered = sharding == ACCELERATE_SHARD_GRAD_OP || sharding == ACCELERATE_HYBRID_SHARD_ZERO2;
        if (sharding >= ACCELERATE_HYBRID_SHARD && processes > machines)
            rules->optimizer_instances = machines;
    }
    if (s->checkpointing) {
        rules->recompute = TPP_RULE_GRANULARITY_FULL;
        rules->recompute_method = TPP_RULE_METHOD_UNIFORM;
        rules->recompute_num_layers = 1;
    }
}

static void apply_deepspeed(const struct tpp_accelerate_settings *s, const struct tpp_config *config,
                            struct tpp_megatron_settings *out, struct tpp_problems *problems)
{
    if (s->deepspeed_file != NULL) {
        tpp_problems_add(problems, "unknown-config", TPP_SEVERITY_INFO,
                         tpp_config_line(config, "deepspeed_config.deepspeed_config_file"),
                         "give the stage in deepspeed_config to have it checked",
                         "the DeepSpeed configuration that the file names is not read: stage 2 is assumed");
    }
    out->deepspeed = true;
    out->config.is_known = true;
    out->config.line = tpp_config_line(config, "deepspeed_config");
    out->config.zero_stage = out->rules.zero_stage = s->zero_stage;
    out->config.offloads_optimizer = out->rules.optimizer_cpu_offload = s->optimizer_device != 0;
    out->config.offloads_parameters = s->parameter_device != 0;
    out->config.is_batch_open = true; /* accelerate fills "auto" in */
    out->config.train_batch_size = out->config.micro_batch_size = out->config.accumulation = TPP_RULE_UNSET;
    out->config.reduce_bucket_size = out->config.allgather_bucket_size = TPP_RULE_UNSET;
}

/* Both say what is computed in; the Trainer's own argument wins over the environment that accelerate makes. */
static void apply_precision(const struct tpp_accelerate_settings *s, struct tpp_megatron_settings *out)
{
    if (out->rules.bf16 || out->rules.fp16)
        return;
    out->rules.bf16 = s->precision == ACCELERATE_PRECISION_BF16;
    out->rules.fp16 = s->precision == ACCELERATE_PRECISION_FP16;
    if (s->precision == ACCELERATE_PRECISION_FP8)
        out->rules.fp8 = TPP_RULE_FP8_HYBRID;
}

static void apply(const struct tpp_accelerate_settings *s, const struct tpp_config *config, int64_t processes,
                  int64_t machines, struct tpp_megatron_settings *out, struct tpp_problems *problems)
{
    apply_precision(s, out);
    if (s->type == ACCELERATE_FSDP) {
        judge_fsdp(s, config, problems);
        judge_sizes(s, config, processes, problems);
        if (s->checkpointing && out->checkpoint_activations)
            add(config, FSDP("activation_checkpointing"), TPP_SEVERITY_ERROR, "take one of them out",
                "the Trainer refuses fsdp_activation_checkpointing together with --gradient_checkpointing", problems);
        apply_fsdp(s, processes, machines, out);
    } else if (s->type == ACCELERATE_DEEPSPEED) {
        apply_deepspeed(s, config, out, problems);
    } else if (s->type == ACCELERATE_MEGATRON_LM || s->type >= ACCELERATE_OTHER_TYPE) {
        tpp_problems_add(problems, "no-prediction", TPP_SEVERITY_WARNING, tpp_config_line(config, "distributed_type"),
                         "use FSDP, DEEPSPEED or MULTI_GPU",
                         "this distributed_type is not costed: replicas are assumed");
    }
}

/* ---- the launcher's options ---- */

/* "--fsdp-version" as the key it stands for; false: it is none that matters. */
static bool key_of(const char *name, size_t length, char *key, size_t size)
{
    char plain[96];
    if (length < 3 || length - 2 >= sizeof plain)
        return false;
    snprintf(plain, sizeof plain, "%.*s", (int)(length - 2), name + 2);
    for (char *c = plain; *c != '\0'; c++)
        *c = *c == '-' ? '_' : *c;
    const char *section = strncmp(plain, "fsdp_", 5) == 0                  ? "fsdp_config."
                          : strncmp(plain, "parallelism_config_", 19) == 0 ? "parallelism_config."
                          : strcmp(plain, "zero_stage") == 0 || strncmp(plain, "offload_", 8) == 0 ||
                                  strcmp(plain, "deepspeed_config_file") == 0
                              ? "deepspeed_config."
                              : "";
    snprintf(key, size, "%s%s", section, plain);
    return *section != '\0' || strcmp(plain, "num_processes") == 0 || strcmp(plain, "num_machines") == 0 ||
           strcmp(plain, "mixed_precision") == 0;
}

static const char *type_of(const char *flag)
{
    return strcmp(flag, "--use_fsdp") == 0        ? "FSDP"
           : strcmp(flag, "--use_deepspeed") == 0 ? "DEEPSPEED"
           : strcmp(flag, "--multi_gpu") == 0     ? "MULTI_GPU"
                                                  : NULL;
}

static enum tpp_code apply_options(struct tpp_shell_words words, struct tpp_config *config, struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    for (size_t i = 0; i < words.count && code == TPP_OK; i++) {
        char key[128];
        const struct tpp_shell_word *word = &words.items[i];
        const char *equals = strchr(word->text, '='), *type = type_of(word->text);
        const size_t length = strcspn(word->text, "=");
        if (type != NULL) {
            code = tpp_config_override(config, "distributed_type", type, word->line, err);
        } else if (strncmp(word->text, "--", 2) == 0 && key_of(word->text, length, key, sizeof key)) {
            if (equals == NULL && i + 1 < words.count)
                word = &words.items[++i];
            code = tpp_config_override(config, key, equals != NULL ? equals + 1 : word->text, word->line, err);
        }
    }
    return code;
}

static const struct tpp_shell_word *config_word(struct tpp_shell_words words, const char **path)
{
    for (size_t i = 0; i < words.count; i++) {
        const char *text = words.items[i].text;
        if (strncmp(text, "--config_file=", 14) == 0 || strncmp(text, "--config-file=", 14) == 0) {
            *path = text + 14;
            return &words.items[i];
        }
        if ((strcmp(text, "--config_file") == 0 || strcmp(text, "--config-file") == 0) && i + 1 < words.count) {
            *path = words.items[i + 1].text;
            return &words.items[i + 1];
        }
    }
    return NULL;
}

static void set_world(const struct tpp_accelerate_settings *s, const struct tpp_config *config,
                      struct tpp_launch_line *line)
{
    const int64_t machines = tpp_size_between(s->num_machines);
    if (has(config, "num_machines")) {
        line->nodes = machines;
        line->nodes_line = tpp_config_line(config, "num_machines");
    }
    if (s->num_processes >= machines && s->num_processes <= TPP_RULE_MAX_SIZE && s->num_processes % machines == 0) {
        line->ranks_per_node = s->num_processes / machines;
        line->ranks_line = tpp_config_line(config, "num_processes");
    }
}

enum tpp_code tpp_accelerate_read(struct tpp_launch_line *line, const struct tpp_shell_script *script,
                                  struct tpp_megatron_settings *settings, struct tpp_problems *problems,
                                  struct tpp_error *err)
{
    struct tpp_accelerate_settings s = tpp_accelerate_defaults();
    struct tpp_config *config = NULL;
    const char *path = "";
    const struct tpp_shell_word *word = config_word(line->launcher_options, &path);
    enum tpp_code code =
        word != NULL ? tpp_config_of_script(script, word, path, TPP_CONFIG_YAML, &config, err) : TPP_OK;
    if (code == TPP_OK && config == NULL) {
        if (word != NULL)
            tpp_problems_add(problems, "unknown-config", TPP_SEVERITY_WARNING, word->line,
                             "put it beside the script, or write it there with a here-document, to have it checked",
                             "the configuration is not written by the script, and not beside it: %.150s", path);
        code = tpp_config_read("{}", 2, path, TPP_CONFIG_YAML, &config, err);
    }
    if (code == TPP_OK)
        code = apply_options(line->launcher_options, config, err);
    if (code == TPP_OK) {
        tpp_config_keys_read(&tpp_accelerate_table, config, &s, &settings->is_incomplete, problems);
        set_world(&s, config, line);
        apply(&s, config, line->nodes * line->ranks_per_node, tpp_size_between(line->nodes), settings, problems);
    }
    tpp_config_free(config);
    return code;
}

/* ---- a file alone ---- */

static enum tpp_code read(const struct tpp_configuration_request *request, struct tpp_configuration_reading *out,
                          struct tpp_problems *problems, struct tpp_error *err)
{
    struct tpp_accelerate_settings s = tpp_accelerate_defaults();
    struct tpp_megatron_settings settings = {.rules = tpp_rule_settings_defaults(TPP_FRAMEWORK_HF_TRAINER)};
    bool is_incomplete = false;
    (void)err;
    memset(out, 0, sizeof *out);
    out->config = request->config;
    tpp_config_keys_read(&tpp_accelerate_table, request->config, &s, &is_incomplete, problems);
    const int64_t processes = request->world_size > 0 ? request->world_size : s.num_processes > 0 ? s.num_processes : 0;
    apply(&s, request->config, processes, tpp_size_between(s.num_machines), &settings, problems);
    tpp_problems_add(
        problems, "no-prediction", TPP_SEVERITY_INFO, 0, "check the script that runs accelerate launch with it",
        "a step cannot be predicted from the file alone: batch, length and model are options of the program");
    out->is_world_known = processes > 0;
    if (is_incomplete || processes == 0 || processes > TPP_RULE_MAX_SIZE || settings.rules.fsdp_version == 0)
        return TPP_OK;
    out->rules = settings.rules;
    out->rules.world_size = processes;
    out->rules.micro_batch_size = 1;
    out->rules.sequence_length = out->rules.max_position_embeddings = 2 * tpp_size_between(s.context);
    if (request->model != NULL) {
        out->rules.num_attention_heads = request->model->num_attention_heads;
        out->rules.num_query_groups = request->model->num_query_groups;
        out->rules.group_query_attention = true;
    } else {
        out->rules.num_attention_heads = tpp_size_between(out->rules.tensor_parallel);
    }
    out->rules.num_layers = out->rules.num_layers < 1 ? 1 : out->rules.num_layers;
    out->rules.hidden_size = out->rules.hidden_size < 1 ? 1 : out->rules.hidden_size;
    return TPP_OK;
}

static const struct tpp_rule_keys rule_keys[] = {
    {"world", {"num_processes"}},
    {"dp", {SIZES("dp_shard_size"), SIZES("dp_replicate_size"), "num_processes"}},
    {"instances", {SIZES("dp_replicate_size"), FSDP("sharding_strategy")}},
    {"tp", {SIZES("tp_size")}},
    {"cp", {SIZES("cp_size")}},
    {NULL, {NULL}},
};

const struct tpp_configuration tpp_configuration_accelerate = {
    .framework = TPP_FRAMEWORK_HF_TRAINER,
    .leaves_options = true,
    .is_own = is_own,
    .read = read,
    .rule_keys = rule_keys,
};
