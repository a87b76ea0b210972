/* test_launch.c - the launch script of Megatron-LM: what it says, what it refuses, and that nothing in it is executed.
 */
#include "tests/support/failing_alloc.h"
#include "tests/support/launch_case.h"
#include "tests/support/script_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* The script of the case; fails the test with the reason when there is none. */
static void emit(const struct launch_case *c, struct tpp_text *script)
{
    struct tpp_error err = {0};
    tpp_text_init(script);
    if (tpp_launch_emit(&c->request, script, &err) != TPP_OK)
        fail_msg("%s (%s)", err.message, err.where);
    assert_true(tpp_launch_can_express(&c->request, NULL));
}

static void start(const struct launch_case *c, struct script_run *run)
{
    struct tpp_text script;
    emit(c, &script);
    script_run(tpp_text_get(&script), launch_environment, run);
    if (run->status != 0)
        fail_msg("the script ended with %d: %s", run->status, run->complaint);
    tpp_text_release(&script);
}

static void check_refused(const struct launch_case *c, enum tpp_code code, const char *where)
{
    struct tpp_text script;
    struct tpp_error err = {0};
    tpp_text_init(&script);
    tpp_text_append(&script, "before");
    assert_int_equal(tpp_launch_emit(&c->request, &script, &err), code);
    assert_string_equal(tpp_text_get(&script), "before");
    assert_string_equal(err.where, where);
    assert_true(err.message[0] != '\0' && err.hint[0] != '\0');
    assert_false(tpp_launch_can_express(&c->request, NULL));
    tpp_text_release(&script);
}

static void check_value(const struct script_run *run, const char *option, const char *expected)
{
    const char *value = script_run_value(run, option);
    if (value == NULL || strcmp(value, expected) != 0)
        fail_msg("%s is %s, expected %s", option, value == NULL ? "missing" : value, expected);
}

static void test_a_plan_is_written_in_full(void **state)
{
    struct launch_case c;
    struct script_run run;
    (void)state;
    launch_case_init(&c);
    start(&c, &run);
    assert_string_equal(script_run_variable(&run, "CUDA_DEVICE_MAX_CONNECTIONS"), "1");
    check_value(&run, "--nproc_per_node", "8");
    check_value(&run, "--nnodes", "8");
    check_value(&run, "--node_rank", "1");
    check_value(&run, "--master_addr", "host0");
    check_value(&run, "/opt/megatron/pretrain_gpt.py", "--num-layers");
    check_value(&run, "--num-layers", "32");
    check_value(&run, "--hidden-size", "4096");
    check_value(&run, "--ffn-hidden-size", "14336");
    check_value(&run, "--num-query-groups", "8");
    check_value(&run, "--kv-channels", "128");
    check_value(&run, "--normalization", "RMSNorm");
    check_value(&run, "--norm-epsilon", "1e-05");
    check_value(&run, "--rotary-base", "500000");
    check_value(&run, "--vocab-size", "128256");
    check_value(&run, "--hidden-dropout", "0");
    check_value(&run, "--num-layers-per-virtual-pipeline-stage", "4"); /* 32 / (4 * 2) */
    check_value(&run, "--global-batch-size", "512");
    check_value(&run, "--train-iters", "1000");
    check_value(&run, "--lr", "3e-4");
    check_value(&run, "--data-path", "0.3");
    static const char *const flags[] = {"--swiglu",
                                        "--group-query-attention",
                                        "--disable-bias-linear",
                                        "--bf16",
                                        "--untie-embeddings-and-output-weights",
                                        "--sequence-parallel",
                                        "--use-distributed-optimizer",
                                        "--overlap-grad-reduce",
                                        "--overlap-param-gather"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        assert_true(script_run_has(&run, flags[i]));
    assert_false(script_run_has(&run, "--fp16"));
    assert_false(script_run_has(&run, "--recompute-granularity"));
    script_run_release(&run);
}

static void test_under_slurm_the_node_rank_is_the_nodes_own(void **state)
{
    struct launch_case c;
    struct script_run run;
    struct tpp_text script;
    (void)state;
    launch_case_init(&c);
    c.request.slurm = true;
    start(&c, &run);
    check_value(&run, "--node_rank", "3"); /* of the stub */
    check_value(&run, "--master_addr", "first");
    check_value(&run, "--nnodes", "8");
    check_value(&run, "--log-throughput", "");
    script_run_release(&run);
    emit(&c, &script);
    assert_non_null(strstr(tpp_text_get(&script), "\n#SBATCH --nodes=8\n#SBATCH --ntasks-per-node=1\n"));
    const char *other_nodes[] = {"MEGATRON_PATH=x", "DATA_PATH=x", "TOKENIZER_MODEL=x", "CHECKPOINT_PATH=x",
                                 "TRAIN_ITERS=1",   "LR=1",        "SLURM_NNODES=4",    NULL};
    script_run(tpp_text_get(&script), other_nodes, &run);
    assert_int_equal(run.status, 2);
    assert_non_null(strstr(run.complaint, "planned for 8 nodes, started on 4"));
    script_run_release(&run);
    tpp_text_release(&script);
}

/* Field note A9. */
static void test_the_environment_of_the_request_is_set_and_debugging_warns(void **state)
{
    static const struct tpp_launch_variable variables[] = {
        {"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:512,garbage_collection_threshold:0.8", "As replayed."},
        {"NCCL_SOCKET_IFNAME", "$(touch trace)", NULL}};
    struct launch_case c;
    struct script_run run;
    (void)state;
    launch_case_init(&c);
    start(&c, &run);
    assert_string_equal(script_run_variable(&run, "PYTORCH_CUDA_ALLOC_CONF"), "expandable_segments:True");
    assert_null(script_run_variable(&run, "CUDA_LAUNCH_BLOCKING"));
    assert_string_equal(run.complaint, "");
    script_run_release(&run);
    c.request.variables = variables;
    c.request.num_variables = 2;
    c.request.debug = true;
    start(&c, &run);
    assert_string_equal(script_run_variable(&run, "PYTORCH_CUDA_ALLOC_CONF"), variables[0].value);
    assert_string_equal(script_run_variable(&run, "NCCL_SOCKET_IFNAME"), "$(touch trace)");
    assert_false(run.left_a_trace);
    assert_string_equal(script_run_variable(&run, "CUDA_LAUNCH_BLOCKING"), "1");
    assert_string_equal(script_run_variable(&run, "NCCL_DEBUG"), "INFO");
    assert_non_null(strstr(run.complaint, "3 to 5 times slower"));
    script_run_release(&run);
}

static void test_one_node_needs_no_address(void **state)
{
    struct launch_case c;
    struct script_run run;
    (void)state;
    launch_case_init(&c);
    c.request.num_nodes = 1;
    c.job.num_gpus = 8;
    c.strategy.tensor_parallel = 2;
    c.strategy.data_parallel = 1;
    c.strategy.num_micro_batches = 512;
    start(&c, &run);
    assert_string_equal(run.words[0], "--standalone");
    assert_false(script_run_has(&run, "--master_addr"));
    script_run_release(&run);
}

static void test_a_variable_that_is_not_set_stops_the_script(void **state)
{
    struct launch_case c;
    struct tpp_text script;
    (void)state;
    launch_case_init(&c);
    emit(&c, &script);
    for (size_t left_out = 0; left_out < 8; left_out++) {
        const char *environment[sizeof launch_environment / sizeof *launch_environment] = {NULL};
        char name[32] = {0};
        struct script_run run;
        size_t count = 0;
        for (size_t i = 0; launch_environment[i] != NULL; i++) {
            if (i != left_out)
                environment[count++] = launch_environment[i];
        }
        memcpy(name, launch_environment[left_out], strcspn(launch_environment[left_out], "="));
        script_run(tpp_text_get(&script), environment, &run);
        assert_int_not_equal(run.status, 0);
        assert_int_equal(run.num_words, 0);
        assert_non_null(strstr(run.complaint, name));
        assert_non_null(strstr(run.complaint, ": set "));
        script_run_release(&run);
    }
    tpp_text_release(&script);
}

static void test_hostile_texts_stay_texts(void **state)
{
    static const char *const texts[] = {"$(touch trace)",
                                        "`touch trace`",
                                        "\"; touch trace; \"",
                                        "'; touch trace; '",
                                        "x\ntouch trace\n",
                                        "x\r\n#SBATCH --wrap='touch trace'\n",
                                        "\\\ntouch trace",
                                        "${IFS}",
                                        "* ?",
                                        "模型 \xf0\x9f\x92\xa5",
                                        "-e",
                                        ""};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        for (int slurm = 0; slurm <= 1; slurm++) {
            struct launch_case c;
            struct script_run run;
            char lr[128], checkpoint[128];
            struct tpp_text script;
            launch_case_init(&c);
            snprintf(c.model.name, sizeof c.model.name, "%s", texts[i]);
            snprintf(c.hardware.name, sizeof c.hardware.name, "%s", texts[i]);
            c.request.job_name = c.request.tool_version = c.request.note = texts[i];
            c.request.slurm = slurm == 1;
            snprintf(lr, sizeof lr, "LR=x%s", texts[i]);
            snprintf(checkpoint, sizeof checkpoint, "CHECKPOINT_PATH=/a %s", texts[i]);
            const char *environment[] = {lr,
                                         checkpoint,
                                         "MEGATRON_PATH=/m n",
                                         "DATA_PATH=/d",
                                         "TOKENIZER_MODEL=/t",
                                         "TRAIN_ITERS=5",
                                         "MASTER_ADDR=h",
                                         "NODE_RANK=0",
                                         "SLURM_NNODES=8",
                                         "SLURM_JOB_NODELIST=h",
                                         NULL};
            emit(&c, &script);
            script_run(tpp_text_get(&script), environment, &run);
            assert_int_equal(run.status, 0);
            assert_false(run.left_a_trace);
            check_value(&run, "--lr", lr + strlen("LR="));
            check_value(&run, "--save", checkpoint + strlen("CHECKPOINT_PATH="));
            check_value(&run, "/m n/pretrain_gpt.py", "--num-layers");
            script_run_release(&run);
            tpp_text_release(&script);
        }
    }
}

/* What tpp_model_check asks of the rest once one field was changed. */
static void make_consistent(struct tpp_model *model)
{
    if (model->position != TPP_POSITION_ROPE)
        model->rope_theta = model->rotary_fraction = 0;
    if (model->position == TPP_POSITION_LEARNED && model->learned_position_rows == 0)
        model->learned_position_rows = 8192;
    if (model->kv_lora_rank > 0) {
        model->qk_nope_head_dim = model->v_head_dim = 128;
        model->qk_rope_head_dim = 64;
        model->head_dim = 192;
        model->num_query_groups = model->num_attention_heads;
    }
}

static void test_what_megatron_cannot_describe_is_an_error(void **state)
{
    struct launch_case c;
    (void)state;
#define CHECK_MODEL(field, value)                                                                                      \
    do {                                                                                                               \
        launch_case_init(&c);                                                                                          \
        c.model.field = (value);                                                                                       \
        make_consistent(&c.model);                                                                                     \
        check_refused(&c, TPP_E_UNSUPPORTED, "model." #field);                                                         \
    } while (0)
    CHECK_MODEL(parallel_block, true);
    CHECK_MODEL(norms_per_layer, 4);
    CHECK_MODEL(final_norm, false);
    CHECK_MODEL(embedding_norm, true);
    CHECK_MODEL(norm, TPP_NORM_LAYER_NO_BIAS);
    CHECK_MODEL(norm, TPP_NORM_NO_PARAMETERS);
    CHECK_MODEL(activation, TPP_ACTIVATION_GELU); /* gated */
    CHECK_MODEL(lm_head_bias, true);
    CHECK_MODEL(position, TPP_POSITION_ALIBI);
    CHECK_MODEL(rope_theta, 10000.5);
    CHECK_MODEL(attention_sink_elements, 32);
    CHECK_MODEL(kv_lora_rank, 512);
#undef CHECK_MODEL
    launch_case_init(&c);
    snprintf(c.model.family, sizeof c.model.family, "qwen2_5_vl");
    check_refused(&c, TPP_E_UNSUPPORTED, "model.family");
    launch_case_init(&c);
    c.model.num_attention_heads = 0; /* a model that nobody checked */
    check_refused(&c, TPP_E_RANGE, "model.num_attention_heads");
    launch_case_init(&c);
    c.model.qk_norm = true;
    c.model.qk_norm_elements = 32 * 128 + 8 * 128; /* OLMo 2: over all heads */
    check_refused(&c, TPP_E_UNSUPPORTED, "model.qk_norm");
    launch_case_init(&c);
    c.model.output_bias = true; /* without the others */
    check_refused(&c, TPP_E_UNSUPPORTED, "model.qkv_bias");
    launch_case_init(&c);
    c.model.sliding_window = 4096;
    c.model.sliding_window_layers = 16;
    check_refused(&c, TPP_E_UNSUPPORTED, "model.sliding_window");
    launch_case_init(&c);
    c.model.position = TPP_POSITION_LEARNED;
    c.model.learned_position_rows = 2048;
    make_consistent(&c.model);
    check_refused(&c, TPP_E_UNSUPPORTED, "model.learned_position_rows");
}

static void test_the_shape_of_gpt_and_qwen_is_said(void **state)
{
    struct launch_case c;
    struct script_run run;
    (void)state;
    launch_case_init(&c); /* GPT-3: LayerNorm, GELU, learned positions, biases, tied */
    c.model.gated_mlp = false;
    c.model.activation = TPP_ACTIVATION_GELU;
    c.model.norm = TPP_NORM_LAYER;
    c.model.position = TPP_POSITION_LEARNED;
    c.model.learned_position_rows = 8192;
    c.model.num_query_groups = 32;
    c.model.qkv_bias = c.model.output_bias = c.model.mlp_bias = c.model.tied_embeddings = true;
    c.job.hidden_dropout = 0.1;
    make_consistent(&c.model);
    start(&c, &run);
    check_value(&run, "--position-embedding-type", "learned_absolute");
    check_value(&run, "--normalization", "LayerNorm");
    check_value(&run, "--hidden-dropout", "0.1");
    static const char *const absent[] = {
        "--swiglu",      "--disable-bias-linear", "--group-query-attention", "--untie-embeddings-and-output-weights",
        "--rotary-base", "--add-qkv-bias"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        assert_false(script_run_has(&run, absent[i]));
    script_run_release(&run);
    launch_case_init(&c); /* Qwen: biases of q, k, v alone; norms of each head */
    c.model.qkv_bias = c.model.qk_norm = true;
    c.model.qk_norm_elements = 2 * 128;
    start(&c, &run);
    assert_true(script_run_has(&run, "--disable-bias-linear"));
    assert_true(script_run_has(&run, "--add-qkv-bias"));
    assert_true(script_run_has(&run, "--qk-layernorm"));
    script_run_release(&run);
}

static void make_experts(struct launch_case *c)
{
    c->model.num_experts = 8;
    c->model.experts_per_token = 2;
    c->model.moe_ffn_hidden_size = 1792;
    c->model.moe_layer_period = 1;
    c->model.first_k_dense = 3;
    c->strategy.expert_parallel = 4;
    c->strategy.expert_tensor_parallel = 1;
}

static void test_experts_and_dense_layers_are_said(void **state)
{
    struct launch_case c;
    struct script_run run;
    (void)state;
    launch_case_init(&c);
    make_experts(&c);
    start(&c, &run);
    check_value(&run, "--num-experts", "8");
    check_value(&run, "--moe-router-topk", "2");
    check_value(&run, "--moe-ffn-hidden-size", "1792");
    check_value(&run, "--moe-layer-freq", "([0]*3+[1]*29)"); /* 32 layers */
    check_value(&run, "--expert-model-parallel-size", "4");
    check_value(&run, "--expert-tensor-parallel-size", "1");
    check_value(&run, "--moe-token-dispatcher-type", "alltoall");
    script_run_release(&run);
    c.strategy.dispatch = TPP_DISPATCH_ALL_GATHER;
    start(&c, &run);
    check_value(&run, "--moe-token-dispatcher-type", "allgather");
    script_run_release(&run);
    c.strategy.dispatch = TPP_DISPATCH_HYBRIDEP;
    c.strategy.recompute = TPP_RECOMPUTE_SELECTIVE;
    c.strategy.recompute_modules = TPP_MODULE_EXPERT_ACTIVATION | TPP_MODULE_LAYER_NORM;
    c.strategy.last_chunk_less = 0;
    c.job.mtp_num_layers = 1;
    c.request.release = TPP_RELEASE_0_16;
    start(&c, &run);
    check_value(&run, "--moe-token-dispatcher-type", "flex");
    check_value(&run, "--moe-flex-dispatcher-backend", "hybridep");
    check_value(&run, "--recompute-modules", "moe_act");
    check_value(&run, "--mtp-num-layers", "1");
    script_run_release(&run);
    c.strategy.shared_overlap = true; /* beside a flex dispatcher from 0.18 on */
    c.model.shared_expert_hidden_size = 3584;
    check_refused(&c, TPP_E_STRATEGY, "ML-75");
    c.strategy.dispatch = TPP_DISPATCH_ALL_TO_ALL;
    start(&c, &run);
    assert_true(script_run_has(&run, "--moe-shared-expert-overlap"));
    script_run_release(&run);
    c.strategy.recompute = TPP_RECOMPUTE_NONE;
    c.strategy.recompute_modules = 0;
    c.job.mtp_num_layers = 0;
    c.request.release = TPP_RELEASE_0_9;
    c.strategy.shared_overlap = false;
    c.model.shared_expert_hidden_size = 0;
    c.strategy.expert_tensor_parallel = 4;
    check_refused(&c, TPP_E_UNSUPPORTED, "model.first_k_dense");
    launch_case_init(&c);
    make_experts(&c);
    c.model.router_bias = true;
    check_refused(&c, TPP_E_UNSUPPORTED, "model.router_bias");
}

static void test_options_follow_the_release(void **state)
{
    struct launch_case c;
    struct script_run run;
    (void)state;
    launch_case_init(&c);
    c.strategy.context_parallel = 2;
    c.strategy.data_parallel = 2;
    c.strategy.num_micro_batches = 256;
    c.job.precision = TPP_PRECISION_FP8;
    c.request.release = TPP_RELEASE_0_8;
    start(&c, &run);
    check_value(&run, "--context-parallel-size", "2");
    check_value(&run, "--fp8-format", "hybrid");
    assert_false(script_run_has(&run, "--cp-comm-type"));
    assert_false(script_run_has(&run, "--fp8-recipe"));
    assert_true(script_run_has(&run, "--use-flash-attn"));
    script_run_release(&run);
    c.request.release = TPP_RELEASE_0_14;
    c.strategy.context_kind = TPP_CONTEXT_ULYSSES;
    start(&c, &run);
    check_value(&run, "--cp-comm-type", "a2a");
    check_value(&run, "--fp8-recipe", "delayed");
    check_value(&run, "--attention-backend", "auto");
    script_run_release(&run);
}

/* The names of the option list of each release: core models have to be asked for from 0.4 to 0.7, Transformer Engine
 * until 0.5; 23.04 and 23.06 have rotary positions, the epsilon of norms and FP8 under other names. */
static void test_old_releases_have_their_own_names(void **state)
{
    struct launch_case c;
    struct script_run run;
    (void)state;
    launch_case_init(&c);
    c.model.rope_theta = 10000;
    c.strategy.overlap_grad_reduce = c.strategy.overlap_param_gather = true;
    c.request.release = TPP_RELEASE_0_7;
    start(&c, &run);
    assert_true(script_run_has(&run, "--use-mcore-models"));
    assert_false(script_run_has(&run, "--transformer-impl"));
    assert_false(script_run_has(&run, "--rotary-base"));
    check_value(&run, "--tokenizer-type", "GPTSentencePieceTokenizer");
    script_run_release(&run);
    c.request.release = TPP_RELEASE_0_5;
    start(&c, &run);
    assert_true(script_run_has(&run, "--use-mcore-models"));
    check_value(&run, "--transformer-impl", "transformer_engine");
    check_value(&run, "--norm-epsilon", "1e-05");
    script_run_release(&run);
    c.request.release = TPP_RELEASE_23_06;
    check_refused(&c, TPP_E_UNSUPPORTED, "release"); /* --normalization, --group-query-attention */
    c.model.norm = TPP_NORM_LAYER;
    c.model.num_query_groups = c.model.num_attention_heads;
    check_refused(&c, TPP_E_STRATEGY, "ML"); /* --overlap-grad-reduce */
    c.strategy.overlap_grad_reduce = c.strategy.overlap_param_gather = false;
    c.job.precision = TPP_PRECISION_FP8;
    start(&c, &run);
    assert_true(script_run_has(&run, "--use-rotary-position-embeddings"));
    assert_true(script_run_has(&run, "--no-position-embedding"));
    assert_true(script_run_has(&run, "--overlap-p2p-communication")); /* two chunks a rank */
    assert_true(script_run_has(&run, "--fp8-hybrid"));
    check_value(&run, "--layernorm-epsilon", "1e-05");
    check_value(&run, "--transformer-impl", "transformer_engine");
    assert_false(script_run_has(&run, "--use-mcore-models"));
    assert_false(script_run_has(&run, "--log-throughput"));
    script_run_release(&run);
    c.request.release = TPP_RELEASE_23_04;
    check_refused(&c, TPP_E_UNSUPPORTED, "stack.overlap_p2p");
    c.stack.overlap_p2p = false;
    start(&c, &run);
    script_run_release(&run);
    c.request.release = TPP_RELEASE_V2_6;
    check_refused(&c, TPP_E_UNSUPPORTED, "release");
}

static void test_uneven_stages_need_a_release_that_has_them(void **state)
{
    struct launch_case c;
    struct script_run run;
    (void)state;
    launch_case_init(&c);
    c.strategy.first_stage_layers = c.strategy.last_stage_layers = 6; /* 6 10 10 6 */
    start(&c, &run);
    check_value(&run, "--decoder-first-pipeline-num-layers", "6");
    check_value(&run, "--num-virtual-stages-per-pipeline-rank", "2");
    assert_false(script_run_has(&run, "--num-layers-per-virtual-pipeline-stage"));
    script_run_release(&run);
    c.request.release = TPP_RELEASE_0_10; /* no interleaving with uneven stages */
    check_refused(&c, TPP_E_STRATEGY, "ML-23");
    c.strategy.virtual_pipeline_stages = 1;
    start(&c, &run);
    script_run_release(&run);
    c.request.release = TPP_RELEASE_0_8; /* no such option */
    check_refused(&c, TPP_E_STRATEGY, "ML");
}

static void test_what_a_release_or_framework_lacks_is_refused(void **state)
{
    struct launch_case c;
    (void)state;
    launch_case_init(&c);
    c.job.precision = TPP_PRECISION_MXFP8;
    c.request.release = TPP_RELEASE_0_11;
    check_refused(&c, TPP_E_UNSUPPORTED, "job.precision");
    launch_case_init(&c);
    make_experts(&c);
    c.strategy.dispatch = TPP_DISPATCH_HYBRIDEP;
    c.request.release = TPP_RELEASE_0_15;
    check_refused(&c, TPP_E_UNSUPPORTED, "strategy.dispatch");
    c.request.release = TPP_RELEASE_0_13;
    c.strategy.dispatch = TPP_DISPATCH_DEEPEP;
    c.strategy.expert_overlap = true;
    check_refused(&c, TPP_E_UNSUPPORTED, "strategy.expert_overlap");
    c.stack.framework = TPP_FRAMEWORK_MS_SWIFT; /* which has no option for it */
    check_refused(&c, TPP_E_UNSUPPORTED, "strategy.expert_overlap");
    c.strategy.expert_overlap = false;
    c.strategy.dispatch = TPP_DISPATCH_HYBRIDEP;
    check_refused(&c, TPP_E_UNSUPPORTED, "strategy.dispatch");
}

static void test_recomputation_and_offload_are_said(void **state)
{
    struct launch_case c;
    struct script_run run;
    (void)state;
    launch_case_init(&c);
    c.strategy.recompute = TPP_RECOMPUTE_FULL;
    c.strategy.recompute_method = TPP_RECOMPUTE_BLOCK;
    c.strategy.recompute_num_layers = 6; /* of a stage: 3 in each of its 2 chunks */
    c.strategy.offload = TPP_OFFLOAD_OPTIMIZER;
    c.strategy.reduce_bucket_size = 913000000;
    start(&c, &run);
    check_value(&run, "--recompute-granularity", "full");
    check_value(&run, "--recompute-method", "block");
    check_value(&run, "--recompute-num-layers", "3");
    check_value(&run, "--ddp-bucket-size", "913000000");
    assert_true(script_run_has(&run, "--optimizer-cpu-offload"));
    assert_true(script_run_has(&run, "--use-precision-aware-optimizer"));
    assert_false(script_run_has(&run, "--exp-avg-dtype"));
    assert_false(script_run_has(&run, "--optimizer-offload-fraction")); /* 1.0 by itself */
    script_run_release(&run);
    c.strategy.offload_percent = 25;
    start(&c, &run);
    check_value(&run, "--optimizer-offload-fraction", "0.25");
    assert_false(script_run_has(&run, "--cpu-offloading-num-layers"));
    script_run_release(&run);
    c.strategy.offload_percent = 0;
    c.strategy.offload = TPP_OFFLOAD_NONE;
    c.job.optimizer = TPP_OPTIMIZER_ADAMW_BF16;
    start(&c, &run);
    assert_true(script_run_has(&run, "--use-precision-aware-optimizer"));
    check_value(&run, "--exp-avg-dtype", "bf16");
    check_value(&run, "--exp-avg-sq-dtype", "bf16");
    script_run_release(&run);
    c.request.release = TPP_RELEASE_0_12; /* whose choices are fp32, fp16 and fp8 */
    check_refused(&c, TPP_E_UNSUPPORTED, "job.optimizer");
    c.job.optimizer = TPP_OPTIMIZER_ADAMW;
    c.job.gradient_type = TPP_GRADIENT_BF16;
    c.request.release = TPP_RELEASE_0_11;
    check_refused(&c, TPP_E_UNSUPPORTED, "job.gradient_type");
    c.job.gradient_type = TPP_GRADIENT_DEFAULT;
    c.job.optimizer = TPP_OPTIMIZER_ADAMW_BF16;
    c.request.release = TPP_RELEASE_NEWEST;
    c.strategy.zero_stage = 0;
    check_refused(&c, TPP_E_STRATEGY, "ML-48");
    c.strategy.zero_stage = 1;
    c.job.optimizer = TPP_OPTIMIZER_ADAMW;
    c.strategy.offload = TPP_OFFLOAD_OPTIMIZER;
    c.strategy.recompute_num_layers = 5;
    check_refused(&c, TPP_E_UNSUPPORTED, "strategy.recompute_num_layers");
    launch_case_init(&c);
    c.strategy.recompute = TPP_RECOMPUTE_SELECTIVE;
    start(&c, &run);
    check_value(&run, "--recompute-granularity", "selective");
    assert_false(script_run_has(&run, "--recompute-method"));
    script_run_release(&run);
}

static void test_offload_of_activations_is_said(void **state)
{
    struct launch_case c;
    struct script_run run;
    (void)state;
    launch_case_init(&c);
    c.strategy.offload_layers = 12;
    check_refused(&c, TPP_E_STRATEGY, "ML-63"); /* has stages */
    c.strategy.pipeline_parallel = c.strategy.virtual_pipeline_stages = 1;
    c.strategy.data_parallel = 0;
    c.strategy.num_micro_batches = 0;
    c.strategy.schedule = TPP_SCHEDULE_1F1B;
    assert_int_equal(tpp_strategy_complete(&c.strategy, &c.job, NULL), TPP_OK);
    start(&c, &run);
    check_value(&run, "--cpu-offloading-num-layers", "12");
    script_run_release(&run);
    c.strategy.recompute = TPP_RECOMPUTE_FULL;
    check_refused(&c, TPP_E_STRATEGY, "ML-63");
    c.strategy.recompute = TPP_RECOMPUTE_NONE;
    c.request.release = TPP_RELEASE_0_15;
    check_refused(&c, TPP_E_UNSUPPORTED, "release");
    c.stack.framework = TPP_FRAMEWORK_MS_SWIFT;
    c.request.release = TPP_RELEASE_NEWEST;
    check_refused(&c, TPP_E_UNSUPPORTED, "strategy.offload_layers");
}

static void test_sharded_parameters_are_torch_fsdp2(void **state)
{
    struct launch_case c;
    struct script_run run;
    (void)state;
    launch_case_init(&c);
    c.stack.engine = TPP_ENGINE_FSDP2;
    c.strategy.pipeline_parallel = c.strategy.virtual_pipeline_stages = 1;
    c.strategy.schedule = TPP_SCHEDULE_1F1B;
    c.strategy.data_parallel = 16;
    c.strategy.num_micro_batches = 32;
    c.strategy.zero_stage = 3;
    start(&c, &run);
    assert_true(script_run_has(&run, "--use-torch-fsdp2"));
    assert_true(script_run_has(&run, "--no-gradient-accumulation-fusion"));
    assert_false(script_run_has(&run, "--use-distributed-optimizer"));
    assert_string_equal(script_run_variable(&run, "CUDA_DEVICE_MAX_CONNECTIONS"), "8");
    script_run_release(&run);
    c.model.tied_embeddings = true;
    check_refused(&c, TPP_E_STRATEGY, "ML-44");
    c.stack.engine = TPP_ENGINE_MEGATRON;
    check_refused(&c, TPP_E_UNSUPPORTED, "strategy.zero_stage");
}

static void test_what_megatron_refuses_is_not_written(void **state)
{
    struct launch_case c;
    (void)state;
    launch_case_init(&c);
    c.strategy.virtual_pipeline_stages = 3;
    check_refused(&c, TPP_E_STRATEGY, "ML-21");
    launch_case_init(&c);
    c.request.num_nodes = 7;
    check_refused(&c, TPP_E_USAGE, "nodes");
    launch_case_init(&c);
    c.request.release = TPP_RELEASE_0_7;
    check_refused(&c, TPP_E_UNSUPPORTED, "release");
    launch_case_init(&c);
    c.job.task = TPP_TASK_LORA;
    check_refused(&c, TPP_E_UNSUPPORTED, "job.task");
    launch_case_init(&c);
    c.strategy.schedule = TPP_SCHEDULE_GPIPE;
    check_refused(&c, TPP_E_UNSUPPORTED, "strategy.schedule");
}

static void test_a_framework_without_scripts_names_those_that_have(void **state)
{
    struct launch_case c;
    struct tpp_text script;
    struct tpp_error err = {0};
    (void)state;
    launch_case_init(&c);
    c.stack.framework = TPP_FRAMEWORK_OTHER;
    check_refused(&c, TPP_E_NOT_BUILT, "framework");
    tpp_text_init(&script);
    assert_int_equal(tpp_launch_emit(&c.request, &script, &err), TPP_E_NOT_BUILT);
    assert_non_null(strstr(err.hint, "megatron-lm"));
    assert_string_equal(tpp_launch_framework_at(0), "megatron-lm");
    tpp_text_release(&script);
}

static void test_any_failed_allocation_is_an_error(void **state)
{
    struct launch_case c;
    uint64_t n = 0;
    (void)state;
    launch_case_init(&c);
    make_experts(&c);
    for (;; n++) {
        struct tpp_text script;
        struct tpp_error err = {0};
        tpp_text_init(&script);
        tpp_failing_alloc_arm(n);
        enum tpp_code code = tpp_launch_emit(&c.request, &script, &err);
        bool failed = tpp_failing_alloc_disarm();
        assert_true(!failed || code == TPP_E_MEMORY || tpp_text_failed(&script));
        tpp_text_release(&script);
        if (!failed) {
            assert_int_equal(code, TPP_OK);
            break;
        }
    }
    assert_true(n > 3);
}

/* The switch is --no-delay-grad-reduce until 0.8 and --no-align-grad-reduce since; the default needs none. */
static void test_reductions_are_aligned_unless_switched_off(void **state)
{
    static const struct {
        enum tpp_release release;
        const char *option;
    } names[] = {{TPP_RELEASE_0_8, "--no-delay-grad-reduce"}, {TPP_RELEASE_0_9, "--no-align-grad-reduce"},
                 {TPP_RELEASE_MAIN, "--no-align-grad-reduce"}};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int is_aligned = 0; is_aligned <= 1; is_aligned++) {
            struct launch_case c;
            struct script_run run;
            launch_case_init(&c);
            c.strategy.overlap_grad_reduce = true;
            c.strategy.align_grad_reduce = is_aligned;
            c.request.release = names[i].release;
            start(&c, &run);
            assert_int_equal(script_run_has(&run, names[i].option), !is_aligned);
            script_run_release(&run);
        }
    struct launch_case c;
    launch_case_init(&c);
    c.strategy.align_grad_reduce = false;
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_DEEPSPEED, &c.hardware.gpu, &c.job, &c.stack);
    c.stack.attention = TPP_ATTENTION_FLASH2;
    c.strategy.virtual_pipeline_stages = c.strategy.pipeline_parallel = 1;
    c.strategy.schedule = TPP_SCHEDULE_1F1B;
    check_refused(&c, TPP_E_UNSUPPORTED, "strategy.align_grad_reduce");
}

static void groups_of_micro_batches_have_a_size_from_0_10_on(void **state)
{
    (void)state;
    struct launch_case c;
    struct script_run run;
    launch_case_init(&c);
    c.strategy.virtual_pipeline_stages = 2;
    c.strategy.schedule = TPP_SCHEDULE_INTERLEAVED;
    c.strategy.microbatch_group_size = 2 * c.strategy.pipeline_parallel;
    c.request.release = TPP_RELEASE_0_10;
    start(&c, &run);
    assert_true(script_run_has(&run, "--microbatch-group-size-per-virtual-pipeline-stage"));
    script_run_release(&run);
    c.request.release = TPP_RELEASE_0_9;
    check_refused(&c, TPP_E_UNSUPPORTED, "strategy.microbatch_group_size");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plan_is_written_in_full),
        cmocka_unit_test(test_under_slurm_the_node_rank_is_the_nodes_own),
        cmocka_unit_test(test_the_environment_of_the_request_is_set_and_debugging_warns),
        cmocka_unit_test(test_one_node_needs_no_address),
        cmocka_unit_test(test_a_variable_that_is_not_set_stops_the_script),
        cmocka_unit_test(test_hostile_texts_stay_texts),
        cmocka_unit_test(test_what_megatron_cannot_describe_is_an_error),
        cmocka_unit_test(test_the_shape_of_gpt_and_qwen_is_said),
        cmocka_unit_test(test_experts_and_dense_layers_are_said),
        cmocka_unit_test(test_options_follow_the_release),
        cmocka_unit_test(test_old_releases_have_their_own_names),
        cmocka_unit_test(test_uneven_stages_need_a_release_that_has_them),
        cmocka_unit_test(test_what_a_release_or_framework_lacks_is_refused),
        cmocka_unit_test(test_recomputation_and_offload_are_said),
        cmocka_unit_test(test_offload_of_activations_is_said),
        cmocka_unit_test(test_sharded_parameters_are_torch_fsdp2),
        cmocka_unit_test(test_what_megatron_refuses_is_not_written),
        cmocka_unit_test(test_a_framework_without_scripts_names_those_that_have),
        cmocka_unit_test(test_reductions_are_aligned_unless_switched_off),
        cmocka_unit_test(test_any_failed_allocation_is_an_error),
        cmocka_unit_test(groups_of_micro_batches_have_a_size_from_0_10_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
