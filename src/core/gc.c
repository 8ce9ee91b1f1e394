/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/gc.c - the full sweep.
 *
 * Owns:  nothing.
 * Rules: a box directory is a leftover only when, after it was seen, no slot names it and it has no
 *        record. In that order: a sandbox is in a slot from before its directory is made until
 *        after its directory is gone or its record is written.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/id.h"
#include "base/own.h"
#include "base/str.h"
#include "core/gc.h"
#include "core/kernelwork.h"
#include "core/sweep.h"
#include "host/host.h"
#include "host/tree.h"
#include "store/kept.h"
#include "store/trash.h"
#include "template/host.h"
#include "template/shelf.h"

enum { DENTS_BYTES = 4096, BOXES_BYTES_MAX = 64 << 20 };

struct gc {
	int state_fd;
	const char *state_dir;
	const struct gc_hooks *hooks;
	int first;
	struct err *e;
};

/* Half-made templates, layers that nobody uses, and skeletons of the host that are out of date. */
static int sweep_templates(
	const char *state_dir, bool idle, const struct sweep_hooks *tell, struct err *e)
{
	struct sweep_count count = { 0 };
	char text[96];
	int r = image_sweep(state_dir, &count, e);

	if (r == 0 && (count.works || count.layers || count.records) && tell->removed &&
		str_fmt(text, sizeof(text), "%u half-made imports, %u layers, %u records",
			count.works, count.layers, count.records) == 0)
		tell->removed(tell->arg, "template", text);
	/* A running sandbox may stand on an old skeleton. */
	if (r == 0 && idle)
		r = template_host_sweep(state_dir, e);
	return r;
}

void gc_hooks_init(struct gc_hooks *h)
{
	*h = (struct gc_hooks){ .templates = sweep_templates };
	core_hooks_init(&h->sweep);
}

static void tell_removed(const struct gc *gc, const char *kind, const char *what)
{
	const struct sweep_hooks *h = &gc->hooks->sweep;

	if (h->removed)
		h->removed(h->arg, kind, what);
}

/* Keeps the first error for the caller, and tells each. */
static void note(struct gc *gc, int r, const struct err *e)
{
	const struct sweep_hooks *h = &gc->hooks->sweep;

	if (h->failed)
		h->failed(h->arg, e);
	if (gc->first == 0) {
		gc->first = r;
		if (gc->e)
			*gc->e = *e;
	}
}

/* The names in boxes/, at one moment. */
static int read_boxes(int state_fd, struct buf *names, struct err *e)
{
	_Alignas(struct host_dirent) char room[DENTS_BYTES];
	own_fd int fd = host_openat(state_fd, "boxes", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	ssize_t n;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return err_set(e, -fd, "opening 'boxes' in the state directory");
	while ((n = host_getdents(fd, room, sizeof(room))) > 0) {
		for (ssize_t at = 0; at < n;) {
			const struct host_dirent *d = (const void *)(room + at);

			at += d->d_reclen;
			if (id_is_valid(d->d_name))
				buf_add(names, d->d_name, ID_LEN + 1);
		}
	}
	if (n < 0)
		return err_set(e, (int)-n, "reading 'boxes' in the state directory");
	return names->bad ? err_set(e, ENOMEM, "reading 'boxes' in the state directory") : 0;
}

/* Crosses out the boxes that a slot speaks for. */
static int cross_out(void *arg, const struct slot_view *view)
{
	struct buf *names = arg;
	char id[ID_LEN + 1];

	if (record_get(view->record, "id", id, sizeof(id)) < 0)
		return 0;
	for (size_t at = 0; at < names->len; at += ID_LEN + 1)
		if (str_eq(names->data + at, id))
			names->data[at] = '\0';
	return 0;
}

static void remove_leftover(struct gc *gc, const char *id)
{
	char path[32], full[WARD_PATH_MAX];
	struct record rec;
	struct err e = { 0 };
	int r = kept_read(gc->state_fd, id, &rec, &e);

	if (r == 0)
		return; /* kept */
	if (r == -ENOENT)
		r = str_fmt(path, sizeof(path), "boxes/%s", id);
	if (r == 0)
		r = tree_discard(gc->state_fd, path, &e);
	if (r < 0)
		note(gc, r, &e);
	else if (str_fmt(full, sizeof(full), "%s/%s", gc->state_dir, path) == 0)
		tell_removed(gc, "leftover", full);
}

static void remove_leftovers(struct gc *gc)
{
	own_buf struct buf names;
	struct err e = { 0 };
	int r;

	buf_init(&names, BOXES_BYTES_MAX);
	r = read_boxes(gc->state_fd, &names, &e);
	if (r == 0)
		r = slot_list(gc->state_fd, cross_out, &names, &e);
	if (r < 0) {
		note(gc, r, &e);
		return;
	}
	for (size_t at = 0; at < names.len; at += ID_LEN + 1)
		if (names.data[at])
			remove_leftover(gc, names.data + at);
}

static void tell_trash(void *arg, const char *name)
{
	const struct gc *gc = arg;
	char full[WARD_PATH_MAX];

	if (str_fmt(full, sizeof(full), "%s/trash/%s", gc->state_dir, name) == 0)
		tell_removed(gc, "trash", full);
}

static void tell_kernel(void *arg, const char *path)
{
	tell_removed(arg, "kernel", path);
}

int gc_run(int state_fd, const char *state_dir, const struct gc_hooks *hooks,
	struct sweep_report *ret, struct err *e)
{
	struct gc gc = { .state_fd = state_fd, .state_dir = state_dir, .hooks = hooks, .e = e };
	struct err mine = { 0 };
	int r = slot_sweep(state_fd, 0, &hooks->sweep, ret, &mine);

	if (r < 0)
		note(&gc, r, &mine);
	else if (ret->failed)
		gc.first = err_say(e, EBUSY, "%u of %u dead sandboxes could not be swept",
			ret->failed, ret->failed + ret->swept);
	remove_leftovers(&gc);
	r = trash_empty(state_fd, tell_trash, &gc, &mine);
	if (r < 0)
		note(&gc, r, &mine);
	r = kernel_work_sweep(state_dir, tell_kernel, &gc, &mine);
	if (r < 0)
		note(&gc, r, &mine);
	r = hooks->templates ? hooks->templates(state_dir, ret->live == 0, &hooks->sweep, &mine)
			     : 0;
	if (r < 0)
		note(&gc, r, &mine);
	return gc.first;
}
