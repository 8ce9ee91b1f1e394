/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/run.c - the verb `run`: decide, write down, do, and say how it ended.
 *
 * Owns:  the order of a run. The audit line and the slot are written before anything is made; the
 *        slot is given back when all of it is gone.
 * Rules: loads nothing that a run does not need; whatever can happen beside the command does.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "core/run.h"
#include "core/run_report.h"
#include "core/sweep.h"
#include "host/host.h"
#include "host/tree.h"
#include "store/audit.h"
#include "store/kept.h"
#include "store/slot.h"
#include "store/state.h"
#include "sup/sup.h"
#include "template/template.h"
#include "tier/tier.h"

enum { STATUS_WARD = 125, SWEEP_PER_RUN = 32 };

/* Above everything that Debian, systemd and /etc/subuid give out. */
#define ID_BASE 0x70000000u

/* What a run gets that asked for nothing. */
enum { DEFAULT_PIDS = 1024 };
static const uint64_t default_memory = 2ull << 30;

static const char *const base_env[] = {
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"LANG=C.UTF-8",
};

static const char *const root_env[] = { "HOME=/root", "USER=root", "LOGNAME=root" };

struct run {
	const struct run_request *req;
	struct trail trail;
	struct decision decision;
	struct template tmpl;
	struct plan plan;
	const char *env[ENV_VARS_MAX + ARRAY_LEN(base_env) + ARRAY_LEN(root_env) + 2];
	int state_fd;
	struct slot slot;
	struct box *box;
	struct sighting seen;
	struct trail child_trail;
	struct run_end end;
	uint64_t start_ns;
	char created[CLOCK_TEXT];
	char term[64];
	bool end_written, kept;
};

/* Which walls this build has. Whether the host can build the chosen one shows when it is built: a
 * probe would cost as much as the sandbox, and a wall that fails is never replaced by another. */
static unsigned built_walls(void)
{
	unsigned count, bits = 0;
	const struct tier_ops *const *tiers = tier_list(&count);

	for (unsigned i = 0; i < count; i++)
		bits |= WALL_BIT(tier_wall(tiers[i]));
	return bits;
}

static int decide(struct run *run, struct err *e)
{
	static const char *const missing[WALL_COUNT] = {
		[WALL_KERNEL] = "this build has no kernel tier",
		[WALL_VM] = "this build has no vm tier",
		[WALL_JS] = "this build has no js tier",
		[WALL_WASM] = "this build has no wasm tier",
	};
	struct policy_input in = {
		.traits = run->req->traits,
		.asked = run->req->asked,
		.accept_risk = run->req->accept_risk,
		.available = built_walls(),
		.missing = missing,
	};

	trail_begin(&run->trail, STEP_POLICY);
	return policy_decide(&in, &run->decision, e);
}

/* In the child: the other executable, through ward itself. */
static void exec_import(const struct run *run, const char *spec, bool terminal, int out)
{
	char path[WARD_PATH_MAX];

	if (!terminal)
		dup2(out, 2);
	dup2(2, 1);
	if (str_fmt(path, sizeof(path), "%s/ward", run->req->self_dir) == 0)
		execl(path, "ward", "--state-dir", run->req->state_dir, "template", "import", spec,
			terminal ? (char *)NULL : "--quiet", (char *)NULL);
	_exit(STATUS_WARD);
}

/* All that it said, as one line without the name of the command. */
static void read_words(int from, char *out, size_t cap)
{
	static const char name[] = "ward template: ";
	size_t len = 0, skip = 0;
	ssize_t n;

	while (len < cap - 1 &&
		((n = read(from, out + len, cap - 1 - len)) > 0 || (n < 0 && errno == EINTR)))
		len += n > 0 ? (size_t)n : 0;
	out[len] = '\0';
	if (str_after(out, name))
		skip = sizeof(name) - 1;
	memmove(out, out + skip, len - skip + 1);
	out[strcspn(out, "\n")] = '\0';
}

/*
 * An image that is not here yet is fetched by the other executable. On a terminal it shows its
 * progress there; otherwise what it says is kept, and becomes the error when it fails.
 */
static int import(const struct run *run, const char *spec, struct err *e)
{
	bool terminal = isatty(2);
	char said[300] = "see above";
	int status, out[2];
	pid_t pid;

	if (pipe2(out, O_CLOEXEC) < 0)
		return err_set(e, errno, "making a pipe to import '%s'", spec);
	pid = fork();
	if (pid == 0)
		exec_import(run, spec, terminal, out[1]);
	close(out[1]);
	if (pid < 0) {
		close(out[0]);
		return err_set(e, errno, "forking to import '%s'", spec);
	}
	if (!terminal)
		read_words(out[0], said, sizeof(said));
	close(out[0]);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_set(e, errno, "waiting for the import of '%s'", spec);
	if (status != 0)
		return err_say(e, ENOENT, "--template %s could not be imported: %s", spec, said);
	return 0;
}

static int find_template(struct run *run, struct err *e)
{
	const char *spec = run->req->template_spec ? run->req->template_spec : "host";
	int r;

	trail_begin(&run->trail, STEP_TEMPLATE);
	if (run->plan.wall == WALL_WORKSPACE) {
		if (run->req->template_spec)
			return err_say(e, EINVAL,
				"--template has no meaning at the workspace tier: it works on the "
				"host's own files");
		return 0;
	}
	if (run->req->workdir && run->req->workdir[0] != '/')
		return err_say(e, EINVAL,
			"--workdir '%s' must be absolute: only the workspace tier has a folder to "
			"start from",
			run->req->workdir);
	r = template_resolve(run->req->state_dir, spec, &run->tmpl, e);
	if (r == -ENOENT && run->tmpl.needs_import) {
		r = import(run, spec, e);
		if (r == 0)
			r = template_resolve(run->req->state_dir, spec, &run->tmpl, e);
	}
	return r;
}

static bool has_variable(const char *const *env, unsigned count, const char *assignment)
{
	size_t n = strcspn(assignment, "=") + 1;

	for (unsigned i = 0; i < count; i++)
		if (strncmp(env[i], assignment, n) == 0)
			return true;
	return false;
}

static bool is_root(const char *user)
{
	return str_eq(user, "0") || str_eq(user, "root") || str_eq(user, "0:0") ||
	       str_eq(user, "root:root");
}

static unsigned add_env(struct run *run, unsigned n, const char *const *env, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!has_variable(run->env, n, env[i]))
			run->env[n++] = env[i];
	return n;
}

/* Later ones win: ward's, the template's, the caller's. None of ward's own environment gets in. */
static int fill_env(struct run *run, struct err *e)
{
	const struct run_request *req = run->req;
	const char *const *from_template = run->tmpl.env;
	const char *term = getenv("TERM");
	unsigned n = 0, t = 0;

	for (unsigned i = req->env_count; i-- > 0;)
		if (!has_variable(run->env, n, req->env[i]))
			run->env[n++] = req->env[i];
	while (from_template && from_template[t])
		t++;
	if (t + n > ENV_VARS_MAX)
		return err_say(e, E2BIG, "the template and --env set more than %d variables",
			ENV_VARS_MAX);
	while (t-- > 0)
		if (!has_variable(run->env, n, from_template[t]))
			run->env[n++] = from_template[t];
	n = add_env(run, n, base_env, ARRAY_LEN(base_env));
	/* Anyone else's home is in the template's passwd, where the agent looks. The workspace tier
	 * has homes of its own. */
	if (!run->plan.user && run->plan.wall != WALL_WORKSPACE)
		n = add_env(run, n, root_env, ARRAY_LEN(root_env));
	if (req->tty &&
		str_fmt(run->term, sizeof(run->term), "TERM=%s", term ? term : "xterm") == 0 &&
		!has_variable(run->env, n, run->term))
		run->env[n++] = run->term;
	run->env[n] = NULL;
	return 0;
}

static void fill_limits(struct plan_limits *l, enum wall wall)
{
	if (!l->memory_bytes && wall != WALL_WORKSPACE)
		l->memory_bytes = default_memory;
	if (!l->pids)
		l->pids = DEFAULT_PIDS;
	/* On a tmpfs, what is written is memory: half of it, so that the other half can compute. */
	if (!l->disk_bytes && wall != WALL_WORKSPACE)
		l->disk_bytes = l->memory_bytes / 2;
}

/* What is known before the template is. */
static void fill_plan(struct run *run)
{
	const struct run_request *req = run->req;
	struct plan *p = &run->plan;

	p->state_dir = req->state_dir;
	memcpy(p->mounts, req->mounts, req->mount_count * sizeof(p->mounts[0]));
	p->mount_count = req->mount_count;
	memcpy(p->sources, req->sources, req->source_count * sizeof(p->sources[0]));
	p->source_count = req->source_count;
	p->upper = req->upper;
	p->net = req->net;
	p->limits = req->limits;
	fill_limits(&p->limits, p->wall);
	p->workdir = req->workdir;
	p->user = req->user;
	p->hostname = p->id;
	p->tty = req->tty;
	p->keep = req->keep;
	p->report = req->json_fd >= 0;
	p->caller_gid = getgid();
	p->args = req->args;
	p->args_len = req->args_len;
}

/* What the template adds where the caller said nothing. */
static int fill_from_template(struct run *run, struct err *e)
{
	struct plan *p = &run->plan;

	p->root = run->tmpl.root;
	if (!p->argv[0])
		p->argv = run->tmpl.cmd;
	if (!p->argv || !p->argv[0])
		return err_say(e, EINVAL,
			"no command: give one after '--' (this template has none of its own)");
	if (!p->workdir)
		p->workdir = run->tmpl.workdir;
	if (!p->user)
		p->user = run->tmpl.user;
	if (p->user && is_root(p->user))
		p->user = NULL; /* what the agent is anyway; it need not look into passwd */
	p->env = run->env;
	return fill_env(run, e);
}

/* The name server of the host, for a sandbox that shares its network. */
static void add_resolver(struct plan *p)
{
	for (unsigned i = 0; i < p->mount_count; i++)
		if (str_eq(p->mounts[i].dst, "/etc/resolv.conf"))
			return;
	if (p->net == NET_HOST && p->wall == WALL_CONTAINER && p->mount_count < MOUNTS_MAX &&
		access("/etc/resolv.conf", R_OK) == 0)
		p->mounts[p->mount_count++] =
			(struct plan_mount){ "/etc/resolv.conf", "/etc/resolv.conf", MOUNT_RO };
}

static int write_down(struct run *run, struct err *e)
{
	struct plan *p = &run->plan;
	struct slot_record record = { .id = p->id, .tier = wall_name(p->wall), .argv = p->argv };
	int r;

	trail_begin(&run->trail, STEP_RECORD);
	r = slot_take(run->state_fd, p->id, &run->slot, e);
	if (r < 0)
		return r;
	p->slot = run->slot.number;
	if (geteuid() == 0)
		p->id_base = ID_BASE + p->slot * SANDBOX_IDS;
	record.undo = box_undo(run->box, &record.undo_count);
	return slot_write(&run->slot, &record, e);
}

/* Before the command starts, the audit log knows of it. */
static int commit(void *arg, struct err *e)
{
	struct run *run = arg;

	if (box_warning(run->box)[0] && !run->req->quiet)
		fprintf(stderr, "ward run: warning: %s\n", box_warning(run->box));
	return report_start(run->state_fd, &run->plan, &run->decision, e);
}

/* Written while the kernel takes the sandbox down. */
static void write_end(void *arg, const struct run_end *end)
{
	struct run *run = arg;
	struct err e = { 0 };

	run->end_written = true;
	if (report_end(run->state_fd, &run->plan, &run->seen, end, &e) < 0)
		fprintf(stderr, "ward run: warning: %s\n", e.msg);
}

static void sweep_beside(void *arg)
{
	struct run *run = arg;

	core_sweep(run->state_fd, SWEEP_PER_RUN, &run->slot);
}

/*
 * After a while: the run is not one of the short ones, so its audit line goes to the disk now, in a
 * process of its own, because nothing interrupts an fsync and nobody should wait for it.
 */
static void sync_beside(void *arg)
{
	struct run *run = arg;
	pid_t pid = fork();

	if (pid == 0) {
		/* Twice, so that nobody has to reap it; without descriptors that others wait on,
		 * the template's lock and the sandbox's files among them: it may outlive both. */
		if (fork() == 0 && dup2(run->state_fd, 0) == 0 && host_close_from(1) == 0)
			audit_sync(0);
		_exit(0);
	}
	if (pid > 0)
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
}

static void run_end_setup(struct run *run, const struct err *e)
{
	run->end = (struct run_end){ .cause = END_SETUP_FAILED, .status = STATUS_WARD };
	run->end.step = step_name(trail_current(&run->trail));
	str_fmt(run->end.detail, sizeof(run->end.detail), "%.*s", (int)sizeof(run->end.detail) - 1,
		e->msg);
	run->end.usage =
		(struct usage){ UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, 0, 0, false };
}

static int keep(struct run *run, struct err *e)
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
static int act(struct run *run, struct err *e)
{
	struct sup_hooks hooks = {
		.commit = commit,
		.idle = sweep_beside,
		.late = sync_beside,
		.ended = write_end,
		.arg = run,
	};
	int r = sup_run(run->box, &run->plan, &hooks, &run->trail, &run->seen, &run->end, e);

	if (r < 0)
		run_end_setup(run, e);
	return r;
}

static void take_down(struct run *run)
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
static void explain(const struct run *run)
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

static int report(struct run *run, struct err *e)
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

/* A run that policy refuses is a decision too, and somebody asked for it. */
static int refuse(struct run *run, int r, const struct err *e)
{
	struct err later = { 0 };

	if (state_open(run->req->state_dir, &run->state_fd, &later) < 0 ||
		report_refusal(run->state_fd, &run->plan, &run->decision, e, &later) < 0)
		fprintf(stderr, "ward run: warning: %s\n", later.msg);
	run->end_written = true;
	return r;
}

static int go(struct run *run, struct err *e)
{
	int r = id_make(run->plan.id);

	if (r < 0)
		return err_set(e, -r, "making an id");
	run->plan.argv = run->req->argv;
	run->plan.caller_uid = getuid();
	r = decide(run, e);
	if (r < 0)
		return refuse(run, r, e);
	run->plan.wall = run->decision.chosen;
	fill_plan(run);
	add_resolver(&run->plan);
	r = box_prepare(&run->plan, &run->trail, &run->box, e);
	if (r == 0)
		r = find_template(run, e);
	if (r == 0)
		r = fill_from_template(run, e);
	if (r < 0)
		return r;
	trail_begin(&run->trail, STEP_RECORD);
	r = state_open(run->req->state_dir, &run->state_fd, e);
	if (r == 0)
		r = write_down(run, e);
	if (r < 0)
		return r;
	return act(run, e);
}

int core_run(const struct run_request *req, struct err *e)
{
	struct run *run = calloc(1, sizeof(*run));
	struct err later = { 0 };
	int r, status;

	if (!run) {
		err_set(e, ENOMEM, "starting");
		return STATUS_WARD;
	}
	run->req = req;
	run->start_ns = clock_ns();
	run->state_fd = run->slot.fd = run->tmpl.hold_ = -1;
	clock_text(run->created);
	trail_begin(&run->trail, STEP_OPTIONS);
	r = go(run, e);
	if (r < 0 && run->end.cause != END_SETUP_FAILED)
		run_end_setup(run, e);
	if (run->box)
		box_trail(run->box, &run->child_trail);
	take_down(run);
	if (run->state_fd >= 0 && !run->end_written)
		write_end(run, &run->end);
	if (report(run, &later) < 0)
		fprintf(stderr, "ward run: warning: %s\n", later.msg);
	if (r == 0)
		explain(run);
	/* The command may think that all is well; whoever waits for its output must not. */
	status = run->seen.output_lost && run->end.status == 0 ? STATUS_WARD : run->end.status;
	if (run->state_fd >= 0)
		close(run->state_fd);
	template_done(&run->tmpl);
	free(run);
	if (r == 0)
		*e = (struct err){ 0 };
	return status;
}
