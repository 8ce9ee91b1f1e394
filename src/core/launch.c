/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/launch.c - from a request to a sandbox that can be started: decide, resolve, write down.
 *
 * Owns:  the order up to the start, which `ward run` and the supervisor share. The slot is written
 *        before anything is made.
 * Rules: loads nothing that a run does not need; whatever can happen beside the command does.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#include "base/ckd.h"
#include "base/id.h"
#include "base/own.h"
#include "base/str.h"
#include "core/launch.h"
#include "core/run_report.h"
#include "core/sweep.h"
#include "host/host.h"
#include "store/audit.h"
#include "store/state.h"

enum { STATUS_WARD = 125, SWEEP_PER_RUN = 32 };

/* Above everything that Debian, systemd and /etc/subuid give out. */
#define ID_BASE 0x70000000u

/* What a run gets that asked for nothing. */
enum { DEFAULT_PIDS = 1024 };
static const uint64_t default_memory = 2ull << 30;

static const char *const base_env[LAUNCH_BASE_ENV] = {
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"LANG=C.UTF-8",
};

static const char *const root_env[LAUNCH_ROOT_ENV] = { "HOME=/root", "USER=root", "LOGNAME=root" };

/*
 * Which walls this build has, less those for which something must be set up first that is not
 * there. Whether the host can build the chosen one shows when it is built: a probe would cost as
 * much as the sandbox, and a wall that fails is never replaced by another.
 */
static unsigned ready_walls(
	const struct launch *l, struct err *why, const char *missing[WALL_COUNT])
{
	unsigned count, bits = 0;
	const struct tier_ops *const *tiers = tier_list(&count);

	for (unsigned i = 0; i < count; i++) {
		enum wall w = tier_wall(tiers[i]);
		/* One that was not asked for by hand when another was is of no interest. */
		bool matters = l->req->asked == WALL_NONE || l->req->asked == w;

		if (matters && tier_ready(tiers[i], l->req->state_dir, why) < 0)
			missing[w] = why->msg;
		else
			bits |= WALL_BIT(w);
	}
	return bits;
}

static int decide(struct launch *l, struct err *e)
{
	const char *missing[WALL_COUNT] = {
		[WALL_KERNEL] = "this build has no kernel tier",
		[WALL_VM] = "this build has no vm tier",
		[WALL_JS] = "this build has no js tier",
		[WALL_WASM] = "this build has no wasm tier",
	};
	struct err why = { 0 }; /* only one tier, vm, has anything to set up */
	struct policy_input in = {
		.traits = l->req->traits,
		.asked = l->req->asked,
		.accept_risk = l->req->accept_risk,
		.available = ready_walls(l, &why, missing),
		.missing = missing,
	};

	trail_begin(&l->trail, STEP_POLICY);
	return policy_decide(&in, &l->decision, e);
}

/* In the child: the other executable, through ward itself. */
static void exec_import(const struct launch *l, const char *spec, bool terminal, int out)
{
	char self[WARD_PATH_MAX], path[WARD_PATH_MAX];

	if (!terminal)
		dup2(out, 2);
	dup2(2, 1);
	if (host_self_dir(self, sizeof(self)) == 0 &&
		str_fmt(path, sizeof(path), "%s/ward", self) == 0)
		execl(path, "ward", "--state-dir", l->req->state_dir, "template", "import", spec,
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
static int import(const struct launch *l, const char *spec, struct err *e)
{
	bool terminal = isatty(2);
	char said[300] = "see above";
	int status, out[2];
	pid_t pid;

	if (pipe2(out, O_CLOEXEC) < 0)
		return err_set(e, errno, "making a pipe to import '%s'", spec);
	pid = fork();
	if (pid == 0)
		exec_import(l, spec, terminal, out[1]);
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

static int find_template(struct launch *l, struct err *e)
{
	const char *spec = l->req->template_spec ? l->req->template_spec : "host";
	int r;

	trail_begin(&l->trail, STEP_TEMPLATE);
	if (l->plan.wall == WALL_WORKSPACE) {
		if (l->req->template_spec)
			return err_say(e, EINVAL,
				"--template has no meaning at the workspace tier: it works on the "
				"host's own files");
		return 0;
	}
	if (l->req->workdir && l->req->workdir[0] != '/')
		return err_say(e, EINVAL,
			"--workdir '%s' must be absolute: only the workspace tier has a folder to "
			"start from",
			l->req->workdir);
	r = template_resolve(l->req->state_dir, spec, &l->tmpl, e);
	if (r == -ENOENT && l->tmpl.needs_import && l->req->live)
		return err_say(e, ENOENT,
			"template '%s' is not here; fetch it with 'ward template import'", spec);
	if (r == -ENOENT && l->tmpl.needs_import) {
		r = import(l, spec, e);
		if (r == 0)
			r = template_resolve(l->req->state_dir, spec, &l->tmpl, e);
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

static unsigned add_env(struct launch *l, unsigned n, const char *const *env, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!has_variable(l->env, n, env[i]))
			l->env[n++] = env[i];
	return n;
}

/* Later ones win: ward's, the template's, the caller's. None of ward's own environment gets in. */
static int fill_env(struct launch *l, struct err *e)
{
	const struct run_request *req = l->req;
	const char *const *from_template = l->tmpl.env;
	const char *term = getenv("TERM");
	unsigned n = 0, t = 0;

	for (unsigned i = req->env_count; i-- > 0;)
		if (!has_variable(l->env, n, req->env[i]))
			l->env[n++] = req->env[i];
	while (from_template && from_template[t])
		t++;
	if (t + n > ENV_VARS_MAX)
		return err_say(e, E2BIG, "the template and --env set more than %d variables",
			ENV_VARS_MAX);
	while (t-- > 0)
		if (!has_variable(l->env, n, from_template[t]))
			l->env[n++] = from_template[t];
	n = add_env(l, n, base_env, ARRAY_LEN(base_env));
	/* Anyone else's home is in the template's passwd, where the agent looks. The workspace tier
	 * has homes of its own. */
	if (!l->plan.user && l->plan.wall != WALL_WORKSPACE && !req->live)
		n = add_env(l, n, root_env, ARRAY_LEN(root_env));
	if (req->tty && str_fmt(l->term, sizeof(l->term), "TERM=%s", term ? term : "xterm") == 0 &&
		!has_variable(l->env, n, l->term))
		l->env[n++] = l->term;
	l->env[n] = NULL;
	return 0;
}

/* What only a machine has. */
static int check_machine(const struct launch *l, struct err *e)
{
	if (l->plan.wall != WALL_VM && l->req->tap)
		return err_say(e, EINVAL,
			"--tap is a network card of a virtual machine, and this is the %s tier: "
			"add --tier vm",
			wall_name(l->plan.wall));
	if (l->plan.wall != WALL_VM && l->req->cpu_template)
		return err_say(e, EINVAL,
			"--cpu-template is for the CPUs of a virtual machine, and this is the %s "
			"tier: add --tier vm",
			wall_name(l->plan.wall));
	/* What a daemon's configuration says for all is for machines alone. */
	if (l->plan.wall == WALL_VM || l->req->live)
		return 0;
	if (l->req->limits.io_rate[0])
		return err_say(e, EINVAL,
			"--io-rate is for the disk of a virtual machine, and this is the %s tier: "
			"add --tier vm",
			wall_name(l->plan.wall));
	if (l->req->limits.net_rate[0] || l->req->limits.boot_ms || l->req->vsock)
		return err_say(e, EINVAL,
			"--net-rate, --boot-timeout and --vsock are for a virtual machine, and "
			"this is the %s tier: add --tier vm",
			wall_name(l->plan.wall));
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
static void fill_plan(struct launch *l)
{
	const struct run_request *req = l->req;
	struct plan *p = &l->plan;

	p->state_dir = req->state_dir;
	memcpy(p->mounts, req->mounts, req->mount_count * sizeof(p->mounts[0]));
	p->mount_count = req->mount_count;
	memcpy(p->sources, req->sources, req->source_count * sizeof(p->sources[0]));
	p->source_count = req->source_count;
	p->upper = req->upper;
	p->net = req->net;
	p->tap = req->tap;
	p->tap_addr = req->tap_addr;
	p->cpu_template = req->cpu_template;
	p->vsock = req->vsock;
	p->limits = req->limits;
	fill_limits(&p->limits, p->wall);
	p->workdir = req->workdir;
	p->user = req->user;
	p->hostname = req->hostname ? req->hostname : p->id;
	p->tty = req->tty;
	p->keep = req->keep;
	p->report = req->json_fd >= 0 || req->live;
	p->live = req->live;
	p->from = req->from;
	p->caller_gid = getgid();
	p->args = req->args;
	p->args_len = req->args_len;
}

/* What the template adds where the caller said nothing. */
static int fill_from_template(struct launch *l, struct err *e)
{
	const struct run_request *req = l->req;
	struct plan *p = &l->plan;

	p->root = l->tmpl.root;
	if (!p->argv[0] && !req->live)
		p->argv = l->tmpl.cmd;
	if ((!p->argv || !p->argv[0]) && !req->live)
		return err_say(e, EINVAL,
			"no command: give one after '--' (this template has none of its own)");
	if (!p->workdir) {
		p->workdir = l->tmpl.workdir;
		p->workdir_made = p->workdir && !str_eq(p->workdir, "/");
	}
	if (!p->user)
		p->user = l->tmpl.user;
	if (p->user && is_root(p->user))
		p->user = NULL; /* what the agent is anyway; it need not look into passwd */
	p->env = l->env;
	return fill_env(l, e);
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

void launch_ids(struct plan *p, unsigned number)
{
	p->slot = number;
	if (geteuid() == 0)
		p->id_base = ID_BASE + number * SANDBOX_IDS;
}

/*
 * What was made ahead is this sandbox's from now on, if policy chose that wall: slot and record are
 * there already, and so is what they name. Else it goes, since both would have the same names.
 */
static void take_ahead(struct launch *l)
{
	struct ahead *a = l->ahead;

	if (!a)
		return;
	if (a->plan.wall != l->plan.wall) {
		ahead_undo(a);
		return;
	}
	l->slot = a->slot;
	l->state_fd = take_fd(&a->state_fd);
	l->plan.ahead = take_ptr(&a->box);
	a->slot.fd = -1;
	launch_ids(&l->plan, l->slot.number);
}

static int write_down(struct launch *l, struct err *e)
{
	struct plan *p = &l->plan;
	struct slot_record record = { .id = p->id, .tier = wall_name(p->wall), .argv = p->argv };
	int r;

	trail_begin(&l->trail, STEP_RECORD);
	r = slot_take(l->state_fd, p->id, &l->slot, e);
	if (r < 0)
		return r;
	launch_ids(p, l->slot.number);
	record.undo = box_undo(l->box, &record.undo_count);
	return slot_write(&l->slot, &record, e);
}

/* Before the command starts, the audit log knows of it. */
int launch_commit(void *arg, struct err *e)
{
	struct launch *l = arg;

	if (box_warning(l->box)[0] && !l->req->quiet)
		fprintf(stderr, "ward %s: warning: %s\n", l->name, box_warning(l->box));
	return report_start(l->state_fd, &l->plan, &l->decision, l->req, e);
}

/* Written while the kernel takes the sandbox down. */
void launch_write_end(void *arg, const struct run_end *end)
{
	struct launch *l = arg;
	struct err e = { 0 };

	l->end_written = true;
	if (report_end(l->state_fd, &l->plan, &l->seen, end, &e) < 0)
		fprintf(stderr, "ward %s: warning: %s\n", l->name, e.msg);
}

void launch_sweep(void *arg)
{
	struct launch *l = arg;

	core_sweep(l->state_fd, SWEEP_PER_RUN, &l->slot);
}

/*
 * After a while: the run is not one of the short ones, so its audit line goes to the disk now, in a
 * process of its own, because nothing interrupts an fsync and nobody should wait for it.
 */
void launch_sync(void *arg)
{
	struct launch *l = arg;
	pid_t pid = fork();

	if (pid == 0) {
		/* Twice, so that nobody has to reap it; without descriptors that others wait on,
		 * the template's lock and the sandbox's files among them: it may outlive both. */
		if (fork() == 0 && dup2(l->state_fd, 0) == 0 && host_close_from(1) == 0)
			audit_sync(0);
		_exit(0);
	}
	if (pid > 0)
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
}

void launch_end_setup(struct launch *l, const struct err *e)
{
	l->end = (struct run_end){ .cause = END_SETUP_FAILED, .status = STATUS_WARD };
	l->end.step = step_name(trail_current(&l->trail));
	str_fmt(l->end.detail, sizeof(l->end.detail), "%.*s", (int)sizeof(l->end.detail) - 1,
		e->msg);
	l->end.usage = (struct usage){ .cpu_us = UINT64_MAX,
		.memory_peak_bytes = UINT64_MAX,
		.written_bytes = UINT64_MAX,
		.pids_peak = UINT64_MAX };
}

/* A run that policy refuses is a decision too, and somebody asked for it. */
static int refuse(struct launch *l, int r, const struct err *e)
{
	struct err later = { 0 };

	if (state_open(l->req->state_dir, &l->state_fd, &later) < 0 ||
		report_refusal(l->state_fd, &l->plan, &l->decision, l->req, e, &later) < 0)
		fprintf(stderr, "ward %s: warning: %s\n", l->name, later.msg);
	l->end_written = true;
	return r;
}

static int make_id(struct launch *l, struct err *e)
{
	int r;

	if (l->req->id)
		return str_copy(l->plan.id, sizeof(l->plan.id), l->req->id);
	r = id_make(l->plan.id);
	return r < 0 ? err_set(e, -r, "making an id") : 0;
}

int launch_prepare(struct launch *l, struct err *e)
{
	int r = make_id(l, e);

	if (r < 0)
		return r;
	l->plan.argv = l->req->argv;
	l->plan.caller_uid = getuid();
	r = decide(l, e);
	if (r < 0)
		return refuse(l, r, e);
	l->plan.wall = l->decision.chosen;
	r = check_machine(l, e);
	if (r < 0)
		return r;
	fill_plan(l);
	add_resolver(&l->plan);
	take_ahead(l);
	r = box_prepare(&l->plan, &l->trail, &l->box, e);
	if (r == 0)
		r = find_template(l, e);
	if (r == 0)
		r = fill_from_template(l, e);
	if (r < 0 || l->plan.ahead)
		return r;
	trail_begin(&l->trail, STEP_RECORD);
	r = state_open(l->req->state_dir, &l->state_fd, e);
	return r < 0 ? r : write_down(l, e);
}

struct launch *launch_create(const struct run_request *req, const char *name, struct err *e)
{
	struct launch *l = calloc(1, sizeof(*l));

	if (!l) {
		err_set(e, ENOMEM, "starting");
		return NULL;
	}
	l->req = req;
	l->name = name;
	l->start_ns = clock_ns();
	l->state_fd = l->slot.fd = l->tmpl.hold_ = -1;
	clock_text(l->created);
	trail_begin(&l->trail, STEP_OPTIONS);
	return l;
}

void launch_destroy(struct launch *l)
{
	if (l->state_fd >= 0)
		close(l->state_fd);
	template_done(&l->tmpl);
	free(l);
}
