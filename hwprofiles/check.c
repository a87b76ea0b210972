/* What the values of one cluster must satisfy together, and what follows from them. */
#include "hwprofiles/internal.h"

#include <stdio.h>
#include <string.h>

/* "gpu.memory_bytes", or "mine.json#/gpu/memory_bytes" for a file. */
static const char *place(char *buffer, size_t size, const char *file, const char *key)
{
    if (!file) {
        snprintf(buffer, size, "%s", key);
        return buffer;
    }
    snprintf(buffer, size, "%s#/%s", file, key);
    char *dot = strrchr(buffer, '#');
    dot = dot ? strchr(dot, '.') : NULL;
    if (dot) {
        *dot = '/';
    }
    return buffer;
}

static enum tpp_code check_ranges(const struct tpp_hardware *hardware, const char *file, struct tpp_error *err)
{
    uint32_t count;
    const struct tpp_hardware_field *fields = tpp_hardware_fields(&count);
    for (uint32_t i = 0; i < count; i++) {
        char where[256];
        const enum tpp_code code =
            tpp_hardware_accept(i, tpp_hardware_get(hardware, i), place(where, sizeof where, file, fields[i].key), err);
        if (code) {
            return code;
        }
    }
    return TPP_OK;
}

/* A flash kernel runs in both directions or in none. */
static enum tpp_code check_flash(const struct tpp_gpu *gpu, const char *file, struct tpp_error *err)
{
    for (int i = 0; i < TPP_FLASH_KERNEL_COUNT; i++) {
        if ((gpu->flash_forward_fraction[i] > 0) == (gpu->flash_backward_fraction[i] > 0)) {
            continue;
        }
        const bool lacks_backward = gpu->flash_forward_fraction[i] > 0;
        char key[64], where[256];
        snprintf(key, sizeof key, "gpu.%s_%s_fraction", tpp_attention_kernel_name((enum tpp_attention_kernel)i),
                 lacks_backward ? "backward" : "forward");
        return tpp_fail(err, TPP_E_RANGE, place(where, sizeof where, file, key),
                        "give both directions, or 0 for both when the kernel does not run on this GPU",
                        "\"%s\" is 0 although the other direction is not", key + 4);
    }
    return TPP_OK;
}

enum tpp_code tpp_hardware_check_file(const struct tpp_hardware *hardware, const char *file, struct tpp_error *err)
{
    char where[256];
    if (hardware->name[0] == '\0') {
        return tpp_fail(err, TPP_E_MISSING, place(where, sizeof where, file, "name"), "give the cluster a name",
                        "\"name\" is empty");
    }
    enum tpp_code code = check_ranges(hardware, file, err);
    if (code) {
        return code;
    }
    const struct tpp_gpu *gpu = &hardware->gpu;
    if (gpu->context_bytes >= gpu->memory_bytes) {
        return tpp_fail(err, TPP_E_RANGE, place(where, sizeof where, file, "gpu.context_bytes"),
                        "the context takes about 500000000 bytes",
                        "\"context_bytes\" (%llu) leaves nothing of \"memory_bytes\" (%llu)",
                        (unsigned long long)gpu->context_bytes, (unsigned long long)gpu->memory_bytes);
    }
    if (hardware->network.oversubscription > 1 && hardware->network.nodes_per_leaf == 0) {
        return tpp_fail(err, TPP_E_RANGE, place(where, sizeof where, file, "network.nodes_per_leaf"),
                        "give the number of nodes below one leaf group, or an oversubscription_ratio of 1",
                        "an oversubscribed network needs \"nodes_per_leaf\", found 0");
    }
    return check_flash(gpu, file, err);
}

enum tpp_code tpp_hardware_check(const struct tpp_hardware *hardware, struct tpp_error *err)
{
    return tpp_hardware_check_file(hardware, NULL, err);
}

double tpp_hardware_nic_bytes_per_second_per_gpu(const struct tpp_hardware *hardware)
{
    const struct tpp_network *network = &hardware->network;
    return (double)network->num_nics * network->nic_bytes_per_second / (double)hardware->node.num_gpus;
}
