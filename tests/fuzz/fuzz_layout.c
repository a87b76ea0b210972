/* Any text as a pipeline layout: it ends, counts what it read, and the rules of it answer. */
#include "tests/fuzz/fuzz_target.h"

#include "planner/rules/layout.h"
#include "planner/rules/rules.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    FUZZ_CHECK(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    struct tpp_layout layout = tpp_layout_read(text);
    FUZZ_CHECK(layout.num_stages >= 1);
    FUZZ_CHECK(layout.num_layers + layout.num_mtp_layers + layout.num_embeddings + layout.num_losses <= 1 << 20);
    struct tpp_rule_settings settings = tpp_rule_settings_defaults(TPP_FRAMEWORK_MEGATRON_LM);
    settings.num_layers = settings.hidden_size = settings.num_attention_heads = 8;
    settings.sequence_length = settings.max_position_embeddings = 64;
    settings.world_size = settings.pipeline_parallel = 2;
    settings.pipeline_layout = text;
    bool is_accepted = tpp_rules_accept(&settings, TPP_RELEASE_NEWEST);
    FUZZ_CHECK(!is_accepted || (layout.is_valid && layout.num_layers == 8));
    FUZZ_CHECK(is_accepted == (tpp_rules_violations(&settings, TPP_RELEASE_NEWEST, NULL, 0) == 0));
    free(text);
    return 0;
}
