/* deepspeed_config.c - see deepspeed_config.h; launch formats, section 3. */
#include "planner/launch/deepspeed_config.h"

#include "costmodel/base/json_read.h"
#include "planner/launch/deepspeed_keys.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct tpp_shell_file *find_file(const struct tpp_shell_script *script, const char *path)
{
    size_t count;
    const struct tpp_shell_file *files = tpp_shell_files(script, &count);
    for (size_t i = count; i > 0; i--) { /* the last one written stays */
        if (strcmp(files[i - 1].path.text, path) == 0)
            return &files[i - 1];
    }
    return NULL;
}

/* A whole number that DeepSpeed takes (5e8 is one); UNSET for "auto" and anything else. */
static int64_t whole(struct tpp_json object, const char *name)
{
    double value = 0;
    struct tpp_json member;
    if (!tpp_json_member(object, name, &member) || !tpp_json_is_number(member) ||
        tpp_json_as_number(member, 0, 1e12, &value, NULL) != TPP_OK)
        return TPP_RULE_UNSET;
    return (int64_t)value;
}

static bool is_enabled(struct tpp_json root, const char *name)
{
    struct tpp_json object;
    bool enabled = false;
    return tpp_json_member(root, name, &object) && tpp_json_is_object(object) &&
           tpp_json_get_bool(object, "enabled", &enabled, NULL) == TPP_OK && enabled;
}

static bool offloads(struct tpp_json zero, const char *name)
{
    struct tpp_json object;
    const char *device = "none";
    return tpp_json_member(zero, name, &object) && tpp_json_is_object(object) &&
           tpp_json_get_string(object, "device", &device, NULL) == TPP_OK && strcmp(device, "none") != 0;
}

/* Something else than a number, which another program may fill in. */
static bool is_open(struct tpp_json root, const char *name)
{
    struct tpp_json member;
    return tpp_json_member(root, name, &member) && !tpp_json_is_number(member);
}

/* The old switch, true or false. */
static bool is_switched_on(struct tpp_json zero, const char *name)
{
    bool is_on = false;
    return tpp_json_get_bool(zero, name, &is_on, NULL) == TPP_OK && is_on;
}

/* One of the names that DeepSpeed knows, in any case for the type of transfers; another one is refused. */
static enum tpp_deepspeed_type type_of(struct tpp_json object, const char *name, uint32_t line,
                                       struct tpp_problems *problems)
{
    static const char *const names[] = {"", "fp32", "fp16", "bf16"};
    const bool is_transfer = strcmp(name, "communication_data_type") == 0;
    const char *text = "";
    struct tpp_json member;
    if (!tpp_json_member(object, name, &member) || tpp_json_get_string(object, name, &text, NULL) != TPP_OK)
        return TPP_DEEPSPEED_TYPE_UNSET; /* null, too */
    for (unsigned i = 1; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) == 0 || (is_transfer && strcasecmp(text, names[i]) == 0))
            return (enum tpp_deepspeed_type)i;
    }
    tpp_problems_add(problems, "bad-value", TPP_SEVERITY_ERROR, line, "it takes fp32, fp16 or bf16",
                     "%s of the DeepSpeed configuration does not take \"%.60s\"", name, text);
    return TPP_DEEPSPEED_TYPE_UNSET;
}

/* Without a ZeRO stage the two types must be one since DeepSpeed's pull request 7515 of August 2025. */
static void read_types(struct tpp_json root, struct tpp_deepspeed_config *config, struct tpp_problems *problems)
{
    struct tpp_json types;
    config->reduces_in = type_of(root, "communication_data_type", config->line, problems);
    if (tpp_json_member(root, "data_types", &types) && tpp_json_is_object(types))
        config->sums_in = type_of(types, "grad_accum_dtype", config->line, problems);
    const enum tpp_deepspeed_type own = config->fp16 ? TPP_DEEPSPEED_FP16 : TPP_DEEPSPEED_BF16;
    if ((config->fp16 || config->bf16) && config->sums_in != TPP_DEEPSPEED_TYPE_UNSET && config->sums_in != own &&
        config->zero_stage == 0)
        tpp_problems_add(problems, "DS", TPP_SEVERITY_WARNING, config->line,
                         "use ZeRO stage 1 or above, or take grad_accum_dtype out",
                         "without a ZeRO stage newer DeepSpeed refuses a grad_accum_dtype other than the weights'");
}

/* DS-10: 16-bit master weights are ZeRO's. */
static void judge_master_weights(struct tpp_json root, const struct tpp_deepspeed_config *config,
                                 struct tpp_problems *problems)
{
    static const char *const keys[][2] = {{"fp16", "fp16_master_weights_and_grads"},
                                          {"bf16", "bf16_master_weights_and_grads"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct tpp_json object;
        if (config->zero_stage == 0 && tpp_json_member(root, keys[i][0], &object) && tpp_json_is_object(object) &&
            is_switched_on(object, keys[i][1]))
            tpp_problems_add(problems, "DS-10", TPP_SEVERITY_ERROR, config->line,
                             "use ZeRO stage 1 or above, or take it out", "%s needs a ZeRO stage", keys[i][1]);
    }
}

void tpp_deepspeed_config_take(struct tpp_json root, struct tpp_deepspeed_config *config, struct tpp_problems *problems)
{
    struct tpp_json zero;
    int64_t stage = TPP_RULE_UNSET;
    config->is_known = true;
    config->train_batch_size = whole(root, "train_batch_size");
    config->micro_batch_size = whole(root, "train_micro_batch_size_per_gpu");
    config->accumulation = whole(root, "gradient_accumulation_steps");
    config->is_batch_open = is_open(root, "train_batch_size") || is_open(root, "train_micro_batch_size_per_gpu") ||
                            is_open(root, "gradient_accumulation_steps");
    config->fp16 = is_enabled(root, "fp16");
    config->bf16 = is_enabled(root, "bf16");
    const bool has_zero = tpp_json_member(root, "zero_optimization", &zero) && tpp_json_is_object(zero);
    if (has_zero)
        stage = whole(zero, "stage");
    config->zero_stage = stage == TPP_RULE_UNSET ? 0 : stage;
    read_types(root, config, problems);
    judge_master_weights(root, config, problems);
    if (!has_zero)
        return;
    tpp_deepspeed_keys_judge(zero, config->line, problems);
    config->reduce_bucket_size = whole(zero, "reduce_bucket_size");
    config->allgather_bucket_size = whole(zero, "allgather_bucket_size");
    struct tpp_json overlap;
    config->has_overlap = tpp_json_member(zero, "overlap_comm", &overlap) &&
                          tpp_json_get_bool(zero, "overlap_comm", &config->overlap, NULL) == TPP_OK;
    config->offloads_optimizer = offloads(zero, "offload_optimizer") || is_switched_on(zero, "cpu_offload");
    struct tpp_json offload;
    config->offload_ratio = 1;
    if (config->offloads_optimizer && tpp_json_member(zero, "offload_optimizer", &offload))
        tpp_json_get_number(offload, "ratio", 0, 1, &config->offload_ratio, NULL);
    config->offloads_parameters = offloads(zero, "offload_param") || is_switched_on(zero, "cpu_offload_param");
}

static void parse(const char *text, uint32_t line, bool is_partial, struct tpp_deepspeed_config *config,
                  struct tpp_problems *problems)
{
    struct tpp_json_document *document;
    struct tpp_error err = {.code = TPP_OK};
    config->line = line;
    if (tpp_json_parse(text, strlen(text), "ds_config", &document, &err) != TPP_OK) {
        const bool is_doubled = strchr(err.where, '#') != NULL; /* else line:column */
        tpp_problems_add(problems,
                         is_partial   ? "unknown-config"
                         : is_doubled ? "DS-11"
                                      : "bad-config",
                         is_partial ? TPP_SEVERITY_INFO : TPP_SEVERITY_ERROR, line, err.hint,
                         "the DeepSpeed configuration of the script cannot be read: %s", err.message);
        return;
    }
    tpp_deepspeed_config_take(tpp_json_root(document), config, problems);
    tpp_json_document_free(document);
}

void tpp_deepspeed_config_read(const struct tpp_argument *argument, const struct tpp_shell_script *script,
                               struct tpp_deepspeed_config *config, struct tpp_problems *problems)
{
    char *text;
    size_t length;
    if (argument == NULL || argument->num_values == 0 || script == NULL)
        return;
    const struct tpp_shell_word *path = &argument->values[0];
    const struct tpp_shell_file *file = find_file(script, path->text);
    if (file != NULL) {
        parse(file->content.text, file->content.line, file->content.note != 0, config, problems);
    } else if (tpp_shell_open(script, path, &text, &length)) {
        parse(text, argument->word->line, false, config, problems);
        free(text);
    } else {
        tpp_problems_add(problems, "unknown-config", TPP_SEVERITY_INFO, argument->word->line,
                         "put it beside the script, or write it there with a here-document, to have it checked",
                         "%.120s is not written by the script, and not beside it: the options alone are checked",
                         path->text);
    }
}
