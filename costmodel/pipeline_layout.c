/* The layout string: a reader that expands repetitions as it goes, and a writer that finds them again. */
#include "costmodel/pipeline_layout.h"

#include <string.h>

/* No model has so many layers; an endless repetition ends here. */
#define MAX_ITEMS (UINT32_C(1) << 20)

struct reader {
    const char *text;
    struct tpp_layout_chunk *chunks;
    uint32_t max_chunks;
    uint32_t chunk; /* the one being filled */
    uint32_t num_items, num_embeddings, num_losses, num_mtp_layers;
    struct tpp_error *err;
};

static enum tpp_code fail_at(const struct reader *reader, const char *at, const char *what)
{
    return tpp_fail(reader->err, TPP_E_SYNTAX, "pipeline layout", "write it like Et*3|(tt|)*29m|L",
                    "%s at character %zu", what, (size_t)(at - reader->text) + 1);
}

static enum tpp_code fail_order(const struct reader *reader, const char *what)
{
    return tpp_fail(reader->err, TPP_E_STRATEGY, "pipeline layout",
                    "start with the one E, end with the one L, and place m after the last t", "%s (stage %u)", what,
                    reader->chunk);
}

static enum tpp_code end_chunk(struct reader *reader)
{
    if (++reader->chunk >= reader->max_chunks)
        return tpp_fail(reader->err, TPP_E_STRATEGY, "pipeline layout", "use fewer stages",
                        "the layout has more than %u stages", reader->max_chunks);
    reader->chunks[reader->chunk] = (struct tpp_layout_chunk){0};
    return TPP_OK;
}

static enum tpp_code add_item(struct reader *reader, const char *at)
{
    struct tpp_layout_chunk *chunk = &reader->chunks[reader->chunk];
    if (++reader->num_items > MAX_ITEMS)
        return fail_at(reader, at, "more than 2^20 items");
    if (*at == '|')
        return end_chunk(reader);
    if (!strchr("EtmL", *at))
        return fail_at(reader, at, "neither E, t, m, L nor |");
    if (reader->num_losses > 0)
        return fail_order(reader, "something follows the loss");
    if (*at == 'E') {
        if (reader->chunk > 0 || reader->num_embeddings > 0 || chunk->num_layers > 0 || chunk->num_mtp_layers > 0)
            return fail_order(reader, "the embedding is not the first item, or not the only one");
        chunk->has_embedding = true;
        reader->num_embeddings++;
    } else if (*at == 't') {
        if (reader->num_mtp_layers > 0)
            return fail_order(reader, "a layer follows a multi-token-prediction layer");
        chunk->num_layers++;
    } else if (*at == 'm') {
        chunk->num_mtp_layers++;
        reader->num_mtp_layers++;
    } else {
        chunk->has_loss = true;
        reader->num_losses++;
    }
    return TPP_OK;
}

/* Reads "*n" at *at and moves past it: 1 without a star, 0 when the number is missing, too large or 0. */
static uint32_t read_count(const char **at, const char *end)
{
    if (*at == end || **at != '*')
        return 1;
    uint32_t count = 0;
    for (++*at; *at < end && **at >= '0' && **at <= '9'; ++*at)
        count = count > MAX_ITEMS ? count : 10 * count + (uint32_t)(**at - '0');
    return count <= MAX_ITEMS ? count : 0;
}

/* Letters and bars with their repetitions; no parentheses. */
static enum tpp_code read_items(struct reader *reader, const char *at, const char *end)
{
    while (at < end) {
        const char *item = at++;
        if (*item == ',') {
            if (++reader->num_items > MAX_ITEMS)
                return fail_at(reader, item, "more than 2^20 items");
            continue;
        }
        const char *star = at;
        const uint32_t count = read_count(&at, end);
        if (count == 0)
            return fail_at(reader, star, "a star without a number from 1 to 2^20");
        for (uint32_t i = 0; i < count; i++) {
            const enum tpp_code code = add_item(reader, item);
            if (code != TPP_OK)
                return code;
        }
    }
    return TPP_OK;
}

/* "(...)*n" at *at; moves past it. */
static enum tpp_code read_group(struct reader *reader, const char **at, const char *end)
{
    const char *open = *at, *close = strchr(open, ')');
    if (!close)
        return fail_at(reader, open, "an open parenthesis without its end");
    *at = close + 1;
    if (*at == end || **at != '*')
        return fail_at(reader, close, "a group without a star behind it");
    const uint32_t count = read_count(at, end);
    if (count == 0)
        return fail_at(reader, close, "a group's star without a number from 1 to 2^20");
    if (close == open + 1)
        return fail_at(reader, open, "an empty group");
    for (uint32_t i = 0; i < count; i++) {
        const enum tpp_code code = read_items(reader, open + 1, close);
        if (code != TPP_OK)
            return code;
    }
    return TPP_OK;
}

enum tpp_code tpp_pipeline_layout_parse(const char *text, struct tpp_layout_chunk *chunks, uint32_t max_chunks,
                                        uint32_t *num_chunks, struct tpp_error *err)
{
    struct reader reader = {.text = text, .chunks = chunks, .max_chunks = max_chunks, .err = err};
    const char *at = text, *end = text + strlen(text);
    *num_chunks = 0;
    if (max_chunks == 0)
        return tpp_fail(err, TPP_E_STRATEGY, "pipeline layout", NULL, "no room for a stage");
    chunks[0] = (struct tpp_layout_chunk){0};
    while (at < end) {
        const char *group = at + strcspn(at, "(");
        enum tpp_code code = read_items(&reader, at, group);
        at = group;
        if (code == TPP_OK && at < end)
            code = read_group(&reader, &at, end);
        if (code != TPP_OK)
            return code;
    }
    if (reader.num_embeddings == 0 || !chunks[reader.chunk].has_loss)
        return fail_order(&reader, reader.num_embeddings == 0 ? "there is no embedding" : "the last stage has no loss");
    *num_chunks = reader.chunk + 1;
    return TPP_OK;
}

static bool are_equal(const struct tpp_layout_chunk *a, const struct tpp_layout_chunk *b)
{
    return a->has_embedding == b->has_embedding && a->num_layers == b->num_layers &&
           a->num_mtp_layers == b->num_mtp_layers && a->has_loss == b->has_loss;
}

static void format_layers(struct tpp_text *out, char letter, uint32_t count)
{
    if (count > 2)
        tpp_text_format(out, "%c*%u", letter, count);
    for (uint32_t i = 0; count <= 2 && i < count; i++)
        tpp_text_format(out, "%c", letter);
}

static void format_chunk(struct tpp_text *out, const struct tpp_layout_chunk *chunk)
{
    if (chunk->has_embedding)
        tpp_text_append(out, "E");
    format_layers(out, 't', chunk->num_layers);
    format_layers(out, 'm', chunk->num_mtp_layers);
    if (chunk->has_loss)
        tpp_text_append(out, "L");
}

void tpp_pipeline_layout_format(const struct tpp_layout_chunk *chunks, uint32_t num_chunks, struct tpp_text *out)
{
    for (uint32_t g = 0, next; g < num_chunks; g = next) {
        for (next = g + 1; next + 1 < num_chunks && are_equal(&chunks[g], &chunks[next]);)
            next++; /* the last chunk has no bar behind it and stays out of groups */
        const uint32_t run = next - g;
        tpp_text_append(out, run > 1 ? "(" : "");
        format_chunk(out, &chunks[g]);
        if (next < num_chunks)
            tpp_text_append(out, "|");
        if (run > 1)
            tpp_text_format(out, ")*%u", run);
    }
}
