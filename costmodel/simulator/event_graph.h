/* event_graph.h - runs a graph of tasks on streams: the discrete events behind a simulated step (cost-model 8.2, 9.4).
 *
 * A task is work of one stream: compute, a transfer over shared links (flow.h), or a plain delay. Tasks of one stream run in
 * the order in which they were added, each after all tasks it depends on. Compute of a device is slowed by
 * overlap_slowdown_fraction while a transfer that slows compute is in service on the device:
 *
 *     T_compute' = T_compute + sigma * T_overlapped_comm        (9.3)
 *
 * so compute goes on at the rate 1 - sigma (a share of it: slowed_fraction). (9.4 writes the rate as 1/(1 + sigma); the two differ by sigma^2. sigma of every
 * profile was fitted with 9.3.)
 *
 * First everything is added, then the graph is run. Its tasks, with their times, stay readable until it is freed. */
#ifndef TPP_COSTMODEL_SIMULATOR_EVENT_GRAPH_H
#define TPP_COSTMODEL_SIMULATOR_EVENT_GRAPH_H

#include "costmodel/simulator/flow.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Streams of a device; also the tracks of a trace. */
enum tpp_track {
    TPP_TRACK_COMPUTE,
    TPP_TRACK_TENSOR,        /* tensor- and context-parallel transfers */
    TPP_TRACK_SEND_FORWARD,  /* activations to the next stage */
    TPP_TRACK_SEND_BACKWARD, /* gradients to the previous stage */
    TPP_TRACK_GATHER,        /* parameters */
    TPP_TRACK_REDUCE,        /* gradients */
    TPP_TRACK_HOST,          /* offload */
    TPP_TRACK_VOCABULARY_INPUT, /* of vocabulary layers that the stages share: the head's input, the loss, its gradient, */
    TPP_TRACK_VOCABULARY_LOSS,
    TPP_TRACK_VOCABULARY_GRADIENT,
    TPP_TRACK_VOCABULARY_EMBEDDING, /* and what the embedding gives and gets */
    TPP_TRACK_COUNT,
};
const char *tpp_track_name(enum tpp_track track);

enum tpp_graph_task_kind {
    TPP_GRAPH_COMPUTE,
    TPP_GRAPH_DELAY,    /* not slowed by transfers */
    TPP_GRAPH_TRANSFER,
};

/* What a transfer runs over. */
struct tpp_graph_route {
    uint32_t num_uses;
    const struct tpp_flow_use *uses;  /* borrowed */
    uint32_t domain;                  /* TPP_NO_DOMAIN */
    uint32_t num_devices;             /* whose compute it slows */
    const uint32_t *devices;          /* borrowed */
    bool slows_compute;
};

#define TPP_NO_TASK UINT32_MAX

struct tpp_graph_task { /* what an event touches comes first */
    double seconds;              /* work at full speed; latency of a transfer */
    double slowed_fraction;      /* compute: share of it that transfers slow; the rest waits for transfers of its own */
    /* Results: ready_seconds when all it depends on is done, start_seconds when it is served. -1 before. */
    double ready_seconds, start_seconds, end_seconds;
    uint32_t num_pending;        /* tasks it still waits for */
    uint32_t first_edge, next_on_stream, stream;
    uint32_t kind;               /* enum tpp_graph_task_kind */
    uint32_t route;              /* transfer */
    double bytes;                /* transfer */
    double max_bytes_per_second; /* transfer */
    const char *name;            /* static: "forward", "gradient bucket" */
    uint32_t micro_batch, chunk, layer; /* for people; TPP_NO_TASK when it has none */
    uint32_t last_edge;
};

struct tpp_graph_stream {
    uint32_t device;
    enum tpp_track track;
    uint32_t first_task, last_task;
};

struct tpp_graph_link_sample { /* from here to the next sample of the resource */
    double seconds;
    double bytes_per_second;
    uint32_t resource;
};

struct tpp_graph; /* opaque */

struct tpp_graph_setup {
    uint32_t num_devices;
    const struct tpp_resource *resources; /* copied */
    uint32_t num_resources, num_domains;
    double overlap_slowdown_fraction;     /* sigma, 0 .. 1 */
    bool records_links;                   /* keep link samples */
};

/* On success the caller owns *out. */
enum tpp_code tpp_graph_new(const struct tpp_graph_setup *setup, struct tpp_graph **out, struct tpp_error *err);
void tpp_graph_free(struct tpp_graph *graph); /* NULL is fine */

/* Each returns the number of the new thing. A failed allocation is remembered and reported by tpp_graph_run; until then
 * every function accepts the TPP_NO_TASK that it gave. Routes are copied but for their arrays. */
uint32_t tpp_graph_add_stream(struct tpp_graph *graph, uint32_t device, enum tpp_track track);
uint32_t tpp_graph_add_route(struct tpp_graph *graph, const struct tpp_graph_route *route);
/* Adds a task at the end of its stream. Fields of results, pending and lists are set here. */
uint32_t tpp_graph_add_task(struct tpp_graph *graph, const struct tpp_graph_task *task);
/* `task` starts after `before` has ended. Nothing happens when either is TPP_NO_TASK. What becomes ready at one moment
 * starts in the order in which these calls were made: of transfers in one communicator, the first one goes first. */
void tpp_graph_depend(struct tpp_graph *graph, uint32_t task, uint32_t before);

/* Runs up to `max_events` more events; *done when no task is left. TPP_E_INTERNAL when the rest waits for itself. */
enum tpp_code tpp_graph_run(struct tpp_graph *graph, uint64_t max_events, bool *done, struct tpp_error *err);

/* Borrowed: valid until the graph is freed or something is added. */
const struct tpp_graph_task *tpp_graph_tasks(const struct tpp_graph *graph, uint32_t *count);
const struct tpp_graph_stream *tpp_graph_streams(const struct tpp_graph *graph, uint32_t *count);
const struct tpp_graph_route *tpp_graph_routes(const struct tpp_graph *graph, uint32_t *count);
const struct tpp_resource *tpp_graph_resources(const struct tpp_graph *graph, uint32_t *count);
const struct tpp_graph_link_sample *tpp_graph_link_samples(const struct tpp_graph *graph, size_t *count);
const struct tpp_flow_network *tpp_graph_network(const struct tpp_graph *graph);
double tpp_graph_now_seconds(const struct tpp_graph *graph);
uint64_t tpp_graph_num_events(const struct tpp_graph *graph);
size_t tpp_graph_bytes(const struct tpp_graph *graph); /* memory it holds */

/* Calls `visit` with every task that waits for `task`. */
void tpp_graph_visit_followers(const struct tpp_graph *graph, uint32_t task,
                                void (*visit)(uint32_t follower, void *context), void *context);

#endif
