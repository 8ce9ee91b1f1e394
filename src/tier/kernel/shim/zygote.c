/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/shim/zygote.c - the process that makes blanks, and how a blank becomes an image.
 *
 * Owns:  the page at SHIM_SHARED.
 * Rules: as in inside.h.
 */
#include "tier/kernel/shim/inside.h"

/*
 * The zygote: a process with nothing in it but this page, that makes blanks on request. A blank
 * shares its descriptor table for a moment, so that the zygote can hand the new listener to the
 * kernel; after that it has none at all.
 */
struct shared {
	uint32_t listener; /* number + 1, or 0x80000000 | errno */
	uint32_t carry;    /* number + 1 of the memory at PLACE_CARRY_AT; 0: none */
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

/* The memory that calls are carried in: of one size for good, and not a child's. -1: none. */
static long make_carry(void)
{
	enum { ADD_SEALS = 1033, SEALS = 1 | 2 | 4 /* SEAL, SHRINK, GROW */, DONT_FORK = 10 };
	long fd = call2(SYS_memfd_create, "carry", 3 /* CLOEXEC, ALLOW_SEALING */);

	if (fd < 0)
		return -1;
	if (call2(SYS_ftruncate, fd, PLACE_CARRY_SIZE) == 0 &&
		call3(SYS_fcntl, fd, ADD_SEALS, SEALS) == 0 &&
		call6(SYS_mmap, PLACE_CARRY_AT, PLACE_CARRY_SIZE, 1 | 2 /* READ, WRITE */,
			1 | 0x10 /* SHARED, FIXED */, (uint64_t)fd, 0) == PLACE_CARRY_AT &&
		call3(SYS_madvise, PLACE_CARRY_AT, PLACE_CARRY_SIZE, DONT_FORK) == 0)
		return fd;
	call1(SYS_close, fd);
	return -1;
}

__attribute__((noreturn)) static void blank(const uint64_t *prog, uint8_t order)
{
	struct shared *w = (struct shared *)SHIM_SHARED;
	struct slot *s = (struct slot *)SLOT_BASE;
	long carry = order == ZYGOTE_CARRY ? make_carry() : -1;
	/* SECCOMP_SET_MODE_FILTER; NEW_LISTENER | WAIT_KILLABLE_RECV, or without the second: then a
	 * call that has arrived can still be taken back by a signal, and nothing is carried. */
	long fd = call3(SYS_seccomp, 1, 8 | 32, prog);

	if (fd >= 0 && carry >= 0)
		((struct place_state *)PLACE_STATE)->carry = 1;
	if (fd < 0)
		fd = call3(SYS_seccomp, 1, 8, prog);
	w->carry = carry < 0 ? 0 : (uint32_t)carry + 1;
	__atomic_store_n(&w->listener, fd < 0 ? 0x80000000U | (uint32_t)-fd : (uint32_t)fd + 1,
		__ATOMIC_SEQ_CST);
	call3(SYS_futex, &w->listener, FUTEX_WAKE_, 1);
	call2(SYS_munmap, SHIM_SHARED, 4096);
	if (call3(SYS_close_range, 0, ~0U, 2 /* UNSHARE */) < 0)
		leave(); /* no memory for a table of its own */
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

/* @carry: -1, or a second descriptor. */
static void send_blank(uint64_t sock, int32_t pid, int32_t fd, int32_t carry)
{
	struct {
		uint64_t len;
		int32_t level, type, fd, carry;
	} c = { carry < 0 ? 20 : 24, 1 /* SOL_SOCKET */, 1 /* SCM_RIGHTS */, fd, carry };
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

static void make_blank(uint64_t sock, const uint64_t *prog, uint8_t order)
{
	struct shared *w = (struct shared *)SHIM_SHARED;
	uint32_t got;
	long pid;

	w->carry = 0;
	__atomic_store_n(&w->listener, 0, __ATOMIC_SEQ_CST);
	/* The kernel process becomes the parent, and the descriptor table is one. */
	pid = call6(SYS_clone, 0x00008000UL /* PARENT */ | 0x400UL /* FILES */ | 17, 0, 0, 0, 0, 0);
	if (pid == 0)
		blank(prog, order);
	if (pid < 0) {
		send_blank(sock, 0, (int32_t)pid, -1);
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
			send_blank(sock, 0, -EAGAIN_, -1);
			return;
		}
	}
	if (got & 0x80000000U) {
		send_blank(sock, 0, -(int32_t)(got & 0x7fffffff), -1);
	} else {
		send_blank(sock, (int32_t)pid, (int32_t)got - 1, (int32_t)w->carry - 1);
		call1(SYS_close, got - 1);
	}
	if (w->carry)
		call1(SYS_close, w->carry - 1);
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
		make_blank(sock, prog, order);
	leave();
}
