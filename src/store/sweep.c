/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/sweep.c - finds the slots of wards that are gone, and undoes what they say.
 *
 * Owns:  nothing; works on slots/ under the lock of each slot.
 * Rules: lock first, then check that the locked file still has its name: whoever held the lock
 *        before may have unlinked it. The slot goes last, so that a sweep that is killed is
 *        finished by the next one. With nothing to do: open, getdents, close.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/json.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "host/host.h"
#include "store/audit.h"
#include "store/kept.h"
#include "store/slot.h"

/* Room for about 300 names: one getdents() on all but very busy hosts. */
enum { DENTS_BYTES = 8192, SWEEP_MEMBERS_MAX = 4096 };

struct sweep {
	int dir, state_fd;
	const struct sweep_hooks *hooks;
	struct sweep_report *report;
};

/* "0", "1", ... below SLOTS_MAX, written as slot_take() writes it. */
static bool number_of(const char *name, unsigned *ret)
{
	uint64_t v;

	if (parse_u64(name, 0, SLOTS_MAX - 1, &v) < 0 || (name[0] == '0' && name[1]))
		return false;
	*ret = (unsigned)v;
	return true;
}

/* 1: the ward of the slot is gone and we hold its lock. 0: it is alive, or the slot is gone. */
static int lock_dead(const struct sweep *s, int fd, const char *name)
{
	struct stat mine, now;
	int r = host_lock(fd);

	if (r == -EAGAIN || r == -EACCES) {
		s->report->live++;
		return 0;
	}
	if (r < 0)
		return r;
	r = host_fstat(fd, &mine);
	if (r < 0)
		return r;
	if (!S_ISREG(mine.st_mode))
		return -EINVAL;
	r = host_fstatat(s->dir, name, &now, AT_SYMLINK_NOFOLLOW);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	return mine.st_dev == now.st_dev && mine.st_ino == now.st_ino;
}

/* The run has no end in the audit log, since its ward could not write one. */
static int audit_swept(
	const struct sweep *s, const struct record *rec, const char *id, bool kept, struct err *e)
{
	char tier[32] = "", pid[24] = "", ended[8];
	own_buf struct buf members;
	uint64_t n = 0;

	buf_init(&members, SWEEP_MEMBERS_MAX);
	record_get(rec, "tier", tier, sizeof(tier));
	record_get(rec, "pid", pid, sizeof(pid));
	parse_u64(pid, 0, INT32_MAX, &n);
	json_str(&members, "id", id);
	json_str(&members, "tier", tier);
	json_u64(&members, "pid", n);
	json_bool(&members, "kept", kept);
	/* A ward that only could not clean up has told the end itself. */
	if (record_get(rec, "ended", ended, sizeof(ended)) < 0)
		json_str(&members, "cause", "killed-by-operator");
	return audit_append(s->state_fd, "run.swept", &members, e);
}

/* What a sweep leaves of a sandbox that was to be kept. */
static int keep(const struct sweep *s, const struct record *rec, const char *id, struct err *e)
{
	char tier[32] = "", created[CLOCK_TEXT] = "";
	struct record have, more;
	struct record_line line;
	struct kept_record kept = { .id = id,
		.tier = tier,
		.created = created,
		.cause = "killed-by-operator",
		.detail = "ward ended before its sandbox did",
		.status = 125,
		.more = &more };

	if (kept_read(s->state_fd, id, &have, NULL) == 0)
		return 0; /* its ward got that far itself */
	record_get(rec, "tier", tier, sizeof(tier));
	record_get(rec, "created", created, sizeof(created));
	record_init(&more);
	for (size_t at = 0; record_next(rec, &at, &line);) {
		char kind[16];

		if (record_key_is(&line, "command") ||
			(record_key_is(&line, "undo") &&
				record_word(&line, 0, kind, sizeof(kind)) == 0 &&
				(str_eq(kind, undo_name(UNDO_TREE)) ||
					str_eq(kind, undo_name(UNDO_WORKTREE)))))
			record_add_raw(&more, &line);
	}
	return kept_write(s->state_fd, &kept, e);
}

static int undo_slot(const struct sweep *s, const struct record *rec, struct err *e)
{
	char id[ID_LEN + 1], version[8];
	bool kept;
	int r;

	/* Killed between taking the slot and writing it: nothing was made yet. */
	if (record_get(rec, "version", version, sizeof(version)) < 0 ||
		record_get(rec, "id", id, sizeof(id)) < 0)
		return 0;
	if (!str_eq(version, "1") || !id_is_valid(id))
		return err_say(e, EINVAL, "the slot was not written by this version of ward");
	kept = undo_is_kept(rec);
	r = undo_do(s->state_fd, id, rec, kept, s->hooks, e);
	if (r == 0 && kept)
		r = keep(s, rec, id, e);
	return r < 0 ? r : audit_swept(s, rec, id, kept, e);
}

static void tell_failed(const struct sweep *s, const char *name, struct err *e)
{
	s->report->failed++;
	err_wrap(e, -e->code, "slot %s", name);
	if (s->hooks && s->hooks->failed)
		s->hooks->failed(s->hooks->arg, e);
}

static void sweep_one(const struct sweep *s, const char *name)
{
	struct err e = { 0 };
	struct record rec;
	own_fd int fd = -1;
	int r;

	s->report->checked++;
	fd = host_openat(s->dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd == -ENOENT)
		return; /* it ended meanwhile */
	r = fd < 0 ? fd : lock_dead(s, fd, name);
	if (r == 0)
		return;
	if (r > 0)
		r = record_load(&rec, fd);
	if (r < 0)
		err_set(&e, -r, "opening it");
	else
		r = undo_slot(s, &rec, &e);
	if (r == 0) {
		r = host_unlinkat(s->dir, name, 0);
		if (r < 0)
			err_set(&e, -r, "removing it");
	}
	if (r < 0)
		tell_failed(s, name, &e);
	else
		s->report->swept++;
}

static bool is_own(const struct sweep *s, unsigned number)
{
	const struct slot *own = s->hooks ? s->hooks->own : NULL;

	return own && own->fd >= 0 && own->number == number;
}

/*
 * Sweeps the names in one answer of getdents(). A sweep that looks at a few only starts at a
 * different one each time, so that the first names are not the only ones that are ever looked at.
 */
static bool sweep_batch(struct sweep *s, const char *room, ssize_t n, unsigned max_checked)
{
	unsigned total = 0, first, i;

	for (ssize_t at = 0; at < n;
		at += ((const struct host_dirent *)(const void *)(room + at))->d_reclen)
		total++;
	first = max_checked && total ? (unsigned)(clock_ns() / 1000 % total) : 0;
	for (unsigned round = 0; round < (first ? 2 : 1); round++) {
		i = 0;
		for (ssize_t at = 0; at < n; i++) {
			const struct host_dirent *d = (const void *)(room + at);
			unsigned number;

			at += d->d_reclen;
			if ((i < first) != (round == 1) || !number_of(d->d_name, &number) ||
				is_own(s, number))
				continue;
			sweep_one(s, d->d_name);
			if (max_checked && s->report->checked >= max_checked)
				return true;
		}
	}
	return false;
}

int slot_sweep(int state_fd, unsigned max_checked, const struct sweep_hooks *hooks,
	struct sweep_report *ret, struct err *e)
{
	_Alignas(struct host_dirent) char room[DENTS_BYTES];
	own_fd int dir = host_openat(state_fd, "slots", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	struct sweep s = { .dir = dir, .state_fd = state_fd, .hooks = hooks, .report = ret };
	ssize_t n;

	*ret = (struct sweep_report){ 0 };
	if (dir == -ENOENT)
		return 0;
	if (dir < 0)
		return err_set(e, -dir, "opening 'slots' in the state directory");
	do {
		n = host_getdents(dir, room, sizeof(room));
		if (n > 0 && sweep_batch(&s, room, n, max_checked))
			return 0;
		/* A short answer was the last one; a full sweep asks again to be sure. */
	} while (n > 0 && (!max_checked || n > (ssize_t)sizeof(room) / 2));
	return n < 0 ? err_set(e, (int)-n, "reading 'slots' in the state directory") : 0;
}

/* The view of one slot; 0 when there is nothing to see. */
static int view_one(int dir, const char *name, struct record *rec, struct slot_view *view)
{
	own_fd int fd = host_openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	int r;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	r = host_lock_held(fd, &view->pid);
	if (r < 0)
		return r;
	view->live = r > 0;
	r = record_load(rec, fd);
	if (r < 0)
		return r;
	view->record = rec;
	return rec->len > 0;
}

int slot_list(int state_fd, int (*each)(void *arg, const struct slot_view *view), void *arg,
	struct err *e)
{
	_Alignas(struct host_dirent) char room[DENTS_BYTES];
	own_fd int dir = host_openat(state_fd, "slots", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	ssize_t n;

	if (dir == -ENOENT)
		return 0;
	if (dir < 0)
		return err_set(e, -dir, "opening 'slots' in the state directory");
	while ((n = host_getdents(dir, room, sizeof(room))) > 0) {
		for (ssize_t at = 0; at < n;) {
			const struct host_dirent *d = (const void *)(room + at);
			struct slot_view view = { 0 };
			struct record rec;
			int r;

			at += d->d_reclen;
			if (!number_of(d->d_name, &view.number))
				continue;
			r = view_one(dir, d->d_name, &rec, &view);
			if (r < 0)
				return err_set(e, -r, "reading slot %s", d->d_name);
			r = r ? each(arg, &view) : 0;
			if (r)
				return r;
		}
	}
	return n < 0 ? err_set(e, (int)-n, "reading 'slots' in the state directory") : 0;
}
