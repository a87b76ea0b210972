/* option_spelling.c - see option_spelling.h. */
#include "planner/launch/option_spelling.h"

#include "planner/launch/bridge_arguments.h"
#include "planner/launch/swift_arguments.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NAME = 96 };

/* Names that are not Megatron-LM's with other signs between their words (launch formats, sections 4 and 7). A value
 * behind a name belongs to it: Megatron-LM's switch turns off what the other framework names. NULL: by rule, or none.
 */
static const struct {
    const char *megatron, *swift, *bridge;
} renamed[] = {
    {"--bf16", "--torch_dtype bfloat16", "mixed_precision=bf16_mixed"},
    {"--ddp-bucket-size", NULL, "ddp.bucket_size"},
    {"--decoder-first-pipeline-num-layers", NULL, "model.num_layers_in_first_pipeline_stage"},
    {"--decoder-last-pipeline-num-layers", NULL, "model.num_layers_in_last_pipeline_stage"},
    {"--microbatch-group-size-per-virtual-pipeline-stage", "--microbatch_group_size_per_vp_stage",
     "model.microbatch_group_size_per_vp_stage"},
    {"--no-gradient-accumulation-fusion", "--gradient_accumulation_fusion false",
     "model.gradient_accumulation_fusion=false"},
    {"--no-overlap-p2p-communication", NULL, "model.overlap_p2p_comm=false"},
    {"--no-rope-fusion", "--apply_rope_fusion false", NULL},
    {"--num-layers-per-virtual-pipeline-stage", "--virtual_pipeline_model_parallel_size",
     "model.virtual_pipeline_model_parallel_size"},
    {"--num-virtual-stages-per-pipeline-rank", "--virtual_pipeline_model_parallel_size",
     "model.virtual_pipeline_model_parallel_size"},
    {"--seq-length", "--max_length", "dataset.seq_length"},
    {"--use-megatron-fsdp", NULL, "dist.use_megatron_fsdp"},
};

/* "--name" with its words joined by '_', behind `prefix`. */
static void join_words(const char *prefix, const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s%s", prefix, name + 2);
    for (char *c = out + strlen(prefix); *c != '\0'; c++)
        *c = *c == '-' ? '_' : *c;
}

static bool spell_swift(const char *name, char *out, size_t size)
{
    join_words("--", name, out, size);
    return tpp_swift_option_find(out) != NULL;
}

static bool spell_bridge(const char *name, char *out, size_t size)
{
    static const char *const sections[] = {"model.", "ddp.", "optimizer.", "train.", "scheduler.", "dist."};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        join_words(sections[i], name, out, size);
        if (tpp_bridge_option_find(out) != NULL)
            return true;
    }
    return false;
}

/* False when the framework has no such option. */
static bool spell(enum tpp_framework framework, const char *name, char *out, size_t size)
{
    const bool is_swift = framework == TPP_FRAMEWORK_MS_SWIFT;
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
        const char *other = is_swift ? renamed[i].swift : renamed[i].bridge;
        if (other != NULL && strcmp(renamed[i].megatron, name) == 0) {
            snprintf(out, size, "%s", other);
            return true;
        }
    }
    return is_swift ? spell_swift(name, out, size) : spell_bridge(name, out, size);
}

static bool is_switch(const char *name)
{
    const struct tpp_launch_option *option = tpp_launch_option_find(name);
    return option != NULL && option->num_values == '0';
}

/* True when the word in front of `at` says to write the option. */
static bool is_asked_for(const char *text, const char *at)
{
    static const char *const verbs[] = {"add ", "use ", "set "};
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (at - text >= 4 && memcmp(at - 4, verbs[i], 4) == 0)
            return true;
    }
    return false;
}

/* True when " word" behind a name is its value, and no word of the sentence. */
static bool has_value(const char *text)
{
    static const char *const words[] = {"and", "excludes", "in", "needs", "or", "until", "works", "does"};
    const size_t length = *text == ' ' ? strcspn(text + 1, " ,;:") : 0;
    if (length == 0 || !isalnum((unsigned char)text[1]))
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i]) == length && memcmp(words[i], text + 1, length) == 0)
            return false;
    }
    return true;
}

void tpp_spell_options(enum tpp_framework framework, const char *text, char *out, size_t size)
{
    const bool is_bridge = framework == TPP_FRAMEWORK_NEMO;
    const char *const start = text;
    size_t used = 0;
    out[0] = '\0';
    while (*text != '\0' && used + 1 < size) {
        char name[MAX_NAME], spelt[MAX_NAME + 16];
        const size_t length =
            strncmp(text, "--", 2) == 0 ? 2 + strspn(text + 2, "abcdefghijklmnopqrstuvwxyz0123456789-_") : 0;
        snprintf(name, sizeof name, "%.*s", (int)(length < MAX_NAME ? length : 0), text);
        if ((!is_bridge && framework != TPP_FRAMEWORK_MS_SWIFT) || length < 3 ||
            !spell(framework, name, spelt, sizeof spelt)) {
            const size_t count = length > 0 ? length : 1;
            used += (size_t)snprintf(out + used, size - used, "%.*s", (int)count, text);
            text += count;
            continue;
        }
        const bool is_whole = strpbrk(spelt, " =") != NULL;
        const bool is_on = !is_whole && is_switch(name) && is_asked_for(start, text);
        text += length;
        used += (size_t)snprintf(out + used, size - used, "%s%s", spelt, is_on ? is_bridge ? "=true" : " true" : "");
        if (is_bridge && !is_whole && !is_switch(name) && has_value(text) && used + 1 < size) {
            out[used++] = '=';
            out[used] = '\0';
            text++;
        }
    }
}
