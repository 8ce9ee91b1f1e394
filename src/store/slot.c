/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/slot.c - the reservation and the record of a live sandbox.
 *
 * Owns:  the files in slots/.
 * Rules: on the run path: take is five calls and a few that look for a spare, write one, free
 *        three; no heap, no fsync. A slot loses its name only through whoever holds its lock, so a
 *        locked file that still has it is ours.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "store/slot.h"
#include "store/spare.h"
#include "store/state.h"

enum { SLOT_PATH = 24 };

/* A record begins with this line; alone it says that nothing was made. */
#define FIRST_LINE "version=1\n"
#define SPARE_SLOT "run/spare-slot"

/* "slots/<number>"; cannot overflow. */
static void slot_path(char out[SLOT_PATH], unsigned number)
{
	if (str_fmt(out, SLOT_PATH, "slots/%u", number) < 0)
		out[0] = '\0';
}

/*
 * Between the creation and the lock a sweep may have found an unlocked, empty file: it holds the
 * lock now (-EAGAIN), or has removed the file already (no link left). Both mean: try another.
 */
static int lock_new(int fd)
{
	struct stat st;
	int r = host_lock(fd);

	if (r == -EACCES)
		return -EAGAIN; /* POSIX allows either */
	if (r < 0)
		return r;
	r = host_fstat(fd, &st);
	if (r < 0)
		return r;
	return st.st_nlink ? 0 : -EAGAIN;
}

/* Locked, and still the spare that it was when it was opened? 1, 0, or why nobody can say. */
static int lock_spare(int fd, int state_fd, const char *name)
{
	struct stat mine, now;
	int r = host_lock(fd);

	if (r == 0)
		r = host_fstat(fd, &mine);
	if (r == 0)
		r = host_fstatat(state_fd, name, &now, AT_SYMLINK_NOFOLLOW);
	if (r == -EAGAIN || r == -EACCES || r == -ENOENT)
		return 0; /* another has it, or has taken it */
	return r < 0 ? r : mine.st_ino == now.st_ino && mine.st_dev == now.st_dev;
}

/* A spare becomes the slot, locked before it has that name. A descriptor; -EAGAIN: the number is
 * taken; -ENOENT: there is no spare. */
static int take_spare(int state_fd, const char *path, unsigned number)
{
	for (unsigned i = 0; i < SPARES_MAX; i++) {
		char name[SLOT_PATH];
		own_fd int fd = -1;
		int r = spare_name(name, sizeof(name), SPARE_SLOT, number + i);

		if (r < 0)
			return r;
		fd = host_openat(state_fd, name, O_RDWR | O_APPEND | O_NOFOLLOW, 0);
		if (fd == -ENOENT)
			continue;
		r = fd < 0 ? fd : lock_spare(fd, state_fd, name);
		if (r > 0)
			r = host_rename_new(state_fd, name, state_fd, path);
		else if (r == 0)
			continue;
		if (r != -ENOENT)
			return r == 0 ? take_fd(&fd) : r == -EEXIST ? -EAGAIN : r;
	}
	return -ENOENT;
}

static int try_number(int state_fd, unsigned number, struct slot *ret, struct err *e)
{
	char path[SLOT_PATH];
	own_fd int fd = -1;
	int r;

	slot_path(path, number);
	r = take_spare(state_fd, path, number);
	if (r == -EAGAIN)
		return r;
	if (r < 0 && r != -ENOENT)
		return err_set(e, -r, "making '%s' of a spare in the state directory", path);
	if (r >= 0) {
		*ret = (struct slot){ .fd = r, .number = number, .state_fd = state_fd };
		return 0;
	}
	fd = host_openat(state_fd, path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW, 0600);
	if (fd == -EEXIST)
		return -EAGAIN;
	if (fd < 0)
		return err_set(e, -fd, "creating '%s' in the state directory", path);
	r = lock_new(fd);
	if (r == -EAGAIN)
		return r;
	if (r < 0) {
		host_unlinkat(state_fd, path, 0);
		return err_set(e, -r, "locking '%s' in the state directory", path);
	}
	*ret = (struct slot){ .fd = take_fd(&fd), .number = number, .state_fd = state_fd };
	return 0;
}

int slot_take(int state_fd, const char *id, struct slot *ret, struct err *e)
{
	/* Neighbours in time have neighbouring pids: no two of a burst start at the same number. */
	unsigned first = (unsigned)getpid() % SLOTS_MAX;
	bool filled = false;

	if (!id_is_valid(id))
		return err_say(e, EINVAL, "'%s' is not a sandbox id", id);
	for (unsigned i = 0; i < SLOTS_MAX; i++) {
		int r = try_number(state_fd, (first + i) % SLOTS_MAX, ret, e);

		if (r == -ENOENT && !filled) {
			/* A state directory that was made by hand, or not to its end. */
			filled = true;
			r = state_fill(state_fd, e);
			if (r == 0)
				r = try_number(state_fd, (first + i) % SLOTS_MAX, ret, e);
		}
		if (r != -EAGAIN)
			return r;
	}
	return err_say(e, EUSERS,
		"all %d slots are taken: wait until sandboxes end, or run 'ward gc'", SLOTS_MAX);
}

/* One write, so that a record is there with all its lines or not at all. */
static int put_record(struct slot *s, const struct record *r, struct err *e)
{
	ssize_t n;

	if (r->bad)
		return err_say(e, E2BIG, "the record of slot %u does not fit into %d bytes",
			s->number, RECORD_BYTES_MAX);
	n = host_write(s->fd, r->text, r->len);
	if (n < 0)
		return err_set(e, (int)-n, "writing slot %u", s->number);
	if ((size_t)n != r->len)
		return err_set(e, ENOSPC, "writing slot %u", s->number);
	return 0;
}

static int add_undo(struct slot *s, struct record *r, const char *id, const struct undo *items,
	unsigned count, struct err *e)
{
	if (count > UNDO_MAX - s->undo_count)
		return err_say(e, E2BIG, "more than %d things to undo for one sandbox", UNDO_MAX);
	s->undo_count += count;
	return undo_write(r, id, items, count, e);
}

int slot_write(struct slot *s, const struct slot_record *rec, struct err *e)
{
	char now[CLOCK_TEXT];
	struct record r;
	int rc;

	clock_text(now);
	record_init(&r);
	record_add_num(&r, "version", 1); /* FIRST_LINE */
	record_add(&r, "id", rec->id);
	record_add_num(&r, "pid", getpid());
	record_add(&r, "created", now);
	record_add(&r, "tier", rec->tier);
	record_add_argv(&r, "command", rec->argv);
	rc = add_undo(s, &r, rec->id, rec->undo, rec->undo_count, e);
	if (rc == 0)
		rc = put_record(s, &r, e);
	s->written = rc == 0;
	return rc;
}

int slot_add(struct slot *s, const char *id, const struct undo *item, struct err *e)
{
	struct record r;
	int rc;

	record_init(&r);
	rc = add_undo(s, &r, id, item, 1, e);
	return rc < 0 ? rc : put_record(s, &r, e);
}

void slot_leave(struct slot *s)
{
	struct record r;

	if (s->fd < 0)
		return;
	record_init(&r);
	record_add_num(&r, "ended", 1);
	/* Without this line the sweep says a little too much in the audit log, and that is all. */
	put_record(s, &r, NULL);
	host_close(s->fd);
	s->fd = -1;
}

void slot_free(struct slot *s)
{
	char path[SLOT_PATH];

	if (s->fd < 0)
		return;
	slot_path(path, s->number);
	/* In this order: the name goes while the lock is held. A file that stays is swept later.
	 * Not cut to nothing: ext4 would write such a file out when it is closed the next time. */
	if (!s->written || host_ftruncate(s->fd, sizeof(FIRST_LINE) - 1) < 0 ||
		spare_give(s->state_fd, path, SPARE_SLOT, s->number) < 0)
		host_unlinkat(s->state_fd, path, 0);
	host_close(s->fd);
	s->fd = -1;
}
