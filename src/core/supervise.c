/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/supervise.c - a sandbox that a daemon asked for: the same steps as `run`, then serve.
 *
 * Owns:  the order: the socket first, so that a daemon which restarts now finds it; then what
 *        core/launch.c does; then the sandbox's life; then everything is taken down before the end
 *        record says that it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "core/launch.h"
#include "core/run_report.h"
#include "core/supervise.h"
#include "host/host.h"
#include "store/state.h"
#include "sup/request.h"
#include "sup/serve.h"

enum { STATUS_WARD = 125 };

static const char *const no_command[] = { NULL };

static void fill_request(
	struct run_request *req, const struct supervise *in, const struct sup_request *q)
{
	*req = (struct run_request){
		.state_dir = in->state_dir,
		.traits = q->traits,
		.asked = q->asked,
		.accept_risk = q->accept_risk,
		.template_spec = q->template_spec,
		.limits = q->limits,
		.mount_count = q->mount_count,
		.upper = q->upper,
		.net = q->net,
		.workdir = q->workdir,
		.user = q->user,
		.argv = no_command,
		.quiet = true,
		.json_fd = -1,
		.live = true,
		.id = q->id,
		.hostname = q->hostname,
		.asked_by = q->asked_by,
		.caller = q->caller,
		.trace = q->trace,
		.from = q->from,
		.args = in->args,
		.args_len = in->args_len,
	};
	memcpy(req->mounts, q->mounts, q->mount_count * sizeof(q->mounts[0]));
	while (q->env && q->env[req->env_count]) {
		req->env[req->env_count] = q->env[req->env_count];
		req->env_count++;
	}
}

static void on_bound(void *arg, const char *caller, const char *trace)
{
	struct launch *l = arg;
	struct err e = { 0 };

	if (report_bound(l->state_fd, &l->plan, caller, trace, &e) < 0)
		fprintf(stderr, "ward sup: %s: %s\n", l->plan.id, e.msg);
}

static int act(struct launch *l, struct serve *s, const struct sup_request *q, struct err *e)
{
	struct serve_hooks hooks = {
		.commit = launch_commit,
		.idle = launch_sweep,
		.bound = on_bound,
		.arg = l,
	};
	/* Not the template's: a template's workdir is a default only where nobody named a user's
	 * home, and that is what the plan says already. */
	struct serve_defaults defaults = {
		.env = l->plan.env,
		.user = l->plan.user ? l->plan.user : q->user,
		.workdir = l->plan.workdir,
	};

	return serve_run(s, l->box, &l->plan, &l->decision, &defaults, &hooks, &l->trail, &l->seen,
		&l->end, e);
}

static void take_down(struct launch *l)
{
	trail_begin(&l->trail, STEP_CLEANUP);
	/* What could not be removed is tried again by the next sweep. */
	if (box_stop(l->box))
		slot_free(&l->slot);
	else
		slot_leave(&l->slot);
	l->box = NULL;
}

static int supervise(struct launch *l, struct serve *s, const struct sup_request *q, struct err *e)
{
	int r = launch_prepare(l, e);

	if (r == 0)
		r = act(l, s, q, e);
	if (r < 0)
		launch_end_setup(l, e);
	take_down(l);
	if (l->state_fd >= 0 && !l->end_written)
		launch_write_end(l, &l->end);
	return r;
}

/* It is made when it is missing, as for a run; checked in every case before anything is put in. */
static int check_state(const char *state_dir, struct err *e)
{
	own_fd int fd = -1;

	return state_open(state_dir, &fd, e);
}

static int read_order(const struct supervise *in, struct sup_order *ret, struct err *e)
{
	int r = sup_request_decode(in->request_fd, ret, e);

	if (r < 0)
		return r;
	if (in->id && !str_eq(in->id, ret->q.id)) {
		sup_order_done(ret);
		return err_say(
			e, EINVAL, "the request is for another sandbox than '%.40s'", in->id);
	}
	return 0;
}

/* The files that it goes on from stay open as long as it lives; without them nothing is there. */
static int take_from(const struct snap *from, struct err *e)
{
	if (!from)
		return host_close_range(SUP_FD_FROM, SUP_FD_FROM + 2);
	for (int fd = SUP_FD_FROM; fd < SUP_FD_FROM + 3; fd++)
		if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
			return err_say(e, EPROTO,
				"the request goes on from a snapshot, and descriptor %d is not "
				"open",
				fd);
	return 0;
}

static int serve_request(const struct supervise *in, struct ahead *ahead, struct err *e)
{
	own_fd int request = in->request_fd, link = in->link_fd;
	own_mem struct run_request *req = calloc(1, sizeof(*req));
	own_mem struct sup_order *order = calloc(1, sizeof(*order));
	struct launch *l;
	struct serve *s;
	int r;

	if (!req || !order)
		return err_set(e, ENOMEM, "starting"), STATUS_WARD;
	if (read_order(in, order, e) < 0)
		return STATUS_WARD;
	close(take_fd(&request));
	if (take_from(order->q.from, e) < 0) {
		sup_order_done(order);
		return STATUS_WARD;
	}
	fill_request(req, in, &order->q);
	r = check_state(in->state_dir, e);
	if (r == 0)
		r = serve_open(in->state_dir, &order->q, take_fd(&link), &s, e);
	l = r == 0 ? launch_create(req, "sup", e) : NULL;
	if (r == 0 && !l)
		serve_close(s, NULL, NULL);
	if (!l) {
		sup_order_done(order);
		return STATUS_WARD;
	}
	l->ahead = ahead;
	r = supervise(l, s, &order->q, e);
	serve_close(s, &l->end, &l->seen);
	launch_destroy(l);
	sup_order_done(order);
	return r < 0 ? STATUS_WARD : 0;
}

int core_supervise(const struct supervise *in, struct err *e)
{
	struct ahead *ahead = NULL;
	int r;

	if (in->ahead == WALL_NONE)
		return serve_request(in, NULL, e);
	r = ahead_make(in->state_dir, in->id, in->ahead, in->args, in->args_len, &ahead, e);
	*e = r == 0 ? (struct err){ 0 } : *e; /* what was tried on the way is of no interest */
	if (r == 0)
		r = ahead_wait(ahead, in->request_fd, e);
	if (r < 0) {
		ahead_drop(ahead);
		return r == -ENOTCONN ? 0 : STATUS_WARD;
	}
	r = serve_request(in, ahead, e);
	ahead_drop(ahead);
	return r;
}
