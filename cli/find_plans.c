#include "cli/find_plans.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define STEP_CANDIDATES 500000
#define PROGRESS_SECONDS 0.5

static double now_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void show_progress(const struct tpp_search *search)
{
    const struct tpp_search_counts counts = tpp_search_counts(search);
    fprintf(stderr, "\rsearching: %llu strategies costed, %llu fit", (unsigned long long)counts.costed,
            (unsigned long long)counts.fitting);
}

static enum tpp_code run_to_end(struct tpp_search *search, bool on_terminal, struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    double shown_seconds = now_seconds();
    bool done = false, is_shown = false;
    while (code == TPP_OK && !done) {
        code = tpp_search_step(search, STEP_CANDIDATES, &done, err);
        if (on_terminal && now_seconds() - shown_seconds > PROGRESS_SECONDS) {
            show_progress(search);
            shown_seconds = now_seconds();
            is_shown = true;
        }
    }
    if (is_shown)
        fputs("\r\033[K", stderr);
    return code;
}

enum tpp_code tpp_find_plans(const struct tpp_job_inputs *inputs, const struct tpp_space_limits *limits,
                             const struct tpp_answer *answer, struct tpp_found_plans *found, struct tpp_error *err)
{
    const double begin_seconds = now_seconds();
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    *found = (struct tpp_found_plans){.num_threads = limits->num_threads > 0 ? limits->num_threads
                                                     : online > 0            ? (uint32_t)online
                                                                             : 1};
    enum tpp_code code =
        tpp_search_new(&inputs->model, &inputs->hardware, &inputs->job, &inputs->stack, limits, &found->search, err);
    if (code == TPP_OK)
        code = run_to_end(found->search, answer->on_terminal, err);
    if (code != TPP_OK) {
        tpp_found_plans_release(found);
        return code;
    }
    found->seconds = now_seconds() - begin_seconds;
    found->plans = tpp_search_best(found->search, &found->num_plans);
    return TPP_OK;
}

void tpp_found_plans_release(struct tpp_found_plans *found)
{
    tpp_search_free(found->search);
    free(found->replayed);
    free(found->simulated);
    free(found->reordered);
    *found = (struct tpp_found_plans){.search = NULL};
}

void tpp_found_plans_add_json(const struct tpp_found_plans *found, bool reproducible, struct tpp_json_writer *writer,
                              struct cJSON *parent)
{
    const struct tpp_search_counts counts = tpp_search_counts(found->search);
    struct cJSON *object = tpp_json_add_object(writer, parent, "space");
    tpp_json_add_u64(writer, object, "enumerated", counts.enumerated);
    tpp_json_add_u64(writer, object, "valid", counts.valid);
    tpp_json_add_u64(writer, object, "fitting", counts.fitting);
    tpp_json_add_u64(writer, object, "costed", counts.costed);
    tpp_json_add_number(writer, object, "seconds", reproducible ? 0 : found->seconds);
    tpp_json_add_u64(writer, object, "threads", reproducible ? 0 : found->num_threads);
}
