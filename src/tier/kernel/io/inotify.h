/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_IO_INOTIFY_H
#define WARD_TIER_KERNEL_IO_INOTIFY_H

#include <stdint.h>

/* inotify: watches hang on inodes (inode->watches); vfs/ tells them through kernel.notify. */
struct buf;
struct kernel;
struct file;
struct inode;
struct file_ops;
struct walk;

extern const struct file_ops inotify_ops;

struct file *inotify_create(struct kernel *k, unsigned flags, int *ret_err);
int inotify_check(const struct file *f); /* -EINVAL: not one of these */
/* The watch's number, or a negative errno. @mask as the guest gave it. */
int inotify_add(struct file *f, struct inode *i, uint32_t mask);
/* All inodes that @f watches. */
void inotify_each(const struct file *f, void (*fn)(void *arg, struct inode *i), void *arg);
int inotify_remove(struct file *f, int32_t wd);
/* A line of /proc/PID/fdinfo for each watch; nothing when @f is another kind of file. */
void inotify_show_watches(const struct file *f, struct buf *out);

/* fcntl(F_NOTIFY): a signal to the owner of the directory @f, open at @fd, for what @arg names. */
int dnotify_set(struct file *f, int fd, uint32_t arg);
void dnotify_forget(struct file *f);
void dnotify_walk(struct file *f, struct walk *w);

#endif
