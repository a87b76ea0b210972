/* model.h - the shape of a transformer: everything that decides parameters, FLOPs and memory, and nothing else.
 *
 * Filled by model_reader.h (Hugging Face config.json), by presets.h (shipped shapes) or by a caller; checked once by
 * tpp_model_check and trusted behind it. Lengths are elements, not bytes. */
#ifndef TPP_COSTMODEL_MODEL_MODEL_H
#define TPP_COSTMODEL_MODEL_MODEL_H

#include "costmodel/base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum tpp_norm { TPP_NORM_RMS, TPP_NORM_LAYER /* weight and bias */, TPP_NORM_LAYER_NO_BIAS /* weight only */,
                TPP_NORM_NO_PARAMETERS };
enum tpp_activation { TPP_ACTIVATION_GELU, TPP_ACTIVATION_SILU /* SwiGLU when gated */, TPP_ACTIVATION_RELU,
                      TPP_ACTIVATION_SQUARED_RELU };
enum tpp_position { TPP_POSITION_ROPE, TPP_POSITION_LEARNED, TPP_POSITION_ALIBI, TPP_POSITION_NONE };

struct tpp_model {
    char name[64];          /* preset name, file name without ending, or the caller's */
    char family[32];        /* model_type of the config: "llama", "gpt2", ... */
    char stored_as[24];     /* quantisation of the file, its quant_method: "fp8", "mxfp4", ...; "" = none. Training keeps
                               16- or 32-bit weights whatever the file holds */
    uint32_t num_layers;    /* 1 .. 10000, decoder layers without MTP blocks */
    uint32_t hidden_size;   /* 1 .. 2^20 */
    uint32_t num_attention_heads;
    uint32_t num_query_groups; /* key/value heads; == num_attention_heads without GQA */
    uint32_t head_dim;
    uint32_t ffn_hidden_size; /* f: width of ONE matrix of the dense MLP; 0 when every layer is MoE */
    bool gated_mlp;           /* three matrices instead of two */
    uint32_t vocab_size;
    uint32_t max_position_embeddings; /* longest sequence the model was made for; 0 unknown */
    uint32_t learned_position_rows;   /* rows of the learned position table (OPT: + 2); 0 without one */
    enum tpp_position position;
    double rope_theta;        /* 0 when there is no rotary embedding */
    double rotary_fraction;   /* share of head_dim that is rotated, 0 .. 1 */
    enum tpp_norm norm;
    double norm_epsilon;      /* 0 unknown */
    enum tpp_activation activation;
    uint32_t norms_per_layer;   /* 2; 1 for shared-norm parallel blocks (Phi, Falcon-7B, GPT-J, Cohere); 4 for Gemma-2/3 */
    bool final_norm;
    bool embedding_norm;        /* BLOOM */
    bool qk_norm;               /* per-head norms of q and k */
    uint32_t qk_norm_elements;  /* parameters a layer in the q and k norms (2*head_dim, or a*d + kv*d for OLMo-2); 0 without */
    bool parallel_block;        /* attention and MLP read the same input */
    bool qkv_bias, output_bias, mlp_bias, lm_head_bias;
    bool tied_embeddings;
    uint32_t sliding_window;    /* tokens; 0 = full attention in every layer */
    uint32_t sliding_window_layers; /* layers that use the window; the rest attend to all */
    uint32_t attention_sink_elements; /* learned sink logits a layer (gpt-oss: num_attention_heads); 0 without */

    /* Mixture of experts; num_experts == 0: dense. */
    uint32_t num_experts;           /* E, routed experts a MoE layer */
    uint32_t experts_per_token;     /* k */
    uint32_t expert_groups;         /* equal groups of neighbours that a token chooses among first; 0: none */
    uint32_t groups_per_token;      /* of them; 0 without groups */
    uint32_t moe_ffn_hidden_size;   /* f_e */
    uint32_t shared_expert_hidden_size; /* f_s, all shared experts together; 0 none */
    bool shared_expert_gate;        /* one more h -> 1 gate */
    bool router_bias;               /* E elements: bias or score correction */
    bool expert_bias;               /* biases in the expert MLPs (gpt-oss) */
    uint32_t first_k_dense;         /* first layers that use the dense MLP */
    uint32_t moe_layer_period;      /* after first_k_dense, layer i is MoE when (i + 1) % period == 0; 1 = all */

    /* Multi-head latent attention; kv_lora_rank == 0: plain attention. */
    uint32_t q_lora_rank;           /* 0: queries are projected directly */
    uint32_t kv_lora_rank;
    uint32_t qk_nope_head_dim, qk_rope_head_dim, v_head_dim;

    uint32_t mtp_num_layers;        /* multi-token-prediction blocks; not in the totals, costed on request */
};

struct tpp_model_counts {        /* parameters, exact; MTP blocks and vision towers not counted */
    uint64_t total;
    uint64_t active;             /* experts_per_token experts, no router bias; == total for a dense model */
    uint64_t embedding;          /* token embedding, once when tied (plus positions and embedding norm) */
    uint64_t lm_head;            /* 0 when tied (a bias stays) */
    uint64_t dense_layer;        /* one layer with the dense MLP; 0 when every layer is MoE */
    uint64_t moe_layer;          /* one MoE layer, all experts; 0 for a dense model */
    uint64_t final_norm;
    uint32_t num_dense_layers, num_moe_layers;
};

/* One value checked against another (heads divide, groups divide heads, sizes positive and bounded so that nothing
 * below overflows). Every loader calls it; TPP_E_RANGE names the field in `where` as "model.<field>". */
enum tpp_code tpp_model_check(const struct tpp_model *model, struct tpp_error *err);

/* Cost-model 2.1-2.3 [exact]; checked by tests/unit/test_model_counts.c against the published totals. */
void tpp_model_count(const struct tpp_model *model, struct tpp_model_counts *counts);

/* True when layer `index` (from 0) has experts. */
bool tpp_model_layer_is_moe(const struct tpp_model *model, uint32_t index);

const char *tpp_norm_name(enum tpp_norm norm);
const char *tpp_activation_name(enum tpp_activation activation);
const char *tpp_position_name(enum tpp_position position);

#endif
