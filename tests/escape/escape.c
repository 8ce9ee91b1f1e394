/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/escape/escape.c - tries to get out, and says how each attempt ended.
 *
 * Owns:  the driver: facts from the command line, one process per attempt, one line per result.
 * Rules: an attempt that succeeds natively does no harm there: what would, is asked for with
 *        arguments that the kernel refuses differently once the permission check is passed.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "escape.h"
#include "extra.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct attempt *const groups[] = {
	file_attempts,
	process_attempts,
	mount_attempts,
	net_attempts,
	kernel_attempts,
	namespace_attempts,
};

/* clang-format off */
static const struct {
	int code;
	const char *name;
} errnos[] = {
#define E(x) { x, #x }
	E(EPERM), E(ENOENT), E(ESRCH), E(EINTR), E(EIO), E(ENXIO), E(ENOEXEC), E(EBADF), E(ECHILD),
	E(EAGAIN), E(ENOMEM), E(EACCES), E(EFAULT), E(ENOTBLK), E(EBUSY), E(EEXIST), E(EXDEV), E(ENODEV),
	E(ENOTDIR), E(EISDIR), E(EINVAL), E(ENFILE), E(EMFILE), E(ENOTTY), E(ETXTBSY), E(EFBIG),
	E(ENOSPC), E(ESPIPE), E(EROFS), E(ENOSYS), E(ELOOP), E(ENODATA), E(EOVERFLOW), E(ESTALE),
	E(EDQUOT), E(ENOTSUP), E(EPROTONOSUPPORT), E(ESOCKTNOSUPPORT), E(EAFNOSUPPORT), E(EADDRNOTAVAIL),
	E(ENETDOWN), E(ENETUNREACH), E(EHOSTUNREACH), E(ECONNREFUSED), E(ETIMEDOUT), E(EKEYREJECTED),
	E(ENOKEY), E(EUSERS), E(ENAMETOOLONG), E(ENOTCONN),
#undef E
};
/* clang-format on */

int outcome(long result)
{
	return result < 0 ? -errno : 0;
}

int secret_behind(int fd)
{
	char text[sizeof(SECRET_TEXT)] = { 0 };
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	return n > 0 && strcmp(text, SECRET_TEXT) == 0 ? 0 : -ENOENT;
}

static void print_code(const char *name, int code)
{
	for (size_t i = 0; i < COUNT(errnos); i++) {
		if (errnos[i].code == code) {
			printf("%s: refused %s\n", name, errnos[i].name);
			return;
		}
	}
	printf("%s: refused %d\n", name, code);
}

static void leave_the_hosts_mounts(void)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		fprintf(stderr, "escape: a mount namespace for the native run: %s\n",
			strerror(errno));
		_exit(254);
	}
}

static void try_one(const struct attempt *a, const struct facts *f)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(20);
		if (f->native && a->own_mounts)
			leave_the_hosts_mounts();
		_exit(-a->run(f, a));
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		printf("%s: could not be tried: %s\n", a->name, strerror(errno));
		return;
	}
	if (WIFSIGNALED(status))
		printf("%s: refused SIG%s\n", a->name,
			WTERMSIG(status) == SIGSYS ? "SYS" : strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status) == 0)
		printf("%s: ALLOWED\n", a->name);
	else
		print_code(a->name, WEXITSTATUS(status));
}

static bool is_wanted(const struct attempt *a, const char *column)
{
	const char *want = strcmp(column, "native") == 0      ? a->native
			   : strcmp(column, "container") == 0 ? a->container
							      : a->workspace;

	return strcmp(want, "-") != 0;
}

static int run_all(const char *column, const struct facts *f)
{
	for (size_t g = 0; g < COUNT(groups); g++)
		for (const struct attempt *a = groups[g]; a->name; a++)
			if (is_wanted(a, column))
				try_one(a, f);
	return 0;
}

static int print_table(void)
{
	for (size_t g = 0; g < COUNT(groups); g++)
		for (const struct attempt *a = groups[g]; a->name; a++)
			printf("%s\t%s\t%s\t%s\n", a->name, a->native, a->container, a->workspace);
	return 0;
}

static long number(const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (*end || end == text || n < 0) {
		fprintf(stderr, "escape: '%s' is not a number\n", text);
		exit(2);
	}
	return n;
}

static void read_fact(struct facts *f, const char *arg)
{
	const char *value = strchr(arg, '=');
	size_t n = value ? (size_t)(value - arg) : 0;

#define IS(key) (n == sizeof(key) - 1 && memcmp(arg, key, n) == 0)
	if (IS("secret"))
		f->secret = value + 1;
	else if (IS("handle"))
		f->handle = value + 1;
	else if (IS("marker"))
		f->marker = value + 1;
	else if (IS("abstract"))
		f->abstract = value + 1;
	else if (IS("socket"))
		f->socket = value + 1;
	else if (IS("victim"))
		f->victim = (pid_t)number(value + 1);
	else if (IS("init"))
		f->init = (pid_t)number(value + 1);
	else if (IS("tcp4"))
		f->tcp4 = (uint16_t)number(value + 1);
	else if (IS("tcp6"))
		f->tcp6 = (uint16_t)number(value + 1);
	else {
		fprintf(stderr, "escape: '%s' is not a fact\n", arg);
		exit(2);
	}
#undef IS
}

int main(int argc, char **argv)
{
	struct facts f = { .init = 1 };

	if (argc == 2 && strcmp(argv[1], "table") == 0)
		return print_table();
	if (argc > 2 && strcmp(argv[1], "run") == 0) {
		f.native = strcmp(argv[2], "native") == 0;
		for (int i = 3; i < argc; i++)
			read_fact(&f, argv[i]);
		return run_all(argv[2], &f);
	}
	for (const struct extra *x = extras; x->name; x++)
		if (argc == 2 + x->args && strcmp(argv[1], x->name) == 0)
			return x->run(argv + 2);
	fputs("escape: table | run native|container|workspace FACT=VALUE... | an extra\n", stderr);
	return 2;
}
