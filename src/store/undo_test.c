/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/undo_test.c - cgroups with processes in them, and loop devices.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/ioctl.h>
#include <linux/loop.h>

#include "base/ckd.h"
#include "base/id.h"
#include "host/host.h"
#include "store/testdir.h"
#include "store/undo.h"

/* Where a test may make a cgroup: pids where it is mounted on its own (v1), else the v2 tree. */
static const char *const hierarchies[] = {
	"/sys/fs/cgroup/pids",
	"/sys/fs/cgroup/freezer",
	"/sys/fs/cgroup/unified",
	"/sys/fs/cgroup",
};

/* A process in the cgroup at @path that forks for ever; children of it too. */
static pid_t enter_and_fork(const char *path)
{
	pid_t pid = fork();
	int dir;

	if (pid)
		return pid;
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* "0" to v1's tasks does not stall; v2 has cgroup.procs only. */
	if (host_put(dir, "tasks", "0") < 0 && host_put(dir, "cgroup.procs", "0") < 0)
		_exit(1);
	setsid();
	for (unsigned i = 0; i < 5; i++) {
		if (fork() == 0)
			for (;;)
				pause();
	}
	kill(getppid(), SIGUSR1);
	for (;;)
		pause();
}

static volatile sig_atomic_t ready;

static void on_ready(int sig)
{
	(void)sig;
	ready = 1;
}

static bool try_one(const char *root)
{
	char id[ID_LEN + 1], path[128], inner[160];
	struct err e = { 0 };
	struct stat st;
	int status;
	pid_t pid;

	assert_int_equal(id_make(id), 0);
	assert_int_equal(str_fmt(path, sizeof(path), "%s/ward-test-%s", root, id), 0);
	assert_int_equal(str_fmt(inner, sizeof(inner), "%s/inner", path), 0);
	if (mkdir(path, 0755) < 0)
		return false;
	if (mkdir(inner, 0755) < 0) {
		rmdir(path);
		return false; /* not a cgroup, but a place for them */
	}
	ready = 0;
	pid = enter_and_fork(inner);
	while (!ready && waitpid(pid, &status, WNOHANG) == 0)
		usleep(500);
	if (!ready) {
		rmdir(inner);
		rmdir(path);
		return false;
	}
	cgroup_choke(path);
	if (cgroup_remove(path, &e) < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(stat(path, &st), -1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(cgroup_remove(path, &e), 0); /* again: gone already */
	return true;
}

static void cgroups(void **state)
{
	unsigned tried = 0;

	(void)state;
	signal(SIGUSR1, on_ready);
	for (size_t i = 0; i < ARRAY_LEN(hierarchies); i++)
		tried += try_one(hierarchies[i]);
	print_message("%u kinds of cgroup hierarchy tried\n", tried);
	if (!tried)
		skip(); /* no cgroup can be made here */
}

static void not_a_cgroup(void **state)
{
	const struct testdir *t = *state;
	struct err e = { 0 };

	assert_int_equal(cgroup_remove(t->path, &e), -EINVAL);
	assert_int_equal(access(t->path, F_OK), 0);
}

static void loops(void **state)
{
	const struct testdir *t = *state;
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), file, dev, n;
	char path[256], name[32];
	struct err e = { 0 };
	struct loop_info64 info;

	if (control < 0)
		skip(); /* no loop devices on this host */
	assert_int_equal(str_fmt(path, sizeof(path), "%s/boxes/disk", t->path), 0);
	file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(file, 1 << 20), 0);
	n = ioctl(control, LOOP_CTL_GET_FREE);
	assert_int_equal(str_fmt(name, sizeof(name), "/dev/loop%d", n), 0);
	dev = open(name, O_RDWR | O_CLOEXEC);
	close(control);
	if (n < 0 || dev < 0)
		skip(); /* the host has them, but not for us */
	assert_int_equal(ioctl(dev, LOOP_SET_FD, file), 0);
	close(file);
	assert_int_equal(unlink(path), 0); /* also found when the file has lost its name */
	if (loop_detach(path, &e) < 0)
		fail_msg("%s", e.msg);
	close(dev); /* the last one out detaches */
	dev = open(name, O_RDWR | O_CLOEXEC);
	assert_int_equal(ioctl(dev, LOOP_GET_STATUS64, &info), -1);
	assert_int_equal(errno, ENXIO);
	close(dev);
	assert_int_equal(loop_detach(path, &e), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, testdir_setup, testdir_teardown)
	const struct CMUnitTest tests[] = {
		T(cgroups),
		T(not_a_cgroup),
		T(loops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
