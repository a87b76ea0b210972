#include "costmodel/model/model.h"

#include "costmodel/model/model_counts.h"
#include "costmodel/model/model_fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* TPP_E_RANGE with `where` = "model.<field>". */
#define REFUSE(err, field, hint, ...) tpp_fail(err, TPP_E_RANGE, "model." field, hint, __VA_ARGS__)

static enum tpp_code check_number(const struct tpp_model_field *field, double value, struct tpp_error *err)
{
    if (isfinite(value) && value >= field->min && value <= field->max)
        return TPP_OK;
    char where[96], hint[96];
    snprintf(where, sizeof(where), "model.%s", field->name);
    snprintf(hint, sizeof(hint), "give a value from %.15g to %.15g", field->min, field->max);
    return tpp_fail(err, TPP_E_RANGE, where, hint, "%s is %.15g", field->name, value);
}

static unsigned count_names(const char *const *names)
{
    unsigned count = 0;
    while (names[count] != NULL)
        count++;
    return count;
}

static enum tpp_code check_choice(const struct tpp_model_field *field, unsigned value, struct tpp_error *err)
{
    if (value < count_names(tpp_model_field_names(field->kind)))
        return TPP_OK;
    char where[96];
    snprintf(where, sizeof(where), "model.%s", field->name);
    return tpp_fail(err, TPP_E_RANGE, where, "use a value of the enumeration", "%s is %u", field->name, value);
}

static enum tpp_code check_field(const struct tpp_model *model, const struct tpp_model_field *field,
                                 struct tpp_error *err)
{
    const char *place = (const char *)model + field->offset;
    uint32_t count;
    unsigned choice;
    double number;
    switch (field->kind) {
    case TPP_FIELD_U32:
        memcpy(&count, place, sizeof(count));
        return check_number(field, count, err);
    case TPP_FIELD_NUMBER:
        memcpy(&number, place, sizeof(number));
        return check_number(field, number, err);
    case TPP_FIELD_NORM:
    case TPP_FIELD_ACTIVATION:
    case TPP_FIELD_POSITION:
        memcpy(&choice, place, sizeof(choice)); /* an enum without negative values is an unsigned */
        return check_choice(field, choice, err);
    case TPP_FIELD_TEXT:
        if (memchr(place, '\0', field->size) == NULL)
            return tpp_fail(err, TPP_E_RANGE, "model", NULL, "%s has no end", field->name);
        return TPP_OK;
    case TPP_FIELD_BOOL:
        break;
    }
    return TPP_OK;
}

static enum tpp_code check_attention(const struct tpp_model *model, struct tpp_error *err)
{
    if (model->num_attention_heads % model->num_query_groups != 0)
        return REFUSE(err, "num_query_groups", "the groups must divide the heads",
                      "%" PRIu32 " query groups do not divide %" PRIu32 " attention heads", model->num_query_groups,
                      model->num_attention_heads);
    const uint64_t head = model->head_dim > model->v_head_dim ? model->head_dim : model->v_head_dim;
    if (head * model->num_attention_heads > TPP_MODEL_MAX_WIDTH)
        return REFUSE(err, "head_dim", "all heads together may be 2^24 wide",
                      "%" PRIu32 " heads of %" PRIu64 " elements", model->num_attention_heads, head);
    if (model->qk_norm_elements > 0 && !model->qk_norm)
        return REFUSE(err, "qk_norm_elements", "set qk_norm, or give 0 elements",
                      "%" PRIu32 " elements of query and key norms in a model without them", model->qk_norm_elements);
    if ((model->sliding_window > 0) != (model->sliding_window_layers > 0))
        return REFUSE(err, "sliding_window_layers", "give a window and the number of layers that use it, or neither",
                      "a sliding window of %" PRIu32 " tokens in %" PRIu32 " layers", model->sliding_window,
                      model->sliding_window_layers);
    if (model->sliding_window_layers > model->num_layers)
        return REFUSE(err, "sliding_window_layers", NULL, "%" PRIu32 " layers with a window in a model of %" PRIu32,
                      model->sliding_window_layers, model->num_layers);
    return TPP_OK;
}

static enum tpp_code check_latent(const struct tpp_model *model, struct tpp_error *err)
{
    if (model->kv_lora_rank == 0) {
        if (model->q_lora_rank + model->qk_nope_head_dim + model->qk_rope_head_dim + model->v_head_dim > 0)
            return REFUSE(err, "kv_lora_rank", "give kv_lora_rank, or drop the other sizes of latent attention",
                          "sizes of latent attention without kv_lora_rank");
        return TPP_OK;
    }
    if (model->qk_nope_head_dim == 0 || model->qk_rope_head_dim == 0 || model->v_head_dim == 0)
        return REFUSE(err, "qk_nope_head_dim", "give qk_nope_head_dim, qk_rope_head_dim and v_head_dim, all above 0",
                      "latent attention with head sizes %" PRIu32 ", %" PRIu32 " and %" PRIu32, model->qk_nope_head_dim,
                      model->qk_rope_head_dim, model->v_head_dim);
    if (model->head_dim != model->qk_nope_head_dim + model->qk_rope_head_dim)
        return REFUSE(err, "head_dim", "with latent attention it is qk_nope_head_dim + qk_rope_head_dim",
                      "head_dim is %" PRIu32 ", the parts are %" PRIu32 " and %" PRIu32, model->head_dim,
                      model->qk_nope_head_dim, model->qk_rope_head_dim);
    if (model->num_query_groups != model->num_attention_heads)
        return REFUSE(err, "num_query_groups", "with latent attention it equals num_attention_heads",
                      "%" PRIu32 " query groups with latent attention", model->num_query_groups);
    return TPP_OK;
}

static enum tpp_code check_positions(const struct tpp_model *model, struct tpp_error *err)
{
    const bool is_rope = model->position == TPP_POSITION_ROPE;
    if ((model->position == TPP_POSITION_LEARNED) != (model->learned_position_rows > 0))
        return REFUSE(err, "learned_position_rows", "give rows for learned positions, and only then",
                      "%" PRIu32 " rows of learned positions with position \"%s\"", model->learned_position_rows,
                      tpp_position_name(model->position));
    if (is_rope != (model->rope_theta > 0))
        return REFUSE(err, "rope_theta", "give a base above 0 for rotary positions, and only then",
                      "rope_theta is %g with position \"%s\"", model->rope_theta, tpp_position_name(model->position));
    if (is_rope != (model->rotary_fraction > 0))
        return REFUSE(err, "rotary_fraction", "give a share above 0 for rotary positions, and only then",
                      "rotary_fraction is %g with position \"%s\"", model->rotary_fraction,
                      tpp_position_name(model->position));
    return TPP_OK;
}

static enum tpp_code check_no_experts(const struct tpp_model *model, struct tpp_error *err)
{
    const bool has_sizes = model->experts_per_token > 0 || model->moe_ffn_hidden_size > 0 ||
                           model->shared_expert_hidden_size > 0 || model->first_k_dense > 0 ||
                           model->moe_layer_period > 0;
    if (has_sizes || model->shared_expert_gate || model->router_bias || model->expert_bias)
        return REFUSE(err, "num_experts", "give num_experts, or drop the other settings of experts",
                      "settings of experts without num_experts");
    if (model->ffn_hidden_size == 0)
        return REFUSE(err, "ffn_hidden_size", "give the width of one MLP matrix", "ffn_hidden_size is 0");
    return TPP_OK;
}

static enum tpp_code check_experts(const struct tpp_model *model, struct tpp_error *err)
{
    if (model->num_experts == 0)
        return check_no_experts(model, err);
    if (model->experts_per_token == 0 || model->experts_per_token > model->num_experts)
        return REFUSE(err, "experts_per_token", "give a number from 1 to num_experts",
                      "%" PRIu32 " experts per token of %" PRIu32, model->experts_per_token, model->num_experts);
    if (model->expert_groups > 0 &&
        (model->num_experts % model->expert_groups != 0 || model->groups_per_token == 0 ||
         model->groups_per_token > model->expert_groups ||
         (uint64_t)model->groups_per_token * (model->num_experts / model->expert_groups) < model->experts_per_token))
        return REFUSE(err, "expert_groups", "give groups that divide the experts and hold a token's experts",
                      "%" PRIu32 " of %" PRIu32 " groups of %" PRIu32 " experts cannot be routed to",
                      model->groups_per_token, model->expert_groups, model->num_experts);
    if (model->moe_ffn_hidden_size == 0)
        return REFUSE(err, "moe_ffn_hidden_size", "give the width of one expert matrix", "moe_ffn_hidden_size is 0");
    if (model->moe_layer_period == 0)
        return REFUSE(err, "moe_layer_period", "1 gives every layer experts", "moe_layer_period is 0");
    if (model->shared_expert_gate && model->shared_expert_hidden_size == 0)
        return REFUSE(err, "shared_expert_gate", "give shared_expert_hidden_size, or drop the gate",
                      "a gate for a shared expert that is not there");
    struct tpp_model_counts counts;
    (void)tpp_model_count_checked(model, &counts);
    if (counts.num_moe_layers == 0)
        return REFUSE(err, "first_k_dense", "lower first_k_dense or moe_layer_period, or drop num_experts",
                      "no layer of %" PRIu32 " has experts", model->num_layers);
    if (counts.num_dense_layers > 0 && model->ffn_hidden_size == 0)
        return REFUSE(err, "ffn_hidden_size", "give the width of the dense layers' MLP",
                      "%" PRIu32 " dense layers have no ffn_hidden_size", counts.num_dense_layers);
    return TPP_OK;
}

static enum tpp_code check_total(const struct tpp_model *model, struct tpp_error *err)
{
    struct tpp_model_counts counts;
    if (tpp_model_count_checked(model, &counts))
        return TPP_OK;
    return REFUSE(err, "hidden_size", "check the sizes for a digit too many",
                  "the sizes multiply to more than 2^56 parameters");
}

enum tpp_code tpp_model_check(const struct tpp_model *model, struct tpp_error *err)
{
    static enum tpp_code (*const checks[])(const struct tpp_model *, struct tpp_error *) = {
        check_attention, check_latent, check_positions, check_experts, check_total};
    size_t count;
    const struct tpp_model_field *fields = tpp_model_fields(&count);
    for (size_t i = 0; i < count; i++) {
        enum tpp_code code = check_field(model, &fields[i], err);
        if (code != TPP_OK)
            return code;
    }
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        enum tpp_code code = checks[i](model, err);
        if (code != TPP_OK)
            return code;
    }
    return TPP_OK;
}
