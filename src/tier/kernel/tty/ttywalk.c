/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tty/ttywalk.c - all terminals of a sandbox, saved and built again.
 *
 * Owns:  nothing.
 * Rules: sessions are numbered. How many have an end open is counted when those files are loaded;
 *        the name in /dev/pts is one of the tree's.
 */
#include <errno.h>
#include <stdlib.h>

#include "tier/kernel/tty/tty.h"

#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/walk.h"

static void drop_tty(void *p)
{
	tty_unref(p);
}

static void input_walk(struct tty *t, struct walk *w)
{
	walk_u32(w, "head", &t->head);
	walk_u32(w, "canon", &t->canon);
	walk_u32(w, "tail", &t->tail);
	walk_bytes(w, "in", t->in, sizeof(t->in));
	walk_bytes(w, "flag", t->flag, sizeof(t->flag));
	/* Counters that wrap: what counts is how far they are apart. */
	if (t->head - t->tail > TTY_INPUT_MAX || t->canon - t->tail > t->head - t->tail)
		walk_fail(w, -EBADMSG);
}

static void ahead_walk(struct tty *t, struct walk *w)
{
	size_t len = t->ahead_len;
	void *bytes = t->ahead;

	walk_blob(w, "ahead", &bytes, &len, TTY_AHEAD_MAX);
	if (w->mode == WALK_LOAD) {
		t->ahead = bytes;
		t->ahead_len = (uint32_t)len;
	}
}

static void output_walk(struct tty *t, struct walk *w)
{
	size_t len = t->out_len;
	void *flat = len ? malloc(len) : NULL;

	if (len && !flat) {
		walk_fail(w, -ENOMEM);
		return;
	}
	for (size_t i = 0; i < len; i++)
		((uint8_t *)flat)[i] = t->out[(t->out_at + i) % t->out_cap];
	walk_blob(w, "out", &flat, &len, TTY_OUTPUT_MAX * 2);
	if (w->mode == WALK_LOAD && !w->err && len && !out_add(t, flat, len))
		walk_fail(w, -EBADMSG);
	free(flat);
	walk_u32(w, "echo_from", &t->echo_from);
}

static void session_walk(struct tty *t, struct walk *w)
{
	struct session *s = t->session;

	walk_ref(w, "session", WALK_SESSION, (void **)&s);
	if (w->mode == WALK_SAVE || !s || w->err)
		return;
	if (s->tty) {
		walk_fail(w, -EBADMSG);
		return;
	}
	t->session = s;
	s->refs++;
	s->tty = tty_ref(t);
}

static void fields_walk(struct tty *t, struct walk *w)
{
	walk_u32(w, "n", &t->n);
	walk_bytes(w, "termios", &t->t, sizeof(t->t));
	walk_bytes(w, "size", &t->size, sizeof(t->size));
	walk_bool(w, "slave_seen", &t->slave_seen);
	walk_bool(w, "locked", &t->locked);
	walk_bool(w, "hung_up", &t->hung_up);
	walk_bool(w, "excl", &t->excl);
	walk_bool(w, "packet", &t->packet);
	walk_u8(w, "packet_news", &t->packet_news);
	walk_bool(w, "lnext", &t->lnext);
	walk_bool(w, "stopped", &t->stopped);
	walk_u32(w, "column", &t->column);
	walk_u32(w, "line_start", &t->line_start);
	input_walk(t, w);
	ahead_walk(t, w);
	output_walk(t, w);
	session_walk(t, w);
}

static struct tty *make(struct kernel *k, struct walk *w)
{
	struct tty_state *st = k->tty;
	struct tty *t = st->count < PTYS_MAX ? calloc(1, sizeof(*t)) : NULL;

	if (!t) {
		walk_fail(w, -ENOMEM);
		return NULL;
	}
	t->refs = 1;
	t->k = k;
	t->next = st->all;
	st->all = t;
	st->count++;
	walk_keep(w, t, drop_tty);
	return w->err ? NULL : t;
}

/* The oldest first, as they are made: each new one comes in front. */
static struct tty *before(struct tty_state *st, const struct tty *next)
{
	struct tty *t = st->all;

	while (t && t->next != next)
		t = t->next;
	return t;
}

void ttys_walk(struct kernel *k, struct walk *w)
{
	struct tty_state *st = tty_state(k);
	struct tty *t = NULL;
	uint32_t n = st ? st->count : 0;

	if (!st) {
		walk_fail(w, -ENOMEM);
		return;
	}
	walk_list(w, "ttys", &n, PTYS_MAX);
	for (; n > 0 && !w->err; n--) {
		t = w->mode == WALK_SAVE ? before(st, t) : make(k, w);
		if (!t)
			return;
		walk_number(w, WALK_TTY, t);
		fields_walk(t, w);
	}
}

void tty_file_walk(struct file *f, struct walk *w)
{
	bool master = f->ops == &tty_master_ops;
	struct tty *t = f->priv;

	walk_need(w, "tty", WALK_TTY, (void **)&t);
	if (w->mode == WALK_SAVE || w->err)
		return;
	if (master && t->masters) {
		walk_fail(w, -EBADMSG);
		return;
	}
	f->priv = tty_ref(t);
	t->masters += master;
	t->slaves += !master;
}
