/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/run.c - the verb `run`: decide, write down, do, and say how it ended.
 *
 * Owns:  the order of a run. The audit line and the slot are written before anything is made; the
 *        slot is given back when all of it is gone.
 * Rules: loads nothing that a run does not need; whatever can happen beside the command does.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "core/launch.h"
#include "core/run.h"
#include "core/run_report.h"
#include "store/kept.h"
#include "sup/sup.h"

enum { STATUS_WARD = 125 };

static int keep(struct launch *run, struct err *e)
{
	const struct plan *p = &run->plan;
	struct kept_record record = {
		.id = p->id,
		.tier = wall_name(p->wall),
		.created = run->created,
		.cause = end_cause_name(run->end.cause),
		.detail = run->end.detail[0] ? run->end.detail : NULL,
		.status = run->end.status,
		.argv = p->argv,
		.template_name = p->root.name,
	};

	char dir[WARD_PATH_MAX];
	int r = str_fmt(dir, sizeof(dir), "%s/boxes/%s", p->state_dir, p->id);

	if (r < 0)
		return err_say(e, -r, "the state directory's path is too long");
	r = template_keep(&run->tmpl, dir, e);
	if (r < 0)
		return r;
	record.undo = box_kept(run->box, &record.undo_count);
	return kept_write(run->state_fd, &record, e);
}

/* Start, wait, take down. An error after which something ran is an end like any other. */
static int act(struct launch *run, struct err *e)
{
	struct sup_hooks hooks = {
		.commit = launch_commit,
		.idle = launch_sweep,
		.late = launch_sync,
		.ended = launch_write_end,
		.arg = run,
	};
	int r = sup_run(run->box, &run->plan, &hooks, &run->trail, &run->seen, &run->end, e);

	if (r < 0)
		launch_end_setup(run, e);
	return r;
}

static void take_down(struct launch *run)
{
	struct err e = { 0 };

	trail_begin(&run->trail, STEP_CLEANUP);
	if (run->box && run->plan.keep && run->end.cause != END_SETUP_FAILED) {
		if (box_keep(run->box, &e) < 0 || keep(run, &e) < 0) {
			box_discard(run->box);
			fprintf(stderr, "ward run: keeping %s: %s\n", run->plan.id, e.msg);
		} else {
			run->kept = true;
		}
		if (run->kept && !run->req->quiet)
			fprintf(stderr, "ward run: kept as %s\n", run->plan.id);
	}
	if (box_stop(run->box)) {
		slot_free(&run->slot);
	} else {
		fprintf(stderr,
			"ward run: warning: not all of %s could be removed; 'ward gc' tries "
			"again\n",
			run->plan.id);
		slot_leave(&run->slot);
	}
	run->box = NULL;
}

/* One line for an end that the exit status alone does not explain. */
static void explain(const struct launch *run)
{
	const struct run_end *end = &run->end;

	if (run->seen.output_lost)
		fprintf(stderr, "ward run: writing the command's output: %s\n",
			strerror(run->seen.output_lost));
	/* A command that never ran is a failure, not an end. */
	if (run->req->quiet && end->cause != END_EXITED && end->cause != END_SETUP_FAILED)
		return;
	if ((end->cause == END_EXITED && !end->detail[0]) || end->cause == END_SIGNALED)
		return;
	if (end->cause == END_EXITED)
		fprintf(stderr, "ward run: %s\n", end->detail);
	else if (end->step)
		fprintf(stderr, "ward run: %s at step '%s': %s\n", end_cause_name(end->cause),
			end->step, end->detail);
	else
		fprintf(stderr, "ward run: %s: %s\n", end_cause_name(end->cause), end->detail);
}

static int report(struct launch *run, struct err *e)
{
	struct report_input in = {
		.plan = &run->plan,
		.decision = &run->decision,
		.seen = &run->seen,
		.end = &run->end,
		.trail = &run->trail,
		.child = &run->child_trail,
		.start_ns = run->start_ns,
		.kept = run->kept,
	};

	if (run->req->json_fd < 0)
		return 0;
	return report_json(&in, run->req->json_fd, e);
}

static int go(struct launch *run, struct err *e)
{
	int r = launch_prepare(run, e);

	return r < 0 ? r : act(run, e);
}

int core_run(const struct run_request *req, struct err *e)
{
	struct launch *run = launch_create(req, "run", e);
	struct err later = { 0 };
	int r, status;

	if (!run)
		return STATUS_WARD;
	r = go(run, e);
	if (r < 0 && run->end.cause != END_SETUP_FAILED)
		launch_end_setup(run, e);
	if (run->box)
		box_trail(run->box, &run->child_trail);
	take_down(run);
	if (run->state_fd >= 0 && !run->end_written)
		launch_write_end(run, &run->end);
	if (report(run, &later) < 0)
		fprintf(stderr, "ward run: warning: %s\n", later.msg);
	if (r == 0)
		explain(run);
	/* The command may think that all is well; whoever waits for its output must not. */
	status = run->seen.output_lost && run->end.status == 0 ? STATUS_WARD : run->end.status;
	launch_destroy(run);
	if (r == 0)
		*e = (struct err){ 0 };
	return status;
}
