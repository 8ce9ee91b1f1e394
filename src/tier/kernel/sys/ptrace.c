/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/ptrace.c - ptrace(2), a function for each request.
 *
 * Owns:  nothing: task/trace.c has the stops, sys/regset.c the registers.
 * Rules: a request is about a tracee that is stopped; -ESRCH for all others. What Linux does and we
 *        cannot (segments, filters) is -EIO.
 */
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <linux/capability.h>
#include <linux/ptrace.h>
#include <sys/uio.h>

#include "base/ckd.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/sys/regset.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/task/trace.h"
#include "tier/kernel/trap/engine.h"

/* Where things are in struct user. */
enum { USER_REGS_END = UREG_COUNT * 8, USER_DEBUG = 848, USER_DEBUG_END = 912, USER_END = 912 };
enum { OPTIONS_KNOWN = 0xff | PTRACE_O_EXITKILL };

static long poke(struct task *it, uint64_t addr, uint64_t word)
{
	if (guest_write(it, GVA(addr), &word, sizeof(word)) == 0)
		return 0;
	return host_poke(it, addr, &word, sizeof(word)) ? 0 : -EIO;
}

static long peek(struct task *task, struct task *it, uint64_t addr, uint64_t to)
{
	uint64_t word;

	if (guest_read(it, &word, GVA(addr), sizeof(word)) < 0)
		return -EIO;
	return guest_write(task, GVA(to), &word, sizeof(word));
}

static long peek_user(struct task *task, struct task *it, uint64_t at, uint64_t to)
{
	uint64_t regs[UREG_COUNT], v = 0;
	int r = 0;

	if (at % 8 || at >= USER_END)
		return -EIO;
	if (at < USER_REGS_END) {
		r = regs_get(it, regs);
		if (r == 0)
			v = regs[at / 8];
	} else if (at >= USER_DEBUG && at < USER_DEBUG_END) {
		v = it->trace->debug[(at - USER_DEBUG) / 8];
	}
	return r < 0 ? r : guest_write(task, GVA(to), &v, sizeof(v));
}

static long poke_user(struct task *it, uint64_t at, uint64_t v)
{
	uint64_t regs[UREG_COUNT];
	int r;

	if (at % 8 || at >= USER_END)
		return -EIO;
	if (at >= USER_DEBUG && at < USER_DEBUG_END)
		return debug_poke(it->trace, (unsigned)(at - USER_DEBUG) / 8, v);
	if (at >= USER_REGS_END)
		return -EIO;
	r = regs_get(it, regs);
	if (r < 0)
		return r;
	regs[at / 8] = v;
	return regs_set(it, regs);
}

static long get_regs(struct task *task, struct task *it, uint64_t to, uint64_t len)
{
	uint64_t regs[UREG_COUNT];
	int r = regs_get(it, regs);

	return r < 0 ? r
		     : guest_write(task, GVA(to), regs, len < sizeof(regs) ? len : sizeof(regs));
}

static long set_regs(struct task *task, struct task *it, uint64_t from, uint64_t len)
{
	uint64_t regs[UREG_COUNT];
	int r = regs_get(it, regs);

	if (r < 0)
		return r;
	if (guest_read(task, regs, GVA(from), len < sizeof(regs) ? len : sizeof(regs)) < 0)
		return -EFAULT;
	return regs_set(it, regs);
}

/* Floating point, at most @len bytes; how many. */
static long copy_fp(struct task *task, struct task *it, uint64_t at, uint64_t len, bool set)
{
	uint8_t buf[XSAVE_BYTES_MAX];
	long n;

	if (len > sizeof(buf))
		len = sizeof(buf);
	if (set) {
		if (guest_read(task, buf, GVA(at), len) < 0)
			return -EFAULT;
		return fpregs_set(it, buf, len);
	}
	n = fpregs_get(it, buf, sizeof(buf));
	if (n < 0)
		return n;
	len = (uint64_t)n < len ? (uint64_t)n : len;
	return guest_write(task, GVA(at), buf, len) < 0 ? -EFAULT : (long)len;
}

static long regset(struct task *task, struct task *it, uint64_t type, uint64_t uiov, bool set)
{
	struct iovec iov;
	uint64_t at, len;
	long r;

	if (guest_read(task, &iov, GVA(uiov), sizeof(iov)) < 0)
		return -EFAULT;
	at = (uint64_t)(uintptr_t)iov.iov_base;
	len = iov.iov_len;
	switch (type) {
	case NT_PRSTATUS:
		if (len % 8)
			return -EINVAL;
		if (len > UREG_COUNT * 8)
			len = UREG_COUNT * 8;
		r = set ? set_regs(task, it, at, len) : get_regs(task, it, at, len);
		break;
	case NT_PRFPREG:
		if (len > FXSAVE_BYTES)
			len = FXSAVE_BYTES;
		r = copy_fp(task, it, at, len, set);
		break;
	case NT_X86_XSTATE:
		if (len % 8)
			return -EINVAL;
		r = copy_fp(task, it, at, len, set);
		len = r < 0 ? 0 : (uint64_t)r;
		break;
	default:
		return -EINVAL;
	}
	if (r < 0)
		return r;
	return guest_write(task, GVA(uiov + offsetof(struct iovec, iov_len)), &len, sizeof(len));
}

static long syscall_info(struct task *task, struct task *it, uint64_t size, uint64_t to)
{
	struct trace *tr = it->trace;
	struct ptrace_syscall_info si = { .arch = 0xc000003e /* AUDIT_ARCH_X86_64 */ };
	uint64_t regs[UREG_COUNT];
	size_t len = offsetof(struct ptrace_syscall_info, entry);
	bool asked = tr->kind == TRACE_EVENT && tr->code >> 8 == PTRACE_EVENT_SECCOMP;
	int r = regs_get(it, regs);

	if (r < 0)
		return r;
	si.instruction_pointer = regs[UREG_RIP];
	si.stack_pointer = regs[UREG_RSP];
	if (tr->kind == TRACE_ENTER || asked) {
		si.op = asked ? PTRACE_SYSCALL_INFO_SECCOMP : PTRACE_SYSCALL_INFO_ENTRY;
		si.entry.nr = regs[UREG_ORIG_RAX];
		si.entry.args[0] = regs[UREG_RDI];
		si.entry.args[1] = regs[UREG_RSI];
		si.entry.args[2] = regs[UREG_RDX];
		si.entry.args[3] = regs[UREG_R10];
		si.entry.args[4] = regs[UREG_R8];
		si.entry.args[5] = regs[UREG_R9];
		len += sizeof(si.entry);
		if (asked) {
			si.seccomp.ret_data = (uint32_t)tr->message;
			len = offsetof(struct ptrace_syscall_info, seccomp.ret_data) + 4;
		}
	} else if (tr->kind == TRACE_EXIT) {
		si.op = PTRACE_SYSCALL_INFO_EXIT;
		si.exit.rval = (int64_t)regs[UREG_RAX];
		si.exit.is_error = si.exit.rval < 0 && si.exit.rval >= -4095;
		len = offsetof(struct ptrace_syscall_info, exit.is_error) + 1;
	}
	if (guest_write(task, GVA(to), &si, size < len ? size : len) < 0)
		return -EFAULT;
	return (long)len;
}

static long signal_mask(struct task *task, struct task *it, uint64_t size, uint64_t at, bool set)
{
	uint64_t mask = it->has_saved_mask ? it->saved_mask : it->mask;

	if (size != sizeof(mask))
		return -EINVAL;
	if (!set)
		return guest_write(task, GVA(at), &mask, sizeof(mask));
	if (guest_read(task, &mask, GVA(at), sizeof(mask)) < 0)
		return -EFAULT;
	signal_set_mask(it, mask);
	return 0;
}

static long signal_info(struct task *task, struct task *it, uint64_t at, bool set)
{
	union gsiginfo si;

	if (it->trace->kind == TRACE_GROUP && !it->trace->seized)
		return -EINVAL;
	if (!set)
		return guest_write(task, GVA(at), &it->trace->info, sizeof(si));
	if (guest_read(task, &si, GVA(at), sizeof(si)) < 0)
		return -EFAULT;
	it->trace->info = si;
	return 0;
}

static long options(struct task *it, uint64_t data)
{
	if (data & ~(uint64_t)OPTIONS_KNOWN)
		return -EINVAL;
	it->trace->options = (uint32_t)data;
	return 0;
}

static long go_on(struct task *it, int64_t op, uint64_t sig)
{
	if (sig > GSIG_MAX)
		return -EIO;
	if (sig == SIGKILL) {
		proc_exit(it->proc, SIGKILL);
		return 0;
	}
	if (op == PTRACE_DETACH)
		trace_detach(it, (int)sig);
	else
		trace_resume(it->trace, op, (int)sig);
	return 0;
}

static long trace_me(struct task *t)
{
	struct proc *up = t->proc->parent;

	/* Pid 1 speaks for the sandbox: it has nothing to look after. */
	if (!up || up == t->k->init)
		return -EPERM;
	/* Nobody gets rights by having a child that has them. */
	if ((t->cred->cap_permitted & ~proc_leader(up)->cred->cap_permitted) &&
		!task_capable_in(proc_leader(up), t->cred->user, CAP_SYS_PTRACE))
		return -EPERM;
	return trace_attach(t, up, false, 0);
}

/* No signal ends it, since that stop sends one itself. */
static long wait_for_stop(struct task *t)
{
	wait_on(t, &t->proc->child_queue, 0);
	return SYS_BLOCK;
}

static long attach(struct task *task, struct task *it, int64_t op, uint64_t addr, uint64_t opts)
{
	int r;

	if (it->trace && it->trace->tracer == task->proc && !task->call.first)
		return it->trace->stopped ? 0 : wait_for_stop(task);
	if (op == PTRACE_SEIZE && (addr || (opts & ~(uint64_t)OPTIONS_KNOWN)))
		return -EIO;
	if (it->proc == task->proc || it->proc == task->k->init || it->proc->exiting ||
		!task_may_trace(task, it))
		return -EPERM;
	if (it->embryo)
		return task_wait_born(task);
	task->call.deadline = 0;
	r = trace_attach(
		it, task->proc, op == PTRACE_SEIZE, op == PTRACE_SEIZE ? (uint32_t)opts : 0);
	if (r == 0 && op == PTRACE_ATTACH)
		signal_send_task(it, SIGSTOP, NULL);
	/* One that job control has stopped is the tracer's when the call returns. */
	if (r == 0 && it->proc->stop_signal) {
		wait_rouse(it);
		return wait_for_stop(task);
	}
	return r;
}

/* What may be asked of one that runs. */
static long of_running(struct task *it, int64_t op)
{
	if (op == PTRACE_KILL) {
		proc_exit(it->proc, SIGKILL);
		return 0;
	}
	if (!it->trace->seized)
		return -EIO;
	trace_interrupt(it);
	return 0;
}

static long listen(struct task *it)
{
	struct trace *tr = it->trace;

	if (!tr->seized || tr->code >> 8 != PTRACE_EVENT_STOP)
		return -EIO;
	tr->listening = true;
	tr->news = false;
	if (!it->proc->stop_signal || tr->due) /* that was over already: it hears of it now */
		trace_relisten(it);
	return 0;
}

static long of_stopped(struct task *task, struct task *it, int64_t op, uint64_t addr, uint64_t data)
{
	switch (op) {
	case PTRACE_PEEKTEXT:
	case PTRACE_PEEKDATA:
		return peek(task, it, addr, data);
	case PTRACE_POKETEXT:
	case PTRACE_POKEDATA:
		return poke(it, addr, data);
	case PTRACE_PEEKUSR:
		return peek_user(task, it, addr, data);
	case PTRACE_POKEUSR:
		return poke_user(it, addr, data);
	case PTRACE_GETREGS:
		return get_regs(task, it, data, UREG_COUNT * 8);
	case PTRACE_SETREGS:
		return set_regs(task, it, data, UREG_COUNT * 8);
	case PTRACE_GETFPREGS:
	case PTRACE_SETFPREGS: {
		long r = copy_fp(task, it, data, FXSAVE_BYTES, op == PTRACE_SETFPREGS);

		return r < 0 ? r : 0;
	}
	case PTRACE_GETREGSET:
	case PTRACE_SETREGSET:
		return regset(task, it, addr, data, op == PTRACE_SETREGSET);
	case PTRACE_CONT:
	case PTRACE_SYSCALL:
	case PTRACE_SINGLESTEP:
	case PTRACE_DETACH:
		return go_on(it, op, data);
	case PTRACE_LISTEN:
		return listen(it);
	case PTRACE_SETOPTIONS:
		return options(it, data);
	case PTRACE_GETEVENTMSG:
		return guest_write(
			task, GVA(data), &it->trace->message, sizeof(it->trace->message));
	case PTRACE_GETSIGINFO:
	case PTRACE_SETSIGINFO:
		return signal_info(task, it, data, op == PTRACE_SETSIGINFO);
	case PTRACE_GETSIGMASK:
	case PTRACE_SETSIGMASK:
		return signal_mask(task, it, addr, data, op == PTRACE_SETSIGMASK);
	case PTRACE_GET_SYSCALL_INFO:
		return syscall_info(task, it, addr, data);
	default:
		return -EIO;
	}
}

SYSCALL4(ptrace, int64_t, op, int, pid, uint64_t, addr, uint64_t, data)
{
	struct task *it;

	if (op == PTRACE_TRACEME)
		return trace_me(task);
	it = pid > 0 ? task_at(task, pid) : NULL;
	if (!it || it->state == TASK_DEAD || !task_is_open_to(task, it))
		return -ESRCH;
	if (op == PTRACE_ATTACH || op == PTRACE_SEIZE)
		return attach(task, it, op, addr, data);
	if (!it->trace || it->trace->tracer != task->proc)
		return -ESRCH;
	if (op == PTRACE_KILL || op == PTRACE_INTERRUPT)
		return of_running(it, op);
	if (!it->trace->stopped || it->trace->listening)
		return -ESRCH;
	return of_stopped(task, it, op, addr, data);
}
