#include "costmodel/runs/run_hardware.h"

#include "costmodel/runs/run_facts.h"
#include "hwprofiles/profiles.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BITS_PER_BYTE 8
#define GIGABIT 1e9

/* The first row whose words are all in the GPU's name. An A800 is an A100
 * whose NVLink runs at 200 of 300 GB/s per direction (data sheets). */
static const struct {
    const char *words[2];
    const char *profile; /* "": known, but nobody has written a profile for it */
    double bus_fraction;
} gpu_profiles[] = {
    {{"GH200", "96"}, "gh200-quad", 1},
    {{"GH200", ""}, "", 1},
    {{"GB200", ""}, "gb200-nvl72", 1},
    {{"GB300", ""}, "gb300-nvl72", 1},
    {{"B300", ""}, "dgx-b300", 1},
    {{"B200", "power limited"}, "b200-limited", 1},
    {{"B200", ""}, "dgx-b200", 1},
    {{"H200", ""}, "dgx-h200", 1},
    {{"H100", "HBM2e"}, "h100-500w-hbm2e", 1},
    {{"H100", "96GB"}, "h100-500w-hbm2e", 1},
    {{"H100", "PCIe"}, "h100-pcie", 1},
    {{"H100", "NVL"}, "", 1},
    {{"H100", ""}, "dgx-h100", 1},
    {{"H800", ""}, "hgx-h800", 1},
    {{"A800", ""}, "dgx-a100-80g", 200.0 / 300.0},
    {{"A100", "40GB"}, "dgx-a100-40g", 1},
    {{"A100", "PCIe"}, "a100-80g-pcie", 1},
    {{"A100", ""}, "dgx-a100-80g", 1},
    {{"V100", "32GB"}, "dgx1-v100-32g", 1},
    {{"V100", ""}, "dgx1-v100-16g", 1},
    {{"L40S", ""}, "l40s-pcie", 1},
    {{"4090", ""}, "rtx4090-pcie", 1},
    {{"A10G", ""}, "a10g-pcie", 1},
    {{"A10-", ""}, "a10-pcie", 1},
    {{"MI250X", ""}, "", 1},
    {{"MI250", ""}, "mi250", 1},
    {{"MI300X", ""}, "mi300x", 1},
    {{"MI325X", ""}, "mi325x", 1},
};

void tpp_run_gpu_name(const struct tpp_run_facts *facts, char *name, size_t size)
{
    if (tpp_run_mentions(facts->gpu, "H100") && tpp_run_mentions(facts->gpu, "not stated") &&
        tpp_run_mentions(facts->source, "torchao"))
        snprintf(name, size, "H100-SXM5-96GB-HBM2e");
    else
        snprintf(name, size, "%.63s%s", facts->gpu, tpp_run_mentions(facts->notes, "power limited") ? ", power limited" : "");
}

static bool choose_profile(const char *gpu, struct tpp_run_cluster *cluster)
{
    for (size_t i = 0; i < sizeof gpu_profiles / sizeof gpu_profiles[0]; i++) {
        if (!tpp_run_mentions(gpu, gpu_profiles[i].words[0]) || !tpp_run_mentions(gpu, gpu_profiles[i].words[1]))
            continue;
        snprintf(cluster->profile, sizeof cluster->profile, "%s", gpu_profiles[i].profile);
        cluster->bus_fraction = gpu_profiles[i].bus_fraction;
        return cluster->profile[0] != '\0';
    }
    return false;
}

/* Reads the digits at *text and moves past them; numbers that no cluster has come out as a large one. */
static unsigned read_digits(const char **text)
{
    unsigned value = 0;
    for (; isdigit((unsigned char)**text); (*text)++)
        if (value < 1000000)
            value = 10 * value + (unsigned)(**text - '0');
    return value;
}

/* "8x HDR200", "4x100 Gb/s", "8x ConnectX-7 400 Gb/s": a count, an x, and the first number from 10 Gb/s on. */
static bool read_count_times_rate(const char *text, unsigned *count, unsigned *gigabits)
{
    bool inside_word = false;
    while (*text != '\0') {
        if (!isdigit((unsigned char)*text) || inside_word) {
            inside_word = isalnum((unsigned char)*text) != 0;
            text++;
            continue;
        }
        *count = read_digits(&text);
        if (*text == 'x' && *count >= 1 && *count <= 64)
            break;
        inside_word = true;
    }
    while (*text != '\0') {
        if (!isdigit((unsigned char)*text)) {
            text++;
            continue;
        }
        *gigabits = read_digits(&text);
        if (*gigabits >= 10 && *gigabits <= 3200)
            return true;
    }
    return false;
}

/* "1600 Gbps RoCE per node", "400 Gb/s RoCE per GPU": a number in front of Gb. */
static bool read_rate(const char *text, unsigned *gigabits)
{
    while (*text != '\0') {
        if (!isdigit((unsigned char)*text)) {
            text++;
            continue;
        }
        *gigabits = read_digits(&text);
        const char *unit = text;
        while (*unit == ' ')
            unit++;
        if (strncmp(unit, "Gb", 2) == 0 && *gigabits >= 10 && *gigabits <= 100000)
            return true;
    }
    return false;
}

static void read_network(const char *network, uint64_t gpus_per_node, struct tpp_run_cluster *cluster)
{
    unsigned count = 0, gigabits = 0;
    if (read_count_times_rate(network, &count, &gigabits)) {
        cluster->num_nics = count;
        cluster->nic_bytes_per_second = gigabits * GIGABIT / BITS_PER_BYTE;
        return;
    }
    const bool per_gpu = tpp_run_mentions(network, "per GPU");
    if (gpus_per_node == 0 || gpus_per_node > 64 || !read_rate(network, &gigabits) ||
        (!per_gpu && !tpp_run_mentions(network, "per node")) || tpp_run_mentions(network, "not stated"))
        return; /* a rate whose ports are not counted says too little: the profile's network stands */
    cluster->num_nics = (uint32_t)gpus_per_node;
    cluster->nic_bytes_per_second = gigabits * GIGABIT / BITS_PER_BYTE / (per_gpu ? 1.0 : (double)gpus_per_node);
}

bool tpp_run_cluster_read(const char *gpu, const char *network, uint64_t num_gpus, uint64_t gpus_per_node,
                          struct tpp_run_cluster *cluster)
{
    memset(cluster, 0, sizeof *cluster);
    if (!choose_profile(gpu, cluster))
        return false;
    if (tpp_run_mentions(gpu, "NVL72")) /* the profile's domain is the rack; the rows count the four GPUs of a tray */
        return true;
    /* A run inside one node says nothing about the node's size, unless it is larger than the usual eight. */
    if (gpus_per_node <= 64 && (num_gpus > gpus_per_node || gpus_per_node > 8))
        cluster->gpus_per_node = (uint32_t)gpus_per_node;
    if (num_gpus > gpus_per_node)
        read_network(network, gpus_per_node, cluster);
    return true;
}

void tpp_run_cluster_apply(const struct tpp_run_cluster *cluster, struct tpp_hardware *hardware)
{
    struct tpp_node *node = &hardware->node;
    struct tpp_network *network = &hardware->network;
    if (cluster->gpus_per_node != 0 && cluster->gpus_per_node != node->num_gpus) {
        const double share = (double)cluster->gpus_per_node / node->num_gpus; /* keeps the NIC rate a GPU gets */
        network->num_nics = (uint32_t)(network->num_nics * share + 0.5);
        if (network->num_nics == 0)
            network->num_nics = 1;
        node->num_gpus = cluster->gpus_per_node;
    }
    if (cluster->num_nics != 0)
        network->num_nics = cluster->num_nics;
    if (cluster->nic_bytes_per_second > 0)
        network->nic_bytes_per_second = cluster->nic_bytes_per_second;
    for (int i = 0; i < TPP_COLLECTIVE_COUNT; i++)
        node->bus_bytes_per_second[i] *= cluster->bus_fraction;
}

static struct tpp_run_profile *add_profile(struct tpp_run_profiles *profiles)
{
    const size_t size = (profiles->count + 1) * sizeof(struct tpp_run_profile *);
    struct tpp_run_profile **items = realloc(profiles->items, size);
    if (items == NULL)
        return NULL;
    profiles->items = items;
    items[profiles->count] = malloc(sizeof(struct tpp_run_profile));
    return items[profiles->count];
}

const struct tpp_hardware *tpp_run_profiles_find(struct tpp_run_profiles *profiles, const char *name,
                                                 struct tpp_error *err)
{
    for (size_t i = 0; i < profiles->count; i++)
        if (strcmp(profiles->items[i]->name, name) == 0)
            return &profiles->items[i]->hardware;
    struct tpp_run_profile *profile = add_profile(profiles);
    if (profile == NULL) {
        tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
        return NULL;
    }
    if (tpp_hardware_find(name, &profile->hardware, err) != TPP_OK) {
        free(profile);
        return NULL;
    }
    snprintf(profile->name, sizeof profile->name, "%s", name);
    profiles->count++;
    return &profile->hardware;
}

void tpp_run_profiles_release(struct tpp_run_profiles *profiles)
{
    for (size_t i = 0; i < profiles->count; i++)
        free(profiles->items[i]);
    free(profiles->items);
    profiles->items = NULL;
    profiles->count = 0;
}
