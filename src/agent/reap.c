/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/reap.c - the dead are reaped, and the rest are killed.
 *
 * Owns:  nothing.
 * Rules: PID 1 kills with one call, and its own end kills again. A subreaper has no such call: it
 *        kills its children, becomes the parent of theirs, and goes on until it has none.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <sys/wait.h>

#include "agent/procfs.h"
#include "agent/state.h"
#include "base/clock.h"

void reap(struct agent *a)
{
	while (!a->over) {
		struct rusage used;
		int status;
		pid_t pid = wait4(-1, &status, WNOHANG, &used);

		if (pid < 0 && errno == EINTR)
			continue;
		if (pid < 0)
			a->childless = true;
		if (pid <= 0)
			return;
		standby_ended(a, pid);
		process_exited(a, pid, status, &used);
	}
}

/* Every child by the table of processes; false when there is none to read. */
static bool kill_children(struct agent *a, int sig)
{
	struct procfs p;
	pid_t pid;

	if (procfs_open(&p) < 0)
		return false;
	/* Numbers of another pid namespace would hit strangers. */
	if (procfs_self(&p) != a->pid) {
		procfs_close(&p);
		return false;
	}
	while ((pid = procfs_next(&p)) > 0) {
		struct procfs_stat st;

		if (procfs_stat(&p, pid, &st) == 0 && st.ppid == a->pid)
			kill(pid, sig);
	}
	procfs_close(&p);
	return true;
}

/* What is known without /proc: the groups that our own processes lead. */
static void kill_groups(struct agent *a, int sig)
{
	for (unsigned i = 0; i < a->top; i++)
		if (stream_is_process(&a->streams[i]) && !a->streams[i].proc.exited)
			kill(-a->streams[i].proc.pid, sig);
}

void kill_all(struct agent *a, int sig)
{
	if (!a->not_init) {
		kill(-1, sig);
		return;
	}
	kill_groups(a, sig);
	kill_children(a, sig);
}

void kill_rest(struct agent *a)
{
	uint64_t until = 0;

	for (;;) {
		pid_t pid = waitpid(-1, NULL, WNOHANG);

		if (pid > 0 || (pid < 0 && errno == EINTR))
			continue;
		if (pid < 0)
			return; /* no child, so no descendant: an orphan would be ours */
		if (!until)
			until = clock_ns() + AGENT_KILL_MS * 1000000ULL;
		else if (clock_ns() > until)
			return; /* in the kernel's hands; whoever set the wall up ends it */
		kill_all(a, SIGKILL);
		nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
	}
}
