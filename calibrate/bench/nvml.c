#include "calibrate/bench/nvml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of the library's interface, which are fixed: nvml.h of the driver. */
enum { CLOCK_SM = 1, CLOCK_MEMORY = 2, MAX_LINKS = 18 };

struct memory_info {
    unsigned long long total, free, used;
};

struct tpp_nvml {
    void *library, *device;
    int (*shutdown)(void);
    int (*clock)(void *device, int kind, unsigned *mhz);
    int (*max_clock)(void *device, int kind, unsigned *mhz);
    int (*power)(void *device, unsigned *milliwatts);
    int (*power_limit)(void *device, unsigned *milliwatts);
    int (*temperature)(void *device, int sensor, unsigned *celsius);
    int (*throttle)(void *device, unsigned long long *reasons);
    int (*memory)(void *device, struct memory_info *info);
    int (*link_state)(void *device, unsigned link, unsigned *is_active);
    int (*driver)(char *version, unsigned size);
    int (*count)(unsigned *count);
    int (*by_index)(unsigned index, void **device);
    int (*path)(void *a, void *b, int *level);
};

/* ISO C has no cast from an object to a function pointer; POSIX promises that the bits are the same. */
static void find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
}

static void find_all(struct tpp_nvml *nvml)
{
    find(nvml->library, "nvmlShutdown", &nvml->shutdown);
    find(nvml->library, "nvmlDeviceGetClockInfo", &nvml->clock);
    find(nvml->library, "nvmlDeviceGetMaxClockInfo", &nvml->max_clock);
    find(nvml->library, "nvmlDeviceGetPowerUsage", &nvml->power);
    find(nvml->library, "nvmlDeviceGetEnforcedPowerLimit", &nvml->power_limit);
    find(nvml->library, "nvmlDeviceGetTemperature", &nvml->temperature);
    find(nvml->library, "nvmlDeviceGetCurrentClocksThrottleReasons", &nvml->throttle);
    find(nvml->library, "nvmlDeviceGetMemoryInfo", &nvml->memory);
    find(nvml->library, "nvmlDeviceGetNvLinkState", &nvml->link_state);
    find(nvml->library, "nvmlSystemGetDriverVersion", &nvml->driver);
    find(nvml->library, "nvmlDeviceGetCount_v2", &nvml->count);
    find(nvml->library, "nvmlDeviceGetHandleByIndex_v2", &nvml->by_index);
    find(nvml->library, "nvmlDeviceGetTopologyCommonAncestor", &nvml->path);
}

struct tpp_nvml *tpp_nvml_open(const char *pci_bus_id)
{
    int (*initialize)(void) = NULL;
    int (*by_pci)(const char *pci_bus_id, void **device) = NULL;
    struct tpp_nvml *nvml = calloc(1, sizeof *nvml);
    if (!nvml) {
        return NULL;
    }
    nvml->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (nvml->library) {
        find(nvml->library, "nvmlInit_v2", &initialize);
        find(nvml->library, "nvmlDeviceGetHandleByPciBusId_v2", &by_pci);
        if (initialize && by_pci && initialize() == 0) {
            find_all(nvml);
            if (by_pci(pci_bus_id, &nvml->device) == 0) {
                return nvml;
            }
        }
    }
    tpp_nvml_close(nvml);
    return NULL;
}

void tpp_nvml_close(struct tpp_nvml *nvml)
{
    if (!nvml) {
        return;
    }
    if (nvml->shutdown) {
        nvml->shutdown();
    }
    if (nvml->library) {
        dlclose(nvml->library);
    }
    free(nvml);
}

struct tpp_nvml_state tpp_nvml_read(const struct tpp_nvml *nvml)
{
    struct tpp_nvml_state state = {0};
    unsigned value = 0;
    unsigned long long reasons = 0;
    struct memory_info memory = {0};
    if (!nvml) {
        return state;
    }
    if (nvml->clock && nvml->clock(nvml->device, CLOCK_SM, &value) == 0) {
        state.sm_clock_hz = 1e6 * value;
    }
    if (nvml->clock && nvml->clock(nvml->device, CLOCK_MEMORY, &value) == 0) {
        state.memory_clock_hz = 1e6 * value;
    }
    if (nvml->power && nvml->power(nvml->device, &value) == 0) {
        state.power_watts = 1e-3 * value;
    }
    if (nvml->power_limit && nvml->power_limit(nvml->device, &value) == 0) {
        state.power_limit_watts = 1e-3 * value;
    }
    if (nvml->temperature && nvml->temperature(nvml->device, 0, &value) == 0) {
        state.temperature_celsius = value;
    }
    if (nvml->throttle && nvml->throttle(nvml->device, &reasons) == 0) {
        state.throttle_reasons = reasons;
    }
    if (nvml->memory && nvml->memory(nvml->device, &memory) == 0) {
        state.used_bytes = memory.used;
    }
    return state;
}

double tpp_nvml_max_sm_clock_hz(const struct tpp_nvml *nvml)
{
    unsigned mhz = 0;
    return nvml && nvml->max_clock && nvml->max_clock(nvml->device, CLOCK_SM, &mhz) == 0 ? 1e6 * mhz : 0;
}

void tpp_nvml_driver_version(const struct tpp_nvml *nvml, char *version, size_t size)
{
    version[0] = '\0';
    if (nvml && nvml->driver && nvml->driver(version, (unsigned)size) != 0) {
        version[0] = '\0';
    }
}

uint32_t tpp_nvml_num_links(const struct tpp_nvml *nvml)
{
    uint32_t count = 0;
    for (unsigned link = 0; nvml && nvml->link_state && link < MAX_LINKS; link++) {
        unsigned is_active = 0;
        count += nvml->link_state(nvml->device, link, &is_active) == 0 && is_active;
    }
    return count;
}

uint32_t tpp_nvml_num_devices(const struct tpp_nvml *nvml)
{
    unsigned count = 0;
    return nvml && nvml->count && nvml->count(&count) == 0 ? count : 0;
}

const char *tpp_nvml_path(const struct tpp_nvml *nvml, uint32_t a, uint32_t b)
{
    static const struct {
        int level;
        const char *name;
    } paths[] = {{0, "same-board"},   {10, "switch"}, {20, "switches"},
                 {30, "host-bridge"}, {40, "node"},   {50, "system"}};
    void *first = NULL, *second = NULL;
    int level = -1;
    if (!nvml || !nvml->by_index || !nvml->path || nvml->by_index(a, &first) != 0 || nvml->by_index(b, &second) != 0 ||
        nvml->path(first, second, &level) != 0) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        if (paths[i].level == level) {
            return paths[i].name;
        }
    }
    return NULL;
}
