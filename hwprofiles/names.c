/* Names of the enumerations, as JSON, options and reports spell them. */
#include "hwprofiles/hardware.h"

#include <assert.h>

const char *tpp_provenance_name(enum tpp_provenance provenance)
{
    static const char *const names[TPP_PROVENANCE_COUNT] = {
        [TPP_PROVENANCE_MEASURED] = "measured",   [TPP_PROVENANCE_PUBLISHED] = "published",
        [TPP_PROVENANCE_DATASHEET] = "datasheet", [TPP_PROVENANCE_ASSUMED] = "assumed",
        [TPP_PROVENANCE_USER] = "user",
    };
    assert((unsigned)provenance < TPP_PROVENANCE_COUNT);
    return names[provenance];
}

const char *tpp_attention_kernel_name(enum tpp_attention_kernel kernel)
{
    static const char *const names[TPP_ATTENTION_KERNEL_COUNT] = {
        [TPP_ATTENTION_FLASH1] = "flash1", [TPP_ATTENTION_FLASH2] = "flash2",
        [TPP_ATTENTION_FLASH3] = "flash3", [TPP_ATTENTION_FUSED_SOFTMAX] = "fused-softmax",
        [TPP_ATTENTION_EAGER] = "eager",
    };
    assert((unsigned)kernel < TPP_ATTENTION_KERNEL_COUNT);
    return names[kernel];
}

const char *tpp_collective_name(enum tpp_collective collective)
{
    static const char *const names[TPP_COLLECTIVE_COUNT] = {
        [TPP_ALL_REDUCE] = "all_reduce", [TPP_ALL_GATHER] = "all_gather", [TPP_REDUCE_SCATTER] = "reduce_scatter",
        [TPP_ALL_TO_ALL] = "all_to_all", [TPP_SEND_RECV] = "send_recv",
    };
    assert((unsigned)collective < TPP_COLLECTIVE_COUNT);
    return names[collective];
}
