/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/host.c - the host processes and threads behind guests, and their memory.
 *
 * Owns:  struct host_proc, struct host_task, the slots of a memory.
 * Rules: under the kernel lock. A host process is named by its pidfd; a bare number is only used
 * for memory and kicks, both inside our own pid namespace, where everybody is the same guest.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/str.h"
#include "host/host.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/trap/carry.h"
#include "tier/kernel/trap/engine.h"

static struct host_task **bucket(struct engine *e, pid_t tid)
{
	return &e->hash[(unsigned)tid % HOST_HASH];
}

struct host_task *host_find(struct engine *e, pid_t tid)
{
	struct host_task *ht = *bucket(e, tid);

	while (ht && ht->tid != tid)
		ht = ht->next;
	return ht;
}

struct host_task *host_add(struct engine *e, struct host_proc *hp, pid_t tid, uint64_t slot)
{
	struct host_task *ht = calloc(1, sizeof(*ht)), *old = host_find(e, tid);

	if (!ht)
		return NULL;
	if (old) { /* the number has come round: whoever had it is dead */
		if (old->task)
			old->task->host = NULL;
		host_drop(e, old);
	}
	ht->hp = hp;
	ht->trap = hp->trap;
	ht->tid = tid;
	ht->slot = slot;
	ht->next = *bucket(e, tid);
	*bucket(e, tid) = ht;
	return ht;
}

void host_drop(struct engine *e, struct host_task *ht)
{
	struct host_task **pp = bucket(e, ht->tid);

	while (*pp && *pp != ht)
		pp = &(*pp)->next;
	if (*pp)
		*pp = ht->next;
	free(ht);
}

/* PIDFD_GET_INFO knows the status of a process that is not our child; from Linux 6.15 on. */
static int status_of(int pidfd)
{
	struct {
		uint64_t mask, cgroup;
		uint32_t ids[15];
		int32_t exit_code;
		uint32_t more[8];
	} info = { .mask = 1 << 3 };

	_Static_assert(sizeof(info) >= 64, "PIDFD_INFO_SIZE_VER0");
	if (ioctl(pidfd, _IOC(_IOC_READ | _IOC_WRITE, 0xFF, 11, PIDFD_INFO_BYTES), &info) == 0 &&
		(info.mask & 8))
		return *(int32_t *)((char *)&info + 60);
	return SIGKILL;
}

/* The books forget it; what it had goes with its pidfd, which stays the caller's. */
static void forget(struct host_proc *hp)
{
	struct engine *e = engine_of(hp->k);
	struct host_task *ht = host_find(e, hp->pid);

	blank_lost(e, hp);
	if (ht && ht->hp == hp && !ht->task)
		host_drop(e, ht); /* it never got an image */
	carry_unmap(hp->carry);
	trap_unref(hp->trap);
	free(hp);
}

static void on_death(struct kernel *k, struct watch *w, unsigned events)
{
	struct host_proc *hp = (struct host_proc *)w;
	struct proc *p = hp->proc;
	int fd = w->fd;

	watch_remove(k, w);
	if (p) {
		int status = status_of(fd);

		hp->proc = NULL;
		p->host = NULL;
		if (p->state == PROC_LIVE)
			proc_exit(p, status & 0x7f ? status & 0xff : status & 0xff00);
	}
	forget(hp); /* only now: the end of a task drops its own */
	close(fd);
}

struct host_proc *host_proc_create(struct kernel *k, struct trap *trap, pid_t pid)
{
	struct host_proc *hp = calloc(1, sizeof(*hp));

	if (!hp)
		return NULL;
	hp->k = k;
	hp->trap = trap;
	hp->pid = pid;
	hp->watch.fn = on_death;
	hp->watch.events = EPOLLIN;
	hp->watch.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (hp->watch.fd < 0 || watch_add(k, &hp->watch) < 0) {
		if (hp->watch.fd >= 0)
			close(hp->watch.fd);
		free(hp);
		return NULL;
	}
	trap->refs++;
	return hp;
}

bool host_has_room(const struct engine *e)
{
	int fd = copy_fd(e->zygote);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

void host_proc_kill(struct host_proc *hp)
{
	struct out *o = engine_out(engine_of(hp->k));

	o->no_reply = true;
	o->kill = hp->watch.fd + 1;
	watch_forget(hp->k, &hp->watch);
	forget(hp);
}

enum { SP_LOOKS = 200 };

uint64_t host_sp(struct task *t)
{
	char path[32], text[512], *at = text;
	ssize_t n;

	if (!t->host || t->k->host_proc < 0 ||
		str_fmt(path, sizeof(path), "%d/syscall", (int)t->host->tid) < 0)
		return 0;
	n = host_get(t->k->host_proc, path, text, sizeof(text));
	/* We may be here before it has gone to sleep in its call: then it is "running" a little. */
	for (int i = 0; i < SP_LOOKS && n > 0 && text[0] == 'r'; i++) {
		if (i < SP_LOOKS / 4)
			sched_yield();
		else
			nanosleep(&(struct timespec){ 0, 50000 }, NULL);
		n = host_get(t->k->host_proc, path, text, sizeof(text));
	}
	/* The number, six arguments, then this. */
	for (int i = 0; n > 0 && at && i < 7; i++)
		at = strchr(at + (i > 0), ' ');
	return n > 0 && at ? strtoull(at, NULL, 16) : 0;
}

static size_t host_mm_hand(struct mm *mm, void *dst, uint64_t src, size_t len)
{
	return mm->carried ? carry_read(mm->carried, dst, src, len, true) : 0;
}

static ssize_t host_mm_read(struct mm *mm, void *dst, uint64_t src, size_t len)
{
	struct iovec to = { dst, len }, from = { (void *)(uintptr_t)src, len };

	if (mm->carried && carry_read(mm->carried, dst, src, len, false))
		return (ssize_t)len;
	return mm->host_pid > 1 ? process_vm_readv(mm->host_pid, &to, 1, &from, 1, 0) : -1;
}

ssize_t host_write_parts(
	struct mm *mm, const struct iovec *to, const struct iovec *from, unsigned n)
{
	ssize_t sum = 0;

	if (!mm->carried || !carry_write(mm->carried, to, from, n))
		return mm->host_pid > 1 ? process_vm_writev(mm->host_pid, from, n, to, n, 0) : -1;
	for (unsigned i = 0; i < n; i++)
		sum += (ssize_t)to[i].iov_len;
	return sum;
}

static ssize_t host_mm_write(struct mm *mm, uint64_t dst, const void *src, size_t len)
{
	struct iovec from = { (void *)(uintptr_t)src, len }, to = { (void *)(uintptr_t)dst, len };

	return host_write_parts(mm, &to, &from, 1);
}

bool host_poke(struct task *t, uint64_t at, const void *bytes, size_t len)
{
	char path[32];
	ssize_t n;
	int fd;

	if (t->k->host_proc < 0 || t->mm->host_pid <= 1 || at > INT64_MAX ||
		str_fmt(path, sizeof(path), "%d/mem", (int)t->mm->host_pid) < 0)
		return false;
	fd = host_openat(t->k->host_proc, path, O_WRONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return false;
	n = host_pwrite(fd, bytes, len, (int64_t)at);
	close(fd);
	return n == (ssize_t)len;
}

const struct mm_ops host_mm_ops = {
	.read = host_mm_read, .write = host_mm_write, .hand = host_mm_hand
};

/* The first thread has one: slot 0, or in a forked child that of the thread which forked. The rest
 * are handed out as threads come. */
int shim_slot_alloc(struct task *t, uint64_t *ret)
{
	struct mm *mm = t->mm;

	if (!mm->slots) {
		uint64_t own = (t->host->slot - SLOT_BASE) / SLOT_SIZE;

		mm->slots = calloc(SLOT_COUNT, 1);
		if (!mm->slots)
			return -ENOMEM;
		mm->slots[own < SLOT_COUNT ? own : 0] = 1;
	}
	for (unsigned n = 0; n < SLOT_COUNT; n++) {
		unsigned i = (mm->slot_next + n) % SLOT_COUNT;

		if (mm->slots[i])
			continue;
		mm->slots[i] = 1;
		mm->slot_next = i + 1;
		*ret = SLOT_BASE + i * SLOT_SIZE;
		return 0;
	}
	return -EAGAIN;
}

void shim_slot_free(struct mm *mm, uint64_t slot)
{
	uint64_t i = (slot - SLOT_BASE) / SLOT_SIZE;

	if (mm->slots && i < SLOT_COUNT)
		mm->slots[i] = 0;
}

void host_set_cpus(struct task *t)
{
	bool any = false;

	for (unsigned i = 0; i < GUEST_CPU_WORDS; i++)
		any |= t->cpus[i] != 0;
	/* The host may have given the sandbox fewer: then it says no, and nothing changes. */
	if (any && t->host && t->host->tid > 1)
		syscall(SYS_sched_setaffinity, t->host->tid, sizeof(t->cpus), t->cpus);
}

void host_set_limit(struct proc *p, int what, uint64_t stack)
{
	uint64_t most = p->limits[what].rlim_cur, ours = SHIM_OURS + stack;
	struct rlimit l;

	if (!p->host || p->host->pid <= 1 || prlimit(p->host->pid, what, NULL, &l) < 0)
		return;
	/* The host's own limit, if it has one, stays. */
	l.rlim_cur =
		most > RLIM_INFINITY - ours || most + ours > l.rlim_max ? l.rlim_max : most + ours;
	prlimit(p->host->pid, what, &l, NULL);
}

uint64_t host_robust_list(struct task *t)
{
	uint64_t head = 0;
	size_t len = 0;

	if (!t->host || t->host->tid <= 1 ||
		syscall(SYS_get_robust_list, t->host->tid, &head, &len) < 0)
		return 0;
	return head;
}
