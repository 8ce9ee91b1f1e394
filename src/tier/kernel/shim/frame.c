/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/shim/frame.c - the frames of guest handlers: made, and returned from.
 *
 * Owns:  nothing.
 * Rules: as in inside.h. The guest's stack may be anything, or go while it is written.
 */
#include "tier/kernel/shim/inside.h"

/*
 * The guest's restorer looks like everyone's, since unwinders know it by its bytes; the filter
 * answers its call with 0, and the rest of the way out is behind it: the guest's mask and alternate
 * stack go to the kernel, host values take their place. The stack pointer stays at the frame all
 * the way, so that a signal that comes before the end can put its own frame where this one was
 * (finish_return): one above the other would fill the stack.
 */
_Static_assert(SHIM_SIGRETURN == 0x1005 && offsetof(struct ucontext, stack) == 16 &&
		       offsetof(struct ucontext, mask) == 296 && SLOT_DATA == 0x1800 &&
		       SLOT_SIZE == 0x8000,
	"as the restorer has it");
__asm__(".text\n"
	".globl shim_restorer, shim_restorer_ip, shim_returned_ip, shim_sigreturn_ip\n"
	".globl shim_host_restorer, shim_sigreturn2_ip\n"
	".balign 16\n"
	"	nop\n"
	"shim_restorer:\n"
	"	mov $15, %rax\n"
	"	syscall\n"
	"shim_restorer_ip:\n"
	"	mov 296(%rsp), %rdi\n"
	"	mov 16(%rsp), %rsi\n"
	"	mov 24(%rsp), %edx\n"
	"	mov 32(%rsp), %r10\n"
	"	mov $0x1005, %eax\n"
	"	syscall\n"
	"shim_returned_ip:\n"
	"	cmp $-38, %rax\n" /* nobody answers */
	"	jne 1f\n"
	"	mov $125, %edi\n"
	"	mov $231, %eax\n" /* exit_group */
	"	syscall\n"
	"1:	add $0x1800, %rax\n"
	"	movq $0, 296(%rsp)\n"
	"	mov %rax, 16(%rsp)\n"
	"	movl $0, 24(%rsp)\n"
	"	movq $0x6800, 32(%rsp)\n"
	"	mov $15, %eax\n"
	"	syscall\n"
	"shim_sigreturn_ip:\n"
	"	hlt\n"
	".balign 16\n"
	"	nop\n"
	"shim_host_restorer:\n"
	"	mov $15, %rax\n"
	"	syscall\n"
	"shim_sigreturn2_ip:\n"
	"	hlt\n");

uint64_t fp_size(uint64_t fp)
{
	return *(uint32_t *)(fp + 464) == 0x46505853 ? *(uint32_t *)(fp + 468) : 512;
}

/* The handler starts with clean floating point registers, as after any signal. */
static void fp_clean(uint64_t fp)
{
	if (!fp)
		return;
	*(uint16_t *)fp = 0x37f;
	*(uint32_t *)(fp + 24) = 0x1f80;
	if (*(uint32_t *)(fp + 464) == 0x46505853)
		*(uint64_t *)(fp + 512) = 0;
}

void host_stack(struct ucontext *uc, uint64_t slot)
{
	uc->stack.sp = slot + SLOT_DATA;
	uc->stack.flags = 0;
	uc->stack.size = SLOT_SIZE - SLOT_DATA;
}

/* The handler of a fault finds us by the address of the one instruction that can. */
__asm__(".text\n"
	".globl shim_copy, shim_copy_ip, shim_copy_failed\n"
	"shim_copy:\n"
	"	mov %rdx, %rcx\n"
	"	xor %eax, %eax\n"
	"shim_copy_ip:\n"
	"	rep movsb\n"
	"	ret\n"
	"shim_copy_failed:\n"
	"	mov $1, %eax\n"
	"	ret\n");

/*
 * The host makes a futex wait again after our handler, always. The wait that @uc is at has not
 * begun, or was ended by the signal: to its caller that is the same.
 */
static int is_native_wait(const struct ucontext *uc)
{
	uint64_t op = uc->m.rsi & FUTEX_CMD_;
	uint16_t code;

	if (uc->m.rax != SYS_futex_waitv_ &&
		(uc->m.rax != SYS_futex || (op != FUTEX_WAIT_ && op != FUTEX_WAIT_BITSET_)))
		return 0;
	return !shim_copy(&code, (void *)uc->m.rip, sizeof(code)) && code == SYSCALL_CODE;
}

int push_frame(struct slot *s, struct ucontext *uc)
{
	struct shim_signal *g = &s->signal;
	uint64_t sp = uc->m.rsp - 128, fp = uc->m.fpstate, size = 0;
	int on_it = g->alt_size && uc->m.rsp - 1 - g->alt_sp < g->alt_size;
	int to_it = g->on_alt && g->alt_size && !(g->alt_flags & 2) && !on_it;
	struct frame *f, made;

	if (to_it)
		sp = g->alt_sp + g->alt_size;
	if (g->restart >= 0) {
		uc->m.rip -= 2;
		uc->m.rax = (uint64_t)g->restart;
	} else if (g->restart == RESTART_NEVER && is_native_wait(uc)) {
		uc->m.rip += sizeof(uint16_t);
		uc->m.rax = (uint64_t)-EINTR_;
	}
	if (fp) {
		size = fp_size(fp);
		sp = (sp - size) & ~63UL;
	}
	f = (struct frame *)(((sp - sizeof(*f)) & ~15UL) - 8);
	/* Off its bottom is somebody else's memory. */
	if ((to_it || on_it) && (uint64_t)f - g->alt_sp >= g->alt_size)
		return 0;
	if (fp) {
		if (shim_copy((void *)sp, (void *)fp, size))
			return 0;
		fp = sp;
	}
	made.ret = (uint64_t)shim_restorer;
	made.uc = *uc;
	made.uc.link = 0;
	made.uc.m.fpstate = fp;
	made.uc.stack.sp = g->alt_sp;
	made.uc.stack.flags =
		(int32_t)(g->alt_size ? (on_it ? 1 : 0) | (g->alt_flags & (1U << 31)) : 2);
	made.uc.stack.pad = 0;
	made.uc.stack.size = g->alt_size;
	made.uc.mask = g->mask;
	memcpy(made.info, g->info, sizeof(made.info));
	if (shim_copy(f, &made, sizeof(made)))
		return 0;
	fp_clean(uc->m.fpstate);
	uc->m.rip = g->handler;
	uc->m.rsp = (uint64_t)f;
	uc->m.rdi = g->sig;
	uc->m.rsi = (uint64_t)f->info;
	uc->m.rdx = (uint64_t)&f->uc;
	uc->m.rax = 0;
	uc->m.eflags &= ~(0x400UL | 0x100UL | 0x10000UL);
	return 1;
}

/* What the guest's frame @g says is where @uc goes on. */
static void take_registers(struct ucontext *uc, const struct ucontext *g)
{
	uint64_t fp = uc->m.fpstate, size;

	if (fp && g->m.fpstate && fp_size(g->m.fpstate) <= (size = fp_size(fp)))
		memcpy((void *)fp, (void *)g->m.fpstate, size);
	else
		fp_clean(fp);
	uc->m = g->m;
	uc->m.fpstate = fp;
}

void take_frame(struct ucontext *uc)
{
	struct ucontext *g = (struct ucontext *)uc->m.rsp;

	kernel_call(SHIM_SIGRETURN, g->mask, g->stack.sp, (uint64_t)(uint32_t)g->stack.flags,
		g->stack.size);
	take_registers(uc, g);
}

void finish_return(struct ucontext *uc)
{
	struct ucontext g;

	if (uc->m.rip < (uint64_t)shim_returned_ip || uc->m.rip >= (uint64_t)shim_sigreturn_ip)
		return;
	if (shim_copy(&g, (void *)uc->m.rsp, sizeof(g)) == 0)
		take_registers(uc, &g);
}
