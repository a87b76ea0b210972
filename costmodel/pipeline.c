#include "costmodel/pipeline.h"

#include <math.h>

/* Number of edge latencies on the critical path. */
static double edges(const struct tpp_strategy *strategy)
{
    const double p = strategy->pipeline_parallel, v = strategy->virtual_pipeline_stages;
    const double m = (double)strategy->num_micro_batches;
    if (p <= 1)
        return 0;
    if (strategy->schedule == TPP_SCHEDULE_INTERLEAVED)
        return (2 * v - 1) * p - 2;
    if (strategy->schedule == TPP_SCHEDULE_GPIPE)
        return 2 * (p - 1);
    return 2 * (p - 1) * ceil(m / p) + 2 * (p - 2);
}

struct tpp_pipeline tpp_pipeline_step(const struct tpp_strategy *strategy, const struct tpp_pipeline_times *times)
{
    const double v = strategy->schedule == TPP_SCHEDULE_INTERLEAVED ? strategy->virtual_pipeline_stages : 1;
    const double p = strategy->pipeline_parallel, m = (double)strategy->num_micro_batches;
    struct tpp_pipeline pipeline = {
        .busy_seconds = m * times->slowest_seconds,
        .bubble_seconds = times->others_seconds / v,
        .edge_seconds = edges(strategy) * times->edge_seconds,
    };
    const double makespan = pipeline.busy_seconds + pipeline.bubble_seconds;
    pipeline.seconds = makespan + pipeline.edge_seconds;
    pipeline.bubble_fraction = 1 - m * (times->slowest_seconds + times->others_seconds) / (p * makespan);
    if (pipeline.bubble_fraction < 0)
        pipeline.bubble_fraction = 0;
    return pipeline;
}
