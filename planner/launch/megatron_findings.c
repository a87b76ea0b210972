/* megatron_findings.c - what is wrong with a command line of Megatron-LM that its parser takes: broken rules at their
 * lines, and settings that do not do what they say (launch formats, section 10). */
#include "planner/launch/megatron_arguments.h"

#include "planner/launch/option_spelling.h"

#include <stdio.h>
#include <string.h>

enum { MAX_VIOLATIONS = 32 };

/* The options that a rule is about; the last one that is given decides the line. Sorted as the rules are numbered. */
static const struct {
    const char *code;
    const char *options[4];
} rule_options[] = {
    {"ML-1", {"--tensor-model-parallel-size", "--context-parallel-size", "--pipeline-model-parallel-size"}},
    {"ML-2", {"--expert-tensor-parallel-size", "--expert-model-parallel-size"}},
    {"ML-3", {"--rampup-batch-size", "--micro-batch-size", "--global-batch-size"}},
    {"ML-4", {"--tensor-model-parallel-size", "--num-attention-heads"}},
    {"ML-5", {"--tensor-model-parallel-size", "--num-query-groups"}},
    {"ML-6", {"--num-attention-heads", "--hidden-size"}},
    {"ML-7", {"--ffn-hidden-size", "--moe-shared-expert-intermediate-size", "--moe-ffn-hidden-size"}},
    {"ML-8", {"--context-parallel-size", "--seq-length"}},
    {"ML-9", {"--seq-length", "--sequence-parallel"}},
    {"ML-10", {"--seq-length", "--max-position-embeddings"}},
    {"ML-11", {"--bf16", "--fp16"}},
    {"ML-12", {"--num-layers", "--pipeline-model-parallel-size", "--virtual-pipeline-model-parallel-size"}},
    {"ML-13", {"--mock-data", "--train-data-path", "--data-path"}},
    {"ML-14", {"--train-iters", "--lr-warmup-samples", "--lr-decay-samples", "--train-samples"}},
    {"ML-15", {"--save", "--min-lr"}},
    {"ML-20",
     {"--virtual-pipeline-model-parallel-size", "--num-virtual-stages-per-pipeline-rank",
      "--num-layers-per-virtual-pipeline-stage"}},
    {"ML-21", {"--virtual-pipeline-model-parallel-size", "--num-layers-per-virtual-pipeline-stage"}},
    {"ML-22",
     {"--virtual-pipeline-model-parallel-size", "--num-virtual-stages-per-pipeline-rank",
      "--num-layers-per-virtual-pipeline-stage"}},
    {"ML-23", {"--decoder-first-pipeline-num-layers", "--num-layers-per-virtual-pipeline-stage"}},
    {"ML-24",
     {"--num-layers-in-last-pipeline-stage", "--num-layers-in-first-pipeline-stage",
      "--decoder-last-pipeline-num-layers", "--decoder-first-pipeline-num-layers"}},
    {"ML-25",
     {"--num-layers-in-last-pipeline-stage", "--num-layers-in-first-pipeline-stage",
      "--decoder-last-pipeline-num-layers", "--decoder-first-pipeline-num-layers"}},
    {"ML-26", {"--account-for-loss-in-pipeline-split", "--account-for-embedding-in-pipeline-split"}},
    {"ML-27", {"--account-for-loss-in-pipeline-split", "--account-for-embedding-in-pipeline-split"}},
    {"ML-28", {"--pipeline-model-parallel-layout"}},
    {"ML-29",
     {"--virtual-pipeline-model-parallel-size", "--num-layers-per-virtual-pipeline-stage", "--global-batch-size"}},
    {"ML-30", {"--overlap-p2p-communication-warmup-flush"}},
    {"ML-31", {"--defer-embedding-wgrad-compute"}},
    {"ML-40", {"--overlap-param-gather"}},
    {"ML-41", {"--overlap-param-gather-with-optimizer-step"}},
    {"ML-42", {"--bucket-size", "--ddp-bucket-size", "--ddp-num-buckets"}},
    {"ML-43", {"--num-distributed-optimizer-instances"}},
    {"ML-44", {"--use-torch-fsdp2"}},
    {"ML-45", {"--use-megatron-fsdp"}},
    {"ML-46", {"--ckpt-format"}},
    {"ML-47", {"--optimizer-cpu-offload"}},
    {"ML-48", {"--use-precision-aware-optimizer"}},
    {"ML-49", {"--exp-avg-dtype", "--main-params-dtype", "--main-grads-dtype"}},
    {"ML-50", {"--fp8-param-gather"}},
    {"ML-51", {"--fp8-format", "--fp4-format"}},
    {"ML-52", {"--first-last-layers-bf16"}},
    {"ML-53", {"--optimizer"}},
    {"ML-60", {"--recompute-num-layers", "--recompute-method", "--recompute-granularity"}},
    {"ML-61", {"--recompute-modules"}},
    {"ML-62", {"--distribute-checkpointed-activations", "--distribute-saved-activations"}},
    {"ML-63", {"--cpu-offloading-num-layers"}},
    {"ML-64", {"--cuda-graph-impl"}},
    {"ML-70", {"--num-experts", "--expert-model-parallel-size"}},
    {"ML-71", {"--tensor-model-parallel-size", "--num-experts"}},
    {"ML-72", {"--num-experts"}},
    {"ML-73", {"--moe-router-topk"}},
    {"ML-74", {"--moe-expert-capacity-factor", "--moe-pad-expert-input-to-capacity"}},
    {"ML-75", {"--moe-shared-expert-overlap"}},
    {"ML-76", {"--moe-router-enable-expert-bias"}},
    {"ML-77", {"--moe-router-num-groups", "--moe-router-group-topk"}},
    {"ML-78", {"--moe-token-dispatcher-type", "--moe-enable-deepep"}},
    {"ML-79", {"--moe-layer-freq"}},
    {"ML-80", {"--overlap-moe-expert-parallel-comm"}},
    {"ML-81", {"--delay-wgrad-compute"}},
    {"ML-82", {"--moe-grouped-gemm"}},
    {"ML-83", {"--use-tp-pp-dp-mapping"}},
    {"ML-84", {"--group-query-attention", "--multi-latent-attention"}},
    {"ML-85", {"--mtp-num-layers"}},
    {"ML-90", {"--tp-comm-overlap"}},
    {"ML-92", {"--hierarchical-context-parallel-sizes", "--cp-comm-type"}},
    {"ML-93", {"--cp-comm-type"}},
    {"ML-94", {"--cp-comm-type"}},
    {"ML-95", {"--squared-relu", "--quick-geglu", "--swiglu"}},
    {"ML-96", {"--global-batch-size", "--step-batch-size-schedule"}},
    {"ML-97", {"--cross-entropy-fusion-impl", "--cross-entropy-loss-fusion"}},
    {"ML-98", {"--normalization", "--transformer-impl"}},
    {"ML-100", {"--tensor-parallel-num-weight-shards"}},
    {"MD-1", {"--pipeline-model-parallel-size", "--tensor-model-parallel-size"}},
    {"MD-2", {"--ds-sequence-parallel-size", "--pipeline-model-parallel-size", "--tensor-model-parallel-size"}},
    {"MD-3", {"--ds-sequence-parallel-size"}},
    {"MD-4", {"--pipeline-model-parallel-size", "--no-pipeline-parallel"}},
    {"MD-5", {"--pipeline-model-parallel-size", "--zero-stage"}},
    {"MD-9", {"--num-layers-per-virtual-pipeline-stage"}},
    {"MD-11", {"--num-attention-heads", "--num-key-value-heads"}},
    {"MD-12", {"--num-experts", "--moe-expert-parallel-size"}},
    {"MD-13", {"--micro-batch-size", "--global-batch-size"}},
    {"MD-16", {"--seq-length", "--max-position-embeddings"}},
    {"MD-17", {"--sequence-parallel"}},
    {"MD-18", {"--zero-stage", "--num-experts"}},
};

/* "--seq-length", "--seq_length" of ms-swift and "dataset.seq_length" of Megatron-Bridge are one name. */
static bool is_same_name(const char *given, const char *name)
{
    const char *dot = strrchr(given, '.');
    given = dot != NULL ? dot + 1 : given + strspn(given, "-");
    name += strspn(name, "-");
    for (; *given != '\0' && (*given == *name || (*given == '_' && *name == '-')); given++)
        name++;
    return *given == '\0' && *name == '\0';
}

static uint32_t line_of_name(const struct tpp_arguments *arguments, const char *name)
{
    for (size_t i = arguments->count; i > 0; i--) {
        if (is_same_name(arguments->items[i - 1].option->name, name))
            return arguments->items[i - 1].word->line;
    }
    return 0;
}

/* `line` when none of them is given: the rule is about what is missing. */
static uint32_t line_of(const char *code, const struct tpp_arguments *arguments, uint32_t line)
{
    for (size_t i = 0; i < sizeof rule_options / sizeof *rule_options; i++) {
        if (strcmp(rule_options[i].code, code) != 0)
            continue;
        for (size_t k = 0; k < 4 && rule_options[i].options[k] != NULL; k++) {
            uint32_t here = line_of_name(arguments, rule_options[i].options[k]);
            line = here > 0 ? here : line;
        }
    }
    return line;
}

void tpp_megatron_find_violations(const struct tpp_arguments *arguments, const struct tpp_rule_settings *settings,
                                  enum tpp_release release, uint32_t command_line, struct tpp_problems *problems)
{
    struct tpp_violation violations[MAX_VIOLATIONS];
    size_t count = tpp_rules_violations(settings, release, violations, MAX_VIOLATIONS);
    for (size_t i = 0; i < count && i < MAX_VIOLATIONS; i++) {
        bool is_silent = violations[i].stage == TPP_RULE_SILENT;
        char suggestion[200], words[400], hint[256], message[320];
        tpp_megatron_suggest(violations[i].code, settings, release, suggestion, sizeof suggestion);
        snprintf(words, sizeof words, "%s%s%s", violations[i].hint != NULL ? violations[i].hint : "",
                 suggestion[0] != '\0' ? ": " : "", suggestion);
        tpp_spell_options(settings->framework, words, hint, sizeof hint);
        tpp_spell_options(settings->framework, violations[i].message, message, sizeof message);
        tpp_problems_add(problems, violations[i].code, is_silent ? TPP_SEVERITY_WARNING : TPP_SEVERITY_ERROR,
                         line_of(violations[i].code, arguments, command_line), hint, "%s", message);
    }
}

struct finding {
    bool is_there;
    const char *code, *option, *message, *hint;
};

void tpp_megatron_find_dead(const struct tpp_arguments *arguments, const struct tpp_megatron_settings *s,
                            enum tpp_release release, struct tpp_problems *problems)
{
    const struct tpp_rule_settings *rules = &s->rules;
    bool is_dense = rules->num_experts == TPP_RULE_UNSET;
    bool interleaves =
        rules->layers_per_virtual_stage != TPP_RULE_UNSET || rules->virtual_stages_per_rank != TPP_RULE_UNSET;
    const struct finding findings[] = {
        {rules->sequence_parallel && rules->tensor_parallel == 1, "dead-setting", "--sequence-parallel",
         "--sequence-parallel does nothing with one tensor-parallel rank", "take it out"},
        {s->no_position_embedding && release >= TPP_RELEASE_0_4 && rules->position != TPP_RULE_POSITION_LEARNED,
         "contradiction", "--no-position-embedding",
         "--no-position-embedding beside another --position-embedding-type: the type decides",
         "keep --position-embedding-type alone"},
        {s->no_masked_softmax_fusion && s->attention != TPP_MEGATRON_ATTENTION_UNFUSED &&
             s->attention != TPP_MEGATRON_ATTENTION_LOCAL && !rules->local_transformer,
         "dead-setting", "--no-masked-softmax-fusion",
         "--no-masked-softmax-fusion changes nothing: attention runs in one fused kernel", "take it out"},
        {s->use_mcore_models && release >= TPP_RELEASE_0_8, "dead-setting", "--use-mcore-models",
         "--use-mcore-models is the default since 0.8", "take it out"},
        {s->flash_attention && release >= TPP_RELEASE_0_11 && s->attention != TPP_MEGATRON_ATTENTION_AUTO &&
             s->attention != TPP_MEGATRON_ATTENTION_FLASH,
         "contradiction", "--use-flash-attn",
         "--use-flash-attn beside another --attention-backend: the backend decides", "keep --attention-backend alone"},
        {rules->num_query_groups != 1 && !rules->group_query_attention, "dead-setting", "--num-query-groups",
         "--num-query-groups is ignored without --group-query-attention", "add --group-query-attention"},
        {rules->rampup_start != TPP_RULE_UNSET && release >= TPP_RELEASE_0_18, "dead-setting", "--rampup-batch-size",
         "--rampup-batch-size is read and ignored since 0.18: the whole batch is used from the first step",
         "use --step-batch-size-schedule"},
        {rules->expert_parallel > 1 && is_dense, "dead-setting", "--expert-model-parallel-size",
         "--expert-model-parallel-size does nothing without --num-experts", "take it out"},
        {rules->grouped_gemm && is_dense, "dead-setting", "--moe-grouped-gemm",
         "--moe-grouped-gemm does nothing without --num-experts", "take it out"},
        {rules->overlap_p2p_warmup_flush && !interleaves, "dead-setting", "--overlap-p2p-communication-warmup-flush",
         "--overlap-p2p-communication-warmup-flush does nothing without interleaving", "take it out"},
        {rules->ddp_bucket_size != TPP_RULE_UNSET && !rules->overlap_grad_reduce, "dead-setting", "--ddp-bucket-size",
         "--ddp-bucket-size does nothing without --overlap-grad-reduce: gradients are one bucket",
         "add --overlap-grad-reduce"},
        {rules->recompute != TPP_RULE_GRANULARITY_NONE && rules->recompute_modules != 0 &&
             rules->recompute == TPP_RULE_GRANULARITY_FULL,
         "dead-setting", "--recompute-modules", "--recompute-modules does nothing with full recomputation",
         "take it out, or use --recompute-granularity selective"},
    };
    for (size_t i = 0; i < sizeof findings / sizeof *findings; i++) {
        if (findings[i].is_there)
            tpp_problems_add(problems, findings[i].code, TPP_SEVERITY_WARNING,
                             tpp_argument_line(arguments, findings[i].option), findings[i].hint, "%s",
                             findings[i].message);
    }
}
