/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/snap.c - snapshots: sandboxes written down, to go on from any number of times; and forks,
 * which do the same without a disk.
 *
 * Owns:  <state>/snapshots/<id>/, and the rows about them.
 * Rules: the row is there before the first file and goes after the last one, so a restart finds
 *        what was half made or half removed. A snapshot is its tenant's: nobody else can list,
 *        name or remove it. Files are made whole on the disk before the row says so; that, and
 *        removing them, is a worker's.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "host/tree.h"
#include "hub/hub_impl.h"
#include "hub/want.h"

static const char *const file_names[] = { "state", "memory", "disk" };
enum { FILES = ARRAY_LEN(file_names) };

/* A snapshot or fork on its way; belongs to its call. */
struct snap_job {
	char id[ID_LEN + 1];
	int fds[FILES]; /* -1: not open */
	struct hub_caller who;
	/* A fork. */
	unsigned count, left;
	int64_t timeout_ms;
	struct fork_one {
		struct hub_call *call;
		char id[ID_LEN + 1];
		struct hub_fail fail;
	} ones[];
};

static void close_files(int fds[FILES])
{
	for (unsigned i = 0; i < FILES; i++)
		if (fds[i] >= 0)
			close(take_fd(&fds[i]));
}

void snap_job_free(struct snap_job *job)
{
	if (job)
		close_files(job->fds);
	free(job);
}

static struct snap_job *job_new(const struct hub_caller *who, unsigned count)
{
	struct snap_job *job = calloc(1, sizeof(*job) + count * sizeof(job->ones[0]));

	if (!job)
		abort(); /* as call_new() */
	for (unsigned i = 0; i < FILES; i++)
		job->fds[i] = -1;
	job->who = *who;
	job->count = job->left = count;
	return job;
}

/* --- files --- */

static int open_folder(struct hub *hub, const char *id, bool make, int *ret, struct err *e)
{
	own_fd int all = -1;
	int r = 0;

	if (make)
		r = host_mkdirat(hub->state_fd, "snapshots", 0700);
	if (r < 0 && r != -EEXIST)
		return err_set(e, -r, "making '%s/snapshots'", hub->state_dir);
	all = host_openat(hub->state_fd, "snapshots", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (all < 0)
		return err_set(e, -all, "opening '%s/snapshots'", hub->state_dir);
	r = make ? host_mkdirat(all, id, 0700) : 0;
	if (r == 0)
		r = *ret = host_openat(all, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	return r < 0 ? err_set(e, -r, "the folder of snapshot '%s'", id) : 0;
}

static int open_files(struct hub *hub, const char *id, bool make, int fds[FILES], struct err *e)
{
	int flags = make ? O_RDWR | O_CREAT | O_EXCL : O_RDONLY;
	/* A tier may note behind the state what the first that goes on from it found out. */
	bool notes = !make && hub->config->snapshot_prefetch;
	own_fd int dir = -1;
	int r = open_folder(hub, id, make, &dir, e);

	for (unsigned i = 0; r == 0 && i < FILES; i++) {
		fds[i] = -EROFS;
		if (notes && i == 0)
			fds[i] = host_openat(dir, file_names[i], O_RDWR | O_NOFOLLOW, 0600);
		if (fds[i] < 0)
			fds[i] = host_openat(dir, file_names[i], flags | O_NOFOLLOW, 0600);
		if (fds[i] < 0)
			r = err_set(
				e, -fds[i], "the file '%s' of snapshot '%s'", file_names[i], id);
	}
	if (r < 0)
		close_files(fds);
	return r;
}

static void remove_files(struct hub *hub, const char *id)
{
	own_fd int all =
		host_openat(hub->state_fd, "snapshots", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	struct err e = { 0 };

	if (all >= 0 && rm_tree(all, id, &e) < 0)
		hub_log(hub, HUB_WARN, "snap.remove", NULL, id, "msg=\"%s\"", e.msg);
}

/* It came to nothing: the files first, so that what stays is found by its row. */
static void undo(struct hub *hub, const char *id)
{
	struct err e = { 0 };

	remove_files(hub, id);
	if (db_snap_delete(hub->db, id, &e) < 0)
		hub_log(hub, HUB_ERROR, "snap.undo", NULL, id, "msg=\"%s\"", e.msg);
}

/* --- after a restart --- */

struct halves {
	unsigned count;
	char ids[64][ID_LEN + 1];
};

static int take_half(void *arg, const struct db_snap *snap)
{
	struct halves *h = arg;

	if (snap->state != DB_SNAP_READY && h->count < ARRAY_LEN(h->ids) &&
		str_copy(h->ids[h->count], sizeof(h->ids[0]), snap->id) == 0)
		h->count++;
	return 0;
}

void snaps_found(struct hub *hub)
{
	struct halves h;

	do { /* a daemon that died had few under way */
		h.count = 0;
		if (db_snap_each(hub->db, NULL, take_half, &h, NULL) < 0)
			return;
		for (unsigned i = 0; i < h.count; i++) {
			hub_log(hub, HUB_INFO, "snap.found", NULL, h.ids[i],
				"msg=\"half made or half removed: it goes\"");
			undo(hub, h.ids[i]);
		}
	} while (h.count == ARRAY_LEN(h.ids));
}

/* --- making one --- */

static bool name_is_valid(const char *name)
{
	size_t n =
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/");

	return n && n <= HUB_SNAP_NAME_MAX && !name[n];
}

/* "name:default" is "name": there are no other tags. */
static int word_of(const char *text, char ret[HUB_SNAP_NAME_MAX + 1], struct hub_fail *f)
{
	size_t n = strcspn(text, ":");
	char shown[64];

	if (n <= HUB_SNAP_NAME_MAX && (!text[n] || str_eq(text + n, ":default"))) {
		memcpy(ret, text, n);
		ret[n] = '\0';
		if (name_is_valid(ret))
			return 0;
	}
	return hub_fail(f, HUB_NOT_FOUND, "there is no template or snapshot '%s'",
		str_show(shown, sizeof(shown), text));
}

static int check_quota(struct hub *hub, const struct sandbox *sb, struct hub_fail *f)
{
	const struct config *c = hub->config;
	int64_t count = 0, bytes = 0;
	struct err e = { 0 };

	if (!sb->tenant)
		return 0;
	if (db_snap_sum(hub->db, sb->tenant->name, &count, &bytes, &e) < 0)
		return hub_fail_err(f, &e);
	if (c->quota_snapshots && count >= c->quota_snapshots)
		return hub_fail(f, HUB_TOO_MANY,
			"'%s' has its %lld snapshots already; remove one first", sb->tenant->name,
			(long long)c->quota_snapshots);
	/* What it may come to, not what it will: memory that was never touched is a hole. */
	if (c->quota_snapshot_disk &&
		bytes + (int64_t)sb->limits.memory_bytes > c->quota_snapshot_disk)
		return hub_fail(f, HUB_TOO_MANY,
			"'%s' has %lld of %lld bytes in snapshots; remove one first",
			sb->tenant->name, (long long)bytes, (long long)c->quota_snapshot_disk);
	return 0;
}

static int write_row(struct hub *hub, struct snap_job *job, const struct sandbox *sb,
	const char *name, struct hub_fail *f)
{
	struct db_snap row = {
		.id = job->id,
		.tenant = sb->tenant ? sb->tenant->name : "",
		.name = name ? name : "",
		.sandbox = sb->id,
		.template_asked = sb->template_asked,
		.template_used = sb->template_used,
		.state = DB_SNAP_MAKING,
		.tier = sb->tier,
		.created_us = clock_now_us(),
		.memory_bytes = (int64_t)sb->limits.memory_bytes,
		.disk_bytes = (int64_t)sb->limits.disk_bytes,
		.cpu_milli = sb->limits.cpu_milli,
		.pids = sb->limits.pids,
		.run_user = sb->user,
		.workdir = sb->workdir,
		.env = pairs_blob(&sb->env),
	};
	struct err e = { 0 };
	int r;

	hub_point(hub, "snap-journal");
	r = db_snap_insert(hub->db, &row, &e);
	hub_point(hub, "snap-journaled");
	return r < 0 ? hub_fail_err(f, &e) : 0;
}

struct sync_work {
	struct hub *hub;
	struct hub_call *call;
	int fds[FILES];
	int64_t bytes;
	struct err e;
};

static void sync_work(void *arg)
{
	struct sync_work *w = arg;

	for (unsigned i = 0; i < FILES; i++) {
		struct stat st;

		if (fdatasync(w->fds[i]) < 0 || fstat(w->fds[i], &st) < 0) {
			err_set(&w->e, errno, "writing the file '%s'", file_names[i]);
			return;
		}
		w->bytes += (int64_t)st.st_blocks * 512;
	}
}

static void give_up(struct hub_call *call, const struct hub_fail *f)
{
	undo(call->hub, call->snap->id);
	call_done(call, f, false);
}

static void sync_done(void *arg, bool wanted)
{
	struct sync_work *w = arg;
	struct hub_fail f;
	struct err e = { 0 };

	close_files(w->fds);
	if (!wanted)
		return;
	w->call->job = NULL;
	hub_point(w->hub, "snap-written");
	if (w->e.code) {
		hub_fail_err(&f, &w->e);
		give_up(w->call, &f);
		return;
	}
	if (db_snap_state(w->hub->db, w->call->snap->id, DB_SNAP_READY, w->bytes, &e) < 0) {
		hub_fail_err(&f, &e);
		give_up(w->call, &f);
		return;
	}
	hub_point(w->hub, "snap-ready");
	event_put(w->hub, "snapshot.ready", w->call->sb, w->call->snap->id);
	call_done(w->call, NULL, true);
}

static void on_snapped(void *arg, struct link_call *c, const struct link_done *d)
{
	struct hub_call *call = arg;
	struct sync_work w = { .hub = call->hub, .call = call };
	struct hub_fail f;
	struct err e = { 0 };

	call->asked = NULL;
	memcpy(w.fds, call->snap->fds, sizeof(w.fds));
	if (loop_work(call->hub->loop, &w, sizeof(w), sync_work, sync_done, &call->job, &e) < 0) {
		hub_fail_err(&f, &e);
		give_up(call, &f);
		return;
	}
	for (unsigned i = 0; i < FILES; i++)
		call->snap->fds[i] = -1; /* the worker's */
}

static void explain(const struct hub_call *call, const struct link_failed *fl, struct hub_fail *f)
{
	enum hub_code code = fl->code == EOPNOTSUPP ? HUB_UNSUPPORTED
			     : fl->code == ENOTCONN ? HUB_NOT_FOUND
			     : fl->code == EAGAIN   ? HUB_BUSY
			     : fl->code == ENOSPC   ? HUB_BUSY
						    : HUB_INTERNAL;

	hub_fail(f, code, "sandbox '%s' could not be written down: %s", call->sb->id,
		fl->text[0] ? fl->text : strerror(fl->code));
}

static void on_not_snapped(void *arg, struct link_call *c, const struct link_failed *fl)
{
	struct hub_call *call = arg;
	struct hub_fail f;

	call->asked = NULL;
	explain(call, fl, &f);
	give_up(call, &f);
}

/* A call that waits for the supervisor, and outlives its sandbox. */
static struct hub_call *begin(struct hub *hub, const struct hub_caller *who, const char *id,
	enum call_kind kind, void *arg, struct hub_fail *f)
{
	struct sandbox *sb = registry_see(hub, who, id, f);
	struct hub_call *call = call_new(hub, kind, sb, arg);

	if (sb && (!sb->link || (sb->state != HUB_RUNNING && sb->state != HUB_PAUSED)))
		hub_fail(f, sb->state == HUB_STOPPING ? HUB_NOT_FOUND : HUB_CONFLICT,
			"sandbox '%s' is neither running nor paused", sb->id);
	return call;
}

static int ask(struct hub_call *call, const struct link_handler *handler, struct hub_fail *f)
{
	struct snap into = { call->snap->fds[0], call->snap->fds[1], call->snap->fds[2] };
	struct err e = { 0 };
	int r = link_snapshot(call->sb->link, &into, 0, handler, call, &call->asked, &e);

	hub_point(call->hub, "snap-sent");
	if (r < 0)
		return hub_fail_err(f, &e);
	call_list_add(&call->hub->working, call);
	return 0;
}

struct hub_call *hub_snapshot(struct hub *hub, const struct hub_caller *who, const char *id,
	const char *name, hub_snap_fn *fn, void *arg)
{
	static const struct link_handler handler = { .done = on_snapped, .failed = on_not_snapped };
	char word[HUB_SNAP_NAME_MAX + 1];
	struct hub_fail f = { 0 };
	struct hub_call *call = begin(hub, who, id, CALL_SNAP, arg, &f);
	struct err e = { 0 };
	bool written = false;

	call->fn.snap = fn;
	call->snap = job_new(who, 0);
	if (!f.code && name && name[0] && word_of(name, word, &f) < 0)
		hub_fail(&f, HUB_INVALID, "a snapshot's name has 1 to %d letters, digits, . _ - /",
			HUB_SNAP_NAME_MAX);
	if (!f.code && id_make(call->snap->id) < 0)
		hub_fail(&f, HUB_INTERNAL, "making an id");
	if (!f.code && check_quota(hub, call->sb, &f) == 0 &&
		write_row(hub, call->snap, call->sb, name && name[0] ? word : NULL, &f) == 0) {
		written = true;
		if (open_files(hub, call->snap->id, true, call->snap->fds, &e) < 0)
			hub_fail_err(&f, &e);
		else if (ask(call, &handler, &f) == 0)
			record_audit(hub, who, "sandbox.snapshot", call->sb, NULL);
	}
	if (f.code && written)
		undo(hub, call->snap->id);
	if (f.code)
		call_done(call, &f, false);
	return call;
}

/* --- looking and removing --- */

static void view_of(const struct db_snap *row, struct hub_snap *ret)
{
	*ret = (struct hub_snap){
		.id = row->id,
		.tenant = row->tenant,
		.name = row->name,
		.sandbox = row->sandbox,
		.template_used = row->template_used,
		.tier = (enum wall)row->tier,
		.bytes = (uint64_t)row->bytes,
		.memory_bytes = (uint64_t)row->memory_bytes,
		.created_us = row->created_us,
	};
}

struct teller {
	struct hub_call *call;
	const struct hub_snaps *q;
	void (*each)(void *arg, const struct hub_snap *snap);
	void *arg;
};

static int tell_made(void *arg, const struct db_snap *row)
{
	struct hub_call *call = arg;
	struct hub_snap snap;

	view_of(row, &snap);
	call->fn.snap(call->arg, NULL, &snap);
	return 0;
}

void snap_tell(struct hub_call *call)
{
	struct err e = { 0 };
	struct hub_fail f;

	if (call->failed) {
		call->fn.snap(call->arg, &call->fail, NULL);
		return;
	}
	if (db_snap_get(call->hub->db, NULL, call->snap->id, tell_made, call, &e) < 0) {
		hub_fail_err(&f, &e);
		call->fn.snap(call->arg, &f, NULL);
	}
}

static int tell_listed(void *arg, const struct db_snap *row)
{
	struct teller *t = arg;
	struct hub_snap snap;

	if (row->state != DB_SNAP_READY ||
		(t->q->sandbox && !str_eq(t->q->sandbox, row->sandbox)) ||
		(t->q->name && !str_eq(t->q->name, row->name)))
		return 0;
	view_of(row, &snap);
	t->each(t->arg, &snap);
	return 0;
}

int hub_snapshots(struct hub *hub, const struct hub_caller *who, const struct hub_snaps *q,
	void (*each)(void *arg, const struct hub_snap *snap), void *arg, struct hub_fail *f)
{
	struct teller t = { .q = q, .each = each, .arg = arg };
	struct err e = { 0 };
	bool all = q->all_tenants && who->is_operator;
	int r = db_snap_each(hub->db, all ? NULL : who->tenant, tell_listed, &t, &e);

	return r < 0 ? hub_fail_err(f, &e) : 0;
}

struct copy {
	char id[ID_LEN + 1];
	struct snap_from *from;
	int r;
};

static int copy_id(void *arg, const struct db_snap *row)
{
	struct copy *c = arg;

	return str_copy(c->id, sizeof(c->id), row->id);
}

static int get(struct hub *hub, const struct hub_caller *who, const char *text, db_snap_fn *fn,
	void *arg, struct hub_fail *f)
{
	char word[HUB_SNAP_NAME_MAX + 1], shown[64];
	struct err e = { 0 };
	int r = word_of(text, word, f);

	if (r < 0)
		return r;
	r = db_snap_get(hub->db, who->tenant, word, fn, arg, &e);
	if (r == -ENOENT)
		return hub_fail(f, HUB_NOT_FOUND, "there is no template or snapshot '%s'",
			str_show(shown, sizeof(shown), text));
	return r < 0 ? hub_fail_err(f, &e) : 0;
}

struct remove_work {
	struct hub *hub;
	int state_fd;
	char id[ID_LEN + 1];
	struct err e;
};

static void remove_work(void *arg)
{
	struct remove_work *w = arg;
	own_fd int all =
		host_openat(w->state_fd, "snapshots", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);

	if (all >= 0)
		rm_tree(all, w->id, &w->e);
}

static void remove_done(void *arg, bool wanted)
{
	struct remove_work *w = arg;

	if (!wanted)
		return; /* the next daemon does it */
	if (w->e.code)
		hub_log(w->hub, HUB_WARN, "snap.remove", NULL, w->id, "msg=\"%s\"", w->e.msg);
	else
		db_snap_delete(w->hub->db, w->id, NULL);
}

int hub_snapshot_remove(
	struct hub *hub, const struct hub_caller *who, const char *word, struct hub_fail *f)
{
	struct remove_work w = { .hub = hub, .state_fd = hub->state_fd };
	struct loop_job *job;
	struct copy c = { 0 };
	struct err e = { 0 };
	int r = get(hub, who, word, copy_id, &c, f);

	if (r < 0)
		return r;
	str_copy(w.id, sizeof(w.id), c.id);
	hub_point(hub, "snap-remove");
	r = db_snap_state(hub->db, c.id, DB_SNAP_DELETING, 0, &e);
	hub_point(hub, "snap-removing");
	if (r == 0)
		r = loop_work(hub->loop, &w, sizeof(w), remove_work, remove_done, &job, &e);
	if (r < 0)
		return hub_fail_err(f, &e);
	record_audit(hub, who, "snapshot.remove", NULL, NULL);
	return 0;
}

/* --- going on from one --- */

static int copy_from(void *arg, const struct db_snap *row)
{
	struct copy *c = arg;
	struct snap_from *from = c->from;

	c->r = str_copy(c->id, sizeof(c->id), row->id);
	if (c->r == 0)
		c->r = str_copy(from->used, sizeof(from->used), row->template_used);
	if (c->r == 0)
		c->r = pairs_read(&from->env, row->env);
	if (c->r == 0)
		c->r = text_set(&from->user, row->run_user);
	if (c->r == 0)
		c->r = text_set(&from->workdir, row->workdir);
	from->tier = (enum wall)row->tier;
	from->limits = (struct plan_limits){ .memory_bytes = (uint64_t)row->memory_bytes,
		.disk_bytes = (uint64_t)row->disk_bytes,
		.cpu_milli = (uint32_t)row->cpu_milli,
		.pids = (uint32_t)row->pids };
	return 0;
}

int snap_open(struct hub *hub, const struct hub_caller *who, const char *text,
	struct snap_from *ret, struct hub_fail *f)
{
	struct copy c = { .from = ret };
	int fds[FILES] = { -1, -1, -1 }, r;
	struct err e = { 0 };

	*ret = (struct snap_from){ .files = { -1, -1, -1 }, .owned = true };
	r = get(hub, who, text, copy_from, &c, f);
	if (r == 0 && c.r < 0)
		r = hub_fail(f, HUB_INTERNAL, "snapshot '%s' cannot be read", c.id);
	if (r == 0 && open_files(hub, c.id, false, fds, &e) < 0)
		r = hub_fail_err(f, &e);
	if (r < 0) {
		snap_from_done(ret);
		return r;
	}
	ret->files = (struct snap){ fds[0], fds[1], fds[2] };
	return 0;
}

void snap_from_done(struct snap_from *from)
{
	int fds[FILES] = { from->files.state, from->files.memory, from->files.disk };

	if (from->owned)
		close_files(fds);
	pairs_done(&from->env);
	free(from->user);
	free(from->workdir);
	*from = (struct snap_from){ .files = { -1, -1, -1 } };
}

/* --- forks --- */

static void fork_over(struct hub_call *call)
{
	static const char why[] = "whoever asked for the fork had gone";
	struct snap_job *job = call->snap;

	for (unsigned i = 0; !call->fn.fork && i < job->count; i++) {
		struct sandbox *sb =
			job->ones[i].id[0] ? registry_find(call->hub, job->ones[i].id) : NULL;

		if (!sb || !lifecycle_allows(sb->state, HUB_STOPPING))
			continue;
		sandbox_move(sb, HUB_STOPPING, NULL, "%s", why);
		live_stop(sb, why);
	}
	call_done(call, NULL, true);
}

static void on_one(void *arg, const struct hub_fail *fail, const struct hub_box *box, bool changed)
{
	struct hub_call *call = arg;
	struct snap_job *job = call->snap;
	struct fork_one *one = &job->ones[job->count - job->left];

	/* Which of them it is does not matter: they are alike. */
	if (fail)
		one->fail = *fail;
	else
		str_copy(one->id, sizeof(one->id), box->id);
	if (--job->left == 0)
		fork_over(call);
}

static void make_forks(struct hub_call *call)
{
	struct snap_job *job = call->snap;
	struct snap_from from = { .files = { job->fds[0], job->fds[1], job->fds[2] } };
	struct hub_create req = { .timeout_ms = job->timeout_ms, .from = &from };
	struct hub_box box;

	sandbox_view(call->sb, &box);
	str_copy(from.used, sizeof(from.used), box.template_used);
	from.tier = box.tier;
	from.limits = call->sb->limits;
	req.template = box.template_asked;
	req.on_timeout = box.on_timeout;
	req.auto_resume = box.auto_resume;
	req.metadata = box.metadata;
	req.metadata_count = box.metadata_count;
	req.env = box.env;
	req.env_count = box.env_count;
	req.user = box.user;
	req.workdir = box.workdir;
	req.network = box.network;
	req.secure = box.envd_token != NULL;
	/* Their callbacks come from the loop, so none before all were asked for. */
	for (unsigned i = 0; i < job->count; i++)
		hub_create(call->hub, &job->who, &req, on_one, call);
}

static void on_fork_written(void *arg, struct link_call *c, const struct link_done *d)
{
	struct hub_call *call = arg;
	struct hub_fail f;

	call->asked = NULL;
	if (!lifecycle_is_live(call->sb->state)) {
		hub_fail(&f, HUB_NOT_FOUND, "sandbox '%s' has ended", call->sb->id);
		call_done(call, &f, false);
		return;
	}
	make_forks(call);
}

static void on_fork_failed(void *arg, struct link_call *c, const struct link_failed *fl)
{
	struct hub_call *call = arg;
	struct hub_fail f;

	call->asked = NULL;
	explain(call, fl, &f);
	call_done(call, &f, false);
}

void fork_tell(struct hub_call *call)
{
	struct snap_job *job = call->snap;
	struct hub_forked *list;
	struct hub_box *boxes;

	if (call->failed) {
		call->fn.fork(call->arg, &call->fail, NULL, 0);
		return;
	}
	list = calloc(job->count, sizeof(*list));
	boxes = calloc(job->count, sizeof(*boxes));
	if (!list || !boxes)
		abort();
	for (unsigned i = 0; i < job->count; i++) {
		struct sandbox *sb =
			job->ones[i].id[0] ? registry_find(call->hub, job->ones[i].id) : NULL;

		if (sb) {
			sandbox_view(sb, &boxes[i]);
			list[i].box = &boxes[i];
			continue;
		}
		if (!job->ones[i].fail.code)
			hub_fail(&job->ones[i].fail, HUB_NOT_FOUND, "the fork has ended already");
		list[i].fail = &job->ones[i].fail;
	}
	call->fn.fork(call->arg, NULL, list, job->count);
	free(list);
	free(boxes);
}

struct hub_call *hub_fork(struct hub *hub, const struct hub_caller *who, const char *id,
	unsigned count, int64_t timeout_ms, hub_fork_fn *fn, void *arg)
{
	static const struct link_handler handler = { .done = on_fork_written,
		.failed = on_fork_failed };
	struct hub_fail f = { 0 };
	struct hub_call *call = begin(hub, who, id, CALL_FORK, arg, &f);

	call->fn.fork = fn;
	call->snap = job_new(who, count <= HUB_FORKS_MAX ? count : 0);
	call->snap->timeout_ms = timeout_ms;
	if (!f.code && (!count || count > HUB_FORKS_MAX))
		hub_fail(&f, HUB_INVALID, "1 to %d forks at one time", HUB_FORKS_MAX);
	for (unsigned i = 0; !f.code && i < FILES; i++) {
		call->snap->fds[i] = memfd_create(file_names[i], MFD_CLOEXEC);
		if (call->snap->fds[i] < 0)
			hub_fail(&f, HUB_INTERNAL, "memory for the fork: %s", strerror(errno));
	}
	if (!f.code && ask(call, &handler, &f) == 0)
		record_audit(hub, who, "sandbox.fork", call->sb, NULL);
	if (f.code)
		call_done(call, &f, false);
	return call;
}
