#include "costmodel/pipeline.h"

#include <math.h>

/* Number of edge latencies on the critical path of 1F1B: there and back once, and once more for every micro-batch but one in
 * p. The first and one in p micro-batches find the message waiting. */
static double one_f_one_b_edges(double p, double m)
{
    return 2 * (p - 1) + 2 * (m - 1 - ceil((m - 1) / p));
}

/* Number of edge latencies on the critical path. */
static double edges(const struct tpp_strategy *strategy)
{
    const double p = strategy->pipeline_parallel, v = strategy->virtual_pipeline_stages;
    const double m = (double)strategy->num_micro_batches;
    if (p <= 1)
        return 0;
    switch (strategy->schedule) {
    case TPP_SCHEDULE_INTERLEAVED:
        return 2 * (v * p - 1);
    case TPP_SCHEDULE_1F1B:
        return one_f_one_b_edges(p, m);
    case TPP_SCHEDULE_ZB_H1:
    case TPP_SCHEDULE_ZB_1P:
        return one_f_one_b_edges(p, fmin(m, p + 1));
    default:
        return 2 * (p - 1);
    }
}

/* Of schedules that hold up to 2p - 1 micro-batches: weight gradients fill the gaps of as many. */
static double bubble_of_2p(double p, double m, double others_seconds, double others_weight_seconds)
{
    return fmax(0, others_seconds - others_weight_seconds * (1 + fmin(m - 1, 2 * (p - 1)) / (p - 1)));
}

/* F&B + B_full - 3 W over the other stages, whose seconds lack what pairs have saved already. */
static double idle_of_pairs(const struct tpp_pipeline_times *times)
{
    const double H = times->others_hidden_seconds, R = times->others_seconds + times->paired_fraction * H;
    return 2 * R - H - times->others_forward_seconds - 3 * times->others_weight_seconds;
}

/* Fill and drain: what the critical stage waits for the others. */
static double bubble(const struct tpp_strategy *strategy, const struct tpp_pipeline_times *times)
{
    const double p = strategy->pipeline_parallel, m = (double)strategy->num_micro_batches;
    const double R = times->others_seconds - times->others_vocabulary_seconds, R_W = times->others_weight_seconds;
    if (p <= 1)
        return 0;
    switch (strategy->schedule) {
    case TPP_SCHEDULE_INTERLEAVED:
        return R / strategy->virtual_pipeline_stages;
    case TPP_SCHEDULE_ZB_H1:
    case TPP_SCHEDULE_ZB_1P:
        return fmax(0, R - R_W * (1 + fmin(m - 1, p - 1) / (p - 1)));
    case TPP_SCHEDULE_ZB_H2:
    case TPP_SCHEDULE_ZB_V:
        return bubble_of_2p(p, m, R, R_W);
    case TPP_SCHEDULE_ZB_2P:
        return m >= 3 * p ? 0 : bubble_of_2p(p, m, R, R_W);
    case TPP_SCHEDULE_DUALPIPE:
        return fmax(0, (p / 2 - 1) / (p - 1) * idle_of_pairs(times));
    case TPP_SCHEDULE_DUALPIPEV:
        return fmax(0, idle_of_pairs(times) / 2);
    default:
        return R;
    }
}

struct tpp_pipeline tpp_pipeline_step(const struct tpp_strategy *strategy, const struct tpp_pipeline_times *times)
{
    const double p = strategy->pipeline_parallel, m = (double)strategy->num_micro_batches;
    struct tpp_pipeline pipeline = {
        .busy_seconds = m * times->slowest_seconds,
        .bubble_seconds = bubble(strategy, times) + (p > 1 ? times->uneven_seconds : 0),
        .edge_seconds = edges(strategy) * times->edge_seconds,
    };
    const double makespan = pipeline.busy_seconds + pipeline.bubble_seconds;
    pipeline.seconds = makespan + pipeline.edge_seconds;
    pipeline.bubble_fraction = 1 - m * (times->slowest_seconds + times->others_seconds) / (p * makespan);
    if (pipeline.bubble_fraction < 0)
        pipeline.bubble_fraction = 0;
    return pipeline;
}
