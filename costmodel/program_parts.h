/* program_parts.h - private to the layer program: the builder and its parts, one file for each part of a layer. */
#ifndef TPP_COSTMODEL_PROGRAM_PARTS_H
#define TPP_COSTMODEL_PROGRAM_PARTS_H

#include "costmodel/program.h"

#include <assert.h>

struct tpp_builder {
    const struct tpp_model *model;
    const struct tpp_job *job;
    const struct tpp_stack *stack;
    struct tpp_program *program;
    uint32_t tensor_parallel;
    bool sequence_parallel;
    uint32_t modules;     /* of the operations added next */
    bool frozen;          /* base weights have no gradient (LoRA, QLoRA) */
    double hidden;        /* h */
    double tokens;        /* n */
    double norm_share;    /* n_q / n: 1/t with sequence parallelism, else 1 */
    double local_heads;   /* a / t */
    double local_groups;  /* max(1, kv / t) */
    double local_ffn;     /* f / t */
    double qk_head_dim, v_head_dim; /* of the attention core; differ with latent attention */
    double key_width, value_width;  /* elements of keys and of values a token on one rank */
};

struct tpp_linear {
    const char *name;
    double columns;       /* N: local output width */
    double depth;         /* K: local input width */
    double tokens;        /* M; 0: all tokens of the micro-batch */
    bool is_row_parallel; /* output needs a reduction over the tensor-parallel group */
    double bias_elements; /* on one rank */
    double unsaved_fraction; /* of its products, what torchtitan's selective policy runs again */
    double adapter_inputs, adapter_outputs; /* sums over its adapted matrices of local A columns and B rows; 0: none */
};

struct tpp_op *tpp_builder_op(struct tpp_builder *builder, const char *name, enum tpp_op_kind kind,
                              enum tpp_section section, enum tpp_op_part part);
/* Return the index of the new op, or TPP_NO_OP when there is nothing to do. */
int tpp_builder_memory(struct tpp_builder *builder, const char *name, enum tpp_section section, enum tpp_op_part part,
                       double bytes, double kernels);
/* What the products of linear layers multiply. */
enum tpp_number tpp_builder_number(const struct tpp_builder *builder);
int tpp_builder_gemm(struct tpp_builder *builder, const char *name, enum tpp_section section, enum tpp_op_part part,
                     double m, double n, double k);
void tpp_builder_collective(struct tpp_builder *builder, const char *name, enum tpp_section section,
                            enum tpp_group_kind group, enum tpp_collective collective, double bytes, int hidden_behind);
void tpp_builder_tensor(struct tpp_builder *builder, const char *name, enum tpp_tensor_life life, double bytes);
/* `fraction` of the operations from `first_op` on is at the layer's end and makes nothing that backward needs: full recomputation of
 * checkpoint_stops_early leaves it out. Adapters need what comes after the frozen product. */
void tpp_builder_skip_again(struct tpp_builder *builder, uint32_t first_op, double fraction);
/* SAVED, or REPEATED when selective recomputation runs one of `modules` again. */
void tpp_builder_kept(struct tpp_builder *builder, const char *name, uint32_t modules, double bytes);

/* One linear layer with its adapters and quantisation; program_linear.c. */
double tpp_linear_tokens(const struct tpp_builder *builder, const struct tpp_linear *linear);
void tpp_build_linear_parameters(struct tpp_builder *builder, const struct tpp_linear *linear);
int tpp_build_linear_forward(struct tpp_builder *builder, const struct tpp_linear *linear);
/* *dgrad and *wgrad become the indices of the two GEMMs (wgrad: TPP_NO_OP when frozen); both may be NULL. */
void tpp_build_linear_backward(struct tpp_builder *builder, const struct tpp_linear *linear, int *dgrad, int *wgrad);
/* QLoRA: `weights` elements of `matrices` matrices, before a product in every pass. */
void tpp_build_dequantise(struct tpp_builder *builder, enum tpp_section section, double weights, double matrices);
/* Casts around the products when hidden states are fp32; program_upcast.c. `rotated`: elements of q and k a token; `experts`: on
 * this rank, 0 of a dense MLP; `rows` go through one inner width, `width` (of one matrix); `adapted`: inputs of adapters, elements a row. */
void tpp_build_attention_upcast(struct tpp_builder *builder, enum tpp_section section, const struct tpp_linear *qkv,
                                double rotated);
void tpp_build_mlp_upcast(struct tpp_builder *builder, enum tpp_section section, double rows, double width, double experts,
                          double adapted);
/* The adapters of a frozen linear that has some; program_adapter.c. */
bool tpp_linear_has_adapter(const struct tpp_linear *linear);
void tpp_build_adapter_parameters(struct tpp_builder *builder, const struct tpp_linear *linear);
void tpp_build_adapter_forward(struct tpp_builder *builder, const struct tpp_linear *linear);
void tpp_build_adapter_backward(struct tpp_builder *builder, const struct tpp_linear *linear);
/* Backward transfers of tensor parallelism run beside the GEMMs (15.1 tp_async), but not when launches block (15.5). */
bool tpp_builder_overlaps_tensor(const struct tpp_builder *builder);
/* Tensor-parallel collectives around a pair of linears: column-parallel entry and row-parallel exit. */
void tpp_build_tensor_entry_forward(struct tpp_builder *builder, const char *name);
void tpp_build_tensor_exit_forward(struct tpp_builder *builder, const char *name);
void tpp_build_tensor_exit_backward(struct tpp_builder *builder, const char *name);
/* num_linears: modules that read the input, of which the framework has more than one GEMM here. */
void tpp_build_tensor_entry_backward(struct tpp_builder *builder, const char *name, uint32_t num_linears, int dgrad,
                                     int wgrad);
/* Bytes of an element of a linear's input as it is kept for the weight gradient. Transformer Engine keeps what it quantised for an
 * FP8 product, scales included (module/linear.py, layernorm_linear.py, grouped_linear.py: save_for_backward after update_usage). */
double tpp_builder_input_bytes(const struct tpp_builder *builder);
/* n_q / n of the input that `num_linears` column-parallel linears read, as it is kept for backward; times its copies. */
double tpp_builder_kept_share(const struct tpp_builder *builder, uint32_t num_linears);

/* torch.use_deterministic_algorithms fills every tensor that torch.empty makes (aten/src/ATen/native/cuda/TensorFactories.cu,
 * fill_empty_deterministic_), and Transformer Engine's modules write all their results into such: `elements` more, in
 * `num_tensors`, are written. Kernels that PyTorch compiles or chooses itself allocate elsewhere. */
void tpp_build_fills(struct tpp_builder *builder, enum tpp_section section, double elements, double num_tensors);
void tpp_build_norm(struct tpp_builder *builder, enum tpp_section section, double num_norms);
/* Of the MLP, `elements` of its inner width; program_mlp.c. */
void tpp_build_activation(struct tpp_builder *builder, enum tpp_section section, double elements);
void tpp_build_residual(struct tpp_builder *builder, enum tpp_section section);

void tpp_build_attention_forward(struct tpp_builder *builder);
void tpp_build_attention_backward(struct tpp_builder *builder);
void tpp_build_attention_tensors(struct tpp_builder *builder);
void tpp_build_core_forward(struct tpp_builder *builder);
void tpp_build_core_backward(struct tpp_builder *builder);
/* Latent attention's projections instead of q, k, v; program_latent.c. */
bool tpp_builder_is_latent(const struct tpp_builder *builder);
void tpp_build_latent_tensors(struct tpp_builder *builder);
void tpp_build_latent_forward(struct tpp_builder *builder);
void tpp_build_latent_backward(struct tpp_builder *builder);

/* What the host launches for a layer, into the program; program_launches.c. */
void tpp_count_launches(struct tpp_builder *builder, bool has_experts);

void tpp_build_moe_tensors(struct tpp_builder *builder);
void tpp_build_moe_forward(struct tpp_builder *builder);
void tpp_build_moe_backward(struct tpp_builder *builder);

void tpp_build_mlp_forward(struct tpp_builder *builder);
void tpp_build_mlp_backward(struct tpp_builder *builder);
void tpp_build_mlp_tensors(struct tpp_builder *builder);
void tpp_build_embedding(struct tpp_builder *builder);
void tpp_build_head(struct tpp_builder *builder);

#endif
