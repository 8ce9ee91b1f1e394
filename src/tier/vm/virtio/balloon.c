/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/virtio/balloon.c - memory that the guest gives back.
 *
 * Owns:  nothing but two numbers.
 * Rules: only whole pages of the guest's own memory are given back, whatever a request names; what
 *        was in them is the guest's loss. The numbers that the guest tells are for showing, and
 *        decide nothing: the wall is the cgroup.
 */
#include <string.h>

#include "base/ckd.h"
#include "tier/vm/virtio/balloon.h"
#include "tier/vm/vwalk.h"

enum { QUEUE_INFLATE, QUEUE_DEFLATE, QUEUE_REPORT, QUEUES };

#define F_REPORTING (1ull << 5)

static void release(struct balloon *b, gpa_t at, uint64_t len)
{
	if (gmem_release(b->dev.mem, at, len))
		b->released += len;
	else
		b->refused++;
}

/* Numbers of pages; neighbours go together. */
static void inflate(struct balloon *b)
{
	uint32_t pages[BALLOON_PAGES_MAX];
	size_t n = vchain_read(&b->chain, 0, pages, sizeof(pages)) / sizeof(pages[0]);

	for (size_t i = 0, run; i < n; i += run) {
		for (run = 1; i + run < n && pages[i + run] == pages[i] + run; run++)
			;
		release(b, GPA((uint64_t)pages[i] * BALLOON_PAGE), run * BALLOON_PAGE);
	}
}

/* The request's own room is what is free. */
static void take_report(struct balloon *b)
{
	const struct vchain *c = &b->chain;

	for (unsigned i = c->in; i < c->in + c->out; i++) {
		gpa_t at;

		if (gmem_where(b->dev.mem, c->iov[i].iov_base, &at))
			release(b, at, c->iov[i].iov_len);
	}
}

static int serve(struct balloon *b, struct virtq *q, unsigned which)
{
	const struct vchain *c = &b->chain;

	if (which == QUEUE_REPORT ? c->in != 0 : c->out != 0)
		return virtq_break(q, "a request of the balloon in the wrong direction");
	if (which != QUEUE_REPORT && c->in_bytes > BALLOON_PAGES_MAX * sizeof(uint32_t))
		return virtq_break(q, "more pages than one request names");
	if (which == QUEUE_INFLATE)
		inflate(b);
	else if (which == QUEUE_REPORT)
		take_report(b);
	/* Deflated pages come back by being touched. */
	virtq_push(q, c->head, 0);
	return 0;
}

static void balloon_kick(struct vdev *d, unsigned which)
{
	struct balloon *b = (struct balloon *)d;
	struct virtq *q = &d->queues[which];
	int r = 0;

	if (!vdev_is_active(d))
		return;
	/* The driver waits for each answer before it asks again, so a turn is never cut short; one
	 * that asks without end is served when it kicks. */
	for (unsigned i = 0; i < BALLOON_AT_ONCE && r >= 0; i++) {
		r = virtq_pop(q, &b->chain);
		if (r > 0)
			r = serve(b, q, which);
		else if (r == 0 && !virtq_rearm(q))
			break;
	}
	vdev_tell(d, q);
	if (r < 0)
		vdev_stop(d, q->broken);
}

static void balloon_begin(struct vdev *d)
{
	((struct balloon *)d)->actual = 0;
}

static unsigned balloon_needs(uint64_t acked)
{
	return acked & F_REPORTING ? QUEUES : QUEUE_REPORT;
}

static void config_read(struct vdev *d, unsigned off, void *to, unsigned len)
{
	const struct balloon *b = (const struct balloon *)d;
	uint32_t config[2] = { b->target, b->actual };

	memcpy(to, (const uint8_t *)config + off, len);
}

static void config_write(struct vdev *d, unsigned off, const void *from, unsigned len)
{
	struct balloon *b = (struct balloon *)d;

	if (off == sizeof(uint32_t) && len == sizeof(uint32_t))
		memcpy(&b->actual, from, len);
}

static void balloon_walk(struct vdev *d, struct vwalk *w)
{
	vwalk_u32(w, "balloon.target", &((struct balloon *)d)->target);
	vwalk_u32(w, "balloon.actual", &((struct balloon *)d)->actual);
}

static const struct vdev_ops balloon_ops = {
	.name = "balloon",
	.id = VDEV_BALLOON,
	.queues = QUEUES,
	.needs = balloon_needs,
	.queue_size = 128,
	.activate = balloon_begin,
	.reset = balloon_begin,
	.kick = balloon_kick,
	.config_read = config_read,
	.config_write = config_write,
	.config_bytes = 2 * sizeof(uint32_t),
	.walk = balloon_walk,
};

void balloon_init(struct balloon *b, struct gmem *mem, void (*raise)(void *arg), void *arg)
{
	memset(b, 0, sizeof(*b));
	/* Not DEFLATE_ON_OOM: what was given up is behind a wall, and a guest that took it back by
	 * itself would run into that; its own killer takes one process instead. */
	vdev_init(&b->dev, &balloon_ops, F_REPORTING | VDEV_F_EVENT_IDX, mem, raise, arg);
	/* All of it can be free. */
	b->dev.queues[QUEUE_REPORT].bytes_max = mem->bytes;
}

void balloon_ask(struct balloon *b, uint64_t bytes)
{
	uint64_t pages = bytes / BALLOON_PAGE;

	b->target = pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX;
	b->dev.generation++;
	if (vdev_is_active(&b->dev))
		vdev_interrupt(&b->dev, VDEV_INT_CONFIG);
}
