/* nvml.h - clocks, power and topology from the driver's management library, which is loaded at run time: some machines
 * have a GPU and not this library, and then these facts are left out of the samples. */
#ifndef TPP_CALIBRATE_BENCH_NVML_H
#define TPP_CALIBRATE_BENCH_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tpp_nvml; /* opaque */

struct tpp_nvml_state {
    double sm_clock_hz, memory_clock_hz;
    double power_watts, power_limit_watts;
    double temperature_celsius;
    uint64_t throttle_reasons; /* bits of nvmlClocksThrottleReasons: 4 is the power cap */
    uint64_t used_bytes;       /* of the device's memory, by all programs */
};

/* NULL when the library is not there, or does not know the device. */
struct tpp_nvml *tpp_nvml_open(const char *pci_bus_id);
void tpp_nvml_close(struct tpp_nvml *nvml); /* NULL is fine */
/* What cannot be read is 0. */
struct tpp_nvml_state tpp_nvml_read(const struct tpp_nvml *nvml);
double tpp_nvml_max_sm_clock_hz(const struct tpp_nvml *nvml);
/* "" when unknown. */
void tpp_nvml_driver_version(const struct tpp_nvml *nvml, char *version, size_t size);
uint32_t tpp_nvml_num_links(const struct tpp_nvml *nvml); /* NVLinks that are up */
uint32_t tpp_nvml_num_devices(const struct tpp_nvml *nvml);
/* How devices `a` and `b` of this machine are joined, without NVLink: "same-board", "switch", "switches",
 * "host-bridge", "node", "system"; NULL when unknown. */
const char *tpp_nvml_path(const struct tpp_nvml *nvml, uint32_t a, uint32_t b);

#endif
