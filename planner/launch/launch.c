/* launch.c - finds the emitter of a framework. */
#include "planner/launch/emitter.h"

static const struct tpp_launch_emitter *const emitters[] = {
    &tpp_launch_megatron_lm,
};
#define NUM_EMITTERS (sizeof emitters / sizeof *emitters)

const char *tpp_launch_framework_at(size_t index)
{
    return index < NUM_EMITTERS ? tpp_framework_name(emitters[index]->framework) : NULL;
}

static const struct tpp_launch_emitter *find(enum tpp_framework framework)
{
    for (size_t i = 0; i < NUM_EMITTERS; i++) {
        if (emitters[i]->framework == framework)
            return emitters[i];
    }
    return NULL;
}

static enum tpp_code fail_not_built(enum tpp_framework framework, struct tpp_error *err)
{
    struct tpp_text names;
    tpp_text_init(&names);
    for (size_t i = 0; i < NUM_EMITTERS; i++)
        tpp_text_format(&names, "%s%s", i == 0 ? "scripts are written for " : ", ", tpp_launch_framework_at(i));
    enum tpp_code code = tpp_fail(err, TPP_E_NOT_BUILT, "framework", tpp_text_get(&names),
                                  "there is no launch script for %s", tpp_framework_name(framework));
    tpp_text_release(&names);
    return code;
}

static enum tpp_code emit_checked(const struct tpp_launch_request *request, struct tpp_text *script,
                                  struct tpp_error *err)
{
    const struct tpp_launch_emitter *emitter = find(request->stack->framework);
    if (emitter == NULL)
        return fail_not_built(request->stack->framework, err);
    if (request->num_nodes == 0 || (uint64_t)request->num_nodes * request->gpus_per_node != request->job->num_gpus)
        return tpp_fail(err, TPP_E_USAGE, "nodes", "give nodes and GPUs of a node whose product is the number of GPUs",
                        "%u nodes of %u GPUs do not make %u GPUs", request->num_nodes, request->gpus_per_node,
                        request->job->num_gpus);
    enum tpp_code code = tpp_model_check(request->model, err);
    if (code == TPP_OK)
        code = tpp_job_check(request->job, request->model, err);
    if (code == TPP_OK)
        code = emitter->emit(request, script, err);
    if (code == TPP_OK && tpp_text_failed(script))
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory while writing the launch script");
    return code;
}

enum tpp_code tpp_launch_emit(const struct tpp_launch_request *request, struct tpp_text *out, struct tpp_error *err)
{
    struct tpp_text script;
    tpp_text_init(&script);
    enum tpp_code code = emit_checked(request, &script, err);
    if (code == TPP_OK)
        tpp_text_append_bytes(out, tpp_text_get(&script), script.length);
    tpp_text_release(&script);
    return code;
}

bool tpp_launch_can_express(const struct tpp_launch_request *request, struct tpp_error *err)
{
    struct tpp_text script;
    tpp_text_init(&script);
    enum tpp_code code = emit_checked(request, &script, err);
    tpp_text_release(&script);
    return code == TPP_OK;
}
