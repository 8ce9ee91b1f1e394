/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_FAKE_H
#define WARD_TIER_KERNEL_FAKE_H

#include "tier/kernel/kernel.h"
#include "tier/kernel/sys/sys.h"

/*
 * A guest without a guest: a kernel with one process whose address space is a buffer, so that
 * system call functions can be called from unit tests. Linked into tests only.
 *
 *	struct fake *g = fake_create();
 *	gva_t fds = fake_alloc(g, 8);
 *	assert_int_equal(fake_call(g->task, SYS_pipe2, fds.v, 0), 0);
 *	...
 *	assert_int_equal(fake_call(other, SYS_read, fd, buf.v, 1), SYS_BLOCK);   // waits
 *	fake_call(g->task, SYS_write, fd2, buf.v, 1);
 *	assert_true(fake_over(other, &ret));                                     // has been woken
 *	fake_destroy(g);
 */
struct fake {
	struct kernel k;
	struct task *task; /* the first: pid 1 */
	uint64_t used;     /* of the buffer */
};

enum { FAKE_START = 0x10000, FAKE_BYTES = 4 << 20 };

struct fake *fake_create(void);
void fake_destroy(struct fake *g);
/* More tasks: a thread of @t's process, or a process of its own (copied files, fs, ...). */
struct task *fake_thread(struct task *t);
struct task *fake_fork(struct task *t);

gva_t fake_alloc(struct fake *g, size_t len); /* zeroed, 16-aligned; shared by all tasks */
gva_t fake_put(struct fake *g, const void *p, size_t len);
gva_t fake_str(struct fake *g, const char *s);
void *fake_ptr(struct fake *g, gva_t at); /* for looking at results */

/* Runs a call to its end or until it blocks (SYS_BLOCK), then lets everyone who was woken go on. */
long fake_call_(struct task *t, int64_t nr, const uint64_t args[6]);
#define fake_call(t, nr, ...) fake_call_(t, nr, (const uint64_t[6]){ __VA_ARGS__ })
/* Is the blocked call of @t over? Its value in *ret. */
bool fake_over(struct task *t, long *ret);
/* Sleeps until the next timer (or @ms), and runs what is due. */
void fake_sleep(struct fake *g, unsigned ms);

#endif
