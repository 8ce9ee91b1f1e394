/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_PROTO_FLOW_H
#define WARD_PROTO_FLOW_H

#include <errno.h>
#include <stdint.h>

#include "base/limits.h"

/*
 * Flow control of one direction of one stream. The sender may send @credit more bytes; the receiver
 * counts the same number down as bytes arrive, and gives it back once they are dealt with.
 */
struct flow {
	uint32_t window; /* as much as may be on the way at one time */
	uint32_t credit; /* may still be sent (sender), may still arrive (receiver) */
	uint32_t owed;   /* receiver: dealt with, and not given back yet */
};

static inline void flow_init(struct flow *f, uint32_t window)
{
	*f = (struct flow){ .window = window, .credit = window };
}

/* @n bytes were sent or have arrived; -EPROTO when that is more than was allowed. */
static inline int flow_take(struct flow *f, uint32_t n)
{
	if (n > f->credit)
		return -EPROTO;
	f->credit -= n;
	return 0;
}

/* Receiver: @n bytes are dealt with. How much credit to send now; 0: later, with more. */
static inline uint32_t flow_give(struct flow *f, uint32_t n)
{
	uint32_t now;

	f->owed += n;
	if (f->owed < f->window / 2 || !f->owed)
		return 0;
	now = f->owed;
	f->owed = 0;
	f->credit += now;
	return now;
}

/* Sender: CREDIT came; -EPROTO when it adds up to more than FLOW_CREDIT_MAX. */
static inline int flow_add(struct flow *f, uint64_t n)
{
	if (n > FLOW_CREDIT_MAX || f->credit + n > FLOW_CREDIT_MAX)
		return -EPROTO;
	f->credit += (uint32_t)n;
	return 0;
}

#endif
