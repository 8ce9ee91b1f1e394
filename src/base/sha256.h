/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_BASE_SHA256_H
#define WARD_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

/*
 * SHA-256 (FIPS 180-4) for the programs that must stay small: the audit chain is written on the
 * run path, where loading a crypto library would cost more than the sandbox. See docs/adr/0003.
 */
enum { SHA256_BYTES = 32, SHA256_HEX = 64 };

struct sha256 {
	uint32_t h[8];
	uint64_t total;
	uint8_t block[64];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t len);
void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES]);

/* Lower-case hex with a NUL. */
void sha256_end_hex(struct sha256 *s, char out[SHA256_HEX + 1]);

/* All of it at once, as lower-case hex with a NUL. */
void sha256_hex(const void *data, size_t len, char out[SHA256_HEX + 1]);

#endif
