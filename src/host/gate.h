/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HOST_GATE_H
#define WARD_HOST_GATE_H

#include <stdbool.h>

/*
 * Passed before every host call. In ward itself it is nothing; in ward-fault it counts, and at the
 * chosen call returns a negative errno or ends the process.
 */
#ifdef WARD_FAULTS
int host_gate(const char *call);
/* A child in the caller's own memory begins, and is over: its calls are a child's. */
void host_gate_errand(bool begins);
#else
static inline int host_gate(const char *call)
{
	(void)call;
	return 0;
}
static inline void host_gate_errand(bool begins)
{
	(void)begins;
}
#endif

#endif
