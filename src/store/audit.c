/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/audit.c - appends to the audit log.
 *
 * Owns:  audit/log and audit/head, under the lock of the head.
 * Rules: on the run path: ten calls, no heap, no fsync. The head says what is about to be written
 *        before it is, and what was written after: whatever moment a ward dies in, the next one
 *        knows which line was under way.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <sys/uio.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "store/audit_impl.h"
#include "store/state.h"

enum { PAUSE_FIRST_NS = 50000, PAUSE_LAST_NS = 2000000, REPAIR_MEMBERS_MAX = 1024 };

struct append {
	int state_fd, head_fd, log_fd;
	struct audit_head head;
};

int audit_lock(int head_fd, struct err *e)
{
	uint64_t end = clock_ns() + AUDIT_LOCK_WAIT_MS * 1000000ull;
	long pause_ns = PAUSE_FIRST_NS;
	int r;

	while ((r = host_lock_file(head_fd)) == -EAGAIN) {
		if (clock_ns() > end)
			return err_say(e, EBUSY,
				"another ward has held the audit log for more than %d ms",
				AUDIT_LOCK_WAIT_MS);
		nanosleep(&(struct timespec){ .tv_nsec = pause_ns }, NULL);
		if (pause_ns < PAUSE_LAST_NS)
			pause_ns *= 2;
	}
	return r < 0 ? err_set(e, -r, "locking audit/head") : 0;
}

static int open_in(int state_fd, const char *path, int flags, struct err *e)
{
	int fd;

	flags |= O_RDWR | O_CREAT | O_NOFOLLOW;
	fd = host_openat(state_fd, path, flags, 0600);

	if (fd == -ENOENT) {
		int r = state_fill(state_fd, e);

		if (r < 0)
			return r;
		fd = host_openat(state_fd, path, flags, 0600);
	}
	return fd < 0 ? err_set(e, -fd, "opening '%s' in the state directory", path) : fd;
}

static int put_head(struct append *a, struct err *e)
{
	char text[AUDIT_HEAD_BYTES + 1];
	ssize_t n;

	audit_head_format(&a->head, text);
	n = host_pwrite(a->head_fd, text, AUDIT_HEAD_BYTES, 0);
	if (n == AUDIT_HEAD_BYTES)
		return 0;
	return err_set(e, n < 0 ? (int)-n : ENOSPC, "writing audit/head");
}

/* The line was not written to its end: takes the part back, so that the log is as it was. */
static int take_back(struct append *a, int code, struct err *e)
{
	int r = host_ftruncate(a->log_fd, (off_t)a->head.tip.size);

	a->head.next_size = 0;
	if (r == 0)
		put_head(a, NULL); /* when this fails too, the next append sorts it out */
	return err_set(e, code, "appending to audit/log");
}

/* The bytes of a line, and the head that announces them. */
static int compose(struct append *a, const char *event, const struct buf *members,
	char front[AUDIT_FRONT_MAX], struct iovec iov[3], struct err *e)
{
	size_t more = members ? members->len : 0, len;
	char now[CLOCK_TEXT];
	struct sha256 sum;
	int r;

	clock_text(now);
	r = str_fmt(front, AUDIT_FRONT_MAX,
		"{\"seq\":%" PRIu64 ",\"ts\":\"%s\",\"prev\":\"%s\",\"event\":\"%s\"%s",
		a->head.tip.seq + 1, now, a->head.tip.hash, event, more ? "," : "");
	if (r < 0)
		return err_set(e, -r, "audit event '%s'", event);
	iov[0] = (struct iovec){ front, strlen(front) };
	iov[1] = (struct iovec){ more ? members->data : front, more };
	iov[2] = (struct iovec){ (char *)"}\n", 2 };
	len = iov[0].iov_len + more + 2;
	if (len - 1 > AUDIT_LINE_MAX)
		return err_say(e, E2BIG, "audit event '%s' is longer than %d bytes", event,
			AUDIT_LINE_MAX);
	sha256_init(&sum);
	sha256_add(&sum, front, iov[0].iov_len);
	sha256_add(&sum, iov[1].iov_base, more);
	sha256_add(&sum, "}", 1);
	sha256_end_hex(&sum, a->head.next_hash);
	a->head.next_size = a->head.tip.size + len;
	return 0;
}

/* One line, from the tip on. */
static int put_line(struct append *a, const char *event, const struct buf *members, struct err *e)
{
	char front[AUDIT_FRONT_MAX];
	struct iovec iov[3];
	ssize_t n;
	int r;

	r = compose(a, event, members, front, iov, e);
	if (r == 0)
		r = put_head(a, e);
	if (r < 0)
		return r;
	n = host_writev(a->log_fd, iov, 3);
	if (n < 0 || (uint64_t)n != a->head.next_size - a->head.tip.size)
		return take_back(a, n < 0 ? (int)-n : ENOSPC, e);
	a->head.tip.seq++;
	a->head.tip.size = a->head.next_size;
	memcpy(a->head.tip.hash, a->head.next_hash, sizeof(a->head.tip.hash));
	a->head.next_size = 0;
	audit_repair_init(&a->head.owed);
	return put_head(a, e);
}

/* Does the log end where the head says? One read tells: exactly one byte is left, a newline. */
static bool ends_at_tip(int log_fd, const struct audit_tip *tip)
{
	char last[2];

	if (tip->size == 0)
		return host_pread(log_fd, last, 1, 0) == 0;
	return host_pread(log_fd, last, 2, (off_t)tip->size - 1) == 1 && last[0] == '\n';
}

static int put_repair(struct append *a, struct err *e)
{
	const struct audit_repair *o = &a->head.owed;
	own_buf struct buf members;
	int r;

	buf_init(&members, REPAIR_MEMBERS_MAX);
	json_u64(&members, "removed", o->removed); /* these two first: audit_repaired_parse() */
	json_u64(&members, "headless", o->headless);
	json_u64(&members, "added", o->added);
	json_u64(&members, "torn_bytes", o->torn_bytes);
	json_str(&members, "torn_sha256", o->torn_bytes ? o->torn_hash : NULL);
	if (members.bad)
		return err_set(e, ENOMEM, "describing the repair of the audit log");
	/* The head owes this line from here on, also when we die before it is written. */
	r = put_head(a, e);
	if (r == 0)
		r = host_ftruncate(a->log_fd, (off_t)a->head.tip.size);
	if (r < 0)
		return err_set(e, -r, "cutting a torn line off audit/log");
	return put_line(a, "audit.repaired", &members, e);
}

/* Reads the head; brings head and log together when the last ward did not end its append. */
static int find_tip(struct append *a, struct err *e)
{
	char text[AUDIT_HEAD_BYTES + 1];
	ssize_t n = host_pread(a->head_fd, text, sizeof(text), 0);
	bool head_ok;
	int r;

	if (n < 0)
		return err_set(e, (int)-n, "reading audit/head");
	head_ok = audit_head_parse(text, (size_t)n, &a->head);
	if (head_ok && !a->head.next_size && audit_repair_is_none(&a->head.owed) &&
		ends_at_tip(a->log_fd, &a->head.tip))
		return 0;
	if (!head_ok) {
		audit_head_init(&a->head);
		a->head.owed.headless = n > 0; /* one that is empty may never have been written */
	}
	if (n != AUDIT_HEAD_BYTES) {
		r = host_ftruncate(a->head_fd, 0);
		if (r < 0)
			return err_set(e, -r, "clearing audit/head");
	}
	r = audit_recover(a->state_fd, a->log_fd, head_ok, &a->head, e);
	if (r == 0 && !audit_repair_is_none(&a->head.owed))
		r = put_repair(a, e);
	return r;
}

/* Sets a log that grew too long aside; the chain goes on in a new one. */
static int rotate(struct append *a, struct err *e)
{
	char name[AUDIT_NAME];
	struct stat st;
	int r;

	audit_rotated_name(name, a->head.first);
	if (host_fstatat(a->state_fd, name, &st, AT_SYMLINK_NOFOLLOW) != -ENOENT)
		return 0; /* never over another file: the log just goes on growing */
	/* audit_sync() only knows the current log, so this one is seen to the disk here. */
	r = host_fdatasync(a->log_fd);
	if (r == 0)
		r = host_renameat(a->state_fd, "audit/log", a->state_fd, name);
	if (r < 0)
		return err_set(e, -r, "setting audit/log aside as '%s'", name);
	host_close(a->log_fd);
	a->log_fd = open_in(a->state_fd, "audit/log", O_APPEND, e);
	if (a->log_fd < 0)
		return a->log_fd;
	a->head.first = a->head.tip.seq + 1;
	a->head.tip.size = 0;
	return 0;
}

static int append(struct append *a, const char *event, const struct buf *members,
	uint64_t rotate_bytes, struct err *e)
{
	int r = audit_lock(a->head_fd, e);

	if (r < 0)
		return r;
	a->log_fd = open_in(a->state_fd, "audit/log", O_APPEND, e);
	if (a->log_fd < 0)
		return a->log_fd;
	r = find_tip(a, e);
	if (r == 0 && a->head.tip.size >= rotate_bytes)
		r = rotate(a, e);
	return r < 0 ? r : put_line(a, event, members, e);
}

static int check_input(const char *event, const struct buf *members, struct err *e)
{
	size_t n = strspn(event, "abcdefghijklmnopqrstuvwxyz0123456789.-_");

	if (n == 0 || event[n] || n >= AUDIT_EVENT_MAX || str_eq(event, "audit.repaired"))
		return err_say(e, EINVAL, "'%.64s' cannot be the name of an audit event", event);
	if (members && members->bad)
		return err_say(e, E2BIG, "audit event '%s' is too long", event);
	if (members && members->len && memchr(members->data, '\n', members->len))
		return err_say(e, EINVAL, "audit event '%s' would span lines", event);
	return 0;
}

int audit_append_rotating(int state_fd, const char *event, const struct buf *members,
	uint64_t rotate_bytes, struct err *e)
{
	struct append a = { .state_fd = state_fd, .head_fd = -1, .log_fd = -1 };
	int r = check_input(event, members, e);

	if (r < 0)
		return r;
	a.head_fd = open_in(state_fd, "audit/head", 0, e);
	if (a.head_fd < 0)
		return a.head_fd;
	r = append(&a, event, members, rotate_bytes, e);
	if (a.log_fd >= 0)
		host_close(a.log_fd);
	host_close(a.head_fd); /* the lock goes with it */
	return r;
}

int audit_append(int state_fd, const char *event, const struct buf *members, struct err *e)
{
	return audit_append_rotating(state_fd, event, members, AUDIT_ROTATE_BYTES, e);
}

int audit_sync(int state_fd)
{
	/* The log first: a head that is behind its log is expected, the reverse means loss. */
	static const char *const files[] = { "audit/log", "audit/head" };

	for (unsigned i = 0; i < 2; i++) {
		own_fd int fd = host_openat(state_fd, files[i], O_RDONLY | O_NOFOLLOW, 0);
		int r;

		if (fd == -ENOENT)
			continue;
		r = fd < 0 ? fd : host_fdatasync(fd);
		if (r < 0)
			return r;
	}
	return 0;
}
