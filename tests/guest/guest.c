/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/guest/guest.c - what every guest program shares: its main, and printing without numbers
 * that differ from host to host.
 *
 * Owns:  the list of cases, and the scratch directory.
 * Rules: a case that does not end in CASE_SECONDS is killed and says so; the others still run.
 */
#include <ftw.h>
#include <grp.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "guest.h"

enum { CASES_MAX = 128, CASE_SECONDS = 30, NAME_CAP = 64 };

static struct {
	const char *name;
	void (*run)(void);
} cases[CASES_MAX];
static unsigned case_count;

void guest_case(const char *name, void (*run)(void))
{
	if (case_count == CASES_MAX)
		abort();
	cases[case_count].name = name;
	cases[case_count++].run = run;
}

/* clang-format off */
#define E(n) { n, #n },
static const struct { int err; const char *name; } names[] = {
	E(EPERM) E(ENOENT) E(ESRCH) E(EINTR) E(EIO) E(ENXIO) E(E2BIG) E(ENOEXEC) E(EBADF) E(ECHILD)
	E(EAGAIN) E(ENOMEM) E(EACCES) E(EFAULT) E(ENOTBLK) E(EBUSY) E(EEXIST) E(EXDEV) E(ENODEV)
	E(ENOTDIR) E(EISDIR) E(EINVAL) E(ENFILE) E(EMFILE) E(ENOTTY) E(ETXTBSY) E(EFBIG) E(ENOSPC)
	E(ESPIPE) E(EROFS) E(EMLINK) E(EPIPE) E(EDOM) E(ERANGE) E(EDEADLK) E(ENAMETOOLONG) E(ENOLCK)
	E(ENOSYS) E(ENOTEMPTY) E(ELOOP) E(ENOMSG) E(EIDRM) E(ENODATA) E(ETIME) E(EPROTO) E(EBADMSG)
	E(EOVERFLOW) E(ENOTSOCK) E(EDESTADDRREQ) E(EMSGSIZE) E(EPROTOTYPE) E(ENOPROTOOPT)
	E(EPROTONOSUPPORT) E(ESOCKTNOSUPPORT) E(EOPNOTSUPP) E(EPFNOSUPPORT) E(EAFNOSUPPORT)
	E(EADDRINUSE) E(EADDRNOTAVAIL) E(ENETDOWN) E(ENETUNREACH) E(ECONNABORTED) E(ECONNRESET)
	E(ENOBUFS) E(EISCONN) E(ENOTCONN) E(ETIMEDOUT) E(ECONNREFUSED) E(EHOSTUNREACH) E(EALREADY)
	E(EINPROGRESS) E(ESTALE) E(EDQUOT) E(ECANCELED) E(EOWNERDEAD) E(ENOTRECOVERABLE)
};
#undef E
/* clang-format on */

const char *errno_name(int err)
{
	static char other[32];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (names[i].err == err)
			return names[i].name;
	}
	snprintf(other, sizeof(other), "errno %d", err);
	return other;
}

long say(const char *what, long r)
{
	int err = errno;

	printf("  %s: %s\n", what, r < 0 ? errno_name(err) : "ok");
	errno = err;
	return r;
}

long say_n(const char *what, long r)
{
	if (r < 0)
		return say(what, r);
	printf("  %s: %ld\n", what, r);
	return r;
}

void say_is(const char *what, bool yes)
{
	printf("  %s: %s\n", what, yes ? "yes" : "no");
}

void say_str(const char *what, const char *s)
{
	printf("  %s: '%s'\n", what, s);
}

void say_bytes(const char *what, const void *p, size_t n)
{
	const unsigned char *b = p;

	printf("  %s: '", what);
	for (size_t i = 0; i < n; i++) {
		if (b[i] >= ' ' && b[i] < 127 && b[i] != '\\')
			putchar(b[i]);
		else
			printf("\\x%02x", b[i]);
	}
	printf("'\n");
}

static char type_letter(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return '-';
	case S_IFDIR:
		return 'd';
	case S_IFLNK:
		return 'l';
	case S_IFIFO:
		return 'p';
	case S_IFSOCK:
		return 's';
	case S_IFCHR:
		return 'c';
	case S_IFBLK:
		return 'b';
	default:
		return '?';
	}
}

void say_stat(const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0) {
		say(path, -1);
		return;
	}
	printf("  %s: %c%04o", path, type_letter(st.st_mode), st.st_mode & 07777);
	if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode))
		printf(" %lld", (long long)st.st_size);
	if (!S_ISDIR(st.st_mode))
		printf(" links=%lu", (unsigned long)st.st_nlink);
	printf("\n");
}

void need(const char *what, long r)
{
	if (r >= 0)
		return;
	printf("  cannot go on: %s: %s\n", what, errno_name(errno));
	fflush(stdout);
	_exit(3);
}

int need_fd(const char *what, int fd)
{
	need(what, fd);
	return fd;
}

void put(const char *path, const char *text)
{
	int fd = need_fd(path, open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644));
	size_t n = strlen(text);

	if (write(fd, text, n) != (ssize_t)n)
		need("write", -1);
	close(fd);
}

void put_into(const char *path, const char *text)
{
	int fd = need_fd(path, open(path, O_WRONLY | O_CLOEXEC));

	need(path, write(fd, text, strlen(text)));
	close(fd);
}

void need_user_ns(int flags)
{
	need("unshare", unshare(CLONE_NEWUSER | flags));
	put_into("/proc/self/setgroups", "deny");
	put_into("/proc/self/uid_map", "0 0 1");
	put_into("/proc/self/gid_map", "0 0 1");
}

void need_own_network(void)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd;

	need("unshare", unshare(CLONE_NEWNET));
	fd = need_fd("socket", socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	need("lo", ioctl(fd, SIOCSIFFLAGS, &r));
	close(fd);
}

void cat(const char *path)
{
	char buf[4096];
	int fd = open(path, O_RDONLY);
	ssize_t n;

	if (fd < 0) {
		say(path, -1);
		return;
	}
	n = read(fd, buf, sizeof(buf));
	if (n < 0)
		say(path, n);
	else
		say_bytes(path, buf, (size_t)n);
	close(fd);
}

void *bad_ptr(void)
{
	return (void *)(uintptr_t)8;
}

const char *long_name(void)
{
	static char name[301];

	memset(name, 'n', sizeof(name) - 1);
	return name;
}

const char *long_path(void)
{
	static char path[5001];

	for (size_t i = 0; i < sizeof(path) - 1; i++)
		path[i] = i % 2 ? '/' : '.';
	return path;
}

void in_child(void (*fn)(void))
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	need("fork", pid);
	if (pid == 0) {
		fn();
		fflush(stdout);
		_exit(0);
	}
	need("waitpid", waitpid(pid, &status, 0));
	if (status)
		printf("  child: %d\n", status);
}

static struct {
	unsigned uid, gid;
	void (*fn)(void);
} user;

static void user_run(void)
{
	need("setgroups", setgroups(0, NULL));
	need("setgid", setresgid(user.gid, user.gid, user.gid));
	need("setuid", setresuid(user.uid, user.uid, user.uid));
	user.fn();
}

void as_user(unsigned uid, unsigned gid, void (*fn)(void))
{
	user.uid = uid;
	user.gid = gid;
	user.fn = fn;
	in_child(user_run);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	if (type == FTW_DP || type == FTW_DNR)
		rmdir(path);
	else
		unlink(path);
	return 0;
}

/* Whether the case came to its end before the alarm. */
static bool run_case(const char *scratch, unsigned i)
{
	char place[NAME_CAP + 128];
	struct timespec start, end;
	int status = 0;
	pid_t pid;

	clock_gettime(CLOCK_MONOTONIC, &start);
	snprintf(place, sizeof(place), "%s/%s", scratch, cases[i].name);
	printf("== %s\n", cases[i].name);
	fflush(stdout);
	pid = fork();
	need("fork", pid);
	if (pid == 0) {
		need("mkdir", mkdir(place, 0755));
		need("chmod", chmod(place, 0777));
		need("chdir", chdir(place));
		alarm(CASE_SECONDS);
		cases[i].run();
		fflush(stdout);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid)
		need("waitpid", -1);
	clock_gettime(CLOCK_MONOTONIC, &end);
	bool late = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM &&
		    end.tv_sec - start.tv_sec >= CASE_SECONDS;
	if (late)
		printf("  did not end in %d s\n", CASE_SECONDS);
	else if (WIFSIGNALED(status))
		printf("  killed by signal %d\n", WTERMSIG(status));
	else if (WEXITSTATUS(status))
		printf("  exit status %d\n", WEXITSTATUS(status));
	fflush(stdout);
	return !late;
}

/* ARGS: names of cases; none means all. "--list" prints the names. */
int main(int argc, char **argv)
{
	const char *tmp = getenv("GUEST_TMP");
	char scratch[128];
	unsigned ran = 0, late = 0;

	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (unsigned i = 0; i < case_count; i++)
			printf("%s\n", cases[i].name);
		return 0;
	}
	snprintf(scratch, sizeof(scratch), "%s/guest-XXXXXX", tmp ? tmp : "/tmp");
	umask(022);
	if (!mkdtemp(scratch) || chmod(scratch, 0755) < 0) {
		fprintf(stderr, "no scratch directory %s: %s\n", scratch, strerror(errno));
		return 2;
	}
	for (unsigned i = 0; i < case_count; i++) {
		bool wanted = argc < 2;

		for (int a = 1; a < argc; a++)
			wanted = wanted || strcmp(argv[a], cases[i].name) == 0;
		if (!wanted)
			continue;
		late += !run_case(scratch, i);
		ran++;
	}
	nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return late ? 3 : ran ? 0 : 2;
}
