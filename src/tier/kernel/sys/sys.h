/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_SYS_SYS_H
#define WARD_TIER_KERNEL_SYS_SYS_H

#include <errno.h>
#include <stdint.h>
#include <unistd.h>
#include <sys/resource.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/mm/copy.h"
#include "tier/kernel/task/task.h"

/* Some libcs give these names to other functions; here they are names of calls. */
#undef pread64
#undef pwrite64
#undef prlimit64

/*
 * A system call is one function and one row (sys/table.def):
 *
 *	SYSCALL2(fchmod, int, fd, unsigned, mode)
 *	{
 *		struct file *f = fd_get(task, fd);
 *
 *		if (!f)
 *			return -EBADF;
 *		return vfs_chmod(task, f->path, mode);
 *	}
 *
 * @task is there in every one. It returns the value for the guest: a plain -errno and no struct
 * err; or SYS_BLOCK (task/wait.h). The kernel lock is held. An argument of a guest address is a
 * gva_t; integers are cut to their C type, as Linux cuts them.
 */
typedef long syscall_fn(struct task *task, const uint64_t *a);

/* Register -> argument. gva_t is the only struct among them. */
#define ARG_(type, i)                                                                              \
	((union {                                                                                  \
		uint64_t u;                                                                        \
		type v;                                                                            \
	}){ .u = a[i] }                                                                            \
			.v)

#define SYSCALL0(name)                                                                             \
	long sys_##name(struct task *task, const uint64_t *a);                                     \
	long sys_##name(struct task *task, const uint64_t *a)
#define SYSCALL_BODY_(name, params, ...)                                                           \
	long sys_##name(struct task *task, const uint64_t *a);                                     \
	static inline long do_##name params;                                                       \
	long sys_##name(struct task *task, const uint64_t *a)                                      \
	{                                                                                          \
		return do_##name(task, __VA_ARGS__);                                               \
	}                                                                                          \
	static inline long do_##name params
#define SYSCALL1(name, t0, n0) SYSCALL_BODY_(name, (struct task * task, t0 n0), ARG_(t0, 0))
#define SYSCALL2(name, t0, n0, t1, n1)                                                             \
	SYSCALL_BODY_(name, (struct task * task, t0 n0, t1 n1), ARG_(t0, 0), ARG_(t1, 1))
#define SYSCALL3(name, t0, n0, t1, n1, t2, n2)                                                     \
	SYSCALL_BODY_(name, (struct task * task, t0 n0, t1 n1, t2 n2), ARG_(t0, 0), ARG_(t1, 1),   \
		ARG_(t2, 2))
#define SYSCALL4(name, t0, n0, t1, n1, t2, n2, t3, n3)                                             \
	SYSCALL_BODY_(name, (struct task * task, t0 n0, t1 n1, t2 n2, t3 n3), ARG_(t0, 0),         \
		ARG_(t1, 1), ARG_(t2, 2), ARG_(t3, 3))
#define SYSCALL5(name, t0, n0, t1, n1, t2, n2, t3, n3, t4, n4)                                     \
	SYSCALL_BODY_(name, (struct task * task, t0 n0, t1 n1, t2 n2, t3 n3, t4 n4), ARG_(t0, 0),  \
		ARG_(t1, 1), ARG_(t2, 2), ARG_(t3, 3), ARG_(t4, 4))
#define SYSCALL6(name, t0, n0, t1, n1, t2, n2, t3, n3, t4, n4, t5, n5)                             \
	SYSCALL_BODY_(name, (struct task * task, t0 n0, t1 n1, t2 n2, t3 n3, t4 n4, t5 n5),        \
		ARG_(t0, 0), ARG_(t1, 1), ARG_(t2, 2), ARG_(t3, 3), ARG_(t4, 4), ARG_(t5, 5))

/* sys/seccomp.c, for prctl. */
long seccomp_set_strict(struct task *task);
long seccomp_set_filter(struct task *task, unsigned flags, gva_t uprog);

/* The row of a call, or NULL for a number that does not exist. */
enum sys_state { SYS_FULL, SYS_STUB, SYS_NATIVE, SYS_NONE };
struct sys_row {
	const char *name;
	syscall_fn *fn; /* NULL: none */
	enum sys_state state;
	const char *note;
};
const struct sys_row *sys_row(int64_t nr);
enum { SYS_NR_MAX = 512 };

/* Starts a call of @t; true when it is over (task->call.ret), false when it blocks. */
bool call_begin(struct task *t, int64_t nr, const uint64_t args[6]);
/* Enters a blocked call again; as above. */
bool call_again(struct task *t);
/* Ends a blocked call without entering it again (the task is going away). */
void call_drop(struct task *t);

/* sys/filemisc.c: a copy between two files that has read more than it has written. That is walked
 * with its call; what other calls keep in call.own is made again. */
struct walk;
bool call_copy_keeps(const struct task *t);
void call_copy_walk(struct task *t, struct walk *w);

#endif
