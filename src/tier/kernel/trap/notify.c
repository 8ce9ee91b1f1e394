/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/notify.c - how a guest's call arrives, and how its answer leaves.
 *
 * Owns:  the threads behind listeners; the outbox.
 * Rules: a reply is never sent with the lock held. Everything in a notification is the guest's
 * word: the number, the arguments, even that it comes from the shim.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "tier/kernel/ns/pid.h"
#include "tier/kernel/shim/blob.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/sys/usage.h"
#include "tier/kernel/task/deliver.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/trap/later.h"
#include "tier/kernel/trap/place.h"

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
enum { SYNC_WAKE_UP = 1, ADDFD_SEND = 2 };

static void send_kill(struct out *o)
{
	if (!o->kill)
		return;
	syscall(SYS_pidfd_send_signal, o->kill - 1, SIGKILL, NULL, 0);
	close(o->kill - 1);
}

/* Which one runs this, from where the host's vdso has it: there is no call for it in the jail. */
static unsigned this_cpu(void)
{
	unsigned n;

	__asm__ volatile("lsl %1, %0" : "=r"(n) : "r"(0x7b));
	return n & 0xfff;
}

/*
 * A thread that takes a descriptor, or is kicked, is woken like anybody: by a CPU that has nothing
 * to do, if there is one, and to wake that takes as long as a dozen calls; the same again when it
 * tells us that it has the descriptor. So it stays here meanwhile, and then we do too.
 */
static void stay_here(pid_t tid)
{
	uint64_t here[GUEST_CPU_WORDS] = { 0 };
	unsigned cpu = this_cpu();

	if (cpu / 64 >= GUEST_CPU_WORDS)
		return;
	here[cpu / 64] = 1ULL << cpu % 64;
	syscall(SYS_sched_setaffinity, tid, sizeof(here), here);
}

static void go_anywhere(const struct engine *e, pid_t tid)
{
	syscall(SYS_sched_setaffinity, tid, sizeof(e->cpus), e->cpus);
}

static void send_out(const struct engine *e, struct out *o)
{
	struct seccomp_notif_resp resp = { .id = o->id, .val = o->val, .flags = o->flags };
	bool sent = false;

	if (o->stay)
		stay_here(o->stay);
	if (o->stay && o->add_count) /* then we wait for it */
		stay_here(0);
	for (unsigned i = 0; i < o->add_count; i++) {
		bool last = o->any_value && !o->stay && i + 1 == o->add_count;
		struct seccomp_notif_addfd add = { .id = o->id,
			.flags = SECCOMP_ADDFD_FLAG_SETFD | (last ? ADDFD_SEND : 0),
			.srcfd = (uint32_t)o->add[i].src,
			.newfd = (uint32_t)o->add[i].at };

		int r = ioctl(o->fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add);

		if (r < 0 && errno == EINVAL && last) { /* before Linux 5.14 */
			add.flags = SECCOMP_ADDFD_FLAG_SETFD;
			last = false;
			r = ioctl(o->fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
		}
		if (r < 0 && errno != ENOENT) {
			resp.flags = 0;
			resp.val = -errno;
		}
		sent |= r >= 0 && last;
		close(o->add[i].src);
	}
	if (o->stay && o->add_count)
		go_anywhere(e, 0);
	if (o->kick_tid > 1)
		syscall(SYS_tgkill, o->kick_pid, o->kick_tid, KICK_SIGNAL);
	if (o->stay) /* before it goes on: what it makes would stay for ever */
		go_anywhere(e, o->stay);
	/* A negative value goes as an error: the host does not look at it either way. */
	if (resp.val < 0 && resp.val >= -4095 && !resp.flags) {
		resp.error = (int32_t)resp.val;
		resp.val = 0;
	}
	if (!o->no_reply && !sent)
		ioctl(o->fd, SECCOMP_IOCTL_NOTIF_SEND, &resp);
}

static void send_all(const struct engine *e, struct out *out, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		send_out(e, &out[i]);
	for (unsigned i = 0; i < n; i++)
		send_kill(&out[i]);
}

struct out *engine_out(struct engine *e)
{
	struct out *o;

	if (e->out_count == OUT_MAX) { /* rare: a crowd was woken at once */
		send_all(e, e->out, OUT_MAX);
		e->out_count = 0;
	}
	o = &e->out[e->out_count++];
	memset(o, 0, sizeof(*o));
	return o;
}

void engine_end(struct kernel *k)
{
	struct engine *e = engine_of(k);
	struct out out[OUT_MAX];
	unsigned n, ask;
	bool over;

	kernel_run_ready(k);
	kernel_bury(k);
	over = k->over;
	n = e->out_count;
	memcpy(out, e->out, n * sizeof(out[0]));
	e->out_count = 0;
	ask = e->ask;
	e->ask = 0;
	later_open(k);
	kernel_unlock(k);
	send_all(e, out, n);
	if (over)
		engine_over(k);
	if (ask)
		zygote_tell(e, ask);
}

bool order_write(struct task *t, const void *slot, size_t len)
{
	return t->mm->ops->write(t->mm, t->host->slot, slot, len) == (ssize_t)len;
}

/* What lies there is followed by a question. */
static bool order_asks(struct task *t)
{
	uint32_t more = 1;
	uint64_t at = t->host->slot + offsetof(struct slot, more);

	return t->mm->ops->write(t->mm, at, &more, sizeof(more)) == (ssize_t)sizeof(more);
}

/* The handler that task/deliver.c picked, as an order. */
static bool write_signal(struct task *t)
{
	struct deliver *d = &t->deliver;
	struct {
		uint32_t order, more;
		struct shim_signal s;
	} o = { .order = ORDER_SIGNAL, .more = signal_pending(t) };

	o.s.handler = d->act.handler;
	o.s.mask = d->old_mask;
	o.s.sig = (uint64_t)d->sig;
	o.s.alt_sp = t->altstack.sp;
	o.s.alt_size = t->altstack.size;
	o.s.alt_flags = t->altstack.flags;
	o.s.on_alt = (d->act.flags & SA_ONSTACK) != 0;
	o.s.restart = d->restart >= 0 || (d->act.flags & SA_RESTART) ? d->restart : RESTART_NEVER;
	memcpy(o.s.info, &d->info, sizeof(o.s.info));
	d->sig = 0;
	return order_write(t, &o, sizeof(o));
}

/* It reads what it is told itself. */
static bool is_asking(int64_t nr)
{
	return nr == SHIM_ASK || nr == SHIM_FAULT || nr == SHIM_STOP;
}

/* Alone, so that no other thread chooses processors for it meanwhile. */
void out_stay(struct out *o, const struct task *t)
{
	uint64_t chosen = 0;

	for (unsigned i = 0; i < GUEST_CPU_WORDS; i++)
		chosen |= t->cpus[i];
	if (engine_of(t->k)->stays && !chosen && t->proc->task_count == 1 && t->host->tid > 1)
		o->stay = t->host->tid;
}

static void kick_with(struct out *o, const struct task *t)
{
	o->kick_pid = t->host->hp->pid;
	o->kick_tid = t->host->tid;
	out_stay(o, t);
}

static void finish(struct task *t)
{
	struct engine *e = engine_of(t->k);
	struct host_task *ht = t->host;
	struct call *c = &t->call;
	struct out *o;

	if (t->state == TASK_DEAD || !ht || !ht->in_call)
		return;
	ht->in_call = false;
	o = engine_out(e);
	o->fd = ht->trap->fd;
	o->id = ht->notif;
	o->val = c->ret;
	if (c->map_fd > 0) {
		o->add[0].src = c->map_fd - 1;
		o->add[0].at = c->map_at;
		o->add_count = 1;
		out_stay(o, t);
		c->map_fd = 0;
	}
	if (c->go_native) {
		o->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		c->go_native = false;
	}
	if (t->deliver.sig) {
		/* A task in the middle of a shim call reads the order itself. */
		if (!write_signal(t)) {
			proc_exit(t->proc, SIGSEGV);
			return;
		}
		if (!is_asking(c->nr))
			kick_with(o, t);
	} else if (c->ordered) {
		if (signal_pending(t) && !order_asks(t)) {
			proc_exit(t->proc, SIGSEGV);
			return;
		}
		kick_with(o, t);
	}
	c->ordered = false;
	if (signal_pending(t) && !o->kick_tid && !is_asking(c->nr))
		kick_with(o, t);
}

static void kick(struct task *t)
{
	struct host_task *ht = t->host;
	struct out *o;

	if (!ht || ht->in_call)
		return; /* the end of its call looks for signals */
	o = engine_out(engine_of(t->k));
	o->no_reply = true;
	o->kick_pid = ht->hp->pid;
	o->kick_tid = ht->tid;
}

static void kill_proc(struct proc *p)
{
	struct host_proc *hp = p->host;

	if (!hp)
		return; /* not born yet: its hello is refused */
	usage_keep(p);
	hp->proc = NULL;
	p->host = NULL;
	host_proc_kill(hp);
}

static void release(struct task *t)
{
	struct host_task *ht = t->host;

	if (!ht)
		return;
	t->host = NULL;
	if (t->mm)
		shim_slot_free(t->mm, ht->slot);
	host_drop(engine_of(t->k), ht);
}

/* exit(2): the host clears the thread's word and wakes who joins it; where the word was set by a
 * call that we answered, the shim does. */
static void leave(struct task *t)
{
	struct host_task *ht = t->host;
	struct {
		uint32_t order, more;
		uint64_t word;
	} exit_order = { .order = ORDER_EXIT, .word = t->clear_tid };
	struct out *o;

	if (!ht || !ht->in_call)
		return;
	ht->in_call = false;
	o = engine_out(engine_of(t->k));
	o->fd = ht->trap->fd;
	o->id = ht->notif;
	o->flags = t->call.nr == SYS_exit ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0;
	o->val = o->flags ? 0 : -ENOSYS;
	/* A thread that a filter ends is in another call, which must not happen. */
	if ((t->clear_tid || t->call.nr != SYS_exit) &&
		order_write(t, &exit_order, sizeof(exit_order))) {
		o->flags = 0;
		o->kick_pid = ht->hp->pid;
		o->kick_tid = ht->tid;
	}
}

static void refuse(struct engine *e, struct trap *trap, uint64_t id)
{
	struct out *o = engine_out(e);

	o->fd = trap->fd;
	o->id = id;
	o->val = -ENOSYS;
}

/* A blank is there. Its notification stays unanswered until it gets an image. */
static bool blank_ready(struct engine *e, struct trap *trap, const struct seccomp_notif *n)
{
	struct host_task *ht = host_find(e, (pid_t)n->pid);
	struct host_proc *hp = ht ? ht->hp : NULL;

	if (!hp || hp->trap != trap || hp->proc || ht->task || hp->blank_notif)
		return false;
	hp->blank_notif = n->id;
	hp->next = e->blanks;
	e->blanks = hp;
	e->blank_count++;
	wait_wake(&e->blank_queue, 0);
	return true;
}

/* The host thread behind a new task; NULL: no memory or descriptor is left for it. */
static struct host_task *settle(
	struct engine *e, struct trap *trap, const struct seccomp_notif *n, struct task *t)
{
	struct host_proc *hp = t->proc->host;

	if (!hp) { /* the first thread of a new process */
		hp = host_proc_create(e->k, trap, (pid_t)n->pid);
		if (!hp)
			return NULL;
		hp->proc = t->proc;
		t->proc->host = hp;
	}
	return host_add(e, hp, (pid_t)n->pid, n->data.args[1]);
}

/* A new task has come up: its token says which. */
static bool hello(struct engine *e, struct trap *trap, const struct seccomp_notif *n)
{
	struct task *t = task_find(e->k, (int32_t)n->data.args[0]);
	struct host_task *ht;

	/* Only who was told the token is the child: it stands in the parent's memory alone. */
	if (!t || t->host || t->state == TASK_DEAD || !t->embryo || t->token != n->data.args[0])
		return false;
	ht = settle(e, trap, n, t);
	if (!ht) {
		refuse(e, trap, n->id);
		embryo_end(t);
		return true;
	}
	ht->task = t;
	ht->trap = trap;
	ht->notif = n->id;
	ht->in_call = true;
	t->host = ht;
	t->embryo = false;
	if (t->mm->host_pid == 0)
		t->mm->host_pid = ht->hp->pid;
	ktimer_clear(e->k, &t->embryo_timer);
	if (t->child_settid)
		guest_write_u32(t, GVA(t->child_settid), (uint32_t)task_nr(t, t));
	t->call.nr = SHIM_HELLO;
	t->call.ret = 0;
	finish(t);
	return true;
}

/* What it reads from now on it reads out of the guest's memory; what it writes can still go the way
 * that it came. */
static void wait_carried(struct engine *e, struct host_task *ht)
{
	carry_flush(&e->carried);
	if (e->carried.mm) {
		ht->room_at = e->carried.room_at;
		ht->room_len = e->carried.room_len;
	}
}

static void again(struct task *t)
{
	if (t->host && t->host->in_call && t->host->room_len)
		carry_again(&engine_of(t->k)->carried, t, t->host->room_at, t->host->room_len);
}

static void entered(struct task *t)
{
	struct engine *e = engine_of(t->k);

	if (t->call.blocked)
		carry_flush(&e->carried);
	carry_end(&e->carried);
}

const struct engine_ops engine_ops = {
	.finish = finish,
	.again = again,
	.entered = entered,
	.kick = kick,
	.kill = kill_proc,
	.leave = leave,
	.release = release,
	.end = engine_end,
};

static void handle(struct engine *e, struct trap *trap, const struct seccomp_notif *n)
{
	struct host_task *ht = host_find(e, (pid_t)n->pid);
	struct task *t = ht ? ht->task : NULL;
	uint64_t args[6], ip = n->data.instruction_pointer;

	later_run(e->k, t ? t->mm : NULL);
	/* Also from a thread that is in the books: its number may have come round. */
	if (n->data.nr == SHIM_HELLO && hello(e, trap, n))
		return;
	if (!t || ht->trap != trap) {
		if (n->data.nr != SHIM_BLANK || !blank_ready(e, trap, n))
			refuse(e, trap, n->id);
		return;
	}
	if (t->call.active || ht->in_call) {
		/* The host cancelled its last one (a kick came first): forget that too. */
		call_drop(t);
	}
	ht->in_call = true;
	ht->room_len = 0;
	ht->notif = n->id;
	for (int i = 0; i < 6; i++)
		args[i] = n->data.args[i];
	if (ip == ((const struct shim_head *)shim_blob)->carried_ip)
		ip = carry_begin(&e->carried, t);
	t->call.ip = ip ? ip : n->data.instruction_pointer;
	place_call(t, n->data.nr, n->data.args[0]);
	if (call_begin(t, n->data.nr, args)) {
		place_seen(t, t->call.ip);
		finish(t);
	} else {
		wait_carried(e, ht);
	}
	carry_end(&e->carried);
}

/* One whose maker is killed in between is not there any more: that is an error, no wait. */
void trap_first(struct trap *trap)
{
	struct pollfd p = { .fd = trap->fd, .events = POLLIN };
	struct seccomp_notif n = { 0 };

	if (poll(&p, 1, 0) > 0 && (p.revents & POLLIN) &&
		ioctl(trap->fd, SECCOMP_IOCTL_NOTIF_RECV, &n) == 0)
		handle(engine_of(trap->k), trap, &n);
}

static bool is_over(struct trap *trap)
{
	struct pollfd p = { .fd = trap->fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR | POLLNVAL));
}

static void serve(struct kernel *k, struct trap *trap)
{
	struct seccomp_notif n;

	for (;;) {
		memset(&n, 0, sizeof(n));
		if (ioctl(trap->fd, SECCOMP_IOCTL_NOTIF_RECV, &n) < 0) {
			if (errno != EINTR && is_over(trap))
				return;
			continue;
		}
		kernel_lock(k);
		handle(engine_of(k), trap, &n);
		engine_end(k);
	}
}

void trap_unref(struct trap *trap)
{
	if (--trap->refs)
		return;
	close(trap->fd);
	free(trap);
}

/* A thread, which serves one listener after the other. */
struct worker {
	struct kernel *k;
	struct trap *trap;
	uint32_t go; /* futex */
	struct worker *next;
};

static void worker_idle(struct engine *e, struct worker *w)
{
	w->go = 0;
	w->next = e->idle;
	e->idle = w;
	e->idle_count++;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct engine *e = engine_of(w->k);

	for (;;) {
		while (!__atomic_load_n(&w->go, __ATOMIC_ACQUIRE))
			syscall(SYS_futex, &w->go, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
		serve(w->k, w->trap);
		kernel_lock(w->k);
		trap_unref(w->trap);
		if (e->idle_count == WORKERS_IDLE_MAX) {
			kernel_unlock(w->k);
			free(w);
			return NULL;
		}
		worker_idle(e, w);
		kernel_unlock(w->k);
	}
}

int trap_thread(struct engine *e)
{
	struct worker *w = e->idle ? NULL : calloc(1, sizeof(*w));
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	if (e->idle)
		return 0;
	if (!w)
		return -ENOMEM;
	w->k = e->k;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, TRAP_STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attr, worker_main, w);
	pthread_attr_destroy(&attr);
	if (r)
		free(w);
	else
		worker_idle(e, w);
	return -r;
}

void trap_start(struct trap *trap)
{
	struct engine *e = engine_of(trap->k);
	struct worker *w = e->idle;

	ioctl(trap->fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP); /* older hosts: slower */
	trap->refs++;
	e->idle = w->next;
	e->idle_count--;
	w->trap = trap;
	__atomic_store_n(&w->go, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &w->go, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
