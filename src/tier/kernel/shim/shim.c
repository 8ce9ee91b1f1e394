/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/shim/shim.c - what is mapped into every guest process: where host signals arrive.
 *
 * Owns:  nothing: no data of its own, only the slot of the thread that runs it.
 * Rules: as in inside.h. It does what must happen inside the guest's memory, on the kernel's order.
 */
#include "tier/kernel/shim/inside.h"

void *memcpy(void *d, const void *s, size_t n)
{
	void *r = d;

	__asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
	return r;
}

void *memset(void *d, int c, size_t n)
{
	void *r = d;

	__asm__ volatile("rep stosb" : "+D"(d), "+c"(n) : "a"(c) : "memory");
	return r;
}

__attribute__((section(".head"), used)) static const struct shim_head head = {
	.handler = (uint64_t)shim_handler,
	.host_restorer = (uint64_t)shim_host_restorer,
	.restorer = (uint64_t)shim_restorer,
	.restorer_ip = (uint64_t)shim_restorer_ip,
	.sigreturn_ip = (uint64_t)shim_sigreturn_ip,
	.sigreturn2_ip = (uint64_t)shim_sigreturn2_ip,
	.zygote = (uint64_t)shim_zygote,
	.stubs = (uint64_t)place_stubs,
	.any = { [ANY_GLIBC] = (uint64_t)place_any_glibc,
		[ANY_MUSL_CP] = (uint64_t)place_any_musl_cp,
		[ANY_MUSL] = (uint64_t)place_any_musl },
	.carried_ip = (uint64_t)place_carried,
};

void leave(void)
{
	for (;;)
		call1(SYS_exit_group, 125);
}

long kernel_call(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	long r = call6(nr, a, b, c, d, 0, 0);

	if (r == -ENOSYS_)
		leave();
	return r;
}

long run_steps(struct slot *s, uint64_t *ret_at)
{
	long r = 0;

	for (uint64_t i = 0; i < s->step_count && i < STEPS_MAX; i++) {
		struct shim_step *t = &s->steps[i];

		*ret_at = i;
		if (t->nr == STEP_ZERO) {
			memset((void *)t->a[0], 0, t->a[1]);
			continue;
		}
		if (t->nr == STEP_COPY) {
			memcpy((void *)t->a[0], (void *)t->a[1], t->a[2]);
			continue;
		}
		if (t->nr == STEP_VALUE) {
			r = (long)t->a[0];
			continue;
		}
		r = call6(t->nr, t->a[0], t->a[1], t->a[2], t->a[3], t->a[4], t->a[5]);
		if (r < 0 && r > -4096)
			return r;
	}
	return r;
}

static void do_exit(struct slot *s)
{
	uint32_t *word = (uint32_t *)s->exit.word;

	if (word) {
		__atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
		call3(SYS_futex, word, FUTEX_WAKE_, 1);
	}
	call1(SYS_exit, 0);
}

static void obey(struct slot *s, struct ucontext *uc)
{
	for (;;) {
		uint32_t order = s->order, more = s->more;
		uint64_t at;

		s->order = ORDER_NONE;
		s->more = 0;
		switch (order) {
		case ORDER_SIGNAL:
			finish_return(uc);
			if (push_frame(s, uc))
				break;
			/* No place for it: that is a fault, which has its own handler, or none. */
			kernel_call(SHIM_FAULT, (uint64_t)s, FAULT_FRAME, s->signal.sig,
				s->signal.mask);
			continue;
		case ORDER_CLONE:
			do_clone(s, uc);
			break;
		case ORDER_SIGRETURN:
			take_frame(uc);
			break;
		case ORDER_EXIT:
			do_exit(s);
			break;
		case ORDER_RUN:
			uc->m.rax = (uint64_t)run_steps(s, &at);
			break;
		case ORDER_LOG:
			if (run_steps(s, &at) >= 0)
				((struct place_state *)PLACE_STATE)->log = 1;
			break;
		default:
			return;
		}
		if (!more)
			return;
		ask(uc);
	}
}

/* A path that is not readable: the call itself will say so. */
static int is_touch(int sig, const struct ucontext *uc)
{
	return (sig == SIGSEGV_ || sig == SIGBUS_) && uc->m.rip >= (uint64_t)place_touch &&
	       uc->m.rip < (uint64_t)place_touched;
}

void shim_handler(int sig, const void *info, struct ucontext *uc)
{
	struct slot *s = (struct slot *)SLOT_OF((uint64_t)uc);

	/* In place_prepare(), or in the vdso on its behalf; in a call that is carried. */
	if (carry_interrupted(uc) && (sig == SIGSEGV_ || sig == SIGBUS_))
		return;
	if (is_touch(sig, uc)) {
		uc->m.rip = (uint64_t)place_give_up;
		return;
	}
	if (sig != KICK_SIGNAL && uc->m.rip == (uint64_t)shim_copy_ip) {
		uc->m.rip = (uint64_t)shim_copy_failed;
		return;
	}
	if (sig != KICK_SIGNAL) {
		int ours = uc->m.rip - SHIM_BASE < SHIM_SIZE && SLOT_OF(uc->m.rsp) == (uint64_t)s;

		s->fault.sig = (uint32_t)sig;
		s->fault.trapno = uc->m.trapno;
		s->fault.error = uc->m.err;
		s->fault.cr2 = uc->m.cr2;
		s->fault.rip = uc->m.rip;
		s->fault.rsp = uc->m.rsp;
		memcpy(s->fault.info, info, sizeof(s->fault.info));
		s->order = ORDER_NONE;
		switch (kernel_call(
			SHIM_FAULT, (uint64_t)s, ours ? FAULT_SHIM : FAULT_GUEST, 0, 0)) {
		case SHIM_STOP_NOW:
			stop(uc);
			break;
		case SHIM_STEP_OFF:
			uc->m.eflags &= ~0x100UL;
			break;
		}
	} else if (s->order == ORDER_EXEC) {
		return; /* not done yet; the first call in the new image looks for signals */
	} else if (s->order == ORDER_NONE) {
		ask(uc);
	}
	obey(s, uc);
}
