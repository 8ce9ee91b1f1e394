/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/ahead.c - a sandbox before there is a request for it.
 *
 * Owns:  the slot and the box, until a launch takes them.
 * Rules: as for every sandbox the slot says what is made before it is made. Whoever asked for it
 *        holds the other end of a socket: when that closes, all of it is undone, so a daemon that
 *        dies leaves none.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/own.h"
#include "base/str.h"
#include "core/ahead.h"
#include "core/launch.h"
#include "host/host.h"
#include "store/state.h"
#include "sup/link.h"
#include "tier/tier.h"

static const char *const no_command[] = { NULL };

static int write_down(struct ahead *a, struct err *e)
{
	struct plan *p = &a->plan;
	struct slot_record record = { .id = p->id, .tier = wall_name(p->wall), .argv = no_command };
	int r = slot_take(a->state_fd, p->id, &a->slot, e);

	if (r < 0)
		return r;
	launch_ids(p, a->slot.number);
	record.undo = box_undo(a->box, &record.undo_count);
	return slot_write(&a->slot, &record, e);
}

/* The numbers that a request's descriptors get must stay free until it comes. */
static int hold_places(struct err *e)
{
	own_fd int null = host_open("/dev/null", O_RDWR, 0);

	if (null < 0)
		return err_set(e, -null, "opening /dev/null");
	for (int fd = SUP_FD_LINK; fd < SUP_FD_FROM + 3; fd++)
		if (fd != null && dup3(null, fd, O_CLOEXEC) < 0)
			return err_set(e, errno, "holding descriptor %d", fd);
	/* It may itself have got one of the numbers. */
	if (null >= SUP_FD_LINK && null < SUP_FD_FROM + 3)
		null = -1;
	return 0;
}

int ahead_make(const char *state_dir, const char *id, enum wall wall, char *args, size_t args_len,
	struct ahead **ret, struct err *e)
{
	struct ahead *a = calloc(1, sizeof(*a));
	int r = a ? hold_places(e) : err_set(e, ENOMEM, "starting");

	if (r < 0) {
		free(a);
		return r;
	}
	a->state_fd = a->slot.fd = -1;
	a->plan = (struct plan){ .state_dir = state_dir,
		.wall = wall,
		.argv = no_command,
		.report = true,
		.live = true,
		.waits = true,
		.caller_uid = getuid(),
		.caller_gid = getgid(),
		.args = args,
		.args_len = args_len };
	r = str_copy(a->plan.id, sizeof(a->plan.id), id);
	if (r == 0)
		r = state_open(state_dir, &a->state_fd, e);
	if (r == 0)
		r = box_prepare(&a->plan, &a->trail, &a->box, e);
	if (r == 0)
		r = write_down(a, e);
	if (r == 0)
		r = box_start(a->box, &a->trail, e);
	if (r < 0) {
		ahead_drop(a);
		return r;
	}
	*ret = a;
	return 0;
}

void ahead_undo(struct ahead *a)
{
	if (box_stop(take_ptr(&a->box)))
		slot_free(&a->slot);
	else
		slot_leave(&a->slot);
	if (a->state_fd >= 0)
		close(take_fd(&a->state_fd));
}

void ahead_drop(struct ahead *a)
{
	if (a)
		ahead_undo(a);
	free(a);
}

/* Its first process has ended, with a reason or without. */
static int ended(const struct ahead *a, struct err *e)
{
	struct trail t;

	box_trail(a->box, &t);
	return err_say(e, EIO, "what was made ahead ended: %s", t.msg[0] ? t.msg : "killed");
}

/* Until it stands. */
static int stand(struct ahead *a, int sock, struct err *e)
{
	const struct box_fds *fds = box_fds(a->box);

	for (;;) {
		struct pollfd p[2] = { { .fd = fds->channel, .events = POLLIN },
			{ .fd = sock, .events = POLLIN } };
		int r;

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return err_set(e, errno, "waiting for what is made ahead");
		if (p[1].revents)
			return -ENOTCONN; /* nothing comes before we have spoken, but an end */
		r = p[0].revents ? box_waits(a->box, e) : -EAGAIN;
		if (r == -ENOTCONN)
			return ended(a, e);
		if (r != -EAGAIN)
			return r;
	}
}

static int take_request(int sock, struct err *e)
{
	int fds[5], r = 0;
	unsigned count = 0;
	char op;
	ssize_t n = host_recv_fds(sock, &op, 1, fds, 5, &count);

	if (n == 0 || n == -ECONNRESET)
		return -ENOTCONN;
	if (n < 0)
		return n == -EINTR || n == -EAGAIN ? -EAGAIN
						   : err_set(e, (int)-n, "waiting for a request");
	if (op != SUP_ASKS || (count != 2 && count != 5))
		r = err_say(e, EPROTO, "a request with %u descriptors makes no sense", count);
	for (unsigned i = 0; i < count; i++) {
		if (r == 0 && dup3(fds[i], SUP_FD_REQUEST + (int)i, O_CLOEXEC) < 0)
			r = err_set(e, errno, "placing a request's descriptors");
		close(fds[i]);
	}
	return r;
}

int ahead_wait(struct ahead *a, int sock, struct err *e)
{
	static const char waits[] = { SUP_WAITS };
	int r = stand(a, sock, e);

	signal(SIGPIPE, SIG_IGN);
	if (r == 0 && send(sock, waits, sizeof(waits), MSG_NOSIGNAL) < 0)
		r = -ENOTCONN;
	while (r == 0) {
		struct pollfd p[2] = { { .fd = sock, .events = POLLIN },
			{ .fd = box_fds(a->box)->pidfd, .events = POLLIN } };

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return err_set(e, errno, "waiting for a request");
		if (p[1].revents)
			return ended(a, e);
		r = p[0].revents ? take_request(sock, e) : 0;
		if (p[0].revents && r == 0)
			return 0;
		if (r == -EAGAIN)
			r = 0;
	}
	return r;
}
