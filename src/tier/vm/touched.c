/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/touched.c - the pages that a copy needs first.
 *
 * Owns:  their part of the state file: a head with a sum, and the runs.
 * Rules: a hint, and hostile like the rest of a snapshot: checked whole before use, and only ever
 *        used to read pages of the snapshot's own memory ahead, or to copy them, a bounded number.
 *        Two copies may write it at one time; what gets mixed up has a wrong sum, and is ignored.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/own.h"
#include "host/host.h"
#include "tier/vm/touched.h"

enum { POPULATE_WRITE = 23 }; /* MADV_..., which not every libc has */

static const char magic[8] = { 'w', 'a', 'r', 'd', 't', '2', '\r', '\n' };

struct part {
	char magic[8];
	uint8_t body_sha[SHA256_BYTES]; /* of the state that it is about */
	uint8_t sha[SHA256_BYTES];      /* of what follows */
	struct touched touched;         /* as much of it as it has runs */
};

static size_t bytes_of(const struct touched *t)
{
	return offsetof(struct touched, runs) + t->count * sizeof(t->runs[0]);
}

static void sum(const struct touched *t, uint8_t ret[SHA256_BYTES])
{
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, t, bytes_of(t));
	sha256_end(&s, ret);
}

void touched_add(struct touched *t, uint64_t n, bool written)
{
	struct touched_run *last = t->count ? &t->runs[t->count - 1] : NULL;
	uint64_t end = last ? (uint64_t)last->first + last->count : 0;

	if (n > UINT32_MAX)
		return;
	if (last && n == end && last->written == written && last->count < UINT16_MAX)
		last->count++;
	else if (t->count < TOUCHED_RUNS_MAX)
		t->runs[t->count++] = (struct touched_run){ (uint32_t)n, 1, written };
}

bool touched_is_sound(const struct touched *t, uint64_t memory_bytes)
{
	uint64_t end = 0, pages = 0, written = 0;

	if (!t->count || t->count > TOUCHED_RUNS_MAX)
		return false;
	for (uint32_t i = 0; i < t->count; i++) {
		const struct touched_run *r = &t->runs[i];

		if (!r->count || r->first < end || r->written > 1)
			return false;
		end = (uint64_t)r->first + r->count;
		pages += r->count;
		written += r->written ? r->count : 0;
	}
	return end <= memory_bytes / GMEM_PAGE && pages <= TOUCHED_PAGES_MAX &&
	       written <= TOUCHED_WRITTEN_MAX;
}

static off_t where(const struct snap_head *h)
{
	return (off_t)(sizeof(*h) + h->body_bytes);
}

int touched_write(int fd, const struct snap_head *h, const struct touched *t, struct err *e)
{
	struct part p;
	ssize_t n;

	memcpy(p.magic, magic, sizeof(magic));
	memcpy(p.body_sha, h->body_sha, sizeof(p.body_sha));
	memcpy(&p.touched, t, bytes_of(t));
	sum(t, p.sha);
	n = host_pwrite(fd, &p, offsetof(struct part, touched) + bytes_of(t), where(h));
	return n < 0 ? err_set(e, (int)-n, "noting which pages a copy needs first") : 0;
}

bool touched_take(const void *data, size_t len, const struct snap_head *h, struct touched *ret)
{
	uint8_t want[SHA256_BYTES];
	struct part p;

	if (len < offsetof(struct part, touched) + offsetof(struct touched, runs))
		return false;
	memcpy(&p, data, len < sizeof(p) ? len : sizeof(p));
	if (memcmp(p.magic, magic, sizeof(magic)) != 0 ||
		memcmp(p.body_sha, h->body_sha, sizeof(p.body_sha)) != 0 ||
		p.touched.count > TOUCHED_RUNS_MAX ||
		len < offsetof(struct part, touched) + bytes_of(&p.touched))
		return false;
	sum(&p.touched, want);
	if (memcmp(want, p.sha, sizeof(want)) != 0 ||
		!touched_is_sound(&p.touched, h->memory_bytes))
		return false;
	memcpy(ret, &p.touched, bytes_of(&p.touched));
	return true;
}

bool touched_read(int fd, const struct snap_head *h, struct touched *ret)
{
	struct part p;
	ssize_t n = host_pread(fd, &p, sizeof(p), where(h));

	return n > 0 && touched_take(&p, (size_t)n, h, ret);
}

/*
 * What is only read is asked for, not waited for: the guest runs meanwhile. To have it mapped as
 * well (MADV_POPULATE_READ) was tried: it took as long as the faults that it saved, in front of the
 * first instruction, and filled the holes of a memory file. A page that is written to is another
 * matter: the guest leaves three times for it, to read, to write, and once more because its copy
 * is elsewhere. Made before, one is left.
 */
void touched_fetch(const struct touched *t, const struct gmem *mem)
{
	for (uint32_t i = 0; i < t->count; i++) {
		uint64_t first = (uint64_t)t->runs[i].first * GMEM_PAGE;
		uint64_t end = first + (uint64_t)t->runs[i].count * GMEM_PAGE;

		/* A run may lie across the gap: a part in each region. */
		for (unsigned k = 0; k < mem->count; k++) {
			const struct gmem_region *g = &mem->regions[k];
			uint64_t from = first > g->offset ? first : g->offset;
			uint64_t to = end < g->offset + g->size ? end : g->offset + g->size;
			uint8_t *at;

			if (from >= to)
				continue;
			at = g->host + (from - g->offset);
			/* An older kernel does not know how. */
			if (!t->runs[i].written || madvise(at, to - from, POPULATE_WRITE) < 0)
				if (madvise(at, to - from, MADV_WILLNEED) < 0)
					return;
		}
	}
}
