/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_AGENT_SPAWN_H
#define WARD_AGENT_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "proto/proto.h"

struct identity;

/* Where a command is looked for whose environment does not say. */
#define SPAWN_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* One command to start. What it points to belongs to the caller and lives until spawn() is back. */
struct spawn {
	char **argv;      /* NULL-terminated; argv[-1] exists, and is the spawner's to use */
	char **env;       /* NULL-terminated */
	const char *path; /* where to look for a name without a slash */
	const char *cwd;  /* NULL: stay */
	bool or_root;     /* where there is no directory @cwd: "/" */
	const struct identity *who; /* NULL: stay */
	int fds[3];                 /* the second and third may be -1: as the first */
	bool tty;                   /* fds[0] becomes the controlling terminal */
	/* Why there is no command; written by the child, which shares our memory until exec. */
	volatile enum start_step step;
	volatile int code;
};

/*
 * Starts it in a session of its own, with no signal blocked and no descriptor but the three. The
 * caller has all signals blocked and none ignored. The pid; or a negative errno, with s->step set.
 * No process is left behind then.
 */
pid_t spawn(struct spawn *s, void *stack, size_t stack_size);

/*
 * Its parts, for standby.c. In the child, which exits with what they return: the first takes fds
 * and tty alone, and is 0 when it can go on; the second comes back only when it failed. In the
 * parent, when the child has exec'd or ended: what spawn() returns.
 */
int spawn_begin(struct spawn *s);
int spawn_finish(struct spawn *s);
pid_t spawn_outcome(const struct spawn *s, pid_t pid);

#endif
