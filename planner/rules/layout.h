/* layout.h - reads the string of --pipeline-model-parallel-layout. */
#ifndef TPP_PLANNER_RULES_LAYOUT_H
#define TPP_PLANNER_RULES_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

/* What a layout holds: E embedding, t decoder layer, m multi-token-prediction layer, L loss; '|' ends a stage. */
struct tpp_layout {
    bool is_valid;      /* only these letters, complete repetitions, at most 2^20 items */
    int64_t num_stages; /* empty ones count */
    int64_t num_embeddings, num_layers, num_mtp_layers, num_losses;
    bool starts_with_embedding;              /* first item of stage 0 */
    bool ends_with_loss;                     /* last item of the last stage */
    bool mtp_after_layers;                   /* no decoder layer behind a multi-token-prediction one */
    int64_t first_mtp_stage, last_mtp_stage; /* -1 without */
};

/* Letters, "x*n", "(...)*n" (not nested), commas ignored: "Et*3|(tt|)*29,m|L". */
struct tpp_layout tpp_layout_read(const char *text);

#endif
