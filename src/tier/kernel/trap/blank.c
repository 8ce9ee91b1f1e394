/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/blank.c - the zygote, and the blank processes that it makes.
 *
 * Owns:  the zygote's birth; the pool of blanks.
 * Rules: the zygote is forked before the kernel process has a second thread. Nothing of ward's
 * memory is left in it when it makes its first blank.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#ifdef __GLIBC__
#include <sys/rseq.h>
#endif
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/ckd.h"
#include "base/own.h"
#include "host/host.h"
#include "tier/cgroup.h"
#include "tier/kernel/shim/blob.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/trap/filter.h"
#include "tier/kernel/trap/place.h"

/* Where the filter lies for blanks to install: the last page of the shim. */
#define FILTER_AT (SHIM_BASE + SHIM_SIZE - 4096)

enum { KEEP_MAX = 9 };

struct keep {
	uint64_t from, to;
};

/* [vvar], [vvar_vclock] and [vdso]: time calls stay what they are. */
static void find_vdso(struct kernel *k, char *maps)
{
	char *save = NULL;

	for (char *line = strtok_r(maps, "\n", &save); line && k->vdso_count < ARRAY_LEN(k->vdso);
		line = strtok_r(NULL, "\n", &save)) {
		unsigned long from, to;

		if ((strstr(line, "[vvar") || strstr(line, "[vdso]")) &&
			sscanf(line, "%lx-%lx", &from, &to) == 2) {
			k->vdso[k->vdso_count].from = from;
			k->vdso[k->vdso_count++].to = to;
		}
	}
}

int engine_look(struct kernel *k, struct err *e)
{
	enum { MAPS_MAX = 64 << 10 };
	own_mem char *maps = malloc(MAPS_MAX);
	ssize_t n = maps ? host_get(AT_FDCWD, "/proc/self/maps", maps, MAPS_MAX) : -ENOMEM;

	if (n < 0)
		return err_set(e, (int)-n, "reading /proc/self/maps");
	k->vdso_count = 0;
	find_vdso(k, maps);
	return 0;
}

struct host_action {
	uint64_t handler, flags, restorer, mask;
};

static int set_action(int sig, uint64_t handler, const struct shim_head *head)
{
	/* Everything masked, except what the shim's own copy to a guest's stack may run into. */
	const uint64_t memory = 1ULL << (SIGSEGV - 1) | 1ULL << (SIGBUS - 1);
	/* SA_SIGINFO | SA_RESTORER | SA_ONSTACK | SA_RESTART; SA_NODEFER */
	struct host_action a = { handler, 0x4 | 0x04000000 | 0x08000000 | 0x10000000,
		head->host_restorer, ~memory };

	if (memory >> (sig - 1) & 1)
		a.flags |= 0x40000000;

	return (int)syscall(SYS_rt_sigaction, sig, &a, NULL, 8);
}

static int set_actions(const struct shim_head *head)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, KICK_SIGNAL };
	sigset_t none;

	for (int sig = 1; sig < 65; sig++)
		if (sig != SIGKILL && sig != SIGSTOP)
			syscall(SYS_rt_sigaction, sig, &(struct host_action){ 0 }, NULL, 8);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (set_action(faults[i], head->handler, head) < 0)
			return -1;
	/* Dead children of guests are nobody's zombies. */
	if (syscall(SYS_rt_sigaction, SIGCHLD, &(struct host_action){ .handler = 1 }, NULL, 8) < 0)
		return -1;
	sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL);
}

static void *map_at(uint64_t at, size_t len, int prot, int flags)
{
	void *p = mmap((void *)at, len, prot,
		MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE | flags, -1, 0);

	return p == (void *)at ? p : NULL;
}

static uint64_t place_shim(void)
{
	struct shim_head *head = map_at(SHIM_BASE, SHIM_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	unsigned n;

	if (!head || !map_at(SHIM_SHARED, 4096, PROT_READ | PROT_WRITE, MAP_SHARED) ||
		!map_at(SLOT_BASE, SLOT_SIZE * SLOT_COUNT, PROT_READ | PROT_WRITE, MAP_PRIVATE))
		return 0;
	memcpy(head, shim_blob, shim_blob_len);
	n = guest_filter((struct sock_filter *)FILTER_AT, head);
	return mprotect(head, SHIM_SIZE, PROT_READ | PROT_EXEC) < 0 ? 0 : n;
}

/*
 * A network of nobody's; and the cgroups, when the kernel process has them: one that is moved by
 * another waits for the whole host, one that moves itself does not. The kernel process comes to
 * that network too, when it has read that it is there; whoever has more rights than it would be
 * closed to it, so they are given up first. What it may read is nothing for a guest.
 */
static bool enter_nowhere(int sock)
{
	int64_t r = host_unshare(CLONE_NEWNET);
	struct cgroup cg;

	cgroup_init(&cg);
	if (r == 0)
		r = cgroup_receive(&cg, sock, NULL);
	if (r == 0)
		r = cgroup_settle(&cg, NULL);
	if (r == 0)
		r = host_capset(0, 0, 0);
	return send(sock, &r, sizeof(r), MSG_NOSIGNAL) == sizeof(r) && r == 0;
}

/* In the zygote; never returns. */
static void zygote_main(struct kernel *k, int sock)
{
	struct shim_head *head = (void *)SHIM_BASE;
	struct keep keep[KEEP_MAX] = {
		{ SHIM_BASE, SHIM_BASE + SHIM_SIZE + 4096 },
		{ PLACE_BASE, PLACE_BASE + PLACE_SIZE },
		{ SLOT_BASE, SLOT_BASE + SLOT_SIZE * SLOT_COUNT },
	};
	struct {
		unsigned short len;
		uint64_t at;
	} prog;
	stack_t alt = { .ss_sp = (void *)(SLOT_BASE + SLOT_DATA),
		.ss_size = SLOT_SIZE - SLOT_DATA };
	unsigned count = 3;

	for (unsigned i = 0; i < k->vdso_count; i++)
		keep[count++] = (struct keep){ k->vdso[i].from, k->vdso[i].to };
	if (!enter_nowhere(sock))
		_exit(102);
	memset(&prog, 0, sizeof(prog));
	prog.len = (unsigned short)place_shim();
	prog.at = FILTER_AT;
	if (!prog.len || set_actions(head) < 0 || sigaltstack(&alt, NULL) < 0 ||
		(sock != 3 && dup2(sock, 3) != 3))
		_exit(102);
	/* When memory runs out, a guest goes, not the kernel process. */
	if (k->host_proc >= 0)
		host_put(k->host_proc, "self/oom_score_adj", "500");
	if (host_close_from(4) < 0)
		_exit(102);
	close(0);
	close(1);
	close(2);
	prctl(PR_SET_NAME, "guest", 0, 0, 0);
#ifdef __GLIBC__
	/* Its words lie in memory that goes. */
	syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset, 32, 1, RSEQ_SIG);
#endif
	syscall(SYS_set_robust_list, NULL, 24);
	syscall(SYS_set_tid_address, NULL);
	/* On the slot's stack, since this one goes. */
	__asm__ volatile("mov %4, %%rsp\n"
			 "xor %%ebp, %%ebp\n"
			 "call *%5\n"
			 "hlt\n"
			 :
			 : "D"(3L), "S"(keep), "d"((uint64_t)count), "c"(&prog),
			 "r"(SLOT_TOP(SLOT_BASE) - 64), "r"(head->zygote)
			 : "memory");
	__builtin_unreachable();
}

int zygote_start(struct engine *e, struct err *err)
{
	int pair[2], r;
	pid_t pid;

	e->vdso = getauxval(AT_SYSINFO_EHDR);
	e->hwcap = getauxval(AT_HWCAP);
	e->hwcap2 = getauxval(AT_HWCAP2);
	e->minsigstksz = getauxval(51 /* AT_MINSIGSTKSZ */);
	e->clktck = getauxval(AT_CLKTCK);
	r = host_socketpair(SOCK_SEQPACKET, pair);
	if (r < 0)
		return err_set(err, -r, "making the zygote's socket");
	place_begin(e->k, ((const struct shim_head *)shim_blob)->stubs);
	pid = host_fork();
	if (pid < 0) {
		place_forked(e->k);
		close(pair[0]);
		close(pair[1]);
		return err_set(err, -pid, "forking the zygote");
	}
	if (pid == 0)
		zygote_main(e->k, pair[1]);
	place_forked(e->k);
	close(pair[1]);
	e->zygote = pair[0];
	e->zygote_pid = pid;
	e->zygote_watch =
		(struct watch){ .fd = e->zygote, .events = EPOLLIN, .fn = zygote_readable };
	return 0;
}

int engine_go(struct kernel *k, struct cgroup *cg, struct err *err)
{
	struct engine *e = engine_of(k);
	int r = cgroup_send(cg, e->zygote, err);

	if (r < 0)
		return r;
	e->blank_asked = BLANKS_READY;
	zygote_tell(e, BLANKS_READY);
	return 0;
}

int engine_join(struct kernel *k, struct err *err)
{
	struct engine *e = engine_of(k);
	own_fd int pidfd = -1;
	int64_t told = 0;
	ssize_t n;
	int r;

	do
		n = recv(e->zygote, &told, sizeof(told), 0);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(told) || told < 0)
		return err_set(err, n == sizeof(told) ? (int)-told : EPIPE,
			"making the namespaces of the network and of guests");
	pidfd = (int)syscall(SYS_pidfd_open, e->zygote_pid, 0);
	r = pidfd < 0 ? -errno : host_setns(pidfd, CLONE_NEWNET);
	return r < 0 ? err_set(err, -r, "entering the network namespace") : 0;
}

void blank_ask(struct engine *e)
{
	e->blank_asked++;
	e->ask++;
}

static void refill(struct engine *e)
{
	while (e->blank_count + e->blank_asked < BLANKS_READY)
		blank_ask(e);
}

static void on_refill(struct kernel *k, struct ktimer *timer)
{
	refill(engine_of(k));
	host_drop_text(); /* most of it was for the start */
}

/*
 * A blank costs a process, a filter and a thread. Most commands of an agent never make a process:
 * theirs is replaced after a while, so that the next command finds one. Once the guest forks, what
 * was taken is replaced at once.
 */
void blank_taken(struct engine *e)
{
	if (e->forks) {
		refill(e);
		return;
	}
	e->refill.fn = on_refill;
	if (!e->refill.slot)
		ktimer_set(e->k, &e->refill, kernel_now(e->k) + REFILL_MS * 1000000LL);
}

void blank_wanted(struct task *t)
{
	struct engine *e = engine_of(t->k);

	if (t->proc != t->k->init)
		e->forks = true;
	if (e->forks)
		refill(e);
	else if (!e->blank_count && !e->blank_asked)
		blank_ask(e);
}

void blank_lost(struct engine *e, struct host_proc *hp)
{
	struct host_proc **pp = &e->blanks;

	while (*pp && *pp != hp)
		pp = &(*pp)->next;
	if (!*pp)
		return;
	*pp = hp->next;
	e->blank_count--;
}

/* A zygote that is not there any more is noticed by the loop thread. */
void zygote_tell(struct engine *e, unsigned count)
{
	const char order = e->k->age && e->k->fast == FAST_CARRY ? ZYGOTE_CARRY : ZYGOTE_BLANK;

	while (count-- && send(e->zygote, &order, 1, MSG_NOSIGNAL) == 1)
		;
}

/* For want of memory: kill(2) is not among our calls. */
static void end_blank(pid_t pid)
{
	syscall(SYS_tgkill, pid, pid, SIGKILL);
}

void zygote_readable(struct kernel *k, struct watch *w, unsigned events)
{
	struct engine *e = engine_of(k);
	int64_t pid = 0;
	unsigned count = 0;
	int fds[2] = { -1, -1 };
	ssize_t n = host_recv_fds(e->zygote, &pid, sizeof(pid), fds, 2, &count);
	own_fd int fd = fds[0], carry = fds[1];
	struct trap *trap;
	struct host_proc *hp;

	if (n != sizeof(pid)) { /* it is dead: what runs goes on, nothing new can start */
		watch_remove(k, w);
		e->fail = -EAGAIN;
		wait_wake(&e->blank_queue, 0);
		return;
	}
	e->blank_asked--;
	trap = pid > 1 && count ? calloc(1, sizeof(*trap)) : NULL;
	if (!trap) {
		/* Its listener did not arrive: there was no number left for it. */
		e->fail = pid < 0 ? (int)pid : pid > 1 && !count ? -ENFILE : -EAGAIN;
		if (pid > 1)
			end_blank((pid_t)pid);
		wait_wake(&e->blank_queue, 0);
		return;
	}
	trap->k = k;
	trap->fd = take_fd(&fd);
	trap->refs = 1;
	e->fail = trap_thread(e); /* before anybody moves in */
	hp = e->fail ? NULL : host_proc_create(k, trap, (pid_t)pid);
	if (hp && carry >= 0)
		hp->carry = carry_map(carry);
	if (hp && host_add(e, hp, (pid_t)pid, SLOT_BASE)) {
		trap_first(trap); /* mostly it waits already, and somebody for it */
		trap_start(trap);
	} else {
		if (hp)
			host_proc_kill(hp);
		else
			end_blank((pid_t)pid);
		e->fail = e->fail ? e->fail : -ENOMEM;
		wait_wake(&e->blank_queue, 0);
	}
	trap_unref(trap);
}
