/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TRAP_HOSTFILE_H
#define WARD_TIER_KERNEL_TRAP_HOSTFILE_H

struct kernel;
struct file;

/*
 * Host descriptors that ward gave to the sandbox, as guest files: the channel to the agent, the
 * standard streams of a command, the agent's own image. Nothing else of the host is ever a file.
 */
struct file *hostfile_create(
	struct kernel *k, int fd, unsigned flags); /* takes @fd; NULL: no memory */
/* The same of one that came over the channel: opened as it is. */
struct file *hostfile_passed(struct kernel *k, int fd);
/* The channel: a connected stream socket that brings descriptors along. Takes @fd. */
struct file *channel_create(struct kernel *k, int fd);

#endif
