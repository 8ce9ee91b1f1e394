/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/serve_still.c - SNAPSHOT: the sandbox stands still, and that may take a while.
 *
 * Owns:  the request that is carried out, and the frames that wait for its end.
 * Rules: carried out between two reads of the daemon, never inside one. Meanwhile nothing goes to
 *        the agent: what can be answered without it is answered, a kill above all; everything else
 *        is kept in the order in which it came, and handled after.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sup/serve_impl.h"

enum { TURNS = 4 };

struct later {
	struct later *next;
	struct frame f;
	uint8_t data[];
};

static bool needs_agent(const struct frame *f)
{
	struct ctl_fields v;

	switch (f->type) {
	case PROTO_USAGE:
	case PROTO_STARTED:
	case PROTO_ATTACH:
		return false;
	case PROTO_STOP: /* with grace it is the agent's */
		return ctl_fields_read(&v, f->data, f->len) == 0 && ctl_num(&v, TAG_GRACE_MS, 0);
	default:
		return true;
	}
}

bool still_waits(const struct serve *s, const struct frame *f)
{
	return (s->still.asked || s->still.first) && needs_agent(f);
}

int still_keep(struct serve *s, const struct frame *f)
{
	struct still *st = &s->still;
	struct later *l = malloc(sizeof(*l) + f->len);

	if (!l)
		return -ENOMEM;
	l->next = NULL;
	l->f = *f;
	l->f.data = l->data;
	if (f->len)
		memcpy(l->data, f->data, f->len);
	if (st->last)
		st->last->next = l;
	else
		st->first = l;
	st->last = l;
	st->bytes += sizeof(*l) + f->len;
	return 0;
}

static struct later *take(struct still *st)
{
	struct later *l = st->first;

	st->first = l->next;
	if (!st->first)
		st->last = NULL;
	st->bytes -= sizeof(*l) + l->f.len;
	return l;
}

static void files_done(struct snap *files)
{
	close(files->state);
	close(files->memory);
	close(files->disk);
	*files = (struct snap){ -1, -1, -1 };
}

void still_drop(struct serve *s)
{
	while (s->still.first)
		free(take(&s->still));
}

void still_ask(struct serve *s, const struct frame *f, const struct snap *files)
{
	s->still.asked = true;
	s->still.flags = f->flags;
	s->still.stream = f->stream;
	s->still.files = *files;
}

/* The tier calls it while it waits, and between two parts of what it writes. */
void still_meanwhile(struct serve *s)
{
	if (s->link.fd < 0 || s->link_broken || s->still.bytes > SUP_QUEUE_HIGH)
		return;
	/* The end of a connection is for afterwards: it takes calls back from the agent. */
	if (ctl_receive(&s->link, TURNS, link_frame, s) < 0)
		s->link_broken = true;
	ctl_flush(&s->link);
}

static void carry_out(struct serve *s)
{
	struct still *st = &s->still;
	struct err e = { 0 };
	int r = serve_snapshot(s, &st->files, st->flags, &e);

	files_done(&st->files);
	st->asked = false;
	if (r < 0)
		link_error(s, st->stream, e.code ? e.code : -r, "%s", e.msg);
	else
		link_ok(s, st->stream);
}

void still_work(struct serve *s)
{
	struct still *st = &s->still;

	while (st->asked || (st->first && !s->killed && !s->link_broken)) {
		struct later *l;

		if (st->asked) {
			carry_out(s);
			continue;
		}
		l = take(st);
		if (link_handle(s, &l->f) < 0)
			s->link_broken = true;
		free(l);
	}
}
