/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/fds.c - descriptors that come with bytes over a socket.
 *
 * Owns:  the control messages of a read.
 * Rules: every descriptor that arrives is in the queue or closed.
 */
#include "proto/fds.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

enum { PER_READ = 16 };

static int keep(const struct fd_queue *q, struct msghdr *msg)
{
	int r = 0;

	for (struct cmsghdr *h = CMSG_FIRSTHDR(msg); h; h = CMSG_NXTHDR(msg, h)) {
		unsigned count = (unsigned)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		for (unsigned i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(fd));
			if (*q->count < q->max) {
				q->fds[(*q->count)++] = fd;
			} else {
				close(fd);
				r = -EPROTO;
			}
		}
	}
	return r;
}

ssize_t fds_receive(int fd, void *to, size_t cap, const struct fd_queue *q)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(PER_READ * sizeof(int))];
	} control;
	struct iovec iov = { to, cap };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n;

	do
		n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return keep(q, &msg) < 0 ? -EPROTO : n;
}

int fds_next(const struct fd_queue *q)
{
	int fd;

	if (!*q->count)
		return -1;
	fd = q->fds[0];
	memmove(q->fds, q->fds + 1, --*q->count * sizeof(q->fds[0]));
	return fd;
}
