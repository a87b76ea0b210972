/* fuzz_target.h - what a fuzz target defines, and how it says that something is wrong. */
#ifndef TPP_TESTS_FUZZ_FUZZ_TARGET_H
#define TPP_TESTS_FUZZ_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Runs the parser on these bytes, which end where their memory ends. Returns 0; ends the program when a law is broken.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A law that holds for every input. */
#define FUZZ_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                             \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
