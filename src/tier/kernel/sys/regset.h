/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_SYS_REGSET_H
#define WARD_TIER_KERNEL_SYS_REGSET_H

#include <stddef.h>
#include <stdint.h>

/* The registers of a stopped tracee: they lie in a signal frame in its memory. */
struct task;

enum {
	UREG_R15,
	UREG_R14,
	UREG_R13,
	UREG_R12,
	UREG_RBP,
	UREG_RBX,
	UREG_R11,
	UREG_R10,
	UREG_R9,
	UREG_R8,
	UREG_RAX,
	UREG_RCX,
	UREG_RDX,
	UREG_RSI,
	UREG_RDI,
	UREG_ORIG_RAX,
	UREG_RIP,
	UREG_CS,
	UREG_EFLAGS,
	UREG_RSP,
	UREG_SS,
	UREG_FS_BASE,
	UREG_GS_BASE,
	UREG_DS,
	UREG_ES,
	UREG_FS,
	UREG_GS,
	UREG_COUNT
};

/* In the order of struct user_regs_struct. 0, or -EIO: its memory is not there, or a register that
 * cannot be changed from outside. */
int regs_get(struct task *t, uint64_t regs[UREG_COUNT]);
int regs_set(struct task *t, const uint64_t regs[UREG_COUNT]);

/* Floating point: the first 512 bytes, or all that the processor saves (NT_X86_XSTATE). */
enum { FXSAVE_BYTES = 512, XSAVE_BYTES_MAX = 16384 };
/* Into @buf; how many, or -errno. */
long fpregs_get(struct task *t, uint8_t *buf, size_t cap);
long fpregs_set(struct task *t, const uint8_t *buf, size_t len);

#endif
