/* trainer_fsdp.c - see trainer_fsdp.h; transformers/training_args.py (_process_fsdp_args), and of ms-swift
 * swift/arguments/sft_args.py (_init_fsdp) with its config/fsdp2.json. */
#include "planner/launch/trainer_fsdp.h"

#include "costmodel/base/json_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fsdp {
    bool shards_all, shards_states, is_hybrid, offloads; /* words of --fsdp */
    bool keeps_gathered, checkpoints;                    /* of --fsdp_config */
    unsigned version;
};

static bool has_words(const char *text)
{
    return text[strspn(text, " \t,[]'\"")] != '\0';
}

/* "full_shard auto_wrap"; false at a word that is none of them. */
static bool read_words(const char *text, struct fsdp *fsdp)
{
    for (const char *at = text; *at != '\0';) {
        const size_t length = strcspn(at, " \t,[]'\"");
        const struct {
            const char *name;
            bool *field;
        } words[] = {{"full_shard", &fsdp->shards_all},
                     {"shard_grad_op", &fsdp->shards_states},
                     {"hybrid_shard", &fsdp->shards_all},
                     {"hybrid_shard_zero2", &fsdp->shards_states},
                     {"offload", &fsdp->offloads},
                     {"auto_wrap", NULL},
                     {"no_shard", NULL}};
        bool is_known = length == 0;
        for (size_t i = 0; i < sizeof words / sizeof *words && !is_known; i++) {
            is_known = strncmp(at, words[i].name, length) == 0 && words[i].name[length] == '\0';
            if (is_known && words[i].field != NULL)
                *words[i].field = true;
            if (is_known && strncmp(words[i].name, "hybrid", 6) == 0)
                fsdp->is_hybrid = true;
        }
        if (!is_known)
            return false;
        at += length + (at[length] != '\0');
    }
    return true;
}

/* Keys may have the prefix of accelerate's. */
static bool find_member(struct tpp_json object, const char *name, struct tpp_json *out)
{
    char prefixed[64];
    snprintf(prefixed, sizeof prefixed, "fsdp_%s", name);
    return tpp_json_member(object, name, out) || tpp_json_member(object, prefixed, out);
}

/* "true" is one, too: the Trainer hands texts over to accelerate, which reads them. */
static bool is_true(struct tpp_json object, const char *name, bool otherwise)
{
    struct tpp_json member;
    const char *text = "";
    bool value = otherwise;
    if (!find_member(object, name, &member))
        return otherwise;
    if (tpp_json_is_bool(member))
        tpp_json_as_bool(member, &value, NULL);
    else if (tpp_json_is_string(member) && tpp_json_as_string(member, &text, NULL) == TPP_OK)
        value = strcmp(text, "true") == 0 || strcmp(text, "True") == 0 || strcmp(text, "FULL_SHARD") == 0;
    return value;
}

static void read_config(struct tpp_json object, struct fsdp *fsdp)
{
    struct tpp_json version;
    double number = fsdp->version;
    if (find_member(object, "version", &version) && tpp_json_is_number(version))
        tpp_json_as_number(version, 1, 2, &number, NULL);
    fsdp->version = number >= 2 ? 2 : 1;
    fsdp->checkpoints = is_true(object, "activation_checkpointing", false);
    if (fsdp->version == 2)
        fsdp->keeps_gathered = !is_true(object, "reshard_after_forward", true);
}

/* ms-swift: {"fsdp": "full_shard auto_wrap", "fsdp_config": {...}}, version 2 unless it says another. */
static void read_both(struct tpp_json root, struct fsdp *fsdp)
{
    struct tpp_json inside;
    const char *words = "full_shard auto_wrap";
    tpp_json_get_string(root, "fsdp", &words, NULL);
    read_words(words, fsdp);
    fsdp->version = 2;
    if (tpp_json_member(root, "fsdp_config", &inside) && tpp_json_is_object(inside))
        read_config(inside, fsdp);
}

static void parse(const char *text, const struct tpp_argument *argument, bool is_both, struct fsdp *fsdp,
                  struct tpp_problems *problems)
{
    struct tpp_json_document *document;
    struct tpp_error err = {.code = TPP_OK};
    if (tpp_json_parse(text, strlen(text), "fsdp_config", &document, &err) != TPP_OK) {
        tpp_problems_add(problems, "bad-config", TPP_SEVERITY_ERROR, argument->word->line, err.hint,
                         "the configuration of %s cannot be read: %s", argument->option->name, err.message);
        return;
    }
    if (is_both)
        read_both(tpp_json_root(document), fsdp);
    else
        read_config(tpp_json_root(document), fsdp);
    tpp_json_document_free(document);
}

/* A file that the script writes or that is beside it, or the JSON itself. */
static void read_file(const struct tpp_argument *argument, const struct tpp_shell_script *script, bool is_both,
                      struct fsdp *fsdp, struct tpp_problems *problems)
{
    const struct tpp_shell_word *word = &argument->values[0];
    size_t count, length;
    char *text;
    if (word->text[0] == '{') {
        parse(word->text, argument, is_both, fsdp, problems);
        return;
    }
    const struct tpp_shell_file *files = tpp_shell_files(script, &count);
    for (size_t i = count; i > 0; i--) {
        if (strcmp(files[i - 1].path.text, word->text) == 0) {
            parse(files[i - 1].content.text, argument, is_both, fsdp, problems);
            return;
        }
    }
    if (tpp_shell_open(script, word, &text, &length)) {
        parse(text, argument, is_both, fsdp, problems);
        free(text);
        return;
    }
    tpp_problems_add(problems, "unknown-config", TPP_SEVERITY_WARNING, argument->word->line,
                     "put it beside the script, or write it there with a here-document, to have it checked",
                     "%.120s is not written by the script, and not beside it: FSDP %u without checkpoints is assumed",
                     word->text, fsdp->version);
}

static void judge(const struct fsdp *fsdp, const struct tpp_argument *argument,
                  const struct tpp_megatron_settings *settings, bool is_swift, struct tpp_problems *problems)
{
    const uint32_t line = argument->word->line;
    if (fsdp->shards_all && fsdp->shards_states)
        tpp_problems_add(problems, "AC", TPP_SEVERITY_ERROR, line, "keep one of them",
                         "--fsdp takes one of full_shard and shard_grad_op");
    if (fsdp->offloads && !fsdp->shards_all && !fsdp->shards_states)
        tpp_problems_add(problems, "AC", TPP_SEVERITY_ERROR, line, "add full_shard",
                         "--fsdp offload cannot work on its own");
    if (settings->deepspeed)
        tpp_problems_add(problems, "AC", TPP_SEVERITY_ERROR, line, "take one of them out",
                         "--fsdp and --deepspeed exclude each other");
    if (fsdp->checkpoints && settings->checkpoint_activations && !is_swift)
        tpp_problems_add(problems, "AC", TPP_SEVERITY_ERROR, line, "take one of them out",
                         "the Trainer refuses activation_checkpointing together with --gradient_checkpointing");
}

static void apply(const struct fsdp *fsdp, struct tpp_megatron_settings *settings)
{
    struct tpp_rule_settings *rules = &settings->rules;
    if (fsdp->checkpoints)
        settings->checkpoint_activations = true;
    if (settings->deepspeed || (!fsdp->shards_all && !fsdp->shards_states))
        return; /* no_shard: replicas */
    rules->fsdp_version = fsdp->version;
    rules->zero_stage = 3;
    rules->optimizer_cpu_offload = fsdp->offloads;
    settings->keeps_gathered = fsdp->version == 2 ? fsdp->keeps_gathered : fsdp->shards_states;
    settings->shards_in_node = fsdp->is_hybrid;
}

void tpp_trainer_read_fsdp(const struct tpp_arguments *arguments, const struct tpp_shell_script *script, bool is_swift,
                           struct tpp_megatron_settings *settings, struct tpp_problems *problems)
{
    const struct tpp_argument *argument = tpp_argument_find(arguments, "--fsdp");
    const struct tpp_argument *config = tpp_argument_find(arguments, "--fsdp_config");
    struct fsdp fsdp = {.version = 1};
    if (argument == NULL || argument->num_values == 0 || script == NULL)
        return;
    const char *value = argument->values[0].text;
    if (is_swift && strcmp(value, "fsdp2") == 0) {
        fsdp = (struct fsdp){.version = 2, .shards_all = true, .checkpoints = true};
    } else if (is_swift && argument->values[0].note == 0 && has_words(value)) {
        fsdp = (struct fsdp){.version = 2, .shards_all = true};
        read_file(argument, script, true, &fsdp, problems);
    } else {
        for (size_t i = 0; i < argument->num_values; i++) {
            if (argument->values[i].note == 0 && !read_words(argument->values[i].text, &fsdp))
                tpp_problems_add(problems, "bad-value", TPP_SEVERITY_ERROR, argument->word->line,
                                 "it takes full_shard, shard_grad_op, hybrid_shard, hybrid_shard_zero2, no_shard, "
                                 "offload and auto_wrap",
                                 "--fsdp does not take \"%.80s\"", argument->values[i].text);
        }
        if (config != NULL && config->num_values > 0)
            read_file(config, script, false, &fsdp, problems);
        judge(&fsdp, argument, settings, is_swift, problems);
    }
    apply(&fsdp, settings);
}
