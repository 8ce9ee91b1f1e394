/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_MM_COPY_H
#define WARD_TIER_KERNEL_MM_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tier/kernel/limits.h"

/*
 * The only way to a guest's memory. A guest address is a struct, so that nobody follows it by
 * mistake. Copy in once, check the copy, never read the same thing twice: the guest can change it
 * between the two. All return 0 or a negative errno for the guest (-EFAULT), unless said otherwise.
 */
typedef struct {
	uint64_t v;
} gva_t;

#define GVA(x) ((gva_t){ (uint64_t)(x) })
static inline gva_t gva_add(gva_t a, uint64_t n)
{
	return (gva_t){ a.v + n };
}
static inline bool gva_null(gva_t a)
{
	return a.v == 0;
}

/* Could these bytes be a guest's at all? Linux looks at that before it moves the first. */
#define GUEST_ADDR_END 0x7ffffffff000ULL
static inline bool gva_range_ok(gva_t a, uint64_t len)
{
	return len <= GUEST_ADDR_END && a.v <= GUEST_ADDR_END - len;
}

struct task;
struct mm;

int guest_read(struct task *t, void *dst, gva_t src, size_t len);
int guest_write(struct task *t, gva_t dst, const void *src, size_t len);
/* As far as it goes: bytes copied (may be short), or -EFAULT when not even one. */
ssize_t guest_read_some(struct task *t, void *dst, gva_t src, size_t len);
ssize_t guest_write_some(struct task *t, gva_t dst, const void *src, size_t len);
/* A NUL-terminated string: its length; -ENAMETOOLONG when it does not end within @cap. */
ssize_t guest_copy_string(struct task *t, gva_t src, char *dst, size_t cap);
/* The same for a path; "" is the caller's business (-ENOENT or AT_EMPTY_PATH). */
ssize_t guest_copy_path(struct task *t, gva_t src, char *dst, size_t cap);

/*
 * For many small things that lie close together, as the words of an execve: whole pages are
 * fetched, and what lies in a page that was fetched before costs nothing. Zeroed memory; what it
 * holds is a private copy and gets old, so for one call only.
 */
enum { PEEK_PAGES = 8, PEEK_PAGE = 4096 };
struct peek {
	struct {
		uint64_t at; /* address + 1; 0: empty */
		char bytes[PEEK_PAGE];
	} pages[PEEK_PAGES];
};
int peek_read(struct task *t, struct peek *w, void *dst, gva_t src, size_t len);
ssize_t peek_string(struct task *t, struct peek *w, gva_t src, char *dst, size_t cap);

static inline int guest_read_u64(struct task *t, gva_t src, uint64_t *ret)
{
	return guest_read(t, ret, src, sizeof(*ret));
}
static inline int guest_read_u32(struct task *t, gva_t src, uint32_t *ret)
{
	return guest_read(t, ret, src, sizeof(*ret));
}
static inline int guest_write_u64(struct task *t, gva_t dst, uint64_t v)
{
	return guest_write(t, dst, &v, sizeof(v));
}
static inline int guest_write_u32(struct task *t, gva_t dst, uint32_t v)
{
	return guest_write(t, dst, &v, sizeof(v));
}
/* struct timespec of 64 bits as ns; -EINVAL when it is not a valid one. */
int guest_read_timespec(struct task *t, gva_t src, int64_t *ret_ns);
int guest_write_timespec(struct task *t, gva_t dst, int64_t ns);

/*
 * A transfer between a file and memory: of the guest (iovecs, copied in once and checked), or of
 * the kernel itself (@kernel_base, for exec, sendfile and tests). File operations see only this
 * and move bytes with uio_in() (memory -> file, for a write) and uio_out() (file -> memory).
 */
struct uio {
	struct task *task;
	struct {
		gva_t base;
		uint64_t len;
	} one, *iov; /* @iov points at @one, or at memory that uio_done() frees */
	unsigned count, at;
	uint64_t skip;     /* bytes of iov[at] already done */
	uint64_t left;     /* bytes still to go */
	char *kernel_base; /* not NULL: plain memory, @left bytes from here */
	bool may_wait;     /* a read may answer SYS_BLOCK: the host's disk is asked (io/disk.h) */
};

int uio_guest(struct uio *io, struct task *t, gva_t base, uint64_t len);
int uio_guest_iov(struct uio *io, struct task *t, gva_t iov, uint64_t count);
void uio_kernel(struct uio *io, void *base, size_t len);
void uio_done(struct uio *io);
/* Bytes moved (at most @len and uio.left), or -EFAULT when none could be. Advances. */
ssize_t uio_in(struct uio *io, void *dst, size_t len);        /* out of the guest's memory */
ssize_t uio_out(struct uio *io, const void *src, size_t len); /* into the guest's memory */

void uio_back(struct uio *io, size_t len); /* takes the last @len bytes back; same call only */

/* An address space. The engine makes one per guest memory; a fake guest's is a buffer. */
struct mm_ops {
	ssize_t (*read)(struct mm *mm, void *dst, uint64_t src, size_t len);
	ssize_t (*write)(struct mm *mm, uint64_t dst, const void *src, size_t len);
	/* Optional. As much as there is of these bytes without a look at the guest's memory. */
	size_t (*hand)(struct mm *mm, void *dst, uint64_t src, size_t len);
};

#endif
