/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/run_report.c - what is written about a run: its audit lines and the object of --json.
 *
 * Owns:  the names of the fields; docs/JSON.md and docs/AUDIT.md list them.
 * Rules: the values of environment variables are never written, only their names: they may be keys.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/json.h"
#include "core/run.h"
#include "core/run_report.h"
#include "host/host.h"
#include "store/audit.h"

enum {
	RUN_REPORT_MAX = AUDIT_LINE_MAX - 1024,
	COMMAND_BYTES_MAX = 16384,
	COMMAND_WORD_MAX = 1024,
	NAME_MAX_SHOWN = 64
};

static const char *const net_names[] = {
	[NET_NONE] = "none", [NET_LOOPBACK] = "loopback", [NET_HOST] = "host"
};
static const char *const mode_names[] = {
	[MOUNT_RO] = "ro", [MOUNT_RW] = "rw", [MOUNT_OVERLAY] = "overlay"
};

static void add_command(struct buf *b, const char *const *argv)
{
	size_t start = b->len;

	json_array(b, "command");
	/* Escaped, a word can grow sixfold; what is past the limit is left out. */
	for (unsigned i = 0; argv && argv[i] && b->len - start < COMMAND_BYTES_MAX; i++)
		json_strn(b, NULL, argv[i], strnlen(argv[i], COMMAND_WORD_MAX));
	json_array_end(b);
}

static void add_decision(struct buf *b, const struct decision *d)
{
	json_str(b, "why", d->why);
	json_open(b, "decision");
	json_str(b, "least", wall_name(d->least));
	json_str(b, "recommended", wall_name(d->recommended));
	json_bool(b, "by_operator", d->by_operator);
	json_str(b, "accepted_risk", d->accepted_risk);
	json_array(b, "rules");
	for (unsigned i = 0; i < d->fired_count; i++)
		json_str(b, NULL, d->fired[i]->id);
	json_array_end(b);
	json_open(b, "traits");
	for (int i = 0; i < TRAIT_COUNT; i++)
		json_str(b, trait_option((enum trait)i)->name,
			trait_text(&d->traits, (enum trait)i));
	json_close(b);
	json_close(b);
}

static size_t name_len(const char *assignment)
{
	size_t n = strcspn(assignment, "=");

	return n < NAME_MAX_SHOWN ? n : NAME_MAX_SHOWN;
}

static void add_grants(struct buf *b, const struct plan *p)
{
	json_open(b, "grants");
	json_str(b, "net", net_names[p->net]);
	if (p->tap)
		json_str(b, "tap", p->tap);
	if (p->vsock)
		json_str(b, "vsock", p->vsock);
	json_array(b, "mounts");
	for (unsigned i = 0; i < p->mount_count; i++) {
		json_open(b, NULL);
		json_str(b, "source", p->mounts[i].src);
		json_str(b, "target", p->mounts[i].dst);
		json_str(b, "mode", mode_names[p->mounts[i].mode]);
		json_close(b);
	}
	json_array_end(b);
	json_array(b, "sources");
	for (unsigned i = 0; i < p->source_count; i++)
		json_str(b, NULL, p->sources[i].src);
	json_array_end(b);
	json_array(b, "env");
	for (unsigned i = 0; p->env && p->env[i]; i++)
		json_strn(b, NULL, p->env[i], name_len(p->env[i]));
	json_array_end(b);
	json_close(b);
}

static void add_limit(struct buf *b, const char *key, uint64_t value)
{
	if (value)
		json_u64(b, key, value);
	else
		json_null(b, key);
}

static void add_limits(struct buf *b, const struct plan_limits *l)
{
	json_open(b, "limits");
	add_limit(b, "memory_bytes", l->memory_bytes);
	add_limit(b, "disk_bytes", l->disk_bytes);
	add_limit(b, "output_bytes", l->output_bytes);
	if (l->io_rate[0])
		json_u64(b, "io_bytes_s", l->io_rate[0]);
	if (l->io_rate[1])
		json_u64(b, "io_ops_s", l->io_rate[1]);
	if (l->net_rate[0])
		json_u64(b, "net_bytes_s", l->net_rate[0]);
	if (l->net_rate[1])
		json_u64(b, "net_frames_s", l->net_rate[1]);
	if (l->boot_ms)
		json_u64(b, "boot_ms", l->boot_ms);
	add_limit(b, "timeout_ms", l->timeout_ms);
	add_limit(b, "pids", l->pids);
	add_limit(b, "cpu_milli", l->cpu_milli);
	json_close(b);
}

static void add_known(struct buf *b, const char *key, uint64_t value)
{
	if (value == UINT64_MAX)
		json_null(b, key);
	else
		json_u64(b, key, value);
}

static void add_end(struct buf *b, const struct run_end *end, const struct sighting *seen)
{
	json_str(b, "cause", end_cause_name(end->cause));
	json_str(b, "detail", end->detail[0] ? end->detail : NULL);
	if (end->step)
		json_str(b, "step", end->step);
	json_i64(b, "exit_status", end->status);
	if (end->has_code)
		json_i64(b, "code", end->code);
	if (end->has_signal)
		json_i64(b, "signal", end->code);
	json_array(b, "limits_hit");
	for (int i = 0; i < END_CAUSES; i++)
		if (end->limits_hit & 1u << i)
			json_str(b, NULL, end_cause_name((enum end_cause)i));
	json_array_end(b);
	json_array(b, "denials");
	for (unsigned i = 0; i < seen->denial_count; i++) {
		json_open(b, NULL);
		json_str(b, "what", seen->denials[i].what);
		json_u64(b, "count", seen->denials[i].count);
		json_close(b);
	}
	json_array_end(b);
	json_open(b, "unknown_calls");
	for (unsigned i = 0; i < end->usage.unknown_count; i++)
		json_u64(b, end->usage.unknown[i].name, end->usage.unknown[i].count);
	json_close(b);
}

static void add_usage(struct buf *b, const struct run_end *end, const struct sighting *seen)
{
	const struct usage *u = &end->usage;

	json_open(b, "usage");
	add_known(b, "cpu_us", u->cpu_us);
	add_known(b, "memory_peak_bytes", u->memory_peak_bytes);
	add_known(b, "written_bytes", u->written_bytes);
	add_known(b, "pids_peak", u->pids_peak);
	json_u64(b, "pids_refused", u->pids_refused);
	json_u64(b, "oom_kills", u->oom_kills);
	json_u64(b, "output_bytes", seen->output_bytes);
	json_close(b);
}

/* Who asked, where somebody else than the caller's uid did. */
static void add_caller(struct buf *b, const struct run_request *req)
{
	if (!req->live)
		return;
	json_str(b, "caller", req->caller);
	json_str(b, "asked_by", req->asked_by);
	json_str(b, "trace", req->trace);
}

int report_start(int state_fd, const struct plan *plan, const struct decision *decision,
	const struct run_request *req, struct err *e)
{
	struct buf b;
	int r;

	buf_init(&b, RUN_REPORT_MAX);
	json_str(&b, "id", plan->id);
	json_str(&b, "tier", wall_name(plan->wall));
	json_i64(&b, "uid", plan->caller_uid);
	add_caller(&b, req);
	add_decision(&b, decision);
	json_str(&b, "template", plan->root.name);
	add_command(&b, plan->argv);
	add_grants(&b, plan);
	add_limits(&b, &plan->limits);
	r = b.bad ? err_say(e, E2BIG, "the run's audit line is too long")
		  : audit_append(state_fd, "run.start", &b, e);
	buf_done(&b);
	return r;
}

int report_refusal(int state_fd, const struct plan *plan, const struct decision *decision,
	const struct run_request *req, const struct err *why, struct err *e)
{
	struct buf b;
	int r;

	buf_init(&b, RUN_REPORT_MAX);
	json_str(&b, "id", plan->id);
	json_i64(&b, "uid", plan->caller_uid);
	add_caller(&b, req);
	json_str(&b, "refused", why->msg);
	add_decision(&b, decision);
	add_command(&b, plan->argv);
	r = b.bad ? err_say(e, E2BIG, "the run's audit line is too long")
		  : audit_append(state_fd, "run.refused", &b, e);
	buf_done(&b);
	return r;
}

int report_bound(
	int state_fd, const struct plan *plan, const char *caller, const char *trace, struct err *e)
{
	struct buf b;
	int r;

	buf_init(&b, RUN_REPORT_MAX);
	json_str(&b, "id", plan->id);
	json_str(&b, "caller", caller);
	json_str(&b, "trace", trace);
	r = b.bad ? err_say(e, E2BIG, "the audit line is too long")
		  : audit_append(state_fd, "run.bound", &b, e);
	buf_done(&b);
	return r;
}

int report_end(int state_fd, const struct plan *plan, const struct sighting *seen,
	const struct run_end *end, struct err *e)
{
	struct buf b;
	int r;

	buf_init(&b, RUN_REPORT_MAX);
	json_str(&b, "id", plan->id);
	add_end(&b, end, seen);
	r = b.bad ? err_say(e, E2BIG, "the run's audit line is too long")
		  : audit_append(state_fd, "run.end", &b, e);
	buf_done(&b);
	return r;
}

int report_json(const struct report_input *in, int fd, struct err *e)
{
	uint64_t now = clock_ns();
	struct buf b;
	int r;

	buf_init(&b, RUN_REPORT_MAX);
	json_open(&b, NULL);
	json_str(&b, "id", in->plan->id);
	json_str(&b, "tier", wall_name(in->plan->wall));
	add_decision(&b, in->decision);
	json_str(&b, "template", in->plan->root.name);
	add_command(&b, in->plan->argv);
	add_end(&b, in->end, in->seen);
	trail_json(&b, "timings_us", in->trail, in->child, now);
	json_u64(&b, "total_us", (now - in->start_ns) / 1000);
	add_usage(&b, in->end, in->seen);
	add_limits(&b, &in->plan->limits);
	add_grants(&b, in->plan);
	json_bool(&b, "kept", in->kept);
	json_close(&b);
	buf_add_str(&b, "\n");
	r = b.bad ? err_say(e, E2BIG, "the --json report is too long")
		  : host_write_all(fd, b.data, b.len);
	if (r < 0 && !b.bad)
		err_set(e, -r, "writing the --json report");
	buf_done(&b);
	return r;
}
