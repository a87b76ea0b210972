#include "cli/answer.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "costmodel/base/units.h"
#include "costmodel/model/model_json.h"
#include "costmodel/model/model_reader.h"
#include "costmodel/model/presets.h"

struct models_arguments {
    bool json;
};

static const struct tpp_option models_options[] = {
    {"json", 0, TPP_OPTION_FLAG, offsetof(struct models_arguments, json), .help = "print one JSON object"},
    {.name = NULL},
};
static const struct tpp_option_part models_parts[] = {{"Output", models_options, 0}, {NULL}};

static enum tpp_code list_as_json(struct tpp_answer *answer, struct tpp_error *err)
{
    struct tpp_json_writer writer;
    size_t count;
    const struct tpp_model *models = tpp_model_presets(&count);
    tpp_answer_begin(&writer);
    struct cJSON *array = tpp_json_add_array(&writer, writer.root, "models");
    for (size_t i = 0; i < count; i++)
        tpp_model_add_json(&models[i], &writer, tpp_json_add_object(&writer, array, NULL));
    return tpp_answer_finish(&writer, answer, err);
}

static const struct tpp_table_column list_columns[] = {
    {"MODEL", true, 0},       {"PARAMETERS", false, 0}, {"ACTIVE", false, 1},  {"LAYERS", false, 2},
    {"HIDDEN", false, 3},     {"HEADS", false, 4},      {"KV", false, 5},      {"FFN", false, 6},
    {"VOCABULARY", false, 7}, {"EXPERTS", false, 8},    {"CONTEXT", false, 9},
};
#define NUM_LIST_COLUMNS (sizeof list_columns / sizeof list_columns[0])

static void append_billions(struct tpp_table *table, uint64_t parameters)
{
    tpp_table_cell(table, parameters < 10000000000u ? "%.3f B" : "%.2f B", (double)parameters * 1e-9);
}

static void append_model_row(struct tpp_table *table, const struct tpp_model *model)
{
    struct tpp_model_counts counts;
    tpp_model_count(model, &counts);
    tpp_table_cell(table, "%s", model->name);
    append_billions(table, counts.total);
    append_billions(table, counts.active);
    tpp_table_cell(table, "%u", model->num_layers);
    tpp_table_cell(table, "%u", model->hidden_size);
    tpp_table_cell(table, "%u", model->num_attention_heads);
    tpp_table_cell(table, "%u", model->num_query_groups);
    tpp_table_cell(table, "%u", model->ffn_hidden_size > 0 ? model->ffn_hidden_size : model->moe_ffn_hidden_size);
    tpp_table_cell(table, "%u", model->vocab_size);
    if (model->num_experts > 0)
        tpp_table_cell(table, "%u of %u", model->experts_per_token, model->num_experts);
    else
        tpp_table_cell(table, "-");
    tpp_table_cell(table, "%u", model->max_position_embeddings);
}

static enum tpp_code list_as_text(struct tpp_answer *answer, struct tpp_error *err)
{
    size_t count;
    const struct tpp_model *models = tpp_model_presets(&count);
    struct tpp_table *table = tpp_table_new(list_columns, NUM_LIST_COLUMNS);
    for (size_t i = 0; i < count && table != NULL; i++)
        append_model_row(table, &models[i]);
    const bool done = table != NULL && tpp_table_append(table, answer->width, &answer->text);
    tpp_table_free(table);
    return done ? TPP_OK : tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
}

static void append_value(struct tpp_text *out, const char *name, const char *value)
{
    tpp_text_format(out, "  %-26s ", name);
    tpp_terminal_append(out, value);
    tpp_text_append(out, "\n");
}

static void append_count(struct tpp_text *out, const char *name, uint64_t value)
{
    char buffer[48];
    append_value(out, name, tpp_format_count(buffer, sizeof buffer, value));
}

/* Lines of a model without experts or latent attention end before these. */
static void append_variants(struct tpp_text *out, const struct tpp_model *model)
{
    if (model->num_experts > 0) {
        append_count(out, "experts", model->num_experts);
        append_count(out, "experts a token", model->experts_per_token);
        if (model->expert_groups > 0) {
            append_count(out, "groups of experts", model->expert_groups);
            append_count(out, "groups a token", model->groups_per_token);
        }
        append_count(out, "width of an expert", model->moe_ffn_hidden_size);
        append_count(out, "width of shared experts", model->shared_expert_hidden_size);
        append_count(out, "dense layers first", model->first_k_dense);
    }
    if (model->kv_lora_rank > 0) {
        append_count(out, "query latent rank", model->q_lora_rank);
        append_count(out, "key/value latent rank", model->kv_lora_rank);
    }
    if (model->sliding_window > 0) {
        append_count(out, "sliding window", model->sliding_window);
        append_count(out, "layers with the window", model->sliding_window_layers);
    }
    if (model->mtp_num_layers > 0)
        append_count(out, "multi-token blocks", model->mtp_num_layers);
}

static void append_shape(struct tpp_text *out, const struct tpp_model *model)
{
    append_count(out, "layers", model->num_layers);
    append_count(out, "hidden size", model->hidden_size);
    append_count(out, "attention heads", model->num_attention_heads);
    append_count(out, "key/value heads", model->num_query_groups);
    append_count(out, "head dimension", model->head_dim);
    append_count(out, "width of the MLP", model->ffn_hidden_size);
    append_value(out, "gated MLP", model->gated_mlp ? "yes" : "no");
    append_count(out, "vocabulary", model->vocab_size);
    append_value(out, "tied embeddings", model->tied_embeddings ? "yes" : "no");
    append_count(out, "longest sequence", model->max_position_embeddings);
    append_value(out, "position", tpp_position_name(model->position));
    append_value(out, "norm", tpp_norm_name(model->norm));
    append_value(out, "activation", tpp_activation_name(model->activation));
    append_variants(out, model);
    if (model->stored_as[0] != '\0')
        append_value(out, "stored as", model->stored_as);
}

static void show_as_text(const struct tpp_model *model, struct tpp_text *out)
{
    struct tpp_model_counts counts;
    tpp_model_count(model, &counts);
    tpp_terminal_append(out, model->name);
    tpp_text_append(out, "\n");
    append_value(out, "family", model->family);
    append_count(out, "parameters", counts.total);
    if (counts.active != counts.total)
        append_count(out, "active parameters", counts.active);
    append_shape(out, model);
    tpp_text_append(out, "  parameters by part\n");
    append_count(out, "  embedding", counts.embedding);
    if (counts.num_dense_layers > 0)
        append_count(out, "  a dense layer", counts.dense_layer);
    if (counts.num_moe_layers > 0)
        append_count(out, "  a layer with experts", counts.moe_layer);
    append_count(out, "  final norm", counts.final_norm);
    append_count(out, "  head", counts.lm_head);
    if (model->stored_as[0] != '\0')
        tpp_text_append(out, "  Training does not keep the quantised weights: predictions assume bf16 weights, or those of "
                             "--precision,\n  and fp32 states.\n");
}

static enum tpp_code run(const void *data, const struct tpp_operands *operands, struct tpp_answer *answer,
                         struct tpp_error *err)
{
    const struct models_arguments *arguments = data;
    struct tpp_model model;
    if (operands->count == 0)
        return arguments->json ? list_as_json(answer, err) : list_as_text(answer, err);
    const enum tpp_code code = tpp_model_find(operands->items[0], &model, err);
    if (code != TPP_OK)
        return code;
    if (!arguments->json) {
        show_as_text(&model, &answer->text);
        return TPP_OK;
    }
    struct tpp_json_writer writer;
    tpp_json_writer_init(&writer); /* nothing that is no key of a model file: the answer can be given as --model */
    tpp_json_add_u64(&writer, writer.root, "schema_version", TPP_JSON_SCHEMA_VERSION);
    tpp_model_add_json(&model, &writer, writer.root);
    return tpp_answer_finish(&writer, answer, err);
}

const struct tpp_command tpp_command_models = {
    .name = "models",
    .summary = "list the shipped models, or show one model in full",
    .about =
        "Lists the models that are shipped. With a name or a Hugging Face config.json, shows that model: its shape "
        "and where its parameters are.",
    .operands = "[NAME|FILE]",
    .max_operands = 1,
    .parts = models_parts,
    .examples = {{"tp-plan models", "what is shipped"},
                 {"tp-plan models --json my-model/config.json", "the parameters of a model of your own"}},
    .arguments_size = sizeof(struct models_arguments),
    .run = run,
};
