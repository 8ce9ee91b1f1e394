/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_IPC_IPC_H
#define WARD_TIER_KERNEL_IPC_IPC_H

#include <stdbool.h>
#include <stdint.h>

#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/mm/copy.h"
#include "tier/kernel/task/wait.h"

/*
 * System V shared memory, semaphores and message queues, and POSIX message queues. All in memory;
 * a shared memory segment is a host memory file that is mapped into guests.
 */
struct kernel;
struct ns;
struct task;
struct proc;
struct walk;
struct buf;

/* struct ipc64_perm of x86-64. */
struct gipc_perm {
	int32_t key;
	uint32_t uid, gid, cuid, cgid;
	uint32_t mode;
	uint16_t seq, pad;
	uint32_t pad1;
	uint64_t unused[2];
};

/* What the three kinds share. A table per kind; an id is slot + IPC_ID_STEP * seq. */
struct ipc_obj {
	struct gipc_perm perm;
	int32_t id;
	struct wait_queue wait;
	bool gone;     /* removed while somebody still has it (shm) */
	struct ns *ns; /* whose it is (ns/ns.h); that namespace ends it. NULL: the first's */
	bool lost;     /* its namespace is gone: nobody finds it any more (shm) */
};

enum { IPC_ID_STEP = 32768, IPC_KINDS = 3, IPC_SHM = 0, IPC_SEM = 1, IPC_MSG = 2 };
struct ipc_table {
	struct ipc_obj **slots;
	uint32_t cap, count, max;
	uint16_t seq;
	int32_t next_id; /* of the next one made; -1: any */
};

#define SHM_WINDOW 0x5e0000000000ULL /* nothing puts anything there by itself */
#define SHM_WINDOW_END 0x5effffff0000ULL

struct mqueue;
extern const struct file_ops mq_ops;
struct ipc_state {
	struct ipc_table table[IPC_KINDS];
	uint64_t shm_bytes;
	uint32_t sem_total;
	struct sem_undo *undos;
	struct shm_attach *attaches;
	uint32_t attach_count;
	uint64_t shm_next; /* where the next attachment goes */
	struct mqueue *queues;
	uint32_t queue_count;
	uint64_t queue_bytes;
};

struct ipc_state *ipc_state(struct kernel *k); /* NULL: no memory */
void ipc_done(struct kernel *k);

/* Find by key or make, with IPC_CREAT and IPC_EXCL as xxxget(2) has them. @make fills a new one in;
 * @check looks at an old one. The id, or a negative errno. */
struct ipc_get {
	struct ipc_obj *(*make)(struct task *t, const struct ipc_get *g, int *ret_err);
	int (*check)(struct ipc_obj *o, const struct ipc_get *g);
	uint64_t size;
	int32_t key, flags;
};
long ipc_get(struct task *t, int kind, const struct ipc_get *g);
/* -EINVAL, -EIDRM or (no permission @want: 0444, 0222 bits) -EACCES. */
struct ipc_obj *ipc_find(struct task *t, int kind, int32_t id, unsigned want, int *ret_err);
/* The same by place in the table, for the *_STAT commands; sets its id. */
struct ipc_obj *ipc_at(struct task *t, int kind, int32_t index);
void ipc_remove(struct kernel *k, int kind, struct ipc_obj *o); /* off the table; not freed */
/* Capabilities count in the namespace that the objects are in. */
bool ipc_capable(const struct task *t, int cap);
int ipc_owner(struct task *t, const struct ipc_obj *o); /* 0 or -EPERM */
/* IPC_SET: uid, gid, mode from a guest's ds, whose first member is the perm. */
int ipc_set_perm(struct task *t, struct ipc_obj *o, gva_t ds);
/* Among those that @t can see: the highest place, and how many. */
int ipc_highest(const struct task *t, int kind);
uint32_t ipc_count(const struct task *t, int kind);
/* An object's permissions with the ids that @t knows. */
struct gipc_perm ipc_perm_out(const struct task *t, const struct ipc_obj *o);
/* A namespace is over, with what is in it. */
void ipc_ns_gone(struct kernel *k, const struct ns *n);
void mq_ns_gone(struct kernel *k, const struct ns *n);
int64_t ipc_seconds(struct task *t);

/* The end of a process, its fork, its exec. */
void ipc_proc_gone(struct proc *p);
void ipc_proc_forked(struct proc *parent, struct proc *child);
void shm_proc_gone(struct proc *p);
void sem_proc_gone(struct proc *p);
void shm_free(struct kernel *k, struct ipc_obj *o);
/* Off the table and freed; one that somebody still has is nobody's until then. */
void shm_lose(struct kernel *k, struct ipc_obj *o);
void sem_free(struct kernel *k, struct ipc_obj *o);
void msg_free(struct kernel *k, struct ipc_obj *o);
void mq_done(struct kernel *k);

/*
 * All of it, and the numbers of POSIX queues (ipc_walk); then, when there are files and processes
 * with their tables, who waits to hear of a queue (mq_link_walk). Of each kind: the fields of one;
 * loading
 * (@o is NULL) makes it, or NULL.
 */
void ipc_walk(struct kernel *k, struct walk *w);
struct file;
void mq_each_file(struct kernel *k, void (*fn)(void *arg, struct file *f), void *arg);
void mq_link_walk(struct kernel *k, struct walk *w);
struct ipc_obj *shm_walk(struct kernel *k, struct ipc_obj *o, struct walk *w);
struct ipc_obj *sem_walk(struct kernel *k, struct ipc_obj *o, struct walk *w);
struct ipc_obj *msg_walk(struct kernel *k, struct ipc_obj *o, struct walk *w);
void shm_attaches_walk(struct kernel *k, struct walk *w);
void sem_undos_walk(struct kernel *k, struct walk *w);
void mq_walk(struct kernel *k, struct walk *w);
struct ipc_obj *ipc_by_id(const struct ipc_state *s, int kind, int32_t id); /* NULL: none */

/* /proc/sysvipc/msg, sem and shm: a line each. */
void msg_show(const struct task *t, struct ipc_obj *o, struct buf *out);
void sem_show(const struct task *t, struct ipc_obj *o, struct buf *out);
void shm_show(const struct task *t, struct ipc_obj *o, struct buf *out);
void ipc_show(const struct task *t, int kind, struct buf *out);
/* How many there may be of a kind: as it is, or (@max >= 0) as it is from now on. */
uint32_t ipc_max(struct kernel *k, int kind, int64_t max);

#endif
