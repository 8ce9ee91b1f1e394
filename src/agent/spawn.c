/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/spawn.c - clone and exec.
 *
 * Owns:  nothing.
 * Rules: the child shares our memory and we stand still until it has exec'd or ended: nothing is
 *        copied, and its failure is a value we read, with no pipe between. So, below child(): no
 *        malloc, no lock, no cleanup handler, and only its own stack and struct spawn are written.
 *        All signals are blocked when we come here, so no handler runs in it; none is ignored, so
 *        exec leaves every one at its default.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "agent/spawn.h"
#include "agent/user.h"
#include "base/limits.h"
#include "base/str.h"

/* Ends the child; the parent reads why. */
static int fail(struct spawn *s, enum start_step step, int code)
{
	s->step = step;
	s->code = code;
	return 127;
}

/* The three descriptors to 0, 1, 2, whatever numbers they have now. */
static int place_fds(const int fds[3])
{
	int from[3];

	for (int i = 0; i < 3; i++) {
		int fd = fds[i] < 0 ? fds[0] : fds[i];

		/* Misplaced among the three: out of the way before anything lands on it. */
		from[i] = fd < 3 && fd != i ? fcntl(fd, F_DUPFD, 3) : fd;
		if (from[i] < 0)
			return -errno;
	}
	for (int i = 0; i < 3; i++) {
		int r = from[i] == i ? fcntl(i, F_SETFD, 0) : dup2(from[i], i);

		if (r < 0)
			return -errno;
	}
	return syscall(SYS_close_range, 3, ~0U, 0) < 0 ? -errno : 0;
}

/* Nothing that become() would change. */
static bool is_already(const struct identity *who)
{
	uid_t uid[3];
	gid_t gid[3];

	return !who->group_count && getgroups(0, NULL) == 0 &&
	       getresuid(&uid[0], &uid[1], &uid[2]) == 0 &&
	       getresgid(&gid[0], &gid[1], &gid[2]) == 0 && uid[0] == who->uid &&
	       uid[1] == who->uid && uid[2] == who->uid && gid[0] == who->gid &&
	       gid[1] == who->gid && gid[2] == who->gid;
}

static int become(const struct identity *who)
{
	bool same = who->uid == geteuid() && who->gid == getegid() && !who->group_count;

	if (same && is_already(who))
		return 0;
	/* By number, for this thread alone: the C library's versions take locks. Where the user
	 * namespace forbids setgroups, whoever stays who it is gains nothing by the failure. */
	if (syscall(SYS_setgroups, (size_t)who->group_count, who->groups) < 0 &&
		!(same && errno == EPERM))
		return -errno;
	if (syscall(SYS_setresgid, who->gid, who->gid, who->gid) < 0)
		return -errno;
	return syscall(SYS_setresuid, who->uid, who->uid, who->uid) < 0 ? -errno : 0;
}

/* Comes back only with an errno. A file with no format of its own is a shell script. */
static int exec_file(const struct spawn *s, const char *file)
{
	char *name = s->argv[0];

	execve(file, s->argv, s->env);
	if (errno != ENOEXEC)
		return errno;
	s->argv[-1] = (char *)"/bin/sh";
	s->argv[0] = (char *)file;
	execve("/bin/sh", s->argv - 1, s->env);
	s->argv[0] = name;
	return ENOEXEC;
}

/* Apart, since its room for paths is a page that a name with a slash need not touch. */
static __attribute__((noinline)) int exec_search(const struct spawn *s)
{
	const char *dir = s->path;
	char file[WARD_PATH_MAX];
	bool denied = false;

	while (str_search(&dir, s->argv[0], file, sizeof(file))) {
		int code = exec_file(s, file);

		if (code == EACCES)
			denied = true;
		else if (code != ENOENT && code != ENOTDIR)
			return code;
	}
	return denied ? EACCES : ENOENT;
}

static int exec_named(const struct spawn *s)
{
	if (!*s->argv[0])
		return ENOENT;
	return strchr(s->argv[0], '/') ? exec_file(s, s->argv[0]) : exec_search(s);
}

int spawn_begin(struct spawn *s)
{
	int r;

	setsid();
	if (s->tty && ioctl(s->fds[0], TIOCSCTTY, 0) < 0)
		return fail(s, START_STEP_SETUP, errno);
	r = place_fds(s->fds);
	return r < 0 ? fail(s, START_STEP_SETUP, -r) : 0;
}

static int enter(const struct spawn *s)
{
	if (!s->cwd || chdir(s->cwd) == 0)
		return 0;
	return s->or_root && errno != EACCES && chdir("/") == 0 ? 0 : -errno;
}

int spawn_finish(struct spawn *s)
{
	int r = s->who ? become(s->who) : 0;
	uint64_t none = 0;

	if (r < 0)
		return fail(s, START_STEP_USER, -r);
	r = enter(s);
	if (r < 0)
		return fail(s, START_STEP_CWD, -r);
	/* As a number, so that those which the C library keeps for itself are open too. */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
	return fail(s, START_STEP_EXEC, exec_named(s));
}

static int child(void *arg)
{
	int code = spawn_begin(arg);

	return code ? code : spawn_finish(arg);
}

pid_t spawn_outcome(const struct spawn *s, pid_t pid)
{
	if (!s->code)
		return pid;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return -s->code;
}

pid_t spawn(struct spawn *s, void *stack, size_t stack_size)
{
	pid_t pid;

	s->code = 0;
	s->step = START_STEP_SETUP;
	pid = clone(child, (char *)stack + stack_size, CLONE_VM | CLONE_VFORK | SIGCHLD, s);
	return pid < 0 ? -errno : spawn_outcome(s, pid);
}
