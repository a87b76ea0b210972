/* hardware.h - a cluster as numbers: GPU, node, network, and where every number comes from.
 *
 * Loaded from a profile (hwprofiles/profiles.h, or a user's file), checked once, trusted behind it. Vendor bandwidths
 * are decimal, per direction. The formulas that use each value are those of cost-model sections 5 and 6. */
#ifndef TPP_HWPROFILES_HARDWARE_H
#define TPP_HWPROFILES_HARDWARE_H

#include "costmodel/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tpp_provenance {
    TPP_PROVENANCE_MEASURED,  /* by calibrate: when and where in the source */
    TPP_PROVENANCE_PUBLISHED, /* somebody's published measurement or fit to one */
    TPP_PROVENANCE_DATASHEET,
    TPP_PROVENANCE_ASSUMED,   /* nobody measured it: low confidence */
    TPP_PROVENANCE_USER,      /* given on the command line */
    TPP_PROVENANCE_COUNT,
};

/* Kernel generations of attention; an input of every prediction (cost-model 5.2). */
enum tpp_attention_kernel {
    TPP_ATTENTION_FLASH1,
    TPP_ATTENTION_FLASH2,
    TPP_ATTENTION_FLASH3,        /* FlashAttention-3 and cuDNN on Hopper; cuDNN/FA4 on Blackwell */
    TPP_ATTENTION_FUSED_SOFTMAX, /* unfused GEMMs around Megatron's fused scale-mask-softmax */
    TPP_ATTENTION_EAGER,         /* unfused, PyTorch eager softmax in fp32 */
    TPP_ATTENTION_KERNEL_COUNT,
};
#define TPP_FLASH_KERNEL_COUNT 3 /* the first three above */

/* Kinds of collective with a rate of their own inside a node. */
enum tpp_collective {
    TPP_ALL_REDUCE,
    TPP_ALL_GATHER,
    TPP_REDUCE_SCATTER,
    TPP_ALL_TO_ALL,
    TPP_SEND_RECV,
    TPP_COLLECTIVE_COUNT,
};

struct tpp_gpu {
    char name[64];
    double compute_capability;          /* 8.0, 9.0, 10.0; 0 for a GPU without one (AMD) */
    double bf16_flops_per_second;       /* dense peak; fp16 equal (V100: fp16 only) */
    double fp8_flops_per_second;        /* 0: the GPU has none */
    double fp32_flops_per_second;
    double tf32_flops_per_second;       /* 0: none */
    bool has_bf16;                      /* V100 has not */
    uint32_t num_sms;
    double memory_bandwidth_bytes_per_second; /* HBM, data sheet */
    uint64_t memory_bytes;              /* what the program sees as total (cudaMemGetInfo) */
    uint64_t context_bytes;             /* CUDA context and libraries, outside the allocator */
    uint64_t cublas_workspace_bytes;    /* per stream */
    double memory_efficiency_fraction;  /* hbm_eff: reached by memory-bound kernels */
    double kernel_gap_seconds;          /* between kernels on the GPU (cost-model 5.5) */
    double host_launch_seconds;         /* of one launched op on the host */
    double host_operation_seconds;      /* the same with Megatron's Python around it: module, autograd node, allocations */
    /* GEMM, cost-model 5.1. */
    double gemm_max_fraction;           /* g_max of a GEMM run alone, in bursts */
    double gemm_sustained_fraction;     /* g_sus: what a training step sustains of that rate; 1: g_max is a step's */
    double gemm_half_k;                 /* g_k0, elements */
    uint32_t gemm_tile_m, gemm_tile_n;  /* preferred tile */
    double gemm_wave_quantization_fraction; /* wq */
    double gemm_wgrad_fraction;         /* wg_f: wgrad that accumulates in fp32 */
    double gemm_fp8_fraction;           /* efficiency factor of FP8 GEMMs relative to bf16 ones; 0.85 */
    /* Flash attention, cost-model 5.2; index = enum tpp_attention_kernel. 0: no such kernel on this GPU. */
    double flash_forward_fraction[TPP_FLASH_KERNEL_COUNT];
    double flash_backward_fraction[TPP_FLASH_KERNEL_COUNT];
    double flash_half_length;           /* s0, tokens */
    double flash_block_constant;        /* kappa */
    double flash_small_head_fraction[TPP_FLASH_KERNEL_COUNT]; /* r_d for head dims of 64 and less */
    double flash3_wide_head_fraction;   /* r_d where keys are wider than values (latent attention: 192 and 128) */
    /* How far off the formulas are on kernels they were not fitted to: nine tenths of the measured time lie in kernels
     * within this share. What the interval of a step is made of. */
    double gemm_error_fraction, attention_error_fraction, memory_error_fraction;
};

struct tpp_node {
    uint32_t num_gpus;                  /* GPUs in one NVLink/PCIe domain: "node" of all formulas (NVL72: 72) */
    bool has_nvlink;                    /* all pairs at full rate; false: PCIe */
    /* Bus bandwidth as nccl-tests defines it, large messages, all GPUs of the node; SEND_RECV: one pair. */
    double bus_bytes_per_second[TPP_COLLECTIVE_COUNT];
    double half_rate_bytes;             /* message size with half the rate (cost-model 6.1) */
    double base_latency_seconds;        /* 8.4 us */
    double hop_latency_seconds;         /* 3.4 us on NVLink, 5.7 us on PCIe */
    double collective_error_fraction;   /* as gemm_error_fraction, collectives inside a node */
    uint64_t host_memory_bytes;         /* of one node */
    double host_link_bytes_per_second;  /* PCIe or C2C, one direction, per GPU */
};

struct tpp_network {
    uint32_t num_nics;                  /* per node */
    double nic_bytes_per_second;        /* one NIC, one direction, nominal */
    double ring_efficiency_fraction;    /* nic_eff_ring */
    double send_recv_efficiency_fraction; /* nic_eff_p2p */
    double hop_latency_seconds;         /* 12 us */
    double collective_error_fraction;   /* as gemm_error_fraction, collectives between nodes */
    double oversubscription;            /* >= 1: leaf uplinks to spine */
    uint32_t nodes_per_leaf;            /* nodes below one leaf group; 0: everything is one leaf */
    double nccl_communicator_bytes;     /* device memory per communicator (cost-model 4.4) */
    double nccl_all_to_all_bytes;       /* more once all pairs are open */
};

#define TPP_HARDWARE_MAX_VALUES 96

struct tpp_hardware_origin {
    enum tpp_provenance provenance;
    char source[200];                   /* the document, table or machine; for "measured" also the date */
};

struct tpp_hardware {
    char name[64];
    char description[160];
    struct tpp_gpu gpu;
    struct tpp_node node;
    struct tpp_network network;
    double overlap_slowdown_fraction;   /* sigma: compute lost while communication runs (cost-model 9.3) */
    struct tpp_hardware_origin origins[TPP_HARDWARE_MAX_VALUES]; /* by row of tpp_hardware_fields() */
};

/* How the member of struct tpp_hardware that a row stands for is stored. */
enum tpp_hardware_kind {
    TPP_HARDWARE_DOUBLE,
    TPP_HARDWARE_U32,
    TPP_HARDWARE_U64,
    TPP_HARDWARE_BOOL, /* true or false in JSON, 1 or 0 in tpp_hardware_get and tpp_hardware_set */
};

/* One row a value: drives the loader, the writer, the schema, the overrides and what `hardware` prints. */
struct tpp_hardware_field {
    const char *key;        /* "gpu.memory_bytes": group and key in the JSON file; the group is gpu, node or network */
    const char *unit;       /* "bytes", "bytes_per_second", "flops_per_second", "seconds", "fraction", "count",
                             * "elements", "tokens", "ratio", "boolean", "version" */
    double min, max;        /* valid range, both included */
    bool required;          /* false: has the default of `fallback` with provenance "assumed" */
    double fallback;
    const char *about;      /* one line for people */
    enum tpp_hardware_kind kind;
    size_t offset;          /* of the member in struct tpp_hardware */
};

const struct tpp_hardware_field *tpp_hardware_fields(uint32_t *count);
/* Row of a key; false when there is none. */
bool tpp_hardware_field_index(const char *key, uint32_t *index);
/* Value of row `index`. */
double tpp_hardware_get(const struct tpp_hardware *hardware, uint32_t index);
/* Sets a value by key with provenance TPP_PROVENANCE_USER; TPP_E_RANGE or TPP_E_USAGE (unknown key, nearest as hint).
 * On failure nothing changes. Call tpp_hardware_check when all values are set. */
enum tpp_code tpp_hardware_set(struct tpp_hardware *hardware, const char *key, double value, const char *source,
                               struct tpp_error *err);
/* Every value in its range, and what the values must satisfy together; every loader calls it. `where` of the error is
 * the key. */
enum tpp_code tpp_hardware_check(const struct tpp_hardware *hardware, struct tpp_error *err);

/* Bytes per second one GPU can send to other nodes when all GPUs of its node send: num_nics * nic / num_gpus, nominal. */
double tpp_hardware_nic_bytes_per_second_per_gpu(const struct tpp_hardware *hardware);

const char *tpp_provenance_name(enum tpp_provenance provenance);       /* "measured", ... */
const char *tpp_attention_kernel_name(enum tpp_attention_kernel kernel); /* "flash2", "fused-softmax", ... */
const char *tpp_collective_name(enum tpp_collective collective);       /* "all_reduce", ... */

#endif
