/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TASK_SIGNAL_H
#define WARD_TIER_KERNEL_TASK_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "tier/kernel/task/wait.h"

/*
 * Signals as the guest sees them. Numbers 1..64; a set is a uint64_t, bit (n - 1). All under the
 * kernel lock.
 */
enum { GSIG_MAX = 64, GSIG_RT_MIN = 32 };
typedef uint64_t gsigset_t;
#define GSIG_BIT(n) (1ULL << ((n)-1))

/* siginfo_t as the guest gets it: 128 bytes, the kernel's layout. */
union gsiginfo {
	struct {
		int32_t signo, err, code, pad;
		union {
			struct {
				int32_t pid;
				uint32_t uid;
				uint64_t value;
			} kill; /* kill, rt */
			struct {
				int32_t tid, overrun;
				uint64_t value;
			} timer;
			struct {
				int32_t pid;
				uint32_t uid;
				int32_t status, pad2;
				int64_t utime, stime;
			} chld;
			struct {
				uint64_t addr;
				int16_t lsb;
			} fault;
			struct {
				int64_t band;
				int32_t fd;
			} poll;
		};
	};
	uint8_t raw[128];
};

/* struct sigaction as rt_sigaction has it. */
struct gsigaction {
	uint64_t handler, flags, restorer, mask;
};
#define GSIG_DFL 0ULL
#define GSIG_IGN 1ULL

struct sigqueued {
	struct sigqueued *next;
	union gsiginfo info;
	void *timer; /* POSIX timer that owns this entry (not counted, not freed), or NULL */
};

struct sigpending {
	gsigset_t set;
	struct sigqueued *first, **last; /* last == NULL: empty, never used */
};

/* Shared by the threads of a process (CLONE_SIGHAND). */
struct sighand {
	unsigned refs;
	struct gsigaction act[GSIG_MAX];
};

struct task;
struct proc;
struct kernel;
struct pgrp;

/* @info NULL: as if the kernel had sent it (SI_KERNEL). 0 or a negative errno (-EAGAIN: queue
 * full, real-time only). No permission check: see signal_may(). */
int signal_send_task(struct task *t, int sig, const union gsiginfo *info);
int signal_send_proc(struct proc *p, int sig, const union gsiginfo *info);
/* To every process of the group; number of processes reached. */
int signal_send_pgrp(struct pgrp *g, int sig, const union gsiginfo *info);
/* A fault or a signal that cannot be blocked or ignored away: SEGV, PIPE goes by send. */
void signal_force(struct task *t, int sig, const union gsiginfo *info);
/* May @t send @sig to @p (kill(2))? 0 or -EPERM. */
int signal_may(struct task *t, struct proc *p, int sig);
/* kill(2)'s siginfo for @t as the sender. */
void signal_info_user(struct task *t, int sig, union gsiginfo *ret);

/* Anything the task must act on (unblocked and not ignored, or a kill)? */
bool signal_pending(const struct task *t);
/* All that is pending for the task and its process, blocked or not (sigpending, signalfd). */
gsigset_t signal_set(const struct task *t);
/* Takes one pending signal of @set off (thread's own first); its number, or 0. */
int signal_take(struct task *t, gsigset_t set, union gsiginfo *ret);
/* Woken with POLLIN whenever a signal is queued for the process or one of its threads. */
struct wait_queue *signal_queue(struct task *t);

/* Drops what is queued. */
void sigpending_flush(struct kernel *k, struct sigpending *p);
/* Drops pending signals of @set for the process and its threads (they are ignored from now on). */
void sigpending_drop(struct proc *p, gsigset_t set);

/* The task's mask; SIGKILL and SIGSTOP never stay in it. */
void signal_set_mask(struct task *t, gsigset_t mask);
/*
 * A mask for this call only (ppoll, pselect, epoll_pwait, sigsuspend). Call it in the first entry;
 * the old one comes back when the call ends, or when the handler that interrupted it returns.
 */
void signal_wait_mask(struct task *t, gsigset_t mask);

#endif
