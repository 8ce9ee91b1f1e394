/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_VFS_LEASE_H
#define WARD_TIER_KERNEL_VFS_LEASE_H

#include <stdbool.h>
#include <stdint.h>

struct file;
struct inode;
struct task;

/* fcntl(F_SETLEASE): @type is F_RDLCK, F_WRLCK or F_UNLCK; @fd: for the signal. */
long lease_set(struct task *t, struct file *f, int fd, uint64_t type);
int lease_get(struct file *f);
/* @i is about to be opened or cut: 0: nobody minds. -EAGAIN: somebody does, and !@wait. Else
 * wait_block()'s answers. */
long lease_break(struct task *t, struct inode *i, bool write, bool wait);
/* All leases of a numbered inode; files are numbered, too. */
struct walk;
void leases_walk(struct inode *i, struct walk *w);
void leases_release(struct file *f); /* the last reference of @f goes; inode.leases is there */

#endif
