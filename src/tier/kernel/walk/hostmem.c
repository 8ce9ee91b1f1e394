/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/walk/hostmem.c - the pages of a guest's memory, read through the host.
 *
 * Owns:  struct hostmem.
 * Rules: a page that was never touched is not touched here either: a reservation, or a file, may be
 *        larger than the machine. Of what we do not know the file of the host cannot say that:
 * every page is read, and more than UNKNOWN_MAX is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/str.h"
#include "host/host.h"
#include "tier/kernel/fs/proc.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/walk/hostmem.h"

enum { PAGE = 4096, BLOCK = 4096, CHUNK = 64 };
#define UNKNOWN_MAX (4ULL << 30)
/* Bits of a page in pagemap. */
#define PAGE_PRESENT (1ULL << 63)
#define PAGE_SWAPPED (1ULL << 62)
#define PAGE_OF_FILE (1ULL << 61)

int hostmem_open(struct hostmem *h, struct kernel *k, pid_t pid)
{
	char path[32];
	int r = str_fmt(path, sizeof(path), "%d/mem", (int)pid);

	*h = (struct hostmem){ -1, -1 };
	if (r < 0 || k->host_proc < 0)
		return r < 0 ? r : -ESRCH;
	h->mem = host_openat(k->host_proc, path, O_RDONLY | O_CLOEXEC, 0);
	if (h->mem < 0)
		return h->mem;
	str_fmt(path, sizeof(path), "%d/pagemap", (int)pid);
	h->map = host_openat(k->host_proc, path, O_RDONLY | O_CLOEXEC, 0);
	if (h->map >= 0)
		return 0;
	r = h->map;
	hostmem_close(h);
	return r;
}

void hostmem_close(struct hostmem *h)
{
	if (h->mem >= 0)
		close(h->mem);
	if (h->map >= 0)
		close(h->map);
	*h = (struct hostmem){ -1, -1 };
}

struct reader {
	struct hostmem *h;
	int (*fn)(void *arg, uint64_t at, uint8_t *page);
	void *arg;
	bool all; /* of a file that may have become shorter: what is behind its end nobody can read
		   */
	uint8_t *chunk;
	uint64_t *block;
};

static int read_run(struct reader *d, uint64_t from, uint64_t to)
{
	int r = 0;

	while (from < to && r == 0) {
		uint64_t want = to - from < CHUNK * PAGE ? to - from : CHUNK * PAGE, at;
		ssize_t n = host_pread(d->h->mem, d->chunk, want, (int64_t)from);

		if (n == 0 || (n < PAGE && !d->all))
			return n < 0 ? (int)n : -ESRCH; /* without memory: it has just died */
		for (at = 0; n >= PAGE && at + PAGE <= (uint64_t)n && r == 0; at += PAGE)
			r = d->fn(d->arg, from + at, d->chunk + at);
		from += n >= PAGE ? at : PAGE;
	}
	return r;
}

/* Of a file, a page that is there and not the file's is the guest's own. */
static bool is_own(uint64_t page)
{
	return (page & PAGE_SWAPPED) || ((page & PAGE_PRESENT) && !(page & PAGE_OF_FILE));
}

static int read_own(struct reader *d, uint64_t from, uint64_t to)
{
	while (from < to) {
		uint64_t left = (to - from) / PAGE, n = left < BLOCK ? left : BLOCK, i = 0, j;
		ssize_t got = host_pread(d->h->map, d->block, n * 8, (int64_t)(from / PAGE * 8));
		int r;

		if (got < (ssize_t)(n * 8))
			return got < 0 ? (int)got : -EIO;
		for (; i < n; i = j) {
			for (; i < n && !is_own(d->block[i]); i++)
				;
			for (j = i; j < n && is_own(d->block[j]); j++)
				;
			r = read_run(d, from + i * PAGE, from + j * PAGE);
			if (r != 0)
				return r;
		}
		from += n * PAGE;
	}
	return 0;
}

int hostmem_each(struct hostmem *h, const struct proc_range *range, bool is_known,
	int (*fn)(void *arg, uint64_t at, uint8_t *page), void *arg)
{
	struct reader d = { .h = h, .fn = fn, .arg = arg, .all = range->file && !is_known };
	int r = -ENOMEM;

	if (range->time || (range->shared && is_known) || (!d.all && !range->used_kb))
		return 0;
	if (d.all && range->to - range->from > UNKNOWN_MAX)
		return -EFBIG;
	d.chunk = malloc(CHUNK * PAGE);
	d.block = malloc(BLOCK * sizeof(*d.block));
	if (d.chunk && d.block)
		r = d.all ? read_run(&d, range->from, range->to)
			  : read_own(&d, range->from, range->to);
	free(d.chunk);
	free(d.block);
	return r;
}
