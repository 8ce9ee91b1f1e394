/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: anonymous and of files, private and shared, protection, growth. */
#include "io.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>

#define FAILED(p) ((p) == MAP_FAILED ? -1 : 0)

static sigjmp_buf back;
static volatile int fault;
static void on_fault(int sig)
{
	fault = sig;
	siglongjmp(back, 1);
}

static int touch(volatile char *p, bool write)
{
	fault = 0;
	signal(SIGSEGV, on_fault);
	signal(SIGBUS, on_fault);
	if (!sigsetjmp(back, 1)) {
		if (write)
			*p = 1;
		else
			(void)*p;
	}
	return fault;
}

CASE(anonymous)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	R(FAILED(p));
	printf("%d %d\n", p[0], p[8191]);
	p[5] = 6;
	R(munmap(p, 8192));
	printf("%d\n", touch(p, false));
	R(munmap(p + 1, 4096));
	R(munmap(p, 0));
}

CASE(errors)
{
	int fd = open("/dev/null", O_RDONLY), w;

	put("f", "data");
	w = open("f", O_WRONLY);
	R(FAILED(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
	R(FAILED(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 999, 0)));
	R(FAILED(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, w, 0)));
	close(fd);
	fd = open("f", O_RDONLY);
	R(FAILED(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)));
	R(FAILED(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 5)));
	R(FAILED(mmap(NULL, 4096, PROT_READ, 0, fd, 0)));
	R(FAILED(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0)));
	int dir = open(".", O_RDONLY), p[2];
	R(FAILED(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, dir, 0)));
	NEED(pipe(p));
	R(FAILED(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, p[0], 0)));
}

CASE(private_file)
{
	int fd;
	char *p;

	put("f", "abcdef");
	fd = open("f", O_RDONLY);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	R(FAILED(p));
	close(fd);
	say_bytes("mapped", p, 8);
	p[0] = 'X';
	cat("f");
}

CASE(shared_file)
{
	int fd;
	char *p, *q, c;

	put("f", "abcdef");
	fd = open("f", O_RDWR);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	q = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	R(FAILED(p));
	p[1] = 'Y';
	printf("%c\n", q[1]);
	R(pread(fd, &c, 1, 1));
	printf("%c\n", c);
	R(pwrite(fd, "Z", 1, 2));
	printf("%c\n", p[2]);
	R(msync(p, 4096, MS_SYNC));
	close(fd);
	munmap(p, 4096);
	cat("f");
}

CASE(shared_between_processes)
{
	int fd = open("f", O_RDWR | O_CREAT, 0600), st;
	char *p;

	R(ftruncate(fd, 4096));
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (!fork()) {
		p[10] = 'c';
		_exit(0);
	}
	wait(&st);
	printf("%c\n", p[10]);
}

CASE(past_the_end)
{
	int fd;
	char *p;

	put("f", "abc");
	fd = open("f", O_RDWR);
	p = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
	printf("%d %d\n", touch(p + 100, false), touch(p + 4096, false) == SIGBUS);
	R(ftruncate(fd, 8192));
	printf("%d\n", touch(p + 4096, false));
}

CASE(protection)
{
	char *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	printf("%d\n", touch(p, true) == SIGSEGV);
	R(mprotect(p, 4096, PROT_READ | PROT_WRITE));
	printf("%d\n", touch(p, true));
	R(mprotect(p, 4096, PROT_NONE));
	printf("%d\n", touch(p, false) == SIGSEGV);
	R(mprotect(p + 1, 4096, PROT_READ));
	R(mprotect(bad_ptr(), 4096, PROT_READ));
}

CASE(calls_see_protection)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd;

	put("f", "0123456789");
	fd = open("f", O_RDWR);
	mprotect(p + 4096, 4096, PROT_NONE);
	R(read(fd, p + 4096, 4));
	R(lseek(fd, 0, SEEK_SET));
	R(read(fd, p + 4094, 10));
	R(write(fd, p + 4096, 4));
	mprotect(p, 4096, PROT_READ);
	R(read(fd, p, 4));
}

CASE(remap)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *q;

	p[0] = 'a';
	q = mremap(p, 8192, 65536, MREMAP_MAYMOVE);
	R(FAILED(q));
	printf("%c\n", q[0]);
	q = mremap(q, 65536, 4096, 0);
	R(FAILED(q));
	printf("%d\n", touch(q + 4096, false) == SIGSEGV);
}

CASE(heap)
{
	char *a = sbrk(0), *b;

	R(sbrk(100000) == a ? 0 : -1);
	memset(a, 1, 100000);
	b = sbrk(0);
	printf("%ld\n", (long)(b - a));
	R(brk(a));
	printf("%d\n", touch(a + 65536, false) == SIGSEGV);
}

CASE(advice)
{
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char vec = 0;

	p[0] = 5;
	R(mincore(p, 4096, &vec));
	printf("%d\n", vec & 1);
	R(madvise(p, 4096, MADV_DONTNEED));
	printf("%d\n", p[0]);
	R(madvise(p, 4096, 9999));
	R(mlock(p, 4096));
	R(munlock(p, 4096));
}

CASE(fixed)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	p[0] = 1;
	B(mmap(p, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
	printf("%d\n", p[0]);
	R(FAILED(mmap(
		p, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0)));
}

CASE(dev_zero)
{
	int fd = open("/dev/zero", O_RDWR);
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

	R(FAILED(p));
	p[1] = 2;
	printf("%d %d\n", p[0], p[1]);
}

CASE(same_number_other_file)
{
	char *p, *q;
	int fd;

	put("a", "aaaa");
	put("b", "bbbb");
	fd = open("a", O_RDONLY);
	p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	dup2(open("b", O_RDONLY), fd);
	q = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	printf("%c %c\n", p[0], q[0]);
	close(fd);
	fd = open("a", O_RDONLY);
	q = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	printf("%c\n", q[0]);
	R(FAILED(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 999, 0)));
}

CASE(deleted_file_stays)
{
	char *p;
	int fd;

	put("f", "still here");
	fd = open("f", O_RDWR);
	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	unlink("f");
	close(fd);
	say_bytes("deleted", p, 10);
}

CASE(read_another_process)
{
	static char secret[] = "secret";
	char buf[8] = "";
	struct iovec l = { buf, 6 }, r = { secret, 6 };
	int pp[2], ready[2], st;
	pid_t p;

	NEED(pipe(pp));
	NEED(pipe(ready));
	p = fork();
	if (!p) {
		secret[0] = 'S';
		close(pp[1]);
		NEED(write(ready[1], "x", 1));
		_exit(read(pp[0], buf, 1) != 0);
	}
	NEED(read(ready[0], buf, 1));
	R(process_vm_readv(p, &l, 1, &r, 1, 0));
	printf("%s\n", buf);
	r.iov_base = bad_ptr();
	R(process_vm_readv(p, &l, 1, &r, 1, 0));
	R(process_vm_readv(999999, &l, 1, &r, 1, 0));
	R(process_vm_readv(p, &l, 1, &r, 1, 7));
	close(pp[1]);
	close(pp[0]);
	kill(p, SIGKILL);
	waitpid(p, &st, 0);
}

/* Without memory of its own, which could lie where the case has just unmapped some. */
static long field(const char *file, const char *name)
{
	static char text[1 << 17];
	size_t len = 0;
	ssize_t n;
	long sum = 0;
	int fd = open(file, O_RDONLY);

	while ((n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	close(fd);
	text[len] = '\0';
	for (char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, strlen(name)) == 0)
			sum += strtol(line + strlen(name), NULL, 10);
	}
	return sum;
}

/* What is locked is counted, comes in, and has no holes. */
CASE(locked)
{
	unsigned char in[4];
	char *p = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rlimit big = { 1 << 20, 1 << 20 };

	setrlimit(RLIMIT_MEMLOCK, &big);
	R(field("/proc/self/status", "VmLck:"));
	R(mlock(p, 2 * 4096));
	R(field("/proc/self/status", "VmLck:"));
	R(mincore(p, 4 * 4096, in));
	R((in[0] & 1) && (in[1] & 1));
	R(mlock(p + 4096 + 5, 4096));
	R(field("/proc/self/status", "VmLck:"));
	R(field("/proc/self/smaps", "Locked:"));
	R(munlock(p + 4096, 4096));
	R(field("/proc/self/status", "VmLck:"));
	R(msync(p, 4096, MS_ASYNC));
	R(msync(p, 4096, MS_ASYNC | MS_INVALIDATE));
	R(msync(p + 4096, 4096, MS_ASYNC | MS_INVALIDATE));
	R(msync(p, 4096, MS_ASYNC | MS_SYNC | MS_INVALIDATE));
	R(msync(p + 1, 4096, MS_INVALIDATE));
	R(munmap(p, 4096));
	R(field("/proc/self/status", "VmLck:"));
	R(mlock(p, 2 * 4096));
	R(munlock(p, 2 * 4096));
	R(mlockall(0));
	R(mlockall(99));
	R(munlockall());
	R(field("/proc/self/status", "VmLck:"));
	p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
	B(p != MAP_FAILED);
	R(field("/proc/self/status", "VmLck:"));
}

static void lock_much(void)
{
	struct rlimit some = { 8 * 4096, 8 * 4096 }, none = { 0, 0 };
	char *p = mmap(NULL, 64 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	setrlimit(RLIMIT_MEMLOCK, &some);
	R(mlock(p, 4 * 4096));
	R(mlock(p, 64 * 4096));
	R(mlockall(MCL_CURRENT));
	B(mmap(NULL, 64 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0) ==
			MAP_FAILED &&
		errno == EAGAIN);
	setrlimit(RLIMIT_MEMLOCK, &none);
	R(mlock(p, 4096));
	R(mlockall(MCL_CURRENT));
}

CASE(a_user_locks_little)
{
	as_user(65534, 65534, lock_much);
}

CASE(private_map_of_a_memory_file)
{
	int fd = (int)syscall(SYS_memfd_create, "m", 2 /* MFD_ALLOW_SEALING */);
	char *p;

	NEED(ftruncate(fd, 8192));
	NEED(pwrite(fd, "abc", 3, 0));
	p = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
	B(p != MAP_FAILED && memcmp(p, "abc", 3) == 0);
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	B(p != MAP_FAILED && (p[0] = 'x') == 'x');
}

static void room(const char *what, int flags, size_t mib)
{
	void *p = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE,
		flags | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	say(what, p == MAP_FAILED ? -1 : 0);
	if (p != MAP_FAILED)
		munmap(p, mib << 20);
}

CASE(limits_of_size)
{
	struct rlimit was, l;
	int pid;

	NEED(getrlimit(RLIMIT_AS, &was));
	l = was;
	l.rlim_cur = 300 << 20;
	R(setrlimit(RLIMIT_AS, &l));
	room("some", MAP_PRIVATE, 100);
	room("more", MAP_PRIVATE, 400);
	room("shared", MAP_SHARED, 400);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		room("a child's", MAP_PRIVATE, 400);
		fflush(stdout);
		_exit(0);
	}
	R(io_reap(pid));
	R(setrlimit(RLIMIT_AS, &was));
	room("after", MAP_PRIVATE, 400);
	NEED(getrlimit(RLIMIT_DATA, &was));
	l = was;
	l.rlim_cur = 100 << 20;
	R(setrlimit(RLIMIT_DATA, &l));
	room("data", MAP_PRIVATE, 50);
	room("more data", MAP_PRIVATE, 200);
	room("shared is no data", MAP_SHARED, 200);
	R(syscall(SYS_brk, (char *)syscall(SYS_brk, 0) + (200 << 20)) == syscall(SYS_brk, 0));
	R(setrlimit(RLIMIT_DATA, &was));
	room("after", MAP_PRIVATE, 200);
}

#define MASK(bits) &(unsigned long){ bits }, (unsigned long)64

CASE(policies_of_memory)
{
	enum { PREFERRED = 1, BIND, INTERLEAVE, LOCAL, NODE = 1, ADDR = 2, ALLOWED = 4 };
	char *m = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long nodes[1024 / 64] = { 0 }; /* Linux fills as many as are asked for */
	int mode = -1;

	say("ask", syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0));
	say_n("default", mode);
	say("allowed", syscall(SYS_get_mempolicy, NULL, nodes, 1024, NULL, ALLOWED));
	say_is("the first node", nodes[0] & 1);
	say("bind", syscall(SYS_mbind, m, 4096, BIND, MASK(1), 0));
	say("ask", syscall(SYS_get_mempolicy, &mode, nodes, 64, m, ADDR));
	say_n("bound", mode);
	say_is("to the first node", nodes[0] == 1);
	say("beside it", syscall(SYS_get_mempolicy, &mode, NULL, 0, m + 4096, ADDR));
	say_n("default", mode);
	m[0] = 1;
	say("where", syscall(SYS_get_mempolicy, &mode, NULL, 0, m, NODE | ADDR));
	say("no nodes", syscall(SYS_mbind, m, 4096, BIND, NULL, 0, 0));
	say("too many", syscall(SYS_mbind, m, 4096, LOCAL, MASK(1), 0));
	say("unknown", syscall(SYS_mbind, m, 4096, 99, MASK(1), 0));
	say("unknown flags", syscall(SYS_mbind, m, 4096, BIND, MASK(1), -1));
	say("bad mask", syscall(SYS_mbind, m, 4096, BIND, BAD_PTR, 64, 0));
	say("not a page", syscall(SYS_mbind, m + 1, 4096, BIND, MASK(1), 0));
	munmap(m + 4096, 4096);
	say("a hole", syscall(SYS_mbind, m, 8192, BIND, MASK(1), 0));
	say("a hole", syscall(SYS_get_mempolicy, &mode, NULL, 0, m + 4096, ADDR));
	say("address without flag", syscall(SYS_get_mempolicy, &mode, NULL, 0, m, 0));
	say("own", syscall(SYS_set_mempolicy, INTERLEAVE, MASK(1)));
	say("ask", syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0));
	say_n("interleaved", mode);
	say("own", syscall(SYS_set_mempolicy, PREFERRED, NULL, 0));
	say("back", syscall(SYS_set_mempolicy, 0, NULL, 0));
	say("migrate", syscall(SYS_migrate_pages, 0, 64, nodes, nodes));
	say("nobody", syscall(SYS_migrate_pages, -1, 64, nodes, nodes));
}

CASE(pages_on_nodes)
{
	char *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *pages[2] = { m, BAD_PTR };
	int nodes[2] = { 0, 0 }, status[2] = { 99, 99 };

	m[0] = 1;
	say("where", syscall(SYS_move_pages, 0, 2L, pages, NULL, status, 0));
	say_n("node", status[0]);
	say_is("nowhere", status[1] == -EFAULT);
	say("stay", syscall(SYS_move_pages, 0, 1L, pages, nodes, status, 2));
	nodes[0] = 77;
	say("no such node", syscall(SYS_move_pages, 0, 1L, pages, nodes, status, 2));
	say("unknown flags", syscall(SYS_move_pages, 0, 1L, pages, nodes, status, 1 << 9));
	say("nobody", syscall(SYS_move_pages, -1, 1L, pages, nodes, status, 2));
}

static int lines_of(const char *from, const char *to)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long a, b;
	char line[4400];
	int n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += sscanf(line, "%lx-%lx", &a, &b) == 2 && a >= (unsigned long)from &&
		     b <= (unsigned long)to;
	if (f)
		fclose(f);
	return n;
}

static char *parted, *parted_end;

static void child_has_them(void)
{
	say_n("lines of a child", lines_of(parted, parted_end));
}

CASE(policies_part_mappings)
{
	char *all = mmap(NULL, 6 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *m = all + 4096, *end = m + 4 * 4096;

	need("rights", mprotect(m, 4 * 4096, PROT_READ | PROT_WRITE));
	say_n("lines", lines_of(m, end));
	say("bind", syscall(SYS_mbind, m + 4096, 8192, 2, MASK(1), 0));
	say_n("lines", lines_of(m, end));
	parted = m;
	parted_end = end;
	in_child(child_has_them);
	say("bind", syscall(SYS_mbind, m, 4096, 2, MASK(1), 0));
	say_n("lines", lines_of(m, end));
	say("back", syscall(SYS_mbind, m, 4 * 4096, 0, NULL, 0, 0));
	say_n("lines", lines_of(m, end));
}
