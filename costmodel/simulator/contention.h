/* contention.h - closed forms that say whether transfers disturb each other on a shared link (cost-model 9.4). Pure.
 *
 * Nobody has published a measurement of the effect that the burst index predicts: whatever is said on its ground is of low
 * confidence. */
#ifndef TPP_COSTMODEL_SIMULATOR_CONTENTION_H
#define TPP_COSTMODEL_SIMULATOR_CONTENTION_H

#include "costmodel/simulator/simulate.h"

/* rho = bytes / (capacity * window): offered load of a link in a window, one layer's backward. */
double tpp_contention_load(double bytes, double bytes_per_second, double window_seconds);
/* rho < 0.5 low, < 0.8 moderate, <= 1 high, above saturated. */
enum tpp_contention_level tpp_contention_level_of(double load_fraction);
/* What a saturated link leaves exposed at least: (rho - 1) window; 0 when it is not. */
double tpp_contention_exposed_seconds(double load_fraction, double window_seconds);

/* Gradients that leave in buckets while layers gather their weights on the same link or communicator. */
struct tpp_burst {
    double latency_seconds;   /* alpha of the reduction */
    double bucket_elements;   /* B_e */
    double element_bytes;     /* g */
    double num_ranks;         /* n, 2 or more */
    double bytes_per_second;  /* B: rate of the reduction */
    double layer_seconds;     /* t_w: backward of one layer */
    double gather_seconds;    /* T_AG of one layer */
    double prefetch_layers;   /* how far ahead gathers are asked for */
    double layer_elements;    /* parameters of a layer on one rank */
};

/* T_burst = alpha + B_e g (n-1)/n / B; example E12. */
double tpp_burst_seconds(const struct tpp_burst *burst);
/* prefetch distance * t_w - T_AG. */
double tpp_burst_slack_seconds(const struct tpp_burst *burst);
/* Stall of the layer whose gather waits behind a burst, first come first served: max(0, T_burst - slack). */
double tpp_burst_stall_seconds(const struct tpp_burst *burst);
/* Delay of a transfer of `service_seconds` beside a burst when both share the link fairly: min(x, T_burst). */
double tpp_burst_fair_delay_seconds(const struct tpp_burst *burst, double service_seconds);
/* Layers from one burst to the next: B_e / parameters of a layer. */
double tpp_burst_period_layers(const struct tpp_burst *burst);
/* Largest B_e whose burst fits in the slack, but not so small that latency is more than a tenth of it (alpha B / 0.1 bytes).
 * bucket_elements is not read. */
double tpp_burst_recommended_elements(const struct tpp_burst *burst);
/* Two digits of it, downwards: what a person would write, and still within the slack. `elements` is 1 or more. */
double tpp_burst_rounded_elements(double elements);

/* The burst of a plan that shards its parameters (ZeRO-3, FSDP): its layers, group and bucket (of FSDP: a layer). *has_burst:
 * false for other plans, whose layers wait for no gathers. TPP_E_STRATEGY as tpp_evaluator_cost. */
enum tpp_code tpp_burst_of_plan(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                struct tpp_burst *burst, bool *has_burst, struct tpp_error *err);
/* The recommended bucket of such a plan, two digits: the one that its own burst recommends, too, since small messages move at
 * a lower rate. 0 when it has no burst. */
enum tpp_code tpp_burst_recommended_of_plan(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                            double *elements, struct tpp_error *err);

#endif
