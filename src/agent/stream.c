/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/stream.c - the table of open streams.
 *
 * Owns:  which slots are in use, and how many of each kind there may be.
 * Rules: a slot is free when it has no ops. The table is walked, not hashed: it is short, and only
 *        the part below a->top is ever looked at.
 */
#include <errno.h>
#include <sys/mman.h>

#include "agent/state.h"

static const unsigned limits[STREAM_KINDS] = {
	[STREAM_PROCESS] = AGENT_PROCS_MAX,
	[STREAM_FILE] = AGENT_FILES_MAX,
	[STREAM_WATCH] = AGENT_WATCHES_MAX,
	[STREAM_DIAL] = AGENT_DIALS_MAX,
};

struct stream *stream_find(struct agent *a, uint32_t id)
{
	for (unsigned i = 0; i < a->top; i++)
		if (a->streams[i].ops && a->streams[i].id == id)
			return &a->streams[i];
	return NULL;
}

unsigned stream_count(const struct agent *a, enum stream_kind kind)
{
	unsigned n = 0;

	for (unsigned i = 0; i < a->top; i++)
		n += a->streams[i].ops && a->streams[i].ops->kind == kind;
	return n;
}

struct stream *stream_open(
	struct agent *a, uint32_t id, const struct stream_ops *ops, uint32_t window, struct err *e)
{
	unsigned i = 0;
	struct stream *s;

	if (stream_count(a, ops->kind) >= limits[ops->kind]) {
		err_say(e, EAGAIN, "at most %u streams of this kind at one time",
			limits[ops->kind]);
		return NULL;
	}
	while (i < AGENT_STREAMS_MAX && a->streams[i].ops)
		i++;
	if (i == AGENT_STREAMS_MAX) {
		err_say(e, EAGAIN, "at most %d streams at one time", AGENT_STREAMS_MAX);
		return NULL;
	}
	if (i >= a->top)
		a->top = i + 1;
	s = &a->streams[i];
	*s = (struct stream){ .id = id, .ops = ops, .in_fd = -1 };
	flow_init(&s->in, FLOW_WINDOW);
	for (unsigned k = 0; k < 2; k++) {
		s->out[k].fd = -1;
		flow_init(&s->out[k].flow, window);
	}
	return s;
}

void stream_close(struct agent *a, struct stream *s)
{
	s->ops->done(s);
	s->ops = NULL;
	while (a->top && !a->streams[a->top - 1].ops)
		a->top--;
}

void stream_finish(struct agent *a, struct stream *s, const struct err *e)
{
	uint32_t id = s->id;

	stream_close(a, s);
	if (e)
		out_error(a, id, 0, e);
	else
		out_simple(a, PROTO_OK, 0, id);
}

void *room_take(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void room_free(void *p, size_t len)
{
	if (p)
		munmap(p, len);
}
