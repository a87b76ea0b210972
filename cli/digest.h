/* digest.h - a short fingerprint of an input, to see later whether a result came from the same one. Not for security.
 */
#ifndef TPP_CLI_DIGEST_H
#define TPP_CLI_DIGEST_H

#include "costmodel/model/model.h"
#include "hwprofiles/hardware.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TPP_DIGEST_SIZE 25 /* "fnv1a64:" and 16 hexadecimal digits */

uint64_t tpp_digest_bytes(const char *bytes, size_t length);
/* Of the shape as it is used: the same for a preset and for the config.json that it was made from. False when out of
 * memory. */
bool tpp_digest_model(const struct tpp_model *model, char digest[TPP_DIGEST_SIZE]);
/* Of all values of the profile with their origins, overrides included. */
bool tpp_digest_hardware(const struct tpp_hardware *hardware, char digest[TPP_DIGEST_SIZE]);

#endif
