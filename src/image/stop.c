/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/stop.c - noticing that the user wants an end.
 *
 * Owns:  the signal mask of the process while an import or build runs.
 * Rules: no handler, so no global: a blocked signal stays pending and can be asked for.
 */
#include <errno.h>
#include <signal.h>

#include "base/ckd.h"
#include "image/stop.h"

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };

static void set_mask(int how)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		sigaddset(&set, signals[i]);
	sigprocmask(how, &set, NULL);
}

void stop_block(void)
{
	set_mask(SIG_BLOCK);
}

void stop_unblock(void)
{
	set_mask(SIG_UNBLOCK);
}

bool stop_asked(void)
{
	sigset_t set;

	sigpending(&set);
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		if (sigismember(&set, signals[i]) == 1)
			return true;
	return false;
}

int stop_check(struct err *e)
{
	return stop_asked() ? err_say(e, EINTR, "interrupted; nothing was kept") : 0;
}
