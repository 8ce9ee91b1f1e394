/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_IO_DISK_H
#define WARD_TIER_KERNEL_IO_DISK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Host files whose disk has to be waited for. Such a call becomes a job: a thread of its own does
 * the waiting, without the lock, on a descriptor of its own; the call blocks as on anything else
 * and is entered again. A read's job only brings the bytes into the host's memory: the call then
 * reads them as if they had always been there.
 */
struct kernel;
struct task;
struct inode;
struct disk_job;
struct disk_state;

/* What a job asks the host for; a test puts its own in place of these. */
struct disk_ops {
	ssize_t (*read_now)(
		int fd, void *buf, size_t len, int64_t off); /* -EAGAIN: not in memory */
	ssize_t (*read)(int fd, void *buf, size_t len, int64_t off);
	int (*sync)(int fd, bool data_only);
};

/* Until this is called everything waits in place. */
int disk_init(struct kernel *k, const struct disk_ops *ops); /* NULL: the host's own */
void disk_done(struct kernel *k);

/* Is [@off, @off + @len) of @fd in memory? 0: read it. SYS_BLOCK: it is being fetched; return this
 * from the call. @i remembers what it was told about its file system; @t NULL: 0. */
long disk_fetch(struct task *t, struct inode *i, int fd, int64_t off, size_t len);
/* @len bytes at @off without waiting, in one host call: false when they are not all in memory, or
 * nobody can say. */
bool disk_read_now(struct task *t, struct inode *i, int fd, void *buf, size_t len, int64_t off);
/* fsync: its result, or SYS_BLOCK. */
long disk_sync(struct task *t, int fd, bool data_only);

void disk_drop(struct disk_job *j); /* the call is over; NULL: nothing */

#endif
