/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TASK_TASK_H
#define WARD_TIER_KERNEL_TASK_TASK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/resource.h>

#include "tier/kernel/limits.h"
#include "tier/kernel/mm/copy.h"
#include "tier/kernel/task/signal.h"
#include "tier/kernel/task/wait.h"

/*
 * A task is a guest thread; a proc is a thread group. Both have the guest's own numbers: host pids
 * never show. What clone(2) can share hangs off the task by reference (files, fs, sighand, mm,
 * cred); the rest of a process is in the proc. Everything is under the kernel lock (kernel.h).
 */
struct kernel;
struct proc;
struct files;  /* vfs/fdtable.h */
struct fs_ctx; /* vfs/vfs.h */
struct tty;
struct host_task; /* trap/: the host thread behind a task */
struct file;
struct call_fn;
struct seccomp_filter; /* task/seccomp.h */
struct key;            /* keys/key.h */
struct landlock;       /* vfs/landlock.h */
struct ns_set;         /* ns/ns.h */
struct pid_nums;       /* ns/pid.h */
struct user_ns;        /* ns/user.h */

struct cred {
	unsigned refs;
	struct user_ns *user;            /* reference; NULL: the first */
	uint32_t uid, euid, suid, fsuid; /* as the first namespace has them */
	uint32_t gid, egid, sgid, fsgid;
	uint32_t group_count;
	uint32_t groups[GUEST_GROUPS_MAX];
	uint64_t cap_effective, cap_permitted, cap_inheritable, cap_bounding, cap_ambient;
	uint32_t securebits;
	struct landlock *landlock; /* reference; NULL: nothing was given up */
};
/* Root inside may do to its own files and processes what root may; nothing of the host's. */
#define CAPS_ALL 0x1ffffffffffULL
/* Does the task have guest capability @cap (CAP_*)? Only over what is inside, and over all of it:
 * in a user namespace nobody has one. */
bool task_capable(const struct task *t, int cap);
/* Over what belongs to the user namespace @u; and in its own. */
bool cred_capable_in(const struct cred *c, const struct user_ns *u, int cap);
bool task_capable_in(const struct task *t, const struct user_ns *u, int cap);
bool task_capable_own(const struct task *t, int cap);
/* The same of a file's owner, if its ids have a name in the task's namespace. */
bool task_capable_ids(const struct task *t, uint32_t uid, uint32_t gid, int cap);
/* Is @gid the task's fsgid or one of its groups? */
bool task_in_group(const struct task *t, uint32_t gid);
/* May @reader look into @t at all? Pid 1 is the agent, which speaks for the sandbox: nobody's but
 * its own. */
bool task_is_open_to(const struct task *reader, const struct task *t);
/* ptrace's rule for reading another's memory, files and lists, and the same with the ids for files,
 * as /proc asks. */
bool task_may_trace(const struct task *reader, const struct task *t);
bool task_may_look(const struct task *reader, const struct task *t);
struct cred *cred_ref(struct cred *c);
void cred_unref(struct cred *c);
/* A copy with one reference, to be changed and put in place of t->cred; NULL: no memory. */
struct cred *cred_copy(const struct cred *c);

/* An address space; see mm/copy.h for the way in. */
struct mm {
	unsigned refs;
	const struct mm_ops *ops;
	pid_t host_pid;     /* the engine's: any live thread group that has this memory */
	uint8_t *fake_base; /* a fake guest's */
	uint64_t fake_start, fake_len;
	struct mm_image *image; /* mm/image.h: what a walk has brought along; NULL: none */
	uint64_t brk_start, arg_start, arg_end, env_start, env_end, stack_top;
	uint64_t auxv_at, auxv_len;
	struct file *exe; /* reference; NULL: none */
	char *exe_path;
	bool dumpable, thp_disable;
	struct mm_range {
		uint64_t from, to;
	} * locks; /* mm/lock.c */
	unsigned lock_count;
	bool lock_future;             /* mlockall: all that comes, too */
	struct aio_ctx *aio;          /* sys/aio.c */
	struct mm_policies *policies; /* sys/numa.c; NULL: none */
	uint8_t *slots;               /* the engine's: one byte per slot of the shim */
	unsigned slot_next;
	struct place *place;       /* the engine's: call sites, or NULL */
	struct place_carry *carry; /* the engine's, and the guest's too: trap/carry.h; NULL: none */
	struct carried *carried;   /* while a call is made that is carried */
	bool place_off;  /* the table is not there: the program has something else there */
	bool place_shut; /* a filter inside is to see every call: no more answers */
	bool place_many; /* has had threads: no more answers by path */
};

/* One system call in flight: see task/wait.h. */
struct call {
	int64_t nr;
	uint64_t ip; /* behind the instruction that made it */
	uint64_t args[6];
	long ret; /* once it is over */
	bool active, first, blocked, ready;
	bool timed_out;
	int64_t deadline;
	int64_t was_due; /* loaded, and begins again: the deadline that it had; 0: none */
	uint64_t done;
	uint64_t u[16];
	void *own;
	void (*own_free)(void *own);
	struct disk_job *disk; /* what the host's disk is asked for: io/disk.h */
	bool fetched;          /* it was asked once in this call */
	struct fan_ask *asks;  /* who is asked whether it may go on: io/fanotify.h */
	struct file *held;     /* reference: what it waits for goes on, even when it is closed */
	int held_fd;
	struct ktimer timer;
	struct wait_entry *waits; /* registered now */
	struct wait_entry inline_waits[4];
	unsigned inline_used;
	struct task *ready_next;
	bool settling;  /* over, but the task is stopped: call.ret is kept */
	bool go_native; /* the answer is: let the host do it (close, exit, mmap of a file) */
	int map_fd;     /* a host descriptor + 1 to put into the guest's process first, */
	int map_at;     /* at this number */
	int spare;      /* files_spare()'s, until the next call: the order is obeyed by then */
	bool ordered;   /* an order lies in the slot: kick */
	/* For trap/answers.h: */
	bool unsteady; /* its path led where names come and go by themselves */
	bool restless; /* its path led through a directory in which names change */
	bool fixed;    /* what it found cannot change */
	uint16_t data_len;
	char path[160]; /* what it was about, when it was short */
};

/* The handler that runs next: task/deliver.h. */
struct deliver {
	int sig; /* 0: none */
	union gsiginfo info;
	struct gsigaction act;
	gsigset_t old_mask;
	int64_t restart; /* call number to make again after it, or -1 */
};

/* A task's own keyring, its session's, and where requested keys go by default (KEY_REQKEY_DEFL_*).
 */
struct task_keys {
	struct key *thread, *session; /* references */
	uint32_t request_to;
};

enum task_state { TASK_RUNNING, TASK_STOPPED, TASK_DEAD };

struct task {
	struct kernel *k;
	struct proc *proc;
	struct task *next; /* in proc->tasks */
	int32_t tid;
	enum task_state state;
	char comm[16];

	struct mm *mm;
	struct files *files;
	struct fs_ctx *fs;
	struct sighand *sighand;
	struct cred *cred;
	struct ns_set *ns;     /* NULL: the first of each kind */
	struct pid_nums *nums; /* its numbers below the first namespace; reference, or NULL */

	struct sigpending pending;
	gsigset_t mask, saved_mask;
	bool has_saved_mask; /* the mask of this wait only; put back when it ends */
	struct {
		uint64_t sp, size;
		uint32_t flags;
	} altstack;

	struct call call;
	struct deliver deliver;

	uint64_t clear_tid; /* CLONE_CHILD_CLEARTID / set_tid_address */
	uint64_t robust_list;
	int32_t exit_signal;
	int64_t start_ns;
	int32_t nice;
	struct {
		uint32_t policy, prio;
		bool reset_on_fork;
		uint64_t runtime, deadline, period; /* SCHED_DEADLINE */
	} sched;
	uint16_t ioprio;
	struct mempolicy {
		uint32_t mode; /* MPOL_*; 0: the default */
		bool node;     /* the only one is named */
	} policy;
	uint64_t cpus[GUEST_CPU_WORDS]; /* all zero: every one */
	uint64_t timer_slack_ns, timer_slack_default_ns;
	bool no_new_privs;
	bool seccomp_strict;
	struct seccomp_filter *filters; /* the newest; reference */
	int32_t pdeath_signal;
	struct task_keys keys;
	struct trace *trace; /* task/trace.h; NULL: nobody traces it */
	bool exec_step; /* the step that comes is nobody's: into a new image, or one that was left
			 */

	int64_t past_cpu_ns;    /* of the host thread that a walk has taken it from */
	struct host_task *host; /* NULL for a fake */
	int32_t wait_child;     /* the task that its last clone made */
	bool embryo;            /* made, but its host thread has not said hello */
	uint64_t token;         /* what it says then: its number, and above it a secret */
	struct ktimer embryo_timer;
	uint64_t child_settid;
	struct task *hash_next; /* by tid */
};

enum proc_state { PROC_LIVE, PROC_ZOMBIE };

struct proc {
	struct kernel *k;
	int32_t pid;
	enum proc_state state;
	struct task *tasks;  /* the first is the leader, also after it is dead */
	unsigned task_count; /* live ones */
	struct proc *parent, *children, *sibling;
	int32_t maker; /* tid of the parent's thread that made it, or has it since that one ended */
	struct proc *next; /* all processes of the kernel */
	struct pgrp *pgrp;
	struct proc *pgrp_next;
	struct sigpending pending;
	struct wait_queue signal_queue; /* signalfd, sigtimedwait */
	struct wait_queue child_queue;  /* wait4 */
	struct wait_queue exit_queue;   /* pidfd, vfork parent */
	struct wait_queue stop_queue;   /* threads that job control has stopped */
	int32_t wait_status;            /* wait(2)'s, once it is a zombie */
	int32_t stop_signal;            /* not 0: stopped */
	bool stop_news, cont_news;      /* not yet seen by wait(2) */
	bool exiting, execed;
	bool subreaper;
	int32_t exit_signal; /* to the parent; SIGCHLD normally */
	struct rlimit limits[RLIM_NLIMITS];
	struct rusage children_usage, own_usage; /* own: once it is dead */
	struct rusage past_usage;                /* of the same */
	int64_t start_ns;
	uint64_t personality;
	struct ktimer itimer_real;
	int64_t itimer_real_interval, itimer_real_when; /* when: 0 is not armed */
	void *posix_timers;                             /* timer_create */
	struct host_proc *host;
	int64_t past_cpu_ns; /* of the host processes that it has left, by exec or in a walk */
	bool vfork_waits;    /* its parent waits until it execs or ends */
	char *cmdline;       /* as exec left it: NUL separated; for a zombie's /proc entry NULL */
	size_t cmdline_len;
	int oom_score_adj;
	struct pidfd *pidfds;     /* vfs/pidfd.c: told how it ended when it is reaped */
	struct key *process_ring; /* reference, or NULL */
	struct trace *tracees;    /* whom it traces */
};

struct pgrp {
	unsigned refs; /* one per member */
	int32_t id;
	struct pid_nums *nums; /* as a task's */
	struct session *session;
	struct proc *members; /* by pgrp_next */
	struct pgrp *next;    /* all groups of the kernel */
};

struct session {
	unsigned refs; /* one per group, one of its tty */
	int32_t id;
	struct pid_nums *nums;
	struct tty *tty;  /* controlling terminal, or NULL */
	int32_t tty_pgrp; /* foreground group's id */
};

struct task *task_find(struct kernel *k, int32_t tid); /* NULL: none */
struct proc *proc_find(struct kernel *k, int32_t pid); /* live or zombie */
struct pgrp *pgrp_find(struct kernel *k, int32_t id);
static inline struct task *proc_leader(struct proc *p)
{
	return p->tasks;
}
/* Frees the number @pid/@tid of a group or session only when nobody uses it any more. */
int32_t tid_alloc(struct kernel *k);

/* mm references */
struct mm *mm_ref(struct mm *mm);
void mm_unref(struct mm *mm);

/* Is any other member's parent outside the group but inside the session? (tty: orphans) */
bool pgrp_is_orphaned(const struct pgrp *g);

/* Ends the process with a wait(2) status; safe at any time, twice. */
void proc_exit(struct proc *p, int status);

#endif
