/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_IO_PIPE_H
#define WARD_TIER_KERNEL_IO_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Pipes and named pipes. The state hangs on the inode (inode->fifo), so that both ends, and every
 * opening of one name, find the same one; it lives as long as a file has it open.
 */
struct task;
struct file;
struct inode;
struct kernel;
struct file_ops;

extern const struct file_ops pipe_ops;

/* Two open files, read and write end, one reference each: 0 or a negative errno.
 * @flags: O_NONBLOCK, O_DIRECT (packets). */
int pipe_create(struct kernel *k, unsigned flags, struct file **ret_read, struct file **ret_write);

/* inode_ops.open of a FIFO: makes @f an end of it. -ENXIO: a writer with O_NONBLOCK, no reader. */
int fifo_open(struct inode *i, struct file *f, struct task *t);
/*
 * What open(2) then waits for: a partner. 0 when there is one, or wait_block()'s answers. The file
 * must live across re-entries (keep it in call.own); call.u[15] is used.
 */
long fifo_open_wait(struct task *t, struct file *f);
bool file_is_pipe(const struct file *f);

/* F_GETPIPE_SZ and F_SETPIPE_SZ: bytes or a negative errno (-EBADF: not a pipe). */
long pipe_size(struct file *f);
long pipe_set_size(struct file *f, struct task *t, uint64_t bytes);
/* For splice and tee: bytes that a write could place now; a copy of what lies in front (0: empty);
 * dropping it; no writer left; no reader left. */
uint64_t pipe_room(const struct file *f);
ssize_t pipe_peek(const struct file *f, void *buf, size_t len);
void pipe_skip(struct file *f, size_t len);
bool pipe_ended(const struct file *f);
bool pipe_broken_now(const struct file *f);
/* Bytes that a reader could have now. */
uint64_t pipe_queued(const struct file *f);

#endif
