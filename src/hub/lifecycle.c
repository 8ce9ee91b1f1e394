/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/lifecycle.c - the states of a sandbox and what may follow what.
 *
 * Owns:  the one table of transitions. box.c carries them out and writes each down first.
 *
 *                 +-> ready --+
 *      creating --+-----------+-> running <-> pausing/paused/resuming
 *                                    |
 *             any of these -> stopping -> stopped;  any -> failed
 */
#include "base/ckd.h"
#include "hub/lifecycle.h"

enum { ENDS = 1 << HUB_STOPPING | 1 << HUB_STOPPED | 1 << HUB_FAILED };

/* stopped follows directly where the supervisor itself ended it: its time was over, or its first
 * process died. paused follows running directly where the supervisor paused it at its deadline. */
static const struct {
	const char *name;
	bool live, moving;
	unsigned next; /* 1 << state */
} states[HUB_STATES] = {
	[HUB_CREATING] = { "creating", true, true, 1 << HUB_READY | 1 << HUB_RUNNING | ENDS },
	[HUB_READY] = { "ready", true, false, 1 << HUB_RUNNING | ENDS },
	[HUB_RUNNING] = { "running", true, false, 1 << HUB_PAUSING | 1 << HUB_PAUSED | ENDS },
	[HUB_PAUSING] = { "pausing", true, true, 1 << HUB_PAUSED | 1 << HUB_RUNNING | ENDS },
	[HUB_PAUSED] = { "paused", true, false, 1 << HUB_RESUMING | ENDS },
	[HUB_RESUMING] = { "resuming", true, true, 1 << HUB_RUNNING | 1 << HUB_PAUSED | ENDS },
	[HUB_STOPPING] = { "stopping", true, true, 1 << HUB_STOPPED | 1 << HUB_FAILED },
	[HUB_STOPPED] = { "stopped", false, false, 0 },
	[HUB_FAILED] = { "failed", false, false, 0 },
};

const char *hub_state_name(enum hub_state s)
{
	return states[s].name;
}

bool lifecycle_allows(enum hub_state from, enum hub_state to)
{
	return states[from].next >> to & 1;
}

bool lifecycle_is_live(enum hub_state s)
{
	return states[s].live;
}

bool lifecycle_is_moving(enum hub_state s)
{
	return states[s].moving;
}

unsigned lifecycle_live_states(void)
{
	unsigned bits = 0;

	for (unsigned i = 0; i < HUB_STATES; i++)
		bits |= (unsigned)states[i].live << i;
	return bits;
}

unsigned lifecycle_ended_states(void)
{
	return ((1u << HUB_STATES) - 1) & ~lifecycle_live_states();
}

bool lifecycle_is_state(int state)
{
	return state >= 0 && state < HUB_STATES;
}
