/* SPDX-License-Identifier: Apache-2.0 */
/* What processes see of each other: descriptors, lists of locks, memory, states. */
#include "io.h"

#include <linux/kcmp.h>
#include <pthread.h>
#include <sys/uio.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif

static int hold[2];

/* A child that waits until its pipe is closed. */
static pid_t holder(void)
{
	pid_t p;
	char c;

	NEED(pipe(hold));
	fflush(stdout);
	p = fork();
	if (!p) {
		close(hold[1]);
		if (read(hold[0], &c, 1) < 0)
			_exit(1);
		_exit(0);
	}
	close(hold[0]);
	return p;
}

static void let_go(pid_t p)
{
	close(hold[1]);
	printf("child: %d\n", io_reap(p));
}

#define KCMP(a, b, type, x, y) syscall(SYS_kcmp, a, b, type, (long)(x), (long)(y))

CASE(kcmp)
{
	int a = open("f", O_RDWR | O_CREAT, 0600), b = dup(a), c = open("f", O_RDONLY);
	pid_t me = getpid(), p = holder();

	R(KCMP(me, me, KCMP_FILE, a, a));
	R(KCMP(me, me, KCMP_FILE, a, b));
	B(KCMP(me, me, KCMP_FILE, a, c) > 0);
	B(KCMP(me, me, KCMP_FILE, a, c) + KCMP(me, me, KCMP_FILE, c, a) == 3);
	R(KCMP(me, p, KCMP_FILE, a, b));
	R(KCMP(me, me, KCMP_FILE, a, 999));
	R(KCMP(me, me, KCMP_VM, 0, 0));
	B(KCMP(me, p, KCMP_VM, 0, 0) > 0);
	B(KCMP(me, p, KCMP_FILES, 0, 0) > 0);
	B(KCMP(me, p, KCMP_FS, 0, 0) > 0);
	B(KCMP(me, p, KCMP_SIGHAND, 0, 0) > 0);
	R(KCMP(me, me, KCMP_SIGHAND, 0, 0));
	R(KCMP(me, 0x7ffffff, KCMP_VM, 0, 0));
	R(KCMP(me, me, 99, 0, 0));
	let_go(p);
}

CASE(getfd)
{
	int f = open("f", O_RDWR | O_CREAT, 0600), pfd, got;
	pid_t p = holder();

	pfd = (int)syscall(SYS_pidfd_open, p, 0);
	NEED(pfd);
	got = (int)syscall(SYS_pidfd_getfd, pfd, f, 0);
	NEED(got);
	R(fcntl(got, F_GETFD));
	B(write(f, "abc", 3) == 3 && lseek(got, 0, SEEK_CUR) == 3);
	R(syscall(SYS_pidfd_getfd, pfd, 999, 0));
	R(syscall(SYS_pidfd_getfd, pfd, f, 1));
	R(syscall(SYS_pidfd_getfd, f, f, 0));
	let_go(p);
	R(syscall(SYS_pidfd_getfd, pfd, f, 0));
}

static void as_nobody(void)
{
	void *head;
	size_t len;
	char buf[4];
	struct iovec v = { buf, sizeof(buf) };
	pid_t parent = getppid();

	R(syscall(SYS_get_robust_list, parent, &head, &len));
	R(process_vm_readv(parent, &v, 1, &v, 1, 0));
	R(kill(parent, 0));
}

CASE(others_are_closed)
{
	as_user(65534, 65534, as_nobody);
}

CASE(robust_list)
{
	uint64_t mine[3] = { (uint64_t)mine, 0, 0 };
	void *head = NULL;
	size_t len = 0;

	R(syscall(SYS_set_robust_list, mine, sizeof(mine)));
	R(syscall(SYS_get_robust_list, 0, &head, &len));
	B(head == (void *)mine && len == sizeof(mine));
	R(syscall(SYS_get_robust_list, 0, BADP, &len));
	R(syscall(SYS_get_robust_list, 0, &head, BADP));
	R(syscall(SYS_get_robust_list, 0x7ffffff, &head, &len));
	R(syscall(SYS_set_robust_list, NULL, sizeof(mine)));
}

static pthread_mutex_t *robust;

static void *dies_with_it(void *arg)
{
	pthread_mutex_lock(robust);
	return arg;
}

static void *takes_it(void *arg)
{
	int r = pthread_mutex_lock(robust);

	printf("taken: %s\n", errno_name(r));
	R(pthread_mutex_consistent(robust));
	R(pthread_mutex_unlock(robust));
	return arg;
}

static void make_robust(void)
{
	pthread_mutexattr_t a;

	robust = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(robust, &a);
}

CASE(a_thread_dies_with_a_lock)
{
	pthread_t t;

	make_robust();
	pthread_create(&t, NULL, dies_with_it, NULL);
	pthread_join(t, NULL);
	takes_it(NULL);
	R(pthread_mutex_lock(robust));
}

/* One that waits for the lock in its own process is woken by the end of another's. */
static void dies(void (*how)(void))
{
	pthread_t t;
	int ready[2];
	pid_t p;
	char c;

	make_robust();
	NEED(pipe(ready));
	fflush(stdout);
	p = fork();
	if (!p) {
		pthread_mutex_lock(robust);
		if (write(ready[1], "x", 1) == 1)
			how();
		_exit(1);
	}
	NEED(read(ready[0], &c, 1));
	pthread_create(&t, NULL, takes_it, NULL);
	io_nap(20); /* it waits by now; if not, it finds the lock given up already */
	kill(p, SIGKILL);
	io_reap(p);
	pthread_join(t, NULL);
}

static void ends(void)
{
	_exit(0);
}

static void waits(void)
{
	pause();
}

CASE(a_process_ends_with_a_lock)
{
	dies(ends);
}
CASE(a_process_is_killed_with_a_lock)
{
	dies(waits);
}

static volatile int waiter_tid;
static int word;

static void *waits_natively(void *arg)
{
	waiter_tid = (int)syscall(SYS_gettid);
	while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 0)
		syscall(SYS_futex, &word, 0, 0, NULL, NULL, 0);
	return arg;
}

static char state_of(int tid)
{
	char path[64], text[512], *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return '?';
	text[n] = '\0';
	at = strrchr(text, ')');
	return at ? at[2] : '?';
}

CASE(a_futex_waiter_sleeps)
{
	pthread_t t;

	pthread_create(&t, NULL, waits_natively, NULL);
	for (int i = 0; i < 20000 && (!waiter_tid || state_of(waiter_tid) != 'S'); i++)
		io_nap(1);
	printf("%c\n", state_of(waiter_tid));
	__atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &word, 1, 1, NULL, NULL, 0);
	pthread_join(t, NULL);
}

CASE(memory_of_others)
{
	char here[8] = "", there[8] = "abcdefg";
	void *no = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec l = { here, 8 }, r = { there, 8 }, bad = { no, 8 };

	R(process_vm_readv(getpid(), &l, 1, &r, 1, 0));
	say_str("read", here);
	R(process_vm_readv(getpid(), &bad, 1, &r, 1, 0));
	R(process_vm_readv(getpid(), &l, 1, &bad, 1, 0));
	R(process_vm_readv(getpid(), &l, 1, &r, 1, 1));
	R(process_vm_readv(0x7ffffff, &l, 1, &r, 1, 0));
	R(process_vm_readv(getpid(), BADP, 1, &r, 1, 0));
}

static volatile sig_atomic_t got_value;

static void on_value(int sig, siginfo_t *si, void *uc)
{
	got_value = si->si_value.sival_int;
}

CASE(signals_by_descriptor)
{
	struct sigaction a = { .sa_sigaction = on_value, .sa_flags = SA_SIGINFO };
	int dir = open("/proc/self", O_RDONLY | O_DIRECTORY), file = open("/", O_RDONLY);
	siginfo_t si = { .si_signo = SIGUSR1, .si_code = SI_QUEUE };

	si.si_value.sival_int = 77;
	sigaction(SIGUSR1, &a, NULL);
	R(syscall(SYS_pidfd_send_signal, dir, SIGUSR1, &si, 0));
	R(got_value);
	R(syscall(SYS_pidfd_send_signal, dir, SIGUSR2, &si, 0));
	R(syscall(SYS_pidfd_send_signal, dir, 0, NULL, 0));
	R(syscall(SYS_pidfd_send_signal, file, 0, NULL, 0));
}

static void *sleeps(void *arg)
{
	waiter_tid = (int)syscall(SYS_gettid);
	while (!got_value)
		io_nap(1);
	return arg;
}

CASE(a_thread_names_its_process)
{
	struct sigaction a = { .sa_sigaction = on_value, .sa_flags = SA_SIGINFO };
	siginfo_t si = { .si_code = SI_QUEUE };
	pthread_t t;

	sigaction(SIGUSR1, &a, NULL);
	pthread_create(&t, NULL, sleeps, NULL);
	while (!waiter_tid)
		io_nap(1);
	R(kill(waiter_tid, 0));
	si.si_value.sival_int = 5;
	R(syscall(SYS_rt_sigqueueinfo, waiter_tid, SIGUSR1, &si));
	pthread_join(t, NULL);
	R(got_value);
}

CASE(a_descriptor_that_does_not_wait)
{
	pid_t p = holder();
	int fd = (int)syscall(SYS_pidfd_open, p, O_NONBLOCK);
	siginfo_t si;

	R(waitid(3 /* P_PIDFD */, (id_t)fd, &si, WEXITED));
	close(hold[1]);
	while (waitid(3, (id_t)fd, &si, WEXITED) < 0 && errno == EAGAIN)
		io_nap(1);
	R(si.si_code == CLD_EXITED);
}

CASE(memory_as_a_file)
{
	static char said[] = "changed by a file";
	static const char fixed[4096] __attribute__((aligned(4096))) = "read-only";
	volatile const char *seen = fixed;
	char buf[32] = "";
	int fd = open("/proc/self/mem", O_RDWR);
	pid_t p;

	NEED(fd);
	R(pread(fd, buf, 7, (off_t)said));
	B(strcmp(buf, "changed") == 0);
	R(pwrite(fd, "CHANGED", 7, (off_t)said));
	puts(said);
	R(pwrite(fd, "R", 1, (off_t)fixed)); /* as a debugger sets breakpoints */
	B(seen[0] == 'R');
	R(pread(fd, buf, 1, 16));
	R(pwrite(fd, buf, 1, 16));
	B(lseek(fd, (off_t)said, SEEK_SET) == (off_t)said);
	R(read(fd, buf, 3));
	R(lseek(fd, 0, SEEK_END));
	R(pread(fd, BAD_PTR, 1, (off_t)said));
	p = holder();
	said[0] = 'x';
	snprintf(buf, sizeof(buf), "/proc/%d/mem", p);
	close(fd);
	fd = open(buf, O_RDWR);
	NEED(fd);
	R(pread(fd, buf, 7, (off_t)said));
	B(strncmp(buf, "CHANGED", 7) == 0);
	let_go(p);
	R(pread(fd, buf, 7, (off_t)said)); /* nothing is left of it */
	close(fd);
}

static void not_ours(void)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/mem", getppid());
	R(open(path, O_RDONLY));
	snprintf(path, sizeof(path), "/proc/%d/pagemap", getppid());
	R(open(path, O_RDONLY));
}

CASE(memory_of_another_user)
{
	as_user(1234, 1234, not_ours);
}

CASE(pages)
{
	char *m = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t e[2] = { 0 };

	NEED(fd);
	m[0] = 1;
	R(pread(fd, e, sizeof(e), (off_t)((uintptr_t)m / 4096 * 8)));
	B(e[0] >> 63);
	B(e[1] >> 63);
	R(pread(fd, e, 7, 0));
}
