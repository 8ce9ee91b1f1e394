/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_IO_EVENT_H
#define WARD_TIER_KERNEL_IO_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "tier/kernel/task/signal.h"

/* eventfd, signalfd and timerfd: files without a name. Each create gives one reference or NULL. */
struct kernel;
struct task;
struct file;
struct file_ops;

extern const struct file_ops eventfd_ops, signalfd_ops, timerfd_ops;

struct file *eventfd_create(struct kernel *k, uint32_t count, unsigned flags);

bool file_is_eventfd(const struct file *f);
void eventfd_add(struct file *f, uint64_t n); /* as much of it as there is room for */

struct file *signalfd_create(struct kernel *k, gsigset_t mask, unsigned flags);
int signalfd_set(struct file *f, gsigset_t mask); /* -EINVAL: not a signalfd */

struct file *timerfd_file(struct kernel *k, int clock, unsigned flags);
struct timerfd_value {
	int64_t value, interval; /* ns */
};
/* @value.value: ns from now, or on the timer's clock when @absolute; 0 disarms. */
int timerfd_set(struct file *f, bool absolute, const struct timerfd_value *value,
	struct timerfd_value *ret_old);
int timerfd_get(struct file *f, struct timerfd_value *ret);

#endif
