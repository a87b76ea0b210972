/* launch.c - finds the emitter of a framework. */
#include "planner/launch/bridge_arguments.h"
#include "planner/launch/deepspeed_arguments.h"
#include "planner/launch/emitter.h"
#include "planner/launch/swift_arguments.h"
#include "planner/launch/trainer_arguments.h"

static const struct tpp_launch_emitter emitters[] = {
    {TPP_FRAMEWORK_MEGATRON_LM, TPP_LAUNCH_ANY_ENGINE, "Megatron-LM", true, tpp_launch_option_find,
     tpp_launch_check_megatron_lm, tpp_launch_emit_megatron_lm},
    {TPP_FRAMEWORK_MEGATRON_DEEPSPEED, TPP_LAUNCH_ANY_ENGINE, "Megatron-DeepSpeed", false, tpp_deepspeed_option_find,
     tpp_launch_check_megatron_deepspeed, tpp_launch_emit_megatron_deepspeed},
    {TPP_FRAMEWORK_NEMO, 1u << TPP_ENGINE_MEGATRON | 1u << TPP_ENGINE_FSDP2, "Megatron-Bridge", false, tpp_bridge_option_find,
     tpp_launch_check_megatron_bridge, tpp_launch_emit_megatron_bridge},
    {TPP_FRAMEWORK_MS_SWIFT, 1u << TPP_ENGINE_MEGATRON | 1u << TPP_ENGINE_FSDP2, "ms-swift (megatron)", false, tpp_swift_option_find,
     tpp_launch_check_swift_megatron, tpp_launch_emit_swift_megatron},
    {TPP_FRAMEWORK_MS_SWIFT, 1u << TPP_ENGINE_DEEPSPEED, "ms-swift", false, tpp_trainer_option_find,
     tpp_launch_check_swift, tpp_launch_emit_swift},
    {TPP_FRAMEWORK_HF_TRAINER, 1u << TPP_ENGINE_DEEPSPEED, "Hugging Face's Trainer", false, tpp_trainer_option_find,
     tpp_launch_check_trainer, tpp_launch_emit_trainer},
    {TPP_FRAMEWORK_HF_TRAINER, 1u << TPP_ENGINE_FSDP1 | 1u << TPP_ENGINE_FSDP2, "accelerate", false,
     tpp_trainer_option_find, tpp_launch_check_accelerate, tpp_launch_emit_accelerate},
    {TPP_FRAMEWORK_TORCHTITAN, TPP_LAUNCH_ANY_ENGINE, "torchtitan", false, NULL, tpp_launch_check_torchtitan,
     tpp_launch_emit_torchtitan},
    {TPP_FRAMEWORK_NANOTRON, TPP_LAUNCH_ANY_ENGINE, "nanotron", false, NULL, tpp_launch_check_nanotron,
     tpp_launch_emit_nanotron},
};
#define NUM_EMITTERS (sizeof emitters / sizeof *emitters)

/* Rows of one framework are neighbours. */
static bool is_first_of_framework(size_t row)
{
    return row == 0 || emitters[row].framework != emitters[row - 1].framework;
}

const char *tpp_launch_framework_at(size_t index)
{
    for (size_t i = 0; i < NUM_EMITTERS; i++) {
        if (is_first_of_framework(i) && index-- == 0)
            return tpp_framework_name(emitters[i].framework);
    }
    return NULL;
}

static enum tpp_code fail_not_built(const struct tpp_stack *stack, struct tpp_error *err)
{
    struct tpp_text names;
    const char *name;
    tpp_text_init(&names);
    for (size_t i = 0; (name = tpp_launch_framework_at(i)) != NULL; i++)
        tpp_text_format(&names, "%s%s", i == 0 ? "scripts are written for " : ", ", name);
    enum tpp_code code =
        tpp_fail(err, TPP_E_NOT_BUILT, "framework", tpp_text_get(&names), "there is no launch script for %s with %s",
                 tpp_framework_name(stack->framework), tpp_engine_name(stack->engine));
    tpp_text_release(&names);
    return code;
}

static const struct tpp_launch_emitter *find(const struct tpp_stack *stack)
{
    for (size_t i = 0; i < NUM_EMITTERS; i++) {
        if (emitters[i].framework == stack->framework && (emitters[i].engines & 1u << stack->engine) != 0)
            return &emitters[i];
    }
    return NULL;
}

enum tpp_code tpp_launch_check_job(const struct tpp_launch_request *request, struct tpp_error *err)
{
    const struct tpp_launch_emitter *emitter = find(request->stack);
    return emitter == NULL ? fail_not_built(request->stack, err) : emitter->check_job(request, err);
}

/* With `files` NULL the script writes them by itself. */
static enum tpp_code emit_checked(const struct tpp_launch_request *request, struct tpp_text *out,
                                  struct tpp_launch_output *files, struct tpp_error *err)
{
    const struct tpp_launch_emitter *emitter = find(request->stack);
    if (emitter == NULL)
        return fail_not_built(request->stack, err);
    if (request->num_nodes == 0 || (uint64_t)request->num_nodes * request->gpus_per_node != request->job->num_gpus)
        return tpp_fail(err, TPP_E_USAGE, "nodes", "give nodes and GPUs of a node whose product is the number of GPUs",
                        "%u nodes of %u GPUs do not make %u GPUs", request->num_nodes, request->gpus_per_node,
                        request->job->num_gpus);
    struct tpp_script script = {.out = out,
                                .files = files,
                                .framework = emitter->title,
                                .has_releases = emitter->has_releases,
                                .find_option = emitter->find_option,
                                .release = request->release};
    enum tpp_code code = tpp_model_check(request->model, err);
    if (code == TPP_OK)
        code = tpp_job_check(request->job, request->model, err);
    if (code == TPP_OK)
        code = emitter->check_job(request, err);
    if (code == TPP_OK)
        code = emitter->emit(request, &script, err);
    if (code == TPP_OK)
        code = tpp_script_finish(&script, err);
    if (code == TPP_OK && tpp_text_failed(out))
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory while writing the launch script");
    return code;
}

enum tpp_code tpp_launch_write(const struct tpp_launch_request *request, struct tpp_launch_output *launch,
                               struct tpp_error *err)
{
    *launch = (struct tpp_launch_output){.num_files = 0};
    return emit_checked(request, &launch->script, launch, err);
}

void tpp_launch_output_release(struct tpp_launch_output *launch)
{
    tpp_text_release(&launch->script);
    for (size_t i = 0; i < launch->num_files; i++)
        tpp_text_release(&launch->files[i].content);
    launch->num_files = 0;
}

enum tpp_code tpp_launch_emit(const struct tpp_launch_request *request, struct tpp_text *out, struct tpp_error *err)
{
    struct tpp_text script;
    tpp_text_init(&script);
    enum tpp_code code = emit_checked(request, &script, NULL, err);
    if (code == TPP_OK)
        tpp_text_append_bytes(out, tpp_text_get(&script), script.length);
    tpp_text_release(&script);
    return code;
}

bool tpp_launch_can_express(const struct tpp_launch_request *request, struct tpp_error *err)
{
    struct tpp_text script;
    tpp_text_init(&script);
    enum tpp_code code = emit_checked(request, &script, NULL, err);
    tpp_text_release(&script);
    return code == TPP_OK;
}
