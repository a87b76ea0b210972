/* replica_parts.h - private to the replica: blocks, the ordered sets of free ones, and the parts that work on them. */
#ifndef TPP_COSTMODEL_ALLOCATOR_REPLICA_PARTS_H
#define TPP_COSTMODEL_ALLOCATOR_REPLICA_PARTS_H

#include "costmodel/allocator/replica.h"

struct tpp_block {
    uint64_t address, size, requested;
    uint64_t age_base;          /* searches of its pool when it was cached (garbage collection) */
    uint32_t previous, next;    /* neighbours in the segment, in address order; TPP_NO_BLOCK at the ends */
    uint16_t num_events;        /* streams it still waits for */
    uint16_t stream_uses;       /* one bit a stream it was recorded on */
    uint8_t stream;
    bool is_small, is_expandable, is_allocated, is_mapped, is_live; /* is_live: the table's row is in use */
};

/* A set of blocks in ascending order of (size, address), in an array: pools hold tens to hundreds of free blocks. A block
 * that is taken out leaves a gap, with its old key, because most often another comes in next (the rest of a block that was
 * cut, or what a block has become by merging): then only what lies between the two places moves. */
struct tpp_set_entry {
    uint64_t size, address;
    uint32_t block;
};
struct tpp_block_set {
    struct tpp_set_entry *entries; /* owned */
    size_t count, capacity;        /* count: the gap included */
    size_t gap;                    /* its index and 1; 0: none */
};

struct tpp_pool {
    struct tpp_block_set free;     /* mapped and free */
    struct tpp_block_set unmapped; /* holes and ends of expandable segments; size 0 in the key: by address alone */
};

struct tpp_event_queue {           /* of one stream, oldest first */
    uint32_t *blocks;              /* owned */
    size_t head, count, capacity;  /* entries head .. count-1 are outstanding */
    size_t num_finished;           /* index up to which the stream has got */
};

struct tpp_allocator {
    struct tpp_allocator_settings settings;
    uint64_t device_bytes, allowed_bytes, range_bytes; /* allowed: by the memory fraction; range: of an expandable segment */
    struct tpp_allocator_statistics statistics;
    struct tpp_block *blocks;      /* owned table */
    uint32_t num_blocks, capacity, free_row; /* free_row: list of unused rows through `next` */
    uint64_t next_address;
    struct tpp_pool pools[TPP_ALLOCATOR_MAX_STREAMS][2]; /* [stream][is_small] */
    uint64_t num_searches[2];      /* of the pools of all streams [is_small]: the clock of a block's age */
    struct tpp_event_queue events[TPP_ALLOCATOR_MAX_STREAMS];
    tpp_allocator_watcher *watcher; /* may be NULL */
    void *context;
    bool failed;
};

/* replica_pool.c. A set's insert marks the allocator failed when it cannot grow. */
uint32_t tpp_block_new(struct tpp_allocator *allocator); /* TPP_NO_BLOCK when the table cannot grow; pointers into it move */
void tpp_block_delete(struct tpp_allocator *allocator, uint32_t block);
/* Links `block` between two neighbours, either of which may be TPP_NO_BLOCK. */
void tpp_block_splice(struct tpp_allocator *allocator, uint32_t block, uint32_t previous, uint32_t next);
/* Merges a free neighbour of the same kind into `block`, which is in no set. */
void tpp_block_merge_neighbours(struct tpp_allocator *allocator, uint32_t block);
struct tpp_pool *tpp_block_pool(struct tpp_allocator *allocator, uint32_t block);
void tpp_pool_insert_free(struct tpp_allocator *allocator, uint32_t block);
void tpp_pool_erase_free(struct tpp_allocator *allocator, uint32_t block); /* leaves no gap */
void tpp_pool_insert_unmapped(struct tpp_allocator *allocator, uint32_t block);
void tpp_pool_erase_unmapped(struct tpp_allocator *allocator, uint32_t block);
/* Leaves a gap at `at`; the set has none. */
void tpp_set_take(struct tpp_block_set *set, size_t at);
/* Closes the gap: to be called before entries are read. */
void tpp_set_settle(struct tpp_block_set *set);
/* Index of the first entry not below (size, address). */
size_t tpp_set_lower_bound(const struct tpp_block_set *set, uint64_t size, uint64_t address);
void tpp_count_add(struct tpp_allocator_count *count, uint64_t bytes);
/* A segment, or a mapped part of one, has come. */
void tpp_reserved_add(struct tpp_allocator *allocator, const struct tpp_block *block, uint64_t address, uint64_t bytes);
void tpp_reserved_remove(struct tpp_allocator *allocator, const struct tpp_block *block, uint64_t address, uint64_t bytes);
void tpp_allocator_tell(const struct tpp_allocator *allocator, enum tpp_allocator_action action, uint64_t address,
                        uint64_t bytes, uint32_t stream);

/* replica_expand.c: a free block of at least `size` by mapping granules, in no set; TPP_NO_BLOCK when the device is full. */
uint32_t tpp_expand(struct tpp_allocator *allocator, uint32_t stream, bool is_small, uint64_t size);
/* Unmaps the whole granules of a free block. */
void tpp_unmap(struct tpp_allocator *allocator, uint32_t block);

/* replica_release.c. */
void tpp_garbage_collect(struct tpp_allocator *allocator);
/* Oversize blocks of the stream go until `rounded` would fit (max_split_size only); false when that freed too little. */
bool tpp_release_oversize(struct tpp_allocator *allocator, struct tpp_pool *pool, uint64_t rounded);
void tpp_release_cached(struct tpp_allocator *allocator);

/* replica.c */
void tpp_block_become_free(struct tpp_allocator *allocator, uint32_t block);

#endif
