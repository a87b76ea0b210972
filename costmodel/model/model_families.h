/* model_families.h - private to costmodel/model: what each family of published configs calls things, and what it means
 * when a key is missing. One row a model_type; a new family is a new row. */
#ifndef TPP_COSTMODEL_MODEL_MODEL_FAMILIES_H
#define TPP_COSTMODEL_MODEL_MODEL_FAMILIES_H

#include "costmodel/base/json_read.h"
#include "costmodel/model/model.h"

/* Names a size may go by, NULL-terminated; two that are present must agree. */
#define TPP_MODEL_MAX_NAMES 4
struct tpp_model_names {
    const char *name[TPP_MODEL_MAX_NAMES];
};

/* How a group of families names its sizes. */
struct tpp_model_keys {
    struct tpp_model_names layers, hidden, heads, groups, head_dim, ffn, vocab, positions;
    uint32_t ffn_per_hidden; /* MLP width over hidden size when its key is missing; 0: the key is needed */
};

/* How a mixture-of-experts family names its sizes. */
struct tpp_model_expert_keys {
    struct tpp_model_names experts, per_token, ffn;
    struct tpp_model_names groups, groups_per_token; /* node-limited routing; optional */
    const char *shared_size;   /* width of all shared experts together */
    const char *shared_count;  /* number of shared experts, each as wide as a routed one */
    bool always_shared;        /* one shared expert, as wide as a routed one, without a key (Llama 4) */
    const char *first_k_dense; /* number of leading layers without experts */
    const char *period;        /* layer i has experts when (i + 1) % period == 0 */
    const char *frequency;     /* DeepSeek: when i % frequency == 0; or a list of 0 and 1 */
    const char *dense_layers;  /* list of layers without experts */
    const char *expert_layers; /* list of layers with experts */
    bool needs_layout;         /* first_k_dense and shared_* must be given: the class default is not "none" */
    bool gate, router_bias, expert_bias;
    bool may_be_null; /* experts: null is a dense model */
};

enum tpp_model_bias { /* a set */
                      TPP_BIAS_QKV = 1,
                      TPP_BIAS_OUTPUT = 2,
                      TPP_BIAS_MLP = 4,
                      TPP_BIAS_LM_HEAD = 8,
};

struct tpp_model_bias_key {
    const char *key;
    unsigned parts;   /* what the key switches */
    bool is_inverted; /* "no_bias" */
};

enum tpp_model_qk_norm {
    TPP_QK_NORM_NONE,
    TPP_QK_NORM_PER_HEAD,   /* one vector of head_dim for q, one for k */
    TPP_QK_NORM_FULL,       /* a d for q, kv d for k */
    TPP_QK_NORM_NO_WEIGHTS, /* nothing to learn (Llama 4) */
};

enum tpp_model_window {
    TPP_WINDOW_NONE,
    TPP_WINDOW_ALL,        /* every layer */
    TPP_WINDOW_PATTERN,    /* every n-th layer attends to all; n from sliding_window_pattern or the row */
    TPP_WINDOW_FROM_LAYER, /* Qwen: only with use_sliding_window, from layer max_window_layers on */
};

struct tpp_model_family {
    const char *model_type;
    const struct tpp_model_keys *keys;
    const char *nested; /* object that may hold the language model of a model with several senses */

    enum tpp_norm norm;
    enum tpp_activation activation; /* when no key names it */
    bool is_gated;
    enum tpp_position position;
    uint32_t norms_per_layer;
    bool is_parallel;
    bool embedding_norm;
    bool is_tied; /* when tie_word_embeddings is missing */

    unsigned biases; /* class default */
    struct tpp_model_bias_key bias_keys[3];

    enum tpp_model_qk_norm qk_norm;
    const char *qk_norm_key; /* NULL: always; else off unless the key says so (on when qk_norm_default) */
    bool qk_norm_default;

    enum tpp_model_window window;
    const char *window_key;
    uint32_t window_default, window_period;

    const struct tpp_model_expert_keys *experts;
    bool is_latent;       /* multi-head latent attention */
    bool needs_q_rank;    /* q_lora_rank must be given, or null: the class default is not "none" */
    bool value_is_hidden; /* v_head_dim is hidden / heads when missing; else it is needed */
    bool has_mtp;         /* num_nextn_predict_layers counts */
    bool has_sinks;

    /* Class defaults of sizes; 0: none (heads: required; groups: as many as heads; head_dim: hidden / heads). */
    uint32_t default_heads, default_groups, default_head_dim, default_vocab, default_positions;
    double default_theta, default_rotary_fraction; /* 0: 10000 and 1 */

    /* What no column can say; NULL for most. Runs after the columns were applied and may change anything. */
    enum tpp_code (*finish)(struct tpp_json config, struct tpp_model *model, struct tpp_error *err);
};

/* NULL when the model_type is not known. */
const struct tpp_model_family *tpp_model_family_find(const char *model_type);
/* The whole table, sorted by model_type; *count is the number of rows. */
const struct tpp_model_family *tpp_model_families(size_t *count);

/* The `finish` hooks (model_quirks.c). */
enum tpp_code tpp_model_finish_baichuan(struct tpp_json config, struct tpp_model *model, struct tpp_error *err);
enum tpp_code tpp_model_finish_chatglm(struct tpp_json config, struct tpp_model *model, struct tpp_error *err);
enum tpp_code tpp_model_finish_falcon(struct tpp_json config, struct tpp_model *model, struct tpp_error *err);
enum tpp_code tpp_model_finish_gpt_bigcode(struct tpp_json config, struct tpp_model *model, struct tpp_error *err);
enum tpp_code tpp_model_finish_gpt_neox(struct tpp_json config, struct tpp_model *model, struct tpp_error *err);
enum tpp_code tpp_model_finish_mpt(struct tpp_json config, struct tpp_model *model, struct tpp_error *err);
enum tpp_code tpp_model_finish_opt(struct tpp_json config, struct tpp_model *model, struct tpp_error *err);
enum tpp_code tpp_model_finish_qwen(struct tpp_json config, struct tpp_model *model, struct tpp_error *err);
enum tpp_code tpp_model_finish_stablelm(struct tpp_json config, struct tpp_model *model, struct tpp_error *err);

/* Why a model_type cannot be described as a plain transformer, or NULL (model_refused.c). */
const char *tpp_model_refused_type(const char *model_type);
/* True and *key set when `config` has a key of a state-space or linear-attention model. */
bool tpp_model_find_hybrid_key(struct tpp_json config, const char **key);
/* True when the config counts more than one expert. */
bool tpp_model_find_expert_key(struct tpp_json config, const char **key);

#endif
