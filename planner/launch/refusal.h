/* refusal.h - what a framework has no words for, asked before anything is written. */
#ifndef TPP_PLANNER_LAUNCH_REFUSAL_H
#define TPP_PLANNER_LAUNCH_REFUSAL_H

#include "planner/launch/launch.h"
#include "planner/rules/rules.h"

struct tpp_refusal {
    bool is_refused;
    const char *where;  /* "strategy.schedule", "model.norm" */
    const char *reason; /* ends the sentence */
};

/* TPP_E_UNSUPPORTED "<sentence> <reason>" for the first one that is refused. */
enum tpp_code tpp_refusal_first(const struct tpp_refusal *refusals, size_t count, const char *sentence,
                                const char *hint, struct tpp_error *err);

/* Fills *settings for the request and asks the rules of its framework. TPP_E_STRATEGY "<framework> refuses it: ...",
 * `where` is the rule's number. */
enum tpp_code tpp_launch_check_rules(const struct tpp_launch_request *request, const char *framework,
                                     struct tpp_rule_settings *settings, struct tpp_error *err);

/* Refuses what only Megatron-LM's scripts have words for: other dispatchers than the all-to-all and their overlap,
 * multi-token prediction, recomputation of single modules, block-scaled FP8, chunks that hold less. `sentence` as
 * above. */
enum tpp_code tpp_launch_check_plain(const struct tpp_launch_request *request, const char *sentence,
                                     struct tpp_error *err);

/* True when the sequence reaches beyond a window of some layers. */
bool tpp_launch_has_window(const struct tpp_launch_request *request);

#endif
