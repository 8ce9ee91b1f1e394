/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_SHIM_INSIDE_H
#define WARD_TIER_KERNEL_SHIM_INSIDE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "tier/kernel/shim/shim.h"

/*
 * What the files of the shim share. No libc, no writable globals, linked at SHIM_BASE, general
 * registers only. Nobody trusts it: whatever a guest could do by changing it, it could do without
 * it.
 */
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

/* shim.c */
void shim_handler(int sig, const void *info, struct ucontext *uc);
__attribute__((noreturn)) void leave(void);
/* A call of the shim's own: when nobody answers, there is nothing left to live for. */
long kernel_call(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
/* The steps of an order, one after the other, up to one that fails. */
long run_steps(struct slot *s, uint64_t *ret_at);

/* frame.c */
void shim_host_restorer(void);
void shim_restorer(void);
extern const char shim_restorer_ip[], shim_returned_ip[], shim_sigreturn_ip[], shim_sigreturn2_ip[];
extern const char shim_copy_ip[], shim_copy_failed[];
/* To where the guest may have nothing, or take it away meanwhile: 0, or 1 when it faulted. */
long shim_copy(void *to, const void *from, uint64_t n);
uint64_t fp_size(uint64_t fp);
/* @uc goes back with the host's own alternate stack. */
void host_stack(struct ucontext *uc, uint64_t slot);
/* The frame of the handler that the slot names, on the guest's stack; 0: there is no place for it.
 */
int push_frame(struct slot *s, struct ucontext *uc);
/* rt_sigreturn that the guest made itself: its frame becomes ours. */
void take_frame(struct ucontext *uc);
/* A handler is about to run where the restorer has nearly put another one's frame away: done. */
void finish_return(struct ucontext *uc);

/* clone.c */
void do_clone(struct slot *s, struct ucontext *uc);
/* Is there an order? */
void ask(struct ucontext *uc);
/* Somebody traces this thread and wants to look: it stays in this call until it may go on. */
void stop(struct ucontext *uc);

/* stubs.c */
extern const char place_stubs[], place_touch[], place_touched[], place_give_up[];
extern const char place_carry[], place_carried[], place_carry_done[];
extern const char place_any_glibc[], place_any_musl_cp[], place_any_musl[];

/* later.c */
long place_prepare(uint32_t kind);
/* In the middle of it, which has done nothing yet that counts: as if it had not begun. Neither its
 * stack nor its registers are the guest's, so nothing else can be done with it. */
void begin_again(struct ucontext *uc);
/* @uc goes on behind the site of the call at hand, with all that was the guest's but its result. */
void to_site(struct ucontext *uc);
static inline struct place_site *site_of(const struct place_state *s)
{
	return (struct place_site *)(PLACE_SITES_AT + (s->site & 0xfe0));
}

/* carry.c: what the call at hand reads goes with it; 0: it is a plain one. */
long carry_out(void);
/* What it gave goes where it belongs. */
void carry_back(void);
/* @uc was interrupted between the two, or behind the call: as if it had been made at its site. */
int carry_interrupted(struct ucontext *uc);

/* zygote.c */
void shim_zygote(uint64_t sock, const uint64_t *keep, uint64_t count, void *filter);

#endif
