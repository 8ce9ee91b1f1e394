/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_DISK_H
#define WARD_TIER_VM_DISK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/err.h"

/*
 * What is behind a block device: a file, or a file that is never written with another over it that
 * takes all writes. Descriptors are given: nothing is opened here.
 */
enum { DISK_SECTOR = 512, DISK_CLUSTER = 4096 };

struct disk {
	int base, over; /* -1: none. Ours. */
	bool read_only; /* nobody writes: no @over, or it was asked for */
	uint64_t bytes; /* a multiple of DISK_SECTOR */
	uint64_t *mine; /* a bit per cluster that is in @over; NULL without one */
};

/* Takes both, also when it fails. @over (may be -1) starts empty and gets the size of @base. */
int disk_open(struct disk *d, int base, int over, bool read_only, struct err *e);
void disk_close(struct disk *d); /* a zeroed one with -1 descriptors is fine */

/* Moves the whole of @iov, at byte @at, which with it lies inside the disk. 0 or -errno. */
int disk_read(struct disk *d, const struct iovec *iov, unsigned count, uint64_t at);
int disk_write(struct disk *d, const struct iovec *iov, unsigned count, uint64_t at);
int disk_flush(struct disk *d);

#endif
