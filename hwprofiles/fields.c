/* The table of values: one row a member of struct tpp_hardware, and how to read and set one. */
#include "costmodel/base/text.h"
#include "hwprofiles/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define AT(member) offsetof(struct tpp_hardware, member)
/* key, unit, min, max, required, fallback, about, kind, offset */
#define ROW(key, unit, min, max, needed, fallback, about, kind, member)                                                \
    {                                                                                                                  \
        key, unit, min, max, needed, fallback, about, TPP_HARDWARE_##kind, AT(member)                                  \
    }
#define NEED(key, unit, min, max, about, kind, member) ROW(key, unit, min, max, true, 0, about, kind, member)
#define OPT(key, unit, min, max, fallback, about, kind, member)                                                        \
    ROW(key, unit, min, max, false, fallback, about, kind, member)

/* Fallbacks are the values cost-model 5.1, 5.2, 5.5, 5.6, 4.4 and 6.1 share between GPUs, or the lowest of a GPU
 * generation's; a value that differs from machine to machine by more than that is required. */
static const struct tpp_hardware_field fields[] = {
    OPT("gpu.compute_capability", "version", 0, 99, 0, "CUDA compute capability, 0 for a GPU without one", DOUBLE,
        gpu.compute_capability),
    NEED("gpu.bf16_flops_per_second", "flops_per_second", 1e9, 1e18, "dense bf16 peak (fp16 where there is no bf16)",
         DOUBLE, gpu.bf16_flops_per_second),
    OPT("gpu.fp8_flops_per_second", "flops_per_second", 0, 1e18, 0, "dense fp8 peak, 0 where there is none", DOUBLE,
        gpu.fp8_flops_per_second),
    OPT("gpu.fp32_flops_per_second", "flops_per_second", 1e9, 1e18, 1e13, "fp32 peak outside the tensor cores", DOUBLE,
        gpu.fp32_flops_per_second),
    OPT("gpu.tf32_flops_per_second", "flops_per_second", 0, 1e18, 0, "dense tf32 peak, 0 where there is none", DOUBLE,
        gpu.tf32_flops_per_second),
    OPT("gpu.has_bf16", "boolean", 0, 1, 1, "the tensor cores take bf16", BOOL, gpu.has_bf16),
    NEED("gpu.num_sms", "count", 1, 100000, "streaming multiprocessors or compute units", U32, gpu.num_sms),
    NEED("gpu.memory_bandwidth_bytes_per_second", "bytes_per_second", 1e9, 1e15, "device memory, data sheet", DOUBLE,
         gpu.memory_bandwidth_bytes_per_second),
    NEED("gpu.memory_bytes", "bytes", 1e9, 1e14, "device memory the program sees (total of cudaMemGetInfo)", U64,
         gpu.memory_bytes),
    OPT("gpu.context_bytes", "bytes", 0, 1e11, 5e8, "context and libraries, outside the allocator", U64,
        gpu.context_bytes),
    OPT("gpu.cublas_workspace_bytes", "bytes", 0, 1e10, 33554432, "matrix library workspace of one stream", U64,
        gpu.cublas_workspace_bytes),
    OPT("gpu.memory_efficiency_fraction", "fraction", 0.01, 1, 0.8, "share of the memory bandwidth that kernels reach",
        DOUBLE, gpu.memory_efficiency_fraction),
    OPT("gpu.kernel_gap_seconds", "seconds", 0, 0.01, 1.2e-6, "idle time between two kernels", DOUBLE,
        gpu.kernel_gap_seconds),
    OPT("gpu.host_launch_seconds", "seconds", 0, 0.1, 6e-6, "host time of one launched operation", DOUBLE,
        gpu.host_launch_seconds),
    OPT("gpu.host_operation_seconds", "seconds", 0, 0.1, 45e-6,
        "host time of one operation of Megatron's layers, launch included", DOUBLE, gpu.host_operation_seconds),
    OPT("gpu.gemm_max_fraction", "fraction", 0.01, 1, 0.6, "g_max: share of the peak that large GEMMs reach", DOUBLE,
        gpu.gemm_max_fraction),
    OPT("gpu.gemm_sustained_fraction", "fraction", 0.01, 2, 1,
        "g_sus: what a training step sustains of the GEMM rate of bursts", DOUBLE, gpu.gemm_sustained_fraction),
    OPT("gpu.gemm_half_k", "elements", 0, 1e6, 160, "g_k0: inner size at which a GEMM runs at half rate", DOUBLE,
        gpu.gemm_half_k),
    OPT("gpu.gemm_tile_m", "elements", 1, 4096, 128, "rows of the preferred GEMM tile", U32, gpu.gemm_tile_m),
    OPT("gpu.gemm_tile_n", "elements", 1, 4096, 256, "columns of the preferred GEMM tile", U32, gpu.gemm_tile_n),
    OPT("gpu.gemm_wave_quantization_fraction", "fraction", 0, 1, 0.7, "wq: share of the last wave that is really lost",
        DOUBLE, gpu.gemm_wave_quantization_fraction),
    OPT("gpu.gemm_wgrad_fraction", "fraction", 0.01, 1, 0.95, "rate of weight gradients that accumulate in fp32",
        DOUBLE, gpu.gemm_wgrad_fraction),
    OPT("gpu.gemm_fp8_fraction", "fraction", 0.01, 1, 0.85, "efficiency of fp8 GEMMs relative to bf16 ones", DOUBLE,
        gpu.gemm_fp8_fraction),
    OPT("gpu.flash1_forward_fraction", "fraction", 0, 1, 0, "FlashAttention-1 forward, 0: does not run here", DOUBLE,
        gpu.flash_forward_fraction[TPP_ATTENTION_FLASH1]),
    OPT("gpu.flash1_backward_fraction", "fraction", 0, 1, 0, "FlashAttention-1 backward", DOUBLE,
        gpu.flash_backward_fraction[TPP_ATTENTION_FLASH1]),
    OPT("gpu.flash2_forward_fraction", "fraction", 0, 1, 0.38, "FlashAttention-2 forward, 0: does not run here", DOUBLE,
        gpu.flash_forward_fraction[TPP_ATTENTION_FLASH2]),
    OPT("gpu.flash2_backward_fraction", "fraction", 0, 1, 0.31, "FlashAttention-2 backward", DOUBLE,
        gpu.flash_backward_fraction[TPP_ATTENTION_FLASH2]),
    OPT("gpu.flash3_forward_fraction", "fraction", 0, 1, 0, "FlashAttention-3, cuDNN or newer forward, 0: none", DOUBLE,
        gpu.flash_forward_fraction[TPP_ATTENTION_FLASH3]),
    OPT("gpu.flash3_backward_fraction", "fraction", 0, 1, 0, "FlashAttention-3, cuDNN or newer backward", DOUBLE,
        gpu.flash_backward_fraction[TPP_ATTENTION_FLASH3]),
    OPT("gpu.flash_half_length_tokens", "tokens", 0, 1e6, 170, "s0: keys at which attention runs at half rate", DOUBLE,
        gpu.flash_half_length),
    OPT("gpu.flash_block_ratio", "ratio", 0, 1000, 1.3, "kappa: blocks an SM needs for half the rate", DOUBLE,
        gpu.flash_block_constant),
    OPT("gpu.flash1_small_head_ratio", "ratio", 0.01, 4, 1.15, "r_d: FlashAttention-1 with heads of 64 and less",
        DOUBLE, gpu.flash_small_head_fraction[TPP_ATTENTION_FLASH1]),
    OPT("gpu.flash2_small_head_ratio", "ratio", 0.01, 4, 0.90, "r_d: FlashAttention-2 with heads of 64 and less",
        DOUBLE, gpu.flash_small_head_fraction[TPP_ATTENTION_FLASH2]),
    OPT("gpu.flash3_small_head_ratio", "ratio", 0.01, 4, 0.77, "r_d: FlashAttention-3 with heads of 64 and less",
        DOUBLE, gpu.flash_small_head_fraction[TPP_ATTENTION_FLASH3]),
    OPT("gpu.flash3_wide_head_ratio", "ratio", 0.01, 4, 1, "FlashAttention-3 or cuDNN with keys wider than values (192/128)",
        DOUBLE, gpu.flash3_wide_head_fraction),
    OPT("gpu.gemm_error_fraction", "fraction", 0, 1, 0.25, "nine tenths of unseen GEMM time are predicted within this",
        DOUBLE, gpu.gemm_error_fraction),
    OPT("gpu.attention_error_fraction", "fraction", 0, 1, 0.35, "the same, attention kernels", DOUBLE,
        gpu.attention_error_fraction),
    OPT("gpu.memory_error_fraction", "fraction", 0, 1, 0.2, "the same, memory-bound kernels", DOUBLE,
        gpu.memory_error_fraction),
    OPT("gpu.overlap_slowdown_fraction", "fraction", 0, 1, 0.25, "sigma: compute lost while communication runs", DOUBLE,
        overlap_slowdown_fraction),
    NEED("node.num_gpus", "count", 1, 65536, "GPUs of one NVLink or PCIe domain", U32, node.num_gpus),
    OPT("node.has_nvlink", "boolean", 0, 1, 1, "GPUs are joined by NVLink or xGMI, not by PCIe", BOOL, node.has_nvlink),
    NEED("node.all_reduce_bus_bytes_per_second", "bytes_per_second", 1e6, 1e15, "bus bandwidth, large all-reduce",
         DOUBLE, node.bus_bytes_per_second[TPP_ALL_REDUCE]),
    NEED("node.all_gather_bus_bytes_per_second", "bytes_per_second", 1e6, 1e15, "bus bandwidth, large all-gather",
         DOUBLE, node.bus_bytes_per_second[TPP_ALL_GATHER]),
    NEED("node.reduce_scatter_bus_bytes_per_second", "bytes_per_second", 1e6, 1e15,
         "bus bandwidth, large reduce-scatter", DOUBLE, node.bus_bytes_per_second[TPP_REDUCE_SCATTER]),
    NEED("node.all_to_all_bus_bytes_per_second", "bytes_per_second", 1e6, 1e15, "bus bandwidth, large all-to-all",
         DOUBLE, node.bus_bytes_per_second[TPP_ALL_TO_ALL]),
    NEED("node.send_recv_bus_bytes_per_second", "bytes_per_second", 1e6, 1e15, "large message between one pair", DOUBLE,
         node.bus_bytes_per_second[TPP_SEND_RECV]),
    OPT("node.half_rate_bytes", "bytes", 0, 1e12, 1.6e7, "message size that reaches half of the bus bandwidth", DOUBLE,
        node.half_rate_bytes),
    OPT("node.base_latency_seconds", "seconds", 0, 0.1, 8.4e-6, "fixed part of a collective", DOUBLE,
        node.base_latency_seconds),
    OPT("node.hop_latency_seconds", "seconds", 0, 0.1, 3.4e-6, "one step of a ring inside the node", DOUBLE,
        node.hop_latency_seconds),
    OPT("node.collective_error_fraction", "fraction", 0, 1, 0.3,
        "nine tenths of unseen collective time inside a node are predicted within this", DOUBLE,
        node.collective_error_fraction),
    OPT("node.host_memory_bytes", "bytes", 0, 1e15, 1e12, "host memory of one node", U64, node.host_memory_bytes),
    OPT("node.host_link_bytes_per_second", "bytes_per_second", 1e6, 1e14, 2.6e10, "GPU to host memory, one direction",
        DOUBLE, node.host_link_bytes_per_second),
    NEED("network.num_nics", "count", 1, 65536, "network ports of one node", U32, network.num_nics),
    NEED("network.nic_bytes_per_second", "bytes_per_second", 1e6, 1e14, "one port, one direction, nominal", DOUBLE,
         network.nic_bytes_per_second),
    OPT("network.ring_efficiency_fraction", "fraction", 0.01, 1, 0.85, "share of the nominal rate that rings reach",
        DOUBLE, network.ring_efficiency_fraction),
    OPT("network.send_recv_efficiency_fraction", "fraction", 0.01, 1, 0.85,
        "share of the nominal rate that send/receive and all-to-all reach", DOUBLE,
        network.send_recv_efficiency_fraction),
    OPT("network.hop_latency_seconds", "seconds", 0, 0.1, 1.2e-5, "one step of a ring between nodes", DOUBLE,
        network.hop_latency_seconds),
    OPT("network.collective_error_fraction", "fraction", 0, 1, 0.4,
        "nine tenths of unseen collective time between nodes are predicted within this", DOUBLE,
        network.collective_error_fraction),
    OPT("network.oversubscription_ratio", "ratio", 1, 1000, 1, "leaf downlinks to uplinks", DOUBLE,
        network.oversubscription),
    OPT("network.nodes_per_leaf", "count", 0, 1e6, 0, "nodes below one leaf group, 0: all of them", U32,
        network.nodes_per_leaf),
    OPT("network.nccl_communicator_bytes", "bytes", 0, 1e11, 6e8, "device memory of one communicator", DOUBLE,
        network.nccl_communicator_bytes),
    OPT("network.nccl_all_to_all_bytes", "bytes", 0, 1e11, 2.5e9, "device memory more once all pairs are open", DOUBLE,
        network.nccl_all_to_all_bytes),
};
#define FIELD_COUNT (sizeof fields / sizeof fields[0])
_Static_assert(FIELD_COUNT <= TPP_HARDWARE_MAX_VALUES, "struct tpp_hardware has a place for each origin");

const struct tpp_hardware_field *tpp_hardware_fields(uint32_t *count)
{
    if (count) {
        *count = FIELD_COUNT;
    }
    return fields;
}

bool tpp_hardware_field_index(const char *key, uint32_t *index)
{
    for (uint32_t i = 0; i < FIELD_COUNT; i++) {
        if (strcmp(fields[i].key, key) == 0) {
            *index = i;
            return true;
        }
    }
    return false;
}

double tpp_hardware_get(const struct tpp_hardware *hardware, uint32_t index)
{
    const char *member = (const char *)hardware + fields[index].offset;
    uint32_t small;
    uint64_t large;
    bool flag;
    double number;
    switch (fields[index].kind) {
    case TPP_HARDWARE_U32:
        memcpy(&small, member, sizeof small);
        return small;
    case TPP_HARDWARE_U64:
        memcpy(&large, member, sizeof large);
        return (double)large;
    case TPP_HARDWARE_BOOL:
        memcpy(&flag, member, sizeof flag);
        return flag ? 1 : 0;
    case TPP_HARDWARE_DOUBLE:
        break;
    }
    memcpy(&number, member, sizeof number);
    return number;
}

void tpp_hardware_store(struct tpp_hardware *hardware, uint32_t index, double value)
{
    char *member = (char *)hardware + fields[index].offset;
    const uint32_t small = fields[index].kind == TPP_HARDWARE_U32 ? (uint32_t)value : 0;
    const uint64_t large = fields[index].kind == TPP_HARDWARE_U64 ? (uint64_t)value : 0;
    const bool flag = value != 0;
    switch (fields[index].kind) {
    case TPP_HARDWARE_U32:
        memcpy(member, &small, sizeof small);
        return;
    case TPP_HARDWARE_U64:
        memcpy(member, &large, sizeof large);
        return;
    case TPP_HARDWARE_BOOL:
        memcpy(member, &flag, sizeof flag);
        return;
    case TPP_HARDWARE_DOUBLE:
        memcpy(member, &value, sizeof value);
        return;
    }
}

bool tpp_hardware_field_is_whole(const struct tpp_hardware_field *field)
{
    return field->kind == TPP_HARDWARE_U32 || field->kind == TPP_HARDWARE_U64;
}

enum tpp_code tpp_hardware_accept(uint32_t index, double value, const char *where, struct tpp_error *err)
{
    const struct tpp_hardware_field *field = &fields[index];
    const char *name = tpp_hardware_field_name(field);
    char hint[128];
    snprintf(hint, sizeof hint, "give %s from %.15g to %.15g",
             tpp_hardware_field_is_whole(field) ? "a whole number" : "a number", field->min, field->max);
    if (!isfinite(value)) {
        return tpp_fail(err, TPP_E_RANGE, where, hint, "\"%s\" must be a finite number", name);
    }
    if (value < field->min || value > field->max) {
        return tpp_fail(err, TPP_E_RANGE, where, hint, "\"%s\" must be from %.15g to %.15g, found %.15g", name,
                        field->min, field->max, value);
    }
    if (field->kind != TPP_HARDWARE_DOUBLE && value != floor(value)) {
        return tpp_fail(err, TPP_E_RANGE, where, hint, "\"%s\" must be a whole number, found %.15g", name, value);
    }
    return TPP_OK;
}

static enum tpp_code unknown_key(const char *key, struct tpp_error *err)
{
    const char *keys[FIELD_COUNT + 1] = {NULL};
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        keys[i] = fields[i].key;
    }
    char hint[128];
    const char *nearest = tpp_text_nearest(key, keys);
    if (nearest) {
        snprintf(hint, sizeof hint, "did you mean \"%s\"?", nearest);
    } else {
        snprintf(hint, sizeof hint, "the keys are those of hwprofiles/schema.json, as \"gpu.memory_bytes\"");
    }
    return tpp_fail(err, TPP_E_USAGE, key, hint, "unknown hardware value \"%.100s\"", key);
}

enum tpp_code tpp_hardware_set(struct tpp_hardware *hardware, const char *key, double value, const char *source,
                               struct tpp_error *err)
{
    uint32_t index;
    if (!tpp_hardware_field_index(key, &index)) {
        return unknown_key(key, err);
    }
    const enum tpp_code code = tpp_hardware_accept(index, value, key, err);
    if (code) {
        return code;
    }
    tpp_hardware_store(hardware, index, value);
    hardware->origins[index].provenance = TPP_PROVENANCE_USER;
    snprintf(hardware->origins[index].source, sizeof hardware->origins[index].source, "%s",
             source ? source : "command line");
    return TPP_OK;
}

const char *tpp_hardware_field_name(const struct tpp_hardware_field *field)
{
    return strchr(field->key, '.') + 1;
}

size_t tpp_hardware_field_group_length(const struct tpp_hardware_field *field)
{
    return (size_t)(strchr(field->key, '.') - field->key);
}

bool tpp_hardware_field_in_group(const struct tpp_hardware_field *field, const char *group)
{
    const size_t length = tpp_hardware_field_group_length(field);
    return strncmp(field->key, group, length) == 0 && group[length] == '\0';
}
