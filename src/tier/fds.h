/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_FDS_H
#define WARD_TIER_FDS_H

#include <string.h>

/* Descriptors of a hand-over, put side by side by one end and taken apart in the same order by the
 * other. */
static inline void fds_add(int *fds, unsigned *count, const int *from, unsigned n)
{
	memcpy(fds + *count, from, n * sizeof(int));
	*count += n;
}

static inline void fds_take(int *to, const int *fds, unsigned *at, unsigned n)
{
	memcpy(to, fds + *at, n * sizeof(int));
	*at += n;
}

#endif
