/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_SNAPFILE_H
#define WARD_TIER_VM_SNAPFILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sha256.h"
#include "plan/plan.h"

enum { ROOTFS_KEY_BYTES = 32 }; /* what names an image, in hex */

/*
 * A machine's state file: this head, then what machine_walk() wrote. The head is ward's own word;
 * the rest is the monitor's. Whoever reads one checks both.
 */
enum { SNAP_VERSION = 1 };

struct snap_head {
	char magic[8];
	uint32_t version, head_bytes;
	uint64_t memory_bytes;
	uint32_t cpus, reserved;
	char image[ROOTFS_KEY_BYTES + 8]; /* the root's; ends in zeros */
	uint64_t body_bytes;
	uint8_t body_sha[SHA256_BYTES];
	uint8_t head_sha[SHA256_BYTES]; /* of all before it */
};

void snapfile_head(struct snap_head *ret, uint64_t memory_bytes, uint32_t cpus, const char *image,
	const void *body, size_t body_bytes);
/* Is @data a head that makes sense? -EINVAL with a line if not. */
int snapfile_check(const void *data, size_t len, struct snap_head *ret, struct err *e);
/* Writes @h and @body to the empty file @fd. */
int snapfile_write(int fd, const struct snap_head *h, const void *body, struct err *e);
/* Reads and checks what @from has; the caller frees @ret_body. */
int snapfile_read(
	const struct snap *from, struct snap_head *ret_head, void **ret_body, struct err *e);

#endif
