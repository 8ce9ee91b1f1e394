/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/kernel/hostile.c - what a guest can try against the kernel tier itself. Each attempt runs
 * in a child; the program says how it ended and must still be there at the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define SHIM 0x100000UL
#define SHIM_LEN 0x3000UL
#define SLOTS 0x7d0000000000UL
#define TABLE 0x50f0000UL
#define AGE 0x50ff000UL
#define TABLE_END 0x51b0000UL
#define LOG 0x51b1000UL
#define LOG_ENTRIES (LOG + 0x1000)
#define LOG_END 0x51ba000UL
#define CARRY LOG_END
#define CARRY_BYTES 0x4000UL

static void nothing(int sig)
{
}

static long int80(long nr, long arg)
{
	long r;

	__asm__ volatile("int $0x80"
			 : "=a"(r)
			 : "a"(nr), "b"(arg)
			 : "memory", "r8", "r9", "r10", "r11");
	return r;
}

static int old_door(void)
{
	return int80(20 /* getpid */, 0) == -ENOSYS && int80(1 /* exit */, 7) == -ENOSYS ? 0 : 1;
}

static int x32_numbers(void)
{
	return syscall(0x40000000 | SYS_getpid) == -1 && errno == ENOSYS ? 0 : 1;
}

/* Every syscall instruction of the shim, with arguments that it would never use. */
static long jump(uintptr_t at, long nr, long a, long b, long c)
{
	long r;

	/* The code after it returns somewhere of its own choosing; a fault ends the child. */
	__asm__ volatile(
		"call *%5"
		: "=a"(r)
		: "a"(nr), "D"(a), "S"(b), "d"(c), "r"(at)
		: "rcx", "r8", "r9", "r10", "r11", "rbx", "r12", "r13", "r14", "r15", "memory");
	return r;
}

static int into_the_shim(void)
{
	static const struct {
		long nr, a, b, c;
	} calls[] = {
		{ SYS_clone, 0x10000000 /* NEWUSER */, 0, 0 },
		{ SYS_prctl, 4 /* SET_DUMPABLE */, 0, 0 },
		{ SYS_socket, AF_INET, SOCK_STREAM, 0 },
		{ SYS_open, 0, 0, 0 },
		{ SYS_ptrace, 0, 0, 0 },
		{ SYS_exit_group, 3, 0, 0 },
		{ SYS_close_range, 0, ~0u, 0 },
		{ SYS_rt_sigreturn, 0, 0, 0 },
	};
	unsigned char *code = (unsigned char *)SHIM;
	int tried = 0;

	for (unsigned long i = 0; i < SHIM_LEN - 1; i++) {
		if (code[i] != 0x0f || code[i + 1] != 0x05)
			continue;
		for (size_t k = 0; k < sizeof(calls) / sizeof(calls[0]); k++) {
			pid_t p = fork();
			int st;

			if (!p) {
				alarm(1);
				jump(SHIM + i, calls[k].nr, calls[k].a, calls[k].b, calls[k].c);
				_exit(0);
			}
			if (p < 0 || waitpid(p, &st, 0) != p)
				return 2;
			tried++;
		}
	}
	return tried ? 0 : 1;
}

/* Everywhere else too: whatever the code there does, with these registers, it does to this process.
 */
static sigjmp_buf back;

static void come_back(int sig)
{
	siglongjmp(back, sig);
}

static void catch_all(void)
{
	static char stack[64 << 10];
	stack_t alt = { .ss_sp = stack, .ss_size = sizeof(stack) };
	static const int sigs[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGALRM };
	struct sigaction a = { .sa_handler = come_back, .sa_flags = SA_ONSTACK | SA_NODEFER };

	sigaltstack(&alt, NULL);
	for (size_t i = 0; i < sizeof(sigs) / sizeof(sigs[0]); i++)
		sigaction(sigs[i], &a, NULL);
}

static void land(uintptr_t at, char *scratch)
{
	/* A stack of its own, and nothing in registers that leads anywhere else. */
	__asm__ volatile("lea 32768(%%rdi), %%rsp\n"
			 "push %%rax\n"
			 "lea 4096(%%rdi), %%rsi\n"
			 "mov %%rdi, %%rbx\n"
			 "mov %%rdi, %%rbp\n"
			 "mov %%rdi, %%r8\n"
			 "mov %%rdi, %%r9\n"
			 "mov %%rdi, %%r10\n"
			 "mov %%rdi, %%r11\n"
			 "mov %%rdi, %%r12\n"
			 "mov %%rdi, %%r13\n"
			 "mov %%rdi, %%r14\n"
			 "mov %%rdi, %%r15\n"
			 "mov $64, %%ecx\n"
			 "mov $64, %%edx\n"
			 "mov $39, %%eax\n"
			 "ret\n"
			 :
			 : "a"(at), "D"(scratch)
			 : "memory");
	__builtin_unreachable();
}

static void land_from(volatile unsigned *at, unsigned end, char *scratch)
{
	catch_all();
	for (; *at < end; (*at)++) {
		struct itimerval soon = { .it_value.tv_usec = 20000 };

		if (sigsetjmp(back, 1)) {
			setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
			continue;
		}
		setitimer(ITIMER_REAL, &soon, NULL);
		memset(scratch, 0, 65536);
		land(SHIM + *at, scratch);
	}
	_exit(0);
}

static int everywhere_in_the_shim(void)
{
	/* In the middle of nothing, so that a near miss is a fault. */
	char *area = mmap(NULL, 4 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
	     *scratch = area + (2 << 20);
	volatile unsigned *at =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned char *code = (unsigned char *)SHIM;
	unsigned end = SHIM_LEN;

	if (area == MAP_FAILED || at == MAP_FAILED ||
		mprotect(scratch, 65536, PROT_READ | PROT_WRITE) < 0)
		return 2;
	while (end && !code[end - 1]) /* behind the code there is nothing */
		end--;
	for (*at = 0; *at < end; (*at)++) {
		unsigned seen = *at, still = 0;
		pid_t p = fork();

		if (p == 0)
			land_from(at, end, scratch);
		if (p < 0)
			return 2;
		/* It may have lost its stack, its mask or its handlers: then the next one goes on.
		 */
		while (waitpid(p, NULL, WNOHANG) == 0) {
			usleep(2000);
			still = *at == seen ? still + 1 : 0;
			seen = *at;
			if (still == 50)
				kill(p, SIGKILL);
		}
	}
	return end > 1024 ? 0 : 1;
}

/*
 * A process that the sandbox's kernel never heard of, made by the clone in the shim, which then
 * says hello with @token as if it were somebody's new child. Never returns to the caller.
 */
static void rogue(uint64_t token)
{
	static const unsigned char clone[] = { 0xb8, 0x38, 0, 0, 0, 0x0f,
		0x05 }; /* mov $56, %eax; syscall */
	unsigned char *code = (unsigned char *)SHIM;
	unsigned long at = 0;

	while (at < SHIM_LEN && memcmp(code + at, clone, sizeof(clone)))
		at++;
	if (at == SHIM_LEN)
		_exit(3);
	__asm__ volatile("push %1\n" /* what the new process finds there: (context, token) */
			 "push %2\n"
			 "xor %%esi, %%esi\n"
			 "xor %%r10d, %%r10d\n"
			 "xor %%r8d, %%r8d\n"
			 "xor %%edx, %%edx\n"
			 "mov $17, %%edi\n"
			 "jmp *%0\n"
			 :
			 : "r"(SHIM + at), "r"(token), "r"(SLOTS + 0x7000)
			 : "memory", "rsi", "rdi", "rdx", "r8", "r10");
	__builtin_unreachable();
}

static void steal(pid_t near)
{
	if (setuid(1000) < 0)
		_exit(1);
	for (unsigned n = 0;; n++) {
		uint64_t guess = (uint64_t)near + n % 64;
		pid_t p = fork();
		int st = 0;

		if (p == 0)
			rogue(n % 2 ? guess : guess | (uint64_t)n * 2654435761 << 32);
		syscall(0x1003, guess, SLOTS, 0, 0); /* and as oneself */
		if (p > 0)
			waitpid(p, &st, 0);
		if (st == 3 << 8)
			_exit(3);
		near = p > 0 ? p : near;
	}
}

/* A new task's place is taken by whoever knows its token; others can only guess. */
static int stolen_hello(void)
{
	pid_t thieves[2];
	int bad = 0, st;

	for (int i = 0; i < 2; i++) {
		thieves[i] = fork();
		if (thieves[i] == 0)
			steal(getpid());
	}
	for (int i = 0; i < 100; i++) {
		volatile int mine = i;
		pid_t p = fork();

		if (!p)
			_exit(getuid() == 0 && mine == i ? 7 : 1);
		bad += p < 0 || waitpid(p, &st, 0) != p || st != 7 << 8;
	}
	for (int i = 0; i < 2; i++) {
		kill(thieves[i], SIGKILL);
		bad += waitpid(thieves[i], &st, 0) != thieves[i] || st != SIGKILL;
	}
	return bad ? 1 : 0;
}

static int forged_calls(void)
{
	for (long nr = 0x1000; nr < 0x1010; nr++) {
		for (int i = 0; i < 20; i++) {
			pid_t p = fork();
			int st;

			if (!p) {
				alarm(1);
				syscall(nr, (long)i, SLOTS, -1L, i * 7919L);
				syscall(nr, getppid(), -i, 0, 0);
				_exit(0);
			}
			if (p < 0 || waitpid(p, &st, 0) != p)
				return 2;
		}
	}
	return 0;
}

static int without_shim(void)
{
	signal(SIGUSR1, nothing);
	munmap((void *)SHIM, 0x4000);
	raise(SIGUSR1);
	return 0;
}

static int over_the_shim(void)
{
	signal(SIGUSR1, nothing);
	if (mmap((void *)SHIM, 0x4000, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		return 1;
	memset((void *)SHIM, 0x90, 0x4000);
	raise(SIGUSR1);
	return 0;
}

static int without_slots(void)
{
	signal(SIGUSR1, nothing);
	munmap((void *)SLOTS, 0x8000UL * 8192);
	raise(SIGUSR1);
	fork();
	return 0;
}

static int write_through_proc(void)
{
	int fd = open("/proc/self/mem", O_RDWR);
	char junk[64];

	memset(junk, 0xcc, sizeof(junk));
	if (fd >= 0 && pwrite(fd, junk, sizeof(junk), SHIM + 64) < 0)
		return 0;
	raise(SIGUSR1);
	return 0;
}

static int forged_frame(void)
{
	uint64_t garbage[128];

	memset(garbage, 0x5a, sizeof(garbage));
	__asm__ volatile("mov %0, %%rsp\n mov $15, %%eax\n syscall\n" : : "r"(garbage) : "memory");
	return 0;
}

/* A true frame, but for one thing. The handler runs with it; whatever comes of it is this
 * process's. */
static int spoil;

static void spoiler(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	greg_t *r = uc->uc_mcontext.gregs;

	switch (spoil) {
	case 0:
		r[REG_RIP] = (greg_t)0xffffffff81000000;
		break;
	case 1:
		r[REG_RIP] = (greg_t)0x8000000000000000;
		break;
	case 2:
		r[REG_CSGSFS] = 0;
		break;
	case 3:
		r[REG_CSGSFS] = 0x10 | 0x10L << 48;
		break;
	case 4:
		r[REG_CSGSFS] = 0x23 | 0x2bL << 48; /* 32-bit code */
		break;
	case 5:
		r[REG_EFL] |= 0x3000 | 0x200000 | 0x100; /* port access, single steps */
		break;
	case 6:
		uc->uc_mcontext.fpregs = (void *)0xffffffff81000000;
		break;
	case 7:
		memset(uc->uc_mcontext.fpregs, 0xff, 512);
		break;
	case 8:
		((uint32_t *)uc->uc_mcontext.fpregs)[117] = ~0u; /* size of the rest */
		break;
	case 9:
		r[REG_RSP] = (greg_t)0xffffffffff600000;
		break;
	case 10:
		uc->uc_stack = (stack_t){ .ss_sp = (void *)SLOTS, .ss_size = ~0UL };
		break;
	default:
		memset(uc, 0xff, sizeof(*uc));
		break;
	}
}

static int spoiled_frames(void)
{
	enum { WAYS = 12 };

	for (spoil = 0; spoil < WAYS; spoil++) {
		pid_t p = fork();

		if (p == 0) {
			alarm(5);
			sigaction(SIGUSR1,
				&(struct sigaction){
					.sa_sigaction = spoiler, .sa_flags = SA_SIGINFO },
				NULL);
			raise(SIGUSR1);
			getpid();
			_exit(0);
		}
		if (p < 0 || waitpid(p, NULL, 0) != p)
			return 1;
	}
	return 0;
}

/* What a process does to its own shim, slots and vdso: each in a child that then uses them. */
static int change_own(int way)
{
	char junk[4096];
	struct iovec from = { junk, sizeof(junk) }, to = { (void *)SHIM, sizeof(junk) };
	unsigned long vdso = getauxval(AT_SYSINFO_EHDR) & ~4095UL;
	int fd;

	memset(junk, 0xcc, sizeof(junk));
	switch (way) {
	case 0:
		return process_vm_writev(getpid(), &from, 1, &to, 1, 0) < 0 ? 0 : -1;
	case 1:
		fd = open("/proc/self/mem", O_RDWR);
		return fd < 0 ? -1 : (int)pwrite(fd, junk, sizeof(junk), (off_t)SHIM);
	case 2:
		return mprotect((void *)SHIM, 0x4000, PROT_NONE);
	case 3:
		return mprotect((void *)SHIM, 0x4000, PROT_READ | PROT_WRITE);
	case 4:
		return mremap((void *)SHIM, 0x3000, 0x3000, MREMAP_MAYMOVE | MREMAP_FIXED,
			       (void *)0x200000) == MAP_FAILED
			       ? -1
			       : 0;
	case 5:
		return mremap((void *)SLOTS, 0x8000, 0x8000, MREMAP_MAYMOVE | MREMAP_FIXED,
			       (void *)0x600000000000) == MAP_FAILED
			       ? -1
			       : 0;
	case 6:
		return mprotect((void *)SLOTS, 0x8000, PROT_READ);
	case 7:
		return munmap((void *)vdso, 8192);
	case 8:
		return mprotect((void *)vdso, 4096, PROT_READ | PROT_WRITE);
	case 9:
		return madvise((void *)SHIM, 0x3000, MADV_DONTNEED);
	case 10:
		return madvise((void *)SLOTS, 0x8000 * 8192UL, MADV_DONTNEED);
	default:
		return munmap((void *)0x10000, 0x7fffffff0000 - 0x10000);
	}
}

static int changed_own_parts(void)
{
	enum { WAYS = 12 };

	for (int way = 0; way < WAYS; way++) {
		pid_t p = fork();

		if (p == 0) {
			struct timespec ts;

			alarm(5);
			signal(SIGUSR1, nothing);
			change_own(way);
			clock_gettime(CLOCK_MONOTONIC, &ts);
			raise(SIGUSR1);
			p = fork();
			if (p > 0)
				waitpid(p, NULL, 0);
			_exit(0);
		}
		if (p < 0 || waitpid(p, NULL, 0) != p)
			return 1;
	}
	return 0;
}

static long vsyscall(unsigned long at)
{
	long r;

	__asm__ volatile("call *%1"
			 : "=a"(r)
			 : "r"(at), "D"(0L), "S"(0L), "a"(0L)
			 : "rcx", "r11", "memory");
	return r;
}

static int old_page(void)
{
	for (unsigned long at = 0xffffffffff600000; at < 0xffffffffff600c00; at += 0x400) {
		pid_t p = fork();

		if (p == 0)
			_exit(vsyscall(at) != 0);
		if (p < 0 || waitpid(p, NULL, 0) != p)
			return 1;
	}
	return 0;
}

static int fast_door(void)
{
	/* Comes back, if at all, to a place that 32-bit programs have. */
	__asm__ volatile("mov $20, %%eax\n mov %%rsp, %%rbp\n sysenter\n"
			 :
			 :
			 : "memory", "rax", "rcx", "rdx");
	return 0;
}

/* Machinery of the host that must not be had: each is the sandbox's kernel's to refuse. */
static int machinery(void)
{
	struct {
		uint16_t len;
		void *filter;
	} prog = { 0 };
	uint64_t ctx = 0;

	if (syscall(SYS_userfaultfd, 0) >= 0 || errno != ENOSYS)
		return 1;
	if (syscall(SYS_seccomp, 1 /* FILTER */, 8 /* NEW_LISTENER */, &prog) >= 0)
		return 2;
	if (syscall(SYS_seccomp, 1, 0, &prog) >= 0)
		return 3;
	if (prctl(PR_SET_SECCOMP, 2, &prog) >= 0)
		return 4;
	if (syscall(SYS_bpf, 0, 0, 0) >= 0 || syscall(SYS_perf_event_open, 0, 0, 0, 0, 0) >= 0)
		return 5;
	if (syscall(SYS_io_uring_setup, 8, &prog) >= 0)
		return 6;
	/* A context is the kernel's own: no ring of the host lies there. */
	if (syscall(SYS_io_setup, 8, &ctx) != 0 || ((volatile uint32_t *)ctx)[4] != 0)
		return 8;
	if (syscall(SYS_modify_ldt, 0, &prog, 8) > 0 || syscall(SYS_iopl, 3) == 0 ||
		syscall(SYS_ioperm, 0, 8, 1) == 0)
		return 7;
	return 0;
}

/* Copies that the kernel makes by itself, into whatever takes bytes. */
static int copies_into_everything(void)
{
	int in = open("/etc/passwd", O_RDONLY), pair[2], outs[10], n = 0, closed[2];

	signal(SIGPIPE, SIG_IGN);
	if (in < 0 || pipe(pair) || pipe(closed))
		return 1;
	close(closed[0]);
	outs[n++] = socket(AF_NETLINK, SOCK_RAW, 0);
	outs[n++] = socket(AF_INET, SOCK_DGRAM, 0);
	outs[n++] = socket(AF_INET6, SOCK_STREAM, 0);
	outs[n++] = socket(AF_UNIX, SOCK_DGRAM, 0);
	outs[n++] = closed[1];
	outs[n++] = pair[1];
	outs[n++] = open("/dev/ptmx", O_RDWR | O_NOCTTY);
	outs[n++] = eventfd(0, EFD_NONBLOCK);
	outs[n++] = open("/proc/self/comm", O_WRONLY);
	outs[n++] = open("/dev/full", O_WRONLY);
	for (int i = 0; i < n; i++) {
		off_t off = 0, far = INT64_MAX - 1;

		fcntl(outs[i], F_SETFL, O_NONBLOCK);
		sendfile(outs[i], in, &off, 100);
		sendfile(outs[i], in, &far, 100);
		copy_file_range(in, &(off_t){ 0 }, outs[i], NULL, 100, 0);
		splice(in, &(off_t){ 0 }, outs[i], NULL, 100, SPLICE_F_NONBLOCK);
	}
	return 0;
}

static int bad_stack(void)
{
	signal(SIGUSR1, nothing);
	pid_t me = getpid();

	__asm__ volatile("mov %0, %%edi\n mov $10, %%esi\n mov $62, %%eax\n mov $0x1000, %%rsp\n "
			 "syscall\n ud2\n"
			 :
			 : "r"((int)me)
			 : "memory");
	return 0;
}

static int racing_arguments(void)
{
	char *path = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t p = fork();

	if (!p)
		for (;;) {
			memcpy(path, "/etc/passwd", 12);
			memset(path, '/', 4096);
		}
	for (int i = 0; i < 3000; i++) {
		int fd = open(path, O_RDONLY);

		if (fd >= 0)
			close(fd);
	}
	kill(p, SIGKILL);
	return 0;
}

static int native_descriptors(void)
{
	/* A mapped file has a host copy at its number; nothing native may use it. */
	int fd = open("/proc/self/exe", O_RDONLY);
	char c;

	if (fd < 0 || mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		return 1;
	close(fd);
	return read(fd, &c, 1) == -1 && errno == EBADF ? 0 : 2;
}

/* Answers in place: is the site changed after it was used often? (Not an attack.) */
static int ask_often(void)
{
	char b[8];
	const unsigned char *site;
	long r = 0;

	for (int i = 0; i < 50; i++) {
		__asm__ volatile("lea 1f(%%rip), %1\n"
				 "1: mov $89, %%eax\n"
				 "syscall\n"
				 : "=&a"(r), "=&r"(site)
				 : "D"("/"), "S"(b), "d"(8L)
				 : "rcx", "r11", "memory");
	}
	return r == -EINVAL ? site[0] != 0xff : 2;
}

static int change_the_age(void)
{
	char *copy;

	ask_often();
	for (unsigned long at = AGE; at < TABLE_END; at += 4096)
		if (mprotect((void *)at, 4096, PROT_READ | PROT_WRITE) == 0 ||
			madvise((void *)at, 4096, MADV_REMOVE) == 0)
			return 1;
	copy = mremap((void *)AGE, 0, 4096, MREMAP_MAYMOVE); /* the same pages once more */
	return copy != MAP_FAILED && mprotect(copy, 4096, PROT_READ | PROT_WRITE) == 0 ? 2 : 0;
}

/* Whatever lies there is the guest's own trouble. */
static int forged_answers(void)
{
	unsigned seed = 1;

	for (int round = 0; round < 20; round++) {
		pid_t p = fork();

		if (!p) {
			ask_often();
			for (unsigned long at = TABLE + 0x400; at < AGE; at++) {
				seed = seed * 1103515245 + 12345 + (unsigned)round;
				*(volatile unsigned char *)at = (unsigned char)(seed >> 16);
			}
			_exit(ask_often());
		}
		waitpid(p, NULL, 0);
	}
	return getpid() > 1 ? 0 : 1;
}

static int without_table(void)
{
	munmap((void *)TABLE, TABLE_END - TABLE);
	return ask_often() == 1 ? 0 : 1;
}

/*
 * Calls that are made later: a file that only we have open, and so many writes and locks that the
 * log is there. -1: it is not, since this kernel has none.
 */
static int file_with_log(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	long r = 0;

	for (int i = 0; i < 100 && r >= 0; i++) {
		register long at __asm__("r10") = 0;

		__asm__ volatile("mov $18, %%eax\n"
				 "syscall\n"
				 : "=&a"(r)
				 : "D"((long)fd), "S"("mine"), "d"(4L), "r"(at)
				 : "rcx", "r11", "memory");
	}
	return r == 4 && msync((void *)LOG, 4096, MS_ASYNC) == 0 && *(volatile unsigned long *)LOG
		       ? fd
		       : -1;
}

static int no_log(void)
{
	return file_with_log("/tmp/file") < 0;
}

struct entry {
	unsigned char op, fd;
	unsigned short type;
	unsigned len;
	long at, count;
};

/* As the shim would, but with anything. */
static void forge(struct entry e, const char *bytes)
{
	volatile unsigned long *head = (volatile unsigned long *)LOG;

	memcpy((void *)LOG_ENTRIES, &e, sizeof(e));
	memcpy((void *)(LOG_ENTRIES + sizeof(e)), bytes, 8);
	*head = (*head & ~0xffffffffUL) | 1 << 16 | (sizeof(e) + 8) / 8;
}

/* A file that was opened for reading is not written, one that is not open neither. */
static int forged_writes(void)
{
	int fd = file_with_log("/tmp/one"), other;
	char b[8] = "";

	if (fd < 0)
		return 0;
	other = open("/tmp/two", O_WRONLY | O_CREAT, 0600);
	if (write(other, "safe", 4) != 4)
		return 1;
	close(other);
	other = open("/tmp/two", O_RDONLY);
	forge((struct entry){ .op = 2, .fd = (unsigned char)other, .len = 8 }, "spoiled");
	if (pread(other, b, 8, 0) != 4 || memcmp(b, "safe", 4))
		return 2;
	forge((struct entry){ .op = 2, .fd = (unsigned char)fd, .len = 8 }, "spoiled");
	if (pread(fd, b, 8, 0) != 4 || memcmp(b, "mine", 4)) /* nobody reads there any more */
		return 3;
	return 0;
}

/* Anything in the log, from several who have it, while its owner goes on. */
static int spoiled_log(void)
{
	unsigned seed = 7;

	for (int round = 0; round < 12; round++) {
		pid_t p = fork();

		if (!p) {
			int fd = file_with_log("/tmp/log");
			pid_t with;

			if (fd < 0)
				_exit(0);
			madvise((void *)LOG, LOG_END - LOG, MADV_DOFORK);
			with = fork();
			for (int i = 0; i < (with ? 300 : 30000); i++) {
				unsigned long at;

				seed = seed * 1103515245 + 12345 + (unsigned)round;
				at = LOG + (i % 4 ? seed >> 8 & 0x8ff8 : 0);
				*(volatile unsigned long *)at ^= (seed >> 4 & 0x1f) << (i % 3 * 8);
				if (with)
					pwrite(fd, "log", 3, i);
			}
			if (!with)
				_exit(0);
			if (round % 4 == 1)
				madvise((void *)LOG, LOG_END - LOG, MADV_REMOVE);
			if (round % 4 == 2)
				mprotect((void *)LOG, LOG_END - LOG, PROT_READ);
			if (round % 4 == 3)
				munmap((void *)LOG, LOG_END - LOG);
			for (int i = 0; i < 100; i++)
				pwrite(fd, "log", 3, i);
			_exit(0);
		}
		waitpid(p, NULL, 0);
	}
	return getpid() > 1 ? 0 : 1;
}

/* The page that calls are carried in says anything, while they are made: two processes write it. */
static int spoil_page(int round)
{
	unsigned seed = 11 + (unsigned)round;
	char b[64];
	int p[2];
	pid_t with;

	if (pipe(p))
		return 1;
	for (int i = 0; i < 40; i++)
		if (access("/tmp", R_OK) || write(p[1], "warm", 4) != 4 || read(p[0], b, 4) != 4)
			return 1;
	madvise((void *)CARRY, CARRY_BYTES, MADV_DOFORK);
	with = fork();
	for (int i = 0; i < (with ? 2000 : 60000); i++) {
		seed = seed * 1103515245 + 12345;
		*(volatile unsigned *)(CARRY + (i % 4 ? seed >> 8 & 0x1fc : seed >> 8 & 0x3ffc)) ^=
			1u << (seed >> 3 & 31);
		if (!with)
			continue;
		access("/tmp", R_OK);
		write(p[1], "text", 4);
		read(p[0], b, 4);
		close(open("/etc/passwd", O_RDONLY));
	}
	if (!with)
		_exit(0);
	if (round % 3 == 1)
		mprotect((void *)CARRY, CARRY_BYTES, PROT_READ);
	if (round % 3 == 2)
		madvise((void *)CARRY, CARRY_BYTES, MADV_REMOVE);
	for (int i = 0; i < 100; i++)
		write(p[1], "text", 4);
	return 0;
}

static int spoiled_page(void)
{
	for (int round = 0; round < 6; round++) {
		char text[2] = { (char)('0' + round), 0 };
		pid_t p = fork();

		if (!p) {
			execl("/proc/self/exe", "hostile", "page", text, NULL);
			_exit(1);
		}
		waitpid(p, NULL, 0); /* however it ends */
	}
	return getpid() > 1 ? 0 : 1;
}

static const struct {
	const char *name;
	int (*run)(void);
} attempts[] = {
	{ "old door", old_door },
	{ "x32 numbers", x32_numbers },
	{ "into the shim", into_the_shim },
	{ "forged calls", forged_calls },
	{ "without shim", without_shim },
	{ "over the shim", over_the_shim },
	{ "without slots", without_slots },
	{ "write through proc", write_through_proc },
	{ "forged frame", forged_frame },
	{ "bad stack", bad_stack },
	{ "everywhere in the shim", everywhere_in_the_shim },
	{ "stolen hello", stolen_hello },
	{ "spoiled frames", spoiled_frames },
	{ "changed own parts", changed_own_parts },
	{ "old page", old_page },
	{ "fast door", fast_door },
	{ "machinery", machinery },
	{ "copies into everything", copies_into_everything },
	{ "racing arguments", racing_arguments },
	{ "native descriptors", native_descriptors },
	{ "change the age", change_the_age },
	{ "forged answers", forged_answers },
	{ "without table", without_table },
	{ "forged writes", forged_writes },
	{ "spoiled log", spoiled_log },
	{ "spoiled page", spoiled_page },
	{ "not in place", ask_often },
	{ "not later", no_log },
};

/* All, or the one that is named. */
int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "page")) /* in an image of its own */
		return spoil_page(argv[2][0] - '0');
	for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
		pid_t p;
		int st = -1;

		if (argc > 1 && strcmp(argv[1], attempts[i].name))
			continue;
		fflush(stdout);
		p = fork();
		if (!p)
			_exit(attempts[i].run());
		waitpid(p, &st, 0);
		if (WIFEXITED(st))
			printf("%s: %d\n", attempts[i].name, WEXITSTATUS(st));
		else
			printf("%s: signal %d\n", attempts[i].name, WTERMSIG(st));
	}
	puts("still here");
	return 0;
}
