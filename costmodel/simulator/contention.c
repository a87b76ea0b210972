#include "costmodel/simulator/contention.h"

#include <assert.h>
#include <math.h>

/* Bounds of the levels, and the share of a bucket's time that latency may take (9.4). */
static const double moderate_load = 0.5, high_load = 0.8, saturated_load = 1;
static const double max_latency_share = 0.1;

const char *tpp_contention_level_name(enum tpp_contention_level level)
{
    static const char *const names[] = {"low", "moderate", "high", "saturated"};
    return names[level];
}

double tpp_contention_load(double bytes, double bytes_per_second, double window_seconds)
{
    assert(bytes_per_second > 0 && window_seconds > 0);
    return bytes / (bytes_per_second * window_seconds);
}

enum tpp_contention_level tpp_contention_level_of(double load_fraction)
{
    return load_fraction < moderate_load     ? TPP_CONTENTION_LOW
           : load_fraction < high_load       ? TPP_CONTENTION_MODERATE
           : load_fraction <= saturated_load ? TPP_CONTENTION_HIGH
                                             : TPP_CONTENTION_SATURATED;
}

double tpp_contention_exposed_seconds(double load_fraction, double window_seconds)
{
    return fmax(0, load_fraction - 1) * window_seconds;
}

double tpp_burst_seconds(const struct tpp_burst *burst)
{
    const double n = burst->num_ranks;
    return burst->latency_seconds +
           burst->bucket_elements * burst->element_bytes * (n - 1) / n / burst->bytes_per_second;
}

double tpp_burst_slack_seconds(const struct tpp_burst *burst)
{
    return burst->prefetch_layers * burst->layer_seconds - burst->gather_seconds;
}

double tpp_burst_stall_seconds(const struct tpp_burst *burst)
{
    return fmax(0, tpp_burst_seconds(burst) - tpp_burst_slack_seconds(burst));
}

double tpp_burst_fair_delay_seconds(const struct tpp_burst *burst, double service_seconds)
{
    return fmin(service_seconds, tpp_burst_seconds(burst));
}

double tpp_burst_period_layers(const struct tpp_burst *burst)
{
    return burst->bucket_elements / burst->layer_elements;
}

double tpp_burst_rounded_elements(double elements)
{
    const double unit = pow(10, fmax(0, floor(log10(elements)) - 1));
    return floor(elements / unit) * unit;
}

double tpp_burst_recommended_elements(const struct tpp_burst *burst)
{
    const double n = burst->num_ranks;
    const double fits = (tpp_burst_slack_seconds(burst) - burst->latency_seconds) * burst->bytes_per_second * n /
                        ((n - 1) * burst->element_bytes);
    const double least =
        burst->latency_seconds * burst->bytes_per_second / max_latency_share / burst->element_bytes;
    return fmax(1, floor(fmax(fits, least)));
}
