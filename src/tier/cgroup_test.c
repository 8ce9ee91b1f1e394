/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/cgroup_test.c - a live sandbox's cgroups: standing still on v1 and v2, limits, numbers; and
 *        how they are passed on.
 *
 * Freezing needs the kernel, and is tried in whatever hierarchies this host has. Limits and numbers
 * are files with text in them: for v2, whose controllers a hybrid host does not have, plain ones.
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
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/str.h"
#include "host/host.h"
#include "host/tree.h"
#include "tier/cgroup.h"

static void nothing(void *arg)
{
	++*(unsigned *)arg;
}

/* A process that counts in a pipe, moved into the cgroup at @dir. */
static pid_t start_counter(int dir, int *ret_pipe)
{
	int p[2];
	pid_t pid;
	char text[16];

	assert_int_equal(pipe2(p, O_NONBLOCK), 0);
	pid = fork();
	if (pid == 0)
		for (;;) {
			ssize_t n = write(p[1], "x", 1);

			(void)n;
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		}
	close(p[1]);
	snprintf(text, sizeof(text), "%d", (int)pid);
	assert_int_equal(host_put(dir, "cgroup.procs", text), 0);
	*ret_pipe = p[0];
	return pid;
}

static unsigned counted(int fd)
{
	char buf[4096];
	unsigned total = 0;
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		total += (unsigned)n;
	return total;
}

static void rest(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
}

static void freeze_in(const char *parent, enum cgroup_kind kind, int part)
{
	struct cgroup cg;
	struct err e = { 0 };
	char path[256];
	unsigned looked = 0;
	int fd;
	pid_t pid;

	assert_int_equal(str_fmt(path, sizeof(path), "%s/ward-test-%d", parent, (int)getpid()), 0);
	assert_int_equal(mkdir(path, 0755), 0);
	cgroup_init(&cg);
	cg.kind = kind;
	cg.dir[part] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid = start_counter(cg.dir[part], &fd);
	rest();
	assert_true(counted(fd) > 0);
	assert_int_equal(cgroup_freeze(&cg, nothing, &looked, &e), 0);
	counted(fd);
	rest();
	assert_int_equal(counted(fd), 0);
	assert_int_equal(cgroup_thaw(&cg, &e), 0);
	rest();
	assert_true(counted(fd) > 0);
	/* Killed while it stands still, and let go: it ends. */
	assert_int_equal(cgroup_freeze(&cg, nothing, &looked, &e), 0);
	kill(pid, SIGKILL);
	assert_int_equal(cgroup_thaw(&cg, &e), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(fd);
	close(cg.dir[part]);
	assert_int_equal(rmdir(path), 0);
}

static void test_freeze(void **state)
{
	static const struct {
		const char *parent, *file;
		enum cgroup_kind kind;
		int part;
	} places[] = {
		{ "/sys/fs/cgroup/freezer", "/sys/fs/cgroup/freezer/cgroup.procs", CGROUP_V1,
			CGROUP_FREEZER },
		{ "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/cgroup.controllers", CGROUP_V2,
			0 },
		{ "/sys/fs/cgroup", "/sys/fs/cgroup/cgroup.controllers", CGROUP_V2, 0 },
	};
	unsigned tried = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		if (access(places[i].file, W_OK) != 0 && access(places[i].file, R_OK) != 0)
			continue;
		if (access(places[i].parent, W_OK) != 0)
			continue;
		freeze_in(places[i].parent, places[i].kind, places[i].part);
		tried++;
	}
	if (!tried) {
		print_message("no cgroup is writable for this user: nothing to freeze\n");
		skip();
	}
}

static void test_no_freezer(void **state)
{
	struct cgroup cg;
	struct err e = { 0 };

	(void)state;
	cgroup_init(&cg);
	assert_int_equal(cgroup_freeze(&cg, nothing, NULL, &e), -EOPNOTSUPP);
	cg.kind = CGROUP_V1;
	assert_int_equal(cgroup_freeze(&cg, nothing, NULL, &e), -EOPNOTSUPP);
	assert_int_equal(cgroup_thaw(&cg, &e), 0);
	assert_int_equal(
		cgroup_set_limits(&cg, &(struct plan_limits){ .pids = 5 }, &e), -EOPNOTSUPP);
	cg.kind = CGROUP_NONE;
	assert_int_equal(
		cgroup_set_limits(&cg, &(struct plan_limits){ .pids = 5 }, &e), -EOPNOTSUPP);
}

/* A folder of plain files, as a v2 group would have them. */
struct made {
	char path[64];
	struct cgroup cg;
};

static void put(const struct made *m, const char *name, const char *text)
{
	int fd = openat(m->cg.dir[0], name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void expect_text(const struct made *m, const char *name, const char *want)
{
	char text[128];

	assert_true(host_get(m->cg.dir[0], name, text, sizeof(text)) >= 0);
	text[strlen(want) < sizeof(text) ? strlen(want) : 0] = '\0';
	assert_string_equal(text, want);
}

static void make(struct made *m)
{
	str_copy(m->path, sizeof(m->path), "/tmp/ward-cgroup-test-XXXXXX");
	assert_non_null(mkdtemp(m->path));
	cgroup_init(&m->cg);
	m->cg.kind = CGROUP_V2;
	m->cg.dir[0] = open(m->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put(m, "memory.current", "5000000\n");
	put(m, "memory.peak", "6000000\n");
	put(m, "memory.max", "max\n");
	put(m, "memory.stat", "anon 1\nfile 4096\nkernel 7\n");
	put(m, "memory.events", "low 0\noom 3\noom_kill 2\n");
	put(m, "memory.reclaim", "");
	put(m, "pids.current", "3\n");
	put(m, "pids.max", "100\n");
	put(m, "pids.events", "max 9\n");
	put(m, "cpu.stat", "usage_usec 1234\nuser_usec 1\n");
	put(m, "cpu.max", "");
	put(m, "cpu.weight", "");
}

static void unmake(struct made *m)
{
	struct err e;

	close(m->cg.dir[0]);
	assert_int_equal(tree_remove(m->path, &e), 0);
}

static void test_numbers_v2(void **state)
{
	struct usage_now u;
	struct made m;

	(void)state;
	make(&m);
	memset(&u, 0xff, sizeof(u));
	cgroup_usage_now(&m.cg, &u);
	assert_int_equal(u.mem_used, 5000000);
	assert_int_equal(u.mem_peak, 6000000);
	assert_int_equal(u.mem_cache, 4096);
	assert_true(u.mem_limit == UINT64_MAX);
	assert_int_equal(u.oom_kills, 2);
	assert_int_equal(u.pids, 3);
	assert_int_equal(u.pids_limit, 100);
	assert_int_equal(u.pids_refused, 9);
	assert_int_equal(u.cpu_us, 1234);
	unmake(&m);
}

static void test_limits_v2(void **state)
{
	struct plan_limits l = {
		.memory_bytes = 64 << 20, .pids = 20, .cpu_milli = 1500, .cpu_weight = 200
	};
	struct err e = { 0 };
	struct made m;

	(void)state;
	make(&m);
	assert_int_equal(cgroup_set_limits(&m.cg, &l, &e), 0);
	expect_text(&m, "memory.max", "67108864");
	expect_text(&m, "pids.max", "20");
	expect_text(&m, "cpu.max", "150000 100000");
	expect_text(&m, "cpu.weight", "200");
	/* Less than is in use: refused, not killed for. */
	l = (struct plan_limits){ .memory_bytes = 4 << 20 };
	assert_int_equal(cgroup_set_limits(&m.cg, &l, &e), -EBUSY);
	expect_text(&m, "memory.max", "67108864");
	expect_text(&m, "memory.reclaim", "5000000");
	unmake(&m);
}

/* The number of the file behind @fd, by which it is known after it was passed. */
static ino_t file_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

static void test_passed(void **state)
{
	struct cgroup from, to;
	struct err e = { 0 };
	ino_t files[2];
	int p[2], pipes[2];

	(void)state;
	assert_int_equal(host_socketpair(SOCK_STREAM, p), 0);
	cgroup_init(&from);
	cgroup_init(&to);
	/* Parts that are not there leave no gap. */
	from.tasks[CGROUP_MEMORY] = open("/dev/null", O_WRONLY);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	close(pipes[0]);
	from.tasks[CGROUP_CPUACCT] = pipes[1];
	from.pids_limited = true;
	to.memory_limited = true;
	files[0] = file_of(from.tasks[CGROUP_MEMORY]);
	files[1] = file_of(pipes[1]);
	assert_int_equal(cgroup_send(&from, p[0], &e), 0);
	assert_int_equal(from.tasks[CGROUP_MEMORY], -1);
	assert_int_equal(from.tasks[CGROUP_CPUACCT], -1);
	assert_int_equal(cgroup_receive(&to, p[1], &e), 0);
	assert_int_equal(file_of(to.tasks[0]), files[0]);
	assert_int_equal(file_of(to.tasks[1]), files[1]);
	for (int i = 2; i < CGROUP_PARTS; i++)
		assert_int_equal(to.tasks[i], -1);
	assert_true(to.pids_limited && !to.memory_limited);
	cgroup_close(&to);
	/* Fewer than the message says. */
	assert_int_equal(write(p[0], "\2\0\0", 3), 3);
	assert_int_equal(cgroup_receive(&to, p[1], &e), -EPROTO);
	/* Nobody is there any more: an end for the one, and for the other somebody else's news. */
	close(p[0]);
	assert_int_equal(cgroup_receive(&to, p[1], &e), -EPIPE);
	close(p[1]);
	assert_int_equal(host_socketpair(SOCK_STREAM, p), 0);
	close(p[1]);
	assert_int_equal(cgroup_send(&from, p[0], &e), 0);
	close(p[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_freeze),
		cmocka_unit_test(test_no_freezer),
		cmocka_unit_test(test_numbers_v2),
		cmocka_unit_test(test_limits_v2),
		cmocka_unit_test(test_passed),
	};

	return cmocka_run_group_tests_name("cgroup", tests, NULL, NULL);
}
