/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io/timers.c - setitimer, alarm and timer_create.
 *
 * Owns:  struct proc_timers, one per process that asked.
 * Rules: all run on the kernel's one heap of deadlines. A periodic POSIX timer is not armed again
 *        before its signal has been taken: what passed meanwhile is its overrun count, as on Linux.
 *        Timers on CPU time look at the clock when it could be over at the earliest.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "tier/kernel/io/timers.h"

#include "base/ckd.h"
#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/sys/usage.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/walk.h"

enum {
	NS_PER_US = 1000,
	NS_PER_S = 1000000000,
	OVERRUN_MAX = INT32_MAX,
	CPU_LOOK_MIN_NS = 1000000, /* between two looks at a CPU clock */
	IGNORED_MIN_NS = 1000000,  /* between two signals that nobody wants */
	SIGNAL_MIN_NS = 50000,     /* between two signals of a timer: shorter periods are joined */
};

#define LOOK_MAX_NS (3600LL * NS_PER_S) /* and at least once an hour */

struct posix_timer {
	struct posix_timer *next;
	struct proc *proc;
	int32_t id;
	int32_t clock, notify, signo, tid;
	uint64_t value;
	struct ktimer timer;
	int64_t when, interval; /* CLOCK_MONOTONIC, or the CPU clock that it is on; 0: not armed */
	int32_t of;             /* CLOCK_THREAD_CPUTIME_ID: whose */
	bool fired;             /* its signal waits to be taken */
	int32_t overrun, overrun_last;
};

struct cpu_itimer {
	struct ktimer timer;
	struct proc *proc;
	int64_t when, interval; /* on the process's CPU clock; 0: not armed */
	int signo;
};

struct proc_timers {
	struct posix_timer *first;
	int32_t last_id;
	unsigned count;
	struct cpu_itimer virt, prof;
	struct cpu_itimer limit; /* RLIMIT_CPU */
};

static int64_t host_clock(clockid_t id)
{
	struct timespec ts;

	if (clock_gettime(id, &ts) < 0)
		return 0;
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int64_t proc_cpu_ns(struct proc *p)
{
	if (!p->k->engine_state)
		return host_clock(CLOCK_PROCESS_CPUTIME_ID); /* a fake's */
	return usage_ns(p);
}

int64_t task_cpu_ns(struct task *t)
{
	return t->k->engine_state ? usage_task_ns(t) : host_clock(CLOCK_THREAD_CPUTIME_ID);
}

static struct proc_timers *timers_of(struct proc *p)
{
	struct proc_timers *pt = p->posix_timers;

	if (pt)
		return pt;
	pt = calloc(1, sizeof(*pt));
	if (!pt)
		return NULL;
	pt->virt.proc = pt->prof.proc = pt->limit.proc = p;
	pt->virt.signo = SIGVTALRM;
	pt->prof.signo = SIGPROF;
	p->posix_timers = pt;
	return pt;
}

/* The first time of @when, @when + @period, ... after @now; how many lie between in *ret_missed. */
static int64_t next_time(int64_t when, int64_t period, int64_t now, int64_t *ret_missed)
{
	int64_t n = now > when ? (now - when) / period : 0, step, next;

	*ret_missed = n;
	if (ckd_mul(&step, n + 1, period) || ckd_add(&next, when, step))
		return INT64_MAX;
	return next;
}

/* ITIMER_REAL and alarm */

static void on_real(struct kernel *k, struct ktimer *timer)
{
	struct proc *p = (struct proc *)((char *)timer - offsetof(struct proc, itimer_real));
	int64_t now = kernel_now(k), next, missed;

	if (p->itimer_real_interval) {
		next = next_time(p->itimer_real_when, p->itimer_real_interval, now, &missed);
		p->itimer_real_when = next;
		ktimer_set(k, timer, next > now + SIGNAL_MIN_NS ? next : now + SIGNAL_MIN_NS);
	} else {
		p->itimer_real_when = 0;
	}
	signal_send_proc(p, SIGALRM, NULL);
}

struct itimer_ns {
	int64_t interval, value;
};

static void real_get(struct proc *p, struct itimer_ns *ret)
{
	int64_t left = p->itimer_real_when ? p->itimer_real_when - kernel_now(p->k) : 0;

	ret->interval = p->itimer_real_interval;
	ret->value = p->itimer_real_when ? (left > 0 ? left : NS_PER_US) : 0;
}

static int real_set(struct proc *p, const struct itimer_ns *v)
{
	ktimer_clear(p->k, &p->itimer_real);
	p->itimer_real_interval = v->interval;
	p->itimer_real_when = 0;
	if (v->value == 0) {
		p->itimer_real_interval = 0;
		return 0;
	}
	if (ckd_add(&p->itimer_real_when, kernel_now(p->k), v->value))
		p->itimer_real_when = INT64_MAX;
	p->itimer_real.fn = on_real;
	return ktimer_set(p->k, &p->itimer_real, p->itimer_real_when);
}

/* ITIMER_VIRTUAL and ITIMER_PROF: CPU time. */

static int64_t seconds_ns(uint64_t s)
{
	return s > INT64_MAX / NS_PER_S ? INT64_MAX : (int64_t)s * NS_PER_S;
}

static int cpu_look_again(struct cpu_itimer *c)
{
	struct kernel *k = c->proc->k;
	int64_t left = c->when - proc_cpu_ns(c->proc);

	if (left > LOOK_MAX_NS)
		left = LOOK_MAX_NS;
	left /= k->cpus ? (int64_t)k->cpus : 1; /* all CPUs may be at work for it */
	return ktimer_set(
		k, &c->timer, kernel_now(k) + (left > CPU_LOOK_MIN_NS ? left : CPU_LOOK_MIN_NS));
}

static void on_cpu(struct kernel *k, struct ktimer *timer)
{
	struct cpu_itimer *c =
		(struct cpu_itimer *)((char *)timer - offsetof(struct cpu_itimer, timer));
	struct proc *p = c->proc;
	int64_t now = proc_cpu_ns(p);

	if (now < c->when) {
		cpu_look_again(c);
		return;
	}
	if (c->interval) {
		int64_t missed;

		c->when = next_time(c->when, c->interval, now, &missed);
		cpu_look_again(c);
	} else {
		c->when = 0;
	}
	signal_send_proc(p, c->signo, NULL);
}

/* Past the soft limit a signal, and again each second; at the hard one the end. */
static void on_limit(struct kernel *k, struct ktimer *timer)
{
	struct cpu_itimer *c =
		(struct cpu_itimer *)((char *)timer - offsetof(struct cpu_itimer, timer));
	struct proc *p = c->proc;
	const struct rlimit *l = &p->limits[RLIMIT_CPU];
	int64_t now = proc_cpu_ns(p);

	if (now < c->when) {
		cpu_look_again(c);
		return;
	}
	if (l->rlim_max != RLIM_INFINITY && now >= seconds_ns(l->rlim_max)) {
		signal_send_proc(p, SIGKILL, NULL);
		return;
	}
	c->when += NS_PER_S;
	if (l->rlim_max != RLIM_INFINITY && c->when > seconds_ns(l->rlim_max))
		c->when = seconds_ns(l->rlim_max);
	cpu_look_again(c);
	signal_send_proc(p, SIGXCPU, NULL);
}

int timers_cpu_limit(struct proc *p)
{
	const struct rlimit *l = &p->limits[RLIMIT_CPU];
	struct proc_timers *pt = p->posix_timers;

	if (pt)
		ktimer_clear(p->k, &pt->limit.timer);
	if (l->rlim_cur == RLIM_INFINITY)
		return 0;
	pt = timers_of(p);
	if (!pt)
		return -ENOMEM;
	pt->limit.timer.fn = on_limit;
	/* No time at all counts as a second. */
	pt->limit.when = seconds_ns(l->rlim_cur ? l->rlim_cur : 1);
	return cpu_look_again(&pt->limit);
}

static void cpu_get(struct cpu_itimer *c, struct itimer_ns *ret)
{
	int64_t left = c->when ? c->when - proc_cpu_ns(c->proc) : 0;

	ret->interval = c->interval;
	ret->value = c->when ? (left > 0 ? left : NS_PER_US) : 0;
}

static int cpu_set(struct cpu_itimer *c, const struct itimer_ns *v)
{
	ktimer_clear(c->proc->k, &c->timer);
	c->interval = v->value ? v->interval : 0;
	c->when = 0;
	if (v->value == 0)
		return 0;
	if (ckd_add(&c->when, proc_cpu_ns(c->proc), v->value))
		c->when = INT64_MAX;
	c->timer.fn = on_cpu;
	return cpu_look_again(c);
}

static int itimer_get(struct proc *p, int which, struct itimer_ns *ret)
{
	struct proc_timers *pt;

	*ret = (struct itimer_ns){ 0, 0 };
	if (which == ITIMER_REAL) {
		real_get(p, ret);
		return 0;
	}
	if (which != ITIMER_VIRTUAL && which != ITIMER_PROF)
		return -EINVAL;
	pt = timers_of(p);
	if (!pt)
		return -ENOMEM;
	cpu_get(which == ITIMER_VIRTUAL ? &pt->virt : &pt->prof, ret);
	return 0;
}

static int itimer_set(struct proc *p, int which, const struct itimer_ns *v)
{
	struct proc_timers *pt = p->posix_timers; /* itimer_get() made it */

	if (which == ITIMER_REAL)
		return real_set(p, v);
	return cpu_set(which == ITIMER_VIRTUAL ? &pt->virt : &pt->prof, v);
}

static int timeval_ns(const int64_t tv[2], int64_t *ret)
{
	if (tv[0] < 0 || tv[1] < 0 || tv[1] >= 1000000)
		return -EINVAL;
	if (ckd_mul(ret, tv[0], (int64_t)NS_PER_S) || ckd_add(ret, *ret, tv[1] * NS_PER_US))
		*ret = INT64_MAX;
	return 0;
}

static long itimer_out(struct task *task, gva_t at, const struct itimer_ns *v)
{
	int64_t out[4] = { v->interval / NS_PER_S, v->interval % NS_PER_S / NS_PER_US,
		v->value / NS_PER_S, v->value % NS_PER_S / NS_PER_US };

	return guest_write(task, at, out, sizeof(out));
}

SYSCALL2(getitimer, int32_t, which, gva_t, out)
{
	struct itimer_ns v;
	int r = itimer_get(task->proc, which, &v);

	return r < 0 ? r : itimer_out(task, out, &v);
}

SYSCALL3(setitimer, int32_t, which, gva_t, in, gva_t, out)
{
	struct itimer_ns v = { 0, 0 }, old;
	int64_t tv[4] = { 0 };
	int r;

	/* NULL stands for zeros: an old promise of Linux. */
	if (!gva_null(in) && guest_read(task, tv, in, sizeof(tv)) < 0)
		return -EFAULT;
	if (timeval_ns(tv, &v.interval) < 0 || timeval_ns(tv + 2, &v.value) < 0)
		return -EINVAL;
	r = itimer_get(task->proc, which, &old);
	if (r < 0)
		return r;
	r = itimer_set(task->proc, which, &v);
	if (r < 0)
		return r;
	return gva_null(out) ? 0 : itimer_out(task, out, &old);
}

SYSCALL1(alarm, uint32_t, seconds)
{
	struct itimer_ns old, v = { 0, (int64_t)seconds * NS_PER_S };
	int64_t s;

	real_get(task->proc, &old);
	if (real_set(task->proc, &v) < 0)
		return -ENOMEM;
	s = old.value / NS_PER_S;
	/* At least 1 while it runs; otherwise to the nearest. */
	if ((s == 0 && old.value) || old.value % NS_PER_S >= NS_PER_S / 2)
		s++;
	return s;
}

/* timer_create and the rest */

static struct posix_timer *timer_find(struct proc *p, int32_t id)
{
	struct proc_timers *pt = p->posix_timers;
	struct posix_timer *t = pt ? pt->first : NULL;

	while (t && t->id != id)
		t = t->next;
	return t;
}

static void timer_signal(struct posix_timer *t)
{
	union gsiginfo si;
	struct task *to;

	memset(&si, 0, sizeof(si));
	si.signo = t->signo;
	si.code = SI_TIMER;
	si.timer.tid = t->id;
	si.timer.overrun = t->overrun;
	si.timer.value = t->value;
	t->fired = true;
	if (t->notify & SIGEV_THREAD_ID) {
		to = task_find(t->proc->k, t->tid);
		if (to && to->proc == t->proc)
			signal_send_task(to, t->signo, &si);
	} else {
		signal_send_proc(t->proc, t->signo, &si);
	}
}

static bool on_cpu_time(const struct posix_timer *t)
{
	return t->clock == CLOCK_PROCESS_CPUTIME_ID || t->clock == CLOCK_THREAD_CPUTIME_ID;
}

/* Now, on the clock that @when is on. */
static int64_t timer_now(const struct posix_timer *t)
{
	struct task *of;

	if (!on_cpu_time(t))
		return kernel_now(t->proc->k);
	if (t->clock == CLOCK_PROCESS_CPUTIME_ID)
		return proc_cpu_ns(t->proc);
	of = task_find(t->proc->k, t->of);
	return of && of->proc == t->proc ? task_cpu_ns(of) : 0;
}

/* Sets the deadline: of a CPU clock, when it could be over at the earliest. */
static int timer_arm(struct posix_timer *t, int64_t at_least)
{
	struct kernel *k = t->proc->k;
	int64_t left, when = t->when;

	if (on_cpu_time(t)) {
		left = t->when - timer_now(t);
		if (left > LOOK_MAX_NS)
			left = LOOK_MAX_NS;
		if (t->clock == CLOCK_PROCESS_CPUTIME_ID && k->cpus)
			left /= (int64_t)k->cpus;
		when = kernel_now(k) + (left > CPU_LOOK_MIN_NS ? left : CPU_LOOK_MIN_NS);
	}
	return ktimer_set(k, &t->timer, when > at_least ? when : at_least);
}

/* Moves @when past @now; how many periods that took, beyond the first. */
static int64_t timer_forward(struct posix_timer *t, int64_t now)
{
	int64_t n;

	if (!t->interval || now < t->when)
		return 0;
	t->when = next_time(t->when, t->interval, now, &n);
	return n;
}

static bool timer_waits(const struct posix_timer *t)
{
	struct task *to = t->notify & SIGEV_THREAD_ID ? task_find(t->proc->k, t->tid) : NULL;

	return ((to ? to->pending.set : 0) | t->proc->pending.set) & GSIG_BIT(t->signo);
}

static void on_posix(struct kernel *k, struct ktimer *timer)
{
	struct posix_timer *t =
		(struct posix_timer *)((char *)timer - offsetof(struct posix_timer, timer));
	int64_t now = timer_now(t), n;

	if (now < t->when) { /* CPU time: not yet */
		timer_arm(t, 0);
		return;
	}
	n = timer_forward(t, now);
	if (!t->interval)
		t->when = 0;
	t->overrun = n > OVERRUN_MAX ? OVERRUN_MAX : (int32_t)n;
	timer_signal(t);
	if (timer_waits(t))
		return;   /* timers_deliver() goes on */
	t->fired = false; /* ignored: nobody will ever take it */
	if (t->interval)
		timer_arm(t, kernel_now(k) + IGNORED_MIN_NS);
}

void timers_deliver(struct proc *p, union gsiginfo *info)
{
	struct posix_timer *t = info->code == SI_TIMER ? timer_find(p, info->timer.tid) : NULL;

	if (!t)
		return;
	if (t->fired && t->interval) {
		int64_t now = timer_now(t), n = now >= t->when ? 1 + timer_forward(t, now) : 0;

		t->overrun = n > OVERRUN_MAX - t->overrun ? OVERRUN_MAX : t->overrun + (int32_t)n;
		timer_arm(t, kernel_now(p->k) + SIGNAL_MIN_NS);
	}
	info->timer.overrun = t->overrun;
	t->overrun_last = t->overrun;
	t->overrun = 0;
	t->fired = false;
}

static void timer_free(struct proc *p, struct posix_timer *t)
{
	struct proc_timers *pt = p->posix_timers;
	struct posix_timer **pp = &pt->first;

	while (*pp != t)
		pp = &(*pp)->next;
	*pp = t->next;
	pt->count--;
	ktimer_clear(p->k, &t->timer);
	free(t);
}

void timers_execed(struct proc *p)
{
	struct proc_timers *pt = p->posix_timers;

	while (pt && pt->first)
		timer_free(p, pt->first);
}

void timers_done(struct proc *p)
{
	struct proc_timers *pt = p->posix_timers;

	ktimer_clear(p->k, &p->itimer_real);
	p->itimer_real_when = 0;
	if (!pt)
		return;
	timers_execed(p);
	ktimer_clear(p->k, &pt->virt.timer);
	ktimer_clear(p->k, &pt->prof.timer);
	ktimer_clear(p->k, &pt->limit.timer);
	free(pt);
	p->posix_timers = NULL;
}

/* struct sigevent as the kernel has it: 64 bytes. */
struct gsigevent {
	uint64_t value;
	int32_t signo, notify, tid;
	int32_t pad[11];
};

static bool clock_known(int32_t clock)
{
	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_MONOTONIC:
	case CLOCK_BOOTTIME:
	case CLOCK_TAI:
	case CLOCK_PROCESS_CPUTIME_ID:
	case CLOCK_THREAD_CPUTIME_ID:
	case CLOCK_REALTIME_ALARM:
	case CLOCK_BOOTTIME_ALARM:
		return true;
	default:
		return false;
	}
}

/* A negative clock is (~pid << 3 | kind); those of the caller's own are CPU clocks like the others.
 */
static int32_t own_clock(struct task *task, int32_t clock, int32_t *of)
{
	int32_t pid = ~(clock >> 3);
	bool thread = clock & 4;
	struct task *t = pid ? task_at(task, pid) : task;

	if (clock >= 0 || (clock & 3) == 3)
		return clock;
	if (!t || t->proc != task->proc || (!thread && pid && t != proc_leader(t->proc)))
		return clock;
	*of = t->tid;
	return thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID;
}

static int event_check(struct task *task, const struct gsigevent *ev)
{
	struct task *to;

	switch (ev->notify) {
	case SIGEV_NONE:
		return 0;
	case SIGEV_SIGNAL | SIGEV_THREAD_ID:
		to = task_at(task, ev->tid);
		if (!to || to->proc != task->proc)
			return -EINVAL;
		break;
	case SIGEV_SIGNAL:
	case SIGEV_THREAD:
		break;
	default:
		return -EINVAL;
	}
	return ev->signo <= 0 || ev->signo > GSIG_MAX ? -EINVAL : 0;
}

SYSCALL3(timer_create, int32_t, clock, gva_t, event, gva_t, ret_id)
{
	struct gsigevent ev = { .signo = SIGALRM, .notify = SIGEV_SIGNAL };
	struct proc_timers *pt = timers_of(task->proc);
	int32_t of = task->tid;
	struct posix_timer *t;

	if (!gva_null(event) && guest_read(task, &ev, event, sizeof(ev)) < 0)
		return -EFAULT;
	clock = own_clock(task, clock, &of);
	if (!clock_known(clock))
		return -EINVAL;
	if (event_check(task, &ev) < 0)
		return -EINVAL;
	if (!pt || pt->count >= POSIX_TIMERS_MAX)
		return -EAGAIN;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -EAGAIN;
	do {
		t->id = pt->last_id;
		pt->last_id = pt->last_id == INT32_MAX ? 0 : pt->last_id + 1;
	} while (timer_find(task->proc, t->id));
	t->proc = task->proc;
	t->clock = clock;
	t->notify = ev.notify;
	t->signo = ev.signo;
	t->tid = ev.notify & SIGEV_THREAD_ID ? pid_in(task, ev.tid) : 0;
	t->of = of;
	t->value = gva_null(event) ? (uint64_t)t->id : ev.value;
	t->timer.fn = on_posix;
	if (guest_write(task, ret_id, &t->id, sizeof(t->id)) < 0) {
		free(t);
		return -EFAULT;
	}
	t->next = pt->first;
	pt->first = t;
	pt->count++;
	return 0;
}

static void timer_left(struct posix_timer *t, struct itimer_ns *ret)
{
	int64_t now = timer_now(t);

	if (t->when && t->notify == SIGEV_NONE && t->interval)
		timer_forward(t, now);
	ret->interval = t->interval;
	ret->value = 0;
	if (!t->when)
		return;
	ret->value = t->when - now;
	if (ret->value <= 0) /* due, not yet run: 0 only where no signal would come */
		ret->value = t->notify == SIGEV_NONE ? 0 : 1;
}

static long timer_out(struct task *task, gva_t at, const struct itimer_ns *v)
{
	int64_t out[4] = { v->interval / NS_PER_S, v->interval % NS_PER_S, v->value / NS_PER_S,
		v->value % NS_PER_S };

	return guest_write(task, at, out, sizeof(out));
}

static int timespec_ns(const int64_t ts[2], int64_t *ret)
{
	if (ts[0] < 0 || ts[1] < 0 || ts[1] >= NS_PER_S)
		return -EINVAL;
	if (ckd_mul(ret, ts[0], (int64_t)NS_PER_S) || ckd_add(ret, *ret, ts[1]))
		*ret = INT64_MAX;
	return 0;
}

/* A time on the timer's clock as CLOCK_MONOTONIC, which is where it waits; CPU clocks stay. */
static int64_t on_monotonic(struct posix_timer *t, int64_t when)
{
	struct kernel *k = t->proc->k;
	int64_t here = kernel_now(k), there = here;

	if (t->clock == CLOCK_REALTIME || t->clock == CLOCK_REALTIME_ALARM || t->clock == CLOCK_TAI)
		there = kernel_realtime(k);
	else if (on_cpu_time(t))
		return when > 0 ? when : 1;
	if (ckd_sub(&when, when, there) || ckd_add(&when, when, here))
		return INT64_MAX;
	return when > 0 ? when : 1;
}

SYSCALL4(timer_settime, int32_t, id, int32_t, flags, gva_t, in, gva_t, out)
{
	struct posix_timer *t;
	struct itimer_ns v, old;
	int64_t ts[4];
	int r;

	if (gva_null(in))
		return -EINVAL;
	if (guest_read(task, ts, in, sizeof(ts)) < 0)
		return -EFAULT;
	if (timespec_ns(ts, &v.interval) < 0 || timespec_ns(ts + 2, &v.value) < 0)
		return -EINVAL;
	t = timer_find(task->proc, id);
	if (!t)
		return -EINVAL;
	timer_left(t, &old);
	ktimer_clear(task->k, &t->timer);
	t->interval = v.value ? v.interval : 0;
	t->when = 0;
	t->overrun = t->overrun_last = 0;
	t->fired = false;
	if (v.value) {
		if (flags & TIMER_ABSTIME)
			t->when = on_monotonic(t, v.value);
		else if (ckd_add(&t->when, timer_now(t), v.value))
			t->when = INT64_MAX;
		r = t->notify == SIGEV_NONE ? 0 : timer_arm(t, 0);
		if (r < 0)
			return r;
	}
	return gva_null(out) ? 0 : timer_out(task, out, &old);
}

SYSCALL2(timer_gettime, int32_t, id, gva_t, out)
{
	struct posix_timer *t = timer_find(task->proc, id);
	struct itimer_ns v;

	if (!t)
		return -EINVAL;
	timer_left(t, &v);
	return timer_out(task, out, &v);
}

SYSCALL1(timer_getoverrun, int32_t, id)
{
	struct posix_timer *t = timer_find(task->proc, id);

	return t ? t->overrun_last : -EINVAL;
}

SYSCALL1(timer_delete, int32_t, id)
{
	struct posix_timer *t = timer_find(task->proc, id);

	if (!t)
		return -EINVAL;
	timer_free(task->proc, t);
	return 0;
}

static void real_walk(struct proc *p, struct walk *w)
{
	walk_i64(w, "interval", &p->itimer_real_interval);
	walk_time(w, "when", &p->itimer_real_when);
	if (w->mode == WALK_SAVE || w->err)
		return;
	if (p->itimer_real_interval < 0)
		walk_fail(w, -EBADMSG);
	p->itimer_real.fn = on_real;
	if (!w->err && p->itimer_real_when)
		walk_fail(w, ktimer_set(p->k, &p->itimer_real, p->itimer_real_when));
}

static void cpu_walk(
	struct cpu_itimer *c, struct walk *w, void (*fn)(struct kernel *k, struct ktimer *timer))
{
	walk_i64(w, "when", &c->when);
	walk_i64(w, "interval", &c->interval);
	if (w->mode == WALK_SAVE || w->err)
		return;
	if (c->when < 0 || c->interval < 0)
		walk_fail(w, -EBADMSG);
	c->timer.fn = fn;
	if (!w->err && c->when)
		walk_fail(w, cpu_look_again(c));
}

static void posix_walk(struct posix_timer *t, struct walk *w)
{
	walk_i32(w, "id", &t->id);
	walk_i32(w, "clock", &t->clock);
	walk_i32(w, "notify", &t->notify);
	walk_i32(w, "signo", &t->signo);
	walk_i32(w, "tid", &t->tid);
	walk_u64(w, "value", &t->value);
	walk_i32(w, "of", &t->of);
	walk_i64(w, "interval", &t->interval);
	if (on_cpu_time(t))
		walk_i64(w, "when", &t->when);
	else
		walk_time(w, "when", &t->when);
	walk_bool(w, "fired", &t->fired);
	walk_i32(w, "overrun", &t->overrun);
	walk_i32(w, "overrun_last", &t->overrun_last);
}

static bool posix_ok(const struct posix_timer *t)
{
	return t->id >= 0 && clock_known(t->clock) && t->interval >= 0 && t->when >= 0 &&
	       t->overrun >= 0 && t->overrun_last >= 0 && t->tid >= 0 && t->of >= 0 &&
	       (t->notify == SIGEV_NONE || (t->signo > 0 && t->signo <= GSIG_MAX));
}

static void posix_load(struct proc *p, struct posix_timer **last, struct walk *w)
{
	struct proc_timers *pt = p->posix_timers;
	struct posix_timer *t = calloc(1, sizeof(*t));

	if (!t) {
		walk_fail(w, -ENOMEM);
		return;
	}
	t->proc = p;
	t->timer.fn = on_posix;
	posix_walk(t, w);
	if (!w->err && (!posix_ok(t) || timer_find(p, t->id)))
		walk_fail(w, -EBADMSG);
	if (w->err) {
		free(t);
		return;
	}
	*last = t;
	pt->count++;
	/* One whose signal waits is armed when that is taken: timers_deliver(). A thread's clock
	 * cannot be asked before there are threads: it is looked at soon. */
	if (t->when && t->notify != SIGEV_NONE && !t->fired)
		walk_fail(w,
			ktimer_set(p->k, &t->timer, on_cpu_time(t) ? kernel_now(p->k) : t->when));
}

void timers_walk(struct proc *p, struct walk *w)
{
	struct proc_timers *pt = p->posix_timers;
	struct posix_timer **last;
	bool any = pt != NULL;
	uint32_t n = pt ? pt->count : 0;

	real_walk(p, w);
	walk_bool(w, "timers", &any);
	if (!any || w->err)
		return;
	pt = timers_of(p);
	if (!pt) {
		walk_fail(w, -ENOMEM);
		return;
	}
	cpu_walk(&pt->virt, w, on_cpu);
	cpu_walk(&pt->prof, w, on_cpu);
	cpu_walk(&pt->limit, w, on_limit);
	walk_i32(w, "last_id", &pt->last_id);
	if (pt->last_id < 0)
		walk_fail(w, -EBADMSG);
	walk_list(w, "count", &n, POSIX_TIMERS_MAX);
	last = &pt->first;
	for (; n > 0 && !w->err; n--) {
		if (w->mode == WALK_LOAD)
			posix_load(p, last, w);
		else
			posix_walk(*last, w);
		if (!w->err)
			last = &(*last)->next;
	}
}
