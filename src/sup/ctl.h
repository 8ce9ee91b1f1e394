/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_SUP_CTL_H
#define WARD_SUP_CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "proto/frame.h"
#include "proto/msg.h"

/*
 * One end of the connection between a daemon and a supervisor: frames in and out, descriptors with
 * them. Both ends use it. Nothing waits, and an idle end holds no buffer.
 */
enum { CTL_FDS_MAX = 64 }; /* descriptors on the way at one time, each direction */

struct ctl {
	int fd;      /* owned; -1: closed */
	bool dead;   /* nothing can be sent any more; what was said before can still be received */
	uint8_t *in; /* the part of a frame that has come; NULL for most of a life */
	size_t in_len, in_cap;
	uint8_t *out;
	size_t out_at, out_len, out_cap;
	uint64_t queued; /* bytes ever given to ctl_put() */
	struct {
		uint64_t at; /* goes with this byte */
		int fd;
	} give[CTL_FDS_MAX];
	unsigned give_count;
	int got[CTL_FDS_MAX]; /* came, and their frame was not handled yet */
	unsigned got_count;
};

/* Takes @fd. */
void ctl_init(struct ctl *c, int fd);
void ctl_done(struct ctl *c);

static inline size_t ctl_waiting(const struct ctl *c)
{
	return c->out_len - c->out_at;
}

/* Queues a frame. @fd >= 0 goes with it, and is taken in every case. -ENOMEM, -EMFILE (too many
 * descriptors wait), -ENOTCONN. */
int ctl_put(struct ctl *c, uint16_t type, uint16_t flags, uint32_t stream, const void *data,
	size_t len, int fd);
int ctl_put_msg(struct ctl *c, struct msg *m); /* -EMSGSIZE when it did not fit */
/* The same with up to CTL_FDS_TOGETHER descriptors, in order; taken in every case. */
enum { CTL_FDS_TOGETHER = 4 };
int ctl_put_msg_fds(struct ctl *c, struct msg *m, const int *fds, unsigned count);
/* Sends what the socket takes. 0, or -ENOTCONN: the other side is gone. */
int ctl_flush(struct ctl *c);

/*
 * Receives what is there, up to some @turns reads, and calls @each for every frame until it returns
 * non-zero. 0: no more now. -ENOTCONN: the other side has closed. -EPROTO: no frame can look like
 * this. Otherwise what @each returned; frames behind it are lost then.
 */
int ctl_receive(
	struct ctl *c, unsigned turns, int (*each)(void *arg, const struct frame *f), void *arg);
/* For @each: the descriptor that came with this frame; the caller's. -1: none came. */
int ctl_take_fd(struct ctl *c);

/* The fields of a control message, by tag; tags below TAG_END, none twice but ARG, ENV and MOUNT,
 * of which the first is kept. 0, or -EPROTO. Points into @data. */
struct ctl_fields {
	uint64_t has[2];
	uint64_t num[TAG_END];
	const char *text[TAG_END]; /* TEXT and BYTES */
	uint32_t len[TAG_END];
};
int ctl_fields_read(struct ctl_fields *v, const void *data, size_t len);

static inline bool ctl_has(const struct ctl_fields *v, unsigned tag)
{
	return v->has[tag >> 6] >> (tag & 63) & 1;
}

static inline uint64_t ctl_num(const struct ctl_fields *v, unsigned tag, uint64_t absent)
{
	return ctl_has(v, tag) ? v->num[tag] : absent;
}

static inline const char *ctl_text(const struct ctl_fields *v, unsigned tag)
{
	return ctl_has(v, tag) ? v->text[tag] : NULL;
}

/* A text of the other side for people: printable, one line, cut to fit. NULL is "". */
void ctl_line(char *out, size_t cap, const char *text);

#endif
