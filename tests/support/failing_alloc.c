#include "tests/support/failing_alloc.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

/* The linker's --wrap sends each call of malloc to __wrap_malloc, and __real_malloc to the true one. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static bool is_armed;
static bool has_failed;
static uint64_t num_left;

static bool fails_now(void)
{
    if (!is_armed || has_failed) {
        return false;
    }
    has_failed = num_left == 0;
    num_left -= !has_failed;
    return has_failed;
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails_now() ? NULL : __real_realloc(old, size);
}

void tpp_failing_alloc_arm(uint64_t n)
{
    cJSON_Hooks hooks = {.malloc_fn = __wrap_malloc, .free_fn = free}; /* a shared library is not wrapped */
    cJSON_InitHooks(&hooks);
    is_armed = true;
    has_failed = false;
    num_left = n;
}

bool tpp_failing_alloc_disarm(void)
{
    cJSON_InitHooks(NULL);
    is_armed = false;
    return has_failed;
}
