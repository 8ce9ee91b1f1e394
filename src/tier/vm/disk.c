/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/disk.c - a file as a disk, or two: one that everybody shares, one that takes the writes.
 *
 * Owns:  the descriptors and the map of what was written.
 * Rules: the base is never written. A cluster that is written in part is copied up first, whole;
 * the map says so only after the bytes are there.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "tier/vm/disk.h"

#define DISK_BYTES_MAX (16ull << 40)

static int size_of(int fd, uint64_t *ret, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "looking at a disk's file");
	if (!S_ISREG(st.st_mode))
		return err_say(e, EINVAL, "a disk's file must be a regular file");
	if (st.st_size < DISK_SECTOR || (uint64_t)st.st_size > DISK_BYTES_MAX)
		return err_say(e, EINVAL, "a disk's file has %lld bytes: from %d to %llu",
			(long long)st.st_size, DISK_SECTOR, (unsigned long long)DISK_BYTES_MAX);
	*ret = (uint64_t)st.st_size / DISK_SECTOR * DISK_SECTOR;
	return 0;
}

static int open_over(struct disk *d, struct err *e)
{
	uint64_t clusters = (d->bytes + DISK_CLUSTER - 1) / DISK_CLUSTER;

	d->mine = calloc((clusters + 63) / 64, sizeof(*d->mine));
	if (!d->mine)
		return err_set(e, ENOMEM, "a map of %llu clusters", (unsigned long long)clusters);
	if (ftruncate(d->over, 0) < 0 || ftruncate(d->over, (off_t)d->bytes) < 0)
		return err_set(e, errno, "sizing a disk's private file");
	return 0;
}

int disk_open(struct disk *d, int base, int over, bool read_only, struct err *e)
{
	int r;

	*d = (struct disk){ .base = base, .over = over, .read_only = read_only };
	r = size_of(base, &d->bytes, e);
	if (r == 0 && over >= 0)
		r = open_over(d, e);
	if (r < 0)
		disk_close(d);
	return r;
}

void disk_close(struct disk *d)
{
	if (d->base >= 0)
		close(d->base);
	if (d->over >= 0)
		close(d->over);
	free(d->mine);
	*d = (struct disk){ .base = -1, .over = -1 };
}

static bool is_mine(const struct disk *d, uint64_t cluster)
{
	return d->mine && (d->mine[cluster / 64] >> (cluster % 64) & 1);
}

/* Cuts @count of @iov down to @len bytes from byte @skip; how many parts are left in @ret. */
enum { PARTS_MAX = 256 };
static unsigned cut(const struct iovec *iov, unsigned count, uint64_t skip, uint64_t len,
	struct iovec ret[PARTS_MAX])
{
	unsigned n = 0;

	for (unsigned i = 0; i < count && len && n < PARTS_MAX; i++) {
		uint64_t here = iov[i].iov_len;

		if (skip >= here) {
			skip -= here;
			continue;
		}
		here = here - skip < len ? here - skip : len;
		ret[n++] = (struct iovec){ (uint8_t *)iov[i].iov_base + skip, here };
		len -= here;
		skip = 0;
	}
	return n;
}

/* All of [skip, skip + len) of @iov to or from @fd at @at; a file that ends early reads as zeros.
 */
static int move(int fd, bool write, const struct iovec *iov, unsigned count, uint64_t skip,
	uint64_t len, uint64_t at)
{
	struct iovec part[PARTS_MAX];

	while (len > 0) {
		unsigned n = cut(iov, count, skip, len, part);
		ssize_t done = write ? pwritev(fd, part, (int)n, (off_t)at)
				     : preadv(fd, part, (int)n, (off_t)at);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		if (done == 0)
			return -EIO; /* the file was cut: never stale bytes in its place */
		skip += (uint64_t)done;
		at += (uint64_t)done;
		len -= (uint64_t)done;
	}
	return 0;
}

static uint64_t total(const struct iovec *iov, unsigned count)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < count; i++)
		n += iov[i].iov_len;
	return n;
}

/* Bytes from @at on, at most @len, that are all in the same file. */
static uint64_t run_length(const struct disk *d, uint64_t at, uint64_t len, bool *ret_mine)
{
	uint64_t end = at + len, next = (at / DISK_CLUSTER + 1) * DISK_CLUSTER;

	*ret_mine = is_mine(d, at / DISK_CLUSTER);
	while (next < end && is_mine(d, next / DISK_CLUSTER) == *ret_mine)
		next += DISK_CLUSTER;
	return (next < end ? next : end) - at;
}

int disk_read(struct disk *d, const struct iovec *iov, unsigned count, uint64_t at)
{
	uint64_t len = total(iov, count), skip = 0;

	while (skip < len) {
		bool mine = false;
		uint64_t n = d->mine ? run_length(d, at + skip, len - skip, &mine) : len;
		int r = move(mine ? d->over : d->base, false, iov, count, skip, n, at + skip);

		if (r < 0)
			return r;
		skip += n;
	}
	return 0;
}

/* The cluster at @at is about to be written in part. */
static int copy_up(struct disk *d, uint64_t cluster)
{
	uint8_t data[DISK_CLUSTER];
	uint64_t at = cluster * DISK_CLUSTER;
	uint64_t len = d->bytes - at < DISK_CLUSTER ? d->bytes - at : DISK_CLUSTER;
	struct iovec iov = { data, len };
	int r;

	if (is_mine(d, cluster))
		return 0;
	r = move(d->base, false, &iov, 1, 0, len, at);
	return r < 0 ? r : move(d->over, true, &iov, 1, 0, len, at);
}

int disk_write(struct disk *d, const struct iovec *iov, unsigned count, uint64_t at)
{
	uint64_t len = total(iov, count), end = at + len;
	int r = 0;

	if (d->read_only)
		return -EROFS;
	if (!len || !d->mine)
		return move(d->base, true, iov, count, 0, len, at);
	if (at % DISK_CLUSTER)
		r = copy_up(d, at / DISK_CLUSTER);
	if (r == 0 && end % DISK_CLUSTER && end < d->bytes)
		r = copy_up(d, end / DISK_CLUSTER);
	if (r == 0)
		r = move(d->over, true, iov, count, 0, len, at);
	for (uint64_t c = at / DISK_CLUSTER; r == 0 && c <= (end - 1) / DISK_CLUSTER; c++)
		d->mine[c / 64] |= 1ull << (c % 64);
	return r;
}

int disk_flush(struct disk *d)
{
	int fd = d->mine ? d->over : d->base;

	return d->read_only || fdatasync(fd) == 0 ? 0 : -errno;
}
