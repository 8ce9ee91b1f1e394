/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock/urgent.c - TCP's urgent byte: a mark in the stream, and what stands there.
 *
 * Rules: there is one at a time; a newer one takes its place. A read stops at the mark. The byte
 *        itself is taken with MSG_OOB and left out of the stream, or, with SO_OOBINLINE, is a byte
 *        of the stream like any other.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>

#include "tier/kernel/sock/sock.h"

#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/file.h"

void urgent_sent(struct sock *to, uint8_t byte)
{
	to->urg_seq = to->rx_seq + to->rx_bytes - 1;
	to->urg_byte = byte;
	to->urg = URG_HERE;
	if (to->file)
		file_signal_urgent(to->file);
	wait_wake(&to->wait, POLLPRI);
}

ssize_t urgent_recv(struct sock *s, struct uio *io, struct msg_in *m)
{
	if (sock_opt(s, SOL_SOCKET, SO_OOBINLINE) || s->urg != URG_HERE)
		return -EINVAL; /* none, or it has been taken */
	m->out_flags |= MSG_OOB;
	if (io->left == 0) {
		m->out_flags |= MSG_TRUNC;
		return 0;
	}
	if (uio_out(io, &s->urg_byte, 1) < 1)
		return -EFAULT;
	if (!(m->flags & MSG_PEEK))
		s->urg = URG_TAKEN;
	return 1;
}

uint64_t urgent_before(const struct sock *s)
{
	return s->urg && s->urg_seq > s->rx_seq ? s->urg_seq - s->rx_seq : UINT64_MAX;
}

bool urgent_skips(const struct sock *s)
{
	return s->urg && s->urg_seq == s->rx_seq && !sock_opt(s, SOL_SOCKET, SO_OOBINLINE);
}

void urgent_passed(struct sock *s)
{
	if (s->urg && s->rx_seq > s->urg_seq)
		s->urg = URG_NONE;
}
