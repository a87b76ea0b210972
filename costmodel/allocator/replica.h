/* replica.h - PyTorch's CUDA caching allocator, replayed: the same requests give the same reserved bytes.
 *
 * Nothing is allocated on a device: blocks and segments are numbers. Two pools (requests up to 1 MiB, and larger ones) for
 * each stream; best fit by (size, address); blocks are split and merged; a request that the device refuses first releases
 * what is cached. The source it follows: c10/cuda/CUDACachingAllocator.cpp of PyTorch, 2025-2026.
 *
 * Where it cannot follow: the driver's addresses. A new segment gets an address above all earlier ones, where the driver
 * may use a freed range again; that only decides ties between free blocks of one size. */
#ifndef TPP_COSTMODEL_ALLOCATOR_REPLICA_H
#define TPP_COSTMODEL_ALLOCATOR_REPLICA_H

#include "costmodel/allocator/settings.h"
#include "costmodel/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TPP_ALLOCATOR_MAX_STREAMS 8
#define TPP_NO_BLOCK UINT32_MAX

struct tpp_allocator; /* opaque; one per thread */

struct tpp_allocator_count {
    uint64_t current, peak;
};

struct tpp_allocator_statistics {
    struct tpp_allocator_count allocated;      /* blocks in use, slack included */
    struct tpp_allocator_count requested;      /* what was asked for */
    struct tpp_allocator_count active;         /* in use, or waiting for an event */
    struct tpp_allocator_count reserved;       /* segments, or mapped granules of expandable ones */
    struct tpp_allocator_count inactive_split; /* free parts of segments that are in use elsewhere; expandable ones not */
    uint64_t allocated_at_reserved_peak;       /* allocated when reserved last rose to its peak */
    uint64_t num_allocations, num_device_allocations, num_device_frees;
    uint64_t num_retries;                      /* requests for which the whole cache was released, and that then came or failed */
    uint64_t num_out_of_memory;
    uint64_t failed_request_bytes;             /* the last request that ran out of memory; 0: none did */
};

enum tpp_allocation {
    TPP_ALLOCATION_DONE,
    TPP_ALLOCATION_OUT_OF_MEMORY,  /* the device has no room: an answer, not an error */
    TPP_ALLOCATION_NO_HOST_MEMORY, /* this program has none */
};

/* `device_bytes`: what the driver can hand out to this process. `total_bytes`: the card, which memory_fraction and the
 * address range of an expandable segment refer to. Settings are copied. On success the caller owns *out. */
enum tpp_code tpp_allocator_new(const struct tpp_allocator_settings *settings, uint64_t device_bytes,
                                uint64_t total_bytes, struct tpp_allocator **out, struct tpp_error *err);
void tpp_allocator_free(struct tpp_allocator *allocator); /* NULL is fine */

/* A block of at least `bytes` for `stream` < TPP_ALLOCATOR_MAX_STREAMS. A request of 0 bytes gives TPP_NO_BLOCK. */
enum tpp_allocation tpp_allocator_allocate(struct tpp_allocator *allocator, uint64_t bytes, uint32_t stream,
                                           uint32_t *block);
/* The block is used on another stream too: after its release it waits until that stream has got there. */
void tpp_allocator_record_stream(struct tpp_allocator *allocator, uint32_t block, uint32_t stream);
/* Gives the block back; TPP_NO_BLOCK is fine. It must not be used afterwards. */
void tpp_allocator_release(struct tpp_allocator *allocator, uint32_t block);
/* Everything issued on the stream so far is done: blocks that waited for it are free from the next request on. */
void tpp_allocator_finish_stream(struct tpp_allocator *allocator, uint32_t stream);
/* torch.cuda.empty_cache(): waits for all streams and returns whole free segments to the driver. */
void tpp_allocator_empty_cache(struct tpp_allocator *allocator);
/* Peaks start again from the present values. */
void tpp_allocator_reset_peaks(struct tpp_allocator *allocator);

/* Borrowed; always up to date. */
const struct tpp_allocator_statistics *tpp_allocator_statistics(const struct tpp_allocator *allocator);
uint64_t tpp_allocator_largest_free_block(const struct tpp_allocator *allocator);
/* An array of this program could not grow: the replay is worth nothing from there on. */
bool tpp_allocator_failed(const struct tpp_allocator *allocator);

/* What PyTorch's own history records, for an export: bytes of segments, and for the others what was asked for. */
enum tpp_allocator_action {
    TPP_ACTION_SEGMENT_ALLOC,
    TPP_ACTION_SEGMENT_FREE,
    TPP_ACTION_SEGMENT_MAP,
    TPP_ACTION_SEGMENT_UNMAP,
    TPP_ACTION_ALLOC,
    TPP_ACTION_FREE_REQUESTED,
    TPP_ACTION_FREE_COMPLETED,
    TPP_ACTION_OUT_OF_MEMORY,
};
typedef void tpp_allocator_watcher(void *context, enum tpp_allocator_action action, uint64_t address, uint64_t bytes,
                                   uint32_t stream);
/* Calls `watcher` for everything that happens from now on; NULL ends it. */
void tpp_allocator_watch(struct tpp_allocator *allocator, tpp_allocator_watcher *watcher, void *context);

enum tpp_block_state { TPP_BLOCK_ALLOCATED, TPP_BLOCK_WAITING, TPP_BLOCK_INACTIVE };

struct tpp_block_view {
    uint64_t segment_address, segment_bytes; /* of an expandable segment: the mapped range around the block */
    uint64_t address, bytes, requested_bytes;
    uint32_t block, stream;
    enum tpp_block_state state;
    bool is_small, is_expandable;
};

/* All blocks in the order of their addresses: *views is malloc'ed (free), *count of them. */
enum tpp_code tpp_allocator_list(const struct tpp_allocator *allocator, struct tpp_block_view **views, size_t *count,
                                 struct tpp_error *err);
/* Address of a block in use. */
uint64_t tpp_allocator_block_address(const struct tpp_allocator *allocator, uint32_t block);

#endif
