/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_IMAGE_DIGEST_H
#define WARD_IMAGE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* "sha256:" and 64 digits with a NUL: how images name their parts. */
enum { DIGEST_TEXT = 7 + 64 + 1 };

/* SHA-256 by libcrypto, which is several times faster than base/sha256.c on gigabytes. */
struct hash {
	void *ctx_;
	uint64_t total;
};

int hash_init(struct hash *h, struct err *e);
void hash_add(struct hash *h, const void *data, size_t len);
/* Writes the text form; the hash must be done or initialized again after. */
void hash_end(struct hash *h, char out[DIGEST_TEXT]);
void hash_done(struct hash *h);

int digest_of(const void *data, size_t len, char out[DIGEST_TEXT], struct err *e);
/* Reads @fd from its start to its end and compares; then goes back to the start. */
int digest_check_file(int fd, const char *digest, uint64_t size, struct err *e);
/* Says which is which when they differ: -EBADMSG. */
int digest_compare(const char *want, const char *got, struct err *e);

#define own_hash __attribute__((cleanup(hash_done)))

#endif
