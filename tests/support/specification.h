/* specification.h - clusters with the constants of the specification (cost-model 5.2, 5.6), which its worked examples were
 * computed with; the shipped GPUs are fitted to kernel tables. */
#ifndef TPP_TESTS_SUPPORT_SPECIFICATION_H
#define TPP_TESTS_SUPPORT_SPECIFICATION_H

#include "hwprofiles/profiles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `cluster`: a shipped one; its GPU comes from hwprofiles/base/`gpu`.json, with g_max as the rate of a step. */
static inline struct tpp_hardware tpp_specification_cluster(const char *cluster, const char *gpu)
{
    static char text[65536];
    char path[1024];
    struct tpp_hardware hardware;
    struct tpp_json_document *document;
    const char *root = getenv("TPP_SOURCE_ROOT");
    size_t length = (size_t)snprintf(
        text, sizeof text, "{\"schema_version\":1,\"name\":\"%s\",\"base\":\"%s\",\"gpu\":", cluster, cluster);
    snprintf(path, sizeof path, "%s/hwprofiles/base/%s.json", root ? root : ".", gpu);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    length += fread(text + length, 1, sizeof text - length - 1, file);
    fclose(file);
    assert_true(length < sizeof text - 1);
    text[length++] = '}';
    assert_int_equal(tpp_json_parse(text, length, path, &document, NULL), TPP_OK);
    assert_int_equal(tpp_hardware_read(tpp_json_root(document), &hardware, NULL), TPP_OK);
    tpp_json_document_free(document);
    hardware.gpu.gemm_sustained_fraction = 1;
    return hardware;
}

#endif
