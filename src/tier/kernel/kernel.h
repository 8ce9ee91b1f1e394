/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_KERNEL_H
#define WARD_TIER_KERNEL_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "tier/kernel/limits.h"
#include "tier/kernel/task/task.h"
#include "tier/kernel/task/wait.h"

/*
 * The whole state of one sandbox. There is one lock, kernel.lock, with short sections: every
 * system call function, wait-queue callback and timer runs under it, so code in vfs/, fs/, sys/
 * and sock/ needs no locks of its own.
 *
 *  - Host I/O that may take long (a read from a cold disk, fsync) is a job of io/disk.h: the call
 *    blocks as on anything else, and a thread without the lock waits for the host.
 *  - A reply is never sent under the lock: finished calls are put on k->outbox and leave when the
 *    lock is given back (the guest preempts whoever answers it).
 *  - Host threads: one per listener (trap/), one loop thread (timers, host descriptors). Which of
 *    them runs a call is not defined; nothing may be kept in thread-local state.
 */
struct kernel;
struct mount;
struct ns;
struct super;

/* How finished calls and kicks reach the guest: the engine's, or a fake's in unit tests. */
struct engine_ops {
	/* Under the lock: task->call is over, its value in call.ret. */
	void (*finish)(struct task *t);
	/* Under the lock, optional: a blocked call of the task is entered again, and was. */
	void (*again)(struct task *t);
	void (*entered)(struct task *t);
	/* Under the lock: a signal or stop is pending for a task that is not in a call. */
	void (*kick)(struct task *t);
	/* Under the lock: the proc is over; its host process must go. */
	void (*kill)(struct proc *p);
	/* Under the lock: the task's call (exit) is answered by letting it go natively. */
	void (*leave)(struct task *t);
	/* Under the lock: the task is over; forget its host thread. */
	void (*release)(struct task *t);
	/* The section is over: woken calls go on, the lock is given back, replies leave. NULL:
	 * there is nobody to reply to. */
	void (*end)(struct kernel *k);
};

/* A host descriptor that the loop thread watches. @fn runs under the lock. */
struct watch {
	int fd;
	unsigned events; /* EPOLL* asked for */
	uint32_t number; /* watch_add() gives it: no two watches have the same */
	void (*fn)(struct kernel *k, struct watch *w, unsigned events);
};

struct unknown_call {
	int32_t nr;
	uint32_t count;
};

/* What ward reads when the sandbox is over; a page that both have. */
struct kernel_report {
	uint32_t unknown_count;
	struct unknown_call unknown[UNKNOWN_CALLS_MAX];
	uint64_t pids_refused, tasks_peak;
	bool disk_full;              /* a call was told that there is no space */
	_Atomic uint32_t pids_limit; /* written by ward, also while it runs: tasks; 0: none */
};

/* WARD_KERNEL_FAST: what a guest may have answered without us: also calls that are made later, also
 * files that nobody can change, only what is known already, nothing. The first: all of that, and
 * what a call reads and writes goes beside it. */
enum kernel_fast { FAST_CARRY, FAST_LATER, FAST_LEND, FAST_PLACE, FAST_OFF };

/* Pieces of memory of one size; the first word of each is the next. */
struct spare {
	void *first;
	unsigned count;
};

struct kernel {
	struct klock {
		uint32_t word;
	} lock;
	const struct engine_ops *engine;
	void *engine_state;

	/* tasks */
	struct proc *procs, *procs_last; /* all, oldest first */
	struct proc *init;
	struct pgrp *pgrps;
	struct task *tid_hash[1024];
	int32_t last_tid;
	unsigned task_count;
	uint32_t sig_queued;
	uint32_t
		traces; /* task/trace.c: tracees, and the ends of some that nobody has waited for */
	struct task *ready, *ready_last; /* woken, to be entered again */
	struct task *acting;             /* whose call runs, or NULL */
	struct wait_queue pi_waiters;    /* sys/futex.c */
	uint64_t pi_turns;               /* the same: how many have waited */

	/* time */
	struct ktimer **heap;
	unsigned heap_len, heap_cap;
	int64_t boot_ns;     /* CLOCK_MONOTONIC when the sandbox began */
	int epoll, timer_fd; /* the loop thread's; -1 in a fake */
	int64_t timer_armed;
	struct watch timer_watch;
	struct watch **watches; /* by descriptor */
	unsigned watches_cap;
	uint32_t last_watch;
	struct task *grave; /* dead tasks and processes, freed at the end of the section */
	struct proc *proc_grave;
	struct spare spare_tasks, spare_procs; /* buried, and used again */
	bool over;                             /* pid 1 has ended */
	int32_t over_status;

	/* vfs: set by vfs_init(), freed by vfs_done() */
	struct mount *root_mount;
	struct vfs_state *vfs;
	unsigned file_count;
	uint32_t aio_events; /* promised to contexts: sys/aio.c */
	uint64_t last_anon_ino;

	/* corners of other areas: each set by its own init, NULL until used */
	struct io_state *io;
	struct sock_state *sock;
	struct tty_state *tty;
	struct ipc_state *ipc;
	struct key_state *keys;
	struct inotify_state *inotify;
	const struct notify_ops *notify; /* vfs/notify.h */
	struct fan_state *fan;           /* io/fan.h; NULL: there is no fanotify descriptor */
	struct lock_state *locks;
	struct disk_state *disk; /* io/disk.h; NULL: the disk is waited for in place */

	/* ns/: those that guests have made, oldest first */
	struct ns *namespaces;
	unsigned namespace_count;
	uint32_t last_namespace;

	/* identity of the sandbox */
	char hostname[65], domainname[65];
	uint8_t boot_id[16];
	int store; /* host directory for contents (upper, tmpfs, memfd); -1 in tests: memfds */
	struct {
		uint64_t from, to;
	} vdso[6]; /* where time lives: engine_look() */
	unsigned vdso_count;
	int host_proc;         /* the host's proc of our own pid namespace, for maps; -1: none */
	uint64_t memory_limit; /* for meminfo, sysinfo; 0: the host's */
	unsigned cpus;

	struct kernel_report *report; /* shared with ward; NULL: &own_report */
	struct kernel_report own_report;
	enum kernel_fast fast;
	struct exec_desk *desk;      /* task/exec.h; NULL: not used yet */
	uint64_t *age;               /* trap/answers.h; NULL: nothing is answered in place */
	struct answers *answers;     /* the same */
	struct later_state *later;   /* trap/later.h; NULL: not used yet */
	bool no_loopback;            /* not even a network of its own */
	struct knob *knobs;          /* fs/knobs.h */
	struct map_names *map_names; /* fs/mapnames.h; NULL: not used yet */
	uint32_t landlock_rules;     /* vfs/landlock.h: of rulesets and domains */
};

void kernel_lock(struct kernel *k);
void kernel_unlock(struct kernel *k);

/* CLOCK_MONOTONIC of the host in ns; and CLOCK_REALTIME. */
int64_t kernel_now(struct kernel *k);
int64_t kernel_realtime(struct kernel *k);

int watch_add(struct kernel *k, struct watch *w);
int watch_change(struct kernel *k, struct watch *w, unsigned events);
void watch_remove(struct kernel *k, struct watch *w);
/* Its descriptor is about to be closed, which does the rest. */
void watch_forget(struct kernel *k, struct watch *w);
/* Whose event this is (epoll's data), or NULL: it has been removed since the host reported it. */
struct watch *watch_of(struct kernel *k, uint64_t data);

/* Enters every woken call again, until none is ready. Under the lock. */
void kernel_run_ready(struct kernel *k);

/* Frees what died in this section: nobody looks at it any more. */
void kernel_bury(struct kernel *k);

int kernel_init(struct kernel *k); /* zeroed memory; no vfs yet */
void kernel_done(struct kernel *k);

#endif
