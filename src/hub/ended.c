/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/ended.c - the last step of a sandbox.
 *
 * Owns:  the way of an end record from its file into the database.
 * Rules: the file goes only after the database has it; reading it twice does no harm.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "hub/flight.h"
#include "hub/hub_impl.h"
#include "store/spare.h"

static struct db_end end_of(const char *id, const struct flight_record *r)
{
	return (struct db_end){
		.id = id,
		.cause = r->cause,
		.detail = r->detail,
		.step = r->step,
		.status = r->status,
		.at_us = r->ended_us,
		.report = r->report ? r->report : "",
		.output = { r->output, r->output_len },
		.samples = { r->sample_count ? r->samples : NULL,
			r->sample_count * sizeof(r->samples[0]) },
	};
}

/* What the daemon saw, when the supervisor could not say it: with the curve that was taken here. */
static void fill_seen(
	const struct sandbox *sb, const char *cause, const char *detail, struct flight_record *r)
{
	str_copy(r->cause, sizeof(r->cause), cause);
	record_text(r->detail, sizeof(r->detail), detail);
	r->status = 125;
	r->ended_us = clock_now_us();
	for (unsigned i = 0; sb && i < sb->sample_count; i++)
		r->samples[r->sample_count++] =
			sb->samples[(sb->sample_at + HUB_SAMPLES_KEPT - sb->sample_count + i) %
				    HUB_SAMPLES_KEPT];
}

/* True: there was a record. */
static bool load(struct hub *hub, const char *id, struct flight_record *r)
{
	char path[WARD_PATH_MAX];
	struct err e = { 0 };
	int k = sup_record_path(hub->state_dir, id, path);

	if (k == 0)
		k = flight_load(path, r, &e);
	if (k < 0 && k != -ENOENT)
		hub_log(hub, HUB_WARN, "end.record", NULL, id, "msg=\"%s\"", e.msg);
	return k == 0;
}

/* What it says is nobody's business any more; its file can serve the next one. */
static void remove_record(struct hub *hub, const char *id)
{
	char path[WARD_PATH_MAX], spare[WARD_PATH_MAX];
	own_fd int fd = -1;

	hub_point(hub, "record-in");
	if (sup_record_path(hub->state_dir, id, path) < 0)
		return;
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || ftruncate(fd, 1) < 0 ||
		str_fmt(spare, sizeof(spare), "%s/run/" SUP_SPARE_RECORD, hub->state_dir) < 0 ||
		spare_give(AT_FDCWD, path, spare, hub->spare_at++) < 0)
		unlink(path);
}

static int write_end(struct hub *hub, const char *id, const struct flight_record *r)
{
	struct db_end end = end_of(id, r);
	struct err e = { 0 };
	int k = db_end_insert(hub->db, &end, &e);

	if (k < 0) {
		hub->n.db_errors++;
		hub_log(hub, HUB_ERROR, "end.write", NULL, id, "msg=\"%s\"", e.msg);
	}
	return k;
}

static void say_end(struct sandbox *sb, const struct flight_record *r, bool failed)
{
	if (failed)
		sb->hub->n.failed++;
	else
		sb->hub->n.ended++;
	hub_log(sb->hub, failed ? HUB_WARN : HUB_INFO, "box.end", NULL, sb->id,
		"tenant=%s cause=%s step=%s msg=\"%s\"", sb->tenant ? sb->tenant->name : "-",
		r->cause, r->step[0] ? r->step : "-", r->detail);
}

void ended_finish(struct sandbox *sb, const char *cause, const char *detail)
{
	struct flight_record *r = calloc(1, sizeof(*r));
	struct hub *hub = sb->hub;
	struct db_end end;
	bool failed;

	if (!r)
		abort();
	if (!load(hub, sb->id, r))
		fill_seen(sb, cause, detail, r);
	failed = str_eq(r->cause, "setup-failed") || str_eq(r->cause, "supervisor-lost") ||
		 str_eq(r->cause, "protocol-error") || str_eq(r->cause, "machine-ended");
	if (sb->begun_ns) {
		hub->creating -= hub->creating > 0;
		hub->n.create_failed++;
		sb->begun_ns = 0;
	}
	if (sb->pool)
		pool_lost(sb);
	say_end(sb, r, failed);
	end = end_of(sb->id, r);
	sb->end = &end;
	sandbox_move(sb, failed ? HUB_FAILED : HUB_STOPPED, NULL, "%s%s%s", r->cause,
		r->detail[0] ? ": " : "", r->detail);
	hub->audit_lines++; /* its supervisor's own */
	tenant_release(sb);
	/* Not together with its step: perhaps alone. A restart puts the row right. */
	if (!sb->end || write_end(hub, sb->id, r) == 0)
		remove_record(hub, sb->id);
	sb->end = NULL;
	flight_done(r);
	free(r);
	pool_tend(hub);
}

bool ended_import(struct hub *hub, const char *id)
{
	struct flight_record *r = calloc(1, sizeof(*r));
	bool there;

	if (!r)
		abort();
	there = load(hub, id, r);
	if (there && write_end(hub, id, r) == 0)
		remove_record(hub, id);
	flight_done(r);
	free(r);
	return there;
}
