/* remedies.h - the smallest changes that make a job fit which does not, each proven by a search that found a plan. */
#ifndef TPP_PLANNER_REMEDIES_H
#define TPP_PLANNER_REMEDIES_H

#include "planner/search.h"
#include "planner/space.h"

#include <stddef.h>

enum tpp_remedy_kind { /* cheapest first */
    TPP_REMEDY_MICRO_BATCH,  /* another micro-batch than the pinned one */
    TPP_REMEDY_SHARDING,     /* another ZeRO stage than the pinned one */
    TPP_REMEDY_CONTEXT,      /* context parallelism beyond the pin or limit */
    TPP_REMEDY_LAYOUT,       /* other parallel sizes than the pinned or limited ones */
    TPP_REMEDY_RECOMPUTE,    /* another recomputation than the pinned one */
    TPP_REMEDY_OFFLOAD,      /* optimizer states on the host */
    TPP_REMEDY_ENGINE,       /* ZeRO-3 or FSDP instead of the engine asked for */
    TPP_REMEDY_PINS,         /* all pins and limits dropped, with offload */
    TPP_REMEDY_MORE_NODES,   /* twice, four times, ... the GPUs */
    TPP_REMEDY_SHORTER_SEQUENCE, /* a half, a quarter, ... of the sequence */
    TPP_REMEDY_COUNT,
};

struct tpp_remedy {
    enum tpp_remedy_kind kind;
    struct tpp_job job;     /* as changed */
    struct tpp_stack stack; /* as changed */
    struct tpp_plan plan;   /* the best one then; it fits with room, tight ones are not proposed */
    char sentence[256];     /* what to change and what comes out; lower case, no full stop */
};

/* For a job of which a search with these limits found no plan that fits. Writes at most `max` remedies, cheapest first,
 * and sets *count. Takes as long as several searches. */
enum tpp_code tpp_remedies_find(const struct tpp_model *model, const struct tpp_hardware *hardware,
                                const struct tpp_job *job, const struct tpp_stack *stack,
                                const struct tpp_space_limits *limits, struct tpp_remedy *out, size_t max, size_t *count,
                                struct tpp_error *err);

const char *tpp_remedy_name(enum tpp_remedy_kind kind); /* "micro-batch", "sharding", ... */

#endif
