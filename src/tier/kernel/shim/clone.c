/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/shim/clone.c - new threads and processes, and the questions a task asks.
 *
 * Owns:  nothing.
 * Rules: as in inside.h.
 */
#include "tier/kernel/shim/inside.h"

__attribute__((noreturn)) void shim_child(struct ucontext *uc, uint64_t token);

/*
 * clone with a new stack: the child finds there what it needs. Written out because the child must
 * not return through the parent's C frames.
 */
long shim_clone_vm(uint64_t flags, uint64_t stack, uint64_t ctid, uint64_t tls);
__asm__(".text\n"
	"shim_clone_vm:\n"
	"	mov %rdx, %r10\n" /* ctid */
	"	mov %rcx, %r8\n"  /* tls */
	"	xor %edx, %edx\n"
	"	mov $56, %eax\n"
	"	syscall\n"
	"	test %rax, %rax\n"
	"	jnz 1f\n"
	"	pop %rdi\n"
	"	pop %rsi\n"
	"	xor %ebp, %ebp\n"
	"	jmp shim_child_aligned\n"
	"1:	ret\n"
	"shim_child_aligned:\n"
	"	and $-16, %rsp\n"
	"	call shim_child\n"
	"	hlt\n");

__attribute__((used)) void shim_child(struct ucontext *uc, uint64_t token)
{
	uint64_t slot = SLOT_OF((uint64_t)uc);
	uint64_t stack[3] = { slot + SLOT_DATA, 0, SLOT_SIZE - SLOT_DATA };

	call2(SYS_sigaltstack, stack, 0);
	if (kernel_call(SHIM_HELLO, token, slot, 0, 0) != 0)
		leave();
	host_stack(uc, slot);
	__asm__ volatile("mov %0, %%rsp\n"
			 "jmp shim_host_restorer\n"
			 :
			 : "r"(uc)
			 : "memory");
	__builtin_unreachable();
}

static void clone_vm(struct shim_clone *c, struct ucontext *uc, long *r)
{
	uint64_t top = SLOT_TOP(c->slot), fp = uc->m.fpstate, size;
	struct ucontext *child;
	uint64_t *stack;

	if (fp) {
		size = fp_size(fp);
		top = (top - size) & ~63UL;
		memcpy((void *)top, (void *)fp, size);
		fp = top;
	}
	child = (struct ucontext *)((top - sizeof(*child)) & ~15UL);
	*child = *uc;
	child->m.fpstate = fp;
	child->m.rax = 0;
	if (c->stack)
		child->m.rsp = c->stack;
	stack = (uint64_t *)child - 4;
	stack[0] = (uint64_t)child;
	stack[1] = c->token;
	*r = shim_clone_vm(c->flags, (uint64_t)stack, c->ctid, c->tls);
}

void stop(struct ucontext *uc)
{
	uint64_t fs = 0, gs = 0;

	call2(SYS_arch_prctl, 0x1003 /* GET_FS */, &fs);
	call2(SYS_arch_prctl, 0x1004 /* GET_GS */, &gs);
	kernel_call(SHIM_STOP, (uint64_t)uc, fs, gs, 0);
}

void ask(struct ucontext *uc)
{
	if (kernel_call(SHIM_ASK, 0, 0, 0, 0) == SHIM_STOP_NOW)
		stop(uc);
}

void do_clone(struct slot *s, struct ucontext *uc)
{
	struct shim_clone c = s->clone;
	long r;

	if (c.flags & 0x100 /* CLONE_VM */) {
		clone_vm(&c, uc, &r);
	} else {
		r = call6(SYS_clone, c.flags, 0, 0, c.ctid, c.tls, 0);
		if (r == 0) {
			if (c.log) {
				((struct place_state *)PLACE_STATE)->log = 0;
				((struct place_state *)PLACE_STATE)->carry = 0;
			}
			if (kernel_call(SHIM_HELLO, c.token, (uint64_t)s, 0, 0) != 0)
				leave();
			uc->m.rax = 0;
			if (c.stack)
				uc->m.rsp = c.stack;
			return;
		}
	}
	uc->m.rax = r < 0 ? (uint64_t)r : (uint64_t)c.tid;
	while ((r < 0 || c.wait) &&
		kernel_call(SHIM_FORKED, c.token, (uint64_t)r, 0, 0) == SHIM_STOP_NOW)
		stop(uc);
}
