/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_IO_IOSTATE_H
#define WARD_TIER_KERNEL_IO_IOSTATE_H

#include <stdbool.h>
#include <stdint.h>

/* What the io corner of one sandbox counts. Made on first use, freed with the kernel. */
struct kernel;
struct task;
struct file;
struct wait_queue;
struct file_ops;

struct io_state {
	uint32_t pipe_pages;
	uint32_t epoll_items;
	uint32_t inotify_instances, inotify_watches;
	uint32_t inotify_cookie;
};

struct io_state *io_state(struct kernel *k); /* NULL: no memory */
/* Frees what the io corner holds (io, sock, tty, ipc). After the last file and process are gone. */
void io_done(struct kernel *k);

/* Puts @f (one reference, taken also on failure) at the lowest free descriptor. */
long io_install(struct task *t, struct file *f, bool cloexec);

/* An open file without a name; NULL: no memory (@priv stays the caller's). */
struct file *io_file(
	struct kernel *k, const struct file_ops *ops, unsigned flags, uint32_t mode, void *priv);

/* lseek of files whose position means nothing: it stays where it is. */
int64_t io_no_seek(struct file *f, int64_t off, int whence);

/* What @f's poll says to @t now, without registering. */
unsigned io_poll_state(struct file *f, struct task *t);

/*
 * The queue is going away: everybody on it is roused and taken off. Whoever frees memory that holds
 * a queue calls this first; a waiter then comes back and finds its descriptor closed.
 */
void wait_flush(struct wait_queue *q);

#endif
