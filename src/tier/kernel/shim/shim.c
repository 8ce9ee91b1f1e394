/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/shim/shim.c - what is mapped into every guest process.
 *
 * Owns:  nothing: no data of its own, only the slot of the thread that runs it.
 * Rules: no libc, no writable globals, linked at SHIM_BASE, general registers only. It does what
 *        must happen inside the guest's memory, on the kernel's order. Nobody trusts it: whatever a
 *        guest could do by changing it, it could do without it.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "tier/kernel/shim/shim.h"

enum { ESRCH_ = 3, EINTR_ = 4, EAGAIN_ = 11, ENOSYS_ = 38, ETIMEDOUT_ = 110 };
enum { FUTEX_WAIT_ = 0, FUTEX_WAKE_ = 1, FUTEX_WAIT_BITSET_ = 9, FUTEX_CMD_ = 127 };
enum { SIGBUS_ = 7, SIGSEGV_ = 11, SYS_futex_waitv_ = 449, SYSCALL_CODE = 0x050f };

struct mcontext {
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip;
	uint64_t eflags, segments, err, trapno, oldmask, cr2, fpstate, reserved[8];
};

struct ucontext {
	uint64_t flags, link;
	struct {
		uint64_t sp;
		int32_t flags, pad;
		uint64_t size;
	} stack;
	struct mcontext m;
	uint64_t mask;
};

struct frame { /* as the kernel lays it out on x86-64 */
	uint64_t ret;
	struct ucontext uc;
	uint8_t info[128];
};

void *memcpy(void *d, const void *s, size_t n);
void *memset(void *d, int c, size_t n);

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

static inline long call6(
	long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
	register uint64_t r10 __asm__("r10") = d;
	register uint64_t r8 __asm__("r8") = e;
	register uint64_t r9 __asm__("r9") = f;
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return r;
}
#define call0(nr) call6(nr, 0, 0, 0, 0, 0, 0)
#define call1(nr, a) call6(nr, (uint64_t)(a), 0, 0, 0, 0, 0)
#define call2(nr, a, b) call6(nr, (uint64_t)(a), (uint64_t)(b), 0, 0, 0, 0)
#define call3(nr, a, b, c) call6(nr, (uint64_t)(a), (uint64_t)(b), (uint64_t)(c), 0, 0, 0)

void shim_handler(int sig, const void *info, struct ucontext *uc);
void shim_host_restorer(void);
void shim_restorer(void);
void shim_zygote(uint64_t sock, const uint64_t *keep, uint64_t count, void *filter);
__attribute__((noreturn)) void shim_child(struct ucontext *uc, uint64_t token);
extern const char shim_restorer_ip[], shim_returned_ip[], shim_sigreturn_ip[], shim_sigreturn2_ip[];
extern const char place_stubs[], place_touch[], place_touched[], place_give_up[];

__attribute__((section(".head"), used)) static const struct shim_head head = {
	.handler = (uint64_t)shim_handler,
	.host_restorer = (uint64_t)shim_host_restorer,
	.restorer = (uint64_t)shim_restorer,
	.restorer_ip = (uint64_t)shim_restorer_ip,
	.sigreturn_ip = (uint64_t)shim_sigreturn_ip,
	.sigreturn2_ip = (uint64_t)shim_sigreturn2_ip,
	.zygote = (uint64_t)shim_zygote,
	.stubs = (uint64_t)place_stubs,
};

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

__attribute__((noreturn)) static void leave(void)
{
	for (;;)
		call1(SYS_exit_group, 125);
}

/* A call of the shim's own: when nobody answers, there is nothing left to live for. */
static long kernel_call(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	long r = call6(nr, a, b, c, d, 0, 0);

	if (r == -ENOSYS_)
		leave();
	return r;
}

static uint64_t fp_size(uint64_t fp)
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

static void host_stack(struct ucontext *uc, uint64_t slot)
{
	uc->stack.sp = slot + SLOT_DATA;
	uc->stack.flags = 0;
	uc->stack.size = SLOT_SIZE - SLOT_DATA;
}

/*
 * A copy to where the guest may have nothing, or take it away meanwhile: 0, or 1 when it faulted.
 * The handler of that fault finds us by the address of the one instruction that can.
 */
long shim_copy(void *to, const void *from, uint64_t n);
extern const char shim_copy_ip[], shim_copy_failed[];
__asm__(".text\n"
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

static int push_frame(struct slot *s, struct ucontext *uc)
{
	struct shim_signal *g = &s->signal;
	uint64_t sp = uc->m.rsp - 128, fp = uc->m.fpstate, size;
	int on_it = g->alt_size && uc->m.rsp - 1 - g->alt_sp < g->alt_size;
	struct frame *f, made;

	if (g->on_alt && g->alt_size && !(g->alt_flags & 2) && !on_it)
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
		if (shim_copy((void *)sp, (void *)fp, size))
			return 0;
		fp = sp;
	}
	f = (struct frame *)(((sp - sizeof(*f)) & ~15UL) - 8);
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

/* rt_sigreturn that the guest made itself: its frame becomes ours. */
static void take_frame(struct ucontext *uc)
{
	struct ucontext *g = (struct ucontext *)uc->m.rsp;

	kernel_call(SHIM_SIGRETURN, g->mask, g->stack.sp, (uint64_t)(uint32_t)g->stack.flags,
		g->stack.size);
	take_registers(uc, g);
}

/* A handler is about to run where the restorer has nearly put another one's frame away: done. */
static void finish_return(struct ucontext *uc)
{
	struct ucontext g;

	if (uc->m.rip < (uint64_t)shim_returned_ip || uc->m.rip >= (uint64_t)shim_sigreturn_ip)
		return;
	if (shim_copy(&g, (void *)uc->m.rsp, sizeof(g)) == 0)
		take_registers(uc, &g);
}

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

/* Somebody traces this thread and wants to look: it stays in this call until it may go on. */
static void stop(struct ucontext *uc)
{
	uint64_t fs = 0, gs = 0;

	call2(SYS_arch_prctl, 0x1003 /* GET_FS */, &fs);
	call2(SYS_arch_prctl, 0x1004 /* GET_GS */, &gs);
	kernel_call(SHIM_STOP, (uint64_t)uc, fs, gs, 0);
}

static void ask(struct ucontext *uc)
{
	if (kernel_call(SHIM_ASK, 0, 0, 0, 0) == SHIM_STOP_NOW)
		stop(uc);
}

static void do_clone(struct slot *s, struct ucontext *uc)
{
	struct shim_clone c = s->clone;
	long r;

	if (c.flags & 0x100 /* CLONE_VM */) {
		clone_vm(&c, uc, &r);
	} else {
		r = call6(SYS_clone, c.flags, 0, 0, c.ctid, c.tls, 0);
		if (r == 0) {
			if (c.log)
				((struct place_state *)PLACE_STATE)->log = 0;
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

static long run_steps(struct slot *s, uint64_t *ret_at)
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

/*
 * In the middle of place_prepare(), which has done nothing yet that counts: as if it had not begun.
 * Neither its stack nor its registers are the guest's, so nothing else can be done with it.
 */
static void begin_again(struct ucontext *uc)
{
	struct place_state *s = (struct place_state *)PLACE_STATE;
	const struct place_site *site =
		(const struct place_site *)(PLACE_SITES_AT + (s->site & 0x7e0));
	uint64_t flags = (s->flags >> 8 & 0xd5) | (s->flags & 1) << 11;

	uc->m.rdi = s->rdi;
	uc->m.rsi = s->rsi;
	uc->m.rdx = s->rdx;
	uc->m.rsp = s->rsp;
	uc->m.rbx = s->rbx;
	uc->m.rbp = s->rbp;
	uc->m.r8 = s->r8;
	uc->m.r9 = s->r9;
	uc->m.r10 = s->r10;
	uc->m.r12 = s->r12;
	uc->m.r13 = s->r13;
	uc->m.r14 = s->r14;
	uc->m.r15 = s->r15;
	uc->m.eflags = (uc->m.eflags & ~0x8d5UL) | flags;
	uc->m.rax = site->nr;
	uc->m.rip = site->ret - 2;
	s->busy = 0;
}

void shim_handler(int sig, const void *info, struct ucontext *uc)
{
	struct slot *s = (struct slot *)SLOT_OF((uint64_t)uc);

	if (uc->m.rsp > PLACE_STACK_AT && uc->m.rsp <= PLACE_LOG_AT &&
		uc->m.rip - SHIM_BASE < SHIM_SIZE) {
		begin_again(uc);
		if (sig == SIGSEGV_ || sig == SIGBUS_)
			return;
	}
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
	} else if (s->order == ORDER_NONE) {
		ask(uc);
	}
	obey(s, uc);
}

/*
 * Answers in place: shim.h says how a site comes here. rcx is the site's offset. What is needed of
 * other registers is kept in PLACE_STATE, which one at a time can use: a signal handler of the
 * guest that comes here meanwhile, and every thread of a process that has several, is sent to the
 * syscall. A flag is kept in al and ah; mov, lea and jmp leave them alone.
 */
_Static_assert(
	sizeof(struct place_site) == 32 && sizeof(struct place_answer) == 352 &&
		offsetof(struct place_answer, path) == 48 &&
		offsetof(struct place_answer, data) == 208 &&
		offsetof(struct place_signals, known) == 2048 &&
		offsetof(struct place_signals, age) == 2112 && sizeof(struct place_fd) == 216 &&
		offsetof(struct place_fd, stat) == 72 && offsetof(struct place_fd, pos) == 40 &&
		offsetof(struct place_fd, text_at) == 56 && offsetof(struct place_fd, closed) == 64,
	"as the stubs have it");
_Static_assert(offsetof(struct place_state, view) == PLACE_VIEW - PLACE_STATE &&
		       offsetof(struct place_state, read_pos) == 64 &&
		       offsetof(struct place_state, rsp) == 80 &&
		       offsetof(struct place_state, r10) == 120 &&
		       offsetof(struct place_state, head) == 160,
	"as the stubs have it");
_Static_assert(
	PLACE_SITES_AT + PLACE_SITES * sizeof(struct place_site) <= PLACE_STATE &&
		PLACE_STATE + sizeof(struct place_state) <= PLACE_SIGNALS_AT &&
		PLACE_SIGNALS_AT + sizeof(struct place_signals) <= PLACE_FDS_AT &&
		PLACE_FDS_AT + PLACE_FDS * sizeof(struct place_fd) <= PLACE_TEXT_AT &&
		PLACE_TEXT_AT + PLACE_TEXT <= PLACE_AGE && PLACE_STACK_AT == PLACE_SHARED_END &&
		sizeof(struct place_log) == PLACE_LOG_SIZE &&
		PLACE_LOG_AT + PLACE_LOG_SIZE == PLACE_BASE + PLACE_SIZE &&
		(AGE_PROC + 2 * AGE_PROCS) * 8 <= 4096 && AGE_MASK == 7 &&
		PLACE_ANSWERS_AT + PLACE_ANSWERS * sizeof(struct place_answer) == PLACE_SHARED_END,
	"one behind the other");
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
/* clang-format off */
__asm__(".set SITES, " TEXT(PLACE_SITES_AT) "\n"
	".set STATE, " TEXT(PLACE_STATE) "\n"
	".set ANSWERS, " TEXT(PLACE_ANSWERS_AT) "\n"
	".set SIGNALS, " TEXT(PLACE_SIGNALS_AT) "\n"
	".set FDS, " TEXT(PLACE_FDS_AT) "\n"
	".set AGE, " TEXT(PLACE_AGE) "\n"
	".set LOG, " TEXT(PLACE_LOG_AT) "\n"
	".set HASH_START, " TEXT(PLACE_HASH_START_) "\n"
	".set HASH_TIMES, " TEXT(PLACE_HASH_TIMES_) "\n");
/* clang-format on */
__asm__(".text\n"
	".balign 16\n"
	".set site, 0\n"
	"place_stubs:\n"
	".rept 64\n"
	".balign 16\n"
	"	mov $site, %ecx\n"
	"	jmp place_enter\n"
	".set site, site + 32\n"
	".endr\n"
	".balign 16\n"
	"place_enter:\n"
	"	seto %al\n"
	"	lahf\n"
	"	cmpl $0, SITES+12(%rcx)\n"
	"	jne 1f\n"
	"	mov SITES+16(%rcx), %r11\n"
	"	cmp AGE, %r11\n"
	"	jne place_call\n"
	"	mov SITES(%rcx), %r11\n"
	"	add $0x7f, %al\n"
	"	sahf\n"
	"	mov SITES+24(%rcx), %rax\n"
	"	jmp *%r11\n"
	/* STATE: busy, threads (two words); then rdi, rsi, rdx, flags, site; stamp, view, hash
	   (words); the position that a read began at, and where it stands, or 0 */
	"1:	cmpq $0, STATE\n"
	"	jne place_call\n"
	"	movl $1, STATE\n"
	"	mov %rdi, STATE+8\n"
	"	mov %rsi, STATE+16\n"
	"	mov %rdx, STATE+24\n"
	"	mov %rax, STATE+32\n"
	"	mov %rcx, STATE+40\n"
	"	mov SITES+12(%rcx), %eax\n" /* kind */
	"	cmp $13, %eax\n"
	"	ja place_later\n"
	"	cmp $6, %eax\n"
	"	je place_signal\n"
	"	ja place_fd\n"
	"	mov %rdx, %rcx\n"
	"	mov %rdi, %r11\n" /* path */
	"	xor %edx, %edx\n" /* what else counts */
	"	cmp $2, %eax\n"
	"	jb 3f\n"
	"	cmove %esi, %edx\n"
	"	je 3f\n"
	"	cmp $-100, %edi\n" /* AT_FDCWD */
	"	jne place_fd\n"
	"	mov %rsi, %r11\n"
	"	cmp $4, %eax\n"
	"	cmove %r10d, %edx\n"
	"	cmova %ecx, %edx\n"
	"3:	mov STATE+40, %rcx\n"
	"	mov SITES+8(%rcx), %eax\n" /* nr */
	"	xor %edx, %eax\n"
	"	xor $HASH_START, %eax\n"
	"	xor %esi, %esi\n"
	"place_touch:\n"
	"4:	movzbl (%r11,%rsi), %ecx\n"
	"	test %ecx, %ecx\n"
	"	jz 5f\n"
	"	xor %ecx, %eax\n"
	"	imul $HASH_TIMES, %eax, %eax\n"
	"	inc %esi\n"
	"	cmp $160, %esi\n"
	"	jb 4b\n"
	"	jmp place_give_up\n"
	"5:	mov STATE+40, %rcx\n"
	"	mov SITES+8(%rcx), %ecx\n" /* nr */
	"	mov %eax, %edi\n"
	"	shr $21, %edi\n"
	"	and AGE+56, %edi\n"
	"	imul $352, %edi, %edi\n"
	"	cmp %eax, ANSWERS+16(%rdi)\n"
	"	je 2f\n"
	"	mov %eax, %edi\n"
	"	shr $21, %edi\n"
	"	and AGE+56, %edi\n"
	"	xor $1, %edi\n"
	"	imul $352, %edi, %edi\n"
	"2:	add $ANSWERS, %edi\n"
	"	mov %eax, STATE+56\n"
	"	mov 40(%rdi), %eax\n" /* its stamp, before anything that is used */
	"	mov %eax, STATE+48\n"
	"	test $1, %al\n"
	"	jnz place_give_up\n"
	"	mov STATE+56, %eax\n"
	"	cmp %eax, 16(%rdi)\n"
	"	jne place_give_up\n"
	"	cmp %ecx, 8(%rdi)\n"
	"	jne place_give_up\n"
	"	cmp %edx, 12(%rdi)\n"
	"	jne place_give_up\n"
	"	cmp %esi, 20(%rdi)\n"
	"	jne place_give_up\n"
	"	mov STATE+52, %eax\n"
	"	cmp %eax, 32(%rdi)\n"
	"	jne place_give_up\n"
	"	movzwl 36(%rdi), %ecx\n"
	"	and $24, %ecx\n"
	"	mov AGE(%rcx), %rax\n"
	"	cmp %rax, (%rdi)\n"
	"	jne place_give_up\n"
	"6:	test %esi, %esi\n"
	"	jz 7f\n"
	"	dec %esi\n"
	"	movzbl (%r11,%rsi), %eax\n"
	"	cmp %al, 48(%rdi,%rsi)\n"
	"	je 6b\n"
	"	jmp place_give_up\n"
	/* What was found goes to the second argument, or the third after a directory. */
	"7:	mov %rdi, %r11\n"
	"	movzwl 38(%rdi), %ecx\n"
	"	shr $3, %ecx\n"
	"	mov STATE+40, %rdx\n"
	"	cmpl $3, SITES+12(%rdx)\n"
	"	mov STATE+16, %rdi\n"
	"	jb 8f\n"
	"	mov STATE+24, %rdi\n"
	"8:	lea 208(%r11), %rsi\n"
	"	rep movsq\n"
	"	mov 24(%r11), %rcx\n"
	"	mov 40(%r11), %eax\n"
	"	cmp %eax, STATE+48\n"
	"	jne place_give_up\n"
	"9:	mov STATE+40, %r11\n"
	"	mov SITES(%r11), %r11\n"
	"	mov STATE+8, %rdi\n"
	"	mov STATE+16, %rsi\n"
	"	mov STATE+24, %rdx\n"
	"	mov STATE+32, %rax\n"
	"	movl $0, STATE\n"
	"	add $0x7f, %al\n"
	"	sahf\n"
	"	mov %rcx, %rax\n"
	"	jmp *%r11\n"
	/* (signal, new, old, size): only who asks is answered here. */
	"place_signal:\n"
	"	test %rsi, %rsi\n"
	"	jnz place_give_up\n"
	"	cmp $8, %r10\n"
	"	jne place_give_up\n"
	"	lea -1(%rdi), %eax\n"
	"	cmp $64, %eax\n"
	"	jae place_give_up\n"
	"	mov AGE+24, %r11\n"
	"	cmp %r11, SIGNALS+2112\n"
	"	jne place_give_up\n"
	"	cmpb $0, SIGNALS+2048(%rax)\n"
	"	je place_give_up\n"
	"	xor %ecx, %ecx\n"
	"	test %rdx, %rdx\n"
	"	jz 9b\n"
	"	shl $5, %eax\n"
	"	lea SIGNALS(%rax), %rsi\n"
	"	mov %rdx, %rdi\n"
	"	mov $4, %ecx\n"
	"	rep movsq\n"
	"	jmp 9b\n"
	/* By descriptor: stat, by its own call or with no path; TCGETS of no terminal; where it is.
	 */
	"place_fd:\n"
	"	cmp $12, %eax\n"
	"	je place_mmap\n"
	"	cmp $11, %eax\n"
	"	je place_close\n"
	"	cmp $16, %edi\n"
	"	jae place_give_up\n"
	"	imul $216, %edi, %r11d\n"
	"	mov FDS+24(%r11), %ecx\n"
	"	and $0xff8, %ecx\n"
	"	mov AGE(%rcx), %rcx\n"
	"	cmp %rcx, FDS(%r11)\n"
	"	jne place_give_up\n"
	"	cmp $9, %eax\n"
	"	ja place_lent\n"
	"	je 3f\n"
	"	cmp $8, %eax\n"
	"	jb 4f\n"
	"	testb $2, FDS+36(%r11)\n"
	"	jz place_give_up\n"
	"	cmp $0x5401, %esi\n"
	"	jne place_give_up\n"
	"	mov $-25, %rcx\n" /* ENOTTY */
	"	jmp 9b\n"
	"3:	testb $4, FDS+36(%r11)\n"
	"	jz place_give_up\n"
	"	test %rsi, %rsi\n"
	"	jnz place_give_up\n"
	"	mov STATE+24, %rcx\n"
	"	cmp $1, %ecx\n"
	"	jne place_give_up\n"
	"	mov FDS+32(%r11), %ecx\n"
	"	and $0xff8, %ecx\n"
	"	mov AGE(%rcx), %rcx\n"
	"	cmp %rcx, FDS+16(%r11)\n"
	"	jne place_give_up\n"
	"	mov FDS+40(%r11), %rcx\n"
	"	jmp 9b\n"
	"4:	testb $1, FDS+36(%r11)\n"
	"	jz place_give_up\n"
	"	mov FDS+28(%r11), %ecx\n"
	"	and $0xff8, %ecx\n"
	"	mov AGE(%rcx), %rcx\n"
	"	cmp %rcx, FDS+8(%r11)\n"
	"	jne place_give_up\n"
	"	cmp $7, %eax\n"
	"	je 5f\n"
	"	cmp $4, %eax\n"
	"	jne place_give_up\n"
	"	cmp $0x1000, %r10\n" /* AT_EMPTY_PATH */
	"	jne place_give_up\n"
	"	cmpb $0, (%rsi)\n"
	"	jne place_give_up\n"
	"	mov STATE+24, %rsi\n"
	"5:	mov %rsi, %rdi\n"
	"	lea FDS+72(%r11), %rsi\n"
	"	mov $18, %ecx\n"
	"	rep movsq\n"
	"	jmp 9b\n"
	/* What is as old as positions. */
	"place_lent:\n"
	"	mov FDS+32(%r11), %ecx\n"
	"	and $0xff8, %ecx\n"
	"	mov AGE(%rcx), %rcx\n"
	"	cmp %rcx, FDS+16(%r11)\n"
	"	jne place_give_up\n"
	"	cmp $11, %eax\n"
	"	ja 8f\n"
	/* read: as much as there is, if it is here. A handler that comes meanwhile finds the
	   position where it will be. */
	"	testb $8, FDS+36(%r11)\n"
	"	jz place_give_up\n"
	"	mov STATE+24, %rdx\n"
	"	test %rdx, %rdx\n"
	"	jle place_give_up\n"
	"	mov FDS+40(%r11), %rcx\n"
	"	mov FDS+48(%r11), %rax\n"
	"	sub %rcx, %rax\n"
	"	jb place_give_up\n"
	"	cmp %rdx, %rax\n"
	"	cmova %rdx, %rax\n"
	"	lea (%rcx,%rax), %rdi\n"
	"	mov FDS+60(%r11), %edx\n"
	"	cmp %rdx, %rdi\n"
	"	ja place_give_up\n"
	"	mov FDS+56(%r11), %edx\n"
	"	add %rcx, %rdx\n"
	"	mov %rcx, STATE+64\n"
	"	add $FDS+40, %r11d\n"
	"	mov %r11, STATE+72\n"
	"	mov %rdi, (%r11)\n"
	"	mov %rsi, %rdi\n"
	"	mov %rdx, %rsi\n"
	"	mov %rax, %rcx\n"
	"	rep movsb\n"
	"	mov %rax, %rcx\n"
	"	movq $0, STATE+72\n"
	"	jmp 9b\n"
	/* close: what is lent, where the host's copy goes here; or later. */
	"place_close:\n"
	"	cmp $16, %edi\n"
	"	jae place_give_up\n"
	"	imul $216, %edi, %r11d\n"
	"	mov FDS+24(%r11), %ecx\n"
	"	and $0xff8, %ecx\n"
	"	mov AGE(%rcx), %rcx\n"
	"	cmp %rcx, FDS(%r11)\n"
	"	jne place_later\n"
	"	mov FDS+32(%r11), %ecx\n"
	"	and $0xff8, %ecx\n"
	"	mov AGE(%rcx), %rcx\n"
	"	cmp %rcx, FDS+16(%r11)\n"
	"	jne place_later\n"
	"	testb $16, FDS+36(%r11)\n"
	"	jz place_later\n"
	"	movl $1, FDS+64(%r11)\n"
	"	movq $0, FDS(%r11)\n"
	"	testb $32, FDS+36(%r11)\n"
	"	jz 7f\n"
	"	mov %edi, %esi\n"
	"	xor %edx, %edx\n"
	"	mov $436, %eax\n" /* close_range */
	"	syscall\n"
	"7:	xor %ecx, %ecx\n"
	"	jmp 9b\n"
	/* getdents64 */
	"8:	testb $64, FDS+36(%r11)\n"
	"	jnz 7b\n"
	"	jmp place_give_up\n"
	/* mmap, private, of what the host has at that number, not where we are. */
	"place_mmap:\n"
	"	cmp $16, %r8d\n"
	"	jae place_give_up\n"
	"	test $~0x812, %r10d\n"
	"	jnz place_give_up\n"
	"	mov %rdi, %rcx\n"
	"	shr $32, %rcx\n"
	"	jnz 1f\n"
	"	test %rdi, %rdi\n"
	"	jnz place_give_up\n"
	"1:	imul $216, %r8d, %r11d\n"
	"	mov FDS+24(%r11), %ecx\n"
	"	and $0xff8, %ecx\n"
	"	mov AGE(%rcx), %rcx\n"
	"	cmp %rcx, FDS(%r11)\n"
	"	jne place_give_up\n"
	"	mov FDS+32(%r11), %ecx\n"
	"	and $0xff8, %ecx\n"
	"	mov AGE(%rcx), %rcx\n"
	"	cmp %rcx, FDS+16(%r11)\n"
	"	jne place_give_up\n"
	"	testb $32, FDS+36(%r11)\n"
	"	jz place_give_up\n"
	"	mov $9, %eax\n"
	"	syscall\n"
	"	mov %rax, %rcx\n"
	"	jmp 9b\n"
	/* By place_prepare(), with a stack of its own: then the log has it, or nothing has
	   happened. */
	"place_later:\n"
	"	mov %rsp, STATE+80\n"
	"	mov %rbx, STATE+88\n"
	"	mov %rbp, STATE+96\n"
	"	mov %r8, STATE+104\n"
	"	mov %r9, STATE+112\n"
	"	mov %r10, STATE+120\n"
	"	mov %r12, STATE+128\n"
	"	mov %r13, STATE+136\n"
	"	mov %r14, STATE+144\n"
	"	mov %r15, STATE+152\n"
	"	mov %eax, %edi\n"
	"	mov $LOG, %esp\n"
	"	call place_prepare\n"
	"	mov STATE+80, %rsp\n"
	"	mov STATE+104, %r8\n"
	"	mov STATE+112, %r9\n"
	"	mov STATE+120, %r10\n"
	"	mov %rax, %rcx\n"
	"	cmp $-8192, %rax\n"
	"	je place_give_up\n"
	"	mov STATE+168, %r11\n"
	"	test %r11, %r11\n"
	"	jz 9b\n"
	"	mov STATE+160, %rax\n"
	"	lock cmpxchg %r11, LOG\n"
	"	jne place_give_up\n"
	"	jmp 9b\n"
	"place_touched:\n"
	"place_give_up:\n"
	"	mov STATE+72, %rcx\n"
	"	test %ecx, %ecx\n"
	"	jz 1f\n"
	"	mov STATE+64, %rax\n"
	"	mov %rax, (%rcx)\n"
	"	movq $0, STATE+72\n"
	"1:\n"
	"	mov STATE+8, %rdi\n"
	"	mov STATE+16, %rsi\n"
	"	mov STATE+24, %rdx\n"
	"	mov STATE+32, %rax\n"
	"	mov STATE+40, %rcx\n"
	"	movl $0, STATE\n"
	"place_call:\n"
	"	mov SITES(%rcx), %r11\n"
	"	lea -2(%r11), %r11\n"
	"	add $0x7f, %al\n"
	"	sahf\n"
	"	mov SITES+8(%rcx), %eax\n"
	"	jmp *%r11\n");

/*
 * The zygote: a process with nothing in it but this page, that makes blanks on request. A blank
 * shares its descriptor table for a moment, so that the zygote can hand the new listener to the
 * kernel; after that it has none at all.
 */
struct shared {
	uint32_t listener; /* number + 1, or 0x80000000 | errno */
};

static void enter_image(struct slot *s)
{
	uint64_t at = 0, flags = 0x202;

	if (s->order != ORDER_EXEC || run_steps(s, &at) < 0) {
		kernel_call(SHIM_EXEC_FAILED, at, 0, 0, 0);
		leave();
	}
	if (s->more) /* traced: a step is due, which ends before the first instruction */
		flags |= 0x100;
	s->order = ORDER_NONE;
	s->more = 0;
	__asm__ volatile("mov %0, %%rsp\n"
			 "push %2\n"
			 "mov %1, %%rcx\n"
			 "xor %%eax, %%eax\n"
			 "xor %%ebx, %%ebx\n"
			 "xor %%edx, %%edx\n"
			 "xor %%esi, %%esi\n"
			 "xor %%edi, %%edi\n"
			 "xor %%ebp, %%ebp\n"
			 "xor %%r8d, %%r8d\n"
			 "xor %%r9d, %%r9d\n"
			 "xor %%r10d, %%r10d\n"
			 "xor %%r11d, %%r11d\n"
			 "xor %%r12d, %%r12d\n"
			 "xor %%r13d, %%r13d\n"
			 "xor %%r14d, %%r14d\n"
			 "xor %%r15d, %%r15d\n"
			 "popf\n"
			 "jmp *%%rcx\n"
			 :
			 : "a"(s->exec.rsp), "d"(s->exec.rip), "b"(flags)
			 : "memory");
	__builtin_unreachable();
}

__attribute__((noreturn)) static void blank(const uint64_t *prog)
{
	struct shared *w = (struct shared *)SHIM_SHARED;
	struct slot *s = (struct slot *)SLOT_BASE;
	/* SECCOMP_SET_MODE_FILTER; NEW_LISTENER | WAIT_KILLABLE_RECV, or without the second */
	long fd = call3(SYS_seccomp, 1, 8 | 32, prog);

	if (fd < 0)
		fd = call3(SYS_seccomp, 1, 8, prog);
	__atomic_store_n(&w->listener, fd < 0 ? 0x80000000U | (uint32_t)-fd : (uint32_t)fd + 1,
		__ATOMIC_SEQ_CST);
	call3(SYS_futex, &w->listener, FUTEX_WAKE_, 1);
	call2(SYS_munmap, SHIM_SHARED, 4096);
	call3(SYS_close_range, 0, ~0U, 2 /* UNSHARE */);
	kernel_call(SHIM_BLANK, (uint64_t)s, 0, 0, 0);
	enter_image(s);
	__builtin_unreachable();
}

struct msg {
	uint64_t name;
	uint32_t name_len, pad;
	uint64_t iov, iov_count, control, control_len;
	uint32_t flags, pad2;
};

static void send_blank(uint64_t sock, int32_t pid, int32_t fd)
{
	struct {
		uint64_t len;
		int32_t level, type, fd, pad;
	} c = { 20, 1 /* SOL_SOCKET */, 1 /* SCM_RIGHTS */, fd, 0 };
	int64_t payload = fd < 0 ? fd : pid;
	uint64_t iov[2] = { (uint64_t)&payload, sizeof(payload) };
	struct msg m = { .iov = (uint64_t)iov, .iov_count = 1 };

	if (fd >= 0) {
		m.control = (uint64_t)&c;
		m.control_len = 24;
	}
	if (call3(SYS_sendmsg, sock, &m, 0x4000 /* NOSIGNAL */) < 0)
		leave();
}

static void make_blank(uint64_t sock, const uint64_t *prog)
{
	struct shared *w = (struct shared *)SHIM_SHARED;
	uint32_t got;
	long pid;

	__atomic_store_n(&w->listener, 0, __ATOMIC_SEQ_CST);
	/* The kernel process becomes the parent, and the descriptor table is one. */
	pid = call6(SYS_clone, 0x00008000UL /* PARENT */ | 0x400UL /* FILES */ | 17, 0, 0, 0, 0, 0);
	if (pid == 0)
		blank(prog);
	if (pid < 0) {
		send_blank(sock, 0, (int32_t)pid);
		return;
	}
	while ((got = __atomic_load_n(&w->listener, __ATOMIC_SEQ_CST)) == 0) {
		uint64_t look[2] = { 0, 100000000 };

		if (call6(SYS_futex, (uint64_t)&w->listener, FUTEX_WAIT_, 0, (uint64_t)look, 0,
			    0) != -ETIMEDOUT_)
			continue;
		/* Killed on its way, by a host that has no memory: nobody else would tell. */
		if (call3(SYS_tgkill, pid, pid, 0) == -ESRCH_ &&
			!__atomic_load_n(&w->listener, __ATOMIC_SEQ_CST)) {
			send_blank(sock, 0, -EAGAIN_);
			return;
		}
	}
	if (got & 0x80000000U) {
		send_blank(sock, 0, -(int32_t)(got & 0x7fffffff));
		return;
	}
	send_blank(sock, (int32_t)pid, (int32_t)got - 1);
	call1(SYS_close, got - 1);
}

/* @keep: pairs of addresses that stay mapped, in order; everything between them goes. */
void shim_zygote(uint64_t sock, const uint64_t *keep, uint64_t count, void *filter)
{
	uint64_t ranges[18], from = 0x10000, prog[2];
	uint8_t order;

	if (count > 9)
		leave();
	memcpy(ranges, keep, count * 16);
	memcpy(prog, filter, sizeof(prog));
	for (uint64_t i = 0; i < count; i++) {
		if (ranges[2 * i] > from)
			call2(SYS_munmap, from, ranges[2 * i] - from);
		from = ranges[2 * i + 1];
	}
	call2(SYS_munmap, from, 0x7ffffffff000UL - from);
	while (call3(SYS_read, sock, &order, 1) == 1)
		make_blank(sock, prog);
	leave();
}
