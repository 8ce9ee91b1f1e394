/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sys/time.c - clocks, sleeping and timerfd.
 *
 * The guest's vdso answers most clock calls without us; these are for those that call by number,
 * and for the CPU clocks.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/timerfd.h>
#include <time.h>

#include "base/ckd.h"
#include "tier/kernel/io/event.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/io/timers.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"

enum { NS_PER_S = 1000000000, NS_PER_US = 1000, COARSE_NS = 4000000, CPU_CLOCK_SCHED = 2 };

static int64_t host_ns(clockid_t id)
{
	struct timespec ts;

	if (clock_gettime(id, &ts) < 0)
		return 0;
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/* A negative clock is (~pid << 3 | kind): the CPU time of a process or of a thread of the caller.
 */
static int cpu_clock(struct task *task, int32_t id, int64_t *ret)
{
	int32_t pid = ~(id >> 3);
	bool thread = id & 4;
	struct task *t = pid ? task_at(task, pid) : task;

	if ((id & 3) > CPU_CLOCK_SCHED || !t)
		return -EINVAL;
	if (thread) {
		if (t->proc != task->proc)
			return -EINVAL;
		*ret = task_cpu_ns(t);
		return 0;
	}
	if (pid && t != proc_leader(t->proc))
		return -EINVAL;
	*ret = proc_cpu_ns(t->proc);
	return 0;
}

static int clock_read(struct task *task, int32_t id, int64_t *ret)
{
	switch (id) {
	case CLOCK_REALTIME:
		*ret = kernel_realtime(task->k);
		return 0;
	case CLOCK_MONOTONIC:
		*ret = kernel_now(task->k);
		return 0;
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_REALTIME_COARSE:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_BOOTTIME:
	case CLOCK_TAI:
		*ret = host_ns(id);
		return 0;
	case CLOCK_REALTIME_ALARM:
		*ret = kernel_realtime(task->k);
		return 0;
	case CLOCK_BOOTTIME_ALARM:
		*ret = host_ns(CLOCK_BOOTTIME);
		return 0;
	case CLOCK_PROCESS_CPUTIME_ID:
		*ret = proc_cpu_ns(task->proc);
		return 0;
	case CLOCK_THREAD_CPUTIME_ID:
		*ret = task_cpu_ns(task);
		return 0;
	default:
		return id < 0 ? cpu_clock(task, id, ret) : -EINVAL;
	}
}

SYSCALL2(clock_gettime, int32_t, id, gva_t, out)
{
	int64_t ns;
	int r = clock_read(task, id, &ns);

	return r < 0 ? r : guest_write_timespec(task, out, ns);
}

SYSCALL2(clock_getres, int32_t, id, gva_t, out)
{
	int64_t ns;
	int r = clock_read(task, id, &ns);

	if (r < 0)
		return r;
	ns = id == CLOCK_REALTIME_COARSE || id == CLOCK_MONOTONIC_COARSE ? COARSE_NS : 1;
	return gva_null(out) ? 0 : guest_write_timespec(task, out, ns);
}

/* The clock is the host's: nobody inside may set it, but what is wrong is told first. */
SYSCALL2(clock_settime, int32_t, id, gva_t, in)
{
	int64_t ns, now;
	int r;

	if (id != CLOCK_REALTIME && (id >= 0 || clock_read(task, id, &now) < 0))
		return -EINVAL;
	r = guest_read_timespec(task, in, &ns);
	if (r < 0)
		return r;
	return id == CLOCK_REALTIME ? -EPERM : -EINVAL;
}

SYSCALL2(gettimeofday, gva_t, tv, gva_t, tz)
{
	int64_t ns = kernel_realtime(task->k),
		out[2] = { ns / NS_PER_S, ns % NS_PER_S / NS_PER_US };
	int32_t zone[2] = { 0, 0 };

	if (!gva_null(tv) && guest_write(task, tv, out, sizeof(out)) < 0)
		return -EFAULT;
	return gva_null(tz) ? 0 : guest_write(task, tz, zone, sizeof(zone));
}

SYSCALL2(settimeofday, gva_t, tv, gva_t, tz)
{
	int64_t in[2];
	int32_t zone[2];

	if (!gva_null(tv)) {
		if (guest_read(task, in, tv, sizeof(in)) < 0)
			return -EFAULT;
		if (in[1] < 0 || in[1] > 1000000)
			return -EINVAL;
	}
	if (!gva_null(tz) && guest_read(task, zone, tz, sizeof(zone)) < 0)
		return -EFAULT;
	return -EPERM;
}

SYSCALL1(time, gva_t, out)
{
	int64_t s = kernel_realtime(task->k) / NS_PER_S;

	if (!gva_null(out) && guest_write(task, out, &s, sizeof(s)) < 0)
		return -EFAULT;
	return s;
}

/* Would Linux take it from root? Nobody else hears what is wrong. */
static bool is_adjustment(const struct task *task, uint32_t modes, int64_t usec, int64_t tick)
{
	enum {
		ADJTIME = 0x8000,
		SINGLESHOT = 0x0001,
		TICK = 0x4000,
		SETOFFSET = 0x0100,
		NANO = 0x2000,
		TICK_MIN = 9000,
		TICK_MAX = 11000
	};

	if (modes & ADJTIME)
		return modes & SINGLESHOT;
	if (!task_capable(task, CAP_SYS_TIME))
		return true;
	if ((modes & TICK) && (tick < TICK_MIN || tick > TICK_MAX))
		return false;
	return !(modes & SETOFFSET) ||
	       (usec >= 0 && usec < (modes & NANO ? NS_PER_S : NS_PER_S / NS_PER_US));
}

/* Only asking is allowed; 208 bytes of "the clock is not disciplined by us". */
static long adjust_clock(struct task *task, gva_t at)
{
	union {
		uint32_t modes;
		int64_t word[26];
		uint8_t raw[208];
	} tx;
	enum { TIME_ERROR_STATE = 5, STA_UNSYNC_BIT = 0x40, W_STATUS = 5, W_TICK = 11 };
	int64_t now = kernel_realtime(task->k);

	if (guest_read(task, &tx, at, sizeof(tx)) < 0)
		return -EFAULT;
	if (tx.modes && tx.modes != 0xa001) /* ADJ_OFFSET_SS_READ asks, too */
		return is_adjustment(task, tx.modes, tx.word[10], tx.word[W_TICK]) ? -EPERM
										   : -EINVAL;
	memset(&tx, 0, sizeof(tx));
	tx.word[3] = 16000000; /* maxerror, esterror: unknown */
	tx.word[4] = 16000000;
	tx.word[W_STATUS] = STA_UNSYNC_BIT;
	tx.word[6] = 2;        /* constant */
	tx.word[7] = 1;        /* precision */
	tx.word[8] = 32768000; /* tolerance */
	tx.word[9] = now / NS_PER_S;
	tx.word[10] = now % NS_PER_S / NS_PER_US;
	tx.word[W_TICK] = 10000;
	if (guest_write(task, at, &tx, sizeof(tx)) < 0)
		return -EFAULT;
	return TIME_ERROR_STATE;
}

SYSCALL1(adjtimex, gva_t, tx)
{
	return adjust_clock(task, tx);
}

SYSCALL2(clock_adjtime, int32_t, id, gva_t, tx)
{
	int64_t ns;

	if (clock_read(task, id, &ns) < 0)
		return -EINVAL;
	return id == CLOCK_REALTIME ? adjust_clock(task, tx) : -EOPNOTSUPP;
}

/* Sleeps until call.deadline; @left gets what remains when a handler ended it early. */
static long sleep_common(struct task *task, gva_t left)
{
	int64_t rest;
	long r;

	if (!task->call.deadline)
		return 0;
	r = wait_block(task);
	if (r == -ETIMEDOUT)
		return 0;
	if (r != -ERESTARTSYS)
		return r;
	if (wait_timed_out(task))
		return 0;
	rest = task->call.deadline - kernel_now(task->k);
	if (!gva_null(left) && guest_write_timespec(task, left, rest > 0 ? rest : 0) < 0)
		return -EFAULT;
	return -ERESTARTNOHAND;
}

SYSCALL2(nanosleep, gva_t, in, gva_t, left)
{
	int64_t ns;
	int r;

	if (task->call.first) {
		r = guest_read_timespec(task, in, &ns);
		if (r < 0)
			return r;
		wait_set_timeout(task, ns);
	}
	return sleep_common(task, left);
}

static void set_deadline(struct task *task, int32_t id, int64_t when)
{
	int64_t now = kernel_now(task->k), there = now;

	if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_ALARM || id == CLOCK_TAI ||
		id == CLOCK_BOOTTIME || id == CLOCK_BOOTTIME_ALARM)
		clock_read(task, id, &there);
	if (ckd_sub(&when, when, there) || ckd_add(&when, when, now))
		when = INT64_MAX;
	task->call.deadline = when > 0 ? when : 1;
}

SYSCALL4(clock_nanosleep, int32_t, id, int32_t, flags, gva_t, in, gva_t, left)
{
	int64_t ns, now;
	int r;

	if (task->call.first) {
		if (id == CLOCK_THREAD_CPUTIME_ID || id == CLOCK_MONOTONIC_RAW ||
			id == CLOCK_REALTIME_COARSE || id == CLOCK_MONOTONIC_COARSE)
			return -EOPNOTSUPP;
		if (clock_read(task, id, &now) < 0)
			return -EINVAL;
		r = guest_read_timespec(task, in, &ns);
		if (r < 0)
			return r;
		if (flags & TIMER_ABSTIME)
			set_deadline(task, id, ns);
		else
			wait_set_timeout(task, ns);
	}
	return sleep_common(task, flags & TIMER_ABSTIME ? GVA(0) : left);
}

static bool timerfd_clock(int32_t id)
{
	return id == CLOCK_REALTIME || id == CLOCK_MONOTONIC || id == CLOCK_BOOTTIME ||
	       id == CLOCK_REALTIME_ALARM || id == CLOCK_BOOTTIME_ALARM;
}

SYSCALL2(timerfd_create, int32_t, clock, uint32_t, flags)
{
	if ((flags & ~(uint32_t)(TFD_CLOEXEC | TFD_NONBLOCK)) || !timerfd_clock(clock))
		return -EINVAL;
	if ((clock == CLOCK_REALTIME_ALARM || clock == CLOCK_BOOTTIME_ALARM) &&
		!task_capable(task, CAP_WAKE_ALARM))
		return -EPERM;
	return io_install(task, timerfd_file(task->k, clock, flags), flags & O_CLOEXEC);
}

static int value_in(struct task *task, gva_t at, struct timerfd_value *ret)
{
	/* interval first, then value: two timespecs */
	int r = guest_read_timespec(task, at, &ret->interval);

	return r < 0 ? r : guest_read_timespec(task, gva_add(at, 16), &ret->value);
}

static int value_out(struct task *task, gva_t at, const struct timerfd_value *v)
{
	int64_t out[4] = { v->interval / NS_PER_S, v->interval % NS_PER_S, v->value / NS_PER_S,
		v->value % NS_PER_S };

	return guest_write(task, at, out, sizeof(out));
}

SYSCALL4(timerfd_settime, int32_t, fd, int32_t, flags, gva_t, in, gva_t, out)
{
	struct timerfd_value v, old;
	struct file *f;
	int r = value_in(task, in, &v);

	if (r < 0)
		return r;
	if (flags & ~(TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET))
		return -EINVAL;
	f = fd_get(task, fd);
	if (!f)
		return -EBADF;
	r = timerfd_set(f, flags & TFD_TIMER_ABSTIME, &v, &old);
	if (r < 0)
		return r;
	return gva_null(out) ? 0 : value_out(task, out, &old);
}

SYSCALL2(timerfd_gettime, int32_t, fd, gva_t, out)
{
	struct file *f = fd_get(task, fd);
	struct timerfd_value v;
	int r;

	if (!f)
		return -EBADF;
	r = timerfd_get(f, &v);
	return r < 0 ? r : value_out(task, out, &v);
}
