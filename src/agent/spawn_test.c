/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/spawn_test.c - descriptors of any number, and names of users in hostile files.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "agent/spawn.h"
#include "agent/user.h"
#include "base/ckd.h"
#include "base/str.h"

/*
 * In a process of its own: puts the three given files at the numbers @fds, everything else closed,
 * and spawns. The command copies stdin to stdout and says "err" on stderr.
 */
static int spawn_with(const int fds[3], const int files[3], const char *script)
{
	static char stack[64 * 1024] __attribute__((aligned(16)));
	char *list[] = { NULL, (char *)"/bin/sh", (char *)"-c", (char *)script, NULL };
	char *env[] = { NULL };
	struct spawn s = { .argv = list + 1, .env = env, .path = "/bin" };
	int high[3], status;
	pid_t pid;

	for (int i = 0; i < 3; i++)
		high[i] = fcntl(files[i], F_DUPFD, 100);
	for (int i = 0; i < 100; i++)
		close(i);
	for (int i = 0; i < 3; i++) {
		if (fds[i] >= 0)
			dup2(high[i], fds[i]);
		s.fds[i] = fds[i];
		close(high[i]);
	}
	pid = spawn(&s, stack, sizeof(stack));
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 1;
	return status == 0 ? 0 : 2;
}

static void descriptors_of_any_number(void **state)
{
	static const int numbers[][3] = {
		{ 5, 6, 7 },
		{ 7, 6, 5 },
		{ 0, 1, 2 },
		{ 1, 2, 0 },
		{ 2, 0, 1 },
		{ 2, 1, 0 },
		{ 1, 0, 2 },
		{ 0, 2, 1 },
		{ 5, 0, 1 },
		{ 1, 9, 0 },
		{ 2, 0, 9 },
		{ 0, 5, 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		int in[2], out[2], err[2], status;
		char buf[16] = "";
		pid_t pid;

		assert_int_equal(pipe(in) | pipe(out) | pipe(err), 0);
		fflush(NULL);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			_exit(spawn_with(numbers[i], (const int[3]){ in[0], out[1], err[1] },
				"read x; echo $x; echo err >&2; for n in 3 4 5 6 7 8 9 100 101 "
				"102; do "
				"[ ! -e /proc/$$/fd/$n ] || exit 9; done"));
		close(in[0]);
		close(out[1]);
		close(err[1]);
		assert_int_equal(write(in[1], "in\n", 3), 3);
		close(in[1]);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (status)
			fail_msg("case %zu: status %#x", i, status);
		assert_int_equal(read(out[0], buf, sizeof(buf)), 3);
		assert_memory_equal(buf, "in\n", 3);
		assert_true(read(err[0], buf, 4) == 4);
		assert_memory_equal(buf, "err\n", 4);
		close(out[0]);
		close(err[0]);
	}
}

/* One file for all three, as with a terminal. */
static void one_descriptor_for_all(void **state)
{
	int status, null = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid_t pid;

	(void)state;
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(spawn_with((const int[3]){ 9, -1, -1 }, (const int[3]){ null, null, null },
			"[ $(readlink /proc/self/fd/2) = /dev/null ]"));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(null);
	assert_int_equal(status, 0);
}

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void users(void **state)
{
	static const struct {
		const char *text;
		int want;
		uid_t uid;
		gid_t gid;
		unsigned groups;
		const char *name, *home;
	} cases[] = {
		{ "root", 0, 0, 0, 0, "root", "/root" },
		{ "0", 0, 0, 0, 0, "root", "/root" },
		{ "ann", 0, 1000, 1001, 2, "ann", "/home/ann" },
		{ "1000", 0, 1000, 1001, 2, "ann", "/home/ann" },
		{ "ann:staff", 0, 1000, 50, 0, "ann", "/home/ann" },
		{ "ann:7", 0, 1000, 7, 0, "ann", "/home/ann" },
		{ "4000", 0, 4000, 4000, 0, "", "/" },
		{ "4000:staff", 0, 4000, 50, 0, "", "/" },
		{ "nohome", 0, 1002, 1002, 0, "nohome", "/" },
		{ "4294967294", 0, 4294967294u, 4294967294u, 0, "", "/" },
		{ "4294967295", -ENOENT, 0, 0, 0, NULL, NULL },
		{ "an", -ENOENT, 0, 0, 0, NULL, NULL },
		{ "annn", -ENOENT, 0, 0, 0, NULL, NULL },
		{ "short", -ENOENT, 0, 0, 0, NULL, NULL },
		{ "badnumber", -ENOENT, 0, 0, 0, NULL, NULL },
		{ "negative", -ENOENT, 0, 0, 0, NULL, NULL },
		{ "unfinished", -ENOENT, 0, 0, 0, NULL, NULL },
		{ "ann:nogroup", -ENOENT, 0, 0, 0, NULL, NULL },
		{ "", -EINVAL, 0, 0, 0, NULL, NULL },
		{ ":", -EINVAL, 0, 0, 0, NULL, NULL },
		{ "ann:", -EINVAL, 0, 0, 0, NULL, NULL },
		{ ":staff", -EINVAL, 0, 0, 0, NULL, NULL },
	};
	char passwd[] = "/tmp/ward-passwd-XXXXXX", group[] = "/tmp/ward-group-XXXXXX";
	int fds[2] = { mkstemp(passwd), mkstemp(group) };

	(void)state;
	assert_true(fds[0] >= 0 && fds[1] >= 0);
	put(passwd, "root:x:0:0:root:/root:/bin/sh\nshort:x:5\nbadnumber:x:12a:5::/"
		    ":\nnegative:x:-5:5::/:\n"
		    "\n:::::::\nann:x:1000:1001:Ann,,,:/home/ann:/bin/sh\nnohome:x:1002:1002:::\n"
		    "unfinished:x:1003:1003::/:/bin/sh");
	put(group, "root:x:0:\nstaff:x:50:bob,ann\nusers:x:100:ann\nann:x:1001:ann\nx:x:101:anna,"
		   "bann,an\nbad:x:y:ann\n");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct identity who = { 0 };
		struct err e = { 0 };
		int r = user_resolve_in(passwd, group, cases[i].text, &who, &e);

		if (r != cases[i].want)
			fail_msg("'%s': %d: %s", cases[i].text, r, e.msg);
		if (r < 0)
			continue;
		assert_int_equal(who.uid, cases[i].uid);
		assert_int_equal(who.gid, cases[i].gid);
		assert_int_equal(who.group_count, cases[i].groups);
		assert_string_equal(who.name, cases[i].name);
		assert_string_equal(who.home, cases[i].home);
	}
	close(fds[0]);
	close(fds[1]);
	unlink(passwd);
	unlink(group);
}

static void hostile_user_files(void **state)
{
	char dir[] = "/tmp/ward-users-XXXXXX", passwd[64], group[64];
	struct identity who;
	FILE *f;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(str_fmt(passwd, sizeof(passwd), "%s/passwd", dir), 0);
	assert_int_equal(str_fmt(group, sizeof(group), "%s/group", dir), 0);
	/* None at all: numbers still mean what they say. */
	assert_int_equal(user_resolve_in(passwd, group, "5:6", &who, NULL), 0);
	assert_int_equal(user_resolve_in(passwd, group, "ann", &who, NULL), -ENOENT);
	/* A fifo, a directory, a device: refused, and nobody waits. */
	assert_int_equal(mkfifo(passwd, 0600), 0);
	assert_int_equal(user_resolve_in(passwd, group, "ann", &who, NULL), -EINVAL);
	assert_int_equal(user_resolve_in(dir, group, "ann", &who, NULL), -EINVAL);
	assert_int_equal(user_resolve_in("/dev/zero", group, "ann", &who, NULL), -EINVAL);
	assert_int_equal(unlink(passwd), 0);
	/* A line longer than any buffer, with an entry hidden at its end, then a good one. */
	f = fopen(passwd, "w");
	assert_non_null(f);
	for (unsigned i = 0; i < 10000; i++)
		fputc('a', f);
	fputs("\n\nann:x:1000:1000::/home/ann:\n", f);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(user_resolve_in(passwd, group, "ann", &who, NULL), 0);
	assert_int_equal(who.uid, 1000);
	/* The same where the tail of the long line looks like an entry. */
	f = fopen(passwd, "w");
	assert_non_null(f);
	for (unsigned i = 0; i < 4096; i++)
		fputc('a', f);
	fputs("ann:x:0:0::/root:\n", f);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(user_resolve_in(passwd, group, "ann", &who, NULL), -ENOENT);
	/* More than anybody needs. */
	assert_int_equal(truncate(passwd, 2 * AGENT_PASSWD_BYTES_MAX), 0);
	assert_int_equal(user_resolve_in(passwd, group, "ann", &who, NULL), -EFBIG);
	/* More groups than are taken. */
	put(passwd, "ann:x:1000:1000::/home/ann:\n");
	f = fopen(group, "w");
	assert_non_null(f);
	for (unsigned i = 0; i <= AGENT_GROUPS_MAX; i++)
		fprintf(f, "g%u:x:%u:ann\n", i, 5000 + i);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(user_resolve_in(passwd, group, "ann", &who, NULL), -E2BIG);
	unlink(passwd);
	unlink(group);
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(descriptors_of_any_number),
		cmocka_unit_test(one_descriptor_for_all),
		cmocka_unit_test(users),
		cmocka_unit_test(hostile_user_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
