/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same question again and again, and then something changes: a kernel that remembers answers
 * must not give an old one. Each case asks often enough for that first.
 */
#include <pthread.h>
#include <sched.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <termios.h>

#include "guest.h"

enum { OFTEN = 40 };

/* The same from the root: those are what a kernel may remember for all of its processes. */
static const char *whole(const char *path)
{
	static char text[8192];
	char here[4096];

	if (path[0] == '/' || !getcwd(here, sizeof(here)))
		return path;
	snprintf(text, sizeof(text), "%s/%s", here, path);
	return text;
}

static int once(int r)
{
	return r < 0 ? errno : 0;
}

/* Often from the root, and from here: both must say the same. */
static int often(const char *path, int (*ask)(const char *path))
{
	const char *from_root = whole(path);
	int last = 0;

	for (int i = 0; i < OFTEN; i++)
		last = ask(from_root);
	return ask(path) == last ? last : EDOM;
}

static int ask_stat(const char *path)
{
	struct stat st;

	return once(stat(path, &st));
}

static int ask_link(const char *path)
{
	char b[64];

	return readlink(path, b, sizeof(b)) < 0 ? errno : 0;
}

static int ask_access(const char *path)
{
	return once(access(path, R_OK));
}

static int ask_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), err = errno;

	if (fd < 0)
		return err;
	close(fd);
	return 0;
}

static int missing(const char *path)
{
	return often(path, ask_stat);
}

static int linked(const char *path)
{
	return often(path, ask_link);
}

static void tell(const char *what, int err)
{
	printf("  %s: %s\n", what, err ? errno_name(err) : "ok");
}

static void all(const char *what, const char *path)
{
	printf("  %s\n", what);
	tell("  stat", missing(path));
	tell("  readlink", linked(path));
	tell("  access", often(path, ask_access));
	tell("  open", often(path, ask_open));
}

CASE(names_come_and_go)
{
	all("nothing there", "a");
	put("a", "x");
	all("a file", "a");
	need("rename", rename("a", "b"));
	all("renamed", "a");
	all("the other name", "b");
	need("symlink", symlink("b", "a"));
	all("a link", "a");
	need("unlink", unlink("a"));
	need("mkdir", mkdir("a", 0755));
	all("a directory", "a");
	all("nothing in it", "a/c");
	need("link", link("b", "a/c"));
	all("a second name", "a/c");
	need("unlink", unlink("a/c"));
	all("and gone", "a/c");
	all("through a file", "b/c");
	need("mknod", mknod("a/c", S_IFIFO | 0600, 0));
	all("a pipe", "a/c");
	need("rmdir", unlink("a/c") < 0 ? -1 : rmdir("a"));
	all("its directory gone", "a/c");
}

static void make_it(void)
{
	put("d/made", "");
}

static void remove_it(void)
{
	unlink("d/made");
}

CASE(others_change_names)
{
	need("mkdir", mkdir("d", 0755));
	all("nothing there", "d/made");
	in_child(make_it);
	all("made by another", "d/made");
	in_child(remove_it);
	all("removed by another", "d/made");
}

static void ask_it(void)
{
	all("asked by another", "d/made");
}

/* What one process was told another has at hand; then it changes, once, or again and again. */
CASE(others_ask)
{
	need("mkdir", mkdir("d", 0755));
	for (int i = 0; i < 2; i++) {
		in_child(ask_it);
		in_child(make_it);
		in_child(ask_it);
		in_child(remove_it);
		in_child(ask_it);
	}
	need("mkdir", mkdir("e", 0755));
	put("e/made", "");
	need("rename", rename("d", "f"));
	in_child(ask_it);
	need("rename", rename("e", "d"));
	in_child(ask_it);
	need("rename", rename("d", "e"));
	need("symlink", symlink("e", "d"));
	in_child(ask_it);
	need("unlink", unlink("d"));
	need("symlink", symlink("f", "d"));
	in_child(ask_it);
}

/* Two processes that tell each other without a call what they have done. */
CASE(seen_at_once)
{
	struct shared {
		volatile int made, looked;
	} *both = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const char *path = whole("d/f");
	int wrong = 0, status = 0, fd;
	struct stat st;

	need("mkdir", mkdir("d", 0755));
	fflush(stdout);
	if (fork() == 0) {
		for (int n = 1; n <= 100; n++) {
			while (both->made != n)
				sched_yield();
			for (int i = 0; i < 5; i++)
				wrong |= (stat(path, &st) == 0) != n % 2 ||
					 (access(path, F_OK) == 0) != n % 2 ||
					 (ask_open(path) == 0) != n % 2;
			both->looked = n;
		}
		_exit(wrong);
	}
	for (int n = 1; n <= 100; n++) {
		if (n % 2) {
			fd = open("d/f", O_CREAT | O_WRONLY, 0644);
			close(fd);
		} else if (n % 4) {
			unlink("d/f");
		} else {
			rename("d/f", "d/g");
		}
		both->made = n;
		while (both->looked != n)
			sched_yield();
	}
	wait(&status);
	say_n("wrong", status);
}

/* Calls from sites of our own, as a C library has them. */
static long stat_call(const char *path, struct stat *to)
{
	register long flags __asm__("r10") = 0;
	long r;

	__asm__ volatile("mov $262, %%eax\n"
			 "syscall\n"
			 : "=a"(r)
			 : "D"(AT_FDCWD), "S"(path), "d"(to), "r"(flags)
			 : "rcx", "r11", "memory");
	return r;
}

static long disposition(int sig, const void *to_be, void *was)
{
	register long size __asm__("r10") = 8;
	long r;

	__asm__ volatile("mov $13, %%eax\n"
			 "syscall\n"
			 : "=a"(r)
			 : "D"(sig), "S"(to_be), "d"(was), "r"(size)
			 : "rcx", "r11", "memory");
	return r;
}

/* Of what cannot change even more may be remembered; it must be the same each time. */
CASE(what_stays)
{
	static const char *const paths[] = { "/usr", "/usr/bin", "/usr/bin/env", "/usr/lib/." };
	struct stat first, st;

	for (unsigned i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		bool same = stat(paths[i], &first) == 0;

		for (int n = 0; n < OFTEN; n++) {
			memset(&st, 0x5a, sizeof(st));
			same &= stat(paths[i], &st) == 0 && memcmp(&st, &first, sizeof(st)) == 0;
			memset(&st, 0x5a, sizeof(st));
			same &= lstat(paths[i], &st) == 0 && memcmp(&st, &first, sizeof(st)) == 0;
			same &= access(paths[i], R_OK | X_OK) == 0;
			same &= stat_call(paths[i], &st) == 0;
		}
		say_is(paths[i], same);
		say_is("no room for it", stat_call(paths[i], BAD_PTR) == -EFAULT);
		say("a file below it", stat("/usr/bin/env/x", &st));
	}
}

CASE(where_we_are)
{
	need("mkdir", mkdir("d", 0755));
	put("d/f", "");
	all("above", "f");
	need("chdir", chdir("d"));
	all("inside", "f");
	need("chdir", chdir(".."));
	all("above again", "f");
}

static void look_inside(void)
{
	all("from outside", "closed/f");
}

CASE(who_we_are)
{
	need("mkdir", mkdir("closed", 0700));
	all("as the owner", "closed/f");
	as_user(1234, 1234, look_inside);
	need("chmod", chmod("closed", 0755));
	as_user(1234, 1234, look_inside);
	all("as the owner", "closed/f");
}

static pid_t often_pid(void)
{
	pid_t p = 0;

	for (int i = 0; i < OFTEN; i++)
		p = getpid();
	return p;
}

static pid_t often_parent(void)
{
	pid_t p = 0;

	for (int i = 0; i < OFTEN; i++)
		p = getppid();
	return p;
}

CASE(pids)
{
	pid_t mine = often_pid(), child;
	int p[2], q[2], status = 0;
	char c;

	say_is("gettid is getpid", syscall(SYS_gettid) == mine);
	need("pipes", pipe(p) | pipe(q));
	fflush(stdout);
	child = fork();
	if (child == 0) {
		pid_t before = often_pid();
		bool ok = before != mine && often_parent() == mine;

		if (fork() == 0) {
			/* Its parent ends now: from then on it has another. */
			close(p[1]);
			often_parent();
			if (read(p[0], &c, 1) != 1 || often_parent() == before)
				_exit(1);
			_exit(write(q[1], "y", 1) != 1);
		}
		_exit(ok ? 0 : 1);
	}
	wait(&status);
	say_is("the child is another", WIFEXITED(status) && WEXITSTATUS(status) == 0);
	say_is("and known by that", often_pid() == mine && child != mine);
	say_n("tell the orphan", write(p[1], "x", 1));
	close(q[1]);
	say_n("it has another parent", read(q[0], &c, 1));
	if (vfork() == 0)
		_exit(getpid() == mine);
	wait(&status);
	say_is("vfork", WIFEXITED(status) && WEXITSTATUS(status) == 0 && often_pid() == mine);
}

static void *ask_in_thread(void *arg)
{
	pid_t *tid = arg;

	for (int i = 0; i < OFTEN; i++)
		*tid = (pid_t)syscall(SYS_gettid);
	return missing("nothing") == ENOENT ? arg : NULL;
}

CASE(threads)
{
	pid_t tid[4];
	pthread_t th[4];
	void *ok;
	int good = 0;

	for (int i = 0; i < OFTEN; i++)
		tid[0] = (pid_t)syscall(SYS_gettid);
	tell("alone", missing("nothing"));
	for (int i = 1; i < 4; i++)
		need("thread", -pthread_create(&th[i], NULL, ask_in_thread, &tid[i]));
	for (int i = 1; i < 4; i++) {
		pthread_join(th[i], &ok);
		good += ok != NULL;
		for (int j = 0; j < i; j++)
			good += tid[i] != tid[j];
	}
	say_n("each its own", good);
	put("nothing", "");
	tell("after", missing("nothing"));
}

static long size_of(int fd)
{
	struct stat st;
	long last = -1;

	for (int i = 0; i < OFTEN; i++) {
		st.st_size = -2;
		last = fstat(fd, &st) < 0 ? -errno : (long)st.st_size;
	}
	return last;
}

static void told(const char *what, int fd)
{
	bool tty = true;
	off_t at = 0;

	printf("  %s: size %ld", what, size_of(fd));
	for (int i = 0; i < OFTEN; i++) {
		tty = isatty(fd);
		at = lseek(fd, 0, SEEK_CUR);
	}
	printf(", at %ld%s\n", (long)at, tty ? ", a terminal" : "");
}

static void write_it(void)
{
	int fd = open("f", O_WRONLY | O_APPEND);

	if (write(fd, "more", 4) != 4)
		_exit(1);
	close(fd);
}

static void let_go(void)
{
	close(9);
	say("the child's is closed", fcntl(9, F_GETFD));
}

CASE(descriptors)
{
	struct stat by_name, st;
	int fd, status = 0;
	char b[8];

	for (int i = 0; i < OFTEN; i++) { /* each time the same number, and another file */
		put(i & 1 ? "g" : "f", i & 1 ? "four" : "sixsix");
		fd = need_fd("open", open(i & 1 ? "g" : "f", O_RDWR));
		if (size_of(fd) != (i & 1 ? 4 : 6) || lseek(fd, 0, SEEK_CUR) != 0 || isatty(fd))
			say_n("wrong", i);
		close(fd);
		if (fstat(fd, &st) == 0)
			say_n("not closed", i);
	}
	fd = need_fd("open", open("f", O_RDWR));
	told("a file", fd);
	say_n("read", read(fd, b, 2));
	told("read from", fd);
	say_n("write", pwrite(fd, "0123456789", 10, 0));
	told("written to", fd);
	in_child(write_it);
	told("by another", fd);
	need("truncate", truncate("f", 3));
	told("cut", fd);
	need("chmod", fchmod(fd, 0600));
	fstat(fd, &st);
	say_n("mode", st.st_mode & 07777);
	need("link", link("f", "h"));
	fstat(fd, &st);
	say_n("links", (long)st.st_nlink);
	need("dup2", dup2(fd, 9));
	told("its copy", 9);
	lseek(9, 1, SEEK_SET);
	told("moved by the copy", fd);
	in_child(let_go);
	told("after the child", 9);
	fflush(stdout);
	if (vfork() == 0) {
		int other = open("g", O_RDONLY);

		_exit(dup2(other, 9) != 9 || size_of(9) != 4);
	}
	wait(&status);
	say_n("a child in the same memory", status);
	told("after it", 9);
	need("dup2", dup2(need_fd("open", open("g", O_RDONLY)), 9));
	told("another file", 9);
	need("dup2", dup2(need_fd("terminal", posix_openpt(O_RDWR | O_NOCTTY)), 9));
	say_is("a terminal", isatty(9));
	need("stat", stat("/usr/bin/env", &by_name));
	for (int i = 0; i < OFTEN; i++) {
		fd = need_fd("open", open("/usr/bin/env", O_RDONLY));
		memset(&st, 0x5a, sizeof(st));
		if (fstat(fd, &st) < 0 || memcmp(&st, &by_name, sizeof(st)))
			say_n("other than by its name", i);
		if (lseek(fd, 0, SEEK_CUR) || read(fd, b, 1) != 1 || lseek(fd, 0, SEEK_CUR) != 1)
			say_n("elsewhere", i);
		close(fd);
	}
}

static void asked(const char *what)
{
	struct sigaction a;
	unsigned handled = 0, ignored = 0;

	for (int n = 0; n < 3; n++)
		for (int sig = 1; sig < 32; sig++) {
			if (sigaction(sig, NULL, &a) < 0)
				printf("  %d: %s\n", sig, errno_name(errno));
			else if (n == 2 && a.sa_handler == SIG_IGN)
				ignored |= 1u << sig;
			else if (n == 2 && a.sa_handler != SIG_DFL)
				handled |= 1u << sig;
		}
	printf("  %s: handled %x, ignored %x\n", what, handled, ignored);
}

static void nothing_done(int sig)
{
}

CASE(dispositions)
{
	struct sigaction once_only = { .sa_handler = nothing_done, .sa_flags = (int)SA_RESETHAND };
	uint64_t act[4];
	int status = 0;

	asked("at first");
	signal(SIGUSR1, nothing_done);
	asked("one handler");
	signal(SIGUSR2, SIG_IGN);
	signal(SIGUSR1, SIG_DFL);
	asked("one ignored");
	sigaction(SIGTERM, &once_only, NULL);
	asked("another");
	raise(SIGTERM);
	asked("after its only time");
	fflush(stdout);
	if (fork() == 0) {
		signal(SIGUSR2, nothing_done);
		asked("a child");
		fflush(stdout);
		_exit(0);
	}
	wait(&status);
	asked("its parent");
	fflush(stdout);
	if (vfork() == 0) {
		struct sigaction a;
		int wrong = 0;

		signal(SIGHUP, SIG_IGN);
		for (int i = 0; i < OFTEN; i++)
			wrong |= sigaction(SIGHUP, NULL, &a) < 0 || a.sa_handler != SIG_IGN ||
				 sigaction(SIGUSR2, NULL, &a) < 0 || a.sa_handler != SIG_IGN ||
				 sigaction(SIGUSR1, NULL, &a) < 0 || a.sa_handler != SIG_DFL;
		_exit(wrong);
	}
	wait(&status);
	say_n("a child in the same memory", status);
	asked("its parent");
	for (int i = 0; i < OFTEN; i++)
		status = (int)disposition(SIGHUP, NULL, act);
	say_is("by hand", status == 0 && act[0] == 0);
	say_is("no such signal", disposition(65, NULL, act) == -EINVAL);
	say_is("none", disposition(0, NULL, act) == -EINVAL);
	say_is("nowhere", disposition(SIGHUP, NULL, BAD_PTR) == -EFAULT);
	say_is("not even asked", disposition(SIGHUP, NULL, NULL) == 0);
	act[0] = 1; /* SIG_IGN */
	say_is("set", disposition(SIGHUP, act, NULL) == 0 && disposition(SIGHUP, NULL, act) == 0 &&
			      act[0] == 1);
}

/* Whoever filters calls sees those that could have been answered without being made. */
CASE(a_filter_sees_all)
{
	static const unsigned short nrs[] = { SYS_stat, SYS_lstat, SYS_fstat, SYS_newfstatat,
		SYS_lseek, SYS_ioctl, SYS_readlink, SYS_readlinkat, SYS_rt_sigaction, SYS_access };
	enum { COUNT = sizeof(nrs) / sizeof(nrs[0]) };
	struct sock_filter f[COUNT + 3] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0) };
	struct sock_fprog prog = { COUNT + 3, f };
	struct stat st;
	int fd;

	for (unsigned i = 0; i < COUNT; i++)
		f[i + 1] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, nrs[i], COUNT - i, 0);
	f[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET, SECCOMP_RET_ALLOW);
	f[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET, SECCOMP_RET_ERRNO | EXDEV);
	for (int i = 0; i < OFTEN; i++) {
		fd = need_fd("open", open("/usr/bin/env", O_RDONLY));
		if (fstat(fd, &st) < 0 || isatty(fd) || lseek(fd, 0, SEEK_CUR))
			say_n("wrong", i);
		if (i < OFTEN - 1)
			close(fd);
	}
	asked("before");
	tell("stat", missing("/usr/bin"));
	tell("readlink", linked("/usr"));
	fflush(stdout);
	need("no new rights", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	need("filter", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog));
	say("fstat", fstat(fd, &st));
	say("ioctl", ioctl(fd, TCGETS, &st));
	say("lseek", lseek(fd, 0, SEEK_CUR));
	say("sigaction", sigaction(SIGHUP, NULL, &(struct sigaction){ 0 }));
	tell("stat", missing("/usr/bin"));
	tell("readlink", linked("/usr"));
}

CASE(bad_addresses)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char b[16], longer[300];
	struct stat st;

	need("munmap", munmap(page + 4096, 4096));
	tell("hot", missing("nothing") | linked("/"));
	say("stat", stat(BAD_PTR, &st));
	say("readlink", readlink(BAD_PTR, b, sizeof(b)));
	say("access", access(BAD_PTR, R_OK));
	memcpy(page + 4096 - 7, "nothing", 7);
	say("no end", stat(page + 4096 - 7, &st));
	memcpy(page + 4096 - 8, "nothing", 8);
	say("the end at the end", stat(page + 4096 - 8, &st));
	say("no room, a file", readlink("/", BAD_PTR, 16));
	say("no size", readlink("/", b, 0));
	memset(longer, '/', sizeof(longer) - 2);
	longer[sizeof(longer) - 2] = 'q';
	longer[sizeof(longer) - 1] = '\0';
	tell("many slashes", missing(longer));
	put("nothing", "");
	tell("now it is there", missing("nothing"));
}

static volatile sig_atomic_t ticks, wrong;

static void tick(int sig)
{
	char b[16];
	int err = errno;

	if (readlink("/", b, sizeof(b)) != -1 || errno != EINVAL)
		wrong = 1;
	if (access("/nothing", F_OK) != -1 || errno != ENOENT)
		wrong = 1;
	errno = err;
	ticks++;
}

CASE(in_the_middle)
{
	struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { 0 };
	char b[16];

	signal(SIGALRM, tick);
	setitimer(ITIMER_REAL, &often, NULL);
	while (ticks < 100 && !wrong) {
		if (readlink("/usr", b, sizeof(b)) != -1 || errno != EINVAL)
			wrong = 2;
		if (access("/nothing at all", F_OK) != -1 || errno != ENOENT)
			wrong = 3;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	say_n("wrong", wrong);
}

/* readlink(path, buf, 8) from a site of our own, with every register and flag looked at. */
static long checked(const char *path, char *buf, uint64_t *bad, int through)
{
	uint64_t regs[10] = { 0 }, flags = 0, zone = 0;
	long r;

	__asm__ volatile("mov %[buf], %%rsi\n"
			 "mov $8, %%edx\n"
			 "mov $0x1010, %%r8d\n"
			 "mov $0x2020, %%r9d\n"
			 "mov $0x3030, %%r10d\n"
			 "mov $0x4040, %%r12d\n"
			 "movq $0x5050, -8(%%rsp)\n"
			 "movq $0x6060, -120(%%rsp)\n"
			 "test %[through], %[through]\n"
			 "jnz 2f\n"
			 "mov $0x7fffffff, %%eax\n"
			 "add $1, %%eax\n" /* overflow, sign, no carry */
			 "stc\n"
			 "mov $89, %%eax\n"
			 "1: syscall\n"
			 "jmp 3f\n"
			 "2: mov $0x7fffffff, %%eax\n"
			 "add $1, %%eax\n"
			 "stc\n"
			 "mov $39, %%eax\n" /* getpid, by the same instruction */
			 "jmp 1b\n"
			 "3: mov -8(%%rsp), %%rcx\n"
			 "mov %%rcx, %[zone]\n"
			 "mov -120(%%rsp), %%rcx\n"
			 "lea -136(%%rsp), %%rsp\n"
			 "pushfq\n"
			 "pop %%r11\n"
			 "lea 136(%%rsp), %%rsp\n"
			 "add %%rcx, %[zone]\n"
			 "mov %%r11, %[flags]\n"
			 "mov %%rdi, (%[regs])\n"
			 "mov %%rsi, 8(%[regs])\n"
			 "mov %%rdx, 16(%[regs])\n"
			 "mov %%r8, 24(%[regs])\n"
			 "mov %%r9, 32(%[regs])\n"
			 "mov %%r10, 40(%[regs])\n"
			 "mov %%r12, 48(%[regs])\n"
			 : "=&a"(r), [flags] "=&r"(flags), [zone] "=&r"(zone)
			 : "D"(path), [buf] "r"(buf), [regs] "r"(regs), [through] "r"(through)
			 : "rsi", "rdx", "r8", "r9", "r10", "r11", "rcx", "r12", "memory", "cc");
	/* carry, overflow, sign, parity, zero */
	*bad |= (flags & 0x8c5) != 0x885 || zone != 0xb0b0 || regs[0] != (uint64_t)path ||
		regs[1] != (uint64_t)buf || regs[2] != 8 || regs[3] != 0x1010 ||
		regs[4] != 0x2020 || regs[5] != 0x3030 || regs[6] != 0x4040;
	return r;
}

CASE(registers)
{
	uint64_t bad = 0;
	char b[8];
	long r = 0;

	for (int i = 0; i < OFTEN; i++)
		r = checked("/", b, &bad, 0);
	say_is("not a link", r == -EINVAL);
	say_is("by the same syscall", checked("/", b, &bad, 1) == getpid());
	say_is("nothing there", checked("/nothing", b, &bad, 0) == -ENOENT);
	say_is("nowhere", checked(BAD_PTR, b, &bad, 0) == -EFAULT);
	say_n("registers and flags changed", (long)bad);
}

CASE(fixed_addresses)
{
	char *at = (char *)0x50f0000, *p;
	bool sums = true;

	tell("hot", missing("nothing"));
	say_is("pid", often_pid() == getpid());
	p = mmap(at + 0x20000, 0x10000, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	say_is("above it", p == at + 0x20000);
	memset(p, 0x5a, 0x10000);
	tell("still", missing("nothing"));
	p = mmap(at, 0x10000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		0);
	say_is("where we said", p == at);
	memset(p, 0x5a, 0x10000);
	tell("still", missing("nothing"));
	tell("another", missing("nothing at all"));
	say_is("pid", often_pid() == getpid() && often_parent() == getppid());
	for (int i = 0; i < 0x10000; i++)
		sums &= p[i] == 0x5a;
	say_is("nobody else writes there", sums);
	put("nothing", "");
	tell("now it is there", missing("nothing"));
}
