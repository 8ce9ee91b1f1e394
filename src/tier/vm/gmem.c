/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/gmem.c - guest memory, and the only place where a guest address becomes a pointer.
 *
 * Owns:  the mapping of all regions, with unreadable pages around each.
 * Rules: a range is checked as one: start, length and end, against one region. A range across the
 *        device gap is not memory, whatever its ends are.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "base/ckd.h"
#include "tier/vm/gmem.h"

unsigned gmem_layout(uint64_t bytes, struct gmem_region ret[GMEM_REGIONS_MAX])
{
	uint64_t low = bytes < GMEM_GAP_START ? bytes : GMEM_GAP_START;

	ret[0] = (struct gmem_region){ .base = 0, .size = low };
	if (low == bytes)
		return 1;
	ret[1] = (struct gmem_region){ .base = GMEM_GAP_END, .size = bytes - low, .offset = low };
	return 2;
}

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* One reservation that nothing can be read from; the regions go into it, guards stay. */
static int reserve(struct gmem *m, uint64_t bytes, struct err *e)
{
	size_t total = GMEM_GUARD;
	uint8_t *area;

	if (bytes < GMEM_MIN || bytes > GMEM_MAX || bytes % GMEM_PAGE != 0)
		return err_say(e, EINVAL, "guest memory of %llu bytes: from %llu MiB to %llu GiB",
			(unsigned long long)bytes, GMEM_MIN >> 20, GMEM_MAX >> 30);
	*m = (struct gmem){ .fd = -1, .bytes = bytes };
	m->count = gmem_layout(bytes, m->regions);
	for (unsigned i = 0; i < m->count; i++)
		total += round_up(m->regions[i].size, GMEM_GUARD) + GMEM_GUARD;
	total += GMEM_GUARD; /* for alignment */
	area = mmap(NULL, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		return err_set(e, errno, "reserving %zu bytes of addresses for a guest", total);
	m->area = area;
	m->area_bytes = total;
	area = (uint8_t *)round_up((uint64_t)(uintptr_t)area, GMEM_GUARD) + GMEM_GUARD;
	for (unsigned i = 0; i < m->count; i++) {
		m->regions[i].host = area;
		area += round_up(m->regions[i].size, GMEM_GUARD) + GMEM_GUARD;
	}
	return 0;
}

static int place(struct gmem *m, int fd, int flags, struct err *e)
{
	for (unsigned i = 0; i < m->count; i++) {
		struct gmem_region *g = &m->regions[i];
		void *at = mmap(g->host, g->size, PROT_READ | PROT_WRITE,
			MAP_FIXED | MAP_NORESERVE | flags, fd, fd < 0 ? 0 : (off_t)g->offset);

		if (at == MAP_FAILED)
			return err_set(e, errno, "mapping %llu MiB of guest memory",
				(unsigned long long)(g->size >> 20));
		/* Snapshots are files of their own; a core dump must not be a second one. */
		madvise(at, g->size, MADV_DONTDUMP);
		if (fd < 0)
			madvise(at, g->size, MADV_HUGEPAGE);
	}
	return 0;
}

static int make_file(uint64_t bytes, int *ret_fd, struct err *e)
{
	int fd = memfd_create("guest", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return err_set(e, errno, "making a memory file for a guest");
	if (ftruncate(fd, (off_t)bytes) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0) {
		int r = err_set(
			e, errno, "sizing a memory file of %llu bytes", (unsigned long long)bytes);

		close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

int gmem_create(struct gmem *m, uint64_t bytes, enum gmem_kind kind, struct err *e)
{
	int r = reserve(m, bytes, e);

	m->kind = kind;
	if (r == 0 && kind == GMEM_SHARED)
		r = make_file(bytes, &m->fd, e);
	if (r == 0)
		r = place(m, m->fd, m->fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, e);
	if (r < 0)
		gmem_done(m);
	return r;
}

int gmem_map(struct gmem *m, int fd, uint64_t bytes, struct err *e)
{
	int r = reserve(m, bytes, e);

	m->kind = GMEM_COPY;
	if (r == 0)
		r = place(m, fd, MAP_PRIVATE, e);
	if (r < 0)
		gmem_done(m);
	return r;
}

void gmem_done(struct gmem *m)
{
	if (m->area)
		munmap(m->area, m->area_bytes);
	if (m->area && m->fd >= 0)
		close(m->fd);
	free(m->dirty);
	*m = (struct gmem){ .fd = -1 };
}

/* The region that holds all of the range; NULL: none does. */
static const struct gmem_region *find(const struct gmem *m, gpa_t at, uint64_t len)
{
	for (unsigned i = 0; i < m->count; i++) {
		const struct gmem_region *g = &m->regions[i];

		if (at.v >= g->base && at.v - g->base < g->size &&
			len <= g->size - (at.v - g->base))
			return g;
	}
	return NULL;
}

bool gmem_has(const struct gmem *m, gpa_t at, uint64_t len)
{
	return find(m, at, len) != NULL;
}

static uint8_t *pointer(const struct gmem *m, gpa_t at, uint64_t len)
{
	const struct gmem_region *g = find(m, at, len);

	return g ? g->host + (at.v - g->base) : NULL;
}

bool gmem_read(const struct gmem *m, gpa_t at, void *to, size_t len)
{
	const uint8_t *p = pointer(m, at, len);

	if (!p)
		return false;
	memcpy(to, p, len);
	return true;
}

bool gmem_write(struct gmem *m, gpa_t at, const void *from, size_t len)
{
	uint8_t *p = pointer(m, at, len);

	if (!p)
		return false;
	gmem_mark(m, at, len);
	memcpy(p, from, len);
	return true;
}

bool gmem_fill(struct gmem *m, gpa_t at, uint8_t byte, size_t len)
{
	uint8_t *p = pointer(m, at, len);

	if (!p)
		return false;
	gmem_mark(m, at, len);
	memset(p, byte, len);
	return true;
}

bool gmem_iov(struct gmem *m, gpa_t at, uint64_t len, bool written, struct iovec *ret)
{
	uint8_t *p = pointer(m, at, len);

	if (!p)
		return false;
	if (written)
		gmem_mark(m, at, len);
	*ret = (struct iovec){ .iov_base = p, .iov_len = len };
	return true;
}

volatile void *gmem_ring(struct gmem *m, gpa_t at, uint64_t len, unsigned align)
{
	return at.v % align == 0 ? pointer(m, at, len) : NULL;
}

bool gmem_where(const struct gmem *m, const void *host, gpa_t *ret)
{
	for (unsigned i = 0; i < m->count; i++) {
		const struct gmem_region *g = &m->regions[i];
		uintptr_t first = (uintptr_t)g->host, at = (uintptr_t)host;

		if (at >= first && at - first < g->size) {
			*ret = GPA(g->base + (at - first));
			return true;
		}
	}
	return false;
}

bool gmem_release(struct gmem *m, gpa_t at, uint64_t len)
{
	const struct gmem_region *g = find(m, at, len);
	uint8_t *p = pointer(m, at, len);
	uint64_t offset;

	if (!p || at.v % GMEM_PAGE || len % GMEM_PAGE || !len)
		return false;
	gmem_mark(m, at, len); /* what was there is not there any more */
	switch (m->kind) {
	case GMEM_ANON:
		return madvise(p, len, MADV_DONTNEED) == 0;
	case GMEM_SHARED:
		offset = g->offset + (at.v - g->base);
		return fallocate(m->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
			       (off_t)len) == 0;
	case GMEM_COPY:
		/* MADV_DONTNEED would bring the file's old page back. */
		return mmap(p, len, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
			       0) != MAP_FAILED;
	}
	return false;
}

int gmem_track(struct gmem *m, struct err *e)
{
	if (!m->dirty)
		m->dirty = calloc((m->bytes / GMEM_PAGE + 63) / 64, sizeof(*m->dirty));
	return m->dirty ? 0 : err_set(e, ENOMEM, "a bitmap of guest pages");
}

void gmem_mark(struct gmem *m, gpa_t at, uint64_t len)
{
	const struct gmem_region *g = m->dirty && len ? find(m, at, len) : NULL;
	uint64_t first, last;

	if (!g)
		return;
	first = (g->offset + (at.v - g->base)) / GMEM_PAGE;
	last = (g->offset + (at.v - g->base) + len - 1) / GMEM_PAGE;
	for (uint64_t i = first; i <= last; i++)
		__atomic_fetch_or(&m->dirty[i / 64], 1ull << (i % 64), __ATOMIC_RELAXED);
}
