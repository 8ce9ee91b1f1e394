/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_SHIM_FRAME_H
#define WARD_TIER_KERNEL_SHIM_FRAME_H

#include <stdint.h>

/* The registers in a signal's frame on x86-64, as the host's kernel lays them out; they begin
 * SHIM_FRAME_REGS bytes behind the address that a handler gets (struct ucontext). */
enum { SHIM_FRAME_REGS = 40 };

struct shim_regs {
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip;
	uint64_t eflags, segments, err, trapno, oldmask, cr2, fpstate;
};

#endif
