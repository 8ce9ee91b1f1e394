/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io/fanask.c - questions: an open, a read or an execve that waits until somebody has allowed it.
 *
 * Owns:  struct fan_ask.
 * Rules: who asks is a blocked call like any other, entered again from the top: what it has been
 *        told hangs on the call (task->call.asks). A group that goes allows everything. The agent
 *        (pid 1) is never kept waiting: it speaks for the sandbox.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tier/kernel/io/fan.h"

#include "tier/kernel/io/iostate.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/dentry.h"
#include "tier/kernel/vfs/notify.h"

/* It waits no longer. */
static void take_off(struct fan_ask *a)
{
	struct fan_ask **at;

	if (!a->group)
		return;
	for (at = &a->group->asks; *at != a; at = &(*at)->group_next)
		;
	*at = a->group_next;
	a->group = NULL;
}

void fan_asks_drop(struct fan_ask *asks)
{
	while (asks) {
		struct fan_ask *a = asks;

		asks = a->next;
		if (a->event) {
			a->event->ask = NULL;
			fan_event_drop(a->group, a->event);
		}
		take_off(a);
		inode_unref(a->inode);
		free(a);
	}
}

void fan_ask_answer(struct fan_ask *a, int answer)
{
	struct fan_group *g = a->group;

	a->answer = answer;
	take_off(a);
	wait_wake(&g->asked, 0);
}

void fan_ask_read(struct fan_ask *a, int fd)
{
	a->fd = fd;
}

int fan_answer_fd(struct fan_group *g, int fd, int answer)
{
	for (struct fan_ask *a = g->asks; a; a = a->group_next) {
		if (a->fd == fd) {
			fan_ask_answer(a, answer);
			return 0;
		}
	}
	return -ENOENT;
}

void fan_asks_end(struct fan_group *g)
{
	while (g->asks) {
		struct fan_ask *a = g->asks;

		if (a->event)
			a->event->ask = NULL;
		a->event = NULL;
		fan_ask_answer(a, 0);
	}
}

static struct fan_ask *asked_before(struct task *t, uint64_t order, uint32_t mask, struct inode *i)
{
	struct fan_ask *a = t->call.asks;

	while (a && (a->order != order || a->mask != mask || a->inode != i))
		a = a->next;
	return a;
}

/* NULL: nobody will be asked, there is no room. */
static struct fan_ask *ask_create(struct task *t, struct fan_group *g, const struct notify *n)
{
	struct fan_ask *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->event = fan_queue(g, n, n->mask & FAN_W_PERM, false, false);
	if (!a->event) {
		free(a);
		return NULL;
	}
	a->event->ask = a;
	a->inode = inode_ref(n->inode);
	a->mask = n->mask & FAN_W_PERM;
	a->order = g->order;
	a->fd = -1;
	a->group = g;
	a->group_next = g->asks;
	g->asks = a;
	a->next = t->call.asks;
	t->call.asks = a;
	return a;
}

long fan_ask(struct task *t, struct path p, uint32_t mask)
{
	struct dentry *d = p.dentry;
	struct inode *i = d->inode;
	struct notify n = { .mask = mask | (S_ISDIR(i->mode) ? FAN_W_ON_DIR : 0),
		.inode = i,
		.dir = d->parent ? d->parent->inode : NULL,
		.name = d->name,
		.path = p };
	struct fan_round r;

	if (t->proc == t->k->init || !(S_ISREG(i->mode) || S_ISDIR(i->mode)))
		return 0;
	fan_round_begin(&r, &n);
	while (fan_round_next(&r)) {
		struct fan_ask *a;

		if (!(fan_round_mask(&r, n.mask) & FAN_W_PERM))
			continue;
		a = asked_before(t, r.group->order, mask, i);
		if (!a)
			a = ask_create(t, r.group, &n);
		if (!a || (!a->group && a->answer == 0))
			continue;
		if (!a->group)
			return a->answer;
		if (wait_on(t, &r.group->asked, 0) < 0)
			return -ENOMEM;
		return wait_block(t);
	}
	return 0;
}
