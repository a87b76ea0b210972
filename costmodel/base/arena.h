/* arena.h - memory that lives as long as one piece of work: mark, allocate, rewind, free all at once.
 *
 * With -Darena_malloc=true each piece is its own malloc, so that AddressSanitizer sees overruns. */
#ifndef TPP_COSTMODEL_BASE_ARENA_H
#define TPP_COSTMODEL_BASE_ARENA_H

#include <stddef.h>

struct tpp_arena; /* opaque; one per thread */
struct tpp_arena_mark {
    size_t block;
    size_t used;
};

/* The caller owns the result (tpp_arena_free); NULL when out of memory. */
struct tpp_arena *tpp_arena_new(void);
void tpp_arena_free(struct tpp_arena *arena); /* NULL is fine */
/* `size` bytes, zeroed and aligned for any type, valid until the arena is freed or rewound past them; NULL when out of
 * memory or on overflow. */
void *tpp_arena_alloc(struct tpp_arena *arena, size_t size);
void *tpp_arena_alloc_array(struct tpp_arena *arena, size_t count, size_t size);
char *tpp_arena_strdup(struct tpp_arena *arena, const char *text);
struct tpp_arena_mark tpp_arena_mark(const struct tpp_arena *arena);
void tpp_arena_rewind(struct tpp_arena *arena, struct tpp_arena_mark mark);

#endif
