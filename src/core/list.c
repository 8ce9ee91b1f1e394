/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/list.c - the sandboxes of a state directory, and the end of a kept one.
 *
 * Owns:  nothing.
 * Rules: what changes while it is read may be seen or not, but is never listed twice.
 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/id.h"
#include "base/json.h"
#include "base/str.h"
#include "core/list.h"
#include "store/audit.h"
#include "store/kept.h"
#include "store/slot.h"

struct listing {
	int (*each)(void *arg, const struct box_row *row);
	void *arg;
	struct buf seen; /* ids, each with its NUL */
};

const char *box_state_name(enum box_state s)
{
	static const char *const names[] = {
		[BOX_RUNNING] = "running", [BOX_KEPT] = "kept", [BOX_DEAD] = "dead"
	};

	return names[s];
}

static int list_slot(void *arg, const struct slot_view *view)
{
	struct listing *l = arg;
	struct box_row row = { .state = view->live ? BOX_RUNNING : BOX_DEAD,
		.pid = view->live ? view->pid : 0,
		.record = view->record };

	if (record_get(view->record, "id", row.id, sizeof(row.id)) < 0 || !id_is_valid(row.id))
		return 0; /* taken, and not written yet */
	buf_add(&l->seen, row.id, sizeof(row.id));
	return l->each(l->arg, &row);
}

static bool was_seen(const struct buf *seen, const char *id)
{
	for (size_t at = 0; at < seen->len; at += ID_LEN + 1)
		if (str_eq(seen->data + at, id))
			return true;
	return false;
}

static int list_kept(void *arg, const char *id, const struct record *rec)
{
	struct listing *l = arg;
	struct box_row row = { .state = BOX_KEPT, .record = rec };

	/* Written down as kept, and its ward has not given the slot back yet. */
	if (was_seen(&l->seen, id))
		return 0;
	str_copy(row.id, sizeof(row.id), id);
	return l->each(l->arg, &row);
}

int box_list(
	int state_fd, int (*each)(void *arg, const struct box_row *row), void *arg, struct err *e)
{
	struct listing l = { .each = each, .arg = arg };
	int r;

	buf_init(&l.seen, SLOTS_MAX * (ID_LEN + 1));
	r = slot_list(state_fd, list_slot, &l, e);
	if (r == 0 && l.seen.bad)
		r = err_set(e, ENOMEM, "listing sandboxes");
	if (r == 0)
		r = kept_list(state_fd, list_kept, &l, e);
	buf_done(&l.seen);
	return r;
}

struct search {
	const char *id;
	struct err *e;
};

static int refuse(void *arg, const struct slot_view *view)
{
	const struct search *s = arg;
	char id[ID_LEN + 1];

	if (record_get(view->record, "id", id, sizeof(id)) < 0 || !str_eq(id, s->id))
		return 0;
	if (view->live)
		return err_say(s->e, EBUSY, "sandbox %s is running (ward has pid %d): end it first",
			id, (int)view->pid);
	return err_say(s->e, EBUSY, "sandbox %s lost its ward: run 'ward gc' first", id);
}

int box_remove(int state_fd, const char *id, const struct sweep_hooks *hooks, struct err *e)
{
	struct search s = { .id = id, .e = e };
	struct buf members;
	int r;

	if (!id_is_valid(id))
		return err_say(e, EINVAL,
			"'%.64s' is not a sandbox id: %d characters out of a-z and 2-7", id,
			ID_LEN);
	r = slot_list(state_fd, refuse, &s, e);
	if (r == 0)
		r = kept_remove(state_fd, id, hooks, e);
	if (r < 0)
		return r;
	buf_init(&members, 256);
	json_str(&members, "id", id);
	r = audit_append(state_fd, "box.removed", &members, e);
	buf_done(&members);
	return r;
}
