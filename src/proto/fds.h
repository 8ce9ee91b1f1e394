/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_PROTO_FDS_H
#define WARD_PROTO_FDS_H

#include <stddef.h>
#include <sys/types.h>

/* Descriptors that came with bytes and wait for whoever handles those bytes: the oldest is first.
 */
struct fd_queue {
	int *fds;
	unsigned *count;
	unsigned max;
};

/* As recvmsg() without waiting; what came along goes to the end of @q. -EPROTO: more than it holds,
 * and those are closed. Else a count, or a negative errno. */
ssize_t fds_receive(int fd, void *to, size_t cap, const struct fd_queue *q);
/* The oldest, which is the caller's from now on; -1: none. */
int fds_next(const struct fd_queue *q);

#endif
