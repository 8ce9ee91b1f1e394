/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/fault.c - breaks the world on purpose. Only in ward-fault, never in ward.
 *
 * Owns:  the count of host calls of this process (a copy of it after a clone).
 * Rules: WARD_FAULT_AT=n picks the n-th call; WARD_FAULT_DO is "kill" or an errno number. With
 *        WARD_FAULT_SIDE=child only the first process of the sandbox counts, from 1; with "parent"
 *        only ward itself. WARD_FAULT_LOG=path appends the name of each call. WARD_FAULT_LACK=name
 *        answers EOPNOTSUPP to every call of that name, as a kernel that does not have it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/gate.h"

struct fault {
	bool ready, child_side, parent_side;
	long at, count;
	int code; /* 0: kill */
	int log;
	const char *lack;
	pid_t pid;
};

static void fault_init(struct fault *f)
{
	const char *at = getenv("WARD_FAULT_AT"), *what = getenv("WARD_FAULT_DO");
	const char *side = getenv("WARD_FAULT_SIDE"), *log = getenv("WARD_FAULT_LOG");

	f->ready = true;
	f->pid = getpid();
	f->lack = getenv("WARD_FAULT_LACK");
	f->at = at ? strtol(at, NULL, 10) : 0;
	f->code = what && strcmp(what, "kill") != 0 ? (int)strtol(what, NULL, 10) : 0;
	f->child_side = side && strcmp(side, "child") == 0;
	f->parent_side = side && strcmp(side, "parent") == 0;
	f->log = -1;
	if (log) {
		int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

		/* Out of the way of descriptors that have their numbers by agreement. */
		f->log = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 500);
		if (fd >= 0)
			close(fd);
	}
}

static bool lacks(const struct fault *f, const char *call)
{
	return f->lack && strcmp(f->lack, call) == 0;
}

int host_gate(const char *call)
{
	static struct fault f;
	bool child;

	if (!f.ready)
		fault_init(&f);
	child = getpid() != f.pid;
	if ((f.child_side && !child) || (f.parent_side && child))
		return lacks(&f, call) ? -EOPNOTSUPP : 0;
	f.count++;
	if (f.log >= 0) {
		/* Best effort: a log line that is lost only makes a test harder to read. */
		ssize_t n = write(f.log, call, strlen(call));

		n += write(f.log, "\n", 1);
		(void)n;
	}
	if (!f.at || f.count != f.at)
		return lacks(&f, call) ? -EOPNOTSUPP : 0;
	if (!f.code) {
		kill(getpid(), SIGKILL);
		_exit(137); /* the first process of a pid namespace cannot kill itself */
	}
	return -f.code;
}
