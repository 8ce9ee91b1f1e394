/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/spare.c - what the next command needs, made while nobody waits for it.
 *
 * Owns:  one open /dev/null and two pipes, until a command takes them.
 * Rules: each goes to one command only, as if it had been made for it. Whoever finds none makes
 *        one; that one could not be made ahead is no error.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "agent/state.h"
#include "base/ckd.h"

void spare_init(struct spare *sp)
{
	*sp = (struct spare){ .null = -1, .pipes = { { -1, -1 }, { -1, -1 } } };
}

static int open_null(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int spare_null(struct agent *a)
{
	int fd = a->spare.null;

	a->spare.null = -1;
	return fd >= 0 ? fd : open_null();
}

int spare_pipe(struct agent *a, int ret[2])
{
	for (unsigned i = 0; i < ARRAY_LEN(a->spare.pipes); i++) {
		int *p = a->spare.pipes[i];

		if (p[0] < 0)
			continue;
		ret[0] = p[0];
		ret[1] = p[1];
		p[0] = p[1] = -1;
		return 0;
	}
	return pipe2(ret, O_CLOEXEC) < 0 ? -errno : 0;
}

void spare_make(struct agent *a)
{
	struct spare *sp = &a->spare;

	if (sp->null >= 0 || a->standby.pid || stream_count(a, STREAM_PROCESS))
		return;
	for (unsigned i = 0; i < ARRAY_LEN(sp->pipes); i++)
		if (sp->pipes[i][0] < 0 && pipe2(sp->pipes[i], O_CLOEXEC) < 0)
			return;
	sp->null = open_null();
}
