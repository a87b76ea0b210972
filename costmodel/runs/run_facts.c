#include "costmodel/runs/run_facts.h"

#include <string.h>
#include <strings.h>

#define MAX_COUNT (UINT64_C(1) << 40)

bool tpp_run_mentions(const char *text, const char *word)
{
    const size_t length = strlen(word);
    for (; *text != '\0'; text++)
        if (strncasecmp(text, word, length) == 0)
            return true;
    return length == 0;
}

/* Members that the rows leave out, set to null, or (seldom) fill with text where the others have a number. */

static enum tpp_code get_text(struct tpp_json object, const char *name, const char **out, struct tpp_error *err)
{
    *out = "";
    return tpp_json_get_string(object, name, out, err);
}

static enum tpp_code get_count(struct tpp_json object, const char *name, uint64_t *out, struct tpp_error *err)
{
    *out = 0;
    return tpp_json_get_u64(object, name, 0, MAX_COUNT, out, err);
}

static enum tpp_code get_answer(struct tpp_json object, const char *name, enum tpp_run_answer *out,
                                struct tpp_error *err)
{
    struct tpp_json value;
    *out = TPP_RUN_UNSAID;
    if (!tpp_json_member(object, name, &value))
        return TPP_OK;
    bool yes = false;
    enum tpp_code code = tpp_json_as_bool(value, &yes, err);
    if (code == TPP_OK)
        *out = yes ? TPP_RUN_YES : TPP_RUN_NO;
    return code;
}

/* A text where one is given, "" for a list, an object or a number. */
static const char *text_or_nothing(struct tpp_json object, const char *name)
{
    struct tpp_json value;
    const char *text = "";
    if (tpp_json_member(object, name, &value) && tpp_json_is_string(value))
        (void)tpp_json_as_string(value, &text, NULL);
    return text;
}

/* A group size; "all dp" and the like are 0. */
static uint64_t group_or_nothing(struct tpp_json object, const char *name)
{
    struct tpp_json value;
    uint64_t size = 0;
    if (tpp_json_member(object, name, &value) && tpp_json_is_number(value))
        (void)tpp_json_as_u64(value, 0, MAX_COUNT, &size, NULL);
    return size;
}

static bool is_present(struct tpp_json object, const char *name)
{
    struct tpp_json value;
    return tpp_json_member(object, name, &value);
}

enum tpp_code tpp_run_facts_read_measured(struct tpp_json row, struct tpp_run_facts *facts, struct tpp_error *err)
{
    memset(facts, 0, sizeof *facts);
    facts->id = facts->memory_unit = facts->memory_kind = "";
    if (!tpp_json_is_object(row))
        return tpp_json_fail(row, err, TPP_E_TYPE, "one JSON object a line", "a run must be an object");
    struct tpp_json measured;
    enum tpp_code code = tpp_json_need_string(row, "id", &facts->id, err);
    facts->complete = true; /* runs of one's own need not say so */
    if (code == TPP_OK)
        code = tpp_json_get_bool(row, "complete", &facts->complete, err);
    if (code == TPP_OK)
        code = tpp_json_need_object(row, "measured", &measured, err);
    if (code != TPP_OK)
        return code;
    facts->is_published = is_present(row, "url_or_repo_path");
    facts->suspect = is_present(row, "suspect");
    facts->remeasured = is_present(row, "remeasured_by");
    code = tpp_json_get_number(measured, "step_time_s", 0, 1e9, &facts->step_seconds, err);
    if (code == TPP_OK)
        code = tpp_json_get_number(measured, "peak_mem_gb", 0, 1e9, &facts->peak_memory, err);
    if (code == TPP_OK)
        code = get_text(measured, "mem_unit", &facts->memory_unit, err);
    if (code == TPP_OK)
        code = get_text(measured, "mem_kind", &facts->memory_kind, err);
    if (code == TPP_OK)
        code = get_answer(measured, "oom", &facts->out_of_memory, err);
    return code;
}

static enum tpp_code read_texts(struct tpp_json row, struct tpp_run_facts *facts, struct tpp_error *err)
{
    const struct {
        const char *name;
        const char **out;
    } texts[] = {
        {"source", &facts->source},
        {"repo", &facts->repository},
        {"framework", &facts->framework},
        {"notes", &facts->notes},
        {"attention_impl", &facts->attention},
        {"precision", &facts->precision},
        {"precision_detail", &facts->precision_detail},
        {"task", &facts->task},
        {"schedule", &facts->schedule},
        {"schedule_detail", &facts->schedule_detail},
        {"recompute", &facts->recompute},
    };
    enum tpp_code code = TPP_OK;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && code == TPP_OK; i++)
        code = get_text(row, texts[i].name, texts[i].out, err);
    return code;
}

static enum tpp_code read_counts(struct tpp_json object, const char *const *names, uint64_t *const *outs, size_t count,
                                 struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    for (size_t i = 0; i < count && code == TPP_OK; i++)
        code = get_count(object, names[i], outs[i], err);
    return code;
}

/* Experts, latent attention and multi-token prediction, where the model has them. */
static enum tpp_code read_parts(struct tpp_json object, struct tpp_run_model_facts *model, struct tpp_error *err)
{
    static const char *const expert_names[] = {"experts",    "topk",         "moe_ffn",       "shared",
                                               "shared_ffn", "dense_layers", "moe_layer_freq"};
    uint64_t *const expert_outs[] = {&model->experts,        &model->experts_per_token, &model->expert_ffn,
                                     &model->shared_experts, &model->shared_ffn,        &model->dense_layers,
                                     &model->expert_period};
    static const char *const latent_names[] = {"q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim",
                                               "v_head_dim"};
    uint64_t *const latent_outs[] = {&model->q_lora_rank, &model->kv_lora_rank, &model->qk_head_dim,
                                     &model->qk_rope_head_dim, &model->v_head_dim};
    struct tpp_json part;
    enum tpp_code code = get_count(object, "mtp_layers", &model->mtp_layers, err);
    if (code == TPP_OK && tpp_json_member(object, "moe", &part) && tpp_json_is_object(part))
        code = read_counts(part, expert_names, expert_outs, sizeof expert_outs / sizeof expert_outs[0], err);
    if (code == TPP_OK && tpp_json_member(object, "mla", &part) && tpp_json_is_object(part))
        code = read_counts(part, latent_names, latent_outs, sizeof latent_outs / sizeof latent_outs[0], err);
    return code;
}

static enum tpp_code read_model(struct tpp_json row, struct tpp_run_model_facts *model, struct tpp_error *err)
{
    static const char *const names[] = {"layers",     "hidden", "heads",   "kv_heads",      "head_dim",
                                        "ffn_hidden", "vocab",  "seq_len", "sliding_window"};
    uint64_t *const outs[] = {&model->layers,   &model->hidden,   &model->heads,
                              &model->kv_heads, &model->head_dim, &model->ffn_hidden,
                              &model->vocab,    &model->sequence, &model->sliding_window};
    struct tpp_json object;
    enum tpp_code code = tpp_json_need_object(row, "model", &object, err);
    if (code == TPP_OK)
        code = read_counts(object, names, outs, sizeof outs / sizeof outs[0], err);
    if (code == TPP_OK)
        code = get_answer(object, "gated_mlp", &model->gated, err);
    if (code == TPP_OK)
        code = get_answer(object, "tied_embeddings", &model->tied, err);
    if (code == TPP_OK)
        code = get_answer(object, "bias", &model->bias, err);
    if (code == TPP_OK)
        code = get_answer(object, "qk_norm", &model->qk_norm, err);
    if (code == TPP_OK)
        code = tpp_json_get_number(object, "dropout", 0, 1, &model->dropout, err);
    if (code != TPP_OK)
        return code;
    model->name = text_or_nothing(object, "name");
    model->family = text_or_nothing(object, "family");
    model->position = text_or_nothing(object, "pos_emb");
    model->activation = text_or_nothing(object, "activation");
    model->window_pattern = text_or_nothing(object, "sliding_window_pattern");
    model->has_dropout = is_present(object, "dropout");
    model->has_experts = is_present(object, "moe");
    struct tpp_json latent;
    bool is_latent = false;
    if (tpp_json_member(object, "mla", &latent) && tpp_json_as_bool(latent, &is_latent, NULL) != TPP_OK)
        is_latent = true; /* an object with the ranks */
    model->has_latent_attention = is_latent;
    return read_parts(object, model, err);
}

/* "cpu_offload" is true/false, a number of layers whose activations are offloaded, or a text; only a plain true is an optimizer
 * on the host. */
static void read_offload(struct tpp_json object, struct tpp_run_parallel_facts *parallel)
{
    struct tpp_json value;
    bool yes = false;
    double number = 0;
    if (tpp_json_member(object, "cpu_offload", &value)) {
        if (tpp_json_as_bool(value, &yes, NULL) == TPP_OK)
            parallel->offloads_optimizer = yes;
        else if (tpp_json_as_number(value, -1e18, 1e18, &number, NULL) == TPP_OK)
            parallel->offloaded_layers = number > 0 ? (uint64_t)number : 0;
        else
            yes = true;
    }
    bool activations = false;
    if (tpp_json_member(object, "act_offload", &value) && tpp_json_as_bool(value, &activations, NULL) == TPP_OK &&
        activations)
        parallel->offloads_optimizer = false;
    parallel->offloads = yes || activations;
}

static enum tpp_code read_parallel(struct tpp_json row, struct tpp_run_parallel_facts *parallel, struct tpp_error *err)
{
    static const char *const names[] = {"tp", "pp", "vp", "dp", "cp", "ulysses", "zero_stage", "ep", "etp"};
    uint64_t *const outs[] = {&parallel->tensor,  &parallel->pipeline, &parallel->chunks,    &parallel->data,
                              &parallel->context, &parallel->ulysses,  &parallel->zero_stage,
                              &parallel->expert,  &parallel->expert_tensor};
    struct tpp_json object;
    enum tpp_code code = tpp_json_need_object(row, "par", &object, err);
    if (code == TPP_OK)
        code = read_counts(object, names, outs, sizeof outs / sizeof outs[0], err);
    if (code == TPP_OK)
        code = get_answer(object, "sp", &parallel->sequence_parallel, err);
    if (code == TPP_OK)
        code = get_answer(object, "fsdp", &parallel->fsdp, err);
    if (code == TPP_OK)
        code = get_answer(object, "distributed_optimizer", &parallel->distributed_optimizer, err);
    if (code == TPP_OK)
        code = get_text(object, "sharding", &parallel->sharding, err);
    if (code != TPP_OK)
        return code;
    parallel->has_zero_stage = is_present(object, "zero_stage");
    parallel->zero_group = group_or_nothing(object, "zero1_group");
    parallel->fsdp_group = group_or_nothing(object, "fsdp_group");
    read_offload(object, parallel);
    return TPP_OK;
}

static enum tpp_code read_hardware(struct tpp_json row, struct tpp_run_facts *facts, struct tpp_error *err)
{
    struct tpp_json object;
    enum tpp_code code = tpp_json_need_object(row, "hw", &object, err);
    if (code == TPP_OK)
        code = get_text(object, "gpu", &facts->gpu, err);
    if (code == TPP_OK)
        code = get_text(object, "inter", &facts->network, err);
    if (code == TPP_OK)
        code = get_text(object, "inter_assumed", &facts->network_assumed, err);
    if (code == TPP_OK)
        code = get_count(object, "gpus", &facts->num_gpus, err);
    if (code == TPP_OK)
        code = get_count(object, "gpus_per_node", &facts->gpus_per_node, err);
    return code;
}

static enum tpp_code read_batch(struct tpp_json row, struct tpp_run_facts *facts, struct tpp_error *err)
{
    struct tpp_json object;
    enum tpp_code code = tpp_json_need_object(row, "batch", &object, err);
    if (code == TPP_OK)
        code = get_count(object, "global", &facts->global_batch, err);
    if (code == TPP_OK)
        code = get_count(object, "micro", &facts->micro_batch, err);
    if (code == TPP_OK)
        code = get_count(object, "grad_accum", &facts->num_micro_batches, err);
    return code;
}

/* "recompute_detail" is a text or a list of Megatron's module names ("core attention" is one of other sources). */
static void read_recompute_detail(struct tpp_json row, struct tpp_run_facts *facts)
{
    struct tpp_json value, item;
    const char *name;
    facts->recompute_detail = text_or_nothing(row, "recompute_detail");
    if (!tpp_json_member(row, "recompute_detail", &value) || !tpp_json_is_array(value))
        return;
    for (size_t i = 0; i < tpp_json_size(value); i++) {
        if (!tpp_json_at(value, i, &item, NULL) || tpp_json_as_string(item, &name, NULL) != TPP_OK)
            continue;
        uint32_t bit = 0;
        if (tpp_run_mentions(name, "core attention"))
            bit = TPP_MODULE_CORE_ATTENTION;
        else if (!tpp_recompute_module_parse(name, &bit))
            facts->has_unknown_module = true;
        facts->recompute_modules |= bit;
    }
}

enum tpp_code tpp_run_facts_read(struct tpp_json row, struct tpp_run_facts *facts, struct tpp_error *err)
{
    struct tpp_json extra;
    enum tpp_code code = read_texts(row, facts, err);
    if (code == TPP_OK)
        code = get_count(row, "year", &facts->year, err);
    if (code == TPP_OK)
        code = get_answer(row, "flash_attention", &facts->flash_attention, err);
    if (code == TPP_OK)
        code = read_model(row, &facts->model, err);
    if (code == TPP_OK)
        code = read_parallel(row, &facts->parallel, err);
    if (code == TPP_OK)
        code = read_hardware(row, facts, err);
    if (code == TPP_OK)
        code = read_batch(row, facts, err);
    if (code != TPP_OK)
        return code;
    facts->mixed_precision_mode = "";
    if (tpp_json_member(row, "extra", &extra) && tpp_json_is_object(extra))
        facts->mixed_precision_mode = text_or_nothing(extra, "mp_mode");
    read_recompute_detail(row, facts);
    return TPP_OK;
}
