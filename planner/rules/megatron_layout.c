/* megatron_layout.c - the layout string and Megatron-LM's rules for it (ML-28). */
#include "planner/rules/layout.h"
#include "planner/rules/table.h"

#include <string.h>

#define MAX_ITEMS (INT64_C(1) << 20)

struct scan {
    struct tpp_layout layout;
    int64_t num_items; /* letters and bars, against endless repetition */
    bool is_empty;     /* no letter in the stage so far */
    char last_letter;  /* of the stage; 0 when it is empty */
};

static void add_letter(struct scan *scan, char letter)
{
    struct tpp_layout *layout = &scan->layout;
    int64_t stage = layout->num_stages - 1;
    if (letter == 'E') {
        layout->num_embeddings++;
        layout->starts_with_embedding |= stage == 0 && scan->is_empty;
    } else if (letter == 't') {
        layout->num_layers++;
        layout->mtp_after_layers &= layout->num_mtp_layers == 0;
    } else if (letter == 'm') {
        layout->first_mtp_stage = layout->num_mtp_layers == 0 ? stage : layout->first_mtp_stage;
        layout->last_mtp_stage = stage;
        layout->num_mtp_layers++;
    } else if (letter == 'L') {
        layout->num_losses++;
    } else {
        layout->is_valid = false;
    }
    scan->is_empty = false;
    scan->last_letter = letter;
}

static void add_item(struct scan *scan, char item)
{
    if (++scan->num_items > MAX_ITEMS) {
        scan->layout.is_valid = false;
    } else if (item == '|') {
        scan->layout.num_stages++;
        scan->is_empty = true;
        scan->last_letter = 0;
    } else {
        add_letter(scan, item);
    }
}

/* Reads "*n" at *text and moves past it; 1 when there is none, -1 when the number is missing or too large. */
static int64_t repetitions(const char **text, const char *end)
{
    if (*text == end || **text != '*')
        return 1;
    const char *digit = *text + 1;
    int64_t count = 0;
    while (digit < end && *digit >= '0' && *digit <= '9' && count <= MAX_ITEMS)
        count = 10 * count + (*digit++ - '0');
    bool is_number = digit > *text + 1 && count <= MAX_ITEMS;
    *text = digit;
    return is_number ? count : -1;
}

/* Letters, bars and their repetitions; no parentheses. */
static void read_items(struct scan *scan, const char *text, const char *end)
{
    while (text < end && scan->layout.is_valid) {
        char item = *text++;
        if (item == ',')
            continue;
        int64_t count = repetitions(&text, end);
        scan->layout.is_valid &= count >= 0;
        for (int64_t i = 0; i < count && scan->layout.is_valid; i++)
            add_item(scan, item);
    }
}

struct tpp_layout tpp_layout_read(const char *text)
{
    struct scan scan = {.layout = {.is_valid = true,
                                   .num_stages = 1,
                                   .mtp_after_layers = true,
                                   .first_mtp_stage = -1,
                                   .last_mtp_stage = -1},
                        .is_empty = true};
    const char *end = text + strlen(text);
    while (text < end && scan.layout.is_valid) {
        size_t plain = strcspn(text, "(");
        read_items(&scan, text, text + plain);
        text += plain;
        if (text == end)
            break;
        const char *close = strchr(text, ')');
        const char *group = text + 1;
        if (close == NULL || close[1] != '*') {
            scan.layout.is_valid = false;
            break;
        }
        text = close + 1;
        int64_t count = repetitions(&text, end);
        scan.layout.is_valid &= count >= 0;
        for (int64_t i = 0; i < count && scan.layout.is_valid && close > group; i++)
            read_items(&scan, group, close);
    }
    scan.layout.ends_with_loss = scan.last_letter == 'L';
    return scan.layout;
}

static bool has_layout(const struct tpp_rule_context *c)
{
    return c->s->pipeline_layout != NULL;
}

static bool is_readable(const struct tpp_rule_context *c)
{
    return tpp_layout_read(c->s->pipeline_layout).is_valid;
}

static bool stages_divide(const struct tpp_rule_context *c)
{
    return tpp_layout_read(c->s->pipeline_layout).num_stages % c->pipeline_parallel == 0;
}

static bool ends_are_right(const struct tpp_rule_context *c)
{
    struct tpp_layout layout = tpp_layout_read(c->s->pipeline_layout);
    return layout.starts_with_embedding && layout.ends_with_loss && layout.num_embeddings == 1 &&
           layout.num_losses == 1;
}

static bool layers_are_complete(const struct tpp_rule_context *c)
{
    struct tpp_layout layout = tpp_layout_read(c->s->pipeline_layout);
    int64_t mtp = tpp_rule_is_set(c->s->mtp_num_layers) ? c->s->mtp_num_layers : 0;
    return layout.num_layers == c->s->num_layers && layout.num_mtp_layers == mtp;
}

static bool mtp_is_last(const struct tpp_rule_context *c)
{
    struct tpp_layout layout = tpp_layout_read(c->s->pipeline_layout);
    int64_t chunks = layout.num_stages / c->pipeline_parallel;
    return layout.num_mtp_layers == 0 || (layout.mtp_after_layers && layout.first_mtp_stage == layout.last_mtp_stage &&
                                          layout.last_mtp_stage / c->pipeline_parallel == chunks - 1);
}

static bool layout_is_alone(const struct tpp_rule_context *c)
{
    return !tpp_rule_is_set(c->s->first_stage_layers) && !tpp_rule_is_set(c->s->last_stage_layers) &&
           !c->s->account_for_embedding && !c->s->account_for_loss;
}

static const struct tpp_rule rules[] = {
    {"ML-28", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_13), is_readable,
     "the pipeline layout may hold E, t, m, L and |, each with *n, and groups (...)*n", "",
     "write it like Et*3|(tt|)*29m|L"},
    {"ML-28", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_13), stages_divide,
     "the stages of the pipeline layout must be a multiple of the pipeline parallel size", "layout-stages pp",
     "add or drop stages (|)"},
    {"ML-28", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_13), ends_are_right,
     "the pipeline layout must start with the one embedding E and end with the one loss L", "", "place E and L"},
    {"ML-28", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_13), layers_are_complete,
     "the pipeline layout must place every layer (t) and multi-token-prediction layer (m)", "layout-layers layers",
     "make the number of t the number of layers"},
    {"ML-28", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_13), mtp_is_last,
     "the multi-token-prediction layers must follow all layers, on one stage of the last chunk", "",
     "move m behind the last t"},
    {"ML-28", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_13), layout_is_alone,
     "a pipeline layout excludes first and last stage layers and accounting for embedding or loss", "",
     "give one of them"},
};

const struct tpp_rule_group tpp_rules_megatron_layout = TPP_RULE_GROUP(rules, has_layout);
