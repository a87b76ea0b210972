/* plan_model.c - the shape of a model as the options of Megatron-LM write it. */
#include "planner/launch/plan_parts.h"

#include <stdio.h>

/* Entries of the tokenizers that are assumed where a script gives none: GPT-2's byte pairs, and Llama 3's. */
#define GPT2_VOCABULARY 50257
#define LARGE_VOCABULARY 128256

/* Launch formats 1.2: 4 h, with --swiglu two thirds of that rounded down to a multiple of 64. */
static int64_t dense_width(const struct tpp_rule_settings *rules)
{
    if (tpp_plan_is_set(rules->ffn_hidden_size))
        return rules->ffn_hidden_size;
    if (rules->hidden_size > TPP_RULE_MAX_SIZE || rules->hidden_size < 0)
        return 0;
    return rules->swiglu ? rules->hidden_size * 8 / 3 / 64 * 64 : 4 * rules->hidden_size;
}

static uint32_t vocabulary(const struct tpp_plan_source *r)
{
    const struct tpp_megatron_settings *s = r->s;
    if (tpp_plan_is_set(s->vocab_size))
        return tpp_plan_size_of(s->vocab_size);
    if (tpp_plan_is_set(s->padded_vocab_size))
        return tpp_plan_size_of(s->padded_vocab_size);
    uint32_t assumed = s->merge_file ? GPT2_VOCABULARY : LARGE_VOCABULARY;
    tpp_problems_add(r->problems, "assumed-vocabulary", TPP_SEVERITY_INFO,
                     tpp_argument_line(r->arguments, "--tokenizer-type"),
                     "write --vocab-size, or give the model with --model",
                     "the tokenizer's size is not written in the script: %u entries are assumed", assumed);
    return assumed;
}

static const char *divisor_option(enum tpp_framework framework)
{
    return framework == TPP_FRAMEWORK_NEMO ? "model.make_vocab_size_divisible_by" : "--make-vocab-size-divisible-by";
}

/* A model that Megatron-Bridge reads from Hugging Face gets the largest power of two up to 128 that divides its
 * vocabulary (MegatronModelBridge.make_vocab_size_divisible_by); 128 is counted on where its recipe decides. */
int64_t tpp_plan_vocabulary_multiple(const struct tpp_plan_source *r, uint32_t vocab_size)
{
    int64_t divisor = r->s->vocabulary_multiple;
    if (r->s->rules.framework == TPP_FRAMEWORK_NEMO && r->s->vocabulary_padding == TPP_MEGATRON_PADDING_ON &&
        tpp_argument_find(r->arguments, divisor_option(TPP_FRAMEWORK_NEMO)) == NULL)
        while (divisor > 1 && vocab_size % divisor != 0)
            divisor /= 2;
    return r->s->vocabulary_padding == TPP_MEGATRON_PADDING_OFF ? 1 : divisor;
}

/* Megatron-Bridge pads where model.should_pad_vocab is true alone (GPTModelProvider.provide): true where it is not. */
static bool judge_unpadded(const struct tpp_plan_source *r, uint32_t vocab_size, int64_t padded)
{
    const enum tpp_megatron_padding padding = r->s->vocabulary_padding;
    const long long ranks = r->s->rules.tensor_parallel;
    const bool is_off = padding == TPP_MEGATRON_PADDING_OFF;
    char hint[160];
    if (padding == TPP_MEGATRON_PADDING_ON)
        return false;
    snprintf(hint, sizeof hint, "set model.should_pad_vocab=true model.make_vocab_size_divisible_by=128: %lld entries",
             (long long)padded);
    if (vocab_size % ranks != 0)
        tpp_problems_add(r->problems, "vocabulary-parts", is_off ? TPP_SEVERITY_ERROR : TPP_SEVERITY_WARNING,
                         tpp_argument_line(r->arguments, "model.should_pad_vocab"), hint,
                         "the vocabulary of %u entries does not divide over tp = %lld, and %s", vocab_size, ranks,
                         is_off ? "is not padded"
                                : "Megatron-Bridge pads it only where the recipe sets model.should_pad_vocab");
    return true;
}

/* Launch formats 1.4: the smallest multiple of divisor * tp that holds the vocabulary. */
void tpp_plan_judge_vocabulary(const struct tpp_plan_source *r, uint32_t vocab_size)
{
    const enum tpp_framework framework = r->s->rules.framework;
    const int64_t divisor = tpp_plan_vocabulary_multiple(r, vocab_size), ranks = r->s->rules.tensor_parallel;
    const uint32_t line = tpp_argument_line(r->arguments, divisor_option(framework));
    if (divisor < 1 || divisor > TPP_RULE_MAX_SIZE || r->s->rules.engine_follows_stages)
        return;
    const int64_t unit = divisor * ranks, padded = (vocab_size + unit - 1) / unit * unit;
    if (framework == TPP_FRAMEWORK_NEMO &&
        judge_unpadded(r, vocab_size, (vocab_size + 128 * ranks - 1) / (128 * ranks) * 128 * ranks))
        return;
    if (divisor % 128 != 0 && (line > 0 || padded != vocab_size))
        tpp_problems_add(r->problems, "odd-vocabulary", TPP_SEVERITY_WARNING, line,
                         line > 0 ? "leave the default of 128" : "set it to 128",
                         "%s %lld pads the vocabulary from %u to %lld entries: the rows of "
                         "a rank are no multiple of 128, on which products run best",
                         divisor_option(framework), (long long)divisor, vocab_size, (long long)padded);
    else if (padded != vocab_size)
        tpp_problems_add(r->problems, "padded-vocabulary", TPP_SEVERITY_INFO, line, "",
                         "the vocabulary is padded from %u to %lld entries, a multiple of %lld * tp: a checkpoint made "
                         "with another tensor-parallel size may not load",
                         vocab_size, (long long)padded, (long long)divisor);
}

static void read_attention(const struct tpp_megatron_settings *s, struct tpp_model *model)
{
    const struct tpp_rule_settings *rules = &s->rules;
    int64_t heads = rules->num_attention_heads;
    model->num_attention_heads = tpp_plan_size_of(heads);
    model->num_query_groups =
        rules->group_query_attention ? tpp_plan_size_of(rules->num_query_groups) : tpp_plan_size_of(heads);
    model->head_dim =
        tpp_plan_size_of(tpp_plan_or_else(rules->kv_channels, heads > 0 ? rules->hidden_size / heads : 0));
    model->qkv_bias = rules->linear_bias || s->qkv_bias;
    model->output_bias = model->mlp_bias = rules->linear_bias;
    model->qk_norm = s->qk_norm;
    model->qk_norm_elements = s->qk_norm ? 2 * model->head_dim : 0;
    if (!rules->multi_latent_attention)
        return;
    model->num_query_groups = model->num_attention_heads;
    model->q_lora_rank = tpp_plan_size_of(s->q_lora_rank);
    model->kv_lora_rank = tpp_plan_size_of(s->kv_lora_rank);
    model->qk_nope_head_dim = tpp_plan_size_of(s->qk_head_dim);
    model->qk_rope_head_dim = tpp_plan_size_of(s->qk_rope_head_dim);
    model->v_head_dim = tpp_plan_size_of(s->v_head_dim);
    model->head_dim = model->qk_nope_head_dim + model->qk_rope_head_dim;
}

static void read_positions(const struct tpp_megatron_settings *s, struct tpp_model *model)
{
    const struct tpp_rule_settings *rules = &s->rules;
    bool is_learned = rules->position == TPP_RULE_POSITION_LEARNED && !s->no_position_embedding && !s->alibi;
    model->max_position_embeddings = tpp_plan_size_of(rules->max_position_embeddings);
    model->position = is_learned ? TPP_POSITION_LEARNED
                      : rules->position == TPP_RULE_POSITION_ROPE || rules->position == TPP_RULE_POSITION_MROPE ||
                              rules->position == TPP_RULE_POSITION_YARN
                          ? TPP_POSITION_ROPE
                          : TPP_POSITION_NONE;
    model->learned_position_rows = is_learned ? model->max_position_embeddings : 0;
    if (s->alibi)
        model->position = TPP_POSITION_ALIBI;
    if (model->position == TPP_POSITION_ROPE) {
        model->rope_theta = s->rotary_base;
        model->rotary_fraction = s->rotary_fraction;
    }
}

static void read_experts(const struct tpp_plan_source *r, struct tpp_model *model)
{
    const struct tpp_rule_settings *rules = &r->s->rules;
    if (!tpp_plan_is_set(rules->num_experts))
        return;
    model->num_experts = tpp_plan_size_of(rules->num_experts);
    model->experts_per_token = tpp_plan_size_of(rules->experts_per_token);
    model->moe_ffn_hidden_size = tpp_plan_size_of(tpp_plan_or_else(rules->moe_ffn_hidden_size, dense_width(rules)));
    model->shared_expert_hidden_size = tpp_plan_size_of(tpp_plan_or_else(rules->shared_expert_hidden_size, 0));
    model->shared_expert_gate = r->s->shared_expert_gate;
    model->moe_layer_period = 1;
    if (r->s->has_pattern) {
        model->first_k_dense = tpp_plan_size_of(r->s->first_dense_layers);
        model->moe_layer_period = tpp_plan_size_of(r->s->moe_layer_period);
    }
    if (!rules->has_dense_layers)
        model->ffn_hidden_size = 0;
    if (!r->s->is_pattern_read)
        tpp_problems_add(r->problems, "layer-pattern", TPP_SEVERITY_INFO,
                         tpp_argument_line(r->arguments, "--moe-layer-freq"), "",
                         "the layers with experts are costed as every %u-th of them; the script's pattern is another",
                         model->moe_layer_period);
}

void tpp_plan_read_model(const struct tpp_plan_source *r, const char *name, struct tpp_model *model)
{
    const struct tpp_rule_settings *rules = &r->s->rules;
    *model = (struct tpp_model){.num_layers = tpp_plan_size_of(rules->num_layers),
                                .hidden_size = tpp_plan_size_of(rules->hidden_size),
                                .ffn_hidden_size = tpp_plan_size_of(dense_width(rules)),
                                .gated_mlp = rules->swiglu || rules->quick_geglu,
                                .norm = rules->rms_norm ? TPP_NORM_RMS : TPP_NORM_LAYER,
                                .norm_epsilon = r->s->norm_epsilon,
                                .norms_per_layer = 2,
                                .final_norm = true,
                                .embedding_norm = r->s->embedding_norm,
                                .tied_embeddings = !rules->untied_embeddings,
                                .mtp_num_layers = tpp_plan_size_of(tpp_plan_or_else(rules->mtp_num_layers, 0))};
    model->activation = rules->swiglu         ? TPP_ACTIVATION_SILU
                        : rules->squared_relu ? TPP_ACTIVATION_SQUARED_RELU
                                              : TPP_ACTIVATION_GELU;
    snprintf(model->name, sizeof model->name, "%s", name);
    snprintf(model->family, sizeof model->family, "megatron");
    model->vocab_size = vocabulary(r);
    read_attention(r->s, model);
    read_positions(r->s, model);
    read_experts(r, model);
}

/* A shape given beside the options: the ones that contradict it are named. */
void tpp_plan_compare_models(const struct tpp_plan_source *r, const struct tpp_model *model)
{
    const struct {
        const char *option;
        int64_t written;
        int64_t given;
    } sizes[] = {
        {"--num-layers", r->s->rules.num_layers, model->num_layers},
        {"--hidden-size", r->s->rules.hidden_size, model->hidden_size},
        {"--num-attention-heads", r->s->rules.num_attention_heads, model->num_attention_heads},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].written > 0 && sizes[i].written != sizes[i].given)
            tpp_problems_add(r->problems, "other-model", TPP_SEVERITY_WARNING,
                             tpp_argument_line(r->arguments, sizes[i].option), "give the model that the script trains",
                             "%s is %lld in the script and %lld in the model %s", sizes[i].option,
                             (long long)sizes[i].written, (long long)sizes[i].given, model->name);
    }
}
