/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_BASE_OWN_H
#define WARD_BASE_OWN_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * own_ on the variable, take_ at the hand-over: an early return then cleans up by itself.
 *
 *	own_fd int fd = host_open(...);
 *	...
 *	*ret_fd = take_fd(&fd);
 */
#define own_fd __attribute__((cleanup(own_fd_done_)))
#define own_mem __attribute__((cleanup(own_mem_done_)))
#define own_file __attribute__((cleanup(own_file_done_)))

static inline void own_fd_done_(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void own_mem_done_(void *p)
{
	free(*(void **)p);
}

static inline void own_file_done_(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline int take_fd(int *fd)
{
	int n = *fd;

	*fd = -1;
	return n;
}

static inline void *take_ptr_(void **p)
{
	void *v = *p;

	*p = NULL;
	return v;
}

#define take_ptr(p) ((__typeof__(*(p)))take_ptr_((void **)(p)))

#endif
