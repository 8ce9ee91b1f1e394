/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/audit_view.c - a tenant's own lines of the audit log.
 *
 * Owns:  the rule of what is a tenant's own: lines that name it, and lines about sandboxes that one
 *        of its own lines named.
 * Rules: the log may be large: it is read on a worker, which sees nothing of the hub.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/str.h"
#include "hub/hub_impl.h"
#include "store/audit.h"
#include "store/state.h"

enum { OWN_IDS_MAX = 65536 };

struct view {
	char state_dir[WARD_PATH_MAX];
	char tenant[HUB_TENANT_MAX + 1];
	bool all;
	uint64_t after;
	unsigned limit;
	struct hub_call *call;
	/* Filled by the worker. */
	char **lines; /* a ring of @limit */
	uint64_t seen;
	char (*ids)[ID_LEN + 1]; /* of the tenant's sandboxes; open addressing */
	unsigned id_count;
	struct err e;
};

static unsigned slot_of(const struct view *v, const char *id)
{
	unsigned h = 2166136261u;

	for (const char *p = id; *p; p++)
		h = (h ^ (unsigned char)*p) * 16777619u;
	h %= OWN_IDS_MAX;
	while (v->ids[h][0] && !str_eq(v->ids[h], id))
		h = (h + 1) % OWN_IDS_MAX;
	return h;
}

/* The newest are what a view shows: when there are too many, the old ones are forgotten. */
static void add_id(struct view *v, const char *id)
{
	char *at = v->ids[slot_of(v, id)];

	if (at[0])
		return;
	if (v->id_count >= OWN_IDS_MAX / 4 * 3) {
		memset(v->ids, 0, OWN_IDS_MAX * sizeof(*v->ids));
		v->id_count = 0;
		at = v->ids[slot_of(v, id)];
	}
	str_copy(at, ID_LEN + 1, id);
	v->id_count++;
}

/* A supervisor's line may stand before the daemon's that says whose it is: ids come first. */
static bool is_own(struct view *v, const char *text, size_t len);

static int each_id(void *arg, const char *text, size_t len, const struct audit_line *line)
{
	if (line)
		is_own(arg, text + line->members_at, len - line->members_at);
	return 0;
}

/* The value of a member that json_str() wrote: our own lines, whose form is known. */
static bool member(const char *text, size_t len, const char *key, char *out, size_t cap)
{
	char want[96];
	const char *at, *end;

	str_fmt(want, sizeof(want), "\"%s\":\"", key);
	at = memmem(text, len, want, strlen(want));
	if (!at)
		return false;
	at += strlen(want);
	end = memchr(at, '"', len - (size_t)(at - text));
	if (!end || (size_t)(end - at) >= cap)
		return false;
	memcpy(out, at, (size_t)(end - at));
	out[end - at] = '\0';
	return true;
}

static bool is_own(struct view *v, const char *text, size_t len)
{
	char tenant[HUB_TENANT_MAX + 1], id[ID_LEN + 1];
	bool has_id = member(text, len, "id", id, sizeof(id)) && id[0];

	if (v->all)
		return true;
	if (member(text, len, "tenant", tenant, sizeof(tenant))) {
		if (!str_eq(tenant, v->tenant))
			return false;
		if (has_id)
			add_id(v, id);
		return true;
	}
	return has_id && v->ids[slot_of(v, id)][0];
}

static int each_line(void *arg, const char *text, size_t len, const struct audit_line *line)
{
	struct view *v = arg;
	char **at;

	/* Members are looked for behind what the chain owns. */
	if (!line || !is_own(v, text + line->members_at, len - line->members_at) ||
		line->seq <= v->after)
		return 0;
	at = &v->lines[v->seen++ % v->limit];
	free(*at);
	*at = strndup(text, len);
	return *at ? 0 : -ENOMEM;
}

static void read_log(void *arg)
{
	struct view *v = arg;
	own_fd int fd = -1;

	v->lines = calloc(v->limit, sizeof(*v->lines));
	v->ids = calloc(OWN_IDS_MAX, sizeof(*v->ids));
	if (!v->lines || !v->ids) {
		err_set(&v->e, ENOMEM, "reading the audit log");
	} else if (state_open_existing(v->state_dir, &fd, &v->e) == 0) {
		int r = v->all ? 0 : audit_each(fd, each_id, v, &v->e);

		if (r == 0)
			r = audit_each(fd, each_line, v, &v->e);
		if (r < 0 && !v->e.code)
			err_set(&v->e, -r, "reading the audit log");
	}
	free(v->ids);
	v->ids = NULL;
}

static void answer(struct view *v)
{
	unsigned count = v->seen < v->limit ? (unsigned)v->seen : v->limit;
	const char **lines = calloc(count + 1, sizeof(*lines));
	struct hub_fail f;

	if (v->e.code || !lines) {
		hub_fail(&f, HUB_INTERNAL, "%s", v->e.code ? v->e.msg : "out of memory");
		if (v->call->fn.audit)
			v->call->fn.audit(v->call->arg, &f, NULL, 0);
	} else {
		for (unsigned i = 0; i < count; i++)
			lines[i] = v->lines[(v->seen - count + i) % v->limit];
		if (v->call->fn.audit)
			v->call->fn.audit(v->call->arg, NULL, lines, count);
	}
	free(lines);
}

static void done(void *arg, bool wanted)
{
	struct view *v = arg;

	if (wanted) {
		v->call->job = NULL;
		answer(v);
		v->call->fn.audit = NULL;
		call_done(v->call, NULL, false);
	}
	for (unsigned i = 0; v->lines && i < v->limit; i++)
		free(v->lines[i]);
	free(v->lines);
}

struct hub_call *hub_audit(struct hub *hub, const struct hub_caller *who, uint64_t after_seq,
	unsigned limit, hub_audit_fn *fn, void *arg)
{
	struct hub_call *call = call_new(hub, CALL_AUDIT, NULL, arg);
	struct view v = { .all = who->is_operator, .after = after_seq, .call = call };
	struct err e = { 0 };
	struct hub_fail f;

	call->fn.audit = fn;
	v.limit = limit && limit < HUB_AUDIT_LINES_MAX ? limit : HUB_AUDIT_LINES_MAX;
	str_copy(v.state_dir, sizeof(v.state_dir), hub->state_dir);
	str_copy(v.tenant, sizeof(v.tenant), who->tenant);
	if (loop_work(hub->loop, &v, sizeof(v), read_log, done, &call->job, &e) < 0) {
		hub_fail_err(&f, &e);
		call_done(call, &f, false);
		return call;
	}
	call_list_add(&hub->working, call);
	return call;
}
