/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_IO_EPOLL_H
#define WARD_TIER_KERNEL_IO_EPOLL_H

#include <stdbool.h>
#include <stdint.h>

/*
 * epoll. An epoll does not keep the files that it watches alive: file_unref() calls epoll_forget()
 * when the last reference of a file goes (file->epolls is not NULL).
 */
struct kernel;
struct task;
struct file;
struct file_ops;

/* As the guest has it on x86-64: packed. */
struct gepoll_event {
	uint32_t events;
	uint64_t data;
} __attribute__((packed));

struct file *epoll_create_file(struct kernel *k);
bool file_is_epoll(const struct file *f);
/* EPOLL_CTL_*: 0 or a negative errno. */
int epoll_control(struct task *t, struct file *ep, int op, int fd, struct file *target,
	const struct gepoll_event *ev);
/* How many files it watches. */
int epoll_count(const struct file *ep);
/* Takes up to @max events; how many, 0 when there are none. */
int epoll_collect(struct task *t, struct file *ep, struct gepoll_event *out, int max);
/* Events of the last epoll_collect() that could not be delivered: they are looked at again. */
void epoll_uncollect(struct task *t, struct file *ep);
/* Registers @t for news and blocks. */
long epoll_block(struct task *t, struct file *ep);
void epoll_forget(struct file *f);

extern const struct file_ops epoll_ops;
/* Loading: makes @f an epoll that watches nothing yet. */
int epoll_prepare(struct file *f);

#endif
