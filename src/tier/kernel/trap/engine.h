/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TRAP_ENGINE_H
#define WARD_TIER_KERNEL_TRAP_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/syscall.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/shim/shim.h"
#include "tier/kernel/trap/carry.h"
#include "tier/kernel/trap/place.h"

/*
 * The host side of a sandbox: listeners, host processes and threads, replies. The rest of the
 * kernel sees only struct engine_ops. All under the kernel lock, except what a section's end sends.
 */
enum { PIDFD_INFO_BYTES = 80 /* struct pidfd_info, with room for what is newer */ };
#define PROCMAP_QUERY_ _IOC(_IOC_READ | _IOC_WRITE, 'f', 17, 104) /* since Linux 6.11 */
enum { BLANKS_READY = 2, REFILL_MS = 200, WORKERS_IDLE_MAX = 4, OUT_MAX = 64, HOST_HASH = 1024 };

/* A listener, with a thread that reads it. Everybody who was forked without exec shares one. */
struct trap {
	struct kernel *k;
	int fd;
	unsigned refs; /* host processes, and the thread */
};

struct host_proc {
	struct watch watch; /* its pidfd: readable when it is dead */
	struct kernel *k;
	struct trap *trap;
	struct proc *proc; /* NULL: blank, or already over */
	pid_t pid;
	struct host_proc *next; /* ready blanks */
	uint64_t blank_notif;
	struct place_carry *carry; /* a blank's, for its image; NULL: none */
};

struct host_task {
	struct task *task;
	struct host_proc *hp;
	struct trap *trap;
	pid_t tid;
	uint64_t slot;
	uint64_t notif;
	bool in_call;
	uint32_t room_len; /* where a call that waits may write by way of a page; 0: nowhere */
	uint64_t room_at;
	struct host_task *next; /* hash by tid */
};

/* What leaves when the lock is given back. */
struct out {
	int fd; /* listener */
	uint64_t id;
	int64_t val;
	uint32_t flags;           /* SECCOMP_USER_NOTIF_FLAG_CONTINUE */
	pid_t kick_pid, kick_tid; /* first a signal; 0: none */
	pid_t stay;               /* a thread that shall wake up on our CPU; 0: anywhere */
	struct {
		int src, at; /* src: ours, closed after */
	} add[2];
	unsigned add_count;
	bool no_reply;
	bool any_value; /* the caller does not look at it: the last descriptor goes with the reply
			 */
	int kill;       /* a pidfd, ours, + 1: last of all this process dies; 0: none */
};

struct engine {
	struct kernel *k;
	int zygote; /* socket */
	pid_t zygote_pid;
	struct watch zygote_watch;
	struct host_proc *blanks;
	unsigned blank_count, blank_asked;
	unsigned ask;        /* of these, not told to the zygote yet */
	struct worker *idle; /* threads that have nothing to read */
	unsigned idle_count;
	bool forks; /* the guest makes processes: blanks are replaced at once */
	struct ktimer refill;
	struct wait_queue blank_queue;
	struct host_task *hash[HOST_HASH];
	struct out out[OUT_MAX];
	unsigned out_count;
	struct carried carried; /* what goes with the call that is being made */
	uint64_t vdso;          /* AT_SYSINFO_EHDR, the same in every guest */
	uint64_t hwcap, hwcap2, minsigstksz, clktck;
	uint64_t cpus[GUEST_CPU_WORDS]; /* those that ward was given */
	bool stays;                     /* there are several, and they are known */
	int fail;                       /* why no blank can be made; 0: fine */
};

/* One host call: the C library's way makes two. */
static inline int copy_fd(int fd)
{
	return (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 0);
}

static inline struct engine *engine_of(struct kernel *k)
{
	return k->engine_state;
}

/* blank.c: where time lives in this address space; while /proc is in sight. */
int engine_look(struct kernel *k, struct err *e);
/* boot.c: zygote, epoll, timer; then engine_loop() is the loop thread. */
int engine_start(struct kernel *k, struct err *e);
/* blank.c: the zygote enters these too (they are not ours any more), and goes on to the first
 * blanks. */
struct cgroup;
int engine_go(struct kernel *k, struct cgroup *cg, struct err *e);
/* It has made a network that is nobody's, and this thread enters it. */
int engine_join(struct kernel *k, struct err *e);
void engine_loop(struct kernel *k) __attribute__((noreturn));
/* Pid 1 of the guest is gone: so are we, and with us everybody in this pid namespace. Whichever
 * thread sees it does not wait for the loop's. */
void engine_over(struct kernel *k) __attribute__((noreturn));
/* A section: lock; ...; engine_end(): woken calls go on, the dead are freed, replies leave. */
void engine_end(struct kernel *k);

/* blank.c: one more, told to the zygote when the lock is given back. */
void blank_ask(struct engine *e);
/* One was taken; a process forks, so that one will be wanted. */
void blank_taken(struct engine *e);
void blank_wanted(struct task *t);
/* Not among the ready ones any more, if it was. */
void blank_lost(struct engine *e, struct host_proc *hp);
void zygote_tell(struct engine *e, unsigned count); /* without the lock */
int zygote_start(struct engine *e, struct err *err);
void zygote_readable(struct kernel *k, struct watch *w, unsigned events);

/* host.c: host processes and tasks */
struct host_task *host_find(struct engine *e, pid_t tid);
struct host_task *host_add(struct engine *e, struct host_proc *hp, pid_t tid, uint64_t slot);
void host_drop(struct engine *e, struct host_task *ht);
struct host_proc *host_proc_create(struct kernel *k, struct trap *trap, pid_t pid);
/* Is there a descriptor left for one more? */
bool host_has_room(const struct engine *e);
/* Takes @hp, which has no task any more: nobody waits for its end. The signal is sent when the lock
 * is given back: who is killed runs at once, on this CPU, to take its memory down. */
void host_proc_kill(struct host_proc *hp);
/* The stack pointer of a task that waits in a call; 0: nobody can say. */
uint64_t host_sp(struct task *t);
/* Also where the program may not write: a tracer's breakpoints, our own call sites. */
bool host_poke(struct task *t, uint64_t at, const void *bytes, size_t len);
/* What the guest chose of the processors reaches its host thread. */
void host_set_cpus(struct task *t);
/* RLIMIT_AS or RLIMIT_DATA reaches its host process, which has our pages and its whole @stack more
 * than the guest knows of. */
void host_set_limit(struct proc *p, int what, uint64_t stack);
/* set_robust_list's address of a live task; 0: none. */
uint64_t host_robust_list(struct task *t);
extern const struct mm_ops host_mm_ops;
/* Several pieces at once: how many bytes, or -1. */
ssize_t host_write_parts(
	struct mm *mm, const struct iovec *to, const struct iovec *from, unsigned n);
/* One for a new thread in the memory of @t, which is in a call. */
int shim_slot_alloc(struct task *t, uint64_t *ret);
void shim_slot_free(struct mm *mm, uint64_t slot);

/* notify.c */
/* Is there a thread for one more listener? Then trap_start() has it. 0 or -errno. */
int trap_thread(struct engine *e);
void trap_start(struct trap *trap);
/* What has arrived before there is a thread to read it; in a section. */
void trap_first(struct trap *trap);
void trap_unref(struct trap *trap);
extern const struct engine_ops engine_ops;
struct out *engine_out(struct engine *e);
/* Who is answered wakes up where the answer is given, if nothing speaks against it. */
void out_stay(struct out *o, const struct task *t);
/* Writes an order into the slot of a task that waits in a call; false: its memory is gone. */
bool order_write(struct task *t, const void *slot, size_t len);

/* The image of an execve, as task/exec.c has worked it out. */
struct exec_plan {
	int fds[2]; /* host descriptors of the file and its interpreter; -1: none */
	struct shim_step steps[STEPS_MAX];
	unsigned step_count;
	uint64_t entry, sp;
	uint8_t *stack; /* the bytes from @sp on */
	size_t stack_len;
	uint64_t stack_base, stack_size;
	uint64_t mm_map[14];
	bool populate;            /* bring data in as a whole */
	struct place_ahead ahead; /* last: what it has no use for is not cleared */
};
enum { EXEC_FD = 60000 };
/* Moves @t into a ready blank. Only with engine_has_blank(). */
int engine_exec(struct task *t, struct exec_plan *plan, struct mm *mm);
bool engine_has_blank(struct kernel *k);

#endif
