/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/task/seccomp.c - seccomp inside the sandbox: filters checked, run and obeyed.
 *
 * Owns:  struct seccomp_filter.
 * Rules: under the kernel lock. A program is checked once, when it comes in: every jump goes
 *        forwards and stays inside, every load is in the data or the scratch words, the last
 *        instruction returns. So running it always ends.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "base/ckd.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/task/deliver.h"
#include "tier/kernel/task/listener.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/task/seccomp.h"
#include "tier/kernel/task/trace.h"
#include "tier/kernel/walk.h"

enum { PER_FILTER = 4, FILTERS_MAX = GUEST_BPF_SUM_MAX / (1 + PER_FILTER) };

static bool jump_fits(const struct sock_filter *i, uint32_t at, uint32_t len)
{
	if (i->code == (BPF_JMP | BPF_JA))
		return i->k < len - at - 1;
	return at + i->jt + 1 < len && at + i->jf + 1 < len;
}

static bool is_sane(const struct sock_filter *i, uint32_t at, uint32_t len)
{
	switch (i->code) {
	case BPF_LD | BPF_W | BPF_ABS:
		return i->k < sizeof(struct seccomp_data) && i->k % 4 == 0;
	case BPF_LD | BPF_W | BPF_LEN:
	case BPF_LDX | BPF_W | BPF_LEN:
	case BPF_LD | BPF_IMM:
	case BPF_LDX | BPF_IMM:
	case BPF_RET | BPF_K:
	case BPF_RET | BPF_A:
	case BPF_MISC | BPF_TAX:
	case BPF_MISC | BPF_TXA:
	case BPF_ALU | BPF_ADD | BPF_K:
	case BPF_ALU | BPF_ADD | BPF_X:
	case BPF_ALU | BPF_SUB | BPF_K:
	case BPF_ALU | BPF_SUB | BPF_X:
	case BPF_ALU | BPF_MUL | BPF_K:
	case BPF_ALU | BPF_MUL | BPF_X:
	case BPF_ALU | BPF_DIV | BPF_X:
	case BPF_ALU | BPF_AND | BPF_K:
	case BPF_ALU | BPF_AND | BPF_X:
	case BPF_ALU | BPF_OR | BPF_K:
	case BPF_ALU | BPF_OR | BPF_X:
	case BPF_ALU | BPF_XOR | BPF_K:
	case BPF_ALU | BPF_XOR | BPF_X:
	case BPF_ALU | BPF_LSH | BPF_X:
	case BPF_ALU | BPF_RSH | BPF_X:
	case BPF_ALU | BPF_NEG:
		return true;
	case BPF_ALU | BPF_DIV | BPF_K:
		return i->k != 0;
	case BPF_ALU | BPF_LSH | BPF_K:
	case BPF_ALU | BPF_RSH | BPF_K:
		return i->k < 32;
	case BPF_LD | BPF_MEM:
	case BPF_LDX | BPF_MEM:
	case BPF_ST:
	case BPF_STX:
		return i->k < BPF_MEMWORDS;
	case BPF_JMP | BPF_JA:
	case BPF_JMP | BPF_JEQ | BPF_K:
	case BPF_JMP | BPF_JEQ | BPF_X:
	case BPF_JMP | BPF_JGE | BPF_K:
	case BPF_JMP | BPF_JGE | BPF_X:
	case BPF_JMP | BPF_JGT | BPF_K:
	case BPF_JMP | BPF_JGT | BPF_X:
	case BPF_JMP | BPF_JSET | BPF_K:
	case BPF_JMP | BPF_JSET | BPF_X:
		return jump_fits(i, at, len);
	default:
		return false;
	}
}

static bool is_program(const struct sock_filter *code, uint32_t len)
{
	if (!len || len > GUEST_BPF_MAX || BPF_CLASS(code[len - 1].code) != BPF_RET)
		return false;
	for (uint32_t i = 0; i < len; i++)
		if (!is_sane(&code[i], i, len))
			return false;
	return true;
}

int seccomp_add(struct seccomp_filter *prev, const struct sock_filter *code, uint32_t len,
	struct seccomp_filter **ret)
{
	struct seccomp_filter *f;
	uint32_t sum = len;

	if (!is_program(code, len))
		return -EINVAL;
	for (f = prev; f; f = f->prev)
		sum += f->len + PER_FILTER;
	if (sum > GUEST_BPF_SUM_MAX)
		return -ENOMEM;
	f = malloc(sizeof(*f) + len * sizeof(f->code[0]));
	if (!f)
		return -ENOMEM;
	f->refs = 1;
	f->prev = prev;
	f->listener = NULL;
	f->len = len;
	memcpy(f->code, code, len * sizeof(f->code[0]));
	*ret = f;
	return 0;
}

struct seccomp_filter *seccomp_ref(struct seccomp_filter *f)
{
	if (f)
		f->refs++;
	return f;
}

void seccomp_unref(struct seccomp_filter *f)
{
	while (f && --f->refs == 0) {
		struct seccomp_filter *prev = f->prev;

		listener_unused(f->listener);
		free(f);
		f = prev;
	}
}

uint32_t seccomp_count(const struct seccomp_filter *f)
{
	uint32_t n = 0;

	for (; f; f = f->prev)
		n++;
	return n;
}

static uint32_t alu(unsigned op, uint32_t a, uint32_t v)
{
	switch (op) {
	case BPF_ADD:
		return a + v;
	case BPF_SUB:
		return a - v;
	case BPF_MUL:
		return a * v;
	case BPF_DIV:
		return v ? a / v : 0;
	case BPF_AND:
		return a & v;
	case BPF_OR:
		return a | v;
	case BPF_XOR:
		return a ^ v;
	case BPF_LSH:
		return v < 32 ? a << v : 0;
	case BPF_RSH:
		return v < 32 ? a >> v : 0;
	default: /* BPF_NEG */
		return 0u - a;
	}
}

static bool jumps(unsigned op, uint32_t a, uint32_t v)
{
	switch (op) {
	case BPF_JEQ:
		return a == v;
	case BPF_JGT:
		return a > v;
	case BPF_JGE:
		return a >= v;
	default: /* BPF_JSET */
		return (a & v) != 0;
	}
}

static uint32_t run(const struct seccomp_filter *f, const struct seccomp_data *d)
{
	uint32_t a = 0, x = 0, mem[BPF_MEMWORDS] = { 0 };

	for (uint32_t at = 0; at < f->len; at++) {
		const struct sock_filter *i = &f->code[at];
		uint32_t v = BPF_SRC(i->code) == BPF_X ? x : i->k;

		switch (BPF_CLASS(i->code)) {
		case BPF_LD:
		case BPF_LDX:
			if (BPF_MODE(i->code) == BPF_ABS)
				memcpy(&v, (const char *)d + i->k, sizeof(v));
			else if (BPF_MODE(i->code) == BPF_MEM)
				v = mem[i->k];
			else
				v = BPF_MODE(i->code) == BPF_LEN ? sizeof(*d) : i->k;
			if (BPF_CLASS(i->code) == BPF_LD)
				a = v;
			else
				x = v;
			break;
		case BPF_ST:
			mem[i->k] = a;
			break;
		case BPF_STX:
			mem[i->k] = x;
			break;
		case BPF_ALU:
			if (i->code == (BPF_ALU | BPF_DIV | BPF_X) && !x)
				return SECCOMP_RET_KILL_THREAD;
			a = alu(BPF_OP(i->code), a, v);
			break;
		case BPF_JMP:
			if (BPF_OP(i->code) == BPF_JA)
				at += i->k;
			else
				at += jumps(BPF_OP(i->code), a, v) ? i->jt : i->jf;
			break;
		case BPF_RET:
			return BPF_RVAL(i->code) == BPF_A ? a : i->k;
		default: /* BPF_MISC */
			if (BPF_MISCOP(i->code) == BPF_TAX)
				x = a;
			else
				a = x;
			break;
		}
	}
	return SECCOMP_RET_KILL_PROCESS; /* not reached: the last one returns */
}

/* The strictest answer of all, and the newest one's among equals. */
static uint32_t run_all(const struct task *t, struct listener **ret)
{
	struct seccomp_data d = {
		.nr = (int)t->call.nr, .arch = AUDIT_ARCH_X86_64, .instruction_pointer = t->call.ip
	};
	uint32_t best = SECCOMP_RET_ALLOW;

	memcpy(d.args, t->call.args, sizeof(d.args));
	for (const struct seccomp_filter *f = t->filters; f; f = f->prev) {
		uint32_t v = run(f, &d);

		if ((int32_t)(v & SECCOMP_RET_ACTION_FULL) <
			(int32_t)(best & SECCOMP_RET_ACTION_FULL)) {
			best = v;
			*ret = f->listener;
		}
	}
	return best;
}

static void trap(struct task *t, uint32_t data)
{
	union gsiginfo info;
	struct {
		uint64_t addr;
		int32_t nr;
		uint32_t arch;
	} words = { t->call.ip, (int32_t)t->call.nr, AUDIT_ARCH_X86_64 };

	memset(&info, 0, sizeof(info));
	info.code = 1; /* SYS_SECCOMP */
	info.err = (int32_t)data;
	memcpy(info.raw + 16, &words, sizeof(words));
	signal_force(t, SIGSYS, &info);
}

static enum seccomp_verdict kill_it(struct task *t, bool whole)
{
	if (whole || t->proc->task_count == 1) {
		proc_exit(t->proc, death_status(t, SIGSYS));
	} else {
		t->k->engine->leave(t);
		task_exit(t, SIGSYS);
	}
	return SECCOMP_DEAD;
}

enum seccomp_verdict seccomp_check(struct task *t, long *ret)
{
	struct listener *listener = NULL;
	int64_t nr = t->call.nr;
	uint32_t v, data;

	if (t->seccomp_strict) {
		if (nr == SYS_read || nr == SYS_write || nr == SYS_exit || nr == SYS_rt_sigreturn)
			return SECCOMP_GO;
		proc_exit(t->proc, SIGKILL);
		return SECCOMP_DEAD;
	}
	v = run_all(t, &listener);
	data = v & SECCOMP_RET_DATA;
	switch (v & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_ALLOW:
	case SECCOMP_RET_LOG:
		return SECCOMP_GO;
	case SECCOMP_RET_ERRNO:
		*ret = -(long)(data > 4095 ? 4095 : data);
		return SECCOMP_ANSWER;
	case SECCOMP_RET_TRAP:
		trap(t, data);
		*ret = (long)nr; /* the registers are as before the call */
		return t->state == TASK_DEAD ? SECCOMP_DEAD : SECCOMP_ANSWER;
	case SECCOMP_RET_TRACE:
		*ret = -ENOSYS; /* as a tracer finds it, or because there is none */
		return trace_lets(t, data) ? SECCOMP_GO : SECCOMP_ANSWER;
	case SECCOMP_RET_USER_NOTIF:
		return listener_ask(t, listener, ret);
	case SECCOMP_RET_KILL_THREAD:
		return kill_it(t, false);
	default:
		return kill_it(t, true);
	}
}

void seccomp_walk(struct task *t, struct walk *w)
{
	uint32_t n = seccomp_count(t->filters);
	struct seccomp_filter *loaded = NULL;

	walk_bool(w, "seccomp_strict", &t->seccomp_strict);
	walk_count(w, "filters", &n, FILTERS_MAX);
	/* The oldest first: each is put on top of what is there. */
	for (uint32_t i = 0; i < n && !w->err; i++) {
		struct seccomp_filter *f = t->filters;
		void *code = NULL;
		size_t len = 0;
		int r;

		if (w->mode == WALK_SAVE) {
			for (uint32_t up = n - 1; up > i; up--)
				f = f->prev;
			code = f->code;
			len = f->len * sizeof(f->code[0]);
		}
		walk_blob(w, "code", &code, &len, GUEST_BPF_MAX * sizeof(f->code[0]));
		if (w->mode == WALK_SAVE || w->err)
			continue;
		r = len % sizeof(f->code[0])
			    ? -EBADMSG
			    : seccomp_add(
				      loaded, code, (uint32_t)(len / sizeof(f->code[0])), &loaded);
		free(code);
		if (r < 0)
			w->err = -EBADMSG;
	}
	if (w->mode == WALK_LOAD)
		t->filters = loaded;
}
