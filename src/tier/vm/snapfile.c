/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/snapfile.c - the state file of a snapshot, on ward's side.
 *
 * Owns:  its head.
 * Rules: read once, into memory of our own; checked there; used from there.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/own.h"
#include "host/host.h"
#include "tier/vm/boot/boot.h"
#include "tier/vm/control.h"
#include "tier/vm/snapfile.h"

static const char magic[8] = { 'w', 'a', 'r', 'd', 'v', 'm', '\r', '\n' };

static void sum(const void *data, size_t len, uint8_t ret[SHA256_BYTES])
{
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, data, len);
	sha256_end(&s, ret);
}

void snapfile_head(struct snap_head *ret, uint64_t memory_bytes, uint32_t cpus, const char *image,
	const void *body, size_t body_bytes)
{
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->magic, magic, sizeof(magic));
	ret->version = SNAP_VERSION;
	ret->head_bytes = sizeof(*ret);
	ret->memory_bytes = memory_bytes;
	ret->cpus = cpus;
	memcpy(ret->image, image, strnlen(image, ROOTFS_KEY_BYTES));
	ret->body_bytes = body_bytes;
	sum(body, body_bytes, ret->body_sha);
	sum(ret, offsetof(struct snap_head, head_sha), ret->head_sha);
}

int snapfile_check(const void *data, size_t len, struct snap_head *ret, struct err *e)
{
	uint8_t want[SHA256_BYTES];
	struct snap_head h;

	if (len < sizeof(h))
		return err_say(e, EINVAL, "the snapshot's state file is cut short");
	memcpy(&h, data, sizeof(h));
	if (memcmp(h.magic, magic, sizeof(magic)) != 0)
		return err_say(e, EINVAL, "the snapshot's state file is not one of a machine");
	if (h.version != SNAP_VERSION || h.head_bytes != sizeof(h))
		return err_say(e, EINVAL,
			"the snapshot has version %u, and this ward reads %d: make it again",
			h.version, SNAP_VERSION);
	sum(&h, offsetof(struct snap_head, head_sha), want);
	if (memcmp(want, h.head_sha, sizeof(want)) != 0)
		return err_say(e, EINVAL, "the snapshot's state file is damaged");
	if (h.memory_bytes < GMEM_MIN || h.memory_bytes > GMEM_MAX || h.memory_bytes % GMEM_PAGE ||
		!h.cpus || h.cpus > BOOT_CPUS_MAX || !h.body_bytes ||
		h.body_bytes > CONTROL_STATE_MAX || h.image[ROOTFS_KEY_BYTES] != '\0')
		return err_say(e, EINVAL, "the snapshot's state file makes no sense");
	*ret = h;
	return 0;
}

int snapfile_write(int fd, const struct snap_head *h, const void *body, struct err *e)
{
	int r = host_ftruncate(fd, 0);
	ssize_t n = 0;

	if (r == 0)
		n = host_pwrite(fd, h, sizeof(*h), 0);
	for (uint64_t at = 0; r == 0 && n >= 0 && at < h->body_bytes; at += (uint64_t)n) {
		n = host_pwrite(fd, (const uint8_t *)body + at, h->body_bytes - at,
			(off_t)(sizeof(*h) + at));
		if (n == 0)
			n = -EIO;
	}
	if (r == 0 && n < 0)
		r = (int)n;
	return r < 0 ? err_set(e, -r, "writing the snapshot's state") : 0;
}

static int read_all(int fd, void *to, size_t len, off_t from)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = host_pread(fd, (uint8_t *)to + at, len - at, from + (off_t)at);

		if (n < 0)
			return (int)n;
		if (n == 0)
			return -ENODATA;
		at += (size_t)n;
	}
	return 0;
}

int snapfile_read(
	const struct snap *from, struct snap_head *ret_head, void **ret_body, struct err *e)
{
	uint8_t want[SHA256_BYTES];
	own_mem void *body = NULL;
	struct snap_head raw, h;
	struct stat st;
	int r = read_all(from->state, &raw, sizeof(raw), 0);

	if (r < 0)
		return err_set(e, -r, "reading the snapshot's state");
	r = snapfile_check(&raw, sizeof(raw), &h, e);
	if (r < 0)
		return r;
	body = malloc(h.body_bytes);
	if (!body)
		return err_set(e, ENOMEM, "the snapshot's state");
	r = read_all(from->state, body, h.body_bytes, sizeof(h));
	if (r < 0)
		return err_set(e, -r, "reading the snapshot's state");
	sum(body, h.body_bytes, want);
	if (memcmp(want, h.body_sha, sizeof(want)) != 0)
		return err_say(e, EINVAL, "the snapshot's state file is damaged");
	r = host_fstat(from->memory, &st);
	if (r < 0)
		return err_set(e, -r, "looking at the snapshot's memory");
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != h.memory_bytes)
		return err_say(e, EINVAL,
			"the snapshot's memory file has %lld bytes instead of %llu",
			(long long)st.st_size, (unsigned long long)h.memory_bytes);
	*ret_head = h;
	*ret_body = take_ptr(&body);
	return 0;
}
