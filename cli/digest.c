#include "cli/digest.h"

#include "costmodel/base/json_write.h"
#include "costmodel/model/model_json.h"
#include "hwprofiles/profiles.h"

#include <inttypes.h>
#include <stdio.h>

/* FNV-1a, 64 bits: Fowler, Noll, Vo; constants from draft-eastlake-fnv, section 5. */
uint64_t tpp_digest_bytes(const char *bytes, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Of the JSON text that `writer` holds; releases it. */
static bool finish(struct tpp_json_writer *writer, char *digest)
{
    struct tpp_text text;
    tpp_text_init(&text);
    const bool done = tpp_json_print(writer, &text, NULL) == TPP_OK;
    if (done)
        snprintf(digest, TPP_DIGEST_SIZE, "fnv1a64:%016" PRIx64, tpp_digest_bytes(tpp_text_get(&text), text.length));
    tpp_text_release(&text);
    tpp_json_writer_release(writer);
    return done;
}

bool tpp_digest_model(const struct tpp_model *model, char digest[TPP_DIGEST_SIZE])
{
    struct tpp_json_writer writer;
    struct tpp_model unnamed = *model;
    unnamed.name[0] = '\0';
    tpp_json_writer_init(&writer);
    tpp_model_add_json(&unnamed, &writer, writer.root);
    return finish(&writer, digest);
}

bool tpp_digest_hardware(const struct tpp_hardware *hardware, char digest[TPP_DIGEST_SIZE])
{
    struct tpp_json_writer writer;
    tpp_json_writer_init(&writer);
    tpp_hardware_add_json(hardware, &writer, writer.root);
    return finish(&writer, digest);
}
