/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_SOCK_MSG_H
#define WARD_TIER_KERNEL_SOCK_MSG_H

#include "tier/kernel/sock/sock.h"

/* What the socket calls of sys/ share. */

/* The socket behind @fd, borrowed; NULL with *ret_err. */
struct sock *sock_from(struct task *task, int fd, struct file **ret_file, long *ret_err);
/* Addresses in and out; lengths as accept(2) and recvfrom(2) have them. 0 or -errno. */
long saddr_in(struct task *task, gva_t at, int32_t len, struct saddr *ret);
long saddr_out(struct task *task, gva_t at, gva_t lenp, const struct saddr *a);

/* Control messages: bytes of sendmsg to files and credentials, and back. */
int scm_parse(
	struct task *task, const struct sock *s, gva_t control, uint64_t len, struct scm *ret);
/* One message, cut to @room with MSG_CTRUNC in *flags; what it took is in *ret_used. */
long scm_put(struct task *task, gva_t at, uint64_t room, int level, int type, const void *data,
	size_t len, uint64_t *ret_used, unsigned *flags);
/* Writes what fits; files become descriptors. Sets *ret_len and MSG_CTRUNC in *flags. */
long scm_give(struct task *task, struct sock *s, struct scm *scm, gva_t control, uint64_t room,
	bool cloexec, uint64_t *ret_len, unsigned *flags);

/* ipctl.c: one control message of a sender; what its options say for the rest; all that the
 * receiver @s asked for. */
int ip_ctl_parse(const struct sock *s, int level, int type, const uint8_t *data, size_t len,
	struct ip_ctl *c);
void ip_ctl_fill(const struct sock *s, const struct in6_addr *to, struct ip_ctl *c);
bool ip_ctl_timed(const struct sock *s);
long ip_ctl_give(struct task *task, const struct sock *s, const struct ip_ctl *c, gva_t at,
	uint64_t room, uint64_t *ret_used, unsigned *flags);

#endif
