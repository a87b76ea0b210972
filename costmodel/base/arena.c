#include "costmodel/base/arena.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The two builds differ in these constants only. With TPP_ARENA_MALLOC a block holds one piece, is exactly as large as
 * it, and is freed on rewind, so that a sanitizer sees every overrun and every use after a rewind. */
#ifdef TPP_ARENA_MALLOC
enum { ALIGNMENT = 1, MIN_BLOCK_BYTES = 0, IS_KEEPING_BLOCKS = 0 };
#else
enum { ALIGNMENT = _Alignof(max_align_t), MIN_BLOCK_BYTES = 64 * 1024, IS_KEEPING_BLOCKS = 1 };
#endif

struct block {
    unsigned char *data;
    size_t size;
};

struct tpp_arena {
    struct block *blocks;
    size_t num_blocks;
    size_t capacity;
    size_t current; /* blocks in use; the last of them is being filled */
    size_t used;    /* bytes used of that one */
};

struct tpp_arena *tpp_arena_new(void)
{
    return calloc(1, sizeof(struct tpp_arena));
}

static void free_blocks_from(struct tpp_arena *arena, size_t first)
{
    for (size_t i = first; i < arena->num_blocks; i++) {
        free(arena->blocks[i].data);
    }
    arena->num_blocks = first;
}

void tpp_arena_free(struct tpp_arena *arena)
{
    if (!arena) {
        return;
    }
    free_blocks_from(arena, 0);
    free(arena->blocks);
    free(arena);
}

static bool add_block(struct tpp_arena *arena, size_t size)
{
    if (arena->num_blocks == arena->capacity) {
        const size_t capacity = arena->capacity ? 2 * arena->capacity : 8;
        if (capacity > SIZE_MAX / sizeof(struct block)) {
            return false;
        }
        struct block *blocks = realloc(arena->blocks, capacity * sizeof(struct block));
        if (!blocks) {
            return false;
        }
        arena->blocks = blocks;
        arena->capacity = capacity;
    }
    unsigned char *data = malloc(size);
    if (!data) {
        return false;
    }
    arena->blocks[arena->num_blocks++] = (struct block){.data = data, .size = size};
    return true;
}

/* Moves on to a block, kept or new, with room for `size` bytes. */
static bool next_block(struct tpp_arena *arena, size_t size)
{
    size_t next = arena->current;
    while (next < arena->num_blocks && arena->blocks[next].size < size) {
        next++;
    }
    if (next == arena->num_blocks && !add_block(arena, size > MIN_BLOCK_BYTES ? size : MIN_BLOCK_BYTES)) {
        return false;
    }
    arena->current = next + 1;
    arena->used = 0;
    return true;
}

void *tpp_arena_alloc(struct tpp_arena *arena, size_t size)
{
    if (size > PTRDIFF_MAX - ALIGNMENT) {
        return NULL;
    }
    if (size == 0) {
        size = 1;
    }
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const bool has_room = arena->current > 0 && arena->blocks[arena->current - 1].size - arena->used >= size;
    if (!has_room && !next_block(arena, size)) {
        return NULL;
    }
    void *piece = arena->blocks[arena->current - 1].data + arena->used;
    arena->used += size;
    return memset(piece, 0, size);
}

void *tpp_arena_alloc_array(struct tpp_arena *arena, size_t count, size_t size)
{
    if (size > 0 && count > SIZE_MAX / size) {
        return NULL;
    }
    return tpp_arena_alloc(arena, count * size);
}

char *tpp_arena_strdup(struct tpp_arena *arena, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = tpp_arena_alloc(arena, size);
    return copy ? memcpy(copy, text, size) : NULL;
}

struct tpp_arena_mark tpp_arena_mark(const struct tpp_arena *arena)
{
    return (struct tpp_arena_mark){.block = arena->current, .used = arena->used};
}

void tpp_arena_rewind(struct tpp_arena *arena, struct tpp_arena_mark mark)
{
    assert(mark.block < arena->current || (mark.block == arena->current && mark.used <= arena->used));
    arena->current = mark.block;
    arena->used = mark.used;
    if (!IS_KEEPING_BLOCKS) {
        free_blocks_from(arena, mark.block);
    }
}
