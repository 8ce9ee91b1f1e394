/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/regset.c - the registers of a stopped tracee.
 *
 * Owns:  nothing.
 * Rules: all of it is guest memory, which another thread may change: lengths in it are checked on a
 *        copy, and what is written goes where the tracee itself could write.
 */
#include <errno.h>
#include <string.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/shim/frame.h"
#include "tier/kernel/sys/regset.h"
#include "tier/kernel/task/trace.h"

enum { USER_CS = 0x33, USER_DS = 0x2b };
enum { XSAVE_MAGIC = 0x46505853, SW_AT = 464 };
/* Carry, parity, adjust, zero, sign, trap, direction, overflow, resume, alignment, id. */
#define USER_FLAGS 0x254dd5ULL

static int frame_read(struct task *t, struct shim_regs *f)
{
	return guest_read(t, f, GVA(t->trace->frame + SHIM_FRAME_REGS), sizeof(*f)) < 0 ? -EIO : 0;
}

int regs_get(struct task *t, uint64_t r[UREG_COUNT])
{
	struct shim_regs f;
	int err = frame_read(t, &f);

	if (err < 0)
		return err;
	memset(r, 0, UREG_COUNT * sizeof(r[0]));
	r[UREG_R15] = f.r15;
	r[UREG_R14] = f.r14;
	r[UREG_R13] = f.r13;
	r[UREG_R12] = f.r12;
	r[UREG_RBP] = f.rbp;
	r[UREG_RBX] = f.rbx;
	r[UREG_R11] = f.r11;
	r[UREG_R10] = f.r10;
	r[UREG_R9] = f.r9;
	r[UREG_R8] = f.r8;
	r[UREG_RAX] = f.rax;
	r[UREG_RCX] = f.rcx;
	r[UREG_RDX] = f.rdx;
	r[UREG_RSI] = f.rsi;
	r[UREG_RDI] = f.rdi;
	r[UREG_ORIG_RAX] = (uint64_t)t->trace->orig;
	r[UREG_RIP] = f.rip;
	r[UREG_CS] = USER_CS;
	r[UREG_EFLAGS] = f.eflags;
	r[UREG_RSP] = f.rsp;
	r[UREG_SS] = USER_DS;
	r[UREG_FS_BASE] = t->trace->fs;
	r[UREG_GS_BASE] = t->trace->gs;
	return 0;
}

int regs_set(struct task *t, const uint64_t r[UREG_COUNT])
{
	struct shim_regs f;
	int err = frame_read(t, &f);

	if (err < 0)
		return err;
	if (r[UREG_CS] != USER_CS || r[UREG_SS] != USER_DS || r[UREG_FS_BASE] != t->trace->fs ||
		r[UREG_GS_BASE] != t->trace->gs)
		return -EIO;
	f.r15 = r[UREG_R15];
	f.r14 = r[UREG_R14];
	f.r13 = r[UREG_R13];
	f.r12 = r[UREG_R12];
	f.rbp = r[UREG_RBP];
	f.rbx = r[UREG_RBX];
	f.r11 = r[UREG_R11];
	f.r10 = r[UREG_R10];
	f.r9 = r[UREG_R9];
	f.r8 = r[UREG_R8];
	f.rax = r[UREG_RAX];
	f.rcx = r[UREG_RCX];
	f.rdx = r[UREG_RDX];
	f.rsi = r[UREG_RSI];
	f.rdi = r[UREG_RDI];
	f.rip = r[UREG_RIP];
	f.rsp = r[UREG_RSP];
	f.eflags = (f.eflags & ~USER_FLAGS) | (r[UREG_EFLAGS] & USER_FLAGS);
	t->trace->orig = (int64_t)(int32_t)r[UREG_ORIG_RAX];
	return guest_write(t, GVA(t->trace->frame + SHIM_FRAME_REGS), &f, sizeof(f)) < 0 ? -EIO : 0;
}

/* What the host's frame says of itself behind the first 464 bytes. */
struct sw_bytes {
	uint32_t magic, extended_size;
	uint64_t features;
	uint32_t xstate_size;
	uint32_t pad[7];
};

static int fp_look(struct task *t, uint64_t *ret_at, struct sw_bytes *sw)
{
	struct shim_regs f;
	int err = frame_read(t, &f);

	if (err < 0)
		return err;
	if (!f.fpstate || guest_read(t, sw, GVA(f.fpstate + SW_AT), sizeof(*sw)) < 0)
		return -EIO;
	if (sw->magic != XSAVE_MAGIC || sw->xstate_size < FXSAVE_BYTES ||
		sw->xstate_size > XSAVE_BYTES_MAX)
		sw->xstate_size = FXSAVE_BYTES;
	*ret_at = f.fpstate;
	return 0;
}

long fpregs_get(struct task *t, uint8_t *buf, size_t cap)
{
	struct sw_bytes sw;
	uint64_t at;
	int err = fp_look(t, &at, &sw);
	size_t n;

	if (err < 0)
		return err;
	n = sw.xstate_size < cap ? sw.xstate_size : cap;
	if (guest_read(t, buf, GVA(at), n) < 0)
		return -EIO;
	/* In the place of the frame's own words a tracer finds which features there are. */
	memset(buf + SW_AT, 0, FXSAVE_BYTES - SW_AT);
	if (sw.magic == XSAVE_MAGIC)
		memcpy(buf + SW_AT, &sw.features, sizeof(sw.features));
	return (long)n;
}

long fpregs_set(struct task *t, const uint8_t *buf, size_t len)
{
	struct sw_bytes sw;
	uint64_t at;
	int err = fp_look(t, &at, &sw);
	size_t n;

	if (err < 0)
		return err;
	n = len < sw.xstate_size ? len : sw.xstate_size;
	if (n < FXSAVE_BYTES || guest_write(t, GVA(at), buf, SW_AT) < 0)
		return -EIO;
	if (n > FXSAVE_BYTES &&
		guest_write(t, GVA(at + FXSAVE_BYTES), buf + FXSAVE_BYTES, n - FXSAVE_BYTES) < 0)
		return -EIO;
	return (long)n;
}
