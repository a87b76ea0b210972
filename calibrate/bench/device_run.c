/* Where the samples come from: the "run" line. */
#include "calibrate/bench/device.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* The variables that change what is measured. */
static void add_environment(struct tpp_bench_samples *samples)
{
    const char *found[64];
    size_t count = 0;
    for (char **at = environ; *at && count < 64; at++) {
        static const char *const prefixes[] = {"NCCL_", "CUDA_", "CUBLAS_", "CUBLASLT_", "CUDNN_", "NVIDIA_TF32"};
        for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
            if (strncmp(*at, prefixes[i], strlen(prefixes[i])) == 0) {
                found[count++] = *at;
                break;
            }
        }
    }
    tpp_bench_samples_texts(samples, "environment", found, count);
}

static void add_topology(struct tpp_bench_samples *samples, const struct tpp_device *device)
{
    char texts[64][48];
    const char *paths[64];
    size_t count = 0;
    const uint32_t num_devices = tpp_nvml_num_devices(device->nvml);
    for (uint32_t other = 1; other < num_devices && count < 64; other++) {
        const char *path = tpp_nvml_path(device->nvml, 0, other);
        snprintf(texts[count], sizeof texts[count], "0-%u: %s", other, path ? path : "unknown");
        paths[count] = texts[count];
        count++;
    }
    tpp_bench_samples_begin_object(samples, "topology");
    tpp_bench_samples_count(samples, "gpus_of_host", num_devices ? num_devices : (uint64_t)device->num_devices);
    tpp_bench_samples_count(samples, "nvlinks", tpp_nvml_num_links(device->nvml));
    tpp_bench_samples_texts(samples, "pcie", paths, count);
    tpp_bench_samples_end_object(samples);
}

static void add_versions(struct tpp_bench_samples *samples, const struct tpp_device *device,
                         const char *const *libraries)
{
    char text[96];
    tpp_nvml_driver_version(device->nvml, text, sizeof text);
    tpp_bench_samples_text(samples, "driver", text[0] ? text : NULL);
    snprintf(text, sizeof text, "%d.%d", device->driver_version / 1000, device->driver_version % 1000 / 10);
    tpp_bench_samples_text(samples, "driver_cuda", text);
    snprintf(text, sizeof text, "%d.%d", device->runtime_version / 1000, device->runtime_version % 1000 / 10);
    tpp_bench_samples_text(samples, "runtime", text);
    tpp_bench_samples_begin_object(samples, "libraries");
    for (; libraries && libraries[0]; libraries += 2) {
        tpp_bench_samples_text(samples, libraries[0], libraries[1]);
    }
    tpp_bench_samples_end_object(samples);
}

static void add_clocks(struct tpp_bench_samples *samples, const struct tpp_device *device)
{
    const struct tpp_nvml_state state = tpp_nvml_read(device->nvml);
    tpp_bench_samples_begin_object(samples, "clocks");
    if (device->nvml) {
        tpp_bench_samples_number(samples, "sm_hz", state.sm_clock_hz);
        tpp_bench_samples_number(samples, "memory_hz", state.memory_clock_hz);
        tpp_bench_samples_number(samples, "max_sm_hz", tpp_nvml_max_sm_clock_hz(device->nvml));
        tpp_bench_samples_number(samples, "power_limit_watts", state.power_limit_watts);
    }
    tpp_bench_samples_end_object(samples);
}

void tpp_device_add_state(struct tpp_bench_run *run, const struct tpp_device *device)
{
    if (!device->nvml) {
        return;
    }
    const struct tpp_nvml_state state = tpp_nvml_read(device->nvml);
    tpp_bench_samples_number(&run->samples, "sm_clock_hz", state.sm_clock_hz);
    tpp_bench_samples_number(&run->samples, "memory_clock_hz", state.memory_clock_hz);
    tpp_bench_samples_number(&run->samples, "power_watts", state.power_watts);
    tpp_bench_samples_number(&run->samples, "temperature_celsius", state.temperature_celsius);
    tpp_bench_samples_count(&run->samples, "throttle_reasons", state.throttle_reasons);
}

enum tpp_code tpp_device_write_run(struct tpp_bench_run *run, const struct tpp_device *device,
                                   const char *const *libraries, struct tpp_error *err)
{
    struct tpp_bench_samples *samples = &run->samples;
    char text[256] = "", capability[32];
    const time_t now = time(NULL);
    struct tm utc;
    tpp_bench_samples_begin(samples, "run");
    tpp_bench_samples_count(samples, "schema_version", 1);
    tpp_bench_samples_text(samples, "program", run->program->name);
    tpp_bench_samples_text(samples, "version", TPP_VERSION);
    if (gmtime_r(&now, &utc) && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc) > 0) {
        tpp_bench_samples_text(samples, "date", text);
    }
    gethostname(text, sizeof text - 1);
    if (run->hosts) {
        tpp_bench_samples_texts(samples, "hosts", run->hosts, run->num_hosts);
    } else {
        tpp_bench_samples_texts(samples, "hosts", (const char *const[]){text}, 1);
    }
    tpp_bench_samples_text(samples, "device", device->name);
    snprintf(capability, sizeof capability, "%d.%d", device->major, device->minor);
    tpp_bench_samples_text(samples, "compute_capability", capability);
    tpp_bench_samples_count(samples, "num_sms", device->num_sms);
    tpp_bench_samples_count(samples, "memory_bytes", device->memory_bytes);
    tpp_bench_samples_count(samples, "l2_bytes", device->l2_bytes);
    add_versions(samples, device, libraries);
    add_clocks(samples, device);
    add_topology(samples, device);
    tpp_bench_samples_count(samples, "ranks", run->world.size);
    tpp_bench_samples_count(samples, "ranks_per_node", run->world.ranks_per_node);
    tpp_bench_samples_text(samples, "launcher", tpp_bench_launcher_name(run->world.launcher));
    tpp_bench_samples_texts(samples, "command_line", run->argv, (size_t)run->argc);
    add_environment(samples);
    return tpp_bench_samples_end(samples, err);
}
