/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_GMEM_H
#define WARD_TIER_VM_GMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/err.h"

/*
 * Guest memory. A guest-physical address is a struct, so that nobody follows it by mistake; this is
 * the one place that turns it into a pointer, after checking the whole range.
 */
typedef struct {
	uint64_t v;
} gpa_t;

#define GPA(x) ((gpa_t){ (x) })

enum {
	GMEM_PAGE = 4096,
	GMEM_REGIONS_MAX = 2,
	GMEM_GUARD = 2 << 20, /* unreadable on both sides, and keeps regions aligned for huge pages
			       */
};

#define GMEM_MIN (16ull << 20)
#define GMEM_MAX (256ull << 30)
#define GMEM_GAP_START 0xc0000000ull /* 1 GiB of devices below 4 GiB */
#define GMEM_GAP_END 0x100000000ull

struct gmem_region {
	uint64_t base, size; /* guest-physical */
	uint64_t offset;     /* of its first byte in the memory file */
	uint8_t *host;
};

/* How a page is given back to the host depends on what is mapped there. */
enum gmem_kind {
	GMEM_ANON,   /* fresh, nobody else's */
	GMEM_SHARED, /* a memfd: forks map it privately */
	GMEM_COPY,   /* private over a memory file: a restored or forked machine */
};

struct gmem {
	struct gmem_region regions[GMEM_REGIONS_MAX];
	unsigned count;
	uint64_t bytes;
	enum gmem_kind kind;
	int fd;     /* the memfd of GMEM_SHARED, ours; else -1 */
	void *area; /* the whole reservation, guards included */
	size_t area_bytes;
	uint64_t *dirty; /* a bit per page that the monitor itself wrote; NULL: nobody asks */
};

/* How @bytes are laid out around the gap; the same for every way of making them. */
unsigned gmem_layout(uint64_t bytes, struct gmem_region ret[GMEM_REGIONS_MAX]);

int gmem_create(struct gmem *m, uint64_t bytes, enum gmem_kind kind, struct err *e);
/* Private over @bytes of the file @fd, which is borrowed and must never change from now on. */
int gmem_map(struct gmem *m, int fd, uint64_t bytes, struct err *e);
void gmem_done(struct gmem *m); /* a zeroed one is fine */

/* Is all of [at, at + len) memory, within one region? len 0: is @at? */
bool gmem_has(const struct gmem *m, gpa_t at, uint64_t len);

/* False, and nothing done, when some of the range is not memory. */
bool gmem_read(const struct gmem *m, gpa_t at, void *to, size_t len);
bool gmem_write(struct gmem *m, gpa_t at, const void *from, size_t len);
bool gmem_fill(struct gmem *m, gpa_t at, uint8_t byte, size_t len);

/*
 * The range as an iovec for a device's transfer; @written: the device will write there, so its
 * pages count as dirty. The guest can change the bytes at any time: copy before checking.
 */
bool gmem_iov(struct gmem *m, gpa_t at, uint64_t len, bool written, struct iovec *ret);
/* A ring that is read and written for a whole life. NULL: not memory, or not so aligned. */
volatile void *gmem_ring(struct gmem *m, gpa_t at, uint64_t len, unsigned align);

/* Where in the guest the pointer of a gmem_iov() is. False: nowhere. */
bool gmem_where(const struct gmem *m, const void *host, gpa_t *ret);

/* Gives whole pages back to the host; they read as zeros afterwards. False: not memory. */
bool gmem_release(struct gmem *m, gpa_t at, uint64_t len);

/* From now on the monitor's own writes are noted. */
int gmem_track(struct gmem *m, struct err *e);
void gmem_mark(struct gmem *m, gpa_t at, uint64_t len);

#endif
