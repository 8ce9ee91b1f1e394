/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/audit_repair.c - finds the true end of an audit log whose last writer did not finish.
 *
 * Owns:  audit/torn-*: bytes that were cut off the log, kept for whoever wants to look.
 * Rules: under the lock of the head. Takes nothing away but what follows the last good line, and
 *        that is copied first. What was found is owed to the log as an "audit.repaired" line.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "store/audit_impl.h"

enum { COPY_BYTES = 4096 };

#define own_reader __attribute__((cleanup(audit_reader_done)))

static void set_tip(
	struct audit_tip *tip, const struct audit_reader *r, const struct audit_line *line)
{
	tip->seq = line->seq;
	tip->size = r->start + r->len + 1;
	sha256_hex(r->text, r->len, tip->hash);
}

/* The last line of the file that is one of ours; *@ret_first is the number of its first one. */
static int last_line(int fd, uint64_t size, struct audit_tip *tip, uint64_t *ret_first)
{
	own_reader struct audit_reader r = { 0 };
	struct audit_line line;
	bool any = false;
	int rc = audit_reader_init(&r, fd, 0, size);

	while (rc >= 0 && (rc = audit_reader_next(&r)) > 0) {
		if (!r.whole || !audit_line_parse(r.text, r.len, &line))
			continue;
		set_tip(tip, &r, &line);
		if (!any)
			*ret_first = line.seq;
		any = true;
	}
	return rc < 0 ? rc : any;
}

/* The end of the newest log that was set aside; 0 when there is none. */
static int last_rotated(int state_fd, struct audit_tip *tip)
{
	uint64_t first = 0, next, ignored;
	char name[AUDIT_NAME];
	own_fd int fd = -1;
	struct stat st;
	int r;

	while ((r = audit_rotated_next(state_fd, first, &next)) > 0)
		first = next;
	if (r < 0 || first == 0)
		return r;
	audit_rotated_name(name, first);
	fd = host_openat(state_fd, name, O_RDONLY | O_NOFOLLOW, 0);
	r = fd < 0 ? fd : host_fstat(fd, &st);
	if (r == 0)
		r = last_line(fd, (uint64_t)st.st_size, tip, &ignored);
	return r;
}

/* Ends the tip at the last line that can be read, wherever that is. */
static int rescan(int state_fd, int log_fd, uint64_t size, struct audit_head *h)
{
	struct audit_head fresh;
	int r = last_line(log_fd, size, &h->tip, &h->first);

	if (r != 0)
		return r;
	audit_head_init(&fresh);
	h->tip = fresh.tip;
	r = last_rotated(state_fd, &h->tip);
	h->tip.size = 0;
	h->first = h->tip.seq + 1;
	return r;
}

/* Goes on over lines that continue the chain; counts those that the head did not announce. */
static int walk_on(int log_fd, uint64_t size, struct audit_head *h, uint64_t *ret_added)
{
	own_reader struct audit_reader r = { 0 };
	struct audit_line line;
	int rc = audit_reader_init(&r, log_fd, h->tip.size, size);

	*ret_added = 0;
	while (rc >= 0 && (rc = audit_reader_next(&r)) > 0) {
		if (!r.whole || !audit_line_parse(r.text, r.len, &line) ||
			line.seq != h->tip.seq + 1 || !str_eq(line.prev, h->tip.hash))
			break;
		set_tip(&h->tip, &r, &line);
		if (h->next_size == h->tip.size && str_eq(h->next_hash, h->tip.hash)) {
			/* The line that its writer could not confirm; a repair, if one was owed. */
			audit_repair_init(&h->owed);
			continue;
		}
		++*ret_added;
	}
	return rc < 0 ? rc : 0;
}

/* Copies what follows the tip to audit/torn-<line>-<time>. */
static int save_torn(int state_fd, int log_fd, uint64_t size, struct audit_head *h)
{
	char name[AUDIT_NAME], chunk[COPY_BYTES];
	uint64_t at = h->tip.size;
	struct timespec now;
	struct sha256 sum;
	own_fd int fd = -1;
	int r;

	clock_gettime(CLOCK_REALTIME, &now);
	r = str_fmt(name, sizeof(name), "audit/torn-%" PRIu64 "-%lld.%09ld", h->tip.seq + 1,
		(long long)now.tv_sec, now.tv_nsec);
	if (r < 0)
		return r;
	fd = host_openat(state_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fd;
	sha256_init(&sum);
	while (at < size) {
		size_t want = size - at < sizeof(chunk) ? (size_t)(size - at) : sizeof(chunk);
		ssize_t n = host_pread(log_fd, chunk, want, (off_t)at);

		if (n <= 0)
			return n < 0 ? (int)n : -EIO;
		sha256_add(&sum, chunk, (size_t)n);
		r = host_write_all(fd, chunk, (size_t)n);
		if (r < 0)
			return r;
		at += (uint64_t)n;
	}
	h->owed.torn_bytes = size - h->tip.size;
	sha256_end_hex(&sum, h->owed.torn_hash);
	return 0;
}

/* Was the log set aside by a ward that died before it could tell the head? */
static bool was_rotated(int state_fd, const struct audit_head *h)
{
	char name[AUDIT_NAME];
	struct stat st;

	audit_rotated_name(name, h->first);
	return host_fstatat(state_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       (uint64_t)st.st_size == h->tip.size;
}

static bool newline_before(int fd, uint64_t at)
{
	char c;

	return at == 0 || (host_pread(fd, &c, 1, (off_t)at - 1) == 1 && c == '\n');
}

int audit_recover(int state_fd, int log_fd, bool head_ok, struct audit_head *h, struct err *e)
{
	uint64_t known, size, added = 0;
	bool torn, had_torn;
	struct stat st;
	int r = host_fstat(log_fd, &st);

	if (r < 0)
		return err_set(e, -r, "looking at audit/log");
	size = (uint64_t)st.st_size;
	if (head_ok && size < h->tip.size && was_rotated(state_fd, h)) {
		h->first = h->tip.seq + 1;
		h->tip.size = 0;
	}
	known = head_ok ? h->tip.seq : 0;
	if (!head_ok) {
		r = rescan(state_fd, log_fd, size, h);
		if (r >= 0 && (h->tip.seq || size))
			h->owed.headless = 1;
	} else if (size < h->tip.size || !newline_before(log_fd, h->tip.size)) {
		r = rescan(state_fd, log_fd, size, h);
	}
	if (r >= 0)
		r = walk_on(log_fd, size, h, &added);
	had_torn = h->owed.torn_bytes > 0;
	torn = r >= 0 && size > h->tip.size;
	if (torn)
		r = save_torn(state_fd, log_fd, size, h);
	if (r < 0)
		return err_set(e, -r, "repairing the end of audit/log");
	/* The torn bytes are one of the lines that are missing; a second look counts none twice. */
	if (known > h->tip.seq + (torn && !had_torn))
		h->owed.removed += known - h->tip.seq - (torn && !had_torn);
	h->owed.added += added;
	h->next_size = 0;
	return 0;
}
