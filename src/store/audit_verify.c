/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/audit_verify.c - walks the audit log and says where its chain is broken.
 *
 * Owns:  nothing; changes nothing.
 * Rules: takes the lock only to learn where the log ends at one moment. Lines are never changed
 *        after that, so the walk itself needs no lock and holds up nobody.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "store/audit_impl.h"

#define own_reader __attribute__((cleanup(audit_reader_done)))

/* The log at one moment. */
struct view {
	int log_fd; /* -1: there is none */
	uint64_t size;
	bool has_head, head_ok;
	struct audit_head head;
};

static int read_head(int state_fd, struct view *v, int *ret_fd, struct err *e)
{
	char text[AUDIT_HEAD_BYTES + 1];
	own_fd int fd = host_openat(state_fd, "audit/head", O_RDWR | O_NOFOLLOW, 0);
	ssize_t n;
	int r;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return err_set(e, -fd, "opening audit/head in the state directory");
	r = audit_lock(fd, e);
	if (r < 0)
		return r;
	n = host_pread(fd, text, sizeof(text), 0);
	if (n < 0)
		return err_set(e, (int)-n, "reading audit/head");
	v->has_head =
		n > 0; /* an empty one is what a ward leaves that died before its first line */
	v->head_ok = audit_head_parse(text, (size_t)n, &v->head);
	*ret_fd = take_fd(&fd);
	return 0;
}

static int view_open(int state_fd, struct view *v, struct err *e)
{
	own_fd int head_fd = -1; /* holds the lock until we know where the log ends */
	struct stat st;
	int r;

	*v = (struct view){ .log_fd = -1 };
	r = read_head(state_fd, v, &head_fd, e);
	if (r < 0)
		return r;
	v->log_fd = host_openat(state_fd, "audit/log", O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	if (v->log_fd == -ENOENT)
		return 0;
	r = v->log_fd < 0 ? v->log_fd : host_fstat(v->log_fd, &st);
	if (r < 0)
		return err_set(e, -r, "opening audit/log in the state directory");
	v->size = (uint64_t)st.st_size;
	return 0;
}

typedef int line_fn(void *arg, const char *file, uint64_t number, const struct audit_reader *r);

static int each_in(int fd, const char *file, uint64_t size, line_fn *each, void *arg, struct err *e)
{
	own_reader struct audit_reader r = { 0 };
	int rc = audit_reader_init(&r, fd, 0, size);

	for (uint64_t n = 1; rc >= 0 && (rc = audit_reader_next(&r)) > 0; n++) {
		rc = each(arg, file, n, &r);
		if (rc)
			return rc;
	}
	return rc < 0 ? err_set(e, -rc, "reading %s", file) : 0;
}

static bool is_same_file(int fd, const struct stat *other)
{
	struct stat st;

	return host_fstat(fd, &st) == 0 && st.st_dev == other->st_dev && st.st_ino == other->st_ino;
}

/* Every line of the logs that were set aside, in order, then of the current one. */
static int each_line(int state_fd, const struct view *v, line_fn *each, void *arg, struct err *e)
{
	uint64_t first = 0, next;
	int r;

	while ((r = audit_rotated_next(state_fd, first, &next)) > 0) {
		char name[AUDIT_NAME];
		own_fd int fd = -1;
		struct stat st;

		first = next;
		audit_rotated_name(name, first);
		fd = host_openat(state_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
		r = fd < 0 ? fd : host_fstat(fd, &st);
		if (r < 0)
			return err_set(e, -r, "opening %s in the state directory", name);
		/* Set aside since we looked: the one that we have open, and none after it. */
		if (v->log_fd >= 0 && is_same_file(v->log_fd, &st))
			break;
		r = each_in(fd, name, (uint64_t)st.st_size, each, arg, e);
		if (r)
			return r;
	}
	if (r < 0)
		return err_set(e, -r, "reading 'audit' in the state directory");
	return v->log_fd < 0 ? 0 : each_in(v->log_fd, "audit/log", v->size, each, arg, e);
}

struct place {
	char file[AUDIT_NAME];
	uint64_t number; /* of the line in that file */
};

/*
 * When a line does not carry the hash of the one before it, either of the two may have been
 * changed. The line after them tells: if that one still agrees with the second, it was the first.
 */
struct verify {
	struct audit_report *report;
	struct audit_tip tip;
	struct place here, before;
	bool in_doubt; /* between @before and @here */
};

static int broken(struct verify *v, const struct place *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int broken(struct verify *v, const struct place *at, const char *fmt, ...)
{
	va_list ap;

	v->report->state = AUDIT_BROKEN;
	v->report->line = at->number;
	str_copy(v->report->file, sizeof(v->report->file), at->file);
	va_start(ap, fmt);
	vsnprintf(v->report->why, sizeof(v->report->why), fmt, ap);
	va_end(ap);
	return 1;
}

static int end_doubt(
	struct verify *v, const struct place *before, const struct place *here, bool here_is_whole)
{
	if (here_is_whole && before->number)
		return broken(
			v, before, "it was edited: the line after it has another hash for it");
	return broken(
		v, here, "it was edited or put in: it does not carry the hash of the line before");
}

/* A repair that lost more than the torn line itself is a break that stays visible. */
static int check_repair(struct verify *v, const char *members, size_t len)
{
	uint64_t removed;
	bool headless;

	v->report->repairs++;
	if (!audit_repaired_parse(members, len, &removed, &headless))
		return broken(
			v, &v->here, "it says that the log was repaired, but not what was lost");
	if (headless)
		return broken(v, &v->here,
			"audit/head had been lost when this line was written: "
			"lines removed before it could not have been noticed");
	if (removed)
		return broken(v, &v->here,
			"%" PRIu64 " lines before this one had been removed when it was written",
			removed);
	return 0;
}

static int check_order(struct verify *v, const struct audit_line *line)
{
	if (line->seq > v->tip.seq + 1)
		return broken(v, &v->here,
			"lines are missing before it: it is number %" PRIu64 ", expected %" PRIu64,
			line->seq, v->tip.seq + 1);
	if (line->seq <= v->tip.seq)
		return broken(v, &v->here,
			"it does not belong here: it is number %" PRIu64 ", expected %" PRIu64,
			line->seq, v->tip.seq + 1);
	return 0;
}

static int verify_line(void *arg, const char *file, uint64_t number, const struct audit_reader *r)
{
	struct place older;
	struct verify *v = arg;
	struct audit_line line;
	bool ours;

	if (!r->whole && r->len <= AUDIT_LINE_MAX && str_eq(file, "audit/log")) {
		v->report->torn_bytes = r->len; /* can only be the last one */
		return 0;
	}
	older = v->before;
	v->before = v->here;
	v->here.number = number;
	str_copy(v->here.file, sizeof(v->here.file), file);
	ours = r->whole && audit_line_parse(r->text, r->len, &line);
	if (v->in_doubt)
		return end_doubt(v, &older, &v->before, ours && str_eq(line.prev, v->tip.hash));
	if (!ours)
		return broken(v, &v->here, "it is not a line that ward writes");
	if (check_order(v, &line))
		return 1;
	v->in_doubt = !str_eq(line.prev, v->tip.hash);
	v->tip.seq = line.seq;
	sha256_hex(r->text, r->len, v->tip.hash);
	if (v->in_doubt)
		return 0;
	v->report->lines++;
	return str_eq(line.event, "audit.repaired")
		       ? check_repair(v, r->text + line.members_at, r->len - line.members_at)
		       : 0;
}

/* The end of the log against what the head says it is. */
static int verify_end(struct verify *v, const struct view *view)
{
	const struct audit_head *h = &view->head;
	const struct place whole = { .file = "audit/log" };
	bool same = view->head_ok && str_eq(v->tip.hash, h->tip.hash);
	bool announced = view->head_ok && h->next_size && str_eq(v->tip.hash, h->next_hash);
	uint64_t missing;

	if (v->in_doubt)
		return end_doubt(v, &v->before, &v->here, same || announced);
	if (!view->head_ok && (view->has_head || v->tip.seq || v->report->torn_bytes))
		return broken(v, &whole,
			"audit/head is missing or damaged: removed last lines could not be "
			"noticed");
	if (!view->head_ok)
		return 0;
	if (h->owed.removed || h->owed.headless)
		return broken(
			v, &whole, "%" PRIu64 " lines were removed from the end", h->owed.removed);
	if (same || announced)
		return 0;
	if (v->tip.seq > h->tip.seq)
		return broken(v, &v->here,
			"audit/head does not know the last %" PRIu64
			" lines: they were added by another hand, or the machine stopped; "
			"the next append records that",
			v->tip.seq - h->tip.seq);
	if (v->tip.seq == h->tip.seq)
		return broken(v, &v->here, "it was edited: audit/head has another hash for it");
	missing = h->tip.seq - v->tip.seq;
	if (missing == 1 && v->report->torn_bytes)
		return 0;
	return broken(v, &whole, "%" PRIu64 " lines were removed from the end", missing);
}

int audit_verify(int state_fd, struct audit_report *ret, struct err *e)
{
	struct audit_head fresh;
	struct verify v = { .report = ret };
	struct view view;
	int r;

	*ret = (struct audit_report){ .state = AUDIT_OK };
	audit_head_init(&fresh);
	v.tip = fresh.tip;
	r = view_open(state_fd, &view, e);
	if (r == 0)
		r = each_line(state_fd, &view, verify_line, &v, e);
	if (r == 0)
		r = verify_end(&v, &view);
	if (view.log_fd >= 0)
		host_close(view.log_fd);
	if (r == 0 && ret->torn_bytes) {
		ret->state = AUDIT_TORN;
		ret->line = v.here.number + 1;
		str_copy(ret->file, sizeof(ret->file), "audit/log");
		str_fmt(ret->why, sizeof(ret->why),
			"the last line is torn, %" PRIu64 " bytes of it are there; nothing before "
			"it is lost; the next append repairs it",
			ret->torn_bytes);
	}
	return r < 0 ? r : 0;
}

struct each {
	int (*fn)(void *arg, const char *text, size_t len, const struct audit_line *line);
	void *arg;
};

static int hand_on(void *arg, const char *file, uint64_t number, const struct audit_reader *r)
{
	const struct each *each = arg;
	struct audit_line line;
	bool ours = r->whole && audit_line_parse(r->text, r->len, &line);

	(void)file;
	(void)number;
	return each->fn(each->arg, r->text, r->len, ours ? &line : NULL);
}

int audit_each(int state_fd,
	int (*each)(void *arg, const char *text, size_t len, const struct audit_line *line),
	void *arg, struct err *e)
{
	struct each both = { .fn = each, .arg = arg };
	struct view view;
	int r = view_open(state_fd, &view, e);

	if (r == 0)
		r = each_line(state_fd, &view, hand_on, &both, e);
	if (view.log_fd >= 0)
		host_close(view.log_fd);
	return r;
}
