/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/container/watch.c - was the disk ever full?
 *
 * Owns:  how often to look.
 * Rules: nothing tells when a file system refuses to grow, so ward looks: before it could have been
 *        filled at memory's speed, and seldom when nothing changes. Once it was full, never again.
 */
#include <sys/vfs.h>

#include "host/host.h"
#include "tier/container/container.h"

/* At most this much is written in a millisecond; this many files are made. */
enum { BYTES_PER_MS = 1 << 20, FILES_PER_MS = 200 };
enum { LOOK_MS_MIN = 2, LOOK_MS_MAX = 4000 };

static bool is_full(const struct statfs *fs)
{
	/* A disk file system keeps a few blocks that no file gets. */
	return fs->f_bavail <= fs->f_blocks / 64 || fs->f_ffree == 0;
}

bool upper_is_full(int upper)
{
	struct statfs fs;

	return upper >= 0 && host_fstatfs(upper, &fs) == 0 && is_full(&fs);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

unsigned upper_watch(struct container *c)
{
	struct statfs fs;
	uint64_t used, ms;

	/* An ordinary user's upper is known only once the first process has handed it out. */
	if (c->box.upper < 0)
		return c->rooted ? 0 : LOOK_MS_MIN * 10;
	if (host_fstatfs(c->box.upper, &fs) < 0)
		return 0;
	c->disk_seen_full = is_full(&fs);
	if (c->disk_seen_full)
		return 0;
	used = (uint64_t)fs.f_bfree + (uint64_t)fs.f_ffree; /* any number that changes with it */
	/* Half way to the earliest moment at which it could be full. */
	ms = least((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize / BYTES_PER_MS,
		     (uint64_t)fs.f_ffree / FILES_PER_MS) /
	     2;
	if (used == c->watched && ms < 2ull * c->watch_ms)
		ms = 2ull * c->watch_ms;
	c->watched = used;
	c->watch_ms = (unsigned)least(ms < LOOK_MS_MIN ? LOOK_MS_MIN : ms, LOOK_MS_MAX);
	return c->watch_ms;
}
