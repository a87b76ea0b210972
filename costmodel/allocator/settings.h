/* settings.h - what PYTORCH_CUDA_ALLOC_CONF can say, as far as it changes where memory goes.
 *
 * Sources of the arithmetic and of the defaults: c10/cuda/CUDACachingAllocator.cpp and c10/core/AllocatorConfig of
 * PyTorch, 2025-2026. */
#ifndef TPP_COSTMODEL_ALLOCATOR_SETTINGS_H
#define TPP_COSTMODEL_ALLOCATOR_SETTINGS_H

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"

#include <stdbool.h>
#include <stdint.h>

#define TPP_ALLOCATOR_MIN_BLOCK UINT64_C(512)            /* rounding unit */
#define TPP_ALLOCATOR_SMALL_LIMIT (UINT64_C(1) << 20)    /* largest request of the small pool */
#define TPP_ALLOCATOR_SMALL_SEGMENT (UINT64_C(2) << 20)  /* also the granule that big segments are rounded to */
#define TPP_ALLOCATOR_LARGE_SEGMENT (UINT64_C(20) << 20) /* unless large_segment_size_mb says otherwise */
#define TPP_ALLOCATOR_OWN_SEGMENT (UINT64_C(10) << 20)   /* requests from here on get a segment of their own size */
#define TPP_ALLOCATOR_UNLIMITED UINT64_MAX
#define TPP_ALLOCATOR_DIVISION_SIZES 16                  /* 1 MiB, 2 MiB, .. 32 GiB and above */

struct tpp_allocator_settings {
    uint64_t max_split_size_bytes;         /* TPP_ALLOCATOR_UNLIMITED: every block may be split */
    uint64_t max_non_split_rounding_bytes; /* slack allowed when a block that may not be split is used again */
    uint64_t large_segment_bytes;          /* of requests above 1 MiB and below 10; granule of expandable large segments */
    double garbage_collection_threshold;   /* 0: off; acts only with a memory fraction */
    double memory_fraction;                /* share of the card the process may take, checked before the driver; 0: not set */
    bool expandable_segments;
    bool uses_driver_pool;                 /* backend:cudaMallocAsync: nothing here holds */
    uint16_t roundup_divisions[TPP_ALLOCATOR_DIVISION_SIZES]; /* powers of two, 0: none */
};

/* No limits, 20 MiB of rounding and in a large segment, everything else off. */
struct tpp_allocator_settings tpp_allocator_settings_defaults(void);

/* Reads the variable's text: "name:value,name:value"; spaces count for nothing; "" gives the defaults. Options that do not
 * change the arithmetic are checked and dropped. What differs between releases is read as the newest do: since PyTorch 2.9
 * `>` of roundup_power2_divisions begins above the last listed size, before it began at that size. TPP_E_USAGE with the nearest option as a hint; *out is then untouched. */
enum tpp_code tpp_allocator_settings_parse(const char *text, struct tpp_allocator_settings *out, struct tpp_error *err);
/* The inverse: what differs from the defaults, in one fixed order; reads back equal. "" when nothing does. */
void tpp_allocator_settings_format(const struct tpp_allocator_settings *settings, struct tpp_text *out);

/* Size of the block for a request of `bytes` > 0: a multiple of 512. 0 when it would pass 2^62 (no device is so large). */
uint64_t tpp_allocator_round(const struct tpp_allocator_settings *settings, uint64_t bytes);
/* Size of a new segment for a block of `rounded` bytes. */
uint64_t tpp_allocator_segment_bytes(const struct tpp_allocator_settings *settings, uint64_t rounded);

#endif
