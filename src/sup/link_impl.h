/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_SUP_LINK_IMPL_H
#define WARD_SUP_LINK_IMPL_H

#include "sup/ctl.h"
#include "sup/link.h"

/* Inside sup/link*.c only. */
struct link_call {
	struct link *l;
	uint32_t stream; /* its place in the link's table */
	uint16_t type, flags;
	bool dropped; /* nobody is told any more; the number is free when the final frame came */
	bool dirty;   /* credit is owed and in the list of those who owe */
	bool sent_end;
	bool has_file;   /* FILE_PASS_FD: it came */
	struct flow in;  /* towards us */
	struct flow out; /* towards the sandbox: INPUT, WRITE, DIAL */
	const struct link_handler *h;
	void *arg;
	struct link_call *next_dirty;
};

struct link {
	struct ctl ctl;
	struct link_hooks hooks;
	struct link_call **calls; /* by stream number; [0] is not used */
	unsigned size, used;      /* of the table; calls that are open */
	struct link_call *dirty;
	struct link_status status;
	bool has_status, working, closed;
	bool held; /* what is sent waits for link_release() */
	short wanted;
};

/* link.c */
int link_open(struct link *l, uint16_t type, uint16_t flags, uint32_t window,
	const struct link_handler *h, void *arg, struct link_call **ret, struct err *e);
/* The frame of a call that link_open() opened, sent at once; takes the call back when it fails. */
int link_send_msg(
	struct link *l, struct link_call *c, struct msg *m, struct link_call **ret, struct err *e);
/* The same with descriptors, which are taken in every case. */
int link_send_fds(struct link *l, struct link_call *c, struct msg *m, const int *fds,
	unsigned count, struct link_call **ret, struct err *e);
/* Fields that may be longer than a frame: cut into frames with START_MORE. */
int link_send_parts(struct link *l, struct link_call *c, const struct msg *m,
	struct link_call **ret, struct err *e);
void link_close_call(struct link_call *c);

/* link_read.c: one frame of the supervisor. 0 or -EPROTO. */
int link_read(struct link *l, const struct frame *f);

#endif
