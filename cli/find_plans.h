/* find_plans.h - runs the search to its end, with progress on a terminal, and keeps what it costed. */
#ifndef TPP_CLI_FIND_PLANS_H
#define TPP_CLI_FIND_PLANS_H

#include "cli/command.h"
#include "cli/job_options.h"
#include "planner/search.h"
#include "planner/simulated_ranking.h"

struct tpp_found_plans {
    struct tpp_search *search; /* owned: holds the plans */
    double seconds;            /* wall clock of the search */
    uint32_t num_threads;
    const struct tpp_plan *plans; /* best first; borrowed from the search */
    size_t num_plans;
    struct tpp_plan *replayed; /* owned: `plans` once they were replayed, NULL before */
    struct tpp_simulated_plan *simulated; /* owned: `plans` once they were simulated, in the same order; NULL before */
    struct tpp_plan *reordered;           /* owned: the same, plans alone */
};

/* `inputs` and `limits` are borrowed and must outlive *found. On success the caller releases *found. */
enum tpp_code tpp_find_plans(const struct tpp_job_inputs *inputs, const struct tpp_space_limits *limits,
                             const struct tpp_answer *answer, struct tpp_found_plans *found, struct tpp_error *err);
void tpp_found_plans_release(struct tpp_found_plans *found);
/* "space": {...}; with `reproducible` what depends on the machine is 0. */
void tpp_found_plans_add_json(const struct tpp_found_plans *found, bool reproducible, struct tpp_json_writer *writer,
                              struct cJSON *parent);

#endif
