/* bridge_precision.c - see bridge_precision.h; names and objects of revision 067f987. */
#include "planner/launch/bridge_precision.h"

#include <stdio.h>
#include <string.h>

/* What a name says behind "bf16" or "fp16". */
struct precision {
    const char *ending;
    enum tpp_rule_fp8 fp8;
    enum tpp_rule_fp8_recipe recipe;
    bool keeps_fp8_weights;
    bool has_bf16_ends; /* the first and the last layer stay in 16 bits: no plan says so */
};
static const struct precision precisions[] = {
    {"_mixed", TPP_RULE_FP8_NONE, TPP_RULE_FP8_DELAYED, false, false},
    {"_with_fp8_delayed_scaling_mixed", TPP_RULE_FP8_HYBRID, TPP_RULE_FP8_DELAYED, true, false},
    {"_with_fp8_current_scaling_mixed", TPP_RULE_FP8_HYBRID, TPP_RULE_FP8_TENSORWISE, true, true},
    {"_with_fp8_subchannel_scaling_mixed", TPP_RULE_FP8_HYBRID, TPP_RULE_FP8_BLOCKWISE, false, false},
    {"_with_mxfp8_mixed", TPP_RULE_FP8_E4M3, TPP_RULE_FP8_MXFP8, true, false},
};
#define NUM_PRECISIONS (sizeof precisions / sizeof *precisions)

static const char *const recipe_names[] = {"delayed", "tensorwise", "mxfp8", "blockwise", "custom"};

static bool has_name(const struct precision *p, const struct tpp_rule_settings *rules)
{
    const bool is_fp8 = rules->fp8 != TPP_RULE_FP8_NONE;
    return !p->has_bf16_ends && (p->fp8 != TPP_RULE_FP8_NONE) == is_fp8 &&
           (!is_fp8 || (p->recipe == rules->fp8_recipe && p->keeps_fp8_weights == rules->fp8_param_gather));
}

/* The keys of FP8, each with a comma behind it. Delayed scaling looks back as far as its own name makes it. */
static void format_fp8(const struct tpp_rule_settings *rules, char *text, size_t size)
{
    const bool is_delayed = rules->fp8_recipe == TPP_RULE_FP8_DELAYED;
    const bool is_mx = rules->fp8_recipe == TPP_RULE_FP8_MXFP8;
    *text = '\0';
    if (rules->fp8 != TPP_RULE_FP8_NONE)
        snprintf(text, size, "fp8:%s,fp8_recipe:%s,%sfp8_param_gather:%s,%s", is_mx ? "e4m3" : "hybrid",
                 recipe_names[rules->fp8_recipe],
                 is_delayed ? "fp8_amax_history_len:1024,fp8_amax_compute_algo:max," : "",
                 rules->fp8_param_gather ? "true" : "false",
                 is_mx && rules->fp8_param_gather ? "reuse_grad_buf_for_mxfp8_param_ag:true," : "");
}

/* Where no name says it, the object does: it takes the place of the name written before it, where a recipe's own object
 * would be mixed with it. */
void tpp_bridge_write_precision(struct tpp_script *script, const struct tpp_launch_request *request)
{
    struct tpp_rule_settings rules;
    const bool is_fp16 = request->job->precision == TPP_PRECISION_FP16, in_fp32 = request->stack->reduce_bytes == 4;
    const char *type = is_fp16 ? "{_target_:torch.float16,_call_:false}" : "{_target_:torch.bfloat16,_call_:false}";
    const struct precision *name = NULL;
    char text[512], fp8[192];
    tpp_rule_settings_for_job(request->model, request->job, request->stack, request->hardware->gpu.compute_capability,
                              &rules);
    for (size_t i = 0; i < NUM_PRECISIONS && name == NULL; i++)
        name = has_name(&precisions[i], &rules) ? &precisions[i] : NULL;
    snprintf(text, sizeof text, "%s%s", is_fp16 ? "fp16" : "bf16", name != NULL ? name->ending : "_mixed");
    tpp_script_word(script, "mixed_precision", text);
    if (name != NULL && in_fp32 != is_fp16)
        return;
    format_fp8(&rules, fp8, sizeof fp8);
    snprintf(text, sizeof text,
             "{_target_:megatron.bridge.training.mixed_precision.MixedPrecisionConfig,%s:true,params_dtype:%s,"
             "pipeline_dtype:%s,%sgrad_reduce_in_fp32:%s}",
             is_fp16 ? "fp16" : "bf16", type, type, fp8, in_fp32 ? "true" : "false");
    tpp_script_word(script, "mixed_precision", text);
}

/* ---- reading ---- */

static void set(const struct precision *p, bool is_fp16, struct tpp_megatron_settings *s)
{
    s->rules.fp16 = is_fp16;
    s->rules.bf16 = !is_fp16;
    s->rules.fp8 = p->fp8;
    s->rules.fp8_recipe = p->recipe;
    s->rules.fp8_param_gather = p->keeps_fp8_weights;
    s->gradients_in_fp32 = !is_fp16;
    s->gradients_in_bf16 = is_fp16;
}

/* "bf16-mixed" is "bf16_mixed". nemotron_h_... keeps two layers of either end in 16 bits; nanov2_... is block-scaled.
 */
static void read_name(const char *value, struct tpp_megatron_settings *s)
{
    static const struct precision blocks = {"", TPP_RULE_FP8_HYBRID, TPP_RULE_FP8_BLOCKWISE, true, true};
    char name[80];
    snprintf(name, sizeof name, "%s", value);
    for (char *c = name; *c != '\0'; c++)
        *c = *c == '-' ? '_' : *c;
    const char *from = strstr(name, "fp16_"), *type = from != NULL ? from : strstr(name, "bf16_");
    const struct precision *found = &precisions[0];
    for (size_t i = 0; type != NULL && i < NUM_PRECISIONS; i++)
        found = strcmp(type + strlen("bf16"), precisions[i].ending) == 0 ? &precisions[i] : found;
    set(strncmp(name, "nanov2_", 7) == 0 ? &blocks : found, strncmp(name, "fp16", 4) == 0, s);
}

/* The value of `key`, or "" without one. `text` has no blanks and quotes. */
static void find_key(const char *text, const char *key, char *value, size_t size)
{
    const size_t length = strlen(key);
    *value = '\0';
    for (const char *at = strstr(text, key); at != NULL; at = strstr(at + 1, key)) {
        const bool is_whole = at[length] == ':' && (at == text || at[-1] == ',' || at[-1] == '{');
        if (is_whole)
            snprintf(value, size, "%.*s", (int)strcspn(at + length + 1, ",}"), at + length + 1);
    }
}

static bool is_true(const char *text, const char *key)
{
    char value[16];
    find_key(text, key, value, sizeof value);
    return strcmp(value, "true") == 0 || strcmp(value, "True") == 0;
}

static void read_object(const char *object, struct tpp_megatron_settings *s)
{
    char text[1024], format[16], recipe[16], gradients[16];
    size_t length = 0;
    for (; *object != '\0' && length + 1 < sizeof text; object++)
        if (strchr(" '\"", *object) == NULL)
            text[length++] = *object;
    text[length] = '\0';
    find_key(text, "fp8", format, sizeof format);
    find_key(text, "fp8_recipe", recipe, sizeof recipe);
    find_key(text, "grad_reduce_in_fp32", gradients, sizeof gradients);
    set(&precisions[0], is_true(text, "fp16"), s);
    s->rules.fp8 = strcmp(format, "e4m3") == 0     ? TPP_RULE_FP8_E4M3
                   : strcmp(format, "hybrid") == 0 ? TPP_RULE_FP8_HYBRID
                                                   : TPP_RULE_FP8_NONE;
    s->rules.fp8_recipe = TPP_RULE_FP8_TENSORWISE; /* of its dataclass */
    for (unsigned i = 0; i < sizeof recipe_names / sizeof *recipe_names; i++)
        if (strcmp(recipe, recipe_names[i]) == 0)
            s->rules.fp8_recipe = (enum tpp_rule_fp8_recipe)i;
    s->rules.fp8_param_gather = is_true(text, "fp8_param_gather") || is_true(text, "fp8_param");
    s->gradients_in_fp32 = strcmp(gradients, "false") != 0 && strcmp(gradients, "False") != 0;
    s->gradients_in_bf16 = !s->gradients_in_fp32;
}

void tpp_bridge_read_precision(const char *value, struct tpp_megatron_settings *settings)
{
    if (*value == '{')
        read_object(value, settings);
    else
        read_name(value, settings);
}
