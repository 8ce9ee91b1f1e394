/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HOST_GATE_H
#define WARD_HOST_GATE_H

/*
 * Passed before every host call. In ward itself it is nothing; in ward-fault it counts, and at the
 * chosen call returns a negative errno or ends the process.
 */
#ifdef WARD_FAULTS
int host_gate(const char *call);
#else
static inline int host_gate(const char *call)
{
	(void)call;
	return 0;
}
#endif

#endif
