/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_WATCHES_H
#define WARD_TIER_VM_WATCHES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/err.h"

/* The descriptors that a machine's device thread waits on. */
enum { EVENTS_AT_ONCE = 16 };

/* @fn must not wait, and may change or end any watch, its own too. */
struct watch {
	int fd; /* borrowed; -1: not watched */
	bool armed;
	uint32_t mask;                          /* what it is watched for, while it is */
	void (*fn)(void *arg, uint32_t events); /* EPOLL... */
	void *arg;
};

struct watches {
	int poll;                                 /* -1: none */
	struct epoll_event batch[EVENTS_AT_ONCE]; /* being served now */
	unsigned count;
};

int watches_init(struct watches *ev, struct err *e);
void watches_done(struct watches *ev);

int watches_add(struct watches *ev, struct watch *w, int fd, uint32_t mask, struct err *e);
/* 0: nothing for now, not even a hang-up. */
void watches_change(struct watches *ev, struct watch *w, uint32_t mask);
void watches_remove(struct watches *ev, struct watch *w); /* also if it is not */

/* Waits for a batch (@timeout_ms -1: for ever). 0, also when interrupted. */
int watches_wait(struct watches *ev, int timeout_ms, struct err *e);
/* Calls whoever the batch is for. */
void watches_serve(struct watches *ev);

#endif
