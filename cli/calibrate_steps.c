#include "cli/calibrate_steps.h"

#include "costmodel/runs/run_predict.h"
#include "costmodel/runs/run_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A measured run, predicted on whatever hardware: its profile is looked up in `profiles`, where the trial stands. */
struct step_context {
    const struct tpp_run *run;
    struct tpp_run_profile *profile;
    struct tpp_run_profiles *profiles;
};

static enum tpp_code predict_step(const struct tpp_hardware *hardware, const void *data, double *seconds,
                                  struct tpp_error *err)
{
    const struct step_context *context = data;
    struct tpp_run_prediction prediction;
    context->profile->hardware = *hardware;
    const enum tpp_code code = tpp_run_predict(context->run, context->profiles, TPP_RUN_ESTIMATE, &prediction, err);
    if (code != TPP_OK)
        return code;
    if (prediction.skipped[0])
        return tpp_fail(err, TPP_E_UNSUPPORTED, context->run->id, NULL, "the run cannot be predicted: %.200s",
                        prediction.skipped);
    *seconds = prediction.step_seconds;
    return TPP_OK;
}

static bool is_measured(const struct tpp_run *run)
{
    return !run->skipped[0] && run->measured_step_seconds > 0;
}

/* The first run of the file that was measured on this GPU and can be predicted. */
static enum tpp_code find_measured(const struct tpp_runs *runs, const char *path, const char *gpu,
                                   const struct tpp_run **found, struct tpp_error *err)
{
    const struct tpp_run *other = NULL;
    for (size_t i = 0; i < runs->count; i++) {
        const struct tpp_run *run = &runs->items[i];
        if (is_measured(run) && strcmp(run->gpu, gpu) == 0) {
            *found = run;
            return TPP_OK;
        }
        other = other == NULL && is_measured(run) ? run : other;
    }
    if (other != NULL)
        return tpp_fail(err, TPP_E_RANGE, path, "give a run of the GPU of --base, or the --base that has the run's GPU",
                        "the run %.60s was measured on %.60s, the profile is of %.60s", other->id, other->gpu, gpu);
    return tpp_fail(err, TPP_E_MISSING, path, "give one run in the format of tp-plan validate",
                    "no run with a measured step that can be predicted%s%.150s", runs->count > 0 ? ": " : "",
                    runs->count > 0 ? runs->items[0].skipped : "");
}

enum tpp_code tpp_calibrate_one_step(const char *path, const char *date, struct tpp_hardware *hardware,
                                     struct tpp_error *err)
{
    struct tpp_run_profiles known = {0};
    struct tpp_runs runs = {0};
    const struct tpp_run *run = NULL;
    struct tpp_run_profile *profile = calloc(1, sizeof *profile);
    enum tpp_code code =
        profile ? tpp_runs_load(path, &known, &runs, err) : tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    if (code == TPP_OK)
        code = find_measured(&runs, path, hardware->gpu.name, &run, err);
    if (code == TPP_OK) {
        struct tpp_run_profiles trial = {.items = &profile, .count = 1};
        const struct step_context context = {run, profile, &trial};
        const struct tpp_step_origin origin = {run->id, date, run->is_published};
        snprintf(profile->name, sizeof profile->name, "%s", run->cluster.profile);
        code = tpp_fit_one_step(hardware, run->measured_step_seconds, &origin, predict_step, &context, err);
    }
    free(profile);
    tpp_runs_release(&runs);
    tpp_run_profiles_release(&known);
    return code;
}

/* The runs that are used, in the order of the files. */
struct used_runs {
    const struct tpp_run **items;
    double *seconds;
    size_t count;
    struct tpp_run_profiles *known; /* clusters that the runs name */
    struct tpp_run_profile *trial;  /* the cluster of the run at hand, with the GPU of the trial */
};

static enum tpp_code predict_run(const struct tpp_hardware *hardware, const void *data, size_t index, double *seconds,
                                 struct tpp_error *err)
{
    const struct used_runs *used = data;
    struct tpp_run_profile *trial = used->trial;
    const struct tpp_run *run = used->items[index];
    struct tpp_run_profiles profiles = {.items = &trial, .count = 1};
    const struct step_context context = {run, trial, &profiles};
    const struct tpp_hardware *known = tpp_run_profiles_find(used->known, run->cluster.profile, err);
    if (known == NULL)
        return TPP_E_MISSING;
    struct tpp_hardware *merged = malloc(sizeof *merged);
    if (merged == NULL)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    *merged = *known;
    merged->gpu = hardware->gpu;
    snprintf(trial->name, sizeof trial->name, "%s", run->cluster.profile);
    const enum tpp_code code = predict_step(merged, &context, seconds, err);
    free(merged);
    return code;
}

/* Of this GPU, dense, in 16 bits, measured, in the default subset, and one that the cost model can predict. */
static bool is_usable(const struct tpp_run *run, const struct tpp_hardware *hardware, struct tpp_run_profiles *known)
{
    struct tpp_error err;
    struct tpp_run_prediction prediction;
    if (!is_measured(run) || run->job.precision == TPP_PRECISION_FP8 || run->model.num_experts > 0)
        return false;
    const struct tpp_hardware *profile = tpp_run_profiles_find(known, run->cluster.profile, &err);
    return profile != NULL && strcmp(profile->gpu.name, hardware->gpu.name) == 0 &&
           tpp_run_predict(run, known, TPP_RUN_ESTIMATE, &prediction, &err) == TPP_OK && !prediction.skipped[0];
}

static enum tpp_code load_runs(const struct tpp_option_list *files, struct tpp_run_profiles *known,
                               struct tpp_runs *runs, struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    for (size_t i = 0; i < files->count && code == TPP_OK; i++)
        code = tpp_runs_load(files->items[i], known, runs, err);
    if (code == TPP_OK)
        tpp_runs_keep_default_subset(runs);
    return code;
}

static enum tpp_code fit_runs(const struct tpp_option_list *files, const char *date, const struct tpp_runs *runs,
                              struct used_runs *used, struct tpp_hardware *hardware, struct tpp_fit_report *report,
                              struct tpp_error *err)
{
    bool is_published = true;
    for (size_t i = 0; i < runs->count; i++) {
        if (is_usable(&runs->items[i], hardware, used->known)) {
            is_published = is_published && runs->items[i].is_published;
            used->items[used->count] = &runs->items[i];
            used->seconds[used->count++] = runs->items[i].measured_step_seconds;
        }
    }
    if (used->count == 0)
        return tpp_fail(err, TPP_E_MISSING, files->items[0], "give runs in the format of tp-plan validate",
                        "no dense 16-bit run of %s with a measured step that can be predicted", hardware->gpu.name);
    char source[128];
    const char *slash = strrchr(files->items[0], '/');
    snprintf(source, sizeof source, "%.60s%s", slash ? slash + 1 : files->items[0],
             files->count > 1 ? " and others" : "");
    const struct tpp_measured_steps steps = {used->seconds, used->count, predict_run, used};
    const struct tpp_step_origin origin = {source, date, is_published};
    return tpp_fit_steps(hardware, &steps, &origin, report, err);
}

enum tpp_code tpp_calibrate_steps(const struct tpp_option_list *files, const char *date,
                                  struct tpp_hardware *hardware, struct tpp_fit_report *report, struct tpp_error *err)
{
    struct tpp_run_profiles known = {0};
    struct tpp_runs runs = {0};
    enum tpp_code code = load_runs(files, &known, &runs, err);
    struct used_runs used = {.items = calloc(runs.count + 1, sizeof *used.items),
                             .seconds = calloc(runs.count + 1, sizeof *used.seconds),
                             .known = &known,
                             .trial = calloc(1, sizeof *used.trial)};
    if (code == TPP_OK && (!used.items || !used.seconds || !used.trial))
        code = tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    if (code == TPP_OK)
        code = fit_runs(files, date, &runs, &used, hardware, report, err);
    free(used.items);
    free(used.seconds);
    free(used.trial);
    tpp_runs_release(&runs);
    tpp_run_profiles_release(&known);
    return code;
}
