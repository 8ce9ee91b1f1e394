/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_VFS_PIDFD_H
#define WARD_TIER_KERNEL_VFS_PIDFD_H

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct file;
struct task;
struct proc;
struct file_ops;

extern const struct file_ops pidfd_ops;

/* A new descriptor for @p in @t's table: its number, or -errno. Always close-on-exec. */
int pidfd_install(struct task *t, struct proc *p, unsigned flags);
/* The pid behind a descriptor; -EBADF when it is not one, -ESRCH when the process is gone. */
int32_t pidfd_pid(struct task *t, int fd);
/* The same; a directory /proc/PID serves as well. */
int32_t pidfd_signal_pid(struct task *t, int fd);
/* @p has been waited for, and its number is free: its descriptors keep how it ended. */
void pidfds_reaped(struct proc *p);
/* Lines of /proc/PID/fdinfo; nothing when @f is another kind of file. */
void pidfd_show_who(struct file *f, const struct task *viewer, struct buf *out);
bool pidfd_is_nonblocking(struct task *t, int fd);

#endif
