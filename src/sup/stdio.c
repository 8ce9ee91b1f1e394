/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/stdio.c - joins the command's stdin, stdout and stderr to ward's own.
 *
 * Owns:  the pipes it makes.
 * Rules: never changes the flags of a descriptor that ward inherited (others share it), so a write
 *        to one follows POLLOUT and stays within what a pipe then takes.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <linux/magic.h>

#include "base/own.h"
#include "host/host.h"
#include "sup/stdio.h"

static bool is_null(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);
}

void sink_open(struct sink *s, int fd)
{
	char path[32];
	struct stat st = { 0 };
	int again;

	*s = (struct sink){ .fd = fd, .most = PIPE_BUF };
	if (fstat(fd, &st) < 0)
		return;
	s->socket = S_ISSOCK(st.st_mode);
	/* A file never makes anyone wait for a reader, and /dev/null has none. */
	if (S_ISREG(st.st_mode) || is_null(&st))
		s->most = RELAY_BYTES;
	if ((!S_ISCHR(st.st_mode) && !S_ISFIFO(st.st_mode)) || is_null(&st))
		return;
	/* Opened anew it has flags of its own. Where that is not allowed, POLLOUT promises
	 * PIPE_BUF. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (again >= 0)
		*s = (struct sink){ .fd = again, .ours = true, .most = RELAY_BYTES };
}

void sink_close(struct sink *s)
{
	if (s->ours && s->fd >= 0)
		close(s->fd);
	*s = (struct sink){ .fd = -1 };
}

ssize_t sink_write(const struct sink *s, const void *data, size_t len)
{
	ssize_t n;

	if (len > s->most)
		len = s->most;
	n = s->socket ? send(s->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL)
		      : write(s->fd, data, len);
	return n < 0 ? -errno : n;
}

static bool is_anonymous_pipe(int fd, const struct stat *st)
{
	struct statfs fs;

	return S_ISFIFO(st->st_mode) && fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS_MAGIC;
}

/*
 * Whoever opens /dev/stdout inside opens the pipe anew, and its mode must allow that. Not by giving
 * it to the sandbox: a pipe can have several sandboxes at its end.
 */
static int open_to_all(int fd, bool needed, struct err *e)
{
	if (needed && fchmod(fd, 0666) < 0 && errno != EPERM)
		return err_set(e, errno, "opening a pipe to the sandbox");
	return 0; /* EPERM: another user's pipe; /dev/stdout does not work then, the descriptor does
		   */
}

static int make_pipe(int ret[2], bool reopen, struct err *e)
{
	int r = host_pipe(ret);

	if (r < 0)
		return err_set(e, -r, "making a pipe for the command");
	r = open_to_all(ret[0], reopen, e);
	if (r < 0) {
		close(ret[0]);
		close(ret[1]);
	}
	return r;
}

static int open_in(struct stdio *s, bool reopen, struct err *e)
{
	struct stat st = { 0 };
	int p[2], r;

	if (fstat(0, &st) == 0) {
		/* Read by the command alone, and no further than it likes. */
		if (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode)) {
			s->give[0] = 0;
			return is_anonymous_pipe(0, &st) ? open_to_all(0, reopen, e) : 0;
		}
	}
	r = make_pipe(p, reopen, e);
	if (r < 0)
		return r;
	s->give[0] = p[0];
	s->give_is_ours[0] = true;
	s->in = (struct relay){ .from = 0, .to = { p[1], true, false, RELAY_BYTES } };
	fcntl(p[1], F_SETFL, O_NONBLOCK);
	/* Closed, or /dev/null: an end of file at once, and nothing to wait for. */
	if (fcntl(0, F_GETFD) < 0 || is_null(&st)) {
		sink_close(&s->in.to);
		s->in.from = -1;
	}
	return 0;
}

static int open_out(struct stdio *s, int fd, bool reopen, struct err *e)
{
	struct stat st = { 0 };
	int p[2], r;

	if (fstat(fd, &st) < 0 && errno != EBADF)
		return err_set(e, errno, "looking at descriptor %d", fd);
	if (!s->out_max && is_anonymous_pipe(fd, &st)) {
		s->give[fd] = fd;
		return open_to_all(fd, reopen, e);
	}
	r = make_pipe(p, reopen, e);
	if (r < 0)
		return r;
	s->give[fd] = p[1];
	s->give_is_ours[fd] = true;
	s->out[fd - 1] = (struct relay){ .from = p[0], .from_is_ours = true };
	sink_open(&s->out[fd - 1].to, fd);
	return 0;
}

/* `2>&1`: one pipe for both, or the order of lines would be lost. */
static bool same_target(void)
{
	struct stat a, b;

	return fstat(1, &a) == 0 && fstat(2, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

int stdio_open(struct stdio *s, uint64_t out_max, bool reopen, struct err *e)
{
	int r;

	*s = (struct stdio){ .give = { -1, -1, -1 }, .out_max = out_max };
	s->in = s->out[0] = s->out[1] = (struct relay){ .from = -1, .to = { .fd = -1 } };
	r = open_in(s, reopen, e);
	if (r == 0)
		r = open_out(s, 1, reopen, e);
	if (r == 0 && same_target())
		s->give[2] = s->give[1];
	else if (r == 0)
		r = open_out(s, 2, reopen, e);
	if (r < 0)
		stdio_close(s);
	return r;
}

void stdio_given(struct stdio *s)
{
	for (int i = 0; i < 3; i++) {
		if (s->give_is_ours[i] && s->give[i] >= 0)
			close(s->give[i]);
		s->give_is_ours[i] = false;
		s->give[i] = -1;
	}
}

static void relay_close(struct relay *r)
{
	if (r->from >= 0 && r->from_is_ours)
		close(r->from);
	sink_close(&r->to);
	free(r->data);
	*r = (struct relay){ .from = -1, .to = { .fd = -1 } };
}

void stdio_close(struct stdio *s)
{
	stdio_given(s);
	relay_close(&s->in);
	relay_close(&s->out[0]);
	relay_close(&s->out[1]);
}

static unsigned relay_poll(const struct relay *r, struct pollfd *p)
{
	if (r->from < 0)
		return 0;
	*p = r->len ? (struct pollfd){ .fd = r->to.fd, .events = POLLOUT }
		    : (struct pollfd){ .fd = r->from, .events = POLLIN };
	return 1;
}

unsigned stdio_polls(struct stdio *s, struct pollfd *polls)
{
	unsigned n = relay_poll(&s->in, polls);

	n += relay_poll(&s->out[0], polls + n);
	n += relay_poll(&s->out[1], polls + n);
	return n;
}

/* Fills the empty buffer; false at the end of file. */
static bool relay_read(struct relay *r)
{
	ssize_t n;

	if (!r->data)
		r->data = malloc(RELAY_BYTES);
	if (!r->data)
		return false;
	n = read(r->from, r->data, RELAY_BYTES);
	if (n > 0) {
		r->at = 0;
		r->len = (size_t)n;
	}
	return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

/* One write; false when the other side is gone. */
static bool relay_write(struct stdio *s, struct relay *r)
{
	ssize_t n = sink_write(&r->to, r->data + r->at, r->len);

	if (n == -EINTR || n == -EAGAIN)
		return true;
	if (n < 0) {
		/* A reader that went away is the command's business: SIGPIPE tells it. */
		if (n != -EPIPE && r != &s->in && !s->lost)
			s->lost = (int)-n;
		return false;
	}
	r->at += (size_t)n;
	r->len -= (size_t)n;
	return true;
}

static void count_out(struct stdio *s, struct relay *r)
{
	s->out_bytes += r->len;
	if (!s->out_max || s->out_bytes <= s->out_max)
		return;
	r->len -= (size_t)(s->out_bytes - s->out_max) < r->len ? (size_t)(s->out_bytes - s->out_max)
							       : r->len;
	s->out_bytes = s->out_max;
	s->over = true;
}

static void relay_work(struct stdio *s, struct relay *r, const struct pollfd *p)
{
	bool good;

	if (!p->revents)
		return;
	if (r->len) {
		good = relay_write(s, r);
	} else if (p->revents == POLLHUP) {
		good = false; /* closed and empty: no room is needed to read that */
	} else {
		good = relay_read(r);
		if (good && r->len && r != &s->in)
			count_out(s, r);
	}
	/* Past its limit, what was read is the last. */
	if (!good || (s->over && r != &s->in && !r->len))
		relay_close(r);
}

void stdio_work(struct stdio *s, const struct pollfd *polls, unsigned count)
{
	struct relay *all[] = { &s->in, &s->out[0], &s->out[1] };

	for (unsigned i = 0; i < 3; i++) {
		struct relay *r = all[i];
		int want = r->from < 0 ? -1 : r->len ? r->to.fd : r->from;

		for (unsigned k = 0; want >= 0 && k < count; k++) {
			if (polls[k].fd == want) {
				relay_work(s, r, &polls[k]);
				break;
			}
		}
	}
}

void stdio_end_input(struct stdio *s)
{
	relay_close(&s->in);
}
