/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_VFS_FDTABLE_H
#define WARD_TIER_KERNEL_VFS_FDTABLE_H

#include <stdbool.h>
#include <stdint.h>

/* Descriptors: a table shared by CLONE_FILES. */
struct file;
struct task;

struct fd_slot {
	struct file *file; /* one reference; NULL: free */
	bool cloexec;
	int mirror; /* host descriptor + 1 of which the guest's process has a copy at this number;
		     * negative: one that can only be read */
};

struct files {
	unsigned refs;
	struct fd_slot *slots;
	unsigned cap, next; /* @next: no free slot below */
};

struct files *files_create(void);
struct files *files_copy(struct files *from); /* fork; NULL: no memory */
struct files *files_ref(struct files *fs);
void files_unref(struct task *t, struct files *fs); /* last one closes all; @t may be NULL */
int files_room(struct files *fs, unsigned need);    /* so many slots; -ENOMEM */
void files_close_exec(struct task *t);

/* The file behind a descriptor, borrowed: good until the lock is given up. NULL: -EBADF.
 * fd_get_path also gives O_PATH files, fd_get does not; but fd_get knows what the task's call
 * waits for (file_hold()). */
struct file *fd_get(struct task *t, int fd);
struct file *fd_get_path(struct task *t, int fd);
/* Lowest free number from @min on; takes the reference on @f ONLY on success. -EMFILE. */
int fd_install(struct task *t, struct file *f, bool cloexec, int min);
/* dup2's: at exactly @fd, closing what was there; takes the reference on success. -EBADF. */
int fd_install_at(struct task *t, struct file *f, bool cloexec, int fd);
int fd_close(struct task *t, int fd); /* 0 or -EBADF */
int fd_room(struct task *t);          /* is there a free number? 0 or -EMFILE */
/* A number that the guest does not use now, below any host's limit, for what its process maps on an
 * order, and no other thread's; -EMFILE. Should the guest get it later, its own file replaces ours
 * there before it is mapped. */
int files_spare(struct task *t);

#endif
