/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jail/landlock_test.c - a confined child tries things; each row says what it must get.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/str.h"
#include "jail/landlock.h"

/* A folder with: open/ (all rights), look/ (read), look/file, tool (read and exec), shut/secret. */
static char top[] = "/tmp/landlock-test-XXXXXX";
static pid_t parent;

static void put(const char *path, mode_t mode, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static int set_up(void **state)
{
	(void)state;
	parent = getpid();
	assert_non_null(mkdtemp(top));
	assert_int_equal(chdir(top), 0);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(
			mkdir(((const char *[]){ "open", "look", "shut", "open/sub" })[i], 0755),
			0);
	put("look/file", 0644, "look");
	put("shut/secret", 0644, "secret");
	put("alone", 0644, "alone");
	put("tool", 0755, "#!/bin/sh\nexit 7\n");
	put("script", 0755, "#!/bin/sh\nexit 7\n");
	return 0;
}

static int tear_down(void **state)
{
	char cmd[64];

	(void)state;
	snprintf(cmd, sizeof(cmd), "rm -rf %s", top);
	return chdir("/") || system(cmd);
}

static int result(long r)
{
	return r < 0 ? -errno : 0;
}

static int opens(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0644);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static int try_read_listed(void)
{
	return opens("look/file", O_RDONLY);
}

static int try_list(void)
{
	return opens("look", O_RDONLY | O_DIRECTORY);
}

static int try_write_listed(void)
{
	return opens("look/file", O_WRONLY);
}

static int try_make_in_listed(void)
{
	return opens("look/new", O_WRONLY | O_CREAT);
}

static int try_remove_listed(void)
{
	return result(unlink("look/file"));
}

static int try_truncate_listed(void)
{
	return result(truncate("look/file", 0));
}

static int try_read_unlisted(void)
{
	return opens("shut/secret", O_RDONLY);
}

static int try_list_unlisted(void)
{
	return opens("shut", O_RDONLY | O_DIRECTORY);
}

static int try_write_open(void)
{
	return opens("open/new", O_WRONLY | O_CREAT | O_TRUNC);
}

static int try_move_between(void)
{
	int r = opens("open/moved", O_WRONLY | O_CREAT);

	return r < 0 ? r : result(rename("open/moved", "open/sub/moved"));
}

static int try_link_out(void)
{
	return result(link("shut/secret", "open/secret"));
}

static int try_special(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = "open/sock" };
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	if (mkfifo("open/fifo", 0600) < 0 || symlink("x", "open/link") < 0 ||
		bind(s, (struct sockaddr *)&a, sizeof(a)) < 0 || mkdir("open/d", 0700) < 0 ||
		rmdir("open/d") < 0)
		return -errno;
	return 0;
}

static int try_device(void)
{
	return result(mknod("open/null", S_IFCHR | 0600, 0x103));
}

static int try_file_rule(void)
{
	return opens("alone", O_RDWR);
}

static int try_exec(void)
{
	execl("tool", "tool", (char *)NULL);
	return -errno;
}

static int try_exec_unlisted(void)
{
	execl("script", "script", (char *)NULL);
	return -errno;
}

static int try_signal_parent(void)
{
	return result(kill(parent, 0));
}

static int try_tcp(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int s = socket(AF_INET, SOCK_STREAM, 0);

	return result(bind(s, (struct sockaddr *)&a, sizeof(a)));
}

static int try_abstract(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM, 0), n;

	n = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "landlock-test-%d", (int)parent);
	return result(connect(s, (struct sockaddr *)&a,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)));
}

static int try_null(void)
{
	return opens("/dev/null", O_RDWR);
}

static int try_device_ioctl(void)
{
	int n, fd = open("/dev/null", O_RDWR);

	/* The device knows no such call; what matters is who says no. */
	return fd < 0 ? -errno : result(ioctl(fd, 0xabcd, &n));
}

/* clang-format off */
static const struct {
	const char *name;
	int (*fn)(void);
	int want;    /* 0, a negative errno, or the exit status of what was executed */
	int abi;     /* the kernel that first says this; below it the row has nothing to say */
} tries[] = {
	{ "read what is listed",             try_read_listed,     0,            1 },
	{ "list what is listed",             try_list,            0,            1 },
	{ "write what is only read",         try_write_listed,    -EACCES,      1 },
	{ "make in what is only read",       try_make_in_listed,  -EACCES,      1 },
	{ "remove from what is only read",   try_remove_listed,   -EACCES,      1 },
	{ "truncate what is only read",      try_truncate_listed, -EACCES,      3 },
	{ "read what is not listed",         try_read_unlisted,   -EACCES,      1 },
	{ "list what is not listed",         try_list_unlisted,   -EACCES,      1 },
	{ "write where all is allowed",      try_write_open,      0,            1 },
	{ "move between folders",            try_move_between,    0,            2 },
	{ "link a secret to the open",       try_link_out,        -EXDEV,       1 },
	{ "fifo, symlink, socket, folder",   try_special,         0,            1 },
	{ "device node",                     try_device,          -EACCES,      1 },
	{ "rule on a single file",           try_file_rule,       0,            1 },
	{ "execute what is listed",          try_exec,            7,            1 },
	{ "execute what is not",             try_exec_unlisted,   -EACCES,      1 },
	{ "signal to the parent",            try_signal_parent,   -EPERM,       6 },
	{ "TCP bind",                        try_tcp,             -EACCES,      4 },
	{ "abstract socket of the parent",   try_abstract,        -EPERM,       6 },
	{ "device, read and write",          try_null,            0,            1 },
	{ "device, ioctl not given",         try_device_ioctl,    -EACCES,      5 },
};

static const struct landlock_rule rules[] = {
	{ "open", LL_READ | LL_WRITE },
	{ "look", LL_READ },
	{ "alone", LL_READ | LL_WRITE | LL_EXEC },
	{ "tool", LL_READ | LL_EXEC },
	{ "/usr", LL_READ | LL_EXEC },
	{ "/bin", LL_READ | LL_EXEC },
	{ "/lib", LL_READ | LL_EXEC | LL_IF_EXISTS },
	{ "/lib64", LL_READ | LL_EXEC | LL_IF_EXISTS },
	{ "/dev/null", LL_READ | LL_WRITE },
	{ "not-there", LL_READ | LL_IF_EXISTS },
};
/* clang-format on */

/* Runs @fn in a confined child; its result, or the exit status of what it became. */
static int confined(int (*fn)(void), unsigned flags)
{
	struct err e = { 0 };
	int status, pipe_fds[2], r = 0;
	pid_t pid;

	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		r = landlock_confine(rules, ARRAY_LEN(rules), flags, &e);
		if (r < 0)
			fprintf(stderr, "%s\n", e.msg);
		else
			r = fn();
		if (write(pipe_fds[1], &r, sizeof(r)) != sizeof(r))
			_exit(99);
		_exit(0);
	}
	close(pipe_fds[1]);
	if (read(pipe_fds[0], &r, sizeof(r)) != sizeof(r))
		r = 0;
	close(pipe_fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return r ? r : WEXITSTATUS(status);
}

static void every_try_gets_its_answer(void **state)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM, 0), abi = landlock_abi(), n;

	(void)state;
	assert_true(abi >= 1);
	n = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "landlock-test-%d", (int)parent);
	assert_int_equal(
		bind(s, (struct sockaddr *)&a,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)),
		0);
	assert_int_equal(listen(s, 4), 0);
	for (size_t i = 0; i < ARRAY_LEN(tries); i++) {
		int got = confined(tries[i].fn, LL_SCOPE_ABSTRACT | LL_SCOPE_SIGNAL | LL_NO_TCP);

		if (abi < tries[i].abi)
			print_message("ABI %d says nothing about: %s\n", abi, tries[i].name);
		else if (got != tries[i].want)
			fail_msg("%s: got %d, wanted %d", tries[i].name, got, tries[i].want);
	}
	/* What no flag closes stays open. */
	assert_int_equal(confined(try_signal_parent, 0), 0);
	assert_int_equal(confined(try_tcp, 0), 0);
	assert_int_equal(confined(try_abstract, 0), 0);
	close(s);
}

static void a_missing_path_is_named(void **state)
{
	static const struct landlock_rule bad = { "not-there", LL_READ };
	struct err e = { 0 };

	(void)state;
	assert_int_equal(landlock_confine(&bad, 1, 0, &e), -ENOENT);
	assert_non_null(strstr(e.msg, "not-there"));
}

static void old_kernels_keep_less(void **state)
{
	unsigned all = LL_SCOPE_ABSTRACT | LL_SCOPE_SIGNAL | LL_NO_TCP;

	(void)state;
	assert_int_equal(landlock_keeps(3, all), 0);
	assert_int_equal(landlock_keeps(4, all), LL_NO_TCP);
	assert_int_equal(landlock_keeps(5, all), LL_NO_TCP);
	assert_int_equal(landlock_keeps(6, all), all);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_try_gets_its_answer),
		cmocka_unit_test(a_missing_path_is_named),
		cmocka_unit_test(old_kernels_keep_less),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
