/* Every family and every trap of the published config files, in configs of toy size; hostile bytes; the way back from
 * the compact form. Expected values are read off the config by the rules of the family's own classes. */
#include "costmodel/model/model_families.h"
#include "costmodel/model/model_fields.h"
#include "costmodel/model/model_json.h"
#include "costmodel/model/model_reader.h"
#include "costmodel/model/presets.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

/* The tests write JSON with ' for ". */
static char *with_quotes(const char *text)
{
    char *copy = strdup(text);
    assert_non_null(copy);
    for (char *c = copy; *c != '\0'; c++) {
        if (*c == '\'')
            *c = '"';
    }
    return copy;
}

static enum tpp_code read_bytes(const char *text, size_t length, struct tpp_model *model, struct tpp_error *err)
{
    struct tpp_json_document *document;
    *err = (struct tpp_error){0};
    enum tpp_code code = tpp_json_parse(text, length, "toy.json", &document, err);
    if (code != TPP_OK)
        return code;
    code = tpp_model_read(tpp_json_root(document), "toy", model, err);
    tpp_json_document_free(document);
    return code;
}

static enum tpp_code read_text(const char *text, struct tpp_model *model, struct tpp_error *err)
{
    char *quoted = with_quotes(text);
    enum tpp_code code = read_bytes(quoted, strlen(quoted), model, err);
    free(quoted);
    return code;
}

/* What a reader of the output sees. */
static struct cJSON *as_json(const struct tpp_model *model)
{
    struct tpp_json_writer writer;
    struct tpp_text text;
    struct tpp_error err;
    tpp_json_writer_init(&writer);
    tpp_text_init(&text);
    tpp_model_add_json(model, &writer, writer.root);
    assert_int_equal(tpp_json_print(&writer, &text, &err), TPP_OK);
    struct cJSON *root = cJSON_Parse(tpp_text_get(&text));
    assert_non_null(root);
    tpp_text_release(&text);
    tpp_json_writer_release(&writer);
    return root;
}

/* Reads `config` and compares each member of `expected` (compact form) with the model. */
static void expect(const char *config, const char *expected)
{
    struct tpp_model model;
    struct tpp_error err;
    if (read_text(config, &model, &err) != TPP_OK)
        fail_msg("%s: %s (%s)", config, err.message, err.where);
    assert_int_equal(tpp_model_check(&model, &err), TPP_OK);
    char *quoted = with_quotes(expected);
    struct cJSON *want = cJSON_Parse(quoted), *have = as_json(&model);
    assert_non_null(want);
    for (const struct cJSON *item = want->child; item != NULL; item = item->next) {
        const struct cJSON *value = cJSON_GetObjectItemCaseSensitive(have, item->string);
        if (value == NULL || !cJSON_Compare(item, value, true))
            fail_msg("%s: \"%s\" is %s, expected %s", config, item->string,
                     value == NULL ? "absent" : cJSON_PrintUnformatted(value), cJSON_PrintUnformatted(item));
    }
    cJSON_Delete(want);
    cJSON_Delete(have);
    free(quoted);
}

static void refuse(const char *config, enum tpp_code code, const char *in_message, const char *in_where)
{
    struct tpp_model model;
    struct tpp_error err;
    enum tpp_code found = read_text(config, &model, &err);
    if (found != code || strstr(err.message, in_message) == NULL || strstr(err.where, in_where) == NULL)
        fail_msg("%s: code %d \"%s\" at \"%s\", expected %d \"%s\" at \"%s\"", config, found, err.message, err.where,
                 code, in_message, in_where);
    assert_true(err.where[0] != '\0');
}

#define HF(type, ...)                                                                                                  \
    "{'model_type':'" type "','hidden_size':48,'num_hidden_layers':6,'num_attention_heads':6,"                         \
    "'intermediate_size':112,'vocab_size':96" __VA_ARGS__ "}"
#define GPT(type, ...) "{'model_type':'" type "','n_embd':48,'n_layer':6,'n_head':6,'vocab_size':96" __VA_ARGS__ "}"
#define MOE ",'num_experts_per_tok':2,'moe_intermediate_size':24"
#define MLA ",'kv_lora_rank':16,'qk_nope_head_dim':8,'qk_rope_head_dim':4,'v_head_dim':10"

static void llama_and_its_variants(void **state)
{
    (void)state;
    expect(HF("llama", ",'rms_norm_eps':1e-5,'rope_theta':5e5,'max_position_embeddings':64"),
           "{'name':'toy','family':'llama','layers':6,'hidden_size':48,'num_attention_heads':6,'num_query_groups':6,"
           "'head_dim':8,'ffn_hidden_size':112,'gated_mlp':true,'vocab_size':96,'max_position_embeddings':64,"
           "'position':'rope','rope_theta':5e5,'rotary_fraction':1,'norm':'rms_norm','norm_epsilon':1e-5,"
           "'activation':'silu','norms_per_layer':2,'final_norm':true,'tied_embeddings':false,'qkv_bias':false,"
           "'output_bias':false,'mlp_bias':false,'sliding_window':0}");
    expect(HF("llama", ",'num_key_value_heads':null,'head_dim':null"), "{'num_query_groups':6,'head_dim':8}");
    expect(HF("llama", ",'num_key_value_heads':2,'head_dim':16,'tie_word_embeddings':true,'attention_bias':true,"
                       "'mlp_bias':true,'rope_parameters':{'rope_theta':777,'rope_type':'default'}"),
           "{'num_query_groups':2,'head_dim':16,'tied_embeddings':true,'qkv_bias':true,'output_bias':true,"
           "'mlp_bias':true,'rope_theta':777}");
    expect(HF("internlm", ""), "{'qkv_bias':true,'output_bias':true,'mlp_bias':false}");
    expect(HF("internlm2", ",'bias':false"), "{'qkv_bias':false,'output_bias':false}");
    expect(HF("xverse", ""), "{'qkv_bias':false,'norm':'rms_norm'}");
    expect(HF("granite", ",'tie_word_embeddings':true"), "{'tied_embeddings':true}");
    expect(HF("baichuan", ",'max_position_embeddings':64,'model_max_length':64"),
           "{'position':'rope','max_position_embeddings':64}");
    expect(HF("baichuan", ",'model_max_length':64"),
           "{'position':'alibi','max_position_embeddings':64,'rope_theta':0,'rotary_fraction':0}");
}

static void class_defaults_of_groups_and_windows(void **state)
{
    (void)state;
    /* Mistral's class has 8 groups when the key is missing, one a head when it is null. */
    expect("{'model_type':'mistral','hidden_size':64,'num_hidden_layers':6,'num_attention_heads':16,"
           "'intermediate_size':112,'vocab_size':96}",
           "{'num_query_groups':8,'sliding_window':4096,'sliding_window_layers':6}");
    expect(HF("mistral", ",'num_key_value_heads':null,'sliding_window':null"),
           "{'num_query_groups':6,'sliding_window':0,'sliding_window_layers':0}");
    expect(HF("phi3", ",'sliding_window':32,'partial_rotary_factor':0.75"),
           "{'sliding_window':32,'sliding_window_layers':6,'rotary_fraction':0.75,'num_query_groups':6}");
    expect(HF("qwen2", ",'sliding_window':32,'use_sliding_window':false"),
           "{'qkv_bias':true,'output_bias':false,'sliding_window':0}");
    expect(HF("qwen2", ",'sliding_window':32,'use_sliding_window':true,'max_window_layers':2"),
           "{'sliding_window':32,'sliding_window_layers':4}");
    expect(HF("qwen3", ""), "{'head_dim':128,'qk_norm':true,'qk_norm_elements':256,'qkv_bias':false}");
    expect(HF("cohere2", ""), "{'sliding_window':4096,'sliding_window_layers':5,'parallel_block':true}");
    expect(HF("llama", ",'sliding_window':16,'layer_types':['full_attention','sliding_attention','full_attention',"
                       "'full_attention','sliding_attention','full_attention']"),
           "{'sliding_window':16,'sliding_window_layers':2}");
}

static void qwen1_has_both_gated_halves_in_one_size(void **state)
{
    (void)state;
    expect(HF("qwen", ",'kv_channels':8,'no_bias':true,'rotary_emb_base':5000,'layer_norm_epsilon':1e-6,"
                      "'max_position_embeddings':64,'seq_length':32"),
           "{'ffn_hidden_size':56,'gated_mlp':true,'head_dim':8,'qkv_bias':true,'output_bias':false,'mlp_bias':false,"
           "'norm':'rms_norm','norm_epsilon':1e-6,'rope_theta':5000,'max_position_embeddings':64}");
    expect(HF("qwen", ",'no_bias':false"), "{'output_bias':true,'mlp_bias':true}");
    refuse("{'model_type':'qwen','hidden_size':48,'num_hidden_layers':6,'num_attention_heads':6,"
           "'intermediate_size':113,'vocab_size':96}",
           TPP_E_RANGE, "113", "toy.json#");
}

static void the_gpt_families(void **state)
{
    (void)state;
    expect(GPT("gpt2", ",'n_positions':32,'n_ctx':32,'activation_function':'gelu_new','layer_norm_epsilon':1e-5"),
           "{'ffn_hidden_size':192,'gated_mlp':false,'position':'learned','learned_position_rows':32,"
           "'max_position_embeddings':32,'tied_embeddings':true,'qkv_bias':true,'output_bias':true,'mlp_bias':true,"
           "'norm':'layer_norm','activation':'gelu','rope_theta':0,'norms_per_layer':2}");
    expect(GPT("gpt2", ",'n_inner':100"), "{'ffn_hidden_size':100,'learned_position_rows':1024}");
    expect(GPT("gpt_bigcode", ",'n_inner':192,'multi_query':true"), "{'num_query_groups':1,'position':'learned'}");
    expect(GPT("gpt_bigcode", ",'multi_query':false"), "{'num_query_groups':6}");
    expect(GPT("gptj", ",'n_inner':null,'rotary_dim':4,'n_positions':32,'tie_word_embeddings':false"),
           "{'ffn_hidden_size':192,'position':'rope','rotary_fraction':0.5,'norms_per_layer':1,'parallel_block':true,"
           "'qkv_bias':false,'output_bias':false,'mlp_bias':true,'lm_head_bias':true,'learned_position_rows':0}");
    expect(GPT("phi-msft", ",'n_head_kv':null,'n_inner':null,'rotary_dim':4"),
           "{'num_query_groups':6,'ffn_hidden_size':192,'norms_per_layer':1,'qkv_bias':true,'lm_head_bias':true}");
    expect(HF("phi", ",'qk_layernorm':true"),
           "{'norms_per_layer':1,'rotary_fraction':0.5,'lm_head_bias':true,'qk_norm_elements':32}");
    expect(HF("gpt_neox", ",'rotary_pct':0.25,'hidden_act':'gelu_fast'"),
           "{'position':'rope','rotary_fraction':0.25,'norms_per_layer':2,'parallel_block':true,'mlp_bias':true,"
           "'tied_embeddings':false,'gated_mlp':false,'learned_position_rows':0}");
    expect(HF("gpt_neox", ",'use_parallel_residual':false,'attention_bias':false"),
           "{'parallel_block':false,'qkv_bias':false,'mlp_bias':true}");
    expect(HF("starcoder2", ",'num_key_value_heads':2,'use_bias':true,'norm_epsilon':1e-5,'layer_norm_epsilon':1e-5"),
           "{'tied_embeddings':true,'norm':'layer_norm','mlp_bias':true,'gated_mlp':false,'num_query_groups':2}");
    expect(HF("stablelm", ",'partial_rotary_factor':0.25,'use_qkv_bias':true"),
           "{'norm':'layer_norm','gated_mlp':true,'qkv_bias':true,'output_bias':false,'norms_per_layer':2,"
           "'rotary_fraction':0.25}");
    expect(HF("stablelm", ",'use_parallel_residual':true,'qk_layernorm':true,'num_key_value_heads':2"),
           "{'norms_per_layer':1,'parallel_block':true,'qk_norm_elements':64}"); /* (6 + 2) * 8 */
    expect(HF("nemotron", ",'hidden_act':'relu2'"), "{'activation':'squared_relu','gated_mlp':false}");
}

static void bloom_opt_falcon_and_mpt(void **state)
{
    (void)state;
    expect("{'model_type':'bloom','n_embed':48,'n_layer':6,'num_attention_heads':6,'vocab_size':96,'seq_length':32}",
           "{'hidden_size':48,'ffn_hidden_size':192,'position':'alibi','embedding_norm':true,'tied_embeddings':true,"
           "'max_position_embeddings':32,'qkv_bias':true}");
    expect("{'model_type':'opt','hidden_size':48,'num_hidden_layers':6,'num_attention_heads':6,'ffn_dim':192,"
           "'vocab_size':96,'max_position_embeddings':32,'activation_function':'relu','word_embed_proj_dim':48}",
           "{'learned_position_rows':34,'max_position_embeddings':32,'activation':'relu','tied_embeddings':true,"
           "'ffn_hidden_size':192,'final_norm':true,'mlp_bias':true}");
    expect("{'model_type':'opt','hidden_size':48,'num_hidden_layers':6,'num_attention_heads':6,'ffn_dim':192,"
           "'vocab_size':96,'do_layer_norm_before':false,'enable_bias':false}",
           "{'learned_position_rows':2050,'final_norm':false,'qkv_bias':false}");
    refuse("{'model_type':'opt','hidden_size':48,'num_hidden_layers':6,'num_attention_heads':6,'ffn_dim':192,"
           "'vocab_size':96,'word_embed_proj_dim':24}",
           TPP_E_UNSUPPORTED, "word_embed_proj_dim", "toy.json");
#define FALCON(...)                                                                                                    \
    "{'model_type':'falcon','hidden_size':48,'num_hidden_layers':6,'num_attention_heads':6,"                           \
    "'vocab_size':96" __VA_ARGS__ "}"
    expect(FALCON(",'new_decoder_architecture':true,'num_kv_heads':2,'multi_query':true,'bias':false"),
           "{'num_query_groups':2,'norms_per_layer':2,'parallel_block':true,'ffn_hidden_size':192,"
           "'tied_embeddings':true,'qkv_bias':false,'position':'rope','norm':'layer_norm'}");
    expect(FALCON(",'new_decoder_architecture':false,'multi_query':true,'parallel_attn':true"),
           "{'num_query_groups':1,'norms_per_layer':1}");
    expect(FALCON(",'multi_query':false,'parallel_attn':false,'alibi':true,'bias':true,'num_kv_heads':3"),
           "{'num_query_groups':6,'norms_per_layer':2,'parallel_block':false,'position':'alibi','mlp_bias':true}");
    expect(FALCON(",'new_decoder_architecture':true,'num_ln_in_parallel_attn':1"),
           "{'num_query_groups':6,'norms_per_layer':1}");
#define MPT(attention, ...)                                                                                            \
    "{'model_type':'mpt','d_model':48,'n_layers':6,'n_heads':6,'max_seq_len':32,"                                      \
    "'vocab_size':96,'attn_config':{" attention "}" __VA_ARGS__ "}"
    expect(MPT("'alibi':true", ",'no_bias':true,'expansion_ratio':4"),
           "{'ffn_hidden_size':192,'position':'alibi','norm':'layer_norm_no_bias','qkv_bias':false,"
           "'tied_embeddings':true,'max_position_embeddings':32,'num_query_groups':6}");
    expect(
        MPT("'alibi':false,'attn_type':'grouped_query_attention','kv_n_heads':3", ",'no_bias':false"),
        "{'position':'learned','learned_position_rows':32,'num_query_groups':3,'norm':'layer_norm','mlp_bias':true}");
    expect(MPT("'rope':true,'attn_type':'multiquery_attention'",
               ",'ffn_config':{'ffn_type':'mptglu','ffn_hidden_size':80},'norm_type':'rmsnorm'"),
           "{'position':'rope','num_query_groups':1,'ffn_hidden_size':80,'gated_mlp':true,'norm':'rms_norm'}");
    expect(MPT("'alibi':false", ",'learned_pos_emb':false"), "{'position':'none','learned_position_rows':0}");
    refuse(MPT("'alibi':true,'qk_ln':true", ""), TPP_E_UNSUPPORTED, "norms of queries", "attn_config");
}

static void gemma_cohere_olmo_and_chatglm(void **state)
{
    (void)state;
    expect(HF("gemma", ",'hidden_act':'gelu'"),
           "{'head_dim':256,'tied_embeddings':true,'gated_mlp':true,'activation':'gelu','norms_per_layer':2}");
    expect(HF("gemma2", ",'num_key_value_heads':3,'head_dim':8,'hidden_activation':'gelu_pytorch_tanh',"
                        "'sliding_window':16"),
           "{'norms_per_layer':4,'sliding_window':16,'sliding_window_layers':3,'num_query_groups':3,'head_dim':8}");
    expect(HF("gemma3_text", ",'num_key_value_heads':1,'head_dim':8,'sliding_window':16,'sliding_window_pattern':6"),
           "{'norms_per_layer':4,'qk_norm_elements':16,'sliding_window_layers':5,'rope_theta':1e6}");
    /* The published file of the larger Gemma-3 leaves heads and vocabulary to the class. */
    expect("{'model_type':'gemma3','text_config':{'model_type':'gemma3_text','hidden_size':48,'intermediate_size':112,"
           "'num_hidden_layers':6,'sliding_window':1024},'vision_config':{'hidden_size':9}}",
           "{'family':'gemma3','num_attention_heads':8,'num_query_groups':4,'head_dim':256,'vocab_size':262208,"
           "'tied_embeddings':true,'sliding_window':1024}");
    expect(HF("cohere", ""), "{'norm':'layer_norm_no_bias','norms_per_layer':1,'parallel_block':true,"
                             "'tied_embeddings':true,'qk_norm':false}");
    expect(HF("cohere", ",'use_qk_norm':true,'num_key_value_heads':2"), "{'qk_norm_elements':64}");
    expect(HF("olmo", ""), "{'norm':'no_parameters'}");
    expect(HF("olmo2", ",'num_key_value_heads':2"), "{'qk_norm':true,'qk_norm_elements':64,'norms_per_layer':2}");
#define CHATGLM(...)                                                                                                   \
    "{'model_type':'chatglm','hidden_size':48,'num_layers':6,'num_attention_heads':6,"                                 \
    "'ffn_hidden_size':112,'padded_vocab_size':96,'kv_channels':8" __VA_ARGS__ "}"
    expect(CHATGLM(",'multi_query_attention':true,'multi_query_group_num':2,'add_qkv_bias':true,"
                   "'add_bias_linear':false,'rmsnorm':true,'seq_length':32,'layernorm_epsilon':1e-5,'rope_ratio':50"),
           "{'num_query_groups':2,'qkv_bias':true,'output_bias':false,'mlp_bias':false,'norm':'rms_norm',"
           "'gated_mlp':true,'rotary_fraction':0.5,'max_position_embeddings':32,'rope_theta':5e5,'vocab_size':96}");
    expect(CHATGLM(",'add_bias_linear':true,'rmsnorm':false,'post_layer_norm':false"),
           "{'num_query_groups':6,'qkv_bias':true,'output_bias':true,'norm':'layer_norm','final_norm':false}");
    expect(HF("glm", ",'attention_bias':true,'num_key_value_heads':2"),
           "{'head_dim':128,'qkv_bias':true,'output_bias':false,'rotary_fraction':0.5,'norms_per_layer':2}");
    expect(HF("glm4", ",'num_key_value_heads':2"), "{'norms_per_layer':4}");
}

static void mixtures_of_experts(void **state)
{
    (void)state;
    expect(HF("mixtral", ",'num_key_value_heads':2,'num_local_experts':4,'num_experts_per_tok':2"),
           "{'num_experts':4,'experts_per_token':2,'moe_ffn_hidden_size':112,'ffn_hidden_size':0,"
           "'moe_layer_period':1,'first_k_dense':0,'sliding_window':0,'shared_expert_hidden_size':0}");
    expect(
        HF("deepseek", ",'n_routed_experts':8,'n_shared_experts':2,'first_k_dense_replace':1,'moe_layer_freq':1" MOE),
        "{'num_experts':8,'moe_ffn_hidden_size':24,'shared_expert_hidden_size':48,'first_k_dense':1,"
        "'ffn_hidden_size':112,'router_bias':false,'shared_expert_gate':false}");
    expect(HF("deepseek", ",'n_routed_experts':8,'moe_layer_freq':[0,0,1,1,1,1]" MOE),
           "{'first_k_dense':2,'moe_layer_period':1,'shared_expert_hidden_size':0}");
    expect(HF("deepseek", ",'n_routed_experts':8,'n_group':4,'topk_group':2" MOE),
           "{'expert_groups':4,'groups_per_token':2}");
    expect(HF("deepseek", ",'n_routed_experts':8,'n_group':4,'topk_group':4" MOE), /* all are no limit */
           "{'expert_groups':0,'groups_per_token':0}");
    expect(HF("deepseek", ",'n_routed_experts':8,'n_group':1,'topk_group':1" MOE), "{'expert_groups':0}");
    expect(HF("deepseek", ",'n_routed_experts':8,'n_group':null,'topk_group':null" MOE), "{'expert_groups':0}");
    expect(HF("deepseek", ",'n_routed_experts':null"), "{'ffn_hidden_size':112}");
    expect(HF("qwen2_moe", ",'num_experts':8,'shared_expert_intermediate_size':56,'decoder_sparse_step':1" MOE),
           "{'shared_expert_hidden_size':56,'shared_expert_gate':true,'qkv_bias':true,'ffn_hidden_size':0}");
    expect(HF("qwen2_moe",
              ",'num_experts':8,'decoder_sparse_step':2,'mlp_only_layers':[],'shared_expert_intermediate_size':0" MOE),
           "{'moe_layer_period':2,'first_k_dense':0,'ffn_hidden_size':112,'shared_expert_gate':false}");
    expect(HF("qwen3_moe", ",'num_key_value_heads':2,'head_dim':8,'num_experts':8,'mlp_only_layers':[0,1]" MOE),
           "{'first_k_dense':2,'moe_layer_period':1,'qk_norm_elements':16,'qkv_bias':false}");
    expect(
        HF("qwen3_moe", ",'num_key_value_heads':2,'num_experts':8,'decoder_sparse_step':2,'mlp_only_layers':[1]" MOE),
        "{'first_k_dense':3,'moe_layer_period':2}"); /* layers 3 and 5 */
    expect(HF("gpt_oss", ",'num_key_value_heads':2,'head_dim':16,'num_local_experts':4,'num_experts_per_tok':2,"
                         "'experts_per_token':2,'attention_bias':true,'sliding_window':16"),
           "{'attention_sink_elements':6,'expert_bias':true,'router_bias':true,'qkv_bias':true,'output_bias':true,"
           "'sliding_window':16,'sliding_window_layers':3,'moe_ffn_hidden_size':112,'ffn_hidden_size':0}");
    expect(HF("phimoe", ",'num_key_value_heads':2,'num_local_experts':4,'num_experts_per_tok':2,'attention_bias':true,"
                        "'lm_head_bias':true,'sliding_window':64"),
           "{'norm':'layer_norm','qkv_bias':true,'output_bias':true,'lm_head_bias':true,'moe_ffn_hidden_size':112}");
    expect(HF("olmoe", ",'num_experts':8,'num_experts_per_tok':2"), "{'qk_norm_elements':96,'num_experts':8}");
    expect(HF("glm4_moe", ",'num_key_value_heads':2,'n_routed_experts':8,'n_shared_experts':1,"
                          "'first_k_dense_replace':1,'use_qk_norm':true,'num_nextn_predict_layers':1" MOE),
           "{'qk_norm_elements':16,'router_bias':true,'mtp_num_layers':1,'shared_expert_hidden_size':24}");
}

static void llama4_nests_and_interleaves(void **state)
{
    (void)state;
#define LLAMA4(...)                                                                                                    \
    "{'model_type':'llama4','text_config':{'model_type':'llama4_text','hidden_size':48,"                               \
    "'num_hidden_layers':8,'num_attention_heads':6,'num_key_value_heads':2,'head_dim':8,"                              \
    "'intermediate_size':24,'intermediate_size_mlp':112,'num_experts_per_tok':1,"                                      \
    "'num_local_experts':4,'vocab_size':96" __VA_ARGS__ "}}"
    expect(LLAMA4(",'interleave_moe_layer_step':2,'use_qk_norm':false,'attention_chunk_size':16"),
           "{'family':'llama4','ffn_hidden_size':112,'moe_ffn_hidden_size':24,'shared_expert_hidden_size':24,"
           "'moe_layer_period':2,'first_k_dense':0,'qk_norm':false,'sliding_window':16,'sliding_window_layers':6,"
           "'tied_embeddings':false}");
    expect(LLAMA4(",'interleave_moe_layer_step':1,'use_qk_norm':true"),
           "{'ffn_hidden_size':0,'moe_layer_period':1,'qk_norm':true,'qk_norm_elements':0}");
    expect(LLAMA4(",'moe_layers':[3,7]"), "{'moe_layer_period':4,'first_k_dense':0}");
}

static void latent_attention(void **state)
{
    (void)state;
    expect(HF("deepseek_v2", MLA ",'num_key_value_heads':6,'n_routed_experts':8,'first_k_dense_replace':1" MOE),
           "{'kv_lora_rank':16,'q_lora_rank':0,'qk_nope_head_dim':8,'qk_rope_head_dim':4,'v_head_dim':10,"
           "'head_dim':12,'num_query_groups':6,'router_bias':false,'first_k_dense':1}");
    expect(HF("deepseek_v3", MLA ",'q_lora_rank':20,'n_routed_experts':8,'n_shared_experts':1,"
                                 "'first_k_dense_replace':3,'num_nextn_predict_layers':1" MOE),
           "{'q_lora_rank':20,'mtp_num_layers':1,'router_bias':true,'first_k_dense':3,'shared_expert_hidden_size':24}");
    expect(HF("kimi_k2", MLA ",'q_lora_rank':null,'n_routed_experts':8,'n_shared_experts':null,'first_k_dense_replace':"
                             "0,'num_nextn_predict_layers':0" MOE),
           "{'q_lora_rank':0,'mtp_num_layers':0}");
    expect(HF("minicpm3", ",'q_lora_rank':20,'kv_lora_rank':16,'qk_nope_head_dim':8,'qk_rope_head_dim':4"),
           "{'v_head_dim':8,'tied_embeddings':true,'rotary_fraction':0.3333333333333333}");
}

static void models_with_several_senses(void **state)
{
    (void)state;
    expect(HF("qwen2_5_vl", ",'vision_config':{'hidden_size':7}"), "{'family':'qwen2_5_vl','qkv_bias':true}");
    expect("{'model_type':'qwen2_5_vl','tie_word_embeddings':true,'text_config':{'model_type':'qwen2_5_vl_text',"
           "'hidden_size':48,'num_hidden_layers':6,'num_attention_heads':6,'intermediate_size':112,'vocab_size':96}}",
           "{'tied_embeddings':true,'hidden_size':48}");
    expect("{'model_type':'mistral3','text_config':{'model_type':'mistral','hidden_size':48,'num_hidden_layers':6,"
           "'num_attention_heads':6,'num_key_value_heads':2,'intermediate_size':112,'vocab_size':96,"
           "'sliding_window':null}}",
           "{'family':'mistral3','num_query_groups':2,'sliding_window':0}");
    refuse("{'model_type':'qwen2_5_vl','text_config':{'model_type':'other'}}", TPP_E_UNSUPPORTED, "other",
           "#/text_config/model_type");
    refuse("{'model_type':'gemma3','text_config':[]}", TPP_E_TYPE, "text_config", "#/text_config");
    refuse("{'model_type':'gemma3'}", TPP_E_MISSING, "num_hidden_layers", "toy.json");
}

static void what_is_no_plain_transformer_is_refused(void **state)
{
    (void)state;
    refuse(HF("qwen3_next", ""), TPP_E_UNSUPPORTED, "linear attention", "#/model_type");
    refuse(HF("mamba", ""), TPP_E_UNSUPPORTED, "state-space", "#/model_type");
    refuse(HF("t5", ""), TPP_E_UNSUPPORTED, "encoder", "#/model_type");
    refuse(HF("llama", ",'num_local_experts':8"), TPP_E_UNSUPPORTED, "num_local_experts", "toy.json");
    refuse(HF("llama", ",'layer_types':['full_attention','full_attention','linear_attention','full_attention',"
                       "'full_attention','full_attention']"),
           TPP_E_UNSUPPORTED, "linear_attention", "#/layer_types/2");
    refuse(HF("llama", ",'layer_types':['full_attention']"), TPP_E_RANGE, "layer_types", "#/layer_types");
    refuse(HF("llama", ",'mamba_d_state':16"), TPP_E_UNSUPPORTED, "mamba_d_state", "toy.json");
    refuse(HF("mpt", ",'ssm_cfg':{}"), TPP_E_UNSUPPORTED, "ssm_cfg", "toy.json");
    refuse(HF("qwen3", ",'linear_num_key_heads':4"), TPP_E_UNSUPPORTED, "linear_num_key_heads", "toy.json");
    refuse(HF("gpt2", ",'add_cross_attention':true"), TPP_E_UNSUPPORTED, "add_cross_attention", "toy.json");
    expect(HF("llama", ",'mamba_d_state':null,'is_encoder_decoder':false"), "{'layers':6}");
    refuse("{'model_type':'gemma3','text_config':{'ssm_cfg':{}}}", TPP_E_UNSUPPORTED, "ssm_cfg", "#/text_config");
}

static void what_is_not_known_names_the_key(void **state)
{
    (void)state;
    struct tpp_model model;
    struct tpp_error err;
    assert_int_equal(read_text(HF("lama", ""), &model, &err), TPP_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "\"model_type\" \"lama\""));
    assert_non_null(strstr(err.hint, "\"llama\""));
    refuse(HF("Megatron-GPT", ""), TPP_E_UNSUPPORTED, "model_type", "#/model_type");
    refuse("{}", TPP_E_MISSING, "model_type", "toy.json");
    refuse("{'model_type':null}", TPP_E_MISSING, "model_type", "toy.json");
    refuse("{'model_type':7}", TPP_E_TYPE, "", "#/model_type");
    refuse("[]", TPP_E_TYPE, "object", "toy.json");
    refuse("{'model_type':'llama','num_hidden_layers':6}", TPP_E_MISSING, "hidden_size", "toy.json");
    refuse("{'model_type':'llama','hidden_size':48,'num_hidden_layers':6,'num_attention_heads':6,'vocab_size':96}",
           TPP_E_MISSING, "intermediate_size", "toy.json");
    refuse(HF("mixtral", ""), TPP_E_MISSING, "num_local_experts", "toy.json");
    refuse(HF("mixtral", ",'num_local_experts':4"), TPP_E_MISSING, "num_experts_per_tok", "toy.json");
    refuse(HF("deepseek_v3", ",'q_lora_rank':null"), TPP_E_MISSING, "kv_lora_rank", "toy.json");
    refuse(HF("llama", ",'hidden_act':'mish'"), TPP_E_UNSUPPORTED, "mish", "#/hidden_act");
    refuse(GPT("gpt2", ",'hidden_size':64"), TPP_E_RANGE, "\"hidden_size\" is 64", "#/hidden_size");
    refuse(HF("deepseek", ",'n_routed_experts':8,'moe_layer_freq':2" MOE), TPP_E_UNSUPPORTED, "pattern", "toy.json");
    refuse(HF("deepseek", ",'n_routed_experts':8,'first_k_dense_replace':6" MOE), TPP_E_UNSUPPORTED, "no layer",
           "toy.json");
    refuse(HF("qwen3_moe", ",'num_key_value_heads':2,'num_experts':8,'mlp_only_layers':[6]" MOE), TPP_E_RANGE, "",
           "#/mlp_only_layers/0");
}

/* Keys without which the family's class would put in a number of its own. */
static void a_missing_key_is_never_guessed(void **state)
{
    (void)state;
    refuse(HF("deepseek_v3", MLA ",'n_routed_experts':8" MOE), TPP_E_MISSING, "\"q_lora_rank\"", "toy.json");
    refuse(HF("deepseek_v3", ",'q_lora_rank':20,'kv_lora_rank':16,'qk_nope_head_dim':8,'qk_rope_head_dim':4"),
           TPP_E_MISSING, "\"v_head_dim\"", "toy.json");
    refuse(HF("deepseek_v3", MLA ",'q_lora_rank':20"), TPP_E_MISSING, "\"n_routed_experts\"", "toy.json");
    refuse(HF("deepseek_v3", MLA ",'q_lora_rank':20,'n_routed_experts':8,'n_shared_experts':1" MOE), TPP_E_MISSING,
           "\"first_k_dense_replace\"", "toy.json");
    refuse(HF("deepseek_v3", MLA ",'q_lora_rank':20,'n_routed_experts':8,'first_k_dense_replace':1" MOE), TPP_E_MISSING,
           "\"n_shared_experts\"", "toy.json");
    refuse(HF("qwen2_moe", ",'num_experts':8" MOE), TPP_E_MISSING, "\"shared_expert_intermediate_size\"", "toy.json");
    refuse(HF("deepseek", MOE), TPP_E_MISSING, "\"n_routed_experts\"", "toy.json");
    refuse(MPT("'attn_type':'multihead_attention'", ""), TPP_E_MISSING, "\"alibi\"", "#/attn_config");
}

static void bad_sizes_are_refused_where_they_are(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "0", "-1", "6.5", "1e999", "'6'", "true", "[]", "{}", "1e30", "9007199254740993", "4294967296", "10001"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char config[256];
        struct tpp_model model;
        struct tpp_error err;
        snprintf(config, sizeof(config),
                 "{'model_type':'llama','hidden_size':48,'num_hidden_layers':%s,'num_attention_heads':6,"
                 "'intermediate_size':112,'vocab_size':96}",
                 bad[i]);
        assert_int_not_equal(read_text(config, &model, &err), TPP_OK);
        assert_true(err.message[0] != '\0');
        assert_non_null(strstr(err.where, "toy.json"));
    }
    refuse(HF("llama", ",'num_key_value_heads':4"), TPP_E_RANGE, "4 query groups", "model.num_query_groups");
    refuse(HF("llama", ",'num_key_value_heads':12"), TPP_E_RANGE, "12 query groups", "toy.json");
    refuse(HF("llama", ",'rope_theta':-1"), TPP_E_RANGE, "", "#/rope_theta");
    refuse(HF("llama", ",'tie_word_embeddings':'yes'"), TPP_E_TYPE, "", "#/tie_word_embeddings");
    refuse(HF("llama", ",'attention_bias':1"), TPP_E_TYPE, "", "#/attention_bias");
    refuse("{'model_type':'llama','hidden_size':50,'num_hidden_layers':6,'num_attention_heads':6,"
           "'intermediate_size':112,'vocab_size':96}",
           TPP_E_RANGE, "6 heads do not divide hidden size 50", "toy.json");
    refuse(GPT("gptj", ",'rotary_dim':64"), TPP_E_RANGE, "", "#/rotary_dim");
    refuse(HF("mixtral", ",'num_key_value_heads':2,'num_local_experts':4,'num_experts_per_tok':5"), TPP_E_RANGE,
           "5 experts per token", "model.experts_per_token");
    refuse(
        "{'model_type':'mixtral','hidden_size':1048576,'num_hidden_layers':10000,'num_attention_heads':8,"
        "'num_key_value_heads':8,'head_dim':128,'intermediate_size':16777216,'vocab_size':96,'num_local_experts':65536,"
        "'num_experts_per_tok':1}",
        TPP_E_RANGE, "2^56", "toy.json");
}

static void hostile_bytes_are_refused(void **state)
{
    (void)state;
    struct tpp_model model;
    struct tpp_error err;
    char *config = with_quotes(HF("llama", ""));
    assert_int_equal(read_bytes("", 0, &model, &err), TPP_E_SYNTAX);
    for (size_t length = 0; length < strlen(config); length++)
        assert_int_equal(read_bytes(config, length, &model, &err), TPP_E_SYNTAX);
    free(config);
    refuse("{'model_type':'llama','model_type':'gpt2'}", TPP_E_SYNTAX, "model_type", "toy.json");
    refuse("NaN", TPP_E_SYNTAX, "", "toy.json");
    refuse(HF("llama", ",'rope_theta':NaN"), TPP_E_SYNTAX, "", "toy.json");
    char nested[4096];
    memset(nested, '[', sizeof(nested));
    assert_int_not_equal(read_bytes(nested, sizeof(nested), &model, &err), TPP_OK);
}

/* 10 MB of text nobody asks for, and then the model. */
static void a_large_file_is_read(void **state)
{
    (void)state;
    struct tpp_text text;
    struct tpp_model model;
    struct tpp_error err;
    tpp_text_init(&text);
    tpp_text_append(&text, "{\"notes\":\"");
    for (int i = 0; i < 1000 * 1000; i++)
        tpp_text_append(&text, "ten bytes ");
    tpp_text_append(&text, "\",\"model_type\":\"llama\",\"hidden_size\":48,\"num_hidden_layers\":6,\"vocab_size\":96,"
                           "\"num_attention_heads\":6,\"intermediate_size\":112}");
    assert_int_equal(read_bytes(text.data, text.length, &model, &err), TPP_OK);
    assert_int_equal(model.num_layers, 6);
    tpp_text_release(&text);
}

/* 200,000 keys nobody asks for take no longer than their number says. */
static void many_keys_are_read(void **state)
{
    (void)state;
    struct tpp_text text;
    struct tpp_model model;
    struct tpp_error err;
    tpp_text_init(&text);
    tpp_text_append(&text, "{\"model_type\":\"llama\",\"hidden_size\":48,\"num_hidden_layers\":6,\"vocab_size\":96,"
                           "\"num_attention_heads\":6,\"intermediate_size\":112");
    for (int i = 0; i < 200000; i++)
        tpp_text_format(&text, ",\"key%d\":%d", i, i);
    tpp_text_append(&text, "}");
    assert_int_equal(read_bytes(text.data, text.length, &model, &err), TPP_OK);
    tpp_text_release(&text);
}

static void assert_same(const struct tpp_model *a, const struct tpp_model *b)
{
    size_t count;
    const struct tpp_model_field *fields = tpp_model_fields(&count);
    for (size_t i = 0; i < count; i++) {
        const char *left = (const char *)a + fields[i].offset, *right = (const char *)b + fields[i].offset;
        const size_t size = fields[i].kind == TPP_FIELD_U32      ? sizeof(uint32_t)
                            : fields[i].kind == TPP_FIELD_NUMBER ? sizeof(double)
                            : fields[i].kind == TPP_FIELD_BOOL   ? sizeof(bool)
                                                                 : sizeof(unsigned);
        const bool same = fields[i].kind == TPP_FIELD_TEXT ? strcmp(left, right) == 0 : memcmp(left, right, size) == 0;
        if (!same)
            fail_msg("%s and %s differ in %s", a->name, b->name, fields[i].name);
    }
}

static void written_and_read_back_every_preset_is_the_same(void **state)
{
    (void)state;
    size_t count;
    const struct tpp_model *presets = tpp_model_presets(&count);
    for (size_t i = 0; i < count; i++) {
        struct tpp_json_writer writer;
        struct tpp_text text;
        struct tpp_model model;
        struct tpp_error err;
        tpp_json_writer_init(&writer);
        tpp_text_init(&text);
        tpp_json_add_u64(&writer, writer.root, "schema_version", 1);
        tpp_model_add_json(&presets[i], &writer, writer.root);
        assert_int_equal(tpp_json_print(&writer, &text, &err), TPP_OK);
        if (read_bytes(text.data, text.length, &model, &err) != TPP_OK)
            fail_msg("%s: %s (%s)", presets[i].name, err.message, err.where);
        assert_same(&presets[i], &model);
        tpp_text_release(&text);
        tpp_json_writer_release(&writer);
    }
}

static void the_first_keys_of_a_written_model_are_the_contract(void **state)
{
    (void)state;
    struct cJSON *root = as_json(tpp_model_preset("mixtral-8x7b"));
    static const char *const first[] = {"name", "total_parameters", "active_parameters", "family", "layers"};
    const struct cJSON *item = root->child;
    for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++, item = item->next)
        assert_string_equal(item->string, first[i]);
    assert_true(cJSON_GetObjectItemCaseSensitive(root, "total_parameters")->valuedouble == 46702792704.0);
    assert_null(cJSON_GetObjectItemCaseSensitive(root, "kv_lora_rank"));
    cJSON_Delete(root);
}

static void every_field_has_a_key_that_is_allowed(void **state)
{
    (void)state;
    size_t count;
    const struct tpp_model_field *fields = tpp_model_fields(&count);
    const char *const *keys = tpp_model_compact_keys();
    size_t k = 0;
    for (; k < count; k++)
        assert_string_equal(keys[k], fields[k].key);
    assert_string_equal(keys[k], "total_parameters");
}

static void a_compact_model_by_hand_needs_five_keys(void **state)
{
    (void)state;
    expect("{'layers':6,'hidden_size':48,'num_attention_heads':6,'vocab_size':96,'ffn_hidden_size':112}",
           "{'name':'toy','family':'custom','num_query_groups':6,'head_dim':8,'gated_mlp':true,'position':'rope',"
           "'rope_theta':10000,'rotary_fraction':1,'norm':'rms_norm','activation':'silu','norms_per_layer':2,"
           "'final_norm':true,'tied_embeddings':false}");
#define COMPACT(...) "{'layers':6,'hidden_size':48,'num_attention_heads':6,'vocab_size':96" __VA_ARGS__ "}"
    expect(COMPACT(",'num_experts':8,'experts_per_token':2,'moe_ffn_hidden_size':24"), "{'moe_layer_period':1}");
    expect(COMPACT(",'ffn_hidden_size':112,'position':'learned','max_position_embeddings':32,'name':'mine'"),
           "{'learned_position_rows':32,'rope_theta':0,'name':'mine'}");
    expect(COMPACT(",'ffn_hidden_size':112,'kv_lora_rank':16,'qk_nope_head_dim':8,'qk_rope_head_dim':4,'v_head_dim':8"),
           "{'head_dim':12}");
    expect(COMPACT(",'ffn_hidden_size':112,'qk_norm':true,'sliding_window':16"),
           "{'qk_norm_elements':16,'sliding_window_layers':6}");
    /* 48 * 3 * 48 + 48 * 48 + 3 * 48 * 112 + 96 = 25440 a layer; 2 * 96 * 48 + 48 = 9264 outside */
    expect(COMPACT(",'ffn_hidden_size':112,'total_parameters':161904"), "{'total_parameters':161904}");
    refuse(COMPACT(",'ffn_hidden_size':112,'total_parameters':161905"), TPP_E_RANGE, "161904", "toy.json");
    refuse(COMPACT(), TPP_E_RANGE, "ffn_hidden_size", "model.ffn_hidden_size");
    refuse("{'layers':6,'hidden_size':48}", TPP_E_MISSING, "num_attention_heads", "toy.json");
    refuse(COMPACT(",'ffn_hidden_sise':112"), TPP_E_SYNTAX, "ffn_hidden_sise", "toy.json");
    refuse(COMPACT(",'ffn_hidden_size':112,'norm':'rms'"), TPP_E_RANGE, "\"rms\"", "#/norm");
    refuse(COMPACT(",'ffn_hidden_size':112,'schema_version':2"), TPP_E_RANGE, "", "#/schema_version");
}

/* A file's quantisation is told, changes no count, and survives the compact form. */
static void quantised_files_say_so(void **state)
{
    (void)state;
    struct tpp_model model, plain;
    struct tpp_error err;
    assert_int_equal(read_text(HF("llama", ""), &plain, &err), TPP_OK);
    assert_string_equal(plain.stored_as, "");
    assert_int_equal(read_text(HF("llama", ", 'quantization_config': {'quant_method': 'fp8', 'fmt': 'e4m3'}"), &model, &err), TPP_OK);
    assert_string_equal(model.stored_as, "fp8");
    struct tpp_model_counts counts, plain_counts;
    tpp_model_count(&model, &counts);
    tpp_model_count(&plain, &plain_counts);
    assert_int_equal(counts.total, plain_counts.total);
    struct cJSON *json = as_json(&model);
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(json, "stored_as")->valuestring, "fp8");
    cJSON_Delete(json);
    assert_int_equal(read_text(HF("llama", ", 'quantization_config': {}"), &model, &err), TPP_OK);
    assert_string_equal(model.stored_as, "quantized");
    assert_int_equal(read_text(HF("llama", ", 'quantization_config': null"), &model, &err), TPP_OK);
    assert_string_equal(model.stored_as, "");
    assert_int_equal(read_text(HF("llama", ", 'quantization_config': 8"), &model, &err), TPP_E_TYPE);
    assert_int_equal(read_text(HF("llama", ", 'quantization_config': {'quant_method': 8}"), &model, &err), TPP_E_TYPE);
}

static void names_come_from_the_path(void **state)
{
    (void)state;
    char folder[] = "/tmp/tpp-model-XXXXXX", path[128], file[160];
    assert_non_null(mkdtemp(folder));
    struct tpp_model model;
    struct tpp_error err;
    char *config = with_quotes(HF("llama", ""));
    static const char *const names[] = {"config.json", "qwen2.5-7b.json", "with\nline.json"};
    const char *const expected[] = {strrchr(folder, '/') + 1, "qwen2.5-7b", "with?line"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        FILE *out = fopen(path, "w");
        assert_non_null(out);
        fputs(config, out);
        fclose(out);
        assert_int_equal(tpp_model_load(path, &model, &err), TPP_OK);
        assert_string_equal(model.name, expected[i]);
        assert_int_equal(tpp_model_find(path, &model, &err), TPP_OK);
        remove(path);
    }
    snprintf(file, sizeof(file), "%s/gone.json", folder);
    assert_int_equal(tpp_model_load(file, &model, &err), TPP_E_IO);
    remove(folder);
    free(config);
}

static void long_names_are_cut_at_a_character(void **state)
{
    (void)state;
    struct tpp_json_document *document;
    struct tpp_model model;
    struct tpp_error err;
    char *config = with_quotes(HF("llama", "")), name[80];
    memset(name, 'a', sizeof(name));
    memcpy(name + 62, "\xC3\xA9\xC3\xA9", 5); /* two e-acute, the first across the 64th byte */
    assert_int_equal(tpp_json_parse(config, strlen(config), "toy.json", &document, &err), TPP_OK);
    assert_int_equal(tpp_model_read(tpp_json_root(document), name, &model, &err), TPP_OK);
    assert_int_equal(strlen(model.name), 62);
    tpp_json_document_free(document);
    free(config);
}

static void the_family_table_is_sorted_and_consistent(void **state)
{
    (void)state;
    size_t count;
    const struct tpp_model_family *families = tpp_model_families(&count);
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || strcmp(families[i - 1].model_type, families[i].model_type) < 0);
        assert_ptr_equal(tpp_model_family_find(families[i].model_type), &families[i]);
        assert_null(tpp_model_refused_type(families[i].model_type));
        assert_true(strlen(families[i].model_type) < sizeof(((struct tpp_model *)0)->family));
        assert_true(families[i].window != TPP_WINDOW_PATTERN || families[i].window_period > 0);
    }
}

/* With TPP_SHARED_MODELS naming a folder of published config files: each must read as the preset of its name. The
 * Llama-2 files carry the 2048 positions of their first upload, the presets the 4096 of every later one. */
static void published_files_read_as_their_presets(void **state)
{
    (void)state;
    const char *folder = getenv("TPP_SHARED_MODELS");
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    unsigned read = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char path[4096];
        struct tpp_model model;
        struct tpp_error err;
        const size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".json") != 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (tpp_model_load(path, &model, &err) != TPP_OK)
            fail_msg("%s: %s (%s)", path, err.message, err.where);
        if (strncmp(model.name, "llama2-", 7) == 0)
            model.max_position_embeddings *= 2;
        const struct tpp_model *preset = tpp_model_preset(model.name);
        if (preset == NULL)
            fail_msg("there is no preset %s", model.name);
        assert_same(&model, preset);
        read++;
    }
    closedir(directory);
    assert_true(read > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_and_its_variants),
        cmocka_unit_test(class_defaults_of_groups_and_windows),
        cmocka_unit_test(qwen1_has_both_gated_halves_in_one_size),
        cmocka_unit_test(the_gpt_families),
        cmocka_unit_test(bloom_opt_falcon_and_mpt),
        cmocka_unit_test(gemma_cohere_olmo_and_chatglm),
        cmocka_unit_test(mixtures_of_experts),
        cmocka_unit_test(llama4_nests_and_interleaves),
        cmocka_unit_test(latent_attention),
        cmocka_unit_test(models_with_several_senses),
        cmocka_unit_test(what_is_no_plain_transformer_is_refused),
        cmocka_unit_test(what_is_not_known_names_the_key),
        cmocka_unit_test(a_missing_key_is_never_guessed),
        cmocka_unit_test(bad_sizes_are_refused_where_they_are),
        cmocka_unit_test(hostile_bytes_are_refused),
        cmocka_unit_test(a_large_file_is_read),
        cmocka_unit_test(many_keys_are_read),
        cmocka_unit_test(written_and_read_back_every_preset_is_the_same),
        cmocka_unit_test(the_first_keys_of_a_written_model_are_the_contract),
        cmocka_unit_test(every_field_has_a_key_that_is_allowed),
        cmocka_unit_test(a_compact_model_by_hand_needs_five_keys),
        cmocka_unit_test(quantised_files_say_so),
        cmocka_unit_test(names_come_from_the_path),
        cmocka_unit_test(long_names_are_cut_at_a_character),
        cmocka_unit_test(the_family_table_is_sorted_and_consistent),
        cmocka_unit_test(published_files_read_as_their_presets), /* the last: needs a folder */
    };
    /* Left out rather than skipped: Meson takes cmocka's "not ok # SKIP" for a failure. */
    const size_t count = sizeof(tests) / sizeof(tests[0]) - (getenv("TPP_SHARED_MODELS") == NULL ? 1 : 0);
    return _cmocka_run_group_tests("model_reader", tests, count, NULL, NULL);
}
