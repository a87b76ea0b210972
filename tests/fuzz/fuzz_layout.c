/* Any text as a pipeline layout: it ends, counts what it read, and the rules of it answer. What the cost model takes, it
 * writes so that it reads back equal, and the counts of the rules are the same. */
#include "tests/fuzz/fuzz_target.h"

#include "costmodel/pipeline_layout.h"
#include "planner/rules/layout.h"
#include "planner/rules/rules.h"

#include <string.h>

enum { MAX_STAGES = 256 };

static void check_round_trip(const char *text, const struct tpp_layout *layout)
{
    static struct tpp_layout_chunk chunks[MAX_STAGES], again[MAX_STAGES];
    uint32_t count, count_again;
    if (tpp_pipeline_layout_parse(text, chunks, MAX_STAGES, &count, NULL) != TPP_OK)
        return;
    FUZZ_CHECK(layout->is_valid && layout->num_stages == count);
    FUZZ_CHECK(layout->starts_with_embedding && layout->ends_with_loss && layout->mtp_after_layers);
    struct tpp_text written;
    tpp_text_init(&written);
    tpp_pipeline_layout_format(chunks, count, &written);
    FUZZ_CHECK(tpp_pipeline_layout_parse(tpp_text_get(&written), again, MAX_STAGES, &count_again, NULL) == TPP_OK);
    FUZZ_CHECK(count == count_again);
    for (uint32_t g = 0; g < count; g++)
        FUZZ_CHECK(chunks[g].num_layers == again[g].num_layers && chunks[g].num_mtp_layers == again[g].num_mtp_layers);
    tpp_text_release(&written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    FUZZ_CHECK(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    struct tpp_layout layout = tpp_layout_read(text);
    FUZZ_CHECK(layout.num_stages >= 1);
    FUZZ_CHECK(layout.num_layers + layout.num_mtp_layers + layout.num_embeddings + layout.num_losses <= 1 << 20);
    check_round_trip(text, &layout);
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
