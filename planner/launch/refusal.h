/* refusal.h - what a framework has no words for, asked before anything is written. */
#ifndef TPP_PLANNER_LAUNCH_REFUSAL_H
#define TPP_PLANNER_LAUNCH_REFUSAL_H

#include "planner/launch/launch.h"
#include "planner/launch/plan_layout.h"
#include "planner/rules/rules.h"

struct tpp_refusal {
    bool is_refused;
    const char *where;  /* "strategy.schedule", "model.norm" */
    const char *reason; /* ends the sentence */
    bool is_ours;       /* the framework could, these scripts do not say it yet */
};

/* "<sentence> <reason>" for the first one that is refused: TPP_E_UNSUPPORTED, or TPP_E_NOT_BUILT when the lack is ours.
 */
enum tpp_code tpp_refusal_first(const struct tpp_refusal *refusals, size_t count, const char *sentence,
                                const char *hint, struct tpp_error *err);

/* Fills *settings for the request and asks the rules of its framework. TPP_E_STRATEGY "<framework> refuses it: ...",
 * `where` is the rule's number. */
enum tpp_code tpp_launch_check_rules(const struct tpp_launch_request *request, const char *framework,
                                     struct tpp_rule_settings *settings, struct tpp_error *err);

/* The same for frameworks on Megatron Core: a plan whose last chunk holds less becomes a layout, written into `layout`,
 * which *settings then points to. */
enum tpp_code tpp_launch_check_core_rules(const struct tpp_launch_request *request, const char *framework,
                                          struct tpp_rule_settings *settings, char layout[TPP_PLAN_LAYOUT_SIZE],
                                          struct tpp_error *err);

/* Refuses the plans that only Megatron-LM's scripts have words for: other dispatchers than the all-to-all and their
 * overlap, recomputation of single modules, chunks that hold less. `sentence` as above. */
enum tpp_code tpp_launch_check_plain(const struct tpp_launch_request *request, const char *sentence,
                                     struct tpp_error *err);
/* What Megatron Core cannot run when another program hands it the sizes: Megatron-Bridge, ms-swift. */
enum tpp_code tpp_launch_check_core(const struct tpp_launch_request *request, const char *sentence,
                                    struct tpp_error *err);
/* Likewise the jobs, whatever the plan: multi-token prediction, block-scaled FP8, token drop, CUDA graphs. */
enum tpp_code tpp_launch_check_plain_job(const struct tpp_launch_request *request, const char *sentence,
                                         struct tpp_error *err);

/* True when the sequence reaches beyond a window of some layers. */
bool tpp_launch_has_window(const struct tpp_launch_request *request);

#endif
