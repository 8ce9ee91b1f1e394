/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_WALK_BUSY_H
#define WARD_TIER_KERNEL_WALK_BUSY_H

#include <stdint.h>

/*
 * A sandbox with one of everything that a program can have, for tests and the fuzzer: files, pipes,
 * sockets, timers, terminals, queues, locks, watches, mounts, processes and threads. Linked into
 * those only.
 */
struct fake;

/* What is open in the first process, and where. */
enum {
	FD_FILE = 20,
	FD_DELETED,
	FD_BELOW,
	FD_DIR,
	FD_MEMFD,
	FD_TMPFILE,
	FD_PIPE_R,
	FD_PIPE_W,
	FD_PACKET_R,
	FD_PACKET_W,
	FD_FIFO,
	FD_EVENT,
	FD_TIMER,
	FD_SIGNAL,
	FD_EPOLL,
	FD_INOTIFY,
	FD_KNOB,
	FD_FANOTIFY,
	FD_FANOTIFY_FID,
	FD_UNIX_A,
	FD_UNIX_B,
	FD_LISTEN,
	FD_CLIENT,
	FD_TCP_LISTEN,
	FD_TCP_CLIENT,
	FD_UDP,
	FD_DGRAM_A,
	FD_DGRAM_B,
	FD_MASTER,
	FD_SLAVE,
	FD_MQ,
	FD_PIDFD,
	FD_PROC,
	FD_NULL,
	FD_PATH,
	FD_TREE,
	FD_LOOP,
	FD_BACK,
	FD_LEASE,
	FD_OUTER,
	FD_STALE,
	FD_HIDDEN,
	FD_PROC_TOO,
	FD_MQ_PATH,
	FD_RULESET
};

struct busy {
	int32_t blocked_pid; /* waits in a read of FD_CLIENT */
	int32_t thread_tid;  /* waits in a poll of it */
	int32_t first_pid;   /* of a pid namespace */
	int32_t apart_pid;   /* in namespaces of its own */
	int32_t leader_pid;  /* of a session: that thread's */
	int32_t zombie_pid;  /* ended with 3 */
	int32_t kept_pid; /* in the domain of FD_RULESET; reads and lists /tmp/dir, reads /below */
	int32_t same_pid; /* in the same one, with a socket called "same" */
	int32_t deeper_pid; /* in one on top of it: writes nothing */
	int32_t uncut_fd;   /* of the first of them: may be written, not cut */
};

/* @fake has its files (vfs_init) and a place. With "/below" and "/other" in a layer (made when they
 * are not there): both are open, the second is removed. */
void busy_make(struct busy *all, struct fake *fake);

#endif
