/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/doctor.c - what the host has, and which tiers follow from it.
 *
 * Owns:  the table of what each tier rests on.
 * Rules: for a tier of this build its own probe decides; the table speaks for the others, so that
 *        one can see what a host is good for before installing a larger ward.
 */
#include <errno.h>
#include <stdio.h>

#include "base/ckd.h"
#include "base/limits.h"
#include "base/str.h"
#include "core/doctor.h"
#include "tier/tier.h"

enum { NEEDS_MAX = 4, PROVE_TIMEOUT_MS = 10 * 1000 };

/* clang-format off */
static const struct {
	enum wall wall;
	const char *what;
	const char *needs[NEEDS_MAX]; /* names of probes */
} tiers[] = {
	{ WALL_WORKSPACE, "an own working copy, Landlock, seccomp and rlimits", { "landlock" } },
	{ WALL_CONTAINER, "namespaces, cgroups, seccomp and an overlay root",
		{ "namespaces", "userns" } },
	{ WALL_KERNEL, "a userspace kernel answers every system call",
		{ "namespaces", "userns", "seccomp-notify" } },
	{ WALL_VM, "hardware: a small monitor on KVM", { "kvm" } },
	{ WALL_JS, "a V8 isolate in a jailed process", { "libnode", "userns" } },
	{ WALL_WASM, "a WebAssembly instance with WASI capabilities only", { "libnode", "userns" } },
};
/* clang-format on */

static const struct doctor_check *find_check(const struct doctor *d, const char *name)
{
	for (unsigned i = 0; i < d->check_count; i++)
		if (str_eq(d->checks[i].probe->name, name))
			return &d->checks[i];
	return NULL;
}

/* Adds the names of the checks that are not a yes to @out; true when there is none. */
static bool host_is_ready(const struct doctor *d, const char *const *needs, char *out, size_t cap)
{
	*out = '\0';
	for (unsigned i = 0; i < NEEDS_MAX && needs[i]; i++) {
		const struct doctor_check *c = find_check(d, needs[i]);
		size_t at = strlen(out);

		if (!c || c->result.state != PROBE_YES)
			snprintf(out + at, cap - at, "%s%s", at ? ", " : "", needs[i]);
	}
	return !*out;
}

static void ask_tier(struct probe_result *r, const void *arg)
{
	struct err e = { 0 };
	int err = tier_probe(arg, &e);

	r->state = err == 0 ? PROBE_YES : PROBE_NO;
	snprintf(r->found, sizeof(r->found), "%s", err == 0 ? "works" : e.msg);
}

static int examine_tier(
	const struct doctor *d, size_t row, const char *state_dir, struct doctor_tier *t)
{
	const struct tier_ops *ops = tier_by_wall(tiers[row].wall);
	struct probe_result r;
	struct err e = { 0 };
	char lacks[96];
	int err;

	*t = (struct doctor_tier){ .wall = tiers[row].wall, .built = ops != NULL };
	t->what = ops ? tier_what(ops) : tiers[row].what;
	if (ops)
		tier_calls(ops, &t->guest_calls, &t->own_calls);
	t->host_ready = host_is_ready(d, tiers[row].needs, lacks, sizeof(lacks));
	if (!ops) {
		snprintf(t->missing, sizeof(t->missing), "not in this build%s%s",
			t->host_ready ? "; the host has what it needs" : "; the host lacks ",
			lacks);
		return 0;
	}
	err = probe_isolated(ask_tier, ops, PROBE_TIMEOUT_MS, &r);
	if (err < 0)
		return err;
	t->available = r.state == PROBE_YES;
	if (!t->available) {
		snprintf(t->missing, sizeof(t->missing), "%s", r.found);
		return 0;
	}
	/* The host could. Was it set up, and does that work? */
	t->available = tier_ready(ops, state_dir, &e) == 0 &&
		       tier_prove(ops, state_dir, PROVE_TIMEOUT_MS, &e) == 0;
	if (!t->available)
		snprintf(t->missing, sizeof(t->missing), "%s", e.msg);
	return 0;
}

int doctor_examine(struct doctor *d, const char *state_dir, struct err *e)
{
	unsigned count;
	const struct probe *list = probe_list(&count);
	int r;

	*d = (struct doctor){ 0 };
	if (count > DOCTOR_CHECKS_MAX)
		return err_say(e, E2BIG, "more checks than the doctor has room for");
	for (unsigned i = 0; i < count; i++) {
		d->checks[i].probe = &list[i];
		r = probe_run(&list[i], &d->checks[i].result);
		if (r < 0)
			return err_set(e, -r, "starting the check '%s'", list[i].name);
		d->check_count++;
	}
	for (size_t i = 0; i < ARRAY_LEN(tiers); i++) {
		r = examine_tier(d, i, state_dir, &d->tiers[i]);
		if (r < 0)
			return err_set(e, -r, "starting the check of the %s tier",
				wall_name(tiers[i].wall));
		d->tier_count++;
	}
	return 0;
}
