/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/fault.c - breaks the world on purpose. Only in ward-fault, never in ward.
 *
 * Owns:  the count of host calls of this process (a copy of it after a clone).
 * Rules: WARD_FAULT_AT=n picks the n-th call; WARD_FAULT_DO is "kill" or an errno number.
 *        WARD_FAULT_SIDE says whose calls are counted, from 1: "parent" ward's own, "child" those
 * of the first process of the sandbox, "zygote" those of what that one forks. Without it
 * everybody's, each for itself. WARD_FAULT_LOG=path appends the name of each call.
 * WARD_FAULT_LACK=name answers EOPNOTSUPP to every call of that name, as a kernel that does not
 * have it. When nothing is due, no call is made here: who passes may be in a jail.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/ckd.h"
#include "host/gate.h"

struct fault {
	bool ready;
	unsigned birth; /* 0: ward; 1: a child of it; 2: a child of that */
	int side;       /* the birth that counts; -1: all */
	long at, count;
	int code; /* 0: kill */
	int log;
	const char *lack;
	pid_t *pid; /* in a page that a new process finds empty */
};

static int side_of(const char *s)
{
	static const char *const names[] = { "parent", "child", "zygote" };
	int i = (int)ARRAY_LEN(names) - 1;

	while (i >= 0 && (!s || strcmp(s, names[i]) != 0))
		i--;
	return i;
}

static void fault_init(struct fault *f)
{
	const char *at = getenv("WARD_FAULT_AT"), *what = getenv("WARD_FAULT_DO");
	const char *log = getenv("WARD_FAULT_LOG");

	f->ready = true;
	f->lack = getenv("WARD_FAULT_LACK");
	f->at = at ? strtol(at, NULL, 10) : 0;
	f->code = what && strcmp(what, "kill") != 0 ? (int)strtol(what, NULL, 10) : 0;
	f->side = side_of(getenv("WARD_FAULT_SIDE"));
	f->log = -1;
	f->pid = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (f->pid == MAP_FAILED || madvise(f->pid, 4096, MADV_WIPEONFORK) < 0)
		_exit(99);
	*f->pid = getpid();
	if (log) {
		int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

		/* Out of the way of descriptors that have their numbers by agreement. */
		f->log = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 500);
		if (fd >= 0)
			close(fd);
	}
}

/* The first call after a birth is made before any jail. */
static void fault_born(struct fault *f)
{
	*f->pid = getpid();
	f->birth++;
	if (f->side >= 0)
		f->count = 0;
}

static bool lacks(const struct fault *f, const char *call)
{
	return f->lack && strcmp(f->lack, call) == 0;
}

static struct fault f;

void host_gate_errand(bool begins)
{
	*f.pid = getpid();
	f.birth += begins ? 1 : -1u;
	if (f.side > 0) /* the count is one with ward's own */
		f.count = 0;
}

int host_gate(const char *call)
{
	if (!f.ready)
		fault_init(&f);
	if (!*f.pid)
		fault_born(&f);
	if (f.side != -1 && f.side != (int)f.birth)
		return lacks(&f, call) ? -EOPNOTSUPP : 0;
	__atomic_add_fetch(&f.count, 1, __ATOMIC_RELAXED);
	if (f.log >= 0) {
		/* Best effort: a log line that is lost only makes a test harder to read. */
		ssize_t n = write(f.log, call, strlen(call));

		n += write(f.log, "\n", 1);
		(void)n;
	}
	if (!f.at || f.count != f.at)
		return lacks(&f, call) ? -EOPNOTSUPP : 0;
	if (!f.code) {
		syscall(SYS_tgkill, *f.pid, *f.pid, SIGKILL);
		_exit(137); /* the first process of a pid namespace cannot kill itself */
	}
	return -f.code;
}
