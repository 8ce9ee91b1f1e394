/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls whose arguments and results a kernel may take another way than through the caller's memory:
 * nobody may see that. Each part runs in a program of its own, which has asked often enough first.
 */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/utsname.h>

#include "guest.h"

enum { OFTEN = 40, PAGE = 4096 };

/* musl's stat() has the kernel write elsewhere, and copies. */
static int stat_there(const char *path, struct stat *st)
{
#ifdef __GLIBC__
	return stat(path, st);
#else
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, st, 0);
#endif
}

static int often_stat(const char *path, struct stat *st)
{
	int r = 0;

	for (int i = 0; i < OFTEN; i++)
		r = stat_there(path, st);
	return r;
}

/* A page with nothing behind it. */
static char *last_page(int prot)
{
	char *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		exit(9);
	munmap(p + PAGE, PAGE);
	mprotect(p, PAGE, prot);
	return p;
}

static void warm(int fds[2])
{
	struct stat st;
	char b[8];

	need("pipe", pipe(fds));
	put("five", "12345");
	for (int i = 0; i < OFTEN; i++) {
		int fd = open("five", O_RDONLY);

		if (write(fds[1], "warm", 4) != 4 || read(fds[0], b, 4) != 4 || stat("five", &st) ||
			access("five", R_OK) || close(fd))
			exit(8);
	}
}

static void paths(void)
{
	char *page = last_page(PROT_READ | PROT_WRITE), *end = page + PAGE;
	struct stat st;
	int fds[2];

	warm(fds);
	memcpy(end - 5, "five", 5);
	say("a path that ends with its page", often_stat(end - 5, &st));
	say_n("its size", st.st_size);
	end[-1] = 'x';
	say("one that does not", often_stat(end - 5, &st));
	say("no path", often_stat(NULL, &st));
	say("somewhere", often_stat(BAD_PTR, &st));
	say("an empty one", often_stat("", &st));
	say("a long name", often_stat(long_name(), &st));
	say("a long path", often_stat(long_path(), &st));
	memset(page, '/', 1000);
	memcpy(page + 1000, "etc", 4);
	say("one with a thousand slashes", often_stat(page, &st));
	say("access", access(end - 5, R_OK));
	say("open", open(BAD_PTR, O_RDONLY));
}

static void results(void)
{
	char *page = last_page(PROT_READ), b[8] = "";
	int fds[2];

	warm(fds);
	say("stat where nothing can be written", often_stat("five", (void *)page));
	say("nor is anything", often_stat("five", BAD_PTR));
	say("half of it", often_stat("five", (void *)(page + PAGE - 64)));
	need("write", write(fds[1], "kept", 4));
	say("read where nothing can be written", read(fds[0], page, 4));
	say("nor is anything", read(fds[0], BAD_PTR, 4));
	say_n("read", read(fds[0], b, 4));
	say_bytes("what is left", b, 4);
	mprotect(page, PAGE, PROT_READ | PROT_WRITE);
	need("write", write(fds[1], "end", 3));
	say_n("read at the end of a page", read(fds[0], page + PAGE - 3, 3));
	say_bytes("read", page + PAGE - 3, 3);
	need("write", write(fds[1], "more", 4));
	say_n("one byte", read(fds[0], page + PAGE - 1, 1));
	say_n("nothing", read(fds[0], page + PAGE - 1, 0));
	say_n("the rest", read(fds[0], b, sizeof(b)));
	say_bytes("the rest", b, 3);
	say("write what is nowhere", write(fds[1], BAD_PTR, 3));
	say("write what cannot be read", (mprotect(page, PAGE, PROT_NONE), write(fds[1], page, 3)));
	mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

/* What is asked for lies where the answer goes. */
static void overlap(void)
{
	union {
		char path[256];
		struct stat st;
	} u;
	struct stat *volatile over = &u.st; /* volatile: no compiler sees that it is the same */
	char link[64], *volatile rest = link + 2;
	long n = 0;
	int fds[2];

	warm(fds);
	need("symlink", symlink("five", "link"));
	for (int i = 0; i < OFTEN; i++) {
		memcpy(u.path, "five", 5);
		if (stat(u.path, over))
			exit(7);
	}
	say_n("stat over its path", u.st.st_size);
	for (int i = 0; i < OFTEN; i++) {
		memset(link, 'x', sizeof(link));
		memcpy(link, "link", 5);
		n = readlink(link, rest, 3);
	}
	say_n("readlink over its path", n);
	say_bytes("readlink", link, 8);
}

static void large(void)
{
	static char out[9000], in[9000];
	int fds[2], fd;
	bool same = true;

	warm(fds);
	fd = need_fd("open", open("large", O_RDWR | O_CREAT, 0600));
	for (int n = 1; n < 9000; n = n * 3 / 2 + 1) {
		for (int i = 0; i < n; i++)
			out[i] = (char)(i * 7 + n);
		memset(in, 0, sizeof(in));
		same &= write(fds[1], out, (size_t)n) == n && read(fds[0], in, sizeof(in)) == n &&
			memcmp(in, out, (size_t)n) == 0;
		memset(in, 0, sizeof(in));
		same &= write(fd, out, (size_t)n) == n && lseek(fd, -n, SEEK_CUR) >= 0 &&
			read(fd, in, (size_t)n) == n && memcmp(in, out, (size_t)n) == 0;
	}
	say_is("all sizes", same);
}

static int handler_fd, handled, handler_says;
static sigjmp_buf out_of_it;

static void on_alarm(int sig)
{
	struct stat st;

	handled++;
	handler_says = stat("five", &st) ? errno : (int)st.st_size;
	if (handler_fd && write(handler_fd, "hand", 4) != 4)
		_exit(6);
	handler_fd = 0;
}

static void on_jump(int sig)
{
	siglongjmp(out_of_it, 1);
}

/* Again and again, should it come before the call that it is for. */
static void arm(void (*fn)(int), int flags, int us)
{
	struct itimerval soon = { { 0, us }, { 0, us } };
	struct sigaction sa = { .sa_handler = fn, .sa_flags = flags };

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
}

static void signals(void)
{
	char b[8] = "";
	struct stat st;
	int fds[2];

	warm(fds);
	arm(on_alarm, 0, 20000);
	say("read that a signal ends", read(fds[0], b, sizeof(b)));
	say_is("handled", handled > 0);
	say_n("what the handler found", handler_says);
	handler_fd = fds[1];
	arm(on_alarm, SA_RESTART, 20000);
	say_n("read that begins again", read(fds[0], b, sizeof(b)));
	say_bytes("read", b, 4);
	if (!sigsetjmp(out_of_it, 1)) {
		arm(on_jump, 0, 20000);
		say("read that is left", read(fds[0], b, sizeof(b)));
	}
	arm(SIG_IGN, 0, 0);
	say("stat", often_stat("five", &st));
	say_n("its size", st.st_size);
	signal(SIGPIPE, SIG_IGN);
	close(fds[0]);
	say("write to nobody", write(fds[1], "x", 1));
	signal(SIGPIPE, on_jump);
	if (!sigsetjmp(out_of_it, 1))
		say("write to nobody", write(fds[1], "x", 1));
	say("stat", often_stat("five", &st));
}

/* Signals come all the time, and nothing is lost, doubled or torn. */
static void many_signals(void)
{
	uint64_t sum = 0;
	int fds[2], bad = 0;

	warm(fds);
	arm(on_alarm, SA_RESTART, 500);
	for (uint64_t i = 0; i < 3000; i++) {
		uint64_t v[4] = { i, ~i, i * 3, i ^ 5 }, w[4] = { 0 };
		struct stat st = { 0 };

		bad += write(fds[1], v, sizeof(v)) != sizeof(v) ||
		       read(fds[0], w, sizeof(w)) != sizeof(w) || memcmp(v, w, sizeof(v)) ||
		       stat("five", &st) || st.st_size != 5;
		sum += w[0];
	}
	arm(SIG_IGN, 0, 0);
	say_n("wrong", bad);
	say_n("sum", (long)sum);
	say_n("handlers wrong", handled && handler_says != 5);
}

/* Each of them asks for something else, at the same time. */
static void ask_mine(const char *name, long size, int rounds, int *ret_bad)
{
	char text[16];
	int p[2];

	if (pipe(p))
		exit(5);
	for (int i = 0; i < rounds; i++) {
		struct stat st = { 0 };
		int fd = open(name, O_RDONLY);
		char b[16] = "";

		snprintf(text, sizeof(text), "%s%d", name, i);
		*ret_bad += stat(name, &st) || st.st_size != size || fd < 0 ||
			    read(fd, b, sizeof(b)) != size || strncmp(b, name, 1) || close(fd) ||
			    write(p[1], text, sizeof(text)) != sizeof(text) ||
			    read(p[0], b, sizeof(b)) != sizeof(b) || memcmp(b, text, sizeof(b));
	}
}

static void children(void)
{
	int fds[2], bad = 0, status = 0;
	volatile int sum = 0;

	warm(fds);
	put("a", "aaa");
	put("b", "bbbbb");
	put("c", "c");
	ask_mine("a", 3, OFTEN, &bad);
	for (int i = 0; i < 2; i++) {
		pid_t p = fork();

		if (!p) {
			ask_mine(i ? "b" : "c", i ? 5 : 1, 500, &bad);
			_exit(bad ? 1 : 0);
		}
	}
	ask_mine("a", 3, 500, &bad);
	while (wait(&status) > 0)
		sum |= status;
	say_n("wrong", bad);
	say_n("children wrong", sum);
	for (int i = 0; i < 20; i++) {
		pid_t p = vfork();

		if (!p) {
			struct stat st;

			_exit(stat("b", &st) || st.st_size != 5 || write(fds[1], "v", 1) != 1);
		}
		waitpid(p, &status, 0);
		sum |= status;
	}
	say_n("children of vfork", sum);
	ask_mine("a", 3, OFTEN, &bad);
	say_n("wrong", bad);
}

/* One that is killed while it waits leaves no trace. */
static void killed(void)
{
	int fds[2], bad = 0, none[2];

	warm(fds);
	put("a", "aaa");
	need("pipe", pipe(none));
	for (int i = 0; i < 3; i++) {
		volatile pid_t parent = getpid();
		pid_t p = vfork();

		if (!p) {
			struct itimerval soon = { .it_value = { 0, 5000 } };
			char b[4];

			signal(SIGALRM, SIG_DFL);
			setitimer(ITIMER_REAL, &soon, NULL);
			_exit(read(none[0], b, sizeof(b)) > 0 || parent == getpid());
		}
		waitpid(p, NULL, 0);
	}
	ask_mine("a", 3, OFTEN, &bad);
	say_n("wrong", bad);
}

static void *thread(void *arg)
{
	int *bad = arg;

	ask_mine("b", 5, 300, bad);
	return NULL;
}

static void threads(void)
{
	int fds[2], bad = 0, other = 0;
	pthread_t t;

	warm(fds);
	put("a", "aaa");
	put("b", "bbbbb");
	ask_mine("a", 3, OFTEN, &bad);
	need("thread", -pthread_create(&t, NULL, thread, &other));
	ask_mine("a", 3, 300, &bad);
	pthread_join(t, NULL);
	ask_mine("a", 3, OFTEN, &bad);
	say_n("wrong", bad);
	say_n("in the thread", other);
}

/* What waits gets it when it comes, and where it wants it. */
static void waiting(void)
{
	struct pollfd pf = { .events = POLLIN };
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 0x1122334455667788 }, got = { 0 };
	char *page = last_page(PROT_READ), b[8] = "";
	int fds[2], back[2], ep, status = 0, bad = 0;
	pid_t p;

	warm(fds);
	need("pipe", pipe(back));
	p = fork();
	if (!p) { /* each byte is answered by the next one */
		for (;;) {
			if (read(back[0], b, 1) != 1 || *b == 'q')
				_exit(7);
			usleep(500);
			(*b)++;
			if (write(fds[1], b, 1) != 1)
				_exit(6);
		}
	}
	for (int i = 0; i < OFTEN; i++) {
		char c = (char)('A' + i % 20), d = 0;

		bad += write(back[1], &c, 1) != 1 || read(fds[0], &d, 1) != 1 || d != c + 1;
	}
	say_n("read wrong", bad);
	pf.fd = fds[0];
	ep = need_fd("epoll", epoll_create1(0));
	need("epoll_ctl", epoll_ctl(ep, EPOLL_CTL_ADD, fds[0], &ev));
	for (int i = 0; i < OFTEN; i++) {
		pf.revents = 0;
		got.data.u64 = 0;
		bad += write(back[1], "E", 1) != 1 || poll(&pf, 1, -1) != 1 ||
		       pf.revents != POLLIN || pf.fd != fds[0] || read(fds[0], b, 1) != 1;
		bad += write(back[1], "K", 1) != 1 || epoll_wait(ep, &got, 1, -1) != 1 ||
		       got.data.u64 != ev.data.u64 || read(fds[0], b, 1) != 1 || *b != 'L';
	}
	say_n("poll and epoll wrong", bad);
	need("write", write(back[1], "X", 1));
	say("read where nothing can be written", read(fds[0], page, 1));
	say_n("read", read(fds[0], b, 1));
	say_bytes("what is left", b, 1);
	say("poll of nowhere", poll(BAD_PTR, 1, 0));
	say("epoll_wait to nowhere", (poll(NULL, 0, 0), epoll_wait(ep, BAD_PTR, 1, 0)));
	need("write", write(back[1], "q", 1));
	say_is("wait", wait4(p, &status, 0, NULL) == p);
	say_n("status", WEXITSTATUS(status));
}

static void others(void)
{
	char here[256] = "", name[32];
	int fds[2], s[2], bad = 0, status;
	struct utsname u = { 0 };
	sigset_t set, old;

	warm(fds);
	need("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	for (int i = 0; i < OFTEN; i++) {
		uint8_t r[16] = { 0 }, none[16] = { 0 };
		char b[16] = "";
		int p[2] = { -1, -1 };
		pid_t child;

		snprintf(name, sizeof(name), "dir%d", i);
		bad += mkdir(name, 0700) || access(name, X_OK) || rmdir(name) ||
		       !access(name, F_OK);
		bad += pipe2(p, O_CLOEXEC) || p[0] < 0 || p[1] <= p[0] || close(p[0]) ||
		       close(p[1]);
		bad += send(s[0], name, 5, 0) != 5 || recv(s[1], b, sizeof(b), 0) != 5 ||
		       memcmp(b, name, 5);
		bad += getrandom(r, sizeof(r), 0) != sizeof(r) || !memcmp(r, none, sizeof(r));
		bad += uname(&u) || strcmp(u.sysname, "Linux") || !getcwd(here, sizeof(here)) ||
		       here[0] != '/';
		sigemptyset(&set);
		sigaddset(&set, i % 2 ? SIGUSR1 : SIGUSR2);
		bad += sigprocmask(SIG_SETMASK, &set, NULL) || sigprocmask(SIG_BLOCK, NULL, &old) ||
		       sigismember(&old, SIGUSR1) != i % 2 || sigismember(&old, SIGUSR2) == i % 2;
		child = fork();
		if (!child)
			_exit(i);
		bad += waitpid(child, &status, 0) != child || WEXITSTATUS(status) != i;
		bad += chdir("/") || chdir(here) || unlink(name) == 0;
	}
	say_n("wrong", bad);
	say("mkdir", mkdir(BAD_PTR, 0700));
	say("unlink", unlink(BAD_PTR));
	say("chdir", chdir(long_name()));
	say("pipe2", pipe2(BAD_PTR, 0));
	say("send", send(s[0], BAD_PTR, 4, 0));
	say("recv", (need("send", send(s[0], "kept", 4, 0)), recv(s[1], BAD_PTR, 4, 0)));
	say_n("recv", recv(s[1], here, 4, 0));
	say_bytes("what is left", here, 4);
	say("getrandom", getrandom(BAD_PTR, 4, 0));
	say("uname", uname(BAD_PTR));
}

static const struct {
	const char *name;
	void (*run)(void);
} parts[] = {
	{ "paths", paths },
	{ "results", results },
	{ "overlap", overlap },
	{ "large", large },
	{ "signals", signals },
	{ "many_signals", many_signals },
	{ "children", children },
	{ "killed", killed },
	{ "threads", threads },
	{ "waiting", waiting },
	{ "others", others },
};

/* In the new image, before its main. */
__attribute__((constructor)) static void run_part(void)
{
	const char *name = getenv("PART");

	for (size_t i = 0; name && i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (strcmp(name, parts[i].name))
			continue;
		parts[i].run();
		fflush(stdout);
		_exit(0);
	}
}

static void part(const char *name)
{
	int status = 0;
	pid_t p;

	fflush(stdout);
	p = fork();
	if (!p) {
		char *argv[] = { (char *)"part", NULL };

		setenv("PART", name, 1);
		execv("/proc/self/exe", argv);
		_exit(99);
	}
	waitpid(p, &status, 0);
	say_n("status", status);
}

CASE(carried_paths)
{
	part("paths");
}

CASE(carried_results)
{
	part("results");
}

CASE(carried_over_each_other)
{
	part("overlap");
}

CASE(carried_or_too_large)
{
	part("large");
}

CASE(carried_and_signals)
{
	part("signals");
}

CASE(carried_and_many_signals)
{
	part("many_signals");
}

CASE(carried_and_children)
{
	part("children");
}

CASE(carried_and_killed)
{
	part("killed");
}

CASE(carried_and_threads)
{
	part("threads");
}

CASE(carried_when_it_comes)
{
	part("waiting");
}

CASE(carried_others)
{
	part("others");
}
