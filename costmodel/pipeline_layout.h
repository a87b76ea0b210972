/* pipeline_layout.h - what each chunk of a pipeline holds: reads and writes the string of Megatron-LM's
 * --pipeline-model-parallel-layout (launch-formats 1.4 item 8), and proposes splits that keep the slowest stage short.
 *
 * Chunks are in model order: chunk g is on stage g mod p. */
#ifndef TPP_COSTMODEL_PIPELINE_LAYOUT_H
#define TPP_COSTMODEL_PIPELINE_LAYOUT_H

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "costmodel/strategy.h"

#include <stdbool.h>
#include <stdint.h>

struct tpp_layout_chunk {        /* in this order */
    bool has_embedding;          /* E */
    uint32_t num_layers;         /* t */
    uint32_t num_mtp_layers;     /* m: multi-token prediction */
    bool has_loss;               /* L */
};

/* Reads "Et*3|(tt|)*29,m|L": '|' ends a chunk, x*n repeats a character, (...)*n a group (not nested), commas do
 * nothing. Fills at most `max_chunks` chunks. TPP_E_SYNTAX with the place in the text for anything else, TPP_E_STRATEGY
 * for letters in an order that no framework runs: the one E comes first, the one L last, m after all t. A chunk may be
 * empty. */
enum tpp_code tpp_pipeline_layout_parse(const char *text, struct tpp_layout_chunk *chunks, uint32_t max_chunks,
                                        uint32_t *num_chunks, struct tpp_error *err);
/* The inverse, short: runs of equal chunks as a group, three and more layers with a star. Reads back equal. */
void tpp_pipeline_layout_format(const struct tpp_layout_chunk *chunks, uint32_t num_chunks, struct tpp_text *out);

/* What a split is asked for. Times are of one micro-batch, forward and backward with what is recomputed. */
struct tpp_layer_split_request {
    uint32_t num_layers, num_mtp_layers;
    uint32_t pipeline_parallel, virtual_pipeline_stages;
    double layer_seconds, mtp_layer_seconds;
    double embedding_seconds, head_seconds; /* on the first, on the last chunk */
    bool allows_layout;                     /* the framework takes a layout string (Megatron-LM 0.13) */
};

enum tpp_layer_split_kind {   /* in the order of preference when two are as short */
    TPP_LAYER_SPLIT_EVEN,     /* every chunk holds the same */
    TPP_LAYER_SPLIT_ACCOUNT,  /* embedding or loss count as a layer */
    TPP_LAYER_SPLIT_ENDS,     /* first and last stage counts */
    TPP_LAYER_SPLIT_LAYOUT,   /* a layout string */
    TPP_LAYER_SPLIT_NONE,     /* nothing allowed divides */
};

struct tpp_layer_split {
    enum tpp_layer_split_kind kind;
    bool account_for_embedding, account_for_loss;       /* ACCOUNT */
    uint32_t first_stage_layers, last_stage_layers;     /* ENDS */
    double slowest_seconds;                             /* of the stage with the most to do */
    double best_seconds;                                /* of the best split of any kind, allowed or not: the bound */
};

/* The split with the shortest slowest stage, of the allowed kinds; among equals (to 1e-9) the first kind. `chunks` gets
 * its p v chunks (NULL when not wanted). TPP_E_STRATEGY for sizes of no pipeline, TPP_E_RANGE for times that are none.
 * A split of kind NONE is an answer, not an error: chunks are then left alone. */
enum tpp_code tpp_layer_split_propose(const struct tpp_layer_split_request *request, struct tpp_layer_split *split,
                                      struct tpp_layout_chunk *chunks, struct tpp_error *err);
/* Sets the fields of a strategy to a split of a kind other than LAYOUT, which they cannot hold; false then and for
 * NONE. */
bool tpp_layer_split_apply(const struct tpp_layer_split *split, struct tpp_strategy *strategy);

#endif
