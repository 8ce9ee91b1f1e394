/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HUB_LIFECYCLE_H
#define WARD_HUB_LIFECYCLE_H

#include <stdbool.h>

#include "hub/hub.h"

/*
 * The one table of what may follow what. Pure. Numbers of states are stored: they never change.
 */
bool lifecycle_allows(enum hub_state from, enum hub_state to);
bool lifecycle_is_live(enum hub_state s);   /* has, or may have, a supervisor */
bool lifecycle_is_moving(enum hub_state s); /* somebody works on it; the next state will come */
/* 1 << state for all that are live, and for those that have ended. */
unsigned lifecycle_live_states(void);
unsigned lifecycle_ended_states(void);
/* Is @state a number that enum hub_state has? */
bool lifecycle_is_state(int state);

#endif
